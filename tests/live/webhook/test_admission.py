"""What the webhook refuses, what it remarks upon, and what it leaves alone."""

from __future__ import annotations

import json
from typing import Any

import pytest

from berth.kube.affinity.anti_affinity import AdmissionPolicy, AntiAffinityLimit
from berth.live.webhook import admission
from berth.live.webhook.admission import PODS, AdmissionVerdict, admit
from tests.support.builders import EXECUTION, HOSTNAME, PREFERRED, REQUIRED, ZONE
from tests.support.manifests.namespace_terms import ANY_NAMESPACE
from tests.support.manifests.reviews import Json, apart, pod, review, term

ANNOTATION = "metadata.annotations[berth.dev/affinity]"
UNKNOWN_OPERATOR: Json = {"matchExpressions": [{"key": "a", "operator": "Is"}]}
EVERYWHERE: Json = {"namespaceSelector": {}}
NO_NUMBER: Json = {"matchExpressions": [{"key": "cores", "operator": "Gt", "values": ["many"]}]}
GOOD = apart(term(), rule=EXECUTION)
BAD = apart(term(""), rule=EXECUTION)


def verdict_on(question: Json, policy: AdmissionPolicy | None = None) -> AdmissionVerdict:
    return admit(admission.read(json.dumps(question).encode()), policy or AdmissionPolicy())


def refused(question: Json, policy: AdmissionPolicy | None = None) -> list[str]:
    """The fields that are refused, each once."""
    return list(dict.fromkeys(error.field for error in verdict_on(question, policy).errors))


def within(kind: str, group: str, template: Json) -> Json:
    """A workload with this template, where its kind has it."""
    inner: Any = template
    for name in reversed(PODS[group, kind]):
        inner = {name: inner}
    return {"metadata": {"name": "web"}, **inner}


# --- the annotation -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "field", "told"),
    [
        ("{", "", "is neither JSON nor YAML"),
        ("[]", "", "expected a mapping, got a list"),
        ("a: 1\n---\nb: 2", "", "must hold exactly one affinity object"),
        ('{"podAfinity": {}}', ".podAfinity", "unknown field"),
        ('{"podAffinity": {}, "podAffinity": {}}', "", 'key "podAffinity" is set twice'),
        ("podAffinity: {}\npodAffinity: {}", "", 'key "podAffinity" is set twice'),
        (
            json.dumps({"nodeAffinity": {EXECUTION: {"nodeSelectorTerms": [NO_NUMBER]}}}),
            f".nodeAffinity.{EXECUTION}.nodeSelectorTerms[0].matchExpressions[0].values[0]",
            "the value must be an integer",
        ),
        (json.dumps({"podAffinity": {EXECUTION: {}}}), f".podAffinity.{EXECUTION}", "expected a list"),
        (json.dumps(BAD), f".podAntiAffinity.{EXECUTION}[0].topologyKey", "can not be empty"),
        (
            json.dumps({"podAffinity": {PREFERRED: [{"weight": 101, "podAffinityTerm": term()}]}}),
            f".podAffinity.{PREFERRED}[0].weight",
            "must be in the range 1-100",
        ),
        (
            json.dumps({"nodeAffinity": {EXECUTION: {"nodeSelectorTerms": [UNKNOWN_OPERATOR]}}}),
            f".nodeAffinity.{EXECUTION}.nodeSelectorTerms[0].matchExpressions[0].operator",
            "not a valid selector operator",
        ),
    ],
)
def test_an_annotation_must_be_an_affinity(text: str, field: str, told: str) -> None:
    """The same conditions as those of spec.affinity; the error names the place inside the annotation."""
    errors = verdict_on(review(pod(text))).errors
    assert {error.field for error in errors} == {f"{ANNOTATION}{field}"}
    assert told in "\n".join(map(str, errors))


def test_a_good_annotation_passes() -> None:
    """In JSON and YAML; and so does a pod without one, or with other annotations only."""
    yaml = f"podAntiAffinity:\n  {EXECUTION}:\n  - topologyKey: {ZONE}\n    labelSelector: {{}}\n"
    fine: list[Json] = [pod(GOOD), pod(yaml), pod(), {"metadata": {}, "spec": {}}, {"metadata": None}]
    for each in fine:
        assert verdict_on(review(each)) == AdmissionVerdict()


