#include "tools/godwit/journal/journal.h"

#include "core/base/assert.h"
#include "core/base/log.h"
#include "core/os/clock.h"
#include "core/os/condition.h"
#include "tools/godwit/journal/read.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

enum { EARLIER_BYTES = 256 << 10 };   /* of earlier lives, that are read for the tail */
#define ROOM_NS UINT64_C(10000000000) /* the least time between two looks at the room on the disk */

typedef struct waiting {
    struct waiting *next;
    bool sync;
    size_t length; /* of the line with its line break; 0: no line */
    char line[];
} waiting;

struct gw_journal {
    gw_directory *directory;
    pthread_t thread;
    pthread_mutex_t lock; /* guards the members up to `left_out` */
    pthread_cond_t wake, done;
    waiting *first, **end;
    size_t waiting_bytes;
    bool closing, ended;
    uint64_t left_out;    /* lines that were left out since the last one that was written */
    pthread_mutex_t tail; /* guards the next two members */
    char *lines[GW_JOURNAL_TAIL];
    uint64_t count; /* lines that were ever in the tail: the newest is lines[(count - 1) % GW_JOURNAL_TAIL] */
    /* The thread's own. */
    atomic_int fd; /* -1: the file is not open; a fault's handler reads it */
    uint64_t bytes;
    bool failing; /* the last write failed, and the log has it */
    uint64_t looked_ns;
    _Atomic uint64_t room, disk;
};

static void keep_in_tail(gw_journal *journal, const char *line, size_t length) {
    if (length > GW_JOURNAL_TAIL_BYTES) return;
    char *copy = strndup(line, length);
    GW_ASSERT_MEMORY(copy != NULL);
    pthread_mutex_lock(&journal->tail);
    char **place = &journal->lines[journal->count++ % GW_JOURNAL_TAIL];
    free(*place);
    *place = copy;
    pthread_mutex_unlock(&journal->tail);
}

/* The file. */

static bool path_of(const gw_journal *journal, const char *name, char path[GW_PATH_BYTES], gw_err *err) {
    return gw_durable_path(path, err, "%s/%s", journal->directory->path, name);
}

/* Ends a torn last line, so that the next line is whole. */
static bool end_torn_line(const gw_journal *journal, const char *path, int fd, gw_err *err) {
    char last;
    if (journal->bytes == 0 || pread(fd, &last, 1, (off_t)journal->bytes - 1) != 1 || last == '\n')
        return true;
    return gw_durable_write_fd(&journal->directory->io, fd, path, "\n", 1, err);
}

static bool open_file(gw_journal *journal, gw_err *err) {
    char path[GW_PATH_BYTES];
    gw_io *io = &journal->directory->io;
    struct stat status;
    if (!path_of(journal, GW_JOURNAL_NAME, path, err)) return false;
    int fd = io->open(io, path, O_RDWR | O_CREAT | O_APPEND | O_NONBLOCK | O_CLOEXEC, 0600);
    if (fd < 0) return gw_fail_errno(err, errno, "cannot open %s", path);
    bool good = fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
    if (!good) gw_fail(err, GW_E_INVALID, "%s is not a regular file", path);
    journal->bytes = good ? (uint64_t)status.st_size : 0;
    if (good && end_torn_line(journal, path, fd, err)) {
        atomic_store(&journal->fd, fd);
        return true;
    }
    close(fd);
    return false;
}

static void close_file(gw_journal *journal) {
    int fd = atomic_exchange(&journal->fd, -1);
    if (fd >= 0) close(fd);
}

/* The full file becomes the earlier one. */
static bool turn_over(gw_journal *journal, gw_err *err) {
    char now[GW_PATH_BYTES], earlier[GW_PATH_BYTES];
    gw_io *io = &journal->directory->io;
    if (!path_of(journal, GW_JOURNAL_NAME, now, err) || !path_of(journal, GW_JOURNAL_EARLIER, earlier, err))
        return false;
    fdatasync(atomic_load(&journal->fd));
    close_file(journal);
    if (io->rename(io, now, earlier) != 0)
        return gw_fail_errno(err, errno, "cannot rename %s to %s", now, earlier);
    return open_file(journal, err);
}

