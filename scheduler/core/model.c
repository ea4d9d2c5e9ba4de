/* model.c - see model.h. */
#include "scheduler/core/model.h"

#include <string.h>

#include "common/base/banned.h"

/* Layers, hidden, q heads, kv heads, head size, FFN. */
#define SIZES(LAYERS, HIDDEN, HEADS, KV, DIM, FFN)                              \
    .layers = (LAYERS), .hidden = (HIDDEN), .heads = (HEADS), .kv_heads = (KV), \
    .head_dim = (DIM), .ffn = (FFN)

const struct hyd_model_shape hyd_model_table[] = {
    {.name = "llama-8b",
     SIZES(32, 4096, 32, 8, 128, 14336),
     .source = "config.json of meta-llama/Llama-3.1-8B"},
    {.name = "llama-70b",
     SIZES(80, 8192, 64, 8, 128, 28672),
     .source = "config.json of meta-llama/Llama-3.1-70B"},
    {.name = "llama-405b",
     SIZES(126, 16384, 128, 8, 128, 53248),
     .source = "config.json of meta-llama/Llama-3.1-405B"},
    {.name = "llama2-7b",
     SIZES(32, 4096, 32, 32, 128, 11008),
     .source = "config.json of meta-llama/Llama-2-7b-hf"},
    {.name = "llama2-13b",
     SIZES(40, 5120, 40, 40, 128, 13824),
     .source = "config.json of meta-llama/Llama-2-13b-hf"},
    {.name = "qwen2.5-7b",
     SIZES(28, 3584, 28, 4, 128, 18944),
     .source = "config.json of Qwen/Qwen2.5-7B"},
    {.name = "qwen2.5-14b",
     SIZES(48, 5120, 40, 8, 128, 13824),
     .source = "config.json of Qwen/Qwen2.5-14B"},
    {.name = "qwen2.5-32b",
     SIZES(64, 5120, 40, 8, 128, 27648),
     .source = "config.json of Qwen/Qwen2.5-32B"},
    {.name = "qwen2.5-72b",
     SIZES(80, 8192, 64, 8, 128, 29568),
     .source = "config.json of Qwen/Qwen2.5-72B"},
    {.name = "qwen3-8b",
     SIZES(36, 4096, 32, 8, 128, 12288),
     .source = "config.json of Qwen/Qwen3-8B"},
    {.name = "qwen3-32b",
     SIZES(64, 5120, 64, 8, 128, 25600),
     .source = "config.json of Qwen/Qwen3-32B"},
    {
        .name = "mistral-7b-window",
        SIZES(32, 4096, 32, 8, 128, 14336),
        .mask = HYD_MASK_WINDOW,
        .window_tokens = 4096,
        .source = "config.json of mistralai/Mistral-7B-v0.1 (sliding_window 4096)",
    },
};
const size_t hyd_model_count = sizeof hyd_model_table / sizeof hyd_model_table[0];

#define TFLOP 1e12

/*
 * Rates below the first point fall in proportion to the length (cost.c). Bandwidths are
 * of one direction and one GPU. cell_s is assumed everywhere: nobody publishes it.
 */
const struct hyd_device hyd_device_table[] = {
    {
        .name = "h100",
        .source =
            "attention: MagiAttention's FA3 figure (64/8 heads, 128), +-3 %; GEMM: "
            "below DistCA's 634-758 TFLOP/s; NVLink: its all-gather over 8; NIC: 400 "
            "Gb/s",
        .gemm_flop_per_s = 600 * TFLOP,
        .attention =
            {
                {1024, 283 * TFLOP, 208 * TFLOP},
                {2048, 584 * TFLOP, 353 * TFLOP},
                {4096, 662 * TFLOP, 461 * TFLOP},
                {8192, 657 * TFLOP, 517 * TFLOP},
                {16384, 672 * TFLOP, 562 * TFLOP},
                {32768, 679 * TFLOP, 585 * TFLOP},
            },
        .n_attention = 6,
        .nvlink_bytes_per_s = 300e9,
        .nic_bytes_per_s = 45e9,
        .latency_s = 10e-6,
        .memory_bytes_per_s = 3.35e12,
        .cell_s = 1e-4,
        .bytes_per_element = 2.0,
    },
    {
        .name = "h100-fa2",
        .source = "attention: DistCA's FA2 profile, packed to 32K (64 heads, 128), "
                  "backward assumed 0.85 of it; the rest as h100",
        .gemm_flop_per_s = 600 * TFLOP,
        .attention =
            {
                {128, 85 * TFLOP, 72 * TFLOP},
                {256, 139 * TFLOP, 118 * TFLOP},
                {512, 204 * TFLOP, 173 * TFLOP},
                {1024, 283 * TFLOP, 241 * TFLOP},
                {2048, 322 * TFLOP, 274 * TFLOP},
                {4096, 348 * TFLOP, 296 * TFLOP},
                {8192, 361 * TFLOP, 307 * TFLOP},
                {16384, 370 * TFLOP, 314 * TFLOP},
            },
        .n_attention = 8,
        .nvlink_bytes_per_s = 300e9,
        .nic_bytes_per_s = 45e9,
        .latency_s = 10e-6,
        .memory_bytes_per_s = 3.35e12,
        .cell_s = 1e-4,
        .bytes_per_element = 2.0,
    },
    {
        .name = "h200",
        .source = "attention: cuDNN 9.19 on H200 from cudnn-frontend's benchmark file "
                  "(64/8 heads, 128); GEMM and network as h100; memory: datasheet",
        .gemm_flop_per_s = 600 * TFLOP,
        .attention =
            {
                {2048, 484 * TFLOP, 370 * TFLOP},
                {4096, 591 * TFLOP, 474 * TFLOP},
                {8192, 644 * TFLOP, 541 * TFLOP},
                {32768, 688 * TFLOP, 581 * TFLOP},
            },
        .n_attention = 4,
        .nvlink_bytes_per_s = 300e9,
        .nic_bytes_per_s = 45e9,
        .latency_s = 10e-6,
        .memory_bytes_per_s = 4.8e12,
        .cell_s = 1e-4,
        .bytes_per_element = 2.0,
    },
    {
        .name = "a100",
        .source = "rates derived from FlexSP's fitted coefficients of a 7B model "
                  "(5.128e-6 ms/token^2, 0.184 ms/token); its all-to-all GB/s at 8, 16",
        .gemm_flop_per_s = 211 * TFLOP,
        .attention = {{2048, 179 * TFLOP, 179 * TFLOP}},
        .n_attention = 1,
        .nvlink_bytes_per_s = 96.5e9,
        .nic_bytes_per_s = 10.3e9,
        .latency_s = 10e-6,
        .memory_bytes_per_s = 2.04e12,
        .cell_s = 1e-4,
        .bytes_per_element = 2.0,
    },
};
const size_t hyd_device_count = sizeof hyd_device_table / sizeof hyd_device_table[0];

const struct hyd_model_shape *hyd_model_find(const char *name)
{
    for (size_t i = 0; name != NULL && i < hyd_model_count; i++) {
        if (strcmp(hyd_model_table[i].name, name) == 0) {
            return &hyd_model_table[i];
        }
    }
    return NULL;
}

const struct hyd_device *hyd_device_find(const char *name)
{
    for (size_t i = 0; name != NULL && i < hyd_device_count; i++) {
        if (strcmp(hyd_device_table[i].name, name) == 0) {
            return &hyd_device_table[i];
        }
    }
    return NULL;
}
