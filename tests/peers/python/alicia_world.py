"""Where the server is that Alicia is spoken with, and who may talk to it."""

import os
import time
from urllib.parse import urlsplit

import httpx

from alicia_wire import *


class World:
    def __init__(self, base):
        self.base = base.rstrip("/")
        self.host = urlsplit(self.base).netloc
        self.url = f"ws://{self.host}/api/v1/ws"
        self.client = httpx.AsyncClient(base_url=f"{self.base}/api/v1", timeout=PATIENCE)

    def somebody(self, **claims):
        """A principal whom no other check knows, so that conversations and memories are its own."""
        env = os.environ
        claims = {"iss": env["PEER_JWT_ISSUER"], "aud": env["PEER_JWT_AUDIENCE"], "sub": fresh("sub"), "exp": int(time.time()) + 3600, **claims}
        return jwt(env["PEER_JWT_SECRET"], None, **claims)

    async def open(self, who=None, memory=None, **options):
        who = who or self.somebody()
        peer = await Peer.open(self.url, who, memory, **options)
        peer.who = who
        return peer

    async def met(self, who=None, features=STREAMING, **more):
        """A connection and a new conversation on it."""
        peer = await self.open(who)
        return peer, (await peer.handshake(features=features, **more)).conv

    async def pair(self, features=STREAMING):
        """Two devices of one user in one conversation."""
        first, conv = await self.met(features=features)
        second = await self.open(first.who)
        await second.handshake(conv, 0, features=features)
        await first.barrier()
        first.inbox.clear()
        return first, second, conv

    # --- HTTP

    async def http(self, method, path, who=None, status=(200, 201, 202, 204), **options):
        headers = {**({"Authorization": f"Bearer {who}"} if who else {}), **options.pop("headers", {})}
        answer = await self.client.request(method, path, headers=headers, **options)
        wanted = status if isinstance(status, tuple) else (status,)
        ensure(answer.status_code in wanted, f"{method} {path} {options!r:.300}: expected {wanted}, got {answer.status_code} {answer.text[:500]}")
        if answer.status_code >= 400:
            body = answer.json()
            ensure({"error", "message", "code"} <= body.keys() and body["code"] is not None, f"{method} {path}: not an error body: {body}")
        return answer

    async def json(self, method, path, who, **options):
        answer = await self.http(method, path, who, **options)
        return answer.json() if answer.content else None

    async def create(self, who, **body):
        """A conversation over HTTP."""
        return (await self.json("POST", "/conversations", who, json=body))["id"]

    async def listed(self, method, path, who, name, **options):
        """A list, bare or under its name."""
        value = await self.json(method, path, who, **options)
        value = value if isinstance(value, list) else value.get(name)
        ensure(isinstance(value, list), f"{method} {path}: no list of {name}", value)
        return value

    async def messages(self, who, conv, **params):
        return await self.listed("GET", f"/conversations/{conv}/messages", who, "messages", params=params)

    async def message(self, who, conv, id):
        """One message of the active path; None if it is not on it."""
        return next((row for row in await self.messages(who, conv) if row["id"] == id), None)

    async def siblings(self, who, id):
        rows = await self.listed("GET", f"/messages/{id}/siblings", who, "siblings")
        return [row["id"] for row in rows]

    async def path(self, who, conv):
        """The ids of the active path."""
        return [row["id"] for row in await self.messages(who, conv)]


async def leave(*peers):
    """Everybody goes; nothing wrong may have come to them until then."""
    for peer in peers:
        await peer.barrier()
        await peer.close()
