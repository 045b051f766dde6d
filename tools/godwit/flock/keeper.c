#include "tools/godwit/flock/keeper.h"

#include "core/base/assert.h"
#include "core/base/hex.h"
#include "core/os/clock.h"
#include "core/os/durable.h"
#include "core/os/process.h"
#include "tools/godwit/limit/family.h"
#include "tools/godwit/limit/group.h"
#include "tools/godwit/text/json.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    VERSION = 1,
    TASK_BYTES = 4 << 20,
    LOOK_MS = 5000,
    MEMORY_MS = 200,
    OOM_SCORE = 500,
    FILE_MODE = 0600
};
enum {
    NO_PROGRAM = 127,
    NOT_EXECUTABLE = 126,
    START_FAILED = 125
}; /* the exit codes of shells, and of env(1) */
enum { SWEEPS = 10 };

#define NS_OF_MS UINT64_C(1000000)
#define DYING_NS (60 * UINT64_C(1000000000)) /* so long it waits for a process that it has killed */
#define FULL_DISK_NS                                                                                         \
    UINT64_C(4000000000) /* an end is given up that cannot be written, where the job is to go on elsewhere */

/* The task. */

static json_t *list_of(const char *const *words) {
    json_t *list = json_array();
    for (size_t i = 0; words != NULL && words[i] != NULL; i++) {
        /* Words need not be UTF-8: each is written as the hexadecimal digits of its bytes where it is not. */
        json_t *word = json_string(words[i]);
        if (word == NULL) {
            char *digits = malloc(2 * strlen(words[i]) + 1);
            GW_ASSERT_MEMORY(digits != NULL);
            gw_hex(words[i], strlen(words[i]), digits);
            word = json_pack("{s:s}", "hex", digits);
            free(digits);
        }
        json_array_append_new(list, word);
    }
    return list;
}

static bool replace(const char *folder, const char *name, json_t *object, gw_err *err) {
    char path[GW_PATH_BYTES], temporary[GW_PATH_BYTES];
    char *line = gw_json_line(object);
    json_decref(object);
    GW_ASSERT_MEMORY(line != NULL);
    bool good = gw_durable_path(path, err, "%s/%s", folder, name) &&
                gw_durable_path(temporary, err, "%s/%s.new", folder, name) &&
                gw_durable_replace(gw_io_system(), temporary, folder, path, line, strlen(line), err);
    free(line);
    return good;
}

bool gw_keeper_write_task(const char *folder, const gw_keeper_task *task, gw_err *err) {
    char end[GW_PATH_BYTES];
    if (!gw_durable_path(end, err, "%s/%s", folder, GW_KEEPER_END)) return false;
    if (unlink(end) != 0 && errno != ENOENT) return gw_fail_errno(err, errno, "%s cannot be removed", end);
    json_t *object = json_object(), *processors = json_array();
    gw_json_count(object, "version", VERSION);
    gw_json_count(object, "round", task->round);
    json_object_set_new(object, "argv", list_of(task->argv));
    json_object_set_new(object, "environment", list_of(task->environment));
    gw_json_text(object, "directory", task->directory);
    gw_json_text(object, "member_lock", task->member_lock);
    gw_json_count(object, "grace_s", task->grace_s);
    gw_json_count(object, "orphan_s", task->orphan_s);
    for (size_t i = 0; task->cores != NULL && i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, task->cores)) json_array_append_new(processors, json_integer((json_int_t)i));
    json_object_set_new(object, "processors", processors);
    if (task->group != NULL) gw_json_text(object, "group", task->group);
    gw_json_count(object, "memory_mib", task->memory_mib);
    gw_json_flag(object, "group_limits_memory", task->group_limits_memory);
    return replace(folder, GW_KEEPER_TASK, object, err);
}

