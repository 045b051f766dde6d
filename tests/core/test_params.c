/* A job's parameters: what is taken, and what is said of what is not. */
#include "core/params.h"

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

Test(params, a_real_has_one_spelling) {
    static const struct {
        double value;
        const char *text;
    } cases[] = {{0.01, "0.01"},
                 {1e-8, "1e-8"},
                 {0.0001, "0.0001"},
                 {0.00001, "1e-5"},
                 {-0.0, "0"},
                 {480, "480"},
                 {1234.5, "1234.5"},
                 {-2.5e-7, "-2.5e-7"},
                 {1e15, "1000000000000000"},
                 {1e16, "1e16"},
                 {1.0 / 3, "0.3333333333333333"},
                 {0.1 + 0.2, "0.30000000000000004"},
                 {5e-324, "5e-324"},
                 {1.7976931348623157e308, "1.7976931348623157e308"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[GW_PARAM_REAL_TEXT];
        gw_param_real_text(cases[i].value, text);
        cr_assert_str_eq(text, cases[i].text);
    }
}

Test(params, what_was_read_is_recorded) {
    const gw_param list[] = {{"rate", "1e-2"}, {"size", "2k"}, {"name", "x"}, {"epochs", "3"}};
    gw_params params = {.list = list, .count = 4, .record = gw_param_record_open()};
    int64_t size;
    double rate;
    cr_assert(gw_param_integer(&params, "size", 0, 5000, true, &size, &err));
    cr_assert(gw_param_real(&params, "rate", 0, 1, &rate, &err));
    cr_assert_str_eq(gw_param_value(&params, "size"), "2048");
    cr_assert_str_eq(gw_param_value(&params, "rate"), "0.01");
    cr_assert_str_eq(gw_param_value(&params, "name"), "x"); /* nobody recorded it */
    cr_assert_null(gw_param_value(&params, "absent"));
    cr_assert(
        !gw_param_integer(&params, "size", 0, 5, true, &size, &err)); /* a refused value is not recorded */
    cr_assert_str_eq(gw_param_value(&params, "size"), "2048");
    gw_param_use_text(&params, "epochs", NULL);
    gw_param_use_integer(&params, "updates", -7);
    gw_param_use_real(&params, "rate", 0.5);
    cr_assert_null(gw_param_value(&params, "epochs"));
    cr_assert_str_eq(gw_param_value(&params, "updates"), "-7");
    cr_assert_str_eq(gw_param_value(&params, "rate"), "0.5");
    cr_assert_str_eq(gw_param_text(&params, "rate"), "1e-2"); /* what was typed stays */
    gw_param_record_close(params.record);
}

Test(params, without_a_record_nothing_is_kept) {
    const gw_param list[] = {{"rate", "1e-2"}};
    const gw_params params = {.list = list, .count = 1};
    gw_param_use_text(&params, "rate", "2");
    cr_assert_str_eq(gw_param_value(&params, "rate"), "1e-2");
}

Test(params, spellings_of_one_number_are_the_same_value) {
    static const struct {
        const char *one, *other;
        bool same;
    } cases[] = {{"0.01", "1e-2", true},   {"+5", "5", true}, {"on", "on", true}, {"on", "off", false},
                 {"cosine", "wsd", false}, {"", "0", false},  {"5x", "5", false}, {"128", "128,64", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        cr_assert_eq(gw_param_is_same(cases[i].one, cases[i].other), cases[i].same, "%s, %s", cases[i].one,
                     cases[i].other);
}
