/* The records on a member's disk: what a crash, a damage and a full disk leave of them. */
#include "tools/godwit/flock/store.h"

#include "core/os/clock.h"
#include "core/os/durable.h"
#include "tests/scratch.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RECORDS = 5, LARGE = 50000 };

#define PATIENCE_NS UINT64_C(120000000000)

TestSuite(store, .init = scratch_open, .fini = scratch_close);

/* A disk that is full when the test says so. */
typedef struct disk {
    gw_io io; /* the first member, because the function casts back from it */
    bool full;
} disk;

static ssize_t write_or_fail(gw_io *io, int fd, const void *bytes, size_t count) {
    if (!((disk *)io)->full) return gw_io_system()->write(gw_io_system(), fd, bytes, count);
    errno = ENOSPC;
    return -1;
}

typedef struct rig {
    gw_loop *loop;
    disk disk;
    gw_job_records *records;
    gw_record_store *store;
    gw_record_store_found found;
    uint32_t durable; /* how often a record was told to be */
    uint64_t digest;  /* the last one */
    char failing[200];
} rig;

static void note_durable(void *context, const gw_job_record_id *id, uint64_t digest) {
    rig *r = context;
    (void)id;
    r->durable++;
    r->digest = digest;
}

static void note_failing(void *context, const char *why) {
    snprintf(((rig *)context)->failing, sizeof((rig *)context)->failing, "%s", why != NULL ? why : "");
}

static bool try_open(rig *r, gw_err *err) {
    gw_record_store_events events = {r, note_durable, note_failing};
    *r = (rig){.disk = {.io = *gw_io_system()}};
    r->disk.io.write = write_or_fail;
    r->loop = gw_loop_open(err);
    r->records = gw_job_records_open(err);
    r->store =
        gw_record_store_open(r->loop, &r->disk.io, scratch_folder(), r->records, &events, &r->found, err);
    return r->store != NULL;
}

static void open_rig(rig *r) {
    gw_err err;
    cr_assert(try_open(r, &err), "%s", err.text);
}

static void close_rig(rig *r) {
    cr_assert(gw_record_store_close(r->store, PATIENCE_NS));
    gw_job_records_close(r->records);
    gw_loop_close(r->loop);
}

static void until_durable(rig *r, uint32_t count) {
    uint64_t end_ns = gw_now_ns() + PATIENCE_NS;
    while (r->durable < count && gw_now_ns() < end_ns) gw_loop_turn(r->loop, end_ns - gw_now_ns());
    cr_assert_geq(r->durable, count);
}

static gw_job_record_id id_of(uint8_t number) {
    return (gw_job_record_id){{number}};
}

/* Joins the record of this number, and hands it to the store. */
static void put(rig *r, uint8_t number, uint32_t priority) {
    gw_job_record_id id = id_of(number);
    gw_job_record record = gw_job_record_of(&id);
    record.knob = (gw_job_record_knob){.n = 1 + priority, .priority = (int32_t)priority};
    gw_job_records_join(r->records, &record);
    gw_record_store_put(r->store, &id);
}

/* Leaves a file with RECORDS records, and returns its bytes. */
static uint8_t *make_file(size_t *length) {
    rig r;
    gw_err err;
    void *bytes;
    open_rig(&r);
    for (uint8_t i = 0; i < RECORDS; i++) put(&r, i, i);
    until_durable(&r, RECORDS);
    close_rig(&r);
    cr_assert(
        gw_durable_read(gw_io_system(), scratch_path(GW_RECORD_STORE_NAME), SIZE_MAX, &bytes, length, &err));
    return bytes;
}

static off_t file_bytes(void) {
    struct stat status;
    cr_assert_eq(stat(scratch_path(GW_RECORD_STORE_NAME), &status), 0);
    return status.st_size;
}

Test(store, what_was_told_to_be_durable_is_read_again) {
    rig r;
    size_t length;
    free(make_file(&length));
    open_rig(&r);
    cr_expect_eq(r.found.entries, RECORDS);
    cr_expect_eq(r.found.damaged, 0);
    cr_assert_eq(gw_job_records_count(r.records), RECORDS);
    for (uint8_t i = 0; i < RECORDS; i++) {
        gw_job_record_id id = id_of(i);
        cr_expect_eq(gw_job_records_find(r.records, &id)->knob.priority, i);
    }
    until_durable(&r, RECORDS); /* all of them, as the file is written anew */
    close_rig(&r);
}

