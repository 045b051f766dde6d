/* The targets `claims` and `exchange`: what a member of a standing flock tells of itself, and a member that gets messages
 * from others, however malformed. */
#include "core/flock/exchange.h"
#include "tests/fuzz/target.h"

#include <stdlib.h>
#include <string.h>

static gw_peer_id member_id(uint8_t number) {
    return (gw_peer_id){{(uint8_t)(number + 1)}};
}

/* Claims. */

/* The members 1 and 2 are of later builds. */
static gw_claims example_claims(uint8_t number, uint32_t count) {
    gw_claims claims = {.member = member_id(number),
                        .allotment = (uint8_t)(1 + number / 2),
                        .boot = 2,
                        .number = 7,
                        .past_gate = true,
                        .drained = number == 1,
                        .has = {4, 1000, number},
                        .limits = GW_CLAIMS_LIMITS_MEMORY | GW_CLAIMS_LIMITS_CORES,
                        .build = "1.0",
                        .kept = {"0.9", "0.8"},
                        .kept_count = 2};
    memcpy(claims.name, "n\xc3\xa4", 4);
    if (number > 0) {
        claims.tail = (uint8_t *)strdup("more");
        GW_ASSERT_MEMORY(claims.tail != NULL);
        claims.tail_bytes = 2u + number;
    }
    for (uint32_t i = 0; i < count; i++)
        gw_claims_set(&claims,
                      &(gw_claim){.job = {{(uint8_t)(9 * i)}},
                                  .state = (gw_claim_state)(GW_CLAIM_CLAIMED + i % (GW_CLAIM_STATES - 1)),
                                  .slots = i,
                                  .port = (uint16_t)(1000 * i)});
    return claims;
}

static void claims_examples(fuzz_add *add, void *context) {
    static uint8_t bytes[GW_CLAIMS_BYTES];
    for (uint8_t number = 0; number < 3; number++) {
        gw_claims claims = example_claims(number, 3u * number);
        add(context, bytes, gw_claims_put(&claims, bytes));
        gw_claims_free(&claims);
    }
}

/* What is read is written as the same bytes, and each of its claims is found. */
static bool take_claims(const uint8_t *bytes, size_t count) {
    static uint8_t again[GW_CLAIMS_BYTES];
    gw_claims claims;
    gw_err err;
    if (!gw_claims_get(bytes, count, &claims, &err)) {
        GW_ASSERT(err.text[0] != '\0' && claims.list == NULL && claims.tail == NULL);
        GW_ASSERT(err.code == GW_E_INVALID || !gw_peer_id_is_none(&claims.member));
        return false;
    }
    GW_ASSERT(claims.allotment > 0 && (claims.tail == NULL) == (claims.tail_bytes == 0));
    GW_ASSERT(gw_claims_put(&claims, again) == count && memcmp(again, bytes, count) == 0);
    for (uint32_t i = 0; i < claims.count; i++)
        GW_ASSERT(gw_claims_find(&claims, &claims.list[i].job) == &claims.list[i]);
    gw_claims_free(&claims);
    return true;
}

const fuzz_target fuzz_claims = {"claims", 40000, 1024, claims_examples, NULL, take_claims};

/* Messages. An input is a sequence of them: from whom (the high bit has the exchange's time pass before it), a length
 * u16, and the bytes. The member 0 gets them, and 1 and 2 send them. What it sends itself must be well-formed: another
 * member, which knows the same others, gets all of it. */

enum { MEMBERS = 3, LATER = 0x80, POST_BYTES = 4 << 20, ANSWER_MOST = 64 << 20, RECORDS = 12 };

typedef struct party {
    gw_exchange *exchange;
    gw_job_records *records;
    struct post *post; /* NULL: its messages are counted only */
    uint8_t number;
    size_t sent; /* bytes since the last message came */
} party;

/* Messages on their way, each after its sender, its receiver and its length u32. */
typedef struct post {
    uint8_t *bytes;
    size_t length;
} post;

static void send_message(void *context, const gw_peer_id *to, const void *bytes, size_t length) {
    party *p = context;
    GW_ASSERT(length <= GW_EXCHANGE_MESSAGE_BYTES && to->bytes[0] >= 1 && to->bytes[0] <= MEMBERS);
    p->sent += length;
    if (p->post == NULL || p->post->length + length + 6 > POST_BYTES) return;
    gw_writer w = gw_writer_on(p->post->bytes + p->post->length, length + 6);
    gw_put_u8(&w, p->number);
    gw_put_u8(&w, (uint8_t)(to->bytes[0] - 1));
    gw_put_u32(&w, (uint32_t)length);
    gw_put_bytes(&w, bytes, length);
    GW_ASSERT(!w.failed);
    p->post->length += w.length;
}

static void reach(void *context, const gw_peer_id *member) {
    const party *p = context;
    GW_ASSERT(member->bytes[0] >= 1 && member->bytes[0] <= MEMBERS && member->bytes[0] - 1 != p->number);
}

static void record_changed(void *context, const gw_job_record_id *id) {
    GW_ASSERT(gw_job_records_find(((party *)context)->records, id) != NULL);
}

static void claims_changed(void *context, const gw_peer_id *member) {
    (void)context;
    GW_ASSERT(!gw_peer_id_is_none(member));
}

static void held(void *context, const gw_job_record_id *id, const gw_peer_id *member, uint64_t state) {
    GW_ASSERT(gw_job_records_find(((party *)context)->records, id) != NULL);
    GW_ASSERT(member->bytes[0] >= 1 && member->bytes[0] <= MEMBERS && state > 0);
}

