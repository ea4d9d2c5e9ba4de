/*
 * address.h - addresses as people write them, before anything is opened.
 *
 * What     "HOST:PORT" or "[HOST]:PORT"; PORT is a number up to 65535. libc would take
 *          99999 for 34463.
 * Threads  reentrant.
 */
#ifndef HYD_COMMON_RPC_ADDRESS_H
#define HYD_COMMON_RPC_ADDRESS_H

#include <stdbool.h>

/* 127.*, localhost or [::1]. */
bool hyd_address_is_loopback(const char *address);

/* A number up to 65535 and nothing else. */
bool hyd_address_is_port(const char *text);

/* Taken apart; ret_port points into the address. False when it is neither form. */
bool hyd_address_split(const char *address, char host[256], const char **ret_port);

#endif
