"""Internal mode: sections 3.3 and 12, E7, E9 and E12."""

import base64 as b64

from vip_tokens import read
from vip_world import *

STOCK = {"type": "button", "description": "Count what is in stock", "element_id": "none", "executor": "server", "global": True, "parameters": {"type": "object", "properties": {"count": {"type": "integer"}}, "additionalProperties": False}}


def SHOP(version=1):
    tree = TREE(version)
    tree["actions"]["stock.count"] = STOCK
    tree["actions"]["stock.sell"] = {**STOCK, "sensitive": True}
    return tree


async def attached(world, **more):
    """S7, until idle."""
    session = await world.create(mode="internal", **more)
    stream = await Stream.open(session, control=True)
    connected = await stream.connect()
    equal((connected["mode"], connected["resumed"]), ("internal", False), "session.connected")
    await stream.update(SHOP())
    await stream.expect("state.ack", context_version=1, applied="now")
    await stream.idle_for(0.3)
    await stream.send("provider.attached", {"provider_session_id": "ps-1", "transport": "websocket"})
    await stream.expect("server.ready", context_version=1)
    await stream.expect("state.changed", state=ID, previous=CO, trigger="server.ready")
    return stream


async def report(stream, state, trigger, previous=None):
    await stream.send("state.report", {"state": state, "previous": previous or stream.reported, "trigger": trigger})
    stream.reported = state


async def vip_014_internal_mode_brings_a_credential_that_lives_for_seconds(world):
    session = await world.create(mode="internal")
    created = session.created
    provider = created["provider"]
    equal((provider["id"], provider["adapter"], provider["model"]), ("house-voice", "vip-native", "voice-1"), "provider")
    ensure("control" in created and created["control"]["url"].endswith("/control"), "control", created)
    ensure({"instructions", "model"} <= set(provider["locked"]), "locked", provider)
    left = provider["credential"]["expires_at"] - time.time()
    ensure(0 < left <= 61, "a vip-native credential that lives for", left)
    header, claims = read(provider["credential"]["value"])
    equal((header["typ"], claims["aud"], claims["sid"]), ("vip-ephemeral+jwt", "house-voice", session.id), "claims")
    ensure(claims["jti"] and len(b64.urlsafe_b64decode(claims["cfg"] + "==")) == 32, "cfg", claims)
    ensure(claims["exp"] - time.time() <= 61, "exp", claims)
    ensure("sk-long-term" not in json.dumps(created), "the long-term key leaves the server")


async def vip_014_a_foreign_provider_is_asked_for_a_secret(world):
    created = (await world.create(mode="internal", provider_preferences=["far-voice"])).created
    provider = created["provider"]
    equal((provider["id"], provider["adapter"]), ("far-voice", "openai-realtime-v1"), "provider")
    ensure(provider["credential"]["value"].startswith("ek_"), "credential", provider)
    ensure(0 < provider["credential"]["expires_at"] - time.time() <= 600, "expires_at", provider)
    path, head, body = [heard for heard in world.house.keys.heard if heard[0] == "/v1/realtime/client_secrets"][-1]
    ensure("authorization: bearer sk-long-term" in head, "how the provider was asked")
    equal(body["session"]["model"], "far-1", "model")
    ensure("sk-long-term" not in json.dumps(created), "the long-term key leaves the server")


async def vip_014_development_gets_no_production_key(world):
    answer = await world.post(None, environment="development", mode="internal", provider_preferences=["house-voice", "far-voice"])
    if answer.status_code == 201:
        ensure(answer.json().get("provider", {}).get("id") == "toy-voice", "a production provider for development:", answer.json())
    else:
        ensure(answer.json()["error"]["code"] == "PROV_CREDENTIAL", answer.text)


