/* Members of several builds exchange what they tell of themselves. How members come to know the same of jobs, the flock
 * simulator shows (tests/sim/flock). */
#include "core/flock/exchange.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { MEMBERS = 3, CLAIMS_KIND = 7, HEAD = 2 /* version and kind of a message */ };

typedef struct party party;

/* A message on its way. */
typedef struct letter {
    struct letter *next;
    uint32_t from, to;
    size_t length;
    uint8_t bytes[];
} letter;

typedef struct post {
    party *parties;
    letter *first, **end;
    bool unread; /* nobody reads lists of claims, as all are of versions that others do not know */
    uint32_t delivered;
} post;

struct party {
    uint32_t number;
    post *post;
    gw_job_records *records;
    gw_exchange *exchange;
    size_t claims_length; /* of the last list that came */
    uint8_t claims[GW_CLAIMS_BYTES];
};

static gw_peer_id id_of(uint32_t number) {
    return (gw_peer_id){{(uint8_t)(number + 1)}};
}

static void send_letter(void *context, const gw_peer_id *to, const void *bytes, size_t length) {
    const party *p = context;
    letter *one = malloc(sizeof *one + length);
    cr_assert_not_null(one);
    *one = (letter){.from = p->number, .to = to->bytes[0] - 1u, .length = length};
    memcpy(one->bytes, bytes, length);
    *p->post->end = one;
    p->post->end = &one->next;
}

static void reach(void *context, const gw_peer_id *member) {
    (void)context;
    (void)member;
}

static void record_changed(void *context, const gw_job_record_id *id) {
    (void)context;
    (void)id;
}

static void claims_changed(void *context, const gw_peer_id *member) {
    (void)context;
    (void)member;
}

static void held(void *context, const gw_job_record_id *id, const gw_peer_id *member, uint64_t state) {
    (void)context;
    (void)id;
    (void)member;
    (void)state;
}

static void open_party(party *p, uint32_t number, post *all) {
    gw_err err;
    *p = (party){.number = number, .post = all, .records = gw_job_records_open(&err)};
    cr_assert_not_null(p->records);
    gw_exchange_config config = {.self = id_of(number),
                                 .records = p->records,
                                 .gate_ns = GW_EXCHANGE_GATE_NS,
                                 .rng_seed = number,
                                 .sink = {p, send_letter, reach, record_changed, claims_changed, held}};
    p->exchange = gw_exchange_open(&config, 0);
}

static post *open_post(void) {
    post *all = calloc(1, sizeof *all);
    cr_assert_not_null(all);
    all->parties = calloc(MEMBERS, sizeof *all->parties);
    cr_assert_not_null(all->parties);
    all->end = &all->first;
    for (uint32_t i = 0; i < MEMBERS; i++) open_party(&all->parties[i], i, all);
    return all;
}

static void close_post(post *all) {
    for (uint32_t i = 0; i < MEMBERS; i++) {
        gw_exchange_close(all->parties[i].exchange);
        gw_job_records_close(all->parties[i].records);
    }
    cr_assert_null(all->first);
    free(all->parties);
    free(all);
}

static bool hear(party *p, uint32_t from, const void *bytes, size_t length) {
    gw_peer_id sender = id_of(from);
    return gw_exchange_message(p->exchange, &sender, bytes, length, 1);
}

/* Delivers all that is on its way. */
static void deliver(post *all) {
    while (all->first != NULL) {
        letter *one = all->first;
        party *to = &all->parties[one->to];
        all->first = one->next;
        if (all->first == NULL) all->end = &all->first;
        if (one->bytes[1] == CLAIMS_KIND) {
            to->claims_length = one->length - HEAD;
            memcpy(to->claims, one->bytes + HEAD, to->claims_length);
        }
        if (all->unread && one->bytes[1] == CLAIMS_KIND) one->bytes[HEAD] = 200;
        cr_assert(hear(to, one->from, one->bytes, one->length));
        cr_assert_lt(++all->delivered, 1000, "they do not come to an end");
        free(one);
    }
}

