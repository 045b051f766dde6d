#include "tools/godwit/map/child/child.h"

#include "core/base/assert.h"
#include "core/base/hex.h"
#include "core/base/log.h"
#include "core/map/copies.h"
#include "core/map/deaths.h"
#include "core/map/share.h"
#include "core/os/clock.h"
#include "core/os/durable.h"
#include "tools/godwit/flock/children.h"
#include "tools/godwit/flock/relay.h"
#include "tools/godwit/flock/running.h"
#include "tools/godwit/map/child/copier.h"
#include "tools/godwit/map/child/row_log.h"
#include "tools/godwit/map/task_list.h"

#include <fcntl.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LIST_BYTES  ((uint64_t)4 << 30)
#define CLOSE_NS    UINT64_C(5000000000)
#define LINGER_NS   UINT64_C(2000000000) /* for siblings that have not said that they have all rows */
#define PROGRESS_NS UINT64_C(500000000)
#define FAREWELL_NS UINT64_C(100000000)

/* A task that has ended, and whose row is told when its output, which ends there, is safe. */
typedef struct ended {
    struct ended *next;
    uint64_t end;
    gw_map_row row;
} ended;

typedef struct child {
    const char *folder;
    uint32_t slots;                /* 0: as many as the member says */
    char directory[GW_PATH_BYTES]; /* the member's */
    gw_job_record_id job;
    void *bytes; /* of the list of tasks */
    gw_task_list tasks;
    gw_loop *loop;
    gw_map_store *store; /* the map's */
    void (*trouble)(void *map, const gw_err *err);
    void *map;
    gw_relay_child *relay;
    gw_map_share *share; /* NULL until the member has said who this peer is */
    gw_peer_id self;
    uint64_t life;
    gw_map_copies *copies;
    gw_row_log *log;
    gw_copier *copier;
    ended *ended, **last_ended;
    int running;                    /* the file of what runs */
    uint32_t *slots_of, slot_count; /* what runs in each slot; UINT32_MAX: nothing */
    gw_timer timer, copies_timer, progress_timer;
    uint64_t complete_ns; /* when all tasks had a row, and were committed; 0: not yet */
    bool leaving;
    gw_map_row failure; /* the first that was found */
} child;

/* The share. */

static void due(void *context);

static void follow_share(child *c) {
    gw_err err;
    if (c->share == NULL) return;
    if (!gw_timer_set(c->loop, &c->timer, gw_map_share_next_deadline(c->share), due, c, &err))
        c->trouble(c->map, &err);
}

static void due(void *context) {
    child *c = context;
    gw_map_share_tick(c->share, gw_now_ns());
    follow_share(c);
}

static void send_message(child *c, uint8_t kind, const gw_peer_id *to, const void *bytes, size_t length) {
    static uint8_t message[1 + GW_MAP_SHARE_MESSAGE_BYTES]; /* one thread */
    GW_ASSERT(length < sizeof message);
    message[0] = kind;
    memcpy(message + 1, bytes, length);
    gw_relay_child_send(c->relay, to, message, 1 + length);
}

static void send_of_share(void *context, const gw_peer_id *to, const void *bytes, size_t length) {
    send_message(context, GW_RELAY_SHARE, to, bytes, length);
}

static void learned(void *context, const gw_map_origin *origin, uint64_t first, const gw_map_row *rows,
                    uint32_t count) {
    child *c = context;
    if (c->log != NULL) gw_row_log_add(c->log, origin, first, rows, count); /* else it is closed */
}

static void committed(void *context, const gw_map_origin *origin, uint64_t count) {
    child *c = context;
    if (c->log != NULL) gw_row_log_commit(c->log, origin, count);
}

static void durable(void *context, const gw_map_origin *origin, uint64_t count) {
    child *c = context;
    gw_map_share_durable(c->share, origin, count, gw_now_ns());
    follow_share(c);
}

