"""`prepare_outputs`: standard output and standard error of a program that prints whatever it is given."""

from __future__ import annotations

import io
import os
import sys


def prepare_outputs() -> None:
    """Open the standard outputs that the caller has closed, and let all texts be printed."""
    _open_closed_outputs()
    _print_anything()


def _print_anything() -> None:
    """Let texts that the terminal's encoding does not have be printed with escapes instead of being an error."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")


def _open_closed_outputs() -> None:
    """Open standard streams that the caller has closed: else a socket or a database would get their descriptors."""
    for name, descriptor in (("stdout", 1), ("stderr", 2)):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, os.O_RDWR)
            while opened < descriptor:
                opened = os.dup(opened)
            setattr(sys, name, os.fdopen(opened, "w"))
