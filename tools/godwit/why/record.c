#include "tools/godwit/why/record.h"

#include "core/base/assert.h"
#include "core/base/utf8.h"
#include "tools/godwit/why/jobs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 1 << 18 };

/* Memory that is freed all at once. */
typedef struct block {
    struct block *before;
    size_t used;
    _Alignas(max_align_t) char bytes[BLOCK];
} block;

static void *take_bytes(gw_why_record *record, size_t count) {
    block *now = record->arena;
    size_t rounded = (count + sizeof(max_align_t) - 1) / sizeof(max_align_t) * sizeof(max_align_t);
    GW_ASSERT(rounded <= BLOCK);
    if (now == NULL || now->used + rounded > BLOCK) {
        block *next = malloc(sizeof *next);
        if (next == NULL) return NULL;
        next->before = now;
        next->used = 0;
        record->arena = now = next;
    }
    void *bytes = now->bytes + now->used;
    now->used += rounded;
    return bytes;
}

/* Copies a text from a journal into `to`, printable, and cut off where it does not fit. */
static void copy_text(const char *text, char *to, size_t size) {
    snprintf(to, size, "%s", text != NULL ? text : "");
    gw_utf8_make_printable(to);
}

/* Returns a copy that lives as long as the record; NULL when memory runs out. */
static const char *keep_text(gw_why_record *record, const char *text) {
    char printable[GW_WHY_TEXT];
    if (text == NULL || text[0] == '\0') return "";
    copy_text(text, printable, sizeof printable);
    size_t bytes = strlen(printable) + 1;
    char *kept = take_bytes(record, bytes);
    return kept != NULL ? memcpy(kept, printable, bytes) : NULL;
}

/* A count in an event; 0 where it has none, or one that is none. */
static uint64_t count_of(const json_t *event, const char *key) {
    double number = gw_journal_number(event, key, 0);
    return number >= 0 && number < 9e15 ? (uint64_t)number : 0;
}

static double real_of(const json_t *event, const char *key) {
    double number = gw_journal_number(event, key, 0);
    return isfinite(number) && fabs(number) < 1e18 ? number : 0;
}

/* A duration, or an amount; 0 where it is none. */
static double amount_of(const json_t *event, const char *key) {
    double number = real_of(event, key);
    return number > 0 ? number : 0;
}

/* The peers. */

static bool is_id(const char *text) {
    return text != NULL && strlen(text) == GW_WHY_ID - 1 && strspn(text, "0123456789abcdef") == GW_WHY_ID - 1;
}

/* Returns the peer of an id, which is added; GW_WHY_NONE where it is no id, or there are too many. */
static int peer_of(gw_why_record *record, const char *id) {
    if (!is_id(id)) return GW_WHY_NONE;
    for (int i = record->peer_count - 1; i >= 0; i--)
        if (memcmp(record->peers[i].id, id, GW_WHY_ID) == 0) return i;
    if (record->peer_count == GW_WHY_PEERS) return GW_WHY_NONE;
    gw_why_peer *peer = &record->peers[record->peer_count];
    *peer = (gw_why_peer){.journal = GW_WHY_NONE};
    memcpy(peer->id, id, GW_WHY_ID);
    return record->peer_count++;
}

static void take_name(gw_why_record *record, int peer, const json_t *event, const char *key) {
    const char *name = gw_journal_text(event, key);
    if (peer != GW_WHY_NONE && name != NULL) copy_text(name, record->peers[peer].name, GW_WHY_NAME);
}

static void take_address(gw_why_record *record, int peer, const json_t *event) {
    const char *address = gw_journal_text(event, "address");
    if (peer == GW_WHY_NONE || address == NULL) return;
    char *to = record->peers[peer].address;
    copy_text(address, to, GW_WHY_NAME);
    char *port = strrchr(to, ':');
    if (port != NULL) *port = '\0';
}

/* The events. */

