#include "tools/godwit/flock/children.h"

#include "core/base/assert.h"
#include "core/base/hex.h"
#include "core/base/log.h"
#include "core/os/clock.h"
#include "core/os/directory.h"
#include "core/os/durable.h"
#include "tools/godwit/flock/running.h"
#include "tools/godwit/journal/read.h"
#include "tools/godwit/limit/family.h"
#include "tools/godwit/text/number.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    ID_TEXT = GW_JOB_RECORD_ID_TEXT,
    CHILDREN = 1024,
    LAST_BYTES = 64 << 10,
    USAGE_CODE = 2,
    MAP_TROUBLE = 255,
    SIGNALLED = 128,    /* plus the signal that has ended it */
    MAP_FAILURES = 101, /* that many tasks failed, or more */
    NO_PROGRAM = 127,
    NOT_EXECUTABLE = 126
};
enum { LINE_BYTES = 4096, VARIABLES = 2 * GW_JOB_SPEC_WORDS };

#define ACCOUNTED     "ended.json"
#define LOOK_AGAIN_NS UINT64_C(200000000)

/* A keeper that lives, or whose end is to be told. */
typedef struct child {
    struct gw_children *of;
    gw_child shown;
    int fd; /* of the keeper's process; -1: its number is not known yet */
    pid_t pid;
    gw_watch watch;
    gw_timer again;
    bool in_group; /* its control group limits its processors */
} child;

struct gw_children {
    gw_loop *loop;
    gw_children_events events;
    char folder[GW_PATH_BYTES];      /* DIR/jobs */
    char member_lock[GW_PATH_BYTES]; /* DIR/lock */
    gw_groups groups;
    uint32_t processes; /* that a child may have */
    uint32_t count;
    child *list[CHILDREN];
    gw_job_record_id *told; /* whose ends were told, and wait to be accounted for */
    uint32_t told_count, told_room;
};

/* Folders. */

bool gw_children_folder(const gw_children *children, const gw_job_record_id *id,
                        char folder[GW_KEEPER_FOLDER_TEXT], gw_err *err) {
    char text[ID_TEXT];
    gw_hex(id->bytes, sizeof id->bytes, text);
    return gw_durable_path(folder, err, "%s/%s", children->folder, text);
}

static bool write_text(const char *folder, const char *name, const char *text, gw_err *err) {
    char path[GW_PATH_BYTES], temporary[GW_PATH_BYTES];
    return gw_durable_path(path, err, "%s/%s", folder, name) &&
           gw_durable_path(temporary, err, "%s/%s.new", folder, name) &&
           gw_durable_replace(gw_io_system(), temporary, folder, path, text, strlen(text), err);
}

static bool make_folder(const char *folder, const char *name, char path[GW_PATH_BYTES], gw_err *err) {
    return gw_durable_path(path, err, "%s/%s", folder, name) &&
           gw_durable_folder(gw_io_system(), path, NULL, err);
}

/* What an end means. */