static void disk_failed(void *context, const gw_err *err) {
    child *c = context;
    c->trouble(c->map, err);
}

/* The outputs. */

static void send_of_copies(void *context, const gw_peer_id *to, const void *bytes, size_t length) {
    send_message(context, GW_RELAY_COPIES, to, bytes, length);
}

static void copies_due(void *context);

/* Tells the rows of tasks whose outputs have become safe. */
static void tell_safe(child *c) {
    uint64_t safe = gw_map_copies_safe(c->copies);
    bool any = false;
    while (c->ended != NULL && c->ended->end <= safe) {
        ended *e = c->ended;
        c->ended = e->next;
        if (c->ended == NULL) c->last_ended = &c->ended;
        gw_map_share_finished(c->share, &e->row, gw_now_ns());
        free(e);
        any = true;
    }
    if (any) follow_share(c);
}

static void follow_copies(child *c) {
    gw_map_copies_errand errand;
    gw_err err;
    if (c->copies == NULL) return;
    if (gw_map_copies_is_behind(c->copies)) {
        gw_fail(&err, GW_E_CORRUPT,
                "another node has more of what tasks have written here than this disk, which has lost it");
        return c->trouble(c->map, &err);
    }
    tell_safe(c);
    if (!gw_copier_is_copying(c->copier) && gw_map_copies_next(c->copies, &errand, gw_now_ns()))
        gw_copier_copy(c->copier, &errand);
    if (!gw_timer_set(c->loop, &c->copies_timer, gw_map_copies_next_deadline(c->copies), copies_due, c, &err))
        c->trouble(c->map, &err);
}

static void copies_due(void *context) {
    child *c = context;
    gw_map_copies_tick(c->copies, gw_now_ns());
    follow_copies(c);
}

static void outputs_flushed(void *context, uint64_t bytes) {
    child *c = context;
    gw_map_copies_have(c->copies, &c->self, bytes, gw_now_ns());
    follow_copies(c);
}

static void output_copied(void *context, const gw_peer_id *whose, uint64_t bytes) {
    child *c = context;
    gw_map_copies_have(c->copies, whose, bytes, gw_now_ns());
    follow_copies(c);
}

static void output_missed(void *context, const gw_peer_id *whose) {
    child *c = context;
    gw_map_copies_failed(c->copies, whose, gw_now_ns());
    follow_copies(c);
}

static bool recover_rows(void *context, const gw_map_origin *origin, uint64_t first, const gw_map_row *rows,
                         uint32_t count) {
    child *c = context;
    return gw_map_share_recover(c->share, origin, first, rows, count);
}

/* Tasks that the map has done which this one tries again. Failures are left out, so that the rows of each origin have other
 * numbers here, the same on all nodes. */
typedef struct adopted {
    child *c;
    gw_map_origin *origins;
    uint64_t *have; /* rows of the origin */
    uint32_t count;
} adopted;

static uint64_t *have_of(adopted *a, const gw_map_origin *origin) {
    for (uint32_t i = 0; i < a->count; i++)
        if (gw_peer_id_equal(&a->origins[i].peer, &origin->peer) && a->origins[i].life == origin->life)
            return &a->have[i];
    a->origins = realloc(a->origins, (a->count + 1) * sizeof *a->origins);
    a->have = realloc(a->have, (a->count + 1) * sizeof *a->have);
    GW_ASSERT_MEMORY(a->origins != NULL && a->have != NULL);
    a->origins[a->count] = *origin;
    a->have[a->count] = 0;
    return &a->have[a->count++];
}

static bool adopt_rows(void *context, const gw_map_origin *origin, uint64_t first, const gw_map_row *rows,
                       uint32_t count) {
    adopted *a = context;
    uint64_t *have = have_of(a, origin);
    uint32_t kept = 0;
    gw_map_row *successes = calloc(count + 1, sizeof *successes);
    GW_ASSERT_MEMORY(successes != NULL);
    (void)first;
    for (uint32_t i = 0; i < count; i++)
        if (rows[i].outcome == GW_MAP_SUCCESS) successes[kept++] = rows[i];
    bool good = kept == 0 || gw_map_share_recover(a->c->share, origin, *have, successes, kept);
    if (good && kept > 0) gw_row_log_add(a->c->log, origin, *have, successes, kept);
    *have += kept;
    free(successes);
    return good;
}