static json_t *read_object(const char *folder, const char *name, gw_err *err) {
    char path[GW_PATH_BYTES];
    void *bytes;
    size_t length;
    if (!gw_durable_path(path, err, "%s/%s", folder, name) ||
        !gw_durable_read(gw_io_system(), path, TASK_BYTES, &bytes, &length, err))
        return NULL;
    json_t *object = json_loadb(bytes, length, 0, NULL);
    free(bytes);
    if (json_is_object(object)) return object;
    json_decref(object);
    gw_fail(err, GW_E_INVALID, "%s is not as it was written", path);
    return NULL;
}

/* Returns the words of a list, ended by NULL, which the caller frees with free_words; NULL where it is none. */
static char **words_of(const json_t *list) {
    size_t count = json_array_size(list);
    char **words = calloc(count + 1, sizeof *words);
    GW_ASSERT_MEMORY(words != NULL);
    for (size_t i = 0; i < count; i++) {
        const json_t *word = json_array_get(list, i);
        const char *digits = json_string_value(json_object_get(word, "hex")), *text = json_string_value(word);
        if (text == NULL && digits == NULL) {
            words[i] = strdup("");
        } else if (text != NULL) {
            words[i] = strdup(text);
        } else if ((words[i] = calloc(strlen(digits) / 2 + 1, 1)) != NULL) {
            gw_unhex(digits, words[i], strlen(digits) / 2);
        }
        GW_ASSERT_MEMORY(words[i] != NULL);
    }
    return words;
}

static void free_words(char **words) {
    for (size_t i = 0; words != NULL && words[i] != NULL; i++) free(words[i]);
    free(words);
}

/* Starting a keeper, and what others see of it. */

bool gw_keeper_start(const char *folder, pid_t *pid, gw_err *err) {
    extern char **environ;
    char *argv[] = {(char[]){"godwit"}, (char[]){"up"}, (char[]){"--keep"}, (char *)(uintptr_t)folder, NULL};
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_t actions;
    sigset_t none, defaults;
    sigemptyset(&none);
    sigfillset(&defaults);
    sigdelset(&defaults, SIGKILL);
    sigdelset(&defaults, SIGSTOP);
    int why = posix_spawnattr_init(&attributes);
    if (why != 0) return gw_fail_errno(err, why, "a child cannot be started");
    why = posix_spawn_file_actions_init(&actions);
    if (why == 0) {
        posix_spawnattr_setflags(&attributes,
                                 POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
        posix_spawnattr_setsigmask(&attributes, &none);
        posix_spawnattr_setsigdefault(&attributes, &defaults);
        for (int fd = 0; fd <= STDERR_FILENO && why == 0; fd++)
            why = posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", O_RDWR, 0);
        if (why == 0) why = posix_spawn(pid, "/proc/self/exe", &actions, &attributes, argv, environ);
        posix_spawn_file_actions_destroy(&actions);
    }
    posix_spawnattr_destroy(&attributes);
    return why == 0 || gw_fail_errno(err, why, "a child cannot be started");
}

bool gw_keeper_lives(const char *folder, pid_t *pid) {
    char path[GW_PATH_BYTES], text[20] = "";
    gw_err err;
    *pid = 0;
    int fd =
        gw_durable_path(path, &err, "%s/%s", folder, GW_KEEPER_LOCK) ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0) return false;
    bool lives = flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (lives && read(fd, text, sizeof text - 1) > 0) *pid = (pid_t)strtol(text, NULL, 10);
    close(fd);
    return lives;
}

bool gw_keeper_read_end(const char *folder, gw_keeper_end *end, gw_err *err) {
    json_t *object = read_object(folder, GW_KEEPER_END, err);
    if (object == NULL) return false;
    *end = (gw_keeper_end){
        .round = (uint32_t)json_integer_value(json_object_get(object, "round")),
        .started = json_is_true(json_object_get(object, "started")),
        .code = (int)json_integer_value(json_object_get(object, "code")),
        .signal = (int)json_integer_value(json_object_get(object, "signal")),
        .asked = json_is_true(json_object_get(object, "asked")),
        .memory_kills = (uint32_t)json_integer_value(json_object_get(object, "memory_kills")),
        .memory_mib = (uint32_t)json_integer_value(json_object_get(object, "memory_mib")),
        .machine_lacked_memory = json_is_true(json_object_get(object, "machine_lacked_memory")),
        .began = json_number_value(json_object_get(object, "began")),
        .when = json_number_value(json_object_get(object, "when"))};
    const char *text = json_string_value(json_object_get(object, "text"));
    snprintf(end->text, sizeof end->text, "%s", text != NULL ? text : "");
    json_decref(object);
    return true;
}

