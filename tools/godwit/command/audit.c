/* `godwit audit` computes steps of a job again and compares them with the receipts of its peers. */
#include "tools/godwit/audit/audit.h"

#include "checkpoint/catalog.h"
#include "core/base/assert.h"
#include "core/base/log.h"
#include "core/os/clock.h"
#include "kernels/device/class.h"
#include "kernels/jobs/gpt/gpt.h"
#include "tools/godwit/command/commands.h"
#include "tools/godwit/node/identity.h"
#include "tools/godwit/options/command_line.h"
#include "tools/godwit/receipt/receipts.h"
#include "tools/godwit/text/json.h"
#include "tools/godwit/text/number.h"
#include "tools/godwit/text/suggest.h"
#include "tools/godwit/weights/init.h"

#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { EXIT_ALIKE = 0, EXIT_DIFFERS = 1, EXIT_USAGE = 2, EXIT_NOT_COMPUTED = 3 };

typedef struct arguments {
    char **dirs; /* absolute paths of the directories that are used; owned */
    uint32_t dir_count;
    const char *other; /* --bisect; NULL = not given */
    const char *job;
    uint64_t step;  /* 0: not given */
    uint32_t shard; /* UINT32_MAX: not given */
    uint32_t workers;
    bool json;
    char **run; /* what follows --; NULL = nothing did */
    int run_count;
} arguments;

enum { KEY_STEP = 256, KEY_SHARD, KEY_JOB, KEY_BISECT, KEY_JSON, KEY_WORKERS };

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
    "step is there, which tensors.\v"
    "The steps are computed from the newest checkpoint before T in the directories, or from the beginning. "
    "The job "
    "is opened by the command that began it, which the directory has kept; after -- another one may be "
    "given: "
    "godwit audit DIR --step 900 -- gpt --data /elsewhere/text. The directories are only read, and the job "
    "may be "
    "running. A job with --reduce fast cannot be computed again.\n\n"
    "The exit code is 0 where all steps are as the receipts say, 1 where one differs, 2 for an error in the "
    "command "
    "line, and 3 where the steps could not be computed.";

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
    uint64_t known_first; /* the first step of which there is a receipt, in any directory */
    char shard_text[200]; /* --shard; "": not asked */
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
    if (audit->last != 0)
        printf("%ssteps %" PRIu64 " to %" PRIu64 " computed again, from %s %" PRIu64 "; %" PRIu64
               " receipts compared\n",
               o->parting != NULL ? "  " : "", audit->first, audit->last,
               o->from == 0 ? "the beginning, step" : "the checkpoint of step", o->from, audit->compared);
    for (uint32_t i = 0; i < audit->count; i++) {
        printf("step %" PRIu64 ", %s: %s\n", audit->findings[i].step, a->dirs[audit->findings[i].dir],
               audit->findings[i].text);
        damaged |= audit->findings[i].kind == GW_AUDIT_FILE;
    }
    if (o->shard_text[0] != '\0') printf("%s\n", o->shard_text);
    if (audit->last != 0 && audit->count == 0)
        printf("all %" PRIu64 " are as the receipts say\n", audit->last - audit->first + 1);
    if (audit->last != 0 && !damaged && o->known_first < audit->first)
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
    return parts || o->audit->count > 0 ? EXIT_DIFFERS : EXIT_ALIKE;
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
    gw_audit_parting parting;
    outcome o = {0};
    char other[GW_PATH_BYTES];
    command c = {0};
    gw_run_options options = {0};
    gw_directory directory = {.fd = -1};
    gw_audit work = {0};
    if (!find_dirs(a, "godwit audit", &err) || !gw_audit_find_job(a->dirs[0], a->job, &o.job, &err)) {
        if (err.code == GW_E_NOTFOUND) err.code = GW_E_USAGE;
        return fail(&err);
    }
    if (!check_dirs(a, &o.job, &err)) return fail(&err);
    if (a->other != NULL) {
        if (!part(a, &o.job, &parting, other, &o, &err)) return fail(&err);
        o.parting = &parting;
    }
    bool good = (a->run != NULL ? take_given(a, &c) : take_kept(a, &o.job, &c, &err)) &&
                open_options(a, &c, whole, &options, &err);
    if (!good) {
        free(c.memory);
        return fail(&err);
    }
    o.job_name = options.job->name;
    o.audit = &work;
    gw_rerun *rerun = NULL;
    bool computes = o.parting == NULL || (o.parting->step != 0 && o.other_job[0] == '\0');
    good = gw_directory_open(a->dirs[0], &directory, &err) &&
           (rerun = gw_rerun_open(&options, &directory, &err)) != NULL &&
           check_identity(a, rerun, &o.job, &err);
    work.rerun = rerun;
    work.dirs = a->dirs;
    work.dir_count = a->dir_count;
    good = good && check_chains(&work, &o, &err);
    if (good && computes)
        good = compute(a, rerun, o.parting != NULL ? parting.step : a->step, &work, &o, &err);
    int code = good ? finish(a, &o) : fail(&err);
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
