#include "tests/checkpoint/mailbox.h"

#include <criterion/criterion.h>
#include <string.h>

void mailbox_init(mailbox *box) {
    pthread_mutex_init(&box->lock, NULL);
    pthread_cond_init(&box->arrived, NULL);
    box->count = box->taken = 0;
}

void mailbox_deliver(void *context, const gw_ckpt_done *done) {
    mailbox *box = context;
    pthread_mutex_lock(&box->lock);
    if (box->count < MAILBOX_MOST) {
        mail *letter = &box->list[box->count++];
        letter->done = *done;
        if (done->chunk_count > 0 && done->chunk_count <= MAILBOX_CHUNKS)
            memcpy(letter->chunks, done->chunks, done->chunk_count * sizeof *done->chunks);
        letter->done.chunks = letter->chunks;
        if (done->err != NULL) {
            letter->err = *done->err;
            letter->done.err = &letter->err;
        }
    }
    pthread_cond_signal(&box->arrived);
    pthread_mutex_unlock(&box->lock);
}

const mail *mailbox_next(mailbox *box) {
    pthread_mutex_lock(&box->lock);
    while (box->taken == box->count) pthread_cond_wait(&box->arrived, &box->lock);
    const mail *letter = &box->list[box->taken++];
    pthread_mutex_unlock(&box->lock);
    return letter;
}
