"""CustomResourceDefinitions compiled to served resources.

A compiled CRD is one immutable value, keyed by the hash of everything in the CRD that serving depends on. Clusters whose
CRDs are equal share it, and it goes when its last user goes.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple
from weakref import WeakValueDictionary

import orjson

from kcp_py.aio.offload import Inline, offload
from kcp_py.apimachinery.kinds import GroupResource, GroupVersion
from kcp_py.apimachinery.serializer.protobuf import has_message
from kcp_py.registry.catalog.upstream import NoUpstreamKinds, UpstreamForm, UpstreamKinds
from kcp_py.registry.clusterbudget import Cost
from kcp_py.registry.conversion import NoWebhooks, WebhookConverter, Webhooks
from kcp_py.registry.custom_resources import CustomResourceStrategy, printer_columns
from kcp_py.registry.discovery import version_order
from kcp_py.registry.merge_types import MergeTypes
from kcp_py.registry.resource import ALL_VERBS, Converter, DefaultObjects, ServedResource, storage_version_hash
from kcp_py.registry.scale import read_paths
from kcp_py.registry.subresources import Subresource, scale_entry, status_entry, table_of
from kcp_py.schema.compilation import compile_schema
from kcp_py.schema.contract import CompiledSchema
from kcp_py.schema.crd.names_conditions import is_condition_true
from kcp_py.schema.crd.validation import crd_name
from kcp_py.schema.rules.tree import is_compiler_imported
from kcp_py.schema.structural.nodes import Node, NodesByName
from kcp_py.storage.keys import CUSTOM_RESOURCES, resource_keys

_TERMINATING_VERBS: Final = ("delete", "deletecollection", "get", "list", "watch")
"""What discovery offers of a CRD that is being deleted."""

_COMPILED_BYTES: Final = 20_000
_COMPILED_FACTOR: Final = 8
"""Bytes that a CRD takes when its schemas have been used, by the bytes of its `spec`."""

_RULES: Final = b'"x-kubernetes-validations"'

NONE: Final[Mapping[GroupResource, DefaultObjects]] = MappingProxyType({})


class Settings(NamedTuple):
    """Inputs of the compilation that all CRDs have in common."""

    root: str
    """The prefix of all keys."""
    webhooks: Webhooks
    defaults: Mapping[GroupResource, DefaultObjects] = NONE
    """The objects that clusters have of kinds of Kubernetes without storing them."""
    upstream: UpstreamKinds = NoUpstreamKinds()
    annotated: bool = True
    """See `ServedResource.annotated`."""
    identity: str = CUSTOM_RESOURCES
    """Of the keys; empty where built-in kinds are stored."""


class CompiledCRD:
    """The resources of one CRD, one per served version. Immutable; compared by identity, which is content."""

    __slots__ = ("__weakref__", "cost", "digest", "established", "group", "name", "names", "plural", "resources", "terminating")

    def __init__(self, digest: bytes, crd: Mapping[str, Any], settings: Settings) -> None:
        self.digest = digest
        self.group: str = crd["spec"]["group"]
        self.plural: str = crd["spec"]["names"]["plural"]
        self.name = crd_name(crd["spec"])
        self.names = _held_names(crd)
        """Shared with the CRDs of all clusters that hold the same ones."""
        self.cost: Final = Cost(_COMPILED_BYTES + _COMPILED_FACTOR * len(orjson.dumps(crd["spec"])))
        """The memory of all versions once their schemas have been used."""
        self.established = is_condition_true(crd, "Established")
        self.terminating = is_condition_true(crd, "Terminating") or bool(crd["metadata"].get("deletionTimestamp"))
        if not self.established or self.terminating:
            settings = settings._replace(defaults=NONE)
        self.resources: tuple[ServedResource, ...] = tuple(
            _resources(crd, settings, digest, cost=self.cost, established=self.established, terminating=self.terminating)
        )


class HeldNames(NamedTuple):
    """The names that a CRD holds."""

    name: str
    """Its own."""
    group: str
    accepted: Mapping[str, Any]
    """The well-formed fields of `status.acceptedNames`."""


class LoadedCRD(NamedTuple):
    """A stored CRD: the names that it holds, and its compiled form."""

    names: HeldNames | None
    """None: it is malformed."""
    compiled: CompiledCRD | None
    """None: it is not served."""
    error: MalformedCRDError | None
    """Why it cannot be served."""


def compile_crd(crd: Mapping[str, Any], settings: Settings) -> CompiledCRD:
    """A CRD compiled for one caller, with its defaults filled in and its names accepted in its status."""
    # Nothing else has its content: the digests of its resources are made when something asks for them.
    return CompiledCRD(b"", crd, settings)


class CompiledCRDs:
    """The compiled CRDs that are in use, by content."""

    def __init__(
        self,
        root: str,
        webhooks: Webhooks | None = None,
        defaults: Mapping[GroupResource, DefaultObjects] = NONE,
        *,
        upstream: UpstreamKinds | None = None,
        annotated: bool = True,
    ) -> None:
        """Begin with none.

        Args:
            root: of the keys.
            webhooks: calls those that convert; without it they are not called.
            defaults: the objects that clusters have of Kubernetes' own kinds without storing them.
            upstream: finds these kinds among CRDs; without it, every CRD defines a custom resource.
            annotated: see `ServedResource.annotated`.
        """
        self._settings = Settings(root, webhooks or NoWebhooks(), defaults, upstream or NoUpstreamKinds(), annotated)
        self._compiled: WeakValueDictionary[bytes, CompiledCRD] = WeakValueDictionary()
        self._compiling: dict[bytes, asyncio.Future[CompiledCRD]] = {}
        self.compilations = 0
        """How many CRDs were compiled, rather than shared."""

    def __len__(self) -> int:
        return len(self._compiled)

    def compile(self, crd: Mapping[str, Any]) -> CompiledCRD:
        """The compiled form of a stored CRD, shared by all clusters with a CRD of the same content.

        Raises:
            MalformedCRDError: it cannot be served.
        """
        return self._compile(_digest(crd), crd)

    async def load(self, value: bytes) -> LoadedCRD:
        """Read a stored CRD. A big one is compiled in a thread, once for all callers that wait for it, as is the first one with rules."""
        big = len(value) > Inline.COMPILE or (_RULES in value and not is_compiler_imported())
        parsed = await offload(_parse, value) if big else _parse(value)
        names, crd, digest, error = parsed
        if crd is None:
            return LoadedCRD(names, None, error)
        compiled = self._compiled.get(digest)
        try:
            if compiled is None and big:
                awaited = self._compiling.get(digest)
                if awaited is None:
                    awaited = self._compiling[digest] = asyncio.ensure_future(self._compile_offloaded(digest, crd))
                compiled = await asyncio.shield(awaited)
            elif compiled is None:
                compiled = self._compile(digest, crd)
        except MalformedCRDError as malformed:
            return LoadedCRD(names, None, malformed)
        return LoadedCRD(names, compiled, None)

    def _compile(self, digest: bytes, crd: Mapping[str, Any]) -> CompiledCRD:
        compiled = self._compiled.get(digest)
        if compiled is None:
            self.compilations += 1
            compiled = self._compiled[digest] = self._made(digest, crd)
        return compiled

    async def _compile_offloaded(self, digest: bytes, crd: Mapping[str, Any]) -> CompiledCRD:
        self.compilations += 1
        try:
            compiled = await offload(self._made, digest, crd)
            self._compiled[digest] = compiled
            return compiled
        finally:
            del self._compiling[digest]

    def _made(self, digest: bytes, crd: Mapping[str, Any]) -> CompiledCRD:
        """Raises MalformedCRDError."""
        try:
            return CompiledCRD(digest, crd, self._settings)
        except Exception as error:
            # Whatever it lacks, it serves nothing, and no other fails with it.
            raise MalformedCRDError(f"{type(error).__name__}: {error}") from error


class MalformedCRDError(Exception):
    """A stored CRD that validation would have refused."""


class _Parsed(NamedTuple):
    names: HeldNames | None
    crd: dict[str, Any] | None
    """None: it is not served."""
    digest: bytes
    error: MalformedCRDError | None


def _parse(value: bytes) -> _Parsed:
    names = None
    try:
        crd: dict[str, Any] = orjson.loads(value)
        names = _held_names(crd)
        return _Parsed(names, crd, _digest(crd), None) if is_served(crd) else _Parsed(names, None, b"", None)
    except Exception as error:  # noqa: BLE001 - as above
        return _Parsed(names, None, b"", MalformedCRDError(f"{type(error).__name__}: {error}"))


def _held_names(crd: Mapping[str, Any]) -> HeldNames:
    accepted = (crd.get("status") or {}).get("acceptedNames") or {}
    held: dict[str, Any] = {name: value for name, value in accepted.items() if isinstance(value, str)}
    held["shortNames"] = [name for name in accepted.get("shortNames") or () if isinstance(name, str)]
    return HeldNames(crd["metadata"]["name"], crd["spec"]["group"], held)


def is_served(crd: Mapping[str, Any]) -> bool:
    """Whether requests for the CRD's resource are answered: its names were accepted, or once were."""
    return is_condition_true(crd, "NamesAccepted") or is_condition_true(crd, "Established")


