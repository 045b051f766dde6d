/* What `godwit map` in front fetches from a flock: its member is one of this test's, on a thread, which answers what the
 * test has put there. */
#include "core/base/wire.h"
#include "core/map/rows.h"
#include "tools/godwit/command/flock/fetch.h"
#include "tools/godwit/flock/children.h"
#include "tools/godwit/map/child/outputs.h"
#include "tools/godwit/map/child/row_log.h"
#include "tools/godwit/text/json.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NODES = 3, LOOKS = 200, TASKS = 4 };

/* A file that a node has. */
typedef struct part {
    uint8_t bytes[4096];
    size_t length;
} part;

typedef struct flock {
    char folder[64];
    gw_loop *loop;
    gw_member_door *door;
    pthread_t thread;
    pthread_mutex_t lock;             /* guards what follows */
    part rows, outputs[NODES][NODES]; /* where, whose */
    bool away[NODES], rows_away, over, jobs_away;
    uint32_t ender; /* the node that has ended the job, plus 1; 0: it is not told */
    uint32_t taken[TASKS];
    char text[TASKS][16];
} flock;

static gw_peer_id id_of(uint32_t node) {
    gw_peer_id id = {{0}};
    id.bytes[0] = (uint8_t)(node + 1);
    return id;
}

static uint32_t node_of(const json_t *request, const char *key) {
    const char *text = json_string_value(json_object_get(request, key));
    unsigned first = 0;
    if (text != NULL) sscanf(text, "%2x", &first);
    return first - 1;
}

/* The member. */

static void send_part(gw_member_door_call *call, const part *p, uint32_t node, const json_t *request) {
    json_int_t offset = json_integer_value(json_object_get(request, "offset"));
    size_t left = (size_t)offset < p->length ? p->length - (size_t)offset : 0;
    gw_peer_id id = id_of(node);
    json_t *answer = json_object();
    gw_json_peer(answer, "node", &id);
    gw_member_door_answer(call, answer, left > 0 ? p->bytes + offset : NULL, left);
}

static void serve_log(flock *f, gw_member_door_call *call, const json_t *request) {
    const char *stream = json_string_value(json_object_get(request, "stream"));
    uint32_t node = node_of(request, "node");
    bool of_rows = strcmp(stream, GW_CHILD_ROWS) == 0;
    if (of_rows && f->rows_away)
        gw_member_door_fail(call, "the node does not answer");
    else if (of_rows)
        send_part(call, &f->rows, 0, request);
    else if (node >= NODES || f->away[node])
        gw_member_door_fail(call, "the node cannot be reached now");
    else
        send_part(call, &f->outputs[node][node_of(request, "of")], node, request);
}

static void serve(void *context, gw_member_door_call *call, const json_t *request, const void *bytes,
                  size_t count) {
    flock *f = context;
    const char *what = json_string_value(json_object_get(request, "do"));
    (void)bytes;
    (void)count;
    pthread_mutex_lock(&f->lock);
    if (strcmp(what, "log") == 0) {
        serve_log(f, call, request);
    } else if (strcmp(what, "wait") == 0) {
        json_t *answer = json_object();
        gw_json_flag(answer, "over", f->over);
        gw_member_door_answer(call, answer, NULL, 0);
    } else if (strcmp(what, "jobs") == 0 && f->jobs_away) {
        gw_member_door_fail(call, "it cannot be told now");
    } else {
        json_t *answer = json_object(), *nodes = json_array();
        for (uint32_t i = 0; i < NODES && strcmp(what, "nodes") == 0; i++) {
            gw_peer_id id = id_of(i);
            json_t *node = json_object();
            gw_json_peer(node, "id", &id);
            gw_json_text(node, "state", f->away[i] ? "gone" : "ready");
            json_array_append_new(nodes, node);
        }
        json_object_set_new(answer, "nodes", nodes);
        if (f->ender > 0) {
            gw_peer_id id = id_of(f->ender - 1);
            json_t *end = json_object();
            gw_json_peer(end, "node", &id);
            json_object_set_new(answer, "jobs", json_pack("[{s:s,s:[o]}]", "id", "00", "ends", end));
        }
        gw_member_door_answer(call, answer, NULL, 0);
    }
    pthread_mutex_unlock(&f->lock);
}

