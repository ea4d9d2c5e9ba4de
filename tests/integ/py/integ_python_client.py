#!/usr/bin/python3
"""deploy/python against the daemon: plans for a Python trainer and for Megatron-Core, errors
that name the field, a daemon that goes away and comes back, a plan of several messages."""
import contextlib
import io
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading

import harness
from harness import Daemon, check, skip

try:
    import grpc
except ImportError:
    skip("no grpc module for /usr/bin/python3 (package python3-grpcio)")

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(harness.SOURCE, "deploy", "python"))
from hydra_client import Client, HydraError, ranks_of, sample_id_groups
from megatron_scheduler import HydraDynamicCPScheduler

SEED = int(os.environ.get("HYDRA_SEED", "1"))


def failure(call, *args, **settings):
    try:
        call(*args, **settings)
    except HydraError as error:
        return error
    check("a call that should fail", False, (args, settings))
    return None


def plans(hydra):
    job = hydra.open_job("own", ranks=8, cap_tokens=1000, pp=2, options={"effort": 2})
    check("the job is a planning service", job.open and job.spec.run == 1, job)
    check("its options arrived",
          [(o.key, o.value) for o in job.spec.policy.options] == [("effort", "2")])
    lengths = [3000, 100, 200, 300, 400]
    plan = hydra.plan("own", 0, lengths)
    seen = [(i, len(ranks_of(g)), g.u * g.r) for m in plan.microbatches for g in m.groups
            for i in g.ids]
    check("every sequence is in it once", sorted(i for i, _, _ in seen) == [0, 1, 2, 3, 4])
    check("groups have u * r ranks", all(n == d for _, n, d in seen), seen)
    check("asked again it is the same", hydra.plan("own", 0, lengths) == plan)
    lists = sample_id_groups(plan, ["a", "b", "c", "d", "e"])
    check("ids are the caller's", {i for row in lists for ids in row for i in ids} ==
          set("abcde"), lists)
    hydra.report("own", 0, [[0.5] * plan.ranks for _ in plan.microbatches])
    check("a report ends the step", hydra.call("ListSteps", hydra.message(
        "ListStepsRequest", job="own")).steps[0].state == 4)
    forward = hydra.plan("own", 1, lengths, forward_only=True)
    check("a forward pass has a plan", forward.figures.step_s < plan.figures.step_s)


def stream(hydra):
    steps = [(n, [9000 if n == 5 else n, 700]) for n in range(2, 12)]
    answers = list(hydra.train("own", steps))
    check("answers come in order", [n for n, _ in answers] == [n for n, _ in steps])
    bad = [(n, a) for n, a in answers if isinstance(a, HydraError)]
    check("a bad step fails alone", [n for n, _ in bad] == [5], bad)
    check("and says what was wrong", bad[0][1].value == "9000" and bad[0][1].limit, vars(bad[0][1]))
    answers = list(hydra.train("none", [(0, [1])]))
    check("an unknown job is the step's error",
          answers[0][1].code == grpc.StatusCode.NOT_FOUND, answers)


def errors(hydra):
    error = failure(hydra.plan, "own", 100, [0])
    check("a length of 0 is named", error.code == grpc.StatusCode.INVALID_ARGUMENT and
          error.field == "batch.length_tokens[0]" and error.limit, vars(error))
    error = failure(hydra.plan, "other", 0, [5])
    check("an unknown job is named", error.code == grpc.StatusCode.NOT_FOUND, error)
    error = failure(hydra.plan, "own", 2, [5, 6])
    check("a number with other lengths is refused", error.code in
          (grpc.StatusCode.ALREADY_EXISTS, grpc.StatusCode.INVALID_ARGUMENT), error)
    error = failure(hydra.open_job, "x", ranks=8, cap_tokens=1000, options={"degrees": "odd"})
    check("a bad option is named", error.value == "'odd'" and "pow2" in error.limit, vars(error))


