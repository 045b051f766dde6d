/* Errors are values that travel up and gather context on the way:
 * "checkpoint/store: chunk 1f3a... of step 400: hash differs".
 *
 * A function that can fail returns bool (true = done) and takes a `gw_err *err` as its last parameter, which
 * it fills on failure only. `err` is never NULL. Thread: a gw_err belongs to its caller. */
#ifndef GODWIT_CORE_BASE_ERR_H
#define GODWIT_CORE_BASE_ERR_H

#include <stdbool.h>
#include <stddef.h>

typedef enum gw_code {
    GW_OK = 0,
    GW_E_USAGE,    /* the user asked for something that makes no sense: exit code 2 */
    GW_E_INVALID,  /* malformed input: a file, a packet, a parameter */
    GW_E_CORRUPT,  /* well-formed once, damaged now: a hash or length differs */
    GW_E_IO,       /* the operating system refused: the text names the call and strerror */
    GW_E_NOMEM,    /* out of memory */
    GW_E_NOTFOUND, /* no such file, chunk, peer */
    GW_E_LIMIT,    /* a stated bound was exceeded */
    GW_E_TIMEOUT,  /* a deadline passed without progress */
    GW_E_UNHEARD,  /* the other side did not acknowledge in time what was sent on a connection that stood */
    GW_E_ABORTED,  /* stopped on purpose by its owner */
    GW_E_PEER,     /* the other side is gone, broke the protocol, or refused the connection */
    GW_E_DENIED,   /* not authentic, or not allowed */
    GW_E_FENCED,   /* belongs to another view */
    GW_E_UNSUPPORTED, /* not in this build or on this machine */
} gw_code;

typedef struct gw_err {
    gw_code code;
    char text[500];
} gw_err;

/* Sets *err and returns false, so that `return gw_fail(err, ...)` reads well. */
bool gw_fail(gw_err *err, gw_code code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Like gw_fail with GW_E_IO, and appends ": " and strerror(errno_value). ENOMEM becomes GW_E_NOMEM. */
bool gw_fail_errno(gw_err *err, int errno_value, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Like gw_fail_errno, for a file or a folder that a user has named: one that does not exist is GW_E_USAGE. */
bool gw_fail_named(gw_err *err, int errno_value, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Makes the failure of a step GW_E_USAGE where what a user has named is missing, or is not what it must be
 * (GW_E_NOTFOUND, GW_E_INVALID, GW_E_UNSUPPORTED). Returns `good`; *err is set unless that is true. */
bool gw_blame_named(bool good, gw_err *err);

/* Like gw_fail_errno, for a thread that pthread_create did not start; the text also says what limits
 * threads. */
bool gw_fail_thread(gw_err *err, int errno_value, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Puts context in front of an error that is already set ("context: text") and returns false. */
bool gw_fail_in(gw_err *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
