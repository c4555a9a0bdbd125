"""Nobody gives rights that they do not have; the sentences are those of kube-apiserver v1.36."""

from __future__ import annotations

import itertools

import pytest

from tests.support.api.client import APPLY, MERGE, Answer, Client, Json
from tests.support.api.objects import config_map

GROUP = "rbac.authorization.k8s.io"
RBAC = f"/apis/{GROUP}/v1"
VERBS = ["get", "list", "create", "update", "patch", "delete"]
HELD = "is attempting to grant RBAC permissions not currently held:\n"
EVERYTHING = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
_numbers = itertools.count()


def rule(verbs: list[str], resource: str, group: str = "", *names: str) -> Json:
    made: Json = {"apiGroups": [group], "resources": [resource], "verbs": verbs}
    return made | ({"resourceNames": list(names)} if names else {})


def role(name: str, *rules: Json, kind: str = "Role", **more: Json) -> Json:
    head = {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": {"name": name}}
    return {**head, "rules": list(rules), **more}


def bound(name: str, to: str, *users: str, kind: str = "Role", own: str = "RoleBinding") -> Json:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": own,
        "metadata": {"name": name},
        "roleRef": {"apiGroup": GROUP, "kind": kind, "name": to},
        "subjects": [{"apiGroup": GROUP, "kind": "User", "name": user} for user in users],
    }


class Writer:
    """Somebody who may write roles and bindings in one namespace, read pods there, and `more`."""

    def __init__(self, client: Client, space: str, *more: Json) -> None:
        self._client, self.name = client, f"user-{next(_numbers)}"
        self.root = f"{RBAC}{space.removeprefix('/api/v1')}"
        own = [rule(VERBS, plural, GROUP) for plural in ("roles", "rolebindings")]
        client.made(f"{self.root}/roles", role(self.name, rule(["get", "list"], "pods"), *own, *more))
        client.made(f"{self.root}/rolebindings", bound(self.name, self.name, self.name))

    def send(self, method: str, path: str, body: Json, kind: str = "application/json") -> Answer:
        path = path if path.startswith("/") else f"{self.root}/{path}"
        return self._client.send(
            method, path, body, headers={"Impersonate-User": self.name}, content_type=kind
        )


MORE = role("more", rule(["get", "watch"], "pods"))


@pytest.mark.parametrize(
    ("method", "path", "body", "kind"),
    [
        ("POST", "roles", MORE, "application/json"),
        ("POST", "roles?dryRun=All", MORE, "application/json"),
        ("PUT", "roles/more", MORE, "application/json"),
        ("PATCH", "roles/more?fieldManager=x", MORE, APPLY),
        ("PATCH", "roles/less", {"rules": MORE["rules"]}, MERGE),
    ],
)
def test_a_role_grants_what_its_writer_has(
    client: Client, space: str, method: str, path: str, body: Json, kind: str
) -> None:
    """However it is written, a role has no rule that its writer lacks."""
    jane = Writer(client, space)
    assert jane.send("POST", "roles", role("less", rule(["get"], "pods"))).status == 201
    answer = jane.send(method, path, body, kind)
    assert (answer.status, answer.json["reason"]) == (403, "Forbidden")
    assert answer.message.endswith(
        f' is forbidden: user "{jane.name}" (groups=["system:authenticated"]) {HELD}'
        '{APIGroups:[""], Resources:["pods"], Verbs:["watch"]}'
    )
    assert client.get(f"{jane.root}/roles/more").status == 404
    assert client.get(f"{jane.root}/roles/less").json["rules"] == [rule(["get"], "pods")]


