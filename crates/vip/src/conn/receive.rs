//! What comes in: in order, not too fast, and only where the state allows it (§6, §10.3).

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use switchboard_core::{Bucket, Frame, Rate, Timestamp};

use crate::audio::{AudioFrame, Direction};
use crate::codec::{self, Malformed};
use crate::error::{Code, Fault};
use crate::limits::VipLimits;
use crate::matrix::State;
use crate::message::{ClientEvent, Head, MuteTarget, ServerEvent, SessionPong, Update};
use crate::minutes::Minutes;

use super::outgoing::About;
use super::{Kind, Phase, VipConnection};

/// What is remembered of what came in.
#[derive(Debug)]
pub(super) struct Incoming {
    /// The session as it was before this transport.
    pub(super) before: Option<Box<Minutes>>,
    /// A response of an earlier transport that has not ended.
    pub(super) abandoned: Option<String>,
    /// Whether the client was told everything that it has missed.
    pub(super) greeted: bool,
    /// Whether the app has told on this transport what is on the screen.
    pub(super) pictured: bool,
    /// Whether the provider is there, in internal mode.
    pub(super) attached: bool,
    /// Whether the introduction was given, or is not due.
    pub(super) introduced: bool,
    pub(super) violations: Strikes,
    /// How often audio may be complained about, so that one mistake is not told fifty times a second.
    pub(super) complaints: Bucket,
    early: VecDeque<Frame>,
    last_seq: Option<u64>,
    /// Messages since then whose number could not be read.
    unread: u64,
    events: Bucket,
    updates: Bucket,
    malformed: Strikes,
    floods: Floods,
}

impl Incoming {
    pub(super) fn new(limits: &VipLimits) -> Self {
        Self {
            before: None,
            abandoned: None,
            greeted: false,
            pictured: false,
            attached: false,
            introduced: false,
            violations: Strikes::new(5),
            complaints: Bucket::new(Rate::per_second(1, 10)),
            early: VecDeque::new(),
            last_seq: None,
            unread: 0,
            events: Bucket::new(Rate::per_second(limits.events.into(), limits.events_burst.into())),
            updates: Bucket::new(Rate::per_second(limits.updates.into(), limits.updates.into())),
            malformed: Strikes::new(3),
            floods: Floods::new(limits),
        }
    }

    pub(super) fn take_early(&mut self) -> VecDeque<Frame> {
        std::mem::take(&mut self.early)
    }
}

/// Counts what must not happen too often in a minute.
#[derive(Debug)]
pub(super) struct Strikes {
    most: usize,
    times: VecDeque<Timestamp>,
}

impl Strikes {
    const fn new(most: usize) -> Self {
        Self { most, times: VecDeque::new() }
    }

    /// Counts one more; whether that was one too many.
    pub(super) fn strike(&mut self, now: Timestamp) -> bool {
        self.times.push_back(now);
        while self.times.front().is_some_and(|at| now.since(*at) > MINUTE) {
            self.times.pop_front();
        }
        self.times.len() >= self.most
    }
}

/// What came too fast. A burst of many messages is one episode: it counts once, however many are refused in it.
#[derive(Debug)]
struct Floods {
    strikes: Strikes,
    /// When an episode of each kind was last counted.
    counted: BTreeMap<&'static str, Timestamp>,
    /// How often a refusal is told; an episode does not answer without end.
    answers: Bucket,
}

impl Floods {
    fn new(limits: &VipLimits) -> Self {
        Self {
            strikes: Strikes::new(3),
            counted: BTreeMap::new(),
            answers: Bucket::new(Rate::per_second(limits.events.into(), limits.events_burst.into())),
        }
    }

    /// Whether this is the first refusal of an episode: the first of its kind within a second.
    fn begins(&mut self, code: Code, now: Timestamp) -> bool {
        let begins = self.counted.get(code.name()).is_none_or(|at| now.since(*at) >= EPISODE);
        if begins {
            self.counted.insert(code.name(), now);
        }
        begins
    }
}

