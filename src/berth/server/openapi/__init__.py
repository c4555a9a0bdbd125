"""The API described in OpenAPI: what ``kubectl explain``, validation and code generators read."""

from berth.server.openapi import gnostic
from berth.server.openapi.documents import OpenApi

__all__ = ["OpenApi", "gnostic"]
