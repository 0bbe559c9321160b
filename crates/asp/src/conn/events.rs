//! Committed events to what the peer sees of them.

use switchboard_core::model::Executor;
use switchboard_core::{Committed, Event, SessionId, SessionView};

use super::outbound::DeltaRef;
use super::requests::Request;
use super::{AspConnection, Link};
use crate::codec::chunk_text;
use crate::error::Close;
use crate::map::{self, Ending, OpenCall, Rendered, Viewer};
use crate::message::{Feature, RecordBody, ToolDefFrame, ToolDefOp};
use crate::state::Lifecycle;
use crate::value::Value;

impl AspConnection {
    pub(super) fn committed(&mut self, session: &SessionId, committed: &Committed) {
        if let Event::AttachmentOpened { attachment, generation, .. } = &committed.event {
            let Link { attachment: own, generation: known, home, .. } = &self.link;
            if session == home && attachment == own && generation > known && self.life != Lifecycle::Closed {
                // A newer transport speaks for this attachment now; nothing is to be undone here.
                self.link.left = true;
                self.close(Close::TakenOver);
            }
            return;
        }
        if let Event::ToolsChanged { .. } = &committed.event {
            let known = self.link.sessions.get(session).map_or(0, |followed| followed.head);
            if committed.position.seq > known {
                self.tools_changed(&committed.event);
            }
            return;
        }
        let Some(turn) = committed.event.turn() else { return };
        match self.requests.of_turn(turn) {
            [] => {}
            [id] => {
                let id = *id;
                self.show(id, committed);
            }
            several => {
                let several = Vec::from(several);
                several.into_iter().for_each(|id| self.show(id, committed));
            }
        }
    }

    /// Shows an event of its turn to one request.
    fn show(&mut self, id: u16, committed: &Committed) {
        let client_tools = self.client_executes();
        let overflows = self.overflows(id);
        let Some(request) = self.requests.get_mut(id) else { return };
        let seq = committed.position.seq;
        // A session may be followed again from an earlier place for another request's sake.
        if seq <= request.seen || request.joins.is_some() {
            return;
        }
        let replay = seq <= request.replay_until;
        // The output of a cancelled request is dropped uncounted, so there is nothing to compare.
        if !replay && !request.behind && !request.cancelled && request.next_n < request.skip_below {
            return self.replay_gone(id);
        }
        let viewer = Viewer {
            attachment: &self.link.attachment,
            principal: &self.principal.id,
            options: &request.options,
            client_tools,
            tools: &self.client_tools,
            started: request.started,
            now: self.now,
        };
        let rendered = map::render(&committed.event, &viewer);
        request.behind = (request.behind || overflows) && !cuts_short(&rendered, request.cancelled);
        if request.behind {
            return;
        }
        request.seen = seq;
        if let Event::TurnStarted { .. } = &committed.event {
            request.started = true;
            request.state = request.state.started();
        }
        if request.cancelled && !matches!(rendered, Rendered::End(_)) {
            return;
        }
        match rendered {
            Rendered::Nothing => {}
            Rendered::Text(text) if !request.options.stream => {
                for piece in request.collected.push(text, &request.options) {
                    self.show_text(id, false, &piece, replay);
                }
            }
            Rendered::Text(text) => self.show_text(id, false, text, replay),
            Rendered::Reason(text) => self.show_text(id, true, text, replay),
            Rendered::Record(body) => self.show_record(id, body, replay),
            Rendered::Aside(body) => {
                if !replay {
                    self.emit_record(id, None, body, false);
                }
            }
            Rendered::Notice(notice) => {
                if !replay {
                    self.send_notice(notice);
                }
            }
            Rendered::CallOpened(call, open, record) => {
                request.calls.insert(call.clone(), open);
                if let Some(body) = record {
                    self.show_record(id, body, replay);
                }
            }
            Rendered::CallDelta(call, delta) => {
                if let Some(OpenCall::Watched(name)) = request.calls.get(call) {
                    let body = map::call_delta(call, name, delta);
                    self.show_record(id, body, replay);
                }
            }
            Rendered::CallOver(call, end) => {
                let name = match request.calls.remove(call) {
                    Some(OpenCall::Watched(name)) => Some(name),
                    Some(OpenCall::Executed | OpenCall::Asked) | None => None,
                };
                let wanted = request.options.stream
                    && request
                        .options
                        .want
                        .as_ref()
                        .is_none_or(|want| want.iter().any(|name| name == "tool"));
                if let Some(body) = name.filter(|_| wanted).and_then(|name| map::call_over(call, &name, end))
                {
                    self.show_record(id, body, replay);
                }
            }
            Rendered::Stopped => {
                request.cancelled = true;
                request.queue.clear();
                request.queued_bytes = 0;
                request.calls.clear();
            }
            Rendered::End(end) => self.show_ending(id, map::ending(end), replay),
        }
    }

