/* `godwit inspect` shows what a state directory, a running peer or one checkpoint holds. It changes
 * nothing on disk and needs no lock, so it can be used on the directory of a running peer. */
#include "checkpoint/catalog.h"
#include "core/os/directory.h"
#include "tools/godwit/command/commands.h"
#include "tools/godwit/command/inspect/show.h"
#include "tools/godwit/node/identity.h"
#include "tools/godwit/text/json.h"
#include "tools/godwit/text/number.h"
#include "tools/godwit/text/suggest.h"
#include "tools/godwit/weights/checkpoint.h"

#include <argp.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct arguments {
    char *path; /* NULL: the peer that is named has the checkpoints */
    bool json, tensors;
    gw_checkpoint_choice choice; /* of the checkpoint that is shown in full */
    const char *program;
    gw_client *client; /* of the peer that is named; NULL = none is */
} arguments;

enum { KEY_TENSORS = 256, KEY_STEP, KEY_BEST, KEY_JOB };

static const struct argp_option inspect_options[] = {
    {"json", 'j', 0, 0, "Print one JSON object", 0},
    {"tensors", KEY_TENSORS, 0, 0, "Show the tensors too, with their norms", 0},
    {"step", KEY_STEP, "N", 0, "Show the checkpoint of step N in full (newest)", 0},
    {"best", KEY_BEST, 0, 0, "Show the checkpoint of the best evaluation (godwit run --keep-best)", 0},
    {"job", KEY_JOB, "HEX", 0, "Take the job whose id begins with HEX (the one that was saved last)", 0},
    {0},
};

static const char inspect_doc[] =
    "Shows the checkpoints of a peer's directory, or with --from of a running peer, and the newest of them "
    "in full, or the checkpoint whose manifest is given: job and parameters, results, state hash, which "
    "chunks are here and intact, and which peers have the others. Nothing is changed.\v"
    "The exit code is 1 when a manifest, or a chunk of the checkpoint shown in full, is damaged. Chunks that "
    "are missing here are not damage: each peer may hold only a part of a checkpoint. Where a peer runs in "
    "the directory, it is asked who has them. DIR@STEP, DIR@best, DIR@JOB: and DIR@JOB:STEP choose a "
    "checkpoint as --step, --best and --job do.";

static error_t parse_inspect(int key, char *arg, struct argp_state *state) {
    arguments *a = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &a->choice.place;
        return 0;
    case 'j':
        a->json = true;
        return 0;
    case KEY_TENSORS:
        a->tensors = true;
        return 0;
    case KEY_STEP:
        a->choice.step = gw_number_of_option(state, "--step", arg, 0, UINT64_MAX - 1);
        return 0;
    case KEY_BEST:
        a->choice.best = true;
        return 0;
    case KEY_JOB:
        a->choice.job = gw_checkpoint_job_of_option(state, arg);
        return 0;
    case ARGP_KEY_ARG:
        if (a->path != NULL)
            gw_argp_error(state, "unexpected argument '%s': give one directory or manifest", arg);
        a->path = arg;
        return 0;
    case ARGP_KEY_NO_ARGS:
        if (a->choice.place.from == NULL)
            gw_argp_error(state, "give the directory of a peer, or a manifest, or a running peer by --from");
        return 0;
    case ARGP_KEY_SUCCESS:
        if (a->path != NULL && !gw_checkpoint_choice_take(a->path, &a->choice))
            gw_argp_error(state, "%s: give a step and a job once, here or by --step, --best and --job",
                          a->path);
        if (a->choice.best && a->choice.step != GW_CHECKPOINT_NEWEST)
            gw_argp_error(state, "--best and --step exclude each other: give one of them");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const char *plural(uint32_t count) {
    return count == 1 ? "" : "s";
}

/* Fails where manifests or chunks are damaged. `why` is the error of the first damaged one. */
static bool judge(const char *path, uint32_t manifests, uint32_t chunks, const gw_err *why, gw_err *err) {
    if (manifests + chunks == 0) return true;
    fflush(stdout);
    char text[80] = "";
    if (manifests > 0) snprintf(text, sizeof text, "%u manifest%s", manifests, plural(manifests));
    if (chunks > 0)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%u chunk%s",
                 manifests > 0 ? " and " : "", chunks, plural(chunks));
    return gw_fail(err, GW_E_CORRUPT,
                   "%s: %s damaged: %s. A peer that is started here fetches the damaged parts from other "
                   "peers that hold them; if there are none, an older checkpoint may be whole",
                   path, text, why->text);
}

