#include "core/os/first_process.h"
#include "kernels/device/class.h"
#include "tools/godwit/command/commands.h"
#include "tools/godwit/text/commit.h"
#include "tools/godwit/text/suggest.h"
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
    char *title; /* its name in messages */
    int (*main)(int argc, char **argv);
} commands[] = {
    {"run", (char[]){"godwit run"}, gw_run_main},
    {"launch", (char[]){"godwit launch"}, gw_launch_main},
    {"map", (char[]){"godwit map"}, gw_map_main},
    {"check", (char[]){"godwit check"}, gw_check_main},
    {"status", (char[]){"godwit status"}, gw_status_main},
    {"why", (char[]){"godwit why"}, gw_why_main},
    {"report", (char[]){"godwit report"}, gw_report_main},
    {"top", (char[]){"godwit top"}, gw_top_main},
    {"stop", (char[]){"godwit stop"}, gw_stop_main},
    {"force-view", (char[]){"godwit force-view"}, gw_force_view_main},
    {"keygen", (char[]){"godwit keygen"}, gw_keygen_main},
    {"new-job", (char[]){"godwit new-job"}, gw_new_job_main},
    {"inspect", (char[]){"godwit inspect"}, gw_inspect_main},
    {"audit", (char[]){"godwit audit"}, gw_audit_main},
    {"prune", (char[]){"godwit prune"}, gw_prune_main},
    {"tokenize", (char[]){"godwit tokenize"}, gw_tokenize_main},
    {"export", (char[]){"godwit export"}, gw_export_main},
    {"generate", (char[]){"godwit generate"}, gw_generate_main},
    {"plot", (char[]){"godwit plot"}, gw_plot_main},
    {"trace", (char[]){"godwit trace"}, gw_trace_main},
    {"devices", (char[]){"godwit devices"}, gw_devices_main},
    {"bench", (char[]){"godwit bench"}, gw_bench_main},
    {"sim", (char[]){"godwit sim"}, gw_sim_main},
    {"up", (char[]){"godwit up"}, gw_up_main},
    {"down", (char[]){"godwit down"}, gw_down_main},
    {"submit", (char[]){"godwit submit"}, gw_submit_main},
    {"queue", (char[]){"godwit queue"}, gw_queue_main},
    {"info", (char[]){"godwit info"}, gw_info_main},
    {"logs", (char[]){"godwit logs"}, gw_logs_main},
    {"results", (char[]){"godwit results"}, gw_results_main},
    {"wait", (char[]){"godwit wait"}, gw_wait_main},
    {"cancel", (char[]){"godwit cancel"}, gw_cancel_main},
    {"retry", (char[]){"godwit retry"}, gw_retry_main},
    {"hold", (char[]){"godwit hold"}, gw_hold_main},
    {"release", (char[]){"godwit release"}, gw_release_main},
    {"priority", (char[]){"godwit priority"}, gw_priority_main},
    {"nodes", (char[]){"godwit nodes"}, gw_nodes_main},
    {"drain", (char[]){"godwit drain"}, gw_drain_main},
    {"forget", (char[]){"godwit forget"}, gw_forget_main},
};

