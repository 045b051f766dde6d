#include "tools/godwit/alarm/sender.h"

#include "core/base/assert.h"
#include "core/base/log.h"
#include "core/os/clock.h"
#include "core/os/condition.h"
#include "core/os/process.h"
#include "tools/godwit/alarm/webhook.h"
#include "tools/godwit/options/command_line.h"
#include "tools/godwit/text/json.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define SECOND_NS  UINT64_C(1000000000)
#define COMMAND_NS (30 * SECOND_NS)
#define WINDOW_NS  (600 * SECOND_NS)
enum { WEBHOOK_MS = 15000, LAST_MS = 4000, TRIES = 5 };

extern char **environ;

typedef enum outlet { COMMAND, WEBHOOK, OUTLETS } outlet;

/* An alarm on its way to one outlet. */
typedef struct delivery {
    struct delivery *next;
    gw_alarm alarm;
    outlet to;
    uint32_t tried;
    uint64_t due_ns;
    uint64_t left_out; /* alarms that were left out before it */
} delivery;

struct gw_alarm_sender {
    gw_alarm_outlets outlets;
    pthread_t thread;
    pthread_mutex_t lock; /* guards the members below */
    pthread_cond_t changed;
    delivery *first; /* by the time when they are due */
    uint32_t waiting;
    bool closing;
    uint64_t until_ns; /* of closing */
    uint64_t window_ns, left_out;
    uint32_t in_window[GW_ALARM_KINDS]; /* alarms since window_ns, by kind, so that no kind starves another */
};

static const uint64_t pauses_ns[TRIES - 1] = {5 * SECOND_NS, 15 * SECOND_NS, 60 * SECOND_NS, 300 * SECOND_NS};

char *gw_alarm_json(const gw_alarm_outlets *outlets, const gw_alarm *alarm, uint64_t left_out) {
    json_t *object = json_object();
    gw_json_text(object, "event", "alarm");
    gw_json_text(object, "kind", gw_alarm_kind_name(alarm->kind));
    gw_json_flag(object, "over", alarm->over);
    gw_json_text(object, "key", alarm->key);
    gw_json_real(object, "since", alarm->since);
    gw_json_real(object, "time", gw_wall_s());
    gw_json_text(object, "job", outlets->job);
    gw_json_hash(object, "job_id", &outlets->job_id);
    gw_json_text(object, "cluster", outlets->cluster);
    gw_json_peer(object, "sender", &outlets->self);
    gw_json_text(object, "sender_name", outlets->name);
    gw_json_count(object, "step", alarm->step);
    gw_json_text(object, "text", alarm->text);
    if (left_out > 0) gw_json_count(object, "left_out", left_out);
    char *line = gw_json_line(object);
    json_decref(object);
    return line;
}

/* The command. */

static bool is_program(const char *file) {
    struct stat status;
    char path[4096];
    if (strchr(file, '/') != NULL)
        return stat(file, &status) == 0 && S_ISREG(status.st_mode) && access(file, X_OK) == 0;
    const char *from = getenv("PATH");
    while (from != NULL && *from != '\0') {
        size_t length = strcspn(from, ":");
        snprintf(path, sizeof path, "%.*s/%s", (int)length, from, file);
        if (stat(path, &status) == 0 && S_ISREG(status.st_mode) && access(path, X_OK) == 0) return true;
        from += length + (from[length] == ':');
    }
    return false;
}

bool gw_alarm_outlets_check(const char *command, const char *url, gw_err *err) {
    const char *folder;
    int count;
    if (command != NULL) {
        char **words = gw_command_line_words(command, &folder, &count);
        if (words == NULL)
            return gw_fail(
                err, GW_E_USAGE,
                "--notify: '%.100s' cannot be split into words: quote what a shell would expand, or "
                "name a shell, as in sh -c '...'",
                command);
        bool found = is_program(words[0]);
        if (!found)
            gw_fail(err, GW_E_USAGE, "--notify: there is no program '%.100s' that can be executed", words[0]);
        free(words);
        if (!found) return false;
    }
    return url == NULL || gw_webhook_check(url, err) || gw_fail_in(err, "--webhook");
}

/* A file in memory with the text, at its beginning. */
static int file_of(const char *text) {
    int fd = memfd_create("alarm", MFD_CLOEXEC);
    size_t length = strlen(text);
    if (fd >= 0 && (write(fd, text, length) != (ssize_t)length || write(fd, "\n", 1) != 1 ||
                    lseek(fd, 0, SEEK_SET) != 0)) {
        close(fd);
        return -1;
    }
    return fd;
}

