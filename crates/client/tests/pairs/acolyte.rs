//! Acolyte: chats of its own, and tasks of others that it is attached to.

use std::time::Duration;

use async_trait::async_trait;
use switchboard_client::acolyte::{
    Attach, Chat, ChatEvent, ChatRequest, Client, Connect, Ending, StreamEvent, TaskId, Update,
};
use switchboard_core::TurnId;

use crate::asp::named;
use crate::side::{Guise, How, Place, Side, Step};
use crate::world::Cable;

struct Acolyte {
    cable: Cable,
    client: Client,
    place: Place,
    chat: Option<Chat>,
}

/// Opens a session by a name, which it is not before something was said there.
pub(crate) async fn open(cable: Cable, guise: &Guise, keyed: bool) -> Result<(Box<dyn Side>, Place), String> {
    let place = named(format!("sess_{}", guise.name), keyed);
    let mut side = connect(cable, guise, &place).await?;
    side.say("say ready").await?;
    while !matches!(side.next().await, Step::Over(_)) {}
    Ok((Box::new(side), place))
}

pub(crate) async fn join(cable: Cable, guise: &Guise, place: &Place) -> Result<Box<dyn Side>, String> {
    Ok(Box::new(connect(cable, guise, place).await?))
}

/// Attached to a turn that is over.
pub(crate) async fn look_back(
    cable: Cable,
    guise: &Guise,
    place: &Place,
    turn: &TurnId,
) -> Result<Box<dyn Side>, String> {
    let mut side = connect(cable, guise, place).await?;
    let attach = Attach { task: Some(TaskId::of(turn)), session: Some(place.id.clone()), after: 0 };
    side.chat = Some(side.client.attach(attach).await.map_err(|error| error.to_string())?);
    Ok(Box::new(side))
}

async fn connect(cable: Cable, guise: &Guise, place: &Place) -> Result<Acolyte, String> {
    let mut options = Connect::new(cable.url());
    if let Some(token) = guise.token {
        options = options.token(token);
    }
    let client = Client::connect(options).await.map_err(|error| error.to_string())?;
    Ok(Acolyte { cable, client, place: place.clone(), chat: None })
}

#[async_trait]
impl Side for Acolyte {
    fn cable(&self) -> &Cable {
        &self.cable
    }

    async fn say(&mut self, text: &str) -> Result<(), String> {
        let request = ChatRequest {
            message: text.to_owned(),
            model: "prompter".to_owned(),
            session_id: self.place.name.clone(),
            ..ChatRequest::default()
        };
        let mut chat = self.client.chat(request).await.map_err(|error| error.to_string())?;
        // What was not accepted yet is lost with the connection.
        match chat.next().await {
            Some(Update::Event(ChatEvent::Accepted(_))) => {}
            other => return Err(format!("{other:?}")),
        }
        self.chat = Some(chat);
        Ok(())
    }

    async fn follow(&mut self) -> Result<(), String> {
        loop {
            let attach = Attach { task: None, session: Some(self.place.id.clone()), after: 0 };
            let mut chat = self.client.attach(attach).await.map_err(|error| error.to_string())?;
            match chat.next().await {
                // It may not have begun yet.
                Some(Update::Ended(Ending::Refused(_))) => {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                Some(Update::Ended(ending)) => return Err(format!("{ending:?}")),
                _ => {
                    self.chat = Some(chat);
                    return Ok(());
                }
            }
        }
    }

    async fn stop(&mut self) -> Result<(), String> {
        self.chat.as_ref().ok_or("nothing is asked for")?.abort();
        Ok(())
    }

    async fn next(&mut self) -> Step {
        let Some(chat) = &mut self.chat else { return std::future::pending().await };
        match chat.next().await {
            Some(Update::Event(ChatEvent::Stream(StreamEvent::TextDelta { text }))) => {
                Step::Words(text.into_owned())
            }
            Some(Update::Event(_) | Update::NotAborted(_)) => Step::Else,
            Some(Update::Ended(ending)) => Step::Over(match ending {
                Ending::Done(_) => How::Done,
                Ending::Aborted => How::Stopped,
                // Somebody else has stopped it.
                Ending::Failed { error, .. } if error.error_code.as_deref() == Some("E_ABORTED") => {
                    How::Stopped
                }
                other => How::Failed(format!("{other:?}")),
            }),
            None => {
                self.chat = None;
                Step::Else
            }
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
