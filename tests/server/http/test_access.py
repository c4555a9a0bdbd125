"""Who asks, in whose name, and what roles let them do; the words are a real API server's."""

from __future__ import annotations

import pytest

from tests.support.api.client import Client, Json
from tests.support.api.objects import config_map, pod

RBAC = "/apis/rbac.authorization.k8s.io/v1"
REVIEWS = "/apis/authorization.k8s.io/v1"
ME = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


def role(name: str, *rules: Json) -> Json:
    return {"metadata": {"name": name}, "rules": list(rules)}


def bound(name: str, kind: str, role_name: str, *subjects: Json) -> Json:
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role_name}
    return {"metadata": {"name": name}, "roleRef": reference, "subjects": list(subjects)}


def user(name: str) -> Json:
    return {"kind": "User", "name": name}


def acting(name: str, group: str = "") -> dict[str, str]:
    return {"Impersonate-User": name, "Impersonate-Group": group}


READ = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}


def test_nobody_in_particular_may_do_nothing(client: Client, space: str) -> None:
    """A user without roles is refused, with the sentence clients look for."""
    namespace = space.rpartition("/")[2]
    answer = client.send("GET", f"{space}/pods", headers=acting("jane"))
    assert (answer.status, answer.json["reason"]) == (403, "Forbidden")
    assert answer.message == (
        f'pods is forbidden: User "jane" cannot list resource "pods" in API group "" in the namespace '
        f'"{namespace}"'
    )
    answer = client.send("DELETE", "/api/v1/nodes/n", headers=acting("jane"))
    assert answer.message == (
        'nodes "n" is forbidden: User "jane" cannot delete resource "nodes" in API group "" at the cluster '
        "scope"
    )
    answer = client.send("GET", "/metrics", headers=acting("jane"))
    assert answer.message == 'forbidden: User "jane" cannot get path "/metrics"'
    assert client.send("GET", "/apis", headers=acting("jane")).status == 200


def test_a_role_gives_what_it_says_and_no_more(client: Client, space: str) -> None:
    """In its namespace, for its verbs and names; reviews say the same as requests."""
    root, namespace = f"{RBAC}{space.removeprefix('/api/v1')}", space.rpartition("/")[2]
    one = {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["mine"], "verbs": ["get"]}
    client.made(f"{root}/roles", role("reader", READ, one))
    client.made(f"{root}/rolebindings", bound("jane", "Role", "reader", user("jane")))
    client.made(f"{space}/configmaps", config_map("mine"))
    client.made(f"{space}/configmaps", config_map("other"))
    cases = (
        ("GET", f"{space}/pods", ("list", "pods", ""), 200),
        ("GET", f"{space}/configmaps/mine", ("get", "configmaps", "mine"), 200),
        ("GET", f"{space}/configmaps/other", ("get", "configmaps", "other"), 403),
        ("GET", f"{space}/configmaps", ("list", "configmaps", ""), 403),
        ("DELETE", f"{space}/pods", ("deletecollection", "pods", ""), 403),
    )
    for method, path, (verb, resource, name), code in cases:
        assert client.send(method, path, headers=acting("jane")).status == code
        asked = {"namespace": namespace, "verb": verb, "resource": resource, "name": name}
        review = {"spec": {"user": "jane", "resourceAttributes": asked}}
        status = client.made(f"{REVIEWS}/subjectaccessreviews", review)["status"]
        assert status["allowed"] is (code == 200)
        own = {"spec": {"resourceAttributes": asked}}
        answer = client.send("POST", f"{REVIEWS}/selfsubjectaccessreviews", own, headers=acting("jane"))
        assert answer.json["status"]["allowed"] is (code == 200)
    assert client.send("GET", "/api/v1/namespaces/default/pods", headers=acting("jane")).status == 403
    allowed = f'RBAC: allowed by RoleBinding "jane/{namespace}" of Role "reader" to User "jane"'
    spec = {
        "user": "jane",
        "resourceAttributes": {"namespace": namespace, "verb": "list", "resource": "pods"},
    }
    assert client.made(f"{REVIEWS}/subjectaccessreviews", {"spec": spec})["status"]["reason"] == allowed
    listed = client.send(
        "POST",
        f"{REVIEWS}/selfsubjectrulesreviews",
        {"spec": {"namespace": namespace}},
        headers=acting("jane"),
    ).json["status"]["resourceRules"]
    assert one in listed


def test_what_was_allowed_is_forgotten(client: Client, space: str) -> None:
    """A role or a binding that comes, changes or goes counts for the next request."""
    root = f"{RBAC}{space.removeprefix('/api/v1')}"

    def listing() -> int:
        return client.send("GET", f"{space}/pods", headers=acting("joe")).status

    assert listing() == 403
    client.made(f"{root}/roles", role("reader", READ))
    assert listing() == 403
    client.made(f"{root}/rolebindings", bound("joe", "Role", "reader", user("joe")))
    assert listing() == 200
    client.patch(f"{root}/roles/reader", {"rules": []})
    assert listing() == 403
    client.patch(f"{root}/roles/reader", {"rules": [READ]})
    assert listing() == 200
    client.delete(f"{root}/rolebindings/joe")
    assert listing() == 403


