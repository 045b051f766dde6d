/* Targets for files of users: data, weights, tokenizers, metrics, keys. */
#include "core/os/durable.h"
#include "core/os/output.h"
#include "kernels/data/bpe/bpe.h"
#include "kernels/data/bpe/stream.h"
#include "kernels/data/idx.h"
#include "kernels/data/tokens/tokens.h"
#include "kernels/model/gpt/file.h"
#include "net/secure/keyring.h"
#include "tests/fuzz/target.h"
#include "tests/weights_file.h"
#include "tools/godwit/energy/factors.h"
#include "tools/godwit/energy/kernel.h"
#include "tools/godwit/energy/record.h"
#include "tools/godwit/metrics/file.h"
#include "tools/godwit/metrics/records.h"
#include "tools/godwit/metrics/table.h"
#include "tools/godwit/metrics/tensorboard.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

/* Target tokens: files of tokens as llm.c writes them, and plain bytes. */

enum { CONTEXT = 3, HEADER_WORDS = 256 };

static void tokens_examples(fuzz_add *add, void *context) {
    uint8_t bytes[HEADER_WORDS * 4 + 40] = {0};
    const uint32_t header[] = {20240520, 1, 20};
    memcpy(bytes, header, sizeof header);
    for (uint32_t i = 0; i < 20; i++) bytes[HEADER_WORDS * 4 + 2 * i] = (uint8_t)(3 * i);
    add(context, bytes, sizeof bytes);
    const uint32_t wide[] = {20240801, 7, 10};
    memcpy(bytes, wide, sizeof wide);
    add(context, bytes, sizeof bytes);
    static const char array[] =
        "\x93NUMPY\1\0\x4e\0"
        "{'descr': '<u2', 'fortran_order': False, 'shape': (5,), }                    \n"
        "0123456789";
    add(context, array, sizeof array - 1);
    add(context, "a text of a few words", 21);
}

static bool read_tokens(const char *path) {
    gw_tokens tokens;
    gw_err err;
    if (!gw_tokens_open(path, CONTEXT, 0, &tokens, &err)) return false;
    const gw_token_file *one = &tokens.files[0];
    uint64_t bytes = one->file.bytes;
    GW_ASSERT(tokens.windows >= 1 && one->form.tokens == (bytes - one->form.head) / one->form.width);
    for (uint64_t window = 0; window < tokens.windows; window++) {
        uint32_t inputs[CONTEXT], targets[CONTEXT];
        GW_ASSERT(gw_tokens_window(&tokens, window, inputs, targets, &err));
        for (int i = 0; i < CONTEXT; i++)
            GW_ASSERT(inputs[i] <= tokens.largest && targets[i] <= tokens.largest);
    }
    gw_tokens_close(&tokens);
    return true;
}

static bool take_tokens(const uint8_t *bytes, size_t count) {
    bool text = read_tokens(fuzz_file("tokens", bytes, count, 0600));
    return read_tokens(fuzz_file("tokens.bin", bytes, count, 0600)) || text;
}

const fuzz_target fuzz_tokens = {"tokens", 10000, 1200, tokens_examples, NULL, take_tokens};

/* Target of safetensors files. */

static const gw_gpt tiny = {.layers = 1, .heads = 1, .channels = 2, .context = 3, .vocabulary = 5};

static void safetensors_examples(fuzz_add *add, void *context) {
    static const float zeros[64];
    const float *parameters[GW_GPT_PARAMETERS];
    gw_err err;
    for (uint32_t i = 0; i < gw_gpt_parameters(&tiny); i++) parameters[i] = zeros;
    const char *path = fuzz_file("model", "", 0, 0600);
    GW_ASSERT(write_gpt_weights(&tiny, parameters, path, &err));
    fuzz_add_file(add, context, path);
    const gw_safetensor list[] = {
        {.name = "a", .dtype = "BF16", .rank = 2, .dim = {2, 3}, .bytes = (const uint8_t *)zeros, .size = 12},
        {.name = "b", .dtype = "U8", .rank = 0, .bytes = (const uint8_t *)zeros, .size = 1}};
    GW_ASSERT(write_weights(path, list, 2, &err));
    fuzz_add_file(add, context, path);
}

