#include "core/base/assert.h"
#include "core/base/hex.h"
#include "core/base/log.h"
#include "core/os/clock.h"
#include "core/os/durable.h"
#include "net/loop/address.h"
#include "net/loop/own_address.h"
#include "tools/godwit/flock/inside.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { KNOWN_NAME_BYTES = 256 << 10, DAY_S = 86400 };

#define KNOWN_NAME    "members"
#define LEFT          "left"
#define WAIT_SEEDS_NS (10 * GW_SECOND_NS)

static void set_timer(gw_flock_member *m, gw_timer *timer, uint64_t at_ns, gw_loop_call *call) {
    gw_err err;
    if (!gw_timer_set(m->loop, timer, at_ns, call, m, &err)) gw_log(GW_ERROR, "flock", "%s", err.text);
}

/* Gossip. */

static void gossip_due(void *context) {
    gw_flock_member *m = context;
    gw_member_lost_beat(m);
    gw_gossip_tick(m->gossip, gw_now_ns());
    set_timer(m, &m->gossip_timer, gw_gossip_next_deadline(m->gossip), gossip_due);
}

static void send_datagram(void *context, const gw_addr *to, const void *bytes, size_t length) {
    gw_flock_member *m = context;
    uint8_t datagram[GW_DATAGRAM_BYTES];
    if (length > GW_PACKET_BODY) return;
    gw_udp_send(m->udp, to, datagram, gw_packet_seal(m->packets, bytes, length, datagram));
}

static void datagram_received(void *context, const gw_addr *from, uint8_t *bytes, size_t count) {
    gw_flock_member *m = context;
    gw_peer_id sender;
    const uint8_t *body;
    size_t length;
    if (gw_packet_open(m->packets, from, bytes, count, gw_now_ns(), &sender, &body, &length) !=
        GW_PACKET_GOOD)
        return;
    gw_gossip_datagram(m->gossip, from, body, length, gw_now_ns());
    set_timer(m, &m->gossip_timer, gw_gossip_next_deadline(m->gossip), gossip_due);
}

static gw_member_known *find_known(gw_flock_member *m, const gw_peer_id *id) {
    for (uint32_t i = 0; i < m->known_count; i++)
        if (gw_peer_id_equal(&m->known[i].id, id)) return &m->known[i];
    return NULL;
}

static void note_known(gw_flock_member *m, const gw_peer_id *id, const gw_addr *addr) {
    uint64_t now_s = gw_wall_ns() / GW_SECOND_NS;
    gw_member_known *known = find_known(m, id);
    if (known == NULL && m->known_count == GW_MEMBER_KNOWN) return;
    m->known_changed |= known == NULL || known->left || !gw_addr_equal(&known->addr, addr) ||
                        now_s > known->seen_s + DAY_S / 24;
    if (known == NULL) known = &m->known[m->known_count++];
    *known = (gw_member_known){.id = *id, .addr = *addr, .seen_s = now_s};
}

/* A member that was live until now is not any more. */
static void note_away(gw_flock_member *m, const gw_peer_id *id, bool left) {
    gw_member_known *known = find_known(m, id);
    if (known != NULL) {
        known->seen_s = gw_wall_ns() / GW_SECOND_NS;
        known->left = left;
        m->known_changed = true;
    }
    if (left)
        gw_sides_left(m->sides, id);
    else
        gw_sides_lost(m->sides, id, gw_exchange_claims_of(m->exchange, id), gw_now_ns());
}

static void found(gw_flock_member *m, const gw_gossip_member *other) {
    if (other->addr_count == 0) return;
    gw_member_reach_live(m, &other->id);
    note_known(m, &other->id, &other->addr[0]);
    gw_sides_live(m->sides, &other->id, &other->incarnation);
}

static void lost(gw_flock_member *m, const gw_peer_id *id, bool left) {
    char name[GW_CLAIMS_NAME_TEXT];
    gw_log(GW_INFO, "flock", "%s %s", gw_member_name(m, id, name), left ? "has left" : "is gone");
    if (!left) gw_member_bereave(m, id);
    note_away(m, id, left);
    gw_member_reach_lost(m, id);
    gw_exchange_gone(m->exchange, id);
    gw_member_decide_soon(m);
}

