#include "tools/godwit/command/export/selection.h"

#include "core/base/assert.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How safetensors files call the types of state tensors. */
static const char *const types[GW_DTYPE_LAST + 1] = {
    [GW_F32] = "F32",   [GW_F64] = "F64", [GW_I32] = "I32", [GW_I64] = "I64", [GW_U8] = "U8",
    [GW_BF16] = "BF16", [GW_F16] = "F16", [GW_I16] = "I16", [GW_I8] = "I8",   [GW_BOOL] = "BOOL"};

gw_real gw_selection_kind(gw_dtype dtype) {
    return gw_real_named(types[dtype]);
}

static bool has_shape_of(const gw_tensor *tensor, const gw_tensor *other) {
    return tensor->group == other->group && tensor->rank == other->rank &&
           memcmp(tensor->dim, other->dim, tensor->rank * sizeof tensor->dim[0]) == 0;
}

static int compare_names(const void *a, const void *b) {
    return strcmp((*(const gw_tensor *const *)a)->name, (*(const gw_tensor *const *)b)->name);
}

/* Whether a tensor holds moments: its name is that of another tensor of its group and shape with ".m" or
 * ".v" behind it. `sorted` are all tensors of the manifest by name. */
static bool is_moment(const gw_tensor *tensor, const gw_tensor *const *sorted, uint32_t count) {
    size_t length = strlen(tensor->name);
    if (length < 3 ||
        (strcmp(tensor->name + length - 2, ".m") != 0 && strcmp(tensor->name + length - 2, ".v") != 0))
        return false;
    char name[GW_MAX_TENSOR_NAME + 1];
    snprintf(name, sizeof name, "%.*s", (int)length - 2, tensor->name);
    const gw_tensor wanted = {.name = name}, *key = &wanted;
    const gw_tensor *const *found = bsearch(&key, sorted, count, sizeof(const gw_tensor *), compare_names);
    return found != NULL && has_shape_of(tensor, *found);
}

/* Whether a tensor is not a program's model: its name has a colon, behind what it belongs to (the
 * optimizer, a kept object), or it is the peer's own (kernels/program/README.md). */
static bool is_beside_model(const gw_manifest *manifest, const gw_tensor *tensor) {
    return strcmp(manifest->job_name, "program") == 0 &&
           (strchr(tensor->name, ':') != NULL || strncmp(tensor->name, "godwit.", strlen("godwit.")) == 0);
}

/* Marks all tensors but the moments, and what a program keeps beside its model. */
static bool mark_weights(const gw_manifest *manifest, bool *marks, uint32_t *left_out, gw_err *err) {
    const gw_tensor **sorted = calloc(manifest->tensor_count + 1u, sizeof(const gw_tensor *));
    if (sorted == NULL) return gw_fail(err, GW_E_NOMEM, "no memory for %u tensors", manifest->tensor_count);
    for (uint32_t t = 0; t < manifest->tensor_count; t++) sorted[t] = &manifest->tensors[t];
    qsort(sorted, manifest->tensor_count, sizeof(const gw_tensor *), compare_names);
    for (uint32_t t = 0; t < manifest->tensor_count; t++) {
        marks[t] = !is_moment(&manifest->tensors[t], sorted, manifest->tensor_count) &&
                   !is_beside_model(manifest, &manifest->tensors[t]);
        *left_out += !marks[t];
    }
    free(sorted);
    return true;
}

/* Writes the names of the manifest's tensors, separated by commas, as many as fit. */
static void list_names(const gw_manifest *manifest, char *text, size_t size) {
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t t = 0; t < manifest->tensor_count; t++) {
        const char *name = manifest->tensors[t].name;
        bool full = used + strlen(name) + sizeof ", , ..." > size;
        used += (size_t)snprintf(text + used, size - used, "%s%s", t > 0 ? ", " : "", full ? "..." : name);
        if (full) return;
    }
}

