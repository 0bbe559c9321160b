//! The tables of the minutes, as anybody can read them with SQL.
//!
//! Moments are whole milliseconds since the Unix epoch, flags are 0 or 1, JSON is compact text.

use switchboard_core::{Column, ColumnKind, Table};

const fn column(name: &'static str, kind: ColumnKind) -> Column {
    Column { name, kind }
}

/// One row per session.
pub const SESSIONS: Table = Table {
    name: "vip_sessions",
    columns: &[
        column("session_id", ColumnKind::Text),
        column("app_id", ColumnKind::Text),
        column("sub", ColumnKind::Text),
        column("environment", ColumnKind::Text),
        column("mode", ColumnKind::Text),
        column("settings", ColumnKind::Text),
        column("state", ColumnKind::Text),
        column("state_seq", ColumnKind::Integer),
        column("context_version", ColumnKind::Integer),
        column("context", ColumnKind::Text),
        column("last_event_seq", ColumnKind::Integer),
        column("connected", ColumnKind::Integer),
        column("opened", ColumnKind::Integer),
        column("left_at", ColumnKind::Integer),
        column("live", ColumnKind::Integer),
        column("created_at", ColumnKind::Integer),
        column("expires_at", ColumnKind::Integer),
        column("ended_at", ColumnKind::Integer),
        column("end_reason", ColumnKind::Text),
    ],
    key: &["session_id"],
    session: "session_id",
    indexes: &[&["live", "expires_at"]],
    words: None,
};

/// What the server has sent, as far as it can be sent again.
pub const EVENTS: Table = Table {
    name: "vip_events",
    columns: &[
        column("session_id", ColumnKind::Text),
        column("seq", ColumnKind::Integer),
        column("type", ColumnKind::Text),
        column("event", ColumnKind::Text),
        column("at", ColumnKind::Integer),
    ],
    key: &["session_id", "seq"],
    session: "session_id",
    indexes: &[],
    words: None,
};

/// The Conversation History (§13).
pub const HISTORY: Table = Table {
    name: "vip_history",
    columns: &[
        column("session_id", ColumnKind::Text),
        column("seq", ColumnKind::Integer),
        column("item", ColumnKind::Text),
        column("at", ColumnKind::Integer),
    ],
    key: &["session_id", "seq"],
    session: "session_id",
    indexes: &[],
    words: None,
};

/// All of them.
pub static TABLES: &[Table] = &[SESSIONS, EVENTS, HISTORY];
