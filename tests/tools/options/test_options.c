/* The options of `godwit run`: what is parsed, and what is refused. */
#include "tools/godwit/options/options.h"

#include <criterion/criterion.h>
#include <string.h>

static uint32_t copies; /* texts that are copied before memory runs out */
static bool limited;

char *__wrap_strdup(const char *text);
char *__real_strdup(const char *text);

char *__wrap_strdup(const char *text) {
    if (limited && copies == 0) return NULL;
    copies--;
    return __real_strdup(text);
}

static bool parse(gw_run_options *options, const char *option, const char *value, gw_err *err) {
    char *argv[] = {(char[]){"godwit run"}, (char[]){"synthetic"}, (char *)(uintptr_t)option,
                    (char *)(uintptr_t)value, NULL};
    return gw_run_options_parse(value != NULL ? 4 : 3, argv, options, err);
}

/* A seed without its text would be dereferenced later. */
Test(options, a_seed_for_which_there_is_no_memory_is_refused) {
    gw_run_options options;
    gw_err err;
    limited = true;
    copies = 2; /* the list and its first seed */
    cr_assert_not(parse(&options, "--join", "10.0.0.1:7117,10.0.0.2:7117", &err));
    cr_expect_eq(err.code, GW_E_NOMEM);
    cr_expect_not_null(strstr(err.text, "--join"), "%s", err.text);
    copies = 3;
    cr_assert(parse(&options, "--join", "10.0.0.1:7117,10.0.0.2:7117", &err), "%s", err.text);
    cr_expect_eq(options.seed_count, 2);
    gw_run_options_free(&options);
}
