/* A trained language model, out of the checkpoints of real peers. */
#include "checkpoint/catalog.h"
#include "core/base/utf8.h"
#include "core/rng.h"
#include "kernels/model/gpt/decode.h"
#include "kernels/model/gpt/file.h"
#include "tests/cluster/lab.h"
#include "tests/weights_file.h"
#include "tools/godwit/weights/model.h"

#include <criterion/criterion.h>
#include <glob.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TEXT = 2000 };

/* Large enough for several chunks. */
#define GPT                                                                                                  \
    "gpt --data " GODWIT_BINARY " --layers 2 --heads 4 --channels 128 --context 32 --batch-tokens 768 "      \
    "--micro-batch 2 --workers 1"

#define SMALL                                                                                                \
    "gpt --data " GODWIT_BINARY " --layers 1 --heads 1 --channels 8 --context 8 --batch-tokens 64 "          \
    "--micro-batch 8 --workers 1"

/* What a shell's command prints; *code is its exit code. */
static const char *output(int *code, const char *format, ...) {
    static char text[4][TEXT];
    static int next;
    char command[3 * LAB_PATH], *out = text[next++ % 4];
    va_list arguments;
    va_start(arguments, format);
    cr_assert_lt(vsnprintf(command, sizeof command, format, arguments), (int)sizeof command);
    va_end(arguments);
    char *whole = lab_shell(command, code);
    snprintf(out, TEXT, "%s", whole);
    free(whole);
    return out;
}

/* Four peers, of which one is killed and comes back; and one that nobody disturbs: the same model, byte for
 * byte. */
Test(gpt, the_exported_model_does_not_depend_on_what_happened) {
    lab *l = lab_open();
    lab_peer *peers[4];
    const char *args = GPT " --updates 100";
    lab_flock(l, 4, args, peers);
    lab_wait_step(l, peers[0], 5);
    lab_kill(l, peers[2]);
    lab_wait_view(l, peers[0], 3);
    lab_peer *again = lab_start(l, "p2", peers[0], args);
    const char *hash = lab_state(l, peers[0], "done");
    lab_state(l, peers[1], "done");
    lab_state(l, peers[3], "done");
    lab_state(l, again, "done");
    cr_assert_str_eq(lab_undisturbed(l, args), hash);
    const lab_peer *alone = &l->peers[l->count - 1];
    int code;
    const char *said =
        output(&code,
               "cd %s && mkdir one && " GODWIT_BINARY " export p0 p1 p2 p3 --to many.safetensors "
               "&& " GODWIT_BINARY " export %s --to one/model.safetensors && "
               "cmp many.safetensors one/model.safetensors && cmp config.json one/config.json",
               l->dir, alone->dir);
    cr_expect_eq(code, 0, "%s", said);
    cr_expect_not_null(strstr(said, "parameters after step 100"), "%s", said);
    lab_close(l);
}

static void expect_tensors(const lab *l, const char *name, uint32_t count) {
    gw_safetensors file;
    gw_err err;
    char path[LAB_PATH + 40];
    snprintf(path, sizeof path, "%s/%s", l->dir, name);
    cr_assert(gw_safetensors_open(path, &file, &err), "%s", err.text);
    cr_expect_eq(file.count, count);
    gw_safetensors_close(&file);
}

/* The run replaces its checkpoints all the time, and deletes those that are being read. */
Test(gpt, a_running_job_is_exported_and_generates) {
    lab *l = lab_open();
    lab_peer *peer = lab_start(l, "p0", NULL, GPT " --updates 100000000 --checkpoint-every 1 --keep 1");
    lab_wait_event(l, peer, "checkpoint");
    for (int i = 0; i < 8; i++) {
        int code;
        const char *shown =
            output(&code,
                   "cd %s && " GODWIT_BINARY " generate p0 --prompt Once --tokens 3 && " GODWIT_BINARY
                   " export p0 --to m.safetensors 2>&1 && " GODWIT_BINARY
                   " export p0 --tensors all --to - 2>&1 >all",
                   l->dir);
        cr_expect_eq(code, 0, "%s", shown);
        expect_tensors(l, "all", 2 + 3 * 28);
        cr_expect_not_null(strstr(shown, "Once"), "%s", shown);
        cr_expect_not_null(strstr(shown, "parameters after step "), "%s", shown);
        lab_pump(l);
    }
    lab_close(l);
}

Test(gpt, a_part_of_a_checkpoint_is_not_enough) {
    lab *l = lab_open();
    lab_peer *peers[3];
    lab_flock(l, 3, GPT " --updates 3 --replicas 1", peers);
    for (int i = 0; i < 3; i++) lab_state(l, peers[i], "done");
    /* Where a chunk goes depends on the peers' names, but one replica is on one peer: at most one holds all.
     */
    int code, part = 0;
    const char *said;
    for (int i = 0; i < 3; i++) {
        said = output(&code, "cd %s && " GODWIT_BINARY " export p%d 2>&1", l->dir, i);
        if (code == 0) continue;
        cr_expect_eq(code, 1);
        cr_expect_not_null(strstr(said, "in none of the directories, and there is no peer to ask"), "%s",
                           said);
        part++;
    }
    cr_expect_geq(part, 2);
    said = output(&code, "cd %s && " GODWIT_BINARY " export p2 p0 p1 2>&1", l->dir);
    cr_expect_eq(code, 0, "%s", said);
    said = output(&code, "cd %s && " GODWIT_BINARY " export . 2>&1", l->dir);
    cr_expect_eq(code, 2);
    cr_expect_not_null(strstr(said, ". holds no checkpoint"), "%s", said);
    lab_close(l);
}

