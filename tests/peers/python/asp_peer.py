"""Checks a running server from outside: `asp_peer.py URL [--strict URL]`, or `asp_peer.py URL --drain`.

The server must have the conformance story as its default agent, raised limits and these credentials, which
the environment names (see `crates/cli/tests/peers.rs`): PEER_KEY_ANN and PEER_KEY_BOB (API keys of two
principals), PEER_KEY_NARROW (may only reach the agent `echo`), PEER_JWT_SECRET, PEER_JWT_ISSUER and
PEER_JWT_AUDIENCE. The server behind `--strict` differs in having the limits that are the default.

One line per check, `ok NAME` or `FAIL NAME why`, and at the end how many there were of each.
"""

import asyncio
import json
import os
import secrets
import sys
import time
import zlib
from urllib.parse import urlsplit

from websockets.exceptions import ConnectionClosed, InvalidStatus, NegotiationError

from asp_wire import *
from checks import run, run_beside, summary, wanted

CHECKS, STRICT = [], []


def check(function):
    """Runs beside others, against the server with raised limits."""
    CHECKS.append(function)
    return function


def strict(function):
    """Runs alone and in this order, against the server with default limits."""
    STRICT.append(function)
    return function


class World:
    """Where the server is, and who may talk to it."""

    def __init__(self, url):
        self.url = url
        parts = urlsplit(url)
        self.address, self.host, self.path = (parts.hostname, parts.port), parts.netloc, parts.path
        env = os.environ
        self.ann, self.bob, self.narrow = env["PEER_KEY_ANN"], env["PEER_KEY_BOB"], env["PEER_KEY_NARROW"]
        self.secret, self.issuer = env["PEER_JWT_SECRET"], env["PEER_JWT_ISSUER"]
        self.audience = env["PEER_JWT_AUDIENCE"]

    def token(self, lifetime=3600.0, secret=None, header=None, **claims):
        standard = {"iss": self.issuer, "aud": self.audience, "sub": "carol", "exp": int(time.time() + lifetime)}
        return jwt(secret or self.secret, header, **{**standard, **claims})

    async def bare(self, query="", token=None):
        return await Peer.open(self.url, token or self.ann, query=query)

    async def standard(self, token=None, features=STANDARD, enc="json", query="", **members):
        peer = await Peer.open(self.url, token or self.ann, query=query)
        await peer.hello(features, enc, **members)
        return peer

    async def upgrade(self, query="", path=None, drop=(), **changes):
        """An upgrade by hand; a change of a header to None takes it away."""
        headers = {
            "Host": self.host,
            "Upgrade": "websocket",
            "Connection": "Upgrade",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
            "Sec-WebSocket-Protocol": "asp-v1",
            "Authorization": f"Bearer {self.ann}",
        }
        headers.update({name.replace("_", "-"): value for name, value in changes.items()})
        fields = [(name, value) for name, value in headers.items() if value is not None]
        return await http(self.address, (path or self.path) + query, fields)

    async def refused(self, status, code=None, **request):
        answer = await self.upgrade(**request)
        equal(answer.status, status, "status")
        if code is not None:
            equal(answer.error["code"], code, "code")
            ensure(answer.error["name"] and answer.error["msg"] and "retry" in answer.error, answer.error)
        if status == 401:
            equal(answer.headers.get("www-authenticate"), ["Bearer"], "WWW-Authenticate")
        return answer


# --- the upgrade (section 2) -----------------------------------------------------------------------


@check
async def asp_004_selects_asp_v1(world):
    peer = await Peer.open(world.url, world.ann, subprotocols=["chat", "asp-v1", "asp-v2"])
    equal(peer.websocket.subprotocol, "asp-v1", "subprotocol")
    await peer.close()


@check
async def asp_004_refuses_without_subprotocol(world):
    await world.refused(400, 2000, Sec_WebSocket_Protocol=None)
    await world.refused(400, 2000, Sec_WebSocket_Protocol="asp-v2, chat")
    try:
        await Peer.open(world.url, world.ann, subprotocols=["asp-v2"])
    except (InvalidStatus, NegotiationError):
        return
    raise Failed("upgraded without asp-v1")


@check
async def asp_005_serves_the_path_and_no_other(world):
    equal((await world.upgrade()).status, 101, "status")
    equal((await world.upgrade(path="/v1/agent-socket/more")).status, 404, "status")


@check
async def asp_006_needs_a_credential(world):
    await world.refused(401, 2100, Authorization=None)


@check
async def asp_006_refuses_wrong_tokens(world):
    equal((await world.upgrade(Authorization=f"Bearer {world.token()}")).status, 101, "a good token")
    wrong = {
        "nonsense": "nonsense",
        "almost a key": world.ann + "x",
        "empty": "",
        "other audience": world.token(aud="https://other.test"),
        "no audience": world.token(aud=None),
        "other issuer": world.token(iss="https://other.test"),
        "other secret": world.token(secret="another-secret-that-is-quite-long-enough"),
        "alg none": world.token(header={"alg": "none"}),
        "alg NONE": world.token(header={"alg": "NONE"}),
        "alg HS512": world.token(header={"alg": "HS512"}),
        "no exp": world.token(exp=None),
        "no sub": world.token(sub=None),
        "not yet": world.token(nbf=int(time.time()) + 1000),
        "cut": world.token()[:-4],
        "not for access": world.token(header={"typ": "asp-relay+jwt"}),
    }
    for name, token in wrong.items():
        try:
            await world.refused(401, 2101, Authorization=f"Bearer {token}")
        except Failed as failed:
            raise Failed(f"{name}: {failed}") from None
    await world.refused(401, 2102, Authorization=f"Bearer {world.token(lifetime=-100)}")
    await world.refused(401, 2101, Authorization=f"Basic {world.ann}")


@check
async def asp_007_bearer_in_the_header_and_among_subprotocols(world):
    peer = await Peer.open(world.url, world.ann)
    equal(text_bare(await peer.turn_bare("echo one")), "one", "answer")
    await peer.close()
    peer = await Peer.open(world.url, None, subprotocols=["asp-v1", bearer_entry(world.ann)])
    equal(peer.websocket.subprotocol, "asp-v1", "subprotocol")
    equal(text_bare(await peer.turn_bare("echo two")), "two", "answer")
    await peer.close()
    for order in (f"{bearer_entry(world.ann)}, asp-v1", f"asp-v1,{bearer_entry(world.ann)}"):
        answer = await world.upgrade(Authorization=None, Sec_WebSocket_Protocol=order)
        equal(answer.status, 101, "status")
        equal(answer.headers["sec-websocket-protocol"], ["asp-v1"], "what is selected")
        ensure("asp-bearer" not in str(answer.headers), "the credential was echoed", answer.headers)


@check
async def asp_007_two_credentials_must_agree(world):
    both = f"asp-v1, {bearer_entry(world.ann)}"
    equal((await world.upgrade(Sec_WebSocket_Protocol=both)).status, 101, "the same twice")
    await world.refused(401, 2101, Sec_WebSocket_Protocol=f"asp-v1, {bearer_entry(world.bob)}")
    twice = f"asp-v1, {bearer_entry(world.ann)}, {bearer_entry(world.ann)}"
    await world.refused(401, 2101, Authorization=None, Sec_WebSocket_Protocol=twice)
    await world.refused(401, 2101, Authorization=None, Sec_WebSocket_Protocol="asp-v1, asp-bearer.!!")
    answer = await world.upgrade(Sec_WebSocket_Protocol=f"asp-v1, {bearer_entry(world.bob)}")
    ensure("asp-bearer" not in str(answer.headers) + answer.body.decode(), "the credential was echoed")


@check
async def asp_008_tokens_in_the_query_are_refused(world):
    for name in ("token", "access_token", "api_key", "bearer"):
        await world.refused(401, 2101, query=f"?{name}={world.ann}", Authorization=None)
        await world.refused(401, 2101, query=f"?{name}={world.ann}")
    await world.refused(401, 2101, query=f"?to%6ben={world.ann}")


