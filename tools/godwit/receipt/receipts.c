#include "tools/godwit/receipt/receipts.h"

#include "core/base/assert.h"
#include "core/base/log.h"
#include "core/os/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HEADER = 64, JOB_DIGITS = 8, FLUSH_COUNT = 256, NAME_BYTES = 32 };
#define FLUSH_NS UINT64_C(1000000000)

static const char receipts_mark[] = "GODWITR1", parts_mark[] = "GODWITP1";
enum { MARK = 8 };

typedef struct known {
    uint64_t step; /* 0: this place is free */
    gw_receipt receipt;
} known;

/* What waits to be written. */
typedef struct receipts_batch {
    known receipts[GW_RECEIPTS_WAITING];
    uint32_t count;
    uint8_t *parts; /* encoded */
    size_t parts_bytes, parts_room;
} receipts_batch;

/* One of the two files; the helper's alone. */
typedef struct ring_file {
    const char *stem; /* "receipts" */
    const char *mark;
    int fd;         /* -1: not open */
    uint64_t first; /* receipts: the step of the first one */
    uint64_t bytes; /* parts: of the file */
    bool failing;
} ring_file;

struct gw_receipts {
    gw_directory *directory;
    gw_hash job;
    gw_helper *helper;
    uint64_t first_step;
    pthread_mutex_t lock; /* guards the members up to `writing` */
    known *recent;        /* by step modulo GW_RECEIPTS_RECENT */
    uint64_t last;
    uint64_t at, chain; /* the chain's value after `at` steps */
    uint64_t sum, coverage;
    gw_receipt_part part;   /* of the last sum; step 0: none */
    known applied;          /* the step that was applied and is not committed */
    gw_receipt_part filled; /* its part */
    receipts_batch *waiting;
    uint64_t flushed_ns;
    bool given;              /* the helper has a task that it has not begun */
    bool sync;               /* that task flushes to the disk */
    receipts_batch *writing; /* the helper's, while it writes */
    ring_file files[2];
};

enum { RECEIPTS, PARTS };

/* Names. */

static void name_of(const char *stem, const gw_hash *job, bool earlier, char name[NAME_BYTES]) {
    char digits[JOB_DIGITS + 1];
    gw_hex(job->bytes, JOB_DIGITS / 2, digits);
    snprintf(name, NAME_BYTES, "%s-%s%s", stem, digits, earlier ? ".1" : "");
}

static bool path_in(const char *dir, const char *stem, const gw_hash *job, bool earlier,
                    char path[GW_PATH_BYTES], gw_err *err) {
    char name[NAME_BYTES];
    name_of(stem, job, earlier, name);
    return gw_durable_path(path, err, "%s/%s", dir, name);
}

/* Headers. */

static void put_header(const char *mark, const gw_hash *job, uint64_t first, uint8_t header[HEADER]) {
    gw_writer w = gw_writer_on(header, HEADER);
    memset(header, 0, HEADER);
    gw_put_bytes(&w, mark, MARK);
    gw_put_bytes(&w, job->bytes, sizeof job->bytes);
    gw_put_u64(&w, first);
}

static bool get_header(const uint8_t header[HEADER], const char *mark, const gw_hash *job, uint64_t *first) {
    gw_reader r = gw_reader_on(header + MARK + sizeof job->bytes, 8);
    *first = gw_get_u64(&r);
    bool receipts = mark == receipts_mark; /* steps count from 1; parts have no first one */
    return *first <= UINT64_MAX - GW_RECEIPTS_STEPS && (*first > 0) == receipts &&
           memcmp(header, mark, MARK) == 0 && memcmp(header + MARK, job->bytes, sizeof job->bytes) == 0;
}

/* Writing: on the helper's thread, but for the opening. */

static bool write_at(int fd, const void *bytes, size_t count, uint64_t at) {
    const uint8_t *next = bytes;
    while (count > 0) {
        ssize_t written = pwrite(fd, next, count, (off_t)at);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return false;
        next += written;
        at += (uint64_t)written;
        count -= (size_t)written;
    }
    return true;
}

