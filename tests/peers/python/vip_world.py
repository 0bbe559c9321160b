"""Servers for the checks of VIP, what they are asked over HTTP, and how a turn is held with them.

The checks start the servers themselves: some kill them, some need one that nobody else uses.
"""

import asyncio
import copy
import json
import os
import pathlib
import secrets
import signal
import subprocess
import tempfile
import threading

import httpx

from vip_tokens import DEVELOPMENT_SECRET, HS_SECRET, Issuer, Key, Outside
from vip_wire import *

ROOT = pathlib.Path(__file__).resolve().parents[3]
STORY = ROOT / "tests/peers/vip_story.toml"
# Where the models are with which the server hears; unset, in its data folder.
MODELS = os.environ.get("PEER_VIP_MODELS")
APP_ORIGIN = "https://app.example"
SECRETS = {"PEER_VIP_SECRET": HS_SECRET, "PEER_VIP_DEVELOPMENT": DEVELOPMENT_SECRET, "PEER_VIP_PROVIDER": "sk-long-term-key-that-never-leaves-0001"}
GENEROUS = [
    "limits.new_connections_per_address_per_s=100000",
    "limits.new_connections_per_address_burst=100000",
    "limits.principal_frames_per_s=1000000",
    "limits.principal_frames_burst=1000000",
    "limits.principal_bytes_per_s=1000000000",
    "limits.principal_bytes_burst=1000000000",
    "limits.principal_turns_per_s=100000",
    "limits.principal_turns_burst=100000",
]
FORMATS = {"input_formats": ["pcm16/16000"], "output_formats": ["pcm16/24000"]}
REQUEST = {"protocol_versions": ["0.1"], "app_id": "shop-web", "client": {"name": "peer", "version": "1.0", "platform": "other"}, "audio": FORMATS}


class Server:
    """The binary, running."""

    def __init__(self, binary, data, settings):
        self.binary, self.data, self.settings = binary, data, settings

    def start(self):
        command = [self.binary, "serve"]
        for setting in (f"data_dir={self.data}", "listen=127.0.0.1:0", *self.settings):
            command += ["--set", setting]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("SWITCHBOARD_")}
        self.log = open(f"{self.data}.log", "ab")
        self.process = subprocess.Popen(command, env={**environment, **SECRETS}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.log, text=True)
        for line in self.process.stdout:
            if "listening on " in line:
                word = line.split("listening on ", 1)[1].split()[0].rstrip("/,.")
                self.base = "http://" + word.split("://")[-1]
                threading.Thread(target=lambda: [None for _ in self.process.stdout], daemon=True).start()
                return self
        raise Failed(f"the server does not listen: {open(self.log.name).read()[-2000:]}")

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def terminate(self):
        self.process.send_signal(signal.SIGTERM)


