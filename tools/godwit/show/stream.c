#include "tools/godwit/show/stream.h"

#include "core/base/assert.h"
#include "core/os/clock.h"
#include "core/os/condition.h"
#include "core/os/priority.h"
#include "tools/godwit/text/json.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EVERY_NS UINT64_C(1000000000)
/* The end of the server waits so long for readers to take the last event. */
#define LAST_NS UINT64_C(1000000000)

enum {
    TEXTS = 8, /* events that are kept for readers */
    BLOCK = 16 * 1024,
    LINES = 200,      /* of journal and log in the first event */
    NEW_LINES = 100,  /* of each in a later one */
    NEW_POINTS = 100, /* of each series in an event */
};

/* An event, as it is sent. */
typedef struct text {
    char *bytes;
    size_t length;
    uint32_t uses; /* by readers and the ring */
} text;

typedef struct stream stream;
struct stream {
    gw_streams *all;
    struct MHD_Connection *connection;
    stream *next;
    text *now;        /* that is being sent; NULL: none is */
    size_t sent;      /* bytes of it */
    uint64_t follows; /* the number of the event after it */
    bool sleeps;      /* until there is another event */
};

struct gw_streams {
    const gw_api_sources *sources;
    uint64_t life; /* is a part of each event's id: numbers begin anew with each process */
    pthread_t thread;
    gw_node_snapshot *snapshot;

    pthread_mutex_t lock; /* guards the members below */
    pthread_cond_t changed;
    bool ending;          /* the newest event is the last one: streams end when they have sent it */
    bool stopped, joined; /* streams end at once; the thread is over */
    stream *first;
    uint32_t count;
    uint64_t newest;   /* number of the newest event; 0: there was none */
    text *ring[TEXTS]; /* event n is at n % TEXTS */
    text *whole;       /* the event "whole" of that number; NULL: nobody has needed it */
    uint64_t whole_number;
    json_t *state, *peers;            /* as of the newest event; NULL: nobody reads */
    uint64_t step, cuts, event, line; /* up to which it has told */
};

/* Texts. */

static void release(text *t) {
    if (t == NULL || --t->uses > 0) return;
    free(t->bytes);
    free(t);
}

/* Makes an event; it releases the object. */
static text *make_text(const gw_streams *streams, const char *name, json_t *object) {
    char *json = gw_json_line(object);
    text *t = calloc(1, sizeof *t);
    json_decref(object);
    int length = -1;
    if (json != NULL && t != NULL)
        length = asprintf(&t->bytes, "id: %016" PRIx64 "-%" PRIu64 "\nevent: %s\nretry: 2000\ndata: %s\n\n",
                          streams->life, streams->newest, name, json);
    free(json);
    if (length < 0) {
        free(t);
        return NULL;
    }
    t->length = (size_t)length;
    t->uses = 1;
    return t;
}

/* The merge patch that makes `to` of `from`; NULL: they are equal. */
static json_t *patch_of(json_t *from, json_t *to) {
    json_t *patch = json_object(), *value;
    const char *key;
    json_object_foreach(to, key, value) {
        json_t *before = json_object_get(from, key);
        if (json_equal(before, value)) continue;
        json_t *inner =
            json_is_object(before) && json_is_object(value) ? patch_of(before, value) : json_incref(value);
        json_object_set_new(patch, key, inner);
    }
    json_object_foreach(from, key, value) {
        if (json_object_get(to, key) == NULL) json_object_set_new(patch, key, json_null());
    }
    if (json_object_size(patch) > 0) return patch;
    json_decref(patch);
    return NULL;
}

static void set_if(json_t *object, const char *key, json_t *value) {
    bool empty = value == NULL || (json_is_array(value) && json_array_size(value) == 0);
    if (empty)
        json_decref(value);
    else
        json_object_set_new(object, key, value);
}

/* What there is now: the state without its peers, and the peers by their ids. */
static void look(gw_streams *streams, json_t **state, json_t **peers) {
    gw_board_copy(streams->sources->board, streams->snapshot);
    *state = gw_snapshot_object(streams->snapshot);
    json_object_del(*state, "peers");
    *peers = json_object();
    json_t *rows = gw_api_peers_array(streams->sources, streams->snapshot), *row;
    size_t i;
    json_array_foreach(rows, i, row) {
        const char *id = json_string_value(json_object_get(row, "id"));
        if (id != NULL) json_object_set(*peers, id, row);
    }
    json_t *energy = gw_api_energy(rows, streams->snapshot);
    if (energy != NULL) json_object_set_new(*state, "energy_of_flock", energy);
    json_decref(rows);
}

static json_t *new_series(gw_streams *streams) {
    const gw_api_range range = {.from = streams->step + 1, .to = UINT64_MAX, .points = NEW_POINTS};
    uint64_t last, cuts;
    json_t *object = json_object(), *points = gw_api_series_object(streams->sources, &range, &last, &cuts);
    if (last == streams->step && cuts == streams->cuts) {
        json_decref(points);
        json_decref(object);
        return NULL;
    }
    streams->step = last;
    streams->cuts = cuts;
    gw_json_count(object, "last", last);
    gw_json_count(object, "cuts", cuts);
    json_object_set_new(object, "new", points);
    return object;
}

