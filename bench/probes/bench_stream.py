"""One stream that gives 2000 values a second: the whole agent beside a C reader.

usage: bench_stream.py [ROUNDS] [SECONDS]

CPU is that of everything a variant started, the stream itself included.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from measured import HERE, Account, built, measure

VALUES = 2000
WARM = 20.0
"""Python adapts its code to what it does (PEP 659) after tens of executions, here one a second."""


def declare(folder: Path, stream: Path) -> Path:
    config = folder / "config"
    config.mkdir(exist_ok=True)
    (config / "agent.yaml").write_text("user: root\n")
    resources = "".join(
        f"  - {{name: probe_v{i}, interval: 1s, probe: many,\n"
        f"     resourcemap: [{{location: [default]}}]}}\n"
        for i in range(VALUES)
    )
    (config / "resources.yaml").write_text(
        f"probes:\n  - {{name: many, command: [{stream}, '{VALUES}', equals],\n"
        f"     mode: stream, format: lines}}\n"
        f"resources:\n{resources}"
    )
    return config


def dynres(folder: Path, window: float) -> tuple[float, float]:
    """CPU seconds per 1000 values, and the share of the values that were reported."""
    config = declare(folder, folder / "stream_probe")
    endpoint = folder / "endpoint"
    endpoint.unlink(missing_ok=True)
    helper = subprocess.Popen([sys.executable, str(HERE / "controller.py"), str(endpoint)])
    while not endpoint.exists():
        time.sleep(0.05)
    command = [sys.executable, "-m", "dynres", "agent", "--config", str(config), "--host", "bench"]
    command += ["--controller", endpoint.read_text(), "--metrics", "127.0.0.1:20052"]
    try:
        return cpu_of(command, folder, window, {"DYNRES_RUNTIME": str(folder)}), taken(endpoint)
    finally:
        helper.terminate()
        helper.wait()


def taken(endpoint: Path) -> float:
    """Values that the controller got, per second of the agent's life, over VALUES."""
    count, seconds = endpoint.with_suffix(".values").read_text().split()
    return int(count) / float(seconds) / VALUES


def cpu_of(command: list[str], folder: Path, window: float, env: dict[str, str]) -> float:
    seen = measure(
        command,
        account=Account("dynres_bench_stream"),
        warm=WARM,
        window=window,
        env=env,
        output=folder / "out",
    )
    return seen.cpu / (VALUES * (seen.ended - seen.begun)) * 1000


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    window = float(sys.argv[2]) if len(sys.argv) > 2 else 6.0
    results = []
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="bench-stream-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        built(folder)
        floor = [str(folder / "floor_stream"), str(folder / "stream_probe"), str(VALUES)]
        for _ in range(rounds):
            least = cpu_of(floor, folder, window, {})
            ours, share = dynres(folder, window)
            results.append({"floor": least, "dynres": ours, "ratio": ours / least, "taken": share})
    medians = {k: round(statistics.median(r[k] for r in results), 6) for k in results[0]}
    print(json.dumps({"rounds": rounds, "cpu s per 1000 values": medians}, indent=2))


if __name__ == "__main__":
    main()
