/* The choice of the tensors of a checkpoint that are exported, and of the names and types that they get. */
#ifndef GODWIT_TOOLS_GODWIT_COMMAND_EXPORT_SELECTION_H
#define GODWIT_TOOLS_GODWIT_COMMAND_EXPORT_SELECTION_H

#include "checkpoint/manifest.h"
#include "kernels/data/real.h"
#include "kernels/data/safetensors.h"

#define GW_SELECT_WEIGHTS "weights"
#define GW_SELECT_ALL     "all"

/* Tensors in the order in which they are written. */
typedef struct gw_selection {
    gw_safetensor *list; /* as in the file, with the types that they are written as; `bytes` is NULL */
    uint32_t *tensors;   /* their numbers in the manifest */
    uint32_t count;
    uint32_t left_out; /* moments, and what is beside a model, that a choice of the weights left out */
    uint64_t numbers;  /* elements of all */
    uint64_t bytes;    /* of all, as they are written */
} gw_selection;

/* Selects state tensors under their own names, in the manifest's order. `choice` is a list of names and
 * shell patterns (fnmatch), separated by commas, each of which has to fit one; "all"; or "weights", which
 * stands for all but the moments of an optimizer (core/godwit.h tells which they are) and all that a
 * program keeps beside its model (names with a colon). Real numbers are written as `kind`, or with
 * GW_REALS as they are stored; integers as they are. The manifest outlives the selection. Fails with
 * GW_E_USAGE where a pattern fits nothing, or as gw_select_listed does. On success the caller frees the
 * selection. */
bool gw_select_own(const gw_manifest *manifest, const char *choice, gw_real kind, gw_selection *selection,
                   gw_err *err);

/* Selects `count` tensors, whose numbers in the manifest are `tensors`, under the names and in the order
 * of `list`, which is one block of memory that becomes the selection's, also on failure. Fails with
 * GW_E_UNSUPPORTED where no safetensors file can have a name, or with GW_E_NOMEM. */
bool gw_select_listed(const gw_manifest *manifest, gw_safetensor *list, const uint32_t *tensors,
                      uint32_t count, gw_real kind, gw_selection *selection, gw_err *err);

void gw_selection_free(gw_selection *selection);

/* The kind of a state tensor's numbers; GW_REALS for integers. */
gw_real gw_selection_kind(gw_dtype dtype);

#endif
