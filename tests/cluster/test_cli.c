/* The command line as a user meets it: what it prints, and its exit codes. */
#include "checkpoint/dirlock.h"
#include "core/godwit.h"
#include "kernels/jobs/jobs.h"
#include "tools/godwit/options/options.h"
#include "tools/godwit/show/control.h"
#include "tools/godwit/show/snapshot.h"

#include <criterion/criterion.h>
#include <ifaddrs.h>
#include <jansson.h>
#include <net/if.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_ARGUMENTS = 32, OUTPUT_BYTES = 16384 };

typedef struct outcome {
    int code; /* exit code, or -signal */
    char out[OUTPUT_BYTES], err[OUTPUT_BYTES];
} outcome;

static void read_back(int fd, char text[OUTPUT_BYTES]) {
    ssize_t got = pread(fd, text, OUTPUT_BYTES - 1, 0);
    cr_assert_geq(got, 0);
    text[got] = '\0';
    close(fd);
}

/* A command line: its name and arguments that are separated by single spaces. */
typedef struct command {
    char name[16], text[1000];
    int argc;
    char *argv[MOST_ARGUMENTS + 2];
} command;

static void split(const char *name, const char *arguments, command *c) {
    *c = (command){.argc = 1};
    cr_assert_lt(strlen(arguments), sizeof c->text);
    strcpy(c->text, arguments);
    strcpy(c->name, name);
    c->argv[0] = c->name;
    char *rest = NULL;
    for (char *word = strtok_r(c->text, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest)) {
        cr_assert_leq(c->argc, MOST_ARGUMENTS);
        c->argv[c->argc++] = word;
    }
}

static outcome godwit(const char *arguments) {
    command c;
    split("godwit", arguments, &c);
    int out = memfd_create("out", 0), err = memfd_create("err", 0);
    fflush(NULL);
    pid_t child = fork();
    cr_assert_geq(child, 0);
    if (child == 0) {
        dup2(out, STDOUT_FILENO);
        dup2(err, STDERR_FILENO);
        execv(GODWIT_BINARY, c.argv);
        _exit(127);
    }
    int status = 0;
    cr_assert_eq(waitpid(child, &status, 0), child);
    outcome o = {.code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status)};
    read_back(out, o.out);
    read_back(err, o.err);
    return o;
}

/* Usage errors: exit code 2, nothing on stdout, and on stderr a text that names what is wrong. */
static void refused(const char *arguments, const char *named) {
    outcome o = godwit(arguments);
    cr_expect_eq(o.code, 2, "godwit %s: exit code %d", arguments, o.code);
    cr_expect_str_empty(o.out, "godwit %s", arguments);
    cr_expect_not_null(strstr(o.err, named), "godwit %s: '%s' does not name '%s'", arguments, o.err, named);
}

/* Every line is narrower than 80 columns: argp adds a line of blanks after one that just fits. */
static void fits_80_columns(const char *arguments) {
    outcome o = godwit(arguments);
    cr_expect_eq(o.code, 0, "godwit %s: %d %s", arguments, o.code, o.err);
    char *rest = NULL;
    for (char *line = strtok_r(o.out, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        cr_expect_leq(strlen(line), 80, "godwit %s: '%s'", arguments, line);
        cr_expect_neq(line[strspn(line, " ")], '\0', "godwit %s: a line of blanks", arguments);
    }
}

static char *folder(void) {
    static char path[32];
    strcpy(path, "/tmp/godwit-cli-XXXXXX");
    cr_assert_not_null(mkdtemp(path));
    return path;
}

Test(cli, version_is_one_line) {
    static const char *const ways[] = {"--version", "-v", "version"};
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        outcome o = godwit(ways[i]);
        cr_assert_eq(o.code, 0, "%s", ways[i]);
        char build[17] = "", commit[65] = "", end = '\0';
        cr_assert_eq(sscanf(o.out, "godwit " GODWIT_VERSION " (commit %64[0-9a-z-], build %16[0-9a-f])%c",
                            commit, build, &end),
                     3, "%s", o.out);
        cr_assert(strlen(build) == 16 && end == '\n' && strchr(o.out, '\n')[1] == '\0', "%s", o.out);
    }
    cr_expect_eq(godwit("-h").code, 0);
}

Test(cli, numbers_are_whole_and_within_bounds) {
    refused("bench steal -n 1e99", "--count: '1e99' is not a whole number from 1 to");
    refused("run digits --replicas 257", "--replicas");
    refused("bench steal -n 5x", "--count: '5x'");
    refused("bench write -b 0", "--bytes: '0'");
    refused("bench allreduce --lanes +1", "--lanes: '+1'");
    refused("bench allreduce --gradients bert",
            "--gradients: 'bert' is none of gpt-nano, gpt-124m and digits");
    refused("bench pack --gradients gpt", "--gradients: 'gpt' is none of gpt-nano, gpt-124m and digits");
    refused("bench allreduce --rate 1", "--rate: '1' is no rate such as 100m or 10g, in bits a second");
    refused("bench allreduce --rate 0g", "--rate: '0g'");
    refused("bench allreduce --rate 1.5g", "--rate: '1.5g'");
    refused("bench allreduce --rate 1001g", "--rate: '1001g'");
    refused("bench allreduce --rate 1g --peers 3", "--rate: the wire is between two processes");
    refused("bench allreduce --rate 1g --transport shm", "--rate: the wire is between two processes");
    refused("bench checkpoint -s -1", "--state: '-1'");
    refused("bench checkpoint -r 5.0", "--rounds: '5.0'");
    refused("sim --seed -1", "--seed: '-1'");
    refused("sim --seeds 1..99999999999999999999", "--seeds: '1..99999999999999999999'");
    refused("sim --seeds 5..4", "--seeds: '5..4'");
    refused("sim --steps 1e3", "--steps: '1e3'");
    refused("sim --forks 3x3+-1", "--forks 3x3+-1");
    refused("sim --forks 3x3=3", "--forks 3x3=3");
    refused("sim --forks 3x3+1=", "--forks 3x3+1=");
    refused("sim --without leader", "--without needs --forks");
    refused("sim --forks 3x3 --without foo", "--without: 'foo' is not one of promises, listed, installed, "
                                             "lowest, leader, lives, once, durable, given-up");
    refused("generate --tokens 5x .", "--tokens: '5x'");
    refused("generate --tokens 0 .", "--tokens: '0'");
    refused("generate --ignore-end .", "--ignore-end needs --tokenizer");
    refused("export --step newest .", "--step: 'newest'");
}