static void tell_unreadable(gw_flock_member *m, const gw_gossip_event *event) {
    char addr[GW_ADDR_TEXT];
    gw_member_warn(
        m,
        "the member at %s speaks version %u of Godwit's gossip, and this build speaks versions %u and %u: "
        "they cannot meet. Run a newer build of Godwit %s",
        gw_addr_text(&event->other_addr, addr), event->version, event->oldest, event->newest,
        event->version < event->oldest ? "there" : "here");
}

static void gossip_event(void *context, const gw_gossip_event *event) {
    gw_flock_member *m = context;
    const gw_gossip_member *other = event->member;
    bool self = gw_peer_id_equal(&other->id, &m->identity.id);
    char name[GW_CLAIMS_NAME_TEXT];
    switch (event->kind) {
    case GW_GOSSIP_ALIVE:
    case GW_GOSSIP_META:
        if (self || other->state > GW_GOSSIP_IS_SUSPECT) break;
        if (event->kind == GW_GOSSIP_ALIVE)
            gw_log(GW_INFO, "flock", "%s is here", gw_member_name(m, &other->id, name));
        found(m, other);
        gw_member_decide_soon(m);
        break;
    case GW_GOSSIP_DEAD:
        if (!self) lost(m, &other->id, false);
        break;
    case GW_GOSSIP_LEFT:
        if (!self) lost(m, &other->id, true);
        break;
    case GW_GOSSIP_CLONED:
        if (!self) break;
        gw_log(GW_ERROR, "flock",
               "another process runs with the identity in %s, or has run with it since this copy of the "
               "directory was made. This member ends. Give each member a directory of its own; where an old "
               "copy "
               "was put back, start it again until it has been started as often as the others remember",
               m->directory.path);
        m->copied = true;
        m->stopped = true;
        gw_loop_stop(m->loop);
        break;
    case GW_GOSSIP_UNREADABLE:
        tell_unreadable(m, event);
        break;
    case GW_GOSSIP_SUSPECT:
        break;
    }
}

bool gw_member_is_live(const gw_flock_member *m, const gw_peer_id *id) {
    const gw_gossip_member *found = gw_gossip_find(m->gossip, id);
    return found != NULL && found->state <= GW_GOSSIP_IS_SUSPECT && found->addr_count > 0;
}

uint32_t gw_member_live_count(const gw_flock_member *m) {
    uint32_t live = 0;
    for (uint32_t i = 0; i < gw_gossip_count(m->gossip); i++)
        live += gw_gossip_at(m->gossip, i)->state <= GW_GOSSIP_IS_SUSPECT;
    return live;
}

uint32_t gw_member_company(const gw_flock_member *m) {
    uint32_t count = gw_member_live_count(m);
    for (uint32_t i = 0; i < m->known_count; i++)
        count += !m->known[i].left && !gw_member_is_live(m, &m->known[i].id);
    return count;
}

bool gw_member_address(const gw_flock_member *m, const gw_peer_id *id, gw_addr *addr) {
    const gw_gossip_member *found = gw_gossip_find(m->gossip, id);
    if (found == NULL || found->addr_count == 0) return false;
    *addr = found->addr[0];
    return true;
}

const char *gw_member_name(const gw_flock_member *m, const gw_peer_id *id, char text[GW_CLAIMS_NAME_TEXT]) {
    const gw_gossip_member *found = gw_gossip_find(m->gossip, id);
    const gw_claims *claims = gw_exchange_claims_of(m->exchange, id);
    if (found != NULL && found->name != NULL && found->name[0] != '\0')
        snprintf(text, GW_CLAIMS_NAME_TEXT, "%s", found->name);
    else if (claims != NULL && claims->name[0] != '\0')
        snprintf(text, GW_CLAIMS_NAME_TEXT, "%s", claims->name);
    else
        gw_peer_id_short(id, text);
    return text;
}

