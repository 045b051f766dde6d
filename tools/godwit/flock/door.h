/* The control socket of a member, DIR/flock.sock with mode 0600, by which the commands of a flock on this machine speak
 * with it. A client sends lines, one JSON object each; the answer to each is a line with a JSON object. Behind a line
 * whose object has "bytes" follow so many bytes, in both directions. An object's "do" names what is asked for (member.h); {"error": TEXT} is the answer to
 * what cannot be done.
 *
 * Thread: the loop's. The client's functions: any. */
#ifndef GODWIT_TOOLS_GODWIT_FLOCK_DOOR_H
#define GODWIT_TOOLS_GODWIT_FLOCK_DOOR_H

#include "core/base/err.h"
#include "net/loop/loop.h"

#include <jansson.h>
#include <stddef.h>

enum {
    GW_MEMBER_DOOR_LINE_BYTES = 1 << 20,
    GW_MEMBER_DOOR_BYTES = 4 << 20, /* behind a request: a chunk */
    GW_MEMBER_DOOR_CLIENTS = 256,
};

#define GW_MEMBER_DOOR_NAME "flock.sock"

typedef struct gw_member_door gw_member_door;
typedef struct gw_member_door_call gw_member_door_call;

/* Serves a request, whose object and `count` bytes live during the call. The callee calls gw_member_door_answer once, now
 * or later. */
typedef void gw_member_door_serve(void *context, gw_member_door_call *call, const json_t *request,
                                  const void *bytes, size_t count);

/* Opens the socket, in place of one that a dead process left. The caller holds the directory's lock. NULL on failure. */
gw_member_door *gw_member_door_open(gw_loop *loop, const char *directory, gw_member_door_serve *serve,
                                    void *context, gw_err *err);
/* Closes all connections. Calls that were not answered are freed. NULL is allowed. */
void gw_member_door_close(gw_member_door *door);

/* Answers a call, which is freed. `answer` is released; `bytes` are copied. A client that has gone is of no matter. */
void gw_member_door_answer(gw_member_door_call *call, json_t *answer, const void *bytes, size_t count);
/* Answers that it cannot be done, and why. */
void gw_member_door_fail(gw_member_door_call *call, const char *text);

/* The client's side of one connection. */
typedef struct gw_member_door_client {
    int fd;
} gw_member_door_client;

/* Connects to the member that runs in `directory`. Fails with GW_E_NOTFOUND where none does. */
bool gw_member_door_connect(const char *directory, gw_member_door_client *client, gw_err *err);
void gw_member_door_disconnect(gw_member_door_client *client);
/* Asks, and waits for the answer for `patience_ns` at most. `request` is released. The caller releases the answer, and
 * frees *bytes (NULL: there are none); `bytes` may be NULL. Fails with GW_E_PEER where the member has gone, and with
 * GW_E_TIMEOUT: nothing can be asked any more then before it was disconnected and connected anew, so that a late answer is
 * taken for none to another request. Fails with GW_E_USAGE and its text where the answer is an error. */
json_t *gw_member_door_ask(gw_member_door_client *client, json_t *request, uint64_t patience_ns, void **bytes,
                           size_t *count, gw_err *err);
/* Does the same with 1 to GW_MEMBER_DOOR_BYTES bytes behind the request; those behind the answer are dropped. */
json_t *gw_member_door_give(gw_member_door_client *client, json_t *request, const void *bytes, size_t count,
                            uint64_t patience_ns, gw_err *err);

#endif
