/* emu_traffic.c - what warps ask of memory, counted; see emu.h.
 *
 * Lanes run one after the other, so an instruction of a warp has to be put together again:
 * accesses of the same place in the code, the n-th of each lane since the warp last met,
 * are one. */
#include <stdlib.h>

#include "tests/emu/emu.h"
#include "tests/emu/emu_impl.h"

enum { BANKS = 32, SECTOR_BYTES = 32, SHARED_PASS_BYTES = 128 };

struct access {
    const void *site; /* where the code called the word */
    uintptr_t at;
    unsigned bytes;
    bool shared;
    unsigned lane;
    unsigned nth; /* of its lane and site */
    size_t order;
};

struct log {
    struct access *access;
    size_t n, room;
};

static struct log logs[EMU_MAX_THREADS / EMU_WARP];
static struct emu_traffic *counting;

void emu_count(struct emu_traffic *traffic)
{
    counting = traffic;
}

void emu_traffic_product(void)
{
    if (counting != NULL) {
        counting->products++;
    }
}

void emu_traffic_note(const void *site, const void *at, size_t bytes, bool shared)
{
    struct log *log = &logs[emu_thread() / EMU_WARP];

    if (counting == NULL) {
        return;
    }
    if (log->n == log->room) {
        log->room = log->room == 0 ? 4096 : 2 * log->room;
        log->access = realloc(log->access, log->room * sizeof *log->access);
        if (log->access == NULL) {
            abort();
        }
    }
    log->access[log->n] = (struct access){.site = site,
                                          .at = (uintptr_t)at,
                                          .bytes = (unsigned)bytes,
                                          .shared = shared,
                                          .lane = emu_thread() % EMU_WARP,
                                          .order = log->n};
    log->n++;
}

static int compare(uintptr_t a, uintptr_t b)
{
    return a < b ? -1 : a > b;
}

static int by_lane(const void *a, const void *b)
{
    const struct access *x = a, *y = b;
    int c = compare((uintptr_t)x->site, (uintptr_t)y->site);

    c = c != 0 ? c : compare(x->lane, y->lane);
    return c != 0 ? c : compare(x->order, y->order);
}

static int by_instruction(const void *a, const void *b)
{
    const struct access *x = a, *y = b;
    int c = compare((uintptr_t)x->site, (uintptr_t)y->site);

    c = c != 0 ? c : compare(x->nth, y->nth);
    return c != 0 ? c : compare(x->lane, y->lane);
}

/* Passes over the banks that some lanes' words need: the most different words that any
 * bank is asked for. */
static unsigned count_passes(const struct access *a, size_t n)
{
    uintptr_t word[BANKS][EMU_WARP];
    unsigned n_words[BANKS] = {0};
    unsigned most = 0;

    for (size_t i = 0; i < n; i++) {
        for (unsigned j = 0; j < a[i].bytes; j += 4) {
            const uintptr_t at = (a[i].at + j) / 4;
            const unsigned bank = (unsigned)(at % BANKS);
            unsigned k = 0;

            while (k < n_words[bank] && word[bank][k] != at) {
                k++;
            }
            word[bank][k] = at;
            n_words[bank] += k == n_words[bank];
            most = n_words[bank] > most ? n_words[bank] : most;
        }
    }
    return most;
}

/* The hardware takes as many lanes at a time as 128 bytes hold. */
static void count_shared(const struct access *a, size_t n)
{
    const unsigned lanes = SHARED_PASS_BYTES / a[0].bytes;
    size_t i = 0;

    while (i < n) {
        const unsigned part = a[i].lane / lanes;
        size_t end = i;

        while (end < n && a[end].lane / lanes == part) {
            end++;
        }
        counting->passes += count_passes(a + i, end - i);
        counting->least_passes++;
        i = end;
    }
}

static void count_global(const struct access *a, size_t n)
{
    size_t n_bytes = 0;

    for (size_t i = 0; i < n; i++) {
        bool same_sector = false, same_place = false;

        for (size_t j = 0; j < i; j++) {
            same_sector |= a[j].at / SECTOR_BYTES == a[i].at / SECTOR_BYTES;
            same_place |= a[j].at == a[i].at;
        }
        counting->sectors += !same_sector;
        n_bytes += same_place ? 0 : a[i].bytes;
    }
    counting->least_sectors += (n_bytes + SECTOR_BYTES - 1) / SECTOR_BYTES;
}

void emu_traffic_flush(unsigned warp)
{
    struct log *log = &logs[warp];
    struct access *a = log->access;

    if (counting == NULL || log->n == 0) {
        return;
    }
    qsort(a, log->n, sizeof *a, by_lane);
    for (size_t i = 1; i < log->n; i++) {
        const bool again = a[i].site == a[i - 1].site && a[i].lane == a[i - 1].lane;

        a[i].nth = again ? a[i - 1].nth + 1 : 0;
    }
    qsort(a, log->n, sizeof *a, by_instruction);
    for (size_t i = 0, end; i < log->n; i = end) {
        for (end = i;
             end < log->n && a[end].site == a[i].site && a[end].nth == a[i].nth;
             end++) {
        }
        if (a[i].shared) {
            count_shared(a + i, end - i);
        } else {
            count_global(a + i, end - i);
        }
    }
    log->n = 0;
}
