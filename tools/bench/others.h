/* Other programs that add vectors, which `godwit bench allreduce` compares with where they are installed: gloo, by
 * a Python with torch, and OpenMPI. They are no parts of Godwit. Their programs lie in tools/bench/ of the tree in
 * which this binary was built, and are looked for there. */
#ifndef GODWIT_TOOLS_BENCH_OTHERS_H
#define GODWIT_TOOLS_BENCH_OTHERS_H

#include "core/base/err.h"
#include "tools/bench/mesh.h"
#include "tools/bench/slow_wire.h"

#include <stdio.h>
#include <sys/types.h>

/* Processes of gloo, one a peer, which wait for measurements. */
typedef struct gw_gloo {
    uint32_t peers;
    pid_t pids[GW_MESH_PEERS];
    int to[GW_MESH_PEERS]; /* their standard inputs; -1: closed */
    FILE *from;            /* standard output of rank 0 */
    char meet[64];         /* the file at which they meet */
    char version[32];      /* "torch 2.8.0" */
} gw_gloo;

/* Starts the processes, by the Python that is named, or by the first one with torch (NULL). `wire`: rank i is on
 * side i; NULL: on loopback. Fails with GW_E_UNSUPPORTED where there is none. */
bool gw_gloo_start(gw_gloo *gloo, const char *python, uint32_t peers, const gw_slow_wire *wire, gw_err *err);
/* Measures `repeats` sums of float32; ns gets their times. */
bool gw_gloo_run(gw_gloo *gloo, uint64_t elements, uint32_t repeats, double *ns, gw_err *err);
void gw_gloo_stop(gw_gloo *gloo);

typedef struct gw_mpi {
    char program[64]; /* compiled by mpicc into a file of its own */
} gw_mpi;

/* Fails with GW_E_UNSUPPORTED where mpicc or mpirun is missing. */
bool gw_mpi_compile(gw_mpi *mpi, gw_err *err);
/* Measures `repeats` sums, over TCP on loopback; `type` is "float" or "int64". */
bool gw_mpi_run(const gw_mpi *mpi, uint32_t peers, const char *type, uint64_t elements, uint32_t repeats,
                double *ns, gw_err *err);
void gw_mpi_remove(const gw_mpi *mpi);

#endif
