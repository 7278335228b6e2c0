"""Format `load_sensor` (Grid Engine): a record is `begin`, lines `host:name:value`, `end`."""

from typing import Final

from dynres.worker.line_formats import lines_of, text_pair
from dynres.worker.merging import newest
from dynres.worker.pairs import Asked, Pair, decode

BEGIN: Final = b"begin"
END: Final = b"end"
EVERYWHERE: Final = b"global"
"""In place of a host: the value is the cluster's, whoever asks."""
REQUEST: Final = b"\n"
QUIT: Final = b"quit\n"


def load_sensor_pairs(body: bytes, asked: Asked) -> list[Pair]:
    """`load_sensor`: the records of an output; what stands outside of them is refused."""
    records: list[list[Pair]] = []
    open_record: list[bytes] | None = None
    for line in lines_of(body):
        if line == BEGIN:
            if open_record is not None:
                records.append([_loose(BEGIN, "the record before it has no end")])
            open_record = []
        elif open_record is None:
            records.append([_loose(line, "expected begin")])
        elif line == END:
            records.append(load_sensor_record(open_record, asked))
            open_record = None
        else:
            open_record.append(line)
    if open_record is not None:
        records.append([_loose(BEGIN, "the record has no end")])
    return newest(records, asked)


def load_sensor_record(lines: list[bytes], asked: Asked) -> list[Pair]:
    """What the lines between `begin` and `end` say about this host."""
    here = _short(asked.host.encode())
    return [_value(line, here) for line in lines]


def _value(line: bytes, here: bytes) -> Pair:
    host, _, rest = line.partition(b":")
    name, colon, text = rest.partition(b":")
    if not colon:
        return _loose(line, "expected host:name:value")
    if _short(host) not in {here, EVERYWHERE}:
        whose = decode(host + b":" + name)
        return Pair(name=whose, text=decode(text), fault="a value of another host")
    return text_pair(decode(name.strip(b" \t")), text.strip(b" \t"))


def _short(host: bytes) -> bytes:
    return host.strip(b" \t").lower().partition(b".")[0]


def _loose(line: bytes, fault: str) -> Pair:
    return Pair(name="", text=decode(line), fault=fault)
