#include "core/godwit.h"

#include "core/base/assert.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

uint64_t gw_tensor_elements(const gw_tensor *tensor) {
    GW_ASSERT(tensor->rank >= 1 && tensor->rank <= GW_MAX_RANK);
    uint64_t elements = 1;
    for (uint32_t i = 0; i < tensor->rank; i++) elements *= tensor->dim[i];
    return elements;
}

size_t gw_dtype_bytes(gw_dtype dtype) {
    static const size_t bytes[] = {
        [GW_F32] = 4, [GW_F64] = 8, [GW_I32] = 4, [GW_I64] = 8, [GW_U8] = 1, [GW_BF16] = 2};
    GW_ASSERT(dtype >= GW_F32 && dtype <= GW_BF16);
    return bytes[dtype];
}

const char *gw_param_text(const gw_params *params, const char *name) {
    for (uint32_t i = 0; i < params->count; i++)
        if (strcmp(params->list[i].name, name) == 0) return params->list[i].value;
    return NULL;
}

static bool present(const gw_params *params, const char *name, const char **text, gw_err *err) {
    *text = gw_param_text(params, name);
    if (*text == NULL) return gw_fail(err, GW_E_USAGE, "--%s is needed", name);
    return true;
}

static int64_t suffix_factor(const char *suffix) {
    if (suffix[0] == '\0') return 1;
    if (suffix[1] != '\0') return 0;
    switch (suffix[0]) {
    case 'k':
    case 'K':
        return 1 << 10;
    case 'm':
    case 'M':
        return 1 << 20;
    case 'g':
    case 'G':
        return 1 << 30;
    default:
        return 0;
    }
}

bool gw_param_integer(const gw_params *params, const char *name, int64_t least, int64_t most, bool bytes,
                      int64_t *value, gw_err *err) {
    const char *text;
    if (!present(params, name, &text, err)) return false;
    char *end;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    int64_t factor = bytes ? suffix_factor(end) : *end == '\0';
    int64_t scaled;
    bool bad =
        end == text || errno != 0 || factor == 0 || __builtin_mul_overflow((int64_t)number, factor, &scaled);
    if (bad || scaled < least || scaled > most)
        return gw_fail(err, GW_E_USAGE, "--%s: '%s' is not a whole number from %lld to %lld", name, text,
                       (long long)least, (long long)most);
    *value = scaled;
    return true;
}

bool gw_param_real(const gw_params *params, const char *name, double least, double most, double *value,
                   gw_err *err) {
    const char *text;
    if (!present(params, name, &text, err)) return false;
    char *end;
    double number = strtod(text, &end);
    if (end == text || *end != '\0' || !isfinite(number) || number < least || number > most)
        return gw_fail(err, GW_E_USAGE, "--%s: '%s' is not a number from %g to %g", name, text, least, most);
    *value = number;
    return true;
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
