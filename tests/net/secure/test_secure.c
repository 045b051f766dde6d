/* The handshake: which peers are let in, what the others are told, and that no byte on the way can change. */
#include "tests/net/flock.h"

#include <criterion/criterion.h>
#include <sodium.h>
#include <string.h>

typedef struct side {
    gw_handshake *handshake;
    gw_handshake_state state;
    gw_err err;
} side;

/* Tampering between the two sides: flips bit `bit` of byte `at` of message `number` (0, 1, 2 in the order of
 * sending), or of none if number is -1. */
typedef struct meddler {
    int number;
    size_t at;
    uint8_t bit;
    size_t lengths[4];
    int messages;
    size_t chunk; /* bytes are fed in chunks of so many; 0: whole */
} meddler;

static gw_handshake *start(const flock_peer *peer, bool dialler, gw_stream_kind kind, uint64_t word) {
    gw_err err;
    uint8_t randomness[32];
    memset(randomness, dialler ? 0x11 : 0x22, sizeof randomness);
    gw_handshake *h = dialler ? gw_handshake_dial(&peer->local, kind, word, randomness, &err)
                              : gw_handshake_answer(&peer->local, randomness, &err);
    flock_need(h != NULL, &err);
    return h;
}

/* Moves the output of `from` to `to`. False if there was none. */
static bool carry(side *from, side *to, meddler *m) {
    size_t count;
    uint8_t bytes[GW_HANDSHAKE_MESSAGE];
    const uint8_t *output = gw_handshake_output(from->handshake, &count);
    if (count == 0) return false;
    memcpy(bytes, output, count);
    gw_handshake_sent(from->handshake, count);
    if (m->messages < 4) m->lengths[m->messages] = count;
    if (m->messages++ == m->number) bytes[m->at] ^= m->bit;
    for (size_t at = 0; at < count && to->state == GW_HANDSHAKE_GOING;) {
        size_t part = m->chunk != 0 && m->chunk < count - at ? m->chunk : count - at, used;
        to->state = gw_handshake_feed(to->handshake, bytes + at, part, &used, &to->err);
        cr_assert(used == part || to->state != GW_HANDSHAKE_GOING);
        at += used;
        if (used == 0) break;
    }
    return true;
}

static void shake(side *dialler, side *answerer, meddler *m) {
    while (carry(dialler, answerer, m) || carry(answerer, dialler, m)) {
    }
}

static void open_pair(const flock_peer *a, const flock_peer *b, side *dialler, side *answerer) {
    *dialler = (side){.handshake = start(a, true, GW_STREAM_DATA, 42)};
    *answerer = (side){.handshake = start(b, false, 0, 0)};
}

static void close_pair(side *dialler, side *answerer) {
    gw_handshake_close(dialler->handshake);
    gw_handshake_close(answerer->handshake);
}

typedef struct outcome {
    gw_fault dialler, answerer;
    gw_err dialler_err, answerer_err;
} outcome;

static outcome between(const flock_peer *a, const flock_peer *b) {
    side dialler, answerer;
    meddler m = {.number = -1};
    open_pair(a, b, &dialler, &answerer);
    shake(&dialler, &answerer, &m);
    outcome o = {gw_handshake_fault(dialler.handshake), gw_handshake_fault(answerer.handshake), dialler.err,
                 answerer.err};
    cr_assert_eq(o.dialler == GW_FAULT_NONE, dialler.state == GW_HANDSHAKE_DONE);
    cr_assert_eq(o.answerer == GW_FAULT_NONE, answerer.state == GW_HANDSHAKE_DONE);
    close_pair(&dialler, &answerer);
    return o;
}

static void expect(const char *keys_a, const char *keys_b, gw_fault dialler, gw_fault answerer) {
    flock_peer a, b;
    flock_hatch(&a, 1, keys_a);
    flock_hatch(&b, 2, keys_b);
    outcome o = between(&a, &b);
    cr_assert_eq(o.dialler, dialler, "%s to %s: dialler %d", keys_a, keys_b, (int)o.dialler);
    cr_assert_eq(o.answerer, answerer, "%s to %s: answerer %d", keys_a, keys_b, (int)o.answerer);
}

