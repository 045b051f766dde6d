/* The options of `godwit run`, parsed, checked and filled with defaults. Each option is one row of the
 * table in options.c. */
#ifndef GODWIT_TOOLS_GODWIT_OPTIONS_OPTIONS_H
#define GODWIT_TOOLS_GODWIT_OPTIONS_OPTIONS_H

#include "core/brain/peer.h"
#include "core/godwit.h"
#include "net/rdma/rdma.h"
#include "tools/godwit/energy/factors.h"
#include "tools/godwit/options/alarm_rules.h"
#include "tools/godwit/options/compute.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define GW_DEFAULT_DIR     "godwit-data"
#define GW_DEFAULT_PORT    "7117"
#define GW_DEFAULT_LISTEN  "127.0.0.1:" GW_DEFAULT_PORT /* without --key */
#define GW_KEYED_LISTEN    "[::]:" GW_DEFAULT_PORT      /* with --key: every address of both families */
#define GW_FOLLOWED_SEED   "dns:"  /* before the HOST:PORT of a seed that is a service's name */
#define GW_FILE_SEED       "file:" /* before the path of a file of addresses */
#define GW_DEFAULT_CLUSTER "godwit"

enum { GW_REPORT_BYTES = 32 }; /* room for the key of a report (core/godwit.h) */

/* Strings are argv's or constants and live as long as the process. HOST:PORT texts have been checked for
 * their form, not looked up. */
typedef struct gw_run_options {
    const gw_job_type *job;  /* compiled in, or from a shared object that stays loaded */
    char code[GW_HASH_TEXT]; /* hash of the shared object's file; "" = compiled in */
    gw_params params;        /* the job's options that have a value; owned */
    char *repeated;      /* "--seed 3 (not 2), ...": options given again with another value, or NULL; owned */
    const char **given;  /* names of the options given that are part of what the job is, and NULL; owned */
    char *program_args;  /* the value of --args with what followed "--"; NULL = none did; owned */
    const char *command; /* its name and its job, "godwit run gpt", for complaints; NULL = not known */
    char *typed;         /* the whole command as a person types it; NULL = not known; owned */

    const char *dir;
    size_t
        dir_exists; /* the folders of `dir` that end behind so many bytes are made where they are missing; 0 = none */
    const char *listen;    /* HOST:PORT; port 0 = any free port */
    const char *advertise; /* HOST:PORT at which others reach this peer; NULL = the listening address */
    char *seeds
        [GW_MAX_SEEDS]; /* of --join: HOST:PORT, GW_FOLLOWED_SEED NAME:PORT, or GW_FILE_SEED PATH; owned */
    uint32_t seed_count;
    bool slurm;           /* --join slurm: what is not given follows from the job of Slurm (by_slurm.h) */
    uint64_t slurm_job;   /* another job of Slurm, whose peers this one joins; 0 = none */
    char *place[4];       /* texts of other members that were made for the place where the peer runs; owned */
    char *place_text;     /* what the place has determined, for people; NULL = nothing; owned */
    const char *key_file; /* NULL = no key: peers connect on loopback only */
    char name[GW_GOSSIP_NAME_BYTES + 1]; /* what people call this peer; "" = nothing */
    const char *cluster;                 /* name of the cluster (net/secure/keyring.h gw_cluster_id) */

    uint32_t peers;      /* members that must be there before step 0; 1 when not given */
    uint32_t workers;    /* 0 = as many as suit the device (gw_compute_settle) */
    bool workers_chosen; /* by the user */
    gw_compute compute;
    uint64_t steps; /* 0 = as many as the job has */
    gw_quorum quorum;
    bool fast;             /* --reduce fast */
    bool deal_energy;      /* --deal energy */
    uint32_t deal_slack;   /* thousandths by which steps may take longer for it */
    uint32_t verify;       /* --verify, in millionths of the shards; 0 = off */
    bool skip_bad;         /* --on-bad skip */
    const char *cpu_class; /* NULL = the class of this processor */
    uint32_t transports;   /* GW_FABRIC_TCP | ...: the kinds of path that may be used */
    uint32_t lanes;        /* streams and threads for sums; 0: as many as prove fastest */
    gw_rdma_options rdma;

    uint64_t checkpoint_steps, checkpoint_ns; /* at most one is set; both 0 = only the last state is saved */
    uint32_t keep;
    uint32_t replicas;                /* 0 = not given */
    char keep_best[GW_REPORT_BYTES];  /* the report by which the best checkpoint is kept; "" = not given */
    bool keep_best_off;               /* the best checkpoint that was kept before is not kept any longer */
    gw_direction keep_best_direction; /* 0 = the job's own */
    uint32_t patience;                /* 0 = not given */
    bool fresh, forget_losses;
    bool continues;            /* --continue */
    const char *continue_from; /* its [DIR][@STEP]; NULL = the newest checkpoint in `dir` */
    char *joined;              /* arguments that the parser has joined; owned */

    char *http;              /* HOST:PORT, or NULL = off; owned */
    const char *metrics;     /* file that gets a row for each step; NULL = none */
    const char *tensorboard; /* folder of event files; NULL = none */
    const char *notify;      /* a command line that gets the alarms; NULL = none */
    const char *webhook;     /* a URL that gets them; NULL = none */
    char *webhook_read;      /* a URL that was read from a file; owned */
    gw_alarm_rules alarm_rules;
    bool json, quiet, verbose;

    double cpu_watts;                 /* what a processor takes while it computes; 0 = not given */
    gw_energy_factors energy_factors; /* what a kilowatt hour costs */
    const char *energy_root;          /* the folder under which sys and proc are */

    uint64_t join_timeout_ns, resume_timeout_ns, save_timeout_ns, grace_ns, hang_timeout_ns;
    uint64_t probe_interval_ns;  /* 0 = the brain's default */
    uint32_t time_scale_percent; /* the length of every protocol timeout, in percent */
    bool no_prefetch;            /* a shard's payload is fetched when the shard is computed, not before */
} gw_run_options;

/* Parses the arguments after "run". argv[0] is the name of the command in messages ("godwit run"), argv[1]
 * the job. For --help the function prints the help and ends the process. It fails with GW_E_USAGE and a
 * text that names the option. On success the caller calls gw_run_options_free. */
bool gw_run_options_parse(int argc, char **argv, gw_run_options *options, gw_err *err);

/* Settles the device and the number of workers. Workers of a program that compute with several threads each share
 * the cores, unless --workers says otherwise. */
bool gw_run_options_settle(gw_run_options *options, gw_err *err);

/* Writes a line "name=value" for each option of `godwit run` that is part of the job's identity. The job's
 * own options are not among them. */
void gw_run_options_write_identity(const gw_run_options *options, FILE *out);

void gw_run_options_free(gw_run_options *options);

/* Row `number` of the table of options, in the order of the help, without the options of jobs. The name of
 * the row behind the last one is NULL. */
gw_option gw_run_options_row(uint32_t number);

/* Whether a seed of --join is the name of a service, dns:NAME or dns:NAME:PORT, or a file, file:PATH, whose
 * addresses are those of many peers. In "dns:7117" the name is that of a host. Any thread. */
bool gw_seed_is_followed(const char *seed);
/* Whether it is a file, whose path has a slash: "file:7117" names a host. Any thread. */
bool gw_seed_is_file(const char *seed);

#endif
