/* check.c - see check.h. */
#include "common/base/check.h"

const char *volatile hyd_check_failed_at;

void hyd_check_fail(const char *where)
{
    hyd_check_failed_at = where;
    __builtin_trap();
}
