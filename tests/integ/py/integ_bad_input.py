#!/usr/bin/python3
"""What peers should not send: each gets a clear status, and the daemon keeps serving."""
import os
import socket
import struct
import subprocess

from harness import BIN, Daemon, Stubs, check, skip

try:
    import grpc
except ImportError:
    skip("no grpc module for /usr/bin/python3 (package python3-grpcio)")

CODE = grpc.StatusCode
UNLIMITED = [("grpc.max_send_message_length", -1),
             ("grpc.max_metadata_size", 1 << 24), ("grpc.enable_retries", 0)]


class Client:
    def __init__(self, stubs, address):
        self.stubs = stubs
        self.channel = grpc.insecure_channel(address, options=UNLIMITED)
        # Another connection, as another user has it.
        self.other = grpc.insecure_channel(
            address, options=[("grpc.use_local_subchannel_pool", 1)])
        self.service = stubs.scheduler_grpc.SchedulerStub(self.other)

    def raw(self, method, body, **more):
        """The error of a call whose request is these very bytes, or None."""
        call = self.channel.unary_unary("/hydra.v1.Scheduler/" + method)
        try:
            call(body, timeout=60, wait_for_ready=True, **more)
        except grpc.RpcError as error:
            return error
        return None

    def refused(self, what, method, request, codes, field=None, value=None):
        error = self.raw(method, request.SerializeToString())
        check(what + " is refused", error is not None)
        check(what + " has its code", error.code() in codes,
              (error.code(), error.details()))
        detail = self.stubs.detail(error)
        if field is not None:
            check(what + " names the field", detail and field in detail.field,
                  (error.details(), detail))
            check(what + " names the value", value in detail.value or
                  value in error.details(), (error.details(), detail))
        self.serves(what)

    def serves(self, after):
        plan = self.service.Plan(self.stubs.plan_request(), timeout=60).plan
        check("the daemon serves after " + after, plan.num_microbatches > 0)


def sizes(client):
    error = client.raw("Plan", b"\x0a" + b"\x80\x80\x80\x05" + b"\0" * (10 << 20))
    check("10 MiB are RESOURCE_EXHAUSTED", error.code() == CODE.RESOURCE_EXHAUSTED, error)
    client.serves("10 MiB")
    error = client.raw("Plan", client.stubs.plan_request().SerializeToString(),
                       compression=grpc.Compression.Gzip)
    check("compressed bytes are not taken", error is None or
          error.code() in (CODE.UNIMPLEMENTED, CODE.INTERNAL), error)
    client.serves("a compressed message")
    error = client.raw("Plan", client.stubs.plan_request().SerializeToString(),
                       metadata=[("x-large", "v" * (1 << 20))])
    check("1 MiB of headers is refused", error is not None, error)
    client.serves("large headers")


