/*
 * spawn.h - start programs from a test, and be sure that none is left.
 *
 * What     Children get their output into files of a temporary folder; show_logs prints
 *          them when a test fails. Whoever is still alive at release is killed. A child
 *          that ends is reaped at once by a thread of its own: UCX takes an unreaped
 *          process for alive.
 * Owns     the folder, removed by release.
 * Threads  the test's main thread.
 */
#ifndef HYD_TESTS_LIB_SPAWN_H
#define HYD_TESTS_LIB_SPAWN_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { HYD_SPAWN_MAX = 16, HYD_SPAWN_PATH_BYTES = 256, HYD_SPAWN_WAIT_S = 30 };

struct hyd_spawn;

struct hyd_child {
    struct hyd_spawn *spawn;
    pthread_t reaper; /* reaps it at once */
    pid_t pid;
    bool ended;
    int how; /* of waitpid */
    char name[32];
};

struct hyd_spawn {
    char folder[HYD_SPAWN_PATH_BYTES]; /* below $TMPDIR or /tmp */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct hyd_child child[HYD_SPAWN_MAX];
    unsigned n_children;
};

void hyd_spawn_init(struct hyd_spawn *spawn);
void hyd_spawn_release(struct hyd_spawn *spawn);

/* argv[0] is the program's path; NULL-terminated. Returns the child's number. */
unsigned hyd_spawn_start(struct hyd_spawn *spawn, const char *name,
                         const char *const *argv);
/* Start a program in a child's place once that one has ended (which is waited for); it
 * writes to the same log. Any thread, one at a time. */
void hyd_spawn_again(struct hyd_spawn *spawn, unsigned child, const char *const *argv);
void hyd_spawn_signal(struct hyd_spawn *spawn, unsigned child, int signal_number);
/* Wait for its end: exit code, or 1000 + signal; -1 when it does not end in time. */
int hyd_spawn_wait(struct hyd_spawn *spawn, unsigned child);
bool hyd_spawn_alive(struct hyd_spawn *spawn, unsigned child);
/* CPU seconds used so far, user and system. */
double hyd_spawn_cpu_s(struct hyd_spawn *spawn, unsigned child);
/* The end of what the child has written so far, as much as fits. */
void hyd_spawn_log(const struct hyd_spawn *spawn, unsigned child, char *ret_text,
                   size_t text_bytes);
void hyd_spawn_show_logs(const struct hyd_spawn *spawn);

/* Path of a program of this build: $HYDRA_BIN_DIR/name. */
void hyd_spawn_program(const char *name, char path[HYD_SPAWN_PATH_BYTES]);

#endif
