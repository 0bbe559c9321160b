"""Streams of chat completions, made by the types of the `openai` package: `openai_streams.py FOLDER`.

Writes one transcript per shape into the folder, and `expected.json`: what the package's own client makes of each. The
agent has to make the same of them (`crates/agents/tests/openai_streams.rs`). Run it again when the package has learnt
something new; the transcripts in the repository are from version 3.49.0.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import openai
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.chat.chat_completion_chunk import Choice, ChoiceDelta, ChoiceDeltaToolCall, ChoiceLogprobs
from openai.types.completion_usage import CompletionTokensDetails, CompletionUsage, PromptTokensDetails

DONE = "[DONE]"
COMMON = {
    "id": "chatcmpl-C1",
    "object": "chat.completion.chunk",
    "created": 1760000000,
    "model": "gpt-test-2026-01-01",
    "service_tier": "default",
    "system_fingerprint": "fp_0123456789",
}
USAGE = CompletionUsage(
    prompt_tokens=120,
    completion_tokens=30,
    total_tokens=150,
    prompt_tokens_details=PromptTokensDetails(cached_tokens=64, audio_tokens=0),
    completion_tokens_details=CompletionTokensDetails(
        reasoning_tokens=8, audio_tokens=0, accepted_prediction_tokens=0, rejected_prediction_tokens=0
    ),
)


def chunk(*choices, **fields):
    return ChatCompletionChunk(**{**COMMON, **fields}, choices=list(choices))


def delta(reason=None, index=0, logprobs=None, choice=None, **fields):
    made = Choice(index=index, delta=ChoiceDelta(**fields), finish_reason=reason, logprobs=logprobs, **(choice or {}))
    return chunk(made)


def role():
    return delta(role="assistant", content="", refusal=None)


def says(*pieces):
    return [delta(content=piece) for piece in pieces]


def calls(*fragments, **fields):
    """One chunk of fragments of tool calls: index, id, name, arguments."""
    made = []
    for index, call, name, arguments in fragments:
        fragment = {"index": index}
        if call is not None:
            fragment |= {"id": call, "type": "function"}
        function = {"name": name, "arguments": arguments}
        fragment["function"] = {key: value for key, value in function.items() if value is not None}
        made.append(ChoiceDeltaToolCall(**fragment))
    return delta(tool_calls=made, **fields)


def token(text):
    return {"token": text, "bytes": list(text.encode()), "logprob": -0.25, "top_logprobs": []}


def details(kind="text", **fields):
    return [{"type": f"reasoning.{kind}", "format": "unknown", "index": 0, **fields}]


CITATION = {"url": "https://example.org", "title": "x", "start_index": 0, "end_index": 4}
HARMLESS = {"hate": {"filtered": False, "severity": "safe"}}


STREAMS = {
    "plain": [role(), *says("Grüße", ", wörld", " 🌍", "!"), delta("stop"), DONE],
    "usage": [
        *[made.model_copy(update={"usage": None, "obfuscation": "aZ3"}) for made in [role(), *says("Hi")]],
        delta("stop"),
        chunk(usage=USAGE),
        DONE,
    ],
    "usage_in_every_chunk": [
        *[made.model_copy(update={"usage": USAGE}) for made in [role(), *says("Hi"), delta("stop")]],
        DONE,
    ],
    "refusal": [
        delta(role="assistant", content=None, refusal=""),
        *[delta(refusal=piece) for piece in ["I'm sorry", ", but no."]],
        delta("stop"),
        DONE,
    ],
    "content_filter": [role(), *says("So far"), delta("content_filter"), DONE],
    "length": [role(), *says("and then"), delta("length"), chunk(usage=USAGE), DONE],
    "logprobs": [
        role(),
        delta(content="a", logprobs=ChoiceLogprobs(content=[token("a")], refusal=None)),
        delta(content="é", logprobs=ChoiceLogprobs(content=[token("é")], refusal=None)),
        delta("stop", logprobs=None),
        DONE,
    ],
    "audio_and_annotations": [
        role(),
        delta(audio={"id": "audio_1", "transcript": "unheard"}),
        delta(content="read this", annotations=[{"type": "url_citation", "url_citation": CITATION}]),
        delta("stop"),
        delta(audio={"expires_at": 1760000999}),
        DONE,
    ],
    "nulls": [
        delta(role="assistant", content="", refusal=None, function_call=None, tool_calls=None, audio=None),
        delta(content="here", refusal=None, function_call=None, tool_calls=None),
        delta("stop", content=None),
        DONE,
    ],
    "two_choices": [
        chunk(*[Choice(index=index, delta=ChoiceDelta(role="assistant", content="")) for index in [0, 1]]),
        chunk(Choice(index=1, delta=ChoiceDelta(content="no"))),
        chunk(*[Choice(index=index, delta=ChoiceDelta(content=text)) for index, text in [(1, "!"), (0, "yes")]]),
        chunk(Choice(index=1, delta=ChoiceDelta(), finish_reason="length")),
        chunk(Choice(index=0, delta=ChoiceDelta(), finish_reason="stop")),
        DONE,
    ],
    "empty_deltas": [
        *[delta(role="assistant") for _ in range(3)],
        delta(),
        delta(content=""),
        *says("x"),
        delta(),
        delta(role="assistant", content=""),
        *says("y"),
        chunk(),
        delta("stop"),
        DONE,
    ],
    "comments": [
        ": OPENROUTER PROCESSING",
        ": OPENROUTER PROCESSING",
        role(),
        ": OPENROUTER PROCESSING",
        *says("slow", " and steady"),
        ":",
        delta("stop"),
        DONE,
    ],
    "azure": [
        # Its first chunk breaks the types, so that they are not asked whether they agree.
        ChatCompletionChunk.construct(
            id="",
            object="",
            created=0,
            model="",
            choices=[],
            prompt_filter_results=[{"prompt_index": 0, "content_filter_results": HARMLESS}],
        ),
        role(),
        delta(content="from the cloud", choice={"content_filter_results": HARMLESS}),
        delta("stop", choice={"content_filter_results": {}}),
        chunk(usage=USAGE),
        DONE,
    ],
    "no_done": [role(), *says("complete", " enough"), delta("stop")],
    "reasoning_content": [
        role(),
        *[delta(content=None, reasoning_content=piece) for piece in ["Let me ", "see."]],
        *says("42"),
        delta("stop"),
        DONE,
    ],
    "reasoning_details": [
        delta(role="assistant", content="", reasoning="Let me ", reasoning_details=details(text="Let me ")),
        delta(content="", reasoning=None, reasoning_details=details(text="see.")),
        delta(content="", reasoning_details=details("encrypted", data="gAAAA")),
        *says("42"),
        delta("stop"),
        DONE,
    ],
    "think": [
        role(),
        *says("<th", "ink>\n", "Let me <b> see.", "</thi", "nk>\n\n", "4", "2 </think>"),
        delta("stop"),
        DONE,
    ],
    "one_tool": [
        calls((0, "call_a", "get_weather", ""), role="assistant", content=None),
        *[calls((0, None, None, piece)) for piece in ['{"', "city", '":"', "Zürich", '"}']],
        delta("tool_calls"),
        chunk(usage=USAGE),
        DONE,
    ],
    "parallel_tools": [
        role(),
        calls((2, "call_c", "get_time", "")),
        calls((0, "call_a", "get_weather", "")),
        calls((1, "call_b", "get_weather", '{"ci')),
        calls((2, None, None, '{"zone":'), (0, None, None, '{"city":')),
        calls((0, None, None, '"Bern"}'), (1, None, None, 'ty":"Basel"}')),
        calls((2, None, None, '"UTC"}')),
        delta("tool_calls"),
        DONE,
    ],
    "late_names": [
        delta(role="assistant", content="One moment. "),
        calls((0, None, None, "")),
        calls((0, None, None, '{"city":')),
        calls((0, "call_a", None, '"Bern"')),
        calls((0, None, "get_weather", "}")),
        calls((1, "call_b", "get_time", "{")),
        calls((1, "call_b", "get_time", "}")),
        delta("tool_calls"),
        DONE,
    ],
    "tools_without_a_reason": [
        calls((0, "call_a", "get_time", "{}"), role="assistant"),
        delta("stop"),
        DONE,
    ],
    "error_at_once": [
        {"error": {"message": "The server had an error", "type": "server_error", "param": None, "code": None}},
        DONE,
    ],
    "error_within": [
        role(),
        *says("half"),
        {
            **COMMON,
            "error": {"code": 502, "message": "Provider disconnected"},
            "choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": "error"}],
        },
    ],
}

WHOLE = ChatCompletion(
    **{**COMMON, "object": "chat.completion"},
    choices=[
        {
            "index": 0,
            "message": {"role": "assistant", "content": "all at once", "refusal": None, "annotations": []},
            "finish_reason": "stop",
            "logprobs": None,
        }
    ],
    usage=USAGE,
)


def line(item):
    if isinstance(item, str):
        return item if item.startswith(":") else f"data: {item}"
    value = item if isinstance(item, dict) else item.model_dump(mode="json", exclude_unset=True)
    return "data: " + json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def transcript(items):
    return "".join(line(item) + "\n\n" for item in items).encode()


class Endpoint(BaseHTTPRequestHandler):
    """Answers every request with the same body."""

    body, kind = b"", ""

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-type", self.kind)
        self.send_header("content-length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *words):
        pass


def understood(client, body, kind):
    """What the package's own client reads from a body."""
    Endpoint.body, Endpoint.kind = body, kind
    seen = {"text": "", "refusal": "", "reasoning": "", "calls": {}, "finish": None, "usage": None, "error": None}
    stream = kind == "text/event-stream"
    result = client.chat.completions.create(model="m", messages=[{"role": "user", "content": "x"}], stream=stream)
    try:
        for piece in result if stream else [result]:
            take(seen, piece)
    except openai.APIError as error:
        seen["error"] = error.message
    seen["calls"] = [seen["calls"][index] for index in sorted(seen["calls"])]
    return seen


