/* Whole numbers on a command line. Thread: any. */
#ifndef GODWIT_TOOLS_GODWIT_TEXT_NUMBER_H
#define GODWIT_TOOLS_GODWIT_TEXT_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

struct argp_state;

/* Reads decimal digits, and nothing else, within the bounds. On failure *value does not change. */
bool gw_number_read(const char *text, uint64_t least, uint64_t most, uint64_t *value);

/* Reads the argument of an option, which is given as the user writes it ("--steps"). If it is no such
 * number, argp_error ends the process with a message that names the option and the bounds. */
uint64_t gw_number_of_option(struct argp_state *state, const char *option, const char *text, uint64_t least,
                             uint64_t most);

#endif
