#include "core/map/copies.h"

#include "core/base/assert.h"
#include "core/base/mix.h"
#include "core/base/wire.h"

#include <stdlib.h>
#include <string.h>

enum { VERSION = 1, FILE_BYTES = 40, PEERS = UINT16_MAX, NOBODY = UINT32_MAX };

#define FLUSH_NS UINT64_C(2000000) /* changes wait so long for others, to be told together */

/* What a peer has of the file of one, as far as it has told. */
typedef struct file {
    uint32_t whose;
    uint64_t bytes;
    gw_peer_id second; /* that it asks; all zeros: none */
    /* of this peer's own list */
    uint64_t since_ns; /* when the second was asked, or had done something */
    uint64_t best;     /* the most that another one had then */
    uint64_t again_ns; /* it is not copied before */
    bool changed;
} file;

typedef struct peer {
    gw_peer_id id;
    bool live;
    file *files;
    uint32_t count, room;
} peer;

struct gw_map_copies {
    gw_map_copies_sink sink;
    peer *peers; /* the first one is this peer */
    uint32_t count, room;
    bool knows, behind; /* knows: who lives */
    uint64_t safe, flush_ns, round_ns;
    uint8_t message[GW_MAP_COPIES_MESSAGE_BYTES];
};

static uint32_t find_peer(const gw_map_copies *c, const gw_peer_id *id) {
    for (uint32_t i = 0; i < c->count; i++)
        if (gw_peer_id_equal(&c->peers[i].id, id)) return i;
    return NOBODY;
}

/* The place of a peer, which is new where it was not known; NOBODY: there are too many. */
static uint32_t get_peer(gw_map_copies *c, const gw_peer_id *id) {
    uint32_t at = find_peer(c, id);
    if (at != NOBODY || c->count == PEERS) return at;
    if (c->count == c->room) {
        c->room = 2 * c->room + 8;
        c->peers = realloc(c->peers, c->room * sizeof *c->peers);
        GW_ASSERT_MEMORY(c->peers != NULL);
    }
    c->peers[c->count] = (peer){.id = *id};
    return c->count++;
}

static file *find_file(const peer *p, uint32_t whose) {
    for (uint32_t i = 0; i < p->count; i++)
        if (p->files[i].whose == whose) return &p->files[i];
    return NULL;
}

static file *get_file(peer *p, uint32_t whose) {
    file *found = find_file(p, whose);
    if (found != NULL) return found;
    if (p->count == p->room) {
        p->room = 2 * p->room + 4;
        p->files = realloc(p->files, p->room * sizeof *p->files);
        GW_ASSERT_MEMORY(p->files != NULL);
    }
    p->files[p->count] = (file){.whose = whose};
    return &p->files[p->count++];
}

static uint64_t bytes_at(const peer *p, uint32_t whose) {
    const file *f = find_file(p, whose);
    return f != NULL ? f->bytes : 0;
}

/* The most of a file that another live peer has. */
static uint64_t best_elsewhere(const gw_map_copies *c, uint32_t whose) {
    uint64_t best = 0;
    for (uint32_t i = 1; i < c->count; i++) {
        uint64_t bytes = c->peers[i].live ? bytes_at(&c->peers[i], whose) : 0;
        if (bytes > best) best = bytes;
    }
    return best;
}

static uint32_t count_live(const gw_map_copies *c) {
    uint32_t live = 0;
    for (uint32_t i = 0; i < c->count; i++) live += c->peers[i].live;
    return live;
}

static void flush_soon(gw_map_copies *c, uint64_t now_ns) {
    if (c->flush_ns > now_ns + FLUSH_NS) c->flush_ns = now_ns + FLUSH_NS;
}

static void look_at_safety(gw_map_copies *c) {
    uint64_t own = bytes_at(&c->peers[0], 0);
    uint64_t elsewhere = count_live(c) > 1 ? best_elsewhere(c, 0) : own;
    c->behind |= elsewhere > own;
    uint64_t safe = elsewhere < own ? elsewhere : own;
    if (c->knows && safe > c->safe) c->safe = safe;
}

/* Seconds. */

/* How far in front a peer is among those that are to copy a file. */
static uint64_t rank(const gw_peer_id *whose, const gw_peer_id *by) {
    gw_reader w = gw_reader_on(whose->bytes, sizeof whose->bytes), b = gw_reader_on(by->bytes, 8);
    return gw_mix64(gw_get_u64(&b) ^ gw_mix64(gw_get_u64(&w)));
}

/* The live peer that comes next behind one, or the first of all; all zeros: there is none. */
static gw_peer_id next_second(const gw_map_copies *c, const gw_peer_id *whose, const gw_peer_id *before) {
    const gw_peer_id *first = NULL, *next = NULL;
    uint64_t limit = gw_peer_id_is_none(before) ? UINT64_MAX : rank(whose, before);
    for (uint32_t i = 1; i < c->count; i++) {
        const gw_peer_id *id = &c->peers[i].id;
        if (!c->peers[i].live) continue;
        if (first == NULL || rank(whose, id) > rank(whose, first)) first = id;
        if (rank(whose, id) < limit && (next == NULL || rank(whose, id) > rank(whose, next))) next = id;
    }
    return next != NULL ? *next : first != NULL ? *first : (gw_peer_id){{0}};
}

