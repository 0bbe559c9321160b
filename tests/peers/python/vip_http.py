"""The HTTP control plane: sections 2.1 to 2.5, idempotency, and what is left of a session that is over."""

from vip_tokens import read
from vip_world import *


async def discovery_says_what_the_server_speaks(world):
    answer = await world.ask("GET", "/.well-known/vip", 200)
    found = answer.json()
    check(DISCOVERY, found, "E1")
    cached = answer.headers.get("cache-control", "")
    ages = [int(part.split("=")[1]) for part in cached.replace(" ", "").split(",") if part.startswith(("max-age=", "s-maxage="))]
    ensure(all(age <= 300 for age in ages), "E1 may be cached for at most 300 s:", cached)
    ensure("0.1" in found["protocol_versions"], found)
    ensure({"production", "development"} == set(found["environments"]), found)
    ensure(found["jwks_uri"].endswith("/.well-known/jwks.json"), found["jwks_uri"])
    ensure(found["session_endpoint"].endswith("/v1/vip/sessions"), found["session_endpoint"])
    keys = (await world.ask("GET", "/.well-known/jwks.json", 200)).json()["keys"]
    ensure(keys and all(key.get("kid") and key.get("kty") in ("OKP", "EC") for key in keys), "E2", keys)


async def vip_065_the_formats_that_must_be_there_are(world):
    ensure("pcm16/16000" in world.discovery["audio"]["input"], world.discovery["audio"])
    ensure("pcm16/24000" in world.discovery["audio"]["output"], world.discovery["audio"])


async def vip_066_no_shared_format_is_422(world):
    for audio in ({"input_formats": ["mulaw/8000"], "output_formats": ["pcm16/24000"]}, {"input_formats": ["pcm16/16000"], "output_formats": ["flac/1"]}):
        await world.post(422, "PROTO_AUDIO_FORMAT", audio=audio)


async def the_first_format_of_the_client_is_taken(world):
    for way, formats in (("input", "input_formats"), ("output", "output_formats")):
        for wanted in (["pcm16/48000", "opus/48000", "pcm16/24000", "pcm16/16000"], ["opus/48000", "pcm16/16000", "pcm16/24000"], ["pcm16/24000", "pcm16/16000"]):
            created = (await world.post(audio={**FORMATS, formats: wanted})).json()
            first = next(format for format in wanted if format in world.discovery["audio"][way])
            equal(created["audio"][way], first, f"{way} of {wanted}")


async def effective_values_are_what_was_asked_for(world):
    created = (await world.post(201, **VECTORS["V2"])).json()
    check(CREATED, created, "V2")
    equal(created["turn_detection"]["silence_ms"], 600, "silence_ms")
    settings = {"type": "server_vad", "silence_ms": 200, "no_speech_ms": 3000, "interrupt_response": False, "follow_up_listen": False}
    created = (await world.post(201, turn_detection=settings, audio={**FORMATS, "framing": "base64"})).json()
    equal((created["turn_detection"], created["audio"]["framing"]), (settings, "base64"), "effective values")
    created = (await world.post(201, mode="auto")).json()
    ensure(created["mode"] in world.discovery["modes"], created)
    created = (await world.post(201, protocol_versions=["7.0", "0.1"], **{"x-unknown": {"a": 1}}, capabilities={"resume": False})).json()
    equal((created["protocol_version"], created["resume"]["window_s"]), ("0.1", 0), "version, and no resume")


async def vip_013_a_key_and_a_body_give_the_same_201(world):
    key, token = fresh("key"), world.token()
    first = await world.post(201, token=token, key=key)
    for one in (token, world.token(sub=read(token)[1]["sub"])):
        again = await world.post(201, token=one, key=key)
        equal(again.json(), first.json(), "the answer again")
    answer = await world.post(409, "SES_IDEMPOTENCY_CONFLICT", token=token, key=key, locale="de-DE")
    equal(answer.json()["error"]["fatal"], False, "fatal")
    # All at once.
    key, token = fresh("key"), world.token()
    answers = await asyncio.gather(*(world.post((201, 409), token=token, key=key) for _ in range(6)))
    made = {answer.json()["session_id"] for answer in answers if answer.status_code == 201}
    equal(len(made), 1, "sessions of six at once")


