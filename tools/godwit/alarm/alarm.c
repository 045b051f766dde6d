#include "tools/godwit/alarm/alarm.h"

#include "core/base/assert.h"
#include "core/os/clock.h"
#include "tools/godwit/alarm/course.h"
#include "tools/godwit/show/events.h"
#include "tools/godwit/text/key_values.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOUR_NS UINT64_C(3600000000000)
/* A new leader sends again what began in this time before: the one before may not have got to it. */
#define RECENT_NS UINT64_C(120000000000)
/* A report that crosses a bound many times a second is one alarm: its end is told when the report has stayed below for
 * CALM_NS, and it is not raised again for QUIET_NS after that. */
#define CALM_NS  UINT64_C(60000000000)
#define QUIET_NS UINT64_C(600000000000)

enum { LOST = GW_SNAPSHOT_PEERS };

/* A condition that is on, or happened and has no end (over_ns set at once). */
typedef struct condition {
    gw_alarm alarm;
    uint64_t began_ns, over_ns; /* over_ns 0: it is on */
    bool lasts;                 /* it has an end; otherwise it is an event */
    bool sent, over_sent;       /* by this peer */
    bool own;                   /* this peer's own business: it sends it whoever leads */
} condition;

/* A peer that was seen. */
typedef struct seen_peer {
    gw_peer_id id;
    bool member, lost;
    uint64_t view;               /* the number of the last view of which it was a member */
    uint64_t lost_view;          /* `view` when it was lost */
    uint64_t lost_boot;          /* the life that was lost */
    uint64_t vain_boot;          /* a later life that ended before it took part, and was told of */
    char key[GW_ALARM_KEY_TEXT]; /* of the alarm that is on, if it is lost */
} seen_peer;

/* A condition of the reports, which may come and go with each step. */
typedef struct flapping {
    char key[GW_ALARM_KEY_TEXT]; /* of the alarm that is on; "": none is */
    char end[GW_ALARM_TEXT];     /* the text of its end, of the step in which the condition went away */
    uint64_t calm_ns;            /* when the condition went away; 0: it is there */
    uint64_t told_ns;            /* when the last end was told; 0: none was */
} flapping;

/* A rule about a reported number, and the number's course. */
typedef struct followed {
    gw_course course;
    flapping above;
} followed;

struct gw_alarms {
    gw_alarm_rules rules;
    uint64_t checkpoint_ns;
    gw_alarm_send *send;
    void *context;
    bool leads;
    char job[9];
    uint64_t now_ns;
    double now_s;
    uint64_t step, step_ns; /* the last step that was seen, and when it came */
    bool began;
    condition on[GW_ALARMS_ON];
    uint32_t count;
    seen_peer peers[LOST];
    uint32_t peer_count;
    followed reports[GW_ALARM_LOSSES]; /* by rule */
    flapping not_finite;
    char disk[GW_ALARM_KEY_TEXT]; /* the key of the alarm that is on; "": none is */
};

const char *gw_alarm_kind_name(gw_alarm_kind kind) {
    static const char *const names[] = {[GW_ALARM_DONE] = "done",
                                        [GW_ALARM_STOPPED] = "stopped",
                                        [GW_ALARM_FAILED] = "failed",
                                        [GW_ALARM_PEER_LOST] = "peer-lost",
                                        [GW_ALARM_NO_PROGRESS] = "no-progress",
                                        [GW_ALARM_NO_CHECKPOINT] = "no-checkpoint",
                                        [GW_ALARM_CORRUPT] = "corrupt",
                                        [GW_ALARM_DISK] = "disk-nearly-full",
                                        [GW_ALARM_NOT_FINITE] = "not-finite",
                                        [GW_ALARM_LOSS] = "report"};
    return names[kind];
}

