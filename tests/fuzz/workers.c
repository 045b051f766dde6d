/* Targets for the protocol between a peer and the workers of a program: single messages of both
 * directions, and the descriptions that a program sends. */
#include "kernels/program/description.h"
#include "tests/fuzz/target.h"

#include <stdlib.h>
#include <string.h>

static uint8_t room[GW_PROGRAM_MESSAGE_MOST];

static gw_program_tensor a_tensor(gw_role role, const char *name) {
    return (gw_program_tensor){.role = role,
                               .dtype = GW_PROGRAM_F32,
                               .flags = role == GW_SUMMED ? GW_PROGRAM_TRAIN | GW_PROGRAM_BY_SHARDS : 0,
                               .frac_bits = role == GW_SUMMED ? 40 : 0,
                               .rank = 2,
                               .dim = {3, 5},
                               .name = gw_program_text_of(name)};
}

static gw_program_message example(gw_program_kind kind) {
    static uint8_t entries[300];
    gw_program_message m = {.kind = kind};
    gw_program_text text = gw_program_text_of("layer.0.weight");
    gw_program_tensor state = a_tensor(GW_STATE, "weight"), sum = a_tensor(GW_SUMMED, "gradient");
    gw_writer w = gw_writer_on(entries, sizeof entries);
    switch ((int)kind) {
    case GW_PROGRAM_WELCOME:
        m.welcome = (gw_program_welcome){GW_PROGRAM_FIRST, true, 1, 1, 0, 1, text, text};
        break;
    case GW_PROGRAM_SHARD:
        m.shard.place = (gw_program_place){3, 2, GW_EVALUATE, 4};
        m.shard.shards = 4;
        break;
    case GW_PROGRAM_PART:
    case GW_PROGRAM_ONCE:
    case GW_PROGRAM_AFTER:
        m.update.place.phase = GW_TRAIN;
        m.update.reports.count = kind == GW_PROGRAM_PART ? 0 : 1;
        strcpy(m.update.reports.list[0].name, "val_loss");
        break;
    case GW_PROGRAM_HELLO:
        m.hello.build = m.hello.about = text;
        break;
    case GW_PROGRAM_OPTIONS:
        m.options = (gw_program_options){.shards = 4, .parts = 1, .weight = GW_PROGRAM_NO_WEIGHT};
        m.options.model_text = m.options.length_text = m.options.data_text = text;
        break;
    case GW_PROGRAM_TENSORS:
        gw_program_put_tensor(&w, &state);
        gw_program_put_tensor(&w, &sum);
        m.batch = (gw_program_batch){2, gw_reader_on(entries, w.length)};
        break;
    case GW_PROGRAM_IDENTITY:
        gw_program_put_line(&w, &(gw_program_line){text, text});
        m.batch = (gw_program_batch){1, gw_reader_on(entries, w.length)};
        break;
    case GW_PROGRAM_DESCRIBED:
        m.described.tensors = 2;
        m.described.lines = 1;
        break;
    case GW_PROGRAM_DONE:
        m.done.request = GW_PROGRAM_PART;
        break;
    case GW_PROGRAM_ERROR:
        m.error.fault = GW_PROGRAM_RAISED;
        m.error.file = m.error.text = text;
        break;
    case GW_PROGRAM_LOG:
        m.log.text = text;
        break;
    }
    return m;
}

/* Messages of both directions. */

static void message_examples(fuzz_add *add, void *context) {
    for (int kind = 0; kind < 256; kind++) {
        if (gw_program_kind_name((gw_program_kind)kind) == NULL) continue;
        gw_program_message m = example((gw_program_kind)kind);
        add(context, room, gw_program_encode(&m, room));
    }
}

/* What was decoded is written as it was read, except that an error of another version gets this one's. */
static bool take_message(const uint8_t *bytes, size_t count) {
    gw_program_message m;
    gw_err err = {.code = GW_OK};
    if (!gw_program_decode(bytes, count, &m, &err)) {
        GW_ASSERT(err.code != GW_OK && err.text[0] != '\0');
        return false;
    }
    size_t length = gw_program_encode(&m, room);
    GW_ASSERT(length == count && memcmp(room + 1, bytes + 1, count - 1) == 0);
    return true;
}

const fuzz_target fuzz_worker_message = {"worker_message", 200000, 400, message_examples, NULL, take_message};

/* Descriptions: messages, each after two bytes with its length. */

enum { HEAD = 2 };

static void description_examples(fuzz_add *add, void *context) {
    static const gw_program_kind kinds[] = {GW_PROGRAM_OPTIONS, GW_PROGRAM_TENSORS, GW_PROGRAM_IDENTITY,
                                            GW_PROGRAM_DESCRIBED};
    uint8_t bytes[1000];
    size_t used = 0;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        gw_program_message m = example(kinds[i]);
        size_t length = gw_program_encode(&m, room);
        GW_ASSERT(length > 0 && used + HEAD + length <= sizeof bytes);
        bytes[used] = (uint8_t)length;
        bytes[used + 1] = (uint8_t)(length >> 8);
        memcpy(bytes + used + HEAD, room, length);
        used += HEAD + length;
    }
    add(context, bytes, used);
}

/* A complete description has its tensors within the arenas, without an overlap. */
static void check_layout(const gw_program_description *d) {
    uint64_t state = 0, own = d->sum_count;
    for (uint32_t i = 0; i < d->array_count; i++) {
        const gw_program_array *array = &d->arrays[i];
        bool sum = i >= d->state_count;
        uint64_t *end = sum ? &own : &state;
        GW_ASSERT(array->at >= *end && array->at % GW_PROGRAM_ALIGN == 0);
        *end = array->at + array->bytes;
        GW_ASSERT(*end <= (sum ? d->sizes.own_bytes : d->sizes.state_bytes));
    }
    for (uint64_t step = 0; step < 5; step++) {
        gw_program_place place = gw_program_place_of(&d->options, step);
        uint32_t shards = gw_program_shards(&d->options, place.phase);
        GW_ASSERT(place.update <= step && shards >= 1 && shards <= GW_MAX_SHARDS);
    }
}

static bool take_description(const uint8_t *bytes, size_t count) {
    gw_program_description d = {0};
    gw_err err = {.code = GW_OK};
    bool good = true;
    for (size_t at = 0; good && count - at >= HEAD;) {
        size_t length = bytes[at] | (size_t)bytes[at + 1] << 8;
        at += HEAD;
        if (length > count - at) length = count - at;
        good = gw_program_description_add(&d, bytes + at, length, &err);
        GW_ASSERT(good || (err.code != GW_OK && err.text[0] != '\0'));
        at += length;
    }
    good = good && d.complete;
    if (good) check_layout(&d);
    gw_program_description_free(&d);
    return good;
}

const fuzz_target fuzz_description = {"description",        100000, 1000,
                                      description_examples, NULL,   take_description};
