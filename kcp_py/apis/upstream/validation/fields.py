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
from kcp_py.golang.addresses import AddressError, parse_address, parse_prefix
from kcp_py.golang.json import go_json
from kcp_py.golang.quoting import go_quote

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
_LONGEST: Final = "must be no more than 63"
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
_BAD_CIDR: Final = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
_OCTET: Final = re.compile("[0-9]{1,3}")
_HTTP_PATH: Final = re.compile(r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+")
NOT_A_NAME: Final = "must be a DNS name, not an IP address"
_ENVIRONMENT_NAME: Final = "a valid environment variable name must consist only of printable ASCII characters other than '='"


def as_struct(fields: Mapping[str, Any]) -> Printed:
    """Fields as messages print a struct: in the given order."""
    return Printed(go_json(dict(fields)))


def as_selector(value: Object) -> Printed:
    """A label selector as messages print it."""
    shown: dict[str, Any] = {"matchLabels": value["matchLabels"]} if value.get("matchLabels") else {}
    if expressions := value.get("matchExpressions"):
        shown["matchExpressions"] = [
            {"key": one.get("key", ""), "operator": one.get("operator", ""), **({"values": one["values"]} if one.get("values") else {})}
            for one in expressions
        ]
    return as_struct(shown)


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


def short_name_problems(text: str) -> list[str]:
    """A DNS label in the words of the rules that are generated from the types (`format=k8s-short-name`)."""
    return [problem.replace(f"{_LONGEST} characters", f"{_LONGEST} bytes") for problem in names.dns_label_problems(text)]


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
        yield invalid(path, value, "must not have leading 0s" if _without_zeros(value) else _BAD_ADDRESS)
        return
    if parsed.zone:
        yield invalid(path, value, _BAD_ADDRESS)
    elif parsed.is_mapped:
        yield invalid(path, value, "must not be an IPv4-mapped IPv6 address")


def _without_zeros(value: str) -> str:
    """An IPv4 address without the zeros with which its numbers begin; empty for other texts."""
    octets = value.split(".")
    if len(octets) != 4 or not all(_OCTET.fullmatch(octet) and int(octet) < 256 for octet in octets):
        return ""
    return ".".join(str(int(octet)) for octet in octets)


def endpoint_address(value: str, path: str) -> Problems:
    """An IP address that others can reach (`ValidateEndpointIP`)."""
    try:
        parsed = parse_address(_without_zeros(value) or value)
    except AddressError:
        yield invalid(path, value, "must be a valid IP address")
        return
    if parsed.is_unspecified:
        yield invalid(path, value, f"may not be unspecified ({value})")
    if parsed.is_loopback:
        yield invalid(path, value, "may not be in the loopback range (127.0.0.0/8, ::1/128)")
    if parsed.is_link_local_unicast:
        yield invalid(path, value, "may not be in the link-local range (169.254.0.0/16, fe80::/10)")
    if parsed.is_link_local_multicast:
        yield invalid(path, value, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)")


def host_name(value: str, path: str) -> Problems:
    """A DNS name that is not an IP address."""
    yield from name(value, path)
    if is_address(value):
        yield invalid(path, value, NOT_A_NAME)


def is_address(value: str) -> bool:
    """Whether a text is an IP address, with or without leading zeros."""
    problem = next(address(value, ""), None)
    return problem is None or problem.detail != _BAD_ADDRESS


def path_segment(value: str | None, path: str) -> Problems:
    """A required value that can be a part of a path."""
    return required_name(value, path, names.path_segment_problems)


def domain_path(value: str, path: str) -> Problems:
    """A path below a domain, `example.com/a` (`IsDomainPrefixedPath`)."""
    if not value:
        yield required(path)
        return
    domain, slash, rest = value.partition("/")
    if not (domain and slash and rest):
        yield invalid(path, value, 'must be a domain-prefixed path (such as "acme.io/foo")')
        return
    yield from name(domain, path)
    if not _HTTP_PATH.fullmatch(rest):
        yield invalid(path, rest, f"Invalid path (regex used for validation is '{_HTTP_PATH.pattern}')")


def sealed(new: Any, old: Any, path: str) -> Problems:
    """A field that an update does not change, by the rules that are generated from the types: their messages show no value."""
    if new != old and (new or old):
        yield invalid(path, None, IMMUTABLE)


def unchanged(new: Any, old: Any, path: str, shown: Any = None) -> Problems:
    """A field that an update does not change. Empty values are equal. `shown` is the value in another form."""
    if new != old and (new or old):
        yield invalid(path, new if shown is None else shown, IMMUTABLE)


def cidr(value: str, path: str) -> Problems:
    """A range of addresses of a field that takes other forms than the canonical one (`IsValidCIDRForLegacyField`)."""
    try:
        prefix = parse_prefix(value)
    except AddressError:
        yield invalid(path, value, _zeros_in(value) or _BAD_CIDR)
        return
    if prefix.address.is_mapped:
        yield invalid(path, value, "must not have an IPv4-mapped IPv6 address")
    elif prefix.masked != prefix:
        yield invalid(path, value, "must not have bits set beyond the prefix length")


def canonical_cidr(value: str, path: str) -> Problems:
    """A range of addresses in its canonical form (`IsValidCIDR`)."""
    problems = list(cidr(value, path))
    yield from problems
    if not problems and value != (canonical := str(parse_prefix(value))):
        yield invalid(path, value, f"must be in canonical form ({go_quote(canonical)})")


def canonical_address(value: str, path: str) -> Problems:
    """An IP address in its canonical form (`IsValidIP`)."""
    problems = list(address(value, path))
    yield from problems
    if not problems and value != (canonical := str(parse_address(value))):
        yield invalid(path, value, f"must be in canonical form ({go_quote(canonical)})")


def _zeros_in(value: str) -> str:
    """The problem of a range whose numbers begin with zeros, which old parsers accept."""
    head, slash, digits = value.rpartition("/")
    if not slash or not digits.isascii() or not digits.isdigit() or len(digits) > 3:
        return ""
    octets = head.split(".")
    if all(octet.isascii() and octet.isdigit() and len(octet) <= 3 for octet in octets):
        head = ".".join(str(int(octet)) for octet in octets)
    try:
        parse_prefix(f"{head}/{int(digits)}")
    except AddressError:
        return ""
    return "must not have leading 0s in IP or prefix length"


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
