"""The lite profile (Appendix A): no stanzas, no acknowledgements, other spellings."""

from alicia_world import *

CHECKS = []


def check(function):
    CHECKS.append(function)
    return function


LITE_ENVELOPE = fields(("conversationId?", ident), ("type", whole(1, 65535)), ("body", mapping), ("trace_id?", ident), ("span_id?", ident), ("trace_flags?", whole(0, 255)), ("session_id?", ident), ("user_id?", ident), ordered=False)


class Lite:
    """A connection whose first envelope has no `stanzaId`."""

    def __init__(self, peer):
        self.websocket, self.inbox, self.who = peer.websocket, [], peer.who

    @classmethod
    async def open(cls, world, who):
        return cls(await world.open(who))

    async def send(self, type, conv, body):
        self.sent = {"conversationId": conv, "type": type, "body": body}
        await self.websocket.send(pack(self.sent))

    async def next(self, *types):
        """The next of these types; others that come before are a failure."""
        raw = await asyncio.wait_for(self.websocket.recv(), PATIENCE)
        value = msgpack.unpackb(raw)
        LITE_ENVELOPE(value)
        ensure(value["type"] in types, "expected one of", types, "got", repr(value)[:400], "after", repr(self.sent)[:300])
        return value["type"], value["body"]

    async def subscribe(self, conv):
        await self.send(SUBSCRIBE, conv, {"conversationId": conv})
        return (await self.next(SUBSCRIBED))[1]

    async def until_80(self):
        got = []
        while not got or got[-1][0] != 80:
            got.append(await self.next(ERROR, USER, ASSISTANT, REASONING, REQUEST, RESULT, START, MEMORY, SENTENCE, 34, 35, 50, 80))
        return got


@check
async def al_108_a_lite_client_is_answered_in_kind(world):
    who = world.somebody()
    lite = await Lite.open(world, who)
    # TV-20.
    await lite.websocket.send(bytes.fromhex("83ae636f6e766572736174696f6e4964ba636f6e765f303132333435363738396162636465666768696a6ba47479706528a4626f647981ae636f6e766572736174696f6e4964ba636f6e765f303132333435363738396162636465666768696a6b"))
    lite.sent = "TV-20"
    refused = (await lite.next(SUBSCRIBED))[1]
    equal((refused["success"], refused.get("error")), (False, "not_found"), "a conversation that does not exist")
    conv = await world.create(who)
    equal((await lite.subscribe(conv))["success"], True, "subscribe")
    await lite.send(USER, conv, {"id": "msg_mine", "conversationId": conv, "content": "sentences 2"})
    got = await lite.until_80()
    types = [type for type, _ in got]
    equal((types[0], types[1], types[-2:]), (USER, START, [ASSISTANT, 80]), f"order {types}")
    equal(set(types[2:-2]), {SENTENCE}, f"sentences in between {types}")
    (_, user), (_, start), sentences, (_, whole_text), (_, done) = got[0], got[1], got[2:-2], got[-2], got[-1]
    equal((user["content"], user["role"]), ("sentences 2", "user"), "the message comes back")
    ensure(user["id"] != "msg_mine" and user.get("createdAt"), "with an id of the server", user)
    answer = start["messageId"]
    equal(start.get("previousId"), user["id"], "previousId")
    ensure(all(body["messageId"] == answer for _, body in sentences), "messageId", sentences)
    text = joined(body["text"] for _, body in sentences)
    equal((whole_text["id"], whole_text["content"], whole_text["role"]), (answer, text, "assistant"), "the whole text")
    equal((done["messageId"], done["conversationId"], done["success"]), (answer, conv, True), "done")
    await lite.websocket.close()


