"""docs/scheduler-configuration.md says what there is."""

import re

from berth.kube.scheduler_configuration import wire
from berth.kube.scheduler_configuration.load import read
from berth.kube.scheduler_configuration.plugins import KNOWN, POINTS
from tests.support.paths import ROOT

PAGE = (ROOT / "docs" / "scheduler-configuration.md").read_text(encoding="utf-8")


def test_the_example_is_good() -> None:
    """It can be read, and nothing in it is without effect."""
    (example,) = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    found = read(example)

    assert found.notes == ()
    assert list(found.by_scheduler_name) == ["berth", "berth-packing"]


def test_the_tables_are_complete() -> None:
    """Every plugin, extension point and field is on the page."""
    fields = {
        name
        for kind in (
            wire.Configuration,
            wire.KubeSchedulerProfile,
            wire.LeaderElectionConfiguration,
            wire.ClientConnectionConfiguration,
        )
        for name in kind.__struct_encode_fields__
    }
    arguments = {
        name
        for kind in wire.Arguments.__subclasses__()
        for name in kind.__struct_encode_fields__
        if name not in wire.Arguments.__struct_encode_fields__
    }

    words = set(re.findall(r"[\w]+", PAGE))
    assert {*fields, *arguments, *KNOWN, *POINTS} <= words
