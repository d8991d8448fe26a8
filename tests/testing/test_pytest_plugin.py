"""The pytest plugin, in processes of pytest that have no other plugins than the named ones."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]
ROOT = Path(__file__).parents[2]
CONFIGMAP = '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}'


@pytest.fixture
def run(pytester, monkeypatch):
    """Runs pytest on a module: a function of the module's text, plugins, and arguments."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    # The arguments and plugins of the outer run.
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)

    def call(text, *arguments, plugins=()):
        pytester.makepyfile(text)
        chosen = [word for plugin in ("kcp_py.testing.pytest_plugin", *plugins) for word in ("-p", plugin)]
        return pytester.runpytest_subprocess("-q", "-p", "no:cacheprovider", *chosen, *arguments, timeout=120)

    return call


def test_each_test_has_a_cluster_and_all_share_a_server(run, pytester):
    """Names, kubeconfigs, definitions, the environment, markers and settings; and the coroutines of anyio on asyncio and trio."""
    pytester.mkdir("crd").joinpath("ships.yaml").write_text(
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: ships.fleet.example.com}\n"
        "spec: {group: fleet.example.com, scope: Namespaced, names: {plural: ships, kind: Ship, singular: ship},\n"
        " versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]}\n"
    )
    pytester.makeini("[pytest]\nkcp_settings =\n    event_ttl = 5s\n    enable-admission-plugins = AlwaysPullImages\n")
    result = run(
        f"""
        import os
        import pytest

        seen = []

        @pytest.mark.parametrize("value", ["A b", "ü"])
        def test_one(kcp_cluster, kcp_server, value):
            assert kcp_cluster.server is kcp_server
            assert kcp_cluster.name.startswith("test-one-")
            assert [obj for obj in kcp_cluster.list("configmaps") if obj["metadata"]["name"] == "a"] == []
            kcp_cluster.apply({CONFIGMAP})
            seen.append(kcp_cluster.name)
            options = kcp_server.local.control_plane.options
            assert (options.event_ttl, options.simulate) == (5.0, ())
            assert options.controllers == ("namespace", "customresourcedefinition-controller")
            assert options.enable_admission_plugins == ("AlwaysPullImages",)

        def test_all_were_different():
            assert len(set(seen)) == 2

        def test_definitions(kcp_crds, kcp_cluster):
            assert [obj["kind"] for obj in kcp_crds("crd")] == ["CustomResourceDefinition"]
            assert kcp_cluster.list("ships.fleet.example.com") == []

        def test_environment(kcp_environment, kcp_kubeconfig, kcp_cluster):
            assert os.environ["KUBECONFIG"] == str(kcp_environment) == str(kcp_kubeconfig)
            assert kcp_cluster.url in kcp_kubeconfig.read_text()

        def test_the_environment_is_as_before():
            assert "KUBECONFIG" not in os.environ

        @pytest.mark.kcp(simulate="workloads", controllers=("*",))
        def test_marker(kcp_cluster, kcp_server):
            assert kcp_cluster.server is not kcp_server
            assert kcp_cluster.server.local.control_plane.options.simulate == ("workloads",)

        @pytest.mark.anyio
        @pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
        async def test_coroutines(kcp_client, kcp_cluster):
            await kcp_client.apply({CONFIGMAP})
            assert kcp_cluster.get("configmaps", "a")["metadata"]["name"] == "a"
        """,
        "--kcp-controllers",
        "namespace,customresourcedefinition-controller",
        "--strict-markers",
        "-W",
        "error",
        plugins=["anyio"],
    )
    result.assert_outcomes(passed=9)


def test_a_failure_shows_the_requests_and_events_of_its_cluster(run):
    """And not those of other tests; a test without a cluster has no section."""
    result = run(
        """
        import subprocess, sys
        import pytest

        EVENT = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "default"}, "type": "Warning",
                 "reason": "Sunk", "message": "too deep", "involvedObject": {"kind": "Ship", "name": "ark", "namespace": "default"}}

        def ask(cluster, name):
            import base64, ssl, urllib.error, urllib.request
            access = cluster.server.local.access
            headers = {"Authorization": "Bearer " + access.token, "User-Agent": "my-operator"}
            request = urllib.request.Request(cluster.url + "/api/v1/namespaces/default/configmaps/" + name, headers=headers)
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(request, context=ssl.create_default_context(cadata=access.authority.decode()))
            refused.value.close()

        def test_passes(kcp_cluster):
            ask(kcp_cluster, "of-another-test")

        def test_fails(kcp_cluster):
            kcp_cluster.apply(EVENT)
            ask(kcp_cluster, "missing")
            assert False

        def test_alone():
            assert False
        """
    )
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(
        [
            "*kcp-py: logical cluster test-fails-*",
            "  get configmaps default missing -> 404 NotFound  [[]kcp-admin, my-operator[]]",
            "  Warning Sunk Ship/ark: too deep",
        ]
    )
    assert result.stdout.str().count("kcp-py: logical cluster") == 1
    result.stdout.no_fnmatch_line("*of-another-test*")


