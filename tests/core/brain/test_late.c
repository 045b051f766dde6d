/* What the world or another peer says too late, twice, wrongly or without a reason: it changes nothing that
 * it must not, and is told in full. */
#include "tests/core/brain/flock/flock.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_EVENTS = 200000, STEPS = 20 };

/* It answers with no action at all. */
static void expect_nothing(flock *f, uint32_t i, gw_event event, const char *what) {
    gw_actions actions = {0};
    gw_peer_step(f->peers[i].brain, &event, f->now, &actions);
    cr_assert_eq(actions.count, 0, "%s (event %d): %u actions, the first of kind %d", what, event.kind,
                 actions.count, actions.count > 0 ? actions.list[0].kind : 0);
    gw_actions_free(&actions);
}

static bool is_at(const flock *f, uint32_t i, const char *phase) {
    return strcmp(flock_status(f, i).phase, phase) == 0;
}

/* Answers to what was never asked, or was given up. */
static void say_late(flock *f, uint32_t i) {
    static const gw_event_kind kinds[] = {
        GW_EV_SEALED, GW_EV_FROZEN, GW_EV_REDUCED,  GW_EV_PROBED,    GW_EV_LOOKED,    GW_EV_APPLIED,
        GW_EV_LOADED, GW_EV_STORED, GW_EV_PROGRESS, GW_EV_COMMITTED, GW_EV_PERSISTED, GW_EV_MANIFEST_STORED};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        expect_nothing(f, i, (gw_event){.kind = kinds[k], .token = UINT64_MAX, .outcome = GW_DONE}, "late");
    expect_nothing(f, i, (gw_event){.kind = GW_EV_DRY, .dry.tag = UINT32_MAX}, "late");
    for (int swapped = 0; swapped < 2; swapped++)
        expect_nothing(f, i,
                       (gw_event){.kind = swapped ? GW_EV_WORD_SWAPPED : GW_EV_WORD_READ,
                                  .token = UINT64_MAX,
                                  .word.outcome = GW_WORD_OK},
                       "late");
    expect_nothing(f, i, (gw_event){.kind = GW_EV_WORD_READ}, "without a token");
    expect_nothing(f, i, (gw_event){.kind = GW_EV_WORD_SWAPPED}, "without a token");
    expect_nothing(f, i, (gw_event){.kind = GW_EV_PROGRESS}, "without a token");
    expect_nothing(f, i, (gw_event){.kind = GW_EV_LINK_DOWN, .peer = {{99}}}, "of a stranger");
    expect_nothing(f, i, (gw_event){.kind = GW_EV_MESSAGE, .peer = {{99}}}, "of a stranger");
    if (is_at(f, i, "waiting for peers"))
        expect_nothing(f, i, (gw_event){.kind = GW_EV_CLAIM}, "without a view");
    if (!is_at(f, i, "computing"))
        expect_nothing(f, i, (gw_event){.kind = GW_EV_SHARD_LOST}, "of a step that is over");
    expect_nothing(f, i,
                   (gw_event){.kind = GW_EV_WORKER_LOST,
                              .worker_lost.kind = GW_WORKER_CRASHED,
                              .worker_lost.step = UINT64_MAX - 1,
                              .worker_lost.given_back = true},
                   "of another step");
}

/* Runs to the end; `say` has its say to one peer after another in between. */
static void run_with(flock *f, void (*say)(flock *f, uint32_t i), uint32_t every) {
    for (uint32_t n = 0; !flock_run(f, NULL, every); n++) {
        cr_assert_lt(n, MOST_EVENTS);
        uint32_t i = n % f->count;
        if (f->peers[i].brain == NULL || f->peers[i].finished) continue;
        flock_tell(f, i, (gw_event){.kind = GW_EV_TIMER}); /* what is due now is not to be blamed on it */
        if (!f->peers[i].finished) say(f, i);
    }
}