Test(handshake, succeeds_with_any_key_in_common_that_the_dialler_seals_with) {
    expect("1", "1", GW_FAULT_NONE, GW_FAULT_NONE);
    expect("", "", GW_FAULT_NONE, GW_FAULT_NONE);
    expect("1", "21", GW_FAULT_NONE, GW_FAULT_NONE); /* the middle of a rotation, both ways */
    expect("21", "12", GW_FAULT_NONE, GW_FAULT_NONE);
    expect("12", "21", GW_FAULT_NONE, GW_FAULT_NONE);
    expect("1", "5432671", GW_FAULT_NONE, GW_FAULT_NONE);
}

Test(handshake, fails_without_one_and_both_sides_know_why) {
    expect("1", "2", GW_FAULT_KEY, GW_FAULT_KEY);
    expect("21", "1", GW_FAULT_KEY, GW_FAULT_KEY);
    expect("1", "", GW_FAULT_NO_KEY, GW_FAULT_NO_KEY);
    expect("", "1", GW_FAULT_NO_KEY, GW_FAULT_NO_KEY);
    flock_peer a, b;
    flock_hatch(&a, 1, "1");
    flock_hatch(&b, 2, "2");
    outcome o = between(&a, &b);
    cr_assert_not_null(strstr(o.dialler_err.text, "wrong key"));
    cr_assert_not_null(strstr(o.answerer_err.text, "wrong key"));
    flock_hatch(&b, 2, "");
    o = between(&a, &b);
    cr_assert_not_null(strstr(o.dialler_err.text, "this side has a cluster key, the other has none"));
    cr_assert_not_null(strstr(o.answerer_err.text, "the other side has a cluster key, this one has none"));
}

Test(handshake, another_cluster_is_turned_away) {
    flock_peer a, b;
    flock_hatch(&a, 1, "1");
    flock_hatch(&b, 2, "1");
    gw_cluster_id("another", &b.local.cluster);
    outcome o = between(&a, &b);
    cr_assert_eq(o.dialler, GW_FAULT_CLUSTER);
    cr_assert_eq(o.answerer, GW_FAULT_CLUSTER);
}

static void learns(const char *keys) {
    flock_peer a, b;
    side dialler, answerer;
    meddler m = {.number = -1};
    flock_revive(&a, 1, keys, 7, 70);
    flock_revive(&b, 2, keys, 8, 80);
    a.local.listen = flock_addr(7117);
    b.local.listen = flock_addr(7118);
    memcpy(b.local.build, "v\x1b[2J", 6);
    open_pair(&a, &b, &dialler, &answerer);
    shake(&dialler, &answerer, &m);
    gw_remote of_a, of_b;
    static gw_cipher a_seal, a_open, b_seal, b_open;
    gw_handshake_finish(dialler.handshake, &of_b, &a_seal, &a_open);
    gw_handshake_finish(answerer.handshake, &of_a, &b_seal, &b_open);
    cr_assert(gw_peer_id_equal(&of_a.id, &a.identity.id));
    cr_assert(gw_peer_id_equal(&of_b.id, &b.identity.id));
    cr_assert(gw_same_life(&of_a.incarnation, &a.identity.incarnation));
    cr_assert(gw_same_life(&of_b.incarnation, &b.identity.incarnation));
    cr_assert(gw_addr_equal(&of_a.listen, &a.local.listen));
    cr_assert(gw_addr_equal(&of_b.listen, &b.local.listen));
    cr_assert_str_eq(of_a.build, "0.1.0-test");
    cr_assert_str_eq(of_b.build, "v?[2J", "no escape codes in what people read");
    cr_assert(of_b.dialled && !of_a.dialled);
    cr_assert(of_a.kind == GW_STREAM_DATA && of_b.kind == GW_STREAM_DATA);
    cr_assert(of_a.label == 42 && of_b.label == 42);
    uint8_t record[100], payload[100];
    gw_err err;
    flock_need(gw_record_seal(&a_seal, "to b", 4, false, record, &err), &err);
    flock_need(gw_record_open(&b_open, record, gw_record_bytes(&b_open, 4), payload, &err), &err);
    cr_assert_arr_eq(payload, "to b", 4);
    flock_need(gw_record_seal(&b_seal, "to a", 4, false, record, &err), &err);
    flock_need(gw_record_open(&a_open, record, gw_record_bytes(&a_open, 4), payload, &err), &err);
    cr_assert_arr_eq(payload, "to a", 4);
    if (*keys != '\0') {
        flock_need(gw_record_seal(&a_seal, "loop", 4, false, record, &err), &err);
        cr_assert(!gw_record_open(&a_open, record, gw_record_bytes(&a_open, 4), payload, &err), "reflected");
    }
    close_pair(&dialler, &answerer);
}

