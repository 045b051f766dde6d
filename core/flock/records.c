#include "core/flock/records.h"

#include "core/base/assert.h"

#include <stdlib.h>
#include <string.h>

enum { NONE = UINT32_MAX, FIRST_ROOM = 64 };

typedef struct entry {
    uint64_t digest;
    uint32_t next; /* in the chain of its place in the table; NONE: the last */
    bool over;
    uint64_t over_s; /* when gw_job_records_drop_old_specs has first seen that it is over; 0: not yet */
    gw_job_record record;
} entry;

struct gw_job_records {
    entry *entries;
    uint32_t count, room, open; /* open: not over */
    uint32_t *table;            /* `table_size` heads of chains, by the ids' bytes 1 to 4; a power of two */
    uint32_t table_size;
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

static uint32_t *head_of(const gw_job_records *records, const gw_job_record_id *id) {
    gw_reader r = gw_reader_on(id->bytes + 1, 4);
    return &records->table[gw_get_u32(&r) & (records->table_size - 1)];
}

static uint32_t index_of(const gw_job_records *records, const gw_job_record_id *id) {
    if (records->table_size == 0) return NONE;
    uint32_t index = *head_of(records, id);
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

/* Puts the entry into its chain. */
static void link_entry(gw_job_records *records, uint32_t index) {
    uint32_t *head = head_of(records, &records->entries[index].record.id);
    records->entries[index].next = *head;
    *head = index;
}

static void unlink_entry(gw_job_records *records, uint32_t index) {
    uint32_t *at = head_of(records, &records->entries[index].record.id);
    while (*at != index) at = &records->entries[*at].next;
    *at = records->entries[index].next;
}

static void grow(gw_job_records *records) {
    records->room = records->room == 0 ? FIRST_ROOM : 2 * records->room;
    records->entries = realloc(records->entries, records->room * sizeof *records->entries);
    records->table = realloc(records->table, records->room * sizeof *records->table);
    GW_ASSERT_MEMORY(records->entries != NULL && records->table != NULL);
    records->table_size = records->room;
    memset(records->table, 0xff, records->table_size * sizeof *records->table);
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

gw_job_records_joined gw_job_records_join(gw_job_records *records, const gw_job_record *record) {
    uint32_t index = index_of(records, &record->id);
    if (index != NONE) {
        entry *one = &records->entries[index];
        if (!gw_job_record_join(&one->record, record)) return GW_JOB_RECORDS_SAME;
        set_digest(records, one, gw_job_record_digest(&one->record));
        set_over(records, one, gw_job_record_is_over(&one->record));
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
    return GW_JOB_RECORDS_NEW;
}

void gw_job_records_make_stub(gw_job_records *records, const gw_job_record_id *id) {
    uint32_t index = index_of(records, id);
    if (index != NONE) gw_job_record_make_stub(&records->entries[index].record);
}

uint32_t gw_job_records_drop_old_specs(gw_job_records *records, uint64_t now_s, uint64_t age_s) {
    uint32_t dropped = 0;
    for (uint32_t i = 0; i < records->count; i++) {
        entry *one = &records->entries[i];
        if (!one->over || one->record.spec == NULL) continue;
        if (one->over_s == 0 || one->over_s > now_s)
            one->over_s = now_s; /* the clock may have been set back */
        if (now_s - one->over_s >= age_s) dropped += gw_job_record_make_stub(&one->record);
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
