"""Handshakes, frames, sizes, pings, and links that are dead (sections 2.1, 6.6, 9.4, 9.5 and 13).

Checks in `TIGHT` run against a server with these limits: a message of 1 MiB, a first one of 64 KiB, three seconds to
register, pings each second, six seconds of silence, three seconds for a take-over, 4 MiB that may wait to be written, 20
refused registrations a minute; and a constellation needs no target there.
"""

import os

from websockets.exceptions import InvalidStatus

from aip_flows import DUPLICATE, again, turned_away
from aip_peer import leave
from aip_raw import CLOSE, PING, PONG, TEXT, Raw
from aip_wire import *

CHECKS, PATIENT, TIGHT = [], [], []


def check(function):
    CHECKS.append(function)
    return function


def patient(function):
    PATIENT.append(function)
    return function


def tight(function):
    TIGHT.append(function)
    return function


# --- the handshake ---------------------------------------------------------------------------------


@check
async def aip_001_only_one_path_is_a_socket(world):
    token = world.key("ann")
    for path in ("/ws/", "/", "/WS", "/ws/x", "/ws2", "/api/ws", "//ws", "/ws%2f", "/api/health", "/.ws"):
        raw = await Raw.open(world, "ann", path)
        # The health of the server may be asked for with odd headers; it is no socket for that.
        ensure(raw.status == 200 if path == "/api/health" else 400 <= raw.status < 500, "status of", path, raw.status)
        raw.close()
        try:
            await (await Device.open(f"ws://{world.host}{path}", token)).close()
        except InvalidStatus as refused:
            ensure(refused.response.status_code != 101, "status", refused)
        else:
            raise Failed(f"{path} is a socket")
    for target in ("/ws", "/ws?", "/ws?x=y"):
        raw = await Raw.open(world, "ann", target)
        equal(raw.status, 101, target)
        ensure("sec-websocket-protocol" not in raw.head.lower(), "a subprotocol that nobody offered", raw.head)
        raw.close()


@check
async def aip_001_a_subprotocol_is_not_needed_and_none_is_selected(world):
    device = await Device.open(world.url, world.key("ann"), fresh("sub"), compression=None)
    equal(device.websocket.subprotocol, None, "subprotocol")
    await leave(await device.register())


@check
async def aip_002_three_ways_to_show_a_key(world):
    for by in ("query", "bearer", "key"):
        for who in (world.key("ann"), world.somebody()):
            await leave(await (await Device.open(world.url, who, fresh(by), by=by)).register())
    raw = await Raw.open(world, None, f"/ws?a=b&token={world.key('ann')}&c=d")
    equal(raw.status, 101, "among other parameters")
    raw.close()
    escaped = "".join(f"%{byte:02x}" for byte in world.key("ann").encode())
    raw = await Raw.open(world, None, f"/ws?token={escaped}")
    equal(raw.status, 101, "percent signs")
    raw.close()


@check
async def aip_003_wrong_keys_are_refused_before_the_upgrade(world):
    good = world.key("ann")
    attempts = [("/ws", {}), ("/ws?token=", {}), (f"/ws?token={good}x", {}), (f"/ws?token={good[:-1]}", {})]
    attempts += [(f"/ws?Token={good}", {}), (f"/ws?key={good}", {}), ("/ws?token=%ff%00", {})]
    attempts += [("/ws", {"Authorization": f"Bearer {good}x"}), ("/ws", {"Authorization": f"Basic {good}"})]
    attempts += [("/ws", {"X-API-Key": good.upper()}), ("/ws", {"Authorization": "Bearer "})]
    attempts += [("/ws", {"Sec-WebSocket-Protocol": f"bearer.{good}"})]
    expired = world.somebody(exp=int(time.time()) - 3600)
    attempts += [(f"/ws?token={expired}", {}), ("/ws", {"X-API-Key": world.somebody(aud="https://other.test")})]
    for target, headers in attempts:
        raw = await Raw.open(world, None, target, **headers)
        ensure(raw.status in (401, 403), "status of", target, headers, raw.status)
        ensure(good not in raw.head, "the key is repeated")
        raw.close()


@check
async def aip_003_a_key_without_any_role_is_forbidden(world):
    raw = await Raw.open(world, "mute")
    equal(raw.status, 403, "status")
    raw.close()


