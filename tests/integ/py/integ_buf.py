#!/usr/bin/python3
"""A client that shares no code with the gRPC C core: `buf curl`, written in Go, which
knows nothing of our .proto files and asks reflection. Kept in a virtual environment in
the build folder; skipped where the package index is out of reach."""
import base64
import json
import os
import subprocess
import time

from harness import Daemon, check, from_index

VERSION = "1.75.0"


def install():
    return os.path.join(from_index("buf-" + VERSION, ["buf-bin==" + VERSION]), "bin", "buf")


class Buf:
    def __init__(self, program, daemon, version, unix):
        self.program = program
        self.url = "http://" + daemon.address
        self.flags = ["--protocol", "grpc", "--http2-prior-knowledge", "--reflect",
                      "--reflect-protocol", "grpc-" + version]
        if unix:
            self.url = "http://localhost"
            self.flags += ["--unix-socket", daemon.socket]

    def run(self, *words, body=None, path=""):
        if body is not None:
            words += ("-d", "@-")
        done = subprocess.run(
            [self.program, "curl", *self.flags, *words, self.url + path],
            input=body, capture_output=True, text=True, timeout=60)
        return done.returncode, done.stdout, done.stderr

    def call(self, method, *requests):
        """Answers of a call, or its error, as objects."""
        code, out, err = self.run(
            body="\n".join(json.dumps(r) for r in requests),
            path="/hydra.v1.Scheduler/" + method)
        decoder = json.JSONDecoder()
        if code != 0:
            return json.loads(err[err.index("{"):])
        found = []
        while out.strip():
            one, end = decoder.raw_decode(out.lstrip())
            found.append(one)
            out = out.lstrip()[end:]
        return found


POOL = {"ranks": 4, "ranksPerNode": 2}
LIMITS = {"capTokens": 1000}
LENGTHS = {"lengthTokens": [100, 200, 300, 400]}


def listings(buf):
    code, out, err = buf.run("--list-services")
    check("services are listed", code == 0 and "hydra.v1.Scheduler" in out.split(), err)
    code, out, err = buf.run("--list-methods")
    check("methods are listed", "hydra.v1.Workers/Attach" in out.split(), err)


def calls(buf, job):
    plan = buf.call("Plan", {"pool": POOL, "limits": LIMITS, "batch": LENGTHS})[0]["plan"]
    check("a plan is made", plan["numMicrobatches"] >= 1, plan)
    spec = {"name": job, "pool": POOL, "limits": LIMITS, "run": "RUN_NONE"}
    check("a job is opened", buf.call("OpenJob", {"spec": spec})[0]["job"]["open"])
    step = {"job": job, "step": 1, "batch": LENGTHS}
    answer = buf.call("SubmitStep", step)[0]
    check("a step is planned", answer["state"] == "STEP_PLANNED", answer)
    parts = buf.call("GetPlan", {"job": job, "step": 1})
    check("a server stream is read", parts[0]["plan"]["fingerprint"] ==
          answer["plan"]["fingerprint"], parts)
    answers = buf.call("Train", *({**step, "step": n} for n in range(2, 7)))
    check("a bidirectional stream is read", [a["step"] for a in answers] ==
          [str(n) for n in range(2, 7)], answers)


def errors(buf):
    error = buf.call("GetJob", {"job": "nobody"})
    check("an unknown job is named", error["code"] == "not_found", error)
    error = buf.call("Plan", {"pool": POOL, "limits": LIMITS,
                              "batch": {"lengthTokens": [5, 0]}})
    check("a bad length has its code", error["code"] == "invalid_argument", error)
    detail = error["details"][0]
    check("details are of a known type", detail["type"] == "hydra.v1.ErrorDetail", detail)
    body = base64.b64decode(detail["value"] + "==")
    check("details name field and limit",
          b"batch.length_tokens" in body and b"1 to " in body, body)


def main():
    start = time.monotonic()
    program = install()
    print("buf %s ready after %.1f s" % (VERSION, time.monotonic() - start))
    with Daemon() as daemon:
        for version, unix in (("v1", False), ("v1alpha", True)):
            buf = Buf(program, daemon, version, unix)
            listings(buf)
            calls(buf, "job-" + version)
            errors(buf)


if __name__ == "__main__":
    main()
