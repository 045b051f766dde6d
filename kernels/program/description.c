#include "kernels/program/description.h"

#include "core/base/utf8.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    SUM_FLAGS = GW_PROGRAM_TRAIN | GW_PROGRAM_EVALUATE | GW_PROGRAM_NORM | GW_PROGRAM_REPORT |
                GW_PROGRAM_BY_WEIGHT | GW_PROGRAM_BY_SHARDS,
    PHASES = GW_PROGRAM_TRAIN | GW_PROGRAM_EVALUATE,
    DIVISORS = GW_PROGRAM_BY_WEIGHT | GW_PROGRAM_BY_SHARDS,
    FRAC_BITS_MOST = 52,
    SHOWN = 100, /* bytes of a name in a message */
};

/* The most bytes of all state tensors, or of *own*: sums of them do not overflow. */
#define BYTES_MOST (UINT64_C(1) << 46)

static const char own_prefix[] = "godwit.", evaluated_prefix[] = "val_";

/* Makes room for `more` further elements of a list; NULL where memory is short. */
static void *grow(void *list, uint32_t count, uint32_t more, uint32_t *room, size_t width) {
    if (more <= *room - count) return list;
    uint32_t wanted = *room < 16 ? 16 : *room * 2;
    if (wanted < count + more) wanted = count + more;
    void *grown = realloc(list, wanted * width);
    if (grown != NULL) *room = wanted;
    return grown;
}

static bool no_memory(gw_err *err) {
    return gw_fail(err, GW_E_NOMEM, "no memory for the program's description");
}

/* Copies the message, and decodes the copy. */
static bool keep_message(gw_program_description *d, const uint8_t *bytes, size_t length,
                         gw_program_message *message, gw_err *err) {
    uint8_t **list = realloc(d->messages, (d->message_count + 1) * sizeof *list);
    if (list == NULL) return no_memory(err);
    d->messages = list;
    uint8_t *copy = malloc(length > 0 ? length : 1);
    if (copy == NULL) return no_memory(err);
    if (length > 0) memcpy(copy, bytes, length);
    d->messages[d->message_count++] = copy;
    return gw_program_decode(copy, length, message, err);
}

static bool add_tensors(gw_program_description *d, gw_program_batch *batch, gw_err *err) {
    if (batch->count > GW_MAX_TENSORS - d->array_count)
        return gw_fail(err, GW_E_LIMIT, "the program describes more than %d tensors", GW_MAX_TENSORS);
    gw_program_array *arrays =
        grow(d->arrays, d->array_count, batch->count, &d->array_room, sizeof *d->arrays);
    if (arrays == NULL && batch->count > 0) return no_memory(err);
    d->arrays = arrays;
    for (uint32_t i = 0; i < batch->count; i++) {
        gw_program_array *array = &d->arrays[d->array_count];
        *array = (gw_program_array){0};
        gw_program_get_tensor(&batch->entries, &array->is);
        if (array->is.role == GW_STATE && d->sum_count > 0)
            return gw_fail(err, GW_E_INVALID, "state tensor %u comes after a sum", d->array_count);
        d->array_count++;
        if (array->is.role == GW_STATE)
            d->state_count++;
        else
            d->sum_count++;
    }
    return true;
}

static bool add_lines(gw_program_description *d, gw_program_batch *batch, gw_err *err) {
    if (batch->count > GW_PROGRAM_LINES_MOST - d->line_count)
        return gw_fail(err, GW_E_LIMIT, "the program has more than %d lines of identity",
                       GW_PROGRAM_LINES_MOST);
    gw_program_line *lines = grow(d->lines, d->line_count, batch->count, &d->line_room, sizeof *d->lines);
    if (lines == NULL && batch->count > 0) return no_memory(err);
    d->lines = lines;
    for (uint32_t i = 0; i < batch->count; i++)
        gw_program_get_line(&batch->entries, &d->lines[d->line_count++]);
    return true;
}

