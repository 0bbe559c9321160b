"""A short session of AIP, for `script/record`: a device, and a constellation that has it do a task of two batches.

The server at SWITCHBOARD_URL needs no credential and has the deterministic planner.
"""

import asyncio
import os

from aip_wire import *


async def main():
    url = os.environ["SWITCHBOARD_URL"] + "/ws"
    device = await (await Device.open(url, None, "lab-1")).register()
    boss = await (await Constellation.open(url, None, "boss-1")).register(target="lab-1")
    await boss.info(id="info-1")
    await boss.kind("device_info_response")
    batches = [command("look", "data_collection")], [command("click", x=1), command("type", text="hi")]
    session = await boss.task(script(*batches), session="s-1", name="first")
    for _ in batches:
        await device.results(await device.kind("command", session))
    await boss.end(session)
    await device.beat()
    await boss.close()
    await device.close()


if __name__ == "__main__":
    asyncio.run(main())
