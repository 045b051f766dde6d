#include "tools/godwit/trace/timeline.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Adding. */

bool gw_traced_peer_add(gw_traced_peer *peer, gw_trace_batch *batch, gw_err *err) {
    uint64_t needed = peer->span_count + batch->span_count;
    if (needed > peer->span_room) {
        uint64_t room = needed > 2 * peer->span_room ? needed : 2 * peer->span_room;
        gw_trace_span *spans = realloc(peer->spans, room * sizeof *spans);
        if (spans == NULL) {
            gw_trace_batch_free(batch);
            return gw_fail(err, GW_E_NOMEM, "out of memory for a trace");
        }
        peer->spans = spans;
        peer->span_room = room;
    }
    if (batch->span_count > 0)
        memcpy(peer->spans + peer->span_count, batch->spans, batch->span_count * sizeof *batch->spans);
    peer->span_count = needed;
    peer->lost = batch->lost;
    peer->workers = batch->workers;
    peer->thread_count = batch->thread_count;
    memcpy(peer->threads, batch->threads, batch->thread_count * sizeof *batch->threads);
    free(peer->open);
    peer->open = batch->open;
    peer->open_count = batch->open_count;
    batch->open = NULL;
    gw_trace_batch_free(batch);
    return true;
}

void gw_traced_peer_free(gw_traced_peer *peer) {
    free(peer->spans);
    free(peer->open);
    *peer = (gw_traced_peer){.lost = 0};
}

/* What the kinds are in the file. `b` and `a` behind a name: the number is part of it. */

typedef enum naming { PLAIN, WITH_A, WITH_B } naming;

typedef struct kind_text {
    const char *name, *category, *a, *b; /* a, b: names of the notes; NULL: none */
    naming naming;
} kind_text;

/* Spans that no peer records. */
enum { MEMBERS_WAIT = GW_TRACE_KINDS, DEALT, STOLEN_FROM, TRACED, KINDS };

static const kind_text kinds[KINDS] = {
    [GW_TRACE_SHARD] = {"shard", GW_TRACE_IS_COMPUTE, "shard", "step", WITH_A},
    [GW_TRACE_PAYLOAD] = {"payload", "payload", "shard", "step", WITH_A},
    [GW_TRACE_UNITS] = {"units", "units", "units", NULL, PLAIN},
    [GW_TRACE_REDUCE] = {"reduce", GW_TRACE_IS_REDUCE, "members", "step", WITH_B},
    [GW_TRACE_GATHER] = {"wait for data links", GW_TRACE_IS_WAIT, "members", "step", PLAIN},
    [GW_TRACE_PREPARE] = {"prepare the sums", "sums", NULL, "step", PLAIN},
    [GW_TRACE_BUCKET] = {"bucket", "sums", "members", "step", PLAIN},
    [GW_TRACE_CHECK] = {"check the sums", "sums", NULL, "step", PLAIN},
    [GW_TRACE_APPLY] = {"apply", GW_TRACE_IS_APPLY, NULL, "step", WITH_B},
    [GW_TRACE_STAGED] = {"wait for a checkpoint's copy", GW_TRACE_IS_WAIT, NULL, "step", PLAIN},
    [GW_TRACE_COMMIT] = {"commit", "effects", NULL, "step", WITH_B},
    [GW_TRACE_PROBE] = {"probe", "verify", "shard", "step", WITH_A},
    [GW_TRACE_LOOK] = {"look at the state", "verify", NULL, "step", PLAIN},
    [GW_TRACE_LOAD] = {"load a state", "load", NULL, "step", WITH_B},
    [GW_TRACE_PART] = {"part", "part", "KiB sent", "step", PLAIN},
    [GW_TRACE_ENTER] = {"members enter", "part", NULL, "step", PLAIN},
    [GW_TRACE_HOP] = {"hop", GW_TRACE_IS_HOP, "message", "bytes", WITH_A},
    [GW_TRACE_STAGE] = {"stage chunk", "checkpoint", "chunk", "step", WITH_A},
    [GW_TRACE_HASH] = {"hash", "checkpoint", "chunks", "bytes", PLAIN},
    [GW_TRACE_WRITE] = {"write", "checkpoint", "chunks", "bytes", PLAIN},
    [GW_TRACE_MANIFEST] = {"manifest", "checkpoint", NULL, "bytes", PLAIN},
    [GW_TRACE_RETAIN] = {"delete old checkpoints", "checkpoint", NULL, NULL, PLAIN},
    [GW_TRACE_STEP] = {"step", "step", "shards", "step", WITH_B},
    [GW_TRACE_STEAL] = {"steal", "steal", "shards", "victim", PLAIN},
    [GW_TRACE_MISS] = {"steal nothing", "steal", NULL, "victim", PLAIN},
    [GW_TRACE_LOOK_AT] = {"look at a word", "steal", NULL, "peer", PLAIN},
    [GW_TRACE_FREEZE] = {"freeze", "view", NULL, "epoch", PLAIN},
    [GW_TRACE_VIEW] = {"change to view", "view", "members", "epoch", WITH_B},
    [GW_TRACE_SAVE] = {"save step", "checkpoint", "chunks", "step", WITH_B},
    [GW_TRACE_CHECKPOINT] = {"complete: step", "checkpoint", NULL, "step", WITH_B},
    [GW_TRACE_ALIVE] = {"peer alive", "view", NULL, "peer", PLAIN},
    [GW_TRACE_DEAD] = {"peer dead", "view", NULL, "peer", PLAIN},
    [GW_TRACE_LEFT] = {"peer left", "view", NULL, "peer", PLAIN},
    [GW_TRACE_REPAIR] = {"repair", "view", "shards", "step", PLAIN},
    [GW_TRACE_PACK] = {"pack", GW_TRACE_IS_PACK, "message", "bytes", WITH_A},
    [MEMBERS_WAIT] = {"wait for members", GW_TRACE_IS_WAIT, NULL, "step", PLAIN},
    [DEALT] = {"shards", GW_TRACE_IS_DEALT, NULL, "step", PLAIN},
    [STOLEN_FROM] = {"stolen", "steal", "shards", "thief", PLAIN},
    [TRACED] = {"traced", GW_TRACE_IS_TRACED, NULL, NULL, PLAIN},
};

