"""Server-side apply: ownership, conflicts, giving up fields, and tracking of ordinary writes."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from berth.kube.schema import Schema, SchemaNode, SchemaRegistry
from berth.server.errors import StatusError
from berth.server.patch import (
    apply,
    fieldset,
    json_patch,
    merge_patch,
    reset_fields,
    strategic_merge_patch,
    track_update,
)
from berth.server.patch.typed import compare, fields_of, merge
from tests.support.manifests.api_objects import PROPERTY, configurations, deployment

Object = dict[str, Any]
NAMES = st.sampled_from("abcdef")


def _schema() -> Schema:
    found = SchemaRegistry().for_kind("apps", "v1", "Deployment")
    assert found is not None
    return found


SCHEMA = _schema()


def applied(
    live: Object | None, config: Object, manager: str = "one", now: str = "t1", **options: Any
) -> Object:
    return apply(live, config, SCHEMA, manager=manager, now=now, **options)


def updated(
    live: Object | None, new: Object, manager: str = "editor", now: str = "t2", **options: Any
) -> Object:
    return track_update(live, new, SCHEMA, manager=manager, now=now, **options)


def bare(obj: Object) -> Object:
    """An object without its managed fields."""
    metadata = {name: value for name, value in obj["metadata"].items() if name != "managedFields"}
    return {**obj, "metadata": metadata}


def owned(obj: Object, manager: str, operation: str = "Apply") -> set[str]:
    """The paths a manager owns."""
    return {
        fieldset.show(path)
        for entry in obj["metadata"].get("managedFields", ())
        if (entry["manager"], entry["operation"]) == (manager, operation)
        for path in fieldset.decode(entry["fieldsV1"])
    }


def containers(*named: Object) -> Object:
    return deployment(template={"spec": {"containers": list(named)}})


def test_first_apply_creates_and_owns() -> None:
    """The first apply creates the object and owns the fields it sets, and no others."""
    obj = applied(None, deployment())
    assert deployment() == bare(obj)
    (entry,) = obj["metadata"]["managedFields"]
    assert tuple(entry[name] for name in ("manager", "operation", "apiVersion", "time")) == (
        "one",
        "Apply",
        "apps/v1",
        "t1",
    )
    ports = '.spec.template.spec.containers[name="c"].ports[containerPort=80,protocol="TCP"]'
    assert {".spec.replicas", ".metadata.labels.app", ports, f"{ports}.containerPort"} <= owned(obj, "one")
    assert not {".metadata.name", ".kind", ".spec"} & owned(obj, "one")


def test_atomic_places_are_owned_as_a_whole() -> None:
    """A selector is one field, whatever is in it."""
    obj = applied(None, deployment())
    assert ".spec.selector" in owned(obj, "one")


def test_conflict_is_told_as_upstream_tells_it() -> None:
    """A conflict names the field and its manager in kube-apiserver's words."""
    obj = applied(None, deployment())
    with pytest.raises(StatusError) as caught:
        applied(obj, deployment(replicas=5), "two")
    error = caught.value
    assert (error.code, error.reason) == (409, "Conflict")
    assert error.message == 'Apply failed with 1 conflict: conflict with "one": .spec.replicas'
    cause = {
        "reason": "FieldManagerConflict",
        "message": 'conflict with "one"',
        "field": ".spec.replicas",
    }
    assert error.details == {"causes": [cause]}


def test_several_conflicts_are_listed_by_manager() -> None:
    """Several conflicts are listed by manager and subresource."""
    obj = applied(None, deployment())
    changed = deployment(replicas=4)
    obj = updated(obj, {**changed, "metadata": obj["metadata"]}, subresource="scale")
    config = deployment(replicas=5)
    config["metadata"]["labels"]["app"] = "other"
    with pytest.raises(StatusError) as caught:
        applied(obj, config, "two")
    expected = (
        'Apply failed with 2 conflicts: conflicts with "editor" with subresource "scale" using apps/v1:\n'
        '- .spec.replicas\nconflicts with "one":\n- .metadata.labels.app'
    )
    assert expected == caught.value.message


def test_force_takes_ownership() -> None:
    """A forced apply takes a field over; equal fields are shared."""
    obj = applied(applied(None, deployment()), deployment(replicas=5), "two", force=True)
    assert obj["spec"]["replicas"] == 5
    assert ".spec.replicas" in owned(obj, "two")
    assert ".spec.replicas" not in owned(obj, "one")
    assert ".spec.selector" in owned(obj, "one") & owned(obj, "two")


def test_equal_values_are_shared() -> None:
    """Applying what is there already is no conflict; a shared field stays while one owner wants it."""
    obj = applied(applied(None, deployment()), deployment(), "two")
    without = deployment()
    del without["spec"]["replicas"]
    obj = applied(obj, without, "one")
    assert obj["spec"]["replicas"] == 3
    obj = applied(obj, without, "two")
    assert "replicas" not in obj["spec"]