/* Finds out about one checkpoint. `dir` is the directory of the store; NULL = there is none. */
static bool collect(const arguments *a, const gw_manifest *manifest, const char *dir, gw_store *store,
                    gw_inspect_report *report, gw_inspect_others *others, gw_err *err) {
    *others = (gw_inspect_others){0};
    if (!gw_inspect_collect(manifest, store, report, err)) return false;
    if (dir != NULL) report->command = gw_identity_command_read(gw_io_system(), dir, &manifest->job_id);
    bool known = true;
    if (a->client != NULL)
        known = gw_inspect_ask(a->client, manifest, others, err);
    else if (dir != NULL && report->missing > 0)
        gw_inspect_find_others(dir, a->program, manifest, others);
    else
        return true;
    if (known) gw_inspect_note_others(report, others);
    if (known && a->client != NULL) gw_inspect_fetch_results(report, a->client, others);
    if (!known) gw_inspect_report_free(report);
    return known;
}

/* Counts the chunks of each checkpoint that are in the directory or, without one, at the peer that is
 * named. */
static bool count_here(const arguments *a, const gw_catalog *catalog, gw_store *store, uint32_t *here,
                       gw_err *err) {
    for (uint32_t i = 0; i < catalog->good_count; i++) {
        gw_chunk_holders own = {0};
        if (store != NULL)
            here[i] = gw_inspect_count_held(&catalog->good[i], store);
        else if (!gw_client_holders(a->client, &catalog->good[i], false, &own, err))
            return false;
        else if (own.count > 0)
            here[i] = gw_set_count(&own.list[0].chunks);
        gw_chunk_holders_free(&own);
    }
    return true;
}

static void print_all(const arguments *a, const char *where, const gw_catalog *catalog, const uint32_t *here,
                      const gw_inspect_report *report) {
    bool newest = a->choice.step == GW_CHECKPOINT_NEWEST && !a->choice.best;
    gw_inspect_print_catalog(stdout, where, catalog, here);
    fprintf(stdout, "\n%s:\n\n", newest ? "The newest" : "The chosen one");
    gw_inspect_print_report(stdout, report, a->tensors);
}

/* Shows the list of all checkpoints, and one of them in full. */
static bool show_catalog(const arguments *a, const char *where, const gw_catalog *catalog,
                         const gw_manifest *chosen, gw_store *store, gw_err *err) {
    gw_inspect_report report;
    gw_inspect_others others;
    uint32_t *here = calloc(catalog->good_count, sizeof *here);
    bool good = here != NULL || gw_fail(err, GW_E_NOMEM, "out of memory");
    good = good && count_here(a, catalog, store, here, err) &&
           collect(a, chosen, store != NULL ? where : NULL, store, &report, &others, err);
    if (good && a->json) {
        json_t *object = gw_inspect_json_catalog(where, catalog, here);
        json_object_set_new(object, "newest", gw_inspect_json_report(&report));
        gw_json_print(object);
    } else if (good) {
        print_all(a, where, catalog, here, &report);
    }
    free(here);
    if (!good) return false;
    const gw_err *why = &report.why;
    if (report.damaged == 0 && catalog->bad_count > 0) why = &catalog->bad[0].err;
    good = judge(where, catalog->bad_count, report.damaged, why, err);
    gw_inspect_report_free(&report);
    gw_inspect_others_free(&others);
    return good;
}

static bool inspect_catalog(const arguments *a, const char *where, const gw_catalog *catalog, gw_store *store,
                            gw_err *err) {
    bool peer = a->client != NULL;
    if (catalog->good_count == 0 && !peer) {
        gw_client *client = gw_client_open(where, a->program, err);
        peer = client != NULL;
        gw_client_close(client);
    }
    const gw_manifest *chosen = gw_checkpoint_choose(catalog, &a->choice, a->program, where, peer, err);
    return chosen != NULL && show_catalog(a, where, catalog, chosen, store, err);
}

