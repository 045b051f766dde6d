/* For a command that has something to tidy up when it is told to end: between open and close SIGINT, SIGTERM
 * and SIGHUP end nothing by themselves, and are noticed wherever the command waits for input. Those that are
 * ignored stay so. One thread. */
#ifndef GODWIT_TOOLS_GODWIT_OPTIONS_INTERRUPT_H
#define GODWIT_TOOLS_GODWIT_OPTIONS_INTERRUPT_H

#include "core/base/err.h"

#include <signal.h>

typedef struct gw_interrupt {
    int fd;
    sigset_t before;
} gw_interrupt;

bool gw_interrupt_open(gw_interrupt *interrupt, gw_err *err);
/* A signal that came meanwhile ends the process here. */
void gw_interrupt_close(gw_interrupt *interrupt);

/* Waits until there is something to read, or the end. False, with GW_E_ABORTED: such a signal has come. */
bool gw_interrupt_wait(const gw_interrupt *interrupt, int input, gw_err *err);

#endif
