/* `godwit bench WHAT`: measurements of this machine. One file each; each parses its own options (argp, with
 * --help), prints a table that a person can read, and returns the exit code: 0, 1 for a failure, 2 for usage.
 * argv[0] is what messages call it ("godwit bench steal"). */
#ifndef GODWIT_TOOLS_BENCH_BENCH_H
#define GODWIT_TOOLS_BENCH_BENCH_H

int gw_bench_allreduce(int argc, char **argv);  /* int64 all-reduce between processes over TCP */
int gw_bench_steal(int argc, char **argv);      /* a steal's round trip over TCP */
int gw_bench_write(int argc, char **argv);      /* large messages one way, by any path */
int gw_bench_aead(int argc, char **argv);       /* encryption, one core */
int gw_bench_accumulate(int argc, char **argv); /* rounding and adding exactly */
int gw_bench_digits(int argc, char **argv);     /* CPU time of training against that of its GEMMs alone */
int gw_bench_gpu(int argc, char **argv);        /* exact adding, optimizers, products, training */
int gw_bench_gpt(int argc, char **argv);        /* a training step, and what it is made of */
int gw_bench_checkpoint(int argc, char **argv); /* hashing, writing and restoring a state */

#endif
