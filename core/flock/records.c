#include "core/flock/records.h"

#include "core/base/assert.h"
#include "core/flock/spec.h"

#include <stdlib.h>
#include <string.h>

enum { NONE = UINT32_MAX, FIRST_ROOM = 64 };

typedef struct entry {
    uint64_t digest;
    uint32_t next;       /* in the chain of its place in the table; NONE: the last */
    uint32_t next_again; /* in the chain of its place in the table of those that try others again */
    bool over;
    bool tries_again; /* it is in that table */
    uint64_t over_s;  /* when gw_job_records_drop_old_specs has first seen that it is over; 0: not yet */
    uint64_t needed;  /* the last look in which a job that is not over needs its specification */
    gw_job_record_id adopts;
    gw_job_record record;
} entry;

struct gw_job_records {
    entry *entries;
    uint32_t count, room, open; /* open: not over */
    uint32_t *table;            /* `table_size` heads of chains, by the ids' bytes 1 to 4; a power of two */
    uint32_t *again;            /* as many, of those that try others again, by the ids of those */
    uint32_t table_size;
    uint64_t looks;
    uint64_t digest, buckets[GW_JOB_RECORDS_BUCKETS];
};

gw_job_records *gw_job_records_open(gw_err *err) {
    gw_job_records *records = calloc(1, sizeof *records);
    if (records == NULL) gw_fail(err, GW_E_NOMEM, "out of memory for the records of jobs");
    return records;
}

void gw_job_records_close(gw_job_records *records) {
    if (records == NULL) return;
    for (uint32_t i = 0; i < records->count; i++) gw_job_record_free(&records->entries[i].record);
    free(records->entries);
    free(records->table);
    free(records->again);
    free(records);
}

uint32_t gw_job_records_count(const gw_job_records *records) {
    return records->count;
}

uint32_t gw_job_records_open_count(const gw_job_records *records) {
    return records->open;
}

bool gw_job_records_is_over_at(const gw_job_records *records, uint32_t index) {
    GW_ASSERT(index < records->count);
    return records->entries[index].over;
}

uint32_t gw_job_records_bucket_of(const gw_job_record_id *id) {
    return id->bytes[0];
}

static uint32_t *head_of(const gw_job_records *records, uint32_t *table, const gw_job_record_id *id) {
    gw_reader r = gw_reader_on(id->bytes + 1, 4);
    return &table[gw_get_u32(&r) & (records->table_size - 1)];
}

static uint32_t index_of(const gw_job_records *records, const gw_job_record_id *id) {
    if (records->table_size == 0) return NONE;
    uint32_t index = *head_of(records, records->table, id);
    while (index != NONE && !gw_job_record_id_equal(&records->entries[index].record.id, id))
        index = records->entries[index].next;
    return index;
}

const gw_job_record *gw_job_records_find(const gw_job_records *records, const gw_job_record_id *id) {
    uint32_t index = index_of(records, id);
    return index != NONE ? &records->entries[index].record : NULL;
}

const gw_job_record *gw_job_records_at(const gw_job_records *records, uint32_t index) {
    GW_ASSERT(index < records->count);
    return &records->entries[index].record;
}

/* Puts the entry into its chain among those that try others again. */
static void link_again(gw_job_records *records, uint32_t index) {
    entry *one = &records->entries[index];
    if (!one->tries_again) return;
    uint32_t *head = head_of(records, records->again, &one->adopts);
    one->next_again = *head;
    *head = index;
}

static void unlink_again(gw_job_records *records, uint32_t index) {
    const entry *one = &records->entries[index];
    if (!one->tries_again) return;
    uint32_t *at = head_of(records, records->again, &one->adopts);
    while (*at != index) at = &records->entries[*at].next_again;
    *at = one->next_again;
}

/* Puts the entry into its chains. */
static void link_entry(gw_job_records *records, uint32_t index) {
    uint32_t *head = head_of(records, records->table, &records->entries[index].record.id);
    records->entries[index].next = *head;
    *head = index;
    link_again(records, index);
}

