#include "tools/godwit/node/reach.h"

#include "core/base/assert.h"
#include "core/base/log.h"
#include "core/brain/peer.h"
#include "core/os/clock.h"
#include "net/link/stream.h"
#include "net/loop/address.h"
#include "net/loop/own_address.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND_NS        UINT64_C(1000000000)
#define FIRST_ASK_NS     SECOND_NS
#define ANSWER_NS        (3 * SECOND_NS) /* from an answer by TCP until gossip must have met the peer */
#define PATIENCE_NS      (4 * SECOND_NS) /* what an ordinary start explains is not logged before */
#define FIRST_PAUSE_NS   (2 * SECOND_NS) /* between rounds */
#define LAST_PAUSE_NS    (20 * SECOND_NS)
#define LOSS_NS          (30 * SECOND_NS) /* within which connections must be made again, to show what is lost */
#define FIRST_SILENCE_NS (15 * SECOND_NS) /* before a sentence is repeated */
#define LAST_SILENCE_NS  (600 * SECOND_NS)

enum { MOST_UNLINKED = 8 }; /* peers without a link that are asked at a time */
enum { MOST_LOSSY = 16 };
enum { TOLD_TEXT = 300 };
enum { SHOWN_SEEDS = 3, SEEDS_TEXT = SHOWN_SEEDS * (GW_ADDR_TEXT + 2) + 32, FAULT_TEXT = 200 };

/* What asking a peer has shown. */
typedef enum finding {
    UNKNOWN,
    SELF,        /* the address leads to this process */
    ANSWERS,     /* a peer of this cluster answers by TCP */
    STRANGER,    /* the handshake fails: another key, cluster, version, or program */
    REFUSED,     /* the host answers that nobody listens there */
    UNREACHABLE, /* there is no route */
    SILENT,      /* nothing answers, neither yes nor no */
    MUTE,        /* a connection is made, and no handshake follows */
} finding;

typedef struct seed {
    gw_reach *of;
    gw_addr addr;
    gw_stream *stream; /* while it is asked */
    finding found;
    uint64_t asked_ns; /* when a peer without a link was first asked; 0 = not yet */
    uint64_t found_ns;
    gw_peer_id id;          /* with ANSWERS */
    char fault[FAULT_TEXT]; /* the text of a failure */
    bool listen_checked;
    bool heard;     /* it is no seed, but a peer of which gossip hears and to which there is no link */
    finding logged; /* the finding of the last sentence; UNKNOWN = there was none */
    uint64_t silent_until_ns, silence_ns;
} seed;

/* A peer to which connections are made on which what is sent is not acknowledged. */
typedef struct lossy {
    gw_peer_id id;    /* zeros: the place is free */
    uint32_t data;    /* data links that had ended so, as far as they were counted */
    uint64_t lost_ns; /* when a connection last ended so; 0: it has been made again since */
    uint64_t silent_until_ns, silence_ns;
} lossy;

struct gw_reach {
    gw_reach_options options;
    gw_timer timer;
    uint64_t started_ns, pause_ns, answer_ns;
    bool asked; /* the timer ends the time for answers; otherwise it begins the next round */
    uint32_t count;
    seed list[GW_MAX_SEEDS];
    seed unlinked[MOST_UNLINKED]; /* with `heard`; the other entries are free */
    lossy lossy[MOST_LOSSY];
    uint32_t next_lossy;
    char told[TOLD_TEXT]; /* why no seed is met, as it was told last; empty: nothing was */
};

/* Own addresses that cannot reach a seed's. */

/* The address of this machine from which the route to `to` leaves, with the port listened on; false if
 * there is none, and if `to` is on this very machine. */
static bool own_address_towards(const gw_reach *reach, const gw_addr *to, gw_addr *own) {
    gw_addr any = {.family = to->family, .port = reach->options.listen.port}, host = *to;
    gw_own_addresses(&any, to, 1, own, 1);
    host.port = own->port;
    return !gw_address_is_any(own) && !gw_addr_equal(own, &host);
}

