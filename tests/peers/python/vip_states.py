"""The state machine: sections 10.2 to 10.4, cell by cell."""

from vip_socket import reach
from vip_world import *

# Every client event of the table, as it would be sent in a state that knows nothing about it.
UNDUE = {
    "input.start": lambda: ({"mode": "text", "trigger": "text"}, fresh("t")),
    "input.end": lambda: ({"reason": "text"}, fresh("t")),
    "input.cancel": lambda: ({"reason": "user"}, fresh("t")),
    "input.timeout": lambda: ({"speech_seen": False}, None),
    "input.detected": lambda: ({"origin": "client", "confidence": 0.9}, None),
    "input.barge_in": lambda: ({"trigger": "manual", "played_ms": 0}, fresh("t")),
    "input.text": lambda: ({"text": "hello"}, None),
    "audio.complete": lambda: ({"response_id": "r-none", "played_ms": 10}, None),
    "action.result": lambda: ({"invocation_id": "inv-none", "action_id": "help.open", "status": "success", "event": "action.success", "executed": True, "duration_ms": 1}, None),
    "session.update": lambda: ({"locale": "en-GB"}, None),
    "client.connect": lambda: ({"session_id": "vs_" + "0" * 26, "protocol_version": "0.1"}, None),
}
# `-` refused, `0` ignored without a word, `L` answered with ACT_LATE_RESULT (10.3).
CELLS = {
    CO: {"input.detected": "-", "input.start": "-", "input.end": "-", "input.cancel": "-", "input.timeout": "-", "input.barge_in": "-", "audio.complete": "-", "action.result": "-", "session.update": "-", "input.text": "-"},
    ID: {"client.connect": "-", "input.detected": "0", "input.end": "-", "input.cancel": "-", "input.timeout": "0", "audio.complete": "0", "action.result": "L", "input.text": "-"},
    US: {"client.connect": "-", "input.detected": "0", "input.start": "-", "input.end": "-", "input.cancel": "-", "input.barge_in": "-", "audio.complete": "0", "action.result": "L", "session.update": "-"},
    AT: {"client.connect": "-", "input.detected": "0", "input.start": "-", "input.end": "-", "input.cancel": "-", "input.timeout": "0", "audio.complete": "0", "action.result": "L", "session.update": "-", "input.text": "-"},
    AS: {"client.connect": "-", "input.detected": "0", "input.start": "-", "input.end": "-", "input.cancel": "-", "input.timeout": "0", "action.result": "L", "session.update": "-", "input.text": "-"},
    IA: {"client.connect": "-", "input.detected": "0", "input.start": "-", "input.end": "-", "input.cancel": "-", "input.timeout": "0", "input.barge_in": "-", "audio.complete": "0", "action.result": "L", "session.update": "-", "input.text": "-"},
}


async def refused(stream, id, state):
    """The answer to what the matrix does not have: the state it is in, and stays in (VIP-023, 10.4)."""
    error = await stream.until("error.recoverable")
    equal(error["code"], "PROTO_INVALID_TRANSITION", f"{error}")
    equal(error.get("ref_id"), id, "ref_id")
    equal(error.get("details", {}).get("state"), state, "details.state")
    equal(error["details"].get("state_seq"), error.state_seq, "details.state_seq")


async def cell(world, state, kind, wanted):
    """One cell of the table, in a session of its own."""
    stream = await reach(world, state)
    data, turn = UNDUE[kind]()
    seq = stream.state_seq
    id = await stream.send(kind, data, turn_id=turn)
    if wanted == "-":
        await refused(stream, id, state)
    elif wanted == "L":
        error = await stream.until("error.recoverable")
        equal((error["code"], error.get("ref_id")), ("ACT_LATE_RESULT", id), f"{error}")
    else:
        events = await stream.barrier()
        loud = [event for event in events if event.code or event.type == "state.changed" and event["state"] != stream.state]
        equal(loud, [], f"{kind} in {state}")
    if state != AS:
        equal((stream.state, stream.state_seq), (state, seq), "the state afterwards")
    await stream.leave()


async def row(world, state):
    wrong = []
    for kind, wanted in CELLS[state].items():
        try:
            await cell(world, state, kind, wanted)
        except Failed as failed:
            wrong.append(f"[{kind}: {failed}]")
    ensure(not wrong, f"{len(wrong)} cells of {state}:", *wrong)


async def vip_023_what_connecting_refuses(world):
    await row(world, CO)


async def vip_023_what_idle_refuses(world):
    await row(world, ID)


async def vip_023_what_user_speaking_refuses(world):
    await row(world, US)


async def vip_023_what_ai_thinking_refuses(world):
    await row(world, AT)


async def vip_023_what_ai_speaking_refuses(world):
    await row(world, AS)


async def vip_023_what_invoke_action_refuses(world):
    await row(world, IA)


