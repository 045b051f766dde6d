#include "tests/cluster/lab.h"

#include "net/secure/identity.h"
#include "tools/godwit/work/claim_journal.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { HANG_MS = 240000 };

static uint64_t now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

lab *lab_open(void) {
    static const int ending[] = {SIGHUP, SIGINT, SIGTERM};
    for (size_t i = 0; i < sizeof ending / sizeof *ending; i++) signal(ending[i], SIG_DFL);
    lab *l = calloc(1, sizeof *l);
    cr_assert_not_null(l);
    strcpy(l->dir, "/tmp/godwit-lab-XXXXXX");
    cr_assert_not_null(mkdtemp(l->dir));
    return l;
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *at) {
    (void)status, (void)kind, (void)at;
    return remove(path);
}

/* Removes the journal of claims that a killed peer has left in shared memory for its next life. */
static void remove_claims(const lab_peer *peer) {
    gw_identity identity;
    char path[GW_PATH_BYTES];
    gw_err err;
    if (gw_identity_open(gw_io_system(), peer->dir, &identity, &err) &&
        gw_claim_journal_path(GW_CLAIM_JOURNAL_FOLDER, &identity.id, path, &err))
        unlink(path);
}

void lab_close(lab *l) {
    for (uint32_t i = 0; i < l->count; i++) {
        lab_peer *peer = &l->peers[i];
        if (peer->pid != 0) {
            kill(peer->pid, SIGKILL);
            waitpid(peer->pid, NULL, 0);
        }
        if (peer->out >= 0) close(peer->out);
        if (peer->err >= 0) close(peer->err);
        json_decref(peer->events);
        free(peer->line);
        free(peer->stderr_text);
        remove_claims(peer);
    }
    for (uint32_t i = 0; i < l->kept_count; i++) close(l->kept[i]);
    nftw(l->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    free(l);
}

/* Ports. */

/* Ports below those that Linux gives to a socket that asks for any port, as a UDP port among those could not be kept. */
enum { KEPT_FIRST = 20000, KEPT_PORTS = 12000 };

/* A socket that is bound and does not listen keeps away all but those who share addresses. It does not share
 * its own until it has the port: two labs never keep the same. */
static bool keep(int fd, uint16_t port) {
    struct sockaddr_in at = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int on = 1;
    return bind(fd, (struct sockaddr *)&at, sizeof at) == 0 &&
           setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0;
}

uint16_t lab_keep_port(lab *l) {
    static uint32_t next;
    if (next == 0) next = (uint32_t)getpid() * 31;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert(fd >= 0 && l->kept_count < LAB_PEERS);
    for (uint32_t tries = 0; tries < KEPT_PORTS; tries++) {
        uint16_t port = (uint16_t)(KEPT_FIRST + next++ % KEPT_PORTS);
        if (!keep(fd, port)) continue;
        l->kept[l->kept_count++] = fd;
        return port;
    }
    cr_assert_fail("no port of loopback between %d and %d is free", KEPT_FIRST, KEPT_FIRST + KEPT_PORTS - 1);
    return 0;
}

/* Starting peers. */

static void split(char *text, char **words, int *count) {
    for (char *word = strtok(text, " "); word != NULL; word = strtok(NULL, " ")) {
        cr_assert_lt(*count, LAB_ARGS - 1);
        words[(*count)++] = word;
    }
    words[*count] = NULL;
}

/* Forks and executes the binary; its output comes through the pipes. */
static pid_t execute(char **words, int *out, int *err) {
    int outs[2], errs[2];
    cr_assert_eq(pipe2(outs, O_CLOEXEC), 0);
    cr_assert_eq(pipe2(errs, O_CLOEXEC), 0);
    pid_t parent = getpid(), pid = fork();
    cr_assert_geq(pid, 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) _exit(127);
        dup2(outs[1], STDOUT_FILENO);
        dup2(errs[1], STDERR_FILENO);
        execv(GODWIT_BINARY, words);
        _exit(127);
    }
    close(outs[1]);
    close(errs[1]);
    fcntl(outs[0], F_SETFL, O_NONBLOCK);
    fcntl(errs[0], F_SETFL, O_NONBLOCK);
    *out = outs[0];
    *err = errs[0];
    return pid;
}

