#include "tools/godwit/node/origin.h"

#include "checkpoint/catalog.h"
#include "core/base/assert.h"
#include "core/base/log.h"
#include "core/identity.h"
#include "core/os/clock.h"
#include "tools/godwit/node/identity.h"
#include "tools/godwit/text/number.h"
#include "tools/godwit/weights/checkpoint.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { IMPORT_TAG = 0 }; /* no checkpoint's tag: those are steps of at least 1 */

/* The place where --continue looks, and what it looks for. */
typedef struct search {
    const gw_run_options *options;
    gw_directory *own;
    bool elsewhere; /* in another directory than this peer's own */
    bool absent;    /* there is no such directory */
    char dir[GW_PATH_BYTES];
    gw_checkpoint_choice choice;
    gw_catalog catalog, own_catalog;
    gw_node_origin *list;
    uint32_t count, capacity;
} search;

static char *copy(const char *text) {
    char *one = strdup(text);
    GW_ASSERT_MEMORY(one != NULL);
    return one;
}

static gw_node_origin *add(search *s) {
    if (s->count == s->capacity) {
        s->capacity = s->capacity * 2 + 4;
        s->list = realloc(s->list, s->capacity * sizeof *s->list);
        GW_ASSERT_MEMORY(s->list != NULL);
    }
    s->list[s->count] = (gw_node_origin){.wanted = true};
    return &s->list[s->count++];
}

/* Reads 64 hexadecimal digits. */
static bool read_hash(const char *text, gw_hash *hash) {
    if (strlen(text) != 2 * sizeof hash->bytes || strspn(text, "0123456789abcdef") != strlen(text))
        return false;
    for (size_t i = 0; i < sizeof hash->bytes; i++) {
        char digits[] = {text[2 * i], text[2 * i + 1], '\0'};
        hash->bytes[i] = (uint8_t)strtoul(digits, NULL, 16);
    }
    return true;
}

/* Reads the lines of an identity that name the state from which its job goes on. */
static bool read_lines(const char *identity, gw_node_origin *origin) {
    char value[GW_TEXT_BYTES];
    if (!gw_identity_value(identity, "parent", value, sizeof value) || !read_hash(value, &origin->job) ||
        !gw_identity_value(identity, "parent-root", value, sizeof value) ||
        !read_hash(value, &origin->root) ||
        !gw_identity_value(identity, "parent-step", value, sizeof value) ||
        !gw_number_read(value, 0, INT64_MAX, &origin->step))
        return false;
    if (gw_identity_value(identity, GW_PLACE, value, sizeof value)) origin->place = copy(value);
    origin->known = true;
    return true;
}

/* Moves the manifest out of the catalog. */
static void take_manifest(gw_node_origin *origin, gw_manifest *manifest, const char *dir) {
    origin->manifest = *manifest;
    *manifest = (gw_manifest){0};
    origin->has_manifest = true;
    snprintf(origin->dir, sizeof origin->dir, "%s", dir);
}

/* Finds the manifest of a checkpoint whose job, step and root are known, or of a copy of it. */
static void find_manifest(search *s, gw_node_origin *origin) {
    gw_catalog *const catalogs[] = {&s->catalog, &s->own_catalog};
    for (int c = 0; c < 2 && !origin->has_manifest; c++)
        for (uint32_t i = 0; i < catalogs[c]->good_count && !origin->has_manifest; i++) {
            gw_manifest *one = &catalogs[c]->good[i];
            if (one->step == origin->step && gw_hash_equal(&one->root, &origin->root))
                take_manifest(origin, one, c == 0 ? s->dir : s->own->path);
        }
}

