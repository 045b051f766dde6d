/* The job `digits`: a multi-layer perceptron that learns to tell ten kinds of small images apart (MNIST,
 * Fashion-MNIST, or digits that the binary draws). core/godwit.h says what the table's functions mean. */
#ifndef GODWIT_KERNELS_JOBS_DIGITS_DIGITS_H
#define GODWIT_KERNELS_JOBS_DIGITS_DIGITS_H

#include "core/godwit.h"

extern const gw_job_type gw_job_digits;

#endif