async def vip_022_every_transition_of_a_conversation_is_signalled(world):
    """The client checks each event; here is one conversation through every pair of the matrix that is reached by typing."""
    stream = await world.talk()
    seen = lambda: [(event["previous"], event["state"], event["trigger"]) for event in stream.log if event.type == "state.changed"]
    await turn(stream, "say one")
    started = await listen(stream)
    await stream.send("input.cancel", {"reason": "user"}, turn_id=started)
    await stream.expect("state.changed", state=ID, previous=US, trigger="input.cancel")
    await say(stream, "press help.open")
    await resolve(stream, await invoked(stream, "help.open"), data={"opened": True})
    await reply(stream)
    await say(stream, "hang")
    barged = fresh("t")
    await stream.send("input.barge_in", {"trigger": "manual"}, turn_id=barged)
    await stream.until("state.changed", state=US, previous=AT, trigger="input.barge_in")
    await stream.barrier()
    await retype(stream, barged, "sentences 20")
    response = await speaking(stream)
    barged = fresh("t")
    await stream.send("input.barge_in", {"trigger": "manual", "response_id": response.id, "played_ms": 0}, turn_id=barged)
    await stream.until("state.changed", state=US, previous=AS, trigger="input.barge_in")
    await stream.barrier()
    await retype(stream, barged, "fail")
    await stream.until("state.changed", state=ID, previous=AT, trigger="error.recoverable")
    equal(set(seen()) - MATRIX, set(), "transitions outside of the matrix")
    ensure(len(set(seen())) >= 11, seen())
    equal([event["state_seq"] for event in stream.log if event.type == "state.changed"], list(range(1, len(seen()) + 1)), "state_seq")
    await stream.leave()


async def vip_022_trigger_events_carry_the_state_seq_that_they_bring(world):
    """6: the value in force after the event; V7."""
    stream = await world.talk()
    await say(stream, "press help.open")
    await resolve(stream, await invoked(stream, "help.open"))
    await reply(stream)
    equal(stream.stale, [], "triggers with the value from before")
    await stream.leave()


async def vip_021_states_have_the_upstream_names(world):
    stream = await world.talk()
    await turn(stream, "say hello")
    ensure({event["state"] for event in stream.log if event.type == "state.changed"} == {ID, US, AT, AS}, "states")
    await stream.leave()


async def events_of_the_same_turn_that_come_late_are_ignored(world):
    """The cells `∅ same turn`."""
    stream = await world.talk()
    started = await listen(stream)
    await stream.send("input.start", {"mode": "text", "trigger": "text"}, turn_id=started)
    await stream.send("input.barge_in", {"trigger": "manual"}, turn_id=started)
    equal(await stream.barrier(), [], "in user_speaking")
    await conclude(stream, started, "hang")
    await stream.send("input.end", {"reason": "text"}, turn_id=started)
    equal(await stream.barrier(), [], "input.end in ai_thinking")
    await stream.close()
    stream = await world.talk()
    last = await say(stream, "sentences 12")
    await speaking(stream)
    await stream.send("input.end", {"reason": "text"}, turn_id=last)
    codes = [event["code"] for event in await stream.barrier() if event.code]
    equal(codes, [], "input.end in ai_speaking")
    await stream.close()
    stream = await world.talk()
    last = await say(stream, "press help.open")
    invoke = await invoked(stream, "help.open")
    await stream.send("input.end", {"reason": "text"}, turn_id=last)
    equal(await stream.barrier(), [], "input.end in invoke_action")
    await resolve(stream, invoke)
    await reply(stream)
    await stream.send("input.end", {"reason": "text"}, turn_id=last)
    equal(await stream.barrier(), [], "input.end in idle")
    started = await listen(stream)
    await stream.send("input.cancel", {"reason": "user"}, turn_id=started)
    await stream.expect("state.changed", state=ID)
    await stream.send("input.cancel", {"reason": "user"}, turn_id=started)
    equal(await stream.barrier(), [], "input.cancel in idle")
    await stream.leave()


async def everything_of_a_turn_may_come_at_once(world):
    """A client does not wait for signals: `state_seq` is older than the state that the events meet."""
    stream = await world.talk()
    typed = fresh("t")
    await stream.send("input.start", {"mode": "text", "trigger": "text"}, turn_id=typed)
    await stream.send("input.text", {"text": "say ", "final": False}, turn_id=typed)
    await stream.send("input.text", {"text": "at once"}, turn_id=typed)
    await stream.send("input.end", {"reason": "text"}, turn_id=typed)
    await stream.expect("state.changed", state=US)
    await stream.expect("state.changed", state=AT)
    complete = await stream.expect("input.complete", turn_id=typed)
    equal(complete["text"].split(), ["say", "at", "once"], "the text of the turn")
    await reply(stream)
    await stream.leave()


async def vip_025_five_invalid_transitions_are_fatal(world):
    stream = await world.talk()
    for number in range(5):
        await stream.send("input.cancel", {"reason": "user"}, turn_id=fresh("t"))
        if number < 4:
            await stream.error("PROTO_INVALID_TRANSITION")
    await stream.dies(4400, "PROTO_TOO_MANY_VIOLATIONS")
    ensure([event["code"] for event in stream.log if event.code].count("PROTO_INVALID_TRANSITION") in (4, 5), stream.log)