static void link_up(post *all, uint32_t a, uint32_t b) {
    gw_peer_id one = id_of(a), other = id_of(b);
    gw_exchange_up(all->parties[a].exchange, &other, 0);
    gw_exchange_up(all->parties[b].exchange, &one, 0);
    deliver(all);
}

static gw_claims claims_of(uint32_t number, uint64_t version, uint8_t allotment) {
    return (gw_claims){.member = id_of(number), .boot = 1, .number = version, .allotment = allotment};
}

static void tell(post *all, const gw_claims *claims) {
    gw_exchange_set_claims(all->parties[claims->member.bytes[0] - 1].exchange, claims, 0);
    deliver(all);
}

/* The first member is of a later build. The third hears of it by way of the second alone, which does not know what it adds. */
Test(exchange, passes_on_unchanged_what_a_later_build_tells) {
    post *all = open_post();
    uint8_t bytes[GW_CLAIMS_BYTES], tail[] = "what a later build adds";
    link_up(all, 0, 1);
    link_up(all, 1, 2);
    gw_claims claims = claims_of(0, 1, 2);
    gw_claims_set(&claims, &(gw_claim){.job = {{7}}, .state = GW_CLAIM_RUNNING});
    claims.tail = tail;
    claims.tail_bytes = sizeof tail;
    tell(all, &claims);
    size_t length = gw_claims_put(&claims, bytes);
    for (uint32_t i = 1; i < MEMBERS; i++) {
        party *p = &all->parties[i];
        cr_expect_eq(p->claims_length, length);
        cr_expect_eq(memcmp(p->claims, bytes, length), 0);
        const gw_claims *known = gw_exchange_claims_of(p->exchange, &claims.member);
        cr_assert_not_null(known);
        cr_expect(known->allotment == 2 && known->count == 1 && known->tail_bytes == sizeof tail);
        cr_expect_not(gw_exchange_is_unreadable(p->exchange, &claims.member));
    }
    free(claims.list);
    close_post(all);
}

Test(exchange, passes_on_unchanged_the_record_of_a_job_to_which_a_later_build_adds) {
    post *all = open_post();
    uint8_t spec[] = "a specification of a later build", field[] = "a field of it", bytes[2][200];
    link_up(all, 0, 1);
    link_up(all, 1, 2);
    gw_job_record_id id = gw_job_record_id_of(spec, sizeof spec);
    gw_job_record record = gw_job_record_of(&id);
    record.spec = spec;
    record.spec_bytes = sizeof spec;
    record.unknown[record.unknown_count++] = (gw_job_record_field){99, sizeof field, field};
    gw_job_records_join(all->parties[0].records, &record);
    gw_exchange_put(all->parties[0].exchange, &id, 1);
    deliver(all);
    const gw_job_record *there = gw_job_records_find(all->parties[2].records, &id);
    cr_assert_not_null(there);
    gw_writer told = gw_writer_on(bytes[0], sizeof bytes[0]), known = gw_writer_on(bytes[1], sizeof bytes[1]);
    gw_job_record_put(&told, &record, true);
    gw_job_record_put(&known, there, true);
    cr_expect(!told.failed && told.length == known.length && memcmp(bytes[0], bytes[1], told.length) == 0);
    close_post(all);
}

/* Lists of a version that is not read, of the first member by itself or by way of the second. */
static bool hear_unread(party *p, uint32_t from, uint64_t number) {
    static uint8_t message[HEAD + GW_CLAIMS_BYTES] = {1, CLAIMS_KIND};
    gw_claims claims = claims_of(0, number, 1);
    size_t length = gw_claims_put(&claims, message + HEAD);
    message[HEAD] = 4;
    return hear(p, from, message, HEAD + length);
}

