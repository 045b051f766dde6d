/* Links and what goes over them: they are perfect but for what a test does to them. */
#include "tests/core/brain/flock/inside.h"

#include "core/gossip/codec.h"

#include <criterion/criterion.h>

enum { MOST_DATAGRAM = 2048 };

void flock_end_links(flock *f, uint32_t i) {
    for (uint32_t k = 0; k < f->count; k++) {
        f->peers[i].linked[k] = false;
        if (!f->peers[k].linked[i] || f->peers[k].brain == NULL) continue;
        gw_event down = {.kind = GW_EV_LINK_DOWN,
                         .peer = f->peers[i].config.id,
                         .link.incarnation = f->peers[i].config.incarnation};
        uint64_t way_ns = f->message_ns + f->longer_ns[i][k]; /* behind what it said before */
        down.link.end = GW_LINK_CLOSED;
        flock_post(f, k, way_ns + 50000, down);
        down.link.end = GW_LINK_REFUSED;
        flock_post(f, k, way_ns + 100000, down);
    }
}

void flock_refuse(flock *f, uint32_t i, uint32_t other) {
    flock_post(f, i, 200000,
               (gw_event){.kind = GW_EV_LINK_DOWN,
                          .peer = f->peers[other].config.id,
                          .link.incarnation = f->peers[other].config.incarnation,
                          .link.end = GW_LINK_REFUSED});
}

static void tell_data(flock *f, uint32_t to, uint32_t about, bool own_fault) {
    bool lost = f->data_lost[to][about];
    flock_post(f, to, 1000,
               (gw_event){.kind = lost ? GW_EV_DATA_DOWN : GW_EV_DATA_UP,
                          .peer = f->peers[about].config.id,
                          .text = lost ? "no descriptor is left" : NULL,
                          .data_down.own_fault = own_fault});
}

void flock_lose_data(flock *f, uint32_t a, uint32_t b, int at_fault) {
    f->data_lost[a][b] = f->data_lost[b][a] = true;
    tell_data(f, a, b, at_fault == (int)a);
    tell_data(f, b, a, at_fault == (int)b);
}

void flock_mend_data(flock *f, uint32_t a, uint32_t b) {
    f->data_lost[a][b] = f->data_lost[b][a] = false;
    tell_data(f, a, b, false);
    tell_data(f, b, a, false);
}

void flock_link(flock *f, uint32_t a, uint32_t b) {
    if (f->peers[a].linked[b] || f->peers[a].brain == NULL || f->cut[a][b]) return;
    if (f->peers[b].brain == NULL) {
        flock_refuse(f, a, b);
        return;
    }
    f->peers[a].linked[b] = f->peers[b].linked[a] = true;
    flock_post(f, a, 1000,
               (gw_event){.kind = GW_EV_LINK_UP,
                          .peer = f->peers[b].config.id,
                          .link.incarnation = f->peers[b].config.incarnation});
    flock_post(f, b, 1000,
               (gw_event){.kind = GW_EV_LINK_UP,
                          .peer = f->peers[a].config.id,
                          .link.incarnation = f->peers[a].config.incarnation});
    tell_data(f, a, b, false);
    tell_data(f, b, a, false);
}

static void break_link(flock *f, uint32_t a, uint32_t b) {
    const uint32_t ends[2] = {a, b};
    if (!f->peers[a].linked[b]) return;
    f->peers[a].linked[b] = f->peers[b].linked[a] = false;
    for (int k = 0; k < 2; k++) {
        const flock_peer *other = &f->peers[ends[1 - k]];
        flock_post(f, ends[k], 1000,
                   (gw_event){.kind = GW_EV_LINK_DOWN,
                              .peer = other->config.id,
                              .link.incarnation = other->config.incarnation,
                              .link.end = GW_LINK_CLOSED});
    }
}

/* Whoever drops a link is not told that it is down. */
static void drop_link(flock *f, uint32_t i, uint32_t other) {
    if (!f->peers[i].linked[other]) return;
    f->peers[i].linked[other] = f->peers[other].linked[i] = false;
    flock_post(f, other, 1000,
               (gw_event){.kind = GW_EV_LINK_DOWN,
                          .peer = f->peers[i].config.id,
                          .link.incarnation = f->peers[i].config.incarnation,
                          .link.end = GW_LINK_CLOSED});
}

