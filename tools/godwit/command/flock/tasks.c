#include "tools/godwit/command/flock/tasks.h"

#include "core/base/assert.h"
#include "core/os/durable.h"
#include "tools/godwit/command/flock/fetch.h"
#include "tools/godwit/flock/beneath.h"
#include "tools/godwit/flock/member.h"
#include "tools/godwit/map/files.h"
#include "tools/godwit/map/runs.h"
#include "tools/godwit/map/task_list.h"
#include "tools/godwit/text/json.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MEMORY_BYTES = 64 << 20, LOOKS = 5 /* at a map that is not over, without anything new */ };

#define PAUSE_NS UINT64_C(100000000)

/* What a task has left, until all before it have ended. */
typedef struct left {
    gw_map_row row;
    gw_map_output output, errors;
    bool ended;
} left;

typedef struct taker {
    gw_map_store *store;
    gw_task_list list;
    left *left; /* by position */
    uint32_t next;
    int out, err_out, lines, work;
    gw_flock_tasks *tasks;
    bool good;
    gw_err err;
} taker;

/* The list of tasks, as a node has it that has run some. */

static bool read_list_of(gw_flock_client *client, const char *job, const char *node, uint8_t **bytes,
                         size_t *length, gw_err *err) {
    *bytes = NULL;
    *length = 0;
    for (;;) {
        void *piece;
        size_t count;
        if (!gw_flock_read_file(client, job, node, "work/" GW_TASK_LIST_NAME, *length, &piece, &count, err))
            return false;
        if (count == 0) return *length > 0 || gw_fail(err, GW_E_NOTFOUND, "it has no list of tasks");
        *bytes = realloc(*bytes, *length + count);
        GW_ASSERT_MEMORY(*bytes != NULL);
        memcpy(*bytes + *length, piece, count);
        *length += count;
        free(piece);
    }
}

static bool read_list(gw_flock_client *client, const char *job, uint8_t **bytes, gw_task_list *list,
                      gw_err *err) {
    json_t *answer = gw_flock_ask(client, json_pack("{s:s}", "do", "nodes"), err), *node;
    size_t i, length;
    bool good = false;
    if (answer == NULL) return false;
    gw_fail(err, GW_E_NOTFOUND, "no node is here");
    json_array_foreach(json_object_get(answer, "nodes"), i, node) {
        good = read_list_of(client, job, gw_flock_text(node, "id"), bytes, &length, err) &&
               gw_task_list_read(*bytes, length, list, err);
        if (good) break;
        free(*bytes);
        *bytes = NULL;
    }
    json_decref(answer);
    return good || gw_fail_in(err, "it has not run yet, or no node that ran it is here");
}

/* Writing. */

static bool write_output(gw_map_store *store, int fd, const char *name, const gw_map_output *output,
                         gw_err *err) {
    uint8_t *piece = output->piece_count > 0 ? malloc(GW_MAP_PIECE_BYTES) : NULL;
    GW_ASSERT_MEMORY(output->piece_count == 0 || piece != NULL);
    gw_io *io = gw_io_system();
    bool good = true;
    for (uint32_t i = 0; good && i < output->piece_count; i++)
        good = gw_map_output_read(store, output, i, piece, err) &&
               gw_durable_write_fd(io, fd, name, piece, output->pieces[i].length, err);
    free(piece);
    return good &&
           (output->length == 0 || gw_durable_write_fd(io, fd, name, output->bytes, output->length, err));
}

static bool write_line(const taker *t, uint32_t position, const gw_map_row *row, gw_err *err) {
    json_t *line = json_object(), *inputs = json_array();
    gw_map_values *values = gw_task_list_values(&t->list, position);
    GW_ASSERT_MEMORY(values != NULL);
    for (uint32_t i = 0; i < values->count; i++) {
        json_t *one = json_object();
        gw_json_text(one, "input", values->text[i]); /* bytes that are no UTF-8 become what is */
        json_array_append(inputs, json_object_get(one, "input"));
        json_decref(one);
    }
    free(values);
    gw_json_count(line, "task", gw_task_list_number(&t->list, position) + 1);
    json_object_set_new(line, "inputs", inputs);
    gw_json_count(line, "attempt", row->attempt);
    gw_map_row_put_end(line, row);
    gw_json_real(line, "seconds", (double)row->wall_us / 1e6);
    gw_json_count(line, "rss_kib", row->rss_kib);
    gw_json_count(line, "bytes", row->bytes);
    gw_json_hash(line, "hash", &row->hash);
    gw_json_peer(line, "node", &row->who);
    char *text = gw_json_line(line);
    json_decref(line);
    GW_ASSERT_MEMORY(text != NULL);
    bool good = gw_durable_write_fd(gw_io_system(), t->lines, "tasks.jsonl", text, strlen(text), err) &&
                gw_durable_write_fd(gw_io_system(), t->lines, "tasks.jsonl", "\n", 1, err);
    free(text);
    return good;
}

