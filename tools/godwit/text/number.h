/* Whole numbers as they are written on a command line. Thread: any. */
#ifndef GODWIT_TOOLS_GODWIT_TEXT_NUMBER_H
#define GODWIT_TOOLS_GODWIT_TEXT_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

struct argp_state;

/* Decimal digits and nothing else, within the bounds. False: *value is as it was. */
bool gw_number_read(const char *text, uint64_t least, uint64_t most, uint64_t *value);

/* The argument of an option, written as the user writes it ("--steps"). What is no such number ends the
 * process as argp_error does, with a message that names the option and the bounds. */
uint64_t gw_number_of_option(struct argp_state *state, const char *option, const char *text, uint64_t least,
                             uint64_t most);

#endif
