"""One leader at a time, by a Lease that client-go's candidates understand, too.

A candidate trusts no other clock than its own: whoever holds the lease is taken to hold it for as long
as the lease lasts from the moment its record was last *seen to change*.  Every write carries the version
of the lease it follows, so of two candidates that try at once one is refused.

A leader that is stopped does not notice that its time is over.  Therefore it is not enough to cancel its work
when a renewal fails: a fence is asked right before each request whether the lease still lasts, by a clock
that goes on meanwhile.  After a pause nothing goes out before the lease was renewed once more.
Upstream: client-go/tools/leaderelection.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import random
import socket
import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import msgspec

from berth.kube.api_resources import LEASES
from berth.kube.objects import RawObject
from berth.kube.times import micro_stamp
from berth.kube.well_known import SYSTEM_NAMESPACE
from berth.live.client import Client
from berth.live.errors import ApiError, Conflict, NotFound
from berth.live.logs import say
from berth.machines.rates import boottime

_log = logging.getLogger(__name__)
_JITTER = 0.2
# A standby reads the lease so many times per renewal: the lease runs from when the standby saw the renewal,
# so the sooner it sees one, the sooner it may take over.
_LOOKS = 4
# And a leader checks so many times per renewal that its process was not stopped.
_BEATS = 4
_TOLERANCE = 20.0  # seconds after the end of its lease until a leader fails its health check

OnChange = Callable[[str], None]


class LeadershipLost(Exception):  # noqa: N818 - named by what is the case
    """The lease was not renewed in time, or another candidate has it."""


def _identity() -> str:
    return f"{socket.gethostname()}_{uuid.uuid4()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionSettings:
    """Which lease, and how patient everyone is; times in seconds.

    Attributes:
        lease: How long others wait for a leader that is silent.
        renew_deadline: How long a leader that cannot renew keeps trying.
        retry: How often it renews; the others look more often.
    """

    namespace: str = SYSTEM_NAMESPACE
    name: str = "berth-scheduler"
    identity: str = field(default_factory=_identity)
    lease: float = 15.0
    renew_deadline: float = 10.0
    retry: float = 2.0

    def __post_init__(self) -> None:
        if not self.identity:
            raise ValueError("the identity of a candidate must not be empty")
        if not self.lease > self.renew_deadline:
            raise ValueError("the lease duration must be greater than the renew deadline")
        if not self.renew_deadline > self.retry * (1 + _JITTER):
            raise ValueError("the renew deadline must be greater than 1.2 times the retry period")
        if not self.retry > 0:
            raise ValueError("the retry period must be greater than zero")


class Election:
    """What one candidate knows of the lease, and what follows from it.

    Times are those of one clock that never goes back; `wall` is what is written for people to read.

    Attributes:
        leader: Who holds the lease as far as is known, "" if nobody does.
        renewed: When this candidate last asked for the time it now has.
    """

    def __init__(self, settings: ElectionSettings) -> None:
        self.settings = settings
        self.leader = ""
        self.renewed = -math.inf
        self._lease: RawObject | None = None  # as last seen or written
        self._record: RawObject = {}
        self._changed = -math.inf
        self._ran = -math.inf  # when this process last took note that it runs
        self._paused = -math.inf  # when it last found that it had been stopped

    @property
    def leads(self) -> bool:
        return self.leader == self.settings.identity

    def saw(self, lease: RawObject, now: float) -> None:
        """Take in the lease as the server has it."""
        record = lease.get("spec") or {}
        if self._lease is None or record != self._record:
            self._changed = now
        self._note(lease)

    def wrote(self, lease: RawObject, asked: float) -> None:
        """The server took our claim; its time runs from when we asked, as it is others who count it."""
        self._changed = asked
        self._note(lease)
        if self.leads:
            self.renewed = asked

    def runs(self, now: float) -> bool:
        """Take note that this process runs; False if it did not for longer than it takes to renew."""
        steadily = now - self._ran <= self.settings.retry
        self._ran = now
        if not steadily:
            self._paused = now
        return steadily

    def lasts(self, now: float) -> bool:
        """Whether the lease is surely ours still; after the process was stopped, only once renewed since."""
        return (
            self.leads and self.renewed >= self._paused and now < self.renewed + self.settings.renew_deadline
        )

    def free_at(self) -> float:
        """When the lease may be taken, should nothing change."""
        if not self.leader or self.leads:
            return -math.inf
        seconds = self._record.get("leaseDurationSeconds") or 0
        return self._changed + float(seconds)

    def claim(self, wall: float) -> RawObject:
        """The lease with us as its holder."""
        seconds = math.ceil(self.settings.lease)  # whole ones, rather too many
        lease = self._written(self.settings.identity, seconds, wall)
        if self.leads:
            lease["spec"]["acquireTime"] = self._record.get("acquireTime")
        elif self._lease is not None:
            lease["spec"]["leaseTransitions"] += 1
        return lease

    def release(self, wall: float) -> RawObject:
        """The lease with nobody as its holder, for whoever looks next."""
        return self._written("", 1, wall)

    def forget(self) -> None:
        """The lease is gone from the server."""
        self._lease, self._record, self.leader = None, {}, ""

    def lost(self) -> None:
        """The lease could not be renewed, so it is not known who leads."""
        self.leader = ""

    def failing(self, now: float) -> str | None:
        """A health check: what is wrong with a leader that neither renews nor steps down."""
        if self.leads and now - self.renewed > self.settings.lease + _TOLERANCE:
            return f"failed election to renew leadership on lease {self.settings.name}"
        return None

    def _written(self, holder: str, seconds: int, wall: float) -> RawObject:
        """The known lease with another record."""
        stamp = micro_stamp(wall)
        record = {
            **self._record,
            "holderIdentity": holder,
            "leaseDurationSeconds": seconds,
            "acquireTime": stamp,
            "renewTime": stamp,
            "leaseTransitions": self._record.get("leaseTransitions") or 0,
        }
        metadata = {"name": self.settings.name, "namespace": self.settings.namespace}
        new = {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": metadata}
        return {**(self._lease or new), "spec": record}

    def _note(self, lease: RawObject) -> None:
        self._lease = lease
        self._record = lease.get("spec") or {}
        self.leader = self._record.get("holderIdentity") or ""


class LeaderFence:
    """Lets requests through while the lease lasts; others wait until it is renewed.

    Args:
        election: Ours.
        clock: One that goes on while this process is stopped.
    """

    def __init__(self, election: Election, clock: Callable[[], float] = boottime) -> None:
        self.election = election
        self.clock = clock
        self._woken = asyncio.Event()  # after a pause: the lease is to be renewed at once
        self._renewed = asyncio.Event()
        self._shut = False

    def lets_through(self) -> bool:
        now = self.clock()
        if not self.election.runs(now):
            self._woken.set()
        return not self._shut and self.election.lasts(now)

    async def opened(self) -> bool:
        while not self.lets_through():
            if self._shut:
                return False
            await self._renewed.wait()
        return True

    def tell(self) -> None:
        """Wake those who wait for the fence: the lease has changed."""
        self._renewed.set()
        self._renewed = asyncio.Event()

    def shut(self) -> None:
        """Let nothing through any more: this process no longer leads."""
        self._shut = True
        self.tell()

    async def pause(self, seconds: float) -> None:
        """Sleep, but wake at once if the process is found to have been stopped."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        self._woken.clear()

    async def beat(self) -> None:
        """Check at short intervals that this process was not stopped, also while it has nothing to send."""
        while True:
            self.lets_through()
            await asyncio.sleep(self.election.settings.retry / _BEATS)


