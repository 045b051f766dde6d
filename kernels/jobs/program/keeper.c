/* The keeper is one thread, for two reasons. The kernel kills a worker when the *thread* that started it
 * ends, so that this thread must live as long as the job. What workers print has to be read whatever the
 * other threads wait for, or a worker that prints much would stand still. */
#include "core/os/clock.h"
#include "kernels/jobs/program/inside.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
    LINE_MOST = 1000,   /* bytes of a line that are kept */
    LINES_SECOND = 200, /* lines of a process that are logged in a second */
    LAST_MOST = 400,    /* bytes that are kept of each of the last two lines */
    READ_BYTES = 16384,
    READS_MOST = 16, /* of one process in a row */
    LINES_BEHIND =
        2, /* that belong to a stack: the error, or what else CPython prints of a process that dies */
};

#define SECOND_NS UINT64_C(1000000000)

struct program_output {
    program_keeper *keeper;
    program_output *next;
    int fd;
    uint32_t serial;
    bool quiet, ended, closed;
    bool returned; /* the last character was a carriage return, behind which the line begins anew */
    size_t used;
    char line[LINE_MOST + 1], last[2][LAST_MOST + 1];
    char place[LAST_MOST + 1]; /* program_output_place */
    bool own_place;            /* it is in the program's folder */
    bool last_counts;          /* it is of a stack whose innermost frame is the last */
    uint32_t lines_behind;     /* not indented, behind the stack */
    uint64_t second_ns;        /* when the present second began */
    uint32_t lines, dropped;
};

typedef struct order {
    const gw_spawn *spawn;
    gw_process *process;
    gw_err *err;
    bool done, good;
} order;

struct program_keeper {
    pthread_t thread;
    int wake;
    pthread_mutex_t lock; /* guards what follows, and the outputs */
    pthread_cond_t changed;
    bool closing;
    order *order;
    program_output *outputs;
    char *folder; /* of the program, with its slash; NULL: it is not known */
};

static void tell_dropped(program_output *o) {
    if (o->dropped > 0)
        gw_log(GW_WARN, program_room, "[%u] %u more lines within a second were dropped", o->serial,
               o->dropped);
    o->lines = o->dropped = 0;
}

static void log_line(program_output *o, const char *line) {
    uint64_t now = gw_now_ns();
    if (now - o->second_ns > SECOND_NS) {
        tell_dropped(o);
        o->second_ns = now;
    }
    if (o->lines++ < LINES_SECOND)
        gw_log(o->quiet ? GW_DEBUG : GW_INFO, program_room, "[%u] %s", o->serial, line);
    else
        o->dropped++;
}

/* Whether a source file is the program's own, and not of a library that is installed below its folder. */
static bool is_own(const program_keeper *k, const char *file) {
    if (strstr(file, "-packages/") != NULL) return false;
    return file[0] != '/' || (k->folder != NULL && strncmp(file, k->folder, strlen(k->folder)) == 0);
}

/* How CPython prints stacks: of an error that ends the program, with the innermost frame last, and of a process that
 * dies by a signal, with the innermost first. Each frame has a line `  File "FILE", line NUMBER, in NAME`, where the
 * second kind has no comma before `in`, and a syntax error has no name. */
static bool begins_stack(const char *line, bool *last) {
    static const char *const heads[] = {
        "Traceback (most recent call last):", "Stack (most recent call first):", "Current thread 0x"};
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        *last = i == 0;
        if (strncmp(line, heads[i], strlen(heads[i])) == 0) return true;
    }
    return false;
}

/* Takes the place from a line of a stack. It is forgotten when the process goes on to print other things. */
static void note_place(program_output *o, const char *line) {
    static const char head[] = "  File \"";
    unsigned number;
    char name[100] = "", path[LINE_MOST];
    bool last;
    if (begins_stack(line, &last)) {
        o->place[0] = '\0';
        o->own_place = false;
        o->last_counts = last;
    }
    if (line[0] != ' ' && o->lines_behind++ > LINES_BEHIND) o->place[0] = '\0';
    if (strncmp(line, head, sizeof head - 1) != 0 ||
        sscanf(line + sizeof head - 1, "%999[^\"]\", line %u%*[,] in %99s", path, &number, name) < 2)
        return;
    if (name[0] == '\0') (void)sscanf(line + sizeof head - 1, "%*[^\"]\", line %*u in %99s", name);
    bool own = is_own(o->keeper, path);
    bool better = o->last_counts ? own || !o->own_place : own && !o->own_place;
    o->lines_behind = 0;
    if (o->place[0] != '\0' && !better) return;
    o->own_place = own;
    int length = snprintf(o->place, sizeof o->place, "%.250s:%u", path, number);
    if (name[0] != '\0') snprintf(o->place + length, sizeof o->place - (size_t)length, " (%s)", name);
}

