"""`values --watch` and `pools --watch` in a terminal, against a real controller."""

import os
import signal

import pytest
from standing import CLEAN, standing
from terminal import terminal

from dynres.client import Client

RESOURCES = """
resources:
  - name: iris
    flags: [shared]
    resourcemap:
      - {value: 10, location: [all], reserve: 2}
  - name: scratch
    unit: GB
    flags: [consumable]
    resourcemap:
      - {value: 100, location: [default]}
  - name: os
    type: string
    resourcemap:
      - {value: el9, location: [default]}
"""
HOSTS = "hosts: [{name: 'h[1-3]'}]\n"


pytestmark = pytest.mark.xdist_group("watching")  # one controller for all of them


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    with standing(tmp_path_factory.mktemp("watching"), RESOURCES, HOSTS) as made:
        yield made


def watching(here, *arguments, **size):
    return terminal(
        *arguments, "--watch", env={**CLEAN, "DYNRES_CONTROLLER": here.endpoint}, **size
    )


def row(shown, *words):
    """The only line with all these words."""
    found = [line for line in shown.lines if set(words) <= set(line.split())]
    return found[0] if len(found) == 1 else None


def hold(here, amount, job="seen"):
    with Client(here.endpoint) as client:
        client.acquire(job, ["h1"], {"iris": amount})


def release(here, job="seen"):
    with Client(here.endpoint) as client:
        client.release(job)


def test_bars_show_the_numbers_and_a_stop_or_the_end_leaves_the_terminal_as_it_was(here):
    with watching(here, "pools", columns=80) as shown:
        shown.until(lambda: row(shown, "iris", "10", "0", "8", "++........"))
        assert shown.drawing
        hold(here, 5)
        shown.until(lambda: row(shown, "iris", "10", "5", "3", "#####++..."))
        shown.until(lambda: shown.text.count("CAPACITY") == 1)
        shown.key("z")
        shown.until(lambda: shown.stopped and shown.usable)
        release(here)
        os.kill(shown.pid, signal.SIGCONT)
        shown.until(lambda: shown.drawing and row(shown, "iris", "10", "0", "8", "++........"))
        shown.key("c")
        assert shown.ended() == 130
        assert shown.usable
        assert row(shown, "iris", "10", "0", "8", "++........")  # the last picture stays
        assert shown.text.count("CAPACITY") == 1
        assert "Traceback" not in shown.text


def whole(shown):
    """Whether the pools are there, and one copy of each heading: nothing is half drawn."""
    once = shown.text.count("CAPACITY") == shown.text.count("RESOURCE") == 1
    return once and row(shown, "iris", "10", "8")


def test_another_size_is_drawn_at_once_and_leaves_nothing_of_the_old_one(here):
    with watching(here, "values", columns=120, lines=60) as shown:
        shown.until(lambda: row(shown, "h3", "os", "el9", "fresh"))
        shown.until(lambda: row(shown, "iris", "10", "8", "++........"))
        for columns, lines in ((70, 14), (160, 60), (60, 20)):
            shown.resize(columns, lines)
            if lines < 60:
                shown.until(lambda: "more, which `dynres values` shows" in shown.text)
            else:
                shown.until(lambda: row(shown, "h3", "os", "el9", "fresh"))
                shown.until(lambda: "more, which" not in shown.text)
            shown.until(lambda lines=lines: whole(shown) and len(shown.lines) < lines)
        os.kill(shown.pid, signal.SIGTERM)
        assert shown.ended() == 128 + signal.SIGTERM
        assert shown.usable


def test_a_controller_that_goes_away_is_said_and_comes_back(here):
    hold(here, 4)
    lines = here.begin("pools", "--watch")
    nowhere = {**CLEAN, "DYNRES_CONTROLLER": "tcp://127.0.0.1:1"}
    with (
        watching(here, "pools", "--holders", lines=7) as pools,
        watching(here, "values") as values,
        terminal("pools", "--watch", env=nowhere) as none,
    ):
        assert lines.stdout is not None
        assert lines.stderr is not None
        lines.stdout.readline()
        for shown in (pools, values):
            shown.until(lambda shown=shown: row(shown, "iris", "4", "####++...."))
        pools.until(lambda: "… and 3 more, which `dynres pools` shows" in pools.text)  # it is low
        here.kill()
        for shown in (pools, values):
            shown.until(lambda shown=shown: "does not answer: this is " in shown.text)
            shown.until(lambda shown=shown: row(shown, "iris", "4", "####++...."))  # as it was then
        assert "the controller does not answer" in lines.stderr.readline()
        here.start()
        release(here)
        for shown in (pools, values):
            shown.until(lambda shown=shown: row(shown, "iris", "0", "++........"))
            # The note stands below the row, and a picture may come in pieces.
            shown.until(lambda shown=shown: "does not answer" not in shown.text)
            shown.key("c")
            assert shown.ended() == 130
            assert shown.usable
        assert "answers again" in lines.stderr.readline()
        assert none.ended() == 111
        assert "no controller answers at tcp://127.0.0.1:1" in none.text
        assert none.usable