/* Adopts the rows of the map which this one tries again, before any of its own. */
static void adopt_before(child *c) {
    adopted a = {.c = c};
    gw_row_log_reader reader = {&a, adopt_rows, NULL};
    char path[GW_PATH_BYTES];
    void *bytes;
    size_t length, used;
    gw_err err;
    if (gw_map_table_tasks(gw_map_share_table(c->share)) > 0 ||
        !gw_durable_path(path, &err, "%s/%s", c->folder, GW_CHILD_ROWS_BEFORE) ||
        !gw_durable_read(gw_io_system(), path, LIST_BYTES, &bytes, &length, &err))
        return;
    if (length < GW_ROW_LOG_HEAD_BYTES || !gw_row_log_read((const uint8_t *)bytes + GW_ROW_LOG_HEAD_BYTES,
                                                           length - GW_ROW_LOG_HEAD_BYTES, &reader, &used))
        gw_log(GW_WARN, "map", "%s is damaged: tasks that were done may run once more", path);
    free(a.origins);
    free(a.have);
    free(bytes);
}

/* Tells the share of the earlier children here that were killed. */
static void recall_deaths(child *c) {
    uint32_t *tasks, count;
    for (uint32_t number = 1; gw_running_read(c->folder, number, &tasks, &count); number++) {
        gw_map_share_died(c->share, number, tasks, count, gw_now_ns());
        free(tasks);
    }
}

/* Begins to share, as the peer that the member says. */
static bool begin(child *c, const gw_peer_id *self, uint32_t slots, gw_err *err) {
    gw_map_share_config config = {.self = {*self, c->life},
                                  .tasks = c->tasks.count,
                                  .slots = c->leaving ? 0 : slots,
                                  .sink = {c, send_of_share, learned, committed}};
    gw_map_copies_sink sink = {c, send_of_copies};
    gw_row_log_reader reader = {c, recover_rows, NULL};
    gw_row_log_events events = {c, durable, disk_failed};
    c->share = gw_map_share_open(&config, gw_now_ns(), err);
    if (c->share == NULL) return false;
    c->log = gw_row_log_open(c->loop, c->folder, &reader, &events, err);
    if (c->log == NULL) return false;
    adopt_before(c);
    recall_deaths(c);
    c->self = *self;
    c->copies = gw_map_copies_open(self, &sink, gw_now_ns());
    return gw_copier_begin(c->copier, err);
}

/* The member. */

static void heard_peers(void *context, const gw_peer_id *self, uint32_t slots, const gw_peer_id *peers,
                        uint32_t count) {
    child *c = context;
    gw_err err;
    if (c->slots > 0) slots = c->slots;
    if (slots > GW_MAP_SHARE_SLOTS) slots = GW_MAP_SHARE_SLOTS;
    if (c->share == NULL && !begin(c, self, slots, &err)) {
        c->trouble(c->map, &err);
        return;
    }
    gw_map_share_set_slots(c->share, c->leaving ? 0 : slots, gw_now_ns());
    gw_map_share_set_peers(c->share, peers, count, gw_now_ns());
    gw_map_copies_set_peers(c->copies, peers, count, gw_now_ns());
    follow_share(c);
    follow_copies(c);
}