class House:
    """The servers of a run, their issuers, and the folder that they keep their data in."""

    async def open(self, binary):
        self.binary, self.folder, self.servers = binary, tempfile.TemporaryDirectory(prefix="vip-peer-"), []
        self.keys = await Outside().start()
        names = {"es": "ES256", "ed": "EdDSA", "rs": "RS256", "rotating": "ES256", "stale": "ES256", "absent": "ES256", "narrow": "ES256"}
        self.issuers = {name: Issuer(f"https://{name}.test", Key(algorithm)) for name, algorithm in names.items()}
        self.issuers["hs"] = Issuer("https://hs.test", Key("HS256", HS_SECRET))
        self.rs_of_narrow = Key("RS256")
        rows = []
        for name, issuer in self.issuers.items():
            if name == "hs":
                rows.append(f"{{issuer='{issuer.name}',algorithms=['HS256'],secret_env='PEER_VIP_SECRET'}}")
                continue
            published = [issuer.key.public]
            if name == "narrow":
                oct = {"kty": "oct", "kid": "shared", "alg": "HS256", "k": "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LXNlY3JldA"}
                published += [self.rs_of_narrow.public, oct]
            url = self.keys.publish(f"/{name}", *published)
            self.keys.broken[f"/{name}"] = name == "absent"
            rows.append(f"{{issuer='{issuer.name}',algorithms=['{issuer.key.algorithm}'],jwks_url='{url}'}}")
        self.keys.answers["/v1/realtime/client_secrets"] = lambda body: (200, {"value": "ek_" + secrets.token_hex(12), "expires_at": int(time.time()) + body["expires_after"]["seconds"], "session": body["session"]})
        self.keys.answers["/stock"] = lambda body: (200, {"in_stock": body["parameters"].get("count", 0) + 1})
        self.settings = [
            *GENEROUS,
            "vip.providers=[{id='house-voice',adapter='vip-native',url='wss://voice.example/v1/vip/stream',model='voice-1'},"
            f"{{id='far-voice',adapter='openai-realtime-v1',url='wss://far.example/v1/realtime',model='far-1',base_url='{self.keys.base}',api_key_env='PEER_VIP_PROVIDER'}},"
            "{id='toy-voice',adapter='vip-native',url='wss://toy.example/v1/vip/stream',model='toy-1',production=false}]",
            f"vip.functions=[{{name='stock.count',url='{self.keys.base}/stock'}},{{name='stock.sell',url='{self.keys.base}/stock'}}]",
            f"allowed_origins=['{APP_ORIGIN}']",
            "vip.prompts.shop-assistant.instructions=You sell shoes.",
            # Tokens are for all the servers of a run, whatever their ports.
            "vip.issuer=https://vip.peer.test",
            "agent=vip",
            "agents.vip.kind=script",
            f"agents.vip.path={STORY}",
            "vip.issuers=[" + ",".join(rows) + "]",
            *([f"voice.models_dir={MODELS}"] if MODELS else []),
        ]
        self.development = Issuer("https://dev.test", Key("HS256", DEVELOPMENT_SECRET))
        return self

    async def server(self, name, *settings, development=True):
        """A server, and a world that talks to it."""
        own = ["vip.allow_development=true", "vip.development_secret_env=PEER_VIP_DEVELOPMENT"] if development else ["vip.allow_development=false"]
        server = Server(self.binary, f"{self.folder.name}/{name}", [*self.settings, *own, *settings])
        await asyncio.to_thread(server.start)
        self.servers.append(server)
        return await World(self, server).meet()

    def close(self):
        for server in self.servers:
            if server.process.poll() is None:
                server.kill()
        if os.environ.get("PEER_KEEP"):
            print("#", self.folder.name, flush=True)
            self.folder._finalizer.detach()
        else:
            self.folder.cleanup()


