//! VIP: an app whose user types and reads.

use async_trait::async_trait;
use serde_json::json;
use switchboard_client::vip::{Answer, Connect, Event, Events, ResponseStatus, Session, State};

use crate::side::{Guise, How, Place, Side, Step};
use crate::world::Cable;

struct Vip {
    cable: Cable,
    session: Session,
    events: Events,
    /// Whether words of the response that is being given were told.
    worded: bool,
    /// The end of a response whose words were told just now.
    end: Option<How>,
}

pub(crate) async fn open(cable: Cable, guise: &Guise) -> Result<(Box<dyn Side>, Place), String> {
    let (tool, by) = (guise.tool.as_str(), guise.name.clone());
    let screen = json!({
        "route": {"id": "home"}, "narration": "A house.",
        "actions": {tool: {"type": "button", "description": "Says who presses it.", "element_id": "it"}},
        "visibility": [tool],
    });
    let options = Connect::new(cable.url()).app("house").development().silent().screen(screen).action(
        tool,
        move |_| {
            let by = by.clone();
            async move { Answer::with(json!({ "by": by })) }
        },
    );
    let (session, events) = Session::connect(options).await.map_err(|error| error.to_string())?;
    let place = Place { id: session.id().to_owned(), name: None };
    Ok((Box::new(Vip { cable, session, events, worded: false, end: None }), place))
}

#[async_trait]
impl Side for Vip {
    fn cable(&self) -> &Cable {
        &self.cable
    }

    async fn say(&mut self, text: &str) -> Result<(), String> {
        self.session.until(State::Idle).await.map_err(|error| error.to_string())?;
        self.session.say(text).await.map_err(|error| error.to_string())
    }

    async fn follow(&mut self) -> Result<(), String> {
        Ok(())
    }

    async fn stop(&mut self) -> Result<(), String> {
        self.session.quiet().await.map_err(|error| error.to_string())
    }

    async fn next(&mut self) -> Step {
        if let Some(end) = self.end.take() {
            return Step::Over(end);
        }
        match self.events.next().await {
            Some(Event::Words(words)) => {
                self.worded = true;
                Step::Words(words.text)
            }
            Some(Event::Done(done)) => {
                let end = match done.status {
                    ResponseStatus::Complete => How::Done,
                    ResponseStatus::None => How::Failed("nothing was said".to_owned()),
                    ResponseStatus::Incomplete => How::Stopped,
                    ResponseStatus::Failed => How::Failed("the response failed".to_owned()),
                };
                // After a cut the words come with the end: pieces are not told again.
                match done.text.filter(|_| !std::mem::take(&mut self.worded)) {
                    Some(text) => {
                        self.end = Some(end);
                        Step::Words(text)
                    }
                    None => Step::Over(end),
                }
            }
            Some(_) => Step::Else,
            None => std::future::pending().await,
        }
    }

    async fn is_down(&mut self) {
        let _ = self.session.until(State::NotConnected).await;
    }

    async fn is_up(&mut self) {
        let _ = self.session.until(State::Idle).await;
    }
}
