#!/usr/bin/python3
"""A client made of generated stubs (grpcio): every kind of call, details, deadlines."""
import threading
import time

from harness import Daemon, Stubs, check, covers, skip

try:
    import grpc
except ImportError:
    skip("no grpc module for /usr/bin/python3 (package python3-grpcio)")


def failure(call):
    """The error that a call ends with; none is a failure of the test."""
    try:
        call.result(60)
    except grpc.RpcError as error:
        return error
    check("a call that should fail", False)
    return None


def plan_and_jobs(stubs, service):
    plan = service.Plan(stubs.plan_request(), timeout=30).plan
    check("a plan covers its batch", covers(plan, 4))
    check("a plan has figures", plan.figures.step_s > 0)
    check("the same request, the same plan",
          service.Plan(stubs.plan_request(), timeout=30).plan.fingerprint
          == plan.fingerprint)
    opened = service.OpenJob(stubs.scheduler.OpenJobRequest(spec=stubs.job("py")),
                             timeout=30).job
    check("the job is open", opened.open and opened.spec.name == "py")
    jobs = service.ListJobs(stubs.scheduler.ListJobsRequest(), timeout=30).jobs
    check("the job is listed", [job.spec.name for job in jobs] == ["py"])


def steps(stubs, service):
    answer = service.SubmitStep(stubs.step("py", 1), timeout=30)
    check("a step is planned", answer.state == stubs.scheduler.STEP_PLANNED)
    check("its plan covers the batch", covers(answer.plan, 4))
    again = service.SubmitStep(stubs.step("py", 1), timeout=30)
    check("a repeat has the same plan", again.plan == answer.plan)
    parts = list(service.GetPlan(stubs.scheduler.GetPlanRequest(job="py", step=1),
                                 timeout=30))
    check("GetPlan streams it", sum(len(p.plan.microbatches) for p in parts)
          == answer.plan.num_microbatches)
    listed = service.ListSteps(stubs.scheduler.ListStepsRequest(job="py"), timeout=30)
    check("the step is listed", [s.step for s in listed.steps] == [1])


def train(stubs, service):
    requests = [stubs.step("py", n, (100000 if n == 7 else n, 200)) for n in range(2, 13)]
    answers = list(service.Train(iter(requests), timeout=60))
    check("every step is answered, in order",
          [a.step for a in answers] == [r.step for r in requests])
    check("a bad step fails alone",
          [a.step for a in answers if a.status_code != 0] == [7],
          [(a.step, a.status_code, a.status_message) for a in answers])


def watch(stubs, service):
    seen = []
    stream = service.WatchSteps(stubs.scheduler.WatchStepsRequest(job="py"))
    came = threading.Event()

    def read():
        try:
            for update in stream:
                seen.append(update.step.step)
                came.set()
        except grpc.RpcError as error:
            seen.append(error.code())
            came.set()

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(2000, 2100):
        service.SubmitStep(stubs.step("py", number), timeout=30)
        if came.wait(0.3):
            break
    stream.cancel()
    reader.join(30)
    check("a watcher hears of steps", len(seen) >= 2 and seen[0] in range(1, 2100), seen)
    check("a cancelled watch ends", seen[-1] == grpc.StatusCode.CANCELLED, seen)


def details(stubs, service):
    error = failure(service.GetJob.future(
        stubs.scheduler.GetJobRequest(job="nobody"), timeout=30))
    check("an unknown job is NOT_FOUND", error.code() == grpc.StatusCode.NOT_FOUND)
    error = failure(service.Plan.future(stubs.plan_request(policy="no-such-policy"),
                                        timeout=30))
    detail = stubs.detail(error)
    check("an unknown policy is INVALID_ARGUMENT",
          error.code() == grpc.StatusCode.INVALID_ARGUMENT, error)
    check("details name the field", detail is not None and "policy" in detail.field,
          detail)
    check("details name the value", "no-such-policy" in detail.value, detail)
    check("details say what would be right", detail.limit != "", detail)