/* The journal that is being read. */
typedef struct reading {
    gw_why_record *record;
    int journal;
    size_t capacity; /* of record->events */
    size_t life_capacity;
    uint32_t count;
    double set_by; /* by how much its clock is ahead of what it was at first */
    struct {
        bool open; /* a start has been read, and not how it ended */
        char name[GW_WHY_NAME];
    } before; /* what the peer was called before the start that was read last */
    gw_why_jobs *jobs;
    int chosen;    /* the job that is read of */
    size_t lives;  /* of the journal, as far as it was read, those of other jobs as well */
    bool left_out; /* the life that is read is of another job */
    bool memory;   /* it was enough */
    bool many;     /* there are more events than the record may have */
} reading;

static bool grow(void **list, size_t *capacity, size_t count, size_t size) {
    if (count < *capacity) return true;
    size_t more = *capacity == 0 ? 1024 : 2 * *capacity;
    void *grown = realloc(*list, more * size);
    if (grown == NULL) return false;
    *list = grown;
    *capacity = more;
    return true;
}

static void take_life(gw_why_event *to, const json_t *event, reading *r) {
    copy_text(gw_journal_text(event, "last_end"), to->word, sizeof to->word);
    to->text = keep_text(r->record, gw_journal_text(event, "last_text"));
    to->value = amount_of(event, "last_time");
}

static void take_start(gw_why_event *to, const json_t *event, reading *r) {
    gw_why_journal *journal = &r->record->journals[r->journal];
    int peer = peer_of(r->record, gw_journal_text(event, "peer"));
    r->before.open = true;
    snprintf(r->before.name, sizeof r->before.name, "%s",
             peer != GW_WHY_NONE ? r->record->peers[peer].name : "");
    take_name(r->record, peer, event, "peer_name");
    to->text = keep_text(r->record, gw_journal_text(event, "job"));
    to->number = count_of(event, "boot");
    if (peer == GW_WHY_NONE) return;
    journal->peer = to->peer = peer;
    if (r->record->peers[peer].journal == GW_WHY_NONE) r->record->peers[peer].journal = r->journal;
}

static void take_peer(gw_why_event *to, const json_t *event, reading *r) {
    to->peer = peer_of(r->record, gw_journal_text(event, "peer"));
    take_name(r->record, to->peer, event, "peer_name");
    take_address(r->record, to->peer, event);
    copy_text(gw_journal_text(event, "state"), to->word, sizeof to->word);
    to->text = keep_text(r->record, gw_journal_text(event, "evidence"));
    to->number = count_of(event, "boot");
    to->value = amount_of(event, "silent_ms");
}

static void take_view(gw_why_event *to, const json_t *event, reading *r) {
    to->peer = peer_of(r->record, gw_journal_text(event, "leader"));
    take_name(r->record, to->peer, event, "leader_name");
    const json_t *members = json_object_get(event, "members"), *member;
    size_t i;
    json_array_foreach(members, i, member) {
        int peer = peer_of(r->record, json_string_value(member));
        if (peer != GW_WHY_NONE) r->record->peers[peer].member = true;
    }
    to->number = json_array_size(members);
    to->text = keep_text(r->record, gw_journal_text(event, "cause"));
    to->value = amount_of(event, "took_ms");
}

static void take_recovered(gw_why_event *to, const json_t *event, reading *r) {
    (void)r;
    to->number = count_of(event, "views");
    to->value = amount_of(event, "gap_ms");
    to->usual = amount_of(event, "usual_ms");
}

static void take_repair(gw_why_event *to, const json_t *event, reading *r) {
    to->number = count_of(event, "shards");
    to->text = keep_text(r->record, gw_journal_text(event, "cause"));
}

static void take_corruption(gw_why_event *to, const json_t *event, reading *r) {
    to->peer = peer_of(r->record, gw_journal_text(event, "peer"));
    to->text = keep_text(r->record, gw_journal_text(event, "evidence"));
}

static void take_join(gw_why_event *to, const json_t *event, reading *r) {
    (void)r;
    to->number = count_of(event, "newcomers");
    to->value = amount_of(event, "pause_ms");
}

