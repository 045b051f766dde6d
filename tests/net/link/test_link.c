/* Control links: one between two peers whichever of them dials, and correct reports of a peer that is
 * gone. Each peer has a listener and links of its own; all share one loop, so a test decides when anything
 * happens. */
#include "core/base/log.h"
#include "core/rng.h"
#include "net/link/link.h"
#include "tests/net/flock.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { EVENTS = 64 };

typedef struct event {
    enum { UP, DOWN } what;
    gw_peer_id peer;
    gw_closed why;
    gw_fault fault;
    gw_incarnation life;
    char text[200];
} event;

typedef struct node {
    flock_peer peer;
    gw_loop *loop;
    gw_addr addr;
    gw_listener *listener;
    gw_links *links;
    int udp;
    event events[EVENTS];
    size_t event_count, messages;
    size_t ups, downs;
    uint8_t last[64];
    size_t last_bytes;
    bool unwant_on_up, unwant_on_message;
} node;

static bool is_up(const gw_links *links, const gw_peer_id *peer) {
    return gw_links_remote(links, peer) != NULL;
}

static void on_up(void *context, const gw_peer_id *peer, const gw_remote *remote) {
    node *n = context;
    cr_assert(is_up(n->links, peer));
    if (n->event_count < EVENTS)
        n->events[n->event_count++] = (event){.what = UP, .peer = *peer, .life = remote->incarnation};
    n->ups++;
    if (n->unwant_on_up) gw_links_unwant(n->links, peer);
}

static void on_down(void *context, const gw_peer_id *peer, gw_closed why, gw_fault fault, const char *text) {
    node *n = context;
    event e = {.what = DOWN, .peer = *peer, .why = why, .fault = fault};
    cr_assert(!is_up(n->links, peer));
    snprintf(e.text, sizeof e.text, "%s", text);
    if (n->event_count < EVENTS) n->events[n->event_count++] = e;
    n->downs++;
}

static void on_message(void *context, const gw_peer_id *peer, const uint8_t *bytes, size_t count) {
    node *n = context;
    n->messages++;
    n->last_bytes = count;
    memcpy(n->last, bytes, count < sizeof n->last ? count : sizeof n->last);
    if (n->unwant_on_message) gw_links_unwant(n->links, peer);
}

static void on_accepted(void *context, gw_stream *stream, const gw_remote *remote) {
    node *n = context;
    cr_assert_eq(remote->kind, GW_STREAM_CONTROL);
    gw_links_adopt(n->links, stream);
}

/* Takes an address again that was a node's. A connection of another process may have its port for a while. */
static void bind_again(node *n, const gw_addr *addr, int *tcp) {
    gw_err err;
    bool bound = gw_endpoint_bind(addr, tcp, &n->udp, &n->addr, &err);
    for (int i = 0; !bound && i < 3000; i++) {
        usleep(10000);
        bound = gw_endpoint_bind(addr, tcp, &n->udp, &n->addr, &err);
    }
    flock_need(bound, &err);
}

/* Starts a node at *addr, or on a free port if its family is 0. */
static void start_at(node *n, gw_loop *loop, gw_addr addr) {
    gw_err err;
    int tcp;
    n->loop = loop;
    if (addr.family == 0)
        flock_bind(&n->addr, &tcp, &n->udp);
    else
        bind_again(n, &addr, &tcp);
    n->peer.local.listen = n->addr;
    gw_listener_events accepting = {.context = n, .accepted = on_accepted};
    gw_link_events events = {.context = n, .up = on_up, .down = on_down, .message = on_message};
    n->links = gw_links_open(loop, &n->peer.local, &events, &err);
    n->listener = gw_listener_open(loop, &n->peer.local, tcp, &accepting, &err);
    flock_need(n->links != NULL && n->listener != NULL, &err);
}

static void start(node *n, gw_loop *loop, uint8_t number, const char *keys) {
    memset(n, 0, sizeof *n);
    flock_hatch(&n->peer, number, keys);
    start_at(n, loop, (gw_addr){0});
}

