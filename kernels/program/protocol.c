#include "kernels/program/protocol.h"

#include "core/base/assert.h"
#include "core/base/utf8.h"

#include <string.h>

static const struct {
    const char *name;
    uint8_t descriptors;
} kinds[] = {
    [GW_PROGRAM_WELCOME] = {"WELCOME", 0},     [GW_PROGRAM_INIT] = {"INIT", 1},
    [GW_PROGRAM_ARENAS] = {"ARENAS", 3},       [GW_PROGRAM_SHARD] = {"SHARD", 0},
    [GW_PROGRAM_PART] = {"PART", 0},           [GW_PROGRAM_ONCE] = {"ONCE", 0},
    [GW_PROGRAM_AFTER] = {"AFTER", 0},         [GW_PROGRAM_FORK] = {"FORK", 2},
    [GW_PROGRAM_FINISH] = {"FINISH", 0},       [GW_PROGRAM_LEAVE] = {"LEAVE", 0},
    [GW_PROGRAM_HELLO] = {"HELLO", 0},         [GW_PROGRAM_OPTIONS] = {"OPTIONS", 0},
    [GW_PROGRAM_TENSORS] = {"TENSORS", 0},     [GW_PROGRAM_IDENTITY] = {"IDENTITY", 0},
    [GW_PROGRAM_DESCRIBED] = {"DESCRIBED", 0}, [GW_PROGRAM_DONE] = {"DONE", 0},
    [GW_PROGRAM_UPDATED] = {"UPDATED", 0},     [GW_PROGRAM_FORKED] = {"FORKED", 0},
    [GW_PROGRAM_ERROR] = {"ERROR", 0},         [GW_PROGRAM_LOG] = {"LOG", 0},
    [GW_PROGRAM_GONE] = {"GONE", 0},           [GW_PROGRAM_SAMPLES] = {"SAMPLES", 0},
    [GW_PROGRAM_SAMPLED] = {"SAMPLED", 0},
};

enum { KINDS = sizeof kinds / sizeof kinds[0] };

const char *gw_program_kind_name(gw_program_kind kind) {
    return (unsigned)kind < KINDS ? kinds[kind].name : NULL;
}

uint32_t gw_program_descriptors(gw_program_kind kind) {
    return (unsigned)kind < KINDS ? kinds[kind].descriptors : 0;
}

size_t gw_program_dtype_bytes(gw_program_dtype dtype) {
    static const uint8_t bytes[] = {
        [GW_PROGRAM_F32] = 4, [GW_PROGRAM_F64] = 8,  [GW_PROGRAM_I32] = 4, [GW_PROGRAM_I64] = 8,
        [GW_PROGRAM_U8] = 1,  [GW_PROGRAM_BF16] = 2, [GW_PROGRAM_F16] = 2, [GW_PROGRAM_I16] = 2,
        [GW_PROGRAM_I8] = 1,  [GW_PROGRAM_BOOL] = 1};
    return (unsigned)dtype < sizeof bytes ? bytes[dtype] : 0;
}

gw_program_text gw_program_text_of(const char *text) {
    return (gw_program_text){text, strlen(text)};
}

const char *gw_program_text_copy(gw_program_text text, char *copy, size_t capacity) {
    GW_ASSERT(capacity > 0);
    size_t length = 0, step;
    while (length < text.length &&
           (step = gw_utf8_character(text.bytes + length, text.length - length)) > 0 &&
           length + step < capacity)
        length += step;
    if (length > 0) memcpy(copy, text.bytes, length);
    copy[length] = '\0';
    return copy;
}

/* Numbers, texts and lists, each as a pair of functions. */

static void put_text(gw_writer *w, gw_program_text text) {
    if (text.length > UINT16_MAX) w->failed = true;
    gw_put_u16(w, (uint16_t)text.length);
    gw_put_bytes(w, text.bytes, text.length);
}

static bool is_text(const char *bytes, size_t length) {
    for (size_t step; length > 0; bytes += step, length -= step) {
        step = gw_utf8_character(bytes, length);
        if (step == 0 || *bytes == '\0') return false;
    }
    return true;
}