static void disturb(gw_quorum quorum, void (*say)(flock *f, uint32_t i)) {
    flock f;
    flock_open(&f, 3, 3, STEPS, quorum);
    f.checkpoint_steps = 3;
    f.verify = GW_VERIFY_WHOLE;
    flock_start_all(&f);
    for (uint32_t n = 0; !flock_run(&f, flock_at_step_5, 3); n++) say(&f, n % 3);
    flock_kill(&f, 2);
    run_with(&f, say, 3);
    flock_expect_done(&f, 2);
    flock_close(&f);
}

Test(peer_late, answers_to_what_nobody_waits_for_change_nothing) {
    disturb(GW_QUORUM_ANY, say_late);
    disturb(GW_QUORUM_MAJORITY, say_late);
}

/* ---- messages ---- */

/* One of the others, which is linked to `i`; -1 = none is. */
static int linked_peer(const flock *f, uint32_t i, bool leader) {
    gw_peer_status status = flock_status(f, i);
    for (uint32_t k = 0; k < f->count; k++)
        if (k != i && f->peers[i].linked[k] && f->peers[k].brain != NULL && status.view != NULL &&
            gw_peer_id_equal(&status.view->leader, &f->peers[k].config.id) == leader)
            return (int)k;
    return -1;
}

static gw_hash job_of(const flock *f) {
    gw_hash job;
    gw_blake2b(f->peers[0].config.identity, strlen(f->peers[0].config.identity), job.bytes, 32);
    return job;
}

static void tell_message(flock *f, uint32_t i, uint32_t from, gw_message m, bool quiet) {
    uint8_t *bytes;
    size_t length = gw_message_encode(&m, &bytes);
    gw_event event = {.kind = GW_EV_MESSAGE,
                      .peer = f->peers[from].config.id,
                      .message.bytes = bytes,
                      .message.length = length};
    if (quiet)
        expect_nothing(f, i, event, gw_message_name(m.kind));
    else
        flock_tell(f, i, event);
    free(bytes);
}

static const gw_message_kind short_kinds[] = {
    GW_MSG_READY, GW_MSG_STORED,  GW_MSG_MANIFEST, GW_MSG_RECORDED, GW_MSG_COMPLETE, GW_MSG_END,
    GW_MSG_CLAIM, GW_MSG_WITNESS, GW_MSG_HALT,     GW_MSG_ASK_STOP, GW_MSG_ASK_SAVE};

static char some_text[] = "why not";

/* A message of such a kind about a step that nobody has got to, and otherwise zeros. */
static gw_message about_late_step(gw_message_kind kind) {
    enum { STEP = 999 };
    gw_message m = {.kind = kind};
    switch (kind) {
    case GW_MSG_READY:
        m.ready.whole.step = STEP;
        break;
    case GW_MSG_STORED:
        m.stored.step = STEP;
        break;
    case GW_MSG_MANIFEST:
        m.manifest.step = STEP;
        break;
    case GW_MSG_RECORDED:
        m.recorded.step = STEP;
        break;
    case GW_MSG_COMPLETE:
        m.complete.step = STEP;
        break;
    case GW_MSG_END:
        m.end.step = STEP;
        break;
    case GW_MSG_CLAIM:
        m.claim.step = STEP;
        break;
    case GW_MSG_WITNESS:
        m.witness.step = STEP;
        break;
    case GW_MSG_HALT:
        m.halt.step = STEP;
        m.halt.reason = some_text;
        break;
    default:
        break;
    }
    return m;
}

/* Sends messages about another view, step or job. */
static void say_of_another(flock *f, uint32_t i, uint32_t from, const gw_view *view) {
    for (size_t k = 0; k < sizeof short_kinds / sizeof *short_kinds; k++) {
        gw_message m = about_late_step(short_kinds[k]);
        m.job = job_of(f);
        m.epoch = view->epoch;
        m.name = (gw_view_name){{7}};
        tell_message(f, i, from, m, true);
        m.name = view->name;
        m.job = (gw_hash){{1}};
        tell_message(f, i, from, m, true);
    }
    gw_report report = {0};
    const gw_message others[] = {{.kind = GW_MSG_REPAIR, .repair.reason = some_text},
                                 {.kind = GW_MSG_REFUSE, .refuse.why = GW_REFUSE_OLD},
                                 {.kind = GW_MSG_VOTE, .vote.report = &report}};
    for (size_t k = 0; k < sizeof others / sizeof *others; k++) {
        gw_message m = others[k];
        m.job = job_of(f);
        m.epoch = view->epoch;
        m.name = (gw_view_name){{7}};
        tell_message(f, i, from, m, true);
    }
}

