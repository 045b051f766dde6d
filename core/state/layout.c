#include "core/state/layout.h"

#include "core/base/assert.h"
#include "core/base/utf8.h"
#include "core/state/exact.h"

#include <stdlib.h>
#include <string.h>

static const uint64_t most_bytes = (uint64_t)1 << 46; /* of the state, and of the accumulator */

static bool summed(const gw_tensor *tensor) {
    return tensor->role == GW_SUMMED || tensor->role == GW_METRIC;
}

enum { SHOWN = 100 /* bytes of a name in a message that names two tensors, or a name that is no name */ };

bool gw_layout_check_name(const char *name, uint32_t number, gw_err *err) {
    char shown[SHOWN];
    size_t wrong;
    bool control;
    if (name == NULL || name[0] == '\0') return gw_fail(err, GW_E_INVALID, "tensor %u has no name", number);
    size_t length = strnlen(name, GW_MAX_TENSOR_NAME + 1);
    if (length > GW_MAX_TENSOR_NAME)
        return gw_fail(err, GW_E_LIMIT, "tensor %u: its name '%s' has more than %d bytes", number,
                       gw_utf8_shorten(name, shown, sizeof shown), GW_MAX_TENSOR_NAME);
    if (gw_utf8_is_printable(name, &wrong, &control)) return true;
    return gw_fail(err, GW_E_INVALID, "tensor %u: its name '%s' has %s at byte %zu", number,
                   gw_utf8_shorten(name, shown, sizeof shown),
                   control ? "a control character" : "bytes that are not UTF-8", wrong);
}

/* The order in which tensors are compared with their neighbours: a key, and the tensor's number. */
typedef struct sorted {
    const char *name; /* NULL: `key` counts */
    uint32_t key, tensor;
} sorted;

static int compare_sorted(const void *a, const void *b) {
    const sorted *x = a, *y = b;
    if (x->name != NULL) {
        int order = strcmp(x->name, y->name);
        if (order != 0) return order;
    } else if (x->key != y->key) {
        return x->key < y->key ? -1 : 1;
    }
    return x->tensor < y->tensor ? -1 : x->tensor > y->tensor;
}

static void sort(sorted *list, uint32_t count) {
    if (count > 1) qsort(list, count, sizeof *list, compare_sorted);
}

/* Refuses two tensors of one name: of all pairs, the one whose second tensor comes first in the plan. */
static bool check_names_differ(const gw_plan *plan, sorted *list, gw_err *err) {
    uint32_t second = GW_NO_TENSOR, first = 0;
    char shown[SHOWN];
    for (uint32_t t = 0; t < plan->tensor_count; t++)
        list[t] = (sorted){.name = plan->tensors[t].name, .tensor = t};
    sort(list, plan->tensor_count);
    for (uint32_t i = 1; i < plan->tensor_count; i++) {
        if (list[i].tensor >= second || strcmp(list[i - 1].name, list[i].name) != 0) continue;
        second = list[i].tensor;
        first = list[i - 1].tensor;
    }
    if (second == GW_NO_TENSOR) return true;
    return gw_fail(err, GW_E_INVALID, "two tensors are named '%s': number %u and number %u",
                   gw_utf8_shorten(plan->tensors[first].name, shown, sizeof shown), first, second);
}

static bool check_shape(const gw_tensor *tensor, gw_err *err) {
    if (tensor->rank < 1 || tensor->rank > GW_MAX_RANK)
        return gw_fail(err, GW_E_INVALID, "tensor '%s': rank %u is not from 1 to %d", tensor->name,
                       tensor->rank, GW_MAX_RANK);
    uint64_t elements = 1;
    for (uint32_t i = 0; i < tensor->rank; i++) {
        bool over = __builtin_mul_overflow(elements, tensor->dim[i], &elements);
        if (over || elements == 0 || elements > most_bytes / 8)
            return gw_fail(err, GW_E_INVALID, "tensor '%s': its dimensions multiply to zero or too much",
                           tensor->name);
    }
    return true;
}

/* Lists the tensors by their groups, and within a group in declared order. */
static void sort_groups(const gw_plan *plan, sorted *list) {
    for (uint32_t t = 0; t < plan->tensor_count; t++)
        list[t] = (sorted){.key = plan->tensors[t].group, .tensor = t};
    sort(list, plan->tensor_count);
}

/* Checks that the tensors of each group have one shape. `list` is in the order of groups. */
static bool check_groups(const gw_plan *plan, const sorted *list, gw_err *err) {
    char shown[2][SHOWN];
    const gw_tensor *head = NULL; /* the first of the group */
    for (uint32_t i = 0; i < plan->tensor_count; i++) {
        const gw_tensor *tensor = &plan->tensors[list[i].tensor];
        if (head == NULL || head->group != tensor->group) head = tensor;
        if (head->rank == tensor->rank &&
            memcmp(head->dim, tensor->dim, tensor->rank * sizeof tensor->dim[0]) == 0)
            continue;
        return gw_fail(err, GW_E_INVALID, "tensors '%s' and '%s' share group %u but not their shape",
                       gw_utf8_shorten(head->name, shown[0], SHOWN),
                       gw_utf8_shorten(tensor->name, shown[1], SHOWN), tensor->group);
    }
    return true;
}

