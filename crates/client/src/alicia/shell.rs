//! Who waits for what: conversations and their readers, requests, tools.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use switchboard_alicia::Id;
use switchboard_alicia::client::{
    self as half, AliciaClient, CommandError, ConversationEvent, ConversationKey, Event, Outcome, RequestKey,
    ToolOutcome, ToolRun,
};
use switchboard_core::{Pii, Timestamp};
use tokio::sync::{mpsc, oneshot};

use super::conversation::{Guard, Join};
use super::error::{Cause, ClientError};
use super::event::{ConnectionEvent, Snapshot};
use super::tool::{Handler, ToolCall, run};
use super::updates::Updates;
use crate::driver;

/// Who waits for what.
#[derive(Default)]
pub(super) struct Shell {
    joining: BTreeMap<ConversationKey, (Arc<Guard>, Updates, oneshot::Sender<JoinReply>)>,
    readers: BTreeMap<ConversationKey, mpsc::Sender<ConversationEvent>>,
    requests: BTreeMap<RequestKey, oneshot::Sender<Result<Outcome, ClientError>>>,
    tools: BTreeMap<(ConversationKey, String), Handler>,
}

pub(super) type Work = driver::Work<Shell>;

/// Something that the half is asked for.
pub(super) type Ask = dyn FnOnce(&mut AliciaClient, Timestamp) -> Result<RequestKey, CommandError> + Send;

pub(super) type JoinReply = Result<(Id, Arc<Guard>, Updates), ClientError>;

impl Shell {
    pub(super) fn request(
        &mut self,
        ask: Box<Ask>,
        work: &mut Work,
        reply: oneshot::Sender<Result<Outcome, ClientError>>,
    ) {
        let now = work.now();
        match ask(&mut work.machine, now) {
            Ok(key) => drop(self.requests.insert(key, reply)),
            Err(error) => drop(reply.send(Err(error.into()))),
        }
    }

    pub(super) fn tool(
        &mut self,
        key: ConversationKey,
        name: String,
        handler: Handler,
        work: &mut Work,
    ) -> Result<(), ClientError> {
        let now = work.now();
        work.machine.declare_tool(key, &name, now)?;
        self.tools.insert((key, name), handler);
        Ok(())
    }

    pub(super) fn join(&mut self, join: Join, work: &mut Work, reply: oneshot::Sender<JoinReply>) {
        let Join { conversation, since, tools } = join;
        let names = tools.iter().map(|(name, _)| name.clone()).collect();
        let now = work.now();
        let joined = work.machine.join(half::Join { conversation, since, tools: names }, now);
        let (key, teller) = match (joined, work.teller()) {
            (Ok(key), Some(teller)) => (key, teller),
            (Ok(_), None) => return drop(reply.send(Err(ClientError::Closed))),
            (Err(error), _) => return drop(reply.send(Err(error.into()))),
        };
        self.tools.extend(tools.into_iter().map(|(name, handler)| ((key, name), handler)));
        let (sender, receiver) = mpsc::channel(BUFFER);
        self.readers.insert(key, sender);
        let guard = Arc::new(Guard::new(key, teller));
        let updates = Updates::new(receiver, guard.clone());
        self.joining.insert(key, (guard, updates, reply));
    }

    fn happened(&mut self, key: ConversationKey, event: ConversationEvent, work: &mut Work) {
        #[expect(clippy::wildcard_enum_match_arm, reason = "the rest is for the reader alone")]
        match &event {
            ConversationEvent::Joined(joined) => {
                if let Some((guard, updates, reply)) = self.joining.remove(&key) {
                    // If nobody waits for it any more, dropping it here leaves it.
                    let _ = reply.send(Ok((joined.id.clone(), guard, updates)));
                }
            }
            ConversationEvent::RunTool(run) => self.start(key, run.clone(), work),
            ConversationEvent::StopTool(request) => work.tasks.stop(|(of, id)| *of == key && id == request),
            ConversationEvent::Closed(why) => {
                self.tools.retain(|(of, _), _| *of != key);
                if let Some((_, _, reply)) = self.joining.remove(&key) {
                    let _ = reply.send(Err(ClientError::Ended(why.clone())));
                }
                self.deliver(key, event, work);
                self.readers.remove(&key);
                return;
            }
            _ => {}
        }
        self.deliver(key, event, work);
    }

    fn start(&self, key: ConversationKey, tool: ToolRun, work: &mut Work) {
        let handler = self.tools.get(&(key, tool.name.clone())).cloned();
        let name = (key, tool.id.clone());
        let call = ToolCall::new(tool);
        work.tasks.start(name, async move {
            match handler {
                Some(handler) => run(handler, call).await,
                None => ToolOutcome::Failed { message: Pii("nobody runs it".to_owned()), partial: None },
            }
        });
    }

    fn deliver(&self, key: ConversationKey, event: ConversationEvent, work: &mut Work) {
        if let Some(reader) = self.readers.get(&key) {
            work.deliver(reader, event);
        }
    }
}

impl driver::Shell for Shell {
    type Machine = AliciaClient;
    type Snapshot = Snapshot;
    type Notice = ConnectionEvent;
    type Update = ConversationEvent;
    type Task = (ConversationKey, Id);
    type Done = ToolOutcome;

    fn event(&mut self, event: Event, work: &mut Work) {
        match event {
            Event::Up => {
                work.snapshot.send_replace(Snapshot { connected: true });
                work.publish(&ConnectionEvent::Connected);
            }
            Event::Down(_) => drop(work.snapshot.send_replace(Snapshot { connected: false })),
            Event::Conversation(key, event) => self.happened(key, event, work),
            Event::Settled(key, outcome) => {
                if let Some(reply) = self.requests.remove(&key) {
                    let _ = reply.send(outcome.map_err(Into::into));
                }
            }
        }
    }

    fn done(
        &mut self,
        (conversation, request): (ConversationKey, Id),
        outcome: ToolOutcome,
        work: &mut Work,
    ) {
        let now = work.now();
        work.machine.tool_done(conversation, &request, outcome, now);
    }

    fn lost(cause: Cause, retry_in: Option<Duration>) -> Option<ConnectionEvent> {
        Some(ConnectionEvent::lost(cause, retry_in))
    }
}

/// Events that may wait to be read, per conversation.
const BUFFER: usize = 256;
