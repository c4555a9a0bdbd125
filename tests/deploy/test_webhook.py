"""The webhook is deployed without any rights, and asked about every kind it knows and no other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import yaml

import berth
from berth.cli.commands.webhook import command
from berth.live.webhook.admission import PODS
from berth.live.webhook.component import PATH
from tests.support.api.client import Client
from tests.support.manifests import rendered
from tests.support.manifests.builtin import BUILTIN
from tests.support.manifests.rendered import (
    CHART,
    KUSTOMIZE,
    NAMESPACE,
    Object,
    assert_accepted,
    needs_helm,
    needs_kubectl,
)
from tests.support.paths import ROOT

WEBHOOK, CERT_MANAGER = KUSTOMIZE / "webhook", KUSTOMIZE / "overlays" / "webhook-cert-manager"
POLICY = ROOT / "deploy" / "policies" / "limit-pod-anti-affinity.yaml"
ON = "--set=webhook.enabled=true"


def charted(*options: str) -> list[Object]:
    """What the chart has for the webhook."""
    objects = rendered.charted(ON, *(options or ("--set=webhook.caBundle=Y2E=",)))
    return [
        each
        for each in objects
        if each["metadata"].get("labels", {}).get("app.kubernetes.io/component") == "webhook"
    ]


SOURCES = [
    pytest.param(lambda: rendered.kustomized(WEBHOOK), id="kustomize"),
    pytest.param(charted, id="helm", marks=needs_helm),
]


@pytest.fixture(params=SOURCES)
def objects(request: pytest.FixtureRequest) -> list[Object]:
    source: Callable[[], list[Object]] = request.param
    return source()


def one(objects: list[Object], kind: str) -> Any:
    return rendered.one(objects, kind)


def asked_about(rules: list[Object]) -> set[tuple[str, str]]:
    return {
        (group, resource)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        if (rule["operations"], rule["apiVersions"]) == (["CREATE", "UPDATE"], ["v1"])
    }


def known() -> set[tuple[str, str]]:
    """The resources of the kinds that the webhook knows pods in, and what else writes their annotations."""
    found = {(entry.group, entry.plural) for entry in BUILTIN if (entry.group, entry.kind) in PODS}
    return found | {("", "pods/binding"), ("", "pods/status")}


# --- the objects ----------------------------------------------------------------------------------


def test_an_api_server_accepts_every_object(client: Client, objects: list[Object]) -> None:
    """An API server accepts every object with strict field validation."""
    assert_accepted(client, objects)


def test_it_has_no_rights(objects: list[Object]) -> None:
    """The webhook has no roles, no token, and writes only a small /tmp."""
    assert {each["kind"] for each in objects} - {"Namespace"} == {
        "Deployment",
        "PodDisruptionBudget",
        "Service",
        "ServiceAccount",
        "ValidatingWebhookConfiguration",
    }
    spec = one(objects, "Deployment")["spec"]["template"]["spec"]
    assert spec["serviceAccountName"] == one(objects, "ServiceAccount")["metadata"]["name"]
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    (container,) = spec["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["image"] == f"berth:{berth.__version__}"


def test_selectors_find_the_webhook_and_not_the_scheduler(objects: list[Object]) -> None:
    """The selectors match the webhook's pods, and the scheduler's do not."""
    labels = one(objects, "Deployment")["spec"]["template"]["metadata"]["labels"]
    for selector in (
        one(objects, "Deployment")["spec"]["selector"]["matchLabels"],
        one(objects, "Service")["spec"]["selector"],
        one(objects, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
    ):
        assert selector.items() <= labels.items()
    scheduler = rendered.one(rendered.kustomized(), "Service")["spec"]["selector"]
    assert not scheduler.items() <= labels.items()


def test_its_flags_are_flags_of_the_command(objects: list[Object]) -> None:
    """Every argument is a flag of `berth webhook`, and its files are those of the Secret."""
    spec = one(objects, "Deployment")["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    given = dict(argument.split("=", 1) for argument in container["args"][1:])
    assert container["args"][0] == command.name
    assert given.keys() <= {flag for parameter in command.params for flag in parameter.opts}
    (mount,) = [mount for mount in container["volumeMounts"] if mount["name"] == "tls"]
    assert given["--tls-cert-file"] == f"{mount['mountPath']}/tls.crt"
    assert given["--tls-private-key-file"] == f"{mount['mountPath']}/tls.key"
    assert container["ports"] == [{"name": "https", "containerPort": int(given["--secure-port"])}]


# --- what it is asked about -----------------------------------------------------------------------


def test_it_is_asked_about_every_kind_with_pods(objects: list[Object]) -> None:
    """At its Service, in all namespaces but those that it needs itself."""
    (entry,) = one(objects, "ValidatingWebhookConfiguration")["webhooks"]
    assert asked_about(entry["rules"]) == known()
    assert (entry["sideEffects"], entry["matchPolicy"]) == ("None", "Equivalent")
    assert entry["failurePolicy"] == "Ignore"
    service = one(objects, "Service")
    assert entry["clientConfig"]["service"] == {
        "name": service["metadata"]["name"],
        "namespace": NAMESPACE,
        "path": PATH,
        "port": service["spec"]["ports"][0]["port"],
    }
    (expression,) = entry["namespaceSelector"]["matchExpressions"]
    assert expression == {
        "key": "kubernetes.io/metadata.name",
        "operator": "NotIn",
        "values": ["kube-system", NAMESPACE],
    }


def test_the_policy_covers_the_same_kinds() -> None:
    """The admission policy covers the kinds the webhook knows and denies."""
    policy, binding = yaml.safe_load_all(POLICY.read_text(encoding="utf-8"))
    assert asked_about(policy["spec"]["matchConstraints"]["resourceRules"]) == known()
    assert binding["spec"]["policyName"] == policy["metadata"]["name"]
    assert binding["spec"]["validationActions"] == ["Deny"]


def test_chart_and_kustomize_ask_about_the_same() -> None:
    """The chart keeps the rules in files without templates."""
    (entry,) = one(rendered.kustomized(WEBHOOK), "ValidatingWebhookConfiguration")["webhooks"]
    assert rendered.load(CHART / "files" / "webhook-rules.yaml") == entry["rules"]
    assert rendered.load(CHART / "files" / "webhook-conditions.yaml") == entry["matchConditions"]


# --- certificates ---------------------------------------------------------------------------------


def certified(objects: list[Object]) -> None:
    """The certificate is for the Service, in the Secret of the Deployment, and injected."""
    certificate, service = one(objects, "Certificate"), one(objects, "Service")
    name = f"{service['metadata']['name']}.{NAMESPACE}.svc"
    assert certificate["spec"]["dnsNames"] == [name, f"{name}.cluster.local"]
    volumes = one(objects, "Deployment")["spec"]["template"]["spec"]["volumes"]
    assert certificate["spec"]["secretName"] == volumes[0]["secret"]["secretName"]
    configuration = one(objects, "ValidatingWebhookConfiguration")
    wanted = f"{NAMESPACE}/{certificate['metadata']['name']}"
    assert configuration["metadata"]["annotations"] == {"cert-manager.io/inject-ca-from": wanted}
    assert one(objects, "Issuer")["metadata"]["name"] == certificate["spec"]["issuerRef"]["name"]


@needs_kubectl
def test_cert_manager_can_make_the_certificate() -> None:
    """The overlay gives the webhook a certificate by cert-manager."""
    certified(rendered.kustomized(CERT_MANAGER))


@needs_helm
def test_the_chart_can_use_cert_manager() -> None:
    """The chart gives the webhook a certificate by cert-manager."""
    certified(charted("--set=webhook.certManager.enabled=true"))


@needs_helm
def test_the_chart_has_no_webhook_unless_asked() -> None:
    """By default the chart has no webhook."""
    assert "ValidatingWebhookConfiguration" not in {each["kind"] for each in rendered.charted()}
