"""Names of properties as CEL can spell them.

Source: apiserver `pkg/cel/escaping.go`.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["KEYWORDS", "escape"]

_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_SPELLABLE: Final = re.compile(r"[A-Za-z0-9_./-]*", re.ASCII)
_ESCAPED: Final = re.compile(r"__|[./-]")
_ESCAPES: Final = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
KEYWORDS: Final = frozenset(
    {
        *("true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import"),
        *("let", "loop", "package", "namespace", "return", "var", "void", "while"),
    }
)


def escape(name: str) -> str | None:
    """What a property is called in expressions; None: it cannot be spelled."""
    if name in KEYWORDS:
        return f"__{name}__"
    if not _SPELLABLE.fullmatch(name):
        return None
    escaped = _ESCAPED.sub(lambda match: _ESCAPES[match[0]], name)
    return escaped if _IDENTIFIER.fullmatch(escaped) else None