/* Tracks of a peer; those of its threads follow. */
enum { TRACK_TRACE, TRACK_STEPS, TRACK_STEALS, TRACK_FLOCK, TRACK_CHECKPOINTS, TRACK_THREADS };

static const char *const track_names[TRACK_THREADS] = {"trace", "steps", "steals", "flock", "checkpoints"};

enum { LANES = 256, DEPTH = 32, PROCESS_IDS = 1000, COUNTER_SHARDS = 1, COUNTER_SENT, COUNTER_WRITTEN };

_Static_assert(GW_TRACE_THREADS + GW_TRACE_BATCH_OPEN < PROCESS_IDS, "the threads of a process have ids");

static uint64_t process_uuid(uint32_t peer) {
    return (uint64_t)(peer + 1) << 32;
}

static uint64_t track_uuid(uint32_t peer, uint32_t track, uint32_t lane) {
    return process_uuid(peer) | (uint64_t)(track + 1) << 12 | lane;
}

static uint64_t counter_uuid(uint32_t peer, uint32_t counter) {
    return process_uuid(peer) | UINT64_C(0xf0000000) | counter;
}

static uint32_t track_of(uint32_t kind, uint32_t thread) {
    switch (kind) {
    case GW_TRACE_STEP:
    case GW_TRACE_DEAL:
    case GW_TRACE_SEALED:
        return TRACK_STEPS;
    case GW_TRACE_STEAL:
    case GW_TRACE_MISS:
    case GW_TRACE_LOOK_AT:
        return TRACK_STEALS;
    case GW_TRACE_FREEZE:
    case GW_TRACE_VIEW:
    case GW_TRACE_ALIVE:
    case GW_TRACE_DEAD:
    case GW_TRACE_LEFT:
    case GW_TRACE_REPAIR:
        return TRACK_FLOCK;
    case GW_TRACE_SAVE:
    case GW_TRACE_CHECKPOINT:
        return TRACK_CHECKPOINTS;
    default:
        return TRACK_THREADS + thread;
    }
}

static bool is_instant(uint32_t kind) {
    return kind == GW_TRACE_CHECKPOINT || kind == GW_TRACE_ALIVE || kind == GW_TRACE_DEAD ||
           kind == GW_TRACE_LEFT || kind == GW_TRACE_REPAIR || kind == STOLEN_FROM;
}

