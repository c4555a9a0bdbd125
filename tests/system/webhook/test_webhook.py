"""A real API server asks `berth webhook`, and enforces the policy that does without it."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from berth.kube.affinity.anti_affinity import AdmissionPolicy, AntiAffinityLimit
from berth.live.webhook import admission
from berth.live.webhook.admission import admit
from tests.support.api.client import Answer, Json
from tests.support.api.servers import REAL
from tests.support.builders import EXECUTION, HOSTNAME, PREFERRED, REQUIRED, ZONE
from tests.support.manifests.namespace_terms import ANY_NAMESPACE
from tests.support.paths import ROOT
from tests.support.processes.webhook import WebhookProcess, webhook
from tests.support.worlds.cluster import ClusterWorld

pytestmark = pytest.mark.skipif(not REAL, reason="the embedded API server calls no webhooks")

DEPLOY = ROOT / "deploy"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
CONFIGURATIONS = f"{ADMISSION}/validatingwebhookconfigurations"
POLICIES = f"{ADMISSION}/validatingadmissionpolicies"
BINDINGS = f"{ADMISSION}/validatingadmissionpolicybindings"
NAME = "kubernetes.io/metadata.name"
NAMED = {"key": "kubernetes.io/os", "operator": "Exists"}


def apart(key: str, **term: Any) -> Json:
    """Anti-affinity that stock servers know too."""
    full = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": "web"}}, **term}
    return {"podAntiAffinity": {REQUIRED: [full]}}


EVERYWHERE: Json = {"namespaceSelector": {}}
GOOD = json.dumps(
    {
        "podAntiAffinity": {
            EXECUTION: [{"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "web"}}}]
        }
    }
)
BAD = json.dumps({"podAntiAffinity": {EXECUTION: [{"topologyKey": "", "labelSelector": {}}]}})


def pod_template(annotation: str | None = None, affinity: Json | None = None) -> Json:
    return {
        "metadata": {
            "labels": {"app": "web"},
            "annotations": {"berth.dev/affinity": annotation} if annotation else {},
        },
        "spec": {
            "containers": [{"name": "c", "image": "i"}],
            "affinity": affinity,
            "restartPolicy": "Always",
        },
    }


def workload(kind: str, template: Json) -> Json:
    labels = {"app": "web"}
    spec: Json = {"selector": {"matchLabels": labels}, "template": template}
    if kind == "ReplicationController":
        spec["selector"] = labels
    if kind == "StatefulSet":
        spec["serviceName"] = "web"
    if kind in ("Job", "CronJob"):
        template = {**template, "spec": {**template["spec"], "restartPolicy": "Never"}}
        spec = {"template": template}
    if kind == "CronJob":
        spec = {"schedule": "0 0 * * *", "jobTemplate": {"spec": spec}}
    return {"metadata": {"name": "web"}, "spec": spec}


PLACES = {
    "ReplicationController": ("/api/v1", "replicationcontrollers"),
    "Deployment": ("/apis/apps/v1", "deployments"),
    "ReplicaSet": ("/apis/apps/v1", "replicasets"),
    "StatefulSet": ("/apis/apps/v1", "statefulsets"),
    "DaemonSet": ("/apis/apps/v1", "daemonsets"),
    "Job": ("/apis/batch/v1", "jobs"),
    "CronJob": ("/apis/batch/v1", "cronjobs"),
}


def try_pod(world: ClusterWorld, annotation: str | None = None, affinity: Json | None = None) -> Answer:
    """Create a pod without storing it."""
    body = pod_template(annotation, affinity)
    body["metadata"]["name"] = "web"
    return world.client.post(world.path("pods"), body, dryRun="All")


def try_workload(world: ClusterWorld, kind: str, template: Json) -> Answer:
    prefix, plural = PLACES[kind]
    return world.client.post(world.path(plural, prefix=prefix), workload(kind, template), dryRun="All")


@contextmanager
def in_force(world: ClusterWorld, refuses: Callable[[], bool], *things: tuple[str, Json]) -> Iterator[None]:
    """Objects of the whole cluster that are there as long as the context lasts, and have their effect."""
    try:
        for path, body in things:
            world.make(path, body)
        world.until(refuses, "it is in force")
        yield
    finally:
        for path, body in things:
            world.client.delete(f"{path}/{body['metadata']['name']}")
        world.until(lambda: not refuses(), "it is in force no more")


@contextmanager
def asking(world: ClusterWorld, running: WebhookProcess) -> Iterator[None]:
    """The API server asks the webhook, and does without no answer."""
    text = (DEPLOY / "kustomize" / "webhook" / "configuration.yaml").read_text(encoding="utf-8")
    configuration = yaml.safe_load(text)
    client_config = {"url": f"{running.url}/validate", "caBundle": running.ca_bundle}
    configuration["webhooks"][0].update(failurePolicy="Fail", clientConfig=client_config)
    with in_force(world, lambda: try_pod(world, BAD).status != 201, (CONFIGURATIONS, configuration)):
        yield


@contextmanager
def limited(world: ClusterWorld, *, every_rule: bool = False) -> Iterator[None]:
    """The policy is enforced."""
    text = (DEPLOY / "policies" / "limit-pod-anti-affinity.yaml").read_text(encoding="utf-8")
    rules, binding = yaml.safe_load_all(text)
    if every_rule:
        (switch,) = [each for each in rules["spec"]["variables"] if each["name"] == "everyRule"]
        switch["expression"] = "true"

    def refuses() -> bool:
        return try_pod(world, affinity=apart(ZONE, **EVERYWHERE)).status == 422

    with in_force(world, refuses, (POLICIES, rules), (BINDINGS, binding)):
        yield


# --- the webhook ----------------------------------------------------------------------------------


@pytest.fixture
def asked(world: ClusterWorld, tmp_path: Path) -> Iterator[WebhookProcess]:
    with webhook(tmp_path) as running, asking(world, running):
        yield running


def test_a_bad_annotation_is_refused_and_a_good_one_is_stored(
    world: ClusterWorld, asked: WebhookProcess
) -> None:
    """A bad annotation is refused with the path inside it; a good one is stored."""
    answer = try_pod(world, BAD)
    assert answer.json["reason"] == "Invalid"
    where = f"metadata.annotations[berth.dev/affinity].podAntiAffinity.{EXECUTION}[0].topologyKey"
    assert f'admission webhook "affinity.berth.dev" denied the request: Pod "web" is invalid: [{where}: ' in (
        answer.message
    )
    assert {cause["field"] for cause in answer.json["details"]["causes"]} == {where}

    assert try_pod(world, GOOD).status == 201
    assert try_pod(world, "podAffinity: [").status == 422
    assert try_pod(world, json.dumps(apart(ZONE, **EVERYWHERE))).status == 422
    assert try_pod(world, affinity=apart(ZONE, **EVERYWHERE)).status == 422
    assert try_pod(world, affinity=apart(HOSTNAME, **EVERYWHERE)).status == 201
    assert asked.process.poll() is None


def test_every_kind_of_template_is_checked(world: ClusterWorld, asked: WebhookProcess) -> None:
    """A bad annotation is refused in the template of every workload kind."""
    for kind in PLACES:
        answer = try_workload(world, kind, pod_template(BAD))
        assert answer.status == 422, (kind, answer.body)
        assert "template.metadata.annotations[berth.dev/affinity].podAntiAffinity" in answer.message
        assert try_workload(world, kind, pod_template(GOOD)).status == 201, asked.log


def test_warnings_reach_the_user(world: ClusterWorld, asked: WebhookProcess) -> None:
    """The user sees the warning about an annotation on a Deployment instead of on its pods."""
    body = workload("Deployment", pod_template())
    body["metadata"]["annotations"] = {"berth.dev/affinity": GOOD}
    prefix, plural = PLACES["Deployment"]
    answer = world.client.post(world.path(plural, prefix=prefix), body, dryRun="All")
    assert answer.status == 201
    assert "put it into spec.template.metadata.annotations" in (answer.headers["warning"] or ""), asked.log


def test_only_what_has_rules_is_sent(world: ClusterWorld, asked: WebhookProcess) -> None:
    """A webhook that is away holds up nothing but pods with rules."""
    asked.stop()
    assert try_pod(world).status == 201
    assert try_workload(world, "CronJob", pod_template()).status == 201
    assert try_pod(world, GOOD).status == 500
    assert try_pod(world, affinity=apart(HOSTNAME)).status == 500


def bypassed(world: ClusterWorld, rules: Json) -> list[int]:
    """What is answered to whoever writes rules by the status of a pod, by its binding, and by a Binding."""
    metadata = {"name": "p", "annotations": {"berth.dev/affinity": json.dumps(rules)}}
    binding = {"metadata": metadata, "target": {"kind": "Node", "name": "n"}}
    status = world.client.patch(world.path("pods", "p") + "/status", {"metadata": metadata}, dryRun="All")
    path = world.path("pods", "p") + "/binding"
    answers = [world.client.post(where, binding, dryRun="All") for where in (path, world.path("bindings"))]
    return [answer.status for answer in (status, *answers)]


def check_bypasses(world: ClusterWorld) -> None:
    body = pod_template(affinity=apart(HOSTNAME))
    body["metadata"]["name"] = "p"
    world.make(world.path("pods"), body)
    assert bypassed(world, apart(ZONE, **EVERYWHERE)) == [422, 422, 422]
    assert bypassed(world, {"nodeAffinity": {}}) == [200, 201, 201]


def test_subresources_are_no_way_round(world: ClusterWorld, asked: WebhookProcess) -> None:
    """Rules in the annotation are checked however they are written; without them nobody is held up."""
    check_bypasses(world)
    asked.stop()
    condition = {"conditions": [{"type": "example.com/seen", "status": "True"}]}
    assert world.client.patch(world.path("pods", "p") + "/status", {"status": condition}).status == 200
    target = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}
    assert world.client.post(world.path("pods", "p") + "/binding", target).status == 201


@pytest.mark.parametrize(
    ("flag", "statuses"),
    [("--exempt-user=ann", [201, 422]), ("--exempt-group=system:masters", [201, 201])],
)
def test_some_are_trusted_without_the_limit(
    world: ClusterWorld, tmp_path: Path, flag: str, statuses: list[int]
) -> None:
    """A user, or the members of a group; everybody else is told."""
    beyond = pod_template(affinity=apart(ZONE, **EVERYWHERE))
    beyond["metadata"]["name"] = "web"

    def write(user: str) -> int:
        headers = {"Impersonate-User": user, "Impersonate-Group": "system:masters"}
        return world.client.send("POST", world.path("pods"), beyond, headers=headers, dryRun="All").status

    with webhook(tmp_path, flag) as running, asking(world, running):
        assert [write("ann"), write("bob")] == statuses


def test_an_update_that_changes_no_rule_passes(world: ClusterWorld, tmp_path: Path) -> None:
    """An old pod with a bad annotation can still be labelled; worse it cannot become."""
    body = pod_template(BAD)
    body["metadata"]["name"] = "old"
    world.make(world.path("pods"), body)
    with webhook(tmp_path) as running, asking(world, running):
        world.patch_pod("old", {"metadata": {"labels": {"seen": "yes"}}})
        worse = {"metadata": {"annotations": {"berth.dev/affinity": "["}}}
        assert world.client.patch(world.path("pods", "old"), worse).status == 422
        world.patch_pod("old", {"metadata": {"annotations": {"berth.dev/affinity": GOOD}}})


# --- the policy -----------------------------------------------------------------------------------


@pytest.fixture
def policy(world: ClusterWorld) -> Iterator[None]:
    with limited(world):
        yield


@pytest.mark.usefixtures("policy")
def test_the_policy_limits_native_rules(world: ClusterWorld) -> None:
    """Of pods and of every kind of template, when the rule is against all namespaces."""
    refused = try_pod(world, affinity=apart(ZONE, **EVERYWHERE))
    assert f"must have topologyKey {HOSTNAME}, not {ZONE}" in refused.message
    allowed = (
        apart(ZONE),
        apart(ZONE, namespaces=["other"]),
        apart(ZONE, namespaceSelector={"matchLabels": {"team": "a"}}),
        apart(HOSTNAME, **EVERYWHERE),
    )
    for affinity in allowed:
        answer = try_pod(world, affinity=affinity)
        assert answer.status == 201, answer.body
    for kind in PLACES:
        assert try_workload(world, kind, pod_template(affinity=apart(ZONE, **EVERYWHERE))).status == 422, kind
        answer = try_workload(world, kind, pod_template(affinity=apart(ZONE)))
        assert answer.status == 201, (kind, answer.body)


@pytest.mark.usefixtures("policy")
def test_the_policy_judges_what_a_selector_can_match(world: ClusterWorld) -> None:
    """As the webhook and the embedded server do, by the same table."""
    for where, beyond in ANY_NAMESPACE:
        for key, status in ((ZONE, 422 if beyond else 201), (HOSTNAME, 201)):
            answer = try_pod(world, affinity=apart(key, **where))
            assert answer.status == status, (where, answer.body)


@pytest.mark.usefixtures("policy")
def test_the_policy_refuses_an_annotation_it_cannot_judge(world: ClusterWorld) -> None:
    """Anti-affinity with a namespaceSelector, however it is written; the rest is none of its business."""
    for text in (
        json.dumps(apart(ZONE, **EVERYWHERE)),
        json.dumps(apart(ZONE, **EVERYWHERE)).replace("namespaceSelector", "namespace\\u0053elector"),
    ):
        assert "cannot tell whether it is within the limit" in try_pod(world, text).message
    for text in (GOOD, BAD, "["):
        answer = try_pod(world, text)
        assert answer.status == 201, answer.body


@pytest.mark.usefixtures("policy")
def test_subresources_are_no_way_round_the_policy(world: ClusterWorld) -> None:
    """Subresources are no way round the policy, as they are none round the webhook."""
    check_bypasses(world)


def test_the_policy_can_limit_every_rule(world: ClusterWorld) -> None:
    """With every rule limited only the topology key that is allowed passes."""
    with limited(world, every_rule=True):
        refused = try_pod(world, affinity=apart(ZONE))
        assert f"required anti-affinity must have topologyKey {HOSTNAME}, not {ZONE}" in refused.message
        assert try_pod(world, GOOD).status == 422
        assert try_pod(world, affinity=apart(HOSTNAME)).status == 201


def test_the_policy_lets_old_pods_be(world: ClusterWorld) -> None:
    """A pod from before can be labelled; a workload may keep its rule and change something else."""
    beyond = apart(ZONE, **EVERYWHERE)
    body = pod_template(affinity=beyond)
    body["metadata"]["name"] = "old"
    world.make(world.path("pods"), body)
    prefix, plural = PLACES["Deployment"]
    world.make(world.path(plural, prefix=prefix), workload("Deployment", pod_template(affinity=apart(ZONE))))
    with limited(world):
        world.patch_pod("old", {"metadata": {"labels": {"seen": "yes"}}})
        web = world.path(plural, "web", prefix=prefix)
        world.patch(web, {"spec": {"replicas": 2}})
        changed = {"spec": {"template": {"spec": {"affinity": beyond}}}}
        assert world.client.patch(web, changed).status == 422
        kept = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [NAMED]}]}}}
        world.patch_pod("old", {"metadata": {"labels": {"seen": "again"}}})
        world.patch(web, {"spec": {"template": {"spec": {"affinity": kept}}}})
        world.client.delete(web)


# --- both -----------------------------------------------------------------------------------------


def some_terms(chance: random.Random) -> list[Json]:
    """Required terms of every form that could matter to the limit."""
    selectors: list[Json | None] = [
        None,
        {},
        {"matchLabels": {}},
        {"matchExpressions": []},
        {"matchLabels": {"team": "a"}},
        {"matchExpressions": [{"key": "team", "operator": "Exists"}]},
        {"matchExpressions": [{"key": NAME, "operator": "Exists"}]},
        {"matchExpressions": [{"key": NAME, "operator": "NotIn", "values": ["a"]}]},
        {"matchExpressions": [{"key": NAME, "operator": "In", "values": ["a"]}]},
        {"matchExpressions": [{"key": NAME, "operator": "DoesNotExist"}]},
        {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]},
        {
            "matchExpressions": [
                {"key": "team", "operator": "NotIn", "values": ["a"]},
                {"key": NAME, "operator": "Exists"},
            ]
        },
    ]
    found = []
    for _ in range(chance.randint(0, 3)):
        term: Json = {"topologyKey": chance.choice((HOSTNAME, ZONE, "rack"))}
        if (selector := chance.choice(selectors)) is not None:
            term["namespaceSelector"] = selector
        if chance.random() < 0.7:
            term["labelSelector"] = {"matchLabels": {"app": chance.choice("ab")}}
        if chance.random() < 0.3:
            term["namespaces"] = ["other"]
        found.append(term)
    return found


def some_affinity(chance: random.Random) -> Json | None:
    if chance.random() < 0.1:
        return None
    rules: Json = {"podAntiAffinity": {}, "podAffinity": {REQUIRED: some_terms(chance)}}
    if chance.random() < 0.9:
        rules["podAntiAffinity"][REQUIRED] = some_terms(chance)
    weighted = [{"weight": 1, "podAffinityTerm": term} for term in some_terms(chance)]
    if weighted:
        rules["podAntiAffinity"][PREFERRED] = weighted
    return rules


def webhook_refuses(kind: str, new: Json, old: Json | None, *, every_rule: bool) -> bool:
    group = PLACES[kind][0].partition("/apis/")[2].partition("/")[0] if kind != "Pod" else ""
    question = admission.AdmissionRequest(
        uid="1",
        kind=admission.GroupVersionKind(kind=kind, group=group),
        operation="UPDATE" if old else "CREATE",
        new=new,
        old=old,
    )
    return bool(admit(question, AdmissionPolicy(limit=AntiAffinityLimit(every_rule=every_rule))).errors)


@pytest.mark.parametrize("every_rule", [False, True])
def test_the_policy_and_the_webhook_agree(world: ClusterWorld, every_rule: bool) -> None:
    """About native rules, made and changed at random, in every kind that has pods."""
    chance = random.Random(5)  # noqa: S311 - the same cases every time
    seen = set()
    with limited(world, every_rule=every_rule):
        for kind in ("Pod", *PLACES):
            for _ in range(25):
                template = pod_template(affinity=some_affinity(chance))
                template["metadata"]["name"] = "web"
                new = template if kind == "Pod" else workload(kind, template)
                answer = (
                    try_pod(world, affinity=template["spec"]["affinity"])
                    if kind == "Pod"
                    else (try_workload(world, kind, template))
                )
                assert answer.status in (201, 422), answer.body
                refused = answer.status == 422
                assert webhook_refuses(kind, new, None, every_rule=every_rule) is refused, (kind, new)
                seen.add(refused)
    assert seen == {False, True}


@pytest.mark.parametrize("every_rule", [False, True])
def test_they_agree_about_changes(world: ClusterWorld, every_rule: bool) -> None:
    """A template from before the limit, changed at random; half of the time it keeps what it had."""
    chance = random.Random(6)  # noqa: S311 - the same cases every time
    prefix, plural = PLACES["Deployment"]
    cases = []
    for number in range(40):
        before, after = some_affinity(chance), some_affinity(chance)
        if before and after and chance.random() < 0.7:
            mine = after["podAntiAffinity"].setdefault(REQUIRED, [])
            mine += before["podAntiAffinity"].get(REQUIRED, [])
            chance.shuffle(mine)
        old = workload("Deployment", pod_template(affinity=before))
        old["metadata"]["name"] = f"web-{number}"
        cases.append((old, {**old, "spec": {**old["spec"], "template": pod_template(affinity=after)}}))
        world.make(world.path(plural, prefix=prefix), old)
    seen = set()
    with limited(world, every_rule=every_rule):
        for old, new in cases:
            path = world.path(plural, new["metadata"]["name"], prefix=prefix)
            answer = world.client.put(path, new, dryRun="All")
            assert answer.status in (200, 422), answer.body
            refused = answer.status == 422
            assert webhook_refuses("Deployment", new, old, every_rule=every_rule) is refused, (old, new)
            seen.add(refused)
    assert seen == {False, True}