static void take_checkpoint(gw_why_event *to, const json_t *event, reading *r) {
    (void)r;
    to->number = count_of(event, "bytes");
    to->value = amount_of(event, "took_ms");
}

static void take_text(gw_why_event *to, const json_t *event, reading *r) {
    to->text = keep_text(r->record, gw_journal_text(event, "text"));
}

static void take_log(gw_why_event *to, const json_t *event, reading *r) {
    copy_text(gw_journal_text(event, "room"), to->word, sizeof to->word);
    take_text(to, event, r);
}

/* Takes back what a start that was turned away has claimed: a mistyped command does not say what the peer is called. */
static void take_back(reading *r) {
    gw_why_journal *journal = &r->record->journals[r->journal];
    if (journal->peer != GW_WHY_NONE && r->before.name[0] != '\0')
        memcpy(r->record->peers[journal->peer].name, r->before.name, GW_WHY_NAME);
}

static void take_done(gw_why_event *to, const json_t *event, reading *r) {
    copy_text(gw_journal_text(event, "outcome"), to->word, sizeof to->word);
    take_text(to, event, r);
    to->usual = amount_of(event, "seconds");
    to->step = count_of(event, "steps");
    bool turned_away = strcmp(to->word, "refused") == 0 || strcmp(to->word, "denied") == 0;
    if (turned_away && r->before.open) take_back(r);
    r->before.open = false;
}

static void take_crash(gw_why_event *to, const json_t *event, reading *r) {
    (void)r;
    to->number = count_of(event, "signal");
}

static void take_worker(gw_why_event *to, const json_t *event, reading *r) {
    copy_text(gw_journal_text(event, "end"), to->word, sizeof to->word);
    to->number = count_of(event, "shard");
    take_text(to, event, r);
}

static void take_slow(gw_why_event *to, const json_t *event, reading *r) {
    to->peer = peer_of(r->record, gw_journal_text(event, "peer"));
    take_name(r->record, to->peer, event, "peer_name");
    to->number = json_is_true(json_object_get(event, "slow"));
    to->value = amount_of(event, "speed");
    to->usual = amount_of(event, "usual");
}

static void take_pause(gw_why_event *to, const json_t *event, reading *r) {
    (void)r;
    to->value = amount_of(event, "ms");
    to->usual = amount_of(event, "over_ms");
}

static void take_clock(gw_why_event *to, const json_t *event, reading *r) {
    to->value = real_of(event, "jump_s");
    to->time -= to->value; /* it was written by the clock that had been set */
    r->set_by += to->value;
}

static void take_disk(gw_why_event *to, const json_t *event, reading *r) {
    (void)r;
    to->number = json_is_true(json_object_get(event, "failing"));
    to->value = amount_of(event, "failed_ms");
}

static void take_probes(gw_why_event *to, const json_t *event, reading *r) {
    (void)r;
    to->number = count_of(event, "failed");
    to->value = amount_of(event, "probes");
    to->usual = amount_of(event, "seconds");
}

static void take_left_out(gw_why_event *to, const json_t *event, reading *r) {
    (void)r;
    to->number = count_of(event, "lines");
}

static void take_progress(gw_why_event *to, const json_t *event, reading *r) {
    gw_why_progress *p = take_bytes(r->record, sizeof *p);
    to->progress = p;
    if (p == NULL) return;
    uint64_t members = count_of(event, "members");
    *p = (gw_why_progress){.ms = amount_of(event, "ms"),
                           .speed = amount_of(event, "speed"),
                           .rss_bytes = amount_of(event, "rss_bytes"),
                           .room_bytes = amount_of(event, "room_bytes"),
                           .members = members < UINT32_MAX ? (uint32_t)members : 0,
                           .made = count_of(event, "made"),
                           .computed = count_of(event, "computed"),
                           .stolen = count_of(event, "stolen"),
                           .lost = count_of(event, "lost")};
}

static void take_nothing(gw_why_event *to, const json_t *event, reading *r) {
    (void)to;
    (void)event;
    (void)r;
}

