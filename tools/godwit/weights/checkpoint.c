#include "tools/godwit/weights/checkpoint.h"

#include "checkpoint/store.h"
#include "core/base/assert.h"
#include "core/os/directory.h"
#include "kernels/data/safetensors.h"
#include "tools/godwit/show/control.h"
#include "tools/godwit/text/number.h"
#include "tools/godwit/text/suggest.h"
#include "tools/godwit/text/timestamp.h"

#include <argp.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LOOKS = 5 };

typedef struct found_job {
    const gw_hash *id;
    const char *name;
    uint64_t newest_step;
    uint64_t saved_ms; /* wall clock time at which its latest checkpoint was written; 0: it has only a copy */
    bool has_step;     /* it has a checkpoint of the step that was asked for */
} found_job;

/* The checkpoints of one job in all directories, newest first. */
typedef struct source {
    gw_store **stores;
    gw_catalog *catalogs;
    uint32_t count;         /* number of directories */
    uint32_t catalog_count; /* one more where a running peer is named: it has the last one */
    gw_checkpoint_flock flock;
    found_job *jobs; /* the jobs that the choice allows; the first one is read */
    uint32_t job_count;
    uint32_t with_step; /* jobs that have the step that is asked for, the first ones */
    const gw_manifest **candidates;
    uint32_t candidate_count;
    const gw_catalog_bad *bad; /* one of the damaged manifests; NULL = none */
    const char *program;       /* NULL = strict (gw_checkpoint_use) */
    bool deleted;              /* a run has deleted the checkpoint that was tried last */
} source;

static void source_close(source *s) {
    for (uint32_t d = 0; d < s->count; d++)
        if (s->stores != NULL) gw_store_close(s->stores[d]);
    for (uint32_t c = 0; c < s->catalog_count; c++)
        if (s->catalogs != NULL) gw_catalog_free(&s->catalogs[c]);
    gw_chunk_holders_free(&s->flock.holders);
    gw_client_close(s->flock.client);
    free(s->candidates);
    free(s->jobs);
    free(s->catalogs);
    free(s->stores);
}

static bool is_allowed(const gw_manifest *manifest, const gw_checkpoint_choice *choice) {
    char id[GW_HASH_TEXT];
    gw_hex(manifest->job_id.bytes, sizeof manifest->job_id.bytes, id);
    return (choice->job_name == NULL || strcmp(manifest->job_name, choice->job_name) == 0) &&
           (choice->job == NULL || strncasecmp(id, choice->job, strlen(choice->job)) == 0);
}

static void add_job(source *s, const gw_manifest *manifest, uint64_t step) {
    uint32_t j = 0;
    while (j < s->job_count && !gw_hash_equal(s->jobs[j].id, &manifest->job_id)) j++;
    if (j == s->job_count)
        s->jobs[s->job_count++] = (found_job){.id = &manifest->job_id, .name = manifest->job_name};
    if (manifest->created_ms > s->jobs[j].saved_ms && !gw_manifest_is_copy(manifest))
        s->jobs[j].saved_ms = manifest->created_ms;
    if (manifest->step > s->jobs[j].newest_step) s->jobs[j].newest_step = manifest->step;
    s->jobs[j].has_step |= step == GW_CHECKPOINT_NEWEST || manifest->step == step;
}

/* Orders jobs: first those that have the step, then those saved last, then by id, so that the order does
 * not depend on how they were found. */
static int to_be_read_first(const void *a, const void *b) {
    const found_job *left = a, *right = b;
    if (left->has_step != right->has_step) return left->has_step ? -1 : 1;
    if (left->saved_ms != right->saved_ms) return left->saved_ms > right->saved_ms ? -1 : 1;
    return memcmp(left->id->bytes, right->id->bytes, sizeof left->id->bytes);
}

enum { NAMES = 400 };

/* Writes by what people tell the jobs from `first` on, before `end`, apart, as in "1f3a5c7d (gpt, step 40,
 * saved 2026-11-25 13:33:22Z), 8c1d22e0 (pi, step 9, saved 2026-11-20 08:10:01Z)", as far as there is
 * room. */
