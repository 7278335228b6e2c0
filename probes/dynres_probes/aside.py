"""Asks what may never be answered in a thread of its own, and waits a bounded time."""

from __future__ import annotations

import _thread

TYPE_CHECKING = False  # `typing` and `threading` cost the load indices more than they do
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class Aside:
    """`ask`, of which there is never more than one under way; `about` names it in errors."""

    def __init__(self, ask: Callable[[], Any], about: str, patience: float) -> None:
        self._ask = ask
        self._about = about
        self._patience = patience
        self._asked: _Asked | None = None
        """The one that has not been answered yet."""

    def answer(self) -> Any:
        """What `ask` returns. Raises its OSError, or TimeoutError after `patience` seconds.

        While an earlier one is under way it raises at once, and asks no second time.
        """
        if self._asked is not None and not self._asked.over.acquire(blocking=False):
            raise TimeoutError(f"{self._about}: still no answer")
        asked = self._asked = _Asked(self._ask)
        if not asked.over.acquire(timeout=self._patience):
            raise TimeoutError(f"{self._about}: no answer within {self._patience:g} s")
        self._asked = None
        if asked.error is not None:
            raise asked.error
        return asked.answer


class _Asked:
    """One call in its own thread, which takes as long as it takes."""

    def __init__(self, ask: Callable[[], Any]) -> None:
        self.answer: Any = None
        self.error: OSError | None = OSError("no answer")
        self.over = _thread.allocate_lock()
        self.over.acquire()
        _thread.start_new_thread(self._run, (ask,))

    def _run(self, ask: Callable[[], Any]) -> None:
        try:
            self.answer = ask()
            self.error = None
        except OSError as error:
            self.error = error
        finally:
            self.over.release()
