/* `godwit export` of checkpoints that were made here: which tensors of which jobs are written, as what,
 * and over which files. */
#include "checkpoint/manifest.h"
#include "core/rng.h"
#include "kernels/data/safetensors.h"
#include "kernels/model/gpt/gpt.h"
#include "scratch.h"
#include "tests/tools/weights/manifest_rig.h"
#include "tools/godwit/command/commands.h"

#include <argp.h>
#include <criterion/criterion.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(export, .init = scratch_open, .fini = scratch_close);

enum { TEXT = 4096, LONG = 1200000 /* elements of a tensor that lies in two chunks */ };

static char said[TEXT]; /* what the last export printed, on both outputs */

static size_t read_text(const char *name, char *text, size_t size) {
    FILE *file = fopen(scratch_path(name), "r");
    size_t length = file != NULL ? fread(text, 1, size - 1, file) : 0;
    text[length] = '\0';
    if (file != NULL) fclose(file);
    return length;
}

static void redirect(int fd, const char *name) {
    int file = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (file < 0 || dup2(file, fd) < 0) _exit(99);
    close(file);
}

/* Exports the checkpoint in the scratch folder, from there, with these words of a command line, of which
 * standard output goes into the file "out"; files may be of `most` bytes. Returns the exit code. */
static int export_within(rlim_t most, const char *words) {
    char name[] = "godwit export", dir[] = ".", *argv[20] = {name, dir}, *copy = strdup(words), *rest = copy,
         *word;
    int argc = 2;
    while ((word = strsep(&rest, " ")) != NULL)
        if (word[0] != '\0') argv[argc++] = word;
    fflush(NULL);
    pid_t child = fork();
    cr_assert_geq(child, 0);
    if (child == 0) {
        const struct rlimit limit = {most, most};
        if (chdir(scratch_folder()) != 0) _exit(99);
        redirect(STDOUT_FILENO, "out");
        redirect(STDERR_FILENO, "err");
        signal(SIGXFSZ, SIG_IGN);
        argp_err_exit_status = 2; /* as main does */
        if (most != RLIM_INFINITY && setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(99);
        int code = gw_export_main(argc, argv);
        fflush(NULL);
        _exit(code);
    }
    int status;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status), "%s", words);
    size_t length = read_text("err", said, TEXT / 2);
    if (strstr(words, "--to -") == NULL) read_text("out", said + length, TEXT / 2);
    free(copy);
    return WEXITSTATUS(status);
}

static int export(const char *words) {
    return export_within(RLIM_INFINITY, words);
}

#define EXPECT_SAID(words) cr_expect_not_null(strstr(said, words), "%s", said)

static bool there(const char *name) {
    return access(scratch_path(name), F_OK) == 0;
}

/* The state of a job with tensors of every type. */
enum { BYTES, REALS, DOUBLES, BRAINS, INTS, LONGS, MOMENTS, SQUARES, LONELY, TENSORS };

static const gw_tensor tensors[TENSORS] = {
    [BYTES] = {.name = "bytes", .dtype = GW_U8, .role = GW_STATE, .rank = 1, .dim = {7}, .group = 0},
    [REALS] = {.name = "w", .dtype = GW_F32, .role = GW_STATE, .rank = 2, .dim = {3, LONG / 3}, .group = 1},
    [DOUBLES] = {.name = "doubles", .dtype = GW_F64, .role = GW_STATE, .rank = 1, .dim = {4}, .group = 2},
    [BRAINS] = {.name = "brains", .dtype = GW_BF16, .role = GW_STATE, .rank = 1, .dim = {3}, .group = 3},
    [INTS] = {.name = "ints", .dtype = GW_I32, .role = GW_STATE, .rank = 1, .dim = {2}, .group = 4},
    [LONGS] = {.name = "longs", .dtype = GW_I64, .role = GW_STATE, .rank = 1, .dim = {2}, .group = 5},
    [MOMENTS] = {.name = "doubles.m", .dtype = GW_F32, .role = GW_STATE, .rank = 1, .dim = {4}, .group = 2},
    /* moments of nothing: of another shape, and without a tensor of the name before the point */
    [SQUARES] = {.name = "ints.v", .dtype = GW_F32, .role = GW_STATE, .rank = 1, .dim = {3}, .group = 4},
    [LONELY] = {.name = "lonely.m", .dtype = GW_F32, .role = GW_STATE, .rank = 1, .dim = {1}, .group = 6},
};

