"""VIP over WebRTC (4.2): `vip_rtc.py BINARY`.

The checks start their server themselves. One line per check; see `checks.py`. PEER_VIP_MODELS is the folder of the
models with which the server hears.
"""

import sys

from checks import run_beside, summary, wanted
from vip_call import *


# --- the transport -----------------------------------------------------------------------------------


async def vip_085_an_offer_is_answered_with_a_description_and_a_place(world):
    ensure("webrtc" in world.discovery["transports"], "discovery:", world.discovery["transports"])
    stream = await call(world)
    equal((await world.status(stream.session))["connected"], True, "connected")
    await stream.barrier()
    await stream.leave()


async def vip_085_what_is_not_offered_that_way_is_refused(world):
    session = await create(world)
    connection = RTCPeerConnection(RTCConfiguration(iceServers=[]))
    connection.addTrack(Microphone())
    connection.createDataChannel(LABEL, protocol="vip.v1")
    await connection.setLocalDescription(await connection.createOffer())
    good = connection.localDescription.sdp
    audio, data = good.index("m=audio"), good.index("m=application")
    for what, sdp in {
        "nothing": "",
        "no description": "{}",
        "no audio": good[:audio] + good[data:],
        "no application": good[:data],
        "two audio sections": good[:data] + good[audio:data] + good[data:],
        "audio one way": good.replace("a=sendrecv", "a=sendonly"),
        "no Opus": good.replace("opus/48000", "speex/48000"),
        "no fingerprint": good.replace("a=fingerprint", "a=nothing"),
    }.items():
        answer = await offer(world, session, sdp, status=(400, 422))
        ensure(answer.json()["error"]["code"].startswith("PROTO_"), what, answer.text)
    await offer(world, session, good, status=(400, 415), kind="application/json")
    await offer(world, session, "v=0\r\n" + "a=x\r\n" * 20_000, status=413, error="PROTO_TOO_LARGE")
    await offer(world, session, good, status=401, error="AUTH_TOKEN_MISSING", token=None)
    await offer(world, session, good, status=(401, 403, 404), token=(await create(world)).token)
    await connection.close()
    # None of it hurt the session.
    await (await call(world, session)).leave()


async def candidates_can_follow_and_a_connection_can_be_hung_up(world):
    stream = await call(world)
    local = stream.socket.connection.localDescription.sdp
    ufrag = re.search(r"a=ice-ufrag:.*", local)[0].strip()
    kind = {"Content-Type": "application/trickle-ice-sdpfrag"}
    candidate = "a=candidate:1 1 udp 2130706431 127.0.0.1 9 typ host"
    ask = lambda method, place, status, body=None, **more: world.ask(method, place, status, body=body, **{"token": stream.session.token, **more})
    await ask("PATCH", stream.location, 204, f"{ufrag}\r\nm=audio 9 UDP/TLS/RTP/SAVPF 0\r\na=mid:0\r\n{candidate}\r\na=end-of-candidates\r\n", headers=kind)
    await ask("PATCH", stream.location, (400, 422), '{"candidate": "none"}', headers=kind)
    await ask("PATCH", stream.location, (400, 409, 412, 422), f"a=ice-ufrag:somebodyelse\r\n{candidate}\r\n", headers=kind)
    await ask("PATCH", re.sub(r"[^/]+$", "nobody", stream.location), 404, f"{ufrag}\r\n{candidate}\r\n", headers=kind)
    await ask("PATCH", stream.location, 401, f"{ufrag}\r\n", headers=kind, token=None)
    await stream.barrier()
    await ask("DELETE", stream.location, 204)
    await stream.wait(lambda: stream.closed is not None, "the end")
    equal((await world.status(stream.session))["connected"], False, "connected")
    await ask("DELETE", stream.location, 404)


async def vip_018_whoever_does_not_connect_is_sent_away(world):
    stream = await Call.open(world, await create(world))
    await stream.ended("PROTO_HANDSHAKE_TIMEOUT")


async def vip_075_one_transport_at_a_time(world):
    session = await create(world)
    first = await call(world, session)
    second = await Stream.open(session)
    await first.ended("SES_REPLACED")
    await again(second)
    third = await Call.open(world, session)
    await second.dies(4409, "SES_REPLACED")
    await again(third)
    await turn_by(third, "say still here")
    await third.leave()


async def again(stream):
    """Resumes what another transport was used for before."""
    session = stream.session
    connected = await stream.connect(resume={"resume_token": session.resume_token, "last_server_seq": session.last_seq})
    equal(connected["resumed"], True, "resumed")
    await stream.ready(TREE(session.version + 1))


