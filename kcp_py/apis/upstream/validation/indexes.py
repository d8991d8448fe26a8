"""Lists of indexes of pods, such as `1-3,7`, and what a job counts as a success.

Source: kubernetes `pkg/apis/batch/validation` (`validateIndexesFormat`, `validateSuccessPolicy`).
"""

from __future__ import annotations

import re
from typing import Final

from kcp_py.apimachinery.fielderrors import invalid, required, too_long, too_many
from kcp_py.apis.upstream.validation.fields import Object, Problems, as_struct, not_negative
from kcp_py.golang.quoting import go_quote

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,19}")
_MAX_RULES: Final = 20
_MAX_TEXT: Final = 64 * 1024


def indexes_in(text: str, completions: int) -> set[int]:
    """The indexes of a list.

    Args:
        text: the list.
        completions: the number of indexes of the job.

    Raises:
        ValueError: for a list that is malformed, not in increasing order, or has too large an index.
    """
    found: set[int] = set()
    last: int | None = None
    for part in text.split(",") if text else ():
        first, final = _interval(part, completions)
        if last is not None and last >= first:
            raise ValueError(f"non-increasing order, previous: {last}, current: {first}")
        found.update(range(first, final + 1))
        last = final
    return found


def _interval(part: str, completions: int) -> tuple[int, int]:
    limits = part.split("-")
    if len(limits) > 2:
        rule = "violates the requirement that an index interval can have at most two parts separated by '-'"
        raise ValueError(f"the fragment {go_quote(part)} {rule}")
    values = []
    for limit in limits:
        if not _INTEGER.fullmatch(limit):
            raise ValueError(f"cannot convert string to integer for index: {go_quote(limit)}")
        if int(limit) >= completions:
            raise ValueError(f"too large index: {go_quote(limit)}")
        values.append(int(limit))
    if len(values) == 2 and values[0] >= values[1]:
        raise ValueError(f"non-increasing order, previous: {values[0]}, current: {values[1]}")
    return values[0], values[-1]


def success_policy(spec: Object, path: str) -> Problems:
    """The success policy of a job."""
    policy = spec.get("successPolicy")
    if policy is None:
        return
    rules = policy.get("rules") or ()
    if spec.get("completionMode") != "Indexed":
        shown = [{"SucceededIndexes": rule.get("succeededIndexes"), "SucceededCount": rule.get("succeededCount")} for rule in rules]
        yield invalid(path, as_struct({"Rules": shown}), "requires indexed completion mode")
        return
    if not rules:
        yield required(f"{path}.rules", "at least one rules must be specified when the successPolicy is specified")
    if len(rules) > _MAX_RULES:
        yield too_many(f"{path}.rules", len(rules), _MAX_RULES)
    for index, rule in enumerate(rules):
        yield from _rule(rule, spec.get("completions", 0), f"{path}.rules[{index}]")


def _rule(rule: Object, completions: int, path: str) -> Problems:
    text, count, total = rule.get("succeededIndexes"), rule.get("succeededCount"), 0
    if text is None and count is None:
        yield required(path, "at least one of succeededCount or succeededIndexes must be specified")
    if text is not None:
        if len(text) > _MAX_TEXT:
            yield too_long(f"{path}.succeededIndexes", _MAX_TEXT)
        try:
            total = len(indexes_in(text, completions))
        except ValueError as error:
            yield invalid(f"{path}.succeededIndexes", text, f"error parsing succeededIndexes: {error}")
    if count is not None:
        here = f"{path}.succeededCount"
        yield from not_negative(count, here)
        if count > completions:
            yield invalid(here, count, f"must be less than or equal to {completions} (the number of specified completions)")
        if text is not None and count > total:
            detail = f"must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"
            yield invalid(here, count, detail)
