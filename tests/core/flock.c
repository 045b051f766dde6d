#include "flock.h"

#include "core/check.h"
#include "core/range.h"
#include "core/rng.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct flock_event {
    uint64_t at, serial;
    uint32_t to;
    uint64_t life; /* of the receiver it is meant for */
    bool redial;   /* not an event: the link to event.peer comes back */
    gw_event event;
    uint8_t *bytes;
    gw_set held, claimed;
    int64_t *slots;
    uint32_t table_at; /* in the slots */
    gw_hash *hashes;
} flock_event;

static uint32_t shards_of(const void *context, uint64_t step) {
    (void)context;
    (void)step;
    return FLOCK_SHARDS;
}

uint64_t flock_state_after(uint64_t steps) {
    uint64_t state = 1;
    for (uint64_t i = 0; i < steps; i++) state = gw_mix64(state + i);
    return state;
}

static flock_event *post(flock *f, uint32_t to, uint64_t delay_ns, gw_event event) {
    if (f->queued == f->capacity) {
        f->capacity = f->capacity == 0 ? 64 : 2 * f->capacity;
        f->queue = realloc(f->queue, f->capacity * sizeof *f->queue);
    }
    flock_event *e = &f->queue[f->queued++];
    *e = (flock_event){.at = f->now + delay_ns, .serial = f->serial++, .to = to, .event = event};
    e->life = f->peers[to].config.incarnation.boot;
    return e;
}

static void keep_bytes(flock_event *e, const void *bytes, size_t length) {
    e->bytes = malloc(length + 1);
    memcpy(e->bytes, bytes, length);
    e->event.bytes = e->bytes;
    e->event.length = length;
}

static int index_of(const flock *f, const gw_peer_id *id) {
    for (uint32_t i = 0; i < f->count; i++)
        if (gw_peer_id_equal(&f->peers[i].config.id, id)) return (int)i;
    return -1;
}

/* ---- a peer's workers
 * --------------------------------------------------------------------------------------------- */

static void tell_reduced(flock *f, const gw_view *view);

static void seal_if_done(flock *f, uint32_t i) {
    flock_peer *p = &f->peers[i];
    if (p->sealing == 0) return;
    gw_event event = {.kind = GW_EV_SEALED,
                      .token = p->sealing,
                      .speed = 1000,
                      .checks = p->checks,
                      .count = p->check_count};
    if (p->bad_shard) event.bad = (gw_bad){.present = true, .shard = 3 + i, .tensor = 1, .index = 7};
    if (p->bad_at != NULL) event.bad = *p->bad_at;
    p->sealing = 0;
    post(f, i, 1000 + p->seal_ns, event);
}

/* Takes everything that is in the own word. */
static void work(flock *f, uint32_t i) {
    flock_peer *p = &f->peers[i];
    gw_word word = gw_word_unpack(p->word);
    uint32_t first, count;
    while (word.tag != 0 && gw_word_take(&word, 1, &first, &count)) {
        uint32_t shard = first;
        if (p->list.size > 0) {
            shard = gw_set_next(&p->list, 0);
            for (uint32_t k = 0; k < first; k++) shard = gw_set_next(&p->list, shard + 1);
        }
        bool fails = p->fails_at_shard == (int64_t)shard, breaks = p->breaks_at_shard == (int64_t)shard;
        if (fails || breaks ||
            (p->dies_at_shard == (int64_t)shard && (p->dies_at_step == 0 || p->dies_at_step == p->step))) {
            gw_event claim = {.kind = GW_EV_CLAIM, .shard = shard};
            if (p->careful) post(f, i, 0, claim);
            gw_event end = {.kind = fails    ? GW_EV_SHARD_FAILED
                                    : breaks ? GW_EV_DEVICE_LOST
                                             : (gw_event_kind)0,
                            .shard = shard,
                            .text = f->reason};
            post(f, i, 10, end);
            p->word = gw_word_pack(word);
            return;
        }
        if (p->gives_back > 0) {
            p->gives_back--;
            post(f, i, 0, (gw_event){.kind = GW_EV_SHARD_LOST, .shard = shard, .text = f->reason});
            continue;
        }
        bool lost = p->loses_shard;
        p->loses_shard = false;
        if (lost) continue;
        p->adds[shard]++;
        p->computed++;
        gw_set_add(&p->added, shard);
    }
    p->word = gw_word_pack(word);
    if (p->dry_told || word.tag == 0) return;
    p->dry_told = true;
    post(f, i, 1000, (gw_event){.kind = GW_EV_DRY, .tag = word.tag});
}

/* ---- what it says
 * -------------------------------------------------------------------------------------------------- */