    /// Shows a text in pieces of a size that a resume finds again, each with an index of its own.
    fn show_text(&mut self, id: u16, reasoning: bool, text: &str, replay: bool) {
        let Some(request) = self.requests.get(id) else { return };
        // Without records there are no indexes, either.
        let events = self.wire.features.has(Feature::Events);
        let piece = if events { request.options.piece() } else { usize::MAX };
        for text in chunk_text(text, piece) {
            let Some(request) = self.requests.get_mut(id) else { return };
            request.spoke |= !reasoning;
            let n = request.number();
            if n >= request.skip_below {
                self.emit_delta(id, DeltaRef { reasoning, n, text, replay });
            }
        }
    }

    /// Shows the end. An answer that was to come with it, and is larger than the client can receive at once, comes
    /// before it in pieces.
    fn show_ending(&mut self, id: u16, mut ending: Ending, replay: bool) {
        let Some(request) = self.requests.get_mut(id) else { return };
        let collected = std::mem::take(&mut request.collected);
        let mut pieces = None;
        if let Ending::End(end) = &mut ending
            && !request.cancelled
        {
            if collected.overflowed {
                pieces = Some(collected.text);
            } else if !collected.text.is_empty() && end.output.is_none() {
                end.output = Some(collected.text.into());
            }
            let large = |output: &Value| {
                output.as_str().is_some_and(|text| !request.options.end_carries(map::json_weight(text)))
            };
            if self.wire.features.has(Feature::Events)
                && let Some(Value::Str(text)) = end.output.take_if(|output| large(output))
            {
                pieces.get_or_insert_default().push_str(&text);
            }
        }
        if let Some(text) = pieces {
            self.show_text(id, false, &text, replay);
        }
        if self.requests.get(id).is_some_and(Request::claims_too_much) {
            return self.replay_gone(id);
        }
        self.emit_ending(id, ending, replay);
    }

    /// Goes on with what was left in the log, once everything before it is sent.
    pub(super) fn catch_up(&mut self, id: u16) {
        let ready = self.may_send(id);
        let Some(request) = self.requests.get_mut(id).filter(|request| ready && request.behind) else {
            return;
        };
        request.behind = false;
        let session = request.session.clone();
        let from = self.unseen(&session);
        let follow = self.follow(&session, from);
        if let Some(request) = self.requests.get_mut(id) {
            request.joins = Some(follow);
        }
    }

    fn show_record(&mut self, id: u16, body: RecordBody, replay: bool) {
        let Some(request) = self.requests.get_mut(id) else { return };
        let n = request.number();
        if n >= request.skip_below {
            self.emit_record(id, Some(n), body, replay);
        }
    }

