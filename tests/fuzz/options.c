/* The target `options`: command lines of `godwit run`, with the options of the command and those of each
 * job, up to the job that they open.
 *
 * An input is the number of the job (u8, its place in gw_job_list), then parts that end at zero bytes. The
 * first byte of a part is FIRST + the number of an option, and the rest is the option's value; a switch
 * ignores it. */
#include "tools/godwit/options/options.h"
#include "core/state/layout.h"
#include "kernels/jobs/jobs.h"
#include "kernels/jobs/program/program.h"
#include "kernels/model/gpt/file.h"
#include "tests/fuzz/target.h"
#include "tests/weights_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PARTS = 64, PART = 200, FIRST = '!', MOST_DRAWN = 60 };

typedef struct option {
    const char *name, *value; /* value: an example; NULL: a switch */
} option;

/* Example values of options whose default is none, or shows too little. The values of a job's options fit
 * each other and give a small model. Files lie in the folder of this process (make_files). */
static const option examples[] = {
    {"listen", "127.0.0.1:0"},
    {"advertise", "h:1"},
    {"join", "a:1,[::1]:2,dns:b.c:3,dns:d"},
    {"name", "node7"},
    {"key", "cluster.key"},
    {"peers", "3"},
    {"device", "cuda:1"},
    {"precision", "bf16"},
    {"workers", "2"},
    {"steps", "100"},
    {"quorum", "majority"},
    {"reduce", "fast"},
    {"verify", "0.5%"},
    {"on-bad", "skip"},
    {"cpu-class", "haswell"},
    {"transport", "tcp"},
    {"lanes", "2"},
    {"rdma-device", "rxe0"},
    {"gid-index", "0"},
    {"http", "8080"},
    {"replicas", "2"},
    {"continue", "old@3"},
    {"keep-best", "val_loss:max"},
    {"patience", "3"},
    {"metrics", "a.csv"},
    {"notify", "true 'a b' c"},
    {"webhook", "https://h/x"},
    {"alarm", "progress=10m,disk=5%,loss>8,loss>3x"},
    {"tensorboard", "events"},
    {"probe-interval-ms", "100"},
    {"resume-timeout", "1m"},
    {"save-timeout", "500ms"},
    {"hang-timeout", "2s"},
    {"deal", "energy:5%"},
    {"energy-factor", "co2=0.35,money=0.3,currency=EUR"},
    {"cpu-watts", "12.5"},
    {"val", "text"},
    {"init", "weights"},
    {"layers", "1"},
    {"heads", "1"},
    {"channels", "2"},
    {"context", "8"},
    {"vocab", "256"},
    {"lr", "0.01"},
    {"updates", "20"},
    {"epochs", "2"},
    {"data-dtype", "uint16"},
    {"sample-every", "5"},
    {"prompt", "a"},
    {"sample-tokens", "3"},
    {"tokenizer", "tokens"},
    {"batch-tokens", "96"},
    {"micro-batch", "2"},
    {"batch", "6"},
    {"schedule", "wsd"},
    {"warmup", "1"},
    {"decay-updates", "2"},
    {"val-tokens", "16"},
    {"weight-decay", "0.1"},
    {"samples", "12"},
    {"crash-shard", "1:2"},
    {"bad-shard", "3:1"},
    {"payload-bytes", "1m"},
    {"sum-elements", "100"},
    {"program", "train.py"},
    {"python", "python3"},
    {"args", "a b\\ c '' 1"},
};

static bool has_option(const gw_job_type *job, const char *name) {
    for (const gw_option *o = job->options; o->name != NULL; o++)
        if (strcmp(o->name, name) == 0) return true;
    return false;
}

/* A value of --data: a text where the job trains on texts, and otherwise a folder of images. */
static const char *data_of(const gw_job_type *job) {
    return has_option(job, "val") ? "text" : ".";
}

static const char *example_of(const gw_job_type *job, const gw_option *o) {
    if (strcmp(o->name, "data") == 0) return data_of(job);
    for (size_t i = 0; i < sizeof examples / sizeof examples[0]; i++)
        if (strcmp(examples[i].name, o->name) == 0) return examples[i].value;
    return o->fallback;
}

static const gw_job_type *job_of(uint8_t byte) {
    const gw_job_type *const *jobs = gw_job_list();
    unsigned count = 0;
    while (jobs[count] != NULL) count++;
    GW_ASSERT(count > 0);
    return jobs[byte % count];
}

static uint32_t count_run_options(void) {
    uint32_t count = 0;
    while (gw_run_options_row(count).name != NULL) count++;
    return count;
}

static uint32_t count_options(const gw_job_type *job) {
    uint32_t count = 0;
    while (job->options[count].name != NULL) count++;
    return count_run_options() + count;
}

/* Option `number` of a command line with this job: those of `godwit run` come first, and the job's own
 * follow. */
