#!/usr/bin/python3
"""Real processes under every fault at once: a daemon with a journal, three agents of which
one is a spare, a trainer that submits steps and asks again whatever happens.

Faults, drawn from HYDRA_SEED: agents and the daemon are killed, stopped for a while, ended
by SIGTERM; agents lose their network; the disk of the journal fills up; the daemon's wall
clock jumps. What must hold, however it went:

1 A step that was accepted ends as DONE or FAILED with a reason, and stays that.
2 No step runs again once the trainer knows that it is over, in no later life of the daemon.
3 The same question gets the same plan, unless the step was planned again in a later epoch.
4 Every accepted step is listed once, and the daemon's counts are the trainer's.
5 When the faults end, new steps run to DONE.

25 s of faults; HYDRA_LONG or HYDRA_CHAOS_S: longer. HYDRA_CHAOS_ONLY="network_cut agent_killed":
these alone.
"""
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

import harness
from harness import Stubs, check, from_package, skip

# Processes are started while calls run; gRPC's own care for that waits for the calls.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"
try:
    import grpc
except ImportError:
    skip("no grpc module for /usr/bin/python3 (package python3-grpcio)")

SEED = int(os.environ.get("HYDRA_SEED", "1"))
FAULTS_S = float(os.environ.get("HYDRA_CHAOS_S",
                                "600" if os.environ.get("HYDRA_LONG") else "25"))
ONLY = os.environ.get("HYDRA_CHAOS_ONLY", "").split()
INNER = "HYDRA_CHAOS_INNER"
CODE = grpc.StatusCode
NODES = ("a", "b", "c")
STATE_BYTES = 24 << 20


def sh(*words):
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)


def enter_own_namespaces():
    """Again in a network and a mount namespace of our own, where this is allowed."""
    if os.environ.get(INNER):
        return os.environ[INNER] == "yes"
    for flags in (["-n", "-m"], ["-r", "-n", "-m"]):
        probe = "ip link set lo up && ip link add x type veth peer name y && " \
                "mount -t tmpfs none /mnt"
        try:
            done = subprocess.run(["unshare", *flags, "sh", "-c", probe],
                                  capture_output=True, timeout=20)
        except (OSError, subprocess.TimeoutExpired):
            break
        if done.returncode == 0:
            os.environ[INNER] = "yes"
            os.execvp("unshare", ["unshare", *flags, sys.executable, *sys.argv])
    print("SKIPPED: cut networks and the full disk (needs root, or user namespaces)")
    os.environ[INNER] = "no"
    return False


