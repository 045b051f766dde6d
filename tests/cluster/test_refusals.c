/* Who is not let in, and what they are told. */
#include "tests/cluster/lab.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ENDLESS   "synthetic --shards 24 --shard-ms 2 --state-bytes 64k --workers 1"
#define SYNTHETIC ENDLESS " --steps 60"

#define LASTING "synthetic --steps 1000000 --shards 24 --shard-ms 2 --workers 1 --peers 2"

static void expect_stderr(const lab_peer *peer, const char *part) {
    cr_expect(peer->stderr_text && strstr(peer->stderr_text, part), "'%s' is not in: %s", part,
              peer->stderr_text ? peer->stderr_text : "");
}

/* Ended with `code`, and stderr says `part`, as does the last event. */
static void refused(lab *l, lab_peer *peer, int code, const char *part) {
    cr_expect_eq(lab_end(l, peer), code);
    expect_stderr(peer, part);
    const json_t *done = lab_last(peer, "done");
    cr_assert_not_null(done, "the events end without a last one: %s", part);
    cr_expect_not_null(strstr(lab_text(done, "text"), part), "%s", lab_text(done, "text"));
    if (strcmp(lab_text(done, "outcome"), "refused") == 0)
        cr_expect_eq(lab_number(done, "exit_code"), (uint64_t)code);
}

Test(refusals, other_parameters) {
    lab *l = lab_open();
    lab_peer *first = lab_start(l, "first", NULL, ENDLESS " --seed 5");
    lab_wait_step(l, first, 1);
    lab_peer *other = lab_start(l, "other", first, ENDLESS " --seed 6 --steps 9000");
    refused(l, other, 1, "seed=5");
    expect_stderr(other, "seed=6");
    expect_stderr(other, "theirs: not given, here: steps=9000");
    cr_expect_str_eq(lab_text(lab_last(other, "done"), "outcome"), "denied");
    char command[LAB_PATH + 40];
    int code;
    snprintf(command, sizeof command, "ls %s | grep -E '^(job|command|record)-'", other->dir);
    char *left = lab_shell(command, &code);
    cr_expect_str_eq(left, "", "of a job that nobody can go on with stays: %s", left);
    free(left);
    lab_stop_alike(l, &first, 1, ENDLESS " --seed 5");
    lab_close(l);
}

/* Same name, same options, same first shard, which alone is probed. */
Test(refusals, other_code_of_a_shared_object) {
    lab *l = lab_open();
    lab_peer *first = lab_start(l, "first", NULL, GODWIT_FAULTY_JOB " --workers 1 --peers 3");
    lab_peer *second = lab_start(l, "second", first, GODWIT_FAULTY_JOB " --workers 1 --peers 3");
    lab_peer *other = lab_start(l, "other", first, GODWIT_EDITED_JOB " --workers 1 --peers 3");
    refused(l, other, 1, "(the file of the shared object differs)");
    cr_expect_str_eq(lab_text(lab_last(other, "done"), "outcome"), "denied");
    lab_peer *third = lab_start(l, "third", second, GODWIT_FAULTY_JOB " --workers 1 --peers 3");
    const char *hash = lab_state(l, first, "done");
    cr_expect_str_eq(lab_state(l, second, "done"), hash);
    cr_expect_str_eq(lab_state(l, third, "done"), hash);
    lab_close(l);
}

Test(refusals, other_code_does_not_resume) {
    lab *l = lab_open();
    const char *of_edited = lab_undisturbed(l, GODWIT_EDITED_JOB " --workers 1");
    lab_state(l, lab_start(l, "one", NULL, GODWIT_FAULTY_JOB " --workers 1"), "done");
    lab_peer *edited = lab_start(l, "one", NULL, GODWIT_EDITED_JOB " --workers 1");
    cr_expect_eq(lab_end(l, edited), 2);
    expect_stderr(edited, "of another job (the file of the shared object differs");
    edited = lab_start(l, "one", NULL, GODWIT_EDITED_JOB " --workers 1 --fresh");
    cr_expect_str_eq(lab_state(l, edited, "done"), of_edited);
    cr_expect_null(lab_last(edited, "resumed"));
    lab_peer *again = lab_start(l, "one", NULL, GODWIT_FAULTY_JOB " --workers 1");
    cr_expect_str_neq(lab_state(l, again, "done"), of_edited);
    cr_expect_not_null(lab_last(again, "resumed"), "nor what the job was before");
    lab_close(l);
}

