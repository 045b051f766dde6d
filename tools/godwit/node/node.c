#include "tools/godwit/node/node.h"

#include "core/base/assert.h"
#include "core/base/log.h"
#include "core/os/clock.h"
#include "core/os/trace.h"
#include "net/loop/own_address.h"
#include "tools/godwit/node/inside.h"
#include "tools/godwit/thread/crash.h"
#include "tools/godwit/watch/stacks.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WATCH_NS      UINT64_C(1000000000)
#define LEAVING_NS    UINT64_C(100000000) /* between two looks of a peer that has been asked to leave */
#define FLUSH_NS      UINT64_C(1000000000)
#define FLUSH_LOOK_NS UINT64_C(2000000)

/* Feeds the brain. */

static void timer_due(void *context) {
    gw_node_feed(context, &(gw_event){.kind = GW_EV_TIMER});
}

static void set_deadline(gw_node *node) {
    gw_node_brain *brain = &node->brain;
    uint64_t deadline = gw_peer_deadline(brain->peer);
    gw_err err;
    if (deadline == UINT64_MAX)
        gw_timer_cancel(&brain->deadline);
    else
        GW_ASSERT_MEMORY(gw_timer_set(node->loop, &brain->deadline, deadline, timer_due, node, &err));
}

/* Ends the loop when all messages have been sent, or at flush_until_ns, and no effects of the job are
 * under way. */
static void flush(void *context) {
    gw_node *node = context;
    gw_err err;
    uint64_t now = gw_now_ns();
    bool flushed = gw_links_queued(node->network.links) == 0 || now >= node->flush_until_ns;
    if ((flushed && !gw_progress_commits(&node->progress, now)) ||
        !gw_timer_set(node->loop, &node->flush, now + FLUSH_LOOK_NS, flush, node, &err))
        gw_loop_stop(node->loop);
}

/* The parts of the node may feed events while actions are being carried out. Such an event waits as mail. */
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

/* An event that comes after FINISH: effects that failed turn the outcome into a failure. */
static void note_late_event(gw_node_result *result, const gw_event *event) {
    if (event->kind != GW_EV_COMMITTED || event->outcome == GW_DONE) return;
    result->finish = GW_FINISH_FAILED;
    free(result->text);
    result->text = strdup(event->text);
}

void gw_node_feed(gw_node *node, const gw_event *event) {
    gw_node_brain *brain = &node->brain;
    if (node->result.finished) note_late_event(&node->result, event);
    if (node->result.finished || !brain->peer) return;
    if (brain->feeding) {
        feed_later(node, event);
        return;
    }
    if (event->kind == GW_EV_SHARD_FAILED) {
        gw_peer_status status;
        gw_peer_status_get(brain->peer, &status);
        gw_recorder_give_up(&node->recorder, status.step, event->shard_failed.shard);
    }
    brain->feeding = true;
    gw_actions_reset(&brain->actions);
    gw_peer_step(brain->peer, event, gw_now_ns(), &brain->actions);
    for (uint32_t i = 0; i < brain->actions.count; i++) gw_node_act(node, &brain->actions.list[i]);
    brain->feeding = false;
    if (!node->result.finished) {
        set_deadline(node);
        return;
    }
    gw_timer_cancel(&brain->deadline);
    gw_timer_cancel(&node->watchdog);
    node->flush_until_ns = gw_now_ns() + FLUSH_NS;
    flush(node);
}

void gw_node_deliver(void *context, gw_mail *mail) {
    gw_node *node = context;
    gw_node_brain *brain = &node->brain;
    gw_event_kind kind = mail->event.kind;
    if (kind == 0) {
        gw_publish_corruption(&node->publisher, &mail->event.peer, mail->text);
        return;
    }
    gw_publish_mail(&node->publisher, mail, brain->view.count);
    if (gw_trace_is_on()) gw_node_trace_event(&brain->trace, &mail->event, brain->step);
    if (kind == GW_EV_SEEDS && node->reach)
        gw_reach_seek(node->reach, mail->event.seeds.addrs, mail->event.seeds.count);
    if (kind == GW_EV_REDUCED) atomic_store(&node->reduction.underway, false);
    gw_progress_end(&node->progress, &mail->event);
    if (kind == GW_EV_LEAVE) gw_progress_leave(&node->progress, node->options->grace_ns);
    gw_node_feed(node, &mail->event);
    if (kind == GW_EV_CLAIM) gw_workers_grant(node->engine.workers, mail->ticket);
    if (kind == GW_EV_REDUCED && brain->frozen_token != 0) {
        gw_node_report_frozen(node, brain->frozen_token);
        brain->frozen_token = 0;
    }
}

