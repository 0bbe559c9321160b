"""Sockets, the handshake and the envelope: sections 3.2, 4.1, 4.3 and 6."""

from vip_world import *


async def vip_016_the_subprotocol_is_chosen_and_the_token_is_not_echoed(world):
    for subprotocols, headers in ((("vip.v1", "vip.bearer.{}"), {}), (("vip.bearer.{}", "vip.v1"), {}), (("vip.v1",), None)):
        session = await world.create()
        offered = [name.format(session.token) for name in subprotocols]
        stream = await Stream.open(session, subprotocols=offered, headers=headers)
        header = stream.socket.response.headers.get_all("Sec-WebSocket-Protocol")
        equal(header, ["vip.v1"], "Sec-WebSocket-Protocol")
        ensure(session.token not in str(stream.socket.response.headers), "the token comes back")
        await stream.connect()
        await stream.leave()
    session = await world.create()
    await world.refused(session, 401, "AUTH_TOKEN_INVALID", subprotocols=("vip.v1", "vip.bearer.a.b.c"), headers={})
    await world.refused(session, 401, "AUTH_TOKEN_MISSING", subprotocols=("vip.v1", "other"), headers={})


async def an_upgrade_without_the_subprotocol_is_refused(world):
    for subprotocols in (None, ["vip.v2"], ["chat"]):
        session = await world.create()
        url = session.created["transport"]["websocket"]["url"]
        try:
            socket = await connect(url, subprotocols=subprotocols, additional_headers=session.auth)
        except InvalidStatus as refusal:
            ensure(400 <= refusal.response.status_code < 500, refusal.response.status_code)
        else:
            await socket.close()
            raise Failed(f"upgraded with {subprotocols}")


async def vip_017_query_tokens_are_for_development(world):
    session = await world.create()
    await world.refused(session, 401, "AUTH_TOKEN_LOCATION", headers={}, query=f"?token={session.token}")
    await world.ask("GET", f"/v1/vip/sessions/{session.id}?token={session.token}", 401)
    session = await world.create(environment="development")
    url = session.created["transport"]["websocket"]["url"]
    stream = await Stream.open(session, headers={}, url=f"{url}?token={session.token}")
    await stream.connect()
    await stream.leave()


async def vip_018_without_client_connect_it_ends_after_5_s(world):
    stream = await world.open()
    began = time.monotonic()
    await stream.dies(4408, "PROTO_HANDSHAKE_TIMEOUT", 12)
    ensure(4 <= time.monotonic() - began <= 9, "after", time.monotonic() - began)
    # Whoever talks about something else does not gain time.
    stream = await world.open()
    began = time.monotonic()
    for _ in range(4):
        await stream.send("session.ping", {"nonce": "n"})
        await asyncio.sleep(0.9)
    await stream.dies(4408, "PROTO_HANDSHAKE_TIMEOUT", 12) if stream.closed is None or stream.closed == 4408 else await stream.dies(4400)


async def vip_018_without_a_tree_it_ends_after_10_s(world):
    stream = await world.open()
    await stream.connect()
    began = time.monotonic()
    await asyncio.sleep(2)
    await stream.update({**TREE(), "visibility": ["nothing"]})
    await stream.error("CTX_INVALID")
    await stream.dies(4408, "SES_CONTEXT_TIMEOUT", 18)
    ensure(8.5 <= time.monotonic() - began <= 15, "after", time.monotonic() - began)


async def a_session_that_nobody_opens_is_discarded_after_30_s(world):
    session = await world.create()
    await asyncio.sleep(33)
    await world.refused(session, 404, "SES_NOT_FOUND")
    await world.ask("GET", f"/v1/vip/sessions/{session.id}", (404, 410), token=session.token)