/* Splits the option's [DIR][@STEP] or [DIR][@[JOB:]STEP] and loads the manifests. */
static bool open_search(search *s, gw_err *err) {
    const char *from = s->options->continue_from;
    char *text = copy(from != NULL ? from : "");
    s->choice = (gw_checkpoint_choice){.step = GW_CHECKPOINT_NEWEST, .job_name = s->options->job->name};
    gw_checkpoint_choice_cut(text, &s->choice);
    if (s->choice.job != NULL) s->choice.job = copy(s->choice.job);
    s->elsewhere = text[0] != '\0';
    s->absent = s->elsewhere && access(text, F_OK) != 0;
    bool good = !s->elsewhere || gw_directory_find(text, s->dir, err);
    free(text);
    if (!s->elsewhere) snprintf(s->dir, sizeof s->dir, "%s", s->own->path);
    s->elsewhere = s->elsewhere && strcmp(s->dir, s->own->path) != 0;
    return good && gw_catalog_load(&s->own->io, s->own->path, &s->own_catalog, err) &&
           (!s->elsewhere || gw_catalog_load(gw_io_system(), s->dir, &s->catalog, err));
}

static void close_search(search *s) {
    free((char *)(uintptr_t)s->choice.job);
    gw_catalog_free(&s->catalog);
    gw_catalog_free(&s->own_catalog);
}

/* When the newest checkpoint that a job has made in this directory was saved; 0: it has made none. */
static uint64_t saved_ms(const search *s, const gw_hash *job) {
    uint64_t newest = 0;
    for (uint32_t i = 0; i < s->own_catalog.good_count; i++) {
        const gw_manifest *one = &s->own_catalog.good[i];
        if (gw_hash_equal(&one->job_id, job) && !gw_manifest_is_copy(one) && one->created_ms > newest)
            newest = one->created_ms;
    }
    return newest;
}

/* A job that went on in this directory. */
typedef struct begun {
    gw_node_origin origin;
    uint64_t saved_ms;
} begun;

/* Jobs with newer checkpoints come first. Where jobs have made none, because their peers began again with
 * the state of another peer, the one that began at the later step comes first. */
static int to_be_tried_first(const void *a, const void *b) {
    const begun *left = a, *right = b;
    if (left->saved_ms != right->saved_ms) return left->saved_ms > right->saved_ms ? -1 : 1;
    if (left->origin.step != right->origin.step) return left->origin.step > right->origin.step ? -1 : 1;
    return memcmp(left->origin.job.bytes, right->origin.job.bytes, sizeof left->origin.job.bytes);
}

static bool is_job(const gw_hash *id, const char *digits) {
    char text[GW_HASH_TEXT];
    gw_hex(id->bytes, sizeof id->bytes, text);
    return digits == NULL || strncasecmp(text, digits, strlen(digits)) == 0;
}

/* Whether the directory that --continue names knows the job: it has a checkpoint or the identity of it. */
static bool knows_job(const search *s, const gw_hash *id) {
    char digits[9], path[GW_PATH_BYTES];
    gw_err ignored;
    for (uint32_t i = 0; i < s->catalog.good_count; i++)
        if (gw_hash_equal(&s->catalog.good[i].job_id, id)) return true;
    gw_hex(id->bytes, 4, digits);
    return gw_durable_path(path, &ignored, "%s/job-%s", s->dir, digits) && access(path, F_OK) == 0;
}

/* Whether the job that went on in this directory was started last by the very command of this start. */
static bool is_same_command(const search *s, const char *identity) {
    const gw_hash id = gw_identity_text_id(identity);
    char *known = gw_identity_command_read(&s->own->io, s->own->path, &id);
    bool same = known != NULL && s->options->typed != NULL && strcmp(known, s->options->typed) == 0;
    free(known);
    return same;
}

/* Whether the value of --continue means the state from which a job went on in this directory. */
static bool is_meant(const search *s, const gw_node_origin *origin) {
    if ((s->choice.step != GW_CHECKPOINT_NEWEST && s->choice.step != origin->step) ||
        !is_job(&origin->job, s->choice.job))
        return false;
    return !s->elsewhere || knows_job(s, &origin->job) || is_same_command(s, origin->begun);
}

