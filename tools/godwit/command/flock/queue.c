/* `godwit queue`, `info` and `nodes` show what the flock has and does. */
#include "core/base/assert.h"
#include "core/flock/spec.h"
#include "tools/godwit/command/commands.h"
#include "tools/godwit/command/flock/client.h"
#include "tools/godwit/text/json.h"
#include "tools/godwit/text/shell_word.h"
#include "tools/godwit/text/suggest.h"
#include "tools/godwit/text/timestamp.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { ALL = 512, WIDTH_LEAST = 60, WIDTH_USUAL = 80, NAME_WIDTH = 16, REASON_AT = 46, OVER = 3 };

typedef struct choice {
    gw_flock_place place;
    bool all, takes_job;
    const char *job;
} choice;

static error_t parse(int key, char *arg, struct argp_state *state) {
    choice *c = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &c->place;
        return 0;
    case ALL:
        c->all = true;
        return 0;
    case ARGP_KEY_ARG:
        if (!c->takes_job || c->job != NULL) gw_argp_error(state, "unexpected argument '%s'", arg);
        c->job = arg;
        return 0;
    case ARGP_KEY_END:
        if (c->takes_job && c->job == NULL) gw_argp_error(state, "give the JOB");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child common[] = {{&gw_flock_argp, 0, NULL, 0}, {0}};

/* The columns of the terminal; INT_MAX where there is none, as nothing is cut then. */
static int width(void) {
    struct winsize size;
    const char *columns = getenv("COLUMNS");
    int given = columns != NULL ? atoi(columns) : 0;
    if (isatty(STDOUT_FILENO) != 1) return INT_MAX;
    if (given == 0 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0) given = size.ws_col;
    return given == 0 ? WIDTH_USUAL : given < WIDTH_LEAST ? WIDTH_LEAST : given;
}

/* Prints a text in a field of at least so many characters; of a longer one than `most` the beginning, and a mark. */
static void print_cut(const char *text, int least, int most) {
    int length = (int)strlen(text);
    if (length <= most)
        printf("%-*s", least, text);
    else
        printf("%.*s...", most - (int)strlen("..."), text);
}

/* The order of the queue: what runs, what waits, what is over; each by place. */
static int rank(const json_t *job) {
    const char *state = gw_flock_text(job, "state");
    if (strcmp(state, "running") == 0 || strcmp(state, "starting") == 0) return 0;
    return strcmp(state, "waiting") == 0 ? 1 : strcmp(state, "held") == 0 ? 2 : OVER;
}

static int64_t place(const json_t *job) {
    return gw_flock_number(job, "counter") - 128 * gw_flock_number(job, "priority");
}

static int compare(const void *a, const void *b) {
    const json_t *x = *(json_t *const *)a, *y = *(json_t *const *)b;
    if (rank(x) != rank(y)) return rank(x) - rank(y);
    if (place(x) != place(y)) return place(x) < place(y) ? -1 : 1;
    return strcmp(gw_flock_text(x, "id"), gw_flock_text(y, "id"));
}

/* Where a job runs, and how far a map is; "" where it runs nowhere. The caller frees it. */
static char *where(const json_t *job) {
    char *text = NULL;
    size_t i, size, nodes = 0;
    json_t *node;
    FILE *out = open_memstream(&text, &size);
    GW_ASSERT_MEMORY(out != NULL);
    json_array_foreach(json_object_get(job, "nodes"), i, node) {
        if (strcmp(gw_flock_text(node, "state"), "struck") == 0) continue;
        if (nodes == 0 && gw_flock_number(job, "tasks") > 0)
            fprintf(out, "%lld/%lld tasks on ", (long long)gw_flock_number(job, "tasks_done"),
                    (long long)gw_flock_number(job, "tasks"));
        fprintf(out, "%s%s", nodes++ > 0 ? "," : "", gw_flock_text(node, "name"));
    }
    GW_ASSERT_MEMORY(fclose(out) == 0);
    return text;
}

static void print_job(gw_flock_client *client, const json_t *job, int columns) {
    char age[GW_FLOCK_AGE_TEXT];
    char *reason = gw_flock_reason(client, job), *nodes = where(job);
    const char *name = gw_flock_text(job, "name");
    printf("%.8s  ", gw_flock_text(job, "id"));
    print_cut(name[0] != '\0' ? name : "-", NAME_WIDTH, columns == INT_MAX ? INT_MAX : NAME_WIDTH);
    printf("  %-9s  %5s  ", gw_flock_text(job, "state"),
           gw_flock_age((uint64_t)gw_flock_number(job, "submitted_ms"), age));
    print_cut(nodes[0] != '\0' ? nodes : reason, 0, columns == INT_MAX ? INT_MAX : columns - REASON_AT);
    printf("\n");
    free(nodes);
    free(reason);
}

/* The jobs in the order of the queue: all of them, or those that are not over. *over counts those that are. The caller
 * releases the list. */
static json_t *select_jobs(const json_t *jobs, bool all, size_t *over) {
    size_t count = json_array_size(jobs);
    json_t **list = calloc(count + 1, sizeof(json_t *)), *selected = json_array();
    GW_ASSERT_MEMORY(list != NULL && selected != NULL);
    for (size_t i = 0; i < count; i++) list[i] = json_array_get(jobs, i);
    qsort(list, count, sizeof(json_t *), compare);
    *over = 0;
    for (size_t i = 0; i < count; i++) {
        bool is_over = rank(list[i]) == OVER;
        *over += is_over;
        if (all || !is_over) json_array_append(selected, list[i]);
    }
    free(list);
    return selected;
}

/* `over`: how many jobs are over. */
static void print_queue(gw_flock_client *client, const json_t *jobs, size_t over, bool all) {
    size_t i;
    json_t *job;
    if (json_array_size(jobs) > 0)
        printf("%-8s  %-*s  %-9s  %5s  %s\n", "JOB", NAME_WIDTH, "NAME", "STATE", "AGE",
               "NODES, OR WHY IT WAITS");
    json_array_foreach(jobs, i, job) print_job(client, job, width());
    if (json_array_size(jobs) == 0)
        printf("no job runs or waits%s\n", over > 0 ? "" : ": 'godwit submit' hands one to the flock");
    if (over > 0 && !all)
        printf("%zu job%s over: --all lists %s too\n", over, over == 1 ? " is" : "s are",
               over == 1 ? "it" : "them");
}

int gw_queue_main(int argc, char **argv) {
    choice c = {.all = false};
    static const struct argp_option options[] = {{"all", ALL, NULL, 0, "Also list jobs that are over", 0},
                                                 {0}};
    struct argp argp = {.options = options,
                        .parser = parse,
                        .children = common,
                        .doc = "Lists the jobs of the flock: where each runs, or why it waits."};
    gw_flock_client client;
    gw_err err;
    gw_argp_parse(&argp, argc, argv, &c);
    if (!gw_flock_connect(&c.place, &client, &err)) return gw_command_fail(argv[0], &err);
    json_t *answer = gw_flock_ask(&client, json_pack("{s:s}", "do", "jobs"), &err);
    if (answer == NULL) {
        gw_flock_disconnect(&client);
        return gw_command_fail(argv[0], &err);
    }
    client.jobs = json_incref(json_object_get(answer, "jobs"));
    size_t over;
    json_t *jobs = select_jobs(client.jobs, c.all, &over);
    if (c.place.json)
        gw_json_print(json_pack("{s:O,s:I}", "jobs", jobs, "over", (json_int_t)over));
    else
        print_queue(&client, jobs, over, c.all);
    json_decref(jobs);
    json_decref(answer);
    gw_flock_disconnect(&client);
    return 0;
}

/* info */

static void print_words(const char *label, const json_t *list) {
    size_t i;
    json_t *word;
    printf("%-12s", label);
    json_array_foreach(list, i, word) {
        if (i > 0) printf(" ");
        gw_shell_word(stdout, json_string_value(word));
    }
    printf("\n");
}

/* What a node is called whose id an answer has; one that is not known by the beginning of its id. */
static const char *name_of(const json_t *nodes, const json_t *one) {
    static char short_id[9];
    const char *id = gw_flock_text(one, "node");
    size_t i;
    json_t *node;
    json_array_foreach(nodes, i, node) if (strcmp(gw_flock_text(node, "id"), id) ==
                                           0) return gw_flock_text(node, "name");
    snprintf(short_id, sizeof short_id, "%.8s", id);
    return short_id;
}

/* How many nodes a job may have, and what it asks of each. */
static void print_needs(const json_t *job) {
    char needs[GW_FLOCK_NEEDS_TEXT];
    int least = (int)gw_flock_number(job, "least"), most = (int)gw_flock_number(job, "most");
    printf("%-12s%d", "nodes", least);
    if (most >= GW_JOB_SPEC_NODES)
        printf(" or more");
    else if (most != least)
        printf("..%d", most);
    printf("%s%s\n", least == most ? ", of " : ", each of ", gw_flock_needs(job, needs));
}

static void print_info(gw_flock_client *client, const json_t *job, const json_t *nodes) {
    char time[GW_TIMESTAMP_UTC_TEXT];
    size_t i;
    json_t *one;
    char *reason = gw_flock_reason(client, job);
    const char *kind = gw_flock_text(job, "kind");
    printf("%-12s%s\n%-12s%s\n%-12s%s%s%s\n", "job", gw_flock_text(job, "id"), "name",
           gw_flock_text(job, "name"), "state", gw_flock_text(job, "state"), reason[0] != '\0' ? ": " : "",
           reason);
    free(reason);
    print_words(strcmp(kind, "run") == 0   ? "godwit run"
                : strcmp(kind, "map") == 0 ? "godwit map"
                                           : "command",
                json_object_get(job, "command"));
    if (gw_flock_number(job, "tasks") > 0)
        printf("%-12s%lld of %lld have ended, %lld of them failed\n", "tasks",
               (long long)gw_flock_number(job, "tasks_done"), (long long)gw_flock_number(job, "tasks"),
               (long long)gw_flock_number(job, "tasks_failed"));
    printf("%-12s%s\n", "directory", gw_flock_text(job, "directory"));
    printf("%-12s%s\n", "submitted", gw_timestamp_utc((uint64_t)gw_flock_number(job, "submitted_ms"), time));
    print_needs(job);
    if (gw_flock_text(job, "build")[0] != '\0') printf("%-12s%s\n", "build", gw_flock_text(job, "build"));
    printf("%-12s%d\n", "priority", (int)gw_flock_number(job, "priority"));
    json_array_foreach(json_object_get(job, "nodes"), i, one) {
        printf("%-12s%s: %s\n", i == 0 ? "on" : "", gw_flock_text(one, "name"), gw_flock_text(one, "state"));
    }
    if (gw_flock_number(job, "saved") > 0)
        printf("%-12sstep %lld, on more than one node\n", "saved", (long long)gw_flock_number(job, "saved"));
    if (gw_flock_text(job, "tries_again")[0] != '\0')
        printf("%-12s%.8s%s\n", "tries again", gw_flock_text(job, "tries_again"),
               strcmp(kind, "run") == 0   ? ", from its checkpoints if it has any"
               : strcmp(kind, "map") == 0 ? ": the tasks that have not succeeded"
                                          : ", from its beginning");
    json_array_foreach(json_object_get(job, "rounds"), i, one) {
        printf("%-12sround %d, %sexit code %d, on %s\n", i == 0 ? "failed" : "",
               (int)gw_flock_number(one, "round"),
               json_is_true(json_object_get(one, "out_of_memory")) ? "out of memory, " : "",
               (int)gw_flock_number(one, "code"), name_of(nodes, one));
    }
    if (json_array_size(json_object_get(job, "rounds")) > 0)
        printf("%-12s'godwit why %.8s' and 'godwit logs --stderr %.8s' tell why\n", "",
               gw_flock_text(job, "id"), gw_flock_text(job, "id"));
    json_array_foreach(json_object_get(job, "ends"), i, one) {
        printf("%-12s%s, on %s\n", gw_flock_text(one, "kind"),
               gw_timestamp_utc((uint64_t)gw_flock_number(one, "when_ms"), time), name_of(nodes, one));
        if (gw_flock_text(one, "hash")[0] != '\0') printf("%-12s%s\n", "hash", gw_flock_text(one, "hash"));
    }
    if (json_is_true(json_object_get(job, "ends_differ")))
        printf("Two nodes have ended this job with different results: one of them computes wrong, or the job "
               "is not exact.\n");
}

int gw_info_main(int argc, char **argv) {
    choice c = {.takes_job = true};
    struct argp argp = {
        .parser = parse, .args_doc = "JOB", .children = common, .doc = "Shows all that is known of a job."};
    gw_flock_client client;
    gw_err err;
    gw_argp_parse(&argp, argc, argv, &c);
    if (!gw_flock_connect(&c.place, &client, &err)) return gw_command_fail(argv[0], &err);
    const json_t *job = gw_flock_find_job(&client, c.job, &err);
    bool good = job != NULL;
    if (good && c.place.json) {
        gw_json_print(json_deep_copy(job));
    } else if (good) {
        json_t *nodes = gw_flock_ask(&client, json_pack("{s:s}", "do", "nodes"), &err);
        good = nodes != NULL;
        if (good) print_info(&client, job, json_object_get(nodes, "nodes"));
        json_decref(nodes);
    }
    gw_flock_disconnect(&client);
    return good ? 0 : gw_command_fail(argv[0], &err);
}

/* nodes */

/* Who holds jobs to the memory that they asked for. */
static const char *limits_of(const json_t *node) {
    const json_t *list = json_object_get(node, "limits"), *one;
    size_t i;
    json_array_foreach(list, i, one) if (strcmp(json_string_value(one), "memory") == 0) return "kernel";
    return list != NULL ? "watched" : "";
}

/* The nodes of an answer: all of them, or without those that are gone and of whose names others are there. *left counts
 * these. The caller releases the list. */
static json_t *select_nodes(const json_t *nodes, bool all, size_t *left) {
    json_t *selected = json_array(), *node;
    size_t i;
    GW_ASSERT_MEMORY(selected != NULL);
    *left = 0;
    json_array_foreach(nodes, i, node) {
        bool shown = all || json_object_get(node, "namesake") == NULL;
        *left += !shown;
        if (shown) json_array_append(selected, node);
    }
    return selected;
}

/* Lines of at most 80 characters, where names of nodes have five and addresses fourteen. */
static void print_nodes(const json_t *nodes) {
    size_t i;
    json_t *node;
    int longest = 4, most = width() == INT_MAX ? INT_MAX : NAME_WIDTH;
    json_array_foreach(nodes, i, node) {
        int length = (int)strlen(gw_flock_text(node, "name"));
        if (length > longest) longest = length < most ? length : most;
    }
    printf("%-*s  %-8s  %-9s  %5s  %6s  %4s  %4s  %-7s  %s\n", longest, "NODE", "ID", "STATE", "CORES", "MIB",
           "GPUS", "JOBS", "LIMITS", "ADDRESS");
    json_array_foreach(nodes, i, node) {
        print_cut(gw_flock_text(node, "name"), longest, longest);
        printf("  %.8s  %-9s  %5d  %6d  %4d  %4d  %-7s  %s%s\n", gw_flock_text(node, "id"),
               gw_flock_text(node, "state"), (int)gw_flock_number(node, "cores"),
               (int)gw_flock_number(node, "memory_mib"), (int)gw_flock_number(node, "gpus"),
               (int)gw_flock_number(node, "jobs"), limits_of(node), gw_flock_text(node, "address"),
               json_is_true(json_object_get(node, "self")) ? " *" : "");
    }
}

static void print_left(size_t left) {
    if (left == 0) return;
    printf("%zu node%s gone whose name%s others have now: --all lists %s too\n", left,
           left == 1 ? " is" : "s are", left == 1 ? "" : "s", left == 1 ? "it" : "them");
}

int gw_nodes_main(int argc, char **argv) {
    choice c = {.all = false};
    static const struct argp_option options[] = {
        {"all", ALL, NULL, 0, "Also list nodes that are gone and whose names others have now", 0}, {0}};
    struct argp argp = {.options = options,
                        .parser = parse,
                        .children = common,
                        .doc = "Lists the nodes of the flock; * is the one that was asked."};
    gw_flock_client client;
    gw_err err;
    gw_argp_parse(&argp, argc, argv, &c);
    if (!gw_flock_connect(&c.place, &client, &err)) return gw_command_fail(argv[0], &err);
    json_t *answer = gw_flock_ask(&client, json_pack("{s:s}", "do", "nodes"), &err);
    gw_flock_disconnect(&client);
    if (answer == NULL) return gw_command_fail(argv[0], &err);
    size_t left;
    json_t *nodes = select_nodes(json_object_get(answer, "nodes"), c.all, &left);
    if (c.place.json) {
        gw_json_print(json_pack("{s:O}", "nodes", nodes));
    } else {
        print_nodes(nodes);
        print_left(left);
    }
    json_decref(nodes);
    json_decref(answer);
    return 0;
}
