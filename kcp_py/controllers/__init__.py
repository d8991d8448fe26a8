"""Reconcile loops: they make the rest of a cluster follow the objects that clients write.

Belongs here: controllers and the small runtime that they share. One set of controllers serves all logical clusters; it is driven by
changes, so clusters in which nothing happens cost nothing. Does not belong here: anything that goes around `client`, and anything of HTTP.
"""

from kcp_py.controllers.names import check_selection
from kcp_py.controllers.runtime.controller import ControllerFactory
from kcp_py.controllers.runtime.election import LeaderElection
from kcp_py.controllers.runtime.queuemetrics import describe_queues
from kcp_py.controllers.settings import ControllerSettings
from kcp_py.controllers.starting import is_elected, start_controllers

__all__ = [
    "ControllerFactory",
    "ControllerSettings",
    "LeaderElection",
    "check_selection",
    "describe_queues",
    "is_elected",
    "start_controllers",
]