gw_alarms *gw_alarms_open(const gw_alarm_rules *rules, uint64_t checkpoint_ns, gw_alarm_send *send,
                          void *context, gw_err *err) {
    gw_alarms *a = calloc(1, sizeof *a);
    if (a == NULL) {
        gw_fail(err, GW_E_NOMEM, "alarms: out of memory");
        return NULL;
    }
    a->rules = *rules;
    a->send = send;
    a->context = context;
    if (a->rules.checkpoint_ns == UINT64_MAX) {
        a->rules.checkpoint_ns = 3 * checkpoint_ns;
        if (a->rules.checkpoint_ns < HOUR_NS) a->rules.checkpoint_ns = HOUR_NS;
        if (checkpoint_ns == 0) a->rules.checkpoint_ns = 0; /* by steps, which no-progress looks after */
    }
    return a;
}

void gw_alarms_close(gw_alarms *a) {
    free(a);
}

/* Conditions. */

static condition *find(gw_alarms *a, const char *key) {
    for (uint32_t i = 0; i < a->count; i++)
        if (strcmp(a->on[i].alarm.key, key) == 0) return &a->on[i];
    return NULL;
}

static void send_due(gw_alarms *a, condition *c) {
    if (!a->leads && !c->own) return;
    if (!c->sent) {
        gw_alarm begin = c->alarm;
        begin.over = false;
        a->send(a->context, &begin);
    }
    c->sent = true;
    if (c->over_ns == 0 || !c->lasts || c->over_sent) return;
    gw_alarm end = c->alarm;
    end.over = true;
    a->send(a->context, &end);
    c->over_sent = true;
}

/* A free place: of the conditions that are over the one that has been for longest, if there is no other. */
static condition *place(gw_alarms *a) {
    condition *oldest = NULL;
    if (a->count < GW_ALARMS_ON) return &a->on[a->count++];
    for (uint32_t i = 0; i < a->count; i++)
        if (a->on[i].over_ns != 0 && (oldest == NULL || a->on[i].over_ns < oldest->over_ns))
            oldest = &a->on[i];
    return oldest != NULL ? oldest : &a->on[0];
}

/* A condition begins, or is on still. */
static void raise_alarm(gw_alarms *a, const gw_alarm *alarm, bool lasts, bool own) {
    condition *c = find(a, alarm->key);
    if (c != NULL && (c->over_ns == 0 || !lasts)) return;
    if (c == NULL) c = place(a);
    *c = (condition){
        .alarm = *alarm, .began_ns = a->now_ns, .over_ns = lasts ? 0 : a->now_ns, .lasts = lasts, .own = own};
    send_due(a, c);
}

/* A condition has ended, if it was on. `text` replaces its text. */
static void end_alarm(gw_alarms *a, const char *key, const char *text) {
    condition *c = find(a, key);
    if (c == NULL || c->over_ns != 0) return;
    c->over_ns = a->now_ns;
    snprintf(c->alarm.text, sizeof c->alarm.text, "%s", text);
    send_due(a, c);
}

static gw_alarm alarm_of(const gw_alarms *a, gw_alarm_kind kind, const char *subject) {
    gw_alarm alarm = {.kind = kind, .since = a->now_s, .step = a->step};
    snprintf(alarm.key, sizeof alarm.key, "%s/%s%s%s", a->job, gw_alarm_kind_name(kind),
             subject[0] != '\0' ? "/" : "", subject);
    return alarm;
}

/* Conditions of reports. */

static void begin_flapping(gw_alarms *a, flapping *f, const gw_alarm *alarm) {
    f->calm_ns = 0;
    if (f->key[0] != '\0' || (f->told_ns != 0 && a->now_ns - f->told_ns < QUIET_NS)) return;
    memcpy(f->key, alarm->key, sizeof f->key);
    raise_alarm(a, alarm, true, false);
}

/* The condition is not there; `text` tells it if it was. */
static void calm_flapping(const gw_alarms *a, flapping *f, const char *text) {
    if (f->key[0] == '\0' || f->calm_ns != 0) return;
    f->calm_ns = a->now_ns;
    snprintf(f->end, sizeof f->end, "%s", text);
}

