/* The engine's calls: what is refused and why, what may be in flight, what a rank does
 * while it waits, and what it reports. */
#include "worker/attn/attn.h"

#include <stdlib.h>
#include <string.h>

#include "tests/lib/compute_naive.h"
#include "tests/lib/fault_alloc.h"
#include "tests/lib/test.h"
#include "worker/transport/self/transport_self.h"

enum { D = 8, HEADS = 4, KV = 2, N = 3, CAP = 40, ROW = HEADS * D, KV_ROW = KV * D };

static const uint32_t zero_one[] = {0, 1};
static const uint32_t only_0[] = {0};
static const uint32_t only_1[] = {1};
static const uint32_t id_0[] = {0};
static const uint32_t id_1[] = {1};
static const uint32_t id_2[] = {2};
static const uint32_t tokens_16[] = {16};
static const uint32_t tokens_7[] = {7};
static const uint32_t tokens_99[] = {99};

/* A world of N ranks of one process; rank 0 has an engine. */
struct fixture {
    struct hyd_compute *dev;
    struct hyd_attn *attn;
    struct hyd_transport *rank[N];
    struct hyd_fault_alloc alloc;
    double now_s;
    float q[CAP * ROW], k[CAP * KV_ROW], v[CAP * KV_ROW], o[CAP * ROW], dout[CAP * ROW];
    float dq[CAP * ROW], dk[CAP * KV_ROW], dv[CAP * KV_ROW];
};

static double fake_now_s(void *ctx)
{
    return *(double *)ctx;
}

static struct hyd_attn_config config_of(struct fixture *f)
{
    return (struct hyd_attn_config){
        .model = {.dtype = HYD_DTYPE_F32,
                  .d = D,
                  .n_heads = HEADS,
                  .n_kv_heads = KV,
                  .see = HYD_SEE_CAUSAL},
        .limits = {.cell_tokens = CAP,
                   .split_seqs = 2,
                   .max_u = 2,
                   .dense = true,
                   .n_saved = 2},
        .compute = &hyd_compute_naive,
        .dev = f->dev,
        .clock = {fake_now_s, &f->now_s},
    };
}

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    const struct hyd_compute_config compute_config = {.n_threads = 1};
    struct hyd_attn_config config;

    if (f == NULL || hyd_compute_naive.open(&compute_config, &f->dev, NULL) != HYD_OK) {
        return -1;
    }
    hyd_fault_alloc_init(&f->alloc);
    config = config_of(f);
    for (uint32_t i = 0; i < N; i++) {
        const struct hyd_transport_config net = {
            .rank = i, .n_ranks = N, .epoch = 1, .session = "attn"};

        if (hyd_transport_self.open(&net, &f->rank[i], NULL) != HYD_OK) {
            return -1;
        }
    }
    if (hyd_attn_create(&config, &f->alloc.alloc, &f->attn, NULL) != HYD_OK ||
        hyd_attn_set_transport(f->attn, &hyd_transport_self, f->rank[0], 0, N, NULL) !=
            HYD_OK) {
        return -1;
    }
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    for (uint32_t i = 0; i < N; i++) {
        hyd_transport_self.close(f->rank[i]);
    }
    hyd_attn_free(f->attn);
    hyd_compute_naive.close(f->dev);
    assert_int_equal(f->alloc.live, 0);
    free(f);
    return 0;
}

static struct hyd_attn_tensor tensor(float *at, size_t n)
{
    return (struct hyd_attn_tensor){{at, n * sizeof *at, HYD_MEM_HOST}, 0};
}

static struct hyd_attn_io io_of(struct fixture *f, uint32_t n_rows)
{
    return (struct hyd_attn_io){
        .q = tensor(f->q, (size_t)n_rows * ROW),
        .k = tensor(f->k, (size_t)n_rows * KV_ROW),
        .v = tensor(f->v, (size_t)n_rows * KV_ROW),
        .o = tensor(f->o, (size_t)n_rows * ROW),
        .dout = tensor(f->dout, (size_t)n_rows * ROW),
        .dq = tensor(f->dq, (size_t)n_rows * ROW),
        .dk = tensor(f->dk, (size_t)n_rows * KV_ROW),
        .dv = tensor(f->dv, (size_t)n_rows * KV_ROW),
    };
}