/* Does what the kernel does for a killed process: closes every socket without a message. */
static void stop(node *n) {
    gw_listener_close(n->listener);
    gw_links_close(n->links);
    close(n->udp);
    n->listener = NULL;
    n->links = NULL;
}

static void want_at(node *n, const node *other, const gw_addr *addrs, size_t count) {
    gw_err err;
    flock_need(gw_links_want(n->links, &other->peer.identity.id, addrs, count, &err), &err);
}

static void want(node *n, const node *other) {
    want_at(n, other, &other->addr, 1);
}

static bool up_between(const node *a, const node *b) {
    return is_up(a->links, &b->peer.identity.id) && is_up(b->links, &a->peer.identity.id);
}

typedef struct pair {
    gw_loop *loop;
    node a, b; /* a has the lower id */
} pair;

static bool linked(void *context) {
    pair *p = context;
    return up_between(&p->a, &p->b);
}

static void open_pair(pair *p, const char *keys_a, const char *keys_b) {
    gw_err err;
    p->loop = gw_loop_open(&err);
    flock_need(p->loop != NULL, &err);
    start(&p->a, p->loop, 1, keys_a);
    start(&p->b, p->loop, 2, keys_b);
    if (gw_peer_id_compare(&p->a.peer.identity.id, &p->b.peer.identity.id) < 0) return;
    stop(&p->a);
    stop(&p->b);
    start(&p->a, p->loop, 2, keys_b);
    start(&p->b, p->loop, 1, keys_a);
}

static void close_pair(pair *p) {
    if (p->a.links != NULL) stop(&p->a);
    if (p->b.links != NULL) stop(&p->b);
    gw_loop_close(p->loop);
}

static void say(node *from, const node *to, const char *text) {
    gw_err err;
    flock_need(gw_links_send(from->links, &to->peer.identity.id, text, strlen(text), &err), &err);
}

static bool both_heard(void *context) {
    pair *p = context;
    return p->a.messages > 0 && p->b.messages > 0;
}

static void talk(pair *p) {
    p->a.messages = p->b.messages = 0;
    say(&p->a, &p->b, "to b");
    say(&p->b, &p->a, "to a");
    flock_turn_until(p->loop, both_heard, p);
    cr_assert_arr_eq(p->a.last, "to a", 4);
    cr_assert_arr_eq(p->b.last, "to b", 4);
}

Test(link, comes_up_whoever_wants_it) {
    for (int wanting = 1; wanting <= 3; wanting++) {
        pair p;
        open_pair(&p, "1", "1");
        if (wanting & 1) want(&p.a, &p.b);
        if (wanting & 2) want(&p.b, &p.a);
        flock_turn_until(p.loop, linked, &p);
        talk(&p);
        flock_turn(p.loop, 20);
        cr_assert(p.a.ups == 1 && p.b.ups == 1 && p.a.downs == 0 && p.b.downs == 0, "no flapping");
        cr_assert_eq(gw_links_queued(p.a.links), 0);
        close_pair(&p);
    }
}

Test(link, simultaneous_dials_end_with_one_connection_at_any_interleaving) {
    /* The second side begins to dial after 0, 1, 2, ... turns of the loop, so at every stage of the first
     * side's dial. */
    for (int later = 0; later < 24; later++) {
        pair p;
        open_pair(&p, "1", "1");
        node *first = later % 2 == 0 ? &p.a : &p.b, *second = later % 2 == 0 ? &p.b : &p.a;
        want(first, second);
        flock_turn(p.loop, later / 2);
        want(second, first);
        flock_turn_until(p.loop, linked, &p);
        talk(&p);
        flock_turn(p.loop, 20);
        talk(&p);
        cr_assert(p.a.ups == 1 && p.b.ups == 1 && p.a.downs == 0 && p.b.downs == 0, "after %d turns", later);
        close_pair(&p);
    }
}

static event *last_event(node *n) {
    cr_assert_gt(n->event_count, 0);
    return &n->events[n->event_count - 1];
}

