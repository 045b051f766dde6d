/* A stand-in for cuBLASLt, which kernels/cuda/math/gemm.c opens instead of the real one: loops in float64,
 * with factors rounded as a GPU rounds them. */
#ifndef GODWIT_TESTS_GPU_FAKE_FAKE_CUBLASLT_H
#define GODWIT_TESTS_GPU_FAKE_FAKE_CUBLASLT_H

#include <cublasLt.h>
#include <stdbool.h>
#include <stdint.h>

/* From now on there is no algorithm for products that end so. With `status` it is said as the library says
 * it: CUBLAS_STATUS_NOT_SUPPORTED, or CUBLAS_STATUS_SUCCESS and no answer. */
void fake_cublaslt_refuse(cublasLtEpilogue_t epilogue, cublasStatus_t status);

typedef struct fake_cublaslt_algorithm {
    float waves;    /* in which it does a product */
    uint32_t parts; /* of the inner dimension; 0 or 1: it is not split */
    bool broken;    /* it is named, and cannot be taken */
} fake_cublaslt_algorithm;

/* The algorithms it names from now on for any product, each time with some bytes that mean nothing; and which
 * of them, from 0 on, the latest product was told to take. */
void fake_cublaslt_answer(const fake_cublaslt_algorithm *algorithms, uint32_t count);
uint64_t fake_cublaslt_answer_used(void);

/* The version it has from now on, as CUBLAS_VERSION counts; asked once in a process. */
void fake_cublaslt_version(size_t version);

#endif
