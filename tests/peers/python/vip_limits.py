"""Times that run out, on servers that have little patience; and a server that leaves."""

from vip_resume import gone
from vip_tokens import read
from vip_world import *

# `vip.limits` of the server behind these checks.
HASTY = ["vip.limits.replay=12", "vip.limits.resume_s=2", "vip.limits.session_s=60", "vip.limits.idle_s=45", "vip.limits.thinking_ms=2500"]


async def vip_072_after_the_window_resume_is_rejected(world):
    stream = await world.talk()
    equal(stream.session.created["resume"]["window_s"], 2, "window_s")
    await gone(world, stream)
    await asyncio.sleep(4)
    try:
        other = await Stream.open(stream.session)
    except InvalidStatus as refusal:
        equal(refusal.response.status_code, 410, "status")
        return
    await other.send("client.connect", {"session_id": stream.session.id, "protocol_version": "0.1", "resume": {"resume_token": stream.session.resume_token, "last_server_seq": 0}})
    await other.dies(4410, "SES_RESUME_REJECTED")


async def vip_072_within_the_window_it_is_not(world):
    stream = await world.talk()
    await stream.drop()
    back = await resume(world, stream)
    await back.ready(TREE(2))
    await asyncio.sleep(3)
    equal(await turn(back, "say still"), "still", "the window closed although the client is back")
    await back.leave()


async def vip_080_the_end_is_announced_30_s_ahead(world):
    """The longest session, and 4441."""
    stream = await world.talk()
    began = time.time()

    async def busy():
        while stream.closed is None:
            await stream.send("session.ping", {"nonce": "n"})
            await asyncio.sleep(1)

    task = asyncio.create_task(busy())
    for number in range(4):
        await turn_quietly(stream, f"say {number}")
    warning = await stream.until("session.terminating", reason="max_duration", patience=50)
    ensure(24_000 <= warning["in_ms"] <= 30_500, "in_ms", warning)
    await turn_quietly(stream, "say one more")
    await stream.dies(4441, "SES_MAX_DURATION", 50)
    task.cancel()
    ensure(abs(time.time() - stream.session.created["expires_at"]) < 8, "ended at", time.time() - began)
    last = stream.log[-1]
    ensure(any(event.type == "session.terminated" and event["reason"] == "max_duration" for event in stream.log), "no session.terminated; last was", last)
    await world.ask("GET", f"/v1/vip/sessions/{stream.session.id}", (410, 401), token=stream.session.token)


async def turn_quietly(stream, text):
    """A turn while pongs come in between."""
    typed = fresh("t")
    await stream.send("input.start", {"mode": "text", "trigger": "text"}, turn_id=typed)
    await stream.send("input.text", {"text": text}, turn_id=typed)
    await stream.send("input.end", {"reason": "text"}, turn_id=typed)
    opened = await stream.until("response.audio")
    response = stream.session.responses[opened["response_id"]]
    await stream.wait(lambda: response.done, "response.done")
    await stream.send("audio.complete", {"response_id": response.id, "played_ms": int(response.ms)})
    await stream.wait(lambda: stream.state == ID, "idle")


async def vip_080_an_idle_session_ends_with_4440(world):
    stream = await world.talk()
    began = time.monotonic()
    warning = await stream.until("session.terminating", reason="idle", patience=25)
    ensure(10 < time.monotonic() - began < 25, "warned after", time.monotonic() - began)
    ensure(24_000 <= warning["in_ms"] <= 30_500, "in_ms", warning)
    await stream.dies(4440, "SES_IDLE_TIMEOUT", 45)
    ensure(any(event.type == "session.terminated" and event["reason"] == "idle" for event in stream.log), "no session.terminated:", stream.log)


async def thinking_has_a_limit(world):
    stream = await world.talk()
    await say(stream, "hang")
    await stream.error("PROV_TIMEOUT", patience=10)
    await stream.expect("state.changed", state=ID, previous=AT, trigger="error.recoverable")
    await say(stream, "wait 60000 then never")
    await stream.error("PROV_TIMEOUT", patience=10)
    await stream.expect("state.changed", state=ID, previous=AT, trigger="error.recoverable")
    equal(await turn(stream, "say on"), "on", "afterwards")
    await stream.leave()


async def vip_074_a_replay_is_bounded_and_says_where_it_begins(world):
    stream = await world.talk()
    for number in range(4):
        await turn(stream, f"say {number}")
    seen = {seq for seq, event in stream.session.events.items() if event.type not in FLEETING}
    await stream.drop()
    stranger = Session(stream.session.created, world.base)
    stranger.client_seq, stranger.resume_token = stream.session.client_seq, stream.session.resume_token
    lost = Stream.__new__(Stream)
    lost.session = stranger
    back = await resume(world, lost, last=0)
    await back.barrier()
    replayed = [event.seq for event in back.log if event.replayed]
    ensure(0 < len(replayed) <= 12, "12 events are kept, but replayed are", replayed)
    equal(back.connected.get("replay_from"), replayed[0], "replay_from")
    equal(replayed, sorted(seq for seq in seen if seq >= replayed[0]), "without a hole")
    await back.ready(TREE(2))
    await back.leave()


async def session_tokens_expire_but_transports_live_on(world):
    """3.2, E6."""
    own = await world.house.server("brief", "vip.limits.token_s=60")
    token = own.token()
    stream = await own.talk(token=token)
    session = stream.session
    header, claims = read(session.token)
    equal(claims["exp"] - claims["iat"], 60, "lifetime")
    for _ in range(130):
        await asyncio.sleep(1)
        answer = await own.ask("GET", f"/v1/vip/sessions/{session.id}", None, token=session.token)
        if answer.status_code != 200:
            break
    equal(answer.json()["error"]["code"], "AUTH_TOKEN_EXPIRED", "after its time")
    ensure(time.time() > claims["exp"] - 1, "before its time")
    await own.ask("POST", f"/v1/vip/sessions/{session.id}/token", 401, "AUTH_TOKEN_EXPIRED", token=session.token)
    await own.refused(session, 401, "AUTH_TOKEN_EXPIRED")
    equal(await turn(stream, "say alive"), "alive", "the open transport")
    sub = read(token)[1]["sub"]
    session.token = (await own.ask("POST", f"/v1/vip/sessions/{session.id}/token", 200, token=own.token(sub=sub))).json()["session_token"]
    await own.status(session)
    await stream.leave()


async def a_server_that_leaves_says_so(world):
    """NET_SERVER_DRAINING, 1012; the session outlives it."""
    own = await world.house.server("leaving")
    stream = await own.talk()
    equal(await turn(stream, "say before"), "before", "the answer")
    own.server.terminate()
    await stream.wait(lambda: stream.closed is not None, "a close")
    ensure(stream.closed in (1001, 1012), "closed with", stream.closed, stream.tail())
    ensure(stream.fatal is None or stream.fatal["code"] == "NET_SERVER_DRAINING", stream.fatal)
    await asyncio.to_thread(own.server.process.wait)
    await asyncio.to_thread(own.server.start)
    stream.session.created["transport"]["websocket"]["url"] = f"{own.base.replace('http', 'ws', 1)}/v1/vip/sessions/{stream.session.id}/stream"
    back = await resume(own, stream)
    await back.ready(TREE(2))
    equal(await turn(back, "say after"), "after", "the answer")
    await back.leave()


CHECKS = [check for name, check in list(globals().items()) if asyncio.iscoroutinefunction(check) and check.__module__ == __name__ and name != "turn_quietly"]
