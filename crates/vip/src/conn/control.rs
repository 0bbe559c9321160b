//! Internal mode: a provider speaks with the client, and the server keeps the minutes (§12).

use serde_json::{Value, json};

use crate::errand::Errand;
use crate::error::{Code, Fault};
use crate::function;
use crate::matrix::{State, Trigger};
use crate::message::{
    ActionError, ClientEvent, FunctionCall, FunctionResult, Head, ResultStatus, ServerEvent, StateReport,
};
use crate::minutes::Minute;

use super::VipConnection;
use super::outgoing::About;

impl VipConnection {
    pub(super) fn dispatch_control(&mut self, head: &Head, event: ClientEvent) {
        match event {
            ClientEvent::ProviderAttached(_) => {
                if self.state() != State::Connecting {
                    return self.invalid(&head.id, "the provider is attached already");
                }
                self.incoming.attached = true;
                self.ready_if_complete();
            }
            ClientEvent::StateReport(report) => self.state_report(head, &report),
            ClientEvent::HistoryAppend(append) => {
                for item in append.items {
                    let mut item = json!(item);
                    if let Some(members) = item.as_object_mut() {
                        // They are numbered here.
                        members.remove("seq");
                    }
                    self.outgoing.note(Minute::Noted(item));
                }
            }
            ClientEvent::FunctionCall(call) => self.function_call(head, call),
            ClientEvent::SessionUpdate(update) => self.session_update(head, &update),
            // What the client and its provider tell each other may be mirrored; it needs no answer.
            ClientEvent::InputDetected(_) | ClientEvent::ActionAck(_) => {}
            ClientEvent::ClientConnect(_)
            | ClientEvent::StateUpdate(_)
            | ClientEvent::InputStart(_)
            | ClientEvent::InputText(_)
            | ClientEvent::InputEnd(_)
            | ClientEvent::InputCancel(_)
            | ClientEvent::InputTimeout(_)
            | ClientEvent::InputBargeIn(_)
            | ClientEvent::AudioProgress(_)
            | ClientEvent::AudioComplete(_)
            | ClientEvent::ActionResult(_)
            | ClientEvent::ControlMute(_)
            | ClientEvent::SessionPing(_)
            | ClientEvent::SessionClose(_)
            | ClientEvent::AudioChunk(_)
            | ClientEvent::Error(_) => {
                self.invalid(&head.id, "this is said to the provider in internal mode");
            }
        }
    }

    /// The client drives the machine; what it reports has to be possible.
    fn state_report(&mut self, head: &Head, report: &StateReport) {
        let trigger = Trigger::from_name(&report.trigger);
        let possible = report.previous == self.state()
            && trigger.and_then(|trigger| crate::matrix::transition(self.state(), trigger))
                == Some(report.state);
        match trigger.filter(|_| possible && self.state() != State::Connecting) {
            Some(Trigger::SessionClose) | None => self.invalid(&head.id, "this is no transition"),
            Some(trigger) => {
                self.go(trigger, report.turn_id.clone(), None);
            }
        }
    }

    fn function_call(&mut self, head: &Head, call: FunctionCall) {
        let FunctionCall { invocation_id, name, parameters } = call;
        let allowed = self.settings.scopes.iter().any(|scope| scope == "function:call");
        let checked = match &self.context {
            Some(context) if allowed => function::check(context, &name, &parameters),
            Some(_) => Err(Fault::new(Code::AuthScope)),
            None => Err(Fault::new(Code::ActNotFound)),
        };
        let parameters = match checked {
            Ok(parameters) => parameters,
            Err(fault) => return self.function_result(&head.id, invocation_id, Err(fault)),
        };
        let (agent, session) = (self.agent.to_string(), self.session.to_string());
        let sub = self.settings.sub.clone();
        let event_id = head.id.clone();
        self.send_out(
            &Errand::Perform { name, parameters, agent, session, sub },
            move |connection, outcome| {
                let outcome = outcome.map(|answer| answer["data"].clone());
                connection.function_result(&event_id, invocation_id, outcome);
            },
        );
    }

    fn function_result(&mut self, event_id: &str, invocation_id: String, outcome: Result<Value, Fault>) {
        let result = match outcome {
            Ok(data) => {
                FunctionResult { invocation_id, status: ResultStatus::Success, data: Some(data), error: None }
            }
            Err(fault) => FunctionResult {
                invocation_id,
                status: ResultStatus::Error,
                data: None,
                error: Some(ActionError::from(&fault)),
            },
        };
        let about = About { reply_to: Some(event_id.to_owned()), ..About::default() };
        self.say(&ServerEvent::FunctionResult(Box::new(result)), about);
    }
}
