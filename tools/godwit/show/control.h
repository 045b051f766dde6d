/* The control socket of a running peer: DIR/control.sock, mode 0600. A client sends one line ("status",
 * "stop" or "force-view") and gets one JSON object. */
#ifndef GODWIT_TOOLS_GODWIT_SHOW_CONTROL_H
#define GODWIT_TOOLS_GODWIT_SHOW_CONTROL_H

#include "core/base/err.h"
#include "tools/godwit/show/snapshot.h"

typedef struct gw_control gw_control;

typedef enum gw_control_request {
    GW_CONTROL_STOP = 1,   /* end the whole job, checkpoint first */
    GW_CONTROL_FORCE_VIEW, /* go on with whoever can be reached, though it is no majority */
} gw_control_request;

/* Somebody asked for something. Called on the control thread: hand it over and return. */
typedef void gw_control_take(void *context, gw_control_request request);

/* Serves from a thread of its own. Take the directory's lock first: a socket left by a dead process is
 * replaced. The board must outlive it. NULL on failure. */
gw_control *gw_control_open(const char *dir, gw_board *board, gw_control_take *request, void *context,
                            gw_err *err);
/* Ends the thread and removes the socket. NULL is allowed. */
void gw_control_close(gw_control *control);

/* Client side: sends `request` to the peer that runs in `dir` and returns its answer, which the caller
 * frees. GW_E_NOTFOUND when no peer runs there, GW_E_PEER when one has no socket yet, or no more,
 * GW_E_TIMEOUT when one is silent for some seconds. */
char *gw_control_ask(const char *dir, const char *request, gw_err *err);

#endif
