"""Logical clusters as tables, names, JSON, YAML and text."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pytest
import yaml

from kcp_py.cli.clusterviews import PAGE, age, description, phase, print_clusters
from kcp_py.cli.root import run
from tests.cli.conftest import running_server

NOW = dt.datetime(2026, 1, 2, tzinfo=dt.UTC)


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """The kubeconfig of a server with two clusters."""
    with running_server(tmp_path_factory, "-m", "kcp_py") as kubeconfig:
        for name, tier in (("team-a", "gold"), ("team-with-a-name-that-is-longer-than-most-others", "iron")):
            assert run(["cluster", "create", name, "--label", f"tier={tier}", "--kubeconfig", str(kubeconfig)]) == 0
        yield kubeconfig


def item(name: str = "team-a", **metadata: Any) -> dict[str, Any]:
    annotations = {"kcp.io/cluster": name, **metadata.pop("annotations", {})}
    return {
        "metadata": {"name": "cluster", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z", "annotations": annotations, **metadata},
        "status": {"phase": "Ready", "URL": f"https://h/clusters/{name}"},
    }


def test_get(command):
    """One cluster or several, in every form."""
    head, row = command("get", "team-a")[1].splitlines()
    assert head.split() == ["NAME", "PHASE", "AGE"]
    assert row.split()[:2] == ["team-a", "Ready"]
    assert json.loads(command("get", "team-a", "-o", "json")[1])["metadata"]["labels"]["tier"] == "gold"
    assert yaml.safe_load(command("get", "team-a", "-o", "yaml")[1])["kind"] == "LogicalCluster"
    assert command("get", "team-a", "root", "-o", "name")[1] == "team-a\nroot\n"
    assert len(json.loads(command("get", "team-a", "root", "-o", "json")[1])) == 2
    assert command("get", "team-a", "absent") == (1, "", "error: there is no logical cluster absent\n")


def test_list_with_a_selector(command):
    """Only the clusters whose labels match are listed; a wrong selector is the server's error."""
    assert command("list", "-l", "tier=gold", "-o", "name")[1] == "team-a\n"
    assert command("list", "-l", "tier in (iron),tier!=gold", "-o", "name")[1].startswith("team-with")
    assert command("list", "-l", "tier=none") == (0, "", "no logical clusters\n")
    assert command("list", "-l", "tier=none", "-o", "json")[1] == "[]\n"
    code, out, err = command("list", "-l", "=x")
    assert (code, out, err.count("\n")) == (1, "", 1)


def test_wide_and_long_names(command):
    """Columns are as wide as their cells; the wide table has URL, uid, protection and labels."""
    head, *rows = command("list", "-o", "wide")[1].splitlines()
    assert head.split() == ["NAME", "PHASE", "AGE", "URL", "UID", "PROTECTED", "LABELS"]
    assert {row[head.index("PHASE") :].split()[0] for row in rows} == {"Ready"}
    assert any(row.split()[3].endswith("/clusters/team-a") and "tier=gold" in row for row in rows)
    documents = list(yaml.safe_load_all(command("list", "-o", "yaml")[1]))
    assert [one["kind"] for one in documents] == ["LogicalCluster"] * len(rows)


def test_describe(command):
    """Name, phase, labels and protection, one below the other."""
    code, out, _ = command("describe", "team-a")
    lines = dict(line.split(":", 1) for line in out.splitlines() if ":" in line and not line.startswith(" "))
    assert code == 0
    assert lines["Name"].strip() == "team-a"
    assert lines["Deletion protection"].strip() == "no"
    assert "tier=gold" in out
    assert command("describe", "absent") == (1, "", "error: there is no logical cluster absent\n")


def test_description_of_a_deleted_cluster():
    """It says how the cluster comes back, or since when it is going and what it waits for."""
    end = "2026-01-03T00:00:00Z"
    deleted = item(annotations={"kcp-py.io/delete-after": end, "kcp-py.io/deletion-protection": "true"})
    lines = [" ".join(line.split()) for line in description(deleted, NOW)]
    assert f'Deleted: until {end} "kcp-py cluster undelete team-a" brings it back' in lines
    assert "Deletion protection: yes" in lines
    assert "Conditions: <none>" in lines
    going = item(deletionTimestamp=end)
    going["status"]["conditions"] = [{"type": "WorkspaceContentDeleted", "status": "False", "reason": "R", "message": "waits"}]
    lines = list(description(going, NOW))
    assert f"Deleting since:       {end}" in lines
    assert lines[-3:] == [
        "Conditions:",
        "  TYPE                      STATUS   REASON   MESSAGE",
        "  WorkspaceContentDeleted   False    R        waits",
    ]


@pytest.mark.parametrize(
    ("metadata", "wanted"),
    [
        pytest.param({}, "Ready", id="in use"),
        pytest.param({"annotations": {"kcp-py.io/delete-after": "x"}}, "Deleted", id="can be undeleted"),
        pytest.param({"annotations": {"kcp-py.io/delete-after": "x"}, "deletionTimestamp": "x"}, "Deleting", id="cannot be undeleted"),
    ],
)
def test_phase(metadata, wanted):
    """What the object says, unless the cluster is deleted."""
    assert phase(item(**metadata)) == wanted


@pytest.mark.parametrize(
    ("created", "wanted"),
    [(None, "<unknown>"), ("2026-01-01T23:59:58Z", "2s"), ("2026-01-01T23:00:00Z", "60m"), ("2025-12-01T00:00:00Z", "32d")],
)
def test_age(created, wanted):
    """The largest unit of which there are at least two."""
    assert age(created, NOW) == wanted


def test_pages_are_printed_as_they_come(capsys):
    """A table of more rows than are printed at once has one heading, and JSON is one array."""
    print_clusters((item(f"c{number}") for number in range(PAGE + 2)), "table")
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == PAGE + 3
    assert sum("NAME" in line for line in lines) == 1
    print_clusters((item(f"c{number}") for number in range(3)), "json")
    assert len(json.loads(capsys.readouterr().out)) == 3
