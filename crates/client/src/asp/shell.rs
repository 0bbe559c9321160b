//! Who waits for what: requests and their readers, answers, pings, tools.

use std::collections::BTreeMap;
use std::time::Duration;

use switchboard_asp::client::{AspClient, CommandError, Ending, Event};
use switchboard_asp::error::Code;
use switchboard_asp::message::{Call, CallFailure, ErrorBody, Features, Invoke, Record, RecordBody, Secret};
use switchboard_asp::value::Value;
use switchboard_core::{Pii, Timestamp};
use tokio::sync::{mpsc, oneshot};

use super::error::{Cause, ClientError, RequestError};
use super::event::{ConnectionEvent, Renewed, RequestEvent, Snapshot};
use super::request::{Delivery, Interrupter, Request};
use super::tool::{Handler, ToolCall, ToolFailure, run};
use crate::driver;

/// Who waits for what.
pub(super) struct Shell {
    pub(super) handler: Option<Handler>,
    max_buffered: u64,
    requests: BTreeMap<u16, Slot>,
    last_key: u64,
    answers: BTreeMap<u16, oneshot::Sender<Result<(), ClientError>>>,
    pings: BTreeMap<String, Probe>,
    last_ping: u64,
    renewing: Option<(Secret, oneshot::Sender<Result<Renewed, ClientError>>)>,
}

pub(super) type Work = driver::Work<Shell>;

impl Shell {
    pub(super) fn new(handler: Option<Handler>, max_buffered: u64) -> Self {
        Self {
            handler,
            max_buffered,
            requests: BTreeMap::new(),
            last_key: 0,
            answers: BTreeMap::new(),
            pings: BTreeMap::new(),
            last_ping: 0,
            renewing: None,
        }
    }

    pub(super) fn invoke(&mut self, invoke: Invoke, work: &mut Work) -> Result<Request, ClientError> {
        let now = work.now();
        let id = work.machine.invoke(invoke, now)?;
        let teller = work.teller().ok_or(ClientError::Closed)?;
        self.last_key += 1;
        let key = self.last_key;
        let (events, receiver) = mpsc::unbounded_channel();
        self.requests.insert(id, Slot { key, events, buffered: 0 });
        Ok(Request::new(Interrupter::new(id, key, teller), receiver))
    }

    /// The answer was sent under this id, or it was not.
    pub(super) fn answered(
        &mut self,
        sent: Result<u16, CommandError>,
        reply: oneshot::Sender<Result<(), ClientError>>,
    ) {
        match sent {
            Ok(id) => drop(self.answers.insert(id, reply)),
            Err(error) => drop(reply.send(Err(error.into()))),
        }
    }

    pub(super) fn ping(&mut self, work: &mut Work, reply: oneshot::Sender<Result<Duration, ClientError>>) {
        self.last_ping += 1;
        let nonce = self.last_ping.to_string();
        match work.machine.ping(&nonce) {
            Ok(()) => drop(self.pings.insert(nonce, Probe { sent: work.now(), reply })),
            Err(error) => drop(reply.send(Err(error.into()))),
        }
    }

    pub(super) fn renew(
        &mut self,
        token: Secret,
        work: &mut Work,
        reply: oneshot::Sender<Result<Renewed, ClientError>>,
    ) {
        match work.machine.authenticate(token.clone()) {
            Ok(()) => self.renewing = Some((token, reply)),
            Err(_) => {
                work.target.token = Some(Pii(token.expose().to_owned()));
                let _ = reply.send(Ok(Renewed::NextConnection));
            }
        }
    }

    /// Output was read.
    pub(super) fn consumed(&mut self, id: u16, key: u64, bytes: u64, work: &mut Work) {
        if let Some(slot) = self.requests.get_mut(&id).filter(|slot| slot.key == key) {
            slot.buffered = slot.buffered.saturating_sub(bytes);
            work.machine.consumed(id, bytes);
        }
    }