static bool take_safetensors(const uint8_t *bytes, size_t count) {
    gw_safetensors file;
    gw_err err;
    if (!gw_safetensors_open(fuzz_file("model", bytes, count, 0600), &file, &err)) return false;
    unsigned sum = 0;
    for (uint32_t t = 0; t < file.count; t++) {
        const gw_safetensor *tensor = &file.list[t];
        GW_ASSERT(gw_safetensors_find(&file, tensor->name) != NULL);
        GW_ASSERT(tensor->bytes >= file.parts[0].map && tensor->size <= file.parts[0].file.bytes &&
                  tensor->bytes + tensor->size <= file.parts[0].map + file.parts[0].file.bytes);
        for (uint64_t i = 0; i < tensor->size; i++) sum += tensor->bytes[i];
    }
    GW_ASSERT(file.parts[0].file.bytes > 0 && sum < UINT32_MAX);
    if (gw_gpt_file_check(&tiny, &file, 0, &err))
        for (uint32_t i = 0; i < gw_gpt_parameters(&tiny); i++) {
            gw_gpt_parameter p = gw_gpt_parameter_of(&tiny, i);
            float values[64];
            uint64_t elements = p.dim[0] * (p.rank == 2 ? p.dim[1] : 1);
            GW_ASSERT(gw_gpt_file_read(&tiny, &file, i, 0, elements, values, &err));
        }
    gw_safetensors_close(&file);
    return true;
}

const fuzz_target fuzz_safetensors = {"safetensors",        8000, 4096,
                                      safetensors_examples, NULL, take_safetensors};

/* Target of config.json beside a file of weights. */

static void config_examples(fuzz_add *add, void *context) {
    const char *path = fuzz_file("config.json", "", 0, 0600);
    gw_err err;
    GW_ASSERT(write_gpt_config(&tiny, 0.5, path, &err));
    fuzz_add_file(add, context, path);
    static const char other[] = "{\"n_head\": 1, \"activation_function\": \"gelu_fast\", "
                                "\"scale_attn_weights\": true, \"layer_norm_epsilon\": 0.00001}";
    add(context, other, sizeof other - 1);
}

static bool take_config(const uint8_t *bytes, size_t count) {
    gw_err err;
    fuzz_file("config.json", bytes, count, 0600);
    return gw_gpt_file_check_config(&tiny, fuzz_file("model", "", 0, 0600), &err);
}

const fuzz_target fuzz_config = {"config", 10000, 2000, config_examples, NULL, take_config};

/* Target of tokenizers: the input is vocab.json, a zero byte, and merges.txt. */

static void bpe_examples(fuzz_add *add, void *context) {
    static char text[8192];
    size_t at = (size_t)sprintf(text, "{");
    unsigned number = 0, other = 256;
    for (unsigned b = 0; b < 256; b++) { /* bytes as the files spell them */
        bool shown = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
        at += (size_t)sprintf(text + at, "\"\\u%04x\":%u,", shown ? b : other++, number++);
    }
    at += (size_t)sprintf(text + at, "\"th\":256,\"the\":257,\"\\u0120the\":300,\"<|endoftext|>\":258}");
    at += 1 + (size_t)sprintf(text + at + 1, "#version: 0.2\nt h\nth e\n\xc4\xa0 the\n");
    add(context, text, at);
}

static bool take_bpe(const uint8_t *bytes, size_t count) {
    static const char text[] = "the then 12 \xc3\xa9\xff\n  !";
    size_t cut = fuzz_part(bytes, count, 0), merges = cut < count ? cut + 1 : count;
    fuzz_file("vocab.json", bytes, cut, 0600);
    fuzz_file("merges.txt", bytes + merges, count - merges, 0600);
    gw_bpe *bpe;
    gw_err err;
    if (!gw_bpe_open(fuzz_folder(), &bpe, &err)) return false;
    uint32_t *tokens;
    size_t token_count, at = 0;
    if (!gw_bpe_encode(bpe, text, sizeof text - 1, &tokens, &token_count, &err)) {
        GW_ASSERT(err.code == GW_E_INVALID); /* the vocabulary lacks a byte of the text */
        gw_bpe_close(bpe);
        return true;
    }
    for (size_t i = 0; i < token_count; i++) { /* decoding must give the same bytes */
        size_t length;
        const char *piece = gw_bpe_decode(bpe, tokens[i], &length);
        GW_ASSERT(at + length < sizeof text && memcmp(text + at, piece, length) == 0);
        at += length;
    }
    GW_ASSERT(at == sizeof text - 1);
    free(tokens);
    gw_bpe_close(bpe);
    return true;
}

const fuzz_target fuzz_bpe = {"bpe", 1500, 6000, bpe_examples, NULL, take_bpe};

