#include "tools/godwit/flock/history.h"

#include "core/os/clock.h"
#include "core/os/durable.h"
#include "tools/godwit/text/json.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void gw_job_history_add(const char *folder, json_t *event) {
    char path[GW_PATH_BYTES];
    struct stat status;
    gw_err err;
    gw_json_real(event, "time", gw_wall_s());
    char *text = gw_json_line(event);
    json_decref(event);
    size_t length = text != NULL ? strlen(text) : 0;
    int fd = -1;
    if (length > 0 && gw_durable_path(path, &err, "%s/" GW_JOB_HISTORY_NAME, folder)) {
        mkdir(folder, 0700);
        fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    }
    if (fd >= 0 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
        (size_t)status.st_size + length < GW_JOB_HISTORY_BYTES) {
        text[length] = '\n'; /* in place of the final zero */
        ssize_t done = write(fd, text, length + 1);
        /* A line is there as a whole or not at all, so that the next one can be read. */
        if (done >= 0 && (size_t)done <= length && ftruncate(fd, status.st_size) != 0) unlink(path);
    }
    if (fd >= 0) close(fd);
    free(text);
}
