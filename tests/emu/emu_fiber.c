/* emu_fiber.c - threads as fibers, the adversarial scheduler, barriers; see emu.h. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/rng.h"
#include "tests/emu/emu.h"
#include "tests/emu/emu_impl.h"

enum { STACK_BYTES = 128 * 1024, POISON_BYTES = 8 * 1024, TEXT_BYTES = 256 };

enum fiber_state { READY, IN_WARP, AT_BARRIER, DONE };

/* On x86-64 a switch is a dozen instructions; elsewhere the C library's, which is two
 * system calls slower. */
#if defined(__x86_64__)
struct context {
    void *stack;
};

void emu_switch(void **save, void *load);
__asm__(".text\n"
        ".globl emu_switch\n"
        ".type emu_switch,@function\n"
        "emu_switch:\n"
        "push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
        "mov %rsp,(%rdi)\n"
        "mov %rsi,%rsp\n"
        "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\n"
        "ret\n"
        ".size emu_switch,.-emu_switch\n"
        ".section .note.GNU-stack,\"\",@progbits\n"
        ".text\n");

static void go(struct context *from, struct context *to)
{
    emu_switch(&from->stack, to->stack);
}

static void make(struct context *c, unsigned char *stack, void (*entry)(void))
{
    /* Six registers, then the entry as the return address, where a call would have left
     * it: 8 bytes off a multiple of 16. */
    void **top = (void **)(void *)(stack + STACK_BYTES - 64);
    void (**at)(void) = (void (**)(void))(void *)&top[-2];

    *at = entry;
    memset(&top[-8], 0, 6 * sizeof *top);
    c->stack = &top[-8];
}
#else
#include <ucontext.h>

struct context {
    ucontext_t c;
};

static void go(struct context *from, struct context *to)
{
    (void)swapcontext(&from->c, &to->c);
}

static void make(struct context *c, unsigned char *stack, void (*entry)(void))
{
    (void)getcontext(&c->c);
    c->c.uc_stack.ss_sp = stack;
    c->c.uc_stack.ss_size = STACK_BYTES;
    c->c.uc_link = NULL;
    makecontext(&c->c, entry, 0);
}
#endif

struct fiber {
    struct context context;
    unsigned char *stack;
    enum fiber_state state;
};

struct warp {
    unsigned n_here;
    enum emu_op op;
    struct emu_bring bring[EMU_WARP];
};

static struct {
    struct fiber fiber[EMU_MAX_THREADS];
    struct warp warp[EMU_MAX_THREADS / EMU_WARP];
    struct context scheduler;
    const struct emu_launch *launch;
    unsigned current;
    unsigned block_x, block_y;
    unsigned epoch;
    bool failed;
    char text[TEXT_BYTES];
} emu;

unsigned emu_thread(void)
{
    return emu.current;
}

unsigned emu_epoch(void)
{
    return emu.epoch;
}

int hyd_tid(void)
{
    return (int)emu.current;
}

int hyd_tid_afresh(void)
{
    return (int)emu.current;
}

int hyd_block_x(void)
{
    return (int)emu.block_x;
}

int hyd_block_y(void)
{
    return (int)emu.block_y;
}

int hyd_blocks_x(void)
{
    return (int)emu.launch->blocks_x;
}

int hyd_threads(void)
{
    return (int)emu.launch->threads;
}

static void give_way(enum fiber_state state)
{
    const unsigned self = emu.current;

    emu.fiber[self].state = state;
    go(&emu.fiber[self].context, &emu.scheduler);
    emu.current = self;
}

void emu_fail(const char *format, ...)
{
    char what[TEXT_BYTES / 2];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(what, sizeof what, format, args);
    va_end(args);
    (void)snprintf(emu.text, sizeof emu.text, "block (%u, %u) thread %u: %s",
                   emu.block_x, emu.block_y, emu.current, what);
    emu.failed = true;
    while (true) {
        give_way(DONE);
    }
}

void emu_barrier(void)
{
    give_way(AT_BARRIER);
}