/* Reads a manifest, has it changed and saves it, under the name that it has then. */
static void change_manifest(const char *dir, const char *path, void (*change)(gw_manifest *, const void *),
                            const void *how) {
    gw_manifest manifest;
    gw_err err;
    void *changed;
    size_t length;
    cr_assert(gw_catalog_read(gw_io_system(), path, &manifest, &err), "%s", err.text);
    change(&manifest, how);
    cr_assert(gw_manifest_encode(&manifest, &changed, &length, &err), "%s", err.text);
    cr_assert_eq(unlink(path), 0);
    cr_assert(gw_catalog_save(gw_io_system(), dir, changed, length, &err), "%s", err.text);
    free(changed);
    gw_manifest_free(&manifest);
}

static void change_manifests(const char *dir, size_t count, void (*change)(gw_manifest *, const void *),
                             const void *how) {
    char pattern[LAB_PATH + 20];
    glob_t found;
    snprintf(pattern, sizeof pattern, "%s/manifests/*", dir);
    cr_assert(glob(pattern, 0, NULL, &found) == 0 && found.gl_pathc == count);
    for (size_t i = 0; i < count; i++) change_manifest(dir, found.gl_pathv[i], change, how);
    globfree(&found);
}

static void set_job(gw_manifest *manifest, const void *id) {
    memcpy(&manifest->job_id, id, sizeof manifest->job_id);
}

/* Checkpoints of steps 2, 4 and 6 of a job; a chunk of the last is damaged, and the first one's manifest. */
Test(gpt, damage_costs_one_checkpoint_and_not_the_model) {
    lab *l = lab_open();
    char dir[LAB_PATH + 8];
    snprintf(dir, sizeof dir, "%s/p0", l->dir);
    int code;
    for (int updates = 2; updates <= 6; updates += 2) {
        const char *ran =
            output(&code,
                   GODWIT_BINARY " run " GPT " --updates %d --checkpoint-every off --fresh --dir %s "
                                 "--listen 127.0.0.1:0 2>&1",
                   updates, dir);
        cr_assert_eq(code, 0, "%s", ran);
        if (updates == 4) output(&code, "touch %s/four", l->dir);
    }
    static const gw_hash one = {{1}};
    change_manifests(dir, 3, set_job, &one);
    const char *said = output(&code, "cd %s && " GODWIT_BINARY " export %s --to six 2>&1", l->dir, dir);
    cr_expect(code == 0 && strstr(said, "after step 6") != NULL, "%s", said);
    cr_expect(strstr(said, "looks for model.safetensors in a folder, not for six\n") != NULL, "%s", said);
    said =
        output(&code, "cd %s && " GODWIT_BINARY " export %s 2>&1 && cmp six model.safetensors", l->dir, dir);
    cr_expect(code == 0 && strstr(said, "looks for") == NULL, "%s", said);
    said = output(&code, "cd %s && " GODWIT_BINARY " export %s --to m4 --step 4 2>&1", l->dir, dir);
    cr_expect(code == 0 && strstr(said, "after step 4\n") != NULL, "%s", said);
    said = output(&code, "cd %s && " GODWIT_BINARY " export %s --step 5 2>&1", l->dir, dir);
    cr_expect(code == 2 &&
                  strstr(said, "there is no checkpoint of step 5; there are those of the steps 6, 4, 2") !=
                      NULL,
              "%s", said);
    output(&code,
           "cd %s && for c in $(find chunks -type f -newer ../four); do echo x >>$c; done; "
           "truncate -s 100 manifests/00000002-*",
           dir);
    cr_assert_eq(code, 0);
    said = output(&code, "cd %s && " GODWIT_BINARY " export %s --to now 2>&1 && cmp m4 now", l->dir, dir);
    cr_expect(code == 0 && strstr(said, "after step 4\n") != NULL, "%s", said);
    cr_expect(strstr(said, "passed over the checkpoint of step 6: ") != NULL, "%s", said);
    cr_expect(strstr(said, "passed over a manifest: ") != NULL, "%s", said);
    said = output(&code, GODWIT_BINARY " generate %s --step 6 --tokens 1 2>&1", dir);
    cr_expect(code == 1 && strstr(said, "checkpoint of step 6: ") != NULL, "%s", said);
    said = output(&code, GODWIT_BINARY " generate %s --tokens 1 2>&1", dir);
    cr_expect(code == 0 && strstr(said, "passed over the checkpoint of step 6") != NULL, "%s", said);
    output(&code, "truncate -s 100 %s/manifests/*", dir);
    said = output(&code, GODWIT_BINARY " generate %s 2>&1", dir);
    cr_expect(code == 1 && strstr(said, "holds no intact checkpoint of a gpt job: ") != NULL, "%s", said);
    lab_close(l);
}

