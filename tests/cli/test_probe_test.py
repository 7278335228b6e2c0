"""`dynres probe test`: one run in the service's surroundings, and all that is to be seen of it."""

import asyncio
import json
import os
import shutil
import tempfile
from pathlib import Path

import pytest

from dynres.cli.probe_test import as_document, lines
from dynres.config.load import load
from dynres.worker.trial import NoTrialError, spec_of, trial

SHAPE = {
    *("probe", "command", "user", "cwd", "env", "outcome", "reason", "exit", "duration"),
    *("stdout", "stderr", "values", "refused"),
}
USER = "{user: root}" if os.geteuid() == 0 else "{}"
FILES = """\
resources:
  - {{name: a, unit: GB, interval: 10s, probe: several, resourcemap: [{{location: [h1]}}]}}
  - {{name: b, interval: 10s, probe: several, resourcemap: [{{location: [h1]}}]}}
  - {{name: c, interval: 10s, probe: several, resourcemap: [{{location: [h1]}}]}}
  - name: elsewhere
    interval: 10s
    probe: {{command: [/bin/echo, 7]}}
    resourcemap: [{{location: [h2]}}]
  - name: fails
    interval: 10s
    probe: {{command: [/bin/sh, -c, "echo 7; echo no server >&2; exit 3"]}}
    resourcemap: [{{location: [default]}}]
  - name: room
    interval: 10s
    probe: {{plugin: disk, options: {{path: /}}}}
    resourcemap: [{{location: [default]}}]
  - name: written
    interval: 10s
    probe: {{file: {folder}/written}}
    resourcemap: [{{location: [default]}}]
  - name: streamed
    interval: 30s
    probe: {{command: [/bin/sh, -c, "echo hello; echo streamed=4; exec sleep 600"], mode: stream}}
    resourcemap: [{{location: [default]}}]
  - name: silent
    interval: 1s
    probe:
      mode: stream
      timeout: 300ms
      command: [/bin/sh, -c, "echo hello; echo why >&2; exec sleep 600"]
    resourcemap: [{{location: [default]}}]
  - name: ends
    interval: 30s
    probe: {{command: [/bin/sh, -c, "exit 4"], mode: stream}}
    resourcemap: [{{location: [default]}}]
  - name: iris
    flags: [shared]
    measures: total
    interval: 10s
    probe: {{command: [/bin/echo, 40]}}
    resourcemap: [{{location: [h2, h3]}}]
  - name: licences
    flags: [shared]
    measures: total
    interval: 10s
    probe: {{command: [/bin/sh, -c, "echo $LEFT"]}}
    resourcemap:
      - {{name: north, location: [h2], reporter: [h1], probe: {{env: {{LEFT: "-3"}}}}}}
      - {{name: south, location: [h3], reporter: [h1], probe: {{env: {{LEFT: "5"}}}}}}
probes:
  - name: several
    command:
      - /bin/sh
      - -c
      - "echo a=1.5; echo b=-; echo c=1,5; echo d=1; {{ id -un; pwd; umask; }} >&2"
    env: {{EXTRA: more}}
  - {{name: unused, command: [/bin/true]}}
"""


@pytest.fixture
def folder():
    """A folder of this user that everybody may read."""
    path = Path(tempfile.mkdtemp())
    path.chmod(0o755)
    (path / "written").write_text("3\n")
    (path / "resources.yaml").write_text(FILES.format(folder=path))
    yield path
    shutil.rmtree(path)


def tried(folder, name, host="h1"):
    spec, mapped = spec_of(load(folder, "agent").configuration, host, name)
    return asyncio.run(trial(spec, mapped=mapped))


def test_a_command_is_run_as_the_daemon_does_and_all_of_it_is_shown(folder):
    done = tried(folder, "several")
    shown = as_document(done)
    user = "nobody" if os.geteuid() == 0 else shown["user"]
    assert shown.keys() >= SHAPE
    assert (shown["probe"], shown["outcome"], shown["exit"]) == ("several", "ok", 0)
    assert shown["user"] in {user, "dynres"}
    assert shown["stderr"].splitlines() == [shown["user"], "/", "0022"]
    assert shown["stdout"] == "a=1.5\nb=-\nc=1,5\nd=1\n"
    assert shown["values"] == {"a": 1.5, "b": None}
    assert {(r["name"], r["text"]) for r in shown["refused"]} == {("c", "1,5"), ("d", "1")}
    assert shown["env"]["EXTRA"] == "more"
    assert shown["env"]["DYNRES_RESOURCES"] == "a b c"
    assert json.loads(json.dumps(shown)) == shown
    text = "\n".join(lines(done))
    assert "values    a = 1.5 GB\n          b = unavailable\n" in text
    assert "c = '1,5' is refused: decimal comma? use a point" in text
    assert text.endswith("verdict   ok")


