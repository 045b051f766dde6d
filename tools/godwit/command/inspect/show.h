/* The two outputs of `godwit inspect`: tables for people, 80 columns wide, and JSON. */
#ifndef GODWIT_TOOLS_GODWIT_COMMAND_INSPECT_SHOW_H
#define GODWIT_TOOLS_GODWIT_COMMAND_INSPECT_SHOW_H

#include "checkpoint/catalog.h"
#include "tools/godwit/command/inspect/report.h"

#include <jansson.h>
#include <stdio.h>

/* A directory's checkpoints, one line each, and its damaged manifests. */
void gw_inspect_print_catalog(FILE *out, const char *dir, const gw_catalog *catalog, gw_store *store);
/* One checkpoint in full. */
void gw_inspect_print_report(FILE *out, const gw_inspect_report *report);

/* The same as JSON; the caller owns the object. */
json_t *gw_inspect_json_catalog(const char *dir, const gw_catalog *catalog, gw_store *store);
json_t *gw_inspect_json_report(const gw_inspect_report *report);

#endif
