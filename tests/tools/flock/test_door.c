/* The client's side of a member's control socket (tools/godwit/flock/door.h). */
#include "tools/godwit/flock/door.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static json_t *hello(void) {
    return json_pack("{s:s}", "do", "hello");
}

Test(door, an_answer_that_comes_too_late_is_none_to_another_request) {
    static const char late[] = "{\"of\": \"the first\"}\n";
    int ends[2];
    char asked[200];
    gw_err err;
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    gw_member_door_client client = {ends[0]};
    cr_assert_null(gw_member_door_ask(&client, hello(), 0, NULL, NULL, &err));
    cr_expect_eq(err.code, GW_E_TIMEOUT, "%s", err.text);
    cr_assert_gt(read(ends[1], asked, sizeof asked), 0);
    ssize_t sent = send(ends[1], late, strlen(late), MSG_NOSIGNAL);
    cr_expect_lt(sent, 0, "nobody is there any more for the answer");
    cr_expect_null(gw_member_door_ask(&client, hello(), 0, NULL, NULL, &err));
    cr_expect_eq(err.code, GW_E_PEER, "%s", err.text);
    gw_member_door_disconnect(&client);
    close(ends[1]);
}