/* Adds the jobs that went on in this directory. */
static void add_begun(search *s) {
    uint32_t count, chosen = 0;
    char **identities = gw_identity_text_list(s->own, &count);
    begun *list = calloc(count > 0 ? count : 1, sizeof *list);
    GW_ASSERT_MEMORY(list != NULL);
    for (uint32_t i = 0; i < count; i++) {
        begun *one = &list[chosen];
        char job[GW_JOB_NAME_BYTES];
        const gw_hash id = gw_identity_text_id(identities[i]);
        one->saved_ms = saved_ms(s, &id);
        one->origin = (gw_node_origin){.wanted = true, .begun = identities[i], .fixed = one->saved_ms > 0};
        if (gw_identity_value(identities[i], "job", job, sizeof job) &&
            strcmp(job, s->options->job->name) == 0 && read_lines(identities[i], &one->origin) &&
            is_meant(s, &one->origin))
            chosen++;
        else
            gw_node_origin_close(&one->origin);
    }
    qsort(list, chosen, sizeof *list, to_be_tried_first);
    for (uint32_t i = 0; i < chosen; i++) *add(s) = list[i].origin;
    free(list);
    free(identities);
}

/* Whether the option allows to go on from a checkpoint. Copies count where there is nothing else: of a job
 * that went on and has no checkpoint of its own yet, its parent's is meant. */
static bool is_chosen(const search *s, const gw_manifest *manifest, bool copies) {
    return gw_manifest_is_copy(manifest) == copies && strcmp(manifest->job_name, s->choice.job_name) == 0 &&
           (s->choice.step == GW_CHECKPOINT_NEWEST || manifest->step == s->choice.step) &&
           is_job(&manifest->job_id, s->choice.job);
}

/* The newest checkpoint of the job that was saved last, of those that are chosen; NULL: there is none. */
static gw_manifest *find_newest(const search *s, const gw_catalog *catalog, bool copies) {
    const gw_manifest *last = NULL;
    GW_ASSERT(catalog->good_count == 0 || catalog->good != NULL);
    for (uint32_t i = 0; i < catalog->good_count; i++) {
        const gw_manifest *one = &catalog->good[i];
        if (is_chosen(s, one, copies) && (last == NULL || one->created_ms > last->created_ms)) last = one;
    }
    gw_manifest *best = NULL;
    for (uint32_t i = 0; last != NULL && i < catalog->good_count; i++) {
        gw_manifest *one = &catalog->good[i];
        if (!is_chosen(s, one, copies) || !gw_hash_equal(&one->job_id, &last->job_id)) continue;
        bool later =
            best == NULL || (one->epoch != best->epoch ? one->epoch > best->epoch : one->step > best->step);
        if (later) best = one;
    }
    return best;
}

/* Fails because of a directory that is not there. */
static bool fail_absent(const search *s, gw_err *err) {
    const char *at = strchr(s->dir, '@');
    return at == NULL ? gw_fail(err, GW_E_USAGE, "--continue: there is no directory %s", s->dir)
                      : gw_fail(err, GW_E_USAGE,
                                "--continue: there is no directory %s, and '%s' is none of @STEP, @best and "
                                "@JOB:STEP, with the number of steps and the first digits of the job's id",
                                s->dir, at);
}

