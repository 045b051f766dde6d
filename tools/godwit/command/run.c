/* `godwit run` parses the options, opens the console and runs the node. */
#include "core/base/assert.h"
#include "core/base/log.h"
#include "kernels/device/class.h"
#include "kernels/jobs/gpt/gpt.h"
#include "kernels/jobs/jobs.h"
#include "kernels/jobs/program/program.h"
#include "tools/godwit/command/commands.h"
#include "tools/godwit/node/node.h"
#include "tools/godwit/options/command_line.h"
#include "tools/godwit/options/options.h"
#include "tools/godwit/show/console.h"
#include "tools/godwit/thread/descriptors.h"
#include "tools/godwit/weights/init.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

/* The name of the command in complaints, with the job, whose options are listed by its own --help. The caller
 * frees it. */
static char *name_command(int argc, char **argv) {
    const char *job =
        argc >= 2 && (gw_job_find(argv[1]) != NULL || gw_program_is_script(argv[1])) ? argv[1] : "";
    char *name;
    GW_ASSERT_MEMORY(asprintf(&name, "%s%s%s", argv[0], job[0] != '\0' ? " " : "", job) >= 0);
    return name;
}

static int fail(const char *command, const gw_err *err) {
    fprintf(stderr, "%s: %s\n", command, err->text);
    if (err->code != GW_E_USAGE) return 1;
    fprintf(stderr, "Try '%s --help' for its options.\n", command);
    return 2;
}

/* Makes malloc return large blocks to the system when they are freed. By default malloc raises its
 * threshold when the first one is freed, and from then on each thread's arena keeps as much as it ever
 * held: buffers for other peers come and go in several threads. */
static void give_memory_back(void) {
    enum { LARGE = 128 * 1024 }; /* malloc's initial threshold */
    mallopt(M_MMAP_THRESHOLD, LARGE);
}

int gw_run_main(int argc, char **argv) {
    give_memory_back();
    gw_descriptors_take(); /* each other member takes several descriptors, and each file of tokens one */
    char *command = name_command(argc, argv); /* the parser moves the arguments */
    char **whole = gw_command_line("run", argc, argv);
    gw_run_options options;
    gw_console console;
    gw_err err;
    bool good = gw_run_options_parse(argc, argv, &options, &err);
    if (good && !gw_cpu_class_apply(options.cpu_class, whole, &err)) {
        gw_run_options_free(&options);
        good = false;
    }
    if (good) options.typed = gw_command_line_text(whole);
    if (good) options.command = command;
    free(whole);
    int code = 1;
    if (!good) {
        code = fail(command, &err);
        free(command);
        return code;
    }
    if (gw_console_open(&options, &console, &err)) {
        if (options.repeated != NULL)
            gw_log(GW_WARN, "options", "of an option that is given again the last value counts: %s",
                   options.repeated);
        if (options.place_text != NULL) gw_log(GW_INFO, "options", "%s", options.place_text);
        if ((options.job != &gw_job_gpt || gw_init_take_shape(&options.params, &err)) &&
            gw_descriptors_check(options.peers, options.http != NULL, &err) &&
            gw_run_options_settle(&options, &err))
            code = gw_node_run(&options, &console);
        else
            code = fail(command, &err);
        if (!gw_console_close(&console) && code == 0) code = 1;
    } else {
        fail(command, &err);
    }
    gw_run_options_free(&options);
    free(command);
    return code;
}
