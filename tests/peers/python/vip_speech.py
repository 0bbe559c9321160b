"""What is said by voice in the demo shop, with two voices that nobody here has made (VIP-096).

The phrases are those of the shop's own help page; whoever adds one there adds here what has to come of it.
"""

import html
import re

from vip_audio import Microphone, close_to, silence, spoken
from vip_world import *

PAGE = (ROOT / "sdks/typescript/demo/index.html").read_text()
PRODUCTS = {"coffee": "Coffee beans", "bread": "Rye bread", "honey": "Honey", "olive-oil": "Olive oil", "tea": "Green tea", "chocolate": "Chocolate"}
PAGES = {"home": "Home", "orders": "Your orders", "settings": "Settings", "help": "Help"}


def shop(page="home", version=1, dark=False):
    """The screen of the shop, as its page tells it."""
    button = lambda id, description, **more: {"type": "button", "element_id": id, "description": description, **more}
    actions = {
        "navigate": {"type": "navigation", "description": "Go to another page", "parameters": {"type": "object", "required": ["target"], "properties": {"target": {"type": "string"}}}},
        "theme.dark": {"type": "input", "input_type": "boolean", "element_id": "dark-mode", "label": "Dark mode", "description": "Turn dark mode on or off", "global": True},
    }
    if page == "home":
        for id, name in PRODUCTS.items():
            actions[f"cart.add.{id}"] = button(f"add-{id}", f"Add {name.lower()} to the cart", label=f"Add {name} to the cart", idempotent=False)
        actions["search.fill"] = {"type": "input", "input_type": "text", "element_id": "search", "label": "Search", "description": "Search for products"}
    else:
        actions["order.cancel"] = button("cancel-1042", "Cancel order 1042, Coffee beans and rye bread", label="Cancel order 1042", sensitive=True, idempotent=False, confirmation={"prompt": "Cancel order 1042?", "channels": ["ui", "voice"]})
    return {
        "mode": "full",
        "context_version": version,
        "route": {"id": page, "title": PAGES[page]},
        "routes": [{"target": target, "title": title} for target, title in PAGES.items()],
        "narration": f"{PAGES[page]}. In the cart: 1 times Honey. Together €6.90.",
        "actions": actions,
        "visibility": [id for id in actions if id != "navigate"],
    }


# What each phrase leads to: the page it is said on, and the action with what of its parameters counts, or an answer.
MEANT = {
    "Open the orders page": ("home", "navigate", {"target": "orders"}),
    "Add honey to the cart": ("home", "cart.add.honey", {}),
    "Search for coffee": ("home", "search.fill", {"value": "coffee"}),
    "Turn on dark mode": ("home", "theme.dark", {"value": True}),
    "Cancel the order": ("orders", "system.confirm", {"reference_action_id": "order.cancel"}),
    "What is in my cart?": ("home", None, "1 times Honey"),
}
VOICES = {"flite": "slt", "espeak": "espeak"}


async def pronounce(stream, text, voice, id, trigger="vad"):
    """A spoken turn, until it was understood; what was heard, and the turn."""
    started = await listen(stream, "voice", trigger, stream_id=id)
    microphone = Microphone(stream, id)
    await microphone.send(silence(300) + spoken(text, voice=VOICES[voice]) + silence(400))
    await stream.send("input.end", {"reason": "silence"}, turn_id=started)
    await stream.until("state.changed", state=AT, previous=US, trigger="input.end")
    return (await stream.expect("input.complete", turn_id=started))["text"], started


def every_phrase_with(voice):
    async def check(world):
        phrases = [html.unescape(phrase).rstrip(".") for phrase in re.findall("<li>“(.+?)”", PAGE)]
        ensure(len(phrases) >= 6, "phrases of the help page", phrases)
        wrong = []
        for phrase in phrases:
            page, action, wanted = MEANT[phrase]
            stream = await world.talk(tree=shop(page))
            heard, _ = await pronounce(stream, phrase, voice, 1)
            if action is None:
                answer = (await reply(stream))["text"]
                fits = wanted in answer
            else:
                event = await stream.next()
                answer = event
                fits = event.type == "action.invoke" and event["action_id"] == action and all(lowered(event["parameters"].get(name)) == value for name, value in wanted.items())
            if not fits:
                wrong.append(f"{phrase!r} was heard as {heard!r}, and led to {answer!r}")
            await stream.close()
        equal(wrong, [], f"phrases with {voice}")

    check.__name__ = f"vip_096_every_phrase_of_the_help_page_works_with_{voice}"
    return check


def lowered(value):
    return value.lower().rstrip(".") if isinstance(value, str) else value


async def consent(world, voice, word):
    """Cancelling an order, and what is answered aloud to the question whether; the stream, and what comes next."""
    stream = await world.talk(tree=shop("orders"), capabilities={"confirmation_channels": ["voice", "ui"]})
    await say(stream, "cancel the order")
    question = await speaking(stream)
    ensure(question.opened["expects_reply"] and "Cancel order 1042?" in question.opened["content"], question.opened)
    await finish(stream, question)
    heard, answered = await pronounce(stream, word, voice, 1, "follow_up")
    ensure(close_to(heard, word), f"{word!r} was heard as {heard!r}")
    return stream, answered


async def vip_055_yes_and_no_are_said_aloud(world):
    for voice in VOICES:
        stream, answered = await consent(world, voice, "Yes")
        confirm = await invoked(stream, "system.confirm")
        equal((confirm["parameters"]["channel"], confirm["parameters"]["voice_evidence"]["turn_id"]), ("voice", answered), "evidence")
        stream.session.confirmed.add(("cf-1", confirm["parameters"]["reference_invocation_id"]))
        await resolve(stream, confirm, data={"status": "confirmed", "confirmation_id": "cf-1", "channel": "voice"})
        await resolve(stream, await invoked(stream, "order.cancel"))
        await reply(stream)
        await stream.leave()
        stream, _ = await consent(world, voice, "No")
        done = await reply(stream)
        equal(done["text"].strip(), "Okay, I left it as it is.", "after a no")
        ensure(not any(event.type == "action.invoke" for event in stream.log), "something was done:", stream.log)
        await stream.leave()


CHECKS = [*map(every_phrase_with, VOICES), vip_055_yes_and_no_are_said_aloud]
