"""The pods of hollow nodes: admitted or rejected, started, finished if they are to finish, stopped.

Annotations of a pod change its course: ``berth.dev/run-for`` (how long its containers run; by default
those that are not restarted run for a second), ``berth.dev/exit-code``, ``berth.dev/start-after`` and
``berth.dev/stop-after``.  Times are written like ``90s``, ``1.5m`` or plain seconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_network

from berth.controllers.hollow import is_hollow
from berth.controllers.hollow.admission import AdmissionFailure, admit
from berth.controllers.hollow.registration import index_of, network_of, node_address
from berth.controllers.workloads.pods import restarts
from berth.engine.state.options import Options
from berth.kube.amounts.integers import integer
from berth.kube.amounts.resource_lists import is_sidecar
from berth.kube.api_resources import NAMESPACES, NODES, PODS
from berth.kube.objects import Container, Key, LivePod, Namespace, Node, RawObject, key_of
from berth.kube.pods import is_finished, is_terminating, phase, pod_condition
from berth.kube.times import DurationError, created_at, parse_duration, seconds, stamp
from berth.kube.well_known import (
    DELETED,
    EXIT_CODE,
    FAILED,
    FALSE,
    PENDING,
    READY,
    RUN_FOR,
    RUNNING,
    START_AFTER,
    STOP_AFTER,
    SUCCEEDED,
    TRUE,
)
from berth.machines.cache import Cache, take
from berth.machines.contract import Action, Event, Outcome
from berth.machines.controller import Controller
from berth.machines.rates import Backoff
from berth.machines.recorder import WARNING
from berth.machines.requests import delete, status_report

# --- statuses -------------------------------------------------------------------------------------
# As a kubelet would write them for containers that are not there.

_EVERY = ("PodReadyToStartContainers", "Initialized", "ContainersReady")


def running_status(pod: LivePod, now: float, host: str, address: str, count: int = 0) -> RawObject:
    started = (pod.status.start_time if pod.status else None) or stamp(now)
    conditions = _conditions(dict.fromkeys(_EVERY, TRUE), now)
    conditions.insert(-1, ready_condition(pod, now))
    status: RawObject = {
        "phase": RUNNING,
        "conditions": conditions,
        "hostIP": host,
        "hostIPs": [{"ip": host}],
        "podIP": address,
        "podIPs": [{"ip": address}],
        "startTime": started,
        "containerStatuses": [
            _container(pod, c, _running(now), count=count, ready=True) for c in pod.spec.containers or ()
        ],
    }
    if pod.spec.init_containers:
        status["initContainerStatuses"] = [
            _container(pod, c, _running(now) if is_sidecar(c) else _terminated(0, now), ready=True)
            for c in pod.spec.init_containers
        ]
    return status


def ready_condition(pod: LivePod, now: float) -> RawObject:
    """Whether a pod whose containers run is ready: also by the conditions that it names as gates."""
    closed = []
    for gate in pod.spec.readiness_gates or ():
        name = gate.condition_type
        found = pod_condition(pod, name or "")
        if found is None:
            closed.append(f'corresponding condition of pod readiness gate "{name}" does not exist.')
        elif found.status != TRUE:
            closed.append(f'the status of pod readiness gate "{name}" is not "True", but {found.status}')
    if not closed:
        return _conditions({READY: TRUE}, now)[0]
    reason, message = "ReadinessGatesNotReady", ", ".join(closed)
    return {**_conditions({READY: FALSE}, now, {READY: reason})[0], "message": message}


def finished_status(
    pod: LivePod, now: float, exit_code: int, *, reason: str = "", message: str = ""
) -> RawObject:
    """Containers that ended with the code; `reason` is set if the kubelet ended them."""
    phase = SUCCEEDED if exit_code == 0 else FAILED
    why = "PodCompleted" if phase == SUCCEEDED else reason or "PodFailed"
    states = {"Initialized": TRUE, READY: FALSE, "ContainersReady": FALSE, "PodReadyToStartContainers": FALSE}
    reasons = {READY: why, "ContainersReady": why}
    if phase == SUCCEEDED:
        reasons["Initialized"] = why
    status: RawObject = {
        "phase": phase,
        "conditions": _conditions(states, now, reasons),
        "containerStatuses": [
            _container(pod, c, _terminated(exit_code, now), count=restarts(pod), ready=False)
            for c in pod.spec.containers or ()
        ],
    }
    if reason:
        status["reason"] = reason
    if message:
        status["message"] = message
    return status


def rejected_status(reason: str, message: str, now: float) -> RawObject:
    return {
        "phase": FAILED,
        "reason": reason,
        "message": f"Pod was rejected: {message}",
        "startTime": stamp(now),
    }


def _conditions(states: dict[str, str], now: float, reasons: dict[str, str] | None = None) -> list[RawObject]:
    return [
        {
            "type": kind,
            "status": status,
            "lastProbeTime": None,
            "lastTransitionTime": stamp(now),
            **({"reason": reasons[kind]} if reasons and kind in reasons else {}),
        }
        for kind, status in states.items()
    ]


def _running(now: float) -> RawObject:
    return {"running": {"startedAt": stamp(now)}}


def _terminated(code: int, now: float) -> RawObject:
    reason, at = "Error" if code else "Completed", stamp(now)
    return {"terminated": {"exitCode": code, "reason": reason, "startedAt": at, "finishedAt": at}}


def _container(
    pod: LivePod, container: Container, state: RawObject, *, ready: bool, count: int = 0
) -> RawObject:
    return {
        "name": container.name,
        "image": container.image or "",
        "imageID": f"hollow://{container.image or ''}",
        "containerID": f"hollow://{pod.metadata.uid}/{container.name}/{count}",
        "ready": ready,
        "started": "running" in state,
        "restartCount": count,
        "state": state,
        "lastState": {},
    }


# --- kubelets -------------------------------------------------------------------------------------

_ANYWHERE = ip_network("10.255.255.0/24")  # where pods are whose node has no range
_RUNS_FOR = 1.0  # seconds, what is not restarted and does not say
_RESTART_BACKOFF = Backoff(first=10.0, longest=300.0)


class Kubelets(Controller):
    """All hollow kubelets at once; pods on nodes that are not hollow are left alone."""

    name = "kubelet"
    watches = (PODS, NODES, NAMESPACES)

    def __init__(self, cache: Cache, options: Options | None = None) -> None:
        super().__init__(cache)
        self._options = options or Options()
        self._admitted: set[str] = set()  # uids of pods that were admitted but are not yet seen to run
        self._addresses: dict[str, dict[str, str]] = {}  # node -> addresses of pods, while they are there

    def handle(self, event: Event) -> None:
        if event.resource == NODES:
            was = is_hollow(event.old)
            if event.change != DELETED and is_hollow(event.object) and not was:
                for there in self.cache.pods_on(event.key[1]):
                    self.queue.add(key_of(there.metadata))
            return
        if event.resource == NAMESPACES:
            return  # their labels are looked up when a pod is admitted
        pod: LivePod = event.object
        if not pod.spec.node_name:
            return
        if event.change == DELETED:
            self._admitted.discard(pod.metadata.uid or "")
            take(self._addresses, pod.spec.node_name, pod.metadata.uid or "")
            self.queue.forget(event.key)
        elif event.old is None or not is_finished(pod) or is_terminating(pod):
            self.queue.add(event.key)

    def sync(self, key: Key, now: float) -> Iterator[Action]:
        pod = self.cache.get(PODS, key, LivePod)
        node = self.cache.get(NODES, ("", pod.spec.node_name or ""), Node) if pod else None
        if pod is None or node is None or not is_hollow(node):
            return
        if is_terminating(pod):
            yield from self._stop(key, pod, now)
        elif is_finished(pod):
            return
        elif phase(pod) == PENDING:
            yield from self._start(key, pod, node, now)
        else:
            self._admitted.discard(pod.metadata.uid or "")
            yield from self._run(key, pod, now)

    # --- starting -----------------------------------------------------------------------------------

    def _start(self, key: Key, pod: LivePod, node: Node, now: float) -> Iterator[Action]:
        uid = pod.metadata.uid or ""
        if uid not in self._admitted:
            failure = self._admit(pod, node)
            if failure is not None:
                status = rejected_status(failure.reason, failure.message, now)
                yield status_report(PODS, pod, status, "rejected")
                self.recorder.record(now, PODS, pod, WARNING, failure.reason, failure.message)
                return
            self._admitted.add(uid)
        begin = created_at(pod.metadata) + (duration(pod, START_AFTER) or 0.0)
        if self.queue.put_off(key, begin, now):
            return
        host, address = self._address(pod, node)
        yield status_report(PODS, pod, running_status(pod, now, host, address), "started")

    def _admit(self, pod: LivePod, node: Node) -> AdmissionFailure | None:
        others = self.cache.pods_on(node.metadata.name or "")
        bound = [other for other in others if other is not pod and not is_finished(other)]
        running = [each for each in bound if phase(each) == RUNNING or each.metadata.uid in self._admitted]
        namespaces = self.cache.all(NAMESPACES, Namespace)
        return admit(pod, node, running=running, bound=bound, namespaces=namespaces, options=self._options)

    def _address(self, pod: LivePod, node: Node) -> tuple[str, str]:
        """The node's address and one for the pod, from the range of the node."""
        network, index = network_of(node), index_of(node)
        if network is None or network.num_addresses < 4:
            network = _ANYWHERE
        host = node_address(index) if index >= 0 else str(network[1])
        if pod.spec.host_network:
            return host, host
        given = self._addresses.setdefault(node.metadata.name or "", {})
        uid = pod.metadata.uid or ""
        if uid not in given:
            others = self.cache.pods_on(node.metadata.name or "")
            used = {*given.values(), *(other.status.pod_ip for other in others if other.status)}
            last = min(network.num_addresses - 2, 254)
            free = (str(network[number]) for number in range(2, last + 1))
            given[uid] = next((address for address in free if address not in used), str(network[last]))
        return host, given[uid]

    # --- running ------------------------------------------------------------------------------------

    def _run(self, key: Key, pod: LivePod, now: float) -> Iterator[Action]:
        started = seconds(pod.status.start_time) if pod.status and pod.status.start_time else now
        deadline = pod.spec.active_deadline_seconds
        if deadline is not None and not self.queue.put_off(key, started + deadline, now):
            message = "Pod was active on the node longer than the specified deadline"
            status = finished_status(pod, now, 137, reason="DeadlineExceeded", message=message)
            yield status_report(PODS, pod, status, "past its deadline")
            return
        ready = pod_condition(pod, "Ready")
        if ready is not None and ready.reason == "NodeNotReady":
            status = running_status(pod, now, *self._known_addresses(pod), restarts(pod))
            yield status_report(PODS, pod, {"conditions": status["conditions"]}, "its node is back")
            return
        if pod.spec.readiness_gates and ready is not None:
            wanted = ready_condition(pod, now)
            if (ready.status, ready.message or "") != (wanted["status"], wanted.get("message", "")):
                gone = dict.fromkeys(("reason", "message")) | wanted  # what was said before goes
                yield status_report(PODS, pod, {"conditions": [gone]}, "its readiness gates")
                return
        lasts = duration(pod, RUN_FOR, None if _restarts(pod) else _RUNS_FOR)
        if lasts is not None and not self.queue.put_off(key, self._began(pod, started) + lasts, now):
            yield from self._end(pod, now)

    def _began(self, pod: LivePod, started: float) -> float:
        """When the containers began their present run."""
        for status in (pod.status.container_statuses if pod.status else None) or ():
            since = status.state.running.get("startedAt") if status.state and status.state.running else None
            if since:
                return seconds(since)
        return started

    def _end(self, pod: LivePod, now: float) -> Iterator[Action]:
        given = integer((pod.metadata.annotations or {}).get(EXIT_CODE, "0"), 32, least=0)
        code = 1 if given is None else given
        if not _restarts(pod) and (code == 0 or pod.spec.restart_policy == "Never"):
            yield status_report(PODS, pod, finished_status(pod, now, code), f"exit code {code}")
            return
        count = restarts(pod) + 1
        again = now + _RESTART_BACKOFF.after(count)
        status = running_status(pod, again, *self._known_addresses(pod), count=count)
        yield status_report(PODS, pod, status, f"exit code {code}, restarted")

    def _known_addresses(self, pod: LivePod) -> tuple[str, str]:
        node = self.cache.get(NODES, ("", pod.spec.node_name or ""), Node) or Node()
        address = pod.status.pod_ip if pod.status else None
        host, fresh = self._address(pod, node)
        return host, address or fresh

    # --- stopping -----------------------------------------------------------------------------------

    def _stop(self, key: Key, pod: LivePod, now: float) -> Iterator[Action]:
        grace = float(pod.metadata.deletion_grace_period_seconds or 0)
        due = seconds(pod.metadata.deletion_timestamp) if pod.metadata.deletion_timestamp else now
        takes = min(duration(pod, STOP_AFTER) or 0.0, grace)
        stops = due - grace + takes
        if not is_finished(pod) and self.queue.put_off(key, stops, now):
            return
        if pod.metadata.finalizers and not is_finished(pod):
            # Somebody wants to see how it ended before it goes.
            yield status_report(PODS, pod, finished_status(pod, now, 143), "stopped")
            return
        if pod.metadata.finalizers and not grace:
            return  # it has left the node; the rest is up to whoever holds it
        yield delete(PODS, pod, "its containers have stopped", grace=0)

    def failed(self, action: Action, outcome: Outcome) -> None:
        if outcome.missing:
            self.queue.forget(action.key)


def duration(pod: LivePod, annotation: str, default: float | None = None) -> float | None:
    """A time in an annotation, as seconds."""
    text = (pod.metadata.annotations or {}).get(annotation, "").strip()
    try:
        found = parse_duration(f"{text}s" if text[-1:].isdigit() else text)
    except DurationError:
        return default
    return found if found >= 0 else default


def _restarts(pod: LivePod) -> bool:
    return pod.spec.restart_policy in (None, "", "Always")