static gw_program_text get_text(gw_reader *r) {
    uint16_t length = gw_get_u16(r);
    const char *bytes = (const char *)gw_get_view(r, length);
    if (bytes == NULL || !is_text(bytes, length)) {
        r->failed = r->failed || length > 0;
        return (gw_program_text){"", 0};
    }
    return (gw_program_text){bytes, length};
}

/* A value that is at most `most`; a greater one fails the reader. */
static uint8_t get_up_to(gw_reader *r, uint8_t most) {
    uint8_t value = gw_get_u8(r);
    if (value > most) r->failed = true;
    return r->failed ? 0 : value;
}

static uint8_t get_between(gw_reader *r, uint8_t least, uint8_t most) {
    uint8_t value = get_up_to(r, most);
    if (value < least) r->failed = true;
    return value;
}

static void put_totals(gw_writer *w, const gw_program_totals *totals) {
    gw_put_u32(w, totals->shards);
    gw_put_f64(w, totals->weight);
    gw_put_f64(w, totals->norm);
    gw_put_f64(w, totals->factor);
}

static gw_program_totals get_totals(gw_reader *r) {
    gw_program_totals totals = {.shards = gw_get_u32(r)};
    totals.weight = gw_get_f64(r);
    totals.norm = gw_get_f64(r);
    totals.factor = gw_get_f64(r);
    return totals;
}

static void put_reports(gw_writer *w, const gw_program_reports *reports) {
    gw_put_u16(w, reports->count);
    for (uint32_t i = 0; i < reports->count; i++) {
        gw_put_string(w, reports->list[i].name);
        gw_put_f64(w, reports->list[i].value);
    }
}

static void get_reports(gw_reader *r, gw_program_reports *reports) {
    uint16_t count = gw_get_u16(r);
    reports->count = 0;
    if (count > sizeof reports->list / sizeof reports->list[0]) r->failed = true;
    for (uint32_t i = 0; i < count && !r->failed; i++) {
        gw_program_text name = get_text(r);
        if (name.length >= sizeof reports->list[i].name) r->failed = true;
        gw_program_text_copy(name, reports->list[i].name, sizeof reports->list[i].name);
        reports->list[i].value = gw_get_f64(r);
    }
    if (!r->failed) reports->count = count;
}

void gw_program_put_tensor(gw_writer *w, const gw_program_tensor *tensor) {
    gw_put_u8(w, (uint8_t)tensor->role);
    gw_put_u8(w, (uint8_t)tensor->dtype);
    gw_put_u8(w, tensor->flags);
    gw_put_u8(w, tensor->frac_bits);
    gw_put_u32(w, tensor->part);
    gw_put_u8(w, tensor->rank);
    for (uint32_t i = 0; i < tensor->rank; i++) gw_put_u64(w, tensor->dim[i]);
    put_text(w, tensor->name);
}

void gw_program_get_tensor(gw_reader *r, gw_program_tensor *tensor) {
    *tensor = (gw_program_tensor){.role = get_between(r, GW_STATE, GW_SUMMED)};
    tensor->dtype = get_between(r, GW_PROGRAM_F32, GW_PROGRAM_BOOL);
    tensor->flags = gw_get_u8(r);
    tensor->frac_bits = gw_get_u8(r);
    tensor->part = gw_get_u32(r);
    tensor->rank = get_up_to(r, GW_MAX_RANK);
    for (uint32_t i = 0; i < tensor->rank; i++) tensor->dim[i] = gw_get_u64(r);
    tensor->name = get_text(r);
}

void gw_program_put_line(gw_writer *w, const gw_program_line *line) {
    put_text(w, line->name);
    put_text(w, line->value);
}

void gw_program_get_line(gw_reader *r, gw_program_line *line) {
    line->name = get_text(r);
    line->value = get_text(r);
}

/* The bodies of messages. */

static void put_options(gw_writer *w, const gw_program_options *options) {
    gw_put_u32(w, options->shards);
    gw_put_u64(w, options->updates);
    gw_put_u64(w, options->eval_every);
    gw_put_u32(w, options->eval_shards);
    gw_put_u32(w, options->parts);
    gw_put_f64(w, options->clip);
    gw_put_u8(w, options->flags);
    gw_put_u32(w, options->weight);
    gw_put_u32(w, options->workers);
    put_text(w, options->model_text);
    put_text(w, options->length_text);
    put_text(w, options->data_text);
}

