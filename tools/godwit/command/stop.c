/* `godwit stop` and `godwit force-view` pass an operator's request to the flock through the local peer. */
#include "tools/godwit/command/commands.h"
#include "tools/godwit/options/options.h"
#include "tools/godwit/show/control.h"
#include "tools/godwit/text/suggest.h"

#include <argp.h>
#include <errno.h>
#include <jansson.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    WAIT_S = 600, /* the most time that `godwit stop` waits for the end of the peer */
    NO_WAIT = 256,
};

/* What a command of this file is given. */
typedef struct choice {
    const char *dir;
    bool no_wait;
} choice;

#define DIR_OPTION                                                                                           \
    { "dir", 'd', "DIR", 0, "The directory of a running peer (" GW_DEFAULT_DIR ")", 0 }

static const struct argp_option dir_option[] = {DIR_OPTION, {0}};

static const struct argp_option stop_options[] = {
    DIR_OPTION,
    {"no-wait", NO_WAIT, NULL, 0, "Return as soon as the peer has accepted the request", 0},
    {0},
};

static const char stop_doc[] =
    "Stops the whole job: every peer ends at the same step, after a checkpoint of that step.\v"
    "Returns when the peer in DIR has ended, so that DIR is free; other peers may end a little later. It "
    "fails where that peer could not save the last checkpoint. After "
    "10 minutes it waits no longer. Ctrl-C ends the waiting, and the job stops all the same. If the peer "
    "does not accept the request, nothing is done later either. To take one peer out of a running job, send "
    "it SIGTERM instead: the others go on.";

static const char force_view_doc[] =
    "Lets the peers that can reach each other go on although they are not a majority (--quorum majority).\v"
    "Use it when most peers of a flock are lost for good. Make sure that the lost peers are down: they must "
    "never go on with this job by themselves. Returns as soon as the peer in DIR has accepted the request. "
    "If that fails, nothing is done later either.";

static error_t parse_choice(int key, char *arg, struct argp_state *state) {
    choice *chosen = state->input;
    switch (key) {
    case 'd':
        chosen->dir = arg;
        return 0;
    case NO_WAIT:
        chosen->no_wait = true;
        return 0;
    case ARGP_KEY_ARG:
        gw_argp_error(state, "unexpected argument '%s': the directory is given by --dir %s", arg, arg);
        return EINVAL;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* Sends the request to the peer in `dir`, and prints what has come of it. */
static bool ask(const char *command, const char *dir, const char *request, const char *answer_text) {
    gw_err err;
    char *answer = gw_control_ask(dir, request, &err);
    if (answer == NULL) {
        gw_command_complain(command, err.text);
        return false;
    }
    json_t *object = json_loads(answer, 0, NULL);
    bool accepted = json_is_true(json_object_get(object, "ok"));
    if (accepted)
        puts(answer_text);
    else
        fprintf(stderr, "%s: the peer has refused the request: %s\n", command, answer);
    json_decref(object);
    free(answer);
    return accepted;
}

/* Waits for the end of the peer, whose process this is (gw_control_process). */
static bool wait_for_end(const char *command, const char *dir, int process) {
    if (process < 0) {
        fprintf(stderr,
                "%s: the process of the peer in %s cannot be seen from here (is it in a container?), so this "
                "does not wait for its end\n",
                command, dir);
        return true;
    }
    struct pollfd ended = {.fd = process, .events = POLLIN};
    int count;
    fflush(stdout);
    do count = poll(&ended, 1, WAIT_S * 1000);
    while (count < 0 && errno == EINTR);
    if (count > 0) return true;
    fprintf(
        stderr,
        "%s: the peer in %s has accepted the request, and has not ended for %d s: 'godwit status --dir %s' "
        "shows what it waits for\n",
        command, dir, WAIT_S, dir);
    return false;
}

/* Whether the peer has ended well, as far as it has said how: people switch the machine off then. */
static bool has_ended_well(const char *command, const char *dir, int end) {
    char outcome[32], *text;
    if (end < 0 || !gw_control_read_end(end, outcome, sizeof outcome, &text)) return true;
    bool good =
        strcmp(outcome, "stopped") == 0 || strcmp(outcome, "done") == 0 || strcmp(outcome, "left") == 0;
    if (!good)
        fprintf(stderr, "%s: the peer in %s has not ended well (%s)%s%s\n", command, dir, outcome,
                text != NULL ? ": " : "", text != NULL ? text : "");
    free(text);
    return good;
}

/* What comes of a request to stop: a peer that has not begun has no state to save. */
static const char *stop_text(const char *dir) {
    gw_err ignored;
    char *answer = gw_control_ask(dir, "status", &ignored);
    json_t *status = answer != NULL ? json_loads(answer, 0, NULL) : NULL;
    bool idle = json_is_null(json_object_get(status, "step")) &&
                json_integer_value(json_object_get(status, "members")) == 0;
    json_decref(status);
    free(answer);
    return idle ? "the peer ends: it has neither a state to save nor other peers to stop"
                : "the job stops: the peers save a last checkpoint, then every peer ends";
}

int gw_stop_main(int argc, char **argv) {
    choice chosen = {.dir = GW_DEFAULT_DIR};
    struct argp argp = {.options = stop_options, .parser = parse_choice, .doc = stop_doc};
    gw_argp_parse(&argp, argc, argv, &chosen);
    /* After the request has been accepted, the peer may have ended before these two can be had. */
    int process = chosen.no_wait ? -1 : gw_control_process(chosen.dir);
    int end = chosen.no_wait ? -1 : gw_control_await_end(chosen.dir);
    const char *text = stop_text(chosen.dir);
    bool good = ask(argv[0], chosen.dir, "stop", text);
    if (good && !chosen.no_wait)
        good = wait_for_end(argv[0], chosen.dir, process) && has_ended_well(argv[0], chosen.dir, end);
    if (process >= 0) close(process);
    if (end >= 0) close(end);
    return good ? 0 : 1;
}

int gw_force_view_main(int argc, char **argv) {
    choice chosen = {.dir = GW_DEFAULT_DIR};
    struct argp argp = {.options = dir_option, .parser = parse_choice, .doc = force_view_doc};
    gw_argp_parse(&argp, argc, argv, &chosen);
    return ask(argv[0], chosen.dir, "force-view", "the peers that can be reached form a view") ? 0 : 1;
}
