"""Keeps out of the agent what the libraries that it uses bring along and it never needs."""

import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec

_OWN_HASHES = ("_md5", "_sha1", "_sha3", "_blake2")
_OWN_SHA2 = ("_sha256", "_sha512")
_OWN_SHA2_NOW = "_sha2"
"""What `hashlib` goes by where there is no OpenSSL; the latter since Python 3.12."""


def keep_out() -> None:
    """No TLS, no OpenSSL, no HTTP client; to be called before asyncio and the metrics are imported.

    Together with what these bring along it is a third of what the agent would have.
    """
    # As on a Python that was built without OpenSSL: what imports this goes on without it.
    _is_not_there("ssl")
    _is_not_there("typing_extensions")
    if _has_hashes():
        _is_not_there("_hashlib")
    _without_init("prometheus_client")


def _is_not_there(name: str) -> None:
    sys.modules.setdefault(name, None)  # type: ignore[arg-type]


def _has_hashes() -> bool:
    """Whether this Python has all hashes itself: some systems' have not."""
    sha2 = _found(_OWN_SHA2_NOW) or all(map(_found, _OWN_SHA2))
    return sha2 and all(map(_found, _OWN_HASHES))


def _found(name: str) -> bool:
    return name in sys.builtin_module_names or PathFinder.find_spec(name) is not None


def _without_init(name: str) -> None:
    """Let the parts of that package be imported, but not all that it imports itself."""
    spec = PathFinder.find_spec(name)
    if spec is not None and name not in sys.modules:
        sys.modules[name] = module_from_spec(spec)
