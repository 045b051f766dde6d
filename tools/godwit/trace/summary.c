#include "tools/godwit/trace/summary.h"

#include "core/base/utf8.h"
#include "tools/godwit/trace/timeline.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { TRACKS_MOST = 1 << 16, DEPTH = 32, NO_TRACK = UINT32_MAX };

typedef enum category { OTHER, COMPUTE, WAIT, REDUCE, APPLY, DEALT, HOP, PACK, TRACED, CATEGORIES } category;

static const char *const categories[CATEGORIES] = {
    [COMPUTE] = GW_TRACE_IS_COMPUTE, [WAIT] = GW_TRACE_IS_WAIT,     [REDUCE] = GW_TRACE_IS_REDUCE,
    [APPLY] = GW_TRACE_IS_APPLY,     [DEALT] = GW_TRACE_IS_DEALT,   [HOP] = GW_TRACE_IS_HOP,
    [PACK] = GW_TRACE_IS_PACK,       [TRACED] = GW_TRACE_IS_TRACED,
};

/* A track of the file, and what is open on it. */
typedef struct track {
    uint64_t uuid, parent;
    uint32_t peer; /* of a process; NO_TRACK: it is none */
    uint32_t depth;
    struct {
        uint64_t begin_ns;
        category category;
    } open[DEPTH];
} track;

/* The begin (by 1) or the end (by -1) of a span of some category. */
typedef struct edge {
    uint64_t at_ns;
    int8_t by;
    uint8_t category;
} edge;

typedef struct file_peer {
    edge *edges;
    size_t count, room;
    uint64_t from_ns, to_ns;
} file_peer;

typedef struct reading {
    track *tracks; /* a hash table by uuid; uuid 0: free */
    uint32_t track_count, room;
    file_peer *peers;
    gw_summary *summary;
    bool enough; /* memory */
} reading;

/* An event, as far as it counts. */
typedef struct event {
    uint64_t at_ns, track;
    uint32_t type;
    category category;
    gw_protobuf_reader notes; /* the whole event, for its notes */
} event;

/* Tracks. */

static track *place_of(const reading *r, uint64_t uuid) {
    uint64_t at = uuid * UINT64_C(0x9e3779b97f4a7c15) >> 20;
    for (;; at++) {
        track *one = &r->tracks[at % r->room];
        if (one->uuid == uuid || one->uuid == 0) return one;
    }
}

static bool grow(reading *r) {
    reading bigger = *r;
    bigger.room = r->room == 0 ? 256 : 2 * r->room;
    bigger.tracks = calloc(bigger.room, sizeof *bigger.tracks);
    if (bigger.tracks == NULL) return r->enough = false;
    for (uint32_t i = 0; i < r->room; i++)
        if (r->tracks[i].uuid != 0) *place_of(&bigger, r->tracks[i].uuid) = r->tracks[i];
    free(r->tracks);
    *r = bigger;
    return true;
}

/* The track of this uuid, which may be new. NULL: there are too many, or no memory. */
static track *track_of(reading *r, uint64_t uuid) {
    if (uuid == 0 || (2 * r->track_count >= r->room && (r->track_count >= TRACKS_MOST || !grow(r))))
        return NULL;
    track *one = place_of(r, uuid);
    if (one->uuid == 0) {
        *one = (track){.uuid = uuid, .peer = NO_TRACK};
        r->track_count++;
    }
    return one;
}

/* The peer whose process the track is in; NO_TRACK: it is in none. */
static uint32_t peer_of(const reading *r, const track *one) {
    for (uint32_t i = 0; i < DEPTH && r->room > 0; i++) {
        if (one->peer != NO_TRACK) return one->peer;
        if (one->parent == 0) return NO_TRACK;
        one = place_of(r, one->parent);
        if (one->uuid == 0) return NO_TRACK;
    }
    return NO_TRACK;
}

static void copy_text(const gw_protobuf_field *field, char *text, size_t room) {
    char long_text[256];
    size_t count = field->count < sizeof long_text - 1 ? field->count : sizeof long_text - 1;
    if (field->type != GW_PROTOBUF_BYTES) count = 0;
    if (count > 0) memcpy(long_text, field->bytes, count);
    long_text[count] = '\0';
    gw_utf8_shorten(long_text, text, room);
}