Test(handshake, both_sides_learn_who_the_other_is_and_share_ciphers) {
    learns("1");
    learns("");
}

static void lengths_of(const flock_peer *a, const flock_peer *b, size_t lengths[3]) {
    side dialler, answerer;
    meddler m = {.number = -1};
    open_pair(a, b, &dialler, &answerer);
    shake(&dialler, &answerer, &m);
    cr_assert_eq(m.messages, 3);
    memcpy(lengths, m.lengths, 3 * sizeof lengths[0]);
    close_pair(&dialler, &answerer);
}

static void no_byte_can_change(const char *keys) {
    flock_peer a, b;
    size_t lengths[3];
    flock_hatch(&a, 1, keys);
    flock_hatch(&b, 2, keys);
    lengths_of(&a, &b, lengths);
    for (int number = 0; number < 3; number++)
        for (size_t at = 0; at < lengths[number]; at++) {
            side dialler, answerer;
            meddler m = {.number = number, .at = at, .bit = (uint8_t)(1 << (at % 8))};
            open_pair(&a, &b, &dialler, &answerer);
            shake(&dialler, &answerer, &m);
            bool both = dialler.state == GW_HANDSHAKE_DONE && answerer.state == GW_HANDSHAKE_DONE;
            cr_assert(!both, "message %d, byte %zu", number + 1, at);
            cr_assert_neq(answerer.state, GW_HANDSHAKE_DONE, "message %d, byte %zu", number + 1, at);
            close_pair(&dialler, &answerer);
        }
}

Test(handshake, a_bit_changed_anywhere_ends_it) {
    no_byte_can_change("1");
    no_byte_can_change("");
}

Test(handshake, bytes_may_come_one_by_one) {
    flock_peer a, b;
    flock_hatch(&a, 1, "1");
    flock_hatch(&b, 2, "1");
    for (size_t chunk = 1; chunk < 12; chunk++) {
        side dialler, answerer;
        meddler m = {.number = -1, .chunk = chunk};
        open_pair(&a, &b, &dialler, &answerer);
        shake(&dialler, &answerer, &m);
        cr_assert_eq(dialler.state, GW_HANDSHAKE_DONE);
        cr_assert_eq(answerer.state, GW_HANDSHAKE_DONE);
        close_pair(&dialler, &answerer);
    }
}

