"""Checks manifests as a server does on create, without a server: decoding, pruning, defaults, schema, CEL rules and the rules of the kind.

Each step is the one of the server: `registry.rest.conform` brings objects into the form of their kind, `registry.store` prepares and checks
them. What depends on the state of a cluster is not checked: names that are taken, namespaces, quotas, and what only an update may change.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.kinds import CRDS
from kcp_py.apimachinery.meta.generate_name import generate_name
from kcp_py.apimachinery.serializer.decoding import DecodeError
from kcp_py.apis.apiextensions.strategy import CRDStrategy
from kcp_py.apis.builtin.resources import builtin_resources
from kcp_py.apis.upstream.provider import UpstreamKinds
from kcp_py.bootstrap.upstream_kinds import upstream_kinds
from kcp_py.cli.manifests import Document, elements
from kcp_py.golang.types import json_type
from kcp_py.registry.catalog.compilation import CompiledCRDs, MalformedCRDError
from kcp_py.registry.resource import ServedResource
from kcp_py.registry.rest.conform import cannot_be_handled, conform
from kcp_py.registry.store.access import Access
from kcp_py.registry.store.create import prepare_new
from kcp_py.registry.store.validation import check
from kcp_py.registry.writerequest import Decoding
from kcp_py.storage.memory import MemoryStorage

ROOT: Final = "/registry"
CRD: Final = ("apiextensions.k8s.io/v1", "CustomResourceDefinition")
ESTABLISHED: Final = [{"type": "NamesAccepted", "status": "True"}, {"type": "Established", "status": "True"}]

_STRICT: Final = re.compile(r'(?:(?:unknown|duplicate) field "(?P<path>.*)"|line (?P<line>[0-9]+): key .* already set in map)')
_DECODED: Final = re.compile(r"Go struct field [^. ]+\.(?P<path>\S+) of type")
_LINE: Final = re.compile(r"\bline ([0-9]+):")


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong with a manifest.

    Attributes:
        file: as it was given.
        line: in the file, counted from one.
        kind: of the object; empty where it has none.
        name: of the object; empty where it has none.
        severity: an error refuses the object, a warning does not.
        field: path; empty where the fault is not about one field.
        message: as a server words it, without the field.
    """

    file: str
    line: int
    kind: str
    name: str
    severity: Literal["error", "warning"]
    field: str
    message: str

    @property
    def text(self) -> str:
        """Field and message, as in the response of a server."""
        return f"{self.field}: {self.message}" if self.field else self.message


class _Object(NamedTuple):
    """An object that is to be judged."""

    document: Document
    value: dict[str, Any]
    repeated: list[str]
    """The errors of strict decoding of its document."""


