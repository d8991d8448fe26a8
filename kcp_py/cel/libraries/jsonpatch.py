"""Keys in the paths of JSON patches (apiserver `pkg/cel/library/jsonpatch.go`): for mutating admission policies, not for schema rules."""

from __future__ import annotations

from typing import Final

from kcp_py.cel.arithmetic import grown
from kcp_py.cel.declarations import Function, Library, Overload
from kcp_py.cel.types import STRING

__all__ = ["JSONPATCH"]


def _escape_key(key: str) -> str:
    """A key as one segment of a JSON pointer (RFC 6901)."""
    grown(len(key) + key.count("~") + key.count("/"))
    return key.replace("~", "~0").replace("/", "~1")


JSONPATCH: Final = Library(
    "kubernetes.jsonpatch",
    functions=(
        Function("jsonpatch.escapeKey", (Overload("string_jsonpatch_escapeKey_string", (STRING,), STRING, implementation=_escape_key),)),
    ),
)
