/*
 * journal.h - what must outlive the process: jobs, steps, plans, in one SQLite file.
 *
 * What     Operations are queued from the loop thread and written by a thread of the
 *          journal's own, all that wait in one transaction; `done` is called on the loop
 *          thread when the transaction is on the disk, in the order of the queue. The
 *          answer that tells of something leaves only then.
 *          A NULL journal takes every operation and calls `done` at once, so that the
 *          daemon also works without one.
 * Errors   open: HYD_ERR_IO        the folder or file cannot be used; the text says what
 *                HYD_ERR_EXISTS    another daemon uses the folder
 *                HYD_ERR_MALFORMED the file is damaged, or no journal of ours
 *                HYD_ERR_UNSUPPORTED a newer daemon wrote it; names both versions
 *          done:  HYD_ERR_IO when it could not be written (disk full). Operations marked
 *                `must` are tried again until they succeed, and everything behind them
 *                waits or fails meanwhile; the others fail and change nothing.
 * Owns     the file, its lock, the thread. Blobs of a queued operation are taken.
 * Threads  loop thread, but for the writer inside.
 * Cost     one fsync a transaction; hyd_journal_stats says what it takes.
 * Source   scheduler/README.md, "Journal".
 */
#ifndef HYD_SCHEDULER_DAEMON_JOURNAL_H
#define HYD_SCHEDULER_DAEMON_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "common/base/alloc.h"
#include "common/base/error.h"

enum { HYD_JOURNAL_VERSION = 2 };

struct hyd_journal; /* opaque */

struct hyd_journal_blob {
    void *bytes; /* of the journal's allocator; NULL: none */
    size_t n_bytes;
};

enum hyd_journal_kind {
    HYD_JOURNAL_FENCE, /* nothing: all before it is on the disk */
    HYD_JOURNAL_PUT_JOB, /* job, a: epoch limit, blob[0]: specification */
    HYD_JOURNAL_CLOSE_JOB, /* job */
    HYD_JOURNAL_DELETE_JOB, /* job and its steps */
    HYD_JOURNAL_SET_EPOCH, /* job, a: epoch limit */
    HYD_JOURNAL_SET_COST, /* job, blob[0]: cost model */
    /* job, step, a: key, b: 1 when nobody runs it (its plan may go before its end),
     * blob[0]: request (NULL: as it was), [1]: info, [2]: plan */
    HYD_JOURNAL_PUT_STEP,
    /* job, step, a: state (hydra.v1.StepState), b: status, blob[0]: info, [1]: report; request goes */
    HYD_JOURNAL_END_STEP,
    HYD_JOURNAL_TRIM_STEP, /* job, step: request, plan and report go */
    HYD_JOURNAL_DELETE_STEP, /* job, step */
};

typedef void hyd_journal_done(void *ctx, hyd_status status);

struct hyd_journal_op {
    enum hyd_journal_kind kind;
    const char *job; /* copied */
    uint64_t step;
    int64_t a;
    int64_t b;
    struct hyd_journal_blob blob[3]; /* taken, also on failure */
    bool must;
    hyd_journal_done *done; /* may be NULL */
    void *ctx;
};

struct hyd_journal_config {
    uv_loop_t *loop;
    const struct hyd_alloc *alloc; /* thread-safe */
    const char *folder; /* made when it is missing */
    /* Of the file. Beyond it the oldest plans and reports of finished steps go, then the
     * steps themselves but for the last of each job; 0: never. */
    uint64_t max_bytes;
};

HYD_MUST_CHECK hyd_status hyd_journal_open(const struct hyd_journal_config *config,
                                           struct hyd_journal **ret_journal,
                                           struct hyd_error *err);

/* Writes what is queued (done is called for it, from here), ends the thread. Run the loop
 * once more before it is closed. NULL is fine. */
void hyd_journal_close(struct hyd_journal *journal);

/* Queue an operation. The blobs and the op's done are handled in every case. */
void hyd_journal_put(struct hyd_journal *journal, const struct hyd_alloc *alloc,
                     struct hyd_journal_op *op);

/* What stands in the file, for a start; before the first put. Rows are lent. */
struct hyd_journal_job {
    const char *name;
    bool open;
    struct hyd_journal_blob spec;
    struct hyd_journal_blob cost;
    uint32_t epoch_limit;
    uint64_t n_done;
    uint64_t n_failed;
};

struct hyd_journal_step {
    uint64_t step;
    uint64_t key;
    int state; /* hydra.v1.StepState: PLANNED, DONE or FAILED */
    int status;
    struct hyd_journal_blob request;
    struct hyd_journal_blob info;
    struct hyd_journal_blob plan;
    struct hyd_journal_blob report;
};

struct hyd_journal_reader {
    /* Jobs in the order of their opening, each followed by its steps, ascending. */
    hyd_status (*on_job)(void *ctx, const struct hyd_journal_job *job,
                         struct hyd_error *err);
    hyd_status (*on_step)(void *ctx, const struct hyd_journal_step *step,
                          struct hyd_error *err);
    void *ctx;
};

HYD_MUST_CHECK hyd_status hyd_journal_read(struct hyd_journal *journal,
                                           const struct hyd_journal_reader *reader,
                                           struct hyd_error *err);

struct hyd_journal_stats {
    uint64_t ops;
    uint64_t commits;
    uint64_t failures; /* of transactions */
    uint64_t waiting; /* operations */
    uint64_t file_bytes;
    double commit_s; /* all commits together */
    bool failing; /* the last transaction could not be written */
    char why[HYD_ERROR_TEXT_BYTES]; /* then */
};

void hyd_journal_stats(struct hyd_journal *journal, struct hyd_journal_stats *ret);

#endif
