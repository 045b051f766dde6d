#include "core/record/sealed.h"

#include <string.h>

void gw_record_file_seal(uint8_t *bytes, size_t length) {
    gw_blake2b(bytes, length, bytes + length, GW_RECORD_FILE_CHECKSUM);
}

bool gw_record_file_open(const uint8_t *bytes, size_t size, size_t *length) {
    uint8_t checksum[GW_RECORD_FILE_CHECKSUM];
    if (size < sizeof checksum) return false;
    *length = size - sizeof checksum;
    gw_blake2b(bytes, *length, checksum, sizeof checksum);
    return memcmp(bytes + *length, checksum, sizeof checksum) == 0;
}
