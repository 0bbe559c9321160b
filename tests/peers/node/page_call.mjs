// What a page does to make a WebRTC call; runs inside the browser (`evaluate` of `chromium.mjs`).

/**
 * Prepares a call. Says `offer` at once, without any candidates; `candidates`, a fragment for trickling, when there are
 * no more to come; `opened` with the data channel; `text` for every message. Leaves behind `accept(answer)`,
 * `send(text)`, `sound()`, what is heard at the moment, and `hangUp()`.
 */
export async function prepareCall({ label, protocol }) {
  const pc = new RTCPeerConnection();
  const raw = { echoCancellation: false, noiseSuppression: false, autoGainControl: false };
  const microphone = await navigator.mediaDevices.getUserMedia({ audio: raw });
  pc.addTrack(microphone.getAudioTracks()[0], microphone);
  const channel = pc.createDataChannel(label, { protocol });
  channel.onopen = () => say({ opened: true });
  channel.onclose = () => say({ closed: true });
  channel.onmessage = ({ data }) => say(typeof data === "string" ? { text: data } : { binary: data.byteLength });

  const context = new AudioContext({ sampleRate: 48000 });
  const analyser = context.createAnalyser();
  analyser.fftSize = 32768;
  pc.ontrack = ({ track }) => {
    const stream = new MediaStream([track]);
    // A remote stream only flows while something plays it.
    const player = new Audio();
    player.srcObject = stream;
    player.muted = true;
    player.play();
    context.createMediaStreamSource(stream).connect(analyser);
  };

  const candidates = [];
  pc.onicecandidate = ({ candidate }) => {
    if (candidate?.candidate) candidates.push(`a=${candidate.candidate}`);
    if (candidate) return;
    const ufrag = pc.localDescription.sdp.match(/^a=ice-ufrag:.*$/m)[0];
    say({ candidates: [ufrag, "m=audio 9 UDP/TLS/RTP/SAVPF 0", "a=mid:0", ...candidates, "a=end-of-candidates", ""].join("\r\n") });
  };
  const description = await pc.createOffer();
  say({ offer: description.sdp });

  globalThis.accept = async (answer) => {
    await pc.setLocalDescription(description);
    await pc.setRemoteDescription({ type: "answer", sdp: answer });
  };
  globalThis.send = (text) => channel.send(text);
  globalThis.hangUp = () => pc.close();
  // Of the last 0.7 s: how loud, from 0 to 1, whether from its beginning to its end, and how high.
  globalThis.sound = () => {
    const samples = new Float32Array(analyser.fftSize);
    analyser.getFloatTimeDomainData(samples);
    const peak = (part) => part.reduce((most, sample) => Math.max(most, Math.abs(sample)), 0);
    const ends = [samples.subarray(0, 2048), samples.subarray(-2048)];
    let crossings = 0;
    for (let n = 1; n < samples.length; n++) crossings += samples[n - 1] < 0 !== samples[n] < 0;
    return { peak: peak(samples), lasting: Math.min(...ends.map(peak)), pitch: ((crossings / 2) * 48000) / samples.length };
  };
}
