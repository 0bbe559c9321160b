"""Turns, answers and barge-in: sections 10.4 and 11, with typed input."""

from vip_world import *


async def s2_an_answer_comes_in_its_order(world):
    """VIP-069, VIP-070."""
    stream = await world.talk()
    typed = await say(stream, "sentences 2")
    response = await speaking(stream)
    equal(response.opened.get("in_reply_to", typed), typed, "in_reply_to")
    done = await finish(stream, response)
    ensure("sentence number 2" in done.get("text", response.caption), done)
    kinds = [event.type for event in stream.log if event.type not in FLEETING and event.get("response_id") == response.id]
    spoken = response.opened.get("modality", "audio") == "audio"
    equal(kinds, ["response.audio", *(["audio.start", "audio.end"] if spoken else []), "response.done"], "S2")
    for metric, value in done.get("latency_metrics", {}).items():
        ensure(0 <= value < 30_000, metric, value)
    await stream.leave()


async def vip_069_audio_is_framed_by_its_events(world):
    """The client looks at every frame; here is that there are some, and how long they last."""
    stream = await world.talk()
    await say(stream, "sentences 3")
    response = await speaking(stream)
    await finish(stream, response)
    ensure(response.frames, "nothing is spoken")
    ensure(1500 < response.ms < 15_000, "three sentences last", response.ms)
    ensure(max(response.audio) > 20, "silence")
    equal({len(one.payload) for one in response.frames[:-2]}, {960}, "20 ms of pcm16/24000")
    await stream.leave()


async def vip_069_every_output_format_is_spoken(world):
    for format in world.discovery["audio"]["output"]:
        stream = await world.talk(audio={**FORMATS, "output_formats": [format]})
        await say(stream, "say This is how it sounds.")
        response = await speaking(stream)
        await finish(stream, response)
        ensure(response.frames and 500 < response.ms < 8000, format, response.ms)
        if format.startswith("opus"):
            ensure(all(len(one.payload) <= 1275 for one in response.frames), "an Opus packet is too large")
        await stream.leave()


async def base64_framing_carries_the_same(world):
    stream = await world.talk(audio={**FORMATS, "framing": "base64"})
    await say(stream, "say This is how it sounds.")
    response = await speaking(stream)
    await finish(stream, response)
    ensure(response.frames and any(event.type == "audio.chunk" for event in stream.log), "no audio.chunk")
    await stream.leave()


async def output_is_at_most_5_s_ahead(world):
    """5.3; the client measures, here is an answer that is long enough."""
    stream = await world.talk()
    await say(stream, "sentences 12")
    response = await speaking(stream)
    await stream.wait(lambda: response.done, "response.done", 90)
    ensure(response.ms > 8000, "too short for this check:", response.ms)
    ensure(response.end.at - response.frames[0].at > (response.ms - 5600) / 1000, "sent in", response.end.at - response.frames[0].at)
    await stream.send("audio.complete", {"response_id": response.id, "played_ms": int(response.ms)})
    await stream.until("state.changed", state=ID)
    await stream.leave()


