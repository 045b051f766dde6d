/* Memory of the machine that peers on GPUs need. On the stand-ins of test_flock.c. */
#include "tests/cluster/lab.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define LARGE                                                                                                \
    "synthetic --device cuda --steps 2 --shards 4 --shard-ms 0 --workers 1 --sum-elements 8 --state-bytes "

/* A state that comes from others is there, before it goes to the GPU. */
Test(gpu_memory, a_state_that_the_machine_has_no_room_for_where_it_may_be_fetched) {
    LAB_PRELOADS;
    lab *l = lab_open();
    char libraries[] = GODWIT_FAKE_NCCL; /* the driver's stand-in is the same file */
    *strrchr(libraries, '/') = '\0';
    cr_assert_eq(setenv("LD_LIBRARY_PATH", libraries, 1), 0);
    cr_assert_eq(setenv("LD_PRELOAD", GODWIT_SMALL_MACHINE, 1), 0); /* of 64 MiB */
    lab_peer *large = lab_launch(l, "large", NULL, NULL, LARGE "40m --join 127.0.0.1:1 --join-timeout 100ms");
    cr_expect_eq(lab_end(l, large), 1);
    const char *said = large->stderr_text;
    cr_expect(said != NULL && strstr(said, "this job needs 0.1 GiB of memory here; the machine"), "%s", said);
    lab_state(l, lab_start(l, "alone", NULL, LARGE "40m"), "done");
    cr_assert_eq(unsetenv("LD_PRELOAD"), 0);
    lab_close(l);
}
