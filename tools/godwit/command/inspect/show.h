/* The two outputs of `godwit inspect`: tables for people, 80 columns wide, and JSON. */
#ifndef GODWIT_TOOLS_GODWIT_COMMAND_INSPECT_SHOW_H
#define GODWIT_TOOLS_GODWIT_COMMAND_INSPECT_SHOW_H

#include "checkpoint/catalog.h"
#include "tools/godwit/command/inspect/report.h"

#include <jansson.h>
#include <stdio.h>

/* The checkpoints of a directory or a peer, one line each, the newest last, and its damaged manifests.
 * `here` has the number of chunks that it has of each. */
void gw_inspect_print_catalog(FILE *out, const char *where, const gw_catalog *catalog, const uint32_t *here);
/* One checkpoint in full; the table of its tensors only with `tensors`. */
void gw_inspect_print_report(FILE *out, const gw_inspect_report *report, bool tensors);

/* The same as JSON; the caller owns the object. */
json_t *gw_inspect_json_catalog(const char *where, const gw_catalog *catalog, const uint32_t *here);
json_t *gw_inspect_json_report(const gw_inspect_report *report);

#endif
