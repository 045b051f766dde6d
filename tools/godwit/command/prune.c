/* `godwit prune` removes the checkpoints of whole jobs from a peer's directory. */
#include "checkpoint/catalog.h"
#include "checkpoint/dirlock.h"
#include "checkpoint/store.h"
#include "core/base/assert.h"
#include "core/os/directory.h"
#include "core/os/durable.h"
#include "tools/godwit/command/commands.h"
#include "tools/godwit/node/identity.h"
#include "tools/godwit/show/control.h"
#include "tools/godwit/show/events.h"
#include "tools/godwit/text/suggest.h"
#include "tools/godwit/text/timestamp.h"
#include "tools/godwit/weights/checkpoint.h"

#include <argp.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_JOB = 256, KEY_OTHERS, KEY_YES, MOST_JOBS = 64 };

typedef struct arguments {
    const char *dir;
    const char *jobs[MOST_JOBS]; /* the beginnings of the ids of --job */
    uint32_t job_count;
    bool others, yes;
} arguments;

static const struct argp_option prune_options[] = {
    {"job", KEY_JOB, "HEX", 0, "Remove the job whose id begins with HEX; give it several times for several",
     0},
    {"others", KEY_OTHERS, 0, 0, "Remove all jobs but the one that was saved last", 0},
    {"yes", KEY_YES, 0, 0, "Remove them; without it, what would be removed is only shown", 0},
    {0},
};

static const char prune_doc[] =
    "Removes all checkpoints of jobs that nobody will go on with from the directory of a peer, with the "
    "records of these jobs. Without --job and --others it lists the jobs in DIR.\v"
    "A job that went on from another one has its own copy of the state from which it went on, so that the "
    "other one is not needed for it. Run it on every node: a peer that still has a job's checkpoints can go "
    "on with it. A peer may run in DIR meanwhile; its own job is not removed, and space becomes free at its "
    "next checkpoint.";

