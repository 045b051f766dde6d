/* An audit names the step, the shard and the peer of each of a thousand bits that flipped, and finds nothing where
 * none did. */
#include "core/base/mix.h"
#include "core/params.h"
#include "scratch.h"
#include "tools/godwit/audit/audit.h"
#include "tools/godwit/receipt/receipts.h"

#include <criterion/criterion.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { ELEMENTS = 40, SHARDS = 7, STEPS = 12, PEERS = 2 };
enum { WEIGHTS, GRADIENT, TENSORS };

static const gw_tensor tensors[TENSORS] = {
    [WEIGHTS] = {.name = "weights", .dtype = GW_I64, .role = GW_STATE, .rank = 1, .dim = {ELEMENTS}},
    [GRADIENT] = {.name = "gradient", .role = GW_SUMMED, .rank = 1, .dim = {ELEMENTS}},
};

/* The bit that flips on the machine whose receipts are audited. */
static struct {
    enum { NONE, IN_SHARD, IN_STATE } where;
    uint64_t step; /* steps done before it */
    uint32_t shard, element, bit;
} flip;

static bool job_open(const gw_params *params, void **job, gw_err *err) {
    (void)params, (void)err;
    *job = malloc(1);
    return true;
}

static bool job_describe(void *job, gw_plan *plan, gw_err *err) {
    (void)job, (void)err;
    plan->tensors = tensors;
    plan->tensor_count = TENSORS;
    plan->steps = STEPS;
    return true;
}

static bool job_lane_open(void *job, void **lane, gw_err *err) {
    (void)job, (void)err;
    *lane = NULL;
    return true;
}

static void job_lane_close(void *job, void *lane) {
    (void)job, (void)lane;
}

static bool job_init(void *job, const gw_range *range, const gw_state *state, gw_err *err) {
    (void)job, (void)err;
    for (uint64_t i = range->first; i < range->first + range->count; i++)
        ((int64_t *)state->data[WEIGHTS])[i] = (int64_t)i;
    return true;
}

static uint32_t job_shards(const void *job, uint64_t step, gw_phase *phase) {
    (void)job, (void)step;
    *phase = GW_TRAIN;
    return SHARDS;
}

static bool job_contribute(void *job, void *lane, uint64_t step, uint32_t shard, const gw_state *state,
                           gw_emitter *emitter, gw_err *err) {
    const int64_t *weights = state->data[WEIGHTS];
    int64_t gradient[ELEMENTS];
    (void)job, (void)lane, (void)err;
    for (uint64_t i = 0; i < ELEMENTS; i++)
        gradient[i] = (int64_t)(gw_mix64((uint64_t)weights[i] ^ gw_mix64(step * SHARDS + shard)) >> 24);
    if (flip.where == IN_SHARD && flip.step == step && flip.shard == shard)
        gradient[flip.element] ^= INT64_C(1) << flip.bit;
    gw_emit_integers(emitter, GRADIENT, 0, ELEMENTS, gradient);
    return true;
}

static bool job_apply(void *job, uint64_t step, const gw_range *range, const gw_sums *sums,
                      const gw_scalars *scalars, const gw_state *state, gw_err *err) {
    (void)job, (void)scalars, (void)err;
    for (uint64_t i = range->first; i < range->first + range->count; i++) {
        int64_t *weight = &((int64_t *)state->data[WEIGHTS])[i];
        *weight = (int64_t)((uint64_t)*weight * 3 + (uint64_t)sums->data[GRADIENT][i]);
        if (flip.where == IN_STATE && flip.step == step && flip.element == i)
            *weight ^= INT64_C(1) << flip.bit;
    }
    return true;
}

static const gw_option no_options[] = {{0}};
static const gw_job_type type = {.api = GW_JOB_API,
                                 .name = "flips",
                                 .about = "a job of this test",
                                 .options = no_options,
                                 .open = job_open,
                                 .close = free,
                                 .describe = job_describe,
                                 .lane_open = job_lane_open,
                                 .lane_close = job_lane_close,
                                 .init = job_init,
                                 .shards = job_shards,
                                 .contribute = job_contribute,
                                 .apply = job_apply};

static const char *const given[] = {NULL};
static gw_run_options options;
static gw_rerun *rerun;
static gw_directory directories[PEERS];
static char *dirs[PEERS];