static void check_loopback(const gw_reach *reach, const gw_addr *seed_addr) {
    const gw_reach_options *o = &reach->options;
    char seed_text[GW_ADDR_TEXT], listen[GW_ADDR_TEXT], own_text[GW_ADDR_TEXT], advice[160];
    gw_addr own;
    if (gw_address_is_loopback(seed_addr) || !own_address_towards(reach, seed_addr, &own)) return;
    gw_addr_text(seed_addr, seed_text);
    gw_addr_text(&o->listen, listen);
    if (!o->has_key) {
        gw_log(GW_WARN, "node",
               "the seed %s is another host, and without --key this peer listens on loopback only (%s): they "
               "cannot meet. Make a key once with 'godwit keygen FILE', copy FILE to every node, and start "
               "every peer with --key FILE and without --listen, or with --listen %s here",
               seed_text, listen, gw_addr_text(&own, own_text));
        return;
    }
    bool named = strcmp(o->listen_text, listen) != 0;
    snprintf(advice, sizeof advice, "%s",
             named ? " (a name in /etc/hosts may lead to loopback, as Debian's 127.0.1.1 for the host's own)"
                   : "");
    gw_log(GW_WARN, "node",
           "--listen %s is the loopback address %s: no other host reaches this peer there, and it cannot "
           "reach the seed %s%s. Leave --listen out, which listens on all addresses, or give --listen %s",
           o->listen_text, listen, seed_text, advice, gw_addr_text(&own, own_text));
}

/* A socket of one IPv6 address has no IPv4 address, and one of IPv4 no IPv6 address; only [::] has both. */
static void check_family(const gw_reach *reach, const gw_addr *seed_addr) {
    const gw_addr *listen = &reach->options.listen;
    char seed_text[GW_ADDR_TEXT], own[GW_ADDR_TEXT];
    if (seed_addr->family == listen->family || (listen->family == 6 && gw_address_is_any(listen))) return;
    for (uint32_t i = 0; i < reach->count; i++) /* a name may lead to addresses of both families */
        if (reach->list[i].addr.family == listen->family && reach->list[i].found != SELF) return;
    gw_log(GW_WARN, "node",
           "this peer listens on %s, which is IPv%d only, and the seed %s is IPv%d: they cannot meet. Listen "
           "on both families with --listen [::]:%u, on every node, or name an IPv%d address of the seed",
           gw_addr_text(listen, own), listen->family, gw_addr_text(seed_addr, seed_text), seed_addr->family,
           listen->port, listen->family);
}

/* A seed whose name leads nowhere yet is hardly on this host. */
static void check_unresolved(const gw_reach *reach) {
    const gw_reach_options *o = &reach->options;
    char listen[GW_ADDR_TEXT];
    if (o->unresolved == NULL || !o->has_key || !gw_address_is_loopback(&o->listen)) return;
    gw_log(GW_WARN, "node",
           "--listen %s is the loopback address %s: no other host reaches this peer there, and it cannot "
           "reach the seed %s "
           "unless that is a peer on this very host. Leave --listen out, which listens on all addresses",
           o->listen_text, gw_addr_text(&o->listen, listen), o->unresolved);
}

static void check_listen(gw_reach *reach) {
    for (uint32_t i = 0; i < reach->count; i++) {
        seed *s = &reach->list[i];
        if (s->listen_checked) continue;
        s->listen_checked = true;
        if (gw_address_is_loopback(&reach->options.listen))
            check_loopback(reach, &s->addr);
        else if (!gw_address_is_loopback(&s->addr))
            check_family(reach, &s->addr);
    }
}

/* Whether one of the sentences above explains why the seed is not met. */
static bool is_explained(const gw_reach *reach, const seed *s) {
    const gw_addr *listen = &reach->options.listen;
    if (gw_address_is_loopback(listen)) return !gw_address_is_loopback(&s->addr);
    return s->addr.family != listen->family && !(listen->family == 6 && gw_address_is_any(listen));
}

/* Sentences. */