Test(cli, what_a_simulation_saw_fits_a_terminal) {
    fits_80_columns("sim --seed 1");
    outcome o = godwit("sim --seeds 1..2 --peers 2 --steps 2");
    cr_expect_eq(strncmp(o.out, "godwit sim: 2 seeds, 0 failed, ", 31), 0, "%s", o.out);
    o = godwit("sim --seed 1 --peers 2 --steps 2");
    cr_expect_eq(strncmp(o.out, "godwit sim: 1 seed, 0 failed, ", 30), 0, "%s", o.out);
}

Test(cli, a_measurement_says_where_it_cannot_write) {
    outcome o = godwit("bench checkpoint -d /nonexistent/folder");
    cr_expect_eq(o.code, 1);
    cr_expect_not_null(
        strstr(o.err,
               "godwit bench checkpoint: --dir: cannot make a folder in /nonexistent/folder: No such file"),
        "%s", o.err);
}

#define SMALL_GPT "bench gpt --workers 1 --layers 1 --heads 1 --channels 8 --context 8 --batch-tokens 64 "

/* A training step has two shards; an evaluation has one shard, or five. */
Test(cli, a_measurement_counts_training_steps_only) {
    static const char *const evaluated[] = {"8", "160"};
    for (int i = 0; i < 2; i++) {
        char line[400];
        snprintf(line, sizeof line,
                 SMALL_GPT "--micro-batch 4 --updates 5 --eval-every 2 --val " GODWIT_SOURCE
                           "/README.md --val-tokens %s",
                 evaluated[i]);
        outcome o = godwit(line);
        cr_expect_eq(o.code, 0, "%s: %d %s", line, o.code, o.err);
        cr_expect_not_null(strstr(o.out, "2 shards of 32 tokens out of 256, "), "%s: %s", line, o.out);
        cr_expect_not_null(strstr(o.out, "medians of 5 steps"), "%s: %s", line, o.out);
    }
}

/* Its head is as wide in products and sums as that of the model which is asked for. */
Test(cli, a_measured_model_has_its_own_vocabulary) {
    outcome o = godwit(SMALL_GPT "--model gpt2 --updates 1");
    cr_expect_eq(o.code, 0, "%d %s", o.code, o.err);
    cr_expect_not_null(strstr(o.out, "tokens out of 50257, "), "%s", o.out);
    cr_expect_not_null(strstr(o.out, " 403008 parameters"), "%s", o.out);
    o = godwit(SMALL_GPT "--model gpt2 --updates 1 --vocab 300");
    cr_expect_not_null(strstr(o.out, "tokens out of 300, "), "%s", o.out);
    o = godwit(SMALL_GPT "--model gpt2 --updates 1 --data " GODWIT_SOURCE "/README.md");
    cr_expect_not_null(strstr(o.out, "tokens out of 256, "), "%s: as a job on this text has", o.out);
}

/* Exit code of a shell's command about the binary. */
static int shell(const char *arguments) {
    char line[1000];
    snprintf(line, sizeof line, "%s %s", GODWIT_BINARY, arguments);
    int status = system(line);
    cr_assert(WIFEXITED(status), "%s", line);
    return WEXITSTATUS(status);
}

Test(cli, what_could_not_be_printed_is_no_success) {
    cr_expect_eq(shell("--version >/dev/full 2>/dev/null"), 1);
    cr_expect_eq(shell("run digits --help >/dev/full 2>/dev/null"), 1);
    cr_expect_eq(shell("--version >&- 2>&- <&-"), 1);
    cr_expect_eq(shell("--version 2>&- <&- >/dev/null"), 0);
}

/* A run's last line has the hash that it was for. */
Test(cli, a_run_whose_last_line_was_lost_is_no_success) {
    static const char *const ends[] = {">&- 2>/dev/null", ">/dev/full 2>/dev/null", ">/dev/null"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        char *dir = folder(), line[200];
        snprintf(line, sizeof line, "run synthetic --steps 1 --shard-ms 0 --listen 127.0.0.1:0 --dir %s %s",
                 dir, ends[i]);
        cr_expect_eq(shell(line), i < 2, "%s", ends[i]);
        snprintf(line, sizeof line, "rm -r %s", dir);
        cr_assert_eq(system(line), 0);
    }
}

Test(cli, the_build_script_names_what_it_does_not_know) {
    cr_expect_eq(WEXITSTATUS(system(GODWIT_SOURCE "/build.sh foo 2>&1 | grep -q \"no command 'foo'\"")), 0);
    cr_expect_eq(WEXITSTATUS(system(GODWIT_SOURCE "/build.sh demo extra 2>&1 | grep -q \"what is 'extra'\"")),
                 0);
    cr_expect_eq(WEXITSTATUS(system(GODWIT_SOURCE "/build.sh foo 2>/dev/null")), 2);
}

Test(cli, the_usage_line_has_the_job_where_it_must_be) {
    static const char any[] = "Usage: godwit run JOB [OPTION...]\n",
                      digits[] = "Usage: godwit run digits [OPTION...]\n";
    cr_expect_eq(strncmp(godwit("run --help").out, any, strlen(any)), 0);
    outcome help = godwit("run digits --help");
    const char *own = strstr(help.out, "Options of digits"), *others = strstr(help.out, "This peer and");
    cr_expect(own != NULL && others != NULL && own < others, "the job's own options come first: %s",
              help.out);
    cr_expect_eq(strncmp(godwit("run -h").out, any, strlen(any)), 0);
    cr_expect_eq(strncmp(godwit("run digits -h").out, digits, strlen(digits)), 0);
    cr_expect_eq(godwit("status -h").code, 0);
    cr_expect_eq(godwit("bench -h").code, 0);
    cr_expect_eq(godwit("generate /nonexistent --prompt -h").code, 2, "it is a prompt");
    cr_expect_not_null(strstr(godwit("status -d -h").err, "no peer runs in -h"));
    cr_expect_eq(strncmp(godwit("run digits --help").out, digits, strlen(digits)), 0);
    refused("run digits --no-such-option", "godwit run digits: unrecognized option '--no-such-option'");
}