static void heard_message(void *context, const gw_peer_id *from, const void *bytes, size_t length) {
    child *c = context;
    const uint8_t *kind = bytes;
    if (c->copies == NULL || length == 0) return;
    bool good = kind[0] == GW_RELAY_COPIES
                    ? gw_map_copies_message(c->copies, from, kind + 1, length - 1, gw_now_ns())
                    : kind[0] == GW_RELAY_SHARE &&
                          gw_map_share_message(c->share, from, kind + 1, length - 1, gw_now_ns());
    if (!good) gw_log(GW_WARN, "map", "another node sends what makes no sense to this build");
    if (kind[0] == GW_RELAY_COPIES)
        follow_copies(c);
    else
        follow_share(c);
}

static void heard_no_more(void *context) {
    child *c = context;
    if (c->share != NULL) gw_map_share_cut_off(c->share);
    if (c->copies != NULL) gw_map_copies_cut_off(c->copies);
}

/* The feed. */

static gw_map_counts count_tasks(void *context, gw_map_row *failure) {
    child *c = context;
    gw_map_counts counts = {.total = c->tasks.count};
    if (c->share == NULL) return counts;
    const gw_map_table *table = gw_map_share_table(c->share);
    counts.failed = gw_map_table_count(table, GW_MAP_FAILURE);
    counts.done = counts.failed + gw_map_table_count(table, GW_MAP_SUCCESS);
    counts.running = gw_map_share_running(c->share);
    for (uint32_t task = 0; counts.failed > 0 && c->failure.outcome == GW_MAP_NOTHING; task++)
        if (gw_map_table_find(table, task, &c->failure) != GW_MAP_FAILURE)
            c->failure.outcome = GW_MAP_NOTHING;
    if (failure != NULL) *failure = c->failure;
    return counts;
}

static void tell_progress(void *context) {
    child *c = context;
    gw_err err;
    gw_map_counts counts = count_tasks(c, NULL);
    gw_relay_child_tell(c->relay, &(gw_relay_progress){(uint32_t)counts.done, (uint32_t)counts.failed,
                                                       (uint32_t)counts.total});
    if (!gw_timer_set(c->loop, &c->progress_timer, gw_now_ns() + PROGRESS_NS, tell_progress, c, &err))
        c->trouble(c->map, &err);
}

static bool open_feed(void *context, gw_loop *loop, gw_map_store *store,
                      void (*trouble)(void *map, const gw_err *err), void *map, gw_err *err) {
    child *c = context;
    gw_relay_child_events events = {c, heard_peers, heard_message, heard_no_more};
    gw_copier_events of_copier = {c, outputs_flushed, output_copied, output_missed, disk_failed};
    c->loop = loop;
    c->store = store;
    c->trouble = trouble;
    c->map = map;
    c->copier = gw_copier_open(loop, c->folder, c->directory, &c->job, &of_copier, err);
    if (c->copier == NULL) return false;
    c->relay = gw_relay_child_open(loop, c->directory, &c->job, &events, err);
    if (c->relay == NULL) {
        GW_ASSERT(gw_copier_close(c->copier, 0)); /* it has not begun */
        return false;
    }
    tell_progress(c);
    return true;
}

/* Whether this child may end: all rows are there, and its siblings have them, too, or had the time. */
static bool is_over(child *c) {
    uint64_t now_ns = gw_now_ns();
    if (c->share == NULL || !gw_map_share_is_complete(c->share)) return false;
    if (c->complete_ns == 0) c->complete_ns = now_ns;
    return gw_map_share_all_complete(c->share) || now_ns >= c->complete_ns + LINGER_NS;
}

/* Keeps what a task has written, and its row until that is safe. */
static bool keep_row(child *c, const gw_map_row *row, gw_map_store *store, const gw_map_written *written,
                     gw_err *err) {
    ended *e = calloc(1, sizeof *e);
    GW_ASSERT_MEMORY(e != NULL);
    e->row = *row;
    if (!gw_copier_add(c->copier, store, row->task, row->attempt, written, &e->end, err)) {
        free(e);
        return false;
    }
    *c->last_ended = e;
    c->last_ended = &e->next;
    follow_share(c);
    return true;
}

