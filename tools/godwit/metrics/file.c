#include "tools/godwit/metrics/file.h"

#include "core/base/assert.h"
#include "core/base/log.h"
#include "core/os/output.h"
#include "tools/godwit/text/json.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The columns that every row begins with. */
/* Stands before a job's id in CSV: whoever reads a column would take an id such as 12345678 or 12e45678
 * for a number. */
enum { JOB_MARK = 'j' };

static const char *const fixed[] = {"step", "job", "phase", "time", "ms", "members", "shards"};
enum { FIXED = sizeof fixed / sizeof fixed[0], JOB = 1, LINE = 2000, ROW_BEGIN = 100, BLOCK = 4096 };

static const char json_begin[] = "{\"step\":", json_job[] = ",\"job\":\"";

bool gw_metrics_format_of(const char *path, gw_metrics_format *format, gw_err *err) {
    const char *dot = strrchr(path, '.');
    *format = dot != NULL && strcmp(dot, ".csv") == 0 ? GW_METRICS_CSV : GW_METRICS_JSON;
    if (*format == GW_METRICS_CSV || (dot != NULL && strcmp(dot, ".jsonl") == 0)) return true;
    return gw_fail(err, GW_E_USAGE, "'%s' ends with neither .csv nor .jsonl", path);
}

/* Reading the rows that are there. */

/* Reads step and job of a row; false = the line is no row. */
static bool read_row(const gw_metrics_file *file, const char *line, uint64_t *step, const char **job) {
    bool json = file->format == GW_METRICS_JSON;
    const char *digits = json ? line + sizeof json_begin - 1 : line;
    const char *between = json ? json_job : ",";
    if (json && strncmp(line, json_begin, sizeof json_begin - 1) != 0) return false;
    if (*digits < '1' || *digits > '9') return false;
    char *end;
    errno = 0;
    *step = strtoull(digits, &end, 10);
    if (errno != 0 || strncmp(end, between, strlen(between)) != 0) return false;
    *job = end + strlen(between);
    if (!json && **job == JOB_MARK) (*job)++; /* files of older builds are without it */
    return strspn(*job, "0123456789abcdef") >= sizeof file->job - 1;
}

static void add_column(gw_metrics_file *file, const char *name) {
    char *column = file->column[file->columns++];
    snprintf(column, sizeof file->column[0], "%s", name);
}

/* Reads the header of a CSV file; false unless it begins with the fixed columns. */
static bool read_header(gw_metrics_file *file, const char *line) {
    char copy[LINE], *rest = copy, *name;
    if (strlen(line) >= sizeof copy) return false;
    snprintf(copy, sizeof copy, "%.*s", (int)strcspn(line, "\r\n"), line);
    file->columns = 0;
    while ((name = strsep(&rest, ",")) != NULL) {
        if (file->columns == GW_METRICS_COLUMNS || name[0] == '\0' || strlen(name) >= GW_KEY_VALUES_KEY)
            return false;
        add_column(file, name);
    }
    for (uint32_t i = 0; i < FIXED; i++)
        if (file->columns <= i || strcmp(file->column[i], fixed[i]) != 0) return false;
    return true;
}

static bool read_at(const gw_metrics_file *file, char *bytes, size_t count, uint64_t at, gw_err *err) {
    for (size_t done = 0; done < count;) {
        ssize_t got = pread(file->fd, bytes + done, count - done, (off_t)(at + done));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return gw_fail_errno(err, errno, "cannot read %s", file->path);
        if (got == 0) return gw_fail(err, GW_E_IO, "%s became shorter while it was read", file->path);
        done += (size_t)got;
    }
    return true;
}

/* Finds the beginning of the line that ends at `end` (behind its newline), but not before `least`. */
static bool find_begin(const gw_metrics_file *file, uint64_t least, uint64_t end, uint64_t *begin,
                       gw_err *err) {
    char block[BLOCK];
    uint64_t at = end - 1;
    while (at > least) {
        size_t count = at - least < sizeof block ? (size_t)(at - least) : sizeof block;
        if (!read_at(file, block, count, at - count, err)) return false;
        const char *newline = memrchr(block, '\n', count);
        if (newline != NULL) {
            *begin = at - count + (uint64_t)(newline - block) + 1;
            return true;
        }
        at -= count;
    }
    *begin = least;
    return true;
}

