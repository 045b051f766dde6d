#include "tools/godwit/command/flock/hand_over.h"

#include "core/base/assert.h"
#include "tools/godwit/text/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a job's own environment has of the submitter's. */
static const char *const usual[] = {"PATH",        "HOME",         "USER",       "LANG",
                                    "VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONPATH", "LD_LIBRARY_PATH"};

json_t *gw_flock_describe(const char *kind, const char *name, int64_t counter) {
    json_t *spec = json_object();
    gw_flock_put_own(spec, (uint64_t)counter);
    gw_json_text(spec, "kind", kind);
    gw_json_text(spec, "name", name);
    return spec;
}

static void add_variable(json_t *list, const char *name, const char *value) {
    char *text;
    GW_ASSERT_MEMORY(asprintf(&text, "%s=%s", name, value) >= 0);
    json_array_append_new(list, json_string(text));
    free(text);
}

json_t *gw_flock_environment(const char *const *named, uint32_t count) {
    json_t *list = json_array();
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        if (getenv(usual[i]) != NULL) add_variable(list, usual[i], getenv(usual[i]));
    for (uint32_t i = 0; i < count; i++) {
        if (strchr(named[i], '=') != NULL)
            json_array_append_new(list, json_string(named[i]));
        else if (getenv(named[i]) != NULL)
            add_variable(list, named[i], getenv(named[i]));
    }
    return list;
}

json_t *gw_flock_submit(gw_flock_client *client, json_t *spec, gw_err *err) {
    return gw_flock_ask_patiently(client, json_pack("{s:s,s:o}", "do", "submit", "spec", spec), NULL, NULL,
                                  err);
}

bool gw_flock_give_files(gw_flock_client *client, const gw_pack *pack, gw_err *err) {
    enum { AT_ONCE = 8 };
    uint32_t count;
    const gw_pack_chunk *chunks = gw_pack_chunks(pack, &count);
    uint8_t *bytes = malloc(GW_MEMBER_DOOR_BYTES);
    GW_ASSERT_MEMORY(bytes != NULL);
    bool good = true;
    for (uint32_t i = 0; i < count && good;) {
        json_t *request = json_pack("{s:s}", "do", "put"), *list = json_array();
        size_t length = 0;
        for (int k = 0; k < AT_ONCE && i < count && length + chunks[i].length <= GW_MEMBER_DOOR_BYTES;
             k++, i++) {
            json_t *one = json_object();
            gw_json_hash(one, "name", &chunks[i].name);
            gw_json_count(one, "bytes", chunks[i].length);
            json_array_append_new(list, one);
            memcpy(bytes + length, chunks[i].bytes, chunks[i].length);
            length += chunks[i].length;
        }
        json_object_set_new(request, "chunks", list);
        json_t *answer =
            gw_member_door_give(&client->door, request, bytes, length, GW_FLOCK_PATIENCE_NS, err);
        good = answer != NULL;
        json_decref(answer);
    }
    free(bytes);
    return good;
}