static void *run_member(void *context) {
    gw_loop_run(((flock *)context)->loop);
    return NULL;
}

static flock *open_flock(void) {
    flock *f = calloc(1, sizeof *f);
    gw_err err;
    snprintf(f->folder, sizeof f->folder, "/tmp/godwit-fetch-XXXXXX");
    cr_assert_not_null(mkdtemp(f->folder));
    pthread_mutex_init(&f->lock, NULL);
    f->loop = gw_loop_open(&err);
    f->door = gw_member_door_open(f->loop, f->folder, serve, f, &err);
    cr_assert_not_null(f->door, "%s", err.text);
    cr_assert_eq(pthread_create(&f->thread, NULL, run_member, f), 0);
    const uint8_t head[GW_ROW_LOG_HEAD_BYTES] = {'G', 'W', 'M', 'R', 1};
    memcpy(f->rows.bytes, head, sizeof head);
    f->rows.length = sizeof head;
    return f;
}

static void close_flock(flock *f) {
    gw_loop_stop(f->loop);
    pthread_join(f->thread, NULL);
    gw_member_door_close(f->door);
    gw_loop_close(f->loop);
    pthread_mutex_destroy(&f->lock);
    rmdir(f->folder);
    free(f);
}

/* What the nodes have. */

static gw_hash hash_of(const char *text) {
    gw_hash hash;
    gw_blake2b(text, strlen(text), hash.bytes, sizeof hash.bytes);
    return hash;
}

/* Adds an entry to the file of rows: a row of a node, the `number` of which it is there, or that so many are committed. */
static void add_entry(flock *f, uint8_t kind, uint32_t node, uint64_t number, const gw_map_row *row) {
    enum { HEAD = 12 };
    uint8_t hash[16], *at = f->rows.bytes + f->rows.length;
    gw_peer_id id = id_of(node);
    gw_writer w = gw_writer_on(at + HEAD, sizeof f->rows.bytes - f->rows.length - HEAD);
    gw_put_u8(&w, kind);
    gw_put_peer_id(&w, &id);
    gw_put_u64(&w, 7);
    gw_put_u64(&w, number);
    if (kind == 1) gw_map_rows_put(&w, row, 1);
    cr_assert(!w.failed);
    gw_blake2b(at + HEAD, w.length, hash, sizeof hash);
    gw_writer head = gw_writer_on(at, HEAD);
    gw_put_u32(&head, (uint32_t)w.length);
    gw_put_bytes(&head, hash, 8);
    f->rows.length += HEAD + w.length;
}

/* A node has run a task: its row, which is the `number` of that node, and is committed. */
static void add_row(flock *f, uint32_t node, uint64_t number, uint32_t task, uint32_t attempt,
                    const char *text) {
    gw_map_row row = {.task = task,
                      .outcome = GW_MAP_SUCCESS,
                      .attempt = attempt,
                      .who = id_of(node),
                      .bytes = strlen(text),
                      .hash = hash_of(text)};
    add_entry(f, 1, node, number, &row);
    add_entry(f, 2, node, number + 1, NULL);
}

/* Adds what a task has written to a node's outputs, or to a copy of those on another one. */
static void add_output(flock *f, uint32_t at, uint32_t node, uint32_t task, uint32_t attempt,
                       const char *text) {
    part *p = &f->outputs[at][node];
    gw_writer w = gw_writer_on(p->bytes + p->length, sizeof p->bytes - p->length);
    crypto_generichash_state sum;
    uint8_t bytes[GW_OUTPUTS_SUM_BYTES];
    gw_outputs_sum_begin(&sum);
    crypto_generichash_update(&sum, (const uint8_t *)text, strlen(text));
    gw_outputs_sum_end(&sum, bytes);
    gw_put_bytes(&w, "GWMO", 4);
    gw_put_u32(&w, task);
    gw_put_u32(&w, attempt);
    gw_put_u64(&w, strlen(text));
    gw_put_u64(&w, 0);
    gw_put_u64(&w, 0);
    gw_put_bytes(&w, bytes, sizeof bytes);
    gw_put_bytes(&w, text, strlen(text));
    cr_assert(!w.failed);
    p->length += w.length;
}

