"""Agents that follow the protocol and compute nothing, for tests that need a live job.

Each is a thread on one Attach stream: it answers every epoch at once, beats, and reports
the steps it is given as if its ranks had taken the time that `seconds` says.
"""
import queue
import threading


class Agent:
    def __init__(self, stubs, channel, job, node, n_ranks, seconds):
        self.stubs = stubs
        self.job = job
        self.node = node
        self.n_ranks = n_ranks
        self.seconds = seconds
        self.fails = None  # a reason: the next step fails with it
        self.ranks = []
        self.epoch = 0
        self.said = queue.Queue()
        self.over = threading.Event()
        w = stubs.worker
        self.say(hello=w.Hello(job=job, node=node, ranks=n_ranks, compute="cpu",
                               transport="ucx", protocol=1))
        self.stream = stubs.worker_grpc.WorkersStub(channel).Attach(
            iter(self.said.get, None))
        self.thread = threading.Thread(target=self._listen, daemon=True)
        self.thread.start()
        self.beating = threading.Thread(target=self._beat, daemon=True)
        self.beating.start()

    def say(self, **kind):
        self.said.put(self.stubs.worker.AgentMessage(**kind))

    def _beat(self):
        progress = 0
        while not self.over.wait(0.5):
            progress += 1
            if self.epoch > 0:
                self.say(heartbeat=self.stubs.worker.Heartbeat(
                    epoch=self.epoch, progress=[progress] * self.n_ranks))

    def _listen(self):
        try:
            for message in self.stream:
                getattr(self, "_on_" + message.WhichOneof("kind"))(message)
        except self.stubs.grpc.RpcError:
            pass
        self.over.set()

    def _on_welcome(self, message):
        self.epoch = message.welcome.epoch
        self.ranks = list(message.welcome.ranks)
        for rank in self.ranks:
            self.say(address=self.stubs.worker.Address(epoch=self.epoch, rank=rank,
                                                       address=b"here"))

    def _on_members(self, message):
        self.say(ready=self.stubs.worker.Ready(epoch=self.epoch))

    def _on_assignment(self, message):
        step = message.assignment
        report = self.stubs.worker.Report(epoch=step.epoch, step=step.step)
        if self.fails is not None:
            report.failed, report.reason, self.fails = True, self.fails, None
        else:
            self._measure(step, report.report)
        self.say(report=report)

    def _measure(self, step, report):
        seconds = {}
        for group in step.groups:
            members = [rank for run in group.ranks
                       for rank in range(run.first, run.first + run.count)]
            for rank in set(members) & set(self.ranks):
                key = (rank, group.microbatch)
                seconds[key] = seconds.get(key, 0) + self.seconds(rank, group, members)
        for (rank, microbatch), compute_s in sorted(seconds.items()):
            report.cells.add(rank=rank, microbatch=microbatch, compute_s=compute_s)
        report.wall_s = sum(seconds.values())
        report.predicted_peak_bytes = step.predicted_peak_bytes
        report.measured_peak_bytes = step.predicted_peak_bytes
        report.check.by_reference = len({i for g in step.groups for i in g.ids})
        report.check.max_error = 3e-7

    def _on_abort(self, message):
        pass

    def _on_drain(self, message):
        self.leave()

    def _on_refused(self, message):
        self.over.set()

    def leave(self):
        self.say(leaving=self.stubs.worker.Leaving(reason="the test is over"))
        self.said.put(None)

    def vanish(self):
        """As if the process were killed."""
        self.stream.cancel()
        self.said.put(None)


def by_tokens(rank, group, members):
    """Seconds that grow with the square of the length, rank 1 a third slower."""
    slow = 1.33 if rank == 1 else 1.0
    return slow * 1e-9 * sum(n * n for n in group.length_tokens) / len(members)