static bool has_variable(const char *pid, const char *variable) {
    char path[64], *line = NULL;
    size_t size = 0;
    bool found = false;
    snprintf(path, sizeof path, "/proc/%.20s/environ", pid);
    FILE *file = fopen(path, "re"); /* another user's cannot be opened */
    while (file != NULL && !found && getdelim(&line, &size, '\0', file) > 0)
        found = strcmp(line, variable) == 0;
    if (file != NULL) fclose(file);
    free(line);
    return found;
}

bool gw_keeper_group(const char *folder, char group[GW_KEEPER_FOLDER_TEXT], uint32_t *memory_mib) {
    gw_err err;
    json_t *task = read_object(folder, GW_KEEPER_TASK, &err);
    const char *path = json_string_value(json_object_get(task, "group"));
    snprintf(group, GW_KEEPER_FOLDER_TEXT, "%s", path != NULL ? path : "");
    *memory_mib = (uint32_t)json_integer_value(json_object_get(task, "memory_mib"));
    json_decref(task);
    return group[0] != '\0';
}

void gw_keeper_kill_left(const char *folder) {
    char variable[GW_PATH_BYTES + sizeof GW_KEEPER_VARIABLE], group[GW_KEEPER_FOLDER_TEXT];
    uint32_t memory_mib;
    if (gw_keeper_group(folder, group, &memory_mib) && gw_group_kill(group)) gw_group_remove(group);
    snprintf(variable, sizeof variable, GW_KEEPER_VARIABLE "%s", folder);
    bool found = true;
    for (int round = 0; found && round < SWEEPS; round++) { /* one may have started another meanwhile */
        DIR *all = opendir("/proc");
        found = false;
        for (const struct dirent *entry; all != NULL && (entry = readdir(all)) != NULL;) {
            pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
            if (pid > 1 && pid != getpid() && has_variable(entry->d_name, variable))
                found |= kill(pid, SIGKILL) == 0;
        }
        if (all != NULL) closedir(all);
    }
}

/* The keeper's process. */

typedef struct keeper {
    const char *folder;
    json_t *task;
    gw_keeper_end end;
    gw_process process;
    int signals;
    bool hung_up;               /* the command has got SIGHUP */
    uint64_t kill_ns, alone_ns; /* when it kills the command; since when no member lives; 0: not yet */
    const char *group;          /* NULL: none */
    uint64_t memory_bytes;      /* that it watches; 0: none */
    uint64_t memory_ns;         /* when it looks at that again */
    gw_process dying;           /* what it has killed last for that, until it has ended; .fd -1: none */
    uint64_t dying_ns;          /* since when */
} keeper;

static uint64_t seconds(const keeper *k, const char *key) {
    return (uint64_t)json_integer_value(json_object_get(k->task, key)) * 1000000000u;
}

/* The next signal that asks the keeper to end; 0: none has come. */
static uint32_t next_signal(const keeper *k) {
    struct signalfd_siginfo info;
    while (read(k->signals, &info, sizeof info) == sizeof info)
        if (info.ssi_signo != SIGCHLD) return info.ssi_signo;
    return 0;
}

/* Whether the keeper has been asked to end. */
static bool is_asked(keeper *k) {
    while (next_signal(k) != 0) k->end.asked = true;
    return k->end.asked;
}