static void close_file(ring_file *file) {
    if (file->fd >= 0) close(file->fd);
    file->fd = -1;
}

/* Opens the newest file where it is one of this job. Sets fd to -1 where there is none, or it is none of ours. */
static void open_found(gw_receipts *r, ring_file *file) {
    char path[GW_PATH_BYTES];
    gw_err ignored;
    gw_io *io = &r->directory->io;
    uint8_t header[HEADER];
    struct stat status;
    if (!path_in(r->directory->path, file->stem, &r->job, false, path, &ignored)) return;
    file->fd = io->open(io, path, O_RDWR | O_NONBLOCK | O_CLOEXEC, 0);
    if (file->fd < 0) return;
    if (fstat(file->fd, &status) == 0 && S_ISREG(status.st_mode) &&
        pread(file->fd, header, HEADER, 0) == HEADER &&
        get_header(header, file->mark, &r->job, &file->first)) {
        file->bytes = (uint64_t)status.st_size;
        return;
    }
    gw_log(GW_WARN, "receipt", "%s is damaged, or of another job: it is begun anew", path);
    close_file(file);
}

/* Begins the newest file; the one before becomes the earlier one if `keep`. */
static bool begin_file(gw_receipts *r, ring_file *file, uint64_t first, bool keep) {
    char path[GW_PATH_BYTES], earlier[GW_PATH_BYTES];
    gw_err ignored;
    gw_io *io = &r->directory->io;
    uint8_t header[HEADER];
    close_file(file);
    if (!path_in(r->directory->path, file->stem, &r->job, false, path, &ignored) ||
        !path_in(r->directory->path, file->stem, &r->job, true, earlier, &ignored))
        return false;
    if (keep && io->rename(io, path, earlier) != 0 && errno != ENOENT) return false;
    int fd = io->open(io, path, O_RDWR | O_CREAT | O_TRUNC | O_NONBLOCK | O_CLOEXEC, 0600);
    put_header(file->mark, &r->job, first, header);
    if (fd < 0 || !write_at(fd, header, HEADER, 0)) {
        int why = errno;
        if (fd >= 0) close(fd);
        errno = why;
        return false;
    }
    file->fd = fd;
    file->first = first;
    file->bytes = HEADER;
    return true;
}

/* The job went back behind the first receipt of the newest file: the earlier file becomes the newest one again. */
static void go_back(gw_receipts *r, ring_file *file) {
    char path[GW_PATH_BYTES], earlier[GW_PATH_BYTES];
    gw_err ignored;
    gw_io *io = &r->directory->io;
    close_file(file);
    if (path_in(r->directory->path, file->stem, &r->job, false, path, &ignored) &&
        path_in(r->directory->path, file->stem, &r->job, true, earlier, &ignored) &&
        io->rename(io, earlier, path) == 0)
        open_found(r, file);
}

static bool place_for(gw_receipts *r, ring_file *file, uint64_t step) {
    if (file->fd >= 0 && step < file->first) go_back(r, file);
    if (file->fd < 0 || step < file->first) return begin_file(r, file, step, false);
    return step - file->first < GW_RECEIPTS_STEPS || begin_file(r, file, step, true);
}

static bool write_receipts(gw_receipts *r, ring_file *file, const receipts_batch *batch) {
    enum { MOST = 128 };
    uint8_t bytes[MOST * GW_RECEIPT_BYTES];
    for (uint32_t i = 0, end; i < batch->count; i = end) {
        uint64_t step = batch->receipts[i].step;
        gw_writer w = gw_writer_on(bytes, sizeof bytes);
        if (!place_for(r, file, step)) return false;
        uint64_t room = GW_RECEIPTS_STEPS - (step - file->first);
        for (end = i; end < batch->count && end - i < MOST && end - i < room; end++) {
            if (batch->receipts[end].step != step + (end - i)) break;
            gw_receipt_put(&w, &batch->receipts[end].receipt);
        }
        if (!write_at(file->fd, bytes, w.length, HEADER + (step - file->first) * GW_RECEIPT_BYTES))
            return false;
    }
    return true;
}

