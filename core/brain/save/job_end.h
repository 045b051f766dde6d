#ifndef GODWIT_CORE_BRAIN_SAVE_JOB_END_H
#define GODWIT_CORE_BRAIN_SAVE_JOB_END_H

#include "core/brain/state.h"

void gw_end_recorded(gw_peer *p, uint64_t step, uint64_t fingerprint, const gw_hash *root, bool stopped,
                     bool unsaved);
/* Whether what this peer has seen of another's end is that of this very state. */
bool gw_end_is_of(const gw_peer *p, const gw_contact *ended, uint64_t step, uint64_t fingerprint,
                  const gw_hash *root);
void gw_end_from_disk(gw_peer *p);
void gw_end_forget(gw_peer *p); /* the flock goes on from before that end */
/* As this peer ends with the job: those that it is linked to outside its view may hear of it in no other way.
 */
void gw_end_tell_others(gw_peer *p, const gw_hash *root);
/* The voters for this peer's proposal know that the job has ended so: all of them end, too. */
void gw_end_decided(gw_peer *p, const gw_install *with);
void gw_end_told(gw_peer *p, gw_contact *from, const gw_message *message);
/* When another peer ended the job and left: ends this one as well, and says true. */
bool gw_end_of_others(gw_peer *p);
/* While this peer can neither found nor join nor form a view: after a time it ends, if nobody is left. */
void gw_end_consider(gw_peer *p);
void gw_end_hope(gw_peer *p); /* it can do something again */

#endif
