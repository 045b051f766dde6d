/* The results that a writer's callback brought, kept for the thread of the test, which waits for them. */
#ifndef GODWIT_TESTS_CHECKPOINT_MAILBOX_H
#define GODWIT_TESTS_CHECKPOINT_MAILBOX_H

#include "checkpoint/writer.h"

#include <pthread.h>

enum { MAILBOX_MOST = 4096, MAILBOX_CHUNKS = 16 };

typedef struct mail {
    gw_ckpt_done done; /* its pointers point into this struct, or are NULL */
    gw_ckpt_chunk chunks[MAILBOX_CHUNKS];
    gw_err err;
} mail;

typedef struct mailbox {
    pthread_mutex_t lock;
    pthread_cond_t arrived;
    unsigned count, taken;
    mail list[MAILBOX_MOST];
} mailbox;

void mailbox_init(mailbox *box);
/* gw_ckpt_done_fn; the context is the mailbox. */
void mailbox_deliver(void *context, const gw_ckpt_done *done);
/* Waits for the next letter, in order, and returns it; it stays valid. */
const mail *mailbox_next(mailbox *box);

#endif