static bool check_tensor(const gw_tensor *tensors, uint32_t number, gw_err *err) {
    const gw_tensor *tensor = &tensors[number];
    if (!gw_layout_check_name(tensor->name, number, err) || !check_shape(tensor, err)) return false;
    if (tensor->role != GW_STATE && !summed(tensor))
        return gw_fail(err, GW_E_INVALID, "tensor '%s': unknown role %d", tensor->name, (int)tensor->role);
    if (tensor->role == GW_STATE && (tensor->dtype < GW_F32 || tensor->dtype > GW_DTYPE_LAST))
        return gw_fail(err, GW_E_INVALID, "tensor '%s': unknown dtype %d", tensor->name, (int)tensor->dtype);
    if (summed(tensor) && tensor->frac_bits > 52)
        return gw_fail(err, GW_E_INVALID, "tensor '%s': %u fraction bits are more than 52", tensor->name,
                       tensor->frac_bits);
    return true;
}

static uint64_t padded(uint64_t words) {
    return (words + GW_LAYOUT_ALIGN - 1) / GW_LAYOUT_ALIGN * GW_LAYOUT_ALIGN;
}

static gw_layout_bucket *push_bucket(gw_layout *layout) {
    gw_layout_bucket *bucket = &layout->buckets[layout->bucket_count++];
    *bucket = (gw_layout_bucket){.header = layout->words, .data = layout->words + GW_EXACT_HEADER};
    return bucket;
}

static void lay_sums(const gw_plan *plan, gw_layout *layout, sorted *list) {
    uint32_t count = 0;
    for (uint32_t t = 0; t < plan->tensor_count; t++)
        if (summed(&plan->tensors[t])) list[count++] = (sorted){.key = plan->tensors[t].bucket, .tensor = t};
    sort(list, count);
    gw_layout_bucket *bucket = NULL;
    for (uint32_t i = 0; i < count; i++) {
        gw_layout_tensor *of = &layout->of[list[i].tensor];
        if (bucket == NULL || list[i].key != list[i - 1].key) bucket = push_bucket(layout);
        of->bucket = layout->bucket_count - 1;
        of->first = bucket->count;
        bucket->count += padded(of->elements);
        layout->words = bucket->data + bucket->count;
    }
    gw_layout_bucket *boundary = push_bucket(layout);
    boundary->count = padded(layout->boundary_words);
    layout->words = boundary->data + boundary->count;
}

static void lay_state(const gw_plan *plan, gw_layout *layout) {
    uint64_t words = 0;
    for (uint32_t t = 0; t < plan->tensor_count; t++) {
        gw_layout_tensor *of = &layout->of[t];
        of->image_offset = layout->image_bytes;
        if (plan->tensors[t].role != GW_STATE) continue;
        of->bytes = of->elements * gw_dtype_bytes(plan->tensors[t].dtype);
        of->first_word = words;
        layout->image_bytes += of->bytes;
        words += (of->bytes + 7) / 8;
    }
}

/* Chains the state tensors of each group. `list` is in the order of groups. */
static void chain_groups(const gw_plan *plan, gw_layout *layout, sorted *list) {
    uint32_t before = GW_NO_TENSOR;
    for (uint32_t i = 0; i < plan->tensor_count; i++) {
        uint32_t t = list[i].tensor;
        if (plan->tensors[t].role != GW_STATE) continue;
        bool same = before != GW_NO_TENSOR && plan->tensors[before].group == plan->tensors[t].group;
        layout->of[t].next = GW_NO_TENSOR;
        layout->of[t].heads_group = !same;
        if (same) layout->of[before].next = t;
        before = t;
    }
}

static uint64_t units_of(const gw_layout_tensor *of) {
    return (of->elements + GW_UNIT_ELEMENTS - 1) / GW_UNIT_ELEMENTS;
}

static bool lay_units(const gw_plan *plan, gw_layout *layout, gw_err *err) {
    for (uint32_t t = 0; t < plan->tensor_count; t++)
        if (layout->of[t].heads_group) layout->unit_count += units_of(&layout->of[t]);
    GW_ASSERT(layout->unit_count > 0); /* there is a state tensor */
    layout->units = calloc(layout->unit_count, sizeof *layout->units);
    layout->batches = calloc(layout->unit_count + 1, sizeof *layout->batches);
    if (layout->units == NULL || layout->batches == NULL)
        return gw_fail(err, GW_E_NOMEM, "no memory for %llu units of work",
                       (unsigned long long)layout->unit_count);
    gw_layout_unit *unit = layout->units;
    for (uint32_t t = 0; t < plan->tensor_count; t++) {
        uint64_t elements = layout->of[t].heads_group ? layout->of[t].elements : 0;
        for (uint64_t first = 0; first < elements; first += GW_UNIT_ELEMENTS) {
            uint64_t left = elements - first;
            *unit++ = (gw_layout_unit){
                .range = {plan->tensors[t].group, first, left < GW_UNIT_ELEMENTS ? left : GW_UNIT_ELEMENTS},
                .tensor = t};
        }
    }
    return true;
}

