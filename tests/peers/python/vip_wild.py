"""Clients that do anything: whatever comes, the answer is one of the reference, and the server stays what it was."""

import random

from vip_audio import Microphone, noise, silence
from vip_world import *

STRANGE = ("", "\0", "𝄞 ünïcödé \u202e", "x" * 300, "<script>", "'; DROP TABLE", "{{instructions}}", -1, 0, 2**31, 2**53, 2**63, 2**64, 1e308, 0.1, True, None, [], {}, [[]], {"a": {}}, ["x"] * 50)
EVENTS_OF_CLIENTS = {
    "client.connect": {"session_id": "vs_" + "A" * 26, "protocol_version": "0.1"},
    "state.update": {"mode": "delta", "base_version": 1, "context_version": 2, "narration": "x"},
    "input.start": {"mode": "text", "trigger": "text"},
    "input.detected": {"origin": "client"},
    "input.text": {"text": "say hello"},
    "input.end": {"reason": "text"},
    "input.cancel": {"reason": "user"},
    "input.timeout": {"speech_seen": True},
    "input.barge_in": {"trigger": "manual", "played_ms": 100},
    "audio.progress": {"response_id": "r-1.1", "played_ms": 1},
    "audio.complete": {"response_id": "r-1.1", "played_ms": 1},
    "action.ack": {"invocation_id": "i-1.1", "started": True},
    "action.result": {"invocation_id": "i-1.1", "action_id": "help.open", "status": "success", "event": "action.success", "executed": True, "duration_ms": 1},
    "control.mute": {"target": "input", "muted": True},
    "session.update": {"locale": "en-GB"},
    "session.ping": {"nonce": "n"},
    "state.report": {"state": "idle", "previous": "idle", "trigger": "x"},
    "provider.attached": {"transport": "websocket"},
    "history.append": {"items": []},
    "function.call": {"invocation_id": "i", "name": "x", "parameters": {}},
    "error.recoverable": {"code": "REC_MIC_UNAVAILABLE", "category": "recognition", "message": "x", "fatal": False, "retryable": False},
    "audio.chunk": {"stream_id": 1, "seq": 0, "offset_ms": 0, "audio": "AAAA"},
    "invoke_action": {},
}
# Ends that a client can bring about itself.
OWN_FAULT = {4400, 4401, 4403, 4408, 4410, 4429, 4502, 1003, 1007, 1009, 1000}


def spoiled(random, data):
    """The data of an event with something strange in it."""
    data = json.loads(json.dumps(data))
    for _ in range(random.randint(0, 2)):
        name = random.choice([*data, "turn_id", "stream_id", "preroll_ms", "timeout_ms", "context", "mode", "data"])
        data[name] = random.choice(STRANGE)
    return data


async def wander(world, seed, steps, orderly):
    """A client that sends whatever, sometimes in a sensible order."""
    chance = random.Random(seed)
    stream = await world.talk(turn_detection={"type": chance.choice(["client_vad", "server_vad", "manual"])})
    # Deltas may be accepted here, so that nobody knows the tree.
    stream.session.tree = None
    current, requests = "t-0", ("say hello", "sentences 5", "press help.open", "hang", "fail", "nothing", "talk and press music.play", 'press order.cancel {"order_id":"x"}')
    for number in range(steps):
        if stream.closed is not None or stream.wrong:
            break
        choice = chance.random()
        if choice < orderly:
            current = f"t-{seed}-{number}"
            match stream.state:
                case "idle":
                    await stream.send("input.start", {"mode": "text", "trigger": "text"}, turn_id=current)
                    await stream.send("input.text", {"text": chance.choice(requests)}, turn_id=current)
                    await stream.send("input.end", {"reason": "text"}, turn_id=current)
                case "ai_thinking" | "ai_speaking":
                    await stream.send("input.barge_in", {"trigger": "manual", "played_ms": chance.choice((0, 500, 10**6))}, turn_id=current)
                    if chance.random() < 0.7:
                        await stream.send("input.cancel", {"reason": "user"}, turn_id=current)
                case "invoke_action":
                    open_one = list(stream.session.invocations.values())[-1]
                    await stream.send("action.result", result_of(open_one, chance.choice((None, "ACT_EXECUTION_FAILED"))))
                case "user_speaking":
                    await stream.send("input.cancel", {"reason": "user"})
        elif choice < orderly + 0.05:
            await Microphone(stream, chance.choice((1, 2, 77))).send(chance.choice((noise(60), silence(40))), chance.choice((0, MONITOR, END, 0xFF)))
        else:
            kind = chance.choice(list(EVENTS_OF_CLIENTS))
            more = {"turn_id": chance.choice((None, current, fresh("t")))}
            if chance.random() < 0.1:
                more["state_seq"] = chance.choice((0, 1, 10**6))
            await stream.send(kind, spoiled(chance, EVENTS_OF_CLIENTS[kind]), **more)
        await asyncio.sleep(chance.choice((0, 0, 0.01, 0.05)))
    await asyncio.sleep(0.2)
    if stream.wrong:
        raise Failed(f"seed {seed}: {stream.wrong}; so far {stream.tail()}")
    if stream.closed is None:
        stream.inbox.clear()
        await stream.barrier()
        await stream.close()
    else:
        ensure(stream.closed in OWN_FAULT, f"seed {seed}: closed with", stream.closed, stream.tail())