static void keep_said(flock_peer *p, const char *text) {
    size_t length = strlen(text);
    p->said = realloc(p->said, p->said_length + length + 2);
    cr_assert_not_null(p->said);
    memcpy(p->said + p->said_length, text, length);
    memcpy(p->said + p->said_length + length, "\n", 2);
    p->said_length += length + 1;
}

uint32_t flock_said(const flock *f, uint32_t i, const char *part) {
    uint32_t count = 0;
    for (const char *at = f->peers[i].said; at != NULL && (at = strstr(at, part)) != NULL;
         at = strchr(at, '\n'))
        count++;
    return count;
}

/* ---- actions
 * -------------------------------------------------------------------------------------------------------- */

/* What a dead peer had sent still arrives; then its links break, and reconnecting is refused. */
static void end_links(flock *f, uint32_t i) {
    for (uint32_t k = 0; k < f->count; k++) {
        f->peers[i].linked[k] = false;
        if (!f->peers[k].linked[i] || f->peers[k].brain == NULL) continue;
        gw_event down = {.kind = GW_EV_LINK_DOWN,
                         .peer = f->peers[i].config.id,
                         .incarnation = f->peers[i].config.incarnation};
        down.link_end = GW_LINK_CLOSED;
        post(f, k, 150000, down);
        down.link_end = GW_LINK_REFUSED;
        post(f, k, 200000, down);
    }
}

/* Whoever dials a dead process is refused. */
static void refuse(flock *f, uint32_t i, uint32_t other) {
    post(f, i, 200000,
         (gw_event){.kind = GW_EV_LINK_DOWN,
                    .peer = f->peers[other].config.id,
                    .incarnation = f->peers[other].config.incarnation,
                    .link_end = GW_LINK_REFUSED});
}

static void link_peers(flock *f, uint32_t a, uint32_t b) {
    if (f->peers[a].linked[b] || f->peers[a].brain == NULL || f->cut[a][b]) return;
    if (f->peers[b].brain == NULL) {
        refuse(f, a, b);
        return;
    }
    f->peers[a].linked[b] = f->peers[b].linked[a] = true;
    post(f, a, 1000,
         (gw_event){.kind = GW_EV_LINK_UP,
                    .peer = f->peers[b].config.id,
                    .incarnation = f->peers[b].config.incarnation});
    post(f, b, 1000,
         (gw_event){.kind = GW_EV_LINK_UP,
                    .peer = f->peers[a].config.id,
                    .incarnation = f->peers[a].config.incarnation});
}

static void break_link(flock *f, uint32_t a, uint32_t b) {
    const uint32_t ends[2] = {a, b};
    if (!f->peers[a].linked[b]) return;
    f->peers[a].linked[b] = f->peers[b].linked[a] = false;
    for (int k = 0; k < 2; k++) {
        const flock_peer *other = &f->peers[ends[1 - k]];
        post(f, ends[k], 1000,
             (gw_event){.kind = GW_EV_LINK_DOWN,
                        .peer = other->config.id,
                        .incarnation = other->config.incarnation,
                        .link_end = GW_LINK_CLOSED});
    }
}

/* Whoever drops a link is not told that it is down. */
static void drop_link(flock *f, uint32_t i, uint32_t other) {
    if (!f->peers[i].linked[other]) return;
    f->peers[i].linked[other] = f->peers[other].linked[i] = false;
    post(f, other, 1000,
         (gw_event){.kind = GW_EV_LINK_DOWN,
                    .peer = f->peers[i].config.id,
                    .incarnation = f->peers[i].config.incarnation,
                    .link_end = GW_LINK_CLOSED});
}

void flock_cut(flock *f, uint32_t a, uint32_t b, bool datagrams) {
    f->cut[a][b] = f->cut[b][a] = true;
    f->parted[a][b] = f->parted[b][a] = datagrams;
    break_link(f, a, b);
}

void flock_mend(flock *f, uint32_t a, uint32_t b) {
    f->cut[a][b] = f->cut[b][a] = f->parted[a][b] = f->parted[b][a] = false;
    link_peers(f, a, b);
}

/* Whether the link breaks under this message. */
static bool is_lost(flock *f, uint32_t from, uint32_t to, const gw_action *a) {
    flock_break *b = &f->breaks;
    gw_message message;
    gw_err err;
    if (b->times == 0 || (b->from >= 0 && b->from != (int)from) || (b->to >= 0 && b->to != (int)to))
        return false;
    cr_assert(gw_message_decode(a->bytes, a->length, &message, &err), "%s", err.text);
    bool lost = message.kind == b->kind;
    gw_message_free(&message);
    if (!lost) return false;
    b->times--;
    if (b->quiet) return true;
    break_link(f, from, to);
    post(f, from, 1000000, (gw_event){.peer = f->peers[to].config.id})->redial = true;
    return true;
}

