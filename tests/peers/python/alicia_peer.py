"""Checks a running server from outside: `alicia_peer.py URL --hasty URL --database PATH`.

The server has the story `tests/peers/alicia_story.toml` as its agent, the elites `pa_swift`, `pa_sound` and `pa_bold`,
Alicia's limits as the reference has them, and the credentials that the environment names (see
`crates/cli/tests/alicia.rs`): PEER_JWT_SECRET, PEER_JWT_ISSUER and PEER_JWT_AUDIENCE.
The server behind `--hasty` pings every second, drops whoever is silent for four, ends answers after three, keeps four
requests waiting, and does not limit the rate of envelopes. PATH is the database of the first.

Names begin with the statement of the reference that they show. One line per check; see `checks.py`. PEER_ONLY holds
words of which a name has to contain one.
"""

import asyncio
import sys

import alicia_codec
import alicia_control
import alicia_http
import alicia_lite
import alicia_marks
import alicia_races
import alicia_resume
import alicia_socket
import alicia_storage
import alicia_sync
import alicia_tools
import alicia_turns
from alicia_wire import PATIENCE
from alicia_world import World
from checks import run_beside, summary, wanted

MODULES = (alicia_turns, alicia_tools, alicia_control, alicia_resume, alicia_socket, alicia_codec, alicia_sync, alicia_marks, alicia_http, alicia_lite, alicia_races, alicia_storage)


async def main(base, hasty, database):
    world, results = World(base), []
    world.database = database
    checks = wanted([check for module in MODULES for check in module.CHECKS])
    await asyncio.gather(
        run_beside(checks, world, results, 3 * PATIENCE, 6),
        run_beside(wanted(alicia_socket.PATIENT), world, results, 5 * PATIENCE, 6),
        run_beside(wanted(alicia_socket.HASTY), World(hasty), results, 3 * PATIENCE, 6),
    )
    await world.client.aclose()
    return summary(results)


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1], sys.argv[3], sys.argv[5])))
