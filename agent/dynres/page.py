"""Serves `/metrics` and `/healthz` over HTTP, in threads beside the daemon's loop.

Not by `http.server`: with the e-mail and HTML packages behind it, that is 2.5 MB of the agent.
"""

import concurrent.futures
import threading
from collections.abc import Callable, Mapping
from socket import AF_INET, AF_INET6, SHUT_RDWR
from socketserver import StreamRequestHandler, TCPServer, ThreadingMixIn
from typing import Any, Final, NamedTuple

from dynres.exposition import Body, Metrics

METHODS: Final = ("GET", "HEAD")
LINE_LIMIT: Final = 8192
"""Longest line of a request, in bytes."""
LINES_LIMIT: Final = 100
_TEXT: Final = {"Content-Type": "text/plain; charset=utf-8"}


class PageError(Exception):
    """The page cannot be served at its address; the text says why and what to do."""


class Health(NamedTuple):
    """Whether the daemon does its job now, and in words what is wrong where it does not."""

    ready: bool
    reason: str


Answer = tuple[str, Body]
"""Status line (`200 OK`) and body."""
Answering = Callable[[str, str, Mapping[str, str]], Answer]
"""Path, query and headers (names in lower case) -> answer."""


class RequestFault(Exception):  # noqa: N818  (answered to a client, not raised at a caller)
    """What is wrong with a request: a status line."""


class _Server(ThreadingMixIn, TCPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 64

    def __init__(self, host: str, port: int, answering: Answering) -> None:
        self.address_family = AF_INET6 if ":" in host else AF_INET
        self.answering = answering
        super().__init__((host, port), _Handler)


class _Handler(StreamRequestHandler):
    timeout = 10  # a client that says nothing holds its thread no longer

    def handle(self) -> None:
        """One request, one answer; a scrape every few seconds is not logged."""
        assert isinstance(self.server, _Server)
        try:
            try:
                method, target, headers = self._request()
                path, _, query = target.partition("?")
                status, body = self.server.answering(path, query, headers)
            except RequestFault as fault:
                method, (status, body) = "GET", (str(fault), Body(_TEXT, f"{fault}\n".encode()))
            self._send(method, status, body)
        except OSError:
            return  # the client has gone, or is too slow

    def _request(self) -> tuple[str, str, dict[str, str]]:
        """Method, target and headers. Raises RequestFault."""
        words = self._line().split()
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            raise RequestFault("400 Bad Request")
        headers: dict[str, str] = {}
        for _ in range(LINES_LIMIT):
            line = self._line()
            if not line:
                break
            name, _, value = line.partition(":")
            headers[name.strip().lower()] = value.strip()
        else:
            raise RequestFault("431 Request Header Fields Too Large")
        if words[0] not in METHODS:
            raise RequestFault("405 Method Not Allowed")
        return words[0], words[1], headers

    def _line(self) -> str:
        line = self.rfile.readline(LINE_LIMIT + 1)
        if len(line) > LINE_LIMIT:
            raise RequestFault("431 Request Header Fields Too Large")
        return str(line, "latin-1").rstrip("\r\n")

    def _send(self, method: str, status: str, body: Body) -> None:
        headers = {**body.headers, "Content-Length": str(len(body.content)), "Connection": "close"}
        if status.startswith("405"):
            headers["Allow"] = ", ".join(METHODS)
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        text = f"HTTP/1.0 {status}\r\n{head}\r\n".encode("latin-1")
        self.wfile.write(text if method == "HEAD" else text + body.content)


class Page:
    """A page that is being served; `address` is where (port 0 resolved)."""

    def __init__(self, address: str, answering: Answering) -> None:
        host, _, port = address.rpartition(":")
        try:
            self._server = _Server(host.strip("[]"), int(port), answering)
        except (OSError, OverflowError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not ADDR:PORT"
            raise PageError(
                f"metrics page at {address}: {reason}; choose another with --metrics ADDR:PORT"
            ) from error
        bound: Any = self._server.server_address
        self.address = f"{host}:{bound[1]}"
        self._closing = False
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        # Not `serve_forever`, which wakes up twice a second to see whether it shall end.
        while not self._closing:
            self._server.handle_request()

    def close(self) -> None:
        """Stop serving. Waits for the serving thread: call it off the loop's thread."""
        self._closing = True
        self._server.socket.shutdown(SHUT_RDWR)  # ends its wait for a connection
        self._thread.join()
        self._server.server_close()


def serve_page(address: str, metrics: Metrics, health: Callable[[], Health]) -> Page:
    """Serve `/metrics` and `/healthz` (200 or 503, the reason in the body) at ADDR:PORT.

    Raises PageError for a useless address.
    """

    def answering(path: str, query: str, headers: Mapping[str, str]) -> Answer:
        if path == "/metrics":
            return "200 OK", metrics(query, headers)
        if path == "/healthz":
            state = health()
            status, text = ("200 OK" if state.ready else "503 Service Unavailable"), state.reason
        elif path == "/":
            status, text = "200 OK", "dynres: /metrics /healthz"
        else:
            status, text = "404 Not Found", "try /metrics or /healthz"
        return status, Body(_TEXT, f"{text}\n".encode())

    def or_busy(path: str, query: str, headers: Mapping[str, str]) -> Answer:
        try:
            return answering(path, query, headers)
        except (TimeoutError, RuntimeError, concurrent.futures.CancelledError):
            text = b"the daemon does not answer: it is busy, or ends\n"
            return "503 Service Unavailable", Body(_TEXT, text)

    return Page(address, or_busy)
