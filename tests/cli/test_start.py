"""The console script holds signals back before it imports anything that takes time."""

import subprocess
import sys

import pytest

SHOW = """
import signal, sys, types
stand_in = types.ModuleType("dynres.cli.main")
stand_in.main = lambda: print(signal.SIGHUP in signal.pthread_sigmask(signal.SIG_BLOCK, ()))
sys.modules["dynres.cli.main"] = stand_in
from dynres.cli.start import main
assert "click" not in sys.modules
sys.argv = ["dynres", *sys.argv[1:]]
main()
"""


@pytest.mark.parametrize(
    ("arguments", "held"),
    [
        (("agent",), True),
        (("controller", "--listen", "::1"), True),
        (("agent", "--host", "h1", "reload"), False),
        (("values", "agent"), False),
        ((), False),
    ],
)
def test_a_hangup_waits_from_the_first_instruction_of_a_daemon_on(
    arguments: tuple[str, ...], held: bool
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SHOW, *arguments], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == str(held)
