//! One connection's voice.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use switchboard_core::{Dumb, Unheard, VoiceEvent, VoiceOp, VoiceSettings};
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep_until};

use super::ear::{Ear, Sign};
use super::inbox::{Asked, Inbox, LONGEST_RESPONSE};
use super::mouth::Mouth;
use super::outlet::Outlet;
use super::speaker::{Speaker, Words};
use super::transcriber::{MOST_WORK, Transcriber, Work};
use crate::audio::{Packer, Unpacker};
use crate::hear::Hints;
use crate::house::Voices;

/// Listens and speaks for one connection, until it is dropped.
pub struct Voice {
    inbox: Arc<Inbox>,
    outlet: Arc<Outlet>,
    task: AbortHandle,
}

impl Voice {
    pub(crate) fn open(house: Arc<Voices>, deliver: impl Fn(VoiceEvent) + Send + Sync + 'static) -> Self {
        let inbox = Arc::new(Inbox::default());
        let outlet = Arc::new(Outlet::new(deliver));
        let body = Body::new(house, Arc::clone(&outlet));
        let task = tokio::spawn(body.run(Arc::clone(&inbox))).abort_handle();
        Self { inbox, outlet, task }
    }

    /// Asks for something, and never waits for it. Whatever comes of it is delivered later.
    pub fn ask(&self, op: VoiceOp) {
        if let VoiceOp::Hush { response } = &op {
            self.outlet.hush(*response);
        }
        self.inbox.put(op);
    }
}

impl Drop for Voice {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl fmt::Debug for Voice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Voice").field("outlet", &self.outlet).finish_non_exhaustive()
    }
}

/// What does what was asked: one task for each voice.
struct Body {
    house: Arc<Voices>,
    outlet: Arc<Outlet>,
    settings: VoiceSettings,
    /// What may well be said next.
    hints: Arc<Hints>,
    unpacker: Option<Unpacker>,
    ear: Ear,
    overhearing: bool,
    turn: Option<Turn>,
    response: Option<Response>,
    /// One more than the last response that was begun.
    responses: u64,
    /// Holds back a response while somebody may be speaking.
    held: watch::Sender<bool>,
    /// When the last packet came.
    heard_at: Instant,
    /// Those that understand turns and speak responses; they end with this.
    helpers: JoinSet<()>,
    samples: Vec<f32>,
    signs: Vec<Sign>,
}

/// The turn that is listened to.
struct Turn {
    number: u64,
    work: mpsc::Sender<Work>,
    silence: Option<Duration>,
    good: u64,
    bad: u64,
    lost: bool,
}

/// The response that is being said.
struct Response {
    number: u64,
    words: mpsc::UnboundedSender<Words>,
    task: AbortHandle,
    bytes: usize,
}

impl Body {
    fn new(house: Arc<Voices>, outlet: Arc<Outlet>) -> Self {
        let settings = usual_settings();
        let unpacker = Unpacker::new(settings.input).ok();
        Self {
            house,
            outlet,
            settings,
            hints: Arc::default(),
            unpacker,
            ear: Ear::new(),
            overhearing: false,
            turn: None,
            response: None,
            responses: 0,
            held: watch::Sender::new(false),
            heard_at: Instant::now(),
            helpers: JoinSet::new(),
            samples: Vec::new(),
            signs: Vec::new(),
        }
    }