gw_child_verdict gw_child_judge(gw_job_kind kind, const gw_keeper_end *end, const char *outcome, bool away) {
    if (!end->started)
        return kind == GW_JOB_COMMAND && (end->code == NO_PROGRAM || end->code == NOT_EXECUTABLE)
                   ? GW_CHILD_FAILED
                   : GW_CHILD_STRUCK;
    if (end->signal != 0) {
        /* A fault of the program is its own, and so is that it has more memory than was asked for. Other signals come from
         * outside, as that for lack of memory on the node. */
        bool fault = end->signal == SIGSEGV || end->signal == SIGBUS || end->signal == SIGFPE ||
                     end->signal == SIGILL || end->signal == SIGABRT || end->memory_kills > 0;
        if (end->asked) return GW_CHILD_LEFT;
        return fault ? GW_CHILD_FAILED : GW_CHILD_STRUCK;
    }
    if (kind == GW_JOB_COMMAND) {
        if (end->code == 0) return GW_CHILD_DONE;
        return end->asked ? GW_CHILD_LEFT : GW_CHILD_FAILED;
    }
    if (kind ==
        GW_JOB_MAP) { /* its exit code is the number of tasks that failed, unless it could not go on */
        if (end->code == 0) return GW_CHILD_DONE;
        if (end->asked) return GW_CHILD_LEFT;
        return end->code > SIGNALLED ? GW_CHILD_STRUCK : GW_CHILD_FATAL;
    }
    if (end->code == USAGE_CODE) return away ? GW_CHILD_STRUCK : GW_CHILD_FATAL;
    if (outcome == NULL) return end->code == 0 ? GW_CHILD_LEFT : GW_CHILD_STRUCK;
    if (strcmp(outcome, "done") == 0) return GW_CHILD_DONE;
    if (strcmp(outcome, "stopped") == 0) return GW_CHILD_STOPPED;
    if (strcmp(outcome, "failed") == 0) return GW_CHILD_FAILED;
    if (strcmp(outcome, "left") == 0 || strcmp(outcome, "unsaved") == 0) return GW_CHILD_LEFT;
    return GW_CHILD_STRUCK; /* denied, refused */
}

/* What a child has told of its end: the last event "done" of a RUN's journal; without one, what the child of a RUN or a MAP
 * has written of its trouble. */
typedef struct last_event {
    char outcome[20], text[200], trouble[200];
    gw_hash state;
    double began; /* events before this time are of earlier lives */
} last_event;

static bool take_event(void *context, const char *line, size_t length, json_t *event) {
    last_event *last = context;
    (void)line;
    (void)length;
    if (!gw_journal_is(event, "done") || gw_journal_number(event, "time", 0) < last->began) return true;
    const char *outcome = gw_journal_text(event, "outcome"), *text = gw_journal_text(event, "text"),
               *state = gw_journal_text(event, "state");
    snprintf(last->outcome, sizeof last->outcome, "%s", outcome != NULL ? outcome : "");
    snprintf(last->text, sizeof last->text, "%s", text != NULL ? text : "");
    last->state = (gw_hash){{0}};
    gw_unhex(state, last->state.bytes, sizeof last->state.bytes);
    return true;
}

/* Reads the last line that Godwit's own program has written to a folder's `err` since then, without the program's name. */
static void read_trouble(const char *folder, double since, char *trouble, size_t room) {
    char path[GW_PATH_BYTES], tail[LINE_BYTES + 1];
    struct stat status;
    gw_err err;
    int fd =
        gw_durable_path(path, &err, "%s/%s", folder, GW_KEEPER_ERR) ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0) return;
    ssize_t got = 0;
    if (fstat(fd, &status) == 0 && (double)status.st_mtim.tv_sec + 1 > since)
        got = pread(fd, tail, LINE_BYTES, status.st_size > LINE_BYTES ? status.st_size - LINE_BYTES : 0);
    close(fd);
    tail[got > 0 ? got : 0] = '\0';
    for (const char *line = tail; *line != '\0'; line += strcspn(line, "\n"), line += *line == '\n') {
        const char *colon = strstr(line, ": ");
        int length = (int)strcspn(line, "\n");
        if (strncmp(line, "godwit", strlen("godwit")) == 0 && colon != NULL && colon < line + length)
            snprintf(trouble, room, "%.*s", (int)(line + length - colon - 2), colon + 2);
    }
}

/* Whether a child did not do what it was to, and processes of it were killed as they had more memory than was asked for. */
static bool is_out_of_memory(const gw_child_end *told, const gw_keeper_end *end) {
    return end->memory_kills > 0 && (told->verdict == GW_CHILD_FAILED || told->verdict == GW_CHILD_FATAL);
}

