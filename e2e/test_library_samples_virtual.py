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


def test_a_service_catalog(kubectl_binary: str, tmp_path: Path) -> None:
    """Users order databases and have no access to the instances behind them, which administrators change."""
    order = '{{"apiVersion": "catalog.example.com/v1", "kind": "Database", "metadata": {{"name": "orders"}}, "spec": {{"plan": "{}"}}}}'
    with sample("service_catalog.py", kubectl_binary, tmp_path) as kubectl:
        user = ("--as", "jane")
        assert "created" in kubectl("apply", "-f", "-", *user, document=order.format("small")).stdout
        with kubectl.lines("get", "databases", "-w", *user) as lines:
            assert [next(lines), next(lines)] == [["NAME", "PLAN", "ADDRESS"], ["orders", "small"]]
            patch = ("patch", "instances", "orders", "--type", "merge", "-p", '{"spec": {"host": "db-7"}}')
            assert "Forbidden" in kubectl(*patch, *user).stderr
            assert "patched" in kubectl(*patch).stdout
            assert next(lines) == ["orders", "small", "db-7:5432"]
        assert "configured" in kubectl("apply", "-f", "-", *user, document=order.format("large")).stdout
        assert kubectl("get", "instance", "orders", "-o", "jsonpath={.spec}").stdout == '{"gigabytes":100,"host":"db-7"}'
        assert (
            "spec.plan: Forbidden: a large database cannot become small"
            in kubectl("apply", "-f", "-", *user, document=order.format("small")).stderr
        )
        assert "spec.plan" in kubectl("apply", "-f", "-", *user, document=order.format("odd")).stderr
        applied = kubectl("apply", "--server-side", "--field-manager=kubectl", "-f", "-", *user, document=order.format("large"))
        assert "serverside-applied" in applied.stdout, applied.stderr
        assert "patched" in kubectl("patch", "instances", "orders", "--type", "merge", "-p", '{"spec": {"gigabytes": 55}}').stdout
        assert kubectl("get", "databases", "-o", "custom-columns=:.spec.plan", "--no-headers", *user).stdout == "custom\n"
        assert "deleted" in kubectl("delete", "databases", "orders", *user).stdout
        assert "No resources found" in kubectl("get", "instances").stderr