static void word_action(flock *f, uint32_t i, const gw_action *a) {
    int victim = index_of(f, &a->peer);
    flock_peer *v = &f->peers[victim];
    bool swap = a->kind == GW_ACT_SWAP_WORD;
    gw_event event = {
        .kind = swap ? GW_EV_WORD_SWAPPED : GW_EV_WORD_READ, .token = a->token, .word = v->word};
    bool fenced = v->brain == NULL || !gw_view_name_equal(&v->fence.name, &f->peers[i].fence.name);
    fenced |= !f->peers[i].linked[victim];
    event.word_outcome = fenced ? GW_WORD_FENCED : GW_WORD_OK;
    if (swap && !fenced) {
        if (v->word == a->expected)
            v->word = a->desired;
        else
            event.word_outcome = GW_WORD_DIFFERS;
    }
    post(f, i, 2000, event);
}

static void freeze(flock *f, uint32_t i, const gw_action *a) {
    flock_peer *p = &f->peers[i];
    p->fence = (gw_view){0};
    p->word = 0;
    p->sealing = 0;
    if (p->reducing != 0)
        post(f, i, 500, (gw_event){.kind = GW_EV_REDUCED, .token = p->reducing, .outcome = GW_ABORTED});
    p->reducing = 0;
    gw_event event = {.kind = GW_EV_FROZEN,
                      .token = a->token,
                      .accumulator_step = p->accumulator_step,
                      .poisoned = p->poisoned};
    p->poisoned = false;
    flock_event *e = post(f, i, 1000, event);
    if (p->added.size == 0) return;
    e->held = gw_set_copy(&p->added);
    e->claimed = gw_set_of(p->added.size);
}

static void begin_step(flock_peer *p, const gw_action *a) {
    p->accumulator_step = a->step;
    gw_set_free(&p->added);
    p->added = gw_set_of(a->shards);
    memset(p->adds, 0, sizeof p->adds);
}

/* The fingerprint of what this peer computes of a shard. */
static uint64_t fingerprint_of(flock_peer *p, uint32_t shard) {
    uint64_t right = gw_mix64(p->step << 20 ^ shard);
    if (p->wrongs == 0) return right;
    p->wrongs--;
    return ~right;
}

/* Who computes a chosen shard first is told here as it was dealt, whoever adds it. */
static void check(flock_peer *p, const gw_action *a) {
    uint32_t positions[GW_VERIFY_MOST], position = 0;
    gw_verify_part part;
    p->check_count = 0;
    p->chosen_count = a->count;
    for (uint32_t i = 0; i < a->count; i++) positions[i] = GW_VERIFY_HELD;
    for (uint32_t shard = 0; shard < FLOCK_SHARDS; shard++) {
        if (a->list != NULL && !gw_set_has(a->list, shard)) continue;
        for (uint32_t i = 0; i < a->count; i++)
            if (a->chosen[i] == shard) positions[i] = position;
        position++;
    }
    gw_verify_divide(a->chosen, positions, a->count, a->cuts, a->members, a->rank, a->step, NULL, 0, &part);
    for (uint32_t k = 0; k < part.first_count; k++)
        p->checks[p->check_count++] =
            (gw_check){.shard = part.first[k], .fingerprint = fingerprint_of(p, part.first[k])};
    for (uint32_t k = 0; k < part.again_count; k++)
        p->checks[p->check_count++] = (gw_check){
            .shard = part.again[k], .again = true, .fingerprint = fingerprint_of(p, part.again[k])};
}

static void deal(flock *f, uint32_t i, const gw_action *a) {
    flock_peer *p = &f->peers[i];
    cr_assert_eq(p->accumulator_step, p->step, "a deal needs this step's accumulator");
    gw_set_free(&p->list);
    if (a->list != NULL) p->list = gw_set_copy(a->list);
    p->tag = a->tag;
    p->careful = a->flag;
    p->dry_told = false;
    p->word = gw_word_pack((gw_word){a->tag, a->first, a->end});
    check(p, a);
    work(f, i);
}

static bool path_is_broken(const flock *f, uint32_t a, uint32_t b) {
    return f->data_broken[a][b] || f->cut[a][b];
}

/* A reduction over a broken path fails at all; the two ends of the path know whom they missed. */
static bool fail_reduction(flock *f, const gw_view *view) {
    bool broken = f->reductions_to_fail > 0;
    if (broken) f->reductions_to_fail--;
    for (uint32_t a = 0; a < f->count; a++)
        for (uint32_t b = 0; b < a; b++)
            broken |= path_is_broken(f, a, b) && gw_view_rank(view, &f->peers[a].config.id) >= 0 &&
                      gw_view_rank(view, &f->peers[b].config.id) >= 0;
    for (uint32_t rank = 0; broken && rank < view->count; rank++) {
        uint32_t i = (uint32_t)index_of(f, &view->members[rank].id);
        gw_event event = {.kind = GW_EV_REDUCED,
                          .token = f->peers[i].reducing,
                          .outcome = GW_FAILED,
                          .text = "no data connection"};
        for (uint32_t k = 0; k < f->count; k++)
            if (path_is_broken(f, i, k) && gw_view_rank(view, &f->peers[k].config.id) >= 0)
                event.peer = f->peers[k].config.id;
        post(f, i, 1000000, event);
        f->peers[i].reducing = 0;
    }
    return broken;
}

