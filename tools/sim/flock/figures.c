#include "tools/sim/flock/figures.h"

#include "core/base/assert.h"
#include "tools/sim/flock/world.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CHANGES = 40, SUBMISSIONS = 10, REST_S = 60 };

static double now_ms(void) {
    struct timespec at;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &at);
    return (double)at.tv_sec * 1e3 + (double)at.tv_nsec / 1e6;
}

/* Deciding: one member with all records, and the claims of all others. */

typedef struct desk {
    gw_rng rng;
    gw_job_records *records;
    gw_decider *decider;
    gw_claims *lists;
    const gw_claims **members;
    gw_job_record_id *ids;
    uint32_t member_count, record_count;
    uint64_t now_ns;
} desk;

static void ignore(void *context, const gw_do *action) {
    (void)context;
    (void)action;
}

static void submit(desk *d, uint32_t number, const uint8_t secret_key[64], const uint8_t public_key[32]) {
    static const char *command[] = {"render"};
    uint8_t *bytes;
    uint32_t length;
    gw_err err;
    bool steps = gw_rng_below(&d->rng, 3) == 0;
    uint32_t least = steps ? 1 + (uint32_t)gw_rng_below(&d->rng, 4) : 1;
    gw_job_spec spec = {.counter = number + 1,
                        .kind = steps ? GW_JOB_RUN : GW_JOB_COMMAND,
                        .name = "a",
                        .command = command,
                        .command_count = 1,
                        .need = {.cores = 1u << gw_rng_below(&d->rng, 5), .gpus = steps && number % 2},
                        .build = "1",
                        .least = least,
                        .most = steps ? least + (uint32_t)gw_rng_below(&d->rng, 8) : 1,
                        .shares = 1};
    memcpy(spec.nonce, &number, sizeof number);
    memcpy(spec.submitter, public_key, sizeof spec.submitter);
    GW_ASSERT(gw_job_spec_write(&spec, secret_key, &bytes, &length, &err));
    d->ids[number] = gw_job_record_id_of(bytes, length);
    gw_job_record record = gw_job_record_of(&d->ids[number]);
    record.spec = bytes;
    record.spec_bytes = length;
    gw_job_records_join(d->records, &record);
    gw_job_record_free(&record);
}

static void open_desk(desk *d, uint32_t members, uint32_t records, uint64_t seed) {
    uint8_t secret_key[64], public_key[32];
    gw_err err;
    *d = (desk){.rng = gw_rng_seeded(seed), .member_count = members, .record_count = records, .now_ns = 1};
    crypto_sign_seed_keypair(public_key, secret_key, (const uint8_t *)"0123456789abcdef0123456789abcdef");
    d->records = gw_job_records_open(&err);
    d->lists = calloc(members, sizeof *d->lists);
    d->members = calloc(members, sizeof(const gw_claims *));
    d->ids = calloc(records, sizeof *d->ids);
    GW_ASSERT_MEMORY(d->records && d->lists && d->members && d->ids);
    for (uint32_t i = 0; i < records; i++) submit(d, i, secret_key, public_key);
    for (uint32_t i = 0; i < members; i++) {
        d->lists[i] = (gw_claims){.member = {{(uint8_t)(i >> 8), (uint8_t)i, 1}},
                                  .boot = 1,
                                  .number = 1,
                                  .past_gate = true,
                                  .has = {16, 65536, i % 4 == 0 ? 2 : 0},
                                  .build = "1"};
        d->members[i] = &d->lists[i];
    }
    d->decider = gw_decider_open(&d->lists[0].member);
}

static double decide(desk *d, uint32_t self) {
    gw_decide_input in = {.now_ns = d->now_ns,
                          .records = d->records,
                          .members = d->members,
                          .member_count = d->member_count,
                          .past_gate = true,
                          .heard = UINT64_MAX};
    double before = now_ms();
    gw_decide(d->decider, &in, &d->lists[self], ignore, NULL);
    d->now_ns += SIM_FLOCK_SECOND;
    return now_ms() - before;
}

/* Nodes take what fits into them, in the order of submission, as they would have come to run it. */
static void claim_all(desk *d) {
    uint32_t node = 0;
    gw_allot_need *left = calloc(d->member_count, sizeof *left);
    GW_ASSERT_MEMORY(left != NULL);
    for (uint32_t i = 0; i < d->member_count; i++) left[i] = d->lists[i].has;
    for (uint32_t i = 0; i < d->record_count; i++) {
        gw_job_spec spec;
        gw_err err;
        const gw_job_record *record = gw_job_records_find(d->records, &d->ids[i]);
        GW_ASSERT(gw_job_spec_read(record->spec, record->spec_bytes, &spec, &err));
        for (uint32_t k = 0, got = 0; k < d->member_count && got < spec.least; k++) {
            uint32_t at = (node + k) % d->member_count;
            if (left[at].cores < spec.need.cores || left[at].gpus < spec.need.gpus) continue;
            left[at].cores -= spec.need.cores;
            left[at].gpus -= spec.need.gpus;
            gw_claims_set(&d->lists[at], &(gw_claim){.job = d->ids[i], .state = GW_CLAIM_RUNNING});
            got++;
        }
        node += 7;
        gw_job_record started = gw_job_record_of(&d->ids[i]);
        started.started = true;
        gw_job_records_join(d->records, &started);
        gw_job_spec_free(&spec);
    }
    free(left);
}