/* The newest checkpoint's job, whatever the steps and roots of others are; and what is named. */
static void run_three(const char *const *order) {
    lab *l = lab_open();
    int code;
    const char *said;
    char ids[3][16];
    for (int i = 0; i < 3; i++) {
        said = output(
            &code,
            "cd %s && for dir in shared alone%d; do " GODWIT_BINARY " run " SMALL " %s "
            "--checkpoint-every off --fresh --listen 127.0.0.1:0 --dir $dir >out%d 2>&1 || exit 1; done && "
            "sed -n 's/.*job id: //p' out%d | tr -d '\\n'",
            l->dir, i, order[i], i, i);
        cr_assert(code == 0 && strlen(said) == 8, "%s", said);
        strcpy(ids[i], said);
        said = output(&code,
                      "cd %s && mkdir s%d a%d && " GODWIT_BINARY
                      " export shared --to s%d/m 2>&1 && " GODWIT_BINARY
                      " export alone%d --to a%d/m 2>&1 && cmp s%d/m a%d/m",
                      l->dir, i, i, i, i, i, i, i);
        cr_expect_eq(code, 0, "%s", said);
        bool took = strstr(said, "took job ") != NULL && strstr(said, ids[i]) != NULL;
        cr_expect_eq(took, i > 0, "%s", said);
    }
    said =
        output(&code, "cd %s && " GODWIT_BINARY " export shared --job %s --to first 2>&1 && cmp first a0/m",
               l->dir, ids[0]);
    cr_expect(code == 0 && strstr(said, "took") == NULL, "%s", said);
    said = output(&code, "cd %s && " GODWIT_BINARY " export shared --job %.7sx 2>&1", l->dir, ids[0]);
    cr_expect(code == 2 && strstr(said, "cannot be the beginning of a job's id") != NULL, "%s", said);
    said =
        output(&code, "cd %s && " GODWIT_BINARY " generate shared --job %s%s 2>&1", l->dir, ids[0], ids[1]);
    cr_expect(code == 2 && strstr(said, "no checkpoint of a gpt job whose id begins with") != NULL, "%s",
              said);
#define BEGIN "cd %s && " GODWIT_BINARY " run " SMALL " --updates 1 --listen 127.0.0.1:0 --dir %s --init "
    said = output(&code, BEGIN "shared 2>&1 | grep 'begins with the weights of --init'", l->dir, "doubt");
    cr_expect(strstr(said, "shared@") != NULL && strstr(said, ids[2]) != NULL &&
                  strstr(said, ":2, of the job that was saved last") != NULL,
              "%s", said);
    said = output(&code, BEGIN "alone1@2,shared 2>&1", l->dir, "list");
    cr_expect(code == 2 && strstr(said, "behind the last of them: alone1,shared@2") != NULL, "%s", said);
    said = output(&code, BEGIN "shared@%s: >one 2>&1 && tail -n 1 one", l->dir, "one.d", ids[1]);
    cr_expect_eq(code, 0, "%s", said);
    said = output(&code, BEGIN "alone1 >two 2>&1", l->dir, "two.d");
    cr_expect_eq(code, 0, "%s", said);
    said = output(&code,
                  "cd %s && mkdir e1 e2 && " GODWIT_BINARY " export one.d --to e1/m && " GODWIT_BINARY
                  " export two.d --to e2/m && cmp e1/m e2/m",
                  l->dir);
    cr_expect_eq(code, 0, "%s", said);
    lab_close(l);
}

Test(gpt, of_several_jobs_that_which_was_saved_last_is_taken) {
    static const char *const orders[2][3] = {
        {"--updates 4", "--updates 4 --lr 0.01", "--updates 2 --lr 0.02"},
        {"--updates 4 --lr 0.01", "--updates 4", "--updates 2 --lr 0.02"}};
    run_three(orders[0]);
    run_three(orders[1]);
}

/* The weights would be lost under the configuration; another model's configuration under this one's. */
Test(gpt, an_export_overwrites_nothing_of_another_kind) {
    lab *l = lab_open();
    lab_undisturbed(l, SMALL " --updates 1");
    const char *dir = l->peers[0].dir;
    int code;
#define EXPORT "cd %s && " GODWIT_BINARY " export %s --to "
    const char *said = output(&code, EXPORT "./config.json 2>&1", l->dir, dir);
    cr_expect(code == 2 && strstr(said, "--to: ./config.json is written beside the weights") != NULL,
              "%d: %s", code, said);
    static const char *const others[] = {"{\"model_type\":\"llama\"}", "{}", "no JSON"};
    for (int i = 0; i < 3; i++) {
        output(&code, "mkdir -p %s/hf; printf '%%s' '%s' | tee %s/hf/config.json", l->dir, others[i], l->dir);
        said = output(&code, EXPORT "hf/model 2>&1", l->dir, dir);
        cr_expect(code == 1 &&
                      strstr(said, "hf/config.json exists and is none that this command wrote") != NULL,
                  "%d: %s", code, said);
        said = output(&code, "cat %s/hf/*", l->dir);
        cr_expect_str_eq(said, others[i]);
    }
    output(&code, "rm %s/hf/config.json", l->dir);
    for (int i = 0; i < 2; i++) { /* the second time there is its own */
        said = output(&code, EXPORT "hf/model 2>&1", l->dir, dir);
        cr_expect_eq(code, 0, "%s", said);
    }
    lab_close(l);
}

Test(gpt, an_export_without_its_configuration_leaves_the_older_weights) {
    lab *l = lab_open();
    lab_undisturbed(l, SMALL " --updates 1");
    int code;
    output(&code, "cd %s && mkdir -p hf/config.json && echo old > hf/model", l->dir);
    const char *said = output(&code, EXPORT "hf/model 2>&1", l->dir, l->peers[0].dir);
    cr_expect(code == 1 && strstr(said, "hf/config.json is there and is not a regular file") != NULL,
              "%d: %s", code, said);
    said = output(&code, "cd %s/hf && ls && cat model", l->dir);
    cr_expect_str_eq(said, "config.json\nmodel\nold\n");
    lab_close(l);
}

/* An identity has one digest of all files of data: which of them differs is told by the command of the
 * other job. */
