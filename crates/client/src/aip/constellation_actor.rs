//! The task behind a constellation: it owns the link, and knows who waits for what.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use switchboard_aip::client::{Constellation, ConstellationConfig, ConstellationEvent, DeviceState, NewTask};
use tokio::sync::{mpsc, oneshot, watch};

use super::error::{ClientError, ConnectError};
use super::event::Event;
use super::link::{Control, Link, seed};
use super::options::{Options, OptionsError};
use super::task::{Task, Tasks};

/// What a handle asks for, with a place for the answer.
pub(super) enum Command {
    Connect { reply: oneshot::Sender<Result<(), ConnectError>> },
    Run { task: NewTask, reply: oneshot::Sender<Result<Task, ClientError>> },
    Info { reply: oneshot::Sender<Info> },
}

/// The task.
pub(super) struct Actor {
    link: Link<Constellation>,
    commands: mpsc::Receiver<Command>,
    control: mpsc::UnboundedReceiver<Control>,
    tasks: Tasks,
    questions: BTreeMap<String, oneshot::Sender<Info>>,
    state: watch::Sender<DeviceState>,
}

impl Actor {
    pub(super) fn new(
        options: Options,
        config: ConstellationConfig,
        commands: mpsc::Receiver<Command>,
        handles: mpsc::WeakUnboundedSender<Control>,
        control: mpsc::UnboundedReceiver<Control>,
    ) -> Result<(Self, watch::Receiver<DeviceState>), OptionsError> {
        let (state, watched) = watch::channel(DeviceState::Disconnected);
        let actor = Self {
            link: Link::new(Constellation::new(config, seed()), options)?,
            commands,
            control,
            tasks: Tasks::new(handles),
            questions: BTreeMap::new(),
            state,
        };
        Ok((actor, watched))
    }

    /// Until the constellation is closed or nobody holds it any more.
    pub(super) async fn run(mut self) {
        let closed = self.serve().await;
        self.link.machine.disconnect();
        self.carry_out();
        self.link.close().await;
        if let Some(closed) = closed {
            let _ = closed.send(());
        }
    }

    /// Answers who wants to know when everything is closed.
    async fn serve(&mut self) -> Option<oneshot::Sender<()>> {
        let mut commands_open = true;
        loop {
            self.carry_out();
            let room = !self.link.is_full();
            tokio::select! {
                // Handles first: a subscriber is in place before what it is for.
                biased;
                control = self.control.recv() => match control {
                    Some(Control::Subscribe(subscriber)) => self.link.subscribe(subscriber),
                    Some(Control::Cancel { session_id, reason }) => {
                        let now = self.link.now();
                        // A task that is not there has ended.
                        let _ = self.link.machine.cancel(&session_id, &reason, now);
                    }
                    Some(Control::Close(reply)) => return Some(reply),
                    None => return None,
                },
                command = self.commands.recv(), if commands_open && room => match command {
                    Some(command) => self.command(command),
                    None => commands_open = false,
                },
                () = self.link.step() => {}
            }
        }
    }

    fn carry_out(&mut self) {
        while let Some(event) = self.link.carry_out() {
            self.event(event);
        }
    }

    fn command(&mut self, command: Command) {
        let now = self.link.now();
        match command {
            Command::Connect { reply } => self.link.connect(reply),
            Command::Run { task, reply } => {
                let submitted = self.link.machine.submit(task, now);
                // If nobody waits for it any more, dropping it here cancels it.
                let _ = reply.send(submitted.map_err(Into::into).and_then(|id| self.tasks.open(id)));
            }
            Command::Info { reply } => match self.link.machine.request_info(now) {
                Ok(question) => {
                    self.questions.insert(question, reply);
                }
                Err(error) => {
                    let _ = reply.send(Err(error.into()));
                }
            },
        }
    }

    fn event(&mut self, event: ConstellationEvent) {
        match event {
            ConstellationEvent::State(state) => {
                self.state.send_replace(state);
                if state == DeviceState::Connected {
                    self.link.up();
                }
            }
            ConstellationEvent::TaskAccepted { session_id } => {
                self.tasks.accepted(&session_id);
            }
            ConstellationEvent::TaskEnded { session_id, ending } => {
                self.tasks.ended(&session_id, || ending);
            }
            ConstellationEvent::Info { request_id, info } => {
                if let Some(reply) = self.questions.remove(&request_id) {
                    let _ = reply.send(info.map_err(Into::into));
                }
            }
            ConstellationEvent::Trouble(trouble) => self.link.publish(&Event::Trouble(trouble)),
            ConstellationEvent::Down { cause, again } => self.link.down(cause, again),
        }
    }
}

/// What a device is like, or why that is not known.
type Info = Result<Map<String, Value>, ClientError>;