void flock_cut(flock *f, uint32_t a, uint32_t b, bool datagrams) {
    f->cut[a][b] = f->cut[b][a] = true;
    f->parted[a][b] = f->parted[b][a] = datagrams;
    break_link(f, a, b);
}

void flock_mend(flock *f, uint32_t a, uint32_t b) {
    f->cut[a][b] = f->cut[b][a] = f->parted[a][b] = f->parted[b][a] = false;
    flock_link(f, a, b);
}

/* Whether this is a message that the test has something happen to. */
static bool is_struck(flock *f, uint32_t from, uint32_t to, const gw_action *a) {
    flock_break *b = &f->breaks;
    gw_message message;
    gw_err err;
    if (b->times == 0 || (b->from >= 0 && b->from != (int)from) || (b->to >= 0 && b->to != (int)to))
        return false;
    cr_assert(gw_message_decode(a->message.bytes, a->message.length, &message, &err), "%s", err.text);
    bool struck = message.kind == b->kind;
    gw_message_free(&message);
    b->times -= struck;
    return struck;
}

static void break_for_a_while(flock *f, uint32_t from, uint32_t to) {
    break_link(f, from, to);
    flock_post(f, from, 1000000, (gw_event){.peer = f->peers[to].config.id})->redial = true;
}

void flock_link_or_drop(flock *f, uint32_t i, const gw_action *a) {
    uint32_t other = (uint32_t)flock_index(f, &a->peer);
    if (a->link.wanted)
        flock_link(f, i, other);
    else
        drop_link(f, i, other);
}

/* The same datagram without that peer's blobs. */
static size_t strip_blobs(const gw_peer_id *of, const gw_action *a, uint8_t *bytes, size_t capacity) {
    gw_reader r = gw_reader_on(a->datagram.bytes, a->datagram.length);
    gw_writer w = gw_writer_on(bytes, capacity);
    gw_gossip_packet packet;
    gw_gossip_packet_get(&r, &packet);
    gw_gossip_packet_put(&w, &packet);
    uint8_t count = gw_get_u8(&r);
    gw_put_u8(&w, count);
    for (uint8_t k = 0; k < count; k++) {
        gw_gossip_record record;
        gw_gossip_record_get(&r, &record, packet.version);
        if (gw_peer_id_equal(&record.id, of)) record.has_meta = false;
        gw_gossip_record_put(&w, &record, packet.version);
    }
    cr_assert(gw_reader_done(&r) && !w.failed);
    return w.length;
}

void flock_datagram(flock *f, uint32_t i, const gw_action *a) {
    uint8_t stripped[MOST_DATAGRAM];
    size_t length = f->blobs_lost == NULL ? 0 : strip_blobs(f->blobs_lost, a, stripped, sizeof stripped);
    const gw_event event = {.kind = GW_EV_DATAGRAM, .datagram.from = f->peers[i].config.addrs[0]};
    for (uint32_t k = 0; k < f->count; k++) {
        if (f->peers[k].brain == NULL || !gw_addr_equal(&f->peers[k].config.addrs[0], &a->datagram.to))
            continue;
        if (f->parted[i][k] || f->unheard[i][k]) continue;
        flock_event *e = flock_post(f, k, 200000, event);
        if (length > 0)
            flock_keep_bytes(e, stripped, length);
        else
            flock_keep_bytes(e, a->datagram.bytes, a->datagram.length);
    }
}

void flock_message(flock *f, uint32_t i, const gw_action *a) {
    const gw_event event = {.kind = GW_EV_MESSAGE, .peer = f->peers[i].config.id};
    uint32_t other = (uint32_t)flock_index(f, &a->peer);
    if (!f->peers[i].linked[other]) return;
    uint64_t way_ns = f->message_ns + f->longer_ns[i][other];
    if (is_struck(f, i, other, a)) {
        if (!f->breaks.quiet) break_for_a_while(f, i, other);
        if (f->breaks.later_ns == 0) return;
        way_ns += f->breaks.later_ns;
    }
    flock_keep_bytes(flock_post(f, other, way_ns, event), a->message.bytes, a->message.length);
    if (f->echo_ns != 0)
        flock_keep_bytes(flock_post(f, other, way_ns + f->echo_ns, event), a->message.bytes,
                         a->message.length);
}
