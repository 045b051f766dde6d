/* How the members of a flock exchange records of jobs (records.h) and lists of claims (claims.h), so that all come to
 * know the same, whatever is lost, delayed or doubled on the way.
 *
 *   links         a member is linked with all others, or, in a large flock, with some (links.h). What follows goes to those
 *                 with which it is linked
 *   push          a record that has changed is announced, 24 bytes, to GW_EXCHANGE_FANOUT others, of which one is the next by
 *                 id, so that nobody is left out; who does not know the announced state asks for it, joins it, and announces
 *                 it in turn. Claims are pushed whole
 *   anti-entropy  every GW_EXCHANGE_ROUND_NS a member sends the digests of all that it knows to one other. Where they
 *                 differ, digests of 256 buckets follow, then the lists of those that differ, then what is in them
 *   gate          a member that starts may have been away while jobs were cancelled or ended. It is past its gate when it
 *                 has found itself to know the same as a member that is past its own, or as more than half of those that
 *                 it knew when it ended; or when gate_ns are over, which the caller says in its log. An agreement lasts,
 *                 whether its link does or not: what the other knew then is known here from then on. Until the gate is
 *                 passed, links are asked for to those with which there is none, GW_EXCHANGE_REACH a second
 *   durability    a member that has made a record durable says so to the one from which it got it, so that the
 *                 submitter learns on how many disks a submission is
 *
 * (Push and anti-entropy: Demers et al., "Epidemic Algorithms for Replicated Database Maintenance", PODC'87.)
 *
 * Messages (core/base/wire.h) begin with a version u8 and a kind u8. They are not trusted: gw_exchange_message returns
 * false for one that is malformed. What waits for a peer's answer is bounded, and is asked of another one when the answer
 * does not come. Messages and records of later versions, and messages of kinds that are not known, are left out: later
 * builds have their use of them. Where a member's claims are told in a way that this build does not read, or it speaks
 * nothing that is read, it is unreadable: nobody here knows what it runs (decide.h).
 *
 * Sans-IO: time and randomness come in as arguments, messages go out through the sink. Thread: one at a time. The
 * sink's functions must not call the exchange. */
#ifndef GODWIT_CORE_FLOCK_EXCHANGE_H
#define GODWIT_CORE_FLOCK_EXCHANGE_H

#include "core/flock/claims.h"
#include "core/flock/records.h"

enum {
    GW_EXCHANGE_FANOUT = 4,
    GW_EXCHANGE_REACH = 16,
    GW_EXCHANGE_MEMBERS = 4096,          /* at most */
    GW_EXCHANGE_MESSAGE_BYTES = 1 << 20, /* no message is longer */
    GW_EXCHANGE_HOLDERS = 2,             /* a submission is acknowledged when so many members hold it */
};

#define GW_EXCHANGE_ROUND_NS UINT64_C(5000000000)
#define GW_EXCHANGE_GATE_NS  UINT64_C(600000000000)
/* A member that has never known another one waits so long for one before it is past its gate. */
#define GW_EXCHANGE_ALONE_NS UINT64_C(3000000000)

typedef struct gw_exchange gw_exchange;

typedef struct gw_exchange_sink {
    void *context;
    /* Sends a message to a member that is up. What cannot be sent is lost. */
    void (*send)(void *context, const gw_peer_id *to, const void *bytes, size_t length);
    /* A link to a member is wanted for a while: it is up later, or the member is not there. */
    void (*reach)(void *context, const gw_peer_id *member);
    /* A record is new or has changed by what another member knew. */
    void (*record_changed)(void *context, const gw_job_record_id *id);
    /* A member's list of claims has changed. */
    void (*claims_changed)(void *context, const gw_peer_id *member);
    /* Another member holds the record durably, with all that it had here in its state of this number. */
    void (*held)(void *context, const gw_job_record_id *id, const gw_peer_id *member, uint64_t state);
} gw_exchange_sink;

typedef struct gw_exchange_config {
    gw_peer_id self;
    gw_job_records *records; /* which the exchange joins into; outlives it */
    const gw_peer_id *known; /* members that were known before; copied */
    uint32_t known_count;
    bool expects_others; /* there are addresses of others, though none is known */
    uint64_t gate_ns;    /* GW_EXCHANGE_GATE_NS, or what the user says */
    uint64_t rng_seed;
    gw_exchange_sink sink;
} gw_exchange_config;

/* Running out of memory ends the process. */
gw_exchange *gw_exchange_open(const gw_exchange_config *config, uint64_t now_ns);
void gw_exchange_close(gw_exchange *exchange); /* NULL is allowed */

/* A link to a member is up, or down. Sinks. */
void gw_exchange_up(gw_exchange *exchange, const gw_peer_id *member, uint64_t now_ns);
void gw_exchange_down(gw_exchange *exchange, const gw_peer_id *member);
/* A member is dead, or has left: its claims are forgotten. */
void gw_exchange_gone(gw_exchange *exchange, const gw_peer_id *member);

/* Takes a message. False: it is malformed. Sinks. */
bool gw_exchange_message(gw_exchange *exchange, const gw_peer_id *from, const void *bytes, size_t length,
                         uint64_t now_ns);
uint64_t gw_exchange_next_deadline(const gw_exchange *exchange);
/* Does what is due. Sinks. */
void gw_exchange_tick(gw_exchange *exchange, uint64_t now_ns);

/* The record has changed here. Sinks. */
void gw_exchange_put(gw_exchange *exchange, const gw_job_record_id *id, uint64_t now_ns);
/* Sets this member's claims, with a number that is higher than the last one. Sinks. */
void gw_exchange_set_claims(gw_exchange *exchange, const gw_claims *claims, uint64_t now_ns);
/* Whether all of these live members have said that they know this member's claims up to `number`. */
bool gw_exchange_all_heard(const gw_exchange *exchange, const gw_peer_id *live, uint32_t count,
                           uint64_t number);
/* The record is durable here, in the state that has this digest. Where it has another one by now, this does nothing. Sinks. */
void gw_exchange_durable(gw_exchange *exchange, const gw_job_record_id *id, uint64_t digest);

/* Rises with whatever a member's decisions depend on: a record, claims, who has heard of this member's, and the gate. */
uint64_t gw_exchange_news(const gw_exchange *exchange);
/* How many states all records together have had here. A state that a change makes has a higher number than this before it. */
uint64_t gw_exchange_states(const gw_exchange *exchange);

bool gw_exchange_is_past_gate(const gw_exchange *exchange);
/* Whether the time alone has opened the gate. */
bool gw_exchange_gate_is_forced(const gw_exchange *exchange);

/* The lists of claims that are known, this member's own among them, in an order that changes with calls that sink. */
uint32_t gw_exchange_claims_count(const gw_exchange *exchange);
const gw_claims *gw_exchange_claims_at(const gw_exchange *exchange, uint32_t index);
const gw_claims *gw_exchange_claims_of(const gw_exchange *exchange,
                                       const gw_peer_id *member); /* NULL: not known */
/* Whether a member has told claims in a way that this build does not read, and none since that it does. */
bool gw_exchange_is_unreadable(const gw_exchange *exchange, const gw_peer_id *member);

#endif
