/* The record of a peer's votes and lost shards (GW_ACT_PERSIST), as the node writes it: to a new file,
 * which replaces the old one when it is on disk. A record is there whole or not at all, and one that is
 * being written when its process ends is lost. If only the folder could not be flushed, the write fails
 * although the new record is there, until the power fails. */
#include "tools/sim/world/inside.h"

#include "core/base/assert.h"
#include "core/record/convictions.h"
#include "core/record/deaths.h"
#include "core/record/sealed.h"

#include <stdlib.h>
#include <string.h>

sim_record sim_record_copy(const uint8_t *bytes, size_t length) {
    sim_record one = {.bytes = malloc(length + GW_RECORD_FILE_CHECKSUM), .length = length};
    GW_ASSERT_MEMORY(one.bytes != NULL);
    if (length > 0) memcpy(one.bytes, bytes, length);
    return one;
}

void sim_record_free(sim_record *record) {
    free(record->bytes);
    *record = (sim_record){.bytes = NULL};
}

void sim_record_replace(sim_disk *disk, sim_record record, bool flushed) {
    if (flushed || disk->unflushed)
        sim_record_free(&disk->record);
    else
        disk->flushed = disk->record;
    disk->record = record;
    disk->unflushed = !flushed;
    if (flushed) sim_record_free(&disk->flushed);
}

enum { WRITTEN, FAILED, UNFLUSHED };

static void persist_durable(sim_cluster *c, sim_peer *p, const sim_op *op) {
    if (sim_disk_hangs(c, p, op)) return;
    p->m.records_open--;
    if (op->x != FAILED)
        sim_record_replace(&p->disk, sim_record_copy(op->bytes, op->length), op->x == WRITTEN);
}

static void persist_told(sim_cluster *c, sim_peer *p, const sim_op *op) {
    if (sim_disk_hangs(c, p, op)) return;
    gw_event event = {.kind = GW_EV_PERSISTED,
                      .token = op->token,
                      .outcome = op->x == WRITTEN ? GW_DONE : GW_FAILED,
                      .text = op->x == WRITTEN ? NULL : "the record cannot be written"};
    sim_event(c, p, &event);
}

static uint64_t outcome(sim_cluster *c, const sim_peer *p) {
    if (p->record_fails_until_ns <= sim_now(c) || !sim_chance(c, p->record_fails)) return WRITTEN;
    c->result->faults[GW_SIM_FAILED_RECORD]++;
    return sim_chance(c, 0.7) ? FAILED : UNFLUSHED;
}

void sim_record_persist(sim_cluster *c, sim_peer *p, const gw_action *action) {
    sim_record_free(&p->asked);
    p->asked = sim_record_copy(action->persist.bytes, action->persist.length);
    p->m.records_open++;
    uint64_t at_ns = sim_now(c) + sim_disk_time(c, p, SIM_MS / 10, 5 * SIM_MS);
    if (at_ns <= p->persisted_ns) at_ns = p->persisted_ns + 1; /* records are written one after the other */
    p->persisted_ns = at_ns;
    sim_op op = sim_op_to(p, persist_durable);
    op.x = outcome(c, p);
    op.bytes = action->persist.bytes;
    op.length = (uint32_t)action->persist.length;
    sim_later(c, at_ns - sim_now(c), &op);
    sim_op told = sim_op_to(p, persist_told);
    told.token = action->token;
    told.x = op.x;
    sim_later(c, at_ns - sim_now(c) + sim_between(c, 1000, SIM_MS), &told);
}

/* The verdicts in a record. */

typedef struct verdicts {
    gw_convictions of_others;
    uint64_t heard; /* the epoch of the last verdict on the peer itself */
    gw_given_up given_up;
} verdicts;

static verdicts read_verdicts(const sim_record *record) {
    verdicts v = {.heard = 0};
    if (record->length == 0) return v;
    gw_reader r = gw_reader_on(record->bytes, record->length);
    gw_ballot ballot;
    gw_hash job;
    gw_shard_deaths losses;
    gw_ballot_open(&ballot, true);
    gw_ballot_get(&r, &ballot);
    gw_ballot_close(&ballot);
    gw_get_hash(&r, &job);
    gw_shard_deaths_get(&r, &losses);
    gw_convictions_get(&r, &v.of_others);
    v.heard = gw_get_u64(&r);
    gw_given_up_get(&r, &v.given_up);
    GW_ASSERT(!r.failed);
    return v;
}

bool sim_record_outlaws(const sim_peer *p, const sim_peer *member) {
    const sim_disk *disk = &member->disk;
    verdicts known = read_verdicts(&p->asked), own = read_verdicts(&member->asked),
             durable = read_verdicts(disk->unflushed ? &disk->flushed : &disk->record);
    return gw_convictions_of(&known.of_others, &member->id) != NULL || own.heard > durable.heard;
}

bool sim_record_gives_up(const sim_peer *p, const gw_hash *root) {
    verdicts own = read_verdicts(&p->asked);
    return gw_given_up_drop(&own.given_up, root);
}

bool sim_record_lacks_verdict(const sim_peer *p) {
    return read_verdicts(&p->asked).heard > read_verdicts(&p->disk.record).heard;
}

void sim_record_crash(sim_cluster *c, sim_peer *p) {
    c->result->faults[GW_SIM_LOST_RECORD] += p->m.records_open > 0;
    if (!p->host_down || !p->disk.unflushed || !sim_chance(c, 0.5)) return;
    c->result->faults[GW_SIM_LOST_RECORD]++;
    sim_trace(c, "the record of peer %u is the one before", p->number);
    sim_record_replace(&p->disk, sim_record_copy(p->disk.flushed.bytes, p->disk.flushed.length), true);
}

/* The views in a record. */

void sim_ballot_read(const sim_record *record, gw_ballot *ballot) {
    gw_ballot_open(ballot, true);
    if (record->length == 0) return;
    gw_reader r = gw_reader_on(record->bytes, record->length);
    gw_ballot_get(&r, ballot);
    GW_ASSERT(!r.failed);
}

bool sim_record_has_view(const sim_record *record) {
    gw_ballot ballot;
    sim_ballot_read(record, &ballot);
    bool has = ballot.installed.epoch > 0;
    gw_ballot_close(&ballot);
    return has;
}

bool sim_is_majority(sim_cluster *c, const gw_view *view, const bool *among) {
    gw_view rest = {0};
    for (uint32_t i = 0; i < view->count; i++) {
        const sim_peer *member = sim_by_id(c, &view->members[i].id); /* NULL where its disk is lost */
        if (member != NULL && among[member->number]) rest.members[rest.count++] = view->members[i];
    }
    return gw_view_majority(view, &rest);
}

bool sim_lacks_majority(sim_cluster *c, const sim_peer *p, const bool *among) {
    gw_ballot ballot;
    sim_ballot_read(&p->asked, &ballot);
    bool lacks = ballot.installed.epoch > 0 && !sim_is_majority(c, &ballot.installed, among);
    for (uint32_t k = 0; k < ballot.later_count; k++) lacks |= !sim_is_majority(c, &ballot.later[k], among);
    gw_ballot_close(&ballot);
    return lacks;
}