def test_label_keys_are_checked_as_they_will_be_merged() -> None:
    """A key that the pod's labels resolve and the selector mentions is there twice."""
    clash = apart(term(matchLabelKeys=["app"]), rule=EXECUTION)
    assert refused(review(pod(clash, labels={"app": "web"})))
    assert not refused(review(pod(clash, labels={"tier": "x"})))


def test_both_together_can_be_too_much() -> None:
    """Required node selectors multiply with those of the spec."""
    terms = [{"matchExpressions": [{"key": f"k{i}", "operator": "Exists"}]} for i in range(101)]
    rules = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}
    assert refused(review(pod(rules, rules))) == [f"{ANNOTATION}.nodeAffinity"]
    assert not refused(review(pod(rules)))
    # Also if only the spec is new.
    assert refused(review(pod(rules, rules), pod(rules))) == [f"{ANNOTATION}.nodeAffinity"]


def test_the_reason_comes_through_however_long_the_annotation_is() -> None:
    """What is wrong follows the value, which is shortened."""
    long = f"podAffinity: {{}}\npodAffinity: {{}}\n# {'x' * 5000}"
    (error,) = verdict_on(review(pod(long))).errors
    assert str(error).endswith('line 2: key "podAffinity" is set twice in the same mapping')
    assert len(str(error)) < 500


def test_aliases_cannot_make_a_short_annotation_long() -> None:
    """A few kilobytes must not keep the webhook busy for seconds."""
    values = f"&v [{', '.join(['x'] * 200)}]"
    again = ", ".join(["{key: a, operator: In, values: *v}"] * 200)
    text = f"{{key: a, operator: In, values: {values}}}, {again}"
    text = f"nodeAffinity: {{{EXECUTION}: {{nodeSelectorTerms: [{{matchExpressions: [{text}]}}]}}}}"
    (error,) = verdict_on(review(pod(text))).errors
    assert "excessive aliasing" in error.detail


@pytest.mark.parametrize(("group", "kind"), PODS, ids=str)
def test_every_kind_with_pods_is_looked_at(group: str, kind: str) -> None:
    """The error's path begins where the template is."""
    path = ".".join(map(str, PODS[group, kind]))
    prefix = f"{path}." if path else ""
    named: Json = {"kind": kind, "group": group}
    bad = within(kind, group, pod(BAD, apart(term(**EVERYWHERE))))
    assert refused(review(bad, **named)) == [
        f"{prefix}{ANNOTATION}.podAntiAffinity.{EXECUTION}[0].topologyKey",
        f"{prefix}spec.affinity.podAntiAffinity.{REQUIRED}[0]",
    ]
    unreadable = within(kind, group, pod("{"))
    assert refused(review(unreadable, **named)) == [f"{prefix}{ANNOTATION}"]
    assert verdict_on(review(within(kind, group, pod(GOOD)), **named)) == AdmissionVerdict()


def test_a_workload_may_have_no_template() -> None:
    """A workload without a template is allowed."""
    question = review({"metadata": {}, "spec": {"template": None}}, kind="ReplicationController")
    assert verdict_on(question) == AdmissionVerdict()


# --- the limit ------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", [EXECUTION, REQUIRED])
def test_the_limit_holds_for_spec_and_annotation(rule: str) -> None:
    """The limit holds for spec and annotation, at scheduling and during execution."""
    beyond = apart(term(HOSTNAME, **EVERYWHERE), term(ZONE, **EVERYWHERE), rule=rule)
    where = f"podAntiAffinity.{rule}[1]"
    assert refused(review(pod(beyond))) == [f"{ANNOTATION}.{where}"]
    assert refused(review(pod(affinity=beyond))) == [f"spec.affinity.{where}"]


