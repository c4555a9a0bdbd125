"""What the page asks of a snapshot, as documents; those that a command prints are the command's own.

Questions take time: each is answered once for a state of the cluster, one at a time.  Every question gets a
snapshot of its own, which it may change as it likes; nothing is written anywhere.
"""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from queue import SimpleQueue

import msgspec
from msgspec import to_builtins

from berth.engine.offline.audit import WorkloadMoves, wanted_moves
from berth.engine.offline.explanation import Explanation, explain
from berth.engine.offline.lookup import find
from berth.engine.offline.simulation import UnplacedPod, simulate
from berth.engine.offline.snapshot import Entry, Snapshot
from berth.engine.offline.topology import ConstraintDomains, constraint_domains
from berth.kube.objects import Document, RawObject
from berth.kube.well_known import BERTH_API_VERSION
from berth.live.listing import Listing
from berth.web.sources import ClusterSource

_AVAILABLE = "nodes are available: "
_COUNTED = re.compile(r"(?:^|, )(\d+) ")
_MOST_PODS = 50  # named of one workload


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandDocuments:
    """The documents of the commands' `-o json`, which the page shows."""

    explanation: Callable[[Explanation, Snapshot], Document]
    audit: Callable[[Snapshot], Document]
    simulation: Callable[[Snapshot], Document]
    fleet: Callable[[Listing, bool], Document]  # the flag: bindings are made by controllers in the cluster
    what_if: Callable[[Snapshot, RawObject], Document] | None = None


def constraints(snapshot: Snapshot) -> Document:
    """Every constraint with its domains, the broken ones first."""
    planned = {(each.namespace, each.owner): each for each in wanted_moves(snapshot)}
    found = [
        _constraint(each, planned.get((each.namespace, each.owner))) for each in constraint_domains(snapshot)
    ]
    return {"apiVersion": BERTH_API_VERSION, "kind": "Constraints", "constraints": found}


def _constraint(found: ConstraintDomains, planned: WorkloadMoves | None) -> Document:
    moves = planned.moves if planned is not None else ()
    return {
        **to_builtins(found),
        "moves": [{"pod": move.pod, "node": move.node, "landsOn": move.replacement_node} for move in moves],
        "staysBecause": planned.stays_because if planned is not None else None,
    }


def pending(snapshot: Snapshot) -> Document:
    """The pods without a node, by the reason why, then by workload."""
    simulation = simulate(snapshot)
    turns = {entry.key: turn for turn, entry in enumerate(snapshot.pending, start=1)}
    reasons: dict[tuple[str, frozenset[str]], list[UnplacedPod]] = {}
    for unplaced in simulation.unplaced:
        key = (unplaced.reason, frozenset(_refusals(unplaced.message)))
        reasons.setdefault(key, []).append(unplaced)
    groups = [
        {
            "reason": reason,
            "title": title(those[0].message),
            "message": those[0].message,
            "messages": len({each.message for each in those}),
            "pods": len(those),
            "workloads": _by_workload((each.entry for each in those), turns),
        }
        for (reason, _), those in reasons.items()
    ]
    return {
        "apiVersion": BERTH_API_VERSION,
        "kind": "Pending",
        "pods": len(snapshot.pending),
        "groups": sorted(groups, key=lambda group: -int(str(group["pods"]))),
        "placeable": [
            {
                "namespace": p.entry.namespace,
                "name": p.entry.name,
                "workload": p.entry.workload,
                "node": p.node,
            }
            for p in simulation.placements[:_MOST_PODS]
        ],
        "placeablePods": len(simulation.placements),
    }


def _refusals(message: str) -> dict[str, int]:
    """Reasons and how many nodes have each, from the scheduler's sentence; the sentence if it counts none."""
    said = message.partition(" preemption: ")[0].partition(_AVAILABLE)[2]
    counted = _COUNTED.split(said.rstrip("."))
    return dict(zip(counted[2::2], map(int, counted[1::2]), strict=True)) or {message: 0}


def title(message: str) -> str:
    """The reasons without numbers, the most frequent first: pods that wait for the same read alike."""
    found = _refusals(message)
    first, *rest = sorted(found, key=lambda why: -found[why])
    return ", ".join(
        (first.replace("node(s)", "nodes", 1), *(each.removeprefix("node(s) ") for each in rest))
    )


