/* Shared memory in particular: a stopped victim, memory that is taken away, and what another process may
 * write to memory that both have. */
#include "net/rail/path.h"
#include "net/shm/channel.h"
#include "net/shm/words.h"
#include "tests/net/shm/stopped_victim.h"
#include "tools/bench/mesh.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

enum { RANGE = 1 };

static const gw_fence fence = {.epoch = 1, .view = {{1}}};

Test(shm, a_thief_takes_half_of_a_stopped_victims_range) {
    stopped_victim_is_stolen_from(GW_FABRIC_SHM);
}

/* Words. */

static gw_op op_of(gw_op_kind kind, void *buffer) {
    return (gw_op){.kind = kind,
                   .peer = gw_mesh_id(1),
                   .fence = fence,
                   .region = RANGE,
                   .bytes = kind == GW_OP_READ ? 8 : 0,
                   .buffer = buffer};
}

/* Describes the owner's words to a member under this fence, and gives it this file. */
static bool hand_file(gw_words *words, gw_shm_words *theirs, int fd, gw_err *err) {
    uint8_t bytes[GW_DOOR_BYTES];
    gw_writer w = gw_writer_on(bytes, sizeof bytes);
    gw_shm_words_describe(words, &fence, &w);
    gw_reader r = gw_reader_on(bytes, w.length);
    return gw_shm_words_take(theirs, &r, fd, err);
}

static bool hand_over(gw_words *words, gw_shm_words *theirs, gw_err *err) {
    return hand_file(words, theirs, gw_words_fd(words), err);
}

static gw_path_posted add(gw_shm_words *theirs, gw_completion *c) {
    gw_op op = op_of(GW_OP_FETCH_ADD, NULL);
    op.operand = 1;
    *c = (gw_completion){0};
    return gw_shm_words_do(theirs, &op, c);
}

static uint64_t own_word(gw_words *words) {
    uint64_t offset, bytes;
    cr_assert(gw_words_find(words, RANGE, &offset, &bytes));
    return gw_words_do(words, GW_WORD_LOAD, offset, 0, 0);
}

Test(shm, who_keeps_old_words_changes_dead_memory) {
    gw_err err;
    gw_completion c;
    gw_words *words = gw_words_open(&err);
    gw_shm_words theirs;
    gw_shm_words_init(&theirs);
    cr_assert_eq(add(&theirs, &c), GW_PATH_PASS); /* the member was given nothing yet */
    cr_assert(gw_words_add(words, RANGE, 3, &err));
    cr_assert(hand_over(words, &theirs, &err), "%s", err.text);
    cr_assert(add(&theirs, &c) == GW_PATH_DONE && c.status == GW_OP_OK && c.value == 0);
    cr_assert_eq(own_word(words), 1);
    cr_assert(gw_words_renew(words, &err));
    cr_assert_eq(own_word(words), 1);
    cr_assert_eq(add(&theirs, &c),
                 GW_PATH_PASS); /* passed on, so that the owner answers that the member is fenced off */
    uint64_t offset, bytes;
    cr_assert(gw_words_find(words, RANGE, &offset, &bytes));
    __atomic_store_n((uint64_t *)(void *)(theirs.memory + offset), 77,
                     __ATOMIC_SEQ_CST); /* whatever the operation is */
    cr_assert_eq(own_word(words), 1);
    cr_assert(hand_over(words, &theirs, &err));
    cr_assert(add(&theirs, &c) == GW_PATH_DONE && c.value == 1);
    gw_shm_words_drop(&theirs);
    gw_words_close(words);
}