/* When every member of the view has entered: the sum, checked, for all of them. */
static void tell_reduced(flock *f, const gw_view *view) {
    int64_t slots[GW_MAX_MEMBERS * GW_SLOTS + GW_VERIFY_TABLE] = {0};
    int64_t *table = slots + view->count * GW_SLOTS;
    int adds[FLOCK_SHARDS] = {0};
    bool bad = false;
    for (uint32_t rank = 0; rank < view->count; rank++) {
        flock_peer *p = &f->peers[index_of(f, &view->members[rank].id)];
        if (p->brain == NULL || p->reducing == 0 || !gw_view_name_equal(&p->fence.name, &view->name)) return;
        memcpy(slots + rank * GW_SLOTS, p->slots, sizeof p->slots);
        for (int k = 0; k < GW_VERIFY_TABLE; k++)
            table[k] = (int64_t)((uint64_t)table[k] + (uint64_t)p->table[k]);
        for (int s = 0; s < FLOCK_SHARDS; s++) adds[s] += p->adds[s];
        bad |= p->bad_shard;
    }
    if (fail_reduction(f, view)) return;
    bool right = f->sums_to_spoil == 0;
    if (!right) f->sums_to_spoil--;
    if (f->rows_to_damage > 0) {
        f->rows_to_damage--;
        slots[GW_SLOTS - 2] ^= 1;
    }
    for (uint32_t s = 0; s < FLOCK_SHARDS; s++) right &= adds[s] == 1;
    for (uint32_t rank = 0; rank < view->count; rank++) {
        uint32_t i = (uint32_t)index_of(f, &view->members[rank].id);
        gw_event event = {.kind = GW_EV_REDUCED,
                          .token = f->peers[i].reducing,
                          .outcome = GW_DONE,
                          .coverage_ok = right,
                          .fingerprint_ok = right,
                          .text = right ? NULL : "bucket 4",
                          .damaged = !right && f->peers[i].part_damaged,
                          .bad_count = bad};
        flock_event *e = post(f, i, 1000, event);
        f->peers[i].reducing = 0;
        if (!right) continue; /* of a wrong sum nothing is believed */
        e->slots = malloc(sizeof slots);
        memcpy(e->slots, slots, sizeof slots);
        e->table_at = view->count * GW_SLOTS;
    }
}

/* What takes long tells once a second that it gets on. */
static void post_progress(flock *f, uint32_t i, const gw_action *a, uint64_t lasts_ns) {
    gw_event progress = {.kind = GW_EV_PROGRESS, .token = a->token};
    for (uint64_t at = 1000000000; at < lasts_ns && !f->peers[i].silent; at += 1000000000)
        post(f, i, at, progress);
}

static void load(flock *f, uint32_t i, const gw_action *a) {
    flock_peer *p = &f->peers[i];
    gw_event event = {.kind = GW_EV_LOADED, .token = a->token, .outcome = GW_DONE, .text = f->reason};
    if (a->load_kind == GW_LOAD_PEERS) {
        const flock_peer *donor = &f->peers[index_of(f, &a->donors[0])];
        if (donor->brain == NULL || donor->step != a->step) event.outcome = GW_FAILED;
    }
    if (a->load_kind == GW_LOAD_MANIFEST && p->manifests_unloadable) event.outcome = GW_FAILED;
    if (p->loads_to_fail > 0) {
        p->loads_to_fail--;
        event.outcome = GW_FAILED;
    }
    if (a->load_kind == GW_LOAD_MANIFEST && p->damaged) {
        static gw_set sound;
        gw_set_free(&sound);
        sound = gw_set_of(FLOCK_CHUNKS);
        for (uint32_t k = 1; k < FLOCK_CHUNKS; k++) gw_set_add(&sound, k);
        event.outcome = GW_FAILED;
        event.held = &sound;
    }
    if (event.outcome == GW_DONE) {
        p->step = a->step;
        p->state = flock_state_after(a->step);
    }
    event.fingerprint = p->loads_other_bits ? ~p->state : p->state;
    post_progress(f, i, a, p->load_ns);
    post(f, i, 3000 + p->load_ns, event);
}

