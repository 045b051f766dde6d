/* All the records that a member knows (record.h), with digests by which two members find out quickly where they
 * differ: one of all, and one for each of GW_JOB_RECORDS_BUCKETS buckets, into which records fall by the first byte of
 * their ids. A digest is the sum mod 2^64 of the records' digests, which do not count specs; so equal digests mean
 * that both know the same of what has become of all jobs.
 *
 * A job may try another one again (spec.h: adopts), and be tried again itself. As far as specifications are known, it is
 * known of each job which ones try it again.
 *
 * Pure; one thread at a time. */
#ifndef GODWIT_CORE_FLOCK_RECORDS_H
#define GODWIT_CORE_FLOCK_RECORDS_H

#include "core/flock/record.h"

enum {
    GW_JOB_RECORDS_BUCKETS = 256,
    GW_JOB_RECORDS_MOST = 1 << 20,
    GW_JOB_RECORDS_SPEC_S = 7 * 86400, /* what a job was to do is known for so long after it is over */
};

typedef struct gw_job_records gw_job_records;

/* What joining a record has done. */
typedef enum gw_job_records_joined {
    GW_JOB_RECORDS_SAME, /* nothing was new */
    GW_JOB_RECORDS_CHANGED,
    GW_JOB_RECORDS_NEW,  /* the id was not known */
    GW_JOB_RECORDS_FULL, /* the id was not known, and there is no room for it: GW_JOB_RECORDS_MOST */
} gw_job_records_joined;

/* NULL when memory runs out. */
gw_job_records *gw_job_records_open(gw_err *err);
void gw_job_records_close(gw_job_records *records); /* NULL is allowed */

uint32_t gw_job_records_count(const gw_job_records *records);
/* How many are of jobs that are not over. */
uint32_t gw_job_records_open_count(const gw_job_records *records);
/* The record of an id; NULL: it is not known. Valid until the next change. */
const gw_job_record *gw_job_records_find(const gw_job_records *records, const gw_job_record_id *id);
/* The record at an index below the count, in an order that changes only when a record is forgotten. */
const gw_job_record *gw_job_records_at(const gw_job_records *records, uint32_t index);

/* Whether the job of the record at an index is over; quicker than gw_job_record_is_over where there are many. */
bool gw_job_records_is_over_at(const gw_job_records *records, uint32_t index);

/* What has become of a job, and of those that try it again: of those that try these again, too. */
typedef enum gw_job_fate {
    GW_JOB_FATE_DONE,   /* one of them is done */
    GW_JOB_FATE_OPEN,   /* else, one is not over, or nothing but its id is known here */
    GW_JOB_FATE_FAILED, /* else: all are over */
} gw_job_fate;
/* Sets *which to the one that is done, or to one that is not over (the job itself before others), or to the job. */
gw_job_fate gw_job_records_fate(const gw_job_records *records, const gw_job_record_id *id,
                                gw_job_record_id *which);
/* The job that this one tries again; all zeros: none, or its specification is not known. */
gw_job_record_id gw_job_records_tries_again(const gw_job_records *records, const gw_job_record_id *id);

/* Joins a record with the one of its id. */
gw_job_records_joined gw_job_records_join(gw_job_records *records, const gw_job_record *record);
/* Drops the spec of a job that is over. Digests stay as they are. */
void gw_job_records_make_stub(gw_job_records *records, const gw_job_record_id *id);
/* Drops the specifications of jobs that are over since `age_s` seconds, as far as this function has seen: it is called now
 * and then, with this member's own clock, so that a wrong one harms nobody else. Those are kept that try a job again after
 * which one comes that is not over: without them its fate would be another one. Returns how many it has dropped. */
uint32_t gw_job_records_drop_old_specs(gw_job_records *records, uint64_t now_s, uint64_t age_s);
/* Forgets a record wholly: by the operator's word alone (`godwit forget`), on all members. */
void gw_job_records_forget(gw_job_records *records, const gw_job_record_id *id);

uint64_t gw_job_records_digest(const gw_job_records *records);
uint64_t gw_job_records_bucket_digest(const gw_job_records *records, uint32_t bucket);
uint32_t gw_job_records_bucket_of(const gw_job_record_id *id);
/* Calls `each` for the records of a bucket. */
typedef void gw_job_records_each(void *context, const gw_job_record *record);
void gw_job_records_in_bucket(const gw_job_records *records, uint32_t bucket, gw_job_records_each *each,
                              void *context);

#endif
