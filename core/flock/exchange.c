#include "core/flock/exchange.h"

#include "core/base/assert.h"
#include "core/base/id_index.h"
#include "core/base/mix.h"
#include "core/flock/links.h"

#include <stdlib.h>
#include <string.h>

enum {
    VERSION = 1,
    HEAD_BYTES = 2,
    ANNOUNCED_BYTES = 16 + 8,
    ASKED_BYTES = 16 + 1,
    CLAIMED_BYTES = 16 + 8 + 8
};
enum { LIST_MOST = 4096 /* records in one list */, WAITING = 1024 /* answers that are waited for */ };
enum { WITH_SPEC = 1, PAST_GATE = 1 };

#define ASK_AGAIN_NS UINT64_C(2000000000)
#define CLAIMED_NS   UINT64_C(4000000) /* for each list, in a large flock: most are on their way by pushes */
#define TABLE_NS     UINT64_C(1000000000)
#define HURRY_NS     UINT64_C(1000000000) /* between two rounds of a member that is not past its gate */

typedef enum message {
    ANNOUNCE = 1, /* count u16, each: id 16, digest u64 */
    ASK,          /* count u16, each: id 16, flags u8 */
    RECORDS,      /* count u16, each: length u32, record */
    ROOT,         /* flags u8, digest of records u64, of claims u64 */
    BUCKETS,      /* 256 digests u64 */
    LIST,         /* bucket u8, count u16, each: id 16, digest u64; those of larger buckets come in several */
    CLAIMS,       /* one list of claims */
    CLAIMED,      /* count u16, each: member 16, boot u64, number u64 */
    DURABLE,      /* count u16, each: id 16, digest u64 */
    HEARD,        /* boot u64, number u64: the other's own claims are known */
} message;

/* A member that was known before. */
typedef struct acquaintance {
    gw_peer_id id;
    bool agreed; /* it knew the same as this one, since this one has started */
} acquaintance;

typedef struct member {
    gw_peer_id id;
    bool up;
    bool agrees;            /* it knew the same as this one, since the link is up */
    bool past_gate;         /* as it has said */
    bool unreadable;        /* it tells newer claims than these, which this build does not read */
    uint64_t heard;         /* this member's claims up to this number */
    uint64_t next_table_ns; /* its table is answered with this member's own not before */
    gw_claims claims;       /* boot 0: not known */
} member;

/* A record that another member is asked for, or has sent and is to hear of. */
typedef struct waited {
    gw_job_record_id id;
    uint64_t until_ns;
} waited;

/* A state of a record, as its digest tells it. */
typedef struct source {
    gw_job_record_id id;
    uint64_t digest; /* as it came from there */
    gw_peer_id from;
} source;

typedef struct known_state {
    gw_job_record_id id;
    uint64_t digest, number;
} known_state;

struct gw_exchange {
    gw_peer_id self;
    gw_job_records *records;
    gw_exchange_sink sink;
    acquaintance *known;
    uint32_t known_count, agreed, reached; /* reached: where to go on to ask for links to them */
    bool expects_others, past_gate, forced;
    uint64_t opened_ns, gate_ns, round_ns, random, news;
    gw_claims own;
    uint64_t claims_digest; /* of the lists of others */
    uint64_t claimed_ns;    /* not before does a root that differs make it tell what lists it has */
    member *members;
    gw_id_index index; /* of the members */
    uint32_t count, room;
    uint32_t neighbours[GW_FLOCK_LINKS_ALL], neighbour_count; /* members that news are pushed to */
    bool neighbours_known;                                    /* since links came or went last */
    waited asked[WAITING];                                    /* a ring, of what was asked for last */
    source sources[WAITING];     /* a ring, of records that are to be made durable for others */
    known_state states[WAITING]; /* a ring, of states that records have had here */
    uint32_t asked_at, sources_at;
    uint64_t state_count;
};

static uint64_t next_random(gw_exchange *x) {
    x->random += 0x9e3779b97f4a7c15;
    return gw_mix64(x->random);
}

/* Members. */

static gw_id_records records(const gw_exchange *x) {
    return (gw_id_records){x->members, sizeof *x->members};
}

static member *find(const gw_exchange *x, const gw_peer_id *id) {
    uint32_t at = gw_id_index_find(&x->index, records(x), id);
    return at == UINT32_MAX ? NULL : &x->members[at];
}

