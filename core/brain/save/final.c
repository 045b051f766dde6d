/* The job's last state if it cannot be stored. The flock holds it in memory and tries again for a while, as a
 * full disk may get room, or a peer with room may join. */
#include "core/brain/save/final.h"

#include "core/brain/agenda.h"
#include "core/brain/outbox.h"
#include "core/brain/self.h"
#include "core/brain/state.h"

#include <inttypes.h>
#include <stdio.h>

enum {
    MOST_FAILURES = 3, /* final checkpoints in a row that no peer could hash; then the peers end */
    AGAIN_MS = 5000,   /* between two tries to store the state */
};

void gw_final_retry_hashing(gw_peer *p) {
    char id[GW_SHORT_TEXT];
    const char *culprit = "no peer's disk is known to fail";
    p->save.final_failures++;
    if (gw_final_waits_for_room(p)) return; /* a disk that hangs may have answered by the next try */
    if (p->save.final_failures < MOST_FAILURES) {
        gw_agenda_change_view(p, "the final state could not be hashed");
        return;
    }
    for (uint32_t rank = p->view.current.count; rank-- > 0;)
        if (p->save.member_unwritable[rank])
            culprit = gw_peer_id_short(&p->view.current.members[rank].id, id);
    gw_peer_finish(p, GW_FINISH_FAILED, NULL,
                   "the final state (step %" PRIu64
                   ") is computed, but could not be hashed and stored in %" PRIu32
                   " attempts (failing disk: %s); the last complete checkpoint stays",
                   p->save.open.step, p->save.final_failures, culprit);
}

/* Why this peer's own disk refuses to write, as " (here: ...)"; "" if it does not. */
static const char *why_here(const gw_peer *p, char *text, size_t capacity) {
    snprintf(text, capacity, "%s%s%s", p->save.unwritable_logged ? " (here: " : "",
             p->save.unwritable_logged ? p->save.unwritable_why : "", p->save.unwritable_logged ? ")" : "");
    return text;
}

bool gw_final_waits_for_room(gw_peer *p) {
    char why[sizeof p->save.unwritable_why + 16];
    if (p->save.unsaved_ns == 0) p->save.unsaved_ns = p->now;
    if (p->now >= p->save.unsaved_ns + p->config.save_timeout_ns) return false;
    if (!p->save.unsaved_logged)
        gw_peer_say(
            p, GW_WARN,
            "the final state (step %" PRIu64
            ") is not saved: nobody could store all of it%s. Trying again for %.0f s (--save-timeout): "
            "make room in --dir, of one peer at least",
            p->save.open.step, why_here(p, why, sizeof why), (double)p->config.save_timeout_ns * 1e-9);
    p->save.unsaved_logged = true;
    if (p->save.open.again_ns == 0) p->save.open.again_ns = p->now + gw_peer_ms(p, AGAIN_MS);
    return true;
}

void gw_final_consider(gw_peer *p) {
    if (p->save.open.again_ns == 0 || p->now < p->save.open.again_ns) return;
    p->save.open.again_ns = 0;
    gw_agenda_change_view(p, "the final state is not saved yet");
}

void gw_final_unsaved(gw_peer *p, uint64_t step, const gw_hash *root) {
    char why[sizeof p->save.unwritable_why + 16];
    p->save.end.unsaved = true;
    p->save.end_sent = root != NULL;
    gw_peer_finish(
        p, GW_FINISH_UNSAVED, root,
        "%s step %" PRIu64
        ", but nobody could store all of the last state: it is lost%s. %s; with room in --dir the same "
        "command goes on from there",
        p->state.stopped || p->save.end.stopped ? "stopped at" : "the job has come to its end,", step,
        why_here(p, why, sizeof why),
        p->save.saved_step == UINT64_MAX ? "No checkpoint before it is complete, which leaves step 0"
                                         : "The last complete checkpoint stays on the disks that have it");
}
