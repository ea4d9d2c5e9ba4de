/*
 * listen.c - addresses of a server.
 *
 * TCP ports are gRPC's. Unix sockets are accepted here and handed over connection by
 * connection: only so can the peer's user and process be asked for, a live socket not be
 * stolen by a second daemon (gRPC unlinks whatever is in the way), and a socket be taken
 * from a service manager.
 *
 * A call names its connection as "fd:N" only. Descriptors are moved to numbers that go
 * round, so that N means the same connection until thousands of others have come:
 * otherwise a call could be taken for one of whoever connected right after it.
 */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <grpc/grpc_posix.h>

#include "common/base/check.h"
#include "common/rpc/address.h"
#include "common/rpc/server_internal.h"

#include "common/base/banned.h"

enum { BACKLOG = 512, FIRST_ROUND_FD = 256, N_ROUND_FDS = 32768 };

#define ALL_ROLES (HYD_ROLE_READER | HYD_ROLE_TRAINER | HYD_ROLE_WORKER)

struct hyd_listener {
    struct hyd_listener *next;
    struct hyd_server *server;
    uv_poll_t poll;
    int fd;
    int spare_fd; /* given up for a moment when descriptors run out */
    char *path; /* to unlink; NULL when the socket came from outside */
    struct hyd_lock *lock;
    bool closing;
};

/* --- TCP --- */

/* gRPC only says that it could not bind; ask the kernel why. */
static hyd_status explain_bind(const char *address, struct hyd_error *err)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    struct addrinfo *list = NULL;
    char host[256];
    const char *port = NULL;
    int why = 0;
    const int rc = hyd_address_split(address, host, &port)
                       ? getaddrinfo(host, port, &hints, &list)
                       : EAI_NONAME;

    if (rc != 0) {
        return hyd_error_field(err, HYD_ERR_INVALID, "listen", "cannot resolve %s: %s",
                               address, gai_strerror(rc));
    }
    for (const struct addrinfo *at = list; at != NULL && why == 0; at = at->ai_next) {
        const int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        const int on = 1;

        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        if (fd < 0 || bind(fd, at->ai_addr, at->ai_addrlen) != 0 ||
            listen(fd, 1) != 0) {
            why = errno;
        }
        if (fd >= 0) {
            (void)close(fd);
        }
    }
    freeaddrinfo(list);
    return hyd_error_field(err, why == EADDRINUSE ? HYD_ERR_EXISTS : HYD_ERR_IO,
                           "listen", "cannot listen on %s: %s", address,
                           why != 0 ? strerror(why) : "unknown reason");
}

static hyd_status listen_tcp(struct hyd_server *server, const char *address,
                             uint16_t *ret_port, struct hyd_error *err)
{
    grpc_server_credentials *credentials = NULL;
    hyd_status status =
        hyd_server_check_address(address,
                                 server->config.insecure_remote ||
                                     hyd_security_tells_peers(server->config.security),
                                 err);
    int bound = 0;

    if (status != HYD_OK) {
        return status;
    }
    status = hyd_security_credentials(server->config.security, &credentials, err);
    if (status != HYD_OK) {
        return status;
    }
    bound = grpc_server_add_http2_port(server->server, address, credentials);
    grpc_server_credentials_release(credentials);
    if (bound <= 0) {
        return explain_bind(address, err);
    }
    if (ret_port != NULL) {
        *ret_port = (uint16_t)bound;
    }
    return HYD_OK;
}

/* --- unix sockets --- */

static int move_to_round(struct hyd_server *server, int fd)
{
    struct rlimit limit;
    int moved = -1;
    int last = FIRST_ROUND_FD + N_ROUND_FDS;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < (rlim_t)last) {
        last = (int)limit.rlim_cur;
    }
    if (server->next_fd >= last || server->next_fd < FIRST_ROUND_FD) {
        server->next_fd = FIRST_ROUND_FD;
    }
    if (server->next_fd < last) {
        moved = fcntl(fd, F_DUPFD_CLOEXEC, server->next_fd);
    }
    if (moved < 0) {
        server->next_fd = FIRST_ROUND_FD;
        return fd;
    }
    server->next_fd = moved + 1;
    (void)close(fd);
    return moved;
}

static bool remember(struct hyd_server *server, int fd)
{
    const size_t at = (size_t)fd;
    struct ucred peer;
    socklen_t n = sizeof peer;

    if (at >= server->n_ends) {
        const size_t grown = at + 1024;
        struct hyd_unix_end *ends =
            hyd_alloc_resize(server->alloc, server->ends, grown, sizeof *ends);

        if (ends == NULL) {
            return false;
        }
        memset(ends + server->n_ends, 0, (grown - server->n_ends) * sizeof *ends);
        server->ends = ends;
        server->n_ends = grown;
    }
    server->ends[at] = (struct hyd_unix_end){.known = false};
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) == 0) {
        server->ends[at] = (struct hyd_unix_end){peer.uid, peer.pid, true};
    }
    return true;
}

