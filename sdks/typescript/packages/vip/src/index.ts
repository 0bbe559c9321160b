/** Voice for web apps: the browser side of the Voice Interaction Protocol. */

export { ActionFailure, Actions, type ActionHost, type ConfirmationRequest } from "./actions.js";
export { VoiceApp, type VoiceEvents, type VoiceOptions } from "./app.js";
export { canonical, digest } from "./canonical.js";
export type { Caption } from "./captions.js";
export { ContextFeed, difference } from "./context.js";
export { RequestError, type SessionOptions } from "./control.js";
export { confirmInDialog } from "./dialog.js";
export type * from "./events.js";
export { decodeFrame, encodeFrame, END, GAP, INPUT, MONITOR, OUTPUT, type AudioFrame } from "./frames.js";
export { InternalSession, type Adapter, type AdapterHost } from "./internal.js";
export type { Runtime, Traffic } from "./link.js";
export { Machine, MATRIX, STATES, stateNamed, takesContext, transition, type Transition, type Trigger } from "./machine.js";
export { schemaError } from "./schema.js";
export { isRendered, Page, type ActionCall, type ActionHandler, type PageOptions } from "./screen.js";
export { backoff, Session } from "./session.js";
export { openPeer, openSocket, type Transport } from "./transport.js";
export { VoiceDetector, type Hearing } from "./vad.js";
