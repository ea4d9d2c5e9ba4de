/* main.c - hydra-worker: an agent whose ranks stand in for a trainer.
 *
 * Exit code 0: it left in order (drained, or asked to by a signal); 1: refused, or it
 * could not go on; 2: wrong usage. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/sys/config.h"
#include "common/sys/log.h"
#include "worker/agent/agent.h"
#include "worker/agent/calibrate.h"
#include "worker/agent/print_program.h"
#include "worker/agent/settings.h"
#include "worker/agent/standin.h"

enum { EXIT_FAILED = 1, EXIT_USAGE = 2, COMPUTE_NICE = 5 };

static struct hyd_agent *the_agent; /* for the signal handler */

struct work {
    struct hyd_log *log;
    int verify;
};

static void on_signal(int signal_number)
{
    (void)signal_number;
    hyd_agent_stop(the_agent);
}

/* Below the agent's own thread: heartbeats go out while all cores compute. */
static void step_back(void)
{
    (void)setpriority(PRIO_PROCESS, (id_t)gettid(), COMPUTE_NICE);
}

/* Until next() has no step any more: its status says why. */
static hyd_status run_steps(struct hyd_agent *agent, uint32_t local_rank,
                            struct hyd_log *log, struct hyd_standin *standin,
                            struct hyd_error *why)
{
    for (;;) {
        const struct hyd_agent_assignment *step = NULL;
        struct hyd_error err = {.text = ""};
        const hyd_status st = hyd_agent_next(agent, local_rank, -1, &step, why);

        if (st != HYD_OK) {
            return st;
        }
        if (hyd_standin_run(standin, step, &err) != HYD_OK) {
            hyd_log_warn(log, "step lost", "rank=%u step=%llu why='%s'", step->rank,
                         (unsigned long long)step->step, err.text);
        } else {
            hyd_log_debug(log, "step done", "rank=%u step=%llu", step->rank,
                          (unsigned long long)step->step);
        }
    }
}

static hyd_status work_rank(struct hyd_agent *agent, uint32_t local_rank, void *ctx)
{
    const struct work *work = ctx;
    struct hyd_standin *standin = NULL;
    struct hyd_error why = {.text = ""};
    hyd_status st;

    step_back();
    st = hyd_standin_create(agent, local_rank, work->verify, hyd_alloc_system(),
                            &standin);
    if (st == HYD_OK) {
        st = run_steps(agent, local_rank, work->log, standin, &why);
    }
    if (st != HYD_ERR_CANCELLED) {
        hyd_log_error(work->log, "agent ended", "local_rank=%u status='%s' why='%s'",
                      local_rank, hyd_status_name(st), why.text);
    }
    hyd_standin_free(standin);
    return st;
}

static const char *given(const char *text)
{
    return text[0] != '\0' ? text : NULL;
}

static hyd_status make_agent(const struct hyd_worker_settings *set, bool fix_first_rank,
                             struct hyd_log *log, struct hyd_error *err)
{
    const struct hyd_agent_config config = {
        .connect = set->connect,
        .tls_ca = given(set->tls_ca),
        .tls_cert = given(set->tls_cert),
        .tls_key = given(set->tls_key),
        .token_file = given(set->token_file),
        .job = set->job,
        .node = set->node,
        .n_ranks = (uint32_t)set->ranks,
        .fix_first_rank = fix_first_rank,
        .first_rank = (uint32_t)set->first_rank,
        .compute = hyd_worker_compute_name(set->compute),
        .transport = hyd_worker_transport_name(set->transport),
        .links = given(set->links),
        .isa = hyd_worker_isa_name(set->isa),
        .fused = hyd_worker_fused_name(set->fused),
        .dense = true,
        .n_threads = (uint32_t)set->threads_per_rank,
        .log = log,
    };

    return hyd_agent_create(&config, hyd_alloc_system(), &the_agent, err);
}

