"""How far a sweep is, on a terminal and elsewhere."""

import io
import sys

import pytest

from corun import sweeps


class Terminal(io.StringIO):
    def isatty(self):
        return True


def on_a_terminal(monkeypatch):
    """To be called in a test itself: pytest puts its own file there between a fixture and the test."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    return terminal


def test_a_bar_ends_at_all_tasks_and_begins_at_those_done_before(monkeypatch):
    pytest.importorskip("tqdm", reason="tqdm is not installed")
    stderr = on_a_terminal(monkeypatch)
    tell = sweeps._teller(True, 84, 4)
    assert "4/84" in stderr.getvalue()
    for _ in range(8):
        tell(10)
    assert "84/84" in stderr.getvalue() and stderr.getvalue().endswith("\n")


def test_without_tqdm_it_is_a_line(monkeypatch):
    stderr = on_a_terminal(monkeypatch)
    monkeypatch.setitem(sys.modules, "tqdm", None)
    tell = sweeps._teller(True, 3, 0)
    tell(1)
    tell(2)
    assert stderr.getvalue() == "1 of 3 tasks\r3 of 3 tasks\n"


def test_a_file_gets_no_bar(monkeypatch):
    file = io.StringIO()
    monkeypatch.setattr(sys, "stderr", file)
    assert sweeps._teller(True, 3, 0) is None
    assert file.getvalue() == ""


def test_a_function_of_one_s_own_hears_every_step():
    heard = []
    tell = sweeps._teller(lambda *both: heard.append(both), 5, 2)
    tell(1)
    tell(2)
    assert heard == [(3, 5), (5, 5)]
