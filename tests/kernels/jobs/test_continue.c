/* Jobs that go on from the state of another one: where they are in their data and their schedule. */
#include "core/params.h"
#include "kernels/jobs/digits/digits.h"
#include "kernels/jobs/digits/setup.h"
#include "kernels/jobs/gpt/gpt.h"
#include "kernels/jobs/gpt/setup.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 80 };

/* A job, with what it has recorded, as its manifests list it. */
typedef struct opened {
    const gw_job_type *type;
    void *job;
    gw_params params;
    gw_param list[MOST], recorded[MOST];
    uint32_t recorded_count;
    char step[24];
} opened;

static bool try_open(opened *o, const gw_job_type *type, const char *const *pairs, const gw_origin *origin,
                     gw_err *err) {
    *o = (opened){.type = type, .params = {.record = gw_param_record_open(), .origin = origin}};
    for (const gw_option *option = type->options; option->name != NULL; option++) {
        const char *value = option->fallback;
        for (uint32_t i = 0; pairs[i] != NULL; i += 2)
            if (strcmp(pairs[i], option->name) == 0) value = pairs[i + 1];
        if (value != NULL) o->list[o->params.count++] = (gw_param){option->name, value};
    }
    o->params.list = o->list;
    if (!type->open(&o->params, &o->job, err)) {
        gw_param_record_close(o->params.record);
        return false;
    }
    while (gw_param_recorded(&o->params, o->recorded_count, &o->recorded[o->recorded_count]))
        o->recorded_count++;
    if (origin == NULL) return true;
    snprintf(o->step, sizeof o->step, "%llu", (unsigned long long)origin->step);
    o->recorded[o->recorded_count++] = (gw_param){"parent-step", o->step};
    return true;
}

static void open_job(opened *o, const gw_job_type *type, const char *const *pairs, const gw_origin *origin) {
    gw_err err;
    cr_assert(try_open(o, type, pairs, origin, &err), "%s", err.text);
}

static void close_job(opened *o) {
    o->type->close(o->job);
    gw_param_record_close(o->params.record);
}

/* The state of the parent after so many steps. */
static gw_origin origin_of(const opened *parent, uint64_t step) {
    return (gw_origin){.step = step, .parent = parent->recorded, .parent_count = parent->recorded_count};
}

static const char *recorded(const opened *o, const char *name) {
    for (uint32_t i = 0; i < o->recorded_count; i++)
        if (strcmp(o->recorded[i].name, name) == 0) return o->recorded[i].value;
    return NULL;
}

#define PAIRS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* The job gpt. An update takes 5 windows of 61; after 16 updates with evaluations after 6, 12 and 16 of
 * them. */

enum { PATH = 64 };
static char text_path[PATH], val_path[PATH];

static void write_text(char *path, size_t count) {
    snprintf(path, PATH, "/tmp/godwit-continue-XXXXXX");
    int fd = mkstemp(path);
    char text[1000];
    cr_assert(fd >= 0 && count <= sizeof text);
    for (size_t i = 0; i < count; i++) text[i] = (char)('a' + i * i % 17);
    cr_assert_eq(write(fd, text, count), (ssize_t)count);
    close(fd);
}

static void enter(void) {
    write_text(text_path, 61 * 7 + 3);
    write_text(val_path, 100);
}

static void leave(void) {
    unlink(text_path);
    unlink(val_path);
}

TestSuite(continue_job, .init = enter, .fini = leave);

#define GPT(updates, every, tokens)                                                                          \
    PAIRS("data", text_path, "val", val_path, "layers", "1", "heads", "1", "channels", "4", "context", "7",  \
          "batch-tokens", tokens, "micro-batch", "1", "updates", updates, "eval-every", every)

static const gpt_job *gpt(const opened *o) {
    return o->job;
}

