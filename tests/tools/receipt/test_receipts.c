/* Receipts are kept in order and bounded, survive the process, and name a step or a shard that is wrong. */
#include "core/godwit.h"
#include "core/rng.h"
#include "scratch.h"
#include "tools/godwit/receipt/receipts.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static gw_directory directory;
static gw_helper *helper;
static gw_hash job;

static void begin(void) {
    gw_err err;
    scratch_open();
    memset(job.bytes, 0xab, sizeof job.bytes);
    cr_assert(gw_directory_open(scratch_path("d"), &directory, &err), "%s", err.text);
}

static void end(void) {
    gw_directory_close(&directory);
    scratch_close();
}

TestSuite(receipts, .init = begin, .fini = end);

static gw_receipts *open_receipts(bool fresh) {
    gw_err err;
    helper = gw_helper_open("test", &err);
    gw_receipts *receipts = gw_receipts_open(&directory, &job, 0, fresh, helper, &err);
    cr_assert(receipts != NULL, "%s", err.text);
    return receipts;
}

static void close_receipts(gw_receipts *receipts) {
    gw_receipts_flush(receipts, true);
    gw_helper_close(helper);
    gw_receipts_close(receipts);
}

/* Makes the step after which `step` steps are done; `value` stands for what it computed. */
static bool make(gw_receipts *receipts, uint64_t step, uint64_t value) {
    gw_receipt now, before;
    gw_receipt_part part = {.step = step, .print = value, .held = 2, .run_count = 1, .runs = {{3, 2}}};
    gw_receipts_note_sum(receipts, value + 1, step, &part);
    gw_receipts_apply(receipts, step, value);
    bool differs = gw_receipts_commit(receipts, step, &now, &before);
    cr_assert(now.state == value && now.sum == value + 1);
    return differs;
}

/* What was read. */
typedef struct read_back {
    uint64_t first, last, count, wrong, chain;
} read_back;

static bool take(void *context, uint64_t step, const gw_receipt *receipt) {
    read_back *read = context;
    if (read->count++ == 0) read->first = step;
    read->wrong += read->last >= step || receipt->state != 10 * step || receipt->sum != 10 * step + 1;
    read->last = step;
    read->chain = receipt->chain;
    return true;
}

static read_back read_all(uint64_t first, uint64_t last) {
    read_back read = {0};
    gw_err err;
    cr_assert(gw_receipts_read(scratch_path("d"), &job, first, last, take, &read, &err), "%s", err.text);
    return read;
}

Test(receipts, are_read_back_in_order) {
    gw_receipts *receipts = open_receipts(false);
    gw_receipts_load(receipts, 0, 0);
    for (uint64_t step = 1; step <= 1000; step++) cr_assert_not(make(receipts, step, 10 * step));
    close_receipts(receipts);
    read_back read = read_all(0, UINT64_MAX);
    cr_assert(read.first == 1 && read.last == 1000 && read.count == 1000 && read.wrong == 0);
    read = read_all(17, 19);
    cr_assert(read.first == 17 && read.last == 19 && read.count == 3 && read.wrong == 0);
    read = read_all(2000, 3000);
    cr_assert_eq(read.count, 0);
}

static uint64_t chain_of(uint64_t steps, uint64_t wrong_step) {
    uint64_t chain = gw_receipt_origin(&job);
    for (uint64_t step = 1; step <= steps; step++) {
        uint64_t value = 10 * step + (step == wrong_step);
        gw_receipt receipt = {.state = value, .sum = value + 1, .coverage = step};
        chain = gw_receipt_link(chain, step, &receipt);
    }
    return chain;
}

Test(receipts, their_chain_tells_whether_all_steps_were_alike) {
    gw_receipts *receipts = open_receipts(false);
    gw_receipts_load(receipts, 0, 0);
    for (uint64_t step = 1; step <= 50; step++) make(receipts, step, 10 * step);
    cr_assert_eq(gw_receipts_chain(receipts, 50), chain_of(50, 0));
    cr_assert_neq(gw_receipts_chain(receipts, 50), chain_of(50, 1));
    cr_assert_neq(gw_receipts_chain(receipts, 50), chain_of(50, 50));
    close_receipts(receipts);
    /* The next life goes on from a checkpoint, whose manifest tells the chain or not. */
    for (int told = 0; told < 2; told++) {
        receipts = open_receipts(false);
        gw_receipts_load(receipts, 40, told ? chain_of(40, 0) : 0);
        for (uint64_t step = 41; step <= 60; step++) cr_assert_not(make(receipts, step, 10 * step));
        cr_assert_eq(gw_receipts_chain(receipts, 60), chain_of(60, 0));
        close_receipts(receipts);
    }
    cr_assert_eq(read_all(0, UINT64_MAX).chain, chain_of(60, 0));
}

