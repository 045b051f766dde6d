#include "tools/godwit/work/claim_journal.h"

#include "core/base/assert.h"
#include "core/os/durable.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

/* Indices of places: the shard that this life gave up at, then one place a worker. */
enum { OWN, OF_WORKERS, MOST_PLACES = (1 << 16) + OF_WORKERS };
enum { TRIES_MOST = 50, AGAIN_US = 10000 }; /* to lock the file */
#define MAGIC UINT64_C(0x3364616f62776774)

typedef struct place {
    _Atomic uint64_t step, shard; /* shard plus 1; 0 = none */
} place;

/* A shard that an earlier life was computing when it ended. */
typedef struct left {
    uint64_t boot, step, shard;
} left;

/* The file. The process may be killed between any two stores, so their order matters. */
typedef struct header {
    _Atomic uint64_t magic; /* 0 = the rest is meaningless */
    _Atomic uint64_t boot;  /* of the life that the places are of */
    gw_hash job;
    _Atomic uint64_t counted;      /* the number of places that count */
    _Atomic uint64_t crashed;      /* 1: that life is dying of a fault of its own */
    _Atomic uint64_t memory_kills; /* gw_memory_kills when that life began */
    _Atomic uint64_t earlier_count;
    left earlier[GW_MAX_SHARD_DEATHS]; /* until they are recorded on disk */
    place places[];
} header;

struct gw_claim_journal {
    header *memory;
    size_t bytes;
    uint32_t workers;
    _Atomic bool cleared, removed;
    int fd; /* locked, which keeps out a copy of this peer on the same machine */
    char path[GW_PATH_BYTES];
};

static size_t bytes_for(uint64_t places) {
    return sizeof(header) + places * sizeof(place);
}

/* Whether the file is whole and of this job. */
static bool is_of(const header *old, size_t bytes, const gw_hash *job) {
    return bytes >= sizeof *old && old->magic == MAGIC && gw_hash_equal(&old->job, job) &&
           old->earlier_count <= GW_MAX_SHARD_DEATHS && old->counted <= MOST_PLACES &&
           bytes >= bytes_for(old->counted);
}

/* Adds the shards of the last life to those of the lives before it: the one that it gave up at, and those
 * of its workers if it crashed. */
static void keep_left(header *memory, uint64_t memory_kills) {
    uint64_t count = memory->earlier_count;
    bool crashed = memory->crashed != 0 || memory_kills > memory->memory_kills;
    uint64_t places = crashed || memory->counted < OF_WORKERS ? memory->counted : OF_WORKERS;
    for (uint64_t i = 0; i < places && count < GW_MAX_SHARD_DEATHS; i++) {
        uint64_t shard = memory->places[i].shard;
        if (shard == 0 || shard > UINT32_MAX) continue;
        memory->earlier[count++] =
            (left){.boot = memory->boot, .step = memory->places[i].step, .shard = shard - 1};
    }
    atomic_store(&memory->earlier_count, count);
}

/* Empties the places and makes them those of this life. */
static void renew(gw_claim_journal *claims, const gw_hash *job, uint64_t boot, uint64_t memory_kills) {
    header *memory = claims->memory;
    size_t places = (claims->bytes - sizeof *memory) / sizeof *memory->places;
    for (size_t i = 0; i < places; i++) atomic_store(&memory->places[i].shard, 0);
    atomic_store(&memory->crashed, 0);
    atomic_store(&memory->memory_kills, memory_kills);
    atomic_store(&memory->boot, boot);
    memory->job = *job;
    atomic_store(&memory->counted, claims->workers + OF_WORKERS);
    atomic_store(&memory->magic, MAGIC);
}

static gw_shard_death *losses_of(const header *memory, const gw_peer_id *self, uint32_t *count) {
    *count = (uint32_t)memory->earlier_count;
    if (*count == 0) return NULL;
    gw_shard_death *losses = calloc(*count, sizeof *losses);
    GW_ASSERT_MEMORY(losses != NULL);
    for (uint32_t i = 0; i < *count; i++) {
        const left *one = &memory->earlier[i];
        losses[i] = (gw_shard_death){
            .id = *self, .boot = one->boot, .step = one->step, .shard = (uint32_t)one->shard};
    }
    return losses;
}

