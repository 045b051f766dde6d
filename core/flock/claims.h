/* What a member tells all others of itself: what it has, the conditions that it is in, and its claims, which are the jobs
 * that run there, are about to, or are not to be started there. It is one list of each member, numbered by (boot,
 * version): of two, the higher one holds, so that lists travel by way of others and come in any order.
 *
 * Bytes (core/base/wire.h): version u8 | member 16 | boot u64 | number u64 | conditions u8 | cores u32 | memory u32 |
 * GPUs u32 | compute class u32 | limits u8 | build string | count u8 | kept builds, each a string | name string |
 * count u16 | claims, each: job 16 | state u8 | slots u32 | port u16, by rising job. That is version 2.
 * In version 3 there follow: allotment u8 | length u16 | tail. A list is of version 3 if its member computes another
 * allotment than version 1 or it has a tail, and else of version 2: there is one encoding of each list.
 *
 * Members of a flock are upgraded one by one, so that their builds differ for a while. What a later build adds to a list is
 * the tail, and what one after that adds comes at the end of the tail: a build reads what it knows, and keeps the tail as
 * it came, so that the list is passed on unchanged. Whatever cannot be a tail is another version, which this build does
 * not read. All versions begin alike up to the number, so that it is known at least whose list it is.
 *
 * Pure; any thread. */
#ifndef GODWIT_CORE_FLOCK_CLAIMS_H
#define GODWIT_CORE_FLOCK_CLAIMS_H

#include "core/base/err.h"
#include "core/flock/allot.h"

enum {
    GW_CLAIMS_MOST = 4096,
    GW_CLAIMS_NAME_TEXT = 64,
    GW_CLAIMS_BUILD_TEXT = 64,
    GW_CLAIMS_KEPT = 8,                  /* builds beside the member's own, at most */
    GW_CLAIMS_TAIL = 4 * GW_CLAIMS_MOST, /* bytes of a tail, at most: room for something of each claim */
    /* No list is longer. */
    GW_CLAIMS_BYTES = 200 + GW_CLAIMS_NAME_TEXT + (1 + GW_CLAIMS_KEPT) * (2 + GW_CLAIMS_BUILD_TEXT) +
                      GW_CLAIMS_MOST * 23 + GW_CLAIMS_TAIL,
};

/* What the kernel holds children to on a node; what it does not is watched by the member. */
enum { GW_CLAIMS_LIMITS_MEMORY = 1, GW_CLAIMS_LIMITS_PROCESSES = 2, GW_CLAIMS_LIMITS_CORES = 4 };

typedef enum gw_claim_state {
    GW_CLAIM_CLAIMED = 1, /* a child is to be started when others have had the time to object */
    GW_CLAIM_RUNNING,
    GW_CLAIM_LEAVING, /* a child was asked to end */
    GW_CLAIM_STRUCK,  /* the job is not to be started here again */
    GW_CLAIM_STATES,
} gw_claim_state;

typedef struct gw_claim {
    gw_job_record_id job;
    gw_claim_state state;
    uint32_t slots; /* of a map's child; 0: of no meaning */
    uint16_t port;  /* that a RUN's child listens on; 0: none */
} gw_claim;

typedef struct gw_claims {
    gw_peer_id member;
    uint64_t boot, number;
    bool drained;   /* it takes no children */
    bool disk_bad;  /* its disk takes no writes */
    bool past_gate; /* it knows what the others know (exchange.h) */
    bool doubtful;  /* jobs failed here soon after their start: it takes no more while others do */
    gw_allot_need has;
    uint32_t compute_class;
    uint8_t limits;                                  /* GW_CLAIMS_LIMITS_... */
    char build[GW_CLAIMS_BUILD_TEXT];                /* the member's */
    char kept[GW_CLAIMS_KEPT][GW_CLAIMS_BUILD_TEXT]; /* earlier ones, for jobs that began under them */
    uint32_t kept_count;
    char name[GW_CLAIMS_NAME_TEXT]; /* of the node, for people: UTF-8 without control characters */
    gw_claim *list;                 /* by rising job */
    uint32_t count;
    uint8_t allotment; /* the latest version of it that the member computes (allot.h); at least 1 */
    uint8_t *tail;     /* what later builds add; NULL: nothing */
    uint32_t tail_bytes;
} gw_claims;

/* A copy with a list and a tail of its own. */
gw_claims gw_claims_copy(const gw_claims *claims);
void gw_claims_free(gw_claims *claims); /* the list and the tail */
/* Whether a node has a build; NULL: any. */
bool gw_claims_has_build(const gw_claims *claims, const char *build);
/* The claim on a job; NULL: there is none. */
const gw_claim *gw_claims_find(const gw_claims *claims, const gw_job_record_id *job);
/* Adds a claim, or replaces that on its job; where there are GW_CLAIMS_MOST, nothing happens. */
void gw_claims_set(gw_claims *claims, const gw_claim *claim);
void gw_claims_remove(gw_claims *claims, const gw_job_record_id *job);

/* Writes a list; `bytes` has room for GW_CLAIMS_BYTES. Returns its length. */
size_t gw_claims_put(const gw_claims *claims, uint8_t *bytes);
/* Reads a list, which the caller frees after success. Fails with GW_E_INVALID, and with GW_E_UNSUPPORTED where it is of
 * a later version: then it has the member, its boot and the number, and no claims. With GW_E_INVALID these are zeros if
 * they could not be read. */
bool gw_claims_get(const void *bytes, size_t length, gw_claims *claims, gw_err *err);

#endif
