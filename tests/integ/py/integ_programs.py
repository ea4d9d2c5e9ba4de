#!/usr/bin/python3
"""hydractl and hydra-worker against a daemon with client certificates, tokens and roles, by
every flag and variable; new certificates and tokens taken up by everybody while they run;
the page and the metrics behind tokens."""
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request

import harness
from harness import Daemon, check, skip

if shutil.which("openssl") is None:
    skip("no openssl to make certificates with")

TRAINER = "trainer-secret-0123456789"
READER = "reader-secret-0123456789"
WORKER = "worker-secret-0123456789"
RULES = """
token  jobs     trainer  %s
token  watcher  reader   %s
token  agents   worker   %s
cert   worker-3 worker
cert   trainer-7 trainer
""" % (TRAINER, READER, WORKER)
NO_CERTIFICATE_RULES = RULES.split("cert ")[0]


class Files:
    """Certificates (tests/lib/certs.sh), tokens, and the ones in use as live-*."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="hydra-programs-")
        subprocess.run(["sh", os.path.join(harness.SOURCE, "tests/lib/certs.sh"),
                        self.folder], check=True)
        for name, token in (("trainer", TRAINER), ("reader", READER), ("worker", WORKER)):
            self.write(name + ".token", token + "\n")
        self.write("access", RULES)
        self.copy("ca.pem", "live-ca.pem")
        self.copy("worker.pem", "live-worker.pem")
        self.copy("worker.key", "live-worker.key")
        self.copy("worker.token", "live-worker.token")

    def path(self, name):
        return os.path.join(self.folder, name)

    def copy(self, source, target):
        """In one step, as whoever renews certificates should."""
        shutil.copy(self.path(source), self.path(target + ".new"))
        os.rename(self.path(target + ".new"), self.path(target))

    def write(self, name, text):
        with open(os.open(self.path(name + ".new"), os.O_CREAT | os.O_WRONLY | os.O_TRUNC,
                          0o600), "w") as file:
            file.write(text)
        os.rename(self.path(name + ".new"), self.path(name))


def certificate_of(files, who, ca="ca.pem"):
    return ["--tls-ca", files.path(ca), "--tls-cert", files.path(who + ".pem"),
            "--tls-key", files.path(who + ".key")]


def hydractl(*words, environment=None):
    # gRPC and OpenSSL leave a handshake that failed behind when a program ends at once.
    environment = dict(environment or {}, ASAN_OPTIONS="exitcode=99:detect_leaks=0")
    env = {key: value for key, value in os.environ.items()
           if not key.startswith("HYDRA_T") and key != "HYDRA_CONNECT"}
    return subprocess.run([os.path.join(harness.BIN, "hydractl"), *words],
                          capture_output=True, text=True, timeout=harness.WAIT_S * 2,
                          env=dict(env, **environment))


def expect(what, done, code, *texts):
    check(what, done.returncode == code and
          all(text in done.stdout + done.stderr for text in texts),
          (done.returncode, done.stdout[-600:], done.stderr[-600:]))


def who_gets_in(files, address):
    trainer = certificate_of(files, "trainer")
    call = ("job", "list", "--connect", address)
    expect("a certificate by flags", hydractl(*call, *trainer), 0)
    expect("a certificate and a name that is not the host's",
           hydractl(*call, "--tls-name", "localhost", *trainer), 0)
    refused = hydractl(*call, "--timeout", "5", *certificate_of(files, "rogue"))
    expect("a certificate of another authority", refused, 3)
    expect("no certificate", hydractl(*call, "--timeout", "5", "--tls-ca",
                                      files.path("ca.pem")), 3)
    expect("the daemon's certificate is not of our authority",
           hydractl(*call, "--timeout", "5", *certificate_of(files, "trainer",
                                                             "other.pem")), 3)
    expect("a name that the daemon's certificate has not",
           hydractl(*call, "--timeout", "5", "--tls-name", "somebody", *trainer), 3)
    expect("a key without its certificate",
           hydractl(*call, "--tls-ca", files.path("ca.pem"), "--tls-key",
                    files.path("trainer.key")), 2, "tls_cert")
    expect("a certificate that is not there",
           hydractl(*call, "--tls-ca", files.path("none.pem")), 2, "none.pem")
    expect("health asks for nothing but the connection",
           hydractl("health", "--connect", address, *certificate_of(files, "stranger")), 0,
           "serving")


def what_roles_may(files, address):
    stranger = certificate_of(files, "stranger")
    call = ("--connect", address, "--timeout", "20")
    spec = ("--ranks", "4", "--cap", "1000", "--model", "llama-8b", "--run", "none")
    opened = hydractl("job", "open", "roles", *spec, *call, *certificate_of(files, "trainer"))
    expect("a trainer's certificate opens a job", opened, 0)
    expect("a stranger's does not even look", hydractl("job", "list", *call, *stranger), 2,
           "reader")
    expect("with a reader's token it looks", hydractl(
        "job", "list", "--token-file", files.path("reader.token"), *call, *stranger), 0,
        "roles")
    expect("and does no more", hydractl(
        "job", "close", "roles", "--token-file", files.path("reader.token"), *call,
        *stranger), 2, "trainer")
    expect("with a trainer's token it closes the job", hydractl(
        "job", "close", "roles", "--token-file", files.path("trainer.token"), *call,
        *stranger), 0)
    files.write("wrong.token", "not-a-secret-0123456789\n")
    expect("a wrong token ends a call that the certificate would allow", hydractl(
        "job", "list", "--token-file", files.path("wrong.token"), *call,
        *certificate_of(files, "trainer")), 2, "token")


class Worker:
    def __init__(self, address, node, *flags, **variables):
        self.log = []
        self.process = subprocess.Popen(
            [os.path.join(harness.BIN, "hydra-worker"), "--connect", address, "--job",
             "run", "--node", node, "--ranks", "2", "--threads-per-rank", "1",
             "--compute", "cpu", *flags], stderr=subprocess.PIPE, text=True,
            env=dict(os.environ, ASAN_OPTIONS="exitcode=99", **variables))
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stderr:
            self.log.append(line)

    def wait_for(self, pattern, since=0):
        until = time.monotonic() + harness.WAIT_S
        while not any(re.search(pattern, line) for line in self.log[since:]):
            check("an agent says '%s'" % pattern, time.monotonic() < until and
                  self.process.poll() is None, "".join(self.log[-20:]))
            time.sleep(0.05)

    def end(self, code):
        self.process.send_signal(signal.SIGTERM)
        got = self.process.wait(harness.WAIT_S)
        self.reader.join(harness.WAIT_S)
        check("an agent ends with %d" % code, got == code, (got, "".join(self.log[-20:])))


def reloaded(daemon):
    text = "certificates and tokens reloaded"
    before = sum(text in line for line in daemon.log)
    daemon.process.send_signal(signal.SIGHUP)
    until = time.monotonic() + harness.WAIT_S
    while sum(text in line for line in daemon.log) == before:
        check("the daemon reloads", time.monotonic() < until, daemon.log[-5:])
        time.sleep(0.02)


def run_step(files, address, number):
    lengths = files.path("lengths")
    with open(lengths, "w") as file:
        file.write("90\n40\n30\n20\n10\n")
    done = hydractl("submit", "run", lengths, "--step", str(number), "--wait", "--connect",
                    address, "--timeout", "60", "--json", *certificate_of(files, "trainer"))
    expect("step %d runs on the agents" % number, done, 0)
    return json.loads(done.stdout)


def agents(files, daemon, address):
    """Two agents, one known by its certificate and one by its token."""
    model = files.path("small.json")
    with open(model, "w") as file:
        json.dump({"name": "small", "layers": 1, "hidden": 256, "heads": 4, "kv_heads": 2,
                   "head_dim": 64, "ffn": 512}, file)
    opened = hydractl("job", "open", "run", "--ranks", "4", "--cap", "160", "--model", model,
                      "--wait-members", "60", "--connect", address,
                      *certificate_of(files, "trainer"))
    expect("a job for agents", opened, 0)
    wrong = Worker(address, "x", *certificate_of(files, "trainer"))
    wrong.wait_for("worker")
    wrong.process.kill()
    wrong.process.wait()
    certified = Worker(address, "a", "--tls-ca", files.path("live-ca.pem"), "--tls-cert",
                       files.path("live-worker.pem"), "--tls-key",
                       files.path("live-worker.key"))
    token = Worker(address, "b", HYDRA_TLS_CA=files.path("live-ca.pem"),
                   HYDRA_TLS_CERT=files.path("stranger.pem"),
                   HYDRA_TLS_KEY=files.path("stranger.key"),
                   HYDRA_TOKEN_FILE=files.path("live-worker.token"))
    try:
        certified.wait_for("state=ready")
        token.wait_for("state=ready")
        run_step(files, address, 1)
        renew(files, daemon, address, certified, token)
        certified.end(0)
        token.end(0)
    finally:
        for worker in (certified, token):
            worker.process.kill()
            worker.process.wait()


def renew(files, daemon, address, certified, token):
    """A new secret and a new name in the rules: streams stay, who attaches anew needs it."""
    files.write("access", RULES.replace(WORKER, "fresh-worker-secret-0123456789").replace(
        "worker-3", "localhost-agent"))
    reloaded(daemon)
    run_step(files, address, 2)
    seen = (len(certified.log), len(token.log))
    # The way to make both attach anew is to stop them for longer than they may be silent.
    for worker in (certified, token):
        worker.process.send_signal(signal.SIGSTOP)
    until = time.monotonic() + harness.WAIT_S
    while sum("agent lost" in line for line in daemon.log) < 2:
        check("silent agents are lost", time.monotonic() < until, daemon.log[-5:])
        time.sleep(0.05)
    for worker in (certified, token):
        worker.process.send_signal(signal.SIGCONT)
    certified.wait_for("state=detached.*role is not given", seen[0])
    token.wait_for("state=detached.*token", seen[1])
    certificate = certificate_for("localhost-agent", files)
    files.copy(certificate + ".key", "live-worker.key")
    files.copy(certificate + ".pem", "live-worker.pem")
    files.write("live-worker.token", "fresh-worker-secret-0123456789\n")
    run_step(files, address, 3)


def certificate_for(name, files):
    """A certificate of the same authority with this name."""
    run = ["openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
           "-nodes", "-keyout", name + ".key", "-out", name + ".csr", "-subj", "/CN=" + name]
    subprocess.run(run, cwd=files.folder, check=True, stderr=subprocess.DEVNULL)
    with open(files.path(name + ".ext"), "w") as file:
        file.write("subjectAltName=DNS:%s\nextendedKeyUsage=clientAuth\n" % name)
    subprocess.run(["openssl", "x509", "-req", "-in", name + ".csr", "-CA", "ca.pem",
                    "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile",
                    name + ".ext", "-out", name + ".pem"], cwd=files.folder, check=True,
                   stderr=subprocess.DEVNULL)
    return name


def http_port(daemon):
    for line in list(daemon.log):
        found = re.search(r'"serving http" address=\S+ port=(\d+)', line)
        if found:
            return int(found.group(1))
    return None


def get(port, path, token=None, body=None):
    request = urllib.request.Request("http://127.0.0.1:%d%s" % (port, path), data=body)
    if token:
        request.add_header("Authorization", "Bearer " + token)
    try:
        with urllib.request.urlopen(request, timeout=harness.WAIT_S) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def page_and_metrics(files, daemon):
    port = http_port(daemon)
    for path, body in (("/metrics", None), ("/api/ListJobs", b"{}")):
        check(path + " asks for a token", get(port, path, None, body)[0] == 401)
        check(path + " takes a reader's", get(port, path, READER, body)[0] == 200)
        check(path + " takes a trainer's", get(port, path, TRAINER, body)[0] == 200)
        check(path + " does not take a worker's",
              get(port, path, WORKER, body)[0] in (401, 403))
        check(path + " does not take a wrong one",
              get(port, path, READER + "x", body)[0] == 401)
    files.write("access", RULES.replace(READER, "fresh-reader-secret-0123456789"))
    reloaded(daemon)
    check("the old token is nobody's", get(port, "/metrics", READER)[0] == 401)
    check("the new one counts",
          get(port, "/metrics", "fresh-reader-secret-0123456789")[0] == 200)
    files.write("access", RULES)
    reloaded(daemon)


def main():
    files = Files()
    try:
        with Daemon("--tls-ca", files.path("live-ca.pem"), "--tls-cert",
                    files.path("server.pem"), "--tls-key", files.path("server.key"),
                    "--token-file", files.path("access"), "--http", "127.0.0.1:0",
                    "--agents-heartbeat", "300ms", "--agents-lost", "2s",
                    "--agents-settle", "300ms") as daemon:
            address = daemon.address
            who_gets_in(files, address)
            what_roles_may(files, address)
            page_and_metrics(files, daemon)
            agents(files, daemon, address)
    finally:
        shutil.rmtree(files.folder)


if __name__ == "__main__":
    main()
