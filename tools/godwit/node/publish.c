#include "tools/godwit/node/publish.h"

#include "core/base/assert.h"
#include "core/base/log.h"
#include "core/base/utf8.h"
#include "core/os/clock.h"
#include "core/state/chunk.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PUBLISH_NS UINT64_C(250000000)
/* The least time between two snapshots. People do not look more often, and where many peers are known a
 * snapshot takes longer than a short step. */
#define SOON_NS UINT64_C(50000000)
/* The journal tells once in this time how the run goes. */
#define PROGRESS_NS UINT64_C(60000000000)

/* A step is stalled after so many usual durations without a commit: then the means say nothing of now. */
enum { STALLED = 4 };

/* Steps. */

static double mean_with(bool first, double mean, double value) {
    return first ? value : mean * 0.9 + value * 0.1;
}

/* A step that waited for other peers counts as STALLED times the mean at the most: that time was not the
 * step's. */
static void add_to_means(gw_shown_steps *steps, double ms, uint32_t shards) {
    bool first = steps->ms == 0;
    double most = first || ms < STALLED * steps->ms ? ms : STALLED * steps->ms;
    steps->ms = mean_with(first, steps->ms, most);
    steps->shards = mean_with(first, steps->shards, shards);
}

/* A job that counts the tokens that it trains on reports "tokens=N", the number in all steps so far (gpt
 * does). The steps that others made while this peer was away are not in the mean. */
static void add_tokens(gw_shown_steps *steps, uint64_t steps_done) {
    uint64_t now, before = steps->tokens_total;
    bool follows = steps->tokens_step != 0 && steps->tokens_step + 1 == steps_done;
    if (!gw_key_values_count(steps->report, "tokens", &now)) return;
    steps->tokens_total = now;
    steps->tokens_step = steps_done;
    if (!follows || now < before) return;
    steps->tokens = mean_with(steps->tokens == 0, steps->tokens, (double)(now - before));
}

/* Whether the step is the last of several evaluations in a row. Only that one is printed: a job that only
 * evaluates would fill the screen. */
static bool ends_evaluation(const gw_node_job *job, uint64_t step, gw_phase phase) {
    gw_phase next = GW_TRAIN;
    if (phase != GW_EVALUATE) return false;
    if (step + 1 < job->steps) (void)job->options->job->shards(job->instance, step + 1, &next);
    return next != GW_EVALUATE;
}

/* What is known of the step that was applied last: it is shown once it is committed, and before another
 * one is applied. */
static gw_past_step describe(const gw_publisher *p, uint64_t step, const char *report) {
    const gw_node_job *job = p->of.job;
    gw_phase phase;
    uint64_t since = p->steps.committed_ns;
    gw_past_step one = {.step = step + 1,
                        .time = gw_wall_s(),
                        .ms = since != 0 ? (double)(gw_now_ns() - since) / 1e6 : 0, /* the shortest decimal */
                        .shards = job->options->job->shards(job->instance, step, &phase)};
    one.evaluates = phase == GW_EVALUATE;
    one.evaluated = ends_evaluation(job, step, phase);
    snprintf(one.report, sizeof one.report, "%s", report);
    return one;
}

/* The flock's tokens a second over the last steps; 0 = not known. */
static double tokens_per_s(const gw_shown_steps *steps) {
    return steps->ms > 0 ? steps->tokens / steps->ms * 1000.0 : 0;
}

/* Has the energy read if it is time to. */
static void look_at_energy(const gw_publisher *p) {
    gw_energy_meter_look(p->of.energy, p->counter[GW_COUNT_STEPS], gw_workers_done(p->of.engine->workers));
}

enum { GW_ROW_REPORT_BYTES = GW_HISTORY_REPORT_BYTES + 64 };

/* The joules that the job has taken here so far, as of the last read; 0 = not known. */
static double joules_so_far(const gw_publisher *p) {
    gw_energy energy;
    gw_energy_meter_copy(p->of.energy, &energy);
    return gw_energy_joules(&energy);
}

/* The report of the last step for a row of --metrics, with these joules unless they are 0. */
static const char *with_energy(const gw_publisher *p, double joules, char text[GW_ROW_REPORT_BYTES]) {
    snprintf(text, GW_ROW_REPORT_BYTES, "%s", p->steps.report);
    size_t length = strlen(text);
    bool own =
        strncmp(text, "joules=", 7) == 0 || strstr(text, " joules=") != NULL; /* the job has such a report */
    if (joules > 0 && !own)
        snprintf(text + length, GW_ROW_REPORT_BYTES - length, "%sjoules=%.9g", length > 0 ? " " : "", joules);
    return text;
}

/* Shows a committed step. `event` has what this peer has done in it. */
static void show_step(gw_publisher *p, const gw_past_step *one, gw_event_step *event) {
    gw_shown_steps *steps = &p->steps;
    memcpy(steps->report, one->report, sizeof steps->report);
    gw_key_values_keep(steps->latest, steps->report);
    if (one->evaluates && steps->report[0] != '\0') {
        memcpy(steps->evaluation, steps->report, sizeof steps->evaluation);
        steps->evaluation_step = one->step;
    }
    event->step = one->step;
    event->phase = one->evaluates ? "evaluate" : "train";
    event->ms = one->ms;
    event->members = one->members;
    event->shards = one->shards;
    event->fingerprint = one->fingerprint;
    event->evaluated = one->evaluated;
    event->report = steps->report;
    event->joules = event->fetched ? 0 : joules_so_far(p);
    /* A process that has just begun shows people no steps of the time before it. */
    if (!event->fetched || steps->shown > 0) gw_events_step(p->of.console->events, event);
    char report[GW_ROW_REPORT_BYTES];
    gw_metrics_row row = {.step = one->step,
                          .phase = event->phase,
                          .time = one->time,
                          .ms = one->ms,
                          .members = one->members,
                          .shards = one->shards,
                          .tokens_per_s = tokens_per_s(steps),
                          .report = steps->report};
    gw_series_add(p->of.series, &row);
    /* What others tell may be in the file already, whose rows must not go back for it. */
    if (p->of.metrics == NULL || (event->fetched && one->step <= steps->in_file)) return;
    steps->in_file = one->step;
    row.report = with_energy(p, event->joules, report);
    gw_metrics_add(p->of.metrics, &row);
}