/* Whether a peer is still one that gossip hears and to which there is no link. */
static bool is_unlinked(const gw_reach *reach, const gw_peer_id *id) {
    gw_peer_id other;
    gw_addr addr;
    for (uint32_t i = 0; reach->options.find_unlinked(reach->options.context, &i, &other, &addr);)
        if (gw_peer_id_equal(&other, id)) return true;
    return false;
}

static bool is_met(const gw_reach *reach, const seed *s) {
    if (s->heard) return !is_unlinked(reach, &s->id);
    return reach->options.is_met(reach->options.context, &s->addr, &s->id);
}

static bool is_ordinary(finding found) {
    return found == REFUSED || found == UNREACHABLE || found == SILENT || found == SELF;
}

/* Whether the finding about a seed is established by now. */
static bool is_established(const gw_reach *reach, const seed *s, uint64_t now_ns) {
    if (s->found == UNKNOWN || is_met(reach, s)) return false;
    if (s->heard) return s->found != ANSWERS && now_ns >= s->asked_ns + reach->answer_ns;
    if (is_explained(reach, s)) return false;
    if (s->found == ANSWERS) return now_ns >= s->found_ns + reach->answer_ns;
    if (!is_ordinary(s->found)) return true;
    return now_ns >= reach->started_ns + PATIENCE_NS &&
           !reach->options.is_met(reach->options.context, NULL, NULL);
}

/* Logs why there is no link to a peer that gossip hears. */
static void log_unlinked(const seed *s, const char *peers) {
    char id[GW_SHORT_TEXT];
    gw_peer_id_short(&s->id, id);
    switch (s->found) {
    case SILENT:
    case REFUSED:
    case UNREACHABLE:
        gw_log(
            GW_WARN, "node",
            "gossip (UDP) hears peer %s, but no TCP connection to its address %s can be made: %s. Either a "
            "firewall drops TCP, and the port is to be opened for TCP as for UDP, on both hosts; or the "
            "address "
            "is not its address here, as behind address translation, and --advertise HOST:PORT there names "
            "the right one",
            id, peers,
            s->found == SILENT    ? "nothing answers"
            : s->found == REFUSED ? "nobody listens there"
                                  : s->fault);
        break;
    case MUTE:
    case STRANGER:
    case SELF:
        gw_log(GW_WARN, "node",
               "gossip (UDP) hears peer %s, but its address %s is that of another process, or large packets "
               "are lost "
               "on the way: %s. Check --advertise there, and the MTU of the network",
               id, peers,
               s->found == SELF   ? "it leads to this very peer"
               : s->found == MUTE ? "a connection is made, and no handshake follows"
                                  : s->fault);
        break;
    case ANSWERS:
    case UNKNOWN:
        break;
    }
}

/* `seeds` begins with "the seed" or "each of the seeds". */
static void log_finding(finding found, const char *seeds, const seed *first, unsigned own_port) {
    switch (found) {
    case ANSWERS:
        gw_log(
            GW_WARN, "node",
            "%s answers by TCP, but no UDP datagram of it arrives: a firewall between the two hosts "
            "drops UDP. Open UDP as well as TCP, in both directions: port %u of this host, and the port of "
            "the seed there",
            seeds, own_port);
        break;
    case STRANGER:
        gw_log(GW_WARN, "node", "%s answers, and turns this peer away: %s", seeds, first->fault);
        break;
    case MUTE:
        gw_log(GW_WARN, "node",
               "%s takes a connection and then says nothing: its process is stopped or overloaded, or "
               "another program listens on that port. Check the port after --join",
               seeds);
        break;
    case REFUSED:
        gw_log(GW_INFO, "node",
               "the host of %s answers, but nobody listens on that port: the peer there has not been "
               "started yet, listens on another port, or listens on another address, such as loopback",
               seeds);
        break;
    case UNREACHABLE:
        gw_log(GW_WARN, "node", "%s cannot be reached from this host: %s. Check the address and the route",
               seeds, first->fault);
        break;
    case SILENT:
        gw_log(GW_INFO, "node",
               "nothing answers at %s: that host is down, the address is another's, or a firewall "
               "drops "
               "both TCP and UDP",
               seeds);
        break;
    case SELF:
        gw_log(GW_INFO, "node",
               "%s of --join leads to this very peer: it meets only peers that name it as a seed", seeds);
        break;
    case UNKNOWN:
        break;
    }
}

