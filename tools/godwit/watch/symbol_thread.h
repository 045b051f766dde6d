/* A thread that names addresses: the symbol tables are on a disk, which may be the one that hangs, and who
 * logs where others hang must not hang there as well. */
#ifndef GODWIT_TOOLS_GODWIT_WATCH_SYMBOL_THREAD_H
#define GODWIT_TOOLS_GODWIT_WATCH_SYMBOL_THREAD_H

#include "core/base/err.h"
#include "tools/godwit/watch/symbols.h"

#include <stdbool.h>

enum { GW_SYMBOLS_MOST = 64 };

/* Once, for as long as the process lives; from a thread that blocks the signals which are not for this one.
 */
bool gw_symbol_thread_open(gw_err *err);
/* Any thread, after that: as gw_symbol_text of `count` addresses, GW_SYMBOLS_MOST at most. While the symbol
 * tables cannot be read in some seconds, or others' have not been, as gw_symbol_place. */
void gw_symbol_texts(const uintptr_t *addresses, int count, char (*texts)[GW_SYMBOL_TEXT]);

#endif
