/* The program that `godwit bench allreduce` compares with: MPI_Allreduce of int64 sums. It is not part of
 * Godwit; mpicc compiles it when the benchmark runs. Its arguments are BYTES and REPEATS; it prints the
 * time of each call in nanoseconds, one on each line. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    if (argc != 3) MPI_Abort(MPI_COMM_WORLD, 2);
    int rank, count = (int)(atol(argv[1]) / 8), repeats = atoi(argv[2]);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int64_t *in = malloc((size_t)count * 8), *out = malloc((size_t)count * 8);
    double *times = malloc((size_t)repeats * sizeof *times);
    for (int i = 0; i < count; i++) in[i] = i * (rank + 1);
    for (int i = -3; i < repeats; i++) { /* three calls to warm up */
        MPI_Barrier(MPI_COMM_WORLD);
        double start = MPI_Wtime();
        MPI_Allreduce(in, out, count, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
        if (i >= 0) times[i] = MPI_Wtime() - start;
    }
    if (rank == 0)
        for (int i = 0; i < repeats; i++) printf("%.0f\n", times[i] * 1e9);
    free(in);
    free(out);
    free(times);
    MPI_Finalize();
    return 0;
}