async def vip_019_connected_then_the_tree_then_ready(world):
    """S1."""
    stream = await world.open(issuer="es")
    connected = await stream.connect()
    equal((connected["resumed"], connected["context_version"], connected["mode"], connected["environment"]), (False, 0, "external", "production"), "session.connected")
    equal(connected["resume_window_s"], stream.session.created["resume"]["window_s"], "resume_window_s")
    ensure(connected.get("resume_token"), "no resume_token")
    equal(connected["turn_detection"], stream.session.created["turn_detection"], "turn_detection")
    await stream.idle_for(0.5)
    # What is no full tree does not open it.
    await stream.update({"mode": "delta", "base_version": 1, "context_version": 2, "narration": "x"})
    await stream.error("CTX_VERSION_CONFLICT", "CTX_INVALID")
    events = await stream.barrier()
    ensure(all(event.type == "state.resync" for event in events), events)
    await stream.update({**TREE(), "narration": ""})
    await stream.error("CTX_INVALID")
    await stream.ready(TREE(3))
    await stream.leave()


async def vip_019_a_tree_can_come_with_client_connect(world):
    stream = await world.open()
    stream.adopt(TREE(4))
    await stream.connect(context=TREE(4))
    event = await stream.next()
    if event.type == "state.ack":
        equal(event["context_version"], 4, "context_version")
        event = await stream.next()
    equal((event.type, event["context_version"]), ("server.ready", 4), "ready")
    await stream.expect("state.changed", state=ID, trigger="server.ready")
    await turn(stream, "say hello")
    await stream.leave()


async def vip_019_a_bad_tree_with_client_connect_leaves_it_connecting(world):
    stream = await world.open()
    await stream.send("client.connect", {"session_id": stream.session.id, "protocol_version": "0.1", "context": {**TREE(), "visibility": ["ghost"]}})
    events = [await stream.next(), await stream.next()]
    equal({event.type for event in events}, {"session.connected", "error.recoverable"}, "answers")
    equal([event["code"] for event in events if event.code], ["CTX_INVALID"], "the error")
    await stream.ready(TREE(2))
    await stream.leave()


async def client_connect_has_to_be_right(world):
    cases = (
        ({"session_id": "vs_" + "0" * 26, "protocol_version": "0.1"}, None),
        ({"session_id": None, "protocol_version": "0.1"}, "PROTO_MALFORMED"),
        ({"protocol_version": "9.9"}, "PROTO_VERSION"),
        ({"resume": {"resume_token": "x" * 40, "last_server_seq": 0}}, "SES_RESUME_REJECTED"),
    )
    for data, code in cases:
        stream = await world.open()
        whole = {"session_id": stream.session.id, "protocol_version": "0.1", **data}
        await stream.send("client.connect", {name: value for name, value in whole.items() if value is not None})
        event = await stream.next()
        ensure(event.code is not None, f"{data} was answered with", event)
        if code:
            equal(event["code"], code, f"{data}")
        if event.type == "error.fatal":
            await stream.dies(ERRORS[event["code"]]["close"])
        else:
            await stream.close()


async def vip_022_client_connect_is_good_once(world):
    stream = await world.open()
    await stream.connect()
    again = {"session_id": stream.session.id, "protocol_version": "0.1"}
    id = await stream.send("client.connect", again)
    await stream.error("PROTO_INVALID_TRANSITION", about=id)
    await stream.ready(TREE())
    id = await stream.send("client.connect", again)
    await stream.error("PROTO_INVALID_TRANSITION", about=id)
    await stream.leave()