static bool fail_empty(const search *s, gw_err *err) {
    const gw_catalog *catalog = s->elsewhere ? &s->catalog : &s->own_catalog;
    char steps[200] = "", of[GW_JOB_NAME_BYTES + GW_HASH_TEXT + 40];
    uint32_t count = 0;
    snprintf(of, sizeof of, "the job %s", s->choice.job_name);
    if (s->choice.job != NULL)
        snprintf(of, sizeof of, "a job %s whose id begins with %s", s->choice.job_name, s->choice.job);
    for (uint32_t i = 0, used = 0; i < catalog->good_count && used + 24 < sizeof steps; i++)
        if (strcmp(catalog->good[i].job_name, s->choice.job_name) == 0 &&
            is_job(&catalog->good[i].job_id, s->choice.job) && !gw_manifest_is_copy(&catalog->good[i]))
            used += (uint32_t)snprintf(steps + used, sizeof steps - used, "%s%" PRIu64,
                                       count++ > 0 ? ", " : "", catalog->good[i].step);
    if (s->absent) return fail_absent(s, err);
    if (count > 0)
        return gw_fail(err, GW_E_USAGE,
                       "--continue: %s holds no checkpoint of %s at step %" PRIu64 "; there %s of step%s %s",
                       s->dir, of, s->choice.step, count == 1 ? "is one" : "are those", count == 1 ? "" : "s",
                       steps);
    if (catalog->good_count > 0 && strcmp(catalog->good[0].job_name, s->choice.job_name) == 0)
        return gw_fail(err, GW_E_USAGE, "--continue: %s holds no checkpoint of %s", s->dir, of);
    if (catalog->good_count > 0)
        return gw_fail(err, GW_E_USAGE, "--continue: %s holds checkpoints of the job %s, and this is %s",
                       s->dir, catalog->good[0].job_name, s->choice.job_name);
    if (catalog->bad_count > 0)
        return gw_fail(err, GW_E_CORRUPT, "--continue: %s holds no intact checkpoint: %s", s->dir,
                       catalog->bad[0].err.text);
    return gw_fail(
        err, GW_E_USAGE,
        "--continue: %s holds no checkpoint to go on from: name the directory of the old job (--continue "
        "DIR), or peers that go on from it (--join)",
        s->dir);
}

/* Writes the jobs other than `but` that have checkpoints which are chosen, as the values of --continue
 * that name them; where none was named, with the newest step of each. Returns how many there are. */
static uint32_t list_jobs(const search *s, const gw_catalog *catalog, const gw_hash *but, char text[300]) {
    uint32_t count = 0, used = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < catalog->good_count; i++) {
        const gw_manifest *one = &catalog->good[i];
        char id[GW_CHECKPOINT_JOB_TEXT], step[40];
        bool known = but != NULL && gw_hash_equal(but, &one->job_id);
        for (uint32_t k = 0; k < i; k++)
            known |= is_chosen(s, &catalog->good[k], false) &&
                     gw_hash_equal(&catalog->good[k].job_id, &one->job_id);
        if (known || !is_chosen(s, one, false)) continue;
        snprintf(step, sizeof step,
                 s->choice.step != GW_CHECKPOINT_NEWEST ? "%" PRIu64 : " (step %" PRIu64 ")", one->step);
        if (used + 80 < 300)
            used += (uint32_t)snprintf(text + used, 300 - used, "%s@%s:%s", count > 0 ? ", " : "",
                                       gw_checkpoint_job_short(&one->job_id, id), step);
        count++;
    }
    return count;
}

/* Where several jobs have a checkpoint of the step that is named, any of them may be meant. */
static bool fail_ambiguous(const search *s, uint32_t jobs, const char *list, gw_err *err) {
    return gw_fail(err, GW_E_USAGE,
                   "--continue: %u jobs in %s have a checkpoint of step %" PRIu64
                   ": give one of %s (`godwit inspect --job ID %s` shows each)",
                   jobs, s->dir, s->choice.step, list, s->dir);
}

static char *choice_text(const gw_manifest *best, const char *list) {
    char *text = NULL, id[GW_CHECKPOINT_JOB_TEXT];
    if (asprintf(&text, "--continue: took job %s, which was saved last; others there: %s",
                 gw_checkpoint_job_short(&best->job_id, id), list) < 0)
        text = NULL;
    GW_ASSERT_MEMORY(text != NULL);
    return text;
}

/* Makes "@best" the step and the job of the best evaluated state, as the newest checkpoint names it. Where
 * there is no checkpoint, the caller fails. */
