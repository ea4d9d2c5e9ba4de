#!/usr/bin/env python3
"""Registers, spills, shared memory and occupancy of the CUDA kernels, as ptxas sees them.

usage: ptxas.py [--all]

Compiles with nvcc, no GPU needed: head size 128 for sm_90, with --all every kernel for
sm_80 and sm_90. Fails on a warning of nvcc, on a spill of a kernel with head size 128 or
less, and on a kernel that does not fit its processor as often as sizes.h means it to.
Prints the table of worker/README.md. Without nvcc it says so and exits 77.
"""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

SOURCE = os.environ.get("HYDRA_SOURCE_DIR", ".")
FOLDER = os.path.join(SOURCE, "worker/compute/cuda")
# Of one multiprocessor; shared memory in bytes, of which a block costs 1 KiB more.
REGISTERS, THREADS, BLOCKS, BLOCK_COSTS = 65536, 2048, 32, 1024
SHARED = {"80": 164 * 1024, "90": 228 * 1024}
NO_SPILL_UP_TO = 128


def find_nvcc():
    places = sorted(glob.glob("/usr/local/cuda*/bin/nvcc"))
    return shutil.which("nvcc") or (places[-1] if places else None)


def read_sizes(work):
    """{kernel: (threads, bytes of shared memory)} from the table that launches use."""
    main = os.path.join(work, "sizes.c")
    with open(main, "w") as f:
        f.write("""#include <stdio.h>
#include "worker/compute/cuda/kernels.h"
int main(void)
{
    for (int i = 0; i < HYD_CUDA_N_KERNELS; i++) {
        printf("%s %u %u\\n", hyd_cuda_kernel_size[i].name, hyd_cuda_kernel_size[i].threads,
               hyd_cuda_kernel_size[i].shared_bytes);
    }
    return 0;
}
""")
    program = os.path.join(work, "sizes")
    subprocess.run([os.environ.get("CC", "cc"), "-std=c17", f"-I{SOURCE}", main,
                    os.path.join(FOLDER, "kernel_sizes.c"), "-o", program], check=True)
    out = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    return {name: (int(threads), int(shared))
            for name, threads, shared in (line.split() for line in out.splitlines())}


def blocks_meant(kernel):
    """The column `blocks` of sizes.h; 1 for kernels that are not listed."""
    found = re.fullmatch(r"(forward|backward_q|backward_kv|backward_k|backward_v)_(\d+[sw]?)",
                         kernel)
    if not found:
        return 1
    op = "backward_kv" if found[1].startswith("backward_") and found[1] != "backward_q" \
        else found[1]
    text = open(os.path.join(FOLDER, "sizes.h")).read()
    text = text[text.index(f"#define HYD_{op.upper()}_SIZES"):]
    return int(re.search(rf"X\({found[2]}, \d+, \d+, \d+, \d+, \d+, (\d+), \d+\)", text)[1])


def compile_one(nvcc, arch, source, define, work):
    """What ptxas says: {kernel: (registers, spill stores, spill loads)}"""
    run = subprocess.run(
        [nvcc, f"-arch=sm_{arch}", "-O3", "-std=c++17", "-Xptxas=-v", "-cubin",
         f"-I{SOURCE}", *define, "-o", os.path.join(work, "kernels.cubin"),
         os.path.join(FOLDER, source)], capture_output=True, text=True)
    text = run.stdout + run.stderr
    if run.returncode or "warning" in text.lower():
        sys.exit(f"nvcc {source} {' '.join(define)} for sm_{arch}:\n{text}")
    kernels, name = {}, None
    for line in text.splitlines():
        if found := re.search(r"Compiling entry function 'hyd_cuda_(\w+)'", line):
            name = found[1]
        elif found := re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", line):
            spills = int(found[1]), int(found[2])
        elif found := re.search(r"Used (\d+) registers", line):
            kernels[name] = (int(found[1]), *spills)
    return kernels


def occupancy(arch, registers, threads, shared):
    """Blocks that a multiprocessor holds at a time."""
    a_warp = (registers * 32 + 255) // 256 * 256
    return min(REGISTERS // (a_warp * threads // 32),
               SHARED[arch] // (shared + BLOCK_COSTS), THREADS // threads, BLOCKS)


def judge(kernel, arch, said, size):
    """(cells of the table, what is not as it should be or None)"""
    registers, stores, loads = said
    threads, shared = size
    blocks = occupancy(arch, registers, threads, shared)
    fits = shared + BLOCK_COSTS <= SHARED[arch]
    often = f"{blocks}, {blocks * threads * 100 // THREADS} %" if fits else "too large"
    cells = f" {registers} | {stores} / {loads} | {often} |"
    d = re.search(r"_(\d+)[sw]?$", kernel)
    if stores + loads and not (d and int(d[1]) > NO_SPILL_UP_TO):
        return cells, f"{kernel} spills on sm_{arch}"
    if not fits and arch != "90":
        return cells, None # cards that lack the memory take other kernels (run.c)
    if blocks < (blocks_meant(kernel) if arch == "90" else 1):
        return cells, f"{kernel}: {blocks} blocks on a processor of sm_{arch}"
    return cells, None


def main():
    nvcc = find_nvcc()
    if nvcc is None:
        print("SKIPPED: no nvcc: the CUDA kernels are not compiled, spills not checked")
        return 77
    everything = "--all" in sys.argv[1:]
    sizes = ["64", "80", "96", "128", "192", "256"] if everything else ["128"]
    archs = ["80", "90"] if everything else ["90"]
    wrong, rows = [], {}
    with tempfile.TemporaryDirectory() as work:
        table = read_sizes(work)
        for arch in archs:
            said = {}
            for d in sizes:
                said |= compile_one(nvcc, arch, "attn_size.cu", [f"-DHYD_D={d}"], work)
            if everything:
                said |= compile_one(nvcc, arch, "plain.cu", [], work)
            for kernel in (k for k in table if k in said):
                cells, text = judge(kernel, arch, said[kernel], table[kernel])
                rows[kernel] = rows.get(kernel, "") + cells
                wrong += [text] if text else []
    print("| kernel | threads | shared KiB |" + "".join(
        f" sm_{a}: registers | spilled, store / load | blocks, occupancy |"
        for a in archs))
    print("|---" * (3 + 3 * len(archs)) + "|")
    for kernel, cells in rows.items():
        print(f"| `{kernel}` | {table[kernel][0]} | {table[kernel][1] / 1024:.1f} |{cells}")
    if everything and set(rows) != set(table):
        wrong.append(f"not compiled: {set(table) - set(rows)}")
    for text in wrong:
        print("FAILED: " + text)
    return len(wrong) != 0


sys.exit(main())