static gw_protobuf_reader inner(const gw_protobuf_field *field) {
    bool message = field->type == GW_PROTOBUF_BYTES;
    return (gw_protobuf_reader){.bytes = message ? field->bytes : NULL, .count = message ? field->count : 0};
}

/* What a thread's descriptor says: the process it belongs to, whose track has a number made of it. */
typedef struct description {
    uint64_t uuid, parent, process, thread_of;
    char name[GW_SUMMARY_NAME_TEXT];
} description;

static void describe_process(gw_protobuf_reader r, description *d) {
    gw_protobuf_field f;
    while (gw_protobuf_next(&r, &f)) {
        if (f.number == GW_PF_PROCESS_PID) d->process = f.value;
        if (f.number == GW_PF_PROCESS_NAME) copy_text(&f, d->name, sizeof d->name);
    }
}

static void describe_thread(gw_protobuf_reader r, description *d) {
    gw_protobuf_field f;
    while (gw_protobuf_next(&r, &f))
        if (f.number == GW_PF_THREAD_PID) d->thread_of = f.value;
}

/* A process with an id is a peer, of which the summary gets a line. */
static bool add_peer(reading *r, track *one, const description *d, gw_err *err) {
    gw_summary *summary = r->summary;
    if (one->peer != NO_TRACK) return true;
    if (summary->count == GW_SUMMARY_PEERS)
        return gw_fail(err, GW_E_LIMIT, "it has more than %d processes", GW_SUMMARY_PEERS);
    one->peer = summary->count++;
    memcpy(summary->peers[one->peer].name, d->name, sizeof d->name);
    return true;
}

/* The track of a process, as the tracks of its threads name it: by its id. These get numbers of their own. */
static uint64_t uuid_of_process(uint64_t process) {
    return process | UINT64_C(1) << 63;
}

static bool read_track(reading *r, gw_protobuf_reader message, gw_err *err) {
    description d = {.name = ""};
    gw_protobuf_field f;
    while (gw_protobuf_next(&message, &f)) {
        if (f.number == GW_PF_TRACK_UUID) d.uuid = f.value;
        if (f.number == GW_PF_TRACK_PARENT) d.parent = f.value;
        if (f.number == GW_PF_TRACK_PROCESS) describe_process(inner(&f), &d);
        if (f.number == GW_PF_TRACK_THREAD) describe_thread(inner(&f), &d);
    }
    track *one = track_of(r, d.uuid);
    if (one == NULL) return true;
    one->parent = d.thread_of != 0 ? uuid_of_process(d.thread_of) : d.parent;
    if (d.process == 0) return true;
    if (!add_peer(r, one, &d, err)) return false;
    uint32_t peer = one->peer;
    track *by_id = track_of(r, uuid_of_process(d.process));
    if (by_id != NULL) by_id->peer = peer;
    return true;
}

/* Events. */

static category category_named(const gw_protobuf_field *f) {
    for (category c = COMPUTE; c < CATEGORIES && f->type == GW_PROTOBUF_BYTES; c++)
        if (f->count == strlen(categories[c]) && memcmp(f->bytes, categories[c], f->count) == 0) return c;
    return OTHER;
}

static event parse_event(gw_protobuf_reader message) {
    event e = {.notes = message};
    gw_protobuf_field f;
    while (gw_protobuf_next(&message, &f)) {
        if (f.number == GW_PF_EVENT_TYPE) e.type = f.value < 16 ? (uint32_t)f.value : 0;
        if (f.number == GW_PF_EVENT_TRACK) e.track = f.value;
        if (f.number == GW_PF_EVENT_CATEGORY) e.category = category_named(&f);
    }
    return e;
}

static void add_edge(reading *r, uint32_t peer, uint64_t at_ns, int by, category c) {
    file_peer *p = &r->peers[peer];
    if (p->count == p->room && r->enough) {
        size_t room = p->room == 0 ? 256 : 2 * p->room;
        edge *edges = realloc(p->edges, room * sizeof *edges);
        r->enough = edges != NULL;
        if (edges != NULL) {
            p->edges = edges;
            p->room = room;
        }
    }
    if (r->enough) p->edges[p->count++] = (edge){.at_ns = at_ns, .by = (int8_t)by, .category = (uint8_t)c};
}

