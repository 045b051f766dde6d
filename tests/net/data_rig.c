#include "tests/net/data_rig.h"

#include "tests/net/conformance/sim_fabric.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define RETRY_NS  UINT64_C(50000000)    /* the pause before a path is tried again: short, but not zero */
#define SETTLE_NS UINT64_C(20000000000) /* emulated machines are slow */

enum { PATIENCE_S = 60 /* how long a test waits before it fails */ };

gw_peer_id rig_id(uint32_t i) {
    gw_peer_id id = {{0}};
    memset(id.bytes, (int)(i + 1), sizeof id.bytes);
    return id;
}

gw_fence rig_fence(uint64_t epoch) {
    gw_fence fence = {.epoch = epoch};
    memset(fence.view.bytes, (int)(epoch & 0x7f) + 1, sizeof fence.view.bytes);
    return fence;
}

static void wait_change(rig_peer *p) {
    if (p->net != NULL) {
        uint64_t seen = p->news;
        pthread_mutex_unlock(&p->lock);
        cr_assert(sim_net_step(p->net, &p->news, seen), "nothing happens any more");
        pthread_mutex_lock(&p->lock);
        return;
    }
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_S;
    cr_assert_eq(pthread_cond_timedwait(&p->changed, &p->lock, &until), 0, "nothing happened for %d s",
                 PATIENCE_S);
}

static void on_completed(void *context, const gw_completion *completion) {
    rig_peer *p = context;
    pthread_mutex_lock(&p->lock);
    p->completions[p->reported++ % RIG_REPORTS] = *completion;
    p->news++;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
}

static void on_up(void *context, const gw_peer_id *peer, uint64_t link, gw_path_kind kind) {
    (void)peer;
    rig_peer *p = context;
    pthread_mutex_lock(&p->lock);
    p->ups++;
    p->up_link = link;
    p->kind = kind;
    p->news++;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
}

static void on_down(void *context, const gw_peer_id *peer, uint64_t link, const gw_err *why) {
    (void)peer;
    rig_peer *p = context;
    cr_assert_neq(why->code, GW_OK);
    pthread_mutex_lock(&p->lock);
    p->downs++;
    p->down_link = link;
    p->news++;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
}

static void on_done(void *context, const gw_collective_result *result) {
    rig_peer *p = context;
    pthread_mutex_lock(&p->lock);
    p->codes[p->results_reported % RIG_REPORTS] = result->err != NULL ? result->err->code : GW_OK;
    p->results[p->results_reported++ % RIG_REPORTS] = *result;
    p->news++;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
}

static void hold(rig_peer *p) {
    pthread_mutex_lock(&p->lock);
    while (!p->finds) pthread_cond_wait(&p->changed, &p->lock);
    pthread_mutex_unlock(&p->lock);
}

void rig_let_find(rig_peer *p) {
    pthread_mutex_lock(&p->lock);
    p->finds = true;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
}

/* Serves one name: 1 MiB less one byte, all bytes 7. */
static gw_op_status find_sevens(void *context, const gw_peer_id *requester, const gw_hash *name,
                                const void **bytes, uint64_t *length) {
    rig_peer *p = context;
    (void)requester;
    if (name->bytes[0] == RIG_UNAVAILABLE) return GW_OP_UNAVAILABLE;
    if (name->bytes[0] == RIG_HELD) hold(p);
    if (name->bytes[0] != 7) return GW_OP_NOTFOUND;
    *length = (1 << 20) - 1;
    void *sevens = malloc(*length);
    memset(sevens, 7, *length);
    *bytes = sevens;
    pthread_mutex_lock(&p->lock);
    p->answers++;
    pthread_mutex_unlock(&p->lock);
    return GW_OP_OK;
}

static void release_sevens(void *context, const void *bytes, uint64_t length) {
    rig_peer *p = context;
    (void)length;
    free((void *)(uintptr_t)bytes);
    pthread_mutex_lock(&p->lock);
    p->answers--;
    p->news++;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
}

static uint32_t rig_ups(rig_peer *p) {
    pthread_mutex_lock(&p->lock);
    uint32_t ups = p->ups;
    pthread_mutex_unlock(&p->lock);
    return ups;
}

void rig_wait_ups(rig_peer *p, uint32_t ups) {
    pthread_mutex_lock(&p->lock);
    while (p->ups < ups) wait_change(p);
    pthread_mutex_unlock(&p->lock);
}

void rig_wait_kind(rig_peer *p, gw_path_kind kind) {
    pthread_mutex_lock(&p->lock);
    while (p->kind != kind) wait_change(p);
    pthread_mutex_unlock(&p->lock);
}