void emu_meet(enum emu_op op, struct emu_bring bring,
              void (*act)(struct emu_bring bring[EMU_WARP]))
{
    const unsigned self = emu.current;
    struct warp *w = &emu.warp[self / EMU_WARP];

    if (w->n_here != 0 && w->op != op) {
        emu_fail("lanes of a warp are at different operations (%d and %d)", w->op, op);
    }
    w->op = op;
    w->bring[self % EMU_WARP] = bring;
    w->n_here++;
    if (w->n_here < EMU_WARP) {
        give_way(IN_WARP);
        return;
    }
    w->n_here = 0;
    emu_traffic_flush(self / EMU_WARP);
    for (unsigned i = 0; i < EMU_WARP; i++) {
        emu.fiber[self / EMU_WARP * EMU_WARP + i].state = READY;
    }
    if (act != NULL) {
        act(w->bring);
    }
}

static void fiber_main(void)
{
    emu.launch->kernel(emu.launch->args);
    give_way(DONE);
    abort(); /* a finished thread is never run again */
}

static void run_fiber(unsigned i)
{
    emu.current = i;
    go(&emu.scheduler, &emu.fiber[i].context);
}

/* Run every lane of a warp that can run, from a random one on. */
static bool run_warp(unsigned w, struct hyd_rng *rng)
{
    const unsigned from = hyd_rng_below(rng, EMU_WARP);
    bool ran = false;

    for (unsigned i = 0; i < EMU_WARP && !emu.failed; i++) {
        const unsigned lane = w * EMU_WARP + (from + i) % EMU_WARP;

        if (emu.fiber[lane].state == READY) {
            run_fiber(lane);
            ran = true;
        }
    }
    return ran;
}

static unsigned count(enum fiber_state state)
{
    unsigned n = 0;

    for (unsigned i = 0; i < emu.launch->threads; i++) {
        n += emu.fiber[i].state == state;
    }
    return n;
}

/* Nobody can run: all wait at the barrier and go on, or they wait for ever. */
static void release_barrier(void)
{
    const unsigned n = count(AT_BARRIER);

    if (n + count(DONE) != emu.launch->threads) {
        (void)snprintf(emu.text, sizeof emu.text,
                       "block (%u, %u): %u threads at a barrier, %u inside a warp's "
                       "operation, %u done: they wait for ever",
                       emu.block_x, emu.block_y, n, count(IN_WARP), count(DONE));
        emu.failed = true;
        return;
    }
    emu.epoch++;
    for (unsigned i = 0; i < emu.launch->threads; i++) {
        emu_traffic_flush(i / EMU_WARP);
        if (emu.fiber[i].state == AT_BARRIER) {
            emu.fiber[i].state = READY;
        }
    }
}

static void run_block(struct hyd_rng *rng)
{
    const unsigned n_warps = emu.launch->threads / EMU_WARP;

    emu_memory_begin(emu.launch->shared_bytes);
    for (unsigned i = 0; i < emu.launch->threads; i++) {
        struct fiber *f = &emu.fiber[i];

        if (f->stack == NULL) {
            f->stack = malloc(STACK_BYTES);
            if (f->stack == NULL) {
                abort();
            }
        }
        /* Variables that nobody set are NaN, as fp32 and as bf16. */
        memset(f->stack + STACK_BYTES - POISON_BYTES, 0x7f, POISON_BYTES);
        make(&f->context, f->stack, fiber_main);
        f->state = READY;
    }
    memset(emu.warp, 0, sizeof emu.warp);
    while (!emu.failed && count(DONE) != emu.launch->threads) {
        /* One warp as far as it gets, the others starve. */
        const unsigned first = hyd_rng_below(rng, n_warps);
        bool ran = false;

        for (unsigned i = 0; i < n_warps && !ran; i++) {
            while (run_warp((first + i) % n_warps, rng)) {
                ran = true;
            }
        }
        if (!ran && !emu.failed) {
            release_barrier();
        }
    }
    emu.epoch++;
    for (unsigned i = 0; i < n_warps; i++) {
        emu_traffic_flush(i);
    }
    if (!emu.failed) {
        emu_memory_end();
    }
}

const char *emu_run(const struct emu_launch *launch)
{
    struct hyd_rng rng = {launch->seed};

    emu.launch = launch;
    emu.failed = false;
    emu_memory_launch();
    for (emu.block_y = 0; emu.block_y < launch->blocks_y; emu.block_y++) {
        for (emu.block_x = 0; emu.block_x < launch->blocks_x; emu.block_x++) {
            run_block(&rng);
            if (emu.failed) {
                return emu.text;
            }
        }
    }
    return NULL;
}