def same_content(value: bytes, other: bytes) -> bool:
    """Whether two states of a CRD, as they are stored, serve the same."""
    one, two = _parse(value), _parse(other)
    return one.error is two.error and one.digest == two.digest


def _digest(crd: Mapping[str, Any]) -> bytes:
    status = crd.get("status") or {}
    content = (
        crd["spec"],
        status.get("acceptedNames"),
        is_condition_true(crd, "Established"),
        is_condition_true(crd, "Terminating") or bool(crd["metadata"].get("deletionTimestamp")),
    )
    return hashlib.sha256(orjson.dumps(content, option=orjson.OPT_SORT_KEYS)).digest()


def _resources(
    crd: Mapping[str, Any], settings: Settings, digest: bytes, *, cost: Cost, established: bool, terminating: bool
) -> Sequence[ServedResource]:
    spec = crd["spec"]
    names = (crd.get("status") or {}).get("acceptedNames") or spec["names"]
    namespaced = spec["scope"] == "Namespaced"
    keys = resource_keys(settings.root, spec["group"], spec["names"]["plural"], namespaced=namespaced, identity=settings.identity)
    versions = spec["versions"]
    storage = next(version for version in versions if version["storage"])
    schemas: dict[bytes, CompiledSchema] = {}
    forms = settings.upstream.forms(spec)
    compiled = {version["name"]: _compiled_schema(version, forms.get(version["name"]), schemas) for version in versions}
    stored = {str(GroupVersion(spec["group"], name)): schema for name, schema in compiled.items()}
    converter = _converter(spec, settings.webhooks)
    if converter is None and forms:
        converter = settings.upstream.converter([forms.get(version["name"]) for version in versions])
    served = {str(GroupVersion(spec["group"], version["name"])): version for version in versions if version["served"]}
    roots: Mapping[str, Node]
    if forms:
        roots = NodesByName(
            {name: form.document if (form := forms.get(version["name"])) else _document(version) for name, version in served.items()}
        )
    else:
        roots = {name: compiled[version["name"]].root for name, version in served.items()}
    models = NodesByName(next((form.models for form in forms.values() if form.own), {}))
    merge_types = MergeTypes(roots, models, large=max(map(len, schemas)) > Inline.COMPILE)
    return [
        ServedResource(
            group=spec["group"],
            version=version["name"],
            resource=spec["names"]["plural"],
            kind=names.get("kind") or spec["names"]["kind"],
            list_kind=names.get("listKind") or spec["names"]["listKind"],
            singular=names.get("singular") or spec["names"]["singular"],
            namespaced=namespaced,
            keys=keys,
            storage_version=storage["name"],
            schema=compiled[version["name"]],
            storage_schema=compiled[storage["name"]],
            stored_schemas=stored,
            converter=converter,
            short_names=tuple(names.get("shortNames") or ()),
            categories=tuple(names.get("categories") or ()),
            verbs=_TERMINATING_VERBS if terminating else ALL_VERBS,
            subresources=_subresources(version, forms.get(version["name"])),
            warnings=_deprecation(spec, version),
            storage_version_hash=storage_version_hash(spec["group"], storage["name"], spec["names"]["kind"]),
            merge_types=merge_types,
            annotated=settings.annotated,
            discoverable=established,
            cost=cost,
            digest=hashlib.sha256(digest + version["name"].encode()).digest() if digest else b"",
            **_rules(spec, version, forms.get(version["name"]), defaults=settings.defaults),
        )
        for version in versions
        if version["served"]
    ]


