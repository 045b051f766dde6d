/* The data links of one peer by itself: what it does while no other peer is there, or no descriptor or memory
 * can be had. */
#include "core/base/log.h"
#include "core/os/clock.h"
#include "last_words.h"
#include "net/fabric/fabric.h"
#include "net/rail/path_message.h"
#include "tests/net/sealed_frame.h"
#include "tools/godwit/work/reduce.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    DESCRIPTORS = 64,
    OTHERS = 5,
    STREAMS = 3,
    FRAME = GW_FRAME_BYTES,
    PATIENCE_S = 60,
};

typedef struct rig {
    gw_identity self;
    gw_keyring keyring;
    gw_local local;
    gw_loop *loop;
    gw_data_links *data_links;
    gw_engine engine;
    gw_reduction reduction;
    gw_view view;
} rig;

static rig r;

static gw_op_status find_nothing(void *context, const gw_peer_id *requester, const gw_hash *name,
                                 const void **bytes, uint64_t *length) {
    (void)context, (void)requester, (void)name, (void)bytes, (void)length;
    return GW_OP_NOTFOUND;
}

static void open_rig(void) {
    const uint8_t seed[32] = {1};
    const gw_data_links_options how = {
        .kinds = GW_FABRIC_TCP | GW_FABRIC_SHM, .rails = 1, .time_scale_percent = 100};
    const gw_fetch_provider provider = {.find = find_nothing};
    gw_err err;
    gw_identity_from_seed(seed, 1, 7, &r.self);
    r.local = (gw_local){.identity = &r.self, .keyring = &r.keyring};
    r.loop = gw_loop_open(&err);
    cr_assert_not_null(r.loop, "%s", err.text);
    r.data_links =
        gw_data_links_open(r.loop, &r.local, &how, &provider, gw_reduction_call_done, &r.reduction, &err);
    cr_assert_not_null(r.data_links, "%s", err.text);
}

static void close_rig(void) {
    gw_data_links_stop(r.data_links);
    gw_data_links_close(r.data_links);
    gw_loop_close(r.loop);
}

/* Uses up all descriptors of the process. */
static void use_up_descriptors(void) {
    struct rlimit limit = {DESCRIPTORS, DESCRIPTORS};
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    while (fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0) >= 0) {
    }
    cr_assert_eq(errno, EMFILE);
}

static int warnings;

static void count_warnings(void *context, gw_level level, const char *room, const char *text) {
    (void)context, (void)room;
    if (level != GW_WARN) return;
    warnings++;
    cr_expect_not_null(strstr(text, "Too many open files"), "%s", text);
}

static void look_no_longer(void *context) {
    *(bool *)context = true;
}

TestSuite(links, .init = open_rig, .fini = close_rig);

/* The watchdog of a reduction that was told to end counts from that time, although a FREEZE may come again
 * and again. */
Test(links, a_reduction_that_is_told_twice_to_end_was_told_at_first) {
    r.reduction.data_links = r.data_links;
    gw_reduction_stop(&r.reduction);
    uint64_t told_ns = atomic_load(&r.reduction.stop_ns);
    cr_assert_gt(told_ns, 0);
    while (gw_now_ns() == told_ns) {
    }
    gw_reduction_stop(&r.reduction);
    cr_assert_eq(atomic_load(&r.reduction.stop_ns), told_ns);
}

Test(links, dials_that_fail_are_not_all_told) {
    gw_timer timer = {0};
    gw_err err;
    bool over = false;
    gw_log_set_sink(count_warnings, NULL);
    use_up_descriptors();
    for (uint8_t i = 0; i < OTHERS; i++) {
        gw_remote remote = {.listen = {.family = 4, .ip = {127, 0, 0, 1}, .port = 7}};
        memset(&remote.id, 0xFF, sizeof remote.id); /* the higher id, so this peer dials */
        remote.id.bytes[1] = i;
        gw_data_links_follow(r.data_links, &remote);
    }
    uint64_t end_ns = gw_now_ns() + UINT64_C(500000000); /* each peer is dialled five more times by then */
    cr_assert(gw_timer_set(r.loop, &timer, end_ns, look_no_longer, &over, &err), "%s", err.text);
    while (!over) gw_loop_turn(r.loop, UINT64_MAX);
    cr_expect_eq(warnings, 1);
}