/* Prints the list of commands and how to begin, for 80 columns. */
static void print_help(FILE *out) {
    fputs("Godwit runs one job on a flock of identical peers and ends with the same bytes,\n"
          "whichever peers die on the way.\n"
          "\n"
          "  godwit run JOB [OPTION...]   run one peer: digits, gpt, program, synthetic,\n"
          "                               train.py, ./mine.so\n"
          "  godwit launch --hosts A,B -- run ...  a command on several hosts, by ssh\n"
          "  godwit map CMD ::: INPUT...  run a command for each input, several at a time\n"
          "  godwit check FILE.py         find what in a Python program is not pure\n"
          "  godwit status [--dir DIR]    show what the peer that runs in DIR knows\n"
          "  godwit why [--dir DIR]...    tell what went wrong in a run, and what to do\n"
          "  godwit report DIR...         write a page about a run: curves, peers, trouble\n"
          "  godwit top [--dir DIR]       watch the job on the terminal\n"
          "  godwit stop [--dir DIR]      save a checkpoint and stop the whole job\n"
          "  godwit force-view [--dir DIR]  go on without a majority of the peers\n"
          "  godwit keygen FILE           write a cluster key\n"
          "  godwit new-job NAME          write a job of your own to begin with, in C\n"
          "  godwit inspect DIR|MANIFEST  show what a directory's checkpoints hold\n"
          "  godwit audit DIR             compute steps again, compare them with receipts\n"
          "  godwit prune DIR             remove the checkpoints of old jobs\n"
          "  godwit tokenize TEXT...      turn texts into token shards for gpt to train on\n"
          "  godwit export DIR --to FILE  write a trained gpt for transformers to load\n"
          "  godwit generate DIR          let a trained gpt continue a text\n"
          "  godwit plot FILE             draw the metrics of a run (run --metrics FILE)\n"
          "  godwit trace -o FILE         record what all peers do, for ui.perfetto.dev\n"
          "  godwit devices               list GPUs and RDMA devices, and what they lack\n"
          "  godwit sim [OPTION...]       test the protocol in a simulated, failing world\n"
          "  godwit bench WHAT            measure a part: allreduce, steal, aead, ...\n"
          "\n"
          "Many jobs on the same nodes:\n"
          "  godwit up                    run a member of a standing flock, on each node\n"
          "  godwit down                  end the member on this node\n"
          "  godwit submit JOB            hand it a job; or a command, behind --\n"
          "  godwit queue                 list its jobs, and why each waits\n"
          "  godwit info JOB              show all that is known of a job\n"
          "  godwit logs JOB              show what a job has written\n"
          "  godwit results JOB           fetch its output, its files and its checkpoint\n"
          "  godwit wait JOB              wait until a job is over\n"
          "  godwit cancel JOB            end a job for good\n"
          "  godwit retry JOB             have a job tried again that was not done\n"
          "  godwit hold JOB              keep a job from running\n"
          "  godwit release JOB           let it run again\n"
          "  godwit priority JOB N        set its priority\n"
          "  godwit nodes                 list the nodes of the flock\n"
          "  godwit drain NODE            take a node out of use\n"
          "  godwit forget --before DAY   drop what is left of old jobs\n"
          "\n"
          "  godwit COMMAND --help        the options of a command\n"
          "  godwit --version\n"
          "\n"
          "Two peers on this machine:\n"
          "  godwit run digits --dir a\n"
          "  godwit run digits --dir b --listen 127.0.0.1:0 --join 127.0.0.1:7117\n"
          "\n"
          "Exit codes: 0 success, 1 failure, 2 an error in the command line.\n",
          out);
}

static int dispatch(int argc, char **argv) {
    gw_suggestion suggestion = {.word = argv[0]};
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        gw_suggest(&suggestion, commands[i].name);
        if (strcmp(argv[0], commands[i].name) != 0) continue;
        argv[0] = commands[i].title;
        return commands[i].main(argc, argv);
    }
    const char *name = suggestion.name;
    fprintf(stderr, "godwit: there is no command '%s'%s%s%s\nTry 'godwit --help'.\n", argv[0],
            name != NULL ? ": did you mean '" : "", name != NULL ? name : "", name != NULL ? "'?" : "");
    return 2;
}

/* Opens /dev/null in place of standard descriptors that are closed: otherwise the next file that is opened
 * would get their number, and the output would be written into that file. The replacement cannot be
 * written to, so check_stdout reports the lost output. */
static void occupy_descriptors(void) {
    int fd = 0;
    while (fd >= 0 && fd <= STDERR_FILENO) fd = open("/dev/null", O_RDONLY);
    if (fd >= 0) close(fd);
}

/* At exit: reports output that could not be written, and makes the exit code 1. A reader of a pipe that
 * has closed it needs no report. */
static void check_stdout(void) {
    errno = 0;
    bool good = fflush(stdout) == 0 && !ferror(stdout);
    struct stat status;
    if (good ||
        (fstat(STDOUT_FILENO, &status) == 0 && (S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode))))
        return;
    fprintf(stderr, "godwit: some output could not be written to stdout%s%s\n", errno != 0 ? ": " : "",
            errno != 0 ? strerror(errno) : "");
    _exit(1);
}

int main(int argc, char **argv) {
    int code;
    if (gw_first_process(&code)) return code;
    occupy_descriptors();
    signal(SIGXFSZ, SIG_IGN); /* a file size limit is reported as an error, like a full disk */
    atexit(check_stdout);
    argp_err_exit_status = 2;
    /* drops argp's note on short options from every help text */
    setenv("ARGP_HELP_FMT", "no-dup-args-note", 0);
    if (argc < 2) {
        print_help(stderr);
        return 2;
    }
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-v") == 0 || strcmp(argv[1], "version") == 0) {
        char build[GW_BUILD_ID_TEXT], commit[GW_COMMIT_TEXT];
        gw_build_id(build);
        gw_commit(commit);
        printf("godwit %s (commit %s, build %s)\n", GODWIT_VERSION, commit, build);
        return 0;
    }
    bool help = strcmp(argv[1], "help") == 0;
    if (help && argc > 2) { /* "help run" means "run --help" */
        char *asked[] = {argv[2], (char[]){"--help"}, NULL};
        return dispatch(2, asked);
    }
    if (help || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        print_help(stdout);
        return 0;
    }
    return dispatch(argc - 1, argv + 1);
}
