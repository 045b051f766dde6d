#include "tools/godwit/node_claims.h"

#include "checkpoint/durable.h"
#include "core/check.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_WORKERS = 1 << 16 };
#define MAGIC UINT64_C(0x3164616f62776774)

typedef struct place {
    _Atomic uint64_t step, shard; /* shard plus 1; 0 = none */
} place;

typedef struct header {
    uint64_t magic, boot;
    gw_hash job;
    uint64_t workers;
    place places[];
} header;

struct gw_claims {
    header *memory;
    size_t bytes;
};

static size_t bytes_for(uint64_t workers) {
    return sizeof(header) + workers * sizeof(place);
}

/* What the last life left, if the file is whole and about this job. */
static uint32_t read_left(const header *old, size_t bytes, const gw_hash *job, const gw_peer_id *self,
                          gw_loss **fell) {
    uint32_t count = 0;
    *fell = NULL;
    if (bytes < sizeof *old || old->magic != MAGIC || !gw_hash_equal(&old->job, job)) return 0;
    if (old->workers > MOST_WORKERS || bytes < bytes_for(old->workers)) return 0;
    *fell = calloc(old->workers + 1, sizeof **fell);
    GW_CHECK_MEMORY(*fell != NULL);
    for (uint64_t i = 0; i < old->workers; i++) {
        uint64_t shard = atomic_load(&old->places[i].shard);
        if (shard == 0 || shard > UINT32_MAX) continue;
        (*fell)[count++] = (gw_loss){.id = *self,
                                     .boot = old->boot,
                                     .step = atomic_load(&old->places[i].step),
                                     .shard = (uint32_t)(shard - 1)};
    }
    return count;
}

/* All of the file has its room on the disk: a store into the mapping cannot fail later. */
static bool map_file(gw_claims *claims, int fd, const char *path, gw_err *err) {
    int failure = posix_fallocate(fd, 0, (off_t)claims->bytes);
    if (failure != 0) return gw_fail_errno(err, failure, "%s", path);
    void *memory = mmap(NULL, claims->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) return gw_fail_errno(err, errno, "%s: mmap", path);
    claims->memory = memory;
    return true;
}

gw_claims *gw_claims_open(const char *dir, const gw_hash *job, const gw_peer_id *self, uint64_t boot,
                          uint32_t workers, gw_loss **fell, uint32_t *fell_count, gw_err *err) {
    char path[GW_PATH_BYTES];
    *fell = NULL;
    *fell_count = 0;
    if (!gw_durable_path(path, err, "%s/computing", dir)) return NULL;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        gw_fail_errno(err, errno, "%s", path);
        return NULL;
    }
    gw_claims *claims = calloc(1, sizeof *claims);
    GW_CHECK_MEMORY(claims != NULL);
    struct stat status;
    size_t before = fstat(fd, &status) == 0 && status.st_size > 0 ? (size_t)status.st_size : 0;
    claims->bytes = bytes_for(workers) > before ? bytes_for(workers) : before;
    bool good = before <= bytes_for(MOST_WORKERS) ? map_file(claims, fd, path, err)
                                                  : gw_fail(err, GW_E_CORRUPT, "%s: too large", path);
    close(fd);
    if (!good) {
        free(claims);
        return NULL;
    }
    *fell_count = read_left(claims->memory, before, job, self, fell);
    memset(claims->memory, 0, claims->bytes);
    *claims->memory = (header){.magic = MAGIC, .boot = boot, .job = *job, .workers = workers};
    return claims;
}

void gw_claims_clear(gw_claims *claims) {
    if (claims == NULL) return;
    for (uint64_t i = 0; i < claims->memory->workers; i++) atomic_store(&claims->memory->places[i].shard, 0);
}

void gw_claims_close(gw_claims *claims) {
    if (claims == NULL) return;
    munmap(claims->memory, claims->bytes);
    free(claims);
}

void gw_claims_begin(gw_claims *claims, uint32_t worker, uint64_t step, uint32_t shard) {
    GW_CHECK(worker < claims->memory->workers);
    place *at = &claims->memory->places[worker];
    atomic_store(&at->step, step);
    atomic_store(&at->shard, (uint64_t)shard + 1);
}

void gw_claims_end(gw_claims *claims, uint32_t worker) {
    atomic_store(&claims->memory->places[worker].shard, 0);
}