static struct hyd_group group_of(uint32_t microbatch, const uint32_t u_r[2],
                                 const uint32_t *rank, const uint32_t *id,
                                 const uint32_t *length)
{
    return (struct hyd_group){.microbatch = microbatch,
                              .u = u_r[0],
                              .r = u_r[1],
                              .n_seqs = 1,
                              .rank = rank,
                              .id = id,
                              .length_tokens = length};
}

static const uint32_t alone[2] = {1, 1};
static const uint32_t ring_of_2[2] = {1, 2};
static const uint32_t heads_over_2[2] = {2, 1};
static const uint32_t heads_over_4[2] = {4, 1};

/* Begin a step that must be refused, naming the field. */
static void refuse_step(struct fixture *f, const struct hyd_group *group,
                        size_t n_groups, hyd_status want, const char *field)
{
    const struct hyd_attn_step step = {
        .group = group, .n_groups = n_groups, .backward = true};
    struct hyd_error err = {.text = ""};

    assert_int_equal(hyd_attn_begin_step(f->attn, &step, &err), want);
    assert_string_equal(err.field, field);
}

static void attn_refuses_steps_that_cannot_run(void **state)
{
    struct fixture *f = *state;
    const struct hyd_group late = group_of(0, alone, only_0, id_1, tokens_7);
    const struct hyd_group early = group_of(0, ring_of_2, zero_one, id_0, tokens_16);
    const struct hyd_group foreign = group_of(0, alone, only_1, id_0, tokens_7);
    const struct hyd_group wide = group_of(0, heads_over_4, zero_one, id_0, tokens_7);
    const struct hyd_group full = group_of(0, alone, only_0, id_0, tokens_99);
    const struct hyd_group turned[] = {late, early};

    refuse_step(f, turned, 2, HYD_ERR_INVALID, "groups");
    refuse_step(f, &foreign, 1, HYD_ERR_INVALID, "ranks");
    refuse_step(f, &wide, 1, HYD_ERR_INVALID, "r");
    refuse_step(f, &full, 1, HYD_ERR_LIMIT, "cap_tokens");
    assert_int_equal(hyd_attn_set_transport(f->attn, NULL, NULL, 0, N, NULL), HYD_OK);
    refuse_step(f, &early, 1, HYD_ERR_INVALID, "transport");
}

static void attn_refuses_a_ulysses_degree_it_was_not_made_for(void **state)
{
    static const uint32_t three[] = {0, 1, 2};
    static const uint32_t heads_over_3[2] = {3, 1};
    struct fixture *f = *state;
    const struct hyd_group group = group_of(0, heads_over_3, three, id_0, tokens_7);

    refuse_step(f, &group, 1, HYD_ERR_LIMIT, "u");
}

static void attn_says_which_cell_is_too_full(void **state)
{
    struct fixture *f = *state;
    const struct hyd_group full = group_of(4, alone, only_0, id_0, tokens_99);
    const struct hyd_attn_step step = {.group = &full, .n_groups = 1};
    struct hyd_error err = {.text = ""};

    assert_int_equal(hyd_attn_begin_step(f->attn, &step, &err), HYD_ERR_LIMIT);
    assert_string_equal(err.text,
                        "microbatch 4 gives rank 0 99 rows, more than a cap of "
                        "40 tokens and 2 split sequences allows");
}

/* Run what was started until it is done; nothing else may happen. */
static void finish(struct hyd_attn *attn)
{
    enum hyd_attn_state s = HYD_ATTN_BUSY;

    for (int i = 0; i < 1000 && s != HYD_ATTN_DONE; i++) {
        assert_int_equal(hyd_attn_advance(attn, &s, NULL), HYD_OK);
        assert_int_not_equal(s, HYD_ATTN_WAIT_NETWORK);
    }
    assert_int_equal(s, HYD_ATTN_DONE);
}

