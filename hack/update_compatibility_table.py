"""Write docs/compatibility.md: the results of the tests marked `compatibility` for each client.

python hack/update_compatibility_table.py [TESTS …]

Without arguments all tests run, with every available version of every client. With arguments, such as `e2e/test_go.py`, only these tests
run. The table keeps the results of other tests and of tests that are skipped.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import pytest  # noqa: E402

TABLE = ROOT / "docs" / "compatibility.md"
INTRODUCTION = """\
# Compatibility

<!-- Written by hack/update_compatibility_table.py from the tests marked `compatibility`. -->

Released clients run unmodified against a server. Each does what its row names, in a logical cluster of its own, and gets the answers of a
Kubernetes server. The tests are in `e2e/`. `make test` runs a few versions of kubectl and helm, `make e2e-clients` all of them.

Not tried, because the server does not serve what they need: `create token`, `top`, `drain`.

| client | version | what was exercised | result |
|---|---|---|---|
"""
ROW = re.compile(r"^\| ([^|]+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
PASSED = "passed"
UNKNOWN = "not run"

Subject = tuple[str, str]
"""A client and its version."""


@dataclass
class Collector:
    """What pytest finds and says, as its plugin."""

    marked: dict[str, list[tuple[str, str, str]]] = field(default_factory=dict)
    """Client, version and phrase of each test, by its id."""
    failed: set[str] = field(default_factory=set)
    ran: set[str] = field(default_factory=set)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            for mark in item.iter_markers("compatibility"):
                client, version, exercised = mark.args
                self.marked.setdefault(item.nodeid, []).append((client, version, exercised))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        # The scheduler of pytest-xdist appends the group.
        name = report.nodeid.partition("@")[0] if report.nodeid not in self.marked else report.nodeid
        if report.failed:
            self.failed.add(name)
        if report.when == "call" and not report.skipped:
            self.ran.add(name)


def collect() -> dict[Subject, str]:
    """The features that are tested with each version of each client, from the markers alone."""
    collector = Collector()
    code, said = _pytest(["--collect-only", "-m", "compatibility", "e2e"], collector)
    if code != pytest.ExitCode.OK:
        sys.exit(said)
    return _phrases(collector)


def run(tests: list[str]) -> dict[Subject, str]:
    """Run tests and say what came out for each version of each client that they cover in full."""
    chosen = Collector()
    _pytest(["--collect-only", "-m", "compatibility", *tests], chosen)
    collector = Collector()
    pytest.main(["-m", "compatibility", "-n", "2", "--dist", "loadgroup", "-p", "no:cacheprovider", *tests], plugins=[collector])
    results: dict[Subject, str] = {}
    names: dict[Subject, list[str]] = {}
    for name, marks in chosen.marked.items():
        for client, version, _ in marks:
            names.setdefault((client, version), []).append(name)
    for subject, of_subject in names.items():
        failed = [name for name in of_subject if name in collector.failed]
        if failed:
            results[subject] = "fails: " + ", ".join(sorted(name.rpartition("::")[2].partition("[")[0] for name in failed))
        elif all(name in collector.ran for name in of_subject):
            results[subject] = PASSED
    return results


def read() -> dict[Subject, tuple[str, str]]:
    """Phrases and results that the table has."""
    text = TABLE.read_text("utf-8") if TABLE.exists() else ""
    rows = [match.groups() for match in ROW.finditer(text)][1:]
    return {(client, version): (phrases, result) for client, versions, phrases, result in rows for version in versions.split(", ")}


def render(rows: dict[Subject, tuple[str, str]]) -> str:
    """The whole document; versions of one client with equal phrases and results share a row."""
    merged: dict[tuple[str, str, str], list[str]] = {}
    for (client, version), (phrases, result) in rows.items():
        merged.setdefault((client, phrases, result), []).append(version)
    lines = [
        f"| {client} | {', '.join(sorted(versions, key=_order))} | {phrases} | {result} |\n"
        for (client, phrases, result), versions in sorted(merged.items(), key=lambda item: (item[0][0], _order(item[1][0])))
    ]
    return INTRODUCTION + "".join(lines)


def _order(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)]


def _phrases(collector: Collector) -> dict[Subject, str]:
    found: dict[Subject, list[str]] = {}
    for marks in collector.marked.values():
        for client, version, exercised in marks:
            phrases = found.setdefault((client, version), [])
            if exercised not in phrases:
                phrases.append(exercised)
    return {subject: "; ".join(phrases) for subject, phrases in found.items()}


def _pytest(arguments: list[str], collector: Collector) -> tuple[int, str]:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        code = pytest.main([*arguments, "-q", "-p", "no:cacheprovider"], plugins=[collector])
    return code, printed.getvalue()


def main() -> None:
    os.chdir(ROOT)
    os.environ.setdefault("KCP_PY_TEST_GO", "1")
    known = read()
    exercised = collect()
    results = run(sys.argv[1:] or ["e2e"])
    rows = {
        subject: (phrases, results.get(subject) or known.get(subject, ("", UNKNOWN))[1]) for subject, phrases in sorted(exercised.items())
    }
    TABLE.write_text(render(rows), "utf-8")
    if bad := sorted({result for _, result in rows.values()} - {PASSED}):
        sys.exit("\n".join(bad))


# The table is of every version, whatever a run of the tests takes.
os.environ["KCP_PY_TEST_KUBECTL_VERSIONS"] = "all"

if __name__ == "__main__":
    main()
