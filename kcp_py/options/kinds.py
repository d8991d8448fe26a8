"""What values a setting may take: how each kind is read from text, shown as text, and described in the schema of the configuration file.

A kind's `parse` raises ValueError with the rest of a sentence that begins with the origin of the value: `"x" is not a number`.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from kcp_py.golang import durations
from kcp_py.logicalcluster import InvalidClusterError, parse_name
from kcp_py.options.batteries import parse_batteries, render_batteries


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of value."""

    metavar: str
    """What `--help` shows for the value: `DURATION`."""
    parse: Callable[[str], Any]
    """From the text of a flag or an environment variable to the value that `Options` holds."""
    render: Callable[[Any], str]
    """From a value back to the text that `parse` reads as the same value."""
    schema: Mapping[str, Any]
    """The JSON schema of the value in the configuration file. Texts in the file are read with `parse` afterwards."""


_SIZE: Final = re.compile(r"([0-9]{1,18})(|k|M|G|Ki|Mi|Gi)")
_SIZE_UNITS: Final[Mapping[str, int]] = {"": 1, "k": 1000, "M": 1000**2, "G": 1000**3, "Ki": 1024, "Mi": 1024**2, "Gi": 1024**3}
_HOSTNAME: Final = re.compile(r"(?=.{1,253}$)[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*")
_HEADER: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")


def is_host(text: str) -> bool:
    """Whether the text can stand in a URL's place for a host: a DNS name or an IP address without brackets."""
    return _is_address(text) or _HOSTNAME.fullmatch(text) is not None


def is_dns_name(text: str) -> bool:
    """Whether the text is a DNS name and not an IP address."""
    return is_host(text) and not _is_address(text)


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _parse_text(text: str) -> str:
    if any(ord(character) < 0x20 for character in text):
        raise ValueError(f"{text!r} holds control characters")
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        # Python represents bytes of arguments and variables that are not UTF-8 as surrogates.
        raise ValueError(f"{text!r} is not UTF-8")
    return text


def _parse_path(text: str) -> Path:
    if not text:
        raise ValueError("the path is empty")
    return Path(_parse_text(text)).expanduser()


def _parse_boolean(text: str) -> bool:
    # What Go's strconv.ParseBool takes, which is what flags of kube-apiserver take.
    if text in {"1", "t", "T", "true", "TRUE", "True"}:
        return True
    if text in {"0", "f", "F", "false", "FALSE", "False"}:
        return False
    raise ValueError(f'"{text}" is not true or false')


def parse_duration(text: str) -> float:
    """Read a duration as Go writes it (`1h30m`, `500ms`, `0`) into seconds. Settings have no negative durations.

    Raises:
        ValueError: the text is not such a duration.
    """
    try:
        nanoseconds = durations.parse_duration(text)
    except durations.DurationTooLongError as error:
        # Seconds are a float: settings may be longer than Go's durations.
        if error.nanoseconds is None:
            raise ValueError("no duration is that long") from None
        nanoseconds = error.nanoseconds
    except durations.DurationError:
        nanoseconds = -1
    if nanoseconds < 0 or text[0] in "+-":
        raise ValueError(f'"{text}" is not a duration such as 30s, 5m or 1h30m')
    return nanoseconds / durations.SECOND


def render_duration(seconds: float) -> str:
    """Write seconds as Go writes a duration, in the largest units that need no fraction."""
    if seconds == 0:
        return "0"
    if seconds != int(seconds):
        return f"{seconds * 1000:.6f}".rstrip("0").rstrip(".") + "ms"
    whole = int(seconds)
    hours, minutes, rest = whole // 3600, whole % 3600 // 60, whole % 60
    return "".join(f"{number}{unit}" for number, unit in ((hours, "h"), (minutes, "m"), (rest, "s")) if number)


def _parse_size(text: str) -> int:
    match = _SIZE.fullmatch(text)
    if match is None:
        raise ValueError(f'"{text}" is not a size such as 3Mi or 65536')
    return int(match[1]) * _SIZE_UNITS[match[2]]


def _render_size(size: int) -> str:
    for unit in ("Gi", "Mi", "Ki"):
        if size and size % _SIZE_UNITS[unit] == 0:
            return f"{size // _SIZE_UNITS[unit]}{unit}"
    return str(size)


def _parse_address(text: str) -> str:
    if not _is_address(text):
        raise ValueError(f'"{text}" is not an IP address')
    return text


def _parse_endpoint(text: str) -> str:
    if text:
        split_endpoint(text)
    return text


def split_endpoint(text: str) -> tuple[str, int]:
    """The address and the port of an endpoint, such as `127.0.0.1:8080` or `[::1]:8080`.

    Raises:
        ValueError: the text is not an endpoint.
    """
    host, _, port = text.rpartition(":")
    address = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not _is_address(address) or (":" in address) == (address == host) or not re.fullmatch(r"[0-9]{1,5}", port) or int(port) > 65535:
        raise ValueError(f'"{text}" is not an IP address with a port such as 127.0.0.1:10257')
    return address, int(port)