async def vip_072_a_call_that_is_lost_is_resumed(world):
    stream = await call(world)
    await turn_by(stream, "say before")
    await stream.vanish()
    for opened in (lambda: Call.open(world, stream.session), lambda: Stream.open(stream.session)):
        resumed = await opened()
        await again(resumed)
        if isinstance(resumed, Call):
            await turn_by(resumed, "say after")
            await resumed.vanish()
        else:
            await resumed.leave()


async def s8_a_hang_up_ends_the_call(world):
    stream = await call(world)
    await stream.send("session.close", {"reason": "user_hangup"})
    await stream.until("session.terminated", reason="user_hangup")
    await stream.ended()
    await world.ask("GET", f"/v1/vip/sessions/{stream.session.id}", 410, "SES_TERMINATED", token=stream.session.token)


async def vip_086_other_channels_carry_nothing(world):
    stream = await call(world)
    other = stream.socket.connection.createDataChannel("something-else")
    messages = []
    other.on("message", messages.append)
    await asyncio.sleep(1)
    if other.readyState == "open":
        other.send(json.dumps({"type": "session.ping", "id": "x", "seq": 99, "ts": now(), "state_seq": 1, "data": {"nonce": "other"}}))
    await stream.idle_for(1)
    equal(messages, [], "messages")
    await stream.leave()


async def vip_086_what_is_not_an_event_is_refused(world):
    stream = await call(world)
    stream.socket.channel.send(frame(1, 0, 0, b"\0\0"))
    await stream.error("PROTO_MALFORMED", "PROTO_BAD_AUDIO_FRAME", "PROTO_AUDIO_FORBIDDEN_STATE")
    await stream.leave()


async def an_event_on_the_channel_has_at_most_65536_bytes(world):
    stream = await call(world)
    event = {"type": "session.ping", "id": "big", "seq": stream.session.client_seq + 1, "ts": now(), "state_seq": stream.state_seq, "data": {"nonce": "n", "pad": ""}}
    event["data"]["pad"] = "x" * (65_536 - len(json.dumps(event)))
    stream.session.client_seq += 1
    await stream.raw(json.dumps(event))
    await stream.expect("session.pong", nonce="n")
    event["data"]["pad"] += "x"
    await stream.raw(json.dumps({**event, "id": "more", "seq": event["seq"] + 1}))
    problem = await stream.next()
    ensure(problem.code in ("PROTO_MALFORMED", "PROTO_TOO_LARGE"), problem)
    await stream.socket.close()


# --- turns -------------------------------------------------------------------------------------------


async def turn_by(stream, text):
    """A typed turn whose answer is heard."""
    since = time.monotonic()
    await say(stream, text)
    return await heard(stream, await speaking(stream), since)


async def s2_a_typed_turn_is_answered_with_sound(world):
    stream = await call(world)
    done = await turn_by(stream, "sentences 3")
    ensure("sentence number 3" in done.get("text", "sentence number 3"), done)
    done = await turn_by(stream, "say And once more.")
    await stream.leave()


