//! Flow control, rates, heartbeat and drain (§12, §13).

use std::collections::BTreeMap;

use switchboard_asp::{AspLimits, Frame, Opcode};
use switchboard_testkit::{Script, Settings, Step, opening};

use crate::support::{Seen, Talk};

#[test]
fn asp_048_nothing_is_streamed_without_credit() {
    let script = Script::new().on("talk", vec![Step::Fill { bytes: 3000, piece: 37 }]);
    let mut talk = Talk::new(script);
    let hello = serde_json::json!({
        "features": ["flags", "events", "credit"], "enc": ["json"], "limits": {"window": 500},
    });
    talk.say(Opcode::Hello, 0, hello.to_string());
    talk.features =
        switchboard_asp::Features::agree(["flags", "events", "credit"], switchboard_asp::Features::ALL);
    talk.frames();
    talk.invoke(1, "talk");
    let mut window = 500_i64;
    let mut text = 0;
    loop {
        let frames = talk.frames();
        for frame in &frames {
            assert!(window > 0 || talk.is_terminal(frame), "a frame with a window of {window}");
            if !talk.is_terminal(frame) {
                window -= i64::try_from(frame.payload.len()).unwrap();
                text += talk.json(frame)["d"].as_str().map_or(0, str::len);
            }
        }
        if frames.last().is_some_and(|frame| talk.is_terminal(frame)) {
            break;
        }
        assert!(window <= 0, "credit of {window} is left, and nothing comes");
        window += 200;
        talk.say(Opcode::Interrupt, 1, r#"{"mode":"credit","bytes":200}"#);
    }
    assert_eq!(text, 3000);
}

#[test]
fn asp_049_the_send_buffer_is_bounded_and_the_largest_request_pays_for_it() {
    let fill = |bytes| vec![Step::Fill { bytes, piece: 4000 }, Step::Hang];
    let script = Script::new().on("large", fill(6 << 20)).on("small", fill(100_000));
    let mut talk = Talk::new(script);
    talk.hello("flags events");
    talk.world.stall(talk.peer);
    talk.invoke(1, "small");
    talk.invoke(2, "large");
    talk.world.advance(100);
    // What waits on the transport is little; the rest waits in the connection, or in the log.
    assert!(talk.world.backlog(talk.peer) < 512 << 10, "{}", talk.world.backlog(talk.peer));
    // Nothing moves for three seconds.
    talk.world.advance(3_000);
    talk.world.unstall(talk.peer);
    let frames = talk.frames();
    let errors: Vec<&Frame> = frames.iter().filter(|frame| frame.opcode == Opcode::Error).collect();
    assert_eq!((errors.len(), errors[0].id), (1, 2));
    let error = talk.json(errors[0]);
    assert_eq!((&error["code"], &error["retry"]), (&2204.into(), &true.into()));
    let text: usize = frames
        .iter()
        .filter(|frame| frame.id == 1)
        .map(|frame| talk.json(frame)["d"].as_str().map_or(0, str::len))
        .sum();
    assert_eq!(text, 100_000, "the other one is whole");
    talk.world.advance(20_000);
    assert!(talk.world.is_open(talk.peer), "it reads again, so it stays");
}

#[test]
fn asp_049_a_connection_that_stays_above_the_bound_for_ten_seconds_is_closed() {
    let limits = AspLimits { max_waiting: 400_000, ..AspLimits::default() };
    let fill = |bytes| vec![Step::Fill { bytes, piece: 4000 }, Step::Hang];
    let script = Script::new().on("a", fill(300_000)).on("b", fill(390_000));
    let mut talk = Talk::with(script, limits, Settings::default());
    talk.hello("flags events");
    talk.world.stall(talk.peer);
    for (id, input) in [(1, "a"), (2, "b"), (3, "b"), (4, "b")] {
        talk.invoke(id, input);
    }
    talk.world.advance(9_900);
    assert!(talk.world.is_open(talk.peer));
    talk.world.advance(200);
    assert!(!talk.world.is_open(talk.peer));
    talk.world.unstall(talk.peer);
    assert!(matches!(talk.seen().last(), Some(Seen::Close(4408))));
}

/// A connection with credit, on which a client returns what it has read whenever half of its window is used up.
struct Crediting {
    talk: Talk,
    used: BTreeMap<u16, usize>,
}

impl Crediting {
    const WINDOW: usize = 262_144;

    fn new(script: Script) -> Self {
        let mut talk = Talk::new(script);
        talk.hello("flags events credit resume");
        Self { talk, used: BTreeMap::new() }
    }

    /// Reads and returns credit for these requests until nothing more comes; answers the text and the ends of each.
    fn read(&mut self, ids: &[u16]) -> BTreeMap<u16, (usize, Vec<serde_json::Value>)> {
        let mut read: BTreeMap<u16, (usize, Vec<serde_json::Value>)> = BTreeMap::new();
        loop {
            let frames = self.talk.frames();
            for frame in &frames {
                let record = self.talk.json(frame);
                let (text, ends) = read.entry(frame.id).or_default();
                *text += record["d"].as_str().map_or(0, str::len);
                if self.talk.is_terminal(frame) {
                    ends.push(record);
                } else {
                    *self.used.entry(frame.id).or_default() += frame.payload.len();
                }
            }
            let mut returned = false;
            for id in ids {
                let used = self.used.entry(*id).or_default();
                if *used >= Self::WINDOW / 2 {
                    let credit = serde_json::json!({"mode": "credit", "bytes": std::mem::take(used)});
                    self.talk.say(Opcode::Interrupt, *id, credit.to_string());
                    returned = true;
                }
            }
            self.talk.world.advance(10);
            if frames.is_empty() && !returned {
                return read;
            }
        }
    }
}

#[test]
fn asp_048_an_answer_of_any_size_arrives_as_fast_as_credit_is_returned() {
    let fill = |bytes| vec![Step::Fill { bytes, piece: 4000 }];
    let script = Script::new().on("large", fill(9 << 20)).on("small", fill(100_000));
    let mut client = Crediting::new(script);
    client.talk.invoke(1, "large");
    client.talk.invoke(2, "large");
    // One of them is read, the other is not; a third comes through meanwhile.
    client.talk.invoke(3, "small");
    let read = client.read(&[1, 3]);
    assert_eq!((read[&1].0, read[&3].0), (9 << 20, 100_000));
    assert_eq!(read[&1].1.len(), 1, "{:?}", read[&1].1);
    assert_eq!(read[&1].1[0]["finish"], "complete");
    assert!(read[&2].1.is_empty() && read[&2].0 <= Crediting::WINDOW + 4000, "{:?}", read[&2]);
    // However long it takes.
    client.talk.world.advance(20_000);
    let late = client.read(&[2]);
    assert_eq!(read[&2].0 + late[&2].0, 9 << 20);
    assert_eq!(late[&2].1[0]["finish"], "complete");
}

#[test]
fn asp_048_what_waits_for_credit_can_be_cancelled() {
    let script = Script::new().on("large", vec![Step::Fill { bytes: 9 << 20, piece: 4000 }, Step::Hang]);
    let mut client = Crediting::new(script);
    client.talk.invoke(1, "large");
    assert!(client.read(&[])[&1].1.is_empty());
    client.talk.say(Opcode::Interrupt, 1, "");
    let ended = client.read(&[]);
    assert_eq!(ended[&1].0, 0, "nothing but its end is sent");
    assert_eq!(ended[&1].1[0]["finish"], "interrupted");
}

#[test]
fn what_is_paused_waits_in_the_log_and_is_whole_afterwards() {
    let script = Script::new().on("large", vec![Step::Wait(10), Step::Fill { bytes: 9 << 20, piece: 4000 }]);
    let mut talk = Talk::new(script);
    talk.hello("flags events resume");
    talk.invoke(1, "large");
    talk.say(Opcode::Interrupt, 1, r#"{"mode":"pause"}"#);
    talk.world.advance(20_000);
    let before: usize =
        talk.frames().iter().map(|frame| talk.json(frame)["d"].as_str().map_or(0, str::len)).sum();
    assert_eq!(before, 0, "it was paused before it began");
    talk.say(Opcode::Interrupt, 1, r#"{"mode":"resume"}"#);
    talk.world.advance(100);
    let records: Vec<_> = talk.frames().iter().map(|frame| talk.json(frame)).collect();
    let after: usize = records.iter().map(|record| record["d"].as_str().map_or(0, str::len)).sum();
    assert_eq!(before + after, 9 << 20);
    let indices: Vec<u64> = records.iter().filter_map(|record| record["n"].as_u64()).collect();
    assert!(indices.is_sorted_by(|a, b| a < b), "every record comes once");
    assert_eq!(records.last().unwrap()["finish"], "complete");
}

#[test]
fn merged_deltas_carry_the_highest_index_they_contain() {
    let script = Script::new().on("talk", vec![Step::Fill { bytes: 600_000, piece: 100 }]);
    let limits = AspLimits { merge_above: 100_000, ..AspLimits::default() };
    let mut talk = Talk::with(script, limits, Settings::default());
    let hello = serde_json::json!({"features": ["flags", "events", "resume"], "enc": ["json"]});
    talk.say(Opcode::Hello, 0, hello.to_string());
    talk.features =
        switchboard_asp::Features::agree(["flags", "events", "resume"], switchboard_asp::Features::ALL);
    talk.frames();
    talk.world.stall(talk.peer);
    talk.invoke(1, "talk");
    talk.world.advance(100);
    talk.world.unstall(talk.peer);
    let frames = talk.frames();
    let records: Vec<_> = frames.iter().map(|frame| talk.json(frame)).collect();
    assert!(records.len() < 6000, "{} records: nothing was merged", records.len());
    let mut text = 0;
    for record in &records[1..records.len() - 1] {
        text += record["d"].as_str().unwrap().len();
        assert_eq!(record["n"], text / 100, "the index counts every delta");
    }
    assert_eq!((text, &records.last().unwrap()["n"]), (600_000, &6001.into()));
}

#[test]
fn asp_050_over_rate_is_told_with_a_delay_that_is_enough() {
    let mut talk = Talk::new(Script::new());
    talk.hello("flags events");
    for id in 1..=20 {
        talk.invoke(id, "x");
    }
    assert!(talk.new_codes().is_empty());
    talk.invoke(21, "x");
    let frames = talk.frames();
    assert_eq!(talk.codes(&frames), [2200]);
    let retry_ms = talk.json(&frames[0])["retry_ms"].as_u64().unwrap();
    assert!((1..=100).contains(&retry_ms), "{retry_ms}");
    talk.world.advance(retry_ms);
    talk.invoke(21, "x");
    assert!(talk.new_codes().is_empty());
}

#[test]
fn asp_050_three_seconds_of_dropping_within_a_minute_are_a_flood() {
    for (seconds, flood) in
        [([0, 1, 2], true), ([0, 30, 59], true), ([0, 30, 60], false), ([0, 70, 140], false)]
    {
        let limits = AspLimits { heartbeat_s: 1000, dead_s: 2000, ..AspLimits::default() };
        let mut talk = Talk::with(Script::new(), limits, Settings::default());
        talk.hello("flags events");
        let mut now = 0;
        for second in seconds {
            talk.world.advance((second - now) * 1000);
            now = second;
            for id in 1..=40 {
                talk.invoke(id, "x");
            }
        }
        let seen = talk.seen();
        assert_eq!(seen.last() == Some(&Seen::Close(4429)), flood, "{seconds:?}");
        assert_eq!(talk.world.is_open(talk.peer), !flood);
    }
}

#[test]
fn asp_051_a_cancel_arrives_however_many_frames_are_dropped() {
    let script = Script::new().on("hang", vec![Step::Hang]);
    let limits = AspLimits { invokes_burst: 100, ..AspLimits::default() };
    let mut talk = Talk::with(script, limits, Settings::default());
    talk.hello("flags events");
    for id in 1..=60 {
        talk.invoke(id, "hang");
    }
    for _ in 0..180 {
        talk.say(Opcode::Interrupt, 1, r#"{"mode":"resume"}"#);
    }
    talk.seen();
    for id in 1..=60 {
        talk.say(Opcode::Interrupt, id, "");
        talk.world.advance(1);
        let frames = talk.frames();
        assert!(frames.iter().any(|frame| frame.id == id && talk.is_terminal(frame)), "#{id}: {frames:?}");
    }
}

#[test]
fn asp_052_the_server_pings_after_30_s_and_drops_after_75_s_by_default() {
    let defaults = AspLimits::default();
    assert_eq!(
        (defaults.heartbeat_s, defaults.dead_s, defaults.drain_s, defaults.resume_s),
        (30, 75, 30, 60)
    );
    for features in [None, Some("flags events"), Some("standard")] {
        let mut talk = Talk::new(Script::new());
        if let Some(features) = features {
            talk.hello(features);
        }
        talk.world.advance(29_999);
        assert_eq!(talk.seen(), []);
        talk.world.advance(1);
        assert_eq!(talk.seen(), [Seen::Ping]);
        talk.world.advance(44_999);
        assert_eq!(talk.seen(), []);
        talk.world.advance(1);
        assert_eq!(talk.seen(), [Seen::Close(4408)]);
    }
}

#[test]
fn asp_056_a_lost_bare_connection_takes_its_requests_along_at_once() {
    let script = Script::new().on("hang", vec![Step::Text("x".into()), Step::Hang]);
    let mut talk = Talk::new(script);
    for id in 1..=5 {
        talk.invoke(id, "hang");
    }
    talk.world.cut(talk.peer);
    let ended = talk.world.history().iter().filter(|(_, committed)| committed.event.name() == "turn_ended");
    assert_eq!(ended.count(), 5, "without a moment passing");
    talk.reconnect(opening());
}

#[test]
fn asp_057_fragments_are_bounded_in_number_and_time() {
    use switchboard_asp::Flags;
    let limits =
        AspLimits { invokes_burst: 1000, errors_burst: 1000, max_inflight: 1000, ..AspLimits::default() };
    let mut talk = Talk::with(Script::new(), limits, Settings::default());
    talk.hello("flags events frag");
    let more =
        |id: u16, size: usize| Frame::new(Opcode::Invoke, id, vec![b'a'; size]).with_flags(Flags::MORE);
    // 64 messages at once, 4 MiB of them; whatever is beyond is refused on its own id.
    for id in 1..=64 {
        talk.send(&[more(id, 10)]);
    }
    assert_eq!(talk.seen(), []);
    talk.send(&[more(65, 10)]);
    let frames = talk.frames();
    assert_eq!((frames[0].id, talk.codes(&frames)), (65, vec![2011]));
    talk.world.advance(10_000);
    assert_eq!(talk.seen(), []);
    talk.world.advance(1);
    let frames = talk.frames();
    assert_eq!(talk.codes(&frames), [2011; 64]);
    assert!(talk.json(&frames[0])["retry"].as_bool().unwrap());
}

#[test]
fn asp_078_goaway_comes_first_and_work_has_30_s() {
    let script = Script::new()
        .on("hang", vec![Step::Hang])
        .on("soon", vec![Step::Wait(29_000), Step::Text("x".into())]);
    let mut talk = Talk::new(script);
    talk.hello("flags events ping");
    talk.invoke(1, "soon");
    talk.invoke(2, "hang");
    talk.seen();
    talk.world.drain(700);
    let frames = talk.frames();
    let goaway = talk.json(&frames[0]);
    assert_eq!((&goaway["op"], &goaway["retry_ms"]), (&"goaway".into(), &700.into()));
    assert_eq!(frames.len(), 1);
    talk.invoke(3, "x");
    let frames = talk.frames();
    assert_eq!(talk.codes(&frames), [2501]);
    talk.world.advance(25_000);
    talk.say(Opcode::Hello, 0, r#"{"op":"ping"}"#);
    talk.world.advance(4_000);
    let frames = talk.frames();
    assert!(frames.iter().any(|frame| frame.id == 1 && talk.is_terminal(frame)), "{frames:?}");
    talk.world.advance(999);
    assert_eq!(talk.seen(), []);
    talk.world.advance(1);
    assert_eq!(talk.seen(), [Seen::Close(1012)]);
}

#[test]
fn asp_053_a_resume_that_cannot_be_read_is_rejected_and_takes_nothing_else_with_it() {
    let resumes = [
        (true, serde_json::json!({"cid": "x", "next": {}})),
        (true, serde_json::json!({"cid": "x", "token": "t", "next": {"1": -1}})),
        (true, serde_json::json!({"cid": "x", "token": "t", "next": {"01": 0}})),
        (true, serde_json::json!({"cid": "x", "token": "t", "next": [1]})),
        (true, serde_json::json!("x")),
        (true, serde_json::json!({"cid": "x", "token": "t", "next": {}})),
        (false, serde_json::json!({"cid": "x", "token": "t", "next": {}})),
    ];
    for (offered, resume) in resumes {
        let mut talk = Talk::new(Script::new());
        let features: &[&str] = if offered { &["flags", "events", "resume"] } else { &["flags", "events"] };
        let hello = serde_json::json!({"features": features, "enc": ["json"], "resume": resume});
        talk.say(Opcode::Hello, 0, hello.to_string());
        let frames = talk.frames();
        assert_eq!(talk.codes(&frames), [2600], "{resume}");
        let accept: serde_json::Value = serde_json::from_slice(&frames[1].payload).unwrap();
        assert_eq!((&accept["op"], &accept["features"]), (&"accept".into(), &serde_json::json!(features)));
        assert_eq!(accept.get("resumed"), None);
    }
}

/// What a client that can receive 2000 bytes at once is sent, as records put together from their fragments.
fn received(
    features: &[&str],
    script: Script,
    invoke: &serde_json::Value,
) -> Vec<(Opcode, serde_json::Value)> {
    let mut talk = Talk::new(script);
    let hello = serde_json::json!({"features": features, "enc": ["json"], "limits": {"max_payload": 2000}});
    talk.say(Opcode::Hello, 0, hello.to_string());
    talk.features =
        switchboard_asp::Features::agree(features.iter().copied(), switchboard_asp::Features::ALL);
    talk.frames();
    talk.say(Opcode::Invoke, 1, invoke.to_string());
    talk.world.advance(100);
    let mut whole = Vec::new();
    let mut payload = Vec::new();
    for frame in talk.frames() {
        payload.extend_from_slice(&frame.payload);
        if !frame.flags.has(switchboard_asp::Flags::MORE) {
            assert!(payload.len() <= 2000, "{} bytes for a client that takes 2000", payload.len());
            whole.push((frame.opcode, serde_json::from_slice(&payload).unwrap()));
            payload.clear();
        }
    }
    whole
}

#[test]
fn asp_014_the_client_is_sent_nothing_larger_than_it_can_receive() {
    for features in [&["flags", "events", "frag"][..], &["flags", "events"]] {
        let chat = serde_json::json!({"kind": "chat", "input": "talk"});
        let quoted = Script::new().on("talk", vec![Step::Text("\"\n".repeat(5_000))]);
        let told = received(features, quoted, &chat);
        let text: String = told.iter().filter_map(|(_, record)| record["d"].as_str()).collect();
        assert_eq!(text, "\"\n".repeat(5_000), "a text comes in pieces");
        assert_eq!(told.last().unwrap().1["t"], "end");

        // An answer that is wanted as a whole, too.
        let once = serde_json::json!({"kind": "chat", "input": "talk", "stream": false});
        let told = received(
            features,
            Script::new().on("talk", vec![Step::Fill { bytes: 9_000, piece: 100 }]),
            &once,
        );
        let text: usize = told.iter().map(|(_, record)| record["d"].as_str().map_or(0, str::len)).sum();
        assert_eq!((text, &told.last().unwrap().1["t"]), (9_000, &"end".into()), "{told:?}");

        // What cannot be taken apart is refused.
        let value = serde_json::json!({"x": "y".repeat(3_000)});
        let data = Script::new().on("talk", vec![Step::Data { mime: None, value }, Step::Hang]);
        let wanted = serde_json::json!({"kind": "chat", "input": "talk", "want": ["text", "data"]});
        let told = received(features, data, &wanted);
        assert_eq!(told.last().unwrap().0, Opcode::Error);
        assert_eq!(told.last().unwrap().1["code"], 2202);
    }
}
