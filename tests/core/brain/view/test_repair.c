/* From reports to a plan: nothing dealt twice, nothing forgotten. */
#include "core/brain/peer.h"
#include "core/brain/view/repair.h"
#include "core/rng.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHARDS = 12, CHUNKS = 4 };

static uint32_t twelve(const void *context, uint64_t step) {
    (void)context;
    (void)step;
    return SHARDS;
}

static const gw_repair_rules rules = {.steps = 100, .shards = twelve, .state_chunks = CHUNKS};

static gw_install *plan_for(uint32_t members) {
    gw_install *install = calloc(1, sizeof *install);
    install->view.epoch = 2;
    install->view.count = members;
    for (uint32_t i = 0; i < members; i++) install->view.members[i].id.bytes[0] = (uint8_t)(i + 1);
    install->view.leader = install->view.members[0].id;
    gw_view_seal(&install->view);
    return install;
}

static gw_report *report_at(uint64_t step, const char *held, const char *claimed) {
    gw_report *r = calloc(1, sizeof *r);
    r->has_state = true;
    r->step = step;
    r->fingerprint = step * 1000;
    r->speed = 1000;
    r->held = gw_set_of(SHARDS);
    r->claimed = gw_set_of(SHARDS);
    for (uint32_t i = 0; i < SHARDS; i++) {
        if (held[i] == 'x') gw_set_add(&r->held, i);
        if (claimed[i] == 'x') gw_set_add(&r->claimed, i);
    }
    return r;
}

static gw_report *newcomer(uint64_t step, const char *chunks) {
    gw_report *r = calloc(1, sizeof *r);
    r->speed = 1000;
    if (chunks == NULL) return r;
    r->inventory_count = 1;
    r->inventory[0] = (gw_inventory){
        .step = step, .root = {{(uint8_t)step}}, .fingerprint = step, .chunks = gw_set_of(CHUNKS)};
    for (uint32_t i = 0; i < CHUNKS; i++)
        if (chunks[i] == 'x') gw_set_add(&r->inventory[0].chunks, i);
    return r;
}

static void free_all(gw_report **reports, uint32_t count, gw_install *install) {
    for (uint32_t i = 0; i < count; i++) gw_report_free(reports[i]);
    gw_install_free(install);
}

static gw_repair_answer plan(gw_report **reports, gw_install *install, bool settle) {
    char text[200];
    return gw_repair_plan(&rules, (const gw_report *const *)reports, settle, install, text, sizeof text);
}

Test(repair, deals_what_nobody_holds_or_computes) {
    gw_report *reports[] = {report_at(7, "xxx.........", "...x........"),
                            report_at(7, "......xx....", "........x...")};
    gw_install *install = plan_for(2);
    cr_assert_eq(plan(reports, install, false), GW_REPAIR_READY);
    cr_assert_eq(install->step, 7);
    cr_assert_eq(gw_set_count(&install->fetchers), 0);
    cr_assert_eq(gw_set_count(&install->drops), 0);
    const char *missing = "....xx...xxx";
    for (uint32_t i = 0; i < SHARDS; i++)
        cr_assert_eq(gw_set_has(&install->missing, i), missing[i] == 'x', "%u", i);
    cr_assert_eq(install->cuts[2], 5);
    free_all(reports, 2, install);
}

Test(repair, a_view_begins_with_the_newest_checkpoint_that_a_voter_knows_to_be_whole) {
    for (int fast = 0; fast < 2; fast++) {
        gw_report *reports[] = {report_at(7, "xxx.........", "............"),
                                report_at(7, "............", "............"),
                                report_at(6, "............", "............")};
        const uint64_t whole[] = {4, 6, 8}; /* not of steps that may be made again */
        for (uint32_t i = 0; i < 3; i++) {
            reports[i]->whole_step = whole[i];
            reports[i]->whole_root.bytes[0] = (uint8_t)whole[i];
        }
        gw_install *install = plan_for(3);
        gw_repair_rules with = rules;
        with.latest_view_only = fast;
        char text[300];
        gw_repair_plan(&with, (const gw_report *const *)reports, false, install, text, sizeof text);
        cr_assert_eq(install->step, 7);
        cr_assert_eq(install->whole_step, 6);
        cr_assert_eq(install->whole_root.bytes[0], 6);
        free_all(reports, 3, install);
    }
}

/* It is behind that one's state, which those of an earlier view may have nothing of, and is of the same
 * lineage as those of the same view. */
