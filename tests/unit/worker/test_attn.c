/* The engine's calls: what is refused and why, and how much may be in flight. */
#include "tests/unit/worker/attn_fixture.h"

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
    const struct hyd_group late = fixture_group(0, alone, only_0, id_1, tokens_7);
    const struct hyd_group early =
        fixture_group(0, ring_of_2, zero_one, id_0, tokens_16);
    const struct hyd_group foreign = fixture_group(0, alone, only_1, id_0, tokens_7);
    const struct hyd_group wide =
        fixture_group(0, heads_over_4, zero_one, id_0, tokens_7);
    const struct hyd_group full = fixture_group(0, alone, only_0, id_0, tokens_99);
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
    const struct hyd_group group =
        fixture_group(0, heads_over_3, three, id_0, tokens_7);

    refuse_step(f, &group, 1, HYD_ERR_LIMIT, "u");
}

static void attn_refuses_a_ring_it_was_not_made_for(void **state)
{
    struct fixture *f = *state;
    const struct hyd_group group =
        fixture_group(0, ring_of_2, zero_one, id_0, tokens_7);
    const struct hyd_attn_step step = {.group = &group, .n_groups = 1};
    struct hyd_attn_config config = fixture_config(f);
    struct hyd_attn *attn = NULL;
    struct hyd_attn_memory memory[2];
    struct hyd_error err = {.text = ""};

    config.limits.max_r = 1;
    assert_int_equal(hyd_attn_create(&config, &f->alloc.alloc, &attn, NULL), HYD_OK);
    assert_int_equal(
        hyd_attn_set_transport(attn, &hyd_transport_self, f->rank[0], 0, N, NULL),
        HYD_OK);
    assert_int_equal(hyd_attn_begin_step(attn, &step, &err), HYD_ERR_LIMIT);
    assert_string_equal(err.text, "group 0 has r = 2, the engine was made for 1");
    hyd_attn_memory(attn, &memory[0]);
    hyd_attn_memory(f->attn, &memory[1]);
    assert_true(memory[0].arena_bytes < memory[1].arena_bytes);
    hyd_attn_free(attn);
}

static void attn_says_which_cell_is_too_full(void **state)
{
    struct fixture *f = *state;
    const struct hyd_group full = fixture_group(4, alone, only_0, id_0, tokens_99);
    const struct hyd_attn_step step = {.group = &full, .n_groups = 1};
    struct hyd_error err = {.text = ""};

    assert_int_equal(hyd_attn_begin_step(f->attn, &step, &err), HYD_ERR_LIMIT);
    assert_string_equal(err.text,
                        "microbatch 4 gives rank 0 99 rows, more than a cap of "
                        "40 tokens and 2 split sequences allows");
}

static void attn_says_when_there_are_more_parts_than_it_was_made_for(void **state)
{
    static const uint32_t id[] = {0, 1, 2, 3, 4};
    static const uint32_t none[] = {0, 0, 0, 0, 0};
    struct fixture *f = *state;
    struct hyd_group group[5];
    const struct hyd_attn_step step = {.group = group, .n_groups = 5};
    struct hyd_error err = {.text = ""};

    /* Without tokens they need no memory, but five of them are under way at a time: the
     * engine has places for two sequences, cut once more by heads in 44 rows. */
    for (uint32_t i = 0; i < 5; i++) {
        group[i] = fixture_group(0, ring_of_2, zero_one, id + i, none);
    }
    assert_int_equal(hyd_attn_begin_step(f->attn, &step, &err), HYD_ERR_LIMIT);
    assert_string_equal(err.field, "split_seqs");
}

static void attn_refuses_tensors_that_do_not_fit_the_cell(void **state)
{
    /* Data that was cut for another plan has another number of rows. */
    struct fixture *f = *state;
    const struct hyd_group group = fixture_group(0, alone, only_0, id_0, tokens_16);
    const struct hyd_attn_step step = {.group = &group, .n_groups = 1};
    const struct hyd_attn_pass pass = {0, 0, HYD_DIRECTION_FORWARD};
    struct hyd_attn_io io = fixture_io(f, 15);
    struct hyd_error err = {.text = ""};

    assert_int_equal(hyd_attn_begin_step(f->attn, &step, NULL), HYD_OK);
    assert_int_equal(hyd_attn_start(f->attn, &pass, &io, &err), HYD_ERR_INVALID);
    assert_string_equal(err.text, "q has 1920 bytes, 16 rows need 2048");
    io = fixture_io(f, 16);
    io.v.row_stride_bytes = 12;
    assert_int_equal(hyd_attn_start(f->attn, &pass, &io, &err), HYD_ERR_LIMIT);
    io = fixture_io(f, 16);
    io.k.buf.mem = HYD_MEM_CUDA;
    assert_int_equal(hyd_attn_start(f->attn, &pass, &io, &err), HYD_ERR_INVALID);
    assert_string_equal(err.text, "k is not in the memory of compute naive");
    io = fixture_io(f, 16);
    assert_int_equal(hyd_attn_start(f->attn, &pass, &io, &err), HYD_OK);
    fixture_finish(f->attn);
}