static void end_line(program_output *o) {
    o->line[o->used] = '\0';
    o->used = 0;
    o->returned = false;
    if (o->line[0] == '\0') return;
    note_place(o, o->line);
    memcpy(o->last[0], o->last[1], sizeof o->last[0]);
    gw_program_text_copy(gw_program_text_of(o->line), o->last[1], sizeof o->last[1]);
    log_line(o, o->line);
}

/* Takes what was printed. A carriage return without a line feed begins the line anew, as progress bars mean
 * it. */
static void take(program_output *o, const char *bytes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        char c = bytes[i];
        if (c == '\n') {
            end_line(o);
        } else if (c == '\r') {
            o->returned = true;
        } else {
            if (o->returned) o->used = 0;
            o->returned = false;
            if (o->used < LINE_MOST) o->line[o->used++] = c != '\0' ? c : '?';
        }
    }
}

/* Called with the lock held. */
static void read_output(program_output *o, int reads) {
    char bytes[READ_BYTES];
    for (int i = 0; i < reads && !o->ended; i++) {
        ssize_t count = read(o->fd, bytes, sizeof bytes);
        if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
        if (count > 0) {
            take(o, bytes, (size_t)count);
            continue;
        }
        o->ended = true;
        end_line(o);
        tell_dropped(o);
    }
}

static void free_output(program_output *o) {
    if (o->fd >= 0) close(o->fd);
    free(o);
}

/* Removes the outputs that were closed, and lists the others that are to be read. Returns their number, of
 * which the first is the eventfd. Called with the lock held. */
static nfds_t list_outputs(program_keeper *k, struct pollfd **list, size_t *room) {
    size_t count = 1;
    for (program_output **at = &k->outputs; *at != NULL;) {
        program_output *o = *at;
        if (o->closed) {
            *at = o->next;
            free_output(o);
            continue;
        }
        count++;
        at = &o->next;
    }
    if (count > *room) {
        struct pollfd *longer = realloc(*list, 2 * count * sizeof **list);
        if (longer == NULL) return 0;
        *list = longer;
        *room = 2 * count;
    }
    nfds_t used = 0;
    (*list)[used++] = (struct pollfd){.fd = k->wake, .events = POLLIN};
    for (program_output *o = k->outputs; o != NULL; o = o->next)
        (*list)[used++] = (struct pollfd){.fd = o->ended ? -1 : o->fd, .events = POLLIN};
    return used;
}

static void *keeper_main(void *context) {
    program_keeper *k = context;
    struct pollfd *list = NULL;
    size_t room = 0;
    pthread_setname_np(pthread_self(), "gw-program");
    pthread_mutex_lock(&k->lock);
    while (!k->closing) {
        if (k->order != NULL) {
            k->order->good = gw_process_spawn(k->order->spawn, k->order->process, k->order->err);
            k->order->done = true;
            k->order = NULL;
            pthread_cond_broadcast(&k->changed);
        }
        nfds_t count = list_outputs(k, &list, &room);
        pthread_mutex_unlock(&k->lock);
        struct pollfd only = {.fd = k->wake, .events = POLLIN};
        if (count > 0)
            (void)poll(list, count, -1);
        else
            (void)poll(&only, 1, 1000); /* no memory for the list */
        uint64_t woken;
        (void)!read(k->wake, &woken, sizeof woken);
        pthread_mutex_lock(&k->lock);
        for (program_output *o = k->outputs; o != NULL; o = o->next)
            if (!o->closed) read_output(o, READS_MOST);
    }
    while (k->outputs != NULL) {
        program_output *o = k->outputs;
        k->outputs = o->next;
        free_output(o);
    }
    pthread_mutex_unlock(&k->lock);
    free(list);
    return NULL;
}

static void wake(const program_keeper *k) {
    uint64_t one = 1;
    (void)!write(k->wake, &one, sizeof one);
}