    pub(super) fn interrupt(&self, id: u16, key: u64, work: &mut Work) {
        if self.is_open(id, key) {
            stop(id, work);
            work.machine.interrupt(id, None);
        }
    }

    /// Nobody reads a request any more.
    pub(super) fn dropped(&mut self, id: u16, key: u64, work: &mut Work) {
        if self.is_open(id, key) {
            self.abandon(id, work);
        }
    }

    /// Whether this is still the same request.
    fn is_open(&self, id: u16, key: u64) -> bool {
        self.requests.get(&id).is_some_and(|slot| slot.key == key)
    }

    fn up(&self, cid: Option<String>, features: Features, work: &Work) {
        work.snapshot.send_modify(|snapshot| {
            snapshot.connected = true;
            snapshot.cid = cid;
            snapshot.features = features;
        });
    }

    fn down(&mut self, work: &Work) {
        work.snapshot.send_modify(|snapshot| snapshot.connected = false);
        for (_, probe) in std::mem::take(&mut self.pings) {
            let _ = probe.reply.send(Err(ClientError::Disconnected));
        }
        if let Some((_, reply)) = self.renewing.take() {
            let _ = reply.send(Err(ClientError::Disconnected));
        }
    }

    fn refuse_renewal(&mut self, error: &ErrorBody) {
        let about_auth =
            matches!(error.known(), Some(Code::AuthInvalid | Code::AuthExpired | Code::Forbidden));
        if let Some((_, reply)) = self.renewing.take_if(|_| about_auth) {
            let _ = reply.send(Err(ClientError::Server(error.clone())));
        }
    }

    fn record(&mut self, id: u16, record: Record, credit: u32, work: &mut Work) {
        if let RecordBody::Call(call) = &record.body {
            self.start(id, call, work);
        }
        match RequestEvent::from_record(record) {
            Some(event) if self.requests.contains_key(&id) => self.deliver(id, Ok(event), credit, work),
            Some(_) | None => work.machine.consumed(id, u64::from(credit)),
        }
    }

    /// Begins a call; answers it at once if nobody executes it.
    fn start(&self, id: u16, call: &Call, work: &mut Work) {
        let name = (id, call.call_id.clone());
        let refused = match &self.handler {
            Some(_) if work.tasks.len() >= MAX_CALLS => {
                ToolFailure::new("BUSY", "this client executes too many tools already")
            }
            Some(handler) => return work.tasks.start(name, run(handler.clone(), ToolCall::new(id, call))),
            None => ToolFailure::new("TOOL_NOT_FOUND", "this client executes no tools"),
        };
        call_done(&name, Err(refused.into()), work);
    }

    fn deliver(&mut self, id: u16, event: Result<RequestEvent, RequestError>, credit: u32, work: &mut Work) {
        let Some(slot) = self.requests.get_mut(&id) else { return };
        slot.buffered = slot.buffered.saturating_add(u64::from(credit));
        let slow = slot.buffered > self.max_buffered;
        let event = if slow { Err(RequestError::SlowConsumer) } else { event };
        // If nobody listens, the request is being dropped.
        let _ = slot.events.send(Delivery { event, credit });
        if slow {
            self.abandon(id, work);
        }
    }

    /// Nobody wants the rest of a request.
    fn abandon(&mut self, id: u16, work: &mut Work) {
        self.requests.remove(&id);
        stop(id, work);
        work.machine.interrupt(id, None);
    }

    fn ended(&mut self, id: u16, ending: Ending, work: &mut Work) {
        stop(id, work);
        if let Some(reply) = self.answers.remove(&id) {
            let _ = reply.send(match ending {
                Ending::End(_) => Ok(()),
                Ending::Error(error) => Err(ClientError::Server(error)),
                Ending::Lost(_) => Err(ClientError::Disconnected),
            });
            return;
        }
        let event = match ending {
            Ending::End(end) => Ok(RequestEvent::End(end)),
            Ending::Error(error) => Err(RequestError::Server(error)),
            Ending::Lost(loss) => Err(RequestError::Lost(loss)),
        };
        if let Some(slot) = self.requests.remove(&id) {
            let _ = slot.events.send(Delivery { event, credit: 0 });
        }
    }
}