static void trap_13_data_cut_for_another_degree_is_refused(void **state)
{
    /* Rank 0's rows of 16 tokens over two ranks; the plan says that it has them alone. */
    struct fixture *f = *state;
    const struct hyd_group planned = fixture_group(0, alone, only_0, id_0, tokens_16);
    const struct hyd_group cut = fixture_group(0, ring_of_2, zero_one, id_0, tokens_16);
    const struct hyd_attn_step step = {.group = &planned, .n_groups = 1};
    const struct hyd_attn_pass pass = {0, 0, HYD_DIRECTION_FORWARD};
    const struct hyd_attn_io io = fixture_io(f, hyd_group_rows(&cut, 0));

    assert_int_equal(hyd_attn_begin_step(f->attn, &step, NULL), HYD_OK);
    assert_int_equal(hyd_attn_start(f->attn, &pass, &io, NULL), HYD_ERR_INVALID);
}

static void tensors_of_a_cell_lie_one_behind_the_other(void **state)
{
    const struct hyd_attn_model model = {
        .dtype = HYD_DTYPE_BF16, .d = 24, .n_heads = 6, .n_kv_heads = 2};
    const size_t bytes = hyd_attn_io_bytes(&model, 7);
    const struct hyd_buf buf = {(void *)4096, bytes, HYD_MEM_CUDA};
    const struct hyd_attn_io io = hyd_attn_io_place(&model, 7, buf);
    const struct hyd_attn_tensor *const tensor[] = {&io.q,    &io.k,  &io.v,  &io.o,
                                                    &io.dout, &io.dq, &io.dk, &io.dv};
    uintptr_t end = 4096;

    (void)state;
    for (size_t i = 0; i < sizeof tensor / sizeof tensor[0]; i++) {
        const bool kv = i == 1 || i == 2 || i > 5;
        const size_t row = sizeof(uint16_t) * 24 * (kv ? 2 : 6);
        const uintptr_t at = (uintptr_t)tensor[i]->buf.at;

        assert_true(at >= end && at % 64 == 0);
        assert_true(tensor[i]->buf.bytes >= 7 * row);
        assert_int_equal(tensor[i]->buf.mem, HYD_MEM_CUDA);
        assert_int_equal(tensor[i]->row_stride_bytes, 0);
        end = at + tensor[i]->buf.bytes;
    }
    assert_true(end <= 4096 + bytes);
    assert_int_equal(hyd_attn_io_bytes(&model, 0), 0);
}

static void the_largest_cell_is_that_of_any_microbatch(void **state)
{
    const struct hyd_group group[] = {
        fixture_group(0, ring_of_2, zero_one, id_0, tokens_16),
        fixture_group(0, alone, only_1, id_1, tokens_7),
        fixture_group(2, alone, only_0, id_1, tokens_7),
        fixture_group(2, alone, only_0, id_2, tokens_7),
    };
    const struct hyd_attn_step step = {.group = group, .n_groups = 4};

    (void)state;
    assert_int_equal(hyd_attn_most_rows(&step, 0), 14);
    assert_int_equal(hyd_attn_most_rows(&step, 1), 15);
    assert_int_equal(hyd_attn_most_rows(&step, 5), 0);
}

static void attn_keeps_as_many_passes_as_it_was_made_for(void **state)
{
    /* n_saved = 2: a pipeline may run two forwards ahead, the third finds no room until a
     * backward has given its place back. */
    struct fixture *f = *state;
    struct hyd_group group[3];
    const struct hyd_attn_step step = {.group = group, .n_groups = 3, .backward = true};
    const struct hyd_attn_io io = fixture_io(f, 7);
    struct hyd_attn_io strided = io;
    struct hyd_attn_pass pass = {0, 0, HYD_DIRECTION_FORWARD};
    struct hyd_error err = {.text = ""};

    for (uint32_t m = 0; m < 3; m++) {
        group[m] = fixture_group(m, alone, only_0, id_0, tokens_7);
    }
    assert_int_equal(hyd_attn_begin_step(f->attn, &step, NULL), HYD_OK);
    for (uint32_t m = 0; m < 2; m++) {
        pass.microbatch = m;
        assert_int_equal(hyd_attn_start(f->attn, &pass, &io, NULL), HYD_OK);
        fixture_finish(f->attn);
    }
    assert_int_equal(hyd_attn_start(f->attn, &pass, &io, &err), HYD_ERR_INVALID);
    assert_string_equal(err.text, "microbatch 1 layer 0 already had its forward");
    pass.microbatch = 2;
    assert_int_equal(hyd_attn_start(f->attn, &pass, &io, &err), HYD_ERR_LIMIT);
    assert_string_equal(err.field, "n_saved");
    pass = (struct hyd_attn_pass){0, 0, HYD_DIRECTION_BACKWARD};
    /* An engine for tensors without gaps has no room to bring dout together. */
    strided.dout.row_stride_bytes = (ROW + 8) * sizeof(float);
    strided.dout.buf.bytes = sizeof f->dout;
    assert_int_equal(hyd_attn_start(f->attn, &pass, &strided, &err), HYD_ERR_LIMIT);
    assert_int_equal(hyd_attn_start(f->attn, &pass, &io, NULL), HYD_OK);
    fixture_finish(f->attn);
    assert_int_equal(hyd_attn_start(f->attn, &pass, &io, &err), HYD_ERR_INVALID);
    assert_string_equal(err.text, "microbatch 0 layer 0 has no forward to go back");
    pass = (struct hyd_attn_pass){2, 0, HYD_DIRECTION_FORWARD};
    assert_int_equal(hyd_attn_start(f->attn, &pass, &io, NULL), HYD_OK);
    fixture_finish(f->attn);
}

