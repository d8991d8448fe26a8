"""The silence of a process counts if it could have answered."""

from __future__ import annotations

import os

import pytest

from kcp_py.cli.workers.liveness import Liveness, core_wait, interval_of


class Waits:
    """Seconds for which the process has waited for a core."""

    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def waits() -> Waits:
    return Waits()


@pytest.fixture
def liveness(waits: Waits) -> Liveness:
    return Liveness(5, waits)


def test_a_process_that_answers_is_asked_again(liveness: Liveness) -> None:
    """There is one question at a time, and an answer ends the silence."""
    assert liveness.look(100)
    assert not liveness.look(105)
    assert liveness.silence == 5
    liveness.answered()
    assert liveness.silence == 0
    assert liveness.look(110)
    assert liveness.silence == 0


def test_silence_adds_up(liveness: Liveness) -> None:
    """The time since the question counts until there is an answer."""
    liveness.look(0)
    assert [(liveness.look(now), liveness.silence) for now in (5, 10, 15)] == [(False, 5), (False, 10), (False, 15)]


def test_a_pause_of_the_machine_does_not_count(liveness: Liveness) -> None:
    """Of the time in which the supervisor itself did not run, two intervals count at most."""
    liveness.look(0)
    liveness.look(3600)
    assert liveness.silence == 10


def test_waiting_for_a_core_does_not_count(liveness: Liveness, waits: Waits) -> None:
    """A process that is ready to run and has no core is not to blame; what it waited for before the question is another matter."""
    waits.seconds = 50
    liveness.look(0)
    waits.seconds += 4
    liveness.look(5)
    assert liveness.silence == 1
    waits.seconds += 6
    liveness.look(10)
    assert liveness.silence == 1


@pytest.mark.parametrize(("timeout", "interval"), [(60, 5), (8, 2), (0.4, 0.1)])
def test_there_are_several_questions_within_the_timeout(timeout: float, interval: float) -> None:
    """A short timeout has shorter intervals."""
    assert interval_of(timeout) == interval


def test_a_process_without_figures_has_not_waited() -> None:
    """This process has waited for a finite time, and one that has gone for none."""
    assert 0 <= core_wait(os.getpid()) < 1e6
    assert core_wait(1 << 30) == 0
