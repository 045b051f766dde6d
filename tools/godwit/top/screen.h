/* The terminal of `godwit top` (ncurses). One thread. */
#ifndef GODWIT_TOOLS_GODWIT_TOP_SCREEN_H
#define GODWIT_TOOLS_GODWIT_TOP_SCREEN_H

#include "core/base/err.h"

/* Shows the peer that runs in `dir` until the user ends it, asking it `every_ms` apart. A peer that ends is waited
 * for. Fails with GW_E_NOTFOUND and GW_E_PEER where no peer answers at first, and with GW_E_UNSUPPORTED where the
 * terminal cannot be used. */
bool gw_screen_run(const char *dir, int every_ms, gw_err *err);

/* Prints what the screen would show, once, on stdout, in `rows` lines of `cols` columns. */
bool gw_screen_print(const char *dir, int rows, int cols, gw_err *err);

#endif