static bool resolve_best(search *s, gw_catalog *catalog, gw_err *err) {
    char id[GW_HASH_TEXT];
    double value;
    const gw_manifest *newest = s->choice.best ? find_newest(s, catalog, false) : NULL;
    if (newest == NULL) return true;
    const gw_checkpoint_ref best = gw_manifest_best(newest, &value);
    gw_hex(newest->job_id.bytes, sizeof newest->job_id.bytes, id);
    if (best.step == 0)
        return gw_fail(
            err, GW_E_USAGE,
            "--continue: the newest checkpoint in %s, of step %" PRIu64
            " of job %.8s, does not tell which state is the best: --keep-best REPORT has it recorded",
            s->dir, newest->step, id);
    free((char *)(uintptr_t)s->choice.job);
    s->choice.job = copy(id);
    s->choice.step = best.step;
    return true;
}

/* Adds the parent's checkpoint, or an entry that leaves it to other peers to name one. */
static bool add_parent(search *s, gw_err *err) {
    gw_catalog *catalog = s->elsewhere ? &s->catalog : &s->own_catalog;
    char list[300];
    if (!resolve_best(s, catalog, err)) return false;
    uint32_t jobs = list_jobs(s, catalog, NULL, list);
    if (jobs > 1 && s->choice.step != GW_CHECKPOINT_NEWEST) return fail_ambiguous(s, jobs, list, err);
    gw_manifest *best = find_newest(s, catalog, false);
    if (best == NULL) best = find_newest(s, catalog, true);
    bool others_may = s->options->seed_count > 0 && !s->elsewhere && catalog->good_count == 0;
    if (best == NULL && !others_may) return fail_empty(s, err);
    gw_node_origin *origin = add(s);
    origin->fixed = s->choice.step != GW_CHECKPOINT_NEWEST;
    if (best == NULL) return true;
    if (jobs > 1) {
        list_jobs(s, catalog, &best->job_id, list);
        origin->choice = choice_text(best, list);
    }
    origin->known = true;
    origin->step = best->step;
    origin->root = best->root;
    origin->job = best->job_id;
    const char *parent = gw_manifest_param(best, "parent");
    if (gw_manifest_is_copy(best) && parent != NULL && !read_hash(parent, &origin->job))
        origin->job = best->job_id;
    take_manifest(origin, best, s->dir);
    return true;
}

/* Adds the parent's checkpoint behind the jobs that went on before, of which one may need no parent. */
static bool add_last(search *s, gw_err *err) {
    if (add_parent(s, err)) return true;
    if (s->count == 0 || err->code == GW_E_IO) return false;
    add(s)->missing = copy(err->text);
    return true;
}

/* Adds what another peer has named. */
static bool add_told(search *s, const char *told, gw_err *err) {
    gw_node_origin *origin = add(s);
    char job[9];
    if (!read_lines(told, origin))
        return gw_fail(err, GW_E_INVALID,
                       "another peer goes on from a state that it names in no known way: %.100s", told);
    gw_hex(origin->job.bytes, 4, job);
    gw_log(GW_INFO, "node",
           "this peer begins again, and goes on from the same state as the others: step %" PRIu64
           " of job %s (--continue=@STEP would keep it at its own)",
           origin->step, job);
    return true;
}

bool gw_node_origins_find(const gw_run_options *options, gw_directory *directory, const char *told, bool anew,
                          gw_node_origin **list, uint32_t *count, gw_err *err) {
    search s = {.options = options, .own = directory};
    bool good = true;
    if (!options->continues) {
        add(&s)->wanted = false;
    } else if ((good = open_search(&s, err))) {
        if (told == NULL && !anew) add_begun(&s);
        good = told != NULL ? add_told(&s, told, err) : add_last(&s, err);
        for (uint32_t i = 0; good && i < s.count; i++)
            if (s.list[i].known && !s.list[i].has_manifest) find_manifest(&s, &s.list[i]);
    }
    close_search(&s);
    for (uint32_t i = 0; i < s.count; i++) {
        gw_node_origin *one = &s.list[i];
        one->origin = (gw_origin){.step = one->step, .place = one->place};
        if (one->place != NULL || !one->has_manifest) continue;
        one->origin.parent = one->manifest.params;
        one->origin.parent_count = one->manifest.param_count;
    }
    *list = s.list;
    *count = s.count;
    if (!good) gw_node_origins_free(s.list, s.count);
    return good;
}