@check
async def aip_004_with_and_without_compression(world):
    """Who offers it is served, whether the server takes the offer or not."""
    for compression in ("deflate", None):
        device, constellation = await world.pair(compression=compression)
        names = [extension.name for extension in device.websocket.protocol.extensions]
        ensure(names in ([], ["permessage-deflate"]) and (compression or not names), "what was agreed on", names)
        big = {"text": "words and words " * 20_000, "odd": os.urandom(30_000).hex()}
        session = await constellation.task(script([command("t", **big)], [command("u")]))
        asked = await device.kind("command", session)
        equal(asked["actions"][0]["parameters"], big, "parameters")
        await device.results(asked, result_of(asked["actions"][0], result=big))
        await device.results(await device.kind("command", session))
        ended = await constellation.end(session)
        equal(ended["result"]["turns"][0][0]["result"], big, "result")
        await leave(constellation, device)


@check
async def aip_004_offers_with_parameters_are_answered_properly(world):
    for offer in (
        "permessage-deflate; client_no_context_takeover; server_no_context_takeover",
        "permessage-deflate; client_max_window_bits",
        "permessage-deflate; server_max_window_bits=9",
        "permessage-deflate; unknown=1, permessage-deflate",
        "x-webkit-deflate-frame",
    ):
        raw = await Raw.open(world, "ann", **{"Sec-WebSocket-Extensions": offer})
        equal(raw.status, 101, offer)
        agreed = [line for line in raw.head.lower().split("\r\n") if line.startswith("sec-websocket-extensions")]
        ensure(not agreed or "permessage-deflate" in agreed[0], "agreed on", agreed)
        await raw.register(fresh("offer"))
        raw.close()


@check
async def aip_005_and_006_messages_are_text_and_may_be_fragmented(world):
    raw = await Raw.open(world, "ann")
    name = fresh("pieces")
    whole = json.dumps(client_message("register", client_id=name, metadata={"text": "Grüße 🌍"}), ensure_ascii=False)
    data = whole.encode()
    pieces = [data[at : at + 7] for at in range(0, len(data), 7)]
    for number, piece in enumerate(pieces):
        # A ping between fragments is legal, and cutting a character in two is, too.
        if number == 3:
            await raw.frame(PING, b"between")
        await raw.frame(0 if number else TEXT, piece, fin=number == len(pieces) - 1)
    equal((await raw.message())["type"], "heartbeat", "registration")
    await raw.frame(TEXT, b"", fin=False)
    await raw.frame(0, b'{"type":"heartbeat"', fin=False)
    await raw.frame(0, b"", fin=False)
    await raw.frame(0, b',"status":"ok"}')
    equal((await raw.message())["type"], "heartbeat", "in four pieces, two of them empty")
    raw.close()
    device, constellation = await world.pair(compression=None)
    await constellation.websocket.send(iter(['{"type":"heart', 'beat","sta', 'tus":"ok"}']))
    await constellation.kind("heartbeat")
    await leave(constellation, device)


@check
async def aip_007_pings_are_answered(world):
    raw = await Raw.open(world, "ann")
    for payload in (b"", b"x", b"\xff" * 125):
        await raw.frame(PING, payload)
        opcode, answer = await raw.read()
        equal((opcode, answer), (PONG, payload), "pong before registration")
    await raw.register(fresh("pinging"))
    for payload in (b"1", b"2"):
        await raw.frame(PING, payload)
    for payload in (b"1", b"2"):
        equal(await raw.read(), (PONG, payload), "pongs in order")
    # A pong that nobody asked for is fine.
    await raw.frame(PONG, b"unasked")
    await raw.say({"type": "heartbeat", "status": "ok"})
    equal((await raw.message())["type"], "heartbeat", "answer")
    await raw.frame(CLOSE, (1000).to_bytes(2, "big"))
    while await raw.read() is not None:
        pass
    equal(raw.code, 1000, "answer to a close")


@patient
async def aip_007_silent_peers_are_pinged_every_30_seconds(world):
    raw = await (await Raw.open(world, "ann")).register(fresh("idle"))
    began = time.monotonic()
    while not raw.pings:
        ensure(await raw.read() is not None, "closed with", raw.code)
    ensure(time.monotonic() - began < 31, "the first ping came after", time.monotonic() - began)
    raw.close()


@patient
async def aip_009_ten_seconds_are_enough_to_register(world):
    began = time.monotonic()
    client = await world.open()
    await client.closed(1008)
    ensure(9 < time.monotonic() - began < 30, "took", time.monotonic() - began)


