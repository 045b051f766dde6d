/* The client of the control socket, with a server of the test's that hangs up at the wrong moment. */
#include "tests/scratch.h"
#include "tools/godwit/show/control.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

TestSuite(control_client, .init = scratch_open, .fini = scratch_close);

/* Ways in which the server handles a connection. */
typedef enum conduct { NOTHING_MORE, HANGS_UP_FIRST, HANGS_UP_UNREAD, HANGS_UP_READ, ANSWERS } conduct;

static struct {
    const conduct *conducts;
    int listening, connections;
    char request[64]; /* because it came in one piece */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool hung_up;
    int sends;
} server = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void hang_up(int fd) {
    close(fd);
    pthread_mutex_lock(&server.lock);
    server.hung_up = true;
    pthread_cond_broadcast(&server.changed);
    pthread_mutex_unlock(&server.lock);
}

static void *serve(void *context) {
    static const char answer[] = "{\"ok\":true}\n";
    for (const conduct *now = server.conducts; *now != NOTHING_MORE; now++) {
        int fd = accept(server.listening, NULL, NULL);
        if (fd < 0) break;
        server.connections++;
        struct pollfd asked = {.fd = fd, .events = POLLIN};
        if (*now != HANGS_UP_FIRST) poll(&asked, 1, -1);
        if (*now == HANGS_UP_READ || *now == ANSWERS) {
            ssize_t got = recv(fd, server.request, sizeof server.request - 1, 0);
            server.request[got > 0 ? got : 0] = '\0';
        }
        if (*now == ANSWERS) send(fd, answer, sizeof answer - 1, MSG_NOSIGNAL);
        hang_up(fd);
    }
    return context;
}

ssize_t __real_send(int fd, const void *bytes, size_t length, int flags);
ssize_t __wrap_send(int fd, const void *bytes, size_t length, int flags);

/* Makes the client slow: a server that hangs up first does so before anything is sent. */
ssize_t __wrap_send(int fd, const void *bytes, size_t length, int flags) {
    pthread_mutex_lock(&server.lock);
    while (server.conducts[0] == HANGS_UP_FIRST && !server.hung_up)
        pthread_cond_wait(&server.changed, &server.lock);
    server.sends += *(const char *)bytes != '{'; /* every answer begins with it */
    pthread_mutex_unlock(&server.lock);
    return __real_send(fd, bytes, length, flags);
}

static char *ask(const conduct *conducts, gw_err *err) {
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    snprintf(at.sun_path, sizeof at.sun_path, "%s", scratch_path("control.sock"));
    server.conducts = conducts;
    server.listening = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(bind(server.listening, (struct sockaddr *)&at, sizeof at), 0);
    cr_assert_eq(listen(server.listening, 4), 0);
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, serve, NULL), 0);
    char *answer = gw_control_ask(scratch_folder(), "stop", err);
    shutdown(server.listening, SHUT_RDWR);
    pthread_join(thread, NULL);
    close(server.listening);
    return answer;
}

/* If the request came in two pieces, the second might come after the peer has given up. */
Test(control_client, a_request_is_sent_in_one_piece) {
    gw_err err;
    char *answer = ask((const conduct[]){ANSWERS, NOTHING_MORE}, &err);
    cr_assert_not_null(answer, "%s", err.text);
    cr_expect_str_eq(answer, "{\"ok\":true}");
    cr_expect_eq(server.sends, 1);
    cr_expect_str_eq(server.request, "stop\n");
    free(answer);
}

Test(control_client, who_was_given_up_before_it_spoke_asks_again) {
    gw_err err;
    char *answer = ask((const conduct[]){HANGS_UP_FIRST, ANSWERS, NOTHING_MORE}, &err);
    cr_assert_not_null(answer, "%s", err.text);
    cr_expect_str_eq(server.request, "stop\n");
    free(answer);
}

Test(control_client, a_request_that_was_not_read_is_repeated_once) {
    gw_err err;
    char *answer = ask((const conduct[]){HANGS_UP_UNREAD, ANSWERS, NOTHING_MORE}, &err);
    cr_assert_not_null(answer, "%s", err.text);
    cr_expect_str_eq(server.request, "stop\n");
    free(answer);
    unlink(scratch_path("control.sock"));
    cr_expect_null(ask((const conduct[]){HANGS_UP_UNREAD, HANGS_UP_UNREAD, ANSWERS, NOTHING_MORE}, &err));
}

Test(control_client, a_request_that_was_read_is_not_repeated) {
    gw_err err;
    cr_expect_null(ask((const conduct[]){HANGS_UP_READ, ANSWERS, NOTHING_MORE}, &err));
    cr_expect_eq(server.connections, 1);
    cr_expect_not_null(strstr(err.text, "before it had answered"), "%s", err.text);
}