/* The environment of the command: this process's, and the alarm. The caller frees it, which has the strings behind
 * it. */
static char **environment_of(const gw_alarm *alarm) {
    char *own[4];
    size_t count = 0, own_count = sizeof own / sizeof own[0], bytes = 0;
    while (environ[count] != NULL) count++;
    GW_ASSERT_MEMORY(asprintf(&own[0], "GODWIT_ALARM=%s", gw_alarm_kind_name(alarm->kind)) >= 0);
    GW_ASSERT_MEMORY(asprintf(&own[1], "GODWIT_ALARM_KEY=%s", alarm->key) >= 0);
    GW_ASSERT_MEMORY(asprintf(&own[2], "GODWIT_ALARM_OVER=%d", alarm->over) >= 0);
    GW_ASSERT_MEMORY(asprintf(&own[3], "GODWIT_ALARM_TEXT=%s", alarm->text) >= 0);
    for (size_t i = 0; i < own_count; i++) bytes += strlen(own[i]) + 1;
    char **all = malloc((count + own_count + 1) * sizeof *all + bytes);
    GW_ASSERT_MEMORY(all != NULL);
    char *to = (char *)(all + count + own_count + 1);
    memcpy(all, environ, count * sizeof *all);
    for (size_t i = 0; i < own_count; i++) {
        size_t length = strlen(own[i]) + 1;
        all[count + i] = memcpy(to, own[i], length);
        to += length;
        free(own[i]);
    }
    all[count + own_count] = NULL;
    return all;
}

static bool run_command(const char *command, const char *json, const gw_alarm *alarm, uint64_t patience_ns,
                        gw_err *err) {
    const char *folder;
    int count, status = 0;
    char end[GW_PROCESS_END_TEXT];
    gw_process process;
    char **words = gw_command_line_words(command, &folder, &count);
    if (words == NULL) return gw_fail(err, GW_E_USAGE, "it cannot be split into words");
    char **environment = environment_of(alarm);
    int fds[3] = {file_of(json), open("/dev/null", O_WRONLY | O_CLOEXEC), STDERR_FILENO};
    const gw_spawn spawn = {
        .file = words[0], .argv = words, .environment = environment, .fds = fds, .fd_count = 3};
    bool started = fds[0] >= 0 && fds[1] >= 0 ? gw_process_spawn(&spawn, &process, err)
                                              : gw_fail_errno(err, errno, "cannot make its input");
    for (int i = 0; i < 2; i++)
        if (fds[i] >= 0) close(fds[i]);
    free(environment);
    free(words);
    if (!started) return false;
    bool ended = gw_process_wait(&process, patience_ns, true, &status);
    if (!ended) {
        gw_process_kill(&process);
        gw_process_wait(&process, SECOND_NS, true, &status);
    }
    gw_process_close(&process);
    if (!ended) return gw_fail(err, GW_E_IO, "it did not end within %g s", (double)patience_ns / SECOND_NS);
    return status == 0 || gw_fail(err, GW_E_IO, "it ended with %s", gw_process_end(status, end));
}

/* The thread. */

/* With the lock held. */
static void queue(gw_alarm_sender *s, delivery *one) {
    delivery **at = &s->first;
    while (*at != NULL && (*at)->due_ns <= one->due_ns) at = &(*at)->next;
    one->next = *at;
    *at = one;
    s->waiting++;
    pthread_cond_signal(&s->changed);
}

static bool deliver(const gw_alarm_sender *s, const delivery *one, bool last, gw_err *err) {
    char *json = gw_alarm_json(&s->outlets, &one->alarm, one->left_out);
    GW_ASSERT_MEMORY(json != NULL);
    uint64_t left = last && s->until_ns > gw_now_ns() ? s->until_ns - gw_now_ns() : SECOND_NS;
    bool good = one->to == COMMAND ? run_command(s->outlets.command, json, &one->alarm,
                                                 last && left < COMMAND_NS ? left : COMMAND_NS, err)
                                   : gw_webhook_post(s->outlets.url, json, last ? LAST_MS : WEBHOOK_MS, err);
    free(json);
    return good;
}

