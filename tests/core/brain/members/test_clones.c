/* Two processes of one identity: which of them goes. */
#include "tests/core/brain/flock/flock.h"

#include "core/gossip/codec.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

enum { MOST_EVENTS = 100000, STEPS = 1000, MINE = 1 };

/* The first peer hears of another process of its identity: of that one (`speaks`), or of somebody. */
static void hear_of_clone(flock *f, uint64_t boot, bool speaks) {
    const gw_peer_id self = f->peers[0].config.id, other = f->peers[1].config.id;
    const gw_addr from = {.family = 4, .ip = {10, 9, 8, 7}, .port = 4242};
    const gw_incarnation life = {.boot = boot, .nonce = f->peers[0].config.incarnation.nonce + 1};
    gw_gossip_packet packet = {.version = GW_GOSSIP_VERSION,
                               .type = GW_GOSSIP_RUMOURS,
                               .sender = speaks ? self : other,
                               .incarnation = speaks ? life : f->peers[1].config.incarnation};
    const gw_gossip_record record = {.state = GW_GOSSIP_IS_ALIVE, .id = self, .incarnation = life};
    uint8_t bytes[GW_GOSSIP_DATAGRAM];
    gw_writer w = gw_writer_on(bytes, sizeof bytes);
    gw_gossip_packet_put(&w, &packet);
    gw_put_u8(&w, 1);
    gw_gossip_record_put(&w, &record, packet.version);
    cr_assert(!w.failed);
    flock_tell(f, 0,
               (gw_event){.kind = GW_EV_DATAGRAM,
                          .datagram.from = speaks ? from : f->peers[1].config.addrs[0],
                          .datagram.bytes = bytes,
                          .datagram.length = w.length});
}

static void expect(uint64_t boot, bool speaks, bool in_view, bool goes_on) {
    flock f;
    flock_open(&f, 2, 2, STEPS, GW_QUORUM_ANY);
    f.peers[0].config.incarnation.boot = 4;
    flock_start(&f, 0);
    if (in_view) {
        flock_start(&f, 1);
        cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
    } else {
        cr_assert_not(flock_run(&f, NULL, 50));
    }
    uint64_t own = f.peers[0].config.incarnation.boot;
    hear_of_clone(&f, own + boot - MINE, speaks);
    cr_expect_neq(f.peers[0].finished, goes_on, "boot %lu, speaks %d, in view %d", boot, speaks, in_view);
    const char *text = f.peers[0].finish_text, *told = speaks ? " at 10.9.8.7:4242" : "";
    char part[100];
    snprintf(part, sizeof part, "another process%s runs with this peer's identity", told);
    if (!goes_on) cr_expect(f.peers[0].finish == GW_FINISH_DENIED && strstr(text, part) != NULL, "%s", text);
    flock_close(&f);
}

Test(peer_clones, the_later_start_goes_on_as_the_next_life) {
    for (int in_view = 0; in_view <= 1; in_view++) {
        for (int speaks = 0; speaks <= 1; speaks++) expect(MINE + 1, speaks, in_view, false);
        expect(MINE - 1, true, in_view, true);
    }
}

Test(peer_clones, of_two_started_as_often_the_one_in_a_view_goes_on) {
    for (int speaks = 0; speaks <= 1; speaks++) {
        expect(MINE, speaks, true, true);
        expect(MINE, speaks, false, false);
    }
}