static void connect_pair(int fds[2]) {
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof any;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    cr_assert_eq(bind(listener, (struct sockaddr *)&any, sizeof any), 0);
    cr_assert_eq(listen(listener, 1), 0);
    cr_assert_eq(getsockname(listener, (struct sockaddr *)&any, &length), 0);
    fds[0] = socket(AF_INET, SOCK_STREAM, 0);
    cr_assert_eq(connect(fds[0], (struct sockaddr *)&any, sizeof any), 0);
    fds[1] = accept(listener, NULL, NULL);
    cr_assert_geq(fds[1], 0);
    close(listener);
}

static void hand_over(rig *r, rig_peer *to, const gw_peer_id *from, int fd, bool dialled, uint64_t label) {
    static const uint8_t keys[2][32] = {{1}, {2}};
    gw_algorithm algorithm = !r->sealed            ? GW_ALGORITHM_PLAIN
                             : gw_record_has_aes() ? GW_ALGORITHM_AES256GCM
                                                   : GW_ALGORITHM_CHACHA20;
    gw_detached stream = {
        .fd = fd, .remote = {.id = *from, .kind = GW_STREAM_DATA, .label = label, .dialled = dialled}};
    cr_assert_eq(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    gw_cipher_start(&stream.seal, algorithm, keys[dialled], GW_RECORD_DATA);
    gw_cipher_start(&stream.open, algorithm, keys[!dialled], GW_RECORD_DATA);
    gw_err err;
    cr_assert(gw_fabric_adopt(to->transport, &stream, &err), "%s", err.text);
}

void rig_connect(rig *r, uint32_t a, uint32_t b) {
    if (r->net != NULL) {
        sim_net_link(r->net, a, b);
        return;
    }
    int fds[2 + GW_FABRIC_RAILS][2];
    r->attempt_of[a][b] = ++r->attempts;
    for (uint32_t number = 0; number < 2 + r->rails; number++) connect_pair(fds[number]);
    if (r->connected != NULL) r->connected();
    for (uint32_t number = 0; number < 2 + r->rails; number++) {
        uint64_t label = gw_fabric_stream_label(r->attempts, number, 2 + r->rails);
        hand_over(r, &r->peers[a], &r->peers[b].id, fds[number][0], true, label);
        hand_over(r, &r->peers[b], &r->peers[a].id, fds[number][1], false, label);
    }
}

void rig_add_rail(rig *r, uint32_t a, uint32_t b, uint32_t number) {
    int fds[2];
    uint64_t label = gw_fabric_extra_label(r->attempt_of[a][b], 2 + r->rails + number);
    connect_pair(fds);
    hand_over(r, &r->peers[a], &r->peers[b].id, fds[0], true, label);
    hand_over(r, &r->peers[b], &r->peers[a].id, fds[1], false, label);
}

void rig_link(rig *r, uint32_t a, uint32_t b) {
    uint32_t ups_a = rig_ups(&r->peers[a]), ups_b = rig_ups(&r->peers[b]);
    rig_connect(r, a, b);
    rig_wait_ups(&r->peers[a], ups_a + 1);
    rig_wait_ups(&r->peers[b], ups_b + 1);
}

static void link_raw(rig *r, uint32_t i, const gw_peer_id *peer, int *fds, bool dialled) {
    struct timeval patience = {.tv_sec = PATIENCE_S};
    r->attempts++;
    for (uint32_t number = 0; number < 2 + r->rails; number++) {
        int pair[2];
        connect_pair(pair);
        cr_assert_eq(setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience), 0);
        fds[number] = pair[0];
        hand_over(r, &r->peers[i], peer, pair[1], dialled,
                  gw_fabric_stream_label(r->attempts, number, 2 + r->rails));
    }
}

void rig_link_raw(rig *r, uint32_t i, const gw_peer_id *peer, int *fds) {
    link_raw(r, i, peer, fds, false);
}

void rig_link_raw_dialled(rig *r, uint32_t i, const gw_peer_id *peer, int *fds) {
    link_raw(r, i, peer, fds, true);
}

rig *rig_open(uint32_t count, uint32_t rails, bool sealed) {
    return rig_open_over(GW_FABRIC_TCP, count, rails, sealed);
}

rig *rig_open_over(uint32_t kinds, uint32_t count, uint32_t rails, bool sealed) {
    uint32_t alike[RIG_PEERS] = {0};
    for (uint32_t i = 0; i < count; i++) alike[i] = kinds;
    rig *r = rig_open_apart(alike, count, rails, sealed);
    for (uint32_t a = 0; a < count; a++)
        for (uint32_t b = 0; b < a; b++) rig_link(r, a, b);
    return r;
}

