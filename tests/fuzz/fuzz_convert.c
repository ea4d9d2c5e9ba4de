/* fuzz_convert.c - no message and no row of the journal may hurt: converting it to the
 * planner's types ends with them or with a text that names what is wrong. The first byte
 * says which message the rest is. */
#include <string.h>

#include "common/rpc/codec.h"
#include "scheduler/daemon/convert.h"
#include "tests/lib/fuzz.h"

static const struct hyd_daemon_settings settings = {
    .max_ranks = 512, .max_sequences = 4096, .max_length_tokens = 1 << 20};

static void check_text(hyd_status st, const struct hyd_error *err)
{
    hyd_fuzz_check(st == HYD_OK || st == HYD_ERR_NO_MEMORY || err->text[0] != '\0',
                   "a refusal without a text");
}

static void convert_job(const ProtobufCMessage *message, struct hyd_arena *arena)
{
    const Hydra__V1__OpenJobRequest *in = (const Hydra__V1__OpenJobRequest *)message;
    struct hyd_error err = {.text = ""};
    struct hyd_setup setup;

    check_text(hyd_convert_job_spec(in->spec, arena, &settings, &setup, &err), &err);
}

static void convert_what_if(const ProtobufCMessage *message)
{
    const Hydra__V1__PlanRequest *in = (const Hydra__V1__PlanRequest *)message;
    const struct hyd_setup_in from = {
        .pool = in->pool, .limits = in->limits, .cost = in->cost, .policy = in->policy};
    struct hyd_error err = {.text = ""};
    struct hyd_setup setup;
    struct hyd_batch batch;

    check_text(hyd_convert_setup(&from, &settings, &setup, &err), &err);
    check_text(hyd_convert_batch(in->batch, &settings, &batch, &err), &err);
}

/* A plan of the journal against a job of eight ranks, as after a restart. */
static void convert_plan(const ProtobufCMessage *message, const struct hyd_alloc *alloc)
{
    Hydra__V1__Pool pool = HYDRA__V1__POOL__INIT;
    Hydra__V1__Limits limits = HYDRA__V1__LIMITS__INIT;
    const struct hyd_setup_in from = {.pool = &pool, .limits = &limits};
    struct hyd_error err = {.text = ""};
    struct hyd_kept_plan kept = {0};
    struct hyd_setup setup;
    hyd_status st = HYD_OK;

    pool.ranks = 8;
    limits.cap_tokens = 4096;
    hyd_fuzz_check(hyd_convert_setup(&from, &settings, &setup, &err) == HYD_OK,
                   "no setup");
    setup.input.cost = &setup.cost[HYD_PASS_TRAIN];
    st = hyd_convert_plan_from((const Hydra__V1__Plan *)message, &setup.input, alloc,
                               &kept, &err);
    check_text(st, &err);
    hyd_kept_plan_release(&kept);
}

static void convert_info(const ProtobufCMessage *message)
{
    struct hyd_plan_summary summary;

    hyd_convert_summary_from((const Hydra__V1__StepInfo *)message, &summary);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    static const ProtobufCMessageDescriptor *const type[] = {
        &hydra__v1__open_job_request__descriptor, &hydra__v1__plan_request__descriptor,
        &hydra__v1__plan__descriptor, &hydra__v1__step_info__descriptor};
    const unsigned which = n_bytes == 0 ? 0 : data[0] % 4u;
    const struct hyd_codec_in in = {.type = type[which],
                                    .bytes = n_bytes == 0 ? data : data + 1,
                                    .n_bytes = n_bytes == 0 ? 0 : n_bytes - 1,
                                    .budget_bytes = 1 << 22};
    struct hyd_fault_alloc fault;
    struct hyd_arena arena;
    const ProtobufCMessage *message = NULL;

    hyd_fuzz_begin(&fault, data, n_bytes);
    hyd_arena_init(&arena, &fault.alloc);
    if (hyd_codec_decode(&in, &arena, &message, NULL) == HYD_OK) {
        switch (which) {
        case 0:
            convert_job(message, &arena);
            break;
        case 1:
            convert_what_if(message);
            break;
        case 2:
            convert_plan(message, &fault.alloc);
            break;
        default:
            convert_info(message);
            break;
        }
    }
    hyd_arena_release(&arena);
    hyd_fuzz_end(&fault);
    return 0;
}
