//! Blobs and files (§7).

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Map, json};
use switchboard_aip::binary::{
    Checksum, FileSender, FileSpec, Frame, Received, Receiver, ReceiverConfig, TransferError, Validation,
    blob,
};
use switchboard_testkit::vectors::load;

use crate::support::{STAMP, START, object};

fn spec(size: usize, chunk_size: u64) -> FileSpec {
    let mime_type = Some("text/plain".to_owned());
    FileSpec { chunk_size, mime_type, ..FileSpec::new("a.txt", size as u64) }
}

fn frames(spec: FileSpec, content: &[u8]) -> Vec<Frame> {
    let mut sender = FileSender::new(spec);
    let mut frames = vec![sender.start()];
    let mut rest = Bytes::copy_from_slice(content);
    while sender.next_size() > 0 {
        let data = rest.split_to(usize::try_from(sender.next_size()).unwrap());
        frames.extend(sender.chunk(data, START).unwrap());
    }
    frames.push(sender.finish().unwrap());
    frames
}

fn receive(frames: Vec<Frame>, config: ReceiverConfig) -> Result<Vec<Received>, TransferError> {
    let mut receiver = Receiver::new(config);
    let mut received = Vec::new();
    for frame in frames {
        received.extend(receiver.receive(frame)?);
    }
    Ok(received)
}

/// The bytes of the file, if it came to its end.
fn content(received: &[Received]) -> Option<Vec<u8>> {
    assert!(matches!(received.first(), Some(Received::FileStarted { .. })));
    let chunk = |received: &Received| match received {
        Received::Chunk(data) => data.to_vec(),
        _ => Vec::new(),
    };
    let all: Vec<u8> = received.iter().flat_map(chunk).collect();
    match received.last() {
        Some(Received::FileDone { size, .. }) if *size == all.len() as u64 => Some(all),
        _ => None,
    }
}

const OFF: ReceiverConfig = ReceiverConfig { max_blob: 1000, max_file: 1000, validation: Validation::Off };
const ON: ReceiverConfig = ReceiverConfig { validation: Validation::On, ..OFF };

fn text(value: &str) -> Frame {
    Frame::Text(value.to_owned())
}

fn bytes(value: &'static str) -> Frame {
    Frame::Binary(Bytes::from_static(value.as_bytes()))
}

#[test]
fn the_example_is_written_to_the_byte_and_read() {
    let vector = load("aip").into_iter().find(|vector| vector.kind == "transfer").unwrap();
    let content_of = vector.all["content"].as_str().unwrap().as_bytes();
    let frames = frames(spec(content_of.len(), vector.all["chunk_size"].as_u64().unwrap()), content_of);
    let texts: Vec<&str> = frames
        .iter()
        .filter_map(|frame| match frame {
            Frame::Text(text) => Some(text.as_str()),
            Frame::Binary(_) => None,
        })
        .collect();
    let messages = vector.all["messages"].as_array().unwrap();
    let expected: Vec<&str> = messages.iter().map(|message| message["text"].as_str().unwrap()).collect();
    assert_eq!(texts, expected);
    assert_eq!((&frames[2], &frames[4]), (&bytes("hello wo"), &bytes("rld!")));
    let received = receive(frames, ReceiverConfig::default()).unwrap();
    assert_eq!(content(&received).as_deref(), Some(content_of));
    assert_eq!(
        received[0],
        Received::FileStarted {
            filename: "a.txt".to_owned(),
            size: 12,
            mime_type: Some("text/plain".to_owned())
        }
    );
}

