#include "tools/godwit/command/flock/fetch.h"

#include "core/base/assert.h"
#include "core/base/log.h"
#include "core/os/clock.h"
#include "tools/godwit/flock/children.h"
#include "tools/godwit/flock/submission.h"
#include "tools/godwit/map/child/outputs.h"
#include "tools/godwit/map/child/row_log.h"
#include "tools/godwit/text/json.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOOKS_AFTER_END = 3, JOBS = 8, NODES = 1024 };

#define PATIENCE_NS UINT64_C(60000000000) /* with outputs that no node has that answers */
#define AGAIN_NS    UINT64_C(1000000000)  /* all nodes are asked for them so often */
#define ANSWER_NS   UINT64_C(10000000000)
#define TELL_NS     UINT64_C(3000000000)
#define LOOK_NS     UINT64_C(200000000) /* between two questions whether the job is over */

/* The rows of one life of a peer, by number. */
typedef struct origin {
    gw_map_origin name;
    uint32_t *tasks;
    uint64_t count, room;
} origin;

/* A file of a node that is read piece by piece. */
typedef struct stream {
    char node[GW_ID_TEXT];
    bool live;       /* the job ran there when the last piece was read */
    uint64_t offset; /* of what follows the buffer */
    uint8_t *bytes;
    size_t length, room;
} stream;

/* The outputs of a node: there, and copies of them on others, byte by byte the same. */
typedef struct source {
    gw_peer_id id;
    stream in;
    uint32_t job, node; /* where they are read: of which job, and 0: on that node, i: on node i - 1 of all */
    uint32_t due;       /* tasks that are committed, and whose output is there */
    uint64_t silent_ns; /* since when no node has what is due; 0: one has */
    uint64_t again_ns;  /* they are not asked before */
    bool told;          /* that it is waited for */
    bool in_frame, wanted; /* within a frame; which is what a task is to be given */
    gw_outputs_head head;
    uint64_t output_left, errors_left, files_left;
    gw_map_written written;
    crypto_generichash_state hash, sum;
} source;

struct gw_flock_fetch {
    gw_flock_client *client;
    const gw_flock_place *place;
    uint64_t alone_ns;   /* since when no member answers; 0: it does */
    uint64_t rowless_ns; /* since when nobody could be asked who has the rows; 0: somebody could */
    bool rowless_told;
    uint64_t moved_ns;           /* when it was asked last whether rows come to another node now */
    char ender[GW_ID_TEXT];      /* who has ended the job, and so has all rows; "": nobody is known to have */
    char jobs[JOBS][GW_ID_TEXT]; /* the job, and those whose tasks it has adopted */
    uint32_t job_count;
    gw_peer_id nodes[NODES]; /* that live */
    uint32_t node_count;
    uint64_t nodes_ns; /* when they were asked for */
    uint32_t tasks;
    gw_map_table *table;
    uint8_t *state; /* of each task: COMMITTED and TAKEN */
    origin *origins;
    uint32_t origin_count, origin_room;
    stream rows;
    uint32_t rows_node; /* where they are read: as the job says, or on node i - 1 of all */
    source **sources;
    uint32_t source_count, source_room;
    uint64_t looked_ns;
    uint32_t looks_after_end;
    bool over;
    /* during a call */
    gw_map_store *store;
    gw_map_take *take;
    void *map;
    uint32_t news; /* rows and outputs that were not known */
    bool halted;   /* some row may be of a task that was ended as the job was over: another node may have a
                    * better one */
    bool last;     /* the job is over, and its rows were read at all nodes where that matters */
};

enum { COMMITTED = 1, TAKEN = 2 };

gw_flock_fetch *gw_flock_fetch_open(gw_flock_client *client, const gw_flock_place *place, const char *job,
                                    uint32_t tasks) {
    gw_flock_fetch *f = calloc(1, sizeof *f);
    gw_err err;
    GW_ASSERT_MEMORY(f != NULL);
    f->client = client;
    f->place = place;
    f->tasks = tasks;
    gw_flock_fetch_also(f, job);
    f->table = gw_map_table_open(tasks, &err);
    f->state = calloc((size_t)tasks + 1, 1);
    GW_ASSERT_MEMORY(f->table != NULL && f->state != NULL);
    return f;
}

void gw_flock_fetch_also(gw_flock_fetch *f, const char *job) {
    if (f->job_count < JOBS) snprintf(f->jobs[f->job_count++], GW_ID_TEXT, "%s", job);
}