/* Links. */

static void link_up(void *context, const gw_peer_id *peer, const gw_remote *remote) {
    gw_flock_member *m = context;
    (void)remote;
    gw_exchange_up(m->exchange, peer, gw_now_ns());
    gw_member_reach_up(m, peer);
    gw_member_follow_exchange(m);
}

static void link_down(void *context, const gw_peer_id *peer, gw_closed why, gw_fault fault,
                      const char *text) {
    gw_flock_member *m = context;
    char name[GW_CLAIMS_NAME_TEXT];
    const gw_gossip_member *found = gw_gossip_find(m->gossip, peer);
    gw_log(GW_DEBUG, "flock", "link to %s: %s", gw_member_name(m, peer, name), text);
    gw_exchange_down(m->exchange, peer);
    if (fault != GW_FAULT_NONE && found != NULL && found->state <= GW_GOSSIP_IS_SUSPECT)
        gw_member_warn(m, "%s: %s", gw_member_name(m, peer, name), text);
    if (found == NULL) return;
    if (why == GW_CLOSED_REFUSED) {
        gw_incarnation life = found->incarnation;
        gw_gossip_confirm_dead(m->gossip, peer, &life, gw_now_ns());
    } else {
        gw_gossip_suspect_hint(m->gossip, peer, gw_now_ns());
    }
    set_timer(m, &m->gossip_timer, gw_gossip_next_deadline(m->gossip), gossip_due);
}

static void link_message(void *context, const gw_peer_id *peer, const uint8_t *bytes, size_t count) {
    gw_flock_member *m = context;
    char name[GW_CLAIMS_NAME_TEXT];
    uint64_t news;
    if (count < 1) return;
    if (bytes[0] != GW_LINK_EXCHANGE) gw_member_reach_heard(m, peer);
    switch (bytes[0]) {
    case GW_LINK_EXCHANGE:
        news = gw_exchange_news(m->exchange);
        if (!gw_exchange_message(m->exchange, peer, bytes + 1, count - 1, gw_now_ns()))
            gw_member_warn(m, "%s sends what makes no sense to this build", gw_member_name(m, peer, name));
        gw_member_follow_exchange(m);
        if (gw_exchange_news(m->exchange) != news) gw_member_decide_soon(m);
        break;
    case GW_LINK_REQUEST:
        gw_member_hear_request(m, peer, bytes + 1, count - 1);
        break;
    case GW_LINK_ANSWER:
        gw_member_hear_answer(m, peer, bytes + 1, count - 1);
        break;
    case GW_LINK_MAP:
        gw_member_hear_map(m, peer, bytes + 1, count - 1);
        break;
    default:
        break; /* of a later version */
    }
}

static void accepted(void *context, gw_stream *stream, const gw_remote *remote) {
    gw_flock_member *m = context;
    if (remote->kind == GW_STREAM_CONTROL)
        gw_links_adopt(m->links, stream);
    else
        gw_stream_close(stream);
}

/* The exchange. */

static void exchange_send(void *context, const gw_peer_id *to, const void *bytes, size_t length) {
    gw_member_send(context, to, GW_LINK_EXCHANGE, bytes, length);
}

static void exchange_reach(void *context, const gw_peer_id *id) {
    gw_member_reach(context, id);
}

static void exchange_changed(void *context, const gw_job_record_id *id) {
    gw_member_record_changed(context, id);
}

static void exchange_claims(void *context, const gw_peer_id *member) {
    (void)member;
    gw_member_decide_soon(context);
}

static void exchange_held(void *context, const gw_job_record_id *id, const gw_peer_id *member,
                          uint64_t state) {
    gw_member_submission_held(context, id, member, state);
}

static void exchange_due(void *context) {
    gw_flock_member *m = context;
    uint64_t news = gw_exchange_news(m->exchange);
    gw_exchange_tick(m->exchange, gw_now_ns());
    if (gw_exchange_news(m->exchange) != news) gw_member_decide_soon(m);
    gw_member_follow_exchange(m);
}

