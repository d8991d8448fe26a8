"""Rows of a SQLite database as a read-only resource, with lists, pages, selectors, tables and watches. Each logical cluster has its rows.

::

    python config/samples/library/database_rows.py 8080 &
    alias k='kubectl --server http://127.0.0.1:8080/clusters/team-a'
    k get books -w &
    sqlite3 books.db "INSERT INTO books VALUES ('team-a', 'emma', 'Jane Austen', 1815)"
"""

import asyncio
import sqlite3
import sys
from collections.abc import Sequence
from typing import Any

import uvicorn

from kcp_py import ComputedResource, ControlPlane, Credentials, Name, Options, SnapshotStorage, UserInfo

DATABASE = "books.db"


class Books(SnapshotStorage):
    """The rows of the table `books`, looked at each second while they are watched."""

    interval = 1.0
    freshness = 0.0

    async def items(self, cluster: Name) -> Sequence[dict[str, Any]]:
        return await asyncio.to_thread(self._read, cluster)

    def _read(self, cluster: Name) -> Sequence[dict[str, Any]]:
        connection = sqlite3.connect(DATABASE)
        try:
            rows = connection.execute("SELECT name, author, year FROM books WHERE cluster = ?", (cluster,))
            return [
                {"metadata": {"name": name, "labels": {"century": str(year // 100 + 1)}}, "author": author, "year": year}
                for name, author, year in rows
            ]
        finally:
            connection.close()


books = ComputedResource(
    group="library.example.com",
    version="v1",
    resource="books",
    kind="Book",
    namespaced=False,
    rest=Books(),
    schema={"type": "object", "properties": {"author": {"type": "string"}, "year": {"type": "integer"}}},
    columns=[
        {"name": "Author", "type": "string", "jsonPath": ".author"},
        {"name": "Year", "type": "integer", "jsonPath": ".year"},
    ],
)
control_plane = ControlPlane(Options(storage="memory"), apis=[books])


@control_plane.authenticator
async def everyone(_credentials: Credentials) -> UserInfo:
    """Each request is that of an administrator, so the server must listen on this machine only."""
    return UserInfo("me", groups=("system:masters",))


async def main(port: int) -> None:
    """Serve until interrupted."""
    with sqlite3.connect(DATABASE) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS books (cluster, name, author, year, PRIMARY KEY (cluster, name))")
    async with control_plane:
        await uvicorn.Server(uvicorn.Config(control_plane.app, port=port, log_level="warning")).serve()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
