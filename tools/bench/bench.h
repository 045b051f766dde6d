/* `godwit bench WHAT`: measurements of this machine, one file each. Each parses its own options (argp,
 * with --help), prints a table for people, and returns the exit code: 0, 1 for a failure, 2 for an error
 * in the command line. argv[0] is its name in messages ("godwit bench steal"). */
#ifndef GODWIT_TOOLS_BENCH_BENCH_H
#define GODWIT_TOOLS_BENCH_BENCH_H

int gw_bench_allreduce(int argc, char **argv);  /* int64 all-reduce between processes, over any path */
int gw_bench_steal(int argc, char **argv);      /* the round trip of a steal, over any path */
int gw_bench_write(int argc, char **argv);      /* large messages in one direction, over any path */
int gw_bench_aead(int argc, char **argv);       /* encryption on one core */
int gw_bench_accumulate(int argc, char **argv); /* rounding and exact addition */
int gw_bench_pack(int argc, char **argv);       /* packing, unpacking and adding of exact sums */
/* CPU time of training, compared with that of its matrix products alone */
int gw_bench_digits(int argc, char **argv);
int gw_bench_gpu(int argc, char **argv);        /* exact addition, optimizers, matrix products, training */
int gw_bench_gpt(int argc, char **argv);        /* a training step, and its parts */
int gw_bench_checkpoint(int argc, char **argv); /* hashing, writing and restoring a state */
int gw_bench_trace(int argc, char **argv);      /* a place that records for a trace */
int gw_bench_map(int argc, char **argv);        /* commands a second, beside a bare loop and GNU parallel */

#endif