Test(handshake, what_follows_it_is_left_for_the_records) {
    flock_peer a, b;
    side dialler, answerer;
    meddler m = {.number = -1};
    flock_hatch(&a, 1, "1");
    flock_hatch(&b, 2, "1");
    open_pair(&a, &b, &dialler, &answerer);
    carry(&dialler, &answerer, &m);
    carry(&answerer, &dialler, &m);
    size_t count, used;
    uint8_t bytes[GW_HANDSHAKE_MESSAGE + 5] = {0};
    const uint8_t *output = gw_handshake_output(dialler.handshake, &count);
    memcpy(bytes, output, count);
    cr_assert_eq(gw_handshake_feed(answerer.handshake, bytes, count + 5, &used, &answerer.err),
                 GW_HANDSHAKE_DONE);
    cr_assert_eq(used, count);
    cr_assert_eq(gw_handshake_feed(answerer.handshake, bytes, 5, &used, &answerer.err), GW_HANDSHAKE_DONE);
    cr_assert_eq(used, 0);
    close_pair(&dialler, &answerer);
}

Test(handshake, reaching_ourselves_or_a_clone_is_told_apart_on_both_sides) {
    flock_peer a, same, clone;
    flock_hatch(&a, 1, "1");
    flock_hatch(&same, 1, "1");
    flock_revive(&clone, 1, "1", 1, 5);
    outcome o = between(&a, &same);
    cr_assert_eq(o.dialler, GW_FAULT_SELF);
    cr_assert_eq(o.answerer, GW_FAULT_SELF);
    o = between(&a, &clone);
    cr_assert_eq(o.dialler, GW_FAULT_CLONE);
    cr_assert_eq(o.answerer, GW_FAULT_CLONE);
    cr_assert_not_null(strstr(o.dialler_err.text, "cloned directory"));
}

/* Its data links are dialled as soon as it is linked. */
Test(handshake, who_says_that_it_listens_nowhere_is_refused) {
    const gw_addr nowhere[2] = {{.port = 7101}, flock_addr(0)};
    for (int which = 0; which < 2; which++) {
        flock_peer a, b;
        flock_hatch(&a, 1, "1");
        flock_hatch(&b, 2, "1");
        a.local.listen = nowhere[which];
        cr_expect_eq(between(&a, &b).answerer, GW_FAULT_GARBAGE, "a dialler of case %d", which);
        cr_expect_eq(between(&b, &a).dialler, GW_FAULT_GARBAGE, "an answerer of case %d", which);
    }
}

Test(handshake, a_message_that_is_reflected_is_refused) {
    flock_peer a;
    meddler m = {.number = -1};
    flock_hatch(&a, 1, "1");
    side dialler = {.handshake = start(&a, true, GW_STREAM_CONTROL, 0)}, mirror = dialler;
    carry(&dialler, &mirror, &m);
    cr_assert_eq(mirror.state, GW_HANDSHAKE_FAILED);
    cr_assert_eq(gw_handshake_fault(dialler.handshake), GW_FAULT_GARBAGE);
    gw_handshake_close(dialler.handshake);
}

Test(handshake, a_recorded_run_cannot_be_played_again) {
    flock_peer a, b;
    side dialler, answerer;
    meddler m = {.number = -1};
    uint8_t hello[GW_HANDSHAKE_MESSAGE], finish[GW_HANDSHAKE_MESSAGE], randomness[32] = {0x33};
    size_t hello_bytes, finish_bytes, used;
    flock_hatch(&a, 1, "1");
    flock_hatch(&b, 2, "1");
    open_pair(&a, &b, &dialler, &answerer);
    memcpy(hello, gw_handshake_output(dialler.handshake, &hello_bytes), sizeof hello);
    carry(&dialler, &answerer, &m);
    carry(&answerer, &dialler, &m);
    memcpy(finish, gw_handshake_output(dialler.handshake, &finish_bytes), sizeof finish);
    close_pair(&dialler, &answerer);
    gw_err err;
    gw_handshake *victim = gw_handshake_answer(&b.local, randomness, &err);
    cr_assert_eq(gw_handshake_feed(victim, hello, hello_bytes, &used, &err), GW_HANDSHAKE_GOING);
    cr_assert_eq(gw_handshake_feed(victim, finish, finish_bytes, &used, &err), GW_HANDSHAKE_FAILED);
    cr_assert_eq(gw_handshake_fault(victim), GW_FAULT_IDENTITY);
    gw_handshake_close(victim);
}

