"""Whether an object is one the API server would accept, and if not, why."""

from berth.kube.validation.errors import FieldError
from berth.kube.validation.objects import selector_errors, validate, validate_pod

__all__ = ["FieldError", "selector_errors", "validate", "validate_pod"]
