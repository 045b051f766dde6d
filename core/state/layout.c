#include "core/state/layout.h"

#include "core/base/assert.h"
#include "core/state/exact.h"

#include <stdlib.h>
#include <string.h>

static const uint64_t most_bytes = (uint64_t)1 << 46; /* of the state, and of the accumulator */

static bool summed(const gw_tensor *tensor) {
    return tensor->role == GW_SUMMED || tensor->role == GW_METRIC;
}

static bool check_name(const gw_tensor *tensors, uint32_t number, gw_err *err) {
    const char *name = tensors[number].name;
    if (name == NULL) return gw_fail(err, GW_E_INVALID, "tensor %u has no name", number);
    size_t length = strlen(name);
    if (length == 0 || length > 63 || strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789._-") != length)
        return gw_fail(err, GW_E_INVALID, "tensor %u: '%.80s' is not a name ([a-z0-9._-], at most 63)",
                       number, name);
    for (uint32_t i = 0; i < number; i++)
        if (strcmp(tensors[i].name, name) == 0)
            return gw_fail(err, GW_E_INVALID, "two tensors are named '%s'", name);
    return true;
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

static bool check_group(const gw_tensor *tensors, uint32_t number, gw_err *err) {
    const gw_tensor *tensor = &tensors[number];
    for (uint32_t i = 0; i < number; i++) {
        const gw_tensor *other = &tensors[i];
        if (other->group != tensor->group) continue;
        bool same = other->rank == tensor->rank &&
                    memcmp(other->dim, tensor->dim, tensor->rank * sizeof tensor->dim[0]) == 0;
        if (!same)
            return gw_fail(err, GW_E_INVALID, "tensors '%s' and '%s' share group %u but not their shape",
                           other->name, tensor->name, tensor->group);
        break; /* the others of the group were compared with this one */
    }
    return true;
}

static bool check_tensor(const gw_tensor *tensors, uint32_t number, gw_err *err) {
    const gw_tensor *tensor = &tensors[number];
    if (!check_name(tensors, number, err) || !check_shape(tensor, err)) return false;
    if (tensor->role != GW_STATE && !summed(tensor))
        return gw_fail(err, GW_E_INVALID, "tensor '%s': unknown role %d", tensor->name, (int)tensor->role);
    if (tensor->role == GW_STATE && (tensor->dtype < GW_F32 || tensor->dtype > GW_BF16))
        return gw_fail(err, GW_E_INVALID, "tensor '%s': unknown dtype %d", tensor->name, (int)tensor->dtype);
    if (summed(tensor) && tensor->frac_bits > 52)
        return gw_fail(err, GW_E_INVALID, "tensor '%s': %u fraction bits are more than 52", tensor->name,
                       tensor->frac_bits);
    return check_group(tensors, number, err);
}

/* Finds the least bucket number above `after`, or with `first` the least of all. Returns false if there is
 * none. */
static bool next_bucket(const gw_plan *plan, bool first, uint32_t after, uint32_t *next) {
    bool found = false;
    for (uint32_t t = 0; t < plan->tensor_count; t++) {
        const gw_tensor *tensor = &plan->tensors[t];
        if (!summed(tensor) || (!first && tensor->bucket <= after)) continue;
        if (!found || tensor->bucket < *next) *next = tensor->bucket;
        found = true;
    }
    return found;
}

static uint64_t padded(uint64_t words) {
    return (words + GW_LAYOUT_ALIGN - 1) / GW_LAYOUT_ALIGN * GW_LAYOUT_ALIGN;
}

static gw_layout_bucket *push_bucket(gw_layout *layout) {
    gw_layout_bucket *bucket = &layout->buckets[layout->bucket_count++];
    *bucket = (gw_layout_bucket){.header = layout->words, .data = layout->words + GW_EXACT_HEADER};
    return bucket;
}

static void lay_sums(const gw_plan *plan, gw_layout *layout) {
    uint32_t number = 0;
    for (bool first = true; next_bucket(plan, first, number, &number); first = false) {
        gw_layout_bucket *bucket = push_bucket(layout);
        for (uint32_t t = 0; t < plan->tensor_count; t++) {
            if (!summed(&plan->tensors[t]) || plan->tensors[t].bucket != number) continue;
            layout->of[t].bucket = layout->bucket_count - 1;
            layout->of[t].first = bucket->count;
            bucket->count += padded(layout->of[t].elements);
        }
        layout->words = bucket->data + bucket->count;
    }
    gw_layout_bucket *boundary = push_bucket(layout);
    boundary->count = padded(layout->boundary_words);
    layout->words = boundary->data + boundary->count;
}

static void lay_state(const gw_plan *plan, gw_layout *layout) {
    uint64_t words = 0;
    for (uint32_t t = 0; t < plan->tensor_count; t++) {
        if (plan->tensors[t].role != GW_STATE) continue;
        gw_layout_tensor *of = &layout->of[t];
        of->bytes = of->elements * gw_dtype_bytes(plan->tensors[t].dtype);
        of->image_offset = layout->image_bytes;
        of->first_word = words;
        layout->image_bytes += of->bytes;
        words += (of->bytes + 7) / 8;
    }
}

static bool first_state_of_group(const gw_plan *plan, uint32_t number) {
    if (plan->tensors[number].role != GW_STATE) return false;
    for (uint32_t i = 0; i < number; i++)
        if (plan->tensors[i].role == GW_STATE && plan->tensors[i].group == plan->tensors[number].group)
            return false;
    return true;
}

static bool lay_units(const gw_plan *plan, gw_layout *layout, gw_err *err) {
    for (int pass = 0; pass < 2; pass++) { /* count, then fill */
        uint64_t units = 0;
        for (uint32_t t = 0; t < plan->tensor_count; t++) {
            if (!first_state_of_group(plan, t)) continue;
            uint64_t elements = layout->of[t].elements;
            for (uint64_t first = 0; first < elements; first += GW_UNIT_ELEMENTS, units++) {
                uint64_t left = elements - first;
                if (pass == 1)
                    layout->units[units] =
                        (gw_range){.group = plan->tensors[t].group,
                                   .first = first,
                                   .count = left < GW_UNIT_ELEMENTS ? left : GW_UNIT_ELEMENTS};
            }
        }
        if (pass == 0) {
            GW_ASSERT(units > 0); /* there is a state tensor */
            layout->unit_count = units;
            layout->units = calloc(units, sizeof *layout->units);
            if (layout->units == NULL)
                return gw_fail(err, GW_E_NOMEM, "no memory for %llu units of work",
                               (unsigned long long)units);
        }
    }
    return true;
}

bool gw_layout_make(const gw_plan *plan, uint32_t boundary_words, gw_layout *layout, gw_err *err) {
    GW_ASSERT(boundary_words <= GW_MAX_BOUNDARY);
    *layout = (gw_layout){
        .tensors = plan->tensors, .tensor_count = plan->tensor_count, .boundary_words = boundary_words};
    if (plan->tensor_count < 1 || plan->tensor_count > GW_MAX_TENSORS)
        return gw_fail(err, GW_E_INVALID, "the job declares %u tensors, not 1 to %d", plan->tensor_count,
                       GW_MAX_TENSORS);
    uint64_t sum_words = 0, state_bytes = 0;
    for (uint32_t t = 0; t < plan->tensor_count; t++) {
        if (!check_tensor(plan->tensors, t, err)) return false;
        uint64_t elements = gw_tensor_elements(&plan->tensors[t]);
        if (summed(&plan->tensors[t]))
            sum_words += elements;
        else
            state_bytes += elements * gw_dtype_bytes(plan->tensors[t].dtype);
        if (sum_words > most_bytes / 8 || state_bytes > most_bytes)
            return gw_fail(err, GW_E_LIMIT, "the job's tensors take more than 2^46 bytes");
    }
    if (state_bytes == 0) return gw_fail(err, GW_E_INVALID, "the job declares no state tensor");
    layout->of = calloc(plan->tensor_count, sizeof *layout->of);
    layout->buckets = calloc((size_t)plan->tensor_count + 1, sizeof *layout->buckets);
    if (layout->of == NULL || layout->buckets == NULL) {
        gw_layout_free(layout);
        return gw_fail(err, GW_E_NOMEM, "no memory for a layout of %u tensors", plan->tensor_count);
    }
    for (uint32_t t = 0; t < plan->tensor_count; t++)
        layout->of[t].elements = gw_tensor_elements(&plan->tensors[t]);
    lay_sums(plan, layout);
    lay_state(plan, layout);
    if (!lay_units(plan, layout, err)) {
        gw_layout_free(layout);
        return false;
    }
    return true;
}

void gw_layout_free(gw_layout *layout) {
    free(layout->of);
    free(layout->buckets);
    free(layout->units);
    layout->of = NULL;
    layout->buckets = NULL;
    layout->units = NULL;
}

uint32_t gw_layout_find(const gw_layout *layout, uint64_t offset, uint64_t bytes, uint64_t *within,
                        uint64_t *length) {
    GW_ASSERT(offset < layout->image_bytes);
    uint32_t t = 0;
    while (offset - layout->of[t].image_offset >= layout->of[t].bytes) {
        t++;
        GW_ASSERT(t < layout->tensor_count); /* every byte of the image lies in a tensor */
    }
    const gw_layout_tensor *of = &layout->of[t];
    *within = offset - of->image_offset;
    *length = bytes < of->bytes - *within ? bytes : of->bytes - *within;
    return t;
}