async def envelopes_that_are_none_are_malformed(world):
    good = {"type": "session.ping", "id": "c-x", "seq": 100, "ts": 1, "state_seq": 1, "data": {"nonce": "n"}}
    bad = ["", "x", "[]", "null", "7", '"x"', "{}", "{", '{"type":7}', json.dumps({**good, "type": None})]
    for name in ("id", "seq", "ts", "state_seq"):
        bad += [json.dumps({**good, name: value}) for value in (None, "x" * 41, -1, 1.5, [], {})]
    bad += [json.dumps({**good, "data": value}) for value in (7, "x", [])]
    bad += [json.dumps({**good, "role": "king"}), json.dumps({**good, "turn_id": "t" * 41}), json.dumps({**good, "turn_id": 7}), json.dumps({**good, "id": ""})]
    bad += ["[" * 10000, '{"type":"session.ping","data":' + '{"a":' * 3000 + "1" + "}" * 3001]
    # The third in a minute would be the last.
    for pair in zip(bad[::2], [*bad[1::2], "x"]):
        stream = await world.talk()
        for message in pair:
            if '"seq": 100' in message:
                # What can be read of it counts.
                stream.session.client_seq += 1
            await stream.raw(message.replace('"seq": 100', f'"seq": {stream.session.client_seq}'))
            event = await stream.next()
            ensure(event.type == "error.recoverable" and event["code"] == "PROTO_MALFORMED", f"{message[:120]} was answered with", event)
        equal(await turn(stream, "say still here"), "still here", "after what is malformed")
        await stream.leave()


async def three_malformed_are_fatal(world):
    stream = await world.talk()
    for _ in range(2):
        await stream.raw("x")
        await stream.error("PROTO_MALFORMED")
    await stream.raw("x")
    await stream.dies(4400, "PROTO_MALFORMED")


async def vip_083_unknown_events_and_members(world):
    stream = await world.talk()
    for kind in ("weather.report", "input.telepathy", "x", "session.connected", "server.ready", "response.audio", "state.changed"):
        id = await stream.send(kind, {"a": 1})
        event = await stream.error("PROTO_UNKNOWN_EVENT", "PROTO_MALFORMED", "PROTO_INVALID_TRANSITION", about=id)
        if kind in ("weather.report", "input.telepathy"):
            equal(event["code"], "PROTO_UNKNOWN_EVENT", kind)
        equal(event["fatal"], False, "fatal")
    await stream.leave()
    stream = await world.talk(tree={**TREE(), "x-more": {"deep": [1]}, "route": {"id": "r", "hue": 3}}, hobbies=["chess"])
    await stream.send("session.ping", {"nonce": "n", "mood": "good"}, extra={"a": 1}, another=None)
    await stream.expect("session.pong", nonce="n")
    await stream.leave()


async def duplicates_are_dropped_and_gaps_are_fatal(world):
    stream = await world.open()
    stream.session.client_seq = 41
    await stream.connect()
    await stream.ready(TREE())
    for _ in range(3):
        await stream.send("session.ping", {"nonce": "again"}, seq=stream.session.client_seq)
    await stream.send("session.ping", {"nonce": "again"}, seq=1)
    await stream.send("input.start", {"mode": "text", "trigger": "text"}, seq=2, turn_id="t-old")
    equal(await stream.barrier(), [], "answers to duplicates")
    equal(stream.state, ID, "state")
    await stream.send("session.ping", {"nonce": "n"}, seq=stream.session.client_seq + 2)
    fatal = await stream.dies(4408, "PROTO_SEQ_GAP")
    equal(fatal["retryable"], True, "retryable")
    # A gap is a lost transport: the session can be had again.
    back = await resume(world, stream)
    await back.ready(TREE(2))
    await back.leave()


async def messages_that_are_too_large(world):
    stream = await world.talk()
    await stream.send("session.ping", {"nonce": "n", "padding": "x" * (256 << 10)})
    await stream.dies(1009, "PROTO_TOO_LARGE")
    stream = await world.talk()
    await stream.raw(frame(1, 0, 0, b"\0" * (65 << 10)))
    await stream.wait(lambda: stream.closed is not None or stream.inbox, "a refusal")
    if stream.closed is None:
        event = await stream.next()
        ensure(event.code in ("PROTO_TOO_LARGE", "PROTO_BAD_AUDIO_FRAME"), event)
        if event.code == "PROTO_TOO_LARGE":
            await stream.dies(1009)


