#include "tests/checkpoint/fixture.h"

#include "core/rng.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *fixture_folder(char path[256]) {
    const char *base = getenv("TMPDIR");
    snprintf(path, 256, "%s/godwit-test-XXXXXX", base != NULL ? base : "/tmp");
    cr_assert_not_null(mkdtemp(path));
    return path;
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *where) {
    (void)status, (void)type, (void)where;
    return remove(path);
}

void fixture_remove(const char *path) {
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static const char *link_target;
static size_t linked_prefix; /* the length of the path that `link_target` takes the place of */

static int link_one(const char *path, const struct stat *status, int type, struct FTW *where) {
    (void)status, (void)where;
    char to[512];
    snprintf(to, sizeof to, "%s%s", link_target, path + linked_prefix);
    int failed = type == FTW_D ? mkdir(to, 0700) : link(path, to);
    cr_assert_eq(failed, 0, "%s: %s", to, strerror(errno));
    return 0;
}

void fixture_link_all(const char *from, const char *to) {
    link_target = to;
    linked_prefix = strlen(from);
    nftw(from, link_one, 16, FTW_PHYS);
}

static const char *counted_part;
static unsigned counted;

static int count_one(const char *path, const struct stat *status, int type, struct FTW *where) {
    (void)status;
    if (type == FTW_F && strstr(path + where->base, counted_part) != NULL) counted++;
    return 0;
}

unsigned fixture_count_files(const char *folder, const char *part) {
    counted_part = part;
    counted = 0;
    nftw(folder, count_one, 16, FTW_PHYS);
    return counted;
}

void fixture_damage(const char *path) {
    int fd = open(path, O_RDWR);
    cr_assert_geq(fd, 0, "%s", path);
    off_t middle = lseek(fd, 0, SEEK_END) / 2;
    uint8_t byte;
    cr_assert_eq(pread(fd, &byte, 1, middle), 1);
    byte ^= 0x10;
    cr_assert_eq(pwrite(fd, &byte, 1, middle), 1);
    close(fd);
}

void fixture_truncate(const char *path, long bytes) {
    cr_assert_eq(truncate(path, bytes), 0, "%s", path);
}

void fixture_chunk_path(const char *folder, const gw_hash *name, char path[512]) {
    char digits[GW_HASH_TEXT];
    gw_hex(name->bytes, sizeof name->bytes, digits);
    snprintf(path, 512, "%s/chunks/%.2s/%s", folder, digits, digits);
}

const gw_tensor fixture_tensors[FIXTURE_TENSORS] = {
    {.name = "w", .dtype = GW_F32, .role = GW_STATE, .rank = 2, .dim = {1024, 1024}, .group = 0},
    {.name = "m", .dtype = GW_F32, .role = GW_STATE, .rank = 2, .dim = {1024, 1024}, .group = 0},
    {.name = "count", .dtype = GW_U8, .role = GW_STATE, .rank = 1, .dim = {1000}, .group = 1},
};
static const gw_param fixture_params[] = {{"lr", "0.1"}, {"hidden", "128"}};

fixture_image *fixture_image_make(uint64_t step) {
    fixture_image *image = calloc(1, sizeof *image);
    cr_assert_not_null(image);
    image->bytes = malloc(FIXTURE_STATE_BYTES);
    cr_assert_not_null(image->bytes);
    for (uint32_t i = 0; i < FIXTURE_CHUNKS; i++) {
        gw_rng rng = gw_rng_seeded(i == 1 ? 1 : 100 * step + i);
        uint8_t *at = image->bytes + gw_chunk_offset(i);
        uint32_t length = gw_chunk_length(FIXTURE_STATE_BYTES, i);
        for (uint32_t b = 0; b < length; b += 8) {
            uint64_t word = gw_rng_next(&rng) & 0x3effffff3effffff; /* finite floats of either size */
            memcpy(at + b, &word, length - b < 8 ? length - b : 8);
        }
        gw_blake2b(at, length, image->chunks[i].bytes, sizeof image->chunks[i].bytes);
    }
    image->manifest = (gw_manifest){
        .job_name = "test",
        .job_id = {.bytes = {7}},
        .step = step,
        .fingerprint = 11 * step,
        .created_ms = 1700000000000,
        .params = fixture_params,
        .param_count = 2,
        .tensors = fixture_tensors,
        .tensor_count = FIXTURE_TENSORS,
        .chunks = image->chunks,
    };
    gw_err err;
    cr_assert(gw_manifest_seal(&image->manifest, &err), "%s", err.text);
    cr_assert_eq(image->manifest.state_bytes, FIXTURE_STATE_BYTES);
    return image;
}

void fixture_image_free(fixture_image *image) {
    free(image->bytes);
    free(image);
}

bool fixture_image_read(void *context, uint64_t offset, void *bytes, size_t length, gw_err *err) {
    (void)err;
    const fixture_image *image = context;
    memcpy(bytes, image->bytes + offset, length);
    return true;
}

/* Faulty system calls. */

/* Whether this call is to fail; then errno is set. */
static bool fails(gw_io *io, fixture_call call) {
    fixture_io *faulty = (fixture_io *)io;
    if (faulty->call != CALL_ANY && faulty->call != call) return false;
    atomic_fetch_add(&faulty->seen, 1);
    int left = atomic_load(&faulty->left);
    if (left < 0) return false;
    if (left > 0) {
        atomic_store(&faulty->left, left - 1);
        return false;
    }
    if (faulty->error == 0) raise(SIGKILL);
    if (faulty->once) atomic_store(&faulty->left, -1);
    errno = faulty->error;
    return true;
}

static int faulty_open(gw_io *io, const char *path, int flags, mode_t mode) {
    bool looks = (flags & O_PATH) != 0; /* gw_durable_stat, gw_durable_list */
    return !looks && fails(io, CALL_OPEN) ? -1 : gw_io_system()->open(io, path, flags, mode);
}
static ssize_t faulty_read(gw_io *io, int fd, void *bytes, size_t count) {
    return fails(io, CALL_READ) ? -1 : gw_io_system()->read(io, fd, bytes, count);
}
static ssize_t faulty_write(gw_io *io, int fd, const void *bytes, size_t count) {
    if (fails(io, CALL_WRITE)) return -1;
    if (((fixture_io *)io)->short_writes && count > 2000) count = count / 2 + 1000;
    return gw_io_system()->write(io, fd, bytes, count);
}
static int faulty_fdatasync(gw_io *io, int fd) {
    (void)fd;
    return fails(io, CALL_FDATASYNC) ? -1 : 0; /* the page cache outlives a killed process */
}
static int faulty_fsync(gw_io *io, int fd) {
    (void)fd;
    return fails(io, CALL_FSYNC) ? -1 : 0;
}
static int faulty_close(gw_io *io, int fd) {
    int failed = fails(io, CALL_CLOSE) ? -1 : 0, saved = errno;
    int result = gw_io_system()->close(io, fd);
    errno = saved;
    return failed < 0 ? failed : result;
}
static int faulty_rename(gw_io *io, const char *from, const char *to) {
    return fails(io, CALL_RENAME) ? -1 : gw_io_system()->rename(io, from, to);
}
static int faulty_unlink(gw_io *io, const char *path) {
    return fails(io, CALL_UNLINK) ? -1 : gw_io_system()->unlink(io, path);
}
static int faulty_mkdir(gw_io *io, const char *path, mode_t mode) {
    return fails(io, CALL_MKDIR) ? -1 : gw_io_system()->mkdir(io, path, mode);
}

void fixture_io_init(fixture_io *faulty, fixture_call call, int left, int error) {
    *faulty = (fixture_io){
        .io =
            {
                .open = faulty_open,
                .read = faulty_read,
                .write = faulty_write,
                .fdatasync = faulty_fdatasync,
                .fsync = faulty_fsync,
                .close = faulty_close,
                .rename = faulty_rename,
                .unlink = faulty_unlink,
                .mkdir = faulty_mkdir,
            },
        .call = call,
        .error = error,
    };
    atomic_init(&faulty->left, left);
    atomic_init(&faulty->seen, 0);
}
