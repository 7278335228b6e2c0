"""100 external probes, each once a second: the whole agent beside a C loop and two other agents.

usage: bench_probes.py [ROUNDS] [SECONDS] [VARIANT,...]

The variants run one after the other, ROUNDS times; ratios are taken within a round. CPU is that of
everything a variant started, the probes' own included. `dynres` reports to a controller outside of
the account. Lateness is taken from what the probes note themselves: behind each one's own phase.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from measured import HERE, Account, Window, built, measure, runs_in

PROBES = 100
WARM = 4.0


@dataclass
class Started:
    """What a variant needs to be run."""

    argv: list[str]
    helper: subprocess.Popen[bytes] | None = None
    env: dict[str, str] = field(default_factory=dict)


class Bench:
    """The variants, over one folder of theirs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.probe = folder / "probe"
        self.log = folder / "log"
        self.note = f"log:{self.log}"

    def floor(self) -> Started:
        return Started([str(self.folder / "floor_spawn"), str(PROBES), str(self.probe), self.note])

    def collectd(self) -> Started:
        plugins = "".join(
            f'Exec "nobody" "{self.probe}" "{i}" "{self.note}" "collectd"\n' for i in range(PROBES)
        )
        conf = self.folder / "collectd.conf"
        conf.write_text(
            f'Hostname "h"\nFQDNLookup false\nBaseDir "{self.folder}"\nInterval 1\n'
            f'PIDFile "{self.folder}/collectd.pid"\nReadThreads 5\n'
            f'LoadPlugin logfile\n<Plugin logfile>\nLogLevel err\nFile "{self.folder}/c.log"\n'
            "</Plugin>\nLoadPlugin unixsock\n<Plugin unixsock>\n"
            f'SocketFile "{self.folder}/collectd.sock"\n</Plugin>\n'
            f"LoadPlugin exec\n<Plugin exec>\n{plugins}</Plugin>\n"
        )
        return Started(["/usr/sbin/collectd", "-f", "-C", str(conf)])

    def zabbix(self) -> Started:
        conf = self.folder / "zabbix.conf"
        conf.write_text(
            f"LogType=file\nLogFile={self.folder}/zabbix.log\nServer=127.0.0.1\n"
            "ListenIP=127.0.0.1\nListenPort=20050\nServerActive=127.0.0.1:20051\nHostname=h\n"
            f"PidFile={self.folder}/z.pid\nControlSocket={self.folder}/z.sock\nTimeout=3\n"
            f"BufferSend=1\nBufferSize=1000\nUserParameter=p[*],{self.probe} $1 {self.note}\n"
        )
        server = [sys.executable, str(HERE / "zabbix_server.py"), "20051", str(PROBES)]
        return Started(["/usr/sbin/zabbix_agent2", "-c", str(conf), "-f"], subprocess.Popen(server))

    def dynres(self) -> Started:
        config = self.folder / "config"
        config.mkdir(exist_ok=True)
        # As under the shipped unit, where the probes' user is the agent's own.
        (config / "agent.yaml").write_text("user: root\n")
        entries = "".join(
            f"  - name: r{i:03}\n    interval: 1s\n"
            f'    probe: {{command: ["{self.probe}", "{i}", "{self.note}"]}}\n'
            "    resourcemap: [{location: [default]}]\n"
            for i in range(PROBES)
        )
        (config / "resources.yaml").write_text(f"resources:\n{entries}")
        endpoint = self.folder / "endpoint"
        endpoint.unlink(missing_ok=True)
        helper = subprocess.Popen([sys.executable, str(HERE / "controller.py"), str(endpoint)])
        while not endpoint.exists():
            time.sleep(0.05)
        command = [sys.executable, "-m", "dynres", "agent", "--config", str(config)]
        command += ["--host", "bench", "--controller", endpoint.read_text()]
        command += ["--metrics", "127.0.0.1:20052"]
        return Started(command, helper, {"DYNRES_RUNTIME": str(self.folder)})

    def variants(self) -> dict[str, Callable[[], Started]]:
        all_of_them = {
            "floor": self.floor,
            "dynres": self.dynres,
            "collectd": self.collectd,
            "zabbix-agent2": self.zabbix,
        }
        programs = {"collectd": "/usr/sbin/collectd", "zabbix-agent2": "/usr/sbin/zabbix_agent2"}
        return {n: v for n, v in all_of_them.items() if Path(programs.get(n, "/")).exists()}

    def run(self, name: str, window: float) -> dict[str, float]:
        self.log.write_text("")
        self.log.chmod(0o666)
        account = Account("dynres_bench_probes")
        started = self.variants()[name]()
        try:
            time.sleep(0.5 if started.helper else 0)
            seen: Window = measure(
                started.argv,
                account=account,
                warm=WARM,
                window=window,
                probes=[self.probe],
                env=started.env,
                output=self.folder / f"out.{name}",
            )
        finally:
            if started.helper is not None:
                started.helper.terminate()
                started.helper.wait()
        runs = runs_in(self.log, seen)
        figures = {**asdict(runs), "pss_mb": seen.pss_kb / 1024, "foreign_cpus": seen.foreign}
        figures["cpu_ms_per_run"] = seen.cpu / max(1, runs.count) * 1000
        figures["runs_per_s"] = runs.count / (seen.ended - seen.begun)
        return figures


def summary(rounds: list[dict[str, dict[str, float]]]) -> dict[str, object]:
    """Medians of each variant, and of dynres's ratios to the others."""
    medians = {
        name: {key: round(statistics.median(r[name][key] for r in rounds), 4) for key in figures}
        for name, figures in rounds[0].items()
    }

    def ratio(key: str, other: str) -> float | None:
        pairs = [(r["dynres"][key], r[other][key]) for r in rounds if {"dynres", other} <= r.keys()]
        return round(statistics.median(a / b for a, b in pairs), 3) if pairs else None

    ratios = {
        "cpu / floor (at most 1.8)": ratio("cpu_ms_per_run", "floor"),
        "cpu / collectd (at most 0.75)": ratio("cpu_ms_per_run", "collectd"),
        "lateness p99 / floor (at most 5)": ratio("late_p99_ms", "floor"),
        "pss / zabbix-agent2 (at most 1.5)": ratio("pss_mb", "zabbix-agent2"),
        "period error (at most 0.001)": medians.get("dynres", {}).get("period_error"),
    }
    return {"rounds": len(rounds), "medians": medians, "ratios": ratios}


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    window = float(sys.argv[2]) if len(sys.argv) > 2 else 6.0
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="bench-probes-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        built(folder)
        bench = Bench(folder)
        wanted = sys.argv[3].split(",") if len(sys.argv) > 3 else list(bench.variants())
        results = [{v: bench.run(v, window) for v in wanted} for _ in range(rounds)]
    print(json.dumps(summary(results), indent=2))


if __name__ == "__main__":
    main()
