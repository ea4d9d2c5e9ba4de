/* move.c - see move.h. */
#include "worker/compute/cpu/move.h"

#include <string.h>

#include "worker/compute/copy_check.h"

struct sides {
    unsigned char *dst;
    const unsigned char *src;
};

/* Check a copy whose rows are dst_row_bytes wide on the other side, and find both of its
 * ends. False when there is nothing to do or it does not fit (*ret_status). */
static bool find_sides(struct hyd_buf dst, struct hyd_buf src,
                       const struct hyd_copy *copy, size_t dst_row_bytes,
                       struct sides *ret_sides, hyd_status *ret_status)
{
    *ret_status = hyd_copy_check(copy, dst, src, dst_row_bytes);
    if (*ret_status != HYD_OK) {
        return false;
    }
    if (copy->n_rows == 0 || copy->row_bytes == 0) {
        return false;
    }
    ret_sides->dst = (unsigned char *)dst.at + copy->dst_offset_bytes;
    ret_sides->src = (const unsigned char *)src.at + copy->src_offset_bytes;
    return true;
}

hyd_status hyd_cpu_copy(struct hyd_buf dst, struct hyd_buf src,
                        const struct hyd_copy *copy, size_t n_copies)
{
    hyd_status st = HYD_OK;
    struct sides at;

    for (size_t i = 0; i < n_copies && st == HYD_OK; i++) {
        const struct hyd_copy *c = &copy[i];

        if (!find_sides(dst, src, c, c->row_bytes, &at, &st)) {
            continue;
        }
        if (c->row_bytes == c->dst_stride_bytes &&
            c->row_bytes == c->src_stride_bytes) {
            memcpy(at.dst, at.src, c->row_bytes * c->n_rows);
            continue;
        }
        for (uint32_t row = 0; row < c->n_rows; row++) {
            memcpy(at.dst, at.src, c->row_bytes);
            at.dst += c->dst_stride_bytes;
            at.src += c->src_stride_bytes;
        }
    }
    return st;
}

hyd_status hyd_cpu_round_rows(const struct hyd_cpu_kernels *kernels, struct hyd_buf dst,
                              struct hyd_buf src, const struct hyd_copy *copy,
                              size_t n_copies)
{
    hyd_status st = HYD_OK;
    struct sides at;

    for (size_t i = 0; i < n_copies && st == HYD_OK; i++) {
        const size_t n = copy[i].row_bytes / sizeof(float);

        if (!find_sides(dst, src, &copy[i], n * sizeof(uint16_t), &at, &st)) {
            continue;
        }
        for (uint32_t row = 0; row < copy[i].n_rows; row++) {
            kernels->round((uint16_t *)(void *)at.dst,
                           (const float *)(const void *)at.src, n);
            at.dst += copy[i].dst_stride_bytes;
            at.src += copy[i].src_stride_bytes;
        }
    }
    return st;
}

static void add(float *to, const float *from, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        to[i] += from[i];
    }
}

hyd_status hyd_cpu_add(struct hyd_buf dst, struct hyd_buf src,
                       const struct hyd_copy *copy, size_t n_copies)
{
    hyd_status st = HYD_OK;
    struct sides at;

    for (size_t i = 0; i < n_copies && st == HYD_OK; i++) {
        if (!find_sides(dst, src, &copy[i], copy[i].row_bytes, &at, &st)) {
            continue;
        }
        for (uint32_t row = 0; row < copy[i].n_rows; row++) {
            add((float *)(void *)at.dst, (const float *)(const void *)at.src,
                copy[i].row_bytes / sizeof(float));
            at.dst += copy[i].dst_stride_bytes;
            at.src += copy[i].src_stride_bytes;
        }
    }
    return st;
}