/* Same build, same names and versions of everything, but the processor, or a library on it, gives other bits.
 */
Test(refusals, a_machine_that_computes_other_bits_does_not_resume) {
    lab *l = lab_open();
    lab_peer *here = lab_start(l, "one", NULL, GODWIT_FAULTY_JOB " --workers 1");
    lab_wait_step(l, here, 4);
    lab_signal(here, SIGTERM);
    cr_expect_eq(lab_end(l, here), 0);
    cr_assert_eq(setenv("FAULTY_MACHINE", "1", 1), 0);
    const char *of_other = lab_undisturbed(l, GODWIT_FAULTY_JOB " --workers 1");
    lab_peer *other = lab_start(l, "one", NULL, GODWIT_FAULTY_JOB " --workers 1");
    cr_expect_eq(lab_end(l, other), 2);
    expect_stderr(other, "of another job (the bits of a first shard differ");
    other = lab_start(l, "one", NULL, GODWIT_FAULTY_JOB " --workers 1 --fresh");
    cr_expect_str_eq(lab_state(l, other, "done"), of_other);
    cr_expect_null(lab_last(other, "resumed"));
    cr_assert_eq(unsetenv("FAULTY_MACHINE"), 0);
    lab_peer *again = lab_start(l, "one", NULL, GODWIT_FAULTY_JOB " --workers 1");
    cr_expect_str_neq(lab_state(l, again, "done"), of_other);
    cr_expect_not_null(lab_last(again, "resumed"), "what the job was before");
    lab_close(l);
}

Test(refusals, a_machine_that_computes_other_bits_does_not_join) {
    lab *l = lab_open();
    lab_peer *first = lab_start(l, "first", NULL, GODWIT_FAULTY_JOB " --workers 1 --peers 2");
    cr_assert_eq(setenv("FAULTY_MACHINE", "1", 1), 0);
    lab_peer *other = lab_start(l, "other", first, GODWIT_FAULTY_JOB " --workers 1 --peers 2");
    cr_assert_eq(unsetenv("FAULTY_MACHINE"), 0);
    lab_peer *second = lab_start(l, "second", first, GODWIT_FAULTY_JOB " --workers 1 --peers 2");
    refused(l, other, 1, "(the bits of a first shard differ, as another processor or library may give them)");
    cr_expect_str_eq(lab_state(l, first, "done"), lab_state(l, second, "done"));
    lab_close(l);
}

#define FAST                                                                                                 \
    "digits --samples 1200 --hidden 32 --epochs 400 --workers 1 --peers 2 --quorum majority --reduce fast"

static void ask_to_stop(const lab_peer *peer) {
    char command[LAB_PATH + 32];
    snprintf(command, sizeof command, "stop --dir %s", peer->dir);
    cr_assert_eq(lab_command(command), 0);
}

/* Another class computes other bits of a shard, and neither is wrong. */
Test(refusals, another_class_does_not_join_float_sums_that_are_verified) {
    lab *l = lab_open();
    lab_peer *first = lab_start(l, "first", NULL, FAST " --verify 100% --cpu-class haswell");
    lab_peer *second = lab_start(l, "second", first, FAST " --verify 100% --cpu-class haswell");
    lab_wait_step(l, first, 2);
    lab_peer *other = lab_launch(l, "other", first, NULL, FAST " --verify 100% --cpu-class nehalem");
    refused(l, other, 1, "theirs: class=cpu ");
    expect_stderr(other, "core=Haswell");
    expect_stderr(other, "here: class=cpu ");
    expect_stderr(other, "core=Nehalem");
    ask_to_stop(first);
    cr_expect_str_eq(lab_state(l, first, "stopped"), lab_state(l, second, "stopped"));
    cr_expect(first->stderr_text == NULL || strstr(first->stderr_text, "it computed") == NULL, "%s",
              first->stderr_text);
    lab_close(l);
}

