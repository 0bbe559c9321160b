"""Coming back: section 11, Resume."""

import time

from vip_world import *

# Answers to one client, and what holds a secret: nothing that a replay has to repeat.
PRIVATE = ("session.pong", "session.connected")


async def gone(world, stream):
    """The transport is lost, and the server knows."""
    await stream.drop()
    for _ in range(200):
        if not (await world.status(stream.session))["connected"]:
            return
        await asyncio.sleep(0.05)
    raise Failed("still connected")


def stranger(stream, world):
    """The session, for somebody who has seen nothing of it."""
    session = Session(stream.session.created, world.base)
    session.joined = True
    return session


async def s6_a_lost_transport_is_resumed(world):
    """VIP-072, VIP-073, VIP-074: lost while speaking."""
    stream = await world.talk()
    await say(stream, "sentences 30")
    response = await speaking(stream)
    await stream.wait(lambda: response.ms > 1000, "audio")
    first = stream.session.resume_token
    await gone(world, stream)
    equal((await world.status(stream.session))["state"], NC, "state while suspended")
    back = await resume(world, stream)
    ensure(back.session.resume_token and back.session.resume_token != first, "VIP-073: the token is the same")
    await back.barrier()
    await back.ready(TREE(2))
    ensure(response.done is not None, "the half-spoken response has no end")
    equal(response.done["status"], "incomplete", "status of the half-spoken response")
    equal(await turn(back, "say again"), "again", "the answer")
    item = [item for item in await world.history(back.session) if item["role"] == "assistant"][0]
    equal(item["status"], "incomplete", "history")
    await back.leave()


async def vip_073_an_old_resume_token_is_dead(world):
    stream = await world.talk()
    first = stream.session.resume_token
    await gone(world, stream)
    back = await resume(world, stream)
    await back.ready(TREE(2))
    second = back.session.resume_token
    await gone(world, back)
    other = await Stream.open(back.session)
    await other.send("client.connect", {"session_id": back.session.id, "protocol_version": "0.1", "resume": {"resume_token": first, "last_server_seq": 0}})
    await other.dies(4410, "SES_RESUME_REJECTED")
    back.session.resume_token = second
    again = await resume(world, back)
    await again.ready(TREE(3))
    await again.leave()


async def vip_074_the_replay_is_exact(world):
    stream = await world.talk()
    equal(await turn(stream, "say one"), "one", "the answer")
    await say(stream, "press help.open")
    await resolve(stream, await invoked(stream, "help.open"))
    await reply(stream)
    session, seen = stream.session, dict(stream.session.events)
    for last in (0, 3, session.last_seq - 2, session.last_seq):
        await gone(world, stream) if stream.closed is None else None
        # As if nothing after `last` had come.
        session.last_seq_known = session.last_seq
        fresh_one = Session(session.created, world.base)
        fresh_one.client_seq, fresh_one.resume_token, fresh_one.last_seq = session.client_seq, session.resume_token, last
        lost = Stream.__new__(Stream)
        lost.session = fresh_one
        back = await resume(world, lost, last=last)
        await back.barrier()
        replayed = [event for event in back.log if event.replayed]
        wanted = [event for seq, event in sorted(seen.items()) if seq > last and event.type not in FLEETING and event.type not in PRIVATE]
        got = [(event.seq, event.type, event.data) for event in replayed if event.type not in PRIVATE and event.seq in seen]
        equal(got, [(event.seq, event.type, event.data) for event in wanted], f"the replay after {last}")
        equal([event.id for event in replayed if event.seq in seen and event.type not in PRIVATE], [event.id for event in wanted], "ids")
        session.client_seq, session.resume_token, session.last_seq = fresh_one.client_seq, fresh_one.resume_token, fresh_one.last_seq
        stream = back


async def heed(stream, patience=10):
    """Hears out what is said unasked, and gives its text; none if nothing is."""
    def announced():
        return [event for event in stream.inbox if event.type == "server.announce"]

    deadline = time.monotonic() + patience
    while not announced():
        if time.monotonic() > deadline:
            return None
        await asyncio.sleep(0.02)
    response = stream.session.responses[announced()[0]["response_id"]]
    await stream.wait(lambda: response.done, "response.done")
    await stream.send("audio.complete", {"response_id": response.id, "played_ms": int(response.ms)})
    await stream.wait(lambda: stream.state == ID, "idle")
    stream.inbox.clear()
    return response.done.get("text") or ""


async def vip_074_what_happened_meanwhile_is_replayed(world):
    """An answer that came while nobody was there is told afterwards."""
    stream = await world.talk()
    await say(stream, "wait 800 then too late to hear")
    await gone(world, stream)
    await asyncio.sleep(1.5)
    back = await resume(world, stream)
    await back.barrier()
    await back.ready(TREE(2))
    equal(back.state, ID, "state")
    equal(await heed(back), "too late to hear", "what was answered meanwhile")
    equal(await turn(back, "say on"), "on", "the answer")
    await back.leave()


async def vip_091_of_transports_opened_at_once_the_newest_stays(world):
    """None of them has said anything so far; each is opened as soon as the one before is there."""
    for _ in range(20):
        first = await world.create()
        sessions = [Session(first.created, world.base) for _ in range(3)]
        streams = []
        for session in sessions:
            session.joined = True
            streams.append(await world.open(session))
        for older in streams[:2]:
            await older.dies(4409, "SES_REPLACED")
        newest = streams[2]
        connected = await newest.connect()
        numbers = [stream.log[-1].seq for stream in streams[:2]] + [newest.log[-1].seq]
        equal(len(set(numbers)), 3, f"VIP-092: numbers {numbers} of {connected} and the last words")
        await newest.ready(TREE())
        await newest.leave()