static bool write_parts(gw_receipts *r, ring_file *file, const receipts_batch *batch) {
    if (batch->parts_bytes == 0) return true;
    if (file->fd < 0 && !begin_file(r, file, 0, false)) return false;
    if (file->bytes + batch->parts_bytes > GW_RECEIPTS_PART_BYTES && !begin_file(r, file, 0, true))
        return false;
    if (!write_at(file->fd, batch->parts, batch->parts_bytes, file->bytes)) return false;
    file->bytes += batch->parts_bytes;
    return true;
}

static void note_failure(ring_file *file, bool good) {
    int why = errno;
    if (!good && !file->failing)
        gw_log(GW_WARN, "receipt", "receipts of steps (%s) are not written while this lasts: %s", file->stem,
               strerror(why));
    if (!good) close_file(file);
    file->failing = !good;
}

static void run_flush(void *task) {
    gw_receipts *r = task;
    pthread_mutex_lock(&r->lock);
    receipts_batch *batch = r->waiting;
    r->waiting = r->writing;
    r->writing = batch;
    r->given = false;
    bool sync = r->sync;
    r->sync = false;
    pthread_mutex_unlock(&r->lock);
    for (int i = 0; i < 2; i++)
        if (r->files[i].fd < 0 && !r->files[i].failing) open_found(r, &r->files[i]);
    note_failure(&r->files[RECEIPTS], write_receipts(r, &r->files[RECEIPTS], batch));
    note_failure(&r->files[PARTS], write_parts(r, &r->files[PARTS], batch));
    for (int i = 0; sync && i < 2; i++)
        if (r->files[i].fd >= 0) fdatasync(r->files[i].fd);
    batch->count = 0;
    batch->parts_bytes = 0;
}

/* With the lock held. */
static void give(gw_receipts *r, bool sync) {
    r->sync |= sync;
    r->flushed_ns = gw_now_ns();
    if (r->given) return;
    r->given = true;
    gw_helper_give(r->helper, run_flush, r);
}

/* In memory. */

static known *place_of(gw_receipts *r, uint64_t step) {
    return &r->recent[step % GW_RECEIPTS_RECENT];
}

/* With the lock held. */
static void keep(gw_receipts *r, const known *one, const gw_receipt_part *part) {
    receipts_batch *batch = r->waiting;
    *place_of(r, one->step) = *one;
    r->last = one->step;
    if (batch->count < GW_RECEIPTS_WAITING) batch->receipts[batch->count++] = *one;
    if (part != NULL && part->step == one->step &&
        batch->parts_room - batch->parts_bytes >= GW_RECEIPT_PART_MOST) {
        gw_writer w = gw_writer_on(batch->parts + batch->parts_bytes, GW_RECEIPT_PART_MOST);
        gw_receipt_part_put(&w, part);
        GW_ASSERT(!w.failed);
        batch->parts_bytes += w.length;
    }
    if (batch->count >= FLUSH_COUNT || gw_now_ns() - r->flushed_ns >= FLUSH_NS) give(r, false);
}

void gw_receipts_note_sum(gw_receipts *r, uint64_t sum, uint64_t coverage, const gw_receipt_part *part) {
    pthread_mutex_lock(&r->lock);
    r->sum = sum;
    r->coverage = coverage;
    r->part = *part;
    pthread_mutex_unlock(&r->lock);
}

gw_receipt gw_receipts_apply(gw_receipts *r, uint64_t step, uint64_t state) {
    pthread_mutex_lock(&r->lock);
    bool summed = r->part.step == step;
    gw_receipt receipt = {.state = state};
    if (summed) {
        receipt.sum = r->sum;
        receipt.coverage = r->coverage;
        r->filled = r->part;
    }
    receipt.chain = summed && r->at + 1 == step ? gw_receipt_link(r->chain, step, &receipt) : 0;
    r->applied = (known){step, receipt};
    pthread_mutex_unlock(&r->lock);
    return receipt;
}