static member *find_or_add(gw_exchange *x, const gw_peer_id *id) {
    member *found = find(x, id);
    if (found != NULL || x->count == GW_EXCHANGE_MEMBERS || gw_peer_id_equal(id, &x->self)) return found;
    if (x->count == x->room) {
        x->room = 2 * x->room + 8;
        x->members = realloc(x->members, x->room * sizeof *x->members);
        GW_ASSERT_MEMORY(x->members != NULL);
        bool reserved = gw_id_index_reserve(&x->index, records(x), x->count, x->room);
        GW_ASSERT_MEMORY(reserved);
    }
    GW_ASSERT(x->members != NULL);
    x->members[x->count] = (member){.id = *id};
    gw_id_index_put(&x->index, records(x), x->count);
    return &x->members[x->count++];
}

/* A member that is up, or one of those that have not agreed, by chance; NULL: there is none. */
static const member *choose(gw_exchange *x, bool differs) {
    const member *chosen = NULL;
    uint32_t seen = 0;
    for (uint32_t i = 0; i < x->count; i++) {
        const member *m = &x->members[i];
        if (m->up && !(differs && m->agrees) && next_random(x) % ++seen == 0) chosen = m;
    }
    return chosen;
}

/* The members that news are pushed to. As each is the next one of another, news reach all even where the draw leaves
 * somebody out. */
static uint32_t neighbours(gw_exchange *x) {
    if (x->neighbours_known) return x->neighbour_count;
    gw_peer_id *up = calloc(x->count + 1, sizeof *up);
    uint32_t *indices = calloc(x->count + 1, sizeof *indices), count = 0;
    GW_ASSERT_MEMORY(up != NULL && indices != NULL);
    for (uint32_t i = 0; i < x->count; i++) {
        if (!x->members[i].up) continue;
        up[count] = x->members[i].id;
        indices[count++] = i;
    }
    x->neighbour_count = gw_flock_links_first(&x->self, up, count, GW_EXCHANGE_FANOUT, x->neighbours);
    for (uint32_t i = 0; i < x->neighbour_count; i++) x->neighbours[i] = indices[x->neighbours[i]];
    x->neighbours_known = true;
    free(up);
    free(indices);
    return x->neighbour_count;
}

/* Sending. */

static gw_writer begin(uint8_t *bytes, size_t capacity, message kind) {
    gw_writer w = gw_writer_on(bytes, capacity);
    gw_put_u8(&w, VERSION);
    gw_put_u8(&w, (uint8_t)kind);
    return w;
}

static void send(gw_exchange *x, const gw_peer_id *to, const gw_writer *w) {
    GW_ASSERT(!w->failed);
    x->sink.send(x->sink.context, to, w->bytes, w->length);
}

static void put_announced(gw_writer *w, const gw_job_record_id *id, uint64_t digest) {
    gw_put_bytes(w, id->bytes, sizeof id->bytes);
    gw_put_u64(w, digest);
}

/* Tells some others that a record has changed. */
static void announce(gw_exchange *x, const gw_job_record_id *id, const gw_peer_id *but) {
    const gw_job_record *record = gw_job_records_find(x->records, id);
    uint8_t bytes[HEAD_BYTES + 2 + ANNOUNCED_BYTES];
    if (record == NULL) return;
    gw_writer w = begin(bytes, sizeof bytes, ANNOUNCE);
    gw_put_u16(&w, 1);
    put_announced(&w, id, gw_job_record_digest(record));
    uint32_t count = neighbours(x);
    for (uint32_t i = 0; i < count; i++) {
        const gw_peer_id *to = &x->members[x->neighbours[i]].id;
        if (but == NULL || !gw_peer_id_equal(to, but)) send(x, to, &w);
    }
}

static void send_claims(gw_exchange *x, const gw_peer_id *to, const gw_claims *claims) {
    uint8_t *bytes = malloc(HEAD_BYTES + GW_CLAIMS_BYTES);
    GW_ASSERT_MEMORY(bytes != NULL);
    gw_writer w = begin(bytes, HEAD_BYTES, CLAIMS);
    w.length += gw_claims_put(claims, bytes + HEAD_BYTES);
    send(x, to, &w);
    free(bytes);
}

static void push_claims(gw_exchange *x, const gw_claims *claims, const gw_peer_id *but) {
    uint32_t count = neighbours(x);
    for (uint32_t i = 0; i < count; i++) {
        const gw_peer_id *to = &x->members[x->neighbours[i]].id;
        if (!gw_peer_id_equal(to, but)) send_claims(x, to, claims);
    }
}

/* A digest of who has said what, without the order. */
static uint64_t digest_of_list(const gw_claims *claims) {
    if (claims->boot == 0) return 0; /* it is not known */
    uint64_t digest = gw_mix64(claims->boot) ^ gw_mix64(claims->number + 1);
    gw_reader r = gw_reader_on(claims->member.bytes, sizeof claims->member.bytes);
    digest = gw_mix64(digest + gw_get_u64(&r));
    return gw_mix64(digest + gw_get_u64(&r));
}

