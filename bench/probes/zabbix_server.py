"""Answers a Zabbix agent's active checks: `zabbix_server.py PORT N` wants N items a second."""

import json
import socketserver
import struct
import sys
import zlib

HEAD = 13
COMPRESSED = 2
ITEMS = [
    {
        "key": f"p[{i}]",
        "key_orig": f"p[{i}]",
        "itemid": i + 1,
        "delay": "1s",
        "lastlogsize": 0,
        "mtime": 0,
    }
    for i in range(int(sys.argv[2]))
]


class Checks(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        data = b""
        while len(data) < HEAD or len(data) < HEAD + struct.unpack("<I", data[5:9])[0]:
            more = self.request.recv(65536)
            if not more:
                return
            data += more
        body = zlib.decompress(data[HEAD:]) if data[4] & COMPRESSED else data[HEAD:]
        answer: dict[str, object] = {"response": "success", "info": "processed: 1; failed: 0"}
        if json.loads(body)["request"] == "active checks":
            answer = {"response": "success", "data": ITEMS}
        text = json.dumps(answer).encode()
        self.request.sendall(b"ZBXD\x01" + struct.pack("<II", len(text), 0) + text)


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


Server(("127.0.0.1", int(sys.argv[1])), Checks).serve_forever()