async def vip_013_a_key_is_of_whoever_used_it(world):
    key = fresh("key")
    first = (await world.post(201, key=key)).json()
    other = await world.post((201, 409), key=key)
    if other.status_code == 201:
        ensure(other.json()["session_id"] != first["session_id"], "somebody else gets the session by guessing the key")
    await world.post(401, "AUTH_TOKEN_MISSING", token=None, key=key)
    await world.post(401, "AUTH_TOKEN_INVALID", token="a.b.c", key=key)
    await world.post(400, "PROTO_MALFORMED", key="k" * 65)


async def vip_013_a_failure_is_not_remembered(world):
    key, token = fresh("key"), world.token()
    await world.post(422, "PROTO_AUDIO_FORMAT", token=token, key=key, audio={"input_formats": ["x/1"], "output_formats": ["x/1"]})
    await world.post((201, 401), token=token, key=key)


async def vip_015_external_mode_has_no_provider(world):
    created = (await world.post(201, mode="external")).json()
    ensure("provider" not in created and "control" not in created, created)


async def bodies_that_break_the_schema_are_400(world):
    bad = [
        {"protocol_versions": []}, {"protocol_versions": "0.1"}, {"protocol_versions": [1]}, {"protocol_versions": None}, {"app_id": None}, {"app_id": "x" * 65}, {"app_id": 7}, {"client": None}, {"client": {}},
        {"client": {"name": "a", "version": "1"}}, {"client": {"name": "a", "version": "1", "platform": "mainframe"}}, {"client": {"name": "a" * 65, "version": "1", "platform": "web"}}, {"client": {"name": "a", "version": "1" * 33, "platform": "web"}},
        {"client": {"name": "a", "version": "1", "platform": "web", "device_id": "d" * 129}}, {"audio": None}, {"audio": {}}, {"audio": {"input_formats": [], "output_formats": ["pcm16/24000"]}}, {"audio": {**FORMATS, "framing": "morse"}},
        {"environment": "staging"}, {"mode": "both"}, {"locale": "x" * 36}, {"turn_detection": {"type": "psychic"}}, {"turn_detection": {"silence_ms": 199}}, {"turn_detection": {"silence_ms": 3001}}, {"turn_detection": {"no_speech_ms": -1}},
        {"turn_detection": {"interrupt_response": "yes"}}, {"activate_on": "full_moon"}, {"visit": {"first": "yes"}}, {"metadata": {str(n): "x" for n in range(17)}}, {"metadata": {"a": "x" * 257}}, {"metadata": {"a": 1}}, {"prompt": {"id": "x" * 65}},
        {"capabilities": {"confirmation_channels": ["smoke"]}}, {"capabilities": {"actions": 1}}, {"provider_preferences": "any"},
    ]  # fmt: skip
    for fields in bad:
        answer = await world.post(None, **fields)
        ensure(answer.status_code == 400 and answer.json()["error"]["code"] == "PROTO_MALFORMED", f"{fields} was answered with", answer.status_code, answer.text[:200])
    for body in (b"", b"null", b"[]", b'"x"', b"{", b"\xff\xfe", b"[" * 20000, b'{"a":' * 5000 + b"1" + b"}" * 5000):
        await world.ask("POST", "/v1/vip/sessions", 400, "PROTO_MALFORMED", body, world.token(), {"Content-Type": "application/json"})
    await world.ask("POST", "/v1/vip/sessions", 413, "PROTO_TOO_LARGE", b'{"x":"' + b"a" * (2 << 20) + b'"}', world.token(), {"Content-Type": "application/json"})