void gw_flock_fetch_close(gw_flock_fetch *f) {
    if (f == NULL) return;
    for (uint32_t i = 0; i < f->origin_count; i++) free(f->origins[i].tasks);
    for (uint32_t i = 0; i < f->source_count; i++) {
        free(f->sources[i]->in.bytes);
        free(f->sources[i]); /* outputs that were begun go with the store */
    }
    gw_map_table_close(f->table);
    free(f->origins);
    free(f->sources);
    free(f->rows.bytes);
    free(f->state);
    free(f);
}

/* Streams. */

/* Reads the next piece of a stream, with `of` of the outputs of that node. Returns how many bytes came; -1: the node cannot
 * be asked now. */
static int64_t read_piece(gw_flock_fetch *f, stream *s, const char *job, const char *name,
                          const gw_peer_id *of, gw_err *err) {
    void *bytes;
    size_t count;
    json_t *request = json_pack("{s:s,s:s,s:s,s:I}", "do", "log", "job", job, "stream", name, "offset",
                                (json_int_t)s->offset);
    if (of != NULL) gw_json_peer(request, "of", of);
    if (s->node[0] != '\0') json_object_set_new(request, "node", json_string(s->node));
    json_t *answer = gw_member_door_ask(&f->client->door, request, GW_FLOCK_PATIENCE_NS, &bytes, &count, err);
    if (answer == NULL) return -1;
    snprintf(s->node, sizeof s->node, "%s", gw_flock_text(answer, "node"));
    s->live = json_is_true(json_object_get(answer, "running"));
    json_decref(answer);
    if (s->length + count > s->room) {
        s->room = 2 * (s->length + count);
        s->bytes = realloc(s->bytes, s->room);
        GW_ASSERT_MEMORY(s->bytes != NULL);
    }
    if (count > 0) memcpy(s->bytes + s->length, bytes, count);
    free(bytes);
    s->length += count;
    s->offset += count;
    return (int64_t)count;
}

/* Begins a stream anew, at any node. */
static void forget_stream(stream *s) {
    s->node[0] = '\0';
    s->offset = s->length = 0;
}

static void consume(stream *s, size_t count) {
    s->length -= count;
    memmove(s->bytes, s->bytes + count, s->length);
}

/* Rows. */

static origin *find_origin(gw_flock_fetch *f, const gw_map_origin *name) {
    for (uint32_t i = 0; i < f->origin_count; i++)
        if (memcmp(&f->origins[i].name, name, sizeof *name) == 0) return &f->origins[i];
    if (f->origin_count == f->origin_room) {
        f->origin_room = 2 * f->origin_room + 8;
        f->origins = realloc(f->origins, f->origin_room * sizeof *f->origins);
        GW_ASSERT_MEMORY(f->origins != NULL);
    }
    f->origins[f->origin_count] = (origin){.name = *name};
    return &f->origins[f->origin_count++];
}

static source *find_source(gw_flock_fetch *f, const gw_peer_id *id) {
    for (uint32_t i = 0; i < f->source_count; i++)
        if (gw_peer_id_equal(&f->sources[i]->id, id)) return f->sources[i];
    if (f->source_count == f->source_room) {
        f->source_room = 2 * f->source_room + 8;
        f->sources = realloc(f->sources, f->source_room * sizeof(source *));
        GW_ASSERT_MEMORY(f->sources != NULL);
    }
    source *s = calloc(1, sizeof *s);
    GW_ASSERT_MEMORY(s != NULL);
    s->id = *id;
    gw_hex(id->bytes, sizeof id->bytes, s->in.node);
    f->sources[f->source_count++] = s;
    return s;
}

static void drop_written(gw_flock_fetch *f, source *s) {
    gw_map_output_drop(f->store, &s->written.output);
    gw_map_output_drop(f->store, &s->written.errors);
    gw_map_output_drop(f->store, &s->written.files);
    s->written = (gw_map_written){.output = {.bytes = NULL}};
}

/* Has the outputs of a node read from their beginning. */
static void read_anew(gw_flock_fetch *f, source *s) {
    s->in.offset = s->in.length = 0;
    s->in_frame = false;
    drop_written(f, s);
}

/* The row of a task that is committed has given way to that of another attempt, which had run as well: its output is
 * fetched from there. What was read there before was passed over, and is read again. */
static void move_due(gw_flock_fetch *f, const gw_peer_id *from, const gw_peer_id *to) {
    find_source(f, from)->due--;
    source *s = find_source(f, to);
    s->due++;
    read_anew(f, s);
}