/* Views that are old, of another job, led by another, or without the receiver. */
static void say_views(flock *f, uint32_t i, uint32_t from, const gw_view *view) {
    gw_message m = {.job = job_of(f), .epoch = view->epoch, .name = view->name};
    gw_view other = *view;
    m.kind = GW_MSG_VIEW;
    m.view.view = &other; /* the one it lives in */
    tell_message(f, i, from, m, true);
    other.epoch += 1000;
    other.job = (gw_hash){{1}};
    gw_view_seal(&other);
    tell_message(f, i, from, m, true);
    m.kind = GW_MSG_PROPOSE;
    memset(&m.propose, 0, sizeof m.propose);
    m.propose.view = &other;
    other.epoch = view->epoch;
    other.leader = f->peers[from].config.id;
    gw_view_seal(&other);
    tell_message(f, i, from, m, true); /* of another job */
    other.job = m.job;
    other.leader = f->peers[i].config.id;
    gw_view_seal(&other);
    tell_message(f, i, from, m, true); /* led by another than who says it */
    other = (gw_view){.epoch = view->epoch, .job = m.job, .leader = f->peers[from].config.id, .count = 1};
    other.members[0].id = other.leader;
    gw_view_seal(&other);
    tell_message(f, i, from, m, true); /* without the receiver */
    other = *view;
    if (gw_peer_id_equal(&view->leader, &f->peers[from].config.id)) tell_message(f, i, from, m, true);
}

/* It voted for another view before it heard that this one was installed, and now cannot take that any more:
 * only the leader of this one can propose the next. */
Test(peer_late, who_missed_the_installation_of_a_view_asks_its_leader_for_the_next) {
    flock f;
    flock_open(&f, 3, 3, STEPS, GW_QUORUM_MAJORITY);
    f.now = 10000000000; /* it asks twice a second */
    flock_start_all(&f);
    cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
    uint32_t leader = flock_leader(&f), one = (leader + 1) % 3, next = (leader + 2) % 3;
    gw_view later = *flock_status(&f, one).view;
    later.epoch += 5;
    later.leader = f.peers[next].config.id;
    gw_view_seal(&later);
    gw_message m = {.kind = GW_MSG_VIEW, .job = job_of(&f), .epoch = later.epoch, .view.view = &later};
    f.breaks =
        (flock_break){.kind = GW_MSG_REPAIR, .from = (int)one, .to = (int)next, .times = 1, .quiet = true};
    tell_message(&f, one, next, m, false);
    flock_run(&f, NULL, 50);
    cr_assert_eq(f.breaks.times, 0, "it has asked");
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    flock_expect_done(&f, 3);
    flock_close(&f);
}

static void say_wrongly(flock *f, uint32_t i) {
    gw_peer_status status = flock_status(f, i);
    if (status.view == NULL || is_at(f, i, "changing the view")) return;
    const gw_view view = *status.view;
    for (int leader = 0; leader < 2; leader++) {
        int from = linked_peer(f, i, leader);
        if (from < 0) continue;
        say_of_another(f, i, (uint32_t)from, &view);
        say_views(f, i, (uint32_t)from, &view);
    }
}

