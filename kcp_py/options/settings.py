"""`Setting`: one field of `Options` with its spellings; `SETTINGS`: all of them in the order of the fields."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Final

from kcp_py.options.kinds import Kind
from kcp_py.options.options import Options

ENVIRONMENT_PREFIX: Final = "KCP_PY_"


@dataclass(frozen=True, slots=True)
class Setting:
    """What can be said about one setting without a value: its names, its kind, its default and its help."""

    name: str
    """The field of `Options`: `secure_port`."""
    kind: Kind
    default: Any
    help: str
    section: str
    """The heading under which `--help` and the reference list it."""
    hidden: bool
    """Left out of `--help` and the reference."""

    @property
    def flag(self) -> str:
        """`--secure-port`, as kcp and kube-apiserver spell it."""
        return "--" + self.name.replace("_", "-")

    @property
    def variable(self) -> str:
        """`KCP_PY_SECURE_PORT`."""
        return ENVIRONMENT_PREFIX + self.name.upper()

    @property
    def key(self) -> str:
        """`securePort`, in the configuration file."""
        first, *rest = self.name.split("_")
        return first + "".join(word.capitalize() for word in rest)

    @property
    def default_text(self) -> str:
        """The default as a flag would take it; empty where there is none."""
        return self.kind.render(self.default)


def _settings() -> tuple[Setting, ...]:
    found = []
    for field in dataclasses.fields(Options):
        about = field.metadata
        found.append(Setting(field.name, about["kind"], field.default, about["help"], about["section"], about["hidden"]))
    return tuple(found)


SETTINGS: Final = _settings()
