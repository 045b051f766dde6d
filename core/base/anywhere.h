/* What is defined in a header with GW_ANYWHERE runs on GPUs as well: it is arithmetic alone, and one
 * definition gives one result. Such headers must also be C++, as nvcc compiles nothing else. */
#ifndef GODWIT_CORE_BASE_ANYWHERE_H
#define GODWIT_CORE_BASE_ANYWHERE_H

#ifdef __CUDACC__
#define GW_ANYWHERE __host__ __device__
#else
#define GW_ANYWHERE
#endif

#endif
