//! A world in which everything happens in any order and goes wrong in every way, from one seed.
//!
//! Several principals with several clients (the real client halves of all protocols, on the same sessions)
//! and peers by hand invoke, interrupt, answer, pause and leave, while transports are cut, readers stall,
//! clocks jump, the log refuses and the server dies. After each step, and once more when everything has come to rest,
//! every [`Invariant`] is checked. What it finds is repeated exactly by the same seed.
//!
//! ```
//! use switchboard_testkit::{SimulationOptions, simulate};
//!
//! let report = simulate(7, &SimulationOptions { steps: 20, ..SimulationOptions::default() });
//! assert!(report.is_ok_and(|report| report.steps == 20));
//! ```

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use switchboard_asp::{Asp, AspLimits};
use switchboard_core::{Principal, SessionLimits, Timestamp};

mod acolyte;
mod actions;
mod aip;
mod alicia;
mod client;
mod expected;
mod facts;
mod faults;
mod guest;
mod guests;
mod ledger;
mod line;
mod random;
mod raw;
mod run;
mod stories;
mod tamper;
mod tap;
mod view;
mod vip;
mod wire;

use crate::script::Recovery;
use crate::world::{Order, PeerId, Settings, World};
use client::{Client, Ghost};
use guest::Guest;
pub(crate) use ledger::Ledger;
use random::Random;
use raw::Raw;
use tamper::Tamper;
pub(crate) use tap::weight;
use tap::{Tap, Tapped};

/// Runs one simulation.
///
/// # Errors
/// What was broken, and what had happened shortly before.
pub fn simulate(seed: u64, options: &SimulationOptions) -> Result<Report, Box<Failure>> {
    let mut simulation = Simulation::new(seed, options);
    let outcome = catch_unwind(AssertUnwindSafe(|| simulation.run(options)));
    let fault = match outcome {
        Ok(Ok(())) => return Ok(simulation.report(seed)),
        Ok(Err(fault)) => fault,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic");
            Fault::new(Invariant::NoPanic, text)
        }
    };
    Err(Box::new(Failure {
        seed,
        invariant: fault.invariant,
        detail: fault.detail,
        trace: simulation.trace.last.into(),
    }))
}

/// What a simulation is made of.
#[derive(Clone, Debug)]
pub struct SimulationOptions {
    /// Things that people do or that go wrong.
    pub steps: u32,
    /// Clients, spread over the principals.
    pub clients: usize,
    /// Peers by hand.
    pub raws: usize,
    /// Only this protocol is spoken; all of them otherwise.
    pub tongue: Option<Tongue>,
    /// Breaks the environment, to see whether that is noticed.
    pub mutation: Option<Mutation>,
}

impl Default for SimulationOptions {
    fn default() -> Self {
        Self { steps: 110, clients: 2, raws: 1, tongue: None, mutation: None }
    }
}

/// A protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tongue {
    /// The Agent Socket Protocol.
    Asp,
    /// Acolyte, over WebSocket.
    Acolyte,
    /// AIP: devices, and whoever gives them tasks.
    Aip,
    /// Alicia, over WebSocket.
    Alicia,
    /// VIP, over WebSocket and without audio.
    Vip,
}

/// What has to hold, whatever happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Invariant {
    /// Positions grow by one, per session and per connection that follows it.
    Positions,
    /// A turn has exactly one end, and nothing of it follows.
    OneEnd,
    /// Nothing of a turn follows its interrupt but its end.
    Silence,
    /// Every call has exactly one end, before its turn's.
    OneCallEnd,
    /// A client sees what the log says, each record once and in order, cut or not.
    SameView,
    /// A request has exactly one terminal frame, and nothing on its id follows.
    OneTerminal,
    /// Applying the log leads to the live state.
    Replay,
    /// What connections and sessions hold, and what waits, is bounded.
    Bounds,
    /// What a client was told is in the log, and stays there.
    Durable,
    /// A key, or a request without one, leads to one turn.
    OneExecution,
    /// Nobody sees words or identifiers of somebody else.
    Privacy,
    /// Nothing that a server writes into its logs has content in it.
    Quiet,
    /// Everything that was asked for ends, once nothing goes wrong any more.
    Rest,
    /// Nothing panics.
    NoPanic,
}

