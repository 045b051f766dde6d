/* Models as Hugging Face's libraries save them: folders, indexes and their files, aliases of tied tensors,
 * and files in such a folder that cannot be read. */
#include "kernels/data/safetensors.h"
#include "scratch.h"
#include "tests/weights_file.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

TestSuite(sharded, .init = scratch_open, .fini = scratch_close);

static const float values[] = {1.0f, 2.0f, 3.0f, 4.0f};

/* Writes a file with one tensor of `count` of the values, from number `first` on. */
static void write_one(const char *file, const char *tensor, uint32_t first, uint32_t count) {
    const gw_safetensor one = {.name = tensor,
                               .dtype = "F32",
                               .rank = 1,
                               .dim = {count},
                               .bytes = (const uint8_t *)(values + first),
                               .size = count * sizeof(float)};
    gw_err err;
    cr_assert(write_weights(scratch_path(file), &one, 1, &err), "%s", err.text);
}

static void write_text(const char *file, const char *text) {
    scratch_write(file, text, strlen(text));
}

static void check(const gw_safetensors *model, const char *name, float first) {
    const gw_safetensor *tensor = gw_safetensors_find(model, name);
    cr_assert_not_null(tensor, "%s", name);
    cr_expect_eq(memcmp(tensor->bytes, &first, sizeof first), 0, "%s", name);
}

static void refuse(const char *path, gw_code code, const char *words) {
    gw_safetensors model;
    gw_err err;
    cr_assert_not(gw_safetensors_open(path, &model, &err), "%s", words);
    cr_expect_not_null(strstr(err.text, words), "%s", err.text);
    cr_expect_eq(err.code, code, "%d: %s", err.code, err.text);
    cr_expect(model.list == NULL && model.parts == NULL && model.path == NULL);
}

#define INDEX(map) "{\"metadata\": {\"total_size\": 16},\n \"weight_map\": " map "}"

Test(sharded, an_index_names_the_file_of_each_tensor) {
    gw_safetensors model, part;
    gw_hash digests[2], digest;
    gw_err err;
    write_one("b.safetensors", "x", 0, 2);
    write_one("a.safetensors", "y", 2, 2);
    write_text("model.safetensors.index.json", INDEX("{\"x\": \"b.safetensors\", \"y\": \"a.safetensors\"}"));
    static const char *const paths[] = {"", "model.safetensors.index.json"};
    for (int i = 0; i < 2; i++) { /* the folder stands for the file in it */
        cr_assert(gw_safetensors_open(scratch_path(paths[i]), &model, &err), "%s", err.text);
        cr_assert(model.count == 2 && model.part_count == 2);
        check(&model, "x", 1.0f);
        check(&model, "y", 3.0f);
        cr_expect(gw_safetensors_unchanged(&model, &err));
        static const char *const files[] = {"a.safetensors", "b.safetensors"};
        for (int k = 0; k < 2; k++) {
            cr_assert(gw_safetensors_open(scratch_path(files[k]), &part, &err), "%s", err.text);
            digests[k] = part.digest;
            gw_safetensors_close(&part);
        }
        gw_blake2b(digests, sizeof digests, &digest, sizeof digest);
        cr_expect(gw_hash_equal(&digest, &model.digest));
        gw_safetensors_close(&model);
    }
    /* two files have the tensor: the index decides, also of one file */
    write_one("b.safetensors", "y", 0, 2);
    write_text("model.safetensors.index.json", INDEX("{\"y\": \"a.safetensors\"}"));
    cr_assert(gw_safetensors_open(scratch_folder(), &model, &err), "%s", err.text);
    check(&model, "y", 3.0f);
    cr_expect(model.count == 1 && gw_hash_equal(&digests[0], &model.digest));
    cr_expect(gw_safetensors_unchanged(&model, &err));
    write_one("a.safetensors", "y", 0, 3);
    gw_safetensors_close(&model);
}

Test(sharded, an_index_that_is_not_true_is_refused_with_the_reason) {
    write_one("a.safetensors", "x", 0, 2);
#define REFUSE(map, code, words)                                                                             \
    do {                                                                                                     \
        write_text("i.json", map);                                                                           \
        refuse(scratch_path("i.json"), code, words);                                                         \
        refuse(scratch_path("i.json"), code, "i.json");                                                      \
    } while (0)
    REFUSE(
        INDEX("{\"x\": \"a.safetensors\", \"z\": \"a.safetensors\"}"), GW_E_CORRUPT,
        "i.json, the index of a sharded model: tensor 'z' is said to be in a.safetensors, and is not there");
    REFUSE(INDEX("{\"x\": \"c.safetensors\"}"), GW_E_NOTFOUND, "there is no file ");
    REFUSE(INDEX("{\"x\": \"../a.safetensors\"}"), GW_E_INVALID,
           "'x' is in no file of the index's own folder");
    REFUSE(INDEX("{\"x\": \"/etc/passwd\"}"), GW_E_INVALID, "'x' is in no file");
    REFUSE(INDEX("{\"x\": 3}"), GW_E_INVALID, "'x' is in no file");
    REFUSE(INDEX("{}"), GW_E_INVALID, "names no file");
    REFUSE("{\"weight_map\": [1, 2]}", GW_E_INVALID, "it has no weight_map");
    REFUSE("{\"n_layer\": 12, \"n_head\": 12}", GW_E_INVALID, "is JSON, but no index of a sharded model");
    REFUSE("{\"weight_map\": {\"x\": ", GW_E_CORRUPT, "or damaged: line 1");
    REFUSE(INDEX("{\"x\": \"pytorch_model-1.bin\"}"), GW_E_UNSUPPORTED, ".save_pretrained('NEW')");
    write_text("a.safetensors", "not a file of that kind");
    REFUSE(INDEX("{\"x\": \"a.safetensors\"}"), GW_E_INVALID, "a.safetensors is no safetensors file");
    /* A file without a tensor, which nothing is sorted of (the fuzzers found a sort of NULL). */
    scratch_write("empty.safetensors", "\2\0\0\0\0\0\0\0{}", 10);
    write_text("i.json", INDEX("{\"x\": \"empty.safetensors\"}"));
    refuse(scratch_path("i.json"), GW_E_CORRUPT,
           "tensor 'x' is said to be in empty.safetensors, and is not there");
}

