#!/usr/bin/python3
"""hydractl beside a daemon that works: the live picture on a terminal, lines in a pipe, and
lists of more steps than one answer holds."""
import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import tempfile
import termios
import threading

from fleet import Agent, by_tokens
from harness import BIN, WAIT_S, Daemon, Stubs, check, skip

N_STEPS = 1100  # an answer of ListSteps holds 1000


class Screen:
    """What a terminal shows after some bytes: the cursor goes home, lines are cleared."""

    def __init__(self, columns, rows):
        self.columns, self.rows = columns, rows
        self.lines = [""] * rows
        self.x = self.y = 0
        self.scrolled = 0

    def feed(self, text):
        for part in re.findall(r"\x1b\[[0-9;]*[A-Za-z]|.|\n", text, re.S):
            if part == "\n":
                self.y += 1
                if self.y == self.rows:
                    self.y -= 1
                    self.scrolled += 1
                    self.lines = self.lines[1:] + [""]
            elif part == "\r":
                self.x = 0
            elif part == "\x1b[H":
                self.x = self.y = 0
            elif part == "\x1b[2J":
                self.lines = [""] * self.rows
            elif part == "\x1b[J":
                self.lines[self.y] = self.lines[self.y][:self.x]
                self.lines[self.y + 1:] = [""] * (self.rows - self.y - 1)
            elif part == "\x1b[K":
                self.lines[self.y] = self.lines[self.y][:self.x]
            elif part.endswith("m") and part.startswith("\x1b"):
                pass
            else:
                check("only known sequences are used", part[0] >= " ", repr(part))
                line = self.lines[self.y].ljust(self.x)
                self.lines[self.y] = line[:self.x] + part + line[self.x + 1:]
                self.x += 1

    def text(self):
        return "\n".join(line.rstrip() for line in self.lines)