#[test]
fn an_empty_file_has_no_chunks_and_a_checksum_may_be_left_out() {
    let sent = frames(FileSpec { checksum: Checksum::Off, mime_type: None, ..spec(0, 8) }, b"");
    assert_eq!(
        sent,
        [
            text(
                r#"{"type": "file_transfer_start", "filename": "a.txt", "size": 0, "chunk_size": 8, "total_chunks": 0, "mime_type": null}"#
            ),
            text(r#"{"type": "file_transfer_complete", "filename": "a.txt", "total_chunks": 0}"#),
        ]
    );
    assert_eq!(content(&receive(sent, ON).unwrap()), Some(Vec::new()));
    assert_eq!(FileSpec::new("a", 1).chunk_size, 1_048_576);
}

#[test]
fn a_blob_is_described_first_and_what_else_is_said_of_it_is_kept() {
    let metadata = object(json!({"filename": "x.png", "tags": [1, {"a": "b"}], "size": 99, "type": "liar"}));
    let [description, data] = blob(&metadata, Bytes::from_static(b"png"), START);
    let expected = format!(
        r#"{{"filename": "x.png", "tags": [1, {{"a": "b"}}], "type": "binary_data", "size": 3, "timestamp": "{STAMP}"}}"#
    );
    assert_eq!(description, text(&expected));
    let received = receive(vec![description, data], ON).unwrap();
    let [Received::Blob { metadata, data }] = &received[..] else { panic!("{received:?}") };
    assert_eq!((metadata["tags"][1]["a"].as_str(), data.as_ref()), (Some("b"), b"png".as_slice()));
    // Whatever size its numbers have.
    let wide = r#"{"n": 123456789012345678901234567890, "size": 3}"#;
    let received = receive(vec![text(wide), bytes("png")], ON).unwrap();
    let [Received::Blob { metadata, data }] = &received[..] else { panic!("{received:?}") };
    let [Frame::Text(again), _] = blob(metadata, data.clone(), START) else { panic!() };
    assert!(again.starts_with(r#"{"n": 123456789012345678901234567890, "type""#), "{again}");
    // A wrong type is no reason to refuse it.
    let odd = vec![text(r#"{"type":"picture","size":3}"#), bytes("png")];
    assert!(matches!(&receive(odd, ON).unwrap()[..], [Received::Blob { .. }]));
}

#[test]
fn what_was_said_must_be_true_unless_nobody_checks() {
    let described = |size: &str| vec![text(&format!(r#"{{"type":"binary_data"{size}}}"#)), bytes("1234")];
    assert_eq!(receive(described(r#","size":5"#), ON), Err(TransferError::Size { said: 5, got: 4 }));
    assert!(receive(described(r#","size":5"#), OFF).is_ok());
    assert_eq!(receive(described(""), ON), Err(TransferError::Metadata("size")));
    assert!(receive(described(""), OFF).is_ok());

    let sent = frames(spec(12, 8), b"hello world!");
    let mut other = sent.clone();
    other[4] = bytes("rld?");
    assert_eq!(receive(other.clone(), ON), Err(TransferError::Checksum));
    assert_eq!(content(&receive(other, OFF).unwrap()).as_deref(), Some(b"hello world?".as_slice()));
    let mut short = sent.clone();
    short.drain(3..5);
    assert_eq!(receive(short.clone(), ON), Err(TransferError::Chunks { said: 2, got: 1 }));
    assert_eq!(receive(short, OFF), Err(TransferError::Chunks { said: 2, got: 1 }));
    let mut long = sent.clone();
    long.splice(5..5, sent[3..5].to_vec());
    long.truncate(7);
    assert_eq!(receive(long, OFF), Err(TransferError::Chunks { said: 2, got: 3 }), "at once");
    let mut cut = sent.clone();
    cut[3] = text(r#"{"chunk_num": 1, "chunk_size": 3, "type": "binary_data", "size": 3}"#);
    cut[4] = bytes("rld");
    assert_eq!(receive(cut, ON), Err(TransferError::Size { said: 12, got: 11 }));
    let mut lying = sent;
    lying[0] =
        text(r#"{"type":"file_transfer_start","filename":"a","size":12,"chunk_size":8,"total_chunks":3}"#);
    assert_eq!(receive(lying, ON), Err(TransferError::Chunks { said: 3, got: 2 }));
}

#[test]
fn nothing_is_larger_than_the_receiver_wants() {
    let start = |size: u64| {
        text(&format!(
            r#"{{"type":"file_transfer_start","filename":"a","size":{size},"chunk_size":{size},"total_chunks":1}}"#
        ))
    };
    assert!(receive(vec![start(1000)], ON).is_ok());
    assert_eq!(receive(vec![start(1001)], ON), Err(TransferError::TooLarge { max: 1000 }));
    let large = vec![text(r#"{"type":"binary_data","size":1001}"#)];
    assert_eq!(receive(large, OFF), Err(TransferError::TooLarge { max: 1000 }));
    let hidden = vec![text(r#"{"type":"binary_data","size":1}"#), Frame::Binary(Bytes::from(vec![0; 1001]))];
    assert_eq!(receive(hidden, OFF), Err(TransferError::TooLarge { max: 1000 }));
    let many =
        text(r#"{"type":"file_transfer_start","filename":"a","size":1,"chunk_size":1,"total_chunks":9}"#);
    let chunk = [text(r#"{"type":"binary_data","size":600}"#), Frame::Binary(Bytes::from(vec![0; 600]))];
    let frames = [vec![many], chunk.to_vec(), chunk.to_vec()].concat();
    assert_eq!(receive(frames, OFF), Err(TransferError::TooLarge { max: 1000 }));
}

#[test]
fn text_and_bytes_alternate_and_a_failed_transfer_is_forgotten() {
    let mut receiver = Receiver::new(ON);
    assert_eq!(receiver.receive(bytes("?")), Err(TransferError::Order));
    let describe = || text(r#"{"type":"binary_data","size":1}"#);
    assert_eq!(receiver.receive(describe()), Ok(None));
    assert_eq!(receiver.receive(describe()), Err(TransferError::Order));
    assert_eq!(receiver.receive(bytes("?")), Err(TransferError::Order));
    for wrong in ["", "[]", "5", r#"{"type":"file_transfer_start","size":1}"#] {
        assert!(receiver.receive(text(wrong)).is_err(), "{wrong}");
    }
    let mut sent = frames(spec(12, 8), b"hello world!").into_iter();
    assert!(matches!(receiver.receive(sent.next().unwrap()), Ok(Some(Received::FileStarted { .. }))));
    assert_eq!(receiver.receive(bytes("?")), Err(TransferError::Order));
    assert_eq!(receiver.receive(describe()), Ok(None));
    assert!(matches!(receiver.receive(bytes("!")), Ok(Some(Received::Blob { .. }))));
}

#[test]
fn a_sender_sends_what_it_said() {
    let mut sender = FileSender::new(spec(12, 8));
    let wrong = sender.chunk(Bytes::from_static(b"hello"), START);
    assert_eq!(wrong, Err(TransferError::Size { said: 8, got: 5 }));
    assert!(sender.chunk(Bytes::from_static(b"hello wo"), START).is_ok());
    assert_eq!(sender.next_size(), 4);
    assert_eq!(sender.clone().finish(), Err(TransferError::Size { said: 12, got: 8 }));
    assert!(sender.chunk(Bytes::from_static(b"rld!"), START).is_ok());
    assert_eq!(sender.chunk(Bytes::new(), START), Err(TransferError::Size { said: 0, got: 0 }));
    assert!(sender.finish().is_ok());
}

proptest! {
    #[test]
    fn every_file_arrives(data in proptest::collection::vec(any::<u8>(), 0..300), chunk in 0..64_u64) {
        let sent = frames(spec(data.len(), chunk.max(1)), &data);
        prop_assert_eq!(content(&receive(sent, ON).unwrap()), Some(data));
        let nothing = FileSender::new(spec(5, 0));
        prop_assert_eq!(nothing.next_size(), 1);
    }

    #[test]
    fn no_description_makes_a_receiver_panic(text in "\\PC{0,40}", data in proptest::collection::vec(any::<u8>(), 0..9)) {
        let mut receiver = Receiver::new(ON);
        let _ = receiver.receive(Frame::Text(text));
        let _ = receiver.receive(Frame::Binary(data.into()));
        prop_assert!(blob(&Map::new(), Bytes::new(), START).len() == 2);
    }
}
