/* Alarms reach a command and an address of the web, and what fails holds nobody up. */
#include "scratch.h"
#include "tools/godwit/alarm/sender.h"
#include "tools/godwit/alarm/webhook.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATIENCE_NS UINT64_C(120000000000)

TestSuite(sender, .init = scratch_open, .fini = scratch_close);

static const gw_alarm example = {.kind = GW_ALARM_PEER_LOST,
                                 .key = "8c1d22e0/peer-lost/1",
                                 .step = 7,
                                 .since = 12.5,
                                 .text = "node-b \"has\" ended; $HOME `x` 'q'\n."};

static gw_alarm_outlets outlets_of(const char *command, const char *url) {
    return (gw_alarm_outlets){.command = command, .url = url, .job = "gpt", .cluster = "c", .name = "node-a"};
}

static char *read_file(const char *name) {
    static char text[20000];
    FILE *file = fopen(scratch_path(name), "r");
    size_t count = file != NULL ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file != NULL) fclose(file);
    text[count] = '\0';
    return text;
}

Test(sender, a_command_gets_the_alarm_without_a_shell) {
    char script[2000], command[1000];
    gw_err err;
    snprintf(script, sizeof script,
             "#!/bin/sh\ncat > '%s'\nprintf '%%s|' \"$@\" \"$GODWIT_ALARM\" \"$GODWIT_ALARM_KEY\" "
             "\"$GODWIT_ALARM_OVER\" \"$GODWIT_ALARM_TEXT\" > '%s'\n",
             scratch_path("json"), scratch_path("words"));
    const char *path = scratch_write_text("notify", script);
    cr_assert_eq(chmod(path, 0700), 0);
    snprintf(command, sizeof command, "%s one 'two $HOME three' ''", path);
    cr_assert(gw_alarm_outlets_check(command, NULL, &err), "%s", err.text);
    gw_alarm_outlets outlets = outlets_of(command, NULL);
    gw_alarm_sender *sender = gw_alarm_sender_open(&outlets, &err);
    cr_assert_not_null(sender);
    gw_alarm_sender_put(sender, &example);
    gw_alarm_sender_close(sender, PATIENCE_NS);
    json_t *object = json_loads(read_file("json"), 0, NULL);
    cr_assert_not_null(object);
    cr_assert_str_eq(json_string_value(json_object_get(object, "kind")), "peer-lost");
    cr_assert_str_eq(json_string_value(json_object_get(object, "text")), example.text);
    cr_assert_eq(json_integer_value(json_object_get(object, "step")), 7);
    json_decref(object);
    char expected[2000];
    snprintf(expected, sizeof expected, "one|two $HOME three||peer-lost|%s|0|%s|", example.key, example.text);
    cr_assert_str_eq(read_file("words"), expected);
}

Test(sender, wrong_outlets_are_refused_at_the_start) {
    static const char *const commands[] = {"nothing-of-that-name", "echo $HOME", "echo 'x", "",
                                           "/etc/passwd",          "/"};
    static const char *const urls[] = {"ftp://x", "https://",   "http:///x", "x",
                                       "",        "http://a b", "http://:80"};
    gw_err err;
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        cr_assert_not(gw_alarm_outlets_check(commands[i], NULL, &err), "%s", commands[i]);
        cr_assert_eq(err.code, GW_E_USAGE);
    }
    for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++) {
        cr_assert_not(gw_alarm_outlets_check(NULL, urls[i], &err), "%s", urls[i]);
        cr_assert_eq(err.code, GW_E_USAGE);
    }
}

Test(sender, a_command_that_fails_or_hangs_ends_with_the_sender) {
    gw_err err;
    gw_alarm_outlets outlets = outlets_of("sleep 1000", NULL);
    gw_alarm_sender *sender = gw_alarm_sender_open(&outlets, &err);
    gw_alarm_sender_close(sender, PATIENCE_NS); /* nothing waits */
    outlets = outlets_of("false", NULL);
    sender = gw_alarm_sender_open(&outlets, &err);
    for (int i = 0; i < 3; i++) gw_alarm_sender_put(sender, &example);
    gw_alarm_sender_close(sender, PATIENCE_NS);
}

/* A server of the web that answers with a status, and keeps what it was sent. */
static atomic_uint status_to_send;
static atomic_int requests;
static char body[4000];
static size_t body_bytes;

