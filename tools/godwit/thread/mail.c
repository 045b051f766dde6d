#include "tools/godwit/thread/mail.h"

#include "core/base/assert.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct gw_mailbox {
    gw_loop *loop;
    gw_mail_deliver *deliver;
    void *context;
    pthread_mutex_t lock;
    gw_mail *first, **end;
};

gw_mailbox *gw_mailbox_open(gw_loop *loop, gw_mail_deliver *deliver, void *context, gw_err *err) {
    gw_mailbox *box = calloc(1, sizeof *box);
    if (!box) {
        gw_fail(err, GW_E_NOMEM, "mailbox: out of memory");
        return NULL;
    }
    *box = (gw_mailbox){.loop = loop, .deliver = deliver, .context = context};
    box->end = &box->first;
    pthread_mutex_init(&box->lock, NULL);
    return box;
}

void gw_mailbox_close(gw_mailbox *box) {
    if (!box) return;
    while (box->first) {
        gw_mail *mail = box->first;
        box->first = mail->next;
        gw_mail_free(mail);
    }
    pthread_mutex_destroy(&box->lock);
    free(box);
}

gw_mail *gw_mail_new(gw_event_kind kind, gw_token token) {
    gw_mail *mail = calloc(1, sizeof *mail);
    GW_ASSERT_MEMORY(mail != NULL);
    mail->event.kind = kind;
    mail->event.token = token;
    return mail;
}

void gw_mail_text(gw_mail *mail, const char *text) {
    snprintf(mail->text, sizeof mail->text, "%s", text);
    mail->event.text = mail->text;
}

void gw_mail_outcome(gw_mail *mail, const gw_err *why) {
    mail->event.outcome = !why ? GW_DONE : why->code == GW_E_ABORTED ? GW_ABORTED : GW_FAILED;
    if (why) gw_mail_text(mail, why->text);
}

void gw_mail_bytes(gw_mail *mail, const void *bytes, size_t length) {
    mail->bytes = malloc(length ? length : 1);
    GW_ASSERT_MEMORY(mail->bytes != NULL);
    memcpy(mail->bytes, bytes, length);
    if (mail->event.kind == GW_EV_MESSAGE) {
        mail->event.message.bytes = mail->bytes;
        mail->event.message.length = length;
    } else if (mail->event.kind == GW_EV_DATAGRAM) {
        mail->event.datagram.bytes = mail->bytes;
        mail->event.datagram.length = length;
    }
}

void gw_mail_seeds(gw_mail *mail, const gw_addr *addrs, uint32_t count, const gw_addr *own,
                   uint32_t own_count) {
    mail->seeds = calloc(count + own_count + 1, sizeof *addrs);
    GW_ASSERT_MEMORY(mail->seeds != NULL);
    memcpy(mail->seeds, addrs, count * sizeof *addrs);
    memcpy(mail->seeds + count, own, own_count * sizeof *own);
    mail->event.seeds.addrs = mail->seeds;
    mail->event.seeds.count = count;
    mail->event.seeds.own = mail->seeds + count;
    mail->event.seeds.own_count = own_count;
}

void gw_mail_free(gw_mail *mail) {
    gw_set_free(&mail->held);
    gw_set_free(&mail->claimed);
    free(mail->slots);
    free(mail->hashes);
    free(mail->checks);
    free(mail->bytes);
    free(mail->seeds);
    free(mail);
}

/* Delivers the mails that are there now. Mails that are posted meanwhile wait for the next turn of the
 * loop. */
static void deliver_all(void *context) {
    gw_mailbox *box = context;
    pthread_mutex_lock(&box->lock);
    gw_mail *mail = box->first;
    box->first = NULL;
    box->end = &box->first;
    pthread_mutex_unlock(&box->lock);
    while (mail) {
        gw_mail *next = mail->next;
        box->deliver(box->context, mail);
        gw_mail_free(mail);
        mail = next;
    }
}

void gw_mailbox_post(gw_mailbox *box, gw_mail *mail) {
    mail->next = NULL;
    pthread_mutex_lock(&box->lock);
    bool wake = box->first == NULL;
    *box->end = mail;
    box->end = &mail->next;
    pthread_mutex_unlock(&box->lock);
    gw_err err;
    if (wake) GW_ASSERT_MEMORY(gw_loop_post(box->loop, deliver_all, box, &err));
}