/* The checks of a whole description. */

static bool is_printable(gw_program_text text) {
    char copy[GW_PROGRAM_LINE_VALUE + 1], shown[GW_PROGRAM_LINE_VALUE + 1];
    gw_program_text_copy(text, copy, sizeof copy);
    memcpy(shown, copy, sizeof copy);
    gw_utf8_make_printable(shown);
    return strcmp(copy, shown) == 0;
}

/* The order of two texts by their bytes, as strcmp has it. */
static int compare_texts(gw_program_text a, gw_program_text b) {
    size_t both = a.length < b.length ? a.length : b.length;
    int order = both > 0 ? memcmp(a.bytes, b.bytes, both) : 0;
    return order != 0 ? order : a.length < b.length ? -1 : a.length > b.length;
}

static bool begins_with(gw_program_text text, const char *prefix) {
    size_t length = strlen(prefix);
    return text.length >= length && memcmp(text.bytes, prefix, length) == 0;
}

static bool check_options(const gw_program_description *d, gw_err *err) {
    const gw_program_options *o = &d->options;
    if (o->shards < 1 || o->shards > GW_MAX_SHARDS || o->eval_shards > GW_MAX_SHARDS)
        return gw_fail(err, GW_E_LIMIT,
                       "the program has %u shards, and %u of an evaluation; a step has 1 to %d", o->shards,
                       o->eval_shards, GW_MAX_SHARDS);
    if ((o->eval_every == 0) != (o->eval_shards == 0))
        return gw_fail(err, GW_E_INVALID, "an evaluation every %" PRIu64 " updates has %u shards",
                       o->eval_every, o->eval_shards);
    if (o->updates >= UINT64_C(1) << 62 || o->eval_every >= UINT64_C(1) << 62)
        return gw_fail(err, GW_E_LIMIT, "the program has %" PRIu64 " updates", o->updates);
    if (o->parts < 1 || o->parts > GW_PROGRAM_PARTS_MOST)
        return gw_fail(err, GW_E_LIMIT, "an update has %u parts; it has 1 to %d", o->parts,
                       GW_PROGRAM_PARTS_MOST);
    if (!isfinite(o->clip) || o->clip < 0)
        return gw_fail(err, GW_E_INVALID, "gradients are clipped to a norm of %g", o->clip);
    const gw_program_text texts[] = {o->model_text, o->length_text, o->data_text};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (texts[i].length > GW_PROGRAM_FIRST_LINES || !is_printable(texts[i]))
            return gw_fail(err, GW_E_INVALID,
                           "text %zu for the first lines has %zu bytes, or control characters", i + 1,
                           texts[i].length);
    return true;
}

static bool fail_tensor(const gw_program_array *array, gw_err *err, const char *what) {
    char name[SHOWN];
    return gw_fail(err, GW_E_INVALID, "%s '%s': %s", array->is.role == GW_STATE ? "state tensor" : "sum",
                   gw_program_text_copy(array->is.name, name, sizeof name), what);
}

static bool check_report(const gw_program_array *array, gw_err *err) {
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_";
    char name[GW_PROGRAM_REPORT_NAME + 2];
    gw_program_text_copy(array->is.name, name, sizeof name);
    if (array->elements != 1) return fail_tensor(array, err, "a report has one element");
    if (array->is.name.length > GW_PROGRAM_REPORT_NAME || strspn(name, allowed) != array->is.name.length ||
        begins_with(array->is.name, evaluated_prefix))
        return fail_tensor(array, err,
                           "the name of a report is 1 to 27 letters, digits and underscores, and does not "
                           "begin with val_");
    return true;
}

