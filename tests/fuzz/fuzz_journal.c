/* fuzz_journal.c - no rows of a journal may hurt a start: jobs and steps come back and can be
 * shown, listed and ended, or the start is refused with a text. The rows are read from the
 * input in the place of SQLite: each begins with J (a job) or S (a step of it). */
#include <string.h>

#include "common/sys/clock.h"
#include "scheduler/daemon/restore.h"
#include "scheduler/daemon/service.h"
#include "tests/lib/fuzz.h"

/* No planning threads: what is asked for is counted, and made elsewhere (fuzz_convert). */
static const struct hyd_daemon_settings settings = {.decode_bytes = 1 << 22,
                                                    .message_bytes = 1 << 20,
                                                    .max_jobs = 16,
                                                    .max_ranks = 512,
                                                    .max_sequences = 4096,
                                                    .max_length_tokens = 1 << 20,
                                                    .keep_plans = 2,
                                                    .keep_steps = 4,
                                                    .max_ahead = 4,
                                                    .heartbeat_us = 1000000,
                                                    .lost_us = 3000000,
                                                    .address_us = 1000000,
                                                    .connect_us = 1000000,
                                                    .max_attempts = 2,
                                                    .step_deadline_us = 1000000};

static struct {
    const uint8_t *at;
    size_t n_left;
} input; /* of the run */

static uint8_t take_byte(void)
{
    if (input.n_left == 0) {
        return 0;
    }
    input.n_left--;
    return *input.at++;
}

/* Two bytes of length, then as much of it as there is. */
static struct hyd_journal_blob take_blob(void)
{
    const size_t low = take_byte();
    const size_t asked = low + 256 * (size_t)take_byte();
    struct hyd_journal_blob blob = {.n_bytes =
                                        asked < input.n_left ? asked : input.n_left};

    blob.bytes = (void *)(uintptr_t)(blob.n_bytes == 0 ? NULL : input.at);
    input.at += blob.n_bytes;
    input.n_left -= blob.n_bytes;
    return blob;
}

static hyd_status read_job(const struct hyd_journal_reader *reader,
                           struct hyd_error *err)
{
    struct hyd_journal_job row = {.open = (take_byte() & 1) != 0};
    char name[64] = "";
    size_t n = 0;

    row.epoch_limit = take_byte() * 0x01010101U;
    row.n_done = take_byte();
    row.n_failed = take_byte();
    for (n = take_byte(); n > 0; n--) {
        const char c = (char)take_byte();

        if (strlen(name) < sizeof name - 1) {
            name[strlen(name)] = c;
        }
    }
    row.name = name;
    row.spec = take_blob();
    row.cost = take_blob();
    return reader->on_job(reader->ctx, &row, err);
}

static hyd_status read_step(const struct hyd_journal_reader *reader,
                            struct hyd_error *err)
{
    struct hyd_journal_step row = {.step = take_byte()};

    row.key = take_byte();
    row.state = take_byte();
    row.status = take_byte();
    row.request = take_blob();
    row.info = take_blob();
    row.plan = take_blob();
    row.report = take_blob();
    return reader->on_step(reader->ctx, &row, err);
}

/* Stands in for the file: the real one is not linked. */
hyd_status hyd_journal_read(struct hyd_journal *journal,
                            const struct hyd_journal_reader *reader,
                            struct hyd_error *err)
{
    bool has_job = false;
    hyd_status st = HYD_OK;

    (void)journal;
    while (input.n_left > 0 && st == HYD_OK) {
        const uint8_t kind = take_byte();

        if (kind == 'J') {
            st = read_job(reader, err);
            has_job = true;
        } else if (kind == 'S' && has_job) {
            st = read_step(reader, err);
        }
    }
    return st;
}

/* All that a reader of the daemon may ask for. */
static void show(struct hyd_service *service)
{
    for (size_t i = 0; i < service->n_jobs; i++) {
        const struct hyd_job *job = service->job[i];
        struct hyd_arena_mark mark = hyd_arena_mark(&service->scratch);

        (void)hyd_job_info(job, &service->scratch);
        (void)hyd_job_cost_model(job, &service->scratch);
        for (size_t k = 0; k < job->n_steps; k++) {
            const struct hyd_plan_range all = {
                .n_microbatches = UINT32_MAX, .with_cells = true, .with_lengths = true};

            (void)hyd_job_step_info(job->step[k], true, &service->scratch);
            if (job->step[k]->has_plan) {
                (void)hyd_convert_plan(&job->step[k]->plan, &all, &service->scratch);
            }
        }
        hyd_arena_rewind(&service->scratch, mark);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    struct hyd_fault_alloc fault;
    struct hyd_error err = {.text = ""};
    struct hyd_service *service = NULL;
    uv_loop_t loop;
    hyd_status st = HYD_OK;

    hyd_fuzz_begin(&fault, data, n_bytes);
    hyd_fuzz_check(uv_loop_init(&loop) == 0, "no loop");
    input.at = data;
    input.n_left = n_bytes;
    st = hyd_service_create(&(struct hyd_service_config){.loop = &loop,
                                                         .alloc = &fault.alloc,
                                                         .settings = &settings,
                                                         .clock = hyd_clock_system()},
                            &service, &err);
    if (st == HYD_OK) {
        st = hyd_service_restore(service, &err);
        hyd_fuzz_check(st == HYD_OK || st == HYD_ERR_NO_MEMORY || err.text[0] != '\0',
                       "a refusal without a text");
        show(service);
        for (size_t i = 0; st == HYD_OK && i < service->n_jobs; i++) {
            hyd_service_close(service, service->job[i], "the end");
        }
        hyd_service_free(service);
    }
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    hyd_fuzz_check(uv_loop_close(&loop) == 0, "a handle was left open");
    hyd_fuzz_end(&fault);
    return 0;
}
