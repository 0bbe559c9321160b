#!/usr/bin/env python3
"""An agent as an HTTP function behind an ASP relay, with nothing but the standard library.

    FUNCTION_SECRET=whsec_... python3 function.py [port]
"""

import base64
import concurrent.futures
import hashlib
import hmac
import json
import os
import re
import select
import socket
import sys
import threading
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MAX_BODY = 16 * 1024 * 1024
MAX_SKEW_S = 300
PING_S = 10
MEMORY_S = 15 * 60
MAX_MEMORY = 100_000
DELAY_S = int(os.environ.get("FUNCTION_DELAY_MS", "20")) / 1000


# --- Who asks: a signature over id, time and the body as it came ---------------------------------------------


class Refused(Exception):
    """An answer without records: a status and what is wrong."""

    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


def read_keys(text):
    """Several secrets, apart by spaces, while one takes the place of another."""
    keys = []
    for secret in text.split():
        if not secret.startswith("whsec_"):
            raise ValueError("a secret begins with whsec_")
        keys.append(base64.b64decode(secret.removeprefix("whsec_"), validate=True))
    if not keys:
        raise ValueError("set FUNCTION_SECRET to the secret that the relay signs with")
    return keys


def verify(keys, headers, body, now):
    message_id = headers.get("webhook-id")
    timestamp = headers.get("webhook-timestamp")
    signatures = headers.get("webhook-signature")
    if not message_id or not timestamp or not signatures:
        raise Refused(401, "webhook-id, webhook-timestamp and webhook-signature are needed")
    if not re.fullmatch(r"[0-9]{1,15}", timestamp):
        raise Refused(401, "webhook-timestamp must be whole Unix seconds")
    if abs(now - int(timestamp)) > MAX_SKEW_S:
        raise Refused(401, f"signed more than {MAX_SKEW_S} s from now")
    given = [entry.removeprefix("v1,").encode() for entry in signatures.split()[:16] if entry.startswith("v1,")]
    signed = b".".join([message_id.encode(), timestamp.encode(), body])
    fits = False
    for key in keys:
        expected = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest())
        for signature in given:
            fits |= hmac.compare_digest(expected, signature)
    if not fits:
        raise Refused(401, "no signature fits")


# --- What was asked before ------------------------------------------------------------------------------------


class Seen:
    """Remembers legs of invocations, so that none is answered twice.

    An attempt that broke off may be followed by the next one; anything else that repeats is a duplicate.
    """

    def __init__(self):
        self.lock = threading.Lock()
        self.legs = {}  # (inv, leg) -> (state, attempt, when), oldest first

    def begin(self, key, attempt):
        with self.lock:
            now = time.monotonic()
            while self.legs:
                oldest = next(iter(self.legs))
                if len(self.legs) < MAX_MEMORY and now - self.legs[oldest][2] <= MEMORY_S:
                    break
                del self.legs[oldest]
            state, last, _ = self.legs.get(key, ("broken", 0, 0))
            if state != "broken" or attempt <= last:
                raise Refused(409, "this invocation was taken already")
            self._put(key, "running", attempt)

    def leave(self, key, state):
        with self.lock:
            if key in self.legs:
                self._put(key, state, self.legs[key][1])

    def _put(self, key, state, attempt):
        self.legs.pop(key, None)
        self.legs[key] = (state, attempt, time.monotonic())


# --- What was asked: the text of a chat -----------------------------------------------------------------------


def input_text(body):
    if "payload_b64" in body:
        return base64.b64decode(body["payload_b64"]).decode()
    payload = body.get("payload")
    if isinstance(payload, dict):
        aliases = [payload[name] for name in ("input", "prompt", "message") if name in payload]
        kind = payload.get("kind") or ("tool" if "tool" in payload else "chat")
        if kind != "chat" or not aliases:
            raise Refused(422, "this function answers chats only")
        payload = aliases[0]
    if isinstance(payload, list):
        texts = [part.get("text", "") for part in payload if isinstance(part, dict) and part.get("type") == "text"]
        payload = "".join(texts)
    if not isinstance(payload, str):
        raise Refused(422, "the input must be text")
    return payload


