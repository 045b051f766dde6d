#include "tools/godwit/node/node.h"

#include "core/base/assert.h"
#include "core/base/log.h"
#include "core/os/clock.h"
#include "tools/godwit/node/inside.h"
#include "tools/godwit/watch/stacks.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WATCH_NS      UINT64_C(1000000000)
#define FLUSH_NS      UINT64_C(1000000000)
#define FLUSH_LOOK_NS UINT64_C(2000000)

/* ---- feeding the brain ---- */

static void timer_due(void *context) {
    gw_node *node = context;
    gw_node_feed(node, &(gw_event){.kind = GW_EV_TIMER});
}

static void arm(gw_node *node) {
    uint64_t deadline = gw_peer_deadline(node->peer);
    gw_err err;
    if (deadline == UINT64_MAX)
        gw_timer_cancel(&node->deadline);
    else
        GW_ASSERT_MEMORY(gw_timer_set(node->loop, &node->deadline, deadline, timer_due, node, &err));
}

/* Leaves the loop when everything that was said has gone out, or after FLUSH_NS, and no effects wait. */
static void flush(void *context) {
    gw_node *node = context;
    gw_err err;
    uint64_t now = gw_now_ns();
    bool flushed = gw_links_queued(node->links) == 0 || now >= node->flush_until_ns;
    if ((flushed && !gw_node_commits(node, now)) ||
        !gw_timer_set(node->loop, &node->flush, now + FLUSH_LOOK_NS, flush, node, &err))
        gw_loop_stop(node->loop);
}

/* After a FINISH: nothing is left to do but to let the last words out. */
static void wind_up(gw_node *node) {
    gw_timer_cancel(&node->deadline);
    gw_timer_cancel(&node->watchdog);
    node->flush_until_ns = gw_now_ns() + FLUSH_NS;
    flush(node);
}

/* The world's own calls may bring events while actions are being carried out: these wait as mail. */
static void feed_later(gw_node *node, const gw_event *event) {
    gw_mail *mail = gw_mail_new(event->kind, event->token);
    mail->event = *event;
    if (event->kind == GW_EV_DATAGRAM) gw_mail_bytes(mail, event->datagram.bytes, event->datagram.length);
    if (event->kind == GW_EV_MESSAGE) gw_mail_bytes(mail, event->message.bytes, event->message.length);
    if (event->text) gw_mail_text(mail, event->text);
    GW_ASSERT(event->kind != GW_EV_FROZEN && event->kind != GW_EV_LOADED && event->kind != GW_EV_SEALED &&
              event->kind != GW_EV_REDUCED && event->kind != GW_EV_STORED && event->kind != GW_EV_SEEDS);
    gw_mailbox_post(node->mail, mail);
}

/* Before the brain has it recorded: the record may take longer than what is left of this process. */
static void give_up(gw_node *node, uint32_t shard) {
    gw_peer_status status;
    gw_peer_status_get(node->peer, &status);
    gw_claim_journal_give_up(node->claims, status.step, shard);
    node->gave_up = true;
}

void gw_node_feed(gw_node *node, const gw_event *event) {
    if (node->finished) gw_node_committed(node, event);
    if (node->finished || !node->peer) return;
    if (node->feeding) {
        feed_later(node, event);
        return;
    }
    if (event->kind == GW_EV_SHARD_FAILED) give_up(node, event->shard_failed.shard);
    node->feeding = true;
    gw_actions_reset(&node->actions);
    gw_peer_step(node->peer, event, gw_now_ns(), &node->actions);
    for (uint32_t i = 0; i < node->actions.count; i++) gw_node_act(node, &node->actions.list[i]);
    node->feeding = false;
    if (node->finished)
        wind_up(node);
    else
        arm(node);
}