static uint64_t claims_digest(const gw_exchange *x) {
    return x->claims_digest + digest_of_list(&x->own);
}

static void send_root(gw_exchange *x, const gw_peer_id *to) {
    uint8_t bytes[HEAD_BYTES + 1 + 8 + 8];
    gw_writer w = begin(bytes, sizeof bytes, ROOT);
    gw_put_u8(&w, x->past_gate ? PAST_GATE : 0);
    gw_put_u64(&w, gw_job_records_digest(x->records));
    gw_put_u64(&w, claims_digest(x));
    send(x, to, &w);
}

static void send_buckets(gw_exchange *x, const gw_peer_id *to) {
    uint8_t bytes[HEAD_BYTES + 8 * GW_JOB_RECORDS_BUCKETS];
    gw_writer w = begin(bytes, sizeof bytes, BUCKETS);
    for (uint32_t i = 0; i < GW_JOB_RECORDS_BUCKETS; i++)
        gw_put_u64(&w, gw_job_records_bucket_digest(x->records, i));
    send(x, to, &w);
}

static void send_claimed(gw_exchange *x, const gw_peer_id *to) {
    size_t size = HEAD_BYTES + 2 + (size_t)(x->count + 1) * CLAIMED_BYTES;
    uint8_t *bytes = malloc(size);
    GW_ASSERT_MEMORY(bytes != NULL);
    gw_writer w = begin(bytes, size, CLAIMED);
    uint32_t count = x->own.boot != 0;
    for (uint32_t i = 0; i < x->count; i++) count += x->members[i].claims.boot != 0;
    gw_put_u16(&w, (uint16_t)count);
    for (uint32_t i = 0; i <= x->count; i++) {
        const gw_claims *claims = i < x->count ? &x->members[i].claims : &x->own;
        if (claims->boot == 0) continue;
        gw_put_peer_id(&w, &claims->member);
        gw_put_u64(&w, claims->boot);
        gw_put_u64(&w, claims->number);
    }
    send(x, to, &w);
    free(bytes);
}

/* Ids and digests on their way to one member, in messages that are not too long. */
typedef struct batch {
    gw_exchange *x;
    const gw_peer_id *to;
    message kind;
    uint8_t bucket; /* LIST */
    uint32_t count;
    gw_writer w;
    uint8_t bytes[HEAD_BYTES + 1 + 2 + LIST_MOST * ANNOUNCED_BYTES];
} batch;

static batch *open_batch(gw_exchange *x, const gw_peer_id *to, message kind, uint8_t bucket) {
    batch *b = malloc(sizeof *b);
    GW_ASSERT_MEMORY(b != NULL);
    *b = (batch){.x = x, .to = to, .kind = kind, .bucket = bucket};
    return b;
}

static void flush(batch *b) {
    if (b->count == 0) return;
    gw_writer count = gw_writer_on(b->bytes + HEAD_BYTES + (b->kind == LIST), 2);
    gw_put_u16(&count, (uint16_t)b->count);
    send(b->x, b->to, &b->w);
    b->count = 0;
}

static void begin_entry(batch *b) {
    if (b->count == LIST_MOST) flush(b);
    if (b->count++ > 0) return;
    b->w = begin(b->bytes, sizeof b->bytes, b->kind);
    if (b->kind == LIST) gw_put_u8(&b->w, b->bucket);
    gw_put_u16(&b->w, 0);
}

static void close_batch(batch *b) {
    flush(b);
    free(b);
}

/* Asks for a record, unless it was asked for a moment ago. */
static void ask(batch *b, const gw_job_record_id *id, bool with_spec, uint64_t now_ns) {
    gw_exchange *x = b->x;
    for (uint32_t i = 0; i < WAITING; i++)
        if (x->asked[i].until_ns > now_ns && gw_job_record_id_equal(&x->asked[i].id, id)) return;
    x->asked[x->asked_at] = (waited){*id, now_ns + ASK_AGAIN_NS};
    x->asked_at = (x->asked_at + 1) % WAITING;
    begin_entry(b);
    gw_put_bytes(&b->w, id->bytes, sizeof id->bytes);
    gw_put_u8(&b->w, with_spec ? WITH_SPEC : 0);
}

/* Records on their way to one member. */
typedef struct load {
    gw_exchange *x;
    const gw_peer_id *to;
    uint32_t count;
    gw_writer w;
    uint8_t bytes[GW_EXCHANGE_MESSAGE_BYTES];
} load;

static load *open_load(gw_exchange *x, const gw_peer_id *to) {
    load *l = malloc(sizeof *l);
    GW_ASSERT_MEMORY(l != NULL);
    l->x = x;
    l->to = to;
    l->count = 0;
    return l;
}