/* Something on a track. */
typedef struct slice {
    uint64_t begin_ns, end_ns, b;
    uint32_t a, track;
    uint16_t c, kind;
    gw_perfetto_flow flow;
    uint64_t flow_id;
} slice;

typedef struct slices {
    slice *list;
    size_t count, room;
    bool failed; /* memory has run out */
} slices;

static void add_slice(slices *s, const slice *one) {
    if (s->count == s->room && !s->failed) {
        size_t room = s->room == 0 ? 1024 : 2 * s->room;
        slice *list = realloc(s->list, room * sizeof *list);
        s->failed = list == NULL;
        if (list != NULL) {
            s->list = list;
            s->room = room;
        }
    }
    if (!s->failed) s->list[s->count++] = *one;
}

/* An all-reduce that a peer was in, for the time when all had entered. */
typedef struct entry {
    uint64_t step, begin_ns, end_ns;
    uint32_t members, peer, thread;
    uint16_t bucket; /* with the attempt, as the record has it */
} entry;

/* A steal, as its victim has it. */
typedef struct theft {
    uint64_t at_ns, flow_id, thief;
    uint32_t victim, shards;
} theft;

typedef struct timeline {
    gw_traced_peer *peers;
    uint32_t peer_count;
    gw_perfetto file;
    entry *entries; /* in the order of their steps, buckets and begins */
    size_t entry_count;
    theft *thefts;
    size_t theft_count;
    slices slices; /* of the peer that is written */
} timeline;

/* Puts the times of a record on the client's clock, and cuts them to the time of the trace. What lies outside
 * of it, and a kind that is not known, becomes the kind 0. */
static void convert_record(const gw_traced_peer *peer, gw_trace_record *r) {
    r->begin_ns = gw_trace_offset_apply(&peer->offset, r->begin_ns);
    r->end_ns = gw_trace_offset_apply(&peer->offset, r->end_ns);
    if (r->begin_ns < peer->from_ns) r->begin_ns = peer->from_ns;
    if (r->end_ns > peer->to_ns) r->end_ns = peer->to_ns;
    if (r->begin_ns > r->end_ns || r->kind >= GW_TRACE_KINDS) r->kind = 0;
}

static void convert(gw_traced_peer *peer) {
    for (uint64_t i = 0; i < peer->span_count; i++) convert_record(peer, &peer->spans[i].record);
    for (uint32_t i = 0; i < peer->open_count; i++) {
        convert_record(peer, &peer->open[i].record);
        peer->open[i].record.end_ns = peer->to_ns;
    }
}

static bool find_peer(const timeline *t, uint64_t id, uint32_t *found) {
    for (*found = 0; *found < t->peer_count; ++*found)
        if (gw_trace_peer(t->peers[*found].id.bytes) == id) return true;
    return false;
}

/* Lists the all-reduces and the steals of all peers. False: out of memory. */
static bool list_shared(timeline *t) {
    size_t entries = 0, steals = 0;
    for (uint32_t p = 0; p < t->peer_count; p++)
        for (uint64_t i = 0; i < t->peers[p].span_count; i++) {
            entries += t->peers[p].spans[i].record.kind == GW_TRACE_BUCKET;
            steals += t->peers[p].spans[i].record.kind == GW_TRACE_STEAL;
        }
    t->entries = malloc((entries + 1) * sizeof *t->entries);
    t->thefts = malloc((steals + 1) * sizeof *t->thefts);
    if (t->entries == NULL || t->thefts == NULL) return false;
    for (uint32_t p = 0; p < t->peer_count; p++)
        for (uint64_t i = 0; i < t->peers[p].span_count; i++) {
            const gw_trace_record *r = &t->peers[p].spans[i].record;
            uint32_t victim;
            if (r->kind == GW_TRACE_BUCKET)
                t->entries[t->entry_count++] = (entry){.step = r->b,
                                                       .begin_ns = r->begin_ns,
                                                       .end_ns = r->end_ns,
                                                       .members = r->a,
                                                       .peer = p,
                                                       .thread = t->peers[p].spans[i].thread,
                                                       .bucket = r->c};
            if (r->kind == GW_TRACE_STEAL && find_peer(t, r->b, &victim))
                t->thefts[t->theft_count++] = (theft){.at_ns = r->begin_ns + (r->end_ns - r->begin_ns) / 2,
                                                      .flow_id = (uint64_t)(p + 1) << 40 | i,
                                                      .thief = gw_trace_peer(t->peers[p].id.bytes),
                                                      .victim = victim,
                                                      .shards = r->a};
        }
    return true;
}

