//! What the app is asked to do, one thing after another, and what it answers (§9).

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use switchboard_core::model::{Call, CallEnd, CallError, CallKind, Op};
use switchboard_core::{CallId, Timestamp, TurnId};

use crate::action::{self, Prepared};
use crate::context::Executor;
use crate::errand::Errand;
use crate::error::{Code, Fault};
use crate::matrix::{State, Trigger};
use crate::message::{
    ActionAck, ActionCancel, ActionCancelReason, ActionDone, ActionError, ActionInvoke, ActionResult, Head,
    ResponseStatus, ResultStatus, ServerEvent,
};
use crate::minutes::{Asked, Minute, Minutes};

use super::confirm::{Confirming, Reference};
use super::question::Pending;
use super::speak::Response;
use super::{VipConnection, of_response};

/// What is asked of the app.
#[derive(Debug, Default)]
pub(super) struct Acts {
    /// What waits for what is being done.
    queue: VecDeque<Wanted>,
    current: Option<Outstanding>,
    /// What is done while the system speaks.
    parallel: BTreeMap<String, Outstanding>,
    pub(super) confirming: Option<Confirming>,
    pub(super) question: Option<Pending>,
    /// Consents that were used; none is good twice.
    pub(super) used: VecDeque<String>,
    asked: u64,
}

/// Something that the agent wants done.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub(super) turn: TurnId,
    pub(super) call: Arc<Call>,
    pub(super) action: String,
    pub(super) parameters: Value,
}

/// Something that the app was asked to do.
#[derive(Debug)]
struct Outstanding {
    wanted: Wanted,
    invoke: ActionInvoke,
    /// What consent is asked for, if it is about that.
    reference: Option<Box<Reference>>,
    resend_at: Option<Timestamp>,
    deadline: Timestamp,
}

impl Acts {
    pub(super) fn next_wake(&self) -> Option<Timestamp> {
        let outstanding = self.current.iter().chain(self.parallel.values());
        let due = outstanding.flat_map(|one| [one.resend_at, Some(one.deadline)]).flatten();
        due.chain(self.confirming.as_ref().map(|confirming| confirming.expires_at)).min()
    }

    /// The turn that waits for the user's word.
    pub(super) fn parked_turn(&self) -> Option<&TurnId> {
        let consent = self.confirming.as_ref().map(|confirming| &confirming.reference.wanted.turn);
        consent.or_else(|| self.question.as_ref().map(|question| &question.turn))
    }

    /// That turn, and what would have been said in it.
    fn take_parked(&mut self) -> Option<(TurnId, Option<Response>)> {
        let consent = self.confirming.take().map(|asked| (asked.reference.wanted.turn, asked.parked));
        consent.or_else(|| self.question.take().map(|question| (question.turn, question.parked)))
    }
}

impl VipConnection {
    /// The agent wants something done.
    pub(super) fn act(&mut self, turn: TurnId, call: Arc<Call>) {
        let CallKind::Tool { name, args } = &call.kind else { return };
        let wanted =
            Wanted { turn, action: name.to_string(), parameters: Value::clone(args), call: call.clone() };
        if call.options["secret"] == json!(true) {
            let errand = Errand::Unseal { session: self.session.to_string(), call: call.id.to_string() };
            return self.send_out(&errand, move |connection, outcome| match outcome {
                // The user may have gone on in the meantime.
                Ok(_) if !connection.is_ours(&wanted.turn) => {
                    connection.refuse_act(&wanted, &Fault::new(Code::ActCancelled));
                }
                Ok(mut answer) => {
                    let parameters = answer["args"].take();
                    connection.secrets.keep(&parameters["value"]);
                    connection.act_on(Wanted { parameters, ..wanted });
                }
                Err(fault) => connection.refuse_act(&wanted, &fault),
            });
        }
        self.act_on(wanted);
    }

    fn act_on(&mut self, wanted: Wanted) {
        let builtin =
            self.context.as_ref().and_then(|context| action::answer_builtin(context, &wanted.action));
        if let Some(answer) = builtin {
            return self.answer(&wanted, CallEnd::done(answer));
        }
        if self.acts.queue.len() >= MOST_WAITING {
            return self
                .refuse_act(&wanted, &Fault::new(Code::ActExecutionFailed).because("too much at once"));
        }
        if self.state() == State::AiSpeaking {
            return self.act_while_speaking(wanted);
        }
        self.acts.queue.push_back(wanted);
        self.act_next();
    }