static rig *open_rig(const uint32_t *kinds, const uint32_t *extra, uint32_t count, uint32_t rails,
                     bool sealed, uint64_t settle_ns, uint64_t retry_ns) {
    cr_assert_geq(sodium_init(), 0);
    rig *r = calloc(1, sizeof *r);
    r->count = count;
    r->rails = rails;
    r->sealed = sealed;
    if ((kinds[0] & RIG_SIMULATED) != 0) r->net = sim_net_open(rails, kinds[0]);
    for (uint32_t i = 0; i < count; i++) {
        rig_peer *p = &r->peers[i];
        gw_err err;
        p->id = rig_id(i);
        pthread_mutex_init(&p->lock, NULL);
        pthread_cond_init(&p->changed, NULL);
        gw_fabric_options options = {.retry_ns = retry_ns,
                                     .kinds = kinds[i],
                                     .rails = rails,
                                     .extra_rails = extra != NULL ? extra[i] : 0,
                                     .settle_ns = settle_ns,
                                     .events = {p, on_completed, on_up, on_down},
                                     .provider = {p, find_sevens, release_sevens}};
        p->net = r->net;
        if (r->net != NULL)
            p->transport = sim_net_join(r->net, i, &p->id, &options.events, &options.provider);
        else
            cr_assert(gw_fabric_open(&options, &p->transport, &err), "%s", err.text);
        cr_assert(gw_collective_open(p->transport, on_done, p, &p->collective, &err), "%s", err.text);
    }
    return r;
}

rig *rig_open_apart(const uint32_t *kinds, uint32_t count, uint32_t rails, bool sealed) {
    return open_rig(kinds, NULL, count, rails, sealed, SETTLE_NS, RETRY_NS);
}

rig *rig_open_hasty(const uint32_t *kinds, uint32_t count, uint32_t rails, bool sealed, uint64_t settle_ns) {
    return open_rig(kinds, NULL, count, rails, sealed, settle_ns, RETRY_NS);
}

rig *rig_open_patient(const uint32_t *kinds, uint32_t count, uint32_t rails, bool sealed, uint64_t retry_ns) {
    return open_rig(kinds, NULL, count, rails, sealed, SETTLE_NS, retry_ns);
}

rig *rig_open_growing(const uint32_t *extra, uint32_t count, bool sealed) {
    uint32_t kinds[RIG_PEERS] = {0};
    for (uint32_t i = 0; i < count; i++) kinds[i] = GW_FABRIC_TCP;
    return open_rig(kinds, extra, count, 1, sealed, SETTLE_NS, RETRY_NS);
}

void rig_close(rig *r) {
    for (uint32_t i = 0; i < r->count; i++) {
        if (r->peers[i].transport == NULL) continue; /* the test has closed it */
        gw_collective_close(r->peers[i].collective);
        gw_transport_close(r->peers[i].transport);
    }
    if (r->net != NULL) sim_net_close(r->net);
    free(r);
}

void rig_move_fence(rig_peer *p, const gw_fence *fence, const gw_peer_id *members, uint32_t count) {
    gw_err err;
    cr_assert(gw_transport_fence(p->transport, fence, members, count, &err), "%s", err.text);
}

void rig_fence_all(rig *r, uint64_t epoch) {
    gw_peer_id members[RIG_PEERS];
    gw_fence fence = rig_fence(epoch);
    for (uint32_t i = 0; i < r->count; i++) members[i] = r->peers[i].id;
    for (uint32_t i = 0; i < r->count; i++) rig_move_fence(&r->peers[i], &fence, members, r->count);
}

gw_completion rig_completion(rig_peer *p) {
    pthread_mutex_lock(&p->lock);
    while (p->taken == p->reported) wait_change(p);
    gw_completion completion = p->completions[p->taken++ % RIG_REPORTS];
    pthread_mutex_unlock(&p->lock);
    return completion;
}

gw_completion rig_do(rig_peer *p, const gw_op *op) {
    gw_transport_post(p->transport, op);
    gw_completion completion = rig_completion(p);
    cr_assert_eq(completion.token, op->token);
    return completion;
}

uint32_t rig_downs(rig_peer *p) {
    pthread_mutex_lock(&p->lock);
    uint32_t downs = p->downs;
    pthread_mutex_unlock(&p->lock);
    return downs;
}

void rig_wait_downs(rig_peer *p, uint32_t downs) {
    pthread_mutex_lock(&p->lock);
    while (p->downs < downs) wait_change(p);
    pthread_mutex_unlock(&p->lock);
}

void rig_wait_answers_back(rig_peer *p) {
    pthread_mutex_lock(&p->lock);
    while (p->answers > 0) wait_change(p);
    pthread_mutex_unlock(&p->lock);
}

uint64_t rig_results(rig_peer *p) {
    pthread_mutex_lock(&p->lock);
    uint64_t results = p->results_reported;
    pthread_mutex_unlock(&p->lock);
    return results;
}

gw_collective_result rig_result(rig_peer *p, gw_code *code) {
    pthread_mutex_lock(&p->lock);
    while (p->results_taken == p->results_reported) wait_change(p);
    *code = p->codes[p->results_taken % RIG_REPORTS];
    gw_collective_result result = p->results[p->results_taken++ % RIG_REPORTS];
    pthread_mutex_unlock(&p->lock);
    return result;
}
