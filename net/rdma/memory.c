#include "net/rdma/memory.h"

#include "core/base/assert.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE = 4096 };

typedef struct entry {
    gw_rdma_region region; /* first: entry_of */
    struct entry *next;
    gw_rdma_access access;
    uint32_t holders;
    struct ibv_mr *mr;
} entry;

struct gw_rdma_memory {
    gw_rdma_device device;
    atomic_uint holders;
    struct ibv_pd *domain;
    pthread_mutex_t lock;
    entry *entries;
    uint64_t locked_bytes; /* in whole pages */
};

static entry *entry_of(const gw_rdma_region *region) {
    return (entry *)region;
}

gw_rdma_memory *gw_rdma_memory_open(gw_rdma_device *device, gw_err *err) {
    gw_rdma_memory *memory = calloc(1, sizeof *memory);
    struct ibv_pd *domain = memory != NULL ? ibv_alloc_pd(device->verbs) : NULL;
    if (domain == NULL) {
        if (memory == NULL)
            gw_fail(err, GW_E_NOMEM, "net/rdma: no memory");
        else
            gw_fail_errno(err, errno, "net/rdma: %s: no protection domain", device->name);
        free(memory);
        gw_rdma_device_close(device);
        return NULL;
    }
    memory->domain = domain;
    memory->device = *device;
    *device = (gw_rdma_device){0};
    atomic_init(&memory->holders, 1);
    pthread_mutex_init(&memory->lock, NULL);
    return memory;
}

gw_rdma_memory *gw_rdma_memory_hold(gw_rdma_memory *memory) {
    atomic_fetch_add(&memory->holders, 1);
    return memory;
}

void gw_rdma_memory_close(gw_rdma_memory *memory) {
    if (memory == NULL || atomic_fetch_sub(&memory->holders, 1) > 1) return;
    GW_ASSERT(memory->entries == NULL);
    gw_rdma_device_freed(ibv_dealloc_pd(memory->domain));
    gw_rdma_device_close(&memory->device);
    pthread_mutex_destroy(&memory->lock);
    free(memory);
}

/* The bytes that a registration locks, in whole pages. */
static uint64_t pages_of(const gw_rdma_region *region) {
    uintptr_t first = (uintptr_t)region->start / PAGE, end = (uintptr_t)region->start + region->bytes;
    return (end + PAGE - 1) / PAGE * PAGE - first * PAGE;
}

static bool fail_register(const gw_rdma_memory *memory, const gw_rdma_region *region, int failed,
                          gw_err *err) {
    uint64_t limit = gw_rdma_locked_limit(), need = memory->locked_bytes + pages_of(region);
    if ((failed == ENOMEM || failed == EAGAIN) && need > limit)
        return gw_fail(err, GW_E_LIMIT,
                       "net/rdma: %s needs %llu KiB of locked memory and this process may lock %llu KiB "
                       "('ulimit -l'): put the line '%s' into /etc/security/limits.conf and log in again",
                       memory->device.name, (unsigned long long)(need + 1023) / 1024,
                       (unsigned long long)limit / 1024, gw_rdma_limits_line);
    return gw_fail_errno(err, failed, "net/rdma: %s: registering %zu bytes", memory->device.name,
                         region->bytes);
}

static bool register_at_device(gw_rdma_memory *memory, entry *e, gw_err *err) {
    unsigned flags = e->access == GW_RDMA_LOCAL ? IBV_ACCESS_LOCAL_WRITE
                     : e->access == GW_RDMA_READABLE
                         ? IBV_ACCESS_REMOTE_READ
                         : IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
    if (e->access == GW_RDMA_WRITABLE && memory->device.atomics != IBV_ATOMIC_NONE)
        flags |= IBV_ACCESS_REMOTE_ATOMIC;
    e->mr = ibv_reg_mr(memory->domain, e->region.start, e->region.bytes, flags);
    if (e->mr == NULL) return fail_register(memory, &e->region, errno, err);
    e->region.lkey = e->mr->lkey;
    e->region.rkey = e->mr->rkey;
    memory->locked_bytes += pages_of(&e->region);
    return true;
}

static entry *find_shared(gw_rdma_memory *memory, const uint8_t *start, size_t bytes, gw_rdma_access access) {
    for (entry *e = memory->entries; e != NULL; e = e->next)
        if (e->access == access && access != GW_RDMA_WRITABLE && start >= e->region.start &&
            bytes <= e->region.bytes && (size_t)(start - e->region.start) <= e->region.bytes - bytes)
            return e;
    return NULL;
}

const gw_rdma_region *gw_rdma_memory_take(gw_rdma_memory *memory, const void *start, size_t bytes,
                                          gw_rdma_access access, gw_err *err) {
    pthread_mutex_lock(&memory->lock);
    entry *e = find_shared(memory, start, bytes, access);
    if (e == NULL) {
        e = calloc(1, sizeof *e);
        if (e == NULL) {
            gw_fail(err, GW_E_NOMEM, "net/rdma: no memory");
        } else {
            e->region = (gw_rdma_region){.start = (uint8_t *)(uintptr_t)start, .bytes = bytes};
            e->access = access;
            if (register_at_device(memory, e, err)) {
                e->next = memory->entries;
                memory->entries = e;
            } else {
                free(e);
                e = NULL;
            }
        }
    }
    if (e != NULL) e->holders++;
    pthread_mutex_unlock(&memory->lock);
    return e != NULL ? &e->region : NULL;
}

void gw_rdma_memory_drop(gw_rdma_memory *memory, const gw_rdma_region *region) {
    if (region == NULL) return;
    entry *e = entry_of(region);
    pthread_mutex_lock(&memory->lock);
    GW_ASSERT(e->holders > 0);
    if (--e->holders == 0) {
        gw_rdma_device_freed(ibv_dereg_mr(e->mr));
        memory->locked_bytes -= pages_of(&e->region);
        entry **at = &memory->entries;
        while (*at != e) at = &(*at)->next;
        *at = e->next;
        free(e);
    }
    pthread_mutex_unlock(&memory->lock);
}

uint32_t gw_rdma_memory_count(gw_rdma_memory *memory) {
    uint32_t count = 0;
    pthread_mutex_lock(&memory->lock);
    for (entry *e = memory->entries; e != NULL; e = e->next) count++;
    pthread_mutex_unlock(&memory->lock);
    return count;
}

struct ibv_pd *gw_rdma_memory_domain(gw_rdma_memory *memory) {
    return memory->domain;
}
const gw_rdma_device *gw_rdma_memory_device(const gw_rdma_memory *memory) {
    return &memory->device;
}
