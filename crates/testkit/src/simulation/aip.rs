//! A device that runs commands, and whoever gives it tasks, over AIP; both watched by somebody who compares.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use serde_json::Value;
use switchboard_aip::client::{
    Constellation, ConstellationConfig, ConstellationEvent, Device, DeviceConfig, DeviceEvent, Ending,
    NewTask, RunId, Strategy,
};
use switchboard_aip::message::{Outcome, ResultStatus};
use switchboard_core::model::TurnOutcome;
use switchboard_core::{ClientInput, ClientMachine as _, Frame, OpeningRequest, PrincipalId, Timestamp};

use super::guest::{Around, Heard, Said, Speaker};
use super::guests::seed;
use super::ledger::Ledger;
use super::random::Random;
use super::wire::marker;
use super::{Fault, Invariant, Tongue, shared_name, stories};

/// A device.
#[derive(Debug)]
pub(super) struct Worker {
    client: Device,
    /// Commands that are being run, until when, and whether they come out well.
    runs: Vec<(Timestamp, RunId, bool)>,
    /// Commands that were handed out, by their names.
    known: BTreeSet<String>,
}

/// Whoever gives tasks to the device.
#[derive(Debug)]
pub(super) struct Chief {
    principal: PrincipalId,
    client: Constellation,
    /// Tasks by session; a session may be used again before the end of the task before is told.
    tasks: BTreeMap<String, VecDeque<Task>>,
    wire: Wire,
}

#[derive(Debug)]
struct Task {
    /// What the simulation calls it.
    tag: String,
}

/// What passes over the transport, read a second time: how many ends a session may still have.
#[derive(Debug, Default)]
struct Wire(BTreeMap<String, u32>);

impl Worker {
    pub(super) fn new(name: &str, random: &mut Random) -> Self {
        let mut config = DeviceConfig::new(name, "linux");
        config.task_announce = random.chance(50);
        config.max_waiting = 4;
        config.times.heartbeat = Duration::from_secs(5);
        config.times.reconnect = reconnect();
        Self { client: Device::new(config, seed(random)), runs: Vec::new(), known: BTreeSet::new() }
    }

    fn told(&mut self, event: DeviceEvent, around: &mut Around<'_>) -> Result<(), Fault> {
        match event {
            DeviceEvent::Registered => around.note(format_args!("is registered")),
            DeviceEvent::Run(run) => {
                if let Some(name) = run.command.call_id
                    && !self.known.insert(name.clone())
                {
                    let detail = format!("the command {name} is to be run twice");
                    return Err(Fault::new(Invariant::OneExecution, detail));
                }
                let at = match around.random.below(6) {
                    0 => around.soon(800, 3_000),
                    1 => around.soon(20_000, 30_000),
                    _ => around.soon(0, 200),
                };
                self.runs.push((at, run.id, around.random.chance(80)));
            }
            DeviceEvent::Abandoned(id) => self.runs.retain(|(_, run, _)| *run != id),
            DeviceEvent::Down(down) => around.note(format_args!("is off: {}", down.cause)),
            DeviceEvent::Assigned { .. }
            | DeviceEvent::Accepted { .. }
            | DeviceEvent::TaskEnded { .. }
            | DeviceEvent::Trouble(_) => {}
        }
        Ok(())
    }
}

impl Speaker for Worker {
    fn tongue(&self) -> Tongue {
        Tongue::Aip
    }

    fn request(&self) -> OpeningRequest {
        socket()
    }

    fn act(&mut self, _tag: &str, around: &mut Around<'_>) {
        self.client.handle_input(ClientInput::Connect, around.now);
        if around.random.chance(3) {
            around.note(format_args!("leaves"));
            self.client.handle_input(ClientInput::Leave, around.now);
        }
    }

    fn hear(&mut self, heard: Heard, around: &mut Around<'_>) -> Result<(), Fault> {
        self.client.handle_input(heard.input(), around.now);
        Ok(())
    }