static bool take_rows(void *context, const gw_map_origin *name, uint64_t first, const gw_map_row *rows,
                      uint32_t count) {
    gw_flock_fetch *f = context;
    origin *o = find_origin(f, name);
    bool improved;
    gw_map_row before, now;
    gw_err err;
    if (first > o->count) return false;
    for (uint32_t i = 0; i < count; i++) {
        if (rows[i].task >= f->tasks) return false;
        if (first + i < o->count) continue; /* another node's file has told it */
        bool due = f->state[rows[i].task] == COMMITTED &&
                   gw_map_table_find(f->table, rows[i].task, &before) != GW_MAP_NOTHING;
        if (!gw_map_table_join(f->table, &rows[i], &improved, &err)) return false;
        if (due && gw_map_table_find(f->table, rows[i].task, &now) != GW_MAP_NOTHING &&
            (before.attempt != now.attempt || !gw_peer_id_equal(&before.who, &now.who)))
            move_due(f, &before.who, &now.who);
        if (o->count == o->room) {
            o->room = 2 * o->room + 64;
            o->tasks = realloc(o->tasks, o->room * sizeof *o->tasks);
            GW_ASSERT_MEMORY(o->tasks != NULL);
        }
        o->tasks[o->count++] = rows[i].task;
        f->halted |= gw_map_row_was_halted(&rows[i]);
        f->news++;
    }
    return true;
}

static void take_commit(void *context, const gw_map_origin *name, uint64_t count) {
    gw_flock_fetch *f = context;
    const origin *o = find_origin(f, name);
    gw_map_row row;
    for (uint64_t i = 0; i < count && i < o->count; i++) {
        uint32_t task = o->tasks[i];
        if (f->state[task] != 0 || gw_map_table_find(f->table, task, &row) == GW_MAP_NOTHING) continue;
        if (gw_map_row_was_halted(&row) && !f->last) continue;
        f->state[task] |= COMMITTED;
        find_source(f, &row.who)->due++;
    }
}

/* Takes all rows that are known as if they were committed. */
static void commit_all(gw_flock_fetch *f) {
    f->last = true;
    for (uint32_t i = 0; i < f->origin_count; i++) {
        gw_map_origin name = f->origins[i].name;
        take_commit(f, &name, f->origins[i].count);
    }
}

static uint32_t count_rows(const gw_flock_fetch *f) {
    return gw_map_table_count(f->table, GW_MAP_SUCCESS) + gw_map_table_count(f->table, GW_MAP_FAILURE);
}

/* Asks for the nodes that live, unless that was done a moment ago. */
static void ask_for_nodes(gw_flock_fetch *f) {
    gw_err err;
    size_t i;
    json_t *one;
    if (f->nodes_ns != 0 && gw_now_ns() < f->nodes_ns + AGAIN_NS) return;
    f->nodes_ns = gw_now_ns();
    json_t *answer = gw_flock_ask(f->client, json_pack("{s:s}", "do", "nodes"), &err);
    if (answer != NULL) f->node_count = 0;
    json_array_foreach(json_object_get(answer, "nodes"), i, one) {
        gw_job_record_id id;
        if (f->node_count == NODES || strcmp(gw_flock_text(one, "state"), "gone") == 0 ||
            !gw_submission_read_id(gw_flock_text(one, "id"), &id))
            continue;
        memcpy(f->nodes[f->node_count++].bytes, id.bytes, sizeof id.bytes);
    }
    json_decref(answer);
}

/* Has the rows read from the beginning at the next of all nodes; behind the last one, where the job says that it runs or
 * has ended, which is also where they are read first. False: it is that. */
static bool go_to_next_rows(gw_flock_fetch *f) {
    forget_stream(&f->rows);
    f->rows_node = f->rows_node < f->node_count ? f->rows_node + 1 : 0;
    if (f->rows_node == 0) return false;
    const gw_peer_id *id = &f->nodes[f->rows_node - 1];
    gw_hex(id->bytes, sizeof id->bytes, f->rows.node);
    return true;
}

