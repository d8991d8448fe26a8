"""Rules for names, label keys and values: each function returns the problems as upstream words them, an empty list when there is none.

Source: k8s.io/apimachinery `pkg/api/validate/content`, `pkg/util/validation` and `pkg/api/validation` (1.37). Lengths count bytes in
UTF-8, as Go's `len` does.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

NameRule = Callable[[str], list[str]]
"""A rule for the names of a kind: the problems of a name."""

_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = _LABEL + r"(\." + _LABEL + ")*"
_LABEL_1035: Final = "[a-z]([-a-z0-9]*[a-z0-9])?"
_QUALIFIED: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_VALUE: Final = f"({_QUALIFIED})?"
_CONFIG_KEY: Final = "[-._a-zA-Z0-9]+"

_MAX_MATCHED: Final = 4096
"""Characters: no rule allows as many, and matching megabytes takes long. The text is then told to have the wrong form as well."""

_is_label = re.compile(_LABEL, re.ASCII).fullmatch
_is_subdomain = re.compile(_SUBDOMAIN, re.ASCII).fullmatch
_is_label_1035 = re.compile(_LABEL_1035, re.ASCII).fullmatch
_is_qualified = re.compile(_QUALIFIED, re.ASCII).fullmatch
_is_config_key = re.compile(_CONFIG_KEY, re.ASCII).fullmatch

_SUBDOMAIN_MAX: Final = 253
_LABEL_MAX: Final = 63


def _too_long(maximum: int, unit: str = "characters") -> str:
    return f"must be no more than {maximum} {unit}"


def _mismatch(message: str, pattern: str, *examples: str) -> str:
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{message} (e.g. {shown}regex used for validation is '{pattern}')"


_SUBDOMAIN_MISMATCH: Final = _mismatch(
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    "and must start and end with an alphanumeric character",
    _SUBDOMAIN,
    "example.com",
)
_LABEL_UNDERSCORE: Final = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SUBDOMAIN_UNDERSCORE: Final = _LABEL_UNDERSCORE + r"(\." + _LABEL_UNDERSCORE + ")*"
_SUBDOMAIN_UNDERSCORE_MISMATCH: Final = _mismatch(
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', "
    "and must start and end with an alphanumeric character",
    _SUBDOMAIN_UNDERSCORE,
    "example.com",
)
_is_subdomain_underscore = re.compile(_SUBDOMAIN_UNDERSCORE, re.ASCII).fullmatch
_WILDCARD: Final = r"\*\." + _SUBDOMAIN
_WILDCARD_MISMATCH: Final = _mismatch(
    "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case "
    "alphanumeric characters, '-' or '.' and end with an alphanumeric character",
    _WILDCARD,
    "*.example.com",
)
_is_wildcard = re.compile(_WILDCARD, re.ASCII).fullmatch
_LABEL_MISMATCH: Final = _mismatch(
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
    "and must start and end with an alphanumeric character",
    _LABEL,
    "my-name",
    "123-abc",
)
_LABEL_1035_MISMATCH: Final = _mismatch(
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character",
    _LABEL_1035,
    "my-name",
    "abc-123",
)
_QUALIFIED_MISMATCH: Final = _mismatch(
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
    _QUALIFIED,
    "MyName",
    "my.name",
    "123-abc",
)
_LABEL_VALUE_MISMATCH: Final = _mismatch(
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character",
    _LABEL_VALUE,
    "MyValue",
    "my_value",
    "12345",
)
_CONFIG_KEY_MISMATCH: Final = _mismatch(
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.'", _CONFIG_KEY, "key.name", "KEY_NAME", "key-name"
)


def byte_length(text: str) -> int:
    """Go's `len` of a string: its bytes in UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def dns_subdomain_problems(name: str) -> list[str]:
    """DNS-1123 subdomain: the rule for the names of most kinds."""
    if len(name) <= _SUBDOMAIN_MAX and _is_subdomain(name):
        return []
    return _problems(name, _SUBDOMAIN_MAX, "" if _matches(_is_subdomain, name) else _SUBDOMAIN_MISMATCH)


def dns_subdomain_underscore_problems(name: str) -> list[str]:
    """DNS-1123 subdomain that may have underscores, as search paths of resolvers do."""
    return _problems(name, _SUBDOMAIN_MAX, "" if _matches(_is_subdomain_underscore, name) else _SUBDOMAIN_UNDERSCORE_MISMATCH)


