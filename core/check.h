/* Invariants. GW_CHECK stays on in release builds: a peer whose invariant is broken must not go on computing.
 * It is for broken invariants of our own code only; bad input, peers and disks are errors (core/err.h). */
#ifndef GODWIT_CORE_CHECK_H
#define GODWIT_CORE_CHECK_H

#define GW_CHECK(condition)                                                                                  \
    ((condition) ? (void)0 : gw_check_failed(#condition, __FILE__, __LINE__, __func__))

/* Prints the broken invariant to stderr, or that memory has run out where errno says so, and aborts. Any
 * thread. */
_Noreturn void gw_check_failed(const char *condition, const char *file, int line, const char *function);

#endif
