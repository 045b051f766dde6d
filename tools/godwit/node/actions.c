/* What each action of the brain means in the real world. */
#include "core/base/assert.h"
#include "core/base/log.h"
#include "core/os/clock.h"
#include "core/os/trace.h"
#include "core/shard/range.h"
#include "tools/godwit/node/inside.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* One-sided operations on the range words of other members. */

typedef struct word_op {
    gw_data_op op; /* must come first */
    gw_mailbox *mail;
    gw_token token;
    bool swap;
    uint64_t buffer;
    uint64_t began_ns; /* for a trace; 0 = nobody read when it began */
    uint32_t shards;   /* a swap takes */
} word_op;

/* A thief's look at a word, or its steal. */
static void trace_word_op(const word_op *w, const gw_completion *completion) {
    bool stolen = w->swap && completion->status == GW_OP_OK;
    gw_trace_end(stolen    ? GW_TRACE_STEAL
                 : w->swap ? GW_TRACE_MISS
                           : GW_TRACE_LOOK_AT,
                 w->began_ns, stolen ? w->shards : 0, gw_trace_peer(completion->peer.bytes), 0);
}

static void word_done(gw_data_op *op, const gw_completion *completion) {
    word_op *w = (word_op *)op;
    trace_word_op(w, completion);
    gw_mail *mail = gw_mail_new(w->swap ? GW_EV_WORD_SWAPPED : GW_EV_WORD_READ, w->token);
    mail->event.peer = completion->peer;
    mail->event.word.value = completion->value;
    switch (completion->status) {
    case GW_OP_OK:
        mail->event.word.outcome = GW_WORD_OK;
        break;
    case GW_OP_MISMATCH:
        mail->event.word.outcome = GW_WORD_DIFFERS;
        break;
    case GW_OP_UNKNOWN:
        mail->event.word.outcome = GW_WORD_UNKNOWN;
        break;
    case GW_OP_FENCED:
    case GW_OP_DENIED:
    case GW_OP_NOTFOUND:
    case GW_OP_UNAVAILABLE:
    case GW_OP_UNREACHABLE: /* the word has not changed */
        mail->event.word.outcome = GW_WORD_FENCED;
        break;
    }
    gw_mailbox_post(w->mail, mail);
    free(w);
}

static void start_word_op(gw_node *node, const gw_action *action) {
    gw_data_links *data_links = node->network.data_links;
    const gw_view *view = &node->brain.view;
    word_op *w = calloc(1, sizeof *w);
    GW_ASSERT_MEMORY(w != NULL);
    *w = (word_op){.op = {.done = word_done},
                   .mail = node->mail,
                   .token = action->token,
                   .swap = action->kind == GW_ACT_SWAP_WORD,
                   .began_ns = gw_trace_begin()};
    if (w->swap)
        w->shards = gw_word_left(gw_word_unpack(action->swap_word.expected)) -
                    gw_word_left(gw_word_unpack(action->swap_word.desired));
    gw_op request = {
        .kind = w->swap ? GW_OP_CAS : GW_OP_READ,
        .peer = action->peer,
        .fence = {.epoch = view->epoch, .view = view->name},
        .region = GW_REGION_RANGE,
        .bytes = sizeof(uint64_t),
        .buffer = &w->buffer,
        .expected = action->swap_word.expected,
        .operand = action->swap_word.desired,
    };
    gw_transport_spin(gw_data_links_transport(data_links),
                      true); /* a thief has an idle worker, so a core to spare */
    gw_data_links_post(data_links, &request, &w->op);
}

/* Stealing has ended: no worker is idle, or there is nothing left to steal. */
static void end_stealing(gw_data_links *data_links) {
    gw_transport_spin(gw_data_links_transport(data_links), false);
}

/* Views and steps. */

void gw_node_report_frozen(gw_node *node, gw_token token) {
    gw_frozen frozen;
    gw_workers_freeze(node->engine.workers, &frozen);
    gw_node_trace_frozen(&node->brain.trace, node->brain.view.epoch);
    gw_mail *mail = gw_mail_new(GW_EV_FROZEN, token);
    mail->held = frozen.held;
    mail->claimed = frozen.claimed;
    mail->event.frozen.accumulator_step = frozen.step;
    mail->event.frozen.poisoned = frozen.poisoned;
    mail->event.frozen.held = frozen.held.size > 0 ? &mail->held : NULL;
    mail->event.frozen.claimed = frozen.claimed.size > 0 ? &mail->claimed : NULL;
    gw_mailbox_post(node->mail, mail);
}

/* A peer whose fence cannot be moved serves no other member, and these would wait for it for ever: it
 * leaves. */
static void move_fence(gw_node *node, const gw_view *view) {
    gw_err err;
    if (gw_data_links_fence(node->network.data_links, view, &err) || node->brain.unfenced) return;
    node->brain.unfenced = true;
    gw_fail_in(&err, "the fence of a view");
    gw_node_feed(node, &(gw_event){.kind = GW_EV_DEVICE_LOST, .text = err.text});
}