Test(receipts, a_chain_with_a_hole_is_not_known) {
    gw_receipts *receipts = open_receipts(false);
    gw_receipts_load(receipts, 100, 0);
    make(receipts, 101, 1010);
    cr_assert_eq(gw_receipts_chain(receipts, 101), 0);
    gw_receipts_load(receipts, 200, 77);
    make(receipts, 201, 2010);
    cr_assert_neq(gw_receipts_chain(receipts, 201), 0);
    close_receipts(receipts);
}

Test(receipts, a_step_that_comes_out_otherwise_the_second_time_is_noticed) {
    gw_receipt now, before;
    gw_receipts *receipts = open_receipts(false);
    gw_receipts_load(receipts, 0, 0);
    for (uint64_t step = 1; step <= 30; step++) make(receipts, step, 10 * step);
    close_receipts(receipts);
    receipts = open_receipts(false);
    gw_receipts_load(receipts, 20, 0);
    cr_assert_not(make(receipts, 21, 210));
    gw_receipt_part part = {.step = 22};
    gw_receipts_note_sum(receipts, 221, 22, &part);
    gw_receipts_apply(receipts, 22, 999);
    cr_assert(gw_receipts_commit(receipts, 22, &now, &before));
    cr_assert(before.state == 220 && now.state == 999 && before.sum == now.sum);
    cr_assert_not(make(receipts, 23, 230));
    close_receipts(receipts);
}

Test(receipts, an_applied_step_that_is_never_committed_leaves_none) {
    gw_receipts *receipts = open_receipts(false);
    gw_receipts_load(receipts, 0, 0);
    make(receipts, 1, 10);
    gw_receipts_apply(receipts, 2, 666);
    gw_receipts_load(receipts, 1, 0);
    cr_assert_not(make(receipts, 2, 20));
    close_receipts(receipts);
    cr_assert_eq(read_all(0, UINT64_MAX).wrong, 0);
}

Test(receipts, files_are_bounded_and_turned_over_and_back) {
    const uint64_t most = GW_RECEIPTS_STEPS;
    struct stat status;
    gw_receipts *receipts = open_receipts(false);
    for (uint64_t life = 0; life < 3; life++) { /* leaps, so that the test is short */
        uint64_t from = life * most + most - 500;
        gw_receipts_load(receipts, from, 0);
        for (uint64_t step = from + 1; step <= from + 1000; step++) make(receipts, step, 10 * step);
    }
    close_receipts(receipts);
    read_back read = read_all(0, UINT64_MAX);
    cr_assert_eq(read.wrong, 0);
    cr_assert_eq(read.last, 3 * most + 500);
    cr_assert_leq(read.last - read.first, 2 * most + 1000);
    cr_assert_eq(stat(scratch_path("d/receipts-abababab"), &status), 0);
    cr_assert_leq(status.st_size, 64 + 32 * (int64_t)most);
    cr_assert_eq(stat(scratch_path("d/receipts-abababab.1"), &status), 0);
    /* Back behind the newest file, and behind both. */
    receipts = open_receipts(false);
    gw_receipts_load(receipts, 2 * most, 0);
    for (uint64_t step = 2 * most + 1; step <= 2 * most + 100; step++) make(receipts, step, 10 * step);
    close_receipts(receipts);
    read = read_all(2 * most + 1, 2 * most + 100);
    cr_assert(read.count == 100 && read.wrong == 0);
    receipts = open_receipts(false);
    gw_receipts_load(receipts, 5, 0);
    make(receipts, 6, 60);
    close_receipts(receipts);
    read = read_all(0, 100);
    cr_assert(read.count == 1 && read.wrong == 0 && read.first == 6);
}

typedef struct parts_back {
    uint64_t count, last;
} parts_back;

static bool take_part(void *context, const gw_receipt_part *part) {
    parts_back *read = context;
    read->count++;
    read->last = part->step;
    cr_assert(part->held == 2 && part->runs[0].first == 3);
    return true;
}

static parts_back read_parts(void) {
    parts_back read = {0};
    gw_err err;
    cr_assert(gw_receipts_read_parts(scratch_path("d"), &job, take_part, &read, &err), "%s", err.text);
    return read;
}

Test(receipts, a_torn_part_costs_only_itself) {
    gw_receipts *receipts = open_receipts(false);
    gw_receipts_load(receipts, 0, 0);
    for (uint64_t step = 1; step <= 10; step++) make(receipts, step, 10 * step);
    close_receipts(receipts);
    cr_assert_eq(read_parts().count, 10);
    struct stat status;
    const char *path = scratch_path("d/parts-abababab");
    cr_assert_eq(stat(path, &status), 0);
    cr_assert_eq(truncate(path, status.st_size - 5), 0);
    receipts = open_receipts(false);
    gw_receipts_load(receipts, 10, 0);
    make(receipts, 11, 110);
    close_receipts(receipts);
    parts_back read = read_parts();
    cr_assert(read.count == 10 && read.last == 11);
}