async def whatever_a_client_sends_the_rules_hold(world):
    wrong = []

    async def one(seed):
        try:
            await wander(world, seed, 60, random.Random(seed).choice((0.3, 0.7, 0.9, 1.0)))
        except Failed as failed:
            wrong.append(str(failed)[:600])

    for start in range(0, 48, 6):
        await asyncio.gather(*(one(seed) for seed in range(start, start + 6)))
    ensure(not wrong, len(wrong), "of 48:", *wrong[:4])


async def come_and_go(world, seed, rounds=6):
    """A client whose transport breaks at any moment, and which comes back each time."""
    chance = random.Random(seed)
    stream = await world.talk()
    for number in range(rounds):
        asked = chance.choice(("say hello", "sentences 6", "sentences 20 every 40", "press help.open", "wait 300 then late", "nothing", 'press order.cancel {"order_id":"x"}', 'twice cart.add {"count":1}'))
        typed = fresh("t")
        await stream.send("input.start", {"mode": "text", "trigger": "text"}, turn_id=typed)
        await stream.send("input.text", {"text": asked}, turn_id=typed)
        await stream.send("input.end", {"reason": "text"}, turn_id=typed)
        until = time.monotonic() + chance.choice((0, 0.02, 0.1, 0.3, 0.8, 1.5))
        while time.monotonic() < until and stream.wrong is None:
            if stream.state == IA and chance.random() < 0.3:
                await stream.send("action.result", result_of(list(stream.session.invocations.values())[-1]))
            elif stream.state == AS and chance.random() < 0.05:
                await stream.send("input.barge_in", {"trigger": "manual", "played_ms": 200}, turn_id=fresh("t"))
            await asyncio.sleep(0.02)
        await stream.drop()
        if stream.wrong:
            raise Failed(f"seed {seed}: {stream.wrong}; so far {stream.tail()}")
        stream = await resume(world, stream)
        await stream.barrier()
        await stream.ready(TREE(stream.session.version + 1))
        unfinished = [response.id for response in stream.session.responses.values() if response.opened and not response.done]
        equal(unfinished, [], f"seed {seed}: responses without an end after coming back from {asked!r}")
    equal(await turn(stream, "say the end"), "the end", f"seed {seed}: the answer")
    items = await world.history(stream.session)
    ids = [item["id"] for item in items]
    twice = [item for item in items if ids.count(item["id"]) > 1]
    equal(twice, [], f"seed {seed}: items of the history that are there twice")
    said = [item["text"] for item in items if item["role"] == "assistant" and item["kind"] == "message"]
    equal(said[-1], "the end", f"seed {seed}: the last of the history")
    await stream.leave()


async def vip_074_transports_may_break_at_any_moment(world):
    wrong = []

    async def one(seed):
        try:
            await come_and_go(world, seed)
        except Failed as failed:
            wrong.append(f"seed {seed}: {str(failed)[:700]}")

    await asyncio.gather(*(one(seed) for seed in range(8)))
    ensure(not wrong, len(wrong), "of 8:", *wrong[:3])


