"""The Voice Interaction Tree: section 8."""

from vip_world import *

BUTTON = {"type": "button", "description": "A button", "element_id": "b"}


def tree_with(**actions):
    tree = TREE(2)
    tree["actions"] = {**tree["actions"], **{name.replace("__", "."): action for name, action in actions.items()}}
    return tree


def nodes(depth):
    node = {"id": "leaf", "kind": "text"}
    for level in range(depth - 1):
        node = {"id": f"n{level}", "kind": "region", "children": [node]}
    return [node]


INVALID = {
    "visibility_of_nothing": {**TREE(2), "visibility": ["ghost"]},
    "visibility_twice": {**TREE(2), "visibility": ["order.cancel", "order.cancel"]},
    "no_route": {name: value for name, value in TREE(2).items() if name != "route"},
    "route_without_id": {**TREE(2), "route": {}},
    "route_id_too_long": {**TREE(2), "route": {"id": "x" * 129}},
    "no_narration": {name: value for name, value in TREE(2).items() if name != "narration"},
    "empty_narration": {**TREE(2), "narration": ""},
    "narration_too_long": {**TREE(2), "narration": "x" * 8193},
    "no_actions": {name: value for name, value in TREE(2).items() if name != "actions"},
    "no_visibility": {name: value for name, value in TREE(2).items() if name != "visibility"},
    "no_mode": {name: value for name, value in TREE(2).items() if name != "mode"},
    "unknown_mode": {**TREE(2), "mode": "half"},
    "version_zero": TREE(0),
    "version_of_text": TREE("2"),
    "version_again": TREE(1),
    "too_many_routes": {**TREE(2), "routes": [{"target": str(n)} for n in range(257)]},
    "route_without_target": {**TREE(2), "routes": [{"title": "x"}]},
    "target_too_long": {**TREE(2), "routes": [{"target": "x" * 257}]},
    "too_many_actions": {**TREE(2), "actions": {f"a{n}": BUTTON for n in range(129)}, "visibility": []},
    "id_with_a_space": tree_with(**{"a b": BUTTON}),
    "id_that_begins_with_a_digit": tree_with(**{"1a": BUTTON}),
    "id_too_long": tree_with(**{"a" * 65: BUTTON}),
    "reserved_get_available_routes": tree_with(get_available_routes=BUTTON),
    "reserved_get_system_states": tree_with(get_system_states=BUTTON),
    "reserved_get_system_functions": tree_with(get_system_functions=BUTTON),
    "reserved_system_confirm": tree_with(system__confirm={"type": "confirmation", "description": "x"}),
    "reserved_system": tree_with(system__anything=BUTTON),
    "no_type": tree_with(a={"description": "x", "element_id": "b"}),
    "no_description": tree_with(a={"type": "button", "element_id": "b"}),
    "empty_description": tree_with(a={**BUTTON, "description": ""}),
    "description_too_long": tree_with(a={**BUTTON, "description": "x" * 513}),
    "label_too_long": tree_with(a={**BUTTON, "label": "x" * 129}),
    "button_without_element": tree_with(a={"type": "button", "description": "x"}),
    "input_without_element": tree_with(a={"type": "input", "description": "x", "input_type": "text"}),
    "input_without_type": tree_with(a={"type": "input", "description": "x", "element_id": "b"}),
    "input_of_an_unknown_type": tree_with(a={"type": "input", "description": "x", "element_id": "b", "input_type": "slider"}),
    "radio_without_options": tree_with(a={"type": "input", "description": "x", "element_id": "b", "input_type": "radiobutton"}),
    "radio_with_empty_options": tree_with(a={"type": "input", "description": "x", "element_id": "b", "input_type": "radiobutton", "options": []}),
    "sensitive_and_parallel": tree_with(a={**BUTTON, "sensitive": True, "parallel": True}),
    "confirmation_without_sensitive": tree_with(a={**BUTTON, "confirmation": {"channels": ["ui"]}}),
    "confirmation_by_smoke": tree_with(a={**BUTTON, "sensitive": True, "confirmation": {"channels": ["smoke"]}}),
    "confirmation_without_channels": tree_with(a={**BUTTON, "sensitive": True, "confirmation": {"channels": []}}),
    "confirmation_for_ever": tree_with(a={**BUTTON, "sensitive": True, "confirmation": {"ttl_ms": 10**9}}),
    "timeout_too_short": tree_with(a={**BUTTON, "timeout_ms": 99}),
    "timeout_too_long": tree_with(a={**BUTTON, "timeout_ms": 120001}),
    "executor_unknown": tree_with(a={**BUTTON, "executor": "butler"}),
    "flag_of_text": tree_with(a={**BUTTON, "sensitive": "yes"}),
    "parameters_of_an_array": tree_with(a={**BUTTON, "parameters": {"type": "array"}}),
    "parameters_no_object": tree_with(a={**BUTTON, "parameters": 7}),
    "parameters_no_schema": tree_with(a={**BUTTON, "parameters": {"type": "object", "properties": {"x": {"type": "nonsense"}}}}),
    "parameters_with_remote_ref": tree_with(a={**BUTTON, "parameters": {"type": "object", "properties": {"x": {"$ref": "https://evil.example/s.json"}}}}),
    "parameters_with_file_ref": tree_with(a={**BUTTON, "parameters": {"type": "object", "$ref": "file:///etc/passwd"}}),
    "parameters_too_large": tree_with(a={**BUTTON, "parameters": {"type": "object", "description": "x" * 8192}}),
    "parameters_with_a_bad_pattern": tree_with(a={**BUTTON, "parameters": {"type": "object", "properties": {"x": {"pattern": "("}}}}),
    "tree_no_array": {**TREE(2), "tree": {}},
    "tree_too_deep": {**TREE(2), "tree": nodes(13)},
    "tree_much_too_deep": {**TREE(2), "tree": nodes(400)},
    "tree_too_wide": {**TREE(2), "tree": [{"id": f"n{n}", "kind": "text"} for n in range(1001)]},
    "node_without_id": {**TREE(2), "tree": [{"kind": "text"}]},
    "node_of_an_unknown_kind": {**TREE(2), "tree": [{"id": "a", "kind": "hologram"}]},
    "node_label_too_long": {**TREE(2), "tree": [{"id": "a", "kind": "text", "label": "x" * 257}]},
    "node_children_no_array": {**TREE(2), "tree": [{"id": "a", "kind": "text", "children": {}}]},
    "data_too_large": {**TREE(2), "data": "x" * (17 << 10)},
    "delta_with_route_alone": {"mode": "delta", "base_version": 1, "context_version": 2, "route": {"id": "x"}},
    "delta_that_goes_back": {"mode": "delta", "base_version": 1, "context_version": 1, "narration": "x"},
    "delta_that_hides_nothing": {"mode": "delta", "base_version": 1, "context_version": 2, "visibility_add": ["ghost"]},
    "delta_with_a_bad_action": {"mode": "delta", "base_version": 1, "context_version": 2, "narration": "new", "actions_upsert": {"a": {"type": "button"}}},
    "delta_visibility_of_what_it_removes": {"mode": "delta", "base_version": 1, "context_version": 2, "actions_remove": ["search.fill"], "visibility": ["search.fill"]},
    "delta_without_versions": {"mode": "delta", "narration": "x"},
    "delta_too_many_actions": {"mode": "delta", "base_version": 1, "context_version": 2, "actions_upsert": {f"a{n}": BUTTON for n in range(128)}},
}
# Codes other than CTX_INVALID that the reference would also allow to be meant.
ALSO = {"version_again": ("CTX_VERSION_CONFLICT",), "delta_that_goes_back": ("CTX_VERSION_CONFLICT",), "data_too_large": ("CTX_TOO_LARGE",), "tree_too_wide": ("CTX_TOO_LARGE",), "tree_too_deep": ("CTX_TOO_LARGE",), "tree_much_too_deep": ("CTX_TOO_LARGE", "PROTO_MALFORMED"), "too_many_actions": ("CTX_TOO_LARGE",), "too_many_routes": ("CTX_TOO_LARGE",), "delta_too_many_actions": ("CTX_TOO_LARGE",), "parameters_too_large": ("CTX_TOO_LARGE",), "narration_too_long": ("CTX_TOO_LARGE",)}


