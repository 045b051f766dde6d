/* Faults of disks: they are full, hang, crawl, lose or damage data, take no records, or are lost as a
 * whole. With its disk a peer loses the key that names it: it comes back as a peer that no other knows.
 * With a majority rule, its old name then stands for ever for a peer that does not answer, and what it had
 * promised is forgotten. A disk may therefore be lost only if all have seen its peer die, if the others
 * are a majority of every view that it or one of them has installed or promised, by the rule of the
 * ballots themselves, and if the peers without a record of any view are too few to found the job again. */
#include "tools/sim/faults/inside.h"

#include "core/base/assert.h"
#include "core/base/mix.h"
#include "core/record/sealed.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void sim_fill_disk(sim_cluster *c) {
    sim_peer *p = sim_any_running(c);
    if (p == NULL) return;
    c->result->faults[GW_SIM_FULL_DISK]++;
    SIM_NOTIFY(c, mishap, p, SIM_DISK_REFUSES);
    p->disk_full_until_ns = sim_now(c) + sim_lasting_ns(c, sim_between(c, 100, 3000));
    /* A hash, as seeds that were recorded before shall draw what they drew. */
    p->disk_is_tight = gw_mix64(p->disk_full_until_ns ^ p->number) % 1000 < c->options->tight_permille;
    sim_trace(c, "the disk of peer %u is full%s", p->number, p->disk_is_tight ? " as it is small" : "");
}

void sim_hang_disk(sim_cluster *c) {
    sim_peer *p = sim_any_running(c);
    if (p == NULL) return;
    c->result->faults[GW_SIM_HANGING_DISK]++;
    SIM_NOTIFY(c, mishap, p, SIM_DISK_REFUSES);
    uint64_t for_ms = sim_chance(c, 0.5) ? sim_between(c, 100, 5000) : sim_between(c, 5000, 90000);
    uint64_t for_ns = sim_lasting_ns(c, for_ms);
    sim_trace(c, "the disk of peer %u hangs for %" PRIu64 " ms", p->number, for_ns / SIM_MS);
    sim_disk_hang(c, p, for_ns);
}

void sim_crawl_disk(sim_cluster *c) {
    sim_peer *p = sim_any_running(c);
    if (p == NULL) return;
    c->result->faults[GW_SIM_CRAWLING_DISK]++;
    uint64_t for_ns = sim_lasting_ns(c, sim_between(c, 10000, 120000));
    sim_trace(c, "the disk of peer %u crawls for %" PRIu64 " ms", p->number, for_ns / SIM_MS);
    sim_disk_crawl(c, p, for_ns);
}

void sim_slow_disk(sim_cluster *c) {
    sim_peer *p = sim_any_running(c);
    if (p == NULL) return;
    c->result->faults[GW_SIM_SLOW_DISK]++;
    p->disk_slow_until_ns = sim_now(c) + sim_lasting_ns(c, sim_between(c, 500, 10000));
    sim_trace(c, "the disk of peer %u is slow", p->number);
}

static bool damage_one(sim_cluster *c, sim_peer *p) {
    if (p->disk.saved_count == 0) return false;
    sim_saved *saved = &p->disk.saved[sim_between(c, 0, p->disk.saved_count - 1)];
    if (saved->manifest && sim_chance(c, 0.1)) {
        saved->manifest = false; /* a manifest is named by its hash: a damaged one does not count */
    } else {
        uint32_t chunk = (uint32_t)sim_between(c, 0, SIM_CHUNKS - 1);
        if (!gw_set_has(&saved->chunks, chunk)) return false;
        gw_set_add(&saved->damaged, chunk);
    }
    SIM_NOTIFY(c, disks_lost);
    return true;
}

static void lose_chunk(sim_saved *saved, uint32_t chunk, uint64_t boot) {
    saved->chunks.words[0] &= ~(UINT64_C(1) << chunk);
    saved->lost |= UINT64_C(1) << chunk;
    saved->lost_boot = boot;
}

void sim_disk_unsynced(sim_cluster *c, sim_peer *p) {
    const uint64_t lately_ns = 2000 * SIM_MS;
    for (uint32_t i = 0; i < p->disk.saved_count; i++) {
        sim_saved *saved = &p->disk.saved[i];
        for (uint32_t chunk = 0; chunk < SIM_CHUNKS; chunk++) {
            uint64_t written_ns = saved->written_ns[chunk];
            bool late =
                gw_set_has(&saved->chunks, chunk) && written_ns != 0 && written_ns + lately_ns > sim_now(c);
            if (!late || !sim_chance(c, c->options->unsynced_permille / 1000.0)) continue;
            bool torn = !sim_chance(c, 0.5);
            c->result->faults[torn ? GW_SIM_TORN_CHUNK : GW_SIM_LOST_CHUNK]++;
            if (torn)
                gw_set_add(&saved->damaged, chunk);
            else
                lose_chunk(saved, chunk, p->boot);
        }
    }
    SIM_NOTIFY(c, disks_lost);
}

void sim_damage_disk(sim_cluster *c) {
    sim_peer *p = &c->peers[sim_between(c, 0, c->count - 1)];
    /* two chunks: the one that was overwritten, and the one that was not written */
    bool misdirected = sim_chance(c, 0.3);
    for (int i = 0; i < (misdirected ? 2 : 1); i++) {
        if (!damage_one(c, p)) continue;
        sim_trace(c, "the disk of peer %u damages what is on it", p->number);
        c->result->faults[misdirected ? GW_SIM_MISDIRECTED : GW_SIM_FLIPPED_CHUNK]++;
    }
}

/* Makes records fail with I/O errors, now and then or always, or because the disk is full, for checkpoints
 * as well. */
