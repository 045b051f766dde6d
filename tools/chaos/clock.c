/* A library that is preloaded into a process to make its wall clock wrong, by as many seconds as a file
 * says at that moment. The file, named by GODWIT_CHAOS_CLOCK, holds one int64 in this machine's byte
 * order. Clocks that only go forward (CLOCK_MONOTONIC and the like) stay right, as they do when a real
 * wall clock is set. Without the file nothing changes. */
#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* NULL until the file is mapped: until then the clock is right. */
static const _Atomic int64_t *wrong_by_s;

__attribute__((constructor)) static void map_file(void) {
    const char *path = getenv("GODWIT_CHAOS_CLOCK");
    int fd = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    void *at = mmap(NULL, sizeof *wrong_by_s, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    if (at != MAP_FAILED) wrong_by_s = at;
}

static time_t wrong_by(void) {
    return wrong_by_s == NULL ? 0 : (time_t)atomic_load(wrong_by_s);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    if (syscall(SYS_clock_gettime, clock, now) != 0) return -1;
    if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_TAI)
        now->tv_sec += wrong_by();
    return 0;
}

/* <sys/time.h> declares the zone as nonnull, but all programs call the function with NULL. */
int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    (void)zone;
    struct timespec exact;
    if (clock_gettime(CLOCK_REALTIME, &exact) != 0) return -1;
    *now = (struct timeval){.tv_sec = exact.tv_sec, .tv_usec = exact.tv_nsec / 1000};
    return 0;
}

time_t time(time_t *result) {
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0) return (time_t)-1;
    if (result != NULL) *result = now.tv_sec;
    return now.tv_sec;
}
