/* circle.c - see circle.h. An odd world gets a ghost rank, whose partner rests. */
#include "worker/transport/circle.h"

#include "common/base/check.h"

uint32_t hyd_circle_rounds(uint32_t n_ranks)
{
    if (n_ranks < 2) {
        return 0;
    }
    return n_ranks % 2 == 0 ? n_ranks - 1 : n_ranks;
}

uint32_t hyd_circle_partner(uint32_t n_ranks, uint32_t rank, uint32_t round)
{
    const uint32_t n_even = n_ranks + n_ranks % 2;
    const uint64_t seats = n_even - 1; /* odd, so 2 has the inverse n_even / 2 */
    uint32_t partner = 0;

    hyd_assert(n_ranks >= 2 && rank < n_ranks && round < seats);
    /* Seats i and j meet when i + j = round modulo seats; the seat that would meet
     * itself meets the last rank, which stays outside the circle. */
    if (rank == seats) {
        partner = (uint32_t)(round * (uint64_t)(n_even / 2) % seats);
    } else {
        partner = (uint32_t)((round + seats - rank) % seats);
        if (partner == rank) {
            partner = (uint32_t)seats;
        }
    }
    return partner < n_ranks ? partner : rank;
}
