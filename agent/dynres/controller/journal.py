"""What has changed in the tables since somebody looked last."""


class Journal:
    """Rows that were written at all, and cells that have another value, state or reason."""

    def __init__(self) -> None:
        self.rows: set[int] = set()
        """Something was measured there, if only the same again."""
        self.cells: dict[int, set[int]] = {}
        """Row -> columns."""
        self.forgotten: list[tuple[int, str]] = []
        """Rows that were given up, and the hosts that had them."""

    def cell(self, column: int, row: int) -> None:
        """A cell is another than before."""
        self.rows.add(row)
        self.cells.setdefault(row, set()).add(column)

    def gone(self, row: int, host: str) -> None:
        """A host is no more."""
        self.rows.discard(row)
        self.cells.pop(row, None)
        self.forgotten.append((row, host))
