/* Control messages: pinned bytes, and nothing malformed gets through. */
#include "core/brain/message.h"
#include "core/rng.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static gw_view small_view(void) {
    gw_view view = {.epoch = 9, .leader = {{1}}, .count = 2};
    view.members[0] = (gw_member){.id = {{1}}, .boot = 3, .nonce = 4};
    view.members[1] = (gw_member){.id = {{2}}, .boot = 5, .nonce = 6};
    gw_view_seal(&view);
    return view;
}

static gw_install *small_install(void) {
    gw_install *i = calloc(1, sizeof *i);
    i->view = small_view();
    i->step = 17;
    i->fingerprint = 99;
    i->load = GW_LOAD_MANIFEST;
    i->end_given_up = true;
    i->whole_step = 16;
    i->found_step = 17;
    i->root_epoch = 5;
    i->fetchers = gw_set_of(2);
    i->drops = gw_set_of(2);
    i->unwritable = gw_set_of(2);
    i->missing = gw_set_of(5);
    gw_set_add(&i->fetchers, 1);
    gw_set_add(&i->missing, 4);
    i->cuts[1] = 1;
    i->cuts[2] = 1;
    for (int k = 0; k < 2; k++) i->inventories[k] = gw_set_of(3);
    strcpy(i->cause, "why");
    return i;
}

/* A message of any kind, filled with values of which no two beside each other are alike. */
static gw_message sample(gw_message_kind kind, gw_view *view, gw_install *install, gw_report *report) {
    static uint32_t chunks[] = {1, 5};
    static gw_hash hashes[2] = {{{7}}, {{8}}};
    static char text[] = "job=digits\nlr=0.1\n";
    gw_message m = {.kind = kind, .job = {{0x11}}, .epoch = 9, .name = {{0x22}}};
    const gw_view_ref ref = {8, {{0x33}}};
    const gw_hash root = {{0x66}};
    enum { STEP = 17, VALUE = 42, SHARD = 3 };
    switch (kind) {
    case GW_MSG_HELLO:
        m.hello.identity = text;
        m.hello.probe = VALUE;
        m.hello.ways = 6;
        m.hello.has_view = true;
        break;
    case GW_MSG_PROPOSE:
        m.propose.view = view;
        m.propose.base = ref;
        m.propose.listed = view;
        m.propose.listed_count = 1;
        m.propose.absorbed[m.propose.absorbed_count++] = (gw_view_name){{0x44}};
        m.propose.check_state = true;
        break;
    case GW_MSG_VOTE:
        m.vote.report = report;
        break;
    case GW_MSG_REFUSE:
        m.refuse.why = GW_REFUSE_STALE;
        m.refuse.highest_epoch = VALUE;
        m.refuse.given_up_since = 41;
        m.refuse.listed = view;
        m.refuse.listed_count = 1;
        m.refuse.lived = true;
        m.refuse.state = ref;
        m.refuse.unlinked = (gw_peer_id){{0x55}};
        break;
    case GW_MSG_INSTALL:
        m.install.install = install;
        break;
    case GW_MSG_READY:
        m.ready.whole = (gw_checkpoint_ref){STEP, root};
        break;
    case GW_MSG_REPAIR:
        m.repair.reason = text;
        m.repair.check_state = true;
        break;
    case GW_MSG_JOIN:
        m.join.newcomers = view;
        m.join.step = VALUE;
        m.join.whole_view = true;
        break;
    case GW_MSG_VIEW:
        m.view.view = view;
        break;
    case GW_MSG_STORED:
        m.stored.step = STEP;
        m.stored.fingerprint = VALUE;
        m.stored.unwritable = true;
        m.stored.chunks = chunks;
        m.stored.hashes = hashes;
        m.stored.count = 2;
        break;
    case GW_MSG_MANIFEST:
        m.manifest.step = STEP;
        m.manifest.fingerprint = VALUE;
        m.manifest.incomplete = true;
        m.manifest.hashes = hashes;
        m.manifest.count = 2;
        break;
    case GW_MSG_RECORDED: /* with what it reserves, which a reader keeps */
        m.recorded.step = STEP;
        m.recorded.reserved = VALUE;
        m.recorded.root = root;
        m.recorded.unwritten = true;
        break;
    case GW_MSG_COMPLETE:
        m.complete.step = STEP;
        m.complete.reserved = VALUE;
        m.complete.root = root;
        m.complete.reserved_flag = true;
        break;
    case GW_MSG_END:
        m.end.step = STEP;
        m.end.fingerprint = VALUE;
        m.end.root = root;
        m.end.stopped = true;
        break;
    case GW_MSG_CLAIM:
        m.claim.step = STEP;
        m.claim.worker = 1;
        m.claim.shard = SHARD;
        break;
    case GW_MSG_WITNESS:
        m.witness.step = STEP;
        m.witness.shard = SHARD;
        m.witness.fingerprint = VALUE;
        break;
    case GW_MSG_FELL:
        m.fell.step = STEP;
        m.fell.shard_plus_1 = SHARD;
        m.fell.blameless = true;
        break;
    case GW_MSG_HALT:
        m.halt.step = STEP;
        m.halt.reason = text;
        break;
    case GW_MSG_ASK_VIEW:
    case GW_MSG_ASK_STOP:
    case GW_MSG_ASK_SAVE:
        break;
    }
    return m;
}

