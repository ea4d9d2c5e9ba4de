"""megatron_scheduler - HyDra's plans where Megatron-Core asks its own scheduler.

Megatron-Core (dev, `--dynamic-context-parallel`) and what is built on it (verl, Bridge) call
DefaultDynamicCPScheduler.get_groups_and_subsamples with the ids and padded lengths of a global
batch and run what it returns: for each microbatch and each DPxCP rank the ids that it packs.
This class has that method. Put it where the scheduler is made:

    scheduler = HydraDynamicCPScheduler(
        Client("sched0:7750", ca=..., cert=..., key=...), "pretrain",
        ranks=dp * cp, cap_tokens=max_seqlen_per_dp_cp_rank, pp=pp,
        first_step=iteration)

Groups are those that Megatron-Core has made at start: aligned blocks of a power of two of
consecutive ranks, or the whole pool, and each rank is in one of them in a microbatch. All ranks
ask with the same list and get the same plan; the scheduler works it out once.
"""
from hydra_client import sample_id_groups

# What Megatron-Core can run: its process groups, one of them in each cell.
MEGATRON = {"degrees": "pow2", "cells": "exclusive", "fallback": "megatron"}


class HydraDynamicCPScheduler:
    """get_groups_and_subsamples of one job, step after step."""

    def __init__(self, client, job, *, ranks, cap_tokens, first_step=0, **settings):
        """settings: of Client.open_job (pp, vpp, vpp_group, tp, model, device).

        first_step: the iteration that comes next, so that a run that resumes from a checkpoint
        goes on with new numbers. A number that was planned with other lengths is refused: after
        going back in time open a job of another name.
        """
        self.client = client
        self.job = job
        self.step = first_step
        client.open_job(job, ranks=ranks, cap_tokens=cap_tokens, options=MEGATRON, **settings)

    def get_groups_and_subsamples(self, sample_id_seqlens):
        """[(id, padded length), ...] -> result[microbatch][rank] = [id, ...]"""
        ids = [sample for sample, _ in sample_id_seqlens]
        plan = self.client.plan(self.job, self.step, [length for _, length in sample_id_seqlens])
        self.step += 1
        return sample_id_groups(plan, ids)