/* Makes the next event, with the lock held. */
static void make_event(gw_streams *streams) {
    json_t *state, *peers, *root = json_object();
    look(streams, &state, &peers);
    bool first = streams->state == NULL;
    streams->newest++;
    set_if(root, "series", new_series(streams));
    uint64_t event, line;
    json_t *events = gw_api_events_array(streams->sources, streams->event, NEW_LINES, &event);
    json_t *lines = gw_api_log_array(streams->sources, streams->line, NEW_LINES, &line);
    streams->event = event;
    streams->line = line;
    set_if(root, "events", events);
    set_if(root, "log", lines);
    if (!first) {
        set_if(root, "state", patch_of(streams->state, state));
        set_if(root, "peers", patch_of(streams->peers, peers));
    }
    json_decref(streams->state);
    json_decref(streams->peers);
    streams->state = state;
    streams->peers = peers;
    text **place = &streams->ring[streams->newest % TEXTS];
    release(*place);
    *place = make_text(streams, "change", root);
}

/* The event "whole", as of the newest event, with the lock held; NULL: memory runs out. */
static text *whole_text(gw_streams *streams) {
    if (streams->whole != NULL && streams->whole_number == streams->newest) return streams->whole;
    json_t *root = json_object(), *series = json_object();
    uint64_t newest, since = streams->event > LINES ? streams->event - LINES : 0;
    gw_json_count(root, "boot", streams->snapshot->boot);
    json_object_set(root, "state", streams->state);
    json_object_set(root, "peers", streams->peers);
    gw_json_count(series, "last", streams->step);
    gw_json_count(series, "cuts", streams->cuts);
    json_object_set_new(root, "series", series);
    json_object_set_new(root, "events", gw_api_events_array(streams->sources, since, LINES, &newest));
    since = streams->line > LINES ? streams->line - LINES : 0;
    json_object_set_new(root, "log", gw_api_log_array(streams->sources, since, LINES, &newest));
    release(streams->whole);
    streams->whole = make_text(streams, "whole", root);
    streams->whole_number = streams->newest;
    return streams->whole;
}

/* Forgets what only readers need. */
static void forget(gw_streams *streams) {
    json_decref(streams->state);
    json_decref(streams->peers);
    streams->state = streams->peers = NULL;
    release(streams->whole);
    streams->whole = NULL;
    for (uint32_t i = 0; i < TEXTS; i++) {
        release(streams->ring[i]);
        streams->ring[i] = NULL;
    }
}

/* Wakes the streams that sleep. The lock is not held meanwhile, as the library has one of its own. */
static void wake(gw_streams *streams) {
    struct MHD_Connection *sleeping[GW_STREAMS];
    uint32_t count = 0;
    pthread_mutex_lock(&streams->lock);
    for (stream *s = streams->first; s != NULL; s = s->next) {
        if (!s->sleeps) continue;
        s->sleeps = false;
        sleeping[count++] = s->connection;
    }
    pthread_mutex_unlock(&streams->lock);
    for (uint32_t i = 0; i < count; i++) MHD_resume_connection(sleeping[i]);
}

static void *run(void *context) {
    gw_streams *streams = context;
    uint64_t next_ns = 0;
    gw_priority_lower();
    pthread_mutex_lock(&streams->lock);
    while (!streams->ending) {
        if (streams->count == 0) {
            forget(streams);
            gw_cond_wait_until(&streams->changed, &streams->lock, UINT64_MAX);
            next_ns = gw_now_ns() + EVERY_NS;
            continue;
        }
        if (gw_cond_wait_until(&streams->changed, &streams->lock, next_ns)) continue;
        next_ns = gw_now_ns() + EVERY_NS;
        make_event(streams);
        pthread_mutex_unlock(&streams->lock);
        wake(streams);
        pthread_mutex_lock(&streams->lock);
    }
    pthread_mutex_unlock(&streams->lock);
    return NULL;
}

/* A stream, on the server's thread. */

/* Takes the next event, if there is one. Returns false where it is gone already. */
static bool take_next(stream *s) {
    gw_streams *all = s->all;
    if (s->follows > all->newest) return true;
    text *next = all->ring[s->follows % TEXTS];
    if (next == NULL || s->follows + TEXTS <= all->newest) return false;
    next->uses++;
    s->now = next;
    s->sent = 0;
    s->follows++;
    return true;
}

