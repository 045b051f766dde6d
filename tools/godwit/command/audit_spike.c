#include "tools/godwit/command/audit_spike.h"

#include "tools/godwit/text/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

static void print_rule(const gw_alarm_loss *rule) {
    printf(" (%s>%g%s)\n", rule->key, rule->limit, rule->spike ? "x" : "");
}

void gw_audit_spike_print(const gw_audit_spike *s) {
    enum { SHOWN = 8 };
    const gw_spikes *all = &s->spikes;
    if (s->step == 0) {
        printf("%s keeps to its course in all steps up to %" PRIu64, s->rule.key, all->last);
        print_rule(&s->rule);
        return;
    }
    if (isnan(s->value))
        printf("step %" PRIu64 " was looked at for its %s", s->step, s->rule.key);
    else
        printf("%s is %.5g in step %" PRIu64, s->rule.key, s->value, s->step);
    if (!isnan(s->value) && s->before.count > 0 && s->before.mean > 0)
        printf(", %.3g times its recent mean of %.5g", s->value / s->before.mean, s->before.mean);
    print_rule(&s->rule);
    uint32_t shown = 0;
    for (uint32_t i = 0; i < all->listed && shown < SHOWN; i++) {
        if (all->list[i].begin <= s->step && s->step <= all->list[i].end) continue;
        printf("%s%" PRIu64, shown == 0 ? "  it also leaves its course in step " : ", ", all->list[i].begin);
        shown++;
    }
    if (shown > 0) printf("%s (--step looks at one of these)\n", all->count > shown + 1 ? " and others" : "");
}

static void print_extreme(const gw_extremes *e, const gw_extreme *one, const char *key) {
    printf("shard %" PRIu32 " of step %" PRIu64 " stands out of %" PRIu32 ": ", one->shard, e->step,
           e->shards);
    if (one->bad > 0)
        printf("%" PRIu64 " of its numbers are not finite or too large\n", one->bad);
    else if (one->by_norm)
        printf("its gradient has a norm of %.5g, and that of the middle shard %.5g\n", one->value,
               one->usual);
    else
        printf("it adds %.5g to the sum of %s, and the middle shard %.5g\n", one->value, key, one->usual);
    gw_audit_samples_print(&one->samples, stdout);
}

static void print_all(const gw_extremes *e, const char *key) {
    for (uint32_t i = 0; i < e->count; i++) print_extreme(e, &e->list[i], key);
}

void gw_audit_spike_print_shards(const gw_audit_spike *s) {
    const gw_extremes *own = &s->own;
    if (own->step == 0 || s->step == 0) return;
    print_all(own, s->rule.key);
    if (own->count > 0) return;
    if (own->shards == 1)
        printf("step %" PRIu64 " has one shard, which cannot be compared with others\n", s->step);
    else
        printf("no shard of step %" PRIu64 " stands out: shard %" PRIu32
               " is the highest, with %.3g times what the middle one of %" PRIu32 " has\n",
               s->step, own->highest.shard, own->highest.value / own->highest.usual, own->shards);
    if (s->earlier.count > 0) {
        printf("an update before it may have spoiled the state:\n");
        print_all(&s->earlier, s->rule.key);
    } else if (s->behind > 0)
        printf("nor does one of the %" PRIu32 " steps before it: the cause is not a single shard, but what "
               "all have in common (the learning rate, "
               "the data from there on)\n",
               s->behind);
}

static json_t *shards_object(const gw_extremes *e) {
    json_t *object = json_object(), *list = json_array();
    gw_json_count(object, "step", e->step);
    gw_json_count(object, "shards", e->shards);
    for (uint32_t i = 0; i < e->count; i++) {
        const gw_extreme *one = &e->list[i];
        json_t *entry = json_object();
        gw_json_count(entry, "shard", one->shard);
        gw_json_text(entry, "by", one->bad > 0 ? "bad" : one->by_norm ? "norm" : "report");
        gw_json_real(entry, "value", one->value);
        gw_json_real(entry, "usual", one->usual);
        gw_json_count(entry, "bad", one->bad);
        gw_audit_samples_put(&one->samples, entry);
        json_array_append_new(list, entry);
    }
    json_object_set_new(object, "extreme", list);
    return object;
}

void gw_audit_spike_put(const gw_audit_spike *s, json_t *root) {
    json_t *object = json_object(), *list = json_array();
    gw_json_text(object, "report", s->rule.key);
    gw_json_real(object, "limit", s->rule.limit);
    gw_json_flag(object, "times_mean", s->rule.spike);
    gw_json_count(object, "series_last", s->spikes.last);
    gw_json_count(object, "spike_count", s->spikes.count);
    for (uint32_t i = 0; i < s->spikes.listed; i++) {
        json_t *entry = json_object();
        gw_json_count(entry, "begin", s->spikes.list[i].begin);
        gw_json_count(entry, "end", s->spikes.list[i].end);
        gw_json_real(entry, "value", s->spikes.list[i].value);
        gw_json_real(entry, "mean", s->spikes.list[i].before.mean);
        json_array_append_new(list, entry);
    }
    json_object_set_new(object, "spikes", list);
    gw_json_step(object, "step", s->step != 0 ? s->step : UINT64_MAX);
    gw_json_real(object, "value", s->value);
    gw_json_real(object, "mean", s->before.count > 0 ? s->before.mean : NAN);
    if (s->own.step != 0) json_object_set_new(object, "own", shards_object(&s->own));
    if (s->earlier.step != 0) json_object_set_new(object, "earlier", shards_object(&s->earlier));
    gw_json_count(object, "steps_behind", s->behind);
    json_object_set_new(root, "spike", object);
}