/* Reads rows, from the node that was asked last, or another one where that cannot be asked. */
static bool read_rows(gw_flock_fetch *f) {
    gw_row_log_reader reader = {f, take_rows, take_commit};
    gw_err err;
    for (;;) {
        int64_t got = read_piece(f, &f->rows, f->jobs[0], GW_ROW_LOG_NAME, NULL, &err);
        if (got < 0) {
            ask_for_nodes(f);
            if (go_to_next_rows(f)) continue;
            return false;
        }
        size_t head = f->rows.offset == f->rows.length ? GW_ROW_LOG_HEAD_BYTES : 0, used;
        if (f->rows.length < head) return true;
        if (!gw_row_log_read(f->rows.bytes + head, f->rows.length - head, &reader, &used)) {
            gw_log(GW_WARN, "map", "the rows on a node are damaged: another one is asked");
            go_to_next_rows(f);
            return false;
        }
        if (used > 0) consume(&f->rows, head + used);
        if (got == 0) return true;
    }
}

/* Has the rows of a job that is not over read where it runs, if it does so no more where they were read. */
static void follow_job(gw_flock_fetch *f) {
    stream elsewhere = {.offset = f->rows.offset};
    gw_err ignored;
    if (f->rows.live || f->rows.node[0] == '\0' || gw_now_ns() < f->moved_ns + AGAIN_NS) return;
    f->moved_ns = gw_now_ns();
    if (read_piece(f, &elsewhere, f->jobs[0], GW_ROW_LOG_NAME, NULL, &ignored) >= 0 && elsewhere.live &&
        strcmp(elsewhere.node, f->rows.node) != 0) {
        forget_stream(&f->rows);
        f->rows_node = 0;
    }
    free(elsewhere.bytes);
}

/* Counts the tasks of which a row may come, or a better one. */
static uint32_t count_lacking(gw_flock_fetch *f) {
    uint32_t halted = 0;
    gw_map_row row;
    for (uint32_t i = 0; i < f->tasks && f->halted; i++)
        halted += gw_map_table_find(f->table, i, &row) != GW_MAP_NOTHING && gw_map_row_was_halted(&row);
    f->halted = halted > 0;
    return f->tasks - count_rows(f) + halted;
}

/* Reads all rows of a job that is over: whoever has ended it has them, and each node that ran it to its end. A node that
 * ran a task beside another one may have been told that the job is over before it heard how that had ended there; and one
 * that answers may have run none. False: rows may be missing, as who has ended the job cannot be asked. */
static bool read_last_rows(gw_flock_fetch *f) {
    bool asked = read_rows(f), of_ender = f->ender[0] == '\0';
    while (asked && count_lacking(f) > 0) {
        of_ender |= strcmp(f->rows.node, f->ender) == 0;
        ask_for_nodes(f);
        if (!go_to_next_rows(f)) break;
        asked = read_rows(f);
    }
    return asked && (of_ender || count_lacking(f) == 0);
}

/* Reads the rows that there are. False: more may come. */
static bool look_for_rows(gw_flock_fetch *f, bool was_over) {
    uint64_t now_ns = gw_now_ns();
    if (!was_over) follow_job(f);
    if (was_over ? read_last_rows(f) : read_rows(f)) {
        f->rowless_ns = 0;
        f->rowless_told = false;
        return true;
    }
    if (f->rowless_ns == 0) f->rowless_ns = now_ns;
    if (was_over && !f->rowless_told && now_ns >= f->rowless_ns + TELL_NS) {
        f->rowless_told = true;
        gw_log(
            GW_WARN, "map",
            "the job is over, and a node that does not answer has what became of %u tasks: it is waited for",
            count_lacking(f));
    }
    return now_ns >= f->rowless_ns + PATIENCE_NS;
}

/* Outputs. */

/* Whether a frame is that of the row of its task. Every row of its node that comes before is known: false of *known means
 * that it has to be waited for. */
static bool is_wanted(const gw_flock_fetch *f, const source *s, bool *known) {
    gw_map_row row;
    *known = true;
    if (s->head.task >= f->tasks) return false;
    if ((f->state[s->head.task] & TAKEN) != 0) return false;
    *known = (f->state[s->head.task] & COMMITTED) != 0;
    return *known && gw_map_table_find(f->table, s->head.task, &row) != GW_MAP_NOTHING &&
           gw_peer_id_equal(&row.who, &s->id) && row.attempt == s->head.attempt &&
           row.bytes == s->head.output;
}