Test(cli, what_was_meant_is_named) {
    refused("rnu digits", "there is no command 'rnu': did you mean 'run'?");
    refused("run digit", "there is no job 'digit': did you mean 'digits'? Or give one of digits, gpt");
    refused("run MNIST", "there is no job 'MNIST': did you mean 'digits'?");
    refused("run GPT", "there is no job 'GPT': did you mean 'gpt'?");
    refused("inspect --dir a",
            "unrecognized option '--dir': the directory is given without it: godwit inspect DIR\n");
    refused("export --dir a --to x", "'--dir': the directory is given without it: godwit export DIR\n");
    refused("run digits --peer-timeout 5s --jion-timeout 5s",
            "unrecognized option '--jion-timeout': did you mean '--join-timeout'?");
    refused("run digits --epoch-s 5",
            "godwit run digits: unrecognized option '--epoch-s': did you mean '--epochs'?");
    refused("run digits --learning-rate 1", "unrecognized option '--learning-rate': did you mean '--lr'?");
    refused("run digits --updates 5", "unrecognized option '--updates': did you mean '--epochs'?");
    refused("run digits --port=7117", "unrecognized option '--port': did you mean '--listen'?");
    refused("status --dri x", "godwit status: unrecognized option '--dri': did you mean '--dir'?");
    refused(
        "run some/train.py --epochs 2",
        "godwit run some/train.py: unrecognized option '--epochs'\nOptions of the script itself stand behind "
        "--: godwit run some/train.py [OPTION...] -- --epochs\n");
    refused("sim --sede 1", "unrecognized option '--sede': did you mean '--seed'?");
    refused("generate --length 3 x", "unrecognized option '--length': did you mean '--tokens'?");
    refused("status --from x:1",
            "unrecognized option '--from'\nTry 'godwit status --help' for the options.\n");
    refused("inspect x --step", "option '--step' needs a value\nTry 'godwit inspect --help'");
    refused("inspect x --step one", "Try 'godwit inspect --help'");
    refused("run digits --dir --peesr --no-such-option", "unrecognized option '--no-such-option'");
}

Test(cli, every_help_fits_a_terminal) {
    static const char *const helps[] = {"--help",
                                        "help",
                                        "run --help",
                                        "run digits --help",
                                        "run gpt --help",
                                        "help status",
                                        "check --help",
                                        "stop --help",
                                        "keygen --help",
                                        "new-job --help",
                                        "inspect --help",
                                        "prune --help",
                                        "run synthetic --help",
                                        "sim --help",
                                        "devices --help",
                                        "force-view --help",
                                        "bench steal --help",
                                        "export --help",
                                        "bench --help",
                                        "help devices",
                                        "bench allreduce --help",
                                        "generate --help",
                                        "tokenize --help",
                                        "map --help",
                                        "plot --help",
                                        "bench gpt --help"};
    for (size_t i = 0; i < sizeof helps / sizeof helps[0]; i++) fits_80_columns(helps[i]);
}

/* Runs it with a --dir of its own, which is removed then. */
static outcome run_once(const char *arguments) {
    char whole[500], remove_it[100];
    const char *dir = folder();
    snprintf(whole, sizeof whole, "%s --listen 127.0.0.1:0 --dir %s", arguments, dir);
    outcome o = godwit(whole);
    snprintf(remove_it, sizeof remove_it, "rm -r %s", dir);
    cr_expect_eq(system(remove_it), 0);
    return o;
}

/* Whether other hosts have a way to this one, by IPv4. */
static bool has_network(void) {
    struct ifaddrs *list = NULL;
    bool has = false;
    cr_assert_eq(getifaddrs(&list), 0);
    for (const struct ifaddrs *one = list; one != NULL; one = one->ifa_next)
        has |= one->ifa_addr != NULL && one->ifa_addr->sa_family == AF_INET &&
               (one->ifa_flags & IFF_UP) != 0 && (one->ifa_flags & IFF_LOOPBACK) == 0;
    freeifaddrs(list);
    return has;
}

/* A peer that listens everywhere tells the addresses that can be given to others. */
Test(cli, who_listens_everywhere_says_where_it_is_reached) {
    const char *dir = folder();
    char line[300];
    snprintf(line, sizeof line, "keygen %s/k", dir);
    cr_assert_eq(godwit(line).code, 0);
    snprintf(line, sizeof line,
             "run synthetic --steps 1 --shards 2 --shard-ms 0 --key %s/k --listen 0.0.0.0:0 --dir %s/d", dir,
             dir);
    outcome o = godwit(line);
    cr_expect_eq(o.code, 0, "%s", o.err);
    cr_expect_eq(strstr(o.out, "others reach this peer at ") != NULL, has_network(), "%s", o.out);
    cr_expect_null(strstr(o.out, "peer at 0.0.0.0"), "%s", o.out);
    snprintf(line, sizeof line, "rm -r %s", dir);
    cr_expect_eq(system(line), 0);
}

/* A peer with a key says what encrypts; a library that is missing is no reason to stop. */
Test(cli, who_has_a_key_says_what_encrypts) {
    const char *dir = folder();
    char line[300];
    snprintf(line, sizeof line, "keygen %s/k", dir);
    cr_assert_eq(godwit(line).code, 0);
    snprintf(line, sizeof line, "run synthetic --steps 1 --shards 2 --shard-ms 0 --key %s/k --dir %s/d", dir,
             dir);
    setenv("GODWIT_LIBCRYPTO", "/nowhere/libcrypto.so.3", 1);
    outcome o = godwit(line);
    cr_expect_eq(o.code, 0, "%s", o.err);
    cr_expect_not_null(strstr(o.out, " libsodium encrypts all records"), "%s", o.out);
    cr_expect_str_empty(o.err);
    snprintf(line, sizeof line, "rm -r %s", dir);
    cr_expect_eq(system(line), 0);
    cr_expect_null(strstr(run_once("run synthetic --steps 1 --shards 2 --shard-ms 0").out, "encrypts"));
}

/* Without a key nobody is asked for anything; on loopback it is this machine's own affair. */
Test(cli, http_that_others_reach_is_warned_of) {
    outcome o = run_once("run synthetic --steps 1 --shards 2 --shard-ms 0 --http 0.0.0.0:0");
    cr_expect_eq(o.code, 0, "%s", o.err);
    cr_expect_not_null(strstr(o.err, "--http 0.0.0.0:0: everybody who can reach this address can read"), "%s",
                       o.err);
    cr_expect_str_empty(run_once("run synthetic --steps 1 --shards 2 --shard-ms 0 --http 0").err);
}

