"""Serves `/metrics` and `/healthz` over HTTP, in threads beside the daemon's loop."""

import threading
from collections.abc import Callable, Iterable
from socketserver import ThreadingMixIn
from typing import NamedTuple
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment


class PageError(Exception):
    """The page cannot be served at its address; the text says why and what to do."""


class Health(NamedTuple):
    """Whether the daemon does its job now, and in words what is wrong where it does not."""

    ready: bool
    reason: str


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    request_queue_size = 64


class _Handler(WSGIRequestHandler):
    timeout = 10  # a client that says nothing holds its thread no longer

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
        """Requests are not logged: a scrape every few seconds says nothing."""


class Page:
    """A page that is being served; `address` is where (port 0 resolved)."""

    def __init__(self, address: str, app: WSGIApplication) -> None:
        host, _, port = address.rpartition(":")
        try:
            self._server = make_server(
                host.strip("[]"), int(port), app, server_class=_Server, handler_class=_Handler
            )
        except (OSError, OverflowError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not ADDR:PORT"
            raise PageError(
                f"metrics page at {address}: {reason}; choose another with --metrics ADDR:PORT"
            ) from error
        self.address = f"{host}:{self._server.server_port}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.5}, daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Stop serving. Blocks for up to half a second: call it off the loop's thread."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def serve_page(address: str, metrics: WSGIApplication, health: Callable[[], Health]) -> Page:
    """Serve `/metrics` and `/healthz` (200 or 503, the reason in the body) at ADDR:PORT.

    `metrics` is the application of the metrics page. Raises PageError for a useless address.
    """

    def app(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        if path == "/metrics":
            return metrics(environ, start)
        if path == "/healthz":
            state = health()
            status, text = ("200 OK" if state.ready else "503 Service Unavailable"), state.reason
        elif path == "/":
            status, text = "200 OK", "dynres: /metrics /healthz"
        else:
            status, text = "404 Not Found", "try /metrics or /healthz"
        body = f"{text}\n".encode()
        headers = [
            ("Content-Type", "text/plain; charset=utf-8"),
            ("Content-Length", str(len(body))),
        ]
        start(status, headers)
        return [body]

    return Page(address, app)