static const char *job_names(const source *s, uint32_t first, uint32_t end, char text[NAMES]) {
    enum { ONE = GW_CHECKPOINT_JOB_TEXT + GW_JOB_NAME_BYTES + GW_TIMESTAMP_UTC_TEXT + 48, MORE = 24 };
    uint32_t used = 0, j = first;
    text[0] = '\0';
    for (; j < end && used + ONE + MORE < NAMES; j++) {
        const found_job *job = &s->jobs[j];
        char id[GW_CHECKPOINT_JOB_TEXT], when[GW_TIMESTAMP_UTC_TEXT];
        used += (uint32_t)snprintf(text + used, NAMES - used, "%s%s (%s, step %llu", j > first ? ", " : "",
                                   gw_checkpoint_job_short(job->id, id), job->name,
                                   (unsigned long long)job->newest_step);
        if (job->saved_ms > 0)
            used += (uint32_t)snprintf(text + used, NAMES - used, ", saved %s",
                                       gw_timestamp_utc(job->saved_ms, when));
        used += (uint32_t)snprintf(text + used, NAMES - used, ")");
    }
    if (j < end) snprintf(text + used, NAMES - used, ", and %u more", end - j);
    return text;
}

/* Returns the job from whose state this job goes on (--continue), if it is among the jobs, and otherwise
 * NULL. */
static const found_job *parent_of(const source *s, const found_job *job) {
    for (uint32_t c = 0; c < s->catalog_count; c++)
        for (uint32_t i = 0; i < s->catalogs[c].good_count; i++) {
            const gw_manifest *one = &s->catalogs[c].good[i];
            const char *parent = gw_manifest_param(one, "parent");
            char id[GW_HASH_TEXT];
            if (parent == NULL || !gw_hash_equal(&one->job_id, job->id)) continue;
            for (uint32_t j = 0; j < s->job_count; j++) {
                gw_hex(s->jobs[j].id->bytes, sizeof s->jobs[j].id->bytes, id);
                if (strcmp(id, parent) == 0) return &s->jobs[j];
            }
            return NULL;
        }
    return NULL;
}

/* Whether all other jobs are those from which the first one has come by --continue: then nobody can mean
 * another one who names none. */
static bool is_last_of_line(const source *s) {
    const found_job *job = &s->jobs[0];
    uint32_t line = 1;
    while (line < s->job_count && (job = parent_of(s, job)) != NULL) line++;
    return line == s->job_count;
}

/* Fails if the given digits fit several jobs. Otherwise reports which of several is taken. */
static bool settle_job(source *s, const gw_checkpoint_choice *choice, gw_err *err) {
    char names[NAMES], id[GW_CHECKPOINT_JOB_TEXT];
    while (s->with_step < s->job_count && s->jobs[s->with_step].has_step) s->with_step++;
    if (s->job_count < 2) return true;
    if (choice->job != NULL)
        return gw_fail(err, GW_E_USAGE, "there are checkpoints of %u jobs whose ids begin with %s: %s",
                       s->job_count, choice->job, job_names(s, 0, s->job_count, names));
    if (s->with_step == 0 || s->program == NULL) return true; /* the caller fails, or reports */
    if (choice->step == GW_CHECKPOINT_NEWEST && is_last_of_line(s)) return true;
    char step[80] = "";
    if (choice->step != GW_CHECKPOINT_NEWEST)
        snprintf(step, sizeof step, " of those with a checkpoint of step %llu",
                 (unsigned long long)choice->step);
    gw_checkpoint_job_short(s->jobs[0].id, id);
    if (s->with_step == 1)
        fprintf(stderr, "%s: took job %s (%s), the only one%s\n", s->program, id, s->jobs[0].name,
                step + strlen(" of those"));
    else
        fprintf(stderr, "%s: took job %s (%s), which was saved last%s; choose another with --job: %s\n",
                s->program, id, s->jobs[0].name, step, job_names(s, 1, s->with_step, names));
    return true;
}

