/* What each action of the brain means in the real world. */
#include "core/base/assert.h"
#include "core/base/log.h"
#include "core/os/clock.h"
#include "core/os/durable.h"
#include "core/record/sealed.h"
#include "tools/godwit/node/inside.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- network ---- */

static void send_datagram(gw_node *node, const gw_action *action) {
    if (action->datagram.length > GW_PACKET_BODY) {
        gw_log(GW_WARN, "node", "gossip of %zu bytes is too long for a packet", action->datagram.length);
        return;
    }
    uint8_t datagram[GW_DATAGRAM_BYTES];
    size_t length = gw_packet_seal(node->packets, action->datagram.bytes, action->datagram.length, datagram);
    node->shown.counter[GW_COUNT_CONTROL_SENT] += length;
    gw_udp_send(node->udp, &action->datagram.to, datagram, length);
}

static void want_link(gw_node *node, const gw_action *action) {
    gw_err err;
    if (!action->link.wanted) {
        gw_links_unwant(node->links, &action->peer);
        gw_wires_drop(node->wires, &action->peer);
        return;
    }
    if (!gw_links_want(node->links, &action->peer, action->link.addrs, action->link.addr_count, &err))
        gw_log(GW_WARN, "node", "link: %s", err.text);
}

static void send_message(gw_node *node, const gw_action *action) {
    gw_err err;
    if (gw_links_send(node->links, &action->peer, action->message.bytes, action->message.length, &err))
        node->shown.counter[GW_COUNT_CONTROL_SENT] += action->message.length;
    else if (err.code != GW_E_NOTFOUND)
        gw_log(GW_WARN, "node", "message: %s", err.text);
}

/* ---- one-sided operations on range words ---- */

typedef struct word_op {
    gw_wire_op op; /* first */
    gw_node *node;
    gw_token token;
    bool swap;
    uint64_t buffer;
} word_op;

static void word_done(gw_wire_op *op, const gw_completion *completion) {
    word_op *w = (word_op *)op;
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
    case GW_OP_UNREACHABLE:
        mail->event.word.outcome = GW_WORD_FENCED;
        break; /* nothing has happened */
    }
    gw_mailbox_post(w->node->mail, mail);
    free(w);
}

static void word_op_start(gw_node *node, const gw_action *action) {
    word_op *w = calloc(1, sizeof *w);
    GW_ASSERT_MEMORY(w != NULL);
    *w = (word_op){.op = {.done = word_done},
                   .node = node,
                   .token = action->token,
                   .swap = action->kind == GW_ACT_SWAP_WORD};
    gw_op request = {
        .kind = w->swap ? GW_OP_CAS : GW_OP_READ,
        .peer = action->peer,
        .fence = {.epoch = node->view.epoch, .view = node->view.name},
        .region = GW_REGION_RANGE,
        .bytes = sizeof(uint64_t),
        .buffer = &w->buffer,
        .expected = action->swap_word.expected,
        .operand = action->swap_word.desired,
    };
    gw_transport_spin(gw_wires_transport(node->wires), true); /* who steals has a worker to spare */
    gw_wires_post(node->wires, &request, &w->op);
}

/* Nobody is idle, or there is nothing left to steal. */
static void end_stealing(gw_node *node) {
    gw_transport_spin(gw_wires_transport(node->wires), false);
}

/* ---- views and steps ---- */

static void say_frozen(gw_node *node, gw_token token) {
    gw_frozen frozen;
    gw_workers_freeze(node->workers, &frozen);
    gw_mail *mail = gw_mail_new(GW_EV_FROZEN, token);
    mail->held = frozen.held;
    mail->claimed = frozen.claimed;
    mail->event.frozen.accumulator_step = frozen.step;
    mail->event.frozen.poisoned = frozen.poisoned;
    mail->event.frozen.held = frozen.held.size > 0 ? &mail->held : NULL;
    mail->event.frozen.claimed = frozen.claimed.size > 0 ? &mail->claimed : NULL;
    gw_mailbox_post(node->mail, mail);
}