def test_a_failed_run_has_no_values_whatever_it_printed(folder):
    done = tried(folder, "fails")
    shown = as_document(done)
    assert (shown["outcome"], shown["exit"]) == ("failed", 3)
    assert shown["reason"] == "exit status 3: no server"
    assert (shown["stdout"], shown["values"]) == ("7\n", {})
    assert list(lines(done))[-1] == "verdict   failed: exit status 3: no server"


def test_a_plugin_and_a_file_are_tested_too(folder):
    room = as_document(tried(folder, "room"))
    assert (room["outcome"], room["command"], room["plugin"]) == ("ok", None, "disk")
    assert room["values"]["room"] > 0
    assert room["env"]["LANG"] == "C.UTF-8"
    written = as_document(tried(folder, "written"))
    assert (written["outcome"], written["values"], written["env"]) == ("ok", {"written": 3}, None)


def test_a_stream_is_ended_after_its_first_good_record(folder):
    shown = as_document(tried(folder, "streamed"))
    assert (shown["outcome"], shown["values"]) == ("ok", {"streamed": 4})
    assert shown["stdout"] == "hello\nstreamed=4\n"
    assert shown["duration"] < 10


def test_a_stream_without_a_record_is_ended_at_its_timeout(folder):
    shown = as_document(tried(folder, "silent"))
    assert (shown["outcome"], shown["values"]) == ("timeout", {})
    assert shown["reason"].startswith("no good record within 300ms")
    assert (shown["stdout"], shown["stderr"]) == ("hello\n", "why\n")


def test_a_stream_that_ends_by_itself_says_how(folder):
    shown = as_document(tried(folder, "ends"))
    assert (shown["outcome"], shown["exit"]) == ("failed", 4)


def test_what_a_host_does_not_run_is_run_with_a_word_about_it(folder):
    assert tried(folder, "elsewhere", "h2").mapped
    other = tried(folder, "elsewhere", "h1")
    assert not other.mapped
    assert as_document(other)["values"] == {"elsewhere": 7}


def test_a_shared_resource_is_measured_by_one_agent_and_tested_on_any(folder):
    assert as_document(tried(folder, "iris"))["values"] == {"iris": 40}


def test_a_probe_that_is_none_or_feeds_nothing_is_refused(folder):
    configuration = load(folder, "agent").configuration
    with pytest.raises(NoTrialError, match="no probe sevral"):
        spec_of(configuration, "h1", "sevral")
    with pytest.raises(NoTrialError, match="unused feeds no resource"):
        spec_of(configuration, "h1", "unused")


def test_the_verb_ends_with_0_for_ok_1_for_a_failed_run_and_2_for_a_probe_that_is_none(
    folder, dynres
):
    options = ("--config", folder, "--host", "h1", "--json")
    done = dynres("probe", "test", "several", *options)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["values"] == {"a": 1.5, "b": None}
    done = dynres("probe", "test", "fails", *options)
    assert (done.returncode, json.loads(done.stdout)["outcome"]) == (1, "failed")
    done = dynres("probe", "test", "sevral", *options)
    assert done.returncode == 2
    assert json.loads(done.stdout)["error"]["message"].endswith("did you mean several?")


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_as_root_it_becomes_the_services_user_or_nobody_with_a_warning(folder, dynres):
    done = dynres("probe", "test", "several", "--config", folder, "--host", "h1", "--json")
    assert json.loads(done.stdout)["user"] in {"dynres", "nobody"}
    assert ("there is no user dynres" in done.stderr) == ("nobody" in done.stdout)


def test_text_shows_every_part_for_a_person(folder, dynres):
    done = dynres("probe", "test", "elsewhere", "--config", folder, "--host", "h1")
    assert "does not run it" in done.stderr
    names = [line.split()[0] for line in done.stdout.splitlines() if line[0] != " "]
    parts = ("probe", "command", "user", "cwd", "env", "stdout", "stderr", "exit", "duration")
    assert names == [*parts, "values", "verdict"]


def test_the_probe_of_one_entry_is_tested_by_the_name_of_its_instance(folder):
    shown = as_document(tried(folder, "licences/south"))
    assert (shown["probe"], shown["values"]) == ("licences/south", {"licences": 5})
    assert shown["env"]["DYNRES_PROBE"] == "licences"


def test_a_negative_amount_is_bad_output(folder):
    shown = as_document(tried(folder, "licences/north"))
    assert (shown["outcome"], shown["values"]) == ("bad_output", {})
    assert [r["text"] for r in shown["refused"]] == ["-3"]
    assert "jobs can hold" in shown["reason"]
