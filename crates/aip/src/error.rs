//! Every text and close code with which something is refused, in one table.

use switchboard_core::{Close, Reject};

/// A registration was refused, or never came (§6.1).
pub const REFUSED: Close = Close { code: 1008, reason: "not registered" };
/// Another connection has taken over the name (§9.4).
pub const TAKEN_OVER: Close = Close { code: 4001, reason: "taken over" };
/// No sign of life for too long (§6.6).
pub const SILENT: Close = Close { code: 1001, reason: "no sign of life" };

/// What the server says when it says no; texts that hold an identifier are functions.
pub mod words {
    /// The first message was something else.
    pub const REGISTER_FIRST: &str = "The first message must be REGISTER";
    /// REGISTER without a name.
    pub const CLIENT_ID: &str = "client_id is required";
    /// The credential does not go with the name or the role (§9.2).
    pub const NOT_PERMITTED: &str = "client_id is not permitted for this credential";
    /// A1.
    pub const TARGET_NEEDED: &str = "target_id is required for constellation clients";
    /// §6.1.
    pub const OTHER_ID: &str = "client_id does not match the registered connection";
    /// §6.1.
    pub const OTHER_TYPE: &str = "client_type does not match the registered connection";
    /// A11.
    pub const REQUEST: &str = "request is required";
    /// §6.2.
    pub const TASK_TARGET: &str = "Constellation task requests require target_id";
    /// §6.2.
    pub const NOT_A_DEVICE: &str = "Constellation tasks may only target device clients";
    /// A19.
    pub const OTHER_DEVICE: &str = "Not authorized to task this device";
    /// §6.3.
    pub const NOT_ITSELF: &str = "Device clients may not target other devices";
    /// §11.
    pub const BUSY: &str = "device busy";
    /// §13.
    pub const TOO_MANY_TASKS: &str = "too many sessions of this client are running";
    /// §6.5.
    pub const INFO_ROLE: &str = "DEVICE_INFO_REQUEST is permitted only for constellation clients";
    /// §6.5.
    pub const INFO_DEVICE: &str = "Not authorized to request device info for this device";
    /// A constellation without a target asks about no device.
    pub const INFO_TARGET: &str = "DEVICE_INFO_REQUEST requires target_id";
    /// A constellation does not wait for its answers.
    pub const TOO_MANY_QUESTIONS: &str = "too many requests of this client wait for their answers";
    /// A20.
    pub const BINARY: &str = "Binary messages are not supported";
    /// A task that was sent to a device over HTTP.
    pub const NOT_TAKEN_UP: &str = "the device did not take the task up";
    /// A task that was sent to a device over HTTP, with many after it.
    pub const TOO_MANY_DISPATCHES: &str = "too many tasks wait for the device to take them up";
    /// The server takes no new work.
    pub const LEAVING: &str = "the server is shutting down";
    /// Something broke on our side (§12).
    pub const INTERNAL: &str = "internal error";
    /// What a client said that said nothing.
    pub const UNKNOWN: &str = "Unknown error";
    /// §6.6.
    pub const OWNER_LOST: &str = "Task was cancelled due to client disconnection";
    /// A task that took too long.
    pub const EXPIRED: &str = "the task was not done in time";
    /// The device says that it gave up, and not why.
    pub const GAVE_UP: &str = "the device ended the task as failed";
    /// The device answered with fewer results than there were commands (§12).
    pub const NO_RESULT: &str = "no result returned";

    /// §6.1, §6.2.
    pub fn not_connected(device: &str) -> String {
        format!("Target device '{device}' is not connected")
    }

    /// §6.1.
    pub fn duplicate(client_id: &str) -> String {
        format!("client_id '{client_id}' is already registered; duplicate registrations are not allowed")
    }

    /// §6.2; never says by whom (A10).
    pub fn owned(session_id: &str) -> String {
        format!("session_id '{session_id}' is owned by another client")
    }

    /// A9.
    pub fn running(session_id: &str) -> String {
        format!("session_id '{session_id}' is already running")
    }

    /// §6.1.
    pub fn unknown_type(kind: &str) -> String {
        format!("Unknown message type: {kind}")
    }

    /// §6.5.
    pub fn no_info(device: &str) -> String {
        format!("Device {device} not found or no system info available")
    }

    /// §13.
    pub fn too_long(field: &str, most: u32) -> String {
        format!("{field} is longer than {most} characters")
    }

    /// §10.2.
    pub fn cancelled(reason: Option<&str>) -> String {
        format!("cancelled: {}", reason.filter(|reason| !reason.is_empty()).unwrap_or("interrupted"))
    }
}

/// Why a task was not taken, for its client.
pub fn reject_words(reject: &Reject) -> String {
    match reject {
        Reject::Offline(device) => words::not_connected(device.as_str()),
        Reject::Forbidden | Reject::NotFound => "not permitted".to_owned(),
        Reject::UnknownAgent(agent) => format!("no agent serves this: {agent}"),
        Reject::Limit { .. } => words::BUSY.to_owned(),
        Reject::Quota { .. } => "the storage of this account is used up".to_owned(),
        Reject::RateLimited { .. } | Reject::Busy => "the server is busy, try again".to_owned(),
        Reject::Draining => words::LEAVING.to_owned(),
        Reject::Unavailable { .. } => "the server cannot store anything now, try again".to_owned(),
        Reject::UnknownTurn(_)
        | Reject::TurnOver(_)
        | Reject::Fenced(_)
        | Reject::DuplicateTurn(_)
        | Reject::CallGone(_)
        | Reject::UnknownTool(_)
        | Reject::InvalidArgs(_)
        | Reject::UnknownMessage(_)
        | Reject::DuplicateMessage(_)
        | Reject::Inactive
        | Reject::Unserved { .. }
        | Reject::KeyConflict
        | Reject::AttachmentGone
        | Reject::Enrolled(_)
        | Reject::Invalid(_)
        | Reject::Unauthenticated => words::INTERNAL.to_owned(),
    }
}

/// A text as it goes out: no longer than the reference allows (§12).
pub fn bounded(text: &str) -> String {
    match text.char_indices().nth(MAX_TEXT) {
        Some((end, _)) => text.get(..end).unwrap_or_default().to_owned(),
        None => text.to_owned(),
    }
}

const MAX_TEXT: usize = 1024;