static bool a_saw_refused(void *context) {
    pair *p = context;
    return p->a.event_count > 0 && last_event(&p->a)->what == DOWN &&
           last_event(&p->a)->why == GW_CLOSED_REFUSED;
}

Test(link, a_killed_peer_is_down_and_then_refused) {
    pair p;
    open_pair(&p, "1", "1");
    want(&p.a, &p.b);
    want(&p.b, &p.a);
    flock_turn_until(p.loop, linked, &p);
    stop(&p.b);
    flock_turn_until(p.loop, a_saw_refused, &p);
    cr_assert_eq(p.a.events[1].what, DOWN);
    cr_assert(p.a.events[1].why == GW_CLOSED_END || p.a.events[1].why == GW_CLOSED_RESET);
    cr_assert(!is_up(p.a.links, &p.b.peer.identity.id));
    gw_err err;
    cr_assert(!gw_links_send(p.a.links, &p.b.peer.identity.id, "x", 1, &err));
    cr_assert_eq(err.code, GW_E_NOTFOUND);
    close_pair(&p);
}

/* A real process and a real SIGKILL. */
static void run_child(int tell) {
    gw_err err;
    static node n;
    gw_loop *loop = gw_loop_open(&err);
    start(&n, loop, 2, "1");
    if (write(tell, &n.addr, sizeof n.addr) != (ssize_t)sizeof n.addr) _exit(1);
    gw_loop_run(loop);
    _exit(1);
}

static bool a_is_up(void *context) {
    return ((pair *)context)->a.ups > 0;
}

Test(link, sigkill_of_a_process_is_known_as_refused) {
    int told[2];
    cr_assert_eq(pipe(told), 0);
    pid_t child = fork();
    if (child == 0) run_child(told[1]);
    cr_assert_gt(child, 0);
    gw_err err;
    static pair p;
    p.loop = gw_loop_open(&err);
    start(&p.a, p.loop, 1, "1");
    flock_hatch(&p.b.peer, 2, "1");
    cr_assert_eq(read(told[0], &p.b.addr, sizeof p.b.addr), (ssize_t)sizeof p.b.addr);
    want(&p.a, &p.b);
    flock_turn_until(p.loop, a_is_up, &p);
    cr_assert_eq(kill(child, SIGKILL), 0);
    flock_turn_until(p.loop, a_saw_refused, &p);
    cr_assert_eq(waitpid(child, NULL, 0), child);
    close(told[0]);
    close(told[1]);
    close_pair(&p);
}

static bool a_saw_second_life(void *context) {
    pair *p = context;
    return p->a.event_count > 0 && last_event(&p->a)->what == UP && last_event(&p->a)->life.boot == 2;
}

/* `node` comes back at its address in another life. */
static void restart(node *n, uint8_t number) {
    gw_addr addr = n->addr;
    gw_loop *loop = n->loop;
    stop(n);
    memset(n, 0, sizeof *n);
    flock_revive(&n->peer, number, "1", 2, 77);
    start_at(n, loop, addr);
}

static uint8_t number_of(const node *n) {
    flock_peer one;
    flock_hatch(&one, 1, "");
    return gw_peer_id_equal(&one.identity.id, &n->peer.identity.id) ? 1 : 2;
}

Test(link, a_peer_that_restarts_is_down_and_up_again_as_another_life) {
    for (int wanting = 1; wanting <= 3; wanting++)
        for (int lower = 0; lower < 2; lower++) { /* the restarted peer offers, or takes */
            pair p;
            open_pair(&p, "1", "1");
            if (lower) {
                node swap = p.a;
                stop(&swap);
                uint8_t first = number_of(&p.a), second = number_of(&p.b);
                stop(&p.b);
                start(&p.a, p.loop, second, "1");
                start(&p.b, p.loop, first, "1");
            }
            want(&p.a, &p.b);
            flock_turn_until(p.loop, linked, &p);
            restart(&p.b, number_of(&p.b));
            if (wanting & 2) want(&p.b, &p.a);
            if (!(wanting & 1)) gw_links_unwant(p.a.links, &p.b.peer.identity.id);
            flock_turn_until(p.loop, a_saw_second_life, &p);
            flock_turn_until(p.loop, linked, &p);
            talk(&p);
            flock_turn(p.loop, 20);
            cr_assert_eq(p.a.ups, 2);
            cr_assert_eq(p.b.ups, 1);
            close_pair(&p);
        }
}