@check
async def upgrade_agent(world):
    equal((await world.upgrade(query="?agent=echo")).status, 101, "a known agent")
    await world.refused(404, 2304, query="?agent=nobody")
    await world.refused(400, 2000, query="?agent=no%20name")
    await world.refused(400, 2000, query="?agent=")
    narrow = f"Bearer {world.narrow}"
    await world.refused(403, 2103, query="?agent=conformance", Authorization=narrow)
    equal((await world.upgrade(query="?agent=echo", Authorization=narrow)).status, 101, "its own agent")
    await world.refused(403, 2103, query="?agent=echo", Authorization=f"Bearer {world.token(scope='asp:invoke')}")


@check
async def upgrade_default_agent_outside_of_the_scope(world):
    # Whether at the upgrade or at the INVOKE: an agent that the credential does not name is not reached.
    answer = await world.upgrade(Authorization=f"Bearer {world.narrow}")
    if answer.status == 101:
        peer = await world.standard(token=world.narrow)
        await peer.error(await peer.invoke("echo secret"), 2103)
        frames = await peer.turn("hello", agent="echo")
        equal((text_of(frames), frames[-1].opcode), ("hello", STREAM), f"the agent that it may reach {frames}")
        await peer.error(await peer.invoke("echo secret", agent="conformance"), 2103)
        await peer.close()
    else:
        equal(answer.status, 403, "status")


@check
async def upgrade_origin_and_host(world):
    await world.refused(403, 2103, Origin="https://evil.test")
    await world.refused(403, 2103, Origin="null")
    await world.refused(403, 2103, Origin=f"http://{world.host}.evil.test")
    equal((await world.upgrade(Origin=f"http://{world.host}")).status, 101, "our own origin")
    await world.refused(403, 2103, Host="evil.test")
    await world.refused(403, 2103, Host=f"evil.test:{world.address[1]}")
    equal((await world.upgrade(Host=f"localhost:{world.address[1]}")).status, 101, "localhost")


@check
async def upgrade_426_and_400(world):
    answer = await world.refused(426, 2000, Upgrade=None, Connection=None)
    equal(answer.headers.get("upgrade"), ["websocket"], "Upgrade")
    await world.refused(426, 2000, Upgrade="h2c")
    await world.refused(400, 2000, Sec_WebSocket_Key=None)
    await world.refused(400, 2000, Sec_WebSocket_Version="8")


# --- bare (sections 5, 8) --------------------------------------------------------------------------


async def turn_bare(peer, text, id=None):
    id = id or peer.fresh()
    await peer.send(frame(INVOKE, id, text.encode()))
    return await peer.finish(id)


Peer.turn_bare = turn_bare


def text_bare(frames):
    ensure(all(frame.opcode == STREAM for frame in frames), "failed:", frames[-1])
    equal(frames[-1].payload, b"", "the terminal frame")
    return "".join(frame.value for frame in frames)


@check
async def asp_019_bare_turn(world):
    peer = await world.bare()
    frames = await peer.turn_bare("words one two three")
    equal(text_bare(frames), "one two three", "answer")
    ensure(len(frames) == 4 and all(frame.flags == 0 for frame in frames), frames)
    equal(text_bare(await peer.turn_bare("{not json", id=65535)), "You said: {not json", "sniffed text")
    await peer.send(frame(INVOKE, 7, json.dumps({"input": "echo json"}).encode()))
    equal(text_bare(await peer.finish(7)), "json", "a map")
    await peer.send(frame(INVOKE, 8, msgpack.packb({"kind": "chat", "input": "echo packed"})))
    equal(text_bare(await peer.finish(8)), "packed", "a packed map")
    await peer.send(frame(INVOKE, 9, b'[{"type":"text","text":"echo "},{"type":"text","text":"parts"}]'))
    ensure("parts" in text_bare(await peer.finish(9)), "parts")
    await peer.close()


@check
async def asp_018_reserved_is_ignored_until_agreed(world):
    peer = await world.bare()
    await peer.send(frame(INVOKE, 1, b"echo hi", flags=0xFF))
    equal(text_bare(await peer.finish(1)), "hi", "answer")
    await peer.close()


@check
async def asp_030_bare_requests_end_with_an_empty_stream(world):
    peer = await world.bare()
    equal(text_bare(await peer.turn_bare("nothing")), "", "no output")
    frames = await peer.turn_bare("fail execution after 2")
    equal([frame.opcode for frame in frames], [STREAM, STREAM, ERROR], "opcodes")
    equal(frames[-1].value["code"], 2400, "code")
    await peer.close()


@check
async def asp_035_code_points_are_never_split(world):
    peer = await world.bare()
    text = "€🌍é" * 20_000
    frames = await peer.turn_bare("echo " + text)
    ensure(len(frames) > 2, "expected several frames")
    equal(text_bare(frames), text, "answer")
    await peer.close()


@check
async def asp_012_a_lying_bare_client_costs_nothing(world):
    peer = await world.bare()
    await peer.send(struct.pack(">BBHI", 0x12, 0, 1, 0xFFFFFFFF))
    await peer.closed(1009)
    equal([frame.value["code"] for frame in peer.inbox], [2202], "errors")
    ensure(peer.inbox[0].value["fatal"], "fatal")


@check
async def asp_033_complete06_by_query(world):
    peer = await world.bare(query="?end=complete06")
    await peer.send(frame(INVOKE, 1, b"words a b"))
    frames = await peer.finish(1)
    equal([frame.opcode for frame in frames], [STREAM, STREAM, ERROR], "opcodes")
    equal((frames[-1].value["code"], frames[-1].value["finish"]), (0, "complete"), "completion")
    await peer.send(frame(INVOKE, 1, b"hang"))
    await peer.interrupt(1)
    end = (await peer.finish(1))[-1]
    equal((end.value["code"], end.value["finish"]), (0, "interrupted"), "completion")
    await peer.close()


@check
async def asp_034_0x06_is_never_success_otherwise(world):
    peer = await world.standard()
    for text in ("echo a", "nothing", "finish length", "everything"):
        equal((await peer.turn(text))[-1].opcode, STREAM, "opcode of the end")
    await peer.close()


@check
async def asp_056_a_lost_bare_connection_cancels(world):
    peer, name = await world.bare(), secrets.token_hex(8)
    await peer.send(frame(INVOKE, 1, json.dumps({"input": "hang after 1", "session": name}).encode()))
    await peer.next(lambda frame: frame.id == 1)
    await peer.cut()
    other = await world.standard()
    frames = await other.turn("echo next", session=name)
    equal(text_of(frames), "next", "the session is free again")
    await other.close()


# --- HELLO and profiles (section 5) ----------------------------------------------------------------


@check
async def asp_020_one_accept_with_a_cid(world):
    peer = await world.standard()
    ensure(16 <= len(peer.accept["cid"]) <= 64, peer.accept)
    limits = peer.accept["limits"]
    for name in ("max_payload", "max_message", "max_inflight", "window", "frames_per_s", "invokes_per_s"):
        ensure(limits[name] > 0, name)
    equal(peer.accept["server"]["mode"], "direct", "mode")
    ensure(len(peer.accept["resume"]["token"]) >= 22, "128 bits of token")
    await peer.say_hello(features=STANDARD)
    await peer.error(0, 2012)
    equal(text_of(await peer.turn("echo still here")), "still here", "answer")
    await peer.quiet(0.1, lambda frame: frame.opcode == TOOL_DEF)
    await peer.close()


@check
async def asp_021_only_what_was_offered(world):
    for offered in ([], ["events"], ["flags", "events", "nonsense"], ["frag", "deflate", "resume"], STANDARD):
        peer = await Peer.open(world.url, world.ann)
        accept = await peer.hello(offered)
        ensure(set(accept["features"]) <= set(offered), accept["features"])
        ensure("frag" not in accept["features"] or "flags" in accept["features"], "frag needs flags")
        ensure("resume" not in accept["features"] or "events" in accept["features"], "resume needs events")
        await peer.close()
    equal(set((await world.standard()).features), set(STANDARD), "the standard profile")