static bool no_row(const gw_metrics_file *file, uint64_t at, gw_err *err) {
    return gw_fail(err, GW_E_INVALID, "%s: there is no row of metrics at byte %" PRIu64 "; give another file",
                   file->path, at);
}

/* Finds the beginning of the first row; `whole` is the end of the last whole line. */
static bool scan_header(gw_metrics_file *file, uint64_t whole, uint64_t *rows, gw_err *err) {
    char line[LINE];
    size_t count = whole < LINE ? (size_t)whole : LINE;
    *rows = 0;
    file->columns = 0;
    if (file->format != GW_METRICS_CSV || whole == 0) return true;
    if (!read_at(file, line, count, 0, err)) return false;
    char *newline = memchr(line, '\n', count);
    if (newline == NULL) return no_row(file, 0, err);
    *newline = '\0';
    if (!read_header(file, line)) return no_row(file, 0, err);
    *rows = (uint64_t)(newline - line) + 1;
    return true;
}

/* The name of a copy that is made before rows of a job are cut off: of a.csv it is a.0123abcd.csv, or
 * a.0123abcd-2.csv. The caller frees it. */
static char *copy_name(const gw_metrics_file *file, const char *job, int number) {
    const char *dot = strrchr(file->path, '.');
    char counted[12] = "", *name;
    GW_ASSERT(dot != NULL);
    if (number > 1) snprintf(counted, sizeof counted, "-%d", number);
    GW_ASSERT_MEMORY(asprintf(&name, "%.*s.%s%s%s", (int)(dot - file->path), file->path, job, counted, dot) >=
                     0);
    return name;
}

/* Reads the step of a row, and whether it stays: it is of this job, or of the one from whose state this
 * job goes on and not of a later step. */
static bool scan_row(gw_metrics_file *file, uint64_t begin, uint64_t end, uint64_t *step, bool *stays,
                     gw_err *err) {
    char line[ROW_BEGIN + 1] = "";
    const char *job;
    size_t count = end - begin < ROW_BEGIN ? (size_t)(end - begin) : ROW_BEGIN;
    if (!read_at(file, line, count, begin, err)) return false;
    line[count] = '\0';
    if (!read_row(file, line, step, &job)) return no_row(file, begin, err);
    *stays = strncmp(job, file->job, strlen(file->job)) == 0 || *step <= file->first_step;
    if (!*stays) snprintf(file->cut_job, sizeof file->cut_job, "%s", job);
    return true;
}

/* Refuses a file that another job has begun, where this job goes on from nothing. */
static bool refuse_other_job(const gw_metrics_file *file, const char *other, gw_err *err) {
    char *copy = copy_name(file, file->job, 1);
    bool kept = access(copy, F_OK) == 0;
    gw_fail(err, GW_E_INVALID,
            "%s: the file holds rows of another job (%.8s, this job is %s): give another file%s%s, or move "
            "this one away",
            file->path, other, file->job, kept ? ", as the one with this job's rows, " : "",
            kept ? copy : "");
    free(copy);
    return false;
}

/* Finds the end of the rows before step `before`, and the last of those rows. It reads from the end of the
 * file, because steps rise and the file of a run of weeks is large. On failure *file does not change. */
