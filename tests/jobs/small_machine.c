/* Preloaded into a peer: its machine has 64 MiB of memory. */
#include <dlfcn.h>
#include <unistd.h>

long sysconf(int name) {
    long (*real)(int) = (long (*)(int))dlsym(RTLD_NEXT, "sysconf");
    return name == _SC_PHYS_PAGES ? (64L << 20) / real(_SC_PAGESIZE) : real(name);
}
