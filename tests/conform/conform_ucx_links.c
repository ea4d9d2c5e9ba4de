/* How UCX's links are made when an epoch begins: one connection a pair, dialled from one
 * side, and whose link cannot be made is known by name. */
#include "worker/transport/ucx/transport_ucx.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "tests/lib/test.h"
#include "tests/lib/world.h"

enum { N_RANKS = 6, N_PAIRS = N_RANKS * (N_RANKS - 1) / 2, MAX_ROUNDS = 200000 };

static atomic_uint n_accepted;

int accept(int fd, void *address, void *length);

/* UCX's own calls come here first: each connection is accepted once by somebody. */
int accept(int fd, void *address, void *length)
{
    int (*next)(int, void *, void *) = NULL;
    int accepted = -1;

    *(void **)&next = dlsym(RTLD_NEXT, "accept");
    accepted = next(fd, address, length);
    if (accepted >= 0) {
        atomic_fetch_add(&n_accepted, 1);
    }
    return accepted;
}

static const char *no_body(struct hyd_world_rank *self)
{
    (void)pthread_barrier_wait(self->together);
    return NULL;
}

/* Two that dial each other at once, and one of these connections cut, is what UCX 1.13
 * aborts on. Many worlds, since whether connections cross is a matter of chance. */
static void links_are_dialled_from_one_side(void **state)
{
    const struct hyd_world world = {.ops = &hyd_transport_ucx,
                                    .n_ranks = N_RANKS,
                                    .epoch = 3,
                                    .links = "tcp,self",
                                    .body = no_body};

    (void)state;
    for (int i = 0; i < 5; i++) {
        atomic_store(&n_accepted, 0);
        assert_null(hyd_world_run_threads(&world));
        assert_int_equal(atomic_load(&n_accepted), N_PAIRS);
    }
}

/* ---- a rank that nobody reaches ---- */

struct trio {
    struct hyd_transport *transport[3];
    bool done[3];
};

static void open_one(uint32_t rank, struct hyd_transport **ret_transport,
                     const void **ret_address, size_t *ret_n_bytes)
{
    const struct hyd_transport_config config = {
        .rank = rank, .n_ranks = 3, .epoch = 5, .links = "tcp,self"};

    assert_int_equal(hyd_transport_ucx.open(&config, ret_transport, NULL), HYD_OK);
    assert_int_equal(
        hyd_transport_ucx.address(*ret_transport, ret_address, ret_n_bytes), HYD_OK);
}

/* cut: what the others know of rank 2 leads to a place where nobody listens any more. */
static void open_all(struct trio *trio, bool cut)
{
    const void *address[3] = {NULL};
    size_t n_bytes[3] = {0};
    unsigned char nowhere[4096];
    struct hyd_transport *gone = NULL;

    for (uint32_t rank = 0; rank < 3; rank++) {
        open_one(rank, &trio->transport[rank], &address[rank], &n_bytes[rank]);
    }
    if (cut) {
        open_one(2, &gone, &address[2], &n_bytes[2]);
        assert_true(n_bytes[2] <= sizeof nowhere);
        memcpy(nowhere, address[2], n_bytes[2]);
        address[2] = nowhere;
        hyd_transport_ucx.close(gone);
    }
    for (uint32_t rank = 0; rank < 3; rank++) {
        assert_int_equal(
            hyd_transport_ucx.connect(trio->transport[rank], address, n_bytes, NULL),
            HYD_OK);
    }
}

static size_t missing(const struct trio *trio, uint32_t rank, uint32_t *ret_missing)
{
    return hyd_transport_ucx.missing(trio->transport[rank], ret_missing, 3);
}

/* All warm in turn, until the two that can reach each other have. */
static void warm_all(struct trio *trio)
{
    uint32_t names[3];

    for (int i = 0; i < MAX_ROUNDS; i++) {
        for (uint32_t rank = 0; rank < 3; rank++) {
            assert_int_equal(
                hyd_transport_ucx.warm(trio->transport[rank], &trio->done[rank], NULL),
                HYD_OK);
            (void)hyd_transport_ucx.progress(trio->transport[rank]);
        }
        if (missing(trio, 0, names) <= 1 && missing(trio, 1, names) <= 1) {
            return;
        }
        (void)nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    }
    fail_msg("the link of the two that are well is not warm");
}

static void links_that_cannot_be_made_are_named(void **state)
{
    struct trio trio = {{NULL}, {false}};
    uint32_t names[3];

    (void)state;
    open_all(&trio, true);
    warm_all(&trio);
    for (uint32_t rank = 0; rank < 2; rank++) {
        assert_false(trio.done[rank]);
        assert_int_equal(missing(&trio, rank, names), 1);
        assert_int_equal(names[0], 2);
    }
    assert_false(trio.done[2]);
    assert_int_equal(missing(&trio, 2, names), 2);
    for (uint32_t rank = 0; rank < 3; rank++) {
        hyd_transport_ucx.close(trio.transport[rank]);
    }
}

static void links_are_none_missing_when_warm(void **state)
{
    struct trio trio = {{NULL}, {false}};
    uint32_t names[3];

    (void)state;
    open_all(&trio, false);
    for (int i = 0; i < MAX_ROUNDS && !(trio.done[0] && trio.done[1] && trio.done[2]);
         i++) {
        for (uint32_t rank = 0; rank < 3; rank++) {
            assert_int_equal(
                hyd_transport_ucx.warm(trio.transport[rank], &trio.done[rank], NULL),
                HYD_OK);
            (void)hyd_transport_ucx.progress(trio.transport[rank]);
        }
    }
    for (uint32_t rank = 0; rank < 3; rank++) {
        assert_true(trio.done[rank]);
        assert_int_equal(missing(&trio, rank, names), 0);
        hyd_transport_ucx.close(trio.transport[rank]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(links_are_dialled_from_one_side),
        cmocka_unit_test(links_that_cannot_be_made_are_named),
        cmocka_unit_test(links_are_none_missing_when_warm),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
