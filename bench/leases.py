"""Acquires and releases per second, end to end with 64 clients, as a ratio to PostgreSQL.

usage: leases.py [ROUNDS] [FOLDER]

A controller process with its ledger in FOLDER (a temporary one by default), and 64 connections
from one process that each acquire one unit of a pool, wait for the answer, release it, and so on.
Then, in the same round and on the same disk, the same by hand: PostgreSQL with
synchronous_commit=on, 8 clients of pgbench, one hot row: a transaction that takes a unit and
inserts a lease, and one that deletes it and gives the unit back. Also: how soon a waiter is woken.
"""

import os
import pwd
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path

import zmq

from dynres.client import Client, UnreachableError
from dynres.wire.codec import encode
from dynres.wire.leasing import Acquire, Acquired, Need, Release, Released, Seat, Waiting
from dynres.wire.requests import Call, read_result

CLIENTS = 64
PG_CLIENTS = 8
SECONDS = 5.0
TARGET = 1.5

RESOURCES = """\
resources:
  - name: iris
    flags: [shared]
    resourcemap:
      - {value: 1000, location: [all]}
"""
HOSTS = "hosts: [{name: 'node[1-64]'}]\n"

TABLES = """\
CREATE TABLE pool (id int PRIMARY KEY, capacity numeric NOT NULL, leased numeric NOT NULL);
CREATE TABLE lease (id bigserial PRIMARY KEY, job text NOT NULL, pool int NOT NULL,
                    amount numeric NOT NULL, host text NOT NULL, since timestamptz NOT NULL);
CREATE INDEX ON lease (job);
INSERT INTO pool VALUES (1, 1000, 0);
"""
PAIR = """\
\\set job random(1, 1000000000)
WITH taken AS (UPDATE pool SET leased = leased + 1 WHERE id = 1 AND leased + 1 <= capacity
               RETURNING id)
INSERT INTO lease (job, pool, amount, host, since) SELECT :job, id, 1, 'node1', now() FROM taken;
WITH gone AS (DELETE FROM lease WHERE job = :job::text RETURNING pool, amount)
UPDATE pool SET leased = leased - gone.amount FROM gone WHERE id = gone.pool;
"""
"""Two statements, each a transaction of its own: the hot row is held as short as can be."""


