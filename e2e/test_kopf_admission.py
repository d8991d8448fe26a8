"""Admission webhooks made with kopf: a program for each of two logical clusters, which is killed while clients write."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self

import pytest

from e2e.conftest import Answer, ServerProcess
from tests.egress.https import Certificate, issue
from tests.ports import reserve_port

pytest.importorskip("kopf", reason="kopf is not installed")

PATIENCE = 90.0
OFTEN = 0.1
WRITERS = 4
CLUSTERS = ("red", "blue")
FAILED = 'Internal error occurred: failed calling webhook "'


class Program:
    """The operator of one cluster. It may be killed and started again at the same port."""

    def __init__(self, server: ServerProcess, cluster: str, certificate: Certificate, folder: Path) -> None:
        authority = folder / "authority.pem"
        authority.write_bytes(certificate.authority)
        url = f"{server.url}/clusters/{cluster}"
        self._command = [sys.executable, "-W", "ignore", "-m", "e2e.operator_of_admission", str(server.ca_file), server.token, url]
        self._command += [str(reserve_port()), str(certificate.chain_file), str(authority)]
        self._log = folder / f"{cluster}.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, cwd=Path(__file__).parents[1])

    def kill(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait(60)
            self._process = None

    def log(self) -> str:
        """The end of what it has written."""
        return self._log.read_text()[-3000:]


class Tenant:
    """A cluster, and the program that serves its webhooks."""

    def __init__(self, server: ServerProcess, cluster: str, program: Program) -> None:
        self.cluster = cluster
        self.program = program
        self._server = server

    def __call__(self, method: str, resource: str, obj: object = None, **headers: str) -> Answer:
        return self._server.request(method, f"/clusters/{self.cluster}/api/v1/namespaces/default/{resource}", obj, headers=headers)

    def until_painted(self, resource: str) -> None:
        """Wait until the webhook is called and answers."""
        deadline = time.monotonic() + PATIENCE
        while True:
            answer = self("POST", f"{resource}?dryRun=All", thing("try"))
            if answer.code == 201 and answer.json["metadata"].get("labels") == {"color": self.cluster}:
                return
            assert time.monotonic() < deadline, f"{answer.json}\n{self.program.log()}"
            time.sleep(OFTEN)


def thing(name: str, *, labels: dict[str, str] | None = None, **data: str) -> dict[str, Any]:
    """A config map or a secret."""
    return {"metadata": {"name": name, **({"labels": labels} if labels else {})}, "data": data}


@pytest.fixture
def tenants(new_server: Callable[..., ServerProcess], tmp_path: Path) -> Iterator[list[Tenant]]:
    server = new_server("--webhook-networks", "127.0.0.0/8").start()
    certificate = issue(tmp_path, "127.0.0.1")
    found = [Tenant(server, cluster, Program(server, cluster, certificate, tmp_path)) for cluster in CLUSTERS]
    for tenant in found:
        tenant.program.start()
    try:
        yield found
    finally:
        for tenant in found:
            tenant.program.kill()


class Load:
    """Threads that create objects until they are told to end."""

    def __init__(self, tenant: Tenant, resource: str) -> None:
        self.answers: dict[str, Answer] = {}
        self._tenant = tenant
        self._resource = resource
        self._end = threading.Event()
        self._threads = [threading.Thread(target=self._write, args=(number,), daemon=True) for number in range(WRITERS)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join(60)

    def _write(self, number: int) -> None:
        count = 0
        while not self._end.is_set():
            name = f"load-{number}-{(count := count + 1)}"
            self.answers[name] = self._tenant("POST", self._resource, thing(name))

    def until_more(self, accepts: Callable[[Answer], bool]) -> None:
        """Wait for as many further answers of a kind as there are writers and more."""
        before = sum(accepts(answer) for answer in list(self.answers.values()))
        deadline = time.monotonic() + PATIENCE
        while sum(accepts(answer) for answer in list(self.answers.values())) < before + 3 * WRITERS:
            assert time.monotonic() < deadline, [answer.json for answer in list(self.answers.values())[-3:]]
            time.sleep(OFTEN)


def is_created(answer: Answer) -> bool:
    return answer.code == 201


def is_failed(answer: Answer) -> bool:
    return answer.code == 500 and str(answer.json["message"]).startswith(FAILED)


def is_painted(answer: Answer) -> bool:
    return answer.code == 201 and "color" in (answer.json["metadata"].get("labels") or {})


def is_unpainted(answer: Answer) -> bool:
    return answer.code == 201 and not is_painted(answer)


@pytest.mark.compatibility(
    "kopf", version("kopf"), "admission webhooks in two clusters: validate, mutate, warnings, managed configurations"
)
def test_handlers(tenants: list[Tenant]) -> None:
    """Handlers of each cluster change and refuse its objects, and see who writes, dry runs and deletions."""
    for tenant in tenants:
        tenant.until_painted("configmaps")
        made = tenant("POST", "configmaps", thing("a", labels={"kept": "yes"}))
        assert made.json["metadata"]["labels"] == {"kept": "yes", "color": tenant.cluster}
        plain = tenant("POST", "configmaps", thing("b", labels={"plain": "yes"}))
        assert (plain.code, plain.headers["warning"]) == (201, '299 - "plain things are not painted"')
        for query, more in (("", ""), ("?dryRun=All", " in a dry run")):
            bad = tenant("POST", f"configmaps{query}", thing("c", bad="1"))
            assert (bad.code, bad.json["message"].partition(": ")[2]) == (418, f"{tenant.cluster} refuses it{more}")
        patch = {"Content-Type": "application/merge-patch+json"}
        unpainted = tenant("PATCH", "configmaps/a", {"metadata": {"labels": {"color": None}}}, **patch)
        assert unpainted.json["metadata"]["labels"]["color"] == tenant.cluster
        kept = tenant("DELETE", "configmaps/a")
        assert (kept.code, kept.json["message"].partition(": ")[2]) == (409, f"{tenant.cluster} keeps it from shard-admin")


def test_death_under_load(tenants: list[Tenant]) -> None:
    """Nothing that an answer says is lost, nothing gets past a webhook that must not fail, and the other cluster notices nothing."""
    red, blue = tenants
    for tenant in tenants:
        for resource in ("configmaps", "secrets"):
            tenant.until_painted(resource)
    with Load(red, "configmaps") as closed, Load(red, "secrets") as opened, Load(blue, "configmaps") as other:
        for load in (closed, opened, other):
            load.until_more(is_painted)
        red.program.kill()
        closed.until_more(is_failed)
        opened.until_more(is_unpainted)
        other.until_more(is_painted)
        red.program.start()
        for load in (closed, opened, other):
            load.until_more(is_painted)
    for tenant, resource, load in ((red, "configmaps", closed), (red, "secrets", opened), (blue, "configmaps", other)):
        stored = {item["metadata"]["name"]: item for item in tenant("GET", resource).json["items"]}
        found = {name: item["metadata"].get("labels") for name, item in stored.items() if name.startswith("load-")}
        assert found == {name: answer.json["metadata"].get("labels") for name, answer in load.answers.items() if is_created(answer)}
    assert {*map(is_painted, closed.answers.values()), *map(is_failed, closed.answers.values())} == {True, False}
    assert all(is_painted(answer) or is_failed(answer) for answer in closed.answers.values())
    assert all(is_created(answer) for answer in opened.answers.values())
    assert all(is_painted(answer) for answer in other.answers.values())
