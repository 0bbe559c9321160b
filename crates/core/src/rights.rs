//! Which scope each thing needs that a client can ask for: one table for every protocol and the admin
//! API, without a default.
//!
//! The server looks here before anything is done: for the route of a request, for every op that a
//! connection submits, and for what connections ask besides ops. What depends on a session (the agent
//! that will answer, the call that is answered, the devices whose tools it has) is decided by the
//! session, with the scopes of its [`Actor`](crate::Actor).

use crate::model::{CallKind, NewTurn, Op, TurnRequest};
use crate::scopes::Scope;

/// Something that a credential may be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Right {
    /// Open a WebSocket, and keep it.
    Connect,
    /// Have an empty session, and attachments to sessions.
    Open,
    /// Follow a session from now on, or from where it was left.
    Follow,
    /// Look something up in the tables that a protocol keeps, as connections do to do what they are asked.
    Look,
    /// Read what was said and done before, through a protocol.
    Read,
    /// Read what was said and done before, through the admin API.
    Inspect,
    /// Start a turn, and change what was said.
    Ask,
    /// Start a turn for a device.
    Task,
    /// Run a tool without an agent.
    RunTool,
    /// Stop a turn.
    Stop,
    /// End a turn whatever its agent makes of it.
    Conclude,
    /// Note something beside a session: votes, notes, memories, results.
    Annotate,
    /// Say which tools there are.
    OfferTools,
    /// Answer a call or a question; which of them it is, the session knows.
    Answer,
    /// Answer the call of a tool.
    AnswerTool,
    /// Answer the question of an agent.
    AnswerQuestion,
    /// Answer the question whether a tool may run.
    Approve,
    /// Rename a session, archive it, delete it, or say who takes part.
    Manage,
    /// Keep the profile of a device.
    Device,
    /// Pass a word to a registered connection.
    Note,
    /// Send a device work over HTTP.
    Dispatch,
    /// Read what came of such work.
    Dispatched,
    /// See which agents there are, and how the server is to be asked.
    Discover,
    /// Have speech recognised or spoken.
    Speak,
    /// Run the server: everybody's connections, metrics, names, shutdown.
    Administer,
    /// Not for clients at all.
    Server,
}

/// One of the things that are enough for a right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// This scope.
    Scope(Scope),
    /// Being registered as a device.
    Device,
    /// Being registered as an orchestrator.
    Constellation,
}

impl Right {
    /// All of them.
    pub const ALL: [Self; 26] = [
        Self::Connect,
        Self::Open,
        Self::Follow,
        Self::Look,
        Self::Read,
        Self::Inspect,
        Self::Ask,
        Self::Task,
        Self::RunTool,
        Self::Stop,
        Self::Conclude,
        Self::Annotate,
        Self::OfferTools,
        Self::Answer,
        Self::AnswerTool,
        Self::AnswerQuestion,
        Self::Approve,
        Self::Manage,
        Self::Device,
        Self::Note,
        Self::Dispatch,
        Self::Dispatched,
        Self::Discover,
        Self::Speak,
        Self::Administer,
        Self::Server,
    ];

