#include "tools/godwit/metrics/tensorboard.h"

#include "core/base/assert.h"
#include "core/base/log.h"
#include "core/os/clock.h"
#include "core/os/durable.h"
#include "core/os/output.h"
#include "tools/godwit/metrics/records.h"
#include "tools/godwit/text/protobuf.h"
#include "tools/godwit/text/utf8.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Fields and numbers of tensorboard/compat/proto: event, summary, tensor. */
enum {
    EVENT_WALL_TIME = 1,
    EVENT_STEP = 2,
    EVENT_FILE_VERSION = 3,
    EVENT_SUMMARY = 5,
    EVENT_SESSION_LOG = 7,
    SESSION_LOG_STATUS = 1,
    SESSION_LOG_START = 1,
    SUMMARY_VALUE = 1,
    VALUE_TAG = 1,
    VALUE_SIMPLE = 2,
    VALUE_TENSOR = 8,
    VALUE_METADATA = 9,
    METADATA_PLUGIN = 1,
    METADATA_DATA_CLASS = 4,
    DATA_CLASS_TENSOR = 2,
    PLUGIN_NAME = 1,
    TENSOR_TYPE = 1,
    TENSOR_SHAPE = 2,
    TENSOR_STRING = 8,
    TENSOR_TYPE_STRING = 7,
};

enum {
    FILE_BYTES = 64 << 20,
    WAITING_ROWS = 4096,      /* that a process keeps which does not hold the lock */
    NUMBER_DIGITS = 10,       /* of the number in a file's name */
    NUMBER_MOST = 2000000000, /* a greater one is no time of a start, and new names do not follow it */
    JOB_DIGITS = 8,
    REPORT_BYTES = 256, /* of a row that waits */
    FOLDER_MODE = 0777, /* as the umask makes it: the folder belongs to the user */
    FILE_MODE = 0666,
};
#define RETRY_NS UINT64_C(1000000000) /* the lock is asked for at most so often */

static const char name_begin[] = "events.out.tfevents.", lock_name[] = "godwit.lock";

typedef struct waiting_row {
    gw_metrics_row row; /* row.report is not used */
    char report[REPORT_BYTES];
} waiting_row;

struct gw_tensorboard {
    char folder[GW_PATH_BYTES];
    char peer[40], host[80], job[JOB_DIGITS + 1];
    char *configuration; /* as Markdown */
    uint64_t first_step; /* the job goes on from this step of another job; 0 = it does not */
    uint64_t last_at_begin;
    bool fresh;    /* what the run has is of no use */
    bool replaces; /* --fresh was given: steps of other jobs alone are of no use */

    int lock;           /* the file that is locked; -1 = another process has the lock */
    uint64_t locked_ns; /* when the lock was last asked for */
    bool told;          /* of a lock that cannot be had */
    uint64_t newest;    /* the greatest number in the name of a file of the run */
    uint64_t last;      /* the run's last step that leads to this job's state */
    bool starts;        /* the next step is written behind a START */
    uint64_t useless;   /* the run has steps of no use from here on; UINT64_MAX = it has none */

    int fd; /* the file that is written; -1 = none */
    char path[GW_PATH_BYTES];
    uint64_t end; /* bytes of its whole records */

    waiting_row *waiting; /* a ring, oldest first; its steps rise */
    uint32_t waiting_first, waiting_count;
    uint64_t went_back; /* the lowest step that was made again while rows waited; UINT64_MAX = none */

    gw_protobuf event, bytes; /* an event, and the records of one write; reused */
};

/* Folders and names. */

/* Makes a folder and those above it. */
static bool make_folders(const char *path, gw_err *err) {
    char part[GW_PATH_BYTES];
    if (!gw_durable_path(part, err, "%s", path)) return false;
    for (char *slash = strchr(part + 1, '/');; slash = strchr(slash + 1, '/')) {
        if (slash != NULL) *slash = '\0';
        if (mkdir(part, FOLDER_MODE) != 0 && errno != EEXIST)
            return gw_fail_errno(err, errno, "cannot make %s", part);
        if (slash == NULL) break;
        *slash = '/';
    }
    struct stat status;
    if (stat(part, &status) != 0) return gw_fail_errno(err, errno, "cannot use %s", part);
    return S_ISDIR(status.st_mode) || gw_fail(err, GW_E_INVALID, "%s is no folder: name one", path);
}

