/* Whole numbers on a command line, and memory as people write it. Thread: any. */
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

/* Reads the argument of an option that is an amount of memory, from 1 MiB on: "2G", "512M", "1T", or a number of MiB. Returns MiB;
 * on failure as gw_number_of_option. */
uint64_t gw_number_memory_of_option(struct argp_state *state, const char *option, const char *text);

/* Writes an amount of memory: "2 GiB", "300 MiB". */
enum { GW_NUMBER_MEMORY_TEXT = 32 };
const char *gw_number_memory(uint64_t mib, char text[GW_NUMBER_MEMORY_TEXT]);

#endif