/* That this machine lacks what nobody asked for (an RDMA device) is no news. */
Test(cli, a_run_without_trouble_says_nothing_on_stderr) {
    outcome o = run_once("run synthetic --steps 1 --shards 2 --shard-ms 0");
    cr_expect_eq(o.code, 0);
    cr_expect_str_empty(o.err);
    const char *who = strchr(o.out, ' '); /* behind the time */
    cr_expect(who != NULL && strncmp(who, " godwit ", 8) == 0, "begins with who it is: %s", o.out);
    const char *memory = strstr(o.out, " memory: about "), *id = strstr(o.out, " job id: ");
    cr_expect(memory != NULL && id != NULL && memory < id, "%s", o.out);
}

static int times(const char *text, const char *what) {
    int found = 0;
    for (const char *at = text; (at = strstr(at, what)) != NULL; at += strlen(what)) found++;
    return found;
}

#define SAMPLED                                                                                              \
    "run gpt --data " GODWIT_SOURCE                                                                          \
    "/README.md --layers 1 --heads 1 --channels 8 --context 8 --batch-tokens 64 "                            \
    "--micro-batch 8 --updates 6 --workers 1"

/* A sample that is still being computed when the next one is due takes its place, so that not every one is
 * there. */
Test(cli, samples_are_printed_and_change_no_byte) {
    char state[80], *at;
    outcome o = run_once(SAMPLED);
    cr_assert_eq(o.code, 0, "%s", o.err);
    cr_expect_null(strstr(o.out, " sample "), "%s", o.out);
    at = strstr(o.out, " state=");
    cr_assert_not_null(at);
    snprintf(state, sizeof state, "%.70s", at);
    o = run_once(SAMPLED " --sample-every 2 --prompt Once --sample-tokens 12");
    cr_expect_eq(o.code, 0, "%s", o.err);
    cr_expect_not_null(strstr(o.out, " sample at step "), "%s", o.out);
    cr_expect_not_null(strstr(o.out, ": \"Once"), "%s", o.out);
    cr_expect_not_null(strstr(o.out, " KiB for samples"), "%s", o.out);
    cr_expect_not_null(strstr(o.out, state), "%s: %s", state, o.out);
    const char *done = strstr(o.out, "godwit: done"), *last = strrchr(o.out, '\n');
    cr_assert_not_null(done);
    cr_expect_eq(strchr(done, '\n'), last, "samples come before the last line: %s", o.out);
    o = run_once(SAMPLED " --sample-every 2 --prompt Once --json");
    cr_expect_not_null(strstr(o.out, "{\"event\":\"sample\",\"time\":"), "%s", o.out);
    cr_expect_not_null(strstr(o.out, "\"prompt\":\"Once\",\"text\":\"Once"), "%s", o.out);
    cr_expect_not_null(strstr(o.out, strchr(state, '=') + 1), "%s", o.out);
}

Test(cli, samples_that_cannot_be_are_refused) {
    outcome o = run_once(SAMPLED " --epochs 1");
    cr_expect(o.code == 2 && strstr(o.err, "and --epochs 1: give only one of them"), "%s", o.err);
    o = run_once(SAMPLED " --prompt Once");
    cr_expect(o.code == 2 && strstr(o.err, "--prompt: there are no samples without --sample-every"), "%s",
              o.err);
    o = run_once(SAMPLED " --sample-every 0");
    cr_expect(o.code == 2 && strstr(o.err, "--sample-every: '0' is not a whole number from 1"), "%s", o.err);
    o = run_once(SAMPLED " --sample-every 1 --vocab 300");
    cr_expect(o.code == 2 && strstr(o.err, "300 tokens, more than there are bytes: give --tokenizer"), "%s",
              o.err);
    o = run_once(SAMPLED " --sample-every 1 --tokenizer /none");
    cr_expect(o.code != 0 && strstr(o.err, "--tokenizer"), "%s", o.err);
}

/* The first lines tell what is computed, how long that is, what takes memory, and what is written where. */
Test(cli, the_first_lines_tell_what_a_run_will_do) {
    outcome o = run_once("run gpt --data " GODWIT_SOURCE "/README.md --layers 1 --heads 1 --channels 8 "
                         "--context 8 --batch-tokens 64 --micro-batch 8 --updates 2 --workers 1");
    cr_expect_eq(o.code, 0, "%s", o.err);
    cr_expect_not_null(strstr(o.out, " model: gpt, 1 layer, 8 channels, 1 head, context 8, vocabulary 256; "),
                       "%s", o.out);
    cr_expect_not_null(strstr(o.out, " length: 64 tokens an update, 2 updates; one pass over the data is "),
                       "%s", o.out);
    cr_expect_not_null(strstr(o.out, " KiB for state and sums, "), "%s", o.out);
    cr_expect_not_null(strstr(o.out, " for 1 worker, "), "%s", o.out);
    cr_expect_not_null(strstr(o.out, "checkpoints every 30 s and at the end: "), "%s", o.out);
    o = run_once("run digits --samples 600 --epochs 2 --hidden 16 --workers 1 --checkpoint-every 5");
    cr_expect_not_null(strstr(o.out, " model: perceptron of 784-16-10; 12730 parameters"), "%s", o.out);
    cr_expect_not_null(strstr(o.out,
                              " length: 480 images an update, 4 updates and 2 evaluations; one pass over the "
                              "data is 2 updates"),
                       "%s", o.out);
    cr_assert_not_null(strstr(o.out, "checkpoints every 5 steps and at the end: "), "%s", o.out);
    o = run_once("run digits --samples 600 --epochs 2 --hidden 16 --workers 1 --steps 3");
    cr_expect_not_null(strstr(o.out, " data is 2 updates; --steps ends it after step 3 of 6\n"), "%s", o.out);
    o = run_once("run synthetic --steps 1 --workers 1 --json");
    cr_expect_not_null(strstr(o.out, "\"length\":\"1 step; 120 shards in the first\""), "%s", o.out);
    cr_expect_not_null(strstr(o.out, "\"memory\":\""), "%s", o.out);
    o = run_once("run synthetic --steps 2 --workers 1");
    cr_expect_null(strstr(o.out, " model: "), "%s", o.out);
    cr_expect_not_null(strstr(o.out, " length: 2 steps; 120 shards in the first"), "%s", o.out);
}