def broken(client):
    cases = {
        "bytes of nothing": b"\xff\xff\xff",
        "a cut length": b"\x0a\x7f\x08",
        "a group": b"\x0b\x0c",
        "field number 0": b"\x02\x01a",
        "a text that is not UTF-8": b"\x0a\x02\xc0\x80",
        "a text with a zero byte": b"\x0a\x03a\0b",
        "a number for a text": b"\x08\x01",
    }
    for what, body in cases.items():
        error = client.raw("GetJob", body)
        check(what + " is INVALID_ARGUMENT",
              error is not None and error.code() == CODE.INVALID_ARGUMENT, error)
        client.serves(what)
    deep = b""
    for _ in range(2000):
        deep = b"\x1a" + bytes([len(deep) & 0x7f]) + deep[:0x7f]
    error = client.raw("OpenJob", deep)
    check("nesting is refused", error.code() == CODE.INVALID_ARGUMENT, error)
    # Four million empty groups in 8 MB would be a gigabyte in memory.
    before = client.raw("ReportStep", b"")
    many = b"\x1a\x80\x80\xf0\x03" + b"\x0a\x00" * (0x7c0000 // 2)
    error = client.raw("ReportStep", many)
    check("more memory than the budget is RESOURCE_EXHAUSTED",
          error.code() == CODE.RESOURCE_EXHAUSTED, error)
    check("an empty report is refused", before is not None)
    client.serves("a message that swells")


def names(client):
    channel = client.channel
    for path in ("/hydra.v1.Scheduler/Nope", "/no.such.Service/Do", "/", "/x"):
        try:
            channel.unary_unary(path)(b"", timeout=30, wait_for_ready=True)
            check(path + " is refused", False)
        except grpc.RpcError as error:
            check(path + " is UNIMPLEMENTED at once",
                  error.code() == CODE.UNIMPLEMENTED, error)
    stream = channel.stream_stream("/hydra.v1.Scheduler/Nope")
    try:
        list(stream(iter([b""]), timeout=30))
        check("an unknown stream is refused", False)
    except grpc.RpcError as error:
        check("an unknown stream is UNIMPLEMENTED", error.code() == CODE.UNIMPLEMENTED)


def values(client):
    stubs = client.stubs
    bad = (CODE.INVALID_ARGUMENT,)
    plan = stubs.plan_request
    client.refused("an empty batch", "Plan", plan(lengths=()), bad, "length", "empty")
    client.refused("a length of 0", "Plan", plan(lengths=(5, 0)), bad, "length", "0")
    client.refused("a huge length", "Plan", plan(lengths=(4294967295,)),
                   bad + (CODE.FAILED_PRECONDITION, CODE.RESOURCE_EXHAUSTED), "length",
                   "4294967295")
    client.refused("a sequence that fits nowhere", "Plan", plan(lengths=(4001,)),
                   (CODE.FAILED_PRECONDITION,))
    client.refused("an unknown policy", "Plan", plan(policy="best"), bad, "policy",
                   "best")
    request = plan()
    request.batch.extra_work_s[:] = [0.0, float("nan"), 0.0, 0.0]
    client.refused("work that is no number", "Plan", request, bad, "extra_work", "nan")
    request = plan()
    request.batch.extra_work_s[:] = [0.0]
    client.refused("work for one length of four", "Plan", request, bad, "extra_work", "1")
    request = plan()
    request.pool.ranks = 0
    client.refused("a pool of nobody", "Plan", request, bad, "ranks", "0")
    request = plan()
    request.pool.ranks = 4000000000
    client.refused("a pool of everybody", "Plan", request,
                   bad + (CODE.RESOURCE_EXHAUSTED,), "ranks", "4000000000")
    request = plan()
    request.limits.cap_tokens = 0
    client.refused("a cap of 0", "Plan", request, bad, "cap_tokens", "0")
    request = plan()
    request.cost.model.name = "no-such-model"
    client.refused("an unknown model", "Plan", request, bad, "model", "no-such-model")
    request = stubs.scheduler.PlanRequest()
    client.refused("a request of defaults", "Plan", request, bad)


def jobs(client):
    stubs = client.stubs
    open_job = stubs.scheduler.OpenJobRequest
    for name in ("", "a b", "a/b", "x" * 1000):
        client.refused("job name %r" % name[:10], "OpenJob", open_job(spec=stubs.job(name)),
                       (CODE.INVALID_ARGUMENT,), "name", "")
    client.service.OpenJob(open_job(spec=stubs.job("job")), timeout=30)
    client.service.SubmitStep(stubs.step("job", 5), timeout=30)
    client.refused("a job that is not open", "SubmitStep", stubs.step("other", 1),
                   (CODE.NOT_FOUND,), "job", "other")
    client.refused("a step with other lengths", "SubmitStep",
                   stubs.step("job", 5, (1, 2, 3)), (CODE.ALREADY_EXISTS,), "step", "5")
    client.refused("a step from the past", "SubmitStep", stubs.step("job", 4),
                   (CODE.OUT_OF_RANGE,), "step", "4")
    request = stubs.step("job", 6)
    request.__setattr__("pass", 77)
    client.refused("a pass that is none", "SubmitStep", request,
                   (CODE.INVALID_ARGUMENT,), "pass", "77")


def bytes_of(daemon, family, address, data, wait=True):
    """Send raw bytes, take what comes, hang up."""
    with socket.socket(family, socket.SOCK_STREAM) as peer:
        peer.settimeout(30)
        peer.connect(address)
        try:
            peer.sendall(data)
            while wait and peer.recv(65536):
                pass
        except (ConnectionError, TimeoutError):
            pass


PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def frame(kind, flags, stream, body=b""):
    return struct.pack(">I", len(body))[1:] + bytes([kind, flags]) + \
        struct.pack(">I", stream) + body


def header(name, value):
    """A header as literals, without any compression."""
    def text(one):
        n, length = len(one), b""
        if n < 127:
            return bytes([n]) + one.encode()
        n -= 127
        while n >= 128:
            length += bytes([n % 128 + 128])
            n //= 128
        return b"\x7f" + length + bytes([n]) + one.encode()

    return b"\0" + text(name) + text(value)


def call_headers(**changes):
    headers = {":method": "POST", ":scheme": "http", ":authority": "x",
               ":path": "/hydra.v1.Scheduler/ListJobs", "te": "trailers",
               "content-type": "application/grpc", **changes}
    block = b"".join(header(name, value) for name, value in headers.items())
    out = b""
    for at in range(0, len(block), 16384):
        last = at + 16384 >= len(block)
        out += frame(9 if at else 1, (4 if last else 0) | (0 if at else 1), 1,
                     block[at:at + 16384])
    return out


def strange_headers(daemon, client):
    """Headers over the limit together with values that no client sends."""
    large = {"x-large": "v" * 40000}
    for name, value in (("te", "x"), (":scheme", "x"), ("grpclb_client_stats", "x"),
                        ("content-type", "text/html"), (":method", "GET"),
                        ("grpc-timeout", "99999999999H"), ("grpc-encoding", "zip")):
        for more in ({}, large):
            data = PREFACE + frame(4, 0, 0) + call_headers(**{name: value}, **more)
            bytes_of(daemon, socket.AF_UNIX, daemon.socket, data, wait=False)
            client.serves("header %s: %s" % (name, value))


def resets(daemon, client):
    """Streams opened and reset as fast as they can be written."""
    opened = call_headers()[9:]
    data = PREFACE + frame(4, 0, 0)
    for stream in range(1, 4001, 2):
        data += frame(1, 5, stream, opened) + frame(3, 0, stream, struct.pack(">I", 8))
    bytes_of(daemon, socket.AF_UNIX, daemon.socket, data, wait=False)
    client.serves("2000 streams that were reset")


def raw_sockets(daemon, client):
    preface = PREFACE
    settings = frame(4, 0, 0)
    too_long = struct.pack(">I", 0xffffff)[1:] + b"\0\0" + struct.pack(">I", 1)
    cases = {
        "HTTP/1": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        "a TLS hello": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + os.urandom(60),
        "noise": os.urandom(4096),
        "a frame that is too long": preface + settings + too_long,
    }
    for what, data in cases.items():
        bytes_of(daemon, socket.AF_INET, ("127.0.0.1", daemon.port), data)
        bytes_of(daemon, socket.AF_UNIX, daemon.socket, data)
        client.serves(what)
    for _ in range(50):
        bytes_of(daemon, socket.AF_UNIX, daemon.socket, preface + settings, wait=False)
    client.serves("fifty clients that hang up")


def second_daemon(daemon, client):
    """One socket, one port, one daemon: the second refuses and the first goes on."""
    program = os.path.join(BIN, "hydra-schedd")
    for address, why in (("unix:" + daemon.socket, "held by process %d" %
                          daemon.process.pid),
                         (daemon.address, "Address already in use")):
        done = subprocess.run([program, "--listen", address], capture_output=True,
                              text=True, timeout=30)
        check("a second daemon refuses " + address, done.returncode == 1 and
              why in done.stderr, (done.returncode, done.stderr))
        client.serves("a second daemon on " + address)


def main():
    stubs = Stubs()
    with Daemon() as daemon:
        client = Client(stubs, "unix:" + daemon.socket)
        second_daemon(daemon, client)
        sizes(client)
        broken(client)
        names(client)
        values(client)
        jobs(client)
        raw_sockets(daemon, client)
        strange_headers(daemon, client)
        resets(daemon, client)
        client.channel.close()
        client.other.close()


if __name__ == "__main__":
    main()