class Terminal:
    """A command on a terminal of its own."""

    def __init__(self, columns, rows, *words, **environment):
        self.screen = Screen(columns, rows)
        self.raw = ""
        self.fd, command = pty.openpty()
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ,
                    struct.pack("HHHH", rows, columns, 0, 0))
        self.process = subprocess.Popen(
            [os.path.join(BIN, "hydractl"), *words], stdin=command, stdout=command,
            stderr=command, start_new_session=True,
            env=dict(os.environ, TERM="xterm", LC_ALL="C.UTF-8", **environment))
        os.close(command)

    def run(self, until=None):
        """Read until the screen holds a text, or to the end; returns the exit code."""
        timer = threading.Timer(WAIT_S, self.process.kill)
        timer.start()
        waiting = b""
        try:
            while until is None or not re.search(until, self.screen.text()):
                try:
                    piece = os.read(self.fd, 65536)
                except OSError:
                    piece = b""
                if not piece:
                    break
                waiting += piece
                text = waiting.decode(errors="ignore")
                waiting = b"" if waiting.decode(errors="ignore").encode() == waiting \
                    else waiting[len(text.encode()):]
                self.raw += text
                self.screen.feed(text)
            if until is not None:
                check("the screen shows " + until,
                      re.search(until, self.screen.text()), self.screen.text())
                return None
            os.close(self.fd)
            return self.process.wait(WAIT_S)
        finally:
            timer.cancel()

    def end(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait(WAIT_S)
        os.close(self.fd)


def run(daemon, *words):
    done = subprocess.run([os.path.join(BIN, "hydractl"), *words, "--connect",
                           "unix:" + daemon.socket], capture_output=True, text=True,
                          timeout=4 * WAIT_S)
    return done.returncode, done.stdout, done.stderr


def live_job(stubs, service, channel):
    """Eight ranks on two nodes, two steps done and one failed."""
    job = stubs.job("live")
    job.run = stubs.scheduler.RUN_AGENTS
    job.pool.ranks, job.pool.ranks_per_node = 8, 4
    job.wait_members_s = WAIT_S
    service.OpenJob(stubs.scheduler.OpenJobRequest(spec=job), timeout=WAIT_S)
    agents = [Agent(stubs, channel, "live", node, 4, by_tokens) for node in ("a", "b")]
    for step in (0, 1):
        request = stubs.step("live", step, (900, 500, 120, 80, 300, 650))
        request.wait = stubs.scheduler.STEP_DONE
        answer = service.SubmitStep(request, timeout=WAIT_S)
        check("a step is done", answer.state == stubs.scheduler.STEP_DONE, answer)
    agents[1].fails = "rank 5: out of \x1b[31mmemory\n"
    request = stubs.step("live", 2, (900, 500))
    request.wait = stubs.scheduler.STEP_DONE
    try:
        service.SubmitStep(request, timeout=WAIT_S)
        check("a step that should fail", False)
    except stubs.grpc.RpcError as error:
        check("a step has failed", "memory" in error.details(), error)
    return agents


def on_a_terminal(daemon, service, stubs, agents):
    connect = "unix:" + daemon.socket
    view = Terminal(120, 40, "watch", "live", "--interval", "0.05", "--connect", connect)
    # To the last row: a picture comes in pieces.
    view.run(r"(?s)live +open +8 (?=.*steps.*2  failed )"
             r"(?=.*1  done +6 +2,550 +\d+ +[\d.e-]+ +\d\.\d{3} +\d\.\d{3})"
             r".*last faults.*members: 2 agents")
    text = view.screen.text()
    for part in (r"live +open +8 +8 +\d+ +2 +1 ", r"live step 2: .*rank 5: out of \?",
                 r"a +0\.\.3 +\w+", r"b +4\.\.7 +\w+", r"2  failed ",
                 r"1  done +6 +2,550 +\d+ +[\d.e-]+ +\d\.\d{3} +\d\.\d{3}"):
        check("the picture has " + part, re.search(part, text), text)
    service.SubmitStep(stubs.step("live", 3, (700, 600, 500)), timeout=WAIT_S)
    view.run(r"3  done ")
    check("a step rate is there", re.search(r"live .* 3 +1 +\d", view.screen.text()),
          view.screen.text())
    agents[1].vanish()
    view.run(r"members: 1 agent,")
    check("nothing scrolls", view.screen.scrolled == 0, view.screen.scrolled)
    view.end()

    small = Terminal(60, 10, "watch", "live", "--count", "2", "--interval", "0.05",
                     "--connect", connect)
    check("a small terminal is fine", small.run() == 0)
    check("nothing scrolls there but the prompt", small.screen.scrolled <= 1)
    check("lines are cut", all(len(line) <= 60 for line in small.screen.lines))

    plain = Terminal(120, 30, "watch", "--count", "1", "--connect", connect,
                     NO_COLOR="1")
    check("all jobs", plain.run() == 0 and "live" in plain.screen.text() and
          "many" in plain.screen.text(), plain.screen.text())
    check("no colour", not re.search(r"\x1b\[[0-9;]*m", plain.raw), plain.raw)
    none = Terminal(80, 24, "watch", "nobody", "--connect", connect)
    check("an unknown job ends it", none.run() == 1 and
          "job is 'nobody'" in none.screen.text(), none.screen.text())


def in_a_pipe(daemon):
    code, out, err = run(daemon, "watch", "--count", "2", "--interval", "0.05")
    check("a line a job, and no more while nothing changes", code == 0 and
          len(out.splitlines()) == 2 and "\x1b" not in out, out + err)
    check("lines are key=value",
          re.search(r"^job=live state=open ranks=8 members=\d+ epoch=\d+ done=3 failed=1 "
                    r"last_step=3 predicted_balance=[\d.]+ "
                    r"measured_balance_cells=[\d.]+$", out, re.M), out)
    code, out, err = run(daemon, "watch", "--count", "1", "--json")
    check("one document a line", code == 0 and
          sorted(json.loads(line)["spec"]["name"] for line in out.splitlines()) ==
          ["live", "many"], out + err)
    code, out, err = run(daemon, "steps", "live")
    check("a reason stays on its line", code == 0 and "\x1b" not in out and
          len(out.splitlines()) == 5, out)


def many_steps(daemon, stubs, service):
    job = stubs.job("many")
    job.policy.policy = "static"
    service.OpenJob(stubs.scheduler.OpenJobRequest(spec=job), timeout=WAIT_S)
    requests = (stubs.step("many", 2 * n) for n in range(N_STEPS))
    for answer in service.Train(requests, timeout=4 * WAIT_S):
        check("a step is taken", answer.status_code == 0, answer)
    code, out, err = run(daemon, "steps", "many", "--limit", "100000", "--json")
    steps = [step["step"] for step in json.loads(out)["steps"]]
    check("steps lists every page", steps == [2 * n for n in range(N_STEPS)],
          (len(steps), err))
    check("steps stops at its limit", json.loads(run(
        daemon, "steps", "many", "--limit", "1050", "--json")[1])["more"])
    code, out, err = run(daemon, "report", "many", "--json")
    report = json.loads(out)["jobs"][0]["report"]
    check("report has every step", code == 0 and len(report["steps"]) == N_STEPS and
          not report["more"], (code, err))
    code, out, err = run(daemon, "report", "many")
    check("report shows every step",
          len(re.findall(r"^step \d+ ", out, re.M)) == N_STEPS, (code, err))
    newest = service.ListSteps(stubs.scheduler.ListStepsRequest(
        job="many", limit=3, newest=True), timeout=WAIT_S)
    check("the newest steps, in order", [s.step for s in newest.steps] ==
          [2 * n for n in range(N_STEPS - 3, N_STEPS)] and newest.more, newest)
    newest = service.ListSteps(stubs.scheduler.ListStepsRequest(
        job="many", limit=3, newest=True, from_step=2 * N_STEPS - 5), timeout=WAIT_S)
    check("no older ones than asked for", [s.step for s in newest.steps] ==
          [2 * N_STEPS - 4, 2 * N_STEPS - 2] and not newest.more, newest)


def main():
    try:
        for end in pty.openpty():
            os.close(end)
    except OSError as error:
        skip("no pseudo-terminal here: %s" % error)
    stubs = Stubs()
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as config:
        config.write("[plan]\nkeep_steps = %d\n" % (2 * N_STEPS))
        config.flush()
        watch(stubs, config.name)


def watch(stubs, config):
    with Daemon("--config", config) as daemon:
        channel = stubs.grpc.insecure_channel("unix:" + daemon.socket)
        service = stubs.scheduler_grpc.SchedulerStub(channel)
        many_steps(daemon, stubs, service)
        agents = live_job(stubs, service, channel)
        on_a_terminal(daemon, service, stubs, agents)
        in_a_pipe(daemon)
        view = Terminal(100, 30, "watch", "live", "--interval", "0.05", "--connect",
                        "unix:" + daemon.socket)
        view.run(r"live +open")
        service.CloseJob(stubs.scheduler.CloseJobRequest(job="live"), timeout=WAIT_S)
        check("the picture ends with its job", view.run() == 0 and
              "job live is closed" in view.screen.text(), view.screen.text())
        channel.close()
        left = Terminal(100, 30, "watch", "many", "--interval", "0.05", "--connect",
                        "unix:" + daemon.socket)
        left.run(r"many +open")
    left.run(r"NO ANSWER, trying again: no daemon at unix:")
    left.end()


if __name__ == "__main__":
    main()