Test(exchange, knows_of_a_member_whose_claims_it_does_not_read) {
    post *all = open_post();
    party *p = &all->parties[2];
    gw_peer_id first = id_of(0);
    link_up(all, 0, 2);
    link_up(all, 1, 2);
    gw_claims claims = claims_of(0, 1, 1);
    tell(all, &claims);
    uint64_t news = gw_exchange_news(p->exchange);
    cr_expect(hear_unread(p, 0, 1)); /* what it says is known */
    cr_expect_not(gw_exchange_is_unreadable(p->exchange, &first));
    for (uint64_t number = 2; number < 6; number++)
        for (uint32_t from = 0; from < 2; from++) cr_expect(hear_unread(p, from, number));
    cr_expect(gw_exchange_is_unreadable(p->exchange, &first));
    cr_expect_eq(gw_exchange_news(p->exchange), news + 1); /* the caller decides anew once */
    deliver(all);
    claims = claims_of(0, 6, 1); /* it has found out that this build does not read the other version */
    tell(all, &claims);
    cr_expect_not(gw_exchange_is_unreadable(p->exchange, &first));
    cr_expect(hear_unread(p, 0, 7));
    cr_expect(gw_exchange_is_unreadable(p->exchange, &first));
    gw_exchange_gone(p->exchange, &first);
    cr_expect_not(gw_exchange_is_unreadable(p->exchange, &first));
    deliver(all);
    close_post(all);
}

/* The list is that of a build which has given a meaning to a bit that has none here. A malformed list that comes by way of
 * another member says nothing of the one whose it is said to be. */
Test(exchange, does_not_trust_what_it_knows_of_a_member_whose_list_is_malformed) {
    static uint8_t message[HEAD + GW_CLAIMS_BYTES] = {1, CLAIMS_KIND};
    post *all = open_post();
    party *p = &all->parties[2];
    gw_peer_id first = id_of(0), second = id_of(1);
    link_up(all, 0, 2);
    link_up(all, 1, 2);
    gw_claims claims = claims_of(0, 1, 1);
    tell(all, &claims);
    claims.number = 2;
    size_t length = HEAD + gw_claims_put(&claims, message + HEAD);
    message[HEAD + 1 + 16 + 8 + 8] = 0x80; /* the conditions */
    cr_expect_not(hear(p, 1, message, length));
    cr_expect_not(gw_exchange_is_unreadable(p->exchange, &first));
    cr_expect_not(hear(p, 0, message, length));
    cr_expect(gw_exchange_is_unreadable(p->exchange, &first));
    cr_expect_not(gw_exchange_is_unreadable(p->exchange, &second));
    tell(all, &claims);
    cr_expect_not(gw_exchange_is_unreadable(p->exchange, &first));
    close_post(all);
}

Test(exchange, leaves_out_messages_of_later_versions_and_kinds) {
    post *all = open_post();
    party *p = &all->parties[1];
    gw_peer_id first = id_of(0), third = id_of(2);
    link_up(all, 0, 1);
    link_up(all, 2, 1);
    gw_claims claims = claims_of(0, 1, 1);
    tell(all, &claims);
    const uint8_t later[] = {2, 1, 0}, kind[] = {1, 200, 0}, none[] = {1, 0, 0}, before[] = {0, 1, 0, 0};
    for (int i = 0; i < 3; i++) {
        cr_expect(hear(p, 0, later, sizeof later)); /* its claims are known all the same */
        cr_expect(hear(p, 2, later, sizeof later));
        cr_expect(hear(p, 2, kind, sizeof kind));
    }
    cr_expect_not(hear(p, 2, none, sizeof none));
    cr_expect_not(hear(p, 2, before, sizeof before));
    cr_expect_not(gw_exchange_is_unreadable(p->exchange, &first));
    cr_expect(gw_exchange_is_unreadable(p->exchange, &third));
    close_post(all);
}

Test(exchange, those_that_do_not_read_each_other_come_to_an_end) {
    post *all = open_post();
    all->unread = true;
    for (uint32_t i = 0; i < MEMBERS; i++) {
        gw_claims claims = claims_of(i, 1, 1);
        tell(all, &claims);
    }
    link_up(all, 0, 1);
    link_up(all, 1, 2);
    cr_expect_leq(all->delivered, 40);
    for (uint32_t i = 0; i + 1 < MEMBERS; i++) {
        gw_peer_id one = id_of(i), next = id_of(i + 1);
        cr_expect(gw_exchange_is_unreadable(all->parties[i].exchange, &next));
        cr_expect(gw_exchange_is_unreadable(all->parties[i + 1].exchange, &one));
    }
    close_post(all);
}
