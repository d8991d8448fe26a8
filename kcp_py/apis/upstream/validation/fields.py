"""Rules for single values: names, ports, numbers, paths, quantities.

Source: k8s.io/apimachinery `pkg/util/validation`, kubernetes `pkg/apis/core/validation`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

from kcp_py.apimachinery.fielderrors import FieldError, Printed, invalid, not_supported, required
from kcp_py.apimachinery.meta import names
from kcp_py.apimachinery.quantity import Quantity, parse_quantity
from kcp_py.golang.addresses import AddressError, parse_address
from kcp_py.golang.json import go_json

Object = Mapping[str, Any]
Problems = Iterator[FieldError]

_SHORT: Final = 32
"""Characters of a quantity that is worth remembering."""
IMMUTABLE: Final = "field is immutable"
NOT_NEGATIVE: Final = "must be greater than or equal to 0"
NOT_POSITIVE: Final = "must be greater than zero"
MAX_INT32: Final = 2**31 - 1

_PORT_CHARACTERS: Final = re.compile("[-a-z0-9]+")
_LETTER: Final = re.compile("[a-z]")
_HEADER: Final = re.compile("[-A-Za-z0-9]+")
_HEADER_MISMATCH: Final = (
    "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', "
    "regex used for validation is '[-A-Za-z0-9]+')"
)
_PERCENT: Final = re.compile("[0-9]+%")
PERCENT_MISMATCH: Final = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', "
    "regex used for validation is '[0-9]+%')"
)
_BAD_ADDRESS: Final = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
_ENVIRONMENT_NAME: Final = "a valid environment variable name must consist only of printable ASCII characters other than '='"


def as_struct(fields: Mapping[str, Any]) -> Printed:
    """Fields as messages print a struct: in the given order."""
    return Printed(go_json(dict(fields)))


def name(value: str, path: str, rule: Callable[[str], list[str]] = names.dns_subdomain_problems) -> Problems:
    """The problems of a name by a rule."""
    for text in rule(value):
        yield invalid(path, value, text)


def label(value: str, path: str) -> Problems:
    """A DNS label."""
    return name(value, path, names.dns_label_problems)


def required_name(value: str | None, path: str, rule: Callable[[str], list[str]] = names.dns_subdomain_problems) -> Problems:
    """A name that has to be there."""
    if not value:
        yield required(path)
    else:
        yield from name(value, path, rule)


def qualified(value: str, path: str) -> Problems:
    """A label key."""
    return name(value, path, names.qualified_name_problems)


def one_of(value: str | None, path: str, allowed: Collection[str], *, needed: bool = True) -> Problems:
    """A value out of a list. A missing one is required, or else not supported."""
    if value not in allowed:
        yield required(path) if needed and not value else not_supported(path, value or "", list(allowed))


def not_negative(value: int | None, path: str) -> Problems:
    """A number from zero on, where it is set."""
    if value is not None and value < 0:
        yield invalid(path, value, NOT_NEGATIVE)


def in_range(value: int | None, path: str, low: int, high: int = MAX_INT32) -> Problems:
    """A number of a range, where it is set."""
    if value is not None and not low <= value <= high:
        yield invalid(path, value, f"must be between {low} and {high}, inclusive")


def port_number(value: int, path: str) -> Problems:
    """A number of a port."""
    return in_range(value, path, 1, 65535)


def port_name_problems(text: str) -> list[str]:
    """`IsValidPortName`: an IANA service name."""
    problems = []
    if len(text) > 15:
        problems.append("must be no more than 15 characters")
    if not _PORT_CHARACTERS.fullmatch(text):
        problems.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not _LETTER.search(text):
        problems.append("must contain at least one letter (a-z)")
    if "--" in text:
        problems.append("must not contain consecutive hyphens")
    if text.startswith("-") or text.endswith("-"):
        problems.append("must not begin or end with a hyphen")
    return problems


def port(value: Any, path: str) -> Problems:
    """The number or the name of a port."""
    if isinstance(value, str):
        return name(value, path, port_name_problems)
    return port_number(value or 0, path)


def header_problems(text: str) -> list[str]:
    """`IsHTTPHeaderName`."""
    return [] if _HEADER.fullmatch(text) else [_HEADER_MISMATCH]


def environment_name_problems(text: str) -> list[str]:
    """`IsRelaxedEnvVarName`."""
    if not text:
        return ["environment variable name must be non-empty"]
    return [] if all(" " <= character <= "~" and character != "=" for character in text) else [_ENVIRONMENT_NAME]


def is_percent(text: str) -> bool:
    """Whether a text is a percentage, such as `25%`."""
    return _PERCENT.fullmatch(text) is not None


def address(value: str, path: str) -> Problems:
    """An IP address of a field that takes other forms than the canonical one (`IsValidIPForLegacyField`)."""
    try:
        parsed = parse_address(value)
    except AddressError:
        yield invalid(path, value, _BAD_ADDRESS)
        return
    if parsed.zone:
        yield invalid(path, value, _BAD_ADDRESS)


def no_backsteps(value: str, path: str) -> Problems:
    """A path without `..` in it."""
    if ".." in value.split("/"):
        yield invalid(path, value, "must not contain '..'")


def descending(value: str, path: str) -> Problems:
    """A relative path that stays below where it begins."""
    if value.startswith("/"):
        yield invalid(path, value, "must be a relative path")
    yield from no_backsteps(value, path)


def local_path(value: str, path: str) -> Problems:
    """A relative path of a file in a volume, whose name does not begin with two dots."""
    yield from descending(value, path)
    if value.startswith("..") and not value.startswith("../"):
        yield invalid(path, value, "must not start with '..'")


def file_mode(value: int | None, path: str) -> Problems:
    """Permission bits, where they are set."""
    if value is not None and not 0 <= value <= 0o777:
        yield invalid(path, value, "must be a number between 0 and 0777 (octal), both inclusive")


def amount(value: Any) -> Quantity:
    """A quantity that was decoded before."""
    if isinstance(value, str) and len(value) <= _SHORT:
        return _parsed(value)
    return parse_quantity(value if isinstance(value, int | float | str) else "0")


@lru_cache(maxsize=4096)
def _parsed(text: str) -> Quantity:
    """Most quantities are a few texts, such as `100m`. Keys have a bound, because clients choose them."""
    return parse_quantity(text)
