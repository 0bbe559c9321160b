//! The task behind a device: it owns the link and what is being run.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use switchboard_aip::client::{
    Device, DeviceConfig, DeviceEvent, Ending, FailureKind, Message, Middleware, Refused, Run, RunId,
};
use switchboard_aip::message::{ClientMessage, ClientMessageType, Outcome, TaskStatus};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{AbortHandle, JoinSet};

use super::error::{ClientError, ConnectError};
use super::event::Event;
use super::link::{Control, Link, seed};
use super::options::{Options, OptionsError};
use super::task::{Task, Tasks};
use super::tools::AnyTools;

/// What a handle asks for, with a place for the answer.
pub(super) enum Command {
    Connect { reply: oneshot::Sender<Result<(), ConnectError>> },
    Submit { request: String, task_name: Option<String>, reply: oneshot::Sender<Result<Task, ClientError>> },
    SetInfo { info: Map<String, Value>, reply: oneshot::Sender<()> },
}

/// The task.
pub(super) struct Actor {
    link: Link<Device>,
    tools: AnyTools,
    commands: mpsc::Receiver<Command>,
    control: mpsc::UnboundedReceiver<Control>,
    runs: JoinSet<(RunId, Outcome)>,
    running: BTreeMap<RunId, AbortHandle>,
    /// Tasks of the device's own that somebody waits for.
    tasks: Tasks,
}

impl Actor {
    pub(super) fn new(
        options: Options,
        config: DeviceConfig,
        tools: AnyTools,
        commands: mpsc::Receiver<Command>,
        handles: mpsc::WeakUnboundedSender<Control>,
        control: mpsc::UnboundedReceiver<Control>,
    ) -> Result<Self, OptionsError> {
        let mut machine = Device::new(config, seed());
        // Before all others, so that they see what is sent.
        machine.middleware().add(Facts(tools.clone()));
        Ok(Self {
            link: Link::new(machine, options)?,
            tools,
            commands,
            control,
            runs: JoinSet::new(),
            running: BTreeMap::new(),
            tasks: Tasks::new(handles),
        })
    }

    /// Until the device is closed or nobody holds it any more.
    pub(super) async fn run(mut self) {
        let closed = self.serve().await;
        self.runs.shutdown().await;
        self.link.close().await;
        if let Some(closed) = closed {
            let _ = closed.send(());
        }
    }

    /// Answers who wants to know when everything is closed.
    async fn serve(&mut self) -> Option<oneshot::Sender<()>> {
        let mut commands_open = true;
        loop {
            while let Some(event) = self.link.carry_out() {
                self.event(event);
            }
            let room = !self.link.is_full();
            tokio::select! {
                // Handles first: a subscriber is in place before what it is for.
                biased;
                control = self.control.recv() => match control {
                    Some(Control::Subscribe(subscriber)) => self.link.subscribe(subscriber),
                    Some(Control::Cancel { session_id, reason }) => {
                        let now = self.link.now();
                        // Without a connection the task is over.
                        let _ = self.link.machine.cancel(&session_id, &reason, now);
                    }
                    Some(Control::Close(reply)) => return Some(reply),
                    None => return None,
                },
                command = self.commands.recv(), if commands_open && room => match command {
                    Some(command) => self.command(command),
                    None => commands_open = false,
                },
                Some(ran) = self.runs.join_next() => {
                    // Those that were stopped have nothing to say.
                    if let Ok((id, outcome)) = ran {
                        self.running.remove(&id);
                        let now = self.link.now();
                        // If nobody waits for it any more, that is fine.
                        let _ = self.link.machine.finish(id, outcome, now);
                    }
                }
                () = self.link.step() => {}
            }
        }
    }

    fn command(&mut self, command: Command) {
        let now = self.link.now();
        match command {
            Command::Connect { reply } => self.link.connect(reply),
            Command::Submit { request, task_name, reply } => {
                let submitted = self.link.machine.submit(request, task_name, now);
                // If nobody waits for it any more, dropping it here cancels it.
                let _ = reply.send(submitted.map_err(Into::into).and_then(|id| self.tasks.open(id)));
            }
            Command::SetInfo { info, reply } => {
                self.link.machine.set_info(info, now);
                let _ = reply.send(());
            }
        }
    }

    fn event(&mut self, event: DeviceEvent) {
        match event {
            DeviceEvent::Registered => self.link.up(),
            DeviceEvent::Run(run) => self.start(run),
            DeviceEvent::Abandoned(id) => {
                if let Some(run) = self.running.remove(&id) {
                    run.abort();
                }
            }
            DeviceEvent::Assigned { session_id, task_name, request } => {
                self.link.publish(&Event::Assigned { session_id, task_name, request });
            }
            DeviceEvent::Accepted { session_id } => {
                self.tasks.accepted(&session_id);
            }
            DeviceEvent::TaskEnded { session_id, status, result, error } => {
                if let Some(session_id) = &session_id {
                    self.tasks.ended(session_id, || ending(status, result, error.clone()));
                }
                self.link.publish(&Event::TaskEnded { session_id, status, error });
            }
            DeviceEvent::Trouble(trouble) => self.link.publish(&Event::Trouble(trouble)),
            DeviceEvent::Down { cause, again } => self.link.down(cause, again),
        }
    }

    fn start(&mut self, run: Run) {
        let (id, tools) = (run.id, self.tools.clone());
        let task = self.runs.spawn(async move { (id, tools.run(run).await) });
        self.running.insert(id, task);
    }
}

fn ending(status: TaskStatus, result: Value, error: Option<String>) -> Ending {
    if status == TaskStatus::Completed {
        return Ending::Completed(result);
    }
    let error = error.unwrap_or_else(|| "the task failed".to_owned());
    Ending::Failed { kind: FailureKind::ExecutionError, error, result }
}

/// Puts what the device is like now into what is said of it.
#[derive(Debug)]
struct Facts(AnyTools);

impl Middleware for Facts {
    fn outgoing(&mut self, message: Message) -> Result<Message, Refused> {
        let Message::Client(message) = message else { return Ok(message) };
        let metadata = match message.kind {
            ClientMessageType::Register => {
                let mut metadata = message.metadata.clone().unwrap_or_default();
                self.0.facts().map(|facts| {
                    metadata.insert("system_info".to_owned(), facts.into());
                    metadata
                })
            }
            ClientMessageType::DeviceInfoResponse => self.0.facts(),
            ClientMessageType::Task
            | ClientMessageType::Heartbeat
            | ClientMessageType::CommandResults
            | ClientMessageType::Error
            | ClientMessageType::TaskEnd
            | ClientMessageType::DeviceInfoRequest => None,
        };
        Ok(match metadata {
            Some(metadata) => ClientMessage { metadata: Some(metadata), ..message }.into(),
            None => message.into(),
        })
    }
}