/* Whether this peer is to see to it that a file is on two disks: its own one, and that of a dead peer where no other live
 * one has as much of it. */
static bool looks_after(const gw_map_copies *c, const file *f, uint64_t best) {
    return f->whose == 0 || (!c->peers[f->whose].live && best < f->bytes);
}

static void ask(gw_map_copies *c, file *f, const gw_peer_id *second, uint64_t now_ns) {
    f->since_ns = now_ns;
    if (gw_peer_id_equal(&f->second, second)) return;
    f->second = *second;
    f->changed = true;
    flush_soon(c, now_ns);
}

static void look_at_second(gw_map_copies *c, file *f, uint64_t now_ns) {
    static const gw_peer_id none;
    uint64_t best = best_elsewhere(c, f->whose);
    if (!looks_after(c, f, best)) return ask(c, f, &none, now_ns);
    uint32_t place = gw_peer_id_is_none(&f->second) ? NOBODY : find_peer(c, &f->second);
    bool asked = place != NOBODY && c->peers[place].live;
    if (asked && best >= f->bytes) f->since_ns = now_ns;
    if (asked && best > f->best) f->since_ns = now_ns;
    f->best = best;
    if (asked && now_ns < f->since_ns + GW_MAP_COPIES_PATIENCE_NS) return;
    gw_peer_id second = next_second(c, &c->peers[f->whose].id, asked ? &f->second : &none);
    ask(c, f, &second, now_ns);
}

static void look_at_seconds(gw_map_copies *c, uint64_t now_ns) {
    for (uint32_t i = 0; i < c->peers[0].count; i++) look_at_second(c, &c->peers[0].files[i], now_ns);
}

/* Telling. */

static void put_file(gw_writer *w, const gw_map_copies *c, const file *f) {
    gw_put_peer_id(w, &c->peers[f->whose].id);
    gw_put_u64(w, f->bytes);
    gw_put_peer_id(w, &f->second);
}

static gw_writer begin(gw_map_copies *c, bool whole, uint32_t count) {
    gw_writer w = gw_writer_on(c->message, sizeof c->message);
    gw_put_u8(&w, VERSION);
    gw_put_u8(&w, whole);
    gw_put_u16(&w, (uint16_t)count);
    return w;
}

/* Tells all about all files. */
static void tell_all(gw_map_copies *c) {
    enum { MOST = (GW_MAP_COPIES_MESSAGE_BYTES - 4) / FILE_BYTES };
    const peer *own = &c->peers[0];
    uint32_t at = 0;
    do {
        uint32_t count = own->count - at < MOST ? own->count - at : MOST;
        gw_writer w = begin(c, at == 0, count);
        for (uint32_t i = 0; i < count; i++) put_file(&w, c, &own->files[at + i]);
        GW_ASSERT(!w.failed);
        for (uint32_t i = 1; i < c->count; i++)
            if (c->peers[i].live) c->sink.send(c->sink.context, &c->peers[i].id, w.bytes, w.length);
        at += count;
    } while (at < own->count);
}

/* Tells of a file that has changed those who wait for it: who is to copy it, and whose it is. */
static void tell_change(gw_map_copies *c, const file *f) {
    gw_writer w = begin(c, false, 1);
    put_file(&w, c, f);
    for (uint32_t i = 1; i < c->count; i++)
        if (c->peers[i].live && (i == f->whose || gw_peer_id_equal(&c->peers[i].id, &f->second)))
            c->sink.send(c->sink.context, &c->peers[i].id, w.bytes, w.length);
}

void gw_map_copies_tick(gw_map_copies *c, uint64_t now_ns) {
    if (now_ns >= c->round_ns) {
        look_at_seconds(c, now_ns);
        tell_all(c);
        c->round_ns = now_ns + GW_MAP_COPIES_ROUND_NS;
    } else if (now_ns >= c->flush_ns) {
        for (uint32_t i = 0; i < c->peers[0].count; i++)
            if (c->peers[0].files[i].changed) tell_change(c, &c->peers[0].files[i]);
    } else {
        return;
    }
    for (uint32_t i = 0; i < c->peers[0].count; i++) c->peers[0].files[i].changed = false;
    c->flush_ns = UINT64_MAX;
}

uint64_t gw_map_copies_next_deadline(const gw_map_copies *c) {
    return c->flush_ns < c->round_ns ? c->flush_ns : c->round_ns;
}

/* Hearing. */

