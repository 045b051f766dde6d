/* The command of a map with its replacement strings, as GNU parallel has them: {} is the input, {.} the input without its
 * extension, {/} its last component, {//} its directory, {/.} its last component without the extension; {2}, {2.}, {-1/}
 * and so on the same of one of several inputs, counted from either end; {#} is the number of the task from 1 on, {%} the
 * number of the slot that runs it.
 *
 * A command is rendered in two forms: as a line for the shell, in which every input is one quoted word, and, where the
 * template has nothing for a shell to interpret, as the words of the command itself, which need no shell. Both mean the
 * same. Pure; a template that is not being changed may be used by any thread. */
#ifndef GODWIT_TOOLS_GODWIT_MAP_TEMPLATE_H
#define GODWIT_TOOLS_GODWIT_MAP_TEMPLATE_H

#include "core/base/err.h"
#include "tools/godwit/map/values.h"

#include <stdbool.h>

typedef struct gw_map_template gw_map_template;

typedef struct gw_map_template_options {
    char *const *words; /* of the command; joined by spaces, they are a line for the shell */
    uint32_t word_count;
    bool quote;          /* every word of the command is one word for the shell as well (-q) */
    bool repeat;         /* a word with {} is repeated for each input (-N); otherwise {} is all of them */
    bool none;           /* no inputs are put in (-N 0): nothing is appended to a command without {} */
    const char *replace; /* what stands for {}; NULL: that */
} gw_map_template_options;

/* Takes a command apart. One without a replacement string gets " {}" at its end; one without any word is the input
 * itself: then, as where the command begins with a replacement string, the inputs there are commands and are not quoted.
 * Fails with GW_E_NOMEM. The caller closes the template; the words are copied. */
gw_map_template *gw_map_template_open(const gw_map_template_options *options, gw_err *err);
void gw_map_template_close(gw_map_template *template); /* NULL is allowed */

/* A rendered command, whose memory is used again by the next one. Zeros at first. */
typedef struct gw_map_command {
    char *bytes;
    size_t length, room;
    char **words; /* of gw_map_template_words, and NULL behind them */
    uint32_t word_count, word_room;
} gw_map_command;

void gw_map_command_free(gw_map_command *command);

/* Renders the line for the shell into command->bytes, with a zero at its end. False: no memory. */
bool gw_map_template_line(const gw_map_template *template, const gw_map_values *values, uint64_t task,
                          uint32_t slot, gw_map_command *command);

/* Renders the line without any quotes: for people, and for tags. */
bool gw_map_template_bare_line(const gw_map_template *template, const gw_map_values *values, uint64_t task,
                               uint32_t slot, gw_map_command *command);

/* Renders the words of a command that needs no shell. *plain tells whether this one does not; otherwise nothing is
 * rendered. False: no memory. */
bool gw_map_template_words(const gw_map_template *template, const gw_map_values *values, uint64_t task,
                           uint32_t slot, gw_map_command *command, bool *plain);

#endif
