#include "address_space.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

void leave_address_space(uint64_t bytes) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    cr_skip_test("a sanitizer takes more address space than any limit leaves");
#endif
    unsigned long long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    cr_assert(file != NULL && fscanf(file, "%llu", &pages) == 1);
    fclose(file);
    struct rlimit limit;
    cr_assert_eq(getrlimit(RLIMIT_AS, &limit), 0);
    limit.rlim_cur = pages * (rlim_t)sysconf(_SC_PAGESIZE) + bytes;
    cr_assert_eq(setrlimit(RLIMIT_AS, &limit), 0);
}