async def invalid(world, names):
    wrong, stream = [], await world.talk()
    for name in names:
        id = await stream.update(INVALID[name])
        try:
            await stream.error("CTX_INVALID", *ALSO.get(name, ()), about=None if name == "tree_much_too_deep" else id)
            events = await stream.barrier()
            ensure(all(event.type == "state.resync" for event in events), "besides the error:", events)
        except Failed as failed:
            wrong.append(f"[{name}: {str(failed)[:300]}]")
            stream = await world.talk()
        await asyncio.sleep(0.25)
    ensure(not wrong, f"{len(wrong)} trees:", *wrong)
    equal((await world.status(stream.session))["context_version"], 1, "the tree that is kept")
    equal(await turn(stream, "say kept"), "kept", "the answer")
    await stream.leave()


async def vip_043_invalid_trees_are_refused_whole(world):
    names = list(INVALID)
    await asyncio.gather(*(invalid(world, names[start::6]) for start in range(6)))


async def vip_043_what_is_refused_changes_nothing(world):
    """A delta of which the first half is fine."""
    stream = await world.talk()
    await stream.update({"mode": "delta", "base_version": 1, "context_version": 2, "narration": "new", "actions_remove": ["help.open"], "visibility": ["ghost"]})
    await stream.error("CTX_INVALID")
    await say(stream, "press help.open")
    await resolve(stream, await invoked(stream, "help.open"), data={"ok": True})
    await reply(stream)
    ensure("new" not in (await turn(stream, "scene") or ""), "half of the delta was applied")
    await stream.leave()


