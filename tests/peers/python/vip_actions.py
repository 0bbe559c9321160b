"""Actions, their results and confirmations: section 9."""

import hashlib

from vip_context import refuses
from vip_world import *


async def s3_a_navigation_refreshes_the_screen(world):
    stream = await world.talk()
    await say(stream, 'press nav.go {"target":"settings"}')
    invoke = await invoked(stream, "nav.go", type="navigation")
    equal(invoke["parameters"], {"target": "settings"}, "parameters")
    await resolve(stream, invoke, context=TREE(2, route={"id": "settings"}, narration="The settings page with a blue lamp."))
    await reply(stream)
    equal((await world.status(stream.session))["context_version"], 2, "context_version")
    ensure("blue lamp" in await turn(stream, "scene"), "the agent sees the old screen")
    await stream.leave()


async def vip_047_nothing_outside_of_the_registry_is_invoked(world):
    stream = await world.talk()
    for request in ("press ghost", 'press ghost {"a":1}', "press system.confirm", "press btn-help"):
        await refuses(stream, request)
    ensure(not stream.session.invocations, "the application was asked")
    await stream.leave()


async def vip_048_nothing_hidden_or_disabled_is_invoked(world):
    stream = await world.talk()
    ensure(await refuses(stream, "press hidden.press") in (None, "ACT_NOT_VISIBLE"), "hidden")
    ensure(await refuses(stream, "press off.press") in (None, "ACT_DISABLED"), "disabled")
    ensure(not stream.session.invocations, "the application was asked")
    await say(stream, "press help.open")
    await resolve(stream, await invoked(stream, "help.open"))
    await reply(stream)
    await stream.leave()


async def vip_049_no_navigation_to_unknown_targets(world):
    stream = await world.talk()
    for target in ("admin", "", "Home", "home/../admin", "javascript:alert(1)"):
        await refuses(stream, f'press nav.go {json.dumps({"target": target})}')
    equal(await refuses(stream, 'press nav.go {"target":"admin"}'), "ACT_TARGET_UNKNOWN", "code")
    await refuses(stream, "press nav.go")
    ensure(not stream.session.invocations, "the application was asked")
    await stream.leave()


async def parameters_that_break_the_schema_never_reach_the_client(world):
    stream = await world.talk()
    for parameters in ("{}", '{"count":"3"}', '{"count":0}', '{"count":1.5}', '{"count":1,"more":2}', '{"count":null}'):
        equal(await refuses(stream, f"press cart.add {parameters}"), "ACT_INVALID_PARAMETERS", parameters)
    for action, value in (("age.fill", '"3"'), ("age.fill", "true"), ("news.check", '"yes"'), ("news.check", "1"), ("size.pick", '"huge"'), ("size.pick", "1"), ("search.fill", "7"), ("secret.fill", "null")):
        code = await refuses(stream, f'press {action} {{"value":{value}}}')
        ensure(code in ("ACT_TYPE_MISMATCH", "ACT_INVALID_PARAMETERS"), action, value, code)
    ensure(not stream.session.invocations, "the application was asked")
    await stream.leave()


async def inputs_carry_their_element_and_type(world):
    stream = await world.talk()
    for action, element, kind, value in (("search.fill", "q", "text", "red shoes"), ("age.fill", "age", "number", 33), ("news.check", "news", "checkbox", True), ("size.pick", "size", "radiobutton", "large")):
        await say(stream, f"press {action} {json.dumps({'value': value})}")
        invoke = await invoked(stream, action, type="input")
        equal(invoke["parameters"], {"element_id": element, "input_type": kind, "value": value}, "parameters")
        await resolve(stream, invoke)
        await reply(stream)
    await say(stream, 'press cart.add {"count":3}')
    invoke = await invoked(stream, "cart.add", type="button")
    equal(invoke["parameters"], {"element_id": "btn-add", "count": 3}, "parameters")
    await resolve(stream, invoke, data={"in_cart": 3})
    answer = (await reply(stream)).get("text")
    ensure("in_cart" in answer, "the agent is not told the data:", answer)
    await stream.leave()


