def read(text: bytes, names: bytes, count: int, /) -> bytes | None:
    """The numbers of lines `NAME=NUMBER`, where these are exactly `count` lines of `names`.

    As doubles of this machine, 8 bytes each.

    `names` are joined by newlines. None where any line is something else, or its number not plain:
    a sign, at most 15 digits, a point among them.
    """