    pub(super) fn tools_changed(&mut self, event: &Event) {
        let Event::ToolsChanged { added, removed, turn, .. } = event else { return };
        let mut shown = Vec::new();
        for tool in added.iter().filter(|tool| tool.executor == Executor::Agent) {
            if self.tools.insert(tool.name.clone(), Box::new(tool.clone())).as_deref() != Some(tool) {
                shown.extend(map::tool_def(tool));
            }
        }
        let gone: Vec<String> = removed
            .iter()
            .filter(|name| self.tools.remove(*name).is_some())
            .map(ToString::to_string)
            .collect();
        let id = turn.as_ref().and_then(|turn| self.requests.of_turn(turn).first().copied()).unwrap_or(0);
        if !gone.is_empty() && self.wire.features.has(Feature::Events) {
            let rev = Some(self.next_revision());
            self.send_tool_def(
                id,
                ToolDefFrame { op: ToolDefOp::Remove, rev, tools: Vec::new(), names: gone },
            );
        }
        if shown.is_empty() {
            return;
        }
        if self.wire.features.has(Feature::Events) {
            let rev = Some(self.next_revision());
            self.send_tool_def(id, ToolDefFrame { op: ToolDefOp::Add, rev, tools: shown, names: Vec::new() });
        } else {
            // A bare peer knows one tool per frame.
            for tool in shown {
                self.send_map(crate::Opcode::ToolDef, id, crate::Flags::NONE, &tool.to_map());
            }
        }
    }

    /// Takes in what a session that is newly followed knows of tools.
    pub(super) fn learn_tools(&mut self, session: &SessionId, view: &SessionView) {
        if let Some(followed) = self.link.sessions.get_mut(session) {
            followed.head = view.head.seq;
            followed.epoch = view.head.epoch;
        }
        let unknown: Vec<_> = view
            .tools
            .iter()
            .filter(|tool| {
                tool.executor == Executor::Agent
                    && self.tools.get(&tool.name).map(|known| &**known) != Some(*tool)
            })
            .cloned()
            .collect();
        if self.tools_awaited > 0 {
            self.offer_other_tools(session, view);
            self.tools.extend(unknown.into_iter().map(|tool| (tool.name.clone(), Box::new(tool))));
            return self.tools_arrived();
        }
        if !unknown.is_empty() {
            let (added, removed) = (unknown, Vec::new());
            self.tools_changed(&Event::ToolsChanged {
                revision: view.tools_revision,
                added,
                removed,
                turn: None,
            });
        }
    }

    /// After a resume the tools are told as one set, once every session has told its own.
    pub(super) fn tools_arrived(&mut self) {
        if self.tools_awaited > 0 {
            self.tools_awaited -= 1;
            if self.tools_awaited == 0 && !self.tools.is_empty() && self.wire.features.has(Feature::Events) {
                self.push_all_tools();
            }
        }
    }

    /// Sends every tool that the client may use.
    pub(super) fn push_all_tools(&mut self) {
        let tools: Vec<_> = self.tools.values().filter_map(|tool| map::tool_def(tool)).collect();
        if self.wire.features.has(Feature::Events) {
            let rev = Some(self.next_revision());
            self.send_tool_def(0, ToolDefFrame { op: ToolDefOp::Set, rev, tools, names: Vec::new() });
        } else {
            for tool in tools {
                self.send_map(crate::Opcode::ToolDef, 0, crate::Flags::NONE, &tool.to_map());
            }
        }
    }

    /// Grows with each TOOL_DEF, also from one transport of an attachment to the next.
    pub(super) fn next_revision(&mut self) -> u64 {
        let base = u64::from(self.link.generation - 1) << 24;
        self.tools_revision = self.tools_revision.max(base) + 1;
        self.tools_revision
    }
}

/// Whether an event ends a request, whatever was not sent of it: nobody waits for the rest any more.
fn cuts_short(rendered: &Rendered<'_>, cancelled: bool) -> bool {
    match rendered {
        Rendered::Stopped => true,
        Rendered::End(end) => cancelled || matches!(map::ending(end), Ending::Error(_)),
        Rendered::Nothing
        | Rendered::Text(_)
        | Rendered::Reason(_)
        | Rendered::Record(_)
        | Rendered::Aside(_)
        | Rendered::Notice(_)
        | Rendered::CallOpened(..)
        | Rendered::CallDelta(..)
        | Rendered::CallOver(..) => false,
    }
}
