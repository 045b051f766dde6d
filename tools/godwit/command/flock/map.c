/* `godwit map` runs a command for each input, several at a time: on this machine, or on a flock, to which the tasks are
 * handed as one job, and what they write is fetched from the nodes. */
#include "core/base/assert.h"
#include "core/base/log.h"
#include "core/flock/claims.h"
#include "core/flock/spec.h"
#include "core/os/clock.h"
#include "tools/godwit/command/commands.h"
#include "tools/godwit/command/flock/client.h"
#include "tools/godwit/command/flock/fetch.h"
#include "tools/godwit/command/flock/hand_over.h"
#include "tools/godwit/command/flock/pack.h"
#include "tools/godwit/command/flock/token.h"
#include "tools/godwit/map/child/child.h"
#include "tools/godwit/map/options.h"
#include "tools/godwit/map/task_list.h"
#include "tools/godwit/text/json.h"

#include <limits.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOOK_NS UINT64_C(200000000) /* between two questions whether tasks run */

typedef struct front {
    const gw_map_line *line;
    gw_flock_place place;
    gw_flock_client client;
    char job[GW_JOB_RECORD_ID_TEXT];
    gw_flock_fetch *fetch;
    bool eased, cancelled; /* the job is held, and cancelled when nothing of it runs; it is cancelled */
    const char *wish;      /* the change of the job that the member has not taken; NULL: there is none */
    uint64_t looked_ns;
    bool ran; /* the last time that it was asked */
    json_t *nodes;
    char name[GW_CLAIMS_NAME_TEXT];
} front;

/* Whether a member of a flock runs in its usual directory on this machine. */
static bool is_node_of_flock(void) {
    gw_flock_place place = {.dir = NULL};
    gw_flock_client client;
    gw_err ignored;
    if (!gw_flock_connect(&place, &client, &ignored)) return false;
    gw_flock_disconnect(&client);
    return true;
}

