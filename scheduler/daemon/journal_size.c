/* journal_size.c - the journal's file stays within its bytes; see journal.h. */
#include "scheduler/daemon/journal_impl.h"

#include "common/base/banned.h"

enum {
    ROUNDS = 16, /* a call */
    SPARE_PAGES = 1024, /* free ones that may stay in the file */
};

/* Rows a round, and pages given back a call: the next operation waits for it. */
#define SHRINK_ROWS "256"
#define VACUUM_PAGES "4096"

struct pages {
    int64_t used;
    int64_t unused;
    uint64_t used_bytes;
};

/* All zero when they cannot be read. */
static struct pages read_pages(struct hyd_journal_file *file)
{
    int64_t all = 0;
    int64_t unused = 0;
    int64_t page_bytes = 0;

    if (hyd_journal_number(file, "PRAGMA page_count", &all, NULL) != HYD_OK ||
        hyd_journal_number(file, "PRAGMA freelist_count", &unused, NULL) != HYD_OK ||
        hyd_journal_number(file, "PRAGMA page_size", &page_bytes, NULL) != HYD_OK) {
        return (struct pages){0};
    }
    return (struct pages){.used = all - unused,
                          .unused = unused,
                          .used_bytes = (uint64_t)((all - unused) * page_bytes)};
}

/* One round: the oldest rows that are over lose what is large; when none has anything
 * large, the oldest go, but for the last of each job: it says which numbers are used up.
 * Returns how many rows changed, or -1 when it could not be written. */
static int shrink_once(struct hyd_journal_file *file)
{
    static const char *const text[] = {
        HYD_JOURNAL_TRIM "WHERE (state IN (4, 5) OR idle) AND " HYD_JOURNAL_LARGE
                         " ORDER BY rowid LIMIT " SHRINK_ROWS,
        "DELETE FROM step WHERE rowid IN (SELECT s.rowid FROM step s WHERE s.state IN "
        "(4, 5) AND EXISTS (SELECT 1 FROM step t WHERE t.job = s.job AND "
        "t.step > s.step) ORDER BY s.rowid LIMIT " SHRINK_ROWS ")",
    };

    int n = 0;

    for (int i = 0; i < 2 && n == 0; i++) {
        n = sqlite3_exec(file->db, text[i], NULL, NULL, NULL) == SQLITE_OK
                ? sqlite3_changes(file->db)
                : -1;
    }
    return n;
}

uint64_t hyd_journal_shrink(struct hyd_journal_file *file)
{
    struct pages pages = read_pages(file);
    const uint64_t before_bytes = pages.used_bytes;

    if (file->max_bytes != 0 && pages.used_bytes > file->max_bytes &&
        pages.used_bytes > file->stuck_bytes) {
        int n = 1;

        for (int i = 0; i < ROUNDS && n > 0 && pages.used_bytes > file->max_bytes;
             i++) {
            n = shrink_once(file);
            pages = read_pages(file);
        }
        /* What is left is needed: a look at every row is not worth it each time. */
        file->stuck_bytes = n == 0 ? pages.used_bytes + pages.used_bytes / 16 : 0;
    }
    if (pages.used_bytes < before_bytes ||
        pages.unused > SPARE_PAGES + pages.used / 4) {
        (void)sqlite3_exec(file->db, "PRAGMA incremental_vacuum(" VACUUM_PAGES ")",
                           NULL, NULL, NULL);
    }
    return pages.used_bytes;
}