/// A way to break the environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mutation {
    /// A connection is not fed an event.
    SkipDelivery,
    /// A connection is fed an event twice.
    RepeatDelivery,
    /// The log misses an event.
    LoseEvent,
    /// The log says twice that a turn ended.
    EndTwice,
    /// The log does not say that a turn ended.
    NeverEnd,
    /// The log has output after an interrupt.
    SpeakAfterInterrupt,
    /// The log says twice that a call ended.
    EndCallTwice,
    /// The log does not say that a call ended.
    LoseCallEnd,
    /// A frame never arrives.
    LoseFrame,
    /// A frame arrives twice.
    RepeatFrame,
    /// The last frame of a request arrives twice.
    RepeatTerminal,
    /// The last frame of a request never arrives.
    LoseTerminal,
    /// An event is not applied.
    SkipApply,
    /// A connection keeps everything that it sends.
    Hoard,
    /// The log loses a turn that was accepted.
    ForgetTurn,
    /// A repeated request is executed again.
    RunTwice,
    /// A frame arrives at somebody else.
    Leak,
    /// A turn is named after what somebody said.
    Gossip,
    /// A connection panics.
    Panic,
}

/// What a simulation did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Its seed.
    pub seed: u64,
    /// Things that people did or that went wrong.
    pub steps: u32,
    /// Events in the log.
    pub events: u64,
    /// Turns.
    pub turns: usize,
    /// Turns by the protocol in which they were asked for.
    pub spoken: BTreeMap<String, u64>,
    /// Sessions.
    pub sessions: usize,
    /// Frames that clients received.
    pub frames: u64,
    /// Transports that were cut.
    pub cuts: u64,
    /// Crashes of the server.
    pub crashes: u64,
    /// Resumes that were granted.
    pub resumed: u64,
    /// Milliseconds that passed in the world.
    pub millis: u64,
    /// Changes with anything that happened.
    pub digest: u64,
    /// Whether the mutation found its opportunity.
    pub struck: bool,
    /// What happened last.
    pub trace: Vec<String>,
}

/// What a simulation found.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The seed that leads to it.
    pub seed: u64,
    /// What was broken.
    pub invariant: Invariant,
    /// How.
    pub detail: String,
    /// What had happened shortly before.
    pub trace: Vec<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.trace {
            writeln!(f, "  {line}")?;
        }
        writeln!(f, "seed {} breaks {:?}: {}", self.seed, self.invariant, self.detail)?;
        write!(
            f,
            "replay: SWITCHBOARD_SEED={} cargo test -p switchboard-testkit --test simulation one_seed -- --nocapture",
            self.seed
        )
    }
}

/// Something is wrong.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    invariant: Invariant,
    detail: String,
}

impl Fault {
    fn new(invariant: Invariant, detail: impl Into<String>) -> Self {
        Self { invariant, detail: detail.into() }
    }

    fn within(mut self, place: String) -> Self {
        self.detail = format!("{place}: {}", self.detail);
        self
    }
}

/// The last things that happened, and a number that depends on all of them.
#[derive(Debug)]
struct Trace {
    last: VecDeque<String>,
    digest: u64,
}

impl Trace {
    fn note(&mut self, now: Timestamp, what: fmt::Arguments<'_>) {
        let line = format!("{:>9} ms  {what}", now.since(start()).as_millis());
        self.mix(line.as_bytes());
        if self.last.len() == TRACE {
            self.last.pop_front();
        }
        self.last.push_back(line);
    }

    /// FNV-1a.
    fn mix(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.digest = (self.digest ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3);
        }
    }
}

/// One simulation under way.
#[derive(Debug)]
struct Simulation {
    random: Random,
    world: World,
    protocol: Tapped,
    tap: Tap,
    tamper: Tamper,
    ledger: Ledger,
    /// Events that the ledger has seen.
    fed: usize,
    limits: SessionLimits,
    principals: Vec<Principal>,
    clients: Vec<Client>,
    raws: Vec<Raw>,
    guests: Vec<Guest>,
    /// What guests speak; each as one process of the server knows it.
    protocols: BTreeMap<Tongue, Tapped>,
    ghosts: Vec<Ghost>,
    stalled: BTreeSet<PeerId>,
    restart_at: Option<Timestamp>,
    trace: Trace,
    tags: u64,
    steps: u32,
    frames: u64,
    cuts: u64,
    crashes: u64,
    resumed: u64,
}