/* A job that runs is over, and its nodes claim it no more. */
static void end_one(desk *d, uint32_t number) {
    gw_job_record done = gw_job_record_of(&d->ids[number]);
    done.ends[done.end_count++] = (gw_job_record_end){.kind = 1, .when = 1, .member = d->lists[0].member};
    gw_job_records_join(d->records, &done);
    for (uint32_t i = 0; i < d->member_count; i++) gw_claims_remove(&d->lists[i], &d->ids[number]);
}

static void measure_decisions(uint32_t members, uint32_t records, uint64_t seed, sim_flock_figures *f) {
    desk d;
    open_desk(&d, members, records, seed);
    claim_all(&d);
    f->first_ms = decide(&d, 0);
    for (uint32_t i = 0; i < CHANGES; i++) {
        end_one(&d, i * 3);
        double took = decide(&d, 0);
        f->change_ms += took / CHANGES;
        if (took > f->slowest_ms) f->slowest_ms = took;
    }
    for (uint32_t i = 0; i < members; i++) gw_claims_free(&d.lists[i]);
    gw_decider_close(d.decider);
    gw_job_records_close(d.records);
    free(d.lists);
    free(d.members);
    free(d.ids);
}

/* Telling: all members under virtual time. */

static bool all_know(const sim_flock *w, const gw_job_record_id *id) {
    for (uint32_t i = 0; i < w->count; i++)
        if (gw_job_records_find(w->members[i].records, id) == NULL) return false;
    return true;
}

static void measure_telling(uint32_t members, uint64_t seed, sim_flock_figures *f) {
    sim_flock_config config = {.count = members,
                               .seed = seed,
                               .message_least_ns = 100000,
                               .message_most_ns = 2 * SIM_FLOCK_MS,
                               .notice_most_ns = SIM_FLOCK_SECOND,
                               .disk_most_ns = 10 * SIM_FLOCK_MS,
                               .gate_ns = GW_EXCHANGE_GATE_NS,
                               .takeover_ns = GW_SIDES_TAKEOVER_NS,
                               .rest_ns = 50 * SIM_FLOCK_MS};
    sim_flock *w = sim_flock_open(&config);
    sim_flock_introduce(w);
    GW_ASSERT(members > 0);
    for (uint32_t i = 0; i < members; i++) sim_flock_start(w, i);
    sim_flock_run(w, 30 * SIM_FLOCK_SECOND);
    uint64_t before = w->sent_bytes;
    sim_flock_run(w, REST_S * SIM_FLOCK_SECOND);
    f->rest_bytes = (double)(w->sent_bytes - before) / members / REST_S;
    for (uint32_t i = 0; i < SUBMISSIONS; i++) {
        gw_job_spec spec = {
            .kind = GW_JOB_COMMAND, .name = "a", .least = 1, .most = 1, .shares = 1, .hold = true};
        uint64_t began = sim_flock_now(w), bytes = w->sent_bytes;
        gw_job_record_id id = sim_flock_submit(w, i * 37 % members, &spec);
        while (!all_know(w, &id)) sim_flock_run(w, SIM_FLOCK_MS);
        double took = (double)(sim_flock_now(w) - began) / 1e9;
        f->known_s += took / SUBMISSIONS;
        if (took > f->known_most_s) f->known_most_s = took;
        sim_flock_run(w, 10 * SIM_FLOCK_SECOND);
        f->known_bytes +=
            ((double)(w->sent_bytes - bytes) / members - (10 + took) * f->rest_bytes) / SUBMISSIONS;
    }
    sim_flock_close(w);
}

void sim_flock_measure(uint32_t members, uint32_t records, uint32_t telling, uint64_t seed,
                       sim_flock_figures *f) {
    *f = (sim_flock_figures){.members = members, .records = records, .telling = telling};
    measure_decisions(members, records, seed, f);
    measure_telling(telling, seed, f);
}

bool sim_flock_figures_good(const sim_flock_figures *f) {
    return f->change_ms <= 10 && f->rest_bytes <= 512 && f->known_most_s <= 2;
}

void sim_flock_figures_print(const sim_flock_figures *f) {
    printf("a decision with %u members and %u jobs that are not over: %.0f ms at first; after a change %.1f "
           "ms, %.1f ms at most (asked: 10 ms)\n",
           f->members, f->records, f->first_ms, f->change_ms, f->slowest_ms);
    printf("%u members: at rest one sends %.0f bytes a second (asked: 512)\n", f->telling, f->rest_bytes);
    printf("a submission is known to all after %.2f s, %.2f s at most (asked: 2 s); a member sends %.0f "
           "bytes for it\n",
           f->known_s, f->known_most_s, f->known_bytes);
}