    /// Only what is meant for it can be done while the system speaks.
    fn act_while_speaking(&mut self, wanted: Wanted) {
        let checked = self.checked(&wanted);
        match checked {
            // Consent cannot be asked for now, whoever would act on it.
            Ok(prepared) if prepared.executor == Executor::Server && !prepared.sensitive => {
                self.perform(wanted, prepared.parameters)
            }
            Ok(prepared) if prepared.parallel => self.invoke(wanted, prepared, None, true),
            Ok(_) => {
                let fault = Fault::new(Code::ActExecutionFailed)
                    .because("the answer is being spoken already: ask for actions before you speak");
                self.refuse_act(&wanted, &fault);
            }
            Err(fault) => self.refuse_act(&wanted, &fault),
        }
    }

    fn checked(&self, wanted: &Wanted) -> Result<Prepared, Fault> {
        let context = self.context.as_ref().ok_or_else(|| Fault::new(Code::ActNotFound))?;
        action::check(context, &wanted.action, &wanted.parameters)
    }

    /// Goes on with what waits.
    pub(super) fn act_next(&mut self) {
        if self.state() != State::AiThinking || self.acts.current.is_some() || self.acts.confirming.is_some()
        {
            return;
        }
        let Some(wanted) = self.acts.queue.pop_front() else { return };
        match self.checked(&wanted) {
            Err(fault) => {
                self.refuse_act(&wanted, &fault);
                self.act_next();
            }
            Ok(prepared) if prepared.executor == Executor::Server && !prepared.sensitive => {
                self.perform(wanted, prepared.parameters);
                self.act_next();
            }
            Ok(prepared) if prepared.sensitive => self.ask_consent(wanted, &prepared),
            Ok(prepared) => self.invoke(wanted, prepared, None, false),
        }
    }

    /// A function of the server itself: the app never hears of it.
    pub(super) fn perform(&mut self, wanted: Wanted, parameters: Value) {
        let errand = Errand::Perform {
            name: wanted.action.clone(),
            parameters,
            agent: self.agent.to_string(),
            session: self.session.to_string(),
            sub: self.settings.sub.clone(),
        };
        self.send_out(&errand, move |connection, outcome| match outcome {
            Ok(answer) => connection.answer(&wanted, CallEnd::done(answer["data"].clone())),
            Err(fault) => connection.refuse_act(&wanted, &fault),
        });
    }

    /// Asks the app. Everything was checked.
    pub(super) fn invoke(
        &mut self,
        wanted: Wanted,
        prepared: Prepared,
        confirmation: Option<(String, String)>,
        parallel: bool,
    ) {
        let response_id = self.mention_response();
        let (invocation_id, confirmation_id) = match confirmation {
            Some((invocation, confirmation)) => (invocation, Some(confirmation)),
            None => (self.new_invocation(), None),
        };
        let invoke = ActionInvoke {
            invocation_id,
            action_id: wanted.action.clone(),
            kind: prepared.kind,
            parameters: prepared.parameters,
            context_version: self.context.as_ref().map_or(1, |context| context.version),
            response_id,
            timeout_ms: prepared.timeout_ms,
            follow_up: wanted.call.options["follow_up"] != json!(false),
            parallel,
            attempt: 1,
            confirmation_id,
        };
        let deadline = self.now.after(Duration::from_millis(invoke.timeout_ms) + GRACE);
        self.ask_app(wanted, invoke, None, deadline);
    }

    pub(super) fn new_invocation(&mut self) -> String {
        self.acts.asked += 1;
        format!("i-{}.{}", self.transport, self.acts.asked)
    }

    /// Sends a question to the app, and waits for its answer.
    pub(super) fn ask_app(
        &mut self,
        wanted: Wanted,
        invoke: ActionInvoke,
        reference: Option<Box<Reference>>,
        deadline: Timestamp,
    ) {
        self.outgoing.note(Minute::Asked(Box::new(Asked {
            invocation: invoke.invocation_id.clone(),
            turn: wanted.turn.to_string(),
            call: wanted.call.id.to_string(),
            action: invoke.action_id.clone(),
            response: invoke.response_id.clone(),
            parameters: self.shown(&invoke).parameters,
        })));
        let resend_at = Some(self.now.after(RESEND_AFTER));
        let outstanding = Outstanding { wanted, invoke: invoke.clone(), reference, resend_at, deadline };
        if invoke.parallel {
            self.send_invoke(&invoke);
            self.acts.parallel.insert(invoke.invocation_id, outstanding);
        } else {
            self.acts.current = Some(outstanding);
            let say = |connection: &mut Self| connection.send_invoke(&invoke);
            self.go_saying(Trigger::ResponseTool, None, None, say);
        }
    }