Test(gpt, whose_data_differ_is_told_of_the_files) {
    lab *l = lab_open();
    int code;
#define BESIDE                                                                                               \
    "cd %s && " GODWIT_BINARY " run gpt --layers 1 --heads 1 --channels 8 --context 8 --batch-tokens 64 "    \
    "--micro-batch 8 --updates 1 --listen 127.0.0.1:0 --dir d "
    output(&code, "cp " GODWIT_SOURCE "/README.md %s/it\\'s && cp " GODWIT_SOURCE "/LICENSE %s/other", l->dir,
           l->dir);
    cr_assert_eq(code, 0);
    const char *said = output(&code, BESIDE "--data it\\'s --val=it\\'s 2>&1", l->dir);
    cr_assert_eq(code, 0, "%s", said);
    said = output(&code, BESIDE "--data it\\'s 2>&1", l->dir);
    cr_expect(code == 2 && strstr(said, "another job (it has --val, here it is not given)") != NULL, "%s",
              said);
    said = output(&code, BESIDE "--data other --val it\\'s 2>&1", l->dir);
    cr_expect(code == 2 &&
                  strstr(said, "(the data differ; its command has --data 'it'\\''s' '--val=it'\\''s')") !=
                      NULL,
              "%s", said);
    lab_close(l);
}

Test(gpt, generates_the_same_text_by_the_same_seed) {
    lab *l = lab_open();
    lab_undisturbed(l, GPT " --updates 3");
    int code;
#define GENERATE "cd %s && " GODWIT_BINARY " generate %s --prompt abc --tokens 100 "
    const char *dir = l->peers[0].dir, *one = output(&code, GENERATE "--seed 1", l->dir, dir);
    cr_expect_eq(code, 0);
    cr_expect_eq(strncmp(one, "abc", 3), 0);
    const char *again = output(&code, GENERATE "--seed 1 | cat", l->dir, dir);
    cr_expect_arr_eq(one, again, 104);
    const char *other = output(&code, GENERATE "--seed 2", l->dir, dir);
    cr_expect_neq(memcmp(one, other, 104), 0);
    output(&code, GENERATE "--temperature x 2>/dev/null", l->dir, dir);
    cr_expect_eq(code, 2);
    const char *said;
    output(&code, GODWIT_BINARY " inspect %s | grep -F val_loss", dir);
    cr_expect_eq(code, 1, "nobody computed it");
    /* What was exported is the same model. */
    output(&code,
           "cd %s && mkdir hf && " GODWIT_BINARY " export --to hf %s | grep -x 'beside it: config.json'",
           l->dir, dir);
    cr_expect_eq(code, 0);
    one = output(&code, GENERATE "--seed 1", l->dir, dir);
    const char *folder = output(&code, GENERATE "--seed 1", l->dir, "hf");
    cr_expect(code == 0 && memcmp(folder, one, 104) == 0);
    const char *file = output(&code, GENERATE "--seed 1", l->dir, "hf/model.safetensors");
    cr_expect(code == 0 && strcmp(file, one) == 0);
    said = output(&code, "cd %s && " GODWIT_BINARY " run " SMALL " --dir hf 2>&1", l->dir);
    cr_expect(code == 2 && strstr(said, "--dir: hf holds a model in files") != NULL, "%s", said);
    /* An earlier build has let a peer run there. */
    said = output(&code, "cd %s && cp -r %s hf/godwit-data && " GODWIT_BINARY " export hf --to again/ 2>&1",
                  l->dir, dir);
    cr_expect(code == 0 && strstr(said, "the checkpoints in hf/godwit-data\n") != NULL, "%s", said);
    said = output(&code, "cd %s && " GODWIT_BINARY " generate hf --tokens 1 2>&1 >generated", l->dir);
    cr_expect(code == 0 &&
                  strstr(said, "took the model in hf; there are checkpoints in hf/godwit-data") != NULL,
              "%s", said);
    const char *wrong = output(&code, "cd %s && " GODWIT_BINARY " generate hf --step 1 2>&1", l->dir);
    cr_expect(code == 2 && strstr(wrong, "hf holds a model, not checkpoints") != NULL, "%s", wrong);
    wrong =
        output(&code,
               "cd %s && sed -i 's/\"n_layer\": [0-9]*/\"n_layer\": 5000/' hf/config.json && " GODWIT_BINARY
               " generate hf 2>&1",
               l->dir);
    cr_expect(code == 2 && strstr(wrong, "--layers: '5000' is not a whole number") != NULL, "%s", wrong);
    said = output(&code, GODWIT_BINARY " generate %s@7 --tokens 1 2>&1", dir);
    cr_expect(code == 2 && strstr(said, "there is no checkpoint of step 7;") != NULL, "%s", said);
    said = output(&code, GODWIT_BINARY " generate %s@2 --step 1 2>&1", dir);
    cr_expect(code == 2 && strstr(said, "give a step and a job once") != NULL, "%s", said);
    lab_close(l);
}

