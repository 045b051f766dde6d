#include "core/base/err.h"

#include "core/base/assert.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool gw_fail(gw_err *err, gw_code code, const char *format, ...) {
    GW_ASSERT(err != NULL && code != GW_OK);
    va_list args;
    va_start(args, format);
    err->code = code;
    vsnprintf(err->text, sizeof err->text, format, args);
    va_end(args);
    return false;
}

static void append(gw_err *err, const char *before, const char *text) {
    size_t used = strlen(err->text);
    snprintf(err->text + used, sizeof err->text - used, "%s%s", before, text);
}

static void fail_errno(gw_err *err, int errno_value, const char *format, va_list args) {
    GW_ASSERT(err != NULL);
    err->code = errno_value == ENOMEM ? GW_E_NOMEM : GW_E_IO;
    vsnprintf(err->text, sizeof err->text, format, args);
    append(err, ": ", strerror(errno_value));
}

bool gw_fail_errno(gw_err *err, int errno_value, const char *format, ...) {
    va_list args;
    va_start(args, format);
    fail_errno(err, errno_value, format, args);
    va_end(args);
    return false;
}

bool gw_fail_named(gw_err *err, int errno_value, const char *format, ...) {
    va_list args;
    va_start(args, format);
    fail_errno(err, errno_value, format, args);
    va_end(args);
    if (errno_value == ENOENT || errno_value == ENOTDIR) err->code = GW_E_USAGE;
    return false;
}

bool gw_blame_named(bool good, gw_err *err) {
    if (!good && (err->code == GW_E_NOTFOUND || err->code == GW_E_INVALID || err->code == GW_E_UNSUPPORTED))
        err->code = GW_E_USAGE;
    return good;
}

/* pthread_create returns EAGAIN both for too many threads and for too little memory for a stack. */
bool gw_fail_thread(gw_err *err, int errno_value, const char *format, ...) {
    va_list args;
    va_start(args, format);
    fail_errno(err, errno_value, format, args);
    va_end(args);
    if (errno_value == EAGAIN || errno_value == ENOMEM)
        append(err, "", " (no more threads: see `ulimit -u` and `ulimit -v`, and the container's limits)");
    return false;
}

bool gw_fail_in(gw_err *err, const char *format, ...) {
    GW_ASSERT(err != NULL && err->code != GW_OK);
    char inner[sizeof err->text];
    memcpy(inner, err->text, sizeof inner);
    va_list args;
    va_start(args, format);
    vsnprintf(err->text, sizeof err->text, format, args);
    va_end(args);
    append(err, ": ", inner);
    return false;
}