static bool find_jobs(source *s, const gw_checkpoint_choice *choice, gw_err *err) {
    size_t most = 1;
    for (uint32_t c = 0; c < s->catalog_count; c++) most += s->catalogs[c].good_count;
    s->jobs = calloc(most, sizeof *s->jobs);
    s->candidates = calloc(most, sizeof(const gw_manifest *));
    if (s->jobs == NULL || s->candidates == NULL) return gw_fail(err, GW_E_NOMEM, "out of memory");
    for (uint32_t c = 0; c < s->catalog_count; c++)
        for (uint32_t i = 0; i < s->catalogs[c].good_count; i++)
            if (is_allowed(&s->catalogs[c].good[i], choice))
                add_job(s, &s->catalogs[c].good[i], choice->step);
    qsort(s->jobs, s->job_count, sizeof *s->jobs, to_be_read_first);
    return settle_job(s, choice, err);
}

/* Adds the job's checkpoints in one directory. All directories may have a manifest of the same checkpoint. */
static void add_candidates(source *s, const gw_catalog *catalog) {
    for (uint32_t i = 0; i < catalog->good_count; i++) {
        const gw_manifest *manifest = &catalog->good[i];
        bool known = s->job_count == 0 || !gw_hash_equal(&manifest->job_id, s->jobs[0].id);
        for (uint32_t c = 0; !known && c < s->candidate_count; c++) {
            const gw_manifest *one = s->candidates[c];
            known = one->step == manifest->step && gw_hash_equal(&one->root, &manifest->root);
            if (known && manifest->epoch > one->epoch) s->candidates[c] = manifest;
        }
        if (!known) s->candidates[s->candidate_count++] = manifest;
    }
}

/* Reports the damaged manifests of one directory. */
static void note_damage(source *s, const gw_catalog *catalog) {
    for (uint32_t i = 0; i < catalog->bad_count; i++) {
        s->bad = &catalog->bad[i];
        if (s->program != NULL)
            fprintf(stderr, "%s: passed over a manifest: %s\n", s->program, s->bad->err.text);
    }
}

/* Finds the checkpoints of the job that is taken, in all catalogs. */
static bool find_candidates(source *s, const gw_checkpoint_choice *choice, gw_err *err) {
    if (!find_jobs(s, choice, err)) return false;
    for (uint32_t c = 0; c < s->catalog_count; c++) add_candidates(s, &s->catalogs[c]);
    gw_catalog_order(s->candidates, s->candidate_count);
    return true;
}

/* Names another job whose newest checkpoint here tells which state is its best; "" where there is none. */
static const char *best_elsewhere(const source *s, const gw_hash *job, char text[80]) {
    const gw_manifest *newest = NULL;
    char id[GW_CHECKPOINT_JOB_TEXT];
    double value;
    for (uint32_t c = 0; c < s->catalog_count; c++)
        for (uint32_t i = 0; i < s->catalogs[c].good_count; i++) {
            const gw_manifest *one = &s->catalogs[c].good[i];
            if (!gw_hash_equal(&one->job_id, job) && gw_manifest_best(one, &value).step > 0 &&
                (newest == NULL || one->created_ms > newest->created_ms))
                newest = one;
        }
    text[0] = '\0';
    if (newest != NULL)
        snprintf(text, 80, "; that of job %s (%s) is known: --job %s",
                 gw_checkpoint_job_short(&newest->job_id, id), newest->job_name, id);
    return text;
}

/* Leaves only the checkpoint of the best evaluated state, which the newest checkpoint names. An older one may
 * name a state that has been let go, or that later evaluations would not have called the best. */
