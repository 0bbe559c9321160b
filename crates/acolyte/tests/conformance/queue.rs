//! The queue of a connection (§7.2): AC-033 to AC-040, AC-068.

use switchboard_acolyte::AcolyteLimits;
use switchboard_testkit::{Settings, Step};

use crate::support::{Talk, count, gist, hang, of, short, start_in, text};

#[test]
fn ac_033_one_chat_runs_at_a_time() {
    let mut talk = Talk::new(hang());
    talk.start("rpc_1", "hang");
    talk.start("rpc_2", "hang");
    talk.start("rpc_3", "hang");
    talk.world.advance(10_000);
    let heard = talk.here();
    let started = heard.iter().filter(|message| message["type"] == "chat.started").count();
    assert_eq!(started, 1);
    assert_eq!(count(&talk.world, "turn_started"), 1);
}

#[test]
fn ac_034_and_035_waiting_chats_are_accepted_and_numbered_in_order() {
    let mut talk = Talk::new(hang());
    talk.start("rpc_a", "hang");
    talk.here();
    for id in ["rpc_z", "rpc_b", "rpc_m"] {
        talk.start(id, "hang");
    }
    assert_eq!(
        short(&talk.here()),
        ["z accepted", "z queued 1", "b accepted", "b queued 2", "m accepted", "m queued 3"]
    );
}

#[test]
fn ac_035_a_number_is_the_place_at_that_moment() {
    let mut talk = Talk::new(hang());
    talk.start("rpc_a", "soon");
    talk.start("rpc_b", "hang");
    talk.start("rpc_c", "hang");
    talk.world.advance(1000);
    talk.here();
    talk.start("rpc_d", "hang");
    assert_eq!(short(&talk.here()), ["d accepted", "d queued 2"]);
}

#[test]
fn ac_036_everybody_who_waits_is_told_their_place_before_the_next_one_starts() {
    let mut talk = Talk::new(hang());
    for (id, message) in [("rpc_a", "soon"), ("rpc_b", "soon"), ("rpc_c", "hang"), ("rpc_d", "hang")] {
        talk.start(id, message);
    }
    talk.here();
    talk.world.advance(1000);
    let heard = gist(&talk.here());
    let line = |what: &str| {
        heard.iter().position(|line| line == what).unwrap_or_else(|| panic!("{what}: {heard:?}"))
    };
    let order = [r#"a done "ab""#, "c queued 1", "d queued 2", "b started"];
    let places = order.map(line);
    assert!(places.is_sorted(), "{heard:?}");
    assert!(!heard.iter().any(|line| line.starts_with("b queued")), "the one taken is not numbered");
    talk.world.advance(1000);
    let heard = gist(&talk.here());
    let order = [r#"b done "ab""#, "d queued 1", "c started"];
    let places = order.map(|what| heard.iter().position(|line| line == what).unwrap());
    assert!(places.is_sorted(), "{heard:?}");
}

#[test]
fn ac_038_waiting_chats_start_in_order_and_never_before_the_end_of_the_one_before() {
    let mut talk = Talk::new(hang());
    let ids = ["rpc_e", "rpc_d", "rpc_c", "rpc_b", "rpc_a"];
    for id in ids {
        talk.start(id, "soon");
    }
    talk.world.advance(10_000);
    let heard = gist(&talk.here());
    let ends: Vec<&String> =
        heard.iter().filter(|line| line.contains(" started") || line.contains(" done")).collect();
    let expected: Vec<String> = ["e", "d", "c", "b", "a"]
        .iter()
        .flat_map(|id| [format!("{id} started"), format!(r#"{id} done "ab""#)])
        .collect();
    assert_eq!(ends, expected.iter().collect::<Vec<_>>());
}

#[test]
fn ac_039_twenty_five_wait_and_the_next_is_refused_without_a_task() {
    assert_eq!(AcolyteLimits::default().queue, 25);
    let mut talk = Talk::new(hang());
    talk.start("rpc_run", "hang");
    for number in 1..=25 {
        talk.start(&format!("rpc_{number}"), "hang");
    }
    let heard = talk.here();
    assert_eq!(short(&heard).last().unwrap(), "25 queued 25");
    talk.start("rpc_26", "hang");
    let refused = talk.one();
    assert_eq!((&refused["id"], &refused["type"]), (&"rpc_26".into(), &"error".into()));
    assert_eq!(refused["error"], "RPC queue is full (25 queued). Try again shortly.");
    let status = talk.status(talk.peer);
    assert_eq!((&status["tasks_total"], &status["rpc_queue_length"]), (&26.into(), &25.into()));
    // One that leaves makes room.
    talk.abort("rpc_x", "rpc_7");
    talk.here();
    talk.start("rpc_26", "hang");
    assert_eq!(short(&talk.here()), ["26 accepted", "26 queued 25"]);
}

#[test]
fn a_queue_without_places_still_runs_one_chat() {
    let limits = AcolyteLimits { queue: 0, ..AcolyteLimits::default() };
    let mut talk = Talk::with(hang(), limits, Settings::default());
    talk.start("rpc_1", "hang");
    talk.start("rpc_2", "hang");
    let heard = talk.here();
    assert_eq!(short(&of(&heard, "rpc_2")), ["2 error refused"]);
    assert_eq!(short(&of(&heard, "rpc_1"))[..2], ["1 accepted", "1 started"]);
}

#[test]
fn ac_040_chats_of_two_connections_run_in_parallel_even_in_one_session() {
    let mut talk = Talk::new(hang());
    let other = talk.connect();
    talk.start_in(talk.peer, "rpc_1", "sess_a", "hang");
    talk.start_in(other, "rpc_1", "sess_a", "hang");
    for peer in [talk.peer, other] {
        let heard = gist(&talk.heard(peer));
        assert_eq!(heard, ["1 accepted", "1 started", r#"1 event "x""#]);
    }
}

#[test]
fn ac_068_the_id_of_a_live_chat_is_refused_and_the_chat_goes_on() {
    let mut talk = Talk::new(hang());
    talk.start("rpc_a", "soon");
    talk.start("rpc_b", "soon");
    talk.here();
    for id in ["rpc_a", "rpc_b"] {
        talk.start(id, "soon");
        let refused = talk.one();
        assert_eq!((&refused["id"], &refused["type"]), (&id.into(), &"error".into()));
        assert_eq!(refused["error"], format!("Chat request already running for id: {id}"));
    }
    talk.world.advance(3000);
    let heard = gist(&talk.here());
    assert_eq!(heard.iter().filter(|line| line.contains("done")).count(), 2);
    // Once it is over, the id is free.
    talk.start("rpc_a", "hello");
    assert_eq!(gist(&talk.here()), ["a accepted", "a started", r#"a event "hello""#, r#"a done "hello""#]);
    assert_eq!(talk.status(talk.peer)["tasks_total"], 3);
}

#[test]
fn an_id_that_is_used_again_hears_nothing_of_the_chat_that_had_it_before() {
    let script = hang().on("late", vec![text("a"), Step::Deaf, Step::Wait(500), text("b")]);
    let mut talk = Talk::new(script);
    talk.say(talk.peer, &start_in("rpc_a", "sess_s", "late"));
    talk.here();
    talk.abort("rpc_x", "rpc_a");
    talk.say(talk.peer, &start_in("rpc_a", "sess_s", "hello"));
    talk.world.advance(5000);
    let heard = gist(&talk.here());
    assert_eq!(
        heard,
        [
            "a error E_ABORTED",
            "x abort.result true",
            "a accepted",
            "a queued 1",
            "a started",
            r#"a event "hello""#,
            r#"a done "hello""#,
        ]
    );
}