def _parse_host(text: str) -> str:
    if text and not is_host(text):
        raise ValueError(f'"{text}" is neither a host name nor an IP address')
    return text


def _parse_cluster(text: str) -> str:
    try:
        return parse_name(text)
    except InvalidClusterError:
        raise ValueError(f'"{text}" is not the name of a logical cluster') from None


def _parse_optional_cluster(text: str) -> str:
    return _parse_cluster(text) if text else ""


def _parse_header(text: str) -> str:
    if text and _HEADER.fullmatch(text) is None:
        raise ValueError(f'"{text}" is not the name of an HTTP header')
    return text


def _parse_headers(text: str) -> tuple[str, ...]:
    return tuple(map(_parse_header, _parse_list(text)))


def _parse_list(text: str) -> tuple[str, ...]:
    return tuple(item for item in (part.strip() for part in text.split(",")) if item)


_MODES: Final = ("RBAC", "Webhook", "AlwaysAllow", "AlwaysDeny")
_ABSENT_MODES: Final = {
    "Node": "logical clusters have no nodes, so there are no kubelets to confine",
    "ABAC": "roles and bindings replace files of policies",
}


def _parse_authorizers(text: str) -> tuple[str, ...]:
    modes = _parse_list(text)
    if not modes:
        raise ValueError("at least one authorization-mode must be passed")
    for mode in modes:
        if mode in _ABSENT_MODES:
            raise ValueError(f'authorization-mode "{mode}" is not available: {_ABSENT_MODES[mode]}')
        if mode not in _MODES:
            raise ValueError(f'authorization-mode "{mode}" is not a valid mode')
    if len(set(modes)) != len(modes):
        shown = " ".join(f'"{mode}"' for mode in modes)
        raise ValueError(f"authorization-mode [{shown}] has mode specified more than once")
    return modes


def _parse_simulations(text: str) -> tuple[str, ...]:
    found = _parse_list(text)
    if unknown := sorted(set(found) - {WORKLOADS}):
        raise ValueError(f'"{unknown[0]}" cannot be simulated; only {WORKLOADS} can')
    return found


def _parse_pairs(text: str) -> tuple[str, ...]:
    pairs = _parse_list(text)
    for pair in pairs:
        if not pair.partition("=")[0] or "=" not in pair:
            raise ValueError(f'"{pair}" is not a pair such as name=value')
    return pairs


def _parse_urls(text: str) -> tuple[str, ...]:
    urls = _parse_list(text)
    for url in urls:
        parts = urlsplit(url)
        try:
            usable = parts.scheme in {"http", "https"} and parts.hostname is not None and parts.port != 0
        except ValueError:
            usable = False
        if not usable or parts.path.strip("/") or parts.query or parts.fragment or parts.username is not None:
            raise ValueError(f'"{url}" is not a URL such as https://etcd-0:2379')
    return urls


def _parse_paths(text: str) -> tuple[Path, ...]:
    return tuple(_parse_path(item) for item in _parse_list(text))


def _parse_issuers(text: str) -> tuple[str, ...]:
    found = _parse_list(text)
    for url in found:
        parts = urlsplit(_parse_text(url))
        if parts.scheme != "https" or not parts.netloc or parts.query or parts.fragment or url.endswith(("/", "?", "#")):
            raise ValueError(f'"{url}" is not a URL that begins with https:// and ends without a slash, a query and a fragment')
    return found


def _parse_token_lifetime(text: str) -> float:
    seconds = parse_duration(text)
    if seconds and not 3600 <= seconds <= 2**32:
        raise ValueError("must be between 1 hour and 2^32 seconds, or 0")
    return seconds


def _parse_networks(text: str) -> tuple[str, ...]:
    names = _parse_list(text)
    for name in names:
        try:
            usable = name == "public" or ipaddress.ip_network(name) is not None
        except ValueError:
            usable = False
        if not usable:
            raise ValueError(f'"{name}" is neither "public" nor a network such as 10.0.0.0/8')
    return names


def _parse_address_ranges(text: str) -> tuple[str, ...]:
    names = _parse_list(text)
    families = []
    for name in names:
        try:
            network = ipaddress.ip_network(name)
        except ValueError:
            raise ValueError(f'"{name}" is not a range of addresses such as 10.96.0.0/16') from None
        shortest, longest = _SERVICE_PREFIXES[network.version]
        if not shortest <= network.prefixlen <= longest:
            raise ValueError(f'"{name}" does not have a prefix between /{shortest} and /{longest}')
        families.append(network.version)
    if len(set(families)) != len(families):
        raise ValueError("there can be one range of IPv4 addresses and one of IPv6 addresses")
    return names


_SERVICE_PREFIXES: Final = {4: (12, 30), 6: (64, 126)}
"""Version of IP -> shortest and longest prefix, in which kube-apiserver takes ranges."""
_PORT_RANGE: Final = re.compile(r"([1-9][0-9]{0,4})-([1-9][0-9]{0,4})")