Test(link, refused_means_every_address_refused) {
    pair p;
    open_pair(&p, "1", "1");
    gw_addr dead[3] = {flock_dead_addr(), flock_dead_addr(), flock_dead_addr()};
    want_at(&p.a, &p.b, dead, 3);
    flock_turn_until(p.loop, a_saw_refused, &p);
    cr_assert_eq(p.a.ups, 0);
    /* One of the addresses works: the link comes up. */
    dead[1] = p.b.addr;
    want_at(&p.a, &p.b, dead, 3);
    flock_turn_until(p.loop, linked, &p);
    talk(&p);
    close_pair(&p);
}

/* Wants a link from a to a peer that is gone, at these addresses. */
static void want_the_gone(pair *p, const gw_addr *addrs, size_t count) {
    flock_peer gone;
    gw_err err;
    flock_hatch(&gone, 3, "1");
    flock_need(gw_links_want(p->a.links, &gone.identity.id, addrs, count, &err), &err);
}

static bool a_went_down(void *context) {
    return ((pair *)context)->a.downs > 0;
}

Test(link, an_address_that_another_peer_has_proves_death_too) {
    pair p;
    open_pair(&p, "1", "1");
    want_the_gone(&p, &p.b.addr, 1);
    flock_turn_until(p.loop, a_saw_refused, &p);
    close_pair(&p);
}

/* A bridge of containers has the same address on every host: a peer that dials it there reaches itself. */
Test(link, an_address_that_leads_back_here_proves_nothing) {
    pair p;
    open_pair(&p, "1", "1");
    want_the_gone(&p, &p.a.addr, 1);
    for (int round = 0; round < 3; round++) { /* each is reported */
        flock_turn_until(p.loop, a_went_down, &p);
        cr_assert_eq(last_event(&p.a)->why, GW_CLOSED_UNREACHABLE);
        cr_assert_eq(last_event(&p.a)->fault, GW_FAULT_SELF);
        p.a.downs = 0;
    }
    close_pair(&p);
}

Test(link, an_address_that_leads_back_here_leaves_the_word_to_the_others) {
    pair p;
    open_pair(&p, "1", "1");
    gw_addr addrs[2] = {p.a.addr, flock_dead_addr()};
    want_the_gone(&p, addrs, 2);
    flock_turn_until(p.loop, a_saw_refused, &p);
    close_pair(&p);
}

Test(link, a_wrong_key_is_reported_as_such_and_not_as_death) {
    pair p;
    open_pair(&p, "1", "2");
    want(&p.a, &p.b);
    flock_turn_until(p.loop, a_went_down, &p);
    cr_assert_eq(last_event(&p.a)->why, GW_CLOSED_PROTOCOL);
    cr_assert_eq(last_event(&p.a)->fault, GW_FAULT_KEY);
    cr_assert_not_null(strstr(last_event(&p.a)->text, "wrong key"));
    close_pair(&p);
}

Test(link, a_clone_of_ourselves_is_reported_as_such) {
    pair p;
    node clone = {0};
    open_pair(&p, "1", "1");
    flock_revive(&clone.peer, number_of(&p.a), "1", 1, 9);
    start_at(&clone, p.loop, (gw_addr){0});
    want_at(&p.a, &p.b, &clone.addr, 1);
    flock_turn_until(p.loop, a_went_down, &p);
    cr_assert_eq(last_event(&p.a)->fault, GW_FAULT_CLONE);
    stop(&clone);
    close_pair(&p);
}

