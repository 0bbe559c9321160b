"""A WebRTC peer on aiortc: `rtc_peer.py LABEL PROTOCOL`, run by `crates/rtc/tests/rtc/foreign.rs`.

It speaks in lines of JSON. Out: `offer`, `candidates` (null: the offer has them all), `text` for every message, `pitch`
of what it hears. In: `answer`, `close`. It hums 440 Hz all the while.
"""

import array
import asyncio
import fractions
import json
import math
import sys

from aiortc import AudioStreamTrack, RTCPeerConnection, RTCSessionDescription
from av import AudioFrame

RATE = 48000
FRAME = 960


def say(**line):
    print(json.dumps(line), flush=True)


class Hum(AudioStreamTrack):
    """440 Hz in real time."""

    def __init__(self):
        super().__init__()
        self.position = 0
        self.began = None

    async def recv(self):
        loop = asyncio.get_running_loop()
        self.began = loop.time() if self.began is None else self.began
        await asyncio.sleep(self.began + self.position / RATE - loop.time())
        wave = (math.sin(2 * math.pi * 440 * (self.position + n) / RATE) for n in range(FRAME))
        frame = AudioFrame(format="s16", layout="mono", samples=FRAME)
        frame.planes[0].update(array.array("h", (int(12000 * value) for value in wave)).tobytes())
        frame.sample_rate, frame.pts, frame.time_base = RATE, self.position, fractions.Fraction(1, RATE)
        self.position += FRAME
        return frame


async def listen(track):
    """Says the pitch of a second of sound, once there is some."""
    samples = []
    while len(samples) < 2 * RATE:
        frame = await track.recv()
        data = array.array("h", bytes(frame.planes[0])[: frame.samples * len(frame.layout.channels) * 2])
        mono = data[:: len(frame.layout.channels)]
        if samples or max(map(abs, mono)) > 1000:
            samples.extend(mono)
    settled = samples[RATE // 2 : RATE // 2 + RATE]
    crossings = sum((before < 0) != (after < 0) for before, after in zip(settled, settled[1:]))
    say(pitch=crossings / 2)


async def main(label, protocol):
    connection = RTCPeerConnection()
    connection.addTrack(Hum())
    channel = connection.createDataChannel(label, protocol=protocol)
    channel.on("open", lambda: channel.send("grüße"))
    channel.on("message", lambda text: say(text=text))
    listening = []
    connection.on("track", lambda track: listening.append(asyncio.create_task(listen(track))))
    await connection.setLocalDescription(await connection.createOffer())
    say(offer=connection.localDescription.sdp)
    say(candidates=None)
    while line := await asyncio.to_thread(sys.stdin.readline):
        order = json.loads(line)
        if "answer" in order:
            await connection.setRemoteDescription(RTCSessionDescription(order["answer"], "answer"))
        if "close" in order:
            break
    await connection.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:3]))