def test_what_is_no_longer_applied_goes() -> None:
    """Map entries, list elements with all that was defaulted into them, and what is left empty."""
    config = containers({"name": "a", "image": "x"}, {"name": "b", "image": "y"})
    config["metadata"]["labels"]["extra"] = "1"
    obj = applied(None, config)
    obj["spec"]["template"]["spec"]["containers"][1]["imagePullPolicy"] = "Always"  # a default, nobody's
    obj = applied(obj, containers({"name": "a", "image": "x"}))
    assert obj["metadata"]["labels"] == {"app": "web"}
    assert obj["spec"]["template"]["spec"]["containers"] == [{"name": "a", "image": "x"}]
    empty = deployment()
    del empty["metadata"]["labels"]
    assert "labels" not in applied(obj, empty)["metadata"]


def test_element_stays_while_somebody_owns_a_part_of_it() -> None:
    """A list element that one manager gives up stays while another owns part of it."""
    config = containers({"name": "a", "image": "x"})
    obj = applied(None, config)
    edited = copy.deepcopy(obj)
    edited["spec"]["template"]["spec"]["containers"][0]["args"] = ["-v"]
    obj = updated(obj, edited)
    obj = applied(obj, containers())
    assert obj["spec"]["template"]["spec"]["containers"] == [{"name": "a", "args": ["-v"]}]


def test_order_of_lists_follows_the_configuration() -> None:
    """Elements of others keep their place relative to what they stood beside."""
    obj = applied(None, containers({"name": "a"}, {"name": "b"}))
    obj = applied(obj, containers({"name": "c"}, {"name": "b"}), "two")
    assert [each["name"] for each in obj["spec"]["template"]["spec"]["containers"]] == ["a", "c", "b"]


def test_sets_merge_by_value() -> None:
    """Set elements of several managers are merged, and leave with their owner."""
    first, second = deployment(), deployment()
    first["metadata"]["finalizers"] = ["x/a"]
    second["metadata"]["finalizers"] = ["x/b"]
    obj = applied(applied(None, first), second, "two")
    assert {"x/a", "x/b"} == set(obj["metadata"]["finalizers"])
    assert '.metadata.finalizers[="x/b"]' in owned(obj, "two")
    assert applied(obj, deployment())["metadata"]["finalizers"] == ["x/b"]


def test_object_from_before_managed_fields() -> None:
    """What was there without an owner belongs to before-first-apply."""
    with pytest.raises(
        StatusError, match=r'conflict with "before-first-apply" using apps/v1: \.spec\.replicas'
    ):
        applied(deployment(), deployment(replicas=4))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bogus": 1}, ".spec.bogus: field not declared in schema"),
        (
            {"template": {"spec": {"containers": [{"image": "x"}]}}},
            'an element that omits key field "name" (and doesn\'t have default value)',
        ),
        (
            {"template": {"spec": {"containers": [{"name": "x"}, {"name": "x"}]}}},
            '.spec.template.spec.containers: duplicate entries for key [name="x"]',
        ),
    ],
)
def test_configurations_that_make_no_sense(change: Object, message: str) -> None:
    """Applying unknown fields, missing keys or duplicates is a 400 that says where."""
    with pytest.raises(StatusError) as caught:
        applied(None, deployment(**change))
    assert caught.value.code == 400
    assert caught.value.message.endswith(message)


def test_configuration_must_not_bring_managed_fields() -> None:
    """An applied configuration with managedFields is refused."""
    with pytest.raises(StatusError, match="managedFields must be nil"):
        applied(None, applied(None, deployment()))


def test_create_is_owned_by_its_creator() -> None:
    """A plain create makes its writer the owner of all fields."""
    obj = updated(None, deployment())
    assert {".spec.replicas", ".metadata.labels", ".metadata.labels.app"} <= owned(obj, "editor", "Update")


def test_update_owns_what_it_changes() -> None:
    """An update owns exactly the fields it changed, and takes them from others."""
    obj = applied(None, deployment())
    changed = copy.deepcopy(obj)
    changed["spec"]["replicas"] = 9
    del changed["metadata"]["labels"]
    obj = updated(obj, changed)
    assert {".spec.replicas"} == owned(obj, "editor", "Update")
    assert not {".spec.replicas", ".metadata.labels.app"} & owned(obj, "one")


def test_unchanged_update_keeps_the_time() -> None:
    """An update that changes nothing leaves managedFields as they are."""
    obj = updated(None, deployment(), now="t1")
    again = updated(obj, deployment(), now="t2")
    assert obj == again