/* It is no epoch, and the next view has one all the same. */
static void name_the_last_number(gw_message_kind kind) {
    flock f;
    flock_open(&f, 3, 3, STEPS, GW_QUORUM_ANY);
    flock_start_all(&f);
    cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
    uint32_t leader = flock_leader(&f), from = (leader + 1) % 3;
    gw_view view = *flock_status(&f, leader).view;
    gw_message m = {.kind = kind, .job = job_of(&f), .epoch = view.epoch, .name = view.name};
    if (kind != GW_MSG_REFUSE && kind != GW_MSG_JOIN) view.epoch = UINT64_MAX;
    gw_view_seal(&view);
    if (kind == GW_MSG_REFUSE) {
        m.refuse.highest_epoch = UINT64_MAX;
        m.refuse.why = GW_REFUSE_OLD;
    } else if (kind == GW_MSG_JOIN) {
        m.epoch = UINT64_MAX;
        m.join.newcomers = &view;
    } else if (kind == GW_MSG_PROPOSE) {
        m.propose.view = &view;
    } else {
        m.view.view = &view;
    }
    tell_message(&f, leader, from, m, false);
    flock_kill(&f, from);
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    flock_expect_done(&f, 2);
    flock_close(&f);
}

Test(peer_late, epochs_do_not_wrap) {
    name_the_last_number(GW_MSG_PROPOSE);
    name_the_last_number(GW_MSG_REFUSE);
    name_the_last_number(GW_MSG_JOIN);
    name_the_last_number(GW_MSG_VIEW);
}

Test(peer_late, messages_about_what_is_not_change_nothing) {
    disturb(GW_QUORUM_ANY, say_wrongly);
    disturb(GW_QUORUM_MAJORITY, say_wrongly);
}

/* Sends messages about the present checkpoint that do not fit it: with too many chunks, with other bits, or
 * from a peer that does not lead. */
static void say_of_checkpoints(flock *f, uint32_t i) {
    static uint32_t chunks[] = {FLOCK_CHUNKS + 7};
    static gw_hash hashes[FLOCK_CHUNKS + 1];
    gw_peer_status status = flock_status(f, i);
    if (status.view == NULL || is_at(f, i, "changing the view")) return;
    const gw_message about = {.job = job_of(f), .epoch = status.view->epoch, .name = status.view->name};
    for (uint64_t back = 0; back < 2; back++) {
        const uint64_t step = status.step - (back <= status.step ? back : 0),
                       fingerprint = flock_state_after(step);
        for (int leader = 0; leader < 2; leader++) {
            int from = linked_peer(f, i, leader);
            if (from < 0) continue;
            gw_message stored = about, manifest = about, complete = about;
            stored.kind = GW_MSG_STORED;
            stored.stored.step = step;
            stored.stored.fingerprint = fingerprint;
            stored.stored.chunks = chunks;
            stored.stored.hashes = hashes;
            stored.stored.count = 1;
            tell_message(f, i, (uint32_t)from, stored, false);
            manifest.kind = GW_MSG_MANIFEST;
            manifest.manifest.step = step;
            manifest.manifest.fingerprint = fingerprint;
            manifest.manifest.hashes = hashes;
            manifest.manifest.count = 1;
            tell_message(f, i, (uint32_t)from, manifest, true);
            manifest.manifest.count = FLOCK_CHUNKS;
            manifest.manifest.fingerprint ^= 1;
            tell_message(f, i, (uint32_t)from, manifest, true);
            complete.kind = GW_MSG_COMPLETE;
            complete.complete.step = step;
            if (!leader) tell_message(f, i, (uint32_t)from, complete, true);
        }
    }
}

Test(peer_late, checkpoints_are_not_what_one_member_says_wrongly) {
    disturb(GW_QUORUM_ANY, say_of_checkpoints);
    disturb(GW_QUORUM_MAJORITY, say_of_checkpoints);
}

/* A member whose manifest has another root than its leader's: the view is changed, and the checkpoint made
 * anew. */
Test(peer_late, another_root_of_a_checkpoint_costs_that_checkpoint) {
    flock f;
    flock_open(&f, 3, 3, 200, GW_QUORUM_ANY);
    f.checkpoint_steps = 3;
    flock_start_all(&f);
    cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
    uint32_t leader = flock_leader(&f), from = (leader + 1) % 3;
    uint64_t views = flock_status(&f, leader).views_installed;
    for (int n = 0; flock_status(&f, leader).views_installed == views; n++) {
        cr_assert_lt(n, 20000);
        gw_peer_status status = flock_status(&f, leader);
        gw_message m = {.kind = GW_MSG_RECORDED, .job = job_of(&f), .recorded.root = {{9}}};
        m.epoch = status.view->epoch;
        m.name = status.view->name;
        m.recorded.step = status.step - (uint64_t)(n % 3);
        if (!is_at(&f, leader, "changing the view")) tell_message(&f, leader, from, m, false);
        cr_assert(!flock_run(&f, NULL, 1));
    }
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    flock_expect_done(&f, 3);
    cr_assert_eq(f.peers[leader].saved_step, 200);
    flock_close(&f);
}