/* Lines of steps are shown only now and then, so that hardly any of those would be an evaluation. */
Test(cli, each_evaluation_has_a_line) {
    const char *gpt = "run gpt --data " GODWIT_SOURCE "/README.md --val " GODWIT_SOURCE "/LICENSE "
                      "--layers 1 --heads 1 --channels 8 --context 8 --batch-tokens 64 --micro-batch 8 "
                      "--val-tokens 64 --updates 5 --eval-every 2 --workers 1";
    char quiet[400];
    outcome o = run_once(gpt);
    cr_expect_eq(o.code, 0, "%s", o.err);
    cr_expect_eq(times(o.out, " evaluation at step "), 3, "%s", o.out);
    cr_expect_not_null(strstr(o.out, " evaluation at step 3: val_loss="), "%s", o.out);
    cr_expect_not_null(strstr(o.out, " evaluation at step 8: val_loss="), "%s", o.out);
    cr_expect_eq(times(o.out, "val_loss="), 4, "none but these and the last line: %s", o.out);
    snprintf(quiet, sizeof quiet, "%s --quiet", gpt);
    o = run_once(quiet);
    cr_expect_eq(o.code, 0, "%s", o.err);
    cr_expect_eq(times(o.out, "evaluation"), 0, "%s", o.out);
}

Test(cli, a_device_that_is_not_there_is_no_device_to_go_without) {
    outcome o = run_once("run synthetic --steps 1 --rdma-device nonsense");
    cr_expect_eq(o.code, 2);
    cr_expect_not_null(strstr(o.err, "--rdma-device nonsense: "), "%s", o.err);
}

/* Whoever asks for help hears of every job there is. */
Test(cli, helps_name_all_jobs) {
    for (const gw_job_type *const *job = gw_job_list(); *job != NULL; job++) {
        cr_expect_not_null(strstr(godwit("--help").out, (*job)->name), "%s", (*job)->name);
        cr_expect_not_null(strstr(godwit("run --help").out, (*job)->name), "%s", (*job)->name);
    }
}

Test(cli, nonsense_is_refused_by_name) {
    refused("fly", "'fly'");
    refused("status --what", "--what");
    refused("stop here", "'here': the directory is given by --dir here");
    refused("status here", "'here': the directory is given by --dir here");
    refused("keygen", "FILE");
    refused("sim --peers 0", "--peers");
    refused("keygen a b", "'b'");
    refused("new-job", "NAME");
    refused("new-job a b", "'b'");
    refused("new-job ../a", "'../a' is not a letter followed by");
    refused("new-job Mine", "'Mine' is not");
    refused("new-job gpt", "'gpt' is a job of this program");
    refused("keygen -", "a key is not written to standard output");
    cr_expect_eq(shell("keygen '' 2>&1 | grep -q 'FILE: the name is empty'"), 0);
    refused("help fly", "'fly'");
}

/* A supervisor does not start a command again that names what is not there. */
Test(cli, what_is_named_and_missing_is_an_error_of_the_command_line) {
    cr_assert_eq(chdir(folder()), 0);
    refused("inspect nosuch", "inspect: nosuch: No such file or directory");
    refused("export nosuch", "nosuch: No such file or directory");
    refused("generate nosuch", "nosuch: No such file or directory");
    refused("prune nosuch", "nosuch: No such file or directory");
    refused("plot nothere.csv", "there is no file nothere.csv");
    refused("tokenize nothere.txt --tokenizer nodir --to x.bin", "nothere.txt");
    refused("run nojob.py", "godwit run nojob.py: the program nojob.py cannot be read: No such file");
    refused("check nosuch.py", "the program nosuch.py cannot be read: No such file");
    cr_assert_eq(shell("run --help >text.txt"), 0);
    refused("plot text.txt", "text.txt");
    refused("run gpt --data trian.txt", "godwit run gpt: --data: there is no file trian.txt");
    refused("run gpt --data text.txt --init nodir", "--init: there is no file nodir");
    refused("run gpt --data text.txt --init text.txt --quiet", "text.txt is no safetensors file");
    refused("export text.txt", "text.txt is a file: give the directory of a peer");
    refused("inspect text.txt", "text.txt is no manifest: give the directory of a peer");
    refused("run synthetic --dir text.txt",
            "text.txt is no folder, or lies below what is none: name another");
}

Test(cli, run_names_the_option_that_is_wrong) {
    refused("run digits --join ,", "--join");
    refused("run", "the job comes first");
    refused("run --peers 3", "the job comes first: godwit run JOB [OPTION...]");
    refused("run --dir x gpt --data a.bin", "the job comes first: godwit run gpt [OPTION...]");
    refused("run --dir x ./train.py", "the job comes first: godwit run ./train.py [OPTION...]");
    refused("run fly", "digits, gpt, program, synthetic");
    refused("run ./no-such-job.so", "no-such-job.so");
    refused("run " GODWIT_SOURCE "/README.md",
            "/README.md is neither a Python program (train.py) nor a shared");
    refused("run " GODWIT_SOURCE "/tests/jobs/pi.c",
            "compile it first (cc -std=c11 -Wall -Wextra -O2 -shared -fPIC -I");
    refused("run " GODWIT_SOURCE "/tests/jobs/pi.c", "and run " GODWIT_SOURCE "/tests/jobs/pi.so\n");
    cr_assert_eq(chdir("/etc"), 0);
    refused("run passwd", "give ./passwd to run the file");
    refused("run digits --what", "--what");
    refused("run digits --what", "godwit run digits --help");
    refused("run digits twice", "'twice': there can be only one job\n");
    refused(
        "run gpt --data a-1.bin a-2.bin",
        "unexpected argument 'a-2.bin': there can be only one job. Several files are one argument: --data ");
    refused("run digits --peers many", "--peers");
    refused("run digits --peers 0", "--peers");
    refused("run digits --listen here", "godwit run digits: --listen");
    refused("run digits --listen here", "Try 'godwit run digits --help'");
    refused("run digits --listen ::1:7117", "in brackets: [::1]:7117\n");
    refused("run digits --listen 127.0.0.1:70000", "--listen");
    refused("run digits --join 127.0.0.1:1,there", "--join");
    refused("run digits --http nowhere", "--http");
    static const char *const never[] = {"often", "0", "0s", "5q", "99999999999999999999"};
    for (size_t i = 0; i < sizeof never / sizeof *never; i++) {
        char line[80], said[80];
        snprintf(line, sizeof line, "run digits --checkpoint-every %s", never[i]);
        snprintf(said, sizeof said, "'%s' is neither a number of steps from 1 on, nor a time such as",
                 never[i]);
        refused(line, said);
    }
    refused("run digits --quorum most", "--quorum");
    refused("run digits --quorum majority", "--peers");
    refused("run digits --reduce fast", "--quorum majority");
    refused("run digits --json --quiet", "--json");
    refused("run digits --cpu-class abacus", "--cpu-class");
    refused("run digits --device abacus", "'abacus'");
    refused("run digits --device cuda:0,1,0", "names GPU 0 twice");
    refused("run digits --device cpu --precision bf16", "--precision");
    refused("run digits --precision fp8", "'fp8'");
    refused("run digits --key=", "--key: the name is empty");
    refused("run digits --advertise 1.2.3.4:0", "other peers cannot connect to port 0");
    refused("run digits --join 1.2.3.4:5,1.2.3.4:0 --listen here",
            "--join: '1.2.3.4:0': other peers cannot connect to port 0");
}

