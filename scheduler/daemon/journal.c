/*
 * journal.c - the queue and the thread that writes; see journal.h.
 *
 * One transaction takes all that waits: while one fsync runs the next batch gathers, so
 * that the number of fsyncs follows the disk and not the load.
 */
#include "scheduler/daemon/journal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/check.h"
#include "common/sys/lock.h"
#include "scheduler/daemon/journal_impl.h"

#include "common/base/banned.h"

enum { RETRY_NS = 500000000 };

struct list {
    struct hyd_journal_entry *first;
    struct hyd_journal_entry *last;
};

struct hyd_journal {
    struct hyd_journal_config config;
    struct hyd_lock *lock;
    struct hyd_journal_file file;
    uv_async_t written; /* entries are in `finished` */
    uv_thread_t thread;
    uv_mutex_t mutex;
    uv_cond_t wake;
    /* under the mutex */
    struct list queue;
    struct list finished;
    bool ending;
    struct hyd_journal_stats stats;
};

static void append(struct list *list, struct hyd_journal_entry *entry)
{
    entry->next = NULL;
    if (list->last == NULL) {
        list->first = entry;
    } else {
        list->last->next = entry;
    }
    list->last = entry;
}

static void free_blobs(const struct hyd_alloc *alloc, struct hyd_journal_op *op)
{
    for (int i = 0; i < 3; i++) {
        hyd_alloc_free(alloc, op->blob[i].bytes);
        op->blob[i] = (struct hyd_journal_blob){0};
    }
}

struct hyd_journal_file *hyd_journal_file_of(struct hyd_journal *journal)
{
    return &journal->file;
}

/* ---- the writer ---- */

/* Entries that failed: those that must be written go back to the front of the queue. */
static void sort_failed(struct hyd_journal *journal, struct hyd_journal_entry *entry,
                        hyd_status st)
{
    struct list again = {0};

    while (entry != NULL) {
        struct hyd_journal_entry *next = entry->next;

        if (entry->op.must && !journal->ending) {
            append(&again, entry);
        } else {
            entry->status = st;
            append(&journal->finished, entry);
        }
        entry = next;
    }
    if (again.first != NULL) {
        again.last->next = journal->queue.first;
        journal->queue.first = again.first;
        journal->queue.last =
            journal->queue.last == NULL ? again.last : journal->queue.last;
    }
}

static void note_batch(struct hyd_journal *journal, struct list *batch, hyd_status st,
                       const struct hyd_error *err, double seconds)
{
    struct hyd_journal_stats *stats = &journal->stats;

    stats->failing = st != HYD_OK;
    if (st == HYD_OK) {
        stats->commits++;
        stats->commit_s += seconds;
        for (const struct hyd_journal_entry *e = batch->first; e != NULL; e = e->next) {
            stats->ops++;
            stats->waiting--;
        }
        if (journal->finished.first == NULL) {
            journal->finished = *batch;
        } else {
            journal->finished.last->next = batch->first;
            journal->finished.last = batch->last;
        }
        return;
    }
    stats->failures++;
    memcpy(stats->why, err->text, sizeof stats->why);
    for (const struct hyd_journal_entry *e = batch->first; e != NULL; e = e->next) {
        stats->waiting -= e->op.must && !journal->ending ? 0 : 1;
    }
    sort_failed(journal, batch->first, st);
}

static void write_batch(struct hyd_journal *journal, struct list *batch)
{
    const uint64_t start_ns = uv_hrtime();
    struct hyd_error err = {0};
    const hyd_status st = hyd_journal_write(&journal->file, batch->first, &err);
    const double seconds = (double)(uv_hrtime() - start_ns) * 1e-9;
    uint64_t file_bytes = 0;

    uv_mutex_lock(&journal->mutex);
    note_batch(journal, batch, st, &err, seconds);
    (void)uv_async_send(&journal->written);
    uv_mutex_unlock(&journal->mutex);
    /* Nobody waits for this but what comes next. */
    file_bytes = hyd_journal_shrink(&journal->file);
    uv_mutex_lock(&journal->mutex);
    journal->stats.file_bytes = file_bytes;
    if (st != HYD_OK && !journal->ending) {
        (void)uv_cond_timedwait(&journal->wake, &journal->mutex, RETRY_NS);
    }
    uv_mutex_unlock(&journal->mutex);
}

static void writer(void *arg)
{
    struct hyd_journal *journal = arg;

    for (;;) {
        struct list batch = {0};

        uv_mutex_lock(&journal->mutex);
        while (journal->queue.first == NULL && !journal->ending) {
            uv_cond_wait(&journal->wake, &journal->mutex);
        }
        batch = journal->queue;
        journal->queue = (struct list){0};
        uv_mutex_unlock(&journal->mutex);
        if (batch.first == NULL) {
            return;
        }
        write_batch(journal, &batch);
    }
}

/* ---- the loop's side ---- */

