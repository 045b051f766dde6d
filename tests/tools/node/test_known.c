/* The file of known peers: which peers it keeps, and for which jobs. */
#include "tools/godwit/node/known.h"

#include <criterion/criterion.h>

enum { DAY_S = 86400 };

static const gw_hash cluster = {{1}}, job = {{2}}, other = {{3}};

static gw_peer_id peer(uint8_t number) {
    return (gw_peer_id){{number}};
}

static gw_addr at(uint16_t port) {
    return (gw_addr){.family = 4, .ip = {127, 0, 0, 1}, .port = port};
}

static bool note(gw_known *known, uint8_t number, uint16_t port, uint64_t now_s) {
    const gw_peer_id id = peer(number);
    const gw_addr addr = at(port);
    return gw_known_note(known, &id, &addr, now_s);
}

static bool has(const gw_known *known, uint8_t number, uint16_t port) {
    const gw_peer_id id = peer(number);
    const gw_addr addr = at(port);
    for (uint32_t i = 0; i < known->count; i++)
        if (gw_peer_id_equal(&known->peers[i].id, &id)) return gw_addr_equal(&known->peers[i].addr, &addr);
    return false;
}

static size_t put(const gw_known *known, uint8_t *bytes) {
    gw_writer w = gw_writer_on(bytes, GW_KNOWN_BYTES);
    gw_known_put(&w, known);
    cr_assert(!w.failed);
    return w.length;
}

static bool get(const uint8_t *bytes, size_t length, const gw_hash *of_cluster, const gw_hash *of_job,
                gw_known *known) {
    gw_reader r = gw_reader_on(bytes, length);
    *known = (gw_known){.cluster = *of_cluster, .job = *of_job};
    gw_known_get(&r, known);
    return !r.failed;
}

Test(known, only_news_are_worth_a_write) {
    gw_known known = {0};
    cr_assert(note(&known, 1, 7117, 1000));
    cr_assert(!note(&known, 1, 7117, 1000 + DAY_S - 1));
    cr_assert(!note(&known, 1, 7117, 10), "the clock was set back");
    cr_assert(note(&known, 1, 7118, 1001), "it has moved");
    cr_assert(note(&known, 1, 7118, 1001 + DAY_S), "so that it is not forgotten");
    cr_assert_eq(known.count, 1);
}

Test(known, of_too_many_those_seen_last_stay) {
    gw_known known = {0};
    for (uint8_t i = 0; i < GW_KNOWN_PEERS; i++) note(&known, i, 1, 1000u + (i + 5u) % GW_KNOWN_PEERS);
    uint8_t oldest = GW_KNOWN_PEERS - 5;
    cr_assert(has(&known, oldest, 1));
    cr_assert(note(&known, 200, 2, 5000));
    cr_assert_eq(known.count, GW_KNOWN_PEERS);
    cr_assert(has(&known, 200, 2));
    cr_assert(!has(&known, oldest, 1));
    uint8_t bytes[GW_KNOWN_BYTES];
    gw_known back;
    cr_assert(get(bytes, put(&known, bytes), &known.cluster, &known.job, &back));
    cr_assert_eq(back.count, GW_KNOWN_PEERS);
}

Test(known, another_jobs_or_clusters_peers_and_old_ones_are_not_used) {
    gw_known known = {.cluster = cluster, .job = job}, back;
    uint8_t bytes[GW_KNOWN_BYTES];
    uint64_t now_s = 100 * DAY_S;
    note(&known, 1, 7117, now_s);
    note(&known, 2, 7118, now_s - (GW_KNOWN_DAYS + 1) * DAY_S);
    note(&known, 3, 7119, now_s - GW_KNOWN_DAYS * DAY_S);
    size_t length = put(&known, bytes);
    cr_assert(get(bytes, length, &cluster, &job, &back));
    cr_assert_eq(back.count, 2);
    cr_assert(has(&back, 1, 7117) && has(&back, 3, 7119));
    cr_assert(get(bytes, length, &other, &job, &back));
    cr_assert_eq(back.count, 0);
    cr_assert(get(bytes, length, &cluster, &other, &back));
    cr_assert_eq(back.count, 0);
    cr_assert(gw_hash_equal(&back.job, &other), "it goes on remembering for its own");
}

/* No peer was seen later: all nodes were down, or a clock said 1970. */
Test(known, peers_seen_together_are_forgotten_by_no_calendar) {
    gw_known known = {.cluster = cluster, .job = job}, back;
    uint8_t bytes[GW_KNOWN_BYTES];
    note(&known, 1, 7117, 40);
    note(&known, 2, 7118, 50);
    cr_assert(get(bytes, put(&known, bytes), &cluster, &job, &back));
    cr_assert_eq(back.count, 2);
    cr_assert_eq(gw_known_newest(&back), 50);
}

Test(known, a_damaged_file_says_nothing) {
    gw_known known = {.cluster = cluster, .job = job}, back;
    uint8_t bytes[GW_KNOWN_BYTES + 1] = {0};
    note(&known, 1, 7117, 1000);
    note(&known, 2, 7118, 1000);
    size_t length = put(&known, bytes);
    cr_assert_eq(length, 1 + 32 + 32 + 4 + 2 * (16 + 19 + 8));
    for (size_t cut = 0; cut < length; cut++) {
        cr_assert(!get(bytes, cut, &cluster, &job, &back), "cut at %zu", cut);
        cr_assert_eq(back.count, 0);
    }
    cr_assert(!get(bytes, length + 1, &cluster, &job, &back));
    bytes[0] = 9;
    cr_assert(!get(bytes, length, &cluster, &job, &back), "another version");
    bytes[0] = 1;
    bytes[65] = bytes[66] = bytes[67] = bytes[68] = 0xFF;
    cr_assert(!get(bytes, length, &cluster, &job, &back), "too many");
}