static void describe(gw_child_end *told, gw_job_kind kind, const gw_keeper_end *end, const last_event *last) {
    char memory[GW_NUMBER_MEMORY_TEXT];
    if (!end->started)
        snprintf(told->text, sizeof told->text, "it could not be started: %.260s", end->text);
    else if (is_out_of_memory(told, end))
        snprintf(told->text, sizeof told->text, "out of memory: asked %s",
                 gw_number_memory(end->memory_mib, memory));
    else if (end->signal == SIGKILL && end->machine_lacked_memory)
        snprintf(told->text, sizeof told->text, "killed, as this node has no more memory");
    else if (last->text[0] != '\0')
        snprintf(told->text, sizeof told->text, "%s: %s", last->outcome, last->text);
    else if (end->signal != 0)
        snprintf(told->text, sizeof told->text, "ended by signal %d (%s)", end->signal,
                 strsignal(end->signal));
    else if (kind == GW_JOB_MAP && end->asked && end->code > SIGNALLED && end->code < MAP_TROUBLE)
        snprintf(told->text, sizeof told->text, "as it was asked to");
    else if (kind == GW_JOB_MAP && end->code > 0 && end->code <= MAP_FAILURES)
        snprintf(told->text, sizeof told->text, "%d%s of its tasks failed", end->code,
                 end->code == MAP_FAILURES ? " or more" : "");
    else
        snprintf(told->text, sizeof told->text, "%s%sexit code %d%s%s", last->outcome,
                 last->outcome[0] ? ", " : "", end->code, last->trouble[0] ? ": " : "", last->trouble);
}

static void note_told(gw_children *children, const gw_job_record_id *id) {
    if (children->told_count == children->told_room) {
        children->told_room = 2 * children->told_room + 16;
        children->told = realloc(children->told, children->told_room * sizeof *children->told);
        GW_ASSERT_MEMORY(children->told != NULL);
    }
    children->told[children->told_count++] = *id;
}

/* Takes an id out of those that were told. Returns whether it was one of them. */
static bool take_told(gw_children *children, const gw_job_record_id *id) {
    bool found = false;
    for (uint32_t i = 0; i < children->told_count; i++) {
        if (!gw_job_record_id_equal(&children->told[i], id)) continue;
        children->told[i--] = children->told[--children->told_count];
        found = true;
    }
    return found;
}

/* What was written at the start of a folder's child. */
typedef struct beginning {
    gw_job_kind kind;
    uint16_t port;
    bool away; /* the job has a directory, which is not here */
} beginning;

static beginning read_beginning(const char *folder) {
    char path[GW_PATH_BYTES];
    gw_err err;
    int kind = 0, away = 0;
    unsigned port = 0;
    FILE *file = gw_durable_path(path, &err, "%s/%s", folder, GW_CHILD_KIND_NAME) ? fopen(path, "re") : NULL;
    if (file != NULL) {
        if (fscanf(file, "%d %u %d", &kind, &port, &away) < 2) kind = 0;
        fclose(file);
    }
    return (beginning){.kind = kind == GW_JOB_COMMAND || kind == GW_JOB_MAP ? (gw_job_kind)kind : GW_JOB_RUN,
                       .port = (uint16_t)port,
                       .away = away != 0};
}