static bool check_sum(const gw_program_array *array, gw_err *err) {
    const gw_program_tensor *t = &array->is;
    bool whole = t->dtype == GW_PROGRAM_I64;
    if (t->dtype != GW_PROGRAM_F32 && t->dtype != GW_PROGRAM_F64 && t->dtype != GW_PROGRAM_BF16 &&
        t->dtype != GW_PROGRAM_F16 && !whole)
        return fail_tensor(array, err, "a sum is f32, f64, bf16, f16 or i64");
    if ((t->flags & ~SUM_FLAGS) != 0 || (t->flags & PHASES) == 0 || (t->flags & DIVISORS) == DIVISORS)
        return fail_tensor(array, err, "its flags contradict each other");
    if (t->frac_bits > FRAC_BITS_MOST || (whole && t->frac_bits != 0))
        return fail_tensor(array, err, "a sum has at most 52 fraction bits, one of i64 has none");
    if (whole && (t->flags & DIVISORS) != 0)
        return fail_tensor(array, err, "a sum of whole numbers is not divided");
    if ((t->flags & GW_PROGRAM_NORM) != 0 && (t->flags & DIVISORS) == 0)
        return fail_tensor(array, err, "a gradient is divided by the weight or the shards");
    return (t->flags & GW_PROGRAM_REPORT) == 0 || check_report(array, err);
}

static bool check_tensor(const gw_program_description *d, gw_program_array *array, gw_err *err) {
    const gw_program_tensor *t = &array->is;
    if (t->name.length < 1 || t->name.length > GW_PROGRAM_LINE_NAME)
        return fail_tensor(array, err, "a name has 1 to 255 bytes");
    if (begins_with(t->name, own_prefix)) return fail_tensor(array, err, "names of this kind are the peer's");
    array->elements = 1;
    for (uint32_t i = 0; i < t->rank; i++) {
        if (t->dim[i] == 0) return fail_tensor(array, err, "a dimension is 0");
        if (t->dim[i] > BYTES_MOST / array->elements) return fail_tensor(array, err, "it is too large");
        array->elements *= t->dim[i];
    }
    array->bytes = array->elements * gw_program_dtype_bytes(t->dtype); /* both factors are small enough */
    if (t->part >= d->options.parts && t->part < GW_PROGRAM_CONSTANT)
        return fail_tensor(array, err, "its part is none of the update's");
    if (t->role == GW_SUMMED) return check_sum(array, err);
    if ((t->flags & ~GW_PROGRAM_APPLY_ONLY) != 0 || t->frac_bits != 0)
        return fail_tensor(array, err, "it has flags or fraction bits of a sum");
    return true;
}

static bool check_weight(const gw_program_description *d, gw_err *err) {
    uint32_t number = d->options.weight;
    if (number == GW_PROGRAM_NO_WEIGHT) return true;
    if (number >= d->sum_count)
        return gw_fail(err, GW_E_INVALID, "the weight is sum %u of %u", number, d->sum_count);
    const gw_program_array *weight = gw_program_sum(d, number);
    uint8_t phases = GW_PROGRAM_TRAIN | (d->options.eval_every > 0 ? GW_PROGRAM_EVALUATE : 0);
    if (weight->elements != 1 || (weight->is.flags & phases) != phases || (weight->is.flags & ~PHASES) != 0)
        return fail_tensor(weight, err,
                           "a weight has one element, takes part in all steps, and is neither divided nor "
                           "reported");
    return true;
}

static bool check_lines(const gw_program_description *d, gw_err *err) {
    for (uint32_t i = 0; i < d->line_count; i++) {
        const gw_program_line *line = &d->lines[i];
        char name[SHOWN];
        gw_program_text_copy(line->name, name, sizeof name);
        if (line->name.length < 1 || line->name.length > GW_PROGRAM_LINE_NAME ||
            line->value.length > GW_PROGRAM_LINE_VALUE ||
            memchr(line->name.bytes, '=', line->name.length) != NULL || !is_printable(line->name) ||
            !is_printable(line->value))
            return gw_fail(err, GW_E_INVALID, "identity line %u, '%s', is too long or has other characters",
                           i, name);
        if (i > 0 && compare_texts(d->lines[i - 1].name, line->name) >= 0)
            return gw_fail(err, GW_E_INVALID, "identity line %u, '%s', is not in ascending order", i, name);
    }
    return true;
}