/* A young model draws any bytes, which would steer a terminal. A file gets them as they are. */
Test(gpt, a_terminal_gets_no_control_characters) {
    lab *l = lab_open();
    lab_undisturbed(l, SMALL " --updates 1");
    int code;
#define WILD GODWIT_BINARY " generate . --prompt \"$P\" --tokens 300 --temperature 9"
    const char *said = output(&code,
                              "cd %s && export P=\"$(printf 'a\\033[2J\\303\\244\\tb')\" && " WILD
                              " >../file && script -qec '" WILD " 2>&1' /dev/null </dev/null",
                              l->peers[0].dir);
    cr_assert_eq(code, 0, "%s", said);
    cr_expect_eq(strncmp(said, "a?[2J\303\244\tb", 9), 0, "%s", said);
    size_t wrong, characters = 0;
    bool control;
    for (const char *at = said; *at != '\0'; at++, characters++) {
        if (*at == '\n' || *at == '\r' || *at == '\t') continue;
        char one[5] = {*at};
        for (int i = 1; i < 4 && ((unsigned char)at[1] & 0xc0) == 0x80; i++) one[i] = *++at;
        cr_expect(gw_utf8_is_printable(one, &wrong, &control), "byte %zu", characters);
    }
    cr_expect_gt(characters, 100);
    output(&code, "cd %s && grep -q '\33' file", l->dir);
    cr_expect_eq(code, 0);
    lab_close(l);
}

/* A model that has learned little says one byte for ever. What one of large random weights says depends on
 * every token that it sees, and on where that stands. */
static void write_random_model(const gw_gpt *gpt, const char *path) {
    float *values = malloc(gw_gpt_size(gpt) * sizeof *values), *next = values;
    const float *parameters[GW_GPT_PARAMETERS];
    gw_rng rng = gw_rng_seeded(1);
    cr_assert_not_null(values);
    for (uint32_t i = 0; i < gw_gpt_parameters(gpt); i++) {
        gw_gpt_parameter p = gw_gpt_parameter_of(gpt, i);
        uint64_t elements = p.dim[0] * (p.rank == 2 ? p.dim[1] : 1);
        parameters[i] = next;
        for (uint64_t k = 0; k < elements; k++)
            *next++ = p.constant + (float)gw_rng_below(&rng, 2001) * 0x1p-10f - 1000 * 0x1p-10f;
    }
    gw_err err;
    cr_assert(write_gpt_weights(gpt, parameters, path, &err), "%s", err.text);
    free(values);
}

/* That each byte behind the prompt is the likeliest after those that the model may have seen then: since it
 * began, or began anew with half of the context when that was full. The same sum in another order is another
 * sum. */
static void check_likeliest(const gw_model *model, const char *text, size_t prompt, size_t count) {
    const uint32_t context = model->gpt.context;
    uint32_t tokens[GW_GPT_FEED];
    gw_gpt_decoder decoder;
    gw_err err;
    cr_assert(gw_gpt_decoder_open(&model->gpt, (const float *const *)model->parameters, &decoder, &err), "%s",
              err.text);
    size_t first = prompt > context ? prompt - context : 0;
    const uint32_t bytes = model->gpt.vocabulary < 256 ? model->gpt.vocabulary : 256;
    for (size_t at = prompt; at < count; at++) {
        if (at - first > context) first = at - (context + 1) / 2;
        for (size_t i = first; i < at; i++) tokens[i - first] = (unsigned char)text[i];
        decoder.position = 0;
        const float *logits = gw_gpt_decoder_feed(&decoder, tokens, (uint32_t)(at - first));
        float most = logits[0];
        for (uint32_t v = 1; v < bytes; v++)
            if (logits[v] > most) most = logits[v];
        cr_expect_geq(logits[(unsigned char)text[at]], most - 1e-3f, "byte %zu", at);
    }
    gw_gpt_decoder_close(&decoder);
}

/* A run that begins with random weights and leaves them as they are; its directory, and the model there. */
static char *take_random_model(lab *l, const gw_gpt *gpt, const char *shape, gw_model *model) {
    const gw_checkpoint_choice choice = {.step = GW_CHECKPOINT_NEWEST};
    char path[LAB_PATH + 20], args[2 * LAB_PATH];
    gw_err err;
    snprintf(path, sizeof path, "%s/random", l->dir);
    write_random_model(gpt, path);
    snprintf(args, sizeof args,
             "gpt --data " GODWIT_BINARY " --context 31 --batch-tokens 31 --workers 1 --updates 1 --lr 0 %s "
             "--init %s",
             shape, path);
    lab_undisturbed(l, args);
    char *dir = l->peers[0].dir;
    cr_assert(gw_model_load(&dir, 1, &choice, NULL, model, &err), "%s", err.text);
    return dir;
}

Test(gpt, goes_on_beyond_the_context_from_the_end_of_the_text) {
    lab *l = lab_open();
    const gw_gpt gpt = {.layers = 2, .heads = 4, .channels = 32, .context = 31, .vocabulary = 256};
    static const char *const prompts[] = {"abc", "This prompt does not fit into the context of the model."};
    gw_model model;
    char *dir = take_random_model(l, &gpt, "--layers 2 --heads 4 --channels 32 --micro-batch 1", &model);
    for (int i = 0; i < 2; i++) {
        int code;
        const char *text =
            output(&code, "cd %s && " GODWIT_BINARY " generate %s --temperature 0 --tokens 100 --prompt '%s'",
                   l->dir, dir, prompts[i]);
        size_t length = strlen(prompts[i]);
        cr_assert(code == 0 && strncmp(text, prompts[i], length) == 0);
        check_likeliest(&model, text, length, length + 100);
    }
    gw_model_free(&model);
    lab_close(l);
}

/* A model that often finds one of those behind the bytes the likeliest: it says the likeliest byte, whatever
 * would have become of the other. */
