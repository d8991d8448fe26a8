"""CRDs of upstream kinds: properties that a CRD cannot express are completed from the data of the kind.

A CRD with the schema that is published for the kind is served as the kind itself, as strict with types and as lenient with lists as
upstream's decoder. One with another schema, such as kcp's, stays a custom resource with its own rules. Strategic merge
patch and field ownership get the missing keys.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

from kcp_py.apimachinery.meta.table import Column
from kcp_py.apis.upstream.autoscaler_conversion import convert_autoscaler
from kcp_py.apis.upstream.columns import UPSTREAM_COLUMNS
from kcp_py.apis.upstream.crds import CONVERTED
from kcp_py.apis.upstream.schemas import structural_schema
from kcp_py.apis.upstream.strategy import DEFAULTERS, FIELD_PATHS, UpstreamSchema, UpstreamStrategy
from kcp_py.apis.upstream.subresources.objects import ClusterObjects
from kcp_py.apis.upstream.subresources.table import subresources_of
from kcp_py.bootstrap.kinds import REFERENCE_PREFIX
from kcp_py.bootstrap.upstream_kinds import UpstreamKind, upstream_kinds, upstream_models
from kcp_py.registry.resource import Converter
from kcp_py.registry.scale import ScalePaths, read_paths
from kcp_py.registry.strategy import Strategy
from kcp_py.registry.subresources import Subresource
from kcp_py.schema.contract import CompiledSchema

Schema = Mapping[str, Any]

_EXTENSIONS: Final = ("x-kubernetes-patch-strategy", "x-kubernetes-patch-merge-key", "x-kubernetes-map-type")
_LIST_TYPE: Final = "x-kubernetes-list-type"
_LIST_MAP_KEYS: Final = "x-kubernetes-list-map-keys"
_SELECTOR: Final = ("spec", "selector")


class KindForm(NamedTuple):
    """The data of the kind in one version of a CRD."""

    kind: UpstreamKind
    own: bool
    """Whether the CRD has the schema that is published for the kind."""
    document: Schema
    """Of the kind itself, or the CRD's, completed."""
    models: Mapping[str, Schema]
    """What `$ref`s in the document refer to."""
    schema: CompiledSchema | None
    """Of the kind itself; None: the CRD's."""
    objects: ClusterObjects | None = None
    """Of the cluster of a request, for the subresources of the kind; None: it has none."""
    clock: Callable[[], float] = time.time
    """Unix seconds."""

    @property
    def upstream_model(self) -> str:
        """The name under which Kubernetes publishes the type."""
        return self.kind.model

    def strategy(self, version: Mapping[str, Any]) -> Strategy:
        """The rules of the kind."""
        return UpstreamStrategy(self.kind, version, clock=self.clock)

    def columns(self) -> Sequence[Column] | None:
        """What `kubectl get` shows of the kind; None: nothing in particular."""
        return UPSTREAM_COLUMNS.get((self.kind.group, self.kind.plural))

    def scale(self, version: Mapping[str, Any]) -> ScalePaths | None:
        """The paths of the CRD; where they name no selector, the kind's is shown."""
        paths = read_paths((version.get("subresources") or {}).get("scale"))
        return paths._replace(label_selector=_SELECTOR) if paths is not None and not paths.selector else paths

    def subresources(self) -> Sequence[Subresource]:
        """What clients of the kind expect, unless the CRD defines it in another way."""
        return subresources_of(self.kind.group, self.kind.plural, self.objects) if self.own and self.objects is not None else ()

    def field_labels(self) -> Mapping[str, str]:
        """What field selectors can name: label -> dotted path."""
        return {label: FIELD_PATHS.get(label, label) for label in self.kind.field_labels}


def kind_forms(
    spec: Mapping[str, Any], objects: ClusterObjects | None = None, clock: Callable[[], float] = time.time
) -> Mapping[str, KindForm]:
    """The versions of a CRD that define a kind of Kubernetes, by name.

    Args:
        spec: of the CRD.
        objects: what the subresources of the kind work with; None for a kind without them.
        clock: Unix seconds.
    """
    found = {version["name"]: kind_form(spec, version) for version in spec["versions"]}
    return {version: form._replace(objects=objects, clock=clock) for version, form in found.items() if form is not None}


