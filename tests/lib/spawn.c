/* spawn.c - see spawn.h. posix_spawn, since the test may have gRPC's threads. */
#include "tests/lib/spawn.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

enum { LOG_PATH_BYTES = 2 * HYD_SPAWN_PATH_BYTES };

/* Waits for one child. Without WNOWAIT its number could be somebody else's before `ended`
 * is set. */
static void *reaper_main(void *arg)
{
    struct hyd_child *child = arg;
    struct hyd_spawn *spawn = child->spawn;
    siginfo_t info;

    while (waitid(P_PID, (id_t)child->pid, &info, WEXITED | WNOWAIT) != 0) {
    }
    (void)pthread_mutex_lock(&spawn->lock);
    (void)waitpid(child->pid, &child->how, 0);
    child->ended = true;
    (void)pthread_cond_broadcast(&spawn->changed);
    (void)pthread_mutex_unlock(&spawn->lock);
    return NULL;
}

void hyd_spawn_init(struct hyd_spawn *spawn)
{
    const char *tmp = getenv("TMPDIR");
    pthread_condattr_t attr;

    memset(spawn, 0, sizeof *spawn);
    (void)snprintf(spawn->folder, sizeof spawn->folder, "%s/hydra-test-XXXXXX",
                   tmp != NULL ? tmp : "/tmp");
    if (mkdtemp(spawn->folder) == NULL) {
        perror(spawn->folder);
        abort();
    }
    (void)pthread_mutex_init(&spawn->lock, NULL);
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&spawn->changed, &attr);
    (void)pthread_condattr_destroy(&attr);
}

static void log_path(const struct hyd_spawn *spawn, unsigned child,
                     char path[LOG_PATH_BYTES])
{
    (void)snprintf(path, LOG_PATH_BYTES, "%s/%u-%s.log", spawn->folder, child,
                   spawn->child[child].name);
}

/* Logs, and the sockets and lock files of the test; folders inside are not ours. */
static void remove_folder(const struct hyd_spawn *spawn)
{
    DIR *folder = opendir(spawn->folder);
    const struct dirent *entry = NULL;

    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        (void)unlinkat(dirfd(folder), entry->d_name, 0);
    }
    if (folder != NULL) {
        (void)closedir(folder);
    }
    (void)rmdir(spawn->folder);
}

void hyd_spawn_release(struct hyd_spawn *spawn)
{
    for (unsigned i = 0; i < spawn->n_children; i++) {
        if (hyd_spawn_alive(spawn, i)) {
            hyd_spawn_signal(spawn, i, SIGKILL);
        }
        (void)pthread_join(spawn->child[i].reaper, NULL);
    }
    remove_folder(spawn);
    (void)pthread_cond_destroy(&spawn->changed);
    (void)pthread_mutex_destroy(&spawn->lock);
}

/* Start a program as the child of a number that is free. */
static void start(struct hyd_spawn *spawn, unsigned number, const char *const *argv)
{
    struct hyd_child *child = &spawn->child[number];
    char path[LOG_PATH_BYTES];
    posix_spawn_file_actions_t actions;
    int rc = 0;

    log_path(spawn, number, path);
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, path,
                                           O_CREAT | O_WRONLY | O_APPEND, 0600);
    (void)posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
    (void)pthread_mutex_lock(&spawn->lock);
    rc =
        posix_spawn(&child->pid, argv[0], &actions, NULL, (char *const *)argv, environ);
    child->ended = false;
    (void)pthread_mutex_unlock(&spawn->lock);
    (void)posix_spawn_file_actions_destroy(&actions);
    child->spawn = spawn;
    if (rc != 0 || pthread_create(&child->reaper, NULL, reaper_main, child) != 0) {
        (void)fprintf(stderr, "%s: %s\n", argv[0], strerror(rc));
        abort();
    }
}

unsigned hyd_spawn_start(struct hyd_spawn *spawn, const char *name,
                         const char *const *argv)
{
    const unsigned number = spawn->n_children;

    if (number >= HYD_SPAWN_MAX) {
        abort();
    }
    (void)snprintf(spawn->child[number].name, sizeof spawn->child[number].name, "%s",
                   name);
    spawn->n_children++;
    start(spawn, number, argv);
    return number;
}