Test(message, every_kind_survives_the_wire_and_no_prefix_or_extension_does) {
    gw_view view = small_view();
    gw_install *install = small_install();
    gw_report report = {
        .has_state = true,
        .promised_epoch = 7,
        .promised = {{9}},
        .step = 17,
        .whole_step = 16,
        .held = gw_set_of(5),
        .claimed = gw_set_of(5),
        .convictions = {.count = 1, .list = {{.id = {{7}}, .epoch = 5, .step = 3, .boot = 2}}},
        .recorded_epoch = 6,
        .path_errors = {.count = 3, .from = {{{8}}, {{7}}}, .epoch = {5, 4}, .boot = {2, 1}},
        .heard_epoch = 3,
        .inventory_count = 1};
    report.inventory[0].chunks = gw_set_of(3);
    report.inventory[0].epoch = 6;
    report.inventory[0].ignored = true;
    report.lineage = (gw_lineage){.count = 2, .list = {{12, {{1}}}, {8, {{2}}}}};
    install->lineage = report.lineage;
    install->convictions = report.convictions;
    install->spared = calloc(2, sizeof *install->spared);
    install->spared[install->spared_count++] = (gw_hash){{5}};
    install->spared[install->spared_count++] = (gw_hash){{6}};
    for (int kind = GW_MSG_HELLO; kind <= GW_MSG_HALT; kind++) {
        gw_message m = sample((gw_message_kind)kind, &view, install, &report), back;
        uint8_t *bytes, *again;
        gw_err err;
        size_t length = gw_message_encode(&m, &bytes);
        cr_assert(gw_message_decode(bytes, length, &back, &err), "%s: %s", gw_message_name(m.kind), err.text);
        cr_assert(kind != GW_MSG_INSTALL ||
                  (back.install.install->end_given_up && back.install.install->whole_step == 16 &&
                   back.install.install->found_step == 17));
        cr_assert(kind != GW_MSG_INSTALL || back.install.install->root_epoch == 5);
        cr_assert(kind != GW_MSG_REFUSE ||
                  (back.refuse.highest_epoch == 42 && back.refuse.given_up_since == 41));
        cr_assert(kind != GW_MSG_VOTE ||
                  (back.vote.report->whole_step == 16 && back.vote.report->recorded_epoch == 6 &&
                   back.vote.report->path_errors.count == 3 && back.vote.report->path_errors.epoch[0] == 5 &&
                   gw_peer_id_equal(&back.vote.report->path_errors.from[1], &(gw_peer_id){{7}}) &&
                   back.vote.report->path_errors.epoch[1] == 4 &&
                   back.vote.report->path_errors.boot[0] == 2 && back.vote.report->path_errors.boot[1] == 1 &&
                   back.vote.report->heard_epoch == 3));
        const gw_convictions *convictions = kind == GW_MSG_VOTE      ? &back.vote.report->convictions
                                            : kind == GW_MSG_INSTALL ? &back.install.install->convictions
                                                                     : NULL;
        cr_assert(convictions == NULL || (convictions->count == 1 && convictions->list[0].epoch == 5 &&
                                          convictions->list[0].step == 3 && convictions->list[0].boot == 2 &&
                                          gw_convictions_of(convictions, &(gw_peer_id){{7}}) != NULL));
        cr_assert(kind != GW_MSG_INSTALL ||
                  (back.install.install->spared_count == 2 && back.install.install->spared[1].bytes[0] == 6));
        const gw_inventory *told = kind == GW_MSG_VOTE ? &back.vote.report->inventory[0] : NULL;
        cr_assert(told == NULL || (told->epoch == 6 && told->ignored && !told->ended));
        size_t again_length = gw_message_encode(&back, &again);
        cr_assert_eq(again_length, length);
        cr_assert_arr_eq(again, bytes, length, "%s", gw_message_name(m.kind));
        gw_message_free(&back);
        for (size_t cut = 0; cut < length; cut++) {
            uint8_t *part = malloc(cut + 1); /* exact size: a read past it shows under a sanitizer */
            memcpy(part, bytes, cut);
            cr_assert(!gw_message_decode(part, cut, &back, &err), "%s cut at %zu", gw_message_name(m.kind),
                      cut);
            free(part);
        }
        uint8_t *longer = calloc(length + 1, 1);
        memcpy(longer, bytes, length);
        cr_assert(!gw_message_decode(longer, length + 1, &back, &err));
        free(longer);
        free(bytes);
        free(again);
    }
    gw_install_free(install);
    gw_set_free(&report.held);
    gw_set_free(&report.claimed);
    gw_set_free(&report.inventory[0].chunks);
}

