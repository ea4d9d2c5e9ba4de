/* world.c - see world.h. Addresses and results live in a shared anonymous mapping, so
 * that threads and processes use the same code. */
#include "tests/lib/world.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/wait_group.h"

enum { ADDRESS_BYTES = 1024, LIFE_S = 60 };

struct shared {
    pthread_barrier_t together;
    uint32_t address_bytes[HYD_WORLD_MAX_RANKS];
    unsigned char address[HYD_WORLD_MAX_RANKS][ADDRESS_BYTES];
    char failure[HYD_WORLD_MAX_RANKS][HYD_WORLD_TEXT_BYTES];
};

struct seat {
    const struct hyd_world *world;
    struct shared *shared;
    uint32_t rank;
};

const char *hyd_world_reason(const char *format, ...)
{
    static _Thread_local char text[HYD_WORLD_TEXT_BYTES];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return text;
}

static const char *publish(const struct seat *seat, struct hyd_world_rank *self)
{
    const void *bytes = NULL;
    size_t n_bytes = 0;

    if (self->ops->address(self->transport, &bytes, &n_bytes) != HYD_OK ||
        n_bytes > ADDRESS_BYTES) {
        return "no address";
    }
    if (n_bytes > 0) {
        memcpy(seat->shared->address[seat->rank], bytes, n_bytes);
    }
    seat->shared->address_bytes[seat->rank] = (uint32_t)n_bytes;
    return NULL;
}

static const char *join(const struct seat *seat, struct hyd_world_rank *self)
{
    const void *address[HYD_WORLD_MAX_RANKS];
    size_t address_bytes[HYD_WORLD_MAX_RANKS];
    struct hyd_error err = {.text = ""};

    for (uint32_t i = 0; i < self->n_ranks; i++) {
        address[i] = seat->shared->address[i];
        address_bytes[i] = seat->shared->address_bytes[i];
    }
    if (self->ops->connect(self->transport, address, address_bytes, &err) != HYD_OK ||
        hyd_test_wait_warm(self->ops, self->transport, &err) != HYD_OK) {
        return hyd_world_reason("joining failed: %s", err.text);
    }
    return NULL;
}

static void seat_run(struct seat *seat)
{
    const struct hyd_world *world = seat->world;
    const int device = world->n_devices > 0 ? (int)(seat->rank % world->n_devices) : 0;
    const struct hyd_transport_config config = {
        .rank = seat->rank,
        .n_ranks = world->n_ranks,
        .epoch = world->epoch,
        .mem = world->mem,
        .device = device,
        .session = world->session,
        .links = world->links,
    };
    struct hyd_world_rank self = {
        .rank = seat->rank,
        .n_ranks = world->n_ranks,
        .ops = world->ops,
        .device = device,
        .together = &seat->shared->together,
        .ctx = world->ctx,
    };
    struct hyd_error err = {.text = ""};
    const char *failure = NULL;

    if (world->prepare != NULL) {
        world->prepare(seat->rank);
    }
    if (world->ops->open(&config, &self.transport, &err) != HYD_OK) {
        failure = hyd_world_reason("open failed: %s", err.text);
    } else {
        failure = publish(seat, &self);
    }
    (void)pthread_barrier_wait(&seat->shared->together);
    if (failure == NULL) {
        failure = join(seat, &self);
    }
    if (failure == NULL) {
        failure = world->body(&self);
    }
    world->ops->close(self.transport);
    if (failure != NULL) {
        (void)snprintf(seat->shared->failure[seat->rank], HYD_WORLD_TEXT_BYTES, "%s",
                       failure);
    }
}

static struct shared *share(const struct hyd_world *world)
{
    struct shared *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE,
                                 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_barrierattr_t attr;

    if (shared == MAP_FAILED) {
        return NULL;
    }
    (void)pthread_barrierattr_init(&attr);
    (void)pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    (void)pthread_barrier_init(&shared->together, &attr, world->n_ranks);
    (void)pthread_barrierattr_destroy(&attr);
    return shared;
}

/* The first failure, if any; gives the mapping back. */
static const char *settle(const struct hyd_world *world, struct shared *shared)
{
    const char *failure = NULL;

    for (uint32_t i = 0; i < world->n_ranks && failure == NULL; i++) {
        if (shared->failure[i][0] != '\0') {
            failure = hyd_world_reason("rank %u: %s", i, shared->failure[i]);
        }
    }
    (void)munmap(shared, sizeof *shared);
    return failure;
}

