/* Assertions of invariants. They stay on in release builds, because a peer whose invariant is broken must not
 * go on computing. GW_ASSERT is for broken invariants of this program only. Bad input, faulty peers and disks
 * are errors (core/base/err.h), and so is a failed allocation of something large. GW_ASSERT_MEMORY checks
 * small allocations, without which nothing could go on. */
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