static uint64_t dialled_ns[6];
static uint32_t dials;

gw_stream *__wrap_gw_stream_dial(gw_loop *loop, const gw_local *local, const gw_addr *to, gw_stream_kind kind,
                                 uint64_t word, const gw_stream_events *events, gw_err *err);
gw_stream *__real_gw_stream_dial(gw_loop *loop, const gw_local *local, const gw_addr *to, gw_stream_kind kind,
                                 uint64_t word, const gw_stream_events *events, gw_err *err);

gw_stream *__wrap_gw_stream_dial(gw_loop *loop, const gw_local *local, const gw_addr *to, gw_stream_kind kind,
                                 uint64_t word, const gw_stream_events *events, gw_err *err) {
    if (dials < sizeof dialled_ns / sizeof *dialled_ns) dialled_ns[dials] = gw_now_ns();
    dials++;
    return __real_gw_stream_dial(loop, local, to, kind, word, events, err);
}

Test(links, who_cannot_be_dialled_is_dialled_ever_later) {
    gw_remote remote = {.listen = {.family = 4, .ip = {127, 0, 0, 1}, .port = 7}};
    memset(&remote.id, 0xFF, sizeof remote.id); /* the higher id, so this peer dials */
    use_up_descriptors();
    gw_data_links_follow(r.data_links, &remote);
    while (dials < 6) gw_loop_turn(r.loop, UINT64_MAX);
    for (uint32_t i = 0; i < 5; i++)
        cr_expect_geq(dialled_ns[i + 1] - dialled_ns[i], gw_data_links_pause_ns(i), "after dial %u", i);
    gw_data_links_follow(r.data_links, &remote);
    cr_expect_eq(dials, 7, "a control link that comes up is a reason to try at once");
}

static atomic_bool no_memory;
static atomic_uint posts; /* threads of the links post as well */

bool __wrap_gw_loop_post(gw_loop *loop, gw_loop_call *call, void *context, gw_err *err);
bool __real_gw_loop_post(gw_loop *loop, gw_loop_call *call, void *context, gw_err *err);

bool __wrap_gw_loop_post(gw_loop *loop, gw_loop_call *call, void *context, gw_err *err) {
    posts++;
    if (no_memory) return gw_fail(err, GW_E_NOMEM, "no memory for a posted call");
    return __real_gw_loop_post(loop, call, context, err);
}

static void fail_to_dial(void *unused) {
    (void)unused;
    gw_remote remote = {.listen = {.family = 4, .ip = {127, 0, 0, 1}, .port = 7}};
    memset(&remote.id, 0xFF, sizeof remote.id); /* the higher id, so this peer dials */
    use_up_descriptors();
    no_memory = true;
    gw_data_links_follow(r.data_links, &remote);
}

/* Nothing else would dial a lost link again, and the peer would wait for its data for ever. */
Test(links, a_look_at_a_lost_link_that_cannot_be_posted_ends_the_process) {
    char words[1000];
    last_words(fail_to_dial, NULL, words, sizeof words);
    cr_expect_not_null(strstr(words, "memory has run out"), "%s", words);
    cr_expect_not_null(strstr(words, "gw_loop_post"), "%s", words);
}

/* Each look reports every peer: one look for each of many links that change together would be quadratic. */
Test(links, links_that_change_together_are_looked_at_once) {
    use_up_descriptors();
    posts = 0;
    for (uint8_t i = 0; i < OTHERS; i++) {
        gw_remote remote = {.listen = {.family = 4, .ip = {127, 0, 0, 1}, .port = 7}};
        memset(&remote.id, 0xFF, sizeof remote.id);
        remote.id.bytes[1] = i;
        gw_data_links_follow(r.data_links, &remote);
    }
    cr_expect_eq(posts, 1, "%u", posts);
    gw_loop_turn(r.loop, 0);
    gw_remote another = {.listen = {.family = 4, .ip = {127, 0, 0, 1}, .port = 7}};
    memset(&another.id, 0xFE, sizeof another.id);
    posts = 0;
    gw_data_links_follow(r.data_links, &another);
    cr_expect_eq(posts, 1, "%u", posts);
}

