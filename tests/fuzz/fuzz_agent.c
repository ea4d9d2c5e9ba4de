/* fuzz_agent.c - nothing that a scheduler says may hurt an agent: a job or an assignment
 * becomes groups that an engine can rely on, or a text that names what is wrong. The first
 * byte says which of the two the rest is. */
#include "common/rpc/codec.h"
#include "tests/lib/fuzz.h"
#include "worker/agent/convert.h"

enum { N_RANKS = 8 };

static void check_text(hyd_status st, const struct hyd_error *err)
{
    hyd_fuzz_check(st == HYD_OK || st == HYD_ERR_NO_MEMORY || err->text[0] != '\0',
                   "a refusal without a text");
}

static void read_job(const ProtobufCMessage *message)
{
    struct hyd_error err = {.text = ""};
    struct hyd_agent_job job;
    const hyd_status st =
        hyd_agent_job_read((const Hydra__V1__JobSpec *)message, &job, &err);

    check_text(st, &err);
    hyd_fuzz_check(st != HYD_OK || hyd_attn_model_check(&job.model, NULL) == HYD_OK,
                   "a model that no engine takes");
}

static void read_plan(const ProtobufCMessage *message, struct hyd_arena *arena)
{
    static const struct hyd_agent_job job = {
        .model = {.d = 64, .n_heads = 6, .n_kv_heads = 2},
        .cell_tokens = 4096,
        .n_layers = 2};
    struct hyd_error err = {.text = ""};
    struct hyd_agent_plan plan;
    const hyd_status st = hyd_agent_plan_read((const Hydra__V1__Assignment *)message,
                                              &job, N_RANKS, arena, &plan, &err);

    check_text(st, &err);
    for (size_t i = 0; st == HYD_OK && i < plan.n_groups; i++) {
        const struct hyd_group *group = &plan.group[i];

        hyd_fuzz_check(hyd_group_check(group, &job.model, N_RANKS, NULL) == HYD_OK &&
                           group->microbatch < plan.n_microbatches,
                       "a group that no engine takes");
        hyd_fuzz_check(i == 0 || hyd_group_compare(&group[-1], group) <= 0,
                       "groups out of order");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    const bool is_job = n_bytes > 0 && data[0] % 2 == 1;
    const struct hyd_codec_in in = {.type = is_job ? &hydra__v1__job_spec__descriptor
                                                   : &hydra__v1__assignment__descriptor,
                                    .bytes = n_bytes == 0 ? data : data + 1,
                                    .n_bytes = n_bytes == 0 ? 0 : n_bytes - 1,
                                    .budget_bytes = 1 << 20};
    const ProtobufCMessage *message = NULL;
    struct hyd_fault_alloc fault;
    struct hyd_arena arena;
    struct hyd_error err = {.text = ""};

    hyd_fuzz_begin(&fault, data, n_bytes);
    hyd_arena_init(&arena, &fault.alloc);
    if (hyd_codec_decode(&in, &arena, &message, &err) == HYD_OK) {
        if (is_job) {
            read_job(message);
        } else {
            read_plan(message, &arena);
        }
    }
    hyd_arena_release(&arena);
    hyd_fuzz_end(&fault);
    return 0;
}