bool gw_receipts_commit(gw_receipts *r, uint64_t step, gw_receipt *now, gw_receipt *before) {
    bool differs = false;
    *now = (gw_receipt){0};
    pthread_mutex_lock(&r->lock);
    const known *old = place_of(r, step);
    if (r->applied.step == step) {
        differs = old->step == step && gw_receipt_differs(&old->receipt, &r->applied.receipt);
        if (differs) *before = old->receipt;
        *now = r->applied.receipt;
        keep(r, &r->applied, &r->filled);
        r->at = step;
        r->chain = r->applied.receipt.chain;
        r->applied.step = 0;
    }
    pthread_mutex_unlock(&r->lock);
    return differs;
}

void gw_receipts_take(gw_receipts *r, uint64_t step, const gw_receipt *receipt) {
    const known one = {step, *receipt};
    pthread_mutex_lock(&r->lock);
    bool less = place_of(r, step)->step == step && receipt->chain == 0; /* than is known here */
    if (!less) keep(r, &one, NULL);
    pthread_mutex_unlock(&r->lock);
}

void gw_receipts_load(gw_receipts *r, uint64_t step, uint64_t chain) {
    pthread_mutex_lock(&r->lock);
    const known *here = place_of(r, step);
    if (chain == 0 && step == r->first_step) chain = gw_receipt_origin(&r->job);
    if (chain == 0 && here->step == step) chain = here->receipt.chain;
    r->at = step;
    r->chain = chain;
    r->applied.step = 0;
    pthread_mutex_unlock(&r->lock);
}

uint64_t gw_receipts_chain(gw_receipts *r, uint64_t step) {
    pthread_mutex_lock(&r->lock);
    const known *here = place_of(r, step);
    uint64_t chain = here->step == step ? here->receipt.chain : step == r->at ? r->chain : 0;
    pthread_mutex_unlock(&r->lock);
    return chain;
}

uint64_t gw_receipts_last(gw_receipts *r) {
    pthread_mutex_lock(&r->lock);
    uint64_t last = r->last;
    pthread_mutex_unlock(&r->lock);
    return last;
}

void gw_receipts_flush(gw_receipts *r, bool sync) {
    pthread_mutex_lock(&r->lock);
    give(r, sync);
    pthread_mutex_unlock(&r->lock);
}

/* Opening. */

static bool recall(void *context, uint64_t step, const gw_receipt *receipt) {
    gw_receipts *r = context;
    *place_of(r, step) = (known){step, *receipt};
    if (step > r->last) r->last = step;
    return true;
}

/* A crash may have torn the last part: what follows it could not be read. */
static void cut_torn_part(gw_receipts *r, ring_file *file) {
    enum { AT_ONCE = 1 << 20 };
    uint8_t *bytes = malloc(AT_ONCE);
    gw_receipt_part *part = malloc(sizeof *part);
    uint64_t at = HEADER;
    bool more = bytes != NULL && part != NULL && file->fd >= 0;
    while (more) {
        ssize_t count = pread(file->fd, bytes, AT_ONCE, (off_t)at);
        if (count <= 0) break;
        gw_reader reader = gw_reader_on(bytes, (size_t)count);
        size_t whole = 0;
        for (;;) {
            gw_receipt_part_get(&reader, part);
            if (reader.failed) break;
            whole = reader.position;
        }
        at += whole;
        more = whole > 0;
    }
    if (file->fd >= 0 && at < file->bytes && ftruncate(file->fd, (off_t)at) == 0) file->bytes = at;
    (void)r;
    free(part);
    free(bytes);
}

