#include "tools/godwit/flock/member.h"

#include "core/base/assert.h"
#include "core/base/log.h"
#include "core/base/utf8.h"
#include "core/os/clock.h"
#include "net/loop/address.h"
#include "tools/godwit/flock/inside.h"
#include "tools/godwit/show/http.h"
#include "tools/godwit/thread/descriptors.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MACHINE_TEXT = 40, FAREWELL_MS = 300 };

/* The directory. */

/* Reads a name of this machine that no other has: homes are often shared. */
static void read_machine(char text[MACHINE_TEXT]) {
    FILE *file = fopen("/etc/machine-id", "re");
    text[0] = '\0';
    if (file != NULL) {
        if (fgets(text, MACHINE_TEXT, file) == NULL) text[0] = '\0';
        fclose(file);
    }
    text[strspn(text, "0123456789abcdef")] = '\0';
    if (text[0] == '\0' && gethostname(text, MACHINE_TEXT - 1) != 0) snprintf(text, MACHINE_TEXT, "here");
}

char *gw_member_directory(void) {
    const char *given = getenv("GODWIT_FLOCK"), *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    const struct passwd *user = home == NULL ? getpwuid(getuid()) : NULL;
    char machine[MACHINE_TEXT], *path;
    int length;
    read_machine(machine);
    if (user != NULL) home = user->pw_dir;
    if (given != NULL && given[0] != '\0')
        length = asprintf(&path, "%s", given);
    else if (state != NULL && state[0] == '/')
        length = asprintf(&path, "%s/godwit/flock/%s", state, machine);
    else
        length = asprintf(&path, "%s/.local/state/godwit/flock/%s", home != NULL ? home : "/tmp", machine);
    GW_ASSERT_MEMORY(length >= 0);
    return path;
}

/* Makes the folders above the directory. */
static bool make_folders(const char *directory, gw_err *err) {
    char path[GW_PATH_BYTES];
    if (!gw_durable_path(path, err, "%s", directory)) return false;
    for (char *at = path + 1; (at = strchr(at, '/')) != NULL; at++) {
        *at = '\0';
        if (mkdir(path, 0777) != 0 && errno != EEXIST)
            return gw_fail_named(err, errno, "--dir: the folder %s cannot be made", path);
        *at = '/';
    }
    return true;
}

static bool open_directory(gw_flock_member *m, gw_err *err) {
    return make_folders(m->options->directory, err) &&
           gw_directory_open(m->options->directory, &m->directory, err) &&
           gw_dirlock_take(&m->directory.io, m->directory.path, &m->lock, err) &&
           (m->options->key_file == NULL ||
            gw_blame_named(gw_keyring_load(m->options->key_file, &m->keyring, err), err)) &&
           gw_identity_open(&m->directory.io, m->directory.path, &m->identity, err);
}

/* What this node has. */

static uint32_t memory_mib(void) {
    long pages = sysconf(_SC_PHYS_PAGES), bytes = sysconf(_SC_PAGESIZE);
    return pages > 0 && bytes > 0 ? (uint32_t)((uint64_t)pages * (uint64_t)bytes >> 20) : 0;
}

/* How many processors this process may run on, which they are in *set. */
static uint32_t cores(cpu_set_t *set) {
    CPU_ZERO(set);
    int count = sched_getaffinity(0, sizeof *set, set) == 0 ? CPU_COUNT(set) : 0;
    return count > 0 ? (uint32_t)count : 1;
}

/* The GPUs that NVIDIA's driver shows. */
static uint32_t gpus(void) {
    DIR *folder = opendir("/proc/driver/nvidia/gpus");
    uint32_t count = 0;
    for (const struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;)
        count += entry->d_name[0] != '.';
    if (folder != NULL) closedir(folder);
    return count;
}

static void describe(gw_flock_member *m) {
    const gw_member_options *options = m->options;
    char host[GW_HOST_TEXT] = "";
    m->claims.allotment = GW_ALLOT_VERSION;
    m->claims.has = options->has;
    uint32_t processors = cores(&m->processors);
    if (m->claims.has.cores == 0) m->claims.has.cores = processors;
    m->deals_cores = m->claims.has.cores <= (uint32_t)CPU_COUNT(&m->processors);
    if (m->claims.has.memory_mib == 0) m->claims.has.memory_mib = memory_mib();
    if (m->claims.has.gpus == 0) m->claims.has.gpus = gpus();
    if (options->name == NULL && gethostname(host, sizeof host - 1) == 0) host[strcspn(host, ".")] = '\0';
    snprintf(m->claims.name, sizeof m->claims.name, "%s", options->name != NULL ? options->name : host);
    gw_utf8_make_printable(m->claims.name);
}

