//! The Agent Socket Protocol: requests of its own, and requests that watch those of others.

use std::time::Duration;

use async_trait::async_trait;
use serde_json::json;
use switchboard_client::asp::{
    Client, Connect, Feature, Features, Finish, Invoke, InvokeBody, Request, RequestError, RequestEvent,
    ToolFailure, tool,
};
use switchboard_core::{Principal, SessionId};

use crate::side::{Guise, How, Place, Side, Step};
use crate::world::Cable;

struct Asp {
    cable: Cable,
    client: Client,
    session: String,
    request: Option<Request>,
    /// The first thing that a watched request has told.
    first: Option<Step>,
}

/// Opens a session by a name, which it is not before something was said there.
pub(crate) async fn open(cable: Cable, guise: &Guise, keyed: bool) -> Result<(Box<dyn Side>, Place), String> {
    let name = format!("sess_{}", guise.name);
    let mut side = connect(cable, guise, &name).await?;
    side.say("say ready").await?;
    while !matches!(side.next().await, Step::Over(_)) {}
    let place = named(name, keyed);
    Ok((Box::new(side), place))
}

/// The session that a name of the owner stands for.
pub(crate) fn named(name: String, keyed: bool) -> Place {
    let owner = Principal::new(if keyed { "ann" } else { "dev" });
    Place { id: SessionId::named(&owner, &name).to_string(), name: Some(name) }
}

pub(crate) async fn join(cable: Cable, guise: &Guise, place: &Place) -> Result<Box<dyn Side>, String> {
    Ok(Box::new(connect(cable, guise, &place.id).await?))
}

async fn connect(cable: Cable, guise: &Guise, session: &str) -> Result<Asp, String> {
    let (by, own) = (guise.name.clone(), guise.tool.clone());
    let offered = tool(&guise.tool, "Says who runs it.", json!({ "type": "object" }));
    let mut options = Connect::new(cable.url())
        .features(Features::STANDARD.with(Feature::Watch))
        .tool(offered.map_err(|error| format!("{error:?}"))?)
        .on_call(move |call| {
            let answer = if call.name == own {
                Ok(json!({ "by": by }))
            } else {
                Err(ToolFailure::new("TOOL_NOT_FOUND", "this client has no such tool"))
            };
            async move { answer }
        });
    if let Some(token) = guise.token {
        options = options.token(token);
    }
    let client = Client::connect(options).await.map_err(|error| error.to_string())?;
    Ok(Asp { cable, client, session: session.to_owned(), request: None, first: None })
}

impl Asp {
    async fn invoke(&mut self, mut invoke: Invoke) -> Result<(), String> {
        invoke.session = Some(self.session.clone());
        invoke.want = Some(["text", "reason", "tool", "data", "usage"].map(str::to_owned).to_vec());
        self.request = Some(self.client.invoke(invoke).await.map_err(|error| error.to_string())?);
        self.first = None;
        Ok(())
    }
}

fn step(event: Result<RequestEvent, RequestError>) -> Step {
    match event {
        Ok(RequestEvent::Text(text)) => Step::Words(text),
        Ok(RequestEvent::Restarted) => Step::Instead(String::new()),
        Ok(RequestEvent::End(end)) if end.finish == Finish::Interrupted => Step::Over(How::Stopped),
        Ok(RequestEvent::End(_)) => Step::Over(How::Done),
        Ok(_) => Step::Else,
        Err(RequestError::Lost(_)) => Step::Lost,
        Err(error) => Step::Over(How::Failed(error.to_string())),
    }
}

#[async_trait]
impl Side for Asp {
    fn cable(&self) -> &Cable {
        &self.cable
    }

    async fn say(&mut self, text: &str) -> Result<(), String> {
        self.invoke(Invoke::chat(text)).await
    }

    async fn follow(&mut self) -> Result<(), String> {
        loop {
            self.invoke(Invoke::new(InvokeBody::Watch { turn: None })).await?;
            match self.next().await {
                // It may not have begun yet.
                Step::Over(How::Failed(why)) if why.contains("no such turn runs") => {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                Step::Over(How::Failed(why)) => return Err(why),
                first => {
                    self.first = Some(first);
                    return Ok(());
                }
            }
        }
    }

    async fn stop(&mut self) -> Result<(), String> {
        self.request.as_ref().ok_or("nothing is asked for")?.interrupt();
        Ok(())
    }

    async fn next(&mut self) -> Step {
        if let Some(first) = self.first.take() {
            return first;
        }
        match &mut self.request {
            Some(request) => match request.next().await {
                Some(event) => step(event),
                None => {
                    self.request = None;
                    Step::Else
                }
            },
            None => std::future::pending().await,
        }
    }

    async fn is_down(&mut self) {
        while self.client.snapshot().connected {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    async fn is_up(&mut self) {
        while !self.client.snapshot().connected {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}
