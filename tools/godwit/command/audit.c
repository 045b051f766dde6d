/* `godwit audit` computes steps of a job again and compares them with the receipts of its peers. */
#include "tools/godwit/audit/audit.h"

#include "checkpoint/catalog.h"
#include "core/base/assert.h"
#include "core/base/log.h"
#include "core/os/clock.h"
#include "kernels/device/class.h"
#include "kernels/jobs/gpt/gpt.h"
#include "tools/godwit/command/audit_spike.h"
#include "tools/godwit/command/commands.h"
#include "tools/godwit/node/identity.h"
#include "tools/godwit/options/command_line.h"
#include "tools/godwit/receipt/receipts.h"
#include "tools/godwit/text/json.h"
#include "tools/godwit/text/key_values.h"
#include "tools/godwit/text/number.h"
#include "tools/godwit/text/suggest.h"
#include "tools/godwit/weights/init.h"

#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { EXIT_ALIKE = 0, EXIT_DIFFERS = 1, EXIT_USAGE = 2, EXIT_NOT_COMPUTED = 3 };

typedef struct arguments {
    char **dirs; /* absolute paths of the directories that are used; owned */
    uint32_t dir_count;
    const char *other; /* --bisect; NULL = not given */
    bool spike;        /* --spike, by this rule */
    gw_alarm_loss rule;
    const char *job;
    uint64_t step;  /* 0: not given */
    uint32_t shard; /* UINT32_MAX: not given */
    uint32_t workers;
    bool json;
    char **run; /* what follows --; NULL = nothing did */
    int run_count;
} arguments;

enum { KEY_STEP = 256, KEY_SHARD, KEY_JOB, KEY_BISECT, KEY_SPIKE, KEY_JSON, KEY_WORKERS };

static const struct argp_option audit_options[] = {
    {"step", KEY_STEP, "T", 0,
     "Compute the step after which T steps are done, and those before it from the last checkpoint on (from "
     "the "
     "oldest checkpoint to the newest receipt)",
     0},
    {"shard", KEY_SHARD, "S", 0, "Say of this shard of step T whether it was right, and who added it", 0},
    {"bisect", KEY_BISECT, "DIR", 0,
     "Compare with the receipts of another run in DIR first, and compute the first step where the two part, "
     "to "
     "say which is right",
     0},
    {"spike", KEY_SPIKE, "REPORT", OPTION_ARG_OPTIONAL,
     "Find the step in which a number that the job reports leaves its recent course, and the shards whose "
     "part in it "
     "stands out from the others', with their samples. REPORT is a key, a rule of --alarm such as loss>5x, "
     "or is left "
     "out (loss>3x). With --step, look at that step",
     0},
    {"job", KEY_JOB, "HEX", 0, "Take the job whose id begins with HEX (the one whose receipts are newest)",
     0},
    {"workers", KEY_WORKERS, "N", 0, "Compute with N threads (as the job's command does)", 0},
    {"json", KEY_JSON, 0, 0, "Print one object of JSON", 0},
    {0},
};

static const char audit_doc[] =
    "Computes steps of a job again, on this machine alone, and compares each with the receipts that its "
    "peers "
    "have kept: fingerprints of the step's sum and of the state after it. Where they differ it says in which "
    "step, whether in the sum or in the update, which shard, and in whose directory; where a checkpoint of "
    "that "
    "step is there, which tensors. With --spike it says which samples are behind a sudden rise of the loss.\v"
    "The steps are computed from the newest checkpoint before T in the directories, or from the beginning. "
    "The job "
    "is opened by the command that began it, which the directory has kept; after -- another one may be "
    "given: "
    "godwit audit DIR --step 900 -- gpt --data /elsewhere/text. The directories are only read, and the job "
    "may be "
    "running. A job with --reduce fast cannot be computed again.\n\n"
    "The exit code is 0 where all steps are as the receipts say and no spike was found, 1 where a step "
    "differs or a "
    "spike was found, 2 for an error in the command line, and 3 where the steps could not be computed.";

/* Reads the argument of --spike: a key stands for KEY>3x. */
static void take_rule(struct argp_state *state, const char *arg, arguments *a) {
    char text[2 * GW_ALARM_KEY];
    gw_alarm_rules rules = gw_alarm_rules_default();
    gw_err err;
    if (arg == NULL) arg = "loss";
    snprintf(text, sizeof text, "%s%s", arg, strchr(arg, '>') != NULL ? "" : ">3x");
    if (strlen(arg) >= GW_ALARM_KEY + 16 || strchr(arg, ',') != NULL ||
        !gw_alarm_rules_parse(text, &rules, &err))
        gw_argp_error(state, "--spike: '%s' is not KEY, KEY>NUMBER or KEY>NUMBERx", arg);
    else
        a->rule = rules.losses[0];
    a->spike = true;
}

