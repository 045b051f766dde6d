/* The command line as the shell gave it, for a process that executes itself again (kernels/device/class.h),
 * and as a person types it. Any thread. */
#ifndef GODWIT_TOOLS_GODWIT_OPTIONS_COMMAND_LINE_H
#define GODWIT_TOOLS_GODWIT_OPTIONS_COMMAND_LINE_H

/* Returns "godwit", `command`, and the arguments after argv[0], ending with NULL. Call it before argp
 * parses, which reorders argv and may cut its strings. The caller frees the array, which has the strings
 * behind it. */
char **gw_command_line(const char *command, int argc, char **argv);

/* Returns the line that a person types into a shell to give this command again: it changes to the working
 * directory of this process, and arguments that a shell would read otherwise are quoted. The caller frees
 * it. */
char *gw_command_line_text(char *const *whole);

/* Takes such a line apart again: *folder becomes the directory to which it changes, "" where it changes to none,
 * and the result the words, ending with NULL, `count` of them. The caller frees both with one call of free, of the
 * result. NULL where it is no such line: what a shell would expand is refused, and nothing is carried out. */
char **gw_command_line_words(const char *line, const char **folder, int *count);

#endif
