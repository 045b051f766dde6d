/* Functions that the files of the world offer to each other and to tests. */
#ifndef GODWIT_TOOLS_SIM_WORLD_INSIDE_H
#define GODWIT_TOOLS_SIM_WORLD_INSIDE_H

#include "tools/sim/world/cluster.h"

/* links.c, data.c */
void sim_want(sim_cluster *c, sim_peer *p, uint32_t other, bool wanted);
void sim_break_all(sim_cluster *c, sim_peer *p); /* called when its process has died */
void sim_message(sim_cluster *c, sim_peer *p, uint32_t to, const uint8_t *bytes, size_t length);
/* called after the news of a control link */
void sim_data_tell_anew(sim_cluster *c, sim_peer *p, uint32_t other);
/* Returns the first other member that the peer cannot sum with, because its data link or the path of sums
 * is gone; SIM_PEERS = none. */
uint32_t sim_parted_from(sim_cluster *c, const gw_view *view, uint32_t a);

/* work.c, recheck.c */
void sim_work_action(sim_cluster *c, sim_peer *p, const gw_action *action);
/* Ends one-sided operations whose answers were due over a link that has broken: they will get none. */
void sim_work_broken(sim_cluster *c, sim_peer *p, uint32_t other);
void sim_work_forget(sim_peer *p); /* frees the memory of a life */
void sim_recheck_deal(sim_peer *p, const gw_action *deal);
void sim_recheck_keep(sim_peer *p, const sim_worker *worker, uint64_t value);
void sim_probe(sim_cluster *c, sim_peer *p, const gw_action *action);
void sim_look(sim_cluster *c, sim_peer *p, const gw_action *action);

/* reduce.c, effects.c, fetch.c */
void sim_reduce(sim_cluster *c, sim_peer *p, const gw_action *action);
void sim_reduce_abort(sim_cluster *c, sim_peer *p);
/* Tells the collectives that a member died (b < 0), or that the link between two members broke. */
void sim_reduce_hurt(sim_cluster *c, uint32_t a, int b);
/* Delivers `event` to its receiver: a REDUCED or LOADED that failed because bits arrived changed, with the
 * sender as its peer. `which` and `holds` are those of the observers' change_arrives. */
void sim_hear_of_change(sim_cluster *c, sim_peer *p, uint32_t which, bool holds, bool in_sum,
                        gw_event *event);
void sim_apply(sim_cluster *c, sim_peer *p, const gw_action *action);
void sim_reductions_free(sim_cluster *c);
void sim_commit(sim_cluster *c, sim_peer *p, const gw_action *action);
void sim_load(sim_cluster *c, sim_peer *p, const gw_action *action);

/* disk.c, record.c */
void sim_disk_action(sim_cluster *c, sim_peer *p, const gw_action *action);
uint32_t sim_disk_inventory(const sim_cluster *c, const sim_peer *p, gw_inventory *inventory, uint32_t most);
bool sim_disk_has_orphans(const sim_disk *disk); /* whether there are chunks without a manifest */
uint64_t sim_disk_time(sim_cluster *c, const sim_peer *p, uint64_t least_ns,
                       uint64_t most_ns); /* returns the duration of a write */
/* Remembers the members of a view that the peer was in: its next life looks for them too. */
void sim_disk_remember(sim_cluster *c, sim_peer *p, const gw_view *view);
/* Whether `op` has to wait for a disk that hangs; then it is tried again later. */
bool sim_disk_hangs(sim_cluster *c, sim_peer *p, const sim_op *op);
/* The same for large files, which also wait for a disk that crawls, and report progress now and then. */
bool sim_disk_waits(sim_cluster *c, sim_peer *p, const sim_op *op);
void sim_record_crash(sim_cluster *c, sim_peer *p); /* called when its process, or its host, dies */
void sim_record_persist(sim_cluster *c, sim_peer *p, const gw_action *action);

#endif