@patient
async def aip_028_a_dead_link_is_taken_over_within_30_seconds(world):
    who, name = world.somebody(), fresh("dead")
    raw = await (await Raw.open(world, who)).register(name)
    began = time.monotonic()
    await leave(await again(world.device, who, name, within=30))
    ensure(2.5 < time.monotonic() - began, "a link is given up after", time.monotonic() - began)
    raw.close()


@check
async def text_that_is_no_text_closes(world):
    raw = await (await Raw.open(world, "ann")).register(fresh("broken"))
    await raw.frame(TEXT, b'{"type":"\xff\xfe"}')
    while await raw.read() is not None:
        pass
    equal(raw.code, 1007, "code")


@check
async def aip_008_large_messages_arrive_whole(world):
    """6 MB of result to the planner, and back in the end of the task; others are served meanwhile."""
    device, constellation = await world.pair(compression=None)
    other_device, other = await world.pair()
    other_device.serves()
    big = os.urandom(3_000_000).hex()
    session = await constellation.task(script([command("shot")]))
    asked = await device.kind("command", session)

    async def others():
        for _ in range(20):
            await other.end(await other.task("small"))

    beside = asyncio.ensure_future(others())
    await device.results(asked, result_of(asked["actions"][0], result={"png": big}))
    ended = await constellation.end(session)
    ensure(ended["result"]["turns"][0][0]["result"] == {"png": big}, "the result changed on its way")
    await beside
    await leave(constellation, device, other, other_device)


# --- little room -----------------------------------------------------------------------------------


@tight
async def aip_008_messages_beyond_the_limit_close_and_others_stay(world):
    device, constellation = await world.pair()
    second, mate = await world.pair()
    second.serves()
    running = await constellation.task(script([command("big")]))
    asked = await device.kind("command", running)
    room = (1 << 20) - 1500
    session = await mate.task(script([command("fits")]))
    await mate.end(session)
    await second.say(client_message("heartbeat", metadata={"fill": "x" * room}))
    await second.kind("heartbeat")
    await device.results(asked, result_of(asked["actions"][0], result="x" * (2 << 20)))
    await device.closed(1009)
    await constellation.end(running, "failed", LOST_DEVICE)
    await mate.end(await mate.task("others stay"))
    # Cut into pieces, it is as large.
    pieces = await (await Raw.open(world, None, f"/ws?token={world.somebody()}")).register(fresh("pieces"))
    try:
        for number in range(20):
            await pieces.frame(0 if number else TEXT, b"y" * 100_000, fin=False)
    except ConnectionError:
        pass
    while await pieces.read() is not None:
        pass
    equal(pieces.code, 1009, "code for fragments")
    # And so it is when it was compressed.
    packed = await world.device(options={"compression": "deflate"})
    await packed.say(client_message("heartbeat", metadata={"fill": "z" * (30 << 20)}))
    await packed.closed(1009)
    await mate.end(await mate.task("others stay"))
    await leave(constellation, mate, second)


@tight
async def a_first_message_has_less_room(world):
    client = await world.open()
    await client.send("register", metadata={"fill": "x" * 100_000})
    await client.refused(bool)
    await client.closed(1008)
    client = await world.open()
    await client.send("register", metadata={"fill": "x" * 30_000})
    await client.kind("heartbeat")
    await leave(client)


@tight
async def aip_009_whoever_does_not_register_is_closed(world):
    began = time.monotonic()
    client = await world.open()
    await client.closed(1008)
    ensure(2 < time.monotonic() - began < 25, "took", time.monotonic() - began)
    equal(client.inbox, [], "no error is sent for it")
    # Pings do not count.
    raw = await Raw.open(world, "ann")
    deadline = time.monotonic() + 25
    while raw.code is None and time.monotonic() < deadline:
        try:
            await raw.frame(PING, b"?")
            if await raw.read(1) is None:
                break
        except (TimeoutError, ConnectionError):
            pass
    equal(raw.code, 1008, "code")


@tight
async def aip_007_and_041_pongs_are_enough_to_stay(world):
    raw = await (await Raw.open(world, "ann")).register(fresh("rare"))
    began = time.monotonic()
    while time.monotonic() - began < 9:
        ensure(await raw.read() is not None, "closed with", raw.code)
        if raw.pings:
            await raw.frame(PONG, raw.pings.pop())
    await raw.say({"type": "heartbeat", "status": "ok"})
    equal((await raw.message())["type"], "heartbeat", "answer after nine silent seconds")
    raw.close()


