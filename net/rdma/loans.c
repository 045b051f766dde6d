#include "net/rdma/loans.h"

#include "core/base/assert.h"
#include "core/base/log.h"

#include <pthread.h>
#include <stdlib.h>

_Static_assert(GW_RDMA_SLICE_BYTES % GW_RDMA_PART_BYTES == 0, "a part lies in one slice");

enum { REVOKED = 64 /* the last revoked keys, which are not given out again */ };

/* The registration of one slice of a region, at a multiple of GW_RDMA_SLICE_BYTES. */
typedef struct slice {
    const gw_rdma_region *registered; /* NULL: it is not registered */
    uint64_t number; /* the number of the registration, which tells loans of an older one apart */
    uint64_t used;   /* the number of the loan that last lent it */
    uint32_t lent;
} slice;

typedef struct region {
    uint8_t *memory; /* NULL: the number is not in use */
    uint64_t bytes;
    slice *slices;
    uint32_t count;
} region;

typedef struct loan {
    gw_rdma_loan is; /* first: loan_of */
    gw_lookup *lookup;
    const gw_rdma_region *registered; /* of an answer (lookup is not NULL) */
    uint32_t region, slice;           /* of a part (lookup is NULL) */
    uint64_t number;
} loan;

struct gw_rdma_loans {
    gw_rdma_memory *memory;
    gw_rdma_loans_limits limits;
    pthread_mutex_t lock;
    region regions[GW_MAX_REGIONS];
    uint64_t kept_bytes, answer_bytes, numbers, lent;
    uint32_t revoked[REVOKED],
        revoked_count; /* the revoked keys, the latest at [(revoked_count - 1) % REVOKED] */
    bool warned;
};

static loan *loan_of(const gw_rdma_loan *is) {
    return (loan *)(uintptr_t)is;
}

gw_rdma_loans *gw_rdma_loans_open(gw_rdma_memory *memory, const gw_rdma_loans_limits *limits) {
    gw_rdma_loans *loans = calloc(1, sizeof *loans);
    if (loans == NULL) return NULL;
    loans->memory = gw_rdma_memory_hold(memory);
    loans->limits = *limits;
    pthread_mutex_init(&loans->lock, NULL);
    return loans;
}

void gw_rdma_loans_close(gw_rdma_loans *loans) {
    if (loans == NULL) return;
    GW_ASSERT(loans->answer_bytes == 0);
    for (uint32_t i = 0; i < GW_MAX_REGIONS; i++) gw_rdma_loans_remove(loans, i);
    gw_rdma_memory_close(loans->memory);
    pthread_mutex_destroy(&loans->lock);
    free(loans);
}

/* Slices. The functions are called with the lock held. */

static void release_slice(gw_rdma_loans *loans, slice *s) {
    if (s->registered == NULL) return;
    if (s->lent > 0) loans->revoked[loans->revoked_count++ % REVOKED] = s->registered->rkey;
    loans->kept_bytes -= s->registered->bytes;
    gw_rdma_memory_drop(loans->memory, s->registered);
    s->registered = NULL;
    s->lent = 0;
}

/* Releases the least recently lent slice that nobody reads. False: all are being read. */
static bool release_one(gw_rdma_loans *loans) {
    slice *oldest = NULL;
    for (uint32_t i = 0; i < GW_MAX_REGIONS; i++)
        for (uint32_t k = 0; k < loans->regions[i].count; k++) {
            slice *s = &loans->regions[i].slices[k];
            if (s->registered == NULL || s->lent > 0) continue;
            if (oldest == NULL || s->used < oldest->used) oldest = s;
        }
    if (oldest != NULL) release_slice(loans, oldest);
    return oldest != NULL;
}

/* Warns once: everything goes on by the rails. */
static void warn(gw_rdma_loans *loans, const gw_err *err) {
    gw_log(loans->warned ? GW_DEBUG : GW_WARN, "net/rdma", "%s: other peers get these data in messages",
           err->text);
    loans->warned = true;
}

