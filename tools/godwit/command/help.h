/* The help of the program as a whole; each subcommand has its own. */
#ifndef GODWIT_TOOLS_GODWIT_COMMAND_HELP_H
#define GODWIT_TOOLS_GODWIT_COMMAND_HELP_H

#include <stdio.h>

/* Prints the list of subcommands and how to begin, for 80 columns. */
void gw_help_print(FILE *out);

#endif