/* Returns whether the frame is what was written. */
static bool finish_frame(gw_flock_fetch *f, source *s) {
    gw_map_row row;
    gw_hash hash;
    uint8_t sum[GW_OUTPUTS_SUM_BYTES];
    crypto_generichash_final(&s->hash, hash.bytes, sizeof hash.bytes);
    gw_outputs_sum_end(&s->sum, sum);
    if (memcmp(sum, s->head.sum, sizeof sum) != 0) return false;
    s->in_frame = false;
    f->news++;
    if (s->wanted && gw_map_table_find(f->table, s->head.task, &row) != GW_MAP_NOTHING &&
        gw_hash_equal(&hash, &row.hash)) {
        f->state[s->head.task] |= TAKEN;
        s->due--;
        f->take(f->map, s->head.task, &row, &s->written);
        s->written = (gw_map_written){.output = {.bytes = NULL}};
    } else {
        drop_written(f, s);
    }
    return true;
}

/* Takes what is there of a part of a frame. */
static bool take_part(gw_flock_fetch *f, source *s, uint64_t *left, gw_map_output *to, bool hashed,
                      gw_err *err) {
    size_t count = s->in.length < *left ? s->in.length : (size_t)*left;
    if (count == 0) return true;
    if (hashed) crypto_generichash_update(&s->hash, s->in.bytes, count);
    crypto_generichash_update(&s->sum, s->in.bytes, count);
    if (s->wanted && !gw_map_output_add(f->store, to, s->in.bytes, count, err)) return false;
    *left -= count;
    consume(&s->in, count);
    return true;
}

/* What has become of the frames that were read. */
typedef enum taken {
    TAKEN_ALL,
    TAKEN_WAITS,   /* the next frame's row is not known yet */
    TAKEN_DAMAGED, /* this is no frame, or not what was written */
    TAKEN_FAILED,
} taken;

/* Goes through what has been read of a node's outputs. */
static taken take_frames(gw_flock_fetch *f, source *s, gw_err *err) {
    for (;;) {
        if (!s->in_frame) {
            bool known;
            if (s->in.length < GW_OUTPUTS_HEAD_BYTES) return TAKEN_ALL;
            if (!gw_outputs_read_head(s->in.bytes, &s->head)) return TAKEN_DAMAGED;
            s->wanted = is_wanted(f, s, &known);
            if (!known) return TAKEN_WAITS;
            consume(&s->in, GW_OUTPUTS_HEAD_BYTES);
            s->in_frame = true;
            s->output_left = s->head.output;
            s->errors_left = s->head.errors;
            s->files_left = s->head.files;
            crypto_generichash_init(&s->hash, NULL, 0, sizeof(gw_hash));
            gw_outputs_sum_begin(&s->sum);
        }
        if (!take_part(f, s, &s->output_left, &s->written.output, true, err)) return TAKEN_FAILED;
        if (s->output_left > 0) return TAKEN_ALL;
        if (!take_part(f, s, &s->errors_left, &s->written.errors, false, err)) return TAKEN_FAILED;
        if (s->errors_left > 0) return TAKEN_ALL;
        if (!take_part(f, s, &s->files_left, &s->written.files, false, err)) return TAKEN_FAILED;
        if (s->files_left > 0) return TAKEN_ALL;
        if (!finish_frame(f, s)) return TAKEN_DAMAGED;
    }
}

/* Has the outputs of a node read at the next place. False: that is the first one again. */
static bool go_to_next_place(gw_flock_fetch *f, source *s) {
    ask_for_nodes(f);
    if (++s->node <= f->node_count) return true;
    s->node = 0;
    s->job = (s->job + 1) % f->job_count;
    if (f->job_count > 1) read_anew(f, s); /* another job's file has other bytes */
    return s->job != 0;
}

static int64_t read_at_place(gw_flock_fetch *f, source *s, gw_err *err) {
    const gw_peer_id *at = s->node == 0 || s->node > f->node_count ? &s->id : &f->nodes[s->node - 1];
    gw_hex(at->bytes, sizeof at->bytes, s->in.node);
    return read_piece(f, &s->in, f->jobs[s->job], GW_CHILD_OUTPUTS, &s->id, err);
}

/* Nobody has what is due of a node. False: for too long. */
static bool wait_for_source(source *s, gw_err *err) {
    uint64_t now_ns = gw_now_ns();
    char text[GW_SHORT_TEXT];
    gw_peer_id_short(&s->id, text);
    s->again_ns = now_ns + AGAIN_NS;
    if (s->silent_ns == 0) s->silent_ns = now_ns;
    if (!s->told && now_ns >= s->silent_ns + TELL_NS) {
        s->told = true;
        gw_log(GW_WARN, "map", "what %u tasks have written is on node %s, which is waited for", s->due, text);
    }
    return now_ns < s->silent_ns + PATIENCE_NS ||
           gw_fail(
               err, GW_E_PEER,
               "what %u tasks have written on node %s is not to be had: neither that node nor another one "
               "that is here has it whole",
               s->due, text);
}