static void save(flock *f, uint32_t i, const gw_action *a) {
    flock_peer *p = &f->peers[i];
    bool failed = p->disk_full && !a->flag;
    if (p->step == p->flip_save) {
        p->state ^= 1;
        p->flip_save = 0;
    }
    post_progress(f, i, a, p->save_ns);
    flock_event *e = post(f, i, 5000 + p->save_ns,
                          (gw_event){.kind = GW_EV_STORED,
                                     .token = a->token,
                                     .outcome = failed ? GW_FAILED : GW_DONE,
                                     .text = failed ? "no space left" : NULL,
                                     .count = failed ? 0 : a->count});
    if (failed) return;
    e->hashes = calloc(a->count + 1, sizeof *e->hashes);
    gw_set_free(&p->stored);
    p->stored = gw_set_of(FLOCK_CHUNKS);
    for (uint32_t k = 0; k < a->count; k++) {
        uint64_t content = p->state ^ a->chunks[k];
        gw_blake2b(&content, sizeof content, e->hashes[k].bytes, 32);
        if (!a->flag) gw_set_add(&p->stored, a->chunks[k]);
    }
}

static void manifest(flock *f, uint32_t i, const gw_action *a) {
    flock_peer *p = &f->peers[i];
    bool failed = (p->disk_full || p->manifests_fail) && !a->flag;
    gw_event event = {
        .kind = GW_EV_MANIFEST_STORED, .token = a->token, .outcome = failed ? GW_FAILED : GW_DONE};
    gw_blake2b(a->hashes, a->count * sizeof *a->hashes, event.root.bytes, 32);
    if (p->manifests_hang && !a->flag) return;
    post(f, i, 1000, event);
    if (failed || a->flag) return;
    p->saved_root = event.root;
    p->saved_step = a->step;
    p->saved_ended = a->ended;
    gw_set_free(&p->saved_chunks);
    p->saved_chunks = gw_set_copy(&p->stored);
}

static void persist(flock *f, uint32_t i, const gw_action *a) {
    flock_peer *p = &f->peers[i];
    if (p->persists_fail) {
        post(f, i, 1000, (gw_event){.kind = GW_EV_PERSISTED, .token = a->token, .outcome = GW_FAILED});
        return;
    }
    free(p->record);
    p->record = malloc(a->length + 1);
    memcpy(p->record, a->bytes, a->length);
    p->record_length = a->length;
    post(f, i, 1000, (gw_event){.kind = GW_EV_PERSISTED, .token = a->token});
}

/* What is shown of a step is right, comes once, and in order. */
static void note_shown(flock *f, uint32_t i, const gw_action *a) {
    flock_peer *p = &f->peers[i];
    cr_assert_eq(a->fingerprint, flock_state_after(a->step + 1), "peer %u, step %lu", i, a->step);
    cr_assert_geq(a->step + 1, p->shown_step + (f->quorum == GW_QUORUM_MAJORITY));
    p->shown_step = a->step + 1;
    for (uint32_t rank = 0; rank < p->fence.count; rank++) {
        const flock_peer *other = &f->peers[index_of(f, &p->fence.members[rank].id)];
        gw_peer_status status = {.step = UINT64_MAX};
        if (other->brain != NULL && other != p) gw_peer_status_get(other->brain, &status);
        p->showed_early |= status.step < a->step + 1;
    }
}

/* Effects of a step are had from the state that came of it, when others may know of it. */
static void note_effects(flock *f, uint32_t i, const gw_action *a) {
    flock_peer *p = &f->peers[i];
    bool fails = p->effects_fail_at != 0 && a->step + 1 == p->effects_fail_at;
    cr_assert_eq(a->step + 1, p->step);
    cr_assert_eq(p->state, flock_state_after(p->step));
    if (a->step < FLOCK_EFFECTS && !fails) f->effects[a->step]++;
    post(f, i, 100000,
         (gw_event){.kind = GW_EV_COMMITTED,
                    .token = a->token,
                    .outcome = fails ? GW_FAILED : GW_DONE,
                    .text = f->reason});
}

