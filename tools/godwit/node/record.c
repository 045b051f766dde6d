#include "tools/godwit/node/record.h"

#include <string.h>

void gw_node_record_seal(uint8_t *bytes, size_t length) {
    gw_blake2b(bytes, length, bytes + length, GW_NODE_RECORD_CHECKSUM);
}

bool gw_node_record_open(const uint8_t *bytes, size_t size, size_t *length) {
    uint8_t checksum[GW_NODE_RECORD_CHECKSUM];
    if (size < sizeof checksum) return false;
    *length = size - sizeof checksum;
    gw_blake2b(bytes, *length, checksum, sizeof checksum);
    return memcmp(bytes + *length, checksum, sizeof checksum) == 0;
}
