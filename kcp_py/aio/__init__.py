"""asyncio primitives that any program could use.

Belongs here: small building blocks without any word of Kubernetes. Does not belong here: anything that knows of
requests, objects or stores.
"""

from kcp_py.aio.alarms import Alarms
from kcp_py.aio.supervisor import Supervisor

__all__ = ["Alarms", "Supervisor"]
