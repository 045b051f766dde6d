/* Events that other threads post to the loop, which delivers them in the order posted. */
#ifndef GODWIT_TOOLS_GODWIT_THREAD_MAIL_H
#define GODWIT_TOOLS_GODWIT_THREAD_MAIL_H

#include "core/brain/world.h"
#include "net/loop/loop.h"

typedef struct gw_mailbox gw_mailbox;

/* An event with everything that it points to. If its kind is 0 it is no event: `text` is the evidence that
 * event.peer has wrong bits of a chunk. */
typedef struct gw_mail {
    struct gw_mail *next;
    gw_event event;
    uint64_t ticket; /* CLAIM: the claim's ticket for gw_workers_grant */
    /* REDUCED: its duration and traffic, and how much more that would have been unpacked */
    uint64_t took_ns, sent_bytes, received_bytes, saved_bytes;
    /* LOADED: when the checkpoint was created (checkpoint/manifest.h); 0 = not from a checkpoint */
    uint64_t created_ms;
    uint64_t chain; /* LOADED from a checkpoint: of its receipts (tools/godwit/receipt); 0: not known */
    char text[500]; /* storage of event.text where gw_mail_text has set it */
    gw_set held, claimed;
    int64_t *slots;
    gw_hash *hashes;
    gw_recheck *checks;
    /* bytes of a MESSAGE or DATAGRAM; APPLIED: the text to report, or NULL; LOADED: `bytes_count` bytes of
     * the steps that led to the state (tools/godwit/work/history.h), where a peer has told them */
    uint8_t *bytes;
    size_t bytes_count;
    uint64_t loaded_step; /* LOADED: of that state */
    gw_addr *seeds;
} gw_mail;

typedef void gw_mail_deliver(void *context, gw_mail *mail);

/* Opens a mailbox; `deliver` is called on the loop's thread for each mail. Returns NULL when memory runs
 * out. */
gw_mailbox *gw_mailbox_open(gw_loop *loop, gw_mail_deliver *deliver, void *context, gw_err *err);
/* Drops mails that were not delivered. The loop no longer runs, and no other thread posts any more. NULL
 * is allowed. */
void gw_mailbox_close(gw_mailbox *box);

/* Returns a zeroed mail. Running out of memory for it ends the process. Thread: any. */
gw_mail *gw_mail_new(gw_event_kind kind, gw_token token);
void gw_mail_text(gw_mail *mail, const char *text);
/* Sets the outcome: DONE where `why` is NULL; otherwise ABORTED for GW_E_ABORTED and FAILED for other
 * errors, with the text. */
void gw_mail_outcome(gw_mail *mail, const gw_err *why);
/* Copies the bytes, and lets the event of a MESSAGE or a DATAGRAM point to the copy. */
void gw_mail_bytes(gw_mail *mail, const void *bytes, size_t length);
/* Copies the addresses, those of seeds and this peer's own, and lets the event point to the copy. */
void gw_mail_seeds(gw_mail *mail, const gw_addr *addrs, uint32_t count, const gw_addr *own,
                   uint32_t own_count);
/* Posts the mail, which the mailbox owns from here on. Thread: any. */
void gw_mailbox_post(gw_mailbox *box, gw_mail *mail);
/* Frees a mail; the mailbox calls it after the delivery. */
void gw_mail_free(gw_mail *mail);

#endif