class World:
    """A server as seen from outside."""

    def __init__(self, house, server):
        self.house, self.server = house, server
        self.http = httpx.AsyncClient(timeout=PATIENCE, limits=httpx.Limits(max_connections=200))

    @property
    def base(self):
        return self.server.base

    async def meet(self):
        self.discovery = (await self.ask("GET", "/.well-known/vip", 200)).json()
        for issuer in (*self.house.issuers.values(), self.house.development):
            issuer.audience = self.discovery["issuer"]
        return self

    async def ask(self, method, path, status=None, error=None, body=None, token=None, headers=None, **more):
        """A request, and its answer, which is checked for what every answer has (2, 2.5)."""
        headers = dict(headers or {})
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        if body is not None and not isinstance(body, (bytes, str)):
            body, headers = json.dumps(body), {"Content-Type": "application/json", **headers}
        answer = await self.http.request(method, path if path.startswith("http") else self.base + path, content=body, headers=headers, **more)
        what = f"{method} {path.split('?')[0]} -> {answer.status_code} {answer.text[:300]}"
        ensure(answer.headers.get("x-request-id"), "no X-Request-Id:", what)
        if answer.status_code >= 400:
            check(HTTP_ERROR, answer.json(), what)
            problem = answer.json()["error"]
            row = check_error(problem, problem["fatal"])
            equal(row["http"], answer.status_code, f"status of {problem['code']}")
            equal(problem["request_id"], answer.headers["x-request-id"], "request_id")
            if answer.status_code == 401:
                ensure(answer.headers.get("www-authenticate", "").startswith('Bearer error="invalid_token"'), "WWW-Authenticate:", answer.headers.get("www-authenticate"), what)
            if answer.status_code in (429, 503):
                ensure(answer.headers.get("retry-after", "").isdigit(), "Retry-After:", what)
        if answer.content and "sdp" not in answer.headers.get("content-type", ""):
            equal(answer.headers.get("content-type", "").replace(" ", "").lower(), "application/json;charset=utf-8", f"content type of {what}")
        if status is not None:
            statuses = status if isinstance(status, tuple) else (status,)
            ensure(answer.status_code in statuses, f"expected {status} {error or ''}, got", what)
        if error is not None:
            codes = error if isinstance(error, tuple) else (error,)
            ensure(answer.json()["error"]["code"] in codes, f"expected {codes}, got", what)
        return answer

    def token(self, name="hs", **more):
        """An App Token for production."""
        return self.house.issuers[name].token(**more)

    async def post(self, status=201, error=None, token="own", issuer="hs", key=None, headers=None, about=None, **fields):
        """E3; `token="own"` signs one for the environment that is asked for."""
        request = {**REQUEST, "environment": "production", "mode": "external", **fields}
        request = {name: value for name, value in request.items() if value is not None}
        if token == "own":
            signer = self.house.development if request.get("environment") == "development" else self.house.issuers[issuer]
            token = signer.token(env=request.get("environment", "production"), **(about or {}))
        headers = {**(headers or {}), **({"Idempotency-Key": key} if key is not None else {})}
        return await self.ask("POST", "/v1/vip/sessions", status, error, request, token, headers)

    async def create(self, **more):
        """A session that E3 has made."""
        answer = await self.post(**more)
        created = answer.json()
        check(CREATED, created, "201")
        ensure(created["mode"] != "external" or ("transport" in created and "provider" not in created), "external:", created)
        return Session(created, self.base)

    async def open(self, session=None, **more):
        """A transport of a session, before client.connect."""
        session = session or await self.create(**more)
        return await Stream.open(session)

    async def talk(self, tree=None, **more):
        """A session that is idle."""
        stream = await self.open(**more)
        connected = await stream.connect()
        equal(connected["resumed"], False, "resumed")
        await stream.ready(tree or TREE())
        return stream

    async def status(self, session):
        answer = (await self.ask("GET", f"/v1/vip/sessions/{session.id}", 200, token=session.token)).json()
        check(STATUS, answer, "E4")
        return answer

    async def history(self, session):
        """The whole Conversation History: gapless, and in pages as in one piece."""
        items, after = [], 0
        while True:
            page = (await self.ask("GET", f"/v1/vip/sessions/{session.id}/history?after={after}&limit=200", 200, token=session.token)).json()
            check(HISTORY, page, "E10")
            items += page["items"]
            if page["next_after"] is None:
                break
            after = page["next_after"]
        equal([item["seq"] for item in items], list(range(1, len(items) + 1)), "seq of the history")
        return items

    async def refused(self, session, status, error=None, subprotocols=("vip.v1",), headers=None, path="stream", query="", origin=None):
        """An upgrade that is refused."""
        url = f"{self.base.replace('http', 'ws', 1)}/v1/vip/sessions/{session.id}/{path}{query}"
        try:
            socket = await connect(url, subprotocols=list(subprotocols), additional_headers=session.auth if headers is None else headers, origin=origin, open_timeout=PATIENCE)
        except InvalidStatus as refusal:
            response = refusal.response
            equal(response.status_code, status, f"status of the refused upgrade: {response.body[:300]}")
            problem = json.loads(response.body)
            check(HTTP_ERROR, problem, "a refused upgrade")
            check_error(problem["error"], problem["error"]["fatal"])
            if error is not None:
                ensure(problem["error"]["code"] in (error if isinstance(error, tuple) else (error,)), f"expected {error}, got", problem)
            return problem["error"]
        await socket.close()
        raise Failed(f"the upgrade was not refused, expected {status} {error}")


# --- an application --------------------------------------------------------------------------------


def TREE(version=1, **more):
    """The screen of a small shop."""
    tree = copy.deepcopy(VECTORS["V5"]["data"])
    tree["actions"].update(
        {
            "cart.add": {"type": "button", "description": "Put something into the cart", "element_id": "btn-add", "parameters": {"type": "object", "required": ["count"], "properties": {"count": {"type": "integer", "minimum": 1}}, "additionalProperties": False}},
            "help.open": {"type": "button", "description": "Open the help", "element_id": "btn-help", "global": True},
            "hidden.press": {"type": "button", "description": "A button that is not on the screen", "element_id": "btn-hidden"},
            "off.press": {"type": "button", "description": "A button that is grey", "element_id": "btn-off", "enabled": False},
            "music.play": {"type": "button", "description": "Play music while talking", "element_id": "btn-music", "parallel": True},
            "quick.press": {"type": "button", "description": "Has to be quick", "element_id": "btn-quick", "timeout_ms": 500},
            "secret.fill": {"type": "input", "description": "The password", "element_id": "pw", "input_type": "password"},
            "age.fill": {"type": "input", "description": "The age", "element_id": "age", "input_type": "number"},
            "news.check": {"type": "input", "description": "Subscribe", "element_id": "news", "input_type": "checkbox"},
            "size.pick": {"type": "input", "description": "The size", "element_id": "size", "input_type": "radiobutton", "options": ["small", "large"]},
        }
    )
    tree["visibility"] += ["cart.add", "off.press", "music.play", "quick.press", "secret.fill", "age.fill", "news.check", "size.pick"]
    return {**tree, "context_version": version, **more}