static void unload(load *l) {
    if (l->count == 0) return;
    gw_writer count = gw_writer_on(l->bytes + HEAD_BYTES, 2);
    gw_put_u16(&count, (uint16_t)l->count);
    send(l->x, l->to, &l->w);
    l->count = 0;
}

static void put_record(load *l, const gw_job_record *record, bool with_spec) {
    size_t length = gw_job_record_bytes(record, with_spec);
    if (l->count == UINT16_MAX || (l->count > 0 && l->w.length + 4 + length > sizeof l->bytes)) unload(l);
    if (l->count++ == 0) {
        l->w = begin(l->bytes, sizeof l->bytes, RECORDS);
        gw_put_u16(&l->w, 0);
    }
    gw_put_u32(&l->w, (uint32_t)length);
    gw_job_record_put(&l->w, record, with_spec);
}

static void close_load(load *l) {
    unload(l);
    free(l);
}

/* The gate. */

/* Another member knows the same as this one, or has known it. */
static void note_agreement(gw_exchange *x, const member *m) {
    for (uint32_t i = 0; !x->past_gate && i < x->known_count; i++) {
        if (x->known[i].agreed || !gw_peer_id_equal(&x->known[i].id, &m->id)) continue;
        x->known[i].agreed = true;
        x->agreed++;
    }
}

/* Asks for links to members that were known, have not agreed, and are not linked with this one. */
static void reach_out(gw_exchange *x) {
    for (uint32_t i = 0, asked = 0; i < x->known_count && asked < GW_EXCHANGE_REACH; i++) {
        const acquaintance *a = &x->known[x->reached++ % x->known_count];
        const member *m = find(x, &a->id);
        if (a->agreed || (m != NULL && m->up)) continue;
        x->sink.reach(x->sink.context, &a->id);
        asked++;
    }
}

static void look_at_gate(gw_exchange *x, uint64_t now_ns) {
    bool opened = false;
    if (x->past_gate) return;
    for (uint32_t i = 0; i < x->count && !opened; i++) {
        const member *m = &x->members[i];
        opened = m->up && m->agrees && m->past_gate;
    }
    /* This member is one of those that it knew. */
    opened |= x->known_count > 0 && 2 * (x->agreed + 1) > x->known_count + 1;
    opened |= x->known_count == 0 && (!x->expects_others || now_ns >= x->opened_ns + GW_EXCHANGE_ALONE_NS);
    if (!opened && now_ns >= x->opened_ns + x->gate_ns) opened = x->forced = true;
    x->news += opened;
    x->past_gate = opened;
}

/* Receiving. */

/* Notes that a record has another state now. */
static void note_state(gw_exchange *x, const gw_job_record *record) {
    uint32_t at = (uint32_t)(x->state_count % WAITING);
    x->states[at] = (known_state){record->id, gw_job_record_digest(record), ++x->state_count};
}

/* The number of a state; 0: it is not known here. */
static uint64_t number_of(const gw_exchange *x, const gw_job_record_id *id, uint64_t digest) {
    for (uint32_t i = 0; i < WAITING; i++)
        if (x->states[i].digest == digest && gw_job_record_id_equal(&x->states[i].id, id))
            return x->states[i].number;
    return 0;
}

static void joined(gw_exchange *x, const gw_peer_id *from, const gw_job_record *record, batch *asks,
                   load *answers, uint64_t now_ns) {
    gw_job_records_joined result = gw_job_records_join(x->records, record);
    for (uint32_t i = 0; i < WAITING; i++)
        if (gw_job_record_id_equal(&x->asked[i].id, &record->id)) x->asked[i].until_ns = 0;
    if (result == GW_JOB_RECORDS_FULL) return;
    const gw_job_record *now = gw_job_records_find(x->records, &record->id);
    uint64_t digest = gw_job_record_digest(now), theirs = gw_job_record_digest(record);
    if (now->spec == NULL && !gw_job_record_is_over(now)) ask(asks, &record->id, true, now_ns);
    if (digest != theirs) put_record(answers, now, false); /* this member knew more */
    x->sources[x->sources_at] = (source){record->id, theirs, *from};
    x->sources_at = (x->sources_at + 1) % WAITING;
    if (result == GW_JOB_RECORDS_SAME) return;
    x->news++;
    note_state(x, now);
    x->sink.record_changed(x->sink.context, &record->id);
    announce(x, &record->id, from);
}

