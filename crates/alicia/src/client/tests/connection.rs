//! The connection itself.

use switchboard_core::client::{Down, Refusal};

use super::*;

fn down(lab: &mut Lab) -> Option<u64> {
    loop {
        match lab.events.pop_front().expect("an event") {
            Event::Down(Down { retry_at, .. }) => {
                let millis = |at: Timestamp| u64::try_from(at.since(lab.now).as_millis()).unwrap();
                return retry_at.map(millis);
            }
            Event::Up | Event::Conversation(..) | Event::Settled(..) => {}
        }
    }
}

#[test]
fn attempts_are_one_second_apart_doubling_to_thirty_without_limit() {
    let mut lab = Lab::new();
    lab.input(Input::Closed(None));
    let mut pauses = vec![down(&mut lab).unwrap()];
    for _ in 0..20 {
        lab.pass(*pauses.last().unwrap());
        lab.input(Input::Unreachable("no route".to_owned()));
        pauses.push(down(&mut lab).unwrap());
    }
    assert_eq!(lab.dials, 21);
    for (pause, least) in pauses.iter().zip([1_000, 2_000, 4_000, 8_000, 16_000, 30_000]) {
        assert!((least..=least * 5 / 4).contains(pause), "{pauses:?}");
    }
    assert!(pauses.iter().skip(5).all(|pause| *pause == 30_000));
    // The network is back: at once, and from the beginning.
    lab.client.network_is_back();
    lab.drain();
    assert_eq!(lab.dials, 22);
    lab.input(Input::Unreachable("no route".to_owned()));
    assert!(down(&mut lab).unwrap() < 1_250);
}

#[test]
fn a_connection_that_says_nothing_does_not_shorten_the_pauses() {
    let mut lab = Lab::new();
    for least in [1_000, 2_000, 4_000] {
        lab.input(Input::Closed(Some(1012)));
        let pause = down(&mut lab).unwrap();
        assert!(pause >= least);
        lab.pass(pause);
        lab.input(Input::Opened);
    }
    lab.input(Input::Alive);
    lab.input(Input::Closed(None));
    assert!(down(&mut lab).unwrap() < 1_250);
}

#[test]
fn a_server_that_names_a_time_is_asked_then() {
    let mut lab = Lab::new();
    lab.input(Input::Closed(None));
    lab.pass(1_300);
    lab.events.clear();
    lab.input(Input::Refused(Refusal {
        status: 503,
        retry_after: Some(Duration::from_secs(7)),
        ..Refusal::default()
    }));
    assert_eq!(down(&mut lab), Some(7_000));
    lab.pass(6_999);
    assert_eq!(lab.dials, 2);
    lab.pass(1);
    assert_eq!(lab.dials, 3);
}

#[test]
fn what_would_happen_again_ends_everything() {
    let (mut lab, key) = Lab::joined();
    let (request, _) = lab.say(key, "hi");
    lab.input(Input::Closed(Some(1008)));
    assert_eq!(down(&mut lab), None);
    assert_eq!(lab.events.pop_front(), Some(Event::Settled(request, Err(RequestError::Closed))));
    assert_eq!(lab.next(), ConversationEvent::Closed(Ended::Off));
    lab.pass(100_000);
    assert_eq!(lab.dials, 1);
}

#[test]
fn silence_is_tried_with_a_ping_and_then_given_up() {
    let mut lab = Lab::new();
    lab.pass(10_000);
    assert_eq!(lab.pings, 1);
    lab.input(Input::Alive);
    lab.pass(10_000);
    assert_eq!(lab.pings, 2);
    lab.pass(49_999);
    assert_eq!(lab.closed, None);
    lab.pass(1);
    assert_eq!((lab.pings, lab.closed), (2, Some(1001)));
    assert!(down(&mut lab).is_some());
}

#[test]
fn a_handshake_that_is_not_answered_in_ten_seconds_has_failed() {
    let mut lab = Lab::new();
    lab.join(Some(CONV), Since::Now, &[]);
    lab.take();
    lab.pass(9_999);
    assert_eq!(lab.closed, None);
    lab.pass(1);
    assert_eq!(lab.closed, Some(1001));
    lab.pass(1_300);
    lab.input(Input::Opened);
    lab.handshake(0, 0);
}

#[test]
fn stanzas_count_from_one_on_every_connection() {
    let (mut lab, key) = Lab::joined();
    for number in 2..=5 {
        lab.say(key, "hi");
        assert_eq!(lab.take().stanza_id, number);
        lab.hear(0, ack(number));
    }
    lab.reconnect();
    assert_eq!(lab.take().stanza_id, 1);
}

#[test]
fn no_more_is_sent_than_a_server_bears() {
    let (mut lab, key) = Lab::joined();
    for _ in 0..200 {
        lab.say(key, "hi");
    }
    assert!(lab.sent.len() < 60);
    let mut sent = lab.sent.len();
    lab.sent.clear();
    for _ in 0..60 {
        // A sign of life, for silence is another matter.
        lab.input(Input::Alive);
        lab.pass(1_000);
        assert!(lab.sent.len() <= 6, "{}", lab.sent.len());
        sent += lab.sent.len();
        lab.sent.clear();
    }
    assert_eq!(sent, 200);
}

#[test]
fn whoever_leaves_says_goodbye_once() {
    let (mut lab, key) = Lab::joined();
    lab.client.leave(key);
    lab.drain();
    assert!(matches!(lab.take().body, Body::Unsubscribe(_)));
    assert_eq!(lab.next(), ConversationEvent::Closed(Ended::Left));
    let again = lab.join(Some(CONV), Since::Now, &[]);
    assert_ne!(again, key);
    lab.handshake(0, 0);
    lab.input(Input::Leave);
    assert_eq!(lab.closed, Some(1000));
    assert_eq!(lab.client.say(again, "hi", None, lab.now), Err(CommandError::NotFollowed));
}

#[test]
fn following_twice_and_following_too_many_is_refused() {
    let mut lab = Lab::new();
    lab.join(Some(CONV), Since::Now, &[]);
    let join = |id: &str| Join { conversation: Some(self::id(id)), since: Since::Now, tools: Vec::new() };
    assert_eq!(lab.client.join(join(CONV), lab.now), Err(CommandError::Followed));
    for number in 1..100 {
        lab.client.join(join(&format!("ac_{number}")), lab.now).unwrap();
    }
    assert_eq!(lab.client.join(join("ac_x"), lab.now), Err(CommandError::Full { limit: 100 }));
}
