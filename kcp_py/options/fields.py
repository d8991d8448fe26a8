"""`setting`: a field of the table of settings; the names of its sections.

The classes of sections, of which `Options` consists, are the table: flags, variables, keys of the configuration file and the reference come
from their fields.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any, Final

from kcp_py.options.kinds import Kind

FILES: Final = "Files"
SERVING: Final = "Serving"
STORAGE: Final = "Storage"
CLUSTERS: Final = "Logical clusters"
AUTHENTICATION: Final = "Authentication"
AUTHORIZATION: Final = "Authorization"
ADMISSION: Final = "Admission"
WEBHOOKS: Final = "Webhooks"
LIMITS: Final = "Limits"
HISTORY: Final = "History and watches"
OPERATION: Final = "Operation"


def setting(kind: Kind, default: Any, section: str, text: str, *, hidden: bool = False) -> Any:
    """A field of a section.

    Args:
        kind: parses and renders its values.
        default: its value where none is given.
        section: the heading under which `--help` and the reference list it.
        text: its help.
        hidden: left out of `--help` and the reference.
    """
    return field(default=default, metadata={"kind": kind, "section": section, "help": text, "hidden": hidden})
