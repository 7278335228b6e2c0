"""Options of a plugin become what it declares, or faults with the place of each option."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from dynres.config import plugins
from dynres.config.faults import ConfigError
from dynres.config.load import load


@dataclass(frozen=True)
class Options:
    path: str
    percent: float = 50.0
    count: int = 1
    deep: bool = False
    hosts: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.percent > 100:
            raise ValueError("percent is more than 100")


class Plugin:
    def __init__(self, options: Options) -> None: ...

    def read(self) -> dict[str, float]:
        return {}


class Bare:
    def read(self) -> dict[str, float]:
        return {}


class Point:
    def __init__(self, plugin: type | None) -> None:
        self.plugin = plugin

    def load(self) -> type:
        if self.plugin is None:
            raise ImportError("no module named lm")
        return self.plugin


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    points = {"lm": Point(Plugin), "bare": Point(Bare), "broken": Point(None)}
    monkeypatch.setattr(plugins, "installed", lambda: points)


def probe(folder: Path, plugin: str, options: str):
    (folder / "resources.yaml").write_text(
        "resources:\n"
        "  - name: a\n"
        "    interval: 30s\n"
        f"    probe: {{plugin: {plugin}, options: {options}}}\n"
        "    resourcemap: [{location: [default]}]\n"
    )
    loaded = load(folder, "agent")
    return loaded.configuration.probe("a"), loaded.warnings


def faults(folder: Path, plugin: str, options: str) -> list[str]:
    with pytest.raises(ConfigError) as raised:
        probe(folder, plugin, options)
    return [str(fault) for fault in raised.value.faults]


def test_options_are_read_by_the_type_that_the_plugin_declares(tmp_path: Path):
    made, _ = probe(tmp_path, "lm", "{path: 007, percent: 1e1, count: 3, deep: yes, hosts: [no]}")
    assert made.options == {
        "path": "007",
        "percent": 10.0,
        "count": 3,
        "deep": True,
        "hosts": ["no"],
    }


def test_every_option_that_does_not_fit_is_told_with_its_place(tmp_path: Path):
    assert faults(tmp_path, "lm", "{pth: /x, percent: half, count: 1.5, deep: perhaps}") == [
        "resources.yaml:4:34: probe a: option path is missing: expected path: …",
        "resources.yaml:4:35: probe a: option pth: expected one of path, percent, count, deep, "
        "hosts, got pth (did you mean path?)",
        "resources.yaml:4:53: probe a: option percent: expected a number, got 'half'",
        "resources.yaml:4:66: probe a: option count: expected a whole number, got '1.5'",
        "resources.yaml:4:77: probe a: option deep: not true/false, yes/no, on/off or 1/0: "
        "got 'perhaps'",
    ]


def test_what_the_plugins_own_type_refuses_is_a_fault_of_its_options(tmp_path: Path):
    assert faults(tmp_path, "lm", "{path: /x, percent: 101}") == [
        "resources.yaml:4:34: probe a: options: percent is more than 100"
    ]


def test_a_plugin_without_options_takes_none(tmp_path: Path):
    assert probe(tmp_path, "bare", "{}")[0].options == {}
    assert faults(tmp_path, "bare", "{x: 1}") == [
        "resources.yaml:4:37: probe a: options: expected none: bare takes no options, got x"
    ]


@pytest.mark.parametrize(
    ("plugin", "said"),
    [
        ("bar", "plugin 'bar' is not installed here (did you mean bare?)"),
        ("broken", "plugin 'broken' cannot be loaded here: no module named lm"),
    ],
)
def test_a_plugin_that_is_not_here_is_a_warning_and_its_options_stay_text(
    tmp_path: Path, plugin: str, said: str
):
    made, warnings = probe(tmp_path, plugin, "{x: 1, y: [yes]}")
    assert made.options == {"x": "1", "y": ["yes"]}
    assert [str(w).partition("probe a: ")[2] for w in warnings] == [said]