/* Notes that all steps up to this one have been shown. */
static void set_shown(gw_publisher *p, uint64_t step) {
    p->steps.shown = step;
    gw_history_set_known(p->of.history, step);
}

/* Shows the steps that led to a state that this peer has taken from others, once that state is committed. */
static void show_fetched(gw_publisher *p, uint64_t committed_step) {
    gw_shown_steps *steps = &p->steps;
    gw_reader reader;
    gw_past_step one;
    if (steps->fetched == NULL || committed_step < steps->fetched_step) return;
    uint8_t *bytes = steps->fetched;
    steps->fetched = NULL;
    uint8_t version;
    bool good = gw_history_read_begin(&reader, bytes, steps->fetched_bytes, &version);
    uint64_t last = gw_history_known(p->of.history);
    while (good && gw_history_read(&reader, version, &one) && one.step <= steps->fetched_step) {
        if (one.step <= last) continue;
        gw_utf8_make_printable(one.report);
        gw_receipts_take(p->of.receipts, one.step, &one.receipt);
        gw_event_step event = {.fetched = true};
        show_step(p, &one, &event);
        gw_history_add(p->of.history, &one);
        last = one.step;
    }
    free(bytes);
    set_shown(p, steps->fetched_step);
}

static void show_corruption(gw_publisher *p, uint64_t step, const gw_peer_id *peer, const char *evidence);

/* Writes the receipt of a committed step, and compares it with one that the step had before. */
static void commit_receipt(gw_publisher *p, gw_past_step *one) {
    gw_receipt before;
    char text[240];
    if (!gw_receipts_commit(p->of.receipts, one->step, &one->receipt, &before) || p->of.options->fast) return;
    bool same_sum = before.sum == one->receipt.sum && before.coverage == one->receipt.coverage;
    snprintf(
        text, sizeof text,
        "the step gave another result than when it was made before: %s differs (godwit audit --step %" PRIu64
        " says which is right)",
        same_sum ? "not its sum, but the state" : "its sum", one->step);
    show_corruption(p, one->step, NULL, text);
    gw_log(GW_ERROR, "receipt", "step %" PRIu64 ": %s", one->step, text);
}

/* A view is installed: until the next step is committed, none of the time was of use. */
static void view_shown(gw_publisher *p) {
    gw_shown_recovery *recovery = &p->recovery;
    if (p->steps.members == 0) return; /* no step was committed before */
    if (recovery->views++ > 0) return;
    recovery->since_ns = p->steps.last_ns;
    recovery->usual_ms = p->steps.ms;
}

static void note_recovery(gw_publisher *p, uint64_t step) {
    gw_shown_recovery *recovery = &p->recovery;
    p->steps.last_ns = gw_now_ns();
    if (recovery->views == 0) return;
    double gap_ms = (double)(p->steps.last_ns - recovery->since_ns) / 1e6;
    gw_events_recovered(p->of.console->events, step, recovery->views, gap_ms, recovery->usual_ms);
    recovery->views = 0;
}

static void step_done(gw_publisher *p, const gw_action *action) {
    gw_shown_steps *steps = &p->steps;
    uint64_t computed = gw_workers_done(p->of.engine->workers);
    show_fetched(p, action->step);
    gw_past_step one = describe(p, action->step, steps->applied);
    one.members = steps->members = action->notice.committed.members;
    one.fingerprint = action->notice.committed.fingerprint;
    commit_receipt(p, &one);
    steps->committed_ns = gw_now_ns();
    note_recovery(p, one.step);
    p->counter[GW_COUNT_STEPS]++;
    p->counter[GW_COUNT_SHARDS] = computed;
    p->counter[GW_COUNT_SHARDS_LOST] = gw_workers_lost(p->of.engine->workers);
    look_at_energy(p);
    gw_event_step event = {.computed = (uint32_t)(computed - steps->computed),
                           .stolen = (uint32_t)steps->stolen};
    show_step(p, &one, &event);
    gw_history_add(p->of.history, &one);
    if (p->of.alarms != NULL) gw_alarms_step(p->of.alarms, one.step, steps->report, gw_wall_s(), gw_now_ns());
    set_shown(p, one.step);
    /* Others may have begun the first step behind a state that was loaded long before this peer had the
     * state. */
    if (steps->fetched_step == 0 || action->step != steps->fetched_step)
        add_to_means(steps, one.ms, one.shards);
    add_tokens(steps, one.step);
    gw_sampler_step(p->of.sampler, one.step);
    steps->computed = computed;
    steps->stolen = 0;
}

void gw_publish_step_begun(gw_publisher *p, const gw_action *action) {
    p->steps.begun = action->step;
    /* The first step begins now: the wait for peers before it is no step's time. */
    if (p->steps.committed_ns == 0) p->steps.committed_ns = gw_now_ns();
}

/* Checkpoints. */

void gw_publish_save(gw_publisher *p, const gw_action *action) {
    gw_shown_checkpoints *shown = &p->checkpoints;
    /* The same step again: the brain repeats a SAVE as hash-only when the disk has failed. */
    bool again = shown->save_count > 0 && shown->saves[0].step == action->step;
    if (!again || shown->save_ns == 0) shown->save_ns = gw_now_ns();
    if (!again) {
        if (shown->save_count < GW_SHOWN_SAVES) shown->save_count++;
        memmove(shown->saves + 1, shown->saves, (shown->save_count - 1) * sizeof shown->saves[0]);
    }
    shown->saves[0] = (gw_shown_save){action->step, action->save.hash_only ? 0 : action->save.count};
}

/* The number of this checkpoint's chunks that are on this peer's disk: as its SAVE said, or, if an earlier
 * life was given that, as was found at the start. Removes the checkpoint from the list. */
static uint32_t take_held(gw_shown_checkpoints *shown, uint64_t step, const gw_hash *root) {
    uint32_t held = 0, others = 0;
    for (uint32_t i = 0; i < shown->count; i++) {
        const gw_snapshot_checkpoint *one = &shown->list[i];
        if (one->step == step && gw_hash_equal(&one->root, root))
            held = one->held;
        else
            shown->list[others++] = *one;
    }
    shown->count = others;
    for (uint32_t i = 0; i < shown->save_count; i++)
        if (shown->saves[i].step == step) return shown->saves[i].chunks;
    return held;
}

