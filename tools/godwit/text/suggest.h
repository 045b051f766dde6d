/* "Did you mean": the name that a misspelt one stands for, among those that there are. Any thread. */
#ifndef GODWIT_TOOLS_GODWIT_TEXT_SUGGEST_H
#define GODWIT_TOOLS_GODWIT_TEXT_SUGGEST_H

#include <argp.h>
#include <stdbool.h>
#include <stddef.h>

/* The closest name to a word so far. `word` is set by the caller, the rest is zero at first. */
typedef struct gw_suggestion {
    const char *word;
    const char *name; /* the closest name that is close enough; NULL = none */
    size_t distance;  /* of `name` */
} gw_suggestion;

/* Considers a name, which is borrowed. It is close enough if few letters are missing, extra, wrong or swapped
 * with their neighbour (Damerau's distance): one in three of the longer word, and at most three. */
void gw_suggest(gw_suggestion *suggestion, const char *name);

/* argp_parse, which in addition names the closest option where a long option of the command line is
 * misspelt, or has the name that other programs give it, and takes -h for --help. As argp_parse without
 * ARGP_NO_EXIT, it ends the process after a complaint, with argp_err_exit_status. */
error_t gw_argp_parse(const struct argp *argp, int argc, char **argv, void *input);

/* The index in argv of the first argument that is neither an option nor the value of one, or argc: for commands whose
 * operands may look like options. An argument "--" ends the options, and is the result. */
int gw_argp_operands(const struct argp *argp, int argc, char **argv);

/* argp_error, with the quotes that the program's other messages have. It ends the process with
 * argp_err_exit_status. */
void gw_argp_error(const struct argp_state *state, const char *format, ...)
    __attribute__((format(printf, 2, 3), noreturn));

#endif