def megatron(hydra):
    """What Megatron-Core and verl check before they run a plan."""
    rng = random.Random(SEED)
    for ranks in (8, 48):
        ours = HydraDynamicCPScheduler(hydra, "mcore-%d" % ranks, ranks=ranks, cap_tokens=4096,
                                       pp=4, first_step=10)
        sizes = {1 << k for k in range(ranks.bit_length() - 1)} | {ranks}
        for case in range(6):
            batch = [(1000 + k, 1 + int(min(ranks * 4096 - 1, rng.lognormvariate(7.5, 1.3))))
                     for k in range(150)]
            groups = ours.get_groups_and_subsamples(batch)
            where = {}
            for m, row in enumerate(groups):
                check("a microbatch has every rank", len(row) == ranks)
                for rank, ids in enumerate(row):
                    check("no rank is empty", ids, (SEED, case, m, rank))
                    for i in ids:
                        where.setdefault(i, []).append((m, rank))
                    first = min(r for r, other in enumerate(row) if other == ids)
                    block = [r for r, other in enumerate(row) if other == ids]
                    check("a block is aligned, consecutive and has a size that exists",
                          block == list(range(first, first + len(block))) and
                          len(block) in sizes and first % len(block) == 0, (SEED, case, block))
            check("every sequence once", sorted(where) == [i for i, _ in batch] and
                  all(len({m for m, _ in at}) == 1 for at in where.values()))
            tokens = dict(batch)
            check("the cap holds", all(sum(tokens[i] / len(where[i]) for i in ids) <= 4096.01
                                       for row in groups for ids in row), (SEED, case))
        check("steps went on", ours.step == 16)


def large(hydra):
    """A plan that no single message holds."""
    rng = random.Random(SEED)
    lengths = [rng.randrange(1, 60) for _ in range(30000)]
    hydra.open_job("large", ranks=512, cap_tokens=64,
                   options={"effort": 1, "microbatches": 1000})
    answer = hydra.call("SubmitStep", hydra.message(
        "SubmitStepRequest", job="large", step=0,
        batch=hydra.message("Batch", length_tokens=lengths)))
    check("one message is too small for it", answer.plan_omitted)
    plan = hydra.plan("large", 0, lengths)
    check("it came whole", len(plan.microbatches) == plan.num_microbatches and
          sorted(i for m in plan.microbatches for g in m.groups for i in g.ids) ==
          list(range(len(lengths))), len(plan.microbatches))


def readme(socket):
    """The example of deploy/README.md, as it stands there."""
    with open(os.path.join(harness.SOURCE, "deploy", "README.md")) as file:
        code = re.search("```python\n(.*?)```", file.read(), re.DOTALL).group(1)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(code.replace("/run/hydra/schedd.sock", socket))
    check("the example prints the groups", "[0]" in out.getvalue(), out.getvalue())


def restart():
    """Nobody listens for a while: the call is asked again."""
    folder = tempfile.mkdtemp(prefix="hydra-py-")
    command = [os.path.join(harness.BIN, "hydra-schedd"), "--listen", "unix:%s/s" % folder,
               "--state", folder + "/state"]
    os.mkdir(folder + "/state")
    first = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    second = []
    try:
        with Client("unix:%s/s" % folder) as hydra:
            hydra.open_job("own", ranks=4, cap_tokens=1000)
            before = hydra.plan("own", 7, [500, 600, 2000])
            first.terminate()
            first.wait(harness.WAIT_S)
            timer = threading.Timer(0.5, lambda: second.append(
                subprocess.Popen(command, stderr=subprocess.DEVNULL)))
            timer.start()
            after = hydra.plan("own", 7, [500, 600, 2000])
            check("the plan outlives the daemon", after.fingerprint == before.fingerprint)
            timer.join()
    finally:
        for process in [first] + second:
            process.terminate()
            process.wait(harness.WAIT_S)
        shutil.rmtree(folder, ignore_errors=True)
    error = failure(Client, "unix:%s/s" % folder, timeout_s=1)
    check("nobody there is said", "no scheduler at" in str(error), error)


def newest():
    """All of this once more with today's grpcio and protobuf, which take no truth value for a
    number and have other names than the distribution's."""
    folder = harness.from_index("newest", ["grpcio", "protobuf"], optional=True)
    if folder is None:
        print("NOT RUN with the newest grpcio and protobuf: no package index here")
        return
    again = subprocess.run([os.path.join(folder, "bin", "python"), __file__],
                           env=dict(os.environ, HYDRA_NEWEST="1"), check=False)
    check("the newest packages do as well", again.returncode == 0)


with Daemon() as daemon:
    with Client("unix:" + daemon.socket) as client:
        plans(client)
        stream(client)
        errors(client)
        megatron(client)
        large(client)
        client.close_job("own")
    readme(daemon.socket)
    restart()
if "HYDRA_NEWEST" not in os.environ:
    newest()