    fn send_invoke(&mut self, invoke: &ActionInvoke) {
        let shown = self.shown(invoke);
        let about = of_response(&invoke.response_id);
        let event = ServerEvent::ActionInvoke(Box::new(invoke.clone()));
        let (seq, now) = (self.machine.seq(), self.now);
        self.outgoing.say(&event, about, seq, now, Some(json!(shown)));
    }

    /// What is put on record of an invocation: no secrets.
    fn shown(&self, invoke: &ActionInvoke) -> ActionInvoke {
        let mut shown = invoke.clone();
        if let Some(context) = &self.context {
            shown.parameters = action::redact(context, &invoke.action_id, &invoke.parameters);
            // What consent is asked for may be a secret too.
            if let Some(action_id) = invoke.parameters["reference_action_id"].as_str() {
                let asked = &invoke.parameters["reference_parameters"];
                shown.parameters["reference_parameters"] = action::redact(context, action_id, asked);
            }
        }
        // The field may not be on the screen any more.
        self.secrets.hide_in(&mut shown.parameters);
        shown
    }

    pub(super) fn action_ack(&mut self, ack: &ActionAck) {
        let current = self.acts.current.as_mut().filter(|one| one.invoke.invocation_id == ack.invocation_id);
        if let Some(one) = current.or_else(|| self.acts.parallel.get_mut(&ack.invocation_id)) {
            one.resend_at = None;
        }
    }

    pub(super) fn action_result(&mut self, head: &Head, result: ActionResult) {
        let current =
            self.acts.current.as_ref().filter(|one| one.invoke.invocation_id == result.invocation_id);
        let asked = current.or_else(|| self.acts.parallel.get(&result.invocation_id));
        if asked.is_some_and(|one| one.invoke.action_id != result.action_id) {
            let fault = Fault::new(Code::ProtoMalformed).because("the result names another action");
            return self.complain(&fault.about(head.id.clone()));
        }
        if let Some(outstanding) = self.acts.parallel.remove(&result.invocation_id) {
            return self.parallel_result(head, outstanding, &result);
        }
        let current = |one: &mut Outstanding| one.invoke.invocation_id == result.invocation_id;
        match self.acts.current.take_if(current) {
            Some(outstanding) if self.state() == State::InvokeAction => {
                self.result(head, outstanding, &result)
            }
            Some(_) | None => self.late_result(head),
        }
    }

    fn late_result(&mut self, head: &Head) {
        let fault = self.located(Fault::new(Code::ActLateResult));
        self.complain(&fault.about(head.id.clone()));
    }

    fn parallel_result(&mut self, head: &Head, outstanding: Outstanding, result: &ActionResult) {
        if matches!(self.state(), State::UserSpeaking | State::AiThinking) {
            // The user went on without it. The screen must not change now, but the agent may still wait.
            let result = ActionResult { context: None, ..result.clone() };
            let end = self.end_of(&outstanding, &result);
            self.answer(&outstanding.wanted, end);
            return self.late_result(head);
        }
        self.adopt_result(head, result);
        let end = self.end_of(&outstanding, result);
        self.answer(&outstanding.wanted, end);
    }

    fn result(&mut self, head: &Head, outstanding: Outstanding, result: &ActionResult) {
        // What the screen shows now comes before what is made of the result.
        self.adopt_result(head, result);
        if let Some(reference) = outstanding.reference {
            return self.consent_result(*reference, &outstanding.invoke, result);
        }
        let end = self.end_of(&outstanding, result);
        let silent = !outstanding.invoke.follow_up && result.status == ResultStatus::Success;
        self.answer(&outstanding.wanted, end);
        if silent {
            return self.done_silently(&outstanding.invoke.invocation_id);
        }
        self.go(Trigger::ActionResult, None, None);
        self.act_next();
    }

    /// Nothing is to be said about it: the session is idle again.
    fn done_silently(&mut self, invocation: &str) {
        self.stop_turn("nothing is to be said");
        let done = ServerEvent::ActionDone(ActionDone { invocation_id: invocation.to_owned() });
        self.go_saying(Trigger::ActionDone, None, None, |connection| connection.tell(&done));
        self.close_response(ResponseStatus::None);
        self.response = None;
        self.announce_next();
    }

    /// The context that comes with a result.
    fn adopt_result(&mut self, head: &Head, result: &ActionResult) {
        if let Some(context) = &result.context
            && let Err(fault) = self.adopt(context)
        {
            self.complain(&fault.about(head.id.clone()));
        }
    }