static uint64_t bytes_of(const gw_tensor *tensor) {
    return gw_tensor_elements(tensor) * gw_dtype_bytes(tensor->dtype);
}

/* The state image of a step, which the caller frees; each tensor begins at where[t]. */
static uint8_t *make_state(float step, const uint8_t *where[TENSORS]) {
    uint64_t size = 0, offset[TENSORS];
    for (int t = 0; t < TENSORS; t++) {
        offset[t] = size;
        size += bytes_of(&tensors[t]);
    }
    uint8_t *state = malloc(size);
    float *reals = malloc(LONG * sizeof *reals);
    cr_assert(state != NULL && reals != NULL);
    for (uint64_t i = 0; i < size; i++) state[i] = (uint8_t)(i * 7);
    for (int i = 0; i < LONG; i++) reals[i] = step + (float)(i % 2048) * 0.125f;
    reals[0] = 1e5f;
    reals[1] = 0x1.008p0f; /* exact */
    reals[2] = 0x1.002p0f; /* in the middle: down to the even one */
    reals[3] = 0x1.006p0f; /* in the middle: up to the even one */
    reals[4] = NAN;
    reals[5] = -0.0f;
    memcpy(state + offset[REALS], reals, LONG * sizeof *reals);
    static const double doubles[] = {0.1, 1e300, 0x1.0000010000001p0, -0x1p-149};
    memcpy(state + offset[DOUBLES], doubles, sizeof doubles);
    static const uint16_t brains[] = {0x3F80, 0x7F7F, 0xFF80};
    memcpy(state + offset[BRAINS], brains, sizeof brains);
    memcpy(state + offset[MOMENTS], reals + 5, size - offset[MOMENTS]);
    for (int t = 0; t < TENSORS; t++) where[t] = state + offset[t];
    free(reals);
    return state;
}

static const gw_param no_params[] = {{"n", "1"}};

static void save_state(uint64_t step, const uint8_t *state) {
    rig_save_state((gw_manifest){.job_name = "mixture",
                                 .job_id = {{7}},
                                 .step = step,
                                 .params = no_params,
                                 .param_count = 1,
                                 .created_ms = step,
                                 .tensors = tensors,
                                 .tensor_count = TENSORS},
                   state);
}

static uint8_t *save_step(uint64_t step, const uint8_t *where[TENSORS]) {
    uint8_t *state = make_state((float)step, where);
    save_state(step, state);
    return state;
}

static void open_file(const char *name, gw_safetensors *file) {
    gw_err err;
    cr_assert(gw_safetensors_open(scratch_path(name), file, &err), "%s", err.text);
}

/* Whether the file has this tensor, of this type and with these bytes. */
static bool has(const gw_safetensors *file, int t, const char *dtype, const void *bytes, size_t size) {
    const gw_safetensor *found = gw_safetensors_find(file, tensors[t].name);
    return found != NULL && strcmp(found->dtype, dtype) == 0 && found->rank == tensors[t].rank &&
           memcmp(found->dim, tensors[t].dim, found->rank * sizeof found->dim[0]) == 0 &&
           found->size == size && memcmp(found->bytes, bytes, size) == 0;
}

static const char *const own_types[TENSORS] = {"U8", "F32", "F64", "BF16", "I32", "I64", "F32", "F32", "F32"};

Test(export, every_tensor_has_its_bytes) {
    const uint8_t *where[TENSORS];
    uint8_t *state = save_step(3, where);
    gw_safetensors file;
    cr_assert_eq(export("--tensors all --to all"), 0, "%s", said);
    EXPECT_SAID("all: 9 tensors of the job mixture with 1200026 numbers after step 3\n");
    open_file("all", &file);
    cr_expect_eq(file.count, TENSORS);
    for (int t = 0; t < TENSORS; t++)
        cr_expect(has(&file, t, own_types[t], where[t], bytes_of(&tensors[t])), "%s", tensors[t].name);
    const json_t *notes = json_object_get(file.parts[0].header, "__metadata__");
    cr_expect_str_eq(json_string_value(json_object_get(notes, "godwit.job")), "mixture");
    cr_expect_str_eq(json_string_value(json_object_get(notes, "godwit.step")), "3");
    cr_expect_eq(strlen(json_string_value(json_object_get(notes, "godwit.state"))), 64);
    cr_expect_eq(strncmp(json_string_value(json_object_get(notes, "godwit.job_id")), "0700", 4), 0);
    cr_expect_not_null(json_object_get(notes, "godwit.build"));
    gw_safetensors_close(&file);
    /* the same through a pipe */
    cr_assert_eq(export("--tensors all --to -"), 0, "%s", said);
    EXPECT_SAID("standard output: 9 tensors");
    char command[600];
    snprintf(command, sizeof command, "cmp %s %s", scratch_path("all"), scratch_path("out"));
    cr_expect_eq(system(command), 0);
    free(state);
}

