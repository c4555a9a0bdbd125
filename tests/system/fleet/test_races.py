"""Two schedulers place the first members of many groups at once, through every fault: none is split.

Each would choose another cluster for its member: one has the more room for cpu, the other for memory.
"""

from __future__ import annotations

import itertools
import signal
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.support.api.servers import Backend
from tests.support.fleet.builders import BindingBuilder, make_binding, make_cluster
from tests.support.processes.fleet import StartFleet, fleet
from tests.support.processes.process import BerthProcess
from tests.support.worlds.fleet import FleetWorld

GROUPS = 20
NAMES = {"first": {"cpu": "100m"}, "second": {"memory": "1Gi"}}
# There are no workloads behind the bindings, which would be waited for.
NO_WATCHES = "--watch-workloads=false"


@pytest.fixture(scope="module")
def rivals(backend: Backend, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, BerthProcess]]:
    """Both at work, each with bindings of its own."""
    folder = tmp_path_factory.mktemp("rivals")
    with ExitStack() as stack:
        yield {
            name: stack.enter_context(fleet(backend.kubeconfig, folder, NO_WATCHES, name=name))
            for name in NAMES
        }


@pytest.fixture(autouse=True)
def tastes(world: FleetWorld, rivals: dict[str, BerthProcess]) -> None:
    """Alone, each chooses another cluster."""
    world.cluster(make_cluster("much-cpu").only(cpu="100", memory="100Gi", pods="1000"))
    world.cluster(make_cluster("much-memory").only(cpu="10", memory="1000Gi", pods="1000"))
    for name, liked in zip(rivals, ("much-cpu", "much-memory"), strict=True):
        world.bind(member(name, f"alone-{name}"))
        assert world.targets(f"alone-{name}") == [{liked}]


def member(scheduler: str, name: str) -> BindingBuilder:
    asks = make_binding(name).request(NAMES[scheduler])
    return asks.aggregated().spread("cluster", 1, 1).scheduler(scheduler)


def let_loose(world: FleetWorld, rivals: dict[str, BerthProcess]) -> None:
    """Both schedulers hear of all groups at the same moment."""
    for process in rivals.values():
        process.process.send_signal(signal.SIGSTOP)
    for number, name in itertools.product(range(GROUPS), NAMES):
        world.bind(member(name, f"{name}-{number}").group(f"karmada.io/group=g{number}"))
    for process in rivals.values():
        process.process.send_signal(signal.SIGCONT)


def pairs(world: FleetWorld) -> list[tuple[set[str], set[str]]]:
    """Where the two members of each group are."""
    places = world.everywhere()
    return [(places[f"first-{n}"], places[f"second-{n}"]) for n in range(GROUPS)]


def split(world: FleetWorld) -> list[tuple[set[str], set[str]]]:
    return [pair for pair in pairs(world) if all(pair) and pair[0] != pair[1]]


def none_is_split(world: FleetWorld) -> None:
    """Every group is placed in the end, and no two members were ever on different clusters."""

    def all_placed() -> bool:
        assert split(world) == []
        return all(all(pair) for pair in pairs(world))

    world.until(all_placed, "all are placed")
    assert split(world) == []


def test_no_group_is_split(world: FleetWorld, rivals: dict[str, BerthProcess]) -> None:
    """Two schedulers at once never put the members of a group on different clusters."""
    let_loose(world, rivals)
    none_is_split(world)


def test_no_group_is_split_when_the_server_is_killed(
    world: FleetWorld, rivals: dict[str, BerthProcess]
) -> None:
    """Writes are lost, and so are the answers to others."""
    let_loose(world, rivals)
    world.until(lambda: any(any(pair) for pair in pairs(world)), "the first are placed")
    world.backend.kill()
    world.client.close()
    world.backend.restart()
    none_is_split(world)
    for process in rivals.values():
        assert process.alive, process.log[-3000:]


def test_no_group_is_split_when_one_is_killed(
    world: FleetWorld, rivals: dict[str, BerthProcess], start: StartFleet
) -> None:
    """It dies with claims that are not used yet; the next of its name goes on with them."""
    let_loose(world, rivals)
    world.until(lambda: any(any(pair) for pair in pairs(world)), "the first are placed")
    rivals["first"].kill()
    with start(NO_WATCHES, name="first"):
        none_is_split(world)
