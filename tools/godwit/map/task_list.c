#include "tools/godwit/map/task_list.h"

#include "core/base/assert.h"
#include "core/base/wire.h"
#include "core/map/table.h"

#include <stdlib.h>
#include <string.h>

enum { VERSION = 1, HEAD_BYTES = 9, STRIDE = 32 /* tasks, of which the place of the first one is kept */ };

static const uint8_t MAGIC[] = {'G', 'W', 'M', 'T', VERSION};

static gw_writer reserve(gw_task_writer *writer, size_t more) {
    size_t head = writer->length == 0 ? HEAD_BYTES : 0;
    if (writer->length + head + more > writer->room) {
        writer->room = 2 * (writer->length + head + more);
        writer->bytes = realloc(writer->bytes, writer->room);
        GW_ASSERT_MEMORY(writer->bytes != NULL);
    }
    if (head > 0) {
        memcpy(writer->bytes, MAGIC, sizeof MAGIC);
        writer->length = HEAD_BYTES;
    }
    return gw_writer_on(writer->bytes + writer->length, more);
}

bool gw_task_writer_add(gw_task_writer *writer, uint32_t number, const gw_map_values *values, gw_err *err) {
    size_t more = 6;
    for (uint32_t i = 0; i < values->count; i++) more += 4 + strlen(values->text[i]);
    if (values->count > GW_TASK_LIST_VALUES || writer->length + more > UINT32_MAX)
        return gw_fail(err, GW_E_LIMIT, "the inputs are too many, or too long, for a flock");
    gw_writer w = reserve(writer, more);
    gw_put_u32(&w, number);
    gw_put_u16(&w, (uint16_t)values->count);
    for (uint32_t i = 0; i < values->count; i++) {
        size_t length = strlen(values->text[i]);
        gw_put_u32(&w, (uint32_t)length);
        gw_put_bytes(&w, values->text[i], length);
    }
    GW_ASSERT(!w.failed && w.length == more);
    writer->length += more;
    writer->count++;
    return true;
}

void gw_task_writer_end(gw_task_writer *writer) {
    reserve(writer, 0);
    gw_writer w = gw_writer_on(writer->bytes + sizeof MAGIC, 4);
    gw_put_u32(&w, writer->count);
}

/* Passes over a task. False: the bytes are none. */
static bool skip_task(gw_reader *r, uint32_t *number) {
    *number = gw_get_u32(r);
    uint16_t count = gw_get_u16(r);
    for (uint16_t i = 0; i < count && !r->failed; i++) {
        uint32_t length = gw_get_u32(r);
        const uint8_t *text = gw_get_view(r, length);
        if (text == NULL || memchr(text, 0, length) != NULL) return false;
    }
    return !r->failed && *number < GW_MAP_TASKS_MOST;
}

bool gw_task_list_read(const void *bytes, size_t length, gw_task_list *list, gw_err *err) {
    gw_reader r = gw_reader_on(bytes, length);
    const uint8_t *magic = gw_get_view(&r, sizeof MAGIC);
    uint32_t count = gw_get_u32(&r), number, before = 0;
    *list = (gw_task_list){.bytes = bytes, .length = length, .count = count};
    if (magic == NULL || memcmp(magic, MAGIC, sizeof MAGIC - 1) != 0)
        return gw_fail(err, GW_E_INVALID, "the list of a map's tasks is none");
    if (magic[sizeof MAGIC - 1] != VERSION)
        return gw_fail(err, GW_E_UNSUPPORTED,
                       "the list of a map's tasks is of version %u; this build reads %d",
                       magic[sizeof MAGIC - 1], VERSION);
    bool good = !r.failed && count <= length / 6;
    if (good) {
        list->offsets = calloc((size_t)count / STRIDE + 1, sizeof *list->offsets);
        GW_ASSERT_MEMORY(list->offsets != NULL);
    }
    for (uint32_t i = 0; good && i < count; i++) {
        if (i % STRIDE == 0) list->offsets[i / STRIDE] = r.position;
        good = skip_task(&r, &number) && (i == 0 || number > before);
        before = number;
    }
    if (good && gw_reader_done(&r)) return true;
    gw_task_list_free(list);
    return gw_fail(err, GW_E_INVALID, "the list of a map's tasks is malformed at byte %zu", r.position);
}

void gw_task_list_free(gw_task_list *list) {
    free(list->offsets);
    list->offsets = NULL;
}

static gw_reader reader_at(const gw_task_list *list, uint32_t position) {
    GW_ASSERT(position < list->count);
    uint64_t first = list->offsets[position / STRIDE];
    uint32_t number;
    gw_reader r = gw_reader_on(list->bytes + first, list->length - first);
    for (uint32_t i = 0; i < position % STRIDE; i++) GW_ASSERT(skip_task(&r, &number));
    return r;
}

uint32_t gw_task_list_number(const gw_task_list *list, uint32_t position) {
    gw_reader r = reader_at(list, position);
    return gw_get_u32(&r);
}

gw_map_values *gw_task_list_values(const gw_task_list *list, uint32_t position) {
    gw_reader r = reader_at(list, position);
    gw_get_u32(&r);
    uint16_t count = gw_get_u16(&r);
    const char **texts = calloc((size_t)count + 1, sizeof *texts);
    size_t *lengths = calloc((size_t)count + 1, sizeof *lengths);
    for (uint16_t i = 0; texts != NULL && lengths != NULL && i < count; i++) {
        lengths[i] = gw_get_u32(&r);
        texts[i] = (const char *)gw_get_view(&r, lengths[i]);
    }
    gw_map_values *values =
        texts != NULL && lengths != NULL ? gw_map_values_make(count, texts, lengths) : NULL;
    free(texts);
    free(lengths);
    return values;
}