/* Registers memory. If the process may lock no more, slices that nobody reads are released for it. */
static const gw_rdma_region *take(gw_rdma_loans *loans, const void *start, uint64_t bytes) {
    for (;;) {
        gw_err err;
        const gw_rdma_region *taken =
            gw_rdma_memory_take(loans->memory, start, bytes, GW_RDMA_READABLE, &err);
        if (taken != NULL) return taken;
        if (err.code == GW_E_LIMIT && release_one(loans)) continue;
        warn(loans, &err);
        return NULL;
    }
}

static bool is_revoked(const gw_rdma_loans *loans, uint32_t rkey) {
    for (uint32_t i = 0; i < REVOKED && i < loans->revoked_count; i++)
        if (loans->revoked[i] == rkey) return true;
    return false;
}

static bool keep(gw_rdma_loans *loans, const region *r, slice *s) {
    if (s->registered != NULL) return true;
    uint64_t start = (uint64_t)(s - r->slices) * GW_RDMA_SLICE_BYTES, left = r->bytes - start;
    uint64_t bytes = left < GW_RDMA_SLICE_BYTES ? left : GW_RDMA_SLICE_BYTES;
    while (loans->kept_bytes + bytes > loans->limits.kept)
        if (!release_one(loans)) return false;
    s->registered = take(loans, r->memory + start, bytes);
    if (s->registered == NULL) return false;
    if (is_revoked(
            loans,
            s->registered->rkey)) { /* the device has assigned the key anew; a later try gets another one */
        gw_rdma_memory_drop(loans->memory, s->registered);
        s->registered = NULL;
        return false;
    }
    loans->kept_bytes += s->registered->bytes;
    s->number = ++loans->numbers;
    s->lent = 0;
    return true;
}

/* Regions. */

void gw_rdma_loans_add(gw_rdma_loans *loans, uint32_t number, const void *memory, uint64_t bytes) {
    uint64_t count = (bytes + GW_RDMA_SLICE_BYTES - 1) / GW_RDMA_SLICE_BYTES;
    GW_ASSERT(number < GW_MAX_REGIONS);
    slice *slices = count <= UINT32_MAX ? calloc(count, sizeof *slices) : NULL;
    if (slices == NULL) return;
    pthread_mutex_lock(&loans->lock);
    GW_ASSERT(loans->regions[number].memory == NULL);
    loans->regions[number] = (region){(uint8_t *)(uintptr_t)memory, bytes, slices, (uint32_t)count};
    pthread_mutex_unlock(&loans->lock);
}

void gw_rdma_loans_remove(gw_rdma_loans *loans, uint32_t number) {
    if (number >= GW_MAX_REGIONS) return;
    pthread_mutex_lock(&loans->lock);
    region *r = &loans->regions[number];
    for (uint32_t i = 0; i < r->count; i++) release_slice(loans, &r->slices[i]);
    free(r->slices);
    *r = (region){0};
    pthread_mutex_unlock(&loans->lock);
}

void gw_rdma_loans_revoke(gw_rdma_loans *loans) {
    pthread_mutex_lock(&loans->lock);
    for (uint32_t i = 0; i < GW_MAX_REGIONS; i++)
        for (uint32_t k = 0; k < loans->regions[i].count; k++)
            if (loans->regions[i].slices[k].lent > 0) release_slice(loans, &loans->regions[i].slices[k]);
    pthread_mutex_unlock(&loans->lock);
}

void gw_rdma_loans_release(gw_rdma_loans *loans) {
    pthread_mutex_lock(&loans->lock);
    GW_ASSERT(loans->answer_bytes == 0);
    for (uint32_t i = 0; i < GW_MAX_REGIONS; i++)
        for (uint32_t k = 0; k < loans->regions[i].count; k++)
            release_slice(loans, &loans->regions[i].slices[k]);
    loans->revoked_count = 0;
    gw_rdma_memory_close(loans->memory);
    loans->memory = NULL;
    pthread_mutex_unlock(&loans->lock);
}