lab_peer *lab_launch(lab *l, const char *name, const lab_peer *seed, const char *listen, const char *args) {
    cr_assert_lt(l->count, LAB_PEERS);
    lab_peer *peer = &l->peers[l->count++];
    char dir[LAB_PATH];
    snprintf(dir, sizeof dir, "%.400s/%.64s", l->dir, name);
    memcpy(peer->dir, dir, sizeof dir);
    peer->events = json_array();
    char text[1024], join[64] = "", cluster[64] = "";
    if (seed != NULL) snprintf(join, sizeof join, " --join 127.0.0.1:%u", seed->port);
    if (strstr(args, "--cluster") == NULL)
        snprintf(cluster, sizeof cluster, " --cluster %s", strrchr(l->dir, '/') + 1);
    snprintf(text, sizeof text, "godwit run %s --json --dir %s --listen %s%s%s", args, peer->dir,
             listen ? listen : "127.0.0.1:0", join, cluster);
    char *words[LAB_ARGS];
    int count = 0;
    split(text, words, &count);
    peer->pid = execute(words, &peer->out, &peer->err);
    return peer;
}

lab_peer *lab_start(lab *l, const char *name, const lab_peer *seed, const char *args) {
    lab_peer *peer = lab_launch(l, name, seed, NULL, args);
    peer->port = (uint16_t)lab_number(lab_wait_event(l, peer, "listening"), "port");
    return peer;
}

void lab_flock(lab *l, uint32_t count, const char *args, lab_peer **peers) {
    char text[512], name[16];
    snprintf(text, sizeof text, "%s --peers %u", args, count);
    for (uint32_t i = 0; i < count; i++) {
        snprintf(name, sizeof name, "p%u", i);
        peers[i] = lab_start(l, name, i > 0 ? peers[0] : NULL, text);
    }
}

/* Reading their output. */

static void take_line(lab_peer *peer, const char *line, size_t length) {
    json_error_t error;
    json_t *event = json_loadb(line, length, 0, &error);
    cr_assert_not_null(event, "not a line of JSON: %.*s", (int)length, line);
    json_array_append_new(peer->events, event);
}

static void take_bytes(lab_peer *peer, const char *bytes, size_t count) {
    peer->line = realloc(peer->line, peer->line_bytes + count);
    cr_assert_not_null(peer->line);
    memcpy(peer->line + peer->line_bytes, bytes, count);
    peer->line_bytes += count;
    char *end;
    while ((end = memchr(peer->line, '\n', peer->line_bytes)) != NULL) {
        size_t length = (size_t)(end - peer->line);
        take_line(peer, peer->line, length);
        peer->line_bytes -= length + 1;
        memmove(peer->line, end + 1, peer->line_bytes);
    }
}

static void take_stderr(lab_peer *peer, const char *bytes, size_t count) {
    peer->stderr_text = realloc(peer->stderr_text, peer->stderr_bytes + count + 1);
    cr_assert_not_null(peer->stderr_text);
    memcpy(peer->stderr_text + peer->stderr_bytes, bytes, count);
    peer->stderr_bytes += count;
    peer->stderr_text[peer->stderr_bytes] = '\0';
}

/* Reads the output that is there and closes the descriptor at its end. */
static void drain(lab_peer *peer, int *fd, void (*take)(lab_peer *, const char *, size_t)) {
    char bytes[65536];
    ssize_t got = read(*fd, bytes, sizeof bytes);
    if (got > 0) {
        take(peer, bytes, (size_t)got);
    } else if (got == 0) {
        close(*fd);
        *fd = -1;
    } else {
        cr_assert(errno == EAGAIN || errno == EINTR);
    }
}

/* Waits for output of any peer and reads it, as no peer may block on a full pipe. Returns false if no peer is left. */
static bool pump(lab *l, uint64_t until_ms) {
    struct pollfd fds[2 * LAB_PEERS];
    lab_peer *whose[2 * LAB_PEERS];
    nfds_t count = 0;
    for (uint32_t i = 0; i < l->count; i++) {
        lab_peer *peer = &l->peers[i];
        const int both[2] = {peer->out, peer->err};
        for (int k = 0; k < 2; k++) {
            if (both[k] < 0) continue;
            fds[count] = (struct pollfd){.fd = both[k], .events = POLLIN};
            whose[count++] = peer;
        }
    }
    if (count == 0) return false;
    uint64_t now = now_ms();
    int ready = now < until_ms ? poll(fds, count, (int)(until_ms - now)) : 0;
    if (ready < 0 && errno == EINTR) return true;
    if (ready <= 0) return false;
    for (nfds_t i = 0; i < count; i++) {
        if (fds[i].revents == 0) continue;
        if (fds[i].fd == whose[i]->out)
            drain(whose[i], &whose[i]->out, take_bytes);
        else
            drain(whose[i], &whose[i]->err, take_stderr);
    }
    return true;
}