@check
async def asp_023_an_empty_hello_means_no_features(world):
    for payload in (b"", b"{}", b"\xc1\xff", b"hello?"):
        peer = await Peer.open(world.url, world.ann)
        await peer.send(frame(HELLO, 0, payload))
        accept = await peer.next(lambda frame: frame.opcode == HELLO)
        equal(accept.value["features"], [], "features")
        equal(text_bare(await peer.turn_bare("echo x")), "x", "bare output")
        await peer.close()


@check
async def asp_003_no_common_version_in_hello(world):
    peer = await Peer.open(world.url, world.ann)
    await peer.say_hello(ver=[2, 3])
    await peer.closed(4406)
    equal([frame.value["code"] for frame in peer.inbox], [2001], "errors")


async def standard_turn(world, enc):
    peer = await world.standard(enc=enc)
    equal(peer.accept["enc"], enc, "enc")
    frames = await peer.turn("everything", want=["text", "reason", "tool", "data", "usage"])
    wanted = ENC_JSON if enc == "json" else ENC_MSGPACK
    ensure(all(frame.flags & 0x0C == wanted for frame in frames), "ENC")
    equal([bool(frame.flags & END) for frame in frames], [False] * (len(frames) - 1) + [True], "END")
    kinds = [frame.record("t") for frame in frames]
    equal((kinds[0], kinds[-1]), ("start", "end"), "first and last record")
    for kind in ("status", "reason", "text", "tool", "data", "usage"):
        ensure(kind in kinds, f"no {kind} in {kinds}")
    equal(numbers_of(frames), list(range(len(frames))), "n of every record (ASP-081)")
    equal(text_of(frames), "Hello, wörld 🌍. 1,2,3,", "answer")
    end = frames[-1].value
    equal((end["finish"], end["output"]), ("complete", {"input": "everything"}), "end")
    ensure(end["usage"]["output_tokens"] == 9 and "wall_ms" in end["metrics"], end)
    await peer.close()


@check
async def asp_031_standard_turn_in_json(world):
    await standard_turn(world, "json")


@check
async def asp_031_standard_turn_in_messagepack(world):
    await standard_turn(world, "msgpack")


@check
async def asp_031_flags_without_events(world):
    peer = await world.standard(features=["flags"])
    frames = await peer.turn("words a b")
    equal([frame.payload for frame in frames[:-1]], [b"a ", b"b"], "deltas")
    ensure(frames[-1].flags & END, "END")
    await peer.close()


@check
async def want_and_stream(world):
    peer = await world.standard()
    frames = await peer.turn("everything", want=["reason"])
    equal({f.record("t") for f in frames} - {"start", "status", "end"}, {"reason"}, "records")
    frames = await peer.turn("count 3", stream=False)
    equal(frames[-1].value["output"], "1 2 3 ", "output")
    ensure(not text_of(frames), "text although only the end was asked for")
    await peer.close()


@check
async def push_notice(world):
    peer = await world.standard()
    id = await peer.invoke("warn mind the gap")
    notice = await peer.next(lambda f: f.id == 0 and f.opcode == STREAM)
    equal((notice.value["t"], notice.value["level"], notice.value["text"]), ("notice", "warn", "mind the gap"))
    await peer.finish(id)
    await peer.close()


@check
async def ping_of_websocket_and_of_hello(world):
    peer = await world.standard()
    pong = await peer.websocket.ping(b"are you there")
    receiving = asyncio.ensure_future(peer.next(lambda f: f.opcode == HELLO and f.record("op") == "pong"))
    await asyncio.wait_for(pong, PATIENCE)
    await peer.say_hello(op="ping", nonce="abc")
    equal((await receiving).value["nonce"], "abc", "nonce")
    await peer.close()
    peer = await world.standard(features=["events"])
    await peer.say_hello(op="ping", nonce="abc")
    await peer.error(0, 2012)
    await peer.close()


@check
async def bye_cancels_and_closes(world):
    peer, name = await world.standard(), secrets.token_hex(8)
    id = await peer.invoke("hang after 1", session=name)
    await peer.record(id, "text")
    await peer.say_hello(op="bye")
    await peer.closed(1000)
    other = await world.standard()
    equal(text_of(await other.turn("echo next", session=name)), "next", "the session is free again")
    again = await Peer.open(world.url, world.ann)
    resume = {"cid": peer.accept["cid"], "token": peer.accept["resume"]["token"], "next": {str(id): 0}}
    await again.hello(resume=resume)
    equal(again.rejected.value["code"], 2600, "no resume after bye")
    await again.close()
    await other.close()


# --- frames (sections 2.3, 3, 4) -------------------------------------------------------------------


@check
async def asp_010_several_frames_in_one_message(world):
    peer = await world.standard()
    await peer.send(b"".join(peer.invocation(id, {"input": f"echo {id}"}) for id in (1, 2, 3)))
    for id in (1, 2, 3):
        equal(text_of(await peer.finish(id)), str(id), "answer")
    await peer.send(b"")
    bare = await Peer.open(world.url, world.ann)
    # A HELLO and what follows it, before the accept is there.
    await bare.send(frame(HELLO, 0, json.dumps({"features": STANDARD, "enc": ["json"]}).encode()) + frame(INVOKE, 1, b"echo early"))
    await bare.next(lambda f: f.opcode == HELLO)
    equal(text_of(await bare.finish(1)), "early", "answer")
    await peer.close()
    await bare.close()


@check
async def websocket_fragmentation_is_transparent(world):
    peer = await world.bare()
    whole = frame(INVOKE, 1, b"echo in pieces") + frame(INVOKE, 2, b"echo more")
    await peer.send(iter([whole[:3], whole[3:11], whole[11:]]))
    equal(text_bare(await peer.finish(1)), "in pieces", "answer")
    equal(text_bare(await peer.finish(2)), "more", "answer")
    await peer.close()


@check
async def asp_009_text_message(world):
    for peer in (await world.bare(), await world.standard()):
        await peer.send("hello")
        await peer.closed(1003)
        errors = [frame.value for frame in peer.inbox if frame.opcode == ERROR]
        equal([(error["code"], error["fatal"]) for error in errors], [(2010, True)], "errors")


@check
async def asp_003_wrong_version(world):
    peer = await world.bare()
    await peer.send(frame(INVOKE, 1, version=2))
    await peer.closed(4406)
    equal([frame.value["code"] for frame in peer.inbox], [2001], "errors")
    peer = await world.standard()
    await peer.send(frame(INVOKE, 1, version=0))
    await peer.closed(4406)


@check
async def asp_011_trailing_partial_frame(world):
    for tail in (b"\x12", b"\x12\x00\x00\x02\x00\x00\x00", struct.pack(">BBHI", 0x13, 0, 1, 4) + b"AB"):
        peer = await world.standard()
        await peer.send(peer.invocation(1, {"kind": "list"}) + tail)
        await peer.closed(4400)
        equal([f.record("t") for f in peer.inbox if f.id == 1], ["end"], "the whole frame before it")
        equal([f.value["code"] for f in peer.inbox if f.opcode == ERROR], [2004], "errors")


@check
async def asp_013_beyond_the_hard_cap(world):
    for length in (0xFFFFFFFF, 0x80000000, (16 << 20) + 1):
        peer = await world.standard()
        await peer.send(struct.pack(">BBHI", 0x12, 0, 1, length) + b"x" * 100)
        await peer.closed(1009)
        equal([f.value["code"] for f in peer.inbox if f.opcode == ERROR], [2202], "errors")


@check
async def asp_013_a_websocket_message_beyond_max_message(world):
    peer = await world.standard()
    size = peer.accept["limits"]["max_message"]
    try:
        await peer.send(frame(INVOKE, 1, b"x" * size))
    except ConnectionClosed:
        pass
    await peer.closed(1009)


@check
async def asp_014_above_max_payload_but_within_the_cap(world):
    peer = await world.standard()
    size = peer.accept["limits"]["max_payload"] + 1
    await peer.send(frame(INVOKE, 1, b"x" * size, ENC_RAW))
    await peer.error(1, 2202)
    equal(text_of(await peer.turn("echo still here", id=1)), "still here", "answer")
    await peer.close()
    bare = await world.bare()
    await bare.send(frame(INVOKE, 1, b"y" * 270_000))
    await bare.error(1, 2202)
    equal(text_bare(await bare.turn_bare("echo still here", id=1)), "still here", "answer")
    await bare.close()