Test(cli, a_shared_object_is_a_job) {
    outcome o = godwit("run " GODWIT_EXAMPLE_JOB " --help");
    cr_assert_eq(o.code, 0, "%s", o.err);
    cr_assert_not_null(strstr(o.out, "--darts=N"));
    refused("run " GODWIT_BINARY, "godwit");
}

Test(cli, nobody_home) {
    outcome o = godwit("status --dir /nonexistent/godwit");
    cr_assert_eq(o.code, 1);
    cr_assert_not_null(strstr(o.err, "no peer runs in /nonexistent/godwit"));
    char *dir = folder(), arguments[100];
    snprintf(arguments, sizeof arguments, "stop --dir %s", dir);
    o = godwit(arguments);
    cr_assert_eq(o.code, 1);
    cr_assert_not_null(strstr(o.err, "no peer runs in"));
    cr_expect_not_null(strstr(o.err, "and it holds no checkpoint"), "%s", o.err);
    char manifests[60];
    snprintf(manifests, sizeof manifests, "%s/manifests", dir);
    cr_assert_eq(mkdir(manifests, 0777), 0);
    o = godwit(arguments);
    cr_expect_not_null(strstr(o.err, "'godwit inspect "), "%s", o.err);
    rmdir(manifests);
    rmdir(dir);
}

/* A copy of the program alone has no headers beside it. */
Test(cli, a_new_job_says_where_its_headers_are_missing) {
    if (access("/usr/local/include/godwit/core/godwit.h", R_OK) == 0) cr_skip_test("they are installed");
    char *dir = folder(), line[700];
    snprintf(
        line, sizeof line,
        "mkdir %s/bin && cp " GODWIT_BINARY " %s/bin/ && cd %s && bin/godwit new-job mine >said && grep -q "
        "'^give the folder of Godwit.s source for FOLDER' "
        "said && grep -q '^compile: .* -IFOLDER ' said && grep -q '^test: *INCLUDE=FOLDER sh mine-test.sh' "
        "said; code=$?; rm -r %s; exit $code",
        dir, dir, dir, dir);
    cr_expect_eq(system(line), 0);
    snprintf(line, sizeof line,
             "mkdir %s && cd %s && " GODWIT_BINARY " new-job mine | grep -q FOLDER; code=$?; rm -r %s; "
             "exit $code",
             dir, dir, dir);
    cr_expect_neq(system(line), 0, "a program in its tree has them");
}

static void ignore(void *context, gw_control_request request) {
    (void)context, (void)request;
}

/* It has the directory's lock before it answers, and answers before it knows anything. */
Test(cli, a_peer_that_starts_is_there) {
    char *dir = folder(), arguments[100], path[100];
    gw_err err;
    gw_dirlock lock;
    cr_assert(gw_dirlock_take(gw_io_system(), dir, &lock, &err), "%s", err.text);
    snprintf(arguments, sizeof arguments, "status --dir %s", dir);
    outcome o = godwit(arguments);
    cr_expect_eq(o.code, 1);
    cr_expect_not_null(strstr(o.err, "is starting or ending"), "%s", o.err);
    gw_board *board = gw_board_open(&err);
    gw_control *control = gw_control_open(dir, &(gw_api_sources){.board = board}, ignore, NULL, NULL, &err);
    cr_assert_not_null(control, "%s", err.text);
    o = godwit(arguments);
    cr_expect(o.code == 1 && strstr(o.err, "still starting") != NULL, "%d %s", o.code, o.err);
    snprintf(arguments, sizeof arguments, "status --json --dir %s", dir);
    o = godwit(arguments);
    cr_expect_eq(o.code, 1);
    cr_expect_str_eq(o.out, "{\"error\":\"the peer is still starting\"}\n");
    /* The peer is this process, which does not end. */
    snprintf(arguments, sizeof arguments, "stop --no-wait --dir %s", dir);
    o = godwit(arguments);
    cr_expect_eq(o.code, 0, "%s", o.err);
    int process = gw_control_process(dir);
    struct pollfd ended = {.fd = process, .events = POLLIN};
    cr_assert_geq(process, 0);
    cr_expect_eq(poll(&ended, 1, 0), 0);
    close(process);
    gw_control_close(control, NULL, NULL);
    gw_board_close(board);
    gw_dirlock_release(&lock);
    cr_expect_eq(gw_control_process("/nonexistent/godwit"), -1);
    o = godwit(arguments);
    cr_expect(o.code == 1 && strstr(o.err, "no peer runs in") != NULL, "%d %s", o.code, o.err);
    snprintf(path, sizeof path, "%s/lock", dir);
    unlink(path);
    rmdir(dir);
}

/* What a command prints of a peer that publishes this. */
static outcome answer_of(const char *words, const gw_node_snapshot *snapshot) {
    char *dir = folder(), arguments[100];
    gw_err err;
    gw_board *board = gw_board_open(&err);
    gw_control *control = gw_control_open(dir, &(gw_api_sources){.board = board}, ignore, NULL, NULL, &err);
    cr_assert_not_null(control, "%s", err.text);
    gw_board_publish(board, snapshot);
    snprintf(arguments, sizeof arguments, "%s --dir %s", words, dir);
    outcome o = godwit(arguments);
    gw_control_close(control, NULL, NULL);
    gw_board_close(board);
    rmdir(dir);
    return o;
}

