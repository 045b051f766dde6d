/* The control socket of a running peer: DIR/control.sock, mode 0600. A client sends one line ("status", "peers",
 * "events SINCE", "log SINCE", "series POINTS [KEY,...]", "stop", "force-view", "end" or "read") and gets one JSON
 * object: of the first five that of the HTTP server's /api (api.h), whether the peer serves HTTP or not. After "end"
 * it comes when the peer ends, and says how. After "read" the connection stays, and goes on with the requests of
 * tools/godwit/service. */
#ifndef GODWIT_TOOLS_GODWIT_SHOW_CONTROL_H
#define GODWIT_TOOLS_GODWIT_SHOW_CONTROL_H

#include "core/base/err.h"
#include "tools/godwit/show/api.h"

typedef struct gw_control gw_control;

typedef enum gw_control_request {
    GW_CONTROL_STOP = 1,   /* save a checkpoint and end the whole job */
    GW_CONTROL_FORCE_VIEW, /* go on with the peers that can be reached, without a majority */
} gw_control_request;

/* Called on the control thread for each request: pass it on and return. */
typedef void gw_control_take(void *context, gw_control_request request);

/* Called on the control thread for a client that reads checkpoints; the callee owns the connection. NULL:
 * there is no such request. */
typedef void gw_control_read(void *context, int fd);

/* Serves the socket from a thread of its own. The caller holds the directory's lock: a socket that a dead
 * process left is replaced. What the sources point to must outlive it. Returns NULL on failure. */
gw_control *gw_control_open(const char *dir, const gw_api_sources *sources, gw_control_take *request,
                            gw_control_read *read, void *context, gw_err *err);
/* Ends the thread, tells the clients that wait for it how the peer has ended ("done", "stopped", "unsaved", ...,
 * and more about it or NULL; outcome NULL: it has not ended), and removes the socket. NULL is allowed. */
void gw_control_close(gw_control *control, const char *outcome, const char *text);

/* The client's side: sends `request` to the peer that runs in `dir` and returns its answer, which the
 * caller frees. Fails with GW_E_NOTFOUND when no peer runs there, GW_E_PEER when the peer has no socket
 * yet or no longer, and GW_E_TIMEOUT when it does not answer for some seconds. */
char *gw_control_ask(const char *dir, const char *request, gw_err *err);
/* How a client waits. `waits` is called some twenty times a second while there is no answer, with the time since the
 * peer was asked or was last heard; false gives up, and the request fails with GW_E_TIMEOUT. */
typedef struct gw_control_wait {
    bool (*waits)(void *context, uint32_t waited_ms);
    void *context;
} gw_control_wait;
/* The same for a client that has something else to do while it waits. gw_control_ask tells people on stderr that it
 * waits; this function writes nothing. */
char *gw_control_ask_patiently(const char *dir, const char *request, const gw_control_wait *wait,
                               gw_err *err);
/* Begins to wait for the end of the peer that runs in `dir`. Returns a connection, which the caller closes, or
 * -1 where no peer answers. */
int gw_control_await_end(const char *dir);
/* Reads from such a connection how the peer has ended, without waiting. *text is set to more about it, which the
 * caller frees, or to NULL. Returns false where the peer has not said it: it was killed, or is of an earlier
 * build. */
bool gw_control_read_end(int fd, char *outcome, size_t outcome_size, char **text);
/* Returns a descriptor of the process of the peer that runs in `dir` (pidfd_open(2)), which is readable
 * once the process has ended; the caller closes it. Returns -1 where no peer runs there, or its process is
 * not visible from here. */
int gw_control_process(const char *dir);
/* Connects to the peer that runs in `dir` to read checkpoints from it. Returns a non-blocking socket, or
 * -1, and fails as gw_control_ask does, with GW_E_UNSUPPORTED where the peer is of an earlier build. */
int gw_control_connect(const char *dir, gw_err *err);

#endif
