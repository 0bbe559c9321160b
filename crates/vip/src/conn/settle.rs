//! What the app says about itself: the tree, the tools that follow from it, and settings (§8).

use std::collections::BTreeMap;

use serde_json::{Value, json};
use switchboard_core::model::{Executor, Op, Tool, ToolAnnotations, ToolChange};
use switchboard_core::{ToolName, VoiceOp, VoiceSettings};

use crate::action;
use crate::context::{Action, Context};
use crate::error::{Code, Fault};
use crate::matrix::State;
use crate::message::{
    ActivateOn, AppliedWhen, Head, ResyncReason, ServerEvent, SessionUpdate, SessionUpdated, StateAck,
    StateResync,
};
use crate::minutes::Minute;

use super::outgoing::About;
use super::{Kind, VipConnection};

impl VipConnection {
    pub(super) fn state_update(&mut self, head: &Head, update: &Value) {
        if !matches!(self.state(), State::UserSpeaking | State::AiThinking) {
            return self.update(&head.id, update);
        }
        let sent_in = self.machine.state_at(head.state_seq);
        let crossed = head.state_seq != self.machine.seq()
            && sent_in.is_some_and(|state| {
                matches!(state, State::Connecting | State::Idle | State::AiSpeaking | State::InvokeAction)
            });
        if !crossed || self.deferred.len() >= MOST_DEFERRED {
            let fault = self.located(Fault::new(Code::CtxForbiddenState)).about(head.id.clone());
            return self.complain(&fault);
        }
        self.deferred.push_back((head.id.clone(), update.clone()));
        let context_version = update["context_version"].as_u64().unwrap_or_default();
        self.acknowledge(
            &head.id,
            StateAck {
                context_version,
                applied: AppliedWhen::Deferred,
                ignored_actions: Vec::new(),
                warnings: Vec::new(),
            },
        );
    }

    /// Applies what crossed a transition.
    pub(super) fn apply_deferred(&mut self) {
        for (event_id, update) in std::mem::take(&mut self.deferred) {
            if let Err(fault) = self.adopt(&update) {
                self.refuse_update(&event_id, fault);
            }
        }
    }

    /// Applies an update now, wholly or not at all.
    pub(super) fn update(&mut self, event_id: &str, update: &Value) {
        let ack = match self.adopt(update) {
            Ok(ack) => ack,
            Err(fault) => return self.refuse_update(event_id, fault),
        };
        self.acknowledge(event_id, ack);
        self.incoming.pictured = true;
        self.ready_if_complete();
    }

    /// The session begins with a whole tree and, in internal mode, a provider, whichever comes first.
    pub(super) fn ready_if_complete(&mut self) {
        let attended = self.kind != Kind::Control || self.incoming.attached;
        if self.state() == State::Connecting && self.incoming.pictured && attended {
            self.ready();
        }
    }

    fn refuse_update(&mut self, event_id: &str, fault: Fault) {
        let conflict = fault.code == Code::CtxVersionConflict;
        self.complain(&fault.about(event_id));
        if conflict {
            let have_version = self.context.as_ref().map_or(0, |context| context.version);
            let resync = StateResync { have_version, reason: ResyncReason::VersionConflict };
            self.tell(&ServerEvent::StateResync(resync));
        }
    }

    fn acknowledge(&mut self, event_id: &str, ack: StateAck) {
        let about = About { reply_to: Some(event_id.to_owned()), ..About::default() };
        self.say(&ServerEvent::StateAck(ack), about);
    }

    /// Puts a tree in the place of the one before.
    pub(super) fn adopt(&mut self, update: &Value) -> Result<StateAck, Fault> {
        if self.state() == State::Connecting && update["mode"] == "delta" {
            return Err(Fault::new(Code::CtxVersionConflict).because("a whole tree has to come first"));
        }
        let mut update = update.clone();
        self.secrets.hide_in_update(&mut update);
        let applied = Context::apply(self.context.as_ref(), &update).map_err(|fault| {
            Fault::new(fault.code).because(fault.message).with(json!({ "path": fault.path }))
        })?;
        self.outgoing.note(Minute::Context(update));
        let context_version = applied.context.version;
        self.context = Some(applied.context);
        self.offer_tools();
        Ok(StateAck {
            context_version,
            applied: AppliedWhen::Now,
            ignored_actions: applied.ignored,
            warnings: applied.warnings,
        })
    }

