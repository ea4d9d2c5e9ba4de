/*
 * check.h - assertions about our own mistakes.
 *
 * What     hyd_assert stays on in release builds: a broken invariant ends the process
 *          before it can spread. hyd_debug_assert is for checks too dear for a hot path.
 *          Data from outside is never asserted; it gets a status.
 * Threads  reentrant.
 */
#ifndef HYD_COMMON_BASE_CHECK_H
#define HYD_COMMON_BASE_CHECK_H

/* Ends the process with an illegal-instruction trap after leaving the place in
 * hyd_check_failed_at for a debugger or core dump: no I/O, so that pure libraries may
 * use it. */
_Noreturn void hyd_check_fail(const char *where);

extern const char *volatile hyd_check_failed_at;

#define HYD_CHECK_TEXT2(x) #x
#define HYD_CHECK_TEXT(x) HYD_CHECK_TEXT2(x)
#define hyd_assert(condition) \
    ((condition)              \
         ? (void)0            \
         : hyd_check_fail(__FILE__ ":" HYD_CHECK_TEXT(__LINE__) ": " #condition))

#ifdef NDEBUG
#define hyd_debug_assert(condition) ((void)sizeof(condition))
#else
#define hyd_debug_assert(condition) hyd_assert(condition)
#endif

#endif