@check
async def al_108_lite_spellings_of_tools_and_failures(world):
    who = world.somebody()
    conv, lite = await world.create(who), await Lite.open(world, who)
    await lite.subscribe(conv)
    await lite.send(USER, conv, {"conversationId": conv, "content": "tool weather"})
    got = await lite.until_80()
    [request], [result] = [body for type, body in got if type == REQUEST], [body for type, body in got if type == RESULT]
    equal((request["arguments"], "parameters" in request), ({"q": "weather", "n": 3}, False), "arguments")
    equal((result["requestId"], result["success"]), (request["id"], True), "result")
    await lite.send(USER, conv, {"conversationId": conv, "content": "tool-error weather no"})
    [result] = [body for type, body in await lite.until_80() if type == RESULT]
    ensure(not result["success"] and result["error"], "error", result)
    await lite.send(USER, conv, {"conversationId": conv, "content": "think 1"})
    ensure(any(type == REASONING for type, _ in await lite.until_80()), "reasoning")
    await lite.send(USER, conv, {"conversationId": conv, "content": "fail after 1"})
    got = await lite.until_80()
    [error] = [body for type, body in got if type == ERROR]
    ensure(isinstance(error["code"], str) and error["message"] and error["messageId"], "error", error)
    equal((got[-2][0], got[-1][1]["success"]), (ERROR, False), "1, then 80")
    await lite.websocket.close()


@check
async def al_108_lite_generation_requests(world):
    who = world.somebody()
    conv, lite = await world.create(who), await Lite.open(world, who)
    await lite.subscribe(conv)
    await lite.send(USER, conv, {"conversationId": conv, "content": "say one"})
    got = await lite.until_80()
    user, answer = got[0][1]["id"], got[1][1]["messageId"]
    flags = {"enableTools": True, "enableReasoning": True, "enableStreaming": True, "usePareto": False}
    await lite.send(33, conv, {"conversationId": conv, "messageId": answer, "requestType": "regenerate", **flags})
    again = await lite.until_80()
    start = next(body for type, body in again if type == START)
    ensure(start["messageId"] != answer and start.get("previousId") == user, "regenerate", start)
    equal(sorted(await world.siblings(who, answer)), sorted([answer, start["messageId"]]), "siblings")
    await lite.send(33, conv, {"conversationId": conv, "messageId": user, "requestType": "edit", "newContent": "say two", **flags})
    edited = await lite.until_80()
    equal([body["content"] for type, body in edited if type == ASSISTANT], ["two"], "edit")
    await lite.send(33, conv, {"conversationId": conv, "messageId": user, "requestType": "send", **flags})
    await lite.next(ERROR)
    # Unsubscribe is never answered.
    await lite.send(UNSUBSCRIBE, conv, {"conversationId": conv})
    equal((await lite.subscribe(conv))["success"], True, "the next answer is that of a subscribe")
    await lite.websocket.close()


@check
async def al_108_lite_and_full_clients_in_one_conversation(world):
    peer, conv = await world.met()
    lite = await Lite.open(world, peer.who)
    await lite.subscribe(conv)
    turn = await peer.turn(conv, "say both")
    got = await lite.until_80()
    equal((got[0][0], got[0][1]["id"], got[1][1]["messageId"]), (USER, turn.user, turn.answer), "the lite one sees the same")
    await lite.send(USER, conv, {"conversationId": conv, "content": "say back"})
    announced = await peer.upcoming(conv)
    equal((announced.type, announced["content"]), (USER, "say back"), "and the other way round")
    equal((await peer.answer(conv)).text, "back", "answer")
    await named_otherwise(world, conv, peer.who)
    await leave(peer)
    await lite.websocket.close()


@check
async def al_108_lite_clients_post_messages(world):
    who = world.somebody()
    conv, lite = await world.create(who), await Lite.open(world, who)
    await lite.subscribe(conv)
    lite.sent = "POST"
    posted = await world.http("POST", f"/conversations/{conv}/messages", who, json={"content": "say by post"}, status=202)
    got = await lite.until_80()
    equal((got[0][0], got[0][1]["id"], got[-2][1]["content"]), (USER, posted.json()["id"], "by post"), "answered on the socket")
    # With `sync`, both rows come when the answer is there.
    both = await world.http("POST", f"/conversations/{conv}/messages", who, params={"sync": "true"}, json={"content": "say at once"}, status=200)
    ensure("at once" in both.text.replace("say at once", ""), "the answer is missing", both.text)
    await lite.websocket.close()


async def named_otherwise(world, conv, who):
    """`user_id` is a name to show, such as that of a device, and nothing depends on it (AL-118)."""
    lite = await Lite.open(world, who)
    value = {"conversationId": conv, "type": SUBSCRIBE, "body": {"conversationId": conv}, "user_id": "user_device_5f3a"}
    lite.sent = value
    await lite.websocket.send(pack(value))
    equal((await lite.next(SUBSCRIBED))[1]["success"], True, "who it is was authenticated before")
    await lite.websocket.close()
