"""A socket that speaks WebSocket by hand, for what a proper client would never do."""

import base64
import os
import zlib

from aip_wire import *

TEXT, CLOSE, PING, PONG = 1, 8, 9, 10


class Raw:
    """A socket that speaks WebSocket by hand, and does nothing by itself."""

    def __init__(self, reader, writer, head):
        self.reader, self.writer, self.head = reader, writer, head
        self.pings, self.texts, self.code = [], [], None

    @classmethod
    async def open(cls, world, who, target="/ws", **headers):
        key = base64.b64encode(os.urandom(16)).decode()
        fields = {"Host": world.host, "Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13"}
        fields |= {"Sec-WebSocket-Key": key, **({"X-API-Key": world.key(who)} if who else {}), **headers}
        reader, writer = await asyncio.open_connection(*world.address, limit=1 << 26)
        lines = [f"GET {target} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items()), "", ""]
        writer.write("\r\n".join(lines).encode())
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE)
        return cls(reader, writer, head.decode())

    @property
    def status(self):
        return int(self.head.split()[1])

    async def frame(self, opcode, payload=b"", fin=True, reserved=0):
        mask, length = os.urandom(4), len(payload)
        head = bytes([(0x80 if fin else 0) | reserved | opcode])
        if length < 126:
            head += bytes([0x80 | length])
        elif length < 1 << 16:
            head += bytes([0x80 | 126]) + length.to_bytes(2, "big")
        else:
            head += bytes([0x80 | 127]) + length.to_bytes(8, "big")
        key = int.from_bytes((mask * (length // 4 + 1))[:length], "big")
        self.writer.write(head + mask + (int.from_bytes(payload, "big") ^ key).to_bytes(length, "big"))
        await self.writer.drain()

    async def say(self, message):
        await self.frame(TEXT, json.dumps(message).encode() if isinstance(message, dict) else message.encode())

    async def read(self, timeout=PATIENCE):
        """One frame: opcode and payload; none once the connection is over."""
        try:
            first, second = await asyncio.wait_for(self.reader.readexactly(2), timeout)
            length = second & 0x7F
            if length > 125:
                length = int.from_bytes(await self.reader.readexactly(2 if length == 126 else 8), "big")
            payload = await asyncio.wait_for(self.reader.readexactly(length), timeout)
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        equal(first & 0x80, 0x80, "fragments from the server")
        equal(second & 0x80, 0, "a masked frame from the server")
        opcode = first & 15
        if opcode == PING:
            self.pings.append(payload)
        elif opcode == CLOSE:
            self.code = int.from_bytes(payload[:2], "big")
        elif opcode != PONG:
            equal(opcode, TEXT, "opcode of a message")
            if first & 0x40:
                payload = zlib.decompressobj(-15).decompress(payload + b"\0\0\xff\xff")
            self.texts.append(server_message(payload.decode()))
        return opcode, payload

    async def message(self):
        while not self.texts:
            ensure(await self.read() is not None, "closed with", self.code)
        return self.texts.pop(0)

    async def register(self, name, **fields):
        await self.say(client_message("register", client_id=name, metadata={}, **fields))
        equal((await self.message())["type"], "heartbeat", "registration")
        return self

    def close(self):
        self.writer.transport.abort()
