/* The job `digits`: a multi-layer perceptron that learns to tell ten kinds of small images apart (MNIST,
 * Fashion-MNIST, or digits that the program draws). core/godwit.h documents the functions of the table. */
#ifndef GODWIT_KERNELS_JOBS_DIGITS_DIGITS_H
#define GODWIT_KERNELS_JOBS_DIGITS_DIGITS_H

#include "core/godwit.h"

extern const gw_job_type gw_job_digits;

#endif
