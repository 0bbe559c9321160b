//! What a server tells unasked (§4.21).

use switchboard_core::Pii;

use super::rows::body;
use super::words::{Word, names};

body! {
    /// Connection, model and MCP servers.
    ServerInfo {
        /// The connection.
        connection: ConnectionInfo = required "connection";
        /// The model.
        model: ModelInfo = required "model";
        /// The MCP servers.
        mcp_servers: Vec<McpServer> = required "mcpServers" [0..=items];
    }
}

body! {
    /// The connection of a client.
    ConnectionInfo {
        /// Its state.
        status: Word<ConnectionStatus> = required "status";
        /// In milliseconds, 0 if unknown.
        latency: u32 = required "latency";
    }
}

names! {
    /// State of a connection.
    ConnectionStatus {
        /// Up.
        Connected = "connected",
        /// Coming up.
        Connecting = "connecting",
        /// Down.
        Disconnected = "disconnected",
        /// Coming up again.
        Reconnecting = "reconnecting",
    }
}

body! {
    /// The model that answers.
    ModelInfo {
        /// Its name.
        name: String = required "name";
        /// Who runs it.
        provider: String = required "provider";
    }
}

body! {
    /// An MCP server.
    McpServer {
        /// Its name.
        name: String = required "name";
        /// Its state.
        status: Word<McpStatus> = required "status";
    }
}

names! {
    /// State of an MCP server.
    McpStatus {
        /// Up.
        Connected = "connected",
        /// Down.
        Disconnected = "disconnected",
        /// Broken.
        Error = "error",
    }
}

body! {
    /// Totals of the conversation.
    SessionStats {
        /// Messages.
        message_count: u64 = required "messageCount";
        /// Uses of tools.
        tool_call_count: u64 = required "toolCallCount";
        /// Uses of memories.
        memories_used: u64 = required "memoriesUsed";
        /// Milliseconds since the conversation was created.
        session_duration: u64 = required "sessionDuration";
    }
}

body! {
    /// Title or status of a conversation changed.
    ConversationUpdate {
        ..conversation
        /// Its title, if known.
        title: Option<Pii<String>> = optional "title";
        /// Its status.
        status: Option<Word<ConversationStatus>> = optional "status";
        /// When, RFC 3339.
        updated_at: String = required "updatedAt";
    }
}

names! {
    /// Status of a conversation.
    ConversationStatus {
        /// In use.
        Active = "active",
        /// Put away.
        Archived = "archived",
        /// Gone.
        Deleted = "deleted",
    }
}
