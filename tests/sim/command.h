/* `godwit sim` in a process of its own: what it prints, errors too, and its exit code. */
#ifndef GODWIT_TESTS_SIM_COMMAND_H
#define GODWIT_TESTS_SIM_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

enum { OUTPUT_BYTES = 32768 };

typedef struct outcome {
    int code; /* exit code, or -signal */
    char out[OUTPUT_BYTES];
} outcome;

/* With these options, separated by single blanks. Valid until the next call. */
const outcome *sim_command(const char *options);

/* The next line of *text; false behind the last one. */
bool sim_next_line(const char **text, char *line, size_t size);
/* A line of the trace: when it was, and what happened, for people. */
const char *sim_read_traced(const char *line, double *at_s);

#endif