@tight
async def aip_041_who_is_silent_altogether_is_gone(world):
    who = world.somebody()
    name = fresh("dead")
    raw = await (await Raw.open(world, who)).register(name)
    constellation = await world.constellation(name, who)
    session = await constellation.task(script([command("wait")]))
    began = time.monotonic()
    await constellation.end(session, "failed", LOST_DEVICE)
    took = time.monotonic() - began
    ensure(4 < took < 30, "took", took)
    await leave(await again(world.device, who, name))
    raw.close()
    await leave(constellation)


@tight
async def aip_028_a_dead_link_is_taken_over_by_its_principal_only(world):
    who, name = world.somebody(), fresh("dead")
    raw = await (await Raw.open(world, who)).register(name)
    alive = await world.device(who)
    constellation = await world.constellation(name, who)
    session = await constellation.task(script([command("wait")]))
    # A stranger changes nothing, and learns nothing more.
    await turned_away(await world.open(Device, None, name), DUPLICATE.format(name), kind="register", metadata={})
    for claimed in (name, alive.name):
        opened = await world.open(Device, who, claimed)
        await turned_away(opened, DUPLICATE.format(claimed), kind="register", metadata={})
    await constellation.end(session, "failed", LOST_DEVICE)
    back = await again(world.device, who, name)
    while await raw.read() is not None:
        pass
    equal(raw.code, 4001, "code of the old link")
    # Whoever answers the ping keeps the name.
    await asyncio.sleep(1)
    await alive.quiet()
    constellation_2 = await world.constellation(back, who)
    back.serves()
    await constellation_2.end(await constellation_2.task("back"))
    await leave(constellation_2, back, constellation, alive)


@tight
async def aip_077_a_device_that_does_not_read_is_sent_away_and_others_are_served(world):
    who, name = world.somebody(), fresh("stuck")
    raw = await (await Raw.open(world, who)).register(name)
    raw.reader._transport.pause_reading()
    constellation = await world.constellation(name, who)
    device, other = await world.pair()
    device.serves()
    fill = "x" * 900_000
    # More than may wait, and more than the sockets hold.
    for number in range(60):
        await constellation.submit(script([command("t", fill=fill, n=number)]))
        await other.end(await other.task("meanwhile"))
    ended = await constellation.kind("task_end")
    equal((ended["status"], ended["error"]), ("failed", LOST_DEVICE), "end")
    await other.end(await other.task("afterwards"))
    raw.close()
    await leave(other, device)
    await constellation.reset()


@tight
async def whoever_is_refused_too_often_has_to_wait(world):
    who = world.somebody()
    for attempt in range(100):
        raw = await Raw.open(world, who)
        if raw.status != 101:
            break
        await raw.say(client_message("register", client_id=""))
        while await raw.read() is not None:
            pass
        equal(raw.code, 1008, "code")
    # Whoever takes long has more, since old ones are forgotten.
    ensure(attempt >= 20, "refused after", attempt)
    equal(raw.status, 429, "status")
    ensure("retry-after: " in raw.head.lower(), "when to come back", raw.head)
    raw.close()
    # Nobody else has to.
    await leave(await world.device())


@tight
async def aip_024_without_a_target_a_constellation_uses_each_device_within_its_reach(world):
    who = world.somebody()
    first, second = await world.device(who), await world.device(who)
    stranger = await world.device()
    constellation = await (await world.open(Constellation, who)).register()
    for device in (first, second):
        device.serves()
        session = await constellation.task(script([command("x", who=device.name)]), target_id=device.name)
        ended = await constellation.end(session)
        equal(ended["result"]["turns"][0][0]["result"], {"who": device.name}, "result")
        id = await constellation.info(device.name)
        equal((await constellation.kind("device_info_response"))["response_id"], id, "info")
    told = {}
    for target in (stranger.name, "nobody-here"):
        await constellation.submit("x", "fresh-one", target_id=target, request_id="q1")
        refused = await constellation.refused(bool, "fresh-one", "q1", ends=True)
        told[target] = refused["error"].replace(target, "TARGET")
        await constellation.info(target)
        answer = await constellation.next(lambda message: True)
        ensure(answer["status"] == "error", "info of a stranger", answer)
    equal(told[stranger.name], told["nobody-here"], "what is said of devices of others")
    await constellation.submit("x", target_id=None)
    await constellation.refused("Constellation task requests require target_id")
    await stranger.quiet()
    await leave(constellation, stranger, second, first)