void hyd_spawn_again(struct hyd_spawn *spawn, unsigned child, const char *const *argv)
{
    (void)pthread_join(spawn->child[child].reaper, NULL);
    start(spawn, child, argv);
}

void hyd_spawn_signal(struct hyd_spawn *spawn, unsigned child, int signal_number)
{
    (void)pthread_mutex_lock(&spawn->lock);
    if (!spawn->child[child].ended) {
        (void)kill(spawn->child[child].pid, signal_number);
    }
    (void)pthread_mutex_unlock(&spawn->lock);
}

int hyd_spawn_wait(struct hyd_spawn *spawn, unsigned child)
{
    struct timespec end;
    int rc = 0;
    int code = -1;

    (void)clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += HYD_SPAWN_WAIT_S;
    (void)pthread_mutex_lock(&spawn->lock);
    while (!spawn->child[child].ended && rc == 0) {
        rc = pthread_cond_timedwait(&spawn->changed, &spawn->lock, &end);
    }
    if (spawn->child[child].ended) {
        const int how = spawn->child[child].how;

        code = WIFSIGNALED(how) ? 1000 + WTERMSIG(how) : WEXITSTATUS(how);
    }
    (void)pthread_mutex_unlock(&spawn->lock);
    return code;
}

bool hyd_spawn_alive(struct hyd_spawn *spawn, unsigned child)
{
    bool alive = false;

    (void)pthread_mutex_lock(&spawn->lock);
    alive = !spawn->child[child].ended;
    (void)pthread_mutex_unlock(&spawn->lock);
    return alive;
}

double hyd_spawn_cpu_s(struct hyd_spawn *spawn, unsigned child)
{
    char path[64];
    char line[1024];
    double ticks = 0.0;
    FILE *file = NULL;

    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)spawn->child[child].pid);
    file = fopen(path, "r");
    if (file == NULL) {
        return 0.0;
    }
    if (fgets(line, sizeof line, file) != NULL) {
        char *at = strrchr(line, ')'); /* the name may hold anything */

        /* Behind it: state, then 10 numbers, then user and system ticks. */
        at = at != NULL && strlen(at) > 4 ? at + 4 : line + strlen(line);
        for (int field = 0; field < 12; field++) {
            const double value = (double)strtoul(at, &at, 10);

            ticks += field >= 10 ? value : 0.0;
        }
    }
    (void)fclose(file);
    return ticks / (double)sysconf(_SC_CLK_TCK);
}

void hyd_spawn_log(const struct hyd_spawn *spawn, unsigned child, char *ret_text,
                   size_t text_bytes)
{
    char path[LOG_PATH_BYTES];
    FILE *file = NULL;
    size_t n = 0;

    log_path(spawn, child, path);
    file = fopen(path, "r");
    if (file != NULL) {
        (void)fseek(file, 0, SEEK_END);
        if (ftell(file) < (long)text_bytes) {
            rewind(file);
        } else {
            (void)fseek(file, 1 - (long)text_bytes, SEEK_END);
        }
        n = fread(ret_text, 1, text_bytes - 1, file);
        (void)fclose(file);
    }
    ret_text[n] = '\0';
}

void hyd_spawn_show_logs(const struct hyd_spawn *spawn)
{
    char text[20000];

    for (unsigned i = 0; i < spawn->n_children; i++) {
        hyd_spawn_log(spawn, i, text, sizeof text);
        (void)fprintf(stderr, "--- %u %s\n%s", i, spawn->child[i].name, text);
    }
}

void hyd_spawn_program(const char *name, char path[HYD_SPAWN_PATH_BYTES])
{
    const char *folder = getenv("HYDRA_BIN_DIR");

    (void)snprintf(path, HYD_SPAWN_PATH_BYTES, "%s/%s", folder != NULL ? folder : "bin",
                   name);
}
