"""Named formats (apiserver `pkg/cel/library/format.go`): the problems of a string, in the words of the API itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

from kcp_py.apimachinery.formats import find_format
from kcp_py.apimachinery.meta import names
from kcp_py.cel.declarations import Function, Library, Overload
from kcp_py.cel.types import STRING, Type, list_of, opaque, optional_of
from kcp_py.cel.values import NONE, Optional
from kcp_py.golang.urls import UrlError, check_request_uri

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["FORMAT", "Format"]

_TYPE: Final = opaque("kubernetes.NamedFormat")


@dataclass(frozen=True, slots=True)
class Format:
    """A format; equal to the one of the same name.

    Attributes:
        name: as in `format.named(name)`.
        problems: the function that returns the problems of a string; an empty list for a valid one.
    """

    cel_type: ClassVar[Type] = _TYPE

    name: str
    problems: Callable[[str], list[str]] = field(compare=False, repr=False)


def _uri_problems(text: str) -> list[str]:
    """An absolute URI or path."""
    try:
        check_request_uri(text)
    except UrlError as error:
        return [str(error)]
    return []


def _schema_format(name: str, problem: str) -> Format:
    """A format that schemas have too; its one message is upstream's."""

    def problems(text: str) -> list[str]:
        matches = find_format(name)
        return [] if matches is None or matches(text) else [problem]

    return Format(name, problems)


_FORMATS: Final = {
    one.name: one
    for one in (
        Format("dns1123Label", names.dns_label_problems),
        Format("dns1123Subdomain", names.dns_subdomain_problems),
        Format("dns1035Label", names.dns_1035_label_problems),
        Format("qualifiedName", names.qualified_name_problems),
        Format("dns1123LabelPrefix", partial(names.prefix_problems, names.dns_label_problems)),
        Format("dns1123SubdomainPrefix", partial(names.prefix_problems, names.dns_subdomain_problems)),
        Format("dns1035LabelPrefix", partial(names.prefix_problems, names.dns_1035_label_problems)),
        Format("labelValue", names.label_value_problems),
        Format("uri", _uri_problems),
        _schema_format("uuid", "does not match the UUID format"),
        _schema_format("byte", "invalid base64"),
        _schema_format("date", "invalid date"),
        _schema_format("datetime", "invalid datetime"),
    )
}


def _named(name: str) -> Optional:
    """The format of a name, if there is one."""
    found = _FORMATS.get(name)
    return NONE if found is None else Optional(found)


def _validate(one: Format, text: str) -> Optional:
    """The problems of a string; none for a valid one."""
    problems = one.problems(text)
    return Optional(problems) if problems else NONE


def _constant(one: Format) -> Function:
    """`format.name()`."""
    name = f"format.{one.name}"
    return Function(name, (Overload(name, (), _TYPE, implementation=lambda: one),))


FORMAT: Final = Library(
    "format",
    functions=(
        *map(_constant, _FORMATS.values()),
        Function("format.named", (Overload("format-named", (STRING,), optional_of(_TYPE), implementation=_named),)),
        Function(
            "validate",
            (Overload("format-validate", (_TYPE, STRING), optional_of(list_of(STRING)), member=True, implementation=_validate),),
        ),
    ),
    matches={"kubernetes.NamedFormat": Format},
)
