/*
 * merge.c - see merge.h.
 *
 * The textbook form, exp(lse) weights over their sum, overflows; subtracting the larger
 * lse leaves one weight of 1 and one in [0, 1]. Without the guards (-inf) - (-inf) is
 * NaN: a row that sees nothing in one block would poison what it saw in others.
 */
#include "worker/attn/merge.h"

#include <math.h>

#include "common/base/banned.h"

void hyd_merge_row(float *o, float *lse, const float *other_o, float other_lse,
                   uint32_t d)
{
    float most, own_weight, other_weight, sum;

    if (other_lse == -INFINITY) {
        if (*lse == -INFINITY) {
            for (uint32_t i = 0; i < d; i++) {
                o[i] = 0.0F;
            }
        }
        return;
    }
    if (*lse == -INFINITY) {
        for (uint32_t i = 0; i < d; i++) {
            o[i] = other_o[i];
        }
        *lse = other_lse;
        return;
    }
    most = *lse > other_lse ? *lse : other_lse;
    own_weight = expf(*lse - most);
    other_weight = expf(other_lse - most);
    sum = own_weight + other_weight;
    for (uint32_t i = 0; i < d; i++) {
        o[i] = (o[i] * own_weight + other_o[i] * other_weight) / sum;
    }
    *lse = most + logf(sum);
}
