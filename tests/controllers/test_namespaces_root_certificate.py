"""Who vouches for the server is told in every namespace."""

from __future__ import annotations

from berth.controllers.namespaces import RootCertificatePublisher
from berth.kube.api_resources import CONFIG_MAPS, NAMESPACES
from berth.kube.well_known import ROOT_CA
from tests.support.scripts.script import Script


def test_it_is_everywhere_and_comes_back() -> None:
    """Made with the namespace, made again when deleted, put right when changed; not in one that goes."""
    world = Script(lambda cache: RootCertificatePublisher(cache, "PEM"))
    world.create(NAMESPACES, {"metadata": {"name": "default"}})
    world.settle()
    assert world.get(CONFIG_MAPS, ROOT_CA)["data"] == {"ca.crt": "PEM"}
    world.delete(CONFIG_MAPS, ROOT_CA, grace=0)
    world.settle()
    world.change(CONFIG_MAPS, ROOT_CA, {"data": {"ca.crt": "other"}})
    world.settle()
    assert world.get(CONFIG_MAPS, ROOT_CA)["data"] == {"ca.crt": "PEM"}