async def lead(
    client: Client,
    settings: ElectionSettings,
    work: Callable[[], Awaitable[None]],
    *,
    on_change: OnChange | None = None,
    fence: LeaderFence | None = None,
) -> None:
    """Become the leader, then do the work for as long as we are.

    When cancelled, the work is cancelled and given all the time it needs to finish (the lease is renewed
    meanwhile); then the lease is released, so that another candidate can start at its next look.

    Args:
        client: Used beside its limiter: a renewal must not wait behind other requests.
        settings: Which lease.
        work: What only the leader may do.
        on_change: Called with the identity of every new leader, "" for none.
        fence: Holds the work back, and lets the caller look at the election.

    Raises:
        LeadershipLost: the work was cancelled because somebody else may lead now.
    """
    fence = fence or LeaderFence(Election(settings))
    candidate = _Candidate(client.unlimited(), fence, on_change)
    await candidate.acquire()
    beating = asyncio.create_task(fence.beat(), name="look at the clock")
    job = asyncio.ensure_future(work())
    renewing = asyncio.create_task(candidate.renew(), name="renew lease")
    try:
        cancelled = await _ended(job, renewing, settings.lease - settings.renew_deadline)
    finally:
        for task in (job, beating, renewing):
            task.cancel()
        await asyncio.wait({renewing})
        lost = None if renewing.cancelled() else renewing.exception()  # why it had ended by itself, if it had
        fence.shut()
    if lost is None:
        await candidate.release()
    failure = job.exception() if job.done() and not job.cancelled() else None
    if cancelled is not None:
        raise failure or cancelled
    if lost is not None:
        raise lost from failure
    await job