# --- The relay, as a function calls it ------------------------------------------------------------------------


def call_relay(body, url, document=None, timeout=10):
    """GET, or POST with a document; gives status and JSON."""
    request = urllib.request.Request(url, method="POST" if document else "GET")
    request.add_header("Authorization", "Bearer " + body["push"]["token"])
    data = None
    if document:
        request.add_header("Content-Type", "application/json")
        data = json.dumps(document).encode()
    try:
        with urllib.request.urlopen(request, data, timeout) as response:
            return response.status, json.loads(response.read(1024 * 1024) or b"null")
    except urllib.error.HTTPError as error:
        return error.code, None


def push(body, idem, frames):
    """Repeats what did not arrive; the relay knows it again by `idem`."""
    document = {"idem": idem, "frames": frames}
    for attempt in range(4):
        try:
            status, _ = call_relay(body, body["push"]["url"], document)
            if status < 500 and status != 429:
                break
        except OSError as error:
            status = error
        time.sleep(0.2 * 2**attempt)
    if status != 202:
        raise ConnectionError(f"the relay refused a push: {status}")


# --- Cancelling: by a broken connection, by /interrupt, by asking the relay -----------------------------------


class Cancelled(Exception):
    """Nobody wants the answer any more."""


class Run:
    """One invocation while it runs."""

    running = {}
    lock = threading.Lock()

    def __init__(self, body):
        self.body = body
        self.inv = body["inv"]
        self.cause = None
        self.over = threading.Event()
        with Run.lock:
            Run.running[self.inv] = self
        if body.get("cancel") and body.get("push"):
            threading.Thread(target=self._poll, daemon=True).start()

    @staticmethod
    def interrupt(inv):
        with Run.lock:
            run = Run.running.get(inv)
        if run:
            run.cancel("interrupt")

    def cancel(self, cause):
        with Run.lock:
            if self.cause or self.over.is_set():
                return
            self.cause = cause
        print(f"cancelled inv={self.inv} by={cause}", file=sys.stderr, flush=True)

    def end(self):
        self.over.set()
        with Run.lock:
            if Run.running.get(self.inv) is self:
                del Run.running[self.inv]

    def _poll(self):
        cancel = self.body["cancel"]
        while not self.over.wait(cancel.get("poll_ms", 1000) / 1000):
            try:
                status, said = call_relay(self.body, cancel["url"])
            except OSError:
                continue
            if status == 200 and said.get("cancelled"):
                return self.cancel("poll")


# --- Answering: records, numbered over all legs ---------------------------------------------------------------


class Records:
    def __init__(self, run):
        self.run = run
        self.next_n = run.body.get("next_n", 0)

    def record(self, t, **members):
        if self.run.cause and not (t == "end" and members.get("finish") == "interrupted"):
            raise Cancelled
        record = {"t": t}
        if t not in ("error", "suspend", "ping", "tool_def"):
            record["n"] = self.next_n
            self.next_n += 1
        self.send({**record, **members})

    def pause(self, seconds):
        """Waits, and learns of a cancellation meanwhile."""
        until = time.monotonic() + seconds
        while True:
            self.check()
            if self.run.cause:
                raise Cancelled
            left = until - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(left, 0.05))


class Response(Records):
    """Records in the body of the response, one per line; the head is sent with the first."""

    def __init__(self, run, handler):
        super().__init__(run)
        self.handler = handler
        self.headers = {}
        self.begun = False
        self.wrote_at = 0

    def send(self, record):
        if not self.begun:
            self.begun = True
            self.handler.send_response(200)
            self.handler.send_header("Content-Type", "application/x-ndjson")
            self.handler.send_header("Transfer-Encoding", "chunked")
            for name, value in self.headers.items():
                self.handler.send_header(name, value)
            self.handler.end_headers()
        line = json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        self._write(b"%x\r\n%s\r\n" % (len(line), line))

    def finish(self):
        self._write(b"0\r\n\r\n")

    def check(self):
        """Notices a relay that went away, and lets a relay that waits know that we are here."""
        connection = self.handler.connection
        try:
            readable, _, _ = select.select([connection], [], [], 0)
            if readable and not connection.recv(1, socket.MSG_PEEK):
                self.run.cancel("abort")
        except OSError:
            self.run.cancel("abort")
        if self.begun and not self.run.cause and time.monotonic() - self.wrote_at >= PING_S:
            self.record("ping")

    def _write(self, data):
        try:
            self.handler.wfile.write(data)
        except OSError:
            self.run.cancel("abort")
            raise Cancelled from None
        self.wrote_at = time.monotonic()


