/* A peer's disk, and states that it fetches. */
#include "tests/core/brain/flock/inside.h"

#include "core/brain/state.h" /* has_state */

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

/* What takes long tells once a second that it gets on. */
static void post_progress(flock *f, uint32_t i, const gw_action *a, uint64_t lasts_ns) {
    gw_event progress = {.kind = GW_EV_PROGRESS, .token = a->token};
    for (uint64_t at = 1000000000; at < lasts_ns && !f->peers[i].silent; at += 1000000000)
        flock_post(f, i, at, progress);
}

void flock_load(flock *f, uint32_t i, const gw_action *a) {
    flock_peer *p = &f->peers[i];
    p->loads++;
    if (a->load.kind == GW_LOAD_MANIFEST && p->reads_hang) return;
    gw_event event = {.kind = GW_EV_LOADED, .token = a->token, .outcome = GW_DONE, .text = f->reason};
    if (a->load.kind == GW_LOAD_PEERS) {
        int from = flock_index(f, &a->load.sources[0]);
        flock_peer *donor = &f->peers[from];
        if (donor->flip_lent) donor->state ^= 1;
        donor->flip_lent = false;
        if (donor->brain == NULL || donor->step != a->step || donor->state != flock_state_after(a->step))
            event.outcome = GW_FAILED;
        if (f->data_lost[i][from]) event.outcome = GW_FAILED;
        event.loaded.changed = event.outcome == GW_DONE && (donor->changes_lent || p->changes_fetched);
        if (event.loaded.changed) {
            event.outcome = GW_FAILED;
            event.peer = donor->config.id;
        }
    }
    if (a->load.kind == GW_LOAD_MANIFEST && p->manifests_unloadable) event.outcome = GW_FAILED;
    if (p->loads_to_fail > 0) {
        p->loads_to_fail--;
        event.outcome = GW_FAILED;
    }
    if (a->load.kind == GW_LOAD_MANIFEST && (p->damaged || p->manifests_lost)) {
        static gw_set sound;
        gw_set_free(&sound);
        sound = gw_set_of(FLOCK_CHUNKS);
        for (uint32_t k = 1; k < FLOCK_CHUNKS && !p->manifests_lost; k++) gw_set_add(&sound, k);
        event.outcome = GW_FAILED;
        event.loaded.held = &sound;
    }
    if (event.outcome == GW_DONE) {
        p->step = a->step;
        p->state = flock_state_after(a->step);
    }
    event.loaded.fingerprint = p->loads_other_bits ? ~p->state : p->state;
    post_progress(f, i, a, p->load_ns);
    flock_post(f, i, 3000 + p->load_ns, event);
}

/* ---- where there is little room ---- */

static gw_hash chunk_name(uint64_t state, uint32_t chunk) {
    uint64_t content = state ^ chunk;
    gw_hash name;
    gw_blake2b(&content, sizeof content, name.bytes, sizeof name.bytes);
    return name;
}

static bool put_chunk(flock_store *store, const gw_hash *name) {
    uint32_t at = 0;
    while (at < store->count && !gw_hash_equal(&store->chunks[at], name)) at++;
    if (at == store->room) return false;
    if (at < store->count) return true;
    store->chunks[store->count++] = *name;
    store->written++;
    return true;
}

/* False where there was no room for all of them; some are stored then. */
static bool put_chunks(flock_peer *p, const gw_action *a) {
    flock_store *store = &p->store;
    if (store->room == 0) return true;
    for (uint32_t k = 0; k < a->save.count; k++) {
        gw_hash name = chunk_name(p->state, a->save.chunks[k]);
        if (!put_chunk(store, &name)) return false;
    }
    return true;
}

static void put_manifest(flock_peer *p, const gw_action *a, const gw_hash *root) {
    flock_store *store = &p->store;
    if (store->room == 0) return;
    cr_assert(store->manifest_count < FLOCK_FILES && a->manifest.count == FLOCK_CHUNKS);
    store->manifests[store->manifest_count].root = *root;
    memcpy(store->manifests[store->manifest_count++].chunks, a->manifest.hashes,
           a->manifest.count * sizeof *a->manifest.hashes);
}

static bool is_named(const flock_store *store, const gw_hash *name) {
    for (uint32_t m = 0; m < store->manifest_count; m++)
        for (uint32_t k = 0; k < FLOCK_CHUNKS; k++)
            if (gw_hash_equal(&store->manifests[m].chunks[k], name)) return true;
    return false;
}

uint32_t flock_chunks_of(const flock_peer *p, const gw_hash *root) {
    const flock_store *store = &p->store;
    uint32_t chunks = 0;
    for (uint32_t m = 0; m < store->manifest_count; m++) {
        if (!gw_hash_equal(&store->manifests[m].root, root)) continue;
        for (uint32_t k = 0; k < FLOCK_CHUNKS * store->count; k++)
            if (gw_hash_equal(&store->manifests[m].chunks[k % FLOCK_CHUNKS],
                              &store->chunks[k / FLOCK_CHUNKS]))
                chunks |= 1u << k % FLOCK_CHUNKS;
    }
    return chunks;
}

bool flock_has_orphans(const flock_peer *p) {
    for (uint32_t c = 0; c < p->store.count; c++)
        if (!is_named(&p->store, &p->store.chunks[c])) return true;
    return false;
}

