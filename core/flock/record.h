/* The record of a job on a standing flock: what was submitted, and what has become of it. Every member keeps the
 * records of all jobs, and members exchange them. A record is a product of lattices: gw_job_record_join, which is
 * fieldwise, gives the same record in whatever order and how often records are joined, and what is over stays over.
 *
 *   spec     nothing < the bytes of which the id is the hash
 *   cancel   no < yes
 *   started  no < yes           set, durable and told, before the first child of the job starts
 *   knob     the highest of (n, writer, priority, hold)
 *   rounds   a child starts in round 1 + the highest that failed; of each round the highest of (last, fatal, code,
 *            member, boot). A failure is one of its round: two halves of a flock that fail one round count one
 *   saved    the highest step of which a node has told that it has a checkpoint
 *   ends     of each end (kind, hash) the lowest of (when, member); the two highest ends are kept. Two ends of one job
 *            that differ are shown, and are an alarm where sums are exact
 *   unknown  fields of later versions, as bytes: of each tag the highest. Builds that know such a field join it so, too;
 *            and what is told by a field of today stays as it is
 *
 *   over  =  cancel, or an end, or a round that is last or fatal. It is a homomorphism of the join: no merge alone
 *            ends a job, and a stub (a record without its spec) needs no spec to tell it
 *
 * Bytes (core/base/wire.h): version u8 | id 16 | fields, each: tag u8, length u32, bytes; tags rise, and fields that
 * hold their lattice's lowest value are left out. There is one encoding of each record: the digest of a record is
 * that of its bytes without the spec, so that members who have dropped a spec agree with those who have not.
 *
 * Records are plain values that own their spec and unknown bytes. Pure; any thread. */
#ifndef GODWIT_CORE_FLOCK_RECORD_H
#define GODWIT_CORE_FLOCK_RECORD_H

#include "core/base/err.h"
#include "core/base/id.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    GW_JOB_RECORD_SPEC_BYTES = 64 << 10, /* at most */
    GW_JOB_RECORD_ROUNDS = 32,
    GW_JOB_RECORD_ENDS = 2,
    GW_JOB_RECORD_UNKNOWN = 16,        /* fields of later versions, at most */
    GW_JOB_RECORD_UNKNOWN_BYTES = 512, /* of each, at most */
    GW_JOB_RECORD_BYTES = 96 << 10,    /* of a record, at most */
    GW_JOB_RECORD_ID_TEXT = 33,
};

/* BLAKE2b-128 of the spec. */
typedef struct gw_job_record_id {
    uint8_t bytes[16];
} gw_job_record_id;

typedef struct gw_job_record_knob {
    uint64_t n; /* rises with each change; 0: nobody has changed anything, and the rest is 0 */
    gw_peer_id writer;
    int32_t priority;
    bool hold;
} gw_job_record_knob;

/* In the code of a round: it had more memory than the job asked for, and was ended. */
enum { GW_JOB_ROUND_OUT_OF_MEMORY = 1 << 16 };

/* A round that has failed. */
typedef struct gw_job_record_round {
    uint32_t round; /* from 0 on; below GW_JOB_RECORD_ROUNDS */
    bool last;      /* no further one follows: the job's retries are used up */
    bool fatal;     /* it would fail alike everywhere */
    uint32_t code;  /* exit code, or 128 + signal; and GW_JOB_ROUND_OUT_OF_MEMORY */
    gw_peer_id member;
    uint64_t boot; /* of that member's life */
} gw_job_record_round;

/* Kinds of ends; later versions may have more. */
enum {
    GW_JOB_END_DONE = 1,
    GW_JOB_END_STOPPED, /* by its user */
};

typedef struct gw_job_record_end {
    uint8_t kind;
    gw_hash hash;  /* of the result */
    uint64_t when; /* by the clock of the member that tells it, ms since 1970 */
    gw_peer_id member;
} gw_job_record_end;

typedef struct gw_job_record_field {
    uint8_t tag;
    uint32_t length;
    uint8_t *bytes;
} gw_job_record_field;

typedef struct gw_job_record {
    gw_job_record_id id;
    uint8_t *spec; /* NULL: a stub, or not known yet */
    uint32_t spec_bytes;
    bool cancel, started;
    gw_job_record_knob knob;
    gw_job_record_round rounds[GW_JOB_RECORD_ROUNDS]; /* by rising round */
    uint32_t round_count;
    uint64_t saved;                             /* 0: none is known */
    gw_job_record_end ends[GW_JOB_RECORD_ENDS]; /* by falling (kind, hash) */
    uint32_t end_count;
    gw_job_record_field unknown[GW_JOB_RECORD_UNKNOWN]; /* by rising tag */
    uint32_t unknown_count;
} gw_job_record;

gw_job_record_id gw_job_record_id_of(const void *spec, size_t length);
bool gw_job_record_id_equal(const gw_job_record_id *a, const gw_job_record_id *b);

/* A record of which nothing but the id is known. */
gw_job_record gw_job_record_of(const gw_job_record_id *id);
void gw_job_record_free(gw_job_record *record);
/* A copy with bytes of its own. */
gw_job_record gw_job_record_copy(const gw_job_record *record);

/* Joins `other` into *record, of the same id. Returns whether *record has changed. */
bool gw_job_record_join(gw_job_record *record, const gw_job_record *other);

/* Whether it is done, and was not cancelled before that was known. */
bool gw_job_record_is_done(const gw_job_record *record);
/* Whether the job is over, and nothing starts it again. */
bool gw_job_record_is_over(const gw_job_record *record);
/* The round in which a child may start; GW_JOB_RECORD_ROUNDS: in none any more. */
uint32_t gw_job_record_next_round(const gw_job_record *record);
/* Whether two ends that differ are known. */
bool gw_job_record_ends_differ(const gw_job_record *record);

/* Drops the spec of a job that is over. Returns whether there was one. */
bool gw_job_record_make_stub(gw_job_record *record);

/* Writes the record; fails the writer where it has no room. */
void gw_job_record_put(gw_writer *w, const gw_job_record *record, bool with_spec);
/* The bytes that gw_job_record_put writes. */
size_t gw_job_record_bytes(const gw_job_record *record, bool with_spec);
/* Reads a record, which the caller frees after success. Fails with GW_E_INVALID where the bytes are not the one
 * encoding of a record, or the spec does not hash to the id; with GW_E_LIMIT where something is too large; with
 * GW_E_UNSUPPORTED where the version is a later one. */
bool gw_job_record_get(const void *bytes, size_t length, gw_job_record *record, gw_err *err);

/* The digest of the record without its spec. */
uint64_t gw_job_record_digest(const gw_job_record *record);

#endif