class Pushes(Records):
    """Records by push, after the response has been 202."""

    def __init__(self, run):
        super().__init__(run)
        self.count = 0

    def send(self, record):
        self.count += 1
        frame = {"type": "STREAM", "rid": self.run.body["rid"], "payload": record}
        push(self.run.body, f"{self.run.inv}-{self.count}", [frame])

    def check(self):
        pass


# --- The agent ------------------------------------------------------------------------------------------------


def words(text):
    return re.findall(r"\S+\s*|\s+", text)


def speak(records, text):
    count = 0
    for word in words(text):
        records.record("text", d=word)
        records.pause(DELAY_S)
        count += 1
    records.record("usage", output_words=count)
    records.record("end", finish="complete")


def echo(response, text):
    response.record("start", run=response.run.inv)
    speak(response, text)


def call(response, argument):
    name, _, args = argument.partition(" ")
    try:
        args = json.loads(args or "{}")
        if not isinstance(args, dict):
            raise ValueError
    except ValueError:
        return response.record("error", code=2302, name="INVALID_ARGS", msg="arguments must be a JSON object", retry=False)
    response.record("start", run=response.run.inv)
    response.record("call", call_id="call-1", name=name, args=args, timeout_ms=30000)
    response.record("suspend", state={"waits_for": "call-1"})


def ask(response, question):
    response.record("start", run=response.run.inv)
    response.record("ask", ask_id="ask-1", text=question)
    response.record("suspend", state={"waits_for": "ask-1"})


def go_on(response):
    """The next leg, after `call` or `ask`."""
    body = response.run.body
    waits_for = body["state"]["waits_for"]
    for answer in body.get("answers", []):
        if waits_for in (answer.get("call_id"), answer.get("ask_id")):
            return speak(response, told(answer))
    response.record("error", code=2400, name="EXECUTION_FAILED", msg="the answer is missing", retry=False)


def hold(response, question):
    """Asks, and waits for the answer with the response kept open."""
    body = response.run.body
    response.record("start", run=response.run.inv)
    response.record("ask", ask_id="ask-1", text=question)
    after = 0
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        while True:
            asked = pool.submit(call_relay, body, f"{body['cancel']['url']}/answers?after={after}", timeout=30)
            while not asked.done():
                response.pause(0.05)
            status, said = asked.result()
            if status != 200:
                raise ConnectionError(f"the relay gave no answers: {status}")
            if said.get("cancelled"):
                response.run.cancel("poll")
                raise Cancelled
            for answer in said["answers"]:
                after = max(after, answer["k"])
                if answer.get("ask_id") == "ask-1":
                    return speak(response, told(answer))
            response.pause(0.05)


def told(answer):
    if not answer.get("ok"):
        return "no answer: " + answer.get("error", {}).get("name", "unknown")
    if "text" in answer:
        return "you said: " + answer["text"]
    value = answer.get("output", answer.get("data"))
    return "the result is " + json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def wait(response, seconds):
    response.record("start", run=response.run.inv)
    until = time.monotonic() + float(seconds)
    while time.monotonic() < until:
        response.record("status", state="running")
        response.pause(0.1)
    speak(response, f"waited {seconds} s")


def tool(response, how):
    definition = {
        "op": "add",
        "tools": [{"name": "clock", "description": "Tells the time", "input_schema": {"type": "object"}}],
    }
    response.record("start", run=response.run.inv)
    if how == "inline":
        response.record("tool_def", **definition)
    else:
        frame = {"type": "TOOL_DEF", "rid": 0, "payload": definition}
        push(response.run.body, f"{response.run.inv}-tool", [frame])
    speak(response, "there is a new tool")


