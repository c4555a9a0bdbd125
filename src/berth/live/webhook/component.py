"""`berth webhook` as a whole: an HTTPS server that answers AdmissionReviews.

It makes no requests, so it needs no rights in the cluster, unless it is to charge quotas.  A bad request or a
fault of the webhook is answered with an HTTP error, and its failurePolicy says what becomes of the object.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, Counter, Histogram
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from berth.kube.affinity.anti_affinity import AdmissionPolicy
from berth.kube.quota.exclusive import LARGEST
from berth.kube.well_known import JSON
from berth.live.component.endpoint import ServingSettings
from berth.live.component.serving import serve
from berth.live.connection import connect
from berth.live.logs import say, v
from berth.live.webhook import admission
from berth.live.webhook.admission import PODS, AdmissionRequest, admit
from berth.live.webhook.charging import QuotaCharger
from berth.metrics import process_registry

_log = logging.getLogger(__name__)

PATH = "/validate"
# An API server takes 3 MiB; a review has the object twice.
_LARGEST = 8 << 20
_LARGE = 64 << 10  # from here on reading may take longer than others should wait
_PATIENCE = 10.0  # seconds for a request to arrive; API servers wait no longer for the answer by default
_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChargingSettings:
    """Through which API server quotas are charged, and for which of the nodes that a pod could get."""

    kubeconfig: str | None = None
    context: str | None = None
    estimate: str = LARGEST


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookSettings:
    """Where the webhook serves, and what it asks of objects."""

    serving: ServingSettings
    policy: AdmissionPolicy = field(default_factory=AdmissionPolicy)
    charging: ChargingSettings | None = None


class WebhookMetrics:
    """What is counted of requests and answers."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        self.requests = Counter(
            "berth_webhook_requests",
            "Reviews answered, by the kind of the object and whether it was allowed.",
            ("allowed", "kind"),
            registry=registry,
        )
        self.errors = Counter(
            "berth_webhook_errors",
            "Requests without an answer, by the HTTP status given instead.",
            ("code",),
            registry=registry,
        )
        self.duration = Histogram(
            "berth_webhook_request_duration_seconds",
            "From the request's head to its answer.",
            buckets=_BUCKETS,
            registry=registry,
        )


class Webhook:
    """Answers reviews by a policy."""

    def __init__(
        self, policy: AdmissionPolicy, metrics: WebhookMetrics, charger: QuotaCharger | None = None
    ) -> None:
        self._policy = policy
        self._metrics = metrics
        self._charger = charger

    async def validate(self, request: Request) -> Response:
        start = time.perf_counter()
        try:
            content = await self._answer(request)
        except HTTPException as error:
            self._metrics.errors.labels(str(error.status_code)).inc()
            say(_log, v(2), "Bad request", status=error.status_code, err=error.detail)
            return PlainTextResponse(f"{error.detail}\n", error.status_code)
        except ClientDisconnect:
            self._metrics.errors.labels("499").inc()  # the client has closed the connection
            return PlainTextResponse("", 400)
        except Exception:  # noqa: BLE001 - the failure policy decides, and the log says where
            self._metrics.errors.labels("500").inc()
            _log.exception("Cannot judge a request")
            return PlainTextResponse("internal error\n", 500)
        self._metrics.duration.observe(time.perf_counter() - start)
        return Response(content, media_type=JSON)

    async def _answer(self, request: Request) -> bytes:
        given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if given != JSON:
            raise HTTPException(415, f"expected {JSON}, got {given or 'no content type'}")
        body = await _body(request)
        try:
            question, answer, allowed = (
                self._admitted(body) if len(body) < _LARGE else await asyncio.to_thread(self._admitted, body)
            )
            why = await self._charger.charge(question) if allowed and self._charger is not None else ""
        except admission.MalformedReviewError as error:
            raise HTTPException(400, str(error)) from None
        self._metrics.requests.labels(str(allowed and not why).lower(), _kind(question)).inc()
        return admission.refusal(question, why) if why else answer

    def _admitted(self, body: bytes) -> tuple[AdmissionRequest, bytes, bool]:
        request = admission.read(body)
        verdict = admit(request, self._policy)
        allowed = not verdict.errors
        say(
            _log,
            v(4) if allowed else v(2),
            "Allowed" if allowed else "Refused",
            kind=_kind(request),
            namespace=request.namespace,
            name=request.name,
            operation=request.operation,
            errors=[error.field for error in verdict.errors],
        )
        return request, admission.answer(request, verdict.errors, verdict.warnings), allowed


def _kind(request: AdmissionRequest) -> str:
    return request.kind.kind if (request.kind.group, request.kind.kind) in PODS else "other"


async def _body(request: Request) -> bytes:
    body = bytearray()
    try:
        async with asyncio.timeout(_PATIENCE):
            async for chunk in request.stream():
                body += chunk
                if len(body) > _LARGEST:
                    raise HTTPException(413, f"a review may have {_LARGEST} bytes at most")
    except TimeoutError:
        raise HTTPException(408, f"the request did not arrive within {_PATIENCE:.0f} s") from None
    return bytes(body)


@contextlib.asynccontextmanager
async def serving(settings: WebhookSettings) -> AsyncIterator[int]:
    """Answer reviews as long as the context lasts; gives the port."""
    registry = process_registry()
    async with contextlib.AsyncExitStack() as stack:
        charger = None
        if (charging := settings.charging) is not None:
            client = await stack.enter_async_context(await connect(charging.kubeconfig, charging.context))
            charger = QuotaCharger(client, charging.estimate)
        webhook = Webhook(settings.policy, WebhookMetrics(registry), charger)
        routes = [Route(PATH, webhook.validate, methods=["POST"])]
        port = await stack.enter_async_context(serve(settings.serving, {}, registry, routes=routes))
        say(_log, logging.INFO, "Serving securely", address=settings.serving.host, port=port, path=PATH)
        yield port


async def run(settings: WebhookSettings) -> None:
    """Answer reviews until cancelled.

    Raises:
        berth.live.component.serving.ServingError: the port is taken, or the certificate cannot be used.
        berth.live.connection.ConnectionSettingsError: quotas are to be charged, and no API server is given.
    """
    async with serving(settings):
        await asyncio.Event().wait()