/* Copies a text with each character that has a meaning in a path replaced. */
static void plain_name(const char *text, char *name, size_t size) {
    snprintf(name, size, "%s", text);
    for (char *at = name; *at != '\0'; at++)
        if (strchr("/ :", *at) != NULL || (unsigned char)*at < ' ') *at = '_';
}

/* Reads the number of a file of events; false = the name is none. */
static bool read_number(const char *name, uint64_t *number) {
    const char *mark = strstr(name, "tfevents.");
    if (mark == NULL) return false;
    const char *digits = mark + strlen("tfevents.");
    size_t count = strspn(digits, "0123456789");
    *number = count == NUMBER_DIGITS ? strtoull(digits, NULL, 10) : 0;
    return true;
}

/* What the files of a run have. */

/* What the readable part of a file has. */
typedef struct file_content {
    bool any;       /* it has steps */
    uint64_t last;  /* the last of them */
    uint64_t start; /* the lowest step of a START; UINT64_MAX = there is none */
} file_content;

/* Whether a summary has the scalars of a step; the text of the configuration is none. */
static bool has_scalars(const gw_protobuf_field *summary) {
    gw_protobuf_reader values = {.bytes = summary->bytes, .count = summary->count};
    gw_protobuf_field value, field;
    while (gw_protobuf_next(&values, &value)) {
        gw_protobuf_reader fields = {.bytes = value.bytes, .count = value.count};
        while (gw_protobuf_next(&fields, &field))
            if (field.number == VALUE_SIMPLE) return true;
    }
    return false;
}

static void note_event(const uint8_t *bytes, size_t count, file_content *content) {
    gw_protobuf_reader reader = {.bytes = bytes, .count = count};
    gw_protobuf_field field;
    bool scalars = false, start = false;
    uint64_t step = 0;
    while (gw_protobuf_next(&reader, &field)) {
        if (field.number == EVENT_STEP && field.type == GW_PROTOBUF_VARINT) step = field.value;
        scalars |= field.number == EVENT_SUMMARY && has_scalars(&field);
        start |= field.number == EVENT_SESSION_LOG;
    }
    if (reader.failed || step > INT64_MAX) return;
    if (start && step < content->start) content->start = step;
    if (start && content->any && step <= content->last) content->last = step > 0 ? step - 1 : 0;
    if (scalars) content->last = step;
    content->any |= scalars;
}

/* The names of the files of events in a folder. */
typedef struct file_names {
    char **list;
    size_t count, room;
} file_names;

static bool add_name(void *context, const char *folder, const char *name, gw_err *err) {
    file_names *names = context;
    uint64_t number;
    (void)folder;
    (void)err;
    if (!read_number(name, &number)) return true;
    if (names->count == names->room) {
        names->room = names->room == 0 ? 16 : 2 * names->room;
        names->list = realloc(names->list, names->room * sizeof *names->list);
        GW_ASSERT_MEMORY(names->list != NULL);
    }
    names->list[names->count] = strdup(name);
    GW_ASSERT_MEMORY(names->list[names->count++] != NULL);
    return true;
}

static int later_first(const void *a, const void *b) {
    return strcmp(*(char *const *)b, *(char *const *)a);
}

/* Reads a file. In a damaged one the events before the damage count, as they do for TensorBoard. */
static file_content read_file(const gw_tensorboard *b, const char *name) {
    file_content content = {.start = UINT64_MAX};
    char path[GW_PATH_BYTES];
    gw_records records;
    const uint8_t *bytes;
    size_t count;
    gw_err err;
    if (!gw_durable_path(path, &err, "%s/%s", b->folder, name) || !gw_records_open(path, &records, &err)) {
        gw_log(GW_WARN, "metrics", "%s; its steps count as missing", err.text);
        return content;
    }
    while (gw_records_next(&records, &bytes, &count)) note_event(bytes, count, &content);
    if (records.damaged)
        gw_log(GW_INFO, "metrics",
               "%s ends with a damaged event, where TensorBoard stops to read it: a process was killed while "
               "it wrote, or the file was changed. Further events go to another file",
               path);
    gw_records_close(&records);
    return content;
}

static bool is_of_job(const char *name, const char *job) {
    const char *end = strrchr(name, '.');
    return strncmp(name, name_begin, sizeof name_begin - 1) == 0 && end != NULL && strcmp(end + 1, job) == 0;
}

