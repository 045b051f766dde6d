/* `godwit bench WHAT` runs one of the measurements in tools/bench/. */
#include "tools/bench/bench.h"
#include "kernels/device/class.h"
#include "tools/godwit/command/commands.h"
#include "tools/godwit/options/command_line.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    char *title;
    int (*main)(int argc, char **argv);
    const char *about;
} benches[] = {
    {"allreduce", (char[]){"godwit bench allreduce"}, gw_bench_allreduce,
     "all-reduce between processes, over any path"},
    {"steal", (char[]){"godwit bench steal"}, gw_bench_steal, "the round trip of a steal, over any path"},
    {"write", (char[]){"godwit bench write"}, gw_bench_write,
     "large messages in one direction, over any path"},
    {"aead", (char[]){"godwit bench aead"}, gw_bench_aead, "encryption on one core"},
    {"accumulate", (char[]){"godwit bench accumulate"}, gw_bench_accumulate, "rounding and exact addition"},
    {"pack", (char[]){"godwit bench pack"}, gw_bench_pack, "packing exact sums, and adding packed ones"},
    {"checkpoint", (char[]){"godwit bench checkpoint"}, gw_bench_checkpoint,
     "hashing, writing and restoring a state"},
    {"digits", (char[]){"godwit bench digits"}, gw_bench_digits,
     "training, compared with its matrix products alone"},
    {"gpu", (char[]){"godwit bench gpu"}, gw_bench_gpu, "a GPU as jobs use it"},
    {"gpt", (char[]){"godwit bench gpt"}, gw_bench_gpt, "a training step of gpt, and its parts"},
    {"trace", (char[]){"godwit bench trace"}, gw_bench_trace, "a place that records for 'godwit trace'"},
    {"map", (char[]){"godwit bench map"}, gw_bench_map, "commands a second by 'godwit map'"},
};

enum { BENCHES = sizeof benches / sizeof benches[0] };

static void print_help(FILE *out) {
    fputs("Usage: godwit bench WHAT [OPTION...]\nMeasures a part of Godwit on this machine.\n\n", out);
    for (size_t i = 0; i < BENCHES; i++) fprintf(out, "  %-12s %s\n", benches[i].name, benches[i].about);
    fputs("\n'godwit bench WHAT --help' lists the options of a measurement.\n"
          "'./build.sh bench' measures whole flocks.\n",
          out);
}

int gw_bench_main(int argc, char **argv) {
    if (argc < 2) {
        print_help(stderr);
        return 2;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        print_help(stdout);
        return 0;
    }
    for (size_t i = 0; i < BENCHES; i++) {
        if (strcmp(argv[1], benches[i].name) != 0) continue;
        gw_err err; /* a measurement computes on the same compute class as `godwit run` */
        char **whole = gw_command_line("bench", argc, argv);
        bool ready = gw_cpu_class_apply(NULL, whole, &err);
        free(whole);
        if (!ready) {
            fprintf(stderr, "%s: %s\n", benches[i].title, err.text);
            return 1;
        }
        argv[1] = benches[i].title;
        return benches[i].main(argc - 1, argv + 1);
    }
    fprintf(stderr, "%s: there is no measurement '%s'\nTry 'godwit bench --help'.\n", argv[0], argv[1]);
    return 2;
}