void gw_node_deliver(void *context, gw_mail *mail) {
    gw_node *node = context;
    if (mail->event.kind == 0) {
        gw_node_corrupted(node, &mail->event.peer, mail->text);
        return;
    }
    if (mail->event.kind == GW_EV_APPLIED) /* of a step that was skipped there is nothing to report */
        snprintf(node->shown.applied, sizeof node->shown.applied, "%s",
                 mail->bytes ? (const char *)mail->bytes : "");
    if (mail->event.kind == GW_EV_REDUCED) gw_node_reduced(node);
    if (mail->created_ms != 0) gw_node_show_loaded(node, mail->created_ms);
    node->shown.counter[GW_COUNT_REDUCE_NS] += mail->took_ns;
    node->shown.counter[GW_COUNT_REDUCE_SENT] += mail->sent_bytes;
    node->shown.counter[GW_COUNT_REDUCE_RECEIVED] += mail->received_bytes;
    if (mail->event.kind == GW_EV_REDUCED)
        node->shown.counter[GW_COUNT_BAD_ELEMENTS] += mail->event.reduced.bad_count;
    if (mail->event.kind == GW_EV_WORD_SWAPPED && mail->event.word.outcome != GW_WORD_OK)
        node->shown.counter[GW_COUNT_STEALS_FAILED]++;
    gw_node_work_done(node, &mail->event);
    gw_node_feed(node, &mail->event);
    if (mail->event.kind == GW_EV_CLAIM) gw_workers_grant(node->workers, mail->ticket);
    if (mail->event.kind == GW_EV_REDUCED) gw_node_thaw(node);
}

/* ---- watchdog, control socket ---- */

static void take_request(void *context, gw_control_request request) {
    gw_event_kind kind = request == GW_CONTROL_STOP ? GW_EV_STOP : GW_EV_FORCE_VIEW;
    gw_mailbox_post(((gw_node *)context)->mail, gw_mail_new(kind, 0));
}

/* Others must compute a shard that hangs here, so this peer gives up: it leaves, and the view that follows is
 * without it before the shard is dealt again. */
static void look_at_work(void *context) {
    gw_node *node = context;
    gw_err err;
    gw_running oldest;
    uint64_t now = gw_now_ns();
    gw_watchdog_look(&node->dog, now);
    gw_node_work_look(node, now);
    if (node->finished) return;
    uint64_t inside_ns = node->gpus ? gw_gpus_inside_since(node->gpus) : 0;
    if (inside_ns != 0 && gw_watchdog_hangs(&node->dog, inside_ns, 0)) {
        node->work.hangs = true; /* what is in the call cannot be waited for when this process ends */
        gw_node_log_stacks(node, "gw-gpu");
        char text[200], gpus[GW_GPUS_TEXT];
        snprintf(text, sizeof text,
                 "%s: NCCL does not return from a call: the GPU or its driver hangs (--hang-timeout)",
                 gw_node_gpus_text(node, gpus));
        gw_node_feed(node, &(gw_event){.kind = GW_EV_DEVICE_LOST, .text = text});
        return;
    }
    if (gw_workers_oldest(node->workers, &oldest) &&
        gw_watchdog_hangs(&node->dog, oldest.started_ns, oldest.usual_ns)) {
        char text[160], thread[16], where[24] = "";
        if (node->device->gpu_count > 0)
            snprintf(where, sizeof where, " (GPU %d)", node->device->gpus[oldest.part]);
        snprintf(thread, sizeof thread, "gw-worker-%u", oldest.worker);
        gw_node_log_stacks(node, thread);
        if (oldest.loads) gw_node_log_stacks(node, GW_PAYLOAD_THREADS); /* one of which it may wait for */
        snprintf(text, sizeof text,
                 "worker %u%s has been at it for %.0f s and seems to hang (--hang-timeout)", oldest.worker,
                 where, (double)(now - oldest.started_ns) * 1e-9);
        gw_node_feed(
            node, &(gw_event){.kind = GW_EV_SHARD_FAILED, .shard_failed.shard = oldest.shard, .text = text});
        return;
    }
    GW_ASSERT_MEMORY(gw_timer_set(node->loop, &node->watchdog, now + WATCH_NS, look_at_work, node, &err));
}

/* On the watch's thread. Others expel a peer whose gossip is silent; here nothing can be said to them, and
 * what is stuck cannot be ended. */