def test_roles_may_come_from_others_and_be_missing(client: Client, space: str) -> None:
    """The default roles aggregate whatever is labelled for them; a binding to nothing says so."""
    client.made(
        f"{RBAC}/clusterroles",
        {
            "metadata": {
                "name": "crontabs",
                "labels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"},
            },
            "rules": [{"apiGroups": ["example.com"], "resources": ["crontabs"], "verbs": ["list"]}],
        },
    )
    group = {"kind": "Group", "name": "devs"}
    client.made(f"{RBAC}/clusterrolebindings", bound("devs", "ClusterRole", "edit", group))
    asked = {"verb": "list", "group": "example.com", "resource": "crontabs", "namespace": "default"}
    review = {"spec": {"groups": ["devs"], "resourceAttributes": asked}}
    assert client.made(f"{REVIEWS}/subjectaccessreviews", review)["status"]["allowed"] is True
    made = client.send("POST", f"{space}/pods", pod("a"), headers=acting("ann", "devs"))
    assert made.status == 201
    assert client.send("GET", f"{RBAC}/clusterroles", headers=acting("ann", "devs")).status == 403
    root = f"{RBAC}{space.removeprefix('/api/v1')}"
    client.made(f"{root}/rolebindings", bound("joe", "Role", "nothing", user("joe")))
    answer = client.send("GET", f"{space}/pods", headers=acting("joe"))
    assert answer.message.endswith(': RBAC: role.rbac.authorization.k8s.io "nothing" not found')


def test_who_one_is_in_the_name_of_others(client: Client) -> None:
    """Groups are added as upstream adds them; a header that names no user is a 400."""
    account = client.send("POST", ME, {}, headers=acting("system:serviceaccount:shop:web"))
    assert account.json["status"]["userInfo"]["groups"] == [
        "system:serviceaccounts",
        "system:serviceaccounts:shop",
        "system:authenticated",
    ]
    headers = {**acting("ann", "devs"), "Impersonate-Uid": "7", "Impersonate-Extra-Why%2fNot": "so"}
    assert client.send("POST", ME, {}, headers=headers).json["status"]["userInfo"] == {
        "username": "ann",
        "uid": "7",
        "groups": ["devs", "system:authenticated"],
        "extra": {"why/not": ["so"]},
    }
    answer = client.send("GET", "/api/v1/pods", headers={"Impersonate-Group": "devs"})
    assert answer.status == 400
    assert "without impersonating a user" in answer.message


def test_not_everybody_may_speak_for_others(client: Client, space: str) -> None:
    """Whoever impersonates needs the right to, for each thing it claims to be."""
    namespace = space.rpartition("/")[2]
    token = client.made(f"{space}/serviceaccounts/default/token", {"spec": {}})["status"]["token"]
    bearer = {"Authorization": f"Bearer {token}", **acting("jane")}
    answer = client.send("GET", f"{space}/pods", headers=bearer)
    assert answer.message == (
        f'users "jane" is forbidden: User "system:serviceaccount:{namespace}:default" cannot impersonate '
        'resource "users" in API group "" at the cluster scope'
    )
    rule = {"apiGroups": [""], "resources": ["users"], "resourceNames": ["jane"], "verbs": ["impersonate"]}
    client.made(f"{RBAC}/clusterroles", role(f"as-jane-{namespace}", rule))
    subject = {"kind": "ServiceAccount", "name": "default", "namespace": namespace}
    binding = bound(f"as-jane-{namespace}", "ClusterRole", f"as-jane-{namespace}", subject)
    client.made(f"{RBAC}/clusterrolebindings", binding)
    me = client.send("POST", ME, {}, headers=bearer)
    assert me.json["status"]["userInfo"]["username"] == "jane"
    more = client.send("POST", ME, {}, headers={**bearer, "Impersonate-Group": "system:masters"})
    assert more.message.startswith('groups "system:masters" is forbidden')


@pytest.mark.parametrize(
    ("plural", "body", "message"),
    [
        (
            "clusterroles",
            role("r", {"verbs": [], "apiGroups": [""], "resources": ["pods"]}),
            "rules[0].verbs",
        ),
        (
            "clusterroles",
            role("r", {"verbs": ["get"], "resources": ["pods"]}),
            "rules[0].apiGroups: Required",
        ),
        ("clusterrolebindings", bound("b", "Role", "r"), 'roleRef.kind: Unsupported value: "Role"'),
        ("clusterrolebindings", bound("b", "ClusterRole", "r", {"kind": "Usr", "name": "x"}), '"Usr"'),
    ],
)
def test_roles_that_say_nothing_are_refused(client: Client, plural: str, body: Json, message: str) -> None:
    """A rule without verbs or groups is a 422, as is a binding to no kind of role or of subject."""
    answer = client.post(f"{RBAC}/{plural}", body)
    assert (answer.status, message in answer.message) == (422, True), answer.message


def test_a_binding_keeps_its_role(client: Client) -> None:
    """Whom a role is given to may change, which role may not."""
    made = client.made(f"{RBAC}/clusterrolebindings", bound("kept", "ClusterRole", "view"))
    assert client.put(f"{RBAC}/clusterrolebindings/kept", {**made, "subjects": [user("x")]}).status == 200
    changed = bound("kept", "ClusterRole", "edit")
    answer = client.put(f"{RBAC}/clusterrolebindings/kept", changed)
    assert (answer.status, "cannot change roleRef" in answer.message) == (422, True)
