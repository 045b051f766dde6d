/* Programs that are no members of the flock read checkpoints from it, where no peer has all of one. */
#include "tests/cluster/lab.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

enum { TEXT = 8000, PEERS = 3 };

/* Six chunks, and steps of which few are done while the test asks. */
#define GPT                                                                                                  \
    "gpt --data " GODWIT_BINARY " --layers 4 --heads 4 --channels 192 --context 8 --batch-tokens 8192 "      \
    "--micro-batch 8 --workers 1 --updates 100000000 --checkpoint-every 2 --keep 50"

static char text[TEXT];
static int code;

/* Runs a shell's command in the lab's folder; `text` becomes what it prints, `code` its exit code. */
__attribute__((format(printf, 2, 3))) static void sh(const lab *l, const char *format, ...) {
    char command[3 * LAB_PATH], line[4 * LAB_PATH];
    va_list arguments;
    va_start(arguments, format);
    cr_assert_lt(vsnprintf(command, sizeof command, format, arguments), (int)sizeof command);
    va_end(arguments);
    snprintf(line, sizeof line, "cd %s && { %s; } 2>&1", l->dir, command);
    char *whole = lab_shell(line, &code);
    snprintf(text, TEXT, "%s", whole);
    free(whole);
}

static void must(int expected, const char *part) {
    cr_assert_eq(code, expected, "exit code %d: %s", code, text);
    cr_assert_not_null(strstr(text, part), "'%s' is not in: %s", part, text);
}

static uint64_t saved_step(const lab_peer *peer) {
    return lab_number(lab_last(peer, "checkpoint"), "step");
}

/* Runs the job on one peer alone until it has saved `step`, and exports it to alone.safetensors. */
static void export_alone(lab *l, const char *args, uint64_t step) {
    lab_peer *alone = lab_start(l, "alone", NULL, args);
    do lab_wait_event(l, alone, "checkpoint");
    while (saved_step(alone) < step && (lab_mark(l, alone), true));
    lab_kill(l, alone);
    sh(l, GODWIT_BINARY " export alone --step %d --to alone.safetensors", (int)step);
    must(0, "alone.safetensors");
}

/* The number of one of the peers whose directories lack chunks of the newest checkpoint: with one replica,
 * at most one peer has all of them. */
static uint32_t find_part(const lab *l) {
    for (uint32_t i = 0; i < PEERS; i++) {
        sh(l, GODWIT_BINARY " inspect p%u --json | grep -E '\"(held|chunks_absent)\": 6,'", i);
        if (strstr(text, "\"held\": 6") == NULL) return i;
    }
    cr_assert_fail("each peer has all chunks");
    return 0;
}

