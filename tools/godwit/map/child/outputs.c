#include "tools/godwit/map/child/outputs.h"

#include "core/base/assert.h"
#include "core/base/wire.h"
#include "core/os/durable.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const uint8_t MAGIC[] = {'G', 'W', 'M', 'O'};

bool gw_outputs_read_head(const void *bytes, gw_outputs_head *head) {
    gw_reader r = gw_reader_on(bytes, GW_OUTPUTS_HEAD_BYTES);
    const uint8_t *magic = gw_get_view(&r, sizeof MAGIC);
    head->task = gw_get_u32(&r);
    head->attempt = gw_get_u32(&r);
    head->output = gw_get_u64(&r);
    head->errors = gw_get_u64(&r);
    head->files = gw_get_u64(&r);
    return memcmp(magic, MAGIC, sizeof MAGIC) == 0 && head->output <= INT64_MAX / 4 &&
           head->errors <= INT64_MAX / 4 && head->files <= INT64_MAX / 4;
}

/* The end of the last whole frame. */
static off_t find_end(int fd, off_t size) {
    uint8_t bytes[GW_OUTPUTS_HEAD_BYTES];
    gw_outputs_head head;
    off_t at = 0;
    while (pread(fd, bytes, sizeof bytes, at) == (ssize_t)sizeof bytes &&
           gw_outputs_read_head(bytes, &head)) {
        uint64_t next = (uint64_t)at + GW_OUTPUTS_HEAD_BYTES + head.output + head.errors + head.files;
        if (next > (uint64_t)size) break;
        at = (off_t)next;
    }
    return at;
}

int gw_outputs_open(const char *folder, gw_err *err) {
    char path[GW_PATH_BYTES];
    if (!gw_durable_path(path, err, "%s/%s", folder, GW_OUTPUTS_NAME)) return -1;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    off_t size = fd >= 0 ? lseek(fd, 0, SEEK_END) : -1, end = size >= 0 ? find_end(fd, size) : -1;
    if (end >= 0 && ftruncate(fd, end) == 0 && lseek(fd, end, SEEK_SET) == end) return fd;
    gw_fail_errno(err, errno, "%s cannot be opened", path);
    if (fd >= 0) close(fd);
    return -1;
}

static bool write_all(int fd, const void *bytes, size_t length, gw_err *err) {
    return gw_durable_write_fd(gw_io_system(), fd, GW_OUTPUTS_NAME, bytes, length, err);
}

static bool add(int fd, gw_map_store *store, const gw_map_output *output, gw_err *err) {
    uint8_t *piece = output->piece_count > 0 ? malloc(GW_MAP_PIECE_BYTES) : NULL;
    GW_ASSERT_MEMORY(output->piece_count == 0 || piece != NULL);
    bool good = true;
    for (uint32_t i = 0; good && i < output->piece_count; i++)
        good = gw_map_output_read(store, output, i, piece, err) &&
               write_all(fd, piece, output->pieces[i].length, err);
    free(piece);
    return good && (output->length == 0 || write_all(fd, output->bytes, output->length, err));
}

static uint64_t bytes_of(const gw_map_output *output) {
    uint64_t bytes = output->length;
    for (uint32_t i = 0; i < output->piece_count; i++) bytes += output->pieces[i].length;
    return bytes;
}

bool gw_outputs_add(int fd, gw_map_store *store, uint32_t task, uint32_t attempt,
                    const gw_map_written *written, gw_err *err) {
    uint8_t head[GW_OUTPUTS_HEAD_BYTES];
    gw_writer w = gw_writer_on(head, sizeof head);
    gw_put_bytes(&w, MAGIC, sizeof MAGIC);
    gw_put_u32(&w, task);
    gw_put_u32(&w, attempt);
    gw_put_u64(&w, bytes_of(&written->output));
    gw_put_u64(&w, bytes_of(&written->errors));
    gw_put_u64(&w, bytes_of(&written->files));
    GW_ASSERT(!w.failed && w.length == sizeof head);
    return write_all(fd, head, sizeof head, err) && add(fd, store, &written->output, err) &&
           add(fd, store, &written->errors, err) && add(fd, store, &written->files, err);
}