static gw_install *large_install(uint64_t of) {
    gw_rng rng = gw_rng_seeded(of);
    gw_install *i = calloc(1, sizeof *i);
    i->view = (gw_view){.epoch = 9, .count = GW_MAX_MEMBERS};
    for (uint32_t k = 0; k < GW_MAX_MEMBERS; k++) {
        i->view.members[k] = (gw_member){.id = {{(uint8_t)k, 1}}, .boot = 1};
        i->inventories[k] = gw_set_of(GW_MAX_CHUNKS);
        for (uint32_t c = 0; c < GW_MAX_CHUNKS; c++)
            if (gw_rng_below(&rng, of) == 0) gw_set_add(&i->inventories[k], c);
    }
    i->view.leader = i->view.members[0].id;
    gw_view_seal(&i->view);
    i->load = GW_LOAD_MANIFEST;
    i->fetchers = gw_set_of(GW_MAX_MEMBERS);
    i->drops = gw_set_of(GW_MAX_MEMBERS);
    i->unwritable = gw_set_of(GW_MAX_MEMBERS);
    return i;
}

Test(message, an_installation_of_the_largest_state_by_the_most_members_fits) {
    for (uint64_t of = 2; of <= 16; of *= 8) {
        gw_install *install = large_install(of);
        gw_message m = sample(GW_MSG_INSTALL, NULL, install, NULL), back;
        uint8_t *bytes;
        gw_err err;
        size_t length = gw_message_encode(&m, &bytes);
        cr_assert_leq(length, (size_t)GW_MESSAGE_BYTES);
        cr_assert(gw_message_decode(bytes, length, &back, &err), "%s", err.text);
        for (uint32_t k = 0; k < GW_MAX_MEMBERS; k++)
            cr_assert_arr_eq(back.install.install->inventories[k].words, install->inventories[k].words,
                             GW_MAX_CHUNKS / 8);
        gw_message_free(&back);
        free(bytes);
        gw_install_free(install);
    }
}

