#include "core/godwit.h"

#include "core/base/assert.h"

#include <math.h>

uint64_t gw_tensor_elements(const gw_tensor *tensor) {
    GW_ASSERT(tensor->rank >= 1 && tensor->rank <= GW_MAX_RANK);
    uint64_t elements = 1;
    for (uint32_t i = 0; i < tensor->rank; i++) elements *= tensor->dim[i];
    return elements;
}

size_t gw_dtype_bytes(gw_dtype dtype) {
    static const size_t bytes[] = {[GW_F32] = 4,  [GW_F64] = 8, [GW_I32] = 4, [GW_I64] = 8, [GW_U8] = 1,
                                   [GW_BF16] = 2, [GW_F16] = 2, [GW_I16] = 2, [GW_I8] = 1,  [GW_BOOL] = 1};
    GW_ASSERT(dtype >= GW_F32 && dtype <= GW_DTYPE_LAST);
    return bytes[dtype];
}

double gw_sum_value(const gw_sums *sums, uint32_t tensor, uint64_t i) {
    return ldexp((double)sums->data[tensor][i], -(int)sums->tensors[tensor].frac_bits);
}

/* Each of 256 members at most rounds what it adds, and each addition rounds, by 2^-24 of the sum. */
bool gw_sum_counted(const gw_sums *sums, uint32_t tensor, uint64_t expected) {
    const double whole = 0x1p24, most = 0x1p-15;
    double found = gw_sum_value(sums, tensor, 0), wanted = (double)expected;
    return wanted <= whole ? found == wanted : fabs(found - wanted) <= wanted * most;
}

const char *gw_dtype_name(gw_dtype dtype) {
    static const char *const names[] = {
        [GW_F32] = "f32",   [GW_F64] = "f64", [GW_I32] = "i32", [GW_I64] = "i64", [GW_U8] = "u8",
        [GW_BF16] = "bf16", [GW_F16] = "f16", [GW_I16] = "i16", [GW_I8] = "i8",   [GW_BOOL] = "bool",
    };
    return names[dtype];
}
