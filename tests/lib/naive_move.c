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

enum move { MOVE_COPY, MOVE_ROUND, MOVE_ADD };

static void move_row(enum move move, void *to, const void *from, size_t bytes)
{
    const float *source = from;

    switch (move) {
    case MOVE_COPY:
        memcpy(to, from, bytes);
        break;
    case MOVE_ROUND:
        for (size_t i = 0; i < bytes / sizeof(float); i++) {
            ((uint16_t *)to)[i] = bf16_bits(source[i]);
        }
        break;
    case MOVE_ADD:
        for (size_t i = 0; i < bytes / sizeof(float); i++) {
            ((float *)to)[i] += source[i];
        }
        break;
    }
}

static hyd_status move_rows(struct hyd_compute *dev, enum move move,
                            const struct hyd_buf dst_src[2],
                            const struct hyd_copy *copy, size_t n_copies)
{
    for (size_t n = 0; n < n_copies; n++) {
        size_t to_bytes =
            move == MOVE_ROUND ? copy[n].row_bytes / 2 : copy[n].row_bytes;

        for (size_t i = 0; i < copy[n].n_rows; i++) {
            size_t to = copy[n].dst_offset_bytes + i * copy[n].dst_stride_bytes;
            size_t from = copy[n].src_offset_bytes + i * copy[n].src_stride_bytes;

            hyd_assert(to + to_bytes <= dst_src[0].bytes);
            hyd_assert(from + copy[n].row_bytes <= dst_src[1].bytes);
            move_row(move, (unsigned char *)dst_src[0].at + to,
                     (const unsigned char *)dst_src[1].at + from, copy[n].row_bytes);
            dev->copy_s += 1e-9 * (double)copy[n].row_bytes;
        }
    }
    dev->lag_left = dev->knobs.lag;
    return HYD_OK;
}

hyd_status naive_copy(struct hyd_compute *dev, struct hyd_buf dst, struct hyd_buf src,
                      const struct hyd_copy *copy, size_t n_copies)
{
    const struct hyd_buf dst_src[2] = {dst, src};

    return move_rows(dev, MOVE_COPY, dst_src, copy, n_copies);
}

hyd_status naive_convert(struct hyd_compute *dev, struct hyd_buf dst, enum hyd_dtype to,
                         struct hyd_buf src, const struct hyd_copy *copy,
                         size_t n_copies)
{
    const struct hyd_buf dst_src[2] = {dst, src};

    return move_rows(dev, to == HYD_DTYPE_F32 ? MOVE_COPY : MOVE_ROUND, dst_src, copy,
                     n_copies);
}

hyd_status naive_add(struct hyd_compute *dev, struct hyd_buf dst, struct hyd_buf src,
                     const struct hyd_copy *copy, size_t n_copies)
{
    const struct hyd_buf dst_src[2] = {dst, src};

    return move_rows(dev, MOVE_ADD, dst_src, copy, n_copies);
}

hyd_status naive_zero(struct hyd_compute *dev, struct hyd_buf dst)
{
    (void)dev;
    memset(dst.at, 0, dst.bytes);
    return HYD_OK;
}
