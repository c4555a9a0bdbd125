"""Reviews: what a component learns here about whoever calls it."""

from __future__ import annotations

import pytest

from tests.support.api.client import Client, Json

TOKENS = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCESS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
METRICS = {"nonResourceAttributes": {"path": "/metrics", "verb": "get"}}


def test_the_servers_token_is_known(client: Client) -> None:
    """A TokenReview of the server's own token authenticates its user."""
    status = client.made(TOKENS, {"spec": {"token": client.prepared.token}})["status"]
    assert status["authenticated"] is True
    assert "system:masters" in status["user"]["groups"]
    asked = {"token": client.prepared.token, "audiences": status["audiences"]}
    assert client.made(TOKENS, {"spec": asked})["status"]["authenticated"] is True


@pytest.mark.parametrize("audiences", [None, ["https://kubernetes.default.svc.cluster.local"]])
def test_another_token_is_not(client: Client, audiences: list[str] | None) -> None:
    """A TokenReview of an unknown token says that it is invalid."""
    spec = {"token": "made-up", **({"audiences": audiences} if audiences else {})}
    status = client.made(TOKENS, {"spec": spec})["status"]
    assert "authenticated" not in status
    assert status["error"] == "invalid bearer token"


def test_a_token_for_somebody_else_is_not_good_here(client: Client) -> None:
    """A TokenReview for another audience does not authenticate."""
    spec = {"token": client.prepared.token, "audiences": ["vault"]}
    assert "authenticated" not in client.made(TOKENS, {"spec": spec})["status"]


def test_a_review_needs_a_token(client: Client) -> None:
    """A TokenReview without a token is a 400."""
    answer = client.post(TOKENS, {"spec": {}})
    assert (answer.status, answer.message) == (400, "token is required for TokenReview in authentication")


@pytest.mark.parametrize(
    ("spec", "allowed"),
    [
        ({"user": "berth-admin", **METRICS}, True),
        ({"user": "ann", "groups": ["system:masters"], **METRICS}, True),
        ({"user": "ann", "groups": ["system:authenticated"], **METRICS}, False),
        ({"user": "ann", "resourceAttributes": {"verb": "get", "resource": "pods"}}, False),
    ],
)
def test_who_may_do_something(client: Client, spec: Json, allowed: bool) -> None:
    """Whom the token stands for, and nobody else."""
    assert client.made(ACCESS, {"spec": spec})["status"]["allowed"] is allowed


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (METRICS, 'spec.user: Invalid value: "": at least one of user or group must be specified'),
        ({"user": "ann"}, "exactly one of nonResourceAttributes or resourceAttributes must be specified"),
        ({"user": "ann", "resourceAttributes": {}, **METRICS}, "cannot be specified in combination with"),
    ],
)
def test_reviews_that_ask_nothing_are_refused(client: Client, spec: Json, message: str) -> None:
    """A SubjectAccessReview without a subject or a question is a 422."""
    answer = client.post(ACCESS, {"spec": spec})
    assert (answer.status, message in answer.message) == (422, True), answer.message
