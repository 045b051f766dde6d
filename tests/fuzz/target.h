/* Targets for fuzzing. Each takes any bytes, and stops the process when an invariant is broken. Two
 * programs run them: test_fuzz.c, with a fixed series of damaged examples, and libfuzzer/main.c, which
 * searches for new ones until it is stopped (./build.sh fuzz).
 *
 * The corpus is not kept but made: every target writes valid examples itself, and the inputs that once
 * broke it. A kept example of a format with a version would be refused from the next version on. */
#ifndef GODWIT_TESTS_FUZZ_TARGET_H
#define GODWIT_TESTS_FUZZ_TARGET_H

#include "core/base/assert.h"
#include "core/godwit.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Adds an example; the bytes are copied. */
typedef void fuzz_add(void *context, const void *bytes, size_t count);

typedef struct fuzz_target {
    const char *name;
    uint32_t runs;       /* what takes about a second; test_fuzz.c makes a third of them */
    uint32_t bytes_most; /* the largest input: longer ones find nothing more */
    void (*examples)(fuzz_add *add, void *context);
    /* Adds malformed inputs that once broke the target and are refused now. (Valid ones are examples.)
     * NULL = none. */
    void (*found)(fuzz_add *add, void *context);
    /* Runs one input. Returns whether it was understood to its end, as every example is. */
    bool (*take)(const uint8_t *bytes, size_t count);
} fuzz_target;

/* All targets; ends with NULL. */
extern const fuzz_target *const fuzz_targets[];

/* files.c */
extern const fuzz_target fuzz_tokens, fuzz_safetensors, fuzz_config, fuzz_bpe, fuzz_text, fuzz_idx,
    fuzz_metrics, fuzz_events, fuzz_keys, fuzz_energy;
/* models.c */
extern const fuzz_target fuzz_index, fuzz_tokenizer, fuzz_pattern, fuzz_inflate;
/* wires.c */
extern const fuzz_target fuzz_gossip, fuzz_message, fuzz_headers, fuzz_replies;
/* packed.c */
extern const fuzz_target fuzz_packed;
/* sealed.c */
extern const fuzz_target fuzz_packet, fuzz_handshake, fuzz_record;
/* links.c */
extern const fuzz_target fuzz_frames, fuzz_team;
/* clients.c */
extern const fuzz_target fuzz_service_request, fuzz_service_answer, fuzz_held;
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
/* exchange.c */
extern const fuzz_target fuzz_claims, fuzz_exchange;
/* flock.c */
extern const fuzz_target fuzz_job_record, fuzz_job_spec, fuzz_job_files;
/* submission.c */
extern const fuzz_target fuzz_submission;
/* map.c */
extern const fuzz_target fuzz_map_rows, fuzz_map_tasks, fuzz_map_share, fuzz_map_copies, fuzz_map_log;
/* receipts.c */
extern const fuzz_target fuzz_receipts, fuzz_words;
/* options.c */
extern const fuzz_target fuzz_options;
/* Whether the target `options` tries this option of `godwit run` with that job. */
bool fuzz_options_know(const gw_job_type *job, const char *name);
/* why.c */
extern const fuzz_target fuzz_why;
/* workers.c */
extern const fuzz_target fuzz_worker_message, fuzz_description;
/* mad_worker.c */
extern const fuzz_target fuzz_mad_worker;
/* launch.c */
extern const fuzz_target fuzz_launch;
/* places.c */
extern const fuzz_target fuzz_slurm;
/* page.c */
extern const fuzz_target fuzz_series, fuzz_card;
/* traces.c */
extern const fuzz_target fuzz_trace_batch, fuzz_trace_file;
/* program.c */
extern const fuzz_target fuzz_http, fuzz_control;

/* helpers.c. Returns the folder of this process, which is removed at its end. */
const char *fuzz_folder(void);
/* Writes or replaces a file in that folder; returns its path, which is valid until the fourth next call. */
const char *fuzz_file(const char *name, const void *bytes, size_t count, mode_t mode);
/* Adds the content of a file as an example. */
void fuzz_add_file(fuzz_add *add, void *context, const char *path);
/* For inputs in parts with zero bytes between them: returns the end of the part that begins at `at`, which
 * is the next zero byte or `count`. */
size_t fuzz_part(const uint8_t *bytes, size_t count, size_t at);

#endif
