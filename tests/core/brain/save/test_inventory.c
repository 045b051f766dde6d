/* What a peer knows of its disk: written, deleted, found damaged, told. */
#include "core/record/inventory.h"

#include <criterion/criterion.h>

enum { CHUNKS = 4, MOST = 16 };

static gw_peer_inventory inventory;
static gw_inventory told[MOST];
static uint32_t told_count;

static void forget_told(void) {
    for (uint32_t i = 0; i < told_count; i++) gw_set_free(&told[i].chunks);
    told_count = 0;
}

static void empty(void) {
    forget_told();
    gw_peer_inventory_close(&inventory);
}

TestSuite(peer_inventory, .fini = empty);

static gw_hash root_of(uint64_t step) {
    return (gw_hash){{(uint8_t)step, 7}};
}

static gw_inventory one(uint64_t step) {
    return (gw_inventory){
        .step = step, .root = root_of(step), .fingerprint = step * 11, .chunks = {.size = CHUNKS}};
}

static void write_chunks(uint64_t step, const uint32_t *chunks, uint32_t count) {
    gw_inventory what = one(step);
    gw_peer_inventory_wrote(&inventory, &what, chunks, count);
}

static void tell_of(uint64_t epoch, uint64_t least, uint32_t most) {
    forget_told();
    told_count = gw_peer_inventory_tell(&inventory, epoch, least, told, most);
}

static void tell(uint64_t least, uint32_t most) {
    tell_of(0, least, most);
}

Test(peer_inventory, what_was_there_at_the_start_is_copied_newest_first) {
    gw_inventory list[3] = {one(3), one(9), one(6)};
    for (int i = 0; i < 3; i++) list[i].chunks = gw_set_of(CHUNKS);
    gw_set_add(&list[1].chunks, 2);
    list[1].ended = true;
    gw_peer_inventory_open(&inventory, list, 3, false);
    for (int i = 0; i < 3; i++) gw_set_free(&list[i].chunks);
    tell(0, MOST);
    cr_assert_eq(told_count, 3);
    for (uint32_t i = 0; i < 3; i++) cr_assert_eq(told[i].step, 9 - 3 * i);
    cr_assert(told[0].ended && !told[1].ended);
    cr_assert_eq(told[0].fingerprint, 99);
    cr_assert(gw_set_has(&told[0].chunks, 2));
    cr_assert_eq(gw_set_count(&told[0].chunks), 1);
    cr_assert_eq(gw_peer_inventory_newest(&inventory)->step, 9);
}

Test(peer_inventory, the_newest_of_a_range_of_steps) {
    gw_hash roots[MOST];
    gw_inventory list[3] = {one(3), one(9), one(6)};
    for (int i = 0; i < 3; i++) list[i].chunks = gw_set_of(CHUNKS);
    gw_peer_inventory_open(&inventory, list, 3, false);
    for (int i = 0; i < 3; i++) gw_set_free(&list[i].chunks);
    cr_assert_eq(gw_peer_inventory_range(&inventory, 3, 9, roots, MOST), 2);
    const gw_hash newest = root_of(6), oldest = root_of(3);
    cr_assert(gw_hash_equal(&roots[0], &newest));
    cr_assert(gw_hash_equal(&roots[1], &oldest));
    cr_assert_eq(gw_peer_inventory_range(&inventory, 3, 9, roots, 1), 1);
    cr_assert(gw_hash_equal(&roots[0], &newest));
    cr_assert_eq(gw_peer_inventory_range(&inventory, 4, 10, roots, MOST), 2);
    cr_assert_eq(gw_peer_inventory_range(&inventory, 0, 3, roots, MOST), 0);
    cr_assert_eq(gw_peer_inventory_range(&inventory, 10, UINT64_MAX, roots, MOST), 0);
}

Test(peer_inventory, what_is_written_is_told_and_more_of_it_adds_up) {
    gw_peer_inventory_open(&inventory, NULL, 0, false);
    cr_assert_null(gw_peer_inventory_newest(&inventory));
    write_chunks(5, (uint32_t[]){0, 3}, 2);
    write_chunks(4, NULL, 0); /* after a way back */
    gw_inventory again = one(5);
    again.ended = true;
    gw_peer_inventory_wrote(&inventory, &again, (uint32_t[]){1}, 1);
    tell(0, MOST);
    cr_assert_eq(told_count, 2);
    cr_assert_eq(told[0].step, 5);
    cr_assert_eq(gw_set_count(&told[0].chunks), 3);
    cr_assert_not(gw_set_has(&told[0].chunks, 2));
    cr_assert(told[0].ended);
    cr_assert_eq(gw_set_count(&told[1].chunks), 0, "the manifest alone");
    cr_assert_eq(told[1].chunks.size, CHUNKS);
}