static bool scan(gw_metrics_file *file, uint64_t before, gw_err *err) {
    gw_metrics_file found = *file;
    struct stat stat;
    uint64_t whole, rows, begin, step;
    bool stays = false;
    if (fstat(file->fd, &stat) != 0) return gw_fail_errno(err, errno, "cannot read %s", file->path);
    if (!find_begin(file, 0, (uint64_t)stat.st_size + 1, &whole, err)) return false;
    if (!scan_header(&found, whole, &rows, err)) return false;
    if (rows < whole) {
        if (!scan_row(&found, rows, whole, &step, &stays, err)) return false;
        if (!stays && found.first_step == 0) return refuse_other_job(file, found.cut_job, err);
    }
    found.last = 0;
    found.end = whole;
    while (found.last == 0 && found.end > rows) {
        if (!find_begin(file, rows, found.end, &begin, err)) return false;
        if (!scan_row(&found, begin, found.end, &step, &stays, err)) return false;
        if (step < before && stays)
            found.last = step;
        else
            found.end = begin;
    }
    found.torn = true; /* perhaps: the next row cuts off what follows */
    *file = found;
    return true;
}

/* Opening. */

/* Renames a file that begins with zeros to *.cut, and begins a new one. Such a file was emptied while
 * another program went on writing at its old position: zeros fill the gap, and the rows behind them have
 * no header. */
static bool put_aside(gw_metrics_file *file, gw_err *err) {
    char first = '1', *target = realpath(file->path, NULL), *aside = NULL;
    if (pread(file->fd, &first, 1, 0) < 0 || target == NULL) {
        free(target);
        return gw_fail_errno(err, errno, "cannot read %s", file->path);
    }
    bool good = true;
    if (first == '\0') {
        GW_ASSERT_MEMORY(asprintf(&aside, "%s.cut", target) >= 0);
        good = access(aside, F_OK) != 0 ||
               gw_fail(err, GW_E_INVALID, "%s begins with zeros, and %s exists already: remove one of them",
                       file->path, aside);
        if (good && rename(target, aside) != 0)
            good = gw_fail_errno(err, errno, "cannot rename %s", file->path);
    }
    if (good && aside != NULL) {
        gw_log(GW_WARN, "metrics",
               "%s begins with zeros, because it was emptied while another program wrote to it: it is "
               "renamed to %s, and a new file is begun",
               file->path, aside);
        close(file->fd);
        file->fd = gw_output_lock(file->path, 0, err);
        good = file->fd >= 0;
    }
    free(aside);
    free(target);
    return good;
}

bool gw_metrics_file_hold(const char *path, gw_metrics_file *file, gw_err *err) {
    *file = (gw_metrics_file){.fd = -1};
    if (!gw_metrics_format_of(path, &file->format, err)) return false;
    file->path = strdup(path);
    bool good = file->path != NULL || gw_fail(err, GW_E_NOMEM, "%s: out of memory", path);
    file->made = access(path, F_OK) != 0;
    if (good) file->fd = gw_output_lock(path, 0, err);
    if (good && file->fd < 0 && err->code == GW_E_DENIED)
        gw_fail(err, GW_E_DENIED, "%s: another process writes to it; every peer needs a file of its own",
                path);
    good = file->fd >= 0 && put_aside(file, err) && scan(file, UINT64_MAX, err);
    if (!good) gw_metrics_file_close(file);
    return good;
}

bool gw_metrics_file_begin(gw_metrics_file *file, const char *job, uint64_t first_step, bool fresh,
                           gw_err *err) {
    file->first_step = first_step;
    snprintf(file->job, sizeof file->job, "%s", job);
    GW_ASSERT(strlen(file->job) == sizeof file->job - 1);
    if (!scan(file, UINT64_MAX, err)) return false;
    if (fresh) file->end = file->last = file->columns = 0;
    return true;
}

bool gw_metrics_file_open(const char *path, const char *job, uint64_t first_step, bool fresh,
                          gw_metrics_file *file, gw_err *err) {
    if (!gw_metrics_file_hold(path, file, err)) return false;
    if (gw_metrics_file_begin(file, job, first_step, fresh, err)) return true;
    gw_metrics_file_close(file);
    return false;
}

void gw_metrics_file_close(gw_metrics_file *file) {
    struct stat ours, named;
    bool unused = file->fd >= 0 && file->made && fstat(file->fd, &ours) == 0 && ours.st_size == 0;
    unused =
        unused && stat(file->path, &named) == 0 && ours.st_ino == named.st_ino && ours.st_dev == named.st_dev;
    if (unused) unlink(file->path); /* the lock is held: nobody else writes it */
    if (file->fd >= 0) close(file->fd);
    free(file->path);
    *file = (gw_metrics_file){.fd = -1};
}