static outcome status_of(const gw_node_snapshot *snapshot) {
    return answer_of("status", snapshot);
}

/* A checkpoint is promised by who has a state to save, or by others. */
Test(cli, stop_promises_no_state_that_nobody_has) {
    static gw_node_snapshot s = {.job = "gpt", .phase = "waiting", .no_state = true};
    outcome o = answer_of("stop --no-wait", &s);
    cr_expect(o.code == 0 && strstr(o.out, "the peer ends: it has neither a state to save nor") != NULL,
              "%s%s", o.out, o.err);
    s.members = 2;
    o = answer_of("stop --no-wait", &s);
    cr_expect(o.code == 0 && strstr(o.out, "the peers save a last checkpoint") != NULL, "%s%s", o.out, o.err);
}

/* A step later the report is another's. */
Test(cli, status_shows_the_last_evaluation) {
    static gw_node_snapshot s = {.job = "gpt", .phase = "computing", .step = 312, .report = "loss=3.25"};
    outcome o = status_of(&s);
    cr_expect_eq(o.code, 0, "%s", o.err);
    cr_expect_null(strstr(o.out, "evaluation"), "%s", o.out);
    cr_expect_null(strstr(o.out, "tokens"), "%s", o.out);
    s.step_ms = 250;
    s.shards_per_s = 64;
    s.tokens_per_s = 65536;
    strcpy(s.evaluation, "val_loss=3.5000001 perplexity=33.1");
    s.evaluation_step = 251;
    o = status_of(&s);
    cr_expect_not_null(strstr(o.out, ", 250.0 ms a step, 64.0 shards/s, 65536 tokens/s\n"), "%s", o.out);
    cr_expect_not_null(strstr(o.out, "\ncomputing; loss=3.25\nlast evaluation: step 251, val_loss=3.5 "
                                     "perplexity=33.1\n"),
                       "%s", o.out);
}

/* `status` says of energy what is known, what is an estimate, and why nothing is known. */
Test(cli, status_shows_the_energy_of_a_peer) {
    static gw_node_snapshot s = {
        .job = "gpt",
        .phase = "computing",
        .step = 60,
        .steps = 100,
        .step_ms = 200,
        .energy = {.processors = GW_ENERGY_RAPL,
                   .joules = {[GW_ENERGY_RAPL] = 3.6e6},
                   .watts = 250,
                   .step_joules = 45000,
                   .shard_joules = 2.5},
        .energy_factors = {.has_co2 = true, .has_money = true, .co2 = 0.5, .money = 0.25, .currency = "EUR"}};
    outcome o = status_of(&s);
    cr_expect_not_null(
        strstr(o.out, "\nenergy of this peer: 1 kWh, 0.5 kg CO2e, 0.25 EUR so far; 250 W, 4.5e+04 J a "
                      "step, 2.5 J a shard; 1.5 kWh, 0.75 kg CO2e, 0.38 EUR at the end\n"),
        "%s", o.out);
    s.energy = (gw_energy){.processors = GW_ENERGY_ESTIMATE, .joules = {[GW_ENERGY_ESTIMATE] = 12345}};
    strcpy(s.energy.lack, "no counter here");
    s.energy_factors = (gw_energy_factors){.has_co2 = false};
    o = status_of(&s);
    cr_expect_not_null(
        strstr(o.out, "\nenergy of this peer: 12.3 kJ so far; an estimate, by --cpu-watts: no counter "
                      "here\n"),
        "%s", o.out);
    s.energy = (gw_energy){.processors = GW_ENERGY_NONE};
    strcpy(s.energy.lack, "no counter here");
    o = status_of(&s);
    cr_expect_not_null(strstr(o.out, "\nenergy of this peer: not known: no counter here\n"), "%s", o.out);
}

/* `status` shows the readings of each GPU, and a mark behind a GPU that is not well. */
Test(cli, status_shows_gpus_and_how_sums_go) {
    static const gw_gpu_reading all = {.answers = true,
                                       .known = GW_GPU_UTILISATION | GW_GPU_MEMORY | GW_GPU_TEMPERATURE |
                                                GW_GPU_POWER | GW_GPU_ECC | GW_GPU_THROTTLE,
                                       .busy_percent = 97,
                                       .memory_used_bytes = 12300000000,
                                       .memory_total_bytes = 85900000000,
                                       .temperature_c = 88,
                                       .power_mw = 612700,
                                       .ecc_corrected = 7,
                                       .ecc_uncorrected = 1,
                                       .throttle = GW_GPU_THROTTLE_POWER_BRAKE};
    static const gw_gpu_reading some = {
        .answers = true, .known = GW_GPU_TEMPERATURE | GW_GPU_ECC | GW_GPU_THROTTLE, .temperature_c = 41};
    static gw_node_snapshot s = {
        .job = "digits",
        .phase = "computing",
        .sums = "host memory",
        .gpu_count = 3,
        .gpus = {
            {.ordinal = 0, .name = "NVIDIA H100", .reading = all, .xids = 2, .last_xid = 48, .bad = true},
            {.ordinal = 1, .name = "NVIDIA H100", .reading = some},
            {.ordinal = 3, .name = "NVIDIA H100", .bad = true}}};
    outcome o = status_of(&s);
    cr_expect_eq(o.code, 0, "%s", o.err);
    cr_expect_not_null(strstr(o.out,
                              "\n  GPU 0  NVIDIA H100, 97% busy, 12.3 of 85.9 GB, 88 C, 613 W, ECC errors "
                              "7 corrected, 1 not, slowed down by power brake, 2 Xid errors, the last "
                              "48  !\n  GPU 1  NVIDIA H100, 41 C\n  GPU 3  NVIDIA H100, does not answer  "
                              "!\n  sums go through host memory (the log says why)\n"),
                       "%s", o.out);
    strcpy(s.sums, "nccl");
    s.counter[GW_COUNT_REDUCE_SENT] = 3000;
    s.counter[GW_COUNT_REDUCE_SAVED] = 5000;
    o = status_of(&s);
    cr_expect_not_null(strstr(o.out, "\n  sums are sent in 3.00 of 8 bytes an element\n"), "%s", o.out);
    cr_expect_not_null(strstr(o.out, "\n  sums go from GPU to GPU, by NCCL\n"), "%s", o.out);
    s.gpu_count = 0;
    s.sums[0] = '\0';
    s.counter[GW_COUNT_REDUCE_SAVED] = 0;
    o = status_of(&s);
    cr_expect_null(strstr(o.out, "GPU"), "%s", o.out);
    cr_expect_null(strstr(o.out, "sums"), "%s", o.out);
}