/* Marks the tensors that a pattern fits. */
static bool mark_pattern(const gw_manifest *manifest, const char *pattern, bool *marks, gw_err *err) {
    bool any = false;
    for (uint32_t t = 0; t < manifest->tensor_count; t++) {
        if (fnmatch(pattern, manifest->tensors[t].name, 0) != 0) continue;
        any = marks[t] = true;
    }
    if (any) return true;
    char names[200];
    list_names(manifest, names, sizeof names);
    return gw_fail(err, GW_E_USAGE, "--tensors: no tensor of the job %s is called '%.80s'; there are: %s",
                   manifest->job_name, pattern, names);
}

static bool mark_tensors(const gw_manifest *manifest, const char *choice, bool *marks, uint32_t *left_out,
                         gw_err *err) {
    *left_out = 0;
    if (strcmp(choice, GW_SELECT_WEIGHTS) == 0) return mark_weights(manifest, marks, left_out, err);
    if (strcmp(choice, GW_SELECT_ALL) == 0) {
        memset(marks, true, manifest->tensor_count * sizeof *marks);
        return true;
    }
    char *copy = strdup(choice), *rest = copy, *pattern;
    bool good = copy != NULL || gw_fail(err, GW_E_NOMEM, "out of memory");
    while (good && (pattern = strsep(&rest, ",")) != NULL) good = mark_pattern(manifest, pattern, marks, err);
    free(copy);
    return good;
}

/* Sets the type and the size that a tensor is written with. */
static void set_type(const gw_tensor *tensor, gw_real kind, gw_safetensor *written) {
    gw_real own = gw_selection_kind(tensor->dtype), becomes = kind == GW_REALS ? own : kind;
    size_t width = own == GW_REALS ? gw_dtype_bytes(tensor->dtype) : gw_real_bytes(becomes);
    snprintf(written->dtype, sizeof written->dtype, "%s",
             own == GW_REALS ? types[tensor->dtype] : gw_real_name(becomes));
    written->size = gw_tensor_elements(tensor) * width;
}

bool gw_select_listed(const gw_manifest *manifest, gw_safetensor *list, const uint32_t *tensors,
                      uint32_t count, gw_real kind, gw_selection *selection, gw_err *err) {
    *selection = (gw_selection){.list = list, .tensors = calloc(count + 1u, sizeof *tensors), .count = count};
    if (list == NULL || selection->tensors == NULL) {
        gw_selection_free(selection);
        return gw_fail(err, GW_E_NOMEM, "no memory for %u tensors", count);
    }
    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(list[i].name, "__metadata__") == 0) {
            gw_selection_free(selection);
            return gw_fail(
                err, GW_E_UNSUPPORTED,
                "no tensor in a safetensors file can be called __metadata__: leave it out by --tensors");
        }
        selection->tensors[i] = tensors[i];
        set_type(&manifest->tensors[tensors[i]], kind, &list[i]);
        selection->numbers += gw_tensor_elements(&manifest->tensors[tensors[i]]);
        selection->bytes += list[i].size;
    }
    return true;
}

bool gw_select_own(const gw_manifest *manifest, const char *choice, gw_real kind, gw_selection *selection,
                   gw_err *err) {
    uint32_t count = manifest->tensor_count, chosen = 0, left_out;
    bool *marks = calloc(count + 1u, sizeof *marks);
    uint32_t *tensors = calloc(count + 1u, sizeof *tensors);
    gw_safetensor *list = calloc(count + 1u, sizeof *list);
    bool good = (marks != NULL && tensors != NULL && list != NULL) ||
                gw_fail(err, GW_E_NOMEM, "no memory for %u tensors", count);
    good = good && mark_tensors(manifest, choice, marks, &left_out, err);
    for (uint32_t t = 0; good && t < count; t++) {
        if (!marks[t]) continue;
        const gw_tensor *tensor = &manifest->tensors[t];
        list[chosen] = (gw_safetensor){.name = tensor->name, .rank = tensor->rank};
        memcpy(list[chosen].dim, tensor->dim, sizeof tensor->dim);
        tensors[chosen++] = t;
    }
    if (good) {
        good = gw_select_listed(manifest, list, tensors, chosen, kind, selection, err);
        if (good) selection->left_out = left_out;
    } else {
        free(list);
    }
    free(tensors);
    free(marks);
    return good;
}

void gw_selection_free(gw_selection *selection) {
    free(selection->list);
    free(selection->tensors);
    *selection = (gw_selection){0};
}
