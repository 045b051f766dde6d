/* The command line of `godwit map`. */
#ifndef GODWIT_TOOLS_GODWIT_MAP_OPTIONS_H
#define GODWIT_TOOLS_GODWIT_MAP_OPTIONS_H

#include "tools/godwit/map/map.h"

enum { GW_MAP_SHARED_WORDS = 256 };

/* What the options point to, beside argv; zeros at first. */
typedef struct gw_map_line {
    gw_map_options options;
    gw_map_inputs_source sources[GW_MAP_SOURCES_MOST];
    uint32_t source_count;
    const char
        *child; /* the folder of a job of a flock, of which this process is a child; NULL: it is none */
    bool slots_given;
    bool here, detach;
    const char *flock, *name; /* the directory of the member, the name of the job; NULL: as they are chosen */
    uint32_t nodes;           /* that the job may have; 0: all */
    int priority;
    const char *files[GW_MAP_SHARED_WORDS], *variables[GW_MAP_SHARED_WORDS]; /* of --files, and of --env */
    uint32_t file_count, variable_count;
    bool transfer; /* inputs that are files travel */
    char *fetch[GW_MAP_FETCHES];
    char *shared[GW_MAP_SHARED_WORDS]; /* the options that say how a task is run, as words: owned */
    uint32_t shared_count;
    char **environment; /* owned */
    uint32_t environment_count, environment_room;
} gw_map_line;

/* Parses the arguments; argv[0] is the name of the command in messages. Options end at the first word of the command, or
 * at the first input source. It ends the process after a complaint, with GW_MAP_TROUBLE, and for --help. */
void gw_map_line_parse(int argc, char **argv, gw_map_line *line);
void gw_map_line_free(gw_map_line *line);

/* "10", "1.5s", "500ms", "2m", "1h", "1d": a time. False: it is none. */
bool gw_map_parse_time(const char *text, uint64_t *time_ns);
/* "never", "now,fail=1", "soon,success=3", "soon,fail=10%", and 0, 1 and 2 as GNU parallel has them. */
bool gw_map_parse_halt(const char *text, gw_map_halt *halt);
/* "8", "+2", "-1", "150%", "0": slots on a machine of `cores`. */
bool gw_map_parse_slots(const char *text, uint32_t cores, uint32_t *slots);

#endif
