/* The suggestion names what a misspelt word stands for. */
#include "tools/godwit/text/suggest.h"

#include <criterion/criterion.h>
#include <string.h>

static const char *meant(const char *word) {
    static const char *const names[] = {"run",          "status",         "stop", "inspect",
                                        "join-timeout", "resume-timeout", "peers"};
    gw_suggestion suggestion = {.word = word};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) gw_suggest(&suggestion, names[i]);
    return suggestion.name;
}

Test(suggest, letters_may_be_missing_extra_wrong_or_swapped) {
    cr_expect_str_eq(meant("peer"), "peers");
    cr_expect_str_eq(meant("peeers"), "peers");
    cr_expect_str_eq(meant("poers"), "peers");
    cr_expect_str_eq(meant("peesr"), "peers");
    cr_expect_str_eq(meant("rnu"), "run");
    cr_expect_str_eq(meant("RUN"), "run");
    cr_expect_str_eq(meant("jointimeot"), "join-timeout");
}

Test(suggest, what_is_far_from_every_name_has_no_suggestion) {
    char longest[200];
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    cr_expect_null(meant(longest));
    cr_expect_null(meant(""));
    cr_expect_null(meant("st"));
    cr_expect_null(meant("export"));
    cr_expect_null(meant("xyzxyz-timeout"));
}
