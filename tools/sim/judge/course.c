/* fast: what peers tell each other of where a state has come from (core/record/course.h), and of what is
 * whole behind it, is true. Read off what they send. */
#include "tools/sim/world/cluster.h"

#include "core/base/assert.h"
#include "core/brain/message.h"

#include <inttypes.h>

static const sim_made *find_by_fingerprint(const sim_cluster *c, uint64_t step, uint64_t fingerprint) {
    for (uint32_t i = 0; i < c->made_count; i++)
        if (c->made[i].step == step && sim_fingerprint(c->made[i].state) == fingerprint) return &c->made[i];
    return NULL;
}

/* Of what nobody has made, as it has been damaged, nothing is known. */
static bool may_have_come_from(const sim_cluster *c, uint64_t step, uint64_t state, const gw_kept *one) {
    if (one->step > step) return false;
    for (; step > one->step; step--) {
        const sim_made *made = sim_maker(c, state);
        if (made == NULL || made->step != step) return true;
        state = made->parent;
    }
    const gw_hash root = sim_root(step, state);
    return gw_hash_equal(&root, &one->root);
}

static void check_one(sim_cluster *c, const sim_peer *p, const char *kind, uint64_t step, uint64_t state,
                      const gw_kept *one) {
    if (one->step == 0 || may_have_come_from(c, step, state, one)) return;
    sim_violation(c,
                  "%s of peer %u: its state of step %" PRIu64
                  " has not come from the checkpoint of step %" PRIu64 " that it names",
                  kind, p->number, step, one->step);
}

static void check_course(sim_cluster *c, const sim_peer *p, const char *kind, uint64_t step, uint64_t state,
                         const gw_course *course) {
    for (uint32_t i = 0; i < course->count; i++) check_one(c, p, kind, step, state, &course->list[i]);
}

static bool knows_state(const sim_peer *p) {
    gw_peer_status status;
    gw_peer_status_get(p->brain, &status);
    return p->m.has_state && !p->m.flipped && status.step == p->m.step;
}

static void check_vote(sim_cluster *c, const sim_peer *p, const gw_report *report) {
    if (!report->has_state || report->step != p->m.step || report->fingerprint != sim_fingerprint(p->m.state))
        return;
    const gw_kept whole = {report->whole_step, report->whole_root};
    check_course(c, p, "a vote", p->m.step, p->m.state, &report->course);
    if (whole.step <= report->step) check_one(c, p, "a vote", p->m.step, p->m.state, &whole);
}

static void check_install(sim_cluster *c, const sim_peer *p, const gw_install *install) {
    if (install->load != GW_LOAD_PEERS) return;
    const sim_made *made = find_by_fingerprint(c, install->step, install->fingerprint);
    if (made == NULL) return;
    const gw_kept whole = {install->whole_step, install->whole_root},
                  found = {install->found_step, install->found_root};
    check_course(c, p, "an installation", made->step, made->state, &install->course);
    check_one(c, p, "an installation", made->step, made->state, &whole);
    check_one(c, p, "an installation", made->step, made->state, &found);
}

void sim_check_told(sim_cluster *c, const sim_peer *p, const gw_action *action) {
    if (!c->options->fast) return;
    GW_ASSERT(action->length > 1);
    const uint8_t kind = action->bytes[1];
    if (kind != GW_MSG_VOTE && kind != GW_MSG_INSTALL && kind != GW_MSG_READY) return;
    gw_message m;
    gw_err err;
    if (!gw_message_decode(action->bytes, action->length, &m, &err)) {
        sim_violation(c, "peer %u sends what cannot be read: %s", p->number, err.text);
        return;
    }
    const gw_kept whole = {m.step, m.hash};
    if (m.kind == GW_MSG_VOTE) check_vote(c, p, m.report);
    if (m.kind == GW_MSG_INSTALL) check_install(c, p, m.install);
    if (m.kind == GW_MSG_READY && knows_state(p)) check_one(c, p, "readiness", p->m.step, p->m.state, &whole);
    gw_message_free(&m);
}