/* Writing. */

static bool write_at(int fd, const char *bytes, size_t count, uint64_t at) {
    while (count > 0) {
        ssize_t written = pwrite(fd, bytes, count, (off_t)at);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return false;
        bytes += written;
        at += (uint64_t)written;
        count -= (size_t)written;
    }
    return true;
}

/* Appends all of the text, or nothing of it. */
static bool append(gw_metrics_file *file, const char *text, size_t length, gw_err *err) {
    if (file->torn && ftruncate(file->fd, (off_t)file->end) != 0)
        return gw_fail_errno(err, errno, "cannot shorten %s", file->path);
    file->torn = !write_at(file->fd, text, length, file->end);
    if (!file->torn) {
        file->end += length;
        return true;
    }
    int reason = errno;
    file->torn = ftruncate(file->fd, (off_t)file->end) != 0;
    return gw_fail_errno(err, reason, "cannot write %s", file->path);
}

static bool is_fixed(const char *key) {
    for (uint32_t i = 0; i < FIXED; i++)
        if (strcmp(fixed[i], key) == 0) return true;
    return false;
}

static char *json_row(const gw_metrics_file *file, const gw_metrics_row *row) {
    json_t *object = json_object();
    gw_json_count(object, "step", row->step);
    gw_json_text(object, "job", file->job);
    gw_json_text(object, "phase", row->phase);
    gw_json_real(object, "time", row->time);
    gw_json_real(object, "ms", round(row->ms * 1e6) / 1e6); /* whole nanoseconds */
    gw_json_count(object, "members", row->members);
    gw_json_count(object, "shards", row->shards);
    char key[GW_KEY_VALUES_KEY];
    const char *rest = row->report, *value;
    size_t length;
    while (gw_key_values_next(&rest, key, &value, &length))
        if (!is_fixed(key)) gw_json_value(object, key, value, length);
    char *text = gw_json_line(object), *line = NULL;
    json_decref(object);
    if (text == NULL || asprintf(&line, "%s\n", text) < 0) line = NULL;
    free(text);
    return line;
}

static uint32_t column_named(const gw_metrics_file *file, const char *key) {
    for (uint32_t i = 0; i < file->columns; i++)
        if (strcmp(file->column[i], key) == 0) return i;
    return UINT32_MAX;
}

/* Adds columns for the report's keys that have none, as far as there is room; returns how many. */
static uint32_t take_columns(gw_metrics_file *file, const char *report) {
    char key[GW_KEY_VALUES_KEY];
    const char *rest = report, *value;
    size_t length;
    uint32_t before = file->columns;
    while (gw_key_values_next(&rest, key, &value, &length))
        if (file->columns < GW_METRICS_COLUMNS && strpbrk(key, ",\"") == NULL &&
            column_named(file, key) == UINT32_MAX)
            add_column(file, key);
    return file->columns - before;
}

static void put_header(const gw_metrics_file *file, FILE *out) {
    for (uint32_t i = 0; i < file->columns; i++) fprintf(out, "%s%s", i > 0 ? "," : "", file->column[i]);
    fputc('\n', out);
}

/* Writes a cell, in quotes where RFC 4180 demands it; a line break becomes a space. */
static void put_cell(FILE *out, const char *value, size_t length) {
    bool quoted = memchr(value, ',', length) != NULL || memchr(value, '"', length) != NULL;
    if (quoted) fputc('"', out);
    for (size_t i = 0; i < length; i++) {
        if (value[i] == '"') fputc('"', out);
        fputc(value[i] == '\n' || value[i] == '\r' ? ' ' : value[i], out);
    }
    if (quoted) fputc('"', out);
}

