#include "tools/godwit/map/job_log.h"

#include "core/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TITLE "Seq\tHost\tStarttime\tJobRuntime\tSend\tReceive\tExitval\tSignal\tCommand\n"

/* Whether the file is empty, or its last line does not end. */
static bool look_at_end(FILE *file, bool *empty, bool *open_line) {
    char last = '\n';
    if (fseeko(file, 0, SEEK_END) != 0) { /* no file on a disk */
        *empty = true;
        *open_line = false;
        return true;
    }
    off_t end = ftello(file);
    *empty = end <= 0;
    if (end > 0 && pread(fileno(file), &last, 1, end - 1) != 1) return false;
    *open_line = last != '\n';
    return true;
}

bool gw_map_log_open(gw_map_log *log, const char *path, bool fresh, gw_err *err) {
    bool empty, open_line, standard = strcmp(path, "-") == 0;
    *log = (gw_map_log){.path = standard ? "standard output" : path};
    int fd = standard ? fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3)
                      : open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_APPEND | (fresh ? O_TRUNC : 0), 0666);
    log->file = fd >= 0 ? fdopen(fd, standard ? "w" : "a+") : NULL;
    if (log->file == NULL) {
        gw_fail_named(err, errno, "--joblog: cannot write '%s'", path);
        if (fd >= 0) close(fd);
        return false;
    }
    if (!look_at_end(log->file, &empty, &open_line))
        return gw_fail_errno(err, errno, "--joblog: cannot read '%s'", path);
    if (open_line) fputc('\n', log->file);
    if (empty || standard) fputs(TITLE, log->file);
    return fflush(log->file) == 0 || gw_fail_errno(err, errno, "--joblog: cannot write '%s'", path);
}

bool gw_map_log_write(gw_map_log *log, const gw_map_log_line *line, gw_err *err) {
    fprintf(log->file, "%llu\t%s\t%llu.%03u\t%10.3f\t0\t%llu\t%d\t%d\t", (unsigned long long)line->task,
            line->host != NULL ? line->host : ":", (unsigned long long)(line->begun_wall_ns / 1000000000),
            (unsigned)(line->begun_wall_ns / 1000000 % 1000), (double)line->wall_us * 1e-6,
            (unsigned long long)line->bytes, line->exit_code, line->signal);
    for (const char *at = line->command; *at != '\0'; at++) fputc(*at == '\n' ? '\0' : *at, log->file);
    fputc('\n', log->file);
    return fflush(log->file) == 0 || gw_fail_errno(err, errno, "--joblog: cannot write '%s'", log->path);
}

bool gw_map_log_close(gw_map_log *log, gw_err *err) {
    FILE *file = log->file;
    log->file = NULL;
    if (file == NULL) return true;
    return fclose(file) == 0 || gw_fail_errno(err, errno, "--joblog: cannot write '%s'", log->path);
}

/* Reading. */

static bool reserve(gw_map_log_tasks *t, uint64_t task, uint64_t *room, bool commands) {
    if (task < *room) return true;
    uint64_t more = task + task / 2 + 1024;
    uint8_t *state = realloc(t->state, more);
    if (state != NULL) t->state = state;
    char **texts = commands ? realloc(t->commands, more * sizeof(char *)) : NULL;
    if (texts != NULL) t->commands = texts;
    if (state == NULL || (commands && texts == NULL)) return false;
    memset(t->state + *room, GW_MAP_LOG_NOTHING, more - *room);
    for (uint64_t i = *room; commands && i < more; i++) t->commands[i] = NULL;
    *room = more;
    return true;
}

/* Reads a line of `length` bytes, with a zero behind them. False: it is none. */
static bool read_line(char *line, size_t length, uint64_t *task, bool *failed, char **command) {
    int host, behind = 0, exit_code, signal;
    unsigned long long number;
    if (sscanf(line, "%llu\t%n", &number, &host) != 1) return false;
    char *rest = strchr(line + host, '\t');
    if (rest == NULL || number == 0 || number > GW_MAP_LOG_TASKS_MOST) return false;
    if (sscanf(rest + 1, "%*[^\t]\t%*[^\t]\t%*[^\t]\t%*[^\t]\t%d\t%d\t%n", &exit_code, &signal, &behind) !=
            2 ||
        behind == 0)
        return false;
    *task = number;
    *failed = exit_code != 0 || signal != 0;
    *command = rest + 1 + behind;
    for (char *at = *command; at < line + length; at++)
        if (*at == '\0') *at = '\n';
    return true;
}

static bool take_line(gw_map_log_tasks *t, char *line, size_t length, uint64_t *room, bool commands,
                      bool *known) {
    uint64_t task;
    bool failed;
    char *command;
    *known = read_line(line, length, &task, &failed, &command);
    if (!*known) return true;
    if (!reserve(t, task, room, commands)) return false;
    t->state[task] = failed ? GW_MAP_LOG_FAILED : GW_MAP_LOG_DONE;
    if (task >= t->count) t->count = task + 1;
    if (!commands) return true;
    free(t->commands[task]);
    t->commands[task] = failed ? strdup(command) : NULL;
    return !failed || t->commands[task] != NULL;
}

bool gw_map_log_read(const char *path, bool commands, gw_map_log_tasks *t, gw_err *err) {
    *t = (gw_map_log_tasks){.count = 0};
    FILE *file = fopen(path, "re");
    if (file == NULL && errno == ENOENT) return true;
    if (file == NULL) return gw_fail_named(err, errno, "--joblog: cannot read '%s'", path);
    char *line = NULL;
    size_t size = 0;
    uint64_t room = 0, number = 0;
    bool good = true;
    ssize_t length;
    while (good && (length = getline(&line, &size, file)) > 0) {
        bool whole = line[length - 1] == '\n';
        if (!whole) break;
        line[--length] = '\0';
        bool known = true;
        if (number++ == 0)
            good =
                strncmp(line, "Seq\tHost\t", 9) == 0 ||
                gw_fail(err, GW_E_INVALID, "--joblog: '%s' is no job log; the file is left as it is", path);
        else if (length > 0)
            good = take_line(t, line, (size_t)length, &room, commands, &known) ||
                   gw_fail(err, GW_E_NOMEM, "no memory for the job log '%s'", path);
        if (good && !known)
            gw_log(GW_WARN, "map", "line %llu of the job log '%s' is not whole and is passed over",
                   (unsigned long long)number, path);
    }
    if (good && ferror(file)) good = gw_fail_errno(err, EIO, "--joblog: cannot read '%s'", path);
    free(line);
    fclose(file);
    if (!good) gw_map_log_tasks_free(t);
    return good;
}

void gw_map_log_tasks_free(gw_map_log_tasks *t) {
    for (uint64_t i = 0; t->commands != NULL && i < t->count; i++) free(t->commands[i]);
    free(t->commands);
    free(t->state);
    *t = (gw_map_log_tasks){.count = 0};
}