/* The form in which safetensors.torch.save_model declares a tensor that it leaves out. */
Test(sharded, another_name_of_a_tied_tensor_is_in_the_metadata) {
    static const char header[] =
        "{\"__metadata__\":{\"format\":\"pt\",\"second\":\"first\",\"own\":\"first\",\"third\":\"nowhere\"},"
        "\"first\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
        "\"own\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,12]}}";
    uint8_t bytes[8 + sizeof header - 1 + 12] = {sizeof header - 1};
    bytes[1] = (sizeof header - 1) >> 8;
    memcpy(bytes + 8, header, sizeof header - 1);
    memcpy(bytes + sizeof bytes - 12, values, 12);
    gw_safetensors model;
    gw_err err;
    cr_assert(gw_safetensors_open(scratch_write("m", bytes, sizeof bytes), &model, &err), "%s", err.text);
    check(&model, "first", 1.0f);
    check(&model, "second", 1.0f);
    check(&model, "own", 3.0f);
    cr_expect_eq(model.count, 3);
    gw_safetensors_close(&model);
}

Test(sharded, a_folder_stands_for_the_weights_in_it) {
    gw_safetensors model, file;
    gw_err err;
    cr_expect_not(gw_safetensors_is_folder(scratch_folder()));
    refuse(scratch_folder(), GW_E_NOTFOUND, "holds no model.safetensors, and no index of such files");
    write_text("adapter_config.json", "{}");
    write_one("adapter_model.safetensors", "x", 0, 1);
    refuse(scratch_folder(), GW_E_UNSUPPORTED, "holds an adapter (PEFT), and not a model");
    write_text("pytorch_model.bin", "PK\3\4 and so on");
    cr_expect(gw_safetensors_is_folder(scratch_folder()));
    refuse(scratch_folder(), GW_E_UNSUPPORTED, "pytorch_model.bin is a PyTorch pickle");
    write_one("other.safetensors", "x", 3, 1);
    cr_assert(gw_safetensors_open(scratch_folder(), &model, &err), "%s", err.text);
    check(&model, "x", 4.0f);
    gw_safetensors_close(&model);
    write_one("others.safetensors", "x", 2, 1);
    refuse(scratch_folder(), GW_E_NOTFOUND, "holds 2 .safetensors files and no model.safetensors.index.json");
    write_one("model.safetensors", "x", 1, 1);
    write_text("model.safetensors.index.json", INDEX("{\"x\": \"others.safetensors\"}"));
    cr_assert(gw_safetensors_open(scratch_folder(), &model, &err), "%s", err.text);
    cr_assert(gw_safetensors_open(scratch_path("model.safetensors"), &file, &err), "%s", err.text);
    cr_expect(gw_hash_equal(&model.digest, &file.digest)); /* both names give the same job */
    check(&model, "x", 2.0f);
    gw_safetensors_close(&model);
    gw_safetensors_close(&file);
}

Test(sharded, another_format_is_refused_by_its_name) {
    static const struct {
        const char *text, *words;
    } formats[] = {
        {"PK\3\4archive/data.pkl", "f is a PyTorch pickle, which can run programs when it is read"},
        {"\x80\2\x8a\nl\xfc\x9c", "f is a PyTorch pickle"},
        {"GGUF\3 and so on", "f is no safetensors file, but GGUF"},
        {"\211HDF\r\n\032\n", "but HDF5"},
        {"version https://git-lfs.github.com/spec/v1\n", "but a pointer of Git LFS"},
    };
    char path[200];
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        char bytes[64] = ""; /* any bytes may follow */
        snprintf(bytes, sizeof bytes, "%s", formats[i].text);
        snprintf(path, sizeof path, "%s", scratch_write("f", bytes, sizeof bytes));
        refuse(path, GW_E_UNSUPPORTED, formats[i].words);
    }
    write_text("f", "PK\3\4archive/data.pkl");
    refuse(path, GW_E_UNSUPPORTED, ".items()}, p.with_name('model.safetensors'))\" /");
}
