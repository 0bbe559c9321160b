//! What holds for every conversation.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::json;
use switchboard_alicia::Body;
use switchboard_alicia::annals::{Annals, join};
use switchboard_alicia::deed::{Deed, Luggage, Wishes};
use switchboard_core::model::{
    Actor, CallEnd, CallError, CallKind, Executor, FailureKind, Import, Op, Output, Parent, Part, Remembered,
    Standing, TurnEnd, TurnOutcome, Voice,
};

use crate::support::{CONVERSATION, Rows, World, chat, names, well_formed, worker};

/// One thing that somebody tries; what makes no sense at that moment is refused by the session.
#[derive(Clone, Debug)]
enum Step {
    Say { streaming: bool, foreign: bool },
    Claim,
    Text(String),
    Reasoning(String),
    Remember(u8),
    Call { here: bool },
    Answer { ok: bool },
    Stop,
    Finish(u8),
    Lose,
    Import,
    Edit,
    Tip,
    Rename,
    Archive(bool),
    Prefer(bool),
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (any::<bool>(), prop::bool::weighted(0.2)).prop_map(|(streaming, foreign)| Step::Say { streaming, foreign }),
        4 => Just(Step::Claim),
        8 => "([A-Z][a-z]{0,6}[.!?]?[ \n]{0,2}){1,6}".prop_map(Step::Text),
        3 => "([a-z ]{0,20}\n{0,2}){1,4}".prop_map(Step::Reasoning),
        2 => (0_u8..4).prop_map(Step::Remember),
        3 => any::<bool>().prop_map(|here| Step::Call { here }),
        3 => any::<bool>().prop_map(|ok| Step::Answer { ok }),
        2 => Just(Step::Stop),
        3 => (0_u8..4).prop_map(Step::Finish),
        1 => Just(Step::Lose),
        1 => Just(Step::Import),
        1 => Just(Step::Edit),
        1 => Just(Step::Tip),
        1 => Just(Step::Rename),
        1 => prop::bool::weighted(0.3).prop_map(Step::Archive),
        1 => any::<bool>().prop_map(Step::Prefer),
        2 => (1_u64..40_000).prop_map(Step::Wait),
    ]
}

#[derive(Default)]
struct Counters {
    turn: usize,
    call: usize,
    import: usize,
}