/* A crash may leave any part of the last entry. */
Test(store, a_torn_entry_at_the_end_is_left_out_and_is_no_damage) {
    rig r;
    size_t length, entry;
    uint8_t *bytes = make_file(&length);
    entry = (length - 5) / RECORDS; /* behind the beginning of the file, as all have the same length */
    for (size_t cut = 1; cut < entry; cut += 9) {
        scratch_write(GW_RECORD_STORE_NAME, bytes, length - cut);
        open_rig(&r);
        cr_expect_eq(r.found.entries, RECORDS - 1, "%zu", cut);
        cr_expect_eq(r.found.damaged, 0, "%zu", cut);
        close_rig(&r);
        cr_expect_eq((size_t)file_bytes(), length - entry); /* it was taken out of the file */
    }
    for (size_t left = 0; left <= 5; left++) { /* a beginning alone */
        scratch_write(GW_RECORD_STORE_NAME, bytes, left);
        open_rig(&r);
        cr_expect_eq(r.found.entries + r.found.damaged, 0);
        close_rig(&r);
    }
    free(bytes);
}

Test(store, damage_costs_the_entry_that_it_hits_and_no_other_and_is_counted) {
    rig r;
    size_t length, entry;
    uint8_t *bytes = make_file(&length);
    entry = (length - 5) / RECORDS;
    for (size_t at = 5 + entry; at < 5 + 2 * entry; at += 7) { /* in the second one: length, sum and record */
        uint8_t before = bytes[at];
        bytes[at] ^= 0x5a;
        scratch_write(GW_RECORD_STORE_NAME, bytes, length);
        open_rig(&r);
        cr_expect_eq(r.found.entries, RECORDS - 1, "%zu", at);
        cr_expect_eq(r.found.damaged, 1, "%zu", at);
        close_rig(&r);
        bytes[at] = before;
    }
    free(bytes);
}

Test(store, a_file_of_something_else_or_a_later_version_is_refused_and_stays) {
    rig r;
    gw_err err;
    scratch_write_text(GW_RECORD_STORE_NAME, "my thesis");
    cr_assert_not(try_open(&r, &err));
    cr_expect_not_null(strstr(err.text, "is no file of records"), "%s", err.text);
    cr_expect_eq(file_bytes(), 9);
    gw_job_records_close(r.records);
    gw_loop_close(r.loop);
    scratch_write(GW_RECORD_STORE_NAME, "GWJR\x09more", 9);
    cr_assert_not(try_open(&r, &err));
    cr_expect_eq(err.code, GW_E_UNSUPPORTED);
    cr_expect_not_null(strstr(err.text, "version 9"), "%s", err.text);
    cr_expect_eq(file_bytes(), 9);
    gw_job_records_close(r.records);
    gw_loop_close(r.loop);
}

/* A record that changes again and again does not fill the disk. */
Test(store, what_is_out_of_date_goes_out_of_the_file) {
    enum { CHANGES = 200 };
    rig r;
    uint8_t *spec = malloc(LARGE);
    gw_job_record_id id;
    memset(spec, 7, LARGE);
    id = gw_job_record_id_of(spec, LARGE);
    gw_job_record record = gw_job_record_of(&id);
    record.spec = spec;
    record.spec_bytes = LARGE;
    open_rig(&r);
    off_t most = 0;
    for (uint32_t i = 0; i < CHANGES; i++) { /* 10 MB */
        record.knob = (gw_job_record_knob){.n = i + 1};
        gw_job_records_join(r.records, &record);
        gw_record_store_put(r.store, &id);
        until_durable(&r, i + 1);
        if (file_bytes() > most) most = file_bytes();
    }
    cr_expect_lt(most, 6 << 20);
    close_rig(&r);
    open_rig(&r);
    cr_expect_eq(gw_job_records_find(r.records, &id)->knob.n, CHANGES);
    cr_expect_lt(file_bytes(), most);
    close_rig(&r);
    gw_job_record_free(&record);
}

Test(store, what_was_forgotten_is_not_in_a_file_that_is_written_anew) {
    rig r;
    size_t length;
    gw_job_record_id id = id_of(1);
    free(make_file(&length));
    open_rig(&r);
    gw_job_records_forget(r.records, &id);
    gw_record_store_rewrite(r.store);
    until_durable(&r, RECORDS + RECORDS - 1);
    close_rig(&r);
    open_rig(&r);
    cr_expect_eq(gw_job_records_count(r.records), RECORDS - 1);
    cr_expect_null(gw_job_records_find(r.records, &id));
    close_rig(&r);
}

Test(store, a_full_disk_is_told_and_nothing_is_durable_until_it_takes_writes) {
    rig r;
    uint64_t end_ns = gw_now_ns() + PATIENCE_NS;
    open_rig(&r);
    put(&r, 1, 1);
    until_durable(&r, 1);
    r.disk.full = true;
    put(&r, 1, 2);
    put(&r, 2, 1);
    while (r.failing[0] == '\0' && gw_now_ns() < end_ns) gw_loop_turn(r.loop, end_ns - gw_now_ns());
    cr_expect_not_null(strstr(r.failing, strerror(ENOSPC)), "%s", r.failing);
    cr_expect_eq(r.durable, 1);
    r.disk.full = false;
    until_durable(&r, 3);
    cr_expect_str_eq(r.failing, "");
    close_rig(&r);
    open_rig(&r);
    cr_expect_eq(gw_job_records_count(r.records), 2);
    close_rig(&r);
}