static const struct {
    const char *name;
    gw_why_kind kind;
    void (*take)(gw_why_event *to, const json_t *event, reading *r);
} kinds[] = {
    {"life", GW_WHY_LIFE, take_life},
    {"opening", GW_WHY_START, take_start},
    {"start", GW_WHY_START, take_start},
    {"peer", GW_WHY_PEER, take_peer},
    {"view", GW_WHY_VIEW, take_view},
    {"recovered", GW_WHY_RECOVERED, take_recovered},
    {"repair", GW_WHY_REPAIR, take_repair},
    {"corruption", GW_WHY_CORRUPTION, take_corruption},
    {"join", GW_WHY_JOIN, take_join},
    {"checkpoint", GW_WHY_CHECKPOINT, take_checkpoint},
    {"resumed", GW_WHY_RESUMED, take_nothing},
    {"healed", GW_WHY_HEALED, take_text},
    {"warning", GW_WHY_WARNING, take_log},
    {"error", GW_WHY_ERROR, take_log},
    {"done", GW_WHY_DONE, take_done},
    {"crash", GW_WHY_CRASH, take_crash},
    {"worker", GW_WHY_WORKER, take_worker},
    {"slow", GW_WHY_SLOW, take_slow},
    {"pause", GW_WHY_PAUSE, take_pause},
    {"clock", GW_WHY_CLOCK, take_clock},
    {"disk", GW_WHY_DISK, take_disk},
    {"probes", GW_WHY_PROBES, take_probes},
    {"left-out", GW_WHY_LEFT_OUT, take_left_out},
    {"progress", GW_WHY_PROGRESS, take_progress},
};

enum { KINDS = sizeof kinds / sizeof *kinds };

/* The lives. */

/* What the begin of the next life says of how the last one ended. */
static void end_life(reading *r, const gw_why_event *event) {
    gw_why_record *record = r->record;
    gw_why_life *last = record->life_count > 0 ? &record->lives[record->life_count - 1] : NULL;
    if (last == NULL || last->journal != r->journal || last->next != 0) return;
    last->next = event->time;
    bool known = last->end[0] != '\0' && strcmp(last->end, "crashed") != 0;
    if (event->word[0] == '\0' || known) return;
    memcpy(last->end, event->word, sizeof last->end);
    last->text = event->text;
}

static bool begin_life(reading *r, const gw_why_event *event) {
    gw_why_record *record = r->record;
    if (record->life_count == GW_WHY_LIVES) return true;
    end_life(r, event);
    void *lives = record->lives;
    bool grown = grow(&lives, &r->life_capacity, record->life_count, sizeof *record->lives);
    record->lives = lives;
    if (!grown) return false;
    if (record->journals[r->journal].life_count++ == 0)
        record->journals[r->journal].first_life = record->life_count;
    record->lives[record->life_count++] = (gw_why_life){.journal = r->journal,
                                                        .peer = record->journals[r->journal].peer,
                                                        .began = event->time,
                                                        .last = event->time,
                                                        .text = ""};
    return true;
}

/* Adds an event to the life that it belongs to. The first lines of a journal may be of a life whose begin
 * is no longer there. */
static bool live(reading *r, const gw_why_event *event) {
    gw_why_record *record = r->record;
    bool none = record->life_count == 0 || record->lives[record->life_count - 1].journal != r->journal;
    const gw_why_event unknown = {.time = event->time, .text = ""};
    if (event->kind == GW_WHY_LIFE) return begin_life(r, event);
    if (none && !begin_life(r, &unknown)) return false;
    gw_why_life *life = &record->lives[record->life_count - 1];
    life->last = event->time;
    life->peer = record->journals[r->journal].peer;
    if (event->step > 0) life->step = event->step;
    if (event->kind == GW_WHY_START) life->boot = event->number;
    if (event->kind == GW_WHY_VIEW) life->took_part = true;
    if (event->kind == GW_WHY_CRASH) {
        char text[60];
        snprintf(text, sizeof text, "crashed with signal %d", event->number < 128 ? (int)event->number : 0);
        snprintf(life->end, sizeof life->end, "crashed");
        life->text = keep_text(record, text);
        return life->text != NULL;
    }
    if (event->kind == GW_WHY_DONE) {
        snprintf(life->end, sizeof life->end, "done");
        memcpy(life->outcome, event->word, sizeof life->outcome);
        life->text = event->text;
    }
    return true;
}