def take(seen, piece):
    if piece.usage:
        usage = piece.usage
        seen["usage"] = {
            "input_tokens": usage.prompt_tokens,
            "output_tokens": usage.completion_tokens,
            "cached_tokens": usage.prompt_tokens_details.cached_tokens,
            "reasoning_tokens": usage.completion_tokens_details.reasoning_tokens,
        }
    for choice in piece.choices:
        if choice.index != 0:
            continue
        said = choice.delta if isinstance(piece, ChatCompletionChunk) else choice.message
        seen["text"] += said.content or ""
        seen["refusal"] += said.refusal or ""
        details = getattr(said, "reasoning_details", None) or []
        told = [part["text"] for part in details if part["type"] == "reasoning.text"]
        seen["reasoning"] += getattr(said, "reasoning_content", None) or "".join(told)
        seen["finish"] = choice.finish_reason or seen["finish"]
        for call in said.tool_calls or []:
            known = seen["calls"].setdefault(call.index, {"id": "", "name": "", "arguments": ""})
            known["id"] = call.id or known["id"]
            if call.function:
                known["name"] = call.function.name or known["name"]
                known["arguments"] += call.function.arguments or ""


def main(folder):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
    Thread(target=server.serve_forever, daemon=True).start()
    base = f"http://127.0.0.1:{server.server_port}/v1"
    client = openai.OpenAI(api_key="none", base_url=base, max_retries=0)
    expected = {}
    for name, items in STREAMS.items():
        body = transcript(items)
        (folder / f"{name}.sse").write_bytes(body)
        expected[name] = understood(client, body, "text/event-stream")
    body = json.dumps(WHOLE.model_dump(mode="json", exclude_unset=True)).encode()
    (folder / "whole.json").write_bytes(body + b"\n")
    expected["whole"] = understood(client, body, "application/json")
    (folder / "expected.json").write_text(json.dumps(expected, ensure_ascii=False, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