    fn poll(&mut self, around: &mut Around<'_>) -> Result<Said, Fault> {
        while let Some(place) = self.runs.iter().position(|(at, ..)| *at <= around.now) {
            let (_, id, well) = self.runs.swap_remove(place);
            let status = if well { ResultStatus::Success } else { ResultStatus::Failure };
            let outcome = Outcome { result: "found it".into(), ..Outcome::new(status) };
            let _ = self.client.finish(id, outcome, around.now);
        }
        loop {
            return Ok(match Said::of(self.client.poll_output()) {
                Err(event) => {
                    self.told(event, around)?;
                    continue;
                }
                Ok(Said::Idle { wake }) => {
                    let runs = self.runs.iter().map(|(at, ..)| *at);
                    Said::Idle { wake: wake.into_iter().chain(runs).min() }
                }
                Ok(said) => said,
            });
        }
    }

    fn come_back(&mut self, around: &mut Around<'_>) {
        self.client.handle_input(ClientInput::Connect, around.now);
    }

    fn is_idle(&self, _ledger: &Ledger) -> bool {
        true
    }

    fn check_rest(&self, _ledger: &Ledger) -> Result<(), Fault> {
        Ok(())
    }
}

impl Chief {
    pub(super) fn new(principal: PrincipalId, device: &str, random: &mut Random) -> Self {
        let mut config = ConstellationConfig::new(format!("chief of {device}"), device);
        config.ask_info = random.chance(50);
        config.max_waiting = 4;
        config.task = Duration::from_secs(15);
        config.times.heartbeat = Duration::from_secs(5);
        config.times.reconnect = reconnect();
        let client = Constellation::new(config, seed(random));
        Self { principal, client, tasks: BTreeMap::new(), wire: Wire::default() }
    }

    fn submit(&mut self, tag: &str, around: &mut Around<'_>) {
        let story = around.random.pick(stories::PLANS).copied().unwrap_or("plan");
        let mut task = NewTask::new(format!("{story} {} {tag}", marker(&self.principal)));
        task.session_id = around.random.chance(50).then(|| shared_name(around.random.below(2)));
        if let Ok(session) = self.client.submit(task, around.now) {
            around.note(format_args!("gives the task {story} {tag} in {session}"));
            self.tasks.entry(session).or_default().push_back(Task { tag: tag.to_owned() });
        }
    }

    fn told(&mut self, event: ConstellationEvent, around: &mut Around<'_>) -> Result<(), Fault> {
        match event {
            ConstellationEvent::TaskEnded { session_id, ending } => {
                around.note(format_args!("sees the end of {session_id}: {}", name(&ending)));
                let Some(task) = self.tasks.get_mut(&session_id).and_then(VecDeque::pop_front) else {
                    let detail = format!("the task {session_id} ended twice");
                    return Err(Fault::new(Invariant::OneTerminal, detail));
                };
                self.tasks.retain(|_, waiting| !waiting.is_empty());
                task.end(&ending, around.ledger)
            }
            ConstellationEvent::TaskAccepted { session_id } => {
                match self.tasks.get(&session_id).and_then(VecDeque::front) {
                    Some(task) if around.ledger.tagged(&task.tag).is_none() => {
                        let detail = format!("{} was accepted, and is not in the log", task.tag);
                        Err(Fault::new(Invariant::Durable, detail))
                    }
                    _ => Ok(()),
                }
            }
            ConstellationEvent::Down(down) => {
                around.note(format_args!("is off: {}", down.cause));
                Ok(())
            }
            ConstellationEvent::State(_)
            | ConstellationEvent::Info { .. }
            | ConstellationEvent::Trouble(_) => Ok(()),
        }
    }
}

impl Speaker for Chief {
    fn tongue(&self) -> Tongue {
        Tongue::Aip
    }

    fn request(&self) -> OpeningRequest {
        socket()
    }

    fn act(&mut self, tag: &str, around: &mut Around<'_>) {
        self.client.handle_input(ClientInput::Connect, around.now);
        match around.random.below(20) {
            0..14 => self.submit(tag, around),
            14..17 => {
                let sessions: Vec<String> = self.tasks.keys().cloned().collect();
                let Some(session) = around.random.pick(&sessions) else { return };
                around.note(format_args!("cancels {session}"));
                let _ = self.client.cancel(session, "enough", around.now);
            }
            17 => drop(self.client.request_info(around.now)),
            18 if around.random.chance(30) => {
                around.note(format_args!("leaves"));
                self.client.handle_input(ClientInput::Leave, around.now);
            }
            _ => {}
        }
    }

