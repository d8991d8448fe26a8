"""The events that the code logs, read from its source, and what the table of events lacks of them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from kcp_py.telemetry.events import LOG_EVENTS

PACKAGE = Path(__file__).resolve().parents[2] / "kcp_py"
_METHODS = {"debug": "debug", "info": "info", "warning": "warning", "error": "error", "exception": "error", "critical": "critical"}
_ALWAYS = {"exc_info"}
_HELPERS = {"_warn": ("warning", ("reason",))}
"""Methods that log the event that they are given, by name: its level and fields."""
ACCESS = "request"
"""Logged by the access log, which takes whole lines."""
FORWARDED = "library_message"
"""Logged with the library's own level."""


class Logged(NamedTuple):
    """A place where an event is logged."""

    where: str
    name: str | None
    """None: not a literal."""
    level: str
    fields: frozenset[str]


def _literal(node: ast.Call) -> str | None:
    first = node.args[0] if node.args else None
    return first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else None


def logged(folder: Path = PACKAGE) -> Iterator[Logged]:
    """Every call of a logger in the code."""
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in {*_METHODS, *_HELPERS}):
                continue
            if node.func.attr in _HELPERS:
                level, with_fields = _HELPERS[node.func.attr]
                yield Logged(f"{path.relative_to(folder.parent)}:{node.lineno}", _literal(node), level, frozenset(with_fields))
                continue
            owner = ast.unparse(node.func.value)
            if not re.fullmatch(
                r"(?:self\.)?_?(?:log|logger)|structlog\.get_logger\(.*\)|logging(?:\.getLogger\(.*\))?", owner, re.IGNORECASE
            ):
                continue
            if node.args and ast.unparse(node.args[0]) == "event":
                continue  # inside a helper
            name = _literal(node) if len(node.args) == 1 else None
            fields = frozenset(keyword.arg for keyword in node.keywords if keyword.arg) - _ALWAYS
            yield Logged(f"{path.relative_to(folder.parent)}:{node.lineno}", name, _METHODS[node.func.attr], fields)


def standard_loggers(folder: Path = PACKAGE) -> Iterator[str]:
    """Modules with a logger of the standard library: what it logs below warning is never seen, and nothing of it is an event."""
    for path in sorted(folder.rglob("*.py")):
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            # uvicorn's own loggers are given to its code.
            if re.search(r"logging\.getLogger\((?!\"uvicorn)", line):
                yield f"{path.relative_to(folder.parent)}:{number}"


def faults() -> list[str]:
    """What does not fit between the code and the table, one line each."""
    found = [f"{place}: a logger of the standard library; use structlog" for place in standard_loggers()]
    seen = {ACCESS, FORWARDED}
    for one in logged():
        event = LOG_EVENTS.get(one.name or "")
        if one.name is None:
            found.append(f"{one.where}: the event must be one literal in snake_case, its values keyword arguments")
        elif event is None:
            found.append(f"{one.where}: event {one.name} is not in kcp_py/telemetry/events.py")
        else:
            seen.add(one.name)
            if one.level not in event.levels:
                found.append(f"{one.where}: event {one.name} has the level {one.level}, the table says {', '.join(event.levels)}")
            if unknown := one.fields - set(event.fields):
                found.append(f"{one.where}: event {one.name} has the fields {', '.join(sorted(unknown))}, which the table lacks")
    found += [f"kcp_py/telemetry/events.py: event {name} is never logged" for name in sorted(set(LOG_EVENTS) - seen)]
    return found
