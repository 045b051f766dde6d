/* Runs `godwit sim` in a process of its own, and returns its output, with errors, and its exit code. */
#ifndef GODWIT_TESTS_SIM_COMMAND_H
#define GODWIT_TESTS_SIM_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

enum { OUTPUT_BYTES = 32768 };

typedef struct outcome {
    int code; /* exit code, or -signal */
    char out[OUTPUT_BYTES];
} outcome;

/* Runs it with these options, which are separated by single blanks. The result is valid until the next
 * call. */
const outcome *sim_command(const char *options);

/* Reads the next line of *text; false behind the last one. */
bool sim_next_line(const char **text, char *line, size_t size);
/* Reads a line of the trace: its time, and the text of the event. */
const char *sim_read_traced(const char *line, double *at_s);

#endif
