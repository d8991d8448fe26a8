"""How go-yaml v2 reads a scalar: shared by the YAML decoder and encoder.

Source: go.yaml.in/yaml/v2 `resolve.go` (YAML 1.1 without base 60, and with `0o`).
"""

from __future__ import annotations

import re
from typing import Any, Final

_WORDS: Final[dict[str, Any]] = {
    **dict.fromkeys(["y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"], True),
    **dict.fromkeys(["n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"], False),
    **dict.fromkeys(["", "~", "null", "Null", "NULL"]),
    **dict.fromkeys([".nan", ".NaN", ".NAN"], float("nan")),
    **dict.fromkeys([".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"], float("inf")),
    **dict.fromkeys(["-.inf", "-.Inf", "-.INF"], float("-inf")),
}
_HINTS: Final = frozenset("+-0123456789yYnNtTfFoO~.")
_WORD_HINTS: Final = frozenset("yYnNtTfFoO~")
_DOT_FLOAT: Final = re.compile(r"\.[0-9]+([eE][-+]?[0-9]+)?", re.ASCII)
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", re.ASCII)
_INTEGER: Final = re.compile(r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|(0|[1-9][0-9]*))", re.ASCII)
_MAX_NUMBER: Final = 400
"""Characters of a number; anything longer is a string, as no int or float of 64 bits needs them."""
_UINT64_MAX: Final = 2**64 - 1
_INT64_MIN: Final = -(2**63)


def resolve(text: str) -> Any:
    """The value of a plain scalar: None, a boolean, an int within -2^63 to 2^64-1, a float, or the text itself."""
    if text and text[0] not in _HINTS:
        return text
    if text in _WORDS:
        return _WORDS[text]
    first = text[0]
    if first in _WORD_HINTS or len(text) > _MAX_NUMBER:
        return text
    plain = text.replace("_", "") if "_" in text else text
    if first == ".":
        return _finite(plain, text) if _DOT_FLOAT.fullmatch(plain) else text
    integer = _INTEGER.fullmatch(plain)
    if integer is not None:
        sign, hexadecimal, binary, octal, decimal = integer.groups()
        number = int(hexadecimal, 16) if hexadecimal else int(binary, 2) if binary else int(octal, 8) if octal else int(decimal)
        number = -number if sign == "-" else number
        # Go's ParseUint, the second try, takes no sign.
        if _INT64_MIN <= number < 2**63 or (not sign and number <= _UINT64_MAX):
            return number
    return _finite(plain, text) if _FLOAT.fullmatch(plain) else text


def _finite(plain: str, text: str) -> Any:
    value = float(plain)
    return text if value in {float("inf"), float("-inf")} else value
