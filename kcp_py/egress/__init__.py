"""HTTPS requests to hosts that others name: webhooks, and whatever else a tenant's object lets the server call.

Belongs here: which networks may be reached, name resolution that is checked and pinned, TLS, connection reuse, and the bounds of time,
size and number. Does not belong here: what is sent and what an answer means, which is with those who ask.
"""

from kcp_py.egress.caller import Caller
from kcp_py.egress.endpoint import Answer, CallError, Endpoint, Service, ServiceResolver
from kcp_py.egress.networks import Networks

__all__ = ["Answer", "CallError", "Caller", "Endpoint", "Networks", "Service", "ServiceResolver"]
