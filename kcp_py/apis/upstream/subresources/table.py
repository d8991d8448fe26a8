"""Which subresources which kinds have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

from kcp_py.apimachinery.kinds import GroupVersionKind
from kcp_py.apis.upstream.subresources.bindings import BINDING_SCHEMA, Bindings, BindingView
from kcp_py.apis.upstream.subresources.connections import NodeProxy, PodLog, PodProxy, PodStreams, ServiceProxy
from kcp_py.apis.upstream.subresources.evictions import Evictions
from kcp_py.apis.upstream.subresources.objects import ClusterObjects
from kcp_py.apis.upstream.subresources.podparts import EphemeralContainersView, ResizeView
from kcp_py.registry.subresources import Subresource
from kcp_py.registry.views import View
from kcp_py.schema.compilation import compile_schema
from kcp_py.schema.contract import CompiledSchema

_TEXT: Final = {"type": "string"}
_ANY: Final = {"x-kubernetes-preserve-unknown-fields": True}
"""Looked at by the code that uses it."""
_IDENTITY: Final = {"apiVersion": _TEXT, "kind": _TEXT, "metadata": {"type": "object", **_ANY}}
_DELETION: Final = ("gracePeriodSeconds", "preconditions", "orphanDependents", "propagationPolicy", "dryRun")
_UNSAFE: Final = "ignoreStoreReadErrorWithClusterBreakingPotential"
_EVICTION: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        **_IDENTITY,
        "deleteOptions": {"type": "object", "properties": {"apiVersion": _ANY, "kind": _ANY, **dict.fromkeys((*_DELETION, _UNSAFE), _ANY)}},
    },
}
_CHANGED: Final = ("get", "patch", "update")
_STREAM: Final = ("create", "get")
_PROXY: Final = ("create", "delete", "get", "patch", "update")


def subresources_of(group: str, plural: str, objects: ClusterObjects) -> Sequence[Subresource]:
    """The subresources of a kind beyond `/status` and `/scale`. `objects` are those of the cluster of a request."""
    if group:
        return ()
    match plural:
        case "pods":
            return _of_pods(objects)
        case "services":
            return (_proxy("ServiceProxyOptions", ServiceProxy(objects)),)
        case "nodes":
            return (_proxy("NodeProxyOptions", NodeProxy(objects)),)
        case _:
            return ()


def _of_pods(objects: ClusterObjects) -> tuple[Subresource, ...]:
    streams = PodStreams(objects)
    binding = GroupVersionKind("", "v1", "Binding")
    eviction = GroupVersionKind("policy", "v1", "Eviction")
    return (
        _stream("attach", "PodAttachOptions", streams),
        Subresource("binding", ("create",), binding, BindingView(), rest=Bindings(objects), schema=_binding_schema()),
        _part("ephemeralcontainers", EphemeralContainersView()),
        Subresource("eviction", ("create",), eviction, rest=Evictions(objects), schema=_eviction_schema(), accepts=("policy/v1beta1",)),
        _stream("exec", "PodExecOptions", streams),
        Subresource("log", ("get",), connections=PodLog(objects)),
        _stream("portforward", "PodPortForwardOptions", streams),
        _proxy("PodProxyOptions", PodProxy(objects)),
        _part("resize", ResizeView()),
    )


def _part(name: str, view: View) -> Subresource:
    return Subresource(name, _CHANGED, view=view)


def _stream(name: str, kind: str, connections: PodStreams) -> Subresource:
    return Subresource(name, _STREAM, GroupVersionKind("", "v1", kind), connections=connections)


def _proxy(kind: str, connections: PodProxy | ServiceProxy | NodeProxy) -> Subresource:
    return Subresource("proxy", _PROXY, GroupVersionKind("", "v1", kind), connections=connections, continues=True)


@cache
def _eviction_schema() -> CompiledSchema:
    return compile_schema(_EVICTION, custom=False)


@cache
def _binding_schema() -> CompiledSchema:
    return compile_schema(BINDING_SCHEMA, custom=False)