static gw_inventory of_epoch(uint64_t epoch, uint64_t step) {
    gw_inventory it = one(step);
    it.epoch = epoch;
    return it;
}

static void expect_told(uint32_t count, const uint64_t (*expected)[2]) {
    cr_assert_eq(told_count, count);
    for (uint32_t i = 0; i < count; i++) {
        cr_expect_eq(told[i].epoch, expected[i][0], "%u", i);
        cr_expect_eq(told[i].step, expected[i][1], "%u", i);
    }
}

Test(peer_inventory, what_a_later_view_saved_is_newer_than_what_has_more_steps) {
    gw_inventory list[4] = {of_epoch(1, 9), of_epoch(2, 3), of_epoch(1, 6), of_epoch(3, 2)};
    for (int i = 0; i < 4; i++) list[i].chunks = gw_set_of(CHUNKS);
    gw_peer_inventory_open(&inventory, list, 4, false);
    for (int i = 0; i < 4; i++) gw_set_free(&list[i].chunks);
    tell(0, MOST);
    expect_told(4, (const uint64_t[][2]){{3, 2}, {2, 3}, {1, 9}, {1, 6}});
    cr_assert_eq(gw_peer_inventory_newest(&inventory)->step, 2);
    tell_of(1, 7, MOST);
    expect_told(3, (const uint64_t[][2]){{3, 2}, {2, 3}, {1, 9}});
    const gw_inventory again = of_epoch(3, 6); /* the state is saved once more */
    gw_peer_inventory_wrote(&inventory, &again, NULL, 0);
    tell(0, MOST);
    expect_told(4, (const uint64_t[][2]){{3, 6}, {3, 2}, {2, 3}, {1, 9}});
    const gw_inventory earlier = of_epoch(1, 3);
    gw_peer_inventory_wrote(&inventory, &earlier, NULL, 0);
    tell(0, MOST);
    expect_told(4, (const uint64_t[][2]){{3, 6}, {3, 2}, {2, 3}, {1, 9}});
}

/* Skipped updates: a later checkpoint has the root of an earlier one. */
Test(peer_inventory, a_state_that_steps_left_as_it_was_is_of_the_last_step_that_it_was_saved_at) {
    for (int listed = 0; listed < 2; listed++) {
        const uint64_t steps[] = {4, 6, 8, 5};
        gw_inventory list[4];
        for (uint32_t i = 0; i < 4; i++) {
            list[i] = one(steps[i]);
            if (steps[i] != 6) list[i].root = root_of(4);
            list[i].ended = steps[i] == 8;
            list[i].chunks = gw_set_of(CHUNKS);
            gw_set_add(&list[i].chunks, 1);
        }
        gw_peer_inventory_open(&inventory, list, listed ? 4 : 0, false);
        const uint32_t chunk = 1;
        for (uint32_t i = 0; i < 4; i++) {
            if (!listed) gw_peer_inventory_wrote(&inventory, &list[i], &chunk, 1);
            gw_set_free(&list[i].chunks);
        }
        tell(0, MOST);
        expect_told(2, (const uint64_t[][2]){{0, 8}, {0, 6}});
        cr_expect(told[0].ended && gw_hash_equal(&told[0].root, &list[0].root));
        cr_expect_eq(told[0].fingerprint, list[2].fingerprint);
        cr_expect(gw_set_has(&told[0].chunks, 1) && gw_set_has(&told[1].chunks, 1));
        cr_expect(gw_peer_inventory_has(&inventory, 8, &list[0].root));
        empty();
    }
}

/* There should not be two; the programs that read a disk take the same one. */
Test(peer_inventory, of_two_of_one_step_the_one_with_the_smaller_root_is_the_newer) {
    for (uint8_t first = 0; first < 3; first++) {
        gw_peer_inventory_open(&inventory, NULL, 0, false);
        for (uint8_t i = 0; i < 3; i++) {
            gw_inventory what = one(5);
            what.root.bytes[1] = (uint8_t)((first + i) % 3);
            gw_peer_inventory_wrote(&inventory, &what, NULL, 0);
            gw_peer_inventory_wrote(&inventory, &what, NULL, 0);
        }
        tell(0, MOST);
        cr_assert_eq(told_count, 3);
        for (uint8_t i = 0; i < 3; i++) cr_expect_eq(told[i].root.bytes[1], i, "%u", first);
        empty();
    }
}

