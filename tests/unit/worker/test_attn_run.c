/* The engine at work: what a rank does while it waits, what it hides, what it reports, and
 * how it ends when something fails. */
#include <string.h>

#include "tests/unit/worker/attn_fixture.h"

static void attn_computes_single_rank_groups_while_others_are_awaited(void **state)
{
    /* Rank 1 never comes. Rank 0 first does everything that needs nobody, and only then
     * says that it waits; the clock runs from that moment on. */
    struct fixture *f = *state;
    const struct hyd_group group[] = {
        fixture_group(0, ring_of_2, zero_one, id_0, tokens_16),
        fixture_group(0, alone, only_0, id_1, tokens_7),
        fixture_group(0, alone, only_0, id_2, tokens_7),
    };
    struct hyd_attn_figures figures[3];
    const struct hyd_attn_step step = {
        .group = group, .n_groups = 3, .figures = figures, .backward = false};
    const struct hyd_attn_pass pass = {0, 0, HYD_DIRECTION_FORWARD};
    const struct hyd_attn_io io = fixture_io(f, 22);
    enum hyd_attn_state s = HYD_ATTN_BUSY;
    struct hyd_error err = {.text = ""};

    assert_int_equal(hyd_attn_begin_step(f->attn, &step, NULL), HYD_OK);
    assert_int_equal(hyd_attn_start(f->attn, &pass, &io, NULL), HYD_OK);
    for (int i = 0; i < 100 && s == HYD_ATTN_BUSY; i++) {
        assert_int_equal(hyd_attn_advance(f->attn, &s, NULL), HYD_OK);
    }
    assert_int_equal(s, HYD_ATTN_WAIT_NETWORK);
    assert_int_equal(figures[1].pairs, 7 * 8 / 2 * HEADS);
    assert_int_equal(figures[2].pairs, 7 * 8 / 2 * HEADS);
    assert_true(hyd_test_close(figures[1].compute_s, 28e-9 * HEADS, 1e-15, 0.0));
    assert_true(figures[0].wait_s == 0.0);
    /* 8 tokens of K and V, both heads, were not hidden. */
    assert_int_equal(figures[0].exposed_bytes, 8 * 2 * KV_ROW * 4);
    assert_int_equal(figures[0].sent_bytes, 8 * 2 * KV_ROW * 4);
    f->now_s += 2.5;
    assert_int_equal(hyd_attn_advance(f->attn, &s, NULL), HYD_OK);
    assert_int_equal(s, HYD_ATTN_WAIT_NETWORK);
    f->now_s += 1.0;
    hyd_transport_self.cancel_peer(f->rank[0], 1);
    assert_int_equal(hyd_attn_advance(f->attn, &s, &err), HYD_ERR_UNAVAILABLE);
    assert_string_equal(err.text,
                        "rank 0, ring of group 0, ring step 0: unavailable, peer 1");
    assert_true(hyd_test_close(figures[0].wait_s, 3.5, 1e-12, 0.0));
    assert_int_equal(figures[0].exposed_bytes, 8 * 2 * KV_ROW * 4);
}

/* Bring the ring of group 0 to where its first messages are posted. */
static void advance_to_post(struct fixture *f, const struct hyd_attn_step *step,
                            const struct hyd_attn_io *io)
{
    const struct hyd_attn_pass pass = {0, 0, HYD_DIRECTION_FORWARD};
    enum hyd_attn_state s = HYD_ATTN_BUSY;

    assert_int_equal(hyd_attn_begin_step(f->attn, step, NULL), HYD_OK);
    assert_int_equal(hyd_attn_start(f->attn, &pass, io, NULL), HYD_OK);
    while (step->figures[0].sent_bytes == 0) {
        assert_int_equal(hyd_attn_advance(f->attn, &s, NULL), HYD_OK);
        assert_int_equal(s, HYD_ATTN_BUSY);
    }
}