@check
async def asp_015_unknown_opcodes_are_skipped(world):
    peer = await world.standard()
    await peer.send(frame(0xF, 3, b"\x00\x01") + peer.invocation(1, {"input": "echo on"}) + frame(0x0, 4) + frame(0x7, 5))
    for ref in (3, 4, 5):
        equal((await peer.error(0, 2002))["ref"], ref, "ref")
    equal(text_of(await peer.finish(1)), "on", "answer")
    await peer.close()


@check
async def asp_016_wrong_direction(world):
    peer = await world.standard()
    await peer.send(frame(STREAM, 3, b"{}") + frame(TOOL_DEF, 0, b"{}"))
    equal((await peer.error(0, 2003))["ref"], 3, "ref")
    await peer.error(0, 2003)
    equal(text_of(await peer.turn("echo on")), "on", "answer")
    for number in range(8):
        await peer.send(frame(STREAM, 1, b"x"))
    await peer.closed(4400)
    ensure(any(f.record("code") == 2000 for f in peer.inbox), peer.inbox)


@check
async def asp_017_unknown_members_are_ignored(world):
    peer = await Peer.open(world.url, world.ann)
    await peer.hello(future={"a": [1, None, True]}, limits={"more": 1})
    frames = await peer.turn("echo fine", later={"x": 1}, meta={"k": "v"})
    equal(text_of(frames), "fine", "answer")
    await peer.close()


@check
async def asp_025_duplicate_id(world):
    peer = await world.standard()
    await peer.invoke("count 30 every 10", id=5)
    await peer.record(5, "text")
    await peer.send(peer.invocation(5, {"input": "echo other"}))
    equal((await peer.error(0, 2008))["ref"], 5, "ref")
    frames = await peer.finish(5)
    ensure(text_of(frames).endswith("29 30 "), "the running request goes on")
    equal(frames[-1].value["finish"], "complete", "finish")
    equal(text_of(await peer.turn("echo reused", id=5)), "reused", "the id is free at once")
    await peer.close()


@check
async def asp_026_invoke_on_id_0(world):
    peer = await world.standard()
    await peer.send(peer.invocation(0, {"input": "echo x"}))
    await peer.error(0, 2007)
    await peer.send(frame(HELLO, 3, b"{}"))
    await peer.error(0, 2007)
    equal(text_of(await peer.turn("echo on")), "on", "answer")
    await peer.close()


@check
async def asp_027_up_to_max_inflight(world):
    peer = await world.bare()
    for id in range(1, 18):
        await peer.send(frame(INVOKE, id, b"hang after 1"))
    await peer.error(17, 2201)
    for id in range(1, 17):
        await peer.next(lambda frame: frame.id == id and frame.opcode == STREAM)
    await peer.interrupt(0)
    for id in range(1, 17):
        equal((await peer.finish(id))[-1].payload, b"", "terminal frame")
    equal(text_bare(await peer.turn_bare("echo room", id=17)), "room", "room again")
    await peer.close()


