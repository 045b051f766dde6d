/* The tasks of a map on a flock, as a file that travels with the job: what stands for {1}, {2} and so on in each.
 *
 * Bytes (core/base/wire.h): "GWMT" and version u8 | tasks u32 | tasks of rising numbers, each: number u32, count u16,
 * and for each value length u32, bytes without a zero byte. A task's place in the list is its position, by which peers
 * name it; its number is what {#} stands for, less one. They differ where an earlier map has done some of the tasks. */
#ifndef GODWIT_TOOLS_GODWIT_MAP_TASK_LIST_H
#define GODWIT_TOOLS_GODWIT_MAP_TASK_LIST_H

#include "core/flock/files.h"
#include "tools/godwit/map/values.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GW_TASK_LIST_NAME GW_JOB_FILES_TASKS

enum { GW_TASK_LIST_VALUES = UINT16_MAX /* of one task */ };

/* Writing: the bytes, which the caller frees. */
typedef struct gw_task_writer {
    uint8_t *bytes;
    size_t length, room;
    uint32_t count;
} gw_task_writer;
/* Adds a task. Fails with GW_E_LIMIT where it has too many values, or the list would be longer than 4 GiB. */
bool gw_task_writer_add(gw_task_writer *writer, uint32_t number, const gw_map_values *values, gw_err *err);
/* Closes the list, which may have no tasks. */
void gw_task_writer_end(gw_task_writer *writer);

/* Reading: a list in memory, which stays the caller's and outlives it. */
typedef struct gw_task_list {
    const uint8_t *bytes;
    size_t length;
    uint64_t *offsets; /* of some of the tasks */
    uint32_t count;
} gw_task_list;
/* Fails with GW_E_INVALID where the bytes are no list, and with GW_E_UNSUPPORTED where they are of a later version. The
 * caller frees a list that was read. */
bool gw_task_list_read(const void *bytes, size_t length, gw_task_list *list, gw_err *err);
void gw_task_list_free(gw_task_list *list);
uint32_t gw_task_list_number(const gw_task_list *list, uint32_t position);
/* The values of a task, which the caller frees. NULL when memory runs out. */
gw_map_values *gw_task_list_values(const gw_task_list *list, uint32_t position);

#endif
