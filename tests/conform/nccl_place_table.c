/* nccl_place_table.c - nccl_place.h on this machine's cards. */
#include "tests/conform/nccl_place.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_CARDS = 8, MAX_SHARING = 4 };

static const struct hyd_transport_ops *find_nccl(void)
{
    for (size_t i = 0; hyd_transport_table[i] != NULL; i++) {
        if (strcmp(hyd_transport_table[i]->name, "nccl") == 0) {
            return hyd_transport_table[i];
        }
    }
    return NULL;
}

static const struct hyd_compute_ops *find_cuda(void)
{
    for (size_t i = 0; hyd_compute_table[i] != NULL; i++) {
        if (hyd_compute_table[i]->mem == HYD_MEM_CUDA) {
            return hyd_compute_table[i];
        }
    }
    return NULL;
}

/* How many cards can be opened, and 0 with a text when CUDA cannot run. In a process of its
 * own: CUDA does not survive a fork. */
static uint32_t count_cards(const struct hyd_compute_ops *compute)
{
    int how = 0;
    pid_t pid;

    (void)fflush(NULL);
    pid = fork();
    if (pid == 0) {
        struct hyd_error err = {.text = ""};
        int n = 0;

        if (compute->probe(&err) != HYD_OK) {
            printf("SKIPPED: transport nccl: %s\n", err.text);
            exit(0);
        }
        for (; n < MAX_CARDS; n++) {
            const struct hyd_compute_config config = {.device = n};
            struct hyd_compute *dev = NULL;

            if (compute->open(&config, &dev, &err) != HYD_OK) {
                break;
            }
            compute->close(dev);
        }
        exit(n);
    }
    if (pid < 0 || waitpid(pid, &how, 0) != pid || !WIFEXITED(how)) {
        return 0;
    }
    return (uint32_t)WEXITSTATUS(how);
}

/* NCCL refuses two ranks on a card unless they claim to be two machines; then it talks
 * through sockets. */
static void prepare_sharing(uint32_t rank)
{
    char text[32];

    (void)snprintf(text, sizeof text, "hydra-rank-%u", rank);
    (void)setenv("NCCL_HOSTID", text, 1);
    (void)setenv("NCCL_SOCKET_IFNAME", "lo", 0);
    (void)setenv("NCCL_NET", "Socket", 0);
}

bool nccl_place_find(struct nccl_place *ret_place)
{
    uint32_t n_cards = 0;

    *ret_place = (struct nccl_place){
        .compute = find_cuda(), .net = find_nccl(), .run = hyd_world_run_processes};
    if (ret_place->net == NULL || ret_place->compute == NULL) {
        printf("SKIPPED: transport nccl: this build has no %s\n",
               ret_place->net == NULL ? "NCCL" : "CUDA");
        return false;
    }
    n_cards = count_cards(ret_place->compute);
    if (n_cards == 0) {
        return false;
    }
    ret_place->n_devices = n_cards;
    ret_place->max_ranks = n_cards;
    if (n_cards < 2) {
        ret_place->max_ranks = MAX_SHARING;
        ret_place->prepare = prepare_sharing;
    }
    printf("transport nccl, %u card%s, up to %u ranks\n", n_cards,
           n_cards == 1 ? "" : "s", ret_place->max_ranks);
    return true;
}
