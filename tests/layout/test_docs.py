"""The documents are complete: every key, verb, metric and probe, and every example loads."""

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

from dynres.cli.main import VERBS

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted(path for path in (ROOT / "examples").iterdir() if path.is_dir())
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
TEXT = "\n".join(path.read_text() for path in PAGES)
FILES = ("resources", "hosts", "agent", "controller")


def dynres(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "dynres.cli.main", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)


def keys(schema: Any) -> Iterator[str]:
    """Every key that a JSON Schema knows, however deep."""
    if isinstance(schema, dict):
        properties = schema.get("properties")
        if isinstance(properties, dict):
            yield from properties
        for part in schema.values():
            yield from keys(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from keys(part)


@pytest.mark.parametrize("file", FILES)
def test_every_configuration_key_is_documented(file: str):
    schema = json.loads(dynres("schema", file).stdout)
    text = (ROOT / "docs/configuration.md").read_text()
    known = set(keys(schema))
    assert known
    assert sorted(key for key in known if not re.search(rf"`{key}\b", text)) == []


@pytest.mark.parametrize("file", FILES)
def test_the_schema_that_the_examples_name_is_the_one_that_dynres_prints(file: str):
    kept = json.loads((ROOT / f"docs/schema/{file}.json").read_text())
    assert kept == json.loads(dynres("schema", file).stdout), "run: make schema"


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_is_documented(verb: str):
    assert re.search(rf"dynres {verb}\b", TEXT)


def test_every_metric_is_documented():
    source = ast.parse((ROOT / "agent/dynres/metrics.py").read_text())
    text = [n.value for n in ast.walk(source) if isinstance(n, ast.Constant)]
    names = {t for t in text if isinstance(t, str) and re.fullmatch(r"dynres_[a-z_]+", t)}
    assert len(names) > 10
    assert sorted(name for name in names if f"`{name}" not in TEXT) == []


def test_every_shipped_probe_is_documented():
    names = {entry.name for entry in entry_points(group="dynres.probes")}
    assert {"load", "disk"} <= names
    assert sorted(name for name in names if not re.search(rf"`{name}`", TEXT)) == []


def test_every_page_is_reached_from_the_index():
    index = (ROOT / "docs/README.md").read_text()
    pages = [path.name for path in (ROOT / "docs").glob("*.md") if path.name != "README.md"]
    assert [name for name in pages if f"({name})" not in index] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page: Path):
    targets = re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text())
    assert [target for target in targets if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("folder", EXAMPLES, ids=lambda path: path.name)
def test_every_example_passes_dynres_check_without_a_warning(folder: Path):
    done = dynres("check", "--config", str(folder))
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "file", sorted((ROOT / "examples").rglob("*.yaml")), ids=lambda p: f"{p.parent.name}/{p.name}"
)
def test_every_example_starts_with_the_line_that_lets_an_editor_check_it(file: Path):
    first = file.read_text().splitlines()[0]
    match = re.fullmatch(r"# yaml-language-server: \$schema=(\S+)", first)
    assert match
    assert (file.parent / match[1]).exists()