async def vip_025_a_violation_cannot_be_washed_off_by_coming_back(world):
    stream = await world.talk()
    for _ in range(4):
        await stream.send("input.cancel", {"reason": "user"}, turn_id=fresh("t"))
        await stream.error("PROTO_INVALID_TRANSITION")
    equal(await turn(stream, "say fine"), "fine", "the session goes on")
    await stream.leave()


async def vip_030_a_timeout_without_speech_goes_to_idle(world):
    """T1, from the client, in its two forms."""
    stream = await world.talk()
    await listen(stream, "voice", "ptt", stream_id=1)
    await stream.send("input.timeout", {"speech_seen": False})
    events = [await stream.next(), await stream.next()]
    equal({event.type for event in events}, {"state.changed", "error.recoverable"}, f"T1: {events}")
    changed, error = sorted(events, key=lambda event: event.type, reverse=True)
    equal((changed["state"], changed["previous"], changed["trigger"]), (ID, US, "input.cancel"), "T1")
    equal(error["code"], "REC_NO_SPEECH", "T1")
    started = await listen(stream)
    await stream.send("input.text", {"text": "say heard"}, turn_id=started)
    await stream.send("input.timeout", {"speech_seen": True})
    await stream.expect("state.changed", state=AT, previous=US, trigger="input.end")
    await stream.expect("input.complete", text="say heard")
    await reply(stream)
    await stream.leave()


async def vip_030_the_server_keeps_the_listen_limit(world):
    stream = await world.talk()
    for mode, more in (("voice", {"stream_id": 3}), ("text", {})):
        began = time.monotonic()
        await listen(stream, mode, "ptt" if mode == "voice" else "text", timeout_ms=1500, **more)
        timeout = await stream.next(patience=10)
        if timeout.type == "input.timeout":
            equal(timeout["speech_seen"], False, "speech_seen")
        events = [timeout] + [await stream.next() for _ in range(1 if timeout.type != "input.timeout" else 2)]
        ensure(time.monotonic() - began >= 1.3, "before its time")
        equal(stream.state, ID, f"after the limit: {events}")
        ensure(any(event.code == "REC_NO_SPEECH" for event in events), "no REC_NO_SPEECH:", events)
    equal(await turn(stream, "say still here"), "still here", "afterwards")
    await stream.leave()


async def r1_input_start_that_crossed_an_announcement_is_a_barge_in(world):
    stream = await world.open(activate_on="connect")
    await stream.connect()
    await stream.ready(TREE())
    before = stream.state_seq
    await stream.expect("server.announce", reason="intro")
    await stream.expect("state.changed", state=AS, previous=ID, trigger="server.announce")
    crossed = fresh("t")
    await stream.send("input.start", {"mode": "text", "trigger": "text"}, turn_id=crossed, state_seq=before if before < stream.state_seq else 1)
    await stream.until("state.changed", state=US, previous=AS, trigger="input.barge_in")
    await stream.barrier()
    await conclude(stream, crossed, "say your floor")
    await reply(stream)
    # With the state that is in force it is no accident.
    await say(stream, "sentences 12")
    await speaking(stream)
    id = await stream.send("input.start", {"mode": "text", "trigger": "text"}, turn_id=fresh("t"))
    await refused(stream, id, AS)
    await stream.leave()


async def r2_a_barge_in_after_the_end_of_playback_is_a_start(world):
    stream = await world.talk()
    await say(stream, "say short")
    response = await speaking(stream)
    done = await stream.until("response.done")
    before = stream.state_seq
    await stream.send("audio.complete", {"response_id": response.id, "played_ms": int(response.ms)})
    late = fresh("t")
    await stream.send("input.barge_in", {"trigger": "manual", "response_id": response.id, "played_ms": int(response.ms)}, turn_id=late, state_seq=before)
    await stream.expect("state.changed", state=ID)
    await stream.expect("state.changed", state=US, previous=ID, trigger="input.start")
    await retype(stream, late, "say on")
    await reply(stream)
    equal(done["status"], "complete", "status")
    await stream.leave()


async def vip_037_a_barge_in_that_crossed_an_invocation_is_refused(world):
    """R3."""
    stream = await world.talk()
    await say(stream, "press help.open")
    before = stream.state_seq
    invoke = await invoked(stream, "help.open")
    early = fresh("t")
    id = await stream.send("input.barge_in", {"trigger": "manual"}, turn_id=early, state_seq=before)
    error = await stream.error("PROTO_INVALID_TRANSITION", about=id)
    equal(error["details"]["state"], IA, "details.state")
    await stream.send("action.result", {**result_of(invoke, "ACT_USER_INTERRUPTED"), "executed": False})
    await stream.send("input.barge_in", {"trigger": "manual"}, turn_id=early)
    await stream.expect("state.changed", state=AT, previous=IA, trigger="action.result")
    await stream.until("state.changed", state=US, trigger="input.barge_in")
    await stream.barrier()
    await retype(stream, early, "say on")
    equal((await reply(stream)).get("text"), "on", "the answer")
    await stream.leave()


HELPERS = ("refused", "cell", "row", "reach")
CHECKS = [check for name, check in list(globals().items()) if asyncio.iscoroutinefunction(check) and check.__module__ == __name__ and name not in HELPERS and name == check.__name__]