static void get_options(gw_reader *r, gw_program_options *options) {
    options->shards = gw_get_u32(r);
    options->updates = gw_get_u64(r);
    options->eval_every = gw_get_u64(r);
    options->eval_shards = gw_get_u32(r);
    options->parts = gw_get_u32(r);
    options->clip = gw_get_f64(r);
    options->flags = get_up_to(r, GW_PROGRAM_HAS_ONCE | GW_PROGRAM_HAS_AFTER | GW_PROGRAM_ONCE_EVALUATED |
                                      GW_PROGRAM_TELLS_SAMPLES);
    options->weight = gw_get_u32(r);
    options->workers = gw_get_u32(r);
    options->model_text = get_text(r);
    options->length_text = get_text(r);
    options->data_text = get_text(r);
}

static void put_batch(gw_writer *w, const gw_program_batch *batch) {
    gw_put_u16(w, batch->count);
    gw_put_bytes(w, batch->entries.bytes, batch->entries.length);
}

/* Reads all entries, so that whoever reads them again finds them sound. */
static void get_batch(gw_reader *r, bool tensors, gw_program_batch *batch) {
    batch->count = gw_get_u16(r);
    const uint8_t *first = r->bytes + r->position;
    size_t length = gw_reader_left(r);
    for (uint32_t i = 0; i < batch->count && !r->failed; i++) {
        gw_program_tensor tensor;
        gw_program_line line;
        if (tensors)
            gw_program_get_tensor(r, &tensor);
        else
            gw_program_get_line(r, &line);
    }
    batch->entries = gw_reader_on(first, length);
}

static void put_place(gw_writer *w, const gw_program_place *place, bool with_phase) {
    gw_put_u64(w, place->step);
    gw_put_u64(w, place->update);
    if (with_phase) gw_put_u8(w, (uint8_t)place->phase);
    gw_put_u64(w, place->generation);
}

static gw_program_place get_place(gw_reader *r, bool with_phase) {
    gw_program_place place = {.step = gw_get_u64(r)};
    place.update = gw_get_u64(r);
    place.phase = with_phase ? get_between(r, GW_TRAIN, GW_EVALUATE) : GW_TRAIN;
    place.generation = gw_get_u64(r);
    return place;
}

static void put_from_peer(gw_writer *w, const gw_program_message *m) {
    switch ((int)m->kind) {
    case GW_PROGRAM_WELCOME:
        gw_put_u8(w, (uint8_t)m->welcome.role);
        gw_put_u8(w, m->welcome.leads);
        gw_put_u32(w, m->welcome.serial);
        gw_put_u32(w, m->welcome.threads);
        gw_put_u32(w, m->welcome.slot);
        gw_put_u64(w, m->welcome.seed);
        put_text(w, m->welcome.build);
        put_text(w, m->welcome.cpu_class);
        break;
    case GW_PROGRAM_ARENAS:
        gw_put_u64(w, m->arenas.state_bytes);
        gw_put_u64(w, m->arenas.own_bytes);
        break;
    case GW_PROGRAM_SHARD:
        put_place(w, &m->shard.place, true);
        gw_put_u32(w, m->shard.shard);
        gw_put_u32(w, m->shard.shards);
        break;
    case GW_PROGRAM_PART:
        put_place(w, &m->update.place, false);
        gw_put_u32(w, m->update.part);
        put_totals(w, &m->update.totals);
        break;
    case GW_PROGRAM_ONCE:
        put_place(w, &m->update.place, true);
        put_totals(w, &m->update.totals);
        put_reports(w, &m->update.reports);
        break;
    case GW_PROGRAM_AFTER:
        put_place(w, &m->update.place, true);
        put_reports(w, &m->update.reports);
        break;
    case GW_PROGRAM_FORK:
        gw_put_u32(w, m->fork.serial);
        break;
    case GW_PROGRAM_FINISH:
        gw_put_u64(w, m->finish.steps);
        gw_put_u64(w, m->finish.updates);
        gw_put_u64(w, m->finish.generation);
        put_reports(w, &m->finish.reports);
        break;
    }
}

