/* What the launcher sends to its other ends, and what these take for a request. */
#include "core/rng.h"
#include "tools/godwit/launch/request.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static char *arguments[] = {(char[]){"run"}, (char[]){"digits"}, (char[]){""}, (char[]){"a 'b'\n\\ $(c)"}};

static char directory[] = "/a b", key_name[] = "cluster.key", key[] = "0123\n", nothing[] = "";

static gw_launch_request example(void) {
    return (gw_launch_request){.detach = true,
                               .silence_s = 60,
                               .directory = directory,
                               .key_name = key_name,
                               .key = key,
                               .argc = 4,
                               .argv = arguments};
}

Test(request, arrives_as_it_was_sent) {
    gw_launch_request sent = example(), got;
    uint8_t *bytes;
    size_t length, rest;
    gw_err err;
    cr_assert(gw_launch_request_encode(&sent, (void **)&bytes, &length, &err), "%s", err.text);
    cr_assert(gw_launch_request_head(bytes, &rest, &err), "%s", err.text);
    cr_assert_eq(rest, length - GW_LAUNCH_HEAD);
    cr_assert(gw_launch_request_decode(bytes + GW_LAUNCH_HEAD, rest, &got, &err), "%s", err.text);
    cr_expect(got.detach && got.silence_s == 60 && got.argc == 4 && got.argv[4] == NULL);
    cr_expect_str_eq(got.directory, sent.directory);
    cr_expect_str_eq(got.key_name, sent.key_name);
    cr_expect_str_eq(got.key, sent.key);
    for (uint32_t i = 0; i < 4; i++) cr_expect_str_eq(got.argv[i], arguments[i]);
    gw_launch_request_free(&got);
    for (size_t cut = 0; cut < rest; cut++)
        cr_expect_not(gw_launch_request_decode(bytes + GW_LAUNCH_HEAD, cut, &got, &err));
    free(bytes);
}

Test(request, another_version_and_another_program_are_told_apart) {
    uint8_t head[GW_LAUNCH_HEAD] = {'g', 'w', 'l', 2, 1, 0, 0, 0};
    size_t length;
    gw_err err;
    cr_expect_not(gw_launch_request_head(head, &length, &err));
    cr_expect_eq(err.code, GW_E_UNSUPPORTED);
    cr_expect_not_null(strstr(err.text, "install one build on all hosts"));
    head[3] = 1;
    cr_expect(gw_launch_request_head(head, &length, &err) && length == 1);
    head[7] = 1; /* 16 MiB */
    cr_expect_not(gw_launch_request_head(head, &length, &err));
    head[0] = 'G';
    cr_expect_not(gw_launch_request_head(head, &length, &err));
    cr_expect_eq(err.code, GW_E_INVALID);
}

static bool passes(gw_launch_request request) {
    gw_launch_request got;
    uint8_t *bytes;
    size_t length;
    gw_err err;
    if (!gw_launch_request_encode(&request, (void **)&bytes, &length, &err)) return false;
    bool good = gw_launch_request_decode(bytes + GW_LAUNCH_HEAD, length - GW_LAUNCH_HEAD, &got, &err);
    if (good) gw_launch_request_free(&got);
    free(bytes);
    return good;
}

/* The key is written into one folder alone. */
Test(request, the_key_has_a_name_and_no_path) {
    static const char *const names[] = {"../x", "a/b", ".ssh", "..", ""};
    gw_launch_request request = example();
    cr_expect(passes(request));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        request.key_name = (char *)(uintptr_t)names[i];
        cr_expect_not(passes(request), "%s", names[i]);
    }
    request = example();
    request.key = nothing;
    cr_expect_not(passes(request));
    request.key_name = nothing;
    cr_expect(passes(request));
    request.argc = 0;
    cr_expect_not(passes(request));
    request = example();
    request.silence_s = 0;
    cr_expect_not(passes(request));
}

Test(request, a_command_that_is_too_large_is_refused) {
    gw_launch_request request = example();
    static char *many[GW_LAUNCH_ARGUMENTS + 1];
    static char large[70000];
    for (uint32_t i = 0; i <= GW_LAUNCH_ARGUMENTS; i++) many[i] = arguments[0];
    request.argv = many;
    request.argc = GW_LAUNCH_ARGUMENTS;
    cr_expect(passes(request));
    request.argc++;
    cr_expect_not(passes(request));
    memset(large, 'x', sizeof large - 1);
    many[0] = large;
    request.argc = 1;
    cr_expect_not(passes(request));
}
