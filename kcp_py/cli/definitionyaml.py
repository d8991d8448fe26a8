"""`print_definition`: a CRD in the form in which controller-gen writes it: sorted members, texts of several lines as blocks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

_WIDTH = 80
_BOOLEANS = frozenset("yYnN")
"""Texts that only some readers of YAML 1.1 take for truth values."""


class _Dumper(yaml.SafeDumper):
    """Writes what the YAML library of Go writes."""

    def ignore_aliases(self, data: Any) -> bool:
        """Equal parts are written out each time."""
        del data
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    tag = "tag:yaml.org,2002:str"
    style = None
    if "\n" in value.strip("\n"):
        style = "|"
    elif any(character > "\uffff" for character in value):
        style = '"'  # with escapes
    elif value in _BOOLEANS or _resolved(dumper, value) != tag:
        style = '"'
    return dumper.represent_scalar(tag, value, style=style)


def _resolved(dumper: Any, value: str) -> Any:
    """The type that a plain text would be read as."""
    return dumper.resolve(yaml.ScalarNode, value, (True, False))


_Dumper.add_representer(str, _text)


def print_definition(crd: Mapping[str, Any]) -> str:
    """A YAML document, with its first line `---`. What every CRD has by default is left out."""
    spec = {name: value for name, value in crd["spec"].items() if name != "conversion" or value != {"strategy": "None"}}
    spec["versions"] = sorted(spec["versions"], key=lambda version: str(version["name"]))
    return "---\n" + yaml.dump({**crd, "spec": spec}, Dumper=_Dumper, width=_WIDTH, allow_unicode=True)
