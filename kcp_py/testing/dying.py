"""Ends a process at a chosen line of its code, as `kill -9` may at any line."""

from __future__ import annotations

from typing import Final

DIE_AT: Final = '''
def die_at(line, files):
    """Kill this process when so many lines (from 0 on) of files whose path ends in one of `files` have run, in any thread."""
    import os, signal, sys, threading
    left = [line]
    def trace(frame, event, argument):
        if not frame.f_code.co_filename.endswith(files):
            return None
        if event == "line":
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)
            left[0] -= 1
        return trace
    threading.settrace(trace)
    sys.settrace(trace)
'''
"""Source text for a program that a test starts."""
