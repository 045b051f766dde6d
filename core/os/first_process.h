/* The duties of the first process of a PID namespace, as the entry of a container is one.
 *
 * The kernel ignores each signal to process 1 that would end a process by its default action, SIGKILL from
 * its own namespace and abort() among them, and makes it the parent of every process whose own parent has
 * ended. A program that is started as process 1 therefore can neither be interrupted before it has
 * handlers, nor die of its own fault or its own watchdog, and zombies pile up. A small first process that
 * has nothing else to do takes these duties over; the program runs as its child, as everywhere. */
#ifndef GODWIT_CORE_OS_FIRST_PROCESS_H
#define GODWIT_CORE_OS_FIRST_PROCESS_H

#include <stdbool.h>

/* Returns false at once where the calling process is not number 1. Where it is, the process forks. In the
 * child, which goes on with the program, the call returns false. In the first process it hands every
 * signal on to the child, except those that a terminal has sent to both, reaps what becomes its child, and
 * returns true when the child has ended: *code is then the exit code of the child, or 128 + N where signal
 * N has ended it. The caller ends the first process with this code, by which the kernel kills all that is
 * left in the namespace. Where no process can be made, false is returned in process 1 itself, which then
 * runs the program. Main thread, before any other is created and before anything is printed. */
bool gw_first_process(int *code);

#endif
