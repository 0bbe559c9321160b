//! What the server says, one event at a time.

use serde_json::Value;

use super::event::Event;
use super::link::Place;
use super::{Cause, Output, VipClient};
use crate::codec::decode_server;
use crate::error::Code;
use crate::matrix::State;
use crate::message::{ErrorBody, Head, InputBargeIn, ServerEvent, StateChanged};

impl VipClient {
    pub(super) fn receive(&mut self, text: &str) {
        if !self.link.is_open() {
            return;
        }
        let read = decode_server(text);
        if !self.link.is_up() {
            return match read {
                Ok((head, ServerEvent::SessionConnected(connected))) => {
                    self.calls.results.delivered();
                    self.connected(head.seq, connected);
                }
                Ok((_, ServerEvent::ErrorFatal(error))) => self.refused_for_good(error),
                // Nothing else can be said before.
                Ok(_) | Err(_) => {}
            };
        }
        let seq = match &read {
            Ok((head, _)) => Some(head.seq),
            Err(malformed) => malformed.head.as_ref().map(|head| head.seq),
        };
        let place = seq.map_or(Place::Next, |seq| self.link.place(seq));
        match (place, read) {
            (Place::Seen, _) => {}
            (Place::Gap, _) => self.gap(),
            (Place::Missed, Ok((_, event))) => self.receive_missed(event),
            (Place::Next, Ok((head, event))) => self.dispatch(head, event),
            // Events of later versions are passed over.
            (_, Err(malformed)) if malformed.fault.code == Code::ProtoUnknownEvent => {}
            (_, Err(malformed)) => self.complain(&malformed.fault),
        }
    }

    /// Something that happened while nobody was listening: what was said counts, what was to be done does not.
    fn receive_missed(&mut self, event: ServerEvent) {
        match event {
            ServerEvent::InputComplete(complete) => self.event(Event::Understood(complete)),
            ServerEvent::AudioInterrupted(interrupted) => self.event(Event::Interrupted(interrupted)),
            ServerEvent::ResponseDone(done) => self.event(Event::Done(done)),
            ServerEvent::ErrorRecoverable(error) => self.event(Event::Problem(error)),
            ServerEvent::ActionInvoke(invoke) => self.missed(&invoke),
            ServerEvent::FunctionResult(result) => self.event(Event::Function(result)),
            ServerEvent::SessionUpdated(settings) => self.event(Event::Settings(settings)),
            ServerEvent::SessionConnected(_)
            | ServerEvent::ServerReady(_)
            | ServerEvent::StateChanged(_)
            | ServerEvent::StateAck(_)
            | ServerEvent::StateResync(_)
            | ServerEvent::InputDetected(_)
            | ServerEvent::InputEnd(_)
            | ServerEvent::InputBargeIn(_)
            | ServerEvent::InputTimeout(_)
            | ServerEvent::TranscriptPartial(_)
            | ServerEvent::ServerAnnounce(_)
            | ServerEvent::ResponseAudio(_)
            | ServerEvent::ResponseTextDelta(_)
            | ServerEvent::AudioStart(_)
            | ServerEvent::AudioEnd(_)
            | ServerEvent::ActionCancel(_)
            | ServerEvent::ActionDone(_)
            | ServerEvent::SessionTerminating(_)
            | ServerEvent::SessionTerminated(_)
            | ServerEvent::SessionPong(_)
            | ServerEvent::CredentialRefreshed(_)
            | ServerEvent::AudioChunk(_)
            | ServerEvent::ErrorFatal(_) => {}
        }
    }