/* ---- members of other lives ---- */

Test(peer_late, who_asks_for_others_lives_is_not_heard) {
    flock f;
    flock_open(&f, 3, 3, STEPS, GW_QUORUM_ANY);
    flock_start_all(&f);
    cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
    uint32_t leader = flock_leader(&f), from = (leader + 1) % 3;
    gw_view offered = {.epoch = 1, .job = job_of(&f), .count = 3, .leader = f.peers[from].config.id};
    for (uint32_t i = 0; i < 3; i++)
        offered.members[i] = (gw_member){.id = f.peers[i].config.id, .boot = 50 + i, .nonce = 1};
    offered.members[leader].id = (gw_peer_id){{77}}; /* nobody knows it */
    gw_view_seal(&offered);
    gw_message m = {.kind = GW_MSG_JOIN,
                    .job = offered.job,
                    .name = {{3}},
                    .join.newcomers = &offered,
                    .join.whole_view = true};
    flock_tell(&f, leader, (gw_event){.kind = GW_EV_TIMER});
    tell_message(&f, leader, from, m, true);
    tell_message(&f, from, leader, m, true); /* to one that does not lead */
    uint64_t views = flock_status(&f, leader).views_installed;
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    flock_expect_done(&f, 3);
    cr_assert_eq(flock_status(&f, leader).views_installed, views);
    flock_close(&f);
}

/* ---- failures, with a reason and without ---- */

static void apply_fails(flock *f) {
    f->peers[1].apply_fails = true;
}

static void effects_fail(flock *f) {
    f->peers[1].effects_fail_at = 9;
}

static void shards_are_given_back(flock *f) {
    f->peers[1].gives_back = 1000;
}

static void device_breaks(flock *f) {
    f->peers[1].breaks_at_shard = 5;
}

static void probe_fails(flock *f) {
    f->peers[1].probe_fails = true;
    f->peers[2].wrongs = 1;
}

static void expect_told(void (*fail)(flock *f), const char *part, const char *without) {
    for (int given = 0; given < 2; given++) {
        flock f;
        flock_open(&f, 3, 3, STEPS, GW_QUORUM_ANY);
        f.verify = GW_VERIFY_WHOLE;
        flock_start_all(&f);
        cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
        f.reason = given ? "the moon is full" : NULL;
        fail(&f);
        cr_assert(flock_run(&f, NULL, MOST_EVENTS));
        cr_assert_eq(f.peers[1].finish, GW_FINISH_FAILED, "%s", f.peers[1].finish_text);
        cr_assert(strstr(f.peers[1].finish_text, part) != NULL, "%s", f.peers[1].finish_text);
        cr_assert(strstr(f.peers[1].finish_text, given ? "the moon is full" : without) != NULL, "%s",
                  f.peers[1].finish_text);
        cr_assert_eq(flock_finished(&f, GW_FINISH_DONE), 2, "%s", f.peers[2].finish_text);
        flock_close(&f);
    }
}

Test(peer_late, who_cannot_go_on_says_why_and_the_others_go_on) {
    expect_told(apply_fails, "could not be applied: ", "no reason given");
    expect_told(effects_fail, "effects cannot take place here: ", "no reason given");
    expect_told(shards_are_given_back, "cannot be computed here: ", "no reason given");
    expect_told(device_breaks, "this peer leaves", "the device has broken down");
    expect_told(probe_fails, "cannot be computed here: ", "no reason given");
}

/* ---- bad elements ---- */

