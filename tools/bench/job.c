#include "tools/bench/job.h"

#include "core/base/assert.h"
#include "tools/godwit/text/suggest.h"

#include <argp.h>

enum { FIRST_KEY = 256 };

/* Values in the order of the options: the job's own, then the measurement's. */
typedef struct settings {
    struct argp_option options[GW_BENCH_PARAMS + 1];
    const char *value[GW_BENCH_PARAMS];
    int count;
} settings;

static error_t parse(int key, char *argument, struct argp_state *state) {
    settings *s = state->input;
    int place = key - FIRST_KEY;
    if (place < 0 || place >= s->count) return ARGP_ERR_UNKNOWN;
    s->value[place] = argument != NULL ? argument : "1";
    return 0;
}

static void add_options(settings *s, const gw_option *options) {
    for (; options != NULL && options->name != NULL; options++) {
        GW_ASSERT(s->count < GW_BENCH_PARAMS);
        s->options[s->count] =
            (struct argp_option){options->name, FIRST_KEY + s->count, options->argument, 0, options->help, 0};
        s->value[s->count++] = options->fallback;
    }
}

bool gw_bench_job_params(int argc, char **argv, const gw_job_type *type, const gw_option *more,
                         const char *doc, gw_param *list, gw_params *params) {
    settings s = {.count = 0};
    add_options(&s, type->options);
    add_options(&s, more);
    const struct argp argp = {s.options, parse, NULL, doc, NULL, NULL, NULL};
    if (gw_argp_parse(&argp, argc, argv, &s) != 0) return false;
    *params = (gw_params){.list = list};
    for (int i = 0; i < s.count; i++)
        if (s.value[i] != NULL) list[params->count++] = (gw_param){s.options[i].name, s.value[i]};
    return true;
}

bool gw_bench_sum_is_right(const gw_verdict *verdict, uint64_t step, gw_err *err) {
    if (!verdict->coverage_ok || !verdict->fingerprint_ok)
        return gw_fail(err, GW_E_CORRUPT, "the sum of step %llu is wrong", (unsigned long long)step);
    return verdict->bad == 0 ||
           gw_fail(err, GW_E_INVALID, "step %llu has %llu elements that are not finite or too large",
                   (unsigned long long)step, (unsigned long long)verdict->bad);
}