/* Tells how the child of a folder has ended. */
static void tell(gw_children *children, const gw_job_record_id *id, gw_job_kind kind, uint32_t round) {
    char folder[GW_PATH_BYTES], state[GW_PATH_BYTES], found[GW_PATH_BYTES];
    gw_err err;
    gw_keeper_end end;
    gw_child_end told = {.id = *id, .kind = kind, .round = round, .when = gw_wall_s()};
    if (!gw_children_folder(children, id, folder, &err)) return;
    if (gw_keeper_read_end(folder, &end, &err)) {
        last_event last = {.began = end.began};
        if (kind == GW_JOB_RUN && gw_durable_path(state, &err, "%s/state", folder) &&
            gw_directory_find(state, found, &err))
            gw_journal_read_last(found, LAST_BYTES, take_event, &last, &err);
        if (kind != GW_JOB_COMMAND && last.outcome[0] == '\0')
            read_trouble(folder, end.began, last.trouble, sizeof last.trouble);
        told.round = end.round;
        told.verdict = gw_child_judge(kind, &end, last.outcome[0] != '\0' ? last.outcome : NULL,
                                      read_beginning(folder).away);
        if (kind == GW_JOB_MAP && end.signal != 0 && !end.asked) told.killed = gw_running_killed(folder);
        if (told.killed > 0) told.verdict = GW_CHILD_LEFT; /* by one of its tasks, as far as one can tell */
        told.code = end.signal != 0 ? 128 + (uint32_t)end.signal : (uint32_t)end.code;
        told.hash = last.state;
        told.began = end.began;
        told.when = end.when;
        if (is_out_of_memory(&told, &end)) told.code |= GW_JOB_ROUND_OUT_OF_MEMORY;
        describe(&told, kind, &end, &last);
    } else {
        gw_keeper_kill_left(folder);
        told.verdict = GW_CHILD_LEFT;
        snprintf(told.text, sizeof told.text, "its keeper, or this machine, ended before it");
    }
    note_told(children, id);
    children->events.ended(children->events.context, &told);
}

void gw_children_account(gw_children *children, const gw_job_record_id *id) {
    char folder[GW_PATH_BYTES], end[GW_PATH_BYTES], accounted[GW_PATH_BYTES], task[GW_PATH_BYTES];
    gw_err err;
    if (!take_told(children, id) || !gw_children_folder(children, id, folder, &err) ||
        !gw_durable_path(end, &err, "%s/%s", folder, GW_KEEPER_END) ||
        !gw_durable_path(accounted, &err, "%s/%s", folder, ACCOUNTED) ||
        !gw_durable_path(task, &err, "%s/%s", folder, GW_KEEPER_TASK))
        return;
    unlink(task);
    if (rename(end, accounted) != 0 && errno != ENOENT)
        gw_log(GW_WARN, "flock", "%s cannot be renamed: %s", end, strerror(errno));
}

/* Following a keeper's process. */

static void forget(child *c) {
    gw_children *children = c->of;
    gw_watch_remove(&c->watch);
    gw_timer_cancel(&c->again);
    if (c->fd >= 0) close(c->fd);
    for (uint32_t i = 0; i < children->count; i++) {
        if (children->list[i] != c) continue;
        children->list[i] = children->list[--children->count];
        break;
    }
    free(c);
}

static void finished(child *c) {
    gw_children *children = c->of;
    gw_job_record_id id = c->shown.id;
    gw_job_kind kind = c->shown.kind;
    uint32_t round = c->shown.round;
    if (c->pid > 0) waitpid(c->pid, NULL, WNOHANG); /* it is no child of this process where it was adopted */
    forget(c);
    tell(children, &id, kind, round);
}

static void process_ended(void *context, uint32_t events) {
    (void)events;
    finished(context);
}

/* Tells a keeper how its command is to end. */
static void tell_stop(const child *c) {
    int number = c->shown.kind != GW_JOB_MAP            ? SIGTERM
                 : c->shown.stop == GW_CHILD_STOP_LATER ? SIGINT
                 : c->shown.stop == GW_CHILD_STOP_NOW   ? SIGHUP
                                                        : SIGTERM;
    syscall(SYS_pidfd_send_signal, c->fd, number, NULL, 0);
}

static void follow(void *context);

static void look_again(child *c) {
    gw_err err;
    if (!gw_timer_set(c->of->loop, &c->again, gw_now_ns() + LOOK_AGAIN_NS, follow, c, &err))
        gw_log(GW_ERROR, "flock", "%s", err.text);
}