static void unlink_entry(gw_job_records *records, uint32_t index) {
    uint32_t *at = head_of(records, records->table, &records->entries[index].record.id);
    while (*at != index) at = &records->entries[*at].next;
    *at = records->entries[index].next;
    unlink_again(records, index);
}

static void grow(gw_job_records *records) {
    records->room = records->room == 0 ? FIRST_ROOM : 2 * records->room;
    records->entries = realloc(records->entries, records->room * sizeof *records->entries);
    records->table = realloc(records->table, records->room * sizeof *records->table);
    records->again = realloc(records->again, records->room * sizeof *records->again);
    GW_ASSERT_MEMORY(records->entries != NULL && records->table != NULL && records->again != NULL);
    records->table_size = records->room;
    memset(records->table, 0xff, records->table_size * sizeof *records->table);
    memset(records->again, 0xff, records->table_size * sizeof *records->again);
    for (uint32_t i = 0; i < records->count; i++) link_entry(records, i);
}

static void set_over(gw_job_records *records, entry *one, bool over) {
    records->open += (uint32_t)one->over - (uint32_t)over;
    one->over = over;
}

static void set_digest(gw_job_records *records, entry *one, uint64_t digest) {
    uint64_t by = digest - one->digest;
    one->digest = digest;
    records->digest += by;
    records->buckets[gw_job_records_bucket_of(&one->record.id)] += by;
}

/* Notes which job this one tries again, as far as its specification is known. */
static void set_again(gw_job_records *records, uint32_t index) {
    static const gw_job_record_id none;
    entry *one = &records->entries[index];
    unlink_again(records, index);
    one->adopts = none;
    if (one->record.spec != NULL)
        one->adopts = gw_job_spec_links(one->record.spec, one->record.spec_bytes).adopts;
    one->tries_again = !gw_job_record_id_equal(&one->adopts, &none);
    link_again(records, index);
}

gw_job_records_joined gw_job_records_join(gw_job_records *records, const gw_job_record *record) {
    uint32_t index = index_of(records, &record->id);
    if (index != NONE) {
        entry *one = &records->entries[index];
        bool had_spec = one->record.spec != NULL;
        if (!gw_job_record_join(&one->record, record)) return GW_JOB_RECORDS_SAME;
        set_digest(records, one, gw_job_record_digest(&one->record));
        set_over(records, one, gw_job_record_is_over(&one->record));
        if (!had_spec) set_again(records, index);
        return GW_JOB_RECORDS_CHANGED;
    }
    if (records->count == GW_JOB_RECORDS_MOST) return GW_JOB_RECORDS_FULL;
    if (records->count == records->room) grow(records);
    index = records->count++;
    entry *one = &records->entries[index];
    *one = (entry){.record = gw_job_record_copy(record)};
    records->open++;
    link_entry(records, index);
    set_digest(records, one, gw_job_record_digest(&one->record));
    set_over(records, one, gw_job_record_is_over(&one->record));
    set_again(records, index);
    return GW_JOB_RECORDS_NEW;
}

/* A walk from a job to those that try it again, and to those that try these again, each before its own. */
typedef struct walk {
    const gw_job_record_id *from;
    gw_job_record_id at;
    uint32_t index; /* of the record at `at`; of `from` it may be NONE */
} walk;

static walk walk_from(const gw_job_records *records, const gw_job_record_id *id) {
    return (walk){.from = id, .at = *id, .index = index_of(records, id)};
}

/* The first one of the rest of a chain that tries this job again; NONE: there is none. */
static uint32_t first_that_tries(const gw_job_records *records, uint32_t index, const gw_job_record_id *id) {
    while (index != NONE && !gw_job_record_id_equal(&records->entries[index].adopts, id))
        index = records->entries[index].next_again;
    return index;
}

/* Goes on to the next one. An id is the hash of what names the job that is tried again, so that no walk goes round. */
static bool walk_on(const gw_job_records *records, walk *w) {
    if (records->table_size == 0) return false;
    uint32_t next = first_that_tries(records, *head_of(records, records->again, &w->at), &w->at);
    while (next == NONE && !gw_job_record_id_equal(&w->at, w->from)) {
        const entry *one = &records->entries[w->index];
        next = first_that_tries(records, one->next_again, &one->adopts);
        if (next != NONE) break;
        w->at = one->adopts;
        w->index = index_of(records, &w->at);
    }
    if (next == NONE) return false;
    w->index = next;
    w->at = records->entries[next].record.id;
    return true;
}

