/* move.c - see move.h. */
#include "worker/compute/cpu/move.h"

#include <string.h>

#include "worker/compute/bf16.h"

void hyd_cpu_copy(unsigned char *dst, const unsigned char *src,
                  const struct hyd_copy *copy)
{
    dst += copy->dst_offset_bytes;
    src += copy->src_offset_bytes;
    if (copy->row_bytes == copy->dst_stride_bytes &&
        copy->row_bytes == copy->src_stride_bytes) {
        memcpy(dst, src, copy->row_bytes * copy->n_rows);
        return;
    }
    for (uint32_t i = 0; i < copy->n_rows; i++) {
        memcpy(dst, src, copy->row_bytes);
        dst += copy->dst_stride_bytes;
        src += copy->src_stride_bytes;
    }
}

void hyd_cpu_round(unsigned char *dst, const unsigned char *src,
                   const struct hyd_copy *copy)
{
    const size_t n = copy->row_bytes / sizeof(float);

    dst += copy->dst_offset_bytes;
    src += copy->src_offset_bytes;
    for (uint32_t i = 0; i < copy->n_rows; i++) {
        uint16_t *to = (uint16_t *)(void *)dst;
        const float *from = (const float *)(const void *)src;

        for (size_t j = 0; j < n; j++) {
            to[j] = hyd_bf16_encode(from[j]);
        }
        dst += copy->dst_stride_bytes;
        src += copy->src_stride_bytes;
    }
}

void hyd_cpu_add(unsigned char *dst, const unsigned char *src,
                 const struct hyd_copy *copy)
{
    const size_t n = copy->row_bytes / sizeof(float);

    dst += copy->dst_offset_bytes;
    src += copy->src_offset_bytes;
    for (uint32_t i = 0; i < copy->n_rows; i++) {
        float *to = (float *)(void *)dst;
        const float *from = (const float *)(const void *)src;

        for (size_t j = 0; j < n; j++) {
            to[j] += from[j];
        }
        dst += copy->dst_stride_bytes;
        src += copy->src_stride_bytes;
    }
}