static bool write_line(gw_journal *journal, const waiting *one, gw_err *err) {
    if (atomic_load(&journal->fd) < 0 && !open_file(journal, err)) return false;
    if (journal->bytes > 0 && journal->bytes + one->length > GW_JOURNAL_FILE_BYTES &&
        !turn_over(journal, err))
        return false;
    bool good = gw_durable_write_fd(&journal->directory->io, atomic_load(&journal->fd), GW_JOURNAL_NAME,
                                    one->line, one->length, err);
    if (good)
        journal->bytes += one->length;
    else
        close_file(journal); /* the next line opens it anew, behind what was written of this one */
    return good;
}

static void note_failure(gw_journal *journal, bool good, const gw_err *err) {
    if (!good && !journal->failing)
        gw_log(GW_WARN, "journal", "the journal is not written while this lasts: %s", err->text);
    journal->failing = !good;
}

static void look_for_room(gw_journal *journal) {
    struct statvfs disk;
    uint64_t now = gw_now_ns();
    if (journal->looked_ns != 0 && now - journal->looked_ns < ROOM_NS) return;
    journal->looked_ns = now;
    if (fstatvfs(journal->directory->fd, &disk) == 0) {
        atomic_store(&journal->room, (uint64_t)disk.f_bavail * disk.f_frsize);
        atomic_store(&journal->disk, (uint64_t)disk.f_blocks * disk.f_frsize);
    }
}

static void carry_out(gw_journal *journal, const waiting *one) {
    gw_err err;
    if (one->length > 0) note_failure(journal, write_line(journal, one, &err), &err);
    if (one->sync && atomic_load(&journal->fd) >= 0 && fdatasync(atomic_load(&journal->fd)) != 0)
        note_failure(journal, gw_fail_errno(&err, errno, "cannot flush %s", GW_JOURNAL_NAME), &err);
    look_for_room(journal);
}

static void *thread_main(void *context) {
    gw_journal *journal = context;
    pthread_setname_np(pthread_self(), "gw-journal");
    look_for_room(journal);
    pthread_mutex_lock(&journal->lock);
    for (;;) {
        while (journal->first == NULL && !journal->closing) pthread_cond_wait(&journal->wake, &journal->lock);
        waiting *one = journal->first;
        if (one == NULL) break;
        journal->first = one->next;
        if (journal->first == NULL) journal->end = &journal->first;
        journal->waiting_bytes -= one->length;
        pthread_mutex_unlock(&journal->lock);
        carry_out(journal, one);
        free(one);
        pthread_mutex_lock(&journal->lock);
    }
    pthread_mutex_unlock(&journal->lock);
    if (atomic_load(&journal->fd) >= 0) fdatasync(atomic_load(&journal->fd));
    pthread_mutex_lock(&journal->lock);
    journal->ended = true;
    pthread_cond_signal(&journal->done);
    pthread_mutex_unlock(&journal->lock);
    return NULL;
}

/* What others call. */

/* With the lock held. */
static void append(gw_journal *journal, const char *line, size_t length, bool sync) {
    size_t bytes = length > 0 ? length + 1 : 0;
    waiting *one = malloc(sizeof *one + bytes);
    GW_ASSERT_MEMORY(one != NULL);
    *one = (waiting){.sync = sync, .length = bytes};
    if (length > 0) {
        memcpy(one->line, line, length);
        one->line[length] = '\n';
    }
    *journal->end = one;
    journal->end = &one->next;
    journal->waiting_bytes += bytes;
    pthread_cond_signal(&journal->wake);
}

void gw_journal_add(gw_journal *journal, const char *line) {
    size_t length = strlen(line);
    char lost[120];
    if (length == 0 || length >= GW_JOURNAL_LINE_BYTES) return;
    keep_in_tail(journal, line, length);
    pthread_mutex_lock(&journal->lock);
    bool fits = journal->waiting_bytes + length <= GW_JOURNAL_WAITING_BYTES;
    if (fits && journal->left_out > 0) {
        snprintf(lost, sizeof lost, "{\"event\":\"left-out\",\"time\":%.6f,\"lines\":%" PRIu64 "}",
                 gw_wall_s(), journal->left_out);
        append(journal, lost, strlen(lost), false);
        journal->left_out = 0;
    }
    if (fits)
        append(journal, line, length, false);
    else
        journal->left_out++;
    pthread_mutex_unlock(&journal->lock);
}