static const char prefix[] = "godwit-computing-";
enum { PREFIX_LENGTH = sizeof prefix - 1, HEX_LENGTH = 2 * sizeof(gw_peer_id) };

bool gw_claim_journal_path(const char *folder, const gw_peer_id *self, char path[GW_PATH_BYTES],
                           gw_err *err) {
    char hex[2 * sizeof self->bytes + 1];
    gw_hex(self->bytes, sizeof self->bytes, hex);
    return gw_durable_path(path, err, "%s/%s%s", folder, prefix, hex);
}

/* Every user can write to the folder: anything may lie there under the name. */
static bool is_ours(int fd, const char *path, size_t *bytes, gw_err *err) {
    struct statfs system;
    struct stat status;
    if (fstatfs(fd, &system) != 0 || fstat(fd, &status) != 0) return gw_fail_errno(err, errno, "%s", path);
    if (system.f_type != TMPFS_MAGIC)
        return gw_fail(err, GW_E_UNSUPPORTED, "%s: its file system is not in memory (tmpfs)", path);
    if (!S_ISREG(status.st_mode) || status.st_uid != geteuid() || (status.st_mode & 077) != 0 ||
        status.st_nlink != 1)
        return gw_fail(err, GW_E_INVALID, "%s: not a file of this user alone; remove it", path);
    *bytes = (size_t)status.st_size;
    return *bytes <= bytes_for(MOST_PLACES) || gw_fail(err, GW_E_CORRUPT, "%s: too large; remove it", path);
}

/* Whether the path still leads to the open file. */
static bool is_at(int fd, const char *path) {
    struct stat file, named;
    return fstat(fd, &file) == 0 && lstat(path, &named) == 0 && file.st_dev == named.st_dev &&
           file.st_ino == named.st_ino;
}

/* Another peer of this machine may be looking at the file, and delete it (gw_claim_journal_sweep): it
 * holds the lock for a moment only. */
static bool open_file(gw_claim_journal *claims, size_t *before, gw_err *err) {
    for (int tries = 0; tries < TRIES_MOST; tries++) {
        claims->fd = open(claims->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (claims->fd < 0) return gw_fail_errno(err, errno, "%s", claims->path);
        if (!is_ours(claims->fd, claims->path, before, err)) return false;
        bool locked = flock(claims->fd, LOCK_EX | LOCK_NB) == 0;
        if (locked && is_at(claims->fd, claims->path)) return true;
        if (!locked && errno != EWOULDBLOCK) return gw_fail_errno(err, errno, "%s: flock", claims->path);
        close(claims->fd);
        claims->fd = -1;
        if (!locked) usleep(AGAIN_US);
    }
    return gw_fail(err, GW_E_DENIED,
                   "another process on this machine runs with this peer's identity (it has %s): --dir is a "
                   "copy of its directory; give every peer a --dir of its own",
                   claims->path);
}

/* Allocates the whole file, so that no later store into the mapping can fail. */
static bool map_file(gw_claim_journal *claims, gw_err *err) {
    int failure = posix_fallocate(claims->fd, 0, (off_t)claims->bytes);
    if (failure != 0) return gw_fail_errno(err, failure, "%s", claims->path);
    void *memory = mmap(NULL, claims->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, claims->fd, 0);
    if (memory == MAP_FAILED) return gw_fail_errno(err, errno, "%s: mmap", claims->path);
    claims->memory = memory;
    return true;
}

gw_claim_journal *gw_claim_journal_open(const char *folder, const gw_hash *job, const gw_peer_id *self,
                                        uint64_t boot, uint32_t workers, uint64_t memory_kills,
                                        gw_shard_death **fell, uint32_t *fell_count, gw_err *err) {
    *fell = NULL;
    *fell_count = 0;
    gw_claim_journal *claims = calloc(1, sizeof *claims);
    GW_ASSERT_MEMORY(claims != NULL);
    claims->fd = -1;
    size_t before = 0;
    bool good = gw_claim_journal_path(folder, self, claims->path, err) && open_file(claims, &before, err);
    claims->bytes = bytes_for(workers + OF_WORKERS);
    if (claims->bytes < before) claims->bytes = before;
    if (!good || !map_file(claims, err)) {
        if (claims->fd >= 0) close(claims->fd);
        free(claims);
        return NULL;
    }
    claims->workers = workers;
    if (is_of(claims->memory, before, job)) {
        keep_left(claims->memory, memory_kills);
    } else {
        atomic_store(&claims->memory->magic, 0);
        atomic_store(&claims->memory->earlier_count, 0);
    }
    renew(claims, job, boot, memory_kills);
    *fell = losses_of(claims->memory, self, fell_count);
    return claims;
}

/* Sweeping. */

/* Whether the file tells the next life of its peer nothing: of places, only the first one counts where the
 * life before has not crashed. */
static bool tells_nothing(int fd, uint64_t memory_kills) {
    header head;
    place own;
    return pread(fd, &head, sizeof head, 0) == (ssize_t)sizeof head &&
           pread(fd, &own, sizeof own, (off_t)offsetof(header, places)) == (ssize_t)sizeof own &&
           head.magic == MAGIC && head.crashed == 0 && head.memory_kills == memory_kills &&
           head.earlier_count == 0 && own.shard == 0;
}

static void sweep_one(const char *path, uint64_t memory_kills) {
    gw_err err;
    size_t bytes;
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) return;
    if (is_ours(fd, path, &bytes, &err) && flock(fd, LOCK_EX | LOCK_NB) == 0 && is_at(fd, path) &&
        tells_nothing(fd, memory_kills))
        unlink(path);
    close(fd);
}

