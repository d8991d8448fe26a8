"""`kcp-py version`."""

from __future__ import annotations

import click

from kcp_py import __version__


@click.command(epilog="\b\nExample:\n  kcp-py version")
def version() -> None:
    """Print the version of the program. `kcp-py doctor` prints those of its libraries too."""
    click.echo(f"kcp-py {__version__}")