/* The owner could shorten the file, which would kill a process that touches its memory. */
Test(shm, a_file_that_could_shrink_is_not_mapped) {
    gw_err err;
    gw_words *words = gw_words_open(&err);
    gw_shm_words theirs;
    gw_shm_words_init(&theirs);
    cr_assert(gw_words_add(words, RANGE, 3, &err));
    FILE *plain = tmpfile();
    int memory = memfd_create("words", MFD_ALLOW_SEALING), fds[] = {fileno(plain), memory};
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(ftruncate(fds[i], GW_WORDS_BYTES), 0);
        cr_assert(!hand_file(words, &theirs, fds[i], &err), "file %d", i);
        cr_assert_eq(err.code, GW_E_PEER);
    }
    cr_assert_eq(fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    cr_assert(hand_file(words, &theirs, memory, &err), "%s", err.text);
    fclose(plain);
    close(memory);
    gw_shm_words_drop(&theirs);
    gw_words_close(words);
}

Test(shm, operations_that_are_not_on_the_words_are_passed_on) {
    gw_err err;
    gw_completion c;
    uint64_t buffer[4] = {0};
    gw_words *words = gw_words_open(&err);
    gw_shm_words theirs;
    gw_shm_words_init(&theirs);
    cr_assert(gw_words_add(words, RANGE, 3, &err));
    cr_assert(hand_over(words, &theirs, &err));
    gw_op good = op_of(GW_OP_READ, buffer);
    good.bytes = 24;
    cr_assert_eq(gw_shm_words_do(&theirs, &good, &c), GW_PATH_DONE);
    gw_op bad[6];
    for (int i = 0; i < 6; i++) bad[i] = good;
    bad[0].bytes = 32;
    bad[1].offset = 4;
    bad[2].offset = UINT64_MAX - 7;
    bad[3].region = 2;
    bad[4].fence.epoch = 2;
    bad[5].fence.view.bytes[5] ^= 1;
    for (int i = 0; i < 6; i++)
        cr_assert_eq(gw_shm_words_do(&theirs, &bad[i], &c), GW_PATH_PASS, "case %d", i);
    gw_shm_words_drop(&theirs);
    gw_words_close(words);
}

/* No file can be made: holders of the words' memory must not operate on it any more, and the owner learns
 * it. */
Test(shm, words_that_cannot_be_renewed_are_retired) {
    gw_err err;
    gw_completion c;
    struct rlimit limit;
    gw_words *words = gw_words_open(&err);
    gw_shm_words theirs;
    cr_assert(gw_words_add(words, RANGE, 1, &err));
    gw_shm_words_init(&theirs);
    cr_assert(hand_over(words, &theirs, &err));
    cr_assert_eq(add(&theirs, &c), GW_PATH_DONE);
    signal(SIGXFSZ, SIG_IGN);
    cr_assert_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = GW_WORDS_BYTES - 1;
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    cr_assert(!gw_words_renew(words, &err));
    cr_assert(strstr(err.text, "shared memory"), "%s", err.text);
    cr_assert_eq(add(&theirs, &c), GW_PATH_PASS);
    cr_assert_eq(own_word(words), 1);
    gw_shm_words_drop(&theirs);
    gw_words_close(words);
}

Test(shm, words_that_make_no_sense_are_not_mapped) {
    gw_err err;
    uint8_t bytes[GW_DOOR_BYTES];
    gw_words *words = gw_words_open(&err);
    gw_shm_words theirs;
    gw_shm_words_init(&theirs);
    cr_assert(gw_words_add(words, RANGE, 3, &err));
    gw_writer w = gw_writer_on(bytes, sizeof bytes);
    gw_shm_words_describe(words, &fence, &w);
    for (size_t length = 0; length <= w.length; length++) { /* shorter ones, then one that is a byte longer */
        gw_reader r = gw_reader_on(bytes, length);
        if (length == w.length) memset(bytes + length - 4, 0xf8, 4);
        cr_assert(!gw_shm_words_take(&theirs, &r, gw_words_fd(words), &err), "%zu bytes", length);
    }
    int soft =
        memfd_create("soft", MFD_ALLOW_SEALING); /* could be made smaller under a process that maps it */
    cr_assert_eq(ftruncate(soft, GW_WORDS_BYTES), 0);
    w = gw_writer_on(bytes, sizeof bytes);
    gw_shm_words_describe(words, &fence, &w);
    gw_reader r = gw_reader_on(bytes, w.length);
    cr_assert(!gw_shm_words_take(&theirs, &r, soft, &err) && err.code == GW_E_PEER);
    close(soft);
    gw_shm_words_drop(&theirs);
    gw_words_close(words);
}

