"""The generic store: one module per verb, for every kind.

Belongs here: the order of steps of a write, optimistic locks, finalizers, paging. Does not belong here: rules of one kind
(strategies), permissions (authz), the form of requests and answers (server).
"""

from kcp_py.registry.store.access import Access
from kcp_py.registry.store.create import create
from kcp_py.registry.store.delete import delete
from kcp_py.registry.store.forms import Form
from kcp_py.registry.store.ownership import apply_configuration, check_configuration, repeat_configuration
from kcp_py.registry.store.read import Current, get, load, load_one
from kcp_py.registry.store.rendered import RenderedPage, can_render, render
from kcp_py.registry.store.scan import Page, Scan, scan
from kcp_py.registry.store.update import Transform, update
from kcp_py.registry.writerequest import FieldManager

__all__ = [
    "Access",
    "Current",
    "FieldManager",
    "Form",
    "Page",
    "RenderedPage",
    "Scan",
    "Transform",
    "apply_configuration",
    "can_render",
    "check_configuration",
    "create",
    "delete",
    "get",
    "load",
    "load_one",
    "render",
    "repeat_configuration",
    "scan",
    "update",
]