static void *thread_main(void *arg)
{
    seat_run(arg);
    return NULL;
}

const char *hyd_world_run_threads(const struct hyd_world *world)
{
    struct shared *shared = share(world);
    struct seat seat[HYD_WORLD_MAX_RANKS];
    pthread_t thread[HYD_WORLD_MAX_RANKS];

    if (shared == NULL) {
        return "no shared memory";
    }
    for (uint32_t i = 0; i < world->n_ranks; i++) {
        seat[i] = (struct seat){world, shared, i};
        if (pthread_create(&thread[i], NULL, thread_main, &seat[i]) != 0) {
            return "no thread"; /* the others wait for it: nothing to clean up */
        }
    }
    for (uint32_t i = 0; i < world->n_ranks; i++) {
        (void)pthread_join(thread[i], NULL);
    }
    (void)pthread_barrier_destroy(&shared->together);
    return settle(world, shared);
}

static void reap(const struct hyd_world *world, struct shared *shared, const pid_t *pid)
{
    for (uint32_t n = 0; n < world->n_ranks; n++) {
        int how = 0;
        const pid_t gone = waitpid(-1, &how, 0);

        for (uint32_t i = 0; i < world->n_ranks; i++) {
            const bool may_die = (world->victims >> i & 1U) != 0;
            const bool fine = may_die ? WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL
                                      : WIFEXITED(how) && WEXITSTATUS(how) == 0;

            if (pid[i] == gone && !fine && shared->failure[i][0] == '\0') {
                (void)snprintf(shared->failure[i], HYD_WORLD_TEXT_BYTES,
                               "ended by %s %d",
                               WIFSIGNALED(how) ? "signal" : "exit code",
                               WIFSIGNALED(how) ? WTERMSIG(how) : WEXITSTATUS(how));
            }
        }
    }
}

const char *hyd_world_run_processes(const struct hyd_world *world)
{
    struct shared *shared = share(world);
    pid_t pid[HYD_WORLD_MAX_RANKS];

    if (shared == NULL) {
        return "no shared memory";
    }
    (void)fflush(NULL);
    for (uint32_t i = 0; i < world->n_ranks; i++) {
        struct seat seat = {world, shared, i};

        pid[i] = fork();
        if (pid[i] == 0) {
            (void)alarm(LIFE_S); /* a rank that hangs ends as a failure */
            seat_run(&seat);
            exit(shared->failure[i][0] != '\0');
        }
        if (pid[i] < 0) {
            return "no process";
        }
    }
    reap(world, shared, pid);
    return settle(world, shared);
}

struct abort_call {
    struct hyd_world_rank *self;
    pthread_barrier_t blocked;
};

static void *abort_main(void *arg)
{
    struct abort_call *call = arg;

    (void)pthread_barrier_wait(&call->blocked);
    call->self->ops->abort(call->self->transport);
    return NULL;
}

const char *hyd_world_abort_blocked(struct hyd_world_rank *self,
                                    const struct hyd_op op[2])
{
    struct abort_call call = {.self = self};
    struct hyd_op_group group = {0};
    struct hyd_op_group later = {0};
    hyd_status st = HYD_OK;
    hyd_status later_st = HYD_OK;
    pthread_t thread;

    (void)pthread_barrier_init(&call.blocked, NULL, 2);
    (void)pthread_create(&thread, NULL, abort_main, &call);
    st = self->ops->post_group(self->transport, op, 2, &group);
    (void)pthread_barrier_wait(&call.blocked);
    st = st == HYD_OK ? hyd_test_wait_group(self->ops, self->transport, &group) : st;
    later_st = self->ops->post_group(self->transport, op, 2, &later);
    later_st = later_st == HYD_OK
                   ? hyd_test_wait_group(self->ops, self->transport, &later)
                   : HYD_OK;
    (void)pthread_join(thread, NULL);
    (void)pthread_barrier_destroy(&call.blocked);
    return st == HYD_ERR_CANCELLED && later_st == HYD_ERR_CANCELLED
               ? NULL
               : hyd_world_reason("%s, then %s", hyd_status_name(st),
                                  hyd_status_name(later_st));
}