/* Whether a line is of a life that is left out. The first one of such a life says how the one before it ended. */
static bool leave_out(reading *r, const json_t *object) {
    if (gw_why_begins_life(object, r->lives == 0)) {
        bool before = r->left_out || r->lives == 0;
        r->left_out = !gw_why_jobs_has(r->jobs, r->journal, r->lives++, r->chosen);
        if (r->left_out && !before) {
            gw_why_event event = {.time = real_of(object, "time") - r->set_by};
            take_life(&event, object, r);
            r->memory = event.text != NULL;
            if (r->memory) end_life(r, &event);
        }
    }
    return r->left_out;
}

/* Notes the event in the record. An event of another kind counts by its time alone. */
static bool take_line(void *context, const char *line, size_t length, json_t *object) {
    (void)line;
    (void)length;
    reading *r = context;
    gw_why_record *record = r->record;
    gw_why_journal *journal = &record->journals[r->journal];
    if (leave_out(r, object)) return r->memory;
    double time = real_of(object, "time");
    size_t k = 0;
    while (k < KINDS && !gw_journal_is(object, kinds[k].name)) k++;
    gw_why_event event = {.kind = k < KINDS ? kinds[k].kind : 0,
                          .journal = r->journal,
                          .peer = journal->peer,
                          .number_in_journal = r->count++,
                          .time = time - r->set_by,
                          .step = count_of(object, "step"),
                          .text = ""};
    if (k < KINDS) kinds[k].take(&event, object, r);
    /* While the process was down, the clock has been set right again. */
    if (event.kind == GW_WHY_LIFE && fabs(event.time - journal->last) > fabs(time - journal->last)) {
        event.time = time;
        r->set_by = 0;
    }
    r->memory = event.text != NULL && (event.kind != GW_WHY_PROGRESS || event.progress != NULL);
    r->memory = r->memory && live(r, &event);
    if (!r->memory) return false;
    if (journal->first == 0) journal->first = event.time;
    if (event.time > journal->last) journal->last = event.time;
    if (event.step > record->last_step) record->last_step = event.step;
    uint64_t step = event.kind == GW_WHY_VIEW ? event.step + 1 : event.step;
    if (step > 0 && (record->first_step == 0 || step < record->first_step)) record->first_step = step;
    if (event.kind == 0) return true;
    r->many = record->event_count == GW_WHY_EVENTS;
    if (r->many) return false;
    void *events = record->events;
    r->memory = grow(&events, &r->capacity, record->event_count, sizeof event);
    record->events = events;
    if (r->memory) record->events[record->event_count++] = event;
    return r->memory;
}

static int by_time(const void *a, const void *b) {
    const gw_why_event *left = a, *right = b;
    if (left->time != right->time) return left->time < right->time ? -1 : 1;
    if (left->journal != right->journal) return left->journal < right->journal ? -1 : 1;
    return left->number_in_journal < right->number_in_journal ? -1 : 1;
}

/* What its journal tells before it says whose it is belongs to the peer of its later lines. */
static void complete(gw_why_record *record, int journal) {
    int peer = record->journals[journal].peer;
    for (size_t i = 0; i < record->event_count; i++) {
        gw_why_event *event = &record->events[i];
        bool about = event->kind == GW_WHY_PEER || event->kind == GW_WHY_VIEW ||
                     event->kind == GW_WHY_CORRUPTION || event->kind == GW_WHY_SLOW;
        if (event->journal == journal && event->peer == GW_WHY_NONE && !about) event->peer = peer;
    }
    for (size_t i = 0; i < record->life_count; i++)
        if (record->lives[i].journal == journal && record->lives[i].peer == GW_WHY_NONE)
            record->lives[i].peer = peer;
}