/* Takes a note of the span that says how a peer was traced. */
static void take_note(gw_summary_peer *peer, gw_protobuf_reader note) {
    char name[64] = "", text[GW_SUMMARY_WHY_TEXT] = "";
    int64_t number = 0;
    gw_protobuf_field f;
    while (gw_protobuf_next(&note, &f)) {
        if (f.number == GW_PF_NOTE_NAME) copy_text(&f, name, sizeof name);
        if (f.number == GW_PF_NOTE_STRING) copy_text(&f, text, sizeof text);
        if (f.number == GW_PF_NOTE_INT) number = (int64_t)f.value;
    }
    if (strcmp(name, GW_TRACE_WORKERS) == 0 && number >= 0 && number <= UINT16_MAX)
        peer->workers = (uint32_t)number;
    if (strcmp(name, GW_TRACE_LOST) == 0) peer->lost = (uint64_t)number;
    if (strcmp(name, GW_TRACE_OFFSET) == 0) peer->offset_ns = number;
    if (strcmp(name, GW_TRACE_ERROR) == 0) peer->error_ns = (uint64_t)number;
    if (strcmp(name, GW_TRACE_WHY) == 0) memcpy(peer->why, text, sizeof text);
}

static void begin_traced(gw_summary_peer *peer, gw_protobuf_reader message) {
    gw_protobuf_field f;
    while (gw_protobuf_next(&message, &f))
        if (f.number == GW_PF_EVENT_NOTE) take_note(peer, inner(&f));
}

/* A span has ended. */
static void take_span(reading *r, uint32_t peer, category c, uint64_t begin_ns, uint64_t end_ns) {
    if (end_ns < begin_ns || c == OTHER) return;
    if (c == TRACED) {
        r->peers[peer].from_ns = begin_ns;
        r->peers[peer].to_ns = end_ns;
        return;
    }
    if (c == COMPUTE) r->summary->peers[peer].shards++;
    add_edge(r, peer, begin_ns, 1, c);
    add_edge(r, peer, end_ns, -1, c);
}

static void take_event(reading *r, const event *e) {
    if (e->type != GW_PF_TYPE_BEGIN && e->type != GW_PF_TYPE_END) return;
    track *one = track_of(r, e->track);
    uint32_t peer = one != NULL ? peer_of(r, one) : NO_TRACK;
    if (peer == NO_TRACK) return;
    if (e->type == GW_PF_TYPE_END) {
        if (one->depth == 0) return;
        one->depth--;
        if (one->depth < DEPTH)
            take_span(r, peer, one->open[one->depth].category, one->open[one->depth].begin_ns, e->at_ns);
        return;
    }
    if (one->depth < DEPTH) {
        one->open[one->depth].begin_ns = e->at_ns;
        one->open[one->depth].category = e->category;
    }
    if (one->depth < UINT32_MAX) one->depth++;
    if (e->category == TRACED) begin_traced(&r->summary->peers[peer], e->notes);
}

static bool read_packet(reading *r, gw_protobuf_reader packet, gw_err *err) {
    event e = {.type = 0};
    uint64_t at_ns = 0;
    bool has_event = false;
    gw_protobuf_field f;
    while (gw_protobuf_next(&packet, &f)) {
        if (f.number == GW_PF_PACKET_TIMESTAMP) at_ns = f.value;
        if (f.number == GW_PF_PACKET_TRACK && !read_track(r, inner(&f), err)) return false;
        if (f.number == GW_PF_PACKET_EVENT) {
            e = parse_event(inner(&f));
            has_event = true;
        }
    }
    e.at_ns = at_ns;
    if (has_event) take_event(r, &e);
    return !packet.failed || gw_fail(err, GW_E_INVALID, "a packet of it is damaged");
}

/* Shares. */

static int compare_edges(const void *a, const void *b) {
    const edge *x = a, *y = b;
    if (x->at_ns != y->at_ns) return x->at_ns < y->at_ns ? -1 : 1;
    return (x->by > y->by) - (x->by < y->by);
}