/* Closes the fence first, so that no thief changes the range word that is then closed and reported. */
static void freeze(gw_node *node, gw_token token) {
    gw_node_brain *brain = &node->brain;
    end_stealing(node->network.data_links);
    move_fence(node, NULL);
    gw_payloads_freeze(node->engine.payloads);
    if (node->gpu.sums) gw_gpus_leave(node->gpu.sums);
    for (uint32_t i = 0; i < brain->view.count; i++)
        if (!gw_peer_id_equal(&brain->view.members[i].id, &node->self.identity.id))
            gw_data_links_abandon(node->network.data_links, &brain->view.members[i].id);
    if (atomic_load(&node->reduction.underway)) {
        gw_reduction_stop(&node->reduction);
        brain->frozen_token = token;
        return;
    }
    gw_node_report_frozen(node, token);
}

static void install(gw_node *node, const gw_view *view) {
    node->brain.view = *view;
    if (node->engine.payloads) gw_payloads_install(node->engine.payloads, view);
    move_fence(node, view);
    if (node->gpu.sums) gw_gpus_install(node->gpu.sums, view);
    gw_remember_note(&node->remembering);
}

static void begin_step(gw_node *node, const gw_action *action) {
    GW_ASSERT(!atomic_load(&node->reduction.underway));
    node->brain.step = action->step;
    gw_publish_step_begun(&node->publisher, action);
    gw_workers_begin_step(node->engine.workers, action->step);
}

/* What people hear. */

/* Some troubles last for weeks, such as a stranger that is started again and again: a warning that repeats is
 * logged less and less often, with the number of times. */
static void log_for_brain(gw_repeats *warned, const gw_action *action) {
    uint64_t times = 1;
    if (action->log.level == GW_WARN && !gw_repeats_admit(warned, action->log.text, gw_now_ns(), &times))
        return;
    if (times == 1)
        gw_log(action->log.level, "peer", "%s", action->log.text);
    else
        gw_log(action->log.level, "peer", "%s (%" PRIu64 " times)", action->log.text, times);
}

static void notice(gw_node *node, const gw_action *action) {
    gw_publish_notice(&node->publisher, action);
    /* A link may stand before gossip brings the peer's address: then INSTALL came too early for the file. */
    if (action->notice.kind == GW_NOTICE_PEER_ALIVE) gw_remember_note_soon(&node->remembering);
}

static void finish(gw_node_result *result, const gw_action *action) {
    free(result->text);
    *result = (gw_node_result){.finished = true,
                               .finish = action->finish.result,
                               .root = action->finish.root,
                               .text = action->finish.text ? strdup(action->finish.text) : NULL};
}

void gw_node_act(gw_node *node, const gw_action *action) {
    gw_workers *workers = node->engine.workers;
    gw_data_links *data_links = node->network.data_links;
    gw_progress_begin(&node->progress, action);
    if (gw_trace_is_on()) gw_node_trace_action(&node->brain.trace, action);
    switch (action->kind) {
    case GW_ACT_DATAGRAM:
        gw_network_send_datagram(&node->network, action);
        break;
    case GW_ACT_LINK:
        gw_network_want_link(&node->network, action);
        break;
    case GW_ACT_MESSAGE:
        gw_network_send_message(&node->network, &action->peer, action->message.bytes, action->message.length);
        break;
    case GW_ACT_FREEZE:
        freeze(node, action->token);
        break;
    case GW_ACT_INSTALL:
        install(node, action->install.view);
        break;
    case GW_ACT_BEGIN_STEP:
        begin_step(node, action);
        break;
    case GW_ACT_DEAL:
        gw_workers_deal(workers, action);
        break;
    case GW_ACT_READ_WORD:
    case GW_ACT_SWAP_WORD:
        start_word_op(node, action);
        break;
    case GW_ACT_TAKE:
        end_stealing(data_links);
        gw_workers_take(workers, action->take.first, action->take.end);
        break;
    case GW_ACT_SEAL:
        end_stealing(data_links);
        gw_workers_seal(workers, action->token);
        break;
    case GW_ACT_REDUCE:
        gw_reduction_begin(&node->reduction, &node->brain.view, node->brain.step, action);
        break;
    case GW_ACT_PROBE:
        gw_progress_task(&node->progress, GW_TASK_PROBE, action, gw_task_probe);
        break;
    case GW_ACT_LOOK:
        gw_progress_task(&node->progress, GW_TASK_LOOK, action, gw_task_look);
        break;
    case GW_ACT_APPLY:
        gw_progress_task(&node->progress, GW_TASK_APPLY, action, gw_task_apply);
        break;
    case GW_ACT_COMMIT:
        gw_progress_task(&node->progress, GW_TASK_COMMIT, action, gw_task_commit);
        break;
    case GW_ACT_LOAD:
        gw_loader_begin(&node->loader, &node->brain.view, action);
        break;
    case GW_ACT_SAVE:
        gw_publish_save(&node->publisher, action);
        gw_saver_save(node->engine.saver, action);
        break;
    case GW_ACT_ABANDON:
        gw_saver_abandon(node->engine.saver);
        break;
    case GW_ACT_MANIFEST:
        gw_saver_manifest(node->engine.saver, action);
        break;
    case GW_ACT_RETAIN:
        gw_saver_retain(node->engine.saver, action);
        gw_publish_retained(&node->publisher, action);
        break;
    case GW_ACT_PERSIST:
        gw_recorder_persist(&node->recorder, action);
        break;
    case GW_ACT_LOG:
        log_for_brain(&node->brain.warned, action);
        break;
    case GW_ACT_NOTICE:
        notice(node, action);
        break;
    case GW_ACT_FINISH:
        finish(&node->result, action);
        break;
    }
}
