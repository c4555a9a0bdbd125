"""Which resource names exist, and what kind of resource each of them is."""

from __future__ import annotations

from functools import lru_cache

from berth.kube import names

CPU, MEMORY, EPHEMERAL_STORAGE, PODS = "cpu", "memory", "ephemeral-storage", "pods"
HUGE_PAGES_PREFIX = "hugepages-"

_CONTAINER = frozenset({CPU, MEMORY, EPHEMERAL_STORAGE})
_COUNTED = frozenset(
    {
        PODS,
        "resourcequotas",
        "services",
        "replicationcontrollers",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "services.nodeports",
        "services.loadbalancers",
    }
)
_STANDARD = (
    _CONTAINER
    | _COUNTED
    | {f"{scope}.{name}" for scope in ("requests", "limits") for name in _CONTAINER}
    | {"storage", "requests.storage"}
)
# As messages list them; the bare prefix stands for every page size.
POD_LEVEL = (CPU, HUGE_PAGES_PREFIX, MEMORY)


def is_huge_page(name: str) -> bool:
    return name.startswith(HUGE_PAGES_PREFIX)


def is_standard(name: str) -> bool:
    return name in _STANDARD or name.startswith((HUGE_PAGES_PREFIX, f"requests.{HUGE_PAGES_PREFIX}"))


def is_container_resource(name: str) -> bool:
    """Whether a container may ask for this unprefixed name."""
    return name in _CONTAINER or is_huge_page(name)


def is_pod_level(name: str) -> bool:
    """Whether it may be set for a pod as a whole."""
    return name in (CPU, MEMORY) or is_huge_page(name)


def is_native(name: str) -> bool:
    """Whether Kubernetes itself defines the name (unprefixed names belong to it)."""
    return "/" not in name or "kubernetes.io/" in name


@lru_cache(maxsize=1024)
def is_extended(name: str) -> bool:
    """Whether it is a vendor's resource, which must also fit into a quota's ``requests.`` key."""
    if is_native(name) or name.startswith("requests."):
        return False
    return not names.label_key_errors(f"requests.{name}")


def is_whole_number(name: str) -> bool:
    return name in _COUNTED or is_extended(name)


def may_overcommit(name: str) -> bool:
    return is_native(name) and not is_huge_page(name)
