/* What a process says as an invariant ends it. */
#ifndef GODWIT_TESTS_LAST_WORDS_H
#define GODWIT_TESTS_LAST_WORDS_H

#include <stddef.h>

/* Calls `act` in a child, which must end by SIGABRT in it, without a core: `said` is what it wrote to stderr,
 * as far as there is room. */
void last_words(void (*act)(void *context), void *context, char *said, size_t size);

#endif
