#ifndef GODWIT_CORE_BRAIN_FAULTS_PATH_ERRORS_H
#define GODWIT_CORE_BRAIN_FAULTS_PATH_ERRORS_H

#include "core/brain/state.h"

/* Notes that a reduction or a load failed because the bits of `what` had changed. Returns whether the fault
 * seems to lie in the path to the member that sent them. */
bool gw_path_errors_note(gw_peer *p, const gw_event *event, const char *what);
/* Forgets all that was noted, as a sum is right. */
void gw_path_errors_forget(gw_peer *p);
/* At a proposer that has all votes: sets the arrangement of the view, and judges the changes that the
 * reports name. *install has all convictions that the reports name; that of the member that is found at
 * fault is added. Returns its rank; -1: none is found. */
int gw_path_errors_judge(gw_peer *p, gw_install *install);
/* Tells people of the member that gw_path_errors_judge has found, if its conviction is still in *install. */
void gw_path_errors_report(gw_peer *p, const gw_install *install, int rank);
/* At a proposer that has all votes of two members: if bits have changed between them too often, ends this
 * peer and has the other one end, and returns true. */
bool gw_path_errors_halt(gw_peer *p);
/* A view is installed. */
void gw_path_errors_view_begins(gw_peer *p, const gw_install *install);

#endif
