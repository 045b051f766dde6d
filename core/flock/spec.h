/* What was submitted: the bytes of a job's record that never change (record.h), and whose hash is the job's id.
 *
 * Bytes (core/base/wire.h): "GJS" and version u8 | fields, each: tag u8, length u32, bytes | 64 bytes of signature.
 * Tags rise. Fields that are empty or 0 are left out, and there is one encoding of each specification. A field with
 * a tag below 128 that is not known, or a kind of job, makes the specification one of a later version, which a member
 * keeps and passes on, but does not run; other fields that are not known may be ignored. The signature is Ed25519 (RFC 8032) of all
 * bytes before it, by the key of the submitter. It says who submitted the job, so that each member can decide by
 * itself whether that key may; gw_job_spec_read verifies it.
 *
 * A job name is 1 to 63 of A-Z a-z 0-9 . _ -, and never begins with a dot: it may be a file's name, and never a
 * path.
 *
 * Pure; any thread. */
#ifndef GODWIT_CORE_FLOCK_SPEC_H
#define GODWIT_CORE_FLOCK_SPEC_H

#include "core/base/err.h"
#include "core/flock/allot.h"
#include "core/flock/record.h"

enum {
    GW_JOB_SPEC_NAME_BYTES = 63,
    GW_JOB_SPEC_WORDS = 1024, /* of a command; of an environment */
    GW_JOB_SPEC_AFTER = 64,   /* jobs that it waits for */
    GW_JOB_SPEC_RETRIES = GW_JOB_RECORD_ROUNDS - 1,
    GW_JOB_SPEC_NODES = 65535,
};

typedef enum gw_job_kind {
    GW_JOB_RUN = 1, /* `godwit run` and its arguments: one job of steps on all its nodes */
    GW_JOB_COMMAND, /* a program with its arguments, on one node */
    GW_JOB_MAP, /* options of `godwit map` and a command, for each of the tasks in a file that travels with it */
    GW_JOB_KINDS,
} gw_job_kind;

typedef struct gw_job_spec {
    uint8_t nonce[16];     /* random: two submissions of one command are two jobs */
    uint8_t submitter[32]; /* the public key */
    uint8_t key[32];       /* random: of the flock of this job's children */
    uint64_t
        counter;   /* submissions that the submitter's member knew of, and one more: the place in the row */
    uint64_t when; /* ms since 1970, for people */
    gw_job_kind kind;
    const char *name;
    const char **command; /* words; of a RUN those after `godwit run` */
    uint32_t command_count;
    const char **environment; /* NAME=VALUE */
    uint32_t environment_count;
    const char *environment_file; /* a path on each node; NULL: none */
    const char *directory;        /* the submitter's working directory; NULL: one of the job's own */
    const char *build;            /* the version of the program that runs it; NULL: any */
    uint32_t compute_class;       /* 0: any */
    gw_allot_need need;           /* of one node */
    uint32_t least, most;         /* nodes; 1 <= least <= most */
    uint32_t shares;              /* at least 1 */
    uint32_t retries;
    int32_t priority; /* until somebody changes it */
    bool hold;        /* until somebody releases it */
    bool rigid;       /* it cannot go on with fewer nodes than its least */
    /* Random bytes that the submitter has written into a file in `directory`: a node where they are has that very
     * directory. All zeros: he could not write there. */
    uint8_t token[16];
    const gw_job_record_id *after; /* jobs that must be done before */
    uint32_t after_count;
    gw_hash files;           /* the name of the list of files that travel (files.h); all zeros: none do */
    gw_job_record_id adopts; /* the job that this one tries again, from its checkpoints; all zeros: none */
    uint8_t sweep[16];       /* random: the same for all jobs of one sweep; all zeros: it is of none */
    void *
        memory; /* that the pointers of a specification that was read point into; NULL: they are the caller's */
} gw_job_spec;

/* Whether the text can name a job. */
bool gw_job_name_is_valid(const char *name);

/* Writes the specification and its signature by an Ed25519 secret key (64 bytes), the one of spec->submitter. The
 * caller frees *bytes. Fails with GW_E_USAGE where a value is not allowed, and names it; with GW_E_LIMIT where the
 * bytes are more than GW_JOB_RECORD_SPEC_BYTES. */
bool gw_job_spec_write(const gw_job_spec *spec, const uint8_t secret_key[64], uint8_t **bytes,
                       uint32_t *length, gw_err *err);
/* Reads a specification, which the caller frees after success. Fails with GW_E_INVALID where the bytes are not the
 * one encoding of a specification that gw_job_spec_write would write; with GW_E_DENIED where the signature is not
 * the submitter's; with GW_E_UNSUPPORTED where it is of a later version. */
bool gw_job_spec_read(const void *bytes, size_t length, gw_job_spec *spec, gw_err *err);
void gw_job_spec_free(gw_job_spec *spec);

/* What a specification says of other jobs. */
typedef struct gw_job_links {
    gw_job_record_id adopts, after[GW_JOB_SPEC_AFTER];
    uint32_t after_count;
} gw_job_links;

/* Reads that alone, without a look at the signature and at what else is in the bytes: much quicker than gw_job_spec_read, and
 * no proof that the specification is one. Bytes that are none say nothing. */
gw_job_links gw_job_spec_links(const void *bytes, size_t length);

#endif
