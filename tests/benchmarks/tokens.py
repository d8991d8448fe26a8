"""The row `serviceaccount`: requests with the token of a service account, compared with the administrator's token and certificate."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import orjson

from tests.authz.conftest import GROUP, binding
from tests.benchmarks.load import Target, run
from tests.benchmarks.objects import KILOBYTE
from tests.benchmarks.processes import kcp
from tests.benchmarks.row import Row

_CORE = "/clusters/a/api/v1/namespaces/default"


async def serviceaccount_row(directory: Path) -> AsyncIterator[Row]:
    """GET with a token that is bound to a secret, and by the administrator: in turns, as CPU time of the server."""
    with kcp(directory / "serviceaccount") as ours:
        admin = ours.target
        await admin.one("POST", f"{_CORE}/serviceaccounts", orjson.dumps({"metadata": {"name": "builder"}}))
        await admin.one("POST", f"{_CORE}/secrets", orjson.dumps({"metadata": {"name": "session"}}))
        edit = orjson.dumps(binding("edits", "edit", "ServiceAccount:default:builder"))
        await admin.one("POST", f"/clusters/a/apis/{GROUP}/v1/namespaces/default/rolebindings", edit)
        await admin.one("POST", f"{_CORE}/configmaps", orjson.dumps({"metadata": {"name": "one"}, "data": {"text": KILOBYTE}}))
        for account in ("default", "builder"):
            reference = {"kind": "Secret", "apiVersion": "v1", "name": "session"} if account == "builder" else None
            asked = orjson.dumps({"spec": {"boundObjectRef": reference}})
            answer = await admin.one("POST", f"{_CORE}/serviceaccounts/{account}/token", asked)
            await admin.one(
                "POST",
                f"/clusters/a/apis/{GROUP}/v1/namespaces/default/rolebindings",
                orjson.dumps(binding(f"views-{account}", "view", f"ServiceAccount:default:{account}")),
            )
            target = Target(admin.port, token=orjson.loads(answer.rpartition(b"\r\n\r\n")[2])["status"]["token"])
            spent = {admin: 0.0, target: 0.0}
            requests, rounds = 4_000, 5
            for _ in range(rounds):
                for one in spent:
                    before = ours.cpu_seconds
                    await run(one, ((one.head("GET", f"{_CORE}/configmaps/one"), b"") for _ in range(requests)), connections=16)
                    spent[one] += ours.cpu_seconds - before
            mine, theirs = (spent[one] / rounds / requests * 1e6 for one in (target, admin))
            what = "bound to a secret" if account == "builder" else "of a default account"
            yield Row(
                f"GET with a token {what}, compared with system:masters, CPU",
                f"{mine:.0f} us",
                f"{theirs:.0f} us",
                f"{theirs / mine:.0%}",
                ">= 85 %",
            )


TOKEN_ROWS = {"serviceaccount": serviceaccount_row}
