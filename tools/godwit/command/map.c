/* `godwit map` runs a command for each input, several at a time, on this machine or on a flock. */
#include "tools/godwit/command/flock/map.h"
#include "core/base/log.h"
#include "tools/godwit/command/commands.h"
#include "tools/godwit/map/child/child.h"
#include "tools/godwit/map/options.h"

#include <sodium.h>
#include <stdio.h>

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
    return asked || gw_flock_is_here(NULL);
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
        code = gw_flock_map(&line, &err);
    else
        code = gw_map_main_loop(&line.options, &err);
    if (code == GW_MAP_TROUBLE) gw_command_complain(argv[0], err.text);
    gw_map_line_free(&line);
    return code;
}
