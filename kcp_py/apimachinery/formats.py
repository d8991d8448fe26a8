"""String formats, by the definitions of the Go registry. Names are compared without dashes; unknown formats mean nothing.

Source: k8s.io/kube-openapi `pkg/validation/strfmt`, github.com/asaskevich/govalidator, Go's `net`, `net/mail`, `net/url`, `time`. The
expressions here are ours, anchored and linear, so `re` is safe; lengths are checked first where one could be slow.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Final

from kcp_py.apimachinery.meta import names
from kcp_py.golang.urls import UrlError, check_request_uri

Format = Callable[[str], bool]


def find_format(name: str) -> Format | None:
    """The rule of a format, or None where it is unknown."""
    return _FORMATS.get(name.replace("-", ""))


_NUMERIC: Final = {"integer": frozenset({"int32", "int64"}), "number": frozenset({"float", "double"})}


def is_recognized(name: str, kind: str) -> bool:
    """Whether a schema of a type (or of none: empty) may use the format without a warning. Containers and booleans have none."""
    return find_format(name) is not None if kind in {"", "string"} else name in _NUMERIC.get(kind, ())


def _full(pattern: str, flags: int = re.ASCII) -> Format:
    # Compiled when it is first needed: together they would cost 30 ms of every start. Python's own cache is too small to rely on.
    compiled: re.Pattern[str] | None = None

    def matches(text: str) -> bool:
        nonlocal compiled
        if compiled is None:
            compiled = re.compile(pattern, flags)
        return compiled.fullmatch(text) is not None

    return matches


_DATE: Final = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_TIME: Final = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))")


def _is_date(text: str) -> bool:
    parts = _DATE.fullmatch(text)
    if parts is None:
        return False
    year, month, day = map(int, parts.groups())
    try:
        # Go knows the year 0, a leap year; Python's calendar begins with 1.
        date(year or 400, month, day)
    except ValueError:
        return False
    return True


def _is_date_time(text: str) -> bool:
    day, t, clock = text.lower().partition("t")
    if not t or not _is_date(day):
        return False
    parts = _TIME.fullmatch(clock.partition("t")[0])
    return parts is not None and parts[1] <= "23" and parts[2] <= "59" and parts[3] <= "59"


_GO_DURATION: Final = re.compile(r"[-+]?(?:(?:[0-9]++\.?[0-9]*+|\.[0-9]++)(?:ns|us|µs|μs|ms|s|m|h))++")
_WORD_DURATION: Final = re.compile(r"[ \t\n\f\r]*+(?:[0-9]++[ \t\n\f\r]*+[A-Za-zµ]++[ \t\n\f\r]*+)++")
_WORD_PART: Final = re.compile(r"[0-9]+[ \t\n\f\r]*([A-Za-zµ]+)")
_UNITS: Final = frozenset({"ns", "us", "µs", "ms", "s", "m", "h", "d", "w", "hr", "wk"})
_UNIT_STEMS: Final = ("nano", "micro", "milli", "sec", "min", "hour", "day", "week")
_DURATION_MAX: Final = 512


def _is_duration(text: str) -> bool:
    if len(text) > _DURATION_MAX:
        return False
    if text in {"0", "+0", "-0"} or _GO_DURATION.fullmatch(text):
        return True
    if not _WORD_DURATION.fullmatch(text):
        return False
    units = [unit.lower() for unit in _WORD_PART.findall(text)]
    return any(unit in _UNITS or unit.startswith(_UNIT_STEMS) for unit in units)


def _is_uri(text: str) -> bool:
    """`url.ParseRequestURI`: an absolute URI or an absolute path."""
    try:
        check_request_uri(text)
    except UrlError:
        return False
    return True


_EMAIL_MAX: Final = 1000
# Every repetition is possessive: what one part has taken, no other part is tried with, so that the time grows with the text alone.
_ATOM_CHARACTERS: Final = r"A-Za-z0-9!#$%&'*+/=?^_`{|}~\x80-\U0010ffff-"
_DOT_ATOM: Final = rf"[{_ATOM_CHARACTERS}]++(?:\.[{_ATOM_CHARACTERS}]++)*+"
_QUOTED: Final = r'"(?:[^"\\\x00-\x08\x0a-\x1f\x7f]|\\[^\x00-\x08\x0a-\x1f\x7f])*+"'
_ADDRESS: Final = rf"(?:{_DOT_ATOM}|{_QUOTED})[ \t]*+@[ \t]*+(?:{_DOT_ATOM}|\[[^\[\]\\\x00-\x1f\x7f]*+\])"
_DISPLAY_NAME: Final = rf"(?:[{_ATOM_CHARACTERS}.]++|[ \t]++|{_QUOTED})*+"
_email = _full(rf"[ \t]*+(?:{_ADDRESS}|{_DISPLAY_NAME}<[ \t]*+{_ADDRESS}[ \t]*+>)[ \t]*+", 0)


def _is_email(text: str) -> bool:
    return len(text) <= _EMAIL_MAX and _email(text)


_LABEL: Final = re.compile(r"[^\W_](?:[^\W_]|-)*", re.UNICODE)
_HOSTNAME_MAX: Final = 255
_LABEL_MAX: Final = 63


def _is_hostname(text: str) -> bool:
    """Labels of letters, digits, symbols and inner dashes; the last of several has at least two characters and no double dash."""
    labels = text.split(".")
    if names.byte_length(text) > _HOSTNAME_MAX or any(not label or names.byte_length(label) > _LABEL_MAX for label in labels):
        return False
    if any(not all(_is_host_character(character) for character in label) for label in labels):
        return False
    last = labels[-1]
    if len(labels) == 1:
        # One label: a dash may follow its first character only.
        return last[0] != "-" and last.find("-", 2) < 0
    if any(label.startswith("-") or label.endswith("-") for label in labels[:-1]):
        return False
    return len(last) > 1 and last[0] != "-" and last[-1] != "-" and "--" not in last


def _is_host_character(character: str) -> bool:
    if character.isascii():
        return character.isalnum() or character in "-+<=>$^`|~"
    return unicodedata_category(character)[0] in "SL"


def unicodedata_category(character: str) -> str:
    """The general category; the table is only loaded for names beyond ASCII."""
    import unicodedata  # noqa: PLC0415

    return unicodedata.category(character)


def _is_ipv4(text: str) -> bool:
    """An address that is written with dots; as in old versions of Go, with leading zeros, too (kube-openapi `strfmt.isIPv4`)."""
    try:
        if ":" not in text:
            IPv4Address(".".join(part.lstrip("0") or part[-1:] for part in text.split(".")))
            return True
    except AddressValueError:
        return False
    return "." in text and _is_ipv6(text)


def _is_ipv6(text: str) -> bool:
    """An address that is written with colons, of no zone."""
    if "%" in text:
        return False
    try:
        IPv6Address(text)
    except AddressValueError:
        return False
    return True


_PREFIX: Final = re.compile(r"0|[1-9][0-9]{0,2}", re.ASCII)


def _is_cidr(text: str) -> bool:
    address, slash, length = text.partition("/")
    if not slash or not _PREFIX.fullmatch(length) or "%" in address:
        return False
    return (_is_ipv4(address) and int(length) <= 32) or (_is_ipv6(address) and int(length) <= 128)


_is_mac = _full(
    "|".join(
        [rf"[0-9A-Fa-f]{{2}}(?:{separator}[0-9A-Fa-f]{{2}}){{{count}}}" for separator in ":-" for count in (5, 7, 19)]
        + [rf"[0-9A-Fa-f]{{4}}(?:\.[0-9A-Fa-f]{{4}}){{{count}}}" for count in (2, 3, 9)]
    )
)


def _uuid(third: str, fourth: str) -> Format:
    return _full(rf"[0-9a-fA-F]{{8}}-?[0-9a-fA-F]{{4}}-?{third}-?{fourth}-?[0-9a-fA-F]{{12}}")


_HEX4: Final = "[0-9a-fA-F]{4}"
_VARIANT: Final = "[89abAB][0-9a-fA-F]{3}"


def _digits(text: str) -> str:
    return re.sub(r"[\s-]+", "", text)


def _is_isbn10(text: str) -> bool:
    digits = _digits(text)
    if not re.fullmatch(r"[0-9]{9}[0-9X]", digits, re.ASCII):
        return False
    total = sum((index + 1) * int(digit) for index, digit in enumerate(digits[:9]))
    return (total + 10 * (10 if digits[9] == "X" else int(digits[9]))) % 11 == 0


def _is_isbn13(text: str) -> bool:
    digits = _digits(text)
    if not re.fullmatch(r"[0-9]{13}", digits, re.ASCII):
        return False
    total = sum((3 if index % 2 else 1) * int(digit) for index, digit in enumerate(digits[:12]))
    return int(digits[12]) == (10 - total % 10) % 10


_is_card_number = _full(
    r"4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}"
    r"|(?:2131|1800|35\d{3})\d{11}|6[27][0-9]{14}"
)


def _is_credit_card(text: str) -> bool:
    digits = re.sub("[^0-9]+", "", text)
    if not _is_card_number(digits):
        return False
    total = 0
    for index, digit in enumerate(map(int, reversed(digits))):
        total += digit if index % 2 == 0 else sum(divmod(digit * 2, 10))
    return total % 10 == 0


_is_ssn = _full(r"[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}")
_COLOR: Final = "(?:0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])"


def _no_problems(rule: names.NameRule) -> Format:
    return lambda text: not rule(text)


_FORMATS: Final[dict[str, Format]] = {
    "bsonobjectid": _full("[0-9a-fA-F]{24}"),
    "uri": _is_uri,
    "email": _is_email,
    "hostname": _is_hostname,
    "ipv4": _is_ipv4,
    "ipv6": _is_ipv6,
    "cidr": _is_cidr,
    "mac": _is_mac,
    "uuid": _uuid(_HEX4, _HEX4),
    "uuid3": _uuid("3[0-9a-fA-F]{3}", _HEX4),
    "uuid4": _uuid("4[0-9a-fA-F]{3}", _VARIANT),
    "uuid5": _uuid("5[0-9a-fA-F]{3}", _VARIANT),
    "isbn": lambda text: _is_isbn10(text) or _is_isbn13(text),
    "isbn10": _is_isbn10,
    "isbn13": _is_isbn13,
    "creditcard": _is_credit_card,
    "ssn": lambda text: len(text) == 11 and _is_ssn(text),
    "hexcolor": _full("#?(?:[0-9a-fA-F]{3}|[0-9a-fA-F]{6})"),
    "rgbcolor": _full(rf"rgb\(\s*{_COLOR}\s*,\s*{_COLOR}\s*,\s*{_COLOR}\s*\)"),
    "byte": _full("(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})"),
    "password": lambda _text: True,
    "date": _is_date,
    "datetime": _is_date_time,
    "duration": _is_duration,
    "k8sshortname": _no_problems(names.dns_label_problems),
    "k8slongname": _no_problems(names.dns_subdomain_problems),
}