def test_pytest_asyncio_and_workers_of_xdist(run):
    """Each worker has a server of its own; coroutines run on the loop of pytest-asyncio."""
    pytest.importorskip("pytest_asyncio", reason="pytest-asyncio is not installed")
    result = run(
        f"""
        import asyncio, os
        import pytest

        @pytest.mark.parametrize("number", range(4))
        async def test_coroutines(kcp_client, kcp_cluster, number, tmp_path_factory):
            waiting = asyncio.ensure_future(kcp_client.wait_for("configmaps", "a", lambda obj: True))
            await kcp_client.apply({CONFIGMAP})
            assert (await waiting)["metadata"]["name"] == "a"
            root = tmp_path_factory.getbasetemp().parent
            (root / ("url-" + os.environ["PYTEST_XDIST_WORKER"])).write_text(kcp_cluster.server.url)

        def test_urls_differ(kcp_server):
            pass
        """,
        "-n",
        "2",
        "-o",
        "asyncio_mode=auto",
        "--basetemp=base",
        plugins=["pytest_asyncio.plugin", "xdist.plugin"],
    )
    result.assert_outcomes(passed=5)
    urls = [path.read_text() for path in Path("base").glob("url-*")]
    assert len(set(urls)) == len(urls)


def test_recordings_are_compared(run, pytester):
    """--kcp-update writes them next to the module, another run compares."""
    module = f"""
    import json, ssl, urllib.request

    def test_ship(kcp_cluster, kcp_record):
        recording = kcp_record(user_agent="my-operator")
        access = kcp_cluster.server.local.access
        headers = {{"Authorization": "Bearer " + access.token, "User-Agent": "my-operator", "Content-Type": "application/json"}}
        url = kcp_cluster.url + "/api/v1/namespaces/default/configmaps"
        request = urllib.request.Request(url, headers=headers, data=json.dumps({CONFIGMAP}).encode())
        urllib.request.urlopen(request, context=ssl.create_default_context(cadata=access.authority.decode())).close()
        recording.check()
    """
    run(module, "--kcp-update").assert_outcomes(passed=1)
    snapshots = list((pytester.path / "snapshots").rglob("*.yaml"))
    assert [path.name for path in snapshots] == ["test_ship.yaml"]
    snapshots[0].write_text(snapshots[0].read_text().replace("name: a", "name: b"))
    result = run(module)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*the requests differ from *", "*+*name: a*"])


def test_clusters_are_saved_and_cloned(run):
    """A template of the session, from which each test starts; the server of the marker of a test has its own."""
    result = run(
        f"""
        import pytest

        @pytest.fixture(scope="session")
        def template(kcp_server):
            cluster = kcp_server.new_cluster("template")
            cluster.apply({CONFIGMAP})
            return cluster.save()

        @pytest.mark.parametrize("attempt", range(2))
        def test_from_the_template(kcp_cluster, template, attempt):
            kcp_cluster.restore(template)
            kcp_cluster.delete("configmaps", "a")

        @pytest.mark.parametrize("server", ["session", pytest.param("marker", marks=pytest.mark.kcp(event_ttl="7s"))])
        def test_saved_and_cloned(kcp_cluster, kcp_snapshot, kcp_server, template, server):
            assert (kcp_cluster.server is kcp_server) == (server == "session")
            empty = kcp_snapshot.save(kcp_cluster)
            kcp_cluster.apply({CONFIGMAP})
            kcp_snapshot.restore(empty)
            assert "a" not in [obj["metadata"]["name"] for obj in kcp_cluster.list("configmaps")]
            clone = kcp_snapshot.clone(template, "copy")
            assert clone.server is kcp_cluster.server
            assert clone.get("configmaps", "a")
        """
    )
    result.assert_outcomes(passed=4)


