/* A peer lives for weeks while others come and go. */
#include "tests/cluster/lab.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#define JOB                                                                                                  \
    "synthetic --shards 12 --shard-ms 1 --state-bytes 1m --sum-elements 1024 --steps 100000000 "             \
    "--checkpoint-every 10 --workers 1 --peers 2 --transport tcp --key %s"

enum {
    ROUNDS = 7,
    MOST_BYTES = 96 << 10, /* a round: a tenth of what one connection's buffers hold */
    MOST_DESCRIPTORS = 3,  /* less than one a round; what is being read or written at the moment */
};

/* The other one is killed, starts again, and takes part in a checkpoint. */
static lab_peer *replace(lab *l, lab_peer *first, lab_peer *other, const char *args) {
    lab_mark(l, first);
    lab_kill(l, other);
    lab_wait_view(l, first, 1);
    lab_mark(l, first);
    other = lab_start(l, "other", first, args);
    lab_wait_view(l, first, 2);
    lab_mark(l, first);
    lab_wait_event(l, first, "checkpoint");
    return other;
}

static int by_size(const void *a, const void *b) {
    const int64_t *left = a, *right = b;
    return (*left > *right) - (*left < *right);
}

/* A round may need memory for two connections at a time, once; what is left behind is so in each. */
Test(growth, who_comes_and_goes_leaves_nothing_behind) {
    lab *l = lab_open();
    char key[LAB_PATH], args[1024];
    lab_key(l, "key", key);
    snprintf(args, sizeof args, JOB, key);
    lab_peer *first = lab_start(l, "first", NULL, args), *other = lab_start(l, "other", first, args);
    lab_wait_event(l, first, "checkpoint");
    other = replace(l, first, other, args); /* by then it has done once all that it will do */
    uint64_t bytes = lab_resident_bytes(first);
    int64_t grown[ROUNDS];
    uint32_t descriptors = lab_descriptors(first);
    for (int i = 0; i < ROUNDS; i++) {
        other = replace(l, first, other, args);
        uint64_t now = lab_resident_bytes(first);
        grown[i] = (int64_t)now - (int64_t)bytes;
        bytes = now;
    }
    cr_expect_leq(lab_descriptors(first), descriptors + MOST_DESCRIPTORS, "from %u", descriptors);
    qsort(grown, ROUNDS, sizeof grown[0], by_size);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* which keep what was freed */
    cr_expect_leq(grown[ROUNDS / 2], MOST_BYTES, "%ld bytes in a round", (long)grown[ROUNDS / 2]);
#endif
    lab_kill(l, first);
    lab_kill(l, other);
    lab_close(l);
}