static void write_one(taker *t, uint32_t position) {
    left *l = &t->left[position];
    t->good = t->good && write_output(t->store, t->out, "out", &l->output, &t->err) &&
              write_output(t->store, t->err_out, "err", &l->errors, &t->err) &&
              write_line(t, position, &l->row, &t->err);
    gw_map_output_drop(t->store, &l->output);
    gw_map_output_drop(t->store, &l->errors);
}

static void take(void *context, uint32_t position, const gw_map_row *row, gw_map_written *written) {
    taker *t = context;
    left *l = &t->left[position];
    *l = (left){.row = *row, .output = written->output, .errors = written->errors, .ended = true};
    t->tasks->ended++;
    t->tasks->failed += row->outcome == GW_MAP_FAILURE;
    if (t->good && t->work >= 0) t->good = gw_map_files_put(t->store, t->work, &written->files, &t->err);
    gw_map_output_drop(t->store, &written->files);
    if (t->good && position != t->next)
        t->good = gw_map_output_settle(t->store, &l->output, &t->err) &&
                  gw_map_output_settle(t->store, &l->errors, &t->err);
    while (t->next < t->list.count && t->left[t->next].ended) write_one(t, t->next++);
}

/* Fetching. */

static void pause_a_moment(void) {
    struct timespec moment = {0, (long)PAUSE_NS};
    nanosleep(&moment, NULL);
}

static bool follow(taker *t, gw_flock_fetch *fetch, bool to_the_end, gw_err *err) {
    bool over = false;
    for (uint32_t idle = 0; !over && t->tasks->ended < t->list.count && (to_the_end || idle < LOOKS);
         idle++) {
        uint32_t before = t->tasks->ended;
        if (!gw_flock_fetch_more(fetch, t->store, take, t, &over, err)) return false;
        if (!t->good) {
            *err = t->err;
            return false;
        }
        if (t->tasks->ended > before)
            idle = 0;
        else if (!over)
            pause_a_moment();
    }
    for (; t->next < t->list.count; t->next++) /* behind one that has not ended */
        if (t->left[t->next].ended) write_one(t, t->next);
    if (!t->good) *err = t->err;
    return t->good;
}

/* The jobs that this one tries again, one after another. */
static void add_older_jobs(gw_flock_client *client, gw_flock_fetch *fetch, const json_t *job) {
    gw_err ignored;
    for (const char *id; (id = gw_flock_text(job, "tries_again"))[0] != '\0';) {
        job = gw_flock_find_job(client, id, &ignored);
        if (job == NULL) return;
        gw_flock_fetch_also(fetch, id);
    }
}

static bool open_all(taker *t, int root, gw_err *err) {
    if (mkdirat(root, "work", 0777) != 0) return gw_fail_named(err, errno, "work cannot be made");
    t->work = openat(root, "work", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (t->work < 0) return gw_fail_named(err, errno, "work cannot be opened");
    return (t->out = gw_beneath_make(root, "out", false, err)) >= 0 &&
           (t->err_out = gw_beneath_make(root, "err", false, err)) >= 0 &&
           (t->lines = gw_beneath_make(root, "tasks.jsonl", false, err)) >= 0;
}

bool gw_flock_tasks_fetch(gw_flock_client *client, const gw_flock_place *place, const json_t *job, int root,
                          const char *folder, gw_flock_tasks *tasks, gw_err *err) {
    taker t = {.out = -1, .err_out = -1, .lines = -1, .work = -1, .tasks = tasks, .good = true};
    uint8_t *bytes = NULL;
    gw_flock_fetch *fetch = NULL;
    *tasks = (gw_flock_tasks){.count = 0};
    bool good = read_list(client, gw_flock_text(job, "id"), &bytes, &t.list, err) &&
                open_all(&t, root, err) && (t.store = gw_map_store_open(folder, MEMORY_BYTES, err)) != NULL;
    if (good) {
        tasks->count = t.list.count;
        t.left = calloc((size_t)t.list.count + 1, sizeof *t.left);
        GW_ASSERT_MEMORY(t.left != NULL);
        fetch = gw_flock_fetch_open(client, place, gw_flock_text(job, "id"), t.list.count);
        add_older_jobs(client, fetch, job);
        good = follow(&t, fetch, gw_member_job_is_over(job), err);
    }
    gw_flock_fetch_close(fetch);
    for (uint32_t i = 0; t.left != NULL && i < t.list.count; i++) {
        gw_map_output_drop(t.store, &t.left[i].output);
        gw_map_output_drop(t.store, &t.left[i].errors);
    }
    gw_map_store_close(t.store);
    const int fds[] = {t.out, t.err_out, t.lines, t.work};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
        if (fds[i] >= 0) close(fds[i]);
    free(t.left);
    gw_task_list_free(&t.list);
    free(bytes);
    return good;
}