/* Without its fence a peer serves nobody, and those who wait for it would wait for ever: it leaves. */
static void move_fence(gw_node *node, const gw_view *view) {
    gw_err err;
    if (gw_wires_fence(node->wires, view, &err) || node->unfenced) return;
    node->unfenced = true;
    gw_fail_in(&err, "the fence of a view");
    gw_node_feed(node, &(gw_event){.kind = GW_EV_DEVICE_LOST, .text = err.text});
}

/* The fence closes first, so that no thief changes the word that is then closed and reported. */
static void freeze(gw_node *node, gw_token token) {
    end_stealing(node);
    move_fence(node, NULL);
    gw_payloads_freeze(node->payloads);
    if (node->gpus) gw_gpus_leave(node->gpus);
    for (uint32_t i = 0; i < node->view.count; i++)
        if (!gw_peer_id_equal(&node->view.members[i].id, &node->self.id))
            gw_wires_abandon(node->wires, &node->view.members[i].id);
    if (atomic_load(&node->reduction.underway)) {
        gw_reduction_stop(&node->reduction);
        node->frozen_token = token;
        return;
    }
    say_frozen(node, token);
}

static void install(gw_node *node, const gw_view *view) {
    node->view = *view;
    if (node->payloads) gw_payloads_install(node->payloads, view);
    move_fence(node, view);
    if (node->gpus) gw_gpus_install(node->gpus, view);
    gw_node_remember(node, view);
}

static void begin_step(gw_node *node, const gw_action *action) {
    GW_ASSERT(!atomic_load(&node->reduction.underway));
    node->step = action->step;
    if (node->shown.step_ns == 0) node->shown.step_ns = gw_now_ns(); /* waiting for peers is no step's time */
    gw_workers_begin_step(node->workers, action->step);
}

/* ---- the record ---- */

typedef struct record {
    gw_node *node;
    gw_token token;
    bool gave_up;  /* it says at which shard */
    size_t length; /* with its checksum */
    uint8_t bytes[];
} record;

bool gw_node_record_path(const gw_node *node, char path[GW_PATH_BYTES], gw_err *err) {
    char job[GW_HASH_TEXT];
    gw_hex(node->job_id.bytes, sizeof node->job_id.bytes, job);
    return gw_durable_path(path, err, "%s/record-%s", node->options->dir, job);
}

static void run_persist(void *context) {
    record *r = context;
    char temporary[GW_PATH_BYTES], path[GW_PATH_BYTES];
    gw_err err;
    const char *dir = r->node->options->dir;
    bool good = gw_durable_path(temporary, &err, "%s/record.new", dir) &&
                gw_node_record_path(r->node, path, &err) &&
                gw_durable_replace(gw_io_system(), temporary, dir, path, r->bytes, r->length, &err);
    gw_mail *mail = gw_mail_new(GW_EV_PERSISTED, r->token);
    gw_mail_outcome(mail, good ? NULL : &err);
    if (!good && !r->node->record_fails)
        gw_log(GW_WARN, "node", "the protocol record is not on disk: %s", err.text);
    r->node->record_fails = !good;
    if (good) gw_claim_journal_drop_earlier(r->node->claims);
    if (good && r->gave_up) gw_claim_journal_drop_own(r->node->claims);
    gw_mailbox_post(r->node->mail, mail);
    free(r);
}

static void persist(gw_node *node, const gw_action *action) {
    record *r = malloc(sizeof *r + action->persist.length + GW_RECORD_FILE_CHECKSUM);
    GW_ASSERT_MEMORY(r != NULL);
    r->node = node;
    r->token = action->token;
    r->gave_up = node->gave_up;
    r->length = action->persist.length + GW_RECORD_FILE_CHECKSUM;
    memcpy(r->bytes, action->persist.bytes, action->persist.length);
    gw_record_file_seal(r->bytes, action->persist.length);
    gw_helper_give(node->disk, run_persist, r);
}

