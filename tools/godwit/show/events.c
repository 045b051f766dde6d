#include "tools/godwit/show/events.h"

#include "core/base/assert.h"
#include "core/base/utf8.h"
#include "core/os/clock.h"
#include "tools/godwit/journal/journal.h"
#include "tools/godwit/show/repeats.h"
#include "tools/godwit/text/json.h"
#include "tools/godwit/text/key_values.h"
#include "tools/godwit/text/timestamp.h"
#include "tools/godwit/text/utf8.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TEXT = 2000 };
/* People are shown the first evaluations, and then at most one in this time: a file would fill with them. */
enum { FIRST_EVALUATIONS = 20 };
#define EVALUATION_NS UINT64_C(1000000000)

struct gw_events {
    gw_events_mode mode;
    gw_display *display;
    const gw_names *names; /* may be NULL */
    pthread_mutex_t lock;  /* guards the members below */
    gw_phase_filter phase;
    uint32_t evaluations;   /* that were shown to people */
    uint64_t evaluation_ns; /* when the last of them was */
    bool alone;             /* the last view had one member */
    char cause[200];        /* of the last view */
    pthread_mutex_t journal_lock;
    gw_journal *journal; /* NULL: there is none now */
};

gw_events *gw_events_open(gw_events_mode mode, gw_display *display, const gw_names *names, gw_err *err) {
    gw_events *events = calloc(1, sizeof *events);
    if (events == NULL) {
        gw_fail(err, GW_E_NOMEM, "events: out of memory");
        return NULL;
    }
    events->mode = mode;
    events->display = display;
    events->names = names;
    GW_ASSERT(pthread_mutex_init(&events->lock, NULL) == 0);
    GW_ASSERT(pthread_mutex_init(&events->journal_lock, NULL) == 0);
    return events;
}

void gw_events_close(gw_events *events) {
    if (events == NULL) return;
    pthread_mutex_destroy(&events->journal_lock);
    pthread_mutex_destroy(&events->lock);
    free(events);
}

void gw_events_set_journal(gw_events *events, gw_journal *journal) {
    pthread_mutex_lock(&events->journal_lock);
    events->journal = journal;
    pthread_mutex_unlock(&events->journal_lock);
}

static json_t *object_of(const char *event) {
    json_t *object = json_object();
    json_object_set_new(object, "event", json_string(event));
    json_object_set_new(object, "time", json_real(gw_wall_s()));
    return object;
}

static void set_ms(json_t *object, const char *key, uint64_t duration_ns) {
    json_object_set_new(object, key, json_real((double)duration_ns / 1e6));
}

static bool wants_json(const gw_events *events) {
    return events->mode == GW_EVENTS_JSON;
}

/* Whether an event that the journal keeps needs its object. */
static bool wants_object(gw_events *events) {
    pthread_mutex_lock(&events->journal_lock);
    bool has = events->journal != NULL;
    pthread_mutex_unlock(&events->journal_lock);
    return has || wants_json(events);
}

/* Takes the object: a line of stdout with --json, and a line of the journal. */
static void put(gw_events *events, json_t *object, bool printed, bool kept) {
    char *text = gw_json_line(object);
    json_decref(object);
    if (text == NULL) return;
    if (printed && wants_json(events)) gw_display_out(events->display, text);
    pthread_mutex_lock(&events->journal_lock);
    if (kept && events->journal != NULL) gw_journal_add(events->journal, text);
    pthread_mutex_unlock(&events->journal_lock);
    free(text);
}

/* Takes the object of an event that the journal does not keep. */
static void print_object(gw_events *events, json_t *object) {
    put(events, object, true, false);
}

/* Takes the object of an event that the journal keeps. */
static void keep_object(gw_events *events, json_t *object) {
    put(events, object, true, true);
}