static bool inspect_folder(const arguments *a, gw_err *err) {
    char dir[GW_PATH_BYTES];
    gw_store *store;
    gw_catalog catalog;
    if (!gw_checkpoint_dir_find(a->path, a->program, dir, err) ||
        !gw_store_open(dir, GW_STORE_LOOK, NULL, &store, err))
        return false;
    bool done =
        gw_catalog_load(gw_io_system(), dir, &catalog, err) && inspect_catalog(a, dir, &catalog, store, err);
    gw_catalog_free(&catalog);
    gw_store_close(store);
    return done;
}

static bool inspect_peer(const arguments *a, gw_err *err) {
    gw_catalog catalog;
    bool done = gw_client_catalog(a->client, &catalog, err) &&
                inspect_catalog(a, gw_client_name(a->client), &catalog, NULL, err);
    gw_catalog_free(&catalog);
    return done;
}

/* Returns the state directory of the manifest DIR/manifests/NAME, in memory that the caller frees; NULL
 * when the manifest lies elsewhere. */
static char *folder_of(const char *path) {
    char *absolute = realpath(path, NULL);
    if (absolute == NULL) return NULL;
    char *slash = strrchr(absolute, '/');
    *slash = '\0';
    slash = strrchr(absolute, '/');
    if (slash != NULL && strcmp(slash, "/manifests") == 0) {
        *slash = '\0';
        return absolute;
    }
    free(absolute);
    return NULL;
}

/* Fails because a file is no manifest. A file that is named like one may be damaged; any other was never
 * one. */
static bool fail_manifest(const char *path, gw_err *err) {
    static const char ending[] = ".manifest";
    size_t length = strlen(path);
    bool named = length >= sizeof ending - 1 && strcmp(path + length - (sizeof ending - 1), ending) == 0;
    bool content = err->code == GW_E_INVALID || err->code == GW_E_CORRUPT || err->code == GW_E_LIMIT;
    return !named && content &&
           gw_fail(err, GW_E_USAGE,
                   "%s is no manifest: give the directory of a peer, or a file in its folder manifests",
                   path);
}

static bool inspect_manifest(const arguments *a, gw_err *err) {
    gw_manifest manifest;
    if (!gw_catalog_read(gw_io_system(), a->path, &manifest, err)) return fail_manifest(a->path, err);
    char *dir = folder_of(a->path);
    gw_store *store = NULL;
    gw_inspect_report report;
    gw_inspect_others others;
    bool done = (dir == NULL || gw_store_open(dir, GW_STORE_LOOK, NULL, &store, err)) &&
                collect(a, &manifest, dir, store, &report, &others, err);
    if (done && a->json)
        gw_json_print(gw_inspect_json_report(&report));
    else if (done)
        gw_inspect_print_report(stdout, &report, a->tensors);
    if (done) {
        done = judge(a->path, 0, report.damaged, &report.why, err);
        gw_inspect_report_free(&report);
        gw_inspect_others_free(&others);
    }
    gw_store_close(store);
    free(dir);
    gw_manifest_free(&manifest);
    return done;
}

static bool inspect(arguments *a, gw_err *err) {
    struct stat status;
    if (a->path != NULL && stat(a->path, &status) < 0) return gw_fail_named(err, errno, "%s", a->path);
    if (a->choice.place.from != NULL &&
        (a->client = gw_client_dial(&a->choice.place, a->program, err)) == NULL)
        return false;
    bool done = a->path == NULL           ? inspect_peer(a, err)
                : S_ISDIR(status.st_mode) ? inspect_folder(a, err)
                                          : inspect_manifest(a, err);
    gw_client_close(a->client);
    return done;
}

int gw_inspect_main(int argc, char **argv) {
    arguments a = {.program = argv[0], .choice.step = GW_CHECKPOINT_NEWEST};
    static const struct argp_child children[] = {{&gw_client_place_argp, 0, NULL, 0}, {0}};
    const struct argp argp = {.options = inspect_options,
                              .parser = parse_inspect,
                              .args_doc = "[DIR|MANIFEST]",
                              .doc = inspect_doc,
                              .children = children};
    argp_err_exit_status = 2;
    gw_argp_parse(&argp, argc, argv, &a);
    gw_err err;
    if (inspect(&a, &err)) return 0;
    return gw_command_fail(argv[0], &err);
}
