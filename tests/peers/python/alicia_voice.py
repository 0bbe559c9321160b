"""Utterances in chunks (4.4, 4.9, 5.3): `alicia_voice.py`.

Serves a transcription endpoint like OpenAI's and says where; then reads, from standard input, where a server is that
asks it, with `tests/peers/alicia_story.toml` as its agent (`crates/cli/tests/alicia.rs`). What an utterance says is
in its own bytes, so that the endpoint can tell. One line per check; see `checks.py`.
"""

import asyncio
import json
import sys

from alicia_kill import line
from alicia_resume import bytes_of
from alicia_world import *
from checks import run, summary

BODIES[TRANSCRIPTION] = fields(("id", made("am")), ("previousId?", ident), CONV, ("text", string()), ("final", boolean), ("confidence?", real), ("language?", string(1)))


class Recogniser:
    """Hears what stands between `<` and `>` in the audio; keeps what it was asked."""

    def __init__(self):
        self.requests = []

    async def serve(self, reader, writer):
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        if "transfer-encoding: chunked" in head:
            body = b""
            while size := int(await reader.readline(), 16):
                body += await reader.readexactly(size)
                await reader.readexactly(2)
            await reader.readline()
        else:
            length = next(int(field[15:]) for field in head.split("\r\n") if field.startswith("content-length:"))
            body = await reader.readexactly(length)
        self.requests.append(body)
        heard = re.search(rb"<([^>]*)>", body)
        status, answer = ("200 OK", {"text": heard[1].decode()}) if heard else ("400 Bad Request", {"error": {"message": "no speech"}})
        raw = json.dumps(answer).encode()
        writer.write(f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(raw)}\r\nConnection: close\r\n\r\n".encode() + raw)
        await writer.drain()
        writer.close()


async def utter(peer, conv, *pieces):
    """The chunks of one utterance."""
    for number, data in enumerate(pieces, 1):
        await peer.send(AUDIO, conv, {"conversationId": conv, "format": "audio/ogg", "sequence": number, "durationMs": 20, "data": data, "isLast": number == len(pieces)})


async def al_056_a_final_transcription_is_the_user_message(world):
    peer, other, conv = await world.pair()
    await utter(peer, conv, b"OggS\0<say ", b"hello", b" there>")
    said = await peer.next(lambda e: e.type in (TRANSCRIPTION, ERROR))
    while said.type == TRANSCRIPTION and not said["final"]:
        equal(said.stanza, 0, "AL-055: interims are not sequenced")
        said = await peer.next(lambda e: e.type in (TRANSCRIPTION, ERROR))
    equal((said.type, said.get("text"), said.stanza), (TRANSCRIPTION, "say hello there", -1), f"{said}")
    turn = await peer.answer(conv, said["id"])
    equal((turn.of(START)[0]["previousId"], turn.text), (said["id"], "hello there"), "it is answered")
    equal(turn.of(ACK, USER, TRANSCRIPTION), [], "AL-057: nothing repeats it")
    row = await world.message(peer.who, conv, said["id"])
    equal((row["contents"], row["role"]), ("say hello there", "user"), "stored")
    theirs = await other.next(lambda e: e.type == TRANSCRIPTION and e["final"])
    equal(theirs.raw, said.raw, "every peer gets it")
    await other.answer(conv)
    equal([e for e in other.inbox if e.type == USER], [], "AL-057: no UserMessage for it")
    back = await world.open(peer.who)
    await peer.turn(conv, "say more")
    log = peer.memory[conv].entries
    equal(bytes_of(e for e in (await back.handshake(conv, -1)).replay if e.stanza), bytes_of(log[s] for s in range(-2, min(log) - 1, -1)), "replay")
    await leave(peer, other, back)


async def al_060_an_utterance_is_transcribed_once_at_its_last_chunk(world):
    peer, conv = await world.met()
    before = len(world.recogniser.requests)
    await peer.send(AUDIO, conv, {"conversationId": conv, "format": "audio/ogg", "sequence": 1, "durationMs": 20, "data": b"OggS<say first"})
    await peer.silent(conv)
    equal(len(world.recogniser.requests), before, "not before the last chunk")
    await peer.send(AUDIO, conv, {"conversationId": conv, "format": "audio/ogg", "sequence": 2, "durationMs": 20, "data": b" half>", "isLast": True})
    said = await peer.expect(TRANSCRIPTION, conv, text="say first half", final=True)
    await peer.answer(conv, said["id"])
    equal(len(world.recogniser.requests), before + 1, "once")
    ensure(b"OggS<say first half>" in world.recogniser.requests[-1], "all of it", world.recogniser.requests[-1][:300])
    # The next utterance begins anew; chunks without data describe a track, and are nothing here.
    await peer.send(AUDIO, conv, {"conversationId": conv, "format": "opus_48000", "seq": 1, "duration": 20, "trackSid": "TR_1", "isLast": True})
    await peer.silent(conv)
    await utter(peer, conv, b"OggS<say second>")
    said = await peer.expect(TRANSCRIPTION, conv, text="say second", final=True)
    ensure(b"first" not in world.recogniser.requests[-1], "nothing of the first")
    await peer.answer(conv, said["id"])
    await leave(peer)


async def utterances_that_cannot_be_understood(world):
    peer, conv = await world.met()
    await utter(peer, conv, b"OggS noise")
    await peer.error(502)
    await utter(peer, conv, b"OggS<>")
    await utter(peer, conv, b"OggS<   >")
    await asyncio.sleep(0.5)
    await peer.silent(conv)
    equal(await world.path(peer.who, conv), [], "no row, no turn")
    equal((await peer.turn(conv, "say typed")).text, "typed", "it goes on")
    await leave(peer)


async def al_051_a_spoken_message_supersedes(world):
    peer, conv = await world.met()
    user, answer = await peer.streaming(conv)
    await utter(peer, conv, b"OggS<say spoken>")
    said = await peer.expect(TRANSCRIPTION, conv, final=True)
    start = await peer.expect(START, conv, previousId=said["id"])
    ensure(peer.memory[conv].answers[answer]["final"], "the first answer has no end")
    await peer.finish(conv, start["id"])
    equal(said.get("previousId"), answer, "it follows the answer")
    await leave(peer)


CHECKS = (
    al_056_a_final_transcription_is_the_user_message,
    al_060_an_utterance_is_transcribed_once_at_its_last_chunk,
    utterances_that_cannot_be_understood,
    al_051_a_spoken_message_supersedes,
)


async def main():
    recogniser, results = Recogniser(), []
    server = await asyncio.start_server(recogniser.serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    print(f"http://{host}:{port}", flush=True)
    world = World(await line())
    world.recogniser = recogniser
    for check in CHECKS:
        await run(check, world, results, 3 * PATIENCE)
    return summary(results)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
