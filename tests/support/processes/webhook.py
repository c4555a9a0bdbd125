"""`berth webhook` as a process of its own, with a certificate it made itself; always stopped in the end."""

from __future__ import annotations

import json
import ssl
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.cli.command import berth
from tests.support.processes.process import BerthProcess, free_port, running_process
from tests.support.waiting import polls

_TIMEOUT = 60.0


@dataclass
class WebhookProcess(BerthProcess):
    """A webhook, and whom to trust when asking it."""

    port: int
    certificates: Path
    ca_bundle: str

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def send(self, path: str, body: bytes | None = None, **headers: str) -> tuple[int, str]:
        """Ask over TLS, trusting nobody but the authority of the certificate."""
        context = ssl.create_default_context(cafile=str(self.certificates / "ca.crt"))
        given = {"content-type": "application/json", **{k.replace("_", "-"): v for k, v in headers.items()}}
        request = urllib.request.Request(f"{self.url}{path}", body, given)  # noqa: S310
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT, context=context) as answer:  # noqa: S310
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def review(self, question: dict[str, Any]) -> dict[str, Any]:
        """The response to a review."""
        status, text = self.send("/validate", json.dumps(question).encode())
        assert status == 200, text
        answer = json.loads(text)
        assert (answer["apiVersion"], answer["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
        response: dict[str, Any] = answer["response"]
        return response


@contextmanager
def webhook(folder: Path, *flags: str) -> Iterator[WebhookProcess]:
    """Start it and wait until it answers."""
    made = berth("webhook", "certificate", "--name=127.0.0.1", f"--out={folder}")
    assert made.code == 0, made.err
    port, log_file = free_port(), folder / "webhook.log"
    command = [sys.executable, "-m", "berth", "webhook", f"--secure-port={port}", *flags]
    command += [f"--tls-cert-file={folder / 'tls.crt'}", f"--tls-private-key-file={folder / 'tls.key'}"]
    with running_process(command, log_file) as started:
        running = WebhookProcess(started.process, log_file, port, folder, made.out.strip())
        _wait(running)
        yield running


def _wait(running: WebhookProcess) -> None:
    for _ in polls(_TIMEOUT):
        assert running.process.poll() is None, running.log
        try:
            if running.send("/readyz")[0] == 200:
                return
        except OSError:
            continue
    raise AssertionError(running.log)