async def vip_014_a_provider_that_fails_is_prov_credential(world):
    keys, path = world.house.keys, "/v1/realtime/client_secrets"
    kept = keys.answers[path]
    try:
        for status, code in ((500, ("PROV_CREDENTIAL", "PROV_UNAVAILABLE")), (401, ("PROV_CREDENTIAL",)), (429, ("PROV_QUOTA", "PROV_CREDENTIAL"))):
            keys.answers[path] = lambda _: (status, {"error": {"message": "sk-long-term-key-that-never-leaves-0001"}})
            answer = await world.post(None, mode="internal", provider_preferences=["far-voice"])
            if answer.status_code == 201:
                ensure(answer.json()["provider"]["id"] != "far-voice", answer.text)
            else:
                ensure(answer.json()["error"]["code"] in code, answer.text)
            ensure("sk-long-term" not in answer.text, "the key leaks:", answer.text)
    finally:
        keys.answers[path] = kept


async def e7_gives_another_credential_six_times_a_minute(world):
    session = await world.create(mode="internal")
    values = {session.created["provider"]["credential"]["value"]}
    for _ in range(6):
        provider = (await world.ask("POST", f"/v1/vip/sessions/{session.id}/credential", 200, token=session.token)).json()
        check(PROVIDER, provider, "E7")
        values.add(provider["credential"]["value"])
    equal(len(values), 7, "different credentials")
    await world.ask("POST", f"/v1/vip/sessions/{session.id}/credential", 429, token=session.token)


async def s7_internal_mode(world):
    """VIP-021, VIP-022 for the mirror."""
    stream = await attached(world)
    stream.reported = ID
    for state, trigger in ((US, "input.start"), (AT, "input.end"), (AS, "response.audio"), (US, "input.barge_in"), (ID, "input.cancel"), (US, "input.start"), (AT, "input.end"), (IA, "response.tool"), (AT, "action.result"), (ID, "response.none")):
        await report(stream, state, trigger)
    ensure(not [event for event in await stream.barrier() if event.code], "legal reports are refused:", stream.log)
    equal((await world.status(stream.session))["state"], ID, "state")
    # The short names of upstream.
    await stream.send("state.report", {"state": "listening", "previous": "idle", "trigger": "input.start"})
    await stream.send("state.report", {"state": "processing", "previous": "listening", "trigger": "input.end"})
    ensure(not [event for event in await stream.barrier() if event.code], "aliases are refused:", stream.log)
    equal((await world.status(stream.session))["state"], AT, "state")
    await stream.leave()


async def vip_023_an_illegal_report_is_refused(world):
    stream = await attached(world)
    stream.reported = ID
    for state, previous, trigger in ((AT, ID, "input.end"), (IA, ID, "response.tool"), (US, ID, "input.end"), (US, AT, "input.barge_in")):
        id = await stream.send("state.report", {"state": state, "previous": previous, "trigger": trigger})
        error = await stream.error("PROTO_INVALID_TRANSITION", about=id)
        equal(error["details"]["state"], ID, "details.state")
    await stream.send("state.report", {"state": AS, "previous": ID, "trigger": "response.audio"})
    await stream.dies(4400, "PROTO_TOO_MANY_VIOLATIONS")


async def a_control_socket_carries_no_media(world):
    stream = await attached(world)
    await stream.raw(frame(1, 0, 0, b"\0\0"))
    await stream.wait(lambda: stream.inbox or stream.closed is not None, "a refusal")
    ensure(stream.closed in (None, 1003, 4400), stream.closed)
    for kind, data in (("input.start", {"mode": "text", "trigger": "text"}), ("input.barge_in", {"trigger": "manual"}), ("audio.complete", {"response_id": "r", "played_ms": 1})):
        stream = await attached(world)
        await stream.send(kind, data, turn_id=fresh("t"))
        event = await stream.next()
        ensure(event.code in ("PROTO_INVALID_TRANSITION", "PROTO_UNKNOWN_EVENT"), kind, event)
        equal((await world.status(stream.session))["state"], ID, "state")
        await stream.leave()


async def sockets_belong_to_modes(world):
    internal, external = await world.create(mode="internal"), await world.create()
    for session, path in ((internal, "stream"), (external, "control")):
        for status in (404, 403, 409, 400, 401):
            try:
                await world.refused(session, status, path=path)
                break
            except Failed as wrong:
                if "was not refused" in str(wrong) or status == 401:
                    raise