async def e4_tells_the_state(world):
    stream = await world.open(metadata={"trace": "a-1"})
    before = await world.status(stream.session)
    equal((before["state"], before["state_seq"], before["context_version"], before["metadata"]), (CO, 0, 0, {"trace": "a-1"}), "before client.connect")
    await stream.connect()
    await stream.ready(TREE(7))
    after = await world.status(stream.session)
    equal((after["state"], after["state_seq"], after["context_version"], after["connected"], after["last_event_seq"]), (ID, 1, 7, True, stream.session.last_seq), "in idle")
    await say(stream, "hang")
    after = await world.status(stream.session)
    equal((after["state"], after["state_seq"], after["last_event_seq"]), (AT, 3, stream.session.last_seq), "in ai_thinking")
    await stream.drop()
    for _ in range(100):
        after = await world.status(stream.session)
        if not after["connected"]:
            break
        await asyncio.sleep(0.1)
    equal((after["connected"], after["state"]), (False, NC), "after the transport was lost")


async def only_its_own_token_opens_a_session(world):
    session, other = await world.create(), await world.create()
    place = f"/v1/vip/sessions/{session.id}"
    for method, path in (("GET", place), ("DELETE", place), ("POST", f"{place}/token"), ("GET", f"{place}/history"), ("POST", f"{place}/credential"), ("POST", f"{place}/functions/x")):
        body = {} if method == "POST" else None
        await world.ask(method, path, 401, "AUTH_TOKEN_MISSING", body)
        await world.ask(method, path, 401, "AUTH_TOKEN_INVALID", body, token="a.b.c")
        await world.ask(method, path, (401, 403, 404), None, body, token=other.token)
    for method, path in (("GET", place), ("DELETE", place), ("GET", f"{place}/history")):
        await world.ask(method, path, (401, 403), None, token=world.token())
    head, body, signature = session.token.split(".")
    import base64

    forged = base64.urlsafe_b64encode(json.dumps({**read(session.token)[1], "sid": other.id}).encode()).rstrip(b"=").decode()
    await world.ask("GET", f"/v1/vip/sessions/{other.id}", 401, "AUTH_TOKEN_INVALID", token=f"{head}.{forged}.{signature}")
    none = base64.urlsafe_b64encode(b'{"alg":"none","typ":"vip-session+jwt"}').rstrip(b"=").decode()
    await world.ask("GET", place, 401, None, token=f"{none}.{body}.")
    await world.refused(session, 401, "AUTH_TOKEN_MISSING", headers={})
    await world.refused(session, 401, "AUTH_TOKEN_INVALID", headers={"Authorization": "Bearer a.b.c"})
    stranger = Session({**session.created, "session_id": other.id}, world.base)
    stranger.token = session.token
    for status in (401, 403, 404):
        try:
            await world.refused(stranger, status)
            break
        except Failed as wrong:
            if status == 404:
                raise wrong
    await world.status(session)


async def e6_renews_the_token(world):
    token = world.token()
    session = await world.create(token=token)
    place = f"/v1/vip/sessions/{session.id}/token"
    answer = (await world.ask("POST", place, 200, token=session.token)).json()
    check(RENEWED, answer, "E6")
    ensure(answer["session_token"] != session.token, "the same token again")
    sub = read(token)[1]["sub"]
    answer = (await world.ask("POST", place, 200, token=world.token(sub=sub))).json()
    check(RENEWED, answer, "E6 by App Token")
    await world.ask("POST", place, (401, 403, 404), token=world.token(sub="somebody-else"))
    used = world.token(sub=sub)
    await world.ask("POST", place, 200, token=used)
    await world.ask("POST", place, 401, "AUTH_TOKEN_REPLAYED", token=used)
    # The same subject of another issuer is somebody else.
    await world.ask("POST", place, (401, 403, 404), token=world.token("es", sub=sub))
    session.token = answer["session_token"]
    stream = await world.open(session)
    await stream.connect()
    await stream.leave()


