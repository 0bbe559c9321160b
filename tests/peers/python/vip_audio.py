"""Audio that comes in: section 5, and what is heard in it."""

import array
import functools
import math
import random
import subprocess
import tempfile
import wave

from vip_world import *


@functools.cache
def spoken(text, rate=16000, voice="slt"):
    """Samples of flite saying something, or of espeak-ng, mono, 16 bit."""
    with tempfile.NamedTemporaryFile(suffix=".wav") as file:
        program = ["espeak-ng", "-w", file.name, text] if voice == "espeak" else ["flite", "-voice", voice, "-t", text, "-o", file.name]
        subprocess.run(program, check=True)
        with wave.open(file.name) as sound:
            equal((sound.getnchannels(), sound.getsampwidth()), (1, 2), "speech")
            samples, had = array.array("h", sound.readframes(sound.getnframes())), sound.getframerate()
    if had == rate:
        return samples.tobytes()
    return array.array("h", (samples[min(len(samples) - 1, int(n * had / rate))] for n in range(int(len(samples) * rate / had)))).tobytes()


def silence(ms, rate=16000):
    return b"\0\0" * (rate * ms // 1000)


def noise(ms, level=3000, rate=16000):
    random.seed(7)
    return array.array("h", (random.randint(-level, level) for _ in range(rate * ms // 1000))).tobytes()


def tone(ms, rate=16000):
    return array.array("h", (int(8000 * math.sin(n / 9)) for n in range(rate * ms // 1000))).tobytes()


class Microphone:
    """Frames of one stream."""

    def __init__(self, stream, id, rate=16000, chunks=False):
        self.stream, self.id, self.size, self.chunks, self.seq = stream, id, rate // 50 * 2, chunks, 0

    async def send(self, pcm, flags=0, pace=0.8):
        """In frames of 20 ms, a little faster than real time."""
        began = time.monotonic()
        for number, start in enumerate(range(0, len(pcm), self.size)):
            await self.frame(pcm[start : start + self.size], flags)
            ahead = number * 0.02 * pace - (time.monotonic() - began)
            if ahead > 0.05:
                await asyncio.sleep(ahead)

    async def frame(self, payload, flags=0):
        if self.chunks:
            await self.stream.send("audio.chunk", {"stream_id": self.id, "seq": self.seq, "offset_ms": self.seq * 20, "flags": flags, "audio": base64.b64encode(payload).decode()})
        else:
            await self.stream.raw(frame(self.id, self.seq, self.seq * 20, payload, flags))
        self.seq += 1

    async def end(self):
        await self.frame(b"", END)


async def speak(stream, text, id=1, **more):
    """S2: a spoken turn, until input.complete."""
    await stream.send("input.detected", {"origin": "client", "confidence": 0.9, "level_db": -20})
    started = await listen(stream, "voice", "vad", stream_id=id, **more)
    microphone = Microphone(stream, id)
    await microphone.send(silence(200) + spoken(text) + silence(300))
    await microphone.end()
    await stream.send("input.end", {"reason": "silence"}, turn_id=started)
    await stream.until("state.changed", state=AT, previous=US, trigger="input.end")
    return await stream.expect("input.complete", turn_id=started)


def close_to(heard, said):
    words = lambda text: set("".join(letter if letter.isalnum() else " " for letter in text.lower()).split())
    return len(words(heard) & words(said)) / len(words(said)) >= 0.5


async def s2_what_is_said_is_heard(world):
    stream = await world.talk()
    for number, text in enumerate(("open the settings", "what is in my shopping cart"), 1):
        complete = await speak(stream, text, number)
        ensure(close_to(complete["text"], text), f"said {text!r}, heard", complete)
        await reply(stream)
    said = [item["text"] for item in await world.history(stream.session) if item["role"] == "user"]
    equal(len(said), 2, "turns in the history")
    await stream.leave()


async def s2_every_input_format_is_heard(world):
    text = "open the settings"
    for format in world.discovery["audio"]["input"]:
        if not format.startswith("pcm16"):
            continue
        rate = int(format.split("/")[1])
        stream = await world.talk(audio={**FORMATS, "input_formats": [format]})
        started = await listen(stream, "voice", "ptt", stream_id=9)
        microphone = Microphone(stream, 9, rate)
        await microphone.send(silence(200, rate) + spoken(text, rate) + silence(200, rate))
        await stream.send("input.end", {"reason": "ptt_release"}, turn_id=started)
        await stream.expect("state.changed", state=AT)
        complete = await stream.expect("input.complete")
        ensure(close_to(complete["text"], text), f"{format}: heard", complete)
        await stream.close()


async def base64_chunks_are_heard(world):
    stream = await world.talk(audio={**FORMATS, "framing": "base64"})
    started = await listen(stream, "voice", "ptt", stream_id=1)
    # 50 events a second are all that is allowed: bigger pieces.
    microphone = Microphone(stream, 1, 16000 * 5, chunks=True)
    microphone.size = 3200
    pcm = silence(200) + spoken("open the settings") + silence(300)
    for number, start in enumerate(range(0, len(pcm), 3200)):
        await stream.send("audio.chunk", {"stream_id": 1, "seq": number, "offset_ms": number * 100, "audio": base64.b64encode(pcm[start : start + 3200]).decode()})
        await asyncio.sleep(0.08)
    await stream.send("input.end", {"reason": "ptt_release"}, turn_id=started)
    await stream.until("state.changed", state=AT)
    complete = await stream.until("input.complete")
    ensure(close_to(complete["text"], "open the settings"), "heard", complete)
    await stream.close()


async def server_vad_ends_the_turn(world):
    stream = await world.talk(turn_detection={"type": "server_vad", "silence_ms": 500})
    started = await listen(stream, "voice", "vad", stream_id=1)
    microphone = Microphone(stream, 1)
    task = asyncio.create_task(microphone.send(silence(300) + spoken("open the settings") + silence(1800), pace=1.0))
    end = await stream.until("input.end", reason="silence")
    await stream.expect("state.changed", state=AT, previous=US, trigger="input.end")
    complete = await stream.expect("input.complete", turn_id=started)
    ensure(close_to(complete["text"], "open the settings"), "heard", complete)
    await task
    # R4: what was under way when the server ended the turn is dropped without a word.
    ensure(not any(event.code for event in stream.log), "R4:", [event for event in stream.log if event.code])
    ensure(any(event.type == "input.detected" and event["origin"] == "server" for event in stream.log), "no input.detected of the server")
    equal(end["reason"], "silence", "reason")
    await stream.close()


async def server_vad_hears_a_barge_in(world):
    stream = await world.talk(turn_detection={"type": "server_vad", "interrupt_response": True})
    await say(stream, "sentences 40")
    response = await speaking(stream)
    await stream.wait(lambda: response.ms > 2000, "audio")
    microphone = Microphone(stream, 77)
    task = asyncio.create_task(microphone.send(silence(400) + spoken("stop it right now please and open the settings"), MONITOR, pace=1.0))
    heard = await stream.until("input.barge_in", origin="server")
    turn_id = heard.value.get("turn_id")
    ensure(turn_id, "11: without the new turn_id:", heard.value)
    await stream.send("input.barge_in", {"trigger": "vad", "origin": "client", "response_id": response.id, "played_ms": 1500, "stream_id": 78}, turn_id=turn_id)
    await stream.until("state.changed", state=US, previous=AS, trigger="input.barge_in")
    interrupted = await stream.until("audio.interrupted")
    equal(interrupted["truncated_at_ms"], 1500, "truncated_at_ms")
    await stream.until("response.done", status="incomplete")
    task.cancel()
    await stream.close()


async def server_vad_does_not_wait_for_ever_for_the_client(world):
    stream = await world.talk(turn_detection={"type": "server_vad", "interrupt_response": True})
    await say(stream, "sentences 40")
    response = await speaking(stream)
    await stream.wait(lambda: response.ms > 2000, "audio")
    task = asyncio.create_task(Microphone(stream, 77).send(silence(400) + spoken("stop it right now please and open the settings"), MONITOR, pace=1.0))
    heard = await stream.until("input.barge_in", origin="server")
    changed = await stream.until("state.changed", state=US, previous=AS, patience=8)
    ensure(changed.at - heard.at < 3, "after", changed.at - heard.at)
    task.cancel()
    await stream.close()


async def server_vad_is_not_interrupted_by_noise(world):
    stream = await world.talk(turn_detection={"type": "server_vad", "interrupt_response": True})
    await say(stream, "sentences 8")
    response = await speaking(stream)
    await Microphone(stream, 77).send(silence(300) + noise(1500, 200) + silence(300), MONITOR, pace=1.0)
    await stream.wait(lambda: response.done, "response.done", 60)
    equal(response.done["status"], "complete", "status")
    ensure(not any(event.type == "input.barge_in" for event in stream.log), "noise is taken for speech")
    await stream.close()


async def vip_064_silence_is_no_speech(world):
    stream = await world.talk()
    for sound in (silence(1500), b"", silence(20)):
        started = await listen(stream, "voice", "ptt", stream_id=stream.state_seq)
        await Microphone(stream, stream.state_seq - 1).send(sound)
        await stream.send("input.end", {"reason": "ptt_release"}, turn_id=started)
        await stream.expect("state.changed", state=AT)
        await stream.error("REC_NO_SPEECH", "REC_AUDIO_QUALITY")
        await stream.expect("state.changed", state=ID, previous=AT, trigger="error.recoverable")
    equal(await turn(stream, "say on"), "on", "afterwards")
    ensure(len([item for item in await world.history(stream.session) if item["role"] == "user"]) == 1, "silence became a turn of the history")
    await stream.leave()


async def vip_064_noise_is_no_match(world):
    stream = await world.talk()
    for sound in (noise(2000), tone(1500)):
        started = await listen(stream, "voice", "ptt", stream_id=stream.state_seq)
        await Microphone(stream, stream.state_seq - 1).send(sound)
        await stream.send("input.end", {"reason": "ptt_release"}, turn_id=started)
        await stream.expect("state.changed", state=AT)
        event = await stream.next()
        if event.type == "input.complete":
            # A recogniser may understand something in noise; then it is a turn as any other.
            await reply(stream)
        else:
            ensure(event.code in ("REC_NO_SPEECH", "REC_NO_MATCH", "REC_LOW_CONFIDENCE", "REC_AUDIO_QUALITY"), event)
            await stream.expect("state.changed", state=ID, previous=AT, trigger="error.recoverable")
    await stream.leave()


async def vip_068_bad_frames_are_dropped_and_the_connection_stays(world):
    stream = await world.talk()
    await listen(stream, "voice", "ptt", stream_id=5, timeout_ms=60000)
    pcm = silence(20)
    bad = {
        "unknown stream": frame(6, 0, 0, pcm),
        "kind of the server": frame(5, 0, 0, pcm, kind=2),
        "kind 0": frame(5, 0, 0, pcm, kind=0),
        "kind 3": frame(5, 0, 0, pcm, kind=3),
        "version 2": frame(5, 0, 0, pcm, version=2),
        "version 0": frame(5, 0, 0, pcm, version=0),
        "odd PCM": frame(5, 0, 0, pcm[:-1]),
        "no header": b"",
        "half a header": frame(5, 0, 0)[:11],
        "stream 0": frame(0, 0, 0, pcm),
        "a stream of the server": frame(40000, 0, 0, pcm),
        "little-endian": struct.pack("<BBHII", 0x11, 0, 5, 0, 0)[:2] + struct.pack("<HII", 5, 0, 0) + pcm,
    }
    wrong = []
    for what, message in bad.items():
        # Errors of this kind are told once a second at most.
        await asyncio.sleep(1.1)
        await stream.raw(message)
        events = await stream.barrier()
        if [event.code for event in events] != ["PROTO_BAD_AUDIO_FRAME"]:
            wrong.append((what, events))
    equal(wrong, [], "VIP-067, VIP-068")
    equal(stream.state, US, "state")
    # V10 is fine.
    for message in ("1100000500000000000000000100ffff", "110100050000000100000014"):
        await stream.raw(bytes.fromhex(message))
    equal(await stream.barrier(), [], "V10")
    await stream.leave()


async def vip_067_headers_are_big_endian_in_both_directions(world):
    """V10, and what the server sends: the client reads every header that way."""
    stream = await world.talk()
    await listen(stream, "voice", "ptt", stream_id=1)
    for message in ("1100000100000000000000000100ffff", "1100000100000001000000140000"):
        await stream.raw(bytes.fromhex(message))
    equal(await stream.barrier(), [], "V10")
    await stream.raw(bytes.fromhex("1100010000000000000000000100ffff"))
    equal([event.code for event in await stream.barrier()], ["PROTO_BAD_AUDIO_FRAME"], "stream 256, which is 1 the other way round")
    await stream.close()
    stream = await world.talk()
    await say(stream, "say This is long enough for some frames.")
    response = await speaking(stream)
    await finish(stream, response)
    ensure(len(response.frames) > 20 and response.frames[-1].offset > 256, "too short to tell")
    await stream.leave()


async def vip_029_audio_outside_of_its_window_is_refused(world):
    from vip_socket import reach

    for state in (CO, ID, AT, AS, IA):
        stream = await reach(world, state)
        if state in (AT, AS, IA):
            # A typed turn has no stream.
            await asyncio.sleep(0.1)
        await stream.raw(frame(1, 0, 0, silence(20)))
        codes = [event.code for event in await stream.barrier() if event.code]
        ensure(codes in (["PROTO_AUDIO_FORBIDDEN_STATE"], ["PROTO_INVALID_TRANSITION"] if state == CO else None), f"audio in {state}: {codes}")
        # MONITOR is for server VAD alone.
        await asyncio.sleep(1.1)
        await stream.raw(frame(2, 0, 0, silence(20), MONITOR))
        codes = [event.code for event in await stream.barrier() if event.code]
        ensure(codes in (["PROTO_AUDIO_FORBIDDEN_STATE"], ["PROTO_INVALID_TRANSITION"] if state == CO else None), f"monitoring in {state}: {codes}")
        await stream.close()


async def vip_029_audio_in_a_typed_turn(world):
    stream = await world.talk()
    await listen(stream)
    await stream.raw(frame(1, 0, 0, silence(20)))
    codes = [event.code for event in await stream.barrier()]
    ensure(codes in (["PROTO_BAD_AUDIO_FRAME"], ["PROTO_AUDIO_FORBIDDEN_STATE"]), codes)
    await stream.leave()


async def vip_089_speech_may_arrive_all_at_once_after_a_stall(world):
    stream = await world.talk()
    await listen(stream, "voice", "ptt", stream_id=1)
    for seq in range(400):
        await stream.raw(frame(1, seq, seq * 20, silence(20)))
    await stream.wait(lambda: any(event.code == "RATE_AUDIO" for event in stream.log), "RATE_AUDIO for eight seconds at once")
    await stream.barrier()
    equal([event.code for event in stream.log if event.code], ["RATE_AUDIO"], "complaints about one burst")
    await stream.leave()


async def streams_have_to_be_of_the_client(world):
    stream = await world.talk()
    for id in (0, 32768, 65535, -1, "1"):
        await stream.send("input.start", {"mode": "voice", "trigger": "ptt", "stream_id": id}, turn_id=fresh("t"))
        event = await stream.next()
        ensure(event.code == "PROTO_MALFORMED", f"stream_id {id!r} was answered with", event)
        if id == 32768:
            stream = await world.talk()
    await stream.close()


async def preroll_is_bounded(world):
    stream = await world.talk()
    await stream.send("input.start", {"mode": "voice", "trigger": "vad", "stream_id": 1, "preroll_ms": 501}, turn_id=fresh("t"))
    await stream.error("PROTO_MALFORMED")
    started = await listen(stream, "voice", "vad", stream_id=1, preroll_ms=500)
    await stream.send("input.cancel", {"reason": "muted"}, turn_id=started)
    await stream.expect("state.changed", state=ID)
    await stream.leave()


async def a_cancelled_turn_is_forgotten(world):
    stream = await world.talk()
    started = await listen(stream, "voice", "ptt", stream_id=1)
    await Microphone(stream, 1).send(spoken("open the settings"), pace=0.5)
    await stream.send("input.cancel", {"reason": "user"}, turn_id=started)
    await stream.until("state.changed", state=ID, trigger="input.cancel")
    await stream.idle_for(2)
    equal([item for item in await world.history(stream.session) if item["kind"] == "message"], [], "history")
    await stream.leave()


async def a_turn_lasts_at_most_60_s(world):
    stream = await world.talk()
    await listen(stream, "voice", "ptt", stream_id=1, timeout_ms=8000)
    microphone = Microphone(stream, 1)
    pcm = (spoken("this is a very long story and it goes on and on") + silence(200)) * 40
    task = asyncio.create_task(microphone.send(pcm, pace=0.98))
    began = time.monotonic()
    changed = await stream.until("state.changed", previous=US, patience=80)
    ensure(50 < time.monotonic() - began < 75, "after", time.monotonic() - began)
    equal((changed["state"], changed["trigger"]), (AT, "input.end"), "the end of the turn")
    task.cancel()
    await stream.close()


async def vip_030_a_voice_turn_with_speech_ends_by_its_timeout(world):
    stream = await world.talk()
    await listen(stream, "voice", "ptt", stream_id=1)
    await Microphone(stream, 1).send(spoken("open the settings"), pace=0.9)
    await stream.send("input.timeout", {"speech_seen": True})
    await stream.until("state.changed", state=AT, previous=US, trigger="input.end")
    await stream.until("input.complete")
    await stream.close()


async def rec_mic_unavailable_can_be_reported(world):
    """11, Fallback: an error from the client, and typing."""
    stream = await world.talk()
    await stream.send("error.recoverable", {"code": "REC_MIC_UNAVAILABLE", "category": "recognition", "message": "no microphone", "fatal": False, "retryable": False})
    equal(await stream.barrier(), [], "answers to an error of the client")
    equal(await turn(stream, "say typed"), "typed", "the answer")
    await stream.leave()


async def an_answer_to_speech_can_be_interrupted_by_speech(world):
    stream = await world.talk()
    await speak(stream, "open the settings", 1)
    response = await speaking(stream)
    barged = fresh("t")
    await stream.send("input.detected", {"origin": "client"})
    await stream.send("input.barge_in", {"trigger": "vad", "response_id": response.id, "played_ms": 100, "stream_id": 2, "preroll_ms": 200}, turn_id=barged)
    microphone = Microphone(stream, 2)
    await microphone.send(spoken("what is in my cart") + silence(200))
    await microphone.end()
    await stream.send("input.end", {"reason": "silence"}, turn_id=barged)
    complete = await stream.until("input.complete", turn_id=barged)
    ensure(close_to(complete["text"], "what is in my cart"), "heard", complete)
    await reply(stream)
    await stream.leave()


HELPERS = ("speak",)
ALL = [check for name, check in list(globals().items()) if asyncio.iscoroutinefunction(check) and check.__module__ == __name__ and name not in HELPERS]
PATIENT = [a_turn_lasts_at_most_60_s]
CHECKS = [check for check in ALL if check not in PATIENT]