/* The command in front. */

typedef struct command {
    flock *f;
    gw_flock_place place;
    gw_flock_client client;
    gw_flock_fetch *fetch;
    gw_map_store *store;
} command;

static command open_front(flock *f) {
    command front = {.f = f, .place = {.dir = f->folder}};
    gw_err err;
    cr_assert(gw_flock_connect(&front.place, &front.client, &err), "%s", err.text);
    front.store = gw_map_store_open(f->folder, 1 << 20, &err);
    return front;
}

static void close_front(command *front) {
    gw_flock_fetch_close(front->fetch);
    gw_map_store_close(front->store);
    gw_flock_disconnect(&front->client);
    close_flock(front->f);
}

static void take(void *context, uint32_t position, const gw_map_row *row, gw_map_written *written) {
    command *front = context;
    (void)row;
    snprintf(front->f->text[position], sizeof front->f->text[position], "%.*s", (int)written->output.length,
             (const char *)written->output.bytes);
    front->f->taken[position]++;
    gw_map_output_drop(front->store, &written->output);
    gw_map_output_drop(front->store, &written->errors);
    gw_map_output_drop(front->store, &written->files);
}

static bool look(command *front) {
    gw_err err;
    bool over;
    cr_assert(gw_flock_fetch_more(front->fetch, front->store, take, front, &over, &err), "%s", err.text);
    return over;
}

/* Looks until a task has been taken. */
static void look_for(command *front, uint32_t task) {
    for (int i = 0; i < LOOKS && front->f->taken[task] == 0; i++) {
        look(front);
        usleep(10000);
    }
    cr_assert_eq(front->f->taken[task], 1, "task %u", task);
}

static void change(flock *f, void (*call)(flock *f)) {
    pthread_mutex_lock(&f->lock);
    call(f);
    pthread_mutex_unlock(&f->lock);
}

static void give_way(flock *f) {
    add_row(f, 0, 1, 0, 1, "by 0"); /* the lower of two nodes is better */
}

static void end(flock *f) {
    f->over = true;
}

Test(fetch, what_two_nodes_have_run_comes_from_the_one_that_counts) {
    flock *f = open_flock();
    command front = open_front(f);
    f->away[1] = true;
    add_output(f, 0, 0, 0, 1, "by 0");
    add_output(f, 0, 0, 1, 1, "one");
    add_row(f, 1, 0, 0, 1, "by 1"); /* it counts, and its node is away */
    add_row(f, 0, 0, 1, 1, "one");
    front.fetch = gw_flock_fetch_open(&front.client, &front.place, "00", 2);
    look_for(&front, 1);
    cr_assert_eq(f->taken[0], 0);
    change(f, give_way);
    look_for(&front, 0);
    cr_assert_str_eq(f->text[0], "by 0");
    change(f, end);
    bool over = false;
    for (int i = 0; i < LOOKS && !over; i++) {
        over = look(&front);
        usleep(10000);
    }
    cr_assert(over, "nothing is due on the node that is away");
    close_front(&front);
}

/* Adds the row of task 0, which node 1 ended as the job was over. */
static void add_halted_row(flock *f) {
    gw_map_row halted = {.task = 0,
                         .outcome = GW_MAP_FAILURE,
                         .attempt = 1,
                         .who = id_of(1),
                         .exit_code = GW_MAP_HALTED,
                         .signal = 15,
                         .hash = hash_of("")};
    add_entry(f, 1, 1, 0, &halted);
}

static void end_elsewhere(flock *f) {
    add_row(f, 0, 0, 0, 1, "by 0");
    f->over = true;
}

