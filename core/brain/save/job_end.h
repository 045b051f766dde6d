#ifndef GODWIT_CORE_BRAIN_SAVE_JOB_END_H
#define GODWIT_CORE_BRAIN_SAVE_JOB_END_H

#include "core/brain/state.h"

/* Notes the job's last state, as a manifest or a message says. */
void gw_end_recorded(gw_peer *p, uint64_t step, uint64_t fingerprint, const gw_hash *root, bool stopped,
                     bool unsaved);
/* Whether another peer has ended with this very state, as far as this peer has heard. */
bool gw_end_is_of(const gw_peer *p, const gw_contact *ended, uint64_t step, uint64_t fingerprint,
                  const gw_hash *root);
/* Notes the job's last state if a checkpoint on this peer's disk says so. */
void gw_end_from_disk(gw_peer *p);
/* Forgets it, as the flock goes on from an earlier state. */
void gw_end_forget(gw_peer *p);
/* This peer ends with the job: sends END to the linked peers outside its view, which may hear of it in no
 * other way. */
void gw_end_tell_others(gw_peer *p, const gw_hash *root);
/* The voters for this peer's proposal know that the job has ended in this way: all of them end, and so does
 * this peer. */
void gw_end_decided(gw_peer *p, const gw_install *with);
/* Handles the message END. */
void gw_end_receive(gw_peer *p, const gw_contact *from, const gw_message *message);
/* If another peer has ended with the job and left, ends this one as well and returns true. */
bool gw_end_with_others(gw_peer *p);
/* Called while this peer can neither found nor join nor form a view. After a time it ends, if no other is
 * left. */
void gw_end_consider(gw_peer *p);
/* This peer can do so again. */
void gw_end_forget_loneliness(gw_peer *p);

#endif
