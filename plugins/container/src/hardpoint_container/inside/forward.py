"""Carry connections from 127.0.0.1 in the sandbox to the egress gate's socket. Judges nothing."""

from __future__ import annotations

import selectors
import socket
from typing import Any

BUFFER = 64 * 1024
MOST = 64  # connections at a time


class Link:
    """One direction of a connection."""

    def __init__(self, source: socket.socket, target: socket.socket) -> None:
        self.source, self.target = source, target
        self.buffer, self.ended = b"", False


class Gate:
    """A listener on 127.0.0.1 whose connections continue on a unix socket."""

    def __init__(self, selector: selectors.BaseSelector, gate: dict[str, Any]) -> None:
        self.selector, self.path = selector, gate["socket"]
        self.links: dict[socket.socket, tuple[Link, Link]] = {}
        # by socket: the link that it reads for, the link that it writes for
        self.listener = socket.create_server(("127.0.0.1", gate["port"]), backlog=MOST)
        self.listener.setblocking(False)
        selector.register(self.listener, selectors.EVENT_READ, (self.on_connection, None))

    def on_connection(self, _fd: int, _subject: None) -> None:
        try:
            near, _ = self.listener.accept()
        except OSError:
            return
        far = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            far.connect(self.path)
        except OSError:
            near.close()
            far.close()
            return
        if len(self.links) >= 2 * MOST:
            near.close()
            far.close()
            return
        there, back = Link(near, far), Link(far, near)
        self.links[near], self.links[far] = (there, back), (back, there)
        for end in (near, far):
            end.setblocking(False)
            self.selector.register(end, selectors.EVENT_READ, (self.on_ready, end))

    def on_ready(self, _fd: int, end: socket.socket) -> None:
        if end not in self.links:
            return
        reads, writes = self.links[end]
        try:
            if writes.buffer:
                self.flush(writes)
            if not reads.buffer and not reads.ended:
                self.fill(reads)
        except BlockingIOError:
            pass
        except OSError:
            self.close(end)
            return
        if reads.ended and writes.ended and not reads.buffer and not writes.buffer:
            self.close(end)
            return
        for one in (reads.source, reads.target):
            self.watch(one)

    def fill(self, link: Link) -> None:
        data = link.source.recv(BUFFER)
        if data:
            link.buffer = data
        else:
            link.ended = True
        try:
            self.flush(link)
        except BlockingIOError:
            pass

    def flush(self, link: Link) -> None:
        while link.buffer:
            link.buffer = link.buffer[link.target.send(link.buffer) :]
        if link.ended:
            try:
                link.target.shutdown(socket.SHUT_WR)
            except OSError:
                pass

    def watch(self, end: socket.socket) -> None:
        reads, writes = self.links[end]
        wanted = 0
        if not reads.buffer and not reads.ended:
            wanted |= selectors.EVENT_READ
        if writes.buffer:
            wanted |= selectors.EVENT_WRITE
        known = end.fileno() in self.selector.get_map()
        if known and wanted:
            self.selector.modify(end, wanted, (self.on_ready, end))
        elif known:
            self.selector.unregister(end)
        elif wanted:
            self.selector.register(end, wanted, (self.on_ready, end))

    def close(self, end: socket.socket) -> None:
        reads, _ = self.links[end]
        for one in (reads.source, reads.target):
            self.links.pop(one, None)
            if one.fileno() in self.selector.get_map():
                self.selector.unregister(one)
            one.close()