const json_t *lab_wait(lab *l, lab_peer *peer, lab_match *match, const void *context, const char *what) {
    uint64_t until = now_ms() + HANG_MS;
    for (size_t at = peer->mark;;) {
        for (; at < json_array_size(peer->events); at++) {
            const json_t *event = json_array_get(peer->events, at);
            if (match(event, context)) return event;
        }
        bool over = peer->out < 0;
        cr_assert(!over && pump(l, until), "%s: %s while waiting for %s; its stderr: %s", peer->dir,
                  over ? "it ended" : "nothing came", what, peer->stderr_text ? peer->stderr_text : "");
    }
}

void lab_pump(lab *l) {
    cr_assert(pump(l, now_ms() + HANG_MS), "nothing came");
}

void lab_mark(lab *l, lab_peer *peer) {
    (void)l;
    peer->mark = json_array_size(peer->events);
}

const char *lab_text(const json_t *event, const char *key) {
    const char *text = json_string_value(json_object_get(event, key));
    return text ? text : "";
}

uint64_t lab_number(const json_t *event, const char *key) {
    return (uint64_t)json_integer_value(json_object_get(event, key));
}

char *lab_shell(const char *command, int *code) {
    size_t size = 0;
    char *text = NULL, part[4096];
    FILE *out = open_memstream(&text, &size), *pipe = popen(command, "r");
    cr_assert(out != NULL && pipe != NULL);
    for (size_t got; (got = fread(part, 1, sizeof part, pipe)) > 0;) fwrite(part, 1, got, out);
    int status = pclose(pipe);
    cr_assert(fclose(out) == 0 && WIFEXITED(status), "%s", command);
    *code = WEXITSTATUS(status);
    return text;
}

/* Returns what `godwit status` prints now. The caller frees it. */
static char *shown(const lab_peer *peer, const char *options) {
    char command[LAB_PATH * 2];
    int code;
    snprintf(command, sizeof command, GODWIT_BINARY " status %s --dir %s", options, peer->dir);
    char *text = lab_shell(command, &code);
    cr_assert_eq(code, 0, "%s", command);
    return text;
}

char *lab_wait_shown(lab *l, const lab_peer *peer, const char *options, const char *part) {
    uint64_t end = now_ms() + HANG_MS;
    for (;;) {
        char *text = shown(peer, options);
        if (strstr(text, part) != NULL) return text;
        cr_assert_lt(now_ms(), end, "godwit status does not say '%s': %s", part, text);
        free(text);
        pump(l, now_ms() + 20); /* nothing may come while a peer waits */
    }
}

static bool is_kind(const json_t *event, const char *kind) {
    return strcmp(lab_text(event, "event"), kind) == 0;
}

static bool match_kind(const json_t *event, const void *kind) {
    return is_kind(event, kind);
}

const json_t *lab_wait_event(lab *l, lab_peer *peer, const char *kind) {
    return lab_wait(l, peer, match_kind, kind, kind);
}

static bool match_step(const json_t *event, const void *step) {
    return is_kind(event, "step") && lab_number(event, "step") >= *(const uint64_t *)step;
}

void lab_wait_step(lab *l, lab_peer *peer, uint64_t step) {
    lab_wait(l, peer, match_step, &step, "a step");
}

static bool match_view(const json_t *event, const void *members) {
    return is_kind(event, "view") &&
           json_array_size(json_object_get(event, "members")) == *(const size_t *)members;
}

const json_t *lab_wait_view(lab *l, lab_peer *peer, size_t members) {
    return lab_wait(l, peer, match_view, &members, "a view");
}

const char *lab_logged(const lab_peer *peer, const char *part) {
    const char *found = NULL;
    size_t i;
    json_t *event;
    json_array_foreach(peer->events, i, event) {
        const char *text = json_string_value(json_object_get(event, "text"));
        if (text != NULL && strstr(text, part) != NULL) found = text;
    }
    return found;
}

const json_t *lab_last(const lab_peer *peer, const char *kind) {
    for (size_t i = json_array_size(peer->events); i > 0; i--) {
        const json_t *event = json_array_get(peer->events, i - 1);
        if (is_kind(event, kind)) return event;
    }
    return NULL;
}

uint32_t lab_leader(lab_peer **peers, uint32_t count) {
    const char *leader = lab_text(lab_last(peers[0], "view"), "leader");
    uint32_t i = 0;
    while (i < count && strcmp(lab_text(lab_last(peers[i], "start"), "peer"), leader) != 0) i++;
    cr_assert_lt(i, count, "the leader %s is none of ours", leader);
    return i;
}

/* Ending peers. */

