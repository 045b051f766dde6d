#include "tools/godwit/command/commands.h"
#include "tools/godwit/command/help.h"
#include "tools/sim/run.h"

#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct {
    const char *name;
    char *title; /* what messages call it */
    int (*main)(int argc, char **argv);
} commands[] = {
    {"run", (char[]){"godwit run"}, gw_run_main},
    {"status", (char[]){"godwit status"}, gw_status_main},
    {"stop", (char[]){"godwit stop"}, gw_stop_main},
    {"force-view", (char[]){"godwit force-view"}, gw_force_view_main},
    {"keygen", (char[]){"godwit keygen"}, gw_keygen_main},
    {"inspect", (char[]){"godwit inspect"}, gw_inspect_main},
    {"tokenize", (char[]){"godwit tokenize"}, gw_tokenize_main},
    {"export", (char[]){"godwit export"}, gw_export_main},
    {"generate", (char[]){"godwit generate"}, gw_generate_main},
    {"plot", (char[]){"godwit plot"}, gw_plot_main},
    {"devices", (char[]){"godwit devices"}, gw_devices_main},
    {"bench", (char[]){"godwit bench"}, gw_bench_main},
    {"sim", (char[]){"godwit sim"}, gw_sim_main},
};

static int dispatch(int argc, char **argv) {
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        if (strcmp(argv[0], commands[i].name) != 0) continue;
        argv[0] = commands[i].title;
        return commands[i].main(argc, argv);
    }
    fprintf(stderr, "godwit: there is no command '%s'\nTry 'godwit --help'.\n", argv[0]);
    return 2;
}

/* A standard descriptor that is closed would be given to the next file opened, and what is printed would be
 * written into that. What takes its place cannot be written to: what is printed there is lost, and that
 * shows. */
static void occupy_descriptors(void) {
    int fd = 0;
    while (fd >= 0 && fd <= STDERR_FILENO) fd = open("/dev/null", O_RDONLY);
    if (fd >= 0) close(fd);
}

/* At exit: what could not be printed must not look like a success. A reader that has gone knows it has. */
static void check_stdout(void) {
    errno = 0;
    bool good = fflush(stdout) == 0 && !ferror(stdout);
    struct stat status;
    if (good ||
        (fstat(STDOUT_FILENO, &status) == 0 && (S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode))))
        return;
    fprintf(stderr, "godwit: not all could be written to stdout%s%s\n", errno != 0 ? ": " : "",
            errno != 0 ? strerror(errno) : "");
    _exit(1);
}

int main(int argc, char **argv) {
    occupy_descriptors();
    signal(SIGXFSZ, SIG_IGN); /* a file size limit is an error like a full disk */
    atexit(check_stdout);
    argp_err_exit_status = 2;
    setenv("ARGP_HELP_FMT", "no-dup-args-note", 0); /* a note about short options that says little */
    if (argc < 2) {
        gw_help_print(stderr);
        return 2;
    }
    if (strcmp(argv[1], "--version") == 0) {
        puts("godwit " GODWIT_VERSION);
        return 0;
    }
    bool help = strcmp(argv[1], "help") == 0;
    if (help && argc > 2) { /* "help run" is "run --help" */
        char *asked[] = {argv[2], (char[]){"--help"}, NULL};
        return dispatch(2, asked);
    }
    if (help || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        gw_help_print(stdout);
        return 0;
    }
    return dispatch(argc - 1, argv + 1);
}