static void fail_records(sim_cluster *c, sim_peer *p) {
    bool full = sim_chance(c, 0.5), always = sim_chance(c, 0.5);
    uint64_t for_ms = sim_chance(c, 0.5) ? sim_between(c, 100, 3000) : sim_between(c, 3000, 30000);
    p->record_fails_until_ns = sim_now(c) + sim_lasting_ns(c, for_ms);
    p->record_fails = full || always ? 1 : 0.5;
    sim_trace(c, "the disk of peer %u takes no record%s", p->number, full ? ", as it is full" : "");
    if (!full) return;
    c->result->faults[GW_SIM_FULL_DISK]++;
    SIM_NOTIFY(c, mishap, p, SIM_DISK_REFUSES);
    if (p->disk_full_until_ns >= p->record_fails_until_ns) return;
    p->disk_full_until_ns = p->record_fails_until_ns;
    p->disk_is_tight = false;
}

void sim_refuse_records(sim_cluster *c) {
    sim_peer *p = sim_any_running(c);
    if (p != NULL && p->record_fails_until_ns <= sim_now(c)) fail_records(c, p);
}

static void damage_record(sim_cluster *c, uint8_t *bytes, size_t *size) {
    if (sim_chance(c, 0.3)) { /* torn */
        *size = sim_between(c, 0, *size - 1);
        return;
    }
    uint64_t bit = sim_between(c, 0, *size * 8 - 1);
    bytes[bit / 8] = (uint8_t)(bytes[bit / 8] ^ 1U << bit % 8);
}

bool sim_record_spoils(sim_cluster *c, sim_peer *p) {
    if (p->disk.record.length == 0) return false;
    sim_record record = sim_record_copy(p->disk.record.bytes, p->disk.record.length);
    size_t size = record.length + GW_RECORD_FILE_CHECKSUM, length;
    gw_record_file_seal(record.bytes, record.length);
    damage_record(c, record.bytes, &size);
    if (gw_record_file_open(record.bytes, size, &length))
        sim_violation(c, "a record of peer %u that was damaged was taken for sound", p->number);
    sim_record_free(&record);
    return true;
}

void sim_lose_disk(sim_cluster *c, sim_peer *p) {
    sim_trace(c, "peer %u has lost its disk", p->number);
    GW_ASSERT(p->brain == NULL);
    sim_record_free(&p->asked);
    sim_disk_free(&p->disk);
    SIM_NOTIFY(c, disks_lost);
    const gw_peer_id lost = p->id;
    p->disks++;
    sim_name(p);
    SIM_NOTIFY(c, mishap, p, SIM_DISK_IS_ANOTHER);
    for (uint32_t i = 0; i < c->count; i++) {
        if (c->peers[i].wants[p->number]) sim_want_lost(c, &c->peers[i], &lost, true);
        c->peers[i].wants[p->number] = false;
        c->peers[i].met[p->number] = c->peers[i].met_nonce[p->number] = 0;
    }
}

typedef struct ballots {
    bool keeps[SIM_PEERS]; /* whether it keeps its disk */
    bool lost;             /* some view has no majority of these left */
    bool any;              /* some view is known */
} ballots;

/* Adds a record to the ballots. Returns whether it knows of a view; a founding that was only proposed does
 * not count. */
static bool add_record(sim_cluster *c, ballots *b, const sim_record *record) {
    gw_ballot ballot;
    sim_ballot_read(record, &ballot);
    bool knows = ballot.installed.epoch > 0;
    for (uint32_t i = 0; i < ballot.later_count; i++) knows |= !gw_view_name_is_none(&ballot.later[i].parent);
    b->any |= knows;
    b->lost |= ballot.installed.epoch > 0 && !sim_is_majority(c, &ballot.installed, b->keeps);
    for (uint32_t i = 0; i < ballot.later_count; i++)
        b->lost |= !sim_is_majority(c, &ballot.later[i], b->keeps);
    gw_ballot_close(&ballot);
    return knows;
}

/* Whether a running peer still believes this one alive, and may propose a view with it and promise that to
 * itself: if the proposer died next, its later lives would wait for ever for the peer that has lost what
 * it knew. Replacing a disk takes longer than others take to notice a death. */
static bool is_believed_alive(const sim_cluster *c, const sim_peer *p) {
    for (uint32_t i = 0; i < c->count; i++) {
        gw_peer_contact_info info;
        for (uint32_t k = 0; c->peers[i].brain != NULL && gw_peer_contact_at(c->peers[i].brain, k, &info);
             k++) {
            bool lives = strcmp(info.state, "alive") == 0 || strcmp(info.state, "suspect") == 0;
            if (lives && gw_peer_id_equal(&info.id, &p->id)) return true;
        }
    }
    return false;
}

bool sim_can_lose_disk(sim_cluster *c, const sim_peer *p) {
    enum { MOST_DISKS = 64 }; /* names that sim_want_lost can distinguish */
    uint32_t ignorant = 1;
    ballots b = {.any = false};
    if (!c->options->majority) return true;
    /* peers that are done do not come back */
    if (c->result->done_ns != 0 || p->disks == MOST_DISKS) return false;
    if (is_believed_alive(c, p)) return false;
    for (uint32_t i = 0; i < c->count; i++) b.keeps[i] = i != p->number && !c->peers[i].gone;
    for (uint32_t i = 0; i < c->count; i++) {
        const sim_peer *one = &c->peers[i];
        if (one->gone) continue;
        add_record(c, &b, &one->asked);
        bool knows = add_record(c, &b, &one->disk.record);
        /* the record after a power loss */
        if (one->disk.unflushed) knows &= add_record(c, &b, &one->disk.flushed);
        ignorant += one != p && !knows;
    }
    return !b.lost && (!b.any || ignorant < c->options->founders);
}