class Validator:
    """Judges manifests by the kinds that every cluster has, by CRDs, and if asked to by Kubernetes' own kinds."""

    def __init__(self, *, kubernetes_kinds: bool = False, ignore_unknown_kinds: bool = False) -> None:
        """Begin without CRDs.

        Args:
            kubernetes_kinds: know pods, deployments and all others that `kcp-py builtin install` knows.
            ignore_unknown_kinds: find no fault in objects of kinds that are not known.
        """
        resources = builtin_resources(ROOT)
        names = frozenset((resource.group, resource.resource) for resource in resources)
        resources = builtin_resources(ROOT, strategies={CRDS.group_resource: CRDStrategy(builtin=names)})
        self._served = {(resource.group_version, resource.kind): resource for resource in resources}
        self._kubernetes_kinds = kubernetes_kinds
        self._ignore_unknown_kinds = ignore_unknown_kinds
        self._broken: dict[tuple[str, str], str] = {}
        self._crds = CompiledCRDs(ROOT, upstream=UpstreamKinds())
        self._access = Access(MemoryStorage())
        self.objects = 0
        """How many objects were judged."""

    async def validate(self, documents: Iterable[Document]) -> list[Fault]:
        """Judge documents, CRDs first, so that their order does not matter.

        Returns:
            Every fault, object by object in the order of the documents, and line by line.
        """
        found: list[list[Fault]] = []
        waiting: list[tuple[list[Fault], _Object]] = []
        for document in documents:
            for item in self._objects(document):
                faults: list[Fault] = []
                found.append(faults)
                if isinstance(item, Fault):
                    faults.append(item)
                elif (item.value["apiVersion"], item.value["kind"]) == CRD:
                    faults += await self._define(item)
                else:
                    waiting.append((faults, item))
        for kept, item in waiting:
            kept.extend(await self._check(item))
        return [fault for faults in found for fault in sorted(faults, key=lambda fault: fault.line)]

    def _objects(self, document: Document) -> Iterator[_Object | Fault]:
        """The objects of a document, and faults in the place of other values."""
        try:
            value, repeated = document.decode()
        except DecodeError as error:
            yield _unreadable(document, str(error))
            return
        for element in elements(document, value):
            if element is not document:
                value, repeated = element.decode()
            if value is None:
                continue
            self.objects += 1
            if problem := _shape_problem(value):
                yield Fault(element.file, element.line(""), "", "", "error", "", problem)
            else:
                yield _Object(element, value, repeated)

    async def _define(self, item: _Object) -> list[Fault]:
        """Check a CRD. The kind that it defines is known from then on."""
        document, crd, _ = item
        kinds = list(_kinds_of(crd.get("spec")))
        faults = await self._check(item)
        if any(fault.severity == "error" for fault in faults):
            self._broken |= dict.fromkeys(kinds, f"{document.file}:{document.line('')}")
            return faults
        crd["status"] = {"acceptedNames": crd["spec"]["names"], "conditions": ESTABLISHED}
        try:
            compiled = self._crds.compile(crd)
        except MalformedCRDError as error:
            report = _Report(document, crd)
            report.error(f"the definition is valid and cannot be served: {error}")
            self._broken |= dict.fromkeys(kinds, f"{document.file}:{document.line('')}")
            return [*faults, *report.faults]
        for resource in compiled.resources:
            self._served[resource.group_version, resource.kind] = resource
        for kind in kinds:
            self._broken.pop(kind, None)
        return faults

    async def _check(self, item: _Object) -> list[Fault]:
        """Every fault that the response to a create of an object would report."""
        document, obj, repeated = item
        kind = (obj["apiVersion"], obj["kind"])
        report = _Report(document, obj)
        resource = self._find(*kind)
        if resource is None:
            if kind in self._broken:
                report.error(f"its definition is invalid: {self._broken[kind]}", "kind")
            elif not self._ignore_unknown_kinds:
                report.error(_unknown(*kind), "kind")
            return report.faults
        warnings: list[str] = []
        try:
            decoding = Decoding(document.body, document.media, repeated)
            await conform(obj, resource, decoding, field_validation="Warn", warnings=warnings)
            strict = [warning for warning in warnings if _STRICT.fullmatch(warning)]
            for text in strict:
                report.strict(text, cannot_be_handled(resource, "strict decoding error: ").message)
            warnings = [warning for warning in warnings if warning not in strict]
            namespace = _prepare_place(obj, resource)
            prepare_new(resource, namespace, obj, uid=self._access.new_uid(), now=self._access.now())
            metadata = obj["metadata"]
            if not metadata.get("name") and isinstance(base := metadata.get("generateName"), str) and base:
                metadata["name"] = generate_name(base, random.randrange)
            await check(resource, obj, None, warnings, size=len(document.body))
        except StatusError as error:
            report.refusal(error)
        for warning in [*resource.warnings, *warnings]:
            report.warning(warning)
        return report.faults

    def _find(self, api_version: str, kind: str) -> ServedResource | None:
        found = self._served.get((api_version, kind))
        if found is None and self._kubernetes_kinds and (api_version, kind) not in self._broken:
            group, version = _group_version(api_version)
            if known := upstream_kinds().get((group, version, kind)):
                from kcp_py.apis.upstream.resources import upstream_resources

                for resource in upstream_resources(ROOT, [f"{known.plural}.{group or 'core'}"]):
                    self._served.setdefault((resource.group_version, resource.kind), resource)
                found = self._served.get((api_version, kind))
        return found