static int compare_entries(const void *a, const void *b) {
    const entry *x = a, *y = b;
    if (x->step != y->step) return x->step < y->step ? -1 : 1;
    if (x->bucket != y->bucket) return x->bucket < y->bucket ? -1 : 1;
    return (x->begin_ns > y->begin_ns) - (x->begin_ns < y->begin_ns);
}

/* Ends the wait of each member of one all-reduce when the last of them enters. Where not all members are in
 * the trace, that is not known, and their number becomes 0. */
static void note_entered(entry *list, size_t count) {
    bool all = count == list[0].members;
    uint64_t entered_ns = 0;
    for (size_t i = 0; i < count; i++)
        if (list[i].begin_ns > entered_ns) entered_ns = list[i].begin_ns;
    for (size_t i = 0; i < count; i++) {
        if (all && entered_ns < list[i].end_ns) list[i].end_ns = entered_ns;
        if (!all) list[i].members = 0;
    }
}

/* Finds for each all-reduce until when its members have waited, which becomes its end. One that was begun
 * anew, in another view, has the same numbers; but it begins after the first one's end. */
static void find_waits(timeline *t) {
    qsort(t->entries, t->entry_count, sizeof *t->entries, compare_entries);
    for (size_t first = 0, next; first < t->entry_count; first = next) {
        const entry *one = &t->entries[first];
        uint64_t end_ns = one->end_ns;
        for (next = first + 1; next < t->entry_count; next++) {
            const entry *other = &t->entries[next];
            if (other->step != one->step || other->bucket != one->bucket || other->begin_ns > end_ns) break;
            if (other->end_ns > end_ns) end_ns = other->end_ns;
        }
        note_entered(&t->entries[first], next - first);
    }
}

/* The tracks of one peer. */

static uint32_t thread_named(const gw_traced_peer *peer, const char *name) {
    for (uint32_t i = 0; i < peer->thread_count; i++)
        if (strcmp(peer->threads[i].name, name) == 0) return peer->threads[i].number;
    return UINT32_MAX;
}

/* Adds what had not ended at the end of the trace. A span that ended while it was listed is in the last batch
 * already. */
static void add_open(timeline *t, gw_traced_peer *peer) {
    for (uint32_t i = 0; i < peer->open_count; i++) {
        const gw_trace_record *r = &peer->open[i].record;
        uint32_t thread = thread_named(peer, peer->open[i].thread);
        bool there = r->kind == 0;
        if (thread == UINT32_MAX) thread = GW_TRACE_THREADS + i; /* it has recorded nothing yet */
        uint64_t last = peer->span_count,
                 first = last > GW_TRACE_BATCH_SPANS ? last - GW_TRACE_BATCH_SPANS : 0;
        for (uint64_t k = first; k < last && !there; k++) {
            const gw_trace_span *span = &peer->spans[k];
            there = span->thread == thread && span->record.kind == r->kind && span->record.a == r->a &&
                    span->record.b == r->b && span->record.begin_ns == r->begin_ns;
        }
        if (there) continue;
        add_slice(&t->slices, &(slice){.begin_ns = r->begin_ns,
                                       .end_ns = r->end_ns,
                                       .a = r->a,
                                       .b = r->b,
                                       .c = r->c,
                                       .kind = r->kind,
                                       .track = track_of(r->kind, thread)});
    }
}

static void add_dealt(timeline *t, uint64_t begin_ns, uint64_t end_ns, uint64_t step) {
    add_slice(
        &t->slices,
        &(slice){.begin_ns = begin_ns, .end_ns = end_ns, .b = step, .kind = DEALT, .track = TRACK_STEPS});
}

/* Makes spans of the marks of the loop's thread: steps, which end where the next one begins, and the time from
 * a deal until this peer's shards are done. */