/* Finds the last step that leads to this job's state, from the newest file on. In front of a step that
 * this job has written all steps lead there, because its first START has taken back those that do not.
 * Steps of other jobs lead there up to the one from which this job goes on. The function fails where there
 * are steps of others alone, and this job goes on from none. */
static bool find_last(gw_tensorboard *b, const file_names *names, gw_err *err) {
    uint64_t shown = 0, start = UINT64_MAX; /* the run's last step; the lowest START of other jobs so far */
    bool others = false;
    b->last = 0;
    b->useless = UINT64_MAX;
    if (b->fresh) {
        b->useless = names->count > 0 ? 1 : UINT64_MAX;
        return true;
    }
    for (size_t i = 0; i < names->count; i++) {
        file_content content = read_file(b, names->list[i]);
        if (!content.any) continue;
        if (!others) shown = content.last;
        if (is_of_job(names->list[i], b->job)) {
            b->last = content.last < start ? content.last : start > 0 ? start - 1 : 0;
            b->useless = others ? b->last + 1 : UINT64_MAX;
            return true;
        }
        others = true;
        if (content.start < start) start = content.start;
    }
    if (!others) return true;
    b->last = shown < b->first_step ? shown : b->first_step;
    b->useless = b->last + 1;
    return b->first_step > 0 || b->replaces ||
           gw_fail(err, GW_E_INVALID,
                   "%s has the events of another job: give this one a folder of its own, beside it or below "
                   "it (tensorboard --logdir shows all folders below the one that it is given)",
                   b->folder);
}

/* Finds the greatest number in the names of the run's files, and its last step. */
static bool look_around(gw_tensorboard *b, gw_err *err) {
    file_names names = {.list = NULL};
    bool good = gw_durable_list(gw_io_system(), b->folder, add_name, &names, err);
    if (names.count > 0) qsort(names.list, names.count, sizeof names.list[0], later_first);
    good = good && find_last(b, &names, err);
    b->newest = 0;
    for (size_t i = 0; i < names.count; i++) {
        uint64_t number;
        if (read_number(names.list[i], &number) && number > b->newest && number <= NUMBER_MOST)
            b->newest = number;
        free(names.list[i]);
    }
    free(names.list);
    return good;
}

/* The lock. */

static bool lock_run(gw_tensorboard *b, gw_err *err) {
    char path[GW_PATH_BYTES];
    if (!make_folders(b->folder, err) || !gw_durable_path(path, err, "%s/%s", b->folder, lock_name))
        return false;
    b->locked_ns = gw_now_ns();
    b->lock = gw_output_lock(path, O_NOFOLLOW, err);
    if (b->lock < 0) return false;
    if (!look_around(b, err)) {
        close(b->lock);
        b->lock = -1;
        return false;
    }
    b->starts = true;
    return true;
}

/* Asks for the lock, if it is time. What keeps the process from it is told once, as no row is lost yet. */
static bool lock_again(gw_tensorboard *b, bool now) {
    gw_err err;
    if (b->lock >= 0) return true;
    if (!now && gw_now_ns() - b->locked_ns < RETRY_NS) return false;
    if (lock_run(b, &err)) {
        gw_log(GW_INFO, "metrics", "this peer writes the events for TensorBoard in %s from here on",
               b->folder);
        return true;
    }
    b->locked_ns = gw_now_ns();
    if (!b->told && err.code != GW_E_DENIED) {
        gw_log(
            GW_WARN, "metrics",
            "%s; the job goes on, and this peer keeps its last %d steps for TensorBoard until it can write "
            "them",
            err.text, WAITING_ROWS);
        b->told = true;
    }
    return false;
}

/* Events. */

static void begin_event(gw_tensorboard *b, double time, uint64_t step) {
    gw_protobuf_clear(&b->event);
    gw_protobuf_double(&b->event, EVENT_WALL_TIME, time);
    gw_protobuf_varint(&b->event, EVENT_STEP, step);
}

/* Adds the event as a record to the bytes that are written next. */
static void end_event(gw_tensorboard *b) {
    uint8_t head[GW_RECORD_HEAD], tail[GW_RECORD_TAIL];
    gw_record_frame(b->event.bytes, b->event.count, head, tail);
    gw_protobuf_raw(&b->bytes, head, sizeof head);
    gw_protobuf_raw(&b->bytes, b->event.bytes, b->event.count);
    gw_protobuf_raw(&b->bytes, tail, sizeof tail);
    b->bytes.failed |= b->event.failed;
}

