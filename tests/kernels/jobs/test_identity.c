/* The part of a job's identity that its options determine: their values count, their spellings do not. */
#include "kernels/jobs/digits/digits.h"
#include "kernels/jobs/gpt/gpt.h"
#include "kernels/jobs/synthetic/synthetic.h"
#include "tests/kernels/trial.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PAIRS_MOST = 80 };

#define PAIRS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void expect_same(const gw_job_type *type, const char *const *one, const char *const *other) {
    char *first = trial_identity(type, one), *second = trial_identity(type, other);
    cr_assert_str_eq(first, second);
    free(first);
    free(second);
}

static void expect_other(const gw_job_type *type, const char *const *one, const char *const *other) {
    char *first = trial_identity(type, one), *second = trial_identity(type, other);
    cr_assert_str_neq(first, second);
    free(first);
    free(second);
}

static void expect_line(const gw_job_type *type, const char *const *pairs, const char *line) {
    char *identity = trial_identity(type, pairs), bounded[100];
    snprintf(bounded, sizeof bounded, "%s\n", line);
    char *found = strstr(identity, bounded);
    cr_assert(found != NULL && (found == identity || found[-1] == '\n'), "no %s in\n%s", line, identity);
    free(identity);
}

/* Gives each option, one after the other, the value that the identity shows, in that spelling and in
 * `others`, and expects the same identity each time. */
static void expect_values_count(const gw_job_type *type, const char *const *pairs) {
    char *identity = trial_identity(type, pairs), *rest = NULL;
    char *lines = strdup(identity);
    for (char *line = strtok_r(lines, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        char *value = strchr(line, '=');
        cr_assert_not_null(value);
        *value++ = '\0';
        char *end, spelled[3][64];
        double number = strtod(value, &end);
        bool is_number = *end == '\0' && end != value;
        snprintf(spelled[0], sizeof spelled[0], "%s", value);
        snprintf(spelled[1], sizeof spelled[1], "0%s", value);
        snprintf(spelled[2], sizeof spelled[2], strchr(value, '.') || strchr(value, 'e') ? "%.17e" : "+%.0f",
                 number);
        for (int i = 0; i < (is_number ? 3 : 1); i++) {
            const char *more[PAIRS_MOST] = {line, spelled[i]};
            int count = 2;
            for (const char *const *pair = pairs; *pair != NULL; pair += 2) {
                cr_assert_lt(count, PAIRS_MOST - 2);
                if (strcmp(pair[0], line) == 0) continue;
                more[count++] = pair[0];
                more[count++] = pair[1];
            }
            char *again = trial_identity(type, more);
            cr_assert_str_eq(again, identity, "--%s %s", line, spelled[i]);
            free(again);
        }
    }
    free(lines);
    free(identity);
}

Test(identity, digits) {
    const char *const *plain = PAIRS("samples", "60");
    expect_values_count(&gw_job_digits, plain);
    expect_values_count(&gw_job_digits, PAIRS("samples", "60", "optimizer", "sgd"));
    expect_same(&gw_job_digits, plain,
                PAIRS("samples", "060", "lr", "1e-2", "hidden", "0128", "momentum", ".90"));
    expect_other(&gw_job_digits, plain, PAIRS("samples", "60", "lr", "0.0100001"));
    expect_other(&gw_job_digits, plain, PAIRS("samples", "60", "hidden", "128,128"));
    expect_line(&gw_job_digits, plain, "lr=0.01");
    expect_line(&gw_job_digits, plain, "epsilon=1e-8");
    expect_line(&gw_job_digits, PAIRS("samples", "60", "optimizer", "sgd"), "weight-decay=0.0001");
}

Test(identity, synthetic) {
    expect_values_count(&gw_job_synthetic, PAIRS("shards", "6"));
    expect_same(&gw_job_synthetic, PAIRS("bad-shard", "3:17"), PAIRS("bad-shard", "03:017"));
    expect_same(&gw_job_synthetic, PAIRS("state-bytes", "64k"), PAIRS("state-bytes", "65536"));
    expect_other(&gw_job_synthetic, PAIRS("state-bytes", "64k"), PAIRS("state-bytes", "65540"));
    expect_other(&gw_job_synthetic, PAIRS("bad-shard", "3:17"), PAIRS("bad-shard", "3:18"));
}

Test(identity, gpt) {
    char text[] = "/tmp/godwit-identity-XXXXXX";
    int fd = mkstemp(text);
    cr_assert_geq(fd, 0);
    for (int i = 0; i < 100; i++) cr_assert_eq(write(fd, "0123456789abcdef", 16), 16);
    close(fd);
#define TINY "data", text, "layers", "1", "heads", "2", "channels", "8", "context", "8"
    expect_values_count(&gw_job_gpt, PAIRS(TINY));
    expect_values_count(&gw_job_gpt, PAIRS(TINY, "val", text, "updates", "40", "schedule", "wsd"));
    expect_same(&gw_job_gpt, PAIRS(TINY), PAIRS(TINY, "lr", "1e-3", "min-lr", "0.10", "epochs", "1.0"));
    /* 199 windows, 768 of them an update: half of the windows are one update as well. */
    expect_same(&gw_job_gpt, PAIRS(TINY, "epochs", "2"), PAIRS(TINY, "updates", "1"));
    expect_same(&gw_job_gpt, PAIRS(TINY, "schedule", "constant"),
                PAIRS(TINY, "schedule", "constant", "min-lr", ".1"));
    expect_other(&gw_job_gpt, PAIRS(TINY, "updates", "2"), PAIRS(TINY, "updates", "3"));
    expect_other(&gw_job_gpt, PAIRS(TINY), PAIRS(TINY, "val", text));
    expect_line(&gw_job_gpt, PAIRS(TINY), "vocab=256");
    unlink(text);
}
