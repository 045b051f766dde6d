#include "tools/bench/records.h"

#include "core/os/clock.h"

#include <stdlib.h>

bool gw_record_measure_speed(gw_sealing sealing, uint32_t record_bytes, uint64_t bytes,
                             gw_record_speed *speed, gw_err *err) {
    static const uint8_t key[32] = {1, 2, 3};
    gw_cipher seal, open;
    uint64_t seal_ns = 0, open_ns = 0, count = 0;
    uint8_t *plain = calloc(record_bytes, 1),
            *record = malloc(record_bytes + GW_RECORD_HEADER + GW_RECORD_TAG);
    bool done = (plain != NULL && record != NULL) || gw_fail(err, GW_E_NOMEM, "out of memory");
    gw_cipher_start(&seal, sealing.algorithm, key, record_bytes);
    gw_cipher_start(&open, sealing.algorithm, key, record_bytes);
    gw_cipher_prefer_libcrypto(&seal, sealing.libcrypto_from);
    gw_cipher_prefer_libcrypto(&open, sealing.libcrypto_from);
    for (; count < bytes && done; count += record_bytes) {
        uint64_t start = gw_now_ns();
        done = gw_record_seal(&seal, plain, record_bytes, false, record, err);
        uint64_t middle = gw_now_ns();
        done = done && gw_record_open(&open, record, gw_record_bytes(&open, record_bytes), plain, err);
        seal_ns += middle - start;
        open_ns += gw_now_ns() - middle;
    }
    if (done) *speed = (gw_record_speed){(double)count / (double)seal_ns, (double)count / (double)open_ns};
    gw_cipher_wipe(&seal);
    gw_cipher_wipe(&open);
    free(plain);
    free(record);
    return done;
}