static void add_version(gw_tensorboard *b, const gw_metrics_row *row) {
    begin_event(b, row->time, 0);
    gw_protobuf_text(&b->event, EVENT_FILE_VERSION, "brain.Event:2");
    end_event(b);
}

static void add_start(gw_tensorboard *b, const gw_metrics_row *row) {
    begin_event(b, row->time, row->step < b->useless ? row->step : b->useless);
    size_t log = gw_protobuf_begin(&b->event, EVENT_SESSION_LOG);
    gw_protobuf_varint(&b->event, SESSION_LOG_STATUS, SESSION_LOG_START);
    gw_protobuf_end(&b->event, log);
    end_event(b);
}

/* Adds the text of the configuration, which the tab "Text" shows for the plugin's name in its metadata. */
static void add_configuration(gw_tensorboard *b, const gw_metrics_row *row) {
    gw_protobuf *event = &b->event;
    begin_event(b, row->time, row->step);
    size_t summary = gw_protobuf_begin(event, EVENT_SUMMARY);
    size_t value = gw_protobuf_begin(event, SUMMARY_VALUE);
    gw_protobuf_text(event, VALUE_TAG, "configuration");
    size_t tensor = gw_protobuf_begin(event, VALUE_TENSOR);
    gw_protobuf_varint(event, TENSOR_TYPE, TENSOR_TYPE_STRING);
    gw_protobuf_bytes(event, TENSOR_SHAPE, NULL, 0); /* no dimension: one text */
    gw_protobuf_text(event, TENSOR_STRING, b->configuration);
    gw_protobuf_end(event, tensor);
    size_t metadata = gw_protobuf_begin(event, VALUE_METADATA);
    size_t plugin = gw_protobuf_begin(event, METADATA_PLUGIN);
    gw_protobuf_text(event, PLUGIN_NAME, "text");
    gw_protobuf_end(event, plugin);
    gw_protobuf_varint(event, METADATA_DATA_CLASS, DATA_CLASS_TENSOR);
    gw_protobuf_end(event, metadata);
    gw_protobuf_end(event, value);
    gw_protobuf_end(event, summary);
    end_event(b);
}

/* Adds a scalar to the summary that is being written: as a float, which the readers of all versions know. */
static void add_scalar(gw_tensorboard *b, const char *group, const char *key, double number) {
    char tag[2 * GW_KEY_VALUES_KEY];
    snprintf(tag, sizeof tag, "%s/%s", group, key);
    char *clean = gw_utf8(tag, strlen(tag));
    if (clean == NULL) return;
    size_t value = gw_protobuf_begin(&b->event, SUMMARY_VALUE);
    gw_protobuf_text(&b->event, VALUE_TAG, clean);
    gw_protobuf_float(&b->event, VALUE_SIMPLE, (float)number);
    gw_protobuf_end(&b->event, value);
    free(clean);
}

static void add_step(gw_tensorboard *b, const gw_metrics_row *row) {
    bool evaluates = strcmp(row->phase, "evaluate") == 0;
    const char *rest = row->report, *value;
    char key[GW_KEY_VALUES_KEY];
    size_t length;
    double number;
    begin_event(b, row->time, row->step);
    size_t summary = gw_protobuf_begin(&b->event, EVENT_SUMMARY);
    while (gw_key_values_next(&rest, key, &value, &length))
        if (gw_key_values_number(value, length, &number))
            add_scalar(b, evaluates ? "eval" : "train", key, number);
    if (row->ms > 0) add_scalar(b, "perf", evaluates ? "evaluation_seconds" : "step_seconds", row->ms * 1e-3);
    if (row->ms > 0 && !evaluates) add_scalar(b, "perf", "shards_per_second", row->shards * 1e3 / row->ms);
    if (row->tokens_per_s > 0 && !evaluates) add_scalar(b, "perf", "tokens_per_second", row->tokens_per_s);
    add_scalar(b, "perf", "members", row->members);
    gw_protobuf_end(&b->event, summary);
    end_event(b);
}

/* Writing. */

static void close_file(gw_tensorboard *b) {
    if (b->fd < 0) return;
    if (b->end == 0) unlink(b->path);
    close(b->fd);
    b->fd = -1;
}

