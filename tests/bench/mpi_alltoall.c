/* mpi_alltoall.c - MPI_Alltoall beside the exchange of hydra-bench ring: started by it
 * under mpirun with bytes a pair and repeats; the last rank prints the best and the median
 * seconds of a round. What arrives is checked first. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if __has_include(<mpi.h>)
#include <mpi.h>

enum { WARM_ROUNDS = 3 };

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static int arrives_right(unsigned char *out, unsigned char *in, int bytes)
{
    int rank, n, wrong = 0;

    (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    (void)MPI_Comm_size(MPI_COMM_WORLD, &n);
    for (int i = 0; i < n; i++) {
        memset(out + (size_t)i * (size_t)bytes, rank * 16 + i, (size_t)bytes);
    }
    (void)MPI_Alltoall(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, MPI_COMM_WORLD);
    for (int i = 0; i < n; i++) {
        for (int x = 0; x < bytes; x++) {
            wrong |= in[(size_t)i * (size_t)bytes + (size_t)x] !=
                     (unsigned char)(i * 16 + rank);
        }
    }
    return !wrong;
}

int main(int argc, char **argv)
{
    const int bytes = argc == 3 ? (int)strtol(argv[1], NULL, 10) : 0;
    const int n_repeats = argc == 3 ? (int)strtol(argv[2], NULL, 10) : 0;
    unsigned char *out, *in;
    double *round_s;
    int rank, n;

    if (bytes <= 0 || n_repeats <= 0) {
        (void)fputs("usage: hydra-bench-mpi BYTES REPEATS\n", stderr);
        return 2;
    }
    (void)MPI_Init(&argc, &argv);
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    (void)MPI_Comm_size(MPI_COMM_WORLD, &n);
    out = malloc((size_t)n * (size_t)bytes);
    in = calloc((size_t)n, (size_t)bytes);
    round_s = calloc((size_t)n_repeats, sizeof *round_s);
    if (out == NULL || in == NULL || round_s == NULL ||
        !arrives_right(out, in, bytes)) {
        (void)fprintf(stderr, "rank %d: no memory, or wrong bytes\n", rank);
        (void)MPI_Abort(MPI_COMM_WORLD, 1);
        return 1;
    }
    for (int i = 0; i < WARM_ROUNDS + n_repeats; i++) {
        double begin_s;

        (void)MPI_Barrier(MPI_COMM_WORLD);
        begin_s = MPI_Wtime();
        (void)MPI_Alltoall(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, MPI_COMM_WORLD);
        if (i >= WARM_ROUNDS) {
            round_s[i - WARM_ROUNDS] = MPI_Wtime() - begin_s;
        }
    }
    qsort(round_s, (size_t)n_repeats, sizeof *round_s, by_size);
    if (rank == n - 1) { /* the rank that hydra-bench times, too */
        (void)printf("%.9f %.9f\n", round_s[0], round_s[n_repeats / 2]);
        (void)fflush(stdout);
    }
    free(out);
    free(in);
    free(round_s);
    (void)MPI_Finalize();
    return 0;
}

#else
int main(void)
{
    (void)fputs("hydra-bench-mpi: built without MPI\n", stderr);
    return 1;
}
#endif