static void tell_finished(struct hyd_journal *journal)
{
    struct hyd_journal_entry *entry = NULL;

    uv_mutex_lock(&journal->mutex);
    entry = journal->finished.first;
    journal->finished = (struct list){0};
    uv_mutex_unlock(&journal->mutex);
    while (entry != NULL) {
        struct hyd_journal_entry *next = entry->next;

        if (entry->op.done != NULL) {
            entry->op.done(entry->op.ctx, entry->status);
        }
        free_blobs(journal->config.alloc, &entry->op);
        hyd_alloc_free(journal->config.alloc, entry);
        entry = next;
    }
}

static void on_written(uv_async_t *async)
{
    tell_finished(async->data);
}

void hyd_journal_put(struct hyd_journal *journal, const struct hyd_alloc *alloc,
                     struct hyd_journal_op *op)
{
    struct hyd_journal_entry *entry =
        journal == NULL ? NULL : hyd_alloc_zeroed(alloc, 1, sizeof *entry);

    if (entry == NULL) {
        free_blobs(alloc, op);
        if (op->done != NULL) {
            op->done(op->ctx, journal == NULL ? HYD_OK : HYD_ERR_NO_MEMORY);
        }
        return;
    }
    entry->op = *op;
    (void)snprintf(entry->job, sizeof entry->job, "%s", op->job == NULL ? "" : op->job);
    entry->op.job = NULL;
    uv_mutex_lock(&journal->mutex);
    append(&journal->queue, entry);
    journal->stats.waiting++;
    uv_cond_signal(&journal->wake);
    uv_mutex_unlock(&journal->mutex);
}

void hyd_journal_stats(struct hyd_journal *journal, struct hyd_journal_stats *ret)
{
    uv_mutex_lock(&journal->mutex);
    *ret = journal->stats;
    uv_mutex_unlock(&journal->mutex);
}

static hyd_status make_folder(const char *folder, struct hyd_error *err)
{
    if (mkdir(folder, 0700) != 0 && errno != EEXIST) {
        return hyd_error_set(err, HYD_ERR_IO, "cannot make the folder %.120s: %s",
                             folder, strerror(errno));
    }
    return HYD_OK;
}

static hyd_status open_file(struct hyd_journal *journal, struct hyd_error *err)
{
    char path[400];
    hyd_status st = make_folder(journal->config.folder, err);

    if (strlen(journal->config.folder) > 300) {
        return hyd_error_set(err, HYD_ERR_INVALID,
                             "the state folder's name is too long");
    }
    (void)snprintf(path, sizeof path, "%s/lock", journal->config.folder);
    if (st == HYD_OK) {
        st = hyd_lock_take(journal->config.alloc, path, &journal->lock, err);
    }
    (void)snprintf(path, sizeof path, "%s/journal.db", journal->config.folder);
    if (st == HYD_OK) {
        st = hyd_journal_file_open(&journal->file, path, err);
    }
    journal->file.max_bytes = journal->config.max_bytes;
    return st;
}

static void on_async_closed(uv_handle_t *handle)
{
    struct hyd_journal *journal = handle->data;

    hyd_alloc_free(journal->config.alloc, journal);
}

hyd_status hyd_journal_open(const struct hyd_journal_config *config,
                            struct hyd_journal **ret_journal, struct hyd_error *err)
{
    struct hyd_journal *journal = hyd_alloc_zeroed(config->alloc, 1, sizeof *journal);
    hyd_status st = HYD_ERR_NO_MEMORY;

    if (journal == NULL) {
        return st;
    }
    journal->config = *config;
    st = open_file(journal, err);
    if (st != HYD_OK || uv_mutex_init(&journal->mutex) != 0) {
        goto fail_file;
    }
    if (uv_cond_init(&journal->wake) != 0) {
        goto fail_mutex;
    }
    if (uv_async_init(config->loop, &journal->written, on_written) != 0) {
        goto fail_cond;
    }
    journal->written.data = journal;
    if (uv_thread_create(&journal->thread, writer, journal) != 0) {
        uv_close((uv_handle_t *)&journal->written, on_async_closed);
        hyd_journal_file_close(&journal->file);
        hyd_lock_free(journal->lock);
        return hyd_error_set(err, HYD_ERR_INTERNAL,
                             "the journal's thread cannot start");
    }
    *ret_journal = journal;
    return HYD_OK;

fail_cond:
    uv_cond_destroy(&journal->wake);
fail_mutex:
    uv_mutex_destroy(&journal->mutex);
fail_file:
    hyd_journal_file_close(&journal->file);
    hyd_lock_free(journal->lock);
    hyd_alloc_free(config->alloc, journal);
    return st == HYD_OK ? HYD_ERR_INTERNAL : st;
}

void hyd_journal_close(struct hyd_journal *journal)
{
    if (journal == NULL) {
        return;
    }
    uv_mutex_lock(&journal->mutex);
    journal->ending = true;
    uv_cond_signal(&journal->wake);
    uv_mutex_unlock(&journal->mutex);
    (void)uv_thread_join(&journal->thread);
    tell_finished(journal);
    hyd_journal_file_close(&journal->file);
    hyd_lock_free(journal->lock);
    uv_cond_destroy(&journal->wake);
    uv_mutex_destroy(&journal->mutex);
    uv_close((uv_handle_t *)&journal->written, on_async_closed);
}
