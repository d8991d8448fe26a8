"""`fields_of`: the fields of Pydantic models and dataclasses in one form."""

from __future__ import annotations

import ast
import dataclasses
import functools
import inspect
import itertools
import sys
import typing
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final, NamedTuple

from kcp_py.client.forms import camel_case


class DefinitionError(TypeError):
    """A type with its annotations cannot be a resource. The text begins with the place: the type and the field."""


NOTHING: Final = object()

_WITH_FORMS: Final = frozenset({bytes, timedelta})
"""Types that kcp-py reads from JSON, and not the class itself."""


class Field(NamedTuple):
    """One field."""

    name: str
    """In Python."""
    json: str
    """In JSON."""
    annotation: Any
    metadata: Sequence[Any]
    """What `Annotated` and Pydantic's `Field` say."""
    default: Any
    """`NOTHING`: it is required."""
    factory: Callable[[], Any] | None
    description: str

    @property
    def required(self) -> bool:
        return self.default is NOTHING and self.factory is None


def is_pydantic_model(cls: object) -> bool:
    """Whether a class is a Pydantic model. Pydantic is not imported for the answer."""
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and isinstance(cls, type) and issubclass(cls, pydantic.BaseModel)


def is_structure(cls: object) -> bool:
    """Whether a class has fields that can be read."""
    return isinstance(cls, type) and (dataclasses.is_dataclass(cls) or is_pydantic_model(cls))


def is_url(cls: object) -> bool:
    """Whether a class is one of the URLs of Pydantic."""
    return isinstance(cls, type) and cls.__module__ == "pydantic.networks" and cls.__name__.endswith("Url")


def fields_of(cls: type, place: str, *, camel: bool = False) -> list[Field]:
    """The fields of a class in their order.

    Args:
        cls: a Pydantic model, or a dataclass of Python or of Pydantic.
        place: for messages.
        camel: whether fields without an alias have their names in camelCase.

    Raises:
        DefinitionError: annotations cannot be resolved, or a field has different names when it is read and written.
    """
    of_pydantic = is_pydantic_model(cls) or "__pydantic_fields__" in vars(cls)
    found = _of_pydantic(cls, place) if of_pydantic else _of_dataclass(cls, place)
    named = [one._replace(json=one.json or (camel_case(one.name) if camel else one.name)) for one in found]
    for one in named:
        if not one.json:
            raise DefinitionError(f"{place}.{one.name}: the name is nothing but underscores; give it an `alias`")
    needed = (camel and any(one.json != one.name for one in named)) or any(contains(one.annotation, _WITH_FORMS) for one in named)
    if needed and getattr(cls, "__pydantic_custom_init__", False):
        advice = "use validators, or names and types as in JSON"
        raise DefinitionError(f"{place}: {cls.__name__} has an __init__, which would get bytes, durations and names as in JSON; {advice}")
    return named


def documentation(cls: type) -> str:
    """The docstring of a class, without those that Python and libraries make up."""
    generic = vars(cls).get("__pydantic_generic_metadata__") or {}
    text = vars(generic.get("origin") or cls).get("__doc__") or ""
    if dataclasses.is_dataclass(cls) and text.startswith(f"{cls.__name__}("):
        return ""
    return inspect.cleandoc(text)


def _of_dataclass(cls: Any, place: str) -> list[Field]:
    try:
        hints = typing.get_type_hints(cls, include_extras=True)
    except NameError as error:
        raise DefinitionError(f"{place}: {error}; types of fields must be names of the module") from None
    comments = _comments(cls)
    found = []
    for one in dataclasses.fields(cls):
        annotation, metadata = _split(hints[one.name])
        names = [name for extra in metadata if isinstance(name := getattr(extra, "alias", None), str)]
        descriptions = [text for extra in metadata if isinstance(text := getattr(extra, "description", None), str)]
        default = NOTHING if one.default is dataclasses.MISSING else one.default
        factory = None if one.default_factory is dataclasses.MISSING else one.default_factory
        description = (descriptions or [comments.get(one.name, "")])[-1]
        found.append(Field(one.name, names[-1] if names else "", annotation, metadata, default, factory, description))
    return found


