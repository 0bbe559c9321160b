/** Carries messages: text and audio frames over a WebSocket, or events and tracks over WebRTC. */

import type { IceServer } from "./events.js";

/** How a transport ended. */
export interface Closing {
  code: number;
  reason: string;
  /** Whether it ever was open. */
  opened: boolean;
}

export interface TransportEvents {
  open(): void;
  text(text: string): void;
  frame(bytes: Uint8Array): void;
  closed(closing: Closing): void;
  /** Sound from the other side, where it does not come in frames. */
  track?(stream: MediaStream): void;
}

export interface Transport {
  readonly kind: "websocket" | "webrtc";
  /** False if it is not open any more. */
  send(text: string): boolean;
  /** False if the frame was left out because too much waits to be sent. */
  sendFrame(bytes: Uint8Array<ArrayBuffer>): boolean;
  close(code?: number, reason?: string): void;
  /** Sends this track from now on, where sound travels as one. */
  setMicrophone?(track: MediaStreamTrack | undefined): void;
}

/** More than this waiting to be sent, and audio is left out rather than delayed. */
const MAX_BUFFERED = 256 * 1024;

/** What a WebSocket has to have; the browser's own, unless a test brings another. */
export type SocketFactory = (url: string, protocols: string[]) => WebSocket;

/** Opens a WebSocket. Browsers cannot set headers, so the token travels as a subprotocol. */
export function openSocket(url: string, protocols: string[], events: TransportEvents, factory: SocketFactory = (url, protocols) => new WebSocket(url, protocols)): Transport {
  const socket = factory(url, protocols);
  socket.binaryType = "arraybuffer";
  let opened = false;
  socket.onopen = () => {
    opened = true;
    events.open();
  };
  socket.onmessage = (message: MessageEvent<string | ArrayBuffer>) => {
    if (typeof message.data === "string") events.text(message.data);
    else events.frame(new Uint8Array(message.data));
  };
  socket.onclose = (event) => events.closed({ code: event.code, reason: event.reason, opened });
  return {
    kind: "websocket",
    send: (text) => {
      if (socket.readyState !== 1) return false;
      socket.send(text);
      return true;
    },
    sendFrame: (bytes) => {
      if (socket.readyState !== 1 || socket.bufferedAmount > MAX_BUFFERED) return false;
      socket.send(bytes);
      return true;
    },
    close: (code = 1000, reason = "") => socket.close(code, reason),
  };
}

export interface PeerOptions {
  offerUrl: string;
  token: string;
  iceServers: IceServer[];
  /** The microphone, if it is open already. */
  microphone?: MediaStreamTrack | undefined;
}

const ICE_TIMEOUT_MS = 15_000;
const LOST = 1006;

/** Opens a WebRTC peer: the offer and its answer over HTTP, events on a data channel, sound as tracks. */
export function openPeer(options: PeerOptions, events: TransportEvents): Transport {
  const peer = new RTCPeerConnection({ iceServers: options.iceServers });
  const channel = peer.createDataChannel("vip-events", { protocol: "vip.v1", ordered: true });
  const authorization = { authorization: `Bearer ${options.token}` };
  let opened = false;
  let over = false;
  let location: string | undefined;
  const waiting: string[] = [];

  const finish = (code: number, reason: string) => {
    if (over) return;
    over = true;
    clearTimeout(timer);
    channel.close();
    peer.close();
    if (location) void fetch(location, { method: "DELETE", headers: authorization, keepalive: true }).catch(() => undefined);
    events.closed({ code, reason, opened });
  };
  const timer = setTimeout(() => {
    if (!opened) finish(LOST, "NET_ICE_FAILED");
  }, ICE_TIMEOUT_MS);
  const trickle = (candidate: string) => {
    if (!location) {
      waiting.push(candidate);
      return;
    }
    const headers = { ...authorization, "content-type": "application/trickle-ice-sdpfrag" };
    void fetch(location, { method: "PATCH", headers, body: candidate }).catch(() => undefined);
  };

  channel.onopen = () => {
    opened = true;
    events.open();
  };
  channel.onmessage = (message: MessageEvent<unknown>) => {
    if (typeof message.data === "string") events.text(message.data);
  };
  channel.onclose = () => finish(LOST, "the data channel closed");
  peer.onconnectionstatechange = () => {
    if (peer.connectionState === "failed" || peer.connectionState === "closed") finish(LOST, "NET_ICE_FAILED");
  };
  peer.ontrack = (event) => events.track?.(event.streams[0] ?? new MediaStream([event.track]));
  peer.onicecandidate = (event) => {
    if (event.candidate?.candidate) trickle(fragmentOf(peer, event.candidate));
  };
  const { sender } = peer.addTransceiver(options.microphone ?? "audio", { direction: "sendrecv" });

  const negotiate = async () => {
    await peer.setLocalDescription();
    const headers = { ...authorization, "content-type": "application/sdp" };
    const answer = await fetch(options.offerUrl, { method: "POST", headers, body: peer.localDescription?.sdp ?? "" });
    if (!answer.ok) throw new Error(`the offer was answered with ${answer.status}`);
    location = new URL(answer.headers.get("location") ?? "", answer.url).href;
    await peer.setRemoteDescription({ type: "answer", sdp: await answer.text() });
    for (const candidate of waiting.splice(0)) trickle(candidate);
  };
  negotiate().catch((error: unknown) => finish(LOST, error instanceof Error ? error.message : "the offer failed"));

  return {
    kind: "webrtc",
    send: (text) => {
      if (channel.readyState !== "open") return false;
      channel.send(text);
      return true;
    },
    sendFrame: () => true,
    close: (code = 1000, reason = "") => finish(code, reason),
    setMicrophone: (track) => void sender.replaceTrack(track ?? null).catch(() => undefined),
  };
}

/** One candidate as a fragment of SDP (RFC 8840). */
function fragmentOf(peer: RTCPeerConnection, candidate: RTCIceCandidate): string {
  const sdp = peer.localDescription?.sdp ?? "";
  const line = (name: string) => sdp.match(new RegExp(`^a=${name}:.*$`, "m"))?.[0].trim() ?? "";
  const media = sdp.match(/^m=.*$/gm)?.[candidate.sdpMLineIndex ?? 0]?.trim() ?? "m=audio 9 UDP/TLS/RTP/SAVPF 0";
  return [line("ice-ufrag"), line("ice-pwd"), media, `a=mid:${candidate.sdpMid ?? "0"}`, `a=${candidate.candidate}`, ""].join("\r\n");
}
