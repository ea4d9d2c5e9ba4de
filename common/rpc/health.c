/*
 * health.c - grpc.health.v1: what load balancers and probes ask.
 *
 * Check answers NOT_FOUND for a name that nobody has set; Watch of such a name says
 * SERVICE_UNKNOWN and stays open, as the protocol asks.
 */
#include <string.h>

#include "common/rpc/hydra_v1.h"
#include "common/rpc/server_internal.h"
#include "proto/grpc/health/v1/health.pb-c.h"

#include "common/base/banned.h"

#define SERVING(name) GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__##name

enum { MAX_NAME_BYTES = 256 };

struct entry {
    struct entry *next;
    char *name;
    bool serving;
};

struct watch {
    struct watch *next;
    struct watch **link; /* what points here */
    struct hyd_call *call;
    char *name;
    int told; /* last status sent; -1 none */
};

struct hyd_health {
    const struct hyd_alloc *alloc;
    struct entry *entries;
    struct watch *watches;
};

static struct entry *find(const struct hyd_health *health, const char *name)
{
    struct entry *entry = health->entries;

    while (entry != NULL && strcmp(entry->name, name) != 0) {
        entry = entry->next;
    }
    return entry;
}

static void tell(struct watch *watch, const struct entry *entry)
{
    Grpc__Health__V1__HealthCheckResponse response =
        GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;

    response.status = entry == NULL    ? SERVING(SERVICE_UNKNOWN)
                      : entry->serving ? SERVING(SERVING)
                                       : SERVING(NOT_SERVING);
    if (watch->told != (int)response.status &&
        hyd_call_send(watch->call, &response.base) == HYD_OK) {
        watch->told = (int)response.status;
    }
}

hyd_status hyd_health_create(struct hyd_server *server, struct hyd_health **ret_health)
{
    struct hyd_health *health = hyd_alloc_zeroed(server->alloc, 1, sizeof *health);

    if (health == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    health->alloc = server->alloc;
    *ret_health = health;
    return HYD_OK;
}

void hyd_health_free(struct hyd_health *health)
{
    if (health == NULL) {
        return;
    }
    while (health->entries != NULL) {
        struct entry *entry = health->entries;

        health->entries = entry->next;
        hyd_alloc_free(health->alloc, entry->name);
        hyd_alloc_free(health->alloc, entry);
    }
    hyd_alloc_free(health->alloc, health);
}

static struct entry *add(struct hyd_health *health, const char *name)
{
    struct entry *entry = hyd_alloc_zeroed(health->alloc, 1, sizeof *entry);

    if (entry == NULL) {
        return NULL;
    }
    entry->name = hyd_alloc_text(health->alloc, name);
    if (entry->name == NULL) {
        hyd_alloc_free(health->alloc, entry);
        return NULL;
    }
    entry->next = health->entries;
    health->entries = entry;
    return entry;
}

hyd_status hyd_health_set(struct hyd_health *health, const char *service, bool serving)
{
    struct entry *entry = find(health, service);

    if (entry == NULL) {
        entry = add(health, service);
    }
    if (entry == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    entry->serving = serving;
    for (struct watch *watch = health->watches; watch != NULL; watch = watch->next) {
        if (strcmp(watch->name, service) == 0) {
            tell(watch, entry);
        }
    }
    return HYD_OK;
}

void hyd_health_drain(struct hyd_health *health)
{
    struct hyd_error err;

    (void)hyd_error_set(&err, HYD_ERR_UNAVAILABLE, "the server is draining");
    for (struct entry *entry = health->entries; entry != NULL; entry = entry->next) {
        entry->serving = false;
    }
    for (struct watch *watch = health->watches; watch != NULL; watch = watch->next) {
        tell(watch, find(health, watch->name));
        hyd_call_fail(watch->call, HYD_ERR_UNAVAILABLE, &err);
    }
}

static const char *asked(const ProtobufCMessage *request)
{
    return ((const Grpc__Health__V1__HealthCheckRequest *)request)->service;
}

static bool name_fits(struct hyd_call *call, const char *name)
{
    struct hyd_error err;

    if (strlen(name) <= MAX_NAME_BYTES) {
        return true;
    }
    hyd_call_fail(
        call, HYD_ERR_INVALID,
        (hyd_error_value(&err, HYD_ERR_INVALID, "service",
                         "a name of at most 256 bytes", "%zu bytes long", strlen(name)),
         &err));
    return false;
}

static void check_open(struct hyd_call *call, const ProtobufCMessage *request)
{
    const char *name = asked(request);
    const struct entry *entry = find(call->server->health, name);
    Grpc__Health__V1__HealthCheckResponse response =
        GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;
    struct hyd_error err;

    if (!name_fits(call, name)) {
        return;
    }
    if (entry == NULL) {
        (void)hyd_error_value(&err, HYD_ERR_NOT_FOUND, "service",
                              "a service of this server, or empty", "'%s'", name);
        hyd_call_fail(call, HYD_ERR_NOT_FOUND, &err);
        return;
    }
    response.status = entry->serving ? SERVING(SERVING) : SERVING(NOT_SERVING);
    (void)hyd_call_reply(call, &response.base);
}

static void watch_open(struct hyd_call *call, const ProtobufCMessage *request)
{
    struct hyd_health *health = call->server->health;
    const char *name = asked(request);
    struct watch *watch = NULL;

    if (!name_fits(call, name)) {
        return;
    }
    watch = hyd_alloc_zeroed(health->alloc, 1, sizeof *watch);
    if (watch != NULL) {
        watch->name = hyd_alloc_text(health->alloc, name);
    }
    if (watch == NULL || watch->name == NULL) {
        hyd_alloc_free(health->alloc, watch);
        hyd_call_fail(call, HYD_ERR_NO_MEMORY, NULL);
        return;
    }
    watch->call = call;
    watch->told = -1;
    watch->link = &health->watches;
    watch->next = health->watches;
    if (watch->next != NULL) {
        watch->next->link = &watch->next;
    }
    health->watches = watch;
    hyd_call_set_user(call, watch);
    tell(watch, find(health, name));
}

static void watch_writable(struct hyd_call *call)
{
    struct watch *watch = hyd_call_user(call);

    tell(watch, find(call->server->health, watch->name));
}

static void watch_close(struct hyd_call *call, bool cancelled)
{
    struct hyd_health *health = call->server->health;
    struct watch *watch = hyd_call_user(call);

    (void)cancelled;
    if (watch == NULL) {
        return;
    }
    *watch->link = watch->next;
    if (watch->next != NULL) {
        watch->next->link = watch->link;
    }
    hyd_alloc_free(health->alloc, watch->name);
    hyd_alloc_free(health->alloc, watch);
}

const struct hyd_rpc_method hyd_health_methods[2] = {
    {.spec = &hyd_rpc_health_check, .on_open = check_open},
    {
        .spec = &hyd_rpc_health_watch,
        .on_open = watch_open,
        .on_writable = watch_writable,
        .on_close = watch_close,
    },
};
