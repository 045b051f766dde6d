/* Specifications of jobs: one encoding, signed. */
#include "core/flock/spec.h"

#include <criterion/criterion.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint8_t public_key[32], secret_key[64];

static const char *command[] = {"gpt", "--data", "text", ""};
static const char *environment[] = {"A=1", "EMPTY="};
static const gw_job_record_id after[] = {{{1}}, {{2, 3}}};

static gw_job_spec example(void) {
    crypto_sign_seed_keypair(public_key, secret_key, (const uint8_t *)"0123456789abcdef0123456789abcdef");
    gw_job_spec spec = {.nonce = {1},
                        .key = {2},
                        .counter = 77,
                        .when = 1796000000000,
                        .kind = GW_JOB_RUN,
                        .name = "base-1.x",
                        .command = command,
                        .command_count = 4,
                        .environment = environment,
                        .environment_count = 2,
                        .environment_file = "/etc/secrets",
                        .directory = "/home/a",
                        .build = "2.0.0",
                        .compute_class = 9,
                        .need = {2, 1000, 1},
                        .least = 2,
                        .most = 8,
                        .shares = 3,
                        .retries = 5,
                        .priority = -4,
                        .hold = true,
                        .rigid = true,
                        .token = {9},
                        .after = after,
                        .after_count = 2,
                        .files = {{7}},
                        .adopts = {{8}},
                        .sweep = {10}};
    memcpy(spec.submitter, public_key, sizeof public_key);
    return spec;
}

static gw_job_spec least(void) {
    gw_job_spec spec = {.kind = GW_JOB_COMMAND,
                        .name = "a",
                        .command = command,
                        .command_count = 1,
                        .least = 1,
                        .most = 1,
                        .shares = 1};
    example();
    memcpy(spec.submitter, public_key, sizeof public_key);
    return spec;
}

static void expect_words(const char **a, uint32_t a_count, const char **b, uint32_t b_count) {
    cr_assert_eq(a_count, b_count);
    for (uint32_t i = 0; i < a_count; i++) cr_expect_str_eq(a[i], b[i]);
}

Test(spec, is_read_as_it_was_written) {
    gw_err err;
    uint8_t *bytes;
    uint32_t length;
    gw_job_spec spec = example(), read;
    cr_assert(gw_job_spec_write(&spec, secret_key, &bytes, &length, &err), "%s", err.text);
    cr_assert(gw_job_spec_read(bytes, length, &read, &err), "%s", err.text);
    cr_expect(memcmp(read.nonce, spec.nonce, 16) == 0 && memcmp(read.key, spec.key, 32) == 0);
    cr_expect(memcmp(read.submitter, spec.submitter, 32) == 0 && memcmp(read.token, spec.token, 16) == 0);
    cr_expect(read.counter == 77 && read.when == 1796000000000 && read.kind == GW_JOB_RUN);
    cr_expect_str_eq(read.name, "base-1.x");
    expect_words(read.command, read.command_count, command, 4);
    expect_words(read.environment, read.environment_count, environment, 2);
    cr_expect_str_eq(read.environment_file, "/etc/secrets");
    cr_expect_str_eq(read.directory, "/home/a");
    cr_expect_str_eq(read.build, "2.0.0");
    cr_expect(read.compute_class == 9 && memcmp(&read.need, &spec.need, sizeof read.need) == 0);
    cr_expect(read.least == 2 && read.most == 8 && read.shares == 3 && read.retries == 5);
    cr_expect(read.priority == -4 && read.hold && read.rigid);
    cr_assert(read.after_count == 2);
    cr_expect(gw_job_record_id_equal(&read.after[1], &after[1]));
    cr_expect(gw_hash_equal(&read.files, &spec.files) && gw_job_record_id_equal(&read.adopts, &spec.adopts));
    cr_expect(memcmp(read.sweep, spec.sweep, sizeof read.sweep) == 0);
    gw_job_links links = gw_job_spec_links(bytes, length);
    cr_assert(links.after_count == 2 && gw_job_record_id_equal(&links.adopts, &spec.adopts));
    cr_expect(memcmp(links.after, after, sizeof after) == 0);
    gw_job_spec_free(&read);
    free(bytes);

    spec = least();
    cr_assert(gw_job_spec_write(&spec, secret_key, &bytes, &length, &err), "%s", err.text);
    cr_assert(gw_job_spec_read(bytes, length, &read, &err), "%s", err.text);
    cr_expect(read.environment == NULL && read.directory == NULL && read.build == NULL &&
              read.after_count == 0);
    gw_job_spec_free(&read);
    free(bytes);
}