static void lay_batches(gw_layout *layout) {
    uint64_t elements = 0;
    for (uint64_t u = 0; u < layout->unit_count; u++) {
        elements += layout->units[u].range.count;
        if (u > 0 && elements <= GW_BATCH_ELEMENTS) continue;
        layout->batches[layout->batch_count++] = u;
        elements = layout->units[u].range.count;
    }
    layout->batches[layout->batch_count] = layout->unit_count;
}

static bool check_plan(const gw_plan *plan, gw_err *err) {
    char shown[SHOWN];
    if (plan->tensor_count < 1) return gw_fail(err, GW_E_INVALID, "the job declares no tensors");
    if (plan->tensor_count > GW_MAX_TENSORS) {
        const char *name = plan->tensors[GW_MAX_TENSORS].name;
        return gw_fail(err, GW_E_LIMIT,
                       "the job declares %u tensors, of which %d are the most: tensor %d, '%s', is the first "
                       "beyond them",
                       plan->tensor_count, GW_MAX_TENSORS, GW_MAX_TENSORS,
                       gw_utf8_shorten(name != NULL ? name : "", shown, sizeof shown));
    }
    uint64_t sum_words = 0, state_bytes = 0;
    for (uint32_t t = 0; t < plan->tensor_count; t++) {
        if (!check_tensor(plan->tensors, t, err)) return false;
        uint64_t elements = gw_tensor_elements(&plan->tensors[t]);
        if (summed(&plan->tensors[t]))
            sum_words += elements;
        else
            state_bytes += elements * gw_dtype_bytes(plan->tensors[t].dtype);
        if (sum_words > most_bytes / 8 || state_bytes > most_bytes)
            return gw_fail(err, GW_E_LIMIT,
                           "the job's tensors take more than 2^46 bytes, as far as '%s' is counted",
                           plan->tensors[t].name);
    }
    return state_bytes > 0 || gw_fail(err, GW_E_INVALID, "the job declares no state tensor");
}

/* `list` is scratch for all tensors. */
static bool lay_out(const gw_plan *plan, gw_layout *layout, sorted *list, gw_err *err) {
    if (!check_names_differ(plan, list, err)) return false;
    for (uint32_t t = 0; t < plan->tensor_count; t++)
        layout->of[t].elements = gw_tensor_elements(&plan->tensors[t]);
    lay_sums(plan, layout, list);
    lay_state(plan, layout);
    sort_groups(plan, list);
    if (!check_groups(plan, list, err)) return false;
    chain_groups(plan, layout, list);
    if (!lay_units(plan, layout, err)) return false;
    lay_batches(layout);
    return true;
}

bool gw_layout_make(const gw_plan *plan, uint32_t boundary_words, gw_layout *layout, gw_err *err) {
    GW_ASSERT(boundary_words <= GW_MAX_BOUNDARY);
    *layout = (gw_layout){
        .tensors = plan->tensors, .tensor_count = plan->tensor_count, .boundary_words = boundary_words};
    if (!check_plan(plan, err)) return false;
    sorted *list = calloc(plan->tensor_count, sizeof *list);
    layout->of = calloc(plan->tensor_count, sizeof *layout->of);
    layout->buckets = calloc((size_t)plan->tensor_count + 1, sizeof *layout->buckets);
    bool good = list != NULL && layout->of != NULL && layout->buckets != NULL;
    if (good)
        good = lay_out(plan, layout, list, err);
    else
        gw_fail(err, GW_E_NOMEM, "no memory for a layout of %u tensors", plan->tensor_count);
    free(list);
    if (!good) gw_layout_free(layout);
    return good;
}

void gw_layout_free(gw_layout *layout) {
    free(layout->of);
    free(layout->buckets);
    free(layout->units);
    free(layout->batches);
    layout->of = NULL;
    layout->buckets = NULL;
    layout->units = NULL;
    layout->batches = NULL;
}

uint32_t gw_layout_find(const gw_layout *layout, uint64_t offset, uint64_t bytes, uint64_t *within,
                        uint64_t *length) {
    GW_ASSERT(offset < layout->image_bytes);
    /* The last tensor that begins at `offset` or before it is a state tensor: a sum begins where the state
     * tensor behind it does, or at the end of the image. */
    uint32_t t = 0;
    for (uint32_t end = layout->tensor_count; end - t > 1;) {
        uint32_t middle = t + (end - t) / 2;
        if (layout->of[middle].image_offset <= offset)
            t = middle;
        else
            end = middle;
    }
    GW_ASSERT(offset - layout->of[t].image_offset < layout->of[t].bytes);
    const gw_layout_tensor *of = &layout->of[t];
    *within = offset - of->image_offset;
    *length = bytes < of->bytes - *within ? bytes : of->bytes - *within;
    return t;
}