static void put_row(const gw_metrics_file *file, const gw_metrics_row *row, FILE *out) {
    fprintf(out, "%" PRIu64 ",%c%s,%s,%.3f,%.3f,%" PRIu32 ",%" PRIu32, row->step, JOB_MARK, file->job,
            row->phase, row->time, row->ms, row->members, row->shards);
    for (uint32_t i = FIXED; i < file->columns; i++) {
        char key[GW_KEY_VALUES_KEY];
        const char *rest = row->report, *value;
        size_t length;
        fputc(',', out);
        while (gw_key_values_next(&rest, key, &value, &length))
            if (strcmp(key, file->column[i]) == 0) {
                put_cell(out, value, length);
                break;
            }
    }
    fputc('\n', out);
}

/* Reads the file line by line from its beginning, through a descriptor of its own. */
typedef struct lines {
    FILE *in;
    char *text;
    size_t room;
    uint64_t begin, end, number; /* begin, end and number of the line that was read last */
    int error;                   /* errno of a read that failed; 0 = none */
} lines;

static bool lines_open(const gw_metrics_file *file, lines *l, gw_err *err) {
    *l = (lines){.in = fopen(file->path, "re")};
    return l->in != NULL || gw_fail_errno(err, errno, "cannot read %s", file->path);
}

/* Reads the next line; false where there is no further whole line, or it cannot be read (lines_read). */
static bool lines_next(lines *l) {
    ssize_t length = getline(&l->text, &l->room, l->in);
    if (length <= 0 || l->text[length - 1] != '\n') {
        if (!feof(l->in)) l->error = errno;
        return false;
    }
    l->begin = l->end;
    l->end += (uint64_t)length;
    l->number++;
    return true;
}

/* Fails where a read failed: taking that for the end would lose the rows that follow. */
static bool lines_read(const gw_metrics_file *file, const lines *l, gw_err *err) {
    return l->error == 0 || gw_fail_errno(err, l->error, "cannot read %s", file->path);
}

static void lines_close(lines *l) {
    fclose(l->in);
    free(l->text);
}

/* Writes the file again with a longer header and `added` empty cells at the end of every row. */
static bool widen(gw_metrics_file *file, uint32_t added, gw_err *err) {
    gw_output output;
    lines l;
    if (!gw_output_open(file->path, &output, err)) return false;
    int fd = fcntl(output.fd, F_DUPFD_CLOEXEC, 0); /* both descriptors share the lock */
    FILE *out = fd >= 0 ? fdopen(dup(fd), "w") : NULL;
    bool good = out != NULL || gw_fail_errno(err, errno, "cannot write %s", output.partial);
    good = good && lines_open(file, &l, err);
    if (good) {
        put_header(file, out);
        lines_next(&l);
        while (l.end < file->end && lines_next(&l)) {
            fwrite(l.text, 1, (size_t)(l.end - l.begin) - 1, out);
            for (uint32_t i = 0; i < added; i++) fputc(',', out);
            fputc('\n', out);
        }
        good = lines_read(file, &l, err);
        lines_close(&l);
    }
    long end = good ? ftell(out) : 0;
    bool failed = out != NULL && ferror(out) != 0;
    if (out != NULL && (fclose(out) != 0 || failed) && good)
        good = gw_fail_errno(err, errno, "cannot write %s", output.partial);
    good = gw_output_end(&output, good, err);
    if (good) {
        close(file->fd);
        file->fd = fd;
        file->end = (uint64_t)end;
    } else if (fd >= 0) {
        close(fd);
    }
    return good;
}

static bool add_csv(gw_metrics_file *file, const gw_metrics_row *row, gw_err *err) {
    bool first = file->columns == 0;
    if (first)
        while (file->columns < FIXED) add_column(file, fixed[file->columns]);
    uint32_t added = take_columns(file, row->report);
    if (!first && added > 0 && !widen(file, added, err)) {
        file->columns -= added;
        return false;
    }
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    GW_ASSERT_MEMORY(out != NULL);
    if (first) put_header(file, out);
    put_row(file, row, out);
    bool good = fclose(out) == 0 ? append(file, text, length, err)
                                 : gw_fail(err, GW_E_NOMEM, "no memory for a row of %s", file->path);
    if (!good && first) file->columns = 0;
    free(text);
    return good;
}