/* Begins a file whose name is later than those of all files that are there. */
static bool open_file(gw_tensorboard *b, gw_err *err) {
    enum { TRIES = 1000 };
    uint64_t number = gw_wall_ns() / 1000000000;
    if (number <= b->newest) number = b->newest + 1;
    for (int i = 0; i < TRIES; i++, number++) {
        if (!gw_durable_path(b->path, err, "%s/%s%0*" PRIu64 ".%s.%s.%s", b->folder, name_begin,
                             NUMBER_DIGITS, number, b->host, b->peer, b->job))
            return false;
        b->fd = open(b->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, FILE_MODE);
        if (b->fd >= 0 || errno != EEXIST) break;
    }
    if (b->fd < 0) return gw_fail_errno(err, errno, "cannot make %s", b->path);
    b->newest = number;
    b->end = 0;
    return true;
}

/* Writes the records that were put together, or none of them. */
static bool write_records(gw_tensorboard *b, gw_err *err) {
    if (b->bytes.failed) return gw_fail(err, GW_E_NOMEM, "no memory for an event of %s", b->path);
    size_t done = 0;
    while (done < b->bytes.count) {
        ssize_t count = pwrite(b->fd, b->bytes.bytes + done, b->bytes.count - done, (off_t)(b->end + done));
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) break;
        done += (size_t)count;
    }
    if (done == b->bytes.count) {
        b->end += done;
        return true;
    }
    gw_fail_errno(err, errno, "cannot write %s", b->path);
    if (ftruncate(b->fd, (off_t)b->end) != 0) close_file(b); /* what follows a torn record is not read */
    return false;
}

static bool write_row(gw_tensorboard *b, const gw_metrics_row *row, gw_err *err) {
    b->starts |= row->step <= b->last;
    if (b->fd >= 0 && b->end >= FILE_BYTES) close_file(b);
    if (b->fd < 0 && !open_file(b, err)) return false;
    gw_protobuf_clear(&b->bytes);
    if (b->end == 0) add_version(b, row);
    if (b->starts) {
        add_start(b, row);
        add_configuration(b, row);
    }
    add_step(b, row);
    if (!write_records(b, err)) return false;
    b->last = row->step;
    b->useless = UINT64_MAX;
    b->starts = b->fresh = false;
    return true;
}

/* Rows that wait. */

/* Keeps a copy of the row; where there is no room the oldest goes. */
static void keep_row(gw_tensorboard *b, const gw_metrics_row *row) {
    if (b->waiting == NULL) b->waiting = calloc(WAITING_ROWS, sizeof *b->waiting);
    if (b->waiting == NULL) return;
    while (b->waiting_count > 0) {
        uint32_t newest = (b->waiting_first + b->waiting_count - 1) % WAITING_ROWS;
        if (b->waiting[newest].row.step < row->step) break;
        b->waiting_count--;
        if (row->step < b->went_back) b->went_back = row->step;
    }
    if (b->waiting_count == WAITING_ROWS) {
        b->waiting_first = (b->waiting_first + 1) % WAITING_ROWS;
        b->waiting_count--;
    }
    waiting_row *kept = &b->waiting[(b->waiting_first + b->waiting_count++) % WAITING_ROWS];
    kept->row = *row;
    snprintf(kept->report, sizeof kept->report, "%s", row->report);
}

/* Writes the rows that wait, but for those of steps that the process before this one has written. Those
 * that were made again since then replace what it wrote. */
static bool write_waiting(gw_tensorboard *b, gw_err *err) {
    for (; b->waiting_count > 0; b->waiting_count--) {
        waiting_row *oldest = &b->waiting[b->waiting_first];
        oldest->row.report = oldest->report;
        bool again = oldest->row.step >= b->went_back;
        if ((oldest->row.step > b->last || again) && !write_row(b, &oldest->row, err)) return false;
        b->waiting_first = (b->waiting_first + 1) % WAITING_ROWS;
    }
    b->went_back = UINT64_MAX;
    return true;
}

/* Gives up the file and the lock where one of them is no longer in the folder: somebody has moved or removed
 * it, and another process may have made a new one. */
static void follow_removal(gw_tensorboard *b) {
    struct stat ours, named;
    if (b->fd < 0 || fstat(b->fd, &ours) != 0) return;
    bool there = stat(b->path, &named) == 0;
    if (!there && errno != ENOENT && errno != ENOTDIR && errno != ESTALE) return;
    there = there && named.st_ino == ours.st_ino && named.st_dev == ours.st_dev;
    if (there && fstat(b->lock, &ours) == 0 && ours.st_nlink > 0) return;
    gw_log(GW_INFO, "metrics",
           "%s or the lock beside it was removed or moved away; further events go to a new file", b->path);
    close(b->fd);
    b->fd = -1;
    close(b->lock);
    b->lock = -1;
    b->locked_ns = 0;
}