static void remove_files(gw_receipts *r) {
    char path[GW_PATH_BYTES];
    gw_err ignored;
    gw_io *io = &r->directory->io;
    for (int i = 0; i < 4; i++)
        if (path_in(r->directory->path, r->files[i / 2].stem, &r->job, i % 2 == 1, path, &ignored))
            io->unlink(io, path);
}

static receipts_batch *batch_open(void) {
    receipts_batch *one = calloc(1, sizeof *one);
    if (one == NULL) return NULL;
    one->parts_room = GW_RECEIPT_PART_MOST + (size_t)GW_RECEIPTS_WAITING * 64;
    one->parts = malloc(one->parts_room);
    if (one->parts != NULL) return one;
    free(one);
    return NULL;
}

static void batch_close(receipts_batch *one) {
    if (one == NULL) return;
    free(one->parts);
    free(one);
}

gw_receipts *gw_receipts_open(gw_directory *directory, const gw_hash *job, uint64_t first_step, bool fresh,
                              gw_helper *helper, gw_err *err) {
    gw_receipts *r = calloc(1, sizeof *r);
    if (r == NULL || (r->recent = calloc(GW_RECEIPTS_RECENT, sizeof *r->recent)) == NULL ||
        (r->waiting = batch_open()) == NULL || (r->writing = batch_open()) == NULL) {
        gw_fail(err, GW_E_NOMEM, "receipts: out of memory");
        gw_receipts_close(r);
        return NULL;
    }
    r->directory = directory;
    r->job = *job;
    r->helper = helper;
    r->first_step = first_step;
    r->flushed_ns = gw_now_ns();
    r->files[RECEIPTS] = (ring_file){.stem = "receipts", .mark = receipts_mark, .fd = -1};
    r->files[PARTS] = (ring_file){.stem = "parts", .mark = parts_mark, .fd = -1};
    pthread_mutex_init(&r->lock, NULL);
    if (fresh) remove_files(r);
    for (int i = 0; i < 2; i++) open_found(r, &r->files[i]);
    cut_torn_part(r, &r->files[PARTS]);
    const ring_file *file = &r->files[RECEIPTS];
    uint64_t count = file->fd >= 0 ? (file->bytes - HEADER) / GW_RECEIPT_BYTES : 0;
    uint64_t end = file->first + count, from = count > GW_RECEIPTS_RECENT ? end - GW_RECEIPTS_RECENT : 0;
    gw_err ignored; /* what cannot be read is not known */
    if (count > 0) gw_receipts_read(directory->path, job, from, UINT64_MAX, recall, r, &ignored);
    return r;
}

void gw_receipts_close(gw_receipts *r) {
    if (r == NULL) return;
    for (int i = 0; i < 2 && r->directory != NULL; i++) close_file(&r->files[i]);
    if (r->directory != NULL) pthread_mutex_destroy(&r->lock);
    batch_close(r->waiting);
    batch_close(r->writing);
    free(r->recent);
    free(r);
}

/* Reading. */

/* Opens a file for reading; *fd is -1 where there is none. */
static bool open_to_read(const char *dir, const char *stem, const char *mark, const gw_hash *job,
                         bool earlier, int *fd, uint64_t *first, uint64_t *bytes, gw_err *err) {
    char path[GW_PATH_BYTES];
    uint8_t header[HEADER];
    struct stat status;
    *fd = -1;
    if (!path_in(dir, stem, job, earlier, path, err)) return false;
    *fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (*fd < 0 && errno == ENOENT) return true;
    if (*fd < 0) return gw_fail_errno(err, errno, "cannot open %s", path);
    if (fstat(*fd, &status) == 0 && S_ISREG(status.st_mode) && pread(*fd, header, HEADER, 0) == HEADER &&
        get_header(header, mark, job, first)) {
        *bytes = (uint64_t)status.st_size;
        return true;
    }
    close(*fd);
    *fd = -1;
    return gw_fail(err, GW_E_CORRUPT, "%s holds no %s of job %.8s", path, stem, strrchr(path, '-') + 1);
}