static bool choose_best(source *s, gw_err *err) {
    char id[GW_CHECKPOINT_JOB_TEXT], other[80];
    double value = 0;
    if (s->candidate_count == 0) return true;
    const gw_manifest *by = s->candidates[0];
    const gw_checkpoint_ref best = gw_manifest_best(by, &value);
    if (best.step == 0 && by->best_by[0] != '\0')
        return gw_fail(err, GW_E_NOTFOUND,
                       "job %s has made no evaluation of %s before its newest checkpoint, of step %llu%s",
                       gw_checkpoint_job_short(&by->job_id, id), by->best_by, (unsigned long long)by->step,
                       best_elsewhere(s, &by->job_id, other));
    if (best.step == 0)
        return gw_fail(
            err, GW_E_NOTFOUND,
            "the newest checkpoint, of step %llu of job %s, does not tell which state is the best: 'godwit "
            "run --keep-best REPORT' has it recorded%s",
            (unsigned long long)by->step, gw_checkpoint_job_short(&by->job_id, id),
            best_elsewhere(s, &by->job_id, other));
    for (uint32_t i = 0; i < s->candidate_count; i++) {
        if (s->candidates[i]->step != best.step || !gw_hash_equal(&s->candidates[i]->root, &best.root))
            continue;
        s->candidates[0] = s->candidates[i];
        s->candidate_count = 1;
        if (s->program != NULL)
            fprintf(stderr, "%s: the best state by %s is that of step %llu: %.9g\n", s->program, by->best_by,
                    (unsigned long long)best.step, value);
        return true;
    }
    return gw_fail(err, GW_E_NOTFOUND,
                   "the best state by %s is that of step %llu, of which there is no manifest here: give the "
                   "directories of the other peers too",
                   by->best_by, (unsigned long long)best.step);
}

bool gw_checkpoint_dir_find(const char *given, const char *program, char path[GW_PATH_BYTES], gw_err *err) {
    struct stat about;
    if (stat(given, &about) != 0) {
        gw_err why;
        (void)gw_fail_named(&why, errno, "%s", given);
        return gw_fail(err, why.code, "%s; give the directory of a peer (--dir of godwit run)", why.text);
    }
    if (!S_ISDIR(about.st_mode))
        return gw_fail(err, GW_E_USAGE, "%s is a file: give the directory of a peer", given);
    if (!gw_directory_find(given, path, err)) return false;
    if (program != NULL && strcmp(given, path) != 0 && gw_safetensors_is_folder(given))
        fprintf(stderr, "%s: %s holds a model in files, too; what follows is of the checkpoints in %s\n",
                program, given, path);
    return true;
}

static bool source_open(source *s, char *const *dirs, uint32_t count, const gw_checkpoint_choice *choice,
                        const char *program, gw_err *err) {
    bool named = choice->place.from != NULL;
    *s = (source){.count = count, .program = program};
    s->flock = (gw_checkpoint_flock){.dirs = dirs, .dir_count = count, .program = program};
    s->catalog_count = count + (named ? 1 : 0);
    s->stores = calloc(count + 1u, sizeof(gw_store *));
    s->catalogs = calloc(s->catalog_count, sizeof *s->catalogs);
    if (s->stores == NULL || s->catalogs == NULL) return gw_fail(err, GW_E_NOMEM, "out of memory");
    for (uint32_t d = 0; d < count; d++) {
        char dir[GW_PATH_BYTES];
        if (!gw_checkpoint_dir_find(dirs[d], program, dir, err) ||
            !gw_store_open(dir, GW_STORE_LOOK, NULL, &s->stores[d], err) ||
            !gw_catalog_load(gw_io_system(), dir, &s->catalogs[d], err))
            return false;
    }
    if (named) s->flock.client = gw_client_dial(&choice->place, program, err);
    if (named && (s->flock.client == NULL || !gw_client_catalog(s->flock.client, &s->catalogs[count], err)))
        return false;
    if (!find_candidates(s, choice, err)) return false;
    for (uint32_t c = 0; c < s->catalog_count; c++) note_damage(s, &s->catalogs[c]);
    return !choice->best || choose_best(s, err);
}

/* Connects to a peer that runs in one of the directories. It tries once. */
static bool find_flock(gw_checkpoint_flock *flock, gw_err *err) {
    for (uint32_t d = 0; flock->client == NULL && flock->why.code == GW_OK && d < flock->dir_count; d++)
        flock->client = gw_client_open(flock->dirs[d], flock->program, err);
    if (flock->client != NULL) return true;
    if (flock->why.code == GW_OK) flock->why = *err;
    *err = flock->why;
    return false;
}