static void settle(gw_alarms *a, flapping *f) {
    if (f->key[0] == '\0' || f->calm_ns == 0 || a->now_ns - f->calm_ns < CALM_NS) return;
    end_alarm(a, f->key, f->end);
    f->key[0] = '\0';
    f->told_ns = a->now_ns;
}

static void settle_reports(gw_alarms *a) {
    for (uint32_t i = 0; i < a->rules.loss_count; i++) settle(a, &a->reports[i].above);
    settle(a, &a->not_finite);
}

/* This peer leads from now on. What is on, and what happened lately, is sent again by it. */
static void begin_to_lead(gw_alarms *a) {
    for (uint32_t i = 0; i < a->count; i++) {
        condition *c = &a->on[i];
        bool recent = c->over_ns == 0 || a->now_ns - c->over_ns < RECENT_NS;
        if (recent) send_due(a, c);
    }
}

/* Looking. */

static seen_peer *see(gw_alarms *a, const gw_peer_id *id) {
    for (uint32_t i = 0; i < a->peer_count; i++)
        if (gw_peer_id_equal(&a->peers[i].id, id)) return &a->peers[i];
    if (a->peer_count == LOST) return NULL;
    a->peers[a->peer_count] = (seen_peer){.id = *id};
    return &a->peers[a->peer_count++];
}

/* The life of a peer and the last view of which it was a member: all other members know these alike, whether they
 * see its death before the next view or after. */
static void key_of_peer(const gw_snapshot_peer *peer, uint64_t view, char subject[80]) {
    char hex[GW_ID_TEXT];
    gw_hex(peer->id.bytes, sizeof peer->id.bytes, hex);
    snprintf(subject, 80, "%.16s/%" PRIu64 "/%" PRIu64, hex, peer->boot, view);
}

/* A peer that was lost is back when it takes part again: the life that was lost, or a later one in a later view. */
static bool is_back(const seen_peer *seen, const gw_snapshot_peer *peer) {
    return peer->member && (peer->boot == seen->lost_boot || seen->view > seen->lost_view);
}

/* A later life of a lost peer has ended before it took part: the alarm stays, and is sent again with what is known. */
static void tell_vain_start(gw_alarms *a, seen_peer *seen, const gw_snapshot_peer *peer, const char *name,
                            const char *at) {
    condition *c = find(a, seen->key);
    if (seen->vain_boot == peer->boot) return;
    seen->vain_boot = peer->boot;
    if (c == NULL || c->over_ns != 0) return;
    snprintf(
        c->alarm.text, sizeof c->alarm.text,
        "%s at %s was started again, and was refused or left before it took part: it is not back. Its log "
        "says why; start it with the command and the options that the others have.",
        name, at);
    c->sent = false;
    send_due(a, c);
}