static void carry_out(flock *f, uint32_t i, const gw_action *a) {
    flock_peer *p = &f->peers[i];
    int other;
    switch (a->kind) {
    case GW_ACT_DATAGRAM:
        for (uint32_t k = 0; k < f->count; k++) {
            if (f->peers[k].brain == NULL || !gw_addr_equal(&f->peers[k].config.addrs[0], &a->addr)) continue;
            if (f->parted[i][k] || f->unheard[i][k]) continue;
            keep_bytes(post(f, k, 200000, (gw_event){.kind = GW_EV_DATAGRAM, .addr = p->config.addrs[0]}),
                       a->bytes, a->length);
        }
        break;
    case GW_ACT_LINK:
        other = index_of(f, &a->peer);
        if (a->flag)
            link_peers(f, i, (uint32_t)other);
        else
            drop_link(f, i, (uint32_t)other);
        break;
    case GW_ACT_MESSAGE:
        other = index_of(f, &a->peer);
        if (p->linked[other] && !is_lost(f, i, (uint32_t)other, a)) {
            const gw_event event = {.kind = GW_EV_MESSAGE, .peer = p->config.id};
            keep_bytes(post(f, (uint32_t)other, f->message_ns, event), a->bytes, a->length);
            if (f->echo_ns != 0)
                keep_bytes(post(f, (uint32_t)other, f->message_ns + f->echo_ns, event), a->bytes, a->length);
        }
        break;
    case GW_ACT_FREEZE:
        freeze(f, i, a);
        break;
    case GW_ACT_INSTALL:
        p->fence = *a->view;
        break;
    case GW_ACT_BEGIN_STEP:
        begin_step(p, a);
        break;
    case GW_ACT_DEAL:
        deal(f, i, a);
        break;
    case GW_ACT_READ_WORD:
    case GW_ACT_SWAP_WORD:
        word_action(f, i, a);
        break;
    case GW_ACT_TAKE:
        p->word = gw_word_pack((gw_word){p->tag, a->first, a->end});
        p->dry_told = false;
        work(f, i);
        break;
    case GW_ACT_SEAL:
        p->sealing = a->token;
        seal_if_done(f, i);
        break;
    case GW_ACT_PROBE:
        cr_assert_eq(a->step, p->step);
        post(f, i, 500000,
             (gw_event){.kind = GW_EV_PROBED,
                        .token = a->token,
                        .outcome = p->probe_fails ? GW_FAILED : GW_DONE,
                        .text = f->reason,
                        .fingerprint = fingerprint_of(p, a->first)});
        break;
    case GW_ACT_LOOK: {
        bool sound = p->state == flock_state_after(p->step);
        post(f, i, 1000,
             (gw_event){.kind = GW_EV_LOOKED,
                        .token = a->token,
                        .outcome = sound && !p->look_fails ? GW_DONE : GW_FAILED,
                        .text = f->reason,
                        .damaged = !sound});
        break;
    }
    case GW_ACT_REDUCE:
        if (p->damaged_state) {
            p->damaged_state = false;
            post(f, i, 1000,
                 (gw_event){.kind = GW_EV_REDUCED, .token = a->token, .outcome = GW_FAILED, .damaged = true});
            break;
        }
        memset(p->table, 0, sizeof p->table);
        if (a->check_table != NULL) memcpy(p->table, a->check_table, sizeof p->table);
        p->reducing = a->token;
        p->reduces_entered++;
        memcpy(p->slots, a->slots, sizeof p->slots);
        tell_reduced(f, &p->fence);
        break;
    case GW_ACT_APPLY:
        cr_assert_eq(a->step, p->step);
        p->skipped += a->flag;
        if (p->apply_fails) {
            post(f, i, 1000,
                 (gw_event){
                     .kind = GW_EV_APPLIED, .token = a->token, .outcome = GW_FAILED, .text = f->reason});
            break;
        }
        p->state = gw_mix64(p->state + p->step);
        p->step++;
        cr_assert_eq(p->state, flock_state_after(p->step));
        if (p->step == p->flip_step) {
            p->state ^= 1;
            p->flip_step = 0;
        }
        post(f, i, 2000000 + p->apply_ns,
             (gw_event){.kind = GW_EV_APPLIED,
                        .token = a->token,
                        .outcome = GW_DONE,
                        .fingerprint = p->state,
                        .stop = f->stop_step != 0 && p->step >= f->stop_step});
        break;
    case GW_ACT_COMMIT:
        note_effects(f, i, a);
        break;
    case GW_ACT_LOAD:
        load(f, i, a);
        break;
    case GW_ACT_SAVE:
        save(f, i, a);
        break;
    case GW_ACT_ABANDON:
        p->abandoned++;
        break;
    case GW_ACT_MANIFEST:
        manifest(f, i, a);
        break;
    case GW_ACT_PERSIST:
        persist(f, i, a);
        break;
    case GW_ACT_FINISH:
        p->finished = true;
        p->finish = a->finish;
        p->final_root = a->root;
        snprintf(p->finish_text, sizeof p->finish_text, "%s", a->text);
        break;
    case GW_ACT_NOTICE:
        if (a->notice == GW_NOTICE_CHECKPOINT) p->checkpoints++;
        if (a->notice == GW_NOTICE_VERIFIED) p->verified += a->count;
        if (a->notice == GW_NOTICE_CORRUPT) p->corruptions++;
        if (a->notice == GW_NOTICE_HEALED) p->offers++;
        if (a->notice == GW_NOTICE_STEP) note_shown(f, i, a);
        break;
    case GW_ACT_RETAIN:
        p->retained = a->count;
        break;
    case GW_ACT_LOG:
        keep_said(p, a->text);
        if (getenv("FLOCK_TALKS") != NULL)
            fprintf(stderr, "%9.3f ms  peer %u: %s\n", (double)f->now / 1e6, i, a->text);
        break;
    }
}