async def vip_055_a_sensitive_action_is_confirmed_first(world):
    """S4, V7."""
    stream = await world.talk()
    await say(stream, 'press order.cancel {"order_id":"A-17"}')
    confirm = await invoked(stream, "system.confirm", type="confirmation")
    asked = confirm["parameters"]
    equal((asked["reference_action_id"], asked["reference_parameters"], asked["channel"], asked["prompt"]), ("order.cancel", {"element_id": "btn-cancel", "order_id": "A-17"}, "ui", "Cancel order A-17?"), "V7")
    canonical = json.dumps(asked["reference_parameters"], sort_keys=True, separators=(",", ":")).encode()
    equal(hashlib.sha256(canonical).hexdigest(), "6d90c92799de43597e37ae862fca81b6762de8fb516b460e66565081a44bcde7", "digest")
    ensure(abs(asked["expires_at"] - now() - 60_000) < 10_000, "expires_at", asked["expires_at"] - now())
    ensure(asked["reference_invocation_id"] != confirm["invocation_id"], "one id for both")
    stream.session.confirmed.add(("cf-1", asked["reference_invocation_id"]))
    await resolve(stream, confirm, data={"status": "confirmed", "confirmation_id": "cf-1", "channel": "ui"})
    invoke = await invoked(stream, "order.cancel", confirmation_id="cf-1")
    equal((invoke["invocation_id"], invoke["parameters"]), (asked["reference_invocation_id"], asked["reference_parameters"]), "the real call")
    await resolve(stream, invoke)
    await reply(stream)
    await stream.leave()


async def vip_057_a_confirmation_is_good_once(world):
    stream = await world.talk()
    await say(stream, 'twice order.cancel {"order_id":"A-17"}')
    for number in (1, 2):
        confirm = await invoked(stream, "system.confirm", type="confirmation")
        reference = confirm["parameters"]["reference_invocation_id"]
        stream.session.confirmed.add((f"cf-{number}", reference))
        await resolve(stream, confirm, data={"status": "confirmed", "confirmation_id": f"cf-{number}", "channel": "ui"})
        await resolve(stream, await invoked(stream, "order.cancel", confirmation_id=f"cf-{number}"))
    await reply(stream)
    await stream.leave()


async def vip_058_a_rejected_action_is_dropped(world):
    stream = await world.talk()
    rejections = ({"data": {"status": "rejected", "channel": "ui"}}, {"error": "ACT_EXECUTION_FAILED"}, {"data": {"status": "confirmed", "channel": "ui"}}, {"data": {"status": "maybe"}}, {})
    for rejection in rejections:
        await say(stream, 'press order.cancel {"order_id":"A-17"}')
        confirm = await invoked(stream, "system.confirm", type="confirmation")
        await resolve(stream, confirm, **rejection)
        done = await reply(stream)
        ensure("It ended as" in done["text"], f"the agent is told that it worked after {rejection}:", done)
    equal([invoke["action_id"] for invoke in stream.session.invocations.values()], ["system.confirm"] * len(rejections), "invocations")
    await stream.leave()


async def vip_057_a_confirmation_expires(world):
    tree = TREE()
    tree["actions"]["order.cancel"]["confirmation"]["ttl_ms"] = 1000
    stream = await world.talk(tree=tree)
    await say(stream, 'press order.cancel {"order_id":"A-17"}')
    confirm = await invoked(stream, "system.confirm", type="confirmation")
    ensure(confirm["timeout_ms"] <= 1000, "timeout_ms", confirm)
    changed = await stream.until("state.changed", state=AT, previous=IA, patience=15)
    equal(changed["trigger"], "action.result", "trigger")
    await stream.send("action.result", result_of(confirm, data={"status": "confirmed", "confirmation_id": "cf-late", "channel": "ui"}))
    await stream.until("error.recoverable", code="ACT_LATE_RESULT")
    await stream.wait(lambda: any(response.done for response in stream.session.responses.values()), "an answer")
    equal([invoke["action_id"] for invoke in stream.session.invocations.values()], ["system.confirm"], "invocations")


async def aloud(world, words):
    """9.4, the channel `voice`, until what the user answers is known; the stream, the turn and what comes next."""
    tree = TREE()
    tree["actions"]["order.cancel"]["confirmation"] = {"prompt": "Cancel order A-17?", "channels": ["voice"]}
    stream = await world.talk(tree=tree, capabilities={"confirmation_channels": ["voice"]})
    await say(stream, 'press order.cancel {"order_id":"A-17"}')
    asked = await speaking(stream)
    equal(asked.opened.get("expects_reply"), True, "expects_reply")
    done = await finish(stream, asked)
    ensure("Cancel order A-17?" in (done.get("text") or asked.caption), "the prompt:", done)
    answered = await listen(stream, trigger="follow_up")
    await conclude(stream, answered, words)
    return stream, answered