/* Notes how old a checkpoint is now, and returns the time. */
static uint64_t note_age(gw_shown_checkpoints *shown, uint64_t step, double age_s) {
    uint64_t now = gw_now_ns();
    if (shown->age_count < GW_SHOWN_AGES) shown->age_count++;
    memmove(shown->ages + 1, shown->ages, (shown->age_count - 1) * sizeof shown->ages[0]);
    shown->ages[0] = (gw_shown_age){step, now, age_s};
    return now;
}

static void checkpoint_done(gw_publisher *p, const gw_action *action) {
    gw_shown_checkpoints *shown = &p->checkpoints;
    const gw_hash *root = &action->notice.checkpoint.root;
    uint32_t held = take_held(shown, action->step, root);
    p->counter[GW_COUNT_CHECKPOINTS]++;
    gw_energy_meter_keep(p->of.energy);
    uint64_t now = note_age(shown, action->step, 0);
    uint32_t kept = shown->count < GW_SNAPSHOT_CHECKPOINTS ? shown->count : GW_SNAPSHOT_CHECKPOINTS - 1;
    memmove(shown->list + 1, shown->list, kept * sizeof shown->list[0]);
    shown->list[0] =
        (gw_snapshot_checkpoint){.step = action->step,
                                 .root = *root,
                                 .complete = true,
                                 .chunks = gw_chunk_count(p->of.engine->device->layout->image_bytes),
                                 .held = held};
    shown->count = kept + 1;
    uint64_t took = shown->save_ns ? now - shown->save_ns : 0;
    shown->save_ns = 0;
    uint64_t written = gw_saver_written(p->of.engine->saver);
    gw_events_checkpoint(p->of.console->events, action->step, root,
                         written - p->counter[GW_COUNT_CHECKPOINT_BYTES], took, joules_so_far(p));
    if (p->of.journal != NULL) gw_journal_sync(p->of.journal);
    gw_series_save(p->of.series);
    gw_receipts_flush(p->of.receipts, true);
    p->counter[GW_COUNT_CHECKPOINT_BYTES] = written;
}

void gw_publish_found(gw_publisher *p, const gw_found *found) {
    gw_shown_checkpoints *shown = &p->checkpoints;
    for (uint32_t i = 0; i < found->count && shown->count < GW_SNAPSHOT_CHECKPOINTS; i++) {
        const gw_inventory *one = &found->list[i];
        shown->list[shown->count++] =
            (gw_snapshot_checkpoint){.step = one->step,
                                     .root = one->root,
                                     .complete = gw_set_count(&one->chunks) == one->chunks.size,
                                     .chunks = one->chunks.size,
                                     .held = gw_set_count(&one->chunks)};
    }
    if (found->count > 0 && strcmp(found->newest.best_by, p->of.job->best.by) == 0)
        shown->best = found->newest.best;
}

void gw_publish_retained(gw_publisher *p, const gw_action *action) {
    gw_shown_checkpoints *shown = &p->checkpoints;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < shown->count; i++) {
        bool stays = false;
        for (uint32_t k = 0; k < action->retain.count; k++)
            stays |= gw_hash_equal(&action->retain.roots[k], &shown->list[i].root);
        if (stays) shown->list[kept++] = shown->list[i];
    }
    shown->count = kept;
}

/* Corruption. */

/* `peer` NULL: it is not known which peer's bits changed. */
static void show_corruption(gw_publisher *p, uint64_t step, const gw_peer_id *peer, const char *evidence) {
    char name[GW_NAMED_TEXT] = "unknown";
    if (peer != NULL) gw_names_of(p->of.console->names, peer, name);
    p->counter[GW_COUNT_CORRUPTIONS]++;
    if (p->of.alarms != NULL) gw_alarms_corrupt(p->of.alarms, step, evidence);
    snprintf(p->corruption, sizeof p->corruption, "at step %llu, peer %s: %s", (unsigned long long)step, name,
             evidence);
    gw_events_corruption(p->of.console->events, step, peer, evidence);
}

void gw_publish_corruption(gw_publisher *p, const gw_peer_id *peer, const char *evidence) {
    gw_peer_status status;
    char name[GW_SHORT_TEXT];
    uint64_t step;
    gw_peer_status_get(p->of.brain, &status);
    if (!gw_progress_loads(p->of.progress, &step)) step = status.committed_step;
    show_corruption(p, step, peer, evidence);
    gw_log(GW_ERROR, "node", "corruption at step %llu: peer %s: %s", (unsigned long long)step,
           gw_peer_id_short(peer, name), evidence);
}

/* Mail and notices. */

/* The step can be told to peers that take the state after it, which they may do before it is committed. */
static void step_applied(gw_publisher *p, const gw_mail *mail, uint32_t members) {
    /* A step whose update was skipped has no report. */
    snprintf(p->steps.applied, sizeof p->steps.applied, "%s", mail->bytes ? (const char *)mail->bytes : "");
    gw_past_step one = describe(p, p->steps.begun, p->steps.applied);
    one.members = members;
    one.fingerprint = mail->event.applied.fingerprint;
    one.receipt = gw_receipts_apply(p->of.receipts, one.step, one.fingerprint);
    gw_history_add(p->of.history, &one);
}

/* The chain of receipts up to the state that came with these steps; 0: they do not tell. */
static uint64_t fetched_chain(const gw_shown_steps *steps) {
    gw_reader reader;
    gw_past_step one;
    uint8_t version;
    uint64_t chain = 0;
    if (steps->fetched == NULL ||
        !gw_history_read_begin(&reader, steps->fetched, steps->fetched_bytes, &version))
        return 0;
    while (gw_history_read(&reader, version, &one))
        if (one.step == steps->fetched_step) chain = one.receipt.chain;
    return chain;
}