def _parse_port_range(text: str) -> str:
    match = _PORT_RANGE.fullmatch(text)
    if match is None or not int(match[1]) <= int(match[2]) <= 65535:
        raise ValueError(f'"{text}" is not a range of ports such as 30000-32767')
    return text


def _parse_prefix(text: str) -> str:
    if not text.startswith("/") or text.endswith("/") or "//" in text or not text.isprintable():
        raise ValueError(f'"{text}" is not a key prefix such as /registry')
    return text


WORKLOADS: Final = "workloads"
"""What `simulate` can name."""

_STRING: Final[Mapping[str, Any]] = {"type": "string"}
_STRINGS: Final[Mapping[str, Any]] = {"type": "array", "items": {"type": "string", "pattern": "^[^,]*$"}}

PAIRS: Final = Kind("NAME=VALUE,…", _parse_pairs, ",".join, _STRINGS)
TEXT: Final = Kind("TEXT", _parse_text, str, _STRING)
PATH: Final = Kind("PATH", _parse_path, str, _STRING)
OPTIONAL_PATH: Final = Kind(
    "PATH", lambda text: _parse_path(text) if text else None, lambda path: "" if path is None else str(path), _STRING
)
BOOLEAN: Final = Kind("true|false", _parse_boolean, lambda value: "true" if value else "false", {"type": "boolean"})
OPTIONAL_BOOLEAN: Final = Kind(
    "true|false",
    lambda text: _parse_boolean(text) if text else None,
    lambda value: "" if value is None else BOOLEAN.render(value),
    {"type": "boolean"},
)
DURATION: Final = Kind("DURATION", parse_duration, render_duration, _STRING)
SIZE: Final = Kind("SIZE", _parse_size, _render_size, {"type": ["string", "integer"], "minimum": 0})
ADDRESS: Final = Kind("ADDRESS", _parse_address, str, _STRING)
ENDPOINT: Final = Kind("ADDRESS:PORT", _parse_endpoint, str, _STRING)
HOST: Final = Kind("HOST", _parse_host, str, _STRING)
OPTIONAL_CLUSTER: Final = Kind("NAME", _parse_optional_cluster, str, _STRING)
HEADER: Final = Kind("HEADER", _parse_header, str, _STRING)
HEADERS: Final = Kind("HEADER,…", _parse_headers, ",".join, _STRINGS)
BATTERIES: Final = Kind("NAME,…", parse_batteries, render_batteries, _STRINGS)
LIST: Final = Kind("NAME,…", _parse_list, ",".join, _STRINGS)
AUTHORIZERS: Final = Kind("NAME,…", _parse_authorizers, ",".join, _STRINGS)
SIMULATIONS: Final = Kind("NAME,…", _parse_simulations, ",".join, _STRINGS)
URLS: Final = Kind("URL,…", _parse_urls, ",".join, _STRINGS)
PATHS: Final = Kind("PATH,…", _parse_paths, lambda paths: ",".join(map(str, paths)), _STRINGS)
ISSUERS: Final = Kind("URL,…", _parse_issuers, ",".join, _STRINGS)
TOKEN_LIFETIME: Final = Kind("DURATION", _parse_token_lifetime, render_duration, _STRING)
NETWORKS: Final = Kind("NETWORK,…", _parse_networks, ",".join, _STRINGS)
ADDRESS_RANGES: Final = Kind("CIDR,…", _parse_address_ranges, ",".join, _STRINGS)
PORT_RANGE: Final = Kind("FIRST-LAST", _parse_port_range, str, _STRING)
PREFIX: Final = Kind("PREFIX", _parse_prefix, str, _STRING)


def integer(minimum: int, maximum: int) -> Kind:
    """Whole numbers from `minimum` to `maximum`, both included."""

    def parse(text: str) -> int:
        if not re.fullmatch(r"-?[0-9]{1,18}", text):
            raise ValueError(f'"{text}" is not a whole number')
        if not minimum <= int(text) <= maximum:
            raise ValueError(f"{text} is not between {minimum} and {maximum}")
        return int(text)

    return Kind("NUMBER", parse, str, {"type": "integer", "minimum": minimum, "maximum": maximum})


def above_zero(kind: Kind) -> Kind:
    """A kind of number without its zero, where zero would mean that nothing works."""

    def parse(text: str) -> Any:
        value = kind.parse(text)
        if value <= 0:
            raise ValueError(f'"{text}" is not above zero')
        return value

    return Kind(kind.metavar, parse, kind.render, kind.schema)


def choice(*words: str) -> Kind:
    """One of a few words."""

    def parse(text: str) -> str:
        if text not in words:
            raise ValueError(f'"{text}" is not one of {", ".join(words)}')
        return text

    return Kind("|".join(words), parse, str, {"type": "string", "enum": list(words)})