async def vip_033_barge_in_stops_the_output(world):
    """S5: VIP-028, VIP-034, VIP-035."""
    stream = await world.talk()
    await say(stream, "sentences 40 every 100")
    response = await speaking(stream)
    await stream.wait(lambda: response.ms > 3000, "three seconds of audio")
    barged, sent = fresh("t"), time.monotonic()
    await stream.send("input.barge_in", {"trigger": "vad", "response_id": response.id, "played_ms": 1800, "confidence": 0.9, "stream_id": 5}, turn_id=barged)
    changed = await stream.until("state.changed", state=US, previous=AS, trigger="input.barge_in")
    equal(changed.get("turn_id", barged), barged, "turn_id")
    ensure(response.frames[-1].at - sent < 1.0, "a frame", response.frames[-1].at - sent, "s after the barge-in")
    interrupted = await stream.expect("audio.interrupted", response_id=response.id)
    equal(interrupted["truncated_at_ms"], 1800, "truncated_at_ms")
    ensure(interrupted["spoken_text"] and interrupted["spoken_text"].startswith("This is") and len(interrupted["spoken_text"]) < 200, "spoken_text", interrupted)
    await stream.expect("response.done", response_id=response.id, status="incomplete")
    stream.inbox.clear()
    await stream.idle_for(1.5)
    await stream.send("input.cancel", {"reason": "user"}, turn_id=barged)
    await stream.expect("state.changed", state=ID, previous=US, trigger="input.cancel")
    await stream.idle_for(1)
    answer = next(item for item in await world.history(stream.session) if item["role"] == "assistant" and item["kind"] == "message")
    equal((answer["status"], answer["text"].strip()), ("incomplete", interrupted["spoken_text"].strip()), "VIP-035: history")
    # Another turn begins afresh, and the old answer is never finished.
    count = len(stream.session.responses)
    equal(await turn(stream, "say fresh"), "fresh", "the next answer")
    equal(len(stream.session.responses), count + 1, "responses")
    await stream.leave()


async def vip_033_what_was_played_decides_what_was_said(world):
    stream = await world.talk()
    for played in (0, 10**9):
        await say(stream, "sentences 30")
        response = await speaking(stream)
        await stream.wait(lambda: response.ms > 2500, "audio")
        barged = fresh("t")
        await stream.send("input.barge_in", {"trigger": "manual", "response_id": response.id, "played_ms": played}, turn_id=barged)
        await stream.until("state.changed", state=US)
        interrupted = await stream.expect("audio.interrupted")
        ensure(interrupted["truncated_at_ms"] <= response.ms + 40, "more was played than sent:", interrupted)
        if played == 0:
            equal(interrupted["spoken_text"].strip(), "", "nothing was heard")
        await stream.expect("response.done", status="incomplete")
        await stream.send("input.cancel", {"reason": "user"}, turn_id=barged)
        await stream.expect("state.changed", state=ID)
    await stream.leave()


async def interrupted_one(world):
    """An answer of which somebody has heard 1.5 s."""
    stream = await world.talk()
    await say(stream, "sentences 40 every 100")
    response = await speaking(stream)
    await stream.wait(lambda: response.ms > 2500, "audio")
    barged = fresh("t")
    await stream.send("input.barge_in", {"trigger": "manual", "response_id": response.id, "played_ms": 1500}, turn_id=barged)
    await stream.until("state.changed", state=US)
    return stream, response, barged


async def vip_028_nothing_is_heard_while_the_user_speaks(world):
    stream, response, barged = await interrupted_one(world)
    await stream.barrier()
    heard = len(response.frames)
    await stream.idle_for(2.5)
    equal(len(response.frames), heard, "frames")
    await stream.send("input.cancel", {"reason": "user"}, turn_id=barged)
    await stream.until("state.changed", state=ID)
    await stream.leave()


async def vip_034_what_was_interrupted_is_not_taken_up_again(world):
    stream, response, barged = await interrupted_one(world)
    await retype(stream, barged, "say something else")
    done = await reply(stream)
    equal(done["text"], "something else", "the next answer")
    await stream.idle_for(2)
    late = [event for event in stream.log if event.seq > response.done.seq and event.get("response_id") == response.id]
    equal(late, [], "events of what was interrupted")
    await stream.leave()


async def vip_035_the_history_keeps_what_was_heard(world):
    stream, response, barged = await interrupted_one(world)
    await stream.barrier()
    item = next(item for item in await world.history(stream.session) if item["role"] == "assistant" and item["kind"] == "message")
    equal((item["status"], item["text"]), ("incomplete", response.interrupted["spoken_text"]), "history")
    ensure(0 < len(item["text"]) < 100, "1.5 s of speech:", item["text"])
    await stream.close()