Test(cli, status_shows_how_records_are_encrypted) {
    static gw_node_snapshot s = {
        .job = "digits", .phase = "computing", .encryption = "AES-256-GCM by libsodium"};
    outcome o = status_of(&s);
    cr_expect_not_null(strstr(o.out, "\n  records to other peers are encrypted: AES-256-GCM by libsodium\n"),
                       "%s", o.out);
    s.encryption[0] = '\0';
    o = status_of(&s);
    cr_expect_null(strstr(o.out, "encrypted"), "%s", o.out);
}

Test(cli, keygen_writes_a_private_key_once) {
    char *dir = folder(), path[100], arguments[120];
    snprintf(path, sizeof path, "%s/key", dir);
    snprintf(arguments, sizeof arguments, "keygen %s", path);
    outcome first = godwit(arguments);
    cr_assert_eq(first.code, 0, "%s", first.err);
    struct stat status;
    cr_assert_eq(stat(path, &status), 0);
    cr_assert_eq(status.st_mode & 0777, 0600);
    time_t written = status.st_mtime;
    off_t size = status.st_size;
    outcome second = godwit(arguments);
    cr_assert_eq(second.code, 1);
    cr_assert_not_null(strstr(second.err, path));
    cr_assert_eq(stat(path, &status), 0);
    cr_assert_eq(status.st_size, size);
    cr_assert_eq(status.st_mtime, written);
    unlink(path);
    rmdir(dir);
}

/* What options become. */

static gw_run_options parsed(const char *arguments) {
    static command c; /* the options point into it */
    split("godwit run", arguments, &c);
    gw_run_options options;
    gw_err err;
    cr_assert(gw_run_options_parse(c.argc, c.argv, &options, &err), "%s: %s", arguments, err.text);
    return options;
}

Test(options, with_a_key_all_addresses_are_listened_on) {
    cr_assert_str_eq(parsed("synthetic --key file").listen, GW_KEYED_LISTEN);
    cr_assert_str_eq(parsed("synthetic --key file --listen 127.0.0.1:0").listen, "127.0.0.1:0");
}

Test(options, defaults) {
    gw_run_options o = parsed("synthetic");
    cr_assert_str_eq(o.job->name, "synthetic");
    cr_assert_str_eq(o.dir, GW_DEFAULT_DIR);
    cr_assert_str_eq(o.listen, GW_DEFAULT_LISTEN);
    cr_assert_eq(o.peers, 1);
    cr_assert_eq(o.workers, 0);
    cr_assert_eq(o.compute.kind, GW_COMPUTE_AUTO);
    cr_assert_eq(o.quorum, GW_QUORUM_ANY);
    cr_assert_not(o.fast);
    cr_assert_not(o.skip_bad);
    cr_assert_not(o.fresh);
    cr_assert_null(o.http);
    cr_assert_eq(o.checkpoint_ns, 30000000000u);
    cr_assert_eq(o.checkpoint_steps, 0);
    gw_run_options_free(&o);
}

Test(options, everything_is_understood) {
    gw_run_options o = parsed("digits --join 127.0.0.1:1,[::1]:2 --join example.org:3 --peers 5 "
                              "--quorum majority --reduce fast --checkpoint-every 40 --http 8080 --steps 7");
    cr_assert_eq(o.seed_count, 3);
    cr_assert_str_eq(o.seeds[1], "[::1]:2");
    cr_assert_str_eq(o.seeds[2], "example.org:3");
    cr_assert_eq(o.peers, 5);
    cr_assert_eq(o.quorum, GW_QUORUM_MAJORITY);
    cr_assert_eq(o.fast, true);
    cr_assert_eq(o.checkpoint_steps, 40);
    cr_assert_eq(o.checkpoint_ns, 0);
    cr_assert_eq(o.steps, 7);
    cr_assert_str_eq(o.http, "127.0.0.1:8080");
    gw_run_options_free(&o);
}

Test(options, times_have_units) {
    gw_run_options o = parsed("digits --checkpoint-every 1.5m --join-timeout 250ms --keep 3 --http off");
    cr_assert_eq(o.checkpoint_ns, 90000000000u);
    cr_assert_eq(o.join_timeout_ns, 250000000u);
    cr_assert_eq(o.keep, 3);
    cr_assert_null(o.http);
    gw_run_options_free(&o);
}

Test(options, a_job_gets_its_own_options_and_defaults) {
    gw_run_options o = parsed("synthetic --shards 7 --spin");
    cr_assert_str_eq(gw_param_text(&o.params, "shards"), "7");
    cr_assert_str_eq(gw_param_text(&o.params, "spin"), "1");
    cr_assert_str_eq(gw_param_text(&o.params, "shard-ms"), "20");
    cr_assert_null(gw_param_text(&o.params, "bad-shard"));
    gw_run_options_free(&o);
}

/* Where no GPU is to be seen, that is said, and so is what else a run on one would miss and where it was
 * looked for; every line fits a terminal. */
Test(devices, without_a_gpu_it_is_said_what_is_missing) {
    setenv("CUDA_VISIBLE_DEVICES", "-1", 1);
    setenv("GODWIT_NCCL", "/nonexistent/libnccl.so.2", 1);
    outcome o = godwit("devices --gpus");
    cr_assert_eq(o.code, 1, "%s", o.err);
    cr_assert_str_empty(o.err);
    cr_assert_not_null(strstr(o.out, "GPUs cannot be used:"), "%s", o.out);
    cr_assert_not_null(strstr(o.out, "NCCL cannot be used:"), "%s", o.out);
    cr_assert_not_null(strstr(o.out, "/nonexistent/libnccl.so.2"), "%s", o.out);
    o = godwit("devices --gpus --json");
    cr_assert_eq(o.code, 1);
    json_t *object = json_loads(o.out, 0, NULL);
    cr_assert_not_null(object, "%s", o.out);
    cr_assert_eq(json_array_size(json_object_get(object, "gpus")), 0);
    cr_assert(json_is_false(json_object_get(object, "gpu_usable")));
    cr_assert_not_null(json_string_value(json_object_get(object, "gpu_error")));
    cr_assert_not_null(json_object_get(json_object_get(object, "nccl"), "error"));
    json_decref(object);
}