void gw_member_follow_exchange(gw_flock_member *m) {
    set_timer(m, &m->exchange_timer, gw_exchange_next_deadline(m->exchange), exchange_due);
}

/* The members that were met. */

static bool known_path(const gw_flock_member *m, char path[GW_PATH_BYTES], gw_err *err) {
    return gw_durable_path(path, err, "%s/%s", m->directory.path, KNOWN_NAME);
}

/* Reads the lines "ID SECONDS HOST:PORT", and "left" behind those of members that have left; others are left out. */
static void read_known(gw_flock_member *m) {
    char path[GW_PATH_BYTES], line[200], id[GW_ID_TEXT], addr[GW_ADDR_TEXT], word[8];
    gw_err err;
    uint64_t now_s = gw_wall_ns() / GW_SECOND_NS;
    FILE *file = known_path(m, path, &err) ? fopen(path, "re") : NULL;
    while (file != NULL && m->known_count < GW_MEMBER_KNOWN && fgets(line, sizeof line, file) != NULL) {
        gw_member_known *one = &m->known[m->known_count];
        unsigned long long seen;
        int words = sscanf(line, "%32s %llu %63s %7s", id, &seen, addr, word);
        if (words < 3 || !gw_unhex(id, one->id.bytes, sizeof one->id.bytes) ||
            !gw_address_literal(addr, &one->addr) || seen + DAY_S < now_s)
            continue;
        one->seen_s = seen;
        one->left = words == 4 && strcmp(word, LEFT) == 0;
        m->known_count++;
    }
    if (file != NULL) fclose(file);
}

void gw_member_write_known(gw_flock_member *m) {
    char path[GW_PATH_BYTES], temporary[GW_PATH_BYTES + 8], id[GW_ID_TEXT], addr[GW_ADDR_TEXT], *text = NULL;
    size_t length = 0;
    gw_err err;
    FILE *out = open_memstream(&text, &length);
    GW_ASSERT_MEMORY(out != NULL);
    for (uint32_t i = 0; i < m->known_count; i++) {
        gw_hex(m->known[i].id.bytes, sizeof m->known[i].id.bytes, id);
        fprintf(out, "%s %llu %s%s\n", id, (unsigned long long)m->known[i].seen_s,
                gw_addr_text(&m->known[i].addr, addr), m->known[i].left ? " " LEFT : "");
    }
    GW_ASSERT_MEMORY(fclose(out) == 0);
    if (known_path(m, path, &err)) {
        snprintf(temporary, sizeof temporary, "%s.new", path);
        if (!gw_durable_replace(gw_io_system(), temporary, m->directory.path, path, text, length, &err))
            gw_member_warn(m, "%s", err.text);
    }
    free(text);
    m->known_changed = false;
}

/* Seeds. */

typedef struct found_seeds {
    gw_flock_member *member;
    uint32_t count;
    gw_addr addrs[GW_GOSSIP_SEEDS];
} found_seeds;

static void take_seeds(void *context) {
    found_seeds *found = context;
    gw_flock_member *m = found->member;
    gw_gossip_seek(m->gossip, found->addrs, found->count, gw_now_ns());
    set_timer(m, &m->gossip_timer, gw_gossip_next_deadline(m->gossip), gossip_due);
    free(found);
}

/* On a thread that looks names up. */
static void seeds_found(void *context, const gw_addr *addrs, uint32_t count) {
    gw_flock_member *m = context;
    gw_err err;
    found_seeds *found = calloc(1, sizeof *found);
    if (found == NULL) return;
    found->member = m;
    found->count = count < GW_GOSSIP_SEEDS ? count : GW_GOSSIP_SEEDS;
    memcpy(found->addrs, addrs, found->count * sizeof *addrs);
    if (!gw_loop_post(m->loop, take_seeds, found, &err)) free(found);
}

/* Opening and closing. */

