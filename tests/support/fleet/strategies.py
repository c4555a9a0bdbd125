"""Generated bindings with rules about one another."""

from __future__ import annotations

from hypothesis import strategies as st

from berth.kube.karmada import Binding
from tests.support.fleet.builders import BindingBuilder, make_binding, peers

CLUSTERS = ("m1", "m2", "m3", "m4", "gone")
LABELS: tuple[dict[str, str], ...] = (
    {},
    {"app": "a"},
    {"app": "b"},
    {"app": "a", "team": "x"},
    {"app": "b", "team": "x"},
    {"team": "y"},
)
TERMS = (
    peers({"app": "a"}),
    peers({"app": "b"}, keys=["team"]),
    peers({}, keys=["app"]),
    peers(None),
    peers({}, topology="region"),
    peers({"app": "a"}, topology="zone", namespaces=["one", "two"]),
    peers({"team": "x"}, topology="tier"),
)


@st.composite
def bindings(draw: st.DrawFn) -> Binding:
    made: BindingBuilder = make_binding(draw(st.sampled_from("abcdef"))).labels(draw(st.sampled_from(LABELS)))
    made = made.namespace(draw(st.sampled_from(("one", "two"))))
    if draw(st.booleans()):
        made = made.group(f"k={draw(st.sampled_from('xy'))}")
    if draw(st.booleans()):
        made = made.anti_group(f"k={draw(st.sampled_from('xy'))}")
    if near := draw(st.lists(st.sampled_from(TERMS), max_size=2)):
        made = made.near(*near)
    if apart := draw(st.lists(st.sampled_from(TERMS), max_size=2)):
        made = made.apart_from(*apart)
    made = made.on(dict.fromkeys(draw(st.lists(st.sampled_from(CLUSTERS), max_size=2)), 1))
    return made.evicting(*draw(st.lists(st.sampled_from(CLUSTERS[:3]), max_size=1))).build()