/* Opens a new file of that name: log rotation has moved the old one away or removed it. */
static bool reopen(gw_metrics_file *file, gw_err *err) {
    gw_metrics_file named;
    if (!gw_metrics_file_open(file->path, file->job, file->first_step, false, &named, err)) return false;
    gw_log(GW_INFO, "metrics", "%s was moved away; further rows go to a new file of that name", file->path);
    gw_metrics_file_close(file);
    *file = named;
    return true;
}

/* Follows log rotation, which moves the file away, or copies and empties it. A row written at the old end
 * of an emptied file would leave a gap in front of it. */
static bool follow_rotation(gw_metrics_file *file, gw_err *err) {
    struct stat ours, named;
    if (fstat(file->fd, &ours) != 0) return gw_fail_errno(err, errno, "cannot write %s", file->path);
    bool there = stat(file->path, &named) == 0;
    if (!there && errno != ENOENT) return gw_fail_errno(err, errno, "cannot write %s", file->path);
    if (!there || named.st_ino != ours.st_ino || named.st_dev != ours.st_dev) return reopen(file, err);
    if ((uint64_t)ours.st_size >= file->end) return true;
    if (!scan(file, UINT64_MAX, err)) return false;
    gw_log(GW_WARN, "metrics", "%s was shortened by another process; further rows follow what is left",
           file->path);
    return true;
}

/* Opens a new file beside the file of rows (copy_name). Sets *name, which the caller frees. */
static int open_copy(const gw_metrics_file *file, char **name, gw_err *err) {
    enum { MOST = 100 };
    for (int i = 1; i < MOST; i++) {
        *name = copy_name(file, file->cut_job, i);
        int fd = open(*name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0) return fd;
        if (errno != EEXIST || i + 1 == MOST) gw_fail_errno(err, errno, "cannot make %s", *name);
        free(*name);
        if (errno != EEXIST) break;
    }
    *name = NULL;
    return -1;
}

/* Keeps a copy of the file before rows of another job are cut off. */
static bool keep_copy(gw_metrics_file *file, gw_err *err) {
    char bytes[16384], *name;
    int to = open_copy(file, &name, err);
    if (to < 0) return false;
    bool good = true;
    ssize_t count;
    for (off_t at = 0; good && (count = pread(file->fd, bytes, sizeof bytes, at)) != 0; at += count)
        good = (count > 0 && write_at(to, bytes, (size_t)count, (uint64_t)at)) ||
               gw_fail_errno(err, errno, "cannot copy %s to %s", file->path, name);
    if (close(to) != 0 && good) good = gw_fail_errno(err, errno, "cannot write %s", name);
    if (good)
        gw_log(GW_INFO, "metrics",
               "%s has rows of job %s behind step %" PRIu64
               ": a copy of the whole file is in %s, and this job's rows take their place",
               file->path, file->cut_job, file->last, name);
    else
        unlink(name);
    free(name);
    if (good) file->cut_job[0] = '\0';
    return good;
}

bool gw_metrics_file_add(gw_metrics_file *file, const gw_metrics_row *row, gw_err *err) {
    GW_ASSERT(row->step >= 1);
    if (!follow_rotation(file, err)) return false;
    if (file->cut_job[0] != '\0' && !keep_copy(file, err)) return false;
    if (row->step <= file->last) {
        if (!scan(file, row->step, err)) return false;
        if (ftruncate(file->fd, (off_t)file->end) != 0)
            return gw_fail_errno(err, errno, "cannot shorten %s", file->path);
    }
    bool good;
    if (file->format == GW_METRICS_CSV) {
        good = add_csv(file, row, err);
    } else {
        char *line = json_row(file, row);
        good = line != NULL ? append(file, line, strlen(line), err)
                            : gw_fail(err, GW_E_NOMEM, "no memory for a row of %s", file->path);
        free(line);
    }
    if (good) file->last = row->step;
    return good;
}
