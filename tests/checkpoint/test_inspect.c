/* `godwit inspect` as a person runs it: the real program on real directories. */
#include "checkpoint/catalog.h"

#include "tests/checkpoint/fixture.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[256], output[20000];
static gw_err err;
static fixture_image *image;

static void save(gw_manifest manifest) {
    void *bytes;
    size_t length;
    cr_assert(gw_manifest_seal(&manifest, &err), "%s", err.text);
    cr_assert(gw_manifest_encode(&manifest, &bytes, &length, &err), "%s", err.text);
    cr_assert(gw_catalog_save(gw_io_system(), folder, bytes, length, &err), "%s", err.text);
    free(bytes);
}

static void make_checkpoint(fixture_image *of) {
    gw_store *store;
    cr_assert(gw_store_open(folder, GW_STORE_WRITE, NULL, &store, &err), "%s", err.text);
    gw_store_item items[FIXTURE_CHUNKS];
    for (uint32_t i = 0; i < FIXTURE_CHUNKS; i++)
        items[i] = (gw_store_item){.name = of->chunks[i],
                                   .bytes = of->bytes + gw_chunk_offset(i),
                                   .length = gw_chunk_length(FIXTURE_STATE_BYTES, i)};
    cr_assert(gw_store_put(store, 1, items, FIXTURE_CHUNKS, &err), "%s", err.text);
    gw_store_close(store);
    save(of->manifest);
}

static void setup(void) {
    fixture_folder(folder);
    image = fixture_image_make(20);
    fixture_image *older = fixture_image_make(10);
    make_checkpoint(older);
    make_checkpoint(image);
    fixture_image_free(older);
}
static void teardown(void) {
    fixture_image_free(image);
    fixture_remove(folder);
}
TestSuite(inspect, .init = setup, .fini = teardown);

static void manifest_path(char path[512]) {
    char name[GW_CATALOG_NAME_BYTES];
    gw_catalog_name(&image->manifest.job_id, 20, &image->manifest.root, name);
    snprintf(path, 512, "%s/manifests/%s", folder, name);
}

/* Runs the program, with both its outputs in `output`; returns the exit code. */
static int inspect(const char *first, const char *second) {
    int ends[2];
    cr_assert_eq(pipe(ends), 0);
    pid_t child = fork();
    cr_assert_geq(child, 0);
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        execl(GODWIT_BINARY, "godwit", "inspect", first, second, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    size_t used = 0;
    for (ssize_t count; (count = read(ends[0], output + used, sizeof output - 1 - used)) > 0;)
        used += (size_t)count;
    output[used] = '\0';
    close(ends[0]);
    int status;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status), "%s", output);
    return WEXITSTATUS(status);
}

static void expect(const char *text) {
    cr_assert_not_null(strstr(output, text), "'%s' in\n%s", text, output);
}

/* Deletes a chunk's file. */
static void lose_chunk(uint32_t index) {
    char path[512];
    fixture_chunk_path(folder, &image->chunks[index], path);
    cr_assert_eq(unlink(path), 0);
}

Test(inspect, a_directory_shows_its_checkpoints_and_the_newest) {
    cr_assert_eq(inspect(folder, NULL), 0, "%s", output);
    char root[GW_HASH_TEXT];
    gw_hex(image->manifest.root.bytes, 32, root);
    expect("2 checkpoints");
    expect(" 07000000 ");
    expect(root);
    expect("step         20");
    expect("lr=0.1");
    expect("3 held, 0 missing, 0 damaged");
    expect("3/3");
    cr_expect_null(strstr(output, "1024x1024"), "%s", output);
    cr_assert_eq(inspect(folder, "--tensors"), 0, "%s", output);
    expect("1024x1024");
}

Test(inspect, tables_fit_a_terminal) {
    lose_chunk(0);
    cr_assert_eq(inspect(folder, "--tensors"), 0, "%s", output);
    char *rest = strchr(output, '\n') + 1; /* the first line holds the directory's name */
    for (char *line = strtok(rest, "\n"); line != NULL; line = strtok(NULL, "\n"))
        cr_assert_leq(strlen(line), 80, "%s", line);
}

