/* Names of code addresses of this process, from the symbol tables of the files that are mapped. They
 * include functions that are not exported, unless the file was stripped. No lock of the dynamic linker is
 * taken, because a thread may hang with it. A thread of its own reads the tables: they are on a disk,
 * which may be what hangs, and the caller, which logs where others hang, must not hang with them. */
#ifndef GODWIT_TOOLS_GODWIT_WATCH_SYMBOLS_H
#define GODWIT_TOOLS_GODWIT_WATCH_SYMBOLS_H

#include "core/base/err.h"

#include <stdbool.h>
#include <stdint.h>

enum { GW_SYMBOL_TEXT = 200, GW_SYMBOLS_MOST = 64 };

/* Starts the thread, once in the life of the process. The caller blocks the signals that the thread must
 * not take. */
bool gw_symbols_open(gw_err *err);
/* Writes the names of `count` addresses, at most GW_SYMBOLS_MOST, as gw_symbol_text does; as
 * gw_symbol_place does while the symbol tables cannot be read within some seconds. Thread: any. */
void gw_symbol_texts(const uintptr_t *addresses, int count, char (*texts)[GW_SYMBOL_TEXT]);

/* Writes "contribute+0x2f (job.so+0x1a2f)"; the second number is an address in the file, as addr2line
 * takes it. Without a name it is "job.so+0x1a2f", and where the file cannot be read the text of
 * gw_symbol_place. Reads the file: on a disk that hangs this does not return. Thread: any. */
void gw_symbol_text(uintptr_t address, char text[GW_SYMBOL_TEXT]);
/* Writes "0x7f30c0de1a2f (job.so at 0x1a2f)"; the second number is the offset in the file that is mapped
 * there. Outside of any file only the address is written. Asks only the kernel, and no disk. Thread: any. */
void gw_symbol_place(uintptr_t address, char text[GW_SYMBOL_TEXT]);

#endif
