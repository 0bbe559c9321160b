//! A conversation over VIP, typed: a terminal is an app without microphone, loudspeaker and actions.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde_json::json;
use switchboard_client::vip::{ClientError, Event, Events, Question, ResponseStatus, Session, State};
use tokio::sync::mpsc;

use super::cause_words;
use super::said::{self, Answer, Ask, End, Finish, Link, Peer, Progress, Said, Trouble};
use crate::clock;
use crate::failure::Failure;
use crate::remote::Remote;

/// A server that speaks VIP.
pub(super) struct VipPeer {
    session: Session,
    links: mpsc::Receiver<Link>,
    /// Where the answer that is under way is told.
    answer: Current,
    timeout: Option<u32>,
}

type Current = Arc<Mutex<Option<mpsc::UnboundedSender<Said>>>>;

/// Begins a session.
pub(super) async fn meet(remote: &Remote, timeout: Option<u32>) -> Result<VipPeer, Failure> {
    let connected = Session::connect(remote.vip()?.screen(screen())).await;
    let (session, events) = connected.map_err(|error| remote.disconnected(&error))?;
    let (links, told) = mpsc::channel(LINKS);
    let answer = Current::default();
    tokio::spawn(follow(events, links, Arc::clone(&answer)));
    Ok(VipPeer { session, links: told, answer, timeout })
}

/// What is on the screen of a terminal.
fn screen() -> serde_json::Value {
    json!({
        "route": {"id": "terminal", "title": "A terminal"},
        "narration": "A terminal, in which the user types and reads. There is nothing to press.",
        "actions": {}, "visibility": [],
    })
}

/// Tells what happens to whom it concerns.
async fn follow(mut events: Events, links: mpsc::Sender<Link>, answer: Current) {
    let mut ending = Finish::Complete;
    let mut trouble = None;
    let tell = |said: Said, last: bool| {
        let mut current = answer.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(current) = current.as_ref() {
            // Whoever asked may have gone.
            let _ = current.send(said);
        }
        if last {
            current.take();
        }
    };
    let mut left = false;
    while let Some(event) = events.next().await {
        #[expect(clippy::wildcard_enum_match_arm, reason = "the rest means nothing to who types")]
        match event {
            Event::Words(words) => tell(Said::Text(words.text), false),
            Event::Ask(question) => tell(Said::Ask(asked(question)), false),
            Event::Done(done) => {
                ending = match done.status {
                    ResponseStatus::Complete | ResponseStatus::None => Finish::Complete,
                    ResponseStatus::Incomplete | ResponseStatus::Failed => Finish::Interrupted,
                };
            }
            Event::Problem(error) => {
                let members = json!({"code": error.code, "text": error.message});
                trouble = Some(Trouble { words: error.message, members, retry: error.retryable });
            }
            Event::State(changed) => match changed.state {
                State::AiThinking => tell(Said::Progress(running("thinking")), false),
                State::InvokeAction => tell(Said::Progress(running("waiting for the app")), false),
                State::Idle if changed.previous == State::Connecting => {}
                State::Idle => {
                    let ended = std::mem::replace(&mut ending, Finish::Complete);
                    let said = trouble.take().map_or(Said::End(End::new(ended)), Said::Failed);
                    tell(said, true);
                }
                State::NotConnected | State::Connecting | State::UserSpeaking | State::AiSpeaking => {}
            },
            Event::Connected(connected) if connected.resumed => {
                let _ = links.send(Link::Resumed { lost: 0 }).await;
            }
            Event::Terminated(terminated) => {
                left = true;
                let why = format!("the session has ended ({})", terminated.reason);
                let _ = links.send(Link::Over { why }).await;
            }
            Event::Down(down) => {
                let words = "the connection was lost".to_owned();
                let members = json!({"text": words});
                tell(Said::Failed(Trouble { words, members, retry: true }), true);
                let why = cause_words(&down.cause);
                let link = match down.retry_at {
                    Some(at) => Link::Lost { why, retry_in: at.since(clock::now()) },
                    None => Link::Over { why },
                };
                if !left {
                    let _ = links.send(link).await;
                }
            }
            _ => {}
        }
    }
}

fn running(what: &str) -> Progress {
    Progress { state: said::State::Running, position: None, text: Some(what.to_owned()) }
}

fn asked(question: Question) -> Ask {
    let what = question.prompt.unwrap_or_else(|| format!("May {} be done?", question.action_id));
    Ask {
        id: question.invocation_id,
        text: format!("{what} {} [y/n]", question.parameters),
        schema: Some(json!({"type": "boolean"})),
    }
}

#[async_trait::async_trait]
impl Peer for VipPeer {
    async fn say(&mut self, text: String) -> Result<Box<dyn Answer>, Failure> {
        let (sender, told) = mpsc::unbounded_channel();
        self.answer.lock().unwrap_or_else(PoisonError::into_inner).replace(sender.clone());
        match self.session.say(text).await {
            Ok(()) => {}
            Err(ClientError::Command(error)) => {
                let words = error.to_string();
                let members = json!({"text": words});
                let _ = sender.send(Said::Failed(Trouble { words, members, retry: true }));
            }
            Err(error @ ClientError::Over) => {
                return Err(Failure::unreachable(format!("{error}; start `switchboard chat` again")));
            }
        }
        Ok(Box::new(VipAnswer { session: self.session.clone(), told }))
    }

    async fn event(&mut self) -> Option<Link> {
        self.links.recv().await
    }

    fn is_connected(&self) -> bool {
        self.session.state() != State::NotConnected
    }

    fn patience(&self) -> Option<Duration> {
        self.timeout.map(|seconds| Duration::from_secs(seconds.into()))
    }

    async fn leave(&self) {
        self.session.hang_up().await;
    }
}

struct VipAnswer {
    session: Session,
    told: mpsc::UnboundedReceiver<Said>,
}

#[async_trait::async_trait]
impl Answer for VipAnswer {
    async fn next(&mut self) -> Option<Said> {
        self.told.recv().await
    }

    fn stop(&self) {
        let session = self.session.clone();
        // What cannot be interrupted goes on to its end.
        tokio::spawn(async move { session.quiet().await });
    }

    fn reply(&self, ask: Ask, text: String) -> BoxFuture<'static, Result<(), String>> {
        let session = self.session.clone();
        let agrees = matches!(text.trim().to_ascii_lowercase().as_str(), "y" | "yes");
        async move { session.decide(ask.id, agrees).await.map_err(|error| error.to_string()) }.boxed()
    }
}

/// Reports on the connection that may wait.
const LINKS: usize = 64;