static void attn_hides_a_ring_step_behind_its_compute(void **state)
{
    /* Rank 1 has posted, too. The kernel drives the network between its tiles, so that
     * the wait behind the kernel finds everything there. */
    struct fixture *f = *state;
    const struct hyd_group group =
        fixture_group(0, ring_of_2, zero_one, id_0, tokens_16);
    struct hyd_attn_figures figures;
    const struct hyd_attn_step step = {
        .group = &group, .n_groups = 1, .figures = &figures};
    const struct hyd_attn_io io = fixture_io(f, 8);
    float block[4][8 * KV_ROW];
    const struct hyd_op op[] = {{HYD_OP_RECV, 0, block[0], sizeof block[0]},
                                {HYD_OP_RECV, 0, block[1], sizeof block[1]},
                                {HYD_OP_SEND, 0, block[2], sizeof block[2]},
                                {HYD_OP_SEND, 0, block[3], sizeof block[3]}};
    struct hyd_op_group posted = {0};

    memset(block, 0, sizeof block);
    advance_to_post(f, &step, &io);
    assert_int_equal(hyd_transport_self.post_group(f->rank[1], op, 4, &posted), HYD_OK);
    fixture_finish(f->attn); /* fails the test when it ever waits for the network */
    assert_int_equal(posted.n_pending, 0);
    assert_int_equal(figures.received_bytes, sizeof block[2] + sizeof block[3]);
    assert_int_equal(figures.exposed_bytes, 0);
    assert_true(figures.wait_s == 0.0);
}

static void attn_stops_computing_when_the_transport_is_aborted(void **state)
{
    struct fixture *f = *state;
    const struct hyd_group group[] = {
        fixture_group(0, ring_of_2, zero_one, id_0, tokens_16),
        fixture_group(0, alone, only_0, id_1, tokens_7),
    };
    struct hyd_attn_figures figures[2];
    const struct hyd_attn_step step = {
        .group = group, .n_groups = 2, .figures = figures};
    const struct hyd_attn_io io = fixture_io(f, 15);
    enum hyd_attn_state s;
    struct hyd_error err = {.text = ""};

    advance_to_post(f, &step, &io);
    hyd_transport_self.abort(f->rank[0]);
    assert_int_equal(hyd_attn_advance(f->attn, &s, &err), HYD_ERR_CANCELLED);
    assert_string_equal(err.text, "rank 0, compute of group 0: cancelled");
}

static void attn_stays_failed_until_the_step_ends(void **state)
{
    struct fixture *f = *state;
    const struct hyd_group group =
        fixture_group(0, heads_over_2, zero_one, id_0, tokens_16);
    const struct hyd_group own = fixture_group(0, alone, only_0, id_0, tokens_7);
    const struct hyd_attn_step step = {.group = &group, .n_groups = 1};
    const struct hyd_attn_step next = {.group = &own, .n_groups = 1};
    const struct hyd_attn_pass pass = {0, 0, HYD_DIRECTION_FORWARD};
    const struct hyd_attn_io io = fixture_io(f, 8);
    enum hyd_attn_state s = HYD_ATTN_BUSY;
    hyd_status st = HYD_OK;

    assert_int_equal(hyd_attn_begin_step(f->attn, &step, NULL), HYD_OK);
    assert_int_equal(hyd_attn_begin_step(f->attn, &step, NULL), HYD_ERR_INVALID);
    assert_int_equal(hyd_attn_start(f->attn, &pass, &io, NULL), HYD_OK);
    hyd_transport_self.abort(f->rank[0]);
    for (int i = 0; i < 100 && st == HYD_OK; i++) {
        st = hyd_attn_advance(f->attn, &s, NULL);
    }
    assert_int_equal(st, HYD_ERR_CANCELLED);
    assert_int_equal(hyd_attn_advance(f->attn, &s, NULL), HYD_ERR_CANCELLED);
    assert_int_equal(hyd_attn_start(f->attn, &pass, &io, NULL), HYD_ERR_INVALID);
    hyd_attn_end_step(f->attn);
    assert_int_equal(hyd_attn_begin_step(f->attn, &next, NULL), HYD_OK);
    assert_int_equal(hyd_attn_start(f->attn, &pass, &io, NULL), HYD_OK);
    fixture_finish(f->attn);
}

