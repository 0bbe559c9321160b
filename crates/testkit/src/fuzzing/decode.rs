//! Bytes to messages, in both directions, and back.

use bytes::{Bytes, BytesMut};
use switchboard_asp::codec::{
    Assembled, Assembler, AssemblerLimits, Assembly, Incoming, ReaderOptions, VersionZero, open_payload,
};
use switchboard_asp::message::{Enc, ErrorFrame, Stream};
use switchboard_asp::{ClientMessage, Feature, Features, FrameReader, Map, ServerMessage};

use super::Choices;

/// Reads frames, assembles and decodes them as both sides would; what was understood is written and
/// read again, and has to be the same.
///
/// # Panics
/// Something is broken.
pub fn decode(bytes: &[u8]) {
    let mut choices = Choices::new(bytes);
    let profiles = [
        Features::BARE,
        Features::STANDARD,
        Features::ALL.without(Feature::Zstd),
        Features::ALL.without(Feature::Deflate),
        Features::ALL.without(Feature::Frag),
    ];
    let features = choices.pick(&profiles).unwrap_or(Features::BARE);
    let version_zero = if choices.byte() & 1 == 0 { VersionZero::Refuse } else { VersionZero::Accept };
    let options = ReaderOptions { version_zero, ..ReaderOptions::default() };
    let limits = AssemblerLimits { max_payload: 64 << 10, max_open: 4, max_held: 128 << 10, timeout_ms: 50 };
    let mut assembler = Assembler::new(limits);
    let mut reader = FrameReader::new(Bytes::copy_from_slice(choices.rest), options);
    let mut now = 0;
    while let Some(read) = reader.next_frame(32 << 10) {
        now += 7;
        let Ok(Incoming::Frame(frame)) = read else { continue };
        let mut again = BytesMut::new();
        assert!(frame.encode(&mut again).is_ok(), "what was read can be written");
        let same = FrameReader::new(again.freeze(), options).next_frame(u32::MAX);
        assert_eq!(same, Some(Ok(Incoming::Frame(frame.clone()))), "a frame is read as it was written");
        let Ok(flags) = frame.flags.agreed(features) else { continue };
        if let Ok(Assembly::Whole(whole)) = assembler.push(frame, flags, now) {
            open(&whole, features);
        }
        assert!(assembler.held() <= limits.max_held, "what is held is bounded");
        assembler.expire(now);
    }
}

fn open(whole: &Assembled, features: Features) {
    let Ok(payload) = open_payload(whole, features, 64 << 10) else { return };
    if let Ok(message) = ClientMessage::from_payload(whole.opcode, payload.clone()) {
        for enc in [Enc::Json, Enc::Msgpack] {
            let again = rewrite(whole, enc, &message.to_map());
            let read = open_payload(&again, Features::ALL, usize::MAX).ok();
            let read = read.and_then(|payload| ClientMessage::from_payload(whole.opcode, payload).ok());
            check(read.as_ref().map(ClientMessage::to_map).as_ref(), &message.to_map(), enc);
        }
    }
    if let Ok(message) = ServerMessage::from_payload(whole.opcode, payload)
        && let Some(map) = server_map(&message)
    {
        for enc in [Enc::Json, Enc::Msgpack] {
            let again = rewrite(whole, enc, &map);
            let read = open_payload(&again, Features::ALL, usize::MAX).ok();
            let read = read.and_then(|payload| ServerMessage::from_payload(whole.opcode, payload).ok());
            check(read.as_ref().and_then(server_map).as_ref(), &map, enc);
        }
    }
}

/// The same message with its map written anew.
fn rewrite(whole: &Assembled, enc: Enc, map: &Map) -> Assembled {
    let mut payload = BytesMut::new();
    map.encode(enc, &mut payload);
    let flags = switchboard_asp::Flags::NONE.with_enc(enc.into());
    Assembled { flags, payload: payload.freeze(), ..whole.clone() }
}

/// JSON has neither bytes nor special numbers: what was never JSON may become something else there.
fn check(read: Option<&Map>, written: &Map, enc: Enc) {
    let exact = |map: &Map| {
        let mut bytes = BytesMut::new();
        map.encode(enc, &mut bytes);
        bytes
    };
    let mut json = BytesMut::new();
    written.encode(Enc::Json, &mut json);
    let mut packed = BytesMut::new();
    written.encode(Enc::Msgpack, &mut packed);
    let through_json = switchboard_asp::Value::decode(Enc::Json, &json).ok();
    let plain = through_json == Some(switchboard_asp::Value::Map(written.clone()));
    if plain && let Some(read) = read {
        assert_eq!(exact(read), exact(written), "a message is read as it was written");
    } else if plain {
        // What we refuse to read we must not write.
        assert!(read.is_some(), "what was understood once is understood again: {written:?} as {enc:?}");
    }
}

fn server_map(message: &ServerMessage) -> Option<Map> {
    match message {
        ServerMessage::Hello(hello) => Some(hello.to_map()),
        ServerMessage::Stream(Stream::Record(record)) => Some(record.to_map()),
        ServerMessage::Stream(Stream::Terminator | Stream::Text(_) | Stream::Raw(_)) => None,
        ServerMessage::ToolDef(frame) => Some(frame.to_map()),
        ServerMessage::Error(ErrorFrame::Error(error)) => Some(error.to_map()),
        ServerMessage::Error(ErrorFrame::Complete(completion)) => Some(completion.to_map()),
    }
}
