#!/usr/bin/python3
"""Every limit of [limits] and [plan], by a daemon with small ones: what is over is refused,
by name where it has one, and the next call is served."""
import socket
import struct
import threading
import time

import harness
from harness import Daemon, Stubs, check, skip

try:
    import grpc
except ImportError:
    skip("no grpc module for /usr/bin/python3 (package python3-grpcio)")
import integ_bad_input as raw

CODE = grpc.StatusCode
LIMITS = ("--limits-message", "256KiB", "--limits-decoded", "1MiB", "--limits-queue",
          "64KiB", "--limits-calls", "20", "--limits-streams", "6", "--limits-idle", "1s",
          "--limits-jobs", "4", "--limits-ranks", "16", "--limits-sequences", "100",
          "--limits-length-tokens", "5000", "--plan-max-ahead", "2", "--plan-threads", "1",
          "--plan-queue", "1", "--plan-keep-steps", "8", "--plan-keep-plans", "2")


def open_channel(daemon):
    """A connection of its own."""
    return grpc.insecure_channel("unix:" + daemon.socket, options=[
        ("grpc.use_local_subchannel_pool", 1), ("grpc.max_send_message_length", -1),
        ("grpc.http2.bdp_probe", 0)])


def refusal(call):
    """(code, text) of a call that should fail."""
    try:
        call()
    except grpc.RpcError as error:
        return error.code(), error.details(), error
    return CODE.OK, "", None


def values(stubs, service):
    """One request over one limit each."""
    S, T = stubs.scheduler, stubs.types

    def spec(**changes):
        job = stubs.job("limited")
        for key, value in changes.items():
            setattr(job.pool, key, value)
        return S.OpenJobRequest(spec=job)

    large = stubs.plan_request()
    large.policy.options.extend(T.Option(key="k" * 100, value="v" * 100)
                                for _ in range(2000))
    swollen = stubs.plan_request()
    swollen.policy.options.extend(T.Option() for _ in range(60000))
    for what, call, code, field, limit in (
            ("bytes of a message", lambda: service.Plan(large, timeout=30),
             CODE.RESOURCE_EXHAUSTED, None, "262144"),
            ("bytes once decoded", lambda: service.Plan(swollen, timeout=30),
             CODE.RESOURCE_EXHAUSTED, None, None),
            ("sequences", lambda: service.Plan(stubs.plan_request([1] * 101), timeout=30),
             CODE.RESOURCE_EXHAUSTED, "length_tokens", "100"),
            ("tokens of one", lambda: service.Plan(stubs.plan_request([5001]), timeout=30),
             CODE.INVALID_ARGUMENT, "length_tokens[0]", "5000"),
            ("ranks", lambda: service.OpenJob(spec(ranks=17), timeout=30),
             CODE.INVALID_ARGUMENT, "ranks", "16")):
        got, text, error = refusal(call)
        check("too many " + what, got == code, (got, text))
        detail = stubs.detail(error)
        if field is not None:
            check(what + " are named", field in detail.field, detail)
        if limit is not None:
            check("the limit of %s is named" % what, limit in text + (
                detail.limit if detail else ""), (text, detail))
        check("served after too many " + what,
              len(service.ListJobs(S.ListJobsRequest(), timeout=30).jobs) == 0)
    got, text, _ = refusal(lambda: service.Plan(stubs.plan_request(), timeout=30,
                                                compression=grpc.Compression.Gzip))
    check("compressed messages are not taken", got == CODE.UNIMPLEMENTED, (got, text))