def kind_form(spec: Mapping[str, Any], version: Mapping[str, Any]) -> KindForm | None:
    """The kind of Kubernetes that a version of a CRD defines; None for any other. `spec` is that of the CRD."""
    kind = upstream_kinds().get((spec["group"], version["name"], spec["names"]["kind"]))
    if kind is None:
        return None
    document = _document(version)
    if _is_own(kind, spec, document):
        return KindForm(kind, True, upstream_models()[kind.model], upstream_models(), _schema(kind.model))
    return KindForm(kind, False, completed(document, upstream_models()[kind.model]), {}, None)


def is_own(spec: Mapping[str, Any], version: Mapping[str, Any]) -> bool:
    """Whether a version of a CRD defines a kind of Kubernetes exactly as it is published (`KindForm.own`). Compiles nothing."""
    kind = upstream_kinds().get((spec["group"], version["name"], spec["names"]["kind"]))
    return kind is not None and _is_own(kind, spec, _document(version))


def _document(version: Mapping[str, Any]) -> Schema:
    return (version.get("schema") or {}).get("openAPIV3Schema") or {}


def _is_own(kind: UpstreamKind, spec: Mapping[str, Any], document: Schema) -> bool:
    same_names = kind.plural == spec["names"]["plural"] and kind.namespaced == (spec["scope"] == "Namespaced")
    return same_names and document == structural_schema(kind.model)


def converter_of(forms: Iterable[KindForm | None]) -> Converter | None:
    """What converts between the versions of a CRD that are those of a kind with several forms; None for any other."""
    kinds = {(form.kind.group, form.kind.kind) if form is not None and form.own else None for form in forms}
    return _convert_autoscalers if len(kinds) == 1 and kinds <= CONVERTED else None


async def _convert_autoscalers(objects: Sequence[dict[str, Any]], api_version: str) -> list[dict[str, Any]]:
    check = _schema("io.k8s.api.autoscaling.v2.HorizontalPodAutoscaler").type_error
    return [convert_autoscaler(obj, api_version, check) for obj in objects]


@cache
def _schema(model: str) -> CompiledSchema:
    """One for all clusters and, where versions are the same, for all of them."""
    own = next(row for row in upstream_kinds().values() if row.model == model)
    versions = [row for row in upstream_kinds().values() if (row.group, row.kind) == (own.group, own.kind)]
    same = next(row for row in versions if structural_schema(row.model) == structural_schema(model))
    if same is not own:
        return _schema(same.model)
    return UpstreamSchema(model, DEFAULTERS.get(model))


def completed(document: Schema, published: Schema) -> dict[str, Any]:
    """A CRD's schema with the extensions of the kind that it lacks, down to where the two say nothing of each other.

    Args:
        document: of the CRD.
        published: of the kind, with references to `upstream_models()`.
    """
    published = _resolved(published)
    result = dict(document)
    theirs = published.get("properties") or {}
    if isinstance(properties := document.get("properties"), Mapping):
        result["properties"] = {
            name: _completed_field(child, theirs[name]) if name in theirs and isinstance(child, Mapping) else child
            for name, child in properties.items()
        }
    for key in ("items", "additionalProperties"):
        if isinstance(child := document.get(key), Mapping) and isinstance(other := published.get(key), Mapping):
            result[key] = completed(child, other)
    return result


def _completed_field(document: Schema, published: Schema) -> dict[str, Any]:
    result = completed(document, published)
    known = {**_resolved(published), **published}
    for name in _EXTENSIONS:
        if name in known:
            result.setdefault(name, known[name])
    if document.get("type") == "array" and _LIST_TYPE in known:
        items = document.get("items")
        fields = (items.get("properties") or {}) if isinstance(items, Mapping) else {}
        if _LIST_TYPE not in document and set(known.get(_LIST_MAP_KEYS, ())) <= fields.keys():
            result |= {name: known[name] for name in (_LIST_TYPE, _LIST_MAP_KEYS) if name in known}
    return result


def _resolved(schema: Schema) -> Schema:
    parts = schema.get("allOf")
    reference = (parts[0] if parts else schema).get("$ref")
    return schema if reference is None else upstream_models()[reference.removeprefix(REFERENCE_PREFIX)]