@check
async def bad_payloads_end_only_their_request(world):
    peer = await world.standard()
    deep = b'{"input":' + b"[" * 40 + b"]" * 40 + b"}"
    wide = json.dumps({f"k{i}": 1 for i in range(5000)}).encode()
    cases = [
        (b"\xff\xfe", ENC_JSON, 2005),
        (b'{"input":"cut', ENC_JSON, 2005),
        (b"\x81\xa5input\xa2h", ENC_MSGPACK, 2005),
        (b"\x81\xa5input\xc7\x01\x05\x00", ENC_MSGPACK, 2005),
        (deep, ENC_JSON, 2005),
        (wide, ENC_JSON, 2005),
        (b"{}", ENC_JSON, 2300),
        (b'{"kind":"dance"}', ENC_JSON, 2300),
        (b'{"kind":"chat","input":7}', ENC_JSON, 2300),
        (b'{"input":"x","deadline_ms":"soon"}', ENC_JSON, 2300),
        (b"echo x", 0x01 | 0x02, 2006),
    ]
    for id, (payload, flags, code) in enumerate(cases, 1):
        await peer.send(frame(INVOKE, id, payload, flags))
        answer = await peer.next(lambda frame: frame.opcode == ERROR)
        ensure(answer.value["code"] in (code, 2005, 2300) and code // 100 == answer.value["code"] // 100 or answer.value["code"] == code, payload[:40], answer)
        equal(answer.id, id, f"id for {payload[:40]}")
    equal(text_of(await peer.turn("echo on", id=99)), "on", "answer")
    await peer.close()


# --- fragments and compression (section 3.3) -------------------------------------------------------


def fragments(opcode, id, payload, size, flags):
    pieces = [payload[at : at + size] for at in range(0, len(payload), size)]
    return [frame(opcode, id, piece, flags | MORE) for piece in pieces[:-1]] + [frame(opcode, id, pieces[-1], flags)]


@check
async def asp_057_client_fragments(world):
    peer = await world.standard()
    text = "measure " + "é" * 100_000
    payload = json.dumps({"input": text}).encode()
    parts = fragments(INVOKE, 1, payload, 7_000, ENC_JSON)
    for number, part in enumerate(parts):
        await peer.send(part)
        if number == 3:
            # Another id may come in between.
            equal(text_of(await peer.turn("echo between", id=2)), "between", "answer")
    digest = hashlib.sha256(text.encode()).hexdigest()
    equal(text_of(await peer.finish(1)), f"{len(text)} {len(text.encode())} {digest}", "what arrived")
    await peer.close()


@check
async def asp_057_broken_fragments(world):
    peer = await world.standard()
    # Another encoding in the second fragment.
    await peer.send(frame(INVOKE, 1, b'{"input":', ENC_JSON | MORE) + frame(INVOKE, 1, b'"x"}', ENC_MSGPACK))
    await peer.error(1, 2011)
    # An INTERRUPT in between ends the request.
    await peer.send(frame(INVOKE, 2, b'{"input":', ENC_JSON | MORE) + frame(INTERRUPT, 2))
    equal((await peer.finish(2))[-1].value["finish"], "interrupted", "finish")
    # Together larger than max_payload.
    most = peer.accept["limits"]["max_payload"]
    for part in fragments(INVOKE, 3, b'{"input":"' + b"x" * most + b'"}', 200_000, ENC_JSON):
        await peer.send(part)
    await peer.error(3, 2202)
    for id in (1, 2, 3):
        equal(text_of(await peer.turn("echo on", id=id)), "on", "answer")
    await peer.close()


@check
async def asp_057_server_fragments(world):
    peer = await world.standard()
    value = {"text": "x" * 200_000}
    frames = await peer.turn("data " + json.dumps(value), want=["data", "text"])
    data = [frame for frame in frames if frame.record("t") == "data"]
    equal([frame.value["value"] for frame in data], [value], "data")
    ensure(data[0].fragments > 1, "expected fragments")
    await peer.close()


@check
async def server_sends_no_more_than_the_client_takes(world):
    peer = await world.standard(limits={"max_payload": 4096})
    seen = []
    take = peer.take
    peer.take = lambda part: (seen.append(len(part.payload)), take(part))
    frames = await peer.turn("echo " + "z" * 50_000)
    equal(text_of(frames), "z" * 50_000, "answer")
    ensure(max(seen) <= 4096, "a frame of", max(seen))
    await peer.close()


@check
async def asp_058_deflate_both_ways(world):
    peer = await world.standard(features=[*STANDARD, "deflate"])
    ensure("deflate" in peer.features, peer.features)
    text = "measure " + "abcdefgh" * 10_000
    pack = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    payload = pack.compress(json.dumps({"input": text, "pad": os.urandom(1000).hex()}).encode()) + pack.flush()
    for part in fragments(INVOKE, 1, payload, 500, ENC_JSON | COMPRESSED):
        await peer.send(part)
    digest = hashlib.sha256(text.encode()).hexdigest()
    equal(text_of(await peer.finish(1)), f"{len(text)} {len(text)} {digest}", "what arrived")
    # Packs well, but not beyond the 100 to 1 that a receiver would have to refuse.
    words = " ".join(str(number) for number in range(6_000))
    frames = await peer.turn(f"echo {words}")
    equal(text_of(frames), words, "text")
    ensure(any(frame.flags & COMPRESSED for frame in frames), "nothing was compressed")
    await peer.close()


@check
async def asp_058_bombs_are_bounded(world):
    peer = await world.standard(features=[*STANDARD, "deflate"])
    for id, size in ((1, 900_000), (2, 50_000_000)):
        pack = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
        bomb = pack.compress(b'{"input":"' + b"a" * size + b'"}') + pack.flush()
        await peer.send(frame(INVOKE, id, bomb, ENC_JSON | COMPRESSED))
        await peer.error(id, 2202)
    await peer.send(frame(INVOKE, 3, b"\xff\xff\xff\xff", ENC_JSON | COMPRESSED))
    await peer.error(3, 2005)
    equal(text_of(await peer.turn("echo on", id=4)), "on", "answer")
    await peer.close()


# --- interrupts and flow (sections 9, 12.1) --------------------------------------------------------


@check
async def asp_036_interrupt(world):
    # 100 ms, and what a busy machine adds; one that is busier than that is asked again.
    for attempt in range(3):
        peer = await world.standard()
        id = await peer.invoke("count 100000 every 2")
        for _ in range(20):
            await peer.record(id, "text")
        await peer.interrupt(id, mode="cancel", reason="user")
        sent = time.monotonic()
        frames = await peer.finish(id)
        equal(frames[-1].value["finish"], "interrupted", "finish")
        await peer.quiet(0.2, lambda frame: frame.opcode == TOOL_DEF)
        await peer.close()
        ended = frames[-1].at - sent
        late = [frame.at - sent for frame in frames[:-1] if frame.at - sent > 0.25]
        if ended < 1.0 and not late:
            return
    raise Failed(f"terminal frame after {ended:.3f} s, output after the interrupt: {late[:3]}")


@check
async def asp_037_an_empty_interrupt_cancels(world):
    bare = await world.bare()
    await bare.send(frame(INVOKE, 1, b"hang after 1"))
    await bare.next(lambda f: f.opcode == STREAM)
    await bare.send(frame(INTERRUPT, 1))
    equal((await bare.finish(1))[-1].payload, b"", "terminal frame")
    peer = await world.standard()
    id = await peer.invoke("hang")
    await peer.send(frame(INTERRUPT, id, b"\xc1 nonsense"))
    equal((await peer.finish(id))[-1].value["finish"], "interrupted", "finish")
    # ERROR from a client is an interrupt as well (section 11).
    id = await peer.invoke("hang")
    await peer.send(frame(ERROR, id, b'{"code":2900,"name":"X","msg":"no"}', ENC_JSON))
    equal((await peer.finish(id))[-1].value["finish"], "interrupted", "finish")
    await peer.close()
    await bare.close()


@check
async def asp_038_interrupt_all(world):
    peer = await world.standard()
    ids = [await peer.invoke("hang after 1") for _ in range(5)]
    queued = [await peer.invoke("wait 5000", session="all-" + peer.accept["cid"]) for _ in range(2)]
    for id in ids:
        await peer.record(id, "text")
    await peer.interrupt(0)
    for id in ids + queued:
        equal((await peer.finish(id))[-1].value["finish"], "interrupted", f"finish of {id}")
    equal(text_of(await peer.turn("echo on")), "on", "answer")
    await peer.close()


@check
async def asp_039_late_interrupts_are_ignored(world):
    peer = await world.standard()
    id = await peer.invoke("echo x")
    await peer.finish(id)
    await peer.interrupt(id)
    await peer.interrupt(40_000)
    equal((await peer.error(0, 2009))["ref"], 40_000, "only the id that was never used is unknown")
    await peer.quiet(0.1, lambda frame: frame.opcode == TOOL_DEF)
    await peer.close()


@check
async def asp_048_credit(world):
    window = 8_192
    peer = await world.standard(limits={"window": window})
    equal(peer.accept["limits"]["window"], window, "window")
    id = await peer.invoke("deltas 100 of 512")
    other = await peer.invoke("echo not held up")
    equal(text_of(await peer.finish(other)), "not held up", "another request")
    mine = lambda frame: frame.id == id or frame.opcode == TOOL_DEF
    streamed = lambda: sum(len(frame.payload) for frame in peer.inbox if frame.id == id)

    async def settled(window, seconds):
        """How much has come once the window is used, and some time later."""
        deadline = time.monotonic() + PATIENCE
        while streamed() < window and time.monotonic() < deadline:
            await peer.quiet(0.1, mine)
        await peer.quiet(seconds, mine)
        return streamed()

    used = await settled(window, 0.5)
    ensure(window <= used < window + 1_024, f"{used} bytes in a window of {window}")
    await peer.interrupt(id, mode="credit", bytes=4_096)
    used = await settled(window + 4_096, 0.3)
    ensure(window + 4_096 <= used < window + 4_096 + 1_024, f"{used} bytes after more credit")
    await peer.interrupt(id, mode="credit")
    equal((await peer.error(0, 2005))["ref"], id, "credit without bytes")
    await peer.interrupt(id, mode="credit", bytes=1 << 20)
    frames = await peer.finish(id)
    equal(len(text_of(frames)), 51_200, "all of it arrives in the end")
    equal(numbers_of(frames), list(range(len(frames))), "numbers")
    await peer.close()


@check
async def asp_036_interrupt_of_output_that_is_held_back(world):
    # The agent is done; only the client has not had everything yet.
    peer = await world.standard(limits={"window": 1_024})
    for hold in ("credit", "pause"):
        id = await peer.invoke("deltas 16 of 600" if hold == "credit" else "count 20 every 10")
        await peer.record(id, "text")
        if hold == "pause":
            await peer.interrupt(id, mode="pause")
        await asyncio.sleep(0.5)
        await peer.interrupt(id)
        try:
            end = (await peer.finish(id, timeout=15))[-1]
        except Failed as failed:
            raise Failed(f"{hold}: {failed}") from None
        ensure(end.value["finish"] in ("interrupted", "complete"), end)
        equal(text_of(await peer.turn("echo on", id=id)), "on", "the id is free again")
    await peer.close()


@check
async def pause_and_resume(world):
    peer = await world.standard()
    id = await peer.invoke("count 400 every 10")
    await peer.record(id, "text")
    await peer.interrupt(id, mode="pause")
    # What was under way still comes, and on a busy machine late.
    came = None
    while came != len(peer.inbox):
        came = len(peer.inbox)
        await peer.quiet(0.5, lambda frame: True)
    ensure("400 " not in text_of(frame for frame in peer.inbox if frame.id == id), "it is not paused")
    peer.inbox = [frame for frame in peer.inbox if frame.id != id]
    await peer.quiet(0.4, lambda frame: frame.opcode == TOOL_DEF)
    await peer.interrupt(id, mode="resume")
    frames = await peer.finish(id)
    ensure(text_of(frames).endswith("399 400 "), text_of(frames)[-40:])
    equal(frames[-1].value["finish"], "complete", "finish")
    await peer.close()


# --- tools, calls, questions (sections 7, 8, 10) ---------------------------------------------------

ADDER = {"name": "add", "description": "Adds.", "input_schema": {"type": "object"}}


@check
async def asp_045_client_tool(world):
    peer = await world.standard(tools=[ADDER])
    id = await peer.invoke('call add {"a": 2, "b": 3}')
    call = await peer.record(id, "call")
    equal((call["name"], call["args"]), ("add", {"a": 2, "b": 3}), "call")
    result = await peer.invoke(kind="result", parent=id, call_id=call["call_id"], ok=True, output=call["args"]["a"] + call["args"]["b"])
    equal([f.record("finish") for f in await peer.finish(result)], ["accepted"], "result")
    equal(text_of(await peer.finish(id)), "result: 5", "answer")
    again = await peer.invoke(kind="result", parent=id, call_id=call["call_id"], ok=True, output=6)
    await peer.error(again, 2303)
    id = await peer.invoke("call add")
    call = await peer.record(id, "call")
    await peer.finish(await peer.invoke(kind="result", parent=id, call_id=call["call_id"], ok=False, error={"name": "Overflow", "msg": "too big"}))
    ensure("Overflow" in text_of(await peer.finish(id)), "the failure reaches the agent")
    await peer.close()


@check
async def asp_045_client_tool_times_out(world):
    peer = await world.standard(tools=[ADDER])
    id = await peer.invoke("call add within 200")
    call = await peer.record(id, "call")
    ensure(call["timeout_ms"] <= 200, call)
    await peer.error(id, 2403)
    late = await peer.invoke(kind="result", parent=id, call_id=call["call_id"], ok=True, output=1)
    await peer.error(late, 2303)
    ensure("timed_out" in text_of(await peer.turn("try add within 100")), "an agent may go on")
    await peer.close()


@check
async def calls_of_an_interrupted_request_are_void(world):
    peer = await world.standard(tools=[ADDER])
    id = await peer.invoke("call add")
    call = await peer.record(id, "call")
    await peer.interrupt(id)
    equal((await peer.finish(id))[-1].value["finish"], "interrupted", "finish")
    await peer.error(await peer.invoke(kind="result", parent=id, call_id=call["call_id"], ok=True), 2303)
    await peer.close()


@check
async def ask_and_reply(world):
    peer = await world.standard()
    id = await peer.invoke("ask your name?")
    ask = await peer.record(id, "ask")
    equal(ask["text"], "your name?", "text")
    reply = await peer.invoke(kind="reply", parent=id, ask_id=ask["ask_id"], text="Ann")
    equal((await peer.finish(reply))[-1].value["finish"], "accepted", "finish")
    equal(text_of(await peer.finish(id)), "answer: Ann", "answer")
    id = await peer.invoke("choose one")
    ask = await peer.record(id, "ask")
    ensure(ask["schema"]["required"] == ["choice"], ask)
    await peer.finish(await peer.invoke(kind="reply", parent=id, ask_id=ask["ask_id"], data={"choice": "b"}))
    equal(text_of(await peer.finish(id)), "choice: b", "answer")
    await peer.close()


@check
async def asp_044_tools(world):
    peer = await world.standard()
    id = await peer.invoke(kind="tool", tool="greet", args={"name": "Bo"})
    end = (await peer.finish(id))[-1].value
    equal((end["finish"], end["output"]), ("complete", {"greeting": "Hello, Bo!"}), "end")
    for args in ({}, {"name": 7}, {"name": "x", "more": 1}):
        await peer.error(await peer.invoke(kind="tool", tool="greet", args=args), 2302)
    await peer.error(await peer.invoke(kind="tool", tool="nothing_of_the_kind", args={}), 2301)
    await peer.error(await peer.invoke(kind="tool", tool="broken", args={}), 2401)
    frames = await peer.finish(await peer.invoke(kind="tool", tool="stream", args={"n": 3}))
    equal(text_of(frames), "1 2 3 ", "output on the way")
    frames = await peer.finish(await peer.invoke(kind="step", step={"goal": "shine", "state": {"k": 1}}))
    equal(frames[-1].value["output"], {"goal": "shine", "previous": {"k": 1}, "done": True}, "step")
    await peer.close()


@check
async def asp_042_tool_revisions_grow(world):
    peer = await world.standard()
    first = await peer.next(lambda frame: frame.opcode == TOOL_DEF)
    equal(first.id, 0, "id (ASP-043)")
    equal({tool["name"] for tool in first.value["tools"]}, {"greet", "stream", "broken"}, "tools")
    for text in ("add tool", "remove tool", "add tool"):
        await peer.turn(text)
    await peer.finish(await peer.invoke(kind="list"))
    later = [frame for frame in peer.inbox if frame.opcode == TOOL_DEF]
    equal([frame.value.get("op", "add") for frame in later], ["add", "remove", "add", "set"], "ops")
    revisions = [frame.value["rev"] for frame in [first, *later]]
    ensure(all(a < b for a, b in zip(revisions, revisions[1:])), revisions)
    equal({tool["name"] for tool in later[-1].value["tools"]}, {"greet", "stream", "broken", "extra"}, "tools")
    frames = await peer.finish(await peer.invoke(kind="tool", tool="extra", args={}))
    equal(frames[-1].value["output"], {"extra": True}, "output")
    await peer.turn("remove tool")
    await peer.error(await peer.invoke(kind="tool", tool="extra", args={}), 2301)
    await peer.close()


# --- requests (sections 6, 7) ----------------------------------------------------------------------


@check
async def asp_028_requests_run_side_by_side(world):
    peer = await world.standard()
    slow = await peer.invoke("count 30 every 100")
    await peer.record(slow, "text")
    quick = await peer.invoke("echo quick")
    equal(text_of(await peer.finish(quick)), "quick", "answer")
    ensure(slow not in peer.ended, "one after the other")
    ensure(text_of(await peer.finish(slow)).endswith(" 30 "), "order within an id")
    await peer.close()


@check
async def serial_sessions_queue_with_positions(world):
    peer, name = await world.standard(), secrets.token_hex(8)
    ids = [await peer.invoke(f"words {number} done every 500", session=name) for number in range(4)]
    free = await peer.invoke("echo free")
    aside = await peer.invoke("echo aside", session=name, serial=False)
    await peer.finish(free)
    await peer.finish(aside)
    ensure(ids[1] not in peer.ended, "requests without a session, or not serial, do not wait")
    ends = []
    for number, id in enumerate(ids):
        frames = await peer.finish(id)
        queued = [f.value["pos"] for f in frames if f.record("t") == "status" and f.record("state") == "queued"]
        equal(bool(queued), number > 0, f"request {number} was queued: {queued}")
        if number:
            equal(queued[0], number, "first position")
            ensure(all(a > b for a, b in zip(queued, queued[1:])), queued)
        start = next(f for f in frames if f.record("t") == "start")
        ensure(not ends or start.at >= ends[-1], "started before the one before it ended")
        equal(text_of(frames), f"{number} done", "answer")
        ends.append(frames[-1].at)
    await peer.close()


@check
async def asp_046_deadline(world):
    peer = await world.standard()
    began = time.monotonic()
    await peer.error(await peer.invoke("hang after 2", deadline_ms=1000), 2405)
    took = time.monotonic() - began
    ensure(0.9 < took < 3, f"after {took:.2f} s")
    await peer.error(await peer.invoke("echo x", deadline_ms=1), 2300)
    await peer.close()


@check
async def asp_047_idempotency(world):
    peer, key = await world.standard(), secrets.token_hex(8)
    first = await peer.turn("count 5", idem=key)
    again = await peer.turn("count 5", idem=key)
    equal([f.value for f in again if f.record("t") != "status"], [f.value for f in first if f.record("t") != "status"], "the same records")
    # The deadline and meta are not part of the digest; everything else is.
    equal(text_of(await peer.turn("count 5", idem=key, deadline_ms=5000, meta={"x": 1})), "1 2 3 4 5 ", "answer")
    await peer.error(await peer.invoke("count 6", idem=key), 2305)
    await peer.close()


@check
async def asp_047_idempotency_over_two_connections(world):
    one, two, key = await world.standard(), await world.standard(enc="msgpack"), secrets.token_hex(8)
    id = await one.invoke("count 30 every 20", idem=key)
    await one.record(id, "text")
    # While it runs, from its beginning.
    frames = await two.turn("count 30 every 20", idem=key)
    expected = "".join(f"{number} " for number in range(1, 31))
    equal(text_of(frames), expected, "what the second one sees")
    equal(numbers_of(frames), list(range(len(frames))), "numbers")
    rest = await one.finish(id)
    equal(rest[-1].value["finish"], "complete", "the first one is not disturbed")
    run = next(f for f in frames if f.record("t") == "start").value["run"]
    # After it has ended, and after its connection has gone.
    await one.close()
    three = await world.standard()
    frames = await three.turn("count 30 every 20", idem=key)
    equal(text_of(frames), expected, "what the third one sees")
    equal(next(f for f in frames if f.record("t") == "start").value["run"], run, "run")
    await three.error(await three.invoke("count 31 every 20", idem=key), 2305)
    # Another principal may use the same key for something else.
    bob = await world.standard(token=world.bob)
    equal(text_of(await bob.turn("echo bob", idem=key)), "bob", "answer")
    for peer in (two, three, bob):
        await peer.close()


@check
async def agents_fail_in_defined_ways(world):
    peer = await world.standard()
    codes = {
        "fail execution": 2400, "fail tool after 2": 2401, "fail model_unavailable": 2402, "fail worker_lost": 2504,
        "fail internal": 2406, "panic": 2400, "panic after 3": 2400,
    }
    for text, code in codes.items():
        frames = await peer.turn(text)
        equal((text, frames[-1].value.get("code")), (text, code), "failure")
    for finish in ("complete", "length", "filtered", "empty"):
        equal((await peer.turn(f"finish {finish}"))[-1].value["finish"], finish, "finish")
    await peer.error(await peer.invoke("echo x", agent="nobody"), 2304)
    equal(text_of(await peer.turn("by another", agent="echo")), "by another", "answer")
    await peer.close()


# --- resume (section 13.2) -------------------------------------------------------------------------


async def resumed(world, peer, next, token=None, secret=None):
    again = await Peer.open(world.url, token or world.ann)
    again.next_id = peer.next_id
    resume = {"cid": peer.accept["cid"], "token": secret or peer.accept["resume"]["token"], "next": next}
    await again.hello(resume=resume)
    return again


@check
async def asp_053_cut_and_resume(world):
    for enc in ("json", "msgpack"):
        peer = await world.standard(enc=enc)
        done = await peer.invoke("count 3")
        await peer.finish(done)
        half = await peer.invoke("count 80 every 60")
        quick = await peer.invoke("count 5")
        forgotten = await peer.invoke("hang after 1", session="forgotten-" + peer.accept["cid"])
        await peer.record(forgotten, "text")
        frames = [await peer.next(lambda f: f.id == half) for _ in range(12)]
        await peer.cut()
        await asyncio.sleep(0.2)
        seen = frames[-1].value["n"] + 1
        again = await resumed(world, peer, {str(half): seen, str(quick): 0, str(done): 1, "999": 0})
        equal((again.rejected, again.accept["resumed"]), (None, True), "resumed")
        equal(again.accept["cid"], peer.accept["cid"], "cid")
        ensure(again.accept["resume"]["token"] != peer.accept["resume"]["token"], "the token is rotated (ASP-054)")
        equal(again.accept["lost"], [999], "lost")
        await again.error(999, 2601)
        rest = await again.finish(half)
        equal(numbers_of(frames + rest), list(range(len(frames + rest))), "every n exactly once")
        equal(text_of(frames + rest), "".join(f"{number} " for number in range(1, 81)), "answer")
        replayed = [bool(frame.flags & REPLAY) for frame in rest]
        ensure(replayed[0] and not replayed[-1], "REPLAY on what was missed only")
        equal(replayed, sorted(replayed, reverse=True), "REPLAY comes first")
        whole = await again.finish(quick)
        equal(text_of(whole), "1 2 3 4 5 ", "answer")
        ensure(all(frame.flags & REPLAY for frame in whole), "REPLAY")
        ended = await again.finish(done)
        equal(numbers_of(ended)[0], 1, "from where it was asked for")
        equal(ended[-1].value["finish"], "complete", "the stored end")
        tools = await again.next(lambda f: f.opcode == TOOL_DEF)
        equal(tools.value["op"], "set", "tools are sent again")
        equal(text_of(await again.turn("echo free", session="forgotten-" + peer.accept["cid"])), "free", "what was not asked for is cancelled")
        await again.close()


@check
async def asp_053_resume_twice(world):
    peer = await world.standard()
    id = await peer.invoke("count 120 every 10")
    frames = []
    for _ in range(3):
        frames += [await peer.next(lambda f: f.id == id) for _ in range(10)]
        await peer.cut()
        peer = await resumed(world, peer, {str(id): frames[-1].value["n"] + 1})
        equal(peer.rejected, None, "resumed")
    frames += await peer.finish(id)
    equal(numbers_of(frames), list(range(len(frames))), "every n exactly once")
    equal(text_of(frames), "".join(f"{number} " for number in range(1, 121)), "answer")
    await peer.close()


@check
async def asp_053_an_id_that_was_used_in_two_sessions(world):
    # Two ids, each last used in another session: whichever answers first, the later request counts.
    peer, a, b = await world.standard(), secrets.token_hex(8), secrets.token_hex(8)
    for id, session in ((1, a), (2, b)):
        await peer.turn("echo earlier", session=session, id=id)
    for id, session in ((1, b), (2, a)):
        await peer.invoke("count 40 every 15", session=session, id=id)
    frames = {id: [await peer.next(lambda f: f.id == id) for _ in range(8)] for id in (1, 2)}
    await peer.cut()
    again = await resumed(world, peer, {str(id): frames[id][-1].value["n"] + 1 for id in (1, 2)})
    equal((again.rejected, again.accept["lost"]), (None, []), "resumed")
    for id in (1, 2):
        whole = frames[id] + await again.finish(id)
        equal(text_of(whole), "".join(f"{number} " for number in range(1, 41)), f"the later request of id {id}")
        equal(numbers_of(whole), list(range(len(whole))), "every n exactly once")
    await again.close()


@check
async def asp_053_calls_survive_a_cut(world):
    peer = await world.standard(tools=[ADDER])
    id = await peer.invoke('call add {"a": 1}')
    await peer.next(lambda f: f.id == id and f.record("t") == "start")
    call = await peer.record(id, "call")
    await peer.cut()
    again = await Peer.open(world.url, world.ann)
    again.next_id = peer.next_id
    resume = {"cid": peer.accept["cid"], "token": peer.accept["resume"]["token"], "next": {str(id): 0}}
    await again.hello(resume=resume, tools=[ADDER])
    equal((await again.record(id, "call"))["call_id"], call["call_id"], "the call is shown again")
    await again.finish(await again.invoke(kind="result", parent=id, call_id=call["call_id"], ok=True, output="late"))
    equal(text_of(await again.finish(id)), "result: late", "answer")
    await again.close()


@check
async def asp_054_a_token_is_used_once(world):
    peer = await world.standard()
    id = await peer.invoke("hang after 1")
    await peer.record(id, "text")
    await peer.cut()
    again = await resumed(world, peer, {str(id): 2})
    equal(again.rejected, None, "resumed")
    thief = await resumed(world, peer, {str(id): 2})
    equal(thief.rejected.value["code"], 2600, "a used token")
    equal(thief.rejected.id, 0, "id")
    ensure(thief.accept["cid"] != peer.accept["cid"] and not thief.accept.get("resumed"), "it continues fresh")
    equal(text_of(await thief.turn("echo fresh", id=77)), "fresh", "answer")
    await again.interrupt(id)
    equal((await again.finish(id))[-1].value["finish"], "interrupted", "the rightful one is not disturbed")
    await again.close()
    await thief.close()


@check
async def asp_055_resume_by_another_principal(world):
    peer = await world.standard()
    id = await peer.invoke("hang after 1")
    await peer.record(id, "text")
    thief = await resumed(world, peer, {str(id): 0}, token=world.bob)
    stranger = await Peer.open(world.url, world.bob)
    await stranger.hello(resume={"cid": "a" * 26, "token": peer.accept["resume"]["token"], "next": {}})
    equal(thief.rejected.value, stranger.rejected.value, "looks like a connection that never was")
    equal(thief.rejected.value["code"], 2600, "code")
    await thief.quiet(0.1, lambda f: f.opcode == TOOL_DEF)
    wrong = await resumed(world, peer, {str(id): 0}, secret="wrong" * 8)
    equal(wrong.rejected.value["code"], 2600, "a wrong token")
    await peer.interrupt(id)
    equal((await peer.finish(id))[-1].value["finish"], "interrupted", "the rightful one is not disturbed")
    for each in (peer, thief, stranger, wrong):
        await each.close()


@check
async def asp_079_takeover(world):
    peer = await world.standard()
    id = await peer.invoke("count 60 every 15")
    frames = [await peer.next(lambda f: f.id == id) for _ in range(5)]
    again = await resumed(world, peer, {str(id): frames[-1].value["n"] + 1})
    equal(again.accept["resumed"], True, "resumed")
    await peer.closed(4409)
    frames += await again.finish(id)
    equal(numbers_of(frames), list(range(len(frames))), "every n exactly once")
    equal(frames[-1].value["finish"], "complete", "finish")
    await again.close()


# --- who may do what (sections 2.2, 19) ------------------------------------------------------------


@check
async def a_foreign_session_looks_like_none(world):
    ann, bob = await world.standard(), await world.standard(token=world.bob)
    name = secrets.token_hex(8)
    mine = (await ann.turn("who", session=name, want=["data"]))[-1].value["output"]
    ensure(mine["session"].startswith("ses_"), mine)
    letters = "0123456789abcdefghjkmnpqrstvwxyz"
    absent = "ses_" + "".join(secrets.choice(letters) for _ in mine["session"][4:])
    shapes = []
    for session in (mine["session"], absent):
        frames = await bob.turn("who", session=session, want=["data"])
        seen = []
        for f in frames:
            value = json.loads(json.dumps(f.value))
            value.pop("run", None)
            value.pop("metrics", None)
            for holder in (value.get("value"), value.get("output")):
                if isinstance(holder, dict):
                    ensure(holder["session"] != mine["session"], "bob is in ann's session")
                    holder.pop("session"), holder.pop("turn")
            seen.append((f.opcode, f.flags, json.dumps(value, sort_keys=True)))
        shapes.append(seen)
    equal(shapes[0], shapes[1], "somebody else's session and one that does not exist")
    # The same name means something else for everybody.
    his = (await bob.turn("who", session=name, want=["data"]))[-1].value["output"]
    ensure(his["session"] != mine["session"] and his["principal"] != mine["principal"], his)
    # And ann still has hers, by its name and by its identifier.
    for session in (name, mine["session"]):
        again = (await ann.turn("who", session=session, want=["data"]))[-1].value["output"]
        equal(again["session"], mine["session"], "session")
    await ann.close()
    await bob.close()


@check
async def scope_without_invoke(world):
    peer = await world.standard(token=world.token(scope="asp:connect"))
    await peer.error(await peer.invoke("echo x"), 2103)
    await peer.close()


@check
async def reauth(world):
    token = world.token(lifetime=4)
    peer = await world.standard(token=token, features=[*STANDARD, "reauth"])
    await peer.error(0, 2104)
    exp = int(time.time()) + 3600
    await peer.say_hello(op="auth", token=world.token(exp=exp))
    authed = await peer.next(lambda f: f.opcode == HELLO and f.record("op") == "authed")
    ensure(abs(authed.value["exp"] - exp) <= 60, authed.value)
    await asyncio.sleep(5)
    equal(text_of(await peer.turn("echo renewed")), "renewed", "answer after the first token has ended")
    await peer.close()


@check
async def reauth_by_somebody_else_is_refused(world):
    for token in (world.token(sub="mallory"), world.bob, "nonsense", world.token(lifetime=-100)):
        peer = await world.standard(token=world.token(), features=[*STANDARD, "reauth"])
        await peer.say_hello(op="auth", token=token)
        await peer.closed(4401)
        ensure(any(f.record("code") == 2101 for f in peer.inbox), peer.inbox)
    peer = await world.standard(token=world.token())
    await peer.say_hello(op="auth", token=world.token())
    await peer.error(0, 2012)
    await peer.close()


@check
async def expiry_closes_a_busy_connection(world):
    peer = await world.standard(token=world.token(lifetime=3))
    await peer.error(0, 2104)
    await peer.invoke("hang after 1")
    await peer.closed(4401, timeout=8)
    ensure(any(f.record("code") == 2102 for f in peer.inbox), peer.inbox)


@check
async def expiry_closes_a_silent_connection(world):
    # One that never says a word is not above the law.
    peer = await Peer.open(world.url, world.token(lifetime=3))
    await peer.closed(4401, timeout=8)


# --- rates (section 12.2): against a server with default limits ------------------------------------


@strict
async def asp_050_flood(world):
    peer = await world.standard()
    codes = {}
    # INVOKEs only: 20 at once and 10 per second are allowed.
    for burst in range(8):
        try:
            for _ in range(40):
                await peer.invoke("nothing")
            await asyncio.sleep(0.5)
        except ConnectionClosed:
            break
    await peer.closed(4429)
    for frame in peer.inbox:
        if frame.opcode == ERROR:
            codes.setdefault(frame.value["code"], []).append(frame)
    ensure(2200 in codes, "no RATE_LIMITED", codes.keys())
    ensure(all(f.id and f.value["retry"] and f.value["retry_ms"] > 0 for f in codes[2200]), codes[2200][0])
    equal([(f.id, f.value["fatal"]) for f in codes[2205]], [(0, True)], "FLOOD")
    done = [f for f in peer.inbox if f.record("t") == "end"]
    ensure(20 <= len(done) <= 60, f"{len(done)} were served")


@strict
async def asp_051_interrupts_get_through(world):
    peer = await world.standard(token=world.bob)
    id = await peer.invoke("hang after 1")
    await peer.record(id, "text")
    for _ in range(30):
        await peer.invoke("nothing")
    for _ in range(45):
        await peer.interrupt(id + 1)
    await peer.interrupt(id)
    sent = time.monotonic()
    end = (await peer.finish(id))[-1]
    equal(end.value["finish"], "interrupted", "finish")
    ensure(end.at - sent < 2.0, f"after {end.at - sent:.2f} s")
    await peer.cut()


@strict
async def protocol_errors_are_a_flood(world):
    peer = await world.standard(token=world.bob)
    try:
        for _ in range(12):
            await peer.send(frame(INVOKE, 0, b"{}"))
    except ConnectionClosed:
        pass
    await peer.closed(4429)


@strict
async def upgrade_429(world):
    for _ in range(60):
        answer = await world.upgrade()
        if answer.status == 429:
            break
    equal((answer.status, answer.error["code"]), (429, 2200), "too many connections from one address")
    ensure(int(answer.headers["retry-after"][0]) >= 1, answer.headers)
    ensure(answer.error["retry"] and answer.error["retry_ms"] > 0, answer.error)


# --- drain (section 13.3): the caller sends SIGTERM when `ready` is printed --------------------------


async def asp_078_goaway(world):
    peer, idle, bare = await world.standard(), await world.standard(), await world.bare()
    id = await peer.invoke("count 40 every 100")
    await peer.record(id, "text")
    await bare.send(frame(INVOKE, 1, b"count 20 every 100"))
    await bare.next(lambda f: f.opcode == STREAM)
    print("ready", flush=True)
    goaway = (await peer.next(lambda f: f.opcode == HELLO)).value
    equal(goaway["op"], "goaway", "op")
    ensure(goaway["retry_ms"] >= 0 and goaway["reason"], goaway)
    late = await peer.invoke("echo too late")
    error = await peer.error(late, 2501)
    ensure(error["retry"], error)
    answer = await world.upgrade()
    equal((answer.status, answer.error["code"]), (503, 2501), "new connections")
    ensure(int(answer.headers["retry-after"][0]) >= 1, answer.headers)
    frames = await peer.finish(id)
    equal(frames[-1].value["finish"], "complete", "what runs may finish")
    await peer.closed(1012)
    await idle.closed(1012)
    await bare.closed(1012)
    equal([f.record("op") for f in idle.inbox if f.opcode == HELLO], ["goaway"], "told as well")
    equal([f.payload for f in bare.inbox if f.terminal], [b""], "the bare request has ended")


async def main(arguments):
    url, *options = arguments
    world, results = World(url), []
    if "--drain" in options:
        await run(asp_078_goaway, world, results, 40)
    else:

        async def alone():
            if "--strict" in options:
                narrow = World(options[options.index("--strict") + 1])
                for function in wanted(STRICT):
                    await run(function, narrow, results, 40)

        await asyncio.gather(alone(), run_beside(wanted(CHECKS), world, results, 40))
    return summary(results)


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1:])))
