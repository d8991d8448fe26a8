"""A command line of a program's own: every setting of `kcp-py start`, together with options of its own.

python config/samples/library/own_command.py --secure-port 6443 --home Iolcus
kcp-py start --app config/samples/library/own_command.py:control_plane --secure-port 6443
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import click

from kcp_py import Attributes, ControlPlane, Options, StoredResource, server_command

SHIPS = StoredResource(
    group="fleet.example.com",
    version="v1",
    resource="ships",
    kind="Ship",
    schema={"type": "object", "properties": {"spec": {"type": "object", "properties": {"home": {"type": "string"}}}}},
)


@asynccontextmanager
async def control_plane(options: Options, home: str = "Athens") -> AsyncIterator[ControlPlane]:
    """A control plane with what it needs: connections are opened here, and closed when the server stops."""
    made = ControlPlane(options, apis=[SHIPS])

    @made.mutating("ships.fleet.example.com", operations=["CREATE"])
    def at_home(attributes: Attributes) -> None:
        if attributes.obj is not None:
            attributes.obj.setdefault("spec", {}).setdefault("home", home)

    yield made


@server_command()
@click.option("--home", default="Athens", show_default=True, help="Home port of ships that name none.")
def main(options: Options, home: str) -> object:
    """Serve a fleet."""
    return control_plane(options, home)


if __name__ == "__main__":
    main()