/* Watches the work. */

/* A call of NCCL that does not return: this peer leaves. */
static bool report_hanging_gpus(gw_node *node) {
    uint64_t inside_ns = node->gpu.sums ? gw_gpus_inside_since(node->gpu.sums) : 0;
    if (inside_ns == 0 || !gw_watchdog_hangs(&node->progress.dog, inside_ns, 0)) return false;
    node->progress.hangs = true; /* the thread in that call cannot be waited for when this process ends */
    gw_progress_log_stacks(&node->progress, "gw-gpu");
    char text[200], gpus[GW_GPUS_TEXT];
    snprintf(text, sizeof text,
             "%s: NCCL does not return from a call: the GPU or its driver hangs (--hang-timeout)",
             gw_node_gpus_text(node->engine.device, gpus));
    gw_node_feed(node, &(gw_event){.kind = GW_EV_DEVICE_LOST, .text = text});
    return true;
}

/* Has a job that can end a shard's computation do so, after which the shard is timed anew. */
static bool interrupt(gw_node *node, const gw_running *shard, uint64_t now) {
    const gw_job_type *type = node->options->job;
    if (shard->loads || type->interrupt == NULL ||
        !type->interrupt(node->job.instance, shard->step, shard->shard))
        return false;
    gw_log(GW_WARN, "node",
           "shard %u of step %" PRIu64 " has run for %.0f s and seems to hang (--hang-timeout)", shard->shard,
           shard->step, (double)(now - shard->started_ns) * 1e-9);
    gw_workers_begun_again(node->engine.workers, shard->worker);
    return true;
}

/* A shard that hangs here: the job ends its computation, or this peer leaves, and the view that follows is
 * without it before other members compute the shard. */
static bool report_hanging_shard(gw_node *node, uint64_t now) {
    const gw_device *device = node->engine.device;
    gw_running oldest;
    if (!gw_workers_oldest(node->engine.workers, &oldest) ||
        !gw_watchdog_hangs(&node->progress.dog, oldest.started_ns, oldest.usual_ns))
        return false;
    if (interrupt(node, &oldest, now)) return false;
    char text[160], thread[16], where[24] = "";
    if (device->gpu_count > 0) snprintf(where, sizeof where, " (GPU %d)", device->gpus[oldest.part]);
    snprintf(thread, sizeof thread, "gw-worker-%u", oldest.worker);
    gw_progress_log_stacks(&node->progress, thread);
    if (oldest.loads) gw_progress_log_stacks(&node->progress, GW_PAYLOAD_THREADS); /* it may wait for one */
    snprintf(text, sizeof text,
             "worker %u%s has been busy with it for %.0f s and seems to hang (--hang-timeout)", oldest.worker,
             where, (double)(now - oldest.started_ns) * 1e-9);
    gw_node_feed(node,
                 &(gw_event){.kind = GW_EV_SHARD_FAILED, .shard_failed.shard = oldest.shard, .text = text});
    return true;
}

/* Logs that the directory has been renamed or removed. On the disk helper, as the disk may hang. */
static void look_at_directory(void *context) {
    gw_node_self *self = context;
    char now[GW_PATH_BYTES];
    const char *path = self->directory.path;
    gw_directory_place place = gw_directory_look(&self->directory, now);
    if (place == GW_DIRECTORY_MOVED && place != self->place)
        gw_log(GW_WARN, "node",
               "the directory %s was renamed: it is %s now, where this peer goes on writing. Name that by "
               "--dir from "
               "now on, or rename it back",
               path, now);
    if (place == GW_DIRECTORY_REMOVED && place != self->place)
        gw_log(GW_WARN, "node",
               "the directory %s was removed while this peer runs, and with it its checkpoints, its identity "
               "and its "
               "key: this peer saves nothing more. Where others run, stop it and start it again; otherwise "
               "its results "
               "are lost with it",
               path);
    if (place == GW_DIRECTORY_THERE && place != self->place)
        gw_log(GW_INFO, "node", "the directory %s is at its place again", path);
    self->place = place;
    atomic_store(&self->looking, false);
}