/* Whether step `step` of one job and step `other` of another one take the same windows of the same order. */
static void expect_same_step(const opened *one, uint64_t step, const opened *other) {
    gpt_place a = gpt_place_of(gpt(one), step), b = gpt_place_of(gpt(other), step);
    cr_assert_eq(a.phase, b.phase, "step %d", (int)step);
    cr_assert_eq(a.update, b.update, "step %d", (int)step);
    cr_assert_eq(a.windows, b.windows, "step %d", (int)step);
    uint32_t tokens[2][64], targets[2][64];
    gw_err err;
    cr_assert(gpt_gather(gpt(one), &a, 0, tokens[0], targets[0], &err) &&
              gpt_gather(gpt(other), &b, 0, tokens[1], targets[1], &err));
    cr_assert_eq(memcmp(tokens[0], tokens[1], 7 * sizeof tokens[0][0]), 0, "step %d", (int)step);
}

Test(continue_job, the_same_options_go_on_as_if_nothing_had_been) {
    opened whole;
    open_job(&whole, &gw_job_gpt, GPT("16", "6", "35"), NULL);
    cr_assert_eq(gpt(&whole)->steps, 19);
    for (uint64_t step = 1; step < 18; step++) {
        opened branch, resumed;
        const gw_origin origin = origin_of(&whole, step);
        open_job(&branch, &gw_job_gpt, GPT("16", "6", "35"), &origin);
        cr_assert_eq(gpt(&branch)->steps, 19, "from %d", (int)step);
        for (uint64_t at = step; at < 19; at++) expect_same_step(&whole, at, &branch);
        /* On a peer without the parent's manifest. */
        const gw_origin place = {.step = step, .place = recorded(&branch, GW_PLACE)};
        open_job(&resumed, &gw_job_gpt, GPT("16", "6", "35"), &place);
        for (uint64_t at = step; at < 19; at++) expect_same_step(&whole, at, &resumed);
        close_job(&resumed);
        close_job(&branch);
    }
    close_job(&whole);
}

Test(continue_job, a_branch_of_a_branch_knows_its_place) {
    opened whole, longer, first, second;
    open_job(&whole, &gw_job_gpt, GPT("16", "6", "35"), NULL);
    open_job(&longer, &gw_job_gpt, GPT("30", "6", "35"), NULL);
    const gw_origin origin = origin_of(&whole, 7);
    open_job(&first, &gw_job_gpt, GPT("20", "6", "35"), &origin);
    const gw_origin later = origin_of(&first, 15);
    open_job(&second, &gw_job_gpt, GPT("30", "6", "35"), &later);
    cr_assert_eq(gpt(&second)->steps, gpt(&longer)->steps);
    for (uint64_t at = 15; at < gpt(&longer)->steps; at++) expect_same_step(&longer, at, &second);
    close_job(&second);
    close_job(&first);
    close_job(&longer);
    close_job(&whole);
}

Test(continue_job, another_batch_goes_on_at_the_same_window) {
    opened whole, branch;
    open_job(&whole, &gw_job_gpt, GPT("16", "6", "35"), NULL);
    const gw_origin origin = origin_of(&whole, 8); /* 7 updates and an evaluation */
    open_job(&branch, &gw_job_gpt, GPT("20", "6", "70"), &origin);
    cr_assert_str_eq(recorded(&branch, GW_PLACE), "updates=7 windows=35 evaluates=0");
    /* A cosine over 20 updates, of which 7 were made before. */
    cr_expect_not_null(strstr(gpt(&branch)->length_text, "; learning rate 0.0007"), "%s",
                       gpt(&branch)->length_text);
    cr_expect_not_null(strstr(gpt(&branch)->length_text, ", falling since update 1"), "%s",
                       gpt(&branch)->length_text);
    gpt_place place = gpt_place_of(gpt(&branch), 8);
    cr_assert_eq(place.update, 7);
    cr_assert_eq(place.windows, 10);
    cr_assert_eq(gpt(&branch)->start + place.update * gpt(&branch)->batch, 35);
    close_job(&branch);
    close_job(&whole);
}