/* Moments are known by their names, groups and shapes; and what was left out is said. */
Test(export, weights_are_written_without_their_moments) {
    const uint8_t *where[TENSORS];
    gw_safetensors file;
    free(save_step(3, where));
    cr_assert_eq(export(""), 0, "%s", said);
    EXPECT_SAID("model.safetensors: 8 tensors");
    EXPECT_SAID("left out: 1 tensor with an optimizer's moments, which --tensors all adds");
    open_file("model.safetensors", &file);
    cr_expect(file.count == TENSORS - 1 && gw_safetensors_find(&file, "doubles.m") == NULL);
    gw_safetensors_close(&file);
    cr_assert_eq(export("--tensors weights --to w"), 0, "%s", said);
    cr_expect_null(strstr(said, "left out"), "%s", said);
    cr_assert_eq(export("--tensors lon*,doubles* --to some"), 0, "%s", said);
    open_file("some", &file);
    cr_expect_eq(file.count, 4); /* longs, lonely.m, doubles and its moments */
    gw_safetensors_close(&file);
    cr_assert_eq(export("--tensors bytes,wte --to none"), 2);
    EXPECT_SAID("no tensor of the job mixture is called 'wte'; there are: bytes, w, doubles");
    cr_expect_not(there("none"));
}

/* A file that is called as one of another format, and a directory of a peer, stay what they are. */
Test(export, a_name_or_a_place_that_misleads_is_refused) {
    const uint8_t *where[TENSORS];
    free(save_step(3, where));
    cr_expect_eq(export("--to out.gguf"), 2);
    EXPECT_SAID("call it out.safetensors, or name a folder (out/). Other programs make that format");
    cr_expect_eq(export("--to v1.2.bin --force"), 2);
    EXPECT_SAID("call it v1.2.safetensors");
    cr_expect_not(there("out.gguf") || there("v1.2.bin"));
    cr_expect_eq(export("--to v1.2"), 0, "%s", said);
    scratch_write_text("godwit-directory", "");
    cr_expect_eq(export(""), 2);
    EXPECT_SAID(". is a directory of Godwit, which keeps nothing else there: name another folder by --to");
    cr_expect_not(there("model.safetensors"));
}

/* The file's metadata are under that name. */
Test(export, a_tensor_that_no_file_can_name_is_refused) {
    static const gw_tensor two[] = {
        {.name = "__metadata__", .dtype = GW_U8, .role = GW_STATE, .rank = 1, .dim = {2}},
        {.name = "größe", .dtype = GW_U8, .role = GW_STATE, .rank = 1, .dim = {2}},
    };
    gw_safetensors file;
    rig_save_state(
        (gw_manifest){
            .job_name = "odd", .params = no_params, .param_count = 1, .tensors = two, .tensor_count = 2},
        "abcd");
    cr_assert_eq(export("--to odd"), 1);
    EXPECT_SAID("no tensor in a safetensors file can be called __metadata__: leave it out by --tensors");
    cr_expect_not(there("odd"));
    cr_assert_eq(export("--tensors gr* --to odd"), 0, "%s", said);
    open_file("odd", &file);
    cr_expect(file.count == 1 && strcmp(file.list[0].name, "größe") == 0 &&
              memcmp(file.list[0].bytes, "cd", 2) == 0);
    gw_safetensors_close(&file);
}