static void attn_refuses_tensors_that_do_not_fit_the_cell(void **state)
{
    /* Data that was cut for another plan has another number of rows. */
    struct fixture *f = *state;
    const struct hyd_group group = group_of(0, alone, only_0, id_0, tokens_16);
    const struct hyd_attn_step step = {.group = &group, .n_groups = 1};
    const struct hyd_attn_pass pass = {0, 0, HYD_PASS_FORWARD};
    struct hyd_attn_io io = io_of(f, 15);
    struct hyd_error err = {.text = ""};

    assert_int_equal(hyd_attn_begin_step(f->attn, &step, NULL), HYD_OK);
    assert_int_equal(hyd_attn_start(f->attn, &pass, &io, &err), HYD_ERR_INVALID);
    assert_string_equal(err.text, "q has 1920 bytes, 16 rows need 2048");
    io = io_of(f, 16);
    io.v.row_stride_bytes = 12;
    assert_int_equal(hyd_attn_start(f->attn, &pass, &io, &err), HYD_ERR_LIMIT);
    io = io_of(f, 16);
    io.k.buf.mem = HYD_MEM_CUDA;
    assert_int_equal(hyd_attn_start(f->attn, &pass, &io, &err), HYD_ERR_INVALID);
    assert_string_equal(err.text, "k is not in the memory of compute naive");
    io = io_of(f, 16);
    assert_int_equal(hyd_attn_start(f->attn, &pass, &io, &err), HYD_OK);
    finish(f->attn);
}

static void attn_keeps_as_many_passes_as_it_was_made_for(void **state)
{
    /* n_saved = 2: a pipeline may run two forwards ahead, the third finds no room until a
     * backward has given its place back. */
    struct fixture *f = *state;
    struct hyd_group group[3];
    const struct hyd_attn_step step = {.group = group, .n_groups = 3, .backward = true};
    const struct hyd_attn_io io = io_of(f, 7);
    struct hyd_attn_pass pass = {0, 0, HYD_PASS_FORWARD};
    struct hyd_error err = {.text = ""};

    for (uint32_t m = 0; m < 3; m++) {
        group[m] = group_of(m, alone, only_0, id_0, tokens_7);
    }
    assert_int_equal(hyd_attn_begin_step(f->attn, &step, NULL), HYD_OK);
    for (uint32_t m = 0; m < 2; m++) {
        pass.microbatch = m;
        assert_int_equal(hyd_attn_start(f->attn, &pass, &io, NULL), HYD_OK);
        finish(f->attn);
    }
    assert_int_equal(hyd_attn_start(f->attn, &pass, &io, &err), HYD_ERR_INVALID);
    assert_string_equal(err.text, "microbatch 1 layer 0 already had its forward");
    pass.microbatch = 2;
    assert_int_equal(hyd_attn_start(f->attn, &pass, &io, &err), HYD_ERR_LIMIT);
    assert_string_equal(err.field, "n_saved");
    pass = (struct hyd_attn_pass){0, 0, HYD_PASS_BACKWARD};
    assert_int_equal(hyd_attn_start(f->attn, &pass, &io, NULL), HYD_OK);
    finish(f->attn);
    assert_int_equal(hyd_attn_start(f->attn, &pass, &io, &err), HYD_ERR_INVALID);
    assert_string_equal(err.text, "microbatch 0 layer 0 has no forward to go back");
    pass = (struct hyd_attn_pass){2, 0, HYD_PASS_FORWARD};
    assert_int_equal(hyd_attn_start(f->attn, &pass, &io, NULL), HYD_OK);
    finish(f->attn);
}

