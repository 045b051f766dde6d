/* A path whose device comes back is tried at once, however long it would still be excluded; until then the
 * log says why. Functions that the linker calls __wrap_ replace RDMA by a path that is never established. */
#include "tests/net/data_rig.h"

#include "core/base/log.h"
#include "net/rail/path.h"
#include "net/rdma/path.h"

#include <criterion/criterion.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#define HOUR_NS UINT64_C(3600000000000)

typedef struct lame_path {
    gw_path base; /* first */
    atomic_bool down;
    atomic_uint tries;
    atomic_bool slow; /* the next card waits for `go` */
    sem_t asked, go;
} lame_path;

static lame_path paths[2]; /* the paths of the peers, in order */
static uint32_t opened;

gw_path *__wrap_gw_rdma_path_open(const gw_path_host *host, const gw_rdma_options *options, gw_err *err);

static uint32_t lame_card(gw_path *base, uint8_t bytes[GW_PATH_CARD_BYTES], gw_err *why) {
    lame_path *path = (lame_path *)base;
    if (atomic_exchange(&path->slow, false)) {
        sem_post(&path->asked);
        sem_wait(&path->go);
    }
    if (path->down) {
        gw_fail(why, GW_E_PEER, "the port is down");
        return 0;
    }
    bytes[0] = 1;
    return 1;
}

static bool lame_suits(gw_path *base, const uint8_t *card, uint32_t count, gw_err *why) {
    (void)base, (void)card, (void)count, (void)why;
    return true;
}

static gw_path_endpoint *lame_open(gw_path *base, const gw_path_endpoint *as, const uint8_t *card,
                                   uint32_t count, gw_err *err) {
    (void)as, (void)card, (void)count;
    ((lame_path *)base)->tries++;
    gw_fail(err, GW_E_PEER, "the cable is loose");
    return NULL;
}

static void lame_close(gw_path *base) {
    (void)base;
}

gw_path *__wrap_gw_rdma_path_open(const gw_path_host *host, const gw_rdma_options *options, gw_err *err) {
    static const gw_path_ops ops = {
        .kind = GW_PATH_RDMA, .card = lame_card, .suits = lame_suits, .open = lame_open, .close = lame_close};
    (void)options, (void)err;
    lame_path *path = &paths[opened++];
    path->base = (gw_path){&ops, host};
    return &path->base;
}

static rig *open_rig(void) {
    const uint32_t kinds[] = {GW_FABRIC_TCP | GW_FABRIC_RDMA, GW_FABRIC_TCP | GW_FABRIC_RDMA};
    opened = 0;
    for (int i = 0; i < 2; i++) paths[i].tries = 0;
    return rig_open_patient(kinds, 2, 1, true, HOUR_NS);
}

static void say_usable(void *context) {
    const gw_path_host *host = ((const lame_path *)context)->base.host;
    host->usable(host->fabric, GW_PATH_RDMA);
}

static void come_back(lame_path *path) {
    gw_err err;
    path->down = false;
    cr_assert(gw_loop_post(path->base.host->loop, say_usable, path, &err), "%s", err.text);
}

/* It is tried by the side that leads, at least. */
static void wait_tries(uint32_t tries) {
    for (int looks = 0; paths[0].tries < tries && paths[1].tries < tries; looks++) {
        cr_assert_lt(looks, 10000, "it is not tried");
        usleep(1000);
    }
}

TestSuite(path_return, .timeout = 60);

Test(path_return, who_was_down_when_the_link_began_is_tried) {
    for (uint32_t leader = 0; leader < 2; leader++) {
        rig *r = open_rig();
        paths[0].down = true;
        rig_link(r, leader, 1 - leader);
        cr_assert_eq(paths[0].tries + paths[1].tries, 0);
        come_back(&paths[0]);
        wait_tries(1);
        rig_close(r);
    }
}

/* Both sides exclude the path then, and the other side's device has not been away. */
Test(path_return, the_other_side_tries_too_although_it_has_failed) {
    for (uint32_t leader = 0; leader < 2; leader++) {
        rig *r = open_rig();
        rig_link(r, leader, 1 - leader);
        wait_tries(1);
        paths[0].down = true;
        rig_link(r, leader, 1 - leader);
        come_back(&paths[0]);
        wait_tries(2);
        rig_close(r);
    }
}

static void count_reason(void *reasons, gw_level level, const char *room, const char *text) {
    (void)level, (void)room;
    if (strcmp(text, "the link to peer 02020202 uses TCP: the port is down") == 0)
        atomic_fetch_add((atomic_uint *)reasons, 1);
}

/* As if both sides had dialled at once: the link whose path is established is gone before it has been
 * settled. */
Test(path_return, why_it_is_tcp_is_said_although_another_link_took_the_first_ones_place) {
    for (uint32_t leader = 0; leader < 2; leader++) {
        atomic_uint reasons = 0;
        rig *r = open_rig();
        gw_log_set_sink(count_reason, &reasons);
        cr_assert_eq(sem_init(&paths[0].asked, 0, 0) + sem_init(&paths[0].go, 0, 0), 0);
        paths[0].down = paths[0].slow = true;
        rig_connect(r, leader, 1 - leader);
        sem_wait(&paths[0].asked);
        rig_connect(r, leader, 1 - leader);
        sem_post(&paths[0].go);
        for (uint32_t i = 0; i < 2; i++) rig_wait_ups(&r->peers[i], 1);
        rig_close(r);
        cr_expect_eq(reasons, 1);
        gw_log_set_sink(NULL, NULL);
    }
}