static void attn_is_done_at_once_when_the_microbatch_holds_nothing(void **state)
{
    struct fixture *f = *state;
    const struct hyd_group group = fixture_group(1, alone, only_0, id_0, tokens_7);
    const struct hyd_attn_step step = {.group = &group, .n_groups = 1};
    const struct hyd_attn_pass pass = {0, 0, HYD_DIRECTION_FORWARD};
    const struct hyd_attn_io io = {.q = {.row_stride_bytes = 0}};
    enum hyd_attn_state s = HYD_ATTN_BUSY;

    assert_int_equal(hyd_attn_begin_step(f->attn, &step, NULL), HYD_OK);
    assert_int_equal(hyd_attn_start(f->attn, &pass, &io, NULL), HYD_OK);
    assert_int_equal(hyd_attn_advance(f->attn, &s, NULL), HYD_OK);
    assert_int_equal(s, HYD_ATTN_DONE);
}

static void attn_create_refuses_what_it_cannot_be_made_for(void **state)
{
    struct fixture *f = *state;
    struct hyd_attn_config config = fixture_config(f);
    struct hyd_attn *attn = NULL;
    struct hyd_error err = {.text = ""};

    config.limits.cell_tokens = 0;
    assert_int_equal(hyd_attn_create(&config, &f->alloc.alloc, &attn, &err),
                     HYD_ERR_INVALID);
    assert_string_equal(err.field, "cap_tokens");
    config = fixture_config(f);
    config.limits.max_u = 17;
    assert_int_equal(hyd_attn_create(&config, &f->alloc.alloc, &attn, &err),
                     HYD_ERR_INVALID);
    assert_string_equal(err.field, "max_u");
    config = fixture_config(f);
    config.model.d = 300;
    assert_int_equal(hyd_attn_create(&config, &f->alloc.alloc, &attn, &err),
                     HYD_ERR_INVALID);
    assert_string_equal(err.field, "head_dim");
    assert_null(attn);
}

static void attn_create_leaves_nothing_behind_when_memory_runs_out(void **state)
{
    struct fixture *f = *state;
    const struct hyd_attn_config config = fixture_config(f);
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
    assert_int_equal(n, 4);
    hyd_attn_free(attn);
}

int main(void)
{
#define WITH_ENGINE(test) \
    cmocka_unit_test_setup_teardown(test, fixture_set_up, fixture_tear_down)
    const struct CMUnitTest tests[] = {
        WITH_ENGINE(attn_refuses_steps_that_cannot_run),
        WITH_ENGINE(attn_refuses_a_ulysses_degree_it_was_not_made_for),
        WITH_ENGINE(attn_refuses_a_ring_it_was_not_made_for),
        WITH_ENGINE(attn_says_which_cell_is_too_full),
        WITH_ENGINE(attn_says_when_there_are_more_parts_than_it_was_made_for),
        WITH_ENGINE(attn_refuses_tensors_that_do_not_fit_the_cell),
        WITH_ENGINE(trap_13_data_cut_for_another_degree_is_refused),
        WITH_ENGINE(attn_keeps_as_many_passes_as_it_was_made_for),
        WITH_ENGINE(attn_is_done_at_once_when_the_microbatch_holds_nothing),
        WITH_ENGINE(attn_create_refuses_what_it_cannot_be_made_for),
        WITH_ENGINE(attn_create_leaves_nothing_behind_when_memory_runs_out),
        cmocka_unit_test(tensors_of_a_cell_lie_one_behind_the_other),
        cmocka_unit_test(the_largest_cell_is_that_of_any_microbatch),
    };
#undef WITH_ENGINE

    return cmocka_run_group_tests(tests, NULL, NULL);
}