/* What the workers of a peer do that compute no shard. */
static gw_trace_share share_of(const int64_t open[CATEGORIES]) {
    return open[WAIT] > 0     ? GW_SHARE_WAIT
           : open[APPLY] > 0  ? GW_SHARE_APPLY
           : open[REDUCE] > 0 ? GW_SHARE_REDUCE
           : open[DEALT] > 0  ? GW_SHARE_WAIT
                              : GW_SHARE_OTHER;
}

/* Adds the time until the next edge. */
static void add_time(gw_summary_peer *peer, const int64_t open[CATEGORIES], double seconds) {
    int64_t computing = open[COMPUTE] > peer->workers ? peer->workers : open[COMPUTE];
    peer->shares[GW_SHARE_COMPUTE] += seconds * (double)computing;
    peer->shares[share_of(open)] += seconds * (double)(peer->workers - computing);
    if (open[REDUCE] == 0 || open[WAIT] > 0) return;
    peer->reduce_s += seconds;
    if (computing > 0) peer->hidden_s += seconds;
    if (open[PACK] == 0) return;
    peer->pack_s += seconds;
    if (open[HOP] > 0) peer->pack_hidden_s += seconds;
}

static void add_up(file_peer *p, gw_summary_peer *peer) {
    int64_t open[CATEGORIES] = {0};
    uint64_t at_ns = p->from_ns;
    if (p->to_ns <= p->from_ns) return;
    if (peer->workers == 0) peer->workers = 1;
    peer->seconds = (double)(p->to_ns - p->from_ns) * 1e-9;
    if (p->count > 0) qsort(p->edges, p->count, sizeof *p->edges, compare_edges);
    for (size_t i = 0; i <= p->count; i++) {
        uint64_t next_ns = i < p->count && p->edges[i].at_ns < p->to_ns ? p->edges[i].at_ns : p->to_ns;
        if (next_ns > at_ns) {
            add_time(peer, open, (double)(next_ns - at_ns) * 1e-9);
            at_ns = next_ns;
        }
        if (i < p->count) open[p->edges[i].category] += p->edges[i].by;
    }
    for (int s = 0; s < GW_SHARES; s++) peer->shares[s] /= peer->seconds * peer->workers;
}

static bool read_all(reading *r, const void *bytes, size_t count, gw_err *err) {
    gw_protobuf_reader file = {.bytes = bytes, .count = count};
    gw_protobuf_field f;
    r->summary->peers = calloc(GW_SUMMARY_PEERS, sizeof *r->summary->peers);
    r->peers = calloc(GW_SUMMARY_PEERS, sizeof *r->peers);
    r->enough = r->summary->peers != NULL && r->peers != NULL;
    while (r->enough && gw_protobuf_next(&file, &f))
        if (f.number == GW_PF_TRACE_PACKET && !read_packet(r, inner(&f), err)) return false;
    if (!r->enough) return gw_fail(err, GW_E_NOMEM, "no memory for its spans");
    if (file.failed) return gw_fail(err, GW_E_INVALID, "it is cut off or damaged, or no trace of Perfetto");
    uint32_t traced = 0;
    for (uint32_t i = 0; i < r->summary->count; i++) {
        add_up(&r->peers[i], &r->summary->peers[i]);
        traced += r->summary->peers[i].seconds > 0;
    }
    return traced > 0 || gw_fail(err, GW_E_INVALID, "it has no peers that 'godwit trace' has traced");
}

bool gw_summary_read(const void *bytes, size_t count, gw_summary *summary, gw_err *err) {
    reading r = {.summary = summary};
    *summary = (gw_summary){.count = 0};
    bool good = read_all(&r, bytes, count, err);
    for (uint32_t i = 0; r.peers != NULL && i < GW_SUMMARY_PEERS; i++) free(r.peers[i].edges);
    free(r.peers);
    free(r.tracks);
    if (!good) gw_summary_free(summary);
    return good;
}

void gw_summary_free(gw_summary *summary) {
    free(summary->peers);
    *summary = (gw_summary){.count = 0};
}

/* Printing. */

/* The columns of a name, so that a row has at most 80 with ten digits of shards. A longer one loses what stands before
 * the id of the peer, which is its end. */
