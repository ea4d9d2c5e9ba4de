/* agent.c - see agent.h: making and freeing an agent. */
#include <signal.h>
#include <string.h>

#include "worker/agent/impl.h"

struct hyd_agent_shared *hyd_agent_shared_create(const struct hyd_agent *agent)
{
    struct hyd_agent_shared *shared = hyd_alloc_zeroed(agent->alloc, 1, sizeof *shared);

    if (shared != NULL) {
        atomic_init(&shared->n_users, 1);
        hyd_arena_init(&shared->arena, agent->alloc);
    }
    return shared;
}

struct hyd_agent_shared *hyd_agent_shared_use(struct hyd_agent_shared *shared)
{
    if (shared != NULL) {
        atomic_fetch_add(&shared->n_users, 1);
    }
    return shared;
}

void hyd_agent_shared_drop(struct hyd_agent *agent, struct hyd_agent_shared *shared)
{
    if (shared != NULL && atomic_fetch_sub(&shared->n_users, 1) == 1) {
        hyd_arena_release(&shared->arena);
        hyd_alloc_free(agent->alloc, shared);
    }
}

/* Signals are for the owner's threads. */
static int spawn(struct hyd_agent *agent)
{
    sigset_t all;
    sigset_t before;
    int rc = 0;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(&agent->thread, NULL, hyd_agent_loop_main, agent);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

static hyd_status copy_text(struct hyd_agent *agent, const char **text)
{
    char *copy = NULL;
    size_t bytes = 0;

    if (*text == NULL) {
        return HYD_OK;
    }
    bytes = strlen(*text) + 1;
    copy = hyd_arena_take(&agent->texts, bytes, 1);
    if (copy == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    memcpy(copy, *text, bytes);
    *text = copy;
    return HYD_OK;
}

static hyd_status copy_config(struct hyd_agent *agent,
                              const struct hyd_agent_config *config)
{
    struct hyd_agent_config *own = &agent->config;
    const char **text[] = {
        &own->connect,    &own->tls_ca, &own->tls_cert, &own->tls_key,
        &own->token_file, &own->job,    &own->node,     &own->transport,
        &own->links,      &own->isa,    &own->compute,  &own->fused,
    };
    hyd_status st = HYD_OK;

    *own = *config;
    for (size_t i = 0; i < sizeof text / sizeof text[0] && st == HYD_OK; i++) {
        st = copy_text(agent, text[i]);
    }
    return st;
}

static hyd_status check_config(const struct hyd_agent_config *config,
                               struct hyd_error *err)
{
    const char *const must[][2] = {
        {"connect", config->connect}, {"job", config->job}, {"node", config->node}};

    for (size_t i = 0; i < sizeof must / sizeof must[0]; i++) {
        if (must[i][1] == NULL || must[i][1][0] == '\0') {
            return hyd_error_value(err, HYD_ERR_INVALID, must[i][0], "given", "empty");
        }
    }
    if (config->n_ranks == 0 || config->n_ranks > HYD_AGENT_MAX_RANKS) {
        return hyd_error_value(err, HYD_ERR_INVALID, "ranks", "1 to 64", "%u",
                               config->n_ranks);
    }
    return HYD_OK;
}

/* Why "auto" did not take the backends that it prefers to the one it took. */
static void log_passed_over(const struct hyd_agent *agent)
{
    for (size_t i = 0;
         hyd_compute_table[i] != NULL && hyd_compute_table[i] != agent->compute; i++) {
        struct hyd_error why = {.text = ""};

        (void)hyd_compute_table[i]->probe(&why);
        hyd_log_info(agent->config.log, "compute passed over", "compute=%s why='%s'",
                     hyd_compute_table[i]->name, why.text);
    }
}

static hyd_status find_backends(struct hyd_agent *agent, struct hyd_error *err)
{
    const struct hyd_agent_config *config = &agent->config;
    const char *compute = config->compute != NULL ? config->compute : "auto";
    const char *transport = config->transport != NULL ? config->transport : "auto";
    hyd_status st = hyd_compute_find(compute, &agent->compute, err);

    if (st == HYD_OK && strcmp(compute, "auto") == 0) {
        log_passed_over(agent);
    }
    if (st == HYD_OK) {
        st = hyd_transport_find(transport, agent->compute->mem, &agent->transport, err);
    }
    if (st == HYD_OK) {
        hyd_log_info(agent->config.log, "backends chosen", "compute=%s transport=%s",
                     agent->compute->name, agent->transport->name);
    }
    return st;
}

static hyd_status make_ranks(struct hyd_agent *agent, struct hyd_error *err)
{
    agent->rank =
        hyd_alloc_zeroed(agent->alloc, agent->config.n_ranks, sizeof *agent->rank);
    if (agent->rank == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < agent->config.n_ranks; i++) {
        agent->rank[i].news_fd = -1;
    }
    for (uint32_t i = 0; i < agent->config.n_ranks; i++) {
        const hyd_status st = hyd_agent_rank_init(agent, i, err);

        if (st != HYD_OK) {
            return st;
        }
    }
    return HYD_OK;
}

static hyd_status make_thread(struct hyd_agent *agent, struct hyd_error *err)
{
    if (uv_loop_init(&agent->loop) != 0) {
        return hyd_error_set(err, HYD_ERR_INTERNAL, "libuv cannot make a loop");
    }
    if (uv_async_init(&agent->loop, &agent->wake, hyd_agent_on_wake) != 0) {
        (void)uv_loop_close(&agent->loop);
        return hyd_error_set(err, HYD_ERR_INTERNAL,
                             "libuv cannot make an async handle");
    }
    agent->wake.data = agent;
    (void)sem_init(&agent->started, 0, 0);
    if (spawn(agent) != 0) {
        agent->start_status = hyd_error_set(err, HYD_ERR_INTERNAL, "no thread");
    } else {
        while (sem_wait(&agent->started) != 0) {
        }
        if (agent->start_status == HYD_OK) {
            agent->thread_runs = true;
            return HYD_OK;
        }
        (void)pthread_join(agent->thread, NULL);
        if (err != NULL) {
            *err = agent->start_error;
        }
    }
    uv_close((uv_handle_t *)&agent->wake, NULL);
    (void)uv_run(&agent->loop, UV_RUN_DEFAULT);
    (void)uv_loop_close(&agent->loop);
    return agent->start_status;
}

hyd_status hyd_agent_create(const struct hyd_agent_config *config,
                            const struct hyd_alloc *alloc, struct hyd_agent **ret_agent,
                            struct hyd_error *err)
{
    struct hyd_agent *agent = NULL;
    hyd_status st = check_config(config, err);

    if (st != HYD_OK) {
        return st;
    }
    agent = hyd_alloc_zeroed(alloc, 1, sizeof *agent);
    if (agent == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    agent->alloc = alloc;
    agent->note_end = &agent->note_first;
    (void)pthread_mutex_init(&agent->note_lock, NULL);
    hyd_arena_init(&agent->texts, alloc);
    st = copy_config(agent, config);
    if (st == HYD_OK) {
        st = find_backends(agent, err);
    }
    if (st == HYD_OK) {
        st = make_ranks(agent, err);
    }
    if (st == HYD_OK) {
        st = make_thread(agent, err);
    }
    if (st != HYD_OK) {
        hyd_agent_free(agent);
        return st;
    }
    *ret_agent = agent;
    return HYD_OK;
}

void hyd_agent_free(struct hyd_agent *agent)
{
    struct hyd_agent_note *note = NULL;

    if (agent == NULL) {
        return;
    }
    if (agent->thread_runs) {
        atomic_store(&agent->quit, true);
        (void)uv_async_send(&agent->wake);
        (void)pthread_join(agent->thread, NULL);
        (void)uv_loop_close(&agent->loop);
        (void)sem_destroy(&agent->started);
    }
    for (uint32_t i = 0; agent->rank != NULL && i < agent->config.n_ranks; i++) {
        if (agent->rank[i].agent != NULL) {
            hyd_agent_rank_release(&agent->rank[i]);
        }
    }
    note = hyd_agent_take_notes(agent);
    while (note != NULL) {
        struct hyd_agent_note *next = note->next;

        hyd_alloc_free(agent->alloc, note);
        note = next;
    }
    hyd_agent_shared_drop(agent, agent->members);
    hyd_agent_shared_drop(agent, agent->work);
    hyd_arena_release(&agent->texts);
    (void)pthread_mutex_destroy(&agent->note_lock);
    hyd_alloc_free(agent->alloc, agent->rank);
    hyd_alloc_free(agent->alloc, agent);
}

void hyd_agent_stop(struct hyd_agent *agent)
{
    atomic_fetch_add(&agent->n_stops, 1);
    (void)uv_async_send(&agent->wake);
}
