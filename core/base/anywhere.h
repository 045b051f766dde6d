/* GW_ANYWHERE marks functions in headers that run on GPUs as well. They consist of arithmetic alone, and one
 * definition gives one result everywhere. Such headers must also be valid C++, which nvcc compiles. */
#ifndef GODWIT_CORE_BASE_ANYWHERE_H
#define GODWIT_CORE_BASE_ANYWHERE_H

#ifdef __CUDACC__
#define GW_ANYWHERE __host__ __device__
#else
#define GW_ANYWHERE
#endif

#endif
