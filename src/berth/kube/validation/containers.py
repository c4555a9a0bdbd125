"""Containers, init containers, their ports and what they mount."""

from __future__ import annotations

import re

from berth.kube import names
from berth.kube.objects import Container, ContainerPort, MountingPod, Pod
from berth.kube.validation.errors import Errors, FieldError, Path
from berth.kube.validation.resources import check_container_resources
from berth.kube.validation.scheduling import check_volumes

RESTART_POLICIES = ("Always", "OnFailure", "Never")
PROTOCOLS = ("SCTP", "TCP", "UDP")
PORT_RANGE = "must be between 1 and 65535, inclusive"
_HOST_PORT = "must match `containerPort` when `hostNetwork` is true"

_port_letters = re.compile(r"[-a-z0-9]+").fullmatch
_one_letter = re.compile(r"[a-z]").search


def check_containers(containers: list[Container], errors: Errors, path: Path) -> None:
    if not containers:
        errors.required(path)
        return
    seen: set[str] = set()
    for i, container in enumerate(containers):
        _check_container(container, errors, (*path, i))
        errors.once(seen, (*path, i, "name"), container.name or "")
    _check_host_port_conflicts(containers, errors, path)


def check_init_containers(
    containers: list[Container], regular: list[Container], errors: Errors, path: Path
) -> None:
    seen = {container.name or "" for container in regular}
    for i, container in enumerate(containers):
        _check_container(container, errors, (*path, i))
        name = container.name or ""
        if name in seen:
            errors.duplicate((*path, i, "name"), name)
        elif name:
            seen.add(name)
        # Init containers run one by one, so each is checked alone, and (as upstream) reported as the first.
        _check_host_port_conflicts([container], errors, path)


def check_images(containers: list[Container], errors: Errors, path: Path) -> None:
    """Only for pods: a template may have an image that is to be replaced, such as a blank."""
    for i, container in enumerate(containers):
        image = container.image or ""
        if image != image.strip():
            errors.invalid((*path, i, "image"), image, "must not have leading or trailing whitespace")


def _check_container(container: Container, errors: Errors, path: Path) -> None:
    errors.named((*path, "name"), container.name, names.dns_label_errors)
    if not container.image:
        errors.required((*path, "image"))
    if container.ports:
        _check_ports(container.ports, errors, (*path, "ports"))
    if container.resources is not None:
        check_container_resources(container.resources, errors, (*path, "resources"))
    errors.one_of((*path, "restartPolicy"), container.restart_policy, sorted(RESTART_POLICIES))


# --- ports --------------------------------------------------------------------------------


def _check_ports(ports: list[ContainerPort], errors: Errors, path: Path) -> None:
    seen: set[str] = set()
    for i, port in enumerate(ports):
        if port.name:
            messages = port_name_errors(port.name)
            errors.invalid_for_each((*path, i, "name"), port.name, messages)
            if not messages:
                errors.once(seen, (*path, i, "name"), port.name)
        if not port.container_port:
            errors.required((*path, i, "containerPort"))
        elif not 1 <= port.container_port <= 65535:
            errors.invalid((*path, i, "containerPort"), port.container_port, PORT_RANGE)
        if port.host_port and not 1 <= port.host_port <= 65535:
            errors.invalid((*path, i, "hostPort"), port.host_port, PORT_RANGE)
        if not port.protocol:
            errors.required((*path, i, "protocol"))
        else:
            errors.one_of((*path, i, "protocol"), port.protocol, PROTOCOLS)


def port_name_errors(name: str) -> list[str]:
    judged = (
        (len(name.encode("utf-8", "surrogatepass")) > 15, "must be no more than 15 characters"),
        (not _port_letters(name), "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"),
        (not _one_letter(name), "must contain at least one letter (a-z)"),
        ("--" in name, "must not contain consecutive hyphens"),
        (name.startswith("-") or name.endswith("-"), "must not begin or end with a hyphen"),
    )
    return [message for is_wrong, message in judged if is_wrong]


def _check_host_port_conflicts(containers: list[Container], errors: Errors, path: Path) -> None:
    seen: set[str] = set()
    for i, container in enumerate(containers):
        for j, port in enumerate(container.ports or ()):
            if port.host_port:
                binding = f"{port.protocol or ''}/{port.host_ip or ''}/{port.host_port}"
                errors.once(seen, (*path, i, "ports", j, "hostPort"), binding)


def check_host_network_ports(containers: list[Container], errors: Errors, path: Path) -> None:
    """With the node's own network a container can only listen on the port it says."""
    for i, container in enumerate(containers):
        for j, port in enumerate(container.ports or ()):
            if (port.host_port or 0) != (port.container_port or 0):
                errors.invalid((*path, i, "ports", j, "hostPort"), port.host_port or 0, _HOST_PORT)


# --- mounts ---------------------------------------------------------------------------------------


def validate_mounts(pod: Pod, mounting: MountingPod) -> list[FieldError]:
    """The mounts of a pod's containers that the API server objects to, beside what `validate_pod` finds."""
    volumes = check_volumes(pod.spec.volumes or [], Errors(), ("spec", "volumes"))
    errors = Errors()
    groups = (("containers", mounting.spec.containers), ("initContainers", mounting.spec.init_containers))
    for group, containers in groups:
        for i, container in enumerate(containers or ()):
            for j, mount in enumerate(container.volume_mounts or ()):
                path = ("spec", group, i, "volumeMounts", j, "name")
                if not mount.name:
                    errors.required(path)
                if (mount.name or "") not in volumes:
                    errors.not_found(path, mount.name or "")
    return errors