/* Rings. */

static gw_arrival refuse(void *context, gw_rail_peer *peer, gw_rail_message *message) {
    (void)context, (void)peer, (void)message;
    cr_assert_fail("a message arrived");
    return GW_ARRIVAL_REFUSE;
}

/* What the sender of a ring has written, made by hand: the head position and the first bytes. */
static gw_flow receive_from(uint64_t head, uint32_t length, gw_err *err) {
    int rings = memfd_create("rings", 0);
    cr_assert_eq(ftruncate(rings, (off_t)gw_shm_rings_bytes(1)), 0);
    gw_peer_id peer = gw_mesh_id(1);
    gw_channel *channel =
        gw_shm_channel_open(rings, 0, true, eventfd(0, 0), eventfd(0, 0), 4096, &peer, 0, err);
    cr_assert_not_null(channel, "%s", err->text);
    uint64_t ring = gw_shm_rings_bytes(1) / 2; /* the second one is that by which the first side receives */
    cr_assert_eq(pwrite(rings, &head, sizeof head, (off_t)ring), sizeof head);
    cr_assert_eq(pwrite(rings, &length, sizeof length, (off_t)ring + 4096), sizeof length);
    gw_rail_user user = {.arrive = refuse};
    gw_flow flow = channel->ops->receive(channel, &user, err);
    channel->ops->close(channel);
    close(rings);
    return flow;
}

Test(shm, nonsense_in_a_ring_breaks_the_channel) {
    gw_err err;
    cr_assert_eq(receive_from(0, 0, &err), GW_FLOW_BLOCKED);
    cr_assert_eq(receive_from(1, 0, &err), GW_FLOW_BROKEN); /* not at the end of a cache line */
    cr_assert_eq(receive_from(UINT64_MAX - 63, 0, &err), GW_FLOW_BROKEN);
    cr_assert_eq(receive_from(1 << 30, 0, &err), GW_FLOW_BROKEN);
    cr_assert_eq(receive_from(128, 4097, &err), GW_FLOW_BROKEN); /* longer than messages may be */
    cr_assert_eq(err.code, GW_E_PEER);
}

static bool send_once(void *context, gw_rail_peer *peer, gw_rail_message *message) {
    (void)peer;
    int *left = context;
    *message = (gw_rail_message){.header = {1}};
    return (*left)-- > 0;
}

static void note_sent(void *context, gw_rail_peer *peer) {
    (void)context, (void)peer;
}

Test(shm, what_is_no_bell_is_not_rung) {
    const uint32_t asleep = 1;
    int rings = memfd_create("rings", 0), mute = open("/dev/null", O_RDONLY), left = 1;
    gw_peer_id peer = gw_mesh_id(1);
    gw_err err;
    cr_assert_eq(ftruncate(rings, (off_t)gw_shm_rings_bytes(1)), 0);
    cr_assert_eq(pwrite(rings, &asleep, sizeof asleep, 2 * 64), sizeof asleep);
    gw_channel *channel = gw_shm_channel_open(rings, 0, true, eventfd(0, 0), mute, 4096, &peer, 0, &err);
    cr_assert_not_null(channel, "%s", err.text);
    gw_rail_user user = {.context = &left, .next = send_once, .sent = note_sent};
    cr_assert_eq(channel->ops->send(channel, &user, &err), GW_FLOW_IDLE);
    channel->ops->close(channel);
    close(rings);
}