static gw_fault answer_to(const flock_peer *peer, const void *bytes, size_t count, gw_err *err) {
    size_t used;
    gw_handshake *h = start(peer, false, 0, 0);
    gw_handshake_feed(h, bytes, count, &used, err);
    gw_fault fault = gw_handshake_fault(h);
    gw_handshake_close(h);
    return fault;
}

Test(handshake, another_protocol_version_is_named_with_ours_on_both_sides) {
    flock_peer a, b;
    gw_err err;
    size_t count, used;
    uint8_t bytes[GW_HANDSHAKE_MESSAGE];
    flock_hatch(&a, 1, "1");
    flock_hatch(&b, 2, "1");
    gw_handshake *dialler = start(&a, true, GW_STREAM_DATA, 0), *answerer = start(&b, false, 0, 0);
    memcpy(bytes, gw_handshake_output(dialler, &count), sizeof bytes);
    bytes[4] = 9; /* as a build of the future would */
    cr_assert_eq(gw_handshake_feed(answerer, bytes, count, &used, &err), GW_HANDSHAKE_FAILED);
    cr_assert_eq(gw_handshake_fault(answerer), GW_FAULT_VERSION);
    cr_assert_not_null(strstr(err.text, "protocol version 9, this build speaks 1: "), "%s", err.text);
    memcpy(bytes, gw_handshake_output(answerer, &count), sizeof bytes);
    bytes[4] = 9;
    cr_assert_eq(gw_handshake_feed(dialler, bytes, count, &used, &err), GW_HANDSHAKE_FAILED);
    cr_assert_eq(gw_handshake_fault(dialler), GW_FAULT_VERSION);
    cr_assert_not_null(strstr(err.text, "protocol version 9, this build speaks 1: "), "%s", err.text);
    gw_handshake_sent(dialler, 0);
    gw_handshake_close(dialler);
    gw_handshake_close(answerer);
}

/* As builds of the next version will dial: their header has this version, and the bit beside that of AES
 * tells of the next one. */
Test(handshake, who_also_speaks_the_next_version_is_answered_in_this_one) {
    enum { ALGORITHMS = 50, PROOF = 51, PROOF_BYTES = 16, NEXT = 2 };
    flock_peer a, b;
    gw_err err;
    size_t count, used;
    uint8_t hello[GW_HANDSHAKE_MESSAGE], proof[32], key[GW_KEY_BYTES] = {0};
    flock_hatch(&a, 1, "");
    flock_hatch(&b, 2, "");
    gw_handshake *dialler = start(&a, true, GW_STREAM_DATA, 0), *answerer = start(&b, false, 0, 0);
    const uint8_t *output = gw_handshake_output(dialler, &count);
    cr_assert_eq(count, PROOF + PROOF_BYTES);
    memcpy(hello, output, count);
    hello[ALGORITHMS] |= NEXT;
    crypto_generichash_state state;
    crypto_generichash_init(&state, key, sizeof key, sizeof proof);
    crypto_generichash_update(&state, a.local.cluster.bytes, sizeof a.local.cluster.bytes);
    crypto_generichash_update(&state, hello, PROOF);
    crypto_generichash_final(&state, proof, sizeof proof);
    memcpy(hello + PROOF, proof, PROOF_BYTES);
    cr_assert_eq(gw_handshake_feed(answerer, hello, count, &used, &err), GW_HANDSHAKE_GOING);
    const uint8_t *answer = gw_handshake_output(answerer, &count);
    cr_assert_gt(count, 10);
    cr_assert(answer[4] == 1 && answer[5] == 0, "version 1 is chosen");
    gw_handshake_close(dialler);
    gw_handshake_close(answerer);
}