static void setup(void) {
    gw_err err;
    scratch_open();
    for (int i = 0; i < PEERS; i++) {
        dirs[i] = strdup(scratch_path(i == 0 ? "a" : "b"));
        cr_assert(gw_directory_open(dirs[i], &directories[i], &err), "%s", err.text);
    }
    options = (gw_run_options){
        .job = &type, .dir = dirs[0], .workers = 2, .given = (const char **)(uintptr_t)given, .fresh = true};
    options.params.record = gw_param_record_open();
    rerun = gw_rerun_open(&options, &directories[0], &err);
    cr_assert(rerun != NULL, "%s", err.text);
}

static void teardown(void) {
    gw_rerun_close(rerun);
    gw_param_record_close(options.params.record);
    for (int i = 0; i < PEERS; i++) {
        gw_directory_close(&directories[i]);
        free(dirs[i]);
    }
    scratch_close();
}

TestSuite(audit, .init = setup, .fini = teardown);

/* The peer that adds a shard in a step. */
static int adds(uint64_t step, uint32_t shard) {
    return (int)(gw_mix64(step * SHARDS + shard) % PEERS);
}

/* Runs the job, with the flip, and writes the receipts that its peers would keep. */
static void record(void) {
    gw_err err;
    gw_helper *helper = gw_helper_open("test", &err);
    gw_receipts *receipts[PEERS];
    for (int i = 0; i < PEERS; i++) {
        receipts[i] = gw_receipts_open(&directories[i], gw_rerun_job(rerun), 0, true, helper, &err);
        cr_assert(receipts[i] != NULL, "%s", err.text);
        gw_receipts_load(receipts[i], 0, 0);
    }
    cr_assert(gw_rerun_begin(rerun, &err), "%s", err.text);
    for (uint64_t step = 1; step <= STEPS; step++) {
        gw_remade made;
        cr_assert(gw_rerun_step(rerun, &made, &err), "%s", err.text);
        cr_assert_eq(made.shards, SHARDS);
        for (int i = 0; i < PEERS; i++) {
            gw_receipt_part part = {.step = step};
            gw_receipt now, before;
            uint64_t bits = 0;
            for (uint32_t s = 0; s < SHARDS; s++) {
                if (adds(step - 1, s) != i) continue;
                bits |= UINT64_C(1) << s;
                part.print += made.print[s];
                part.located += gw_exact_locator(s, made.print[s]);
            }
            gw_receipt_part_runs(&part, &bits, SHARDS);
            gw_receipts_note_sum(receipts[i], made.receipt.sum, made.receipt.coverage, &part);
            gw_receipts_apply(receipts[i], step, made.receipt.state);
            gw_receipts_commit(receipts[i], step, &now, &before);
        }
    }
    for (int i = 0; i < PEERS; i++) gw_receipts_flush(receipts[i], false);
    gw_helper_close(helper);
    for (int i = 0; i < PEERS; i++) gw_receipts_close(receipts[i]);
}

static gw_audit follow(uint64_t last) {
    gw_audit audit = {.rerun = rerun, .dirs = dirs, .dir_count = PEERS};
    gw_err err;
    flip.where = NONE; /* the machine that audits is sound */
    cr_assert(gw_rerun_begin(rerun, &err), "%s", err.text);
    cr_assert(gw_audit_follow(&audit, last, &err), "%s", err.text);
    return audit;
}

Test(audit, a_sound_run_is_found_sound) {
    record();
    gw_audit audit = follow(STEPS);
    cr_assert_eq(audit.count, 0);
    cr_assert_eq(audit.compared, STEPS * PEERS);
    cr_assert(audit.first == 1 && audit.last == STEPS);
    gw_audit_free(&audit);
}

Test(audit, each_of_a_thousand_flips_is_named_with_its_step_and_shard, .timeout = 600) {
    enum { FLIPS = 1000 };
    for (uint64_t i = 0; i < FLIPS; i++) {
        uint64_t random = gw_mix64(i);
        flip.where = i % 4 == 3 ? IN_STATE : IN_SHARD;
        flip.step = random % STEPS;
        flip.shard = (uint32_t)(random >> 8) % SHARDS;
        flip.element = (uint32_t)(random >> 16) % ELEMENTS;
        flip.bit = (uint32_t)(random >> 32) % (flip.where == IN_STATE ? 64 : 39);
        bool in_state = flip.where == IN_STATE;
        record();
        gw_audit audit = follow(STEPS);
        cr_assert_eq(audit.last, flip.step + 1, "flip %lu: the audit went on to step %lu", i, audit.last);
        cr_assert_eq(audit.count, PEERS, "flip %lu: both peers have the wrong result", i);
        for (uint32_t f = 0; f < audit.count; f++) {
            const gw_audit_finding *one = &audit.findings[f];
            bool own = !in_state && adds(flip.step, flip.shard) == (int)one->dir;
            cr_assert_eq(one->step, flip.step + 1);
            cr_assert_eq(one->kind, in_state ? GW_AUDIT_STATE : GW_AUDIT_SUM);
            cr_assert_eq(one->own_part, own, "flip %lu: %s", i, one->text);
            cr_assert_eq(one->shard, own ? flip.shard : UINT32_MAX, "flip %lu: %s", i, one->text);
        }
        gw_audit_free(&audit);
    }
}

