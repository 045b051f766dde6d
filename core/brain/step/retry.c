/* Reductions that fail again and again although no peer dies. Each is tried again in a new view with the same
 * members, ever more rarely, and after a bounded number of failures this peer gives up and says why. A fault
 * of one peer thus ends that peer, and the others go on; a fault that all have ends all. A peer without which
 * the others have gone on, because a path to it is broken, begins the count anew: nothing waits for it,
 * however long that lasts. */
#include "core/brain/step/retry.h"

#include "core/brain/agenda.h"
#include "core/brain/faults/path_errors.h"
#include "core/brain/members/links.h"
#include "core/brain/outbox.h"
#include "core/brain/self.h"
#include "core/brain/state.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    PROMPT_RETRIES = 2, /* failures after which the reduction is tried again at once */
    RETRY_MS = 100,     /* pause after the next failure; it doubles each time, up to the most */
    MOST_RETRY_MS = 10000,
    MOST_FAILURES = 20, /* failures after which this peer gives up, after some two minutes */
};

static gw_hash name_of_members(const gw_view *view) {
    gw_hash name;
    gw_blake2b(view->members, view->count * sizeof view->members[0], name.bytes, sizeof name.bytes);
    return name;
}

static uint64_t pause_ms(uint32_t failures) {
    if (failures <= PROMPT_RETRIES) return 0;
    uint32_t doublings = failures - PROMPT_RETRIES - 1;
    uint64_t ms = doublings < 10 ? (uint64_t)RETRY_MS << doublings : MOST_RETRY_MS;
    return ms < MOST_RETRY_MS ? ms : MOST_RETRY_MS;
}

void gw_retry_failed(gw_peer *p, const gw_event *event) {
    gw_retry *r = &p->step.retry;
    snprintf(r->why, sizeof r->why, "%s", gw_peer_why(event));
    r->at_ns = p->now;
    if (event->outcome == GW_FAILED) {
        if (!event->reduced.changed || gw_path_errors_note(p, event, "a sum"))
            gw_links_blame_path(p, &event->peer);
        gw_hash members = name_of_members(&p->view.current);
        if (!gw_hash_equal(&members, &r->members)) r->failures = 0;
        r->members = members;
        r->at_ns += gw_peer_ms(p, pause_ms(++r->failures));
    }
    if (r->failures >= MOST_FAILURES)
        gw_peer_finish(p, GW_FINISH_FAILED, NULL,
                       "the reduction of step %" PRIu64 " has failed %" PRIu32
                       " times in a row with the same %" PRIu32 " members, the last time: %s",
                       p->state.step, r->failures, p->view.current.count, r->why);
    else
        gw_retry_consider(p);
}

void gw_retry_succeeded(gw_peer *p) {
    gw_links_clear_paths(p);
    gw_retry_begin_anew(p);
    gw_path_errors_forget(p);
}

void gw_retry_begin_anew(gw_peer *p) {
    p->step.retry = (gw_retry){0};
}

static bool waits(const gw_peer *p) {
    return p->phase == GW_AT_REDUCING && p->step.reduce_token == 0;
}

void gw_retry_consider(gw_peer *p) {
    if (waits(p) && p->now >= p->step.retry.at_ns)
        gw_agenda_change_view(p, "a reduction failed: %.80s", p->step.retry.why);
}

uint64_t gw_retry_deadline(const gw_peer *p) {
    return waits(p) && p->step.retry.at_ns > p->now ? p->step.retry.at_ns : UINT64_MAX;
}
