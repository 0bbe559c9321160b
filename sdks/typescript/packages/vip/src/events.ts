/** The words of the protocol: every event, what it carries, and what both sides call things. */

/** Where the session is; exactly one at a time, and both sides agree on it. */
export type State =
  | "not_connected"
  | "connecting"
  | "idle"
  | "user_speaking"
  | "ai_thinking"
  | "ai_speaking"
  | "invoke_action";

export type Mode = "internal" | "external";
export type Environment = "development" | "production";
export type Role = "user" | "assistant" | "system";
export type AudioFormat = "pcm16/16000" | "pcm16/24000" | "pcm16/48000" | "opus/48000";
export type InputType = "text" | "number" | "boolean" | "checkbox" | "radiobutton" | "password";
export type Channel = "ui" | "voice";

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };
export type JsonObject = { [name: string]: Json };

/** When a turn begins and ends. */
export interface TurnDetection {
  type: "client_vad" | "server_vad" | "manual";
  silence_ms: number;
  no_speech_ms: number;
  interrupt_response: boolean;
  follow_up_listen: boolean;
}

export interface AudioChoice {
  input: AudioFormat;
  output: AudioFormat;
  frame_ms: number;
  framing: "binary" | "base64";
}

export interface Route {
  id: string;
  path?: string;
  title?: string;
}

export interface RouteTarget {
  target: string;
  title?: string;
  description?: string;
}

/** One thing that can be done by voice, as the runtime is told about it. */
export interface ActionDef {
  /** `navigation`, `button`, `input`, `confirmation`, or a vendor's own `x-…`. */
  type: string;
  description: string;
  label?: string;
  element_id?: string;
  input_type?: InputType;
  options?: string[];
  parameters?: JsonObject;
  sensitive?: boolean;
  global?: boolean;
  idempotent?: boolean;
  enabled?: boolean;
  parallel?: boolean;
  executor?: "client" | "server";
  timeout_ms?: number;
  confirmation?: { prompt?: string; channels?: Channel[]; ttl_ms?: number };
}

/** What is on the screen and what may be done, without its version. */
export interface Screen {
  route: Route;
  routes: RouteTarget[];
  narration: string;
  actions: { [id: string]: ActionDef };
  visibility: string[];
  data?: Json;
}

export interface ContextFull extends Screen {
  mode: "full";
  context_version: number;
}

export interface ContextDelta {
  mode: "delta";
  base_version: number;
  context_version: number;
  route?: Route;
  routes?: RouteTarget[];
  narration?: string;
  data?: Json;
  actions_upsert?: { [id: string]: ActionDef };
  actions_remove?: string[];
  visibility?: string[];
}

export type ContextUpdate = ContextFull | ContextDelta;

export interface ErrorData {
  code: string;
  category: "network" | "authentication" | "recognition" | "protocol" | "action" | "provider";
  message: string;
  fatal: boolean;
  retryable: boolean;
  retry_after_ms?: number;
  ref_id?: string;
  details?: { state?: string; state_seq?: number; [name: string]: Json | undefined };
}

export interface Invocation {
  invocation_id: string;
  action_id: string;
  type: string;
  parameters: JsonObject;
  context_version: number;
  response_id: string;
  timeout_ms: number;
  follow_up?: boolean;
  parallel?: boolean;
  attempt?: number;
  confirmation_id?: string;
}

export interface ActionResult {
  invocation_id: string;
  action_id: string;
  status: "success" | "error";
  event: "navigation.success" | "navigation.failure" | "action.success" | "action.failure";
  executed: boolean;
  data?: Json;
  error?: { code: string; message: string; details?: Json };
  context?: ContextUpdate;
  duration_ms: number;
}

export interface HistoryItem {
  seq: number;
  id: string;
  role: Role;
  kind: "message" | "action" | "result" | "error" | "state";
  text?: string;
  status: "complete" | "incomplete";
  turn_id?: string;
  response_id?: string;
  action_id?: string;
  data?: Json;
  ts: number;
  metadata: JsonObject;
}

export interface IceServer {
  urls: string[];
  username?: string;
  credential?: string;
}

/** Where and how to reach a provider directly, with a credential that soon expires. */
export interface Provider {
  id: string;
  adapter: string;
  transport: "websocket" | "webrtc";
  url: string;
  model: string;
  voice?: string;
  credential: { type: "bearer"; value: string; expires_at: number };
  auth: { style: "header" | "subprotocol" | "sdp_post"; subprotocol_prefix?: string };
  data_channel?: string;
  locked: string[];
}

/** What the server answers to a new session. */
export interface SessionGrant {
  session_id: string;
  protocol_version: string;
  environment: Environment;
  mode: Mode;
  state: "connecting";
  session_token: string;
  session_token_expires_at: number;
  expires_at: number;
  resume: { window_s: number };
  audio: AudioChoice;
  turn_detection: TurnDetection;
  transport?: {
    websocket: { url: string; subprotocol: string };
    webrtc?: { offer_url: string; data_channel: string; ice_servers: IceServer[] };
  };
  control?: { url: string; subprotocol: string };
  provider?: Provider;
  limits: { [name: string]: number };
  issued_in_development: boolean;
}

export type InputTrigger = "wake_word" | "vad" | "ptt" | "text" | "follow_up";
export type EndReason = "silence" | "ptt_release" | "manual" | "timeout" | "text";

export interface BargeIn {
  trigger: "vad" | "manual";
  origin?: "client" | "server";
  response_id?: string;
  played_ms?: number;
  stream_id?: number;
  preroll_ms?: number;
  confidence?: number;
}

export interface AudioChunk {
  stream_id: number;
  seq: number;
  offset_ms: number;
  flags?: number;
  audio: string;
}