static void add_steps(timeline *t, const gw_traced_peer *peer) {
    gw_trace_record step = {.kind = 0}, deal = {.kind = 0};
    bool sealed = false, runs = false;
    for (uint64_t i = 0; i < peer->span_count; i++) {
        const gw_trace_record *r = &peer->spans[i].record;
        if (r->kind == GW_TRACE_STEP) {
            if (step.kind != 0)
                add_slice(&t->slices, &(slice){.begin_ns = step.begin_ns,
                                               .end_ns = r->begin_ns,
                                               .a = step.a,
                                               .b = step.b,
                                               .kind = GW_TRACE_STEP,
                                               .track = TRACK_STEPS});
            step = *r;
        }
        if (r->kind == GW_TRACE_DEAL && deal.kind == 0) deal = *r;
        if (r->kind != GW_TRACE_SEALED) continue;
        if (deal.kind != 0)
            add_dealt(t, deal.begin_ns, r->begin_ns, deal.b);
        else if (!sealed)
            add_dealt(t, peer->from_ns, r->begin_ns, r->b);
        sealed = true;
        deal.kind = 0;
    }
    if (step.kind != 0 && step.a > 0)
        add_slice(&t->slices, &(slice){.begin_ns = step.begin_ns,
                                       .end_ns = peer->to_ns,
                                       .a = step.a,
                                       .b = step.b,
                                       .kind = GW_TRACE_STEP,
                                       .track = TRACK_STEPS});
    for (uint32_t i = 0; i < peer->open_count; i++) runs |= peer->open[i].record.kind == GW_TRACE_SHARD;
    if (deal.kind != 0)
        add_dealt(t, deal.begin_ns, peer->to_ns, deal.b);
    else if (!sealed && runs) /* a step that takes longer than the trace */
        add_dealt(t, peer->from_ns, peer->to_ns, peer->open[0].record.b);
}

static void add_wait(timeline *t, uint64_t begin_ns, uint64_t end_ns, uint64_t step, uint32_t thread) {
    if (end_ns <= begin_ns) return;
    add_slice(&t->slices, &(slice){.begin_ns = begin_ns,
                                   .end_ns = end_ns,
                                   .b = step,
                                   .kind = MEMBERS_WAIT,
                                   .track = TRACK_THREADS + thread});
}

/* Whether it is not known of some all-reduce of this peer at this step when all had entered. */
static bool lacks_entries(const timeline *t, uint32_t p, uint64_t step) {
    size_t low = 0, high = t->entry_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (t->entries[middle].step < step)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < t->entry_count && t->entries[low].step == step; low++)
        if (t->entries[low].peer == p && t->entries[low].members == 0) return true;
    return false;
}

/* Adds when this peer has waited for the other members of its reductions: by the entries of all of them or,
 * where these are not known, by what its data threads have recorded of rings. */
static void add_waits(timeline *t, uint32_t p) {
    const gw_traced_peer *peer = &t->peers[p];
    for (size_t i = 0; i < t->entry_count; i++) {
        const entry *e = &t->entries[i];
        if (e->peer == p && e->members > 0) add_wait(t, e->begin_ns, e->end_ns, e->step, e->thread);
    }
    uint64_t last_ns = 0;
    uint32_t thread = thread_named(peer, "gw-compute");
    for (uint64_t i = 0; i < peer->span_count && thread != UINT32_MAX; i++) {
        const gw_trace_record *r = &peer->spans[i].record;
        if (r->kind != GW_TRACE_ENTER || !lacks_entries(t, p, r->b)) continue;
        add_wait(t, r->begin_ns > last_ns ? r->begin_ns : last_ns, r->end_ns, r->b, thread);
        if (r->end_ns > last_ns) last_ns = r->end_ns;
    }
}

static void collect(timeline *t, uint32_t p) {
    gw_traced_peer *peer = &t->peers[p];
    t->slices.count = 0;
    add_slice(&t->slices, &(slice){.begin_ns = peer->from_ns, .end_ns = peer->to_ns, .kind = TRACED});
    for (uint64_t i = 0; i < peer->span_count; i++) {
        const gw_trace_span *span = &peer->spans[i];
        const gw_trace_record *r = &span->record;
        uint32_t victim;
        if (r->kind == 0 || kinds[r->kind].name == NULL || r->kind == GW_TRACE_STEP) continue;
        bool flows = r->kind == GW_TRACE_STEAL && find_peer(t, r->b, &victim);
        add_slice(&t->slices, &(slice){.begin_ns = r->begin_ns,
                                       .end_ns = r->end_ns,
                                       .a = r->a,
                                       .b = r->b,
                                       .c = r->c,
                                       .kind = r->kind,
                                       .track = track_of(r->kind, span->thread),
                                       .flow = flows ? GW_FLOW_BEGINS : GW_FLOW_NONE,
                                       .flow_id = (uint64_t)(p + 1) << 40 | i});
    }
    for (size_t i = 0; i < t->theft_count; i++)
        if (t->thefts[i].victim == p)
            add_slice(&t->slices, &(slice){.begin_ns = t->thefts[i].at_ns,
                                           .end_ns = t->thefts[i].at_ns,
                                           .a = t->thefts[i].shards,
                                           .b = t->thefts[i].thief,
                                           .kind = STOLEN_FROM,
                                           .track = TRACK_STEALS,
                                           .flow = GW_FLOW_ENDS,
                                           .flow_id = t->thefts[i].flow_id});
    add_steps(t, peer);
    add_waits(t, p);
    add_open(t, peer);
}

