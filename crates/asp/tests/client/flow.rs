//! §12.1 from the client's side.

use switchboard_asp::client::{ClientConfig, CreditMode, Input, Output};
use switchboard_asp::message::{EncFlag, Interrupt};
use switchboard_asp::{Feature, Features, Flags, Opcode};

use crate::support::{Peer, config, interrupts, texts};

const HALF: usize = 128 << 10;

fn text(bytes: usize) -> String {
    let frame = r#"{"t":"text","d":""}"#.len();
    format!(r#"{{"t":"text","d":"{}"}}"#, "x".repeat(bytes - frame))
}

fn credits(outputs: &[Output]) -> Vec<(u16, u64)> {
    let credit = |(id, interrupt): (u16, Interrupt)| (id, interrupt.bytes.expect("credit only"));
    interrupts(outputs, Features::STANDARD).into_iter().map(credit).collect()
}

#[test]
fn credit_goes_back_at_half_of_the_window() {
    let mut peer = Peer::standard();
    let (id, other) = (peer.chat("a"), peer.chat("b"));
    assert_eq!(credits(&peer.record(id, &text(HALF - 1))), []);
    assert_eq!(credits(&peer.record(other, &text(1000))), [], "windows are per request");
    assert_eq!(credits(&peer.record(id, &text(50))), [(id, HALF as u64 + 49)]);
    assert_eq!(credits(&peer.record(id, &text(50))), []);
    // What is dropped counts as well.
    assert_eq!(credits(&peer.record(id, &format!(r#"{{"t":"new","d":"{}"}}"#, "x".repeat(HALF)))).len(), 1);
}

#[test]
fn the_smaller_window_binds() {
    let mut peer = Peer::dialing(ClientConfig { window: 100 << 10, ..config() });
    peer.input(Input::Opened);
    peer.accept(Features::STANDARD, r#""limits":{"window":65536}"#);
    let id = peer.chat("a");
    assert_eq!(credits(&peer.record(id, &text(32 << 10))), [(id, 32 << 10)]);
    let mut peer = Peer::dialing(ClientConfig { window: 32 << 10, ..config() });
    peer.input(Input::Opened);
    peer.accept(Features::STANDARD, "");
    let id = peer.chat("a");
    assert_eq!(credits(&peer.record(id, &text(16 << 10))), [(id, 16 << 10)]);
}

#[test]
fn a_slow_reader_holds_up_its_own_request_only() {
    let mut peer = Peer::up(ClientConfig { credit: CreditMode::Manual, ..config() });
    let (slow, fast) = (peer.chat("a"), peer.chat("b"));
    assert_eq!(texts(&peer.record(slow, &text(HALF))).len(), 1);
    assert_eq!(texts(&peer.record(fast, &text(HALF))).len(), 1);
    peer.client.consumed(fast, HALF as u64);
    assert_eq!(credits(&peer.drain()), [(fast, HALF as u64)]);
    peer.client.consumed(slow, 1000);
    assert_eq!(peer.drain(), []);
    peer.client.consumed(slow, HALF as u64);
    assert_eq!(credits(&peer.drain()), [(slow, HALF as u64 + 1000)]);
    // A request that is over, or interrupted, needs none.
    peer.client.interrupt(slow, None);
    peer.drain();
    peer.client.consumed(slow, HALF as u64);
    peer.end(slow);
    peer.client.consumed(slow, HALF as u64);
    assert_eq!(peer.drain(), []);
}

#[test]
fn a_record_larger_than_the_window_can_be_finished() {
    let mut peer = Peer::up(ClientConfig { credit: CreditMode::Manual, ..config() });
    let id = peer.chat("a");
    let flags = Flags::NONE.with_enc(EncFlag::Json).with(Flags::MORE);
    let record = text(3 * HALF);
    let (first, rest) = record.split_at(HALF);
    let (second, third) = rest.split_at(HALF);
    assert_eq!(credits(&peer.flagged(Opcode::Stream, flags, id, first)), [(id, HALF as u64)]);
    assert_eq!(credits(&peer.flagged(Opcode::Stream, flags, id, second)), [(id, HALF as u64)]);
    let outputs = peer.flagged(Opcode::Stream, flags.without(Flags::MORE), id, third);
    assert_eq!((texts(&outputs).len(), credits(&outputs)), (1, vec![]));
    // The next one waits until this one is consumed.
    assert_eq!(credits(&peer.flagged(Opcode::Stream, flags, id, first)), []);
    peer.client.consumed(id, HALF as u64);
    assert_eq!(credits(&peer.drain()), [(id, HALF as u64), (id, HALF as u64)]);
}

#[test]
fn credit_consumed_during_a_cut_goes_back_afterwards() {
    let mut peer = Peer::up(ClientConfig { credit: CreditMode::Manual, ..config() });
    let id = peer.chat("a");
    peer.record(id, &text(HALF));
    peer.input(Input::Closed(None));
    peer.client.consumed(id, HALF as u64);
    assert_eq!(peer.drain(), []);
    let wait = peer.wake.expect("waits") - peer.now;
    peer.pass(wait);
    peer.input(Input::Opened);
    assert_eq!(credits(&peer.accept(Features::STANDARD, r#""resumed":true"#)), [(id, HALF as u64)]);
}

#[test]
fn without_the_feature_there_is_no_credit() {
    let mut peer =
        Peer::up(ClientConfig { features: Features::STANDARD.without(Feature::Credit), ..config() });
    let id = peer.chat("a");
    assert_eq!(credits(&peer.record(id, &text(HALF * 3))), []);
}