Test(export, real_numbers_are_rounded_and_integers_are_not) {
    const uint8_t *where[TENSORS];
    uint8_t *state = save_step(3, where);
    gw_safetensors file;
    cr_assert_eq(export("--tensors all --dtype f16 --to half"), 0, "%s", said);
    /* the real 1e5, the double 1e300 and the largest bfloat16 */
    EXPECT_SAID("3 numbers, the first of them in w, are beyond 65504, the largest of F16, and are written as "
                "infinite: "
                "--dtype bf16 holds");
    open_file("half", &file);
    static const uint16_t doubles[] = {0x2E66, 0x7C00, 0x3C00, 0x8000}, brains[] = {0x3C00, 0x7C00, 0xFC00};
    cr_expect(has(&file, DOUBLES, "F16", doubles, sizeof doubles));
    cr_expect(has(&file, BRAINS, "F16", brains, sizeof brains));
    cr_expect(has(&file, INTS, "I32", where[INTS], 8) && has(&file, BYTES, "U8", where[BYTES], 7));
    const uint8_t *reals = gw_safetensors_find(&file, "w")->bytes;
    static const uint16_t first[] = {0x7C00, 0x3C02, 0x3C00, 0x3C02, 0x7E00, 0x8000};
    cr_expect_arr_eq(reals, first, sizeof first);
    cr_expect_eq(gw_safetensors_find(&file, "w")->size, 2 * LONG);
    gw_safetensors_close(&file);
    cr_assert_eq(export("--tensors all --dtype BF16 --to brain"), 0, "%s", said);
    EXPECT_SAID("1 number, the first of them in doubles, is beyond");
    open_file("brain", &file);
    cr_expect(has(&file, BRAINS, "BF16", where[BRAINS], 6));
    gw_safetensors_close(&file);
    cr_assert_eq(export("--tensors doubles --dtype f32 --to single"), 0, "%s", said);
    open_file("single", &file);
    const float singles[] = {0.1f, INFINITY, 0x1.000002p0f, -0x1p-149f};
    cr_expect(has(&file, DOUBLES, "F32", singles, sizeof singles));
    gw_safetensors_close(&file);
    cr_assert_eq(export("--dtype f8 --to single"), 2);
    EXPECT_SAID("--dtype: 'f8' is none of f32, f16 and bf16");
    free(state);
}

static void expect_text(const char *name, const char *text) {
    char content[200];
    read_text(name, content, sizeof content);
    cr_expect_str_eq(content, text);
}

Test(export, a_file_of_somebody_else_is_not_replaced) {
    const uint8_t *where[TENSORS];
    free(save_step(3, where));
    static const char theirs[] =
        "theirs, which is longer than the beginning of a header that could be compared: "
        "0123456789012345678901234567890123456789012345678901234567890123456789";
    scratch_write_text("mine", theirs);
    scratch_write_text("mine.partial", "theirs");
    scratch_write_text("empty", "");
    cr_assert_eq(export("--to mine"), 1);
    EXPECT_SAID(
        "mine exists and is none that this command wrote: name another file, move it away, or give --force");
    expect_text("mine", theirs);
    cr_assert_eq(export("--to empty"), 0, "%s", said);
    cr_assert_eq(export("--to mine --force"), 0, "%s", said);
    expect_text("mine.partial", "theirs");
    cr_assert_eq(export("--to mine --tensors ints"), 0, "%s", said); /* now it is its own */
    EXPECT_SAID("mine: 1 tensor of the job mixture with 2 numbers");
    cr_assert_eq(mkfifo(scratch_path("pipe"), 0600), 0);
    cr_assert_eq(export("--to pipe --force"), 1);
    EXPECT_SAID("pipe is there and is not a regular file");
}

Test(export, folders_are_filled_and_made) {
    const uint8_t *where[TENSORS];
    free(save_step(3, where));
    scratch_make_folder("old");
    cr_assert_eq(export("--to old"), 0, "%s", said);
    cr_expect(there("old/model.safetensors"));
    cr_assert_eq(export("--to new/"), 0, "%s", said);
    EXPECT_SAID("new/model.safetensors: 8 tensors");
    cr_assert_eq(export("--to deep/er/"), 1);
    EXPECT_SAID("cannot make the folder deep/er/");
    cr_assert_eq(export("--to none/ --step 4"), 2);
    EXPECT_SAID("there is no checkpoint of step 4");
    cr_expect_not(there("none"));
}

/* As on a full disk: what is written of a file goes, what was there stays, and no older checkpoint is
 * tried. */