Test(links, whose_links_do_not_last_is_dialled_ever_later) {
    for (uint32_t vain = 0; vain < 10; vain++)
        cr_expect_eq(gw_data_links_pause_ns(vain + 1), 2 * gw_data_links_pause_ns(vain), "%u links in vain",
                     vain);
    cr_expect_gt(gw_data_links_pause_ns(12), UINT64_C(9000000000));
    cr_expect_eq(gw_data_links_pause_ns(UINT32_MAX), gw_data_links_pause_ns(12));
}

/* A peer that cannot move its fence leaves. */
Test(links, a_fence_is_had_while_descriptors_have_run_out) {
    gw_view view = {.epoch = 1, .count = 1, .members = {{.id = r.self.id}}};
    gw_err err;
    use_up_descriptors();
    for (int i = 0; i < 3; i++) {
        cr_assert(gw_data_links_fence(r.data_links, NULL, &err), "%s", err.text);
        cr_assert(gw_data_links_fence(r.data_links, &view, &err), "%s", err.text);
    }
}

/* Machines come and go, each with an identity of its own. */
Test(links, peers_that_are_not_wanted_any_more_are_forgotten) {
    enum { MET = 3000, MOST_BYTES = 300000 };
    size_t before = mallinfo2().uordblks;
    for (uint32_t i = 1; i <= MET; i++) {
        gw_remote remote = {
            .incarnation = {.boot = 1, .nonce = i}}; /* the lower id, so the other peer dials */
        memcpy(remote.id.bytes + 4, &i, sizeof i);
        gw_data_links_follow(r.data_links, &remote);
        gw_data_links_drop(r.data_links, &remote.id);
        gw_incarnation life; /* the life that refuses a connection now is this one */
        gw_data_links_life(r.data_links, &remote.id, &life);
        cr_assert(gw_same_life(&life, &remote.incarnation));
    }
    size_t after = mallinfo2().uordblks;
    cr_assert_lt(after, before + MOST_BYTES, "%zu bytes", after - before);
}

/* Links. */

/* Adopts the streams of a link that the other peer has dialled; the test holds the other ends. */
static void adopt_streams(const gw_peer_id *other, uint64_t attempt, int fds[STREAMS]) {
    static const uint8_t key[32];
    for (uint32_t i = 0; i < STREAMS; i++) {
        int pair[2];
        gw_err err;
        cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
        cr_assert_eq(fcntl(pair[1], F_SETFL, O_NONBLOCK), 0);
        fds[i] = pair[0];
        gw_detached stream = {.fd = pair[1],
                              .remote = {.id = *other,
                                         .kind = GW_STREAM_DATA,
                                         .label = gw_fabric_stream_label(attempt, i, STREAMS)}};
        gw_cipher_start(&stream.seal, GW_ALGORITHM_PLAIN, key, GW_RECORD_DATA);
        gw_cipher_start(&stream.open, GW_ALGORITHM_PLAIN, key, GW_RECORD_DATA);
        cr_assert(gw_fabric_adopt(gw_data_links_transport(r.data_links), &stream, &err), "%s", err.text);
    }
}

static void say_tcp_alone(int fd) {
    uint8_t frame[FRAME + GW_PATH_HELLO_BYTES];
    gw_path_hello hello = {.kinds = GW_FABRIC_TCP};
    uint32_t count = gw_path_hello_encode(&hello, frame + FRAME);
    gw_path_note_encode(&(gw_path_note){.what = GW_PATH_HELLO}, frame + 8);
    seal_frame_of(count, frame);
    cr_assert_eq(send(fd, frame, FRAME + count, 0), (ssize_t)(FRAME + count));
}