/* Notes that a task runs, or no more. */
static bool note_run(child *c, uint32_t task, bool runs, gw_err *err) {
    uint32_t looked_for = runs ? UINT32_MAX : task, slot = 0;
    while (slot < c->slot_count && c->slots_of[slot] != looked_for) slot++;
    if (slot == c->slot_count && !runs) return true;
    if (slot == c->slot_count) {
        c->slots_of = realloc(c->slots_of, ++c->slot_count * sizeof *c->slots_of);
        GW_ASSERT_MEMORY(c->slots_of != NULL);
    }
    c->slots_of[slot] = runs ? task : UINT32_MAX;
    return gw_running_note(c->running, slot, c->slots_of[slot], err);
}

/* Gives a row to a task that is not run any more. */
static bool fail_task(child *c, uint32_t task, gw_err *err) {
    static const char why[] = "godwit map: two processes of 'godwit map' were killed while they ran this "
                              "task: it is not run again\n";
    gw_map_row row = {
        .task = task, .outcome = GW_MAP_FAILURE, .attempt = 1 + GW_MAP_DEATHS_MOST, .signal = SIGKILL};
    gw_map_written written = {.output = {.bytes = NULL}};
    gw_blake2b("", 0, row.hash.bytes, sizeof row.hash.bytes);
    bool good = gw_map_output_add(c->store, &written.errors, why, sizeof why - 1, err) &&
                keep_row(c, &row, c->store, &written, err);
    gw_map_output_drop(c->store, &written.errors);
    return good;
}

static gw_map_next next_task(void *context, uint64_t *number, gw_map_values **values, gw_err *err) {
    child *c = context;
    uint32_t task;
    if (is_over(c)) return GW_MAP_NEXT_END;
    while (c->share != NULL && gw_map_share_next_failed(c->share, &task, gw_now_ns()))
        if (!fail_task(c, task, err)) return GW_MAP_NEXT_FAILED;
    if (c->share == NULL || !gw_map_share_next(c->share, &task, gw_now_ns())) return GW_MAP_NEXT_LATER;
    *number = gw_task_list_number(&c->tasks, task);
    *values = gw_task_list_values(&c->tasks, task);
    follow_share(c);
    bool good = *values != NULL || gw_fail(err, GW_E_NOMEM, "no memory for a task");
    return good && note_run(c, task, true, err) ? GW_MAP_NEXT_READY : GW_MAP_NEXT_FAILED;
}

/* The position of a task in the list. */
static uint32_t position_of(const child *c, uint64_t number) {
    uint32_t low = 0, high = c->tasks.count;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (gw_task_list_number(&c->tasks, middle) <= number)
            low = middle;
        else
            high = middle;
    }
    GW_ASSERT(low < c->tasks.count && gw_task_list_number(&c->tasks, low) == number);
    return low;
}

static bool task_ended(void *context, uint64_t number, const gw_map_row *given, gw_map_store *store,
                       const gw_map_written *written, gw_err *err) {
    child *c = context;
    gw_map_row row = *given;
    row.task = position_of(c, number);
    if (!note_run(c, row.task, false, err)) return false;
    gw_map_share_ended(c->share, row.task, row.wall_us, gw_now_ns());
    return keep_row(c, &row, store, written, err);
}

static void leave(void *context) {
    child *c = context;
    c->leaving = true;
    if (c->share != NULL) gw_map_share_set_slots(c->share, 0, gw_now_ns());
    follow_share(c);
}

/* Lets what was told last reach the others. */
static void say_farewell(child *c) {
    uint64_t end_ns = gw_now_ns() + FAREWELL_NS;
    tell_progress(c);
    if (c->share != NULL) due(c);
    for (uint64_t now; (now = gw_now_ns()) < end_ns;) gw_loop_turn(c->loop, end_ns - now);
}