Test(export, a_file_is_there_whole_or_not_at_all) {
    const uint8_t *where[TENSORS];
    free(save_step(3, where));
    free(save_step(4, where));
    char before[200], after[200];
    cr_assert_eq(export("--tensors ints --to file"), 0, "%s", said);
    size_t length = read_text("file", before, sizeof before);
    static const char *const files[] = {"--to file", "--to new", "--to -"};
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(export_within(1 << 20, files[i]), 1, "%s", said);
        EXPECT_SAID("File too large");
        cr_expect_null(strstr(said, "passed over"), "%s", said);
        cr_expect(read_text("file", after, sizeof after) == length && memcmp(before, after, length) == 0);
        cr_expect_not(there("new") || there("new.godwit-partial") || there("file.godwit-partial"));
    }
    cr_expect_eq(read_text("out", after, sizeof after), 0);
    cr_assert_eq(unlink(scratch_path("out")) | symlink("/dev/full", scratch_path("out")), 0);
    cr_assert_eq(export("--to -"), 1);
    EXPECT_SAID("cannot write to standard output: No space left on device");
}

/* A chunk of the newest checkpoint is damaged, and another time missing. */
Test(export, an_older_checkpoint_takes_the_place_of_one_that_cannot_be_read) {
    const uint8_t *where[TENSORS];
    gw_safetensors file;
    free(save_step(3, where));
    char command[600];
    snprintf(command, sizeof command, "touch %s", scratch_path("between"));
    cr_assert_eq(system(command), 0);
    uint8_t *state = save_step(4, where);
    for (int i = 0; i < 2; i++) {
        snprintf(command, sizeof command,
                 "cd %s && for c in $(find chunks -type f -newer between); do %s $c; done", scratch_folder(),
                 i == 0 ? "echo x >>" : "rm");
        cr_assert_eq(system(command), 0);
        cr_assert_eq(export(i == 0 ? "--to -" : "--to file"), 0, "%s", said);
        EXPECT_SAID("passed over the checkpoint of step 4: ");
        EXPECT_SAID("after step 3\n");
    }
    open_file("file", &file);
    float of_step_4, exported;
    memcpy(&of_step_4, where[REALS] + 4000, sizeof of_step_4);
    memcpy(&exported, gw_safetensors_find(&file, "w")->bytes + 4000, sizeof exported);
    cr_expect_eq(exported, of_step_4 - 1.0f);
    gw_safetensors_close(&file);
    cr_assert_eq(export("--to other --step 4"), 1);
    cr_expect_not(there("other") || there("other.godwit-partial"));
    free(state);
}

/* A language model of the job gpt. */

enum { PARAMETERS = 16, VOCABULARY = 300 };

static const gw_gpt shape = {.layers = 1, .heads = 1, .channels = 8, .context = 8, .vocabulary = VOCABULARY};
static const gw_param gpt_params[] = {{"channels", "8"}, {"context", "8"}, {"dropout", "0.15"},
                                      {"heads", "1"},    {"layers", "1"},  {"model", "nano"}};

static void save_gpt(void) {
    gw_tensor list[2 * PARAMETERS] = {0};
    gw_gpt_parameter parameters[PARAMETERS];
    char names[PARAMETERS][80];
    for (uint32_t i = 0; i < PARAMETERS; i++) {
        parameters[i] = gw_gpt_parameter_of(&shape, i);
        list[2 * i] = (gw_tensor){.name = parameters[i].name,
                                  .dtype = GW_F32,
                                  .role = GW_STATE,
                                  .rank = parameters[i].rank,
                                  .dim = {parameters[i].dim[0], parameters[i].dim[1]},
                                  .group = i};
        snprintf(names[i], sizeof names[i], "%s.m", parameters[i].name);
        list[2 * i + 1] = list[2 * i];
        list[2 * i + 1].name = names[i];
    }
    float *state = calloc(2 * gw_gpt_size(&shape), sizeof *state);
    cr_assert_not_null(state);
    for (uint64_t i = 0; i < 2 * gw_gpt_size(&shape); i++) state[i] = (float)i * 0.25f;
    rig_save_state((gw_manifest){.job_name = "gpt",
                                 .job_id = {{8}},
                                 .step = 5,
                                 .created_ms = 100,
                                 .params = gpt_params,
                                 .param_count = sizeof gpt_params / sizeof gpt_params[0],
                                 .tensors = list,
                                 .tensor_count = 2 * PARAMETERS},
                   state);
    free(state);
}