void hyd_listen_hand_over(struct hyd_server *server, int fd)
{
    grpc_server_credentials *credentials = NULL;

    fd = move_to_round(server, fd);
    if (!remember(server, fd)) {
        (void)close(fd);
        return;
    }
    credentials = grpc_insecure_server_credentials_create();
    grpc_server_add_channel_from_fd(server->server, fd, credentials);
    grpc_server_credentials_release(credentials);
}

/* Out of descriptors: the connection would stay readable and the loop would spin. Take
 * it on the spare one and hang up, so that the client sees an end and not a silence. */
static void hang_up(struct hyd_listener *listener)
{
    int fd = -1;

    if (listener->spare_fd < 0) {
        return;
    }
    (void)close(listener->spare_fd);
    fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC);
    if (fd >= 0) {
        (void)close(fd);
    }
    listener->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void on_acceptable(uv_poll_t *poll, int status, int events)
{
    enum { AT_ONCE = 32 };
    struct hyd_listener *listener = hyd_container(poll, struct hyd_listener, poll);

    (void)status;
    (void)events;
    for (int i = 0; i < AT_ONCE; i++) {
        const int fd = accept4(listener->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd >= 0) {
            hyd_listen_hand_over(listener->server, fd);
        } else if (errno == EMFILE || errno == ENFILE) {
            hang_up(listener);
        } else if (errno != EINTR && errno != ECONNABORTED) {
            return;
        }
    }
}

static void on_poll_closed(uv_handle_t *handle)
{
    struct hyd_listener *listener =
        hyd_container((uv_poll_t *)handle, struct hyd_listener, poll);
    struct hyd_server *server = listener->server;

    hyd_alloc_free(server->alloc, listener);
    hyd_server_handle_closed(server);
}

/* Take fd, path (may be NULL) and lock (may be NULL) into a listener of the server. */
static hyd_status add_listener(struct hyd_server *server, int take_fd, char *take_path,
                               struct hyd_lock *take_lock, struct hyd_error *err)
{
    struct hyd_listener *listener =
        hyd_alloc_zeroed(server->alloc, 1, sizeof *listener);
    int rc = 0;

    if (listener == NULL) {
        return hyd_error_set(err, HYD_ERR_NO_MEMORY, "no memory for a socket");
    }
    rc = uv_poll_init(hyd_server_loop(server), &listener->poll, take_fd);
    if (rc != 0) {
        hyd_alloc_free(server->alloc, listener);
        return hyd_error_set(err, HYD_ERR_IO, "cannot watch a socket: %s",
                             uv_strerror(rc));
    }
    server->n_handles++;
    listener->server = server;
    listener->fd = take_fd;
    listener->path = take_path;
    listener->lock = take_lock;
    listener->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    listener->next = server->listeners;
    server->listeners = listener;
    return HYD_OK;
}

/* The mode is set before bind, so the socket never exists with another one; umask would
 * be the whole process's. */
static hyd_status bind_unix(const char *path, int *ret_fd, struct hyd_error *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct stat found;
    int fd = -1;

    (void)snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    if (lstat(path, &found) == 0 && !S_ISSOCK(found.st_mode)) {
        return hyd_error_field(err, HYD_ERR_EXISTS, "listen",
                               "%s exists and is not a socket", path);
    }
    (void)unlink(path);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || fchmod(fd, 0600) != 0 ||
        bind(fd, (const struct sockaddr *)&address, sizeof address) != 0 ||
        listen(fd, BACKLOG) != 0) {
        const int why = errno;

        if (fd >= 0) {
            (void)close(fd);
        }
        return hyd_error_field(err, HYD_ERR_IO, "listen",
                               "cannot listen on unix:%s: %s", path, strerror(why));
    }
    *ret_fd = fd;
    return HYD_OK;
}

/* /run/hydra is gone after each boot: make the folder that the socket lies in. */
static hyd_status make_folder(const char *path, struct hyd_error *err)
{
    char folder[sizeof(struct sockaddr_un)];
    const char *slash = strrchr(path, '/');

    if (slash == NULL || slash == path) {
        return HYD_OK;
    }
    (void)snprintf(folder, sizeof folder, "%.*s", (int)(slash - path), path);
    if (mkdir(folder, 0755) != 0 && errno != EEXIST) {
        return hyd_error_set(err, HYD_ERR_IO,
                             "cannot listen on unix:%s: cannot make the folder: %s",
                             path, strerror(errno));
    }
    return HYD_OK;
}

static hyd_status listen_unix(struct hyd_server *server, const char *path,
                              struct hyd_error *err)
{
    struct sockaddr_un address;
    struct hyd_lock *lock = NULL;
    char lock_path[sizeof address.sun_path + sizeof ".lock"];
    char *copy = NULL;
    int fd = -1;
    hyd_status status = HYD_OK;

