/* The bytes of a selection of tensors, from the chunks of a checkpoint to a file or a pipe, in little
 * memory. */
#ifndef GODWIT_TOOLS_GODWIT_COMMAND_EXPORT_STREAM_H
#define GODWIT_TOOLS_GODWIT_COMMAND_EXPORT_STREAM_H

#include "core/os/output.h"
#include "tools/godwit/command/export/selection.h"
#include "tools/godwit/weights/checkpoint.h"

/* The finite numbers that became infinite, since the type that they were written as has none so large. */
typedef struct gw_overflow {
    uint64_t count;
    const char *tensor; /* the first tensor with one, as the file names it */
} gw_overflow;

/* Writes the file of the selection: its beginning with these notes, and the tensors' bytes. Each chunk
 * that holds a part of one is read once, as long as the selection's order is the manifest's. Fails as
 * gw_checkpoint_chunk does, or with GW_E_IO or GW_E_NOMEM. Blocks. */
bool gw_stream_write(gw_checkpoint *checkpoint, const gw_selection *selection,
                     const gw_safetensors_note *notes, uint32_t note_count, const gw_output *output,
                     gw_overflow *overflow, gw_err *err);

#endif