/* Whether a sentence about the seed is due: its finding is another than that of the last sentence, or this
 * has been silent about it for long enough. */
static bool is_due(const gw_reach *reach, const seed *s, uint64_t now_ns) {
    return is_established(reach, s, now_ns) && (s->found != s->logged || now_ns >= s->silent_until_ns);
}

static void note_logged(seed *s, uint64_t now_ns) {
    if (s->logged != s->found) s->silence_ns = FIRST_SILENCE_NS;
    s->logged = s->found;
    s->silent_until_ns = now_ns + s->silence_ns;
    s->silence_ns = s->silence_ns * 4 < LAST_SILENCE_NS ? s->silence_ns * 4 : LAST_SILENCE_NS;
}

/* Logs one sentence about this seed and all others of which the same is established. */
static void log_with_others(gw_reach *reach, const seed *first, uint64_t now_ns) {
    char seeds[SEEDS_TEXT] = "", all[SEEDS_TEXT + 32], addr[GW_ADDR_TEXT];
    const finding found = first->found;
    uint32_t count = 0;
    size_t length = 0;
    for (uint32_t i = 0; i < reach->count; i++) {
        seed *s = &reach->list[i];
        if (s->found != found || strcmp(s->fault, first->fault) != 0 || !is_established(reach, s, now_ns))
            continue;
        if (++count <= SHOWN_SEEDS)
            length += (size_t)snprintf(seeds + length, sizeof seeds - length, "%s%s", count > 1 ? ", " : "",
                                       gw_addr_text(&s->addr, addr));
        note_logged(s, now_ns);
    }
    if (count > SHOWN_SEEDS)
        snprintf(seeds + length, sizeof seeds - length, " and %u more", count - SHOWN_SEEDS);
    /* That one seed leads to this peer is as it should be, where there are others, or will be. */
    snprintf(all, sizeof all, "%s %s", count > 1 ? "each of the seeds" : "the seed", seeds);
    if (found != SELF || (count == reach->count && !reach->options.followed))
        log_finding(found, all, first, reach->options.listen.port);
}

static void report_unlinked(const gw_reach *reach, seed *s, uint64_t now_ns) {
    char addr[GW_ADDR_TEXT];
    if (!is_due(reach, s, now_ns)) return;
    note_logged(s, now_ns);
    log_unlinked(s, gw_addr_text(&s->addr, addr));
}

/* Writes in a few words why a seed is not met. Returns whether that lasts as long as nobody mends it. */
static bool write_why(const gw_reach *reach, const seed *s, char text[TOLD_TEXT]) {
    char addr[GW_ADDR_TEXT];
    gw_addr_text(&s->addr, addr);
    if (is_explained(reach, s)) {
        snprintf(text, TOLD_TEXT, "with its --listen this peer cannot meet the seed %s", addr);
        return true;
    }
    switch (s->found) {
    case STRANGER:
        snprintf(text, TOLD_TEXT, "the seed %s answers, and turns this peer away: %s", addr, s->fault);
        return true;
    case ANSWERS:
        snprintf(text, TOLD_TEXT, "the seed %s answers by TCP, and no UDP datagram of it arrives", addr);
        return true;
    case MUTE:
        snprintf(text, TOLD_TEXT, "the seed %s takes a connection and says nothing", addr);
        return false;
    case REFUSED:
        snprintf(text, TOLD_TEXT, "nobody listens at the seed %s", addr);
        return false;
    case UNREACHABLE:
        snprintf(text, TOLD_TEXT, "the seed %s cannot be reached from this host", addr);
        return false;
    case SILENT:
        snprintf(text, TOLD_TEXT, "nothing answers at the seed %s", addr);
        return false;
    case SELF:
        snprintf(text, TOLD_TEXT, "the seed %s is this very peer", addr);
        return false;
    case UNKNOWN:
        break;
    }
    text[0] = '\0';
    return false;
}