static void hear_records(gw_exchange *x, const gw_peer_id *from, gw_reader *r, uint64_t now_ns) {
    uint32_t count = gw_get_u16(r);
    batch *asks = open_batch(x, from, ASK, 0);
    load *answers = open_load(x, from);
    for (uint32_t i = 0; i < count && !r->failed; i++) {
        gw_job_record record;
        gw_err err;
        uint32_t length = gw_get_u32(r);
        const uint8_t *bytes = gw_get_view(r, length);
        if (bytes == NULL) break;
        if (!gw_job_record_get(bytes, length, &record, &err)) {
            r->failed = err.code != GW_E_UNSUPPORTED; /* one of a later version is left to later versions */
            continue;
        }
        joined(x, from, &record, asks, answers, now_ns);
        gw_job_record_free(&record);
    }
    close_batch(asks);
    close_load(answers);
}

/* Compares what another member knows of a record with what this one does. */
static void compare(gw_exchange *x, const gw_job_record_id *id, uint64_t digest, batch *asks,
                    uint64_t now_ns) {
    const gw_job_record *record = gw_job_records_find(x->records, id);
    bool lacks_spec = record == NULL || (record->spec == NULL && !gw_job_record_is_over(record));
    if (record == NULL || lacks_spec || gw_job_record_digest(record) != digest)
        ask(asks, id, lacks_spec, now_ns);
}

static void hear_announced(gw_exchange *x, const gw_peer_id *from, gw_reader *r, uint64_t now_ns) {
    uint32_t count = gw_get_u16(r);
    batch *asks = open_batch(x, from, ASK, 0);
    for (uint32_t i = 0; i < count && !r->failed; i++) {
        gw_job_record_id id;
        gw_get_bytes(r, id.bytes, sizeof id.bytes);
        uint64_t digest = gw_get_u64(r);
        if (!r->failed) compare(x, &id, digest, asks, now_ns);
    }
    close_batch(asks);
}

static void hear_asked(gw_exchange *x, const gw_peer_id *from, gw_reader *r) {
    uint32_t count = gw_get_u16(r);
    load *answers = open_load(x, from);
    for (uint32_t i = 0; i < count && !r->failed; i++) {
        gw_job_record_id id;
        gw_get_bytes(r, id.bytes, sizeof id.bytes);
        bool with_spec = (gw_get_u8(r) & WITH_SPEC) != 0;
        const gw_job_record *record = r->failed ? NULL : gw_job_records_find(x->records, &id);
        if (record != NULL) put_record(answers, record, with_spec);
    }
    close_load(answers);
}

static void hear_root(gw_exchange *x, member *m, gw_reader *r, uint64_t now_ns) {
    uint8_t flags = gw_get_u8(r);
    uint64_t records = gw_get_u64(r), claims = gw_get_u64(r);
    if (r->failed) return;
    bool agreed = m->agrees, was_past = m->past_gate;
    m->past_gate = (flags & PAST_GATE) != 0;
    m->agrees = records == gw_job_records_digest(x->records);
    if (m->agrees) note_agreement(x, m);
    /* Whoever asks learns the same of this member, or what differs. */
    if (!m->agrees) send_buckets(x, &m->id);
    if (claims != claims_digest(x) && now_ns >= x->claimed_ns) {
        send_claimed(x, &m->id);
        if (x->count > GW_FLOCK_LINKS_ALL) x->claimed_ns = now_ns + x->count * CLAIMED_NS;
    }
    if (m->agrees && (!agreed || m->past_gate != was_past)) send_root(x, &m->id);
    look_at_gate(x, now_ns);
}

static void list_one(void *context, const gw_job_record *record) {
    batch *b = context;
    begin_entry(b);
    put_announced(&b->w, &record->id, gw_job_record_digest(record));
}

static void hear_buckets(gw_exchange *x, const gw_peer_id *from, gw_reader *r) {
    for (uint32_t i = 0; i < GW_JOB_RECORDS_BUCKETS && !r->failed; i++) {
        uint64_t digest = gw_get_u64(r);
        if (r->failed || digest == gw_job_records_bucket_digest(x->records, i)) continue;
        batch *b = open_batch(x, from, LIST, (uint8_t)i);
        gw_job_records_in_bucket(x->records, i, list_one, b);
        if (b->count == 0) { /* an empty list asks for what the other has */
            begin_entry(b);
            b->count = 0;
            send(x, from, &b->w);
        }
        close_batch(b);
    }
}

typedef struct difference {
    const gw_job_record_id *ids; /* that the other member has, sorted */
    uint32_t count;
    batch *announces;
} difference;

static int compare_ids(const void *a, const void *b) {
    return memcmp(a, b, sizeof(gw_job_record_id));
}

static void announce_lacking(void *context, const gw_job_record *record) {
    const difference *d = context;
    if (d->count > 0 && bsearch(&record->id, d->ids, d->count, sizeof *d->ids, compare_ids) != NULL) return;
    begin_entry(d->announces);
    put_announced(&d->announces->w, &record->id, gw_job_record_digest(record));
}

