/* `godwit sim` in a process of its own: what it prints, errors too, and its exit code. */
#ifndef GODWIT_TESTS_SIM_COMMAND_H
#define GODWIT_TESTS_SIM_COMMAND_H

enum { OUTPUT_BYTES = 32768 };

typedef struct outcome {
    int code; /* exit code, or -signal */
    char out[OUTPUT_BYTES];
} outcome;

/* With these options, separated by single blanks. Valid until the next call. */
const outcome *sim_command(const char *options);

#endif
