"""What is deployed of `berth fleet`: pods in one cluster, an account on the API server of Karmada."""

from __future__ import annotations

import re

import pytest

import berth
from berth.cli.fleet.command import LEASE, PORT, command
from berth.fleet.scheduler import FleetScheduler
from berth.fleet.scheduler.group_claims import claim_name
from berth.fleet.state.options import FleetOptions
from berth.fleet.state.terms import derived_groups
from berth.fleet.state.terms import rules_of as rules_of_group
from berth.kube.api_resources import CLUSTER_BINDINGS, LEASES, RESOURCE_BINDINGS
from berth.kube.karmada import Placement
from berth.kube.text.decoding import convert
from tests.support.api.client import Client
from tests.support.manifests.builtin import BUILTIN
from tests.support.manifests.rendered import (
    BASE,
    KUSTOMIZE,
    NAMESPACE,
    Object,
    assert_accepted,
    assert_selected,
    granted,
    kustomized,
    one,
    pod_of,
)

HOST, KARMADA = KUSTOMIZE / "fleet", KUSTOMIZE / "fleet-karmada"

# What it does beside watching: (group, resource, verb, names it is limited to).
ACTIONS = {
    *(
        (bindings.group, resource, verb, ())
        for bindings in (RESOURCE_BINDINGS, CLUSTER_BINDINGS)
        for resource, verb in (
            (bindings.plural, "get"),
            (bindings.plural, "patch"),
            (f"{bindings.plural}/status", "patch"),
        )
    ),
    ("", "events", "create", ()),
    ("", "events", "patch", ()),
    ("authentication.k8s.io", "tokenreviews", "create", ()),
    ("authorization.k8s.io", "subjectaccessreviews", "create", ()),
}
CLAIMS = {(LEASES.group, LEASES.plural, verb, ()) for verb in ("create", "get", "update")}
ELECTION = {
    (LEASES.group, LEASES.plural, "create", ()),
    (LEASES.group, LEASES.plural, "get", (LEASE,)),
    (LEASES.group, LEASES.plural, "update", (LEASE,)),
}


@pytest.fixture(scope="module")
def host() -> list[Object]:
    return kustomized(HOST)


@pytest.fixture(scope="module")
def karmada() -> list[Object]:
    return kustomized(KARMADA)


def rules_of(objects: list[Object], kind: str, name: str) -> list[Object]:
    (found,) = [each for each in objects if (each["kind"], each["metadata"]["name"]) == (kind, name)]
    rules: list[Object] = found["rules"]
    return rules


def test_an_api_server_accepts_every_object(
    client: Client, host: list[Object], karmada: list[Object]
) -> None:
    """An API server accepts every object with strict field validation."""
    assert_accepted(client, [*host, *(each for each in karmada if "AdmissionPolicy" not in each["kind"])])


def test_the_roles_cover_exactly_what_it_does(karmada: list[Object]) -> None:
    """Claims and workloads have roles of their own, which may be left out or replaced."""
    watched = {
        (resource.group, resource.plural, verb, ())
        for resource in FleetScheduler.watches
        for verb in ("list", "watch")
    }
    assert granted(rules_of(karmada, "ClusterRole", "berth-fleet")) == watched | ACTIONS
    assert granted(rules_of(karmada, "ClusterRole", "berth-fleet-claims")) == CLAIMS
    assert granted(rules_of(karmada, "Role", "berth-fleet")) == ELECTION


def test_only_leases_of_its_own_may_be_written(karmada: list[Object]) -> None:
    """The policy is about the account, lets claims and the election pass by their names, and denies."""
    policy, binding = (
        one(karmada, "ValidatingAdmissionPolicy"),
        one(karmada, "ValidatingAdmissionPolicyBinding"),
    )
    assert binding["spec"] == {"policyName": policy["metadata"]["name"], "validationActions": ["Deny"]}
    spec = policy["spec"]
    (rule,) = spec["matchConstraints"]["resourceRules"]
    assert (rule["apiGroups"], rule["resources"]) == ([LEASES.group], [LEASES.plural])
    assert rule["operations"] == ["CREATE", "UPDATE"]
    (condition,) = spec["matchConditions"]
    account = f"system:serviceaccount:{NAMESPACE}:{one(karmada, 'ServiceAccount')['metadata']['name']}"
    assert condition["expression"] == f"request.userInfo.username == '{account}'"
    (validation,) = spec["validations"]
    expression = validation["expression"]
    assert f"(request.namespace == '{NAMESPACE}' && object.metadata.name == '{LEASE}')" in expression
    pattern = expression.partition("matches('")[2].partition("')")[0]
    group = derived_groups(
        convert({"workloadAffinity": {"affinity": {"groupByLabelKey": "a"}}}, Placement), {"a": "b"}
    )
    (claimed,) = rules_of_group(Placement(), "shop", {}, group, FleetOptions()).affinity
    assert re.fullmatch(pattern, claim_name(claimed))
    assert not re.fullmatch(pattern, LEASE)


