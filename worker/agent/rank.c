/* rank.c - see impl.h: a local rank, as the loop orders it and its thread blocks on it.
 *
 * The thread blocks in one place only, on its eventfd and the transport's descriptor; it
 * never spins and has no timers of its own. Slow is not dead: what ends a wait is data, an
 * order of the loop (which watches the stream, the heartbeat and the step's deadline), or
 * the transport's word that a peer is gone. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "worker/agent/impl.h"

static void wake(struct hyd_agent_rank *rank)
{
    const uint64_t one = 1;

    while (write(rank->news_fd, &one, sizeof one) < 0 && errno == EINTR) {
    }
}

void hyd_agent_rank_open(struct hyd_agent_rank *rank)
{
    struct hyd_agent *agent = rank->agent;

    (void)pthread_mutex_lock(&rank->lock);
    rank->order.generation = agent->machine.generation;
    rank->order.live = true;
    rank->order.epoch = agent->machine.epoch;
    rank->order.rank = agent->world_rank[rank->local];
    rank->order.n_ranks = agent->n_world;
    rank->order.job = agent->job;
    atomic_store(&rank->live, agent->machine.generation);
    (void)pthread_mutex_unlock(&rank->lock);
    wake(rank);
}

void hyd_agent_rank_join(struct hyd_agent_rank *rank)
{
    (void)pthread_mutex_lock(&rank->lock);
    hyd_agent_shared_drop(rank->agent, rank->order.members);
    rank->order.members = hyd_agent_shared_use(rank->agent->members);
    rank->n_missing = 0;
    (void)pthread_mutex_unlock(&rank->lock);
    wake(rank);
}

void hyd_agent_rank_start(struct hyd_agent_rank *rank)
{
    (void)pthread_mutex_lock(&rank->lock);
    hyd_agent_shared_drop(rank->agent, rank->order.work);
    rank->order.work = hyd_agent_shared_use(rank->agent->work);
    (void)pthread_mutex_unlock(&rank->lock);
    wake(rank);
}

void hyd_agent_rank_abort(struct hyd_agent_rank *rank)
{
    (void)pthread_mutex_lock(&rank->lock);
    rank->order.live = false;
    atomic_store(&rank->live, 0);
    hyd_agent_shared_drop(rank->agent, rank->order.members);
    hyd_agent_shared_drop(rank->agent, rank->order.work);
    rank->order.members = NULL;
    rank->order.work = NULL;
    if (rank->transport != NULL) {
        rank->agent->transport->abort(rank->transport);
    }
    (void)pthread_mutex_unlock(&rank->lock);
    wake(rank);
}

void hyd_agent_rank_end(struct hyd_agent_rank *rank, hyd_status status)
{
    (void)pthread_mutex_lock(&rank->lock);
    rank->order.ended = true;
    rank->order.end_status = status;
    memcpy(rank->order.end_reason, rank->agent->machine.reason,
           sizeof rank->order.end_reason);
    (void)pthread_mutex_unlock(&rank->lock);
    wake(rank);
}

/* --- the rank's thread --- */

bool hyd_agent_rank_live(const struct hyd_agent_rank *rank)
{
    return rank->generation != 0 && atomic_load(&rank->live) == rank->generation;
}

void hyd_agent_rank_block(struct hyd_agent_rank *rank, const int *fd, size_t n_fds,
                          int timeout_ms)
{
    struct pollfd wait[1 + HYD_AGENT_MAX_FDS] = {
        {.fd = rank->news_fd, .events = POLLIN}};
    const uint64_t from_ns = hyd_clock_mono_ns(hyd_clock_system());
    uint64_t count = 0;

    for (size_t i = 0; i < n_fds; i++) {
        wait[1 + i] = (struct pollfd){.fd = fd[i], .events = POLLIN};
    }
    (void)poll(wait, 1 + n_fds, timeout_ms);
    if ((wait[0].revents & POLLIN) != 0) {
        (void)!read(rank->news_fd, &count, sizeof count);
    }
    rank->blocked_ns += hyd_clock_mono_ns(hyd_clock_system()) - from_ns;
}

void hyd_agent_rank_tell(struct hyd_agent_rank *rank, enum hyd_agent_event_kind kind,
                         hyd_status status, const char *reason)
{
    const struct hyd_agent_event event = {
        .kind = kind,
        .generation = rank->generation,
        .rank = rank->local,
        .status = status,
        .peer_lost = status == HYD_ERR_UNAVAILABLE,
    };

    hyd_agent_tell(rank->agent, &event, reason);
}

void hyd_agent_rank_close_transport(struct hyd_agent_rank *rank)
{
    struct hyd_transport *transport = NULL;

    (void)pthread_mutex_lock(&rank->lock);
    transport = rank->transport;
    rank->transport = NULL;
    (void)pthread_mutex_unlock(&rank->lock);
    if (transport != NULL) {
        rank->agent->transport->close(transport);
    }
    rank->joined = false;
}

hyd_status hyd_agent_rank_lose(struct hyd_agent_rank *rank, hyd_status status,
                               struct hyd_error *err)
{
    struct hyd_error local = {.text = ""};
    const bool live = hyd_agent_rank_live(rank);

