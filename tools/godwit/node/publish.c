/* What people see: the brain's notices become events, and what is known becomes a snapshot. */
#include "core/base/assert.h"
#include "core/base/log.h"
#include "core/os/clock.h"
#include "core/state/chunk.h"
#include "tools/godwit/node/inside.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PUBLISH_NS UINT64_C(250000000)
/* Nobody looks more often, and where many peers are known a snapshot takes longer than a short step. */
#define SOON_NS UINT64_C(50000000)

enum { STALLED = 4 }; /* usual steps without one: the means say nothing of now */

/* ---- notices ---- */

static double mean_with(bool first, double mean, double value) {
    return first ? value : mean * 0.9 + value * 0.1;
}

/* The time that it took to wait for others is no step's: it counts as a long one. */
static void add_to_means(gw_shown *shown, double ms, uint32_t shards) {
    bool first = shown->step_ms == 0;
    double most = first || ms < STALLED * shown->step_ms ? ms : STALLED * shown->step_ms;
    shown->step_ms = mean_with(first, shown->step_ms, most);
    shown->step_shards = mean_with(first, shown->step_shards, shards);
}

/* A job that counts what it trains on reports "tokens=N", of all steps so far (gpt does). What others did
 * while this peer was not there is no step's. */
static void add_tokens(gw_shown *shown, uint64_t steps_done) {
    uint64_t now, before = shown->tokens;
    bool follows = shown->tokens_step != 0 && shown->tokens_step + 1 == steps_done;
    if (!gw_key_values_count(shown->report, "tokens", &now)) return;
    shown->tokens = now;
    shown->tokens_step = steps_done;
    if (!follows || now < before) return;
    shown->step_tokens = mean_with(shown->step_tokens == 0, shown->step_tokens, (double)(now - before));
}

/* Whether the step is the last of several evaluations in a row: a job that only evaluates would fill the
 * screen. */
static bool ends_evaluation(const gw_node *node, uint64_t step, gw_phase phase) {
    gw_phase next = GW_TRAIN;
    if (phase != GW_EVALUATE) return false;
    if (step + 1 < node->steps) (void)node->options->job->shards(node->job, step + 1, &next);
    return next != GW_EVALUATE;
}

/* A step later another report stands in the place of this one. */
static void keep_report(gw_shown *shown, uint64_t steps_done, gw_phase phase) {
    gw_key_values_keep(shown->latest, shown->report);
    if (phase != GW_EVALUATE || shown->report[0] == '\0') return;
    memcpy(shown->evaluation, shown->report, sizeof shown->evaluation);
    shown->evaluation_step = steps_done;
}

static void step_done(gw_node *node, const gw_action *action) {
    gw_shown *shown = &node->shown;
    uint64_t now = gw_now_ns();
    uint64_t took = shown->step_ns ? now - shown->step_ns : 0;
    uint64_t computed = gw_workers_done(node->workers);
    gw_phase phase;
    uint32_t shards = node->options->job->shards(node->job, action->step, &phase);
    shown->step_ns = now;
    shown->members = action->notice.committed.members;
    memcpy(shown->report, shown->applied,
           sizeof shown->report); /* no other step is applied before this one is shown */
    keep_report(shown, action->step + 1, phase);
    shown->counter[GW_COUNT_STEPS]++;
    shown->counter[GW_COUNT_SHARDS] = computed;
    shown->counter[GW_COUNT_SHARDS_LOST] = gw_workers_lost(node->workers);
    double ms = (double)took * 1e-6;
    add_to_means(shown, ms, shards);
    add_tokens(shown, action->step + 1);
    gw_event_step event = {.step = action->step + 1,
                           .duration_ns = took,
                           .members = action->notice.committed.members,
                           .shards = shards,
                           .computed = (uint32_t)(computed - shown->computed),
                           .stolen = (uint32_t)shown->step_stolen,
                           .fingerprint = action->notice.committed.fingerprint,
                           .evaluated = ends_evaluation(node, action->step, phase),
                           .report = shown->report};
    gw_events_step(node->console->events, &event);
    gw_metrics_row row = {.step = event.step,
                          .phase = phase == GW_EVALUATE ? "evaluate" : "train",
                          .time = (double)gw_wall_ns() * 1e-9,
                          .ms = ms,
                          .members = event.members,
                          .shards = shards,
                          .report = shown->report};
    gw_metrics_add(node->metrics, &row);
    shown->computed = computed;
    shown->step_stolen = 0;
}