bool gw_tensorboard_add(gw_tensorboard *b, const gw_metrics_row *row, gw_err *err) {
    GW_ASSERT(row->step >= 1);
    follow_removal(b);
    if (lock_again(b, false) && b->waiting_count == 0) return write_row(b, row, err);
    keep_row(b, row);
    return b->lock < 0 || write_waiting(b, err);
}

/* Opening. */

gw_tensorboard *gw_tensorboard_open(const char *dir, gw_err *err) {
    gw_tensorboard *b = calloc(1, sizeof *b);
    if (b == NULL) {
        gw_fail(err, GW_E_NOMEM, "%s: out of memory", dir);
        return NULL;
    }
    b->fd = b->lock = -1;
    b->went_back = UINT64_MAX;
    if (gw_durable_path(b->folder, err, "%s", dir) && make_folders(dir, err)) {
        if (access(dir, W_OK | X_OK) == 0) return b;
        gw_fail_errno(err, errno, "cannot write to %s", dir);
    }
    gw_tensorboard_close(b);
    return NULL;
}

/* Writes a text so that Markdown shows it as it is, in a cell of a table. */
static void put_cell(FILE *out, const char *text, size_t length) {
    for (size_t i = 0; i < length; i++) {
        if (strchr("\\`*_[]<|~", text[i]) != NULL && text[i] != '\0') fputc('\\', out);
        if (text[i] == '&')
            fputs("&amp;", out);
        else
            fputc(text[i], out);
    }
}

/* Returns lines "name=value" as a table in Markdown, which TensorBoard shows. */
static char *table_of(const char *lines) {
    char *text = NULL, *clean;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    GW_ASSERT_MEMORY(out != NULL);
    fputs("| | |\n|---|---|\n", out);
    for (const char *line = lines; *line != '\0';) {
        size_t length = strcspn(line, "\n");
        const char *equals = memchr(line, '=', length);
        size_t name = equals != NULL ? (size_t)(equals - line) : length;
        fputs("| ", out);
        put_cell(out, line, name);
        fputs(" | ", out);
        if (equals != NULL) put_cell(out, equals + 1, length - name - 1);
        fputs(" |\n", out);
        line += length + (line[length] == '\n');
    }
    GW_ASSERT_MEMORY(fclose(out) == 0);
    clean = gw_utf8(text, size);
    GW_ASSERT_MEMORY(clean != NULL);
    free(text);
    return clean;
}

bool gw_tensorboard_begin(gw_tensorboard *b, const gw_tensorboard_run *run, gw_err *err) {
    char host[sizeof b->host] = "";
    plain_name(run->peer, b->peer, sizeof b->peer);
    (void)gethostname(host, sizeof host - 1);
    plain_name(host[0] != '\0' ? host : "host", b->host, sizeof b->host);
    snprintf(b->job, sizeof b->job, "%s", run->job);
    b->configuration = table_of(run->configuration);
    b->first_step = run->first_step;
    b->fresh = b->replaces = run->fresh;
    bool locked = lock_run(b, err);
    if (!locked && err->code != GW_E_DENIED) return false;
    if (!locked) {
        b->fresh = false; /* another peer begins the run anew */
        if (!look_around(b, err)) return false;
    }
    b->last_at_begin = b->last;
    if (locked)
        gw_log(GW_INFO, "metrics", "events for TensorBoard in %s", b->folder);
    else
        gw_log(GW_INFO, "metrics",
               "another process writes the events for TensorBoard in %s, as one peer does for all that share "
               "the folder; this peer goes on when that process ends",
               b->folder);
    return true;
}

uint64_t gw_tensorboard_last(const gw_tensorboard *b) {
    return b->last_at_begin;
}

void gw_tensorboard_close(gw_tensorboard *b) {
    gw_err err;
    if (b == NULL) return;
    if (b->waiting_count > 0 && lock_again(b, true) && !write_waiting(b, &err))
        gw_log(GW_WARN, "metrics", "%s; the last steps are missing there", err.text);
    close_file(b);
    if (b->lock >= 0) close(b->lock);
    gw_protobuf_free(&b->event);
    gw_protobuf_free(&b->bytes);
    free(b->waiting);
    free(b->configuration);
    free(b);
}
