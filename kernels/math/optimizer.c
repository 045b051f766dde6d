#include "kernels/math/optimizer.h"

#include "kernels/math/clones.h"
#include "kernels/math/optimizer_element.h"

GW_CLONES void gw_optimizer_sgd(const gw_sgd *sgd, size_t count, const int64_t *restrict sum,
                                float *restrict parameters, float *restrict velocity) {
    gw_sgd own = *sgd;
    for (size_t i = 0; i < count; i++) gw_sgd_element(own, sum[i], &parameters[i], &velocity[i]);
}

GW_CLONES void gw_optimizer_adamw(const gw_adamw *adamw, size_t count, const int64_t *restrict sum,
                                  float *restrict parameters, float *restrict first, float *restrict second) {
    gw_adamw own = *adamw;
    for (size_t i = 0; i < count; i++) gw_adamw_element(own, sum[i], &parameters[i], &first[i], &second[i]);
}

bool gw_adamw_check_epsilon(double epsilon, double error, gw_err *err) {
    return epsilon >= error ||
           gw_fail(err, GW_E_USAGE,
                   "--epsilon: %g is too small: the mean gradient of this batch is summed in units of %.2g",
                   epsilon, error);
}
