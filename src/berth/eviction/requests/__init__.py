from berth.eviction.requests.tracking import EvictionRequests, request_of

__all__ = ["EvictionRequests", "request_of"]
