/* emu_memory.c - who may touch which memory when: ranges, races, copies in flight; see
 * emu.h. */
#include <stdlib.h>
#include <string.h>

#include "tests/emu/emu.h"
#include "tests/emu/emu_impl.h"

enum {
    MAX_RANGES = 32,
    MAX_PENDING = 4096,
    MAX_SHARED = 232448,
    NOBODY = -1,
    MANY = -2
};

/* Memory of the device that a kernel may touch. */
struct range {
    unsigned char *at;
    size_t bytes;
    bool writable;
    uint32_t *writer; /* [bytes / 4] 1 + global thread number; 0: nobody */
    bool *closed; /* [bytes / 4] */
};

/* One word of shared memory: who touched it since the last barrier. */
struct word {
    unsigned write_epoch, read_epoch;
    int writer, reader;
    bool in_flight;
};

struct copy {
    unsigned char *to;
    const unsigned char *from; /* NULL: zeros */
    size_t bytes;
    unsigned thread;
    unsigned group; /* of its thread */
};

static struct {
    struct range range[MAX_RANGES];
    size_t n_ranges;
    unsigned char *shared; /* 16-byte aligned */
    size_t shared_bytes;
    struct word word[MAX_SHARED / 4];
    struct copy copy[MAX_PENDING];
    size_t n_copies;
    unsigned group[EMU_MAX_THREADS]; /* committed so far */
    uint32_t n_blocks; /* so far in this launch */
} memory;

void emu_forget(void)
{
    for (size_t i = 0; i < memory.n_ranges; i++) {
        free(memory.range[i].writer);
        free(memory.range[i].closed);
    }
    memory.n_ranges = 0;
}

static void declare(void *at, size_t bytes, bool writable)
{
    struct range *r = &memory.range[memory.n_ranges++];

    if (memory.n_ranges > MAX_RANGES) {
        abort();
    }
    *r = (struct range){.at = at, .bytes = bytes, .writable = writable};
    r->writer = calloc(bytes / 4 + 1, sizeof *r->writer);
    r->closed = calloc(bytes / 4 + 1, sizeof *r->closed);
    if (r->writer == NULL || r->closed == NULL) {
        abort();
    }
}

void emu_may_read(const void *at, size_t bytes)
{
    declare((void *)(uintptr_t)at, bytes, false);
}

void emu_may_write(void *at, size_t bytes)
{
    declare(at, bytes, true);
}

static void set_closed(const void *at, size_t bytes, bool closed)
{
    const uintptr_t begin = (uintptr_t)at;

    for (size_t i = 0; i < memory.n_ranges; i++) {
        struct range *r = &memory.range[i];
        const uintptr_t base = (uintptr_t)r->at;

        if (begin >= base && begin + bytes <= base + r->bytes) {
            memset(r->closed + (begin - base) / 4, closed, bytes / 4);
        }
    }
}

void emu_forbid(const void *at, size_t bytes)
{
    set_closed(at, bytes, true);
}

void emu_permit(const void *at, size_t bytes)
{
    set_closed(at, bytes, false);
}

void emu_memory_launch(void)
{
    memory.n_blocks = 0;
    for (size_t i = 0; i < memory.n_ranges; i++) {
        memset(memory.range[i].writer, 0,
               (memory.range[i].bytes / 4 + 1) * sizeof *memory.range[i].writer);
    }
}

void emu_memory_begin(size_t shared_bytes)
{
    static const uint16_t poison = 0x7fff; /* NaN as bf16, and in pairs as fp32 */

    if (memory.shared == NULL) {
        memory.shared = aligned_alloc(128, (size_t)(MAX_SHARED + 127) / 128 * 128);
    }
    if (memory.shared == NULL || shared_bytes > MAX_SHARED) {
        abort();
    }
    memory.shared_bytes = shared_bytes;
    for (size_t i = 0; i + 2 <= shared_bytes; i += 2) {
        memcpy(memory.shared + i, &poison, 2);
    }
    memset(memory.word, 0, shared_bytes / 4 * sizeof *memory.word);
    memset(memory.group, 0, sizeof memory.group);
    memory.n_copies = 0;
    memory.n_blocks++;
}

void emu_memory_end(void)
{
    /* Copies that nobody waited for are harmless when nobody reads them; none is left
     * over in our kernels but empty groups. */
    memory.n_copies = 0;
}

static struct range *find_range(const void *at, size_t bytes, bool write)
{
    const uintptr_t begin = (uintptr_t)at;

    if (begin % bytes != 0) {
        emu_fail("access of %zu bytes at an odd address", bytes);
    }
    for (size_t i = 0; i < memory.n_ranges; i++) {
        struct range *r = &memory.range[i];

        if (begin >= (uintptr_t)r->at && begin + bytes <= (uintptr_t)r->at + r->bytes) {
            if (write && !r->writable) {
                emu_fail("write to memory that is only read");
            }
            return r;
        }
    }
    emu_fail("%s of %zu bytes outside all memory of the test", write ? "write" : "read",
             bytes);
}