void gw_claim_journal_sweep(const char *folder, uint64_t memory_kills) {
    char path[GW_PATH_BYTES];
    gw_err err;
    DIR *files = opendir(folder);
    for (const struct dirent *file = files != NULL ? readdir(files) : NULL; file != NULL;
         file = readdir(files)) {
        const char *name = file->d_name;
        bool named = strncmp(name, prefix, PREFIX_LENGTH) == 0 && strlen(name) == PREFIX_LENGTH + HEX_LENGTH;
        if (named && gw_durable_path(path, &err, "%s/%s", folder, name)) sweep_one(path, memory_kills);
    }
    if (files != NULL) closedir(files);
}

static void remove_if_empty(gw_claim_journal *claims) {
    const header *memory = claims->memory;
    if (atomic_load(&memory->earlier_count) == 0 && atomic_load(&memory->places[OWN].shard) == 0 &&
        !atomic_exchange(&claims->removed, true))
        unlink(claims->path);
}

void gw_claim_journal_drop_earlier(gw_claim_journal *claims) {
    if (claims == NULL) return;
    atomic_store(&claims->memory->earlier_count, 0);
    if (atomic_load(&claims->cleared)) remove_if_empty(claims);
}

void gw_claim_journal_drop_own(gw_claim_journal *claims) {
    if (claims == NULL) return;
    atomic_store(&claims->memory->places[OWN].shard, 0);
    if (atomic_load(&claims->cleared)) remove_if_empty(claims);
}

void gw_claim_journal_crashed(gw_claim_journal *claims) {
    if (claims != NULL) atomic_store(&claims->memory->crashed, 1);
}

void gw_claim_journal_clear(gw_claim_journal *claims) {
    if (claims == NULL) return;
    atomic_store(&claims->memory->counted, OF_WORKERS);
    atomic_store(&claims->cleared, true);
    remove_if_empty(claims);
}

void gw_claim_journal_close(gw_claim_journal *claims) {
    if (claims == NULL) return;
    if (claims->cleared) remove_if_empty(claims);
    munmap(claims->memory, claims->bytes);
    close(claims->fd);
    free(claims);
}

static void fill(place *at, uint64_t step, uint32_t shard) {
    atomic_store(&at->step, step);
    atomic_store(&at->shard, (uint64_t)shard + 1);
}

void gw_claim_journal_begin(gw_claim_journal *claims, uint32_t worker, uint64_t step, uint32_t shard) {
    GW_ASSERT(worker < claims->workers);
    fill(&claims->memory->places[OF_WORKERS + worker], step, shard);
}

void gw_claim_journal_end(gw_claim_journal *claims, uint32_t worker) {
    atomic_store(&claims->memory->places[OF_WORKERS + worker].shard, 0);
}

void gw_claim_journal_give_up(gw_claim_journal *claims, uint64_t step, uint32_t shard) {
    if (claims != NULL) fill(&claims->memory->places[OWN], step, shard);
}
