"""`kcp-py generate`: files that are written from programs, definitions and running servers."""

from __future__ import annotations

from typing import Final

import click

from kcp_py.cli.groups import LazyGroup
from kcp_py.cli.manual import Manual

COMMANDS: Final = {
    "crds": ("kcp_py.cli.generatecrds:crds", "Write the CRDs of the resources of a program."),
    "models": ("kcp_py.cli.generatemodels:models", "Write Python classes of CRDs, or of the kinds of a running server."),
    "apiservice": ("kcp_py.cli.generateapiservice:apiservice", "Write what registers a program as an aggregated API server."),
}
"""As in `kcp_py.cli.root`."""


class _Generate(LazyGroup):
    """The commands of the group."""

    locations = COMMANDS


@click.group(
    cls=_Generate,
    manual=Manual(
        ("kcp-py generate crds my_operator.types -o config/crd", "kcp-py generate models config/crd -o fleet/types.py"),
        see_also=("validate",),
    ),
)
def generate() -> None:
    """Write files from programs, definitions and running servers."""
