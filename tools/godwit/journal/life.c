#include "tools/godwit/journal/life.h"

#include "core/os/clock.h"
#include "kernels/host/memory_limit.h"
#include "tools/godwit/journal/journal.h"
#include "tools/godwit/journal/read.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void gw_life_now(gw_life *life) {
    *life = (gw_life){.memory_kills = gw_memory_kills(), .pid = (int)getpid()};
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (file == NULL) return;
    if (fscanf(file, "%39[0-9a-f-]", life->boot_id) != 1) life->boot_id[0] = '\0';
    fclose(file);
}

/* What the events of the last life in the journal tell. */
typedef struct trace {
    bool any, done;
    char boot_id[GW_LIFE_BOOT_TEXT];
    uint64_t memory_kills;
    char words[GW_LIFE_TEXT / 2]; /* the log line of a process that ends in a hurry */
    gw_last_life life;
} trace;

static bool follow(void *context, const char *line, size_t length, json_t *event) {
    (void)line;
    (void)length;
    trace *found = context;
    double time = gw_journal_number(event, "time", 0);
    if (gw_journal_is(event, "life")) {
        const char *boot_id = gw_journal_text(event, "boot_id");
        *found = (trace){.any = true, .life.began = time};
        snprintf(found->boot_id, sizeof found->boot_id, "%s", boot_id != NULL ? boot_id : "");
        double kills = gw_journal_number(event, "memory_kills", 0);
        found->memory_kills = kills >= 0 && kills < 1e15 ? (uint64_t)kills : 0;
    }
    found->life.last = time;
    double step = gw_journal_number(event, "step", 0);
    if (step > 0 && step < 1e18) found->life.step = (uint64_t)step;
    if (gw_journal_is(event, "done")) found->done = true;
    const char *text = gw_journal_text(event, "text");
    if (text != NULL && gw_journal_text(event, "level") != NULL && strstr(text, GW_LIFE_LAST_WORDS) != NULL)
        snprintf(found->words, sizeof found->words, "%s", text);
    if (gw_journal_is(event, "crash")) {
        found->life.end = GW_LIFE_CRASHED;
        double number = gw_journal_number(event, "signal", 0);
        found->life.signal = number > 0 && number < 128 ? (int)number : 0;
    }
    return true;
}

static gw_life_end end_of(const trace *found, const gw_life *now) {
    if (!found->any) return GW_LIFE_NONE;
    if (found->life.end == GW_LIFE_CRASHED) return GW_LIFE_CRASHED;
    if (found->done) return GW_LIFE_ENDED;
    if (found->words[0] != '\0') return GW_LIFE_GAVE_UP;
    if (found->boot_id[0] != '\0' && now->boot_id[0] != '\0' && strcmp(found->boot_id, now->boot_id) != 0)
        return GW_LIFE_MACHINE;
    return now->memory_kills > found->memory_kills ? GW_LIFE_MEMORY : GW_LIFE_KILLED;
}

static void describe(gw_last_life *last, const char *words) {
    switch (last->end) {
    case GW_LIFE_NONE:
    case GW_LIFE_ENDED:
        last->text[0] = '\0';
        break;
    case GW_LIFE_GAVE_UP:
        snprintf(last->text, sizeof last->text, "ended itself: %s", words);
        break;
    case GW_LIFE_CRASHED:
        snprintf(last->text, sizeof last->text, "crashed with signal %d (%s)", last->signal,
                 strsignal(last->signal));
        break;
    case GW_LIFE_MACHINE:
        snprintf(
            last->text, sizeof last->text,
            "ended with its machine, which has been started anew since: a restart, a crash of its kernel, "
            "or a loss of power");
        break;
    case GW_LIFE_MEMORY:
        snprintf(last->text, sizeof last->text,
                 "was killed without a word, and the kernel has killed a process for lack of memory since it "
                 "began: most likely this one");
        break;
    case GW_LIFE_KILLED:
        snprintf(last->text, sizeof last->text,
                 "was killed without a word (SIGKILL): by a supervisor, a scheduler or a person");
        break;
    }
}

void gw_life_find_last(const char *dir, const gw_life *now, gw_last_life *last) {
    enum { LAST_BYTES = 1 << 20 }; /* the start of a long life may be further back */
    trace found = {0};
    gw_err ignored;
    gw_journal_read_last(dir, LAST_BYTES, follow, &found, &ignored);
    if (!found.any) gw_journal_read(dir, follow, &found, NULL, &ignored);
    found.life.end = end_of(&found, now);
    *last = found.life;
    describe(last, found.words);
}

const char *gw_life_end_name(gw_life_end end) {
    static const char *const names[] = {
        [GW_LIFE_NONE] = "none",       [GW_LIFE_ENDED] = "ended",     [GW_LIFE_GAVE_UP] = "gave-up",
        [GW_LIFE_CRASHED] = "crashed", [GW_LIFE_MACHINE] = "machine", [GW_LIFE_MEMORY] = "memory",
        [GW_LIFE_KILLED] = "killed"};
    return names[end];
}