static void look_at_peer(gw_alarms *a, const gw_snapshot_peer *peer, uint64_t view, bool ending) {
    char subject[80], at[GW_ADDR_TEXT];
    seen_peer *seen = see(a, &peer->id);
    bool gone = strcmp(peer->state, "dead") == 0 || strcmp(peer->state, "unreachable") == 0;
    bool left = strcmp(peer->state, "left") == 0;
    if (seen == NULL || peer->self) return;
    bool was_lost = seen->lost;
    if (peer->member) seen->view = view;
    key_of_peer(peer, seen->view, subject);
    gw_alarm alarm = alarm_of(a, GW_ALARM_PEER_LOST, subject);
    const char *name = peer->name[0] != '\0' ? peer->name : "a peer";
    gw_addr_text(&peer->addr, at);
    if (gone && seen->member && !was_lost && !ending) {
        seen->lost = true;
        seen->lost_view = seen->view;
        seen->lost_boot = peer->boot;
        memcpy(seen->key, alarm.key, sizeof seen->key);
        snprintf(alarm.text, sizeof alarm.text,
                 "%s at %s %s at step %" PRIu64 "; the others go on with its work. %s", name, at,
                 strcmp(peer->state, "dead") == 0 ? "has ended" : "does not answer", a->step,
                 strcmp(peer->state, "dead") == 0
                     ? "Start it again with the same command; godwit why says what is known of its end."
                     : "See to the host and its network; the peers meet again by themselves.");
        raise_alarm(a, &alarm, true, false);
    } else if (was_lost && peer->in_vain) {
        tell_vain_start(a, seen, peer, name, at);
    } else if (was_lost && !gone && (left || is_back(seen, peer))) {
        char text[GW_ALARM_TEXT];
        seen->lost = false;
        snprintf(text, sizeof text, "%s at %s %s.", name, at, left ? "has left for good" : "is back");
        end_alarm(a, seen->key, text);
    }
    if (!gone) seen->member = peer->member && !left;
}

static void duration_text(uint64_t ns, char text[32]) {
    double seconds = (double)ns * 1e-9;
    if (seconds < 120)
        snprintf(text, 32, "%.0f s", seconds);
    else if (seconds < 7200)
        snprintf(text, 32, "%.0f min", seconds / 60);
    else
        snprintf(text, 32, "%.1f h", seconds / 3600);
}

static void look_at_progress(gw_alarms *a, const gw_node_snapshot *s) {
    char subject[32], took[32], text[GW_ALARM_TEXT];
    if (a->rules.progress_ns == 0) return;
    if (!a->began || s->step != a->step) {
        snprintf(subject, sizeof subject, "%" PRIu64, a->step);
        gw_alarm was = alarm_of(a, GW_ALARM_NO_PROGRESS, subject);
        snprintf(text, sizeof text, "The job makes steps again: step %" PRIu64 " is done.", s->step);
        if (a->began) end_alarm(a, was.key, text);
        a->began = true;
        a->step = s->step;
        a->step_ns = a->now_ns;
        return;
    }
    uint64_t waits = a->now_ns - a->step_ns;
    if (waits < a->rules.progress_ns || s->ending || s->ended) return;
    snprintf(subject, sizeof subject, "%" PRIu64, a->step);
    gw_alarm alarm = alarm_of(a, GW_ALARM_NO_PROGRESS, subject);
    duration_text(waits, took);
    snprintf(alarm.text, sizeof alarm.text,
             "No step since %s: %" PRIu64
             " steps are done. The peer says: %.200s. godwit status and godwit why say "
             "more.",
             took, a->step, s->phase);
    raise_alarm(a, &alarm, true, false);
}

static void look_at_checkpoint(gw_alarms *a, const gw_node_snapshot *s) {
    char subject[32], took[32];
    uint64_t step = s->checkpoint_step == UINT64_MAX ? 0 : s->checkpoint_step;
    if (a->rules.checkpoint_ns == 0 || s->no_state) return;
    bool late = s->checkpoint_age_s * 1e9 > (double)a->rules.checkpoint_ns && s->step > step && !s->ended;
    for (uint32_t i = 0; i < a->count; i++) { /* one of a later step ends it */
        const gw_alarm *one = &a->on[i].alarm;
        if (one->kind == GW_ALARM_NO_CHECKPOINT && a->on[i].over_ns == 0 && !late) {
            char key[GW_ALARM_KEY_TEXT], text[GW_ALARM_TEXT];
            snprintf(key, sizeof key, "%s", one->key);
            snprintf(text, sizeof text, "A checkpoint is complete again, that of step %" PRIu64 ".", step);
            end_alarm(a, key, text);
        }
    }
    if (!late) return;
    snprintf(subject, sizeof subject, "%" PRIu64, step);
    gw_alarm alarm = alarm_of(a, GW_ALARM_NO_CHECKPOINT, subject);
    duration_text((uint64_t)(s->checkpoint_age_s * 1e9), took);
    snprintf(alarm.text, sizeof alarm.text,
             "No checkpoint has become complete for %s; the last one is of step %" PRIu64 ", and %" PRIu64
             " steps are done. See to the disks: godwit status says which cannot be written.",
             took, step, s->step);
    raise_alarm(a, &alarm, true, false);
}

