"""`AdmissionOptions`: the settings of admission plugins."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kcp_py.options.fields import ADMISSION, setting
from kcp_py.options.kinds import LIST, OPTIONAL_PATH, integer


@dataclass(frozen=True, kw_only=True)
class AdmissionOptions:
    """The settings of admission plugins."""

    enable_admission_plugins: tuple[str, ...] = setting(
        LIST, (), ADMISSION, "Admission plugins to run in addition to those that are on by default; their order does not matter."
    )
    disable_admission_plugins: tuple[str, ...] = setting(LIST, (), ADMISSION, "Admission plugins not to run that are on by default.")
    admission_control_config_file: Path | None = setting(
        OPTIONAL_PATH,
        None,
        ADMISSION,
        "File with an AdmissionConfiguration (apiserver.config.k8s.io): the configurations of admission plugins. It is read at the start.",
    )
    default_not_ready_toleration_seconds: int = setting(
        integer(-(2**63), 2**63 - 1),
        300,
        ADMISSION,
        "For how many seconds pods tolerate a node that is not ready, unless they say it themselves (DefaultTolerationSeconds).",
    )
    default_unreachable_toleration_seconds: int = setting(
        integer(-(2**63), 2**63 - 1),
        300,
        ADMISSION,
        "For how many seconds pods tolerate a node that is not reachable, unless they say it themselves (DefaultTolerationSeconds).",
    )
