/* `godwit results` fetches what a job has left on the nodes: its output, its files, its newest checkpoint. */
#include "checkpoint/catalog.h"
#include "checkpoint/store.h"
#include "core/base/assert.h"
#include "core/flock/files.h"
#include "core/os/directory.h"
#include "core/os/durable.h"
#include "tools/godwit/command/commands.h"
#include "tools/godwit/command/flock/client.h"
#include "tools/godwit/command/flock/tasks.h"
#include "tools/godwit/flock/beneath.h"
#include "tools/godwit/text/json.h"
#include "tools/godwit/text/suggest.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NODE = 512, NO_CHECKPOINT };

#define BRING_NS UINT64_C(3600000000000) /* the time that a checkpoint may take to come */

typedef struct choice {
    gw_flock_place place;
    const char *job, *node, *to;
    bool no_checkpoint;
} choice;

static error_t parse(int key, char *arg, struct argp_state *state) {
    choice *c = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &c->place;
        return 0;
    case 'o':
        c->to = arg;
        return 0;
    case NODE:
        c->node = arg;
        return 0;
    case NO_CHECKPOINT:
        c->no_checkpoint = true;
        return 0;
    case ARGP_KEY_ARG:
        if (c->job != NULL) gw_argp_error(state, "unexpected argument '%s': give one JOB", arg);
        c->job = arg;
        return 0;
    case ARGP_KEY_END:
        if (c->job == NULL) gw_argp_error(state, "give the JOB");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option options[] = {
    {"output", 'o', "FOLDER", 0, "A new or empty folder for the results (the job's name)", 0},
    {"node", NODE, "NODE", 0, "What is on this node, as files (where the job has ended, or ran last)", 0},
    {"no-checkpoint", NO_CHECKPOINT, NULL, 0, "Of a job of steps, leave its checkpoint out", 0},
    {0},
};

static const char doc[] = "Fetches what a job has left, from the nodes that have it.\v"
                          "In the folder come out and err, which are what the job has written to its "
                          "outputs; of a map out, err and tasks.jsonl, which are what its tasks have "
                          "written, in their order, and what has become of each, and work/ with the files "
                          "that are brought back; of another job work/, where it ran in a "
                          "directory of its own: what is in that; and for a job of steps state/ with its "
                          "newest checkpoint, for 'godwit "
                          "inspect', 'export' and 'generate'. What a job wrote into a directory that nodes "
                          "share is there, and is not fetched.";

/* The folder of the results. */

static bool has_entries(int fd) {
    DIR *folder = fdopendir(dup(fd));
    bool any = false;
    for (const struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;)
        any |= strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    if (folder != NULL) closedir(folder);
    return any;
}

/* Makes the folder, or takes an empty one. Returns -1 on failure. */
static int open_folder(const char *path, gw_err *err) {
    if (mkdir(path, 0777) != 0 && errno != EEXIST) {
        gw_fail_named(err, errno, "the folder %s cannot be made", path);
        return -1;
    }
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        gw_fail_named(err, errno, "the folder %s cannot be opened", path);
        return -1;
    }
    if (!has_entries(fd)) return fd;
    gw_fail(err, GW_E_USAGE, "%s is not empty: name a new folder with -o", path);
    close(fd);
    return -1;
}

/* Finding the node. */

static json_t *list_on(gw_flock_client *client, const char *job, const char *node, gw_err *err) {
    return gw_flock_ask(client, json_pack("{s:s,s:s,s:s}", "do", "results", "job", job, "node", node), err);
}

/* Adds a node to those that are asked, unless it is among them. */
static void add_node(json_t *list, const char *id) {
    size_t i;
    json_t *one;
    json_array_foreach(list, i, one) {
        if (strcmp(json_string_value(one), id) == 0) return;
    }
    if (id[0] != '\0') json_array_append_new(list, json_string(id));
}

/* The nodes on which a job may have left something: first where it ended, then where it runs, where it failed, and all. */
static json_t *nodes_of(const json_t *job, const json_t *all) {
    json_t *list = json_array(), *one;
    const json_t *rounds = json_object_get(job, "rounds");
    size_t i;
    json_array_foreach(json_object_get(job, "ends"), i, one) add_node(list, gw_flock_text(one, "node"));
    json_array_foreach(json_object_get(job, "nodes"), i, one) add_node(list, gw_flock_text(one, "id"));
    for (i = json_array_size(rounds); i-- > 0;)
        add_node(list, gw_flock_text(json_array_get(rounds, i), "node"));
    json_array_foreach(all, i, one) add_node(list, gw_flock_text(one, "id"));
    return list;
}

