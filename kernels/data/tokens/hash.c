#include "kernels/data/tokens/hash.h"

#include "core/base/assert.h"
#include "kernels/host/cores.h"
#include "kernels/host/read_progress.h"
#include "kernels/host/team.h"

#include <pthread.h>
#include <sodium.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { PIECE_BYTES = 1 << 20 }; /* bytes read at once */
enum { THREADS_MOST = 16 };     /* as many threads as read faster than any disk */

typedef struct reading {
    const gw_plain_file *files;
    const gw_token_form *forms;
    uint32_t count;
    gw_token_content *contents;
    gw_read_progress progress;
    _Atomic uint32_t next; /* the next file to begin */
    pthread_mutex_t lock;  /* guards the two fields below */
    uint32_t failed;       /* number of the first file that failed; `count`: none */
    gw_err err;
} reading;

static inline uint32_t largest_of(const uint8_t *bytes, size_t count, uint32_t width) {
    uint32_t largest = 0;
    for (size_t i = 0; i < count / width; i++) {
        uint32_t token = gw_token_at(bytes, width, i);
        largest = token > largest ? token : largest;
    }
    return largest;
}

/* Each width has a loop of its own, without branches. */
static uint32_t largest_in(const uint8_t *bytes, size_t count, uint32_t width) {
    if (width == 1) return largest_of(bytes, count, 1);
    return width == 2 ? largest_of(bytes, count, 2) : largest_of(bytes, count, 4);
}

/* Reads one file. `piece` is a buffer of PIECE_BYTES. */
static bool read_file(reading *r, uint32_t number, uint8_t *piece, gw_err *err) {
    const gw_plain_file *file = &r->files[number];
    const gw_token_form *form = &r->forms[number];
    gw_token_content *content = &r->contents[number];
    crypto_generichash_state state;
    content->largest = 0;
    crypto_generichash_init(&state, NULL, 0, sizeof content->hash);
    for (uint64_t at = 0, length; at < file->bytes; at += length) {
        bool head = at == 0 && form->head > 0;
        uint64_t most = head ? form->head : PIECE_BYTES;
        length = file->bytes - at < most ? file->bytes - at : most;
        if (!gw_plain_read(file, at, piece, length, err)) return false;
        crypto_generichash_update(&state, piece, length);
        uint32_t largest = head ? 0 : largest_in(piece, length, form->width);
        if (largest > content->largest) content->largest = largest;
        gw_read_progress_add(&r->progress, file->path, length);
    }
    crypto_generichash_final(&state, content->hash.bytes, sizeof content->hash);
    return true;
}

/* Reads files until none is left. Files are begun in order and read to their end, so that the first of the
 * failing files is begun before any later one fails, at whatever speeds the threads run. */
static bool read_files(void *context, uint32_t member, gw_err *err) {
    reading *r = context;
    uint8_t *piece = malloc(PIECE_BYTES);
    (void)member;
    if (piece == NULL) return gw_fail(err, GW_E_NOMEM, "no memory to read data");
    for (uint32_t i; (i = atomic_fetch_add(&r->next, 1)) < r->count;) {
        gw_err failure;
        if (read_file(r, i, piece, &failure)) continue;
        atomic_store(&r->next, r->count);
        pthread_mutex_lock(&r->lock);
        if (i < r->failed) {
            r->failed = i;
            r->err = failure;
        }
        pthread_mutex_unlock(&r->lock);
    }
    free(piece);
    return true;
}

static bool read_together(reading *r, uint32_t threads, gw_err *err) {
    gw_team *team = gw_team_open(threads, err);
    bool done = team != NULL && gw_team_run(team, read_files, r, err);
    gw_team_close(team);
    return done;
}

uint32_t gw_token_hash_threads(void) {
    uint32_t cores = gw_cores();
    return cores < THREADS_MOST ? cores : THREADS_MOST;
}

bool gw_token_hash(const gw_plain_file *files, const gw_token_form *forms, uint32_t count, uint32_t threads,
                   gw_token_content *contents, gw_err *err) {
    GW_ASSERT(count >= 1 && threads >= 1);
    for (uint32_t i = 0; i < count; i++) GW_ASSERT(forms[i].head <= PIECE_BYTES);
    reading r = {.files = files,
                 .forms = forms,
                 .count = count,
                 .contents = contents,
                 .lock = PTHREAD_MUTEX_INITIALIZER,
                 .failed = count};
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < count; i++) bytes += files[i].bytes;
    gw_read_progress_begin(&r.progress, bytes);
    if (!read_together(&r, threads < count ? threads : count, err)) return false;
    if (r.failed < count) {
        *err = r.err;
        return false;
    }
    gw_read_progress_end(&r.progress);
    return true;
}
