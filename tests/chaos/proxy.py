"""A TCP proxy that does to connections what networks do."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Self

from tools.machine import LOOPBACK

_CHUNK = 1 << 16

#: Closes with a reset instead of a goodbye.
_LINGER = struct.pack("ii", 1, 0)

#: Seconds for the loop's thread to do what it is asked to.
_PATIENCE = 20.0


@dataclass(eq=False)
class Link:
    """One connection through the proxy.

    Attributes:
        client: towards the process.
        server: towards PostgreSQL, once there is one.
        is_mute: answers of the server are lost on the way.
    """

    client: asyncio.StreamWriter
    server: asyncio.StreamWriter | None = None
    is_mute: bool = False

    @property
    def port(self) -> int:
        """The client's own port."""
        port: int = self.client.get_extra_info("peername")[1]
        return port

    def reset(self) -> None:
        """End both halves, as a firewall does that has forgotten about the connection."""
        for writer in (self.client, self.server):
            if writer is not None:
                with suppress(OSError):
                    writer.get_extra_info("socket").setsockopt(
                        socket.SOL_SOCKET, socket.SO_LINGER, _LINGER
                    )
                writer.transport.abort()


class Proxy:
    """Passes connections on to a server, until it is told to misbehave. Thread-safe.

    Args:
        server_port: of the server, on loopback.
    """

    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._links: set[Link] = set()
        self._latency = 0.0
        self._is_mute = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)
        self._listening = threading.Event()
        self._closing = asyncio.Event()
        self._light = asyncio.Event()
        self.port = 0

    def __enter__(self) -> Self:
        """Listen on a free port of loopback."""
        self._thread.start()
        if not self._listening.wait(_PATIENCE):
            raise TimeoutError("The proxy does not listen.")
        return self

    def __exit__(self, *exception: object) -> None:
        """Reset every connection and stop listening."""
        self._loop.call_soon_threadsafe(self._closing.set)
        self._thread.join(_PATIENCE)

    @property
    def connections(self) -> int:
        """How many there are, also if they have not reached the server."""
        return len(self._links)

    def reset(self) -> None:
        """Reset every connection. New ones are welcome."""
        self._do(self._reset)

    def delay(self, seconds: float) -> None:
        """Hold back whatever passes, in both directions, for so long each time."""
        self._do(lambda: setattr(self, "_latency", seconds))

    def darken(self) -> None:
        """Let nothing pass, and close nothing: nobody can tell that from a slow answer."""
        self._do(self._light.clear)

    def lighten(self) -> None:
        """Let things pass again. Connections from before or during the darkness are reset."""
        self._do(self._reset)
        self._do(self._light.set)

    def mute(self, port: int | None = None) -> None:
        """Lose the server's answers, of all connections or of the one from ``port``."""
        self._do(lambda: self._mute(port))

    def unmute(self) -> None:
        """Lose no more answers. Connections that were mute are reset: they may lack one."""
        self._do(self._unmute)

    def heal(self) -> None:
        """Behave again."""
        self.delay(0.0)
        self.unmute()
        self.lighten()

    def _do(self, act: Callable[[], object]) -> None:
        done = threading.Event()

        def run() -> None:
            act()
            done.set()

        self._loop.call_soon_threadsafe(run)
        if not done.wait(_PATIENCE):
            raise TimeoutError("The proxy does not answer.")

    def _reset(self) -> None:
        for link in list(self._links):
            link.reset()

    def _mute(self, port: int | None) -> None:
        self._is_mute = port is None
        for link in self._links:
            link.is_mute = port in (None, link.port)

    def _unmute(self) -> None:
        self._is_mute = False
        for link in list(self._links):
            if link.is_mute:
                link.is_mute = False
                link.reset()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self._light.set()
        server = await asyncio.start_server(self._connect, LOOPBACK, 0)
        async with server:
            self.port = server.sockets[0].getsockname()[1]
            self._listening.set()
            await self._closing.wait()
            server.close()
            self._light.set()
            self._reset()
            # Each link ends by itself when both of its halves have.
            while self._links:
                await asyncio.sleep(0.01)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = Link(writer, is_mute=self._is_mute)
        self._links.add(link)
        try:
            await self._light.wait()
            answers, link.server = await asyncio.open_connection(LOOPBACK, self._server_port)
            await asyncio.gather(
                self._pass(link, reader, link.server, is_answer=False),
                self._pass(link, answers, writer, is_answer=True),
            )
        except OSError:
            pass
        finally:
            link.reset()
            self._links.discard(link)

    async def _pass(
        self,
        link: Link,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        is_answer: bool,
    ) -> None:
        """Pass on one direction until it ends; then end the link."""
        try:
            while data := await reader.read(_CHUNK):
                if self._latency:
                    await asyncio.sleep(self._latency)
                await self._light.wait()
                if not (is_answer and link.is_mute):
                    writer.write(data)
                    await writer.drain()
        finally:
            writer.close()
