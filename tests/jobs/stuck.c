/* Preloaded into a peer: a thread gets stuck in a call. STUCK="CALL THREAD N": the thread of that name (main:
 * the first one of the process) does not return from its N-th CALL, which is epoll_wait, fdatasync,
 * mmap, opendir, read or sendmsg. STUCK2: another one. */
#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

static bool is_the_thread(const char *name) {
    char own[16] = "";
    if (strcmp(name, "main") == 0) return gettid() == getpid();
    return pthread_getname_np(pthread_self(), own, sizeof own) == 0 && strcmp(own, name) == 0;
}

/* Does not return from the one that `variable` names. */
static void pass_one(const char *call, const char *variable, atomic_long *passed) {
    const char *named = getenv(variable);
    char its[16], thread[16];
    long at;
    if (named == NULL || sscanf(named, "%15s %15s %ld", its, thread, &at) != 3) return;
    if (strcmp(its, call) != 0 || !is_the_thread(thread) || atomic_fetch_add(passed, 1) + 1 != at) return;
    for (;;) pause();
}

static void pass(const char *call) {
    static atomic_long passed[2];
    pass_one(call, "STUCK", &passed[0]);
    pass_one(call, "STUCK2", &passed[1]);
}

int epoll_wait(int fd, struct epoll_event *events, int count, int timeout) {
    int (*real)(int, struct epoll_event *, int, int) =
        (int (*)(int, struct epoll_event *, int, int))dlsym(RTLD_NEXT, "epoll_wait");
    pass("epoll_wait");
    return real(fd, events, count, timeout);
}

int fdatasync(int fd) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    pass("fdatasync");
    return real(fd);
}

void *mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset) {
    void *(*real)(void *, size_t, int, int, int, off_t) =
        (void *(*)(void *, size_t, int, int, int, off_t))dlsym(RTLD_NEXT, "mmap");
    pass("mmap");
    return real(at, bytes, protection, flags, fd, offset);
}

DIR *opendir(const char *path) {
    DIR *(*real)(const char *) = (DIR * (*)(const char *)) dlsym(RTLD_NEXT, "opendir");
    pass("opendir");
    return real(path);
}

ssize_t read(int fd, void *bytes, size_t count) {
    ssize_t (*real)(int, void *, size_t) = (ssize_t(*)(int, void *, size_t))dlsym(RTLD_NEXT, "read");
    pass("read");
    return real(fd, bytes, count);
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags) {
    ssize_t (*real)(int, const struct msghdr *, int) =
        (ssize_t(*)(int, const struct msghdr *, int))dlsym(RTLD_NEXT, "sendmsg");
    pass("sendmsg");
    return real(fd, message, flags);
}