async def internal_events_are_not_for_streams(world):
    for kind, data in (("state.report", {"state": US, "previous": ID, "trigger": "input.start"}), ("provider.attached", {"transport": "websocket"}), ("history.append", {"items": []}), ("function.call", {"invocation_id": "i", "name": "stock.count", "parameters": {}})):
        stream = await world.talk()
        await stream.send(kind, data)
        event = await stream.next()
        ensure(event.code in ("PROTO_INVALID_TRANSITION", "PROTO_UNKNOWN_EVENT"), kind, event)
        await stream.leave()


async def functions_run_on_the_server(world):
    stream = await attached(world)
    await stream.send("function.call", {"invocation_id": "f-1", "name": "stock.count", "parameters": {"count": 4}})
    result = await stream.expect("function.result", invocation_id="f-1", status="success")
    equal(result["data"], {"in_stock": 5}, "data")
    for name, parameters, code in (("ghost", {}, "ACT_NOT_FOUND"), ("help.open", {}, "ACT_NOT_FOUND"), ("stock.count", {"count": "four"}, "ACT_INVALID_PARAMETERS"), ("stock.sell", {}, "ACT_CONFIRMATION_REQUIRED")):
        await stream.send("function.call", {"invocation_id": fresh("f"), "name": name, "parameters": parameters})
        result = await stream.expect("function.result", status="error")
        equal(result["error"]["code"], code, name)
        place = f"/v1/vip/sessions/{stream.session.id}/functions/{name}"
        await world.ask("POST", place, ERRORS[code]["http"], code, {"invocation_id": fresh("f"), "parameters": parameters}, token=stream.session.token)
    answer = (await world.ask("POST", f"/v1/vip/sessions/{stream.session.id}/functions/stock.count", 200, body={"invocation_id": "f-2", "parameters": {"count": 1}}, token=stream.session.token)).json()
    equal((answer["invocation_id"], answer["status"], answer["data"]), ("f-2", "success", {"in_stock": 2}), "E9")
    await world.ask("POST", f"/v1/vip/sessions/{stream.session.id}/functions/stock.count", 400, "PROTO_MALFORMED", {"parameters": {}}, token=stream.session.token)
    await stream.leave()


async def functions_need_their_scope(world):
    stream = await attached(world, about={"scopes": ["session:create"]})
    await world.ask("POST", f"/v1/vip/sessions/{stream.session.id}/functions/stock.count", 403, "AUTH_SCOPE", {"invocation_id": "f", "parameters": {}}, token=stream.session.token)
    await world.ask("GET", f"/v1/vip/sessions/{stream.session.id}/history", 403, "AUTH_SCOPE", token=stream.session.token)
    await stream.leave()


async def history_can_be_appended(world):
    stream = await attached(world)
    item = lambda n, role: {"seq": n, "id": f"h{n}", "role": role, "kind": "message", "text": f"text {n}", "status": "complete", "ts": now(), "metadata": {}}
    await stream.send("history.append", {"items": [item(1, "user"), item(2, "assistant")]})
    ensure(not [event for event in await stream.barrier() if event.code], "refused:", stream.log)
    items = [one for one in await world.history(stream.session) if one["kind"] == "message"]
    equal([(one["role"], one["text"]) for one in items], [("user", "text 1"), ("assistant", "text 2")], "history")
    await stream.send("history.append", {"items": [item(n, "user") for n in range(51)]})
    await stream.error("PROTO_MALFORMED")
    await stream.send("history.append", {"items": [{"role": "king"}]})
    await stream.error("PROTO_MALFORMED")
    await stream.leave()


async def internal_sessions_resume_too(world):
    stream = await attached(world)
    await stream.drop()
    back = await Stream.open(stream.session, control=True)
    connected = await back.connect(resume={"resume_token": stream.session.resume_token, "last_server_seq": stream.session.last_seq})
    equal(connected["resumed"], True, "resumed")
    await back.close()


HELPERS = ("attached", "report")
CHECKS = [check for name, check in list(globals().items()) if asyncio.iscoroutinefunction(check) and check.__module__ == __name__ and name not in HELPERS]