/* Tells why no seed is met. A seed that is there counts before those that may only be down; and that this peer's
 * own addresses reach no seed counts only if it is so of all. */
static void tell(gw_reach *reach, uint64_t now_ns) {
    char why[TOLD_TEXT] = "", text[TOLD_TEXT];
    bool for_good = false;
    uint32_t explained = 0, others = 0;
    for (uint32_t i = 0; i < reach->count; i++) {
        others += reach->list[i].found != SELF;
        explained += reach->list[i].found != SELF && is_explained(reach, &reach->list[i]);
    }
    for (uint32_t i = 0; i < reach->count && !for_good; i++) {
        const seed *s = &reach->list[i];
        bool counts = is_explained(reach, s)
                          ? explained == others
                          : is_established(reach, s, now_ns) && (s->found != SELF || others == 0);
        if (!counts) continue;
        for_good = write_why(reach, s, text);
        if (why[0] == '\0' || for_good) memcpy(why, text, sizeof why);
    }
    if (reach->options.is_met(reach->options.context, NULL, NULL)) why[0] = '\0';
    if (strcmp(why, reach->told) == 0) return;
    memcpy(reach->told, why, sizeof why);
    reach->options.tell_unmet(reach->options.context, why[0] != '\0' ? why : NULL, for_good);
}

static void report(gw_reach *reach) {
    uint64_t now_ns = gw_now_ns();
    tell(reach, now_ns);
    for (uint32_t i = 0; i < MOST_UNLINKED; i++)
        if (reach->unlinked[i].heard) report_unlinked(reach, &reach->unlinked[i], now_ns);
    for (uint32_t i = 0; i < reach->count; i++)
        if (is_due(reach, &reach->list[i], now_ns)) log_with_others(reach, &reach->list[i], now_ns);
}

/* Asking. */

static void note(seed *s, finding found, const char *fault) {
    if (s->found != found) s->found_ns = gw_now_ns();
    s->found = found;
    s->stream = NULL;
    snprintf(s->fault, sizeof s->fault, "%s", fault);
    report(s->of);
}

static void unexpected(void *context, gw_stream *stream, const uint8_t *bytes, size_t count) {
    (void)context, (void)stream, (void)bytes, (void)count;
    GW_ASSERT(false && "a stream that asks never carries a message");
}

static void answered(void *context, gw_stream *stream, const gw_remote *remote) {
    seed *s = context;
    bool other = s->heard && !gw_peer_id_equal(&s->id, &remote->id);
    if (!s->heard) s->id = remote->id;
    gw_stream_close(stream);
    if (other) {
        note(s, STRANGER, "another peer of the cluster answers there");
        return;
    }
    note(s, ANSWERS, "");
}

static void ended(void *context, gw_stream *stream, gw_closed why, gw_fault fault, const char *text) {
    seed *s = context;
    (void)stream;
    switch (why) {
    case GW_CLOSED_REFUSED:
        note(s, REFUSED, "");
        return;
    case GW_CLOSED_UNREACHABLE:
        note(s, UNREACHABLE, text);
        return;
    case GW_CLOSED_TIMEOUT:
        note(s, gw_stream_connected(stream) ? MUTE : SILENT, "");
        return;
    case GW_CLOSED_PROTOCOL:
        note(s, fault == GW_FAULT_SELF ? SELF : STRANGER, fault == GW_FAULT_SELF ? "" : text);
        return;
    default: /* it may be about to end, or this process lacks something: nothing is learnt */
        s->stream = NULL;
        s->found = UNKNOWN;
    }
}

static void ask(seed *s) {
    gw_stream_events events = {.context = s, .ready = answered, .message = unexpected, .closed = ended};
    gw_err err;
    s->stream = gw_stream_ask(s->of->options.loop, s->of->options.local, &s->addr, &events, &err);
    if (s->stream == NULL) s->found = UNKNOWN;
}

static void due(void *context);

