/* Targets for `godwit audit`: the files of receipts and of parts in a directory, and the command of a job that the
 * directory has kept. */
#include "tools/godwit/receipt/receipts.h"
#include "core/os/durable.h"
#include "tests/fuzz/target.h"
#include "tools/godwit/options/command_line.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADER = 64, EXAMPLE_STEPS = 5 };

static const gw_hash job = {{0xab, 0xcd, 0xef, 0x01}};

/* A header of a file of this job. */
static size_t put_header(uint8_t *bytes, const char *mark, uint64_t first) {
    gw_writer w = gw_writer_on(bytes, HEADER);
    memset(bytes, 0, HEADER);
    gw_put_bytes(&w, mark, 8);
    gw_put_bytes(&w, job.bytes, sizeof job.bytes);
    gw_put_u64(&w, first);
    return HEADER;
}

/* The first byte of an input is 0 for receipts and 1 for parts; the rest is the file. */
static void receipts_examples(fuzz_add *add, void *context) {
    uint8_t bytes[1 + HEADER + 1000];
    for (uint8_t kind = 0; kind < 2; kind++) {
        bytes[0] = kind;
        size_t used = 1 + put_header(bytes + 1, kind == 0 ? "GODWITR1" : "GODWITP1", kind == 0 ? 7 : 0);
        gw_writer w = gw_writer_on(bytes + used, sizeof bytes - used);
        for (uint64_t step = 1; step <= EXAMPLE_STEPS; step++) {
            const gw_receipt receipt = {step, step + 1, step + 2, step + 3};
            const gw_receipt_part part = {
                .step = step, .print = 3, .located = 4, .held = 5, .run_count = 2, .runs = {{1, 2}, {8, 3}}};
            if (kind == 0)
                gw_receipt_put(&w, &receipt);
            else
                gw_receipt_part_put(&w, &part);
        }
        add(context, bytes, used + w.length);
    }
}

typedef struct seen {
    uint64_t first, last, count, step;
} seen;

static bool take_receipt(void *context, uint64_t step, const gw_receipt *receipt) {
    seen *s = context;
    GW_ASSERT(step >= s->first && step <= s->last && step > s->step);
    GW_ASSERT(receipt->state != 0 || receipt->chain != 0);
    s->step = step;
    s->count++;
    return true;
}

static bool take_part(void *context, const gw_receipt_part *part) {
    seen *s = context;
    uint64_t shards = 0, next = 0;
    for (uint32_t i = 0; i < part->run_count; i++) {
        GW_ASSERT(part->runs[i].first >= next);
        next = (uint64_t)part->runs[i].first + part->runs[i].count;
        shards += part->runs[i].count;
    }
    GW_ASSERT(next <= GW_MAX_SHARDS && (part->run_count == 0 || shards == part->held));
    s->count++;
    return true;
}

static bool take_receipts(const uint8_t *bytes, size_t count) {
    char path[GW_PATH_BYTES];
    gw_err err;
    if (count < 1) return false;
    bool parts = bytes[0] % 2 == 1;
    GW_ASSERT(gw_durable_path(path, &err, "%s/%s-abcdef01", fuzz_folder(), parts ? "parts" : "receipts"));
    FILE *file = fopen(path, "w");
    GW_ASSERT(file != NULL && fwrite(bytes + 1, 1, count - 1, file) == count - 1 && fclose(file) == 0);
    seen all = {.first = 0, .last = UINT64_MAX - 1}, some = {.first = 8, .last = 9};
    bool good = parts ? gw_receipts_read_parts(fuzz_folder(), &job, take_part, &all, &err)
                      : gw_receipts_read(fuzz_folder(), &job, all.first, all.last, take_receipt, &all, &err);
    GW_ASSERT(parts || good == gw_receipts_read(fuzz_folder(), &job, 8, 9, take_receipt, &some, &err));
    GW_ASSERT(some.count <= 2 && some.count <= all.count);
    remove(path);
    return good && all.count == EXAMPLE_STEPS;
}

const fuzz_target fuzz_receipts = {"receipts", 3000, 1024, receipts_examples, NULL, take_receipts};

static void words_examples(fuzz_add *add, void *context) {
    static const char *const lines[] = {"cd /home/me && godwit run gpt --data text",
                                        "cd '/my folder' && godwit run digits --data '/it'\\''s' ''",
                                        "godwit run ./mine.so -- a b"};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) add(context, lines[i], strlen(lines[i]));
}

/* Words that were read are written and read again as the same words. */
static bool take_words(const uint8_t *bytes, size_t count) {
    char *line = strndup((const char *)bytes, count);
    GW_ASSERT_MEMORY(line != NULL);
    const char *folder, *again_folder;
    int words_count, again_count;
    char **words = gw_command_line_words(line, &folder, &words_count);
    free(line);
    if (words == NULL) return false;
    GW_ASSERT(words_count > 0 && words[words_count] == NULL);
    char *text = gw_command_line_text(words);
    char **again = gw_command_line_words(text, &again_folder, &again_count);
    GW_ASSERT(again != NULL && again_count == words_count);
    for (int i = 0; i < words_count; i++) GW_ASSERT(strcmp(words[i], again[i]) == 0);
    free(again);
    free(text);
    free(words);
    return true;
}

const fuzz_target fuzz_words = {"words", 20000, 300, words_examples, NULL, take_words};