gw_job_fate gw_job_records_fate(const gw_job_records *records, const gw_job_record_id *id,
                                gw_job_record_id *which) {
    gw_job_fate fate = GW_JOB_FATE_FAILED;
    walk w = walk_from(records, id);
    *which = *id;
    do {
        const entry *one = w.index != NONE ? &records->entries[w.index] : NULL;
        bool over = one != NULL && one->over;
        if (over && gw_job_record_is_done(&one->record)) {
            *which = w.at;
            return GW_JOB_FATE_DONE;
        }
        if (!over && fate != GW_JOB_FATE_OPEN) {
            fate = GW_JOB_FATE_OPEN;
            *which = w.at;
        }
    } while (walk_on(records, &w));
    return fate;
}

gw_job_record_id gw_job_records_tries_again(const gw_job_records *records, const gw_job_record_id *id) {
    uint32_t index = index_of(records, id);
    return index != NONE ? records->entries[index].adopts : (gw_job_record_id){.bytes = {0}};
}

static bool drop_spec(gw_job_records *records, uint32_t index) {
    bool had = gw_job_record_make_stub(&records->entries[index].record);
    set_again(records, index);
    return had;
}

void gw_job_records_make_stub(gw_job_records *records, const gw_job_record_id *id) {
    uint32_t index = index_of(records, id);
    if (index != NONE) drop_spec(records, index);
}

/* Marks those that try a job again after which one comes that is not over. */
static void mark_needed(gw_job_records *records) {
    records->looks++;
    for (uint32_t i = 0; i < records->count; i++) {
        const entry *one = &records->entries[i];
        if (one->over || one->record.spec == NULL) continue;
        gw_job_links links = gw_job_spec_links(one->record.spec, one->record.spec_bytes);
        for (uint32_t k = 0; k < links.after_count; k++) {
            walk w = walk_from(records, &links.after[k]);
            while (walk_on(records, &w)) records->entries[w.index].needed = records->looks;
        }
    }
}

uint32_t gw_job_records_drop_old_specs(gw_job_records *records, uint64_t now_s, uint64_t age_s) {
    uint32_t dropped = 0;
    mark_needed(records);
    for (uint32_t i = 0; i < records->count; i++) {
        entry *one = &records->entries[i];
        if (!one->over || one->record.spec == NULL) continue;
        if (one->over_s == 0 || one->over_s > now_s)
            one->over_s = now_s; /* the clock may have been set back */
        if (now_s - one->over_s >= age_s && one->needed != records->looks) dropped += drop_spec(records, i);
    }
    return dropped;
}

void gw_job_records_forget(gw_job_records *records, const gw_job_record_id *id) {
    uint32_t index = index_of(records, id), last = records->count - 1;
    if (index == NONE) return;
    set_digest(records, &records->entries[index], 0);
    set_over(records, &records->entries[index], true);
    unlink_entry(records, index);
    gw_job_record_free(&records->entries[index].record);
    if (index != last) {
        unlink_entry(records, last);
        records->entries[index] = records->entries[last];
        link_entry(records, index);
    }
    records->count--;
}

uint64_t gw_job_records_digest(const gw_job_records *records) {
    return records->digest;
}

uint64_t gw_job_records_bucket_digest(const gw_job_records *records, uint32_t bucket) {
    GW_ASSERT(bucket < GW_JOB_RECORDS_BUCKETS);
    return records->buckets[bucket];
}

void gw_job_records_in_bucket(const gw_job_records *records, uint32_t bucket, gw_job_records_each *each,
                              void *context) {
    for (uint32_t i = 0; i < records->count; i++)
        if (gw_job_records_bucket_of(&records->entries[i].record.id) == bucket)
            each(context, &records->entries[i].record);
}