static bool read_receipts(int fd, uint64_t first_here, uint64_t bytes, uint64_t first, uint64_t last,
                          gw_receipts_each *each, void *context, bool *more) {
    enum { AT_ONCE = 1024 };
    uint8_t block[AT_ONCE * GW_RECEIPT_BYTES];
    uint64_t count = (bytes - HEADER) / GW_RECEIPT_BYTES;
    if (count > GW_RECEIPTS_STEPS) count = GW_RECEIPTS_STEPS;
    uint64_t step = first > first_here ? first : first_here, end = first_here + count;
    if (last < end - (count > 0)) end = last + 1;
    while (*more && step < end) {
        size_t n = end - step < AT_ONCE ? (size_t)(end - step) : AT_ONCE;
        ssize_t got =
            pread(fd, block, n * GW_RECEIPT_BYTES, (off_t)(HEADER + (step - first_here) * GW_RECEIPT_BYTES));
        if (got < 0) return false;
        gw_reader r = gw_reader_on(block, (size_t)got);
        n = (size_t)got / GW_RECEIPT_BYTES;
        if (n == 0) break;
        for (size_t i = 0; i < n && *more; i++, step++) {
            gw_receipt receipt;
            gw_receipt_get(&r, &receipt);
            if (receipt.state != 0 || receipt.chain != 0) *more = each(context, step, &receipt);
        }
    }
    return true;
}

bool gw_receipts_read(const char *dir, const gw_hash *job, uint64_t first, uint64_t last,
                      gw_receipts_each *each, void *context, gw_err *err) {
    bool any = false, more = true, good = true;
    for (int earlier = 1; earlier >= 0 && good; earlier--) {
        int fd;
        uint64_t first_here, bytes;
        if (!open_to_read(dir, "receipts", receipts_mark, job, earlier != 0, &fd, &first_here, &bytes, err))
            return false;
        if (fd < 0) continue;
        any = true;
        good = read_receipts(fd, first_here, bytes, first, last, each, context, &more) ||
               gw_fail_errno(err, errno, "cannot read the receipts in %s", dir);
        close(fd);
    }
    return good && (any || gw_fail(err, GW_E_NOTFOUND, "%s holds no receipts of this job", dir));
}

static bool read_parts(int fd, uint64_t bytes, gw_receipts_each_part *each, void *context, bool *more,
                       gw_err *err) {
    size_t count = bytes - HEADER < 2 * (uint64_t)GW_RECEIPTS_PART_BYTES ? (size_t)(bytes - HEADER)
                                                                         : 2 * (size_t)GW_RECEIPTS_PART_BYTES;
    uint8_t *all = malloc(count + 1);
    gw_receipt_part *part = malloc(sizeof *part);
    bool good = (all != NULL && part != NULL) || gw_fail(err, GW_E_NOMEM, "parts: out of memory");
    ssize_t got = good ? pread(fd, all, count, HEADER) : 0;
    if (got < 0) good = gw_fail_errno(err, errno, "cannot read the parts");
    gw_reader r = gw_reader_on(all, got > 0 ? (size_t)got : 0);
    while (good && *more && gw_reader_left(&r) > 0) {
        gw_receipt_part_get(&r, part);
        if (r.failed) break; /* it is being written, or was torn */
        *more = each(context, part);
    }
    free(part);
    free(all);
    return good;
}

bool gw_receipts_read_parts(const char *dir, const gw_hash *job, gw_receipts_each_part *each, void *context,
                            gw_err *err) {
    bool any = false, more = true, good = true;
    for (int earlier = 1; earlier >= 0 && good; earlier--) {
        int fd;
        uint64_t first, bytes;
        if (!open_to_read(dir, "parts", parts_mark, job, earlier != 0, &fd, &first, &bytes, err))
            return false;
        if (fd < 0) continue;
        any = true;
        good = read_parts(fd, bytes, each, context, &more, err);
        close(fd);
    }
    return good && (any || gw_fail(err, GW_E_NOTFOUND, "%s holds no parts of this job", dir));
}
