"""Descriptions of built-in types for `kubectl explain`, from the optional package `kubernetes-validate` (extra `explain`).

They are not shipped, because they would be larger than the rest of the package. They are read when a document is first built, not at
the start.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import orjson

from kcp_py.bootstrap.kinds import models
from kcp_py.bootstrap.upstream_kinds import upstream_models

MISSING: Final = (
    "Descriptions of Kubernetes' own kinds and fields are not installed on this server, so `kubectl explain` shows none of them. "
    "Install the extra `explain`: pip install 'kcp-py[explain]'"
)
"""The message of a server without descriptions, in its log and in its OpenAPI documents."""

_Descriptions = Mapping[str, tuple[str, Mapping[str, str]]]


@cache
def descriptions() -> _Descriptions:
    """Model -> its description and those of its fields; empty when the package is not installed or laid out in another way.

    Reads a file of about 1.5 MB (some 10 ms) once in the life of the process.
    """
    return _read(models())


@cache
def _upstream_descriptions() -> _Descriptions:
    """Descriptions of the upstream kinds, by model. They are many more, and read only if one of the kinds is published."""
    return _read(upstream_models().keys() - models().keys())


def _read(names: Collection[str]) -> _Descriptions:
    source = _source_file()
    if source is None:
        return {}
    try:
        loaded = orjson.loads(source.read_bytes())["$defs"]
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return {
        name: (
            str(loaded[name].get("description", "")),
            {field: str(child["description"]) for field, child in loaded[name].get("properties", {}).items() if "description" in child},
        )
        for name in names
        if name in loaded
    }


@cache
def are_installed() -> bool:
    """Whether descriptions of built-in kinds are available."""
    return _source_file() is not None


def with_descriptions(name: str, schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema of a built-in model with the available descriptions."""
    own, fields = (descriptions() if name in models() else _upstream_descriptions()).get(name, ("", {}))
    if not own and not fields:
        return schema
    result = dict(schema)
    if own:
        result["description"] = own
    if "properties" in schema:
        result["properties"] = {field: _described(child, fields.get(field, "")) for field, child in schema["properties"].items()}
    return result


def _described(schema: Mapping[str, Any], description: str) -> Mapping[str, Any]:
    if not description:
        return schema
    if "$ref" in schema:  # siblings of $ref have no meaning in OpenAPI 3.0
        return {"allOf": [dict(schema)], "description": description}
    return {**schema, "description": description}


def _source_file() -> Path | None:
    """The models of the newest minor version, found without importing the package."""
    spec = find_spec("kubernetes_validate")
    if spec is None or not spec.submodule_search_locations:
        return None
    folder = Path(next(iter(spec.submodule_search_locations))) / "kubernetes-json-schema"
    found = [path for path in folder.glob("v1.*-local/_definitions.json") if path.parent.name.split(".")[1].isdigit()]
    return max(found, key=lambda path: int(path.parent.name.split(".")[1]), default=None)
