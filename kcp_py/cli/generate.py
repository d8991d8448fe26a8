"""`kcp-py generate`: files that are written from programs, definitions and running servers."""

from __future__ import annotations

from typing import Final

import click

from kcp_py.cli.groups import LazyGroup

COMMANDS: Final = {
    "crds": ("kcp_py.cli.generatecrds:crds", "Write the CRDs of the resources of a program."),
    "apiservice": ("kcp_py.cli.generateapiservice:apiservice", "Write what registers a program as an aggregated API server."),
}
"""As in `kcp_py.cli.root`."""


class _Generate(LazyGroup):
    """The commands of the group."""

    locations = COMMANDS


@click.group(
    cls=_Generate,
    epilog="\b\nExample:\n  kcp-py generate crds my_operator.types -o config/crd",
)
def generate() -> None:
    """Write files from programs, definitions and running servers."""