/* By track and begin; of those that begin together, the longest first, and kinds that hold others. */
static int compare_slices(const void *a, const void *b) {
    const slice *x = a, *y = b;
    if (x->track != y->track) return x->track < y->track ? -1 : 1;
    if (x->begin_ns != y->begin_ns) return x->begin_ns < y->begin_ns ? -1 : 1;
    if (x->end_ns != y->end_ns) return x->end_ns > y->end_ns ? -1 : 1;
    return (x->kind > y->kind) - (x->kind < y->kind);
}

/* Writing. */

/* A track of the file: the spans that are open on it, one in another. Spans of a thread that overlap in part
 * go to lanes beside it. */
typedef struct lane {
    uint64_t ends_ns[DEPTH];
    uint32_t depth;
    bool used;
} lane;

typedef struct lanes {
    timeline *of;
    uint32_t peer, track;
    const char *name; /* of the track */
    lane list[LANES];
} lanes;

static void end_until(lanes *l, uint32_t number, uint64_t until_ns) {
    lane *one = &l->list[number];
    while (one->depth > 0 && one->ends_ns[one->depth - 1] <= until_ns)
        gw_perfetto_end(&l->of->file, track_uuid(l->peer, l->track, number), one->ends_ns[--one->depth]);
}

static void use_lane(lanes *l, uint32_t number) {
    lane *one = &l->list[number];
    if (one->used) return;
    one->used = true;
    uint64_t uuid = track_uuid(l->peer, l->track, number), first = track_uuid(l->peer, l->track, 0);
    uint32_t process = (l->peer + 1) * PROCESS_IDS;
    char name[40];
    snprintf(name, sizeof name, "%s (%u)", l->name, number + 1);
    if (number > 0)
        gw_perfetto_track(&l->of->file, uuid, first, name);
    else if (l->track >= TRACK_THREADS)
        gw_perfetto_thread(&l->of->file, uuid, process, process + 1 + l->track - TRACK_THREADS, l->name);
    else
        gw_perfetto_track(&l->of->file, uuid, process_uuid(l->peer), l->name);
}

/* Finds the first lane on which the span lies in another one, or in none. LANES: there is none. */
static uint32_t find_lane(lanes *l, const slice *s) {
    for (uint32_t i = 0; i < LANES; i++) {
        lane *one = &l->list[i];
        end_until(l, i, s->begin_ns);
        if (one->depth == 0 || (one->depth < DEPTH && one->ends_ns[one->depth - 1] >= s->end_ns)) return i;
    }
    return LANES;
}

static const char *shard_end_text(uint16_t end) {
    static const char *const texts[] = {"added", "dropped", "failed", "computed again", "it runs"};
    return end < sizeof texts / sizeof texts[0] ? texts[end] : "?";
}

static const char *bucket_name(uint16_t bucket) {
    static const char *const names[] = {"agree on the place", "sum of floats", "sum of integers", "?"};
    return names[bucket & 3];
}

static const char *units_name(uint16_t work) {
    static const char *const names[] = {"units", "make units", "apply units", "hash units", "hash units"};
    return work < sizeof names / sizeof names[0] ? names[work] : names[0];
}

