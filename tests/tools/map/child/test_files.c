/* The files of a map's child: rows and outputs come back after a crash, up to what it has torn off. */
#include "core/os/clock.h"
#include "tools/godwit/flock/children.h"
#include "tools/godwit/map/child/outputs.h"
#include "tools/godwit/map/child/row_log.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ROWS = 10 };

static const gw_map_origin one = {{{1}}, 11}, two = {{{2}}, 22};

typedef struct seen {
    uint64_t rows[2], committed[2], durable[2];
    uint32_t most; /* rows that are taken */
    gw_err err;
} seen;

static int which(const gw_map_origin *origin) {
    return memcmp(origin, &two, sizeof two) == 0;
}

static bool see_rows(void *context, const gw_map_origin *origin, uint64_t first, const gw_map_row *rows,
                     uint32_t count) {
    seen *s = context;
    int at = which(origin);
    cr_assert_eq(first, s->rows[at]);
    if (first + count > s->most) return false;
    for (uint32_t i = 0; i < count; i++) cr_assert_eq(rows[i].task, first + i);
    s->rows[at] += count;
    return true;
}

static void see_commit(void *context, const gw_map_origin *origin, uint64_t count) {
    ((seen *)context)->committed[which(origin)] = count;
}

static void see_durable(void *context, const gw_map_origin *origin, uint64_t count) {
    ((seen *)context)->durable[which(origin)] = count;
}

static void see_failure(void *context, const gw_err *err) {
    ((seen *)context)->err = *err;
}

typedef struct place {
    char folder[64], rows[100], outputs[100];
    gw_loop *loop;
    int fd;
    uint64_t end;
} place;

static place open_place(void) {
    place p = {.folder = "/tmp/godwit-child-XXXXXX"};
    gw_err err;
    cr_assert_not_null(mkdtemp(p.folder));
    snprintf(p.rows, sizeof p.rows, "%s/rows", p.folder);
    snprintf(p.outputs, sizeof p.outputs, "%s/outputs", p.folder);
    p.loop = gw_loop_open(&err);
    p.fd = gw_outputs_open(p.folder, GW_CHILD_OUTPUTS, &p.end, &err);
    cr_assert(p.loop != NULL && p.fd >= 0, "%s", err.text);
    return p;
}

static void close_place(place *p) {
    close(p->fd);
    gw_loop_close(p->loop);
    unlink(p->rows);
    unlink(p->outputs);
    rmdir(p->folder);
}

static gw_row_log *open_log(place *p, seen *s, gw_err *err) {
    gw_row_log_reader reader = {s, see_rows, see_commit};
    gw_row_log_events events = {s, see_durable, see_failure};
    return gw_row_log_open(p->loop, p->folder, &reader, &events, err);
}

static void add(gw_row_log *log, const gw_map_origin *origin, uint64_t first, uint32_t count) {
    gw_map_row rows[ROWS];
    for (uint32_t i = 0; i < count; i++)
        rows[i] = (gw_map_row){
            .task = (uint32_t)first + i, .outcome = GW_MAP_SUCCESS, .attempt = 1, .who = origin->peer};
    gw_row_log_add(log, origin, first, rows, count);
}

static off_t size_of(const char *path) {
    struct stat status;
    return stat(path, &status) == 0 ? status.st_size : -1;
}

Test(files, rows_come_back_and_a_torn_end_is_cut_off) {
    place p = open_place();
    seen s = {.most = 100};
    gw_err err;
    gw_row_log *log = open_log(&p, &s, &err);
    cr_assert_not_null(log, "%s", err.text);
    add(log, &one, 0, 4);
    add(log, &two, 0, 3);
    gw_row_log_commit(log, &one, 2);
    cr_assert(gw_row_log_close(log, 5000000000u));
    cr_assert(s.durable[0] == 4 && s.durable[1] == 3, "closing has written it");
    off_t whole = size_of(p.rows);
    for (off_t torn = 1; torn <= 20; torn += 19) { /* bytes that are gone */
        s = (seen){.most = 100};
        cr_assert_eq(truncate(p.rows, whole - torn), 0);
        log = open_log(&p, &s, &err);
        cr_assert_not_null(log, "%s", err.text);
        cr_assert(s.rows[0] == 4 && s.rows[1] == 3 && s.committed[0] == 0, "only the last entry is lost");
        gw_row_log_commit(log, &one, 2);
        cr_assert(gw_row_log_close(log, 5000000000u));
        cr_assert_eq(size_of(p.rows), whole);
    }
    s = (seen){.most = 100};
    log = open_log(&p, &s, &err);
    cr_assert_eq(s.committed[0], 2);
    cr_assert(gw_row_log_close(log, 5000000000u));
    close_place(&p);
}

