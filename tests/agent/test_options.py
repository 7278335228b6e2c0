"""What the agent is told on its command line."""

from pathlib import Path

import pytest

from dynres.worker.options import parse


def test_every_option_is_taken(monkeypatch):
    given = ["--config", "/c", "--host=h1", "--controller", "tcp://a:1", "--controller=tcp://b:1"]
    options = parse([*given, "--controller", "tcp://a:1", "--once", "--metrics", "off"])
    assert (options.config, options.host, options.metrics) == (Path("/c"), "h1", "off")
    assert options.controllers == ("tcp://a:1", "tcp://b:1")
    assert options.once


def test_without_options_the_environment_or_the_default_says_where_the_files_are(monkeypatch):
    monkeypatch.setenv("DYNRES_CONFIG", "/e")
    assert parse([]).config == Path("/e")
    monkeypatch.delenv("DYNRES_CONFIG")
    options = parse([])
    assert options.config == Path("/etc/dynres")
    assert (options.host, options.controllers, options.once, options.metrics) == (None, (), 0, None)


@pytest.mark.parametrize("given", [["--hots", "x"], ["--host"], ["--once=x"], ["x"], ["--conf=/c"]])
def test_what_is_no_option_is_told_with_the_usage(given, capsys):
    with pytest.raises(SystemExit) as end:
        parse(given)
    assert end.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith("usage: dynres agent")
    assert given[0].partition("=")[0] in said


def test_help_is_the_usage(capsys):
    with pytest.raises(SystemExit) as end:
        parse(["--help"])
    assert end.value.code == 0
    assert capsys.readouterr().out.startswith("usage: dynres agent")
