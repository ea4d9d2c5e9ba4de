#!/usr/bin/env python3
"""Seed one bug after the other into the CUDA kernels and demand that the tests notice.

usage: mutations.py [--all] [NAME...]

Reads mutations.txt. The test programs load the kernels as a shared library, so a bug costs
one compilation. Without --all only those marked quick. NAME: just these. First every
program must pass with the kernels as they are. Run by ctest, which sets HYDRA_SOURCE_DIR
and HYDRA_BUILD_DIR.
"""
import concurrent.futures
import os
import re
import shutil
import subprocess
import sys

SOURCE = os.environ.get("HYDRA_SOURCE_DIR", ".")
BUILD = os.environ.get("HYDRA_BUILD_DIR", "build/test")
WORK = os.path.join(BUILD, "tests", "mutations")
LIST = os.path.join(SOURCE, "tests/emu/mutations.txt")
KERNELS = "worker/compute/cuda"
TEST_S = 300


class Mutation:
    def __init__(self, head):
        found = re.fullmatch(r"\[([\w-]+)\] ([\w.]+)( quick)?", head)
        if not found:
            sys.exit(f"mutations.txt: not a head line: {head}")
        self.name, self.file, self.quick = found[1], found[2], bool(found[3])
        self.dtype = "fp32" if self.file == "attn_fp32.inl" else "bf16"
        self.program = self.test = None
        self.old, self.new = [], []


def read_list():
    mutations = []
    for line in open(LIST):
        line = line.rstrip("\n")
        if line.startswith("["):
            mutations.append(Mutation(line))
        elif line.startswith("by "):
            _, mutations[-1].program, mutations[-1].test = line.split()
        elif line.startswith("-"):
            mutations[-1].old.append(line[1:])
        elif line.startswith("+"):
            mutations[-1].new.append(line[1:])
        elif line and not line.startswith("#"):
            sys.exit(f"mutations.txt: what is this: {line}")
    names = [m.name for m in mutations]
    for m in mutations:
        if names.count(m.name) != 1 or not m.program or not m.old or not m.new:
            sys.exit(f"mutations.txt: {m.name} is double or not complete")
    return mutations


def seed(m, root):
    """Write the changed file below root; a text when the change is not unique."""
    source = os.path.join(SOURCE, KERNELS, m.file)
    text = open(source).read()
    old, new = "\n".join(m.old), "\n".join(m.new)
    if text.count(old) != 1:
        return f"its text occurs {text.count(old)} times in {KERNELS}/{m.file}"
    os.makedirs(os.path.join(root, KERNELS))
    open(os.path.join(root, KERNELS, m.file), "w").write(text.replace(old, new))
    return None


def build(root):
    """libemu_kernels.so from the sources below root, then from the project's."""
    cc = os.environ.get("CC", "cc")
    run = subprocess.run(
        [cc, "-std=c17", "-D_GNU_SOURCE", "-O0", "-w", "-fPIC", "-shared",
         "-ffp-contract=off", f"-I{root}", f"-I{SOURCE}",
         os.path.join(SOURCE, "tests/emu/kernels_emu.c"),
         "-o", os.path.join(root, "libemu_kernels.so")],
        capture_output=True, text=True)
    return run.stderr if run.returncode else None


def run_test(program, test, root, dtype):
    """Did it pass? And what it said last."""
    env = dict(os.environ, LD_LIBRARY_PATH=root, HYDRA_TEST=test, HYDRA_DTYPE=dtype)
    env.pop("HYDRA_LONG", None)
    try:
        run = subprocess.run([os.path.join(BUILD, "tests", program)], env=env,
                             capture_output=True, text=True, errors="replace",
                             timeout=TEST_S)
    except subprocess.TimeoutExpired:
        return False, f"did not end in {TEST_S} s"
    lines = [l for l in run.stderr.splitlines() if l.strip()]
    said = next((l for l in lines if "block (" in l), None)
    said = said or next((l for l in lines if "--- " in l), f"exit {run.returncode}")
    return run.returncode == 0, re.sub(r"\[[ A-Z]+\] +--- ", "", said.strip())[:120]


def judge(m):
    """(killed, text)"""
    root = os.path.join(WORK, m.name)
    shutil.rmtree(root, ignore_errors=True)
    wrong = seed(m, root)
    if wrong:
        return False, wrong
    wrong = build(root)
    if wrong:
        return False, "does not compile: " + wrong[:300]
    passed, said = run_test(m.program, m.test, root, m.dtype)
    if passed:
        passed, said = run_test(m.program, "*", root, "all")
        said = "(by another test than the list says) " + said
    shutil.rmtree(root, ignore_errors=True)
    return not passed, "SURVIVED" if passed else said


def check_unchanged(mutations):
    root = os.path.join(WORK, "unchanged")
    shutil.rmtree(root, ignore_errors=True)
    os.makedirs(root)
    wrong = build(root)
    if wrong:
        sys.exit("the kernels as they are do not compile: " + wrong)
    for program, test, dtype in sorted({(m.program, m.test, m.dtype)
                                        for m in mutations}):
        passed, said = run_test(program, test, root, dtype)
        if not passed:
            sys.exit(f"{program} {test} fails with the kernels as they are: {said}")


def main():
    words = sys.argv[1:]
    mutations = read_list()
    chosen = [m for m in mutations if m.quick or "--all" in words]
    names = [w for w in words if w != "--all"]
    if names:
        chosen = [m for m in mutations if m.name in names]
    if not chosen:
        sys.exit("no such mutation")
    os.makedirs(WORK, exist_ok=True)
    # An emulator that kept its own copy of the kernels would pass whatever is seeded.
    check_unchanged(chosen)
    n_bad = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for m, (killed, text) in zip(chosen, pool.map(judge, chosen)):
            n_bad += not killed
            print(f"{'killed' if killed else 'ALIVE '} {m.name}: {text}", flush=True)
    print(f"{len(chosen) - n_bad} of {len(chosen)} seeded bugs killed "
          f"({len(mutations)} in the list)")
    return n_bad != 0


sys.exit(main())
