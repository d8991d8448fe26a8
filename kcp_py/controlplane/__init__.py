"""The composition root, which connects all parts of a server.

Belongs here: creating each part from the options, passing it to the parts that need it, in the order of the layers, and closing all
of them. Does not belong here: behaviour of its own.
"""

from kcp_py.controlplane.controlplane import ControlPlane

__all__ = ["ControlPlane"]