Test(repair, with_float_sums_what_is_whole_is_known_by_those_who_hold_a_state_of_the_latest_view) {
    static const struct {
        uint64_t epoch, step, whole;
        bool stateless;
        uint64_t expected;
    } cases[] = {{3, 7, 7, false, 7}, {3, 6, 5, false, 5}, {2, 7, 5, false, 0}, {3, 7, 5, true, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        gw_report *reports[] = {report_at(cases[i].step, "............", "............"),
                                report_at(7, "............", "............")};
        reports[0]->installed_epoch = cases[i].epoch;
        reports[1]->installed_epoch = 3;
        for (uint32_t k = 0; k < 2; k++)
            reports[k]->installed.bytes[0] = (uint8_t)reports[k]->installed_epoch;
        reports[0]->whole_step = cases[i].whole;
        reports[0]->whole_root.bytes[0] = (uint8_t)cases[i].whole;
        reports[0]->has_state = !cases[i].stateless;
        gw_install *install = plan_for(2);
        gw_repair_rules fast = rules;
        fast.latest_view_only = true;
        char text[200];
        gw_repair_plan(&fast, (const gw_report *const *)reports, false, install, text, sizeof text);
        cr_assert_eq(install->step, 7);
        cr_expect_eq(install->whole_step, cases[i].expected, "%zu", i);
        cr_expect_eq(install->whole_root.bytes[0], cases[i].expected, "%zu", i);
        free_all(reports, 2, install);
    }
}

static void tell_of(gw_report *r, uint64_t epoch, uint64_t step, const char *chunks) {
    gw_inventory *one = &r->inventory[r->inventory_count++];
    *one =
        (gw_inventory){.epoch = epoch, .step = step, .root = {{(uint8_t)step}}, .chunks = gw_set_of(CHUNKS)};
    for (uint32_t i = 0; i < CHUNKS; i++)
        if (chunks[i] == 'x') gw_set_add(&one->chunks, i);
}

/* Nobody who is here was told that one is complete. */
Test(repair, a_view_begins_with_the_newest_checkpoint_of_which_the_voters_disks_have_all) {
    static const struct {
        const char *first, *second;
        uint64_t epoch;
        bool fast, stateless;
        bool fetches; /* the first, which fetches from who does not know what its state has come from */
        bool behind;
        uint64_t found;
    } cases[] = {
        {"xx..", "..xx", 0, .found = 6}, /* as whatever order it is told in */
        {"xx..", "..x.", 0, .found = 4},
        {"xx..", "..xx", 3, .fast = true, .found = 0}, /* it may be of steps that were given up */
        {"xx..", "..xx", 3, .fast = true, .behind = true, .found = 6},
        {"xx..", "..xx", 2, .fast = true, .behind = true, .found = 6},
        {"xx..", "..x.", 3, .fast = true, .behind = true, .found = 0},
        {"xx..", "..xx", 3, .fast = true, .behind = true, .fetches = true, .found = 0},
        {"xx..", "..xx", 0, .stateless = true,
         .found = 0}, /* one that is to be loaded is known when it has been */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        gw_report *reports[] = {report_at(cases[i].fetches ? 6 : 7, "............", "............"),
                                report_at(7, "............", "............")};
        for (uint32_t k = 0; k < 2; k++) {
            gw_report *r = reports[k];
            r->installed_epoch = 3;
            r->has_state = !cases[i].stateless;
            tell_of(r, 3, 4, k == 0 ? "x.x." : ".x.x");
            tell_of(r, cases[i].epoch, 6, k == 0 ? cases[i].first : cases[i].second);
            const gw_checkpoint_ref it = {6, {{6}}};
            if (cases[i].behind && (!cases[i].fetches || k == 0)) gw_lineage_add(&r->lineage, &it);
            tell_of(r, 3, 5, k == 0 ? "x.x." : "xxx.");
            if (cases[i].epoch != 4) tell_of(r, 3, 8, "xxxx");
            r->load_failed = !cases[i].stateless; /* so that the view goes on from the state */
        }
        if (!cases[i].stateless) reports[0]->whole_step = 1;
        gw_install *install = plan_for(2);
        gw_repair_rules with = rules;
        with.latest_view_only = cases[i].fast;
        char text[300];
        gw_repair_plan(&with, (const gw_report *const *)reports, true, install, text, sizeof text);
        cr_assert_eq(install->load, cases[i].stateless ? GW_LOAD_MANIFEST : GW_LOAD_PEERS);
        cr_expect_eq(install->whole_step, cases[i].stateless ? 0 : 1);
        cr_expect_eq(install->found_step, cases[i].found, "%zu: %lu", i, install->found_step);
        cr_expect_eq(install->found_root.bytes[0], cases[i].found);
        free_all(reports, 2, install);
    }
}

/* There should not be two. The choice does not depend on the leader, or on the order of the reports. */
Test(repair, of_two_checkpoints_of_one_step_the_one_with_the_smaller_root_is_gone_on_from) {
    for (uint8_t first = 0; first < 2; first++) {
        gw_report *reports[] = {newcomer(0, NULL), newcomer(0, NULL)};
        for (uint8_t i = 0; i < 2; i++) {
            tell_of(reports[i], 0, 6, "xxxx");
            reports[i]->inventory[0].root.bytes[1] = (first + i) % 2;
        }
        gw_install *install = plan_for(2);
        cr_assert_eq(plan(reports, install, false), GW_REPAIR_READY);
        cr_assert_eq(install->load, GW_LOAD_MANIFEST);
        cr_expect_eq(install->root.bytes[1], 0);
        gw_set_free(&reports[first]->inventory[0].chunks); /* the other one is all there is of that step */
        reports[first]->inventory[0].chunks = gw_set_of(CHUNKS);
        gw_install_free(install);
        install = plan_for(2);
        cr_assert_eq(plan(reports, install, false), GW_REPAIR_READY, "nobody is waited for");
        cr_expect_eq(install->root.bytes[1], 1);
        free_all(reports, 2, install);
    }
}

Test(repair, of_overlapping_reports_the_higher_rank_zeroes_its_accumulator) {
    gw_report *reports[] = {report_at(7, "xxxx........", "............"),
                            report_at(7, "...xx.......", "............"),
                            report_at(7, ".....x......", "............")};
    gw_install *install = plan_for(3);
    plan(reports, install, false);
    cr_assert(!gw_set_has(&install->drops, 0));
    cr_assert(gw_set_has(&install->drops, 1));
    cr_assert(!gw_set_has(&install->drops, 2));
    cr_assert(gw_set_has(&install->missing, 4));
    cr_assert(!gw_set_has(&install->missing, 3));
    cr_assert(!gw_set_has(&install->missing, 5));
    free_all(reports, 3, install);
}

Test(repair, who_lacks_the_newest_state_fetches_it_and_its_work_does_not_count) {
    gw_report *reports[] = {report_at(7, "xxxxxxxxxxxx", "............"),
                            report_at(8, "x...........", "............")};
    gw_install *install = plan_for(2);
    plan(reports, install, false);
    cr_assert_eq(install->step, 8);
    cr_assert_eq(install->load, GW_LOAD_PEERS);
    cr_assert(gw_set_has(&install->fetchers, 0));
    cr_assert(!gw_set_has(&install->fetchers, 1));
    cr_assert_eq(gw_set_count(&install->missing), 11);
    free_all(reports, 2, install);
}

Test(repair, a_minority_of_other_bits_fetches) {
    gw_report *reports[] = {report_at(7, "x...........", "............"),
                            report_at(7, ".x..........", "............"),
                            report_at(7, "..x.........", "............")};
    reports[0]->fingerprint ^= 1;
    gw_install *install = plan_for(3);
    plan(reports, install, false);
    cr_assert(gw_set_has(&install->fetchers, 0));
    cr_assert(gw_set_has(&install->missing, 0));
    cr_assert(!gw_set_has(&install->missing, 1));
    free_all(reports, 3, install);
}

/* Whoever has the lower rank. */
Test(repair, where_as_many_hold_other_bits_nobody_goes_on) {
    for (uint32_t odd = 0; odd < 2; odd++) {
        gw_report *reports[] = {report_at(7, "x...........", "............"),
                                report_at(7, ".x..........", "............")};
        reports[odd]->fingerprint ^= 1;
        gw_install *install = plan_for(2);
        cr_assert_eq(plan(reports, install, false), GW_REPAIR_HALT);
        free_all(reports, 2, install);
    }
}

/* Unless all agree on an earlier one, from which the same steps can be made again. */
Test(repair, where_as_many_hold_other_bits_an_earlier_state_counts_that_nobody_disputes) {
    for (int fast = 0; fast < 2; fast++) {
        gw_report *reports[] = {report_at(8, "x...........", "............"),
                                report_at(8, ".x..........", "............"),
                                report_at(7, "..x.........", "............")};
        reports[0]->fingerprint ^= 1;
        gw_install *install = plan_for(3);
        gw_repair_rules with = rules;
        with.latest_view_only = fast;
        char text[200];
        gw_repair_answer answer =
            gw_repair_plan(&with, (const gw_report *const *)reports, false, install, text, sizeof text);
        cr_assert_eq(answer, fast ? GW_REPAIR_HALT : GW_REPAIR_READY);
        cr_assert_not_null(strstr(text, fast ? "nobody can tell" : "back to step 7"), "%s", text);
        if (!fast) {
            cr_assert_eq(install->step, 7);
            cr_assert(gw_set_has(&install->fetchers, 0) && gw_set_has(&install->fetchers, 1));
            cr_assert(!gw_set_has(&install->fetchers, 2));
            cr_assert_eq(gw_set_count(&install->missing), SHARDS - 1);
        }
        free_all(reports, 3, install);
    }
}

static void tell(gw_report *r, uint64_t step, const char *chunks) {
    gw_report *from = newcomer(step, chunks);
    r->inventory[r->inventory_count++] = from->inventory[0];
    from->inventory_count = 0;
    gw_report_free(from);
}

/* The view may also go on from a checkpoint that all of them had before they differed. */
Test(repair, where_as_many_hold_other_bits_a_checkpoint_of_all_of_them_counts) {
    for (uint32_t k = 0; k < 4; k++) {
        gw_report *reports[] = {report_at(8, "x...........", "............"),
                                report_at(8, ".x..........", "............"),
                                report_at(3, "..x.........", "............"), newcomer(6, "xx..")};
        reports[0]->fingerprint ^= 1;
        if (k & 1) tell(reports[0], 6, "..xx");
        if (k & 2) tell(reports[1], 6, "..xx");
        gw_install *install = plan_for(4);
        cr_expect_eq(plan(reports, install, false), GW_REPAIR_READY);
        cr_expect_eq(install->step, k == 3 ? 6 : 3, "%u: %" PRIu64, k, install->step);
        free_all(reports, 4, install);
    }
}

Test(repair, failed_checks_reduce_again_then_recompute_then_stop) {
    for (uint32_t failures = 1; failures <= 3; failures++) {
        gw_report *reports[] = {report_at(7, "xxxxxx......", "............"),
                                report_at(7, "......xxxxxx", "............")};
        reports[1]->failures = failures;
        gw_install *install = plan_for(2);
        gw_repair_answer answer = plan(reports, install, false);
        cr_assert_eq(answer, failures == 3 ? GW_REPAIR_STOP : GW_REPAIR_READY);
        cr_assert_eq(gw_set_count(&install->missing), failures == 1 ? 0 : SHARDS);
        cr_assert_eq(gw_set_count(&install->drops), failures == 1 ? 0 : 2);
        free_all(reports, 2, install);
    }
}

/* What the one in doubt holds is dealt again; and once somebody has gone who may have been the cause, all is.
 */
Test(repair, failed_checks_stop_nobody_while_they_may_have_a_cause_that_goes) {
    for (uint32_t k = 0; k < 2; k++) {
        gw_report *reports[] = {report_at(7, "xxxxxx......", "............"),
                                report_at(7, "......xxxxxx", "............")};
        gw_repair_rules with = rules;
        char text[200];
        reports[0]->failures = 3;
        with.some_absent = k == 0;
        with.doubted = gw_set_of(2);
        if (k == 1) gw_set_add(&with.doubted, 1);
        gw_install *install = plan_for(2);
        cr_assert_eq(
            gw_repair_plan(&with, (const gw_report *const *)reports, false, install, text, sizeof text),
            GW_REPAIR_READY, "%s", text);
        cr_assert_eq(gw_set_count(&install->missing), k == 0 ? SHARDS : SHARDS / 2);
        cr_assert_eq(install->failures, k == 0 ? 2 : 0);
        gw_set_free(&with.doubted);
        free_all(reports, 2, install);
    }
}

/* What it knows was saved in the view of that epoch, where it lived last. */
static gw_report *newcomer_from(uint64_t epoch, uint64_t step, const char *chunks) {
    gw_report *r = newcomer(step, chunks);
    r->installed_epoch = r->inventory[0].epoch = epoch;
    r->installed.bytes[0] = r->inventory[0].root.bytes[1] = (uint8_t)epoch;
    return r;
}

Test(repair, starts_from_scratch_when_nobody_knows_a_checkpoint) {
    gw_report *reports[] = {newcomer(0, NULL), newcomer(0, NULL)};
    gw_install *install = plan_for(2);
    cr_assert_eq(plan(reports, install, false), GW_REPAIR_READY);
    cr_assert_eq(install->load, GW_LOAD_INIT);
    cr_assert_eq(install->step, 0);
    cr_assert_eq(gw_set_count(&install->missing), SHARDS);
    free_all(reports, 2, install);
}

Test(repair, resumes_from_the_newest_checkpoint_that_the_disks_complete) {
    gw_report *reports[] = {newcomer(20, "xx.."), newcomer(20, ".xxx")};
    gw_install *install = plan_for(2);
    cr_assert_eq(plan(reports, install, false), GW_REPAIR_READY);
    cr_assert_eq(install->load, GW_LOAD_MANIFEST);
    cr_assert_eq(install->step, 20);
    cr_assert(gw_set_has(&install->inventories[0], 0));
    cr_assert(!gw_set_has(&install->inventories[1], 0));
    free_all(reports, 2, install);
}

static gw_repair_answer plan_start_of(gw_report **reports, bool fast, bool settle, gw_install *install) {
    gw_repair_rules with = rules;
    with.latest_view_only = fast;
    char text[300];
    gw_repair_answer answer =
        gw_repair_plan(&with, (const gw_report *const *)reports, settle, install, text, sizeof text);
    cr_assert_not_null(strstr(text, answer == GW_REPAIR_WAIT ? "not here" : "nobody here has all"), "%s",
                       text);
    return answer;
}

Test(repair, with_float_sums_the_holders_of_a_newer_checkpoint_are_waited_for_until_told_to_settle) {
    gw_report *reports[] = {newcomer(20, "xx.."), newcomer(10, "xxxx")};
    gw_install *install = plan_for(2);
    cr_assert_eq(plan_start_of(reports, true, false, install), GW_REPAIR_WAIT);
    gw_install_free(install);
    install = plan_for(2);
    cr_assert_eq(plan_start_of(reports, true, true, install), GW_REPAIR_READY);
    cr_assert_eq(install->step, 10);
    free_all(reports, 2, install);
}

/* With exact sums the older one leads to the newer one, and who brings the rest of that may still come. */
Test(repair, with_exact_sums_an_older_checkpoint_is_gone_on_from_at_once) {
    gw_report *reports[] = {newcomer(20, "xx.."), newcomer(10, "xxxx")};
    gw_install *install = plan_for(2);
    cr_assert_eq(plan_start_of(reports, false, false, install), GW_REPAIR_READY);
    cr_assert_eq(install->load, GW_LOAD_MANIFEST);
    cr_assert_eq(install->step, 10);
    free_all(reports, 2, install);
}

Test(repair, the_job_is_not_begun_anew_before_the_holders_of_a_checkpoint_were_waited_for) {
    gw_report *reports[] = {newcomer(20, "xx.."), newcomer(10, ".xxx")};
    gw_install *install = plan_for(2);
    cr_assert_eq(plan_start_of(reports, false, false, install), GW_REPAIR_WAIT);
    gw_install_free(install);
    install = plan_for(2);
    cr_assert_eq(plan_start_of(reports, false, true, install), GW_REPAIR_READY);
    cr_assert_eq(install->load, GW_LOAD_INIT);
    free_all(reports, 2, install);
}

/* It knows of none of them, as it has no manifest: who has one may find them there. */
Test(repair, chunks_without_a_manifest_are_tried_once) {
    gw_report *reports[] = {newcomer(20, "xx.."), newcomer(10, "xxxx"), newcomer(0, NULL)};
    reports[2]->orphans = true;
    gw_install *install = plan_for(3);
    cr_assert_eq(plan(reports, install, false), GW_REPAIR_READY);
    cr_assert_eq(install->load, GW_LOAD_MANIFEST);
    cr_assert_eq(install->step, 20);
    cr_assert_eq(gw_set_count(&install->inventories[0]), 2);
    cr_assert_eq(gw_set_count(&install->inventories[1]), 0);
    cr_assert_eq(gw_set_count(&install->inventories[2]), CHUNKS, "whatever it may be asked for");
    gw_install_free(install);
    reports[2]->inventory_count = 1; /* it has looked, and they were of another one */
    reports[2]->inventory[0] =
        (gw_inventory){.step = 20, .root = {{20}}, .fingerprint = 20, .chunks = gw_set_of(CHUNKS)};
    install = plan_for(3);
    cr_assert_eq(plan(reports, install, false), GW_REPAIR_READY);
    cr_assert_eq(install->step, 10);
    free_all(reports, 3, install);
}

/* Those that were not of the newest may be of the one before it. */
Test(repair, chunks_without_a_manifest_are_tried_once_for_each_checkpoint) {
    gw_report *reports[] = {newcomer(20, "xx.."), newcomer(10, "xx.."), newcomer(5, "xxxx"),
                            newcomer(20, "....")};
    reports[3]->orphans = true;
    gw_install *install = plan_for(4);
    cr_assert_eq(plan(reports, install, false), GW_REPAIR_READY);
    cr_assert_eq(install->step, 10);
    cr_assert_eq(gw_set_count(&install->inventories[3]), CHUNKS, "whatever it may be asked for");
    gw_install_free(install);
    reports[3]->inventory_count = 2; /* it has looked: they were not of that one either */
    reports[3]->inventory[1] =
        (gw_inventory){.step = 10, .root = {{10}}, .fingerprint = 10, .chunks = gw_set_of(CHUNKS)};
    install = plan_for(4);
    cr_assert_eq(plan(reports, install, true), GW_REPAIR_READY);
    cr_assert_eq(install->step, 5);
    free_all(reports, 4, install);
}

/* Who knows of more checkpoints than a vote tells could be asked for ever for one that it has tried. */
Test(repair, who_cannot_tell_all_that_it_has_tried_is_not_asked_for_what_it_does_not_know) {
    gw_report *reports[] = {newcomer(20, "xx.."), newcomer(30, "....")};
    reports[1]->orphans = true;
    for (uint32_t i = 1; i < GW_MAX_INVENTORY; i++)
        reports[1]->inventory[i] = (gw_inventory){
            .step = 30, .root = {{30, (uint8_t)i}}, .fingerprint = 30, .chunks = gw_set_of(CHUNKS)};
    reports[1]->inventory_count = GW_MAX_INVENTORY;
    gw_install *install = plan_for(2);
    cr_assert_eq(plan(reports, install, true), GW_REPAIR_READY);
    cr_assert_eq(install->load, GW_LOAD_INIT);
    free_all(reports, 2, install);
}

Test(repair, chunks_without_a_manifest_are_not_needed_where_others_have_all) {
    gw_report *reports[] = {newcomer(20, "xxxx"), newcomer(0, NULL)};
    reports[1]->orphans = true;
    gw_install *install = plan_for(2);
    cr_assert_eq(plan(reports, install, false), GW_REPAIR_READY);
    cr_assert_eq(install->step, 20);
    cr_assert_eq(gw_set_count(&install->inventories[1]), 0);
    free_all(reports, 2, install);
}

Test(repair, the_last_state_of_a_job_that_ended_early_is_its_end) {
    gw_report *reports[] = {newcomer(20, "xx.."), newcomer(20, "..xx")};
    reports[1]->inventory[0].ended = true;
    gw_install *install = plan_for(2);
    cr_assert_eq(plan(reports, install, false), GW_REPAIR_READY);
    cr_assert(install->ended);
    cr_assert_eq(install->missing.size, 0);
    free_all(reports, 2, install);
}

Test(repair, a_fresh_leader_ignores_checkpoints) {
    gw_report *reports[] = {newcomer(20, "xxxx"), newcomer(20, "xxxx")};
    reports[0]->fresh = true;
    gw_install *install = plan_for(2);
    cr_assert_eq(plan(reports, install, false), GW_REPAIR_READY);
    cr_assert_eq(install->load, GW_LOAD_INIT);
    free_all(reports, 2, install);
}

Test(repair, with_float_sums_only_the_latest_views_state_counts) {
    gw_repair_rules fast = rules;
    fast.latest_view_only = true;
    gw_report *reports[] = {report_at(9, "x...........", "............"),
                            report_at(8, "............", "............")};
    reports[0]->installed_epoch = 3;
    reports[1]->installed_epoch = 4;
    reports[1]->installed.bytes[0] = 1;
    gw_install *install = plan_for(2);
    char text[200];
    gw_repair_plan(&fast, (const gw_report *const *)reports, false, install, text, sizeof text);
    cr_assert_eq(install->step, 8);
    cr_assert(gw_set_has(&install->fetchers, 0));
    free_all(reports, 2, install);
}

/* Whatever the reports: what members keep and what is dealt covers every shard exactly once. */
Test(repair, every_shard_is_kept_or_dealt_exactly_once) {
    gw_rng rng = gw_rng_seeded(11);
    for (int run = 0; run < 2000; run++) {
        uint32_t members = 1 + (uint32_t)gw_rng_below(&rng, 5);
        gw_report *reports[5];
        for (uint32_t i = 0; i < members; i++) {
            char held[SHARDS + 1] = "", claimed[SHARDS + 1] = "";
            for (int k = 0; k < SHARDS; k++) {
                uint64_t draw = gw_rng_below(&rng, 8);
                held[k] = draw == 0 ? 'x' : '.';
                claimed[k] = draw == 1 ? 'x' : '.';
            }
            reports[i] = report_at(5 + gw_rng_below(&rng, 2), held, claimed);
        }
        gw_install *install = plan_for(members);
        cr_assert_eq(plan(reports, install, false), GW_REPAIR_READY);
        for (uint32_t shard = 0; shard < SHARDS; shard++) {
            int count = gw_set_has(&install->missing, shard);
            for (uint32_t i = 0; i < members; i++) {
                if (gw_set_has(&install->fetchers, i) || gw_set_has(&install->drops, i)) continue;
                count += gw_set_has(&reports[i]->held, shard) + gw_set_has(&reports[i]->claimed, shard);
            }
            cr_assert_eq(count, 1, "run %d shard %u is there %d times", run, shard, count);
        }
        free_all(reports, members, install);
    }
}

Test(repair, the_end_of_the_job_and_the_stop_that_brought_it_come_with_the_state) {
    gw_report *reports[] = {report_at(7, "xxx.........", "............"),
                            report_at(8, "............", "............")};
    reports[1]->ended = reports[1]->stopped = reports[1]->unwritable = true;
    gw_install *install = plan_for(2); /* led by the one that has not seen the end */
    cr_assert_eq(plan(reports, install, false), GW_REPAIR_READY);
    cr_assert_eq(install->step, 8);
    cr_assert(install->ended && install->stopped);
    cr_assert(!gw_set_has(&install->unwritable, 0) && gw_set_has(&install->unwritable, 1));
    free_all(reports, 2, install);
}

/* ---- float sums: only the latest view's state counts ---- */

typedef struct float_case {
    uint64_t installed[2]; /* epochs of the views that the voters were in last; the second has no state */
    uint64_t promised;     /* of one that an earlier life of the second voted for; 0 = none */
    bool absent, settle;
    gw_repair_answer answer;
} float_case;

/* The second voter has lived in a view that the first was not in, or has forgotten: what was shown there, a
 * third may know. */
Test(repair, float_sums_wait_for_whoever_may_know_what_was_shown) {
    static const float_case cases[] = {
        {{5, 5}, 0, true, false, GW_REPAIR_READY}, /* the first holds all that was shown in view 5 */
        {{6, 5}, 0, true, false, GW_REPAIR_READY}, {{5, 6}, 0, false, false, GW_REPAIR_READY},
        {{5, 6}, 0, true, false, GW_REPAIR_WAIT},  {{5, 6}, 0, true, true, GW_REPAIR_READY},
        {{6, 4}, 5, true, false, GW_REPAIR_READY}, {{5, 4}, 6, false, false, GW_REPAIR_READY},
        {{5, 4}, 6, true, false, GW_REPAIR_WAIT},  {{5, 4}, 6, true, true, GW_REPAIR_READY},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const float_case *c = &cases[i];
        gw_report *reports[2] = {report_at(7, "............", "............"), calloc(1, sizeof(gw_report))};
        for (int k = 0; k < 2; k++) {
            reports[k]->installed_epoch = c->installed[k];
            reports[k]->installed.bytes[0] = (uint8_t)c->installed[k];
        }
        reports[1]->promised_epoch = c->promised;
        uint64_t latest = c->promised > 0 ? c->promised : c->installed[1];
        gw_install *install = plan_for(2);
        gw_repair_rules floats = rules;
        char text[200];
        floats.latest_view_only = true;
        floats.some_absent = c->absent;
        cr_assert_eq(
            gw_repair_plan(&floats, (const gw_report *const *)reports, c->settle, install, text, sizeof text),
            c->answer, "case %zu", i);
        cr_assert_eq(text[0] != '\0', c->absent && latest > c->installed[0], "case %zu", i);
        free_all(reports, 2, install);
    }
}

/* ---- a later checkpoint than the state that is held ---- */

static gw_install *plan_to_jump(gw_report **reports, const gw_repair_rules *its_rules) {
    gw_install *install = plan_for(2);
    char text[200];
    cr_assert_eq(
        gw_repair_plan(its_rules, (const gw_report *const *)reports, false, install, text, sizeof text),
        GW_REPAIR_READY);
    return install;
}

static void expect_jump(gw_report **reports, const gw_repair_rules *its_rules, bool jumps) {
    gw_install *install = plan_to_jump(reports, its_rules);
    cr_assert_eq(install->load, jumps ? GW_LOAD_MANIFEST : GW_LOAD_PEERS);
    cr_assert_eq(install->step, jumps ? 20 : 7);
    cr_assert_eq(gw_set_count(&install->fetchers), jumps ? 2 : 1);
    gw_install_free(install);
}

Test(repair, a_complete_checkpoint_above_the_state_is_jumped_to) {
    gw_report *reports[] = {report_at(7, "xxx.........", "............"), newcomer(20, "xxxx")};
    expect_jump(reports, &rules, true);
    reports[0]->fresh = true;
    expect_jump(reports, &rules, false);
    reports[0]->fresh = false;
    reports[0]->load_failed = true;
    expect_jump(reports, &rules, false);
    reports[0]->load_failed = false;
    reports[0]->ended = true;
    expect_jump(reports, &rules, false);
    for (int i = 0; i < 2; i++) gw_report_free(reports[i]);
}

/* What was saved in a later view than the state's came after it. What was saved before may be of a lineage
 * that was given up, whoever brings it. */
Test(repair, with_float_sums_only_a_checkpoint_from_a_later_view_is_jumped_to) {
    gw_repair_rules fast = rules;
    fast.latest_view_only = true;
    gw_report *reports[] = {report_at(7, "xxx.........", "............"), newcomer(20, "xxxx")};
    reports[0]->installed_epoch = 5;
    for (uint64_t epoch = 4; epoch <= 6; epoch++) {
        reports[1]->installed_epoch = 6;
        reports[1]->inventory[0].epoch = epoch;
        expect_jump(reports, &fast, epoch > 4);
    }
    reports[1]->promised_epoch = 7; /* whatever came of that one */
    expect_jump(reports, &fast, true);
    for (int i = 0; i < 2; i++) gw_report_free(reports[i]);
}

/* With exact sums its load costs nothing if it fails; once tried, it is known. */
Test(repair, a_checkpoint_above_the_state_that_may_be_complete_is_tried) {
    gw_report *reports[] = {newcomer(20, "xx.."), report_at(7, "xxx.........", "............")};
    expect_jump(reports, &rules, false);
    reports[1]->orphans = true;
    expect_jump(reports, &rules, true);
    reports[1]->inventory_count = 1; /* it has looked, and they were of another one */
    reports[1]->inventory[0] =
        (gw_inventory){.step = 20, .root = {{20}}, .fingerprint = 20, .chunks = gw_set_of(CHUNKS)};
    expect_jump(reports, &rules, false);
    for (int i = 0; i < 2; i++) gw_report_free(reports[i]);
}

/* With float sums who tries it gives its state up, and does so only where nobody else can bring the rest, and
 * for chunks of somebody who has lived in that view. */
Test(repair, with_float_sums_one_that_may_be_complete_is_tried_when_nobody_is_waited_for) {
    gw_repair_rules fast = rules;
    fast.latest_view_only = true;
    gw_report *reports[] = {newcomer_from(1, 20, "xx.."), report_at(7, "............", "............"),
                            newcomer(0, NULL)};
    for (uint32_t k = 0; k < 8; k++) {
        bool settle = k & 1, at_holder = k & 2, at_member = k & 4;
        reports[1]->orphans = at_holder;
        reports[2]->orphans = true;
        reports[2]->installed_epoch = reports[at_member ? 0 : 1]->installed_epoch;
        gw_install *install = plan_for(3);
        char text[200];
        cr_expect_eq(
            gw_repair_plan(&fast, (const gw_report *const *)reports, settle, install, text, sizeof text),
            settle ? GW_REPAIR_READY : GW_REPAIR_WAIT);
        cr_expect_eq(install->step, !settle ? 0 : at_member ? 20 : 7, "%u", k);
        gw_install_free(install);
    }
    for (int i = 0; i < 3; i++) gw_report_free(reports[i]);
}

/* Two without a state know one each; the first one's was saved in a later view than the third has lived in.
 */
static void expect_wait_for_chunks(bool complete_too, bool settle, gw_repair_answer answer, uint64_t step) {
    gw_repair_rules fast = rules;
    fast.latest_view_only = true;
    gw_report *reports[] = {newcomer_from(6, 20, "xx.."), newcomer_from(complete_too ? 6 : 4, 15, "xxxx"),
                            report_at(7, "............", "............")};
    reports[2]->installed_epoch = 5;
    gw_install *install = plan_for(3);
    char text[200];
    cr_expect_eq(gw_repair_plan(&fast, (const gw_report *const *)reports, settle, install, text, sizeof text),
                 answer);
    cr_expect_eq(install->step, step, "%d %d: %" PRIu64, complete_too, settle, install->step);
    cr_expect_not_null(strstr(text, "checkpoint of step 20 is known"), "%s", text);
    char beginning[32];
    snprintf(beginning, sizeof beginning, "beginning at step %" PRIu64, step);
    if (settle) cr_expect_not_null(strstr(text, beginning), "%s", text);
    free_all(reports, 3, install);
}

Test(repair, with_float_sums_the_rest_of_a_later_views_checkpoint_is_waited_for) {
    expect_wait_for_chunks(false, false, GW_REPAIR_WAIT, 0);
    expect_wait_for_chunks(false, true, GW_REPAIR_READY, 7);
    expect_wait_for_chunks(true, false, GW_REPAIR_WAIT, 0);
    expect_wait_for_chunks(true, true, GW_REPAIR_READY, 15);
}

/* One of two voters knows how the job ended, and neither has all of its last state. */
static gw_repair_answer plan_after_the_end(bool fast, bool some_may_come, bool settle, bool stateful,
                                           gw_install *install) {
    gw_repair_rules with = rules;
    with.latest_view_only = fast;
    with.some_may_come = some_may_come;
    gw_report *reports[] = {newcomer_from(5, 30, "xx.."), newcomer_from(4, 20, "xxxx")};
    if (stateful) {
        gw_report_free(reports[1]);
        reports[1] = report_at(20, "............", "............");
    }
    reports[0]->inventory[0].ended = true;
    char text[200];
    gw_repair_answer answer =
        gw_repair_plan(&with, (const gw_report *const *)reports, settle, install, text, sizeof text);
    if (answer == GW_REPAIR_OVER) cr_expect_not_null(strstr(text, "ended at step 30"), "%s", text);
    for (int i = 0; i < 2; i++) gw_report_free(reports[i]);
    return answer;
}

Test(repair, with_float_sums_the_end_of_the_job_is_not_made_again) {
    for (int stateful = 0; stateful < 2; stateful++) {
        gw_install *install = plan_for(2);
        cr_expect_eq(plan_after_the_end(true, true, false, stateful, install), GW_REPAIR_WAIT);
        gw_install_free(install);
        install = plan_for(2);
        cr_expect_eq(plan_after_the_end(true, true, true, stateful, install), GW_REPAIR_OVER);
        cr_expect_eq(install->step, 30);
        cr_expect_eq(install->root.bytes[0], 30);
        gw_install_free(install);
        install = plan_for(2);
        cr_expect_eq(plan_after_the_end(true, false, true, stateful, install), GW_REPAIR_READY,
                     "nobody else can have the rest: it is lost");
        cr_expect_eq(install->step, 20);
        gw_install_free(install);
        install = plan_for(2);
        cr_expect_eq(plan_after_the_end(false, true, true, stateful, install), GW_REPAIR_READY,
                     "exact sums lead to the same end");
        cr_expect_eq(install->step, 20);
        gw_install_free(install);
    }
}

/* ---- float sums: what was saved in a later view counts ---- */

static gw_repair_answer plan_floats(gw_report **reports, uint32_t count, bool settle, gw_install **install) {
    gw_repair_rules floats = rules;
    char text[200];
    floats.latest_view_only = true;
    floats.some_may_come = true;
    *install = plan_for(count);
    return gw_repair_plan(&floats, (const gw_report *const *)reports, settle, *install, text, sizeof text);
}

/* Without holders of the checkpoint of view 1 others have begun before it, made its steps again, and saved
 * another one of step 10, in view 2. Then all come back. */
Test(repair, with_float_sums_a_checkpoint_from_a_later_view_counts_before_one_of_as_many_steps_or_more) {
    for (uint32_t k = 0; k < 8; k++) {
        uint32_t later = k & 1;
        bool settle = k & 2, more = k & 4;
        gw_report *reports[2];
        reports[later] = newcomer_from(2, 10, "xxxx");
        reports[1 - later] = newcomer_from(1, more ? 15 : 10, "xxxx");
        gw_install *install;
        cr_expect_eq(plan_floats(reports, 2, settle, &install), GW_REPAIR_READY, "%u", k);
        cr_expect_eq(install->step, 10, "%u", k);
        cr_expect_eq(install->root.bytes[1], 2, "%u", k);
        cr_expect_eq(install->root_epoch, 2, "%u", k);
        free_all(reports, 2, install);
    }
}

/* The rest of a superseded checkpoint is not waited for; the rest of the later one is, though one of more
 * steps is complete. */
Test(repair, with_float_sums_the_rest_of_the_latest_views_checkpoint_is_waited_for) {
    for (int later_complete = 0; later_complete < 2; later_complete++) {
        gw_report *reports[] = {newcomer_from(1, 15, later_complete ? "xx.." : "xxxx"),
                                newcomer_from(2, 10, later_complete ? "xxxx" : "xx..")};
        gw_install *install;
        cr_expect_eq(plan_floats(reports, 2, false, &install),
                     later_complete ? GW_REPAIR_READY : GW_REPAIR_WAIT);
        gw_install_free(install);
        cr_expect_eq(plan_floats(reports, 2, true, &install), GW_REPAIR_READY);
        cr_expect_eq(install->step, later_complete ? 10 : 15);
        free_all(reports, 2, install);
    }
}

/* If one state was saved twice, with the same root, the later time counts. */
Test(repair, with_float_sums_a_state_that_was_saved_again_is_of_the_later_view) {
    gw_report *reports[] = {newcomer_from(1, 20, "xx.."), newcomer_from(2, 10, "xxxx"),
                            newcomer_from(3, 20, "..xx")};
    reports[2]->inventory[0].root = reports[0]->inventory[0].root;
    gw_install *install;
    cr_expect_eq(plan_floats(reports, 3, false, &install), GW_REPAIR_READY);
    cr_expect_eq(install->step, 20);
    cr_expect_eq(install->root_epoch, 3);
    free_all(reports, 3, install);
}

/* One with a state of view 5 was away while view 7 went back behind it, and saved. */
Test(repair, with_float_sums_a_checkpoint_from_a_later_view_counts_before_a_state_of_more_steps) {
    for (uint64_t k = 0; k < 6; k++) {
        uint64_t epoch = 5 + k % 3;
        gw_report *reports[] = {report_at(30, "............", "............"), newcomer_from(7, 20, "xxxx")};
        reports[0]->installed_epoch = 5;
        reports[0]->ended = k / 3;
        reports[1]->inventory[0].epoch = epoch;
        gw_install *install;
        cr_expect_eq(plan_floats(reports, 2, true, &install), GW_REPAIR_READY);
        cr_expect_eq(install->step, epoch > 5 ? 20 : 30, "%" PRIu64, epoch);
        free_all(reports, 2, install);
    }
}

/* Only one peer has the end of view 1 on record; the others have gone on without it, and have not come to
 * their end. */
Test(repair, with_float_sums_an_end_that_a_later_view_knew_nothing_of_is_not_the_jobs) {
    for (uint32_t k = 0; k < 4; k++) {
        bool settle = k & 1, by_its_step = k & 2;
        gw_report *reports[] = {newcomer_from(2, 15, "xxxx"),
                                newcomer_from(1, by_its_step ? 100 : 60, "x...")};
        reports[1]->inventory[0].ended = !by_its_step;
        gw_install *install;
        cr_expect_eq(plan_floats(reports, 2, settle, &install), GW_REPAIR_READY, "%u", k);
        cr_expect_eq(install->step, 15, "%u", k);
        cr_expect(!install->ended && !install->end_given_up);
        free_all(reports, 2, install);
    }
}

Test(repair, an_incomplete_or_older_checkpoint_is_not_jumped_to) {
    gw_report *reports[] = {report_at(7, "xxx.........", "............"), newcomer(20, "xxx.")};
    expect_jump(reports, &rules, false);
    gw_report_free(reports[1]);
    reports[1] = newcomer(6, "xxxx");
    expect_jump(reports, &rules, false);
    for (int i = 0; i < 2; i++) gw_report_free(reports[i]);
}

Test(repair, a_checkpoint_of_another_shape_completes_nothing) {
    gw_report *reports[] = {newcomer(20, "xxxx"), newcomer(20, "xx..")};
    gw_set_free(&reports[0]->inventory[0].chunks);
    reports[0]->inventory[0].chunks = gw_set_of(CHUNKS + 1);
    gw_set_fill(&reports[0]->inventory[0].chunks);
    gw_install *install = plan_for(2);
    cr_assert_eq(plan(reports, install, true), GW_REPAIR_READY);
    cr_assert_eq(install->load, GW_LOAD_INIT);
    gw_install_free(install);
    gw_set_fill(&reports[1]->inventory[0].chunks);
    install = plan_for(2);
    cr_assert_eq(plan(reports, install, false), GW_REPAIR_READY);
    cr_assert_eq(install->load, GW_LOAD_MANIFEST);
    cr_assert_eq(install->step, 20);
    free_all(reports, 2, install);
}

Test(repair, who_claims_what_it_holds_counts_for_nothing) {
    gw_report *reports[] = {report_at(7, "xxx.........", "..x........."),
                            report_at(7, "......xx....", "............")};
    gw_install *install = plan_for(2);
    plan(reports, install, false);
    cr_assert(gw_set_has(&install->drops, 0));
    cr_assert(!gw_set_has(&install->drops, 1));
    cr_assert_eq(gw_set_count(&install->missing), SHARDS - 2);
    free_all(reports, 2, install);
}

Test(repair, after_the_last_step_nothing_is_dealt) {
    gw_report *reports[] = {report_at(100, "............", "............"), newcomer(0, NULL)};
    gw_install *install = plan_for(2);
    plan(reports, install, false);
    cr_assert_eq(install->step, 100);
    cr_assert_eq(install->missing.size, 0);
    cr_assert_eq(install->cuts[2], 0);
    free_all(reports, 2, install);
}

/* ---- a job that goes on from the state of another one ---- */

static gw_repair_answer plan_branch(uint64_t first_step, gw_report **reports, gw_install *install,
                                    const char *part) {
    char text[200];
    gw_repair_rules branch = rules;
    branch.first_step = first_step;
    gw_repair_answer answer =
        gw_repair_plan(&branch, (const gw_report *const *)reports, true, install, text, sizeof text);
    cr_assert(part == NULL || strstr(text, part) != NULL, "'%s' does not say '%s'", text, part);
    return answer;
}

Test(repair, a_branch_never_begins_with_the_initial_state) {
    static const struct {
        uint64_t first_step;
        const char *chunks, *part;
    } cases[] = {
        {30, NULL, "no peer here has the checkpoint of step 30 from which the job goes on"},
        {30, "xx..", "checkpoint of step 30 is known, but some of its chunks are on peers that are not here"},
        {GW_STEP_UNKNOWN, NULL, "no peer here knows from which checkpoint the job goes on"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gw_report *reports[] = {newcomer(30, cases[i].chunks), newcomer(0, NULL)};
        gw_install *install = plan_for(2);
        cr_assert_eq(plan_branch(cases[i].first_step, reports, install, cases[i].part), GW_REPAIR_WAIT, "%zu",
                     i);
        free_all(reports, 2, install);
    }
}

Test(repair, a_branch_begins_with_the_whole_checkpoint_of_its_parent) {
    gw_report *reports[] = {newcomer(30, "xx.."), newcomer(30, "..xx"), newcomer(0, NULL)};
    gw_install *install = plan_for(3);
    cr_assert_eq(plan_branch(30, reports, install, NULL), GW_REPAIR_READY);
    cr_assert_eq(install->load, GW_LOAD_MANIFEST);
    cr_assert_eq(install->step, 30);
    free_all(reports, 3, install);
}
