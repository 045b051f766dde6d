/* The folder of --results: for each task DIR/1/INPUT1/2/INPUT2/ with the files stdout, stderr and seq, as GNU parallel
 * writes it. In the names of inputs a slash is \_, a backslash \\ and a tab \t. */
#ifndef GODWIT_TOOLS_GODWIT_MAP_RESULTS_H
#define GODWIT_TOOLS_GODWIT_MAP_RESULTS_H

#include "tools/godwit/map/store.h"
#include "tools/godwit/map/values.h"

/* Writes what a task has left. The outputs stay the caller's. Fails with GW_E_IO, GW_E_LIMIT and GW_E_NOMEM. */
bool gw_map_results_write(const char *folder, const gw_map_values *values, uint64_t task, gw_map_store *store,
                          const gw_map_output *output, const gw_map_output *errors, gw_err *err);

#endif