static void run_recorded(void *context) {
    const gw_node *node = context;
    if (!node->record_fails) gw_claim_journal_drop_earlier(node->claims);
}

/* After the record that the brain may have asked for at its start: without one it had been told no news. */
void gw_node_started(gw_node *node) {
    gw_helper_give(node->disk, run_recorded, node);
}

static void save(gw_node *node, const gw_action *action) {
    gw_node_show_save(node, action);
    gw_saver_save(node->saver, action);
}

/* ---- the end ---- */

/* Some trouble, such as a stranger that is started again and again, lasts for weeks. */
static void say(gw_node *node, const gw_action *action) {
    uint64_t times = 1;
    if (action->log.level == GW_WARN &&
        !gw_repeats_admit(&node->warned, action->log.text, gw_now_ns(), &times))
        return;
    if (times == 1)
        gw_log(action->log.level, "peer", "%s", action->log.text);
    else
        gw_log(action->log.level, "peer", "%s (%" PRIu64 " times)", action->log.text, times);
}

static void finish(gw_node *node, const gw_action *action) {
    node->finished = true;
    node->finish = action->finish.result;
    node->final_root = action->finish.root;
    free(node->final_text);
    node->final_text = action->finish.text ? strdup(action->finish.text) : NULL;
}

void gw_node_act(gw_node *node, const gw_action *action) {
    gw_node_work_given(node, action);
    switch (action->kind) {
    case GW_ACT_DATAGRAM:
        send_datagram(node, action);
        break;
    case GW_ACT_LINK:
        want_link(node, action);
        break;
    case GW_ACT_MESSAGE:
        send_message(node, action);
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
        gw_workers_deal(node->workers, action);
        break;
    case GW_ACT_READ_WORD:
    case GW_ACT_SWAP_WORD:
        word_op_start(node, action);
        break;
    case GW_ACT_TAKE:
        end_stealing(node);
        gw_workers_take(node->workers, action->take.first, action->take.end);
        break;
    case GW_ACT_SEAL:
        end_stealing(node);
        gw_workers_seal(node->workers, action->token);
        break;
    case GW_ACT_REDUCE:
        gw_reduction_begin(&node->reduction, &node->view, node->step, action);
        break;
    case GW_ACT_PROBE:
        gw_node_task(node, GW_TASK_PROBE, action, gw_task_probe);
        break;
    case GW_ACT_LOOK:
        gw_node_task(node, GW_TASK_LOOK, action, gw_task_look);
        break;
    case GW_ACT_APPLY:
        gw_node_task(node, GW_TASK_APPLY, action, gw_task_apply);
        break;
    case GW_ACT_COMMIT:
        gw_node_task(node, GW_TASK_COMMIT, action, gw_task_commit);
        break;
    case GW_ACT_LOAD:
        gw_loader_begin(&node->loader, &node->view, action);
        break;
    case GW_ACT_SAVE:
        save(node, action);
        break;
    case GW_ACT_ABANDON:
        gw_saver_abandon(node->saver);
        break;
    case GW_ACT_MANIFEST:
        gw_saver_manifest(node->saver, action);
        break;
    case GW_ACT_RETAIN:
        gw_saver_retain(node->saver, action);
        gw_node_show_retained(node, action->retain.roots, action->retain.count);
        break;
    case GW_ACT_PERSIST:
        persist(node, action);
        break;
    case GW_ACT_LOG:
        say(node, action);
        break;
    case GW_ACT_NOTICE:
        gw_node_notice(node, action);
        break;
    case GW_ACT_FINISH:
        finish(node, action);
        break;
    }
}

void gw_node_reduced(gw_node *node) {
    atomic_store(&node->reduction.underway, false);
}

void gw_node_thaw(gw_node *node) {
    if (node->frozen_token == 0) return;
    say_frozen(node, node->frozen_token);
    node->frozen_token = 0;
}
