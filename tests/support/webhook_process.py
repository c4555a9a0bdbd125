"""`berth webhook` as a process of its own, with a certificate it made itself; always stopped in the end."""

from __future__ import annotations

import json
import signal
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.command import berth
from tests.support.control_plane import free_port
from tests.system.scheduler.backends import turns

_TIMEOUT = 60.0


@dataclass
class WebhookProcess:
    process: subprocess.Popen[bytes]
    port: int
    certificates: Path
    ca_bundle: str
    log_file: Path

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        return self.log_file.read_text(errors="replace")

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

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(_TIMEOUT)


@contextmanager
def webhook(folder: Path, *flags: str) -> Iterator[WebhookProcess]:
    """Start it and wait until it answers."""
    made = berth("webhook", "certificate", "--name=127.0.0.1", f"--out={folder}")
    assert made.code == 0, made.err
    port, log_file = free_port(), folder / "webhook.log"
    command = [sys.executable, "-m", "berth", "webhook", f"--secure-port={port}", *flags]
    command += [f"--tls-cert-file={folder / 'tls.crt'}", f"--tls-private-key-file={folder / 'tls.key'}"]
    with log_file.open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)  # noqa: S603
    running = WebhookProcess(process, port, folder, made.out.strip(), log_file)
    try:
        _wait(running)
        yield running
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(_TIMEOUT)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait(running: WebhookProcess) -> None:
    for _ in turns(_TIMEOUT):
        assert running.process.poll() is None, running.log
        try:
            if running.send("/readyz")[0] == 200:
                return
        except OSError:
            continue
    raise AssertionError(running.log)