impl VipConnection {
    pub(super) fn receive(&mut self, frame: Frame) {
        match self.phase {
            Phase::Over => return,
            Phase::Greeting => {}
            Phase::Live if self.incoming.greeted => {}
            Phase::Opening | Phase::Admitting | Phase::Live => {
                if self.incoming.early.len() >= MOST_EARLY {
                    return self.fail(&Fault::new(Code::RateEvents).fatally());
                }
                return self.incoming.early.push_back(frame);
            }
        }
        match frame {
            Frame::Text(text) => self.receive_text(&text),
            Frame::Binary(_) if self.kind != Kind::Stream => {
                self.complain(&Fault::new(Code::ProtoBadAudioFrame).because("no audio is carried here"));
            }
            Frame::Binary(bytes) => match AudioFrame::decode(bytes) {
                Ok(frame) => self.hear(&frame),
                Err(why) => self.bad_audio(why.to_string()),
            },
            Frame::Media(packet) => self.hear_track(packet),
            Frame::Pong(_) => self.deadlines.answered(),
            // The transport answers pings by itself.
            Frame::Ping(_) | Frame::Head(_) => {}
        }
    }

    fn receive_text(&mut self, text: &str) {
        let largest = match self.kind {
            Kind::Peer => self.limits.channel_bytes,
            Kind::Stream | Kind::Control => self.limits.text_bytes,
        };
        if text.len() > largest as usize {
            return self.fail(&Fault::new(Code::ProtoTooLarge));
        }
        let decoded = codec::decode_client(text);
        let seq = match &decoded {
            Ok((head, _)) => Some(head.seq),
            Err(Malformed { head, .. }) => head.as_ref().map(|head| head.seq),
        };
        match (seq, self.incoming.last_seq) {
            // It may have been counted by its sender, or not.
            (None, _) => self.incoming.unread += 1,
            (Some(seq), Some(last)) if seq <= last => return,
            (Some(seq), Some(last)) if seq > last + 1 + self.incoming.unread => {
                return self.fail(&Fault::new(Code::ProtoSeqGap));
            }
            (Some(seq), Some(_) | None) => {
                self.incoming.last_seq = Some(seq);
                self.incoming.unread = 0;
            }
        }
        if let Err(wait) = self.incoming.events.take(1, self.now) {
            let event_id = match &decoded {
                Ok((head, _)) => Some(head.id.as_str()),
                Err(Malformed { head, .. }) => head.as_ref().map(|head| head.id.as_str()),
            };
            return self.flooded(event_id, wait);
        }
        match decoded {
            Ok((head, event)) => self.dispatch(head, event),
            Err(Malformed { fault, .. }) if fault.code == Code::ProtoMalformed => {
                let fault = if self.incoming.malformed.strike(self.now) { fault.fatally() } else { fault };
                self.complain(&fault);
            }
            Err(Malformed { fault, .. }) => self.complain(&fault),
        }
    }

    /// An event came too fast, and was not looked at: its sender is told which one.
    fn flooded(&mut self, event_id: Option<&str>, wait: Duration) {
        let begins = self.incoming.floods.begins(Code::RateEvents, self.now);
        if begins || self.incoming.floods.answers.take(1, self.now).is_ok() {
            self.refuse_flood(Code::RateEvents, event_id, wait, begins);
        }
    }

    /// Audio came too fast, and was dropped: told once an episode, not once a frame.
    pub(super) fn flooded_audio(&mut self, wait: Duration) {
        if self.incoming.floods.begins(Code::RateAudio, self.now) {
            self.refuse_flood(Code::RateAudio, None, wait, true);
        }
    }