def _by_workload(entries: Iterable[Entry], turns: dict[str, int]) -> list[Document]:
    found: dict[tuple[str, str], list[Entry]] = {}
    for entry in entries:
        found.setdefault((entry.namespace, entry.workload), []).append(entry)
    return [
        {
            "namespace": namespace,
            "workload": workload,
            "count": len(those),
            "pods": [{"name": each.name, "turn": turns[each.key]} for each in those[:_MOST_PODS]],
        }
        for (namespace, workload), those in found.items()
    ]


def explanation(snapshot: Snapshot, namespace: str, name: str, documents: CommandDocuments) -> Document:
    """Why a pod is where it is, or nowhere.

    Raises:
        berth.engine.offline.lookup.NotFoundError: there is no such pod; the message lists near names.
    """
    simulation = simulate(snapshot)
    entry = find(simulation, name, namespace)
    return documents.explanation(explain(simulation, entry), simulation.snapshot)


# --- answering -----------------------------------------------------------------------------------------


PageQuestion = Callable[[Snapshot], object]
_REST = 3.0  # the pause before the same question is worked on again, as a multiple of the time it took
_KEPT = 64  # answers that are kept


@dataclass(slots=True)
class _Answer:
    version: int
    content: bytes
    seconds: float
    at: float

    def rest(self, now: float) -> float:
        """Seconds until the same question may be worked on again, even if the cluster has changed."""
        return max(self.at + _REST * self.seconds - now, 0.0)


# The work that answers a question, for the thread, and the future that gets the answer.
_Job = tuple[Callable[[], bytes], Future[bytes]]


class EndedError(Exception):
    """The page is no longer served."""


class Analyst:
    """Answers questions, in a thread of its own."""

    def __init__(self, source: ClusterSource) -> None:
        self._source = source
        self._questions: SimpleQueue[_Job | None] = SimpleQueue()
        # A daemon thread: a question that takes minutes must not keep the process from ending.
        threading.Thread(target=_work, args=(self._questions,), name="analyst", daemon=True).start()
        self._answers: dict[str, _Answer] = {}
        self._asked: dict[str, asyncio.Task[_Answer]] = {}

    async def ask(self, name: str, question: PageQuestion) -> bytes:
        """The answer as JSON for the cluster's present state or a later one; equal questions share an answer.

        Raises:
            berth.engine.offline.snapshot.SnapshotError: the objects cannot be used together.
            EndedError: the page is closed before there is one.
        """
        wanted = self._source.version
        answer = self._answers.get(name)
        # An answer that was begun before the last change is of an older state.
        while answer is None or answer.version < wanted:
            answer = await self._next(name, question)
        return answer.content

    async def _next(self, name: str, question: PageQuestion) -> _Answer:
        task = self._asked.get(name)
        if task is None:
            task = self._asked[name] = asyncio.create_task(self._answer(name, question))
            task.add_done_callback(lambda _: self._asked.pop(name, None))
        await asyncio.wait((task,))
        if task.cancelled():
            raise EndedError
        return task.result()

    async def _answer(self, name: str, question: PageQuestion) -> _Answer:
        if (known := self._answers.get(name)) is not None:
            await asyncio.sleep(known.rest(time.monotonic()))
        version, snapshot = self._source.version, self._source.snapshot
        start = time.monotonic()
        future: Future[bytes] = Future()
        self._questions.put((lambda: msgspec.json.encode(question(snapshot())), future))
        content = await asyncio.wrap_future(future)
        end = time.monotonic()
        while len(self._answers) >= _KEPT:
            del self._answers[next(iter(self._answers))]
        answer = self._answers[name] = _Answer(version, content, end - start, end)
        return answer

    def close(self) -> None:
        """Stop answering; callers that wait get an EndedError."""
        self._questions.put(None)
        for task in self._asked.values():
            task.cancel()


def _work(questions: SimpleQueue[_Job | None]) -> None:
    while (asked := questions.get()) is not None:
        work, future = asked
        if future.set_running_or_notify_cancel():
            try:
                future.set_result(work())
            except Exception as error:  # noqa: BLE001 - whoever asked is told
                future.set_exception(error)
