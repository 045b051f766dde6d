/* A lab: peers that are processes on loopback, watched through their --json lines. Every function fails the running test
 * itself where something does not work. It waits for events, never for a time: HANG_MS only ends a test that hangs.
 *
 * Peers are children of the test and are killed when it ends, however it ends. */
#ifndef GODWIT_TESTS_CLUSTER_LAB_H
#define GODWIT_TESTS_CLUSTER_LAB_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Stands at the start of a test that preloads a library into peers (LD_PRELOAD), and skips it where none can be preloaded. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define LAB_PRELOADS cr_skip_test("a sanitizer's library must come before all others")
#else
#define LAB_PRELOADS (void)0
#endif

enum { LAB_PEERS = 16, LAB_ARGS = 64, LAB_PATH = 512 };

typedef struct lab_peer {
    pid_t pid; /* 0: the process has ended */
    int out, err;
    int status;         /* of waitpid, once the process has ended */
    char dir[LAB_PATH]; /* --dir of the peer */
    uint16_t port;
    char *line; /* the beginning of a line whose end has not been read */
    size_t line_bytes;
    json_t *events; /* array of all events so far */
    size_t mark;    /* lab_wait looks at events from here on */
    char *stderr_text;
    size_t stderr_bytes;
    bool stopped;
} lab_peer;

typedef struct lab {
    char dir[LAB_PATH];
    lab_peer peers[LAB_PEERS];
    uint32_t count;
    int kept[LAB_PEERS]; /* sockets that keep ports from other processes */
    uint32_t kept_count;
} lab;

/* Opens a lab in a new folder under /tmp. Its peers have a --cluster of their own, since the peers of another lab may have
 * the same ports, now or before. Peers obey the signals that end a process even where the tests were started with some of
 * these ignored. */
lab *lab_open(void);
/* Kills the peers that run and removes the folder. */
void lab_close(lab *l);

/* Returns a port of loopback for a peer that dies and returns to its address. No other process gets the port until the lab
 * closes. */
uint16_t lab_keep_port(lab *l);

/* Starts `godwit run ARGS --json` with --dir <lab>/<name> on a free port of loopback, joining `seed` (NULL: nobody), and
 * waits until it listens. Single spaces separate `args`. */
lab_peer *lab_start(lab *l, const char *name, const lab_peer *seed, const char *args);
/* Starts a peer as lab_start does and does not wait, for peers that will be refused. `listen` NULL: a free port. */
lab_peer *lab_launch(lab *l, const char *name, const lab_peer *seed, const char *listen, const char *args);
/* Starts `count` peers named p0, p1 ... with --peers `count`; all join the first. */
void lab_flock(lab *l, uint32_t count, const char *args, lab_peer **peers);

typedef bool lab_match(const json_t *event, const void *context);
/* Reads the output of all peers until an event of this peer, from its mark on, matches, and returns the event. It removes no
 * event and does not move the mark. `what` names the event where the wait is too long. */
const json_t *lab_wait(lab *l, lab_peer *peer, lab_match *match, const void *context, const char *what);
/* Waits for output of any peer and reads it. */
void lab_pump(lab *l);
/* Moves the peer's mark to the end: from now on lab_wait sees new events only. */
void lab_mark(lab *l, lab_peer *peer);

/* These wait for a step event with at least `step` steps done, for an installed view of `members`, and for an event of a
 * kind, from the peer's mark on. */
void lab_wait_step(lab *l, lab_peer *peer, uint64_t step);
const json_t *lab_wait_view(lab *l, lab_peer *peer, size_t members);
const json_t *lab_wait_event(lab *l, lab_peer *peer, const char *kind);
/* Returns the last event of a kind so far, or NULL. */
const json_t *lab_last(const lab_peer *peer, const char *kind);
/* Returns the last text of an event (of the log, say) that contains `part`, or NULL. */
const char *lab_logged(const lab_peer *peer, const char *part);
/* Returns the index in `peers` of the leader of the last view that peers[0] has installed. */
uint32_t lab_leader(lab_peer **peers, uint32_t count);
const char *lab_text(const json_t *event, const char *key);
uint64_t lab_number(const json_t *event, const char *key);
/* Returns what `godwit status OPTIONS` prints of a running peer, once it contains `part`. The caller frees it. */
char *lab_wait_shown(lab *l, const lab_peer *peer, const char *options, const char *part);

/* Kills the peer by SIGKILL and waits for the end of the process. */
void lab_kill(lab *l, lab_peer *peer);
/* Sends the signal; returns after SIGSTOP when the process has stopped. */
void lab_signal(lab_peer *peer, int signal);
/* Sends the signal again and again until the process ends; returns as lab_end does. */
int lab_insist(lab *l, lab_peer *peer, int signal);
/* Waits for the end of the process and returns its exit code; 128 + n where signal n ended it. */
int lab_end(lab *l, lab_peer *peer);
/* Waits for the end of the process, checks that its last event is `outcome` ("done") and its exit code 0, and returns the
 * state hash of that event. */
const char *lab_state(lab *l, lab_peer *peer, const char *outcome);
/* Runs one peer alone with ARGS to its end and returns its state hash. */
const char *lab_undisturbed(lab *l, const char *args);
/* Ends a job without --steps, as a job has that must go on for as long as a test takes. The first of these peers is asked to
 * stop the job; all must stop in one state, which is that of a peer alone that runs ARGS of `synthetic` for as many steps. */
void lab_stop_alike(lab *l, lab_peer **peers, uint32_t count, const char *args);
/* Runs the binary with these arguments (separated by single spaces) to its end; returns its exit code. */
int lab_command(const char *args);
/* Runs a shell's command and returns what it prints to stdout, which the caller frees; *code is its exit code. */
char *lab_shell(const char *command, int *code);
/* Makes a key file of this name in the lab's folder and stores its path. */
void lab_key(const lab *l, const char *name, char path[LAB_PATH]);
/* The resident memory and the number of open descriptors of a running peer. */
uint64_t lab_resident_bytes(const lab_peer *peer);
uint32_t lab_descriptors(const lab_peer *peer);

#endif
