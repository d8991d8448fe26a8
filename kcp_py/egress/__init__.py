"""HTTPS requests to hosts that tenants and operators name, such as webhooks.

Belongs here: the allowed networks, checked and pinned name resolution, TLS, connection reuse, and the bounds of time, size and
number. Does not belong here: the content of requests and the meaning of answers.
"""

from kcp_py.egress.caller import Caller
from kcp_py.egress.clientconfig import endpoint_of
from kcp_py.egress.endpoint import Answer, CallError, Endpoint, Service, ServiceResolver
from kcp_py.egress.networks import ANY_NETWORK, Networks

__all__ = ["ANY_NETWORK", "Answer", "CallError", "Caller", "Endpoint", "Networks", "Service", "ServiceResolver", "endpoint_of"]
