"""Whatever is done to a valid folder: it loads, or every fault is told; never anything else."""

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from dynres.config.faults import ConfigError
from dynres.config.load import load
from dynres.config.result import LoadResult, read_result, write_result
from dynres.config.words import readings

RESOURCES = """\
resources:
  - &base
    name: scratch_free
    description: free space
    type: numeric
    order: decreasing
    unit: GB
    interval: 30s
    ttl: 2m
    on_failure: keep
    probe: {command: [/usr/bin/true, /scratch], env: {A: b}, timeout: 5s}
    resourcemap:
      - {location: [default, "~host3"]}
      - {location: [host3], probe: {env: {A: c}}}
  - name: iris
    flags: [shared, release]
    resourcemap:
      - {name: main, value: 100, location: ["@eda", "node[1-4,9]"], reserve: 10%}
      - {value: 5, location: [others]}
  - {name: gpus, interval: 5s, probe: gpu, resourcemap: [{location: [all]}]}
  - {name: os, type: string, resourcemap: [{value: 007, location: [host1]}]}
  - <<: *base
    name: other
  - {name: quota, flags: [consumable], resourcemap: [{value: 1.5, location: [default]}]}
probes:
  - {name: gpu, plugin: disk, options: {path: /tmp}, map: {free: gpus}}
"""
HOSTS = """\
groups: {eda: [host1, host2, "@more"], more: ["node[5-6]"]}
hosts:
  - name: host1
    resource: [{name: quota, value: 20}]
  - name: host2
  - name: host3
  - {name: login1, worker: false}
  - name: node[1-9]
"""
AGENT = """\
host: host1
controller: [tcp://head:5750]
metrics: 127.0.0.1:9750
"""
CONTROLLER = """\
listen: 127.0.0.1
metrics: {listen: "0.0.0.0:9751", per_host: true}
registration: listed
"""
FILES = {
    "resources.yaml": RESOURCES,
    "hosts.yaml": HOSTS,
    "agent.yaml": AGENT,
    "controller.yaml": CONTROLLER,
}
PIECES = st.sampled_from(
    [
        "\t", "\r", "\n", " ", ":", ": ", ",", "[", "]", "{", "}", "- ", "*base", "&base ", "!x ",
        "<<: ", "#", '"', "'", "|", ">", "%", "@", "~", "null", "-1", "1e400", "0", "nan", "9e99",
        "é", "\u2028", "\x85", "\ud800", "\x00", "default", "others", "all", "shared", "global",
        "per_host", "node[1-999999999]", "x" * 300, "---\n", "? ", "true", "30s", "location",
    ]
)  # fmt: skip
SPOT = st.floats(0, 1, exclude_max=True)


@st.composite
def mutated(draw: st.DrawFn, text: str) -> str:
    for _ in range(draw(st.integers(0, 4))):
        start = int(draw(SPOT) * (len(text) + 1))
        kind = draw(st.sampled_from(["insert", "delete", "replace", "cut", "swap line"]))
        if kind == "insert":
            text = text[:start] + draw(PIECES) + text[start:]
        elif kind == "replace":
            text = text[:start] + draw(PIECES) + text[start + draw(st.integers(1, 9)) :]
        elif kind == "delete":
            text = text[:start] + text[start + draw(st.integers(1, 30)) :]
        elif kind == "cut":
            text = text[:start]
        else:
            lines = text.splitlines(keepends=True)
            line = int(draw(SPOT) * len(lines)) if lines else 0
            lines.insert(int(draw(SPOT) * (len(lines) + 1)), lines.pop(line) if lines else "")
            text = "".join(lines)
    return text


def read(files: dict[str, bytes]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, data in files.items():
            (folder / file).write_bytes(data)
        for role in ("agent", "controller"):
            try:
                loaded = load(folder, role, everything=True)
            except ConfigError as error:
                assert error.faults
                for fault in error.faults:
                    assert fault.place is None or fault.place.line >= 1
                    assert fault.place is None or fault.place.column >= 1
                    assert "\n" not in str(fault)
            else:
                result = LoadResult(configuration=loaded.configuration, warnings=loaded.warnings)
                assert read_result(write_result(result)) == result
                assert all(text for _, text in readings(loaded.configuration))


def test_the_folder_that_is_mutated_is_valid():
    read({name: text.encode() for name, text in FILES.items()})
    with tempfile.TemporaryDirectory() as name:
        for file, text in FILES.items():
            (Path(name) / file).write_text(text)
        loaded = load(Path(name), "controller", everything=True)
        assert loaded.warnings == ()


@settings(max_examples=400, deadline=None)
@given(file=st.sampled_from(list(FILES)), data=st.data())
def test_a_mutated_folder_loads_or_every_fault_is_told(file: str, data: st.DataObject):
    text = data.draw(mutated(FILES[file]))
    files = {name: other.encode() for name, other in FILES.items()}
    files[file] = text.encode("utf-8", "surrogatepass")
    read(files)


@settings(max_examples=200, deadline=None)
@given(data=st.binary(max_size=200))
def test_any_bytes_load_or_are_faults(data: bytes):
    read({"resources.yaml": data})
