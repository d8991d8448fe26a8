"""CustomResourceDefinitions turned into served resources.

A compiled definition is one immutable value, keyed by the hash of everything in the CRD that serving depends on. Clusters whose
CRDs are equal share it, and it goes when its last user goes.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple
from weakref import WeakValueDictionary

import orjson

from kcp_py.aio.aside import run_aside
from kcp_py.apimachinery.fielderrors import FieldError, go_json
from kcp_py.apimachinery.go_floats import format_float
from kcp_py.apimachinery.kinds import GroupVersion
from kcp_py.apimachinery.objectmeta import finalizer_warnings
from kcp_py.apimachinery.table import CUSTOM_RESOURCE_COLUMNS, NAME, UNKNOWN, Column, human_duration
from kcp_py.apimachinery.timestamps import parse_time
from kcp_py.registry.conversion import NoWebhooks, WebhookConverter, Webhooks
from kcp_py.registry.discovery import version_order
from kcp_py.registry.merge_types import MergeTypes
from kcp_py.registry.resource import ALL_VERBS, Converter, ServedResource
from kcp_py.registry.scale import read_paths, replica_problems, status_problems
from kcp_py.registry.strategy import Strategy
from kcp_py.schema.contract import CompiledSchema
from kcp_py.schema.definition import definition_name
from kcp_py.schema.jsonpath import compile_path
from kcp_py.schema.names_conditions import is_condition_true
from kcp_py.schema.structural import compile_schema
from kcp_py.storage.keys import CUSTOM_RESOURCES, resource_keys

_TERMINATING_VERBS: Final = ("delete", "deletecollection", "get", "list", "watch")
"""What discovery offers of a CRD that is being deleted."""

_BIG: Final = 64 * 1024
"""Bytes of a stored CRD from which it is compiled in a thread."""

_INT64_END: Final = 2**63


class CompiledDefinition:
    """The resources of one CRD, one per served version. Immutable; compared by identity, which is content."""

    __slots__ = ("__weakref__", "digest", "established", "group", "name", "plural", "resources", "terminating")

    def __init__(self, digest: bytes, crd: Mapping[str, Any], root: str, webhooks: Webhooks) -> None:
        self.digest = digest
        self.group: str = crd["spec"]["group"]
        self.plural: str = crd["spec"]["names"]["plural"]
        self.name = definition_name(crd["spec"])
        self.established = is_condition_true(crd, "Established")
        self.terminating = is_condition_true(crd, "Terminating") or bool(crd["metadata"].get("deletionTimestamp"))
        self.resources: tuple[ServedResource, ...] = tuple(_resources(crd, root, webhooks, terminating=self.terminating))


class HeldNames(NamedTuple):
    """The names that a CRD holds."""

    name: str
    """Its own."""
    group: str
    accepted: Mapping[str, Any]
    """Of `status.acceptedNames`, what is well formed."""


class LoadedDefinition(NamedTuple):
    """What is known of a stored CRD."""

    names: HeldNames | None
    """None: it is malformed."""
    compiled: CompiledDefinition | None
    """None: it is not served."""
    error: MalformedDefinitionError | None
    """Why it cannot be served."""


class Definitions:
    """Every compiled definition that somebody uses, by content."""

    def __init__(self, root: str, webhooks: Webhooks | None = None) -> None:
        """Begin with none.

        Args:
            root: of the keys.
            webhooks: calls those that convert; without it they are not called.
        """
        self._root = root
        self._webhooks = webhooks or NoWebhooks()
        self._compiled: WeakValueDictionary[bytes, CompiledDefinition] = WeakValueDictionary()
        self._compiling: dict[bytes, asyncio.Future[CompiledDefinition]] = {}
        self.compilations = 0
        """How many definitions were compiled, rather than found to be there."""

    def __len__(self) -> int:
        return len(self._compiled)

    def compile(self, crd: Mapping[str, Any]) -> CompiledDefinition:
        """The compiled form of a stored CRD, shared with everybody whose CRD has the same content.

        Raises:
            MalformedDefinitionError: it cannot be served.
        """
        return self._compile(_digest(crd), crd)

    async def load(self, value: bytes) -> LoadedDefinition:
        """What a CRD as it is stored holds and serves. A big one is compiled in a thread, once for all who ask meanwhile."""
        big = len(value) > _BIG
        parsed = await run_aside(_parse, value) if big else _parse(value)
        names, crd, digest, error = parsed
        if crd is None:
            return LoadedDefinition(names, None, error)
        compiled = self._compiled.get(digest)
        try:
            if compiled is None and big:
                awaited = self._compiling.get(digest)
                if awaited is None:
                    awaited = self._compiling[digest] = asyncio.ensure_future(self._compile_beside(digest, crd))
                compiled = await asyncio.shield(awaited)
            elif compiled is None:
                compiled = self._compile(digest, crd)
        except MalformedDefinitionError as malformed:
            return LoadedDefinition(names, None, malformed)
        return LoadedDefinition(names, compiled, None)

    def _compile(self, digest: bytes, crd: Mapping[str, Any]) -> CompiledDefinition:
        compiled = self._compiled.get(digest)
        if compiled is None:
            self.compilations += 1
            compiled = self._compiled[digest] = _compiled(digest, crd, self._root, self._webhooks)
        return compiled

    async def _compile_beside(self, digest: bytes, crd: Mapping[str, Any]) -> CompiledDefinition:
        self.compilations += 1
        try:
            compiled = await run_aside(_compiled, digest, crd, self._root, self._webhooks)
            self._compiled[digest] = compiled
            return compiled
        finally:
            del self._compiling[digest]


class MalformedDefinitionError(Exception):
    """A stored CRD is not as validation would have it."""


def _compiled(digest: bytes, crd: Mapping[str, Any], root: str, webhooks: Webhooks) -> CompiledDefinition:
    """Raises MalformedDefinitionError."""
    try:
        return CompiledDefinition(digest, crd, root, webhooks)
    except Exception as error:
        # Whatever it lacks, it serves nothing, and no other fails with it.
        raise MalformedDefinitionError(f"{type(error).__name__}: {error}") from error


class _Parsed(NamedTuple):
    names: HeldNames | None
    crd: dict[str, Any] | None
    """None: it is not served."""
    digest: bytes
    error: MalformedDefinitionError | None


def _parse(value: bytes) -> _Parsed:
    names = None
    try:
        crd: dict[str, Any] = orjson.loads(value)
        names = _held_names(crd)
        return _Parsed(names, crd, _digest(crd), None) if is_served(crd) else _Parsed(names, None, b"", None)
    except Exception as error:  # noqa: BLE001 - as above
        return _Parsed(names, None, b"", MalformedDefinitionError(f"{type(error).__name__}: {error}"))


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


def _resources(crd: Mapping[str, Any], root: str, webhooks: Webhooks, *, terminating: bool) -> Sequence[ServedResource]:
    spec = crd["spec"]
    names = (crd.get("status") or {}).get("acceptedNames") or spec["names"]
    namespaced = spec["scope"] == "Namespaced"
    keys = resource_keys(root, spec["group"], spec["names"]["plural"], namespaced=namespaced, identity=CUSTOM_RESOURCES)
    versions = spec["versions"]
    storage = next(version for version in versions if version["storage"])
    schemas: dict[bytes, CompiledSchema] = {}
    compiled = {version["name"]: _compiled_schema(version, schemas) for version in versions}
    stored = {str(GroupVersion(spec["group"], name)): schema for name, schema in compiled.items()}
    converter = _converter(spec, webhooks)
    merge_types = MergeTypes(
        {str(GroupVersion(spec["group"], version["name"])): _document(version) for version in versions if version["served"]},
        large=max(map(len, schemas)) > _BIG,
    )
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
            strategy=CustomResourceStrategy(version),
            columns=printer_columns(version.get("additionalPrinterColumns")),
            storage_version=storage["name"],
            schema=compiled[version["name"]],
            storage_schema=compiled[storage["name"]],
            stored_schemas=stored,
            converter=converter,
            short_names=tuple(names.get("shortNames") or ()),
            categories=tuple(names.get("categories") or ()),
            verbs=_TERMINATING_VERBS if terminating else ALL_VERBS,
            has_status=(version.get("subresources") or {}).get("status") is not None,
            scale=read_paths((version.get("subresources") or {}).get("scale")),
            builtin=False,
            field_labels={
                field["jsonPath"].removeprefix("."): field["jsonPath"].removeprefix(".") for field in version.get("selectableFields") or ()
            },
            warnings=_deprecation(spec, version),
            storage_version_hash=_storage_version_hash(spec["group"], storage["name"], spec["names"]["kind"]),
            document=_document(version),
            merge_types=merge_types,
        )
        for version in versions
        if version["served"]
    ]


def _converter(spec: Mapping[str, Any], webhooks: Webhooks) -> Converter | None:
    if (spec.get("conversion") or {}).get("strategy") != "Webhook":
        return None
    return WebhookConverter(spec, webhooks)


def _document(version: Mapping[str, Any]) -> Mapping[str, Any]:
    document: Mapping[str, Any] = (version.get("schema") or {}).get("openAPIV3Schema") or {}
    return document


def _compiled_schema(version: Mapping[str, Any], schemas: dict[bytes, CompiledSchema]) -> CompiledSchema:
    """Versions with equal schemas share one compiled schema, which also tells reads that nothing needs converting."""
    document = _document(version)
    key = orjson.dumps(document, option=orjson.OPT_SORT_KEYS)
    if key not in schemas:
        schemas[key] = compile_schema(document)
    return schemas[key]


def _storage_version_hash(group: str, version: str, kind: str) -> str:
    return base64.b64encode(hashlib.sha256(f"{group}/{version}/{kind}".encode()).digest()[:8]).decode()


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


class CustomResourceStrategy(Strategy):
    """The rules of custom resources that their schemas do not hold."""

    allow_unconditional_update = False

    def __init__(self, version: Mapping[str, Any]) -> None:
        """The rules of one version, as its CRD has it."""
        self._scale = read_paths((version.get("subresources") or {}).get("scale"))

    def validate(self, obj: dict[str, Any]) -> list[FieldError]:
        """What `/scale` shows has to fit into it."""
        if self._scale is None:
            return []
        return [*replica_problems(obj, self._scale), *status_problems(obj, self._scale)]

    def validate_status_update(self, obj: dict[str, Any], old: dict[str, Any]) -> list[FieldError]:
        """An update through `/status` is not held to the replicas that are asked for elsewhere."""
        del old
        return status_problems(obj, self._scale) if self._scale is not None else []

    def warnings(self, obj: dict[str, Any], old: dict[str, Any] | None) -> list[str]:
        """Finalizers that others could mistake for theirs."""
        return finalizer_warnings(obj["metadata"], old["metadata"] if old else None)


def printer_columns(columns: Sequence[Mapping[str, Any]] | None) -> tuple[Column, ...]:
    """The Table columns of a CRD version: the name, then those declared, or the age where none are."""
    if not columns:
        return CUSTOM_RESOURCE_COLUMNS
    return (NAME, *map(_column, columns))


def _column(document: Mapping[str, Any]) -> Column:
    description = document.get("description") or f"Custom resource definition column (in JSONPath format): {document['jsonPath']}"
    return Column(
        document["name"],
        document["type"],
        document.get("format", ""),
        description,
        document.get("priority", 0),
        _cell(document["type"], document["jsonPath"]),
    )


def _cell(column_type: str, json_path: str) -> Callable[[Mapping[str, Any], float], Any]:
    find = compile_path(json_path)

    def cell(obj: Mapping[str, Any], now: float) -> Any:
        found = find(obj)
        if not found:
            return None
        return _printed(found[0], column_type, now)

    return cell


def _printed(value: Any, column_type: str, now: float) -> Any:
    """A value as its column's type shows it; null where the types do not agree.

    Source: k8s.io/apiextensions-apiserver `pkg/registry/customresource/tableconvertor`, and client-go's JSONPath for texts.
    """
    match column_type, value:
        case _, None:
            return None
        case "string", str():
            return value
        case "string", float():
            return format_float(value)
        case "string", dict() | list():
            return go_json(value, sort=True)
        case "string", _:
            return orjson.dumps(value).decode()
        case "boolean", bool():
            return value
        case _, bool():
            return None
        case "integer", int():
            return value
        case "integer", float():
            # Towards zero; what does not fit becomes the lowest number, as the processors do that upstream runs on.
            return int(value) if -_INT64_END <= value < _INT64_END else -_INT64_END
        case "number", int() | float():
            return value
        case "date", str():
            return _printed_date(value, now)
        case _:
            return None


def _printed_date(text: str, now: float) -> str:
    if text in {"", "null"}:
        return UNKNOWN
    try:
        return human_duration(now - parse_time(text))
    except ValueError:
        return "<invalid>"
