/* listen.c - see listen.h. */
#include "scheduler/daemon/http/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/rpc/address.h"

static hyd_status resolve(const char *address, struct addrinfo **ret_info,
                          struct hyd_error *err)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC,
                                   .ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    const char *port = NULL;
    char host[256];

    if (!hyd_address_split(address, host, &port)) {
        return hyd_error_field(err, HYD_ERR_INVALID, "http",
                               "http address '%s' is not HOST:PORT", address);
    }
    if (getaddrinfo(host, port, &hints, ret_info) != 0) {
        return hyd_error_field(err, HYD_ERR_INVALID, "http",
                               "http address '%s' is not an address of a machine",
                               address);
    }
    return HYD_OK;
}

hyd_status hyd_listen_tcp(const char *address, int *ret_fd, uint16_t *ret_port,
                          struct hyd_error *err)
{
    struct addrinfo *info = NULL;
    union {
        struct sockaddr any;
        struct sockaddr_in in;
        struct sockaddr_in6 in6;
    } bound = {.in6 = {0}};
    socklen_t bound_bytes = sizeof bound;
    const int on = 1;
    int fd = -1;
    int error = 0;
    hyd_status st = resolve(address, &info, err);

    if (st != HYD_OK || info == NULL) {
        return st;
    }
    fd = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    /* One failure path: errno is of the first call that failed. */
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        bind(fd, info->ai_addr, info->ai_addrlen) != 0 || listen(fd, 64) != 0 ||
        getsockname(fd, &bound.any, &bound_bytes) != 0) {
        error = errno;
        if (fd >= 0) {
            (void)close(fd);
        }
        freeaddrinfo(info);
        return hyd_error_field(err, error == EADDRINUSE ? HYD_ERR_EXISTS : HYD_ERR_IO,
                               "http", "cannot serve http on '%s': %s", address,
                               strerror(error));
    }
    freeaddrinfo(info);
    /* The port lies at the same place in both kinds of address. */
    *ret_port = ntohs(bound.in.sin_port);
    *ret_fd = fd;
    return HYD_OK;
}