async def strange_bodies_are_never_internal_errors(world):
    chance, wrong = random.Random(11), []
    base = {**VECTORS["V2"]}
    for _ in range(150):
        body = json.loads(json.dumps(base))
        for _ in range(chance.randint(1, 3)):
            target = body
            while chance.random() < 0.5:
                inner = [value for value in target.values() if isinstance(value, dict)]
                if not inner:
                    break
                target = chance.choice(inner)
            target[chance.choice([*target, "x"])] = chance.choice(STRANGE)
        answer = await world.ask("POST", "/v1/vip/sessions", None, None, body, world.token())
        if answer.status_code >= 500:
            wrong.append((body, answer.text))
    equal(wrong[:3], [], "5xx")


async def fragments_and_compression(world):
    """4.1: a text message may come in pieces, and compressed."""
    session = await world.create()
    socket = await connect(session.created["transport"]["websocket"]["url"], subprotocols=["vip.v1"], additional_headers=session.auth, compression="deflate", max_size=None, ping_interval=None)
    stream = Stream(session, socket)
    await stream.connect()
    tree = json.dumps({"type": "state.update", "id": "c-f", "seq": session.client_seq + 1, "ts": now(), "state_seq": 0, "data": TREE()})
    session.client_seq += 1
    await socket.send([tree[:10], tree[10:500], tree[500:]])
    await stream.expect("state.ack")
    stream.adopt(TREE())
    await stream.expect("server.ready")
    await stream.expect("state.changed", state=ID)
    equal(await turn(stream, "say fine"), "fine", "the answer")
    await stream.leave()


async def broken_text_ends_the_transport_alone(world):
    """Bytes that are no UTF-8, and frames that are no frames."""
    for payload in (b"\x81\x84\0\0\0\0\xff\xfe\xff\xfe", b"\x83\x80\0\0\0\0", b"\xff" * 40):
        stream = await world.talk()
        stream.socket.transport.write(payload)
        await stream.wait(lambda: stream.closed is not None, "an end")
        ensure(stream.closed in (1002, 1003, 1006, 1007, 4400), "closed with", stream.closed)
        other = await world.talk()
        equal(await turn(other, "say alive"), "alive", "another session")
        await other.leave()


async def a_client_that_does_not_read_is_not_waited_for(world):
    """Output that nobody takes does not pile up for ever, and disturbs nobody."""
    session = await world.create()
    socket = await connect(session.created["transport"]["websocket"]["url"], subprotocols=["vip.v1"], additional_headers=session.auth, compression=None, max_size=None, max_queue=1, ping_interval=None)
    sequence = [("client.connect", {"session_id": session.id, "protocol_version": "0.1"}, None), ("state.update", TREE(), None)]
    sequence += [("input.start", {"mode": "text", "trigger": "text"}, "t-1"), ("input.text", {"text": "sentences 200"}, "t-1"), ("input.end", {"reason": "text"}, "t-1")]
    for seq, (kind, data, turn_id) in enumerate(sequence, 1):
        event = {"type": kind, "id": f"c-{seq}", "seq": seq, "ts": now(), "state_seq": 0, "data": data}
        await socket.send(json.dumps({**event, "turn_id": turn_id} if turn_id else event))
        await asyncio.sleep(0.3)
    other = await world.talk()
    for number in range(3):
        equal(await turn(other, f"say {number}"), str(number), "the answer for somebody else")
    await other.leave()
    socket.transport.abort()


async def nothing_in_the_logs_that_should_not_be(world):
    """17: no token, nothing that was said; and no sign of a bug. Runs last."""
    text = open(f"{world.server.data}.log").read()
    for secret in ("eyJ", "hunter2", "vip.bearer", "This is sentence", "sk-long-term", DEVELOPMENT_SECRET):
        ensure(secret not in text, "in the log:", secret, text[max(0, text.find(secret) - 200) : text.find(secret) + 60])
    for bug in ("panicked", " ERROR "):
        ensure(bug not in text, "in the log:", text[max(0, text.find(bug) - 100) : text.find(bug) + 400])


CHECKS = [whatever_a_client_sends_the_rules_hold, vip_074_transports_may_break_at_any_moment, strange_bodies_are_never_internal_errors, fragments_and_compression, broken_text_ends_the_transport_alone, a_client_that_does_not_read_is_not_waited_for]
LAST = [nothing_in_the_logs_that_should_not_be]