def _subresources(version: Mapping[str, Any], form: UpstreamForm | None) -> Mapping[str, Subresource]:
    declared = version.get("subresources") or {}
    scale = read_paths(declared.get("scale")) if form is None else form.scale(version)
    status = declared.get("status") is not None
    typed = form is not None and form.own
    found = [*([status_entry(typed=typed)] if status else ()), *([scale_entry(scale)] if scale is not None else ())]
    return table_of(*found, *(form.subresources() if form is not None else ()))


def _rules(
    spec: Mapping[str, Any], version: Mapping[str, Any], form: UpstreamForm | None, *, defaults: Mapping[GroupResource, DefaultObjects]
) -> dict[str, Any]:
    """The fields of a `ServedResource` in which kinds of Kubernetes differ from custom resources."""
    columns = version.get("additionalPrinterColumns")
    selectable = [field["jsonPath"].removeprefix(".") for field in version.get("selectableFields") or ()]
    field_labels = dict(zip(selectable, selectable, strict=True))
    if form is None:
        return {
            "strategy": CustomResourceStrategy(version),
            "columns": printer_columns(columns),
            "typed": False,
            "field_labels": field_labels,
            "document": _document(version),
        }
    return {
        "strategy": form.strategy(version),
        "columns": (form.columns() if not columns else None) or printer_columns(columns),
        "typed": form.own,
        "protobuf": has_message(str(GroupVersion(spec["group"], version["name"])), spec["names"]["kind"]),
        "field_labels": {**field_labels, **form.field_labels()},
        "document": form.document,
        "upstream_model": form.upstream_model if form.own else "",
        "models": form.models,
        "strategic_merge": form.document,
        "default_objects": defaults.get(GroupResource(spec["group"], spec["names"]["plural"])) if form.own else None,
    }


