"""A TCP proxy on this machine whose other side can be made to fail: before an S3 gateway, say."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading


class Proxy:
    """Hands bytes on to a port of this machine, or does what `mode` says.

    Modes: "pass"; "refuse" (the port is closed); "reset" (at the first byte); "hang" (nothing is ever answered);
    "cut up" and "cut down" (within the request, within the answer); an HTTP status (every request is answered so).
    """

    def __init__(self, port):
        self._to = port
        self._mode = "pass"
        self._open = set()
        self._over = threading.Event()
        self._listener = None
        self.port = 0
        self._listen()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def mode(self, mode):
        """Fail so from now on; connections that are open are ended."""
        before, self._mode = self._mode, mode
        if mode == "refuse":
            self._shut_listener()
        for one in list(self._open):
            _end(one)
        if before == "refuse" and mode != "refuse":
            self._listen()

    def close(self):
        self._over.set()
        self.mode("refuse")

    def _listen(self):
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def _shut_listener(self):
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self, listener):
        while True:
            try:
                near, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(near,), daemon=True).start()

    def _serve(self, near):
        self._open.add(near)
        try:
            with contextlib.suppress(OSError):
                self._answer(near, self._mode)
        finally:
            self._open.discard(near)
            _end(near)

    def _answer(self, near, mode):
        if isinstance(mode, int):
            near.recv(65536)
            body = b"<Error><Code>InternalError</Code></Error>"
            head = f"HTTP/1.1 {mode} Error\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
            near.sendall(head.encode() + body)
            near.shutdown(socket.SHUT_WR)
            while near.recv(65536):
                pass
        elif mode == "reset":
            near.recv(1)
            near.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        elif mode == "hang":
            while near.recv(65536):
                pass
        else:
            self._pass(near, mode)

    def _pass(self, near, mode):
        with socket.create_connection(("127.0.0.1", self._to)) as far:
            self._open.add(far)
            back = threading.Thread(target=_copy, args=(far, near, 40 if mode == "cut down" else None), daemon=True)
            back.start()
            _copy(near, far, 200 if mode == "cut up" else None)
            back.join()
            self._open.discard(far)


def _copy(source, target, most):
    """Until the source ends, or so many bytes went through: then both are cut."""
    with contextlib.suppress(OSError):
        sent = 0
        while data := source.recv(65536):
            data = data if most is None else data[: most - sent]
            target.sendall(data)
            sent += len(data)
            if most is not None and sent >= most:
                break
    _end(source)
    _end(target)


def _end(connection):
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