fn act(world: &mut World, step: Step, counters: &mut Counters) {
    let turn = format!("t{}", counters.turn);
    let call = format!("c{}", counters.call);
    let (client, fence) = (Actor::client("ann".into()), world.fence(&turn));
    let emit = |output| Op::Emit { turn: turn.as_str().into(), fence, output };
    let (actor, op) = match step {
        Step::Say { streaming, foreign } => {
            counters.turn += 1;
            let turn = format!("t{}", counters.turn);
            let place = switchboard_core::model::Place {
                names: if foreign { Default::default() } else { names(&turn) },
                supersedes: !foreign,
                ..Default::default()
            };
            let mut new = chat(&turn, "question", place);
            new.origin.options = Wishes { streaming, ..Wishes::default() }.to_options();
            new.deadline = world.now.after(std::time::Duration::from_secs(100));
            (client, Op::StartTurn(Box::new(new)))
        }
        Step::Claim => (worker(), Op::Claim { turn: turn.as_str().into(), relayed: false }),
        Step::Text(text) => (worker(), emit(Output::Text(text))),
        Step::Reasoning(text) => (worker(), emit(Output::Reasoning(text))),
        Step::Remember(number) => {
            let memory = format!("amem_{number}");
            let remembered = Remembered { memory, content: "tea".into(), relevance: 0.8, source: None };
            (worker(), emit(Output::Remembered(remembered)))
        }
        Step::Call { here } => {
            counters.call += 1;
            let request = switchboard_core::model::CallRequest {
                id: format!("c{}", counters.call).as_str().into(),
                kind: CallKind::Tool { name: "clock".into(), args: json!({"tz": "UTC"}).into() },
                executor: Some(if here { Executor::Agent } else { Executor::Anyone }),
                deadline: world.now.after(std::time::Duration::from_secs(30)),
                batch: None,
                options: json!(null).into(),
            };
            (worker(), Op::Request { turn: turn.as_str().into(), fence, calls: vec![request] })
        }
        Step::Answer { ok } => {
            let error = || CallEnd::Failed(CallError::new("execution_error", "no"));
            let end = if ok { CallEnd::done(json!(1)) } else { error() };
            let answer = Op::Answer { turn: turn.as_str().into(), call: call.as_str().into(), end };
            world.try_ask(&client, &answer);
            (worker(), answer)
        }
        Step::Stop => (client, Op::Interrupt { turn: turn.as_str().into(), reason: None }),
        Step::Finish(how) => {
            let end = match how {
                0 => TurnEnd::failed(FailureKind::Execution, "broken"),
                1 => TurnEnd::new(TurnOutcome::Expired),
                _ => TurnEnd::complete(),
            };
            (worker(), Op::Finish { turn: turn.as_str().into(), fence, end })
        }
        Step::Lose => (Actor::server(), Op::Lose { turn: turn.as_str().into(), continues: false }),
        Step::Import => {
            counters.import += 1;
            let luggage = Luggage { local_id: Some("local".into()), number: Some(5), ..Luggage::default() };
            let import = Import {
                id: format!("am_i{}", counters.import).as_str().into(),
                parent: Parent::Tip,
                voice: if counters.import.is_multiple_of(2) { Voice::Agent } else { Voice::User },
                text: "offline".into(),
                meta: luggage.to_meta(),
            };
            (client, Op::Import(Box::new(import)))
        }
        Step::Edit => {
            let message = format!("am_{turn}_out").as_str().into();
            (client, Op::Edit { message, parts: vec![Part::Text("edited".into())] })
        }
        Step::Tip => (client, Op::MoveTip { tip: format!("am_{turn}_in").as_str().into() }),
        Step::Rename => (client, Op::Rename { name: format!("title {turn}") }),
        Step::Archive(away) => (client, Op::Stand(if away { Standing::Archived } else { Standing::Active })),
        Step::Prefer(reasoning) => {
            let preferences = serde_json::Map::from_iter([("enable_reasoning".to_owned(), json!(reasoning))]);
            let record = Deed::Preferred { preferences }.to_record();
            (client, Op::Record { chronicle: "alicia".into(), record })
        }
        Step::Wait(millis) => {
            world.pass(millis);
            (Actor::server(), Op::Wake)
        }
    };
    world.try_ask(&actor, &op);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn annals_are_dense_deterministic_and_can_be_resumed(steps in prop::collection::vec(step(), 1..80)) {
        let mut world = World::new();
        let mut counters = Counters::default();
        for step in steps {
            act(&mut world, step, &mut counters);
        }
        world.entries.iter().for_each(well_formed);

        // A reader that is put away and taken up again behind every event says the same, and so does one
        // that does not care for rows.
        let (mut resumed, mut reader) = (Annals::new(&CONVERSATION.into()), Annals::new(&CONVERSATION.into()));
        let (mut said, mut read, mut rows) = (Vec::new(), Vec::new(), Rows::default());
        for committed in &world.events {
            let page = resumed.take(committed);
            page.records.iter().for_each(|record| rows.apply(record));
            said.extend(page.entries);
            let page = reader.follow(committed);
            prop_assert!(page.records.is_empty());
            read.extend(page.entries);
            let state = resumed.state();
            let restored = Annals::restore(&state);
            prop_assert_eq!(restored.as_ref(), Some(&resumed));
            resumed = restored.unwrap();
        }
        prop_assert_eq!(&said, &world.entries);
        prop_assert_eq!(&read, &world.entries);
        prop_assert_eq!(&rows, &world.rows);
        prop_assert_eq!(&reader, &world.annals);

        // Stanzas are dense, side entries stand behind the last.
        let (mut head, mut ordinal) = (0, 0);
        for entry in &world.entries {
            (head, ordinal) = if entry.is_aside() { (head, ordinal + 1) } else { (head - 1, 0) };
            prop_assert_eq!((entry.stanza, entry.ordinal), (head, ordinal));
        }
        prop_assert_eq!(world.annals.head(), head);
        answers_are_complete(&world)?;
    }
}

/// AL-046, AL-047, AL-048, AL-050, AL-052, AL-072: each answer that has begun has one final sentence, its
/// last, once its turn is over, and is never told whole as well, unless it is edited.
fn answers_are_complete(world: &World) -> Result<(), TestCaseError> {
    let live: Vec<&str> = world
        .annals
        .live_answers()
        .filter(|(_, answer)| !answer.is_settled())
        .map(|(_, answer)| answer.id().as_str())
        .collect();
    let mut begun: BTreeMap<&str, (u32, bool, String)> = BTreeMap::new();
    for entry in &world.entries {
        match &entry.envelope.body {
            Body::StartAnswer(start) => {
                let first = begun.insert(start.id.as_str(), (0, false, String::new()));
                prop_assert!(first.is_none(), "one start for {}", start.id);
            }
            Body::AssistantSentence(sentence) => {
                let answer = begun.get_mut(sentence.previous_id.as_str());
                prop_assert!(answer.is_some(), "a start comes first");
                let (count, over, text) = answer.unwrap();
                prop_assert!(!*over, "nothing follows the final sentence");
                prop_assert_eq!(sentence.sequence, *count + 1);
                (*count, *over) = (sentence.sequence, sentence.is_final);
                join(text, &sentence.text.0);
            }
            _ => {}
        }
    }
    for (id, (_, over, text)) in begun {
        prop_assert_eq!(over, !live.contains(&id), "{}", id);
        let row = world.rows.message(id);
        let stored = crate::support::text(row, "contents");
        prop_assert!(!over || stored == text || stored == "edited", "{stored:?} {text:?}");
        let status = crate::support::text(row, "completion_status");
        prop_assert_eq!(status == "streaming", !over, "{} {}", id, status);
    }
    Ok(())
}
