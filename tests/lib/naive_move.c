/* naive_move.c - see naive.h. */
#include <math.h>
#include <string.h>

#include "common/base/check.h"
#include "tests/lib/naive.h"

static uint16_t bf16_bits(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    if (isnan(value)) {
        return 0x7fc0;
    }
    return (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

static void move_row(enum naive_move move, void *to, const void *from, size_t bytes)
{
    const float *source = from;

    switch (move) {
    case NAIVE_COPY:
        memcpy(to, from, bytes);
        break;
    case NAIVE_ROUND:
        for (size_t i = 0; i < bytes / sizeof(float); i++) {
            ((uint16_t *)to)[i] = bf16_bits(source[i]);
        }
        break;
    case NAIVE_ADD:
        for (size_t i = 0; i < bytes / sizeof(float); i++) {
            ((float *)to)[i] += source[i];
        }
        break;
    }
}

void naive_run_move(struct hyd_compute *dev, enum naive_move move, struct hyd_buf dst,
                    struct hyd_buf src, const struct hyd_copy *copy)
{
    size_t to_bytes = move == NAIVE_ROUND ? copy->row_bytes / 2 : copy->row_bytes;

    for (size_t i = 0; i < copy->n_rows; i++) {
        size_t to = copy->dst_offset_bytes + i * copy->dst_stride_bytes;
        size_t from = copy->src_offset_bytes + i * copy->src_stride_bytes;

        hyd_assert(to + to_bytes <= dst.bytes);
        hyd_assert(from + copy->row_bytes <= src.bytes);
        move_row(move, (unsigned char *)dst.at + to,
                 (const unsigned char *)src.at + from, copy->row_bytes);
        dev->copy_s += 1e-9 * (double)copy->row_bytes;
    }
}
