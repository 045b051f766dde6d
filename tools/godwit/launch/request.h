/* What `godwit launch` sends to its other end on each host, by the standard input of an ssh connection: the request, and
 * after it single bytes, by which that end knows that the connection stands and what it is asked to do. No argument of
 * the command goes through a shell.
 *
 * The other end answers by one line, GW_LAUNCH_HELLO, a blank and the id of its build, before the command's output.
 * Any thread. */
#ifndef GODWIT_TOOLS_GODWIT_LAUNCH_REQUEST_H
#define GODWIT_TOOLS_GODWIT_LAUNCH_REQUEST_H

#include "core/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GW_LAUNCH_HELLO "\001godwit-launch 1"

enum {
    GW_LAUNCH_HEAD = 8,          /* bytes of a request's head: magic, version, length of the rest */
    GW_LAUNCH_BYTES = 1 << 20,   /* of a request without its head, at most */
    GW_LAUNCH_ARGUMENTS = 4096,  /* at most */
    GW_LAUNCH_KEY_BYTES = 16384, /* at most, of a key file */
    GW_LAUNCH_BEAT_S = 5,        /* how often the launcher says that it is there */
    GW_LAUNCH_SILENCE_S = 60, /* the usual silence after which the other end takes the connection for lost */
};

/* What the single bytes mean. */
typedef enum gw_launch_word {
    GW_LAUNCH_BEAT = '.',
    GW_LAUNCH_LEAVE = 'T', /* SIGTERM to the command */
    GW_LAUNCH_KILL = 'K',  /* SIGKILL */
} gw_launch_word;

typedef struct gw_launch_request {
    bool detach;          /* the command goes on when the connection is lost; otherwise it gets SIGTERM */
    uint16_t silence_s;   /* after so many seconds of it the connection is lost; at least 1 */
    char *directory;      /* to change to first; "" = none */
    char *key_name, *key; /* the key file's name there, and its text; "" = none */
    uint32_t argc;
    char **argv; /* the arguments of `godwit`, from the command's name on */
} gw_launch_request;

/* Makes the bytes of a request, with their head; the caller frees *bytes. Fails with GW_E_LIMIT where it is too large. */
bool gw_launch_request_encode(const gw_launch_request *request, void **bytes, size_t *length, gw_err *err);

/* Reads a head. Sets the length of what follows. Fails with GW_E_INVALID, or GW_E_UNSUPPORTED for another version. */
bool gw_launch_request_head(const uint8_t head[GW_LAUNCH_HEAD], size_t *length, gw_err *err);

/* Reads what follows the head. Fails with GW_E_INVALID. On success the caller calls gw_launch_request_free. */
bool gw_launch_request_decode(const void *bytes, size_t length, gw_launch_request *request, gw_err *err);

/* Frees a decoded request; the key is overwritten first. */
void gw_launch_request_free(gw_launch_request *request);

#endif
