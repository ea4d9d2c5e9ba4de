/* world.c - see self.h: ranks come and go. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/base/alloc.h"
#include "worker/transport/self/self.h"

#include "common/base/banned.h"

/* Ranks find each other by name: the one thing that a process has to share. */
static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER;
static struct hyd_self_world *registry;

static struct hyd_self_world *find_world(const char *session, uint32_t epoch)
{
    struct hyd_self_world *world = registry;

    while (world != NULL &&
           (world->epoch != epoch || strcmp(world->session, session) != 0)) {
        world = world->next;
    }
    return world;
}

static struct hyd_self_world *make_world(const struct hyd_transport_config *config,
                                         const char *session)
{
    const struct hyd_alloc *alloc = hyd_alloc_system();
    struct hyd_self_world *world = hyd_alloc_zeroed(alloc, 1, sizeof *world);

    if (world == NULL) {
        return NULL;
    }
    world->member = hyd_alloc_zeroed(alloc, config->n_ranks, sizeof *world->member);
    if (world->member == NULL) {
        hyd_alloc_free(alloc, world);
        return NULL;
    }
    (void)snprintf(world->session, sizeof world->session, "%s", session);
    world->epoch = config->epoch;
    world->n_ranks = config->n_ranks;
    (void)pthread_mutex_init(&world->lock, NULL);
    world->next = registry;
    registry = world;
    return world;
}

/* Under the registry's lock, when nobody is in the world. */
static void drop_world(struct hyd_self_world *world)
{
    const struct hyd_alloc *alloc = hyd_alloc_system();
    struct hyd_self_world **at = &registry;

    while (*at != world) {
        at = &(*at)->next;
    }
    *at = world->next;
    (void)pthread_mutex_destroy(&world->lock);
    hyd_alloc_free(alloc, world->member);
    hyd_alloc_free(alloc, world);
}

static void drop_transport(struct hyd_transport *transport)
{
    const struct hyd_alloc *alloc = hyd_alloc_system();
    struct hyd_self_record *list[2] = {transport->first, transport->spare};

    for (size_t i = 0; i < 2; i++) {
        while (list[i] != NULL) {
            struct hyd_self_record *next = list[i]->next;

            hyd_alloc_free(alloc, list[i]);
            list[i] = next;
        }
    }
    if (transport->fd >= 0) {
        (void)close(transport->fd);
    }
    hyd_alloc_free(alloc, transport->cancelled);
    hyd_alloc_free(alloc, transport);
}

static struct hyd_transport *make_transport(const struct hyd_transport_config *config)
{
    const struct hyd_alloc *alloc = hyd_alloc_system();
    struct hyd_transport *transport = hyd_alloc_zeroed(alloc, 1, sizeof *transport);

    if (transport == NULL) {
        return NULL;
    }
    transport->rank = config->rank;
    transport->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    transport->cancelled =
        hyd_alloc_zeroed(alloc, config->n_ranks, sizeof *transport->cancelled);
    if (transport->fd < 0 || transport->cancelled == NULL) {
        drop_transport(transport);
        return NULL;
    }
    return transport;
}

static hyd_status join(struct hyd_self_world *world, struct hyd_transport *transport,
                       const struct hyd_transport_config *config, struct hyd_error *err)
{
    hyd_status st = HYD_OK;

    (void)pthread_mutex_lock(&world->lock);
    if (world->n_ranks != config->n_ranks) {
        st = hyd_error_set(err, HYD_ERR_INVALID, "session '%s' has %u ranks, not %u",
                           world->session, world->n_ranks, config->n_ranks);
    } else if (world->member[config->rank].transport != NULL ||
               world->member[config->rank].gone) {
        st = hyd_error_set(err, HYD_ERR_EXISTS, "rank %u of session '%s' was opened",
                           config->rank, world->session);
    } else {
        transport->world = world;
        world->member[config->rank].transport = transport;
        world->n_open++;
        for (uint32_t i = 0; i < world->n_ranks; i++) {
            hyd_self_wake(world->member[i].transport); /* who warms waits for us */
        }
    }
    (void)pthread_mutex_unlock(&world->lock);
    return st;
}

hyd_status hyd_self_open(const struct hyd_transport_config *config,
                         struct hyd_transport **ret_transport, struct hyd_error *err)
{
    const char *session = config->session != NULL ? config->session : "";
    struct hyd_self_world *world;
    struct hyd_transport *transport;
    hyd_status st = HYD_ERR_NO_MEMORY;

    if (config->rank >= config->n_ranks) {
        return hyd_error_field(err, HYD_ERR_INVALID, "rank",
                               "rank is %u, the world has %u ranks", config->rank,
                               config->n_ranks);
    }
    if (strlen(session) >= HYD_SELF_NAME_BYTES) {
        return hyd_error_field(err, HYD_ERR_INVALID, "session",
                               "session has %zu characters, at most %d",
                               strlen(session), HYD_SELF_NAME_BYTES - 1);
    }
    transport = make_transport(config);
    if (transport == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    (void)pthread_mutex_lock(&registry_lock);
    world = find_world(session, config->epoch);
    if (world == NULL) {
        world = make_world(config, session);
    }
    if (world != NULL) {
        st = join(world, transport, config, err);
        if (world->n_open == 0) {
            drop_world(world);
        }
    }
    (void)pthread_mutex_unlock(&registry_lock);
    if (st != HYD_OK) {
        drop_transport(transport);
        return st;
    }
    *ret_transport = transport;
    return HYD_OK;
}

void hyd_self_close(struct hyd_transport *transport)
{
    struct hyd_self_world *world;
    bool last;

    if (transport == NULL) {
        return;
    }
    world = transport->world;
    (void)pthread_mutex_lock(&registry_lock);
    (void)pthread_mutex_lock(&world->lock);
    world->member[transport->rank] = (struct hyd_self_member){NULL, true};
    world->n_open--;
    last = world->n_open == 0;
    for (uint32_t i = 0; i < world->n_ranks; i++) {
        hyd_self_wake(world->member[i].transport);
    }
    (void)pthread_mutex_unlock(&world->lock);
    if (last) {
        drop_world(world);
    }
    (void)pthread_mutex_unlock(&registry_lock);
    drop_transport(transport);
}