async def vip_044_visibility_is_a_subset_of_the_actions(world):
    await invalid(world, ["visibility_of_nothing", "delta_that_hides_nothing"])


async def what_is_as_large_as_may_be_is_accepted(world):
    tree = TREE(2, narration="ü" * 8192, routes=[{"target": "t" * 250 + str(n)} for n in range(256)], tree=nodes(12), data="x" * 16000)
    tree["actions"] = {f"a{n}": {**BUTTON, "description": "d" * 300} for n in range(128)}
    tree["visibility"] = list(tree["actions"])
    stream = await world.talk()
    await stream.change(tree)
    await stream.change({"mode": "delta", "base_version": 2, "context_version": 3, "tree": [{"id": f"n{n}", "kind": "text"} for n in range(1000)]})
    await stream.change({"mode": "full", "context_version": 10**9, "route": {"id": ""}, "narration": "", "actions": {}, "visibility": []})
    await stream.leave()


async def vectors_5_and_6_are_accepted(world):
    stream = await world.open()
    await stream.connect()
    await stream.ready(VECTORS["V5"]["data"])
    await stream.change(VECTORS["V6"]["data"])
    equal((await world.status(stream.session))["context_version"], 2, "context_version")
    await stream.leave()


async def too_large_a_delta_is_ctx_too_large(world):
    stream = await world.talk()
    actions = {f"a{n}": {**BUTTON, "description": "d" * 500, "parameters": {"type": "object", "description": "x" * 3000}} for n in range(20)}
    await stream.update({"mode": "delta", "base_version": 1, "context_version": 2, "actions_upsert": actions})
    await stream.error("CTX_TOO_LARGE")
    equal((await world.status(stream.session))["context_version"], 1, "context_version")
    await stream.leave()


async def vip_042_a_wrong_base_is_a_conflict(world):
    stream = await world.talk(tree=TREE(5))
    for base in (4, 6, 1):
        id = await stream.update({"mode": "delta", "base_version": base, "context_version": 9, "narration": "x"})
        await stream.error("CTX_VERSION_CONFLICT", about=id)
        await stream.expect("state.resync", have_version=5, reason="version_conflict")
    await stream.change(TREE(6))
    await stream.leave()


async def deltas_change_what_they_say(world):
    stream = await world.talk()
    await stream.change({"mode": "delta", "base_version": 1, "context_version": 2, "actions_upsert": {"new.press": BUTTON}, "visibility_add": ["new.press"], "visibility_remove": ["cart.add"]})
    await say(stream, "press new.press")
    await resolve(stream, await invoked(stream, "new.press"))
    await reply(stream)
    ensure(await refuses(stream, 'press cart.add {"count":1}') in (None, "ACT_NOT_VISIBLE"), "hidden by a delta")
    await stream.change({"mode": "delta", "base_version": 2, "context_version": 7, "actions_remove": ["new.press"]})
    await refuses(stream, "press new.press")
    await stream.change({"mode": "delta", "base_version": 7, "context_version": 8, "route": {"id": "elsewhere"}, "narration": "A purple elephant is on the screen."})
    ensure("purple elephant" in await turn(stream, "scene"), "the agent is not shown the narration")
    await stream.leave()


async def refuses(stream, text):
    """What the agent is told when the application is not asked: the code of the synthetic result, or None where there is
    no such tool, which ends the turn of this agent."""
    await say(stream, text)
    event = await stream.next()
    if event.code:
        ensure(event["code"].startswith("PROV_"), event)
        await stream.expect("state.changed", state=ID, previous=AT, trigger="error.recoverable")
        await stream.barrier()
        # Three failures in a row would be the end.
        await turn(stream, "say on")
        return None
    equal(event.type, "response.audio", f"{text} was answered with {event}")
    await stream.expect("state.changed", state=AS, previous=AT, trigger="response.audio")
    answer = (await finish(stream, stream.session.responses[event["response_id"]])).get("text")
    ensure(answer.startswith("It ended as"), "the call was not refused:", answer)
    return answer.split(": ", 1)[1].split(",")[0]