/* The network. */

static bool bind_network(gw_flock_member *m, gw_err *err) {
    const gw_member_options *options = m->options;
    gw_addr found[GW_RESOLVE_ADDRS];
    size_t count;
    m->local.identity = &m->identity;
    m->local.keyring = &m->keyring;
    char name[GW_HOST_TEXT];
    snprintf(name, sizeof name, "flock:%s", options->flock);
    gw_cluster_id(name, &m->local.cluster); /* a peer of a job of this name is of another cluster */
    snprintf(m->local.build, sizeof m->local.build, "%s", GODWIT_VERSION);
    if (!gw_address_resolve(options->listen, found, GW_RESOLVE_ADDRS, &count, err))
        return gw_fail_in(err, "--listen %s", options->listen);
    if (!gw_net_require_loopback(&found[0], m->keyring.count > 0, err) ||
        !gw_endpoint_bind(&found[0], &m->tcp_fd, &m->udp_fd, &m->listen, err))
        return false;
    inet_ntop(m->listen.family == 4 ? AF_INET : AF_INET6, m->listen.ip, m->host, sizeof m->host);
    m->local.listen = m->listen;
    if (options->advertise == NULL) return true;
    if (!gw_address_resolve(options->advertise, found, GW_RESOLVE_ADDRS, &count, err))
        return gw_fail_in(err, "--advertise %s", options->advertise);
    m->local.listen = found[0];
    return true;
}

/* Signals. */

static void signal_came(void *context, uint32_t events) {
    gw_flock_member *m = context;
    struct signalfd_siginfo info;
    (void)events;
    while (read(m->signals.fd, &info, sizeof info) == sizeof info) {
        if (info.ssi_signo == SIGCHLD || info.ssi_signo == SIGPIPE) continue;
        uint32_t children = gw_children_count(m->children);
        gw_log(
            GW_INFO, "flock", "%s: this member ends%s", strsignal((int)info.ssi_signo),
            children > 0
                ? ". Its children go on, and the next member in this directory takes them over; without one "
                  "they leave after ten minutes ('godwit down' asks them to leave at once)"
                : "");
        m->stopped = true;
        gw_loop_stop(m->loop);
    }
}

static bool open_signals(gw_flock_member *m, gw_err *err) {
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGTERM);
    sigaddset(&mask, SIGINT);
    sigaddset(&mask, SIGHUP);
    sigprocmask(SIG_BLOCK, &mask, NULL);
    signal(SIGPIPE, SIG_IGN);
    int fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd < 0) return gw_fail_errno(err, errno, "signalfd");
    return gw_watch_add(m->loop, &m->signals, fd, EPOLLIN, signal_came, m, err);
}

/* The queue for browsers. */
static bool open_http(gw_flock_member *m, gw_err *err) {
    const char *where = m->options->http;
    gw_addr found[GW_RESOLVE_ADDRS], bound;
    char text[GW_ADDR_TEXT];
    size_t count;
    if (where == NULL) return true;
    if (!gw_address_resolve(where, found, GW_RESOLVE_ADDRS, &count, err))
        return gw_fail_in(err, "--http %s", where);
    int fd = gw_http_bind(&found[0], &bound, err);
    if (fd < 0) return false;
    if (!gw_address_is_loopback(&bound) && m->keyring.count == 0)
        gw_log(GW_WARN, "flock", "--http %s: everybody who can reach this address can read the names of jobs",
               where);
    m->http = gw_queue_http_open(m->loop, fd, gw_member_queue, m, err);
    if (m->http != NULL)
        gw_log(GW_INFO, "flock", "browsers see the queue at http://%s/", gw_addr_text(&bound, text));
    return m->http != NULL;
}

/* The whole. */

static void say_welcome(const gw_flock_member *m) {
    char addr[GW_ADDR_TEXT];
    gw_log(GW_INFO, "flock", "%s is a member of the flock '%s' at %s: %u cores, %u MiB%s", m->claims.name,
           m->options->flock, gw_addr_text(&m->listen, addr), m->claims.has.cores, m->claims.has.memory_mib,
           m->keyring.count == 0 ? ", on loopback only, as there is no --key" : "");
    gw_log(GW_INFO, "flock", "its directory is %s; other nodes join with --join %s", m->directory.path, addr);
}