def test_a_binding_gives_what_its_writer_has(client: Client, space: str) -> None:
    """Neither a Role, a ClusterRole, one that is made of others, nor one that is missing is given away."""
    jane = Writer(client, space)
    client.made(f"{jane.root}/roles", role("great", EVERYTHING))
    client.made(f"{jane.root}/rolebindings", bound("given", "great", "joe"))
    everything = HELD + '{APIGroups:["*"], Resources:["*"], Verbs:["*"]}'
    for body in (
        bound("b", "great", "joe"),
        bound("b", "cluster-admin", "joe", kind="ClusterRole"),
        bound("b", "admin", "joe", kind="ClusterRole"),
    ):
        answer = jane.send("POST", "rolebindings", body)
        assert (answer.status, HELD in answer.message) == (403, True), answer.message
    answer = jane.send(
        "PATCH", "rolebindings/given", {"subjects": [{"kind": "User", "name": jane.name}]}, MERGE
    )
    assert answer.message.endswith(everything)
    answer = jane.send("POST", "rolebindings", bound("b", "missing", "joe"))
    assert (answer.status, answer.message) == (404, f'rolebindings.{GROUP} "missing" not found')
    assert jane.send("POST", "rolebindings", bound("b", jane.name, "joe")).status == 201
    answer = jane.send("PUT", "rolebindings/b", bound("b", "other", "joe"))
    assert (answer.status, "cannot change roleRef" in answer.message) == (422, True)


def test_some_may_give_more_than_they_have(client: Client, space: str) -> None:
    """Who may `escalate` writes any role, who may `bind` gives the roles that this names."""
    eve = Writer(client, space, rule(["escalate"], "roles", GROUP))
    assert eve.send("POST", "roles", role("all", EVERYTHING)).status == 201
    assert eve.send("POST", "rolebindings", bound("all", "all", eve.name)).status == 403
    bill = Writer(client, space, rule(["bind"], "clusterroles", GROUP, "edit"))
    assert bill.send("POST", "rolebindings", bound("e", "edit", "joe", kind="ClusterRole")).status == 201
    assert bill.send("POST", "rolebindings", bound("a", "admin", "joe", kind="ClusterRole")).status == 403
    emma = Writer(client, space, rule(["escalate"], "roles", GROUP, "all"))
    assert emma.send("PATCH", "roles/all", {"rules": [EVERYTHING, EVERYTHING]}, MERGE).status == 200
    assert emma.send("POST", "roles", role("new", EVERYTHING)).status == 403


def test_what_the_garbage_collector_writes_is_nobody_s_grant(client: Client, space: str) -> None:
    """Finalizers and owners may be changed by who lacks the rules, labels may not: others select by them."""
    jane = Writer(client, space)
    client.made(f"{jane.root}/roles", role("great", EVERYTHING))
    for metadata, code in (({"finalizers": ["x.io/y"]}, 200), ({"labels": {"a": "b"}}, 403), ({}, 200)):
        assert jane.send("PATCH", "roles/great", {"metadata": metadata}, MERGE).status == code
    assert jane.send("PATCH", "roles/great", {"metadata": {"finalizers": None}}, MERGE).status == 200


def test_roles_made_of_others_are_for_those_who_may_everything(client: Client, space: str) -> None:
    """An aggregationRule gathers anything, so that setting or changing one takes all rights."""
    number = next(_numbers)
    carl, name = Writer(client, space), f"gather-{number}"
    rules = [rule(VERBS, "clusterroles", GROUP)]
    client.made(f"{RBAC}/clusterroles", role(f"carl-{number}", *rules, kind="ClusterRole"))
    binding = bound(
        f"carl-{number}", f"carl-{number}", carl.name, kind="ClusterRole", own="ClusterRoleBinding"
    )
    client.made(f"{RBAC}/clusterrolebindings", binding)
    gather = {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}
    body = role(name, kind="ClusterRole", aggregationRule=gather)
    why = "must have cluster-admin privileges to use the aggregationRule"
    answer = carl.send("POST", f"{RBAC}/clusterroles", body)
    assert (answer.status, answer.message) == (403, f'clusterroles.{GROUP} "{name}" is forbidden: {why}')
    client.made(f"{RBAC}/clusterroles", body)
    answer = carl.send("PATCH", f"{RBAC}/clusterroles/{name}", {"aggregationRule": None}, MERGE)
    assert answer.message.endswith(why)
    for wrong, what in (
        ({"clusterRoleSelectors": []}, "at least one clusterRoleSelector required"),
        ({"clusterRoleSelectors": [{"matchLabels": {"a": "b b"}}]}, "invalid label selector."),
    ):
        answer = client.post(
            f"{RBAC}/clusterroles", role(f"{name}-no", kind="ClusterRole", aggregationRule=wrong)
        )
        assert (answer.status, what in answer.message) == (422, True), answer.message


