#include "tools/godwit/command/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { PIECE = 1 << 20 };

bool gw_spool_open(gw_output *spool, gw_err *err) {
    const char *given = getenv("TMPDIR"), *folder = given != NULL && given[0] != '\0' ? given : "/tmp";
    char *name;
    *spool = (gw_output){.fd = -1};
    if (asprintf(&name, "%s/godwit-XXXXXX", folder) < 0) return gw_fail(err, GW_E_NOMEM, "out of memory");
    spool->fd = mkostemp(name, O_CLOEXEC);
    if (spool->fd < 0) {
        gw_fail_errno(err, errno, "cannot make a temporary file in %s; TMPDIR names another folder", folder);
        free(name);
        return false;
    }
    unlink(name);
    spool->target = name;
    return true;
}

static bool copy(const gw_output *spool, uint8_t *bytes, gw_err *err) {
    off_t at = 0;
    for (ssize_t got; (got = pread(spool->fd, bytes, PIECE, at)) != 0; at += got) {
        if (got < 0) return gw_fail_errno(err, errno, "cannot read %s", spool->target);
        if (fwrite(bytes, 1, (size_t)got, stdout) != (size_t)got)
            return gw_fail_errno(err, errno, "cannot write to standard output");
    }
    return fflush(stdout) == 0 || gw_fail_errno(err, errno, "cannot write to standard output");
}

bool gw_spool_end(gw_output *spool, bool good, gw_err *err) {
    uint8_t *bytes = good ? malloc(PIECE) : NULL;
    if (good) good = bytes != NULL ? copy(spool, bytes, err) : gw_fail(err, GW_E_NOMEM, "out of memory");
    free(bytes);
    close(spool->fd);
    free(spool->target);
    *spool = (gw_output){.fd = -1};
    return good;
}
