/* The description of a program: what is laid out where, what each step is, and what is refused. */
#include "kernels/program/description.h"

#include <criterion/criterion.h>
#include <string.h>

static uint8_t bytes[GW_PROGRAM_MESSAGE_MOST], entries[4096];
static gw_program_description description;

/* A job with a parameter, its numbers, and the sums gradient, weight and loss. */
static gw_program_options options;
static gw_program_tensor tensors[5];
static gw_program_line lines[2];

static void prepare(void) {
    options = (gw_program_options){.shards = 24,
                                   .eval_shards = 5,
                                   .parts = 1,
                                   .weight = 1,
                                   .updates = 250,
                                   .eval_every = 100,
                                   .clip = 1,
                                   .model_text = {"", 0},
                                   .length_text = {"", 0},
                                   .data_text = {"", 0}};
    uint8_t both = GW_PROGRAM_TRAIN | GW_PROGRAM_EVALUATE;
    tensors[0] = (gw_program_tensor){.role = GW_STATE,
                                     .dtype = GW_PROGRAM_BF16,
                                     .rank = 2,
                                     .dim = {5, 7},
                                     .name = gw_program_text_of("weight")};
    tensors[1] = (gw_program_tensor){.role = GW_STATE,
                                     .dtype = GW_PROGRAM_U8,
                                     .rank = 1,
                                     .dim = {100},
                                     .part = GW_PROGRAM_ALIKE,
                                     .name = gw_program_text_of("numbers")};
    tensors[2] = (gw_program_tensor){.role = GW_SUMMED,
                                     .dtype = GW_PROGRAM_BF16,
                                     .flags = GW_PROGRAM_TRAIN | GW_PROGRAM_NORM | GW_PROGRAM_BY_WEIGHT,
                                     .frac_bits = 40,
                                     .rank = 2,
                                     .dim = {5, 7},
                                     .name = gw_program_text_of("weight.grad")};
    tensors[3] = (gw_program_tensor){.role = GW_SUMMED,
                                     .dtype = GW_PROGRAM_I64,
                                     .flags = both,
                                     .part = GW_PROGRAM_CONSTANT,
                                     .name = gw_program_text_of("tokens")};
    tensors[4] = (gw_program_tensor){.role = GW_SUMMED,
                                     .dtype = GW_PROGRAM_F64,
                                     .flags = (uint8_t)(both | GW_PROGRAM_REPORT | GW_PROGRAM_BY_WEIGHT),
                                     .frac_bits = 20,
                                     .part = GW_PROGRAM_ONCE_ONLY,
                                     .name = gw_program_text_of("loss")};
    lines[0] = (gw_program_line){gw_program_text_of("file:train.py"), gw_program_text_of("00ff")};
    lines[1] = (gw_program_line){gw_program_text_of("torch"), gw_program_text_of("2.7.1")};
}

static bool add(const gw_program_message *message, gw_err *err) {
    size_t length = gw_program_encode(message, bytes);
    return gw_program_description_add(&description, bytes, length, err);
}

static bool describe(gw_err *err) {
    gw_writer w = gw_writer_on(entries, sizeof entries);
    gw_program_message m = {.kind = GW_PROGRAM_OPTIONS, .options = options};
    if (!add(&m, err)) return false;
    for (size_t i = 0; i < 5; i++) gw_program_put_tensor(&w, &tensors[i]);
    m = (gw_program_message){.kind = GW_PROGRAM_TENSORS, .batch = {5, gw_reader_on(entries, w.length)}};
    if (!add(&m, err)) return false;
    w = gw_writer_on(entries, sizeof entries);
    for (size_t i = 0; i < 2; i++) gw_program_put_line(&w, &lines[i]);
    m = (gw_program_message){.kind = GW_PROGRAM_IDENTITY, .batch = {2, gw_reader_on(entries, w.length)}};
    if (!add(&m, err)) return false;
    m = (gw_program_message){.kind = GW_PROGRAM_DESCRIBED};
    m.described.tensors = 5;
    m.described.lines = 2;
    return add(&m, err);
}

TestSuite(description, .init = prepare);

Test(description, tensors_lie_at_multiples_of_64_bytes) {
    gw_err err = {0};
    cr_assert(describe(&err), "%s", err.text);
    cr_assert(description.complete);
    const gw_program_array *a = description.arrays;
    cr_assert_eq(a[0].at, 0);
    cr_assert_eq(a[1].at, 128); /* 70 bytes before it */
    cr_assert_eq(description.sizes.state_bytes, 256);
    cr_assert_eq(a[2].at, 64); /* behind three presence bytes */
    cr_assert_eq(a[3].at, 192);
    cr_assert_eq(a[4].at, 256);
    cr_assert_eq(a[1].copy, 320);
    cr_assert_eq(description.sizes.own_bytes, 448);
    gw_program_description_free(&description);
}

