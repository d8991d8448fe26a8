"""Answers recorded from kube-apiserver 1.37.2 to valid and invalid writes.

Each file is a list of groups. A group has `kind` (its name), `path` (of the collection, without the cluster), `base` (a valid object) and
`cases`. A case has a `name`, and

- for a create: `set`, the changes of the base: pairs of a path and a value, or the path alone, which removes the field;
- for an update: `from`, the changes of the base that is created first, `status`, its status if it gets one, `update`, the changes of the
  stored object that is sent back, and `subresource`, through which it is updated;
- `answer`: the `code`, and for refusals `reason`, `message` and `causes` (reason, field, message);
- `shown`: members of the answer that are compared as well, with the defaults in them.

All requests but the creation for an update are dry runs.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tests.server.handlers.conftest import Api

_STEP = re.compile(r'\["([^"]*)"\]|\[(\d+)\]|([^.\[]+)')


def recorded(name: str) -> list[dict[str, Any]]:
    """The groups of a file."""
    groups: list[dict[str, Any]] = json.loads((Path(__file__).parent / f"{name}.json").read_text())
    return groups


def refused_manifests() -> frozenset[str]:
    """The manifests of the corpus that kube-apiserver decodes and refuses with 422, by path below `manifests/`."""
    return frozenset((Path(__file__).parent / "refused_manifests.txt").read_text().splitlines())


def changed(document: dict[str, Any], changes: Iterable[Sequence[Any]]) -> dict[str, Any]:
    """A copy of a document with other values at some paths."""
    document = copy.deepcopy(document)
    for path, *value in changes:
        *way, last = _steps(path)
        here: Any = document
        for step in way:
            here = here.setdefault(step, {}) if isinstance(here, dict) else here[step]
        if not value:
            del here[last]
        elif isinstance(here, list) and last == len(here):
            here.append(copy.deepcopy(value[0]))
        else:
            here[last] = copy.deepcopy(value[0])
    return document


async def differences(api: Api, group: dict[str, Any], cluster: str = "a") -> list[str]:
    """The cases of a group that the server answers in another way than kube-apiserver."""
    found = []
    for case in group["cases"]:
        answer = await _answer(api, group, case, f"/clusters/{cluster}{group['path']}")
        if answer != case["answer"]:
            found.append(f"{case['name']}: {answer}, not {case['answer']}")
    return found


async def _answer(api: Api, group: dict[str, Any], case: dict[str, Any], path: str) -> dict[str, Any]:
    base = changed(group["base"], case.get("from", ()))
    params = {"dryRun": "All"}
    if "update" not in case:
        return summary(await api("POST", path, changed(base, case.get("set", ())), params=params), case.get("shown", ()))
    stored = await api.ok("POST", path, base)
    target = f"{path}/{base['metadata']['name']}"
    subresource = f"/{case['subresource']}" if "subresource" in case else ""
    if "status" in case:
        stored = await api.ok("PUT", f"{target}/status", {**stored, "status": case["status"]})
    response = await api("PUT", f"{target}{subresource}", changed(stored, case["update"]), params=params)
    await api.ok("DELETE", target, params={"gracePeriodSeconds": "0", "propagationPolicy": "Background"})
    return summary(response, case.get("shown", ()))


def summary(response: Any, shown: Iterable[str] = ()) -> dict[str, Any]:
    """The compared parts of a response."""
    if response.status_code < 300:
        found = {member: value for member, value in response.json().items() if member in shown}
        return {"code": response.status_code, **({"shown": found} if shown else {})}
    status = response.json()
    answer = {"code": response.status_code, "reason": status.get("reason", ""), "message": status.get("message", "")}
    causes = (status.get("details") or {}).get("causes")
    if causes:
        answer["causes"] = [[cause.get(member, "") for member in ("reason", "field", "message")] for cause in causes]
    return answer


def _steps(path: str) -> list[str | int]:
    steps: list[str | int] = []
    for match in _STEP.finditer(path):
        quoted, index, name = match.groups()
        steps.append(int(index) if index else quoted if name is None else name)
    return steps


async def step_differences(api: Api, scenario: dict[str, Any], cluster: str = "a") -> list[str]:
    """The steps of a scenario that the server answers in another way than kube-apiserver.

    A scenario has a `name` and `steps`. A step has a `method`, a `path` without the cluster, and maybe `params`, a `body` and its `type`.
    A step with `setup` has to succeed. Of any other, `answer` is the recorded answer: `shows` are values by their paths, and a refusal
    without a `message` has one that depends on the program. The objects of `clean` are deleted at the end.
    """
    found = []
    for step in scenario["steps"]:
        headers = {"Content-Type": step.get("type", "application/json")}
        path = f"/clusters/{cluster}{step['path']}"
        response = await api(step["method"], path, step.get("body"), params=step.get("params"), headers=headers)
        if step.get("setup"):
            assert response.status_code < 300, f"{scenario['name']}: {response.text}"
            continue
        answer, expected = _shown(response, step), step["answer"]
        if "reason" in expected and "message" not in expected:
            answer = {member: answer.get(member) for member in expected}
        if answer != expected:
            found.append(f"{scenario['name']}: {step['method']} {step['path']} {step.get('params', '')}: {answer}, not {expected}")
    for path in scenario.get("clean", ()):
        await api("DELETE", f"/clusters/{cluster}{path}", params={"gracePeriodSeconds": "0"})
    return found


def _shown(response: Any, step: dict[str, Any]) -> dict[str, Any]:
    if not response.content:
        return {"code": response.status_code, "empty": True}
    document = response.json()
    answer = {member: value for member, value in summary(response).items() if value}
    if "shows" in step:
        answer["shows"] = {path: _value_at(document, path.split("/")) for path in step["shows"]}
    if document.get("kind") == "Status":
        if document["status"] != "Failure":
            answer["status"] = document["status"]
        if retry := (document.get("details") or {}).get("retryAfterSeconds"):
            answer["retry"] = retry
    return answer


def _value_at(document: Any, path: list[str]) -> Any:
    for name in path:
        if isinstance(document, list):
            document = document[int(name)] if int(name) < len(document) else None
        else:
            document = (document or {}).get(name)
    return document