async def vip_092_the_last_word_has_a_number_of_its_own(world):
    stream = await world.talk()
    other = Session(stream.session.created, world.base)
    other.joined = True
    newer = await world.open(other)
    await stream.dies(4409, "SES_REPLACED")
    last = stream.log[-1].seq
    await newer.connect()
    await newer.ready(TREE(2))
    equal(await turn(newer, "say one"), "one", "the answer")
    ensure(all(event.seq > last for event in newer.log), f"a number up to {last} is given again:", newer.log)
    await newer.leave()


async def an_open_turn_is_discarded(world):
    stream = await world.talk()
    started = await listen(stream)
    await stream.send("input.text", {"text": "say never"}, turn_id=started)
    await stream.barrier()
    await gone(world, stream)
    back = await resume(world, stream)
    await back.barrier()
    await back.ready(TREE(2))
    equal(await turn(back, "say anew"), "anew", "the answer")
    said = [item.get("text") for item in await world.history(back.session) if item["role"] == "user" and item["kind"] == "message" and item["status"] == "complete"]
    equal(said, ["say anew"], "history")
    await back.leave()


async def pending_results_are_taken(world):
    stream = await world.talk()
    await say(stream, "press help.open")
    invoke = await invoked(stream, "help.open")
    await gone(world, stream)
    back = await resume(world, stream, pending_results=[result_of(invoke, data={"opened": "offline"})])
    await back.update(TREE(2))
    await back.until("server.ready")
    await back.until("state.changed", state=ID)
    back.adopt(TREE(2))
    await asyncio.sleep(1)
    kinds = [(item["kind"], item.get("action_id")) for item in await world.history(back.session) if item["kind"] in ("action", "result")]
    equal(kinds, [("action", "help.open"), ("result", "help.open")], "history")
    # It may be told in an announcement.
    announced = [event for event in back.log if event.type == "server.announce"]
    if announced:
        response = back.session.responses[announced[0]["response_id"]]
        await back.wait(lambda: response.done, "response.done")
        await back.send("audio.complete", {"response_id": response.id, "played_ms": int(response.ms)})
        await back.wait(lambda: back.state == ID, "idle")
        back.inbox.clear()
    equal(await turn(back, "say on"), "on", "the answer")
    await back.close()


async def an_action_that_was_lost_is_not_asked_for_twice(world):
    stream = await world.talk()
    await say(stream, "press help.open")
    invoke = await invoked(stream, "help.open")
    await gone(world, stream)
    back = await resume(world, stream)
    await back.barrier()
    await back.ready(TREE(2))
    ensure("It ended as failed" in (await heed(back) or ""), "the turn goes on without it:", back.log)
    id = await back.send("action.result", result_of(invoke))
    events = await back.barrier()
    ensure(all(event.code == "ACT_LATE_RESULT" for event in events) or events == [], events)
    equal(list(back.session.invocations), [invoke["invocation_id"]], "invocations")
    ensure(id, "sent")


async def a_wrong_resume_is_rejected(world):
    for data in ({"resume_token": "A" * 43, "last_server_seq": 0}, {"resume_token": "", "last_server_seq": 0}):
        stream = await world.talk()
        await gone(world, stream)
        other = await Stream.open(stranger(stream, world))
        await other.send("client.connect", {"session_id": stream.session.id, "protocol_version": "0.1", "resume": data})
        await other.wait(lambda: other.closed is not None or other.inbox, "a refusal")
        event = other.log[0]
        ensure(event.code in ("SES_RESUME_REJECTED", "PROTO_MALFORMED"), event)


async def a_resume_token_belongs_to_its_session(world):
    one, two = await world.talk(), await world.talk()
    await gone(world, one)
    await gone(world, two)
    stream = await Stream.open(one.session)
    await stream.send("client.connect", {"session_id": one.session.id, "protocol_version": "0.1", "resume": {"resume_token": two.session.resume_token, "last_server_seq": 0}})
    await stream.dies(4410, "SES_RESUME_REJECTED")


async def a_future_last_server_seq(world):
    stream = await world.talk()
    await gone(world, stream)
    other = await Stream.open(stranger(stream, world))
    await other.send("client.connect", {"session_id": stream.session.id, "protocol_version": "0.1", "resume": {"resume_token": stream.session.resume_token, "last_server_seq": 10**9}})
    await other.wait(lambda: other.log, "an answer")
    ensure(other.log[0].type in ("session.connected", "error.fatal"), other.log)


async def a_session_without_resume_is_over_with_its_transport(world):
    stream = await world.talk(capabilities={"resume": False})
    connected = stream.log[0]
    ensure(connected.get("resume_token") is None and connected["resume_window_s"] == 0, connected)
    await stream.drop()
    for _ in range(100):
        answer = await world.ask("GET", f"/v1/vip/sessions/{stream.session.id}", None, token=stream.session.token)
        if answer.status_code == 410:
            return
        await asyncio.sleep(0.1)
    raise Failed(f"still there: {answer.text}")


async def coming_back_often(world):
    stream = await world.talk()
    for number in range(6):
        if number % 2:
            await say(stream, "sentences 30")
            await speaking(stream)
        await gone(world, stream)
        stream = await resume(world, stream)
        await stream.barrier()
        await stream.ready(TREE(2 + number))
    equal(await turn(stream, "say done"), "done", "the answer")
    await stream.leave()


CHECKS = [check for name, check in list(globals().items()) if asyncio.iscoroutinefunction(check) and check.__module__ == __name__ and name not in ("gone", "heed")]