def wildcard_subdomain_problems(name: str) -> list[str]:
    """All names one level below a DNS-1123 subdomain: `*.example.com`."""
    return _problems(name, _SUBDOMAIN_MAX, "" if _matches(_is_wildcard, name) else _WILDCARD_MISMATCH)


def dns_label_problems(name: str) -> list[str]:
    """DNS-1123 label: namespaces, port-like names."""
    if len(name) <= _LABEL_MAX and _is_label(name):
        return []
    if _matches(_is_label, name):
        return _problems(name, _LABEL_MAX, "")
    # A subdomain that is not a label can only fail because of its dots.
    return _problems(name, _LABEL_MAX, "must not contain dots" if _matches(_is_subdomain, name) else _LABEL_MISMATCH)


def dns_1035_label_problems(name: str) -> list[str]:
    """DNS-1035 label: as the DNS-1123 label, but starting with a letter."""
    if len(name) <= _LABEL_MAX and _is_label_1035(name):
        return []
    return _problems(name, _LABEL_MAX, "" if _matches(_is_label_1035, name) else _LABEL_1035_MISMATCH)


def path_segment_problems(name: str) -> list[str]:
    """What can stand in a URL path unescaped: the rule of RBAC names."""
    if name in {".", ".."}:
        return [f"may not be '{name}'"]
    return path_segment_prefix_problems(name)


def path_segment_prefix_problems(name: str) -> list[str]:
    """The problems of a text as the beginning of a path segment, to which more will be appended."""
    return [f"may not contain '{illegal}'" for illegal in "/%" if illegal in name]


def qualified_name_problems(name: str) -> list[str]:
    """A label key: an optional DNS subdomain and `/`, then a name of up to 63 characters. Finalizers and condition types follow it too."""
    prefix, slash, last = name.rpartition("/")
    if len(last) <= _LABEL_MAX and _is_qualified(last) and (not slash or (len(prefix) <= _SUBDOMAIN_MAX and _is_subdomain(prefix))):
        return []
    if "/" in prefix:
        return [f"a valid label key {_QUALIFIED_MISMATCH} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"]
    problems: list[str] = []
    if slash and not prefix:
        problems.append("prefix part must be non-empty")
    elif slash:
        mismatch = "" if _matches(_is_subdomain, prefix) else _SUBDOMAIN_MISMATCH
        problems.extend(f"prefix part {problem}" for problem in _problems(prefix, _SUBDOMAIN_MAX, mismatch, "bytes"))
    if not last:
        problems.append("name part must be non-empty")
    elif byte_length(last) > _LABEL_MAX:
        problems.append(f"name part {_too_long(_LABEL_MAX, 'bytes')}")
    if not _matches(_is_qualified, last):
        problems.append(f"name part {_QUALIFIED_MISMATCH}")
    return problems


def label_value_problems(value: str) -> list[str]:
    """A label value: empty, or up to 63 characters of the label alphabet."""
    if not value or (len(value) <= _LABEL_MAX and _is_qualified(value)):
        return []
    return _problems(value, _LABEL_MAX, "" if _matches(_is_qualified, value) else _LABEL_VALUE_MISMATCH, "bytes")


def config_key_problems(key: str) -> list[str]:
    """A key in the data of a ConfigMap or Secret."""
    if len(key) <= _SUBDOMAIN_MAX and _is_config_key(key) and key != "." and not key.startswith(".."):
        return []
    problems = _problems(key, _SUBDOMAIN_MAX, "" if _matches(_is_config_key, key) else _CONFIG_KEY_MISMATCH)
    if key in {".", ".."}:
        problems.append(f"must not be '{key}'")
    elif key.startswith(".."):
        problems.append("must not start with '..'")
    return problems


def prefix_problems(rule: NameRule, prefix: str) -> list[str]:
    """The problems of a `generateName`, to which characters will be appended: a last dash is allowed where it may stand inside a name."""
    if rule is path_segment_problems:
        return path_segment_prefix_problems(prefix)
    if len(prefix) > 1 and prefix.endswith("-") and prefix.isascii():
        # Upstream's maskTrailingDash cuts one character more than the dash.
        prefix = prefix[:-2] + "a"
    return rule(prefix)


def _matches(match: Callable[[str], re.Match[str] | None], text: str) -> bool:
    return len(text) <= _MAX_MATCHED and match(text) is not None


def _problems(text: str, maximum: int, mismatch: str, unit: str = "characters") -> list[str]:
    problems = [_too_long(maximum, unit)] if byte_length(text) > maximum else []
    if mismatch:
        problems.append(mismatch)
    return problems