    hyd_agent_rank_close_transport(rank);
    if (rank->attn != NULL) { /* lost before it had an engine */
        hyd_attn_end_step(rank->attn);
    }
    rank->running = false;
    if (!live) {
        return hyd_error_set(err, HYD_ERR_CANCELLED, "the step was given up");
    }
    (void)snprintf(local.text, sizeof local.text, "%s",
                   err != NULL && err->text[0] != '\0' ? err->text
                                                       : hyd_status_name(status));
    if (strncmp(local.text, "rank ", strlen("rank ")) != 0) {
        hyd_error_prefix(&local, "rank %u", rank->world_rank);
    }
    if (!rank->failed) {
        rank->failed = true;
        hyd_agent_rank_tell(rank, HYD_AGENT_EV_FAILED, status, local.text);
    }
    return status;
}

static double clock_s(void *ctx)
{
    (void)ctx;
    return 1e-9 * (double)hyd_clock_mono_ns(hyd_clock_system());
}

static uint32_t threads(const struct hyd_agent_config *config)
{
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);

    if (config->n_threads > 0) {
        return config->n_threads;
    }
    return cores > (long)config->n_ranks ? (uint32_t)cores / config->n_ranks : 1;
}

static void say_news(void *ctx, const char *line)
{
    struct hyd_log *log = ctx;

    hyd_log_info(log, "device says", "line='%s'", line);
}

hyd_status hyd_agent_rank_open_device(struct hyd_agent_rank *rank,
                                      struct hyd_error *err)
{
    const struct hyd_agent *agent = rank->agent;
    const struct hyd_compute_config config = {
        .device = (int)rank->local,
        .n_threads = threads(&agent->config),
        .isa = agent->config.isa,
        .fused = agent->config.fused,
        .say = say_news,
        .say_ctx = agent->config.log,
        .alloc = agent->alloc,
    };
    hyd_status st = HYD_OK;

    if (rank->dev != NULL) {
        return HYD_OK;
    }
    st = agent->compute->open(&config, &rank->dev, err);
    if (st == HYD_OK) {
        hyd_log_info(agent->config.log, "device open", "rank=%u device='%s'",
                     rank->local, agent->compute->describe(rank->dev));
    }
    return st;
}

/* A device takes its work in larger pieces than a core, tens of milliseconds here too: one
 * launch has to fill the card, and to hide the next. */
static struct hyd_attn_slices slices_of(const struct hyd_compute_ops *compute)
{
    return compute->mem == HYD_MEM_HOST ? (struct hyd_attn_slices){0}
                                        : (struct hyd_attn_slices){.flop = 1.0e13,
                                                                   .fill_flop = 1.0e12,
                                                                   .min_rows = 4096};
}

hyd_status hyd_agent_rank_make_engine(struct hyd_agent_rank *rank,
                                      const struct hyd_agent_job *job,
                                      uint32_t split_seqs, struct hyd_error *err)
{
    const struct hyd_agent *agent = rank->agent;
    const struct hyd_attn_config config = {
        .model = job->model,
        .limits = {.cell_tokens = job->cell_tokens,
                   .split_seqs = split_seqs,
                   .max_u = job->model.n_heads < HYD_MAX_ULYSSES ? job->model.n_heads
                                                                 : HYD_MAX_ULYSSES,
                   .dense = agent->config.dense,
                   .n_saved = job->n_layers},
        .compute = agent->compute,
        .dev = rank->dev,
        .clock = {.now_s = clock_s},
        .slices = slices_of(agent->compute),
    };
    struct hyd_attn_memory memory;
    hyd_status st = HYD_OK;

    hyd_attn_free(rank->attn);
    rank->attn = NULL;
    st = hyd_attn_create(&config, agent->alloc, &rank->attn, err);
    if (st != HYD_OK) {
        return st;
    }
    rank->job = *job;
    rank->split_seqs = split_seqs;
    hyd_attn_memory(rank->attn, &memory);
    hyd_log_info(agent->config.log, "engine made",
                 "rank=%u cell_tokens=%u split_seqs=%u arena_bytes=%zu", rank->local,
                 job->cell_tokens, split_seqs, memory.arena_bytes);
    return HYD_OK;
}

hyd_status hyd_agent_rank_init(struct hyd_agent *agent, uint32_t local,
                               struct hyd_error *err)
{
    struct hyd_agent_rank *rank = &agent->rank[local];

    rank->news_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (rank->news_fd < 0) {
        return hyd_error_set(err, HYD_ERR_IO, "no eventfd: errno %d", errno);
    }
    rank->agent = agent;
    rank->local = local;
    atomic_init(&rank->live, 0);
    atomic_init(&rank->progress, 0);
    (void)pthread_mutex_init(&rank->lock, NULL);
    hyd_arena_init(&rank->arena, agent->alloc);
    return HYD_OK;
}

void hyd_agent_rank_release(struct hyd_agent_rank *rank)
{
    struct hyd_agent *agent = rank->agent;

    hyd_agent_rank_close_transport(rank);
    hyd_attn_free(rank->attn);
    agent->compute->close(rank->dev);
    hyd_agent_shared_drop(agent, rank->work);
    hyd_agent_shared_drop(agent, rank->order.members);
    hyd_agent_shared_drop(agent, rank->order.work);
    hyd_arena_release(&rank->arena);
    hyd_alloc_free(agent->alloc, rank->address);
    (void)pthread_mutex_destroy(&rank->lock);
    (void)close(rank->news_fd);
}
