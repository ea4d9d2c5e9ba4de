#!/bin/sh
# include_rules.sh - fail when an #include crosses a line of include_rules.txt.
set -eu
find common scheduler worker \( -name '*.[ch]' -o -name '*.cu' \) -type f -print | sort |
    xargs awk '
    FNR == NR {
        if ($0 !~ /^#/ && split($0, half, / +: /) == 2) { allow[half[1]] = half[2] }
        next
    }
    /^[ \t]*#[ \t]*include/ {
        name = $0
        sub(/^[ \t]*#[ \t]*include[ \t]*/, "", name)
        split(FILENAME, at, "/")
        from = at[1] "/" at[2]
        if (name ~ /^"/) {
            gsub(/"/, "", name)
            split(name, part, "/")
            dep = part[1] == "proto" ? "proto" : part[1] "/" part[2]
            if (name !~ /\// || name ~ /\.\./) { complain("is not written from the root") }
            else if (index(" " allow[from] " ", " " dep " ") == 0) { complain("crosses a boundary") }
        } else {
            for (lib in allow) {
                if (index(lib, "<") != 1 || index(name, lib) != 1) { continue }
                ok = 0
                n = split(allow[lib], path, " ")
                for (i = 1; i <= n; i++) { if (index(FILENAME, path[i] "/") == 1) { ok = 1 } }
                if (!ok) { complain("is not for this folder") }
            }
        }
    }
    function complain(why) { printf "%s:%d: %s %s\n", FILENAME, FNR, name, why; bad = 1 }
    END { exit bad }
    ' tests/lint/include_rules.txt
