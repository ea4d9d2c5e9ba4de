/*
 * client_security.c - TLS and the bearer token of a client.
 *
 * The token goes into the call's headers here rather than through gRPC's call credentials,
 * which refuse unix sockets and loopback without TLS; over any other connection without
 * TLS it is refused here. Its file is read at every attempt, so that a new token counts
 * without a restart.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/rpc/client_internal.h"

#include "common/base/banned.h"

static bool given(const char *path)
{
    return path != NULL && path[0] != '\0';
}

static bool stays_here(const char *target)
{
    static const char *const starts[] = {"unix:", "127.", "localhost:", "[::1]:"};

    for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++) {
        if (strncmp(target, starts[i], strlen(starts[i])) == 0) {
            return true;
        }
    }
    return strcmp(target, "fd") == 0;
}

static hyd_status check(const struct hyd_client_config *config, struct hyd_error *err)
{
    const bool cert = given(config->tls_cert);

    if (cert != given(config->tls_key)) {
        return hyd_error_value(err, HYD_ERR_INVALID, cert ? "tls_key" : "tls_cert",
                               "given with the other one", "missing");
    }
    if (cert && !given(config->tls_ca)) {
        return hyd_error_value(err, HYD_ERR_INVALID, "tls_ca",
                               "given where tls_cert is", "missing");
    }
    if (given(config->token_file) && !given(config->tls_ca) &&
        !stays_here(config->target)) {
        return hyd_error_value(err, HYD_ERR_INVALID, "token_file",
                               "used with TLS (tls_ca), on a unix socket or loopback",
                               "for %s without TLS", config->target);
    }
    return HYD_OK;
}

hyd_status hyd_client_credentials(const struct hyd_client_config *config,
                                  grpc_channel_credentials **ret_credentials,
                                  struct hyd_error *err)
{
    const struct hyd_alloc *alloc = config->alloc;
    char *ca = NULL;
    char *cert = NULL;
    char *key = NULL;
    hyd_status status = check(config, err);

    if (status != HYD_OK) {
        return status;
    }
    if (!given(config->tls_ca)) {
        *ret_credentials = grpc_insecure_credentials_create();
        return HYD_OK;
    }
    status = hyd_pem_read(alloc, "tls_ca", config->tls_ca, &ca, err);
    if (status == HYD_OK && given(config->tls_cert)) {
        status = hyd_pem_read(alloc, "tls_cert", config->tls_cert, &cert, err);
    }
    if (status == HYD_OK && given(config->tls_key)) {
        status = hyd_pem_read(alloc, "tls_key", config->tls_key, &key, err);
    }
    if (status == HYD_OK) {
        grpc_ssl_pem_key_cert_pair pair = {key, cert};

        *ret_credentials =
            grpc_ssl_credentials_create_ex(ca, key != NULL ? &pair : NULL, NULL, NULL);
    }
    hyd_alloc_free(alloc, ca);
    hyd_alloc_free(alloc, cert);
    hyd_secret_free(alloc, key);
    return status;
}

hyd_status hyd_client_read_token(struct hyd_client *client, struct hyd_error *err)
{
    enum { SCHEME = 7 }; /* "Bearer " */
    char line[HYD_CLIENT_TOKEN_BYTES] = "Bearer ";
    FILE *file = NULL;
    const char *got = NULL;
    size_t n = 0;

    if (client->token_file == NULL) {
        return HYD_OK;
    }
    file = fopen(client->token_file, "re");
    if (file == NULL) {
        return hyd_error_field(err, HYD_ERR_IO, "token_file", "cannot read %s: %s",
                               client->token_file, strerror(errno));
    }
    (void)setvbuf(file, NULL, _IONBF, 0);
    got = fgets(line + SCHEME, (int)(sizeof line - SCHEME), file);
    (void)fclose(file);
    n = strcspn(line + SCHEME, " \t\r\n");
    line[SCHEME + n] = '\0';
    if (got == NULL || n == 0 || n > 128) {
        return hyd_error_field(
            err, HYD_ERR_INVALID, "token_file",
            "the first line of %s is no token of 1 to 128 characters",
            client->token_file);
    }
    for (size_t i = 0; i < n; i++) {
        if (line[SCHEME + i] <= ' ' || line[SCHEME + i] > '~') {
            return hyd_error_field(
                err, HYD_ERR_INVALID, "token_file",
                "the token in %s has other than printable characters",
                client->token_file);
        }
    }
    memcpy(client->token, line, sizeof line);
    return HYD_OK;
}