impl Simulation {
    fn new(seed: u64, options: &SimulationOptions) -> Self {
        let mut random = Random::new(seed ^ 0x5357_4954_4348);
        let limits = SessionLimits {
            running_turns: 6,
            queued_turns: 6,
            open_calls: 4,
            ended_turns: 24,
            interrupt_grace: Duration::from_millis(200),
            ..SessionLimits::default()
        };
        let settings = Settings {
            seed: random.next(),
            order: Order::Seeded(random.next()),
            limits: limits.clone(),
            commit_ms: random.below(4),
            start: start(),
            ..Settings::default()
        };
        let mut world = World::with(settings);
        world.set_default_agent("steady", stories::agent(Recovery::Replay));
        world.add_agent("frail", stories::agent(Recovery::Fail));
        world.add_chronicler(switchboard_alicia::annals::Annalist);
        world.add_chronicler(switchboard_vip::minutes::Secretary);
        world.add_chronicler(switchboard_aip::ledger::Bookkeeper);
        let principals: Vec<Principal> = PRINCIPALS.into_iter().map(Principal::new).collect();
        // The last one keeps to itself.
        let owner = |index: usize| principals.get(index % (principals.len() - 1)).cloned();
        let asp = options.tongue.is_none_or(|tongue| tongue == Tongue::Asp);
        let (clients, raws) = if asp { (options.clients, options.raws) } else { (0, 0) };
        let clients = (0..clients).filter_map(owner).map(|owner| Client::new(owner, &mut random)).collect();
        let raws = (0..raws).filter_map(owner).map(Raw::new).collect();
        let guests = guests::invite(options.tongue, &principals, &mut random);
        let tap = Tap::new(options.mutation);
        Self {
            guests,
            protocols: guests::protocols(&tap),
            protocol: tap.protocol(Asp::new(asp_limits())),
            tap,
            tamper: Tamper::new(options.mutation),
            ledger: Ledger::new(limits.clone()),
            limits,
            fed: 0,
            world,
            principals,
            clients,
            raws,
            ghosts: Vec::new(),
            stalled: BTreeSet::new(),
            restart_at: None,
            trace: Trace { last: VecDeque::new(), digest: 0xCBF2_9CE4_8422_2325 },
            tags: 0,
            steps: 0,
            frames: 0,
            cuts: 0,
            crashes: 0,
            resumed: 0,
            random,
        }
    }

    /// The server starts as a new process, which knows nothing but its log.
    fn restart(&mut self) {
        self.restart_at = None;
        self.protocols = guests::protocols(&self.tap);
        self.world.restart();
    }

    fn note(&mut self, what: fmt::Arguments<'_>) {
        self.trace.note(self.world.now(), what);
    }

    fn report(&self, seed: u64) -> Report {
        Report {
            seed,
            steps: self.steps,
            events: self.ledger.events,
            turns: self.ledger.turns().count(),
            spoken: self.ledger.spoken(),
            sessions: self.ledger.sessions(),
            frames: self.frames,
            cuts: self.cuts,
            crashes: self.crashes,
            resumed: self.resumed,
            millis: u64::try_from(self.world.now().since(start()).as_millis()).unwrap_or(u64::MAX),
            digest: self.trace.digest,
            struck: self.tamper.struck,
            trace: self.trace.last.iter().cloned().collect(),
        }
    }
}

/// When every simulation begins.
const fn start() -> Timestamp {
    Timestamp::from_secs(1_767_225_600)
}

/// Small enough to be met often.
pub(crate) fn asp_limits() -> AspLimits {
    AspLimits {
        max_inflight: 5,
        max_inflight_bare: 4,
        window: 16 << 10,
        resume_s: 30,
        drain_s: 5,
        merge_above: 4 << 10,
        max_waiting: 96 << 10,
        max_sessions: 4,
        errors_burst: 20,
        ..AspLimits::default()
    }
}

/// What sessions are called that clients of several protocols share; `number` is small.
fn shared_name(number: u64) -> String {
    format!("sess_{number}")
}

const PRINCIPALS: [&str; 3] = ["ann", "bob", "eve"];
const TRACE: usize = 60;
