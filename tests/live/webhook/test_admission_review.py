"""Reviews are read strictly and answered in the API server's own words."""

from __future__ import annotations

import json

import pytest

from berth.kube.validation.errors import FieldError
from berth.live.webhook import admission
from tests.support.manifests.reviews import Json, pod, review


def response(question: Json, errors: list[FieldError], warnings: list[str]) -> Json:
    answer = json.loads(admission.answer(admission.read(json.dumps(question).encode()), errors, warnings))
    assert answer.keys() == {"apiVersion", "kind", "response"}
    assert (answer["apiVersion"], answer["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    found: Json = answer["response"]
    return found


def test_an_allowed_request_is_told_so_and_no_more() -> None:
    """An allowed response has the UID, and warnings only when there are some."""
    assert response(review(pod()), [], []) == {"uid": "705ab4f5", "allowed": True}
    assert response(review(pod()), [], ["hm"])["warnings"] == ["hm"]


def test_a_refusal_has_every_error_as_a_cause() -> None:
    """A refusal lists every error as a cause, in the API server's words."""
    errors = [
        FieldError("a.b", "FieldValueRequired", "give it"),
        FieldError("c", "FieldValueInvalid", "too small", 1),
    ]
    found = response(review(pod(), kind="Deployment", group="apps"), errors, [])
    assert found["allowed"] is False
    assert found["status"] == {
        "status": "Failure",
        "code": 422,
        "reason": "Invalid",
        "message": 'Deployment.apps "web" is invalid: [a.b: Required value: give it, '
        "c: Invalid value: 1: too small]",
        "details": {
            "name": "web",
            "group": "apps",
            "kind": "Deployment",
            "causes": [
                {"reason": "FieldValueRequired", "message": "Required value: give it", "field": "a.b"},
                {"reason": "FieldValueInvalid", "message": "Invalid value: 1: too small", "field": "c"},
            ],
        },
    }


def test_a_pod_without_a_name_is_called_by_its_prefix() -> None:
    """A pod without a name is called by its generateName."""
    unnamed = {"metadata": {"generateName": "web-"}}
    found = response(review(unnamed, name=""), [FieldError("a", "FieldValueRequired")], [])
    assert found["status"]["message"] == 'Pod "web-" is invalid: a: Required value'


def test_refusals_stay_short() -> None:
    """Refusals stay short, whatever the annotation holds."""
    errors = [FieldError("a", "FieldValueInvalid", "no", "x" * 200_000)] * 50
    status = response(review(pod()), errors, ["y" * 5000] * 50)["status"]
    assert len(status["message"]) < 25_000
    assert status["message"].endswith(", and 30 more]")
    assert len(status["details"]["causes"]) == 20


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b'"\xff"', "not JSON"),
        (b"[" * 100_000, "nested too deeply"),
        (b"[]", "not an AdmissionReview: expected a mapping"),
        (b"{}", "not an AdmissionReview"),
        (json.dumps({**review(pod()), "request": None}).encode(), "request"),
        (json.dumps(review(pod(), uid="")).encode(), "request.uid is empty"),
        (json.dumps(review(pod(), uid=7)).encode(), "request.uid: expected a string, got 7"),
        (json.dumps(review([])).encode(), "request.object: expected a mapping"),  # type: ignore[arg-type]
        (json.dumps({**review(pod()), "apiVersion": "admission.k8s.io/v1beta1"}).encode(), "v1beta1"),
        (json.dumps({**review(pod()), "kind": "Pod"}).encode(), "got Pod"),
    ],
)
def test_what_is_no_review_is_malformed(body: bytes, why: str) -> None:
    """A body that is no AdmissionReview is malformed, and the message says why."""
    with pytest.raises(admission.MalformedReviewError, match=r".*") as caught:
        admission.read(body)
    assert why in str(caught.value)