# --- turns -----------------------------------------------------------------------------------------


async def listen(stream, mode="text", trigger="text", **data):
    """idle to user_speaking; the turn."""
    turn = fresh("t")
    await stream.send("input.start", {"mode": mode, "trigger": trigger, **data}, turn_id=turn)
    changed = await stream.expect("state.changed", state=US, previous=ID, trigger="input.start")
    equal(changed.get("turn_id", turn), turn, "turn_id of state.changed")
    return turn


async def conclude(stream, turn, text):
    """user_speaking to ai_thinking with something typed."""
    await stream.send("input.text", {"text": text}, turn_id=turn)
    await stream.send("input.end", {"reason": "text"}, turn_id=turn)
    await stream.expect("state.changed", state=AT, previous=US, trigger="input.end")
    complete = await stream.expect("input.complete", turn_id=turn)
    equal(complete["text"], text, "what was typed")
    return turn


async def say(stream, text):
    """A typed turn, until the server thinks."""
    return await conclude(stream, await listen(stream), text)


async def retype(stream, barged, text):
    """What is typed instead of what was interrupted: a turn that a barge-in has begun is one of speech."""
    await stream.send("input.cancel", {"reason": "user"}, turn_id=barged)
    await stream.until("state.changed", state=ID, previous=US, trigger="input.cancel")
    await stream.barrier()
    return await say(stream, text)


async def speaking(stream):
    """ai_thinking to ai_speaking; the response."""
    opened = await stream.expect("response.audio")
    await stream.expect("state.changed", state=AS, previous=AT, trigger="response.audio")
    return stream.session.responses[opened["response_id"]]


async def finish(stream, response):
    """What is said is said, heard, and over."""
    done = await stream.until("response.done", response_id=response.id)
    equal(done["status"], "complete", f"status of {done}")
    if done.get("text") is not None and response.caption:
        equal(response.caption.strip(), done["text"].strip(), "captions and text")
    if response.opened.get("modality", "audio") == "audio":
        ensure(response.end is not None and response.frames, "VIP-069: no audio before", done)
    await stream.send("audio.complete", {"response_id": response.id, "played_ms": int(response.ms)})
    await stream.expect("state.changed", state=ID, previous=AS, trigger="audio.complete")
    return done


async def reply(stream):
    return await finish(stream, await speaking(stream))


async def turn(stream, text):
    """A whole typed turn; what was answered."""
    await say(stream, text)
    return (await reply(stream)).get("text")


async def invoked(stream, action, **data):
    """ai_thinking to invoke_action; the invocation."""
    invoke = await stream.expect("action.invoke", action_id=action, **data)
    await stream.expect("state.changed", state=IA, previous=AT, trigger="response.tool")
    return invoke


def result_of(invoke, error=None, **more):
    """An action.result for an invocation."""
    kind = "navigation" if invoke["type"] == "navigation" else "action"
    data = {"invocation_id": invoke["invocation_id"], "action_id": invoke["action_id"], "status": "error" if error else "success", "event": f"{kind}.{'failure' if error else 'success'}", "executed": not error, "duration_ms": 12}
    return {**data, **({"error": {"code": error, "message": "it did not work"}} if error else {}), **more}


async def resolve(stream, invoke, error=None, **more):
    """invoke_action to ai_thinking."""
    await stream.send("action.result", result_of(invoke, error, **more), role="user")
    if "context" in more:
        stream.adopt(more["context"])
    await stream.expect("state.changed", state=AT, previous=IA, trigger="action.result")


async def resume(world, lost, tree=None, last=None, token=None, **more):
    """Another transport for a session whose last one is gone, until session.connected."""
    stream = await Stream.open(lost.session)
    data = {"resume_token": token or lost.session.resume_token, "last_server_seq": lost.session.last_seq if last is None else last, **more}
    connected = await stream.connect(resume=data)
    equal(connected["resumed"], True, "resumed")
    return stream
