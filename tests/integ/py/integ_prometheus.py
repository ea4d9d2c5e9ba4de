#!/usr/bin/python3
"""A real Prometheus scrapes the daemon: what it stores is what the daemon did, histograms
can be queried, and behind token rules it needs a token."""
import json
import os
import re
import shutil
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

import harness
from harness import Daemon, Stubs, check, from_package, skip

try:
    import grpc
except ImportError:
    skip("no grpc module for /usr/bin/python3 (package python3-grpcio)")

PROMETHEUS = from_package("prometheus", "usr/bin/prometheus")
PROMTOOL = from_package("prometheus", "usr/bin/promtool")
TOKEN = "prometheus-token-0123456789"
CONFIG = """
global: {scrape_interval: 200ms, scrape_timeout: 200ms}
scrape_configs:
  - job_name: open
    static_configs: [{targets: ['127.0.0.1:%d']}]
  - job_name: with_token
    authorization: {credentials: %s}
    static_configs: [{targets: ['127.0.0.1:%d']}]
  - job_name: without_token
    static_configs: [{targets: ['127.0.0.1:%d']}]
"""


def http_port(daemon):
    until = time.monotonic() + harness.WAIT_S
    while True:
        for line in list(daemon.log):
            found = re.search(r'"serving http" address=\S+ port=(\d+)', line)
            if found:
                return int(found.group(1))
        check("the daemon serves http", time.monotonic() < until, daemon.log)
        time.sleep(0.02)


