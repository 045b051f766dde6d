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

/* Operands may look like options; what is the value of an option is none of them. */
Test(suggest, operands_begin_behind_the_options) {
    static const struct argp_option options[] = {{"jobs", 'j', "N", 0, "", 0},
                                                 {"keep", 'k', 0, 0, "", 0},
                                                 {"tag", 256, 0, 0, "", 0},
                                                 {"tagstring", 257, "TEXT", 0, "", 0},
                                                 {0}};
    static const struct argp argp = {.options = options};
    static const struct {
        const char *line;
        int operands;
    } cases[] = {{"c", 1},          {"c -k", 2},         {"c -j 4 -k echo -n", 4}, {"c -j4 -k echo", 3},
                 {"c -kj 4 e", 3},  {"c -jk e", 2},      {"c --jobs 4 e", 3},      {"c --jobs=4 e", 2},
                 {"c --tag e", 2},  {"c --tags x e", 3}, {"c --tagstring x e", 3}, {"c - -k", 1},
                 {"c -k -- -j", 2}, {"c -j", 2}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char line[80], *argv[10];
        int argc = 0;
        strcpy(line, cases[i].line);
        for (char *word = strtok(line, " "); word != NULL; word = strtok(NULL, " ")) argv[argc++] = word;
        cr_expect_eq(gw_argp_operands(&argp, argc, argv), cases[i].operands, "%s", cases[i].line);
    }
}
