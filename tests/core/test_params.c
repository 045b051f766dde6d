/* A job's parameters: what is taken, and what is said of what is not. */
#include "core/godwit.h"

#include <criterion/criterion.h>
#include <string.h>

static gw_err err;

static bool integer(const char *text, bool bytes, int64_t *value) {
    const gw_param list[] = {{.name = "other", .value = "1"}, {.name = "n", .value = text}};
    const gw_params params = {.list = list, .count = 2};
    return gw_param_integer(&params, "n", -5, INT64_C(1) << 40, bytes, value, &err);
}

static bool real(const char *text, double *value) {
    const gw_param list[] = {{.name = "x", .value = text}};
    const gw_params params = {.list = list, .count = 1};
    return gw_param_real(&params, "x", -1, 2, value, &err);
}

Test(params, integers_and_bytes) {
    static const struct {
        const char *text;
        int64_t plain, bytes; /* -99: refused */
    } cases[] = {
        {"7", 7, 7},
        {"-5", -5, -5},
        {"-6", -99, -99},
        {"3k", -99, 3 << 10},
        {"3K", -99, 3 << 10},
        {"2m", -99, 2 << 20},
        {"2M", -99, 2 << 20},
        {"1g", -99, 1 << 30},
        {"1G", -99, 1 << 30},
        {"1t", -99, -99},
        {"1kk", -99, -99},
        {"", -99, -99},
        {"k", -99, -99},
        {"1.5", -99, -99},
        {"99999999999999999999", -99, -99},
        {"9999999999g", -99, -99}, /* beyond 64 bits with its suffix alone */
        {"1025g", -99, -99},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t plain = -99, bytes = -99;
        cr_assert_eq(integer(cases[i].text, false, &plain), cases[i].plain != -99, "'%s'", cases[i].text);
        cr_assert_eq(plain, cases[i].plain, "'%s'", cases[i].text);
        cr_assert_eq(integer(cases[i].text, true, &bytes), cases[i].bytes != -99, "'%s'", cases[i].text);
        cr_assert_eq(bytes, cases[i].bytes, "'%s'", cases[i].text);
    }
    cr_assert(strstr(err.text, "--n: '1025g'") != NULL, "%s", err.text);
}

Test(params, reals) {
    double value;
    cr_assert(real("0.5", &value) && value == 0.5);
    cr_assert(real("-1", &value) && real("2", &value) && real("1e-3", &value));
    static const char *const bad[] = {"", "x", "0.5x", "nan", "inf", "-inf", "-1.01", "2.01", "1e999"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        cr_assert(!real(bad[i], &value), "'%s'", bad[i]);
        cr_assert_eq(err.code, GW_E_USAGE);
    }
}

Test(params, what_is_missing_is_named) {
    const gw_params none = {0};
    int64_t number;
    double value;
    cr_assert(!gw_param_integer(&none, "hidden", 0, 1, false, &number, &err));
    cr_assert_str_eq(err.text, "--hidden is needed");
    cr_assert(!gw_param_real(&none, "rate", 0, 1, &value, &err));
    cr_assert_str_eq(err.text, "--rate is needed");
    cr_assert_null(gw_param_text(&none, "rate"));
}
