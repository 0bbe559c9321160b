//! INTERRUPT of requests whose output is held back (§9, §12.1).

use switchboard_asp::message::Features;
use switchboard_asp::{AspLimits, Frame, Opcode};
use switchboard_testkit::{Script, Settings, Step};

use crate::support::Talk;

/// Why the output of a request is not sent.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Hold {
    /// The client returns no credit.
    Credit,
    /// The client has paused it.
    Pause,
}

/// A request with so much output held back, whose turn runs or is over; cancelled on its own id or on 0.
fn cancel(hold: Hold, bytes: usize, over: bool, target: u16) {
    let fill = Step::Fill { bytes, piece: 4000 };
    let mut steps = vec![Step::Wait(10), fill];
    if !over {
        steps.push(Step::Hang);
    }
    let mut talk = Talk::new(Script::new().on("large", steps));
    talk.hello("flags events credit resume");
    talk.invoke(1, "large");
    if hold == Hold::Pause {
        talk.say(Opcode::Interrupt, 1, r#"{"mode":"pause"}"#);
    }
    talk.world.advance(2_500);
    let frames = talk.frames();
    assert!(!frames.iter().any(|frame| talk.is_terminal(frame)), "it is held");
    let interrupt = r#"{"mode":"cancel"}"#;
    talk.say(Opcode::Interrupt, target, interrupt);
    talk.world.advance(1_000);
    let ends: Vec<Frame> = talk.frames();
    let told = format!("{hold:?}, {bytes} bytes, over: {over}, #{target}");
    let [end] = &ends[..] else { panic!("{told}: one frame should follow, got {}", ends.len()) };
    assert_eq!(talk.json(end)["finish"], "interrupted", "{told}");
    // Whatever lets held output go brings nothing more.
    for release in [r#"{"mode":"credit","bytes":10000000}"#, r#"{"mode":"resume"}"#] {
        talk.say(Opcode::Interrupt, 1, release);
    }
    talk.world.advance(5_000);
    assert_eq!(talk.frames(), [], "{told}");
}

#[test]
fn asp_086_a_cancelled_request_whose_output_is_held_ends_as_interrupted() {
    // Waiting in the connection; left in the log.
    for bytes in [400_000, 784_000] {
        for over in [false, true] {
            for target in [0, 1] {
                cancel(Hold::Credit, bytes, over, target);
                cancel(Hold::Pause, bytes, over, target);
            }
        }
    }
}

#[test]
fn asp_086_a_turn_that_completes_while_its_interrupt_is_under_way_does_not_end_with_text_missing() {
    let steps = vec![Step::Text("a".into()), Step::Wait(100), Step::Text("b".into())];
    let settings = Settings { commit_ms: 200, ..Settings::default() };
    let mut talk = Talk::with(Script::new().on("slow", steps), AspLimits::default(), settings);
    let hello = serde_json::json!({"features": ["flags", "events"], "enc": ["json"]});
    talk.say(Opcode::Hello, 0, hello.to_string());
    talk.features = Features::agree(["flags", "events"], Features::ALL);
    talk.invoke(1, "slow");
    let mut records = Vec::new();
    while !records.iter().any(|record: &serde_json::Value| record["d"] == "a") {
        talk.world.advance(10);
        let frames = talk.frames();
        records.extend(frames.iter().map(|frame| talk.json(frame)));
    }
    // The rest and the end are on their way into the log when the client has had enough.
    talk.world.advance(120);
    assert_eq!(talk.frames(), []);
    talk.say(Opcode::Interrupt, 1, "");
    talk.world.advance(2_000);
    let records: Vec<_> = talk.frames().iter().map(|frame| talk.json(frame)).collect();
    assert_eq!(records.len(), 1, "{records:?}");
    assert_eq!(records[0]["finish"], "interrupted");
}