def jobs_and_steps(stubs, service):
    S = stubs.scheduler
    for n in range(4):
        service.OpenJob(S.OpenJobRequest(spec=stubs.job("j%d" % n)), timeout=30)
    got, text, _ = refusal(lambda: service.OpenJob(
        S.OpenJobRequest(spec=stubs.job("j4")), timeout=30))
    check("one job too many", got == CODE.RESOURCE_EXHAUSTED and "at most 4" in text,
          (got, text))
    service.CloseJob(S.CloseJobRequest(job="j3"), timeout=30)
    agents = stubs.job("ahead")
    agents.run = S.RUN_AGENTS
    agents.wait_members_s = 60
    service.OpenJob(S.OpenJobRequest(spec=agents), timeout=30)
    waiting = [service.SubmitStep.future(stubs.step("ahead", n), timeout=30)
               for n in (1, 2)]
    until = time.monotonic() + harness.WAIT_S
    while True:
        got, text, _ = refusal(lambda: service.SubmitStep(stubs.step("ahead", 3), timeout=30))
        if got == CODE.RESOURCE_EXHAUSTED:
            break
        check("a step too far ahead", time.monotonic() < until, (got, text))
    check("how far is named", "at most 2" in text, text)
    service.CloseJob(S.CloseJobRequest(job="ahead"), timeout=30)
    for call in waiting:
        call.exception(30)
    for n in range(1, 31):
        service.SubmitStep(stubs.step("j0", n), timeout=30)
    listed = service.ListSteps(S.ListStepsRequest(job="j0"), timeout=30).steps
    check("so many steps are remembered", 8 <= len(listed) <= 16, len(listed))
    plans = [refusal(lambda n=n: list(service.GetPlan(
        S.GetPlanRequest(job="j0", step=n), timeout=30)))[0] for n in (28, 29, 30)]
    check("so many plans are kept", plans == [CODE.NOT_FOUND, CODE.OK, CODE.OK], plans)


def what_ifs(stubs, service):
    """One is made, one waits, the others are refused."""
    request = stubs.plan_request([200 + n for n in range(100)])
    for _ in range(50):
        calls = [service.Plan.future(request, timeout=30) for _ in range(5)]
        codes = [CODE.OK if call.exception(30) is None else call.exception().code()
                 for call in calls]
        check("a what-if is made or refused, nothing else",
              set(codes) <= {CODE.OK, CODE.RESOURCE_EXHAUSTED}, codes)
        if CODE.RESOURCE_EXHAUSTED in codes:
            check("not all are refused", CODE.OK in codes, codes)
            return
    check("a what-if too many is refused", False, codes)


def streams_and_calls(stubs, daemon, service):
    S = stubs.scheduler

    def watch(channel):
        stream = stubs.scheduler_grpc.SchedulerStub(channel).WatchSteps(
            S.WatchStepsRequest(job="j1"))
        stream.initial_metadata()
        return stream

    service.SubmitStep(stubs.step("j1", 1), timeout=30)
    one = open_channel(daemon)
    streams = [watch(one) for _ in range(6)]
    got, text, _ = refusal(lambda: stubs.scheduler_grpc.SchedulerStub(one).ListJobs(
        S.ListJobsRequest(), timeout=1))
    check("one call too many on a connection waits", got == CODE.DEADLINE_EXCEEDED,
          (got, text))
    check("another connection is served",
          service.ListJobs(S.ListJobsRequest(), timeout=30) is not None)
    more = [open_channel(daemon) for _ in range(3)]
    streams += [watch(channel) for channel in more for _ in range(4)]
    held = [watch(more[0]), watch(more[0])]  # 20 in all
    got, text, _ = refusal(lambda: service.ListJobs(S.ListJobsRequest(), timeout=30))
    check("one call too many over all is refused", got == CODE.RESOURCE_EXHAUSTED,
          (got, text))
    for stream in streams + held:
        stream.cancel()
    until = time.monotonic() + harness.WAIT_S
    while refusal(lambda: service.ListJobs(S.ListJobsRequest(), timeout=30))[0] != CODE.OK:
        check("served when streams have ended", time.monotonic() < until)
        time.sleep(0.05)
    for channel in [one, *more]:
        channel.close()


def slow_reader(stubs, daemon, service):
    """A watcher that reads nothing misses updates and is told how many."""
    S = stubs.scheduler
    channel = open_channel(daemon)
    stream = stubs.scheduler_grpc.SchedulerStub(channel).WatchSteps(
        S.WatchStepsRequest(job="j2"))
    stream.initial_metadata()
    for n in range(1, 1501):
        request = stubs.step("j2", n)
        request.omit_plan = True
        service.SubmitStep(request, timeout=30)
    dropped, last = 0, 0
    for update in stream:
        dropped += update.dropped
        last = update.step.step
        if last == 1500:
            break
    check("it hears of the last step, and what it missed", last == 1500 and dropped > 0,
          (last, dropped))
    channel.close()


def idle(daemon):
    """A connection without calls is closed; one that says nothing at all as well."""
    with socket.socket(socket.AF_UNIX) as peer:
        peer.settimeout(harness.WAIT_S)
        peer.connect(daemon.socket)
        peer.sendall(raw.PREFACE + raw.frame(4, 0, 0))
        got = b"x"
        try:
            while got:
                got = peer.recv(65536)
        except TimeoutError:
            pass
        check("an idle connection is closed", got == b"")


