"""Write docs/library/public-api.txt: every public name with its signature, members and fields.

python hack/update_public_api.py
"""

from __future__ import annotations

import dataclasses
import enum
import importlib
import inspect
import re
import types
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final, ForwardRef

SNAPSHOT: Final = Path(__file__).resolve().parent.parent / "docs" / "library" / "public-api.txt"
PACKAGES: Final = ("kcp_py", "kcp_py.testing")
"""Their `__all__` is the public interface of Python."""

_PRIVATE: Final = ("__init__", "__call__", "__aenter__", "__aexit__", "__enter__", "__exit__", "__aiter__", "__iter__")
"""Special methods that are shown where a class defines them. Of the others nothing is promised."""


def render() -> str:
    """The whole file: one line for each name and each member."""
    return "".join(f"{line}\n" for package in PACKAGES for line in _package(package))


def _package(name: str) -> Iterator[str]:
    package = importlib.import_module(name)
    for attribute in sorted(package.__all__):
        yield from _lines(f"{name}.{attribute}", getattr(package, attribute))


def _lines(path: str, value: Any) -> Iterator[str]:
    if path.endswith(".__version__"):
        yield f"{path}: str"
    elif isinstance(value, types.ModuleType):
        yield f"{path} module"
        for name, member in sorted(vars(value).items()):
            if not name.startswith("_") and getattr(member, "__module__", "") == value.__name__:
                yield from _lines(f"{path}.{name}", member)
    elif inspect.isclass(value) and not isinstance(value, types.GenericAlias):
        yield f"{path} {_kind(value)}{_bases(value)}"
        yield from (f"{path}.{line}" for line in _members(value))
    elif inspect.isfunction(value):
        yield f"{path}{_signature(value)}"
    elif type(value).__module__ == "typing" or isinstance(value, types.GenericAlias | types.UnionType):
        yield f"{path} = {_text(value)}"
    else:
        yield f"{path}: {type(value).__name__}"


def _kind(cls: type) -> str:
    if getattr(cls, "_is_protocol", False):
        return "protocol"
    if hasattr(cls, "_fields"):
        return "named tuple"
    if dataclasses.is_dataclass(cls):
        return "dataclass"
    return "exception" if issubclass(cls, BaseException) else "enum" if issubclass(cls, enum.Enum) else "class"


def _bases(cls: type) -> str:
    """The public bases: what `isinstance` may be asked."""
    public = {id(getattr(package, name)) for package in map(importlib.import_module, PACKAGES) for name in package.__all__}
    bases = [base.__name__ for base in cls.__mro__[1:] if id(base) in public or (base is not object and base.__module__ == "builtins")]
    return f"({', '.join(bases)})" if bases else ""


def _members(cls: type) -> Iterator[str]:
    """The fields in their order, then all other members by name. Those of bases outside of the package are left out."""
    fields: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if base.__module__.partition(".")[0] == "kcp_py":
            for name, annotation in inspect.get_annotations(base).items():
                fields[name] = f"{_text(annotation)}{_default(cls, name)}"
    # Fields of protocols and attributes are keyed by name; a method of that name would be the same attribute.
    yield from (f"{name}: {text}" for name, text in fields.items() if not name.startswith("_"))
    methods: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if base.__module__.partition(".")[0] == "kcp_py":
            for name, member in vars(base).items():
                if (not name.startswith("_") or (name in _PRIVATE and _is_written(cls, name))) and name not in fields:
                    methods[name] = _member(member)
    yield from (f"{name}{methods[name]}" for name in sorted(methods))


def _is_written(cls: type, name: str) -> bool:
    """Whether a special method is written, and not made by `dataclass`, `NamedTuple` or `Protocol`."""
    made = dataclasses.is_dataclass(cls) or hasattr(cls, "_fields") or getattr(cls, "_is_protocol", False)
    return not (name == "__init__" and made)


def _default(cls: type, name: str) -> str:
    for field in dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else ():
        if field.name == name:
            if field.default is not dataclasses.MISSING:
                return f" = {_value(field.default)}"
            return " = …" if field.default_factory is not dataclasses.MISSING else ""
    defaults = getattr(cls, "_field_defaults", {})
    return f" = {_value(defaults[name])}" if name in defaults else ""


def _member(member: Any) -> str:
    if isinstance(member, property):
        return f": {_text(inspect.get_annotations(member.fget).get('return', '?'))}" if member.fget is not None else ""
    kind = {classmethod: "classmethod ", staticmethod: "staticmethod "}.get(type(member), "")
    function = inspect.unwrap(member.__func__ if kind else member)
    if inspect.isfunction(function):
        return f"{_signature(function)}{f' [{kind.strip()}]' if kind else ''}"
    return f": {type(member).__name__}"


def _signature(function: Any) -> str:
    signature = inspect.signature(function)
    parts: list[str] = []
    starred = False
    for position, parameter in enumerate(signature.parameters.values()):
        if position == 0 and parameter.name in {"self", "cls"}:
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            parts.append("*")
            starred = True
        if parameter.kind is parameter.VAR_POSITIONAL:
            starred = True
        stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        annotation = "" if parameter.annotation is parameter.empty else f": {_text(parameter.annotation)}"
        default = "" if parameter.default is parameter.empty else f" = {_value(parameter.default)}"
        parts.append(f"{stars}{parameter.name}{annotation}{default}")
    returned = "" if signature.return_annotation is signature.empty else f" -> {_text(signature.return_annotation)}"
    waits = "async " if inspect.iscoroutinefunction(function) else ""
    return f"({', '.join(parts)}){returned}{f' [{waits.strip()}]' if waits else ''}"


def _text(annotation: Any) -> str:
    """An annotation in the same words on each Python."""
    if isinstance(annotation, ForwardRef):
        return annotation.__forward_arg__
    if isinstance(annotation, str):
        return annotation
    if inspect.isclass(annotation) and not isinstance(annotation, types.GenericAlias):
        return annotation.__qualname__
    text = re.sub(r"\b(?:kcp_py|collections|typing|pathlib|types)(?:\.\w+)*\.(?=\w)", "", repr(annotation))
    return re.sub(r"ForwardRef\('([^']+)'(?:, [^)]*)?\)|<class '([\w.]+)'>", lambda found: found[1] or found[2], text)


def _value(value: Any) -> str:
    if isinstance(value, (str, bytes, int, float, bool, tuple, frozenset, type(None))):
        return repr(value) if not isinstance(value, frozenset) else f"frozenset({sorted(value)})"
    if isinstance(value, Path):
        return f"Path({str(value)!r})"
    if inspect.isclass(value) or inspect.isfunction(value) or isinstance(value, partial):
        return getattr(value, "__qualname__", "…")
    return f"<{type(value).__name__}>"


if __name__ == "__main__":
    SNAPSHOT.write_text(render(), "utf-8")
