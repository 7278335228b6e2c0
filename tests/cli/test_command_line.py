"""Verbs, help, usage errors, exit codes and completion, as scripts and shells meet them."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import click
import pytest

from dynres.cli.main import VERBS
from dynres.cli.main import dynres as group

DOCS = Path(__file__).parents[2] / "docs" / "commands.md"
FAULT_KEYS = {"place", "what", "expected", "got", "hint"}
NOWHERE = "tcp://127.0.0.1:1"


def commands():
    """Every command with its words: ("probe", "list"), …"""
    context = click.Context(group)

    def below(parent, words):
        for name in parent.list_commands(context):
            command = parent.get_command(context, name)
            yield (*words, name), command
            if isinstance(command, click.Group):
                yield from below(command, (*words, name))

    return dict(below(group, ()))


COMMANDS = commands()


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_verb_has_help_with_an_example_of_itself(words):
    command = COMMANDS[words]
    with click.Context(command, info_name=" ".join(("dynres", *words))) as context:
        text = command.get_help(context)
    example = text.partition("Example:\n")[2].partition("\n\n")[0]
    assert f"dynres {words[0]}" in example
    assert words[-1] in example


def test_every_verb_and_exit_code_is_documented_with_an_example():
    text = DOCS.read_text()
    for words in COMMANDS:
        assert f"dynres {' '.join(words)}" in text, words
    for code in (0, 1, 2, 69, 75, 77, 111, 130):
        assert f"| {code} |" in text, code


def test_every_option_is_documented():
    text = DOCS.read_text()
    for words, command in COMMANDS.items():
        for parameter in command.params:
            for option in parameter.opts:
                if option.startswith("--") and option != "--help":
                    assert f"`{option}" in text, (words, option)


def test_no_summary_in_a_list_of_verbs_is_cut_off(dynres):
    groups = {words[:1] for words in COMMANDS if len(words) == 2}
    for words in groups:
        listed = dynres(*words, "--help").stdout.partition("Commands:\n")[2]
        assert listed, words
        assert "..." not in listed, words


def test_verbs_of_later_versions_are_absent():
    assert not {"keys"} & set(VERBS)


def test_the_list_of_verbs_imports_none_of_them():
    code = (
        "import sys\nfrom dynres.cli.main import run\nrun(['--help'])\n"
        "print(sorted(m for m in sys.modules if m.split('.')[0] in {'rich', 'pydantic', 'zmq',"
        " 'yaml', 'ClusterShell', 'msgspec', 'numpy'} or m.startswith('dynres.cli.')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "['dynres.cli.main', 'dynres.cli.output']"


def help_of(verb):
    command = COMMANDS[verb,]
    return command.get_help(click.Context(command, info_name=verb))


@pytest.mark.parametrize(
    ("verb", "options"),
    [
        ("acquire", ("--job", "--host", "--need")),
        ("run", ("--need",)),
        ("suspend", ("--job",)),
        ("resume", ("--job",)),
        ("reconcile", ("--jobs", "--as-of")),
        ("set", ("--reason",)),
    ],
)
def test_the_help_marks_what_is_required(verb, options):
    text = " " + " ".join(help_of(verb).split("Options:")[1].split())
    for option in options:
        shown = text.partition(f" {option} ")[2].partition(" --")[0]
        assert shown.endswith("[required]"), text
    assert text.count("[required]") == len(options)


@pytest.mark.parametrize("verb", ["release", "renew", "set"])
def test_the_help_says_where_one_of_several_options_is_required(verb):
    text = " ".join(help_of(verb).split("Options:")[0].split())
    assert "is required" in text


@pytest.mark.parametrize(
    ("state", "why"),
    [("/proc/nope/state", "No such file or directory"), ("FILE", "not a directory")],
)
def test_a_folder_for_the_state_that_cannot_be_made_is_told_with_what_to_do(
    dynres, tmp_path, state, why
):
    (tmp_path / "resources.yaml").write_text("resources: []\n")
    (tmp_path / "FILE").write_text("")
    port = ("--agent-port", "0", "--client-port", "0", "--feed-port", "0")
    place = tmp_path / state
    done = dynres("controller", "--config", tmp_path, *port, "--state", place)
    assert done.returncode == 1
    assert f"{place}: the folder for the controller's state cannot be made: {why}" in done.stderr
    assert "name another with --state" in done.stderr


def test_no_arguments_show_the_help_as_a_usage_error(dynres):
    done = dynres()
    assert done.returncode == 2
    assert done.stdout == ""
    assert "Usage: dynres" in done.stderr


def test_a_mistyped_verb_gets_the_near_one_named(dynres):
    done = dynres("vlaues")
    assert done.returncode == 2
    assert "Did you mean 'values'?" in done.stderr


def test_a_usage_error_is_a_json_document_too_where_json_was_asked_for(dynres):
    for words in (["values", "--nonsense"], ["hosts", "a b"], ["pools", "--controller", "x"]):
        done = dynres(*words, "--json")
        assert done.returncode == 2
        error = json.loads(done.stdout)["error"]
        assert set(error) == {"code", "message", "faults"}
        assert (error["code"], error["faults"]) == ("usage", [])
        assert error["message"] in done.stderr


def test_host_sets_are_refused_with_the_reason(dynres):
    done = dynres("values", "node[1-", "--controller", NOWHERE)
    assert done.returncode == 2
    assert "node[1-" in done.stderr
    assert "brackets" in done.stderr


@pytest.mark.parametrize(
    "words",
    [["values"], ["hosts"], ["pools"], ["explain", "h", "r"], ["controller", "reload"]],
    ids=" ".join,
)
def test_an_unreachable_controller_is_said_within_5_seconds_with_exit_code_111(dynres, words):
    done = dynres(*words, "--json", "--controller", NOWHERE, "--controller", NOWHERE, timeout=5)
    assert done.returncode == 111
    error = json.loads(done.stdout)["error"]
    assert error["code"] == "unreachable"
    assert NOWHERE in error["message"]
    assert "--controller" in error["message"]


def test_a_controller_that_accepts_and_is_silent_is_said_within_5_seconds_too(dynres):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        done = dynres(
            "hosts", "--controller", f"tcp://127.0.0.1:{silent.getsockname()[1]}", timeout=5
        )
    assert done.returncode == 111
    assert "no controller answers" in done.stderr


def test_ctrl_c_ends_a_verb_quietly_with_130():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        process = subprocess.Popen(
            [sys.executable, "-m", "dynres", "hosts", "--controller", endpoint],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        connection, _ = silent.accept()  # now it waits for an answer
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=20) == (b"", b"")
        connection.close()
    assert process.returncode == 130


def test_the_environment_names_the_controllers(dynres):
    done = dynres("pools", DYNRES_CONTROLLER=f"{NOWHERE} tcp://127.0.0.1:2")
    assert done.returncode == 111
    assert "tcp://127.0.0.1:2" in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_completion_prints_a_script_for_each_shell(dynres, shell):
    done = dynres("completion", shell)
    assert done.returncode == 0
    assert "_DYNRES_COMPLETE" in done.stdout


def test_bash_completes_verbs_and_options(dynres, tmp_path):
    script = dynres("completion", "bash").stdout
    (tmp_path / "dynres").write_text(f'#!/bin/sh\nexec {sys.executable} -m dynres "$@"\n')
    (tmp_path / "dynres").chmod(0o755)
    ask = (
        'COMP_WORDS=(dynres {}); COMP_CWORD={}; _dynres_completion dynres; echo "${{COMPREPLY[@]}}"'
    )
    for words, at, expected in (("va", 1, "values"), ("hosts --all", 2, "--all-hosts")):
        done = subprocess.run(
            ["bash", "-c", f"{script}\n{ask.format(words, at)}"],
            env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stdout.split() == [expected], done.stderr


def test_a_closed_pipe_ends_quietly():
    # The reader is gone before anything is written.
    ours, theirs = os.pipe()
    os.close(ours)
    done = subprocess.run(
        [sys.executable, "-m", "dynres", "completion", "zsh"],
        stdout=theirs,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(theirs)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_full_disk_under_the_output_is_an_error():
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "dynres", "completion", "zsh"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr == "dynres: cannot write the output: No space left on device\n"


def test_a_locale_without_utf8_does_not_crash(dynres):
    done = dynres("hosts", "h\u00f6st", "--json", PYTHONIOENCODING="ascii", LC_ALL="C")
    assert done.returncode == 2
    assert "h\u00f6st" in json.loads(done.stdout)["error"]["message"]


def test_probe_list_shows_what_the_folder_declares_and_what_is_installed(dynres, tmp_path):
    (tmp_path / "resources.yaml").write_text(
        "resources:\n"
        "  - name: room\n"
        "    interval: 30s\n"
        "    probe: {command: [/usr/bin/df, /]}\n"
        "    resourcemap: [{location: [default]}]\n"
    )
    done = dynres("probe", "list", "--config", tmp_path)
    assert done.returncode == 0, done.stderr
    [line] = [line for line in done.stdout.splitlines() if line.startswith("room ")]
    assert "/usr/bin/df /" in line
    assert "30s" in line
    probes = json.loads(dynres("probe", "list", "--config", tmp_path, "--json").stdout)
    [room] = [probe for probe in probes["probes"] if probe["name"] == "room"]
    assert room == {
        "name": "room",
        "kind": "command",
        "command": ["/usr/bin/df", "/"],
        "plugin": None,
        "file": None,
        "interval": 30,
        "timeout": 10,
        "format": None,
        "mode": "once",
        "user": None,
        "resources": ["room"],
        "builtin": False,
        "place": "resources.yaml:4:12",
    }
    assert {plugin["name"] for plugin in probes["plugins"]} >= {"load", "disk"}
    assert all(
        set(plugin) == {"name", "class", "package", "version"} for plugin in probes["plugins"]
    )


def test_faults_of_a_folder_are_lines_on_stderr_and_in_the_json_document(dynres, tmp_path):
    (tmp_path / "resources.yaml").write_text("resources:\n  - {name: a, typ: numeric}\n")
    done = dynres("probe", "list", "--config", tmp_path, "--json")
    assert done.returncode == 2
    error = json.loads(done.stdout)["error"]
    assert error["code"] == "config"
    assert error["faults"]
    assert all(set(fault) == FAULT_KEYS for fault in error["faults"])
    assert "resources.yaml:2:15: " in done.stderr