static option option_of(const gw_job_type *job, uint32_t number) {
    uint32_t own = count_run_options();
    gw_option o = number < own ? gw_run_options_row(number) : job->options[number - own];
    option found = {o.name, o.argument != NULL ? example_of(job, &o) : NULL};
    GW_ASSERT(o.argument == NULL || number >= own || found.value != NULL); /* an example is missing above */
    return found;
}

bool fuzz_options_know(const gw_job_type *job, const char *name) {
    for (uint32_t i = 0; i < count_options(job); i++)
        if (strcmp(option_of(job, i).name, name) == 0) return true;
    return false;
}

/* Examples: each option of a peer alone, all of them together, and all of each job. */

typedef struct words {
    char bytes[1024];
    size_t count;
} words;

static words begin(uint8_t job) {
    return (words){.bytes = {(char)job}, .count = 1};
}

static void put(words *w, uint32_t number, const char *value) {
    int length = snprintf(w->bytes + w->count, sizeof w->bytes - w->count, "%c%s", (int)(FIRST + number),
                          value != NULL ? value : "");
    GW_ASSERT(length > 0 && (size_t)length < sizeof w->bytes - w->count);
    w->count += (size_t)length + 1;
}

/* Options of gpt that do not fit the example's text of bytes. */
static bool fits_no_text(const char *name) {
    return strcmp(name, "data-dtype") == 0 || strcmp(name, "tokenizer") == 0;
}

/* Adds an example with all options of the job except these two, each of which excludes another one. */
static void add_job(fuzz_add *add, void *context, uint8_t number, const char *without, const char *nor) {
    const gw_job_type *job = job_of(number);
    words all = begin(number);
    for (uint32_t i = count_run_options(); i < count_options(job); i++) {
        option o = option_of(job, i);
        bool fits = strcmp(o.name, without) != 0 && strcmp(o.name, nor) != 0 && !fits_no_text(o.name);
        if (fits) put(&all, i, o.value);
    }
    add(context, all.bytes, all.count);
}

static void options_examples(fuzz_add *add, void *context) {
    uint8_t jobs = 0;
    for (const gw_job_type *const *job = gw_job_list(); *job != NULL; job++) {
        add_job(add, context, jobs, "samples", "epochs"); /* --data replaces the one, --updates the other */
        add_job(add, context, jobs++, "data", "updates");
    }
    GW_ASSERT(jobs > 0);
    words all = begin(0);
    for (uint32_t i = 0; i < count_run_options(); i++) {
        option o = option_of(job_of(0), i);
        bool alone =
            strcmp(o.name, "quorum") != 0 && strcmp(o.name, "reduce") != 0 && strcmp(o.name, "patience") != 0;
        words one = begin((uint8_t)(i % jobs));
        put(&one, i, o.value);
        if (alone) add(context, one.bytes, one.count);
        /* --json and --continue exclude these two. */
        if (strcmp(o.name, "quiet") != 0 && strcmp(o.name, "fresh") != 0) put(&all, i, o.value);
    }
    add(context, all.bytes, all.count);
}

/* Files that options name. */

static void write_idx(const char *name, uint32_t count, bool images) {
    enum { SIDE = 2, MOST = 8 };
    uint8_t bytes[16 + MOST * SIDE * SIDE] = {0, 0, 8, images ? 3 : 1, 0, 0, 0, (uint8_t)count};
    size_t head = 8;
    for (int d = 0; images && d < 2; d++, head += 4) bytes[head + 3] = SIDE;
    fuzz_file(name, bytes, head + count * (images ? SIDE * SIDE : 1), 0600);
}

/* Writes a text, images, and the weights of the model that the examples describe. */
static void make_files(void) {
    static bool made;
    if (made) return;
    static const char text[] = "what a model of the smallest size there is can learn of a text of some words";
    static const float zeros[4096];
    const gw_gpt gpt = {.layers = 1, .heads = 1, .channels = 2, .context = 8, .vocabulary = 256};
    const float *parameters[GW_GPT_PARAMETERS];
    gw_err err;
    made = true;
    fuzz_file("text", text, sizeof text - 1, 0600);
    write_idx("train-images-idx3-ubyte", 8, true);
    write_idx("train-labels-idx1-ubyte", 8, false);
    write_idx("t10k-images-idx3-ubyte", 4, true);
    write_idx("t10k-labels-idx1-ubyte", 4, false);
    for (uint32_t i = 0; i < gw_gpt_parameters(&gpt); i++) parameters[i] = zeros;
    GW_ASSERT(write_gpt_weights(&gpt, parameters, fuzz_file("weights", "", 0, 0600), &err));
}

/* The command line. */

typedef struct command {
    char text[PARTS][PART];
    char *argv[PARTS + 3];
    int argc;
    bool draws; /* --samples is given: the digits are drawn, and no data are read */
} command;

static bool is_file(const char *name) {
    return strcmp(name, "data") == 0 || strcmp(name, "val") == 0 || strcmp(name, "init") == 0;
}