void gw_node_origin_close(gw_node_origin *origin) {
    free(origin->place);
    free(origin->begun);
    free(origin->missing);
    free(origin->choice);
    gw_manifest_free(&origin->manifest);
    *origin = (gw_node_origin){0};
}

void gw_node_origins_free(gw_node_origin *list, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) gw_node_origin_close(&list[i]);
    free(list);
}

/* "f32 [128, 64]". */
static const char *shape_text(const gw_tensor *tensor, char text[120]) {
    int used = snprintf(text, 120, "%s [", gw_dtype_name(tensor->dtype));
    for (uint32_t i = 0; i < tensor->rank && used < 100; i++)
        used += snprintf(text + used, 120 - (size_t)used, "%s%" PRIu64, i > 0 ? ", " : "", tensor->dim[i]);
    snprintf(text + used, 120 - (size_t)used, "]");
    return text;
}

static bool is_same_tensor(const gw_tensor *one, const gw_tensor *other) {
    return strcmp(one->name, other->name) == 0 && one->dtype == other->dtype && one->rank == other->rank &&
           memcmp(one->dim, other->dim, one->rank * sizeof one->dim[0]) == 0;
}

static const gw_tensor *tensor_named(const gw_manifest *manifest, const char *name) {
    GW_ASSERT(manifest->tensor_count == 0 || manifest->tensors != NULL);
    for (uint32_t i = 0; i < manifest->tensor_count; i++)
        if (strcmp(manifest->tensors[i].name, name) == 0) return &manifest->tensors[i];
    return NULL;
}

static bool fail_foreign(const gw_node_origin *origin, const gw_tensor *theirs, gw_err *err) {
    char text[120];
    return gw_fail(err, GW_E_USAGE,
                   "--continue: the state of step %" PRIu64 " has the tensor %s %s, which this job has not",
                   origin->step, theirs->name, shape_text(theirs, text));
}

/* Fails because `tensor` of this job is in the state, but not where `there` is. */
static bool fail_order(const gw_node_origin *origin, const gw_plan *plan, const gw_tensor *tensor,
                       const gw_tensor *there, gw_err *err) {
    bool ours = there == NULL;
    for (uint32_t i = 0; i < plan->tensor_count && !ours; i++)
        ours = plan->tensors[i].role == GW_STATE && strcmp(plan->tensors[i].name, there->name) == 0;
    if (!ours) return fail_foreign(origin, there, err);
    return gw_fail(err, GW_E_USAGE,
                   "--continue: the state of step %" PRIu64 " has the tensor %s at another place than this "
                   "job, where %s is before it",
                   origin->step, tensor->name, there != NULL ? there->name : "nothing");
}

bool gw_node_origin_check(const gw_node_origin *origin, const gw_plan *plan, gw_err *err) {
    const gw_manifest *parent = &origin->manifest;
    uint32_t count = 0;
    char theirs[120], ours[120];
    if (!origin->has_manifest) return true;
    for (uint32_t i = 0; i < plan->tensor_count; i++) {
        const gw_tensor *tensor = &plan->tensors[i];
        if (tensor->role != GW_STATE) continue;
        const gw_tensor *there = count < parent->tensor_count ? &parent->tensors[count] : NULL;
        count++;
        if (there != NULL && is_same_tensor(there, tensor)) continue;
        const gw_tensor *same = tensor_named(parent, tensor->name);
        if (same == NULL)
            return gw_fail(err, GW_E_USAGE,
                           "--continue: the state of step %" PRIu64
                           " has no tensor %s, which this job needs as %s",
                           origin->step, tensor->name, shape_text(tensor, ours));
        if (is_same_tensor(same, tensor)) return fail_order(origin, plan, tensor, there, err);
        return gw_fail(err, GW_E_USAGE,
                       "--continue: the tensor %s is %s in the state of step %" PRIu64 ", and %s in this job",
                       tensor->name, shape_text(same, theirs), origin->step, shape_text(tensor, ours));
    }
    return count == parent->tensor_count || fail_foreign(origin, &parent->tensors[count], err);
}