class _Report:
    """The faults of one object."""

    def __init__(self, document: Document, obj: Mapping[str, Any]) -> None:
        self._document = document
        self._kind = obj["kind"]
        metadata = obj.get("metadata")
        name = metadata.get("name") or metadata.get("generateName") if isinstance(metadata, dict) else ""
        self._name = name if isinstance(name, str) else ""
        self.faults: list[Fault] = []

    def error(self, message: str, path: str = "", *, line: int | None = None, field: str = "") -> None:
        """Add an error at the line of a path, or at a line."""
        at = self._document.line(path) if line is None else line
        self.faults.append(Fault(self._document.file, at, self._kind, self._name, "error", field, message))

    def warning(self, message: str) -> None:
        """Add a warning about the whole object."""
        self.faults.append(Fault(self._document.file, self._document.line(""), self._kind, self._name, "warning", "", message))

    def strict(self, text: str, head: str) -> None:
        """Add the errors of strict decoding."""
        found = _STRICT.fullmatch(text)
        assert found is not None
        if found["line"]:
            line = self._document.first_line - 1 + int(found["line"])
            self.error(head + _LINE.sub(f"line {line}:", text, count=1), line=line)
        else:
            self.error(head + text, found["path"])

    def refusal(self, error: StatusError) -> None:
        """Add the causes of the response of the server, one fault for each."""
        causes = (error.details or {}).get("causes") or ()
        for cause in causes:
            field = "" if cause["field"] == "<nil>" else cause["field"]
            self.error(cause["message"], field, field=field)
        if not causes:
            found = _DECODED.search(error.message)
            self.error(error.message, found["path"] if found else "")


def _unreadable(document: Document, message: str) -> Fault:
    """A document that cannot be decoded."""
    found = _LINE.search(message)
    line = document.first_line - 1 + int(found[1]) if found else document.first_line
    text = _LINE.sub(f"line {line}:", message, count=1)
    return Fault(document.file, line, "", "", "error", "", text)


def _prepare_place(obj: dict[str, Any], resource: ServedResource) -> str:
    """The namespace that the object is created in; one of a cluster-scoped kind is dropped, as the server does."""
    metadata = obj["metadata"]
    if resource.namespaced:
        return metadata.get("namespace") or "default"
    metadata.pop("namespace", None)
    return ""


def _kinds_of(spec: Any) -> Iterator[tuple[str, str]]:
    """The apiVersions and kinds that a CRD, which may be wrong, seems to define."""
    if not isinstance(spec, dict):
        return
    names, versions = spec.get("names"), spec.get("versions")
    kind = names.get("kind") if isinstance(names, dict) else None
    for version in versions if isinstance(versions, list) else ():
        if isinstance(version, dict) and isinstance(kind, str):
            yield f"{spec.get('group')}/{version.get('name')}", kind


def _unknown(api_version: str, kind: str) -> str:
    group, version = _group_version(api_version)
    hint = "--kubernetes-kinds knows it" if (group, version, kind) in upstream_kinds() else "--crds adds definitions"
    return f'no matches for kind "{kind}" in version "{api_version}"; {hint}'


def _group_version(api_version: str) -> tuple[str, str]:
    group, slash, version = api_version.rpartition("/")
    return (group, version) if slash else ("", api_version)


def _shape_problem(value: Any) -> str:
    """Why a decoded document is not an object, in the words of a server; empty for an object."""
    if not isinstance(value, dict):
        return f"json: cannot unmarshal {json_type(value)} into Go value of type struct"
    for key, shown in (("kind", "Kind"), ("apiVersion", "apiVersion")):
        if not isinstance(value.get(key), str) or not value[key]:
            return f"Object '{shown}' is missing"
    return ""