/* Target of texts: the input is encoded as a whole and byte by byte, and decoded. */

static void text_examples(fuzz_add *add, void *context) {
    static const char text[] =
        "the then's 12\xe3\x80\x80 \xc3\xa9\xff\n  the<|endoftext|>  <|endof  \xf0\x9f\x99\x82";
    add(context, text, sizeof text - 1);
}

static void write_example(void *context, const void *bytes, size_t count) {
    (void)context;
    size_t vocabulary = strlen(bytes); /* a zero byte ends the text */
    fuzz_file("vocab.json", bytes, vocabulary, 0600);
    fuzz_file("merges.txt", (const char *)bytes + vocabulary + 1, count - vocabulary - 1, 0600);
}

/* Opens the tokenizer once in this process. */
static gw_bpe *example_bpe(void) {
    static gw_bpe *bpe;
    gw_err err;
    if (bpe != NULL) return bpe;
    bpe_examples(write_example, NULL);
    GW_ASSERT(gw_bpe_open(fuzz_folder(), &bpe, &err));
    return bpe;
}

static bool take_text(const uint8_t *bytes, size_t count) {
    static gw_bpe_stream *stream;
    gw_err err;
    const gw_bpe *bpe = example_bpe();
    const uint32_t *some;
    uint32_t *tokens;
    size_t token_count, some_count, at = 0, got = 0;
    GW_ASSERT(stream != NULL || gw_bpe_stream_open(bpe, &stream, &err));
    GW_ASSERT(gw_bpe_encode(bpe, (const char *)bytes, count, &tokens, &token_count, &err));
    for (size_t i = 0; i < token_count; i++) { /* decoding must give the same bytes */
        size_t length;
        const char *piece = gw_bpe_decode(bpe, tokens[i], &length);
        GW_ASSERT(at + length <= count && memcmp(bytes + at, piece, length) == 0);
        at += length;
    }
    GW_ASSERT(at == count);
    for (size_t i = 0; i <= count; i++, got += some_count) {
        if (i < count)
            GW_ASSERT(gw_bpe_stream_feed(stream, (const char *)bytes + i, 1, &some, &some_count, &err));
        if (i == count) GW_ASSERT(gw_bpe_stream_end(stream, &some, &some_count, &err));
        GW_ASSERT(got + some_count <= token_count &&
                  memcmp(tokens + got, some, some_count * sizeof *some) == 0);
    }
    GW_ASSERT(got == token_count);
    free(tokens);
    return true;
}

const fuzz_target fuzz_text = {"text", 3000, 300, text_examples, NULL, take_text};

/* Target of IDX files, plain and compressed. The first byte gives the expected number of dimensions. */

static void idx_examples(fuzz_add *add, void *context) {
    uint8_t plain[64] = {0, 0, 0, 8, 1, 0, 0, 0, 5, 9, 8, 7, 6, 5}, *file = plain + 1;
    add(context, plain, 14);
    gzFile out = gzopen(fuzz_file("idx", "", 0, 0600), "wb");
    gzwrite(out, file, 13);
    gzclose(out);
    char path[128];
    uint8_t packed[256] = {0};
    snprintf(path, sizeof path, "%s/idx", fuzz_folder());
    FILE *in = fopen(path, "rb");
    size_t count = fread(packed + 1, 1, sizeof packed - 1, in);
    fclose(in);
    add(context, packed, count + 1);
    const uint8_t cube[] = {2, 0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 2, 1, 2, 3, 4};
    add(context, cube, sizeof cube);
}

static bool take_idx(const uint8_t *bytes, size_t count) {
    enum { LIMIT = 1 << 16 };
    if (count == 0) return false;
    gw_idx idx;
    gw_err err;
    uint32_t rank = bytes[0] % GW_IDX_RANK + 1;
    if (!gw_idx_read(fuzz_file("idx", bytes + 1, count - 1, 0600), rank, LIMIT, &idx, &err)) return false;
    uint64_t product = 1;
    for (uint32_t d = 0; d < rank; d++) product *= idx.dim[d];
    unsigned sum = 0;
    for (uint64_t i = 0; i < idx.count; i++) sum += idx.bytes[i];
    GW_ASSERT(idx.rank == rank && idx.count == product && product <= LIMIT && sum <= LIMIT * 255u);
    gw_idx_free(&idx);
    return true;
}

const fuzz_target fuzz_idx = {"idx", 10000, 512, idx_examples, NULL, take_idx};

/* Target of files of metrics. The first byte chooses CSV or JSON lines. */