/* The name of a map that was given none: that of its program, and its number. */
static void name_job(const gw_map_line *line, int64_t counter, char *name, size_t size) {
    char word[41] = "map";
    const gw_map_options *o = &line->options;
    if (line->name != NULL) {
        snprintf(name, size, "%s", line->name);
        return;
    }
    if (o->word_count > 0) {
        const char *first = o->words[0];
        size_t length = strcspn(first, " \t;|&<>");
        while (length > 0 && memchr(first, '/', length) != NULL) { /* its last component */
            first++;
            length--;
        }
        snprintf(word, sizeof word, "%.*s", (int)length, first);
    }
    for (char *at = word; *at != '\0'; at++)
        if (!((*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') || (*at >= '0' && *at <= '9')))
            *at = '_';
    snprintf(name, size, "%s-%lld", word[0] != '\0' ? word : "map", (long long)counter);
}

/* The options that say how a task is run, and the command. */
static json_t *command_of(const gw_map_line *line) {
    json_t *list = json_array();
    char folder[PATH_MAX], *text;
    for (uint32_t i = 0; i < line->shared_count; i++)
        json_array_append_new(list, json_string(line->shared[i]));
    if (line->options.directory != NULL && realpath(line->options.directory, folder) != NULL) {
        GW_ASSERT_MEMORY(asprintf(&text, "--workdir=%s", folder) >= 0);
        json_array_append_new(list, json_string(text));
        free(text);
    }
    json_array_append_new(list, json_string("--"));
    for (uint32_t i = 0; i < line->options.word_count; i++)
        json_array_append_new(list, json_string(line->options.words[i]));
    return list;
}

static bool check_words(const gw_map_line *line, gw_err *err) {
    for (uint32_t i = 0; i < line->options.word_count; i++) {
        json_t *text = json_string(line->options.words[i]);
        json_decref(text);
        if (text == NULL)
            return gw_fail(err, GW_E_USAGE,
                           "word %u of the command is not UTF-8: --here runs it on this machine", i + 1);
    }
    return true;
}

/* Adds the inputs that are files or folders of this directory. */
static bool add_inputs(gw_pack *pack, const void *bytes, size_t length, gw_err *err) {
    gw_task_list list;
    if (!gw_task_list_read(bytes, length, &list, err)) return false;
    bool good = true;
    for (uint32_t i = 0; good && i < list.count; i++) {
        gw_map_values *values = gw_task_list_values(&list, i);
        GW_ASSERT_MEMORY(values != NULL);
        for (uint32_t k = 0; good && k < values->count; k++)
            if (values->text[k][0] != '\0' && access(values->text[k], R_OK) == 0)
                good = gw_pack_add(pack, values->text[k], "--transfer", err);
        free(values);
    }
    gw_task_list_free(&list);
    return good;
}

/* Packs what travels: the tasks, the script that the command runs, and what --files names. */
static bool send_files(front *f, const void *list, size_t length, gw_hash *files, gw_err *err) {
    const gw_map_line *line = f->line;
    gw_pack *pack = gw_pack_open(err);
    bool good = pack != NULL && gw_pack_add_bytes(pack, GW_TASK_LIST_NAME, list, length, err);
    if (good && line->transfer) good = add_inputs(pack, list, length, err);
    for (uint32_t i = 0; good && i < line->file_count; i++)
        good = gw_pack_add(pack, line->files[i], "--files", err);
    if (good && line->options.word_count > 0)
        gw_pack_add_script(pack, "godwit map", line->options.words, (int)line->options.word_count, true);
    good = good && gw_pack_seal(pack, files, err) && gw_flock_give_files(&f->client, pack, err);
    gw_pack_close(pack);
    return good;
}

static json_t *describe(const front *f, const json_t *hello, const gw_hash *files) {
    const gw_map_line *line = f->line;
    const gw_map_options *o = &line->options;
    char name[GW_JOB_SPEC_NAME_BYTES + 1], directory[PATH_MAX], token[GW_TOKEN_TEXT];
    int64_t counter = gw_flock_number(hello, "counter"), cores = gw_flock_number(hello, "least_cores");
    gw_err why;
    name_job(line, counter, name, sizeof name);
    json_t *spec = gw_flock_describe("map", name, counter);
    json_object_set_new(spec, "command", command_of(line));
    json_object_set_new(spec, "environment", gw_flock_environment(line->variables, line->variable_count));
    gw_json_text(spec, "directory", getcwd(directory, sizeof directory));
    if (gw_token_take(token, &why))
        gw_json_text(spec, "token", token);
    else
        gw_log(GW_WARN, "map", "the tasks run in empty directories, with the files that travel: %s",
               why.text);
    gw_json_text(spec, "build", gw_flock_text(hello, "build"));
    if (!line->slots_given)
        cores = 1; /* what it needs to go on; it uses all that are idle */
    else if (o->slots > 0 && o->slots < cores)
        cores = o->slots;
    gw_json_count(spec, "cores", cores > 0 ? (uint64_t)cores : 1);
    gw_json_count(spec, "memory_mib", 0);
    gw_json_count(spec, "gpus", 0);
    gw_json_count(spec, "least", 1);
    gw_json_count(spec, "most", line->nodes > 0 ? line->nodes : GW_JOB_SPEC_NODES);
    gw_json_count(spec, "shares", 1);
    gw_json_count(spec, "retries", 0);
    json_object_set_new(spec, "priority", json_integer(line->priority));
    gw_json_hash(spec, "files", files);
    return spec;
}

/* The runner. */

static bool submit(void *context, const void *list, size_t length, uint32_t tasks, gw_err *err) {
    front *f = context;
    gw_hash files;
    json_t *hello = gw_flock_ask(&f->client, json_pack("{s:s}", "do", "hello"), err), *answer = NULL;
    if (hello != NULL && check_words(f->line, err) && send_files(f, list, length, &files, err)) {
        json_t *spec = describe(f, hello, &files);
        char name[GW_JOB_SPEC_NAME_BYTES + 1];
        snprintf(name, sizeof name, "%s", gw_flock_text(spec, "name"));
        answer = gw_flock_submit(&f->client, spec, err);
        if (answer != NULL) snprintf(f->job, sizeof f->job, "%s", gw_flock_text(answer, "id"));
        if (answer != NULL && f->line->detach) printf("%s %.8s\n", name, f->job);
    }
    json_decref(hello);
    json_decref(answer);
    if (answer == NULL) return false;
    if (!f->line->detach) f->fetch = gw_flock_fetch_open(&f->client, &f->place, f->job, tasks);
    return true;
}

/* Whether tasks of the job still run on some node, as far as that is known. */
static bool still_runs(front *f) {
    gw_err ignored;
    json_t *answer, *job, *node;
    size_t i, k;
    if (gw_now_ns() < f->looked_ns + LOOK_NS) return f->ran;
    f->looked_ns = gw_now_ns();
    answer = gw_flock_ask(&f->client, json_pack("{s:s,s:[s]}", "do", "jobs", "jobs", f->job), &ignored);
    f->ran = answer == NULL;
    json_array_foreach(json_object_get(answer, "jobs"), i, job) {
        if (strcmp(gw_flock_text(job, "id"), f->job) != 0) continue;
        json_array_foreach(json_object_get(job, "nodes"), k, node) {
            const char *state = gw_flock_text(node, "state");
            f->ran |= strcmp(state, "running") == 0 || strcmp(state, "leaving") == 0;
        }
    }
    json_decref(answer);
    return f->ran;
}

/* Writes the name of a node that is in the list of nodes. */
static bool find_name(front *f, const char *id) {
    size_t i;
    const json_t *node;
    json_array_foreach(json_object_get(f->nodes, "nodes"), i, node) {
        if (strcmp(gw_flock_text(node, "id"), id) != 0) continue;
        snprintf(f->name, sizeof f->name, "%s", gw_flock_text(node, "name"));
        return true;
    }
    return false;
}

static const char *name_node(void *context, const gw_peer_id *node) {
    front *f = context;
    gw_err ignored;
    char id[2 * sizeof node->bytes + 1];
    gw_hex(node->bytes, sizeof node->bytes, id);
    if (find_name(f, id)) return f->name;
    json_t *answer = gw_flock_ask(&f->client, json_pack("{s:s}", "do", "nodes"), &ignored);
    if (answer != NULL) {
        json_decref(f->nodes);
        f->nodes = answer;
    }
    if (!find_name(f, id)) gw_peer_id_short(node, f->name);
    return f->name;
}

/* Changes the job; a member that does not answer, or does not know the job yet, is asked again at each look. */
static void change(front *f, const char *what) {
    gw_err ignored;
    json_t *answer = gw_flock_ask(
        &f->client, json_pack("{s:s,s:s,s:b}", "do", "change", "job", f->job, what, 1), &ignored);
    f->looked_ns = 0;
    f->wish = answer != NULL ? NULL : what;
    json_decref(answer);
}

static void ease(void *context) {
    front *f = context;
    f->eased = true;
    change(f, "hold");
}

static void cancel(void *context) {
    front *f = context;
    f->cancelled = true;
    change(f, "cancel");
}

static bool fetch(void *context, gw_map_store *store, gw_map_take *take, void *map, bool *over, gw_err *err) {
    front *f = context;
    if (f->fetch == NULL) {
        *over = true; /* it was handed over only */
        return true;
    }
    if (f->wish != NULL) change(f, f->wish);
    bool runs = (f->eased || f->cancelled) && still_runs(f);
    if (f->eased && !f->cancelled && !runs) cancel(f);
    if (!gw_flock_fetch_more(f->fetch, store, take, map, over, err)) return false;
    *over = *over && !runs; /* what was ended tells of that when it has */
    return true;
}

/* Runs a map on the flock, or, with line->detach, hands it over only. Returns the exit code. */
static int run_on_flock(const gw_map_line *line, gw_err *err) {
    front f = {.line = line, .place = {.dir = line->flock}};
    gw_map_runner runner = {&f, submit, fetch, name_node, ease, cancel};
    gw_map_options options = line->options;
    options.runner = &runner;
    options.only_hand_over = line->detach;
    if (!gw_flock_connect(&f.place, &f.client, err)) return GW_MAP_TROUBLE;
    int code = gw_map_main_loop(&options, err);
    if (f.wish != NULL)
        gw_log(GW_WARN, "map",
               "the member has not taken that the job is to end, which may go on: 'godwit cancel %.8s'",
               f.job);
    gw_flock_fetch_close(f.fetch);
    json_decref(f.nodes);
    gw_flock_disconnect(&f.client);
    return code;
}

/* The command. */

/* Prints what a map has to tell. */
static void print_line(void *context, gw_level level, const char *room, const char *text) {
    (void)room;
    if (level >= GW_WARN) gw_command_complain(context, text);
}

/* Whether the tasks go to a flock: where this machine is a node of one, unless it is to be otherwise. */
static bool runs_on_flock(const gw_map_line *line) {
    const gw_map_options *o = &line->options;
    bool asked = line->flock != NULL || line->detach;
    if (line->here || o->dry_run || o->print != GW_MAP_PRINT_TASKS) return false;
    return asked || is_node_of_flock();
}

int gw_map_main(int argc, char **argv) {
    gw_map_line line;
    gw_err err;
    gw_map_line_parse(argc, argv, &line);
    gw_log_set_sink(print_line, argv[0]);
    int code = GW_MAP_TROUBLE;
    if (sodium_init() < 0)
        gw_fail(&err, GW_E_UNSUPPORTED, "the library of hashes cannot be used");
    else if (line.child != NULL)
        code = gw_map_child_main(&line.options, line.slots_given ? line.options.slots : 0, line.child, &err);
    else if (runs_on_flock(&line))
        code = run_on_flock(&line, &err);
    else
        code = gw_map_main_loop(&line.options, &err);
    if (code == GW_MAP_TROUBLE) gw_command_complain(argv[0], err.text);
    gw_map_line_free(&line);
    return code;
}
