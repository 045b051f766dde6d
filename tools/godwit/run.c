/* `godwit run`: options, the console, and then the node. */
#include "core/check.h"
#include "kernels/class.h"
#include "tools/godwit/commands.h"
#include "tools/godwit/console.h"
#include "tools/godwit/node.h"
#include "tools/godwit/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int fail(const char *command, const gw_err *err) {
    fprintf(stderr, "%s: %s\n", command, err->text);
    if (err->code != GW_E_USAGE) return 1;
    fprintf(stderr, "Try '%s --help' for its options.\n", command);
    return 2;
}

/* The command line as the shell gave it: what the process is executed with again for --cpu-class. Parsing
 * reorders argv, so this comes first. */
static char **whole_command(int argc, char **argv) {
    char **whole = calloc((size_t)argc + 2, sizeof *whole);
    GW_CHECK(whole != NULL);
    whole[0] = (char *)(uintptr_t) "godwit";
    whole[1] = (char *)(uintptr_t) "run";
    memcpy(whole + 2, argv + 1, (size_t)(argc - 1) * sizeof *whole);
    return whole;
}

int gw_run_main(int argc, char **argv) {
    const char *command = argv[0];
    char **whole = whole_command(argc, argv);
    gw_run_options options;
    gw_console console;
    gw_err err;
    bool good = gw_run_options_parse(argc, argv, &options, &err);
    if (good && !gw_cpu_class_apply(options.cpu_class, whole, &err)) {
        gw_run_options_free(&options);
        good = false;
    }
    free(whole);
    if (!good) return fail(command, &err);
    int code = 1;
    if (gw_console_open(&options, &console, &err)) {
        code = gw_node_run(&options, &console);
        gw_console_close(&console);
    } else {
        fail(command, &err);
    }
    gw_run_options_free(&options);
    return code;
}
