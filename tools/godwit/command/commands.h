/* The subcommands. argv[0] is the command's name in messages ("godwit status"). Each returns the exit code
 * of the process: 0, 1 for a failure, 2 for an error in the command line. For --help it prints the help
 * and ends the process. */
#ifndef GODWIT_TOOLS_GODWIT_COMMAND_COMMANDS_H
#define GODWIT_TOOLS_GODWIT_COMMAND_COMMANDS_H

#include "core/base/err.h"

#include <stdbool.h>

int gw_run_main(int argc, char **argv);        /* run a peer of a job */
int gw_launch_main(int argc, char **argv);     /* start the same command on several hosts by ssh */
int gw_map_main(int argc, char **argv);        /* run a command for each input, several at a time */
int gw_check_main(int argc, char **argv);      /* find what in a Python program is not pure */
int gw_status_main(int argc, char **argv);     /* ask the peer that runs in a directory */
int gw_why_main(int argc, char **argv);        /* tell from the journals what went wrong */
int gw_report_main(int argc, char **argv);     /* write a page about a run */
int gw_top_main(int argc, char **argv);        /* show a running job on the terminal */
int gw_stop_main(int argc, char **argv);       /* save a checkpoint and stop the whole job */
int gw_force_view_main(int argc, char **argv); /* go on without a majority */
int gw_keygen_main(int argc, char **argv);     /* write a cluster key */
int gw_new_job_main(int argc, char **argv);    /* write a job in C to begin with */
int gw_inspect_main(int argc, char **argv);    /* show what checkpoints hold; changes nothing on disk */
int gw_audit_main(int argc, char **argv);      /* compute steps again and compare them with receipts */
int gw_prune_main(int argc, char **argv);      /* remove the checkpoints of whole jobs */
/* write a trained language model in the files that transformers loads */
int gw_export_main(int argc, char **argv);
int gw_generate_main(int argc, char **argv); /* continue a text with a trained language model */
int gw_tokenize_main(int argc, char **argv); /* turn texts into token shards to train on */
int gw_plot_main(int argc, char **argv);     /* draw the metrics that `godwit run --metrics` wrote */
int gw_trace_main(int argc, char **argv);    /* record what the peers do, for Perfetto */
int gw_devices_main(int argc, char **argv);  /* list GPUs and RDMA devices, and what they lack */
int gw_bench_main(int argc, char **argv);    /* measure parts of Godwit */
int gw_up_main(int argc, char **argv);       /* run a member of a standing flock */
int gw_down_main(int argc, char **argv);     /* end it */
int gw_submit_main(int argc, char **argv);   /* hand a job to the flock */
int gw_queue_main(int argc, char **argv);    /* list its jobs */
int gw_info_main(int argc, char **argv);     /* show one of them */
int gw_logs_main(int argc, char **argv);     /* show what a job has written */
int gw_results_main(int argc, char **argv);  /* fetch what a job has left */
int gw_wait_main(int argc, char **argv);     /* wait until jobs are over */
int gw_cancel_main(int argc, char **argv);   /* end jobs for good */
int gw_retry_main(int argc, char **argv);    /* have jobs tried again */
int gw_hold_main(int argc, char **argv);     /* keep jobs from running */
int gw_release_main(int argc, char **argv);  /* let them run again */
int gw_priority_main(int argc, char **argv); /* set the priority of jobs */
int gw_nodes_main(int argc, char **argv);    /* list the nodes of the flock */
int gw_drain_main(int argc, char **argv);    /* take nodes out of use */
int gw_forget_main(int argc, char **argv);   /* drop what is left of old jobs */

/* Tells what has become of a job of the flock; `command` is named in messages, and `dir` is the directory of the member
 * that is asked (NULL: the default). Returns the exit code. */
int gw_why_of_flock(const char *command, const char *dir, const char *job, bool json);

/* Prints "COMMAND: TEXT" to stderr, in lines that fit where that is a terminal. */
void gw_command_complain(const char *command, const char *text);
/* Prints why a command failed, and returns its exit code: 2 for GW_E_USAGE, and otherwise 1. */
int gw_command_fail(const char *command, const gw_err *err);

#endif
