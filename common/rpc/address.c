/* address.c - see address.h, and server.h for hyd_server_check_address. */
#include "common/rpc/address.h"

#include <stdlib.h>
#include <string.h>

#include "common/rpc/server.h"

#include "common/base/banned.h"

bool hyd_address_is_loopback(const char *address)
{
    static const char *const hosts[] = {"127.", "localhost:", "[::1]:"};

    for (size_t i = 0; i < sizeof hosts / sizeof hosts[0]; i++) {
        if (strncmp(address, hosts[i], strlen(hosts[i])) == 0) {
            return true;
        }
    }
    return false;
}

bool hyd_address_is_port(const char *text)
{
    char *end = NULL;

    return text[0] >= '0' && text[0] <= '9' && strtol(text, &end, 10) <= 65535 &&
           *end == '\0';
}

bool hyd_address_split(const char *address, char host[256], const char **ret_port)
{
    const char *colon = strrchr(address, ':');
    size_t n = colon != NULL ? (size_t)(colon - address) : 0;

    if (n == 0 || n >= 256 || !hyd_address_is_port(colon + 1)) {
        return false;
    }
    if (address[0] == '[' && address[n - 1] == ']') {
        address++;
        n -= 2;
    } else if (memchr(address, ':', n) != NULL) {
        return false;
    }
    memcpy(host, address, n);
    host[n] = '\0';
    *ret_port = colon + 1;
    return n > 0;
}

hyd_status hyd_server_check_address(const char *address, bool remote,
                                    struct hyd_error *err)
{
    const bool is_unix = strncmp(address, "unix:", 5) == 0;
    char host[256];
    const char *port = NULL;

    if (is_unix ? address[5] == '\0' : !hyd_address_split(address, host, &port)) {
        return hyd_error_value(err, HYD_ERR_INVALID, "listen", "unix:PATH or HOST:PORT",
                               "'%s'", address);
    }
    if (!is_unix && !remote && !hyd_address_is_loopback(address)) {
        return hyd_error_value(err, HYD_ERR_INVALID, "listen",
                               "loopback, or TLS with tls_ca or tokens, or "
                               "insecure_remote",
                               "'%s'", address);
    }
    return HYD_OK;
}
