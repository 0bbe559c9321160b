//! The task that holds the connection: the sans-IO client between its transport and the app.

use switchboard_core::{Pii, Timestamp};
use switchboard_vip::client::{CommandError, Down, Event, Execution, Input, Output, VipClient};
use switchboard_vip::matrix::State;
use switchboard_vip::message::{CloseReason, MuteTarget, PlaybackStatus};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::action::{Answer, Handlers};
use super::create::Created;
use crate::clock::Clock;
use crate::refused;
use crate::socket::{DialError, Incoming, Socket, sleep_until};

/// Something that the app wants.
pub(super) struct Command {
    pub(super) act: Act,
    pub(super) reply: oneshot::Sender<Result<(), CommandError>>,
}

/// What is done with the client.
pub(super) type Act = Box<dyn FnOnce(&mut VipClient, Timestamp) -> Result<(), CommandError> + Send>;

/// What was done beside.
enum Report {
    Dialled(Result<Socket, DialError>),
    Renewed(Option<String>),
    Acted { invocation: String, answer: Answer },
}

pub(super) struct Actor {
    client: VipClient,
    clock: Clock,
    created: Created,
    handlers: Handlers,
    silent: bool,
    commands: mpsc::Receiver<Command>,
    events: mpsc::Sender<Event>,
    state: watch::Sender<State>,
    /// Told once whether there is a session to talk in.
    ready: Option<oneshot::Sender<Result<(), Down>>>,
    socket: Option<Socket>,
    beside: JoinSet<Report>,
    dial_at: Option<Instant>,
    renewing: bool,
    over: bool,
}

/// What the parts of an actor are, besides what it makes itself.
pub(super) struct Parts {
    pub(super) client: VipClient,
    pub(super) clock: Clock,
    pub(super) created: Created,
    pub(super) handlers: Handlers,
    pub(super) silent: bool,
    pub(super) commands: mpsc::Receiver<Command>,
    pub(super) events: mpsc::Sender<Event>,
    pub(super) state: watch::Sender<State>,
    pub(super) ready: oneshot::Sender<Result<(), Down>>,
}

impl Actor {
    pub(super) fn new(parts: Parts) -> Self {
        let Parts { client, clock, created, handlers, silent, commands, events, state, ready } = parts;
        Self {
            client,
            clock,
            created,
            handlers,
            silent,
            commands,
            events,
            state,
            ready: Some(ready),
            socket: None,
            beside: JoinSet::new(),
            dial_at: Some(Instant::now()),
            renewing: false,
            over: false,
        }
    }

    /// Runs until the session is over, or nobody is left who could say anything.
    pub(super) async fn run(mut self) {
        loop {
            let wake = self.drain().map(|time| self.clock.instant(time));
            if self.over {
                break;
            }
            let renew_at = (!self.renewing).then_some(self.created.renew_at);
            let due = [wake, self.dial_at, renew_at].into_iter().flatten().min();
            tokio::select! {
                incoming = next(&mut self.socket) => self.take(incoming),
                Some(Ok(report)) = self.beside.join_next() => self.learn(report),
                command = self.commands.recv() => match command {
                    Some(command) => {
                        let result = (command.act)(&mut self.client, self.clock.now());
                        // Whoever asked may have gone.
                        let _ = command.reply.send(result);
                    }
                    None => {
                        // Nobody is left; a session that was lost ends by itself.
                        let _ = self.client.hang_up(CloseReason::App, self.clock.now());
                        self.drain();
                        break;
                    }
                },
                () = sleep_until(due) => self.wake(),
            }
        }
        self.state.send_replace(State::NotConnected);
        if let Some(socket) = self.socket.take() {
            socket.close(NORMAL).await;
        }
    }

    fn take(&mut self, incoming: Incoming) {
        let input = match incoming {
            Incoming::Binary(bytes) => Input::Binary(Pii(bytes)),
            Incoming::Text(bytes) => match String::from_utf8(bytes.into()) {
                Ok(text) => Input::Text(Pii(text)),
                Err(_) => return,
            },
            Incoming::Alive => return,
            Incoming::Closed(code) => {
                if let Some(socket) = self.socket.take() {
                    tokio::spawn(socket.finish());
                }
                Input::Closed(code)
            }
        };
        self.client.handle_input(input, self.clock.now());
    }