async def vip_035_what_was_sent_wholly_but_not_heard_is_incomplete_too(world):
    """A barge-in between response.done and audio.complete."""
    stream = await world.talk()
    await say(stream, "sentences 3")
    response = await speaking(stream)
    await stream.until("response.done", status="complete")
    barged = fresh("t")
    await stream.send("input.barge_in", {"trigger": "manual", "response_id": response.id, "played_ms": 2500}, turn_id=barged)
    await stream.expect("state.changed", state=US, previous=AS, trigger="input.barge_in")
    interrupted = await stream.expect("audio.interrupted", response_id=response.id, truncated_at_ms=2500)
    equal(await stream.barrier(), [], "besides: response.done comes once")
    item = next(item for item in await world.history(stream.session) if item["role"] == "assistant" and item["kind"] == "message")
    equal((item["status"], item["text"].strip()), ("incomplete", interrupted["spoken_text"].strip()), "history")
    ensure("number 1" in item["text"] and "number 3" not in item["text"], "2.5 s of three sentences:", item)
    await stream.send("input.cancel", {"reason": "user"}, turn_id=barged)
    await stream.expect("state.changed", state=ID)
    await turn(stream, "say on")
    await stream.leave()


async def vip_070_every_response_is_done_once(world):
    """The client counts; here are the ways in which one can end."""
    stream = await world.talk()
    await turn(stream, "say fine")
    for request in ("fail after 3", "sentences 30"):
        await say(stream, request)
        response = await speaking(stream)
        if request == "sentences 30":
            barged = fresh("t")
            await stream.send("input.barge_in", {"trigger": "manual", "played_ms": 0}, turn_id=barged)
            await stream.until("state.changed", state=US)
            await stream.send("input.cancel", {"reason": "user"}, turn_id=barged)
        else:
            await stream.wait(lambda: response.done, "response.done")
            await stream.send("audio.complete", {"response_id": response.id, "played_ms": int(response.ms)})
        await stream.until("state.changed", state=ID)
    await stream.barrier()
    equal([response.done["status"] if response.done else None for response in stream.session.responses.values()].count(None), 0, "without an end")
    equal(len([event for event in stream.log if event.type == "response.done"]), 3, "response.done")
    await stream.leave()


async def vip_036_barge_in_while_thinking_cancels_the_inference(world):
    stream = await world.talk()
    for request in ("hang", "wait 1500 then too late"):
        await say(stream, request)
        barged = fresh("t")
        await stream.send("input.barge_in", {"trigger": "manual"}, turn_id=barged)
        await stream.until("state.changed", state=US, previous=AT, trigger="input.barge_in")
        await stream.barrier()
        await asyncio.sleep(2)
        ensure(stream.state == US and not any(event.type in ("response.audio", "response.text.delta") for event in stream.inbox), "the old answer comes:", stream.inbox)
        stream.inbox.clear()
        await retype(stream, barged, "say instead")
        equal((await reply(stream)).get("text"), "instead", "the answer")
    await stream.leave()


async def barge_in_again_and_again(world):
    """Nothing is left over of what was interrupted, however fast it goes."""
    stream = await world.talk()
    await say(stream, "sentences 30")
    for number in range(8):
        if number % 2:
            await stream.wait(lambda: stream.state == AS, "ai_speaking")
        barged = fresh("t")
        await stream.send("input.barge_in", {"trigger": "manual"}, turn_id=barged)
        await stream.send("input.cancel", {"reason": "user"}, turn_id=barged)
        typed = fresh("t")
        await stream.send("input.start", {"mode": "text", "trigger": "text"}, turn_id=typed)
        await stream.send("input.text", {"text": "sentences 30"}, turn_id=typed)
        await stream.send("input.end", {"reason": "text"}, turn_id=typed)
        await stream.wait(lambda: typed in stream.session.turns, "input.complete")
    barged = fresh("t")
    await stream.send("input.barge_in", {"trigger": "manual"}, turn_id=barged)
    await stream.wait(lambda: stream.state == US, "user_speaking")
    stream.inbox.clear()
    await retype(stream, barged, "say the end")
    equal((await reply(stream)).get("text"), "the end", "the last answer")
    open_ones = [response for response in stream.session.responses.values() if response.opened and not response.done]
    equal(open_ones, [], "VIP-070: responses without response.done")
    await stream.leave()