static void name_slice(const slice *s, char name[64]) {
    const kind_text *kind = &kinds[s->kind];
    if (s->kind == GW_TRACE_BUCKET)
        snprintf(name, 64, "%s", bucket_name(s->c));
    else if (s->kind == GW_TRACE_UNITS)
        snprintf(name, 64, "%s", units_name(s->c));
    else if (s->kind == GW_TRACE_PART)
        snprintf(name, 64, "part %u, %s", s->c >> 3, bucket_name(s->c >> 1));
    else if (kind->naming == WITH_A)
        snprintf(name, 64, "%s %" PRIu32, kind->name, s->a);
    else if (kind->naming == WITH_B)
        snprintf(name, 64, "%s %" PRIu64, kind->name, s->b);
    else
        snprintf(name, 64, "%s", kind->name);
}

enum { NOTES = 6 };

/* Notes beside a slice; `text` holds what they point to. Returns how many. */
static uint32_t note_slice(const timeline *t, uint32_t p, const slice *s, gw_perfetto_note notes[NOTES],
                           char text[20]) {
    const kind_text *kind = &kinds[s->kind];
    const gw_traced_peer *peer = &t->peers[p];
    uint32_t count = 0, other;
    bool names_peer = kind->b != NULL && (strcmp(kind->b, "victim") == 0 || strcmp(kind->b, "thief") == 0 ||
                                          strcmp(kind->b, "peer") == 0);
    if (s->kind == TRACED) {
        uint64_t error_ns = gw_trace_offset_error_ns(&peer->offset);
        notes[count++] = (gw_perfetto_note){.name = GW_TRACE_WORKERS, .number = peer->workers};
        notes[count++] = (gw_perfetto_note){.name = GW_TRACE_LOST, .number = (int64_t)peer->lost};
        notes[count++] =
            (gw_perfetto_note){.name = GW_TRACE_OFFSET, .number = gw_trace_offset_ns(&peer->offset)};
        notes[count++] = (gw_perfetto_note){.name = GW_TRACE_ERROR, .number = (int64_t)error_ns};
        if (peer->why[0] != '\0')
            notes[count++] = (gw_perfetto_note){.name = GW_TRACE_WHY, .text = peer->why};
        return count;
    }
    if (kind->a != NULL) notes[count++] = (gw_perfetto_note){.name = kind->a, .number = s->a};
    if (names_peer) {
        snprintf(text, 20, "%08" PRIx64, s->b >> 32);
        bool known = find_peer(t, s->b, &other);
        notes[count++] = (gw_perfetto_note){.name = kind->b, .text = known ? t->peers[other].name : text};
    } else if (kind->b != NULL) {
        notes[count++] = (gw_perfetto_note){.name = kind->b, .number = (int64_t)s->b};
    }
    if (s->kind == GW_TRACE_SHARD)
        notes[count++] = (gw_perfetto_note){.name = "end", .text = shard_end_text(s->c)};
    if (s->kind == GW_TRACE_PART)
        notes[count++] =
            (gw_perfetto_note){.name = "algorithm", .text = (s->c & 1) != 0 ? "ring" : "recursive doubling"};
    if (s->kind == GW_TRACE_REDUCE) notes[count++] = (gw_perfetto_note){.name = "attempt", .number = s->c};
    return count;
}

static void write_slice(lanes *l, const slice *s) {
    gw_perfetto_note notes[NOTES];
    char name[64], text[20];
    bool instant = is_instant(s->kind);
    uint32_t number = instant ? 0 : find_lane(l, s);
    if (number == LANES) return;
    if (instant) end_until(l, 0, s->begin_ns);
    use_lane(l, number);
    name_slice(s, name);
    const gw_perfetto_event event = {.track = track_uuid(l->peer, l->track, number),
                                     .at_ns = s->begin_ns,
                                     .name = name,
                                     .category = kinds[s->kind].category,
                                     .flow = s->flow,
                                     .flow_id = s->flow_id,
                                     .notes = notes,
                                     .note_count = note_slice(l->of, l->peer, s, notes, text)};
    if (instant) {
        gw_perfetto_instant(&l->of->file, &event);
        return;
    }
    gw_perfetto_begin(&l->of->file, &event);
    l->list[number].ends_ns[l->list[number].depth++] = s->end_ns;
}

static const char *name_of_track(const gw_traced_peer *peer, uint32_t track) {
    if (track < TRACK_THREADS) return track_names[track];
    uint32_t thread = track - TRACK_THREADS;
    for (uint32_t i = 0; i < peer->thread_count; i++)
        if (peer->threads[i].number == thread) return peer->threads[i].name;
    uint32_t open = thread - GW_TRACE_THREADS;
    return open < peer->open_count ? peer->open[open].thread : "thread";
}

