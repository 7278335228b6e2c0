"""The examples of docs/writing-a-probe.md are run as they stand there."""

import asyncio
import re
import subprocess
from pathlib import Path
from typing import get_args

import pytest
from hosts import PATH, job

from dynres.config.load import load
from dynres.worker.formats import FORMATS, parse
from dynres.worker.outcome import Outcome
from dynres.worker.pairs import Asked
from dynres.worker.plugin_client import PluginHosts

PAGE = (Path(__file__).parents[2] / "docs" / "writing-a-probe.md").read_text()
BLOCKS = {
    name: (language, body)
    for language, name, body in re.findall(r"^```(\w+) (\w+)\n(.*?)^```", PAGE, re.M | re.S)
}
SEVERAL = {"seats_used": "numeric", "seats_free": "numeric", "licence_server": "string"}


def program(name: str, folder: Path, *arguments: str) -> bytes:
    path = folder / name
    path.write_text(BLOCKS[name][1])
    path.chmod(0o755)
    return subprocess.run([path, *arguments], check=True, stdout=subprocess.PIPE).stdout


def test_the_page_has_its_examples():
    assert set(BLOCKS) == {
        "scratch_free", "one_program", "several", "licence", "licence_json", "file",
        "uptime_probe", "plugin", "sessions", "stream",
    }  # fmt: skip


def test_the_first_program_prints_a_value(tmp_path):
    asked = Asked(resources={"scratch_free": "numeric"})
    parsed = parse(program("scratch_free", tmp_path, "/"), None, asked)
    assert parsed.problem is None
    assert isinstance(parsed.values["scratch_free"], float)


@pytest.mark.parametrize("name", ["licence", "licence_json"])
def test_the_programs_for_several_resources_print_them_all(name, tmp_path):
    parsed = parse(program(name, tmp_path), None, Asked(resources=SEVERAL, several=True))
    assert parsed.values == {"seats_used": 17.0, "seats_free": 23.0, "licence_server": "lic1"}
    assert parsed.refused == ()


@pytest.mark.parametrize("name", [n for n, (lang, _) in BLOCKS.items() if lang == "yaml"])
def test_each_declaration_loads(name, tmp_path):
    (tmp_path / "resources.yaml").write_text(BLOCKS[name][1])
    loaded = load(tmp_path, "agent")
    unknown = "plugin 'uptime' is not installed here"
    assert [w for w in loaded.warnings if unknown not in str(w)] == []


def test_the_plugin_runs_and_its_options_are_checked(tmp_path):
    (tmp_path / "uptime_probe.py").write_text(BLOCKS["uptime_probe"][1])
    info = tmp_path / "uptime_probe-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: uptime-probe\nVersion: 1.0\n")
    toml = re.search(
        r'^```toml\n\[project.entry-points."dynres.probes"\]\n(.*?)```', PAGE, re.M | re.S
    )
    assert toml is not None
    (info / "entry_points.txt").write_text("[dynres.probes]\n" + toml[1].replace('"', ""))

    async def main():
        hosts = PluginHosts(PATH, [str(tmp_path)])
        try:
            good = await hosts.run(job("uptime", unit="h"))
            assert good.status == "ok", good
            assert good.payload[0][:2] == ("uptime", "number")
            wrong = await hosts.run(job("uptime", unit="d"))
            assert (wrong.status, wrong.reason) == (
                "start_error",
                "options: unit: expected s or h, got d",
            )
        finally:
            await hosts.close()

    asyncio.run(main())


def test_every_outcome_and_format_is_on_the_page():
    assert set(re.findall(r"^\| `(\w+)` \| ", PAGE, re.M)) >= set(get_args(Outcome)) | set(FORMATS)