bool gw_map_copies_message(gw_map_copies *c, const gw_peer_id *from, const void *bytes, size_t length,
                           uint64_t now_ns) {
    gw_reader r = gw_reader_on(bytes, length);
    uint8_t version = gw_get_u8(&r), whole = gw_get_u8(&r);
    uint16_t count = gw_get_u16(&r);
    if (r.failed || version != VERSION || whole > 1 || gw_reader_left(&r) != (size_t)count * FILE_BYTES)
        return false;
    uint32_t place = find_peer(c, from);
    if (place == NOBODY || place == 0 || !c->peers[place].live)
        return true; /* it is not known yet, or gone */
    if (whole) c->peers[place].count = 0;
    for (uint16_t i = 0; i < count; i++) {
        gw_peer_id whose, second;
        gw_get_peer_id(&r, &whose);
        uint64_t has = gw_get_u64(&r);
        gw_get_peer_id(&r, &second);
        uint32_t owner = get_peer(c, &whose); /* this may move the peers */
        if (owner == NOBODY) continue;
        file *f = get_file(&c->peers[place], owner);
        f->bytes = has;
        f->second = second;
    }
    look_at_safety(c);
    look_at_seconds(c, now_ns);
    return true;
}

/* What is here. */

void gw_map_copies_have(gw_map_copies *c, const gw_peer_id *whose, uint64_t bytes, uint64_t now_ns) {
    uint32_t place = get_peer(c, whose);
    if (place == NOBODY) return;
    file *f = get_file(&c->peers[0], place);
    f->changed |= f->bytes != bytes;
    f->bytes = bytes;
    f->again_ns = 0;
    look_at_second(c, f, now_ns);
    look_at_safety(c);
    flush_soon(c, now_ns);
}

void gw_map_copies_failed(gw_map_copies *c, const gw_peer_id *whose, uint64_t now_ns) {
    uint32_t place = get_peer(c, whose);
    if (place != NOBODY) get_file(&c->peers[0], place)->again_ns = now_ns + GW_MAP_COPIES_REPEAT_NS;
}

bool gw_map_copies_next(const gw_map_copies *c, gw_map_copies_errand *errand, uint64_t now_ns) {
    const peer *own = &c->peers[0];
    uint64_t most = 0;
    for (uint32_t i = 1; i < c->count; i++) {
        const peer *p = &c->peers[i];
        for (uint32_t k = 0; k < p->count && p->live; k++) {
            const file *there = &p->files[k], *here = find_file(own, there->whose);
            uint64_t have = here != NULL ? here->bytes : 0;
            if (there->whose == 0 || !gw_peer_id_equal(&there->second, &own->id) || there->bytes <= have ||
                there->bytes - have <= most || (here != NULL && now_ns < here->again_ns))
                continue;
            most = there->bytes - have;
            *errand = (gw_map_copies_errand){c->peers[there->whose].id, p->id, have, there->bytes};
        }
    }
    return most > 0;
}

uint64_t gw_map_copies_safe(const gw_map_copies *c) {
    return c->safe;
}

bool gw_map_copies_is_behind(const gw_map_copies *c) {
    return c->behind;
}

/* Who lives. */

void gw_map_copies_set_peers(gw_map_copies *c, const gw_peer_id *peers, uint32_t count, uint64_t now_ns) {
    for (uint32_t i = 1; i < c->count; i++) {
        bool live = false;
        for (uint32_t k = 0; k < count && !live; k++) live = gw_peer_id_equal(&c->peers[i].id, &peers[k]);
        if (!live) c->peers[i].count = 0; /* what it has is told anew when it comes back */
        if (live && !c->peers[i].live) c->round_ns = now_ns;
        c->peers[i].live = live;
    }
    for (uint32_t k = 0; k < count; k++) {
        uint32_t place = find_peer(c, &peers[k]);
        if (place != NOBODY || (place = get_peer(c, &peers[k])) == NOBODY) continue;
        c->peers[place].live = true;
        c->round_ns = now_ns;
    }
    c->knows = true;
    look_at_safety(c);
    look_at_seconds(c, now_ns);
}

void gw_map_copies_cut_off(gw_map_copies *c) {
    c->knows = false;
    for (uint32_t i = 1; i < c->count; i++) {
        c->peers[i].live = false;
        c->peers[i].count = 0;
    }
}

gw_map_copies *gw_map_copies_open(const gw_peer_id *self, const gw_map_copies_sink *sink, uint64_t now_ns) {
    gw_map_copies *c = calloc(1, sizeof *c);
    GW_ASSERT_MEMORY(c != NULL);
    c->sink = *sink;
    c->flush_ns = UINT64_MAX;
    c->round_ns = now_ns + GW_MAP_COPIES_ROUND_NS;
    uint32_t own = get_peer(c, self);
    c->peers[own].live = true;
    return c;
}

void gw_map_copies_close(gw_map_copies *c) {
    if (c == NULL) return;
    for (uint32_t i = 0; i < c->count; i++) free(c->peers[i].files);
    free(c->peers);
    free(c);
}