def deadlines(stubs, service, channel):
    request = stubs.step("py", 3000)
    request.wait = stubs.scheduler.STEP_DONE
    start = time.monotonic()
    error = failure(service.SubmitStep.future(request, timeout=0.5))
    check("a deadline ends a call that waits",
          error.code() == grpc.StatusCode.DEADLINE_EXCEEDED, error)
    check("and not much later", time.monotonic() - start < 20)
    call = service.SubmitStep.future(request, timeout=30)
    call.cancel()
    check("a cancelled call is CANCELLED", call.code() == grpc.StatusCode.CANCELLED)
    error = failure(channel.unary_unary("/hydra.v1.Scheduler/NoSuch").future(
        b"", timeout=30))
    check("an unknown method is UNIMPLEMENTED",
          error.code() == grpc.StatusCode.UNIMPLEMENTED, error)


def health(stubs, channel):
    message = stubs.health
    one = channel.unary_unary(
        "/grpc.health.v1.Health/Check",
        request_serializer=message.HealthCheckRequest.SerializeToString,
        response_deserializer=message.HealthCheckResponse.FromString)
    for name in ("", "hydra.v1.Scheduler", "hydra.v1.Workers"):
        check("healthy: " + name,
              one(message.HealthCheckRequest(service=name), timeout=30).status == 1)
    error = failure(one.future(message.HealthCheckRequest(service="x"), timeout=30))
    check("unknown service", error.code() == grpc.StatusCode.NOT_FOUND)
    many = channel.unary_stream(
        "/grpc.health.v1.Health/Watch",
        request_serializer=message.HealthCheckRequest.SerializeToString,
        response_deserializer=message.HealthCheckResponse.FromString)
    return many(message.HealthCheckRequest(service=""))


def reflection(stubs, channel):
    for version, message in stubs.reflection.items():
        info = channel.stream_stream(
            "/grpc.reflection.%s.ServerReflection/ServerReflectionInfo" % version,
            request_serializer=message.ServerReflectionRequest.SerializeToString,
            response_deserializer=message.ServerReflectionResponse.FromString)
        ask = message.ServerReflectionRequest
        answers = list(info(iter([
            ask(list_services="*"), ask(file_containing_symbol="hydra.v1.Plan"),
            ask(file_by_filename="google/rpc/status.proto"),
            ask(file_containing_symbol="no.such"),
            ask(all_extension_numbers_of_type="hydra.v1.Plan")]), timeout=30))
        names = [s.name for s in answers[0].list_services_response.service]
        check(version + " lists our services",
              {"hydra.v1.Scheduler", "hydra.v1.Workers"} <= set(names), names)
        check(version + " has the file of a symbol",
              len(answers[1].file_descriptor_response.file_descriptor_proto) == 1)
        check(version + " sends imports along",
              len(answers[2].file_descriptor_response.file_descriptor_proto) == 2)
        check(version + " says what is not there",
              answers[3].error_response.error_code == 5)
        check(version + " knows no extensions",
              answers[4].HasField("all_extension_numbers_response"))


def main():
    stubs = Stubs()
    with Daemon() as daemon:
        for address in (daemon.address, "unix:" + daemon.socket):
            with grpc.insecure_channel(address) as channel:
                health(stubs, channel).cancel()
                reflection(stubs, channel)
        channel = grpc.insecure_channel(daemon.address)
        service = stubs.scheduler_grpc.SchedulerStub(channel)
        plan_and_jobs(stubs, service)
        steps(stubs, service)
        train(stubs, service)
        watch(stubs, service)
        details(stubs, service)
        deadlines(stubs, service, channel)
        watching = health(stubs, channel)
        check("a health watch starts with SERVING", next(watching).status == 1)
        stopper = threading.Thread(target=daemon.stop)
        stopper.start()
        said = []
        try:
            said = [answer.status for answer in watching]
        except grpc.RpcError as error:
            said.append(error.code())
        check("a drain is told to health watchers",
              said in ([2, grpc.StatusCode.UNAVAILABLE], [grpc.StatusCode.UNAVAILABLE]),
              said)
        stopper.join()
        channel.close()
        daemon.stop = lambda: None


if __name__ == "__main__":
    main()
