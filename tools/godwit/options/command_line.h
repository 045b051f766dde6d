/* The command line as the shell gave it, for a process that executes itself again (kernels/device/class.h).
 */
#ifndef GODWIT_TOOLS_GODWIT_OPTIONS_COMMAND_LINE_H
#define GODWIT_TOOLS_GODWIT_OPTIONS_COMMAND_LINE_H

/* "godwit", `command`, and what follows argv[0]. Take it before argp parses, which reorders argv. The caller
 * frees; the strings are argv's. */
char **gw_command_line(const char *command, int argc, char **argv);

#endif
