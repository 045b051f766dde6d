/* The command line as the shell gave it, for a process that executes itself again (kernels/device/class.h).
 */
#ifndef GODWIT_TOOLS_GODWIT_OPTIONS_COMMAND_LINE_H
#define GODWIT_TOOLS_GODWIT_OPTIONS_COMMAND_LINE_H

/* Returns "godwit", `command`, and the arguments after argv[0], ending with NULL. Call it before argp
 * parses, which reorders argv and may cut its strings. The caller frees the array, which has the strings
 * behind it. */
char **gw_command_line(const char *command, int argc, char **argv);

#endif
