/* The target `launch`: what the other end of `godwit launch` takes for a request, and lists of hosts. An input is a
 * request with its head, or else a list. */
#include "tests/fuzz/target.h"
#include "tools/godwit/launch/hosts.h"
#include "tools/godwit/launch/request.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void launch_examples(fuzz_add *add, void *context) {
    char *arguments[] = {(char[]){"run"}, (char[]){"digits"}, (char[]){"--dir=a 'b'"}, (char[]){""}};
    static char directory[] = "/a", name[] = "cluster.key", key[] = "00\n", none[] = "";
    gw_launch_request request = {
        .silence_s = 60, .directory = directory, .key_name = name, .key = key, .argc = 4, .argv = arguments};
    for (int i = 0; i < 2; i++) {
        void *bytes;
        size_t length;
        gw_err err;
        GW_ASSERT(gw_launch_request_encode(&request, &bytes, &length, &err));
        add(context, bytes, length);
        free(bytes);
        request.detach = true;
        request.key = request.key_name = request.directory = none;
    }
    static const char list[] = "me@b,c=10.0.0.3,b,d";
    add(context, list, sizeof list - 1);
}

static bool take_list(const uint8_t *bytes, size_t count) {
    static gw_launch_hosts hosts;
    char text[4096];
    gw_err err = {.code = GW_OK};
    snprintf(text, sizeof text, "%.*s", (int)count, (const char *)bytes);
    bool good = gw_launch_hosts_add(&hosts, text, &err);
    GW_ASSERT(good || (err.code != GW_OK && err.text[0] != '\0'));
    for (uint32_t i = 0; i < hosts.count; i++) {
        const gw_launch_host *h = &hosts.list[i];
        GW_ASSERT(h->ssh[0] != '-' && h->name[0] != '\0' && h->address[0] != '\0' && h->twin < h->twins);
    }
    gw_launch_hosts_free(&hosts);
    return good;
}

static bool take_launch(const uint8_t *bytes, size_t count) {
    gw_launch_request request;
    size_t length;
    gw_err err = {.code = GW_OK};
    if (count < GW_LAUNCH_HEAD || memcmp(bytes, "gwl", 3) != 0) return take_list(bytes, count);
    if (!gw_launch_request_head(bytes, &length, &err)) {
        GW_ASSERT(err.code != GW_OK && err.text[0] != '\0');
        return false;
    }
    GW_ASSERT(length <= GW_LAUNCH_BYTES);
    if (length > count - GW_LAUNCH_HEAD) return false;
    if (!gw_launch_request_decode(bytes + GW_LAUNCH_HEAD, length, &request, &err)) {
        GW_ASSERT(err.code == GW_E_INVALID && request.argv == NULL);
        return false;
    }
    GW_ASSERT(request.argc >= 1 && request.argc <= GW_LAUNCH_ARGUMENTS && request.argv[request.argc] == NULL);
    GW_ASSERT(strchr(request.key_name, '/') == NULL && request.key_name[0] != '.');
    gw_launch_request_free(&request);
    return true;
}

const fuzz_target fuzz_launch = {
    .name = "launch", .runs = 20000, .bytes_most = 4000, .examples = launch_examples, .take = take_launch};