Test(audit, a_byte_changed_in_the_file_is_told_from_a_wrong_step) {
    enum { HEADER = 64 };
    char name[40], path[300], digits[GW_HASH_TEXT];
    gw_err err;
    gw_hex(gw_rerun_job(rerun)->bytes, 4, digits);
    snprintf(name, sizeof name, "receipts-%s", digits);
    snprintf(path, sizeof path, "%s/%s", dirs[1], name);
    for (uint64_t i = 0; i < 100; i++) {
        uint64_t random = gw_mix64(i), at = random % (STEPS * GW_RECEIPT_BYTES), first, last;
        uint64_t step = at / GW_RECEIPT_BYTES + 1;
        record();
        FILE *file = fopen(path, "r+");
        cr_assert(file != NULL && fseek(file, (long)(HEADER + at), SEEK_SET) == 0);
        int byte = fgetc(file);
        cr_assert(fseek(file, (long)(HEADER + at), SEEK_SET) == 0 &&
                  fputc(byte ^ (1 << random % 7), file) != EOF);
        cr_assert_eq(fclose(file), 0);
        gw_audit audit = {.rerun = rerun, .dirs = dirs, .dir_count = PEERS};
        for (uint32_t dir = 0; dir < PEERS; dir++) {
            cr_assert(gw_audit_check_chain(&audit, dir, &first, &last, &err), "%s", err.text);
            cr_assert(first == 1 && last == STEPS);
        }
        cr_assert_eq(audit.count, 1);
        cr_assert(audit.findings[0].kind == GW_AUDIT_FILE && audit.findings[0].dir == 1);
        cr_assert_eq(audit.findings[0].step, step, "byte %lu: step %lu", at, audit.findings[0].step);
        cr_assert(gw_rerun_begin(rerun, &err), "%s", err.text);
        cr_assert(gw_audit_follow(&audit, STEPS, &err), "%s", err.text);
        cr_assert_eq(audit.count, 1, "no machine is blamed for it");
        gw_audit_free(&audit);
    }
}

Test(audit, two_runs_part_where_the_bit_flipped) {
    gw_audit_parting parting;
    gw_err err;
    record();
    char *sound = strdup(scratch_path("sound"));
    cr_assert_eq(rename(dirs[0], sound), 0);
    gw_directory_close(&directories[0]);
    cr_assert(gw_directory_open(dirs[0], &directories[0], &err), "%s", err.text);
    flip.where = IN_SHARD;
    flip.step = 5;
    record();
    const gw_hash *job = gw_rerun_job(rerun);
    cr_assert(gw_audit_part(sound, job, dirs[0], job, &parting, &err), "%s", err.text);
    cr_assert(parting.step == 6 && parting.sums && parting.first == 1 && parting.last == STEPS);
    flip.where = IN_STATE;
    flip.step = 8;
    record();
    cr_assert(gw_audit_part(sound, job, dirs[0], job, &parting, &err), "%s", err.text);
    cr_assert(parting.step == 9 && !parting.sums);
    flip.where = NONE;
    record();
    cr_assert(gw_audit_part(sound, job, dirs[0], job, &parting, &err), "%s", err.text);
    cr_assert_eq(parting.step, 0);
    gw_hash found;
    cr_assert(gw_audit_find_job(sound, NULL, &found, &err), "%s", err.text);
    cr_assert(gw_hash_equal(&found, job));
    cr_assert_not(gw_audit_find_job(sound, "00000000", &found, &err));
    cr_assert_eq(err.code, GW_E_NOTFOUND);
    free(sound);
}

Test(audit, without_receipts_it_says_so) {
    gw_audit audit = {.rerun = rerun, .dirs = dirs, .dir_count = PEERS};
    gw_err err;
    cr_assert(gw_rerun_begin(rerun, &err), "%s", err.text);
    cr_assert_not(gw_audit_follow(&audit, STEPS, &err));
    cr_assert_eq(err.code, GW_E_NOTFOUND, "%s", err.text);
    gw_audit_free(&audit);
}