static void write_tracks(timeline *t, uint32_t p) {
    const slices *s = &t->slices;
    lanes *l = malloc(sizeof *l);
    t->slices.failed |= l == NULL;
    for (size_t i = 0; l != NULL && i < s->count;) {
        *l = (lanes){.of = t, .peer = p, .track = s->list[i].track};
        l->name = name_of_track(&t->peers[p], l->track);
        for (; i < s->count && s->list[i].track == l->track; i++) write_slice(l, &s->list[i]);
        for (uint32_t k = 0; k < LANES; k++) end_until(l, k, UINT64_MAX);
    }
    free(l);
}

/* A change of a counter. */
typedef struct change {
    uint64_t at_ns;
    int64_t by;
} change;

static int compare_changes(const void *a, const void *b) {
    const change *x = a, *y = b;
    if (x->at_ns != y->at_ns) return x->at_ns < y->at_ns ? -1 : 1;
    return (x->by > y->by) - (x->by < y->by);
}

/* Writes a counter whose changes the slices of one kind tell: shards in flight, or bytes at their end. */
static void write_counter(timeline *t, uint32_t p, uint32_t counter, const char *name) {
    static const uint16_t of[] = {[COUNTER_SHARDS] = GW_TRACE_SHARD,
                                  [COUNTER_SENT] = GW_TRACE_PART,
                                  [COUNTER_WRITTEN] = GW_TRACE_WRITE};
    change *changes = malloc((2 * t->slices.count + 1) * sizeof *changes);
    size_t count = 0;
    int64_t value = 0;
    t->slices.failed |= changes == NULL;
    for (size_t i = 0; changes != NULL && i < t->slices.count; i++) {
        const slice *s = &t->slices.list[i];
        if (s->kind != of[counter]) continue;
        if (counter == COUNTER_SHARDS) changes[count++] = (change){.at_ns = s->begin_ns, .by = 1};
        int64_t by = counter == COUNTER_SHARDS ? -1
                     : counter == COUNTER_SENT ? (int64_t)s->a << 10
                                               : (int64_t)s->b;
        changes[count++] = (change){.at_ns = s->end_ns, .by = by};
    }
    if (count > 0) {
        qsort(changes, count, sizeof *changes, compare_changes);
        gw_perfetto_counter(&t->file, counter_uuid(p, counter), process_uuid(p), name,
                            counter != COUNTER_SHARDS);
    }
    for (size_t i = 0; i < count; i++) {
        value = (int64_t)((uint64_t)value + (uint64_t)changes[i].by);
        bool last = i + 1 == count || changes[i + 1].at_ns != changes[i].at_ns;
        if (last) gw_perfetto_count(&t->file, counter_uuid(p, counter), changes[i].at_ns, value);
    }
    free(changes);
}

static void write_peer(timeline *t, uint32_t p) {
    gw_perfetto_process(&t->file, process_uuid(p), (p + 1) * PROCESS_IDS, t->peers[p].name);
    collect(t, p);
    qsort(t->slices.list, t->slices.count, sizeof *t->slices.list, compare_slices);
    write_tracks(t, p);
    write_counter(t, p, COUNTER_SHARDS, "shards in flight");
    write_counter(t, p, COUNTER_SENT, "sums sent");
    write_counter(t, p, COUNTER_WRITTEN, "checkpoints written");
}

bool gw_timeline_write(gw_traced_peer *peers, uint32_t count, gw_perfetto_write *write, void *context,
                       gw_err *err) {
    timeline t = {.peers = peers, .peer_count = count};
    for (uint32_t p = 0; p < count; p++) convert(&peers[p]);
    gw_perfetto_open(&t.file, write, context);
    t.slices.failed = !list_shared(&t);
    if (!t.slices.failed) find_waits(&t);
    for (uint32_t p = 0; p < count && !t.slices.failed; p++)
        if (peers[p].to_ns > 0) write_peer(&t, p);
    bool good = gw_perfetto_close(&t.file, err);
    if (t.slices.failed) good = gw_fail(err, GW_E_NOMEM, "out of memory for the file of the trace");
    free(t.slices.list);
    free(t.entries);
    free(t.thefts);
    return good;
}
