#include "tools/godwit/service/place.h"

#include "tools/godwit/options/options.h"
#include "tools/godwit/text/suggest.h"

#include <errno.h>
#include <stddef.h>

enum { KEY_FROM = 256, KEY_KEY, KEY_CLUSTER };

static const struct argp_option place_options[] = {
    {"from", KEY_FROM, "HOST:PORT", 0,
     "Ask the peer that listens there (its --listen) for what is not in the directories, or for all of it "
     "where "
     "none is given",
     0},
    {"key", KEY_KEY, "FILE", 0, "With --from: the key of the peer's flock", 0},
    {"cluster", KEY_CLUSTER, "NAME", 0, "With --from: the name of its cluster (" GW_DEFAULT_CLUSTER ")", 0},
    {0},
};

static error_t parse_place(int key, char *arg, struct argp_state *state) {
    gw_client_place *place = state->input;
    switch (key) {
    case KEY_FROM:
        place->from = arg;
        return 0;
    case KEY_KEY:
        place->key_file = arg;
        return 0;
    case KEY_CLUSTER:
        place->cluster = arg;
        return 0;
    case ARGP_KEY_SUCCESS:
        if (place->from == NULL && (place->key_file != NULL || place->cluster != NULL))
            gw_argp_error(state, "%s needs --from: the peer that runs in a directory asks for no key",
                          place->key_file != NULL ? "--key" : "--cluster");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

const struct argp gw_client_place_argp = {.options = place_options, .parser = parse_place};