def test_repeated_update_only_takes_a_new_time() -> None:
    """A controller that writes its own fields again: the same sets, the newer entry last."""
    obj = updated(None, deployment(), "b", now="t1")
    labelled = {**obj, "metadata": {**obj["metadata"], "labels": {"app": "web", "x": "y"}}}
    obj = updated(obj, labelled, "a", now="t2")
    again = updated(obj, {**obj, "spec": {**obj["spec"], "replicas": 8}}, "b", now="t3")
    entries = {entry["manager"]: entry for entry in again["metadata"]["managedFields"]}
    assert list(entries) == ["a", "b"]
    assert (entries["a"]["time"], entries["b"]["time"]) == ("t2", "t3")
    assert owned(again, "b", "Update") == owned(obj, "b", "Update")


def test_updates_of_untracked_objects_stay_untracked() -> None:
    """Updating an object without managedFields does not start tracking."""
    assert "managedFields" not in updated(deployment(), deployment(replicas=4))["metadata"]


def test_managed_fields_can_be_reset_and_rewritten() -> None:
    """An empty entry starts over; kubectl's migration from client-side apply replaces the list."""
    obj = updated(None, deployment(), "kubectl-client-side-apply")
    reset = {**deployment(), "metadata": {**deployment()["metadata"], "managedFields": [{}]}}
    assert "managedFields" not in updated(obj, reset)["metadata"]
    entries = copy.deepcopy(obj["metadata"]["managedFields"])
    entries[0] |= {"manager": "kubectl", "operation": "Apply"}
    migrated = updated(obj, {**obj, "metadata": {**obj["metadata"], "managedFields": entries}})
    assert [(entry["manager"], entry["operation"]) for entry in migrated["metadata"]["managedFields"]] == [
        ("kubectl", "Apply")
    ]


def test_status_belongs_to_its_subresource() -> None:
    """Status fields are owned by who writes them through the status subresource only."""
    obj = updated(None, deployment(), reset=reset_fields("", status_apart=True))
    new = {**obj, "status": {"replicas": 1}}
    assert set() == owned(
        updated(obj, new, "main", reset=reset_fields("", status_apart=True)), "main", "Update"
    )
    new = updated(
        obj, new, "status-writer", subresource="status", reset=reset_fields("status", status_apart=True)
    )
    assert {".status.replicas"} == owned(new, "status-writer", "Update")
    assert new["metadata"]["managedFields"][-1]["subresource"] == "status"


def test_old_managers_are_thrown_together() -> None:
    """More than ten update managers are merged into `ancient-changes`."""
    obj = updated(None, deployment(), "first", now="t00")
    for number in range(1, 15):
        labels = {**obj["metadata"]["labels"], f"l{number}": "x"}
        new = {**obj, "metadata": {**obj["metadata"], "labels": labels}}
        obj = updated(obj, new, f"m{number}", now=f"t{number:02}")
    names = [entry["manager"] for entry in obj["metadata"]["managedFields"]]
    assert "ancient-changes" in names
    assert len(names) <= 11
    assert ".metadata.labels.l1" in owned(obj, "ancient-changes", "Update")


@PROPERTY
@given(configurations)
def test_applying_twice_changes_nothing(config: Object) -> None:
    """Applying the same configuration twice leaves the object as it is."""
    once = applied(None, config)
    assert once == applied(once, config, now="later")


@PROPERTY
@given(configurations, configurations)
def test_applying_over_another_twice_changes_nothing(first: Object, second: Object) -> None:
    """A forced apply over another manager's is stable when repeated."""
    once = applied(applied(None, first), second, "two", force=True)
    assert once == applied(once, second, "two", now="later")


@PROPERTY
@given(configurations, configurations)
def test_the_last_forced_configuration_wins(first: Object, second: Object) -> None:
    """Every field of a forced configuration is in the object and owned by its manager."""
    obj = applied(applied(None, first), second, "two", force=True)
    assert obj == applied(obj, second, "two")
    lone = applied(None, second, "two")
    assert owned(lone, "two") == owned(obj, "two")


@PROPERTY
@given(configurations, configurations)
def test_a_new_configuration_replaces_the_old_one(first: Object, second: Object) -> None:
    """A sole owner gets exactly what it applies now, whatever it applied before."""
    obj = applied(applied(None, first), second)
    assert _without_empty(bare(applied(None, second))) == _without_empty(bare(obj))


@PROPERTY
@given(configurations, configurations)
def test_giving_up_everything_restores(first: Object, second: Object) -> None:
    """A second manager that applies and then applies nothing leaves no trace where it took nothing over."""
    before = applied(None, first)
    try:
        between = applied(before, second, "two")
    except StatusError:
        return
    after = applied(
        between, {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}}, "two"
    )
    assert _without_empty(bare(before)) == _without_empty(bare(after))
    assert owned(before, "one") == owned(after, "one")


