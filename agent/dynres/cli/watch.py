"""`dynres watch`: the feed as JSON lines, for scripts and schedulers."""

import _thread
import select
import sys
import threading

import click

from dynres.cli import output
from dynres.cli.ask import asking
from dynres.cli.options import controller_option, json_option, where_option
from dynres.cli.output import ReaderGoneError
from dynres.wire.views import to_builtins


@click.command()
@where_option
@controller_option
@json_option
def watch(where: str | None, controller: tuple[str, ...], as_json: bool) -> None:
    """Print a snapshot of all hosts, values, pools and leases, then each change, until Ctrl-C.

    One JSON document a line: {"kind": "snapshot"|"host"|"value"|"pool"|"lease"|"lost", "epoch",
    "seq", ...}. After "lost" comes a new snapshot. With --where only hosts that satisfy the
    requirement, as they come and go; pools and leases are always there. --json changes nothing.

    \b
    Example:
      dynres watch --where 'bigmem && mem >= 2 GB' | jq -c 'select(.kind == "value")'
    """
    gone = threading.Event()
    threading.Thread(target=_notice, args=(sys.stdout.fileno(), gone), daemon=True).start()
    try:
        with asking(controller) as client:
            for line in client.watch(where):
                output.document(to_builtins(line), line=True)
                output.flush()
    except KeyboardInterrupt:
        if gone.is_set():
            raise ReaderGoneError from None
        raise


def _notice(stdout: int, gone: threading.Event) -> None:
    """Wait until nobody reads any more: without a change there is nothing to write, and to fail."""
    ends = select.poll()
    ends.register(stdout, 0)
    ends.poll()
    gone.set()
    _thread.interrupt_main()