/* A list of a bucket of another member: this one asks for what differs, and announces what the other lacks. Where a bucket
 * has more records than one list takes, it announces too much, which costs no more than the bytes. */
static void hear_list(gw_exchange *x, const gw_peer_id *from, gw_reader *r, uint64_t now_ns) {
    uint8_t bucket = gw_get_u8(r);
    uint32_t count = gw_get_u16(r);
    if (r->failed || count > LIST_MOST || gw_reader_left(r) != (size_t)count * ANNOUNCED_BYTES) {
        r->failed = true;
        return;
    }
    gw_job_record_id *ids = calloc(count + 1, sizeof *ids);
    GW_ASSERT_MEMORY(ids != NULL);
    batch *asks = open_batch(x, from, ASK, 0);
    for (uint32_t i = 0; i < count; i++) {
        gw_get_bytes(r, ids[i].bytes, sizeof ids[i].bytes);
        uint64_t digest = gw_get_u64(r);
        if (gw_job_records_bucket_of(&ids[i]) != bucket) r->failed = true;
        if (!r->failed) compare(x, &ids[i], digest, asks, now_ns);
    }
    close_batch(asks);
    qsort(ids, count, sizeof *ids, compare_ids);
    difference d = {.ids = ids, .count = count, .announces = open_batch(x, from, ANNOUNCE, 0)};
    if (!r->failed) gw_job_records_in_bucket(x->records, bucket, announce_lacking, &d);
    close_batch(d.announces);
    free(ids);
}

static bool is_newer(uint64_t boot, uint64_t number, const gw_claims *than) {
    return boot > than->boot || (boot == than->boot && number > than->number);
}

/* A member tells newer claims than those that are known here, in a version that this build does not read. */
static void note_unreadable(gw_exchange *x, member *m) {
    if (m->unreadable) return;
    m->unreadable = true;
    x->news++;
}

static void hear_claims(gw_exchange *x, const gw_peer_id *from, gw_reader *r) {
    gw_claims claims;
    gw_err err;
    size_t length = gw_reader_left(r);
    const uint8_t *bytes = gw_get_view(r, length);
    if (!gw_claims_get(bytes, length, &claims, &err)) {
        r->failed = err.code != GW_E_UNSUPPORTED;
        bool known = !r->failed || gw_peer_id_equal(&claims.member, from); /* whose list it is */
        member *of = known ? find_or_add(x, &claims.member) : NULL;
        if (of != NULL && is_newer(claims.boot, claims.number, &of->claims)) note_unreadable(x, of);
        return;
    }
    if (gw_peer_id_equal(&claims.member, from)) {
        uint8_t heard[HEAD_BYTES + 8 + 8];
        gw_writer w = begin(heard, sizeof heard, HEARD);
        gw_put_u64(&w, claims.boot);
        gw_put_u64(&w, claims.number);
        send(x, from, &w);
    }
    member *m = find_or_add(x, &claims.member);
    if (m == NULL || claims.boot == 0 || !is_newer(claims.boot, claims.number, &m->claims)) {
        gw_claims_free(&claims);
        return;
    }
    x->claims_digest += digest_of_list(&claims) - digest_of_list(&m->claims);
    gw_claims_free(&m->claims);
    m->claims = claims;
    m->unreadable = false;
    x->news++;
    gw_peer_id whose = claims.member;
    push_claims(x, &m->claims, from);
    x->sink.claims_changed(x->sink.context, &whose);
}

static const gw_claims *list_of(const gw_exchange *x, const gw_peer_id *id) {
    if (gw_peer_id_equal(id, &x->self)) return &x->own;
    const member *m = find(x, id);
    return m != NULL ? &m->claims : NULL;
}

/* What lists another member has: this one sends those that are newer here, and its own table where it lacks some. Two that
 * do not read each other's lists lack them for ever, so tables are not answered at once again. */
