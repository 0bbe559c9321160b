/** A client of Switchboard for browsers, Node, Bun and React Native. */

export { AspClient, type AspClientOptions, createClient } from "./asp/client.js";
export type { AspTool } from "./asp/message.js";
export { ConnectionError, SwitchboardError, ToolError, TurnError, UsageError } from "./errors.js";
export type { AbortSignalLike, Clock, FetchLike, SocketConstructor, SocketLike, StorageLike } from "./platform.js";
export { type JsonSchema, type StandardSchema, tool, type Tool, type ToolContext, type ToolDefinition } from "./tools.js";
export { Turn, type TurnPosition, type TurnStatus } from "./turn.js";
export type {
  Approval, AskOptions, Client, ClientEvents, ClientOptions, ConnectionState, End, Finish, Input, Message, Part, Question, Session, TokenSource,
  TurnEvent, Value,
} from "./types.js";
