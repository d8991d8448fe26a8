"""The composition root: the one place where everything meets.

Belongs here: building each part from the options and handing it to those that need it, in the order of the layers, and taking all
down again. Does not belong here: any behaviour of its own.
"""

from kcp_py.controlplane.controlplane import ControlPlane

__all__ = ["ControlPlane"]
