"""hydra_client - plans from a HyDra scheduler, for trainers written in Python.

Needs the packages grpcio and protobuf, nothing generated: messages are made from what the
daemon's reflection says, so they fit the daemon, and no package `hydra` gets in the way of
hydra-core, which many trainers import under that name.

    with Client("unix:/run/hydra/schedd.sock") as hydra:
        hydra.open_job("pretrain", ranks=64, cap_tokens=16384, pp=8)
        plan = hydra.plan("pretrain", step=0, lengths=[262144, 1890, 455])
        for microbatch in plan.microbatches:
            for group in microbatch.groups:      # in the order in which ranks run them
                print(ranks_of(group), group.u, group.r, list(group.ids))

Ids are positions in `lengths`. Every call has a deadline; one that fails raises HydraError,
which names the field, its value and what would be right. A step number with the same lengths
always gets the same plan, so every rank of a job may ask for it, and asking again after a lost
connection is safe.
"""
import time
from pathlib import Path

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

SERVICE = "hydra.v1.Scheduler"
MAX_MESSAGE_BYTES = 8 << 20
RETRY_FIRST_S = 0.1
RETRY_MOST_S = 2.0


class HydraError(Exception):
    """A call that failed. code: grpc.StatusCode; field, value, limit: of bad input, or ''."""

    def __init__(self, code, message, field="", value="", limit=""):
        super().__init__("%s: %s" % (code.name, message))
        self.code = code
        self.field = field
        self.value = value
        self.limit = limit


def ranks_of(group):
    """The ranks of a group, in member order."""
    return [run.first + k for run in group.ranks for k in range(run.count)]


def sample_id_groups(plan, ids):
    """What each rank runs in each microbatch: result[microbatch][rank] = [id, ...].

    ids[k] is the caller's own name of the sequence at position k.
    """
    result = []
    for microbatch in plan.microbatches:
        lists = [[] for _ in range(plan.ranks)]
        for group in microbatch.groups:
            for rank in ranks_of(group):
                lists[rank] += [ids[k] for k in group.ids]
        result.append(lists)
    return result


def _message_class(descriptor):
    if hasattr(message_factory, "GetMessageClass"):
        return message_factory.GetMessageClass(descriptor)
    return message_factory.MessageFactory().GetPrototype(descriptor)


def _reflection_classes():
    """Request and response of reflection, as far as one question needs them."""
    file = descriptor_pb2.FileDescriptorProto(name="reflection", syntax="proto3",
                                              package="hydra_client")
    kind = descriptor_pb2.FieldDescriptorProto
    for message, field, number, of in (
            ("Request", "file_containing_symbol", 4, kind.TYPE_STRING),
            ("Files", "file_descriptor_proto", 1, kind.TYPE_BYTES),
            ("Response", "file_descriptor_response", 4, kind.TYPE_MESSAGE)):
        made = file.message_type.add(name=message).field.add(
            name=field, number=number, type=of, label=kind.LABEL_OPTIONAL)
        if of == kind.TYPE_BYTES:
            made.label = kind.LABEL_REPEATED
        if of == kind.TYPE_MESSAGE:
            made.type_name = ".hydra_client.Files"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return [_message_class(pool.FindMessageTypeByName("hydra_client." + name))
            for name in ("Request", "Response")]


def _describe(channel, symbols, timeout_s, metadata):
    """A pool of the files that define the symbols and of all that they import."""
    request, response = _reflection_classes()
    ask = channel.stream_stream(
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
        request_serializer=request.SerializeToString,
        response_deserializer=response.FromString)
    files = {}
    for answer in ask(iter([request(file_containing_symbol=name) for name in symbols]),
                      timeout=timeout_s, metadata=metadata, wait_for_ready=True):
        for data in answer.file_descriptor_response.file_descriptor_proto:
            file = descriptor_pb2.FileDescriptorProto.FromString(data)
            files[file.name] = file
    pool = descriptor_pool.DescriptorPool()

    def add(file):
        for name in file.dependency:
            if name in files:
                add(files.pop(name))
        pool.Add(file)

    while files:
        add(files.popitem()[1])
    return pool