class Hoarder:
    """A peer that begins many large messages and ends none; it keeps to HTTP/2's windows,
    or it would be cut off for that."""

    def __init__(self, path, n_streams, message_bytes):
        self.peer = socket.socket(socket.AF_UNIX)
        self.peer.connect(path)
        self.peer.setblocking(False)
        self.window = {0: 65535}
        self.initial = 65535
        self.left = {}
        self.sent = 0
        self.buffer = b""
        self.out = raw.PREFACE + raw.frame(4, 0, 0)
        headers = raw.call_headers()[9:]
        for stream in range(1, 2 * n_streams, 2):
            self.out += raw.frame(1, 4, stream, headers)
            self.out += raw.frame(0, 0, stream, b"\0" + struct.pack(">I", message_bytes))
            self.window[stream] = self.initial - 5
            self.window[0] -= 5
            self.left[stream] = message_bytes - 1000

    def hear(self):
        try:
            self.buffer += self.peer.recv(1 << 16)
        except BlockingIOError:
            return
        while len(self.buffer) >= 9:
            n = int.from_bytes(self.buffer[:3], "big")
            kind, flags = self.buffer[3], self.buffer[4]
            stream = int.from_bytes(self.buffer[5:9], "big")
            if len(self.buffer) < 9 + n:
                return
            body, self.buffer = self.buffer[9:9 + n], self.buffer[9 + n:]
            if kind == 8:
                self.window[stream] = self.window.get(stream, 0) + int.from_bytes(body, "big")
            elif kind == 4 and not flags & 1:
                for at in range(0, n, 6):
                    if int.from_bytes(body[at:at + 2], "big") == 4:
                        new = int.from_bytes(body[at + 2:at + 6], "big")
                        for one in self.window:
                            self.window[one] += new - self.initial if one else 0
                        self.initial = new
                self.out += raw.frame(4, 1, 0)
            elif kind == 6 and not flags & 1:
                self.out += raw.frame(6, 1, 0, body)
            elif kind == 3:
                self.left.pop(stream, None)

    def fill(self):
        for stream in list(self.left):
            n = min(16384, self.left[stream], self.window[stream], self.window[0])
            if n > 0 and len(self.out) < 1 << 20:
                self.out += raw.frame(0, 0, stream, bytes(n))
                self.left[stream] -= n
                self.window[stream] -= n
                self.window[0] -= n
                self.sent += n

    def hoard(self):
        """Until nothing more is taken for a while."""
        moved = start = time.monotonic()
        while time.monotonic() - moved < 4 and time.monotonic() - start < harness.WAIT_S:
            try:
                self.hear()
                if not self.out:
                    self.fill()
                n = self.peer.send(self.out) if self.out else 0
            except BlockingIOError:
                n = 0
            except ConnectionError:
                return
            self.out = self.out[n:]
            if n > 0:
                moved = time.monotonic()
            else:
                time.sleep(0.01)


def memory(stubs):
    """250 messages of 8 MB on a connection would be 2 GB."""
    with Daemon("--limits-memory", "64MiB") as daemon:
        before = daemon.rss_kib()
        peers = [Hoarder(daemon.socket, 250, 8 << 20) for _ in range(2)]
        threads = [threading.Thread(target=peer.hoard) for peer in peers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        grown = (daemon.rss_kib() - before) >> 10
        check("they got somewhere", sum(peer.sent for peer in peers) > 32 << 20)
        check("and the daemon holds a fraction", grown < 640, "%d MiB" % grown)
        with open_channel(daemon) as channel:
            check("others are served", stubs.scheduler_grpc.SchedulerStub(channel).ListJobs(
                stubs.scheduler.ListJobsRequest(), timeout=30) is not None)
        for peer in peers:
            peer.peer.close()


def main():
    stubs = Stubs()
    with Daemon(*LIMITS) as daemon:
        channel = open_channel(daemon)
        service = stubs.scheduler_grpc.SchedulerStub(channel)
        values(stubs, service)
        jobs_and_steps(stubs, service)
        what_ifs(stubs, service)
        streams_and_calls(stubs, daemon, service)
        slow_reader(stubs, daemon, service)
        channel.close()
        idle(daemon)
    memory(stubs)


if __name__ == "__main__":
    main()