    async fn run(mut self, inbox: Arc<Inbox>) {
        loop {
            while let Some(asked) = inbox.take() {
                match asked {
                    Asked::Op(op) => self.act(op),
                    Asked::Lost => self.lose(),
                }
                // Whoever asks without end is not the only one here.
                tokio::task::consume_budget().await;
            }
            while self.helpers.try_join_next().is_some() {}
            let quiet_at = self.quiet_at();
            let quiet = async {
                match quiet_at {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = inbox.filled() => {}
                () = quiet => {
                    self.held.send_replace(false);
                    self.ear.give_up(&mut self.signs);
                    self.heed();
                }
            }
        }
    }

    fn act(&mut self, op: VoiceOp) {
        match op {
            VoiceOp::Settle(settings) => self.settle(*settings),
            VoiceOp::Expect(labels) => self.hints = Arc::new(Hints::new(labels.0.iter().map(String::as_str))),
            VoiceOp::Listen { turn, silence_ms, overheard } => self.listen(turn, silence_ms, overheard),
            VoiceOp::Packet(packet) => self.hear(&packet),
            VoiceOp::Overhear(whether) => self.overhear(whether),
            VoiceOp::Conclude { turn } => self.conclude(turn),
            VoiceOp::Forget { turn } => {
                if self.turn.take_if(|current| current.number == turn).is_some() {
                    self.ear.conclude();
                    self.ear.overhear(self.overhearing);
                }
            }
            VoiceOp::Say { response, text, last } => self.say(response, text.0, last),
            VoiceOp::Hush { response } => {
                if let Some(hushed) = self.response.take_if(|current| current.number <= response) {
                    hushed.task.abort();
                }
                self.held.send_replace(false);
            }
        }
    }

    fn settle(&mut self, settings: VoiceSettings) {
        if settings.input != self.settings.input || self.unpacker.is_none() {
            self.unpacker = Unpacker::new(settings.input).ok();
        }
        self.settings = settings;
    }

    fn listen(&mut self, number: u64, silence_ms: Option<u32>, overheard: bool) {
        let (work, orders) = mpsc::channel(MOST_WORK);
        let transcriber = Transcriber {
            turn: number,
            language: self.settings.language.clone(),
            hints: Arc::clone(&self.hints),
            hearing: self.house.hearing(),
            outlet: Arc::clone(&self.outlet),
        };
        self.helpers.spawn(transcriber.run(orders));
        self.turn = Some(Turn {
            number,
            work,
            silence: silence_ms.map(|ms| Duration::from_millis(ms.into())),
            good: 0,
            bad: 0,
            lost: false,
        });
        self.heard_at = Instant::now();
        self.held.send_replace(false);
        self.ear.listen(silence_ms, overheard, &mut self.signs);
        self.heed();
    }

    fn overhear(&mut self, whether: bool) {
        self.overhearing = whether;
        self.ear.overhear(whether);
        if !whether {
            self.held.send_replace(false);
        }
    }

    fn hear(&mut self, packet: &Bytes) {
        self.heard_at = Instant::now();
        let Some(unpacker) = &mut self.unpacker else {
            if let Some(turn) = &mut self.turn {
                turn.bad += 1;
            }
            return;
        };
        self.samples.clear();
        let unpacked = unpacker.unpack(packet, &mut self.samples);
        if let Some(turn) = &mut self.turn {
            match unpacked {
                Ok(()) => turn.good += 1,
                Err(_) => turn.bad += 1,
            }
        }
        self.ear.hear(&self.samples, &mut self.signs);
        self.heed();
    }

    fn lose(&mut self) {
        if let Some(turn) = &mut self.turn {
            turn.lost = true;
        }
    }

    /// Does what follows from what the ear has noticed.
    fn heed(&mut self) {
        let turn = self.turn.as_ref();
        for sign in self.signs.drain(..) {
            match sign {
                Sign::Suspected => {
                    self.held.send_replace(true);
                }
                Sign::Relieved => {
                    self.held.send_replace(false);
                }
                Sign::Speech { confidence, level_db } => {
                    let turn = turn.map(|turn| turn.number);
                    self.outlet.tell(VoiceEvent::Speech { turn, confidence, level_db });
                }
                Sign::Silence => {
                    if let Some(turn) = turn {
                        self.outlet.tell(VoiceEvent::Silence { turn: turn.number });
                    }
                }
                Sign::Piece(piece) => {
                    if let Some(turn) = turn {
                        // There is room for all pieces of a turn.
                        let _ = turn.work.try_send(Work::Piece(piece));
                    }
                }
                Sign::Interim => {
                    if let (Some(turn), Some(tail)) = (turn, self.ear.tail()) {
                        // A guess that nobody has the time for is not made.
                        let _ = turn.work.try_send(Work::Interim(tail));
                    }
                }
            }
        }
    }

    fn conclude(&mut self, number: u64) {
        let Some(turn) = self.turn.take_if(|turn| turn.number == number) else {
            let why = Unheard::NoSpeech;
            self.outlet.tell(VoiceEvent::Unheard { turn: number, why });
            return;
        };
        let ending = self.ear.conclude();
        self.ear.overhear(self.overhearing);
        let work = if turn.lost {
            Work::Spoil(Unheard::Audio("the audio came faster than it could be heard".into()))
        } else if turn.good == 0 && turn.bad > 0 {
            Work::Spoil(Unheard::Audio("the audio is not of its format".into()))
        } else {
            Work::Conclude(ending, Instant::now())
        };
        if turn.work.try_send(work).is_err() {
            let why = Unheard::Unavailable("too much waits to be understood".into());
            self.outlet.tell(VoiceEvent::Unheard { turn: number, why });
        }
    }

    fn say(&mut self, number: u64, text: String, last: bool) {
        if self.outlet.is_hushed(number) {
            return;
        }
        if number >= self.responses {
            self.responses = number.saturating_add(1);
            if !self.begin(number) {
                return;
            }
        }
        let Some(response) = self.response.as_mut().filter(|current| current.number == number) else {
            return;
        };
        response.bytes += text.len();
        if response.bytes > LONGEST_RESPONSE {
            response.task.abort();
            self.response = None;
            let why = Dumb::Failed("the answer is too long to be spoken".into());
            self.outlet.say(number, VoiceEvent::Mute { response: number, why });
            return;
        }
        // One that has ended already, since it could not speak, takes no more words.
        let _ = response.words.send(Words::Text(text));
        if last {
            let _ = response.words.send(Words::End);
        }
    }

    /// Begins a response in place of the one before; false if it cannot be spoken.
    fn begin(&mut self, number: u64) -> bool {
        if let Some(before) = self.response.take() {
            before.task.abort();
        }
        let mute = |why| {
            self.outlet.say(number, VoiceEvent::Mute { response: number, why });
            false
        };
        let speaking = match self.house.speaking() {
            Ok(speaking) => speaking,
            Err(missing) => return mute(Dumb::Unavailable(missing)),
        };
        let packer = match Packer::new(self.settings.output, self.settings.packet_ms) {
            Ok(packer) => packer,
            Err(error) => return mute(Dumb::Failed(error.to_string())),
        };
        let mouth = Mouth::new(packer, Duration::from_millis(self.settings.lead_ms.into()));
        let (words, text) = mpsc::unbounded_channel();
        let speaker = Speaker {
            response: number,
            language: self.settings.language.clone(),
            voice: self.settings.voice.clone(),
            speaking,
            outlet: Arc::clone(&self.outlet),
        };
        let task = self.helpers.spawn(speaker.run(mouth, text, self.held.subscribe()));
        self.response = Some(Response { number, words, task, bytes: 0 });
        true
    }

    /// When it counts as silence that nothing comes any more: some send nothing while nobody speaks.
    fn quiet_at(&self) -> Option<Instant> {
        match &self.turn {
            Some(turn) if self.ear.awaits_silence() => Some(self.heard_at + turn.silence? + JITTER),
            None if *self.held.borrow() => Some(self.heard_at + JITTER),
            Some(_) | None => None,
        }
    }
}

fn usual_settings() -> VoiceSettings {
    use switchboard_core::AudioFormat::Pcm16;
    VoiceSettings {
        input: Pcm16 { rate: 16_000 },
        output: Pcm16 { rate: 24_000 },
        packet_ms: 20,
        lead_ms: 0,
        language: "en-US".into(),
        voice: None,
    }
}

/// How late a packet may come.
const JITTER: Duration = Duration::from_millis(400);