enum { NAME_COLS = 20, ID_BYTES = 10 };

static int characters(const char *text) {
    int count = 0;
    for (; *text != '\0'; text++) count += ((unsigned char)*text & 0xc0) != 0x80;
    return count;
}

static void print_name(const char *name, int width, FILE *out) {
    int over = characters(name) - width;
    if (over <= 0) {
        fprintf(out, "%s%*s", name, -over, "");
        return;
    }
    const char *id = name + strlen(name) - ID_BYTES;
    int bytes = 0;
    while (((unsigned char)*id & 0xc0) == 0x80) id++; /* A file of another kind may have other names. */
    for (int kept = width - ID_BYTES - 3; kept > 0; kept--)
        bytes += (int)gw_utf8_character(name + bytes, strlen(name + bytes));
    fprintf(out, "%.*s...%s", bytes, name, id);
}

static void print_line(const gw_summary_peer *p, int width, FILE *out) {
    print_name(p->name, width, out);
    for (int s = 0; s < GW_SHARES; s++) fprintf(out, " %5.1f %%", 100 * p->shares[s]);
    if (p->reduce_s > 0)
        fprintf(out, " %5.1f %%", 100 * p->hidden_s / p->reduce_s);
    else
        fprintf(out, " %7s", "-");
    fprintf(out, " %8" PRIu64 "\n", p->shards);
}

static gw_summary_peer add_all(const gw_summary *summary) {
    gw_summary_peer all = {.name = "all"};
    double time = 0;
    for (uint32_t i = 0; i < summary->count; i++) {
        const gw_summary_peer *p = &summary->peers[i];
        double own = p->seconds * p->workers;
        time += own;
        for (int s = 0; s < GW_SHARES; s++) all.shares[s] += own * p->shares[s];
        all.reduce_s += p->reduce_s;
        all.hidden_s += p->hidden_s;
        all.pack_s += p->pack_s;
        all.pack_hidden_s += p->pack_hidden_s;
        all.shards += p->shards;
    }
    for (int s = 0; s < GW_SHARES && time > 0; s++) all.shares[s] /= time;
    return all;
}

static void print_remarks(const gw_summary *summary, FILE *out) {
    uint64_t error_ns = 0;
    for (uint32_t i = 0; i < summary->count; i++) {
        const gw_summary_peer *p = &summary->peers[i];
        if (p->error_ns > error_ns) error_ns = p->error_ns;
        if (p->why[0] != '\0')
            fprintf(out, "%s was traced for %.1f s only: %s\n", p->name, p->seconds, p->why);
        if (p->lost > 0)
            fprintf(out,
                    "%s: %" PRIu64
                    " records are missing, as they came faster than they were fetched: its shares "
                    "are too small where they are not 'other'\n",
                    p->name, p->lost);
    }
    if (summary->count > 1)
        fprintf(out, "the clocks of the peers are known to %.3g ms\n", (double)error_ns * 1e-6);
}

void gw_summary_print(const gw_summary *summary, FILE *out) {
    int width = 4;
    double seconds = 0;
    for (uint32_t i = 0; i < summary->count; i++) {
        int length = characters(summary->peers[i].name);
        if (length > width) width = length < NAME_COLS ? length : NAME_COLS;
        if (summary->peers[i].seconds > seconds) seconds = summary->peers[i].seconds;
    }
    fprintf(out, "%-*s %7s %7s %7s %7s %7s %7s %8s\n", width, "peer", "compute", "wait", "reduce", "apply",
            "other", "overlap", "shards");
    for (uint32_t i = 0; i < summary->count; i++)
        if (summary->peers[i].seconds > 0) print_line(&summary->peers[i], width, out);
    gw_summary_peer all = add_all(summary);
    if (summary->count > 1) print_line(&all, width, out);
    fprintf(out, "(%.1f s; overlap: the part of reduce in which the peer computed)\n", seconds);
    if (all.pack_s > 0)
        fprintf(out, "sums were packed in %.1f %% of reduce, and in %.0f %% of that time others arrived\n",
                100 * all.pack_s / all.reduce_s, 100 * all.pack_hidden_s / all.pack_s);
    print_remarks(summary, out);
}