static void state_loaded(gw_publisher *p, gw_mail *mail) {
    gw_shown_steps *steps = &p->steps;
    free(steps->fetched);
    steps->fetched = mail->bytes;
    steps->fetched_bytes = mail->bytes_count;
    steps->fetched_step = mail->loaded_step;
    mail->bytes = NULL;
    gw_receipts_load(p->of.receipts, mail->loaded_step,
                     mail->chain != 0 ? mail->chain : fetched_chain(steps));
    steps->committed_ns = gw_now_ns(); /* what was before is no time of the next step */
    /* The steps after a checkpoint are made again. */
    uint64_t known = gw_history_known(p->of.history);
    if (steps->fetched == NULL && known != UINT64_MAX && known > mail->loaded_step)
        gw_history_set_known(p->of.history, mail->loaded_step);
}

static void worker_lost(const gw_publisher *p, const gw_event *event) {
    static const char *const kinds[] = {
        [GW_WORKER_CRASHED] = "crashed", [GW_WORKER_STARVED] = "starved", [GW_WORKER_KILLED] = "killed"};
    gw_events_worker(p->of.console->events, kinds[event->worker_lost.kind], event->worker_lost.step,
                     event->worker_lost.shard, event->text);
}

void gw_publish_mail(gw_publisher *p, gw_mail *mail, uint32_t members) {
    const gw_event *event = &mail->event;
    if (event->kind == GW_EV_WORKER_LOST && event->worker_lost.kind != GW_WORKER_DROPPED)
        worker_lost(p, event);
    if (event->kind == GW_EV_APPLIED && event->outcome == GW_DONE) step_applied(p, mail, members);
    if (event->kind == GW_EV_LOADED && event->outcome == GW_DONE) state_loaded(p, mail);
    if (event->kind == GW_EV_REDUCED) p->counter[GW_COUNT_BAD_ELEMENTS] += event->reduced.bad_count;
    if (event->kind == GW_EV_WORD_SWAPPED && event->word.outcome != GW_WORD_OK)
        p->counter[GW_COUNT_STEALS_FAILED]++;
    p->counter[GW_COUNT_REDUCE_NS] += mail->took_ns;
    p->counter[GW_COUNT_REDUCE_SENT] += mail->sent_bytes;
    p->counter[GW_COUNT_REDUCE_RECEIVED] += mail->received_bytes;
    p->counter[GW_COUNT_REDUCE_SAVED] += mail->saved_bytes;
    if (mail->created_ms == 0) return;
    /* The age is by the clock of the peer that wrote the checkpoint, which may be ahead. */
    double age_s = (double)gw_wall_ns() * 1e-9 - (double)mail->created_ms * 1e-3;
    note_age(&p->checkpoints, mail->loaded_step, age_s > 0 ? age_s : 0);
}

static void publish_again(void *context);

static bool publish_at(gw_publisher *p, uint64_t when_ns) {
    gw_err err;
    bool set = gw_timer_set(p->of.loop, &p->timer, when_ns, publish_again, p, &err);
    if (!set) gw_log(GW_ERROR, "node", "%s", err.text);
    return set;
}

static void note_name(const gw_publisher *p, const gw_peer_contact_info *info) {
    if (info->name != NULL) gw_names_put(p->of.console->names, &info->id, info->name);
}

static const char *evidence_of(const gw_notice *gone) {
    if (gone->kind == GW_NOTICE_PEER_LEFT) return gone->death.gave_up ? "gave-up" : "left";
    return gone->death.replaced ? "restarted" : gone->death.proven ? "refused" : "silent";
}

/* `gone`: the notice that the peer is dead or has left; NULL where it is alive. */
static void show_peer(const gw_publisher *p, const gw_peer_id *id, const char *state, const gw_notice *gone) {
    gw_peer_contact_info info;
    bool known = gw_peer_contact_find(p->of.brain, id, &info);
    gw_event_peer event = {.state = state};
    if (known) {
        note_name(p, &info);
        event.addr = &info.addr;
        event.boot = info.incarnation.boot;
    }
    if (gone != NULL) {
        event.boot = gone->death.life.boot;
        event.evidence = evidence_of(gone);
        event.silent_ns = gone->death.silent_ns;
    }
    gw_events_peer(p->of.console->events, id, &event);
}

void gw_publish_notice(gw_publisher *p, const gw_action *action) {
    gw_events *events = p->of.console->events;
    switch (action->notice.kind) {
    case GW_NOTICE_PHASE:
        gw_events_phase(events, action->notice.text);
        break;
    case GW_NOTICE_PEER_ALIVE:
        show_peer(p, &action->peer, "alive", NULL);
        break;
    case GW_NOTICE_PEER_DEAD:
        show_peer(p, &action->peer, action->notice.death.ended ? "dead" : "unreachable", &action->notice);
        break;
    case GW_NOTICE_PEER_LEFT:
        gw_lives_left(&p->lives, &action->peer, action->notice.death.life.boot);
        show_peer(p, &action->peer, "left", &action->notice);
        break;
    case GW_NOTICE_VIEW:
        p->counter[GW_COUNT_VIEWS]++;
        view_shown(p);
        gw_events_view(events, action->notice.view.installed, &p->of.self->id, action->step,
                       action->notice.text, action->notice.view.duration_ns);
        gw_publish(p);
        break;
    case GW_NOTICE_STEP:
        step_done(p, action);
        /* Steps may be many between two snapshots: the last of them is always shown, a moment later. */
        if (!p->soon) p->soon = publish_at(p, p->published_ns + SOON_NS);
        break;
    case GW_NOTICE_REPAIR:
        gw_events_repair(events, action->step, action->notice.repair.shards, action->notice.text);
        break;
    case GW_NOTICE_STEAL:
        p->counter[GW_COUNT_STEALS]++;
        p->counter[GW_COUNT_SHARDS_STOLEN] += action->notice.steal.shards;
        p->steps.stolen += action->notice.steal.shards;
        gw_events_steal(events, p->steps.begun, &action->peer, action->notice.steal.shards);
        break;
    case GW_NOTICE_JOINED:
        gw_events_joined(events, p->steps.begun, action->notice.joined.newcomers,
                         action->notice.joined.pause_ns);
        break;
    case GW_NOTICE_CHECKPOINT:
        checkpoint_done(p, action);
        break;
    case GW_NOTICE_RESUMING:
        gw_events_resuming(events, action->step, &action->notice.checkpoint.root);
        break;
    case GW_NOTICE_RESUMED:
        gw_events_resumed(events, action->step, &action->notice.checkpoint.root);
        break;
    case GW_NOTICE_CORRUPT:
        show_corruption(p, action->step, gw_peer_id_is_none(&action->peer) ? NULL : &action->peer,
                        action->notice.text);
        break;
    case GW_NOTICE_VERIFIED:
        p->counter[GW_COUNT_SHARDS_VERIFIED] += action->notice.verified.shards;
        break;
    case GW_NOTICE_BAD: /* the text of FINISH has everything about it */
        break;
    case GW_NOTICE_HEALED:
        gw_events_healed(events, action->notice.text);
        break;
    }
}