static void look_at_disk(gw_alarms *a, const gw_node_snapshot *s, uint64_t disk_bytes) {
    char subject[80], hex[GW_ID_TEXT], text[GW_ALARM_TEXT], left[GW_BYTES_TEXT];
    if (a->rules.disk == 0 || disk_bytes == 0 || s->disk_free_bytes == UINT64_MAX) return;
    double share = (double)s->disk_free_bytes / (double)disk_bytes;
    gw_hex(s->self.bytes, sizeof s->self.bytes, hex);
    snprintf(subject, sizeof subject, "%.16s/%.0f", hex, a->now_s);
    gw_alarm alarm = alarm_of(a, GW_ALARM_DISK, subject);
    gw_events_bytes(s->disk_free_bytes, left);
    if (share < a->rules.disk && a->disk[0] == '\0') {
        memcpy(a->disk, alarm.key, sizeof a->disk);
        snprintf(alarm.text, sizeof alarm.text,
                 "The disk of %s (%.200s) has %s left, %.1f %%. Make room there, or checkpoints will fail; "
                 "the run "
                 "goes on.",
                 s->name, s->dir, left, 100 * share);
        raise_alarm(a, &alarm, true, true);
    } else if (share > 1.2 * a->rules.disk && a->disk[0] != '\0') {
        snprintf(text, sizeof text, "The disk of %s has %s left again.", s->name, left);
        end_alarm(a, a->disk, text);
        a->disk[0] = '\0';
    }
}

void gw_alarms_look(gw_alarms *a, const gw_node_snapshot *s, uint64_t disk_bytes, uint64_t now_ns) {
    bool leads = s->members > 0 && gw_peer_id_equal(&s->self, &s->leader);
    a->now_ns = now_ns;
    a->now_s = s->time;
    gw_hex(s->job_id.bytes, 4, a->job);
    if (leads && !a->leads) {
        a->leads = true;
        begin_to_lead(a);
    }
    a->leads = leads;
    for (uint32_t i = 0; i < s->peer_count; i++)
        look_at_peer(a, &s->peers[i], s->epoch, s->ending || s->ended);
    look_at_progress(a, s);
    look_at_checkpoint(a, s);
    look_at_disk(a, s, disk_bytes);
    settle_reports(a);
}

/* Reports. */

/* A number as people read it, without an exponent where it has a common size. */
static const char *number_text(double value, char text[32]) {
    double size = fabs(value);
    snprintf(text, 32, size >= 1000 && size < 1e15 ? "%.0f" : "%.4g", value);
    return text;
}

static void judge(gw_alarms *a, uint32_t rule, uint64_t step, double value) {
    const gw_alarm_loss *r = &a->rules.losses[rule];
    followed *f = &a->reports[rule];
    char subject[80], text[GW_ALARM_TEXT], number[32], times[32], mean[32];
    bool above = gw_course_leaves(&f->course, r, value);
    snprintf(subject, sizeof subject, "%s>%g%s/%" PRIu64, r->key, r->limit, r->spike ? "x" : "", step);
    gw_alarm alarm = alarm_of(a, GW_ALARM_LOSS, subject);
    alarm.step = step;
    number_text(value, number);
    if (above) {
        if (r->spike)
            snprintf(alarm.text, sizeof alarm.text,
                     "%s is %s in step %" PRIu64 ", %s times its recent mean of %s.", r->key, number, step,
                     number_text(value / f->course.mean, times), number_text(f->course.mean, mean));
        else
            snprintf(alarm.text, sizeof alarm.text, "%s is %s in step %" PRIu64 ", above %s.", r->key, number,
                     step, number_text(r->limit, mean));
        begin_flapping(a, &f->above, &alarm);
    } else {
        snprintf(text, sizeof text, "%s is %s again in step %" PRIu64 ", and has not risen since.", r->key,
                 number, step);
        calm_flapping(a, &f->above, text);
    }
    if (!above) gw_course_add(&f->course, value, 1);
}