static void metrics_examples(fuzz_add *add, void *context) {
    static const char
        csv[] = "cstep,job,phase,time,ms,members,shards,loss\n1,0123abcd,train,1.5,2.5,1,24,5.5\n"
                "2,0123abcd,evaluate,1.5,2.5,1,24,\n3,\"01\"\"\"",
        json[] = "j{\"step\":1,\"job\":\"0123abcd\",\"loss\":5.5}\n{\"step\":2,\"job\":\"0123abcd\"}\n{";
    add(context, csv, sizeof csv - 1);
    add(context, json, sizeof json - 1);
}

static bool take_metrics(const uint8_t *bytes, size_t count) {
    if (count == 0) return false;
    const char *path = fuzz_file(bytes[0] == 'j' ? "m.jsonl" : "m.csv", bytes + 1, count - 1, 0600);
    gw_err err;
    gw_metrics_table table;
    bool read = gw_metrics_table_read(path, &(gw_metrics_range){.x = "step"}, &table, &err);
    if (read) {
        GW_ASSERT(table.columns <= GW_TABLE_COLUMNS);
        for (uint32_t c = 0; c < table.columns; c++) {
            GW_ASSERT(table.curve[c].points <= table.rows &&
                      table.curve[c].bin_count <= table.curve[c].points);
            for (uint32_t b = 0; b < table.curve[c].bin_count; b++)
                GW_ASSERT(isfinite(table.curve[c].bins[b].lowest.y) &&
                          isfinite(table.curve[c].bins[b].first.x));
        }
        gw_metrics_table_free(&table);
    }
    gw_metrics_file file;
    if (!gw_metrics_file_open(path, "0123abcd", 0, false, &file, &err)) return false;
    uint64_t last = file.last;
    const gw_metrics_row row = {.step = last / 2 + 1, .phase = "train", .report = "loss=1 new=a,b"};
    bool added = gw_metrics_file_add(&file, &row, &err);
    gw_metrics_file_close(&file);
    if (!added) return false;
    GW_ASSERT(gw_metrics_file_open(path, "0123abcd", 0, false, &file, &err) && file.last == row.step);
    gw_metrics_file_close(&file);
    return read;
}

const fuzz_target fuzz_metrics = {"metrics", 6000, 1024, metrics_examples, NULL, take_metrics};

/* Target of old event files, which a run finds in its folder. The first byte chooses: the file as it is, or one event
 * with a frame that is right. */

/* Appends the record of an event to a file's bytes; returns their number. */
static size_t frame_event(uint8_t *file, size_t size, const void *event, size_t count) {
    uint8_t head[GW_RECORD_HEAD], tail[GW_RECORD_TAIL];
    gw_record_frame(event, count, head, tail);
    memcpy(file + size, head, sizeof head);
    memcpy(file + size + sizeof head, event, count);
    memcpy(file + size + sizeof head + count, tail, sizeof tail);
    return size + sizeof head + count + sizeof tail;
}

static void events_examples(fuzz_add *add, void *context) {
    static const char step[] = "e\x09\0\0\0\0\0\0\xf0\x3f\x10\x05\x2a\x0a\x0a\x08\x0a\x01"
                               "a\x15\0\0\x80\x3f",
                      start[] = "\x10\x03\x3a\x02\x08\x01";
    uint8_t file[200] = {'r'};
    size_t size = frame_event(file, 1, step + 1, sizeof step - 2);
    size = frame_event(file, size, start, sizeof start - 1);
    add(context, step, sizeof step - 1);
    add(context, file, size);
}

static void write_old_events(const uint8_t *bytes, size_t count) {
    static const char name[] = "events/events.out.tfevents.1796000000.a.b.0123abcd";
    uint8_t file[4096];
    if (bytes[0] == 'e' && count <= 2048)
        fuzz_file(name, file, frame_event(file, 0, bytes + 1, count - 1), 0600);
    else
        fuzz_file(name, bytes + 1, count - 1, 0600);
}

static bool remove_file(void *context, const char *of, const char *name, gw_err *err) {
    char path[300];
    (void)context, (void)err;
    snprintf(path, sizeof path, "%s/%s", of, name);
    return unlink(path) == 0;
}

