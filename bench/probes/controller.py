"""A controller that only welcomes and takes reports; `controller.py FILE` writes its endpoint."""

import asyncio
import sys
import time
from pathlib import Path

from dynres.wire.codec import choose_version, encode, from_agent
from dynres.wire.link import Listener
from dynres.wire.messages import Beat, Hello, Report, Stamp, Welcome


async def serve(file: Path) -> None:
    """Beside FILE, FILE.values keeps how many values came, and in how many seconds."""
    reported, first = 0, 0.0

    def take(peer: bytes, _address: str, body: bytes) -> None:
        nonlocal reported, first
        message = from_agent(body)
        if isinstance(message, Hello):
            welcome = Welcome(
                version=choose_version(message) or 0,
                software="bench",
                host=message.host,
                heartbeat=5,
                stamp=time.clock_gettime(time.CLOCK_BOOTTIME),
                measure=tuple(message.definitions),
            )
            listener.send(peer, encode(welcome))
        elif isinstance(message, Beat):
            listener.send(peer, encode(Stamp(stamp=time.clock_gettime(time.CLOCK_BOOTTIME))))
        elif isinstance(message, Report):
            first = first or time.monotonic()
            reported += len(message.values) + int(sum(n.count for n in message.numbers))
            seconds = max(0.001, time.monotonic() - first)
            count.seek(0)
            count.write(f"{reported} {seconds:.3f}\n")
            count.flush()

    listener = Listener("tcp://127.0.0.1:*", take)
    with file.with_suffix(".values").open("w") as count:
        part = file.with_suffix(".part")
        part.write_text(listener.endpoint)
        part.replace(file)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1])))