/* Gives the next multiple of GW_PROGRAM_ALIGN behind `bytes` more bytes. False: too many. */
static bool advance(uint64_t *end, uint64_t bytes) {
    if (bytes > BYTES_MOST || *end > BYTES_MOST) return false;
    *end = (*end + bytes + GW_PROGRAM_ALIGN - 1) / GW_PROGRAM_ALIGN * GW_PROGRAM_ALIGN;
    return true;
}

static bool lay_out(gw_program_description *d) {
    uint64_t state = 0, own = 0;
    bool fits = advance(&own, d->sum_count);
    for (uint32_t i = 0; fits && i < d->array_count; i++) {
        gw_program_array *array = &d->arrays[i];
        uint64_t *end = array->is.role == GW_STATE ? &state : &own;
        array->at = *end;
        fits = advance(end, array->bytes);
    }
    for (uint32_t i = 0; fits && i < d->state_count; i++) {
        gw_program_array *array = &d->arrays[i];
        if (array->is.part != GW_PROGRAM_ALIKE) continue;
        array->copy = own;
        fits = advance(&own, array->bytes);
    }
    d->sizes = (gw_program_sizes){.state_bytes = state, .own_bytes = own};
    return fits;
}

static bool complete(gw_program_description *d, const gw_program_message *message, gw_err *err) {
    if (!d->has_options) return gw_fail(err, GW_E_INVALID, "DESCRIBED comes without OPTIONS");
    if (message->described.tensors != d->array_count || message->described.lines != d->line_count)
        return gw_fail(err, GW_E_INVALID, "DESCRIBED counts %u tensors and %u lines, of which %u and %u came",
                       message->described.tensors, message->described.lines, d->array_count, d->line_count);
    if (d->state_count == 0) return gw_fail(err, GW_E_INVALID, "the program has no state");
    uint32_t reports = 0;
    if (!check_options(d, err)) return false;
    for (uint32_t i = 0; i < d->array_count; i++) {
        if (!check_tensor(d, &d->arrays[i], err)) return false;
        reports += d->arrays[i].is.role == GW_SUMMED && (d->arrays[i].is.flags & GW_PROGRAM_REPORT) != 0;
    }
    if (reports > GW_PROGRAM_REPORTS)
        return gw_fail(err, GW_E_LIMIT, "%u sums are reported; %d is the most", reports, GW_PROGRAM_REPORTS);
    if (!check_weight(d, err) || !check_lines(d, err)) return false;
    if (!lay_out(d)) return gw_fail(err, GW_E_LIMIT, "the program's tensors take more than 64 TiB");
    d->can_fork = message->described.can_fork;
    d->complete = true;
    return true;
}

bool gw_program_description_add(gw_program_description *d, const uint8_t *bytes, size_t length, gw_err *err) {
    gw_program_message message = {.kind = 0};
    if (!keep_message(d, bytes, length, &message, err)) return false;
    bool in_order = !d->complete && (message.kind == GW_PROGRAM_OPTIONS) == !d->has_options;
    if (message.kind == GW_PROGRAM_TENSORS) in_order = in_order && d->line_count == 0;
    if (!in_order)
        return gw_fail(err, GW_E_INVALID, "%s comes out of order in the description",
                       gw_program_kind_name(message.kind));
    switch ((int)message.kind) {
    case GW_PROGRAM_OPTIONS:
        d->options = message.options;
        d->has_options = true;
        return true;
    case GW_PROGRAM_TENSORS:
        return add_tensors(d, &message.batch, err);
    case GW_PROGRAM_IDENTITY:
        return add_lines(d, &message.batch, err);
    case GW_PROGRAM_DESCRIBED:
        return complete(d, &message, err);
    }
    return gw_fail(err, GW_E_INVALID, "%s is no part of a description", gw_program_kind_name(message.kind));
}