void gw_node_show_save(gw_node *node, const gw_action *action) {
    gw_shown *shown = &node->shown;
    bool again = shown->save_count > 0 && shown->saves[0].step == action->step; /* its disk has failed */
    if (!again || shown->save_ns == 0) shown->save_ns = gw_now_ns();
    if (!again) {
        if (shown->save_count < GW_SHOWN_SAVES) shown->save_count++;
        memmove(shown->saves + 1, shown->saves, (shown->save_count - 1) * sizeof shown->saves[0]);
    }
    shown->saves[0] = (gw_shown_save){action->step, action->save.hash_only ? 0 : action->save.count};
}

/* How many chunks of this checkpoint are here: by the SAVE of it, or, when an earlier life was given that, as
 * was found at the start. What was shown of it until now is taken off the list. */
static uint32_t take_held(gw_shown *shown, uint64_t step, const gw_hash *root) {
    uint32_t held = 0, others = 0;
    for (uint32_t i = 0; i < shown->checkpoint_count; i++) {
        const gw_snapshot_checkpoint *one = &shown->checkpoints[i];
        if (one->step == step && gw_hash_equal(&one->root, root))
            held = one->held;
        else
            shown->checkpoints[others++] = *one;
    }
    shown->checkpoint_count = others;
    for (uint32_t i = 0; i < shown->save_count; i++)
        if (shown->saves[i].step == step) return shown->saves[i].chunks;
    return held;
}

static void checkpoint_done(gw_node *node, const gw_action *action) {
    gw_shown *shown = &node->shown;
    uint32_t held = take_held(shown, action->step, &action->notice.checkpoint.root);
    shown->counter[GW_COUNT_CHECKPOINTS]++;
    shown->checkpoint_ns = gw_now_ns();
    shown->checkpoint_s = 0;
    uint32_t kept = shown->checkpoint_count < GW_SNAPSHOT_CHECKPOINTS ? shown->checkpoint_count
                                                                      : GW_SNAPSHOT_CHECKPOINTS - 1;
    memmove(shown->checkpoints + 1, shown->checkpoints, kept * sizeof shown->checkpoints[0]);
    shown->checkpoints[0] =
        (gw_snapshot_checkpoint){.step = action->step,
                                 .root = action->notice.checkpoint.root,
                                 .complete = true,
                                 .chunks = gw_chunk_count(node->device->layout->image_bytes),
                                 .held = held};
    shown->checkpoint_count = kept + 1;
    uint64_t took = shown->save_ns ? shown->checkpoint_ns - shown->save_ns : 0;
    shown->save_ns = 0;
    uint64_t written = gw_saver_written(node->saver);
    gw_events_checkpoint(node->console->events, action->step, &action->notice.checkpoint.root,
                         written - shown->counter[GW_COUNT_CHECKPOINT_BYTES], took);
    shown->counter[GW_COUNT_CHECKPOINT_BYTES] = written;
}

void gw_node_show_inventory(gw_node *node, const gw_inventory *list, uint32_t count) {
    gw_shown *shown = &node->shown;
    for (uint32_t i = 0; i < count && shown->checkpoint_count < GW_SNAPSHOT_CHECKPOINTS; i++)
        shown->checkpoints[shown->checkpoint_count++] =
            (gw_snapshot_checkpoint){.step = list[i].step,
                                     .root = list[i].root,
                                     .complete = gw_set_count(&list[i].chunks) == list[i].chunks.size,
                                     .chunks = list[i].chunks.size,
                                     .held = gw_set_count(&list[i].chunks)};
}

/* By the clock of whoever wrote it, which may be ahead. */
void gw_node_show_loaded(gw_node *node, uint64_t created_ms) {
    double age_s = (double)gw_wall_ns() * 1e-9 - (double)created_ms * 1e-3;
    node->shown.checkpoint_ns = gw_now_ns();
    node->shown.checkpoint_s = age_s > 0 ? age_s : 0;
}

