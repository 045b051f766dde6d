/* The engine's order and the network's weather, on which the replay of every seed depends. */
#include "tools/sim/engine/engine.h"
#include "tools/sim/engine/network.h"

#include <criterion/criterion.h>
#include <string.h>

typedef struct record {
    uint64_t seen[64];
    uint32_t count;
} record;

static void note(void *context, const gw_sim_event *event) {
    record *r = context;
    r->seen[r->count++] = event->a;
}

Test(engine, runs_by_time_then_class_then_order_of_scheduling) {
    record r = {.count = 0};
    gw_sim_engine *engine = gw_sim_engine_create(100);
    const struct {
        uint64_t at, name;
        uint8_t order;
    } plan[] = {{300, 6, 0}, {200, 3, 1}, {200, 4, 1}, {200, 2, 0}, {100, 1, 9}, {200, 5, 2}, {50, 0, 0}};
    for (size_t i = 0; i < sizeof plan / sizeof *plan; i++) {
        gw_sim_event event = {.run = note, .context = &r, .a = plan[i].name, .order = plan[i].order};
        gw_sim_schedule(engine, plan[i].at, &event);
    }
    while (gw_sim_step(engine, 250)) {
    }
    cr_assert_eq(r.count, 6, "the one at 300 is not due");
    cr_assert_eq(gw_sim_now(engine), 250);
    while (gw_sim_step(engine, 1000)) {
    }
    for (uint64_t i = 0; i < 7; i++) cr_assert_eq(r.seen[i], i);
    gw_sim_engine_destroy(engine);
}

Test(engine, a_heap_of_many_comes_out_sorted) {
    gw_sim_engine *engine = gw_sim_engine_create(0);
    gw_rng rng = gw_rng_seeded(1);
    record r = {.count = 0};
    for (int i = 0; i < 5000; i++) {
        gw_sim_event event = {.run = note, .context = &r};
        gw_sim_schedule(engine, gw_rng_below(&rng, 1000), &event);
    }
    uint64_t last = 0, events = 0;
    for (; gw_sim_step(engine, 1000); events++) {
        r.count = 0;
        cr_assert_geq(gw_sim_now(engine), last);
        last = gw_sim_now(engine);
    }
    cr_assert_eq(events, 5000);
    gw_sim_engine_destroy(engine);
}

typedef struct post {
    uint32_t from[2000];
    uint8_t first[2000];
    uint32_t count;
} post;

static void deliver(void *context, uint32_t from, uint32_t to, const uint8_t *bytes, size_t length) {
    post *p = context;
    cr_assert_eq(to, 1);
    cr_assert_eq(length, 2);
    p->first[p->count] = bytes[0];
    p->from[p->count++] = from;
}

static void open_network(gw_sim_network *network, gw_sim_engine **engine, post *p) {
    memset(p, 0, sizeof *p);
    *engine = gw_sim_engine_create(1);
    gw_sim_network_open(network, *engine, 4, 3);
    network->deliver = deliver;
    network->context = p;
}

Test(network, cuts_have_a_direction_and_heal) {
    gw_sim_network network;
    gw_sim_engine *engine;
    post p;
    open_network(&network, &engine, &p);
    network.group[0] = 1;
    network.cut[1][0] = true;
    gw_sim_network_send(&network, 0, 1, "ab", 2);
    gw_sim_network_send(&network, 2, 1, "cd", 2);
    while (gw_sim_step(engine, UINT64_C(1000000000))) {
    }
    cr_assert_eq(p.count, 1);
    cr_assert_eq(p.from[0], 2);
    cr_assert(gw_sim_network_reaches(&network, 1, 0), "the other way is open");
    gw_sim_network_heal(&network);
    gw_sim_network_send(&network, 0, 1, "ab", 2);
    while (gw_sim_step(engine, UINT64_C(2000000000))) {
    }
    cr_assert_eq(p.count, 2);
    cr_assert_eq(p.first[1], 'a');
    gw_sim_network_close(&network);
    gw_sim_engine_destroy(engine);
}

Test(network, drops_doubles_and_reorders_in_the_ratios_asked_for) {
    gw_sim_network network;
    gw_sim_engine *engine;
    post p;
    open_network(&network, &engine, &p);
    network.weather.drop = 0.2;
    network.weather.duplicate = 0.1;
    for (int i = 0; i < 1000; i++) {
        uint8_t bytes[2] = {(uint8_t)i, 0};
        gw_sim_network_send(&network, 0, 1, bytes, sizeof bytes);
    }
    while (gw_sim_step(engine, UINT64_C(1000000000))) {
    }
    cr_assert_eq(p.count, 1000 - network.dropped + network.duplicated);
    cr_assert(network.dropped > 150 && network.dropped < 250);
    cr_assert(network.duplicated > 50 && network.duplicated < 120);
    bool reordered = false;
    for (uint32_t i = 1; i < p.count; i++) reordered |= (uint8_t)(p.first[i] - p.first[i - 1]) > 128;
    cr_assert(reordered);
    gw_sim_network_close(&network);
    gw_sim_engine_destroy(engine);
}

Test(network, addresses_name_endpoints) {
    gw_sim_network network;
    gw_sim_engine *engine = gw_sim_engine_create(1);
    uint32_t endpoint;
    gw_sim_network_open(&network, engine, 300, 1);
    gw_addr addr = gw_sim_addr(299), beyond = gw_sim_addr(300), port = addr;
    cr_assert(gw_sim_endpoint(&network, &addr, &endpoint));
    cr_assert_eq(endpoint, 299);
    cr_assert(!gw_sim_endpoint(&network, &beyond, &endpoint));
    port.port++;
    cr_assert(!gw_sim_endpoint(&network, &port, &endpoint));
    gw_sim_network_close(&network);
    gw_sim_engine_destroy(engine);
}