static bool take_events(const uint8_t *bytes, size_t count) {
    char dir[200];
    gw_err err;
    if (count == 0) return false;
    snprintf(dir, sizeof dir, "%s/events", fuzz_folder());
    const gw_tensorboard_run run = {.job = "0123abcd", .peer = "", .configuration = "a=b"};
    gw_tensorboard *board = gw_tensorboard_open(dir, &err);
    GW_ASSERT(board != NULL);
    write_old_events(bytes, count);
    GW_ASSERT(gw_tensorboard_begin(board, &run, &err));
    uint64_t last = gw_tensorboard_last(board);
    GW_ASSERT(last <= INT64_MAX);
    const gw_metrics_row row = {.step = last / 2 + 1, .phase = "train", .report = "loss=1"};
    GW_ASSERT(gw_tensorboard_add(board, &row, &err));
    gw_tensorboard_close(board);
    board = gw_tensorboard_open(dir, &err);
    GW_ASSERT(board != NULL && gw_tensorboard_begin(board, &run, &err));
    GW_ASSERT(gw_tensorboard_last(board) == row.step);
    gw_tensorboard_close(board);
    GW_ASSERT(gw_durable_list(gw_io_system(), dir, remove_file, NULL, &err));
    return last > 0;
}

const fuzz_target fuzz_events = {"events", 3000, 512, events_examples, NULL, take_events};

/* Target of key files. */

#define DIGITS "00112233445566778899aabbccddeeff"

static void keys_examples(fuzz_add *add, void *context) {
    static const char text[] =
        "# a comment\n" DIGITS DIGITS "\n\n  " DIGITS "FFEEDDCCBBAA99887766554433221100 # b\n";
    add(context, text, sizeof text - 1);
}

static bool take_keys(const uint8_t *bytes, size_t count) {
    gw_keyring keyring = {.count = 0};
    gw_err err;
    if (!gw_keyring_load(fuzz_file("keys", bytes, count, 0600), &keyring, &err)) return false;
    GW_ASSERT(keyring.count >= 1 && keyring.count <= GW_MAX_KEYS);
    gw_keyring_wipe(&keyring);
    return true;
}

const fuzz_target fuzz_keys = {"keys", 20000, 2048, keys_examples, NULL, take_keys};

/* Target of what tells of energy. The first byte chooses: the file of a peer's directory, a number of
 * sysfs, a line of /proc/stat or of /proc/PID/stat, or the text of --energy-factor. */

static void energy_examples(fuzz_add *add, void *context) {
    static const char *const texts[] = {"fgodwit-energy 1\n" DIGITS DIGITS " rapl 12.5 nvml 3e+06\n",
                                        "n262143328850\n", "bcpu  1 2 3 4 5 6 7 8 9 10\ncpu0 1\n",
                                        "o7 (a) b (c) S 1 7 7 0 -1 41 9 9 9 9 100 20 3 4 20 0 3 0\n",
                                        "cco2=0.35,money=0.30,currency=EUR"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) add(context, texts[i], strlen(texts[i]));
}

/* A file that was read is the same after it has been written and read again. */
static bool take_energy_file(const char *text, size_t length) {
    char written[GW_ENERGY_RECORD_BYTES];
    gw_energy_record record, again;
    gw_err err;
    if (!gw_energy_record_read(text, length, &record, &err)) {
        GW_ASSERT(record.count == 0);
        return false;
    }
    GW_ASSERT(record.count <= GW_ENERGY_JOBS);
    GW_ASSERT(gw_energy_record_read(written, gw_energy_record_write(&record, written), &again, &err));
    GW_ASSERT(again.count == record.count);
    return true;
}

static bool take_energy_factors(const char *text) {
    gw_energy_factors factors;
    gw_err err;
    if (!gw_energy_factors_parse(text, &factors, &err)) return false;
    GW_ASSERT(!factors.has_co2 || (isfinite(factors.co2) && factors.co2 >= 0));
    GW_ASSERT(!factors.has_money || (isfinite(factors.money) && factors.money >= 0));
    return true;
}

static bool take_energy(const uint8_t *bytes, size_t count) {
    char text[2048];
    uint64_t number;
    if (count == 0 || count > sizeof text) return false;
    memcpy(text, bytes + 1, count - 1);
    text[count - 1] = '\0';
    switch (bytes[0]) {
    case 'f':
        return take_energy_file(text, count - 1);
    case 'n':
        return gw_kernel_number(text, &number);
    case 'b':
        return gw_kernel_busy(text, &number);
    case 'o':
        return gw_kernel_own(text, &number);
    default:
        return take_energy_factors(text);
    }
}

const fuzz_target fuzz_energy = {"energy", 20000, 2048, energy_examples, NULL, take_energy};