Test(gpt, a_byte_model_of_more_tokens_writes_bytes) {
    lab *l = lab_open();
    const gw_gpt gpt = {.layers = 1, .heads = 2, .channels = 16, .context = 31, .vocabulary = 600};
    gw_model model;
    char *dir = take_random_model(l, &gpt, "--layers 1 --heads 2 --channels 16 --vocab 600", &model);
    static const char *const ways[] = {"--temperature 0", "--temperature 1 --top-k 1"};
    for (int i = 0; i < 2; i++) {
        int code;
        const char *text = output(
            &code, "cd %s && " GODWIT_BINARY " generate %s --bytes --tokens 100 --prompt 'I am' %s 2>&1",
            l->dir, dir, ways[i]);
        cr_assert(code == 0 && strncmp(text, "I am", 4) == 0, "%s", text);
        check_likeliest(&model, text, 4, 104);
    }
    gw_model_free(&model);
    lab_close(l);
}

Test(gpt, tokens_that_may_be_no_bytes_need_a_tokenizer) {
    lab *l = lab_open();
    lab_undisturbed(l, GPT " --updates 1 --vocab 300");
    int code;
    const char *said = output(&code, GODWIT_BINARY " generate %s 2>&1", l->peers[0].dir);
    cr_expect_eq(code, 2);
    cr_expect_not_null(
        strstr(said, "the model has 300 tokens, more than there are bytes: give --tokenizer, or --bytes if"),
        "%s", said);
    said = output(&code, GODWIT_BINARY " generate %s --bytes --tokenizer %s 2>&1", l->peers[0].dir, l->dir);
    cr_expect(code == 2 && strstr(said, "--bytes and --tokenizer exclude each other") != NULL, "%s", said);
    said = output(&code, GODWIT_BINARY " generate %s --tokenizer %s 2>&1", l->peers[0].dir, l->dir);
    cr_expect_eq(code, 2);
    cr_expect_not_null(strstr(said, "/vocab.json"), "%s", said);
    lab_close(l);
}

/* Weights alone, from the parts that the peers hold: as from the exported file. */
Test(gpt, begins_with_the_weights_of_a_checkpoint) {
    lab *l = lab_open();
    lab_peer *peers[2];
    lab_flock(l, 2, GPT " --updates 3 --replicas 1", peers);
    for (int i = 0; i < 2; i++) lab_state(l, peers[i], "done");
    int code;
    const char *said = output(
        &code, "cd %s && mkdir hf && " GODWIT_BINARY " export --to hf/model.safetensors p0 p1", l->dir);
    cr_assert_eq(code, 0, "%s", said);
    char args[2 * LAB_PATH], hash[4][100];
    static const char *const names[] = {"file", "dirs", "folder", "shapeless"};
    static const char *const forms[] = {
        GPT " --updates 2 --init %s/hf/model.safetensors", GPT " --updates 2 --init %s/p0,%s/p1",
        /* a folder with a config.json gives the shape as well */
        "gpt --data " GODWIT_BINARY
        " --batch-tokens 768 --micro-batch 2 --workers 1 --updates 2 --init %s/hf",
        /* and so does a checkpoint */
        "gpt --data " GODWIT_BINARY
        " --batch-tokens 768 --micro-batch 2 --workers 1 --updates 2 --init %s/p0,%s/p1@3"};
    for (int i = 0; i < 4; i++) {
        snprintf(args, sizeof args, forms[i], l->dir, l->dir);
        lab_peer *peer = lab_start(l, names[i], NULL, args);
        strcpy(hash[i], lab_state(l, peer, "done"));
    }
    cr_assert_str_eq(hash[0], hash[1]);
    cr_assert_str_eq(hash[0], hash[2]);
    cr_assert_str_eq(hash[0], hash[3]);
    said = output(&code, "ls %s/dirs | grep safetensors", l->dir);
    cr_assert_eq(code, 1, "%s", said);
#define RUN "cd %s && " GODWIT_BINARY " run " GPT " --dir dirs --listen 127.0.0.1:0 --init "
    said = output(&code, RUN "dirs 2>&1", l->dir);
    cr_assert(code == 2 && strstr(said, "own --dir") != NULL, "%s", said);
    said = output(&code, RUN ". 2>&1", l->dir);
    cr_assert(code == 2 && strstr(said, "--init: . holds no checkpoint of a gpt job") != NULL, "%s", said);
    said = output(&code, RUN ". --schedule cosin 2>&1", l->dir);
    cr_assert(code == 2 && strstr(said, "--schedule: 'cosin' is not one of") != NULL, "%s", said);
    said = output(&code, RUN "p0,p2 --updates 1 2>&1", l->dir);
    cr_assert(code == 2 && strstr(said, "--init: p2: No such file or directory") != NULL, "%s", said);
    said = output(&code, "cd %s && " GODWIT_BINARY " export p2 2>&1", l->dir);
    cr_assert(code == 2 && strstr(said, "export: p2: No such file or directory") != NULL, "%s", said);
    said = output(&code, "cd %s && " GODWIT_BINARY " generate p0 p2 2>&1", l->dir);
    cr_assert(code == 2 && strstr(said, "generate: p2: No such file or directory") != NULL, "%s", said);
    said = output(&code, RUN "p0,p1 --channels 64 2>&1", l->dir);
    cr_assert(code == 2 && strstr(said, "is 256x128, and this model's is 256x64") != NULL, "%s", said);
    said = output(&code, RUN "p0,p1 --heads 2 --updates 1 2>&1", l->dir);
    cr_assert(code == 2 && strstr(said, "its model has 4 heads, and this job 2") != NULL, "%s", said);
    said = output(&code, RUN "p0,p1 --layers 1 --updates 1 2>&1", l->dir);
    cr_assert(code == 2 &&
                  strstr(said, "has 2 layers, and this model 1; its weights are of --layers 2") != NULL,
              "%s", said);
    lab_close(l);
}