/* Writes the end; a disk that is full now may have room later, and nobody else knows how the command ended. Where the job
 * is to go on elsewhere, others wait for that: they get to know of no end, and it runs once more. */
static int finish(keeper *k) {
    gw_err err;
    uint64_t began_ns = gw_now_ns();
    k->end.when = gw_wall_s();
    for (;;) {
        json_t *object = json_object();
        gw_json_count(object, "version", VERSION);
        gw_json_count(object, "round", k->end.round);
        gw_json_flag(object, "started", k->end.started);
        gw_json_count(object, "code", (uint64_t)k->end.code);
        gw_json_count(object, "signal", (uint64_t)k->end.signal);
        gw_json_flag(object, "asked", k->end.asked);
        gw_json_count(object, "memory_kills", k->end.memory_kills);
        gw_json_count(object, "memory_mib", k->end.memory_mib);
        gw_json_flag(object, "machine_lacked_memory", k->end.machine_lacked_memory);
        gw_json_real(object, "began", k->end.began);
        gw_json_real(object, "when", k->end.when);
        if (k->end.text[0] != '\0') gw_json_text(object, "text", k->end.text);
        if (replace(k->folder, GW_KEEPER_END, object, &err)) return 0;
        if (access(k->folder, F_OK) != 0) return 1;
        if (is_asked(k) && gw_now_ns() - began_ns >= FULL_DISK_NS) return 1;
        poll(NULL, 0, LOOK_MS);
    }
}

/* Kills what the command has left behind: each process that became a child of this one. */
static void sweep(void) {
    for (;;) {
        char path[60], text[4096] = "";
        snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t length = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
        if (fd >= 0) close(fd);
        for (char *at = text; length > 0 && *at != '\0';) {
            char *after;
            long pid = strtol(at, &after, 10);
            if (after == at) break;
            if (pid > 1) kill((pid_t)pid, SIGKILL);
            at = after + strspn(after, " ");
        }
        if (waitpid(-1, NULL, 0) < 0 && errno != EINTR) return;
    }
}

/* Whether a member holds the lock of the flock's directory. */
static bool member_lives(const keeper *k) {
    const char *path = json_string_value(json_object_get(k->task, "member_lock"));
    int fd = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0) return false;
    bool held = flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    close(fd);
    return held;
}

/* Has the command end, as the keeper was told by this signal. */
static void ask(keeper *k, uint32_t how) {
    bool hang_up = how == SIGHUP && !k->hung_up, first = !k->end.asked;
    k->end.asked = true;
    k->hung_up |= hang_up;
    if (how != SIGINT && k->kill_ns == 0) k->kill_ns = gw_now_ns() + seconds(k, "grace_s");
    if (!first && !hang_up) return;
    kill(-k->process.pid, hang_up ? SIGHUP : SIGTERM);
    kill(-k->process.pid, SIGCONT);
}

static void look_for_member(keeper *k) {
    uint64_t now = gw_now_ns();
    if (member_lives(k))
        k->alone_ns = 0;
    else if (k->alone_ns == 0)
        k->alone_ns = now;
    else if (now - k->alone_ns >= seconds(k, "orphan_s"))
        ask(k, SIGTERM);
}

/* Reaps processes that were left to this one, as far as they can be told before the command's own end. */
static void reap_others(pid_t command) {
    siginfo_t info = {.si_pid = 0};
    while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid > 0 &&
           info.si_pid != command) {
        waitpid(info.si_pid, NULL, 0);
        info.si_pid = 0;
    }
}

/* Whether a process that was killed for its memory has still to give that back. It is not reaped here, as it may be the
 * command itself. One that waits for a disk cannot be ended meanwhile, and is waited for DYING_NS at most. */
static bool frees_memory(keeper *k, uint64_t now) {
    if (k->dying.fd < 0) return false;
    struct pollfd ended = {.fd = k->dying.fd, .events = POLLIN};
    if (poll(&ended, 1, 0) == 0 && now - k->dying_ns < DYING_NS) return true;
    gw_process_close(&k->dying);
    return false;
}

