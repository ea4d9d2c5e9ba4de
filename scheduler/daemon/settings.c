/* settings.c - see settings.h. deploy/hydra.conf.example is printed from these rows. */
#include "scheduler/daemon/settings.h"

#include "scheduler/core/types.h"

#include "common/base/banned.h"

#define AT(member) offsetof(struct hyd_daemon_settings, member)

/* clang-format off */
#define SECONDS(s) ((s) * 1e6)

const struct hyd_setting hyd_daemon_setting_table[] = {
    {.key = "listen", .type = HYD_SETTING_LIST, .offset = AT(listen),
     .def = "unix:/run/hydra/schedd.sock", .meta = "unix:PATH|HOST:PORT",
     .why = "Where trainers, agents and hydractl connect; may be given several times. "
            "Addresses beyond loopback need TLS with tls_ca or tokens."},
    {.key = "http", .type = HYD_SETTING_TEXT, .offset = AT(http), .def = "",
     .meta = "HOST:PORT",
     .why = "Where /metrics and the inspection page are served; empty: nowhere. Everybody "
            "who reaches it may look, or with tokens in token_file, who sends one."},
    {.key = "state", .type = HYD_SETTING_TEXT, .offset = AT(state), .def = "",
     .meta = "DIR",
     .why = "Folder of the journal, from which jobs and unfinished steps come back after a "
            "restart; empty: they are lost."},
    {.key = "tls_ca", .type = HYD_SETTING_TEXT, .offset = AT(tls_ca), .def = "",
     .meta = "FILE",
     .why = "Certificates (PEM) that sign clients; with it every client on TCP must show "
            "a certificate of theirs."},
    {.key = "tls_cert", .type = HYD_SETTING_TEXT, .offset = AT(tls_cert), .def = "",
     .meta = "FILE", .why = "Certificate chain (PEM) of this daemon; read again on SIGHUP."},
    {.key = "tls_key", .type = HYD_SETTING_TEXT, .offset = AT(tls_key), .def = "",
     .meta = "FILE", .why = "Private key (PEM) of tls_cert; read again on SIGHUP."},
    {.key = "token_file", .type = HYD_SETTING_TEXT, .offset = AT(token_file), .def = "",
     .meta = "FILE",
     .why = "Who may do what: rules for tokens, certificate names and users, one a line; "
            "see ACCESS RULES. Read again on SIGHUP."},
    {.key = "insecure_remote", .type = HYD_SETTING_BOOL, .offset = AT(insecure_remote),
     .def = "no",
     .why = "Allow addresses beyond loopback that anybody may use; only where the network "
            "itself is trusted."},
    {.key = "log_level", .type = HYD_SETTING_CHOICE, .offset = AT(log_level),
     .def = "info", .choices = "error|warn|info|debug|trace",
     .why = "What is finer than this is not logged; debug logs every step."},
    {.key = "drain_grace", .type = HYD_SETTING_DURATION, .offset = AT(drain_grace_us),
     .def = "30s", .min = 0, .max = SECONDS(3600),
     .why = "How long SIGTERM lets the step that runs finish; keep it below the service "
            "manager's own limit."},

    {.key = "limits.message", .type = HYD_SETTING_SIZE, .offset = AT(message_bytes),
     .def = "8MiB", .min = 64 * 1024, .max = 256.0 * 1024 * 1024,
     .why = "Largest message in both directions; larger plans are read with GetPlan."},
    {.key = "limits.decoded", .type = HYD_SETTING_SIZE, .offset = AT(decode_bytes),
     .def = "128MiB", .min = 1024.0 * 1024, .max = 4096.0 * 1024 * 1024,
     .why = "What one message may occupy in memory once it is decoded."},
    {.key = "limits.queue", .type = HYD_SETTING_SIZE, .offset = AT(queue_bytes),
     .def = "4MiB", .min = 64 * 1024, .max = 256.0 * 1024 * 1024,
     .why = "Bytes that may wait for one slow reader; a watcher beyond it misses updates "
            "and is told how many."},
    {.key = "limits.memory", .type = HYD_SETTING_SIZE, .offset = AT(memory_bytes),
     .def = "1GiB", .min = 64.0 * 1024 * 1024, .max = 1024.0 * 1024 * 1024 * 1024,
     .why = "What connections and messages that are not whole yet may hold, all together; "
            "at it connections are read more slowly, and new calls are refused."},
    {.key = "limits.calls", .type = HYD_SETTING_COUNT, .offset = AT(max_calls),
     .def = "20000", .min = 16, .max = 1e6,
     .why = "Calls and streams open at once; each agent and watcher holds one."},
    {.key = "limits.streams", .type = HYD_SETTING_COUNT, .offset = AT(max_streams),
     .def = "256", .min = 1, .max = 1e6, .why = "Calls open at once on one connection."},
    {.key = "limits.idle", .type = HYD_SETTING_DURATION, .offset = AT(idle_us),
     .def = "0", .min = 0, .max = SECONDS(86400),
     .why = "Close connections that had no call for so long; 0 keeps them."},
    {.key = "limits.jobs", .type = HYD_SETTING_COUNT, .offset = AT(max_jobs),
     .def = "1000", .min = 1, .max = 100000, .why = "Open jobs; OpenJob beyond it is refused."},
    {.key = "limits.ranks", .type = HYD_SETTING_COUNT, .offset = AT(max_ranks),
     .def = "65536", .min = 1, .max = HYD_MAX_RANKS, .why = "Ranks of one pool."},
    {.key = "limits.sequences", .type = HYD_SETTING_COUNT, .offset = AT(max_sequences),
     .def = "1048576", .min = 1, .max = HYD_MAX_SEQS, .why = "Sequences of one step."},
    {.key = "limits.length_tokens", .type = HYD_SETTING_COUNT,
     .offset = AT(max_length_tokens), .def = "268435456", .min = 1,
     .max = HYD_MAX_LENGTH_TOKENS, .why = "Tokens of one sequence."},

    {.key = "plan.threads", .type = HYD_SETTING_COUNT, .offset = AT(plan_threads),
     .def = "2", .min = 1, .max = 64,
     .why = "Plans made at the same time; steps of one job are planned one after the other."},
    {.key = "plan.queue", .type = HYD_SETTING_COUNT, .offset = AT(plan_queue),
     .def = "1000", .min = 1, .max = 1e6,
     .why = "What-if plans that may wait for a thread; more are refused."},
    {.key = "plan.check_gain", .type = HYD_SETTING_BOOL, .offset = AT(check_gain),
     .def = "yes",
     .why = "Hold each plan against the other policies while a planning thread is idle, and log "
            "when nothing is gained by one of them."},
    {.key = "plan.keep_plans", .type = HYD_SETTING_COUNT, .offset = AT(keep_plans),
     .def = "16", .min = 0, .max = 1e6,
     .why = "Plans of finished steps kept per job for GetPlan; older ones keep figures and "
            "fingerprint."},
    {.key = "plan.keep_steps", .type = HYD_SETTING_COUNT, .offset = AT(keep_steps),
     .def = "1000", .min = 1, .max = 1e6,
     .why = "Finished steps remembered per job, for ListSteps and for repeats."},
    {.key = "plan.max_ahead", .type = HYD_SETTING_COUNT, .offset = AT(max_ahead),
     .def = "64", .min = 1, .max = 10000,
     .why = "Steps of a job that may be accepted and not finished; Train waits at it, "
            "SubmitStep is refused."},

    {.key = "journal.max_size", .type = HYD_SETTING_SIZE, .offset = AT(journal_bytes),
     .def = "4GiB", .min = 0, .max = 1024.0 * 1024 * 1024 * 1024,
     .why = "Size of the journal's file. Beyond it the oldest plans and reports of steps that "
            "are over leave it, then the steps; 0: never."},

    {.key = "agents.heartbeat", .type = HYD_SETTING_DURATION, .offset = AT(heartbeat_us),
     .def = "1s", .min = SECONDS(0.01), .max = SECONDS(3600),
     .why = "Least time between two heartbeats of an agent; with more than 1000 agents it "
            "is one millisecond per agent."},
    {.key = "agents.lost", .type = HYD_SETTING_DURATION, .offset = AT(lost_us),
     .def = "3s", .min = SECONDS(0.03), .max = SECONDS(86400),
     .why = "An agent is lost after three heartbeats without a word, and not before this."},
    {.key = "agents.address", .type = HYD_SETTING_DURATION, .offset = AT(address_us),
     .def = "10s", .min = SECONDS(0.1), .max = SECONDS(3600),
     .why = "Time that agents have to make their transport when an epoch begins."},
    {.key = "agents.connect", .type = HYD_SETTING_DURATION, .offset = AT(connect_us),
     .def = "30s", .min = SECONDS(0.1), .max = SECONDS(3600),
     .why = "Time that agents have to connect to each other and warm the links."},
    {.key = "agents.settle", .type = HYD_SETTING_DURATION, .offset = AT(settle_us),
     .def = "1s", .min = 0, .max = SECONDS(3600),
     .why = "A pool that stays short begins an epoch only so long after the last agent "
            "attached."},
    {.key = "agents.max_misses", .type = HYD_SETTING_COUNT, .offset = AT(max_misses),
     .def = "3", .min = 0, .max = 1000,
     .why = "Epochs in a row that a node may keep from coming to be; then its job goes on "
            "without it, with step.replan and where the job's least ranks allow it. 0: never."},
    {.key = "agents.pardon", .type = HYD_SETTING_DURATION, .offset = AT(pardon_us),
     .def = "10min", .min = 0, .max = SECONDS(86400),
     .why = "After so long a node that was shut out may try again, after twice as long the next "
            "time; 0: only when hydractl readmit says so."},
    {.key = "step.replan", .type = HYD_SETTING_BOOL, .offset = AT(replan), .def = "yes",
     .why = "When a member is lost, plan the running step again over the ranks left; no: "
            "the step fails and the trainer decides."},
    {.key = "step.max_attempts", .type = HYD_SETTING_COUNT, .offset = AT(max_attempts),
     .def = "5", .min = 1, .max = 1000,
     .why = "Runs of one step before it fails, with step.replan; an epoch that it waited for and "
            "that did not come to be counts as one."},
    {.key = "step.deadline", .type = HYD_SETTING_DURATION, .offset = AT(step_deadline_us),
     .def = "10s", .min = SECONDS(0.1), .max = SECONDS(86400),
     .why = "A step fails when no rank made progress for so long, or for ten times what "
            "was predicted if that is longer."},
};
/* clang-format on */

const size_t hyd_daemon_setting_count =
    sizeof hyd_daemon_setting_table / sizeof *hyd_daemon_setting_table;

struct hyd_step_config hyd_daemon_step_config(
    const struct hyd_daemon_settings *settings)
{
    struct hyd_step_config config = hyd_step_config_default();

    config.replan = settings->replan;
    config.max_ahead = (uint32_t)settings->max_ahead;
    config.keep_steps = (uint32_t)settings->keep_steps;
    config.max_attempts = (uint32_t)settings->max_attempts;
    config.address_ms = settings->address_us / 1000;
    config.connect_ms = settings->connect_us / 1000;
    config.step_min_ms = settings->step_deadline_us / 1000;
    config.lost_min_ms = settings->lost_us / 1000;
    config.settle_ms = settings->settle_us / 1000;
    config.max_misses = (uint32_t)settings->max_misses;
    config.pardon_ms = settings->pardon_us / 1000;
    return config;
}
