"""What a reload of the controller cannot put in force it says, instead of ignoring it."""

from pathlib import Path

from dynres.config.model import ControllerSettings
from dynres.controller.options import ControllerOptions, waiting_for_restart

STARTED = ControllerSettings()


def test_a_setting_that_waits_for_a_restart_is_named() -> None:
    now = ControllerSettings(listen="::1", agent_port=6000, metrics=None, log_level="debug")
    assert waiting_for_restart(ControllerOptions(config=Path("c")), STARTED, now) == [
        "controller.yaml: listen ::1 takes effect at a restart",
        "controller.yaml: agent_port 6000 takes effect at a restart",
        "controller.yaml: metrics off takes effect at a restart",
    ]


def test_what_the_command_line_decides_waits_for_nothing() -> None:
    now = ControllerSettings(listen="::1", agent_port=6000)
    options = ControllerOptions(config=Path("c"), listen="127.0.0.1", agent_port=0)
    assert waiting_for_restart(options, STARTED, now) == []
    assert waiting_for_restart(ControllerOptions(config=Path("c")), STARTED, STARTED) == []