/* The number of characters in a line before the given text. */
static size_t column_of(const char *text) {
    const char *at = strstr(output, text), *line = at;
    cr_assert_not_null(at, "'%s' in\n%s", text, output);
    while (line > output && line[-1] != '\n') line--;
    size_t column = 0;
    for (; line < at; line++) column += ((unsigned char)*line & 0xc0) != 0x80;
    return column;
}

/* A name is shown whole, as what does not fit could be what tells it from others. */
Test(inspect, long_names_of_any_script_stay_in_their_column) {
    char long_name[GW_MAX_TENSOR_NAME + 1] = "";
    while (strlen(long_name) + 2 < sizeof long_name) strcat(long_name, "\xc3\xa9");
    gw_tensor tensors[FIXTURE_TENSORS];
    memcpy(tensors, fixture_tensors, sizeof tensors);
    tensors[0].name = long_name;
    tensors[1].name = "\xcf\x89 of block 1";
    gw_manifest manifest = image->manifest;
    manifest.tensors = tensors;
    manifest.step = 30;
    save(manifest);
    cr_assert_eq(inspect(folder, "--tensors"), 0, "%s", output);
    char expected[GW_MAX_TENSOR_NAME + 20];
    snprintf(expected, sizeof expected, "\n  %s f32  1024x1024 ", long_name);
    expect(expected);
    expect("\n  \xcf\x89 of block 1 ");
    cr_expect_eq(column_of("u8   1000 "), column_of("f32  1024x1024 "));
}

static json_t *inspect_json(const char *path, int code) {
    cr_assert_eq(inspect(path, "--json"), code, "%s", output);
    json_error_t why;
    json_t *object = json_loads(output, JSON_DISABLE_EOF_CHECK, &why); /* another word may follow */
    cr_assert_not_null(object, "%s in\n%s", why.text, output);
    return object;
}

static double norm_of(const json_t *object, size_t tensor) {
    return json_number_value(
        json_object_get(json_array_get(json_object_get(object, "tensors"), tensor), "norm"));
}

Test(inspect, norms_are_those_of_the_tensors) {
    char path[512];
    manifest_path(path);
    json_t *object = inspect_json(path, 0);
    double expected = 0;
    for (size_t i = 0; i < 1000; i++) {
        double value = image->bytes[2 * (size_t)GW_CHUNK_BYTES + i];
        expected += value * value;
    }
    cr_assert_float_eq(norm_of(object, 2), sqrt(expected), 1e-9);
    expected = 0;
    for (size_t i = 0; i < 1 << 20; i++) {
        float value;
        memcpy(&value, image->bytes + 4 * i, 4);
        expected += (double)value * (double)value;
    }
    cr_assert_float_eq(norm_of(object, 0), sqrt(expected), 1e-9 * sqrt(expected));
    cr_assert_eq(json_integer_value(json_object_get(object, "held")), 3);
    json_decref(object);
}

Test(inspect, missing_and_damaged_chunks_are_named) {
    lose_chunk(1);
    char path[512];
    fixture_chunk_path(folder, &image->chunks[2], path);
    fixture_damage(path);
    cr_assert_eq(inspect(folder, "--tensors"), 1, "%s", output);
    expect("1 held, 1 missing, 1 damaged");
    expect("chunk 1 (");
    expect("is missing");
    expect("chunk 2 (");
    expect("is damaged");
    expect("? 1/1 gone");
    expect(": 1 chunk damaged: ");
    cr_assert_eq(access(path, F_OK), 0, "nothing is quarantined");
    json_t *object = inspect_json(folder, 1);
    json_t *newest = json_object_get(object, "newest");
    cr_assert_eq(json_array_size(json_object_get(newest, "absent")), 2);
    cr_assert(json_is_null(json_object_get(json_array_get(json_object_get(newest, "tensors"), 1), "norm")));
    cr_assert_eq(json_array_size(json_object_get(object, "checkpoints")), 2);
    json_decref(object);
    manifest_path(path);
    cr_assert_eq(inspect(path, NULL), 1, "%s", output);
    expect(": 1 chunk damaged: ");
}

