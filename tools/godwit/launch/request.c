#include "tools/godwit/launch/request.h"

#include "core/base/assert.h"
#include "core/base/wire.h"

#include <stdlib.h>
#include <string.h>

static const char magic[] = "gwl";

enum { VERSION = 1 };

/* Overwrites a secret, which the compiler may not leave out. */
static void wipe(char *text) {
    if (text != NULL) explicit_bzero(text, strlen(text));
}

bool gw_launch_request_encode(const gw_launch_request *request, void **bytes, size_t *length, gw_err *err) {
    uint8_t *room = malloc(GW_LAUNCH_HEAD + GW_LAUNCH_BYTES);
    GW_ASSERT_MEMORY(room != NULL);
    gw_writer body = gw_writer_on(room + GW_LAUNCH_HEAD, GW_LAUNCH_BYTES);
    gw_put_u8(&body, request->detach);
    gw_put_u16(&body, request->silence_s);
    gw_put_string(&body, request->directory);
    gw_put_string(&body, request->key_name);
    gw_put_string(&body, request->key);
    gw_put_u32(&body, request->argc);
    for (uint32_t i = 0; i < request->argc; i++) gw_put_string(&body, request->argv[i]);
    if (body.failed || request->argc > GW_LAUNCH_ARGUMENTS) {
        free(room);
        return gw_fail(err, GW_E_LIMIT, "the command has more than %d arguments, or too long ones",
                       (int)GW_LAUNCH_ARGUMENTS);
    }
    gw_writer head = gw_writer_on(room, GW_LAUNCH_HEAD);
    gw_put_bytes(&head, magic, 3);
    gw_put_u8(&head, VERSION);
    gw_put_u32(&head, (uint32_t)body.length);
    GW_ASSERT(!head.failed);
    *bytes = room;
    *length = GW_LAUNCH_HEAD + body.length;
    return true;
}

bool gw_launch_request_head(const uint8_t head[GW_LAUNCH_HEAD], size_t *length, gw_err *err) {
    gw_reader r = gw_reader_on(head, GW_LAUNCH_HEAD);
    const uint8_t *begin = gw_get_view(&r, 3);
    uint8_t version = gw_get_u8(&r);
    *length = gw_get_u32(&r);
    if (memcmp(begin, magic, 3) != 0)
        return gw_fail(err, GW_E_INVALID, "what came in is no request of godwit launch");
    if (version != VERSION)
        return gw_fail(
            err, GW_E_UNSUPPORTED,
            "the launcher speaks version %u, and this program version %d: install one build on all hosts",
            version, (int)VERSION);
    return *length <= GW_LAUNCH_BYTES ||
           gw_fail(err, GW_E_INVALID, "a request of %zu bytes is too long", *length);
}

/* A string of its own for the caller; NULL where the reader fails, or a zero is in it. */
static char *get_text(gw_reader *r) {
    uint16_t count = gw_get_u16(r);
    const uint8_t *bytes = gw_get_view(r, count);
    if (bytes == NULL || memchr(bytes, 0, count) != NULL) {
        r->failed = true;
        return NULL;
    }
    char *text = strndup((const char *)bytes, count);
    GW_ASSERT_MEMORY(text != NULL);
    return text;
}

bool gw_launch_request_decode(const void *bytes, size_t length, gw_launch_request *request, gw_err *err) {
    gw_reader r = gw_reader_on(bytes, length);
    uint8_t detach = gw_get_u8(&r);
    *request = (gw_launch_request){.detach = detach == 1, .silence_s = gw_get_u16(&r)};
    request->directory = get_text(&r);
    request->key_name = get_text(&r);
    request->key = get_text(&r);
    uint32_t argc = gw_get_u32(&r);
    if (argc == 0 || argc > GW_LAUNCH_ARGUMENTS || detach > 1 || request->silence_s == 0) r.failed = true;
    if (!r.failed) {
        request->argv = calloc(argc + 1, sizeof *request->argv);
        GW_ASSERT_MEMORY(request->argv != NULL);
    }
    for (uint32_t i = 0; i < argc && !r.failed; i++)
        if ((request->argv[i] = get_text(&r)) != NULL) request->argc++;
    bool has_key = request->key != NULL && request->key[0] != '\0';
    if (gw_reader_done(&r) && has_key == (request->key_name[0] != '\0') &&
        strchr(request->key_name, '/') == NULL && request->key_name[0] != '.' &&
        strlen(request->key) <= GW_LAUNCH_KEY_BYTES)
        return true;
    gw_launch_request_free(request);
    return gw_fail(err, GW_E_INVALID, "the request of the launcher is damaged");
}

void gw_launch_request_free(gw_launch_request *request) {
    wipe(request->key);
    free(request->directory);
    free(request->key_name);
    free(request->key);
    for (uint32_t i = 0; request->argv != NULL && i < request->argc; i++) free(request->argv[i]);
    free(request->argv);
    *request = (gw_launch_request){.argc = 0};
}