    if (path[0] == '\0' || strlen(path) >= sizeof address.sun_path) {
        return hyd_error_value(err, HYD_ERR_INVALID, "listen",
                               "a path of 1 to 107 bytes", "'unix:%s'", path);
    }
    status = make_folder(path, err);
    if (status != HYD_OK) {
        return status;
    }
    (void)snprintf(lock_path, sizeof lock_path, "%s.lock", path);
    status = hyd_lock_take(server->alloc, lock_path, &lock, err);
    if (status != HYD_OK) {
        hyd_error_prefix(err, "cannot listen on unix:%s", path);
        return status;
    }
    copy = hyd_alloc_text(server->alloc, path);
    if (copy == NULL) {
        status = hyd_error_set(err, HYD_ERR_NO_MEMORY, "no memory for a socket");
        goto out;
    }
    status = bind_unix(path, &fd, err);
    if (status == HYD_OK) {
        status = add_listener(server, fd, copy, lock, err);
    }
    if (status == HYD_OK) {
        return HYD_OK;
    }
out:
    if (fd >= 0) {
        (void)unlink(path);
        (void)close(fd);
    }
    hyd_alloc_free(server->alloc, copy);
    hyd_lock_free(lock);
    return status;
}

/* --- all of them --- */

hyd_status hyd_server_listen(struct hyd_server *server, const char *address,
                             uint16_t *ret_port, struct hyd_error *err)
{
    hyd_status status = HYD_OK;

    hyd_assert(!server->started);
    if (strncmp(address, "unix:", 5) != 0) {
        return listen_tcp(server, address, ret_port, err);
    }
    status = listen_unix(server, address + 5, err);
    if (status == HYD_OK && ret_port != NULL) {
        *ret_port = 0;
    }
    return status;
}

hyd_status hyd_server_listen_fd(struct hyd_server *server, int take_fd,
                                struct hyd_error *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNSPEC};
    socklen_t n = sizeof address;
    int flags = 0;

    hyd_assert(!server->started);
    if (getsockname(take_fd, (struct sockaddr *)&address, &n) != 0 ||
        address.sun_family != AF_UNIX) {
        return hyd_error_field(err, HYD_ERR_INVALID, "listen",
                               "descriptor %d is not a unix socket", take_fd);
    }
    flags = fcntl(take_fd, F_GETFL);
    if (flags < 0 || fcntl(take_fd, F_SETFL, flags | O_NONBLOCK) != 0 ||
        fcntl(take_fd, F_SETFD, FD_CLOEXEC) != 0) {
        return hyd_error_field(err, HYD_ERR_IO, "listen", "descriptor %d: %s", take_fd,
                               strerror(errno));
    }
    return add_listener(server, take_fd, NULL, NULL, err);
}

void hyd_listen_start(struct hyd_server *server)
{
    for (struct hyd_listener *at = server->listeners; at != NULL; at = at->next) {
        (void)uv_poll_start(&at->poll, UV_READABLE, on_acceptable);
    }
}

void hyd_listen_stop(struct hyd_server *server)
{
    for (struct hyd_listener *at = server->listeners; at != NULL; at = at->next) {
        if (at->closing) {
            continue;
        }
        at->closing = true;
        (void)uv_poll_stop(&at->poll);
        if (at->path != NULL) {
            (void)unlink(at->path);
            hyd_alloc_free(server->alloc, at->path);
            at->path = NULL;
        }
        (void)close(at->fd);
        if (at->spare_fd >= 0) {
            (void)close(at->spare_fd);
        }
        hyd_lock_free(at->lock);
        at->lock = NULL;
    }
}

void hyd_listen_free(struct hyd_server *server)
{
    while (server->listeners != NULL) {
        struct hyd_listener *listener = server->listeners;

        server->listeners = listener->next;
        uv_close((uv_handle_t *)&listener->poll, on_poll_closed);
    }
    hyd_alloc_free(server->alloc, server->ends);
    server->ends = NULL;
    server->n_ends = 0;
}

static const struct hyd_unix_end *find_end(const struct hyd_server *server,
                                           const char *peer)
{
    char *rest = NULL;
    long fd = -1;

    if (strncmp(peer, "fd:", 3) != 0) {
        return NULL;
    }
    fd = strtol(peer + 3, &rest, 10);
    if (*rest != '\0' || fd < 0 || (size_t)fd >= server->n_ends ||
        !server->ends[fd].known) {
        return NULL;
    }
    return &server->ends[fd];
}

void hyd_listen_peer(struct hyd_call *call)
{
    char *peer = grpc_call_get_peer(call->call);
    const struct hyd_unix_end *end = find_end(call->server, peer);

    (void)snprintf(call->peer_address, sizeof call->peer_address, "%s",
                   end != NULL ? "unix:" : peer);
    gpr_free(peer);
    call->peer_name[0] = '\0';
    if (end != NULL) {
        (void)snprintf(call->peer_name, sizeof call->peer_name, "uid %ld",
                       (long)end->uid);
    }
    call->peer = (struct hyd_rpc_peer){
        .address = call->peer_address,
        .name = call->peer_name,
        .roles = ALL_ROLES,
        .uid = end != NULL ? (int64_t)end->uid : -1,
        .pid = end != NULL ? (int64_t)end->pid : -1,
    };
}