/* Waits until what tasks have written here is safe: else they are run again elsewhere. */
static void wait_for_copies(child *c) {
    uint64_t end_ns = gw_now_ns() + CLOSE_NS, now_ns, safe = 0;
    while (c->ended != NULL && !gw_map_share_is_complete(c->share) && (now_ns = gw_now_ns()) < end_ns) {
        gw_loop_turn(c->loop, end_ns - now_ns);
        if (gw_map_copies_safe(c->copies) > safe) end_ns = gw_now_ns() + CLOSE_NS;
        safe = gw_map_copies_safe(c->copies);
    }
}

static bool close_feed(void *context) {
    child *c = context;
    if (c->copies != NULL) wait_for_copies(c);
    if (!gw_row_log_close(c->log, CLOSE_NS)) return false;
    c->log = NULL;
    if (c->relay != NULL) say_farewell(c);
    if (!gw_copier_close(c->copier, CLOSE_NS)) return false;
    c->copier = NULL;
    gw_timer_cancel(&c->timer);
    gw_timer_cancel(&c->copies_timer);
    gw_timer_cancel(&c->progress_timer);
    gw_relay_child_close(c->relay);
    gw_map_share_close(c->share);
    gw_map_copies_close(c->copies);
    while (c->ended != NULL) {
        ended *e = c->ended;
        c->ended = e->next;
        free(e);
    }
    return true;
}

/* Opening. */

/* Reads the id of the job and the directory of the member off the folder's name, DIR/jobs/ID. */
static bool read_folder(child *c, gw_err *err) {
    char folder[GW_PATH_BYTES];
    if (!gw_durable_path(folder, err, "%s", c->folder)) return false;
    char *id = strrchr(folder, '/'), *jobs = NULL;
    if (id != NULL) {
        *id++ = '\0';
        jobs = strrchr(folder, '/');
    }
    if (jobs == NULL || strcmp(jobs, "/jobs") != 0 || !gw_unhex(id, c->job.bytes, sizeof c->job.bytes))
        return gw_fail(err, GW_E_USAGE, "--child=%s is no folder of a job of a flock", c->folder);
    *jobs = '\0';
    return gw_durable_path(c->directory, err, "%s", folder);
}

static bool read_tasks(child *c, gw_err *err) {
    char path[GW_PATH_BYTES];
    size_t length;
    return gw_durable_path(path, err, "%s/work/%s", c->folder, GW_TASK_LIST_NAME) &&
           gw_durable_read(gw_io_system(), path, LIST_BYTES, &c->bytes, &length, err) &&
           gw_task_list_read(c->bytes, length, &c->tasks, err);
}

/* Opens the working directory if it is one of the job's own: what tasks leave there is nowhere else. */
static int open_work(const char *folder) {
    char path[GW_PATH_BYTES];
    struct stat own, here;
    gw_err ignored;
    if (!gw_durable_path(path, &ignored, "%s/work", folder) || stat(path, &own) != 0 ||
        stat(".", &here) != 0 || own.st_dev != here.st_dev || own.st_ino != here.st_ino)
        return -1;
    return open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

int gw_map_child_main(const gw_map_options *given, uint32_t slots, const char *folder, gw_err *err) {
    child c = {.folder = folder, .slots = slots, .running = -1};
    gw_map_feed feed = {&c,          open_feed, next_task, task_ended, open_work(folder),
                        count_tasks, leave,     close_feed};
    gw_map_options options = *given;
    int code = GW_MAP_TROUBLE;
    randombytes_buf(&c.life, sizeof c.life);
    options.feed = &feed;
    options.slots = 0; /* the member says how many */
    options.job = getenv("GODWIT_JOB");
    options.folder = folder;
    c.last_ended = &c.ended;
    if (read_folder(&c, err) && read_tasks(&c, err) && (c.running = gw_running_open(folder, err)) >= 0)
        code = gw_map_main_loop(&options, err);
    if (c.running >= 0) close(c.running);
    free(c.slots_of);
    if (feed.work >= 0) close(feed.work);
    gw_task_list_free(&c.tasks);
    free(c.bytes);
    return code;
}
