"""How Go decodes and encodes the fields of the built-in and the upstream kinds, read from `go_fields.json` and `upstream/go_fields.json`.

Both are written by `hack/update_go_fields.py`, which describes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

_FOLDER: Final = Path(__file__).parent


class GoValue(NamedTuple):
    """A Go type with an encoding of its own."""

    go: str
    """Its name, such as `resource.Quantity`."""
    zero: Any
    """Its zero value in JSON."""


class GoStructure(NamedTuple):
    """A Go structure."""

    go: str
    """Its name, such as `v1.PodSpec`."""
    fields: Mapping[str, str]
    """Name in JSON -> type and whether the encoder leaves it out; see `hack/update_go_fields.py`."""


def find_structure(name: str) -> GoStructure | None:
    """The structure of a model, such as `io.k8s.api.core.v1.PodSpec`; None where none is known."""
    found = _builtin().get(name)
    return found if found is not None else _known().get(name)


@cache
def go_values() -> Mapping[str, GoValue]:
    """Name -> type with an encoding of its own, of all kinds."""
    files = (_read("go_fields.json"), _read("upstream/go_fields.json"))
    return {name: GoValue(**value) for file in files for name, value in file["values"].items()}


@cache
def _builtin() -> Mapping[str, GoStructure]:
    return _structures("go_fields.json")


@cache
def _known() -> Mapping[str, GoStructure]:
    return _structures("upstream/go_fields.json")


def _structures(file: str) -> Mapping[str, GoStructure]:
    return {name: GoStructure(**structure) for name, structure in _read(file)["structures"].items()}


def _read(file: str) -> Any:
    return orjson.loads((_FOLDER / file).read_bytes())