void gw_node_show_retained(gw_node *node, const gw_hash *roots, uint32_t count) {
    gw_shown *shown = &node->shown;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < shown->checkpoint_count; i++) {
        bool stays = false;
        for (uint32_t k = 0; k < count; k++) stays |= gw_hash_equal(&roots[k], &shown->checkpoints[i].root);
        if (stays) shown->checkpoints[kept++] = shown->checkpoints[i];
    }
    shown->checkpoint_count = kept;
}

/* A peer's state has changed. */
static void show_peer(gw_node *node, const gw_peer_id *id, const char *state) {
    gw_peer_contact_info info;
    bool known = gw_peer_contact_find(node->peer, id, &info) && info.addr.family != 0;
    gw_events_peer(node->console->events, id, known ? &info.addr : NULL, state, NULL);
}

static void stole(gw_node *node, const gw_action *action) {
    node->shown.counter[GW_COUNT_STEALS]++;
    node->shown.counter[GW_COUNT_SHARDS_STOLEN] += action->notice.steal.shards;
    node->shown.step_stolen += action->notice.steal.shards;
    gw_events_steal(node->console->events, node->step, &action->peer, action->notice.steal.shards);
}

/* `peer` NULL: nobody knows whose bits they are. */
static void corrupted(gw_node *node, uint64_t step, const gw_peer_id *peer, const char *evidence) {
    gw_shown *shown = &node->shown;
    char name[GW_SHORT_TEXT] = "unknown";
    if (peer != NULL) gw_peer_id_short(peer, name);
    shown->counter[GW_COUNT_CORRUPTIONS]++;
    snprintf(shown->corruption, sizeof shown->corruption, "at step %llu, peer %s: %s",
             (unsigned long long)step, name, evidence);
    gw_events_corruption(node->console->events, step, peer, evidence);
}

void gw_node_corrupted(gw_node *node, const gw_peer_id *peer, const char *evidence) {
    gw_peer_status status;
    char name[GW_SHORT_TEXT];
    gw_peer_status_get(node->peer, &status);
    uint64_t step =
        node->work.awaited[GW_WAIT_LOAD].token != 0 ? node->work.load_step : status.committed_step;
    corrupted(node, step, peer, evidence);
    gw_log(GW_ERROR, "node", "corruption at step %llu: peer %s: %s", (unsigned long long)step,
           gw_peer_id_short(peer, name), evidence);
}

static void publish_again(void *node);

static bool publish_at(gw_node *node, uint64_t when_ns) {
    gw_err err;
    bool set = gw_timer_set(node->loop, &node->shown.timer, when_ns, publish_again, node, &err);
    if (!set) gw_log(GW_ERROR, "node", "%s", err.text);
    return set;
}

/* Steps may be many between two snapshots: the last of them is always shown, a moment later. */
static void publish_soon(gw_node *node) {
    gw_shown *shown = &node->shown;
    if (!shown->soon) shown->soon = publish_at(node, shown->published_ns + SOON_NS);
}

void gw_node_notice(gw_node *node, const gw_action *action) {
    gw_events *events = node->console->events;
    gw_shown *shown = &node->shown;
    switch (action->notice.kind) {
    case GW_NOTICE_PHASE:
        snprintf(shown->phase, sizeof shown->phase, "%s", action->notice.text);
        gw_events_phase(events, action->notice.text);
        break;
    case GW_NOTICE_PEER_ALIVE:
        show_peer(node, &action->peer, "alive");
        gw_node_remember(node, &node->view); /* a link may stand before gossip tells the address */
        break;
    case GW_NOTICE_PEER_DEAD:
        show_peer(node, &action->peer, "dead");
        break;
    case GW_NOTICE_PEER_LEFT:
        show_peer(node, &action->peer, "left");
        break;
    case GW_NOTICE_VIEW:
        shown->counter[GW_COUNT_VIEWS]++;
        shown->phase[0] = '\0';
        gw_events_view(events, action->notice.view.installed, &node->self.id, action->step,
                       action->notice.text, action->notice.view.duration_ns);
        break;
    case GW_NOTICE_STEP:
        step_done(node, action);
        break;
    case GW_NOTICE_REPAIR:
        gw_events_repair(events, action->step, action->notice.repair.shards, action->notice.text);
        break;
    case GW_NOTICE_STEAL:
        stole(node, action);
        break;
    case GW_NOTICE_JOINED:
        gw_events_joined(events, node->step, action->notice.joined.newcomers, action->notice.joined.pause_ns);
        break;
    case GW_NOTICE_CHECKPOINT:
        checkpoint_done(node, action);
        break;
    case GW_NOTICE_RESUMING:
        gw_events_resuming(events, action->step, &action->notice.checkpoint.root);
        break;
    case GW_NOTICE_RESUMED:
        gw_events_resumed(events, action->step, &action->notice.checkpoint.root);
        break;
    case GW_NOTICE_CORRUPT:
        corrupted(node, action->step, gw_peer_id_is_none(&action->peer) ? NULL : &action->peer,
                  action->notice.text);
        break;
    case GW_NOTICE_VERIFIED:
        shown->counter[GW_COUNT_SHARDS_VERIFIED] += action->notice.verified.shards;
        break;
    case GW_NOTICE_BAD: /* the text of FINISH says it all */
        break;
    case GW_NOTICE_HEALED:
        gw_events_healed(events, action->notice.text);
        break;
    }
    if (action->notice.kind == GW_NOTICE_STEP) publish_soon(node);
    if (action->notice.kind == GW_NOTICE_VIEW) gw_node_publish(node);
}

