/* How often this member was lost to the others (core/flock/losses.h). The file `lost` in its directory has a line for each
 * time, in seconds since 1970; it is there while a member runs or has ended other than in order. */
#include "core/base/assert.h"
#include "core/base/log.h"
#include "core/os/clock.h"
#include "core/os/durable.h"
#include "tools/godwit/flock/inside.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAME     "lost"
#define STILL_NS (10 * GW_SECOND_NS) /* the others take a member for dead that stands still for so long */

static bool path_of(const gw_flock_member *m, char path[GW_PATH_BYTES], gw_err *err) {
    return gw_durable_path(path, err, "%s/" NAME, m->directory.path);
}

static void write_losses(gw_flock_member *m) {
    char path[GW_PATH_BYTES], temporary[GW_PATH_BYTES + 8], text[24 * GW_LOSSES_MOST + 1] = "";
    size_t length = 0;
    gw_err err;
    for (uint32_t i = 0; i < m->losses.count; i++)
        length += (size_t)snprintf(text + length, sizeof text - length, "%llu\n",
                                   (unsigned long long)m->losses.at_s[i]);
    if (!path_of(m, path, &err)) return;
    snprintf(temporary, sizeof temporary, "%s.new", path);
    if (!gw_durable_replace(gw_io_system(), temporary, m->directory.path, path, text, length, &err))
        gw_member_warn(m, "%s", err.text);
}

static void note_loss(gw_flock_member *m, const char *how) {
    gw_losses_add(&m->losses, gw_wall_ns() / GW_SECOND_NS);
    write_losses(m);
    uint64_t wait_s = gw_losses_wait_s(&m->losses), until_ns = gw_now_ns() + wait_s * GW_SECOND_NS;
    if (wait_s == 0 || until_ns <= m->doubtful_until_ns) return;
    m->doubtful_until_ns = until_ns;
    gw_log(
        GW_WARN, "flock",
        "%s, and was lost to the others %u times within an hour: while others take jobs, it takes none for "
        "%llu s, or until 'godwit drain --undo' names it",
        how, m->losses.count, (unsigned long long)wait_s);
    gw_member_decide_soon(m);
}

void gw_member_lost_open(gw_flock_member *m) {
    char path[GW_PATH_BYTES], line[32];
    gw_err err;
    FILE *file = path_of(m, path, &err) ? fopen(path, "re") : NULL;
    bool ran = file != NULL;
    while (ran && fgets(line, sizeof line, file) != NULL) {
        uint64_t at_s = strtoull(line, NULL, 10);
        if (at_s > 0) gw_losses_add(&m->losses, at_s);
    }
    if (ran) fclose(file);
    m->beat_ns = gw_now_ns();
    if (ran)
        note_loss(m, "this member starts again");
    else
        write_losses(m);
}

void gw_member_lost_beat(gw_flock_member *m) {
    uint64_t now = gw_now_ns(), before = m->beat_ns;
    m->beat_ns = now;
    if (now > before + STILL_NS) note_loss(m, "this member has stood still");
}

void gw_member_lost_look(gw_flock_member *m) {
    uint32_t returns = gw_decider_returns(m->decider);
    if (returns == m->returns) return;
    m->returns = returns;
    note_loss(m, "this member has come back to the larger side of the flock");
}

void gw_member_lost_forget(gw_flock_member *m) {
    m->losses.count = 0;
    write_losses(m);
}

void gw_member_lost_left(gw_flock_member *m) {
    char path[GW_PATH_BYTES];
    gw_err err;
    if (path_of(m, path, &err) && unlink(path) != 0 && errno != ENOENT)
        gw_log(GW_WARN, "flock", "%s cannot be removed: %s", path, strerror(errno));
}