export interface ResponseOpening {
  response_id: string;
  in_reply_to?: string;
  content?: string;
  content_type?: "text" | "ssml";
  interruptible?: boolean;
  expects_reply?: boolean;
  stream_id?: number;
  modality?: "audio" | "text";
}

/** What a client sends, by type. */
export interface ClientEvents {
  "client.connect": {
    session_id: string;
    protocol_version: string;
    context?: ContextFull;
    resume?: { resume_token: string; last_server_seq: number; pending_results?: ActionResult[] };
  };
  "state.update": ContextUpdate;
  "input.start": { mode?: "voice" | "text"; trigger: InputTrigger; stream_id?: number; timeout_ms?: number; preroll_ms?: number };
  "input.detected": { origin: "client" | "server"; confidence?: number; level_db?: number };
  "input.text": { text: string; final?: boolean };
  "input.end": { reason: EndReason; duration_ms?: number };
  "input.cancel": { reason: "user" | "muted" | "timeout" | "error" };
  "input.timeout": { speech_seen: boolean };
  "input.barge_in": BargeIn;
  "audio.chunk": AudioChunk;
  "audio.progress": { response_id: string; played_ms: number };
  "audio.complete": { response_id: string; played_ms: number; status?: "played" | "failed" };
  "action.ack": { invocation_id: string; started: boolean };
  "action.result": ActionResult;
  "control.mute": { target: "input" | "output"; muted: boolean };
  "session.update": { locale?: string; turn_detection?: Partial<TurnDetection>; voice?: string; activate_on?: string };
  "session.ping": { nonce: string };
  "session.close": { reason: "user_hangup" | "app" | "unload" | "error" };
  "state.report": { state: State; previous: State; trigger: string; turn_id?: string };
  "provider.attached": { provider_session_id?: string; transport: "websocket" | "webrtc" };
  "history.append": { items: HistoryItem[] };
  "function.call": { invocation_id: string; name: string; parameters: JsonObject };
  "error.recoverable": ErrorData;
  "error.fatal": ErrorData;
}

/** What a server sends, by type. */
export interface ServerEvents {
  "session.connected": {
    session_id: string;
    mode: Mode;
    environment: Environment;
    resumed: boolean;
    resume_token?: string;
    resume_window_s: number;
    context_version: number;
    replay_from?: number;
    audio?: AudioChoice;
    turn_detection?: TurnDetection;
  };
  "server.ready": { context_version: number };
  "state.changed": { state: State; previous: State; trigger: string; state_seq: number; turn_id?: string; reason?: string };
  "state.ack": {
    context_version: number;
    applied: "now" | "deferred";
    ignored_actions: string[];
    warnings: { code: string; path: string; message: string }[];
  };
  "state.resync": { have_version: number; reason: "version_conflict" | "resume" | "corrupt" };
  "input.detected": { origin: "client" | "server"; confidence?: number; level_db?: number };
  "input.end": { reason: EndReason; duration_ms?: number };
  "input.barge_in": BargeIn;
  "input.timeout": { speech_seen: boolean };
  "transcript.partial": { turn_id: string; text: string; stable_chars: number };
  "input.complete": { turn_id: string; text: string; confidence?: number; locale?: string };
  "server.announce": ResponseOpening & { reason: "intro" | "notification" | "follow_up" };
  "response.audio": ResponseOpening;
  "response.text.delta": { response_id: string; text: string };
  "audio.start": { response_id: string; stream_id: number; format: AudioFormat };
  "audio.chunk": AudioChunk;
  "audio.end": { response_id: string; stream_id: number; duration_ms: number };
  "audio.interrupted": { response_id: string; truncated_at_ms: number; spoken_text: string };
  "response.done": {
    response_id: string;
    status: "complete" | "incomplete" | "failed" | "none";
    text?: string;
    usage?: { [name: string]: number };
    latency_metrics?: { [name: string]: number };
    model_id?: string;
  };
  "action.invoke": Invocation;
  "action.cancel": { invocation_id: string; reason: "timeout" | "user" | "shutdown" };
  "action.done": { invocation_id: string };
  "session.updated": JsonObject;
  "session.terminating": { reason: "idle" | "max_duration" | "drain"; in_ms: number };
  "session.terminated": { reason: string; code?: string; duration_ms: number; usage?: JsonObject };
  "session.pong": { nonce: string; server_ts: number };
  "credential.refreshed": Provider;
  "function.result": { invocation_id: string; status: "success" | "error"; data?: Json; error?: { code: string; message: string } };
  "error.recoverable": ErrorData;
  "error.fatal": ErrorData;
}

/** What ties an event to others. */
export interface Correlation {
  role?: Role;
  turn_id?: string;
  response_id?: string;
  reply_to?: string;
}

export interface Envelope<Type extends string, Data> extends Correlation {
  type: Type;
  id: string;
  seq: number;
  ts: number;
  state_seq: number;
  data: Data;
}

export type ClientType = keyof ClientEvents;
export type ServerType = keyof ServerEvents;
export type ClientEvent = { [Type in ClientType]: Envelope<Type, ClientEvents[Type]> }[ClientType];
export type ServerEvent = { [Type in ServerType]: Envelope<Type, ServerEvents[Type]> }[ServerType];

/**
 * Reads one text message from the server. Unknown types are returned as they are: whoever reads
 * them by `type` passes them by.
 */
export function readServerEvent(text: string): ServerEvent | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) return undefined;
  const event = value as Partial<Envelope<string, unknown>>;
  if (typeof event.type !== "string" || typeof event.seq !== "number") return undefined;
  if (typeof event.data !== "object" || event.data === null) event.data = {};
  if (event.type === "invoke_action") event.type = "action.invoke";
  return event as ServerEvent;
}