static void hear_claimed(gw_exchange *x, member *m, gw_reader *r, uint64_t now_ns) {
    gw_peer_id from = m->id;
    uint32_t count = gw_get_u16(r), found = 0;
    bool lacks = false;
    if (r->failed || count > GW_EXCHANGE_MEMBERS + 1 || gw_reader_left(r) != (size_t)count * CLAIMED_BYTES) {
        r->failed = true;
        return;
    }
    bool *told = calloc(x->count + 1, sizeof *told);
    GW_ASSERT_MEMORY(told != NULL);
    for (uint32_t i = 0; i < count; i++) {
        gw_peer_id id;
        gw_get_peer_id(r, &id);
        uint64_t boot = gw_get_u64(r), number = gw_get_u64(r);
        const gw_claims *claims = list_of(x, &id);
        lacks |= claims == NULL || is_newer(boot, number, claims);
        if (claims == NULL) continue;
        found++;
        if (claims->boot != 0 &&
            is_newer(claims->boot, claims->number, &(gw_claims){.boot = boot, .number = number}))
            send_claims(x, &from, claims);
        if (claims == &x->own)
            told[x->count] = true;
        else
            told[find(x, &id) - x->members] = true;
    }
    for (uint32_t i = 0; i <= x->count; i++) {
        const gw_claims *claims = i < x->count ? &x->members[i].claims : &x->own;
        if (!told[i] && claims->boot != 0) send_claims(x, &from, claims);
    }
    free(told);
    if (!lacks || now_ns < m->next_table_ns) return;
    m->next_table_ns = now_ns + TABLE_NS;
    send_claimed(x, &from);
}

static void hear_durable(gw_exchange *x, const gw_peer_id *from, gw_reader *r) {
    uint32_t count = gw_get_u16(r);
    for (uint32_t i = 0; i < count && !r->failed; i++) {
        gw_job_record_id id;
        gw_get_bytes(r, id.bytes, sizeof id.bytes);
        uint64_t digest = gw_get_u64(r);
        uint64_t number = r->failed ? 0 : number_of(x, &id, digest);
        if (number > 0) x->sink.held(x->sink.context, &id, from, number);
    }
}

static void hear_heard(gw_exchange *x, member *m, gw_reader *r) {
    uint64_t boot = gw_get_u64(r), number = gw_get_u64(r);
    if (r->failed || boot != x->own.boot || number <= m->heard) return;
    m->heard = number;
    x->news++;
}

bool gw_exchange_all_heard(const gw_exchange *x, const gw_peer_id *live, uint32_t count, uint64_t number) {
    for (uint32_t i = 0; i < count; i++) {
        if (gw_peer_id_equal(&live[i], &x->self)) continue;
        const member *m = find(x, &live[i]);
        if (m == NULL || !m->up || m->heard < number) return false;
    }
    return true;
}

bool gw_exchange_message(gw_exchange *x, const gw_peer_id *from, const void *bytes, size_t length,
                         uint64_t now_ns) {
    member *m = find(x, from);
    gw_reader r = gw_reader_on(bytes, length);
    uint8_t version = gw_get_u8(&r), what = gw_get_u8(&r);
    if (r.failed || length > GW_EXCHANGE_MESSAGE_BYTES || version == 0) return false;
    if (m == NULL) return true; /* the link went down meanwhile */
    if (version > VERSION) {
        if (m->claims.boot == 0) note_unreadable(x, m);
        return true;
    }
    switch (what) {
    case ANNOUNCE:
        hear_announced(x, from, &r, now_ns);
        break;
    case ASK:
        hear_asked(x, from, &r);
        break;
    case RECORDS:
        hear_records(x, from, &r, now_ns);
        break;
    case ROOT:
        hear_root(x, m, &r, now_ns);
        break;
    case BUCKETS:
        hear_buckets(x, from, &r);
        break;
    case LIST:
        hear_list(x, from, &r, now_ns);
        break;
    case CLAIMS:
        hear_claims(x, from, &r);
        break;
    case CLAIMED:
        hear_claimed(x, m, &r, now_ns);
        break;
    case DURABLE:
        hear_durable(x, from, &r);
        break;
    case HEARD:
        hear_heard(x, m, &r);
        break;
    default:
        return what > HEARD; /* of a later build */
    }
    return gw_reader_done(&r);
}

/* What the caller tells. */

void gw_exchange_up(gw_exchange *x, const gw_peer_id *id, uint64_t now_ns) {
    member *m = find_or_add(x, id);
    if (m == NULL) return;
    x->neighbours_known &= m->up;
    m->up = true;
    m->heard = 0;
    m->agrees = m->past_gate = false;
    send_root(x, id);
    if (x->own.boot != 0) send_claims(x, id, &x->own);
    look_at_gate(x, now_ns);
}

void gw_exchange_down(gw_exchange *x, const gw_peer_id *id) {
    member *m = find(x, id);
    if (m == NULL) return;
    x->neighbours_known &= !m->up;
    m->up = m->agrees = m->past_gate = false;
}

void gw_exchange_gone(gw_exchange *x, const gw_peer_id *id) {
    member *m = find(x, id);
    if (m == NULL) return;
    x->claims_digest -= digest_of_list(&m->claims);
    gw_claims_free(&m->claims);
    *m = x->members[--x->count];
    gw_id_index_rebuild(&x->index, records(x), x->count);
    x->neighbours_known = false;
    x->sink.claims_changed(x->sink.context, id);
}

