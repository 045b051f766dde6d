/* Files of runs that once failed (corpus.txt, corpus_long.txt). */
#ifndef GODWIT_TESTS_SIM_CORPUS_H
#define GODWIT_TESTS_SIM_CORPUS_H

#include <stdint.h>

/* Runs all lines of a file of this folder, each of which must pass, and returns how many there are. */
uint32_t corpus_pass(const char *name);

#endif