/* Finds the first node that has something, and writes its id. Returns what it has; NULL on failure. */
static json_t *find_results(const choice *c, gw_flock_client *client, const json_t *job,
                            char node[GW_ID_TEXT], gw_err *err) {
    json_t *answer = gw_flock_ask(client, json_pack("{s:s}", "do", "nodes"), err), *list, *found = NULL, *one;
    size_t i;
    gw_err why;
    if (answer == NULL) return NULL;
    list = nodes_of(job, json_object_get(answer, "nodes"));
    json_decref(answer);
    json_array_foreach(list, i, one) {
        found = list_on(client, gw_flock_text(job, "id"), json_string_value(one), &why);
        if (json_array_size(json_object_get(found, "files")) > 0) {
            snprintf(node, GW_ID_TEXT, "%s", json_string_value(one));
            break;
        }
        json_decref(found);
        found = NULL;
    }
    if (found == NULL)
        gw_fail(err, GW_E_NOTFOUND, "%s has not run yet, or the node that ran it is not here", c->job);
    json_decref(list);
    return found;
}

/* Files. */

/* Fetches a file, as long as it was when it was listed: a job that runs may go on writing. */
static bool fetch_file(gw_flock_client *client, const char *job, const char *node, const json_t *file,
                       int root, gw_err *err) {
    const char *path = gw_flock_text(file, "path");
    int64_t size = gw_flock_number(file, "bytes");
    if (!gw_job_path_is_valid(path))
        return gw_fail(err, GW_E_PEER, "a node names a file that can be none: %.100s", path);
    int fd = gw_beneath_make(root, path, json_is_true(json_object_get(file, "executable")), err);
    bool good = fd >= 0;
    for (int64_t at = 0; good && at < size;) {
        void *bytes;
        size_t count;
        good = gw_flock_read_file(client, job, node, path, (uint64_t)at, &bytes, &count, err);
        if (!good || count == 0) break; /* without bytes it has become shorter */
        good = gw_durable_write_fd(gw_io_system(), fd, path, bytes, count, err);
        free(bytes);
        at += (int64_t)count;
    }
    if (fd >= 0 && close(fd) != 0 && good) good = gw_fail_errno(err, errno, "%s cannot be written", path);
    return good;
}

static bool fetch_files(gw_flock_client *client, const char *job, const char *node, const json_t *files,
                        int root, gw_err *err) {
    size_t i;
    json_t *file;
    json_array_foreach(files, i, file) {
        if (!fetch_file(client, job, node, file, root, err)) return false;
    }
    return true;
}

/* The checkpoint, from the folder to which the member has brought it. */

static bool copy_chunks(gw_store *from, gw_store *to, const gw_manifest *manifest, gw_err *err) {
    uint8_t *bytes = malloc(GW_CHUNK_BYTES);
    GW_ASSERT_MEMORY(bytes != NULL);
    bool good = true;
    for (uint32_t i = 0; i < manifest->chunk_count && good; i++) {
        gw_store_item item = {
            .name = manifest->chunks[i], .bytes = bytes, .length = gw_chunk_length(manifest->state_bytes, i)};
        good = gw_store_read(from, &item.name, bytes, item.length, err) && gw_store_put(to, 0, &item, 1, err);
    }
    free(bytes);
    return good;
}

static bool copy_manifest(gw_store *from, gw_store *to, const gw_manifest *manifest, gw_err *err) {
    void *bytes;
    size_t length;
    if (!copy_chunks(from, to, manifest, err) ||
        !gw_catalog_bytes(gw_io_system(), gw_store_dir(from), &manifest->job_id, manifest->step,
                          &manifest->root, &bytes, &length, err))
        return false;
    bool good = gw_catalog_save(gw_store_io(to), gw_store_dir(to), bytes, length, err);
    free(bytes);
    return good;
}

/* Copies the newest checkpoint, and that of the best evaluation where it is there. */
static bool copy_checkpoint(const char *from_dir, const char *to_dir, uint64_t *step, gw_err *err) {
    char found[GW_PATH_BYTES];
    gw_directory directory = {.fd = -1};
    gw_store *from = NULL, *to = NULL;
    gw_catalog catalog = {.good_count = 0};
    const char *by;
    double value;
    bool good =
        gw_directory_find(from_dir, found, err) && gw_catalog_load(gw_io_system(), found, &catalog, err);
    if (!good || catalog.good_count == 0) {
        gw_catalog_free(&catalog);
        return good;
    }
    good = gw_store_open(found, GW_STORE_LOOK, NULL, &from, err) &&
           gw_directory_open(to_dir, &directory, err) &&
           gw_store_open(directory.path, GW_STORE_WRITE, &directory.io, &to, err);
    for (uint32_t i = 0; i < catalog.good_count && good; i++)
        if (i == 0 || gw_catalog_is_best(&catalog, &catalog.good[i], &by, &value))
            good = copy_manifest(from, to, &catalog.good[i], err);
    if (good) *step = catalog.good[0].step;
    gw_store_close(from);
    gw_store_close(to);
    if (directory.fd >= 0) gw_directory_close(&directory);
    gw_catalog_free(&catalog);
    return good;
}

static bool fetch_checkpoint(gw_flock_client *client, const char *job, const char *folder, uint64_t *step,
                             gw_err *err) {
    char to[GW_PATH_BYTES];
    json_t *answer = gw_member_door_ask(&client->door, json_pack("{s:s,s:s}", "do", "bring", "job", job),
                                        BRING_NS, NULL, NULL, err);
    bool good = answer != NULL && gw_durable_path(to, err, "%s/state", folder) &&
                copy_checkpoint(gw_flock_text(answer, "state"), to, step, err);
    json_decref(answer);
    return good || gw_fail_in(err, "the checkpoint");
}

