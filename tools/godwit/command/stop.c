/* `godwit stop` and `godwit force-view` pass an operator's request to the flock through the local peer. */
#include "tools/godwit/command/commands.h"
#include "tools/godwit/options/options.h"
#include "tools/godwit/show/control.h"
#include "tools/godwit/text/suggest.h"

#include <argp.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

static const struct argp_option dir_option[] = {
    {"dir", 'd', "DIR", 0, "The directory of a running peer (" GW_DEFAULT_DIR ")", 0},
    {0},
};

static const char stop_doc[] =
    "Stops the whole job: every peer ends at the same step, after a checkpoint of that step.\v"
    "Returns as soon as the peer in DIR has accepted the request. If that fails, nothing is done later "
    "either. To take one peer out of a running job, send it SIGTERM instead: the others go on.";

static const char force_view_doc[] =
    "Lets the peers that can reach each other go on although they are not a majority (--quorum majority).\v"
    "Use it when most peers of a flock are lost for good. Make sure that the lost peers are down: they must "
    "never go on with this job by themselves. Returns as soon as the peer in DIR has accepted the request. "
    "If that fails, nothing is done later either.";

static error_t parse_dir(int key, char *arg, struct argp_state *state) {
    const char **dir = state->input;
    switch (key) {
    case 'd':
        *dir = arg;
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "unexpected argument '%s'", arg);
        return EINVAL;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static int ask(int argc, char **argv, const char *doc, const char *request, const char *answer_text) {
    const char *dir = GW_DEFAULT_DIR;
    struct argp argp = {.options = dir_option, .parser = parse_dir, .doc = doc};
    gw_argp_parse(&argp, argc, argv, &dir);
    gw_err err;
    char *answer = gw_control_ask(dir, request, &err);
    if (answer == NULL) {
        fprintf(stderr, "%s: %s\n", argv[0], err.text);
        return 1;
    }
    json_t *object = json_loads(answer, 0, NULL);
    bool accepted = json_is_true(json_object_get(object, "ok"));
    if (accepted)
        puts(answer_text);
    else
        fprintf(stderr, "%s: the peer has refused the request: %s\n", argv[0], answer);
    json_decref(object);
    free(answer);
    return accepted ? 0 : 1;
}

int gw_stop_main(int argc, char **argv) {
    return ask(argc, argv, stop_doc, "stop",
               "the job stops: the peers save a last checkpoint, then every peer ends");
}

int gw_force_view_main(int argc, char **argv) {
    return ask(argc, argv, force_view_doc, "force-view", "the peers that can be reached form a view");
}
