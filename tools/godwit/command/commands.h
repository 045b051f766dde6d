/* The subcommands. argv[0] is what messages call the command ("godwit status"); each returns the process's
 * exit code: 0, 1 for a failure, 2 for usage. `--help` prints and exits. */
#ifndef GODWIT_TOOLS_GODWIT_COMMAND_COMMANDS_H
#define GODWIT_TOOLS_GODWIT_COMMAND_COMMANDS_H

int gw_run_main(int argc, char **argv);        /* run a peer of a job */
int gw_status_main(int argc, char **argv);     /* ask the peer that runs in a directory */
int gw_stop_main(int argc, char **argv);       /* stop the whole job, checkpoint first */
int gw_force_view_main(int argc, char **argv); /* go on without a majority */
int gw_keygen_main(int argc, char **argv);     /* write a cluster key */
int gw_inspect_main(int argc, char **argv);    /* show what checkpoints hold; changes nothing on disk */
int gw_export_main(int argc, char **argv);     /* write a trained language model for others to load */
int gw_generate_main(int argc, char **argv);   /* let a trained language model write */
int gw_tokenize_main(int argc, char **argv);   /* turn texts into token shards to train on */
int gw_plot_main(int argc, char **argv);       /* draw what run --metrics wrote */
int gw_devices_main(int argc, char **argv);    /* list RDMA devices, and what they miss */
int gw_bench_main(int argc, char **argv);      /* measure parts of Godwit */

#endif
