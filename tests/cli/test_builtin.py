"""Commands that install kinds of Kubernetes."""

from __future__ import annotations

import json

import pytest
import yaml

from kcp_py.cli.root import run
from tests.cli.conftest import running_server


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """The kubeconfig of a server that runs for the tests of this module."""
    with running_server(tmp_path_factory, "-m", "kcp_py") as kubeconfig:
        yield kubeconfig


@pytest.fixture
def command(running, capsys):
    """Runs `kcp-py builtin …` against the server: exit code, stdout, stderr."""

    def call(*arguments):
        code = run(["builtin", *arguments, "--kubeconfig", str(running)])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def test_install(command):
    """Kinds are created once, found again, brought up to date, listed, and deleted."""
    assert command("install", "--create", "--cluster", "team-a", "pods", "deployments.apps") == (
        0,
        "pods.core created\ndeployments.apps created\n",
        "",
    )
    assert command("install", "--create", "--cluster", "team-a", "po", "sts")[1] == "pods.core unchanged\nstatefulsets.apps created\n"
    listed = {line.split()[0]: line.split()[-1] for line in command("list", "--cluster", "team-a")[1].splitlines()[1:]}
    assert (listed["pods"], listed["statefulsets.apps"], listed["services"]) == ("yes", "yes", "no")
    assert command("uninstall", "--cluster", "team-a", "sts", "services") == (0, "statefulsets.apps deleted\nservices.core not found\n", "")
    code, out, err = command("install", "--create", "--cluster", "team-b", "all")
    assert (code, out.count(" created\n"), err.count("warning: ")) == (0, 45, 4)


def test_an_older_definition_is_brought_up_to_date(command, running):
    """Definitions in another form are replaced by those of this version."""
    from kcp_py.cli.builtin import RESOURCE
    from kcp_py.cli.remote import RemoteServer, load_context

    command("install", "--create", "--cluster", "team-c", "services")
    with RemoteServer(load_context(str(running), None)) as server:
        path = f"/clusters/team-c/{RESOURCE}/services.core"
        crd = server.request("GET", path)
        del crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]
        server.request("PUT", path, crd)
        assert command("install", "--create", "--cluster", "team-c", "services")[1] == "services.core configured\n"
        assert "status" in server.request("GET", path)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]


def test_names_in_use(command, running):
    """A kind whose names another definition holds is reported, not waited for."""
    from kcp_py.cli.builtin import RESOURCE
    from kcp_py.cli.remote import RemoteServer, load_context

    other = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "others.apps"},
        "spec": {
            "group": "apps",
            "names": {"plural": "others", "kind": "Other", "shortNames": ["deploy"]},
            "scope": "Namespaced",
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    }
    with RemoteServer(load_context(str(running), None)) as server:
        server.request("POST", f"/clusters/team-d/{RESOURCE}", other)
    command("install", "--create", "--cluster", "team-d", "replicasets")
    code, _, err = command("install", "--create", "--cluster", "team-d", "deployments")
    assert (code, err) == (1, 'error: deployments.apps: "deploy" is already in use\n')


def test_definitions_are_printed(capsys):
    """Without a server, as text, names, JSON or YAML that other tools read."""
    assert run(["builtin", "install", "--dry-run", "pods"]) == 0
    assert capsys.readouterr().out == "pods.core would be installed\n"
    run(["builtin", "install", "--dry-run", "-o", "name", "*.apps"])
    assert "deployments.apps\n" in capsys.readouterr().out
    run(["builtin", "install", "--dry-run", "-o", "json", "pods"])
    assert json.loads(capsys.readouterr().out)["items"][0]["metadata"]["name"] == "pods.core"
    run(["builtin", "install", "--dry-run", "-o", "yaml", "pods", "deployments"])
    text = capsys.readouterr().out
    assert [document["metadata"]["name"] for document in yaml.safe_load_all(text)] == ["pods.core", "deployments.apps"]
    assert "&id" not in text


