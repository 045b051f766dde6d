#include "tools/godwit/command/export/stream.h"

#include <stdlib.h>
#include <string.h>

enum { PIECE = 1 << 17 /* numbers that are converted at once */, WIDEST = 8 };

typedef struct stream {
    gw_checkpoint *checkpoint;
    const gw_output *output;
    uint32_t chunk; /* number of the chunk in `bytes`; UINT32_MAX = none */
    uint8_t *bytes, *stored, *converted;
} stream;

/* Reads bytes of the state image, which may lie in several chunks. */
static bool read_state(stream *s, uint64_t first, size_t count, uint8_t *bytes, gw_err *err) {
    while (count > 0) {
        uint32_t chunk = (uint32_t)(first / GW_CHUNK_BYTES);
        size_t offset = first % GW_CHUNK_BYTES, room = GW_CHUNK_BYTES - offset;
        size_t part = count < room ? count : room;
        if (s->chunk != chunk) {
            s->chunk = UINT32_MAX;
            if (!gw_checkpoint_chunk(s->checkpoint, chunk, s->bytes, err)) return false;
            s->chunk = chunk;
        }
        memcpy(bytes, s->bytes + offset, part);
        bytes += part;
        first += part;
        count -= part;
    }
    return true;
}

static bool write_tensor(stream *s, uint32_t number, const gw_safetensor *written, gw_overflow *overflow,
                         gw_err *err) {
    const gw_manifest *manifest = s->checkpoint->manifest;
    const gw_tensor *tensor = &manifest->tensors[number];
    uint64_t first = gw_manifest_offset(manifest, number), left = gw_tensor_elements(tensor);
    size_t width = gw_dtype_bytes(tensor->dtype);
    gw_real from = gw_selection_kind(tensor->dtype), to = gw_real_named(written->dtype);
    for (uint64_t count; left > 0; left -= count, first += count * width) {
        count = left < PIECE ? left : PIECE;
        if (!read_state(s, first, count * width, s->stored, err)) return false;
        const uint8_t *bytes = s->stored;
        size_t size = count * width;
        if (from != to) {
            uint64_t overflows = gw_real_convert(from, s->stored, to, s->converted, count);
            if (overflows > 0 && overflow->count == 0) overflow->tensor = written->name;
            overflow->count += overflows;
            bytes = s->converted;
            size = count * gw_real_bytes(to);
        }
        if (!gw_output_write(s->output, bytes, size, err)) return false;
    }
    return true;
}

bool gw_stream_write(gw_checkpoint *checkpoint, const gw_selection *selection,
                     const gw_safetensors_note *notes, uint32_t note_count, const gw_output *output,
                     gw_overflow *overflow, gw_err *err) {
    void *begin;
    size_t length;
    if (!gw_safetensors_begin_file(selection->list, selection->count, notes, note_count, &begin, &length,
                                   err))
        return false;
    stream s = {.checkpoint = checkpoint,
                .output = output,
                .chunk = UINT32_MAX,
                .bytes = malloc(GW_CHUNK_BYTES),
                .stored = malloc(PIECE * WIDEST),
                .converted = malloc(PIECE * WIDEST)};
    bool good = (s.bytes != NULL && s.stored != NULL && s.converted != NULL) ||
                gw_fail(err, GW_E_NOMEM, "out of memory");
    *overflow = (gw_overflow){0};
    good = good && gw_output_write(output, begin, length, err);
    for (uint32_t i = 0; good && i < selection->count; i++)
        good = write_tensor(&s, selection->tensors[i], &selection->list[i], overflow, err);
    free(s.converted);
    free(s.stored);
    free(s.bytes);
    free(begin);
    return good;
}