static json_t *config_of(const char *name) {
    json_t *config = json_load_file(scratch_path(name), 0, NULL);
    cr_assert_not_null(config);
    return config;
}

static const char *text_in(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "";
}

Test(export, a_gpt_is_written_for_transformers_or_under_its_own_names) {
    gw_safetensors file;
    save_gpt();
    cr_assert_eq(export("--to hf/ --dtype bf16"), 0, "%s", said);
    EXPECT_SAID("hf/model.safetensors: 3352 parameters after step 5\n");
    open_file("hf/model.safetensors", &file);
    cr_expect(file.count == PARAMETERS && gw_safetensors_find(&file, "transformer.wte.weight") != NULL);
    cr_expect_str_eq(gw_safetensors_find(&file, "transformer.wte.weight")->dtype, "BF16");
    gw_safetensors_close(&file);
    json_t *config = config_of("hf/config.json");
    cr_expect_str_eq(text_in(config, "torch_dtype"), "bfloat16");
    cr_expect_str_eq(text_in(json_object_get(config, "godwit"), "step"), "5");
    cr_expect_eq(json_real_value(json_object_get(config, "resid_pdrop")), 0.15);
    cr_expect(json_is_null(json_object_get(config, "eos_token_id")));
    json_decref(config);
    char text[3000];
    read_text("hf/config.json", text, sizeof text);
    cr_expect_not_null(strstr(text, "\"resid_pdrop\": 0.15,"), "%s", text);
    cr_assert_eq(export("--to own --tensors all"), 0, "%s", said);
    open_file("own", &file);
    cr_expect(file.count == 2 * PARAMETERS && gw_safetensors_find(&file, "wte.weight.m") != NULL);
    gw_safetensors_close(&file);
    cr_expect_not(there("config.json"));
    cr_assert_eq(export("--to -"), 0, "%s", said); /* weights alone */
    cr_expect_not(there("config.json"));
}

/* A tokenizer as OpenAI published GPT-2's, with three tokens and one that ends a text. */
static void write_tokenizer(void) {
    scratch_make_folder("bpe");
    scratch_write_text("bpe/encoder.json", "{\"a\": 0, \"b\": 1, \"ab\": 2, \"<|endoftext|>\": 3}");
    scratch_write_text("bpe/vocab.bpe", "#version: 0.2\na b\n");
}

Test(export, a_tokenizer_goes_along) {
    save_gpt();
    write_tokenizer();
    cr_assert_eq(export("--to hf/ --tokenizer bpe"), 0, "%s", said);
    expect_text("hf/vocab.json", "{\"a\": 0, \"b\": 1, \"ab\": 2, \"<|endoftext|>\": 3}");
    expect_text("hf/merges.txt", "#version: 0.2\na b\n");
    cr_expect_not(there("hf/tokenizer.json") || there("hf/encoder.json"));
    json_t *config = config_of("hf/config.json"), *about = config_of("hf/tokenizer_config.json");
    cr_expect_eq(json_integer_value(json_object_get(config, "eos_token_id")), 3);
    cr_expect_str_eq(text_in(about, "eos_token"), "<|endoftext|>");
    cr_expect_str_eq(text_in(about, "tokenizer_class"), "GPT2Tokenizer");
    cr_expect_eq(json_integer_value(json_object_get(about, "model_max_length")), 8);
    json_decref(about);
    json_decref(config);
    cr_assert_eq(export("--to hf/ --tokenizer bpe"), 0, "%s", said); /* over its own files */
    /* its own configuration stays as it is */
    scratch_write_text("bpe/tokenizer_config.json", "{\"tokenizer_class\": \"GPT2Tokenizer\"}");
    cr_assert_eq(export("--to other/ --tokenizer bpe"), 0, "%s", said);
    expect_text("other/tokenizer_config.json", "{\"tokenizer_class\": \"GPT2Tokenizer\"}");
    cr_assert_eq(export("--to b/ --tokenizer bytes"), 0, "%s", said);
    json_t *bytes = config_of("b/tokenizer.json");
    const json_t *vocabulary = json_object_get(json_object_get(bytes, "model"), "vocab");
    cr_expect(json_object_size(vocabulary) == 256 &&
              json_integer_value(json_object_get(vocabulary, "a")) == 'a');
    cr_expect_eq(json_integer_value(json_object_get(vocabulary, "\u0120")), ' ');
    json_decref(bytes);
}