/* The run that the weights are of goes on meanwhile. */
Test(gpt, who_named_the_checkpoint_to_begin_with_may_start_again) {
    lab *l = lab_open();
    static const gw_hash one = {{1}};
    char args[2 * LAB_PATH], dir[LAB_PATH + 8];
    static const char *const names[] = {"p0", "later"};
    for (int i = 0; i < 2; i++) {
        int code;
        const char *said = output(&code,
                                  "cd %s && " GODWIT_BINARY " run " SMALL " --updates %d "
                                  "--checkpoint-every off --dir %s --listen 127.0.0.1:0 2>&1",
                                  l->dir, i == 0 ? 3 : 6, names[i]);
        cr_assert_eq(code, 0, "%s", said);
        snprintf(dir, sizeof dir, "%s/%s", l->dir, names[i]);
        change_manifests(dir, 1, set_job, &one);
    }
    snprintf(args, sizeof args, SMALL " --updates 1000000 --checkpoint-every 2 --init %s/p0@3", l->dir);
    lab_peer *peer = lab_start(l, "b", NULL, args);
    lab_wait_event(l, peer, "checkpoint");
    lab_kill(l, peer);
    const char *taken = lab_logged(peer, "p0@");
    cr_assert(taken != NULL && strcmp(taken + strlen(taken) - 2, ":3") == 0, "%s", taken);
    int code;
    output(&code, "cd %s && cp -r later/chunks later/manifests p0", l->dir);
    cr_assert_eq(code, 0);
    peer = lab_start(l, "b", NULL, args);
    lab_wait_step(l, peer, 3);
    cr_expect_geq(lab_number(lab_last(peer, "resumed"), "step"), 2);
    lab_kill(l, peer);
    taken = strstr(lab_logged(peer, "p0@"), "--init ") + strlen("--init ");
    snprintf(args, sizeof args, SMALL " --updates 1000000 --init %s", taken);
    peer = lab_start(l, "b", NULL, args);
    lab_wait_step(l, peer, 3);
    cr_expect_geq(lab_number(lab_last(peer, "resumed"), "step"), 2);
    lab_close(l);
}

/* The weights are larger than a file may be, and a chunk of a checkpoint is smaller: as on a full disk. */
Test(gpt, who_begins_with_weights_writes_none_of_them) {
    lab *l = lab_open();
#define LARGE                                                                                                \
    "gpt --data " GODWIT_BINARY " --layers 2 --heads 1 --channels 256 --context 8 --batch-tokens 64 "        \
    "--micro-batch 8 --workers 1"
    lab_undisturbed(l, LARGE " --updates 1");
    char args[2 * LAB_PATH];
    snprintf(args, sizeof args, LARGE " --updates 1000000 --checkpoint-every 1 --init %s", l->peers[0].dir);
    lab_peer *peer = lab_start(l, "b", NULL, args);
    lab_wait_event(l, peer, "checkpoint");
    lab_kill(l, peer);
    struct rlimit limit;
    cr_assert_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = 5 << 20;
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    peer = lab_start(l, "b", NULL, args);
    lab_wait_step(l, peer, 3);
    cr_expect_geq(lab_number(lab_last(peer, "resumed"), "step"), 1);
    lab_close(l);
}