/* The whole. */

static void print_results(const choice *c, gw_flock_client *client, const json_t *job, const char *folder,
                          const char *node, const json_t *files, uint64_t step) {
    uint64_t bytes = 0;
    size_t i;
    json_t *file;
    char *why = gw_flock_reason(client, job);
    json_array_foreach(files, i, file) bytes += (uint64_t)gw_flock_number(file, "bytes");
    if (c->place.json) {
        json_t *object = json_object();
        gw_json_text(object, "folder", folder);
        gw_json_text(object, "node", node);
        json_object_set(object, "files", (json_t *)(uintptr_t)files);
        if (step > 0) gw_json_count(object, "step", step);
        gw_json_text(object, "state", gw_flock_text(job, "state"));
        if (why[0] != '\0') gw_json_text(object, "why", why);
        gw_json_print(object);
        free(why);
        return;
    }
    printf("%s: %zu files with %llu bytes", folder, json_array_size(files), (unsigned long long)bytes);
    if (step > 0) printf(", and the checkpoint of step %llu", (unsigned long long)step);
    printf("\n");
    if (strcmp(gw_flock_text(job, "state"), "failed") == 0)
        printf("%s: failed%s%s\n", gw_flock_text(job, "name"), why[0] != '\0' ? ": " : "", why);
    free(why);
}

static void print_tasks(const choice *c, const char *folder, const gw_flock_tasks *tasks) {
    if (c->place.json) {
        json_t *object = json_object();
        gw_json_text(object, "folder", folder);
        gw_json_count(object, "tasks", tasks->count);
        gw_json_count(object, "ended", tasks->ended);
        gw_json_count(object, "failed", tasks->failed);
        gw_json_print(object);
        return;
    }
    printf("%s: what %u of %u tasks have left", folder, tasks->ended, tasks->count);
    if (tasks->failed > 0) printf(", of which %u have failed", tasks->failed);
    printf("\n");
}

/* Fetches what the tasks of a map have left, from whichever nodes have it. */
static bool fetch_tasks(const choice *c, gw_flock_client *client, const json_t *job, gw_err *err) {
    const char *folder = c->to != NULL ? c->to : gw_flock_text(job, "name");
    gw_flock_tasks tasks;
    int root = open_folder(folder, err);
    bool good = root >= 0 && gw_flock_tasks_fetch(client, &c->place, job, root, folder, &tasks, err);
    if (root >= 0) close(root);
    if (good) print_tasks(c, folder, &tasks);
    return good;
}

static bool fetch(const choice *c, gw_flock_client *client, const json_t *job, const json_t *node,
                  gw_err *err) {
    char id[GW_ID_TEXT];
    const char *folder = c->to != NULL ? c->to : gw_flock_text(job, "name"),
               *job_id = gw_flock_text(job, "id");
    uint64_t step = 0;
    json_t *found;
    if (node != NULL) {
        snprintf(id, sizeof id, "%s", gw_flock_text(node, "id"));
        found = list_on(client, job_id, id, err);
    } else {
        found = find_results(c, client, job, id, err);
    }
    if (found == NULL) return false;
    const json_t *files = json_object_get(found, "files");
    int root = open_folder(folder, err);
    bool good = root >= 0 && fetch_files(client, job_id, id, files, root, err);
    if (root >= 0) close(root);
    if (good && !c->no_checkpoint && strcmp(gw_flock_text(job, "kind"), "run") == 0)
        good = fetch_checkpoint(client, job_id, folder, &step, err);
    if (good) print_results(c, client, job, folder, id, files, step);
    if (good && json_is_true(json_object_get(found, "more")))
        good = gw_fail(err, GW_E_LIMIT,
                       "the job has left more than %d files: the others are in jobs/%s on the node",
                       GW_JOB_FILES_MOST, job_id);
    json_decref(found);
    return good;
}

int gw_results_main(int argc, char **argv) {
    choice c = {.job = NULL};
    static const struct argp_child common[] = {{&gw_flock_argp, 0, NULL, 0}, {0}};
    struct argp argp = {
        .options = options, .parser = parse, .args_doc = "JOB", .children = common, .doc = doc};
    gw_flock_client client;
    gw_err err;
    gw_argp_parse(&argp, argc, argv, &c);
    if (!gw_flock_connect(&c.place, &client, &err)) return gw_command_fail(argv[0], &err);
    const json_t *job = gw_flock_find_job(&client, c.job, &err);
    json_t *node = job != NULL && c.node != NULL ? gw_flock_find_node(&client, c.node, &err) : NULL;
    bool of_tasks = job != NULL && c.node == NULL && strcmp(gw_flock_text(job, "kind"), "map") == 0;
    bool good = job != NULL && (c.node == NULL || node != NULL) &&
                (of_tasks ? fetch_tasks(&c, &client, job, &err) : fetch(&c, &client, job, node, &err));
    json_decref(node);
    gw_flock_disconnect(&client);
    return good ? 0 : gw_command_fail(argv[0], &err);
}