    fn dispatch(&mut self, head: Head, event: ServerEvent) {
        match event {
            ServerEvent::StateChanged(changed) => self.state_changed(&changed),
            ServerEvent::StateAck(ack) => self.event(Event::Accepted(ack)),
            ServerEvent::StateResync(resync) => self.resync(resync.have_version),
            ServerEvent::InputBargeIn(barge_in) => self.overheard(head, &barge_in),
            ServerEvent::TranscriptPartial(partial) => self.event(Event::Partial(partial)),
            ServerEvent::InputComplete(complete) => {
                if let Some(turn) = self.turn.as_mut().filter(|turn| turn.id == complete.turn_id) {
                    turn.text = Some(complete.text.clone());
                }
                self.event(Event::Understood(complete));
            }
            ServerEvent::ServerAnnounce(announce) => self.response(announce.response, Some(announce.reason)),
            ServerEvent::ResponseAudio(response) => self.response(response, None),
            ServerEvent::ResponseTextDelta(delta) => self.event(Event::Words(delta)),
            ServerEvent::AudioStart(start) => self.audio_started(&start),
            ServerEvent::AudioEnd(end) => self.audio_ended(&end),
            ServerEvent::AudioChunk(chunk) => self.receive_chunk(chunk),
            ServerEvent::AudioInterrupted(interrupted) => self.event(Event::Interrupted(interrupted)),
            ServerEvent::ResponseDone(done) => self.response_done(done),
            ServerEvent::ActionInvoke(invoke) => self.invoke(&invoke),
            ServerEvent::ActionCancel(cancel) => self.cancelled(&cancel),
            ServerEvent::SessionUpdated(settings) => {
                if let Some(agreed) = &mut self.agreed {
                    agreed.turn_detection = settings.turn_detection;
                }
                self.event(Event::Settings(settings));
            }
            ServerEvent::SessionTerminating(terminating) => self.event(Event::Terminating(terminating)),
            ServerEvent::SessionTerminated(terminated) => {
                self.over();
                self.event(Event::Terminated(terminated));
            }
            ServerEvent::CredentialRefreshed(credential) => self.event(Event::Credential(credential)),
            ServerEvent::FunctionResult(result) => self.event(Event::Function(result)),
            ServerEvent::ErrorRecoverable(error) => self.problem(&head, error),
            ServerEvent::ErrorFatal(error) => self.refused_for_good(error),
            // The state follows with `state.changed`.
            ServerEvent::ServerReady(_)
            | ServerEvent::InputEnd(_)
            | ServerEvent::InputTimeout(_)
            | ServerEvent::ActionDone(_)
            | ServerEvent::InputDetected(_)
            | ServerEvent::SessionPong(_)
            | ServerEvent::SessionConnected(_) => {}
        }
    }

    fn state_changed(&mut self, changed: &StateChanged) {
        let led_by_us = self.is_internal() && self.follow.agreed() != State::Connecting;
        if led_by_us && changed.state_seq <= self.follow.seq() {
            // Only what was reported, come back.
            return;
        }
        self.follow.changed(changed.state, changed.state_seq, &changed.trigger);
        if changed.state != State::InvokeAction {
            self.calls.results.confirmed();
        }
    }

    /// The server heard the user interrupt: playback stops, and the server learns how far it was (VIP-031).
    fn overheard(&mut self, head: Head, barge_in: &InputBargeIn) {
        if matches!(self.state(), State::AiThinking | State::AiSpeaking) {
            self.barge_in(barge_in.trigger, head.turn_id, barge_in.confidence);
        }
    }

    fn problem(&mut self, head: &Head, error: ErrorBody) {
        let refused = error.ref_id.as_deref().or(head.reply_to.as_deref());
        match error.known() {
            Some(Code::CtxForbiddenState) => self.update_refused(),
            Some(Code::ProtoInvalidTransition | Code::ProtoNotInterruptible) => {}
            _ => {
                self.follow.refused(refused, None);
                return self.event(Event::Problem(error));
            }
        }
        let details = error.details.as_ref();
        let state = details.and_then(|details| details.get("state")).and_then(Value::as_str);
        let seq = details.and_then(|details| details.get("state_seq")).and_then(Value::as_u64);
        self.follow.refused(refused, state.and_then(State::from_name).zip(seq));
        self.event(Event::Problem(error));
    }

    /// The server gives up on the transport, and perhaps on the session.
    fn refused_for_good(&mut self, error: ErrorBody) {
        let code = error.known();
        let close = code.and_then(Code::close).unwrap_or(1000);
        if !error.retryable {
            self.over();
        }
        self.event(Event::Problem(error));
        self.outputs.push_back(Output::Close(1000));
        self.down(Cause::Closed(close));
    }
}