async def s2_a_spoken_turn_is_understood_and_answered(world):
    stream = await call(world)
    said = spoken("please open the settings page")
    for _ in range(2):
        turn, since = fresh("t"), time.monotonic()
        await stream.send("input.detected", {"origin": "client", "confidence": 0.9})
        await stream.send("input.start", {"mode": "voice", "trigger": "vad"}, turn_id=turn)
        await stream.expect("state.changed", state=US, previous=ID, trigger="input.start")
        await stream.microphone.say(said)
        await asyncio.sleep(0.3)
        await stream.send("input.end", {"reason": "silence", "duration_ms": len(said) * 1000 // RATE}, turn_id=turn)
        await stream.expect("state.changed", state=AT, previous=US, trigger="input.end")
        await understood(stream, turn, "settings", "setting")
        await heard(stream, await speaking(stream), since)
    await stream.leave()


async def s2_the_server_hears_the_end_of_a_turn(world):
    stream = await call(world, turn_detection={"type": "server_vad", "silence_ms": 600})
    turn = fresh("t")
    await stream.send("input.start", {"mode": "voice", "trigger": "ptt"}, turn_id=turn)
    await stream.expect("state.changed", state=US, previous=ID, trigger="input.start")
    since = time.monotonic()
    await stream.microphone.say(spoken("go to the orders page"))
    await stream.until("input.end", patience=10)
    await stream.until("state.changed", state=AT, previous=US, trigger="input.end")
    await understood(stream, turn, "order")
    await heard(stream, await speaking(stream), since)
    await stream.leave()


async def sound_outside_of_a_turn_is_not_listened_to(world):
    """4.2: RTP is always on the wire; it is discarded, and no error."""
    stream = await call(world)
    await stream.microphone.say(spoken("please open the settings page"))
    await stream.idle_for(2)
    equal(stream.state, ID, "state")
    await stream.leave()


async def vip_033_barge_in_stops_the_sound(world):
    """VIP-028, VIP-034."""
    stream = await call(world)
    since = time.monotonic()
    await say(stream, "sentences 30")
    response = await speaking(stream)
    await stream.wait(lambda: stream.ear.loud_ms(since) > 2000, "two seconds of sound", 60)
    barged, sent = fresh("t"), time.monotonic()
    await stream.send("input.barge_in", {"trigger": "vad", "response_id": response.id, "played_ms": 1500, "confidence": 0.9}, turn_id=barged)
    await stream.until("state.changed", state=US, previous=AS, trigger="input.barge_in")
    await stream.expect("audio.interrupted", response_id=response.id, truncated_at_ms=1500)
    await stream.expect("response.done", response_id=response.id, status="incomplete")
    await stream.idle_for(2)
    # 100 ms, and what the jitter buffer of the client still held.
    ensure(stream.ear.last_loud() - sent < 0.8, "sound", stream.ear.last_loud() - sent, "s after the barge-in")
    await stream.send("input.cancel", {"reason": "user"}, turn_id=barged)
    await stream.expect("state.changed", state=ID, previous=US, trigger="input.cancel")
    await turn_by(stream, "say fresh words now")
    await stream.leave()


async def s5_the_server_hears_a_barge_in(world):
    """5.4: with server VAD, what is said while the server speaks is monitored."""
    stream = await call(world, turn_detection={"type": "server_vad", "silence_ms": 600, "interrupt_response": True})
    since = time.monotonic()
    await say(stream, "sentences 30")
    response = await speaking(stream)
    await stream.wait(lambda: stream.ear.loud_ms(since) > 1500, "sound", 60)
    speaking_up = asyncio.create_task(stream.microphone.say(spoken("stop that and show me the orders page please")))
    notice = await stream.until("input.barge_in", patience=20)
    equal(notice["origin"], "server", "origin")
    turn = notice.value["turn_id"]
    await stream.send("input.barge_in", {"trigger": "vad", "response_id": response.id, "played_ms": 1000}, turn_id=turn)
    await stream.until("state.changed", state=US, previous=AS, trigger="input.barge_in")
    await stream.until("response.done", response_id=response.id, status="incomplete")
    await speaking_up
    await stream.until("state.changed", state=AT, previous=US, trigger="input.end")
    await understood(stream, turn, "order", "show", "page", "stop")
    await stream.socket.close()


async def s3_an_action_is_invoked_over_the_channel(world):
    stream = await call(world)
    since = time.monotonic()
    await say(stream, 'press cart.add {"count": 2}')
    invoke = await invoked(stream, "cart.add")
    await resolve(stream, invoke, data={"count": 2})
    await heard(stream, await speaking(stream), since)
    await stream.leave()


async def several_calls_at_once_hear_only_their_own(world):
    calls = await asyncio.gather(*(call(world, about={"sub": f"caller-{number}"}) for number in range(4)))
    quiet = await call(world, about={"sub": "quiet"})
    await asyncio.gather(*(turn_by(stream, f"say This is for caller {number}.") for number, stream in enumerate(calls)))
    equal(quiet.ear.loud_ms(), 0, "sound for somebody else")
    await asyncio.gather(*(stream.leave() for stream in (*calls, quiet)))


async def a_call_goes_through_the_public_address(world):
    """The server listens everywhere, names one address, and helpers to find a way to it."""
    session = await create(world)
    equal(session.created["transport"]["webrtc"]["ice_servers"], [{"urls": ["stun:127.0.0.1:3478"]}], "ice_servers")
    stream = await call(world, session)
    answer = stream.socket.connection.remoteDescription.sdp
    equal({line.split()[4] for line in answer.splitlines() if line.startswith("a=candidate")}, {"127.0.0.1"}, "candidates")
    await turn_by(stream, "say This is how it sounds.")
    await stream.leave()


CHECKS = [check for name, check in list(globals().items()) if re.match(r"vip_\d|s\d_|candidates_|an_event_|sound_|several_", name)]


async def main(binary):
    house, results = await House().open(binary), []
    try:
        world = await house.server("rtc", "vip.webrtc.listen=127.0.0.1:0")
        await run_beside(wanted(CHECKS), world, results, 5 * PATIENCE, 2)
        if wanted([a_call_goes_through_the_public_address]):
            everywhere = ("vip.webrtc.listen=0.0.0.0:0", "vip.webrtc.public_ips=['127.0.0.1']", "vip.ice_servers=[{urls=['stun:127.0.0.1:3478']}]")
            world = await house.server("public", *everywhere)
            await run_beside([a_call_goes_through_the_public_address], world, results, 5 * PATIENCE, 1)
    finally:
        house.close()
    return summary(results)


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1])))
