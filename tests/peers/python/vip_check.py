"""Checks the binary from outside: `vip_check.py BINARY`.

Starts servers whose agent is the story `tests/peers/vip_story.toml`: one as it is by default, which allows development;
one that does not; one with little patience. Names begin with the statement of the reference that they show. One line
per check; see `checks.py`. PEER_ONLY holds words of which a name has to contain one, PEER_VIP_MODELS the folder of the
models with which the server hears, PEER_KEEP keeps the logs of the servers.
"""

import asyncio
import sys

import vip_actions
import vip_audio
import vip_auth
import vip_context
import vip_http
import vip_internal
import vip_limits
import vip_resume
import vip_socket
import vip_states
import vip_speech
import vip_turns
import vip_wild
from checks import run_beside, summary, wanted
from vip_world import PATIENCE, House

MODULES = (vip_http, vip_auth, vip_socket, vip_states, vip_context, vip_turns, vip_actions, vip_resume, vip_internal, vip_wild)


async def main(binary):
    house, results = await House().open(binary), []
    try:
        world = await house.server("usual")
        world.strict = await house.server("strict", development=False)
        hasty = await house.server("hasty", *vip_limits.HASTY)
        patient = [check for module in (vip_auth, vip_socket, vip_turns, vip_audio) for check in module.PATIENT]
        await asyncio.gather(
            run_beside(wanted([check for module in MODULES for check in module.CHECKS]), world, results, 4 * PATIENCE, 4),
            run_beside(wanted(patient), world, results, 5 * PATIENCE, 8),
            run_beside(wanted(vip_limits.CHECKS), hasty, results, 5 * PATIENCE, 8),
        )
        # What hears has the machine for itself.
        await run_beside(wanted(vip_audio.CHECKS), world, results, 5 * PATIENCE, 2)
        shop = await house.server("shop", "vip.agent=butler", "agents.butler.kind=butler")
        await run_beside(wanted(vip_speech.CHECKS), shop, results, 20 * PATIENCE, 1)
        await run_beside(wanted(vip_wild.LAST), world, results, PATIENCE)
    finally:
        house.close()
    return summary(results)


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1])))