static bool open_gossip(gw_flock_member *m, gw_err *err) {
    gw_addr seeds[GW_GOSSIP_SEEDS], own[GW_GOSSIP_ADDRS];
    uint32_t count = gw_seeds_known(m->options->seeds, m->options->seed_count, seeds);
    for (uint32_t i = 0; i < m->known_count && count < GW_GOSSIP_SEEDS; i++)
        seeds[count++] = m->known[i].addr;
    size_t own_count = gw_own_addresses(&m->local.listen, seeds, count, own, GW_GOSSIP_ADDRS);
    gw_gossip_config config = {.id = m->identity.id,
                               .incarnation = m->identity.incarnation,
                               .cluster = m->local.cluster,
                               .addr_count = (uint32_t)own_count,
                               .seeds = seeds,
                               .seed_count = count,
                               .name = m->claims.name,
                               .timing = gw_gossip_timing_default(),
                               .rng_seed = m->identity.incarnation.nonce,
                               .sink = {m, send_datagram, gossip_event}};
    memcpy(config.addr, own, own_count * sizeof *own);
    return gw_gossip_create(&config, &m->gossip, err);
}

static void open_exchange(gw_flock_member *m) {
    gw_peer_id *known = calloc(m->known_count + 1, sizeof *known);
    GW_ASSERT_MEMORY(known != NULL);
    uint32_t count = 0;
    uint64_t now_s = gw_wall_ns() / GW_SECOND_NS;
    for (uint32_t i = 0; i < m->known_count; i++) {
        const gw_member_known *one = &m->known[i];
        if (one->left) continue;
        known[count++] = one->id;
        gw_sides_known(m->sides, &one->id, now_s > one->seen_s ? (now_s - one->seen_s) * GW_SECOND_NS : 0,
                       gw_now_ns());
    }
    gw_exchange_config config = {
        .self = m->identity.id,
        .records = m->records,
        .known = known,
        .known_count = count,
        .expects_others = m->options->seed_count > 0,
        .gate_ns = m->options->gate_ns,
        .rng_seed = m->identity.incarnation.nonce + 1,
        .sink = {m, exchange_send, exchange_reach, exchange_changed, exchange_claims, exchange_held}};
    m->exchange = gw_exchange_open(&config, gw_now_ns());
    free(known);
}

bool gw_member_meet_open(gw_flock_member *m, gw_err *err) {
    gw_link_events links = {m, link_up, link_down, link_message};
    gw_listener_events events = {.context = m, .accepted = accepted};
    read_known(m);
    m->packets = gw_packets_open(&m->identity, &m->keyring, &m->local.cluster, err);
    if (m->packets == NULL) return false;
    m->udp = gw_udp_open(m->loop, m->udp_fd, datagram_received, m, err);
    m->udp_fd = -1;
    if (m->udp == NULL || (m->links = gw_links_open(m->loop, &m->local, &links, err)) == NULL) return false;
    m->sides = gw_sides_open(&m->identity.id);
    if (!open_gossip(m, err)) return false;
    open_exchange(m);
    m->listener = gw_listener_open(m->loop, &m->local, m->tcp_fd, &events, err);
    m->tcp_fd = -1;
    if (m->listener == NULL) return false;
    gw_member_reach_open(m);
    gw_gossip_start(m->gossip, gw_now_ns());
    set_timer(m, &m->gossip_timer, gw_gossip_next_deadline(m->gossip), gossip_due);
    gw_member_follow_exchange(m);
    return gw_seeds_open(m->options->seeds, m->options->seed_count, WAIT_SEEDS_NS, seeds_found, m, &m->seeds,
                         err);
}

void gw_member_meet_close(gw_flock_member *m) {
    gw_timer_cancel(&m->gossip_timer);
    gw_timer_cancel(&m->exchange_timer);
    gw_seeds_close(m->seeds);
    gw_listener_close(m->listener);
    gw_member_reach_close(m);
    gw_links_close(m->links);
    gw_udp_close(m->udp);
    gw_exchange_close(m->exchange);
    gw_sides_close(m->sides);
    gw_gossip_destroy(m->gossip);
    gw_packets_close(m->packets);
    if (m->known_changed) gw_member_write_known(m);
}