Test(message, flipped_bits_never_crash_the_reader) {
    gw_view view = small_view();
    gw_install *install = small_install();
    gw_message m = sample(GW_MSG_INSTALL, &view, install, NULL), back;
    uint8_t *bytes;
    gw_err err;
    size_t length = gw_message_encode(&m, &bytes), refused = 0;
    for (size_t bit = 0; bit < 8 * length; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        if (gw_message_decode(bytes, length, &back, &err))
            gw_message_free(&back);
        else
            refused++;
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    cr_assert_gt(refused, 8 * 100, "the view's name alone protects that many bits");
    free(bytes);
    gw_install_free(install);
}

/* A report and an installation whose fields all differ, so that two fields that change places show. */
static gw_report full_report(void) {
    gw_report report = {
        .has_state = true,
        .stopped = true,
        .load_failed = true,
        .step = 0x0101,
        .fingerprint = 0x0102,
        .whole_step = 0x0103,
        .whole_root = {{0xA1}},
        .lineage = {.count = 2, .list = {{12, {{0xA2}}}, {8, {{0xA3}}}}},
        .best = {.any = true,
                 .value = 2.5,
                 .step = 0x0100,
                 .waited = 0x011A,
                 .kept = {0xFF, {{0xAD}}},
                 .kept_value = -0.5},
        .installed_epoch = 0x0104,
        .installed = {{0xA4}},
        .promised_epoch = 0x0105,
        .promised = {{0xA5}},
        .held = gw_set_of(5),
        .claimed = gw_set_of(5),
        .failures = 0x0106,
        .speed = 0x0107,
        .accused = {{{0xA6}}, {{0xA7}}},
        .path_errors = {.count = 0x0108,
                        .of_two = 0x0109,
                        .arrangement = 0x010A,
                        .from = {{{0xA8}}, {{0xA9}}},
                        .epoch = {0x010B, 0x010C},
                        .boot = {0x010D, 0x010E}},
        .heard_epoch = 0x010F,
        .convictions = {.count = 1,
                        .list = {{.id = {{0xAA}}, .epoch = 0x0110, .step = 0x0111, .boot = 0x0112}}},
        .recorded_epoch = 0x0113,
        .losses = {.count = 1, .list = {{.id = {{0xAB}}, .boot = 0x0114, .step = 0x0115, .shard = 0x0116}}},
        .inventory_count = 1};
    gw_set_add(&report.held, 1);
    gw_set_add(&report.claimed, 3);
    report.inventory[0] = (gw_inventory){.epoch = 0x0117,
                                         .step = 0x0118,
                                         .root = {{0xAC}},
                                         .fingerprint = 0x0119,
                                         .ignored = true,
                                         .chunks = gw_set_of(3)};
    gw_set_add(&report.inventory[0].chunks, 2);
    return report;
}

static gw_install *full_install(void) {
    gw_install *i = small_install();
    i->step = 0x0201;
    i->fingerprint = 0x0202;
    i->whole_step = 0x0103;
    i->whole_root = (gw_hash){{0xB1}};
    i->found_step = 0x0104;
    i->found_root = (gw_hash){{0xB2}};
    i->lineage = (gw_lineage){.count = 1, .list = {{12, {{0xB3}}}}};
    i->best = (gw_best){.any = true, .value = 3, .step = 9, .waited = 0x020F, .kept = {7, {{0xB8}}}};
    i->stopped = true;
    i->failures = 0x0205;
    i->arrangement = 0x0206;
    i->root = (gw_hash){{0xB4}};
    i->root_epoch = 0x0207;
    gw_set_add(&i->drops, 0);
    gw_set_fill(&i->unwritable);
    gw_set_add(&i->inventories[0], 1);
    gw_set_add(&i->inventories[1], 2);
    i->losses = (gw_shard_deaths){
        .count = 1, .list = {{.id = {{0xB5}}, .boot = 0x0208, .step = 0x0209, .shard = 0x020A}}};
    i->convictions = (gw_convictions){
        .count = 1, .list = {{.id = {{0xB6}}, .epoch = 0x020B, .step = 0x020C, .boot = 0x020D}}};
    i->spared = calloc(1, sizeof *i->spared);
    i->spared[i->spared_count++] = (gw_hash){{0xB7}};
    i->cause_age_ns = 0x020E;
    return i;
}

/* What follows the header of each kind: bytes in hexadecimal, and 0*N for N zeros. */
#define A_VIEW                                                                                               \
    "ae9b3d15192383c12f5ee4a006cca8eb09 0*23 01 0*47 02 0*3 01 0*15 03 0*7 04 0*7 02 0*15 05 0*7 "           \
    "06 0*7 "
static const char *const pinned_bodies[] = {
    [GW_MSG_HELLO] = "12006a6f623d6469676974730a6c723d302e310a2a 0*7 06 0*3 01",
    [GW_MSG_PROPOSE] = A_VIEW "08 0*7 33 0*15 01 0*3 " A_VIEW "01 0*3 44 0*15 01",
    [GW_MSG_VOTE] =
        "a90101 0*6 0201 0*6 0301 0*6 a1 0*31 02 0*3 0c 0*7 a2 0*31 08 0*7 a3 0*31 "
        "01 0*6 0440 0001 0*6 1a010000 ff 0*7 ad 0*31 0*6 e0bf 0401 0*6 a4 "
        "0*15 0501 0*6 a5 0*15 05 0*3 01 0*3 01 0*3 01 0*3 05 0*3 01 0*3 03 0*3 01 0*3 "
        "060100000701 0*6 a6 0*15 a7 0*15 08010000090100000a010000a8 0*15 0b01 0*6 0d01 0*6 a9 "
        "0*15 0c01 0*6 0e01 0*6 0f01 0*6 01 0*3 aa 0*15 1001 0*6 1201 0*6 1101 0*6 1301 0*6 01 "
        "0*3 ab 0*15 1401 0*6 1501 0*6 1601000001 0*3 1701 0*6 1801 0*6 ac 0*31 1901 0*6 0203 0*3 "
        "01 0*3 02 0*3 01 0*3",
    [GW_MSG_REFUSE] = "032a 0*7 29 0*7 01 0*3 " A_VIEW "0108 0*7 33 0*15 55 0*15",
    [GW_MSG_INSTALL] =
        A_VIEW "0102 0*6 0202 0*6 0301 0*6 b1 0*31 0401 0*6 b2 0*31 01 0*3 0c 0*7 b3 0*31 "
               "0e 01 0*6 0840 09 0*7 0f020000 07 0*7 b8 0*31 0*8 "
               "050200000602000002b4 0*31 0702 0*6 02 0*3 01 0*3 01 0*3 01 0*3 02 0*3 01 0*7 01 0*3 02 "
               "0*3 01 0*7 02 0*3 05 0*3 01 0*3 04 0*3 01 0*7 01 0*3 01 0*3 03 0*3 01 0*3 01 0*3 01 0*3 "
               "03 0*3 01 0*3 02 0*3 01 0*3 01 0*3 b5 0*15 0802 0*6 0902 0*6 0a02000001 0*3 b6 0*15 0b02 "
               "0*6 0d02 0*6 0c02 0*6 01 0*3 b7 0*31 0e02 0*6 0300776879",
    [GW_MSG_READY] = "11 0*7 66 0*31",
    [GW_MSG_REPAIR] = "12006a6f623d6469676974730a6c723d302e310a01",
    [GW_MSG_JOIN] = A_VIEW "2a 0*7 01",
    [GW_MSG_ASK_VIEW] = "",
    [GW_MSG_VIEW] = A_VIEW,
    [GW_MSG_STORED] = "11 0*7 2a 0*7 0102 0*3 01 0*3 05 0*3 07 0*31 08 0*31",
    [GW_MSG_MANIFEST] = "11 0*7 2a 0*7 0102 0*3 07 0*31 08 0*31",
    [GW_MSG_RECORDED] = "11 0*7 2a 0*7 66 0*31 0100",
    [GW_MSG_COMPLETE] = "11 0*7 2a 0*7 66 0*31 0100",
    [GW_MSG_END] = "11 0*7 2a 0*7 66 0*31 0100",
    [GW_MSG_CLAIM] = "11 0*7 01 0*3 03 0*3",
    [GW_MSG_WITNESS] = "11 0*7 03 0*3 2a 0*7",
    [GW_MSG_FELL] = "11 0*7 03 0*3 01",
    [GW_MSG_HALT] = "11 0*7 12006a6f623d6469676974730a6c723d302e310a",
    [GW_MSG_ASK_STOP] = "",
    [GW_MSG_ASK_SAVE] = "",
};

/* Writes the bytes that such a text stands for; returns how many. */
static size_t spell_out(const char *text, uint8_t *bytes, size_t capacity) {
    size_t length = 0;
    while (*text != '\0') {
        char *end;
        unsigned value;
        if (*text == ' ') {
            text++;
        } else if (text[0] == '0' && text[1] == '*') {
            for (unsigned long zeros = strtoul(text + 2, &end, 10); zeros > 0; zeros--) {
                cr_assert_lt(length, capacity);
                bytes[length++] = 0;
            }
            text = end;
        } else {
            cr_assert_lt(length, capacity);
            cr_assert_eq(sscanf(text, "%2x", &value), 1);
            bytes[length++] = (uint8_t)value;
            text += 2;
        }
    }
    return length;
}

Test(message, the_bytes_of_every_kind_are_pinned) {
    enum { HEADER = 58 };
    gw_view view = small_view();
    gw_install *install = full_install();
    gw_report report = full_report();
    for (int kind = GW_MSG_HELLO; kind <= GW_MSG_HALT; kind++) {
        gw_message m = sample((gw_message_kind)kind, &view, install, &report);
        uint8_t *bytes, expected[1024] = {GW_MESSAGE_VERSION, (uint8_t)kind, 0x11};
        expected[34] = 9;
        expected[42] = 0x22;
        size_t length = gw_message_encode(&m, &bytes),
               body = spell_out(pinned_bodies[kind], expected + HEADER, sizeof expected - HEADER);
        cr_expect_eq(length, HEADER + body, "%s", gw_message_name(m.kind));
        cr_expect_arr_eq(bytes, expected, HEADER + body, "%s", gw_message_name(m.kind));
        free(bytes);
    }
    gw_install_free(install);
    gw_set_free(&report.held);
    gw_set_free(&report.claimed);
    gw_set_free(&report.inventory[0].chunks);
}

/* The two flags are beside each other, and the samples above have only the first one set. */
Test(message, the_flags_of_an_end_do_not_change_places) {
    gw_message complete = sample(GW_MSG_COMPLETE, NULL, NULL, NULL),
               end = sample(GW_MSG_END, NULL, NULL, NULL);
    complete.complete.reserved_flag = end.end.stopped = false;
    complete.complete.unsaved = end.end.unsaved = true;
    const gw_message *both[] = {&complete, &end};
    for (int i = 0; i < 2; i++) {
        uint8_t *bytes;
        size_t length = gw_message_encode(both[i], &bytes);
        cr_expect(bytes[length - 2] == 0 && bytes[length - 1] == 1, "%s", gw_message_name(both[i]->kind));
        free(bytes);
    }
}

Test(message, bytes_are_pinned) {
    gw_view view = small_view();
    gw_message m = sample(GW_MSG_CLAIM, &view, NULL, NULL);
    uint8_t *bytes;
    size_t length = gw_message_encode(&m, &bytes);
    uint8_t expected[2 + 32 + 8 + 16 + 16] = {17, 16, 0x11};
    expected[34] = 9;
    expected[42] = 0x22;
    expected[58] = 17;
    expected[66] = 1;
    expected[70] = 3;
    cr_assert_eq(length, sizeof expected);
    cr_assert_arr_eq(bytes, expected, sizeof expected);
    free(bytes);
}

static bool is_read(const gw_message *m) {
    uint8_t *bytes;
    gw_message back;
    gw_err err;
    size_t length = gw_message_encode(m, &bytes);
    bool read = gw_message_decode(bytes, length, &back, &err);
    if (read) gw_message_free(&back);
    free(bytes);
    return read;
}

/* The successor of such an epoch might overflow. */
Test(message, epochs_beyond_all_that_jobs_get_to_are_refused) {
    const uint64_t epochs[] = {GW_EPOCH_END - 1, GW_EPOCH_END, UINT64_MAX};
    for (int i = 0; i < 3; i++) {
        gw_view small = small_view(), view = small_view();
        gw_install *install = small_install();
        gw_report report = {.installed_epoch = epochs[i]};
        view.epoch = epochs[i];
        gw_view_seal(&view);
        install->view = view;
        gw_message m = sample(GW_MSG_READY, &small, NULL, NULL);
        m.epoch = epochs[i];
        cr_expect_eq(is_read(&m), i == 0, "about a view");
        m = sample(GW_MSG_PROPOSE, &small, NULL, NULL);
        m.propose.base.epoch = epochs[i];
        cr_expect_eq(is_read(&m), i == 0, "base");
        m = sample(GW_MSG_REFUSE, &small, NULL, NULL);
        m.refuse.highest_epoch = epochs[i];
        cr_expect_eq(is_read(&m), i == 0, "highest");
        m = sample(GW_MSG_REFUSE, &small, NULL, NULL);
        m.refuse.given_up_since = epochs[i];
        cr_expect_eq(is_read(&m), i == 0, "given up since");
        m = sample(GW_MSG_VOTE, NULL, NULL, &report);
        cr_expect_eq(is_read(&m), i == 0, "report");
        report = (gw_report){.promised_epoch = epochs[i]};
        cr_expect_eq(is_read(&m), i == 0, "promised");
        report = (gw_report){.convictions = {.count = 1, .list[0].epoch = epochs[i]}};
        cr_expect_eq(is_read(&m), i == 0, "of a verdict");
        report = (gw_report){.recorded_epoch = epochs[i]};
        cr_expect_eq(is_read(&m), i == 0, "of a verdict on its record");
        report = (gw_report){.heard_epoch = epochs[i]};
        cr_expect_eq(is_read(&m), i == 0, "of a verdict that it heard");
        for (uint32_t k = 0; k < 2; k++) {
            report = (gw_report){0};
            report.path_errors.epoch[k] = epochs[i];
            cr_expect_eq(is_read(&m), i == 0, "in which bits changed");
        }
        report = (gw_report){.inventory_count = 1, .inventory[0].epoch = epochs[i]};
        cr_expect_eq(is_read(&m), i == 0, "of a checkpoint");
        gw_install *resuming = small_install();
        resuming->root_epoch = epochs[i];
        m = sample(GW_MSG_INSTALL, &small, resuming, NULL);
        cr_expect_eq(is_read(&m), i == 0, "of the checkpoint that a view goes on from");
        gw_install_free(resuming);
        const gw_message_kind of_views[] = {GW_MSG_PROPOSE, GW_MSG_REFUSE, GW_MSG_JOIN, GW_MSG_VIEW,
                                            GW_MSG_INSTALL};
        for (size_t k = 0; k < sizeof of_views / sizeof *of_views; k++) {
            m = sample(of_views[k], &view, install, NULL);
            cr_expect_eq(is_read(&m), i == 0, "%s", gw_message_name(m.kind));
        }
        gw_install_free(install);
    }
}

/* A peer would take over such a lineage unchanged. */
Test(message, a_lineage_that_is_none_is_refused) {
    static const struct {
        gw_lineage lineage;
        bool good;
    } cases[] = {
        {{.count = 2, .list = {{8, {{1}}}, {4, {{2}}}}}, true},
        {{.count = 2, .list = {{4, {{2}}}, {8, {{1}}}}}, false},
        {{.count = 2, .list = {{8, {{1}}}, {4, {{1}}}}}, false},
        {{.count = 2, .list = {{8, {{1}}}, {0, {{2}}}}}, false},
        {{.count = 1, .list = {{18, {{1}}}}}, false}, /* more steps than the state */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gw_view view = small_view();
        gw_install *install = small_install();
        install->lineage = cases[i].lineage;
        gw_report report = {.step = 17, .lineage = cases[i].lineage};
        gw_message vote = sample(GW_MSG_VOTE, &view, NULL, &report),
                   installs = sample(GW_MSG_INSTALL, &view, install, NULL);
        cr_expect_eq(is_read(&vote), cases[i].good, "%zu", i);
        cr_expect_eq(is_read(&installs), cases[i].good, "%zu", i);
        gw_install_free(install);
    }
}

/* Each entry is valid, and so is their order; only their number is too large for the array. */
Test(message, a_lineage_longer_than_any_is_refused) {
    enum { KEPT_BYTES = 8 + sizeof(gw_hash) };
    gw_report report = {.step = 100};
    for (uint8_t i = 0; i < GW_MAX_LINEAGE; i++)
        gw_lineage_add(&report.lineage, &(gw_checkpoint_ref){50 + i, {{0xC0, i}}});
    gw_message vote = sample(GW_MSG_VOTE, NULL, NULL, &report), back;
    uint8_t *bytes, *longer;
    gw_err err;
    size_t length = gw_message_encode(&vote, &bytes);
    const uint8_t *root =
        memmem(bytes, length, &report.lineage.list[GW_MAX_LINEAGE - 1].root, sizeof(gw_hash));
    cr_assert_not_null(root);
    size_t end = (size_t)(root - bytes) + sizeof(gw_hash);
    cr_assert_not_null(longer = malloc(length + KEPT_BYTES));
    memcpy(longer, bytes, end);
    memcpy(longer + end, bytes + end - KEPT_BYTES, KEPT_BYTES);
    longer[end + 8] ^= 1; /* another root */
    memcpy(longer + end + KEPT_BYTES, bytes + end, length - end);
    uint8_t *count = longer + end - GW_MAX_LINEAGE * KEPT_BYTES - 4;
    cr_assert_eq(*count, GW_MAX_LINEAGE);
    (*count)++;
    cr_expect(gw_message_decode(bytes, length, &back, &err), "%s", err.text);
    gw_message_free(&back);
    cr_expect(!gw_message_decode(longer, length + KEPT_BYTES, &back, &err));
    free(longer);
    free(bytes);
}

/* A record of the best state that no run has is refused: it would decide which checkpoint is kept. */
Test(message, a_best_state_that_cannot_be_is_refused) {
    const gw_best good = {.any = true, .value = 1, .step = 17, .kept = {17, {{1}}}, .kept_value = 1};
    gw_best cases[6] = {good, good, good, good, good, good};
    cases[1].step = 18;
    cases[2].kept.step = 18;
    cases[3].value = (double)NAN;
    cases[4].kept_value = (double)NAN;
    cases[5].any = false;
    cases[5].waited = 1;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gw_view view = small_view();
        gw_install *install = small_install();
        install->best = cases[i];
        gw_report report = {.step = 17, .best = cases[i]};
        gw_message vote = sample(GW_MSG_VOTE, &view, NULL, &report),
                   installs = sample(GW_MSG_INSTALL, &view, install, NULL);
        cr_expect_eq(is_read(&vote), i == 0, "%zu", i);
        cr_expect_eq(is_read(&installs), i == 0, "%zu", i);
        gw_install_free(install);
    }
}