static void set_timer(gw_reach *reach, uint64_t after_ns) {
    gw_err err;
    GW_ASSERT_MEMORY(
        gw_timer_set(reach->options.loop, &reach->timer, gw_now_ns() + after_ns, due, reach, &err));
}

/* Asks the peers that were without a link in the round before and still are, and notes those that are now.
 * A peer is not asked in its first round, because an ordinary link may be about to be made. */
static void follow_unlinked(gw_reach *reach) {
    uint32_t index = 0;
    gw_peer_id id;
    gw_addr addr;
    for (seed *s = reach->unlinked; s < reach->unlinked + MOST_UNLINKED; s++) {
        if (!s->heard) continue;
        if (is_met(reach, s)) {
            gw_stream_close(s->stream);
            *s = (seed){0};
        } else if (s->stream == NULL) {
            if (s->asked_ns == 0) s->asked_ns = gw_now_ns();
            ask(s);
        }
    }
    while (reach->options.find_unlinked(reach->options.context, &index, &id, &addr)) {
        seed *slot = NULL;
        bool noted = false;
        for (seed *s = reach->unlinked; s < reach->unlinked + MOST_UNLINKED; s++) {
            noted = noted || (s->heard && gw_peer_id_equal(&s->id, &id));
            if (!s->heard) slot = s;
        }
        if (!noted && slot != NULL) *slot = (seed){.of = reach, .heard = true, .id = id, .addr = addr};
    }
}

static void due(void *context) {
    gw_reach *reach = context;
    reach->asked = !reach->asked;
    if (!reach->asked) {
        report(reach); /* also what is established only after some time */
        follow_unlinked(reach);
        set_timer(reach, reach->pause_ns);
        reach->pause_ns = reach->pause_ns * 2 < LAST_PAUSE_NS ? reach->pause_ns * 2 : LAST_PAUSE_NS;
        return;
    }
    for (uint32_t i = 0; i < reach->count; i++) {
        seed *s = &reach->list[i];
        if (s->stream != NULL || s->found == SELF || is_explained(reach, s)) continue;
        if (is_met(reach, s))
            s->found = UNKNOWN;
        else
            ask(s);
    }
    follow_unlinked(reach);
    set_timer(reach, reach->answer_ns + SECOND_NS / 2);
}

/* Large packets. */

static void log_lossy(lossy *one, const gw_addr *addr, uint64_t now_ns) {
    char id[GW_SHORT_TEXT], at[GW_ADDR_TEXT], host[GW_ADDR_TEXT];
    if (now_ns < one->silent_until_ns) return;
    one->silent_until_ns = now_ns + one->silence_ns;
    one->silence_ns = one->silence_ns * 4 < LAST_SILENCE_NS ? one->silence_ns * 4 : LAST_SILENCE_NS;
    gw_addr_text(addr, at);
    /* "10.0.0.1" of "10.0.0.1:7117", "::1" of "[::1]:7117" */
    snprintf(host, sizeof host, "%.*s", (int)(strrchr(at, ':') - at), at);
    if (addr->family == 6) snprintf(host, sizeof host, "%.*s", (int)(strrchr(at, ']') - at - 1), at + 1);
    gw_log(
        GW_WARN, "node",
        "large packets to peer %s at %s are lost on the way, and small ones arrive: connections are made, on "
        "which data then stop, while gossip hears the peer. A network between has a smaller "
        "MTU than this host's interface and does not tell it. Find what passes with 'ping -M do -s 1472 %s' "
        "(less, "
        "until it is answered), and give the interfaces of both hosts that size and 28 more (ip link set "
        "DEVICE "
        "mtu N), or have TCP find it (sysctl net.ipv4.tcp_mtu_probing=1)",
        gw_peer_id_short(&one->id, id), at, host);
}

/* A connection has ended on which what was sent was not acknowledged. If the network were cut, or the process
 * stopped, gossip would suspect the peer by now. */
static void note_loss(const gw_reach *reach, lossy *one) {
    gw_addr addr;
    bool alive = reach->options.find_alive(reach->options.context, &one->id, &addr);
    one->lost_ns = alive ? gw_now_ns() : 0;
}