/* The job may have been trained on its tokens, which others made. */
Test(export, a_tokenizer_of_another_kind_goes_along_unchecked) {
    save_gpt();
    scratch_make_folder("sp");
    scratch_write_text("sp/tokenizer.model", "a model of SentencePiece");
    scratch_write_text("sp/tokenizer_config.json", "{\"tokenizer_class\": \"LlamaTokenizer\"}");
    cr_assert_eq(export("--to hf/ --tokenizer sp"), 0, "%s", said);
    EXPECT_SAID("--tokenizer: sp holds a SentencePiece model, tokenizer.model: byte-level BPE is what can be "
                "read; it "
                "goes along unchecked");
    expect_text("hf/tokenizer.model", "a model of SentencePiece");
    expect_text("hf/tokenizer_config.json", "{\"tokenizer_class\": \"LlamaTokenizer\"}");
    json_t *config = config_of("hf/config.json");
    cr_expect(json_is_null(json_object_get(config, "eos_token_id")));
    json_decref(config);
}

/* Nothing of the others is written then. */
Test(export, files_beside_the_weights_are_replaced_all_or_none) {
    save_gpt();
    write_tokenizer();
    scratch_make_folder("hf");
    scratch_write_text("hf/merges.txt", "theirs");
    cr_assert_eq(export("--to hf --tokenizer bpe"), 1);
    EXPECT_SAID("hf/merges.txt exists and is none that this command wrote: write to another folder");
    cr_expect_not(there("hf/model.safetensors") || there("hf/config.json") || there("hf/vocab.json"));
    expect_text("hf/merges.txt", "theirs");
    cr_assert_eq(export("--to hf --tokenizer bpe --force"), 0, "%s", said);
    expect_text("hf/merges.txt", "#version: 0.2\na b\n");
    cr_assert_eq(export("--to bpe/vocab.json --tokenizer bpe"), 2);
    EXPECT_SAID("--to: bpe/vocab.json is written beside the weights; name another file for them");
    cr_assert_eq(export_within(4000, "--to full/ --tokenizer bpe"), 1);
    cr_expect_not(there("full"));
}

/* A folder keeps the export of one job, whichever job was saved last. */
Test(export, another_jobs_export_is_not_replaced) {
    const uint8_t *where[TENSORS];
    save_gpt();
    scratch_make_folder("hf");
    cr_assert_eq(export("--to hf"), 0, "%s", said);
    free(save_step(101, where));
    cr_assert_eq(export("--to hf"), 1);
    EXPECT_SAID(
        "hf/model.safetensors is of the job 08000000, and this checkpoint of the job 07000000: write to "
        "another folder, move it away, or give --force");
    cr_assert_eq(export("--to hf --job 08"), 0, "%s", said); /* the same job */
    cr_assert_eq(export("--to hf/other"), 0, "%s", said);
    cr_assert_eq(export("--to hf/other --job 08"), 1);
    EXPECT_SAID("hf/other is of the job 07000000");
    cr_assert_eq(export("--to hf/other --job 08 --force"), 0, "%s", said);
    json_t *config = config_of("hf/config.json");
    json_object_set_new(json_object_get(config, "godwit"), "job_id",
                        json_string("0123456789012345678901234567890123456789012345678901234567890123"));
    cr_assert_eq(json_dump_file(config, scratch_path("hf/config.json"), JSON_PRESERVE_ORDER), 0);
    json_decref(config);
    cr_assert_eq(export("--to hf/third --job 08"), 1);
    EXPECT_SAID("the config.json beside hf/third is of the job 01234567");
}

/* A GPT-2 that was downloaded: its configuration is not one of this program's, and its weights are not. */
Test(export, another_gpt2_is_not_replaced) {
    save_gpt();
    scratch_make_folder("hf");
    scratch_write_text("hf/config.json", "{\"model_type\": \"gpt2\", \"n_ctx\": 1024}");
    cr_assert_eq(export("--to hf"), 1);
    EXPECT_SAID("hf/config.json exists and is none that this command wrote");
    cr_expect_not(there("hf/model.safetensors"));
    /* what builds before the origin was noted have written is its own */
    cr_assert_eq(export("--to old/"), 0, "%s", said);
    json_t *config = config_of("old/config.json");
    cr_assert_eq(json_object_del(config, "godwit") | json_object_del(config, "n_ctx"), 0);
    cr_assert_eq(json_dump_file(config, scratch_path("old/config.json"), JSON_PRESERVE_ORDER), 0);
    json_decref(config);
    cr_assert_eq(export("--to old"), 0, "%s", said);
}