    /// The tools of the agent are exactly what can be done in the app now.
    fn offer_tools(&mut self) {
        let Some(context) = &self.context else { return };
        let mut wanted = BTreeMap::new();
        if self.settings.actions && self.kind != Kind::Control {
            for (id, action) in action::invocable(context) {
                let tool = Tool {
                    name: ToolName::new(id),
                    description: described(action),
                    input_schema: action::tool_schema(action, context).into(),
                    output_schema: None,
                    annotations: ToolAnnotations {
                        read_only: None,
                        destructive: None,
                        idempotent: Some(action.idempotent),
                        // Consent is asked for on the way to the app, and not by the agent too.
                        confirm: None,
                    },
                    version: None,
                    executor: Executor::Attachment(self.attachment.clone()),
                    grace_ms: GRACE_MS,
                    // What a password is has to be known by nobody but the app.
                    options: if action.is_secret() { json!({ "secret": true }) } else { Value::Null },
                };
                wanted.insert(tool.name.clone(), tool);
            }
            for (name, description) in BUILTIN {
                let tool = Tool {
                    name: ToolName::new(*name),
                    description: (*description).to_owned(),
                    input_schema: json!({ "type": "object" }).into(),
                    output_schema: None,
                    annotations: ToolAnnotations { read_only: Some(true), ..ToolAnnotations::default() },
                    version: None,
                    executor: Executor::Attachment(self.attachment.clone()),
                    grace_ms: 0,
                    options: Value::Null,
                };
                wanted.insert(tool.name.clone(), tool);
            }
        }
        let add: Vec<Tool> = wanted
            .iter()
            .filter(|(name, tool)| self.tools.get(*name) != Some(*tool))
            .map(|(_, tool)| tool.clone())
            .collect();
        let remove: Vec<ToolName> =
            self.tools.keys().filter(|name| !wanted.contains_key(*name)).cloned().collect();
        self.tools = wanted;
        if !add.is_empty() || !remove.is_empty() {
            self.ask(Op::ChangeTools(ToolChange { add, remove, turn: None }));
        }
    }

    pub(super) fn session_update(&mut self, head: &Head, update: &SessionUpdate) {
        if self.state() != State::Idle {
            return self.invalid(&head.id, "settings change while the session is idle");
        }
        let turn_detection = match &update.turn_detection {
            Some(change) => self.settings.turn_detection.changed(change),
            None => self.settings.turn_detection,
        };
        if !turn_detection.is_valid() {
            let fault = Fault::new(Code::ProtoMalformed).because("turn_detection is out of bounds");
            return self.complain(&fault.about(head.id.clone()));
        }
        self.settings.turn_detection = turn_detection;
        if let Some(locale) = &update.locale {
            self.settings.locale.clone_from(locale);
        }
        if update.voice.is_some() {
            self.settings.voice.clone_from(&update.voice);
        }
        if let Some(activate_on) = update.activate_on {
            activate_on.name().clone_into(&mut self.settings.activate_on);
        }
        self.outgoing.note(Minute::Changed(Box::new(self.settings.clone())));
        // The voice is told again before it is next asked.
        self.voiced = false;
        let updated = SessionUpdated {
            locale: self.settings.locale.clone(),
            turn_detection,
            voice: self.settings.voice.clone(),
            activate_on: ActivateOn::from_name(&self.settings.activate_on).unwrap_or(ActivateOn::Manual),
        };
        let about = About { reply_to: Some(head.id.clone()), ..About::default() };
        self.say(&ServerEvent::SessionUpdated(updated), about);
    }

    /// Tells the voice how to listen and speak, before it is asked for anything.
    pub(super) fn settle_voice(&mut self) {
        if self.voiced {
            return;
        }
        self.voiced = true;
        let peer = self.kind == Kind::Peer;
        let (input, output) = if peer {
            (switchboard_core::AudioFormat::Opus, switchboard_core::AudioFormat::Opus)
        } else {
            (self.settings.input.audio_format(), self.settings.output.audio_format())
        };
        let settings = VoiceSettings {
            input,
            output,
            packet_ms: PACKET_MS,
            lead_ms: if peer { 0 } else { self.limits.lead_ms },
            language: self.settings.locale.clone(),
            voice: self.settings.voice.clone(),
        };
        self.out.push_back(switchboard_core::Output::Voice(VoiceOp::Settle(Box::new(settings))));
    }
}

/// What an action does, and what users see of it: they will call it that.
fn described(action: &Action) -> String {
    let description = action.description.trim_end_matches('.');
    match &action.label {
        Some(label) if !description.to_lowercase().contains(&label.to_lowercase()) => {
            format!("{description}. Users see it as “{label}”.")
        }
        Some(_) | None => action.description.clone(),
    }
}

/// How much a packet of output holds.
pub(super) const PACKET_MS: u32 = 20;
const MOST_DEFERRED: usize = 8;
/// What a call may take beyond its agent's patience: consent, a second try, and the app's own time.
const GRACE_MS: u32 = 200_000;
/// What is answered from the tree itself (§8).
const BUILTIN: &[(&str, &str)] = &[
    ("get_available_routes", "Lists the pages of the app that can be opened."),
    ("get_system_states", "Tells what the app shows now."),
    ("get_system_functions", "Lists what can be done in the app now."),
];