static void say(gw_events *events, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(gw_events *events, const char *format, ...) {
    if (events->mode != GW_EVENTS_PLAIN) return;
    char text[TEXT / 2], marked[TEXT];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    gw_utf8_make_printable(text); /* some texts contain texts from other peers */
    gw_display_say(events->display, gw_names_mark(events->names, text, marked, sizeof marked));
}

static void set_peer(const gw_events *events, json_t *object, const char *key, const gw_peer_id *peer) {
    char name[GW_NAME_TEXT], name_key[32];
    gw_json_peer(object, key, peer);
    gw_names_get(events->names, peer, name);
    snprintf(name_key, sizeof name_key, "%s_name", key);
    if (name[0] != '\0') gw_json_text(object, name_key, name);
}

/* Sets a text in which peers may be named by their ids. */
static void set_marked(const gw_events *events, json_t *object, const char *key, const char *text) {
    char marked[TEXT];
    if (text != NULL) gw_json_text(object, key, gw_names_mark(events->names, text, marked, sizeof marked));
}

/* Writes "0.4 ms", "31 ms" or "1.42 s". */
static const char *time_text(uint64_t duration_ns, char text[24]) {
    double ms = (double)duration_ns * 1e-6;
    if (ms < 9.95)
        snprintf(text, 24, "%.1f ms", ms);
    else if (ms < 999.5)
        snprintf(text, 24, "%.0f ms", ms);
    else
        snprintf(text, 24, "%.2f s", ms * 1e-3);
    return text;
}

/* The events. */

static void say_best(gw_events *events, const gw_event_start *start) {
    char patience[100] = "";
    if (start->patience > 0)
        snprintf(patience, sizeof patience,
                 "; the job ends after %" PRIu32 " evaluation%s in a row without a better one",
                 start->patience, start->patience == 1 ? "" : "s");
    say(events, "best: the checkpoint of the best evaluation by %s is kept%s", start->best_by, patience);
}

static void say_opening(gw_events *events, const gw_event_start *start) {
    char self[GW_SHORT_TEXT];
    say(events, "godwit %s: job %s, peer %s, %" PRIu32 " worker%s", GODWIT_VERSION, start->job,
        gw_peer_id_short(&start->self, self), start->workers, start->workers == 1 ? "" : "s");
    if (start->data != NULL && start->data[0] != '\0') say(events, "data: %s", start->data);
    if (start->model != NULL && start->model[0] != '\0') say(events, "model: %s", start->model);
    say(events, "length: %s", start->length);
    if (start->best_by != NULL && start->best_by[0] != '\0') say_best(events, start);
    say(events, "device: %s", start->device);
    char memory[GW_BYTES_TEXT];
    bool parts = start->memory != NULL && start->memory[0] != '\0';
    say(events, "memory: about %s%s%s", gw_events_memory(start->memory_bytes, memory), parts ? ": " : "",
        parts ? start->memory : "");
}

static json_t *start_object(const gw_events *events, const char *event, const gw_event_start *start) {
    json_t *object = object_of(event), *params = json_object();
    for (uint32_t i = 0; i < start->params->count; i++)
        gw_json_text(params, start->params->list[i].name, start->params->list[i].value);
    gw_json_text(object, "version", GODWIT_VERSION);
    gw_json_text(object, "job", start->job);
    json_object_set_new(object, "params", params);
    set_peer(events, object, "peer", &start->self);
    gw_json_count(object, "boot", start->boot);
    gw_json_count(object, "steps", start->steps);
    gw_json_count(object, "workers", start->workers);
    gw_json_text(object, "device", start->device);
    gw_json_count(object, "memory_bytes", start->memory_bytes);
    if (start->memory != NULL && start->memory[0] != '\0') gw_json_text(object, "memory", start->memory);
    gw_json_text(object, "data", start->data);
    if (start->model != NULL && start->model[0] != '\0') gw_json_text(object, "model", start->model);
    gw_json_text(object, "length", start->length);
    gw_json_text(object, "compute_class", start->compute_class);
    if (start->best_by != NULL && start->best_by[0] != '\0')
        gw_json_text(object, "keep_best", start->best_by);
    if (start->patience > 0) gw_json_count(object, "patience", start->patience);
    return object;
}

static json_t *identity_object(const char *identity) {
    json_t *object = json_object();
    char *lines = strdup(identity), *rest = NULL;
    for (char *line = lines != NULL ? strtok_r(lines, "\n", &rest) : NULL; line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        char *equals = strchr(line, '=');
        if (equals == NULL) continue;
        *equals = '\0';
        gw_json_text(object, line, equals + 1);
    }
    free(lines);
    return object;
}

void gw_events_life(gw_events *events, const gw_life *life, const gw_last_life *last) {
    json_t *object = object_of("life");
    gw_json_text(object, "version", GODWIT_VERSION);
    gw_json_count(object, "pid", (uint64_t)life->pid);
    gw_json_text(object, "boot_id", life->boot_id);
    gw_json_count(object, "memory_kills", life->memory_kills);
    if (last->end != GW_LIFE_NONE) gw_json_text(object, "last_end", gw_life_end_name(last->end));
    if (last->text[0] != '\0') gw_json_text(object, "last_text", last->text);
    if (last->signal != 0) gw_json_count(object, "last_signal", (uint64_t)last->signal);
    if (last->last > 0) json_object_set_new(object, "last_time", json_real(last->last));
    if (last->step > 0) gw_json_count(object, "last_step", last->step);
    put(events, object, false, true);
}

void gw_events_life_over(gw_events *events, const char *why) {
    json_t *object = object_of("done");
    gw_json_text(object, "outcome", "again");
    gw_json_text(object, "text", why);
    put(events, object, false, true);
}

void gw_events_progress(gw_events *events, const gw_event_progress *progress) {
    json_t *object = object_of("progress");
    gw_json_count(object, "step", progress->step);
    gw_json_count(object, "steps", progress->steps);
    gw_json_count(object, "members", progress->members);
    gw_json_real(object, "ms", progress->ms);
    gw_json_count(object, "made", progress->made);
    gw_json_count(object, "computed", progress->computed);
    gw_json_count(object, "stolen", progress->stolen);
    gw_json_count(object, "lost", progress->lost);
    gw_json_real(object, "speed", progress->speed);
    gw_json_count(object, "rss_bytes", progress->rss_bytes);
    if (progress->room_bytes != UINT64_MAX) gw_json_count(object, "room_bytes", progress->room_bytes);
    put(events, object, false, true);
}

void gw_events_opening(gw_events *events, const gw_event_start *start) {
    say_opening(events, start);
    if (wants_object(events)) keep_object(events, start_object(events, "opening", start));
}

void gw_events_start(gw_events *events, const gw_event_start *start) {
    char job[GW_HASH_TEXT];
    gw_hex(start->job_id.bytes, 4, job);
    say(events, "job id: %s", job);
    if (!wants_object(events)) return;
    json_t *object = start_object(events, "start", start);
    gw_json_hash(object, "job_id", &start->job_id);
    if (start->identity != NULL) json_object_set_new(object, "identity", identity_object(start->identity));
    keep_object(events, object);
}

void gw_events_listening(gw_events *events, const char *what, const gw_addr *addr) {
    char text[GW_ADDR_TEXT];
    bool http = strcmp(what, "http") == 0;
    say(events, "%s on %s%s", http ? "serving http" : "listening", http ? "http://" : "",
        gw_addr_text(addr, text));
    if (!wants_object(events)) return;
    json_t *object = object_of("listening");
    gw_json_text(object, "what", what);
    gw_json_addr(object, "address", addr);
    gw_json_count(object, "port", addr->port);
    keep_object(events, object);
}

/* Bytes in words: "512 kB", "3.2 MB", "14.0 GB". */
const char *gw_events_bytes(uint64_t bytes, char text[GW_BYTES_TEXT]) {
    double number = (double)bytes;
    if (number < 1e3)
        snprintf(text, GW_BYTES_TEXT, "%.0f B", number);
    else if (number < 1e6)
        snprintf(text, GW_BYTES_TEXT, "%.0f kB", number * 1e-3);
    else
        snprintf(text, GW_BYTES_TEXT, "%.1f %s", number < 1e9 ? number * 1e-6 : number * 1e-9,
                 number < 1e9 ? "MB" : "GB");
    return text;
}

const char *gw_events_memory(uint64_t bytes, char text[GW_BYTES_TEXT]) {
    double mib = (double)bytes * 0x1p-20;
    if (mib < 1)
        snprintf(text, GW_BYTES_TEXT, "%.0f KiB", mib * 1024);
    else
        snprintf(text, GW_BYTES_TEXT, "%.1f %s", mib < 1024 ? mib : mib / 1024, mib < 1024 ? "MiB" : "GiB");
    return text;
}

void gw_events_continue(gw_events *events, const gw_hash *parent, uint64_t step, const gw_hash *root) {
    char job[GW_HASH_TEXT] = "", hash[GW_HASH_TEXT];
    if (parent == NULL) {
        say(events, "this peer asks the others from which state the job goes on (--continue)");
        return;
    }
    gw_hex(parent->bytes, sizeof parent->bytes, job);
    gw_hex(root->bytes, sizeof root->bytes, hash);
    say(events, "the job goes on from step %" PRIu64 " of job %.8s, state %.16s", step, job, hash);
    if (!wants_object(events)) return;
    json_t *object = object_of("continue");
    gw_json_text(object, "parent", job);
    gw_json_count(object, "step", step);
    gw_json_text(object, "state_hash", hash);
    keep_object(events, object);
}

void gw_events_storage(gw_events *events, const char *every, uint64_t part, uint64_t most, const char *dir,
                       uint64_t left, bool lacks) {
    char of_part[GW_BYTES_TEXT], of_most[GW_BYTES_TEXT], of_left[GW_BYTES_TEXT], text[1000];
    snprintf(text, sizeof text, "checkpoints %s: %s each for this peer, up to %s in %s, where %s are left",
             every, gw_events_bytes(part, of_part), gw_events_bytes(most, of_most), dir,
             gw_events_bytes(left, of_left));
    if (lacks)
        gw_log(GW_WARN, "checkpoint", "%s: checkpoints will fail for want of room, unless --keep is smaller",
               text);
    else
        say(events, "%s", text);
    if (!wants_object(events)) return;
    json_t *object = object_of("storage");
    gw_json_text(object, "every", every);
    gw_json_text(object, "dir", dir);
    gw_json_count(object, "part_bytes", part);
    gw_json_count(object, "most_bytes", most);
    gw_json_count(object, "left_bytes", left);
    keep_object(events, object);
}

void gw_events_phase(gw_events *events, const char *text) {
    pthread_mutex_lock(&events->lock);
    bool news = gw_phase_filter_is_news(&events->phase, text, gw_now_ns());
    pthread_mutex_unlock(&events->lock);
    if (!news) return;
    if (strcmp(text, "computing") != 0) say(events, "%s", text);
    if (!wants_object(events)) return;
    json_t *object = object_of("phase");
    set_marked(events, object, "text", text);
    keep_object(events, object);
}

void gw_events_peer(gw_events *events, const gw_peer_id *peer, const gw_event_peer *event) {
    const gw_addr *addr = event->addr;
    const char *state = event->state;
    char id[GW_SHORT_TEXT], at[GW_ADDR_TEXT] = "", since[GW_TIMESTAMP_TEXT];
    struct timespec now;
    if (addr != NULL && addr->family != 0) gw_addr_text(addr, at);
    const char *between = at[0] != '\0' ? " at " : "";
    bool unreachable = strcmp(state, "unreachable") == 0, dead = strcmp(state, "dead") == 0;
    gw_peer_id_short(peer, id);
    clock_gettime(CLOCK_REALTIME, &now);
    if (unreachable)
        say(events,
            "peer %s%s%s is unreachable since %.8s: its process or host has stopped, or the network between "
            "is cut",
            id, between, at, gw_timestamp(&now, false, since));
    else
        say(events, "peer %s%s%s %s %s%s", id, between, at, strcmp(state, "left") == 0 ? "has" : "is", state,
            dead ? ": its process has ended" : "");
    if (!wants_object(events)) return;
    json_t *object = object_of("peer");
    set_peer(events, object, "peer", peer);
    if (at[0] != '\0') gw_json_addr(object, "address", addr);
    gw_json_text(object, "state", state);
    if (event->boot > 0) gw_json_count(object, "boot", event->boot);
    gw_json_text(object, "evidence", event->evidence);
    if (event->silent_ns > 0) set_ms(object, "silent_ms", event->silent_ns);
    keep_object(events, object);
}

/* Whether a lone peer begins a view anew for the cause of its last one, as it does again and again while
 * no disk has room for the final state. Notes the view. */
static bool repeats(gw_events *events, const gw_view *view, const char *cause) {
    const char *why = cause != NULL ? cause : "";
    pthread_mutex_lock(&events->lock);
    bool again = view->count == 1 && events->alone && strcmp(events->cause, why) == 0;
    events->alone = view->count == 1;
    snprintf(events->cause, sizeof events->cause, "%s", why);
    pthread_mutex_unlock(&events->lock);
    return again;
}

void gw_events_view(gw_events *events, const gw_view *view, const gw_peer_id *self, uint64_t step,
                    const char *cause, uint64_t took_ns) {
    char leader[GW_SHORT_TEXT], took[24];
    bool leads = gw_peer_id_equal(&view->leader, self), again = repeats(events, view, cause);
    if (!again)
        say(events, "view %" PRIu64 ": %" PRIu32 " peer%s, leader %s%s, at step %" PRIu64 " (%s, %s)",
            view->epoch, view->count, view->count == 1 ? "" : "s", gw_peer_id_short(&view->leader, leader),
            leads ? " (this peer)" : "", step, cause != NULL ? cause : "no cause", time_text(took_ns, took));
    if (!wants_object(events)) return;
    json_t *object = object_of("view"), *members = json_array();
    char id[GW_ID_TEXT];
    for (uint32_t i = 0; i < view->count; i++) {
        gw_hex(view->members[i].id.bytes, sizeof view->members[i].id.bytes, id);
        json_array_append_new(members, json_string(id));
    }
    gw_json_count(object, "number", view->epoch);
    gw_json_hex(object, "name", view->name.bytes, sizeof view->name.bytes);
    set_peer(events, object, "leader", &view->leader);
    json_object_set_new(object, "leads", json_boolean(leads));
    json_object_set_new(object, "members", members);
    gw_json_count(object, "step", step);
    set_marked(events, object, "cause", cause);
    set_ms(object, "took_ms", took_ns);
    put(events, object, true, !again);
}

void gw_events_recovered(gw_events *events, uint64_t step, uint32_t views, double gap_ms, double usual_ms) {
    if (!wants_object(events)) return;
    json_t *object = object_of("recovered");
    gw_json_count(object, "step", step);
    gw_json_count(object, "views", views);
    gw_json_real(object, "gap_ms", gap_ms);
    gw_json_real(object, "usual_ms", usual_ms);
    keep_object(events, object);
}

void gw_events_worker(gw_events *events, const char *kind, uint64_t step, uint32_t shard, const char *text) {
    if (!wants_object(events)) return;
    json_t *object = object_of("worker");
    gw_json_text(object, "end", kind);
    gw_json_count(object, "step", step);
    gw_json_count(object, "shard", shard);
    gw_json_text(object, "text", text);
    keep_object(events, object);
}

void gw_events_slow(gw_events *events, const gw_peer_id *peer, bool slow, double speed, double usual) {
    if (!wants_object(events)) return;
    json_t *object = object_of("slow");
    set_peer(events, object, "peer", peer);
    gw_json_flag(object, "slow", slow);
    gw_json_real(object, "speed", speed);
    gw_json_real(object, "usual", usual);
    keep_object(events, object);
}

void gw_events_pause(gw_events *events, uint64_t pause_ns, uint64_t over_ns) {
    if (!wants_object(events)) return;
    json_t *object = object_of("pause");
    set_ms(object, "ms", pause_ns);
    set_ms(object, "over_ms", over_ns);
    keep_object(events, object);
}

void gw_events_clock(gw_events *events, int64_t jump_ns) {
    if (!wants_object(events)) return;
    json_t *object = object_of("clock");
    gw_json_real(object, "jump_s", (double)jump_ns * 1e-9);
    keep_object(events, object);
}

void gw_events_probes(gw_events *events, uint64_t probes, uint64_t failed, uint64_t over_ns) {
    if (!wants_object(events)) return;
    json_t *object = object_of("probes");
    gw_json_count(object, "probes", probes);
    gw_json_count(object, "failed", failed);
    gw_json_real(object, "seconds", (double)over_ns * 1e-9);
    keep_object(events, object);
}

void gw_events_disk(gw_events *events, bool failing, uint64_t failed_ns) {
    if (!wants_object(events)) return;
    json_t *object = object_of("disk");
    gw_json_flag(object, "failing", failing);
    if (!failing) set_ms(object, "failed_ms", failed_ns);
    keep_object(events, object);
}

static void say_evaluation(gw_events *events, const gw_event_step *step) {
    char brief[256];
    if (!step->evaluated || step->report == NULL || step->report[0] == '\0') return;
    uint64_t now = gw_now_ns();
    pthread_mutex_lock(&events->lock);
    bool soon = events->evaluations >= FIRST_EVALUATIONS && now < events->evaluation_ns + EVALUATION_NS;
    if (!soon) {
        events->evaluations++;
        events->evaluation_ns = now;
    }
    pthread_mutex_unlock(&events->lock);
    if (soon) return;
    gw_key_values_brief(step->report, brief, sizeof brief);
    say(events, "evaluation at step %" PRIu64 ": %s", step->step, brief);
}

void gw_events_step(gw_events *events, const gw_event_step *step) {
    say_evaluation(events, step);
    if (!wants_json(events)) return;
    json_t *object = object_of("step");
    gw_json_count(object, "step", step->step);
    gw_json_text(object, "phase", step->phase);
    json_object_set_new(object, "ms", json_real(step->ms));
    if (step->fetched) json_object_set_new(object, "fetched", json_true());
    gw_json_count(object, "members", step->members);
    gw_json_count(object, "shards", step->shards);
    gw_json_count(object, "computed", step->computed);
    gw_json_count(object, "stolen", step->stolen);
    if (step->joules > 0) gw_json_real(object, "joules", step->joules);
    gw_json_u64(object, "fingerprint", step->fingerprint);
    gw_json_report(object, "report", step->report);
    print_object(events, object);
}

/* Puts a text in quotes, with its line breaks, tabs, quotes and backslashes as in C, and what else cannot be
 * printed as '?'. The caller frees the result. */
static char *quote(const char *text) {
    static const char special[] = "\n\r\t\"\\", letters[] = "nrt\"\\";
    char *quoted = malloc(2 * strlen(text) + 3), *to = quoted;
    GW_ASSERT_MEMORY(quoted != NULL);
    *to++ = '"';
    for (; *text != '\0'; text++) {
        const char *found = strchr(special, *text);
        if (found != NULL) *to++ = '\\';
        *to++ = found != NULL ? letters[found - special] : *text;
    }
    *to++ = '"';
    *to = '\0';
    gw_utf8_make_printable(quoted);
    return quoted;
}

void gw_events_sample(gw_events *events, uint64_t step, const char *prompt, const char *text, size_t length) {
    char *clean = gw_utf8(text, length);
    if (clean == NULL) return;
    if (wants_json(events)) {
        json_t *object = object_of("sample");
        gw_json_count(object, "step", step);
        gw_json_text(object, "prompt", prompt);
        gw_json_text(object, "text", clean);
        print_object(events, object);
    } else {
        char *line = quote(clean);
        say(events, "sample at step %" PRIu64 ": %s", step, line);
        free(line);
    }
    free(clean);
}

void gw_events_repair(gw_events *events, uint64_t step, uint32_t shards, const char *cause) {
    say(events, "step %" PRIu64 " repaired: %" PRIu32 " shard%s dealt again%s%s", step, shards,
        shards == 1 ? "" : "s", cause != NULL && cause[0] != '\0' ? ": " : "", cause != NULL ? cause : "");
    if (!wants_object(events)) return;
    json_t *object = object_of("repair");
    gw_json_count(object, "step", step);
    gw_json_count(object, "shards", shards);
    set_marked(events, object, "cause", cause);
    keep_object(events, object);
}

void gw_events_corruption(gw_events *events, uint64_t step, const gw_peer_id *peer, const char *evidence) {
    if (!wants_object(events)) return; /* the log tells it to people */
    json_t *object = object_of("corruption");
    gw_json_count(object, "step", step);
    if (peer != NULL) set_peer(events, object, "peer", peer);
    set_marked(events, object, "evidence", evidence);
    keep_object(events, object);
}

void gw_events_steal(gw_events *events, uint64_t step, const gw_peer_id *victim, uint32_t shards) {
    if (!wants_json(events)) return;
    json_t *object = object_of("steal");
    gw_json_count(object, "step", step);
    set_peer(events, object, "victim", victim);
    gw_json_count(object, "shards", shards);
    print_object(events, object);
}

void gw_events_joined(gw_events *events, uint64_t step, uint32_t newcomers, uint64_t pause_ns) {
    char pause[24];
    say(events, "%" PRIu32 " peer%s joined at step %" PRIu64 "; the flock paused for %s", newcomers,
        newcomers == 1 ? "" : "s", step, time_text(pause_ns, pause));
    if (!wants_object(events)) return;
    json_t *object = object_of("join");
    gw_json_count(object, "step", step);
    gw_json_count(object, "newcomers", newcomers);
    set_ms(object, "pause_ms", pause_ns);
    keep_object(events, object);
}

void gw_events_checkpoint(gw_events *events, uint64_t step, const gw_hash *root, uint64_t bytes,
                          uint64_t took_ns, double joules) {
    char hex[GW_HASH_TEXT], took[24];
    char written[GW_BYTES_TEXT];
    gw_hex(root->bytes, 4, hex);
    say(events, "checkpoint of step %" PRIu64 " complete: %s, %s%s%s%s", step, hex,
        bytes > 0 ? gw_events_bytes(bytes, written) : "nothing new to write",
        bytes > 0 ? " written here" : " here", took_ns > 0 ? ", " : "",
        took_ns > 0 ? time_text(took_ns, took) : "");
    if (!wants_object(events)) return;
    json_t *object = object_of("checkpoint");
    gw_json_count(object, "step", step);
    gw_json_hash(object, "root", root);
    gw_json_count(object, "bytes", bytes);
    if (took_ns > 0) set_ms(object, "took_ms", took_ns);
    if (joules > 0) gw_json_real(object, "joules", joules);
    keep_object(events, object);
}

static void report_resume(gw_events *events, const char *what, uint64_t step, const gw_hash *root) {
    char hex[GW_HASH_TEXT];
    gw_hex(root->bytes, 4, hex);
    say(events, "%s from the checkpoint of step %" PRIu64 " (%s)", what, step, hex);
    if (!wants_object(events)) return;
    json_t *object = object_of(what);
    gw_json_count(object, "step", step);
    gw_json_hash(object, "root", root);
    keep_object(events, object);
}

void gw_events_resuming(gw_events *events, uint64_t step, const gw_hash *root) {
    report_resume(events, "resuming", step, root);
}

void gw_events_resumed(gw_events *events, uint64_t step, const gw_hash *root) {
    report_resume(events, "resumed", step, root);
}

void gw_events_healed(gw_events *events, const char *text) {
    say(events, "healed: %s", text);
    if (!wants_object(events)) return;
    json_t *object = object_of("healed");
    set_marked(events, object, "text", text);
    keep_object(events, object);
}

void gw_events_log(gw_events *events, gw_level level, const char *room, const char *text, bool shown) {
    bool kept = level >= GW_INFO;
    if (!(kept ? wants_object(events) : wants_json(events))) return;
    json_t *object = object_of(level == GW_WARN ? "warning" : level == GW_ERROR ? "error" : "log");
    gw_json_text(object, "level", gw_level_name(level));
    gw_json_text(object, "room", room);
    gw_json_text(object, "text", text);
    put(events, object, shown, kept);
}

static void done_line(const gw_event_done *done, char *line, size_t size) {
    char state[GW_HASH_TEXT] = "-", summary[256] = "", saved[40] = "";
    bool earlier = strcmp(done->outcome, "left") == 0 || strcmp(done->outcome, "failed") == 0;
    if (earlier) /* without a last state: what is saved is an earlier one */
        snprintf(saved, sizeof saved, done->saved_step == UINT64_MAX ? " saved=-" : " saved=%" PRIu64,
                 done->saved_step);
    if (done->has_state) gw_hex(done->state.bytes, sizeof done->state.bytes, state);
    if (done->summary != NULL) gw_key_values_brief(done->summary, summary, sizeof summary);
    snprintf(line, size,
             "godwit: %s job=%s steps=%" PRIu64 " state=%s%s%s%s peers=%" PRIu32 " repaired=%" PRIu64
             " stolen=%" PRIu64,
             done->outcome, done->job, done->steps, state, saved, summary[0] != '\0' ? " " : "", summary,
             done->peers, done->repaired, done->stolen);
    size_t length = strlen(line);
    if (done->has_payload)
        snprintf(line + length, size - length,
                 " payload_local=%" PRIu64 " payload_read=%" PRIu64 " payload_failed=%" PRIu64,
                 done->payload_local, done->payload_read, done->payload_failed);
    length = strlen(line);
    double joules = gw_energy_joules(&done->energy);
    if (joules > 0)
        snprintf(line + length, size - length, " %s=%.6g",
                 gw_energy_is_estimate(&done->energy) ? "joules_estimated" : "joules", joules);
}

void gw_events_done(gw_events *events, const gw_event_done *done) {
    char line[1000], text[TEXT / 2], marked[TEXT];
    done_line(done, line, sizeof line);
    bool wrong = strcmp(done->outcome, "failed") == 0 || strcmp(done->outcome, "denied") == 0 ||
                 strcmp(done->outcome, "unsaved") == 0;
    if (wrong && done->text != NULL && done->text[0] != '\0') {
        snprintf(text, sizeof text, "godwit: %s: %s", done->outcome, done->text);
        gw_utf8_make_printable(text); /* the text may come from another peer, too */
        gw_display_err(events->display, gw_names_mark(events->names, text, marked, sizeof marked));
    }
    if (!wants_json(events)) gw_display_end(events->display, line);
    if (!wants_object(events)) return;
    json_t *object = object_of("done");
    gw_json_text(object, "outcome", done->outcome);
    set_marked(events, object, "text", done->text);
    gw_json_text(object, "job", done->job);
    gw_json_count(object, "steps", done->steps);
    if (done->has_state) gw_json_hash(object, "state", &done->state);
    gw_json_report(object, "summary", done->summary);
    gw_json_count(object, "peers", done->peers);
    gw_json_count(object, "repaired", done->repaired);
    gw_json_count(object, "stolen", done->stolen);
    if (done->has_payload) {
        gw_json_count(object, "payload_local", done->payload_local);
        gw_json_count(object, "payload_read", done->payload_read);
        gw_json_count(object, "payload_failed", done->payload_failed);
    }
    gw_json_count(object, "rss_bytes", done->rss_bytes);
    json_object_set_new(object, "seconds", json_real(done->seconds));
    double joules = gw_energy_joules(&done->energy);
    if (joules > 0) {
        gw_json_real(object, "joules", joules);
        gw_json_flag(object, "joules_estimated", gw_energy_is_estimate(&done->energy));
    }
    gw_json_text(object, "line", line);
    keep_object(events, object);
}

void gw_events_refused(gw_events *events, const char *command, const char *text, int exit_code) {
    char line[TEXT];
    snprintf(line, sizeof line, "%s: %s", command, text);
    gw_display_err(events->display, line);
    if (!wants_object(events)) return;
    json_t *object = object_of("done");
    gw_json_text(object, "outcome", "refused");
    gw_json_text(object, "text", text);
    gw_json_count(object, "exit_code", (uint64_t)exit_code);
    keep_object(events, object);
}
