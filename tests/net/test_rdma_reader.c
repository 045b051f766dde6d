/* Large transfers by a device that takes its time. What the linker calls __wrap_ stands for the device. */
#include <criterion/criterion.h>

#ifdef GODWIT_RDMA
#include "net/rdma_reader.h"

#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { BYTES = 1 << 20, PIECE = 128 * 1024, POSTS = 16 };

static const gw_rdma_region region = {.lkey = 1};
static int ready_fd; /* of the queue pair's completions */
static gw_rdma_work *posted[POSTS];
static uint32_t post_count, done_count,
    may_do; /* pieces that the device was given, has done, may have done */
static uint32_t completions;
static uint64_t pulled;
static gw_rdma_reader *reader;

gw_rdma_memory *__wrap_gw_rdma_memory_hold(gw_rdma_memory *memory);
void __wrap_gw_rdma_memory_close(gw_rdma_memory *memory);
const gw_rdma_region *__wrap_gw_rdma_memory_take(gw_rdma_memory *memory, const void *start, size_t bytes,
                                                 gw_rdma_access access, gw_err *err);
void __wrap_gw_rdma_memory_drop(gw_rdma_memory *memory, const gw_rdma_region *region_of);
gw_rdma_queue *__wrap_gw_rdma_queue_open(gw_rdma_memory *memory, const gw_rdma_queue_options *options,
                                         gw_err *err);
void __wrap_gw_rdma_queue_close(gw_rdma_queue *queue);
int __wrap_gw_rdma_queue_fd(const gw_rdma_queue *queue);
bool __wrap_gw_rdma_queue_arm(gw_rdma_queue *queue);
void __wrap_gw_rdma_queue_post(gw_rdma_queue *queue, gw_rdma_work *work);
uint32_t __wrap_gw_rdma_queue_poll(gw_rdma_queue *queue, const gw_rdma_handlers *handlers);
const gw_err *__wrap_gw_rdma_queue_trouble(const gw_rdma_queue *queue, bool *refused);

gw_rdma_memory *__wrap_gw_rdma_memory_hold(gw_rdma_memory *memory) {
    return memory;
}

void __wrap_gw_rdma_memory_close(gw_rdma_memory *memory) {
    (void)memory;
}

const gw_rdma_region *__wrap_gw_rdma_memory_take(gw_rdma_memory *memory, const void *start, size_t bytes,
                                                 gw_rdma_access access, gw_err *err) {
    (void)memory, (void)start, (void)bytes, (void)access, (void)err;
    return &region;
}

void __wrap_gw_rdma_memory_drop(gw_rdma_memory *memory, const gw_rdma_region *region_of) {
    (void)memory, (void)region_of;
}

gw_rdma_queue *__wrap_gw_rdma_queue_open(gw_rdma_memory *memory, const gw_rdma_queue_options *options,
                                         gw_err *err) {
    (void)memory, (void)options, (void)err;
    return (gw_rdma_queue *)(void *)&posted; /* no one looks into it */
}

void __wrap_gw_rdma_queue_close(gw_rdma_queue *queue) {
    (void)queue;
}

int __wrap_gw_rdma_queue_fd(const gw_rdma_queue *queue) {
    (void)queue;
    return ready_fd;
}

bool __wrap_gw_rdma_queue_arm(gw_rdma_queue *queue) {
    (void)queue;
    return true;
}

void __wrap_gw_rdma_queue_post(gw_rdma_queue *queue, gw_rdma_work *work) {
    (void)queue;
    cr_assert_lt(post_count, POSTS);
    posted[post_count++] = work;
}

uint32_t __wrap_gw_rdma_queue_poll(gw_rdma_queue *queue, const gw_rdma_handlers *handlers) {
    (void)queue;
    if (done_count == post_count || done_count == may_do) return 0;
    handlers->done(handlers->context, posted[done_count++], GW_RDMA_DONE);
    return 1;
}

const gw_err *__wrap_gw_rdma_queue_trouble(const gw_rdma_queue *queue, bool *refused) {
    (void)queue, (void)refused;
    return NULL;
}

/* ---- the fabric, and the other side ---- */

static void tell(gw_path_end *end, const void *bytes, uint32_t count) {
    (void)end, (void)bytes, (void)count;
}

static void completed(gw_path_end *end, const gw_completion *completion) {
    (void)end;
    cr_assert_eq(completion->status, GW_OP_OK);
    completions++;
}

static void on_pulled(gw_path_end *end, uint64_t bytes) {
    (void)end;
    pulled += bytes;
}

static void needed(gw_path_end *end) {
    gw_err err;
    (void)end;
    cr_assert_not_null(gw_rdma_reader_renew(reader, &err), "%s", err.text);
    gw_rdma_reader_use(reader);
}

static void let_do(gw_loop *loop, uint32_t more) {
    may_do += more;
    cr_assert_eq(eventfd_write(ready_fd, 1), 0);
    gw_loop_turn(loop, 0);
}

/* A fetch of much over a slow line is alive long before it is complete. */
Test(rdma_reader, what_a_device_has_read_counts_as_it_comes) {
    static uint8_t buffer[BYTES];
    static const gw_path_host host = {.tell = tell, .completed = completed, .pulled = on_pulled};
    _Atomic uint64_t landed = 0;
    gw_path path = {.host = &host};
    gw_path_end end = {.path = &path};
    gw_err err;
    ready_fd = eventfd(0, EFD_NONBLOCK);
    gw_loop *loop = gw_loop_open(&err);
    cr_assert_not_null(loop, "%s", err.text);
    gw_rdma_readers *readers = gw_rdma_readers_open(loop, needed, &err);
    cr_assert_not_null(readers, "%s", err.text);
    reader = gw_rdma_reader_open(readers, &end, NULL, &err);
    cr_assert_not_null(reader, "%s", err.text);
    const gw_op op = {.kind = GW_OP_FETCH, .buffer = buffer, .bytes = BYTES, .landed = &landed};
    cr_assert_eq(gw_rdma_reader_post(reader, &op), GW_PATH_STARTED);
    const gw_rdma_told_lent lent = {.answer = GW_RDMA_LENT, .id = 1, .bytes = BYTES};
    cr_assert(gw_rdma_reader_lent(reader, &lent));
    cr_assert_eq(landed, 0);
    let_do(loop, 1);
    cr_assert_eq(landed, PIECE);
    let_do(loop, 4);
    cr_assert_eq(landed, 5 * PIECE);
    cr_assert_eq(completions, 0);
    let_do(loop, POSTS);
    cr_assert_eq(landed, BYTES);
    cr_assert_eq(pulled, BYTES);
    cr_assert_eq(completions, 1);
    gw_rdma_reader_close(reader);
    gw_rdma_readers_close(readers);
    gw_loop_close(loop);
    close(ready_fd);
}
#endif