/* The snapshot. */

static void fill_peers(gw_publisher *p, const gw_peer_status *status, gw_node_snapshot *s) {
    const gw_published *of = &p->of;
    gw_peer_contact_info info;
    bool found = gw_peer_contact_find(of->brain, &of->self->id, &info);
    gw_snapshot_peer self = {.id = of->self->id,
                             /* the one that others are told, where --listen names all addresses */
                             .addr = found && info.addr.family != 0 ? info.addr : of->network->local.listen,
                             .state = "alive",
                             .self = true,
                             .member = s->members > 0,
                             .leader = s->epoch > 0 && gw_peer_id_equal(&s->leader, &of->self->id),
                             .linked = true,
                             .boot = of->self->incarnation.boot,
                             .step = status->committed_step,
                             .speed = found ? (double)info.speed / 1000.0 : 0,
                             .checkpoint_step = found ? info.checkpoint_step : UINT64_MAX};
    snprintf(self.name, sizeof self.name, "%s", s->name);
    gw_snapshot_add(s, &self);
    for (uint32_t i = 0; gw_peer_contact_at(of->brain, i, &info); i++) {
        if (gw_peer_id_equal(&info.id, &of->self->id)) continue;
        gw_snapshot_peer peer = {.id = info.id,
                                 .addr = info.addr,
                                 .member = info.member,
                                 .leader = info.leader,
                                 .linked = info.linked,
                                 .boot = info.incarnation.boot,
                                 .step = info.step,
                                 .speed = (double)info.speed / 1000.0,
                                 .checkpoint_step = info.checkpoint_step};
        note_name(p, &info);
        gw_names_get(of->console->names, &info.id, peer.name);
        snprintf(peer.state, sizeof peer.state, "%s", info.state);
        if (info.gone_ns != 0) peer.gone = s->time - (double)(p->published_ns - info.gone_ns) * 1e-9;
        gw_lives_look(&p->lives, &peer, s->epoch);
        gw_path_kind path = gw_data_links_path(of->network->data_links, &info.id);
        if (path != 0) snprintf(peer.path, sizeof peer.path, "%s", gw_path_kind_name(path));
        gw_snapshot_add(s, &peer);
    }
}

/* The checkpoints that this peer has, or was told of, and whether the peers here have all of them. */
static void fill_checkpoints(const gw_publisher *p, const gw_peer_status *status, gw_node_snapshot *s) {
    const gw_shown_checkpoints *shown = &p->checkpoints;
    const gw_hash unknown = {{0}};
    uint64_t since = p->started_ns;
    s->checkpoint_step = status->whole_step;
    bool listed = s->checkpoint_step == UINT64_MAX || gw_hash_equal(&status->whole_root, &unknown);
    for (uint32_t i = 0; i < shown->count; i++)
        listed |= gw_hash_equal(&shown->list[i].root, &status->whole_root);
    if (!listed) /* this peer came later, and has no part of it */
        s->checkpoints[s->checkpoint_count++] =
            (gw_snapshot_checkpoint){.step = status->whole_step,
                                     .root = status->whole_root,
                                     .complete = true,
                                     .chunks = gw_chunk_count(p->of.engine->device->layout->image_bytes)};
    for (uint32_t i = 0; i < shown->count && s->checkpoint_count < GW_SNAPSHOT_CHECKPOINTS; i++) {
        gw_snapshot_checkpoint one = shown->list[i];
        one.away = gw_peer_checkpoint_is_away(p->of.brain, &one.root);
        one.complete = one.complete && !one.away;
        s->checkpoints[s->checkpoint_count++] = one;
    }
    double age_s = 0;
    for (uint32_t i = shown->age_count; i-- > 0;) {
        if (shown->ages[i].step != s->checkpoint_step) continue;
        since = shown->ages[i].at_ns;
        age_s = shown->ages[i].age_s;
    }
    s->checkpoint_age_s = age_s + (double)(p->published_ns - since) * 1e-9;
}

static int by_id(const void *a, const void *b) {
    return gw_peer_id_compare(&((const gw_snapshot_peer *)a)->id, &((const gw_snapshot_peer *)b)->id);
}

/* How the peer has ended; to begin again in the same process is no end. */
static void fill_end(const gw_publisher *p, gw_node_snapshot *s) {
    const gw_node_result *result = p->of.result;
    s->ended = result->finished;
    if (!s->ended || result->finish == GW_FINISH_REBASE) return;
    snprintf(s->outcome, sizeof s->outcome, "%s", gw_publish_outcome(result->finish));
    if (result->text != NULL) gw_names_mark(p->of.console->names, result->text, s->reason, sizeof s->reason);
}

