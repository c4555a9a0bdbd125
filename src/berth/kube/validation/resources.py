"""Resource requirements of containers and of pods as a whole."""

from __future__ import annotations

from collections.abc import Callable

from berth.kube import names
from berth.kube.amounts import quantity, resource_lists, resource_names
from berth.kube.amounts.quantity import Quantity, QuantityError
from berth.kube.objects import PodSpec, RawQuantity, ResourceList, ResourceRequirements
from berth.kube.validation.errors import Errors, Path, key

NEGATIVE = "must be greater than or equal to 0"
NOT_WHOLE = "must be an integer"
_NO_LIMIT = "Limit must be set for non overcommitable resources"

ResourceNameCheck = Callable[[str, Errors, Path], None]


def check_container_resources(resources: ResourceRequirements, errors: Errors, path: Path) -> None:
    _check_requirements(resources, _check_container_name, errors, path)


def check_overhead(overhead: ResourceList, errors: Errors, path: Path) -> None:
    check_container_resources(ResourceRequirements(limits=overhead), errors, path)


def check_pod_resources(spec: PodSpec, resources: ResourceRequirements, errors: Errors, path: Path) -> None:
    """Requirements of the pod as a whole (KEP-2837), alone and against those of its containers."""
    _check_requirements(resources, _check_pod_level_name, errors, path)
    try:
        _check_consistency(spec, resources, errors, path)
    except QuantityError:
        return  # already reported where it stands


def check_amount(name: str, raw: RawQuantity, errors: Errors, path: Path) -> Quantity | None:
    """The amount, or None if the text is no quantity."""
    try:
        amount = quantity.stored(raw)
    except QuantityError as error:
        errors.invalid(path, raw, str(error))
        return None
    if amount.unscaled < 0:
        errors.invalid(path, str(amount), NEGATIVE)
    if resource_names.is_whole_number(name) and amount.milli_value % 1000:
        errors.invalid(path, str(amount), NOT_WHOLE)
    return amount


def _check_requirements(
    resources: ResourceRequirements, check_name: ResourceNameCheck, errors: Errors, path: Path
) -> None:
    limits = _check_list(resources.limits, check_name, errors, (*path, "limits"))
    requests = _check_list(resources.requests, check_name, errors, (*path, "requests"))
    for name, amount in requests.items():
        _check_against_limit(name, amount, limits.get(name), errors, path)
    asked = (resources.limits or {}).keys() | (resources.requests or {}).keys()
    if any(map(resource_names.is_huge_page, asked)) and not asked & {"cpu", "memory"}:
        errors.forbidden(path, "HugePages require cpu or memory")


def _check_list(
    listed: ResourceList | None, check_name: ResourceNameCheck, errors: Errors, path: Path
) -> dict[str, Quantity]:
    amounts = {}
    for name, raw in (listed or {}).items():
        if name != "cpu" and name != "memory":  # noqa: PLR1714 - a tuple is slower, and this runs for every pod
            check_name(name, errors, (*path, key(name)))
        amount = check_amount(name, raw, errors, (*path, key(name)))
        if amount is None:
            continue
        amounts[name] = amount
        if resource_names.is_huge_page(name) and not _fills_pages(name, amount):
            detail = f"{amount} is not positive integer multiple of {name}"
            errors.invalid((*path, key(name)), str(amount), detail)
    return amounts


def _check_against_limit(
    name: str, amount: Quantity, limit: Quantity | None, errors: Errors, path: Path
) -> None:
    overcommit = resource_names.may_overcommit(name)
    if limit is None:
        if not overcommit:
            errors.required((*path, "limits"), _NO_LIMIT)
    elif not overcommit and not amount.equals(limit):
        errors.invalid((*path, "requests"), str(amount), f"must be equal to {name} limit of {limit}")
    elif amount.exceeds(limit):
        detail = f"must be less than or equal to {name} limit of {limit}"
        errors.invalid((*path, "requests"), str(amount), detail)


def _fills_pages(name: str, amount: Quantity) -> bool:
    try:
        size = quantity.read(name.removeprefix(resource_names.HUGE_PAGES_PREFIX))
    except QuantityError:
        return False
    if size.unscaled <= 0 or size.milli_value % 1000 or not size.value:
        return False
    return amount.value % size.value == 0


# --- names ------------------------------------------------------------------------------


def _check_name(name: str, errors: Errors, path: Path) -> None:
    messages = names.label_key_errors(name)
    errors.invalid_for_each(path, name, messages)
    if not messages and "/" not in name and not resource_names.is_standard(name):
        errors.invalid(path, name, "must be a standard resource type or fully qualified")


def _check_container_name(name: str, errors: Errors, path: Path) -> None:
    _check_name(name, errors, path)
    if "/" not in name:
        if not resource_names.is_container_resource(name):
            errors.invalid(path, name, "must be a standard resource for containers")
    elif not resource_names.is_native(name) and not resource_names.is_extended(name):
        errors.invalid(path, name, "doesn't follow extended resource name standard")


def _check_pod_level_name(name: str, errors: Errors, path: Path) -> None:
    before = len(errors)
    _check_name(name, errors, path)
    if len(errors) == before and not resource_names.is_pod_level(name):
        errors.not_supported(path, name, resource_names.POD_LEVEL)


# --- a pod's own requirements against those of its containers ---------------------------------


def _check_consistency(spec: PodSpec, resources: ResourceRequirements, errors: Errors, path: Path) -> None:
    requests, limits = resources.requests or {}, resources.limits or {}
    for field, list_of, own in (
        ("requests", resource_lists.requests_of, requests),
        ("limits", resource_lists.limits_of, limits),
    ):
        for name, total in resource_lists.aggregate(spec, list_of, quantity.stored).items():
            compared = name in own and (field == "requests" or resource_names.is_huge_page(name))
            if compared and total.exceeds(quantity.stored(own[name])):
                detail = f"must be greater than or equal to aggregate container {field} of {total}"
                errors.invalid((*path, field, key(name)), quantity.format_quantity(own[name]), detail)
    for i, container in enumerate(spec.containers or ()):
        own = (container.resources.limits if container.resources else None) or {}
        for name, raw in own.items():
            limit = quantity.stored(limits[name]) if name in limits else None
            if limit is not None and quantity.stored(raw).exceeds(limit):
                detail = f"must be less than or equal to pod limits of {limit}"
                shown = quantity.format_quantity(raw)
                errors.invalid((*path, "containers", i, key(name), "limits"), shown, detail)