static void attn_reports_a_kernel_that_fails(void **state)
{
    struct fixture *f = *state;
    const struct hyd_group group = fixture_group(0, alone, only_0, id_0, tokens_7);
    const struct hyd_attn_step step = {.group = &group, .n_groups = 1};
    const struct hyd_attn_pass pass = {0, 0, HYD_DIRECTION_FORWARD};
    const struct hyd_attn_io io = fixture_io(f, 7);
    enum hyd_attn_state s = HYD_ATTN_BUSY;
    struct hyd_error err = {.text = ""};
    hyd_status st = HYD_OK;

    hyd_compute_naive_knobs(f->dev)->fail_in = 1;
    assert_int_equal(hyd_attn_begin_step(f->attn, &step, NULL), HYD_OK);
    assert_int_equal(hyd_attn_start(f->attn, &pass, &io, NULL), HYD_OK);
    for (int i = 0; i < 10 && st == HYD_OK; i++) {
        st = hyd_attn_advance(f->attn, &s, &err);
    }
    assert_int_equal(st, HYD_ERR_INTERNAL);
    assert_string_equal(err.text, "rank 0, compute of group 0: internal error");
}

static void attn_looks_again_when_the_device_has_a_queue(void **state)
{
    struct fixture *f = *state;
    const struct hyd_group group = fixture_group(0, alone, only_0, id_0, tokens_7);
    const struct hyd_attn_step step = {.group = &group, .n_groups = 1};
    const struct hyd_attn_pass pass = {0, 0, HYD_DIRECTION_FORWARD};
    const struct hyd_attn_io io = fixture_io(f, 7);
    enum hyd_attn_state s = HYD_ATTN_BUSY;
    unsigned n_waits = 0;

    hyd_compute_naive_knobs(f->dev)->lag = 3;
    assert_int_equal(hyd_attn_begin_step(f->attn, &step, NULL), HYD_OK);
    assert_int_equal(hyd_attn_start(f->attn, &pass, &io, NULL), HYD_OK);
    for (int i = 0; i < 20 && s != HYD_ATTN_DONE; i++) {
        assert_int_equal(hyd_attn_advance(f->attn, &s, NULL), HYD_OK);
        n_waits += s == HYD_ATTN_WAIT_DEVICE;
    }
    assert_int_equal(s, HYD_ATTN_DONE);
    assert_int_equal(n_waits, 3);
}

static void attn_progress_grows_only_when_something_was_done(void **state)
{
    struct fixture *f = *state;
    const struct hyd_group group =
        fixture_group(0, ring_of_2, zero_one, id_0, tokens_16);
    const struct hyd_attn_step step = {.group = &group, .n_groups = 1};
    const struct hyd_attn_pass pass = {0, 0, HYD_DIRECTION_FORWARD};
    const struct hyd_attn_io io = fixture_io(f, 8);
    enum hyd_attn_state s = HYD_ATTN_BUSY;
    uint64_t before;

    assert_int_equal(hyd_attn_begin_step(f->attn, &step, NULL), HYD_OK);
    assert_int_equal(hyd_attn_start(f->attn, &pass, &io, NULL), HYD_OK);
    while (s != HYD_ATTN_WAIT_NETWORK) {
        before = hyd_attn_progress(f->attn);
        assert_int_equal(hyd_attn_advance(f->attn, &s, NULL), HYD_OK);
        assert_int_equal(hyd_attn_progress(f->attn) - before,
                         s == HYD_ATTN_WAIT_NETWORK ? 0 : 1);
    }
    before = hyd_attn_progress(f->attn);
    assert_int_equal(hyd_attn_advance(f->attn, &s, NULL), HYD_OK);
    assert_int_equal(hyd_attn_progress(f->attn), before);
    hyd_transport_self.abort(f->rank[0]);
}

int main(void)
{
#define WITH_ENGINE(test) \
    cmocka_unit_test_setup_teardown(test, fixture_set_up, fixture_tear_down)
    const struct CMUnitTest tests[] = {
        WITH_ENGINE(attn_computes_single_rank_groups_while_others_are_awaited),
        WITH_ENGINE(attn_hides_a_ring_step_behind_its_compute),
        WITH_ENGINE(attn_stops_computing_when_the_transport_is_aborted),
        WITH_ENGINE(attn_stays_failed_until_the_step_ends),
        WITH_ENGINE(attn_reports_a_kernel_that_fails),
        WITH_ENGINE(attn_looks_again_when_the_device_has_a_queue),
        WITH_ENGINE(attn_progress_grows_only_when_something_was_done),
    };
#undef WITH_ENGINE

    return cmocka_run_group_tests(tests, NULL, NULL);
}
