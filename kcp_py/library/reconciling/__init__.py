"""Reconcile functions: controllers from functions of a few lines, in the process of the control plane or in one of their own.

Belongs here: how functions are called, what they are given, and how a program runs them. Does not belong here: queues and elections,
which `controllers.runtime` has, and requests, which `client` has.
"""

from kcp_py.library.reconciling.controllers import Controllers
from kcp_py.library.reconciling.ownership import owned_by
from kcp_py.library.reconciling.running import run_controllers

__all__ = ["Controllers", "owned_by", "run_controllers"]
