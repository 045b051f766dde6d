/* How the commands of a flock ask their member (tools/godwit/command/flock/client.h): it is one of this test's, on a thread,
 * which leaves the first requests without an answer. */
#include "tools/godwit/command/flock/client.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct member {
    char folder[64];
    gw_loop *loop;
    gw_member_door *door;
    pthread_t thread;
    int silent; /* how many requests are left without an answer */
} member;

static void serve(void *context, gw_member_door_call *call, const json_t *request, const void *bytes,
                  size_t count) {
    member *m = context;
    (void)bytes;
    (void)count;
    if (m->silent > 0)
        m->silent--;
    else
        gw_member_door_answer(call, json_deep_copy(request), NULL, 0);
}

static void *run_member(void *context) {
    gw_loop_run(((member *)context)->loop);
    return NULL;
}

static void open_member(member *m) {
    gw_err err;
    snprintf(m->folder, sizeof m->folder, "/tmp/godwit-client-XXXXXX");
    cr_assert_not_null(mkdtemp(m->folder));
    m->loop = gw_loop_open(&err);
    m->door = gw_member_door_open(m->loop, m->folder, serve, m, &err);
    cr_assert_not_null(m->door, "%s", err.text);
    cr_assert_eq(pthread_create(&m->thread, NULL, run_member, m), 0);
}

static void close_member(member *m) {
    gw_loop_stop(m->loop);
    pthread_join(m->thread, NULL);
    gw_member_door_close(m->door);
    gw_loop_close(m->loop);
    rmdir(m->folder);
}

Test(client, a_member_that_stands_still_is_asked_again) {
    member m = {.silent = 2};
    open_member(&m);
    gw_flock_place place = {.dir = m.folder};
    gw_flock_client client;
    gw_err err;
    cr_assert(gw_flock_connect(&place, &client, &err), "%s", err.text);
    client.patience_ns = 100000000;
    json_t *answer = gw_flock_ask_patiently(&client, json_pack("{s:s}", "do", "submit"), NULL, NULL, &err);
    cr_assert_not_null(answer, "%s", err.text);
    cr_assert_str_eq(gw_flock_text(answer, "do"), "submit");
    json_decref(answer);
    gw_flock_disconnect(&client);
    close_member(&m);
}