static void expect_before(const char *first, const char *second) {
    const char *one = strstr(output, first), *other = strstr(output, second);
    cr_assert(one != NULL && other != NULL && one < other, "'%s' before '%s' in\n%s", first, second, output);
}

/* Saves another job's checkpoint of the same chunks, with this parameter "parent-step" or without one. */
static void save_other(uint8_t job, uint64_t step, uint64_t created_ms, const char *parent_step) {
    const gw_param params[] = {{"parent", "0700"}, {"parent-step", parent_step}};
    gw_manifest manifest = image->manifest;
    manifest.job_id = (gw_hash){{job}};
    manifest.step = step;
    manifest.created_ms = created_ms;
    manifest.params = params;
    manifest.param_count = parent_step != NULL ? 2 : 0;
    save(manifest);
}

Test(inspect, the_newest_is_of_the_job_that_was_saved_last) {
    uint64_t now = image->manifest.created_ms;
    save_other(8, 5, now + 2000, NULL);
    save_other(8, 6, now + 1000, NULL);
    save_other(9, 5, now - 1, NULL);
    cr_assert_eq(inspect(folder, NULL), 0, "%s", output);
    expect(
        "took job 08000000 (test), which was saved last; choose another with --job: 07000000 (test, step 20, "
        "saved 2023-11-14 22:13:20Z), 09000000 (test, step 5, saved 2023-11-14 22:13:19Z)\n");
    expect("\nstep         6\n");
    expect_before("\n        5 ", "\n       20 ");
    /* the copy of the state that a job goes on from is not saved by it */
    save_other(10, 20, now + 9000, "20");
    cr_assert_eq(inspect(folder, NULL), 0, "%s", output);
    expect("took job 08000000 (test), which was saved last");
    save_other(10, 21, now + 9000, "20");
    cr_assert_eq(inspect(folder, NULL), 0, "%s", output);
    expect("took job 0a000000 (test), which was saved last");
    expect("\nstep         21\n");
    cr_assert_eq(inspect(folder, "--step=5"), 0, "%s", output);
    expect("took job 08000000 (test), which was saved last of those with a checkpoint of step 5; choose "
           "another with --job: 09000000 (test, step 5, saved 2023-11-14 22:13:19Z)\n");
    cr_assert_eq(inspect(folder, "--step=10"), 0, "%s", output);
    expect("took job 07000000 (test), the only one with a checkpoint of step 10\n");
    expect("\nThe chosen one:\n\nstep         10\n");
}

Test(inspect, a_checkpoint_is_chosen_behind_the_directory) {
    char path[512];
    save_other(8, 5, image->manifest.created_ms + 2000, NULL);
    static const struct {
        const char *end;
        int code;
        const char *text;
    } all[] = {{"@10", 0, "\nstep         10\n"},
               {"@07:", 0, "\nstep         20\n"},
               {"@07:10", 0, "\nstep         10\n"},
               {"@08:10", 2, "there is no checkpoint of step 10; there is one of step 5"},
               {"@0:10", 2, "there are checkpoints of 2 jobs whose ids begin with 0: "}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        snprintf(path, sizeof path, "%s%s", folder, all[i].end);
        cr_expect_eq(inspect(path, NULL), all[i].code, "%s", output);
        expect(all[i].text);
    }
    cr_assert_eq(inspect(path, "--job=07"), 2, "%s", output);
    expect("give a step and a job once");
}

