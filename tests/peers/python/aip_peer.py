"""Checks running servers from outside: `aip_peer.py URL --tight URL`, or `aip_peer.py URL --drain`.

URL is that of a server with the deterministic planner, raised limits, and the credentials that the environment names
(see `crates/cli/tests/support/aip.rs`):

    PEER_KEY_ANN, PEER_KEY_BOB   any name, their own devices
    PEER_KEY_LAB                 devices `lab-*`
    PEER_KEY_BOSS                constellations `boss-*`, targets `lab-*`, dispatch
    PEER_KEY_SCOUT               constellations `scout-*`, targets `lab-1*`, no dispatch
    PEER_KEY_MUTE                targets `lab-*`, and no role at all
    PEER_KEY_ADMIN               the scope `admin`
    PEER_JWT_SECRET, PEER_JWT_ISSUER, PEER_JWT_AUDIENCE

The server behind `--tight` is the same with little room and little patience; see there.

Names begin with the statement of the reference that they show. One line per check; see `checks.py`.
"""

import asyncio
import os
import sys
import time
from urllib.parse import urlsplit

from aip_wire import *
from checks import run, run_beside, summary, wanted


class World:
    """Where the server is, and who may talk to it."""

    def __init__(self, base):
        self.base = base.rstrip("/")
        parts = urlsplit(self.base)
        self.address, self.host = (parts.hostname, parts.port), parts.netloc
        self.url = f"ws://{self.host}/ws"
        keys = ("ANN", "BOB", "LAB", "BOSS", "SCOUT", "MUTE", "ADMIN")
        self.keys = {who.lower(): os.environ[f"PEER_KEY_{who}"] for who in keys}

    def key(self, who):
        return self.keys.get(who, who)

    def somebody(self, **claims):
        """A principal whom no other check knows, so that counts are its own."""
        env = os.environ
        issuer, audience = env["PEER_JWT_ISSUER"], env["PEER_JWT_AUDIENCE"]
        claims = {"iss": issuer, "aud": audience, "sub": fresh("sub"), "exp": int(time.time()) + 3600, **claims}
        return jwt(env["PEER_JWT_SECRET"], None, **claims)

    async def open(self, role=Device, who=None, name=None, **options):
        """A connection that has not registered yet."""
        return await role.open(self.url, self.key(who) if who else self.somebody(), name, **options)

    async def device(self, who=None, name=None, options=None, **fields):
        return await (await self.open(Device, who, name, **(options or {}))).register(**fields)

    async def constellation(self, target, who=None, name=None, options=None, **fields):
        opened = await self.open(Constellation, who, name, **(options or {}))
        return await opened.register(target=getattr(target, "name", target), **fields)

    async def pair(self, who=None, **options):
        """A device and a constellation for it, of one principal."""
        who = who or self.somebody()
        device = await self.device(who, options=options)
        return device, await self.constellation(device, who, options=options)


async def leave(*clients):
    """Each says goodbye, after which nothing wrong may have come to it."""
    for client in clients:
        await client.close()


async def main(arguments):
    import aip_crowd
    import aip_flows
    import aip_identity
    import aip_input
    import aip_mixed
    import aip_races
    import aip_rest
    import aip_tasks
    import aip_transport

    base, *options = arguments
    world, results = World(base), []
    if "--drain" in options:
        await run(aip_flows.drained, world, results, 3 * PATIENCE)
        return summary(results)
    modules = (aip_flows, aip_tasks, aip_input, aip_identity, aip_rest, aip_transport, aip_mixed, aip_races)
    checks = wanted([check for module in modules for check in module.CHECKS])
    patient = wanted(aip_transport.PATIENT)
    tight = World(options[options.index("--tight") + 1])
    await asyncio.gather(
        run_beside(checks, world, results, 3 * PATIENCE, 8),
        run_beside(patient, world, results, 3 * PATIENCE, 8),
        run_beside(wanted(aip_transport.TIGHT), tight, results, 3 * PATIENCE, 16),
    )
    for check in wanted(aip_crowd.CHECKS):
        await run(check, world, results, 3 * PATIENCE)
    return summary(results)


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1:])))