/* Each bit is part of what is signed, or of the signature; a shorter or longer text is none. */
Test(spec, is_refused_where_a_bit_has_changed) {
    gw_err err;
    uint8_t *bytes;
    uint32_t length;
    gw_job_spec spec = example(), read;
    cr_assert(gw_job_spec_write(&spec, secret_key, &bytes, &length, &err));
    for (uint32_t bit = 0; bit < 8 * length; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        cr_assert_leq(gw_job_spec_links(bytes, length).after_count, length / 16); /* it stays within them */
        cr_assert_not(gw_job_spec_read(bytes, length, &read, &err), "bit %u", bit);
        cr_assert(err.code == GW_E_DENIED || err.code == GW_E_INVALID || err.code == GW_E_UNSUPPORTED);
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    for (uint32_t shorter = 0; shorter < length; shorter++) {
        cr_assert_not(gw_job_spec_read(bytes, shorter, &read, &err));
        cr_assert_leq(gw_job_spec_links(bytes, shorter).after_count, 2);
    }
    cr_expect(gw_job_spec_read(bytes, length, &read, &err));
    gw_job_spec_free(&read);
    free(bytes);
}

/* Puts a field before the signature, and signs. */
static gw_code read_with(uint8_t tag, const void *value, uint32_t count) {
    gw_err err = {GW_OK, ""};
    uint8_t *bytes, more[4000];
    uint32_t length;
    gw_job_spec spec = least(), read;
    cr_assert(gw_job_spec_write(&spec, secret_key, &bytes, &length, &err));
    gw_writer w = gw_writer_on(more, sizeof more - 64);
    gw_put_bytes(&w, bytes, length - 64);
    gw_put_u8(&w, tag);
    gw_put_u32(&w, count);
    gw_put_bytes(&w, value, count);
    crypto_sign_detached(more + w.length, NULL, more, w.length, secret_key);
    free(bytes);
    if (gw_job_spec_read(more, w.length + 64, &read, &err)) gw_job_spec_free(&read);
    return err.code;
}

Test(spec, of_later_versions_are_told_apart) {
    static const uint8_t zeros[16];
    cr_expect_eq(read_with(200, "abc", 3), GW_OK);           /* may be ignored */
    cr_expect_eq(read_with(60, "abc", 3), GW_E_UNSUPPORTED); /* must be known */
    cr_expect_eq(read_with(1, "abc", 3), GW_E_INVALID);      /* tags rise */
    cr_expect_eq(read_with(20, zeros, 16), GW_E_INVALID);    /* a token of zeros is left out */
    cr_expect_eq(read_with(20, "0123456789abcdef", 16), GW_OK);
    cr_expect_eq(read_with(200, "", 0), GW_E_INVALID);
}

Test(spec, of_a_kind_of_later_versions_is_told_apart) {
    static const uint8_t field[] = {6, 8, 0,
                                    0, 0, GW_JOB_COMMAND}; /* tag, length, and the first byte of the kind */
    gw_err err = {GW_OK, ""};
    uint8_t *bytes;
    uint32_t length;
    gw_job_spec spec = least(), read;
    cr_assert(gw_job_spec_write(&spec, secret_key, &bytes, &length, &err));
    uint8_t *at = memmem(bytes, length, field, sizeof field);
    cr_assert_not_null(at);
    at[sizeof field - 1] = GW_JOB_KINDS;
    crypto_sign_detached(bytes + length - 64, NULL, bytes, length - 64, secret_key);
    cr_expect_not(gw_job_spec_read(bytes, length, &read, &err));
    cr_expect_eq(err.code, GW_E_UNSUPPORTED);
    at[sizeof field - 1] = 0;
    cr_expect_not(gw_job_spec_read(bytes, length, &read, &err));
    cr_expect_eq(err.code, GW_E_INVALID);
    free(bytes);
}

static void expect_not_allowed(const gw_job_spec *spec, const char *part) {
    gw_err err = {GW_OK, ""};
    uint8_t *bytes;
    uint32_t length;
    cr_assert_not(gw_job_spec_write(spec, secret_key, &bytes, &length, &err));
    cr_expect(err.code == GW_E_USAGE && strstr(err.text, part) != NULL, "'%s' is not in: %s", part, err.text);
}

Test(spec, has_only_what_is_allowed) {
    static const char *const names[] = {"", ".a", "a/b", "a b", "\xc3\xa4", "a\n"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        gw_job_spec spec = least();
        spec.name = names[i];
        expect_not_allowed(&spec, "a job's name");
    }
    gw_job_spec spec = least();
    spec.most = 2;
    expect_not_allowed(&spec, "on one node");
    spec = least();
    spec.least = 0;
    expect_not_allowed(&spec, "least is not above the most");
    spec = least();
    spec.directory = "here";
    expect_not_allowed(&spec, "absolute");
    spec = least();
    static const char *wrong[] = {"=a"};
    spec.environment = wrong;
    spec.environment_count = 1;
    expect_not_allowed(&spec, "NAME=VALUE");
    spec = least();
    spec.retries = 32;
    expect_not_allowed(&spec, "tried again");
}

Test(spec, is_at_most_64_KiB) {
    gw_err err;
    uint8_t *bytes;
    uint32_t length;
    static char word[60000];
    memset(word, 'a', sizeof word - 1);
    const char *words[] = {word, word};
    gw_job_spec spec = least();
    spec.command = words;
    cr_assert(gw_job_spec_write(&spec, secret_key, &bytes, &length, &err));
    free(bytes);
    spec.command_count = 2;
    cr_assert_not(gw_job_spec_write(&spec, secret_key, &bytes, &length, &err));
    cr_expect_eq(err.code, GW_E_LIMIT);
}