/* Returns the number of committed steps. */
static uint64_t fill_brain(gw_publisher *p, gw_node_snapshot *s) {
    gw_peer_status status;
    gw_peer_status_get(p->of.brain, &status);
    bool waits_for = status.waits_for[0] != '\0';
    snprintf(s->corruption, sizeof s->corruption, "%s", p->corruption);
    gw_names_mark(p->of.console->names, waits_for ? status.waits_for : status.phase, s->phase,
                  sizeof s->phase);
    bool waits = status.waits || waits_for;
    fill_end(p, s);
    s->ending = status.ends;
    s->healthy = status.view != NULL && !s->ended && !waits;
    if (status.view) {
        s->epoch = status.view->epoch;
        s->view = status.view->name;
        s->leader = status.view->leader;
        s->members = status.view->count;
        gw_names_get(p->of.console->names, &s->leader, s->leader_name);
    }
    s->disk_fails = !status.disk_writable || gw_progress_lookup_hangs(p->of.progress);
    s->disk_free_bytes = p->of.journal != NULL ? gw_journal_room(p->of.journal) : UINT64_MAX;
    s->step = status.committed_step;
    s->fingerprint = status.committed_fingerprint;
    s->best = status.has_state ? status.best : p->checkpoints.best; /* until a state is loaded */
    s->no_state = !status.has_state;
    s->loading_step = status.loading_step;
    fill_checkpoints(p, &status, s);
    s->counter[GW_COUNT_STEPS_REPAIRED] = status.steps_repaired;
    s->counter[GW_COUNT_SHARDS_REPAIRED] = status.shards_repaired;
    s->counter[GW_COUNT_PROBES] = status.gossip.probes;
    s->counter[GW_COUNT_PROBES_FAILED] = status.gossip.probes_failed;
    s->counter[GW_COUNT_SUSPICIONS] = status.gossip.suspicions;
    s->counter[GW_COUNT_REFUTATIONS] = status.gossip.refutations;
    s->counter[GW_COUNT_PAUSES] = status.gossip.gaps;
    s->health = status.gossip.health;
    fill_peers(p, &status, s);
    qsort(s->peers, s->peer_count, sizeof s->peers[0], by_id);
    return status.committed_step;
}

static void fill_network(const gw_publisher *p, gw_node_snapshot *s) {
    const gw_network *network = p->of.network;
    s->listen = network->listen;
    s->http = *p->of.http;
    s->counter[GW_COUNT_CONTROL_SENT] = network->sent_bytes;
    s->counter[GW_COUNT_CONTROL_RECEIVED] = network->received_bytes;
    s->counter[GW_COUNT_LINKS_CORRUPT] = gw_data_links_corrupt(network->data_links);
    gw_transport_counts counts = gw_transport_count(gw_data_links_transport(network->data_links));
    s->counter[GW_COUNT_OPERATIONS_DIRECT] = counts.direct;
    s->counter[GW_COUNT_OPERATIONS_SERVED] = counts.served;
    s->counter[GW_COUNT_PULLED] = counts.pulled_bytes;
    s->counter[GW_COUNT_FETCHED] = atomic_load(&p->of.fetcher->bytes);
    s->counter[GW_COUNT_SERVED] = atomic_load(&p->of.server->bytes);
    memcpy(s->packets, gw_packet_counts(network->packets), sizeof s->packets);
    if (network->local.keyring->count > 0) gw_record_means(s->encryption);
    s->half_open = (uint32_t)gw_listener_half_open(network->listener);
}

static void fill_payload(const gw_publisher *p, gw_node_snapshot *s) {
    if (!p->of.engine->payloads) return;
    gw_payload_counts counts = gw_payloads_count(p->of.engine->payloads);
    s->counter[GW_COUNT_PAYLOAD_LOCAL_BYTES] = counts.local_bytes;
    s->counter[GW_COUNT_PAYLOAD_READ_BYTES] = counts.read_bytes;
    s->counter[GW_COUNT_PAYLOAD_READS_FAILED] = counts.reads_failed;
    s->counter[GW_COUNT_PAYLOAD_WRITTEN] = counts.written;
    s->counter[GW_COUNT_PAYLOAD_WAITED_NS] = counts.waited_ns;
}

static void fill_gpus(const gw_publisher *p, gw_node_snapshot *s) {
    const gw_node_gpu *gpu = p->of.gpu;
    if (gpu->sums) {
        gw_gpu_cuts cut = gw_gpus_cut(gpu->sums);
        s->counter[GW_COUNT_NCCL_SUMS_CUT] = cut.sums;
        s->counter[GW_COUNT_NCCL_FORMING_CUT] = cut.communicators;
    }
    if (gpu->watch) s->gpu_count = gw_gpu_watch_copy(gpu->watch, s->gpus);
    if (p->of.engine->device->gpu_count > 0) {
        static const char *const how[] = {"", [GW_PLACE_HOST] = "host memory", [GW_PLACE_GPU] = "nccl"};
        snprintf(s->sums, sizeof s->sums, "%s", how[atomic_load(&p->of.reduction->place)]);
    }
}

/* Means change when a step commits. While none does for long, the step under way has taken that long already,
 * and there are no more shards a second than if it ended now. */
static void fill_steps(const gw_shown_steps *steps, uint64_t now, gw_node_snapshot *s) {
    snprintf(s->report, sizeof s->report, "%s", steps->report);
    memcpy(s->latest, steps->latest, sizeof s->latest);
    snprintf(s->evaluation, sizeof s->evaluation, "%s", steps->evaluation);
    s->evaluation_step = steps->evaluation_step;
    double under_way_ms = (double)(now - steps->committed_ns) * 1e-6;
    s->step_ms = steps->ms;
    if (s->step_ms == 0) return;
    if (under_way_ms >= STALLED * s->step_ms) s->step_ms = under_way_ms;
    s->shards_a_step = steps->shards;
    s->shards_per_s = steps->shards / s->step_ms * 1000.0;
    s->tokens_per_s = steps->tokens / s->step_ms * 1000.0;
}

