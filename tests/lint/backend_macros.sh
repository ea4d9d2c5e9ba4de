#!/bin/sh
# backend_macros.sh - HYD_WITH_* may be asked about in the two tables and nowhere else.
set -eu
! grep -rnE '#[[:space:]]*(if|elif|ifdef|ifndef).*HYD_WITH_' common scheduler worker tests \
    --include='*.[ch]' --include='*.cu' |
    grep -vE '^worker/(compute/compute_table|transport/transport_table)\.c:'