static uint32_t said_of_bad(const gw_bad *bad, bool skip, const char *part) {
    flock f;
    flock_open(&f, 3, 3, 8, GW_QUORUM_ANY);
    for (uint32_t i = 0; i < 3; i++) {
        f.peers[i].config.skip_bad = skip;
        f.peers[i].bad_at = &bad[i];
    }
    f.peers[0].bad_shard = true;
    flock_start_all(&f);
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    uint32_t said = 0;
    for (uint32_t i = 0; i < 3; i++) {
        const flock_peer *p = &f.peers[i];
        cr_assert_eq(p->finish, skip ? GW_FINISH_DONE : GW_FINISH_FAILED, "%s", p->finish_text);
        cr_assert_eq(p->skipped, skip ? 8 : 0);
        said += skip ? flock_said(&f, i, part) : strstr(p->finish_text, part) != NULL;
    }
    flock_close(&f);
    return said;
}

Test(peer_late, of_all_bad_elements_the_first_is_named_and_updates_are_skipped_where_asked) {
    const gw_bad falling[3] = {{true, 9, 1, 4}, {true, 5, 2, 8}, {true, 5, 2, 3}},
                 rising[3] = {{true, 5, 2, 3}, {true, 5, 2, 8}, {true, 5, 3, 0}}, unnamed[3] = {{0}};
    cr_assert_eq(said_of_bad(falling, false, "shard 5, tensor 2, element 3"), 3);
    cr_assert_eq(said_of_bad(rising, false, "shard 5, tensor 2, element 3"), 3);
    cr_assert_eq(said_of_bad(falling, true, "shard 5, tensor 2, element 3: the step's update is skipped"),
                 24);
    cr_assert_eq(
        said_of_bad(unnamed, false, "of the sum of step 0 are not finite or out of range, none of them in a"),
        3);
    cr_assert_eq(said_of_bad(falling, false, "a learning rate that is too high is a frequent cause"), 3);
}

/* ---- sums and accumulators ---- */

Test(peer_late, a_decision_that_was_damaged_on_the_way_is_not_followed) {
    flock f;
    flock_open(&f, 3, 3, STEPS, GW_QUORUM_ANY);
    flock_start_all(&f);
    cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
    f.rows_to_damage = 1;
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    flock_expect_done(&f, 3);
    for (uint32_t i = 0; i < 3; i++)
        cr_assert_eq(flock_said(&f, i, "a member's decisions were damaged on the way"), 1);
    flock_close(&f);
}

Test(peer_late, an_accumulator_with_half_a_shard_counts_for_nothing) {
    flock f;
    flock_open(&f, 4, 4, STEPS, GW_QUORUM_ANY);
    for (uint32_t i = 0; i < 4; i++)
        f.peers[i].seal_ns = 300000000; /* so that shards are held when one dies */
    flock_start_all(&f);
    cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
    uint32_t dies = (flock_leader(&f) + 1) % 4, half = (flock_leader(&f) + 2) % 4;
    f.peers[half].poisoned = true;
    uint32_t computed = f.peers[half].computed;
    flock_kill(&f, dies);
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    flock_expect_done(&f, 3); /* the flock checks that each shard is in each sum once */
    cr_assert(!f.peers[half].poisoned);
    cr_assert_gt(f.peers[half].computed, computed);
    flock_close(&f);
}

/* ---- whatever is said is heard twice ---- */

/* Members die, come back and leave meanwhile, and views heal. */
static void echo(uint64_t echo_ns, gw_quorum quorum) {
    flock f;
    flock_open(&f, 5, 4, 400, quorum);
    f.echo_ns = echo_ns;
    f.checkpoint_steps = 5;
    f.verify = GW_VERIFY_WHOLE / 3;
    for (uint32_t i = 0; i < 5; i++) f.peers[i].seal_ns = 10000000;
    for (uint32_t i = 0; i < 4; i++) flock_start(&f, i);
    cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
    uint32_t leader = flock_leader(&f);
    f.peers[(leader + 1) % 4].wrongs = 1;
    if (quorum == GW_QUORUM_ANY) flock_start(&f, 4);
    cr_assert(!flock_run(&f, NULL, 3000));
    flock_kill(&f, leader);
    cr_assert(!flock_run(&f, NULL, 2000));
    flock_start(&f, leader);
    cr_assert(!flock_run(&f, NULL, 2000));
    uint32_t a = flock_leader(&f), b = (a + 1) % 4;
    flock_cut(&f, a, b, true);
    cr_assert(!flock_run(&f, NULL, 4000));
    flock_mend(&f, a, b);
    cr_assert(flock_run(&f, NULL, 5 * MOST_EVENTS));
    flock_expect_done(&f, 4);
    flock_close(&f);
}