void gw_publish(gw_publisher *p) {
    const gw_run_options *options = p->of.options;
    gw_node_snapshot *s = p->snapshot;
    uint64_t now = gw_now_ns();
    look_at_energy(p);
    p->published_ns = now;
    memset(s, 0, sizeof *s);
    s->time = gw_wall_s();
    s->uptime_s = (double)(now - p->started_ns) / 1e9;
    snprintf(s->job, sizeof s->job, "%s", options->job->name);
    s->job_id = p->of.job->id;
    s->continues = p->of.job->origin.wanted && p->of.job->origin.known;
    s->parent = p->of.job->origin.job;
    s->parent_step = p->of.job->origin.step;
    snprintf(s->version, sizeof s->version, "%s", GODWIT_VERSION);
    snprintf(s->dir, sizeof s->dir, "%s", options->dir);
    snprintf(s->cluster, sizeof s->cluster, "%s", options->cluster);
    s->pid = getpid();
    s->self = p->of.self->id;
    gw_names_get(p->of.console->names, &s->self, s->name);
    s->boot = p->of.self->incarnation.boot;
    s->steps = p->of.job->steps == UINT64_MAX ? 0 : p->of.job->steps;
    s->workers = options->workers;
    s->in_flight = gw_workers_in_flight(p->of.engine->workers);
    snprintf(s->device, sizeof s->device, "%s", options->compute.text);
    s->rss_bytes = gw_rss_bytes();
    memcpy(s->counter, p->counter, sizeof s->counter);
    s->counter[GW_COUNT_WARNINGS] = gw_log_warnings();
    snprintf(s->best_by, sizeof s->best_by, "%s", p->of.job->best.by);
    s->patience = p->of.job->best.rule.patience;
    show_fetched(p, fill_brain(p, s));
    fill_steps(&p->steps, now, s);
    fill_network(p, s);
    fill_payload(p, s);
    fill_gpus(p, s);
    gw_energy_meter_copy(p->of.energy, &s->energy);
    s->energy_factors = options->energy_factors;
    if (p->of.alarms != NULL)
        gw_alarms_look(p->of.alarms, s, p->of.journal != NULL ? gw_journal_disk(p->of.journal) : 0, now);
    gw_board_publish(p->of.console->board, s);
    gw_display_update(p->of.console->display, s);
    bool begins_again = p->of.result->finished && p->of.result->finish == GW_FINISH_REBASE;
    gw_supervisor_show(p->of.console->supervisor, s, (s->ending || s->ended) && !begins_again);
}

/* Tells the journal, now and then and at the end, what the snapshot says of the progress. */
static void note_progress(gw_publisher *p, bool at_end) {
    const gw_node_snapshot *s = p->snapshot;
    gw_shown_progress *last = &p->progress;
    if (p->of.journal == NULL || (!at_end && p->published_ns - last->at_ns < PROGRESS_NS)) return;
    bool first = last->at_ns == 0 && !at_end;
    const gw_shown_progress now = {p->published_ns, s->counter[GW_COUNT_STEPS], s->counter[GW_COUNT_SHARDS],
                                   s->counter[GW_COUNT_SHARDS_STOLEN], s->counter[GW_COUNT_SHARDS_LOST]};
    gw_event_progress event = {.step = s->step,
                               .steps = s->steps,
                               .members = s->members,
                               .ms = s->step_ms,
                               .made = now.made - last->made,
                               .computed = now.computed - last->computed,
                               .stolen = now.stolen - last->stolen,
                               .lost = now.lost - last->lost,
                               .rss_bytes = s->rss_bytes,
                               .room_bytes = gw_journal_room(p->of.journal)};
    for (uint32_t i = 0; i < s->peer_count; i++)
        if (s->peers[i].self) event.speed = s->peers[i].speed;
    *last = now;
    if (!first) gw_events_progress(p->of.console->events, &event);
}

static void note_pace(void *context, const gw_pace_peer *peer) {
    const gw_publisher *p = context;
    gw_events_slow(p->of.console->events, &peer->id, peer->slow, peer->speed, peer->usual);
}

/* Looks at the speeds of the members. */
static void look_at_pace(gw_publisher *p) {
    const gw_node_snapshot *s = p->snapshot;
    gw_pace_speed speeds[GW_MAX_MEMBERS];
    uint32_t count = 0;
    if (!gw_pace_is_due(&p->upsets.pace, p->published_ns)) return;
    for (uint32_t i = 0; i < s->peer_count && count < GW_MAX_MEMBERS; i++)
        if (s->peers[i].member)
            speeds[count++] = (gw_pace_speed){.id = s->peers[i].id, .speed = s->peers[i].speed};
    gw_pace_look(&p->upsets.pace, p->published_ns, speeds, count, note_pace, p);
}

/* Tells what disturbs this peer, and which peers are slow. */
static void note_upsets(gw_publisher *p) {
    gw_shown_upsets *upsets = &p->upsets;
    gw_pulse_news news;
    gw_pulse_look(&upsets->pulse, gw_now_ns(), gw_wall_ns(), PUBLISH_NS, &news);
    if (news.pause_ns != 0) gw_events_pause(p->of.console->events, news.pause_ns, news.over_ns);
    if (news.jump_ns != 0) gw_events_clock(p->of.console->events, news.jump_ns);
    if (p->snapshot->disk_fails != (upsets->disk_fails_ns != 0)) {
        uint64_t since_ns = upsets->disk_fails_ns;
        upsets->disk_fails_ns = since_ns == 0 ? p->published_ns : 0;
        gw_events_disk(p->of.console->events, since_ns == 0, since_ns == 0 ? 0 : p->published_ns - since_ns);
    }
    gw_losses_news lost;
    if (gw_losses_look(&upsets->losses, p->published_ns, p->snapshot->counter[GW_COUNT_PROBES],
                       p->snapshot->counter[GW_COUNT_PROBES_FAILED], &lost))
        gw_events_probes(p->of.console->events, lost.probes, lost.failed, lost.over_ns);
    look_at_pace(p);
}

static void publish_again(void *context) {
    gw_publisher *p = context;
    p->soon = false;
    gw_publish(p);
    note_progress(p, false);
    note_upsets(p);
    (void)publish_at(p, p->published_ns + PUBLISH_NS); /* if that fails, the next step sets the timer */
}

/* The beginning and the end. */

enum { LENGTH_TEXT = 240 };

/* The length of a job in words: its own, or for one that does not describe it "1000 steps; 120 shards in the
 * first", and where --steps ends it before. */
static void write_length(const gw_node_job *job, char text[LENGTH_TEXT]) {
    gw_phase phase;
    uint64_t first = job->params.origin != NULL ? job->origin.step : 0;
    uint32_t shards = job->options->job->shards(job->instance, first, &phase);
    char steps[40] = "steps without an end", end[80] = "";
    if (job->steps != UINT64_MAX)
        snprintf(steps, sizeof steps, "%" PRIu64 " step%s", job->steps, job->steps == 1 ? "" : "s");
    if (job->plan.steps > job->steps)
        snprintf(end, sizeof end, "; --steps ends it after step %" PRIu64 " of %" PRIu64, job->steps,
                 job->plan.steps);
    if (job->plan.length_text[0] != '\0')
        snprintf(text, LENGTH_TEXT, "%s%s", job->plan.length_text, end);
    else
        snprintf(text, LENGTH_TEXT, "%s; %" PRIu32 " shard%s in the first%s", steps, shards,
                 shards == 1 ? "" : "s", end);
}

