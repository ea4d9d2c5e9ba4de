/* copy_check.c - see copy_check.h. */
#include "worker/compute/copy_check.h"

static bool side_fits(size_t offset, size_t stride, size_t row_bytes, uint32_t n_rows,
                      size_t bytes)
{
    if (n_rows == 0 || row_bytes == 0) {
        return true;
    }
    return offset <= bytes && row_bytes <= bytes - offset &&
           (n_rows == 1 || stride <= (bytes - offset - row_bytes) / (n_rows - 1));
}

hyd_status hyd_copy_check(const struct hyd_copy *copy, struct hyd_buf dst,
                          struct hyd_buf src, size_t dst_row_bytes)
{
    if (!side_fits(copy->dst_offset_bytes, copy->dst_stride_bytes, dst_row_bytes,
                   copy->n_rows, dst.bytes) ||
        !side_fits(copy->src_offset_bytes, copy->src_stride_bytes, copy->row_bytes,
                   copy->n_rows, src.bytes)) {
        return HYD_ERR_INVALID;
    }
    return HYD_OK;
}