static void look_at_work(void *context) {
    gw_node *node = context;
    gw_err err;
    uint64_t now = gw_now_ns();
    if (!atomic_exchange(&node->self.looking, true))
        gw_helper_give(node->disk, look_at_directory, &node->self);
    gw_watchdog_look(&node->progress.dog, now);
    gw_progress_look(&node->progress);
    if (node->result.finished || report_hanging_gpus(node) || report_hanging_shard(node, now)) return;
    if (node->mirror != NULL) {
        gw_peer_status status;
        gw_peer_status_get(node->brain.peer, &status);
        if (status.has_state) gw_mirror_look(node->mirror, &node->brain.view, &status.best.kept);
    }
    uint64_t next = now + (node->progress.leave_ns != 0 ? LEAVING_NS : WATCH_NS);
    GW_ASSERT_MEMORY(gw_timer_set(node->loop, &node->watchdog, next, look_at_work, node, &err));
}

/* On the thread of the loop watch. Other peers expel one whose gossip is silent; from here nothing can be
 * sent to them, and a loop that is stuck cannot be ended. */
static void loop_hangs(void *context, double seconds) {
    gw_node *node = context;
    gw_signals_end_soon(&node->signals);
    gw_claim_journal_clear(node->recorder.claims);
    gw_log(GW_ERROR, "node",
           "the event loop has been stuck for %.0f s (--hang-timeout): " GW_LIFE_LAST_WORDS
           ", so that the others "
           "go on without it and it can be started again",
           seconds);
    gw_stacks_log_first();
    gw_stacks_log("gw"); /* the loop may wait for a lock that one of these threads holds */
    gw_signals_end(&node->signals, 1);
}

/* Runs the peer. */

/* Lets the job do what comes behind it, from the state that the device holds. */
static bool finish_job(gw_node *node, gw_err *err) {
    const gw_job_type *type = node->options->job;
    const gw_engine *engine = &node->engine;
    if (type->finish == NULL || node->result.finish != GW_FINISH_DONE || !engine->state.valid) return true;
    gw_signals_ended(&node->signals);
    return engine->device->ops->finish(engine->device, engine->state.step, err);
}

/* On the control socket's thread. */
static void take_request(void *context, gw_control_request request) {
    gw_event_kind kind = request == GW_CONTROL_STOP ? GW_EV_STOP : GW_EV_FORCE_VIEW;
    gw_mailbox_post(((gw_node *)context)->mail, gw_mail_new(kind, 0));
}

/* On the control socket's thread. */
static void take_client(void *context, int fd) {
    gw_service_take_local(((gw_node *)context)->service, fd);
}

/* On a thread that looks up a seed. */
static void seeds_found(void *context, const gw_addr *addrs, uint32_t count) {
    const gw_node *node = context;
    gw_mail *mail = gw_mail_new(GW_EV_SEEDS, 0);
    gw_addr own[GW_MAX_ADDRS];
    size_t own_count = gw_own_addresses(&node->network.local.listen, addrs, count, own, GW_MAX_ADDRS);
    gw_mail_seeds(mail, addrs, count, own, (uint32_t)own_count);
    gw_mailbox_post(node->mail, mail);
}

/* A gw_reach_options.is_met. */
static bool is_met(void *context, const gw_addr *addr, const gw_peer_id *id) {
    const gw_node *node = context;
    gw_peer_contact_info info;
    for (uint32_t i = 0; gw_peer_contact_at(node->brain.peer, i, &info); i++) {
        bool lives = strcmp(info.state, "alive") == 0 || strcmp(info.state, "suspect") == 0;
        if (!lives || gw_peer_id_equal(&info.id, &node->self.identity.id)) continue;
        if (addr == NULL || gw_addr_equal(&info.addr, addr) || gw_peer_id_equal(&info.id, id)) return true;
    }
    return false;
}