static int work(const struct hyd_worker_settings *set, bool fix_first_rank)
{
    const struct hyd_log_config log_config = {.fd = STDERR_FILENO,
                                              .level =
                                                  (enum hyd_log_level)set->log_level,
                                              .area = "agent"};
    struct sigaction action = {.sa_handler = on_signal};
    struct hyd_log *log = NULL;
    struct work work = {.verify = set->verify};
    struct hyd_error err = {.text = ""};
    hyd_status st = hyd_log_create(hyd_alloc_system(), &log_config, &log, &err);
    int code = EXIT_FAILED;

    if (st == HYD_OK) {
        st = make_agent(set, fix_first_rank, log, &err);
    }
    if (st != HYD_OK) {
        (void)fprintf(stderr, "hydra-worker: %s\n", err.text);
        hyd_log_free(log);
        return st == HYD_ERR_INVALID ? EXIT_USAGE : EXIT_FAILED;
    }
    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(SIGTERM, &action, NULL);
    (void)sigaction(SIGINT, &action, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
    work.log = log;
    st = hyd_agent_run_ranks(the_agent, work_rank, &work, &err);
    if (err.text[0] != '\0') {
        hyd_log_error(log, "no thread for a rank", "why='%s'", err.text);
    }
    code = st == HYD_OK ? 0 : EXIT_FAILED;
    (void)signal(SIGTERM, SIG_DFL);
    (void)signal(SIGINT, SIG_DFL);
    hyd_agent_free(the_agent);
    hyd_log_free(log);
    return code;
}

static int print_program(const struct hyd_worker_settings *set)
{
    const struct hyd_attn_model model = {
        .dtype = HYD_DTYPE_BF16,
        .d = (uint32_t)set->head_dim,
        .n_heads = (uint32_t)set->heads,
        .n_kv_heads = (uint32_t)set->kv_heads,
        .see = hyd_worker_see(set),
        .window_tokens = (uint32_t)set->window,
    };
    struct hyd_error err = {.text = ""};
    const hyd_status st =
        hyd_print_program(set->print_program, &model, (uint32_t)set->rank,
                          hyd_alloc_system(), stdout, &err);

    if (st != HYD_OK) {
        (void)fprintf(stderr, "hydra-worker: %s\n", err.text);
        return EXIT_USAGE;
    }
    return fflush(stdout) == 0 ? 0 : EXIT_FAILED;
}

static int calibrate(const struct hyd_worker_settings *set)
{
    struct hyd_error err = {.text = ""};
    const hyd_status st = hyd_calibrate_to_file(set, &err);

    if (st == HYD_OK) {
        return 0;
    }
    (void)fprintf(stderr, "hydra-worker: %s\n",
                  err.text[0] != '\0' ? err.text : hyd_status_name(st));
    return st == HYD_ERR_INVALID ? EXIT_USAGE : EXIT_FAILED;
}

int main(int argc, char **argv)
{
    const struct hyd_config_program program = {
        .name = "hydra-worker",
        .version = HYD_VERSION,
        .summary = "Takes part in a job as an agent: runs the attention of its plans.",
        .check = hyd_worker_settings_check,
    };
    struct hyd_worker_settings set;
    struct hyd_config *config = NULL;
    struct hyd_error err = {.text = ""};
    bool done = false;
    int code = 0;
    hyd_status st = hyd_config_create(hyd_alloc_system(), hyd_worker_setting,
                                      hyd_n_worker_settings, &set, &config, &err);

    if (st == HYD_OK) {
        st = hyd_config_main(config, argc, argv, &program, &done, &err);
    }
    if (st != HYD_OK) {
        (void)fprintf(stderr, "hydra-worker: %s\n", err.text);
        code = EXIT_USAGE;
    } else if (!done && set.print_program[0] != '\0') {
        code = print_program(&set);
    } else if (!done && set.calibrate) {
        code = calibrate(&set);
    } else if (!done) {
        code =
            work(&set, strcmp(hyd_config_origin(config, "first_rank"), "default") != 0);
    }
    hyd_config_free(config);
    return code;
}