/* Follows the keeper whose number is known, or looks for it. */
static void follow(void *context) {
    child *c = context;
    char folder[GW_PATH_BYTES];
    gw_err err;
    if (c->pid == 0) {
        if (!gw_children_folder(c->of, &c->shown.id, folder, &err)) return;
        if (!gw_keeper_lives(folder, &c->pid)) {
            finished(c);
            return;
        }
        if (c->pid == 0) {
            look_again(c);
            return;
        }
    }
    c->fd = (int)syscall(SYS_pidfd_open, c->pid, 0);
    if (c->fd < 0 && errno == ESRCH) {
        finished(c);
        return;
    }
    if (c->fd < 0 || !gw_watch_add(c->of->loop, &c->watch, c->fd, EPOLLIN, process_ended, c, &err)) {
        if (c->fd >= 0) close(c->fd);
        c->fd = -1;
        look_again(c);
        return;
    }
    if (c->shown.leaving) tell_stop(c);
}

static child *add(gw_children *children, const gw_child *shown, pid_t pid) {
    child *c = calloc(1, sizeof *c);
    GW_ASSERT_MEMORY(c != NULL);
    *c = (child){.of = children, .shown = *shown, .fd = -1, .pid = pid};
    children->list[children->count++] = c;
    return c;
}

void gw_children_stop(gw_children *children, const gw_job_record_id *id, gw_child_stop how) {
    for (uint32_t i = 0; i < children->count; i++) {
        child *c = children->list[i];
        if (!gw_job_record_id_equal(&c->shown.id, id) || (c->shown.leaving && c->shown.stop >= how)) continue;
        c->shown.leaving = true;
        c->shown.stop = how;
        if (c->fd >= 0) tell_stop(c);
    }
}

void gw_children_stop_all(gw_children *children) {
    for (uint32_t i = 0; i < children->count; i++)
        gw_children_stop(children, &children->list[i]->shown.id, GW_CHILD_STOP_SOON);
}

/* Processors. */

void gw_children_set_cores(gw_children *children, const gw_job_record_id *id, const cpu_set_t *cores) {
    char folder[GW_PATH_BYTES], group[GW_KEEPER_FOLDER_TEXT];
    uint32_t memory_mib;
    cpu_set_t now;
    gw_err err;
    for (uint32_t i = 0; i < children->count; i++) {
        child *c = children->list[i];
        if (!gw_job_record_id_equal(&c->shown.id, id)) continue;
        if (!c->in_group) { /* the keeper's own tell whether it has begun with those that it was given */
            if (c->pid == 0 || sched_getaffinity(c->pid, sizeof now, &now) != 0) return;
            gw_family_set_cores(c->pid, &now, cores);
        } else if (!CPU_EQUAL(&c->shown.cores, cores) && gw_children_folder(children, id, folder, &err) &&
                   gw_keeper_group(folder, group, &memory_mib) && !gw_group_set_cores(group, cores, &err)) {
            gw_log(GW_WARN, "flock", "the processors of a child are set without its control group: %s",
                   err.text);
            c->in_group = false;
            return;
        }
        c->shown.cores = *cores;
    }
}

/* Starting one. */

typedef struct words {
    char *list[2 * GW_JOB_SPEC_WORDS];
    uint32_t count;
} words;

static bool put(words *w, gw_err *err, const char *format, ...) __attribute__((format(printf, 3, 4)));
static bool put(words *w, gw_err *err, const char *format, ...) {
    va_list list;
    char *text;
    if (w->count + 1 == sizeof w->list / sizeof *w->list) return gw_fail(err, GW_E_LIMIT, "too many words");
    va_start(list, format);
    int length = vasprintf(&text, format, list);
    va_end(list);
    GW_ASSERT_MEMORY(length >= 0);
    w->list[w->count++] = text;
    w->list[w->count] = NULL;
    return true;
}

static void free_words(words *w) {
    for (uint32_t i = 0; i < w->count; i++) free(w->list[i]);
}