def test_roles_that_are_missing_are_told_of(client: Client, space: str) -> None:
    """What is granted may be lacking because a role is gone, which the refusal says."""
    jane = Writer(client, space)
    client.made(f"{jane.root}/rolebindings", bound("lost", "lost", jane.name))
    answer = jane.send("POST", "roles", role("new", rule(["get"], "secrets")))
    assert answer.message.endswith(f'; resolution errors: [roles.{GROUP} "lost" not found]')


def test_writing_what_is_not_there_is_creating_it(client: Client, space: str) -> None:
    """Who may only update or patch makes nothing new by it, neither by PUT nor by apply."""
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "mine"},
    }
    leases = f"/apis/coordination.k8s.io/v1{space.removeprefix('/api/v1')}/leases"
    namespace = space.rpartition("/")[2]
    may = ["update", "patch"]
    pat = Writer(client, space, rule(may, "configmaps"), rule(may, "leases", "coordination.k8s.io"))
    for method, path, body, kind in (
        ("PATCH", f"{space}/configmaps/mine?fieldManager=x", config_map("mine"), APPLY),
        ("PUT", f"{leases}/mine", lease, "application/json"),
    ):
        answer = pat.send(method, path, body, kind)
        assert answer.status == 403
        assert f'User "{pat.name}" cannot create resource "' in answer.message
        assert answer.message.endswith(f'in the namespace "{namespace}"')
    client.made(f"{space}/configmaps", config_map("mine"))
    path = f"{space}/configmaps/mine?fieldManager=x"
    assert pat.send("PATCH", path, config_map("mine"), APPLY).status == 200
    assert client.put(f"{pat.root}/roles/new", role("new")).status == 201


def test_a_name_that_is_selected_is_the_one_asked_for(client: Client, space: str) -> None:
    """A list or watch of one object by its name is allowed to who may list that one, and of no other."""
    pat = Writer(client, space, rule(["list", "watch"], "configmaps", "", "mine"))
    cases = (
        ("", 403),
        ("?fieldSelector=metadata.name%3Dmine", 200),
        ("?fieldSelector=metadata.name%3Dmine,metadata.namespace%3Dx", 200),
        ("?fieldSelector=metadata.name%3Dmine&watch=True&timeoutSeconds=1", 200),
        ("?fieldSelector=metadata.name%3Dother", 403),
        ("?fieldSelector=metadata.name!%3Dmine", 403),
        ("/other?watch=true", 403),
    )
    for query, code in cases:
        assert pat.send("GET", f"{space}/configmaps{query}", {}).status == code, query


def test_the_administrator_is_only_spoken_for_by_those_who_may_everything(client: Client, space: str) -> None:
    """The right to speak for users is not the right to be the one who may everything."""
    namespace, number = space.rpartition("/")[2], next(_numbers)
    name = f"speaker-{number}"
    speak = role(name, rule(["impersonate"], "users"), kind="ClusterRole")
    client.made(f"{RBAC}/clusterroles", speak)
    binding = bound(name, name, kind="ClusterRole", own="ClusterRoleBinding")
    account = {"kind": "ServiceAccount", "name": "default", "namespace": namespace}
    client.made(f"{RBAC}/clusterrolebindings", {**binding, "subjects": [account]})
    token = client.made(f"{space}/serviceaccounts/default/token", {"spec": {}})["status"]["token"]
    for user, code in (("jane", "jane"), ("berth-admin", 'groups "system:masters" is forbidden')):
        headers = {"Authorization": f"Bearer {token}", "Impersonate-User": user}
        answer = client.send("GET", "/api/v1/nodes", headers=headers)
        assert (answer.status, code in answer.message) == (403, True), answer.message