    fn learn(&mut self, report: Report) {
        let now = self.clock.now();
        match report {
            Report::Dialled(Ok(socket)) => {
                self.socket = Some(socket);
                self.client.handle_input(Input::Opened, now);
            }
            Report::Dialled(Err(error)) => {
                let code = match error {
                    DialError::Refused { status, .. } if !refused::is_temporary(status) => Some(GONE),
                    DialError::OtherProtocol => Some(GONE),
                    DialError::Refused { .. }
                    | DialError::Timeout
                    | DialError::Io(_)
                    | DialError::Name
                    | DialError::WebSocket(_) => None,
                };
                self.client.handle_input(Input::Closed(code), now);
            }
            Report::Renewed(token) => {
                self.renewing = false;
                self.created.renewed(token);
            }
            Report::Acted { invocation, answer } => {
                let Answer { outcome, screen } = answer;
                if let Err(error) = self.client.finish(&invocation, outcome, screen, now) {
                    // It came too late, or what it showed breaks a rule: the server is told in time.
                    tracing::debug!(%error, "the answer of an action was not taken");
                }
            }
        }
    }

    fn wake(&mut self) {
        let now = Instant::now();
        if self.dial_at.is_some_and(|at| at <= now) {
            self.dial_at = None;
            let dialling = self.created.dialer.clone().dial(self.created.upgrade());
            self.beside.spawn(async { Report::Dialled(dialling.await) });
        }
        if !self.renewing && self.created.renew_at <= now {
            self.renewing = true;
            let renewing = self.created.renew();
            self.beside.spawn(async { Report::Renewed(renewing.await) });
        }
        self.client.handle_input(Input::Timeout, self.clock.now());
    }

    /// Does what the client wants; answers when it wants to be woken.
    fn drain(&mut self) -> Option<Timestamp> {
        loop {
            match self.client.poll_output() {
                Output::Send(Pii(text)) => {
                    if let Some(socket) = &mut self.socket {
                        socket.send_text(text);
                    }
                }
                Output::SendBinary(Pii(bytes)) => {
                    if let Some(socket) = &mut self.socket {
                        socket.send_binary(bytes);
                    }
                }
                Output::Close(code) => {
                    if let Some(socket) = self.socket.take() {
                        tokio::spawn(socket.close(code));
                    }
                }
                Output::Event(event) => self.tell(event),
                Output::Idle { wake } => return wake,
            }
        }
    }

    /// Does what has to be done about an event, and passes it on.
    fn tell(&mut self, event: Event) {
        let now = self.clock.now();
        #[expect(clippy::wildcard_enum_match_arm, reason = "the rest is for the app alone")]
        let event = match event {
            Event::Execute(execution) => match self.handlers.get(&execution.action_id).cloned() {
                Some(handler) => return self.act(execution, &handler),
                None => Event::Execute(execution),
            },
            Event::Connected(connected) => {
                if self.silent {
                    // Nobody hears what would be spoken.
                    let _ = self.client.mute(MuteTarget::Output, true, now);
                }
                Event::Connected(connected)
            }
            Event::LastPlayed { response_id, duration_ms } => {
                if self.silent {
                    let _ = self.client.played_out(&response_id, duration_ms, PlaybackStatus::Played, now);
                }
                Event::LastPlayed { response_id, duration_ms }
            }
            Event::State(changed) => {
                self.state.send_replace(changed.state);
                if changed.state == State::Idle
                    && let Some(ready) = self.ready.take()
                {
                    let _ = ready.send(Ok(()));
                }
                Event::State(changed)
            }
            Event::Down(down) => {
                match (down.retry_ms, self.ready.take()) {
                    // Whoever waits for the first connection is told at once.
                    (_, Some(ready)) => {
                        let _ = ready.send(Err(down));
                        self.over = true;
                    }
                    (Some(pause), None) => {
                        self.dial_at = Some(Instant::now() + std::time::Duration::from_millis(pause));
                    }
                    (None, None) => self.over = true,
                }
                Event::Down(down)
            }
            other => other,
        };
        // An app that falls behind loses the newest.
        let _ = self.events.try_send(event);
    }

    fn act(&mut self, execution: Execution, handler: &super::action::Handler) {
        let (invocation, due) = (execution.invocation_id.clone(), self.clock.instant(execution.by));
        let acting = handler(execution);
        self.beside.spawn(async move {
            let answer = tokio::time::timeout_at(due, acting).await;
            let answer = answer.unwrap_or_else(|_| Answer::failed("it took too long", true));
            Report::Acted { invocation, answer }
        });
    }
}

/// What comes next, if there is a connection at all.
async fn next(socket: &mut Option<Socket>) -> Incoming {
    match socket {
        Some(socket) => socket.next().await,
        None => std::future::pending().await,
    }
}

const NORMAL: u16 = 1000;
/// The session is not there any more.
const GONE: u16 = 4404;
