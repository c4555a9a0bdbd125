"""Services, which get an address of their own."""

from __future__ import annotations

import ipaddress

from berth.kube.objects import RawObject
from berth.server.registry.fields import spec_of
from berth.server.registry.resources import served
from berth.server.registry.strategy import Registry, Strategy
from berth.server.storage.selectors import paths
from berth.server.tables import cluster as tables

_SERVICE_NETWORK = ipaddress.ip_network("10.96.0.0/12")
FIRST_ADDRESS = str(_SERVICE_NETWORK[1])


class ServiceStrategy(Strategy):
    """A Service keeps the address it got; nothing answers there."""

    def default(self, obj: RawObject) -> None:
        spec = spec_of(obj)
        spec.setdefault("type", "ClusterIP")
        spec.setdefault("sessionAffinity", "None")
        if spec["type"] != "ExternalName":
            spec.setdefault("internalTrafficPolicy", "Cluster")
            spec.setdefault("ipFamilies", ["IPv4"])
            spec.setdefault("ipFamilyPolicy", "SingleStack")
        for port in spec.get("ports") or ():
            port.setdefault("protocol", "TCP")
            port.setdefault("targetPort", port.get("port"))

    def prepare(self, registry: Registry, obj: RawObject, old: RawObject | None) -> None:
        spec = obj["spec"]
        if old is not None and not spec.get("clusterIP"):
            for name in ("clusterIP", "clusterIPs"):
                if name in old["spec"]:
                    spec[name] = old["spec"][name]
        if spec.get("clusterIP") or spec.get("type") == "ExternalName":
            return
        bucket = registry.builtin("", self.resource.plural).bucket
        taken = {record.fields.get("spec.clusterIP") for record in bucket.newest_in("")}
        count = len(taken)
        while (address := str(_SERVICE_NETWORK[count + 1])) in taken:
            count += 1
        spec["clusterIP"], spec["clusterIPs"] = address, [address]


STRATEGIES = (
    ServiceStrategy(
        served("v1", "services", "Service", short="svc", categories="all", subresources="status"),
        columns=tables.SERVICE,
        fields=paths("spec.clusterIP", "spec.type"),
        first_status={"loadBalancer": {}},
        generation=False,
        returns_deleted=True,
    ),
)