Test(export, what_has_no_tokenizer_is_given_none) {
    const uint8_t *where[TENSORS];
    free(save_step(3, where));
    cr_assert_eq(export("--to hf/ --tokenizer bytes"), 2);
    EXPECT_SAID("--tokenizer goes along with a gpt; this is a checkpoint of the job mixture");
    cr_expect_not(there("hf"));
    save_gpt(); /* which was saved later */
    cr_assert_eq(export("--to hf/ --tokenizer nowhere"), 2);
    EXPECT_SAID("--tokenizer: there is no file nowhere/vocab.json");
    EXPECT_SAID("took job 08000000 (gpt), which was saved last; choose another with --job: 07000000 "
                "(mixture, step 3");
    scratch_make_folder("big");
    scratch_write_text("big/encoder.json", "{\"a\": 0, \"b\": 500}");
    scratch_write_text("big/vocab.bpe", "#version: 0.2\n");
    cr_assert_eq(export("--to hf/ --tokenizer big"), 2);
    EXPECT_SAID("--tokenizer: big: it has 501 tokens, and the model 300");
    cr_expect_not(there("hf"));
    cr_assert_eq(export("--to - --tokenizer bytes"), 2);
    cr_assert_eq(export("--tensors all --tokenizer bytes"), 2);
}

/* Runs the script beside this file with these words; the test is skipped where Python lacks the modules. */
static void run_python(const char *modules, const char *words) {
    const char *python = getenv("GODWIT_TEST_PYTHON");
    char command[1500];
    if (python == NULL) python = "python3";
    snprintf(command, sizeof command,
             "%s -c 'import importlib.util as u; assert all(map(u.find_spec, \"%s\".split()))' 2>/dev/null",
             python, modules);
    if (system(command) != 0)
        cr_skip_test("%s lacks one of %s; GODWIT_TEST_PYTHON may name one that has them", python, modules);
    snprintf(command, sizeof command, "cd %s && %s %s/tests/tools/command/exported.py %s >out 2>err",
             scratch_folder(), python, GODWIT_SOURCE, words);
    int code = system(command);
    size_t length = read_text("err", said, TEXT / 2);
    read_text("out", said + length, TEXT / 2);
    cr_assert_eq(code, 0, "%s", said);
    EXPECT_SAID("are the same");
}

/* Numbers of every exponent and sign, NaN and infinities among them. */
Test(export, numpy_and_pytorch_round_to_the_same_bits) {
    const uint8_t *where[TENSORS];
    uint8_t *state = make_state(0.0f, where);
    gw_rng rng = gw_rng_seeded(3);
    for (uint8_t *at = state + (where[REALS] - state); at < where[INTS]; at += 4) {
        uint32_t bits = (uint32_t)gw_rng_next(&rng);
        if (at + 4 <= where[INTS]) memcpy(at, &bits, sizeof bits);
    }
    save_state(3, state);
    cr_assert_eq(export("--tensors all --to stored"), 0, "%s", said);
    cr_assert_eq(export("--tensors all --to half --dtype f16"), 0, "%s", said);
    cr_assert_eq(export("--tensors all --to brain --dtype bf16"), 0, "%s", said);
    free(state);
    run_python("numpy torch safetensors", "types stored half brain");
}

/* The tokenizer is one of bytes, one of the library's, and one in GPT-2's older files. */
Test(export, transformers_loads_the_tokenizer_and_the_model) {
    static const char modules[] = "torch transformers tokenizers";
    save_gpt();
    cr_assert_eq(export("--to bytes/ --tokenizer bytes"), 0, "%s", said);
    run_python(modules, "train bpe 299");
    cr_assert_eq(export("--to new/ --tokenizer bpe --dtype bf16"), 0, "%s", said);
    cr_assert_eq(rename(scratch_path("bpe/tokenizer.json"), scratch_path("tokenizer.json")), 0);
    cr_assert_eq(export("--to old/ --tokenizer bpe"), 0, "%s", said);
    run_python(modules, "tokenizer bytes - new . old .");
}
