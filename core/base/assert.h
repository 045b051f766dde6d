/* Invariants. GW_ASSERT stays on in release builds: a peer whose invariant is broken must not go on
 * computing. It is for broken invariants of our own code only; bad input, peers and disks are errors
 * (core/base/err.h). So is a lack of memory for what is large; small things that nothing can go on without
 * are checked to be there by GW_ASSERT_MEMORY. */
#ifndef GODWIT_CORE_BASE_ASSERT_H
#define GODWIT_CORE_BASE_ASSERT_H

#define GW_ASSERT(condition)                                                                                 \
    ((condition) ? (void)0 : gw_assert_failed(#condition, __FILE__, __LINE__, __func__))
#define GW_ASSERT_MEMORY(condition)                                                                          \
    ((condition) ? (void)0 : gw_assert_memory_failed(#condition, __FILE__, __LINE__, __func__))

/* Print the broken invariant, or that memory has run out, to stderr, and abort. Any thread. */
_Noreturn void gw_assert_failed(const char *condition, const char *file, int line, const char *function);
_Noreturn void gw_assert_memory_failed(const char *condition, const char *file, int line,
                                       const char *function);

#endif
