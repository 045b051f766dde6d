/* Promise, with float sums: what peers tell each other about the lineage of a state
 * (core/record/lineage.h), and about the whole checkpoint that it descends from, is true. The judge reads
 * the messages that they send. */
#include "tools/sim/judge/judge.h"

#include "core/base/assert.h"
#include "core/brain/message.h"

#include <inttypes.h>

/* Whether the state may descend from the checkpoint. Nothing is known of a state that no view has made,
 * because it has been damaged. */
static bool may_descend_from(const sim_judges *j, uint64_t step, uint64_t state,
                             const gw_checkpoint_ref *one) {
    if (one->step > step) return false;
    for (; step > one->step; step--) {
        const sim_made *made = sim_maker(j, state);
        if (made == NULL || made->step != step) return true;
        state = made->parent;
    }
    const gw_hash root = sim_root(step, state);
    return gw_hash_equal(&root, &one->root);
}

static void check_one(sim_judges *j, const sim_peer *p, const char *kind, uint64_t step, uint64_t state,
                      const gw_checkpoint_ref *one) {
    if (one->step == 0 || may_descend_from(j, step, state, one)) return;
    sim_violation(j->c,
                  "%s of peer %u: its state of step %" PRIu64
                  " does not descend from the checkpoint of step %" PRIu64 " that it names",
                  kind, p->number, step, one->step);
}

static void check_lineage(sim_judges *j, const sim_peer *p, const char *kind, uint64_t step, uint64_t state,
                          const gw_lineage *lineage) {
    for (uint32_t i = 0; i < lineage->count; i++) check_one(j, p, kind, step, state, &lineage->list[i]);
}

static bool knows_state(const sim_peer *p) {
    gw_peer_status status;
    gw_peer_status_get(p->brain, &status);
    return p->m.has_state && !p->m.flipped && status.step == p->m.step;
}

static void check_vote(sim_judges *j, const sim_peer *p, const gw_report *report) {
    if (!report->has_state || report->step != p->m.step || report->fingerprint != sim_fingerprint(p->m.state))
        return;
    const gw_checkpoint_ref whole = {report->whole_step, report->whole_root};
    check_lineage(j, p, "a vote", p->m.step, p->m.state, &report->lineage);
    if (whole.step <= report->step) check_one(j, p, "a vote", p->m.step, p->m.state, &whole);
}

static void check_install(sim_judges *j, const sim_peer *p, const gw_install *install) {
    if (install->load != GW_LOAD_PEERS) return;
    const sim_made *made = sim_made_with(j, install->step, install->fingerprint);
    if (made == NULL) return;
    const gw_checkpoint_ref whole = {install->whole_step, install->whole_root},
                            found = {install->found_step, install->found_root};
    check_lineage(j, p, "an installation", made->step, made->state, &install->lineage);
    check_one(j, p, "an installation", made->step, made->state, &whole);
    check_one(j, p, "an installation", made->step, made->state, &found);
}

static void on_sent(void *context, sim_peer *p, const sim_peer *to, const uint8_t *bytes, size_t length) {
    sim_judges *j = context;
    (void)to;
    if (!j->c->options->fast) return;
    GW_ASSERT(length > 1);
    const uint8_t kind = bytes[1];
    if (kind != GW_MSG_VOTE && kind != GW_MSG_INSTALL && kind != GW_MSG_READY) return;
    gw_message m;
    gw_err err;
    if (!gw_message_decode(bytes, length, &m, &err)) {
        sim_violation(j->c, "peer %u sends a message that cannot be read: %s", p->number, err.text);
        return;
    }
    if (m.kind == GW_MSG_VOTE) check_vote(j, p, m.vote.report);
    if (m.kind == GW_MSG_INSTALL) check_install(j, p, m.install.install);
    if (m.kind == GW_MSG_READY && knows_state(p))
        check_one(j, p, "readiness", p->m.step, p->m.state, &m.ready.whole);
    gw_message_free(&m);
}

const sim_observer sim_claimed_lineage_observer = {.message_sent = on_sent};
