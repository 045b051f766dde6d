/* Events of other threads on their way to the loop, in the order posted. */
#ifndef GODWIT_TOOLS_GODWIT_THREAD_MAIL_H
#define GODWIT_TOOLS_GODWIT_THREAD_MAIL_H

#include "core/brain/world.h"
#include "net/loop/loop.h"

typedef struct gw_mailbox gw_mailbox;

/* An event with everything it points to; of kind 0 it is none: `text` is the evidence that event.peer has
 * other bits of a chunk than it should have. */
typedef struct gw_mail {
    struct gw_mail *next;
    gw_event event;
    uint64_t ticket;                              /* CLAIM: for gw_workers_grant */
    uint64_t took_ns, sent_bytes, received_bytes; /* REDUCED */
    uint64_t created_ms; /* LOADED: the checkpoint that the state is from (checkpoint/manifest.h); 0 = none */
    char text[500];      /* what event.text points to, when set by gw_mail_text */
    gw_set held, claimed;
    int64_t *slots;
    gw_hash *hashes;
    gw_recheck *checks;
    uint8_t *bytes; /* of a MESSAGE or a DATAGRAM; APPLIED: the text to report, or NULL */
    gw_addr *seeds;
} gw_mail;

typedef void gw_mail_deliver(void *context, gw_mail *mail);

/* `deliver` is called on the loop's thread. NULL out of memory. */
gw_mailbox *gw_mailbox_open(gw_loop *loop, gw_mail_deliver *deliver, void *context, gw_err *err);
/* Drops what was not delivered. The loop may run no more; no other thread may post any more. NULL is allowed.
 */
void gw_mailbox_close(gw_mailbox *box);

/* A zeroed mail. Out of memory for these few bytes is a broken invariant. Any thread. */
gw_mail *gw_mail_new(gw_event_kind kind, gw_token token);
void gw_mail_text(gw_mail *mail, const char *text);
/* What came of what was asked for: NULL: DONE; else, with its text, ABORTED for GW_E_ABORTED or FAILED. */
void gw_mail_outcome(gw_mail *mail, const gw_err *why);
/* Copies into `bytes`, to which the event of a MESSAGE or a DATAGRAM then points. */
void gw_mail_bytes(gw_mail *mail, const void *bytes, size_t length);
/* Copies into `seeds`, to which the event points. */
void gw_mail_seeds(gw_mail *mail, const gw_addr *addrs, uint32_t count);
/* Takes the mail. Any thread. */
void gw_mailbox_post(gw_mailbox *box, gw_mail *mail);
/* For the one who delivers: frees the mail after the call. */
void gw_mail_free(gw_mail *mail);

#endif
