/* The codec of the workers' protocol: each message comes back as it was, and nothing else is read. */
#include "kernels/program/protocol.h"

#include <criterion/criterion.h>
#include <string.h>

static uint8_t bytes[GW_PROGRAM_MESSAGE_MOST], again[GW_PROGRAM_MESSAGE_MOST];

static gw_program_message decoded(const gw_program_message *message) {
    gw_program_message back;
    gw_err err = {0};
    size_t length = gw_program_encode(message, bytes);
    cr_assert_gt(length, 0);
    cr_assert(gw_program_decode(bytes, length, &back, &err), "%s", err.text);
    cr_assert_eq(back.kind, message->kind);
    cr_assert_eq(gw_program_encode(&back, again), length);
    cr_assert_arr_eq(bytes, again, length);
    return back;
}

static gw_program_message example(gw_program_kind kind) {
    gw_program_message m = {.kind = kind};
    gw_program_text text = gw_program_text_of("gr\xc3\xbc\xc3\x9f"),
                    name = gw_program_text_of("layer.0.weight");
    static uint8_t entries[200];
    gw_writer w = gw_writer_on(entries, sizeof entries);
    switch ((int)kind) {
    case GW_PROGRAM_WELCOME:
        m.welcome = (gw_program_welcome){GW_PROGRAM_WORKER, true, 3, 2, 1, UINT64_MAX - 1, text, name};
        break;
    case GW_PROGRAM_ARENAS:
        m.arenas = (gw_program_sizes){640, 128};
        break;
    case GW_PROGRAM_SHARD:
        m.shard.place = (gw_program_place){7, 6, GW_EVALUATE, 5};
        m.shard.shard = 2;
        m.shard.shards = 3;
        break;
    case GW_PROGRAM_PART:
    case GW_PROGRAM_ONCE:
    case GW_PROGRAM_AFTER:
        m.update.place = (gw_program_place){9, 8, kind == GW_PROGRAM_ONCE ? GW_EVALUATE : GW_TRAIN, 77};
        m.update.part = kind == GW_PROGRAM_PART ? 5 : 0;
        if (kind != GW_PROGRAM_AFTER) m.update.totals = (gw_program_totals){24, 6144, 0.5, -0.0};
        m.update.reports.count = kind == GW_PROGRAM_PART ? 0 : 2;
        strcpy(m.update.reports.list[0].name, "loss");
        strcpy(m.update.reports.list[1].name, "val_abcdefghijklmnopqrstuvwxyz0");
        m.update.reports.list[1].value = 1e300;
        break;
    case GW_PROGRAM_FORK:
        m.fork.serial = 4;
        break;
    case GW_PROGRAM_FINISH:
        m.finish.steps = 10;
        m.finish.updates = 9;
        m.finish.generation = 300;
        break;
    case GW_PROGRAM_HELLO:
        m.hello.pid = 4711;
        m.hello.build = name;
        m.hello.about = text;
        break;
    case GW_PROGRAM_OPTIONS:
        m.options =
            (gw_program_options){24, 5, 3, 1, 2000, 100, 1.5, GW_PROGRAM_HAS_AFTER, 8, text, name, text};
        break;
    case GW_PROGRAM_TENSORS:
        gw_program_put_tensor(&w, &(gw_program_tensor){.role = GW_SUMMED,
                                                       .dtype = GW_PROGRAM_F16,
                                                       .flags = GW_PROGRAM_TRAIN,
                                                       .frac_bits = 40,
                                                       .rank = 2,
                                                       .part = GW_PROGRAM_ALIKE,
                                                       .dim = {3, 4},
                                                       .name = name});
        m.batch = (gw_program_batch){1, gw_reader_on(entries, w.length)};
        break;
    case GW_PROGRAM_IDENTITY:
        gw_program_put_line(&w, &(gw_program_line){name, text});
        gw_program_put_line(&w, &(gw_program_line){text, name});
        m.batch = (gw_program_batch){2, gw_reader_on(entries, w.length)};
        break;
    case GW_PROGRAM_DESCRIBED:
        m.described.can_fork = true;
        m.described.tensors = 1;
        m.described.lines = 2;
        break;
    case GW_PROGRAM_DONE:
        m.done.request = GW_PROGRAM_SHARD;
        break;
    case GW_PROGRAM_UPDATED:
        m.updated.stop = true;
        break;
    case GW_PROGRAM_FORKED:
        m.forked.serial = 4;
        m.forked.pid = 99;
        break;
    case GW_PROGRAM_ERROR:
        m.error.fault = GW_PROGRAM_UNABLE;
        m.error.file = name;
        m.error.line = 12;
        m.error.text = gw_program_text_of("Traceback:\n  ValueError");
        break;
    case GW_PROGRAM_LOG:
        m.log.level = 2;
        m.log.text = text;
        break;
    case GW_PROGRAM_GONE:
        m.gone.serial = 4;
        m.gone.status = 9;
        break;
    case GW_PROGRAM_SAMPLED:
        gw_put_u64(&w, 17);
        gw_put_u64(&w, UINT64_MAX);
        m.sampled.count = 2;
        m.sampled.numbers = gw_reader_on(entries, w.length);
        break;
    }
    return m;
}

static bool is_kind(int kind) {
    return gw_program_kind_name((gw_program_kind)kind) != NULL;
}

Test(protocol, every_message_comes_back_as_it_was) {
    int kinds = 0;
    for (int kind = 0; kind < 256; kind++) {
        if (!is_kind(kind)) continue;
        gw_program_message m = example((gw_program_kind)kind);
        (void)decoded(&m);
        kinds++;
    }
    cr_assert_eq(kinds, 23);
}

