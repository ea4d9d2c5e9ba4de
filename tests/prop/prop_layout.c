/* (rank, row) and (sequence, token) are one to one for every degree up to 16 and every u
 * that divides it; the two intervals after the exchange are exactly the chunks of the u
 * members; heads cover all heads once and every kv head that they need. */
#include "tests/lib/prop.h"
#include "tests/lib/test.h"
#include "worker/attn/layout.h"

enum { MAX_DEGREE = 16, MAX_SEQS = 3, MAX_TOKENS = 700 };

struct world {
    uint32_t rank[MAX_DEGREE];
    uint32_t id[MAX_SEQS];
    uint32_t length[MAX_SEQS];
    struct hyd_group group;
};

static void make_group(struct hyd_rng *rng, uint32_t u, uint32_t r, struct world *world)
{
    uint32_t d = u * r;

    for (uint32_t i = 0; i < MAX_DEGREE; i++) {
        world->rank[i] = i;
    }
    world->group = (struct hyd_group){.rank = world->rank,
                                      .u = u,
                                      .r = r,
                                      .id = world->id,
                                      .length_tokens = world->length,
                                      .n_seqs = 1 + hyd_rng_below(rng, MAX_SEQS)};
    for (uint32_t i = 0; i < MAX_SEQS; i++) {
        world->id[i] = i;
        world->length[i] = hyd_rng_below(rng, 2) == 0 ? hyd_rng_below(rng, 2 * d + 2)
                                                      : hyd_rng_below(rng, 200);
    }
}

/* The cursor over a cell says the same, row by row, and then ends. */
static const char *cursor_agrees(const struct hyd_group *group, uint32_t member)
{
    struct hyd_layout_rows rows;
    struct hyd_layout_place at;
    uint32_t seq = 0, token = 0, row = 0;

    hyd_layout_rows_start(&rows, group, 1, 0, group->rank[member]);
    for (; hyd_layout_rows_next(&rows, &at); row++) {
        if (hyd_layout_token(group, member, row, &seq, &token) != HYD_OK ||
            at.row != row || at.id != group->id[seq] || at.token != token ||
            at.length_tokens != group->length_tokens[seq]) {
            return hyd_prop_reason("u %u r %u: row %u of member %u is at %u, token %u "
                                   "of %u",
                                   group->u, group->r, row, member, at.row, at.token,
                                   at.id);
        }
    }
    return row == hyd_group_rows(group, member)
               ? NULL
               : hyd_prop_reason("member %u has %u rows in the cursor", member, row);
}

/* Every row of every member has a token, that token has this row, and all rows together
 * are all tokens. */
static const char *rows_are_tokens(const struct hyd_group *group)
{
    uint32_t n_rows = 0, n_tokens = 0;

    for (uint32_t s = 0; s < group->n_seqs; s++) {
        n_tokens += group->length_tokens[s];
    }
    for (uint32_t m = 0; m < hyd_group_degree(group); m++) {
        uint32_t rows = hyd_group_rows(group, m);
        const char *why = cursor_agrees(group, m);

        if (why != NULL) {
            return why;
        }
        n_rows += rows;
        for (uint32_t row = 0; row < rows; row++) {
            uint32_t seq = 0, token = 0, member = 99, back = 0;

            if (hyd_layout_token(group, m, row, &seq, &token) != HYD_OK ||
                hyd_layout_row(group, seq, token, &member, &back) != HYD_OK ||
                member != m || back != row) {
                return hyd_prop_reason("u %u r %u: row %u of member %u is token %u of "
                                       "sequence %u, which is row %u of member %u",
                                       group->u, group->r, row, m, token, seq, back,
                                       member);
            }
        }
    }
    return n_rows == n_tokens ? NULL
                              : hyd_prop_reason("%u rows, %u tokens", n_rows, n_tokens);
}

/* Lo is the early chunks of the ring index's members in ascending order, Hi the late ones
 * in descending order; neighbouring chunks differ by one token at most. */
