/* The program that `godwit bench allreduce` compares with: MPI_Allreduce of sums. It is not part of
 * Godwit; mpicc compiles it when the benchmark runs. Its arguments are ELEMENTS, REPEATS and their type, float or
 * int64; it prints the time of each call in nanoseconds, one on each line. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    if (argc != 4) MPI_Abort(MPI_COMM_WORLD, 2);
    int rank, count = atoi(argv[1]), repeats = atoi(argv[2]), whole = strcmp(argv[3], "int64") == 0;
    MPI_Datatype type = whole ? MPI_INT64_T : MPI_FLOAT;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    void *in = malloc((size_t)count * 8), *out = malloc((size_t)count * 8);
    double *times = malloc((size_t)repeats * sizeof *times);
    for (int i = 0; i < count; i++) {
        if (whole)
            ((int64_t *)in)[i] = i * (rank + 1);
        else
            ((float *)in)[i] = (float)i * (float)(rank + 1);
    }
    for (int i = -3; i < repeats; i++) { /* three calls to warm up */
        MPI_Barrier(MPI_COMM_WORLD);
        double start = MPI_Wtime();
        MPI_Allreduce(in, out, count, type, MPI_SUM, MPI_COMM_WORLD);
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