/* ---- the flock
 * ------------------------------------------------------------------------------------------------------ */

void flock_open(flock *f, uint32_t count, uint32_t founding, uint64_t steps, gw_quorum quorum) {
    memset(f, 0, sizeof *f);
    f->count = count;
    f->now = 1000000;
    f->steps = steps;
    f->message_ns = 100000;
    f->quorum = quorum;
    for (uint32_t i = 0; i < count; i++) {
        flock_peer *p = &f->peers[i];
        p->dies_at_shard = p->fails_at_shard = p->breaks_at_shard = -1;
        p->config = (gw_peer_config){.id = {{(uint8_t)(i + 1)}},
                                     .addr_count = 1,
                                     .identity = "job=test\nlr=0.1\n",
                                     .steps = steps,
                                     .effects = true,
                                     .shards = shards_of,
                                     .state_chunks = FLOCK_CHUNKS,
                                     .peers = founding,
                                     .quorum = quorum,
                                     .keep = 2,
                                     .replicas = 2,
                                     .join_timeout_ns = UINT64_C(10000000000),
                                     .resume_timeout_ns = UINT64_C(20000000000),
                                     .seed = i + 1};
        p->config.addrs[0] = (gw_addr){.family = 4, .ip = {127, 0, 0, 1}, .port = (uint16_t)(1000 + i)};
        p->config.seed_count = i == 0 ? 0 : 1;
        p->config.seeds[0] = f->peers[0].config.addrs[0];
    }
}

void flock_start(flock *f, uint32_t i) {
    flock_peer *p = &f->peers[i];
    cr_assert(p->brain == NULL);
    p->config.incarnation = (gw_incarnation){.boot = p->config.incarnation.boot + 1, .nonce = 77 + f->serial};
    p->config.checkpoint_steps = f->checkpoint_steps;
    p->config.verify = f->verify;
    gw_inventory inventory = {.step = p->saved_step,
                              .root = p->saved_root,
                              .fingerprint = flock_state_after(p->saved_step),
                              .ended = p->saved_ended,
                              .chunks = gw_set_copy(&p->saved_chunks)};
    p->config.record = p->record;
    p->config.record_length = p->record_length;
    p->config.inventory = &inventory;
    p->config.fell = &p->fell;
    p->config.fell_count = p->fell.boot != 0;
    p->config.inventory_count = p->saved_step > 0;
    p->fence = (gw_view){0};
    p->word = p->step = p->sealing = p->reducing = 0;
    p->accumulator_step = UINT64_MAX;
    p->state = flock_state_after(0);
    gw_set_free(&p->added);
    p->finished = false;
    p->shown_step = 0;
    gw_err err;
    p->brain = gw_peer_create(&p->config, &err);
    cr_assert_not_null(p->brain, "%s", err.text);
    gw_set_free(&inventory.chunks);
    flock_tell(f, i, (gw_event){.kind = GW_EV_START});
}

void flock_kill(flock *f, uint32_t i) {
    flock_peer *p = &f->peers[i];
    if (p->brain == NULL) return;
    gw_peer_destroy(p->brain);
    p->brain = NULL;
    end_links(f, i);
}

void flock_stop(flock *f, uint32_t i) {
    f->peers[i].stopped = true;
}

void flock_continue(flock *f, uint32_t i) {
    f->peers[i].stopped = false;
}

void flock_tell(flock *f, uint32_t i, gw_event event) {
    gw_actions actions = {0};
    gw_peer_step(f->peers[i].brain, &event, f->now, &actions);
    for (uint32_t k = 0; k < actions.count; k++) carry_out(f, i, &actions.list[k]);
    gw_actions_free(&actions);
}

static void free_event(flock_event *e) {
    free(e->bytes);
    free(e->slots);
    free(e->hashes);
    gw_set_free(&e->held);
    gw_set_free(&e->claimed);
}

static bool earlier(const flock_event *a, const flock_event *b) {
    return a->at != b->at ? a->at < b->at : a->serial < b->serial;
}

