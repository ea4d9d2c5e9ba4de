#!/usr/bin/python3
"""The daemon behind TLS and tokens, as another client sees it: who gets in, what a role
may do, and SIGHUP."""
import os
import shutil
import signal
import subprocess
import tempfile
import time

import harness
from harness import Daemon, Stubs, check, skip

try:
    import grpc
except ImportError:
    skip("no grpc module for /usr/bin/python3 (package python3-grpcio)")
if shutil.which("openssl") is None:
    skip("no openssl to make certificates with")

CODE = grpc.StatusCode
READER = "reader-secret-0123456789"
TRAINER = "trainer-secret-0123456789"
RULES = """
token  watcher  reader   %s
token  jobs     trainer  %s
cert   worker-3 worker
""" % (READER, TRAINER)


class Files:
    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="hydra-tls-")
        subprocess.run(["sh", os.path.join(harness.SOURCE, "tests/lib/certs.sh"),
                        self.folder], check=True)
        self.copy("server.pem", "live.pem")
        self.copy("server.key", "live.key")
        self.write("access", RULES)

    def path(self, name):
        return os.path.join(self.folder, name)

    def read(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def copy(self, source, target):
        shutil.copy(self.path(source), self.path(target))

    def write(self, name, text):
        with open(os.open(self.path(name), os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600),
                  "w") as file:
            file.write(text)


def connect(files, address, ca="ca.pem", who="trainer"):
    return grpc.secure_channel(address, grpc.ssl_channel_credentials(
        files.read(ca), files.read(who + ".key") if who else None,
        files.read(who + ".pem") if who else None),
        options=[("grpc.use_local_subchannel_pool", 1)])


def code(stubs, channel, method, request, token=None):
    """Status code of one call."""
    service = stubs.scheduler_grpc.SchedulerStub(channel)
    metadata = [("authorization", "Bearer " + token)] if token else None
    try:
        getattr(service, method)(request, timeout=20, metadata=metadata)
    except grpc.RpcError as error:
        return error.code()
    return CODE.OK


def who_gets_in(stubs, files, address):
    for what, ca, who in (("no certificate", "ca.pem", None),
                          ("one of another authority", "ca.pem", "rogue"),
                          ("another authority for the server", "other.pem", "trainer")):
        with connect(files, address, ca, who) as channel:
            check(what + " does not get in", code(
                stubs, channel, "ListJobs", stubs.scheduler.ListJobsRequest(),
                TRAINER) == CODE.UNAVAILABLE)
    with grpc.insecure_channel(address) as channel:
        check("no TLS does not get in", code(
            stubs, channel, "ListJobs", stubs.scheduler.ListJobsRequest(),
            TRAINER) == CODE.UNAVAILABLE)


def hydractl_says_what_is_missing(files, address):
    """Somebody is there: which option is wrong is said, and not that nobody is."""
    own = ["--tls-cert", files.path("trainer.pem"), "--tls-key", files.path("trainer.key")]
    for what, words, hint in (
            ("no TLS", [], "does it want TLS"),
            ("no certificate", ["--tls-ca", files.path("ca.pem")], "--tls-cert"),
            ("another authority", ["--tls-ca", files.path("other.pem"), *own],
             "--tls-ca is not what signed its certificate"),
            ("another name", ["--tls-ca", files.path("ca.pem"), "--tls-name", "sched0", *own],
             "certificate is of another name (--tls-name NAME)")):
        done = subprocess.run(
            [os.path.join(harness.BIN, "hydractl"), "job", "list", "--connect", address,
             *words], capture_output=True, text=True, timeout=2 * harness.WAIT_S)
        check("hydractl with %s says so" % what, done.returncode == 3 and
              hint in done.stderr and len(done.stderr.splitlines()) == 1, done)


def what_roles_may(stubs, channel):
    look = ("ListJobs", stubs.scheduler.ListJobsRequest())
    plan = ("Plan", stubs.plan_request())
    job = ("OpenJob", stubs.scheduler.OpenJobRequest(spec=stubs.job("tls")))
    for what, call, token, expected in (
            ("a trainer opens a job", job, TRAINER, CODE.OK),
            ("a trainer looks", look, TRAINER, CODE.OK),
            ("a reader looks", look, READER, CODE.OK),
            ("a reader plans", plan, READER, CODE.OK),
            ("a reader opens no job", job, READER, CODE.PERMISSION_DENIED),
            ("a wrong token", look, READER[:-1] + "X", CODE.UNAUTHENTICATED),
            ("a certificate without a rule", look, None, CODE.PERMISSION_DENIED)):
        check(what, code(stubs, channel, *call, token) == expected)
    attach = stubs.worker_grpc.WorkersStub(channel).Attach
    try:
        list(attach(iter([stubs.worker.AgentMessage()]), timeout=20,
                    metadata=[("authorization", "Bearer " + TRAINER)]))
        check("a trainer is no agent", False)
    except grpc.RpcError as error:
        check("a trainer is no agent", error.code() == CODE.PERMISSION_DENIED, error)


def reloaded(daemon, text):
    """Ask for a reload and wait until the daemon has said so."""
    before = sum(text in line for line in daemon.log)
    daemon.process.send_signal(signal.SIGHUP)
    until = time.monotonic() + harness.WAIT_S
    while sum(text in line for line in daemon.log) == before:
        check("the daemon says '%s'" % text, time.monotonic() < until, daemon.log)
        time.sleep(0.02)


def reload(stubs, files, daemon):
    look = ("ListJobs", stubs.scheduler.ListJobsRequest())
    old = connect(files, daemon.address)
    check("before", code(stubs, old, *look, TRAINER) == CODE.OK)
    files.copy("server2.key", "live.key")
    reloaded(daemon, "reload failed")
    check("a key that does not fit changes nothing",
          code(stubs, old, *look, TRAINER) == CODE.OK)
    files.copy("server2.pem", "live.pem")
    files.write("access", RULES.replace(TRAINER, "another-secret-0123456789"))
    reloaded(daemon, "certificates and tokens reloaded")
    check("an open connection stays",
          code(stubs, old, *look, "another-secret-0123456789") == CODE.OK)
    check("the old token is nobody's",
          code(stubs, old, *look, TRAINER) == CODE.UNAUTHENTICATED)
    old.close()
    with connect(files, daemon.address) as channel:
        check("a new connection sees the new certificate",
              code(stubs, channel, *look, READER) == CODE.UNAVAILABLE)
    with connect(files, daemon.address, "other.pem") as channel:
        check("and accepts it", code(stubs, channel, *look, READER) == CODE.OK)


STRANGER = """
import sys, grpc
try:
    with grpc.insecure_channel(sys.argv[1]) as channel:
        call = channel.unary_unary("/hydra.v1.Scheduler/ListJobs")
        call(b"", timeout=20, metadata=[("authorization", sys.argv[2])]
             if len(sys.argv) > 2 else None)
    print("OK")
except grpc.RpcError as error:
    print(error.code().name)
"""


def other_user(daemon):
    """Somebody else at the other end of the unix socket: what the rules say, no more."""
    if os.geteuid() != 0:
        print("SKIPPED: other users on the unix socket (needs root)")
        return
    os.chmod(daemon.folder, 0o711)
    os.chmod(daemon.socket, 0o666)
    for what, words, expected in (
            ("another user may nothing", [], "PERMISSION_DENIED"),
            ("a token helps", ["Bearer " + READER], "OK"),
            ("a wrong one does not", ["Bearer " + READER[1:]], "UNAUTHENTICATED")):
        # Not user=: that forks, and some versions of grpc hang before a fork.
        done = subprocess.run(
            ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
             "/usr/bin/python3", "-c", STRANGER, "unix:" + daemon.socket, *words],
            capture_output=True, text=True, cwd="/", timeout=harness.WAIT_S)
        check(what, done.stdout.strip() == expected, (done.stdout, done.stderr))


