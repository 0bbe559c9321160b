//! Alicia: a conversation in which everything is heard.

use std::time::Duration;

use async_trait::async_trait;
use serde_json::json;
use switchboard_client::alicia::{
    Client, Connect, Conversation, ConversationEvent, Id, Join, Since, Updates,
};

use crate::side::{Guise, How, Place, Side, Step};
use crate::world::Cable;

struct Alicia {
    cable: Cable,
    client: Client,
    conversation: Conversation,
    updates: Updates,
    /// The answer that is being given.
    open: Option<Id>,
    /// The end of an answer whose text was told just now.
    end: Option<How>,
}

pub(crate) async fn open(cable: Cable, guise: &Guise) -> Result<(Box<dyn Side>, Place), String> {
    let side = connect(cable, guise, Join::create()).await?;
    let place = Place { id: side.conversation.id().to_string(), name: None };
    Ok((Box::new(side), place))
}

pub(crate) async fn join(cable: Cable, guise: &Guise, place: &Place) -> Result<Box<dyn Side>, String> {
    let id = Id::new(place.id.as_str()).map_err(|error| format!("{error:?}"))?;
    Ok(Box::new(connect(cable, guise, Join::existing(id)).await?))
}

/// With everything that was said before.
pub(crate) async fn look_back(cable: Cable, guise: &Guise, place: &Place) -> Result<Box<dyn Side>, String> {
    let id = Id::new(place.id.as_str()).map_err(|error| format!("{error:?}"))?;
    Ok(Box::new(connect(cable, guise, Join::existing(id).since(Since::Message(0))).await?))
}

async fn connect(cable: Cable, guise: &Guise, join: Join) -> Result<Alicia, String> {
    let mut options = Connect::new(cable.url());
    if let Some(token) = guise.token {
        options = options.token(token);
    }
    let client = Client::connect(options).await.map_err(|error| error.to_string())?;
    let by = guise.name.clone();
    let join = join.tool(guise.tool.as_str(), move |_| {
        let by = by.clone();
        async move { Ok(json!({ "by": by })) }
    });
    let (conversation, updates) = client.conversation(join).await.map_err(|error| error.to_string())?;
    Ok(Alicia { cable, client, conversation, updates, open: None, end: None })
}

#[async_trait]
impl Side for Alicia {
    fn cable(&self) -> &Cable {
        &self.cable
    }

    async fn say(&mut self, text: &str) -> Result<(), String> {
        self.conversation.say(text).await.map(drop).map_err(|error| error.to_string())
    }

    async fn follow(&mut self) -> Result<(), String> {
        Ok(())
    }

    async fn stop(&mut self) -> Result<(), String> {
        self.conversation.stop().await.map_err(|error| error.to_string())
    }

    async fn next(&mut self) -> Step {
        if let Some(how) = self.end.take() {
            return Step::Over(how);
        }
        match self.updates.next().await {
            Some(ConversationEvent::Started { answer, .. }) => {
                self.open = Some(answer);
                Step::Else
            }
            Some(ConversationEvent::Piece { text, .. }) => Step::Words(text.0),
            // Of an answer whose beginning was missed all is told afterwards, and what was before it, too.
            Some(ConversationEvent::Answered(answer)) if answer.whole => {
                if self.open.as_ref().is_some_and(|open| *open != answer.id) {
                    return Step::Else;
                }
                self.end = Some(How::Done);
                let in_pieces = self.open.take().is_some() && !answer.replaces;
                if in_pieces { Step::Else } else { Step::Instead(answer.text.0) }
            }
            // This comes behind the final sentence.
            Some(ConversationEvent::Failed(error)) => Step::Rather(How::Failed(error.message.0)),
            Some(ConversationEvent::Closed(why)) => Step::Over(How::Failed(format!("closed: {why:?}"))),
            Some(_) => Step::Else,
            None => std::future::pending().await,
        }
    }

    async fn is_down(&mut self) {
        while self.client.snapshot().connected {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    async fn is_up(&mut self) {
        self.client.network_is_back();
        while !self.client.snapshot().connected {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}