static void handle(flock *f, flock_event *e) {
    flock_peer *p = &f->peers[e->to];
    if (e->redial) link_peers(f, e->to, (uint32_t)index_of(f, &e->event.peer));
    if (e->redial || p->brain == NULL || p->config.incarnation.boot != e->life || p->finished) return;
    if (e->event.kind == (gw_event_kind)0) {
        p->fell = (gw_loss){.id = p->config.id, .boot = e->life, .step = p->step, .shard = e->event.shard};
        flock_kill(f, e->to);
        return;
    }
    if (e->event.kind == GW_EV_MESSAGE && !p->linked[index_of(f, &e->event.peer)]) return;
    if (e->event.kind == GW_EV_LINK_DOWN && e->event.link_end == GW_LINK_CLOSED) {
        uint32_t other = (uint32_t)index_of(f, &e->event.peer);
        p->linked[other] = false;
        if (f->peers[other].brain == NULL) refuse(f, e->to, other); /* it dials again at once */
    }
    if (e->held.size > 0) {
        e->event.held = &e->held;
        e->event.claimed = &e->claimed;
    }
    e->event.slots = e->slots;
    if (e->slots != NULL) e->event.check_table = e->slots + e->table_at;
    e->event.hashes = e->hashes;
    flock_tell(f, e->to, e->event);
}

static bool all_finished(const flock *f) {
    for (uint32_t i = 0; i < f->count; i++)
        if (f->peers[i].brain != NULL && !f->peers[i].finished) return false;
    return true;
}

static bool next_event(const flock *f, uint32_t *next) {
    bool any = false;
    for (uint32_t k = 0; k < f->queued; k++) {
        if (f->peers[f->queue[k].to].stopped || (any && !earlier(&f->queue[k], &f->queue[*next]))) continue;
        *next = k;
        any = true;
    }
    return any;
}

bool flock_run(flock *f, bool (*condition)(const flock *f), uint64_t most) {
    for (uint64_t n = 0; n < most; n++) {
        if (condition != NULL ? condition(f) : all_finished(f)) return true;
        uint64_t timer = UINT64_MAX;
        uint32_t who = 0, next = 0;
        for (uint32_t i = 0; i < f->count; i++) {
            flock_peer *p = &f->peers[i];
            if (p->brain == NULL || p->finished || p->stopped) continue;
            uint64_t due = gw_peer_deadline(p->brain);
            if (due < timer) timer = due, who = i;
        }
        bool any = next_event(f, &next);
        if (!any && timer == UINT64_MAX) return false;
        if (!any || timer < f->queue[next].at) {
            if (timer > f->now) f->now = timer;
            flock_event tick = {
                .to = who, .life = f->peers[who].config.incarnation.boot, .event = {.kind = GW_EV_TIMER}};
            handle(f, &tick);
            continue;
        }
        flock_event e = f->queue[next];
        f->queue[next] = f->queue[--f->queued];
        if (e.at > f->now) f->now = e.at;
        handle(f, &e);
        free_event(&e);
    }
    return false;
}

void flock_close(flock *f) {
    for (uint32_t i = 0; i < f->count; i++) {
        gw_peer_destroy(f->peers[i].brain);
        gw_set_free(&f->peers[i].list);
        gw_set_free(&f->peers[i].added);
        gw_set_free(&f->peers[i].stored);
        gw_set_free(&f->peers[i].saved_chunks);
        free(f->peers[i].record);
        free(f->peers[i].said);
    }
    for (uint32_t k = 0; k < f->queued; k++) free_event(&f->queue[k]);
    free(f->queue);
}

/* ---- what most tests ask
 * ------------------------------------------------------------------------------------------------- */

void flock_start_all(flock *f) {
    for (uint32_t i = 0; i < f->count; i++) flock_start(f, i);
}

bool flock_at_step_5(const flock *f) {
    for (uint32_t i = 0; i < f->count; i++)
        if (f->peers[i].brain != NULL && f->peers[i].step >= 5) return true;
    return false;
}

uint32_t flock_leader(const flock *f) {
    for (uint32_t i = 0; i < f->count; i++) {
        gw_peer_status status;
        if (f->peers[i].brain == NULL) continue;
        gw_peer_status_get(f->peers[i].brain, &status);
        if (status.view != NULL) return (uint32_t)index_of(f, &status.view->leader);
    }
    cr_assert_fail("no leader");
    return 0;
}

gw_peer_status flock_status(const flock *f, uint32_t i) {
    gw_peer_status status;
    gw_peer_status_get(f->peers[i].brain, &status);
    return status;
}

uint32_t flock_finished(const flock *f, gw_finish finish) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < f->count; i++)
        count += f->peers[i].brain != NULL && f->peers[i].finished && f->peers[i].finish == finish;
    return count;
}

void flock_expect_done(const flock *f, uint32_t least) {
    uint32_t done = 0;
    for (uint32_t i = 0; i < f->count; i++) {
        const flock_peer *p = &f->peers[i];
        if (p->brain == NULL) continue;
        cr_assert(p->finished, "peer %u", i);
        cr_assert_eq(p->finish, GW_FINISH_DONE, "peer %u: %s", i, p->finish_text);
        cr_assert_eq(p->state, flock_state_after(f->steps));
        done++;
    }
    cr_assert_geq(done, least);
}