/* The connections have been made again, whose packets are small: it is the large ones that are lost. */
static void note_again(const gw_reach *reach, lossy *one) {
    uint64_t now_ns = gw_now_ns();
    gw_addr addr;
    bool lost = one->lost_ns != 0 && now_ns - one->lost_ns < LOSS_NS;
    one->lost_ns = 0;
    if (lost && reach->options.find_alive(reach->options.context, &one->id, &addr))
        log_lossy(one, &addr, now_ns);
}

static lossy *find_lossy(gw_reach *reach, const gw_peer_id *id) {
    for (lossy *one = reach->lossy; one < reach->lossy + MOST_LOSSY; one++)
        if (gw_peer_id_equal(&one->id, id)) return one;
    return NULL;
}

static lossy *lossy_of(gw_reach *reach, const gw_peer_id *id) {
    lossy *one = find_lossy(reach, id);
    if (one != NULL) return one;
    one = &reach->lossy[reach->next_lossy++ % MOST_LOSSY];
    *one = (lossy){.id = *id, .silence_ns = FIRST_SILENCE_NS};
    return one;
}

void gw_reach_note_data_link(gw_reach *reach, const gw_peer_id *id, bool stands, uint32_t unheard) {
    lossy *one = unheard > 0 ? lossy_of(reach, id) : find_lossy(reach, id);
    if (one == NULL) return;
    if (unheard != one->data) note_loss(reach, one);
    one->data = unheard;
    if (stands) note_again(reach, one);
}

void gw_reach_note_unheard(gw_reach *reach, const gw_peer_id *id) {
    note_loss(reach, lossy_of(reach, id));
}

/* Opening and closing. */

/* The seed as it was found so far at this address, or a new one. Nobody asks it any more. */
static seed carried_over(gw_reach *reach, const seed *before, uint32_t count, const gw_addr *addr) {
    seed s = {.of = reach, .addr = *addr};
    for (uint32_t i = 0; i < count; i++)
        if (gw_addr_equal(&before[i].addr, addr)) s = before[i];
    s.stream = NULL;
    return s;
}

static void begin(gw_reach *reach, const gw_addr *seeds, uint32_t count) {
    seed before[GW_MAX_SEEDS];
    uint32_t before_count = reach->count;
    GW_ASSERT(count <= GW_MAX_SEEDS);
    memcpy(before, reach->list, sizeof before);
    for (uint32_t i = 0; i < count; i++)
        reach->list[i] = carried_over(reach, before, before_count, &seeds[i]);
    reach->count = count;
    check_listen(reach);
    reach->asked = false;
    reach->pause_ns = FIRST_PAUSE_NS;
    set_timer(reach, FIRST_ASK_NS);
}

gw_reach *gw_reach_open(const gw_reach_options *options, const gw_addr *seeds, uint32_t count, gw_err *err) {
    gw_reach *reach = calloc(1, sizeof *reach);
    if (reach == NULL) {
        gw_fail(err, GW_E_NOMEM, "no memory to look after the seeds");
        return NULL;
    }
    reach->options = *options;
    reach->started_ns = gw_now_ns();
    reach->answer_ns = ANSWER_NS * options->time_scale_percent / 100;
    if (reach->answer_ns < ANSWER_NS) reach->answer_ns = ANSWER_NS;
    check_unresolved(reach);
    begin(reach, seeds, count);
    return reach;
}

static void stop_asking(gw_reach *reach) {
    for (uint32_t i = 0; i < reach->count; i++) gw_stream_close(reach->list[i].stream);
}

void gw_reach_seek(gw_reach *reach, const gw_addr *seeds, uint32_t count) {
    stop_asking(reach);
    begin(reach, seeds, count);
}

void gw_reach_close(gw_reach *reach) {
    if (reach == NULL) return;
    stop_asking(reach);
    for (uint32_t i = 0; i < MOST_UNLINKED; i++) gw_stream_close(reach->unlinked[i].stream);
    gw_timer_cancel(&reach->timer);
    free(reach);
}