/* Turns the loop until data take this path to the peer (0: no link stands). */
static void turn_until(const gw_peer_id *other, gw_path_kind kind) {
    uint64_t end = gw_now_ns() + PATIENCE_S * UINT64_C(1000000000);
    while (gw_data_links_path(r.data_links, other) != kind) {
        cr_assert_lt(gw_now_ns(), end, "the connection goes by %d",
                     (int)gw_data_links_path(r.data_links, other));
        gw_loop_turn(r.loop, 1000000);
    }
}

Test(links, nothing_stands_when_a_newer_link_did_not_come_up) {
    gw_remote remote = {.id = {{0}},
                        .incarnation = {.boot = 1, .nonce = 1}}; /* the lower id, so the other peer dials */
    int fds[2][STREAMS];
    gw_data_links_follow(r.data_links, &remote);
    adopt_streams(&remote.id, 1, fds[0]);
    say_tcp_alone(fds[0][0]);
    turn_until(&remote.id, GW_PATH_TCP);
    adopt_streams(&remote.id, 2, fds[1]);
    for (uint32_t i = 0; i < STREAMS; i++) close(fds[1][i]);
    turn_until(&remote.id, 0);
    for (uint32_t i = 0; i < STREAMS; i++) close(fds[0][i]);
}

/* A reduction. */

static bool own_is_wrong;
static uint32_t looks;

static bool begin_alone(gw_device *device, gw_reduce mode, gw_place place, gw_segments *send,
                        gw_segments *receive, gw_err *err) {
    (void)device, (void)place, (void)err;
    cr_assert_eq(mode, GW_REDUCE_ALONE);
    *send = *receive = (gw_segments){NULL, 0};
    return true;
}

/* This peer's sum lacks some shards. */
static bool end_alone(gw_device *device, gw_verdict *verdict, gw_err *err) {
    (void)device, (void)err;
    looks++;
    *verdict =
        (gw_verdict){.fingerprint_ok = !own_is_wrong, .own_wrong = own_is_wrong, .bucket = own_is_wrong};
    return true;
}

static void set_boundary(gw_device *device, const int64_t *words) {
    (void)device, (void)words;
}

static gw_event reduced;
static char reduced_text[200];

static void deliver(void *context, gw_mail *mail) {
    (void)context;
    atomic_store(&r.reduction.underway, false);
    reduced = mail->event;
    snprintf(reduced_text, sizeof reduced_text, "%s", mail->text);
}

static gw_layout layout = {.boundary_words = 2 * GW_SLOTS};
static gw_device device = {.layout = &layout};

/* Begins a reduction in a view with one other member, which has the lower id. */
static void open_reductions(const gw_device_ops *ops, const gw_peer_id *other) {
    gw_err err;
    device.ops = ops;
    r.engine.device = &device;
    r.reduction.engine = &r.engine;
    r.reduction.data_links = r.data_links;
    r.reduction.self = r.self.id;
    r.reduction.time_scale_percent = 1;
    r.view = (gw_view){.epoch = 1, .count = 2, .members = {{.id = *other}, {.id = r.self.id}}};
    cr_assert_gt(gw_peer_id_compare(&r.self.id, other), 0); /* the members of a view are sorted */
    pthread_mutex_init(&r.reduction.lock, NULL);
    pthread_cond_init(&r.reduction.changed, NULL);
    r.reduction.mail = gw_mailbox_open(r.loop, deliver, NULL, &err);
    r.reduction.compute = gw_helper_open("gw-compute", &err);
}

static void close_reductions(void) {
    gw_helper_close(r.reduction.compute);
    gw_mailbox_close(r.reduction.mail);
}

static void reduce(uint64_t step) {
    gw_action action = {.kind = GW_ACT_REDUCE};
    reduced = (gw_event){0};
    gw_reduction_begin(&r.reduction, &r.view, step, &action);
    while (reduced.kind == 0) gw_loop_turn(r.loop, 10000000);
    cr_assert_eq(reduced.kind, GW_EV_REDUCED);
}

