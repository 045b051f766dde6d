/* `godwit inspect` shows what a state directory or one checkpoint holds. It changes nothing on disk and
 * needs no lock, so it can be used on the directory of a running peer. */
#include "checkpoint/catalog.h"
#include "core/os/directory.h"
#include "tools/godwit/command/commands.h"
#include "tools/godwit/command/inspect/show.h"
#include "tools/godwit/text/suggest.h"

#include <argp.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct arguments {
    const char *path;
    bool json;
} arguments;

static const struct argp_option inspect_options[] = {
    {"json", 'j', 0, 0, "Print one JSON object", 0},
    {0},
};

static const char inspect_doc[] =
    "Shows the checkpoints of a peer's directory and the newest of them in full, or the checkpoint whose "
    "manifest is given: job and parameters, state hash, tensors with their norms, and which chunks are here "
    "and intact. Nothing is changed.\vThe exit code is 1 when a manifest, or a chunk of the checkpoint shown "
    "in full, is damaged. Chunks that are missing here are not damage: each peer holds a part of a "
    "checkpoint.";

static error_t parse_inspect(int key, char *arg, struct argp_state *state) {
    arguments *a = state->input;
    switch (key) {
    case 'j':
        a->json = true;
        return 0;
    case ARGP_KEY_ARG:
        if (a->path != NULL)
            argp_error(state, "unexpected argument '%s': give one directory or manifest", arg);
        a->path = arg;
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "give the directory of a peer, or a manifest");
        return EINVAL;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* Prints the object and frees it. */
static void print_json(json_t *object) {
    json_dumpf(object, stdout, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
    putchar('\n');
    json_decref(object);
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

/* Shows the list of all checkpoints, and the newest one in full. */
static bool show_catalog(const char *dir, const gw_catalog *catalog, gw_store *store, bool json,
                         gw_err *err) {
    gw_inspect_report report;
    if (!gw_inspect_collect(gw_catalog_newest(catalog), store, &report, err)) return false;
    if (json) {
        json_t *object = gw_inspect_json_catalog(dir, catalog, store);
        json_object_set_new(object, "newest", gw_inspect_json_report(&report));
        print_json(object);
    } else {
        gw_inspect_print_catalog(stdout, dir, catalog, store);
        fputs("\nThe newest:\n\n", stdout);
        gw_inspect_print_report(stdout, &report);
    }
    const gw_err *why = &report.why;
    if (report.damaged == 0 && catalog->bad_count > 0) why = &catalog->bad[0].err;
    bool sound = judge(dir, catalog->bad_count, report.damaged, why, err);
    gw_inspect_report_free(&report);
    return sound;
}

static bool inspect_folder(const char *given, bool json, gw_err *err) {
    char dir[GW_PATH_BYTES];
    gw_store *store;
    gw_catalog catalog;
    if (!gw_directory_find(given, dir, err) || !gw_store_open(dir, GW_STORE_LOOK, NULL, &store, err))
        return false;
    bool done = gw_catalog_load(gw_io_system(), dir, &catalog, err);
    if (done && catalog.good_count > 0)
        done = show_catalog(dir, &catalog, store, json, err);
    else if (done && catalog.bad_count > 0)
        done = gw_fail(err, GW_E_CORRUPT, "%s holds no whole checkpoint: %s", dir, catalog.bad[0].err.text);
    else if (done)
        done = gw_fail(err, GW_E_NOTFOUND, "%s holds no checkpoint", dir);
    gw_catalog_free(&catalog);
    gw_store_close(store);
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

static bool inspect_manifest(const char *path, bool json, gw_err *err) {
    gw_manifest manifest;
    if (!gw_catalog_read(gw_io_system(), path, &manifest, err)) return false;
    char *dir = folder_of(path);
    gw_store *store = NULL;
    gw_inspect_report report;
    bool done = (dir == NULL || gw_store_open(dir, GW_STORE_LOOK, NULL, &store, err)) &&
                gw_inspect_collect(&manifest, store, &report, err);
    if (done && json)
        print_json(gw_inspect_json_report(&report));
    else if (done)
        gw_inspect_print_report(stdout, &report);
    if (done) {
        done = judge(path, 0, report.damaged, &report.why, err);
        gw_inspect_report_free(&report);
    }
    gw_store_close(store);
    free(dir);
    gw_manifest_free(&manifest);
    return done;
}

int gw_inspect_main(int argc, char **argv) {
    arguments a = {0};
    struct argp argp = {
        .options = inspect_options, .parser = parse_inspect, .args_doc = "DIR|MANIFEST", .doc = inspect_doc};
    argp_err_exit_status = 2;
    gw_argp_parse(&argp, argc, argv, &a);
    gw_err err;
    struct stat status;
    bool done;
    if (stat(a.path, &status) < 0)
        done = gw_fail_errno(&err, errno, "%s", a.path);
    else if (S_ISDIR(status.st_mode))
        done = inspect_folder(a.path, a.json, &err);
    else
        done = inspect_manifest(a.path, a.json, &err);
    if (!done) fprintf(stderr, "%s: %s\n", argv[0], err.text);
    return done ? 0 : 1;
}