/* Reads a chunk from the flock. Fails with GW_E_NOTFOUND, too, where there is no flock to ask. */
static bool read_from_flock(gw_checkpoint_flock *flock, const gw_manifest *manifest, uint32_t chunk,
                            void *bytes, gw_err *err) {
    if (!find_flock(flock, err))
        return gw_fail(
            err, GW_E_NOTFOUND,
            "chunk %u of %u is in none of the directories, and there is no peer to ask for it (%s): "
            "start one there, name one by --from, or give the directories of the other peers too",
            chunk, manifest->chunk_count, flock->why.text);
    if (flock->manifest != manifest) {
        gw_chunk_holders_free(&flock->holders);
        flock->manifest = NULL;
        if (!gw_client_holders(flock->client, manifest, true, &flock->holders, err)) return false;
        flock->manifest = manifest;
    }
    return gw_client_chunk(flock->client, manifest, chunk, &flock->holders, bytes, err);
}

bool gw_checkpoint_chunk(gw_checkpoint *checkpoint, uint32_t chunk, void *bytes, gw_err *err) {
    const gw_manifest *manifest = checkpoint->manifest;
    gw_err damage = {.code = GW_OK};
    uint32_t length = gw_chunk_length(manifest->state_bytes, chunk);
    for (uint32_t s = 0; s < checkpoint->store_count; s++) {
        if (gw_store_read(checkpoint->stores[s], &manifest->chunks[chunk], bytes, length, err)) return true;
        if (err->code != GW_E_NOTFOUND) damage = *err;
    }
    if (checkpoint->flock == NULL)
        gw_fail(err, GW_E_NOTFOUND,
                "chunk %u of %u is in none of the directories: give those of the other peers too", chunk,
                manifest->chunk_count);
    else if (read_from_flock(checkpoint->flock, manifest, chunk, bytes, err))
        return true;
    if (damage.code != GW_OK && err->code == GW_E_NOTFOUND) *err = damage;
    checkpoint->unreadable = err->code != GW_E_PEER;
    return gw_fail_in(err, "checkpoint of step %llu", (unsigned long long)manifest->step);
}

/* Asks the peer that runs in a directory whether its job is none that the choice allows; then it will not
 * save a checkpoint that was asked for. Writes what its job is. */
static bool runs_another_job(const char *dir, const gw_checkpoint_choice *choice,
                             char text[GW_JOB_NAME_BYTES + GW_CHECKPOINT_JOB_TEXT + 8]) {
    gw_err ignored;
    char *answer = gw_control_ask(dir, "status", &ignored);
    json_t *status = answer != NULL ? json_loads(answer, 0, NULL) : NULL;
    const char *name = json_string_value(json_object_get(status, "job")),
               *id = json_string_value(json_object_get(status, "job_id"));
    bool other =
        (name != NULL && choice->job_name != NULL && strcmp(name, choice->job_name) != 0) ||
        (id != NULL && choice->job != NULL && strncasecmp(id, choice->job, strlen(choice->job)) != 0);
    if (other)
        snprintf(text, GW_JOB_NAME_BYTES + GW_CHECKPOINT_JOB_TEXT + 8, "%.8s (%s)", id != NULL ? id : "?",
                 name != NULL ? name : "?");
    json_decref(status);
    free(answer);
    return other;
}

/* Fails where there is no checkpoint to try. `where` names the place, and `peer` tells that a peer runs
 * there. */