static void attn_is_done_at_once_when_the_microbatch_holds_nothing(void **state)
{
    struct fixture *f = *state;
    const struct hyd_group group = group_of(1, alone, only_0, id_0, tokens_7);
    const struct hyd_attn_step step = {.group = &group, .n_groups = 1};
    const struct hyd_attn_pass pass = {0, 0, HYD_PASS_FORWARD};
    const struct hyd_attn_io io = {.q = {.row_stride_bytes = 0}};
    enum hyd_attn_state s = HYD_ATTN_BUSY;

    assert_int_equal(hyd_attn_begin_step(f->attn, &step, NULL), HYD_OK);
    assert_int_equal(hyd_attn_start(f->attn, &pass, &io, NULL), HYD_OK);
    assert_int_equal(hyd_attn_advance(f->attn, &s, NULL), HYD_OK);
    assert_int_equal(s, HYD_ATTN_DONE);
}

static void attn_computes_single_rank_groups_while_others_are_awaited(void **state)
{
    /* Rank 1 never comes. Rank 0 first does everything that needs nobody, and only then
     * says that it waits; the clock runs from that moment on. */
    struct fixture *f = *state;
    const struct hyd_group group[] = {
        group_of(0, ring_of_2, zero_one, id_0, tokens_16),
        group_of(0, alone, only_0, id_1, tokens_7),
        group_of(0, alone, only_0, id_2, tokens_7),
    };
    struct hyd_attn_figures figures[3];
    const struct hyd_attn_step step = {
        .group = group, .n_groups = 3, .figures = figures, .backward = false};
    const struct hyd_attn_pass pass = {0, 0, HYD_PASS_FORWARD};
    const struct hyd_attn_io io = io_of(f, 22);
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
    const struct hyd_attn_pass pass = {0, 0, HYD_PASS_FORWARD};
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
    const struct hyd_group group = group_of(0, ring_of_2, zero_one, id_0, tokens_16);
    struct hyd_attn_figures figures;
    const struct hyd_attn_step step = {
        .group = &group, .n_groups = 1, .figures = &figures};
    const struct hyd_attn_io io = io_of(f, 8);
    float block[4][8 * KV_ROW];
    const struct hyd_op op[] = {{HYD_OP_RECV, 0, block[0], sizeof block[0]},
                                {HYD_OP_RECV, 0, block[1], sizeof block[1]},
                                {HYD_OP_SEND, 0, block[2], sizeof block[2]},
                                {HYD_OP_SEND, 0, block[3], sizeof block[3]}};
    struct hyd_op_group posted = {0};

    memset(block, 0, sizeof block);
    advance_to_post(f, &step, &io);
    assert_int_equal(hyd_transport_self.post_group(f->rank[1], op, 4, &posted), HYD_OK);
    finish(f->attn); /* fails the test when it ever waits for the network */
    assert_int_equal(posted.n_pending, 0);
    assert_int_equal(figures.received_bytes, sizeof block[2] + sizeof block[3]);
    assert_int_equal(figures.exposed_bytes, 0);
    assert_true(figures.wait_s == 0.0);
}

static void attn_stops_computing_when_the_transport_is_aborted(void **state)
{
    struct fixture *f = *state;
    const struct hyd_group group[] = {
        group_of(0, ring_of_2, zero_one, id_0, tokens_16),
        group_of(0, alone, only_0, id_1, tokens_7),
    };
    struct hyd_attn_figures figures[2];
    const struct hyd_attn_step step = {
        .group = group, .n_groups = 2, .figures = figures};
    const struct hyd_attn_io io = io_of(f, 15);
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
    const struct hyd_group group = group_of(0, heads_over_2, zero_one, id_0, tokens_16);
    const struct hyd_group own = group_of(0, alone, only_0, id_0, tokens_7);
    const struct hyd_attn_step step = {.group = &group, .n_groups = 1};
    const struct hyd_attn_step next = {.group = &own, .n_groups = 1};
    const struct hyd_attn_pass pass = {0, 0, HYD_PASS_FORWARD};
    const struct hyd_attn_io io = io_of(f, 8);
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
    finish(f->attn);
}