/* The folder of a file, with a slash behind it. NULL: there is none. */
static char *folder_of(const char *file) {
    char *path = realpath(file, NULL), *slash = path != NULL ? strrchr(path, '/') : NULL;
    if (slash != NULL) slash[1] = '\0';
    return path;
}

program_keeper *program_keeper_open(const char *file, gw_err *err) {
    program_keeper *k = calloc(1, sizeof *k);
    if (k == NULL) {
        gw_fail(err, GW_E_NOMEM, "no memory for the thread that starts workers");
        return NULL;
    }
    k->folder = folder_of(file);
    k->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_init(&k->lock, NULL);
    pthread_cond_init(&k->changed, NULL);
    int failure = k->wake >= 0 ? pthread_create(&k->thread, NULL, keeper_main, k) : errno;
    if (failure == 0) return k;
    gw_fail_thread(err, failure, "the thread that starts workers");
    if (k->wake >= 0) close(k->wake);
    pthread_mutex_destroy(&k->lock);
    pthread_cond_destroy(&k->changed);
    free(k->folder);
    free(k);
    return NULL;
}

void program_keeper_close(program_keeper *k) {
    if (k == NULL) return;
    pthread_mutex_lock(&k->lock);
    k->closing = true;
    pthread_mutex_unlock(&k->lock);
    wake(k);
    pthread_join(k->thread, NULL);
    close(k->wake);
    pthread_mutex_destroy(&k->lock);
    pthread_cond_destroy(&k->changed);
    free(k->folder);
    free(k);
}

bool program_keeper_spawn(program_keeper *k, const gw_spawn *spawn, gw_process *process, gw_err *err) {
    order mine = {.spawn = spawn, .process = process, .err = err};
    pthread_mutex_lock(&k->lock);
    while (k->order != NULL) pthread_cond_wait(&k->changed, &k->lock);
    k->order = &mine;
    wake(k);
    while (!mine.done) pthread_cond_wait(&k->changed, &k->lock);
    pthread_mutex_unlock(&k->lock);
    return mine.good;
}

program_output *program_output_open(program_keeper *k, uint32_t serial, bool quiet, int *to, gw_err *err) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
        gw_fail_errno(err, errno, "a pipe for what a worker prints");
        return NULL;
    }
    program_output *o = calloc(1, sizeof *o);
    if (o == NULL || fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0) {
        gw_fail(err, GW_E_NOMEM, "no memory for what a worker prints");
        close(ends[0]);
        close(ends[1]);
        free(o);
        return NULL;
    }
    o->keeper = k;
    o->fd = ends[0];
    o->serial = serial;
    o->quiet = quiet;
    *to = ends[1];
    pthread_mutex_lock(&k->lock);
    o->next = k->outputs;
    k->outputs = o;
    pthread_mutex_unlock(&k->lock);
    wake(k);
    return o;
}

void program_output_show(program_output *o) {
    if (o == NULL) return;
    pthread_mutex_lock(&o->keeper->lock);
    o->quiet = false;
    pthread_mutex_unlock(&o->keeper->lock);
}

/* Takes what is left to read. Called with the lock held. */
static void read_rest(program_output *o) {
    read_output(o, READS_MOST);
    if (o->used > 0) end_line(o);
}

void program_output_place(program_output *o, char *text, size_t size) {
    text[0] = '\0';
    if (o == NULL) return;
    pthread_mutex_lock(&o->keeper->lock);
    read_rest(o);
    gw_program_text_copy(gw_program_text_of(o->place), text, size);
    pthread_mutex_unlock(&o->keeper->lock);
}

void program_output_last(program_output *o, char *text, size_t size) {
    text[0] = '\0';
    if (o == NULL) return;
    pthread_mutex_lock(&o->keeper->lock);
    read_rest(o);
    for (int i = o->place[0] != '\0'; i < 2; i++) {
        size_t used = strlen(text);
        if (o->last[i][0] == '\0') continue;
        if (used > 0 && used + 4 < size) used += (size_t)sprintf(text + used, " | ");
        gw_program_text_copy(gw_program_text_of(o->last[i]), text + used, size - used);
    }
    pthread_mutex_unlock(&o->keeper->lock);
}

void program_output_close(program_output *o) {
    if (o == NULL) return;
    program_keeper *k = o->keeper;
    pthread_mutex_lock(&k->lock);
    read_rest(o);
    tell_dropped(o);
    o->closed = true; /* the keeper frees it */
    pthread_mutex_unlock(&k->lock);
    wake(k);
}