def test_list_without_a_server(capsys):
    """The kinds are known without one."""
    assert run(["builtin", "list"]) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split() == ["NAME", "KIND", "VERSIONS", "SHORTNAMES"]
    assert ["pods", "Pod", "v1", "po"] in [row.split() for row in rows]


def test_unknown_names(capsys):
    """One line describes the fault."""
    assert run(["builtin", "install", "--dry-run", "podz"]) == 2
    assert capsys.readouterr().err.startswith('error: "podz" is not a kind of Kubernetes that can be installed; did you mean')


def test_a_cluster_that_is_not_there(command, running):
    """Nothing is created for a misspelt name: each command says that there is no such cluster, and install names --create."""
    from kcp_py.cli.remote import RemoteServer, load_context

    code, out, err = command("install", "--cluster", "misspelt", "pods")
    assert (code, out, err) == (1, "", "error: there is no logical cluster misspelt; --create makes it\n")
    for call in (("uninstall", "--cluster", "misspelt", "pods"), ("list", "--cluster", "misspelt")):
        assert command(*call) == (1, "", "error: there is no logical cluster misspelt\n")
    with RemoteServer(load_context(str(running), None)) as server:
        items = server.request("GET", "/clusters/*/apis/core.kcp.io/v1alpha1/logicalclusters")["items"]
    assert "misspelt" not in {item["metadata"]["annotations"]["kcp.io/cluster"] for item in items}
    assert command("install", "--cluster", "misspelt", "--create", "pods") == (0, "pods.core created\n", "")


def test_installed_kinds_are_marked_and_protected(command, running):
    """Another client cannot delete an installed kind; uninstall can, and install marks what an older version installed."""
    from kcp_py.cli.builtin import RESOURCE
    from kcp_py.cli.remote import RemoteError, RemoteServer, load_context

    command("install", "--create", "--cluster", "team-e", "deployments.apps")
    path = f"/clusters/team-e/{RESOURCE}/deployments.apps"
    with RemoteServer(load_context(str(running), None)) as server:
        assert server.request("GET", path)["metadata"]["annotations"]["kcp-py.io/installed-by"] == "builtin"
        with pytest.raises(RemoteError, match="kcp-py builtin uninstall deployments") as refused:
            server.request("DELETE", path)
        assert refused.value.status == 403
        server.request("PATCH", path, {"metadata": {"annotations": {"kcp-py.io/installed-by": None}}})
    assert command("install", "--cluster", "team-e", "deployments.apps")[1] == "deployments.apps configured\n"
    assert command("install", "--cluster", "team-e", "deployments.apps")[1] == "deployments.apps unchanged\n"
    assert command("uninstall", "--cluster", "team-e", "deployments.apps") == (0, "deployments.apps deleted\n", "")
    assert "kcp-py.io/installed-by" not in command("install", "--dry-run", "-o", "yaml", "deployments.apps")[1]


def test_kinds_that_nothing_enforces(command):
    """Installing a kind that protects nothing yet says so on stderr, with and without a dry run."""
    warning = (
        "warning: networkpolicies.networking.k8s.io: kcp-py stores these objects and does not enforce them: "
        "no network traffic is filtered\n"
    )
    assert command("install", "--dry-run", "-o", "name", "networkpolicies") == (
        0,
        "networkpolicies.networking.k8s.io\n",
        warning,
    )
    assert command("install", "--create", "--cluster", "team-f", "networkpolicies", "pods")[2] == warning


def test_columns_are_as_wide_as_their_cells(command):
    """Long names break no column: every cell begins below its heading."""
    head, *lines = command("list", "--cluster", "root")[1].splitlines()
    starts = [head.index(name) for name in ("KIND", "VERSIONS", "SHORTNAMES", "INSTALLED")]
    assert all(line[start - 1] == " " for line in lines for start in starts)
    assert {line[starts[-1] :] for line in lines} == {"no"}