Test(continue_job, an_evaluation_that_was_due_is_made_where_it_is_still_due) {
    static const struct {
        uint64_t step;      /* of the parent, which evaluates after every 6 updates, at steps 6 and 13 */
        const char *every;  /* of the branch */
        const char *phases; /* of its first steps */
    } cases[] = {{6, "6", "ett"}, {7, "6", "ttt"}, {6, "3", "ett"},
                 {6, "4", "tte"}, {9, "4", "ttt"}, {8, "4", "te"}};
    opened whole;
    open_job(&whole, &gw_job_gpt, GPT("16", "6", "35"), NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        opened branch;
        const gw_origin origin = origin_of(&whole, cases[i].step);
        open_job(&branch, &gw_job_gpt, GPT("16", cases[i].every, "35"), &origin);
        for (uint64_t k = 0; cases[i].phases[k] != '\0'; k++)
            cr_assert_eq(gpt_place_of(gpt(&branch), cases[i].step + k).phase,
                         cases[i].phases[k] == 'e' ? GW_EVALUATE : GW_TRAIN, "line %zu, step %d", i, (int)k);
        close_job(&branch);
    }
    close_job(&whole);
}

Test(continue_job, the_last_evaluation_of_the_parent_is_no_update) {
    opened whole, branch;
    open_job(&whole, &gw_job_gpt, GPT("16", "6", "35"), NULL);
    gw_origin origin = origin_of(&whole, 19); /* its end */
    open_job(&branch, &gw_job_gpt, GPT("20", "6", "35"), &origin);
    cr_assert_str_eq(recorded(&branch, GW_PLACE), "updates=16 windows=80 evaluates=0");
    close_job(&branch);
    origin = origin_of(&whole, 18);
    open_job(&branch, &gw_job_gpt, GPT("20", "6", "35"), &origin);
    cr_assert_str_eq(recorded(&branch, GW_PLACE), "updates=16 windows=80 evaluates=1");
    close_job(&branch);
    close_job(&whole);
}

/* Manifests of early builds have the options that were typed, and the defaults of those that have one. */
Test(continue_job, a_parent_of_an_early_build_is_understood) {
    const gw_param typed[] = {{"model", "nano"},    {"layers", "1"},        {"heads", "1"},
                              {"channels", "4"},    {"context", "7"},       {"epochs", "1.31"},
                              {"micro-batch", "1"}, {"batch-tokens", "35"}, {"eval-every", "6"}};
    opened branch;
    gw_origin origin = {.step = 19, .parent = typed, .parent_count = sizeof typed / sizeof *typed};
    open_job(&branch, &gw_job_gpt, GPT("20", "6", "35"), &origin);
    cr_assert_str_eq(recorded(&branch, GW_PLACE), "updates=16 windows=80 evaluates=0");
    close_job(&branch);
}

Test(continue_job, what_makes_no_sense_is_refused) {
    opened whole, branch;
    gw_err err;
    open_job(&whole, &gw_job_gpt, GPT("16", "6", "35"), NULL);
    gw_origin origin = origin_of(&whole, 18);
    cr_assert_not(try_open(&branch, &gw_job_gpt, GPT("16", "6", "35"), &origin, &err));
    cr_assert(strstr(err.text, "--updates: the training has 16, and the state that it goes on from has 16") !=
                  NULL,
              "%s", err.text);
    static const char *const places[] = {"",
                                         "updates=1",
                                         "updates=1 windows=5 evaluates=2",
                                         "updates=1 windows=5 evaluates=0 ",
                                         "updates=-1 windows=5 evaluates=0",
                                         "updates=1 windows=99999999999999999999999 evaluates=0"};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const gw_origin wrong = {.step = 1, .place = places[i]};
        cr_assert_not(try_open(&branch, &gw_job_gpt, GPT("16", "6", "35"), &wrong, &err), "'%s'", places[i]);
        cr_assert(strstr(err.text, "is no place of a gpt job") != NULL, "%s", err.text);
    }
    close_job(&whole);
}

/* The job digits. An epoch has five steps of 203 images and one of what is left of 1016, and an
 * evaluation. */

#define DIGITS(epochs, batch, samples)                                                                       \
    PAIRS("samples", samples, "batch", batch, "micro-batch", "33", "hidden", "8", "epochs", epochs,          \
          "optimizer", "sgd")

