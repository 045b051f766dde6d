/* A process that is stopped while it waits, until its input has come and its deadline has passed. */
#ifndef GODWIT_TESTS_NET_SHM_STOPPED_CHILD_H
#define GODWIT_TESTS_NET_SHM_STOPPED_CHILD_H

#include <stddef.h>
#include <stdint.h>

enum { STOPPED_INPUT_FIRST = 10, STOPPED_LATE_FIRST };

/* `wait` runs in the child: it writes a byte to `output`, waits for `input` (a socket) or the deadline, and
 * exits with the one that it noticed first. Returns that. */
int stopped_child(void (*wait)(int input, int output, uint64_t deadline_ns), const void *bytes, size_t count);

#endif
