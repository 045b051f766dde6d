#include "core/brain/record.h"

#include "core/base/assert.h"
#include "core/brain/outbox.h"
#include "core/brain/self.h"
#include "core/brain/state.h"

#include <stdlib.h>
#include <string.h>

enum {
    WAIT_MS =
        1000, /* a step waits for a durable record for so long; a disk that hangs must not stop the job */
    AGAIN_MS = 1000, /* a record that the disk refused is written again after this time */
};

static void keep_old_ballot(gw_peer *p, const uint8_t *bytes, size_t length) {
    p->record.old_ballot = malloc(length + 1);
    GW_ASSERT_MEMORY(p->record.old_ballot != NULL);
    memcpy(p->record.old_ballot, bytes, length);
    p->record.old_ballot_length = length;
}

bool gw_peer_record_read(gw_peer *p, const gw_peer_config *config, gw_peer_record_content *content,
                         gw_err *err) {
    if (config->record == NULL || config->record_length == 0) return true;
    gw_reader r = gw_reader_on(config->record, config->record_length);
    gw_hash job;
    gw_ballot_get(&r, &content->ballot);
    if (!content->ballot.majority) keep_old_ballot(p, config->record, r.position);
    gw_get_hash(&r, &job);
    gw_shard_deaths_get(&r, &content->deaths);
    gw_convictions_get(&r, &content->convictions);
    content->heard_epoch = gw_get_epoch(&r);
    gw_given_up_get(&r, &content->given_up);
    if (!gw_reader_done(&r) && config->record[0] != GW_BALLOT_VERSION)
        return gw_fail(
            err, GW_E_CORRUPT,
            "the protocol record of this directory is of version %u, this build writes "
            "version %d: go on with the build that wrote it, or join afresh with another directory",
            config->record[0], GW_BALLOT_VERSION);
    if (!gw_reader_done(&r))
        return gw_fail(err, GW_E_CORRUPT,
                       "the protocol record of this directory is damaged at byte %zu; "
                       "a peer that forgot its votes must not vote: move the directory away and join afresh",
                       r.position);
    if (!gw_hash_equal(&job, &p->job))
        return gw_fail(err, GW_E_CORRUPT,
                       "the protocol record is another job's, whose votes say nothing of this one: "
                       "put it back under that job's name");
    return true;
}

void gw_peer_record_close(gw_peer *p) {
    free(p->record.old_ballot);
}

/* Encodes the record into *bytes, which the caller frees, and returns its length. */
static size_t encode(const gw_peer *p, uint8_t **bytes) {
    bool majority = p->view.ballot.majority;
    const gw_ballot none = {0};
    size_t ballot =
        majority ? gw_ballot_bytes(&p->view.ballot) : p->record.old_ballot_length + gw_ballot_bytes(&none);
    size_t capacity = ballot + sizeof p->job.bytes + 4 + p->members.deaths.count * GW_SHARD_DEATH_BYTES + 4 +
                      p->faults.convictions.count * GW_CONVICTION_BYTES + sizeof p->faults.heard_epoch + 4 +
                      sizeof p->save.given_up.roots;
    *bytes = malloc(capacity);
    GW_ASSERT_MEMORY(*bytes != NULL);
    gw_writer w = gw_writer_on(*bytes, capacity);
    if (!majority && p->record.old_ballot_length > 0)
        gw_put_bytes(&w, p->record.old_ballot, p->record.old_ballot_length);
    else
        gw_ballot_put(&w, majority ? &p->view.ballot : &none);
    gw_put_hash(&w, &p->job);
    gw_shard_deaths_put(&w, &p->members.deaths);
    gw_convictions_put(&w, &p->faults.convictions);
    gw_put_u64(&w, p->faults.heard_epoch);
    gw_given_up_put(&w, &p->save.given_up);
    GW_ASSERT(!w.failed);
    return w.length;
}

/* A peer that may forget a promise must not make it. Therefore, with a majority rule no vote is sent before
 * the record is durable, and since_ns starts the deadline after which this peer leaves. Deaths and
 * convictions alone start none. */
void gw_peer_record_write(gw_peer *p) {
    uint8_t *bytes;
    size_t length = encode(p, &bytes);
    gw_action *action = gw_peer_act(p, GW_ACT_PERSIST);
    action->token = p->record.token = gw_peer_token(p);
    action->persist.bytes = gw_actions_copy(p->actions, bytes, length);
    action->persist.length = length;
    free(bytes);
    p->record.due_ns = p->now + gw_peer_ms(p, WAIT_MS);
    if (p->view.ballot.majority && p->record.since_ns == 0) p->record.since_ns = p->now;
    p->record.again_ns = 0;
}

bool gw_peer_record_written(gw_peer *p, const gw_event *event) {
    if (event->token != p->record.token) return false;
    bool durable = event->outcome != GW_FAILED;
    p->record.token = 0;
    if (durable)
        p->record.since_ns = 0;
    else
        p->record.again_ns = p->now + gw_peer_ms(p, AGAIN_MS);
    return durable;
}

void gw_peer_record_forgive(gw_peer *p) {
    if (p->record.since_ns != 0) p->record.since_ns = p->now;
}
