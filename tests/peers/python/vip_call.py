"""VIP over WebRTC (4.2), on aiortc: a transport that is examined like a socket, and audio that is RTP.

What is spoken is made by flite, and what comes back is listened to.
"""

import array
import fractions
import io
import re
import wave

from aiortc import AudioStreamTrack, RTCConfiguration, RTCPeerConnection, RTCSessionDescription
from aiortc.mediastreams import MediaStreamError
from av import AudioFrame

from vip_world import *

RATE, FRAME = 48000, 960
LABEL = "vip-events"
OPUS = {"input_formats": ["opus/48000"], "output_formats": ["opus/48000"]}
# Louder than what a codec makes of silence.
LOUD = 400


def spoken(text, voice="rms"):
    """Samples at 48 kHz of what flite makes of a text."""
    made = subprocess.run(["flite", "-voice", voice, "-t", text, "-o", "/dev/stdout"], capture_output=True, check=True).stdout
    # The sizes in the head of what is written to a pipe are not to be trusted.
    rate = wave.open(io.BytesIO(made)).getframerate()
    samples = array.array("h", made[44 : 44 + (len(made) - 44) // 2 * 2])
    times = RATE // rate
    after = [*samples[1:], 0]
    return array.array("h", (a + (b - a) * n // times for a, b in zip(samples, after) for n in range(times)))


class Microphone(AudioStreamTrack):
    """Silence in real time, or what is to be said."""

    def __init__(self):
        super().__init__()
        self.waiting, self.position, self.began = array.array("h"), 0, None
        self.quiet = asyncio.Event()
        self.quiet.set()

    async def recv(self):
        loop = asyncio.get_running_loop()
        self.began = loop.time() if self.began is None else self.began
        await asyncio.sleep(self.began + self.position / RATE - loop.time())
        said, self.waiting = self.waiting[:FRAME], self.waiting[FRAME:]
        if not self.waiting:
            self.quiet.set()
        frame = AudioFrame(format="s16", layout="mono", samples=FRAME)
        frame.planes[0].update((said + array.array("h", bytes(2 * (FRAME - len(said))))).tobytes())
        frame.sample_rate, frame.pts, frame.time_base = RATE, self.position, fractions.Fraction(1, RATE)
        self.position += FRAME
        return frame

    async def say(self, samples):
        """Until it is said."""
        self.quiet.clear()
        self.waiting.extend(samples)
        await self.quiet.wait()


class Ear:
    """What comes in: for every frame when, for how long, and how loud."""

    def __init__(self):
        self.frames, self.heard = [], lambda: None

    async def listen(self, track):
        try:
            while True:
                frame = await track.recv()
                samples = array.array("h", bytes(frame.planes[0])[: frame.samples * len(frame.layout.channels) * 2])
                self.frames.append((time.monotonic(), frame.samples * 1000 / frame.sample_rate, max(map(abs, samples))))
                self.heard()
        except MediaStreamError:
            pass

    def loud_ms(self, since=0.0):
        return sum(ms for at, ms, peak in self.frames if at >= since and peak > LOUD)

    def ms(self, since=0.0):
        return sum(ms for at, ms, _ in self.frames if at >= since)

    def last_loud(self):
        return max((at for at, _, peak in self.frames if peak > LOUD), default=0.0)


class Channel:
    """A data channel that looks like a socket."""

    def __init__(self, connection, channel):
        self.connection, self.channel, self.close_code = connection, channel, None
        self.messages, self.opened = asyncio.Queue(), asyncio.Event()
        channel.on("open", self.opened.set)
        channel.on("message", self.messages.put_nowait)
        channel.on("close", self.ended)
        connection.on("connectionstatechange", lambda: connection.connectionState in ("closed", "failed") and self.ended())

    def ended(self):
        self.close_code = self.close_code or 1006
        self.messages.put_nowait(None)

    async def __aiter__(self):
        while (message := await self.messages.get()) is not None:
            yield message

    async def send(self, message):
        if self.channel.readyState == "open":
            self.channel.send(message)

    async def close(self):
        self.close_code = self.close_code or 1000
        await self.connection.close()
        self.ended()


class Call(Stream):
    """A transport of a session that is a WebRTC connection."""

    def __init__(self, session, channel, microphone, ear, location):
        super().__init__(session, channel)
        self.microphone, self.ear, self.location = microphone, ear, location
        ear.heard = self.changed.set
        self.beating = asyncio.create_task(self.beat())

    @classmethod
    async def open(cls, world, session, label=LABEL):
        connection, microphone, ear = RTCPeerConnection(RTCConfiguration(iceServers=[])), Microphone(), Ear()
        connection.addTrack(microphone)
        channel = Channel(connection, connection.createDataChannel(label, protocol="vip.v1"))
        listening = []
        connection.on("track", lambda track: listening.append(asyncio.create_task(ear.listen(track))))
        await connection.setLocalDescription(await connection.createOffer())
        answer = await offer(world, session, connection.localDescription.sdp)
        await connection.setRemoteDescription(RTCSessionDescription(answer.text, "answer"))
        await asyncio.wait_for(channel.opened.wait(), PATIENCE)
        call = cls(session, channel, microphone, ear, answer.headers["location"])
        call.listening = listening
        return call

    async def beat(self):
        """4.1: on a data channel, the client pings every 15 s."""
        while self.closed is None:
            await asyncio.sleep(15)
            if self.state not in (NC, CO):
                await self.send("session.ping", {"nonce": f"beat-{self.session.client_seq}"})

    def take(self, event):
        super().take(event)
        if event.type == "session.pong" and event["nonce"].startswith("beat-"):
            self.inbox.remove(event)

    def take_frame(self, message):
        raise Failed(f"VIP-086: a binary message on the data channel: {message[:20].hex()}")

    def check_kind(self, event, replayed):
        ensure(event.type != "audio.chunk", "audio in an event beside a track:", event)
        super().check_kind(event, replayed)

    def check_end(self):
        """VIP-077, without close codes."""
        self.beating.cancel()
        if self.closed == 1006 and self.last is not None and self.last.type not in ("session.terminated", "error.fatal"):
            self.abrupt = True
        if self.pending is not None and self.closed != 1006:
            self.fail("no state.changed after", self.pending)

    abrupt = False

    async def ended(self, error=None, patience=PATIENCE):
        """The server ends it, and says why before."""
        await self.wait(lambda: self.closed is not None, "the end", patience)
        if error:
            ensure(self.fatal is not None and self.fatal["code"] == error, "expected", error, "got", self.tail())
        ensure(not self.abrupt, "VIP-077: gone without a word after", self.tail())
        if self.wrong:
            raise self.wrong

    async def vanish(self):
        """The network is gone: nothing is sent any more, not even a good-bye."""
        for transceiver in self.socket.connection.getTransceivers():
            await transceiver.sender.transport.transport._connection.close()
        self.socket.ended()
        await self.reader


async def offer(world, session, sdp, status=201, error=None, token="own", kind="application/sdp"):
    """E8, and what its answer has to have."""
    place = session.created["transport"]["webrtc"]
    answer = await world.ask("POST", place["offer_url"], status, error, sdp, session.token if token == "own" else token, {"Content-Type": kind})
    if answer.status_code == 201:
        equal(answer.headers["content-type"].split(";")[0].strip(), "application/sdp", "VIP-085: content type")
        ensure(answer.text.startswith("v=0"), "VIP-085: the body is an SDP answer:", answer.text[:100])
        ensure(re.search(r"/webrtc/[^/]+$", answer.headers.get("location", "")), "VIP-085: Location:", dict(answer.headers))
    return answer


async def create(world, **more):
    capabilities = {"transports": ["webrtc", "websocket"], **more.pop("capabilities", {})}
    session = await world.create(capabilities=capabilities, audio={**OPUS, **more.pop("audio", {})}, **more)
    place = session.created["transport"].get("webrtc")
    ensure(place is not None, "no transport.webrtc in the 201:", session.created["transport"])
    equal(place["data_channel"], LABEL, "VIP-086: data_channel")
    ensure(all(server["urls"] for server in place["ice_servers"]), "ice_servers", place)
    return session


async def call(world, session=None, **more):
    """A session that is idle, over WebRTC."""
    stream = await Call.open(world, session or await create(world, **more))
    connected = await stream.connect()
    equal(connected["resumed"], False, "resumed")
    await stream.ready(TREE())
    return stream


async def heard(stream, response, since):
    """The response to its end, played and over."""
    done = await stream.until("response.done", response_id=response.id, patience=60)
    equal(done["status"], "complete", f"status of {done}")
    ensure(response.start is not None and response.end is not None, "VIP-069: no audio before", done)
    lasts = response.end["duration_ms"]
    await stream.wait(lambda: stream.ear.ms(since) >= lasts - 200, f"{lasts} ms of audio; {stream.ear.ms(since)} came", lasts / 1000 + 10)
    ensure(stream.ear.loud_ms(since) > lasts / 3, "only", stream.ear.loud_ms(since), "ms of", lasts, "are sound")
    await stream.send("audio.complete", {"response_id": response.id, "played_ms": lasts})
    await stream.expect("state.changed", state=ID, previous=AS, trigger="audio.complete")
    return done


async def understood(stream, turn, *words):
    """What the server made of what was said."""
    complete = await stream.next(SOFT | {"response.done"}, patience=60)
    ensure(complete.type == "input.complete" and complete["turn_id"] == turn, "not understood:", complete)
    text = complete["text"].lower()
    ensure(any(word in text for word in words), "expected one of", words, "in", complete)
    return complete
