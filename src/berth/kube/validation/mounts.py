"""What containers mount: only volumes that their pod has."""

from __future__ import annotations

from berth.kube.objects import MountingPod, Pod
from berth.kube.validation.errors import Errors, FieldError
from berth.kube.validation.scheduling import check_volumes


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
