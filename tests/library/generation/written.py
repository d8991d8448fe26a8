"""Modules that were written, imported."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any


def imported(text: str, folder: Path, name: str) -> ModuleType:
    """A module from its text."""
    file = folder / f"{name}.py"
    file.write_text(text, "utf-8")
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def kinds_of(module: ModuleType) -> dict[str, Any]:
    """The classes of kinds, by version."""
    found = [value for value in vars(module).values() if isinstance(value, type) and "__resource__" in vars(value)]
    return {value.__resource__.version: value for value in found}  # type: ignore[attr-defined]


def comparable(schema: Any, *, root: bool = True) -> Any:
    """A schema without the order of required fields, and without what `@resource` adds to every kind."""
    if isinstance(schema, list):
        return [comparable(one, root=False) for one in schema]
    if not isinstance(schema, dict):
        return schema
    left_out = {"apiVersion", "kind", "metadata"} if root else set()
    found = {key: comparable(value, root=False) for key, value in schema.items()}
    if root:
        found["properties"] = {key: value for key, value in found.get("properties", {}).items() if key not in left_out}
    if isinstance(found.get("required"), list):
        found["required"] = sorted(one for one in found["required"] if one not in left_out)
        if not found["required"]:
            del found["required"]
    return found