def free_port() -> int:
    """A TCP port that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def listening(endpoint: str) -> None:
    """Return once it answers."""
    deadline = time.monotonic() + 60
    with Client(endpoint, timeout=5) as client:
        while True:
            try:
                client.pools()
            except UnreachableError:
                assert time.monotonic() < deadline
            else:
                return


@contextmanager
def controller(folder: Path) -> Iterator[str]:
    """A controller; its endpoint for clients."""
    folder.mkdir()
    (folder / "resources.yaml").write_text(RESOURCES)
    (folder / "hosts.yaml").write_text(HOSTS)
    port = free_port()
    command = [sys.executable, "-m", "dynres.controller", "--config", str(folder)]
    command += ["--agent-port", "0", "--client-port", str(port), "--feed-port", "0"]
    command += ["--metrics", "127.0.0.1:0", "--state", str(folder / "state")]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    endpoint = f"tcp://127.0.0.1:{port}"
    try:
        listening(endpoint)
        yield endpoint
    finally:
        process.terminate()
        process.wait()


def pairs_of_dynres(endpoint: str, seconds: float) -> float:
    """Acquire+release a second, by 64 clients that each wait for every answer."""
    context = zmq.Context()
    poller = zmq.Poller()
    sockets = []
    for _ in range(CLIENTS):
        client = context.socket(zmq.DEALER)
        client.linger = 0
        client.connect(endpoint)
        poller.register(client, zmq.POLLIN)
        sockets.append(client)
    numbers = dict.fromkeys(sockets, 0)
    needs = (Need("iris", Decimal(1)),)
    run = os.urandom(4).hex()
    names = {s: f"{run}-{index}" for index, s in enumerate(sockets)}
    seats = {s: (Seat(f"node{index + 1}"),) for index, s in enumerate(sockets)}

    def send(client: "zmq.Socket[bytes]") -> None:
        number = numbers[client]
        pair, half = divmod(number, 2)
        job = f"{names[client]}-{pair}"
        request: Acquire | Release
        if half == 0:
            request = Acquire(job=job, needs=needs, seats=seats[client], request="1")
        else:
            request = Release(job=job)
        client.send(encode(Call(id=str(number), request=request)))

    for client in sockets:
        send(client)
    done = 0
    began = time.perf_counter()
    busy = set(sockets)
    while busy:
        for client, _ in poller.poll(1000):
            answer = read_result(client.recv()).answer
            now = time.perf_counter()
            numbers[client] += 1
            if isinstance(answer, Acquired):
                assert answer.view.answer == "granted"
            else:
                assert isinstance(answer, Released)
                assert len(answer.view.released) == 1
                done += now - began <= seconds
                if now - began > seconds:  # nothing stays held
                    busy.discard(client)
                    continue
            send(client)
    context.destroy(linger=0)
    return done / seconds


def wake_ups(endpoint: str, times: int) -> list[float]:
    """Seconds from the sending of a release until the waiter has its grant, both durable."""
    context = zmq.Context()
    sockets: list[zmq.Socket[bytes]] = [context.socket(zmq.DEALER) for _ in range(2)]
    for one in sockets:
        one.linger = 0
        one.connect(endpoint)

    def tell(one: "zmq.Socket[bytes]", request: Acquire | Release) -> None:
        one.send(encode(Call(id="1", request=request)))

    def hear(one: "zmq.Socket[bytes]", kind: type) -> None:
        while not isinstance(read_result(one.recv()).answer, kind):
            pass

    whole, seats = (Need("iris", Decimal(1000)),), (Seat("node1"),)
    holder, waiter = sockets
    tell(holder, Acquire(job="wake0", needs=whole, seats=seats))
    hear(holder, Acquired)
    found = []
    for number in range(times):
        tell(waiter, Acquire(job=f"wake{number + 1}", needs=whole, seats=seats, wait=60.0))
        hear(waiter, Waiting)
        began = time.perf_counter()
        tell(holder, Release(job=f"wake{number}"))
        hear(waiter, Acquired)
        found.append(time.perf_counter() - began)
        hear(holder, Released)
        holder, waiter = waiter, holder
    tell(holder, Release(job=f"wake{times}"))
    hear(holder, Released)
    context.destroy(linger=0)
    return found


class Postgres:
    """A cluster of our own, on a port of its own."""

    def __init__(self, folder: Path) -> None:
        self._data = folder / "data"
        self._port = free_port()
        self._bin = max(Path("/usr/lib/postgresql").glob("*/bin"))
        self._user = pwd.getpwnam("postgres" if os.getuid() == 0 else pwd.getpwuid(os.getuid())[0])
        folder.mkdir()
        folder.chmod(0o755)
        if os.getuid() == 0:
            os.chown(folder, self._user.pw_uid, self._user.pw_gid)
        self._folder = folder
        self._run("initdb", "-D", str(self._data), "-A", "trust", "-U", "bench")
        with (self._data / "postgresql.conf").open("a") as settings:
            settings.write(
                f"port = {self._port}\nlisten_addresses = '127.0.0.1'\n"
                f"unix_socket_directories = ''\nsynchronous_commit = on\nfsync = on\n"
            )
        server = [str(self._bin / "postgres"), "-D", str(self._data)]
        self._server = subprocess.Popen(server, stderr=subprocess.DEVNULL, **self._as_user())
        ready = ["pg_isready", "-h", "127.0.0.1", "-p", str(self._port), "-q"]
        deadline = time.monotonic() + 30
        while subprocess.run([str(self._bin / ready[0]), *ready[1:]], check=False).returncode:
            assert time.monotonic() < deadline, "PostgreSQL does not start"
            time.sleep(0.1)
        self._run("psql", "-d", "postgres", "-q", "-c", TABLES, where=True)
        (folder / "pair.sql").write_text(PAIR)

    def _as_user(self) -> dict[str, object]:
        if os.getuid() != 0:
            return {"cwd": self._folder}
        return {"user": self._user.pw_uid, "group": self._user.pw_gid, "cwd": self._folder}

    def _run(self, program: str, *arguments: str, where: bool = False) -> str:
        command = [str(self._bin / program), *arguments]
        if where:
            command += ["-h", "127.0.0.1", "-p", str(self._port), "-U", "bench"]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, **self._as_user()
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def pairs(self, seconds: float) -> float:
        """Acquire+release a second."""
        script = ["-f", str(self._folder / "pair.sql"), "-T", f"{seconds:.0f}", "-n"]
        clients = ["-c", str(PG_CLIENTS), "-j", "2", "-M", "prepared"]
        told = self._run("pgbench", *script, *clients, "postgres", where=True)
        [line] = [line for line in told.splitlines() if line.startswith("tps = ")]
        return float(line.split()[2])

    def close(self) -> None:
        """Stop this server, and no other."""
        self._server.send_signal(signal.SIGINT)
        self._server.wait()


def main() -> int:
    """Print medians and the ratio; the exit code says whether the target is met."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    base = Path(sys.argv[2]) if len(sys.argv) > 2 else None
    if not list(Path("/usr/lib/postgresql").glob("*/bin/pgbench")):
        print("PostgreSQL with pgbench is not installed: apt-get install postgresql; nothing done")
        return 0
    home = Path(tempfile.mkdtemp(dir=base))
    home.chmod(0o755)
    ours: list[float] = []
    theirs: list[float] = []
    woken: list[float] = []
    postgres = Postgres(home / "postgres")
    try:
        with controller(home / "dynres") as endpoint:
            pairs_of_dynres(endpoint, 1.0)
            for number in range(rounds):
                theirs.append(postgres.pairs(SECONDS))
                ours.append(pairs_of_dynres(endpoint, SECONDS))
                ratio = ours[-1] / theirs[-1]
                woken += wake_ups(endpoint, 100)
                print(
                    f"round {number + 1}: dynres {ours[-1]:.0f} acquire+release/s, "
                    f"PostgreSQL {theirs[-1]:.0f}, ratio {ratio:.2f}"
                )
    finally:
        postgres.close()
        shutil.rmtree(home)
    ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
    ratio = statistics.median(ratios)
    print(
        f"median: dynres {statistics.median(ours):.0f}/s, PostgreSQL "
        f"{statistics.median(theirs):.0f}/s, ratio {ratio:.2f} (at least {TARGET})"
    )
    woken.sort()
    print(
        f"a waiter is woken {1000 * statistics.median(woken):.1f} ms after the release (median of "
        f"{len(woken)}; 99 of 100 within {1000 * woken[len(woken) * 99 // 100]:.1f} ms)"
    )
    return 0 if ratio >= TARGET else 1


if __name__ == "__main__":
    sys.exit(main())