void gw_journal_sync(gw_journal *journal) {
    pthread_mutex_lock(&journal->lock);
    append(journal, "", 0, true);
    pthread_mutex_unlock(&journal->lock);
}

/* Appends the digits of a number; snprintf is not async-signal-safe. */
static char *digits(char *to, uint64_t number) {
    char reversed[20];
    int count = 0;
    do reversed[count++] = (char)('0' + number % 10);
    while ((number /= 10) > 0);
    while (count > 0) *to++ = reversed[--count];
    return to;
}

void gw_journal_note_crash(gw_journal *journal, int number) {
    int fd = journal != NULL ? atomic_load(&journal->fd) : -1;
    struct timespec now;
    char line[128];
    if (fd < 0) return;
    clock_gettime(CLOCK_REALTIME, &now);
    /* The thread may have written a part of a line: this one begins behind a line break. */
    char *to = stpcpy(line, "\n{\"event\":\"crash\",\"time\":");
    to = digits(to, (uint64_t)now.tv_sec);
    to = stpcpy(to, ",\"signal\":");
    to = digits(to, (uint64_t)number);
    to = stpcpy(to, "}\n");
    ssize_t written = write(fd, line, (size_t)(to - line));
    (void)written; /* there is nobody to tell */
}

uint64_t gw_journal_room(const gw_journal *journal) {
    return atomic_load(&journal->room);
}

uint64_t gw_journal_disk(const gw_journal *journal) {
    return atomic_load(&journal->disk);
}

uint64_t gw_journal_tail(gw_journal *journal, uint64_t after, gw_journal_line *each, void *context) {
    pthread_mutex_lock(&journal->tail);
    uint64_t count = journal->count;
    uint64_t first = count > GW_JOURNAL_TAIL ? count - GW_JOURNAL_TAIL : 0;
    for (uint64_t i = after > first ? after : first; i < count; i++)
        each(context, i + 1, journal->lines[i % GW_JOURNAL_TAIL]);
    pthread_mutex_unlock(&journal->tail);
    return count;
}

static bool keep_earlier(void *context, const char *line, size_t length, json_t *event) {
    (void)event;
    keep_in_tail(context, line, length);
    return true;
}

gw_journal *gw_journal_open(gw_directory *directory, gw_err *err) {
    gw_journal *journal = calloc(1, sizeof *journal);
    if (journal == NULL) {
        gw_fail(err, GW_E_NOMEM, "journal: out of memory");
        return NULL;
    }
    journal->directory = directory;
    journal->end = &journal->first;
    journal->fd = -1;
    journal->room = UINT64_MAX;
    pthread_mutex_init(&journal->lock, NULL);
    pthread_mutex_init(&journal->tail, NULL);
    gw_cond_init(&journal->wake);
    gw_cond_init(&journal->done);
    gw_err ignored; /* what an earlier life left there and cannot be read is not shown */
    gw_journal_read_last(directory->path, EARLIER_BYTES, keep_earlier, journal, &ignored);
    bool good = open_file(journal, err);
    int failure = good ? pthread_create(&journal->thread, NULL, thread_main, journal) : 0;
    if (failure != 0) good = gw_fail_thread(err, failure, "journal");
    if (good) return journal;
    journal->ended = true;
    close_file(journal);
    gw_journal_close(journal, 0);
    return NULL;
}

bool gw_journal_close(gw_journal *journal, uint64_t patience_ns) {
    if (journal == NULL) return true;
    pthread_mutex_lock(&journal->lock);
    bool runs = !journal->ended;
    journal->closing = true;
    pthread_cond_signal(&journal->wake);
    uint64_t until_ns = gw_now_ns() + patience_ns;
    while (!journal->ended && gw_now_ns() < until_ns)
        gw_cond_wait_until(&journal->done, &journal->lock, until_ns);
    bool ended = journal->ended;
    pthread_mutex_unlock(&journal->lock);
    if (!ended) return false;
    if (runs) pthread_join(journal->thread, NULL);
    close_file(journal);
    for (size_t i = 0; i < GW_JOURNAL_TAIL; i++) free(journal->lines[i]);
    pthread_cond_destroy(&journal->done);
    pthread_cond_destroy(&journal->wake);
    pthread_mutex_destroy(&journal->tail);
    pthread_mutex_destroy(&journal->lock);
    free(journal);
    return true;
}
