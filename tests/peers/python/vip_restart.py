"""What is left of sessions after the server was killed: `vip_restart.py BINARY`.

The server is killed with `kill -9` while sessions are idle, listening, thinking, speaking, acting, suspended and over,
and while clients do this and that; then it is started on the same data, and everybody comes back within the window.
One line per check; see `checks.py`.
"""

import asyncio
import random
import sys

from checks import run, summary
from vip_resume import gone
from vip_socket import reach
from vip_world import *

# Answers to one client, and what holds a secret: nothing that a replay has to repeat.
PRIVATE = ("session.pong", "session.connected")


async def before(world):
    """Everything that is to survive."""
    left = {}
    for state in (ID, US, AT, AS, IA):
        stream = await reach(world, state)
        left[state] = stream
    stream = await world.talk()
    await say(stream, "sentences 40")
    stream.response = await speaking(stream)
    await stream.wait(lambda: stream.response.ms > 3000, "three seconds of an answer")
    left["speaking"] = stream
    stream = await world.talk()
    await say(stream, 'press secret.fill {"value":"a password"}')
    stream.invoke = await invoked(stream, "secret.fill")
    left["secret"] = stream
    stream = await world.talk()
    equal(await turn(stream, "say one"), "one", "the answer")
    await say(stream, "press help.open")
    await resolve(stream, await invoked(stream, "help.open"), data={"ok": 1})
    await reply(stream)
    left["talked"] = stream
    stream.items = await world.history(stream.session)
    stream = await world.talk()
    equal(await turn(stream, "say two"), "two", "the answer")
    await gone(world, stream)
    left["suspended"] = stream
    stream = await world.talk()
    await stream.send("session.close", {"reason": "user_hangup"})
    await stream.until("session.terminated")
    left["over"] = stream
    left["created"] = await world.create()
    left["used"] = world.token()
    await world.post(201, token=left["used"])
    left["key"], left["key_token"] = fresh("key"), world.token()
    left["first"] = (await world.post(201, token=left["key_token"], key=left["key"])).json()
    return left


async def again(world, stream, tree=None):
    """The session on the server that took the place of the killed one: resumed, and idle."""
    stream.session.created["transport"]["websocket"]["url"] = f"{world.base.replace('http', 'ws', 1)}/v1/vip/sessions/{stream.session.id}/stream"
    back = await resume(world, stream)
    await back.barrier()
    await back.ready(tree or TREE(stream.session.version + 1))
    return back


async def one_more(world, back, text="say alive"):
    equal(await turn(back, text), text.removeprefix("say "), "a turn afterwards")
    await back.leave()


async def vip_074_idle_and_what_was_said_survive(world):
    stream = world.left["talked"]
    back = await again(world, stream)
    items = await world.history(back.session)
    equal(items[: len(stream.items)], stream.items, "the history")
    ensure(not any(event.replayed for event in back.log), "what was received is replayed:", [event for event in back.log if event.replayed])
    await one_more(world, back)


async def vip_074_the_whole_replay_survives(world):
    """Whoever has seen nothing gets everything, as it was."""
    stream = world.left["suspended"]
    seen = dict(stream.session.events)
    other = Session(stream.session.created, world.base)
    other.client_seq, other.resume_token = stream.session.client_seq, stream.session.resume_token
    stream.session = other
    other.version = 1
    back = await again(world, stream, TREE(2))
    got = {event.seq: (event.id, event.type, event.data) for event in back.log if event.replayed and event.type not in PRIVATE}
    wanted = {seq: (event.id, event.type, event.data) for seq, event in seen.items() if event.type not in FLEETING and event.type not in PRIVATE}
    for seq, event in wanted.items():
        equal(got.get(seq), event, f"event {seq} of the replay")
    await one_more(world, back)


async def a_turn_that_was_listened_to_is_discarded(world):
    back = await again(world, world.left[US])
    await one_more(world, back)


async def a_turn_that_was_thought_about_is_over(world):
    back = await again(world, world.left[AT])
    ensure(not any(event.type == "response.audio" and not event.replayed for event in back.log), "an answer from before:", back.log)
    await one_more(world, back)


async def vip_034_what_was_half_spoken_is_incomplete(world):
    stream = world.left[AS]
    back = await again(world, stream)
    equal(stream.response.done and stream.response.done["status"], "incomplete", "status")
    items = [item for item in await world.history(back.session) if item["role"] == "assistant" and item["kind"] == "message"]
    equal([item["status"] for item in items], ["incomplete"], "history")
    await one_more(world, back)


async def vip_095_what_was_heard_of_it_is_kept(world):
    stream = world.left["speaking"]
    back = await again(world, stream)
    (item,) = [item for item in await world.history(back.session) if item["role"] == "assistant" and item["kind"] == "message"]
    equal((item["status"], item["response_id"]), ("incomplete", stream.response.id), "the answer that the death cut off")
    text = stream.response.opened.get("content") or stream.response.caption
    ensure(item["text"] and text.startswith(item["text"]) and len(item["text"]) < len(text), f"heard {item['text']!r} of {text!r}")
    await one_more(world, back)