static void add_record(party *p, uint8_t first, uint8_t kind) {
    uint8_t spec[] = {first, kind, 's', 'p', 'e', 'c'};
    gw_job_record_id id = gw_job_record_id_of(spec, sizeof spec);
    gw_job_record record = gw_job_record_of(&id);
    record.spec = spec;
    record.spec_bytes = sizeof spec;
    record.cancel = kind % 3 == 1;
    record.started = kind % 2 == 1;
    gw_job_records_join(p->records, &record);
}

/* Member 0 knows what `first` and the number of records say, and has links to the others. */
static void open_party(party *p, uint8_t number, uint8_t first, uint8_t records, post *to) {
    gw_err err;
    gw_peer_id known[MEMBERS - 1];
    uint32_t count = 0;
    for (uint8_t i = 0; i < MEMBERS; i++)
        if (i != number) known[count++] = member_id(i);
    *p = (party){.number = number, .post = to, .records = gw_job_records_open(&err)};
    GW_ASSERT_MEMORY(p->records != NULL);
    for (uint8_t i = 0; i < records; i++) add_record(p, first, i);
    gw_exchange_config config = {.self = member_id(number),
                                 .records = p->records,
                                 .known = known,
                                 .known_count = count,
                                 .gate_ns = GW_EXCHANGE_GATE_NS,
                                 .rng_seed = number,
                                 .sink = {p, send_message, reach, record_changed, claims_changed, held}};
    p->exchange = gw_exchange_open(&config, 0);
    gw_claims claims = example_claims(number, 2);
    gw_exchange_set_claims(p->exchange, &claims, 0);
    gw_claims_free(&claims);
}

static void link_all(party *p) {
    for (uint8_t i = 0; i < MEMBERS; i++) {
        gw_peer_id id = member_id(i);
        if (i != p->number) gw_exchange_up(p->exchange, &id, 0);
    }
}

static void close_party(party *p) {
    gw_exchange_close(p->exchange);
    gw_job_records_close(p->records);
}

static bool hear(party *p, uint8_t from, const uint8_t *bytes, size_t length, uint64_t now_ns) {
    gw_peer_id sender = member_id(from);
    uint8_t *exact = malloc(length + 1); /* so that a read behind the end is noticed */
    GW_ASSERT_MEMORY(exact != NULL);
    if (length > 0) memcpy(exact, bytes, length);
    p->sent = 0;
    bool good = gw_exchange_message(p->exchange, &sender, exact, length, now_ns);
    GW_ASSERT(p->sent <= ANSWER_MOST && gw_exchange_claims_count(p->exchange) <= GW_EXCHANGE_MEMBERS + 1);
    free(exact);
    return good;
}

/* Adds what member 0 hears while all three come to know the same. */
static void exchange_examples(fuzz_add *add, void *context) {
    static uint8_t bytes[1 << 16];
    for (uint8_t kind = 0; kind < 3; kind++) {
        party parties[MEMBERS];
        post all = {.bytes = malloc(POST_BYTES)};
        GW_ASSERT_MEMORY(all.bytes != NULL);
        for (uint8_t i = 0; i < MEMBERS; i++)
            open_party(&parties[i], i, kind == 2 ? 0 : i, i == 0 ? 1 : (uint8_t)(kind * RECORDS / 2), &all);
        for (uint8_t i = 0; i < MEMBERS; i++) link_all(&parties[i]);
        gw_writer w = gw_writer_on(bytes, sizeof bytes);
        for (size_t at = 0; at < all.length;) {
            gw_reader r = gw_reader_on(all.bytes + at, all.length - at);
            uint8_t from = gw_get_u8(&r), to = gw_get_u8(&r);
            uint32_t length = gw_get_u32(&r);
            const uint8_t *message = gw_get_view(&r, length);
            at += r.position;
            GW_ASSERT(hear(&parties[to], from, message, length, 1));
            if (to != 0 || w.length + length + 3 > 2000) continue;
            gw_put_u8(&w, from);
            gw_put_u16(&w, (uint16_t)length);
            gw_put_bytes(&w, message, length);
        }
        GW_ASSERT(!w.failed && w.length > 0);
        add(context, bytes, w.length);
        for (uint8_t i = 0; i < MEMBERS; i++) {
            GW_ASSERT(gw_job_records_digest(parties[i].records) == gw_job_records_digest(parties[0].records));
            close_party(&parties[i]);
        }
        free(all.bytes);
    }
}

static bool take_exchange(const uint8_t *bytes, size_t count) {
    party one, other;
    static uint8_t room[POST_BYTES];
    post said = {.bytes = room};
    open_party(&one, 0, 0, 1, &said);
    open_party(&other, 1, 0, 3, NULL);
    link_all(&one);
    link_all(&other);
    gw_reader r = gw_reader_on(bytes, count);
    uint64_t now_ns = 1;
    bool good = true;
    while (gw_reader_left(&r) > 0) {
        uint8_t from = gw_get_u8(&r);
        size_t length = gw_get_u16(&r);
        if (r.failed) break;
        if (length > gw_reader_left(&r)) length = gw_reader_left(&r);
        if ((from & LATER) != 0) gw_exchange_tick(one.exchange, now_ns += GW_EXCHANGE_ROUND_NS);
        good &= hear(&one, (uint8_t)(1 + (from + 1) % 2), gw_get_view(&r, length), length, now_ns);
    }
    for (size_t at = 0; at < said.length;) {
        gw_reader own = gw_reader_on(said.bytes + at, said.length - at);
        gw_get_view(&own, 2);
        uint32_t length = gw_get_u32(&own);
        GW_ASSERT(hear(&other, 0, gw_get_view(&own, length), length, now_ns));
        at += own.position;
    }
    close_party(&one);
    close_party(&other);
    return good && !r.failed;
}

const fuzz_target fuzz_exchange = {"exchange", 20000, 2048, exchange_examples, NULL, take_exchange};