/* Kills the largest process where all have more memory than the job asked for. */
static void watch_memory(keeper *k) {
    uint64_t now = gw_now_ns();
    pid_t largest;
    if (k->memory_bytes == 0 || now < k->memory_ns) return;
    k->memory_ns = now + MEMORY_MS * NS_OF_MS;
    if (frees_memory(k, now)) return;
    if (gw_family_memory(getpid(), k->memory_bytes, &largest) <= k->memory_bytes || largest == 0) return;
    if (!gw_process_hold(largest, &k->dying)) return; /* it has ended; else the next look finds it */
    gw_process_signal(&k->dying, SIGKILL);
    k->dying_ns = now;
    k->end.memory_kills++;
}

/* Milliseconds from now until a time, rounded up; LOOK_MS at most. */
static int wait_until(uint64_t at_ns, uint64_t now_ns) {
    if (at_ns <= now_ns) return 0;
    uint64_t ms = (at_ns - now_ns) / NS_OF_MS + 1;
    return ms < LOOK_MS ? (int)ms : LOOK_MS;
}

/* Waits for the command's end. */
static void watch(keeper *k) {
    int status = 0;
    uint64_t look_ns = gw_now_ns() + LOOK_MS * NS_OF_MS;
    for (;;) {
        struct pollfd fds[] = {{.fd = k->signals, .events = POLLIN}, {.fd = k->process.fd, .events = POLLIN}};
        uint64_t now = gw_now_ns(), next = look_ns;
        if (k->kill_ns != 0 && k->kill_ns < next) next = k->kill_ns;
        if (k->memory_bytes != 0 && k->memory_ns < next) next = k->memory_ns;
        poll(fds, 2, wait_until(next, now));
        now = gw_now_ns();
        if (k->kill_ns != 0 && now >= k->kill_ns) gw_process_kill(&k->process);
        if (now >= look_ns) {
            look_for_member(k);
            look_ns = now + LOOK_MS * NS_OF_MS;
        }
        watch_memory(k);
        for (uint32_t how; (how = next_signal(k)) != 0;) ask(k, how);
        if (gw_process_wait(&k->process, 0, true, &status)) break;
        reap_others(k->process.pid);
    }
    k->end.started = true;
    if (WIFSIGNALED(status))
        k->end.signal = WTERMSIG(status);
    else
        k->end.code = WEXITSTATUS(status);
}

static void use_processors(const keeper *k) {
    const json_t *list = json_object_get(k->task, "processors");
    cpu_set_t set;
    CPU_ZERO(&set);
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_int_t number = json_integer_value(json_array_get(list, i));
        if (number >= 0 && number < CPU_SETSIZE) CPU_SET((size_t)number, &set);
    }
    if (CPU_COUNT(&set) > 0) sched_setaffinity(0, sizeof set, &set); /* a hint: it changes no result */
}

static int open_output(const keeper *k, const char *name, gw_err *err) {
    char path[GW_PATH_BYTES];
    if (!gw_durable_path(path, err, "%s/%s", k->folder, name)) return -1;
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, FILE_MODE);
    if (fd < 0) gw_fail_errno(err, errno, "%s cannot be opened", path);
    return fd;
}