def cpu(response, _):
    began = time.thread_time()
    total = sum(number * number for number in range(200_000))
    response.headers["X-Cpu-Time"] = f"{(time.thread_time() - began) * 1000:.3f}ms"
    echo(response, f"the sum is {total}")


def fail(response, _):
    response.record("error", code=2400, name="EXECUTION_FAILED", msg="this function was asked to fail", retry=False)


def die(response, _):
    response.record("start", run=response.run.inv)
    response.record("text", d="I am ")
    response.record("text", d="about to ")
    response.handler.connection.shutdown(socket.SHUT_RDWR)
    raise ConnectionError("died, as it was asked to")


def cold(response, milliseconds):
    response.pause(int(milliseconds) / 1000)
    echo(response, f"warm after {milliseconds} ms")


def later(records, text):
    """Runs after the response."""
    try:
        records.record("start", run=records.run.inv)
        speak(records, text)
    except Cancelled:
        pass
    except OSError as error:
        print(f"failed inv={records.run.inv}: {error}", file=sys.stderr, flush=True)
    finally:
        records.run.end()


COMMANDS = {
    "echo": echo, "call": call, "ask": ask, "hold": hold, "wait": wait, "tool": tool, "cpu": cpu, "fail": fail,
    "die": die, "cold": cold,
}


# --- HTTP -----------------------------------------------------------------------------------------------------


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    timeout = 60
    keys = []
    seen = Seen()

    def do_POST(self):
        """Every path is served, so that one URL for all events works as well."""
        try:
            body = self.read_body()
            if body["event"] in ("invoke", "continue"):
                return self.invoke(body)
            if body["event"] == "interrupt":
                Run.interrupt(body["inv"])
            self.reply(204)
        except Refused as refused:
            self.refuse(refused)
        except (ConnectionError, TimeoutError):
            self.close_connection = True

    def read_body(self):
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > MAX_BODY:
            self.close_connection = True
            raise Refused(413, f"a body of known length, at most {MAX_BODY} bytes, is needed")
        raw = self.rfile.read(int(length))
        verify(self.keys, self.headers, raw, time.time())
        try:
            body = json.loads(raw)
            if not isinstance(body.get("inv"), str):
                raise ValueError
        except (ValueError, AttributeError):
            raise Refused(400, "the body must be a JSON object with inv") from None
        body.setdefault("event", "invoke")
        return body

    def invoke(self, body):
        key = (body["inv"], body.get("leg", 0))
        text = input_text(body) if body["event"] == "invoke" else ""
        self.seen.begin(key, body.get("attempt", 1))
        run = Run(body)
        state = "broken"
        try:
            name, _, argument = text.partition(" ")
            if name == "later":
                self.reply(202)
                threading.Thread(target=later, args=(Pushes(run), argument), daemon=True).start()
                run, state = None, "finished"
                return
            response = Response(run, self)
            try:
                if body["event"] == "continue":
                    go_on(response)
                elif name in COMMANDS:
                    COMMANDS[name](response, argument)
                else:
                    echo(response, text)
            except Cancelled:
                if run.cause == "abort":
                    self.close_connection = True
                    return
                response.record("end", finish="interrupted")
            state = "finished"
            run.end()
            response.finish()
        except Cancelled:
            self.close_connection = True
        except Exception as error:  # whatever broke, only this answer breaks with it
            print(f"failed inv={body['inv']}: {error}", file=sys.stderr, flush=True)
            self.close_connection = True
        finally:
            self.seen.leave(key, state)
            if run:
                run.end()

    def refuse(self, refused):
        self.reply(refused.status, {"error": {"msg": str(refused)}})

    def reply(self, status, document=None):
        body = json.dumps(document).encode() if document else b""
        self.send_response(status)
        if document:
            self.send_header("Content-Type", "application/json")
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


def main():
    try:
        Handler.keys = read_keys(os.environ.get("FUNCTION_SECRET", ""))
        port = int(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("PORT", "8787"))
    except ValueError as error:
        sys.exit(f"function.py: {error}")
    with Server(("127.0.0.1", port), Handler) as server:
        print(f"listening on http://127.0.0.1:{server.server_address[1]}", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            pass


if __name__ == "__main__":
    main()
