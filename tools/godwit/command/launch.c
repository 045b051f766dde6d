/* `godwit launch` starts the same command of godwit on several hosts by ssh. */
#include "core/base/assert.h"
#include "core/os/private_file.h"
#include "net/secure/keyring.h"
#include "tools/godwit/command/commands.h"
#include "tools/godwit/launch/launcher.h"
#include "tools/godwit/launch/remote.h"
#include "tools/godwit/options/options.h"
#include "tools/godwit/text/number.h"
#include "tools/godwit/text/shell_word.h"
#include "tools/godwit/text/suggest.h"

#include <argp.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    KEY_HOSTS = 256,
    KEY_HOSTS_FILE,
    KEY_KEY,
    KEY_COPY,
    KEY_PROGRAM,
    KEY_PORT,
    KEY_CHDIR,
    KEY_SSH,
    KEY_DETACH,
    KEY_DRY_RUN,
    KEY_REMOTE_END
};

enum { PORT = 7117, SSH_WORDS = 64, ADDED = 12 /* arguments that are added to a command */ };

static const struct argp_option launch_options[] = {
    {"hosts", KEY_HOSTS, "LIST", 0,
     "The hosts: node[1-4],user@b,c=10.0.0.3 (c, which peers reach at 10.0.0.3)", 0},
    {"hosts-file", KEY_HOSTS_FILE, "FILE", 0, "More hosts: such a list in each line, # begins a remark", 0},
    {"key", KEY_KEY, "FILE", 0,
     "The cluster's key: it is copied to ~/.godwit on each host, readable by its owner only, and run gets it",
     0},
    {"copy", KEY_COPY, NULL, 0,
     "Copy this program to ~/.godwit on each host, unless it is there, and start that", 0},
    {"program", KEY_PROGRAM, "PATH", 0, "The program on the hosts (godwit, in the PATH there)", 0},
    {"port", KEY_PORT, "N", 0, "The port of the peers (7117)", 0},
    {"chdir", KEY_CHDIR, "DIR", 0, "The folder on the hosts in which the command runs (the home directory)",
     0},
    {"ssh", KEY_SSH, "COMMAND", 0,
     "The command that connects, in words with spaces between them; the host and one argument follow it (ssh "
     "-T -o "
     "BatchMode=yes -o ConnectTimeout=20 -o ServerAliveInterval=15)",
     0},
    {"detach", KEY_DETACH, NULL, 0,
     "Where the connection is lost or the terminal closed, the peers go on; otherwise they leave", 0},
    {"dry-run", KEY_DRY_RUN, NULL, 0, "Print what would be run on each host, and run nothing", 0},
    {"remote-end", KEY_REMOTE_END, NULL, OPTION_HIDDEN, "", 0},
    {0},
};

static const char launch_doc[] =
    "Starts the same command of godwit on each host by ssh, and shows all their output as one log.\v"
    "COMMAND is one of godwit's, mostly run. To run these are added where they are not given: --join with "
    "the addresses "
    "of all hosts, --peers with their number, --name with the host's, --key, and --listen with the port. In "
    "its "
    "arguments {host} stands for the host's name and {n} for its number, from 0 on. A host may be named "
    "several times, "
    "with a --dir that has {n} in it.\n\n"
    "Ctrl-C (or SIGTERM) asks all peers to leave, with a checkpoint; a second one ends them at once. The "
    "exit code is "
    "that of the worst command; hosts that are lost while others end well do not count.";

typedef struct arguments {
    gw_launch_hosts hosts;
    const char *key, *program, *directory;
    char *ssh; /* given, and cut into words */
    char *key_text;
    uint16_t port;
    bool copy, detach, dry_run, remote_end;
    char **command;
    uint32_t command_count;
} arguments;