Test(receipts, of_another_job_or_damaged_they_are_refused_and_begun_anew) {
    gw_err err;
    read_back read = {0};
    FILE *file = fopen(scratch_path("d/receipts-abababab"), "w");
    cr_assert(file != NULL &&
              fputs("GODWITR1 is all that is right here, and this is longer than a header is", file) >= 0);
    cr_assert_eq(fclose(file), 0);
    cr_assert_not(gw_receipts_read(scratch_path("d"), &job, 0, 9, take, &read, &err));
    cr_assert_eq(err.code, GW_E_CORRUPT, "%s", err.text);
    gw_receipts *receipts = open_receipts(false);
    gw_receipts_load(receipts, 0, 0);
    make(receipts, 1, 10);
    close_receipts(receipts);
    cr_assert_eq(read_all(0, 9).count, 1);
    gw_hash other = {{1}};
    cr_assert_not(gw_receipts_read(scratch_path("d"), &other, 0, 9, take, &read, &err));
    cr_assert_eq(err.code, GW_E_NOTFOUND, "%s", err.text);
    close_receipts(open_receipts(true));
    cr_assert_not(gw_receipts_read(scratch_path("d"), &job, 0, 9, take, &read, &err),
                  "with --fresh they are gone");
}

Test(receipts, a_disk_that_is_gone_costs_bounded_memory_and_no_step) {
    gw_receipts *receipts = open_receipts(false);
    cr_assert_eq(mkdir(scratch_path("d/receipts-abababab"), 0700), 0);
    cr_assert_eq(mkdir(scratch_path("d/parts-abababab"), 0700), 0);
    gw_receipts_load(receipts, 0, 0);
    for (uint64_t step = 1; step <= 3 * GW_RECEIPTS_WAITING; step++)
        cr_assert_not(make(receipts, step, 10 * step));
    close_receipts(receipts);
}

/* Parts. */

Test(receipts, runs_of_a_part_are_those_of_the_bitmap) {
    enum { SHARDS = 3000 };
    for (uint64_t seed = 0; seed < 200; seed++) {
        uint64_t bits[SHARDS / 64 + 1] = {0}, random = seed;
        gw_receipt_part part = {.step = 1}, back;
        uint32_t shards = 1 + (uint32_t)(gw_mix64(seed) % SHARDS), held = 0;
        bool on = seed % 2;
        for (uint32_t s = 0; s < shards; s++) {
            random = gw_mix64(random);
            if (random % (1 + seed) == 0) on = !on;
            if (on) bits[s / 64] |= UINT64_C(1) << s % 64;
            held += on;
        }
        gw_receipt_part_runs(&part, bits, shards);
        cr_assert_eq(part.held, held);
        uint8_t bytes[GW_RECEIPT_PART_MOST];
        gw_writer w = gw_writer_on(bytes, sizeof bytes);
        gw_receipt_part_put(&w, &part);
        cr_assert_not(w.failed);
        gw_reader r = gw_reader_on(bytes, w.length);
        gw_receipt_part_get(&r, &back);
        cr_assert(gw_reader_done(&r));
        for (uint32_t s = 0; s < shards && part.run_count > 0; s++)
            cr_assert_eq(gw_receipt_part_has(&back, s), (bits[s / 64] >> s % 64 & 1) != 0);
        for (size_t cut = 0; cut < w.length; cut++) {
            r = gw_reader_on(bytes, cut);
            gw_receipt_part_get(&r, &back);
            cr_assert(r.failed);
        }
    }
}

Test(receipts, one_wrong_shard_among_many_is_named) {
    enum { SHARDS = 2000, FLIPS = 1000 };
    uint32_t list[SHARDS];
    uint64_t print[SHARDS];
    gw_receipt_part right = {.held = SHARDS};
    for (uint32_t s = 0; s < SHARDS; s++) {
        list[s] = s;
        print[s] = gw_mix64(s + 12345);
        right.print += print[s];
        right.located += gw_exact_locator(s, print[s]);
    }
    cr_assert_eq(gw_receipt_find_shard(&right, list, print, SHARDS), UINT32_MAX);
    for (uint64_t i = 0; i < FLIPS; i++) {
        uint32_t shard = (uint32_t)(gw_mix64(i) % SHARDS), other = (shard + 1) % SHARDS;
        uint64_t flip = UINT64_C(1) << gw_mix64(i + FLIPS) % 64;
        gw_receipt_part seen = right;
        seen.print += (print[shard] ^ flip) - print[shard];
        seen.located += gw_exact_locator(shard, print[shard] ^ flip) - gw_exact_locator(shard, print[shard]);
        cr_assert_eq(gw_receipt_find_shard(&seen, list, print, SHARDS), shard);
        seen.print += (print[other] ^ flip) - print[other]; /* two wrong ones name none */
        seen.located += gw_exact_locator(other, print[other] ^ flip) - gw_exact_locator(other, print[other]);
        cr_assert_eq(gw_receipt_find_shard(&seen, list, print, SHARDS), UINT32_MAX);
    }
}