/* Makes the folder of the children's control groups, and says how children are held to what their jobs asked for. */
static void open_groups(gw_flock_member *m) {
    char name[30] = "godwit-";
    gw_err err;
    gw_hex(m->identity.id.bytes, 8, name + strlen(name));
    bool grouped = gw_groups_open(name, &m->groups, &err);
    bool memory = (m->groups.kinds & GW_GROUP_MEMORY) != 0, dealt = (m->groups.kinds & GW_GROUP_CORES) != 0;
    m->claims.limits =
        (uint8_t)((memory ? GW_CLAIMS_LIMITS_MEMORY : 0) |
                  ((m->groups.kinds & GW_GROUP_PROCESSES) != 0 ? GW_CLAIMS_LIMITS_PROCESSES : 0) |
                  (dealt && m->deals_cores ? GW_CLAIMS_LIMITS_CORES : 0));
    gw_log(GW_INFO, "flock",
           "jobs get the memory that they ask for, which %s, and cores of their own %s; %s%s",
           memory ? "the kernel enforces" : "is watched five times a second",
           !m->deals_cores ? "(but not here: --cores is more than the processors)"
           : dealt         ? "by control groups"
                           : "by affinity",
           grouped ? "their control groups are in " : "no control groups can be made: ",
           grouped ? m->groups.path : err.text);
}

static bool open_all(gw_flock_member *m, gw_err *err) {
    gw_descriptors_take();
    if (!open_directory(m, err) || !gw_member_builds_open(m, err)) return false;
    describe(m);
    if (!bind_network(m, err) || (m->loop = gw_loop_open(err)) == NULL || !open_signals(m, err) ||
        !gw_member_act_open(m, err) || !gw_member_stock_open(m, err) || !gw_member_meet_open(m, err))
        return false;
    say_welcome(m);
    gw_member_lost_open(m);
    open_groups(m);
    if (!gw_member_maps_open(m, err) || !gw_member_children_open(m, err) || !gw_member_keep_open(m, err) ||
        !gw_member_serve_open(m, err))
        return false;
    gw_exchange_set_claims(m->exchange, &m->claims, gw_now_ns());
    gw_member_decide_soon(m);
    return open_http(m, err);
}

/* Lets the news that this member has left reach some others. */
static void say_farewell(const gw_flock_member *m) {
    uint64_t end_ns = gw_now_ns() + FAREWELL_MS * UINT64_C(1000000);
    for (uint64_t now; m->going_down && (now = gw_now_ns()) < end_ns;) gw_loop_turn(m->loop, end_ns - now);
}

static bool close_all(gw_flock_member *m) {
    bool good = true;
    if (m->loop != NULL) {
        if (m->gossip != NULL) say_farewell(m);
        gw_member_keep_close(m);
        good = gw_member_prepare_close(m) && gw_member_stock_close(m);
        gw_queue_http_close(m->http);
        gw_member_serve_close(m);
        gw_member_maps_close(m);
        good = gw_member_act_close(m) && good;
        gw_groups_close(&m->groups);
        gw_member_meet_close(m);
        int fd = m->signals.fd;
        if (m->signals.loop != NULL) {
            gw_watch_remove(&m->signals);
            close(fd);
        }
        if (good) gw_loop_close(m->loop);
    }
    if (m->tcp_fd >= 0) close(m->tcp_fd);
    if (m->udp_fd >= 0) close(m->udp_fd);
    gw_keyring_wipe(&m->keyring);
    gw_identity_wipe(&m->identity);
    gw_dirlock_release(&m->lock);
    if (m->directory.fd >= 0) gw_directory_close(&m->directory);
    return good;
}

int gw_member_run(const gw_member_options *options, gw_err *err) {
    gw_flock_member *m = calloc(1, sizeof *m);
    GW_ASSERT_MEMORY(m != NULL);
    *m = (gw_flock_member){
        .options = options, .tcp_fd = -1, .udp_fd = -1, .lock = {-1}, .directory = {.fd = -1}};
    bool good = open_all(m, err);
    if (good && !m->stopped) gw_loop_run(m->loop);
    bool copied = m->copied, closed = close_all(m);
    if (!closed) return 1; /* a disk does not answer: memory that its thread uses stays */
    free(m);
    if (copied) return 1; /* which was told */
    return good ? 0 : -1;
}