static unsigned clone_warnings;

static void count_clone_warnings(void *context, gw_level level, const char *room, const char *text) {
    (void)context, (void)level, (void)room;
    clone_warnings += strstr(text, "two processes use the identity") != NULL;
}

typedef struct turned_away {
    const node *clone;
    size_t downs;
} turned_away;

static bool clone_is_turned_away(void *context) {
    const turned_away *t = context;
    return t->clone->downs >= t->downs;
}

/* A copied directory that is left running for weeks. */
Test(link, a_clone_that_dials_again_and_again_is_not_told_of_each_time) {
    pair p;
    node clone = {0};
    gw_log_set_sink(count_clone_warnings, NULL);
    open_pair(&p, "1", "1");
    want(&p.a, &p.b);
    flock_turn_until(p.loop, linked, &p);
    flock_revive(&clone.peer, number_of(&p.b), "1", 1, 9);
    start_at(&clone, p.loop, (gw_addr){0});
    want(&clone, &p.a);
    flock_turn_until(p.loop, clone_is_turned_away, &(turned_away){&clone, 4});
    cr_expect_eq(clone_warnings, 1, "%u lines", clone_warnings);
    cr_expect(linked(&p));
    stop(&clone);
    close_pair(&p);
}

Test(link, unwanting_closes_it_without_an_event_here) {
    pair p;
    open_pair(&p, "1", "1");
    want(&p.a, &p.b);
    flock_turn_until(p.loop, linked, &p);
    gw_links_unwant(p.a.links, &p.b.peer.identity.id);
    cr_assert(!is_up(p.a.links, &p.b.peer.identity.id));
    while (p.b.downs == 0) gw_loop_turn(p.loop, 100000000);
    cr_assert_eq(p.a.downs, 0);
    cr_assert_eq(last_event(&p.b)->why, GW_CLOSED_END);
    close_pair(&p);
}

static bool b_has_come_up_often(void *context) {
    return ((pair *)context)->b.ups >= 4;
}

Test(link, callbacks_may_unwant_and_a_side_that_wants_keeps_trying) {
    pair p;
    open_pair(&p, "1", "1");
    p.a.unwant_on_up = true;
    want(&p.a, &p.b);
    want(&p.b, &p.a);
    flock_turn_until(p.loop, b_has_come_up_often, &p);
    p.a.unwant_on_up = false;
    flock_turn_until(p.loop, linked, &p);
    p.a.unwant_on_message = true;
    say(&p.b, &p.a, "go away");
    while (p.a.messages == 0) gw_loop_turn(p.loop, 100000000);
    p.a.unwant_on_message = false;
    flock_turn_until(p.loop, linked, &p);
    talk(&p);
    close_pair(&p);
}

static bool b_heard(void *context) {
    return ((pair *)context)->b.messages == 3;
}

Test(link, long_messages_keep_their_order_with_short_ones) {
    pair p;
    gw_err err;
    open_pair(&p, "1", "1");
    want(&p.b, &p.a);
    flock_turn_until(p.loop, linked, &p);
    uint8_t *bytes = calloc(1, GW_MESSAGE_BYTES);
    say(&p.a, &p.b, "before");
    flock_need(gw_links_send(p.a.links, &p.b.peer.identity.id, bytes, GW_MESSAGE_BYTES, &err), &err);
    say(&p.a, &p.b, "after");
    cr_assert_gt(gw_links_queued(p.a.links), 0);
    flock_turn_until(p.loop, b_heard, &p);
    cr_assert_eq(p.b.last_bytes, 5);
    cr_assert_arr_eq(p.b.last, "after", 5);
    free(bytes);
    close_pair(&p);
}

enum { FLOCK = 8 };

typedef struct crowd {
    gw_loop *loop;
    node nodes[FLOCK];
} crowd;

static bool all_linked(void *context) {
    crowd *c = context;
    for (int i = 0; i < FLOCK; i++)
        for (int k = 0; k < FLOCK; k++)
            if (i != k && !is_up(c->nodes[i].links, &c->nodes[k].peer.identity.id)) return false;
    return true;
}

