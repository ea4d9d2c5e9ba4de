/* daemon_process.c - the daemon's process under daemon_fleet.h. */
#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/alloc.h"
#include "common/rpc/hydra_v1.h"
#include "tests/bench/daemon_fleet.h"

#include "common/base/banned.h"

enum { FLEET_PATH_BYTES = 128 };

uint64_t fleet_daemon_bytes(const struct fleet *fleet)
{
    char path[64];
    char line[128] = "";
    char *end = line;
    FILE *file = NULL;

    (void)snprintf(path, sizeof path, "/proc/%d/statm", (int)fleet->pid);
    file = fopen(path, "r");
    if (file == NULL) {
        return 0;
    }
    if (fgets(line, sizeof line, file) != NULL) {
        (void)strtoul(line, &end, 10);
    }
    (void)fclose(file);
    return strtoul(end, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE);
}

double fleet_daemon_cpu_s(const struct fleet *fleet)
{
    char path[64];
    char line[512] = "";
    char *at = NULL;
    unsigned long ticks = 0;
    FILE *file = NULL;

    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)fleet->pid);
    file = fopen(path, "r");
    if (file == NULL) {
        return 0.0;
    }
    if (fgets(line, sizeof line, file) != NULL) {
        at = strrchr(line, ')');
    }
    (void)fclose(file);
    for (int field = 3; at != NULL && field <= 15; field++) {
        at = strchr(at + 1, ' ');
        if (at != NULL && field >= 14) {
            ticks += strtoul(at + 1, NULL, 10);
        }
    }
    return (double)ticks / (double)sysconf(_SC_CLK_TCK);
}

/* Into `ret_path`: a file of the certificates. */
static const char *certificate(const struct fleet *fleet, const char *name,
                               char ret_path[FLEET_PATH_BYTES])
{
    (void)snprintf(ret_path, FLEET_PATH_BYTES, "%s/certs/%s", fleet->folder, name);
    return ret_path;
}

static bool make_certificates(struct fleet *fleet)
{
    const char *source = getenv("HYDRA_SOURCE_DIR");
    char script[600];
    char folder[FLEET_PATH_BYTES];
    int status = 0;
    pid_t pid = 0;

    (void)snprintf(folder, sizeof folder, "%s/certs", fleet->folder);
    (void)snprintf(script, sizeof script, "%s/tests/lib/certs.sh",
                   source == NULL ? "." : source);
    if (mkdir(folder, 0700) != 0) {
        return fleet_fails(fleet, "cannot make a folder");
    }
    pid = fork();
    if (pid == 0) {
        (void)execlp("sh", "sh", script, folder, (char *)NULL);
        _exit(127);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) {
        return fleet_fails(fleet, "cannot make certificates with %.100s and openssl",
                           script);
    }
    return true;
}

/* A port of this machine that nobody has now. */
static bool find_port(struct fleet *fleet)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t at_bytes = sizeof at;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool ok = fd >= 0 && bind(fd, (const struct sockaddr *)&at, sizeof at) == 0 &&
                    getsockname(fd, (struct sockaddr *)&at, &at_bytes) == 0;

    if (fd >= 0) {
        (void)close(fd);
    }
    (void)snprintf(fleet->agents_at, sizeof fleet->agents_at, "127.0.0.1:%u",
                   (unsigned)ntohs(at.sin_port));
    return ok || fleet_fails(fleet, "no port");
}

bool fleet_agent_client(const struct fleet *fleet, struct hyd_client **ret_client,
                        struct hyd_error *err)
{
    char ca[FLEET_PATH_BYTES];
    char cert[FLEET_PATH_BYTES];
    char key[FLEET_PATH_BYTES];
    struct hyd_client_config config = {.bridge = fleet->bridge,
                                       .alloc = hyd_alloc_system(),
                                       .target = fleet->address,
                                       .own_connection = true};

    if (fleet->mutual_tls) {
        config.target = fleet->agents_at;
        config.tls_ca = certificate(fleet, "ca.pem", ca);
        config.tls_cert = certificate(fleet, "worker.pem", cert);
        config.tls_key = certificate(fleet, "worker.key", key);
    }
    return hyd_client_create(&config, ret_client, err) == HYD_OK;
}

static void run_daemon(const struct fleet *fleet, const char *path, const char *state)
{
    char ca[FLEET_PATH_BYTES];
    char cert[FLEET_PATH_BYTES];
    char key[FLEET_PATH_BYTES];
    const char *const plain[] = {path,  "--listen",    fleet->address, "--state",
                                 state, "--log-level", "warn"};
    const char *const tls[] = {"--listen",   fleet->agents_at,
                               "--tls-ca",   certificate(fleet, "ca.pem", ca),
                               "--tls-cert", certificate(fleet, "server.pem", cert),
                               "--tls-key",  certificate(fleet, "server.key", key)};
    const char *argv[sizeof plain / sizeof *plain + sizeof tls / sizeof *tls + 1] = {0};
    size_t n = 0;

    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
        argv[n++] = plain[i];
    }
    for (size_t i = 0; fleet->mutual_tls && i < sizeof tls / sizeof *tls; i++) {
        argv[n++] = tls[i];
    }
    /* exec takes what is not const and leaves it alone. */
    (void)execv(path, (char *const *)(uintptr_t)argv);
}