/* 1 + number of the thread in the launch. */
static uint32_t global_thread(void)
{
    return memory.n_blocks * EMU_MAX_THREADS + emu_thread() + 1;
}

static void check_global(const void *at, size_t bytes, bool write)
{
    struct range *r = find_range(at, bytes, write);
    const size_t first = ((uintptr_t)at - (uintptr_t)r->at) / 4;

    for (size_t i = first; i < first + (bytes + 3) / 4; i++) {
        if (r->closed[i]) {
            emu_fail("%s of a row that no unit names", write ? "write" : "read");
        }
        if (bytes >= 4 && r->writer[i] != 0 && r->writer[i] != global_thread()) {
            emu_fail("%s of a global word that another thread of the launch wrote",
                     write ? "write" : "read");
        }
        if (write) {
            r->writer[i] = global_thread();
        }
    }
}

static struct word *check_shared(const void *at, size_t bytes)
{
    const uintptr_t begin = (uintptr_t)at, base = (uintptr_t)memory.shared;

    if (begin % bytes != 0) {
        emu_fail("access of %zu bytes of shared memory at an odd address", bytes);
    }
    if (begin < base || begin + bytes > base + memory.shared_bytes) {
        emu_fail("access outside shared memory");
    }
    return &memory.word[(begin - base) / 4];
}

static void touch_shared(const void *at, size_t bytes, bool write)
{
    struct word *w = check_shared(at, bytes);
    const int self = (int)emu_thread();
    /* Epochs count from 1, so that 0 means never. */
    const unsigned epoch = emu_epoch() + 1;

    for (size_t i = 0; i < bytes / 4; i++, w++) {
        if (w->in_flight) {
            emu_fail("%s of shared memory while a copy to it is in flight",
                     write ? "write" : "read");
        }
        if (w->write_epoch == epoch && w->writer != self) {
            emu_fail("shared memory: thread %d wrote, no barrier since", w->writer);
        }
        if (write && w->read_epoch == epoch && w->reader != self) {
            emu_fail("shared memory: others read, no barrier since, now a write");
        }
        if (write) {
            w->write_epoch = epoch;
            w->writer = self;
        } else if (w->read_epoch != epoch) {
            w->read_epoch = epoch;
            w->reader = self;
        } else if (w->reader != self) {
            w->reader = MANY;
        }
    }
}

void emu_touch_global(const void *site, const void *at, size_t bytes, bool write)
{
    check_global(at, bytes, write);
    emu_traffic_note((const char *)site + write, at, bytes, false);
}

void emu_touch_shared(const void *site, const void *at, size_t bytes, bool write)
{
    touch_shared(at, bytes, write);
    emu_traffic_note((const char *)site + 2, at, bytes, true);
}

unsigned char *emu_shared(void)
{
    return memory.shared;
}

void emu_copy_later(const void *site, void *shared, const void *global, size_t bytes,
                    bool valid)
{
    struct word *w = check_shared(shared, bytes);

    if (valid) {
        emu_touch_global(site, global, bytes, false);
    }
    emu_touch_shared(site, shared, bytes, true);
    for (size_t i = 0; i < bytes / 4; i++) {
        w[i].in_flight = true;
    }
    if (memory.n_copies == MAX_PENDING) {
        emu_fail("more than %d copies in flight", MAX_PENDING);
    }
    memory.copy[memory.n_copies++] = (struct copy){.to = shared,
                                                   .from = valid ? global : NULL,
                                                   .bytes = bytes,
                                                   .thread = emu_thread(),
                                                   .group = memory.group[emu_thread()]};
}

void hyd_cp_commit(void)
{
    memory.group[emu_thread()]++;
}

void hyd_cp_wait(unsigned left)
{
    const unsigned self = emu_thread();
    const unsigned done =
        memory.group[self] > left ? memory.group[self] - left : 0; /* groups below */
    size_t kept = 0;

    for (size_t i = 0; i < memory.n_copies; i++) {
        const struct copy *c = &memory.copy[i];
        struct word *w = &memory.word[(size_t)(c->to - memory.shared) / 4];

        if (c->thread != self || c->group >= done) {
            memory.copy[kept++] = *c;
            continue;
        }
        if (c->from != NULL) {
            memcpy(c->to, c->from, c->bytes);
        } else {
            memset(c->to, 0, c->bytes);
        }
        for (size_t j = 0; j < c->bytes / 4; j++) {
            w[j].in_flight = false;
            w[j].write_epoch = emu_epoch() + 1;
            w[j].writer = (int)self;
        }
    }
    memory.n_copies = kept;
}
