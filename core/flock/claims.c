#include "core/flock/claims.h"

#include "core/base/assert.h"
#include "core/base/utf8.h"

#include <stdlib.h>
#include <string.h>

enum { VERSION = 2, VERSION_TAILED = 3, ALLOTMENT = 1 /* that a list of version 2 tells */ };
enum {
    CLAIM_BYTES = 16 + 1 + 4 + 2,
    FIXED_BYTES = 1 + 16 + 8 + 8 + 1 + 4 * 4 + 1 + 2 + 1 + 2 + 2,
    TAIL_HEAD_BYTES = 1 + 2,
    LIMITS = GW_CLAIMS_LIMITS_MEMORY | GW_CLAIMS_LIMITS_PROCESSES | GW_CLAIMS_LIMITS_CORES
};
enum { DRAINED = 1, DISK_BAD = 2, PAST_GATE = 4, DOUBTFUL = 8, ALL = 15 };

static uint8_t *copy_tail(const uint8_t *bytes, uint32_t length) {
    uint8_t *copy = malloc(length);
    GW_ASSERT_MEMORY(copy != NULL);
    memcpy(copy, bytes, length);
    return copy;
}

gw_claims gw_claims_copy(const gw_claims *claims) {
    gw_claims copy = *claims;
    copy.list = malloc((claims->count + 1) * sizeof *copy.list);
    GW_ASSERT_MEMORY(copy.list != NULL);
    if (claims->count > 0) memcpy(copy.list, claims->list, claims->count * sizeof *copy.list);
    if (claims->tail != NULL) copy.tail = copy_tail(claims->tail, claims->tail_bytes);
    return copy;
}

void gw_claims_free(gw_claims *claims) {
    free(claims->list);
    free(claims->tail);
    claims->list = NULL;
    claims->tail = NULL;
    claims->count = claims->tail_bytes = 0;
}

bool gw_claims_has_build(const gw_claims *claims, const char *build) {
    if (build == NULL || strcmp(build, claims->build) == 0) return true;
    for (uint32_t i = 0; i < claims->kept_count; i++)
        if (strcmp(build, claims->kept[i]) == 0) return true;
    return false;
}

static int compare(const gw_job_record_id *a, const gw_job_record_id *b) {
    return memcmp(a->bytes, b->bytes, sizeof a->bytes);
}