    /// Any one of these is enough.
    pub const fn needs(self) -> &'static [Need] {
        use Need::{Constellation, Device, Scope as Has};
        use Scope::{Admin, Approve, Connect, Dispatch, Invoke, Manage, Read, Tools};
        match self {
            Self::Connect => &[Has(Connect)],
            // Whatever a request over HTTP was let in with.
            Self::Open => {
                &[Has(Connect), Has(Read), Has(Invoke), Has(Tools), Has(Approve), Has(Manage), Has(Dispatch)]
            }
            Self::Follow => {
                &[Has(Read), Has(Invoke), Has(Tools), Has(Approve), Has(Manage), Device, Constellation]
            }
            Self::Look => &[Has(Read), Has(Invoke), Has(Manage), Has(Dispatch), Device, Constellation],
            Self::Read => &[Has(Read)],
            Self::Inspect => &[Has(Read), Has(Admin)],
            Self::Ask | Self::AnswerQuestion | Self::Speak => &[Has(Invoke)],
            Self::Task | Self::Conclude => &[Has(Invoke), Device, Constellation],
            Self::RunTool => &[Has(Tools)],
            Self::Stop => &[Has(Invoke), Has(Tools), Constellation],
            Self::Annotate => &[Has(Invoke), Has(Manage), Device, Constellation],
            Self::OfferTools | Self::AnswerTool => &[Has(Tools), Device],
            Self::Answer => &[Has(Invoke), Has(Tools), Has(Approve), Device],
            Self::Approve => &[Has(Approve)],
            Self::Manage => &[Has(Manage)],
            Self::Device => &[Device],
            Self::Note => &[Has(Invoke), Has(Dispatch), Device, Constellation],
            Self::Dispatch => &[Has(Dispatch)],
            Self::Dispatched => &[Has(Dispatch), Has(Read)],
            Self::Discover => &[Has(Connect), Has(Read), Has(Admin)],
            Self::Administer => &[Has(Admin)],
            Self::Server => &[],
        }
    }

    /// What it is, in a few words.
    pub const fn about(self) -> &'static str {
        match self {
            Self::Connect => "open a WebSocket, and keep it",
            Self::Open => "have an empty session, attach, resume",
            Self::Follow => "follow a session",
            Self::Look => "look something up in a protocol's tables, on a connection",
            Self::Read => "read transcripts and lists through a protocol",
            Self::Inspect => {
                "read transcripts, events, and lists of sessions and devices through the admin API"
            }
            Self::Ask => "start a turn, send a message, edit, synchronise, change the branch",
            Self::Task => "start a turn for a device",
            Self::RunTool => "run a tool without an agent",
            Self::Stop => "stop a turn",
            Self::Conclude => "end a turn whatever its agent makes of it",
            Self::Annotate => "note votes, notes, memories and results beside a session",
            Self::OfferTools => "offer tools",
            Self::Answer => "answer what a session asks; which of the next three it is, the session decides",
            Self::AnswerTool => "answer the call of a tool, and report its progress",
            Self::AnswerQuestion => "answer the question of an agent",
            Self::Approve => "answer the question whether a tool may run",
            Self::Manage => "rename, archive and delete sessions, say who takes part",
            Self::Device => "keep the profile of a device",
            Self::Note => "pass a word to a registered connection",
            Self::Dispatch => "send a device work over HTTP",
            Self::Dispatched => "read what came of such work",
            Self::Discover => "see which agents there are, and the description of the admin API",
            Self::Speak => "have speech recognised",
            Self::Administer => {
                "see everybody's connections and metrics, revoke, release names, stop the server"
            }
            Self::Server => "what only the server and its agents do",
        }
    }

    /// What is said where it is missing.
    pub const fn refusal(self) -> &'static str {
        match self {
            Self::Connect => "the credential does not allow connections",
            Self::Open => "this needs the scope connect",
            Self::Follow => {
                "following a session needs one of the scopes read, invoke, tools, approve, manage"
            }
            Self::Look => "this needs one of the scopes read, invoke, manage, dispatch",
            Self::Read | Self::Inspect => "reading needs the scope read",
            Self::Ask | Self::Task | Self::AnswerQuestion | Self::Conclude | Self::Speak => {
                "this needs the scope invoke"
            }
            Self::Stop => "stopping a turn needs the scope invoke",
            Self::RunTool | Self::OfferTools | Self::AnswerTool => "this needs the scope tools",
            Self::Answer => "answering needs one of the scopes invoke, tools, approve",
            Self::Annotate => "this needs the scope invoke or manage",
            Self::Approve => "approving needs the scope approve",
            Self::Manage => "this needs the scope manage",
            Self::Device => "only a registered device may do this",
            Self::Note => "this needs the scope invoke or dispatch",
            Self::Dispatch => "dispatching needs the scope dispatch",
            Self::Dispatched => "this needs the scope dispatch or read",
            Self::Discover => "this needs the scope connect or read",
            Self::Administer => "this needs the scope admin",
            Self::Server => "no credential allows this",
        }
    }

    /// What an op needs, as far as the op tells.
    pub const fn of(op: &Op) -> Self {
        match op {
            // An empty session and its attachments belong to every connection.
            Op::Open { .. }
            | Op::OpenAttachment { .. }
            | Op::TakeOver { .. }
            | Op::LinkAttachment { .. }
            | Op::Detach { .. }
            | Op::CloseAttachment { .. } => Self::Open,
            Op::StartTurn(turn) => Self::of_turn(turn),
            Op::Import(_) | Op::Edit { .. } | Op::MoveTip { .. } => Self::Ask,
            // Whoever follows a session through a protocol that keeps tables of it has them begun.
            Op::Chronicle { .. } => Self::Follow,
            Op::Record { .. } => Self::Annotate,
            Op::Admit { .. } | Op::Rename { .. } | Op::Stand(_) => Self::Manage,
            Op::ChangeTools(_) => Self::OfferTools,
            Op::Interrupt { .. } => Self::Stop,
            Op::Release { .. } => Self::Ask,
            Op::Conclude { .. } => Self::Conclude,
            Op::Join(_) | Op::Report { .. } => Self::Device,
            Op::Progress { .. } => Self::AnswerTool,
            Op::Answer { .. } => Self::Answer,
            Op::Claim { .. }
            | Op::Emit { .. }
            | Op::Request { .. }
            | Op::Finish { .. }
            | Op::Lose { .. }
            | Op::LoseDevice { .. }
            | Op::ReleaseDevice { .. }
            | Op::Recover
            | Op::Wake => Self::Server,
        }
    }

    /// What a turn needs.
    pub const fn of_turn(turn: &NewTurn) -> Self {
        match (&turn.request, &turn.device) {
            (TurnRequest::Tool { .. }, _) => Self::RunTool,
            (_, Some(_)) => Self::Task,
            (_, None) => Self::Ask,
        }
    }

    /// What the answer to a call of this kind needs.
    pub const fn of_answer(kind: &CallKind) -> Self {
        match kind {
            CallKind::Tool { .. } => Self::AnswerTool,
            CallKind::Question { approves: Some(_), .. } => Self::Approve,
            CallKind::Question { approves: None, .. } => Self::AnswerQuestion,
        }
    }
}