/* Puts the peers in the order of their names. */

static int by_name(const void *a, const void *b) {
    const gw_why_peer *left = a, *right = b;
    int names = strverscmp(left->name, right->name);
    return names != 0 ? names : strcmp(left->id, right->id);
}

static void order_peers(gw_why_record *record) {
    int place[GW_WHY_PEERS + 1] = {0}, *of = place + 1;
    place[0] = GW_WHY_NONE;
    for (int i = 0; i < record->peer_count; i++) record->peers[i].number = i;
    if (record->peer_count > 1)
        qsort(record->peers, (size_t)record->peer_count, sizeof *record->peers, by_name);
    for (int i = 0; i < record->peer_count; i++) of[record->peers[i].number] = i;
    for (int i = 0; i < record->journal_count; i++) record->journals[i].peer = of[record->journals[i].peer];
    for (size_t i = 0; i < record->event_count; i++) record->events[i].peer = of[record->events[i].peer];
    for (size_t i = 0; i < record->life_count; i++) record->lives[i].peer = of[record->lives[i].peer];
}

/* Checks that each journal has a part of the job that is told of. */
static bool same_job(const gw_why_record *record, const gw_why_jobs *jobs, int chosen, gw_err *err) {
    const char *has = NULL, *lacks = NULL;
    int other = GW_WHY_NONE;
    for (int i = 0; i < record->journal_count; i++) {
        const gw_why_job_lives *lives = &jobs->journals[i];
        bool found = false;
        for (size_t k = 0; k < lives->count && !found; k++) found = gw_why_jobs_has(jobs, i, k, chosen);
        if (found || lives->count == 0) {
            has = record->journals[i].dir;
            continue;
        }
        lacks = record->journals[i].dir;
        other = lives->jobs[lives->count - 1];
    }
    return lacks == NULL ||
           gw_fail(
               err, GW_E_INVALID,
               "%s and %s are of different jobs (%.8s and %.8s): give the directories of one job, or choose "
               "one that all have by --job",
               has, lacks, jobs->list[chosen].id, jobs->list[other].id);
}

/* Notes which job is told of, and which ones are not. */
static bool take_jobs(gw_why_record *record, const gw_why_jobs *jobs, int chosen, gw_err *err) {
    record->others = calloc((size_t)jobs->count + 1, sizeof *record->others);
    if (record->others == NULL) return gw_fail(err, GW_E_NOMEM, "journals: memory runs out");
    for (int i = 0; i < jobs->count; i++)
        if (i == chosen)
            record->job = jobs->list[i];
        else if (jobs->list[i].starts > 0)
            record->others[record->other_count++] = jobs->list[i];
    return true;
}

static bool read_journal(gw_why_record *record, reading *r, gw_err *err) {
    gw_journal_found found;
    gw_why_journal *journal = &record->journals[r->journal];
    r->count = 0;
    r->set_by = 0;
    r->before.open = false;
    r->lives = 0;
    if (!gw_why_read_lines(journal->dir, take_line, r, &found, err)) return false;
    if (r->many)
        return gw_fail(err, GW_E_INVALID, "%s: there are more than %d events: give fewer directories",
                       journal->dir, GW_WHY_EVENTS);
    if (!r->memory) return gw_fail(err, GW_E_NOMEM, "%s: memory runs out", journal->dir);
    journal->lines = found.lines;
    journal->damaged = found.damaged;
    journal->bytes = found.bytes;
    complete(record, r->journal);
    return true;
}

static bool read_all(reading *r, const char *job, gw_err *err) {
    gw_why_record *record = r->record;
    gw_why_jobs *jobs = r->jobs;
    for (int i = 0; i < record->journal_count; i++)
        if (!gw_why_jobs_read(jobs, i, record->journals[i].dir, err)) return false;
    if (!gw_why_jobs_choose(jobs, job, &r->chosen, err) || !take_jobs(record, jobs, r->chosen, err) ||
        !same_job(record, jobs, r->chosen, err))
        return false;
    for (r->journal = 0; r->journal < record->journal_count; r->journal++)
        if (!read_journal(record, r, err)) return false;
    return true;
}

