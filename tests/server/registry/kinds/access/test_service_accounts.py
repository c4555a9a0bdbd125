"""ServiceAccounts: one in every namespace, what pods get of it, and tokens that are good here."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from tests.support.api.client import Client, Json
from tests.support.api.objects import namespace, pod
from tests.support.api.servers import running_server

ME = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
TOKENS = "/apis/authentication.k8s.io/v1/tokenreviews"
MOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"


def token(client: Client, space: str, account: str = "default", **spec: object) -> str:
    made = client.made(f"{space}/serviceaccounts/{account}/token", {"spec": spec})
    return str(made["status"]["token"])


def claims(text: str) -> Json:
    part = text.split(".")[1]
    decoded: Json = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    return decoded


def me(client: Client, text: str) -> tuple[int, Json]:
    answer = client.send("POST", ME, {}, headers={"Authorization": f"Bearer {text}"})
    return answer.status, answer.json.get("status", {})


def test_every_namespace_has_one_and_gets_it_back(client: Client, space: str) -> None:
    """The account is there with the namespace, and again after it was deleted, but not at its end."""
    uid = client.get(f"{space}/serviceaccounts/default").json["metadata"]["uid"]
    assert client.delete(f"{space}/serviceaccounts/default").status == 200
    assert client.get(f"{space}/serviceaccounts/default").json["metadata"]["uid"] != uid
    assert client.delete(space).status == 200
    client.delete(f"{space}/serviceaccounts/default")
    assert client.get(f"{space}/serviceaccounts/default").status == 404


def test_a_pod_gets_the_accounts_token_unless_somebody_minds(client: Client, space: str) -> None:
    """Every container sees it, the pod's wish counts before the account's, and pull secrets come along."""
    made = client.made(f"{space}/pods", pod("a", initContainers=[{"name": "i", "image": "x"}]))["spec"]
    (volume,) = made["volumes"]
    assert [next(iter(source)) for source in volume["projected"]["sources"]] == [
        "serviceAccountToken",
        "configMap",
        "downwardAPI",
    ]
    mount = {"name": volume["name"], "readOnly": True, "mountPath": MOUNT}
    assert [c["volumeMounts"] for c in (*made["initContainers"], *made["containers"])] == [[mount], [mount]]
    quiet = {"metadata": {"name": "quiet"}, "automountServiceAccountToken": False}
    client.made(f"{space}/serviceaccounts", {**quiet, "imagePullSecrets": [{"name": "registry"}]})
    made = client.made(f"{space}/pods", pod("b", serviceAccountName="quiet"))["spec"]
    assert "volumes" not in made
    assert made["imagePullSecrets"] == [{"name": "registry"}]
    wish = {"serviceAccountName": "quiet", "automountServiceAccountToken": True}
    assert client.made(f"{space}/pods", pod("c", **wish))["spec"]["volumes"]


def test_a_pod_needs_an_account_that_is_there(client: Client, space: str) -> None:
    """A pod whose account is not there is a 403 with upstream's words."""
    where = space.rpartition("/")[2]
    answer = client.post(f"{space}/pods", pod("a", serviceAccountName="ghost"))
    assert answer.status == 403
    assert answer.message == (
        f'pods "a" is forbidden: error looking up service account {where}/ghost: serviceaccount "ghost" not '
        "found"
    )


def test_a_token_says_who_bears_it(client: Client, space: str) -> None:
    """What is asked for is in the token; it is good here, and a review says whose it is."""
    where = space.rpartition("/")[2]
    client.made(f"{space}/pods", pod("a"))
    text = token(client, space, boundObjectRef={"kind": "Pod", "apiVersion": "v1", "name": "a"})
    own = claims(text)["kubernetes.io"]
    assert (own["namespace"], own["serviceaccount"]["name"], own["pod"]["name"]) == (where, "default", "a")
    code, status = me(client, text)
    assert (code, status["userInfo"]["username"]) == (201, f"system:serviceaccount:{where}:default")
    assert status["userInfo"]["extra"]["authentication.kubernetes.io/pod-name"] == ["a"]
    review = client.made(TOKENS, {"spec": {"token": text}})["status"]
    assert (review["authenticated"], review["user"]["username"]) == (True, status["userInfo"]["username"])
    client.delete(f"{space}/pods/a", gracePeriodSeconds=0)
    assert me(client, text)[0] == 401  # it was to live no longer than the pod