Test(description, evaluations_come_after_so_many_updates_and_at_the_end) {
    cr_assert_eq(gw_program_steps(&options), 253);
    gw_program_place place = gw_program_place_of(&options, 99);
    cr_assert(place.phase == GW_TRAIN && place.update == 99);
    place = gw_program_place_of(&options, 100);
    cr_assert(place.phase == GW_EVALUATE && place.update == 100);
    place = gw_program_place_of(&options, 101);
    cr_assert(place.phase == GW_TRAIN && place.update == 100);
    place = gw_program_place_of(&options, 251);
    cr_assert(place.phase == GW_TRAIN && place.update == 249);
    place = gw_program_place_of(&options, 252);
    cr_assert(place.phase == GW_EVALUATE && place.update == 250);
    place = gw_program_place_of(&options, 253);
    cr_assert_eq(place.update, 250, "behind the last step");
    options.updates = 0;
    cr_assert_eq(gw_program_steps(&options), 0);
    place = gw_program_place_of(&options, 302);
    cr_assert(place.phase == GW_EVALUATE && place.update == 300);
    options.eval_every = 0;
    place = gw_program_place_of(&options, 302);
    cr_assert(place.phase == GW_TRAIN && place.update == 302);
}

static void refuse(const char *part_of_text) {
    gw_err err = {0};
    cr_assert_not(describe(&err), "%s", part_of_text);
    cr_assert_not(description.complete);
    cr_assert_not_null(strstr(err.text, part_of_text), "'%s' is not in '%s'", part_of_text, err.text);
    gw_program_description_free(&description);
    prepare();
}

Test(description, what_contradicts_itself_is_refused_by_name) {
    options.shards = 0;
    refuse("0 shards");
    options.eval_shards = 0;
    refuse("every 100 updates has 0 shards");
    options.parts = 0;
    refuse("0 parts");
    options.clip = -1;
    refuse("norm of -1");
    options.weight = 3;
    refuse("sum 3 of 3");
    options.weight = 0;
    refuse("sum 'weight.grad': a weight");
    options.data_text = gw_program_text_of("two\nlines");
    refuse("text 3");
    tensors[0].part = 1;
    refuse("state tensor 'weight': its part");
    tensors[0].dim[1] = 0;
    refuse("a dimension is 0");
    tensors[0].dim[1] = UINT64_C(1) << 60;
    refuse("too large");
    tensors[0].flags = 2;
    refuse("of a sum");
    tensors[0].name = gw_program_text_of("godwit.x");
    refuse("are the peer's");
    tensors[0].role = GW_SUMMED;
    refuse("comes after a sum");
    tensors[2].dtype = GW_PROGRAM_I32;
    refuse("sum 'weight.grad': a sum is f32");
    tensors[2].flags = GW_PROGRAM_NORM | GW_PROGRAM_TRAIN;
    refuse("a gradient is divided");
    tensors[2].flags = GW_PROGRAM_BY_WEIGHT;
    refuse("flags");
    tensors[2].frac_bits = 53;
    refuse("52 fraction bits");
    tensors[4].name = gw_program_text_of("val_loss");
    refuse("the name of a report");
    tensors[4].rank = 1;
    tensors[4].dim[0] = 2;
    refuse("one element");
    lines[0].name = gw_program_text_of("a=b");
    refuse("line 0");
    lines[1].name = lines[0].name;
    refuse("ascending");
    lines[1].value = gw_program_text_of("\x1b[2J");
    refuse("line 1");
}

Test(description, messages_out_of_order_are_refused) {
    gw_err err = {0};
    gw_program_message m = {.kind = GW_PROGRAM_DESCRIBED};
    cr_assert_not(add(&m, &err));
    gw_program_description_free(&description);
    m = (gw_program_message){.kind = GW_PROGRAM_OPTIONS, .options = options};
    cr_assert(add(&m, &err));
    cr_assert_not(add(&m, &err));
    m = (gw_program_message){.kind = GW_PROGRAM_LEAVE};
    cr_assert_not(add(&m, &err));
    m = (gw_program_message){.kind = GW_PROGRAM_DESCRIBED};
    m.described.tensors = 1;
    cr_assert_not(add(&m, &err));
    gw_program_description_free(&description);
}

Test(description, what_differs_between_two_processes_is_named) {
    gw_err err = {0};
    cr_assert(describe(&err));
    gw_program_description first = description;
    description = (gw_program_description){0};
    cr_assert(describe(&err));
    cr_assert(gw_program_description_compare(&first, &description, &err));
    gw_program_description_free(&description);
    lines[1].value = gw_program_text_of("2.8");
    cr_assert(describe(&err));
    cr_assert_not(gw_program_description_compare(&first, &description, &err));
    cr_assert_str_eq(err.text, "torch=2.7.1, and then torch=2.8");
    gw_program_description_free(&description);
    tensors[0].dim[0] = 6;
    cr_assert(describe(&err));
    cr_assert_not(gw_program_description_compare(&first, &description, &err));
    cr_assert_not_null(strstr(err.text, "'weight' with another shape"), "%s", err.text);
    gw_program_description_free(&description);
    gw_program_description_free(&first);
}