static bool spawn(struct fleet *fleet)
{
    const char *bin = getenv("HYDRA_BIN_DIR");
    char state[96];
    char self[512];
    const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 32);

    if (n <= 0) {
        return fleet_fails(fleet, "cannot find this program");
    }
    self[n] = '\0';
    *strrchr(self, '/') = '\0';
    (void)snprintf(state, sizeof state, "%s/state", fleet->folder);
    fleet->pid = fork();
    if (fleet->pid == 0) {
        char path[600];

        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)snprintf(path, sizeof path, "%s/hydra-schedd", bin == NULL ? self : bin);
        run_daemon(fleet, path, state);
        _exit(127);
    }
    return fleet->pid > 0 || fleet_fails(fleet, "cannot start the daemon");
}

bool fleet_start(struct fleet *fleet, bool mutual_tls)
{
    struct hyd_client_config config = {.alloc = hyd_alloc_system(),
                                       .own_connection = true};
    Hydra__V1__ListJobsRequest request = HYDRA__V1__LIST_JOBS_REQUEST__INIT;
    struct hyd_error err = {0};

    *fleet = (struct fleet){.mutual_tls = mutual_tls};
    (void)snprintf(fleet->folder, sizeof fleet->folder, "/tmp/hydra-bench-XXXXXX");
    if (mkdtemp(fleet->folder) == NULL || uv_loop_init(&fleet->loop) != 0) {
        return fleet_fails(fleet, "cannot make a folder");
    }
    (void)snprintf(fleet->address, sizeof fleet->address, "unix:%s/s", fleet->folder);
    if ((mutual_tls && (!make_certificates(fleet) || !find_port(fleet))) ||
        !spawn(fleet)) {
        return false;
    }
    if (hyd_bridge_create(&fleet->loop, hyd_alloc_system(), &fleet->bridge, &err) !=
        HYD_OK) {
        return fleet_fails(fleet, "%.150s", err.text);
    }
    config.bridge = fleet->bridge;
    config.target = fleet->address;
    if (hyd_client_create(&config, &fleet->client, &err) != HYD_OK) {
        return fleet_fails(fleet, "%.150s", err.text);
    }
    return fleet_call(fleet, &hyd_rpc_list_jobs, &request.base, NULL, NULL);
}

bool fleet_restart(struct fleet *fleet, double *ret_s)
{
    Hydra__V1__ListJobsRequest request = HYDRA__V1__LIST_JOBS_REQUEST__INIT;
    uint64_t start_ns = 0;

    (void)kill(fleet->pid, SIGKILL);
    (void)waitpid(fleet->pid, NULL, 0);
    start_ns = uv_hrtime();
    if (!spawn(fleet) ||
        !fleet_call(fleet, &hyd_rpc_list_jobs, &request.base, NULL, NULL)) {
        return false;
    }
    *ret_s = (double)(uv_hrtime() - start_ns) * 1e-9;
    return true;
}

static void on_trainer_closed(void *ctx)
{
    *(bool *)ctx = true;
}

static bool is_true(void *ctx)
{
    return *(const bool *)ctx;
}

static void remove_certificates(const struct fleet *fleet)
{
    char path[FLEET_PATH_BYTES];
    DIR *folder = NULL;
    const struct dirent *entry = NULL;

    (void)snprintf(path, sizeof path, "%s/certs", fleet->folder);
    folder = opendir(path);
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        if (entry->d_name[0] != '.') {
            (void)unlinkat(dirfd(folder), entry->d_name, 0);
        }
    }
    if (folder != NULL) {
        (void)closedir(folder);
        (void)rmdir(path);
    }
}

void fleet_stop(struct fleet *fleet)
{
    static const char *const files[] = {"s",
                                        "s.lock",
                                        "state/lock",
                                        "state/journal.db",
                                        "state/journal.db-wal",
                                        "state/journal.db-shm",
                                        "state"};
    char path[128];
    bool closed = false;

    fleet_detach(fleet);
    if (fleet->client != NULL) {
        const bool failed = fleet->failed;

        fleet->failed = false;
        hyd_client_close(fleet->client, on_trainer_closed, &closed);
        (void)fleet_run_until(fleet, is_true, &closed, "the end of the trainer");
        fleet->failed = fleet->failed || failed;
    }
    hyd_bridge_close(fleet->bridge);
    (void)uv_run(&fleet->loop, UV_RUN_DEFAULT);
    (void)uv_loop_close(&fleet->loop);
    if (fleet->pid > 0) {
        (void)kill(fleet->pid, SIGTERM);
        (void)waitpid(fleet->pid, NULL, 0);
    }
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", fleet->folder, files[i]);
        (void)remove(path);
    }
    remove_certificates(fleet);
    (void)rmdir(fleet->folder);
}
