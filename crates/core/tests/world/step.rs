//! What may happen next, drawn at random.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use switchboard_core::Role;

/// Somebody does something after a while.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) wait_ms: u64,
    /// None: somebody for whom it makes sense.
    pub(crate) actor: Option<Who>,
    pub(crate) act: Act,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    Owner,
    Contributor,
    Observer,
    Stranger,
    Worker,
    OtherWorker,
    Server,
}

/// One op, about things that are only known when it happens.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    Open,
    Admit { who: u8, role: Option<Role> },
    Attach { attachment: u8, generation: u32, window_ms: u64 },
    TakeOver { attachment: u8, right: bool },
    Link { attachment: u8, session: u8 },
    Detach { attachment: u8, late: bool },
    Close { attachment: u8, late: bool },
    Tools { add: Vec<(u8, Callee)>, remove: Vec<u8>, turn: Option<Pick> },
    Start(Task),
    Interrupt(Pick),
    Fail(Pick),
    Progress { turn: Pick, call: u8 },
    Answer { turn: Pick, call: u8, end: u8 },
    Claim(Pick),
    Emit { turn: Pick, stale: bool, output: u8 },
    Request { turn: Pick, stale: bool, call: u8, callee: Option<Callee>, millis: Option<u64> },
    Finish { turn: Pick, stale: bool, end: u8 },
    Lose { turn: Pick, continues: bool },
    Recover,
    Wake { on_time: bool },
}

/// A turn to start.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    /// A turn that was started before.
    pub(crate) again: Option<u8>,
    pub(crate) kind: u8,
    pub(crate) serial: bool,
    pub(crate) millis: Option<u64>,
    pub(crate) key: Option<(u8, u8)>,
    pub(crate) attachment: Option<u8>,
    pub(crate) bound: bool,
    pub(crate) parent: Option<u8>,
}

/// A turn.
#[derive(Clone, Debug)]
pub(crate) enum Pick {
    /// One that has not ended, if there is any.
    Live(u8),
    /// Any that was ever started, or one that never was.
    Any(u8),
}

#[derive(Clone, Debug)]
pub(crate) enum Callee {
    Agent,
    Attachment(u8),
    Owner,
    Contributor,
    Anyone,
}

/// Up to `most` steps.
pub(crate) fn steps(most: usize) -> impl Strategy<Value = Vec<Step>> {
    vec(step(), 1..most)
}

fn step() -> impl Strategy<Value = Step> {
    let wait = prop_oneof![6 => Just(0), 3 => 1..100u64, 1 => 100..3000u64];
    let actor = prop_oneof![5 => Just(None), 2 => who().prop_map(Some)];
    (wait, actor, act()).prop_map(|(wait_ms, actor, act)| Step { wait_ms, actor, act })
}

fn who() -> impl Strategy<Value = Who> {
    prop_oneof![
        Just(Who::Owner),
        Just(Who::Contributor),
        Just(Who::Observer),
        Just(Who::Stranger),
        Just(Who::Worker),
        Just(Who::OtherWorker),
        Just(Who::Server),
    ]
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        1 => Just(Act::Open),
        1 => (any::<u8>(), option::of(role())).prop_map(|(who, role)| Act::Admit { who, role }),
        3 => (any::<u8>(), 1..4u32, 0..3000u64)
            .prop_map(|(attachment, generation, window_ms)| Act::Attach { attachment, generation, window_ms }),
        2 => (any::<u8>(), prop::bool::weighted(0.8))
            .prop_map(|(attachment, right)| Act::TakeOver { attachment, right }),
        1 => (any::<u8>(), 0..4u8).prop_map(|(attachment, session)| Act::Link { attachment, session }),
        2 => (any::<u8>(), rarely()).prop_map(|(attachment, late)| Act::Detach { attachment, late }),
        1 => (any::<u8>(), rarely()).prop_map(|(attachment, late)| Act::Close { attachment, late }),
        3 => (vec((any::<u8>(), callee()), 0..3), vec(any::<u8>(), 0..3), option::weighted(0.2, pick()))
            .prop_map(|(add, remove, turn)| Act::Tools { add, remove, turn }),
        10 => task().prop_map(Act::Start),
        3 => pick().prop_map(Act::Interrupt),
        1 => pick().prop_map(Act::Fail),
        1 => (pick(), any::<u8>()).prop_map(|(turn, call)| Act::Progress { turn, call }),
        3 => (pick(), any::<u8>(), any::<u8>()).prop_map(|(turn, call, end)| Act::Answer { turn, call, end }),
        10 => pick().prop_map(Act::Claim),
        8 => (pick(), rarely(), any::<u8>()).prop_map(|(turn, stale, output)| Act::Emit { turn, stale, output }),
        8 => (pick(), rarely(), any::<u8>(), option::weighted(0.7, callee()), millis())
            .prop_map(|(turn, stale, call, callee, millis)| Act::Request { turn, stale, call, callee, millis }),
        4 => (pick(), rarely(), any::<u8>()).prop_map(|(turn, stale, end)| Act::Finish { turn, stale, end }),
        2 => (pick(), any::<bool>()).prop_map(|(turn, continues)| Act::Lose { turn, continues }),
        1 => Just(Act::Recover),
        3 => any::<bool>().prop_map(|on_time| Act::Wake { on_time }),
    ]
}

fn task() -> impl Strategy<Value = Task> {
    let key = option::weighted(0.3, (0..5u8, 0..2u8));
    let attachment = option::weighted(0.4, any::<u8>());
    let parent = option::weighted(0.2, any::<u8>());
    let again = option::weighted(0.1, any::<u8>());
    (again, any::<u8>(), prop::bool::weighted(0.6), millis(), key, attachment, any::<bool>(), parent)
        .prop_map(|(again, kind, serial, millis, key, attachment, bound, parent)| Task {
            again,
            kind,
            serial,
            millis,
            key,
            attachment,
            bound,
            parent,
        })
}

fn pick() -> impl Strategy<Value = Pick> {
    prop_oneof![5 => any::<u8>().prop_map(Pick::Live), 1 => any::<u8>().prop_map(Pick::Any)]
}

fn callee() -> impl Strategy<Value = Callee> {
    prop_oneof![
        Just(Callee::Agent),
        any::<u8>().prop_map(Callee::Attachment),
        Just(Callee::Owner),
        Just(Callee::Contributor),
        Just(Callee::Anyone),
    ]
}

fn role() -> impl Strategy<Value = Role> {
    prop_oneof![
        Just(Role::Owner),
        Just(Role::Contributor),
        Just(Role::Observer),
        Just(Role::Agent),
        Just(Role::Device),
        Just(Role::Orchestrator),
    ]
}

fn millis() -> impl Strategy<Value = Option<u64>> {
    option::weighted(0.7, 0..5000u64)
}

fn rarely() -> impl Strategy<Value = bool> {
    prop::bool::weighted(0.15)
}