static void get_from_peer(gw_reader *r, gw_program_message *m) {
    switch ((int)m->kind) {
    case GW_PROGRAM_WELCOME:
        m->welcome.role = get_between(r, GW_PROGRAM_FIRST, GW_PROGRAM_FORKED_WORKER);
        m->welcome.leads = get_up_to(r, 1) != 0;
        m->welcome.serial = gw_get_u32(r);
        m->welcome.threads = gw_get_u32(r);
        m->welcome.slot = gw_get_u32(r);
        m->welcome.seed = gw_get_u64(r);
        m->welcome.build = get_text(r);
        m->welcome.cpu_class = get_text(r);
        break;
    case GW_PROGRAM_ARENAS:
        m->arenas.state_bytes = gw_get_u64(r);
        m->arenas.own_bytes = gw_get_u64(r);
        break;
    case GW_PROGRAM_SHARD:
        m->shard.place = get_place(r, true);
        m->shard.shard = gw_get_u32(r);
        m->shard.shards = gw_get_u32(r);
        if (m->shard.shard >= m->shard.shards) r->failed = true;
        break;
    case GW_PROGRAM_PART:
        m->update.place = get_place(r, false);
        m->update.part = gw_get_u32(r);
        m->update.totals = get_totals(r);
        break;
    case GW_PROGRAM_ONCE:
        m->update.place = get_place(r, true);
        m->update.totals = get_totals(r);
        get_reports(r, &m->update.reports);
        break;
    case GW_PROGRAM_AFTER:
        m->update.place = get_place(r, true);
        get_reports(r, &m->update.reports);
        break;
    case GW_PROGRAM_FORK:
        m->fork.serial = gw_get_u32(r);
        break;
    case GW_PROGRAM_FINISH:
        m->finish.steps = gw_get_u64(r);
        m->finish.updates = gw_get_u64(r);
        m->finish.generation = gw_get_u64(r);
        get_reports(r, &m->finish.reports);
        break;
    }
}

static void put_from_worker(gw_writer *w, const gw_program_message *m) {
    switch ((int)m->kind) {
    case GW_PROGRAM_HELLO:
        gw_put_u32(w, m->hello.pid);
        put_text(w, m->hello.build);
        put_text(w, m->hello.about);
        break;
    case GW_PROGRAM_OPTIONS:
        put_options(w, &m->options);
        break;
    case GW_PROGRAM_TENSORS:
    case GW_PROGRAM_IDENTITY:
        put_batch(w, &m->batch);
        break;
    case GW_PROGRAM_DESCRIBED:
        gw_put_u8(w, m->described.can_fork);
        gw_put_u32(w, m->described.tensors);
        gw_put_u32(w, m->described.lines);
        break;
    case GW_PROGRAM_DONE:
        gw_put_u8(w, (uint8_t)m->done.request);
        break;
    case GW_PROGRAM_UPDATED:
        gw_put_u8(w, m->updated.stop);
        break;
    case GW_PROGRAM_FORKED:
        gw_put_u32(w, m->forked.serial);
        gw_put_u32(w, m->forked.pid);
        break;
    case GW_PROGRAM_ERROR:
        gw_put_u8(w, (uint8_t)m->error.fault);
        put_text(w, m->error.file);
        gw_put_u32(w, m->error.line);
        put_text(w, m->error.text);
        break;
    case GW_PROGRAM_LOG:
        gw_put_u8(w, m->log.level);
        put_text(w, m->log.text);
        break;
    case GW_PROGRAM_GONE:
        gw_put_u32(w, m->gone.serial);
        gw_put_u32(w, m->gone.status);
        break;
    case GW_PROGRAM_SAMPLED:
        gw_put_u16(w, m->sampled.count);
        gw_put_bytes(w, m->sampled.numbers.bytes, m->sampled.numbers.length);
        break;
    }
}