static ssize_t read_stream(void *context, uint64_t position, char *bytes, size_t room) {
    (void)position;
    stream *s = context;
    gw_streams *all = s->all;
    ssize_t count = 0; /* the constants below are unsigned in libmicrohttpd before 0.9.74 */
    pthread_mutex_lock(&all->lock);
    bool told_all = s->now == NULL && all->ending && s->follows > all->newest;
    if (all->stopped || told_all) {
        count = (ssize_t)MHD_CONTENT_READER_END_OF_STREAM;
    } else if (s->now == NULL && !take_next(s)) {
        count = (ssize_t)MHD_CONTENT_READER_END_WITH_ERROR;
    } else if (s->now == NULL) {
        s->sleeps = true;
        MHD_suspend_connection(s->connection);
    } else {
        size_t left = s->now->length - s->sent, part = left < room ? left : room;
        memcpy(bytes, s->now->bytes + s->sent, part);
        s->sent += part;
        count = (ssize_t)part;
        if (part == left) {
            release(s->now);
            s->now = NULL;
        }
    }
    pthread_mutex_unlock(&all->lock);
    return count;
}

static void free_stream(void *context) {
    stream *s = context;
    gw_streams *all = s->all;
    pthread_mutex_lock(&all->lock);
    stream **at = &all->first;
    while (*at != s) at = &(*at)->next;
    *at = s->next;
    all->count--;
    release(s->now);
    if (all->count == 0) pthread_cond_broadcast(&all->changed);
    pthread_mutex_unlock(&all->lock);
    free(s);
}

/* The number of the event that a client has read last; 0: it has none of this process's, or one that is too old. */
static uint64_t resumes_at(const gw_streams *streams, const char *last_id) {
    uint64_t life, number;
    if (last_id == NULL || sscanf(last_id, "%" SCNx64 "-%" SCNu64, &life, &number) != 2) return 0;
    bool there = life == streams->life && number > 0 && number <= streams->newest &&
                 streams->newest - number < TEXTS - 1;
    for (uint64_t n = number + 1; there && n <= streams->newest; n++)
        there = streams->ring[n % TEXTS] != NULL;
    return there ? number : 0;
}

/* Sets where the stream begins, with the lock held. */
static bool begin(stream *s, const char *last_id) {
    gw_streams *all = s->all;
    if (all->state == NULL) make_event(all);
    uint64_t read = resumes_at(all, last_id);
    s->follows = (read > 0 ? read : all->newest) + 1;
    if (read > 0) return true;
    s->now = whole_text(all);
    if (s->now == NULL) return false;
    s->now->uses++;
    return true;
}

struct MHD_Response *gw_streams_response(gw_streams *streams, struct MHD_Connection *connection,
                                         const char *last_id) {
    stream *s = calloc(1, sizeof *s);
    struct MHD_Response *response = NULL;
    if (s == NULL) return NULL;
    s->all = streams;
    s->connection = connection;
    pthread_mutex_lock(&streams->lock);
    if (!streams->ending && streams->count < GW_STREAMS && begin(s, last_id))
        response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK, read_stream, s, free_stream);
    if (response != NULL) {
        s->next = streams->first;
        streams->first = s;
        if (streams->count++ == 0) pthread_cond_signal(&streams->changed);
    } else {
        release(s->now);
        free(s);
    }
    pthread_mutex_unlock(&streams->lock);
    return response;
}

/* The beginning and the end. */

gw_streams *gw_streams_open(const gw_api_sources *sources, gw_err *err) {
    gw_streams *streams = calloc(1, sizeof *streams);
    if (streams != NULL) streams->snapshot = calloc(1, sizeof *streams->snapshot);
    if (streams == NULL || streams->snapshot == NULL) {
        free(streams);
        gw_fail(err, GW_E_NOMEM, "out of memory");
        return NULL;
    }
    streams->sources = sources;
    streams->life = gw_wall_ns();
    pthread_mutex_init(&streams->lock, NULL);
    gw_cond_init(&streams->changed);
    int failed = pthread_create(&streams->thread, NULL, run, streams);
    if (failed == 0) {
        pthread_setname_np(streams->thread, "gw-stream");
        return streams;
    }
    streams->joined = true;
    gw_streams_close(streams);
    gw_fail_errno(err, failed, "cannot start a thread");
    return NULL;
}

/* Makes the last event, with which the thread ends. */
static void end_thread(gw_streams *streams) {
    pthread_mutex_lock(&streams->lock);
    streams->ending = true;
    if (streams->count > 0) make_event(streams);
    pthread_cond_broadcast(&streams->changed);
    pthread_mutex_unlock(&streams->lock);
    pthread_join(streams->thread, NULL);
    streams->joined = true;
}

void gw_streams_stop(gw_streams *streams) {
    if (streams == NULL || streams->joined) return;
    const uint64_t end_ns = gw_now_ns() + LAST_NS;
    end_thread(streams);
    wake(streams);
    pthread_mutex_lock(&streams->lock);
    while (streams->count > 0)
        if (!gw_cond_wait_until(&streams->changed, &streams->lock, end_ns)) break;
    streams->stopped = true;
    pthread_mutex_unlock(&streams->lock);
    wake(streams);
}

void gw_streams_close(gw_streams *streams) {
    if (streams == NULL) return;
    gw_streams_stop(streams);
    GW_ASSERT(streams->count == 0);
    forget(streams);
    pthread_mutex_destroy(&streams->lock);
    pthread_cond_destroy(&streams->changed);
    free(streams->snapshot);
    free(streams);
}
