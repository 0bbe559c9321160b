//! AIP: a device, and a constellation that has it do tasks.

use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use switchboard_client::aip::{
    Connect, Constellation, ConstellationConfig, Device, DeviceConfig, DeviceState, Ending, NewTask,
    Strategy, Task, TaskUpdate, ToolCall, ToolFailure, ToolInfo, Tools,
};

use crate::asp::named;
use crate::side::{Guise, How, Place, Side, Step};
use crate::world::Cable;

struct Aip {
    cable: Cable,
    constellation: Constellation,
    device: Device,
    session: String,
    task: Option<Task>,
    /// The end of a task whose result was told just now.
    end: Option<How>,
}

/// Opens a session by a name, which it is not before something was asked for there.
pub(crate) async fn open(cable: Cable, guise: &Guise, keyed: bool) -> Result<(Box<dyn Side>, Place), String> {
    let place = named(format!("sess_{}", guise.name), keyed);
    let name = place.name.clone().unwrap_or_default();
    let mut side = connect(cable, guise, name).await?;
    side.say("say ready").await?;
    while !matches!(side.next().await, Step::Over(_)) {}
    Ok((Box::new(side), place))
}

pub(crate) async fn join(cable: Cable, guise: &Guise, place: &Place) -> Result<Box<dyn Side>, String> {
    Ok(Box::new(connect(cable, guise, place.id.clone()).await?))
}

async fn connect(cable: Cable, guise: &Guise, session: String) -> Result<Aip, String> {
    let options = || {
        let options = Connect::new(cable.url());
        match guise.token {
            Some(token) => options.token(token),
            None => options,
        }
    };
    let name = format!("device-{}", guise.name);
    let tools = OneTool { name: guise.tool.clone(), by: guise.name.clone() };
    let mut config = DeviceConfig::new(&name, "linux");
    config.times.reconnect = at_once();
    let device = Device::connect(options(), config, tools).await.map_err(|error| error.to_string())?;
    let mut config = ConstellationConfig::new(format!("constellation-{}", guise.name), &name);
    config.times.reconnect = at_once();
    let constellation = Constellation::connect(options(), config).await.map_err(|error| error.to_string())?;
    Ok(Aip { cable, constellation, device, session, task: None, end: None })
}

/// Comes back as soon as it can.
fn at_once() -> Strategy {
    let (initial, max) = (Duration::from_millis(50), Duration::from_millis(200));
    Strategy { initial, max, max_tries: 1_000, ..Strategy::default() }
}

/// The one tool of the device.
struct OneTool {
    name: String,
    by: String,
}

impl Tools for OneTool {
    async fn run(&self, call: ToolCall) -> Result<Value, ToolFailure> {
        if call.name == self.name {
            Ok(json!({ "by": self.by }))
        } else {
            Err(ToolFailure::new("no such tool"))
        }
    }

    fn list(&self) -> Vec<ToolInfo> {
        vec![ToolInfo {
            tool_key: format!("action::{}", self.name),
            tool_name: self.name.clone(),
            title: None,
            namespace: "pairs".to_owned(),
            tool_type: "action".to_owned(),
            description: Some("Says who runs it.".to_owned()),
            input_schema: None,
            output_schema: None,
            meta: None,
            annotations: None,
        }]
    }
}

#[async_trait]
impl Side for Aip {
    fn cable(&self) -> &Cable {
        &self.cable
    }

    async fn say(&mut self, text: &str) -> Result<(), String> {
        let task = NewTask { session_id: Some(self.session.clone()), ..NewTask::new(text) };
        let mut task = self.constellation.run(task).await.map_err(|error| error.to_string())?;
        match task.next().await {
            Some(TaskUpdate::Accepted) => {}
            other => return Err(format!("{other:?}")),
        }
        self.task = Some(task);
        Ok(())
    }

    async fn follow(&mut self) -> Result<(), String> {
        Err("there is no message for it".to_owned())
    }

    async fn stop(&mut self) -> Result<(), String> {
        self.task.as_ref().ok_or("nothing is asked for")?.cancel("enough");
        Ok(())
    }

    async fn next(&mut self) -> Step {
        if let Some(how) = self.end.take() {
            return Step::Over(how);
        }
        let Some(task) = &mut self.task else { return std::future::pending().await };
        match task.next().await {
            Some(TaskUpdate::Ended(Ending::Completed(result))) => {
                self.end = Some(How::Done);
                Step::Words(result[0]["result"].as_str().unwrap_or_default().to_owned())
            }
            Some(TaskUpdate::Ended(Ending::Failed { error, .. })) => {
                let stopped = error.starts_with("cancelled");
                Step::Over(if stopped { How::Stopped } else { How::Failed(error) })
            }
            Some(TaskUpdate::Accepted) => Step::Else,
            None => {
                self.task = None;
                Step::Else
            }
        }
    }

    async fn is_down(&mut self) {
        let up = |state| matches!(state, DeviceState::Connected | DeviceState::Busy | DeviceState::Idle);
        while up(self.constellation.snapshot()) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    async fn is_up(&mut self) {
        let _ = self.device.online().await;
        let _ = self.constellation.online().await;
    }
}
