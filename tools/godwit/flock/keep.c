/* Checkpoints of jobs of steps are to be on two nodes. Where several nodes run a job, their peers see to it. Where one runs
 * it, or none at the moment, each member that has a checkpoint has the first of the others keep the newest one, by a hash
 * of job and member, so that all ask the same one. Handing them over takes a tenth of the time at most. The job's record tells the highest
 * step that is safe in one of these ways, so that nobody begins before it while the nodes that have it are away.
 *
 * The files that travel with a job that is not over are to be on two nodes as well: on the first two of all. */
#include "core/base/log.h"
#include "core/os/clock.h"
#include "tools/godwit/flock/inside.h"

#include <unistd.h>

enum { AT_ONCE = 8, REST_FACTOR = 9 };

#define LOOK_NS (5 * GW_SECOND_NS)
#define HELD_NS (600 * GW_SECOND_NS) /* files that are here are looked for again */
#define LOST_NS (60 * GW_SECOND_NS)  /* files that nobody had are looked for again */

static gw_member_entrusted_one *find(gw_flock_member *m, const gw_job_record_id *id) {
    for (uint32_t i = 0; i < GW_MEMBER_ENTRUSTED; i++)
        if (m->entrusted[i].next_ns != 0 && gw_job_record_id_equal(&m->entrusted[i].id, id))
            return &m->entrusted[i];
    return NULL;
}

void gw_member_entrusted(gw_flock_member *m, const gw_job_record_id *id, const gw_peer_id *to, uint64_t step,
                         uint64_t took_ns) {
    gw_member_entrusted_one *one = find(m, id);
    if (one == NULL) {
        one = &m->entrusted[m->entrusted_at];
        m->entrusted_at = (m->entrusted_at + 1) % GW_MEMBER_ENTRUSTED;
    }
    *one = (gw_member_entrusted_one){*id, *to, step, gw_now_ns() + REST_FACTOR * took_ns + 1};
    gw_job_record change = gw_job_record_of(id);
    change.saved = step;
    if (gw_job_records_find(m->records, id) != NULL) gw_member_change(m, &change);
}

/* Whether a checkpoint of the job may be here. */
static bool has_state(const gw_flock_member *m, const gw_job_record_id *id) {
    char folder[GW_KEEPER_FOLDER_TEXT], state[GW_PATH_BYTES];
    gw_err err;
    return gw_children_folder(m->children, id, folder, &err) &&
           gw_durable_path(state, &err, "%s/state", folder) && access(state, F_OK) == 0;
}

/* Whether another live member runs the job, and one with a lower id does. */
static bool runs_elsewhere(const gw_flock_member *m, const gw_job_record_id *id, bool *lower) {
    bool any = *lower = false;
    for (uint32_t i = 0; i < gw_exchange_claims_count(m->exchange); i++) {
        const gw_claims *list = gw_exchange_claims_at(m->exchange, i);
        const gw_claim *claim = list->boot != 0 ? gw_claims_find(list, id) : NULL;
        int order = gw_peer_id_compare(&list->member, &m->identity.id);
        if (claim == NULL || claim->state != GW_CLAIM_RUNNING || order == 0 ||
            !gw_member_is_live(m, &list->member))
            continue;
        any = true;
        *lower |= order < 0;
    }
    return any;
}

/* Looks after one job. Returns whether something was begun. */
static bool look_after(gw_flock_member *m, const gw_job_record *record, uint64_t now_ns) {
    const gw_job_spec *spec = gw_decider_spec(m->decider, &record->id);
    gw_peer_id other = m->identity.id;
    bool lower;
    if (spec == NULL || spec->kind != GW_JOB_RUN || !record->started || gw_job_record_is_over(record) ||
        gw_member_is_preparing(m, &record->id) || gw_member_is_entrusting(m, &record->id) ||
        !has_state(m, &record->id))
        return false;
    bool several = runs_elsewhere(m, &record->id, &lower);
    if (several && (lower || gw_children_find(m->children, &record->id) == NULL)) return false;
    if (!several && !gw_member_first_other(m, &record->id, &other)) return false;
    const gw_member_entrusted_one *one = find(m, &record->id);
    bool same = one != NULL && gw_peer_id_equal(&one->to, &other);
    if (same && now_ns < one->next_ns) return false;
    gw_member_entrust(m, &record->id, several ? NULL : &other, same ? one->step : 0);
    return true;
}

/* Files. */

static gw_member_held *find_held(gw_flock_member *m, const gw_hash *files) {
    for (uint32_t i = 0; i < GW_MEMBER_HELD; i++)
        if (m->held[i].next_ns != 0 && gw_hash_equal(&m->held[i].files, files)) return &m->held[i];
    return NULL;
}

void gw_member_held_files(gw_flock_member *m, const gw_hash *files, bool good) {
    gw_member_held *one = find_held(m, files);
    if (one == NULL) {
        one = &m->held[m->held_at];
        m->held_at = (m->held_at + 1) % GW_MEMBER_HELD;
    }
    *one = (gw_member_held){*files, gw_now_ns() + (good ? HELD_NS : LOST_NS)};
}

/* Whether this member is one of the first two that are to hold files. */
static bool is_holder(const gw_flock_member *m, const gw_hash *files) {
    uint64_t own = gw_member_rank(&m->identity.id, files->bytes);
    uint32_t before = 0;
    for (uint32_t i = 0; i < gw_exchange_claims_count(m->exchange); i++) {
        const gw_claims *list = gw_exchange_claims_at(m->exchange, i);
        before += list->boot != 0 && !list->disk_bad && !gw_peer_id_equal(&list->member, &m->identity.id) &&
                  gw_member_is_live(m, &list->member) && gw_member_rank(&list->member, files->bytes) > own;
    }
    return before < GW_EXCHANGE_HOLDERS && !m->claims.disk_bad;
}

/* Has this member fetch the files of a job, if it is to hold them. Returns whether that was begun. */
static bool look_after_files(gw_flock_member *m, const gw_job_record *record, uint64_t now_ns) {
    static const gw_hash none;
    const gw_job_spec *spec = gw_decider_spec(m->decider, &record->id);
    if (spec == NULL || gw_hash_equal(&spec->files, &none) || gw_job_record_is_over(record)) return false;
    const gw_member_held *one = find_held(m, &spec->files);
    if ((one != NULL && now_ns < one->next_ns) || !is_holder(m, &spec->files)) return false;
    gw_member_held_files(m, &spec->files, false); /* not once more before it has ended */
    gw_member_hold_files(m, NULL, &spec->files);
    return true;
}

static void look(void *context) {
    gw_flock_member *m = context;
    uint64_t now = gw_now_ns();
    gw_err err;
    gw_member_prepare_tidy(m);
    for (uint32_t i = 0, begun = 0; i < gw_job_records_count(m->records) && begun < AT_ONCE; i++) {
        const gw_job_record *record = gw_job_records_at(m->records, i);
        begun += look_after(m, record, now);
        begun += look_after_files(m, record, now);
    }
    if (!gw_timer_set(m->loop, &m->keep_timer, now + LOOK_NS, look, m, &err))
        gw_log(GW_ERROR, "flock", "%s", err.text);
}

bool gw_member_keep_open(gw_flock_member *m, gw_err *err) {
    return gw_timer_set(m->loop, &m->keep_timer, gw_now_ns() + LOOK_NS, look, m, err);
}

void gw_member_keep_close(gw_flock_member *m) {
    gw_timer_cancel(&m->keep_timer);
}