def refuses_to_start(files):
    program = os.path.join(harness.BIN, "hydra-schedd")
    for what, flags in (
            ("an open port for everybody", ["--listen", "0.0.0.0:0"]),
            ("TLS that tells nobody apart",
             ["--listen", "0.0.0.0:0", "--tls-cert", files.path("server.pem"),
              "--tls-key", files.path("server.key")]),
            ("a key of another certificate",
             ["--listen", "127.0.0.1:0", "--tls-cert", files.path("server.pem"),
              "--tls-key", files.path("server2.key")])):
        done = subprocess.run([program, *flags], capture_output=True, text=True,
                              timeout=harness.WAIT_S)
        tried = subprocess.run([program, "--check-config", *flags], capture_output=True,
                               text=True, timeout=harness.WAIT_S)
        check("--check-config says so before", tried.returncode == 2 and
              tried.stderr.splitlines()[-1] == done.stderr.splitlines()[-1], (tried, done))
        check("the daemon refuses " + what, done.returncode in (1, 2) and
              done.stderr.strip().splitlines()[-1].startswith("hydra-schedd: "),
              (done.returncode, done.stderr))


def main():
    stubs = Stubs()
    files = Files()
    try:
        with Daemon("--tls-ca", files.path("ca.pem"), "--tls-cert", files.path("live.pem"),
                    "--tls-key", files.path("live.key"),
                    "--token-file", files.path("access")) as daemon:
            who_gets_in(stubs, files, daemon.address)
            hydractl_says_what_is_missing(files, daemon.address)
            with connect(files, daemon.address) as channel:
                what_roles_may(stubs, channel)
            with grpc.insecure_channel("unix:" + daemon.socket) as channel:
                check("the own user may do everything", code(
                    stubs, channel, "OpenJob",
                    stubs.scheduler.OpenJobRequest(spec=stubs.job("own"))) == CODE.OK)
            other_user(daemon)
            reload(stubs, files, daemon)
            refuses_to_start(files)
    finally:
        shutil.rmtree(files.folder)


if __name__ == "__main__":
    main()