static error_t parse_launch(int key, char *arg, struct argp_state *state) {
    arguments *a = state->input;
    gw_err err;
    switch (key) {
    case KEY_HOSTS:
        if (!gw_launch_hosts_add(&a->hosts, arg, &err)) gw_argp_error(state, "--hosts: %s", err.text);
        return 0;
    case KEY_HOSTS_FILE:
        if (!gw_launch_hosts_read(&a->hosts, arg, &err)) gw_argp_error(state, "--hosts-file: %s", err.text);
        return 0;
    case KEY_KEY:
        a->key = arg;
        return 0;
    case KEY_COPY:
        a->copy = true;
        return 0;
    case KEY_PROGRAM:
        a->program = arg;
        return 0;
    case KEY_PORT:
        a->port = (uint16_t)gw_number_of_option(state, "--port", arg, 1, UINT16_MAX);
        return 0;
    case KEY_CHDIR:
        a->directory = arg;
        return 0;
    case KEY_SSH:
        a->ssh = arg;
        return 0;
    case KEY_DETACH:
        a->detach = true;
        return 0;
    case KEY_DRY_RUN:
        a->dry_run = true;
        return 0;
    case KEY_REMOTE_END:
        a->remote_end = true;
        return 0;
    case ARGP_KEY_ARG:
        gw_argp_error(state, "unexpected argument '%s': the command follows --, as in -- run digits", arg);
        return EINVAL;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* Checks and reads what the options name. */
static bool complete(arguments *a, gw_err *err) {
    gw_keyring keyring;
    if (a->command_count == 0)
        return gw_fail(err, GW_E_USAGE,
                       "give the command behind --, as in: godwit launch --hosts a,b -- run digits");
    if (a->command[0][0] == '-')
        return gw_fail(err, GW_E_USAGE, "'%.80s' is no command: behind -- stands what would follow 'godwit'",
                       a->command[0]);
    if (a->hosts.count == 0) return gw_fail(err, GW_E_USAGE, "name the hosts by --hosts or --hosts-file");
    if (a->copy && a->program != NULL)
        return gw_fail(err, GW_E_USAGE, "--copy and --program exclude each other: give one of them");
    if (a->program != NULL && strpbrk(a->program, "\n\r") != NULL)
        return gw_fail(err, GW_E_USAGE, "--program: the path has a line feed");
    if (a->key == NULL) return true;
    if (strcmp(a->command[0], "run") != 0)
        return gw_fail(err, GW_E_USAGE, "--key is for run: '%.80s' takes none", a->command[0]);
    if (!gw_keyring_load(a->key, &keyring, err)) {
        gw_blame_named(false, err);
        return gw_fail_in(err, "--key");
    }
    gw_keyring_wipe(&keyring);
    a->key_text = malloc(GW_LAUNCH_KEY_BYTES + 1);
    GW_ASSERT_MEMORY(a->key_text != NULL);
    return gw_private_file_read(gw_io_system(), a->key, GW_PRIVATE_GIVEN, a->key_text,
                                GW_LAUNCH_KEY_BYTES + 1, err) ||
           gw_fail_in(err, "--key");
}

/* The command of each host. */

/* The value of an option of the command that has one; NULL = it is not given. What follows "--" are arguments of a
 * program. */
static const char *value_of(const arguments *a, const char *option) {
    const size_t length = strlen(option);
    for (uint32_t i = 1; i < a->command_count && strcmp(a->command[i], "--") != 0; i++) {
        if (strncmp(a->command[i], option, length) != 0) continue;
        if (a->command[i][length] == '=') return a->command[i] + length + 1;
        if (a->command[i][length] == '\0') return i + 1 < a->command_count ? a->command[i + 1] : "";
    }
    return NULL;
}

/* An argument with {host} and {n} written out. */
static char *write_out(const char *argument, const gw_launch_host *host, uint32_t number) {
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    GW_ASSERT_MEMORY(out != NULL);
    for (const char *at = argument; *at != '\0';) {
        if (strncmp(at, "{host}", 6) == 0) {
            fputs(host->name, out);
            at += 6;
        } else if (strncmp(at, "{n}", 3) == 0) {
            fprintf(out, "%u", number);
            at += 3;
        } else {
            fputc(*at++, out);
        }
    }
    GW_ASSERT_MEMORY(fclose(out) == 0);
    return text;
}

/* "10.0.0.1:7117,[fd00::2]:7117": all peers, or so many at equal distances as there can be seeds. */
static char *join_text(const arguments *a) {
    char *text = NULL;
    size_t length;
    const uint32_t count = a->hosts.count, seeds = count < GW_MAX_SEEDS ? count : GW_MAX_SEEDS;
    FILE *out = open_memstream(&text, &length);
    GW_ASSERT_MEMORY(out != NULL);
    for (uint32_t i = 0; i < seeds; i++) {
        const gw_launch_host *host = &a->hosts.list[(uint64_t)i * count / seeds];
        const bool v6 = strchr(host->address, ':') != NULL;
        fprintf(out, "%s%s%s%s:%u", i > 0 ? "," : "", v6 ? "[" : "", host->address, v6 ? "]" : "",
                a->port + host->twin);
    }
    GW_ASSERT_MEMORY(fclose(out) == 0);
    return text;
}

__attribute__((format(printf, 3, 4))) static void add(gw_launch_request *request, const char *option,
                                                      const char *format, ...) {
    va_list list;
    request->argv[request->argc] = strdup(option);
    GW_ASSERT_MEMORY(request->argv[request->argc++] != NULL);
    va_start(list, format);
    GW_ASSERT_MEMORY(vasprintf(&request->argv[request->argc++], format, list) >= 0);
    va_end(list);
}

/* Adds what each peer needs to meet the others. */
static void add_for_run(const arguments *a, const gw_launch_host *host, gw_launch_request *request) {
    const bool has_key = a->key != NULL || value_of(a, "--key") != NULL;
    if (value_of(a, "--join") == NULL && a->hosts.count > 1) {
        char *join = join_text(a);
        add(request, "--join", "%s", join);
        free(join);
    }
    if (value_of(a, "--peers") == NULL) add(request, "--peers", "%u", a->hosts.count);
    if (value_of(a, "--listen") == NULL && !has_key)
        add(request, "--listen", "%s:%u", strcmp(host->address, "::1") == 0 ? "[::1]" : "127.0.0.1",
            a->port + host->twin);
    else if (value_of(a, "--listen") == NULL && a->port + host->twin != PORT)
        add(request, "--listen", "[::]:%u", a->port + host->twin);
    char number[16] = "";
    if (host->twins > 1) snprintf(number, sizeof number, ".%u", host->twin);
    if (value_of(a, "--name") == NULL)
        add(request, "--name", "%.*s%s", (int)(GW_GOSSIP_NAME_BYTES - strlen(number)), host->name, number);
}

/* The name of the key file on the host: the peers of one host have one each, as each is written by itself. */
static char *key_name(const arguments *a, const gw_launch_host *host) {
    const char *slash = strrchr(a->key, '/'), *base = slash != NULL ? slash + 1 : a->key;
    char *name;
    base += strspn(base, ".");
    if (host->twin > 0)
        GW_ASSERT_MEMORY(asprintf(&name, "%s-%u", base[0] != '\0' ? base : "key", host->twin + 1) >= 0);
    else
        GW_ASSERT_MEMORY((name = strdup(base[0] != '\0' ? base : "key")) != NULL);
    return name;
}

static void make_request(const arguments *a, uint32_t number, gw_launch_request *request) {
    const gw_launch_host *host = &a->hosts.list[number];
    const bool is_run = strcmp(a->command[0], "run") == 0;
    const uint32_t before = a->command_count < 2 ? a->command_count : 2; /* run JOB */
    *request = (gw_launch_request){.detach = a->detach, .silence_s = GW_LAUNCH_SILENCE_S};
    request->argv = calloc(a->command_count + ADDED + 1, sizeof *request->argv);
    request->directory = strdup(a->directory != NULL ? a->directory : "");
    request->key = strdup(a->key_text != NULL ? a->key_text : "");
    request->key_name = a->key != NULL ? key_name(a, host) : strdup("");
    GW_ASSERT_MEMORY(request->argv != NULL && request->directory != NULL && request->key != NULL &&
                     request->key_name != NULL);
    for (uint32_t i = 0; i < a->command_count; i++) {
        if (i == before && is_run) add_for_run(a, host, request);
        request->argv[request->argc++] = write_out(a->command[i], host, number);
    }
    if (is_run && a->command_count == before) add_for_run(a, host, request);
}

/* What would keep peers from meeting is told before any is started. */
static bool check_run(const arguments *a, gw_err *err) {
    const char *dir = value_of(a, "--dir");
    bool twins = false;
    if (strcmp(a->command[0], "run") != 0) return true;
    if (a->command_count < 2) return gw_fail(err, GW_E_USAGE, "give the job behind run, as in -- run digits");
    for (uint32_t i = 0; i < a->hosts.count; i++) {
        const gw_launch_host *host = &a->hosts.list[i];
        twins |= host->twins > 1;
        if (a->port + host->twin > UINT16_MAX)
            return gw_fail(err, GW_E_USAGE, "--port: there is no port for a peer of %s", host->name);
    }
    if (twins && (dir == NULL || strstr(dir, "{n}") == NULL))
        return gw_fail(
            err, GW_E_USAGE,
            "a host is named twice, and each peer needs a directory of its own: give run a --dir with {n} in "
            "it, as --dir peer{n}");
    if (a->key == NULL && value_of(a, "--key") == NULL && !gw_launch_hosts_are_here(&a->hosts))
        return gw_fail(err, GW_E_USAGE,
                       "without a key peers listen on loopback only, and other hosts do not reach them: make "
                       "one ('godwit "
                       "keygen cluster.key') and give it (--key cluster.key)");
    return true;
}

static uint32_t needed_of(const arguments *a) {
    const char *peers = value_of(a, "--peers");
    uint64_t needed = a->hosts.count;
    if (strcmp(a->command[0], "run") != 0) return 0;
    if (peers != NULL) (void)gw_number_read(peers, 1, GW_MAX_MEMBERS, &needed);
    return (uint32_t)needed;
}

/* Prints the command of a host as a shell there reads it. */
static void print_command(const arguments *a, uint32_t number, const gw_launch_request *request) {
    printf("%s: ", a->hosts.list[number].ssh);
    if (request->directory[0] != '\0') {
        fputs("cd ", stdout);
        gw_shell_word(stdout, request->directory);
        fputs(" && ", stdout);
    }
    fputs("godwit", stdout);
    for (uint32_t i = 0; i < request->argc; i++) {
        putchar(' ');
        gw_shell_word(stdout, request->argv[i]);
        if (i == 1 && request->key[0] != '\0') {
            fputs(" --key ~/.godwit/", stdout);
            gw_shell_word(stdout, request->key_name);
        }
    }
    putchar('\n');
}

/* Cuts --ssh into its words. */
static bool cut_ssh(const arguments *a, char *words[SSH_WORDS + 1], gw_err *err) {
    static char usual[] = "ssh -T -o BatchMode=yes -o ConnectTimeout=20 -o ServerAliveInterval=15";
    char *rest = a->ssh != NULL ? a->ssh : usual, *word;
    uint32_t count = 0;
    while ((word = strsep(&rest, " \t")) != NULL) {
        if (word[0] == '\0') continue;
        if (count == SSH_WORDS) return gw_fail(err, GW_E_USAGE, "--ssh: more than %d words", (int)SSH_WORDS);
        words[count++] = word;
    }
    words[count] = NULL;
    return count > 0 || gw_fail(err, GW_E_USAGE, "--ssh: the command is empty");
}

static int launch(const arguments *a, gw_err *err) {
    char *ssh[SSH_WORDS + 1];
    int code = -1;
    if (!check_run(a, err) || !cut_ssh(a, ssh, err)) return -1;
    gw_launch_request *requests = calloc(a->hosts.count, sizeof *requests);
    GW_ASSERT_MEMORY(requests != NULL);
    for (uint32_t i = 0; i < a->hosts.count; i++) make_request(a, i, &requests[i]);
    const gw_launch_options options = {.hosts = &a->hosts,
                                       .requests = requests,
                                       .ssh = ssh,
                                       .program = a->copy              ? NULL
                                                  : a->program != NULL ? a->program
                                                                       : "godwit",
                                       .copy = a->copy,
                                       .detach = a->detach,
                                       .needed = needed_of(a)};
    if (a->dry_run) {
        for (uint32_t i = 0; i < a->hosts.count; i++) print_command(a, i, &requests[i]);
        code = 0;
    } else {
        code = gw_launcher_run(&options, err);
    }
    for (uint32_t i = 0; i < a->hosts.count; i++) gw_launch_request_free(&requests[i]);
    free(requests);
    return code;
}

int gw_launch_main(int argc, char **argv) {
    static arguments a;
    gw_err err;
    int options = 1, code = -1;
    a = (arguments){.port = PORT};
    while (options < argc && strcmp(argv[options], "--") != 0) options++;
    a.command = argv + (options < argc ? options + 1 : argc);
    a.command_count = options < argc ? (uint32_t)(argc - options - 1) : 0;
    struct argp argp = {.options = launch_options,
                        .parser = parse_launch,
                        .args_doc = "-- COMMAND [ARGUMENT...]",
                        .doc = launch_doc};
    gw_argp_parse(&argp, options, argv, &a);
    if (a.remote_end)
        code = gw_launch_remote(&err);
    else if (complete(&a, &err))
        code = launch(&a, &err);
    if (a.key_text != NULL) explicit_bzero(a.key_text, strlen(a.key_text));
    free(a.key_text);
    gw_launch_hosts_free(&a.hosts);
    return code >= 0 ? code : gw_command_fail(argv[0], &err);
}