class Prometheus:
    """On a port of its own choice, with its data in a folder that goes at the end."""

    def __init__(self, config):
        self.folder = tempfile.mkdtemp(prefix="hydra-prometheus-")
        path = os.path.join(self.folder, "prometheus.yml")
        with open(path, "w") as file:
            file.write(config)
        subprocess.run([PROMTOOL, "check", "config", path], check=True,
                       stdout=subprocess.DEVNULL)
        self.log = []
        self.port = None
        self.listening = threading.Event()
        self.process = subprocess.Popen(
            [PROMETHEUS, "--config.file=" + path,
             "--storage.tsdb.path=" + os.path.join(self.folder, "data"),
             "--web.listen-address=127.0.0.1:0"], stderr=subprocess.PIPE, text=True)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        check("prometheus starts", self.listening.wait(harness.WAIT_S) and self.port,
              "".join(self.log))

    def _read(self):
        for line in self.process.stderr:
            self.log.append(line)
            found = re.search(r'"Listening on" address=127\.0\.0\.1:(\d+)', line)
            if found:
                self.port = int(found.group(1))
                self.listening.set()
        self.listening.set()

    def query(self, expression):
        """[(labels, value)] of an instant query."""
        url = "http://127.0.0.1:%d/api/v1/query?query=%s" % (
            self.port, urllib.parse.quote(expression))
        try:
            with urllib.request.urlopen(url, timeout=harness.WAIT_S) as answer:
                result = json.load(answer)["data"]["result"]
        except urllib.error.HTTPError as error:
            if error.code == 503:  # it is still starting
                return []
            raise
        return [(entry["metric"], float(entry["value"][1])) for entry in result]

    def wait(self, expression, value):
        """Until the first sample of an expression has this value (None: any)."""
        until = time.monotonic() + harness.WAIT_S
        while True:
            seen = self.query(expression)
            if seen and (value is None or seen[0][1] == value):
                check("prometheus knows " + expression, True)
                return seen
            check("prometheus knows %s = %s" % (expression, value),
                  time.monotonic() < until, seen)
            time.sleep(0.1)

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(harness.WAIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.reader.join(harness.WAIT_S)
        shutil.rmtree(self.folder)


def do_things(stubs, daemon):
    """Known numbers of everything: 3 steps of which one ends, 2 what-ifs, 1 refusal."""
    with grpc.insecure_channel("unix:" + daemon.socket) as channel:
        service = stubs.scheduler_grpc.SchedulerStub(channel)
        service.OpenJob(stubs.scheduler.OpenJobRequest(spec=stubs.job("watched")),
                        timeout=30)
        for number in (1, 2, 3):
            service.SubmitStep(stubs.step("watched", number), timeout=30)
        service.ReportStep(stubs.scheduler.ReportStepRequest(
            job="watched", step=1, report=stubs.scheduler.StepReport(wall_s=0.5)), timeout=30)
        for _ in range(2):
            service.Plan(stubs.plan_request(), timeout=30)
        try:
            service.GetJob(stubs.scheduler.GetJobRequest(job="nobody"), timeout=30)
        except grpc.RpcError:
            pass


def exposition_is_clean(port):
    with urllib.request.urlopen("http://127.0.0.1:%d/metrics" % port,
                                timeout=harness.WAIT_S) as answer:
        text = answer.read()
        kind = answer.headers["Content-Type"]
    check("the content type is the text format's", kind.startswith("text/plain")
          and "version=0.0.4" in kind, kind)
    done = subprocess.run([PROMTOOL, "check", "metrics"], input=text, capture_output=True,
                          timeout=harness.WAIT_S)
    check("promtool finds nothing to say", done.returncode == 0 and not done.stdout
          and not done.stderr, (done.stdout, done.stderr))


def what_was_done_is_stored(prometheus):
    up = 'up{job="open"}'
    prometheus.wait(up, 1.0)
    this = 'job="open",exported_job="watched"'
    prometheus.wait("hydra_steps_total{%s,state='planned'}" % this, 3.0)
    prometheus.wait("hydra_steps_total{%s,state='done'}" % this, 1.0)
    prometheus.wait("hydra_steps_ahead{%s}" % this, 0.0)
    prometheus.wait("hydra_planned_tokens_total{%s}" % this, 3000.0)
    prometheus.wait("hydra_pool_ranks{%s}" % this, 4.0)
    prometheus.wait("hydra_jobs_open{job='open'}", 1.0)
    prometheus.wait("hydra_plans_total{job='open',kind='what_if',outcome='ok'}", 2.0)
    prometheus.wait("hydra_plan_seconds_count{job='open',kind='step'}", 3.0)
    prometheus.wait("hydra_rpc_calls_total{job='open',method='GetJob',"
                    "code='NOT_FOUND'}", 1.0)
    prometheus.wait("hydra_journal_plan_seconds_count{job='open'}", 3.0)
    prometheus.wait("hydra_journal_failures_total{job='open'}", 0.0)
    for positive in ("hydra_plan_balance_ratio{%s} >= 1" % this,
                     "hydra_plan_useful_ratio{%s} > 0" % this,
                     "count(hydra_plan_bubble_ratio{%s}) == 4" % this,
                     "hydra_step_predicted_seconds{%s} > 0" % this,
                     "hydra_journal_bytes{job='open'} > 0",
                     "process_resident_memory_bytes{job='open'} > 0",
                     "count(hydra_build_info{job='open'}) == 1"):
        prometheus.wait(positive, None)
    quantile = prometheus.wait("histogram_quantile(0.5, sum by (le) "
                               "(hydra_rpc_seconds_bucket{job='open'}))", None)
    check("a median of the calls can be asked for", 0.0 < quantile[0][1] <= 30.0, quantile)


def alerts_hold(port):
    """The alerts fire when they should, and every metric that they name exists."""
    rules = os.path.join(harness.SOURCE, "deploy", "prometheus", "hydra.rules.yaml")
    for words in (("check", "rules", rules),
                  ("test", "rules", os.path.join(harness.SOURCE, "tests", "integ", "data",
                                                 "hydra.rules.test.yaml"))):
        done = subprocess.run([PROMTOOL, *words], capture_output=True, text=True,
                              timeout=harness.WAIT_S)
        check("promtool %s %s" % words[:2], done.returncode == 0, done.stdout + done.stderr)
    with urllib.request.urlopen("http://127.0.0.1:%d/metrics" % port,
                                timeout=harness.WAIT_S) as answer:
        known = set(re.findall(r"^# TYPE (\S+)", answer.read().decode(), re.MULTILINE))
    with open(rules) as file, open(os.path.join(harness.SOURCE, "deploy", "README.md")) as page:
        named = set(re.findall(r"\bhydra_[a-z_]+[a-z]\b",
                               "\n".join(re.findall(r"expr:[^#]*?labels:", file.read())) +
                               page.read().split("## Watching it")[1].split("\n## ")[0]))
    named = {re.sub("_(bucket|sum|count)$", "", name) for name in named}
    check("alerts and README name metrics that exist", named <= known and len(named) > 10,
          named - known)


def main():
    stubs = Stubs()
    folder = tempfile.mkdtemp(prefix="hydra-prom-")
    rules = os.path.join(folder, "access")
    with open(os.open(rules, os.O_CREAT | os.O_WRONLY, 0o600), "w") as file:
        file.write("token  prometheus  reader  %s\n" % TOKEN)
    try:
        with Daemon("--http", "127.0.0.1:0", "--state",
                    os.path.join(folder, "state")) as plain, \
                Daemon("--http", "127.0.0.1:0", "--token-file", rules) as guarded:
            do_things(stubs, plain)
            exposition_is_clean(http_port(plain))
            alerts_hold(http_port(plain))
            prometheus = Prometheus(CONFIG % (http_port(plain), TOKEN,
                                              http_port(guarded), http_port(guarded)))
            try:
                what_was_done_is_stored(prometheus)
                prometheus.wait('up{job="with_token"}', 1.0)
                prometheus.wait('hydra_jobs_open{job="with_token"}', 0.0)
                prometheus.wait('up{job="without_token"}', 0.0)
            finally:
                prometheus.stop()
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