/* Two nodes ran a task, one of which was told that the job is over before it heard that the other one had run it. */
Test(fetch, a_task_that_was_ended_as_the_job_was_over_may_have_a_better_row_elsewhere) {
    flock *f = open_flock();
    command front = open_front(f);
    add_output(f, 0, 0, 0, 1, "by 0");
    add_output(f, 1, 1, 0, 1, "");
    add_halted_row(f);
    add_entry(f, 2, 1, 1, NULL);
    front.fetch = gw_flock_fetch_open(&front.client, &front.place, "00", 1);
    for (int i = 0; i < 5; i++) look(&front);
    cr_assert_eq(f->taken[0], 0);
    change(f, end_elsewhere);
    look_for(&front, 0);
    cr_assert_str_eq(f->text[0], "by 0");
    close_front(&front);
}

Test(fetch, who_has_ended_a_job_is_not_waited_for_where_all_rows_are_known) {
    flock *f = open_flock();
    command front = open_front(f);
    f->away[2] = f->over = true;
    f->ender = 3;
    add_output(f, 0, 0, 0, 1, "by 0");
    add_halted_row(f);
    add_row(f, 0, 0, 0, 1, "by 0");
    front.fetch = gw_flock_fetch_open(&front.client, &front.place, "00", 1);
    bool over = false;
    for (int i = 0; i < 20 && !over; i++) over = look(&front);
    cr_assert(over);
    cr_assert_str_eq(f->text[0], "by 0");
    close_front(&front);
}

static void have_jobs_away(flock *f) {
    f->over = f->jobs_away = true;
}

static void have_jobs_back(flock *f) {
    add_row(f, 0, 0, 0, 1, "one");
    f->jobs_away = false;
}

Test(fetch, a_job_is_not_taken_for_over_before_it_is_known_who_has_ended_it) {
    flock *f = open_flock();
    command front = open_front(f);
    add_output(f, 0, 0, 0, 1, "one");
    front.fetch = gw_flock_fetch_open(&front.client, &front.place, "00", 1);
    change(f, have_jobs_away);
    for (int i = 0; i < 50; i++) {
        cr_assert(!look(&front), "who has all rows could not be asked for");
        usleep(10000);
    }
    change(f, have_jobs_back);
    look_for(&front, 0);
    close_front(&front);
}

static void have_rows_away(flock *f) {
    f->over = f->rows_away = true;
}

static void have_rows_back(flock *f) {
    f->rows_away = false;
}

Test(fetch, a_node_that_has_the_rows_may_be_away_for_a_while_when_all_is_over) {
    flock *f = open_flock();
    command front = open_front(f);
    add_output(f, 0, 0, 0, 1, "one");
    add_row(f, 0, 0, 0, 1, "one");
    front.fetch = gw_flock_fetch_open(&front.client, &front.place, "00", 1);
    change(f, have_rows_away);
    for (int i = 0; i < 50; i++) {
        cr_assert(!look(&front), "nobody could be asked for rows");
        usleep(10000);
    }
    change(f, have_rows_back);
    look_for(&front, 0);
    close_front(&front);
}

Test(fetch, outputs_come_from_a_copy_and_damaged_ones_from_another_node) {
    flock *f = open_flock();
    command front = open_front(f);
    f->away[1] = true;
    add_output(f, 0, 1, 0, 1, "one"); /* the node 0 has a copy of the first, and the node 2 of both */
    add_output(f, 2, 1, 0, 1, "one");
    add_output(f, 2, 1, 1, 1, "two");
    add_output(f, 0, 0, 2, 1, "xxx");
    add_output(f, 2, 0, 2, 1, "red");
    add_row(f, 1, 0, 0, 1, "one");
    add_row(f, 1, 1, 1, 1, "two");
    add_row(f, 0, 0, 2, 1, "red");
    f->outputs[0][0].bytes[f->outputs[0][0].length - 1] = 'd'; /* its sum is another one */
    front.fetch = gw_flock_fetch_open(&front.client, &front.place, "00", 3);
    for (uint32_t task = 0; task < 3; task++) look_for(&front, task);
    cr_assert(strcmp(f->text[0], "one") == 0 && strcmp(f->text[1], "two") == 0 &&
              strcmp(f->text[2], "red") == 0);
    close_front(&front);
}