Test(protocol, fields_have_their_places) {
    gw_program_message m = example(GW_PROGRAM_SHARD), back = decoded(&m);
    const uint8_t expected[] = {1, 4, 7, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0,
                                2, 5, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0};
    cr_assert_eq(gw_program_encode(&m, bytes), sizeof expected);
    cr_assert_arr_eq(bytes, expected, sizeof expected);
    cr_assert_eq(back.shard.place.phase, GW_EVALUATE);
    m = example(GW_PROGRAM_ONCE);
    back = decoded(&m);
    cr_assert_eq(back.update.totals.weight, 6144);
    cr_assert_eq(back.update.place.phase, GW_EVALUATE);
    cr_assert_str_eq(back.update.reports.list[1].name, "val_abcdefghijklmnopqrstuvwxyz0");
    m = example(GW_PROGRAM_TENSORS);
    back = decoded(&m);
    gw_program_tensor tensor;
    gw_program_get_tensor(&back.batch.entries, &tensor);
    cr_assert(gw_reader_done(&back.batch.entries));
    cr_assert_eq(tensor.dim[1], 4);
    cr_assert_eq(tensor.part, GW_PROGRAM_ALIKE);
    char name[8];
    cr_assert_str_eq(gw_program_text_copy(tensor.name, name, sizeof name), "layer.0");
}

Test(protocol, a_cut_or_longer_message_is_none) {
    for (int kind = 0; kind < 256; kind++) {
        if (!is_kind(kind)) continue;
        gw_program_message m = example((gw_program_kind)kind), back;
        gw_err err;
        size_t length = gw_program_encode(&m, bytes);
        bytes[length] = 0;
        cr_assert_not(gw_program_decode(bytes, length + 1, &back, &err), "%s", gw_program_kind_name(m.kind));
        for (size_t cut = 0; cut < length; cut++)
            cr_assert_not(gw_program_decode(bytes, cut, &back, &err), "%s cut to %zu bytes",
                          gw_program_kind_name(m.kind), cut);
    }
}

static void refuse(gw_program_message m, size_t at, uint8_t value, gw_code code) {
    gw_program_message back;
    gw_err err = {0};
    size_t length = gw_program_encode(&m, bytes);
    bytes[at] = value;
    cr_assert_not(gw_program_decode(bytes, length, &back, &err), "byte %zu of %s as %u", at,
                  gw_program_kind_name(m.kind), value);
    cr_assert_eq(err.code, code, "%s", err.text);
}

Test(protocol, values_out_of_range_are_refused) {
    refuse(example(GW_PROGRAM_LEAVE), 0, 2, GW_E_UNSUPPORTED);
    refuse(example(GW_PROGRAM_LEAVE), 1, 12, GW_E_INVALID);
    refuse(example(GW_PROGRAM_SAMPLED), 2, 3, GW_E_INVALID);    /* more samples than there are numbers */
    refuse(example(GW_PROGRAM_SAMPLED), 3, 0x20, GW_E_INVALID); /* more than a message may have */
    refuse(example(GW_PROGRAM_WELCOME), 2, 0, GW_E_INVALID);
    refuse(example(GW_PROGRAM_WELCOME), 2, 4, GW_E_INVALID);
    refuse(example(GW_PROGRAM_WELCOME), 3, 2, GW_E_INVALID);
    refuse(example(GW_PROGRAM_SHARD), 18, 3, GW_E_INVALID);   /* the phase */
    refuse(example(GW_PROGRAM_SHARD), 27, 3, GW_E_INVALID);   /* shard 3 of 3 */
    refuse(example(GW_PROGRAM_TENSORS), 4, 3, GW_E_INVALID);  /* the role */
    refuse(example(GW_PROGRAM_TENSORS), 5, 11, GW_E_INVALID); /* the dtype */
    refuse(example(GW_PROGRAM_TENSORS), 12, 9, GW_E_INVALID); /* the rank */
    refuse(example(GW_PROGRAM_DONE), 2, GW_PROGRAM_WELCOME, GW_E_INVALID);
    refuse(example(GW_PROGRAM_ERROR), 2, 4, GW_E_INVALID);
    refuse(example(GW_PROGRAM_LOG), 2, 4, GW_E_INVALID);
    refuse(example(GW_PROGRAM_LOG), 5, 0, GW_E_INVALID);    /* a NUL */
    refuse(example(GW_PROGRAM_LOG), 5, 0x80, GW_E_INVALID); /* not UTF-8 */
}

Test(protocol, an_error_is_read_in_any_version) {
    gw_program_message m = example(GW_PROGRAM_ERROR), back;
    gw_err err;
    size_t length = gw_program_encode(&m, bytes);
    bytes[0] = 77;
    cr_assert(gw_program_decode(bytes, length, &back, &err));
    cr_assert_eq(back.error.line, 12);
}

Test(protocol, what_is_too_long_is_not_written) {
    static char text[70000];
    memset(text, 'x', sizeof text - 1);
    gw_program_message m = {.kind = GW_PROGRAM_LOG};
    m.log.text = (gw_program_text){text, 65535};
    cr_assert_eq(gw_program_encode(&m, bytes), 0);
    m.log.text.length = 70000;
    cr_assert_eq(gw_program_encode(&m, bytes), 0);
    m.log.text.length = 60000;
    cr_assert_gt(gw_program_encode(&m, bytes), 0);
    gw_err err;
    cr_assert_not(gw_program_decode(bytes, GW_PROGRAM_MESSAGE_MOST + 1, &m, &err));
}