/* The first claim whose job is not below this one. */
static uint32_t place_of(const gw_claims *claims, const gw_job_record_id *job) {
    uint32_t low = 0, high = claims->count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (compare(&claims->list[middle].job, job) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const gw_claim *gw_claims_find(const gw_claims *claims, const gw_job_record_id *job) {
    uint32_t at = place_of(claims, job);
    return at < claims->count && compare(&claims->list[at].job, job) == 0 ? &claims->list[at] : NULL;
}

void gw_claims_set(gw_claims *claims, const gw_claim *claim) {
    uint32_t at = place_of(claims, &claim->job);
    if (at < claims->count && compare(&claims->list[at].job, &claim->job) == 0) {
        claims->list[at] = *claim;
        return;
    }
    if (claims->count == GW_CLAIMS_MOST) return;
    gw_claim *list = realloc(claims->list, (claims->count + 1) * sizeof *list);
    GW_ASSERT_MEMORY(list != NULL);
    claims->list = list;
    memmove(list + at + 1, list + at, (claims->count - at) * sizeof *list);
    list[at] = *claim;
    claims->count++;
}

void gw_claims_remove(gw_claims *claims, const gw_job_record_id *job) {
    uint32_t at = place_of(claims, job);
    if (at >= claims->count || compare(&claims->list[at].job, job) != 0) return;
    memmove(claims->list + at, claims->list + at + 1, (claims->count - at - 1) * sizeof *claims->list);
    claims->count--;
}

size_t gw_claims_put(const gw_claims *claims, uint8_t *bytes) {
    gw_writer w = gw_writer_on(bytes, GW_CLAIMS_BYTES);
    bool tailed = claims->allotment != ALLOTMENT || claims->tail_bytes > 0;
    GW_ASSERT(claims->allotment > 0 && claims->tail_bytes <= GW_CLAIMS_TAIL);
    gw_put_u8(&w, tailed ? VERSION_TAILED : VERSION);
    gw_put_peer_id(&w, &claims->member);
    gw_put_u64(&w, claims->boot);
    gw_put_u64(&w, claims->number);
    gw_put_u8(&w, (uint8_t)((claims->drained ? DRAINED : 0) | (claims->disk_bad ? DISK_BAD : 0) |
                            (claims->past_gate ? PAST_GATE : 0) | (claims->doubtful ? DOUBTFUL : 0)));
    gw_put_u32(&w, claims->has.cores);
    gw_put_u32(&w, claims->has.memory_mib);
    gw_put_u32(&w, claims->has.gpus);
    gw_put_u32(&w, claims->compute_class);
    gw_put_u8(&w, claims->limits);
    gw_put_string(&w, claims->build);
    gw_put_u8(&w, (uint8_t)claims->kept_count);
    for (uint32_t i = 0; i < claims->kept_count; i++) gw_put_string(&w, claims->kept[i]);
    gw_put_string(&w, claims->name);
    gw_put_u16(&w, (uint16_t)claims->count);
    for (uint32_t i = 0; i < claims->count; i++) {
        gw_put_bytes(&w, claims->list[i].job.bytes, sizeof claims->list[i].job.bytes);
        gw_put_u8(&w, (uint8_t)claims->list[i].state);
        gw_put_u32(&w, claims->list[i].slots);
        gw_put_u16(&w, claims->list[i].port);
    }
    if (tailed) {
        gw_put_u8(&w, claims->allotment);
        gw_put_u16(&w, (uint16_t)claims->tail_bytes);
        gw_put_bytes(&w, claims->tail, claims->tail_bytes);
    }
    GW_ASSERT(!w.failed);
    return w.length;
}

static void get_list(gw_reader *r, gw_claims *claims) {
    uint32_t count = gw_get_u16(r);
    if (r->failed || count > GW_CLAIMS_MOST || gw_reader_left(r) < (size_t)count * CLAIM_BYTES) {
        r->failed = true;
        return;
    }
    claims->list = calloc(count + 1, sizeof *claims->list);
    GW_ASSERT_MEMORY(claims->list != NULL);
    claims->count = count;
    for (uint32_t i = 0; i < count; i++) {
        gw_claim *claim = &claims->list[i];
        gw_get_bytes(r, claim->job.bytes, sizeof claim->job.bytes);
        claim->state = (gw_claim_state)gw_get_u8(r);
        claim->slots = gw_get_u32(r);
        claim->port = gw_get_u16(r);
        r->failed |= claim->state < GW_CLAIM_CLAIMED || claim->state >= GW_CLAIM_STATES;
        r->failed |= i > 0 && compare(&claims->list[i - 1].job, &claim->job) >= 0;
    }
}

/* Reads what version 3 has behind the claims. A list that needs it for nothing is not written in that version. */
static void get_tail(gw_reader *r, gw_claims *claims) {
    claims->allotment = gw_get_u8(r);
    uint32_t length = gw_get_u16(r);
    const uint8_t *bytes = gw_get_view(r, length);
    bool plain = claims->allotment == ALLOTMENT && length == 0;
    if (bytes == NULL || length > GW_CLAIMS_TAIL || claims->allotment == 0 || plain) {
        r->failed = true;
        return;
    }
    if (length == 0) return;
    claims->tail = copy_tail(bytes, length);
    claims->tail_bytes = length;
}

/* Reads the builds; returns how many bytes their texts have. */
static size_t get_builds(gw_reader *r, gw_claims *claims) {
    gw_get_string(r, claims->build, sizeof claims->build);
    size_t bytes = strlen(claims->build);
    claims->kept_count = gw_get_u8(r);
    if (claims->kept_count > GW_CLAIMS_KEPT) {
        claims->kept_count = 0;
        r->failed = true;
    }
    for (uint32_t i = 0; i < claims->kept_count; i++) {
        gw_get_string(r, claims->kept[i], sizeof claims->kept[i]);
        bytes += 2 + strlen(claims->kept[i]);
    }
    return bytes;
}

static bool is_text(const char *text) {
    size_t wrong;
    bool control;
    return gw_utf8_is_printable(text, &wrong, &control);
}

static bool are_texts(const gw_claims *claims) {
    for (uint32_t i = 0; i < claims->kept_count; i++)
        if (!is_text(claims->kept[i])) return false;
    return is_text(claims->build) && is_text(claims->name);
}

bool gw_claims_get(const void *bytes, size_t length, gw_claims *claims, gw_err *err) {
    gw_reader r = gw_reader_on(bytes, length);
    *claims = (gw_claims){.allotment = ALLOTMENT};
    uint8_t version = gw_get_u8(&r);
    gw_get_peer_id(&r, &claims->member);
    claims->boot = gw_get_u64(&r);
    claims->number = gw_get_u64(&r);
    if (!r.failed && version > VERSION_TAILED && !gw_peer_id_is_none(&claims->member))
        return gw_fail(err, GW_E_UNSUPPORTED, "a member's claims are of version %u; this build reads %d",
                       version, VERSION_TAILED);
    uint8_t conditions = gw_get_u8(&r);
    claims->drained = (conditions & DRAINED) != 0;
    claims->disk_bad = (conditions & DISK_BAD) != 0;
    claims->past_gate = (conditions & PAST_GATE) != 0;
    claims->doubtful = (conditions & DOUBTFUL) != 0;
    claims->has.cores = gw_get_u32(&r);
    claims->has.memory_mib = gw_get_u32(&r);
    claims->has.gpus = gw_get_u32(&r);
    claims->compute_class = gw_get_u32(&r);
    claims->limits = gw_get_u8(&r);
    size_t build_bytes = get_builds(&r, claims);
    gw_get_string(&r, claims->name, sizeof claims->name);
    get_list(&r, claims);
    if (version == VERSION_TAILED) get_tail(&r, claims);
    /* No byte hides behind the end of a text. */
    size_t right = FIXED_BYTES + build_bytes + strlen(claims->name) + (size_t)claims->count * CLAIM_BYTES +
                   (version == VERSION_TAILED ? TAIL_HEAD_BYTES : 0) + claims->tail_bytes;
    if ((version == VERSION || version == VERSION_TAILED) && length == right && (conditions & ~ALL) == 0 &&
        (claims->limits & ~LIMITS) == 0 && gw_reader_done(&r) && are_texts(claims) &&
        !gw_peer_id_is_none(&claims->member))
        return true;
    gw_claims_free(claims);
    return gw_fail(err, GW_E_INVALID, "the claims of a member are malformed");
}
