#include "tools/godwit/command/flock/token.h"

#include "core/base/id.h"
#include "tools/godwit/flock/member.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { DIGITS = GW_TOKEN_TEXT - 1 };

/* False, with err->code GW_E_NOTFOUND, where there is none. */
static bool read_token(char token[GW_TOKEN_TEXT], gw_err *err) {
    int fd = open(GW_MEMBER_TOKEN_NAME, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) return gw_fail(err, GW_E_NOTFOUND, "there is no %s", GW_MEMBER_TOKEN_NAME);
    if (fd < 0) return gw_fail_errno(err, errno, "%s cannot be read", GW_MEMBER_TOKEN_NAME);
    ssize_t got = read(fd, token, DIGITS);
    close(fd);
    token[DIGITS] = '\0';
    return (got == DIGITS && strspn(token, "0123456789abcdef") == DIGITS) ||
           gw_fail(err, GW_E_INVALID, "%s holds something else than Godwit has written: remove it",
                   GW_MEMBER_TOKEN_NAME);
}

/* Writes a token under a name of its own, and gives it its name in one step, so that nobody reads half of it. */
static bool make_token(gw_err *err) {
    uint8_t bytes[DIGITS / 2];
    char text[DIGITS + 2], temporary[40];
    snprintf(temporary, sizeof temporary, "%s.%ld", GW_MEMBER_TOKEN_NAME, (long)getpid());
    randombytes_buf(bytes, sizeof bytes);
    gw_hex(bytes, sizeof bytes, text);
    strcat(text, "\n");
    int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) return gw_fail_errno(err, errno, "nothing can be written here");
    bool good = write(fd, text, DIGITS + 1) == DIGITS + 1;
    good = close(fd) == 0 && good;
    good = good && (link(temporary, GW_MEMBER_TOKEN_NAME) == 0 || errno == EEXIST);
    if (!good) gw_fail_errno(err, errno, "%s cannot be written", GW_MEMBER_TOKEN_NAME);
    unlink(temporary);
    return good;
}

bool gw_token_take(char token[GW_TOKEN_TEXT], gw_err *err) {
    if (read_token(token, err)) return true;
    return err->code == GW_E_NOTFOUND && make_token(err) && read_token(token, err);
}