void gw_exchange_put(gw_exchange *x, const gw_job_record_id *id, uint64_t now_ns) {
    const gw_job_record *record = gw_job_records_find(x->records, id);
    (void)now_ns;
    if (record != NULL) note_state(x, record);
    announce(x, id, NULL);
}

void gw_exchange_set_claims(gw_exchange *x, const gw_claims *claims, uint64_t now_ns) {
    (void)now_ns;
    GW_ASSERT(is_newer(claims->boot, claims->number, &x->own));
    gw_claims_free(&x->own);
    x->own = gw_claims_copy(claims);
    for (uint32_t i = 0; i < x->count; i++)
        if (x->members[i].up) send_claims(x, &x->members[i].id, &x->own);
}

void gw_exchange_durable(gw_exchange *x, const gw_job_record_id *id, uint64_t digest) {
    const gw_job_record *record = gw_job_records_find(x->records, id);
    if (record == NULL || gw_job_record_digest(record) != digest ||
        (record->spec == NULL && !gw_job_record_is_over(record)))
        return;
    for (uint32_t i = 0; i < WAITING; i++) {
        source *s = &x->sources[i];
        if (gw_peer_id_is_none(&s->from) || !gw_job_record_id_equal(&s->id, id)) continue;
        uint8_t bytes[HEAD_BYTES + 2 + ANNOUNCED_BYTES];
        gw_writer w = begin(bytes, sizeof bytes, DURABLE);
        gw_put_u16(&w, 1);
        put_announced(&w, id, s->digest); /* the state that is durable has all of it */
        const member *m = find(x, &s->from);
        if (m != NULL && m->up) send(x, &s->from, &w);
        s->from = (gw_peer_id){{0}};
    }
}

uint64_t gw_exchange_next_deadline(const gw_exchange *x) {
    return x->round_ns;
}

void gw_exchange_tick(gw_exchange *x, uint64_t now_ns) {
    look_at_gate(x, now_ns);
    if (now_ns < x->round_ns) return;
    x->round_ns = now_ns + (x->past_gate ? GW_EXCHANGE_ROUND_NS : HURRY_NS);
    const member *other = x->past_gate ? NULL : choose(x, true);
    if (other == NULL) other = choose(x, false);
    if (other != NULL) send_root(x, &other->id);
    if (!x->past_gate) reach_out(x);
}

uint64_t gw_exchange_news(const gw_exchange *x) {
    return x->news;
}

uint64_t gw_exchange_states(const gw_exchange *x) {
    return x->state_count;
}

bool gw_exchange_is_past_gate(const gw_exchange *x) {
    return x->past_gate;
}

bool gw_exchange_gate_is_forced(const gw_exchange *x) {
    return x->forced;
}

uint32_t gw_exchange_claims_count(const gw_exchange *x) {
    return x->count + 1;
}

const gw_claims *gw_exchange_claims_at(const gw_exchange *x, uint32_t index) {
    return index < x->count ? &x->members[index].claims : &x->own;
}

const gw_claims *gw_exchange_claims_of(const gw_exchange *x, const gw_peer_id *id) {
    const gw_claims *claims = list_of(x, id);
    return claims != NULL && claims->boot != 0 ? claims : NULL;
}

bool gw_exchange_is_unreadable(const gw_exchange *x, const gw_peer_id *id) {
    const member *m = find(x, id);
    return m != NULL && m->unreadable;
}

/* Opening and closing. */

gw_exchange *gw_exchange_open(const gw_exchange_config *config, uint64_t now_ns) {
    gw_exchange *x = calloc(1, sizeof *x);
    GW_ASSERT_MEMORY(x != NULL);
    *x = (gw_exchange){.self = config->self,
                       .records = config->records,
                       .sink = config->sink,
                       .known_count = config->known_count,
                       .expects_others = config->expects_others,
                       .opened_ns = now_ns,
                       .gate_ns = config->gate_ns,
                       .round_ns = now_ns,
                       .random = config->rng_seed};
    x->known = calloc(config->known_count + 1, sizeof *x->known);
    GW_ASSERT_MEMORY(x->known != NULL);
    for (uint32_t i = 0; i < config->known_count; i++) x->known[i].id = config->known[i];
    look_at_gate(x, now_ns);
    return x;
}

void gw_exchange_close(gw_exchange *x) {
    if (x == NULL) return;
    for (uint32_t i = 0; i < x->count; i++) gw_claims_free(&x->members[i].claims);
    gw_claims_free(&x->own);
    free(x->members);
    gw_id_index_free(&x->index);
    free(x->known);
    free(x);
}