/* A tensor of one F64 is a result of the job. */
Test(inspect, results_are_values) {
    static const gw_tensor results[] = {
        {.name = "loss.validation", .dtype = GW_F64, .role = GW_STATE, .rank = 1, .dim = {1}},
        {.name = "rate", .dtype = GW_F64, .role = GW_STATE, .rank = 1, .dim = {1}},
        {.name = "two", .dtype = GW_F64, .role = GW_STATE, .rank = 1, .dim = {2}},
    };
    double values[4] = {-3.25, 0.1, 7, 8};
    gw_hash chunk;
    gw_blake2b(values, sizeof values, chunk.bytes, sizeof chunk.bytes);
    gw_store_item item = {.name = chunk, .bytes = values, .length = sizeof values};
    gw_store *store;
    cr_assert(gw_store_open(folder, GW_STORE_WRITE, NULL, &store, &err), "%s", err.text);
    cr_assert(gw_store_put(store, 30, &item, 1, &err), "%s", err.text);
    gw_store_close(store);
    gw_manifest manifest = image->manifest;
    manifest.step = 30;
    manifest.tensors = results;
    manifest.tensor_count = 3;
    manifest.chunks = &chunk;
    manifest.chunk_count = 1;
    save(manifest);
    cr_assert_eq(inspect(folder, NULL), 0, "%s", output);
    expect("\nresults      val_loss=-3.25  rate=0.1\n"); /* as the report calls it */
    expect("     32 B     1/1  2023-11-14 22:13:20Z\n");
}

/* Each peer holds a part of a checkpoint, which is no fault. */
Test(inspect, missing_chunks_are_no_damage) {
    lose_chunk(0);
    lose_chunk(2);
    cr_assert_eq(inspect(folder, NULL), 0, "%s", output);
    expect("1 held, 2 missing, 0 damaged");
    expect("other peers may hold them");
}

Test(inspect, a_manifest_elsewhere_has_no_chunks) {
    char from[512], to[512];
    manifest_path(from);
    snprintf(to, sizeof to, "%s/loose.manifest", folder);
    cr_assert_eq(rename(from, to), 0);
    cr_assert_eq(inspect(to, NULL), 0, "%s", output);
    expect("0 held, 3 missing, 0 damaged");
}

Test(inspect, damaged_manifests_are_reported_beside_the_others) {
    char path[512];
    manifest_path(path);
    fixture_damage(path);
    cr_assert_eq(inspect(folder, NULL), 1, "%s", output);
    expect("1 checkpoint\n");
    expect("step         10");
    expect(": 1 manifest damaged: ");
    expect(path);
}

Test(inspect, all_damage_is_counted) {
    char path[512], name[GW_CATALOG_NAME_BYTES];
    fixture_image *older = fixture_image_make(10);
    gw_catalog_name(&older->manifest.job_id, 10, &older->manifest.root, name);
    snprintf(path, sizeof path, "%s/manifests/%s", folder, name);
    fixture_damage(path);
    fixture_image_free(older);
    for (uint32_t i = 0; i < 2; i++) {
        fixture_chunk_path(folder, &image->chunks[i], path);
        fixture_damage(path);
    }
    cr_assert_eq(inspect(folder, NULL), 1, "%s", output);
    expect(": 1 manifest and 2 chunks damaged: ");
}

Test(inspect, what_is_wrong_is_said) {
    char path[512];
    manifest_path(path);
    fixture_truncate(path, 150);
    cr_assert_eq(inspect(path, NULL), 1);
    expect("truncated");
    expect(path);
    fixture_truncate(path, 0);
    cr_assert_eq(inspect(path, NULL), 1);
    expect("not a manifest");
    cr_assert_eq(inspect("/nowhere", NULL), 2);
    expect("/nowhere: No such file or directory");
    cr_assert_eq(inspect("/proc/self", NULL), 2);
    expect("holds no checkpoint");
    cr_assert_eq(inspect(GODWIT_BINARY, NULL), 2, "%s", output);
    expect(" is no manifest: give the directory of a peer");
}

Test(inspect, bad_usage_has_its_own_exit_code) {
    cr_assert_eq(inspect(NULL, NULL), 2);
    expect("give the directory of a peer, or a manifest");
    cr_assert_eq(inspect(folder, "another"), 2);
    expect("give one directory or manifest");
    cr_assert_eq(inspect("--nonsense", folder), 2);
    cr_assert_eq(inspect("--help", NULL), 0);
    expect("DIR|MANIFEST");
}