def test_time_passes_and_requests_fail(run):
    """On a server of the test, and in its cluster alone; the next test begins without."""
    result = run(
        f"""
        import pytest
        from datetime import UTC, datetime
        from kcp_py.apimachinery.errors import StatusError

        EVENT = {{"apiVersion": "v1", "kind": "Event", "metadata": {{"name": "e", "namespace": "default"}}, "reason": "Sunk",
                 "involvedObject": {{"kind": "Ship", "name": "ark", "namespace": "default"}}}}

        def test_time(kcp_clock, kcp_cluster, kcp_server):
            assert kcp_cluster.server is not kcp_server
            kcp_cluster.apply(EVENT)
            began = kcp_clock.now
            kcp_clock.advance(7200)
            while kcp_cluster.list("events"):
                kcp_clock.advance(1800)
            assert (kcp_clock.now - began).total_seconds() >= 7200

        def test_time_is_that_of_the_machine(kcp_clock, kcp_cluster):
            assert abs((kcp_clock.now - datetime.now(UTC)).total_seconds()) < 3600

        @pytest.mark.parametrize("attempt", range(2))
        def test_faults(kcp_faults, kcp_servers, kcp_cluster, attempt):
            other = kcp_cluster.server.new_cluster()
            rule = kcp_faults.conflict(resource="configmaps", times=1)
            kcp_faults.internal_error(resource="secrets")
            other.apply({CONFIGMAP})
            with pytest.raises(StatusError, match="has been modified"):
                kcp_cluster.apply({CONFIGMAP})
            kcp_cluster.apply({CONFIGMAP})
            assert rule.happened == 1
            assert len(kcp_servers.faults_of(kcp_cluster.server).rules) == 2
            assert kcp_faults.cut_watches() == 0
            assert kcp_cluster.list("secrets") == []
            kcp_faults.storage_error()
            other.delete("configmaps", "a")
            with pytest.raises(StatusError, match="stor"):
                kcp_cluster.delete("configmaps", "a")

        @pytest.mark.kcp(event_ttl="1h")
        def test_both(kcp_faults, kcp_clock, kcp_cluster):
            kcp_faults.unavailable(verb="create", times=1)
            with pytest.raises(StatusError, match="store"):
                kcp_cluster.apply({CONFIGMAP})
            kcp_clock.advance_to(kcp_clock.now.timestamp() + 60)

        def test_nothing_is_kept(request, kcp_servers, kcp_server):
            from kcp_py.testing import pytest_plugin as plugin
            assert {{server.local for server in kcp_servers._faults}} == {{kcp_servers.get({{}}, faults=True).local}}
            finished = [item.stash for item in request.session.items if item.name.startswith(("test_time", "test_both"))]
            assert [stash[key] for stash in finished for key in (plugin._CLUSTERS, plugin._CLOCKS)] == [[]] * 6

        def test_too_late(request, kcp_cluster):
            for name in ("kcp_clock", "kcp_faults"):
                with pytest.raises(pytest.UsageError, match="has to be an argument"):
                    request.getfixturevalue(name)
        """
    )
    result.assert_outcomes(passed=7)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--kcp-set", "colour=red"], "there is no setting 'colour'"),
        (["--kcp-set", "event_ttl=soon"], "*event*ttl*"),
        (["--kcp-set", "event_ttl"], "'event_ttl' is not NAME=VALUE"),
        (["--kcp-controllers", "nothing"], "*nothing*"),
    ],
    ids=["name", "value", "form", "controller"],
)
def test_wrong_settings_are_named(run, arguments, message):
    """Where a fixture is used."""
    result = run("def test_it(kcp_cluster): pass", *arguments)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([f"*{message}*"])


def test_a_run_without_fixtures_does_not_import_the_server():
    """Nor anything else that takes time: pytest loads the plugin in projects that do not use it."""
    text = (
        "import sys, pytest; before = set(sys.modules); import kcp_py.testing.pytest_plugin\n"
        "print(sorted(name for name in set(sys.modules) - before if not name.startswith('kcp_py')), "
        "sorted(name for name in sys.modules if name.startswith('kcp_py')))"
    )
    finished = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True, cwd=ROOT)
    assert finished.stdout == "[] ['kcp_py', 'kcp_py._version', 'kcp_py.testing', 'kcp_py.testing.pytest_plugin']\n"


def test_the_package_registers_the_plugin():
    """As an entry point, so that its fixtures are there without a line of configuration."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    [module] = project["entry-points"]["pytest11"].values()
    assert importlib.util.find_spec(module) is not None