/* Reads the outputs of a node while it has what is due. */
static bool read_outputs(gw_flock_fetch *f, source *s, gw_err *err) {
    taken outcome = take_frames(f, s, err);
    while (s->due > 0 && outcome != TAKEN_WAITS && outcome != TAKEN_FAILED) {
        gw_err why;
        if (gw_now_ns() < s->again_ns) return true;
        if (outcome == TAKEN_DAMAGED) read_anew(f, s);
        if (outcome != TAKEN_DAMAGED && read_at_place(f, s, &why) > 0) {
            outcome = take_frames(f, s, err);
            if (outcome == TAKEN_DAMAGED) continue;
            s->silent_ns = 0;
        } else {
            outcome = TAKEN_ALL;
            if (!go_to_next_place(f, s)) return wait_for_source(s, err);
        }
    }
    return outcome != TAKEN_FAILED;
}

/* Asks who has ended the job, unless it was cancelled. False: it cannot be asked now. */
static bool ask_for_ender(gw_flock_fetch *f) {
    gw_err ignored;
    json_t *ids = json_pack("[s]", f->jobs[0]), *jobs = gw_flock_ask_jobs(f->client, ids, &ignored);
    const json_t *job = json_array_get(jobs, 0), *ends = json_object_get(job, "ends"),
                 *rounds = json_object_get(job, "rounds");
    const json_t *end = json_array_size(ends) > 0 ? json_array_get(ends, 0)
                                                  : json_array_get(rounds, json_array_size(rounds) - 1);
    if (strcmp(gw_flock_text(job, "state"), "cancelled") != 0)
        snprintf(f->ender, sizeof f->ender, "%s", gw_flock_text(end, "node"));
    json_decref(jobs);
    json_decref(ids);
    return jobs != NULL;
}

/* Whether the job is over. */
static bool ask_whether_over(gw_flock_fetch *f) {
    gw_err err;
    if (f->over || gw_now_ns() < f->looked_ns + LOOK_NS) return f->over;
    f->looked_ns = gw_now_ns();
    json_t *answer = gw_flock_ask(
        f->client, json_pack("{s:s,s:[s],s:i}", "do", "wait", "jobs", f->jobs[0], "seconds", 0), &err);
    f->over = answer != NULL && json_is_true(json_object_get(answer, "over")) && ask_for_ender(f);
    json_decref(answer);
    return f->over;
}

/* Connects to the member again where it has gone. False: for too long. */
static bool keep_connected(gw_flock_fetch *f, gw_err *err) {
    gw_err why;
    json_t *answer =
        gw_member_door_ask(&f->client->door, json_pack("{s:s}", "do", "hello"), ANSWER_NS, NULL, NULL, &why);
    json_decref(answer);
    if (answer != NULL) {
        f->alone_ns = 0;
        return true;
    }
    uint64_t now_ns = gw_now_ns();
    if (f->alone_ns == 0) {
        f->alone_ns = now_ns;
        gw_log(
            GW_WARN, "map",
            "the member of the flock on this machine does not answer: the tasks go on, and it is waited for");
    }
    gw_flock_disconnect(f->client);
    if (gw_flock_connect(f->place, f->client, &why)) return true;
    return now_ns < f->alone_ns + PATIENCE_NS || gw_fail(err, GW_E_PEER, "%s", why.text);
}

bool gw_flock_fetch_more(gw_flock_fetch *f, gw_map_store *store, gw_map_take *take, void *map, bool *over,
                         gw_err *err) {
    uint32_t due = 0;
    f->store = store;
    f->take = take;
    f->map = map;
    f->news = 0;
    *over = false;
    if (!keep_connected(f, err)) return false;
    if (f->alone_ns != 0) return true;
    bool was_over = ask_whether_over(f);
    bool has_rows = look_for_rows(f, was_over);
    if (has_rows && was_over) commit_all(f); /* nobody will commit more */
    for (uint32_t i = 0; i < f->source_count; i++) {
        if (!read_outputs(f, f->sources[i], err)) return false;
        due += f->sources[i]->due;
    }
    if (f->news > 0 || due > 0) f->looks_after_end = 0;
    if (was_over && due == 0 && has_rows) *over = ++f->looks_after_end >= LOOKS_AFTER_END;
    return true;
}