static error_t parse_prune(int key, char *arg, struct argp_state *state) {
    arguments *a = state->input;
    switch (key) {
    case KEY_JOB:
        if (a->job_count == MOST_JOBS) gw_argp_error(state, "--job: give it at most %d times", MOST_JOBS);
        a->jobs[a->job_count++] = gw_checkpoint_job_of_option(state, arg);
        return 0;
    case KEY_OTHERS:
        a->others = true;
        return 0;
    case KEY_YES:
        a->yes = true;
        return 0;
    case ARGP_KEY_ARG:
        if (a->dir != NULL) gw_argp_error(state, "unexpected argument '%s': give one directory", arg);
        a->dir = arg;
        return 0;
    case ARGP_KEY_END:
        if (a->dir == NULL) gw_argp_error(state, "give the directory of a peer");
        if (a->others && a->job_count > 0) gw_argp_error(state, "--others and --job exclude each other");
        if (a->yes && !a->others && a->job_count == 0)
            gw_argp_error(state, "--yes: say what to remove by --job or --others");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* The checkpoints of one job in the directory. */
typedef struct job {
    const gw_manifest *newest; /* that of the highest step */
    uint32_t checkpoints;
    uint64_t first_step, saved_ms; /* the lowest step; the time of the latest save */
    bool remove;
} job;

typedef struct jobs {
    job *list; /* that saved last comes first */
    uint32_t count;
} jobs;

static job *find_job(jobs *all, const gw_hash *id) {
    for (uint32_t i = 0; i < all->count; i++)
        if (gw_hash_equal(&all->list[i].newest->job_id, id)) return &all->list[i];
    return NULL;
}

static int by_time(const void *a, const void *b) {
    uint64_t left = ((const job *)a)->saved_ms, right = ((const job *)b)->saved_ms;
    return left > right ? -1 : left < right;
}

/* Groups the manifests of a catalog, which has them by descending step, by their jobs. The copy of another
 * job's state, with which a job begins, has that one's time and does not count for the time of the job. */
static jobs list_jobs(const gw_catalog *catalog) {
    jobs all = {.list = calloc(catalog->good_count + 1, sizeof *all.list)};
    GW_ASSERT_MEMORY(all.list != NULL);
    for (uint32_t i = 0; i < catalog->good_count; i++) {
        const gw_manifest *m = &catalog->good[i];
        job *one = find_job(&all, &m->job_id);
        if (one == NULL) {
            one = &all.list[all.count++];
            one->newest = m;
        }
        one->checkpoints++;
        one->first_step = m->step;
        if (!gw_manifest_is_copy(m) && m->created_ms > one->saved_ms) one->saved_ms = m->created_ms;
    }
    qsort(all.list, all.count, sizeof *all.list, by_time);
    return all;
}

static int by_bytes(const void *a, const void *b) {
    return memcmp(a, b, sizeof(gw_hash));
}

typedef struct chunk {
    gw_hash name; /* the first member: by_bytes compares it */
    uint32_t length;
} chunk;

/* Lists the chunks of the jobs of the catalog for which `remove` is as given, or of one job, in the order
 * of their names. The caller frees the list. */
static chunk *list_chunks(const gw_catalog *catalog, jobs *all, bool removed, const job *only,
                          size_t *count) {
    size_t most = 0;
    for (uint32_t i = 0; i < catalog->good_count; i++) most += catalog->good[i].chunk_count;
    chunk *list = calloc(most + 1, sizeof *list);
    GW_ASSERT_MEMORY(list != NULL);
    *count = 0;
    for (uint32_t i = 0; i < catalog->good_count; i++) {
        const gw_manifest *m = &catalog->good[i];
        const job *of = find_job(all, &m->job_id);
        if (only != NULL ? (of == only) != removed : of->remove != removed) continue;
        for (uint32_t c = 0; c < m->chunk_count; c++)
            list[(*count)++] = (chunk){m->chunks[c], gw_chunk_length(m->state_bytes, c)};
    }
    qsort(list, *count, sizeof *list, by_bytes);
    return list;
}

/* The bytes that become free when one job is removed, or, with NULL, all those that are marked. */
static uint64_t freed_bytes(const gw_catalog *catalog, jobs *all, const job *only, gw_store *store) {
    size_t gone_count, kept_count;
    chunk *gone = list_chunks(catalog, all, true, only, &gone_count);
    chunk *kept = list_chunks(catalog, all, false, only, &kept_count);
    uint64_t bytes = 0;
    for (size_t i = 0; i < gone_count; i++) {
        if (i > 0 && gw_hash_equal(&gone[i].name, &gone[i - 1].name)) continue;
        if (bsearch(&gone[i], kept, kept_count, sizeof *kept, by_bytes) == NULL &&
            gw_store_has(store, &gone[i].name, gone[i].length))
            bytes += gone[i].length;
    }
    free(gone);
    free(kept);
    return bytes;
}

static void print_jobs(const char *dir, const gw_catalog *catalog, jobs *all, gw_store *store) {
    printf("%s: %u job%s\n\n%-9s %-8s %11s  %-16s %-20s %9s\n", dir, all->count, all->count == 1 ? "" : "s",
           "job", "id", "checkpoints", "steps", "saved", "frees");
    for (uint32_t i = 0; i < all->count; i++) {
        const job *one = &all->list[i];
        char id[GW_CHECKPOINT_JOB_TEXT], steps[48], when[GW_TIMESTAMP_UTC_TEXT] = "-", frees[GW_BYTES_TEXT];
        if (one->saved_ms > 0) gw_timestamp_utc(one->saved_ms, when);
        if (one->checkpoints > 1)
            snprintf(steps, sizeof steps, "%" PRIu64 " to %" PRIu64, one->first_step, one->newest->step);
        else
            snprintf(steps, sizeof steps, "%" PRIu64, one->first_step);
        printf("%-9.9s %s %11u  %-16s %-20s %9s\n", one->newest->job_name,
               gw_checkpoint_job_short(&one->newest->job_id, id), one->checkpoints, steps, when,
               gw_events_bytes(freed_bytes(catalog, all, one, store), frees));
    }
}

/* Marks the jobs that the command line names. */
static bool mark(const arguments *a, jobs *all, gw_err *err) {
    for (uint32_t i = 0; i < all->count; i++) all->list[i].remove = a->others && i > 0;
    for (uint32_t k = 0; k < a->job_count; k++) {
        job *found = NULL;
        for (uint32_t i = 0; i < all->count; i++) {
            char id[GW_HASH_TEXT];
            gw_hex(all->list[i].newest->job_id.bytes, sizeof(gw_hash), id);
            if (strncasecmp(id, a->jobs[k], strlen(a->jobs[k])) != 0) continue;
            if (found != NULL)
                return gw_fail(err, GW_E_USAGE,
                               "--job: several jobs in %s have ids that begin with %s: give more digits",
                               a->dir, a->jobs[k]);
            found = &all->list[i];
        }
        if (found == NULL)
            return gw_fail(err, GW_E_USAGE,
                           "--job: %s holds no job whose id begins with %s; without --job the "
                           "command lists them",
                           a->dir, a->jobs[k]);
        found->remove = true;
    }
    return true;
}

/* Removes the manifests and records of the jobs that are marked. *needed are the chunks of those that
 * stay; *complete tells whether they are known (gw_catalog_retain). */
static bool remove_jobs(gw_directory *directory, const jobs *all, gw_hash **needed, size_t *needed_count,
                        bool *complete, gw_err *why, gw_err *err) {
    for (uint32_t i = 0; i < all->count; i++) {
        const gw_hash *id = &all->list[i].newest->job_id;
        if (!all->list[i].remove) continue;
        free(*needed);
        *needed = NULL;
        if (!gw_catalog_retain(&directory->io, directory->path, id, NULL, 0, needed, needed_count, complete,
                               why, err) ||
            !gw_identity_forget(directory, id, err))
            return false;
    }
    return gw_durable_sync_folder(&directory->io, directory->path, err);
}

/* Removes the jobs, and then the chunks that no other job needs. */
static bool remove_with_chunks(gw_directory *directory, const jobs *all, gw_err *err) {
    gw_hash *needed = NULL;
    size_t needed_count = 0;
    bool complete = false;
    gw_err why;
    gw_store *store = NULL;
    gw_store_swept swept;
    char freed[GW_BYTES_TEXT];
    bool good = remove_jobs(directory, all, &needed, &needed_count, &complete, &why, err);
    if (good && !complete) {
        good = false;
        gw_fail(err, why.code,
                "the jobs are removed, and their chunks are not, as it is not known which are needed: %s",
                why.text);
    }
    good = good && gw_store_open(directory->path, GW_STORE_WRITE, &directory->io, &store, err) &&
           gw_store_sweep(store, needed, needed_count, &swept, err);
    if (good) printf("%s are free now\n", gw_events_bytes(swept.deleted_bytes, freed));
    gw_store_close(store);
    free(needed);
    return good;
}

/* Asks the peer that runs in a directory for its job, and fails where that is one of the jobs that are
 * marked. Fails with GW_E_NOTFOUND where no peer runs there. */
static bool spare_own_job(const char *dir, const jobs *all, gw_err *err) {
    char *answer = gw_control_ask(dir, "status", err);
    if (answer == NULL) return gw_fail_in(err, "a process uses %s, and cannot be asked for its job", dir);
    json_t *status = json_loads(answer, 0, NULL);
    const char *own = json_string_value(json_object_get(status, "job_id"));
    free(answer);
    bool good = own != NULL || gw_fail(err, GW_E_PEER, "the peer that runs in %s does not tell its job", dir);
    for (uint32_t i = 0; good && i < all->count; i++) {
        char id[GW_HASH_TEXT];
        gw_hex(all->list[i].newest->job_id.bytes, sizeof(gw_hash), id);
        if (own != NULL && all->list[i].remove && strcmp(id, own) == 0)
            good = gw_fail(err, GW_E_DENIED,
                           "job %.8s is the one that the peer in %s runs: stop it first (godwit "
                           "stop --dir %s)",
                           id, dir, dir);
    }
    json_decref(status);
    return good;
}

/* Removes the jobs beside a running peer, unless one of them is the peer's own. The peer deletes chunks that
 * no manifest needs at its next checkpoint. */
static bool remove_beside_peer(gw_directory *directory, const jobs *all, gw_err *err) {
    gw_hash *needed = NULL;
    size_t needed_count;
    bool complete;
    gw_err why;
    bool good = spare_own_job(directory->path, all, err) &&
                remove_jobs(directory, all, &needed, &needed_count, &complete, &why, err);
    if (good) puts("The peer that runs here frees the space at its next checkpoint.");
    free(needed);
    return good;
}

static bool remove_marked(const char *dir, const jobs *all, gw_err *err) {
    gw_directory directory;
    gw_dirlock lock = {.fd = -1};
    if (!gw_directory_open(dir, &directory, err)) return false;
    bool locked = gw_dirlock_take(&directory.io, directory.path, &lock, err);
    bool good = locked                     ? remove_with_chunks(&directory, all, err)
                : err->code == GW_E_DENIED ? remove_beside_peer(&directory, all, err)
                                           : false;
    gw_dirlock_release(&lock);
    gw_directory_close(&directory);
    return good;
}

/* Says what is removed, and removes it with --yes. Refuses before it says anything what a running peer needs,
 * also where nothing would be removed yet. */
static bool prune_marked(const arguments *a, const char *dir, const gw_catalog *catalog, jobs *all,
                         gw_store *store, gw_err *err) {
    uint32_t count = 0;
    if (!spare_own_job(dir, all, err) && err->code != GW_E_NOTFOUND) return false;
    for (uint32_t i = 0; i < all->count; i++) {
        const job *one = &all->list[i];
        char id[GW_CHECKPOINT_JOB_TEXT];
        if (!one->remove) continue;
        count++;
        printf("%s %s, job %s: %u checkpoint%s, the last of step %" PRIu64 "\n",
               a->yes ? "removing" : "would remove", one->newest->job_name,
               gw_checkpoint_job_short(&one->newest->job_id, id), one->checkpoints,
               one->checkpoints == 1 ? "" : "s", one->newest->step);
    }
    if (count == 0) puts("There is nothing to remove.");
    if (count == 0) return true;
    if (a->yes) return remove_marked(dir, all, err);
    char frees[GW_BYTES_TEXT];
    printf("This would free %s here. Nothing is removed yet: give --yes.\n",
           gw_events_bytes(freed_bytes(catalog, all, NULL, store), frees));
    return true;
}

static bool prune(const arguments *a, gw_err *err) {
    char dir[GW_PATH_BYTES];
    gw_store *store = NULL;
    gw_catalog catalog;
    jobs all = {0};
    if (!gw_checkpoint_dir_find(a->dir, NULL, dir, err) ||
        !gw_store_open(dir, GW_STORE_LOOK, NULL, &store, err))
        return false;
    bool good = gw_catalog_load(gw_io_system(), dir, &catalog, err);
    if (good) {
        all = list_jobs(&catalog);
        good = all.count > 0 || gw_fail(err, GW_E_USAGE, "%s holds no checkpoints", dir);
        if (good && !a->others && a->job_count == 0)
            print_jobs(dir, &catalog, &all, store);
        else
            good = good && mark(a, &all, err) && prune_marked(a, dir, &catalog, &all, store, err);
        free(all.list);
    }
    gw_catalog_free(&catalog);
    gw_store_close(store);
    return good;
}

int gw_prune_main(int argc, char **argv) {
    arguments a = {0};
    struct argp argp = {.options = prune_options, .parser = parse_prune, .args_doc = "DIR", .doc = prune_doc};
    gw_argp_parse(&argp, argc, argv, &a);
    gw_err err;
    if (prune(&a, &err)) return 0;
    return gw_command_fail(argv[0], &err);
}
