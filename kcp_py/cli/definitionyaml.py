"""`print_definition`: a CRD in the form in which controller-gen writes it: sorted members, texts of several lines as blocks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

_WIDTH = 80


class _Dumper(yaml.SafeDumper):
    """Writes what the YAML library of Go writes."""

    def ignore_aliases(self, data: Any) -> bool:
        """Equal parts are written out each time."""
        del data
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = "|" if "\n" in value.strip("\n") else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def print_definition(crd: Mapping[str, Any]) -> str:
    """A YAML document, with its first line `---`. What every CRD has by default is left out."""
    spec = {name: value for name, value in crd["spec"].items() if name != "conversion" or value != {"strategy": "None"}}
    return "---\n" + yaml.dump({**crd, "spec": spec}, Dumper=_Dumper, width=_WIDTH, allow_unicode=True)