def _converter(spec: Mapping[str, Any], webhooks: Webhooks) -> Converter | None:
    if (spec.get("conversion") or {}).get("strategy") != "Webhook":
        return None
    return WebhookConverter(spec, webhooks)


def _document(version: Mapping[str, Any]) -> Mapping[str, Any]:
    document: Mapping[str, Any] = (version.get("schema") or {}).get("openAPIV3Schema") or {}
    return document


def _compiled_schema(version: Mapping[str, Any], form: UpstreamForm | None, schemas: dict[bytes, CompiledSchema]) -> CompiledSchema:
    """Versions with equal schemas share one compiled schema, which also tells reads that nothing needs converting."""
    document = _document(version)
    key = orjson.dumps(document, option=orjson.OPT_SORT_KEYS)
    if key not in schemas:
        schemas[key] = (form.schema if form is not None else None) or compile_schema(document)
    return schemas[key]


def _deprecation(spec: Mapping[str, Any], version: Mapping[str, Any]) -> tuple[str, ...]:
    if not version.get("deprecated"):
        return ()
    if warning := version.get("deprecationWarning"):
        return (warning,)
    group, kind = spec["group"], spec["names"]["kind"]
    text = f"{group}/{version['name']} {kind} is deprecated"
    order = {candidate["name"]: version_order(candidate["name"]) for candidate in spec["versions"]}
    newer = [
        candidate["name"]
        for candidate in spec["versions"]
        if candidate["served"] and not candidate.get("deprecated") and order[candidate["name"]] < order[version["name"]]
    ]
    if newer:
        text += f"; use {group}/{min(newer, key=order.__getitem__)} {kind}"
    return (text,)