static void expect_nobody_there(uint32_t looked) {
    cr_assert_eq(reduced.outcome, GW_FAILED);
    cr_assert_not_null(strstr(reduced_text, "no data link to"), "%s", reduced_text);
    cr_assert_not(reduced.reduced.damaged);
    cr_assert_eq(looks, looked);
}

/* The check comes before any sum: then this peer reports the damage, however soon the others end the
 * reduction. */
Test(links, who_reduces_a_step_again_looks_first_at_what_it_has_added_up_itself) {
    static const gw_device_ops ops = {
        .reduce_begin = begin_alone, .reduce_end = end_alone, .set_boundary = set_boundary};
    const gw_peer_id nobody = {{0, 1}};
    open_reductions(&ops, &nobody);
    reduce(7);
    expect_nobody_there(0);
    reduce(7);
    expect_nobody_there(1);
    own_is_wrong = true;
    reduce(8);
    expect_nobody_there(1);
    reduce(8);
    cr_assert_eq(looks, 2);
    cr_assert_eq(reduced.outcome, GW_DONE);
    cr_assert(reduced.reduced.coverage_ok && !reduced.reduced.fingerprint_ok && reduced.reduced.damaged);
    cr_assert_str_eq(reduced_text, "bucket 1");
    r.reduction.fast = true; /* floats are made of the sum */
    reduce(8);
    expect_nobody_there(2);
    close_reductions();
}

/* What the data links report of a sum that failed, or, if it has a code, what the device reports. */
static gw_collective_result broken;
static gw_code refused;

static bool begin_broken(gw_device *ours, gw_reduce mode, gw_place place, gw_segments *send,
                         gw_segments *receive, gw_err *err) {
    (void)ours, (void)mode, (void)place;
    if (refused != GW_OK) return gw_fail(err, refused, "other bits");
    *send = *receive = (gw_segments){NULL, 0};
    r.reduction.pending++;
    gw_reduction_call_done(&r.reduction, &broken);
    return true;
}

Test(links, a_sum_that_fails_by_bits_of_this_peers_is_its_own_part) {
    static const gw_device_ops ops = {.reduce_begin = begin_broken, .set_boundary = set_boundary};
    gw_remote remote = {.id = {{0}},
                        .incarnation = {.boot = 1, .nonce = 1}}; /* the lower id, so the other peer dials */
    gw_err err;
    int fds[STREAMS];
    gw_data_links_follow(r.data_links, &remote);
    adopt_streams(&remote.id, 1, fds);
    say_tcp_alone(fds[0]);
    turn_until(&remote.id, GW_PATH_TCP);
    open_reductions(&ops, &remote.id);
    gw_fail(&err, GW_E_CORRUPT, "other bits");
    for (int whose = 0; whose < 3; whose++) {
        broken = (gw_collective_result){
            .status = GW_COLLECTIVE_FAILED, .err = &err, .changed = whose > 0, .suspect = {{0}}};
        if (whose == 2) broken.suspect = r.self.id; /* any peer but none */
        reduce(1 + (uint64_t)whose);
        cr_expect_eq(reduced.outcome, whose == 1 ? GW_DONE : GW_FAILED);
        cr_expect_eq(reduced.reduced.damaged, whose == 1);
        cr_expect_eq(reduced.reduced.changed, whose == 2);
        cr_expect_not(reduced.reduced.fingerprint_ok);
        cr_expect_str_eq(reduced_text, "other bits");
    }
    for (int own = 0; own < 2; own++) {
        refused = own ? GW_E_CORRUPT : GW_E_NOMEM;
        reduce(4 + (uint64_t)own);
        cr_expect_eq(reduced.outcome, own ? GW_DONE : GW_FAILED);
        cr_expect_eq(reduced.reduced.damaged, own == 1);
        cr_expect_not(reduced.reduced.fingerprint_ok);
        cr_expect_str_eq(reduced_text, "other bits");
    }
    close_reductions();
    for (uint32_t i = 0; i < STREAMS; i++) close(fds[i]);
}
