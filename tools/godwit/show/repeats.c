#include "tools/godwit/show/repeats.h"

#include <stdio.h>
#include <string.h>

bool gw_repeats_admit(gw_repeats *repeats, const char *text, uint64_t now_ns, uint64_t *times) {
    gw_hash hash;
    gw_blake2b(text, strlen(text), hash.bytes, sizeof hash.bytes);
    /* This finds the entry of the text, or else the entry whose text occurred least recently. */
    struct gw_repeats_text *found = &repeats->texts[0];
    for (int i = 0; i < GW_REPEATS_TEXTS; i++) {
        struct gw_repeats_text *one = &repeats->texts[i];
        bool same = gw_hash_equal(&one->hash, &hash);
        if (same || one->limit.heard_ns < found->limit.heard_ns) found = one;
        if (same) break;
    }
    if (!gw_hash_equal(&found->hash, &hash)) *found = (struct gw_repeats_text){.hash = hash};
    return gw_rate_limit_admits(&found->limit, now_ns, times);
}

static const char *after_digits(const char *text) {
    return text + strspn(text, "0123456789");
}

static bool same_but_for_steps(const char *a, const char *b) {
    for (;;) {
        const char *a_step = strstr(a, "step "), *b_step = strstr(b, "step ");
        if (a_step == NULL || b_step == NULL) return strcmp(a, b) == 0;
        if (a_step - a != b_step - b || memcmp(a, b, (size_t)(a_step - a)) != 0) return false;
        a = after_digits(a_step + strlen("step "));
        b = after_digits(b_step + strlen("step "));
    }
}

bool gw_phase_filter_is_news(gw_phase_filter *filter, const char *text, uint64_t now_ns) {
    uint64_t times;
    if (strcmp(filter->text, text) == 0) return false;
    if (!same_but_for_steps(filter->text, text)) filter->limit = (gw_rate_limit){0};
    if (!gw_rate_limit_admits(&filter->limit, now_ns, &times)) return false;
    snprintf(filter->text, sizeof filter->text, "%s", text);
    return true;
}