static bool start(keeper *k, char **argv, char **environment, gw_err *err) {
    const char *directory = json_string_value(json_object_get(k->task, "directory"));
    const char *path = NULL;
    char entrance[GW_PATH_BYTES];
    int fds[3] = {open("/dev/null", O_RDONLY | O_CLOEXEC), open_output(k, GW_KEEPER_OUT, err), -1};
    if (fds[1] < 0 || (fds[2] = open_output(k, GW_KEEPER_ERR, err)) < 0) return false;
    if (argv[0] == NULL) return gw_fail(err, GW_E_INVALID, "there is no command");
    if (k->group != NULL && !gw_group_entrance(k->group, entrance, err)) return false;
    if (directory == NULL || chdir(directory) != 0)
        return gw_fail_errno(err, errno, "the working directory %s", directory != NULL ? directory : "");
    for (size_t i = 0; environment[i] != NULL; i++)
        if (strncmp(environment[i], "PATH=", 5) == 0) path = environment[i] + 5;
    if (path != NULL) setenv("PATH", path, 1); /* execvpe searches that of this process */
    gw_spawn spawn = {.file = argv[0],
                      .argv = argv,
                      .environment = environment,
                      .fds = fds,
                      .fd_count = 3,
                      .oom_score = OOM_SCORE,
                      .entrance = k->group != NULL ? entrance : NULL};
    bool good = gw_process_spawn(&spawn, &k->process, err);
    for (int i = 0; i < 3; i++) close(fds[i]);
    return good;
}

/* Writes why the command could not be started where people look for what it has written. */
static void tell_in_output(const keeper *k) {
    gw_err err;
    int fd = open_output(k, GW_KEEPER_ERR, &err);
    if (fd < 0) return;
    dprintf(fd, "godwit: %s\n", k->end.text);
    close(fd);
}

/* Notes how many processes the kernel has killed for lack of memory. */
static void count_kills(keeper *k) {
    bool own;
    uint32_t killed = k->group != NULL ? gw_group_killed(k->group, &own) : 0;
    if (killed == 0) return;
    if (own)
        k->end.memory_kills += killed;
    else
        k->end.machine_lacked_memory = true;
}

static bool lock(const keeper *k) {
    char path[GW_PATH_BYTES], text[20];
    gw_err err;
    int fd = gw_durable_path(path, &err, "%s/%s", k->folder, GW_KEEPER_LOCK)
                 ? open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, FILE_MODE)
                 : -1;
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) != 0) return false;
    int length = snprintf(text, sizeof text, "%d\n", (int)getpid());
    return ftruncate(fd, 0) == 0 &&
           write(fd, text, (size_t)length) == length; /* open until this process ends */
}

int gw_keeper_main(const char *folder) {
    gw_err err;
    sigset_t mask;
    keeper k = {.folder = folder, .process = {.fd = -1}, .dying = {.fd = -1}};
    if (!lock(&k)) return 1;
    k.task = read_object(folder, GW_KEEPER_TASK, &err);
    if (k.task == NULL) return 1;
    k.end.round = (uint32_t)json_integer_value(json_object_get(k.task, "round"));
    k.end.began = gw_wall_s();
    sigemptyset(&mask);
    sigaddset(&mask, SIGTERM);
    sigaddset(&mask, SIGINT);
    sigaddset(&mask, SIGHUP);
    sigaddset(&mask, SIGCHLD);
    sigprocmask(SIG_BLOCK, &mask, NULL);
    k.signals = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    use_processors(&k);
    k.group = json_string_value(json_object_get(k.task, "group"));
    k.end.memory_mib = (uint32_t)json_integer_value(json_object_get(k.task, "memory_mib"));
    if (!json_is_true(json_object_get(k.task, "group_limits_memory")))
        k.memory_bytes = (uint64_t)k.end.memory_mib << 20;
    char **argv = words_of(json_object_get(k.task, "argv"));
    char **environment = words_of(json_object_get(k.task, "environment"));
    if (start(&k, argv, environment, &err)) {
        watch(&k);
        if (k.group != NULL) gw_group_kill(k.group);
        sweep();
        count_kills(&k);
    } else {
        k.end.code = err.code == GW_E_NOTFOUND ? NO_PROGRAM
                     : err.code == GW_E_DENIED ? NOT_EXECUTABLE
                                               : START_FAILED;
        snprintf(k.end.text, sizeof k.end.text, "%s", err.text);
        tell_in_output(&k);
    }
    if (k.group != NULL) gw_group_remove(k.group);
    free_words(argv);
    free_words(environment);
    int code = finish(&k);
    json_decref(k.task);
    return code;
}