Test(files, rows_end_where_they_are_damaged_or_make_no_sense) {
    place p = open_place();
    seen s = {.most = 100};
    gw_err err;
    gw_row_log *log = open_log(&p, &s, &err);
    add(log, &one, 0, 4);
    add(log, &two, 0, 3);
    cr_assert(gw_row_log_close(log, 5000000000u));
    s = (seen){.most = 3}; /* the reader takes no more */
    log = open_log(&p, &s, &err);
    cr_assert_not_null(log, "%s", err.text);
    cr_assert(s.rows[0] == 0 && s.rows[1] == 0);
    cr_assert(gw_row_log_close(log, 5000000000u));
    cr_assert_eq(size_of(p.rows), GW_ROW_LOG_HEAD_BYTES, "what follows them is not kept either");
    int fd = open(p.rows, O_WRONLY);
    cr_assert_eq(pwrite(fd, "X", 1, 0), 1);
    close(fd);
    cr_assert_null(open_log(&p, &s, &err));
    cr_assert_eq(err.code, GW_E_UNSUPPORTED, "%s", err.text);
    close_place(&p);
}

Test(files, outputs_come_back_and_a_torn_end_is_cut_off) {
    place p = open_place();
    gw_err err;
    gw_map_store *store = gw_map_store_open(p.folder, 1 << 20, &err);
    gw_map_written large = {.output = {.bytes = NULL}}, small = {.output = {.bytes = NULL}};
    static uint8_t many[3 * GW_MAP_PIECE_BYTES + 5];
    memset(many, 'm', sizeof many);
    cr_assert(gw_map_output_add(store, &large.output, many, sizeof many, &err));
    cr_assert(gw_map_output_add(store, &large.errors, "oh", 2, &err));
    cr_assert(gw_outputs_add(p.fd, &p.end, store, 7, 1, &large, &err), "%s", err.text);
    cr_assert(gw_map_output_add(store, &small.output, "oh", 2, &err) &&
              gw_map_output_add(store, &small.errors, "ah", 2, &err) &&
              gw_map_output_add(store, &small.files, "abc", 3, &err));
    off_t first = size_of(p.outputs);
    cr_assert_eq(first, (off_t)(GW_OUTPUTS_HEAD_BYTES + sizeof many + 2));
    cr_assert(gw_outputs_add(p.fd, &p.end, store, 8, 2, &small, &err));
    cr_assert_eq(truncate(p.outputs, size_of(p.outputs) - 1), 0);
    close(p.fd);
    p.fd = gw_outputs_open(p.folder, GW_CHILD_OUTPUTS, &p.end, &err);
    cr_assert(p.fd >= 0, "%s", err.text);
    cr_assert(size_of(p.outputs) == first && p.end == (uint64_t)first);
    cr_assert(gw_outputs_add(p.fd, &p.end, store, 9, 3, &small, &err));
    uint8_t head[GW_OUTPUTS_HEAD_BYTES];
    gw_outputs_head read;
    int fd = open(p.outputs, O_RDONLY);
    cr_assert_eq(pread(fd, head, sizeof head, first), (ssize_t)sizeof head);
    cr_assert(gw_outputs_read_head(head, &read) && read.task == 9 && read.attempt == 3 && read.output == 2 &&
              read.errors == 2 && read.files == 3);
    close(fd);
    head[0] = 'X';
    cr_assert(!gw_outputs_read_head(head, &read));
    fd = open(p.outputs, O_WRONLY);
    cr_assert_eq(pwrite(fd, "X", 1, size_of(p.outputs) - 1), 1);
    close(fd);
    close(p.fd);
    p.fd = gw_outputs_open(p.folder, GW_CHILD_OUTPUTS, &p.end, &err);
    cr_assert(size_of(p.outputs) == first && p.end == (uint64_t)first,
              "bytes that the disk has not got are no frame");
    gw_map_output_drop(store, &large.output);
    gw_map_output_drop(store, &large.errors);
    gw_map_output_drop(store, &small.output);
    gw_map_output_drop(store, &small.errors);
    gw_map_output_drop(store, &small.files);
    gw_map_store_close(store);
    close_place(&p);
}
