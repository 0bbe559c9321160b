"""Runs checks and says how they went: one line each, `ok NAME` or `FAIL NAME why`, and at the end how many."""

import asyncio
import os
import traceback

from asp_wire import Failed


def wanted(checks):
    """Those whose name contains one of the words in PEER_ONLY; all of them without it."""
    only = [word for word in os.environ.get("PEER_ONLY", "").split(",") if word]
    return [check for check in checks if not only or any(word in check.__name__ for word in only)]


async def run(function, world, results, patience):
    try:
        await asyncio.wait_for(function(world), patience)
        results.append(True)
        print(f"ok {function.__name__}", flush=True)
    except Exception as error:
        results.append(False)
        why = str(error) or type(error).__name__
        if not isinstance(error, Failed):
            why = f"{type(error).__name__}: {why} ({traceback.format_exc().splitlines()[-3].strip()})"
        print(f"FAIL {function.__name__} {' '.join(why.split())}", flush=True)


async def run_beside(checks, world, results, patience, at_once=4):
    """Several at the same time."""
    places = asyncio.Semaphore(at_once)

    async def one(function):
        async with places:
            await run(function, world, results, patience)

    await asyncio.gather(*(one(function) for function in checks))


def summary(results):
    print(f"{results.count(True)} passed, {results.count(False)} failed", flush=True)
    return 0 if results and all(results) else 1