async def vip_055_a_sensitive_action_can_be_confirmed_aloud(world):
    stream, answered = await aloud(world, "yes")
    confirm = await invoked(stream, "system.confirm", type="confirmation")
    equal((confirm["parameters"]["channel"], confirm["parameters"].get("voice_evidence")), ("voice", {"turn_id": answered, "transcript": "yes"}), "evidence")
    stream.session.confirmed.add(("cf-1", confirm["parameters"]["reference_invocation_id"]))
    await resolve(stream, confirm, data={"status": "confirmed", "confirmation_id": "cf-1", "channel": "voice"})
    await resolve(stream, await invoked(stream, "order.cancel", confirmation_id="cf-1"))
    await reply(stream)
    await stream.leave()


async def vip_058_what_is_refused_aloud_is_dropped(world):
    for words in ("no", "say something else"):
        stream, _ = await aloud(world, words)
        await stream.wait(lambda: any(response.done for response in stream.session.responses.values()), "an answer")
        await asyncio.sleep(1)
        for event in stream.inbox:
            ensure(event.type != "action.invoke" or event["type"] == "confirmation", f"invoked after {words!r}:", event)
        await stream.close()


async def a_registered_confirmation_is_used(world):
    tree = TREE()
    tree["actions"]["dialog.ask"] = {"type": "confirmation", "description": "Ask the user"}
    stream = await world.talk(tree=tree)
    await say(stream, 'press order.cancel {"order_id":"A-17"}')
    confirm = await invoked(stream, "dialog.ask", type="confirmation")
    await resolve(stream, confirm, data={"status": "rejected", "channel": "ui"})
    await reply(stream)
    await stream.leave()


async def vip_060_an_action_without_a_result_times_out(world):
    """9.5, VIP-061."""
    stream = await world.talk()
    await say(stream, "press quick.press")
    invoke = await invoked(stream, "quick.press")
    began = time.monotonic()
    cancel = None
    while stream.state == IA:
        event = await stream.next(patience=10)
        cancel = event if event.type == "action.cancel" else cancel
    ensure(1.2 < time.monotonic() - began < 6, "after", time.monotonic() - began)
    id = await stream.send("action.result", result_of(invoke))
    await stream.until("error.recoverable", code="ACT_LATE_RESULT", ref_id=id)
    await stream.wait(lambda: any(response.done for response in stream.session.responses.values()), "an answer")
    ensure(any(event.type == "action.cancel" and event["invocation_id"] == invoke["invocation_id"] and event["reason"] == "timeout" for event in stream.log), "no action.cancel:", stream.log)
    text = "".join(response.caption or response.done.get("text", "") for response in stream.session.responses.values())
    ensure("ACT_TIMEOUT" in text or "timed_out" in text or "timeout" in text, "what the agent was told:", text)


async def vip_060_an_invocation_is_sent_again_after_3_s(world):
    stream = await world.talk()
    await say(stream, "press help.open")
    invoke = await invoked(stream, "help.open")
    again = await stream.expect("action.invoke", attempt=2, invocation_id=invoke["invocation_id"], patience=8)
    ensure(2.5 < again.at - invoke.at < 6, "after", again.at - invoke.at)
    await asyncio.sleep(4)
    equal(stream.inbox, [], "sent a third time")
    await resolve(stream, invoke)
    await reply(stream)
    # An acknowledgement stops it.
    await say(stream, "press help.open")
    invoke = await invoked(stream, "help.open")
    await stream.send("action.ack", {"invocation_id": invoke["invocation_id"], "started": True})
    await asyncio.sleep(4.5)
    equal(stream.inbox, [], "sent again after action.ack")
    await resolve(stream, invoke)
    await reply(stream)
    await stream.leave()


async def vip_061_an_error_leads_to_ai_thinking_and_is_told(world):
    stream = await world.talk()
    await say(stream, "press help.open")
    await resolve(stream, await invoked(stream, "help.open"), "ACT_EXECUTION_FAILED")
    answer = (await reply(stream)).get("text")
    ensure("ACT_EXECUTION_FAILED" in answer and "it did not work" in answer, "what the agent was told:", answer)
    await stream.leave()


async def results_for_nothing_are_late_or_malformed(world):
    stream = await world.talk()
    await say(stream, "press help.open")
    invoke = await invoked(stream, "help.open")
    id = await stream.send("action.result", {**result_of(invoke), "invocation_id": "inv-other"})
    await stream.error("ACT_LATE_RESULT", about=id)
    for broken in ({"status": "maybe"}, {"event": "action.maybe"}):
        id = await stream.send("action.result", {**result_of(invoke), **broken})
        await stream.error("PROTO_MALFORMED", about=id)
    equal(stream.state, IA, "state")
    await resolve(stream, invoke)
    id = await stream.send("action.result", result_of(invoke))
    late = await stream.until("error.recoverable", code="ACT_LATE_RESULT")
    equal(late.get("ref_id"), id, "ref_id")
    await stream.wait(lambda: stream.state == AS, "ai_speaking")