async def vip_045_unknown_types_are_ignored(world):
    stream = await world.talk()
    tree = tree_with(lamp__dim={"type": "x-acme-dimmer", "description": "Dim"}, odd={"type": "dimmer", "description": "Dim"})
    tree["visibility"] += ["lamp.dim", "odd"]
    ack = await stream.change(tree)
    equal(sorted(ack["ignored_actions"]), ["lamp.dim", "odd"], "ignored_actions")
    for name in ("lamp.dim", "odd"):
        await refuses(stream, f"press {name}")
    ensure(not stream.session.invocations, "the application was asked")
    await stream.leave()


async def vip_045_understood_extensions_are_not_ignored(world):
    stream = await world.talk(capabilities={"extensions": ["x-acme-dimmer"]})
    tree = tree_with(lamp__dim={"type": "x-acme-dimmer", "description": "Dim", "parameters": {"type": "object", "properties": {"to": {"type": "integer"}}}})
    tree["visibility"] += ["lamp.dim"]
    ack = await stream.change(tree)
    if ack["ignored_actions"] == []:
        await say(stream, 'press lamp.dim {"to":3}')
        await resolve(stream, await invoked(stream, "lamp.dim", type="x-acme-dimmer"))
        await reply(stream)
    await stream.leave()


async def vip_046_an_unprefixed_type_is_ignored_with_a_warning(world):
    stream = await world.talk()
    ack = await stream.change(tree_with(odd={"type": "dimmer", "description": "Dim"}, fine={"type": "x-acme-lamp", "description": "Lamp"}))
    warned = [warning for warning in ack["warnings"] if warning["code"] == "PREFIX_MISSING"]
    equal(len(warned), 1, f"warnings of {ack}")
    ensure("odd" in warned[0]["path"], warned)
    await stream.leave()


async def vip_039_no_update_is_applied_while_listening_or_thinking(world):
    """VIP-040: refused when `state_seq` is in force."""
    for state in (US, AT):
        stream = await world.talk()
        started = await listen(stream)
        if state == AT:
            await conclude(stream, started, "hang")
        id = await stream.update(TREE(2))
        error = await stream.error("CTX_FORBIDDEN_STATE", about=id)
        equal(error.get("details"), {"state": state, "state_seq": stream.state_seq}, "V9: details")
        equal(error.value.get("reply_to", id), id, "reply_to")
        equal((await world.status(stream.session))["context_version"], 1, "context_version")
        await stream.leave()


async def vip_040_an_update_that_crossed_a_transition_is_deferred(world):
    for state in (US, AT):
        stream = await world.talk()
        before = stream.state_seq
        started = await listen(stream)
        if state == AT:
            await conclude(stream, started, "wait 1500 then done thinking")
        await stream.update(TREE(2, narration="The deferred tree."), state_seq=before)
        await stream.expect("state.ack", applied="deferred", context_version=2)
        equal((await world.status(stream.session))["context_version"], 1, "while it is deferred")
        if state == US:
            await stream.send("input.cancel", {"reason": "user"}, turn_id=started)
            await stream.until("state.changed", state=ID)
        else:
            response = await speaking(stream)
            await finish(stream, response)
        await stream.barrier()
        equal((await world.status(stream.session))["context_version"], 2, "after the window")
        stream.adopt(TREE(2, narration="The deferred tree."))
        ensure("deferred tree" in await turn(stream, "scene"), "the agent sees another tree")
        await stream.leave()


async def vip_040_a_state_seq_that_never_was_is_no_excuse(world):
    stream = await world.talk()
    await listen(stream)
    await stream.update(TREE(2), state_seq=99)
    event = await stream.next()
    ensure(event.code in ("CTX_FORBIDDEN_STATE", "PROTO_MALFORMED"), "state_seq of the future:", event)
    await stream.leave()


async def updates_are_allowed_while_speaking_and_acting(world):
    stream = await world.talk()
    await say(stream, "press help.open")
    invoke = await invoked(stream, "help.open")
    await stream.change(TREE(2))
    await resolve(stream, invoke)
    response = await speaking(stream)
    await stream.update(TREE(3))
    await stream.until("state.ack", applied="now", context_version=3)
    stream.adopt(TREE(3))
    await stream.wait(lambda: response.done, "response.done")
    await stream.send("audio.complete", {"response_id": response.id, "played_ms": int(response.ms)})
    await stream.until("state.changed", state=ID)
    await stream.leave()


CHECKS = [check for name, check in list(globals().items()) if asyncio.iscoroutinefunction(check) and check.__module__ == __name__ and name not in ("invalid", "refuses")]