static const char *intervals_join_chunks(uint32_t length, uint32_t u, uint32_t r)
{
    uint32_t d = u * r;

    for (uint32_t ring = 0; ring < r; ring++) {
        struct hyd_span block[2], part[2];
        uint32_t lo, hi;

        hyd_layout_ring(length, u, r, ring, block);
        lo = block[0].pos;
        hi = block[1].pos;
        for (uint32_t x = 0; x < u; x++) {
            hyd_layout_member(length, d, ring * u + x, part);
            if (part[0].pos != lo) {
                return hyd_prop_reason("u %u r %u length %u: early chunk of %u", u, r,
                                       length, ring * u + x);
            }
            lo += part[0].n;
            hyd_layout_member(length, d, ring * u + u - 1 - x, part);
            if (part[1].pos != hi) {
                return hyd_prop_reason("u %u r %u length %u: late chunk of %u", u, r,
                                       length, ring * u + u - 1 - x);
            }
            hi += part[1].n;
            if (part[0].n + part[1].n > length / d + 2 ||
                part[0].n < length / (2 * d)) {
                return hyd_prop_reason("chunks of member %u are uneven", ring * u + x);
            }
        }
        if (lo != block[0].pos + block[0].n || hi != block[1].pos + block[1].n) {
            return hyd_prop_reason("u %u r %u length %u: the intervals end elsewhere",
                                   u, r, length);
        }
    }
    return NULL;
}

static const char *heads_cover(const struct hyd_attn_model *model, uint32_t u)
{
    uint32_t per_kv = model->n_heads / model->n_kv_heads;
    uint32_t next = 0;

    for (uint32_t x = 0; x < u; x++) {
        struct hyd_heads heads = hyd_layout_heads(model, u, x);

        if (heads.q_first != next || heads.n_q == 0 ||
            heads.q_first / per_kv != heads.kv_first ||
            (heads.q_first + heads.n_q - 1) / per_kv !=
                heads.kv_first + heads.n_kv - 1) {
            return hyd_prop_reason("u %u of %u/%u heads: index %u", u, model->n_heads,
                                   model->n_kv_heads, x);
        }
        next += heads.n_q;
    }
    if (next != model->n_heads) {
        return "heads are missing";
    }
    if (model->n_kv_heads % u == 0 &&
        hyd_layout_kv_copies(model, u) != model->n_kv_heads) {
        return "kv heads are replicated although u divides them";
    }
    return NULL;
}

static const char *maps_hold_for_every_degree(struct hyd_rng *rng, void *ctx)
{
    struct hyd_attn_model model = {.d = 64, .n_kv_heads = 1 + hyd_rng_below(rng, 9)};
    const char *why = NULL;

    (void)ctx;
    model.n_heads = model.n_kv_heads * (1 + hyd_rng_below(rng, 5));
    for (uint32_t d = 1; d <= MAX_DEGREE && why == NULL; d++) {
        for (uint32_t u = 1; u <= d && why == NULL; u++) {
            struct world world;

            if (d % u != 0) {
                continue;
            }
            make_group(rng, u, d / u, &world);
            why = rows_are_tokens(&world.group);
            why = why != NULL ? why : intervals_join_chunks(world.length[0], u, d / u);
            why = why != NULL || u > model.n_heads ? why : heads_cover(&model, u);
        }
    }
    return why;
}

static bool half_is_right(uint32_t length, uint32_t d, uint32_t member, uint32_t token,
                          uint32_t half)
{
    struct hyd_span span[2];

    hyd_layout_member(length, d, member, span);
    return half < 2 && token >= span[half].pos && token - span[half].pos < span[half].n;
}

/* The owner of a token does not depend on how d is split into u and r. */
static const char *owner_depends_on_degree_only(struct hyd_rng *rng, void *ctx)
{
    uint32_t d = 1 + hyd_rng_below(rng, MAX_DEGREE);
    uint32_t length = 1 + hyd_rng_below(rng, MAX_TOKENS);
    uint32_t token = hyd_rng_below(rng, length);
    uint32_t owner[2], half[2], row[2];

    (void)ctx;
    hyd_layout_owner(length, d, token, &owner[0], &half[0], &row[0]);
    for (uint32_t u = 1; u <= d; u++) {
        struct world world;

        if (d % u == 0) {
            make_group(rng, u, d / u, &world);
            world.group.n_seqs = 1;
            world.length[0] = length;
            if (hyd_layout_row(&world.group, 0, token, &owner[1], &row[1]) != HYD_OK ||
                owner[0] != owner[1] || row[0] != row[1] ||
                !half_is_right(length, d, owner[0], token, half[0])) {
                return hyd_prop_reason("token %u of %u at d %u u %u", token, length, d,
                                       u);
            }
        }
    }
    return NULL;
}

static void layout_is_one_to_one(void **state)
{
    (void)state;
    hyd_prop_run("maps hold", 40, maps_hold_for_every_degree, NULL);
    hyd_prop_run("owner depends on d", 200, owner_depends_on_degree_only, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layout_is_one_to_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
