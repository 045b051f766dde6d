#include "tools/godwit/text/json.h"

#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Checks the line of {"report": <the report as an object>}. */
static void expect_report(const char *report, const char *expected) {
    json_t *object = json_object();
    gw_json_report(object, "report", report);
    char *line = gw_json_line(object);
    cr_assert_not_null(line);
    cr_expect_str_eq(line, expected, "%s: %s", report, line);
    free(line);
    json_decref(object);
}

Test(json, reports_are_objects_in_which_numbers_are_numbers) {
    expect_report("loss=0.31 epoch=2 note=well",
                  "{\"report\":{\"loss\":0.31,\"epoch\":2,\"note\":\"well\"}}");
    expect_report("lr=3e-5 a=0.0006 b=-17 c=1e3",
                  "{\"report\":{\"lr\":3e-5,\"a\":0.0006,\"b\":-17,\"c\":1000.0}}");
    expect_report("loss=nan b=inf c= d=1x",
                  "{\"report\":{\"loss\":\"nan\",\"b\":\"inf\",\"c\":\"\",\"d\":\"1x\"}}");
    expect_report("hash=1234567890123456 big=99999999999999",
                  "{\"report\":{\"hash\":\"1234567890123456\",\"big\":99999999999999}}");
    expect_report("word =1 loss=1", "{\"report\":{\"loss\":1}}");
    expect_report("k=\"\\\n", "{\"report\":{\"k\":\"\\\"\\\\\\n\"}}");
    expect_report("", "{}");
    expect_report(NULL, "{}");
}

Test(json, reals_are_as_short_as_they_are_read_back) {
    static const double values[] = {
        8.7, 0.1, 0.31, 1.0 / 3, 1e300, 5e-324, 0, -2.5, 1e22, 100, 0.00012345678901234567};
    static const char *const texts[] = {
        "8.7",  "0.1",  "0.31",  "0.3333333333333333",    "1e300", "5e-324", "0.0",
        "-2.5", "1e22", "100.0", "0.00012345678901234567"};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        json_t *array = json_array();
        json_array_append_new(array, json_real(values[i]));
        char *line = gw_json_line(array), expected[64];
        snprintf(expected, sizeof expected, "[%s]", texts[i]);
        cr_expect_str_eq(line, expected, "%s", line);
        json_t *again = json_loads(line, 0, NULL);
        cr_assert(json_is_real(json_array_get(again, 0)), "%s", line);
        cr_expect_eq(json_real_value(json_array_get(again, 0)), values[i], "%s", line);
        json_decref(again);
        json_decref(array);
        free(line);
    }
}

Test(json, a_line_holds_every_kind_of_value) {
    static const char text[] =
        "{\"a\":[1,null,true,{}],\"b\":{\"c\":[],\"d\":\"\\u0001\xc3\xa9\"},\"e\":-0.5}";
    json_t *value = json_loads(text, 0, NULL);
    cr_assert_not_null(value);
    char *line = gw_json_line(value);
    cr_expect_str_eq(line, text, "%s", line);
    free(line);
    json_decref(value);
}

Test(json, a_report_becomes_a_text_again) {
    char text[80], tiny[8];
    json_t *object = json_object();
    gw_json_report(object, "report", "loss=0.31 epoch=2 note=well lr=1e-05");
    gw_json_report_text(json_object_get(object, "report"), text, sizeof text);
    cr_expect_str_eq(text, "loss=0.31 epoch=2 note=well lr=1e-5");
    gw_json_report_text(json_object_get(object, "report"), tiny, sizeof tiny);
    cr_expect_str_eq(tiny, "loss=0.");
    gw_json_report_text(json_object_get(object, "none"), text, sizeof text);
    cr_expect_str_eq(text, "");
    json_decref(object);
}

/* Printed with indentation a value has the same numbers as on one line. */
Test(json, indented_text_has_the_same_short_numbers) {
    cr_redirect_stdout();
    json_t *value = json_pack("{s:f, s:[i, []], s:{}, s:{s:n}}", "a", 0.1, "b", 1, "c", "d", "e");
    cr_assert_not_null(value);
    gw_json_print(value);
    fflush(stdout);
    static const char expected[] = "{\n  \"a\": 0.1,\n  \"b\": [\n    1,\n    []\n  ],\n  \"c\": {},\n"
                                   "  \"d\": {\n    \"e\": null\n  }\n}\n";
    cr_assert_stdout_eq_str(expected);
}