/* A gw_reach_options.find_unlinked. */
static bool find_unlinked(void *context, uint32_t *index, gw_peer_id *id, gw_addr *addr) {
    const gw_node *node = context;
    gw_peer_contact_info info;
    while (gw_peer_contact_at(node->brain.peer, (*index)++, &info)) {
        if (info.linked || strcmp(info.state, "alive") != 0 ||
            gw_peer_id_equal(&info.id, &node->self.identity.id))
            continue;
        *id = info.id;
        *addr = info.addr;
        return true;
    }
    return false;
}

/* A gw_reach_options.find_alive. */
static bool find_alive(void *context, const gw_peer_id *id, gw_addr *addr) {
    const gw_node *node = context;
    gw_peer_contact_info info;
    bool alive = gw_peer_contact_find(node->brain.peer, id, &info) && strcmp(info.state, "alive") == 0;
    if (alive) *addr = info.addr;
    return alive;
}

void gw_node_note_data_link(gw_node *node, const gw_peer_id *peer, const gw_data_link_state *state) {
    if (node->reach != NULL) gw_reach_note_data_link(node->reach, peer, state->stands, state->unheard);
}

void gw_node_note_unheard(gw_node *node, const gw_peer_id *peer) {
    gw_peer_contact_info info; /* as it was before the link ended */
    bool linked = gw_peer_contact_find(node->brain.peer, peer, &info) && info.linked;
    if (node->reach != NULL && linked) gw_reach_note_unheard(node->reach, peer);
}

/* A gw_reach_options.tell_unmet. */
static void tell_unmet(void *context, const char *why, bool for_good) {
    gw_node_feed(context, &(gw_event){.kind = GW_EV_UNMET, .text = why, .unmet.for_good = for_good});
}

static bool open_reach(gw_node *node, gw_err *err) {
    const gw_run_options *options = node->options;
    gw_reach_options reach = {.loop = node->loop,
                              .local = &node->network.local,
                              .listen = node->network.listen,
                              .listen_text = options->listen,
                              .has_key = node->self.keyring.count > 0,
                              .time_scale_percent = (uint32_t)options->time_scale_percent,
                              .find_unlinked = find_unlinked,
                              .is_met = is_met,
                              .find_alive = find_alive,
                              .tell_unmet = tell_unmet,
                              .context = node};
    gw_addr seeds[GW_MAX_SEEDS], one[GW_MAX_SEEDS];
    uint32_t count = gw_seeds_known(options->seeds, options->seed_count, seeds);
    for (uint32_t i = 0; i < options->seed_count; i++) {
        const char *seed = options->seeds[i];
        reach.followed |= gw_seed_is_followed(seed);
        if (reach.unresolved == NULL && gw_seeds_known(&options->seeds[i], 1, one) == 0 &&
            !gw_seed_is_file(seed) && strncmp(seed, "localhost", 9) != 0)
            reach.unresolved = seed;
    }
    node->reach = gw_reach_open(&reach, seeds, count, err);
    return node->reach != NULL;
}

/* In a signal handler. */
static void note_crash(void *context, int number) {
    const gw_node *node = context;
    gw_claim_journal_crashed(node->recorder.claims);
    gw_journal_note_crash(node->journal, number);
}

/* On the signals' thread. */
static void leave(void *context) {
    gw_mailbox_post(((gw_node *)context)->mail, gw_mail_new(GW_EV_LEAVE, 0));
}

