"""kcp-py: a Kubernetes-compatible control plane that serves very many logical clusters from one process.

What this package exports is the public API; everything else may change. Names are imported when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from kcp_py._version import __version__

if TYPE_CHECKING:
    from kcp_py.aggregated.server import AggregatedServer, serve_aggregated
    from kcp_py.aggregated.settings import Delegation
    from kcp_py.aio.clock import Clock
    from kcp_py.apimachinery import errors, fielderrors
    from kcp_py.apimachinery.kinds import GroupResource, GroupVersionKind, GroupVersionResource
    from kcp_py.authn.authenticator import Authenticator, Credentials
    from kcp_py.authz.authorizer import Authorizer, Decision
    from kcp_py.cli.applications import server_command
    from kcp_py.client.blocking import BlockingClient
    from kcp_py.client.cache import by_label, by_owner
    from kcp_py.client.clusterclient import ClusterClient, ClusterReader
    from kcp_py.client.contract import Client, ObjectList, WatchEvent
    from kcp_py.client.informer import Informer, Informers
    from kcp_py.client.models import ResourceKind
    from kcp_py.client.reflecting import Selection
    from kcp_py.client.remote import RemoteClient
    from kcp_py.client.tap import ObjectChange, ObjectFilter
    from kcp_py.controllers.runtime.controller import Controller, ControllerContext, ControllerSource, Later
    from kcp_py.controllers.runtime.queue import Key
    from kcp_py.controlplane import ControlPlane
    from kcp_py.library.backed import BackedStorage
    from kcp_py.library.channels import Channels
    from kcp_py.library.parts import ObjectPart
    from kcp_py.library.reconciling.controllers import Controllers
    from kcp_py.library.reconciling.events import Recorder
    from kcp_py.library.reconciling.ownership import owned_by
    from kcp_py.library.reconciling.running import run_controllers
    from kcp_py.library.snapshots import SnapshotStorage
    from kcp_py.library.types.columns import Column
    from kcp_py.library.types.fields import DefinitionError
    from kcp_py.library.types.markers import Fixed, Int32, Int64, IntOrString, Quantity, Rule, Schema
    from kcp_py.library.types.metadata import Condition, ObjectMeta, OwnerReference
    from kcp_py.library.types.resource import hook, resource
    from kcp_py.logicalcluster import WILDCARD, Name, Wildcard, parse_name
    from kcp_py.options import Options
    from kcp_py.proxy.application import CachingProxy, ProxySettings
    from kcp_py.proxy.serving import serve_proxy
    from kcp_py.registry.admission import AdmissionPlugin, Attributes, Operation
    from kcp_py.registry.catalog.source import Dependency, EndedWatches, ResourceSource, ServedChange, SourceContext
    from kcp_py.registry.computed import ComputedResource
    from kcp_py.registry.resource import Served, ServedResource
    from kcp_py.registry.rest.storage import ObjectEvent, ObjectsAt, ReadRequest, RestStorage, bookmark
    from kcp_py.registry.stored import StoredResource, StoredVersion
    from kcp_py.registry.strategy import Strategy
    from kcp_py.registry.writerequest import WriteRequest
    from kcp_py.request.context import RequestContext
    from kcp_py.request.requestinfo import RequestInfo
    from kcp_py.request.sight import EVERY_CLUSTER
    from kcp_py.request.user import UserInfo
    from kcp_py.server.chain import Filter
    from kcp_py.server.connection import Connection
    from kcp_py.server.exchange import Exchange, Handler
    from kcp_py.server.filters.concurrency import Fairness, InFlight
    from kcp_py.serving.embedding import serve
    from kcp_py.storage.contract import Compare, Storage
    from kcp_py.storage.wrapping import StorageCall, WrappedStorage
    from kcp_py.tenancy.snapshots import Restored, Snapshot, Snapshots

__all__ = [
    "EVERY_CLUSTER",
    "WILDCARD",
    "AdmissionPlugin",
    "AggregatedServer",
    "Attributes",
    "Authenticator",
    "Authorizer",
    "BackedStorage",
    "BlockingClient",
    "CachingProxy",
    "Channels",
    "Client",
    "Clock",
    "ClusterClient",
    "ClusterReader",
    "Column",
    "Compare",
    "ComputedResource",
    "Condition",
    "Connection",
    "ControlPlane",
    "Controller",
    "ControllerContext",
    "ControllerSource",
    "Controllers",
    "Credentials",
    "Decision",
    "DefinitionError",
    "Delegation",
    "Dependency",
    "EndedWatches",
    "Exchange",
    "Fairness",
    "Filter",
    "Fixed",
    "GroupResource",
    "GroupVersionKind",
    "GroupVersionResource",
    "Handler",
    "InFlight",
    "Informer",
    "Informers",
    "Int32",
    "Int64",
    "IntOrString",
    "Key",
    "Later",
    "Name",
    "ObjectChange",
    "ObjectEvent",
    "ObjectFilter",
    "ObjectList",
    "ObjectMeta",
    "ObjectPart",
    "ObjectsAt",
    "Operation",
    "Options",
    "OwnerReference",
    "ProxySettings",
    "Quantity",
    "ReadRequest",
    "Recorder",
    "RemoteClient",
    "RequestContext",
    "RequestInfo",
    "ResourceKind",
    "ResourceSource",
    "RestStorage",
    "Restored",
    "Rule",
    "Schema",
    "Selection",
    "Served",
    "ServedChange",
    "ServedResource",
    "Snapshot",
    "SnapshotStorage",
    "Snapshots",
    "SourceContext",
    "Storage",
    "StorageCall",
    "StoredResource",
    "StoredVersion",
    "Strategy",
    "UserInfo",
    "WatchEvent",
    "Wildcard",
    "WrappedStorage",
    "WriteRequest",
    "__version__",
    "bookmark",
    "builtin_definitions",
    "by_label",
    "by_owner",
    "errors",
    "fielderrors",
    "hook",
    "owned_by",
    "parse_name",
    "resource",
    "run_controllers",
    "serve",
    "serve_aggregated",
    "serve_proxy",
    "server_command",
]

_HOMES = {
    "AdmissionPlugin": "kcp_py.registry.admission",
    "AggregatedServer": "kcp_py.aggregated.server",
    "Attributes": "kcp_py.registry.admission",
    "Authenticator": "kcp_py.authn.authenticator",
    "Authorizer": "kcp_py.authz.authorizer",
    "BackedStorage": "kcp_py.library.backed",
    "BlockingClient": "kcp_py.client.blocking",
    "CachingProxy": "kcp_py.proxy.application",
    "Channels": "kcp_py.library.channels",
    "Clock": "kcp_py.aio.clock",
    "Client": "kcp_py.client.contract",
    "ClusterClient": "kcp_py.client.clusterclient",
    "ClusterReader": "kcp_py.client.clusterclient",
    "Column": "kcp_py.library.types.columns",
    "Compare": "kcp_py.storage.contract",
    "ComputedResource": "kcp_py.registry.computed",
    "Condition": "kcp_py.library.types.metadata",
    "Connection": "kcp_py.server.connection",
    "ControlPlane": "kcp_py.controlplane",
    "Controller": "kcp_py.controllers.runtime.controller",
    "ControllerContext": "kcp_py.controllers.runtime.controller",
    "ControllerSource": "kcp_py.controllers.runtime.controller",
    "Controllers": "kcp_py.library.reconciling.controllers",
    "Credentials": "kcp_py.authn.authenticator",
    "Decision": "kcp_py.authz.authorizer",
    "DefinitionError": "kcp_py.library.types.fields",
    "Delegation": "kcp_py.aggregated.settings",
    "Dependency": "kcp_py.registry.catalog.source",
    "EVERY_CLUSTER": "kcp_py.request.sight",
    "EndedWatches": "kcp_py.registry.catalog.source",
    "Exchange": "kcp_py.server.exchange",
    "Fairness": "kcp_py.server.filters.concurrency",
    "Filter": "kcp_py.server.chain",
    "Fixed": "kcp_py.library.types.markers",
    "GroupResource": "kcp_py.apimachinery.kinds",
    "GroupVersionKind": "kcp_py.apimachinery.kinds",
    "GroupVersionResource": "kcp_py.apimachinery.kinds",
    "Handler": "kcp_py.server.exchange",
    "InFlight": "kcp_py.server.filters.concurrency",
    "Informer": "kcp_py.client.informer",
    "Informers": "kcp_py.client.informer",
    "Int32": "kcp_py.library.types.markers",
    "Int64": "kcp_py.library.types.markers",
    "IntOrString": "kcp_py.library.types.markers",
    "Key": "kcp_py.controllers.runtime.queue",
    "Later": "kcp_py.controllers.runtime.controller",
    "Name": "kcp_py.logicalcluster",
    "ObjectChange": "kcp_py.client.tap",
    "ObjectEvent": "kcp_py.registry.rest.storage",
    "ObjectFilter": "kcp_py.client.tap",
    "ObjectList": "kcp_py.client.contract",
    "ObjectMeta": "kcp_py.library.types.metadata",
    "ObjectPart": "kcp_py.library.parts",
    "ObjectsAt": "kcp_py.registry.rest.storage",
    "Operation": "kcp_py.registry.admission",
    "Options": "kcp_py.options",
    "OwnerReference": "kcp_py.library.types.metadata",
    "ProxySettings": "kcp_py.proxy.application",
    "Quantity": "kcp_py.library.types.markers",
    "ReadRequest": "kcp_py.registry.rest.storage",
    "Recorder": "kcp_py.library.reconciling.events",
    "RemoteClient": "kcp_py.client.remote",
    "RequestContext": "kcp_py.request.context",
    "RequestInfo": "kcp_py.request.requestinfo",
    "ResourceKind": "kcp_py.client.models",
    "ResourceSource": "kcp_py.registry.catalog.source",
    "RestStorage": "kcp_py.registry.rest.storage",
    "Restored": "kcp_py.tenancy.snapshots",
    "Rule": "kcp_py.library.types.markers",
    "Schema": "kcp_py.library.types.markers",
    "Selection": "kcp_py.client.reflecting",
    "Served": "kcp_py.registry.resource",
    "ServedChange": "kcp_py.registry.catalog.source",
    "ServedResource": "kcp_py.registry.resource",
    "Snapshot": "kcp_py.tenancy.snapshots",
    "SnapshotStorage": "kcp_py.library.snapshots",
    "Snapshots": "kcp_py.tenancy.snapshots",
    "SourceContext": "kcp_py.registry.catalog.source",
    "Storage": "kcp_py.storage.contract",
    "StorageCall": "kcp_py.storage.wrapping",
    "StoredResource": "kcp_py.registry.stored",
    "StoredVersion": "kcp_py.registry.stored",
    "Strategy": "kcp_py.registry.strategy",
    "UserInfo": "kcp_py.request.user",
    "WILDCARD": "kcp_py.logicalcluster",
    "Wildcard": "kcp_py.logicalcluster",
    "WatchEvent": "kcp_py.client.contract",
    "WrappedStorage": "kcp_py.storage.wrapping",
    "WriteRequest": "kcp_py.registry.writerequest",
    "bookmark": "kcp_py.registry.rest.storage",
    "by_label": "kcp_py.client.cache",
    "by_owner": "kcp_py.client.cache",
    "hook": "kcp_py.library.types.resource",
    "owned_by": "kcp_py.library.reconciling.ownership",
    "parse_name": "kcp_py.logicalcluster",
    "resource": "kcp_py.library.types.resource",
    "run_controllers": "kcp_py.library.reconciling.running",
    "serve": "kcp_py.serving.embedding",
    "serve_aggregated": "kcp_py.aggregated.server",
    "serve_proxy": "kcp_py.proxy.serving",
    "server_command": "kcp_py.cli.applications",
}


def __getattr__(name: str) -> Any:
    if name in {"errors", "fielderrors"}:
        return import_module(f"kcp_py.apimachinery.{name}")
    if (home := _HOMES.get(name)) is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)


def builtin_definitions(*names: str) -> list[dict[str, Any]]:
    """CustomResourceDefinitions of kinds of Kubernetes that clusters do not have by themselves, ready to be created in one.

    Args:
        names: as kubectl takes them (`pods`, `Deployment`, `deployments.apps`, `sts`), `*.apps` for a group, or `all`.

    Raises:
        ValueError: a name is of no such kind.
    """
    from kcp_py.apis.upstream.crds import crds_named  # noqa: PLC0415 (the program starts without them)

    return crds_named(names)