Test(message, another_version_is_named) {
    const uint8_t bytes[] = {GW_MESSAGE_VERSION + 1, GW_MSG_READY};
    gw_message m;
    gw_err err;
    cr_assert(!gw_message_decode(bytes, sizeof bytes, &m, &err));
    cr_assert(strstr(err.text, "version 18") != NULL, "%s", err.text);
}

Test(message, a_damaged_view_in_a_list_ends_the_reading) {
    gw_view views[3] = {small_view(), small_view(), small_view()};
    gw_message m = sample(GW_MSG_REFUSE, views, NULL, NULL), back;
    m.refuse.listed_count = 3;
    uint8_t *bytes;
    gw_err err;
    size_t length = gw_message_encode(&m, &bytes);
    cr_assert(gw_message_decode(bytes, length, &back, &err), "%s", err.text);
    cr_assert_eq(back.refuse.listed_count, 3);
    gw_message_free(&back);
    const size_t first_name = 58 + 1 + 8 + 8 + 4; /* header, refusal, value, since, count */
    bytes[first_name] ^= 1;
    cr_assert(!gw_message_decode(bytes, length, &back, &err));
    free(bytes);
}

Test(message, an_unknown_kind_has_a_name_for_people_too) {
    cr_assert_str_eq(gw_message_name(GW_MSG_HELLO), "hello");
    cr_assert_str_eq(gw_message_name(0), "unknown");
    cr_assert_str_eq(gw_message_name(GW_MSG_HALT + 1), "unknown");
}
