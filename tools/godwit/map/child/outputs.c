#include "tools/godwit/map/child/outputs.h"

#include "core/base/assert.h"
#include "core/base/wire.h"
#include "core/os/durable.h"
#include "tools/godwit/flock/children.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PART_BYTES = 1 << 20 };

#define DOUBTFUL_BYTES                                                                                       \
    (UINT64_C(64) << 20) /* at the end of a file: a crash may have kept them from the disk */

static const uint8_t MAGIC[] = {'G', 'W', 'M', 'O'};

bool gw_outputs_read_head(const void *bytes, gw_outputs_head *head) {
    gw_reader r = gw_reader_on(bytes, GW_OUTPUTS_HEAD_BYTES);
    const uint8_t *magic = gw_get_view(&r, sizeof MAGIC);
    head->task = gw_get_u32(&r);
    head->attempt = gw_get_u32(&r);
    head->output = gw_get_u64(&r);
    head->errors = gw_get_u64(&r);
    head->files = gw_get_u64(&r);
    gw_get_bytes(&r, head->sum, sizeof head->sum);
    return memcmp(magic, MAGIC, sizeof MAGIC) == 0 && head->output <= INT64_MAX / 4 &&
           head->errors <= INT64_MAX / 4 && head->files <= INT64_MAX / 4;
}

static void write_head(uint8_t bytes[GW_OUTPUTS_HEAD_BYTES], const gw_outputs_head *head) {
    gw_writer w = gw_writer_on(bytes, GW_OUTPUTS_HEAD_BYTES);
    gw_put_bytes(&w, MAGIC, sizeof MAGIC);
    gw_put_u32(&w, head->task);
    gw_put_u32(&w, head->attempt);
    gw_put_u64(&w, head->output);
    gw_put_u64(&w, head->errors);
    gw_put_u64(&w, head->files);
    gw_put_bytes(&w, head->sum, sizeof head->sum);
    GW_ASSERT(!w.failed && w.length == GW_OUTPUTS_HEAD_BYTES);
}

void gw_outputs_sum_begin(crypto_generichash_state *sum) {
    crypto_generichash_init(sum, NULL, 0, 2 * GW_OUTPUTS_SUM_BYTES);
}

void gw_outputs_sum_end(crypto_generichash_state *sum, uint8_t bytes[GW_OUTPUTS_SUM_BYTES]) {
    uint8_t whole[2 * GW_OUTPUTS_SUM_BYTES];
    crypto_generichash_final(sum, whole, sizeof whole);
    memcpy(bytes, whole, GW_OUTPUTS_SUM_BYTES);
}

/* Opening. */

/* Whether what follows a head has its sum. */
static bool is_whole(int fd, const gw_outputs_head *head, uint64_t at) {
    crypto_generichash_state sum;
    uint8_t *part = malloc(PART_BYTES), found[GW_OUTPUTS_SUM_BYTES];
    uint64_t left = head->output + head->errors + head->files;
    GW_ASSERT_MEMORY(part != NULL);
    gw_outputs_sum_begin(&sum);
    while (left > 0) {
        ssize_t got = pread(fd, part, left < PART_BYTES ? (size_t)left : PART_BYTES, (off_t)at);
        if (got <= 0) break;
        crypto_generichash_update(&sum, part, (size_t)got);
        at += (uint64_t)got;
        left -= (uint64_t)got;
    }
    free(part);
    gw_outputs_sum_end(&sum, found);
    return left == 0 && memcmp(found, head->sum, sizeof found) == 0;
}

/* The end of the last whole frame. */
static uint64_t find_end(int fd, uint64_t size) {
    uint8_t bytes[GW_OUTPUTS_HEAD_BYTES];
    gw_outputs_head head;
    uint64_t at = 0;
    while (pread(fd, bytes, sizeof bytes, (off_t)at) == (ssize_t)sizeof bytes &&
           gw_outputs_read_head(bytes, &head)) {
        uint64_t body = at + GW_OUTPUTS_HEAD_BYTES, next = body + head.output + head.errors + head.files;
        if (next > size || (next + DOUBTFUL_BYTES > size && !is_whole(fd, &head, body))) break;
        at = next;
    }
    return at;
}

int gw_outputs_open(const char *folder, const char *name, uint64_t *end, gw_err *err) {
    char path[GW_PATH_BYTES];
    if (!gw_durable_path(path, err, "%s/%s", folder, name)) return -1;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    off_t size = fd >= 0 ? lseek(fd, 0, SEEK_END) : -1;
    if (size >= 0) *end = find_end(fd, (uint64_t)size);
    if (size >= 0 && ftruncate(fd, (off_t)*end) == 0) return fd;
    gw_fail_errno(err, errno, "%s cannot be opened", path);
    if (fd >= 0) close(fd);
    return -1;
}

/* Adding. */

typedef struct frame {
    int fd;
    uint64_t at;
    crypto_generichash_state sum;
} frame;

static bool write_at(int fd, uint64_t at, const void *bytes, size_t length, gw_err *err) {
    if (lseek(fd, (off_t)at, SEEK_SET) < 0)
        return gw_fail_errno(err, errno, "%s cannot be written", GW_CHILD_OUTPUTS);
    return gw_durable_write_fd(gw_io_system(), fd, GW_CHILD_OUTPUTS, bytes, length, err);
}

static bool add_bytes(frame *f, const void *bytes, size_t length, gw_err *err) {
    if (length == 0) return true;
    crypto_generichash_update(&f->sum, bytes, length);
    if (!write_at(f->fd, f->at, bytes, length, err)) return false;
    f->at += length;
    return true;
}

static bool add(frame *f, gw_map_store *store, const gw_map_output *output, gw_err *err) {
    uint8_t *piece = output->piece_count > 0 ? malloc(GW_MAP_PIECE_BYTES) : NULL;
    GW_ASSERT_MEMORY(output->piece_count == 0 || piece != NULL);
    bool good = true;
    for (uint32_t i = 0; good && i < output->piece_count; i++)
        good = gw_map_output_read(store, output, i, piece, err) &&
               add_bytes(f, piece, output->pieces[i].length, err);
    free(piece);
    return good && add_bytes(f, output->bytes, output->length, err);
}

static uint64_t bytes_of(const gw_map_output *output) {
    uint64_t bytes = output->length;
    for (uint32_t i = 0; i < output->piece_count; i++) bytes += output->pieces[i].length;
    return bytes;
}

bool gw_outputs_add(int fd, uint64_t *end, gw_map_store *store, uint32_t task, uint32_t attempt,
                    const gw_map_written *written, gw_err *err) {
    uint8_t bytes[GW_OUTPUTS_HEAD_BYTES];
    frame f = {.fd = fd, .at = *end + GW_OUTPUTS_HEAD_BYTES};
    gw_outputs_head head = {.task = task,
                            .attempt = attempt,
                            .output = bytes_of(&written->output),
                            .errors = bytes_of(&written->errors),
                            .files = bytes_of(&written->files)};
    gw_outputs_sum_begin(&f.sum);
    if (!add(&f, store, &written->output, err) || !add(&f, store, &written->errors, err) ||
        !add(&f, store, &written->files, err))
        return false;
    gw_outputs_sum_end(&f.sum, head.sum);
    write_head(bytes, &head);
    if (!write_at(fd, *end, bytes, sizeof bytes, err)) return false;
    *end = f.at;
    return true;
}