def test_tokens_that_are_no_longer_or_nowhere_good(client: Client, space: str) -> None:
    """Another audience, another server's key, a changed claim, an account that was made again: 401."""
    text = token(client, space, audiences=["vault"])
    assert me(client, text)[0] == 401
    asked = {"token": text, "audiences": ["vault"]}
    assert client.made(TOKENS, {"spec": asked})["status"]["audiences"] == ["vault"]
    good = token(client, space)
    head, content, signature = good.split(".")
    other = base64.urlsafe_b64encode(json.dumps({**claims(good), "exp": 1 << 40}).encode()).decode()
    for bad in (
        f"{head}.{other.rstrip('=')}.{signature}",
        f"{head}.{content}.",
        f"{good}x",
        f"{head}..",
        "a.b.c",
    ):
        assert me(client, bad)[0] == 401, bad
    assert me(client, good)[0] == 201
    client.delete(f"{space}/serviceaccounts/default")
    assert me(client, good)[0] == 401


@pytest.mark.parametrize(
    ("account", "body", "code", "message"),
    [
        ("ghost", {"spec": {}}, 404, 'serviceaccounts "ghost" not found'),
        (
            "default",
            {"spec": {"expirationSeconds": 60}},
            422,
            "may not specify a duration less than 10 minutes",
        ),
        ("default", {"metadata": {"name": "x"}}, 422, "must match the service account name if specified"),
        (
            "default",
            {"spec": {"boundObjectRef": {"kind": "ConfigMap", "apiVersion": "v1", "name": "x"}}},
            400,
            "cannot bind token to object of type /v1, Kind=ConfigMap",
        ),
        ("default", {"spec": {"boundObjectRef": {"kind": "Pod", "name": "x"}}}, 404, 'pods "x" not found'),
    ],
)
def test_requests_for_no_token(
    client: Client, space: str, account: str, body: Json, code: int, message: str
) -> None:
    """A token is refused with the reason."""
    answer = client.post(f"{space}/serviceaccounts/{account}/token", body)
    assert (answer.status, message in answer.message) == (code, True), answer.message


def test_a_secret_is_filled_with_a_token(client: Client, space: str) -> None:
    """A Secret made for an account holds its token as long as both are there; without one it goes."""
    body = {
        "metadata": {"name": "t", "annotations": {"kubernetes.io/service-account.name": "default"}},
        "type": "kubernetes.io/service-account-token",
    }
    client.made(f"{space}/secrets", body)
    data = client.get(f"{space}/secrets/t").json["data"]
    assert base64.b64decode(data["ca.crt"]).startswith(b"-----BEGIN CERTIFICATE-----")
    text = base64.b64decode(data["token"]).decode()
    assert me(client, text)[0] == 201
    client.delete(f"{space}/secrets/t")
    assert me(client, text)[0] == 401
    client.made(f"{space}/secrets", body)
    again = base64.b64decode(client.get(f"{space}/secrets/t").json["data"]["token"]).decode()
    assert (me(client, text)[0], me(client, again)[0]) == (401, 201)
    client.patch(f"{space}/secrets/t", {"data": {"token": base64.b64encode(b"another").decode()}})
    assert me(client, again)[0] == 401
    ghost = {**body, "metadata": {"name": "g", "annotations": {"kubernetes.io/service-account.name": "g"}}}
    client.post(f"{space}/secrets", ghost)
    assert client.get(f"{space}/secrets/g").status == 404
    assert client.post(f"{space}/secrets", {**body, "metadata": {"name": "n"}}).status == 422


def test_tokens_outlive_a_restart_and_accounts_come_back(tmp_path: Path) -> None:
    """The key is kept; a namespace that lost its account while nobody served has one again."""
    with running_server(tmp_path) as client:
        client.made("/api/v1/namespaces", namespace("shop"))
        text = token(client, "/api/v1/namespaces/shop")
    with running_server(tmp_path) as client:
        assert me(client, text)[0] == 201


def test_pods_find_the_server(client: Client) -> None:
    """The Service `kubernetes` and its endpoints are there, and tell where the server listens."""
    port = int(client.prepared.url.rpartition(":")[2])
    root = "/api/v1/namespaces/default"
    service = client.get(f"{root}/services/kubernetes").json["spec"]
    assert (service["clusterIP"], service["ports"][0]["port"]) == ("10.96.0.1", 443)
    (subset,) = client.get(f"{root}/endpoints/kubernetes").json["subsets"]
    slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
    (found,) = client.get(slices, labelSelector="kubernetes.io/service-name=kubernetes").json["items"]
    assert (subset["ports"][0]["port"], found["ports"][0]["port"]) == (port, port)


def test_others_can_verify_tokens(client: Client, space: str) -> None:
    """The issuer says where its keys are, and one of them signed the token."""
    found = client.get("/.well-known/openid-configuration").json
    text = token(client, space)
    assert found["issuer"] == claims(text)["iss"]
    assert found["jwks_uri"].endswith("/openid/v1/jwks")
    (key,) = client.get("/openid/v1/jwks").json["keys"]
    head = json.loads(base64.urlsafe_b64decode(text.split(".")[0] + "=="))
    assert (head["kid"], head["alg"]) == (key["kid"], key["alg"])
