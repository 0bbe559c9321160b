//! The answer of a function: typed records, in the body of the response or by push.

use bytes::BytesMut;
use switchboard_asp::error::{Code, ValueError};
use switchboard_asp::message::{
    Ask, Call, DEFAULT_CALL_TIMEOUT_MS, End, ErrorBody, Finish, Record, RecordBody, State, Status,
    ToolActivity, ToolDef, ToolDefFrame, ToolDefOp, Usage,
};
use switchboard_asp::relay::{Format, Piece, PushedFrame, WriteError, Writer};
use switchboard_asp::value::Value;
use tokio::sync::mpsc;

use super::invocation::Invocation;
use super::output::{Chunk, Output};
use super::relay::{Relay, RelayError};
use super::run::Progress;

/// Writes an answer, record by record, and numbers them. What ends it consumes it; one that is dropped before has
/// broken off, or, if the request was cancelled, ends as interrupted.
#[derive(Debug)]
pub struct Records {
    sink: Sink,
    progress: Progress,
}

impl Records {
    /// An answer in a response of this format, and the body of that response.
    pub fn respond(invocation: &Invocation, format: Format) -> (Self, Output) {
        Self::in_response(invocation, format, Progress::default())
    }

    /// An answer by push, for a function that has answered with 202.
    pub fn push(invocation: &Invocation, relay: Relay) -> Self {
        Self::by_push(invocation, relay, Progress::default())
    }

    pub(super) fn in_response(invocation: &Invocation, format: Format, progress: Progress) -> (Self, Output) {
        let (chunks, output) = Output::new(format, invocation.rid());
        let writer = Writer::new(format, invocation.rid(), invocation.next_n());
        (Self { sink: Sink::Response { writer, chunks }, progress }, output)
    }

    pub(super) fn by_push(invocation: &Invocation, relay: Relay, progress: Progress) -> Self {
        let pushes = Pushes {
            relay,
            idem: format!("{}-{}", invocation.inv(), invocation.leg()),
            rid: invocation.rid(),
            next_n: invocation.next_n(),
            count: 0,
        };
        Self { sink: Sink::Push(pushes), progress }
    }

    /// Execution began; should be first.
    ///
    /// # Errors
    /// As for every record: nobody listens any more, or it is too long.
    pub async fn start(&mut self, run: &str) -> Result<(), RecordError> {
        self.record(RecordBody::Start { run: run.to_owned(), model: None }).await
    }

    /// Progress.
    ///
    /// # Errors
    /// See [`Records::start`].
    pub async fn status(&mut self, state: State, message: Option<&str>) -> Result<(), RecordError> {
        self.record(RecordBody::Status(Status { state, pos: None, msg: message.map(str::to_owned) })).await
    }

    /// More of the answer.
    ///
    /// # Errors
    /// See [`Records::start`].
    pub async fn text(&mut self, delta: impl Into<String> + Send) -> Result<(), RecordError> {
        self.record(RecordBody::Text(delta.into())).await
    }

    /// More of the reasoning.
    ///
    /// # Errors
    /// See [`Records::start`].
    pub async fn reason(&mut self, delta: impl Into<String> + Send) -> Result<(), RecordError> {
        self.record(RecordBody::Reason(delta.into())).await
    }

    /// Activity of a tool that the function runs itself.
    ///
    /// # Errors
    /// See [`Records::start`].
    pub async fn tool(&mut self, activity: ToolActivity) -> Result<(), RecordError> {
        self.record(RecordBody::Tool(activity)).await
    }

    /// Structured output.
    ///
    /// # Errors
    /// See [`Records::start`].
    pub async fn data(&mut self, mime: Option<&str>, value: serde_json::Value) -> Result<(), RecordError> {
        self.record(RecordBody::Data { mime: mime.map(str::to_owned), value: value.try_into()? }).await
    }

    /// Token counts.
    ///
    /// # Errors
    /// See [`Records::start`].
    pub async fn usage(&mut self, counts: &[(&str, u64)]) -> Result<(), RecordError> {
        let counts = counts.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
        self.record(RecordBody::Usage(Usage(counts))).await
    }

    /// Has the client execute one of its tools within 30 s. [`Records::suspend`] and be continued with the answer,
    /// or ask [`Relay::answer_to`] for it.
    ///
    /// # Errors
    /// See [`Records::start`]; the arguments must be an object.
    pub async fn call(
        &mut self,
        call_id: &str,
        name: &str,
        args: serde_json::Value,
    ) -> Result<(), RecordError> {
        let Value::Map(args) = args.try_into()? else { return Err(RecordError::Arguments) };
        self.call_with(Call {
            call_id: call_id.to_owned(),
            name: name.to_owned(),
            args,
            timeout_ms: DEFAULT_CALL_TIMEOUT_MS,
        })
        .await
    }

    /// Has the client execute one of its tools, within the time it says.
    ///
    /// # Errors
    /// See [`Records::start`].
    pub async fn call_with(&mut self, call: Call) -> Result<(), RecordError> {
        self.record(RecordBody::Call(call)).await
    }

    /// Asks the user; the answer comes as that to a call.
    ///
    /// # Errors
    /// See [`Records::start`].
    pub async fn ask(&mut self, ask_id: &str, question: &str) -> Result<(), RecordError> {
        let (ask_id, text) = (ask_id.to_owned(), question.to_owned());
        self.ask_with(Ask { ask_id, text, schema: None }).await
    }