    fn end_of(&self, outstanding: &Outstanding, result: &ActionResult) -> CallEnd {
        let screen =
            self.context.as_ref().filter(|_| result.context.is_some()).map(|now| now.narration.clone());
        // The app may say again what it was given.
        let result = self.secrets.hidden_in(result);
        match (result.status, &result.error) {
            (ResultStatus::Success, _) => {
                let mut output = json!({ "status": "success" });
                if let Some(data) = &result.data {
                    output["data"] = data.clone();
                }
                if let Some(screen) = screen {
                    output["screen"] = screen.into();
                }
                CallEnd::done(output)
            }
            (ResultStatus::Error, error) => {
                let (name, message) = match error {
                    Some(error) => (error.code.clone(), error.message.clone()),
                    None => (Code::ActExecutionFailed.name().to_owned(), String::new()),
                };
                let detail = json!({ "executed": result.executed, "action": outstanding.wanted.action });
                CallEnd::Failed(CallError { name, message, detail })
            }
        }
    }

    /// Tells the agent what came of it.
    pub(super) fn answer(&mut self, wanted: &Wanted, end: CallEnd) {
        let (turn, call) = (wanted.turn.clone(), wanted.call.id.clone());
        self.ask(Op::Answer { turn, call, end });
    }

    pub(super) fn refuse_act(&mut self, wanted: &Wanted, fault: &Fault) {
        let error = CallError::new(fault.code.name(), fault.message.to_string());
        self.answer(wanted, CallEnd::Failed(error));
    }

    /// A call is over, for whatever reason: if it is still asked for here, it is called off.
    pub(super) fn call_ended(&mut self, call: &CallId) {
        self.acts.queue.retain(|wanted| wanted.call.id != *call);
        let over = |one: &mut Outstanding| one.wanted.call.id == *call;
        if let Some(outstanding) = self.acts.current.take_if(over) {
            self.call_off(&outstanding.invoke.invocation_id, ActionCancelReason::User);
            if self.state() == State::InvokeAction {
                self.go(Trigger::ActionResult, None, None);
                self.act_next();
            }
        }
        if self
            .acts
            .confirming
            .as_ref()
            .is_some_and(|confirming| confirming.reference.wanted.call.id == *call)
        {
            self.acts.confirming = None;
        }
        if let Some(question) = self.acts.question.take_if(|question| question.call == *call) {
            self.question_over(question);
        }
    }

    fn call_off(&mut self, invocation: &str, reason: ActionCancelReason) {
        let cancel = ActionCancel { invocation_id: invocation.to_owned(), reason };
        self.outgoing.note(Minute::Settled { invocation: invocation.to_owned() });
        self.tell(&ServerEvent::ActionCancel(cancel));
    }

    pub(super) fn acts_timeout(&mut self) {
        let now = self.now;
        let due = |at: Option<Timestamp>| at.is_some_and(|at| at <= now);
        let mut again = Vec::new();
        for one in self.acts.current.iter_mut().chain(self.acts.parallel.values_mut()) {
            if due(one.resend_at) {
                one.resend_at = None;
                one.invoke.attempt = 2;
                again.push(one.invoke.clone());
            }
        }
        for invoke in again {
            self.send_invoke(&invoke);
        }
        if let Some(outstanding) = self.acts.current.take_if(|one| one.deadline <= now) {
            self.timed_out(outstanding);
        }
        let late: Vec<String> = self
            .acts
            .parallel
            .iter()
            .filter(|(_, one)| one.deadline <= now)
            .map(|(invocation, _)| invocation.clone())
            .collect();
        for invocation in late {
            if let Some(outstanding) = self.acts.parallel.remove(&invocation) {
                self.call_off(&invocation, ActionCancelReason::Timeout);
                self.refuse_act(&outstanding.wanted, &Fault::new(Code::ActTimeout));
            }
        }
        if self.acts.confirming.as_ref().is_some_and(|confirming| confirming.expires_at <= now) {
            self.consent_expired();
        }
    }

    fn timed_out(&mut self, outstanding: Outstanding) {
        self.call_off(&outstanding.invoke.invocation_id, ActionCancelReason::Timeout);
        let code =
            if outstanding.reference.is_some() { Code::ActConfirmationExpired } else { Code::ActTimeout };
        self.refuse_act(&outstanding.wanted, &Fault::new(code));
        if self.state() == State::InvokeAction {
            self.go(Trigger::ActionResult, None, Some(code.name()));
        }
        self.act_next();
    }