async def an_action_that_was_open_is_not_asked_for_again(world):
    stream = world.left[IA]
    back = await again(world, stream)
    invocations = [event for event in back.log if event.type == "action.invoke" and event["invocation_id"] != stream.invoke["invocation_id"]]
    equal(invocations, [], "invocations")
    id = await back.send("action.result", result_of(stream.invoke))
    events = await back.barrier()
    ensure(all(event.code in (None, "ACT_LATE_RESULT") for event in events), events)
    ensure(id, "sent")
    if back.state == ID:
        await one_more(world, back)


async def vip_079_a_password_that_was_to_be_filled_in_is_gone(world):
    """What is stored nowhere cannot be sent again; the session goes on."""
    stream = world.left["secret"]
    back = await again(world, stream)
    invocations = [event for event in back.log if event.type == "action.invoke" and not event.replayed]
    equal(invocations, [], "invocations")
    await one_more(world, back)


async def vip_078_what_was_over_is_still_over(world):
    session = world.left["over"].session
    await world.ask("GET", f"/v1/vip/sessions/{session.id}", 410, "SES_TERMINATED", token=session.token)
    await world.refused(session, 410, "SES_TERMINATED")


async def vip_006_used_tokens_stay_used(world):
    await world.post(401, "AUTH_TOKEN_REPLAYED", token=world.left["used"])


async def vip_013_the_201_is_still_the_same(world):
    answer = await world.post((201, 401), token=world.left["key_token"], key=world.left["key"])
    if answer.status_code == 201:
        equal(answer.json()["session_id"], world.left["first"]["session_id"], "the session")


async def a_session_that_was_never_opened_can_be(world):
    session = world.left["created"]
    session.created["transport"]["websocket"]["url"] = f"{world.base.replace('http', 'ws', 1)}/v1/vip/sessions/{session.id}/stream"
    stream = await world.open(session)
    await stream.connect()
    await stream.ready(TREE())
    await one_more(world, stream)


class Restless:
    """A client that does this and that until the server is gone."""

    async def run(self, world):
        self.stream, self.answers = await world.talk(), []
        try:
            while True:
                await self.step()
        except Failed as over:
            if self.stream.closed is None or self.stream.wrong:
                raise
            ensure("closed with" in str(over), over)

    async def step(self):
        stream, choice = self.stream, random.random()
        if choice < 0.5:
            text = fresh("word")
            answer = await turn(stream, f"say {text}")
            self.answers.append(text)
            equal(answer, text, "the answer")
        elif choice < 0.7:
            await say(stream, "press help.open")
            await resolve(stream, await invoked(stream, "help.open"))
            await reply(stream)
        elif choice < 0.85:
            version = stream.session.version + 1
            await stream.change(TREE(version))
            await asyncio.sleep(0.3)
        else:
            await say(stream, "sentences 20")
            await speaking(stream)
            barged = fresh("t")
            await stream.send("input.barge_in", {"trigger": "manual"}, turn_id=barged)
            await stream.wait(lambda: stream.state == US, "user_speaking")
            await stream.barrier()
            await stream.send("input.cancel", {"reason": "user"}, turn_id=barged)
            await stream.expect("state.changed", state=ID)


async def everything_that_restless_clients_were_told_is_true(world):
    for client in world.left["restless"]:
        back = await again(world, client.stream, TREE(client.stream.session.version + 2))
        said = [item.get("text") for item in await world.history(back.session) if item["role"] == "assistant" and item["kind"] == "message"]
        for text in client.answers:
            equal(said.count(text), 1, f"{text} in the history")
        opened = [response for response in back.session.responses.values() if response.opened and not response.done]
        equal([response.id for response in opened], [], "responses without an end")
        await one_more(world, back)
    ensure(sum(len(client.answers) for client in world.left["restless"]) > 10, "they were not restless")


CHECKS = [
    a_session_that_was_never_opened_can_be,
    vip_074_idle_and_what_was_said_survive,
    vip_074_the_whole_replay_survives,
    a_turn_that_was_listened_to_is_discarded,
    a_turn_that_was_thought_about_is_over,
    vip_034_what_was_half_spoken_is_incomplete,
    vip_095_what_was_heard_of_it_is_kept,
    an_action_that_was_open_is_not_asked_for_again,
    vip_079_a_password_that_was_to_be_filled_in_is_gone,
    vip_078_what_was_over_is_still_over,
    vip_006_used_tokens_stay_used,
    vip_013_the_201_is_still_the_same,
    everything_that_restless_clients_were_told_is_true,
]


async def main(binary):
    house, results = await House().open(binary), []
    try:
        world = await house.server("killed", "vip.limits.resume_s=120")
        restless = [Restless() for _ in range(6)]
        running = [asyncio.create_task(client.run(world)) for client in restless]
        world.left = await before(world)
        deadline = time.monotonic() + PATIENCE
        while sum(len(client.answers) for client in restless) <= 10 and time.monotonic() < deadline:
            await asyncio.sleep(0.2)
        await asyncio.sleep(1)
        world.server.kill()
        await asyncio.gather(*running)
        world.left["restless"] = restless
        for stream in world.left.values():
            if isinstance(stream, Stream):
                await stream.reader
        await asyncio.to_thread(world.server.start)
        await world.meet()
        for check in CHECKS:
            await run(check, world, results, 4 * PATIENCE)
    finally:
        house.close()
    return summary(results)


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1])))