Test(link, a_flock_that_dials_all_at_once_is_fully_linked_without_flapping) {
    static crowd c;
    gw_err err;
    c.loop = gw_loop_open(&err);
    for (int i = 0; i < FLOCK; i++) start(&c.nodes[i], c.loop, (uint8_t)(i + 1), "1");
    for (int i = 0; i < FLOCK; i++)
        for (int k = 0; k < FLOCK; k++)
            if (i != k) want(&c.nodes[i], &c.nodes[k]);
    flock_turn_until(c.loop, all_linked, &c);
    flock_turn(c.loop, 50);
    for (int i = 0; i < FLOCK; i++) {
        cr_assert_eq(c.nodes[i].ups, FLOCK - 1);
        cr_assert_eq(c.nodes[i].downs, 0);
    }
    for (int i = 0; i < FLOCK; i++) stop(&c.nodes[i]);
    gw_loop_close(c.loop);
}

static bool four_agree(void *context) {
    crowd *c = context;
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 4; k++) {
            if (i == k) continue;
            const gw_remote *remote = gw_links_remote(c->nodes[i].links, &c->nodes[k].peer.identity.id);
            if (remote == NULL) return false;
            if (!gw_same_life(&remote->incarnation, &c->nodes[k].peer.identity.incarnation)) return false;
            if (gw_links_remote(c->nodes[k].links, &c->nodes[i].peer.identity.id) == NULL) return false;
        }
    return true;
}

/* Dials, losses and restarts happen in any order. Once all peers want links to all others, every pair has one
 * link, between their last lives, and both sides agree on it. */
static void live_through(crowd *c, uint64_t seed) {
    gw_err err;
    gw_rng rng = gw_rng_seeded(seed);
    uint64_t boots[4] = {1, 1, 1, 1};
    for (int i = 0; i < 4; i++) start(&c->nodes[i], c->loop, (uint8_t)(i + 1), "1");
    for (int step = 0; step < 60; step++) {
        int i = (int)gw_rng_below(&rng, 4), k = (i + 1 + (int)gw_rng_below(&rng, 3)) % 4;
        node *n = &c->nodes[i], *other = &c->nodes[k];
        switch (gw_rng_below(&rng, 4)) {
        case 0:
            gw_links_unwant(n->links, &other->peer.identity.id);
            break;
        case 1:
            stop(n);
            flock_revive(&n->peer, (uint8_t)(i + 1), "1", ++boots[i], gw_rng_next(&rng));
            start_at(n, c->loop, n->addr);
            break;
        default:
            want(n, other);
        }
        flock_turn(c->loop, (int)gw_rng_below(&rng, 6));
        n->event_count = other->event_count = 0;
    }
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 4; k++)
            if (i != k) want(&c->nodes[i], &c->nodes[k]);
    flock_turn_until(c->loop, four_agree, c);
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 4; k++) {
            if (i == k) continue;
            size_t before = c->nodes[k].messages;
            flock_need(gw_links_send(c->nodes[i].links, &c->nodes[k].peer.identity.id, "hi", 2, &err), &err);
            while (c->nodes[k].messages == before) gw_loop_turn(c->loop, 100000000);
        }
    for (int i = 0; i < 4; i++) stop(&c->nodes[i]);
}

Test(link, whatever_happened_before_a_flock_that_wants_to_be_linked_is) {
    static crowd c;
    gw_err err;
    c.loop = gw_loop_open(&err);
    for (uint64_t seed = 1; seed <= 60; seed++) {
        memset(c.nodes, 0, sizeof c.nodes);
        live_through(&c, seed);
    }
    gw_loop_close(c.loop);
}

/* The wire format: what the peer with the lower id receives on a fresh connection, and what it answers. */
typedef struct wire {
    gw_stream *stream;
    bool ready;
    uint8_t bytes[64];
    size_t count, messages;
    gw_closed why;
} wire;

