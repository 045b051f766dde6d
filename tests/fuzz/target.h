/* Parsers that are given whatever there is: each target takes any bytes at all, and stops the process when
 * something happens that never may. Two programs drive them: test_fuzz.c, with a fixed series of damaged
 * examples, and libfuzzer/main.c, which looks for new ones for as long as it is let (./build.sh fuzz).
 *
 * A corpus is not kept but made, as a copy of what has a version would only be refused for that one day:
 * every target writes valid examples itself, and the inputs that once broke it. */
#ifndef GODWIT_TESTS_FUZZ_TARGET_H
#define GODWIT_TESTS_FUZZ_TARGET_H

#include "core/base/assert.h"
#include "core/godwit.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Takes a copy. */
typedef void fuzz_add(void *context, const void *bytes, size_t count);

typedef struct fuzz_target {
    const char *name;
    uint32_t runs;       /* that test_fuzz.c makes: about a second of them */
    uint32_t bytes_most; /* longer inputs find nothing more */
    void (*examples)(fuzz_add *add, void *context);
    /* Malformed inputs of which a search, or a reader, found that they broke something: now they are not
     * understood. (A valid one is an example.) NULL: none. */
    void (*found)(fuzz_add *add, void *context);
    /* Whether it was understood to its end, as every example is. */
    bool (*take)(const uint8_t *bytes, size_t count);
} fuzz_target;

/* All of them; ends with NULL. */
extern const fuzz_target *const fuzz_targets[];

/* files.c */
extern const fuzz_target fuzz_tokens, fuzz_safetensors, fuzz_config, fuzz_bpe, fuzz_text, fuzz_idx,
    fuzz_metrics, fuzz_keys;
/* models.c */
extern const fuzz_target fuzz_index, fuzz_tokenizer, fuzz_pattern, fuzz_inflate;
/* wires.c */
extern const fuzz_target fuzz_gossip, fuzz_message, fuzz_headers, fuzz_replies;
/* sealed.c */
extern const fuzz_target fuzz_packet, fuzz_handshake, fuzz_record;
/* links.c */
extern const fuzz_target fuzz_frames, fuzz_team;
/* door.c */
extern const fuzz_target fuzz_door;
/* names.c */
extern const fuzz_target fuzz_names;
/* rings.c */
extern const fuzz_target fuzz_rings;
/* brain.c */
extern const fuzz_target fuzz_brain;
/* disk.c */
extern const fuzz_target fuzz_manifest, fuzz_chunk, fuzz_leftovers;
/* options.c */
extern const fuzz_target fuzz_options;
/* Whether that target tries this option of `godwit run` with that job. */
bool fuzz_options_know(const gw_job_type *job, const char *name);
/* program.c */
extern const fuzz_target fuzz_http, fuzz_control;

/* helpers.c. A folder of this process, removed at its end. */
const char *fuzz_folder(void);
/* Writes a file there, or replaces it; returns its path, valid until the fourth next call. */
const char *fuzz_file(const char *name, const void *bytes, size_t count, mode_t mode);
/* Adds what is in a file. */
void fuzz_add_file(fuzz_add *add, void *context, const char *path);
/* For inputs in parts with zero bytes between them: where the part that begins at `at` ends, at the next zero
 * byte or at `count`. */
size_t fuzz_part(const uint8_t *bytes, size_t count, size_t at);

#endif