    fn refuse_flood(&mut self, code: Code, event_id: Option<&str>, wait: Duration, counts: bool) {
        let wait = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).max(1);
        let fault = Fault::new(code).after(wait);
        let fault = if let Some(event_id) = event_id { fault.about(event_id) } else { fault };
        let fatal = counts && self.incoming.floods.strikes.strike(self.now);
        self.complain(&if fatal { fault.fatally() } else { fault });
    }

    fn dispatch(&mut self, head: Head, event: ClientEvent) {
        if let ClientEvent::ClientConnect(hello) = event {
            return self.connect(&head, *hello);
        }
        if self.phase == Phase::Greeting {
            if let ClientEvent::Error(error) = &event {
                self.client_error(error);
            } else if !matches!(event, ClientEvent::SessionClose(_)) {
                self.invalid(&head.id, "client.connect has to be first");
            }
            return;
        }
        if !matches!(event, ClientEvent::SessionPing(_)) {
            self.deadlines.active(self.now);
        }
        let Some(event) = self.dispatch_common(&head, event) else { return };
        if self.kind == Kind::Control {
            self.dispatch_control(&head, event)
        } else {
            self.dispatch_stream(head, event)
        }
    }

    /// What is said on every transport; whatever else it is comes back.
    fn dispatch_common(&mut self, head: &Head, event: ClientEvent) -> Option<ClientEvent> {
        if let ClientEvent::StateUpdate(Update(update)) = event {
            match self.incoming.updates.take(1, self.now) {
                Ok(()) => self.state_update(head, &update),
                Err(wait) => self.flooded(Some(&head.id), wait),
            }
            return None;
        }
        if let ClientEvent::SessionPing(ping) = event {
            let server_ts = self.now.as_millis();
            let pong = ServerEvent::SessionPong(SessionPong { nonce: ping.nonce, server_ts });
            self.deadlines.answered();
            self.say(&pong, About { reply_to: Some(head.id.clone()), ..About::default() });
            return None;
        }
        if let ClientEvent::SessionClose(close) = event {
            self.hang_up(close.reason);
            return None;
        }
        if let ClientEvent::ControlMute(mute) = event {
            if mute.target == MuteTarget::Output {
                self.muted = mute.muted;
            }
            return None;
        }
        if let ClientEvent::Error(error) = event {
            self.client_error(&error);
            return None;
        }
        Some(event)
    }

    fn dispatch_stream(&mut self, head: Head, event: ClientEvent) {
        if self.state() == State::Connecting {
            return self.invalid(&head.id, "the session is not ready yet");
        }
        match event {
            ClientEvent::InputStart(start) => self.input_start(&head, start),
            ClientEvent::InputText(text) => self.input_text(&head, text),
            ClientEvent::InputEnd(end) => self.input_end(&head, end),
            ClientEvent::InputCancel(cancel) => self.input_cancel(&head, cancel),
            ClientEvent::InputTimeout(timeout) => self.input_timeout(&head, timeout),
            ClientEvent::InputBargeIn(barge_in) => self.barge_in(&head, &barge_in),
            ClientEvent::AudioProgress(progress) => self.progressed(&progress),
            ClientEvent::AudioComplete(complete) => self.audio_complete(&complete),
            ClientEvent::ActionAck(ack) => self.action_ack(&ack),
            ClientEvent::ActionResult(result) => self.action_result(&head, *result),
            ClientEvent::SessionUpdate(update) => self.session_update(&head, &update),
            ClientEvent::AudioChunk(chunk) => match chunk.into_frame(Direction::Input) {
                Ok(frame) if self.settings.framing == "base64" => self.hear(&frame),
                Ok(_) => self.bad_audio("audio travels in binary frames here".to_owned()),
                Err(why) => self.bad_audio(why.to_string()),
            },
            // A notice only.
            ClientEvent::InputDetected(_) => {}
            ClientEvent::StateReport(_)
            | ClientEvent::ProviderAttached(_)
            | ClientEvent::HistoryAppend(_)
            | ClientEvent::FunctionCall(_) => self.invalid(&head.id, "this is said in internal mode only"),
            ClientEvent::ClientConnect(_)
            | ClientEvent::StateUpdate(_)
            | ClientEvent::SessionPing(_)
            | ClientEvent::SessionClose(_)
            | ClientEvent::ControlMute(_)
            | ClientEvent::Error(_) => {}
        }
    }
}

const MINUTE: Duration = Duration::from_secs(60);
/// Refusals of one kind that are no further apart belong together.
const EPISODE: Duration = Duration::from_secs(1);
/// Frames that may come before the session is known.
const MOST_EARLY: usize = 256;