/* Before anything of it is taken; and what to do about it is what this job can. */
Test(gpt, what_will_not_fit_into_memory_is_refused) {
    lab *l = lab_open();
    static const struct {
        const char *args, *advice;
    } cases[] = {
        {"--model gpt2 --micro-batch 4 --workers 512",
         "Take fewer --workers or --recompute or a smaller --micro-batch\n"},
        {"--model gpt2 --micro-batch 32 --workers 512 --recompute",
         "Take fewer --workers or a smaller --micro-batch\n"},
        {"--layers 80 --channels 256 --context 1024 --micro-batch 1000 --workers 1",
         "Take --recompute or a smaller --micro-batch\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int code;
        const char *said = output(
            &code, "cd %s && " GODWIT_BINARY " run gpt --data " GODWIT_BINARY " %s --listen 127.0.0.1:0 2>&1",
            l->dir, cases[i].args);
        cr_expect_eq(code, 1, "%s", said);
        cr_expect_not_null(strstr(said, cases[i].advice), "%s", said);
    }
    lab_close(l);
}

/* Each takes a descriptor, and the usual soft limit is for programs that call select(). */
Test(gpt, more_files_than_the_soft_limit_of_descriptors) {
    lab *l = lab_open();
    struct rlimit limit;
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = 64;
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    char args[LAB_PATH];
    for (int i = 0; i < 100; i++) {
        snprintf(args, sizeof args, "%.400s/%d.txt", l->dir, i);
        FILE *file = fopen(args, "w");
        cr_assert_not_null(file);
        fprintf(file, "This is file %d.", i);
        cr_assert_eq(fclose(file), 0);
    }
    snprintf(args, sizeof args,
             "gpt --data %.400s/*.txt --layers 1 --heads 1 --channels 32 --context 8 --batch-tokens 256 "
             "--updates 1 --workers 1",
             l->dir);
    lab_undisturbed(l, args);
    lab_close(l);
}

/* As on a full disk. */
Test(gpt, an_export_beyond_a_file_size_limit_fails_and_leaves_nothing) {
    lab *l = lab_open();
    lab_undisturbed(l, GPT " --updates 1");
    int code;
    const char *said =
        output(&code, "cd %s && ulimit -f 100 && " GODWIT_BINARY " export %s 2>&1", l->dir, l->peers[0].dir);
    cr_expect_eq(code, 1, "%d: %s", code, said);
    cr_expect_not_null(strstr(said, "cannot write model.safetensors: File too large"), "%s", said);
    said = output(&code, "ls %s | grep -e safetensors -e config", l->dir);
    cr_expect_str_empty(said);
    lab_close(l);
}

static void set_dropout(gw_manifest *manifest, const void *value) {
    static gw_param params[GW_MAX_PARAMS];
    for (uint32_t i = 0; i < manifest->param_count; i++) {
        params[i] = manifest->params[i];
        if (strcmp(params[i].name, "dropout") == 0) params[i].value = value;
    }
    manifest->params = params;
}

/* Who may write to a directory can make a manifest that fits: no reason to end by an abort. */
Test(gpt, a_manifest_with_nonsense_in_it_is_refused) {
    lab *l = lab_open();
    lab_undisturbed(l, SMALL " --updates 1");
    static const char *const values[] = {"nan", "inf", "-1", "x"};
    for (int i = 0; i < 4; i++) {
        int code;
        change_manifests(l->peers[0].dir, 1, set_dropout, values[i]);
        const char *said =
            output(&code, "cd %s && " GODWIT_BINARY " export %s 2>&1", l->dir, l->peers[0].dir);
        cr_expect_eq(code, 1, "%s", said);
        cr_expect_not_null(strstr(said, "is not a share from 0 to 1"), "%s", said);
    }
    lab_close(l);
}

static void write_array(const char *dir, const char *name, const void *values, size_t bytes) {
    char path[2 * LAB_PATH];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *file = fopen(path, "wb");
    cr_assert_not_null(file);
    cr_assert_eq(fwrite(values, 1, bytes, file), bytes);
    fclose(file);
}

/* Our logits of a window that the model has not seen, a row a token. */
static void write_logits(const char *dir, char *state) {
    const gw_checkpoint_choice choice = {.step = GW_CHECKPOINT_NEWEST};
    gw_model model;
    gw_gpt_decoder decoder;
    gw_err err;
    cr_assert(gw_model_load(&state, 1, &choice, NULL, &model, &err), "%s", err.text);
    cr_assert(gw_gpt_decoder_open(&model.gpt, (const float *const *)model.parameters, &decoder, &err), "%s",
              err.text);
    size_t row = model.gpt.vocabulary, rows = model.gpt.context;
    float *logits = malloc(rows * row * sizeof *logits);
    uint32_t *tokens = malloc(rows * sizeof *tokens);
    for (uint32_t i = 0; i < rows; i++) {
        tokens[i] = i * i * 31 % 256;
        memcpy(logits + i * row, gw_gpt_decoder_feed(&decoder, &tokens[i], 1), row * sizeof *logits);
    }
    write_array(dir, "tokens", tokens, rows * sizeof *tokens);
    write_array(dir, "logits", logits, rows * row * sizeof *logits);
    free(tokens);
    free(logits);
    gw_gpt_decoder_close(&decoder);
    gw_model_free(&model);
}

/* A Python with torch and transformers; or the test is skipped. */
static const char *need_transformers(void) {
    const char *python = getenv("GODWIT_TEST_PYTHON");
    if (python == NULL) python = "python3";
    int code;
    output(
        &code,
        "%s -c 'from importlib.util import find_spec as f; assert f(\"torch\") and f(\"transformers\")' 2>&1",
        python);
    if (code != 0)
        cr_skip_test("%s lacks torch and transformers; GODWIT_TEST_PYTHON may name one that has them",
                     python);
    return python;
}

#define TRANSFORMERS "%s " GODWIT_SOURCE "/tests/cluster/transformers_logits.py "

/* One exports a model, and the other begins with it: both compute the same logits. */
Test(gpt, transformers_loads_what_is_exported_and_what_it_saves_is_trained_on) {
    const char *python = need_transformers();
    char ours[LAB_PATH + 10], theirs[LAB_PATH + 10], args[2 * LAB_PATH + 300];
    int code;
    lab *l = lab_open();
    snprintf(ours, sizeof ours, "%s/ours", l->dir);
    snprintf(theirs, sizeof theirs, "%s/theirs", l->dir);
    lab_undisturbed(l, GPT " --updates 30 --lr 0.01");
    const char *said = output(&code, "mkdir %s && " GODWIT_BINARY " export %s --to %s/model.safetensors 2>&1",
                              ours, l->peers[0].dir, ours);
    cr_assert_eq(code, 0, "%s", said);
    write_logits(ours, l->peers[0].dir);
    said = output(&code, TRANSFORMERS "make %s 256 32 128 2 4", python, theirs);
    cr_assert_eq(code, 0, "%s", said);
    snprintf(args, sizeof args, GPT " --updates 1 --lr 0 --init %s/model.safetensors", theirs);
    lab_peer *peer = lab_launch(l, "begun", NULL, NULL, args);
    lab_state(l, peer, "done");
    write_logits(theirs, peer->dir);
    said = output(&code, TRANSFORMERS "compare %s %s 2>/dev/null", python, ours, theirs);
    double of_ours = 0, of_theirs = 0;
    cr_assert(code == 0 && sscanf(said, "%lf %lf", &of_ours, &of_theirs) == 2, "%s", said);
    cr_expect(of_ours > 0 && of_ours < 1e-4, "%s", said);
    cr_expect(of_theirs > 0 && of_theirs < 1e-4, "%s", said);
    lab_close(l);
}