Test(peer_late, what_is_heard_twice_counts_once) {
    static const uint64_t echoes_ns[] = {1, 700000, 30000000, 400000000};
    for (size_t i = 0; i < sizeof echoes_ns / sizeof *echoes_ns; i++) {
        echo(echoes_ns[i], GW_QUORUM_ANY);
        echo(echoes_ns[i], GW_QUORUM_MAJORITY);
    }
}

/* ---- who has the job's end on record, and comes to a flock that has yet to get there ---- */

#define SECONDS UINT64_C(1000000000)

/* Two run, with steps of a minute, in which they admit nobody who asks once their shards are done; the third
 * comes with so many of three chunks of the job's last checkpoint on its disk. */
static void come_with_the_end(flock *f, gw_quorum quorum, gw_inventory *end, uint32_t chunks) {
    const uint32_t founders = quorum == GW_QUORUM_MAJORITY ? 3 : 2;
    flock_open(f, 3, founders, 50, quorum);
    for (uint32_t i = 0; i < founders; i++) flock_start(f, i);
    cr_assert(flock_run(f, flock_at_step_5, MOST_EVENTS));
    flock_kill(f, 2);
    while (!flock_in_view_of(f, 0, 2) || !flock_in_view_of(f, 1, 2)) cr_assert(!flock_run(f, NULL, 1));
    for (uint32_t i = 0; i < 2; i++) f->peers[i].seal_ns = 60 * SECONDS;
    flock_run_for(f, SECONDS);
    *end = (gw_inventory){.step = 50,
                          .root = {{9}},
                          .fingerprint = flock_state_after(50),
                          .ended = true,
                          .chunks = gw_set_of(FLOCK_CHUNKS)};
    for (uint32_t k = 0; k < chunks; k++) gw_set_add(&end->chunks, k);
    f->peers[2].found = end;
    f->peers[2].found_count = 1;
    flock_start(f, 2);
}

/* It waits until it is admitted, and they go on from there. */
Test(peer_late, who_has_the_end_brings_it_to_a_flock_that_runs) {
    const gw_quorum quorums[] = {GW_QUORUM_ANY, GW_QUORUM_MAJORITY};
    for (int i = 0; i < 2; i++) {
        flock f;
        gw_inventory end;
        come_with_the_end(&f, quorums[i], &end, FLOCK_CHUNKS);
        const uint64_t began_ns = f.now;
        cr_assert(flock_run(&f, NULL, MOST_EVENTS));
        cr_expect_lt((f.now - began_ns) / SECONDS, 300, "%s", f.peers[2].finish_text);
        gw_set_free(&end.chunks);
        flock_close(&f);
    }
}

/* The member of two that is not the lowest cannot go on alone, and waits. If the newcomer had ended
 * meanwhile, it would take that for the end of the job. */
Test(peer_late, who_has_the_end_does_not_take_a_member_with_it) {
    flock f;
    gw_inventory end;
    come_with_the_end(&f, GW_QUORUM_MAJORITY, &end, 1);
    flock_run_for(&f, 120 * SECONDS);
    cr_assert_not(f.peers[2].finished, "%s", f.peers[2].finish_text);
    flock_kill(&f, 0);
    const uint64_t until_ns = f.now + 30 * SECONDS;
    while (f.now < until_ns && !f.peers[1].finished) cr_assert(!flock_run(&f, NULL, 1));
    cr_expect_not(f.peers[1].finished, "%s", f.peers[1].finish_text);
    gw_set_free(&end.chunks);
    flock_close(&f);
}