static gw_event_start start_of(const gw_publisher *p, const gw_memory_plan *memory,
                               char length[LENGTH_TEXT]) {
    const gw_published *of = &p->of;
    const gw_plan *plan = &of->job->plan;
    write_length(of->job, length);
    return (gw_event_start){.job = of->options->job->name,
                            .params = &of->job->params,
                            .job_id = of->job->id,
                            .identity = of->job->identity,
                            .self = of->self->id,
                            .boot = of->self->incarnation.boot,
                            .steps = of->job->steps == UINT64_MAX ? 0 : of->job->steps,
                            .workers = of->options->workers,
                            .device = of->options->compute.text,
                            .memory_bytes = memory->bytes,
                            .memory = memory->text,
                            .data = plan->data_text,
                            .model = plan->model_text,
                            .length = length,
                            .best_by = of->job->best.by,
                            .patience = of->job->best.rule.patience,
                            .compute_class = of->engine->device->class_text};
}

void gw_publish_opening(const gw_publisher *p, const gw_memory_plan *memory) {
    char length[LENGTH_TEXT];
    const gw_event_start start = start_of(p, memory, length);
    gw_names_put(p->of.console->names, &p->of.self->id, p->of.options->name);
    gw_events_opening(p->of.console->events, &start);
}

void gw_publish_start(gw_publisher *p, const gw_memory_plan *memory) {
    char length[LENGTH_TEXT];
    const gw_event_start start = start_of(p, memory, length);
    p->snapshot = calloc(1, sizeof *p->snapshot);
    GW_ASSERT_MEMORY(p->snapshot != NULL);
    p->started_ns = gw_now_ns();
    gw_events_start(p->of.console->events, &start);
    const gw_node_origin *origin = &p->of.job->origin;
    if (origin->wanted)
        gw_events_continue(p->of.console->events, origin->known ? &origin->job : NULL, origin->step,
                           &origin->root);
}

/* The step up to which the series, the receipts and the file of --metrics have all that they can have. */
static uint64_t known_at_start(gw_publisher *p) {
    gw_series_about about;
    gw_series_list(p->of.series, &about);
    uint64_t known = gw_receipts_last(p->of.receipts);
    if (about.last < known) known = about.last;
    if (p->of.metrics == NULL) return known;
    p->steps.in_file = gw_metrics_last(p->of.metrics);
    return known < p->steps.in_file ? known : p->steps.in_file;
}

void gw_publish_loop(gw_publisher *p) {
    gw_history_set_known(p->of.history, known_at_start(p));
    publish_again(p);
}

const char *gw_publish_outcome(gw_finish finish) {
    switch (finish) {
    case GW_FINISH_DONE:
        return "done";
    case GW_FINISH_STOPPED:
        return "stopped";
    case GW_FINISH_UNSAVED:
        return "unsaved";
    case GW_FINISH_LEFT:
        return "left";
    case GW_FINISH_FAILED:
        return "failed";
    case GW_FINISH_DENIED:
        return "denied";
    case GW_FINISH_REBASE:
        return "begins again";
    }
    return "failed";
}

/* The job had ended before this start: tells by what, and how it can go on. */
static void tell_end_before(const gw_publisher *p, const gw_peer_status *status) {
    const gw_node_job *job = p->of.job;
    char more[120] = "With a greater total";
    if (job->best.rule.patience > 0 && status->committed_step < job->steps)
        snprintf(more, sizeof more,
                 "--patience %u has ended it, as no evaluation was better. With a greater one",
                 job->best.rule.patience);
    gw_log(GW_INFO, "node",
           "the job had come to its end before, at step %" PRIu64
           ": nothing was left to compute. %s, --continue goes on from there",
           status->committed_step, more);
}

void gw_publish_end(gw_publisher *p, uint32_t members) {
    const gw_engine *engine = p->of.engine;
    const gw_node_result *result = p->of.result;
    const gw_hash none = {{0}};
    gw_peer_status status;
    gw_peer_status_get(p->of.brain, &status);
    if (p->published_ns != 0) note_progress(p, true);
    char summary[256] = "";
    bool whole = result->finish == GW_FINISH_DONE || result->finish == GW_FINISH_STOPPED ||
                 result->finish == GW_FINISH_UNSAVED;
    if (whole && engine->state.valid)
        engine->device->ops->summary(engine->device, status.committed_step, summary, sizeof summary);
    if (result->finish == GW_FINISH_DONE && p->counter[GW_COUNT_STEPS] == 0) tell_end_before(p, &status);
    gw_energy energy;
    gw_energy_meter_finish(p->of.energy, p->counter[GW_COUNT_STEPS], gw_workers_done(engine->workers),
                           &energy);
    gw_event_done done = {.outcome = gw_publish_outcome(result->finish),
                          .job = p->of.options->job->name,
                          .text = result->text,
                          .steps = status.committed_step,
                          .has_state = !gw_hash_equal(&result->root, &none),
                          .state = result->root,
                          .saved_step = status.checkpoint_step != UINT64_MAX ? status.checkpoint_step
                                                                             : status.whole_step,
                          .summary = summary,
                          .peers = p->steps.members ? p->steps.members : members,
                          .repaired = status.shards_repaired,
                          .stolen = status.shards_stolen,
                          .has_payload = engine->payloads != NULL,
                          .rss_bytes = gw_rss_bytes(),
                          .energy = energy,
                          .seconds = (double)(gw_now_ns() - p->started_ns) * 1e-9};
    if (engine->payloads) {
        gw_payload_counts counts = gw_payloads_count(engine->payloads);
        done.payload_local = counts.local_bytes;
        done.payload_read = counts.read_bytes;
        done.payload_failed = counts.reads_failed;
    }
    bool good = result->finish == GW_FINISH_DONE;
    if (p->of.alarms != NULL) /* before the last line of the run, which stays the last */
        gw_alarms_end(p->of.alarms, done.outcome, status.committed_step, good ? summary : result->text);
    gw_events_done(p->of.console->events, &done);
}
