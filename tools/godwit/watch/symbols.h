/* Names of code addresses of this process, from the symbol tables of the files that are mapped: functions
 * that are not exported too, unless a file was stripped of them. Takes no lock of the dynamic linker, which
 * may be what a thread hangs in. Thread: any. */
#ifndef GODWIT_TOOLS_GODWIT_WATCH_SYMBOLS_H
#define GODWIT_TOOLS_GODWIT_WATCH_SYMBOLS_H

#include <stdint.h>

enum { GW_SYMBOL_TEXT = 200 };

/* "contribute+0x2f (job.so+0x1a2f)"; the second number is an address in the file, as addr2line takes it.
 * Without a name "job.so+0x1a2f"; where the file cannot be read as gw_symbol_place has it. Reads that file:
 * on a disk that hangs this does not return. */
void gw_symbol_text(uintptr_t address, char text[GW_SYMBOL_TEXT]);
/* "0x7f30c0de1a2f (job.so at 0x1a2f)"; the second number is where in the file it is mapped from. Outside of
 * any file the bare address. Asks the kernel alone, and no disk. */
void gw_symbol_place(uintptr_t address, char text[GW_SYMBOL_TEXT]);

#endif