void gw_program_description_free(gw_program_description *d) {
    for (uint32_t i = 0; i < d->message_count; i++) free(d->messages[i]);
    free(d->messages);
    free(d->arrays);
    free(d->lines);
    *d = (gw_program_description){0};
}

/* Comparison. */

static bool same_text(gw_program_text a, gw_program_text b) {
    return compare_texts(a, b) == 0;
}

static bool same_options(const gw_program_options *a, const gw_program_options *b) {
    return a->shards == b->shards && a->updates == b->updates && a->eval_every == b->eval_every &&
           a->eval_shards == b->eval_shards && a->parts == b->parts && a->clip == b->clip &&
           a->flags == b->flags && a->weight == b->weight;
}

static bool same_tensor(const gw_program_tensor *a, const gw_program_tensor *b) {
    return a->role == b->role && a->dtype == b->dtype && a->flags == b->flags &&
           a->frac_bits == b->frac_bits && a->part == b->part && a->rank == b->rank &&
           memcmp(a->dim, b->dim, sizeof a->dim) == 0 && same_text(a->name, b->name);
}

bool gw_program_description_compare(const gw_program_description *first, const gw_program_description *other,
                                    gw_err *err) {
    char name[SHOWN], value[SHOWN], found_name[SHOWN], found[SHOWN];
    if (!same_options(&first->options, &other->options))
        return gw_fail(err, GW_E_INVALID, "the program describes other numbers of shards, updates or parts");
    for (uint32_t i = 0; i < first->array_count && i < other->array_count; i++) {
        const gw_program_tensor *a = &first->arrays[i].is, *b = &other->arrays[i].is;
        if (same_tensor(a, b)) continue;
        return gw_fail(err, GW_E_INVALID, "tensor %u is '%s', and then '%s'%s", i,
                       gw_program_text_copy(a->name, name, sizeof name),
                       gw_program_text_copy(b->name, found, sizeof found),
                       same_text(a->name, b->name) ? " with another shape or type" : "");
    }
    if (first->array_count != other->array_count)
        return gw_fail(err, GW_E_INVALID, "the program has %u tensors, and then %u", first->array_count,
                       other->array_count);
    for (uint32_t i = 0; i < first->line_count && i < other->line_count; i++) {
        const gw_program_line *a = &first->lines[i], *b = &other->lines[i];
        if (same_text(a->name, b->name) && same_text(a->value, b->value)) continue;
        return gw_fail(err, GW_E_INVALID, "%s=%s, and then %s=%s",
                       gw_program_text_copy(a->name, name, sizeof name),
                       gw_program_text_copy(a->value, value, sizeof value),
                       gw_program_text_copy(b->name, found_name, sizeof found_name),
                       gw_program_text_copy(b->value, found, sizeof found));
    }
    return first->line_count == other->line_count ||
           gw_fail(err, GW_E_INVALID, "the program has %u lines of identity, and then %u", first->line_count,
                   other->line_count);
}

/* Steps. */

gw_program_place gw_program_place_of(const gw_program_options *options, uint64_t step) {
    uint64_t every = options->eval_every, cycle = every > 0 ? step / (every + 1) : 0;
    gw_program_place place = {.step = step, .update = step - cycle, .phase = GW_TRAIN};
    if (every == 0) return place;
    uint64_t end = (cycle + 1) * every;
    if (options->updates > 0 && end > options->updates) end = options->updates;
    if (place.update < end) return place;
    place.update = end; /* also behind the last step, which ends a shorter cycle */
    place.phase = GW_EVALUATE;
    return place;
}

uint32_t gw_program_shards(const gw_program_options *options, gw_phase phase) {
    return phase == GW_EVALUATE ? options->eval_shards : options->shards;
}

uint64_t gw_program_steps(const gw_program_options *options) {
    uint64_t updates = options->updates, every = options->eval_every;
    if (updates == 0 || every == 0) return updates;
    return updates + updates / every + (updates % every > 0);
}