static void loop_hangs(void *context, double seconds) {
    gw_node *node = context;
    gw_signals_end_soon(&node->signals);
    gw_claim_journal_clear(node->claims);
    gw_log(GW_ERROR, "node",
           "the event loop has been stuck for %.0f s (--hang-timeout): this process ends, so that the others "
           "go on without it and it can be started again",
           seconds);
    gw_stacks_log_first();
    gw_stacks_log("gw"); /* which may hold what it waits for */
    gw_signals_end(&node->signals, 1);
}

/* ---- the run ---- */

/* On the thread that looks seeds up. */
static void seeds_told(void *context, const gw_addr *addrs, uint32_t count) {
    const gw_node *node = context;
    gw_mail *mail = gw_mail_new(GW_EV_SEEDS, 0);
    gw_mail_seeds(mail, addrs, count);
    gw_mailbox_post(node->mail, mail);
}

/* On the signals' thread. */
static void leave(void *context) {
    gw_mailbox_post(((gw_node *)context)->mail, gw_mail_new(GW_EV_LEAVE, 0));
}

static bool serve(gw_node *node, gw_err *err) {
    node->control = gw_control_open(node->options->dir, node->console->board, take_request, node, err);
    if (!node->control) return false;
    gw_signals_polite(&node->signals, node->claims, leave, node);
    const gw_run_options *options = node->options;
    if (!gw_seeds_open(options->seeds, options->seed_count, options->join_timeout_ns, seeds_told, node,
                       &node->seeds, err))
        return false;
    uint64_t patience_ns = options->hang_timeout_ns;
    node->dog = (gw_watchdog){.patience_ns = patience_ns, .interval_ns = WATCH_NS};
    node->loop_watch = gw_loop_watch_open(node->loop, patience_ns, loop_hangs, node, err);
    if (!node->loop_watch) return false;
    gw_node_feed(node, &(gw_event){.kind = GW_EV_START});
    gw_node_started(node);
    look_at_work(node);
    gw_node_publish_loop(node);
    gw_node_remember_loop(node);
    gw_loop_run(node->loop);
    gw_loop_watch_close(node->loop_watch);
    GW_ASSERT(node->finished);
    gw_node_publish(node);
    return true;
}

static int exit_code_of(const gw_node *node) {
    switch (node->finish) {
    case GW_FINISH_DONE:
    case GW_FINISH_STOPPED:
    case GW_FINISH_LEFT:
        return 0;
    case GW_FINISH_UNSAVED:
    case GW_FINISH_FAILED:
    case GW_FINISH_DENIED:
        return 1;
    }
    return 1;
}

static int fail(gw_console *console, const gw_err *err) {
    char line[600];
    snprintf(line, sizeof line, "godwit: %s", err->text);
    gw_display_err(console->display, line);
    return err->code == GW_E_USAGE ? 2 : 1;
}

int gw_node_run(const gw_run_options *options, gw_console *console) {
    gw_node *node = calloc(1, sizeof *node);
    GW_ASSERT_MEMORY(node != NULL);
    *node = (gw_node){
        .options = options, .console = console, .lock.fd = -1, .tcp_fd = -1, .udp_fd = -1, .http_fd = -1};
    gw_err err = {0};
    pthread_setname_np(pthread_self(), "godwit"); /* "exe" after --cpu-class, which starts itself again */
    bool good = gw_signals_open(&node->signals, console->display, &err) && gw_stacks_open(&err) &&
                gw_node_open(node, &err) && serve(node, &err);
    int code = good ? exit_code_of(node) : 0;
    if (good) gw_node_publish_end(node);
    gw_signals_closing(&node->signals, good ? code : 1);
    if (!gw_node_close(node)) {
        /* A thread cannot be ended from outside; the process can. */
        gw_log(GW_WARN, "node", "a shard, a driver or a disk is still at it; ending without it");
        gw_display_flush(console->display, FLUSH_NS);
        _exit(good ? code : 1);
    }
    gw_signals_close(&node->signals);
    free(node);
    return good ? code : fail(console, &err);
}
