"""Names in Python for the names of properties and kinds."""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Container
from typing import Final

_WORDS: Final = (re.compile(r"([a-z0-9])([A-Z])"), re.compile(r"([A-Z]+)([A-Z][a-z])"))
_SHADOWED: Final = frozenset({"bool", "bytes", "dict", "float", "int", "list", "str", "field", "dataclass"})
"""Names that annotations and decorators use: a field would take their place in its class."""
_OF_MODELS: Final = frozenset(
    [
        "construct",
        "copy",
        "dict",
        "from_orm",
        "json",
        "mro",
        "parse_file",
        "parse_obj",
        "parse_raw",
        "schema",
        "schema_json",
        "update_forward_refs",
        "validate",
    ]
)
"""Attributes of Pydantic models that a field must not hide."""
_OF_MODULES: Final = frozenset(dir(builtins)) | frozenset(
    [
        "Annotated",
        "Any",
        "BaseModel",
        "Column",
        "ConfigDict",
        "Field",
        "Fixed",
        "Int32",
        "Int64",
        "IntOrString",
        "Literal",
        "Model",
        "ObjectMeta",
        "Quantity",
        "ResourceKind",
        "Rule",
        "Schema",
    ]
)


def field_name(name: str, taken: Container[str]) -> str:
    """The name of a field: in snake_case, a valid identifier, and not taken: `clusterIP` is `cluster_ip`, `from` is `from_`."""
    text = name
    for pattern in _WORDS:
        text = pattern.sub(r"\1_\2", text)
    text = re.sub(r"\W", "_", text, flags=re.ASCII).lower().strip("_")
    if not text or text[0].isdigit():
        text = f"field_{text}".rstrip("_")
    if keyword.iskeyword(text) or text in _SHADOWED or text in _OF_MODELS or text.startswith("model_"):
        text = f"{text}_"
    return _free(text, taken)


def class_name(words: str, taken: Container[str]) -> str:
    """The name of a class: in CamelCase, a valid identifier, and not taken."""
    text = "".join(part[:1].upper() + part[1:] for part in re.split(r"[\W_]+", words, flags=re.ASCII))
    if not text or not text[0].isalpha():
        text = f"Class{text}"
    if keyword.iskeyword(text) or text in _OF_MODULES:
        text = f"{text}Model"
    return _free(text, taken)


def _free(text: str, taken: Container[str]) -> str:
    found, number = text, 1
    while found in taken:
        number += 1
        found = f"{text}_{number}" if text[0].islower() else f"{text}{number}"
    return found