void lab_signal(lab_peer *peer, int signal) {
    cr_assert_neq(peer->pid, 0);
    cr_assert_eq(kill(peer->pid, signal), 0);
    if (signal != SIGSTOP) return;
    int status; /* what is sent next must find it stopped */
    cr_assert_eq(waitpid(peer->pid, &status, WUNTRACED), peer->pid);
    cr_assert(WIFSTOPPED(status));
}

int lab_end(lab *l, lab_peer *peer) {
    uint64_t until = now_ms() + HANG_MS;
    while (peer->out >= 0 || peer->err >= 0)
        cr_assert(pump(l, until), "%s does not end; its stderr: %s", peer->dir,
                  peer->stderr_text ? peer->stderr_text : "");
    if (peer->pid != 0) cr_assert_eq(waitpid(peer->pid, &peer->status, 0), peer->pid);
    peer->pid = 0;
    return WIFEXITED(peer->status) ? WEXITSTATUS(peer->status) : 128 + WTERMSIG(peer->status);
}

int lab_insist(lab *l, lab_peer *peer, int signal) {
    uint64_t until = now_ms() + HANG_MS, again = 0;
    while (peer->out >= 0 || peer->err >= 0) {
        if (now_ms() >= again) {
            lab_signal(peer, signal);
            again = now_ms() + 100;
        }
        cr_assert(pump(l, again) || now_ms() < until, "%s does not end", peer->dir);
    }
    return lab_end(l, peer);
}

void lab_kill(lab *l, lab_peer *peer) {
    lab_signal(peer, SIGKILL);
    cr_assert_eq(lab_end(l, peer), 128 + SIGKILL);
}

const char *lab_state(lab *l, lab_peer *peer, const char *outcome) {
    int code = lab_end(l, peer);
    const json_t *done = lab_last(peer, "done");
    cr_assert_eq(code, 0, "%s: exit code %d; its stderr: %s", peer->dir, code,
                 peer->stderr_text ? peer->stderr_text : "");
    cr_assert_not_null(done);
    cr_assert_str_eq(lab_text(done, "outcome"), outcome);
    cr_assert_eq(strlen(lab_text(done, "state")), 64);
    return lab_text(done, "state");
}

const char *lab_undisturbed(lab *l, const char *args) {
    lab_peer *peer = lab_launch(l, "undisturbed", NULL, NULL, args);
    return lab_state(l, peer, "done");
}

int lab_command(const char *args) {
    char text[1024];
    snprintf(text, sizeof text, "godwit %s", args);
    char *words[LAB_ARGS];
    int count = 0;
    split(text, words, &count);
    int out, err, status;
    pid_t pid = execute(words, &out, &err);
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    close(out);
    close(err);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void lab_stop_alike(lab *l, lab_peer **peers, uint32_t count, const char *args) {
    char text[LAB_PATH + 100], hash[65];
    snprintf(text, sizeof text, "stop --dir %s", peers[0]->dir);
    cr_assert_eq(lab_command(text), 0);
    strcpy(hash, lab_state(l, peers[0], "stopped"));
    for (uint32_t i = 1; i < count; i++) cr_expect_str_eq(lab_state(l, peers[i], "stopped"), hash, "%u", i);
    snprintf(text, sizeof text, "%s --steps %llu --skew 0.01", args,
             (unsigned long long)lab_number(lab_last(peers[0], "done"), "steps"));
    cr_expect_str_eq(lab_undisturbed(l, text), hash);
}

void lab_key(const lab *l, const char *name, char path[LAB_PATH]) {
    char line[LAB_PATH + 16];
    snprintf(path, LAB_PATH, "%.400s/%s", l->dir, name);
    snprintf(line, sizeof line, "keygen %s", path);
    cr_assert_eq(lab_command(line), 0);
}

/* What a peer uses. */

uint64_t lab_resident_bytes(const lab_peer *peer) {
    char path[64];
    unsigned long all, pages = 0;
    snprintf(path, sizeof path, "/proc/%d/statm", (int)peer->pid);
    FILE *file = fopen(path, "re");
    cr_assert(file != NULL && fscanf(file, "%lu %lu", &all, &pages) == 2, "%s", path);
    fclose(file);
    return (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

uint32_t lab_descriptors(const lab_peer *peer) {
    char path[64];
    uint32_t count = 0;
    snprintf(path, sizeof path, "/proc/%d/fd", (int)peer->pid);
    DIR *folder = opendir(path);
    cr_assert_not_null(folder, "%s", path);
    for (const struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder))
        count += entry->d_name[0] != '.';
    closedir(folder);
    return count;
}