static void attn_reports_a_kernel_that_fails(void **state)
{
    struct fixture *f = *state;
    const struct hyd_group group = group_of(0, alone, only_0, id_0, tokens_7);
    const struct hyd_attn_step step = {.group = &group, .n_groups = 1};
    const struct hyd_attn_pass pass = {0, 0, HYD_PASS_FORWARD};
    const struct hyd_attn_io io = io_of(f, 7);
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
    const struct hyd_group group = group_of(0, alone, only_0, id_0, tokens_7);
    const struct hyd_attn_step step = {.group = &group, .n_groups = 1};
    const struct hyd_attn_pass pass = {0, 0, HYD_PASS_FORWARD};
    const struct hyd_attn_io io = io_of(f, 7);
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
    const struct hyd_group group = group_of(0, ring_of_2, zero_one, id_0, tokens_16);
    const struct hyd_attn_step step = {.group = &group, .n_groups = 1};
    const struct hyd_attn_pass pass = {0, 0, HYD_PASS_FORWARD};
    const struct hyd_attn_io io = io_of(f, 8);
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

static void attn_create_refuses_what_it_cannot_be_made_for(void **state)
{
    struct fixture *f = *state;
    struct hyd_attn_config config = config_of(f);
    struct hyd_attn *attn = NULL;
    struct hyd_error err = {.text = ""};

    config.limits.cell_tokens = 0;
    assert_int_equal(hyd_attn_create(&config, &f->alloc.alloc, &attn, &err),
                     HYD_ERR_INVALID);
    assert_string_equal(err.field, "cap_tokens");
    config = config_of(f);
    config.limits.max_u = 17;
    assert_int_equal(hyd_attn_create(&config, &f->alloc.alloc, &attn, &err),
                     HYD_ERR_INVALID);
    assert_string_equal(err.field, "max_u");
    config = config_of(f);
    config.model.d = 300;
    assert_int_equal(hyd_attn_create(&config, &f->alloc.alloc, &attn, &err),
                     HYD_ERR_INVALID);
    assert_string_equal(err.field, "head_dim");
    assert_null(attn);
}

static void attn_create_leaves_nothing_behind_when_memory_runs_out(void **state)
{
    struct fixture *f = *state;
    const struct hyd_attn_config config = config_of(f);
    struct hyd_attn *attn = NULL;
    size_t live = f->alloc.live;
    size_t n = 0;
    hyd_status st;

    do {
        f->alloc.n_calls = 0;
        f->alloc.fail_at = ++n;
        st = hyd_attn_create(&config, &f->alloc.alloc, &attn, NULL);
        assert_true(st == HYD_OK || (st == HYD_ERR_NO_MEMORY && f->alloc.live == live));
    } while (st != HYD_OK);
    f->alloc.fail_at = 0;
    assert_int_equal(n, 3);
    hyd_attn_free(attn);
}

int main(void)
{
#define WITH_ENGINE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        WITH_ENGINE(attn_refuses_steps_that_cannot_run),
        WITH_ENGINE(attn_refuses_a_ulysses_degree_it_was_not_made_for),
        WITH_ENGINE(attn_says_which_cell_is_too_full),
        WITH_ENGINE(attn_refuses_tensors_that_do_not_fit_the_cell),
        WITH_ENGINE(attn_keeps_as_many_passes_as_it_was_made_for),
        WITH_ENGINE(attn_is_done_at_once_when_the_microbatch_holds_nothing),
        WITH_ENGINE(attn_computes_single_rank_groups_while_others_are_awaited),
        WITH_ENGINE(attn_hides_a_ring_step_behind_its_compute),
        WITH_ENGINE(attn_stops_computing_when_the_transport_is_aborted),
        WITH_ENGINE(attn_stays_failed_until_the_step_ends),
        WITH_ENGINE(attn_reports_a_kernel_that_fails),
        WITH_ENGINE(attn_looks_again_when_the_device_has_a_queue),
        WITH_ENGINE(attn_progress_grows_only_when_something_was_done),
        WITH_ENGINE(attn_create_refuses_what_it_cannot_be_made_for),
        WITH_ENGINE(attn_create_leaves_nothing_behind_when_memory_runs_out),
    };
#undef WITH_ENGINE

    return cmocka_run_group_tests(tests, NULL, NULL);
}
