/* What a peer says and asks of its world: actions and their tokens, messages to other peers, log lines and notices for
 * people, and the peer's end. Every room of the brain speaks outwards through these functions, which append to
 * p->actions in the order of the calls. */
#ifndef GODWIT_CORE_BRAIN_OUTBOX_H
#define GODWIT_CORE_BRAIN_OUTBOX_H

#include "core/brain/message.h"
#include "core/brain/peer.h"

/* How a peer ends, from gw_peer_finish until gw_peer_step has said farewell. */
typedef struct gw_farewell {
    bool due; /* it has not been said yet */
    gw_finish result;
    const char *text; /* for people; owned by p->actions */
    bool has_root;
    gw_hash root;     /* of the final checkpoint */
    uint32_t actions; /* number of actions before the end: later ones are dropped */
} gw_farewell;

enum { GW_TEXT_BYTES = 600 }; /* longer texts for people are cut */

typedef struct gw_outbox {
    gw_token last_token;
    char waits_for[GW_TEXT_BYTES]; /* what this peer waits for; "" = nothing since a view was installed */
    uint64_t waits_due_ns;         /* no notice of that is emitted before this time */
    gw_farewell farewell;
} gw_outbox;

/* A token that no other action of this peer's life has. */
gw_token gw_peer_token(gw_peer *p);
/* Appends an action of this kind, zeroed but for the kind; valid until the next one is appended. */
gw_action *gw_peer_act(gw_peer *p, gw_action_kind kind);
void gw_peer_say(gw_peer *p, gw_level level, const char *format, ...) __attribute__((format(printf, 3, 4)));
gw_action *gw_peer_notice(gw_peer *p, gw_notice_kind notice, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* What this peer waits for, for people. The newest reason is kept for the status; a notice tells it at most every two
 * seconds. */
void gw_peer_waits(gw_peer *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A view is installed: this peer waits for nothing. */
void gw_peer_waits_no_more(gw_peer *p);
/* The text of an event that reports a failure, for people. */
const char *gw_peer_why(const gw_event *event);

/* Sends the message to another peer; sets its job. The message stays the caller's. */
void gw_peer_send(gw_peer *p, const gw_peer_id *to, gw_message *message);
/* The same to all other members of the installed view. */
void gw_peer_send_members(gw_peer *p, gw_message *message);
/* A message of this kind about the installed view. */
gw_message gw_peer_about_view(const gw_peer *p, gw_message_kind kind);

/* Records how this peer ends, with the text for people and the root of the final checkpoint (NULL: none). From now on
 * p->phase is GW_AT_OVER: no action that follows is carried out, but for the farewell, which gw_peer_step says. Only
 * the first call counts. */
void gw_peer_finish(gw_peer *p, gw_finish finish, const gw_hash *root, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Whether this peer has ended and has yet to say farewell: fills *farewell, once, and drops the actions that came after
 * the end. */
bool gw_peer_take_farewell(gw_peer *p, gw_farewell *farewell);

#endif