bool gw_why_read(const char *const *dirs, int count, const char *job, gw_why_record *record, gw_err *err) {
    *record = (gw_why_record){.journals = calloc((size_t)count + 1, sizeof *record->journals),
                              .peers = calloc(GW_WHY_PEERS, sizeof *record->peers)};
    reading r = {.record = record, .jobs = calloc(1, sizeof *r.jobs), .memory = true};
    bool good = (record->journals != NULL && record->peers != NULL && r.jobs != NULL) ||
                gw_fail(err, GW_E_NOMEM, "journals: memory runs out");
    for (int i = 0; good && i < count; i++)
        record->journals[i] = (gw_why_journal){.dir = dirs[i], .peer = GW_WHY_NONE};
    record->journal_count = good ? count : 0;
    good = good && read_all(&r, job, err);
    gw_why_jobs_free(r.jobs);
    if (!good) return false;
    order_peers(record);
    if (record->event_count > 0) qsort(record->events, record->event_count, sizeof *record->events, by_time);
    for (int i = 0; i < count; i++) {
        const gw_why_journal *one = &record->journals[i];
        if (one->first != 0 && (record->first == 0 || one->first < record->first)) record->first = one->first;
        if (one->last > record->last) record->last = one->last;
    }
    return true;
}

void gw_why_free(gw_why_record *record) {
    for (block *one = record->arena, *before; one != NULL; one = before) {
        before = one->before;
        free(one);
    }
    free(record->journals);
    free(record->peers);
    free(record->events);
    free(record->lives);
    free(record->others);
    *record = (gw_why_record){0};
}

const char *gw_why_called(const gw_why_record *record, int peer, char text[GW_WHY_CALLED]) {
    if (peer == GW_WHY_NONE) {
        snprintf(text, GW_WHY_CALLED, "a peer");
        return text;
    }
    const gw_why_peer *one = &record->peers[peer];
    int alike = 0;
    for (int i = 0; i < record->peer_count; i++) alike += strcmp(record->peers[i].name, one->name) == 0;
    if (one->name[0] == '\0')
        snprintf(text, GW_WHY_CALLED, "peer %.8s", one->id);
    else if (alike > 1)
        snprintf(text, GW_WHY_CALLED, "%s (%.8s)", one->name, one->id);
    else
        snprintf(text, GW_WHY_CALLED, "%s", one->name);
    return text;
}

bool gw_why_wanted(const gw_why_life *life) {
    static const char *const outcomes[] = {"done", "stopped", "left", "again", "begins again"};
    if (strcmp(life->end, "ended") == 0) return true;
    if (strcmp(life->end, "done") != 0) return false;
    for (size_t i = 0; i < sizeof outcomes / sizeof *outcomes; i++)
        if (strcmp(life->outcome, outcomes[i]) == 0) return true;
    return false;
}

bool gw_why_turned_away(const gw_why_life *life) {
    bool refused = strcmp(life->outcome, "refused") == 0 || strcmp(life->outcome, "denied") == 0;
    return refused && strcmp(life->end, "done") == 0 && !life->took_part;
}

const gw_why_life *gw_why_life_at(const gw_why_record *record, int peer, double time) {
    if (peer == GW_WHY_NONE || record->peers[peer].journal == GW_WHY_NONE) return NULL;
    const gw_why_journal *journal = &record->journals[record->peers[peer].journal];
    const gw_why_life *lives = record->lives + journal->first_life;
    size_t low = 0, high = journal->life_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (lives[middle].began <= time)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 ? &lives[low - 1] : NULL;
}

size_t gw_why_from(const gw_why_record *record, double time) {
    size_t low = 0, high = record->event_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (record->events[middle].time < time)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}