Test(clients, a_whole_model_comes_from_one_peer_that_has_a_part_of_it) {
    lab *l = lab_open();
    lab_peer *peers[PEERS];
    char key[LAB_PATH], args[2 * LAB_PATH];
    const char *cluster = strrchr(l->dir, '/') + 1;
    lab_key(l, "key", key);
    snprintf(args, sizeof args, GPT " --replicas 1 --key %s", key);
    lab_flock(l, PEERS, args, peers);
    for (uint32_t i = 0; i < PEERS; i++) lab_wait_event(l, peers[i], "checkpoint");
    uint32_t part = find_part(l);
    int port = peers[part]->port;
    char from[3 * LAB_PATH];
    snprintf(from, sizeof from, "--from 127.0.0.1:%d --key key --cluster %s", port, cluster);

    sh(l, GODWIT_BINARY " export p%u --step 2 --to here.safetensors", part);
    must(0, "here.safetensors");
    sh(l, GODWIT_BINARY " export %s --step 2 --to there.safetensors", from);
    must(0, "there.safetensors");
    sh(l, GODWIT_BINARY " inspect p%u | tail -4", part);
    must(0, "held by others, 0 missing, 0 damaged");
    sh(l, GODWIT_BINARY " inspect %s | tail -4", from);
    must(0, "chunks       6: 0 held, 6 held by others, 0 missing");
    sh(l,
       GODWIT_BINARY " generate %s --step 2 --tokens 5 > there.txt && " GODWIT_BINARY
                     " generate p%u --step 2 --tokens 5 > here.txt && cmp here.txt there.txt",
       from, part);
    must(0, "");

    sh(l,
       GODWIT_BINARY " keygen other && " GODWIT_BINARY
                     " export --from 127.0.0.1:%d --cluster %s --key other --to x.safetensors",
       port, cluster);
    must(1, "give the key of its flock by --key");
    sh(l, GODWIT_BINARY " export --from 127.0.0.1:%d --cluster %s --to x.safetensors", port, cluster);
    must(1, "--key here and on the peer must be the same");
    sh(l, GODWIT_BINARY " export --from 127.0.0.1:%d --key key --to x.safetensors", port);
    must(1, "give the same --cluster");
    sh(l, GODWIT_BINARY " export --from 127.0.0.1:%d --key key --to x.safetensors", lab_keep_port(l));
    must(1, "nobody listens there");
    sh(l, GODWIT_BINARY " export --key key");
    must(2, "give the directory of a peer");
    sh(l, GODWIT_BINARY " export p0 --key key");
    must(2, "--key needs --from");
    sh(l, "ls x.safetensors*");
    cr_expect_neq(code, 0, "%s", text);

    for (uint32_t i = 0; i < PEERS; i++) lab_kill(l, peers[i]);
    sh(l, GODWIT_BINARY " inspect p%u | tail -12", part);
    must(0, "the peers that were met last should have it");
    sh(l, GODWIT_BINARY " export p%u --step 2 --to x.safetensors", part);
    must(1, "there is no peer to ask for it");
    export_alone(l, args, 2);
    sh(l, "cmp here.safetensors alone.safetensors && cmp there.safetensors alone.safetensors");
    must(0, "");
    lab_close(l);
}

/* Two peers have each chunk, and one of the three is stopped, of which the others may not know yet. */
Test(clients, a_stopped_peer_does_not_keep_a_client_from_what_another_has) {
    lab *l = lab_open();
    lab_peer *peers[PEERS];
    lab_flock(l, PEERS, GPT " --replicas 2", peers);
    for (uint32_t i = 0; i < PEERS; i++) lab_wait_event(l, peers[i], "checkpoint");
    lab_signal(peers[2], SIGSTOP);
    sh(l, GODWIT_BINARY " export --from 127.0.0.1:%d --cluster %s --step 2 --to m.safetensors",
       peers[0]->port, strrchr(l->dir, '/') + 1);
    must(0, "m.safetensors");
    sh(l, GODWIT_BINARY " export p0 p1 --step 2 --to n.safetensors && cmp m.safetensors n.safetensors");
    must(0, "n.safetensors");
    lab_close(l);
}

Test(clients, the_first_checkpoint_beside_a_running_peer_is_still_to_come) {
    lab *l = lab_open();
    lab_peer *peer =
        lab_start(l, "early", NULL,
                  "synthetic --steps 100000000 --shards 8 --shard-ms 2 --workers 1 --checkpoint-every off");
    lab_wait_event(l, peer, "view");
    static const char *const commands[] = {"inspect early", "export early"};
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        sh(l, GODWIT_BINARY " %s", commands[i]);
        must(1, " yet: a peer runs there, and its job saves the first one when the time or the steps of its "
                "--checkpoint-every have passed");
    }
    sh(l, GODWIT_BINARY " generate early"); /* which that job never has anything for */
    must(2, "early holds no checkpoint of a gpt job, and the peer that runs there runs job ");
    lab_kill(l, peer);
    sh(l, GODWIT_BINARY " inspect early");
    must(2, "early holds no checkpoint\n");
    lab_close(l);
}
