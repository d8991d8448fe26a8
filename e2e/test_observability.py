"""What an operator sees of a running server: its log, its access log and its metrics, through an outage of the store."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from e2e.conftest import ServerProcess
from e2e.informer import configmap
from e2e.pair import Etcd
from kcp_py.controllers.names import CONTROLLERS
from kcp_py.telemetry.events import LOG_EVENTS

SECONDS = 60
MAPS = "/api/v1/namespaces/default/configmaps"


def events(server: ServerProcess) -> list[dict[str, Any]]:
    """The lines of the log so far."""
    return [json.loads(line) for line in server.log_file.read_text("utf-8").splitlines()]


def wait_for(server: ServerProcess, name: str) -> dict[str, Any]:
    """The first event of that name, when it is there."""
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        for event in events(server):
            if event["event"] == name:
                return event
        time.sleep(0.05)
    raise AssertionError(f"no {name} in {server.log_file.read_text()}")


def samples(server: ServerProcess) -> dict[str, list[Any]]:
    """The samples of `/metrics` by name."""
    found: dict[str, list[Any]] = {}
    for family in text_string_to_metric_families(server.request("GET", "/metrics").body.decode()):
        for sample in family.samples:
            found.setdefault(sample.name, []).append(sample)
    return found


@pytest.fixture
def etcd(tmp_path: Path) -> Iterator[Etcd]:
    folder = tmp_path / "etcd"
    folder.mkdir()
    server = Etcd(folder).start()
    yield server
    server.kill()


@pytest.mark.slow
def test_an_outage_of_etcd(new_server: Callable[..., ServerProcess], etcd: Etcd) -> None:
    """The beginning and the end of an outage are in the log and in the metrics; start and stop are, too, and every event is documented."""
    server = new_server("--storage", "etcd", "--etcd-servers", etcd.url).start()
    assert samples(server)["kcp_storage_up"][0].value == 1
    etcd.kill()
    assert "error" in wait_for(server, "etcd_watch_interrupted")
    wait_for(server, "storage_unavailable")
    found = samples(server)
    assert found["kcp_storage_up"][0].value == 0
    assert found["kcp_feed_lag_seconds"][0].value > 0
    assert server.request("GET", MAPS).code >= 500
    etcd.start()
    assert wait_for(server, "etcd_watch_resumed")["seconds"] > 0
    assert wait_for(server, "storage_recovered")["seconds"] > 0
    assert samples(server)["kcp_storage_up"][0].value == 1
    assert server.request("POST", MAPS, configmap("after", {})).code == 201
    assert server.stop() == 0
    lines = events(server)
    names = [line["event"] for line in lines]
    assert set(names) <= LOG_EVENTS.keys()
    assert names.index("server_started") < names.index("etcd_watch_interrupted") < names.index("etcd_watch_resumed")
    assert names[-2:] == ["server_stopping", "server_stopped"]
    # One line for the beginning and one for the end, however long it takes.
    assert names.count("storage_unavailable") == names.count("storage_recovered") == 1
    assert any(line["event"] == "request" and line["status"] >= 500 for line in lines)
    assert all(list(line)[:3] == ["timestamp", "level", "event"] for line in lines)


def test_nothing_that_is_sent_forges_the_log(new_server: Callable[..., ServerProcess]) -> None:
    """Control characters, line separators and quotes of a request stay inside their values, in both forms; tokens are not logged."""
    hostile = {"User-Agent": 'agent\x85\x9b2J "{}\\', "Authorization": "Bearer secret-of-a-tenant"}
    paths = ("/api/v1/namespaces/%1b%5b2J%0aforged/configmaps", "/api/v1/namespaces/forged%E2%80%A8%E2%80%AE/configmaps")
    for form in ("json", "console"):
        server = new_server("--access-log", "all", "--log-format", form).start()
        for path in paths:
            assert server.request("GET", f"{path}?token=secret-of-a-tenant", token="", headers=hostile).code in {400, 401}
        assert server.stop() == 0
        log = server.log_file.read_text("utf-8")
        rows = log.split("\n")[:-1]
        assert log.count("forged") == 2
        assert "secret-of-a-tenant" not in log
        assert all(row.isprintable() for row in rows)
        assert [row for row in rows if row.startswith("forged")] == []
        if form == "json":
            assert "server_stopped" in {json.loads(row)["event"] for row in rows}


def test_metrics_of_a_server(new_server: Callable[..., ServerProcess]) -> None:
    """Requests count with upstream's labels; the store, the controllers, the loop, certificates and clusters are measured."""
    server = new_server().start()
    assert server.request("POST", f"/clusters/team-a{MAPS}", configmap("one", {})).code == 201
    assert server.request("GET", f"/clusters/team-a{MAPS}?watch=1&timeoutSeconds=1").code == 200
    found = samples(server)
    totals = {(one.labels["verb"], one.labels["scope"], one.labels["code"]) for one in found["apiserver_request_total"]}
    assert {("POST", "resource", "201"), ("WATCH", "namespace", "200")} <= totals
    events_sent = {one.labels["resource"]: one.value for one in found["apiserver_watch_events_total"]}
    assert events_sent["configmaps"] >= 1
    assert {one.labels["verb"]: one.value for one in found["apiserver_longrunning_requests"]} == {"WATCH": 0}
    assert found["apiserver_storage_size_bytes"][0].value > 0
    assert found["kcp_storage_wal_bytes"][0].value >= 0
    assert {one.labels["name"] for one in found["workqueue_depth"]} == set(CONTROLLERS)
    assert {one.labels["file"] for one in found["kcp_certificate_expiration_timestamp_seconds"]} == {"apiserver.crt", "ca.crt"}
    assert found["kcp_logical_clusters"][0].value >= 1
    assert found["kcp_event_loop_lag_seconds_count"][0].value > 0
    assert "team-a" not in server.request("GET", "/metrics").body.decode()