async def vip_078_after_the_end_everything_is_410(world):
    for hang_up in ("delete", "close"):
        stream = await world.talk()
        session = stream.session
        place = f"/v1/vip/sessions/{session.id}"
        if hang_up == "delete":
            await world.ask("DELETE", place, 204, token=session.token)
            terminated = await stream.until("session.terminated")
        else:
            await stream.send("session.close", {"reason": "user_hangup"})
            terminated = await stream.until("session.terminated")
            equal(terminated["reason"], "user_hangup", "reason")
        await stream.dies(1000)
        for method, path in (("GET", place), ("DELETE", place), ("POST", f"{place}/token"), ("GET", f"{place}/history"), ("POST", f"{place}/credential")):
            await world.ask(method, path, 410, "SES_TERMINATED", {} if method == "POST" else None, token=session.token)
        await world.refused(session, 410, "SES_TERMINATED")


async def unknown_sessions_and_paths(world):
    session = await world.create()
    ghost = "vs_" + "0" * 26
    await world.ask("GET", f"/v1/vip/sessions/{ghost}", (401, 403, 404), token=session.token)
    answer = await world.http.put(f"{world.base}/v1/vip/sessions/{session.id}", headers=session.auth)
    ensure(answer.status_code in (404, 405), "PUT:", answer.status_code)
    answer = await world.http.get(f"{world.base}/v1/vip/sessions/{session.id}/stream", headers=session.auth)
    ensure(400 <= answer.status_code < 500, "a stream without an upgrade:", answer.status_code)
    for sid in ("x", "vs_", "..", "vs_" + "0" * 25 + "!", "%00"):
        answer = await world.http.get(f"{world.base}/v1/vip/sessions/{sid}", headers=session.auth)
        ensure(400 <= answer.status_code < 500, sid, answer.status_code)


async def history_comes_in_pages(world):
    stream = await world.talk()
    for number in range(3):
        equal(await turn(stream, f"say number {number}"), f"number {number}", "the answer")
    items = await world.history(stream.session)
    spoken = [(item["role"], item.get("text"), item["status"]) for item in items if item["kind"] == "message"]
    equal(spoken, [one for number in range(3) for one in (("user", f"say number {number}", "complete"), ("assistant", f"number {number}", "complete"))], "the conversation")
    mine = next(item for item in items if item["role"] == "user")
    ensure("user_id" in mine["metadata"] and "locale" in mine["metadata"], "13: metadata of the user", mine)
    place = f"/v1/vip/sessions/{stream.session.id}/history"
    page = (await world.ask("GET", f"{place}?after=1&limit=2", 200, token=stream.session.token)).json()
    equal(page["items"], items[1:3], "a page")
    equal(page["next_after"], 3, "next_after")
    last = (await world.ask("GET", f"{place}?after={len(items)}", 200, token=stream.session.token)).json()
    equal((last["items"], last["next_after"]), ([], None), "behind the end")
    for query in ("limit=0", "limit=201", "limit=x", "after=-1", "after=x"):
        await world.ask("GET", f"{place}?{query}", 400, "PROTO_MALFORMED", token=stream.session.token)
    await stream.leave()


async def credentials_and_functions_are_for_internal_mode(world):
    session = await world.create()
    for path in ("credential", "functions/x"):
        answer = await world.ask("POST", f"/v1/vip/sessions/{session.id}/{path}", None, None, {"invocation_id": "i", "parameters": {}}, token=session.token)
        ensure(400 <= answer.status_code < 500, path, answer.status_code, answer.text)


async def vip_093_discovery_says_what_there_is_of_a_voice(world):
    speech = world.discovery["speech"]
    equal((speech["hears"], speech["speaks"], speech["missing"]), (True, True, []), "speech")


CHECKS = [check for name, check in list(globals().items()) if asyncio.iscoroutinefunction(check) and check.__module__ == __name__]