async def pings_are_answered(world):
    stream = await world.open()
    await stream.connect()
    await stream.send("session.ping", {"nonce": "one"})
    await stream.expect("session.pong", nonce="one")
    await stream.ready(TREE())
    id = await stream.send("session.ping", {"nonce": "x" * 32})
    pong = await stream.expect("session.pong", nonce="x" * 32)
    equal(pong.value.get("reply_to", id), id, "reply_to")
    ensure(abs(pong["server_ts"] - now()) < 60_000, "server_ts", pong)
    await stream.send("session.ping", {"nonce": "x" * 33})
    await stream.error("PROTO_MALFORMED")
    waiter = await stream.socket.ping()
    await asyncio.wait_for(waiter, PATIENCE)
    await stream.leave()


async def vip_075_a_second_tab_takes_over(world):
    first = await world.talk()
    second = await Stream.open(first.session)
    await second.send("client.connect", {"session_id": first.session.id, "protocol_version": "0.1", "resume": {"resume_token": first.session.resume_token, "last_server_seq": first.session.last_seq}})
    fatal = await first.dies(4409, "SES_REPLACED")
    ensure(fatal is not None, "no error.fatal")
    connected = await second.expect("session.connected", resumed=True)
    ensure(connected["resume_token"], "no token")
    await second.ready(TREE(2))
    equal(await turn(second, "say moved"), "moved", "the answer")
    await second.leave()


async def vip_075_a_tab_without_the_secret_does_not_take_the_conversation(world):
    """The session token alone opens a transport, but what was said belongs to whoever holds the resume token."""
    first = await world.talk()
    other = Session(first.session.created, world.base)
    other.joined = True
    second = await Stream.open(other)
    await second.send("client.connect", {"session_id": other.id, "protocol_version": "0.1", "resume": {"resume_token": "0" * 43, "last_server_seq": 0}})
    await second.dies(4410, "SES_RESUME_REJECTED")


async def vip_076_a_dead_transport_is_noticed_within_45_s(world):
    """A socket that is open, and answers nothing."""
    session = await world.create()
    host, port = world.base.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(
        f"GET /v1/vip/sessions/{session.id}/stream HTTP/1.1\r\nHost: {host}:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: vip.v1\r\nAuthorization: Bearer {session.token}\r\n\r\n".encode()
    )
    answer = await reader.readuntil(b"\r\n\r\n")
    ensure(b" 101 " in answer, answer)
    for seq, (kind, data) in enumerate((("client.connect", {"session_id": session.id, "protocol_version": "0.1"}), ("state.update", TREE())), 1):
        payload = json.dumps({"type": kind, "id": f"c{seq}", "seq": seq, "ts": now(), "state_seq": 0, "data": data}).encode()
        writer.write(b"\x81\xfe" + struct.pack(">H", len(payload)) + b"\0\0\0\0" + payload)
    await writer.drain()
    for _ in range(100):
        status = await world.status(session)
        if status["state"] == ID:
            break
        await asyncio.sleep(0.1)
    equal((status["state"], status["connected"]), (ID, True), "while it is alive")
    began = time.monotonic()
    while (await world.status(session))["connected"]:
        ensure(time.monotonic() - began < 50, "still connected after", time.monotonic() - began)
        await asyncio.sleep(0.5)
    ensure(time.monotonic() - began > 8, "given up too early:", time.monotonic() - began)
    writer.close()


async def vip_077_errors_come_before_the_end(world):
    """Every other check looks at this too; here are the ends that a client can bring about in one step."""
    for message, code, error in (("seq", 4408, "PROTO_SEQ_GAP"), ("size", 1009, "PROTO_TOO_LARGE")):
        stream = await world.talk()
        if message == "seq":
            await stream.send("session.ping", {"nonce": "n"}, seq=999)
        else:
            await stream.raw("x" * (300 << 10))
        began = time.monotonic()
        fatal = await stream.dies(code, error)
        ensure(fatal is not None and time.monotonic() - began < 5, "too late")


