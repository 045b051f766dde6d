#include "tools/godwit/map/progress.h"

#include "core/os/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { BAR_MOST = 60, TEXT_BYTES = 160 };

gw_map_progress gw_map_progress_begin(bool wanted) {
    const char *kind = getenv("TERM");
    bool shown = wanted && isatty(STDERR_FILENO) == 1 && kind != NULL && strcmp(kind, "dumb") != 0;
    return (gw_map_progress){.fd = shown ? STDERR_FILENO : -1, .begun_ns = gw_now_ns()};
}

/* A time in few letters: "59 s", "3 m 20 s", "2 h 5 m", "4 d 1 h". */
static void write_time(uint64_t seconds, char text[32]) {
    if (seconds < 60)
        snprintf(text, 32, "%llu s", (unsigned long long)seconds);
    else if (seconds < 3600)
        snprintf(text, 32, "%llu m %llu s", (unsigned long long)(seconds / 60),
                 (unsigned long long)(seconds % 60));
    else if (seconds < 86400)
        snprintf(text, 32, "%llu h %llu m", (unsigned long long)(seconds / 3600),
                 (unsigned long long)(seconds / 60 % 60));
    else
        snprintf(text, 32, "%llu d %llu h", (unsigned long long)(seconds / 86400),
                 (unsigned long long)(seconds / 3600 % 24));
}

void gw_map_progress_text(const gw_map_counts *c, uint64_t elapsed_ns, uint32_t columns,
                          char text[GW_MAP_PROGRESS_TEXT]) {
    char part[TEXT_BYTES], failed[40] = "", time[32], bar[BAR_MOST + 3] = "";
    double seconds = (double)elapsed_ns * 1e-9;
    if (c->failed > 0) snprintf(failed, sizeof failed, ", %llu failed", (unsigned long long)c->failed);
    if (c->total == 0) {
        write_time((uint64_t)seconds, time);
        snprintf(part, sizeof part, "%llu done%s, %llu running, %s", (unsigned long long)c->done, failed,
                 (unsigned long long)c->running, time);
    } else {
        double share = (double)c->done / (double)c->total;
        if (c->done > 0)
            write_time((uint64_t)(seconds * (1 - share) / share + 0.5), time);
        else
            strcpy(time, "?");
        snprintf(part, sizeof part, "%3.0f %%  %llu of %llu%s, %s left", 100 * share,
                 (unsigned long long)c->done, (unsigned long long)c->total, failed, time);
        size_t length = strlen(part);
        uint32_t width = columns > length + 6 ? columns - (uint32_t)length - 5 : 0;
        if (width > BAR_MOST) width = BAR_MOST;
        if (width > 0) {
            uint32_t filled = (uint32_t)(share * width);
            bar[0] = '[';
            memset(bar + 1, '#', filled);
            memset(bar + 1 + filled, ' ', width - filled);
            bar[width + 1] = ']';
        }
    }
    snprintf(text, GW_MAP_PROGRESS_TEXT, "%s%s%s", bar, bar[0] != '\0' ? " " : "", part);
    if (strlen(text) >= columns && columns > 0) text[columns - 1] = '\0';
}

static uint32_t columns_of(int fd) {
    struct winsize size;
    return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

void gw_map_progress_draw(gw_map_progress *p, const gw_map_counts *counts, bool now) {
    char text[GW_MAP_PROGRESS_TEXT], line[GW_MAP_PROGRESS_TEXT + 8];
    uint64_t time = gw_now_ns();
    if (p->fd < 0 || (!now && p->shown && time - p->drawn_ns < GW_MAP_PROGRESS_NS)) return;
    gw_map_progress_text(counts, time - p->begun_ns, columns_of(p->fd), text);
    int length = snprintf(line, sizeof line, "\r%s\033[K", text);
    (void)!write(p->fd, line, (size_t)length);
    p->shown = true;
    p->drawn_ns = time;
}

void gw_map_progress_hide(gw_map_progress *p) {
    static const char clear[] = "\r\033[K";
    if (p->fd < 0 || !p->shown) return;
    (void)!write(p->fd, clear, sizeof clear - 1);
    p->shown = false;
}