Test(peer_inventory, what_is_deleted_is_told_no_more) {
    gw_peer_inventory_open(&inventory, NULL, 0, false);
    for (uint64_t step = 1; step <= 4; step++) write_chunks(step, (uint32_t[]){0}, 1);
    const gw_hash kept[] = {root_of(3), root_of(1), root_of(77)}, gone = root_of(2);
    cr_assert(gw_peer_inventory_has(&inventory, 2, &gone));
    gw_peer_inventory_kept(&inventory, kept, 3);
    cr_assert_not(gw_peer_inventory_has(&inventory, 2, &gone));
    cr_assert(gw_peer_inventory_has(&inventory, 3, &kept[0]));
    cr_assert_not(gw_peer_inventory_has(&inventory, 2, &kept[0]), "another step has that root");
    tell(0, MOST);
    cr_assert_eq(told_count, 2);
    cr_assert_eq(told[0].step, 3);
    cr_assert_eq(told[1].step, 1);
    gw_peer_inventory_kept(&inventory, NULL, 0);
    cr_assert_null(gw_peer_inventory_newest(&inventory));
}

Test(peer_inventory, what_a_load_found_damaged_is_told_no_more) {
    gw_peer_inventory_open(&inventory, NULL, 0, false);
    write_chunks(8, (uint32_t[]){0, 1, 2, 3}, 4);
    write_chunks(7, (uint32_t[]){0, 1}, 2);
    gw_set sound = gw_set_of(CHUNKS), other = gw_set_of(CHUNKS + 1);
    gw_set_add(&sound, 3);
    const gw_inventory what = one(8);
    gw_peer_inventory_failed(&inventory, &what, &sound);
    gw_peer_inventory_failed(&inventory, &what, &other);
    gw_peer_inventory_failed(&inventory, &what, NULL);
    tell(0, MOST);
    cr_assert_eq(told_count, 2);
    cr_assert_eq(gw_set_count(&told[0].chunks), 1);
    cr_assert(gw_set_has(&told[0].chunks, 3));
    cr_assert_eq(gw_set_count(&told[1].chunks), 2);
    write_chunks(8, (uint32_t[]){0}, 1);
    tell(0, MOST);
    cr_assert_eq(gw_set_count(&told[0].chunks), 2, "written again");
    gw_set_free(&sound);
    gw_set_free(&other);
}

/* What a load has shown to be of its checkpoint is known then, and others may be of an earlier one. */
Test(peer_inventory, orphans_are_known_when_a_load_has_had_their_manifest) {
    gw_peer_inventory_open(&inventory, NULL, 0, false);
    inventory.orphans = true;
    gw_set sound = gw_set_of(CHUNKS);
    gw_set_add(&sound, 1);
    const gw_inventory what = one(8);
    gw_peer_inventory_failed(&inventory, &what, &sound);
    cr_assert(inventory.orphans);
    tell(0, MOST);
    cr_assert_eq(told_count, 1);
    cr_assert(gw_set_has(&told[0].chunks, 1));
    cr_assert_eq(gw_set_count(&told[0].chunks), 1);
    const gw_inventory another = one(9);
    gw_peer_inventory_failed(&inventory, &another, NULL);
    cr_assert(inventory.orphans, "others could not be reached: these were not looked at");
    tell(0, MOST);
    cr_assert_eq(told_count, 1);
    const gw_set none = {0};
    gw_peer_inventory_failed(&inventory, &another, &none);
    cr_assert_not(inventory.orphans, "there is nobody to say what they are of");
    gw_set_free(&sound);
}

