"""`module_of_crds` and `module_of_document`: the texts of modules with the classes of kinds."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from kcp_py.library.generation.names import class_name
from kcp_py.library.generation.types import Style, TypeWriter, literal
from kcp_py.library.types.resource import default_plural

_PUBLIC: Final = (
    "Column",
    "Fixed",
    "Int32",
    "Int64",
    "IntOrString",
    "ObjectMeta",
    "Quantity",
    "ResourceKind",
    "Rule",
    "Schema",
    "resource",
)
_HEAD: Final = ("apiVersion", "kind", "metadata")
_UNKNOWN: Final = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def module_of_crds(crds: Sequence[Mapping[str, Any]], style: Style = "pydantic") -> str:
    """The module of CustomResourceDefinitions: `kcp-py generate crds` makes the same schemas of it.

    The class of the stored version has the name of the kind, those of other versions the kind and the version. apiVersion, kind and
    metadata are always as `@resource` has them.

    Args:
        crds: `apiextensions.k8s.io/v1`.
        style: of the classes.

    Raises:
        ValueError: a definition has no version.
    """
    writer = TypeWriter(style)
    for crd in crds:
        spec = crd["spec"]
        stored = [one for one in spec["versions"] if one.get("storage")] or spec["versions"][:1]
        if not stored:
            raise ValueError(f"{crd['metadata']['name']}: the definition has no version")
        hub = _version(writer, spec, stored[0], hub="")
        for version in spec["versions"]:
            if version is not stored[0]:
                _version(writer, spec, version, hub=hub)
    return _module(writer, style)


def module_of_document(
    models: Mapping[str, Mapping[str, Any]], kinds: Sequence[tuple[str, str, Mapping[str, Any]]], style: Style = "pydantic"
) -> str:
    """The module of kinds of a published OpenAPI document, such as those that a server has built in.

    Args:
        models: the schemas of the document, by their names.
        kinds: name of the model, plural of the resource, and group, version, kind and namespaced of it.
        style: of the classes.
    """
    writer = TypeWriter(style, models)
    for model, plural, about in kinds:
        given = {**{name: about[name] for name in ("group", "version")}, "plural": plural}
        given |= {name: about[name] for name in ("kind", "namespaced")}
        kind = f"__resource__ = ResourceKind({', '.join(f'{name}={literal(value)}' for name, value in given.items())})"
        writer.write_class(models[model], about["kind"], body=[kind, "", "metadata: ObjectMeta"], left_out=_HEAD)
    return _module(writer, style)


def _version(writer: TypeWriter, spec: Mapping[str, Any], version: Mapping[str, Any], *, hub: str) -> str:
    """Write the class of a version; its name."""
    kind = spec["names"]["kind"]
    words = f"{kind}-{version['name']}" if hub else kind
    schema: Mapping[str, Any] = (version.get("schema") or {}).get("openAPIV3Schema") or _UNKNOWN
    given: dict[str, str] = {} if hub else {"group": literal(spec["group"])}
    given["version"] = literal(version["name"])
    if hub:
        given["hub"] = hub
    else:
        given |= {name: literal(value) for name, value in _names(spec, class_name(words, writer.names)).items()}
    if columns := version.get("additionalPrinterColumns"):
        given["columns"] = f"[{', '.join(map(_column, columns))}]"
    if selectable := version.get("selectableFields"):
        given["selectable_fields"] = literal([one["jsonPath"] for one in selectable])
    subresources = version.get("subresources") or {}
    if ("status" in subresources) != ("status" in (schema.get("properties") or {})):
        given["status"] = literal("status" in subresources)
    if scale := subresources.get("scale"):
        given["scale"] = literal(scale)
    if not version.get("served", True):
        given["served"] = "False"
    if version.get("deprecated"):
        given["deprecated"] = literal(version.get("deprecationWarning") or True)
    decorator = f"@resource({', '.join(f'{name}={value}' for name, value in given.items())})"
    return writer.write_class(schema, words, decorators=[decorator], body=["metadata: ObjectMeta"], left_out=_HEAD)


def _names(spec: Mapping[str, Any], title: str) -> dict[str, Any]:
    """The arguments of `@resource` for the names of a resource that do not follow from the name of its class."""
    names, kind = spec["names"], spec["names"]["kind"]
    usual: dict[str, tuple[str, Any]] = {
        "kind": ("kind", title),
        "plural": ("plural", default_plural(kind)),
        "singular": ("singular", kind.lower()),
        "listKind": ("list_kind", f"{kind}List"),
        "shortNames": ("short_names", []),
        "categories": ("categories", []),
    }
    found = {python: names[key] for key, (python, value) in usual.items() if names.get(key) and names[key] != value}
    if spec["scope"] != "Namespaced":
        found["scope"] = spec["scope"]
    return found


def _column(column: Mapping[str, Any]) -> str:
    keys = {"jsonPath": "path", "name": "name", "type": "type", "format": "format", "description": "description", "priority": "priority"}
    return f"Column({', '.join(f'{python}={literal(column[key])}' for key, python in keys.items() if column.get(key))})"


def _module(writer: TypeWriter, style: Style) -> str:
    """The text, with the imports that it uses."""
    body = "\n\n\n".join(writer.blocks)

    def used(*names: str) -> list[str]:
        return [name for name in names if re.search(rf"\b{name}\b", body)]

    lines = ['"""Classes of kinds, written by `kcp-py generate models`."""', "", "from __future__ import annotations", ""]
    if style == "dataclass":
        lines.append("from dataclasses import dataclass")
    if used("timedelta"):
        lines.append("from datetime import timedelta")
    if typing := used("Annotated", "Any", "Literal"):
        lines.append(f"from typing import {', '.join(typing)}")
    pydantic = used("Field") + (["BaseModel", "ConfigDict"] if style == "pydantic" else [])
    if pydantic:
        lines += ["", f"from pydantic import {', '.join(sorted(pydantic))}"]
    if own := used(*_PUBLIC):
        lines += ["", f"from kcp_py import {', '.join(own)}"]
    if style == "pydantic":
        lines += ["", "", "class Model(BaseModel):", "    model_config = ConfigDict(populate_by_name=True, protected_namespaces=())"]
    return "\n".join(lines) + "\n\n\n" + body + "\n"