void gw_rdma_loans_take(gw_rdma_loans *loans, gw_rdma_memory *memory) {
    pthread_mutex_lock(&loans->lock);
    loans->memory = gw_rdma_memory_hold(memory);
    pthread_mutex_unlock(&loans->lock);
}

/* Loans. */

static loan *lend_part(gw_rdma_loans *loans, uint32_t number, uint64_t offset, uint64_t bytes) {
    region *r = &loans->regions[number];
    if (r->memory == NULL || bytes == 0 || offset > r->bytes || bytes > r->bytes - offset) return NULL;
    if (offset % GW_RDMA_PART_BYTES + bytes > GW_RDMA_PART_BYTES) return NULL;
    slice *s = &r->slices[offset / GW_RDMA_SLICE_BYTES];
    loan *l = calloc(1, sizeof *l);
    if (l == NULL || !keep(loans, r, s)) {
        free(l);
        return NULL;
    }
    s->lent++;
    s->used = ++loans->lent;
    *l = (loan){.is = {(uintptr_t)r->memory + offset, bytes, s->registered->rkey},
                .region = number,
                .slice = (uint32_t)(s - r->slices),
                .number = s->number};
    return l;
}

const gw_rdma_loan *gw_rdma_loans_lend_part(gw_rdma_loans *loans, uint32_t number, uint64_t offset,
                                            uint64_t bytes) {
    if (number >= GW_MAX_REGIONS) return NULL;
    pthread_mutex_lock(&loans->lock);
    loan *l = lend_part(loans, number, offset, bytes);
    pthread_mutex_unlock(&loans->lock);
    return l != NULL ? &l->is : NULL;
}

static loan *lend_answer(gw_rdma_loans *loans, gw_lookup *lookup) {
    uint64_t bytes = lookup->length;
    if (loans->answer_bytes > 0 && bytes + loans->answer_bytes > loans->limits.answers) return NULL;
    loan *l = calloc(1, sizeof *l);
    if (l == NULL) return NULL;
    *l = (loan){.is = {.bytes = bytes}, .lookup = lookup};
    if (bytes > 0) {
        l->registered = take(loans, lookup->bytes, bytes);
        if (l->registered == NULL) {
            free(l);
            return NULL;
        }
        l->is.address = (uintptr_t)lookup->bytes;
        l->is.rkey = l->registered->rkey;
    }
    loans->answer_bytes += bytes;
    return l;
}

const gw_rdma_loan *gw_rdma_loans_lend_answer(gw_rdma_loans *loans, gw_lookup *lookup) {
    GW_ASSERT(lookup->status == GW_OP_OK);
    pthread_mutex_lock(&loans->lock);
    loan *l = lend_answer(loans, lookup);
    pthread_mutex_unlock(&loans->lock);
    if (l == NULL) gw_lookup_free(lookup);
    return l != NULL ? &l->is : NULL;
}

/* Ends the loan of a part, unless its slice has been registered anew since. */
static void end_part(gw_rdma_loans *loans, const loan *l) {
    const region *r = &loans->regions[l->region];
    slice *s = l->slice < r->count ? &r->slices[l->slice] : NULL;
    if (s == NULL || s->registered == NULL || s->number != l->number) return;
    GW_ASSERT(s->lent > 0);
    s->lent--;
}

void gw_rdma_loans_end(gw_rdma_loans *loans, const gw_rdma_loan *is) {
    if (is == NULL) return;
    loan *l = loan_of(is);
    pthread_mutex_lock(&loans->lock);
    if (l->lookup == NULL) {
        end_part(loans, l);
    } else {
        gw_rdma_memory_drop(loans->memory, l->registered);
        loans->answer_bytes -= l->is.bytes;
    }
    pthread_mutex_unlock(&loans->lock);
    if (l->lookup != NULL) gw_lookup_free(l->lookup);
    free(l);
}

void gw_rdma_loans_count(gw_rdma_loans *loans, uint64_t *answers, uint64_t *kept) {
    pthread_mutex_lock(&loans->lock);
    *answers = loans->answer_bytes;
    *kept = loans->kept_bytes;
    pthread_mutex_unlock(&loans->lock);
}
