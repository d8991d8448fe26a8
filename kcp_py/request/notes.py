"""What the authentication of a request has to say to its caller and to its audit event, wherever in the authenticators it is found out.

Authenticators return the user alone, and so do those of programs that embed the server. As in k8s.io/apiserver (`warning.AddWarning`,
`audit.AddAuditAnnotation`), notes therefore travel in the context of the task.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final, Protocol


class Notes(Protocol):
    """Where the notes of one request are collected: its exchange."""

    warnings: list[str]
    """Texts for `Warning` headers."""
    audit_annotations: dict[str, str]
    """For the audit event of the request."""


NOTES: Final[ContextVar[Notes | None]] = ContextVar("notes", default=None)
"""Of the request that is being authenticated; None where none is, as in the checks of running watches."""


def note(annotation: str, value: str, *, warning: str = "") -> None:
    """Add an annotation, and a warning, to the request that is being authenticated."""
    notes = NOTES.get()
    if notes is None:
        return
    notes.audit_annotations[annotation] = value
    if warning:
        notes.warnings.append(warning)