static void wire_ready(void *context, gw_stream *stream, const gw_remote *remote) {
    (void)stream, (void)remote;
    ((wire *)context)->ready = true;
}
static void wire_message(void *context, gw_stream *stream, const uint8_t *bytes, size_t count) {
    (void)stream;
    wire *w = context;
    cr_assert_leq(count, sizeof w->bytes);
    memcpy(w->bytes, bytes, count);
    w->count = count;
    w->messages++;
}
static void wire_closed(void *context, gw_stream *stream, gw_closed why, gw_fault fault, const char *text) {
    (void)stream, (void)fault, (void)text;
    ((wire *)context)->stream = NULL;
    ((wire *)context)->why = why;
}
static bool wire_got(void *context) {
    return ((wire *)context)->messages > 0 || ((wire *)context)->stream == NULL;
}

static void wire_dial(wire *w, gw_loop *loop, const flock_peer *as, const gw_addr *to, uint64_t word) {
    gw_err err;
    gw_stream_events events = {
        .context = w, .ready = wire_ready, .message = wire_message, .closed = wire_closed};
    w->stream = gw_stream_dial(loop, &as->local, to, GW_STREAM_CONTROL, word, &events, &err);
    flock_need(w->stream != NULL, &err);
}

Test(link, the_bytes_of_an_offer_are_pinned_and_only_the_right_answer_takes_it) {
    pair p;
    gw_err err;
    open_pair(&p, "1", "1"); /* b has the higher id and offers; the test plays a */
    const uint8_t offer[] = {1, 1, 1, 0, 0, 0, 1, 0, 0, 0}, take[] = {1, 2, 1, 0, 0, 0, 1, 0, 0, 0};
    wire w = {0};
    wire_dial(&w, p.loop, &p.a.peer, &p.b.addr, 0);
    flock_turn_until(p.loop, wire_got, &w);
    cr_assert_eq(w.count, sizeof offer);
    cr_assert_arr_eq(w.bytes, offer, sizeof offer);
    cr_assert_eq(p.b.ups, 0, "not before it is taken");
    flock_need(gw_stream_send(w.stream, take, sizeof take, &err), &err);
    while (p.b.ups == 0) gw_loop_turn(p.loop, 100000000);
    /* The test claims to have taken offer 1 and lost it: b believes it at once and offers 2. */
    wire again = {0};
    wire_dial(&again, p.loop, &p.a.peer, &p.b.addr, UINT64_C(1) << 32 | 1);
    flock_turn_until(p.loop, wire_got, &again);
    cr_assert_eq(again.bytes[2], 2);
    cr_assert_eq(p.b.downs, 1);
    /* A wrong answer is turned away. */
    flock_need(gw_stream_send(again.stream, take, sizeof take, &err), &err);
    again.messages = 0;
    flock_turn_until(p.loop, wire_got, &again);
    cr_assert_null(again.stream);
    cr_assert_eq(p.b.ups, 1);
    gw_stream_close(w.stream);
    close_pair(&p);
}

Test(link, an_old_or_senseless_offer_is_turned_away) {
    pair p;
    gw_err err;
    open_pair(&p, "1", "1"); /* a has the lower id and takes; the test plays b */
    const char *bad[] = {"", "\1\1\1", "\2\1\1\0\0\0\0\0\0\0", "\1\2\1\0\0\0\0\0\0\0",
                         "\1\1\0\0\0\0\0\0\0\0"};
    const size_t lengths[] = {0, 3, 10, 10, 10};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        wire w = {0};
        wire_dial(&w, p.loop, &p.b.peer, &p.a.addr, 0);
        while (!w.ready) gw_loop_turn(p.loop, 100000000);
        flock_need(gw_stream_send(w.stream, bad[i], lengths[i], &err), &err);
        flock_turn_until(p.loop, wire_got, &w);
        cr_assert_null(w.stream, "%zu", i);
    }
    cr_assert_eq(p.a.ups, 0);
    close_pair(&p);
}