static void try_once(gw_alarm_sender *s, delivery *one, bool last) {
    static const char *const names[] = {"--notify", "--webhook"};
    gw_err err;
    if (deliver(s, one, last, &err)) {
        free(one);
        return;
    }
    bool again = ++one->tried < TRIES && !last;
    gw_log(GW_WARN, "alarm", "%s: %s%s; the alarm was: %s%s", names[one->to], err.text,
           again ? "; it is tried again" : "", one->alarm.over ? "(over) " : "", one->alarm.text);
    if (!again) {
        free(one);
        return;
    }
    one->due_ns = gw_now_ns() + pauses_ns[one->tried - 1];
    pthread_mutex_lock(&s->lock);
    queue(s, one);
    pthread_mutex_unlock(&s->lock);
}

static void *thread_main(void *context) {
    gw_alarm_sender *s = context;
    pthread_setname_np(pthread_self(), "gw-alarm");
    pthread_mutex_lock(&s->lock);
    for (;;) {
        while (!s->closing && (s->first == NULL || s->first->due_ns > gw_now_ns()))
            gw_cond_wait_until(&s->changed, &s->lock, s->first != NULL ? s->first->due_ns : UINT64_MAX);
        bool late = s->closing && gw_now_ns() >= s->until_ns;
        delivery *one = s->first;
        if (one == NULL || late) break;
        s->first = one->next;
        s->waiting--;
        bool last = s->closing;
        pthread_mutex_unlock(&s->lock);
        try_once(s, one, last);
        pthread_mutex_lock(&s->lock);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

gw_alarm_sender *gw_alarm_sender_open(const gw_alarm_outlets *outlets, gw_err *err) {
    gw_alarm_sender *s = calloc(1, sizeof *s);
    if (s == NULL) {
        gw_fail(err, GW_E_NOMEM, "alarms: out of memory");
        return NULL;
    }
    s->outlets = *outlets;
    pthread_mutex_init(&s->lock, NULL);
    gw_cond_init(&s->changed);
    int failure = pthread_create(&s->thread, NULL, thread_main, s);
    if (failure == 0) return s;
    gw_fail_thread(err, failure, "alarms");
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    free(s);
    return NULL;
}

void gw_alarm_sender_close(gw_alarm_sender *s, uint64_t patience_ns) {
    if (s == NULL) return;
    pthread_mutex_lock(&s->lock);
    s->closing = true;
    s->until_ns = gw_now_ns() + patience_ns;
    pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    while (s->first != NULL) {
        delivery *one = s->first;
        s->first = one->next;
        gw_log(GW_WARN, "alarm", "this alarm was not sent before the end: %s", one->alarm.text);
        free(one);
    }
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

void gw_alarm_sender_put(void *context, const gw_alarm *alarm) {
    gw_alarm_sender *s = context;
    const char *const given[] = {[COMMAND] = s->outlets.command, [WEBHOOK] = s->outlets.url};
    bool end = alarm->kind <= GW_ALARM_FAILED; /* the end of a run is always told */
    bool bad = !alarm->over && alarm->kind >= GW_ALARM_FAILED;
    uint64_t now = gw_now_ns();
    pthread_mutex_lock(&s->lock);
    if (now - s->window_ns > WINDOW_NS) {
        s->window_ns = now;
        memset(s->in_window, 0, sizeof s->in_window);
    }
    bool fits =
        end || (s->in_window[alarm->kind] < GW_ALARM_BURST && s->waiting + OUTLETS <= GW_ALARM_WAITING);
    for (int to = 0; to < OUTLETS && fits; to++) {
        if (given[to] == NULL) continue;
        delivery *one = calloc(1, sizeof *one);
        GW_ASSERT_MEMORY(one != NULL);
        *one = (delivery){.alarm = *alarm, .to = (outlet)to, .due_ns = now, .left_out = s->left_out};
        queue(s, one);
    }
    s->in_window[alarm->kind] += fits;
    s->left_out = fits ? 0 : s->left_out + 1;
    bool first_left_out = s->left_out == 1;
    pthread_mutex_unlock(&s->lock);
    if (fits)
        gw_log(bad ? GW_WARN : GW_INFO, "alarm", "%s%s: %s", gw_alarm_kind_name(alarm->kind),
               alarm->over ? " is over" : "", alarm->text);
    else if (first_left_out)
        gw_log(
            GW_WARN, "alarm",
            "more than %d alarms of the kind %s in ten minutes: the others are left out, and the next alarm "
            "tells how many",
            GW_ALARM_BURST, gw_alarm_kind_name(alarm->kind));
}
