#!/usr/bin/python3
"""Peers decide as their rules say, written down a second time in peers.py: the same
microbatches, groups and ids on random batches, on pools of any size. Where the original
would fail there is an error that says why, or a plan.

HYDRA_SEED=s runs other cases, HYDRA_CASES=n more of them.
"""
import json
import os
import random
import subprocess
import tempfile

import peers
from harness import BIN, check

POOLS = (1, 2, 4, 8, 16, 32, 5, 6, 7, 10, 12, 14, 20, 24, 48)


def any_lengths(rng, cap, n_ranks):
    shape = rng.randrange(4)
    lengths = []
    for _ in range(rng.randint(1, 50)):
        length = (rng.randint(1, 2 * cap), int(cap * rng.lognormvariate(-1, 1.2)),
                  cap // 3 + 1, (cap << rng.randrange(3)) >> rng.randrange(4))[shape]
        lengths.append(max(1, min(length, cap * n_ranks)))
    return lengths


def any_case(rng):
    """policy, ranks, cap, lengths, options, what the rules say"""
    policy = rng.choice(("megatron", "megatron", "megatron-hybrid", "dp-balanced", "relax"))
    n_ranks, cap = rng.choice(POOLS), rng.choice((100, 1000, 4096))
    multiple = rng.choice((1, 1, 2, 3, 4))
    lengths = any_lengths(rng, cap, n_ranks)
    sizes = [d for d in range(1, n_ranks + 1) if n_ranks % d == 0]
    options = ["--vpp-group", str(multiple)]
    if policy == "megatron":
        least = min(rng.choice((1, 1, 1, 2, 3, 4)), n_ranks)
        return (policy, n_ranks, cap, lengths, options + ["--min-degree", str(least)],
                lambda: peers.megatron(lengths, n_ranks, cap, least, multiple))
    if policy == "megatron-hybrid":
        return (policy, n_ranks, cap, lengths, [],
                lambda: peers.megatron_hybrid(lengths, n_ranks, cap))
    if policy == "dp-balanced":
        size = rng.choice(sizes)
        lengths = [min(length, cap * size) for length in lengths]
        return (policy, n_ranks, cap, lengths, options + ["--cp", str(size)],
                lambda: peers.dp_balanced(lengths, n_ranks, cap, size, multiple))
    size = rng.choice([d for d in sizes if d & (d - 1) == 0])
    lengths = [min(length, cap * size) for length in lengths]
    lengths = (lengths * (n_ranks // size))[:max(len(lengths) * size // n_ranks, 1) *
                                            (n_ranks // size)]
    dynamic, split = rng.random() < 0.7, rng.choice(("tokens", "count"))
    options += ["--cp", str(size), "--set", "dynamic=" + ("on" if dynamic else "off"),
                "--set", "split=" + split]
    return (policy, n_ranks, cap, lengths, options,
            lambda: peers.relax(lengths, n_ranks, cap, size, multiple, dynamic, split))


def planned(path, policy, n_ranks, cap, options):
    """The product's plan in the same form, or None; and what it says."""
    done = subprocess.run([os.path.join(BIN, "hydractl"), "plan", path, "--ranks",
                           str(n_ranks), "--cap", str(cap), "--policy", policy, "--json"] +
                          options, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0:
        return None, done.stderr
    plan = json.loads(done.stdout)
    return ([[(len(g["ranks"]), g["ids"])
              for g in sorted(microbatch["groups"], key=lambda g: g["ranks"][0])]
             for microbatch in plan["microbatches"]], plan.get("note", ""))


def main():
    seed = int(os.environ.get("HYDRA_SEED", "1"))
    n_cases = int(os.environ.get("HYDRA_CASES", "60"))
    rng = random.Random(seed)
    n_equal = 0
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "lengths")
        for k in range(n_cases):
            policy, n_ranks, cap, lengths, options, rules = any_case(rng)
            with open(path, "w", encoding="ascii") as file:
                file.write("".join(f"{length}\n" for length in lengths))
            plan, words = planned(path, policy, n_ranks, cap, options)
            what = (f"seed {seed}, case {k}: {policy} on {n_ranks} ranks, cap {cap}, "
                    f"{' '.join(options)}, lengths {lengths}")
            try:
                want = [[(size, list(ids)) for size, ids in m] for m in rules()]
            except peers.Fails as fails:
                # Dummies are empty cells, and halves are filled up where they can be.
                silent = plan is not None and str(fails).split()[0] in ("dummies", "halves")
                check(f"{what}: {fails}, which is said", words != "" or silent)
                continue
            check(what, plan == want, f"\n  {plan}\ninstead of\n  {want}\n{words}")
            n_equal += 1
    print(f"{n_equal} of {n_cases} plans are those of the rules; the others' systems fail")
    check("the originals have plans", n_equal * 3 > n_cases)


main()
