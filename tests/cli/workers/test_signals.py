"""Signals wait in a socket, and the handlers before them come back."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator

import pytest

from kcp_py.cli.workers.signals import signals_written_to

HANDLED = (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD, signal.SIGHUP)


@pytest.fixture(autouse=True)
def default_hangup() -> Iterator[None]:
    """SIGHUP as in a terminal, also where the tests run under `nohup`."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


def test_signals_are_read_from_the_socket() -> None:
    """Each signal is a byte with its number, in order, and does not end the process."""
    woken, waking = socket.socketpair()
    woken.settimeout(5)
    waking.setblocking(False)
    with woken, waking, signals_written_to(waking):
        for number in HANDLED:
            os.kill(os.getpid(), number)
            assert woken.recv(1) == bytes((number,))


def test_handlers_come_back() -> None:
    """Afterwards each signal has the handler that it had, and the descriptor is again that of the event loop, if there was one."""
    before = [signal.getsignal(number) for number in HANDLED]
    woken, waking = socket.socketpair()
    for one in (woken, waking):
        one.setblocking(False)
    descriptor = signal.set_wakeup_fd(woken.fileno())
    try:
        with signals_written_to(waking):
            assert [signal.getsignal(number) for number in HANDLED] != before
        assert [signal.getsignal(number) for number in HANDLED] == before
        assert signal.set_wakeup_fd(descriptor) == woken.fileno()
    finally:
        signal.set_wakeup_fd(descriptor)
        woken.close()
        waking.close()


def test_an_ignored_hangup_stays_ignored() -> None:
    """A process under `nohup` does not end with its terminal."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    woken, waking = socket.socketpair()
    for one in (woken, waking):
        one.setblocking(False)
    with woken, waking, signals_written_to(waking):
        os.kill(os.getpid(), signal.SIGHUP)
        with pytest.raises(BlockingIOError):
            woken.recv(1)
