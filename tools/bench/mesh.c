#include "tools/bench/mesh.h"

#include "core/base/assert.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LINK_S = 30 /* time for all links to come up */ };

gw_peer_id gw_mesh_id(uint32_t rank) {
    gw_peer_id id = {{0}};
    memset(id.bytes, (int)rank + 1, sizeof id.bytes);
    return id;
}

gw_algorithm gw_mesh_sealed(void) {
    return gw_record_has_aes() ? GW_ALGORITHM_AES256GCM : GW_ALGORITHM_CHACHA20;
}

static void close_fd(int *fd) {
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

static void drop_streams(gw_mesh *mesh) {
    int *fds = &mesh->fds[0][0][0];
    for (size_t i = 0; i < sizeof mesh->fds / sizeof(int); i++) close_fd(&fds[i]);
}

static void drop_all(gw_mesh *mesh) {
    drop_streams(mesh);
    for (int i = 0; i < 2; i++) {
        close_fd(&mesh->finished[i]);
        close_fd(&mesh->released[i]);
    }
}

/* Member 1 and the higher ones connect, from the wire's other side where there is a wire. */
static bool connect_pair(const gw_slow_wire *wire, int listener, const struct sockaddr_in *at, int *one,
                         int *other, gw_err *err) {
    if (wire != NULL && !gw_slow_wire_enter(wire, 1, err)) return false;
    *one = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (*one < 0 || connect(*one, (const struct sockaddr *)at, sizeof *at) != 0)
        return gw_fail_errno(err, errno, "connect");
    *other = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (*other < 0) return gw_fail_errno(err, errno, "accept");
    if (fcntl(*one, F_SETFL, O_NONBLOCK) != 0 || fcntl(*other, F_SETFL, O_NONBLOCK) != 0)
        return gw_fail_errno(err, errno, "fcntl");
    return true;
}

static bool make(gw_mesh *mesh, const gw_slow_wire *wire, uint32_t kinds, uint32_t count, uint32_t rails,
                 gw_algorithm algorithm, gw_err *err) {
    GW_ASSERT(count >= 1 && count <= GW_MESH_PEERS && rails >= 1 && rails <= GW_FABRIC_RAILS);
    *mesh = (gw_mesh){.kinds = kinds, .count = count, .rails = rails, .algorithm = algorithm};
    pthread_mutex_init(&mesh->lock, NULL);
    pthread_cond_init(&mesh->changed, NULL);
    memset(mesh->fds, 0xff, sizeof mesh->fds);
    mesh->finished[0] = mesh->finished[1] = mesh->released[0] = mesh->released[1] = -1;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof at;
    if (wire != NULL) at.sin_addr = gw_slow_wire_address(0);
    if (wire != NULL && !gw_slow_wire_enter(wire, 0, err)) return false;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool done = listener >= 0 && bind(listener, (struct sockaddr *)&at, sizeof at) == 0 &&
                listen(listener, 16) == 0 && getsockname(listener, (struct sockaddr *)&at, &length) == 0;
    if (!done) gw_fail_errno(err, errno, "listen on a port of one's own");
    for (uint32_t a = 0; a < count; a++)
        for (uint32_t b = 0; b < a; b++)
            for (uint32_t s = 0; s < 2 + rails && done; s++)
                done = connect_pair(wire, listener, &at, &mesh->fds[a][b][s], &mesh->fds[b][a][s], err);
    if (listener >= 0) close(listener);
    gw_err away;
    if (wire != NULL && !gw_slow_wire_enter(wire, GW_SLOW_WIRE_HOME, done ? err : &away)) done = false;
    if (done && (pipe(mesh->finished) != 0 || pipe(mesh->released) != 0))
        done = gw_fail_errno(err, errno, "pipe");
    if (!done) drop_all(mesh);
    return done;
}

bool gw_mesh_make(gw_mesh *mesh, uint32_t kinds, uint32_t count, uint32_t rails, gw_algorithm algorithm,
                  gw_err *err) {
    return make(mesh, NULL, kinds, count, rails, algorithm, err);
}

bool gw_mesh_make_over(gw_mesh *mesh, const gw_slow_wire *wire, uint32_t rails, gw_algorithm algorithm,
                       gw_err *err) {
    return make(mesh, wire, GW_FABRIC_TCP, 2, rails, algorithm, err);
}

static void on_completed(void *context, const gw_completion *completion) {
    const gw_mesh *mesh = context;
    mesh->events.completed(mesh->events.context, completion);
}

static void on_up(void *context, const gw_peer_id *peer, uint64_t link, gw_path_kind kind) {
    gw_mesh *mesh = context;
    (void)peer;
    (void)link;
    (void)kind;
    pthread_mutex_lock(&mesh->lock);
    mesh->ups++;
    pthread_cond_signal(&mesh->changed);
    pthread_mutex_unlock(&mesh->lock);
}

static void on_down(void *context, const gw_peer_id *peer, uint64_t link, const gw_err *why) {
    const gw_mesh *mesh = context;
    if (mesh->events.link_down != NULL) mesh->events.link_down(mesh->events.context, peer, link, why);
}

/* Waits until all links are up. */
static bool await_links(gw_mesh *mesh, gw_err *err) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += LINK_S;
    int failed = 0;
    pthread_mutex_lock(&mesh->lock);
    while (mesh->ups < mesh->count - 1 && failed == 0)
        failed = pthread_cond_timedwait(&mesh->changed, &mesh->lock, &until);
    pthread_mutex_unlock(&mesh->lock);
    return failed == 0 || gw_fail(err, GW_E_TIMEOUT, "no links within %d s", LINK_S);
}

