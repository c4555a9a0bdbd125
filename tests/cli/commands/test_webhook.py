"""`berth webhook` as it is started and stopped, and the certificates it makes."""

from __future__ import annotations

import base64
import datetime as dt
import re
import ssl
from pathlib import Path

import click
import pytest
from cryptography import x509
from prometheus_client import CollectorRegistry

from berth.cli.commands.webhook import certificate, command
from berth.live.webhook.component import WebhookMetrics
from tests.support.builders import EXECUTION, ZONE
from tests.support.cli.command import berth
from tests.support.manifests.reviews import apart, pod, review, term
from tests.support.paths import ROOT
from tests.support.processes.process import free_port
from tests.support.processes.webhook import webhook

PAGE = (ROOT / "docs" / "webhook.md").read_text(encoding="utf-8")
EVERYWHERE = pod(affinity=apart(term(namespaceSelector={})))


def test_it_serves_until_it_is_told_to_stop(tmp_path: Path) -> None:
    """The webhook serves with the certificate its helper made, and stops on SIGTERM."""
    with webhook(tmp_path) as running:
        assert running.review(review(pod(apart(term(), rule=EXECUTION)))) == {
            "uid": "705ab4f5",
            "allowed": True,
        }
        refused = running.review(review(pod("{")))
        assert (refused["allowed"], refused["status"]["code"]) == (False, 422)
        assert running.review(review(EVERYWHERE))["allowed"] is False
        assert running.send("/metrics")[0] == 200
        assert running.stop() == 0
        assert '"Refused"' in running.log


def test_its_flags_set_the_limit(tmp_path: Path) -> None:
    """The flags set which rules are limited, which keys allowed and which namespaces exempt."""
    flags = ("--anti-affinity-limit=every-rule", "--exempt-namespace=free", "--allowed-topology-key=rack")
    with webhook(tmp_path, *flags) as running:
        assert running.review(review(pod(affinity=apart(term(ZONE)))))["allowed"] is False
        assert running.review(review(pod(affinity=apart(term("rack")))))["allowed"] is True
        assert running.review(review(EVERYWHERE, namespace="free"))["allowed"] is True


def test_the_limit_can_be_switched_off(tmp_path: Path) -> None:
    """With --anti-affinity-limit=none every rule is allowed."""
    with webhook(tmp_path, "--anti-affinity-limit=none") as running:
        assert running.review(review(EVERYWHERE))["allowed"] is True


def test_there_is_no_webhook_without_tls(tmp_path: Path) -> None:
    """Without a certificate that can be read the webhook does not start."""
    outcome = berth("webhook", "--tls-cert-file=x")
    assert (outcome.code, "give --tls-cert-file and --tls-private-key-file" in outcome.err) == (2, True)
    missing = tmp_path / "tls.crt"
    outcome = berth(
        "webhook", f"--secure-port={free_port()}", f"--tls-cert-file={missing}", "--tls-private-key-file=x"
    )
    assert outcome.code == 2
    assert f"{missing}: the certificate cannot be used" in outcome.err


# --- certificates ---------------------------------------------------------------------------------


def test_a_certificate_is_for_the_service(tmp_path: Path) -> None:
    """With all its names, from an authority that can do nothing else; keys are for their owner only."""
    outcome = berth(
        "webhook", "certificate", "--service=hook", "--namespace=ns", f"--out={tmp_path}", "--days=10"
    )
    assert outcome.code == 0
    trusted = base64.b64decode(outcome.out)
    assert trusted == (tmp_path / "ca.crt").read_bytes()
    assert "hook.ns.svc" in outcome.err
    authority = x509.load_pem_x509_certificate(trusted)
    own = x509.load_pem_x509_certificate((tmp_path / "tls.crt").read_bytes())
    own.verify_directly_issued_by(authority)
    names = own.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert {"hook", "hook.ns", "hook.ns.svc", "hook.ns.svc.cluster.local"} == set(
        names.get_values_for_type(x509.DNSName)
    )
    assert own.not_valid_after_utc - own.not_valid_before_utc < dt.timedelta(days=11)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")
    assert {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {
        "ca.crt": 0o600,
        "tls.crt": 0o600,
        "tls.key": 0o600,
    }


def test_files_that_are_there_stay(tmp_path: Path) -> None:
    """Certificate files that exist are only replaced when asked."""
    arguments = ("webhook", "certificate", f"--out={tmp_path}")
    assert berth(*arguments).code == 0
    before = (tmp_path / "tls.key").read_bytes()
    outcome = berth(*arguments)
    assert (outcome.code, "is there already; --overwrite replaces it" in outcome.err) == (2, True)
    assert (tmp_path / "tls.key").read_bytes() == before
    assert berth(*arguments, "--overwrite").code == 0
    assert (tmp_path / "tls.key").read_bytes() != before


@pytest.mark.parametrize("flag", ["--service=Not.A.Name", "--namespace=x_y", "--out=/dev/null/x"])
def test_a_certificate_that_cannot_be_made_is_a_sentence(flag: str, tmp_path: Path) -> None:
    """A certificate that cannot be made ends in one sentence and code 2."""
    outcome = berth("webhook", "certificate", f"--out={tmp_path}", flag)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("error: ")


# --- the page -------------------------------------------------------------------------------------


def test_every_flag_and_metric_is_documented() -> None:
    """The page lists every flag and every metric of the webhook."""
    rows = set(re.findall(r"^\| `(-?-?[a-z_-]+)", PAGE, re.MULTILINE))
    for each in (command, certificate):
        flags = {option.opts[0] for option in each.params if isinstance(option, click.Option)}
        assert flags <= rows | {"-v"}
    registry = CollectorRegistry()
    WebhookMetrics(registry)
    families = {f"{f.name}_total" if f.type == "counter" else f.name for f in registry.collect()}
    assert families <= rows
