#ifndef GODWIT_CORE_BRAIN_FAULTS_PATH_ERRORS_H
#define GODWIT_CORE_BRAIN_FAULTS_PATH_ERRORS_H

#include "core/brain/state.h"

/* A reduction or a load failed with `changed`; `what` was sent. True: it is the path to that member, as it
 * seems. */
bool gw_path_errors_note(gw_peer *p, const gw_event *event, const char *what);
void gw_path_errors_forget(gw_peer *p); /* a sum is right */
/* At a proposer that has all votes, with all convictions that they tell of: the view's arrangement, and whose
 * conviction is to go with it, by rank; -1: nobody's. */
int gw_path_errors_judge(gw_peer *p, gw_install *install);
/* When it does; this peer hears of its own by the install. */
void gw_path_errors_report(gw_peer *p, const gw_install *install, int rank);
bool gw_path_errors_halt(gw_peer *p); /* likewise; true: this peer has ended, as all are to */
void gw_path_errors_view_begins(gw_peer *p, const gw_install *install);

#endif