bool gw_mesh_join(gw_mesh *mesh, uint32_t rank, const gw_transport_events *events, gw_transport **transport,
                  gw_err *err) {
    static const uint8_t keys[2][32] = {{1}, {2}};
    mesh->events = *events;
    gw_fabric_options options = {
        .kinds = mesh->kinds,
        .rails = mesh->rails,
        .events = {.context = mesh, .completed = on_completed, .link_up = on_up, .link_down = on_down}};
    bool done = gw_fabric_open(&options, transport, err);
    for (uint32_t to = 0; to < mesh->count && done; to++) {
        for (uint32_t s = 0; s < 2 + mesh->rails && to != rank && done; s++) {
            gw_detached stream = {.fd = mesh->fds[rank][to][s],
                                  .remote = {.id = gw_mesh_id(to),
                                             .kind = GW_STREAM_DATA,
                                             .label = gw_fabric_stream_label(1, s, 2 + mesh->rails),
                                             .dialled = rank > to}};
            mesh->fds[rank][to][s] = -1;
            gw_cipher_start(&stream.seal, mesh->algorithm, keys[rank > to], GW_RECORD_DATA);
            gw_cipher_start(&stream.open, mesh->algorithm, keys[rank < to], GW_RECORD_DATA);
            gw_cipher_prefer_libcrypto(&stream.seal, mesh->libcrypto_from);
            gw_cipher_prefer_libcrypto(&stream.open, mesh->libcrypto_from);
            done = gw_fabric_adopt(*transport, &stream, err);
        }
    }
    drop_streams(mesh);
    return done && await_links(mesh, err);
}

void gw_mesh_finish(gw_mesh *mesh, uint32_t rank) {
    char byte = 0;
    if (rank == 0) {
        close_fd(&mesh->finished[1]);
        while (read(mesh->finished[0], &byte, 1) > 0) /* until every other member has closed its end */
            continue;
        close_fd(&mesh->released[1]);
        return;
    }
    close_fd(&mesh->finished[1]);
    close_fd(&mesh->released[1]);
    while (read(mesh->released[0], &byte, 1) > 0) continue;
}

bool gw_mesh_run(gw_mesh *mesh, bool (*member)(gw_mesh *mesh, uint32_t rank, void *argument),
                 void *argument) {
    pid_t children[GW_MESH_PEERS];
    uint32_t started = 1;
    bool good = true;
    fflush(NULL);
    for (; started < mesh->count && good; started++) {
        children[started] = fork();
        if (children[started] == 0) _exit(member(mesh, started, argument) ? 0 : 1);
        if (children[started] < 0) {
            fprintf(stderr, "fork: %s\n", strerror(errno));
            good = false;
            started--;
        }
    }
    if (good)
        good = member(mesh, 0, argument);
    else
        drop_all(mesh); /* so that the children's links break */
    drop_all(mesh);
    for (uint32_t i = 1; i < started; i++) {
        int status;
        good = waitpid(children[i], &status, 0) == children[i] && WIFEXITED(status) &&
               WEXITSTATUS(status) == 0 && good;
    }
    return good;
}

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

double gw_mesh_percentile(double *values, uint32_t count, uint32_t percent) {
    GW_ASSERT(count > 0 && percent <= 100);
    qsort(values, count, sizeof *values, compare_doubles);
    return values[(uint64_t)(count - 1) * percent / 100];
}
