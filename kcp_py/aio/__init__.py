"""asyncio primitives for any program.

Belongs here: small building blocks that do not depend on Kubernetes. Does not belong here: code that depends on requests, objects or
stores.
"""

from kcp_py.aio.alarms import Alarms
from kcp_py.aio.supervisor import Supervisor

__all__ = ["Alarms", "Supervisor"]