def _of_pydantic(cls: Any, place: str) -> list[Field]:
    from pydantic_core import PydanticUndefined  # noqa: PLC0415 - the class is a model: Pydantic has been imported

    if not _is_complete(cls):
        raise DefinitionError(f"{place}: a type of a field of {cls.__name__} is not defined; types must be names of the module")
    comments: Mapping[str, str] | None = None
    found = []
    for name, info in cls.__pydantic_fields__.items():
        read, written = info.validation_alias or info.alias or "", info.serialization_alias or info.alias or ""
        if read != written:
            raise DefinitionError(f"{place}.{name}: it is read as {read or name!r} and written as {written or name!r}; give it one `alias`")
        description = info.description
        if description is None:
            comments = _comments(cls) if comments is None else comments
            description = comments.get(name, "")
        annotation, metadata = _split(info.annotation)
        default = NOTHING if info.default is PydanticUndefined else info.default
        factory = info.default_factory
        found.append(Field(name, written, annotation, [*metadata, *info.metadata], default, factory, inspect.cleandoc(description)))
    return found


def _is_complete(cls: Any) -> bool:
    if cls.__pydantic_complete__:
        return True
    if is_pydantic_model(cls):
        return bool(cls.model_rebuild(raise_errors=False))
    from pydantic.dataclasses import rebuild_dataclass  # noqa: PLC0415 - the class is one of Pydantic

    return bool(rebuild_dataclass(cls, raise_errors=False))


def _split(annotation: Any) -> tuple[Any, list[Any]]:
    """A type without its outermost `Annotated`, and what that says."""
    if typing.get_origin(annotation) is typing.Annotated:
        inner, *metadata = typing.get_args(annotation)
        return inner, expanded(metadata)
    return annotation, []


def expanded(metadata: Sequence[Any]) -> list[Any]:
    """The metadata of a type, with what Pydantic's `Field` says one by one."""
    found = []
    for one in metadata:
        found.append(one)
        if isinstance(inner := getattr(one, "metadata", None), list):
            found.extend(inner)
    return found


def contains(annotation: Any, wanted: Collection[type]) -> bool:
    """Whether a type is one of some types, or has one inside."""
    if isinstance(annotation, type) and annotation in wanted:
        return True
    inner = getattr(annotation, "__supertype__", None) or getattr(annotation, "__value__", None)
    return any(contains(one, wanted) for one in (*typing.get_args(annotation), *([inner] if inner is not None else [])))


def _comments(cls: type) -> dict[str, str]:
    """The texts below the fields of a class and of its bases, where the source is known."""
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__[:-1]):
        if "__annotations__" not in vars(base) or base.__module__.startswith("pydantic."):
            continue
        tree = _source_classes(base.__module__).get(base.__qualname__)
        body = tree.body if tree is not None else []
        for field, text in itertools.pairwise(body):
            match field, text:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str() as written)):
                    found[name] = inspect.cleandoc(written)
    return found


@functools.lru_cache(maxsize=16)
def _source_classes(module: str) -> Mapping[str, ast.ClassDef]:
    """The classes in the source of a module, by qualified name. `inspect.getsource` would read the whole module for each class."""
    try:
        tree = ast.parse(inspect.getsource(sys.modules[module]))
    except (KeyError, OSError, TypeError, SyntaxError, ValueError):
        return {}
    found: dict[str, ast.ClassDef] = {}
    waiting: list[tuple[ast.AST, str]] = [(tree, "")]
    while waiting:
        node, place = waiting.pop()
        for child in ast.iter_child_nodes(node):
            inner = place
            if isinstance(child, ast.ClassDef):
                found[place + child.name] = child
                inner = f"{place}{child.name}."
            elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                inner = f"{place}{child.name}.<locals>."
            waiting.append((child, inner))
    return found
