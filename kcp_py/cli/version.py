"""`kcp-py version`."""

from __future__ import annotations

import click

from kcp_py import __version__
from kcp_py.cli.manual import Documented, Manual


@click.command(cls=Documented, manual=Manual(("kcp-py version",), see_also=("doctor",)))
def version() -> None:
    """Print the version of the program. `kcp-py doctor` prints those of its libraries too."""
    click.echo(f"kcp-py {__version__}")