/* ---- the snapshot ---- */

/* In shards a second, as the others are told it. */
static double own_speed(const gw_node *node) {
    gw_peer_contact_info info;
    return gw_peer_contact_find(node->peer, &node->self.id, &info) ? (double)info.speed / 1000.0 : 0;
}

static void fill_self(const gw_node *node, const gw_peer_status *status, gw_node_snapshot *s) {
    gw_snapshot_peer peer = {.id = node->self.id,
                             .addr = node->local.listen,
                             .state = "alive",
                             .self = true,
                             .member = s->members > 0,
                             .leader = s->epoch > 0 && gw_peer_id_equal(&s->leader, &node->self.id),
                             .linked = true,
                             .boot = node->self.incarnation.boot,
                             .step = status->committed_step,
                             .speed = own_speed(node),
                             .checkpoint_step = status->checkpoint_step};
    gw_snapshot_add(s, &peer);
}

static void fill_peers(const gw_node *node, gw_node_snapshot *s) {
    gw_peer_contact_info info;
    for (uint32_t i = 0; gw_peer_contact_at(node->peer, i, &info); i++) {
        if (gw_peer_id_equal(&info.id, &node->self.id)) continue;
        gw_snapshot_peer peer = {.id = info.id,
                                 .addr = info.addr,
                                 .member = info.member,
                                 .leader = info.leader,
                                 .linked = info.linked,
                                 .boot = info.incarnation.boot,
                                 .step = info.step,
                                 .speed = (double)info.speed / 1000.0,
                                 .checkpoint_step = info.checkpoint_step};
        snprintf(peer.state, sizeof peer.state, "%s", info.state);
        gw_path_kind path = gw_wires_path(node->wires, &info.id);
        if (path != 0) snprintf(peer.path, sizeof peer.path, "%s", gw_path_kind_name(path));
        gw_snapshot_add(s, &peer);
    }
}

static int by_id(const void *a, const void *b) {
    return gw_peer_id_compare(&((const gw_snapshot_peer *)a)->id, &((const gw_snapshot_peer *)b)->id);
}

static void fill_brain(const gw_node *node, gw_node_snapshot *s) {
    gw_peer_status status;
    gw_peer_status_get(node->peer, &status);
    snprintf(s->corruption, sizeof s->corruption, "%s", node->shown.corruption);
    snprintf(s->phase, sizeof s->phase, "%s", node->shown.phase[0] ? node->shown.phase : status.phase);
    bool waits = status.waits || node->shown.phase[0] != '\0';
    s->ended = node->finished;
    s->healthy = status.view != NULL && !node->finished && !waits;
    if (status.view) {
        s->epoch = status.view->epoch;
        s->view = status.view->name;
        s->leader = status.view->leader;
        s->members = status.view->count;
    }
    s->disk_fails = !status.disk_writable || gw_node_lookup_hangs(node);
    s->step = status.committed_step;
    s->fingerprint = status.committed_fingerprint;
    s->checkpoint_step = status.checkpoint_step;
    s->counter[GW_COUNT_STEPS_REPAIRED] = status.steps_repaired;
    s->counter[GW_COUNT_SHARDS_REPAIRED] = status.shards_repaired;
    s->counter[GW_COUNT_PROBES] = status.gossip.probes;
    s->counter[GW_COUNT_PROBES_FAILED] = status.gossip.probes_failed;
    s->counter[GW_COUNT_SUSPICIONS] = status.gossip.suspicions;
    s->counter[GW_COUNT_REFUTATIONS] = status.gossip.refutations;
    s->counter[GW_COUNT_PAUSES] = status.gossip.gaps;
    s->health = status.gossip.health;
    fill_self(node, &status, s);
    fill_peers(node, s);
    qsort(s->peers, s->peer_count, sizeof s->peers[0], by_id);
}

