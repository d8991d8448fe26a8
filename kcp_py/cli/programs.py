"""Programs of users as arguments of commands: `module`, `module:object`, `path/file.py` and `path/file.py:object`."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

from kcp_py.cli.exits import CommandError


def load_program(target: str) -> Any:
    """The module, or the object in it, that an argument names. The current directory counts as one of modules.

    Raises:
        CommandError: there is no such module or object, or the module fails.
    """
    place, _, attribute = target.rpartition(":") if ":" in target else (target, "", "")
    if not place:
        raise CommandError(f"{target}: expected MODULE, MODULE:OBJECT, FILE.py or FILE.py:OBJECT")
    try:
        module = _module(place)
    except CommandError:
        raise
    except Exception as error:
        raise CommandError(f"{place} cannot be imported: {type(error).__name__}: {error}{_line_of(error)}") from error
    found: Any = module
    for name in attribute.split(".") if attribute else ():
        try:
            found = getattr(found, name)
        except AttributeError:
            raise CommandError(f"{place} has no object {attribute}") from None
    return found


def _module(place: str) -> ModuleType:
    if place.endswith(".py"):
        file = Path(place)
        if not file.is_file():
            raise CommandError(f"{place}: no such file")
        # A file may have the name of a module of Python, such as types.py.
        name = file.stem if importlib.util.find_spec(file.stem) is None else f"kcp_py_program_{file.stem}"
        spec = importlib.util.spec_from_file_location(name, file)
        assert spec is not None
        assert spec.loader is not None
        if (directory := str(file.resolve().parent)) not in sys.path:
            sys.path.insert(0, directory)
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(place)
    except ModuleNotFoundError as error:
        if error.name is not None and (place == error.name or place.startswith(f"{error.name}.")):
            raise CommandError(f"{place}: no such module") from None
        raise


def _line_of(error: Exception) -> str:
    """Where a module failed. The text of a SyntaxError has it already."""
    if isinstance(error, SyntaxError):
        return ""
    frames = [
        frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename != __file__ and "importlib" not in frame.filename
    ]
    return f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