/* What was of no use before, as nothing said what it is of, and what was fetched. */
Test(peer_inventory, what_was_loaded_is_here) {
    const gw_inventory what = one(8);
    gw_set held = gw_set_of(CHUNKS), other = gw_set_of(CHUNKS + 1);
    gw_set_add(&held, 2);
    gw_peer_inventory_open(&inventory, NULL, 0, false);
    gw_peer_inventory_loaded(&inventory, &what, NULL);
    gw_peer_inventory_loaded(&inventory, &what, &other);
    tell(0, MOST);
    cr_assert_eq(told_count, 0);
    gw_peer_inventory_loaded(&inventory, &what, &held);
    tell(0, MOST);
    cr_assert_eq(told_count, 1);
    cr_assert(gw_set_has(&told[0].chunks, 2));
    cr_assert_eq(gw_set_count(&told[0].chunks), 1);
    gw_set_add(&held, 3);
    gw_peer_inventory_loaded(&inventory, &what, &held);
    tell(0, MOST);
    cr_assert_eq(told_count, 1, "once");
    cr_assert_eq(gw_set_count(&told[0].chunks), 2);
    gw_set_free(&held);
    gw_set_free(&other);
}

/* Others have gone on from it, and so does this run now. */
Test(peer_inventory, what_was_loaded_is_ignored_no_more) {
    gw_inventory before = one(8);
    before.chunks = gw_set_of(CHUNKS);
    gw_peer_inventory_open(&inventory, &before, 1, true);
    cr_assert(gw_peer_inventory_find(&inventory, &before.root)->ignored);
    gw_set_add(&before.chunks, 1);
    gw_peer_inventory_loaded(&inventory, &before, &before.chunks);
    cr_expect_not(gw_peer_inventory_find(&inventory, &before.root)->ignored);
    gw_set_free(&before.chunks);
}

Test(peer_inventory, a_vote_tells_the_newest_and_of_steps_that_count_only) {
    gw_peer_inventory_open(&inventory, NULL, 0, false);
    for (uint64_t step = 1; step <= 40; step++) write_chunks(step, NULL, 0);
    tell(0, MOST);
    cr_assert_eq(told_count, MOST);
    for (uint32_t i = 0; i < MOST; i++) cr_assert_eq(told[i].step, 40 - i);
    tell(38, MOST);
    cr_assert_eq(told_count, 3);
    tell(41, MOST);
    cr_assert_eq(told_count, 0);
    tell(0, 2);
    cr_assert_eq(told_count, 2);
}

/* With float sums: of what earlier views have saved, too, whether its state has come from there or not. */
Test(peer_inventory, a_vote_tells_what_earlier_views_have_saved_of_steps_that_count) {
    gw_inventory list[4] = {of_epoch(1, 3), of_epoch(2, 8), of_epoch(3, 5), of_epoch(4, 2)};
    for (int i = 0; i < 4; i++) list[i].chunks = gw_set_of(CHUNKS);
    gw_peer_inventory_open(&inventory, list, 4, false);
    for (int i = 0; i < 4; i++) gw_set_free(&list[i].chunks);
    tell_of(4, 0, MOST);
    expect_told(4, (const uint64_t[][2]){{4, 2}, {3, 5}, {2, 8}, {1, 3}});
    tell_of(4, 5, MOST);
    expect_told(2, (const uint64_t[][2]){{3, 5}, {2, 8}});
    tell_of(3, 6, MOST);
    expect_told(2, (const uint64_t[][2]){{4, 2}, {2, 8}});
}

/* --fresh: no state goes on from what was there before, unless this run has saved it again. */
Test(peer_inventory, a_run_that_begins_anew_ignores_what_was_there) {
    for (int fresh = 0; fresh < 2; fresh++) {
        gw_inventory list[2] = {one(3), one(9)};
        for (int i = 0; i < 2; i++) list[i].chunks = gw_set_of(CHUNKS);
        gw_peer_inventory_open(&inventory, list, 2, fresh);
        for (int i = 0; i < 2; i++) gw_set_free(&list[i].chunks);
        write_chunks(6, NULL, 0);
        write_chunks(3, NULL, 0);
        tell(0, MOST);
        cr_assert_eq(told_count, 3);
        for (uint32_t i = 0; i < 3; i++) cr_expect_eq(told[i].ignored, fresh && told[i].step == 9, "%u", i);
        empty();
    }
}

/* Others may still need what is here. */
Test(peer_inventory, a_run_that_begins_anew_begins_from_none) {
    gw_peer_inventory_open(&inventory, NULL, 0, true);
    write_chunks(5, (uint32_t[]){1}, 1);
    cr_assert_null(gw_peer_inventory_newest(&inventory));
    tell(0, MOST);
    cr_assert_eq(told_count, 1);
}