static void fill_payload(const gw_node *node, gw_node_snapshot *s) {
    if (!node->payloads) return;
    gw_payload_counts counts = gw_payloads_count(node->payloads);
    s->counter[GW_COUNT_PAYLOAD_LOCAL_BYTES] = counts.local_bytes;
    s->counter[GW_COUNT_PAYLOAD_READ_BYTES] = counts.read_bytes;
    s->counter[GW_COUNT_PAYLOAD_READS_FAILED] = counts.reads_failed;
    s->counter[GW_COUNT_PAYLOAD_WRITTEN] = counts.written;
    s->counter[GW_COUNT_PAYLOAD_WAITED_MS] = counts.waited_ns / 1000000;
}

/* Means change when a step commits. While none does for long, the step under way has taken that long already,
 * and there are no more shards a second than if it ended now. */
static void fill_speed(const gw_shown *shown, uint64_t now, gw_node_snapshot *s) {
    double under_way_ms = (double)(now - shown->step_ns) * 1e-6;
    s->step_ms = shown->step_ms;
    if (s->step_ms == 0) return;
    if (under_way_ms >= STALLED * s->step_ms) s->step_ms = under_way_ms;
    s->shards_per_s = shown->step_shards / s->step_ms * 1000.0;
    s->tokens_per_s = shown->step_tokens / s->step_ms * 1000.0;
}

void gw_node_publish(gw_node *node) {
    gw_shown *shown = &node->shown;
    gw_node_snapshot *s = shown->snapshot;
    uint64_t now = gw_now_ns();
    shown->published_ns = now;
    memset(s, 0, sizeof *s);
    s->time = (double)gw_wall_ns() * 1e-9;
    s->uptime_s = (double)(now - shown->started_ns) * 1e-9;
    snprintf(s->job, sizeof s->job, "%s", node->options->job->name);
    s->job_id = node->job_id;
    snprintf(s->version, sizeof s->version, "%s", GODWIT_VERSION);
    snprintf(s->dir, sizeof s->dir, "%s", node->options->dir);
    snprintf(s->cluster, sizeof s->cluster, "%s", node->options->cluster);
    s->pid = getpid();
    s->self = node->self.id;
    s->boot = node->self.incarnation.boot;
    s->listen = node->listen;
    s->steps = node->steps == UINT64_MAX ? 0 : node->steps;
    fill_speed(shown, now, s);
    s->workers = node->options->workers;
    snprintf(s->report, sizeof s->report, "%s", shown->report);
    memcpy(s->latest, shown->latest, sizeof s->latest);
    snprintf(s->evaluation, sizeof s->evaluation, "%s", shown->evaluation);
    s->evaluation_step = shown->evaluation_step;
    s->rss_bytes = gw_rss_bytes();
    s->checkpoint_age_s = shown->checkpoint_s + (double)(now - shown->checkpoint_ns) * 1e-9;
    memcpy(s->counter, shown->counter, sizeof s->counter);
    s->counter[GW_COUNT_WARNINGS] = gw_log_warnings();
    s->counter[GW_COUNT_LINKS_CORRUPT] = gw_wires_corrupt(node->wires);
    gw_transport_counts counts = gw_transport_count(gw_wires_transport(node->wires));
    s->counter[GW_COUNT_OPERATIONS_DIRECT] = counts.direct;
    s->counter[GW_COUNT_OPERATIONS_SERVED] = counts.served;
    s->counter[GW_COUNT_PULLED] = counts.pulled_bytes;
    s->counter[GW_COUNT_FETCHED] = atomic_load(&node->fetcher.bytes);
    s->counter[GW_COUNT_SERVED] = atomic_load(&node->server.bytes);
    memcpy(s->packets, gw_packet_counts(node->packets), sizeof s->packets);
    s->half_open = (uint32_t)gw_listener_half_open(node->listener);
    fill_payload(node, s);
    if (node->gpus) {
        gw_gpu_cuts cut = gw_gpus_cut(node->gpus);
        s->counter[GW_COUNT_NCCL_SUMS_CUT] = cut.sums;
        s->counter[GW_COUNT_NCCL_FORMING_CUT] = cut.communicators;
    }
    if (node->gpu_watch) s->gpu_count = gw_gpu_watch_copy(node->gpu_watch, s->gpus);
    if (node->device->gpu_count > 0) {
        static const char *const how[] = {"", [GW_PLACE_HOST] = "host memory", [GW_PLACE_GPU] = "nccl"};
        snprintf(s->sums, sizeof s->sums, "%s", how[atomic_load(&node->reduction.place)]);
    }
    memcpy(s->checkpoints, shown->checkpoints, sizeof s->checkpoints);
    s->checkpoint_count = shown->checkpoint_count;
    fill_brain(node, s);
    gw_board_publish(node->console->board, s);
    gw_display_update(node->console->display, s);
}

