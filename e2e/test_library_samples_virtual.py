"""The samples of virtual resources do what they say, with kubectl."""

from __future__ import annotations

import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from e2e.programs import serving

SAMPLES = Path(__file__).parents[1] / "config/samples/library"


class Kubectl:
    """kubectl on the logical cluster `team-a` of a sample."""

    def __init__(self, binary: str, url: str, directory: Path) -> None:
        self._command = [binary, "--server", f"{url}/clusters/team-a"]
        self._environment = {"HOME": str(directory), "PATH": "/usr/bin:/bin"}

    def __call__(self, *arguments: str, document: str = "") -> subprocess.CompletedProcess[str]:
        command = [*self._command, *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=self._environment, input=document)

    @contextmanager
    def lines(self, *arguments: str) -> Iterator[Iterator[list[str]]]:
        """The words of each line that a command prints, while it runs."""
        with subprocess.Popen([*self._command, *arguments], stdout=subprocess.PIPE, text=True, env=self._environment) as process:
            assert process.stdout is not None
            try:
                yield (line.split() for line in process.stdout)
            finally:
                process.kill()


@contextmanager
def sample(name: str, binary: str, directory: Path) -> Iterator[Kubectl]:
    with serving(SAMPLES / name, directory) as url:
        yield Kubectl(binary, url, directory)


def test_rows_of_a_database(kubectl_binary: str, tmp_path: Path) -> None:
    """Table, pages, selectors, and a watch that prints each row once; rows of other clusters are not seen."""
    database = tmp_path / "books.db"

    def execute(statement: str, *values: Any) -> None:
        connection = sqlite3.connect(database)
        with connection:
            connection.execute(statement, values)
        connection.close()

    with sample("database_rows.py", kubectl_binary, tmp_path) as kubectl:
        for name, author, year in (("emma", "Austen", 1815), ("ulysses", "Joyce", 1922)):
            execute("INSERT INTO books VALUES ('team-a', ?, ?, ?)", name, author, year)
        execute("INSERT INTO books VALUES ('team-b', 'secret', 'Nobody', 2000)")
        table = [["NAME", "AUTHOR", "YEAR"], ["emma", "Austen", "1815"], ["ulysses", "Joyce", "1922"]]
        assert [line.split() for line in kubectl("get", "books", "--chunk-size=1").stdout.splitlines()] == table
        assert kubectl("get", "books", "-l", "century=20", "-o", "name").stdout == "book.library.example.com/ulysses\n"
        with kubectl.lines("get", "books", "-w") as lines:
            assert [next(lines) for _ in range(3)] == table
            execute("UPDATE books SET year = 1816 WHERE name = 'emma'")
            assert next(lines) == ["emma", "Austen", "1816"]
        assert 'books.library.example.com "secret" not found' in kubectl("get", "books", "secret").stderr
        assert "MethodNotAllowed" in kubectl("delete", "book", "emma").stderr


def test_objects_counted_in_another_api(kubectl_binary: str, tmp_path: Path) -> None:
    """Counts follow the objects of the source."""
    with sample("proxied_usage.py", kubectl_binary, tmp_path) as kubectl:
        assert "created" in kubectl("create", "configmap", "one").stdout
        with kubectl.lines("get", "namespaceusages", "-w") as lines:
            assert [next(lines)[0], next(lines)[:1]] == ["NAME", ["default"]]
            assert "created" in kubectl("create", "secret", "generic", "two").stdout
            assert next(lines)[-1] == "1"
