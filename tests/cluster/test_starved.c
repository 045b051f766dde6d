/* Peers that run out of descriptors while they run: the flock goes on without those that nothing can be
 * exchanged with, and they are back when they have some again. */
#include "tests/cluster/lab.h"

#include "tools/godwit/thread/descriptors.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#define JOB "synthetic --workers 1 --shards 12 --shard-ms 5 --steps 1000000 --transport tcp --peers 2"

static bool says(const lab_peer *peer, const char *part) {
    return peer->stderr_text != NULL && strstr(peer->stderr_text, part) != NULL;
}

static bool is_open(const lab_peer *peer, int fd) {
    char path[64];
    struct stat status;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)peer->pid, fd);
    return lstat(path, &status) == 0;
}

/* It can open one socket to a peer more: room for the control link of one, and no data link. */
static struct rlimit leave_one_socket(const lab_peer *peer) {
    struct rlimit before, limit;
    int fd = 0;
    for (int left = 2; left > 0; fd++) left -= !is_open(peer, fd);
    cr_assert_eq(prlimit(peer->pid, RLIMIT_NOFILE, NULL, &before), 0);
    limit = before;
    limit.rlim_cur = (rlim_t)(fd - 1 + GW_DESCRIPTORS_RESERVE);
    cr_assert_eq(prlimit(peer->pid, RLIMIT_NOFILE, &limit, NULL), 0);
    return before;
}

static uint64_t steps_of(const lab_peer *peer) {
    const json_t *last = lab_last(peer, "step");
    return last == NULL ? 0 : lab_number(last, "step");
}

Test(starved, a_newcomer_that_one_member_has_no_descriptors_for_holds_nobody) {
    lab *l = lab_open();
    lab_peer *peers[3];
    peers[0] = lab_start(l, "p0", NULL, JOB);
    peers[1] = lab_start(l, "p1", peers[0], JOB);
    for (int i = 0; i < 2; i++) lab_wait_step(l, peers[i], 5);
    struct rlimit before = leave_one_socket(peers[1]);
    peers[2] = lab_start(l, "p2", peers[0], JOB);
    static const char told[] = "until it stands the two are in no view together";
    while (!says(peers[2], told)) {
        cr_assert_null(lab_last(peers[2], "view"), "it was admitted");
        lab_pump(l);
    }
    cr_expect(says(peers[2], "no data link to peer"), "%s", peers[2]->stderr_text);
    lab_wait_step(l, peers[0], steps_of(peers[0]) + 100);
    cr_assert_eq(prlimit(peers[1]->pid, RLIMIT_NOFILE, &before, NULL), 0);
    for (int i = 0; i < 3; i++) {
        lab_wait_view(l, peers[i], 3);
        lab_mark(l, peers[i]);
    }
    for (int i = 0; i < 3; i++) lab_wait_step(l, peers[i], steps_of(peers[0]) + 10);
    lab_close(l);
}