Test(refusals, another_class_joins_float_sums_that_nobody_verifies) {
    lab *l = lab_open();
    lab_peer *first = lab_start(l, "first", NULL, FAST " --cpu-class haswell");
    lab_peer *second = lab_start(l, "second", first, FAST " --cpu-class haswell");
    lab_wait_step(l, first, 2);
    lab_peer *other = lab_start(l, "other", first, FAST " --cpu-class nehalem");
    lab_wait_view(l, first, 3);
    ask_to_stop(first);
    const char *hash = lab_state(l, first, "stopped");
    cr_expect_str_eq(lab_state(l, second, "stopped"), hash);
    cr_expect_str_eq(lab_state(l, other, "stopped"), hash);
    lab_close(l);
}

/* A state that no machine can make: what costs nothing to find out is said before it is tried. */
Test(refusals, what_is_wrong_with_addresses_and_files_is_said_before_the_state_is_made) {
    lab *l = lab_open();
    lab_peer *first = lab_start(l, "first", NULL, SYNTHETIC " --steps 1000000");
    char taken[40];
    snprintf(taken, sizeof taken, "127.0.0.1:%u", first->port);
    const struct {
        const char *listen, *option, *said;
        bool lasts; /* another start cannot go better: exit code 2 */
    } cases[] = {
        {"0.0.0.0:0", "", "without a key only loopback is allowed", true},
        {taken, "", "is in use: another process listens there. Stop it, or choose another --listen", false},
        {"nosuch.invalid:1", "", "--listen nosuch.invalid:1: ", false},
        {NULL, " --advertise nosuch.invalid:1", "--advertise nosuch.invalid:1: ", false},
        {NULL, " --http nosuch.invalid:1", "--http nosuch.invalid:1: ", false},
        {NULL, " --http ",
         "is in use: another process listens there. Stop that process, or give another --http", false},
        {NULL, " --metrics /nonexistent/a.csv", "--metrics: cannot write /nonexistent/a.csv", true},
        {NULL, " --key /nonexistent/key", "there is no key file /nonexistent/key", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char args[LAB_PATH];
        bool port = strcmp(cases[i].option, " --http ") == 0;
        snprintf(args, sizeof args, "synthetic --state-bytes 1000g --workers 1%s%s", cases[i].option,
                 port ? taken : "");
        lab_peer *peer = lab_launch(l, "other", NULL, cases[i].listen, args);
        refused(l, peer, cases[i].lasts ? 2 : 1, cases[i].said);
    }
    lab_kill(l, first);
    lab_close(l);
}

#define LARGE "synthetic --steps 2 --shards 4 --shard-ms 0 --workers 1 --state-bytes "

/* A state that comes from others lies beside the one that it replaces until it has been checked. */
Test(refusals, a_state_that_does_not_fit_twice_where_it_may_be_fetched) {
    LAB_PRELOADS;
    lab *l = lab_open();
    cr_assert_eq(setenv("LD_PRELOAD", GODWIT_SMALL_MACHINE, 1), 0); /* of 64 MiB */
    lab_peer *large = lab_launch(l, "large", NULL, NULL, LARGE "24m --join 127.0.0.1:1 --join-timeout 100ms");
    refused(l, large, 1, "this job needs 0.1 GiB of memory");
    lab_peer *model = lab_launch(l, "model", NULL, NULL, "gpt --data " GODWIT_BINARY " --channels 512");
    refused(l, model, 1, "Take a smaller --model, or fewer --layers or --channels");
    lab_state(l, lab_start(l, "alone", NULL, LARGE "24m"), "done");
    lab_peer *peers[2];
    lab_flock(l, 2, LARGE "16m", peers);
    for (int i = 0; i < 2; i++) lab_state(l, peers[i], "done");
    cr_assert_eq(unsetenv("LD_PRELOAD"), 0);
    lab_close(l);
}

Test(refusals, drawn_digits_that_do_not_fit) {
    LAB_PRELOADS;
    lab *l = lab_open();
    cr_assert_eq(setenv("LD_PRELOAD", GODWIT_SMALL_MACHINE, 1), 0); /* of 64 MiB */
    lab_peer *many = lab_launch(l, "many", NULL, NULL, "digits --samples 100000 --steps 1");
    refused(l, many, 1, "this job needs 0.1 GiB of memory here; the machine");
    expect_stderr(many, "Take fewer --samples");
    lab_state(l, lab_start(l, "few", NULL, "digits --samples 600 --hidden 8 --steps 1 --workers 1"), "done");
    cr_assert_eq(unsetenv("LD_PRELOAD"), 0);
    lab_close(l);
}

/* A checkpoint is copied while the disk writes it, up to 256 MiB of it at once. */
Test(refusals, a_state_that_does_not_fit_beside_what_a_checkpoint_takes) {
    LAB_PRELOADS;
    lab *l = lab_open();
    cr_assert_eq(setenv("LD_PRELOAD", GODWIT_SMALL_MACHINE, 1), 0); /* of 64 MiB */
    refused(l, lab_launch(l, "large", NULL, NULL, LARGE "36m"), 1, "this job needs 0.1 GiB of memory");
    cr_assert_eq(unsetenv("LD_PRELOAD"), 0);
    lab_close(l);
}

/* Mostly the kernel gives no such piece, so that there is nothing to be reckoned. */
Test(refusals, a_state_that_no_machine_has_is_refused_with_what_is_smaller) {
    lab *l = lab_open();
    lab_peer *state = lab_launch(l, "state", NULL, NULL, LARGE "1000g");
    refused(l, state, 1, ". Take a smaller job");
    lab_peer *model =
        lab_launch(l, "model", NULL, NULL, "gpt --data " GODWIT_BINARY " --layers 80 --channels 65536");
    refused(l, model, 1, ". Take a smaller --model, or fewer --layers or --channels");
    lab_close(l);
}

static bool has_warned(const lab_peer *peer, const char *words) {
    size_t i;
    const json_t *event;
    json_array_foreach(peer->events, i, event) {
        bool warning = strcmp(lab_text(event, "event"), "warning") == 0;
        if (warning && strstr(lab_text(event, "text"), words) != NULL) return true;
    }
    return false;
}

/* Peers that would fit one by one: what others have now is no reason to refuse, but to warn. */
Test(refusals, a_state_beside_others_that_leave_too_little_is_begun_with_a_warning) {
    LAB_PRELOADS;
    lab *l = lab_open();
    cr_assert_eq(setenv("LD_PRELOAD", GODWIT_BUSY_MACHINE, 1), 0); /* which leave 16 MiB */
    static const char *const states[] = {"36m", "4m"};
    for (int i = 0; i < 2; i++) {
        char args[200];
        snprintf(args, sizeof args, LARGE "%s", states[i]);
        lab_peer *peer = lab_start(l, states[i], NULL, args);
        lab_state(l, peer, "done");
        cr_expect_eq(has_warned(peer, "what others leave now is 0.0. Take a smaller job, or end others"),
                     i == 0, "of %s", states[i]);
    }
    cr_assert_eq(unsetenv("LD_PRELOAD"), 0);
    lab_close(l);
}

/* The newcomer is told both settings and ends; the flock never takes it in. */
Test(refusals, no_transport_in_common) {
    lab *l = lab_open();
    lab_peer *first = lab_start(l, "first", NULL, ENDLESS " --transport tcp");
    lab_wait_step(l, first, 1);
    for (int attempt = 0; attempt < 2; attempt++) { /* the second time it knows the flock from before */
        lab_peer *other = lab_start(l, "other", first, ENDLESS " --transport shm");
        refused(l, other, 1, "theirs: --transport tcp, here: --transport shm");
        cr_expect_str_eq(lab_text(lab_last(other, "done"), "outcome"), "denied");
        cr_expect_null(lab_last(other, "view"));
    }
    lab_peer *third = lab_start(l, "third", first, ENDLESS);
    lab_wait_view(l, third, 2); /* with auto it has TCP in common */
    lab_stop_alike(l, (lab_peer *[]){first, third}, 2, ENDLESS);
    cr_expect_eq(json_integer_value(json_object_get(lab_last(first, "done"), "repaired")), 0);
    lab_close(l);
}

/* Before there is a flock, those who are fewer go. */
Test(refusals, no_transport_in_common_at_the_beginning) {
    lab *l = lab_open();
    lab_peer *first = lab_start(l, "first", NULL, SYNTHETIC " --peers 3 --transport shm");
    lab_peer *second = lab_start(l, "second", first, SYNTHETIC " --peers 3 --transport shm");
    lab_peer *other = lab_start(l, "other", first, SYNTHETIC " --peers 3 --transport tcp");
    refused(l, other, 1, "theirs: --transport shm, here: --transport tcp");
    lab_peer *third = lab_start(l, "third", second, SYNTHETIC " --peers 3 --transport shm");
    const char *hash = lab_state(l, first, "done");
    cr_expect_str_eq(lab_state(l, second, "done"), hash);
    cr_expect_str_eq(lab_state(l, third, "done"), hash);
    lab_close(l);
}

Test(refusals, port_in_use) {
    lab *l = lab_open();
    lab_peer *first = lab_start(l, "first", NULL, ENDLESS);
    char listen[64];
    snprintf(listen, sizeof listen, "127.0.0.1:%u", first->port);
    lab_peer *second = lab_launch(l, "second", NULL, listen, ENDLESS);
    refused(l, second, 1, listen);
    cr_expect_neq(access(second->dir, F_OK), 0, "nothing stays of it");
    lab_stop_alike(l, &first, 1, ENDLESS);
    lab_close(l);
}

Test(refusals, directory_in_use) {
    lab *l = lab_open();
    lab_peer *first = lab_start(l, "same", NULL, ENDLESS);
    lab_wait_step(l, first, 1);
    lab_peer *second = lab_launch(l, "same", NULL, NULL, ENDLESS);
    refused(l, second, 1, second->dir);
    char pid[32];
    snprintf(pid, sizeof pid, "%d", (int)first->pid);
    expect_stderr(second, pid);
    cr_expect_eq(strncmp(second->stderr_text, "godwit run synthetic: /", 23), 0,
                 "no name of a part of the source is before it: %s", second->stderr_text);
    lab_stop_alike(l, &first, 1, ENDLESS);
    lab_close(l);
}

Test(refusals, not_loopback_without_key) {
    lab *l = lab_open();
    refused(l, lab_launch(l, "open", NULL, "0.0.0.0:0", SYNTHETIC), 2, "--key");
    lab_close(l);
}

/* A supervisor that starts the command again on exit code 1 must not do so for ever, and the next command
 * finds the place as it was. */
Test(refusals, what_the_command_line_names_and_is_missing_is_an_error_of_it_and_leaves_nothing) {
    lab *l = lab_open();
    char metrics[LAB_PATH], args[LAB_PATH + 100], text[LAB_PATH];
    snprintf(metrics, sizeof metrics, "%.200s/m.csv", l->dir);
    snprintf(text, sizeof text, GODWIT_SOURCE "/README.md");
    const struct {
        const char *args, *said;
    } cases[] = {
        {"digits --data /nonexistent", "/nonexistent/train-images"},
        {"gpt --data /nonexistent.bin", "there is no file /nonexistent.bin"},
        {"gpt --data %s --init /nonexistent", "--init: "},
        {"gpt --data %s --init /etc", "--init: /etc holds no checkpoint"},
        {"digits --continue", "holds no checkpoint to go on from"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *gap = strstr(cases[i].args, "%s");
        int before = gap != NULL ? (int)(gap - cases[i].args) : (int)strlen(cases[i].args);
        snprintf(args, sizeof args, "%.*s%s%s --metrics %s", before, cases[i].args, gap != NULL ? text : "",
                 gap != NULL ? gap + 2 : "", metrics);
        lab_peer *peer = lab_launch(l, "one", NULL, NULL, args);
        refused(l, peer, 2, cases[i].said);
        struct stat status;
        cr_expect_neq(stat(peer->dir, &status), 0, "%s leaves the directory", args);
        cr_expect_neq(stat(metrics, &status), 0, "%s leaves the metrics", args);
    }
    lab_close(l);
}

Test(refusals, key_that_others_can_read) {
    lab *l = lab_open();
    char path[LAB_PATH], args[800];
    lab_key(l, "key", path);
    cr_assert_eq(chmod(path, 0644), 0);
    snprintf(args, sizeof args, SYNTHETIC " --key %s", path);
    lab_peer *peer = lab_launch(l, "open", NULL, NULL, args);
    refused(l, peer, 2, path);
    cr_expect_neq(access(peer->dir, F_OK), 0, "nothing stays of it");
    lab_close(l);
}

static bool says_key(const json_t *event, const void *context) {
    (void)context;
    return strcmp(lab_text(event, "event"), "warning") == 0 && strstr(lab_text(event, "text"), "key");
}

/* With another key, or none, a peer is a stranger: both sides say so, and the flock goes on without it. */
Test(refusals, wrong_key) {
    lab *l = lab_open();
    char right[LAB_PATH], wrong[LAB_PATH], args[800];
    lab_key(l, "right", right);
    lab_key(l, "wrong", wrong);
    snprintf(args, sizeof args, SYNTHETIC " --peers 2 --key %s", right);
    lab_peer *first = lab_start(l, "first", NULL, args);
    snprintf(args, sizeof args, SYNTHETIC " --key %s", wrong);
    lab_peer *stranger = lab_start(l, "stranger", first, args);
    lab_wait(l, first, says_key, NULL, "a warning about the key");
    snprintf(args, sizeof args, SYNTHETIC " --peers 2 --key %s", right);
    lab_peer *second = lab_start(l, "second", first, args);
    const char *hash = lab_state(l, first, "done");
    cr_expect_str_eq(lab_state(l, second, "done"), hash);
    lab_kill(l, stranger);
    cr_expect_null(lab_last(stranger, "step"));
    lab_close(l);
}

/* Two directories copied from one have one identity, and the one that has been running goes on. */
Test(refusals, cloned_directory) {
    lab *l = lab_open();
    lab_peer *seed = lab_start(l, "seed", NULL, LASTING);
    lab_peer *original = lab_start(l, "original", seed, LASTING);
    lab_wait_step(l, original, 2);
    char command[1200];
    snprintf(command, sizeof command, "cp -rp %s %s/copy", original->dir, l->dir);
    lab_signal(original, SIGSTOP); /* else files may vanish while they are copied */
    cr_assert_eq(system(command), 0);
    lab_signal(original, SIGCONT);
    lab_peer *copy = lab_launch(l, "copy", seed, NULL, LASTING);
    refused(l, copy, 1, "runs with this peer's identity");
    cr_expect_null(lab_last(copy, "peer"));
    lab_mark(l, original);
    lab_wait_step(l, original, lab_number(lab_last(original, "step"), "step") + 3);
    cr_expect_null(lab_last(original, "done"));
    lab_close(l);
}

/* It knows where they are, and has their job and no key either, as one on a port that somebody else had. */
Test(refusals, peers_of_another_lab) {
    lab *l = lab_open(), *beside = lab_open();
    lab_peer *first = lab_start(l, "first", NULL, SYNTHETIC " --peers 2");
    lab_peer *stranger = lab_start(beside, "stranger", first, SYNTHETIC " --peers 2");
    lab_peer *second = lab_start(l, "second", first, SYNTHETIC " --peers 2");
    const char *hash = lab_state(l, first, "done");
    cr_expect_str_eq(lab_state(l, second, "done"), hash);
    lab_kill(beside, stranger);
    cr_expect_null(lab_last(stranger, "peer"));
    cr_expect_null(lab_last(stranger, "step"));
    lab_close(beside);
    lab_close(l);
}
