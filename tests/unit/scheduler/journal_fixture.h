/*
 * journal_fixture.h - a journal in a folder of its own, and what was told of it.
 *
 * What     Operations get a name; those that are done are listed in `told`.
 * Owns     the folder, the loop, the journal; released by journal_rig_release.
 * Threads  one thread.
 */
#ifndef HYD_TESTS_UNIT_SCHEDULER_JOURNAL_FIXTURE_H
#define HYD_TESTS_UNIT_SCHEDULER_JOURNAL_FIXTURE_H

#include "scheduler/daemon/journal.h"

struct journal_rig {
    char folder[64];
    char file[96];
    uv_loop_t loop;
    struct hyd_journal *journal;
    struct hyd_error err;
    hyd_status st; /* of opening */
    char told[256]; /* names of what is done, in order */
    uint32_t n_done;
    hyd_status last;
    char read[1024]; /* what stands in the file */
    uint64_t max_bytes;
};

void journal_rig_init(struct journal_rig *rig);
void journal_rig_release(struct journal_rig *rig);

/* rig->st and rig->err say how it went. */
void journal_rig_open(struct journal_rig *rig);
void journal_rig_close(struct journal_rig *rig);

struct hyd_journal_blob journal_rig_blob(const char *text);
void journal_rig_put(struct journal_rig *rig, struct hyd_journal_op op,
                     const char *name);
void journal_rig_put_job(struct journal_rig *rig, const char *name);
void journal_rig_put_step(struct journal_rig *rig, const char *job, uint64_t step,
                          const char *name);

/* Until so many operations are done, in all. */
void journal_rig_wait(struct journal_rig *rig, uint32_t n_done);

/* What stands in the file, in words; the journal is open and nothing was put yet. */
const char *journal_rig_read(struct journal_rig *rig);

/* Statements on the closed file. */
void journal_rig_sql(const struct journal_rig *rig, const char *sql);

#endif