static void get_from_worker(gw_reader *r, gw_program_message *m) {
    switch ((int)m->kind) {
    case GW_PROGRAM_HELLO:
        m->hello.pid = gw_get_u32(r);
        m->hello.build = get_text(r);
        m->hello.about = get_text(r);
        break;
    case GW_PROGRAM_OPTIONS:
        get_options(r, &m->options);
        break;
    case GW_PROGRAM_TENSORS:
    case GW_PROGRAM_IDENTITY:
        get_batch(r, m->kind == GW_PROGRAM_TENSORS, &m->batch);
        break;
    case GW_PROGRAM_DESCRIBED:
        m->described.can_fork = get_up_to(r, 1) != 0;
        m->described.tensors = gw_get_u32(r);
        m->described.lines = gw_get_u32(r);
        break;
    case GW_PROGRAM_DONE:
        m->done.request = get_between(r, GW_PROGRAM_INIT, GW_PROGRAM_FINISH);
        break;
    case GW_PROGRAM_UPDATED:
        m->updated.stop = get_up_to(r, 1) != 0;
        break;
    case GW_PROGRAM_FORKED:
        m->forked.serial = gw_get_u32(r);
        m->forked.pid = gw_get_u32(r);
        break;
    case GW_PROGRAM_ERROR:
        m->error.fault = get_between(r, GW_PROGRAM_RAISED, GW_PROGRAM_UNABLE);
        m->error.file = get_text(r);
        m->error.line = gw_get_u32(r);
        m->error.text = get_text(r);
        if (m->error.text.length > GW_PROGRAM_TEXT_MOST) r->failed = true;
        break;
    case GW_PROGRAM_LOG:
        m->log.level = get_up_to(r, 3);
        m->log.text = get_text(r);
        break;
    case GW_PROGRAM_GONE:
        m->gone.serial = gw_get_u32(r);
        m->gone.status = gw_get_u32(r);
        break;
    case GW_PROGRAM_SAMPLED:
        m->sampled.count = gw_get_u16(r);
        if (m->sampled.count > GW_PROGRAM_SAMPLES_MOST) r->failed = true;
        m->sampled.numbers = gw_reader_on(r->bytes + r->position, m->sampled.count * sizeof(uint64_t));
        for (uint32_t i = 0; i < m->sampled.count && !r->failed; i++) (void)gw_get_u64(r);
        break;
    }
}

size_t gw_program_encode(const gw_program_message *message, uint8_t bytes[GW_PROGRAM_MESSAGE_MOST]) {
    GW_ASSERT(gw_program_kind_name(message->kind) != NULL);
    gw_writer w = gw_writer_on(bytes, GW_PROGRAM_MESSAGE_MOST);
    gw_put_u8(&w, GW_PROGRAM_VERSION);
    gw_put_u8(&w, (uint8_t)message->kind);
    if (message->kind < GW_PROGRAM_HELLO)
        put_from_peer(&w, message);
    else
        put_from_worker(&w, message);
    return w.failed ? 0 : w.length;
}

bool gw_program_decode(const uint8_t *bytes, size_t length, gw_program_message *message, gw_err *err) {
    gw_reader r = gw_reader_on(bytes, length);
    uint8_t version = gw_get_u8(&r), kind = gw_get_u8(&r);
    const char *name = gw_program_kind_name((gw_program_kind)kind);
    memset(message, 0, sizeof *message);
    if (length > GW_PROGRAM_MESSAGE_MOST || r.failed)
        return gw_fail(err, GW_E_INVALID, "a message of %zu bytes", length);
    /* The layout of ERROR is the same in every version, so that the other side can say why it ends. */
    if (version != GW_PROGRAM_VERSION && kind != GW_PROGRAM_ERROR)
        return gw_fail(err, GW_E_UNSUPPORTED,
                       "a message in version %u of the workers' protocol; this program speaks version %d: "
                       "install the same release of both",
                       version, GW_PROGRAM_VERSION);
    if (name == NULL) return gw_fail(err, GW_E_INVALID, "a message of the unknown kind %u", kind);
    message->kind = (gw_program_kind)kind;
    if (message->kind < GW_PROGRAM_HELLO)
        get_from_peer(&r, message);
    else
        get_from_worker(&r, message);
    return gw_reader_done(&r) ||
           gw_fail(err, GW_E_INVALID, "a message %s of %zu bytes is malformed", name, length);
}
