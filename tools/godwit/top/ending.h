/* How the peer in a directory has ended, in words, as its journal says. It is asked where the peer answers no more: that
 * a job is done is no trouble. Any thread; waits for the disk. */
#ifndef GODWIT_TOOLS_GODWIT_TOP_ENDING_H
#define GODWIT_TOOLS_GODWIT_TOP_ENDING_H

#include <stdbool.h>
#include <stddef.h>

/* Writes it, "the job is done: 7093 steps". *good: it is what was wanted. Returns false where the journal does not say,
 * or cannot be read; then nothing is written. */
bool gw_top_ending(const char *dir, char *text, size_t size, bool *good);

#endif
