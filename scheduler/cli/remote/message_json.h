/*
 * message_json.h - any message of hydra.v1 as JSON, from its descriptor.
 *
 * What     Fields by their names in the .proto, all of them, in order of their numbers;
 *          enums by name; fixed64 (fingerprints, digests) as 16 hexadecimal digits, as in
 *          plan files; a message that is absent as null.
 * Owns     nothing.
 * Threads  reentrant.
 */
#ifndef HYD_SCHEDULER_CLI_REMOTE_MESSAGE_JSON_H
#define HYD_SCHEDULER_CLI_REMOTE_MESSAGE_JSON_H

#include <jansson.h>

#include "proto/hydra/v1/scheduler.pb-c.h"

/* New object, NULL on no memory. */
json_t *hyd_message_json(const ProtobufCMessage *message);

#endif