impl driver::Shell for Shell {
    type Machine = AspClient;
    type Snapshot = Snapshot;
    type Notice = ConnectionEvent;
    type Update = ();
    type Task = (u16, String);
    type Done = Result<Option<Value>, CallFailure>;

    fn event(&mut self, event: Event, work: &mut Work) {
        match event {
            Event::Accepted { cid, features, resumed, lost } => {
                self.up(cid.clone(), features, work);
                work.publish(&match resumed {
                    true => ConnectionEvent::Resumed { lost },
                    false => ConnectionEvent::Connected { cid, features },
                });
            }
            Event::Bare => {
                self.up(None, Features::BARE, work);
                work.publish(&ConnectionEvent::Connected { cid: None, features: Features::BARE });
            }
            Event::Record { id, record, credit } => self.record(id, record, credit, work),
            Event::Restarted { id } => {
                stop(id, work);
                self.deliver(id, Ok(RequestEvent::Restarted), 0, work);
            }
            Event::Ended { id, ending } => self.ended(id, ending, work),
            Event::Push(record) => {
                if let Some(event) = RequestEvent::from_record(record) {
                    work.publish(&ConnectionEvent::Push(event));
                }
            }
            Event::ToolsChanged => {
                let tools = work.machine.tools().cloned().collect();
                work.snapshot.send_modify(|snapshot| snapshot.tools = tools);
                work.publish(&ConnectionEvent::ToolsChanged);
            }
            Event::AuthExpiring(_) => work.publish(&ConnectionEvent::AuthExpiring),
            Event::Authenticated { exp } => {
                if let Some((token, reply)) = self.renewing.take() {
                    work.target.token = Some(Pii(token.expose().to_owned()));
                    let _ = reply.send(Ok(Renewed::Live { expires: exp }));
                }
            }
            Event::Pong { nonce } => {
                if let Some(probe) = nonce.and_then(|nonce| self.pings.remove(&nonce)) {
                    let _ = probe.reply.send(Ok(work.now().since(probe.sent)));
                }
            }
            Event::GoAway { reason, retry_in } => {
                work.publish(&ConnectionEvent::GoAway { reason, retry_in });
            }
            Event::Error(error) => {
                self.refuse_renewal(&error);
                work.publish(&ConnectionEvent::Error(error));
            }
            Event::Down(_) => self.down(work),
        }
    }

    fn done(&mut self, name: (u16, String), result: Self::Done, work: &mut Work) {
        call_done(&name, result, work);
    }

    fn lost(cause: Cause, retry_in: Option<Duration>) -> Option<ConnectionEvent> {
        Some(match retry_in {
            Some(retry_in) => ConnectionEvent::Disconnected { cause, retry_in },
            None => ConnectionEvent::Closed { cause },
        })
    }
}

/// The calls of a request are not wanted any more.
fn stop(id: u16, work: &mut Work) {
    work.tasks.stop(|(of, _)| *of == id);
}

fn call_done((id, call): &(u16, String), result: Result<Option<Value>, CallFailure>, work: &mut Work) {
    let now = work.now();
    match work.machine.answer_call(*id, call, result, now) {
        Ok(_) => {}
        // Too late: the request is over or interrupted.
        Err(CommandError::NotOpen | CommandError::Off) => {}
        Err(error) => tracing::warn!(%error, "the result of a tool could not be sent"),
    }
}

/// A request and its reader.
struct Slot {
    key: u64,
    events: mpsc::UnboundedSender<Delivery>,
    /// Credit of what was delivered and not read.
    buffered: u64,
}

struct Probe {
    sent: Timestamp,
    reply: oneshot::Sender<Result<Duration, ClientError>>,
}

const MAX_CALLS: usize = 256;
