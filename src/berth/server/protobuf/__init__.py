"""Kubernetes' protobuf form of objects, read into the mapping their JSON form would give.

Typed Go clients and many kubectl commands write this form. Objects are only read in it: answers are
JSON, which every client takes; only the OpenAPI document is written, which kubectl takes in no other form.
"""

from berth.server.protobuf.decoding import CONTENT_TYPE, decode
from berth.server.protobuf.wire import ProtobufError, UnknownKindError

__all__ = ["CONTENT_TYPE", "ProtobufError", "UnknownKindError", "decode"]