static error_t parse_audit(int key, char *arg, struct argp_state *state) {
    arguments *a = state->input;
    switch (key) {
    case KEY_STEP:
        a->step = gw_number_of_option(state, "--step", arg, 1, UINT64_MAX - 2);
        return 0;
    case KEY_SHARD:
        a->shard = (uint32_t)gw_number_of_option(state, "--shard", arg, 0, GW_MAX_SHARDS - 1);
        return 0;
    case KEY_WORKERS:
        a->workers = (uint32_t)gw_number_of_option(state, "--workers", arg, 1, GW_MAX_WORKERS);
        return 0;
    case KEY_JOB:
        a->job = gw_checkpoint_job_of_option(state, arg);
        return 0;
    case KEY_BISECT:
        a->other = arg;
        return 0;
    case KEY_SPIKE:
        take_rule(state, arg, a);
        return 0;
    case KEY_JSON:
        a->json = true;
        return 0;
    case ARGP_KEY_ARGS:
        a->dirs = state->argv + state->next;
        a->dir_count = (uint32_t)(state->argc - state->next);
        return 0;
    case ARGP_KEY_NO_ARGS:
        gw_argp_error(state, "give the directory of a peer, or several of one job");
        return 0;
    case ARGP_KEY_SUCCESS:
        if (a->shard != UINT32_MAX && a->step == 0) gw_argp_error(state, "--shard needs --step");
        if (a->other != NULL && a->step != 0)
            gw_argp_error(state, "--bisect finds the step: give it without --step");
        if (a->spike && (a->other != NULL || a->shard != UINT32_MAX))
            gw_argp_error(state, "--spike finds the shard: give it without --bisect and --shard");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp audit_argp = {.options = audit_options,
                                       .parser = parse_audit,
                                       .args_doc = "DIR... [-- JOB [OPTION...]]",
                                       .doc = audit_doc};

/* The directories that are used, by absolute paths: the job's command is opened in its own folder. */
static bool find_dirs(arguments *a, const char *program, gw_err *err) {
    char **found = calloc(a->dir_count, sizeof *found);
    GW_ASSERT_MEMORY(found != NULL);
    char **given = a->dirs;
    uint32_t count = a->dir_count;
    a->dirs = found;
    for (a->dir_count = 0; a->dir_count < count; a->dir_count++) {
        char path[GW_PATH_BYTES];
        if (!gw_checkpoint_dir_find(given[a->dir_count], program, path, err)) return false;
        found[a->dir_count] = realpath(path, NULL);
        if (found[a->dir_count] == NULL) return gw_fail(err, GW_E_USAGE, "there is no folder %s", path);
    }
    return true;
}

/* All directories must be of the job. One that has no receipts at all may still have chunks of checkpoints. */
static bool check_dirs(const arguments *a, const gw_hash *job, gw_err *err) {
    char digits[GW_HASH_TEXT], short_id[GW_CHECKPOINT_JOB_TEXT], other_id[GW_CHECKPOINT_JOB_TEXT];
    gw_hex(job->bytes, sizeof job->bytes, digits);
    for (uint32_t i = 1; i < a->dir_count; i++) {
        gw_hash found;
        if (gw_audit_find_job(a->dirs[i], digits, &found, err)) continue;
        if (err->code != GW_E_NOTFOUND) return false;
        if (gw_audit_find_job(a->dirs[i], NULL, &found, err))
            return gw_fail(
                err, GW_E_USAGE,
                "%s has receipts of job %s, and none of job %s: give the directories of one job, or compare "
                "two by --bisect",
                a->dirs[i], gw_checkpoint_job_short(&found, other_id),
                gw_checkpoint_job_short(job, short_id));
        fprintf(stderr, "godwit audit: %s has no receipts: only its checkpoints are used\n", a->dirs[i]);
    }
    return true;
}

/* The job's command: what follows --, or what the first directory has of it. */

typedef struct command {
    char **words; /* words[0] stands for "godwit run" */
    int count;
    void *memory;
    char *folder; /* in which it was given; NULL = the present one */
} command;

static bool take_given(const arguments *a, command *c) {
    char **words = calloc((size_t)a->run_count + 2, sizeof *words);
    GW_ASSERT_MEMORY(words != NULL);
    words[0] = (char *)(uintptr_t) "godwit run";
    bool named = a->run_count > 0 && strcmp(a->run[0], "run") == 0;
    for (int i = named ? 1 : 0; i < a->run_count; i++) words[1 + i - (named ? 1 : 0)] = a->run[i];
    *c = (command){.words = words, .count = 1 + a->run_count - (named ? 1 : 0), .memory = words};
    return true;
}

static bool take_kept(const arguments *a, const gw_hash *job, command *c, gw_err *err) {
    char *line = NULL, digits[GW_CHECKPOINT_JOB_TEXT];
    for (uint32_t i = 0; i < a->dir_count && line == NULL; i++)
        line = gw_identity_command_read(gw_io_system(), a->dirs[i], job);
    const char *folder = "";
    int count = 0;
    char **words = line != NULL ? gw_command_line_words(line, &folder, &count) : NULL;
    free(line);
    bool good = words != NULL && count >= 3 && strcmp(words[1], "run") == 0;
    if (!good) {
        free(words);
        return gw_fail(err, GW_E_USAGE,
                       "the command of job %s is not kept in %s: give it after --, as in: -- gpt --data text",
                       gw_checkpoint_job_short(job, digits), a->dirs[0]);
    }
    words[1] = words[0];
    *c = (command){.words = words + 1, .count = count - 1, .memory = words};
    if (folder[0] == '\0') return true;
    if (access(folder, X_OK) == 0)
        c->folder = (char *)(uintptr_t)folder; /* a part of `words` */
    else
        fprintf(stderr,
                "godwit audit: the job was begun in %s, which is not there: names of files are taken from "
                "the present folder\n",
                folder);
    return true;
}

/* The process may begin again as one of another family of processors, with the arguments that it was given:
 * therefore in the folder in which it was. */
static bool apply_class(const gw_run_options *options, char **whole, int given_folder, const command *c,
                        gw_err *err) {
    return fchdir(given_folder) == 0 && gw_cpu_class_apply(options->cpu_class, whole, err) &&
           (c->folder == NULL || chdir(c->folder) == 0);
}

static bool open_options(const arguments *a, const command *c, char **whole, gw_run_options *options,
                         gw_err *err) {
    int here = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (here < 0 || (c->folder != NULL && chdir(c->folder) != 0))
        return gw_fail_errno(err, errno, "cannot open the folder %s", c->folder != NULL ? c->folder : ".");
    if (!gw_run_options_parse(c->count, c->words, options, err)) {
        close(here);
        return gw_fail_in(err, "the job's command");
    }
    options->dir = a->dirs[0];
    options->quiet = true;
    options->fresh = false;
    if (a->workers > 0) options->workers = a->workers;
    bool good = apply_class(options, whole, here, c, err) &&
                (options->job != &gw_job_gpt || gw_init_take_shape(&options->params, err)) &&
                gw_run_options_settle(options, err);
    close(here);
    if (!good) gw_run_options_free(options);
    return good;
}

/* The job that is opened must be the one of the receipts. */
static bool check_identity(const arguments *a, const gw_rerun *rerun, const gw_hash *job, gw_err *err) {
    if (gw_hash_equal(gw_rerun_job(rerun), job)) return true;
    char *theirs = gw_identity_text_read(gw_io_system(), a->dirs[0], job), *text = NULL;
    size_t length = 0;
    const char *const none[] = {NULL};
    FILE *out = open_memstream(&text, &length);
    GW_ASSERT_MEMORY(out != NULL);
    if (theirs != NULL)
        gw_identity_text_compare(out, theirs, gw_rerun_identity(rerun), none, 3);
    else
        fputs("the directory has no record of what that job is", out);
    GW_ASSERT_MEMORY(fclose(out) == 0);
    free(theirs);
    char digits[GW_CHECKPOINT_JOB_TEXT];
    gw_fail(err, GW_E_UNSUPPORTED,
            "what this machine would compute is another job than %s, whose receipts these are: %.400s",
            gw_checkpoint_job_short(job, digits), text);
    free(text);
    return false;
}

/* Where to begin. */

typedef struct beginning {
    gw_rerun *rerun;
    gw_audit *audit;
    uint32_t dir;
} beginning;

static bool use_to_begin(void *context, gw_checkpoint *checkpoint, gw_err *err) {
    beginning *b = context;
    return gw_rerun_load(b->rerun, checkpoint, err);
}

static bool use_to_compare(void *context, gw_checkpoint *checkpoint, gw_err *err) {
    beginning *b = context;
    return gw_audit_compare_state(b->audit, b->dir, checkpoint, err);
}

static bool use_step(const arguments *a, const gw_hash *job, uint64_t step, gw_checkpoint_user *use,
                     beginning *b, gw_err *err) {
    char digits[GW_HASH_TEXT];
    gw_hex(job->bytes, sizeof job->bytes, digits);
    const gw_checkpoint_choice choice = {.job = digits, .step = step};
    return gw_checkpoint_use(a->dirs, a->dir_count, &choice, NULL, use, b, err);
}

/* The steps of the job's checkpoints in the directories, each once, the newest first. */
static uint64_t *checkpoint_steps(const arguments *a, const gw_hash *job, uint32_t *count) {
    uint64_t *steps = NULL;
    *count = 0;
    for (uint32_t d = 0; d < a->dir_count; d++) {
        gw_catalog catalog;
        gw_err ignored;
        if (!gw_catalog_load(gw_io_system(), a->dirs[d], &catalog, &ignored)) continue;
        steps = realloc(steps, (*count + catalog.good_count + 1) * sizeof *steps);
        GW_ASSERT_MEMORY(steps != NULL);
        for (uint32_t i = 0; i < catalog.good_count; i++) {
            uint64_t step = catalog.good[i].step;
            uint32_t at = 0;
            if (!gw_hash_equal(&catalog.good[i].job_id, job)) continue;
            while (at < *count && steps[at] > step) at++;
            if (at < *count && steps[at] == step) continue;
            memmove(steps + at + 1, steps + at, (*count - at) * sizeof *steps);
            steps[at] = step;
            ++*count;
        }
        gw_catalog_free(&catalog);
    }
    return steps;
}

/* Gives the rerun the state from which it goes on: the newest checkpoint before `step` that is whole, or with
 * step 0 the oldest; without one the job's first state. */
static bool begin_at(const arguments *a, gw_rerun *rerun, uint64_t step, gw_err *err) {
    uint32_t count;
    const gw_hash *job = gw_rerun_job(rerun);
    uint64_t *steps = checkpoint_steps(a, job, &count);
    beginning b = {.rerun = rerun};
    bool good = false;
    gw_err why = {0};
    for (uint32_t i = 0; i < count && !good; i++) {
        uint64_t one = steps[step == 0 ? count - 1 - i : i];
        if (step != 0 && one >= step) continue;
        good = use_step(a, job, one, use_to_begin, &b, &why);
        if (!good && why.code == GW_E_CORRUPT) break; /* this is what an audit is to find */
    }
    free(steps);
    if (good) return true;
    if (why.code == GW_E_CORRUPT || gw_rerun_first_step(rerun) != 0) {
        if (why.code == GW_OK)
            gw_fail(&why, GW_E_NOTFOUND, "there is no checkpoint before step %" PRIu64 " in the directories",
                    step);
        *err = why;
        return false;
    }
    return gw_rerun_begin(rerun, err);
}

/* The last step of which a receipt is there. */
static bool note_last(void *context, uint64_t step, const gw_receipt *receipt) {
    uint64_t *last = context;
    (void)receipt;
    if (step > *last) *last = step;
    return true;
}

static uint64_t last_receipt(const arguments *a, const gw_hash *job) {
    uint64_t last = 0;
    gw_err ignored;
    for (uint32_t d = 0; d < a->dir_count; d++)
        gw_receipts_read(a->dirs[d], job, 1, UINT64_MAX - 1, note_last, &last, &ignored);
    return last;
}

/* Telling. */

typedef struct telling {
    bool shows; /* progress on a terminal */
    uint64_t told_ns, last;
} telling;

static void show_progress(void *context, const gw_remade *step) {
    telling *t = context;
    uint64_t now = gw_now_ns();
    if (!t->shows || now - t->told_ns < 200000000) return;
    t->told_ns = now;
    fprintf(stderr, "\rstep %" PRIu64 " of %" PRIu64 " ", step->step, t->last);
}

static json_t *finding_object(const arguments *a, const gw_audit_finding *one) {
    static const char *const kinds[] = {"file", "start", "sum", "state", "tensors"};
    json_t *object = json_object();
    gw_json_text(object, "kind", kinds[one->kind]);
    gw_json_count(object, "step", one->step);
    gw_json_text(object, "dir", a->dirs[one->dir]);
    if (one->shard != UINT32_MAX) gw_json_count(object, "shard", one->shard);
    gw_json_flag(object, "own_part", one->own_part);
    if (one->shard != UINT32_MAX) gw_audit_samples_put(&one->samples, object);
    gw_json_text(object, "text", one->text);
    return object;
}

/* What an audit came to. */
typedef struct outcome {
    gw_hash job;
    const char *job_name;
    uint64_t from; /* steps done in the state from which it began */
    const gw_audit *audit;
    const gw_audit_parting *parting;                      /* NULL: no --bisect */
    char other_job[GW_CHECKPOINT_JOB_TEXT], differs[400]; /* --bisect: of another job; "": of this one */
    uint64_t known_first;        /* the first step of which there is a receipt, in any directory */
    char shard_text[200];        /* --shard; "": not asked */
    gw_audit_samples samples;    /* of that shard, where no finding names it */
    const gw_audit_spike *spike; /* NULL: no --spike */
} outcome;

static void print_json(const arguments *a, const outcome *o) {
    json_t *root = json_object(), *findings = json_array();
    gw_json_hash(root, "job", &o->job);
    gw_json_text(root, "name", o->job_name);
    gw_json_count(root, "from_step", o->from);
    gw_json_step(root, "last_step", o->audit->last != 0 ? o->audit->last : UINT64_MAX);
    gw_json_count(root, "receipts_compared", o->audit->compared);
    if (o->parting != NULL) {
        gw_json_step(root, "parts_at", o->parting->step != 0 ? o->parting->step : UINT64_MAX);
        gw_json_count(root, "common_first", o->parting->first);
        gw_json_count(root, "common_last", o->parting->last);
    }
    if (o->other_job[0] != '\0') gw_json_text(root, "other_job", o->other_job);
    if (o->shard_text[0] != '\0') gw_json_text(root, "shard_text", o->shard_text);
    if (o->samples.all > 0 || o->samples.unknown[0] != '\0') gw_audit_samples_put(&o->samples, root);
    if (o->spike != NULL) gw_audit_spike_put(o->spike, root);
    gw_json_flag(root, "alike", o->audit->count == 0 && (o->parting == NULL || o->parting->step == 0));
    for (uint32_t i = 0; i < o->audit->count; i++)
        json_array_append_new(findings, finding_object(a, &o->audit->findings[i]));
    json_object_set_new(root, "findings", findings);
    gw_json_print(root);
}

static void print_parting(const outcome *o) {
    const gw_audit_parting *p = o->parting;
    if (o->other_job[0] != '\0')
        printf("compared with another job, %s, which may differ: %s\n  ", o->other_job, o->differs);
    if (p->last == 0)
        printf("the two runs have receipts of no common step\n");
    else if (p->step == 0)
        printf("steps %" PRIu64 " to %" PRIu64 " are alike in both runs\n", p->first, p->last);
    else
        printf("the two runs part at step %" PRIu64 ": %s\n", p->step,
               p->sums ? "its sums differ" : "its sums are alike, and the states after it differ");
}

static void print_text(const arguments *a, const outcome *o) {
    char digits[GW_CHECKPOINT_JOB_TEXT];
    const gw_audit *audit = o->audit;
    bool damaged = false;
    printf("job %s (%s): ", gw_checkpoint_job_short(&o->job, digits), o->job_name);
    if (o->parting != NULL) print_parting(o);
    if (o->spike != NULL) gw_audit_spike_print(o->spike);
    if (audit->last != 0)
        printf("%ssteps %" PRIu64 " to %" PRIu64 " computed again, from %s %" PRIu64 "; %" PRIu64
               " receipts compared\n",
               o->parting != NULL || o->spike != NULL ? "  " : "", o->from + 1, audit->last,
               o->from == 0 ? "the beginning, step" : "the checkpoint of step", o->from, audit->compared);
    for (uint32_t i = 0; i < audit->count; i++) {
        printf("step %" PRIu64 ", %s: %s\n", audit->findings[i].step, a->dirs[audit->findings[i].dir],
               audit->findings[i].text);
        if (audit->findings[i].shard != UINT32_MAX)
            gw_audit_samples_print(&audit->findings[i].samples, stdout);
        damaged |= audit->findings[i].kind == GW_AUDIT_FILE;
    }
    if (o->shard_text[0] != '\0') printf("%s\n", o->shard_text);
    if (o->samples.all > 0 || o->samples.unknown[0] != '\0') gw_audit_samples_print(&o->samples, stdout);
    if (o->spike != NULL) gw_audit_spike_print_shards(o->spike);
    if (audit->last != 0 && audit->count == 0)
        printf("all %" PRIu64 " are as the receipts say\n", audit->last - o->from);
    if (audit->last != 0 && o->spike == NULL && !damaged && o->known_first < audit->first)
        printf("steps %" PRIu64 " to %" PRIu64
               " were not computed; their receipts fit each other (--step computes from an earlier one)\n",
               o->known_first, audit->first - 1);
}

/* --shard. */

typedef struct shard_search {
    uint64_t step;
    uint32_t shard;
    bool added; /* by this directory's peer; the last record of the step counts */
} shard_search;

static bool look_for_shard(void *context, const gw_receipt_part *part) {
    shard_search *search = context;
    if (part->step == search->step) search->added = gw_receipt_part_has(part, search->shard);
    return true;
}

static bool tell_shard(const arguments *a, const gw_audit *audit, outcome *o, gw_err *err) {
    if (audit->last == a->step && a->shard >= audit->shards)
        return gw_fail(err, GW_E_USAGE,
                       "step %" PRIu64 " has %" PRIu32 " shard(s), from 0 on: there is no shard %" PRIu32,
                       a->step, audit->shards, a->shard);
    const char *by = NULL;
    bool wrong = false;
    for (uint32_t d = 0; d < a->dir_count && by == NULL; d++) {
        shard_search search = {.step = a->step, .shard = a->shard};
        gw_err ignored;
        gw_receipts_read_parts(a->dirs[d], &o->job, look_for_shard, &search, &ignored);
        if (search.added) by = a->dirs[d];
    }
    for (uint32_t i = 0; i < audit->count; i++)
        wrong |= audit->findings[i].step == a->step && audit->findings[i].shard == a->shard;
    const char *verdict = wrong ? "had another result than here" : "is right, as the step's sum is";
    if (!wrong && audit->count > 0) verdict = "cannot be judged by the step's sum, which differs";
    snprintf(o->shard_text, sizeof o->shard_text, "shard %" PRIu32 " of step %" PRIu64 " %s; %s%s", a->shard,
             a->step, verdict,
             by != NULL ? "it was added by the peer of " : "none of the directories' peers added it",
             by != NULL ? by : "");
    if (!wrong) gw_audit_samples_read(audit->rerun, a->step, a->shard, &o->samples);
    return true;
}

/* The audit. */

static bool compute(const arguments *a, gw_rerun *rerun, uint64_t step, gw_audit *audit, outcome *o,
                    gw_err *err) {
    telling t = {.shows = !a->json && isatty(STDERR_FILENO) == 1};
    if (!begin_at(a, rerun, step, err)) return false;
    t.last = step != 0 ? step : last_receipt(a, &o->job);
    if (t.last <= gw_rerun_at(rerun)) { /* the only checkpoint is the last one */
        if (gw_rerun_first_step(rerun) != 0)
            return gw_fail(err, GW_E_NOTFOUND,
                           "there are no receipts behind the oldest checkpoint, that of step %" PRIu64,
                           gw_rerun_at(rerun));
        if (!gw_rerun_begin(rerun, err)) return false;
    }
    o->from = gw_rerun_at(rerun);
    if (t.last > gw_rerun_steps(rerun))
        return gw_fail(err, GW_E_USAGE, "the job has %" PRIu64 " steps: there is no step %" PRIu64,
                       gw_rerun_steps(rerun), t.last);
    audit->progress = show_progress;
    audit->context = &t;
    bool good = gw_audit_follow(audit, t.last, err);
    if (t.told_ns != 0) fprintf(stderr, "\r\033[K");
    for (uint32_t d = 0; good && audit->last != 0 && d < a->dir_count; d++) {
        const arguments one = {.dirs = a->dirs + d, .dir_count = 1};
        beginning b = {.rerun = rerun, .audit = audit, .dir = d};
        gw_err ignored; /* where this directory has no whole checkpoint of the step */
        (void)use_step(&one, &o->job, audit->last, use_to_compare, &b, &ignored);
    }
    return good && (a->shard == UINT32_MAX || tell_shard(a, audit, o, err));
}

/* --spike. */

typedef struct spike_work {
    const arguments *a;
    gw_rerun *rerun;
    gw_audit *audit;
    outcome *o;
    gw_audit_spike *spike;
    telling telling;
    double value; /* of the report in the last step that was computed; NAN: the step reports none */
} spike_work;

static void note_report(void *context, const gw_remade *step) {
    spike_work *w = context;
    w->value = gw_key_values_real(step->report, w->a->rule.key);
    show_progress(&w->telling, step);
}

/* Computes steps up to the one behind which `last` are done, and compares them. */
static bool follow_to(spike_work *w, uint64_t last, gw_err *err) {
    return w->audit->count > 0 || gw_rerun_at(w->rerun) >= last || gw_audit_follow(w->audit, last, err);
}

/* Goes back to the state from which the steps are computed. */
static bool begin_again(spike_work *w, uint64_t step, gw_err *err) {
    if (!begin_at(w->a, w->rerun, step, err)) return false;
    w->o->from = gw_rerun_at(w->rerun);
    return true;
}

/* The spike that is looked at: the first that can be computed from a checkpoint, or else the first. */
static const gw_spike *choose_spike(const spike_work *w) {
    const gw_spikes *spikes = &w->spike->spikes;
    uint32_t count;
    uint64_t *steps = checkpoint_steps(w->a, &w->o->job, &count), oldest = count > 0 ? steps[count - 1] : 0;
    free(steps);
    for (uint32_t i = 0; i < spikes->listed; i++)
        if (spikes->list[i].begin > oldest) return &spikes->list[i];
    return &spikes->list[0];
}

/* Finds the step of a spike of which the series knows only a range of steps. */
static bool find_step(spike_work *w, const gw_spike *spike, gw_err *err) {
    gw_course course = spike->before;
    for (uint64_t step = spike->begin; step <= spike->end; step++) {
        if (!follow_to(w, step, err)) return false;
        w->spike->step = step;
        if (w->audit->count > 0) return true;
        if (isnan(w->value)) continue;
        if (gw_course_leaves(&course, &w->a->rule, w->value)) {
            w->spike->before = course;
            return begin_again(w, step, err);
        }
        gw_course_add(&course, w->value, 1);
    }
    return gw_fail(err, GW_E_CORRUPT,
                   "computed again, %s leaves its course in none of the steps %" PRIu64 " to %" PRIu64,
                   w->a->rule.key, spike->begin, spike->end);
}

/* Where no shard of the step stands out, the update of a step before it may have spoiled the state. */
static bool look_behind(spike_work *w, gw_err *err) {
    gw_audit_spike *s = w->spike;
    uint64_t behind = s->step - 1 - w->o->from;
    if (behind > GW_SPIKE_BEHIND) behind = GW_SPIKE_BEHIND;
    if (behind == 0) return true;
    s->behind = (uint32_t)behind;
    if (!begin_again(w, s->step, err)) return false;
    while (gw_rerun_at(w->rerun) < s->step - 1) {
        gw_remade ignored;
        gw_extremes found;
        if (gw_rerun_at(w->rerun) + behind >= s->step - 1) {
            bool good = gw_extremes_find(w->rerun, w->a->rule.key, &found, err);
            if (good && found.count > 0) { /* the latest counts */
                gw_extremes_free(&s->earlier);
                s->earlier = found;
            }
            if (!good) return false;
        }
        if (!gw_rerun_step(w->rerun, &ignored, err)) return false;
        show_progress(&w->telling, &ignored);
    }
    return true;
}

static bool examine(spike_work *w, gw_err *err) {
    gw_audit_spike *s = w->spike;
    const gw_spike asked = {.begin = w->a->step, .end = w->a->step};
    const gw_spike *spike = w->a->step != 0 ? &asked : choose_spike(w);
    s->step = spike->begin;
    s->before = spike->before;
    w->telling = (telling){.shows = !w->a->json && isatty(STDERR_FILENO) == 1, .last = spike->end};
    w->audit->progress = note_report;
    w->audit->context = w;
    if (!begin_again(w, spike->begin, err) || (spike->begin != spike->end && !find_step(w, spike, err)) ||
        !follow_to(w, s->step - 1, err))
        return false;
    if (w->audit->count > 0) return true; /* the spike follows from what differs before it */
    if (!gw_extremes_find(w->rerun, w->a->rule.key, &s->own, err) || !follow_to(w, s->step, err))
        return false;
    s->value = w->value;
    return s->own.count > 0 || look_behind(w, err);
}

static bool compute_spike(const arguments *a, gw_rerun *rerun, gw_audit *audit, gw_audit_spike *spike,
                          outcome *o, gw_err *err) {
    spike_work w = {.a = a, .rerun = rerun, .audit = audit, .o = o, .spike = spike, .value = NAN};
    if (a->step > gw_rerun_steps(rerun))
        return gw_fail(err, GW_E_USAGE, "the job has %" PRIu64 " steps: there is no step %" PRIu64,
                       gw_rerun_steps(rerun), a->step);
    bool good = examine(&w, err);
    audit->progress = NULL;
    audit->context = NULL;
    if (w.telling.told_ns != 0) fprintf(stderr, "\r\033[K");
    return good;
}

/* Follows the chains of the receipts in all directories. */
static bool check_chains(gw_audit *audit, outcome *o, gw_err *err) {
    o->known_first = UINT64_MAX;
    for (uint32_t d = 0; d < audit->dir_count; d++) {
        uint64_t first, last;
        if (!gw_audit_check_chain(audit, d, &first, &last, err)) return false;
        if (last != 0 && first < o->known_first) o->known_first = first;
    }
    return true;
}

static int finish(const arguments *a, const outcome *o) {
    if (a->json)
        print_json(a, o);
    else
        print_text(a, o);
    bool parts = o->parting != NULL && o->parting->step != 0;
    const gw_audit_spike *spike = o->spike;
    bool spikes = spike != NULL && spike->step != 0 &&
                  (a->step == 0 || spike->own.count > 0 || spike->earlier.count > 0);
    return parts || spikes || o->audit->count > 0 ? EXIT_DIFFERS : EXIT_ALIKE;
}

static int fail(const gw_err *err) {
    gw_command_complain("godwit audit", err->text);
    return err->code == GW_E_USAGE ? EXIT_USAGE : EXIT_NOT_COMPUTED;
}

/* With --bisect against another job: what is other in it. */
static void tell_other_job(const char *dir, const gw_hash *job, const char *other_dir, const gw_hash *other,
                           outcome *o) {
    char *ours = gw_identity_text_read(gw_io_system(), dir, job), *text = NULL;
    char *theirs = gw_identity_text_read(gw_io_system(), other_dir, other);
    size_t length = 0;
    const char *const none[] = {NULL};
    FILE *out = open_memstream(&text, &length);
    GW_ASSERT_MEMORY(out != NULL);
    if (ours != NULL && theirs != NULL)
        gw_identity_text_compare(out, theirs, ours, none, 3);
    else
        fputs("a directory has no record of what its job is", out);
    GW_ASSERT_MEMORY(fclose(out) == 0);
    gw_checkpoint_job_short(other, o->other_job);
    snprintf(o->differs, sizeof o->differs, "%s", text);
    free(text);
    free(theirs);
    free(ours);
}

/* With --bisect: where the first directory's run and the other one part. */
static bool part(arguments *a, const gw_hash *job, gw_audit_parting *parting, char other[GW_PATH_BYTES],
                 outcome *o, gw_err *err) {
    gw_hash other_job = *job;
    char digits[GW_HASH_TEXT];
    gw_hex(job->bytes, sizeof job->bytes, digits);
    if (!gw_checkpoint_dir_find(a->other, "godwit audit", other, err)) return false;
    if (!gw_audit_find_job(other, digits, &other_job, err) &&
        !gw_audit_find_job(other, NULL, &other_job, err))
        return false;
    if (!gw_audit_part(a->dirs[0], job, other, &other_job, parting, err)) return false;
    char *whole = realpath(other, NULL);
    if (whole == NULL) return true;
    if (!gw_hash_equal(job, &other_job)) {
        tell_other_job(a->dirs[0], job, whole, &other_job, o);
        free(whole);
        return true;
    }
    char **dirs = realloc(a->dirs, (a->dir_count + 1) * sizeof *dirs); /* of one job: both are judged */
    GW_ASSERT_MEMORY(dirs != NULL);
    a->dirs = dirs;
    a->dirs[a->dir_count++] = whole;
    return true;
}

static int audit(arguments *a, char **whole) {
    gw_err err;
    gw_audit_parting parting = {0};
    outcome o = {0};
    char other[GW_PATH_BYTES];
    command c = {0};
    gw_run_options options = {0};
    gw_directory directory = {.fd = -1};
    gw_audit work = {0};
    gw_audit_spike spike = {.rule = a->rule, .value = NAN};
    if (!find_dirs(a, "godwit audit", &err) || !gw_audit_find_job(a->dirs[0], a->job, &o.job, &err)) {
        if (err.code == GW_E_NOTFOUND) err.code = GW_E_USAGE;
        return fail(&err);
    }
    if (!check_dirs(a, &o.job, &err)) return fail(&err);
    if (a->other != NULL) {
        if (!part(a, &o.job, &parting, other, &o, &err)) return fail(&err);
        o.parting = &parting;
    }
    if (a->spike) {
        bool known = gw_spikes_find(a->dirs, a->dir_count, &o.job, &a->rule, &spike.spikes, &err);
        if (!known && a->step == 0) return fail(&err);
        o.spike = &spike;
    }
    bool good = (a->run != NULL ? take_given(a, &c) : take_kept(a, &o.job, &c, &err)) &&
                open_options(a, &c, whole, &options, &err);
    if (!good) {
        free(c.memory);
        return fail(&err);
    }
    GW_ASSERT(options.job != NULL); /* that is what the words name first */
    o.job_name = options.job->name;
    o.audit = &work;
    gw_rerun *rerun = NULL;
    bool computes = o.parting == NULL || (o.parting->step != 0 && o.other_job[0] == '\0');
    if (o.spike != NULL) computes = false;
    good = gw_directory_open(a->dirs[0], &directory, &err) &&
           (rerun = gw_rerun_open(&options, &directory, &err)) != NULL &&
           check_identity(a, rerun, &o.job, &err);
    work.rerun = rerun;
    work.dirs = a->dirs;
    work.dir_count = a->dir_count;
    good = good && check_chains(&work, &o, &err);
    if (good && computes)
        good = compute(a, rerun, o.parting != NULL ? parting.step : a->step, &work, &o, &err);
    if (good && o.spike != NULL && (a->step != 0 || spike.spikes.count > 0))
        good = compute_spike(a, rerun, &work, &spike, &o, &err);
    int code = good ? finish(a, &o) : fail(&err);
    gw_extremes_free(&spike.own);
    gw_extremes_free(&spike.earlier);
    gw_audit_samples_free(&o.samples);
    gw_audit_free(&work);
    gw_rerun_close(rerun);
    gw_directory_close(&directory);
    gw_run_options_free(&options);
    free(c.memory);
    return code;
}

int gw_audit_main(int argc, char **argv) {
    char **whole = gw_command_line("audit", argc, argv);
    arguments a = {.shard = UINT32_MAX};
    for (int i = 1; i < argc && a.run == NULL; i++) {
        if (strcmp(argv[i], "--") != 0) continue;
        a.run = argv + i + 1;
        a.run_count = argc - i - 1;
        argc = i;
    }
    if (gw_argp_parse(&audit_argp, argc, argv, &a) != 0) return EXIT_USAGE;
    int code = audit(&a, whole);
    for (uint32_t i = 0; i < a.dir_count; i++) free(a.dirs[i]);
    free(a.dirs);
    free(whole);
    return code;
}
