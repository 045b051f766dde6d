#include "tools/godwit/work/report.h"

#include "core/base/assert.h"

#include <stdlib.h>
#include <string.h>

static void on_dry(void *context, uint32_t tag) {
    gw_mail *mail = gw_mail_new(GW_EV_DRY, 0);
    mail->event.dry.tag = tag;
    gw_mailbox_post(((gw_reports *)context)->mail, mail);
}

static void on_claim(void *context, uint32_t worker, uint32_t shard, uint64_t ticket) {
    gw_mail *mail = gw_mail_new(GW_EV_CLAIM, 0);
    mail->event.claim.worker = worker;
    mail->event.claim.shard = shard;
    mail->ticket = ticket;
    gw_mailbox_post(((gw_reports *)context)->mail, mail);
}

static void on_sealed(void *context, gw_token token, uint64_t speed, const gw_recheck *checks,
                      uint32_t count) {
    const gw_reports *reports = context;
    gw_mail *mail = gw_mail_new(GW_EV_SEALED, token);
    gw_exact_bad bad;
    reports->device->ops->bad(reports->device, &bad);
    mail->event.sealed.speed = speed;
    mail->event.sealed.joules = gw_energy_meter_shard(reports->energy);
    mail->checks = calloc(count ? count : 1, sizeof *checks);
    GW_ASSERT_MEMORY(mail->checks != NULL);
    memcpy(mail->checks, checks, count * sizeof *checks);
    mail->event.sealed.rechecks = mail->checks;
    mail->event.sealed.recheck_count = count;
    mail->event.sealed.bad =
        (gw_bad){.present = bad.any, .shard = bad.shard, .tensor = bad.tensor, .index = bad.index};
    gw_mailbox_post(reports->mail, mail);
}

static void on_shard_failed(void *context, uint32_t shard, const char *text) {
    gw_mail *mail = gw_mail_new(GW_EV_SHARD_FAILED, 0);
    mail->event.shard_failed.shard = shard;
    gw_mail_text(mail, text);
    gw_mailbox_post(((gw_reports *)context)->mail, mail);
}

static void on_shard_lost(void *context, uint32_t shard, const char *text) {
    gw_mail *mail = gw_mail_new(GW_EV_SHARD_LOST, 0);
    mail->event.shard_lost.shard = shard;
    gw_mail_text(mail, text);
    gw_mailbox_post(((gw_reports *)context)->mail, mail);
}

static void on_running(void *context, uint32_t worker, uint64_t step, uint32_t shard, bool runs) {
    gw_claim_journal *claims = *((gw_reports *)context)->claims;
    if (claims && runs) gw_claim_journal_begin(claims, worker, step, shard);
    if (claims && !runs) gw_claim_journal_end(claims, worker);
}

gw_workers_events gw_reports_events(gw_reports *reports) {
    return (gw_workers_events){.context = reports,
                               .dry = on_dry,
                               .claim = on_claim,
                               .sealed = on_sealed,
                               .shard_failed = on_shard_failed,
                               .shard_lost = on_shard_lost,
                               .running = on_running};
}