@pytest.mark.parametrize(("where", "beyond"), ANY_NAMESPACE)
def test_the_limit_judges_what_a_selector_can_match(where: Json, beyond: bool) -> None:
    """A selector that every namespace satisfies is against all of them, though it is not empty."""
    for key, wanted in ((ZONE, beyond), (HOSTNAME, False)):
        rule = apart(term(key, **where))
        assert bool(refused(review(pod(rule)))) is wanted
        assert bool(refused(review(pod(affinity=rule)))) is wanted


def test_the_limit_can_be_set() -> None:
    """The limit can be off, be for every rule, have other keys, and leave a namespace out."""
    beyond, usual = pod(apart(term(ZONE, **EVERYWHERE))), pod(affinity=apart(term(ZONE)))
    strict = AntiAffinityLimit(every_rule=True)
    wide = AntiAffinityLimit(topology_keys=(ZONE,))
    assert refused(review(beyond)) == [f"{ANNOTATION}.podAntiAffinity.{REQUIRED}[0]"]
    assert not refused(review(usual))
    assert refused(review(usual), AdmissionPolicy(limit=strict)) == [
        f"spec.affinity.podAntiAffinity.{REQUIRED}[0]"
    ]
    for policy in (
        AdmissionPolicy(limit=None),
        AdmissionPolicy(limit=wide),
        AdmissionPolicy(limit=strict, exempt=frozenset({"shop"})),
    ):
        assert not refused(review(beyond), policy)
    assert refused(review(beyond), AdmissionPolicy(exempt=frozenset({"other"})))
    assert refused(review(pod(BAD)), AdmissionPolicy(limit=None, exempt=frozenset({"shop"})))


# --- what changes ---------------------------------------------------------------------------------


def test_an_update_is_judged_by_what_it_changes() -> None:
    """What was stored before can be kept, and repaired; annotation and spec each on their own."""
    beyond = apart(term(**EVERYWHERE))
    old = pod(BAD, beyond)
    assert not refused(review(pod(BAD, beyond, labels={"seen": "yes"}, finalizers=None), old))
    assert not refused(review(pod(GOOD, beyond), old))
    assert not refused(review(pod(BAD), old))
    assert not refused(review(pod(), old))
    assert refused(review(pod("{", beyond), old)) == [ANNOTATION]
    assert refused(review(pod(BAD, apart(term("rack", **EVERYWHERE))), old)) == [
        f"spec.affinity.podAntiAffinity.{REQUIRED}[0]"
    ]
    assert refused(review(old, pod()))


def test_a_rule_from_before_the_limit_may_stay() -> None:
    """While others come, go or move; another one beyond the limit may not come."""
    beyond, other = term(**EVERYWHERE), term("rack", **EVERYWHERE)
    old = pod(apart(beyond, rule=EXECUTION), apart(beyond))
    kept = {"nodeAffinity": {}, **apart(term(), beyond)}
    assert not refused(review(pod(apart(beyond, rule=EXECUTION), kept), old))
    assert not refused(review(pod({**apart(term(), beyond, rule=EXECUTION), "podAffinity": {}}, kept), old))
    assert refused(review(pod(apart(beyond, rule=EXECUTION), apart(beyond, other)), old)) == [
        f"spec.affinity.podAntiAffinity.{REQUIRED}[1]"
    ]
    assert refused(review(pod(apart(beyond, other, rule=EXECUTION), apart(beyond)), old)) == [
        f"{ANNOTATION}.podAntiAffinity.{EXECUTION}[1]"
    ]


def test_an_invalid_annotation_that_stays_does_not_keep_the_spec_from_changing() -> None:
    """An update is not refused for an invalid annotation it leaves as it was."""
    assert not refused(review(pod(BAD, apart(term())), pod(BAD)))


def test_other_requests_are_let_through() -> None:
    """Deletion, subresources that write no annotations; and kinds that we know nothing of, with a warning."""
    assert verdict_on(review(None, pod(BAD), operation="DELETE")) == AdmissionVerdict()
    assert verdict_on(review(None, operation="CONNECT")) == AdmissionVerdict()
    assert verdict_on(review(pod(BAD), pod(), subResource="resize")) == AdmissionVerdict()
    unknown = verdict_on(review(pod(BAD), kind="Rollout", group="argoproj.io"))
    assert unknown.errors == []
    assert unknown.warnings == ["berth knows no pods in a Rollout: nothing was checked"]
    assert verdict_on(review(pod(BAD), kind="Pod", group="metrics.k8s.io")).warnings