void flock_retain(flock_peer *p, const gw_action *a) {
    flock_store *store = &p->store;
    uint32_t manifests = 0, chunks = 0;
    for (uint32_t m = 0; m < store->manifest_count; m++) {
        bool kept = false;
        for (uint32_t k = 0; k < a->retain.count; k++)
            kept |= gw_hash_equal(&a->retain.roots[k], &store->manifests[m].root);
        if (kept) store->manifests[manifests++] = store->manifests[m];
    }
    store->manifest_count = manifests;
    bool newest = false;
    for (uint32_t k = 0; k < a->retain.count; k++)
        newest |= gw_hash_equal(&a->retain.roots[k], &p->saved_root);
    if (!newest) p->saved_step = 0;
    for (uint32_t c = 0; c < store->count; c++)
        if (is_named(store, &store->chunks[c])) store->chunks[chunks++] = store->chunks[c];
    store->count = chunks;
}

void flock_save(flock *f, uint32_t i, const gw_action *a) {
    flock_peer *p = &f->peers[i];
    cr_assert(p->brain->state.present, "peer %u saves a state that it has dropped", i);
    p->saves++;
    if (p->flip_save != 0 && p->step == p->flip_save) {
        p->state ^= 1;
        p->flip_save = 0;
    }
    bool failed = !a->save.hash_only && (p->disk_full || !put_chunks(p, a));
    post_progress(f, i, a, p->save_ns);
    flock_event *e = flock_post(f, i, 5000 + p->save_ns,
                                (gw_event){.kind = GW_EV_STORED,
                                           .token = a->token,
                                           .outcome = failed ? GW_FAILED : GW_DONE,
                                           .text = failed ? "no space left" : NULL,
                                           .stored.count = failed ? 0 : a->save.count});
    if (failed) return;
    e->hashes = calloc(a->save.count + 1, sizeof *e->hashes);
    gw_set_free(&p->stored);
    p->stored = gw_set_of(FLOCK_CHUNKS);
    for (uint32_t k = 0; k < a->save.count; k++) {
        e->hashes[k] = chunk_name(p->state, a->save.chunks[k]);
        if (!a->save.hash_only) gw_set_add(&p->stored, a->save.chunks[k]);
    }
}

void flock_manifest(flock *f, uint32_t i, const gw_action *a) {
    flock_peer *p = &f->peers[i];
    bool failed = (p->disk_full || p->manifests_fail) && !a->manifest.hash_only;
    gw_event event = {
        .kind = GW_EV_MANIFEST_STORED, .token = a->token, .outcome = failed ? GW_FAILED : GW_DONE};
    gw_blake2b(a->manifest.hashes, a->manifest.count * sizeof *a->manifest.hashes,
               event.manifest_stored.root.bytes, 32);
    if (p->manifests_hang && !a->manifest.hash_only) return;
    flock_post(f, i, 1000, event);
    if (failed || a->manifest.hash_only) return;
    put_manifest(p, a, &event.manifest_stored.root);
    p->saved_root = event.manifest_stored.root;
    p->saved_step = a->step;
    p->saved_epoch = a->manifest.epoch;
    p->saved_ended = a->manifest.ended;
    gw_set_free(&p->saved_chunks);
    p->saved_chunks = gw_set_copy(&p->stored);
}

/* What it has asked for is on the disk by now; if its life ends, the rest never will be. */
void flock_settle_records(flock *f, uint32_t i, bool ends) {
    flock_peer *p = &f->peers[i];
    uint32_t left = 0;
    for (uint32_t k = 0; k < p->written_count; k++) {
        flock_record *one = &p->written[k];
        if (one->durable_ns <= f->now) {
            free(p->record);
            p->record = one->bytes;
            p->record_length = one->length;
        } else if (ends) {
            free(one->bytes);
        } else {
            p->written[left++] = *one;
        }
    }
    p->written_count = left;
}

void flock_persist(flock *f, uint32_t i, const gw_action *a) {
    flock_peer *p = &f->peers[i];
    if (p->persists_fail) {
        flock_post(f, i, 1000, (gw_event){.kind = GW_EV_PERSISTED, .token = a->token, .outcome = GW_FAILED});
        return;
    }
    if (p->persists_hang) return;
    flock_settle_records(f, i, false);
    cr_assert_lt(p->written_count, FLOCK_RECORDS);
    uint64_t begins_ns = p->written_count > 0 ? p->written[p->written_count - 1].durable_ns : f->now;
    flock_record *record = &p->written[p->written_count++];
    *record = (flock_record){.bytes = malloc(a->persist.length + 1),
                             .length = a->persist.length,
                             .durable_ns = begins_ns + p->persist_ns};
    cr_assert_not_null(record->bytes);
    memcpy(record->bytes, a->persist.bytes, a->persist.length);
    flock_settle_records(f, i, false);
    flock_post(f, i, begins_ns + p->persist_ns + 1000 - f->now,
               (gw_event){.kind = GW_EV_PERSISTED, .token = a->token});
}

void flock_await_room_made(flock *f, uint32_t i) {
    flock_peer *p = &f->peers[i];
    while (p->brain->save.room_step == UINT64_MAX) {
        p->retained = 0;
        cr_assert(!flock_run(f, NULL, 1));
    }
    while (p->retained == 0) cr_assert(!flock_run(f, NULL, 1));
}