/* Adds an option to the command line. A file that it names lies in the folder of this process. */
static void add_option(command *c, const char *name, const char *value, int length) {
    char *word = c->text[c->argc];
    if (value == NULL)
        snprintf(word, PART, "--%s", name);
    else
        snprintf(word, PART, "--%s=%s%s%.*s", name, is_file(name) ? fuzz_folder() : "",
                 is_file(name) ? "/" : "", length, value);
    c->draws |= strcmp(name, "samples") == 0;
    c->argv[c->argc++] = word;
}

static void read_command(command *c, const gw_job_type *job, const uint8_t *bytes, size_t count) {
    c->draws = false;
    c->argc = 2;
    const uint32_t options = count_options(job);
    for (size_t at = 0, end; at < count && c->argc < PARTS - 1; at = end + 1) {
        end = fuzz_part(bytes, count, at);
        if (end == at) continue;
        option o = option_of(job, (uint32_t)(uint8_t)(bytes[at] - FIRST) % options);
        add_option(c, o.name, o.value != NULL ? (const char *)bytes + at + 1 : NULL, (int)(end - at - 1));
    }
}

/* Adds --data where the input does not give it: without data a language model cannot be opened, and digits
 * would draw all its samples. */
static void add_data(command *c, const gw_job_type *job) {
    if (c->draws || !has_option(job, "data")) return;
    for (int i = 2; i < c->argc; i++)
        if (strncmp(c->argv[i], "--data=", 7) == 0) return;
    add_option(c, "data", data_of(job), (int)strlen(data_of(job)));
}

/* The parsed options and the job. */

static bool takes_long(const gw_params *params) {
    const char *samples = gw_param_text(params, "samples");
    return samples != NULL && strtod(samples, NULL) > MOST_DRAWN;
}

/* Checks that every step of a job that its options allow has shards. */
static void check_plan(const gw_job_type *type, void *job) {
    gw_plan plan = {.tensors = NULL};
    gw_layout layout;
    gw_err err = {.code = GW_OK};
    if (!type->describe(job, &plan, &err) || !gw_layout_make(&plan, 0, &layout, &err)) {
        GW_ASSERT(err.code != GW_OK && err.text[0] != '\0');
        return;
    }
    gw_layout_free(&layout);
    const uint64_t steps[] = {0, 1, plan.steps / 2, plan.steps - 1};
    for (int i = 0; i < 4; i++) {
        if (plan.steps > 0 && steps[i] >= plan.steps) continue;
        gw_phase phase = GW_TRAIN;
        uint32_t shards = type->shards(job, steps[i], &phase);
        GW_ASSERT(shards >= 1 && shards <= GW_MAX_SHARDS);
    }
}

static bool take_options(const uint8_t *bytes, size_t count) {
    static command c;
    if (count == 0) return false;
    make_files();
    const gw_job_type *type = job_of(bytes[0]);
    c.argv[0] = (char[]){"godwit run"};
    c.argv[1] = (char *)(uintptr_t)type->name;
    read_command(&c, type, bytes + 1, count - 1);
    add_data(&c, type);
    c.argv[c.argc] = NULL;
    gw_run_options options;
    gw_err err = {.code = GW_OK};
    if (!gw_run_options_parse(c.argc, c.argv, &options, &err)) {
        GW_ASSERT(err.code != GW_OK && err.text[0] != '\0');
        return false;
    }
    GW_ASSERT(options.job == type && options.workers <= GW_MAX_WORKERS && options.peers >= 1 &&
              options.keep >= 1);
    if (type == &gw_job_program) { /* to open it would execute what the input names */
        gw_run_options_free(&options);
        return true;
    }
    void *job;
    bool opened = !takes_long(&options.params) && type->open(&options.params, &job, &err);
    if (opened) {
        check_plan(type, job);
        type->close(job);
    }
    gw_run_options_free(&options);
    return opened;
}

/* Values that an earlier version accepted, and that broke something later. */
static void options_found(fuzz_add *add, void *context) {
    static const struct {
        const char *job;
        option options[4];
    } found[] = {
        {"synthetic", {{"replicas", "257"}}}, /* a checkpoint that no peer could read */
        {"digits", {{"workers", "513"}}},     /* matrix products without a buffer */
        /* a decay of one update, which divided by zero steps */
        {"gpt", {{"schedule", "wsd"}, {"updates", "9"}}},
    };
    for (size_t k = 0; k < sizeof found / sizeof found[0]; k++) {
        uint8_t number = 0;
        while (strcmp(job_of(number)->name, found[k].job) != 0) number++;
        words one = begin(number);
        for (const option *o = found[k].options; o->name != NULL; o++)
            for (uint32_t i = 0; i < count_options(job_of(number)); i++)
                if (strcmp(option_of(job_of(number), i).name, o->name) == 0) put(&one, i, o->value);
        add(context, one.bytes, one.count);
    }
}

const fuzz_target fuzz_options = {"options", 15000, 800, options_examples, options_found, take_options};
