/* The inputs of a map, task by task: the sources of the command line, combined as GNU parallel combines them. Several
 * sources give each combination, of which the last source changes first; a source that is linked (:::+) goes on with the
 * one before it, until the shorter one ends; with --link all go on together, and shorter ones begin again.
 *
 * The first source (with those that are linked to it) is read as its inputs are asked for, and never kept; the others are
 * kept. One thread at a time. */
#ifndef GODWIT_TOOLS_GODWIT_MAP_INPUTS_H
#define GODWIT_TOOLS_GODWIT_MAP_INPUTS_H

#include "tools/godwit/map/source.h"
#include "tools/godwit/map/values.h"

enum { GW_MAP_SOURCES_MOST = 64 };

typedef struct gw_map_inputs_source {
    char *const *words; /* NULL: the file `path` */
    uint32_t count;
    const char *path;
    bool linked; /* to the source before it */
} gw_map_inputs_source;

typedef struct gw_map_inputs_options {
    const gw_map_inputs_source *sources;
    uint32_t source_count;
    char separator;     /* between two inputs of a file */
    const char *column; /* a regular expression (PCRE) at which an input is cut into several; NULL: none */
    uint32_t most;      /* inputs of each source for one task (-N); 0: one, of which nothing is kept */
    bool link;
    bool whole; /* all inputs are read before the first task, so that the number of tasks is known */
} gw_map_inputs_options;

typedef struct gw_map_inputs gw_map_inputs;

/* Opens all sources, whose words and names are borrowed. Fails with GW_E_USAGE where a file is not there or the regular
 * expression is none, with GW_E_IO, and with GW_E_NOMEM. */
gw_map_inputs *gw_map_inputs_open(const gw_map_inputs_options *options, gw_err *err);
void gw_map_inputs_close(gw_map_inputs *inputs); /* NULL is allowed */

/* The inputs of the next task, which the caller frees. After GW_MAP_NEXT_LATER the caller waits until gw_map_inputs_fd
 * can be read. */
gw_map_next gw_map_inputs_next(gw_map_inputs *inputs, gw_map_values **values, gw_err *err);
int gw_map_inputs_fd(const gw_map_inputs *inputs);

/* How many tasks there are in all; false: that is not known yet. */
bool gw_map_inputs_total(const gw_map_inputs *inputs, uint64_t *total);

#endif