async def stop_without_speaking(world):
    """11: `input.barge_in`, then `input.cancel`."""
    stream = await world.talk()
    await say(stream, "sentences 30")
    response = await speaking(stream)
    barged = fresh("t")
    await stream.send("input.barge_in", {"trigger": "manual", "response_id": response.id, "played_ms": 0}, turn_id=barged)
    await stream.send("input.cancel", {"reason": "user"}, turn_id=barged)
    await stream.until("state.changed", state=US)
    await stream.until("state.changed", state=ID, trigger="input.cancel")
    await stream.leave()


async def vip_064_an_error_while_thinking_leads_to_idle(world):
    stream = await world.talk()
    await say(stream, "fail")
    error = await stream.expect("error.recoverable")
    ensure(error["code"].startswith("PROV_"), error)
    await stream.expect("state.changed", state=ID, previous=AT, trigger="error.recoverable")
    await stream.barrier()
    started = await listen(stream)
    await stream.send("input.end", {"reason": "text"}, turn_id=started)
    await stream.expect("state.changed", state=AT, previous=US, trigger="input.end")
    error = await stream.error("REC_NO_SPEECH", "REC_NO_MATCH")
    await stream.expect("state.changed", state=ID, previous=AT, trigger="error.recoverable")
    equal(await turn(stream, "say alive"), "alive", "the session goes on")
    await stream.leave()


async def a_failure_in_the_middle_of_an_answer(world):
    stream = await world.talk()
    await say(stream, "fail after 2")
    response = await speaking(stream)
    done = await stream.until("response.done", response_id=response.id)
    ensure(done["status"] in ("failed", "incomplete"), done)
    await stream.send("audio.complete", {"response_id": response.id, "played_ms": int(response.ms)})
    await stream.until("state.changed", state=ID, previous=AS, trigger="audio.complete")
    await stream.leave()


async def prov_unavailable_three_times_is_fatal(world):
    stream = await world.talk()
    for number in range(3):
        await say(stream, "fail")
        event = await stream.next()
        equal(event["code"], "PROV_UNAVAILABLE", f"{event}")
        if number == 2:
            break
        await stream.until("state.changed", state=ID)
        await stream.barrier()
    await stream.dies(4502, "PROV_UNAVAILABLE")


async def an_answer_without_a_word_is_none(world):
    stream = await world.talk()
    await say(stream, "nothing")
    await stream.wait(lambda: stream.state == ID, "idle")
    changed = [event for event in stream.log if event.type == "state.changed"][-1]
    equal((changed["previous"], changed["trigger"]), (AT, "response.none"), "the transition")
    await stream.barrier()
    done = [event["status"] for event in stream.log if event.type == "response.done"]
    ensure(done in ([], ["none"]), done)
    equal(await turn(stream, "say on"), "on", "afterwards")
    await stream.leave()


async def vip_071_playback_is_over_after_its_time(world):
    """T2: remaining audio and 5 s."""
    stream = await world.talk()
    await say(stream, "say Short.")
    response = await speaking(stream)
    done = await stream.until("response.done")
    began = time.monotonic()
    changed = await stream.until("state.changed", state=ID, previous=AS, patience=response.ms / 1000 + 12)
    equal(changed["trigger"], "audio.complete", "trigger")
    ensure(time.monotonic() - began > 4, "too early:", time.monotonic() - began)
    equal(done["status"], "complete", "status")
    # The client's own word comes too late to matter.
    await stream.send("audio.complete", {"response_id": response.id, "played_ms": 10})
    equal(await stream.barrier(), [], "a late audio.complete")
    await stream.leave()


