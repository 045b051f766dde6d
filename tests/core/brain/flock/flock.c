#include "tests/core/brain/flock/inside.h"

#include "core/rng.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static uint32_t shards_of(const void *context, uint64_t step) {
    (void)context;
    (void)step;
    return FLOCK_SHARDS;
}

uint64_t flock_state_after(uint64_t steps) {
    static uint64_t known[1024] = {1}, count = 1; /* asked for at each event */
    for (; count <= steps && count < sizeof known / sizeof *known; count++)
        known[count] = gw_mix64(known[count - 1] + count - 1);
    uint64_t at = steps < count ? steps : count - 1, state = known[at];
    for (; at < steps; at++) state = gw_mix64(state + at);
    return state;
}

int flock_index(const flock *f, const gw_peer_id *id) {
    for (uint32_t i = 0; i < f->count; i++)
        if (gw_peer_id_equal(&f->peers[i].config.id, id)) return (int)i;
    return -1;
}

static void *some(uint32_t count, size_t size) {
    cr_assert_leq(count, FLOCK_MOST);
    void *zeros = calloc(count, size);
    cr_assert_not_null(zeros);
    return zeros;
}

void flock_open(flock *f, uint32_t count, uint32_t founding, uint64_t steps, gw_quorum quorum) {
    memset(f, 0, sizeof *f);
    f->count = count;
    f->peers = some(count, sizeof *f->peers);
    f->cut = some(count, sizeof *f->cut);
    f->parted = some(count, sizeof *f->parted);
    f->unheard = some(count, sizeof *f->unheard);
    f->data_broken = some(count, sizeof *f->data_broken);
    f->data_lost = some(count, sizeof *f->data_lost);
    f->longer_ns = some(count, sizeof *f->longer_ns);
    f->now = 1000000;
    f->steps = steps;
    f->message_ns = 100000;
    f->quorum = quorum;
    for (uint32_t i = 0; i < count; i++) {
        flock_peer *p = &f->peers[i];
        p->dies_at_shard = p->fails_at_shard = p->breaks_at_shard = p->ends_process = p->owes = -1;
        p->config = (gw_peer_config){.id = {{(uint8_t)(i + 1), (uint8_t)((i + 1) / 256)}},
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
                                     .save_timeout_ns = UINT64_C(20000000000),
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
    p->config.best = (gw_best_rule){.on = f->values != NULL, .patience = f->patience};
    p->config.best_by = "value:min";
    gw_inventory inventory = {.epoch = p->saved_epoch,
                              .step = p->saved_step,
                              .root = p->saved_root,
                              .fingerprint = p->saved_fingerprint != 0 ? p->saved_fingerprint
                                                                       : flock_state_after(p->saved_step),
                              .ended = p->saved_ended,
                              .chunks = gw_set_copy(&p->saved_chunks)};
    p->config.orphans = flock_has_orphans(p);
    p->config.record = p->record;
    p->config.record_length = p->record_length;
    p->config.inventory = p->found != NULL ? p->found : &inventory;
    p->config.fell = p->fell_before != NULL ? p->fell_before : &p->fell;
    p->config.fell_count = p->fell_before != NULL ? p->fell_before_count : p->fell.boot != 0;
    p->config.inventory_count = p->found != NULL ? p->found_count : p->saved_step > 0;
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
    flock_end_links(f, i);
    flock_settle_records(f, i, true);
}

void flock_stop(flock *f, uint32_t i) {
    f->peers[i].stopped = true;
}

void flock_continue(flock *f, uint32_t i) {
    f->peers[i].stopped = false;
    flock_release(f, i);
}

void flock_tell(flock *f, uint32_t i, gw_event event) {
    gw_actions actions = {0};
    gw_peer_step(f->peers[i].brain, &event, f->now, &actions);
    for (uint32_t k = 0; k < actions.count; k++) flock_carry_out(f, i, &actions.list[k]);
    gw_actions_free(&actions);
    if (f->peers[i].brain != NULL) f->peers[i].due_ns = gw_peer_deadline(f->peers[i].brain);
}

void flock_close(flock *f) {
    for (uint32_t i = 0; i < f->count; i++) {
        gw_peer_destroy(f->peers[i].brain);
        gw_set_free(&f->peers[i].list);
        gw_set_free(&f->peers[i].added);
        gw_set_free(&f->peers[i].stored);
        gw_set_free(&f->peers[i].saved_chunks);
        flock_settle_records(f, i, true);
        free(f->peers[i].record);
        free(f->peers[i].said);
    }
    flock_forget_events(f);
    free(f->peers);
    free(f->cut);
    free(f->parted);
    free(f->unheard);
    free(f->data_broken);
    free(f->data_lost);
    free(f->longer_ns);
}