static bool fail_empty(const source *s, const gw_checkpoint_choice *choice, const char *where, bool peer,
                       gw_err *err) {
    if (s->candidate_count > 0) {
        char steps[200] = "";
        for (uint32_t i = 0, used = 0; i < s->candidate_count && used + 24 < sizeof steps; i++) {
            GW_ASSERT(s->candidates[i] != NULL);
            used += (uint32_t)snprintf(steps + used, sizeof steps - used, "%s%llu", i > 0 ? ", " : "",
                                       (unsigned long long)s->candidates[i]->step);
        }
        return gw_fail(err, GW_E_USAGE, "there is no checkpoint of step %llu; there %s %s",
                       (unsigned long long)choice->step,
                       s->candidate_count == 1 ? "is one of step" : "are those of the steps", steps);
    }
    char of[GW_JOB_NAME_BYTES + GW_HASH_TEXT + 40] = "";
    if (choice->job_name != NULL || choice->job != NULL)
        snprintf(of, sizeof of, " of a%s%s job%s%s", choice->job_name != NULL ? " " : "",
                 choice->job_name != NULL ? choice->job_name : "",
                 choice->job != NULL ? " whose id begins with " : "", choice->job != NULL ? choice->job : "");
    if (s->bad != NULL)
        return gw_fail(err, s->bad->err.code, "%s holds no intact checkpoint%s: %s", where, of,
                       s->bad->err.text);
    char own[GW_JOB_NAME_BYTES + GW_CHECKPOINT_JOB_TEXT + 8];
    if (peer && runs_another_job(where, choice, own))
        return gw_fail(err, GW_E_USAGE, "%s holds no checkpoint%s, and the peer that runs there runs job %s",
                       where, of, own);
    if (peer)
        return gw_fail(
            err, GW_E_NOTFOUND,
            "%s holds no checkpoint%s yet: a peer runs there, and its job saves the first one when "
            "the time or the steps of its --checkpoint-every have passed, or at its end",
            where, of);
    return gw_fail(err, GW_E_USAGE, "%s holds no checkpoint%s", where, of);
}

/* Fails where there is no checkpoint to try in the directories or at the peer that is named. */
static bool fail_source(source *s, const gw_checkpoint_choice *choice, gw_err *err) {
    const char *where = s->count > 0 ? s->flock.dirs[0] : gw_client_name(s->flock.client);
    bool peer = s->program != NULL && find_flock(&s->flock, err);
    return fail_empty(s, choice, where, peer, err);
}

static bool has(const gw_catalog *catalog, const gw_manifest *manifest) {
    for (uint32_t i = 0; i < catalog->good_count; i++)
        if (catalog->good[i].step == manifest->step && gw_hash_equal(&catalog->good[i].root, &manifest->root))
            return true;
    return false;
}

/* Whether a directory, or the peer that is named, no longer has the checkpoint that it had. A manifest is
 * deleted before its chunks (catalog.h). */
static bool was_deleted(const source *s, const gw_manifest *manifest) {
    bool deleted = false;
    for (uint32_t c = 0; !deleted && c < s->catalog_count; c++) {
        gw_catalog now;
        gw_err ignored;
        if (!has(&s->catalogs[c], manifest)) continue;
        bool known = c < s->count
                         ? gw_catalog_load(gw_io_system(), gw_store_dir(s->stores[c]), &now, &ignored)
                         : gw_client_catalog(s->flock.client, &now, &ignored);
        deleted = known && !has(&now, manifest);
        gw_catalog_free(&now);
    }
    return deleted;
}

/* Uses the first checkpoint that can be read. When one has been deleted meanwhile it stops: older ones
 * will be deleted soon. */
static bool use_first(source *s, const gw_checkpoint_choice *choice, gw_checkpoint_user *use, void *context,
                      gw_err *err) {
    uint32_t tried = 0;
    for (uint32_t i = 0; i < s->candidate_count; i++) {
        const gw_manifest *manifest = s->candidates[i];
        if (choice->step != GW_CHECKPOINT_NEWEST && manifest->step != choice->step) continue;
        if (tried++ > 0) fprintf(stderr, "%s: passed over the %s\n", s->program, err->text);
        gw_checkpoint checkpoint = {.manifest = manifest,
                                    .stores = s->stores,
                                    .store_count = s->count,
                                    .jobs = s->with_step,
                                    .flock = s->program != NULL ? &s->flock : NULL};
        if (use(context, &checkpoint, err)) return true;
        s->deleted = checkpoint.unreadable && err->code == GW_E_NOTFOUND && was_deleted(s, manifest);
        if (s->deleted)
            return gw_fail(err, GW_E_NOTFOUND, "checkpoint of step %llu: it was deleted while it was read",
                           (unsigned long long)manifest->step);
        if (s->program == NULL || !checkpoint.unreadable) return false;
    }
    if (tried == 0) return fail_source(s, choice, err);
    gw_err why = *err;
    return why.code == GW_E_CORRUPT &&
           gw_fail(err, why.code, "%s: give the directories of the other peers too, or another --step",
                   why.text);
}

