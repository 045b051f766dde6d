/* The inputs of one task of a map: the texts that stand for {1}, {2} and so on. One block of memory. */
#ifndef GODWIT_TOOLS_GODWIT_MAP_VALUES_H
#define GODWIT_TOOLS_GODWIT_MAP_VALUES_H

#include <stddef.h>
#include <stdint.h>

typedef struct gw_map_values {
    uint32_t count;
    char *text[]; /* `count` texts, which lie behind the pointers */
} gw_map_values;

/* Copies texts of these lengths, which have no zero byte, into a block that the caller frees. NULL when memory runs out. */
gw_map_values *gw_map_values_make(uint32_t count, const char *const *texts, const size_t *lengths);

/* The bytes of the texts, with a space between two. */
size_t gw_map_values_bytes(const gw_map_values *values);
/* Writes the texts with a space between two, and no zero behind them. */
void gw_map_values_join(const gw_map_values *values, char *to);

#endif
