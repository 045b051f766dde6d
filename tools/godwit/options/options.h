/* The options of `godwit run`, parsed, checked and filled with defaults. What options there are says the
 * table in options.c: a row each. */
#ifndef GODWIT_TOOLS_GODWIT_OPTIONS_OPTIONS_H
#define GODWIT_TOOLS_GODWIT_OPTIONS_OPTIONS_H

#include "core/brain/peer.h"
#include "core/godwit.h"
#include "net/rdma/rdma.h"
#include "tools/godwit/options/compute.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define GW_DEFAULT_DIR     "godwit-data"
#define GW_DEFAULT_LISTEN  "127.0.0.1:7117"
#define GW_DEFAULT_CLUSTER "godwit"

/* Strings are argv's or constants and live as long as the process. HOST:PORT texts have been checked for
 * their form, not looked up. */
typedef struct gw_run_options {
    const gw_job_type *job;  /* compiled in, or from a shared object that stays loaded */
    char code[GW_HASH_TEXT]; /* the hash of that object's file; "" = compiled in */
    gw_params params;        /* every option of the job that has a value; owned, gw_run_options_free */

    const char *dir;
    const char *listen;        /* HOST:PORT; port 0 = any */
    const char *advertise;     /* HOST:PORT by which others reach this peer; NULL = the listening address */
    char *seeds[GW_MAX_SEEDS]; /* HOST:PORT of --join; owned */
    uint32_t seed_count;
    const char *key_file; /* NULL = none: loopback only */
    const char *cluster;  /* name of the cluster (net/secure/keyring.h gw_cluster_id) */

    uint32_t peers;   /* wait for so many before step 0; 1 when not given */
    uint32_t workers; /* 0: as many as suit the device (gw_compute_settle) */
    gw_compute compute;
    uint64_t steps; /* 0 = as many as the job says */
    gw_quorum quorum;
    bool fast;             /* --reduce fast */
    uint32_t verify;       /* --verify, in millionths of the shards; 0 = none */
    bool skip_bad;         /* --on-bad skip */
    const char *cpu_class; /* NULL = what the processor is */
    uint32_t transports;   /* GW_FABRIC_TCP | ...: the kinds of path that may be used */
    gw_rdma_options rdma;

    uint64_t checkpoint_steps, checkpoint_ns; /* at most one is set; both 0 = only the final one */
    uint32_t keep, replicas;
    bool fresh, forget_losses;

    char *http;          /* HOST:PORT, or NULL = off; owned */
    const char *metrics; /* file with a row for each step; NULL = none */
    bool json, quiet, verbose;

    uint64_t join_timeout_ns, resume_timeout_ns, save_timeout_ns, hang_timeout_ns;
    uint64_t probe_interval_ns;  /* 0 = the brain's default */
    uint32_t time_scale_percent; /* 100; widens every timeout of the protocol */
    bool no_prefetch;            /* shard payload is fetched when the shard is computed, not before */
} gw_run_options;

/* Parses the arguments after "run": argv[0] is what messages call the command ("godwit run"), argv[1] the
 * job. Prints help and exits for --help; otherwise fails with GW_E_USAGE and a text that names the option.
 * The caller frees on success. */
bool gw_run_options_parse(int argc, char **argv, gw_run_options *options, gw_err *err);

/* The lines "name=value" of those options, beside the job's own, that are part of the job's identity. */
void gw_run_options_write_identity(const gw_run_options *options, FILE *out);

void gw_run_options_free(gw_run_options *options);

#endif
