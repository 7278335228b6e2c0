def read(text: bytes, names: bytes, count: int, /) -> list[float] | None:
    """The numbers of lines `NAME=NUMBER`, where these are exactly `count` lines of `names`.

    `names` are joined by newlines. None where any line is something else, or its number not plain:
    a sign, at most 15 digits, a point among them.
    """