@PROPERTY
@given(configurations, configurations)
def test_tracking_an_update_owns_the_difference(first: Object, second: Object) -> None:
    """After an update every value of the new object has an owner, and nobody owns what is not there."""
    before = updated(None, first, "a")
    assume("managedFields" in before["metadata"])  # without any, an object is not tracked, as upstream
    obj = updated(before, second, "b")
    everything = owned(obj, "a", "Update") | owned(obj, "b", "Update")
    there = {fieldset.show(path) for path in compare(second, None, SCHEMA.root).removed}
    assert everything <= there
    values = {fieldset.show(path) for path in fields_of(_without_empty(second), SCHEMA.root)}
    unowned = {".kind", ".apiVersion", ".metadata", ".metadata.name"}
    assert values - unowned <= everything


def test_deep_objects_are_tracked_to_a_depth_or_refused() -> None:
    """Nesting that Python cannot walk never ends in an internal error."""
    registry = SchemaRegistry()
    registry.add_crd(
        {
            "metadata": {"name": "w"},
            "spec": {"group": "g", "names": {"kind": "W"}, "versions": [{"name": "v1"}]},
        }
    )
    schema = registry.for_kind("g", "v1", "W")
    assert schema is not None
    deep: Any = 1
    for _ in range(5000):
        deep = {"a": deep}
    obj = {"apiVersion": "g/v1", "kind": "W", "metadata": {"name": "w"}, "spec": deep}
    tracked = track_update(None, obj, schema, manager="m", now="t")
    assert tracked["metadata"]["managedFields"]
    with pytest.raises(StatusError, match="nested too deeply"):
        merge_patch({}, obj)
    with pytest.raises(StatusError, match="nested too deeply"):
        strategic_merge_patch({}, obj, schema)
    with pytest.raises(StatusError, match="nested too deeply"):
        json_patch({}, [{"op": "add", "path": "/a", "value": deep}])


def canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True)


def _without_empty(value: Any) -> Any:
    """Empty maps and lists come and go with what was in them; order of elements is not compared."""
    if isinstance(value, dict):
        kept = {name: _without_empty(item) for name, item in value.items()}
        return {name: item for name, item in kept.items() if item not in ({}, [])}
    if isinstance(value, list):
        return sorted((_without_empty(item) for item in value), key=canonical)
    return value


LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def client_side(replicas: int) -> Object:
    """A Deployment that kubectl applied without the server's help."""
    obj = deployment(replicas=replicas)
    obj["metadata"]["annotations"] = {LAST_APPLIED: json.dumps(obj)}
    return updated(None, obj, "kubectl-client-side-apply")


def test_what_kubectl_applied_before_is_taken_over() -> None:
    """What is still as kubectl applied it is no conflict for kubectl, which writes down what it applies."""
    taken = applied(client_side(3), deployment(replicas=5), "kubectl")
    assert taken["spec"]["replicas"] == 5
    assert ".spec.replicas" in owned(taken, "kubectl")
    noted = json.loads(taken["metadata"]["annotations"][LAST_APPLIED])
    assert noted == deployment(replicas=5)


def test_others_still_have_to_be_asked() -> None:
    """Under another name, after another's change, or without the annotation it is a conflict."""
    before = client_side(3)
    with pytest.raises(StatusError, match="conflict"):
        applied(before, deployment(replicas=5), "somebody")
    scaled = copy.deepcopy(before)
    scaled["spec"]["replicas"] = 4
    with pytest.raises(StatusError, match="1 conflict"):
        applied(updated(before, scaled, "scaler"), deployment(replicas=5), "kubectl")
    plain = updated(None, deployment(replicas=3), "kubectl-client-side-apply")
    with pytest.raises(StatusError, match="conflict"):
        applied(plain, deployment(replicas=5), "kubectl")
    broken = client_side(3)
    broken["metadata"]["annotations"][LAST_APPLIED] = "{"
    with pytest.raises(StatusError, match="conflict"):
        applied(broken, deployment(replicas=5), "kubectl")


@given(st.lists(NAMES, unique=True), st.lists(NAMES, unique=True))
def test_order_of_sets_of_names(live: list[str], config: list[str]) -> None:
    """The configuration's order; what it does not name comes before what follows it in the object."""
    node = SchemaNode(type="array", list_type="set", items=SchemaNode(type="string"))
    merged = merge(live, config, node)

    waiting, wanted = list(config), []
    for name in live:
        if name not in config:
            wanted.append(name)
        while name in waiting:
            wanted.append(waiting.pop(0))
    assert merged == [*wanted, *waiting]