    /// Asks for data of a certain shape.
    ///
    /// # Errors
    /// See [`Records::start`].
    pub async fn ask_with(&mut self, ask: Ask) -> Result<(), RecordError> {
        self.record(RecordBody::Ask(ask)).await
    }

    /// Tells the client of tools that were found.
    ///
    /// # Errors
    /// See [`Records::start`].
    pub async fn tool_def(&mut self, tools: Vec<ToolDef>) -> Result<(), RecordError> {
        self.put(Piece::ToolDef(added(tools))).await
    }

    /// Shows the relay that the function is alive. A response does so by itself every 10 s.
    ///
    /// # Errors
    /// See [`Records::start`].
    pub async fn ping(&mut self) -> Result<(), RecordError> {
        self.put(Piece::Ping).await
    }

    /// Any record.
    ///
    /// # Errors
    /// See [`Records::start`].
    pub async fn record(&mut self, body: RecordBody) -> Result<(), RecordError> {
        self.put(Piece::Record(Record::new(body))).await
    }

    /// Ends the answer.
    ///
    /// # Errors
    /// See [`Records::start`].
    pub async fn end(self, finish: Finish) -> Result<(), RecordError> {
        self.end_with(End::new(finish)).await
    }

    /// Ends the answer with an output, counts or times.
    ///
    /// # Errors
    /// See [`Records::start`].
    pub async fn end_with(mut self, end: End) -> Result<(), RecordError> {
        self.record(RecordBody::End(end)).await
    }

    /// Ends the answer as failed.
    ///
    /// # Errors
    /// See [`Records::start`].
    pub async fn error(mut self, code: Code, message: &str) -> Result<(), RecordError> {
        self.put(Piece::Error(ErrorBody::new(code, message))).await
    }

    /// Ends this leg. When what was called or asked for is there, the function is invoked again with this state.
    ///
    /// # Errors
    /// See [`Records::start`]; the state has at most 64 KiB, and an answer by push cannot be suspended.
    pub async fn suspend(mut self, state: serde_json::Value) -> Result<(), RecordError> {
        if matches!(self.sink, Sink::Push(_)) {
            return Err(RecordError::PushedSuspend);
        }
        let state = state.try_into()?;
        self.put(Piece::Suspend(state)).await
    }

    async fn put(&mut self, piece: Piece) -> Result<(), RecordError> {
        let last = piece.is_terminal();
        match &mut self.sink {
            Sink::Response { writer, chunks } => {
                // Room first: what is cancelled while it waits has written nothing.
                let room = chunks.reserve().await.map_err(|_| RecordError::Gone)?;
                let mut bytes = BytesMut::new();
                writer.write(&piece, &mut bytes)?;
                if last {
                    // Before anybody sees it, and drops the body because there is no more.
                    self.progress.end();
                }
                room.send(Chunk { bytes: bytes.freeze(), last });
            }
            Sink::Push(pushes) => {
                pushes.put(piece).await?;
                if last {
                    self.progress.end();
                }
            }
        }
        Ok(())
    }
}

impl Drop for Records {
    fn drop(&mut self) {
        if self.progress.has_ended() || !self.progress.is_cancelled() {
            return;
        }
        let Sink::Response { writer, chunks } = &mut self.sink else { return };
        let mut bytes = BytesMut::new();
        if writer.write(&Piece::end(Finish::Interrupted), &mut bytes).is_ok() {
            self.progress.end();
            // Without room the answer breaks off instead: nobody waits for it.
            let _ = chunks.try_send(Chunk { bytes: bytes.freeze(), last: true });
        }
    }
}

/// Why a record did not go out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The connection is gone: stop.
    #[error("nobody listens any more")]
    Gone,
    /// It cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// Numbers or nesting beyond what the protocol has.
    #[error(transparent)]
    Value(#[from] ValueError),
    /// Arguments of a call.
    #[error("the arguments of a call must be an object")]
    Arguments,
    /// A suspend ends a response.
    #[error("an answer by push cannot be suspended: wait for answers instead")]
    PushedSuspend,
    /// The relay did not take it, or cannot be asked.
    #[error(transparent)]
    Relay(#[from] RelayError),
}

/// TOOL_DEF that adds these; the relay counts the revisions.
pub(super) fn added(tools: Vec<ToolDef>) -> ToolDefFrame {
    ToolDefFrame { op: ToolDefOp::Add, rev: None, tools, names: Vec::new() }
}

#[derive(Debug)]
enum Sink {
    Response { writer: Writer, chunks: mpsc::Sender<Chunk> },
    Push(Pushes),
}

#[derive(Debug)]
struct Pushes {
    relay: Relay,
    idem: String,
    rid: u16,
    next_n: u64,
    count: u64,
}

impl Pushes {
    async fn put(&mut self, piece: Piece) -> Result<(), RecordError> {
        let piece = match piece {
            Piece::Record(record) => {
                let numbered = record.numbered(self.next_n);
                self.next_n += 1;
                Piece::Record(numbered)
            }
            // Nobody waits for bytes here.
            Piece::Ping => return Ok(()),
            Piece::Error(_) | Piece::ToolDef(_) | Piece::Suspend(_) | Piece::Raw(_) => piece,
        };
        let idem = format!("{}-{}", self.idem, self.count);
        self.count += 1;
        self.relay.push(&idem, vec![PushedFrame { rid: self.rid, piece }]).await?;
        Ok(())
    }
}
