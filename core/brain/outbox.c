#include "core/brain/outbox.h"

#include "core/base/assert.h"
#include "core/brain/self.h"
#include "core/brain/state.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    WAITS_MS = 2000,   /* between two notices of what this peer waits for */
    BRIEFLY_MS = 1000, /* before the first notice of what is soon there in most cases */
};

gw_token gw_peer_token(gw_peer *p) {
    return ++p->outbox.last_token;
}

gw_action *gw_peer_act(gw_peer *p, gw_action_kind kind) {
    GW_ASSERT(p->actions != NULL);
    return gw_actions_add(p->actions, kind);
}

static const char *keep_text(gw_peer *p, const char *format, va_list args) {
    char text[GW_TEXT_BYTES];
    vsnprintf(text, sizeof text, format, args);
    return gw_actions_copy(p->actions, text, strlen(text) + 1);
}

void gw_peer_say(gw_peer *p, gw_level level, const char *format, ...) {
    va_list args;
    va_start(args, format);
    const char *text = keep_text(p, format, args);
    va_end(args);
    gw_action *log = gw_peer_act(p, GW_ACT_LOG);
    log->log.level = level;
    log->log.text = text;
}

gw_action *gw_peer_notice(gw_peer *p, gw_notice_kind notice, const char *format, ...) {
    va_list args;
    va_start(args, format);
    const char *text = keep_text(p, format, args);
    va_end(args);
    gw_action *action = gw_peer_act(p, GW_ACT_NOTICE);
    action->notice.kind = notice;
    action->notice.text = text;
    return action;
}

static void note_wait(gw_peer *p, const char *format, va_list args) {
    vsnprintf(p->outbox.waits_for, sizeof p->outbox.waits_for, format, args);
}

static void tell_wait(gw_peer *p) {
    if (p->now < p->outbox.waits_due_ns) return;
    p->outbox.waits_due_ns = p->now + WAITS_MS * GW_MS;
    gw_peer_notice(p, GW_NOTICE_PHASE, "%s", p->outbox.waits_for);
}

void gw_peer_waits(gw_peer *p, const char *format, ...) {
    va_list args;
    va_start(args, format);
    note_wait(p, format, args);
    va_end(args);
    p->outbox.waits_since_ns = 0;
    tell_wait(p);
}

void gw_peer_waits_briefly(gw_peer *p, const char *format, ...) {
    va_list args;
    va_start(args, format);
    note_wait(p, format, args);
    va_end(args);
    if (p->outbox.waits_since_ns == 0) p->outbox.waits_since_ns = p->now;
    if (p->now >= p->outbox.waits_since_ns + BRIEFLY_MS * GW_MS) tell_wait(p);
}

void gw_peer_waits_no_more(gw_peer *p) {
    p->outbox.waits_for[0] = '\0';
    p->outbox.waits_since_ns = 0;
}

void gw_peer_send(gw_peer *p, const gw_peer_id *to, gw_message *message) {
    GW_ASSERT(!gw_peer_id_equal(to, &p->config.id));
    message->job = p->job;
    uint8_t *bytes;
    size_t length = gw_message_encode(message, &bytes);
    gw_action *action = gw_peer_act(p, GW_ACT_MESSAGE);
    action->peer = *to;
    action->message.length = length;
    action->message.bytes = gw_actions_copy(p->actions, bytes, length);
    free(bytes);
}

const char *gw_peer_why(const gw_event *event) {
    return event->text == NULL ? "no reason given" : event->text;
}

gw_message gw_peer_about_view(const gw_peer *p, gw_message_kind kind) {
    return (gw_message){.kind = kind, .epoch = p->view.current.epoch, .name = p->view.current.name};
}

void gw_peer_send_members(gw_peer *p, gw_message *message) {
    for (uint32_t i = 0; i < p->view.current.count; i++)
        if (!gw_peer_id_equal(&p->view.current.members[i].id, &p->config.id))
            gw_peer_send(p, &p->view.current.members[i].id, message);
}

void gw_peer_finish(gw_peer *p, gw_finish finish, const gw_hash *root, const char *format, ...) {
    if (p->phase == GW_AT_OVER) return;
    va_list args;
    va_start(args, format);
    const char *text = keep_text(p, format, args);
    va_end(args);
    p->phase = GW_AT_OVER;
    p->outbox.farewell = (gw_farewell){
        .due = true, .result = finish, .text = text, .has_root = root != NULL, .actions = p->actions->count};
    if (root != NULL) p->outbox.farewell.root = *root;
}

bool gw_peer_take_farewell(gw_peer *p, gw_farewell *farewell) {
    if (!p->outbox.farewell.due) return false;
    *farewell = p->outbox.farewell;
    p->outbox.farewell.due = false;
    p->actions->count = farewell->actions;
    return true;
}
