"""What the third-party client tests share: a daemon of their own, stubs, checks.

Run by ctest, which sets HYDRA_SOURCE_DIR, HYDRA_BUILD_DIR and HYDRA_BIN_DIR. A test that
cannot run here (a package is missing) says so and exits 77: ctest counts it as skipped.
"""
import fcntl
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading

SOURCE = os.environ.get("HYDRA_SOURCE_DIR", ".")
BUILD = os.environ.get("HYDRA_BUILD_DIR", "build")
BIN = os.environ.get("HYDRA_BIN_DIR", os.path.join(BUILD, "bin"))
WAIT_S = 30
INDEX_S = 90


def skip(why):
    print("SKIPPED: " + why)
    sys.exit(77)


n_checks = 0


def check(what, holds, seen=""):
    """One expectation; the first that does not hold ends the test."""
    global n_checks
    n_checks += 1
    if not holds:
        print("FAILED: %s %s" % (what, seen), flush=True)
        raise SystemExit(1)


def from_index(name, packages, optional=False):
    """The folder of a virtual environment with these packages of the Python index, made once
    in the build folder. Where the index is out of reach the test is skipped, or None is the
    answer."""
    folder = os.path.join(os.path.abspath(BUILD), "tests", "py", name)
    made = os.path.join(folder, "made")
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    with open(folder + ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if os.path.exists(made):
            return folder
        try:
            subprocess.run([sys.executable, "-m", "venv", folder], check=True,
                           timeout=INDEX_S, stdout=subprocess.DEVNULL)
            subprocess.run([os.path.join(folder, "bin", "pip"), "install", "--quiet",
                            "--retries", "1", "--timeout", "15",
                            "--disable-pip-version-check", *packages],
                           check=True, timeout=INDEX_S)
        except (subprocess.SubprocessError, OSError) as error:
            if not optional:
                skip("%s cannot be installed here (%s)" % (" ".join(packages), error))
            return None
        with open(made, "w"):
            return folder


def from_package(package, path, optional=False):
    """A program or library of a Debian package that no test machine needs installed.

    Unpacked into the build folder, once: installing some of them would start a service on
    the machine. Where it cannot be had the test is skipped, or None is the answer.
    """
    def without(why):
        if not optional:
            skip(why)
        return None

    system = "/" + path
    if os.path.exists(system):
        return system
    folder = os.path.join(os.path.abspath(BUILD), "tests", "packages", package)
    found = os.path.join(folder, path)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(found):
            if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
                return without("no %s, and no apt to get package %s with" % (path, package))
            got = subprocess.run(["apt-get", "-q", "download", package], cwd=folder,
                                 capture_output=True, text=True, timeout=120)
            files = [f for f in os.listdir(folder) if f.endswith(".deb")]
            if got.returncode != 0 or not files:
                return without("package %s is out of reach: %s" %
                               (package, got.stderr.strip()))
            subprocess.run(["dpkg-deb", "-x", os.path.join(folder, files[0]), folder],
                           check=True)
    return found if os.path.exists(found) else without("package %s has no %s" %
                                                       (package, path))


class Daemon:
    """hydra-schedd on a unix socket and a loopback port; stopped and judged at the end."""

    def __init__(self, *flags):
        self.folder = tempfile.mkdtemp(prefix="hydra-py-")
        self.socket = os.path.join(self.folder, "s")
        self.port = None
        self.http_port = None  # with --http HOST:0 among the flags
        self.wants_http = "--http" in flags
        self.log = []
        self.ready = threading.Event()
        environment = dict(os.environ, ASAN_OPTIONS="exitcode=99",
                           UBSAN_OPTIONS="exitcode=99:print_stacktrace=1")
        self.process = subprocess.Popen(
            [os.path.join(BIN, "hydra-schedd"), "--listen", "unix:" + self.socket,
             "--listen", "127.0.0.1:0", *flags],
            stderr=subprocess.PIPE, text=True, env=environment)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        if not self.ready.wait(WAIT_S) or self.port is None:
            self.process.kill()
            raise SystemExit("the daemon did not start:\n" + "".join(self.log))

    def _read(self):
        for line in self.process.stderr:
            self.log.append(line)
            found = re.search(r'"listening" address=127\.0\.0\.1:0 port=(\d+)', line)
            if found:
                self.port = int(found.group(1))
            found = re.search(r'"serving http" .*port=(\d+)', line)
            if found:
                self.http_port = int(found.group(1))
            if self.port and (self.http_port or not self.wants_http):
                self.ready.set()
        self.ready.set()

    @property
    def address(self):
        return "127.0.0.1:%d" % self.port

    def rss_kib(self):
        with open("/proc/%d/status" % self.process.pid) as status:
            return int(re.search(r"VmRSS:\s+(\d+)", status.read()).group(1))

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(WAIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = "none within %d s" % WAIT_S
        self.reader.join(WAIT_S)
        left = os.path.exists(self.socket)
        shutil.rmtree(self.folder)
        if code != 0:
            sys.stderr.write("".join(self.log))
        check("the daemon ends with 0 on SIGTERM", code == 0, code)
        check("the socket is removed", not left)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        if kind is None:
            self.stop()
            print("%d checks passed" % n_checks)
        else:
            self.process.kill()
            self.process.wait()
            self.reader.join(WAIT_S)
            sys.stderr.write("".join(self.log))
            shutil.rmtree(self.folder, ignore_errors=True)


def _load(path, name):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Stubs:
    """Modules that protoc and the Python plugin make from our .proto files.

    grpc/ and google/ would hide the installed packages of those names, so the modules of
    health, reflection and status are loaded by path.
    """

    def __init__(self):
        try:
            import grpc
        except ImportError:
            skip("no grpc module for /usr/bin/python3 (package python3-grpcio)")
        self.grpc = grpc
        plugin = shutil.which("grpc_python_plugin")
        if plugin is None:
            skip("no grpc_python_plugin (package protobuf-compiler-grpc)")
        out = os.path.join(BUILD, "tests", "py", "stubs")
        os.makedirs(out, exist_ok=True)
        proto = os.path.join(SOURCE, "proto")
        files = ["hydra/v1/types.proto", "hydra/v1/scheduler.proto",
                 "hydra/v1/worker.proto", "google/rpc/status.proto",
                 "grpc/health/v1/health.proto",
                 "grpc/reflection/v1/reflection.proto",
                 "grpc/reflection/v1alpha/reflection.proto"]
        with open(os.path.join(out, "lock"), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            subprocess.run(
                ["protoc", "-I", proto, "-I", os.path.join(BUILD, "proto"), "-I", "/usr/include",
                 "--python_out", out, "--grpc_out", out,
                 "--plugin=protoc-gen-grpc=" + plugin, *files], check=True)
        sys.path.insert(0, os.path.join(out))
        import hydra.v1.scheduler_pb2 as scheduler
        import hydra.v1.scheduler_pb2_grpc as scheduler_grpc
        import hydra.v1.types_pb2 as types
        import hydra.v1.worker_pb2 as worker
        import hydra.v1.worker_pb2_grpc as worker_grpc
        self.types = types
        self.scheduler = scheduler
        self.scheduler_grpc = scheduler_grpc
        self.worker = worker
        self.worker_grpc = worker_grpc
        self.status = _load(out + "/google/rpc/status_pb2.py", "status_pb2")
        self.health = _load(out + "/grpc/health/v1/health_pb2.py", "health_pb2")
        self.reflection = {
            "v1": _load(out + "/grpc/reflection/v1/reflection_pb2.py", "reflection_pb2"),
            "v1alpha": _load(out + "/grpc/reflection/v1alpha/reflection_pb2.py",
                             "reflection_alpha_pb2"),
        }

    def plan_request(self, lengths=(100, 200, 300, 400), policy="hydra"):
        t = self.types
        return self.scheduler.PlanRequest(
            batch=t.Batch(length_tokens=lengths),
            pool=t.Pool(ranks=4, ranks_per_node=2), limits=t.Limits(cap_tokens=1000),
            policy=t.PolicyChoice(policy=policy))

    def job(self, name):
        t = self.types
        return self.scheduler.JobSpec(
            name=name, pool=t.Pool(ranks=4, ranks_per_node=2),
            limits=t.Limits(cap_tokens=1000), policy=t.PolicyChoice(policy="hydra"),
            run=self.scheduler.RUN_NONE)

    def step(self, job, number, lengths=(100, 200, 300, 400)):
        return self.scheduler.SubmitStepRequest(
            job=job, step=number, batch=self.types.Batch(length_tokens=lengths))

    def detail(self, error):
        """The ErrorDetail that a failed call carries, or None."""
        for key, value in error.trailing_metadata() or ():
            if key == "grpc-status-details-bin":
                status = self.status.Status.FromString(value)
                for any_value in status.details:
                    if any_value.type_url.endswith("/hydra.v1.ErrorDetail"):
                        return self.types.ErrorDetail.FromString(any_value.value)
        return None


def covers(plan, n):
    """Every id of the batch is in the plan once, and groups have u * r ranks."""
    seen = []
    for microbatch in plan.microbatches:
        for group in microbatch.groups:
            if sum(run.count for run in group.ranks) != group.u * group.r:
                return False
            seen += list(group.ids)
    return sorted(seen) == list(range(n))
