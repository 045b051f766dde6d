/* What a peer tells its world: actions and their tokens, messages to other peers, log lines and notices for
 * people, and its end. Every room of the brain speaks through these functions, which append to p->actions in
 * the order of the calls. Only this file writes p->outbox. */
#ifndef GODWIT_CORE_BRAIN_OUTBOX_H
#define GODWIT_CORE_BRAIN_OUTBOX_H

#include "core/brain/message.h"
#include "core/brain/peer.h"

/* How this peer ends. gw_peer_finish records it, and gw_peer_step says farewell before it returns. */
typedef struct gw_farewell {
    bool due; /* this peer has ended and not said farewell yet */
    gw_finish result;
    const char *text; /* the reason, for people; owned by p->actions */
    bool has_root;    /* a final checkpoint is complete */
    gw_hash root;     /* root of the final checkpoint */
    uint32_t actions; /* number of actions before the end; later ones are dropped */
} gw_farewell;

typedef struct gw_outbox {
    gw_token last_token;
    char waits_for[GW_TEXT_BYTES]; /* the newest reason to wait; "" = none since a view was installed */
    uint64_t waits_since_ns; /* since when it waits for what is soon there in most cases; 0 = it does not */
    uint64_t waits_due_ns;   /* no notice of a reason to wait is emitted before this time */
    gw_farewell farewell;
} gw_outbox;

/* Returns a token that no other action in the life of this peer has. */
gw_token gw_peer_token(gw_peer *p);
/* Appends an action of this kind with zeros in all other members. The pointer is valid until the next action
 * is appended. */
gw_action *gw_peer_act(gw_peer *p, gw_action_kind kind);
/* Appends a log line. */
void gw_peer_say(gw_peer *p, gw_level level, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Appends a notice with this text. The caller fills the members that its kind has. */
gw_action *gw_peer_notice(gw_peer *p, gw_notice_kind notice, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Notes for what this peer waits, for people. The status shows the newest reason; notices of reasons are at
 * least two seconds apart. */
void gw_peer_waits(gw_peer *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Does so for what is there within milliseconds in most cases: no notice is emitted in the first second. */
void gw_peer_waits_briefly(gw_peer *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A view is installed, so that this peer waits for nothing. */
void gw_peer_waits_no_more(gw_peer *p);
/* Returns the text of an event that reports a failure, for people; never NULL. */
const char *gw_peer_why(const gw_event *event);

/* Sends a message to another peer. The function sets the message's job; the message stays the caller's. */
void gw_peer_send(gw_peer *p, const gw_peer_id *to, gw_message *message);
/* Sends a message to all other members of the installed view. */
void gw_peer_send_members(gw_peer *p, gw_message *message);
/* Returns a message of this kind about the installed view, without any fields of its kind. */
gw_message gw_peer_about_view(const gw_peer *p, gw_message_kind kind);

/* Ends this peer, with a text for people and the root of the final checkpoint, or NULL. Only the first call
 * counts. It sets p->phase to GW_AT_OVER and records the end; of the actions that follow only the farewell is
 * carried out. */
void gw_peer_finish(gw_peer *p, gw_finish finish, const gw_hash *root, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Fills *farewell and drops the actions that were appended after the end, once after a peer has ended.
 * Returns false at all other times. */
bool gw_peer_take_farewell(gw_peer *p, gw_farewell *farewell);

#endif