bool gw_checkpoint_use(char *const *dirs, uint32_t dir_count, const gw_checkpoint_choice *choice,
                       const char *program, gw_checkpoint_user *use, void *context, gw_err *err) {
    GW_ASSERT(choice->place.from != NULL ? program != NULL : dir_count > 0);
    for (uint32_t look = 1;; look++) {
        source s;
        bool done = source_open(&s, dirs, dir_count, choice, program, err) &&
                    use_first(&s, choice, use, context, err);
        source_close(&s);
        if (done || !s.deleted || program == NULL || look == LOOKS) return done;
        fprintf(stderr, "%s: %s: looking again\n", program, err->text);
    }
}

const gw_manifest *gw_checkpoint_choose(const gw_catalog *catalog, const gw_checkpoint_choice *choice,
                                        const char *program, const char *where, bool peer, gw_err *err) {
    gw_catalog one = *catalog;
    const gw_manifest *chosen = NULL;
    source s = {.catalogs = &one, .catalog_count = 1, .program = program};
    if (catalog->bad_count > 0) s.bad = &catalog->bad[0];
    bool found = find_candidates(&s, choice, err) && (!choice->best || choose_best(&s, err));
    for (uint32_t i = 0; found && i < s.candidate_count && chosen == NULL; i++)
        if (choice->step == GW_CHECKPOINT_NEWEST || s.candidates[i]->step == choice->step)
            chosen = s.candidates[i];
    if (found && chosen == NULL) fail_empty(&s, choice, where, peer, err);
    free(s.candidates);
    free(s.jobs);
    return chosen;
}

const char *gw_checkpoint_job_short(const gw_hash *id, char text[GW_CHECKPOINT_JOB_TEXT]) {
    gw_hex(id->bytes, (GW_CHECKPOINT_JOB_TEXT - 1) / 2, text);
    return text;
}

const char *gw_checkpoint_job_digits(const char *text) {
    if (text[0] == 'j') text++;
    size_t length = strlen(text);
    bool digits = length > 0 && length < GW_HASH_TEXT && strspn(text, "0123456789abcdefABCDEF") == length;
    return digits ? text : NULL;
}

const char *gw_checkpoint_job_of_option(struct argp_state *state, const char *text) {
    const char *digits = gw_checkpoint_job_digits(text);
    if (digits == NULL)
        gw_argp_error(state,
                      "--job: '%s' cannot be the beginning of a job's id: give up to 64 hexadecimal digits",
                      text);
    return digits;
}

void gw_checkpoint_choice_cut(char *dir, gw_checkpoint_choice *choice) {
    struct stat about;
    char *at = strrchr(dir, '@'), *colon = at != NULL ? strchr(at, ':') : NULL;
    if (at == NULL || stat(dir, &about) == 0) return;
    const char *step = colon != NULL ? colon + 1 : at + 1;
    uint64_t number = GW_CHECKPOINT_NEWEST;
    bool best = strcmp(step, "best") == 0;
    if (!best && !(colon != NULL && step[0] == '\0') &&
        !gw_number_read(step, 0, GW_CHECKPOINT_NEWEST - 1, &number))
        return;
    if (colon != NULL) {
        *colon = '\0';
        const char *job = gw_checkpoint_job_digits(at + 1);
        if (job == NULL) {
            *colon = ':';
            return;
        }
        choice->job = job;
    }
    choice->step = number;
    choice->best = best;
    *at = '\0';
}

bool gw_checkpoint_choice_take(char *dir, gw_checkpoint_choice *choice) {
    gw_checkpoint_choice named = {.step = GW_CHECKPOINT_NEWEST};
    gw_checkpoint_choice_cut(dir, &named);
    bool has_step = named.best || named.step != GW_CHECKPOINT_NEWEST, has_job = named.job != NULL;
    if ((has_step && (choice->best || choice->step != GW_CHECKPOINT_NEWEST)) ||
        (has_job && choice->job != NULL))
        return false;
    if (has_step) {
        choice->step = named.step;
        choice->best = named.best;
    }
    if (has_job) choice->job = named.job;
    return true;
}