void gw_node_origin_write(const gw_node_origin *origin, const char *place, FILE *out) {
    char job[GW_HASH_TEXT], root[GW_HASH_TEXT];
    if (!origin->wanted) return;
    if (!origin->known) {
        fputs("parent=unknown\n", out);
        return;
    }
    gw_hex(origin->job.bytes, sizeof origin->job.bytes, job);
    gw_hex(origin->root.bytes, sizeof origin->root.bytes, root);
    fprintf(out, "parent=%s\nparent-step=%" PRIu64 "\nparent-root=%s\n", job, origin->step, root);
    if (place != NULL) fprintf(out, GW_PLACE "=%s\n", place);
}

/* Copies the chunks that the parent's directory has. They stay pinned until the manifest names them. */
static bool copy_chunks(const gw_manifest *manifest, gw_store *from, gw_store *to, gw_err *err) {
    void *bytes = malloc(gw_chunk_room(manifest->state_bytes));
    GW_ASSERT_MEMORY(bytes != NULL);
    bool good = true;
    for (uint32_t i = 0; good && i < manifest->chunk_count; i++) {
        const gw_hash *name = &manifest->chunks[i];
        uint32_t length = gw_chunk_length(manifest->state_bytes, i);
        gw_err why;
        if (gw_store_pin(to, IMPORT_TAG, name, length)) continue;
        if (!gw_store_read(from, name, bytes, length, &why)) {
            if (why.code != GW_E_NOTFOUND) gw_log(GW_WARN, "checkpoint", "--continue: %s", why.text);
            continue; /* another peer may have it */
        }
        gw_store_item item = {.name = *name, .bytes = bytes, .length = length};
        good = gw_store_put(to, IMPORT_TAG, &item, 1, err);
    }
    free(bytes);
    return good;
}

static bool save_copy(const gw_manifest *parent, const gw_node_branch *branch, gw_store *store, gw_err *err) {
    gw_manifest own = *parent;
    void *bytes;
    size_t length;
    snprintf(own.job_name, sizeof own.job_name, "%s", branch->name);
    own.job_id = branch->id;
    own.params = branch->params;
    own.param_count = branch->param_count;
    own.created_ms = gw_wall_ns() / 1000000;
    own.ended = false;
    own.epoch = 0;
    own.fingerprint = 0;     /* builds of other versions compute another one; the root is checked */
    own.best = (gw_best){0}; /* the parent's best state is kept under its job; this job compares its own */
    own.memory = NULL;
    if (!gw_manifest_seal(&own, err) || !gw_manifest_encode(&own, &bytes, &length, err)) return false;
    bool good = gw_catalog_save(gw_store_io(store), gw_store_dir(store), bytes, length, err);
    free(bytes);
    return good;
}

bool gw_node_origin_import(const gw_node_origin *origin, const gw_node_branch *branch, gw_store *store,
                           gw_err *err) {
    gw_manifest known;
    gw_err ignored;
    gw_store *from = NULL;
    if (!origin->has_manifest) return true;
    if (gw_catalog_find(gw_store_io(store), gw_store_dir(store), &branch->id, origin->step, &origin->root,
                        &known, &ignored)) {
        gw_manifest_free(&known);
        return true;
    }
    bool good = strcmp(origin->dir, gw_store_dir(store)) == 0 ||
                (gw_store_open(origin->dir, GW_STORE_LOOK, NULL, &from, err) &&
                 copy_chunks(&origin->manifest, from, store, err));
    good = good && save_copy(&origin->manifest, branch, store, err);
    gw_store_release(store, IMPORT_TAG);
    gw_store_close(from);
    return good || gw_fail_in(err, "--continue");
}
