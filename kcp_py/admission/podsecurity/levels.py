"""Levels and versions of the Pod Security Standards, and the policy that the labels of a namespace choose. Pure.

Source: k8s.io/pod-security-admission `api/helpers.go`, `api/constants.go`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple

from kcp_py.apimachinery import fielderrors
from kcp_py.apimachinery.fielderrors import FieldError

PREFIX: Final = "pod-security.kubernetes.io/"
"""Of the labels of namespaces and of audit annotations."""
LATEST: Final = 2**63
"""The version that is newer than all others."""

Level = Literal["privileged", "baseline", "restricted"]
Mode = Literal["enforce", "audit", "warn"]
LEVELS: Final[tuple[Level, ...]] = ("privileged", "baseline", "restricted")
"""From the weakest to the strictest."""
MODES: Final[tuple[Mode, ...]] = ("enforce", "audit", "warn")
LEVEL_PROBLEM: Final = f"must be one of {', '.join(LEVELS)}"
VERSION_PROBLEM: Final = 'must be "latest" or "v1.x"'

_VERSION: Final = re.compile(r"v1\.(0|[1-9][0-9]{0,18})")


class Standard(NamedTuple):
    """A level in a version. Versions are minor versions of Kubernetes 1, or `LATEST`."""

    level: Level = "privileged"
    version: int = LATEST

    def __str__(self) -> str:
        return f"{self.level}:{'latest' if self.version == LATEST else f'v1.{self.version}'}"


class Policy(NamedTuple):
    """What holds for a namespace."""

    enforce: Standard = Standard()
    audit: Standard = Standard()
    warn: Standard = Standard()

    @property
    def is_privileged(self) -> bool:
        """Whether it has no effect."""
        return self.enforce.level == self.audit.level == self.warn.level == "privileged"


def parse_level(text: str) -> Level | None:
    """A level; None for any other text."""
    return text if text in LEVELS else None


def parse_version(text: str) -> int | None:
    """A version; None for any other text."""
    if text == "latest":
        return LATEST
    match = _VERSION.fullmatch(text)
    minor = int(match[1]) if match else LATEST
    return minor if minor < LATEST else None


def is_stricter(one: Level, other: Level) -> bool:
    """Whether a level forbids more than another one."""
    return LEVELS.index(one) > LEVELS.index(other)


def policy_of(labels: Mapping[str, str], defaults: Policy) -> tuple[Policy, Sequence[FieldError]]:
    """The policy of a namespace, and the problems of its labels.

    An invalid level enforces `restricted` and neither warns nor audits; an invalid version is the latest one. Warnings follow the enforced
    level where it is stricter and no level of warnings is given.
    """
    chosen: dict[Mode, Standard] = {}
    problems: list[FieldError] = []
    invalid: set[Mode] = set()
    for mode, default in zip(MODES, defaults, strict=True):
        level, version = default
        if (text := labels.get(PREFIX + mode)) is not None:
            parsed = parse_level(text)
            if parsed is None:
                problems.append(_problem(mode, text, LEVEL_PROBLEM))
                invalid.add(mode)
            level = parsed or ("restricted" if mode == "enforce" else "privileged")
        if (text := labels.get(f"{PREFIX}{mode}-version")) is not None:
            given = parse_version(text)
            if given is None:
                problems.append(_problem(f"{mode}-version", text, VERSION_PROBLEM))
            version = LATEST if given is None else given
        chosen[mode] = Standard(level, version)
    enforce, warn = chosen["enforce"], chosen["warn"]
    explicit = PREFIX + "enforce" in labels and "enforce" not in invalid
    if explicit and PREFIX + "warn" not in labels and is_stricter(enforce.level, warn.level):
        own = f"{PREFIX}warn-version" in labels
        chosen["warn"] = Standard(enforce.level, warn.version if own else enforce.version)
    return Policy(enforce, chosen["audit"], chosen["warn"]), problems


def _problem(label: str, value: str, text: str) -> FieldError:
    return fielderrors.invalid(f"metadata.labels[{PREFIX}{label}]", value, text)