static bool put_command(words *w, const gw_job_spec *spec, const char *folder, const char *id,
                        const gw_child_place *place, gw_err *err) {
    if (spec->kind == GW_JOB_RUN) {
        bool many = spec->most > 1;
        if (!put(w, err, "%s", place->program) || !put(w, err, "run") ||
            !put(w, err, "%s", spec->command[0]) || !put(w, err, "--dir=%s/state", folder) ||
            !put(w, err, "--cluster=job-%s", id) || !put(w, err, "--key=%s/key", folder) ||
            !put(w, err, strchr(place->host, ':') ? "--listen=[%s]:%u" : "--listen=%s:%u", place->host,
                 place->port) ||
            !put(w, err, "--grace=%us", place->grace_s) || !put(w, err, "--name=%s", place->name) ||
            !put(w, err, "--peers=%u", spec->least))
            return false;
        if (many && (!put(w, err, "--join=file:%s/siblings", folder) ||
                     !put(w, err, "--join-timeout=%s", spec->least > 1 ? "30s" : "3s")))
            return false;
    }
    if (spec->kind == GW_JOB_MAP &&
        (!put(w, err, "%s", place->program) || !put(w, err, "map") || !put(w, err, "--child=%s", folder)))
        return false;
    for (uint32_t i = spec->kind == GW_JOB_RUN; i < spec->command_count; i++)
        if (!put(w, err, "%s", spec->command[i])) return false;
    return true;
}

/* Puts the lines NAME=VALUE of a file; empty ones and those that begin with '#' are left out. */
static bool put_file(words *w, const char *path, gw_err *err) {
    char line[LINE_BYTES];
    FILE *file = fopen(path, "re");
    if (file == NULL) return gw_fail_errno(err, errno, "--env-file %s cannot be read", path);
    bool good = true;
    while (good && fgets(line, sizeof line, file) != NULL) {
        line[strcspn(line, "\r\n")] = '\0';
        if (line[0] == '\0' || line[0] == '#') continue;
        good = (strchr(line, '=') != NULL && line[0] != '=') ||
               gw_fail(err, GW_E_INVALID, "--env-file %s has a line that is not NAME=VALUE", path);
        if (good) good = put(w, err, "%s", line);
    }
    fclose(file);
    return good;
}

static bool put_environment(words *w, const gw_job_spec *spec, const char *folder, const char *id,
                            uint32_t round, gw_err *err) {
    for (uint32_t i = 0; i < spec->environment_count; i++)
        if (!put(w, err, "%s", spec->environment[i])) return false;
    return put(w, err, "GODWIT_JOB=%s", spec->name) && put(w, err, "GODWIT_JOB_ID=%s", id) &&
           put(w, err, "GODWIT_ATTEMPT=%u", round) && put(w, err, GW_KEEPER_VARIABLE "%s", folder) &&
           (spec->environment_file == NULL || put_file(w, spec->environment_file, err));
}

static bool write_key(const char *folder, const gw_job_spec *spec, gw_err *err) {
    char text[2 * sizeof spec->key + 2];
    gw_hex(spec->key, sizeof spec->key, text);
    strcat(text, "\n");
    return write_text(folder, "key", text, err);
}

/* Makes the control group of a child. False: it has none. */
static bool make_group(const gw_children *children, const char *id, const gw_job_spec *spec,
                       const cpu_set_t *cores, char group[GW_PATH_BYTES]) {
    const gw_groups *groups = &children->groups;
    gw_group_limits limits = {(uint64_t)spec->need.memory_mib << 20, children->processes};
    gw_err err;
    if (groups->path[0] == '\0') return false;
    if (gw_group_make(groups, id, &limits, group, &err) &&
        (cores == NULL || (groups->kinds & GW_GROUP_CORES) == 0 || gw_group_set_cores(group, cores, &err)))
        return true;
    gw_log(GW_WARN, "flock", "%s has no control group here: %s", spec->name, err.text);
    return false;
}

