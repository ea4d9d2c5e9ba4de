/*
 * emu_impl.h - what the emulator's parts share.
 *
 * What     emu_fiber.c switches between threads and knows barriers and warps' meetings;
 *          emu_words.c does what the words mean, emu_memory.c checks memory,
 *          emu_traffic.c counts what is asked of it.
 * Threads  one thread.
 */
#ifndef HYD_TESTS_EMU_EMU_IMPL_H
#define HYD_TESTS_EMU_EMU_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { EMU_WARP = 32, EMU_MAX_THREADS = 256 };

/* What lanes of a warp meet for. */
enum emu_op {
    EMU_OP_NONE,
    EMU_OP_SYNC,
    EMU_OP_SHUFFLE,
    EMU_OP_SHUFFLE_FROM,
    EMU_OP_ANY,
    EMU_OP_MATRIX,
    EMU_OP_MATRIX_T,
    EMU_OP_MMA,
};

/* What a lane brings, and where it wants the result. */
struct emu_bring {
    const void *in; /* address, or fragment a */
    void *out;
    uint32_t b[2];
    float x;
    int mask;
};

/* fiber.c: the current thread and its block. */
unsigned emu_thread(void);
unsigned emu_epoch(void); /* barriers passed, over all blocks */

/* Wait until all lanes of the warp are here; the last one calls `act` for them all. */
void emu_meet(enum emu_op op, struct emu_bring bring,
              void (*act)(struct emu_bring bring[EMU_WARP]));
/* Wait until all threads of the block are here. */
void emu_barrier(void);
/* Give the launch up; does not return. */
_Noreturn void emu_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* memory.c: checked accesses. site: where the kernel called the word. A copy is done when
 * its thread waits for it. */
void emu_touch_global(const void *site, const void *at, size_t bytes, bool write);
void emu_touch_shared(const void *site, const void *at, size_t bytes, bool write);
void emu_copy_later(const void *site, void *shared, const void *global, size_t bytes,
                    bool valid);

/* At the start and at the end of each block, and of each launch. */
void emu_memory_begin(size_t shared_bytes);
void emu_memory_end(void);
void emu_memory_launch(void);

/* traffic.c: an access of the current lane; a product; what a warp did until it met. */
void emu_traffic_note(const void *site, const void *at, size_t bytes, bool shared);
void emu_traffic_product(void);
void emu_traffic_flush(unsigned warp);

#endif