class Process:
    """A program whose last lines are kept; what a sanitizer says ends the test."""

    def __init__(self, name, argv, environment=None, on_line=None, go=None):
        self.name = name
        self.lines = []
        self.on_line = on_line
        env = dict(os.environ, ASAN_OPTIONS="exitcode=99:verify_asan_link_order=0",
                   UBSAN_OPTIONS="exitcode=99:print_stacktrace=1", **(environment or {}))
        # It dies with the test. Not by preexec_fn: that forks, and some versions of grpc hang
        # before a fork.
        self.process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *argv],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True, env=env)
        if go is not None:
            go(self.process)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.append(line)
            if self.on_line is not None:
                self.on_line(line)
            elif len(self.lines) > 400:
                del self.lines[:200]

    def signal(self, number):
        if self.process.poll() is None:
            self.process.send_signal(number)

    def died_in_ucx(self):
        """UCX 1.13 aborts when two TCP connections of a pair cross while one is cut. Pairs
        are dialled from one side, so this should not happen any more; it is counted."""
        return self.process.poll() == -signal.SIGABRT and any(
            re.search(r"tcp_\w+\.c:\d+ +Assertion", line) for line in self.lines)

    def end(self, number, expected):
        """Signal, wait, and judge how it ended."""
        self.signal(signal.SIGCONT)
        self.signal(number)
        try:
            code = self.process.wait(harness.WAIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = "none within %d s" % harness.WAIT_S
        self.reader.join(harness.WAIT_S)
        check("%s ends as it should after signal %d" % (self.name, number),
              code in expected or self.died_in_ucx(),
              "%s\n%s" % (code, "".join(self.lines[-60:])))


class World:
    def __init__(self, namespaces, seed):
        self.namespaces = namespaces
        self.rng = random.Random(seed)
        self.folder = tempfile.mkdtemp(prefix="hydra-chaos-")
        self.state = os.path.join(self.folder, "state")
        self.clock = os.path.join(self.folder, "clock")
        self.life = 0          # of the daemon
        self.states = {}       # step: {life: [state, ...]} as the daemon logs them
        self.lock = threading.Lock()
        self.faults = {}
        self.agents = {}
        self.preload = None
        os.mkdir(self.state)
        if namespaces:
            sh("ip", "link", "set", "lo", "up")
            with open("/proc/sys/net/ipv4/ip_forward", "w") as file:
                file.write("1")
            sh("mount", "-t", "tmpfs", "-o", "size=%d" % STATE_BYTES, "none", self.state)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.set_clock(0)

    def set_clock(self, offset_s):
        with open(self.clock + ".new", "w") as file:
            file.write("%+d\n" % offset_s)
        os.rename(self.clock + ".new", self.clock)

    # -- the daemon --

    def _on_daemon_line(self, line):
        found = re.search(r' "step" job=chaos step=(\d+) epoch=\d+ state=(\S+)', line)
        if found is None:
            found = re.search(r' "step (failed)" job=chaos step=(\d+)', line)
            if found is None:
                return
            state, step = "failed", int(found.group(2))
        else:
            step, state = int(found.group(1)), found.group(2)
        with self.lock:
            self.states.setdefault(step, {}).setdefault(self.life, []).append(state)

    def start_daemon(self):
        environment = {}
        if self.preload:
            environment = {"LD_PRELOAD": self.preload, "FAKETIME_NO_CACHE": "1",
                           "FAKETIME_TIMESTAMP_FILE": self.clock,
                           "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
        with self.lock:
            self.life += 1
        self.daemon = Process("hydra-schedd", [
            os.path.join(harness.BIN, "hydra-schedd"), "--listen",
            "unix:" + os.path.join(self.folder, "s"), "--listen",
            ("0.0.0.0:%d" if self.namespaces else "127.0.0.1:%d") % self.port,
            "--insecure-remote", "--state", self.state, "--log-level", "debug",
            "--agents-heartbeat", "300ms", "--agents-lost", "1500ms",
            "--agents-address", "5s", "--agents-connect", "5s", "--agents-settle", "300ms",
            "--step-deadline", "4s", "--drain-grace", "5s",
            "--plan-keep-plans", "64", "--plan-keep-steps", "100000",
            "--journal-max-size", "12MiB"], environment, self._on_daemon_line)

    def restart_daemon(self, number):
        # One that has just begun may not listen to signals yet.
        self.daemon.end(number, (-signal.SIGKILL,) if number == signal.SIGKILL
                        else (0, -signal.SIGTERM))
        self.start_daemon()

    # -- agents --

    def _wire(self, index, process):
        """A network namespace with one link to the daemon's, then let the agent go."""
        out, inside = "h%d" % index, "a%d" % index
        subprocess.run(["ip", "link", "del", out], stderr=subprocess.DEVNULL)
        sh("ip", "link", "add", out, "type", "veth", "peer", "name", inside)
        sh("ip", "addr", "add", "10.213.%d.1/24" % index, "dev", out)
        sh("ip", "link", "set", out, "up")
        until = time.monotonic() + harness.WAIT_S
        own = os.readlink("/proc/self/ns/net")
        while os.readlink("/proc/%d/ns/net" % process.pid) == own:
            check("a namespace is made", time.monotonic() < until)
            time.sleep(0.01)
        sh("ip", "link", "set", inside, "netns", str(process.pid))
        enter = ["nsenter", "-t", str(process.pid), "-n", "ip"]
        sh(*enter, "link", "set", "lo", "up")
        sh(*enter, "addr", "add", "10.213.%d.2/24" % index, "dev", inside)
        sh(*enter, "link", "set", inside, "up")
        sh(*enter, "route", "add", "default", "via", "10.213.%d.1" % index)
        process.stdin.write("go\n")
        process.stdin.flush()

    def start_agent(self, node):
        index = NODES.index(node)
        host = "10.213.%d.1" % index if self.namespaces else "127.0.0.1"
        argv = [os.path.join(harness.BIN, "hydra-worker"), "--connect",
                "%s:%d" % (host, self.port), "--job", "chaos", "--node", node,
                "--ranks", "2", "--threads-per-rank", "1", "--compute", "cpu"]
        go = None
        if self.namespaces:
            # Shared memory wakes its reader through sockets that end at the namespace.
            argv += ["--links", "tcp,self"]
            # UCX looks for its devices in /sys, which shows the namespace of its mount.
            argv = ["unshare", "-n", "-m", "sh", "-c",
                    'mount -t sysfs none /sys && read -r go && exec "$@"', "sh", *argv]
            def go(process):
                self._wire(index, process)
        self.agents[node] = Process("agent " + node, argv, go=go)

    def stop(self):
        for agent in self.agents.values():
            agent.end(signal.SIGTERM, (0, -signal.SIGTERM))
        self.daemon.end(signal.SIGTERM, (0,))

    def remove(self):
        for process in [*self.agents.values(), self.daemon]:
            process.process.kill()
            process.process.wait()
        if self.namespaces:
            subprocess.run(["umount", self.state], check=False)
        shutil.rmtree(self.folder, ignore_errors=True)

    def keep_agents(self):
        """As a service manager does: who died comes back. Of itself only UCX may die."""
        for node in NODES:
            agent = self.agents[node]
            if agent.process.poll() is not None:
                agent.reader.join(harness.WAIT_S)
                check("%s lives" % agent.name, agent.died_in_ucx(),
                      (agent.process.poll(), "".join(agent.lines[-60:])))
                self.faults["abort_of_ucx"] = self.faults.get("abort_of_ucx", 0) + 1
                self.start_agent(node)

    # -- faults: each ends with everything there again --

    def pause(self, low, high):
        time.sleep(self.rng.uniform(low, high))

    def agent_killed(self):
        node = self.rng.choice(NODES)
        self.agents[node].end(signal.SIGKILL, (-signal.SIGKILL,))
        self.pause(0, 2)
        self.start_agent(node)

    def agent_stopped(self):
        agent = self.agents[self.rng.choice(NODES)]
        agent.signal(signal.SIGSTOP)
        self.pause(0.1, 4)
        agent.signal(signal.SIGCONT)

    def agent_ended(self):
        node = self.rng.choice(NODES)
        # One that has just begun may not listen to signals yet.
        self.agents[node].end(signal.SIGTERM, (0, -signal.SIGTERM))
        self.start_agent(node)

    def daemon_killed(self):
        self.restart_daemon(signal.SIGKILL)

    def daemon_ended(self):
        self.restart_daemon(signal.SIGTERM)

    def daemon_stopped(self):
        self.daemon.signal(signal.SIGSTOP)
        self.pause(0.1, 3)
        self.daemon.signal(signal.SIGCONT)

    def network_cut(self):
        link = "h%d" % self.rng.randrange(len(NODES))
        for state in ("down", "up"):
            # The link goes with an agent that died; keep_agents says whether it may.
            subprocess.run(["ip", "link", "set", link, state], stderr=subprocess.DEVNULL)
            if state == "down":
                self.pause(0.1, 4)

    def disk_full(self):
        path = os.path.join(self.state, "filler")
        with open(path, "wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(1 << 16))
            except OSError:
                pass
        self.pause(0.5, 3)
        os.unlink(path)

    def clock_jumped(self):
        self.set_clock(self.rng.choice((-86400, -3600, -5, 5, 3600, 86400, 0)))

    def run_faults(self, until):
        kinds = [self.agent_killed, self.agent_stopped, self.agent_ended,
                 self.daemon_killed, self.daemon_ended, self.daemon_stopped]
        if self.namespaces:
            kinds += [self.network_cut, self.disk_full]
        if self.preload:
            kinds += [self.clock_jumped]
        if ONLY:
            kinds = [kind for kind in kinds if kind.__name__ in ONLY]
        while time.monotonic() < until:
            # Each kind comes as often as the others, in an order of chance.
            self.rng.shuffle(kinds)
            for kind in kinds:
                if time.monotonic() < until:
                    self.faults[kind.__name__] = self.faults.get(kind.__name__, 0) + 1
                    kind()
                    self.pause(0.2, 2)
                    self.keep_agents()


class Trainer(threading.Thread):
    """Submits a step, waits for its end, asks again; what it was told is kept."""

    def __init__(self, world, stubs):
        super().__init__(daemon=True)
        self.world = world
        self.stubs = stubs
        self.rng = random.Random(SEED + 1)
        self.target = "unix:" + os.path.join(world.folder, "s")
        self.channel = None
        self.told = {}      # step: (state, reason)
        self.told_life = {}
        self.plans = {}     # step: {fingerprint}
        self.enough = False
        self.broken = None
        self.asked = 0
        self.refused = 0

    def service(self):
        if self.channel is None:
            self.channel = grpc.insecure_channel(self.target, options=[
                ("grpc.use_local_subchannel_pool", 1),
                ("grpc.max_reconnect_backoff_ms", 300)])
        return self.stubs.scheduler_grpc.SchedulerStub(self.channel)

    def open_job(self):
        spec = self.stubs.job("chaos")
        spec.run = self.stubs.scheduler.RUN_AGENTS
        spec.limits.cap_tokens = 160
        spec.wait_members_s = 20
        spec.cost.model.CopyFrom(self.stubs.types.ModelShape(
            layers=1, hidden=256, heads=4, kv_heads=2, head_dim=64, ffn=512))
        spec.execution.layers = 1
        spec.execution.seed = 11
        spec.execution.verify = self.stubs.types.VERIFY_SAMPLE
        self.service().OpenJob(self.stubs.scheduler.OpenJobRequest(spec=spec),
                               timeout=harness.WAIT_S, wait_for_ready=True)

    def ask(self, request, timeout):
        """One SubmitStep; None when the daemon did not answer, or not yet."""
        self.asked += 1
        try:
            answer = self.service().SubmitStep(request, timeout=timeout)
        except grpc.RpcError as error:
            if error.code() == CODE.UNAVAILABLE and "failed:" not in error.details():
                time.sleep(0.05)
            elif error.code() == CODE.CANCELLED or error.code() == CODE.DEADLINE_EXCEEDED:
                pass
            elif re.match(r"step %d failed: " % request.step, error.details()):
                self.over(request.step, "failed", error.details())
            else:
                raise
            self.refused += 1
            return None
        plan = answer.plan
        if plan.fingerprint:
            self.plans.setdefault(request.step, set()).add(plan.fingerprint)
        if answer.state == self.stubs.scheduler.STEP_DONE:
            self.over(request.step, "done", "")
        elif answer.state == self.stubs.scheduler.STEP_FAILED:
            self.over(request.step, "failed", answer.status_message)
        return answer

    def over(self, step, state, reason):
        if step in self.told:
            if self.told[step][0] != state:
                raise AssertionError("step %d was %s, now it is %s" %
                                     (step, self.told[step], state))
            return
        if state == "failed" and not reason:
            raise AssertionError("step %d failed without a reason" % step)
        with self.world.lock:
            self.told_life[step] = self.world.life
        self.told[step] = (state, reason)

    def run_step(self, number, timeout):
        lengths = [self.rng.randint(1, 250 if k % 8 == 0 else 40)
                   for k in range(self.rng.randint(6, 20))]
        request = self.stubs.step("chaos", number, lengths)
        until = time.monotonic() + timeout
        if self.ask(request, 5) is not None and self.rng.random() < 0.5:
            self.ask(request, 5)
        request.wait = self.stubs.scheduler.STEP_DONE
        while number not in self.told:
            if time.monotonic() > until:
                raise AssertionError("step %d is neither done nor failed after %d s" %
                                     (number, timeout))
            self.ask(request, 5)
        return lengths

    def run(self):
        lengths = {}
        number = 0
        try:
            while not self.enough:
                number += 1
                lengths[number] = self.run_step(number, 90)
                # A while later a step is still what it was, with the plan that it had.
                old = number - self.rng.randint(1, 8)
                if old in lengths:
                    self.ask(self.stubs.step("chaos", old, lengths[old]), 5)
        except Exception as error:  # told by the main thread
            self.broken = error
        self.last = number


def list_all(trainer):
    listed = []
    while True:
        page = trainer.service().ListSteps(trainer.stubs.scheduler.ListStepsRequest(
            job="chaos", from_step=listed[-1].step + 1 if listed else 0, limit=1000),
            timeout=harness.WAIT_S, wait_for_ready=True)
        listed += page.steps
        if not page.more:
            return listed


def judge(world, trainer):
    S = trainer.stubs.scheduler
    names = {S.STEP_DONE: "done", S.STEP_FAILED: "failed"}
    listed = list_all(trainer)
    check("each step is listed once, in order",
          [s.step for s in listed] == list(range(1, trainer.last + 1)),
          [s.step for s in listed])
    for step in listed:
        check("step %d is listed as it was told" % step.step,
              names.get(step.state) == trainer.told[step.step][0],
              (step.state, trainer.told[step.step]))
        check("a failure has a reason", step.state != S.STEP_FAILED or step.reason)
    job = trainer.service().GetJob(S.GetJobRequest(job="chaos"),
                                   timeout=harness.WAIT_S).job
    done = sum(state == "done" for state, _ in trainer.told.values())
    check("the counts are the trainer's",
          (job.steps_done, job.steps_failed) == (done, len(trainer.told) - done),
          (job.steps_done, job.steps_failed, done, len(trainer.told)))
    for step, lives in world.states.items():
        for life, states in lives.items():
            check("step %d does not run after it was known to be over" % step,
                  step not in trainer.told_life or life <= trainer.told_life[step],
                  (lives, trainer.told_life[step]))
            ends = [k for k, s in enumerate(states) if s in ("done", "failed")]
            check("step %d ends once in a life, and last" % step,
                  not ends or ends == [len(states) - 1], lives)
    for step, plans in trainer.plans.items():
        # A plan that replaces one is told by its assignment only.
        made = sum(states.count("planned") + states.count("assigned")
                   for states in world.states.get(step, {}).values())
        check("step %d has one plan for each time that it was planned" % step,
              len(plans) <= made, (plans, world.states.get(step)))
    return done


def main():
    namespaces = enter_own_namespaces()
    stubs = Stubs()
    world = World(namespaces, SEED)
    world.preload = from_package(
        "libfaketime", "usr/lib/%s-linux-gnu/faketime/libfaketimeMT.so.1" % os.uname().machine,
        optional=True)
    if world.preload is None:
        print("SKIPPED: jumps of the wall clock (no libfaketime)")
    print("seed %d, %g s; again with HYDRA_SEED=%d" % (SEED, FAULTS_S, SEED), flush=True)
    start = time.monotonic()
    world.start_daemon()
    trainer = Trainer(world, stubs)
    try:
        trainer.open_job()
        for node in NODES:
            world.start_agent(node)
        trainer.start()
        world.run_faults(time.monotonic() + FAULTS_S)
        world.set_clock(0)
        # Three more steps after the last fault, all of them done.
        last_fault = len(trainer.told)
        until = time.monotonic() + 120
        def done_in_a_row():
            told = sorted(trainer.told.items())[last_fault:]
            return len(told) >= 3 and all(t[1][0] == "done" for t in told[-3:])
        while not done_in_a_row() and trainer.broken is None:
            check("steps are done again when the faults end", time.monotonic() < until,
                  sorted(trainer.told.items())[last_fault:])
            world.keep_agents()
            time.sleep(0.1)
        trainer.enough = True
        trainer.join(120)
        check("every step ended, and stayed as it was", trainer.broken is None,
              trainer.broken)
        done = judge(world, trainer)
        check("a run in which nothing happened shows nothing", done >= 5, trainer.told)
        world.stop()
    except BaseException:
        for process in [world.daemon, *world.agents.values()]:
            sys.stderr.write("---- %s\n%s" % (process.name,
                                              "".join(process.lines[-40:])))
        raise
    finally:
        world.remove()
    print("%d steps: %d done, %d failed; %d lives of the daemon; %s; %d checks, %.0f s" % (
        len(trainer.told), done, len(trainer.told) - done, world.life,
        ", ".join("%s %d" % item for item in sorted(world.faults.items())),
        harness.n_checks, time.monotonic() - start))


if __name__ == "__main__":
    main()
