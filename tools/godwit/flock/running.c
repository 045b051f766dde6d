#include "tools/godwit/flock/running.h"

#include "core/base/assert.h"
#include "core/base/wire.h"
#include "core/os/durable.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { FILE_BYTES = 1 << 20, DEATHS = 1000 };

#define RUNNING "running"

int gw_running_open(const char *folder, gw_err *err) {
    char path[GW_PATH_BYTES];
    if (!gw_durable_path(path, err, "%s/" RUNNING, folder)) return -1;
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) gw_fail_errno(err, errno, "%s cannot be made", path);
    return fd;
}

bool gw_running_note(int fd, uint32_t slot, uint32_t task, gw_err *err) {
    uint8_t bytes[4];
    gw_writer w = gw_writer_on(bytes, sizeof bytes);
    gw_put_u32(&w, task + 1);
    return pwrite(fd, bytes, sizeof bytes, (off_t)slot * (off_t)sizeof bytes) == (ssize_t)sizeof bytes ||
           gw_fail_errno(err, errno, "what runs cannot be noted in the folder of the job");
}

static int by_number(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static bool read_file(const char *path, uint32_t **tasks, uint32_t *count) {
    void *bytes;
    size_t length;
    gw_err ignored;
    *count = 0;
    if (!gw_durable_read(gw_io_system(), path, FILE_BYTES, &bytes, &length, &ignored)) return false;
    gw_reader r = gw_reader_on(bytes, length);
    *tasks = malloc(length + sizeof **tasks);
    GW_ASSERT_MEMORY(*tasks != NULL);
    while (gw_reader_left(&r) >= 4) {
        uint32_t task = gw_get_u32(&r);
        if (task > 0) (*tasks)[(*count)++] = task - 1;
    }
    free(bytes);
    qsort(*tasks, *count, sizeof **tasks, by_number);
    return true;
}

bool gw_running_read(const char *folder, uint32_t number, uint32_t **tasks, uint32_t *count) {
    char path[GW_PATH_BYTES];
    gw_err ignored;
    return gw_durable_path(path, &ignored, "%s/killed.%u", folder, number) && read_file(path, tasks, count);
}

uint32_t gw_running_killed(const char *folder) {
    char running[GW_PATH_BYTES], path[GW_PATH_BYTES];
    uint32_t *tasks, count, number = 1;
    gw_err ignored;
    if (!gw_durable_path(running, &ignored, "%s/" RUNNING, folder) || !read_file(running, &tasks, &count))
        return 0;
    free(tasks);
    while (number < DEATHS && gw_durable_path(path, &ignored, "%s/killed.%u", folder, number) &&
           access(path, F_OK) == 0)
        number++;
    return count > 0 && number < DEATHS && rename(running, path) == 0 ? number : 0;
}
