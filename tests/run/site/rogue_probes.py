"""Plugins that do to a plugin host what plugins do; each class is one kind of fault."""

import ctypes
import os
import re
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from dynres.probe import NOT_HERE, ProbeError


@dataclass(frozen=True)
class Step:
    step: int = 1
    start: float = 0.0


class Counter:
    """Well behaved: its state shows whether the instance is still the same."""

    def __init__(self, options: Step) -> None:
        self.step = options.step
        self.count = options.start

    def read(self):
        self.count += self.step
        return {"count": self.count}


@dataclass(frozen=True)
class Folder:
    folder: str


class Daemon:
    """Starts a program in a session of its own, whose parent is gone, or `kept`: the plugin."""

    def __init__(self, options: dict) -> None:
        self.sleep = ["setsid", "sleep", options["seconds"]]
        if options.get("cleared"):
            self.sleep = ["env", "-i", *self.sleep]
        self.kept = options.get("kept", False)
        self.child = None

    def read(self):
        if self.kept:
            self.child = self.child or subprocess.Popen(self.sleep)
        else:
            subprocess.run(["/bin/sh", "-c", f"{' '.join(self.sleep)} & exit 0"], check=True)
        return {"count": os.getuid()}


class Gate:
    """Says that it runs (one file a run), then waits until it may go on; well behaved."""

    def __init__(self, options: Folder) -> None:
        self.folder = Path(options.folder)
        self.count = 0

    def read(self):
        self.count += 1
        (self.folder / f"run-{os.getpid()}-{self.count}").touch()
        while not (self.folder / "open").exists():
            time.sleep(0.005)
        return {"count": self.count}


class Loop:
    def read(self):
        while True:
            pass


class Regex:
    """Holds the interpreter lock in one C call that does not end."""

    def read(self):
        re.match(r"(?:a|aa)+$", "a" * 200 + "b")
        return {"count": 1}


class LockHolder:
    """Its run is over; a thread that it left then holds the interpreter lock in one C call."""

    def __init__(self, options: dict) -> None:
        self.gate = Path(options["gate"])

    def read(self):
        threading.Thread(target=self.hold, daemon=True).start()
        return {"count": 1}

    def hold(self):
        while not self.gate.exists():
            time.sleep(0.005)
        Regex().read()


class Exit:
    def read(self):
        os._exit(3)


class Crash:
    def read(self):
        ctypes.string_at(0)


class Sleep:
    def read(self):
        time.sleep(1000)


class CloseAll:
    """Closes every descriptor, the one to the agent included."""

    def read(self):
        os.closerange(0, 100)
        time.sleep(1000)


class Loud:
    def read(self):
        print("said on stdout")
        print("said on stderr", file=sys.stderr)
        sys.stdout.buffer.write(b"bytes \xff\n")
        os.write(1, b"\x05\x00\x00\x00junk on descriptor 1\n")
        os.write(2, b"\xff" * 100_000)
        subprocess.run(["/bin/echo", "from a child"], check=True)
        return {"count": 1}


class Flood:
    def read(self):
        for _ in range(2000):
            print("x" * 1000)
        return {"count": 1}


class LeakThreads:
    def read(self):
        for _ in range(100):
            threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
        return {"count": 1}


class Child:
    def read(self):
        child = subprocess.Popen(["/bin/sleep", "1000"])
        return {"count": child.pid}


class Raises:
    def read(self):
        raise ValueError("no such thing")


class Quits:
    def read(self):
        sys.exit("enough")


class Interrupts:
    def read(self):
        raise KeyboardInterrupt


class SaysWhy:
    def read(self):
        raise ProbeError("the licence server does not answer")


class NoMapping:
    def read(self):
        return 5


class Number(float):
    pass


class Odd:
    """Wrong types, beside good ones."""

    def read(self):
        return {
            "count": [1],
            "nan": float("nan"),
            "big": 10**400,
            "text": 5,
            "flag": 1,
            "unasked": 1,
            7: 8,
            "surrogate": "\ud800",
            "bell": "a\a",
            "long": "x" * 100_000,
            "good": Number(2.5),
            "word": "el9",
            "yes": True,
            "none": None,
        }


class Elsewhere:
    def read(self):
        return {"count": NOT_HERE, "other": NOT_HERE}


class Endless(dict):
    def __len__(self):
        return 1

    def items(self):
        while True:
            yield "count", 1


class EndlessReading:
    def read(self):
        return Endless()


class BadInit:
    def __init__(self):
        raise RuntimeError("no device")

    def read(self):
        return {}


NOT_A_CLASS = 5


class MainThread:
    """Tells what `threading` takes for the main thread, and whether a run is a thread of its."""

    def read(self):
        main, run = threading.main_thread(), threading.current_thread()
        return {"main": main.native_id == os.getpid(), "own": type(run) is threading.Thread}