static void expect_same_digits(const opened *one, uint64_t step, const opened *other) {
    digits_place a = digits_place_of(one->job, step), b = digits_place_of(other->job, step);
    cr_assert(a.phase == b.phase && a.epoch == b.epoch && a.first == b.first && a.count == b.count &&
                  a.shards == b.shards && (a.phase == GW_EVALUATE || a.update == b.update),
              "step %d", (int)step);
}

Test(continue_job, digits_go_on_as_if_nothing_had_been) {
    opened whole, branch, resumed;
    open_job(&whole, &gw_job_digits, DIGITS("3", "203", "1016"), NULL);
    const digits_job *job = whole.job;
    cr_assert_eq(job->steps, 3 * 7);
    cr_assert_eq(job->updates, 3 * 6);
    for (uint64_t step = 1; step < 21; step++) {
        const gw_origin origin = origin_of(&whole, step);
        open_job(&branch, &gw_job_digits, DIGITS("3", "203", "1016"), &origin);
        const gw_origin place = {.step = step, .place = recorded(&branch, GW_PLACE)};
        open_job(&resumed, &gw_job_digits, DIGITS("3", "203", "1016"), &place);
        cr_assert_eq(((const digits_job *)branch.job)->steps, 21, "from %d", (int)step);
        cr_assert_eq(((const digits_job *)branch.job)->updates, 18, "from %d", (int)step);
        for (uint64_t at = step; at < 21; at++) {
            expect_same_digits(&whole, at, &branch);
            expect_same_digits(&whole, at, &resumed);
        }
        close_job(&resumed);
        close_job(&branch);
    }
    close_job(&whole);
}

Test(continue_job, digits_finish_the_epoch_with_another_batch) {
    opened whole, branch, other;
    open_job(&whole, &gw_job_digits, DIGITS("2", "203", "1016"), NULL);
    gw_origin origin = origin_of(&whole, 3);
    open_job(&branch, &gw_job_digits, DIGITS("2", "100", "1016"), &origin);
    const digits_job *job = branch.job;
    gw_plan plan = {0};
    gw_err err;
    cr_assert(gw_job_digits.describe(branch.job, &plan, &err), "%s", err.text);
    cr_expect_not_null(strstr(plan.length_text, "; learning rate 0.1684"), "%s", plan.length_text);
    cr_expect_not_null(strstr(plan.length_text, ", falling"), "%s", plan.length_text);
    digits_place place = digits_place_of(job, 3);
    cr_assert(place.first == 609 && place.count == 100 && place.update == 3);
    place = digits_place_of(job, 7); /* 609, 709, 809, 909, 1009 */
    cr_assert(place.first == 1009 && place.count == 7 && place.update == 7);
    cr_assert_eq(digits_place_of(job, 8).phase, GW_EVALUATE);
    place = digits_place_of(job, 9);
    cr_assert(place.epoch == 1 && place.first == 0 && place.update == 8);
    cr_assert_eq(job->steps, 9 + 11 + 1);
    /* A branch of the branch, with fewer images than the parent had taken: the epoch is over. */
    origin = origin_of(&branch, 7);
    open_job(&other, &gw_job_digits, DIGITS("2", "100", "600"), &origin);
    cr_assert_eq(digits_place_of(other.job, 7).phase, GW_EVALUATE);
    cr_assert_eq(digits_place_of(other.job, 8).update, 7);
    close_job(&other);
    close_job(&branch);
    origin = origin_of(&whole, 14);
    cr_assert_not(try_open(&branch, &gw_job_digits, DIGITS("2", "203", "1016"), &origin, &err));
    cr_assert(strstr(err.text, "--epochs: the training has 2, and the state that it goes on from has 2") !=
                  NULL,
              "%s", err.text);
    const gw_origin wrong = {.step = 1, .place = "epoch=0 images=2000 updates=1"};
    cr_assert_not(try_open(&branch, &gw_job_digits, DIGITS("2", "203", "1016"), &wrong, &err));
    close_job(&whole);
}