def test_workloads_are_only_read(karmada: list[Object]) -> None:
    """Workloads are only read, of kinds that the server has, and no secrets."""
    workloads = granted(rules_of(karmada, "ClusterRole", "berth-fleet-workloads"))
    assert {verb for *_, verb, _ in workloads} == {"list", "watch"}
    kinds = {(group, plural) for group, plural, *_ in workloads}
    assert kinds <= {(entry.group, entry.plural) for entry in BUILTIN}
    assert ("apps", "deployments") in kinds
    assert ("", "secrets") not in kinds


def test_every_role_is_bound_to_the_account(karmada: list[Object]) -> None:
    """Every role but that of metrics readers is bound to the account."""
    account = one(karmada, "ServiceAccount")["metadata"]["name"]
    for kind in ("Role", "ClusterRole"):
        names = {each["metadata"]["name"] for each in karmada if each["kind"] == kind}
        bound = [each for each in karmada if each["kind"] == f"{kind}Binding"]
        assert {each["roleRef"]["name"] for each in bound} == names - {"berth-fleet-metrics-reader"}
        for each in bound:
            assert each["subjects"] == [{"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}]


def test_the_token_is_the_accounts(karmada: list[Object]) -> None:
    """The token in Karmada belongs to the account with the roles."""
    secret = one(karmada, "Secret")
    assert secret["type"] == "kubernetes.io/service-account-token"
    account = secret["metadata"]["annotations"]["kubernetes.io/service-account.name"]
    assert account == one(karmada, "ServiceAccount")["metadata"]["name"]


def test_where_it_runs_it_has_no_rights(host: list[Object]) -> None:
    """Where `berth fleet` runs it has neither roles nor a token."""
    assert not [each for each in host if "Role" in each["kind"]]
    assert pod_of(host)["spec"]["automountServiceAccountToken"] is False


def test_the_kubeconfig_is_where_the_flag_says(host: list[Object]) -> None:
    """The kubeconfig is mounted read-only where the flag looks for it."""
    spec = pod_of(host)["spec"]
    (container,) = spec["containers"]
    (mount,) = [each for each in container["volumeMounts"] if each["name"] == "kubeconfig"]
    assert f"--kubeconfig={mount['mountPath']}/kubeconfig" in container["args"]
    assert mount["readOnly"]
    (volume,) = [each for each in spec["volumes"] if each["name"] == "kubeconfig"]
    assert volume["secret"]["secretName"] == "berth-fleet-kubeconfig"


def test_the_lease_is_where_the_role_allows_it(host: list[Object], karmada: list[Object]) -> None:
    """The lease is in the namespace of the Role that allows it."""
    (container,) = pod_of(host)["spec"]["containers"]
    assert f"--leader-elect-resource-namespace={NAMESPACE}" in container["args"]
    assert one(karmada, "Role")["metadata"]["namespace"] == NAMESPACE


def test_its_flags_are_flags_of_the_command(host: list[Object]) -> None:
    """Every argument is a flag of `berth fleet`, and the probes ask where it serves."""
    (container,) = pod_of(host)["spec"]["containers"]
    assert container["args"][0] == command.name
    known = {flag for parameter in command.params for flag in parameter.opts}
    assert {argument.partition("=")[0] for argument in container["args"][1:]} <= known
    assert container["ports"] == [{"name": "https", "containerPort": PORT}]
    assert f"--secure-port={PORT}" in container["args"]
    for probe in ("startup", "liveness", "readiness"):
        assert container[f"{probe}Probe"]["httpGet"]["port"] == "https"


def test_selectors_find_the_pods_and_no_others(host: list[Object]) -> None:
    """The selectors match the fleet's pods and not the pod scheduler's beside them."""
    assert_selected(host, but_not=kustomized(BASE))


def test_the_pod_is_locked_down_as_the_schedulers_is(host: list[Object]) -> None:
    """The pod has the scheduler's security context, image version and two replicas."""
    spec, schedulers = pod_of(host)["spec"], pod_of(kustomized(BASE))["spec"]
    assert spec["securityContext"] == {**schedulers["securityContext"], "fsGroup": 65532}
    (container,) = spec["containers"]
    assert container["securityContext"] == schedulers["containers"][0]["securityContext"]
    assert container["image"] == f"berth:{berth.__version__}"
    assert one(host, "Deployment")["spec"]["replicas"] == 2