    fn hear(&mut self, heard: Heard, around: &mut Around<'_>) -> Result<(), Fault> {
        match &heard {
            Heard::Opened => self.wire = Wire::default(),
            Heard::Frame(Frame::Text(text)) => self.wire.received(text)?,
            _ => {}
        }
        self.client.handle_input(heard.input(), around.now);
        Ok(())
    }

    fn poll(&mut self, around: &mut Around<'_>) -> Result<Said, Fault> {
        loop {
            let said = match Said::of(self.client.poll_output()) {
                Ok(said) => said,
                Err(event) => {
                    self.told(event, around)?;
                    continue;
                }
            };
            if let Said::Send(Frame::Text(text)) = &said {
                self.wire.sent(text);
            }
            return Ok(said);
        }
    }

    fn come_back(&mut self, around: &mut Around<'_>) {
        self.client.handle_input(ClientInput::Connect, around.now);
    }

    fn is_idle(&self, _ledger: &Ledger) -> bool {
        self.tasks.is_empty()
    }

    fn check_rest(&self, ledger: &Ledger) -> Result<(), Fault> {
        let waiting = self.tasks.iter().find_map(|(session, tasks)| Some((session, tasks.front()?)));
        let Some((session, task)) = waiting else { return Ok(()) };
        let over = ledger.tagged(&task.tag).is_some_and(|turn| turn.end.is_some());
        let invariant = if over { Invariant::OneTerminal } else { Invariant::Rest };
        Err(Fault::new(invariant, format!("the task {session} never ends: {task:?}")))
    }
}

impl Task {
    fn end(&self, ending: &Ending, ledger: &Ledger) -> Result<(), Fault> {
        let Ending::Completed(result) = ending else { return Ok(()) };
        let turn = ledger.tagged(&self.tag).ok_or_else(|| {
            Fault::new(Invariant::Durable, format!("{} is completed, and is not in the log", self.tag))
        })?;
        let Some(end) = &turn.end else {
            let detail = format!("{} is completed, and goes on in the log", self.tag);
            return Err(Fault::new(Invariant::OneEnd, detail));
        };
        let same = match &end.output {
            Some(output) => **output == *result,
            None => result[0]["result"].as_str() == Some(&turn.text),
        };
        if same && matches!(end.outcome, TurnOutcome::Done(_)) {
            return Ok(());
        }
        let detail = format!("{} is completed with {result}, the log has {end:?}", self.tag);
        Err(Fault::new(Invariant::SameView, detail))
    }
}

impl Wire {
    fn sent(&mut self, text: &str) {
        let message: Value = serde_json::from_str(text).unwrap_or_default();
        if let (Some("task"), Some(session)) = (message["type"].as_str(), message["session_id"].as_str()) {
            *self.0.entry(session.to_owned()).or_default() += 1;
        }
    }

    fn received(&mut self, text: &str) -> Result<(), Fault> {
        let message: Value = serde_json::from_str(text).unwrap_or_default();
        let (Some("task_end"), Some(session)) = (message["type"].as_str(), message["session_id"].as_str())
        else {
            return Ok(());
        };
        match self.0.get_mut(session).filter(|ends| **ends > 0) {
            Some(ends) => {
                *ends -= 1;
                Ok(())
            }
            None => {
                let detail = format!("the task {session} is over, and ends again");
                Err(Fault::new(Invariant::OneTerminal, detail))
            }
        }
    }
}

fn socket() -> OpeningRequest {
    OpeningRequest { path: "/ws", target: "/ws".into(), websocket: true, ..OpeningRequest::default() }
}

/// As often as it takes.
fn reconnect() -> Strategy {
    let (initial, max) = (Duration::from_millis(100), Duration::from_secs(2));
    Strategy { max_tries: 1_000, initial, max, ..Strategy::default() }
}

fn name(ending: &Ending) -> &'static str {
    match ending {
        Ending::Completed(_) => "completed",
        Ending::Failed { kind, .. } => kind.as_str(),
    }
}