static bool serve(gw_node *node, gw_err *err) {
    const gw_run_options *options = node->options;
    uint64_t patience_ns = options->hang_timeout_ns;
    node->control = gw_control_open(options->dir, &node->sources, take_request, take_client, node, err);
    if (!node->control) return false;
    if (node->options->slurm) gw_signals_scheduled(&node->signals);
    gw_signals_polite(&node->signals, node->recorder.claims, leave, node);
    gw_crash_watch(note_crash, node);
    if (!open_reach(node, err)) return false;
    if (!gw_seeds_open(options->seeds, options->seed_count, options->join_timeout_ns, seeds_found, node,
                       &node->seeds, err))
        return false;
    node->progress.dog = (gw_watchdog){.patience_ns = patience_ns, .interval_ns = WATCH_NS};
    node->loop_watch = gw_loop_watch_open(node->loop, patience_ns, loop_hangs, node, err);
    if (!node->loop_watch) return false;
    gw_node_feed(node, &(gw_event){.kind = GW_EV_START});
    gw_recorder_started(&node->recorder);
    look_at_work(node);
    gw_publish_loop(&node->publisher);
    gw_remember_loop(&node->remembering);
    gw_supervisor_begin_loop(node->console->supervisor, node->loop);
    gw_loop_run(node->loop);
    gw_supervisor_end_loop(node->console->supervisor);
    gw_loop_watch_close(node->loop_watch);
    GW_ASSERT(node->result.finished);
    gw_publish(&node->publisher);
    return true;
}

static int exit_code_of(gw_finish finish) {
    switch (finish) {
    case GW_FINISH_DONE:
    case GW_FINISH_STOPPED:
    case GW_FINISH_LEFT:
        return 0;
    case GW_FINISH_UNSAVED:
    case GW_FINISH_FAILED:
    case GW_FINISH_DENIED:
    case GW_FINISH_REBASE:
        return 1;
    }
    return 1;
}

static int exit_code_of_failure(const gw_err *err) {
    return err->code == GW_E_USAGE ? 2 : 1;
}

/* One life of the peer. Sets *again where another one is to follow. */
static int live(const gw_run_options *options, gw_console *console, gw_node_again *again) {
    gw_node *node = calloc(1, sizeof *node);
    GW_ASSERT_MEMORY(node != NULL);
    node->given = *options;
    node->options = &node->given;
    node->console = console;
    node->before = *again;
    node->self.directory.fd = node->self.lock.fd = node->network.tcp_fd = node->network.udp_fd =
        node->http.fd = -1;
    gw_err err = {0};
    bool good = gw_signals_open(&node->signals, console->display, &err) && gw_stacks_open(&err) &&
                gw_node_open(node, &err) && serve(node, &err);
    if (good && node->result.finish == GW_FINISH_REBASE) {
        node->again.due = true;
        node->again.told = node->result.text;
        node->result.text = NULL;
    }
    node->again.port = node->network.listen.port;
    node->again.http_port = node->http.addr.port;
    node->refused = !good;
    int code = good ? exit_code_of(node->result.finish) : exit_code_of_failure(&err);
    bool sampled = gw_sampler_close(node->sampler);
    node->sampler = node->publisher.of.sampler = NULL;
    if (good && !node->again.due) gw_publish_end(&node->publisher, node->brain.view.count);
    gw_err late;
    if (good && !node->again.due && !finish_job(node, &late)) {
        gw_log(GW_ERROR, "node", "%s", late.text);
        code = 1;
    }
    gw_signals_closing(&node->signals, code);
    if (node->again.due)
        gw_events_life_over(console->events, good ? "others go on from another state" : err.text);
    else if (!good)
        gw_events_refused(console->events, options->command != NULL ? options->command : "godwit", err.text,
                          code);
    free(again->told);
    *again = node->again;
    bool left = good && node->result.finish == GW_FINISH_LEFT;
    if (!gw_node_close(node) || !sampled) {
        /* A thread cannot be ended from outside; the process can. */
        if (left)
            gw_log(GW_INFO, "node", "what this peer still does is given up: the process ends without it");
        else
            gw_log(GW_WARN, "node",
                   "a shard, a driver or a disk does not return: this process ends without it");
        gw_node_close_journal(node);
        gw_display_flush(console->display, FLUSH_NS);
        _exit(code);
    }
    gw_signals_close(&node->signals);
    free(node);
    return code;
}

int gw_node_run(const gw_run_options *options, gw_console *console) {
    gw_node_again again = {0};
    int code;
    pthread_setname_np(pthread_self(), "godwit"); /* "exe" after --cpu-class, which starts itself again */
    do code = live(options, console, &again);
    while (again.due);
    return code;
}
