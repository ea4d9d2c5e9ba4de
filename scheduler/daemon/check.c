/* check.c - settings that do not belong together, and files that do not serve; see daemon.h. */
#include "common/rpc/address.h"
#include "common/rpc/security.h"
#include "common/rpc/server.h"
#include "scheduler/daemon/daemon.h"

#include "common/base/banned.h"

hyd_status hyd_daemon_security(const struct hyd_daemon_settings *settings,
                               struct hyd_security **ret_security,
                               struct hyd_error *err)
{
    const struct hyd_security_config config = {
        .alloc = hyd_alloc_system(),
        .tls_ca = settings->tls_ca,
        .tls_cert = settings->tls_cert,
        .tls_key = settings->tls_key,
        .token_file = settings->token_file,
    };

    *ret_security = NULL;
    if (settings->tls_ca[0] == '\0' && settings->tls_cert[0] == '\0' &&
        settings->tls_key[0] == '\0' && settings->token_file[0] == '\0') {
        return HYD_OK;
    }
    return hyd_security_create(&config, ret_security, err);
}

hyd_status hyd_daemon_check(const void *values, struct hyd_error *err)
{
    const struct hyd_daemon_settings *s = values;
    /* Whether token_file has tokens in it is seen when it is read. */
    const bool tells_peers =
        s->tls_cert[0] != '\0' && (s->tls_ca[0] != '\0' || s->token_file[0] != '\0');
    char host[256];
    const char *port = NULL;
    hyd_status st = HYD_OK;

    for (size_t i = 0; i < s->listen.n_items && st == HYD_OK; i++) {
        st = hyd_server_check_address(s->listen.item[i],
                                      s->insecure_remote || tells_peers, err);
    }
    if (st == HYD_OK && s->http[0] != '\0' &&
        !hyd_address_split(s->http, host, &port)) {
        st =
            hyd_error_value(err, HYD_ERR_INVALID, "http", "HOST:PORT", "'%s'", s->http);
    }
    /* The page is plain HTTP: for this machine, unless somebody says otherwise. */
    if (st == HYD_OK && s->http[0] != '\0' && !s->insecure_remote &&
        !hyd_address_is_loopback(s->http)) {
        st = hyd_error_value(err, HYD_ERR_INVALID, "http",
                             "on loopback, or insecure_remote must be yes", "%s",
                             s->http);
    }
    return st;
}

hyd_status hyd_daemon_check_files(const void *values, struct hyd_error *err)
{
    const struct hyd_daemon_settings *s = values;
    struct hyd_security *security = NULL;
    hyd_status st = hyd_daemon_security(s, &security, err);
    const bool remote = s->insecure_remote || hyd_security_tells_peers(security);

    for (size_t i = 0; i < s->listen.n_items && st == HYD_OK; i++) {
        st = hyd_server_check_address(s->listen.item[i], remote, err);
    }
    hyd_security_free(security);
    return st;
}