class Client:
    """One connection to a scheduler; safe to use from several threads."""

    def __init__(self, target, *, token=None, ca=None, cert=None, key=None, timeout_s=60.0):
        """target: HOST:PORT or unix:PATH. ca, cert, key: PEM files (TLS). token: the secret."""
        self.timeout_s = timeout_s
        self._metadata = [("authorization", "Bearer " + token)] if token else []
        options = [("grpc.max_receive_message_length", MAX_MESSAGE_BYTES)]
        if ca:
            pem = [Path(path).read_bytes() if path else None for path in (ca, key, cert)]
            self._channel = grpc.secure_channel(target, grpc.ssl_channel_credentials(*pem),
                                                options)
        else:
            self._channel = grpc.insecure_channel(target, options)
        try:
            self._pool = _describe(self._channel, (SERVICE, "google.rpc.Status"), timeout_s,
                                   self._metadata)
        except grpc.RpcError as error:
            self.close()
            raise HydraError(error.code(), "no scheduler at %s: %s" %
                             (target, error.details())) from None
        self._methods = self._pool.FindServiceByName(SERVICE).methods_by_name

    def close(self):
        self._channel.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def message(self, name, /, **fields):
        """A message of hydra.v1 by its name, for instance message("Batch", ...)."""
        return _message_class(self._pool.FindMessageTypeByName("hydra.v1." + name))(**fields)

    def call(self, method, request):
        """Any unary method of hydra.v1.Scheduler; asks again while nobody answers."""
        deadline = time.monotonic() + self.timeout_s
        pause_s = RETRY_FIRST_S
        while True:
            try:
                return self._start(method, request, deadline - time.monotonic())
            except grpc.RpcError as error:
                left_s = deadline - time.monotonic()
                if error.code() != grpc.StatusCode.UNAVAILABLE or left_s < pause_s:
                    raise self._failure(error) from None
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, RETRY_MOST_S)

    def open_job(self, name, *, ranks, cap_tokens, ranks_per_node=0, tp=0, pp=0, vpp=0,
                 vpp_group=0, model="", device="", policy="", options=None, adapt=False):
        """Open a job of a trainer that executes itself; the same settings again are fine.

        ranks: the DPxCP ranks of one pipeline stage. cap_tokens: what a rank's microbatch may
        hold. 0 and "" mean the daemon's defaults; `hydractl policies` lists policies, options.
        """
        new = self.message
        spec = new(
            "JobSpec", name=name, run=1, adapt=adapt,
            pool=new("Pool", ranks=ranks, ranks_per_node=ranks_per_node, tp=tp, pp=pp, vpp=vpp,
                     vpp_group=vpp_group),
            limits=new("Limits", cap_tokens=cap_tokens),
            policy=new("PolicyChoice", policy=policy,
                       options=[new("Option", key=key, value=str(value))
                                for key, value in (options or {}).items()]))
        if model:
            spec.cost.model.name = model
        if device:
            spec.cost.device.name = device
        return self.call("OpenJob", new("OpenJobRequest", spec=spec)).job

    def close_job(self, name):
        return self.call("CloseJob", self.message("CloseJobRequest", job=name)).job

    def plan(self, job, step, lengths, forward_only=False):
        """The plan of one step: microbatches of groups, figures, loss denominators."""
        answer = self.call("SubmitStep", self._step(job, step, lengths, forward_only))
        return self._whole(job, answer)

    def train(self, job, steps):
        """Plans in order, made while the trainer runs earlier steps.

        steps: an iterable of (step, lengths). Gives (step, plan); a step that has no plan gives
        (step, HydraError), and the others go on.
        """
        requests = (self._step(job, step, lengths, False) for step, lengths in steps)
        try:
            for answer in self._start("Train", requests, None):
                if answer.status_code != 0:
                    code = next(c for c in grpc.StatusCode if c.value[0] == answer.status_code)
                    yield answer.step, HydraError(code, answer.status_message,
                                                  answer.error.field, answer.error.value,
                                                  answer.error.limit)
                else:
                    yield answer.step, self._whole(job, answer)
        except grpc.RpcError as error:
            raise self._failure(error) from None

    def report(self, job, step, compute_s):
        """Measured seconds, compute_s[microbatch][rank]: for `watch`, metrics and `adapt`."""
        report = self.message("StepReport")
        for microbatch, row in enumerate(compute_s):
            for rank, seconds in enumerate(row):
                report.cells.add(microbatch=microbatch, rank=rank, compute_s=seconds)
        self.call("ReportStep",
                  self.message("ReportStepRequest", job=job, step=step, report=report))

    def _step(self, job, step, lengths, forward_only):
        return self.message("SubmitStepRequest", job=job, step=step, **{"pass": int(forward_only)},
                            batch=self.message("Batch", length_tokens=lengths))

    def _whole(self, job, answer):
        """The plan of an answer, in ranges of microbatches where one message is too small."""
        plan = answer.plan
        if answer.plan_omitted:
            request = self.message("GetPlanRequest", job=job, step=answer.step)
            try:
                parts = [part.plan for part in self._start("GetPlan", request, self.timeout_s)]
            except grpc.RpcError as error:
                raise self._failure(error) from None
            plan = parts[0]
            for part in parts[1:]:
                plan.microbatches.extend(part.microbatches)
        return plan

    def _start(self, method, request, timeout_s):
        found = self._methods[method]
        kind = {(False, False): self._channel.unary_unary,
                (False, True): self._channel.unary_stream,
                (True, True): self._channel.stream_stream}
        stub = kind[found.client_streaming, found.server_streaming](
            "/%s/%s" % (SERVICE, method),
            request_serializer=_message_class(found.input_type).SerializeToString,
            response_deserializer=_message_class(found.output_type).FromString)
        return stub(request, timeout=timeout_s, metadata=self._metadata)

    def _failure(self, error):
        """HydraError of a failed call, with the ErrorDetail that it carries."""
        detail = self.message("ErrorDetail")
        status = _message_class(self._pool.FindMessageTypeByName("google.rpc.Status"))
        for key, value in error.trailing_metadata() or ():
            if key == "grpc-status-details-bin":
                for held in status.FromString(value).details:
                    if held.type_url.endswith("/hydra.v1.ErrorDetail"):
                        detail.ParseFromString(held.value)
        return HydraError(error.code(), error.details(), detail.field, detail.value,
                          detail.limit)