/* Runs a child in a folder that is there. *in_group becomes whether its control group limits its processors. */
static bool run(gw_children *children, const char *folder, const char *id, const gw_job_spec *spec,
                uint32_t round, const gw_child_place *place, pid_t *pid, bool *in_group, gw_err *err) {
    char work[GW_PATH_BYTES], kind[20], group[GW_PATH_BYTES];
    words argv = {.count = 0}, environment = {.count = 0};
    bool away = spec->directory != NULL && place->directory == NULL;
    snprintf(kind, sizeof kind, "%d %u %d\n", (int)spec->kind, place->port, away);
    bool good = make_folder(folder, "work", work, err) && write_key(folder, spec, err) &&
                write_text(folder, GW_CHILD_KIND_NAME, kind, err) &&
                put_command(&argv, spec, folder, id, place, err) &&
                put_environment(&environment, spec, folder, id, round, err);
    if (good) {
        bool grouped = make_group(children, id, spec, place->cores, group);
        *in_group = grouped && (children->groups.kinds & GW_GROUP_CORES) != 0;
        gw_keeper_task task = {.round = round,
                               .argv = (const char *const *)argv.list,
                               .environment = (const char *const *)environment.list,
                               .directory = place->directory != NULL ? place->directory : work,
                               .member_lock = children->member_lock,
                               .grace_s = place->grace_s + 5,
                               .orphan_s = GW_KEEPER_ORPHAN_S,
                               .cores = *in_group ? NULL : place->cores,
                               .group = grouped ? group : NULL,
                               .memory_mib = spec->need.memory_mib,
                               .group_limits_memory =
                                   grouped && (children->groups.kinds & GW_GROUP_MEMORY) != 0};
        good = gw_keeper_write_task(folder, &task, err) && gw_keeper_start(folder, pid, err);
    }
    free_words(&argv);
    free_words(&environment);
    return good;
}

bool gw_children_start(gw_children *children, const gw_job_record_id *id, const gw_job_spec *spec,
                       uint32_t round, const gw_child_place *place, gw_err *err) {
    char folder[GW_PATH_BYTES], text[ID_TEXT];
    pid_t pid;
    bool in_group = false;
    GW_ASSERT(gw_children_find(children, id) == NULL);
    gw_hex(id->bytes, sizeof id->bytes, text);
    if (children->count == CHILDREN) return gw_fail(err, GW_E_LIMIT, "%d children run here", CHILDREN);
    if (!make_folder(children->folder, text, folder, err) ||
        !run(children, folder, text, spec, round, place, &pid, &in_group, err))
        return false;
    gw_child shown = {
        .id = *id, .kind = spec->kind, .round = round, .port = place->port, .began = gw_wall_s()};
    if (place->cores != NULL) shown.cores = *place->cores;
    child *c = add(children, &shown, pid);
    c->in_group = in_group;
    follow(c);
    return true;
}

void gw_children_tell_siblings(gw_children *children, const gw_job_record_id *id, const gw_addr *addrs,
                               uint32_t count) {
    char folder[GW_PATH_BYTES], path[GW_PATH_BYTES], text[GW_ADDR_TEXT], *now = NULL;
    size_t size, length;
    void *before = NULL;
    gw_err err;
    FILE *out = open_memstream(&now, &size);
    GW_ASSERT_MEMORY(out != NULL);
    for (uint32_t i = 0; i < count; i++) fprintf(out, "%s\n", gw_addr_text(&addrs[i], text));
    GW_ASSERT_MEMORY(fclose(out) == 0);
    if (gw_children_folder(children, id, folder, &err) &&
        gw_durable_path(path, &err, "%s/siblings", folder)) {
        bool same = gw_durable_read(gw_io_system(), path, GW_JOB_RECORD_BYTES, &before, &length, &err) &&
                    length == strlen(now) && memcmp(before, now, length) == 0;
        if (!same && !write_text(folder, "siblings", now, &err)) gw_log(GW_WARN, "flock", "%s", err.text);
    }
    free(before);
    free(now);
}

/* Opening and closing. */

typedef struct left_over {
    gw_children *children;
    gw_job_record_id id;
    gw_job_kind kind;
    uint32_t round;
} left_over;

static void tell_left_over(void *context) {
    left_over *l = context;
    tell(l->children, &l->id, l->kind, l->round);
    free(l);
}

/* Limits a child that runs as it was before: a supervisor may have taken the limits away meanwhile, so that it can start
 * this member (tools/systemd). */
