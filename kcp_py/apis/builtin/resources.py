"""`builtin_resources`: the built-in kinds as served resources."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from kcp_py.apimachinery.kinds import GroupResource, GroupVersion, GroupVersionKind
from kcp_py.apimachinery.serializer.protobuf import has_message
from kcp_py.apis.admissionregistration import install as admissionregistration
from kcp_py.apis.apiextensions import install as apiextensions
from kcp_py.apis.authentication import install as authentication
from kcp_py.apis.authorization import install as authorization
from kcp_py.apis.certificates import install as certificates
from kcp_py.apis.coordination import install as coordination
from kcp_py.apis.core import install as core
from kcp_py.apis.kcp import install as kcp
from kcp_py.apis.kindrules import Installed
from kcp_py.apis.rbac import install as rbac
from kcp_py.apis.typed.decoding import DeferredSchema
from kcp_py.bootstrap.kinds import BuiltinKind, builtin_kinds, models
from kcp_py.registry.merge_types import MergeTypes
from kcp_py.registry.resource import ServedResource, storage_version_hash
from kcp_py.registry.strategy import Strategy
from kcp_py.registry.subresources import APPROVAL, FINALIZE, Code, Subresource, status_entry, table_of
from kcp_py.schema.models import validation_schema
from kcp_py.schema.structural.nodes import Node, NodesByName
from kcp_py.storage.keys import resource_keys

_REQUEST_KIND: Final = GroupVersionKind("authentication.k8s.io", "v1", "TokenRequest")
_REQUEST_MODEL: Final = "io.k8s.api.authentication.v1.TokenRequest"


@cache
def kind_rules() -> Installed:
    """The rules of all built-in kinds."""
    groups = (core, coordination, authentication, authorization, certificates, rbac, admissionregistration, apiextensions, kcp)
    return {resource: rules for group in groups for resource, rules in group.install().items()}


def builtin_resources(
    root: str, *, strategies: Mapping[GroupResource, Strategy] | None = None, rests: Mapping[GroupResource, Code] | None = None
) -> tuple[ServedResource, ...]:
    """Every built-in kind, in the order in which discovery lists groups and kinds.

    Args:
        root: the store's prefix, such as `/registry`.
        strategies: instead of those of the groups, where a server has settings for them.
        rests: what serves the kinds and subresources that no store holds. Those without an entry are described, and answer no request.
    """
    kinds = builtin_kinds()
    schemas = {
        kind.model: DeferredSchema(validation_schema, kind.model, typed=rules.typed, normalize=rules.normalize)
        for kind in kinds
        for rules in (kind_rules()[GroupResource(kind.group, kind.plural)],)
    }
    strategies, rests = strategies or {}, rests or {}
    return tuple(
        _served(kind, root, schemas, strategy=strategies.get(resource), rests=rests)
        for kind in kinds
        for resource in (GroupResource(kind.group, kind.plural),)
    )


@cache
def _models() -> Mapping[str, Node]:
    """The schemas that those of built-in kinds refer to."""
    return NodesByName(models())


def _documents(plural: str, storage_group: str) -> Mapping[str, Mapping[str, Any]]:
    """The documents of all groups and versions in which the same objects are served."""
    found = {}
    for kind in builtin_kinds():
        group = kind_rules()[GroupResource(kind.group, kind.plural)].storage_group
        if kind.plural == plural and (kind.group if group is None else group) == storage_group:
            found[str(GroupVersion(kind.group, kind.version))] = models()[kind.model]
    return found


def _served(
    kind: BuiltinKind, root: str, schemas: Mapping[str, DeferredSchema], *, strategy: Strategy | None, rests: Mapping[GroupResource, Code]
) -> ServedResource:
    rules = kind_rules()[GroupResource(kind.group, kind.plural)]
    storage_group = kind.group if rules.storage_group is None else rules.storage_group
    stored = next(other for other in builtin_kinds() if (other.group, other.plural) == (storage_group, kind.plural))
    document = models()[kind.model]
    return ServedResource(
        group=kind.group,
        version=kind.version,
        resource=kind.plural,
        kind=kind.kind,
        list_kind=kind.list_kind,
        singular=kind.singular,
        namespaced=kind.namespaced,
        keys=resource_keys(root, storage_group, kind.plural, namespaced=kind.namespaced),
        strategy=strategy or rules.strategy(),
        columns=rules.columns,
        storage_version=stored.version,
        schema=schemas[kind.model],
        storage_schema=schemas[stored.model],
        storage_group=rules.storage_group,
        converter=rules.converter,
        default_objects=rules.default_objects,
        namespace_object=rules.namespace_object,
        inherited=rules.inherited,
        short_names=tuple(kind.short_names),
        categories=tuple(kind.categories),
        verbs=tuple(kind.verbs),
        subresources=_subresources(kind, typed=rules.typed, tokens=rests.get(core.TOKENS)),
        typed=rules.typed,
        protobuf=has_message(str(GroupVersion(kind.group, kind.version)), kind.kind),
        field_labels=rules.field_labels,
        strategic_merge=document if rules.typed else None,
        storage_version_hash=storage_version_hash(stored.group, stored.version, kind.kind) if "list" in kind.verbs else "",
        rest=rests.get(GroupResource(kind.group, kind.plural)),
        # Reviews are answers, which do not belong to the cluster as objects do.
        annotated="get" in kind.verbs,
        document=document,
        upstream_model=kind.model,
        models=models(),
        merge_types=MergeTypes(NodesByName(_documents(kind.plural, storage_group)), _models()),
    )


def _subresources(kind: BuiltinKind, *, typed: bool, tokens: Code | None) -> Mapping[str, Subresource]:
    """The subresources of a kind. `tokens` serves `/token` of service accounts."""
    entries = {entry.name: entry for entry in (APPROVAL, FINALIZE, status_entry(typed=typed), _token(tokens))}
    return table_of(*(entries[name] for name in kind.subresources))


@cache
def _token_schema() -> DeferredSchema:
    return DeferredSchema(validation_schema, _REQUEST_MODEL, typed=True)


def _token(rest: Code | None) -> Subresource:
    """`/token` of service accounts."""
    return Subresource("token", ("create",), _REQUEST_KIND, rest=rest, schema=_token_schema())
