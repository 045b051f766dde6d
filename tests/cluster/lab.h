/* Real peers on loopback, watched through their --json lines. Everything here fails the running test itself
 * when something does not work, and waits for events, never for a time: HANG_MS only ends a test that hangs.
 *
 * Peers are children of the test: they are killed when it ends, however it ends. */
#ifndef GODWIT_TESTS_CLUSTER_LAB_H
#define GODWIT_TESTS_CLUSTER_LAB_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* At the start of a test that has a library preloaded into peers (LD_PRELOAD): where it cannot be, skips it.
 */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define LAB_PRELOADS cr_skip_test("a sanitizer's library must come before all others")
#else
#define LAB_PRELOADS (void)0
#endif

enum { LAB_PEERS = 16, LAB_ARGS = 64, LAB_PATH = 512 };

typedef struct lab_peer {
    pid_t pid; /* 0: has ended */
    int out, err;
    int status;         /* of waitpid, once it has ended */
    char dir[LAB_PATH]; /* its --dir */
    uint16_t port;
    char *line; /* the beginning of a line that is not whole yet */
    size_t line_bytes;
    json_t *events; /* array of all so far */
    size_t mark;    /* lab_wait looks at events from here on */
    char *stderr_text;
    size_t stderr_bytes;
    bool stopped;
} lab_peer;

typedef struct lab {
    char dir[LAB_PATH];
    lab_peer peers[LAB_PEERS];
    uint32_t count;
    int kept[LAB_PEERS]; /* sockets that keep ports */
    uint32_t kept_count;
} lab;

/* A lab in a new folder under /tmp, and its peers a cluster of their own: those of labs beside it, or before
 * it, may have had the same ports. Peers obey the signals that end them, even where the tests were started
 * with some of those ignored. */
lab *lab_open(void);
/* Kills what lives and removes the folder. */
void lab_close(lab *l);

/* A port of loopback for a peer that dies and comes back where it was: until the lab closes it is given to
 * nobody in between. */
uint16_t lab_keep_port(lab *l);

/* Starts `godwit run ARGS --json` with --dir <lab>/<name> on a free port of loopback, joining `seed` (NULL:
 * none), and waits until it listens. `args` are separated by single spaces. */
lab_peer *lab_start(lab *l, const char *name, const lab_peer *seed, const char *args);
/* The same without waiting: for peers that are to be refused. `listen` NULL: a free port. */
lab_peer *lab_launch(lab *l, const char *name, const lab_peer *seed, const char *listen, const char *args);
/* `count` peers named p0, p1 ... with --peers `count`, all joining the first. */
void lab_flock(lab *l, uint32_t count, const char *args, lab_peer **peers);

/* Pumps all peers' output until one of this peer's events, from its mark on, matches. The events before the
 * match stay; the mark does not move. */
typedef bool lab_match(const json_t *event, const void *context);
const json_t *lab_wait(lab *l, lab_peer *peer, lab_match *match, const void *context, const char *what);
/* Takes some output of any peer, waiting for it. */
void lab_pump(lab *l);
/* From now on lab_wait sees new events only. */
void lab_mark(lab *l, lab_peer *peer);

/* Waits for a step event with at least `step` steps done; for an installed view of `members`; for an event of
 * a kind. */
void lab_wait_step(lab *l, lab_peer *peer, uint64_t step);
const json_t *lab_wait_view(lab *l, lab_peer *peer, size_t members);
const json_t *lab_wait_event(lab *l, lab_peer *peer, const char *kind);
/* The last event of a kind so far, or NULL. */
const json_t *lab_last(const lab_peer *peer, const char *kind);
/* The peer of `peers` that leads the last view that peers[0] has seen. */
uint32_t lab_leader(lab_peer **peers, uint32_t count);
const char *lab_text(const json_t *event, const char *key);
uint64_t lab_number(const json_t *event, const char *key);
/* What `godwit status` of a peer that runs says, by these options, once that has this part. The caller frees.
 */
char *lab_wait_shown(lab *l, const lab_peer *peer, const char *options, const char *part);

/* SIGKILL, and waits for the end of the process. */
void lab_kill(lab *l, lab_peer *peer);
/* After SIGSTOP it is stopped. */
void lab_signal(lab_peer *peer, int signal);
/* Signals it again and again until it ends; the same. */
int lab_insist(lab *l, lab_peer *peer, int signal);
/* Waits for the end and returns the exit code; 128 + n when signal n ended it. */
int lab_end(lab *l, lab_peer *peer);
/* Waits for the end, checks that it is `outcome` ("done") with exit code 0, and that a state hash came with
 * it, which is returned. */
const char *lab_state(lab *l, lab_peer *peer, const char *outcome);
/* Starts one peer alone with ARGS, waits for its end and returns its state hash. */
const char *lab_undisturbed(lab *l, const char *args);
/* Ends a job that has no --steps, as those have that must go on for as long as a test takes: asks the first
 * of these peers to stop it, and all of them stop in one state. It is that of a peer alone that runs ARGS, of
 * `synthetic`, for as many steps. */
void lab_stop_alike(lab *l, lab_peer **peers, uint32_t count, const char *args);
/* Runs the binary with these arguments (separated by single spaces) to its end; returns its exit code. */
int lab_command(const char *args);
/* Makes a key file of this name in the lab's folder; its path. */
void lab_key(const lab *l, const char *name, char path[LAB_PATH]);
/* The memory that a running peer has, and how many descriptors. */
uint64_t lab_resident_bytes(const lab_peer *peer);
uint32_t lab_descriptors(const lab_peer *peer);

#endif