async def _ended(
    job: asyncio.Future[None], renewing: asyncio.Future[None], patience: float
) -> asyncio.CancelledError | None:
    """Wait until the work has ended, by itself or because we were cancelled, which is returned.

    If the lease cannot be renewed the work is cancelled and has `patience` seconds left.
    """
    cancelled: asyncio.CancelledError | None = None
    try:
        await asyncio.wait({job, renewing}, return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError as error:
        cancelled = error
        job.cancel()
        await asyncio.wait({job, renewing}, return_when=asyncio.FIRST_COMPLETED)
    if not job.done():
        job.cancel()
        await asyncio.wait({job}, timeout=patience)
    return cancelled


class _Candidate:
    """Makes the requests that an election asks for."""

    def __init__(self, client: Client, fence: LeaderFence, on_change: OnChange | None) -> None:
        self._client = client
        self._fence = fence
        self._now = fence.clock
        self._election = fence.election
        self._settings = fence.election.settings
        self._on_change = on_change
        self._rng = random.Random()  # noqa: S311 - spreads candidates, guards nothing
        self._told: str | None = None
        self._writing = False
        self._lock = f"{self._settings.namespace}/{self._settings.name}"

    async def acquire(self) -> None:
        say(_log, logging.INFO, "Attempting to acquire leader lease...", lock=self._lock)
        try:
            while not await self._tried():
                now = self._now()
                pause = self._settings.retry / _LOOKS * (1 + _JITTER * self._rng.random())
                free = self._election.free_at() - now
                await asyncio.sleep(min(pause, free + 0.001) if free > 0 else pause)
        except asyncio.CancelledError:
            if self._writing:
                await self.release()  # the claim may have been taken though we did not hear of it
            raise
        say(_log, logging.INFO, "Successfully acquired lease", lock=self._lock)

    async def renew(self) -> None:
        """Keep the lease.

        Raises:
            LeadershipLost: it cannot be kept.
        """
        settings, election = self._settings, self._election
        while True:
            await self._fence.pause(settings.retry)
            # Even after the deadline there is one try: while this process was held up nobody may have led.
            deadline = max(election.renewed + settings.renew_deadline, self._now() + settings.retry)
            try:
                async with asyncio.timeout(deadline - self._now()):
                    while not await self._tried():
                        if not election.leads:
                            self._fence.shut()
                            who = repr(election.leader) if election.leader else "somebody else"
                            verb = "is" if election.leader else "was"
                            raise LeadershipLost(f"lease {self._lock} {verb} held by {who}")
                        await asyncio.sleep(settings.retry)
            except TimeoutError:
                election.lost()
                self._fence.shut()
                self._tell()
                raise LeadershipLost(
                    f"lease {self._lock} was not renewed for {settings.renew_deadline:g} seconds"
                ) from None

    async def release(self) -> None:
        """Give the lease back if it is ours; whether that works is not essential."""
        try:
            async with asyncio.timeout(self._settings.renew_deadline):
                while not await self._released():
                    pass
        except (ApiError, TimeoutError) as error:
            say(_log, logging.WARNING, "Failed to release lease", lock=self._lock, err=error)
        self._tell()

    async def _released(self) -> bool:
        election = self._election
        election.saw(await self._get(), self._now())
        if election.leads:
            body = election.release(time.time())
            try:
                answer = await self._sent(self._client.update, body)
            except Conflict:
                return False  # a renewal that had timed out was carried out after all: read the lease again
            election.wrote(answer, self._now())
        return True

    async def _tried(self) -> bool:
        """Try once to get or keep the lease; whether it is ours now."""
        try:
            return await self._try()
        except ApiError as error:
            say(_log, logging.INFO, "Failed to get or renew lease", lock=self._lock, err=error)
            return False
        finally:
            self._tell()

    async def _try(self) -> bool:
        election = self._election
        led = election.leads
        if led:
            # Most likely the lease is as we know it: write without reading it first.
            with contextlib.suppress(ApiError):
                await self._claim(self._client.update)
                return True
        try:
            election.saw(await self._get(), self._now())
        except NotFound:
            election.forget()
            await self._claim(self._client.create)
            return True
        replaced = led and not election.leads  # even if the lease is free again: another may have led
        if replaced or election.free_at() > self._now():
            return False
        await self._claim(self._client.update)
        return True

    async def _claim(self, write: Callable[..., Awaitable[bytes]]) -> None:
        asked = self._now()
        self._election.runs(asked)
        body = self._election.claim(time.time())
        self._election.wrote(await self._sent(write, body), asked)
        self._fence.tell()

    async def _sent(self, write: Callable[..., Awaitable[bytes]], body: RawObject) -> RawObject:
        self._writing = True
        try:
            answer = await write(LEASES, body, self._settings.namespace)
        except ApiError as error:
            self._writing = error.code == 0  # no answer: the write may have been carried out
            raise
        self._writing = False
        return msgspec.json.decode(answer, type=dict)

    async def _get(self) -> RawObject:
        body = await self._client.get(LEASES, self._settings.name, self._settings.namespace)
        return msgspec.json.decode(body, type=dict)

    def _tell(self) -> None:
        leader = self._election.leader
        if leader != (self._told or ""):
            self._told = leader
            say(_log, logging.INFO, "New leader", lock=self._lock, leader=leader)
            if self._on_change is not None:
                self._on_change(leader)