Test(handshake, garbage_is_refused_as_soon_as_it_is_known) {
    flock_peer b;
    gw_err err;
    flock_hatch(&b, 2, "1");
    cr_assert_eq(answer_to(&b, "GET / HTTP/1.1\r\n", 16, &err), GW_FAULT_GARBAGE);
    cr_assert_eq(answer_to(&b, "x", 1, &err), GW_FAULT_GARBAGE);
    cr_assert_eq(answer_to(&b, "gdwt", 4, &err), GW_FAULT_NONE);
    cr_assert_eq(answer_to(&b, "gdwt\1\0\1\1\377\377", 10, &err), GW_FAULT_GARBAGE, "oversized");
    cr_assert_eq(answer_to(&b, "gdwt\1\0\1\1\0\0", 10, &err), GW_FAULT_GARBAGE, "no body");
    cr_assert_eq(answer_to(&b, "gdwt\1\0\2\1\1\0", 10, &err), GW_FAULT_GARBAGE, "another message");
    cr_assert_eq(answer_to(&b, "gdwt\1\0\1\7\1\0", 10, &err), GW_FAULT_GARBAGE, "unknown mode");
    cr_assert_eq(answer_to(&b, "gdwt\1\0\377\1\1\0\10", 11, &err), GW_FAULT_GARBAGE,
                 "a stranger's word does not make us a clone");
}

/* Everything but the machine is fixed: plain mode, so that the algorithm does not depend on the CPU; the bit
 * that says "this CPU has AES" is masked, and so is what is computed from it. */
Test(handshake, the_bytes_of_a_hello_and_the_lengths_are_pinned) {
    flock_peer a, b;
    size_t lengths[3], count;
    char text[2 * GW_HANDSHAKE_MESSAGE];
    uint8_t hello[GW_HANDSHAKE_MESSAGE];
    flock_hatch(&a, 1, "");
    flock_hatch(&b, 2, "");
    lengths_of(&a, &b, lengths);
    cr_assert_eq(lengths[0], 67);
    cr_assert_eq(lengths[1], 215);
    cr_assert_eq(lengths[2], 182);
    gw_handshake *h = start(&a, true, GW_STREAM_CONTROL, 0);
    memcpy(hello, gw_handshake_output(h, &count), sizeof hello);
    cr_assert_eq(hello[50], gw_record_has_aes() ? 1 : 0);
    gw_hex(hello, 50, text);
    cr_assert_str_eq(text, "67647774010001003900150e767ccd564c707b4e909bbe7ffe44c465a220037d608ee35897d31ef97"
                           "2f07f74892cb0f73f13");
    if (gw_record_has_aes()) {
        gw_hex(hello + 51, count - 51, text);
        cr_assert_str_eq(text, "86c7751864ff4764b38e2316836552fd");
    }
    gw_handshake_close(h);
}

/* The whole conversation, hashed: any change of what is signed, sealed or mixed shows. */
Test(handshake, the_bytes_of_a_conversation_are_pinned) {
    if (!gw_record_has_aes()) cr_skip("the pinned conversation was between CPUs with AES");
    flock_peer a, b;
    side dialler, answerer;
    flock_hatch(&a, 1, "1");
    flock_hatch(&b, 2, "1");
    open_pair(&a, &b, &dialler, &answerer);
    crypto_generichash_state state;
    crypto_generichash_init(&state, NULL, 0, 16);
    meddler m = {.number = -1};
    side *sides[2] = {&dialler, &answerer};
    for (int i = 0; i < 3; i++) {
        size_t count;
        const uint8_t *bytes = gw_handshake_output(sides[i % 2]->handshake, &count);
        crypto_generichash_update(&state, bytes, count);
        carry(sides[i % 2], sides[1 - i % 2], &m);
    }
    uint8_t hash[16];
    char text[33];
    crypto_generichash_final(&state, hash, sizeof hash);
    gw_hex(hash, sizeof hash, text);
    cr_assert_str_eq(text, "4708496065099474bde0a5c1ae83e1a1");
    close_pair(&dialler, &answerer);
}