static void limit_again(child *c, const char *folder) {
    const gw_groups *groups = &c->of->groups;
    char group[GW_KEEPER_FOLDER_TEXT];
    uint32_t memory_mib;
    gw_err err;
    bool grouped = gw_keeper_group(folder, group, &memory_mib);
    c->in_group = grouped && (groups->kinds & GW_GROUP_CORES) != 0;
    if (!c->in_group && c->pid > 0) sched_getaffinity(c->pid, sizeof c->shown.cores, &c->shown.cores);
    gw_group_limits limits = {(uint64_t)memory_mib << 20, c->of->processes};
    if (grouped && !gw_group_limit(groups, group, &limits, &err)) gw_log(GW_WARN, "flock", "%s", err.text);
}

static bool adopt(void *context, const char *jobs, const char *name, gw_err *err) {
    gw_children *children = context;
    char folder[GW_PATH_BYTES], path[GW_PATH_BYTES];
    gw_child shown = {.began = gw_wall_s()};
    pid_t pid;
    struct stat status;
    if (!gw_unhex(name, shown.id.bytes, sizeof shown.id.bytes) ||
        !gw_durable_path(folder, err, "%s/%s", jobs, name))
        return true;
    beginning begun = read_beginning(folder);
    shown.kind = begun.kind;
    shown.port = begun.port;
    if (gw_keeper_lives(folder, &pid) && children->count < CHILDREN) {
        if (gw_durable_path(path, err, "%s/%s", folder, GW_KEEPER_TASK) && stat(path, &status) == 0)
            shown.began = (double)status.st_mtime;
        child *c = add(children, &shown, pid);
        limit_again(c, folder);
        follow(c);
        return true;
    }
    if (!gw_durable_path(path, err, "%s/%s", folder, GW_KEEPER_TASK) || access(path, F_OK) != 0) return true;
    left_over *l = malloc(sizeof *l);
    GW_ASSERT_MEMORY(l != NULL);
    *l = (left_over){children, shown.id, begun.kind, 0};
    if (gw_loop_post(children->loop, tell_left_over, l, err)) return true;
    free(l);
    return false;
}

/* Half of what the machine can have: no child takes all of them from the others. */
static uint32_t most_processes(void) {
    static const char *const files[] = {"/proc/sys/kernel/threads-max", "/proc/sys/kernel/pid_max"};
    uint32_t least = UINT32_MAX, number;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        FILE *file = fopen(files[i], "re");
        if (file == NULL) continue;
        if (fscanf(file, "%u", &number) == 1 && number < least) least = number;
        fclose(file);
    }
    return least == UINT32_MAX ? 0 : least / 2;
}

gw_children *gw_children_open(gw_loop *loop, const char *directory, const gw_groups *groups,
                              const gw_children_events *events, gw_err *err) {
    gw_children *children = calloc(1, sizeof *children);
    GW_ASSERT_MEMORY(children != NULL);
    children->loop = loop;
    children->events = *events;
    children->groups = *groups;
    children->processes = most_processes();
    if (make_folder(directory, "jobs", children->folder, err) &&
        gw_durable_path(children->member_lock, err, "%s/lock", directory) &&
        gw_durable_list(gw_io_system(), children->folder, adopt, children, err))
        return children;
    gw_children_close(children);
    return NULL;
}

void gw_children_close(gw_children *children) {
    if (children == NULL) return;
    while (children->count > 0) forget(children->list[0]);
    free(children->told);
    free(children);
}

uint32_t gw_children_count(const gw_children *children) {
    return children->count;
}

const gw_child *gw_children_at(const gw_children *children, uint32_t index) {
    return &children->list[index]->shown;
}

const gw_child *gw_children_find(const gw_children *children, const gw_job_record_id *id) {
    for (uint32_t i = 0; i < children->count; i++)
        if (gw_job_record_id_equal(&children->list[i]->shown.id, id)) return &children->list[i]->shown;
    return NULL;
}