def test_subresources_are_no_way_round() -> None:
    """The annotation is checked as well if it is written with the status of a pod, or with its Binding."""
    beyond = apart(term(namespaceSelector={}), rule=EXECUTION)
    where = [f"{ANNOTATION}.podAntiAffinity.{EXECUTION}[0]"]
    assert refused(review(pod(beyond), pod(), subResource="status")) == where
    assert refused(review(pod(beyond), pod(beyond), subResource="status")) == []
    binding = {"metadata": pod(beyond)["metadata"], "target": {"kind": "Node", "name": "n"}}
    assert refused(review(binding, kind="Binding", subResource="binding")) == where
    assert refused(review(binding, kind="Binding")) == where
    plain = {**binding, "metadata": {"name": "web"}}
    assert refused(review(plain, kind="Binding", subResource="binding")) == []


# --- warnings -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rules", "warning"),
    [
        ({}, ": has no rules"),
        ({"nodeAffinity": {}, "podAffinity": {EXECUTION: []}}, ": has no rules"),
        (
            {"nodeAffinity": {EXECUTION: {"nodeSelectorTerms": [{}]}}},
            f".nodeAffinity.{EXECUTION}.nodeSelectorTerms[0]: an empty term matches no node",
        ),
        (
            {"podAffinity": {EXECUTION: [{"topologyKey": ZONE}]}},
            f".podAffinity.{EXECUTION}[0]: without a labelSelector it matches no pod",
        ),
        (
            {"podAntiAffinity": {PREFERRED: [{"weight": 1, "podAffinityTerm": {"topologyKey": ZONE}}]}},
            f".podAntiAffinity.{PREFERRED}[0]: without a labelSelector it matches no pod",
        ),
    ],
)
def test_rules_that_never_mean_anything_are_remarked_upon(rules: Json, warning: str) -> None:
    """They are stored: the API has nothing against them."""
    assert verdict_on(review(pod(rules))) == AdmissionVerdict(warnings=[f"{ANNOTATION}{warning}"])


def test_an_annotation_in_the_wrong_place_is_remarked_upon() -> None:
    """An annotation on a workload instead of its pods is remarked upon once, not at every update."""
    named: Json = {"kind": "Deployment", "group": "apps"}
    wrong = {**within("Deployment", "apps", pod()), "metadata": pod(GOOD)["metadata"]}
    found = verdict_on(review(wrong, **named))
    assert (found.errors, len(found.warnings)) == ([], 1)
    assert found.warnings[0].endswith("put it into spec.template.metadata.annotations")
    assert verdict_on(review(wrong, wrong, **named)) == AdmissionVerdict()


# --- what is no object ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "new",
    [
        None,
        {"metadata": []},
        {"metadata": {"annotations": {"berth.dev/affinity": 1}}},
        {"metadata": {"labels": {"a": {}}}},
        {"spec": {"affinity": []}},
        {"spec": "x"},
    ],
)
def test_what_is_not_of_its_kind_is_malformed(new: Json | None) -> None:
    """An object that is not of its kind is malformed, not refused."""
    with pytest.raises(admission.MalformedReviewError):
        verdict_on(review(new))


def test_some_users_and_groups_are_trusted() -> None:
    """What they write is within no limit; what others write is."""
    policy = AdmissionPolicy(users=frozenset({"ann"}), groups=frozenset({"operators"}))
    wide = pod(affinity=apart(term(ZONE, **EVERYWHERE)))

    def asked(**user: object) -> Json:
        question = review(wide)
        question["request"]["userInfo"] = user
        return question

    assert refused(asked(username="bob", groups=["devs"]), policy)
    assert not refused(asked(username="ann"), policy)
    assert not refused(asked(username="bob", groups=["devs", "operators"]), policy)