    /// Nothing more is asked of the app, nor of the user.
    pub(super) fn drop_acts(&mut self) {
        self.acts.queue.clear();
        if let Some(turn) = self.drop_parked() {
            self.ask(Op::Interrupt { turn, reason: Some("the user interrupts".to_owned()) });
        }
        if let Some(outstanding) = self.acts.current.take() {
            self.call_off(&outstanding.invoke.invocation_id, ActionCancelReason::User);
        }
    }

    /// Nobody waits for the user's word any more, nor for what would have been said then; answers the turn that
    /// does.
    fn drop_parked(&mut self) -> Option<TurnId> {
        let (turn, parked) = self.acts.take_parked()?;
        let spoken = std::mem::replace(&mut self.response, parked);
        self.close_response(ResponseStatus::Incomplete);
        self.response = spoken;
        Some(turn)
    }

    /// A result that the app brings along when it comes back.
    pub(super) fn settle_pending(&mut self, result: ActionResult, before: &Minutes) {
        let asked = before.asked.values().find(|asked| asked.invocation == result.invocation_id);
        let Some(asked) = asked else { return };
        // What was put in is not known any more: whatever the app says of it stays with the app.
        let secret = asked.parameters["value"] == action::REDACTED;
        let result = if secret { without_content(result) } else { result };
        let end = match (result.status, result.error) {
            (ResultStatus::Success, _) => CallEnd::done(json!({ "status": "success", "data": result.data })),
            (ResultStatus::Error, Some(error)) => CallEnd::Failed(CallError::new(error.code, error.message)),
            (ResultStatus::Error, None) => {
                CallEnd::Failed(CallError::new(Code::ActExecutionFailed.name(), ""))
            }
        };
        let (turn, call) = (TurnId::new(asked.turn.as_str()), CallId::new(asked.call.as_str()));
        self.outgoing.note(Minute::Settled { invocation: result.invocation_id });
        self.ask(Op::Answer { turn, call, end });
    }

    /// The app was gone, and has not said what became of it.
    pub(super) fn give_up_asked(&mut self, asked: &Asked) {
        let error = CallError::new(Code::ActCancelled.name(), "the app was gone before it was done");
        let (turn, call) = (TurnId::new(asked.turn.as_str()), CallId::new(asked.call.as_str()));
        self.outgoing.note(Minute::Settled { invocation: asked.invocation.clone() });
        self.ask(Op::Answer { turn, call, end: CallEnd::Failed(error) });
    }

    /// Nobody waits for what an earlier transport has begun.
    pub(super) fn drop_orphans(&mut self) {
        (self.missed, self.deadlines.missed_at) = (None, None);
        for turn in std::mem::take(&mut self.orphans).into_keys() {
            self.ask(Op::Interrupt { turn, reason: Some("the client has begun anew".to_owned()) });
        }
    }

    /// A turn that an earlier transport has started wants something done; nobody is in the middle of it any more.
    pub(super) fn refuse_orphan(&mut self, turn: &TurnId, call: &CallId) {
        let error = CallError::new(Code::ActCancelled.name(), "the user has left this turn");
        self.ask(Op::Answer { turn: turn.clone(), call: call.clone(), end: CallEnd::Failed(error) });
    }

    /// The session ends: nobody has to answer any more.
    pub(super) fn drop_everything(&mut self, reason: &str) {
        self.quiet();
        self.stop_turn(reason);
        if let Some(outstanding) = self.acts.current.take() {
            self.call_off(&outstanding.invoke.invocation_id, ActionCancelReason::Shutdown);
        }
        self.acts.queue.clear();
        self.acts.confirming = None;
        self.acts.question = None;
        self.close_response(ResponseStatus::Incomplete);
        self.heard_out();
    }

    /// The transport is gone: what was half said was heard half, the rest may go on.
    pub(super) fn suspend(&mut self) {
        self.quiet();
        if self.state() == State::AiSpeaking {
            // A question may still be answered by others.
            self.drop_parked();
            self.interrupted(None);
        }
        self.floor = None;
    }
}

/// What became of it, and nothing else.
fn without_content(result: ActionResult) -> ActionResult {
    let error = result.error.map(|_| ActionError {
        code: Code::ActExecutionFailed.name().to_owned(),
        message: action::REDACTED.to_owned(),
        details: None,
    });
    ActionResult { data: result.data.map(|_| action::REDACTED.into()), error, ..result }
}

const MOST_WAITING: usize = 32;
/// What the app gets on top of the time of an action.
const GRACE: Duration = Duration::from_secs(1);
const RESEND_AFTER: Duration = Duration::from_secs(3);