async def results_that_contradict_themselves_are_malformed(world):
    broken = ({"executed": None}, {"duration_ms": -1}, {"duration_ms": None}, {"status": "error"}, {"event": "action.failure"}, {"action_id": None}, {"status": "error", "event": "action.failure", "error": {"message": "no code"}}, {"data": "x" * (33 << 10)})
    for pair in zip(broken[::2], broken[1::2]):
        stream = await world.talk()
        await say(stream, "press help.open")
        invoke = await invoked(stream, "help.open")
        for more in pair:
            data = {name: value for name, value in {**result_of(invoke), **more}.items() if value is not None}
            await stream.send("action.result", data)
            event = await stream.next()
            ensure(event.code in ("PROTO_MALFORMED", "PROTO_TOO_LARGE"), f"{more} was answered with", event)
        await resolve(stream, invoke)
        await reply(stream)
        await stream.leave()


async def a_result_of_another_action_is_not_taken(world):
    stream = await world.talk()
    await say(stream, "press help.open")
    invoke = await invoked(stream, "help.open")
    await stream.send("action.result", {**result_of(invoke), "action_id": "order.cancel"})
    event = await stream.next()
    ensure(event.code is not None, "a result under the name of another action was answered with", event)
    await stream.leave()


async def a_bad_tree_in_a_result(world):
    stream = await world.talk()
    await say(stream, 'press nav.go {"target":"home"}')
    invoke = await invoked(stream, "nav.go")
    await stream.send("action.result", result_of(invoke, context={**TREE(2), "visibility": ["ghost"]}))
    events = [await stream.next()]
    while stream.state == IA and len(events) < 3:
        events.append(await stream.next())
    ensure(any(event.code == "CTX_INVALID" for event in events), "no CTX_INVALID:", events)
    equal((await world.status(stream.session))["context_version"], 1, "context_version")


async def vip_063_a_parallel_action_keeps_ai_speaking(world):
    stream = await world.talk()
    await say(stream, "talk and press music.play")
    response = await speaking(stream)
    invoke = await stream.until("action.invoke", action_id="music.play")
    equal((invoke.get("parallel"), stream.state), (True, AS), "parallel, and the state")
    await stream.send("action.result", result_of(invoke))
    await stream.barrier()
    equal(stream.state, AS, "after the result")
    await stream.wait(lambda: response.done, "response.done")
    await stream.send("audio.complete", {"response_id": response.id, "played_ms": int(response.ms)})
    await stream.wait(lambda: stream.state == ID, "idle")
    await stream.close()


async def speech_before_an_action_that_is_not_parallel(world):
    """10.4: action first, or parallel; never `action.invoke` in ai_speaking (the client looks). What cannot be is told to the agent."""
    stream = await world.talk()
    await say(stream, "talk and press help.open")
    event = await stream.next()
    if event.type == "action.invoke":
        await stream.expect("state.changed", state=IA, previous=AT)
        await resolve(stream, event)
        event = await stream.next()
    equal(event.type, "response.audio", f"{event}")
    await stream.expect("state.changed", state=AS)
    done = await finish(stream, stream.session.responses[event["response_id"]])
    ensure("That was" in done["text"], done)
    await stream.leave()


async def functions_of_the_server_run_while_it_thinks(world):
    """9.2: `executor:"server"` never produces action.invoke; sensitive ones are confirmed all the same."""
    tree = TREE()
    stock = {"type": "button", "description": "Count the stock", "element_id": "none", "executor": "server", "global": True, "parameters": {"type": "object", "properties": {"count": {"type": "integer"}}}}
    tree["actions"].update({"stock.count": stock, "stock.sell": {**stock, "sensitive": True}})
    stream = await world.talk(tree=tree)
    answer = await turn(stream, 'press stock.count {"count":4}')
    ensure("in_stock" in answer and "5" in answer, "what the agent was told:", answer)
    ensure(not stream.session.invocations, "the application was asked")
    for status, wanted in (("confirmed", "in_stock"), ("rejected", "It ended as")):
        await say(stream, 'press stock.sell {"count":1}')
        confirm = await invoked(stream, "system.confirm", type="confirmation")
        equal(confirm["parameters"]["reference_action_id"], "stock.sell", "reference_action_id")
        await resolve(stream, confirm, data={"status": status, "confirmation_id": fresh("cf"), "channel": "ui"} if status == "confirmed" else {"status": status, "channel": "ui"})
        done = await reply(stream)
        ensure(wanted in done["text"], status, done)
        if status == "rejected":
            # Other checks may ask for it at the same time; nobody else does under this name.
            sold = [heard for heard in world.house.keys.heard if heard[0] == "/stock" and heard[2].get("session") == stream.session.id and heard[2]["name"] == "stock.sell"]
            equal(len(sold), 1, "calls of a function that was confirmed once")
    await stream.leave()