async def vip_071_audio_complete_of_something_else_is_no_end(world):
    stream = await world.talk()
    await turn(stream, "say first")
    old = list(stream.session.responses)[0]
    await say(stream, "sentences 20")
    await speaking(stream)
    await stream.send("audio.complete", {"response_id": old, "played_ms": 100})
    await stream.barrier()
    equal(stream.state, AS, "state after audio.complete of an older response")
    await stream.leave()


async def t4_without_output_in_15_s_it_is_over(world):
    stream = await world.talk()
    began = time.monotonic()
    await say(stream, "hang")
    await stream.error("PROV_TIMEOUT", patience=25)
    ensure(13 < time.monotonic() - began < 22, "after", time.monotonic() - began)
    await stream.expect("state.changed", state=ID, previous=AT, trigger="error.recoverable")
    equal(await turn(stream, "say on"), "on", "afterwards")
    await stream.leave()


async def t4_is_about_the_first_output_only(world):
    stream = await world.talk()
    await say(stream, "press help.open")
    invoke = await invoked(stream, "help.open")
    await stream.send("action.ack", {"invocation_id": invoke["invocation_id"], "started": True})
    await asyncio.sleep(8)
    await resolve(stream, invoke)
    await reply(stream)
    await stream.leave()


async def vip_081_an_introduction_comes_right_after_ready(world):
    for more, announced in (({"activate_on": "first_visit", "visit": {"first": True}}, True), ({"activate_on": "connect"}, True), ({"activate_on": "first_visit", "visit": {"first": False}}, False), ({"activate_on": "manual", "visit": {"first": True}}, False)):
        stream = await world.talk(**more)
        if not announced:
            await stream.idle_for(1)
            await stream.leave()
            continue
        announce = await stream.expect("server.announce", reason="intro")
        await stream.expect("state.changed", state=AS, previous=ID, trigger="server.announce")
        await finish(stream, stream.session.responses[announce["response_id"]])
        equal(await turn(stream, "say on"), "on", "afterwards")
        await stream.leave()


async def typed_text_is_bounded(world):
    stream = await world.talk()
    started = await listen(stream)
    id = await stream.send("input.text", {"text": "x" * 4097}, turn_id=started)
    await stream.error("PROTO_MALFORMED", about=id)
    equal(stream.state, US, "state")
    await conclude(stream, started, "say " + "ü" * 4000)
    await reply(stream)
    await stream.leave()


async def mute_changes_no_state(world):
    stream = await world.talk()
    for target in ("input", "output"):
        for muted in (True, False):
            await stream.send("control.mute", {"target": target, "muted": muted})
    equal(await stream.barrier(), [], "answers to control.mute")
    await say(stream, "sentences 12")
    response = await speaking(stream)
    await stream.send("control.mute", {"target": "output", "muted": True})
    await stream.send("audio.progress", {"response_id": response.id, "played_ms": 100})
    codes = [event["code"] for event in await stream.barrier() if event.code]
    equal((codes, stream.state), ([], AS), "in ai_speaking")
    await stream.leave()


async def the_conversation_is_remembered(world):
    stream = await world.talk(prompt={"instructions": "Speak like a pirate."}, environment="development")
    ensure("pirate" in (await turn(stream, "instructions") or ""), "the agent does not know its instructions")
    ensure("One order, A-17" in (await turn(stream, "scene") or ""), "the agent does not know the screen")
    await stream.leave()


async def many_sessions_at_once(world):
    async def one(number):
        stream = await world.talk()
        for step in range(2):
            equal(await turn(stream, f"say {number} {step}"), f"{number} {step}", "the answer")
        await stream.leave()

    await asyncio.gather(*(one(number) for number in range(12)))


ALL = [check for name, check in list(globals().items()) if asyncio.iscoroutinefunction(check) and check.__module__ == __name__]
PATIENT = [t4_without_output_in_15_s_it_is_over, t4_is_about_the_first_output_only, output_is_at_most_5_s_ahead, many_sessions_at_once]
CHECKS = [check for check in ALL if check not in PATIENT and check is not interrupted_one]