static void publish_again(void *context) {
    gw_node *node = context;
    node->shown.soon = false;
    gw_node_publish(node);
    (void)publish_at(node, node->shown.published_ns + PUBLISH_NS); /* else the next step does */
}

static gw_event_start start_of(const gw_node *node) {
    return (gw_event_start){.job = node->options->job->name,
                            .params = &node->options->params,
                            .job_id = node->job_id,
                            .self = node->self.id,
                            .boot = node->self.incarnation.boot,
                            .steps = node->steps == UINT64_MAX ? 0 : node->steps,
                            .workers = node->options->workers,
                            .device = node->options->compute.text,
                            .memory_bytes = node->memory_bytes,
                            .data = node->plan.data_text,
                            .compute_class = node->device->class_text};
}

void gw_node_publish_opening(gw_node *node) {
    const gw_event_start start = start_of(node);
    gw_events_opening(node->console->events, &start);
}

void gw_node_publish_start(gw_node *node) {
    const gw_event_start start = start_of(node);
    node->shown.snapshot = calloc(1, sizeof *node->shown.snapshot);
    GW_ASSERT_MEMORY(node->shown.snapshot != NULL);
    node->shown.started_ns = node->shown.checkpoint_ns = gw_now_ns();
    gw_events_start(node->console->events, &start);
}

void gw_node_publish_loop(gw_node *node) {
    publish_again(node);
}

/* ---- the end ---- */

static const char *outcome_text(gw_finish finish) {
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
    }
    return "failed";
}

static bool is_zero(const gw_hash *hash) {
    const gw_hash none = {{0}};
    return gw_hash_equal(hash, &none);
}

void gw_node_publish_end(gw_node *node) {
    gw_peer_status status;
    gw_peer_status_get(node->peer, &status);
    char summary[256] = "";
    bool whole = node->finish == GW_FINISH_DONE || node->finish == GW_FINISH_STOPPED ||
                 node->finish == GW_FINISH_UNSAVED;
    if (whole && node->engine.state.valid)
        node->device->ops->summary(node->device, status.committed_step, summary, sizeof summary);
    gw_event_done done = {.outcome = outcome_text(node->finish),
                          .job = node->options->job->name,
                          .text = node->final_text,
                          .steps = status.committed_step,
                          .has_state = !is_zero(&node->final_root),
                          .state = node->final_root,
                          .summary = summary,
                          .peers = node->shown.members ? node->shown.members : node->view.count,
                          .repaired = status.shards_repaired,
                          .stolen = status.shards_stolen,
                          .has_payload = node->payloads != NULL,
                          .rss_bytes = gw_rss_bytes(),
                          .seconds = (double)(gw_now_ns() - node->shown.started_ns) * 1e-9};
    if (node->payloads) {
        gw_payload_counts counts = gw_payloads_count(node->payloads);
        done.payload_local = counts.local_bytes;
        done.payload_read = counts.read_bytes;
        done.payload_failed = counts.reads_failed;
    }
    gw_events_done(node->console->events, &done);
}