async def the_runtime_answers_the_names_of_its_own(world):
    """8: get_available_routes, get_system_states, get_system_functions."""
    stream = await world.talk()
    for name, wanted in (("get_available_routes", ("home", "orders", "settings")), ("get_system_states", ()), ("get_system_functions", ("cart.add",))):
        await say(stream, f"press {name}")
        response = await speaking(stream)
        told = lambda: response.caption or response.opened.get("content", "")
        # Nobody wants to hear all of it.
        await stream.wait(lambda: told().startswith("Done:") and all(word in told() for word in wanted), f"an answer about {name}")
        barged = fresh("t")
        await stream.send("input.barge_in", {"trigger": "manual", "played_ms": 0}, turn_id=barged)
        await stream.send("input.cancel", {"reason": "user"}, turn_id=barged)
        await stream.until("state.changed", state=US)
        await stream.until("state.changed", state=ID)
        await stream.barrier()
    ensure(not stream.session.invocations, "the application was asked")
    await stream.leave()


async def several_calls_come_one_after_another(world):
    stream = await world.talk()
    await say(stream, 'twice cart.add {"count":2}')
    first = await invoked(stream, "cart.add")
    await resolve(stream, first)
    second = await invoked(stream, "cart.add")
    ensure(first["invocation_id"] != second["invocation_id"], "one id for two calls")
    await resolve(stream, second)
    await reply(stream)
    await stream.leave()


async def barge_in_between_two_calls(world):
    stream = await world.talk()
    await say(stream, 'twice cart.add {"count":2}')
    await resolve(stream, await invoked(stream, "cart.add"))
    barged = fresh("t")
    await stream.send("input.barge_in", {"trigger": "manual"}, turn_id=barged)
    event = await stream.next()
    if event.type == "action.invoke":
        # It crossed: R3.
        await stream.until("error.recoverable", code="PROTO_INVALID_TRANSITION")
    else:
        equal((event.type, event["state"]), ("state.changed", US), "the barge-in")
        await stream.barrier()
        await retype(stream, barged, "say on")
        equal((await reply(stream)).get("text"), "on", "the answer")
    await stream.close()


async def vip_079_passwords_are_redacted(world):
    stream = await world.talk()
    await say(stream, 'press secret.fill {"value":"hunter2-and-more"}')
    invoke = await invoked(stream, "secret.fill")
    equal(invoke["parameters"]["value"], "hunter2-and-more", "the client gets the value itself")
    await resolve(stream, invoke)
    await reply(stream)
    items = [item for item in await world.history(stream.session) if item["kind"] == "action"]
    ensure(items, "the action is not in the history")
    equal(items[0]["data"]["parameters"]["value"] if "parameters" in items[0].get("data", {}) else "[REDACTED]", "[REDACTED]", "history")
    ensure("hunter2" not in json.dumps(items), "the password is in the history:", items)
    log = open(f"{world.server.data}.log").read()
    ensure("hunter2" not in log, "the password is in the log")
    await stream.leave()


async def actions_and_results_are_history(world):
    stream = await world.talk()
    await say(stream, 'press cart.add {"count":2}')
    invoke = await invoked(stream, "cart.add")
    await resolve(stream, invoke, data={"ok": 1})
    await reply(stream)
    kinds = [(item["kind"], item.get("action_id")) for item in await world.history(stream.session) if item["kind"] in ("action", "result")]
    equal(kinds, [("action", "cart.add"), ("result", "cart.add")], "history")
    await stream.leave()


async def a_client_without_actions_gets_none(world):
    stream = await world.talk(capabilities={"actions": False})
    await refuses(stream, "press help.open")
    ensure(not any(event.type == "action.invoke" for event in stream.log), "action.invoke for a client without actions")
    await stream.leave()


CHECKS = [check for name, check in list(globals().items()) if asyncio.iscoroutinefunction(check) and check.__module__ == __name__ and name != "aloud"]
