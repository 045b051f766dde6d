/* Prints outputs of tasks to one descriptor, one behind the other. The loop never waits in a write: a pipe or a terminal
 * that takes nothing is written to when it can be again. One thread, that of the loop. */
#ifndef GODWIT_TOOLS_GODWIT_MAP_PRINTER_H
#define GODWIT_TOOLS_GODWIT_MAP_PRINTER_H

#include "net/loop/loop.h"
#include "tools/godwit/map/store.h"

typedef struct gw_map_printer gw_map_printer;

/* A printer to `fd`, which stays the caller's; `name` is for messages. Loop and store are borrowed. NULL when memory runs
 * out. */
gw_map_printer *gw_map_printer_open(gw_loop *loop, gw_map_store *store, int fd, const char *name,
                                    gw_err *err);
/* Drops what has not been printed. NULL is allowed. */
void gw_map_printer_close(gw_map_printer *printer);

/* Prints an output, which becomes the printer's (*output is all zeros then), with `tag` before each line; NULL or "": no
 * tag. The tag is copied. Fails with GW_E_NOMEM. */
bool gw_map_printer_put(gw_map_printer *printer, gw_map_output *output, const char *tag, gw_err *err);

/* Prints as much as can be without waiting. Fails with GW_E_PEER where nobody reads any more (EPIPE), with GW_E_IO where
 * the descriptor takes no more, and always after that. */
bool gw_map_printer_flush(gw_map_printer *printer, gw_err *err);

/* Bytes that wait. */
uint64_t gw_map_printer_backlog(const gw_map_printer *printer);

#endif