static enum MHD_Result serve(void *context, struct MHD_Connection *connection, const char *url,
                             const char *method, const char *version, const char *upload, size_t *upload_size,
                             void **request) {
    static int seen;
    (void)context, (void)url, (void)version;
    if (*request == NULL) {
        cr_expect_str_eq(method, "POST");
        *request = &seen;
        body_bytes = 0;
        return MHD_YES;
    }
    if (*upload_size > 0) {
        if (body_bytes + *upload_size < sizeof body) memcpy(body + body_bytes, upload, *upload_size);
        body_bytes += *upload_size;
        body[body_bytes] = '\0';
        *upload_size = 0;
        return MHD_YES;
    }
    atomic_fetch_add(&requests, 1);
    struct MHD_Response *response = MHD_create_response_from_buffer(2, (char[]){"ok"}, MHD_RESPMEM_MUST_COPY);
    enum MHD_Result result = MHD_queue_response(connection, atomic_load(&status_to_send), response);
    MHD_destroy_response(response);
    return result;
}

static struct MHD_Daemon *start_server(char url[100]) {
    struct MHD_Daemon *daemon =
        MHD_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD, 0, NULL, NULL, serve, NULL, MHD_OPTION_END);
    cr_assert_not_null(daemon);
    snprintf(url, 100, "http://127.0.0.1:%u/secret-path",
             MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_BIND_PORT)->port);
    return daemon;
}

static bool has_curl(void) {
    gw_err err;
    return gw_webhook_check("https://example.org/", &err);
}

Test(sender, a_webhook_gets_the_alarm) {
    char url[100];
    gw_err err;
    if (!has_curl()) cr_skip_test("libcurl is not installed");
    atomic_store(&status_to_send, 204);
    struct MHD_Daemon *daemon = start_server(url);
    gw_alarm_outlets outlets = outlets_of(NULL, url);
    gw_alarm_sender *sender = gw_alarm_sender_open(&outlets, &err);
    gw_alarm_sender_put(sender, &example);
    gw_alarm_sender_close(sender, PATIENCE_NS);
    cr_assert_eq(atomic_load(&requests), 1);
    json_t *object = json_loads(body, 0, NULL);
    cr_assert_not_null(object);
    cr_assert_str_eq(json_string_value(json_object_get(object, "key")), example.key);
    json_decref(object);
    atomic_store(&status_to_send, 500);
    cr_assert_not(gw_webhook_post(url, "{}", 5000, &err));
    cr_assert_not_null(strstr(err.text, "500"));
    cr_assert_null(strstr(err.text, "secret"), "%s", err.text);
    MHD_stop_daemon(daemon);
    cr_assert_not(gw_webhook_post(url, "{}", 5000, &err), "nobody is there any more");
    cr_assert_null(strstr(err.text, "secret"), "%s", err.text);
}

Test(sender, a_storm_is_cut_and_counted) {
    char url[100];
    gw_err err;
    if (!has_curl()) cr_skip_test("libcurl is not installed");
    atomic_store(&status_to_send, 200);
    struct MHD_Daemon *daemon = start_server(url);
    gw_alarm_outlets outlets = outlets_of(NULL, url);
    gw_alarm_sender *sender = gw_alarm_sender_open(&outlets, &err);
    for (int i = 0; i < 1000; i++) gw_alarm_sender_put(sender, &example);
    gw_alarm end = {.kind = GW_ALARM_DONE, .key = "k", .text = "done"};
    gw_alarm_sender_put(sender, &end); /* the end is told all the same, and what was left out */
    gw_alarm report = {
        .kind = GW_ALARM_LOSS, .key = "r", .text = "another kind"}; /* It has a limit of its own. */
    gw_alarm_sender_put(sender, &report);
    gw_alarm_sender_close(sender, PATIENCE_NS);
    cr_assert_eq(atomic_load(&requests), GW_ALARM_BURST + 2);
    json_t *object = json_loads(body, 0, NULL);
    cr_assert_str_eq(json_string_value(json_object_get(object, "key")), "r");
    json_decref(object);
    MHD_stop_daemon(daemon);
}

Test(sender, what_is_left_out_is_told_by_the_next) {
    char url[100];
    gw_err err;
    if (!has_curl()) cr_skip_test("libcurl is not installed");
    atomic_store(&status_to_send, 200);
    struct MHD_Daemon *daemon = start_server(url);
    gw_alarm_outlets outlets = outlets_of(NULL, url);
    gw_alarm_sender *sender = gw_alarm_sender_open(&outlets, &err);
    for (int i = 0; i < 1000; i++) gw_alarm_sender_put(sender, &example);
    gw_alarm end = {.kind = GW_ALARM_DONE, .key = "k", .text = "done"};
    gw_alarm_sender_put(sender, &end);
    gw_alarm_sender_close(sender, PATIENCE_NS);
    json_t *object = json_loads(body, 0, NULL);
    cr_assert_eq(json_integer_value(json_object_get(object, "left_out")), 1000 - GW_ALARM_BURST);
    json_decref(object);
    MHD_stop_daemon(daemon);
}