async def rate_events_bounds_what_a_client_may_send(world):
    stream = await world.talk()
    for number in range(130):
        await stream.send("session.ping", {"nonce": str(number)})
    await stream.wait(lambda: any(event.code == "RATE_EVENTS" for event in stream.log), "RATE_EVENTS")
    await asyncio.sleep(3)
    stream.inbox.clear()
    if stream.closed is None:
        equal(await turn(stream, "say calm"), "calm", "after a pause")
        await stream.close()


async def vip_089_one_burst_of_events_ends_nothing(world):
    stream = await world.talk()
    for number in range(300):
        await stream.send("session.ping", {"nonce": str(number)})
    await stream.wait(lambda: any(event.code == "RATE_EVENTS" for event in stream.log), "RATE_EVENTS")
    await asyncio.sleep(1)
    ensure(stream.closed is None, "one burst has ended the transport")
    # A flood that does not stop is counted once a second, and ends it.
    began = time.monotonic()
    while stream.closed is None and time.monotonic() - began < 10:
        for _ in range(150):
            if stream.closed is None:
                await stream.send("session.ping", {"nonce": "x"})
        await asyncio.sleep(0.1)
    fatal = await stream.dies(4429)
    equal(fatal["code"], "RATE_EVENTS", "the fatal error")


async def rate_events_bounds_trees(world):
    stream = await world.talk()
    for version in range(2, 32):
        await stream.update(TREE(version))
    await stream.wait(lambda: any(event.code == "RATE_EVENTS" for event in stream.log), "RATE_EVENTS")
    ensure(any(event.type == "state.ack" and event["context_version"] > 1 for event in stream.log), "none was accepted")


async def session_update_changes_settings(world):
    stream = await world.talk()
    await stream.send("session.update", {"locale": "de-DE", "turn_detection": {"silence_ms": 900}})
    updated = await stream.expect("session.updated")
    equal((updated["locale"], updated["turn_detection"]["silence_ms"]), ("de-DE", 900), "effective settings")
    for data in ({"turn_detection": {"silence_ms": 100}}, {"locale": "x" * 36}):
        await stream.send("session.update", data)
        await stream.error("PROTO_MALFORMED")
    await stream.leave()


async def hang_up_ends_with_1000(world):
    """S8, from every state."""
    for state in (CO, ID, US, AT, AS, IA):
        stream = await reach(world, state)
        await stream.send("session.close", {"reason": "user_hangup"})
        terminated = await stream.until("session.terminated", reason="user_hangup")
        await stream.dies(1000)
        equal(stream.log[-1], terminated, "the last event")


async def vip_022_the_end_is_a_transition_too(world):
    stream = await world.talk()
    await stream.send("session.close", {"reason": "app"})
    await stream.expect("state.changed", state=NC, previous=ID, trigger="session.close")
    await stream.expect("session.terminated")
    await stream.dies(1000)


async def reach(world, state, **more):
    """A session in a state."""
    stream = await world.open(**more)
    await stream.connect()
    if state == CO:
        return stream
    await stream.ready(TREE())
    if state == ID:
        return stream
    stream.turn = await listen(stream)
    if state == US:
        return stream
    await conclude(stream, stream.turn, {AT: "hang", AS: "sentences 12", IA: "press help.open"}[state])
    if state == AS:
        stream.response = await speaking(stream)
        stream.inbox.clear()
    elif state == IA:
        stream.invoke = await invoked(stream, "help.open")
    return stream


ALL = [check for name, check in list(globals().items()) if asyncio.iscoroutinefunction(check) and check.__module__ == __name__ and name != "reach"]
PATIENT = [vip_076_a_dead_transport_is_noticed_within_45_s, a_session_that_nobody_opens_is_discarded_after_30_s, vip_018_without_a_tree_it_ends_after_10_s, vip_018_without_client_connect_it_ends_after_5_s]
CHECKS = [check for check in ALL if check not in PATIENT]