void gw_alarms_step(gw_alarms *a, uint64_t step, const char *report, double time_s, uint64_t now_ns) {
    const char *rest = report, *value;
    char key[GW_KEY_VALUES_KEY], bad[GW_KEY_VALUES_KEY] = "";
    size_t length;
    double number;
    a->now_ns = now_ns;
    a->now_s = time_s;
    while (gw_key_values_next(&rest, key, &value, &length)) {
        if (!gw_key_values_number(value, length, &number)) continue;
        if (!isfinite(number)) snprintf(bad, sizeof bad, "%s", key);
        for (uint32_t i = 0; i < a->rules.loss_count && isfinite(number); i++)
            if (strcmp(a->rules.losses[i].key, key) == 0) judge(a, i, step, number);
    }
    char subject[32];
    snprintf(subject, sizeof subject, "%" PRIu64, step);
    gw_alarm alarm = alarm_of(a, GW_ALARM_NOT_FINITE, subject);
    alarm.step = step;
    if (bad[0] != '\0') {
        snprintf(alarm.text, sizeof alarm.text,
                 "%s is not finite in step %" PRIu64
                 ". Such a run rarely recovers: go back to a checkpoint with a "
                 "lower learning rate (--continue), or leave such updates out (--on-bad skip).",
                 bad, step);
        begin_flapping(a, &a->not_finite, &alarm);
    } else {
        calm_flapping(a, &a->not_finite, "All reported numbers are finite again.");
    }
    settle_reports(a);
}

void gw_alarms_corrupt(gw_alarms *a, uint64_t step, const char *text) {
    char subject[32];
    snprintf(subject, sizeof subject, "%" PRIu64, step);
    gw_alarm alarm = alarm_of(a, GW_ALARM_CORRUPT, subject);
    alarm.step = step;
    snprintf(alarm.text, sizeof alarm.text,
             "Wrong bits: %.300s. They were not used; a peer that is named again needs a memory test.", text);
    raise_alarm(a, &alarm, false, false);
}

void gw_alarms_end(gw_alarms *a, const char *outcome, uint64_t step, const char *text) {
    bool done = strcmp(outcome, "done") == 0, stopped = strcmp(outcome, "stopped") == 0;
    bool failed = strcmp(outcome, "failed") == 0 || strcmp(outcome, "unsaved") == 0;
    if (!done && !stopped && !failed) return; /* it left, and others go on */
    char subject[32];
    snprintf(subject, sizeof subject, "%" PRIu64, step);
    gw_alarm alarm = alarm_of(a,
                              done      ? GW_ALARM_DONE
                              : stopped ? GW_ALARM_STOPPED
                                        : GW_ALARM_FAILED,
                              subject);
    alarm.step = step;
    if (done)
        snprintf(alarm.text, sizeof alarm.text, "The job is done, after %" PRIu64 " steps. %s", step,
                 text != NULL ? text : "");
    else if (stopped)
        snprintf(alarm.text, sizeof alarm.text,
                 "The job was stopped after %" PRIu64 " steps; the same command goes on with it.", step);
    else
        snprintf(alarm.text, sizeof alarm.text, "The job cannot go on after %" PRIu64 " steps: %.350s", step,
                 text != NULL ? text : "godwit why says more.");
    /* A peer that fails alone may not lead, and nobody else may know. */
    raise_alarm(a, &alarm, false, failed);
}
