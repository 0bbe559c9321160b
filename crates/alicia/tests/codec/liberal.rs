//! What other encoders write (AL-002 to AL-007, AL-014, AL-021).

use switchboard_alicia::error::ValueError;
use switchboard_alicia::value::decode_msgpack;
use switchboard_alicia::{Body, Code, Decoded, Dialect, Id, Map, MessageType, Side, StanzaForm, Value};

use crate::support::{CONV, all, body, bytes, client_code, envelope, json, map, one, read};

/// An envelope whose `stanzaId` and `type` are these bytes.
fn raw(stanza: &[u8], kind: &[u8]) -> Vec<u8> {
    let mut packet = b"\x84\xA8stanzaId".to_vec();
    packet.extend(stanza);
    packet.extend(b"\xAEconversationId\xA0\xA4type");
    packet.extend(kind);
    packet.extend(b"\xA4body\x82\xB4acknowledgedStanzaId\x02\xA7success\xC3");
    packet
}

fn stanza(packet: &[u8], from: Side) -> (i32, StanzaForm) {
    match one(packet, from).unwrap() {
        Decoded::Full { envelope, stanza } => (envelope.stanza_id, stanza),
        Decoded::Lite(_) => panic!("not lite"),
    }
}

#[test]
fn al_002_stanza_and_type_come_in_every_width() {
    let kinds: [&[u8]; 9] = [
        b"\x08",
        b"\xCC\x08",
        b"\xCD\0\x08",
        b"\xCE\0\0\0\x08",
        b"\xCF\0\0\0\0\0\0\0\x08",
        b"\xD0\x08",
        b"\xD1\0\x08",
        b"\xD2\0\0\0\x08",
        b"\xD3\0\0\0\0\0\0\0\x08",
    ];
    for kind in kinds {
        for stanza_id in kinds {
            assert_eq!(stanza(&raw(stanza_id, kind), Side::Client), (8, StanzaForm::Given));
        }
    }
    let negative: [&[u8]; 5] = [
        b"\xFF",
        b"\xD0\xFF",
        b"\xD1\xFF\xFF",
        b"\xD2\xFF\xFF\xFF\xFF",
        b"\xD3\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF",
    ];
    for stanza_id in negative {
        assert_eq!(stanza(&raw(stanza_id, b"\x08"), Side::Server), (-1, StanzaForm::Given));
    }
}

#[test]
fn al_004_integral_floats_are_integers() {
    let float32 = [&[0xCA][..], &8_f32.to_be_bytes()].concat();
    let float64 = [&[0xCB][..], &8_f64.to_be_bytes()].concat();
    for number in [&float32, &float64] {
        assert_eq!(stanza(&raw(number, number), Side::Client), (8, StanzaForm::Given));
    }
    let half = [&[0xCB][..], &8.5_f64.to_be_bytes()].concat();
    assert_eq!(one(&raw(b"\x01", &half), Side::Client).unwrap_err().code(), Code::Malformed);
}

#[test]
fn al_021_unusable_stanza_ids_are_0() {
    let beyond = |int: i64| [&[0xD3][..], &int.to_be_bytes()].concat();
    let float = |float: f64| [&[0xCB][..], &float.to_be_bytes()].concat();
    let unusable = [
        beyond(i64::from(i32::MAX) + 1),
        beyond(i64::from(i32::MIN) - 1),
        [&[0xCF][..], &u64::MAX.to_be_bytes()].concat(),
        float(1.5),
        float(f64::NAN),
        float(f64::INFINITY),
        float(1e300),
        vec![0xC0],
    ];
    for number in unusable {
        assert_eq!(stanza(&raw(&number, b"\x08"), Side::Client), (0, StanzaForm::Unusable), "{number:x?}");
    }
    assert_eq!(
        stanza(&raw(&beyond(i64::from(i32::MAX)), b"\x08"), Side::Client),
        (i32::MAX, StanzaForm::Given)
    );
    assert_eq!(
        stanza(&raw(&beyond(i64::from(i32::MIN)), b"\x08"), Side::Server),
        (i32::MIN, StanzaForm::Given)
    );
}

#[test]
fn a_missing_stanza_id_is_0_in_a_room_and_on_a_socket_that_is_full_already() {
    let mut packet = envelope(8, map(r#"{"acknowledgedStanzaId": 2, "success": true}"#));
    packet.remove("stanzaId");
    for dialect in [Dialect::LiveKit, Dialect::Full] {
        match all(&bytes(packet.clone()), Side::Client, dialect).remove(0).unwrap() {
            Decoded::Full { envelope, stanza } => {
                assert_eq!((envelope.stanza_id, stanza), (0, StanzaForm::Missing));
            }
            Decoded::Lite(_) => panic!("not lite"),
        }
    }
}

#[test]
fn al_005_nil_is_absent_wherever_a_value_is_optional() {
    let members =
        r#"{"id": "am_1", "content": "hi", "previousId": null, "timestamp": null, "conversationId": null}"#;
    let Body::UserMessage(message) = body(2, map(members), Side::Client).unwrap() else { panic!("type") };
    assert_eq!((message.previous_id, message.timestamp), (None, None));
    // Nil where a value has to be counts as missing.
    assert_eq!(client_code(2, r#"{"id": "am_1", "content": null}"#), Err(Code::Malformed));
    let nothing = read(
        envelope(8, map(r#"{"acknowledgedStanzaId": 2, "success": true}"#)).with("meta", Value::Nil),
        Side::Client,
    );
    assert!(nothing.unwrap().meta.is_empty());
}

#[test]
fn al_007_extensions_are_nothing_wherever_they_stand() {
    for packet in [
        &[0xD4, 0, 0][..],
        &[0xD4, 1, 7],
        &[0xD5, 0, 0, 0],
        &[0xD6, 0xFF, 0, 0, 0, 0],
        &[0xC7, 0, 5],
        &[0xC7, 2, 5, 1, 2],
        &[0xC8, 0, 1, 5, 1],
        &[0xC9, 0, 0, 0, 1, 5, 1],
    ] {
        assert_eq!(decode_msgpack(packet), Ok(Value::Nil), "{packet:x?}");
        let cut = decode_msgpack(packet.split_last().unwrap().1);
        assert_eq!(cut, Err(ValueError::Truncated), "{packet:x?}");
    }
    assert_eq!(decode_msgpack(&[0xD7, 0xFF]), Err(ValueError::Truncated));
    assert_eq!(decode_msgpack(&[0xC9, 0xFF, 0xFF, 0xFF, 0xFF, 1]), Err(ValueError::Truncated));
    // {"type": 2, "x": <a moment>, "meta": {"y": <ext>}, "body": {"id": "a", "content": "b", "z": <ext>}}
    let mut packet = b"\x84\xa4type\x02\xa1x\xd6\xff\0\0\0\0\xa4meta\x81\xa1y\xd4\x05\0".to_vec();
    packet.extend(b"\xa4body\x83\xa2id\xa1a\xa7content\xa1b\xa1z\xc7\x01\x05\x09");
    let decoded = all(&packet, Side::Client, Dialect::Full);
    let [Ok(Decoded::Full { envelope, .. })] = decoded.as_slice() else { panic!("{decoded:?}") };
    assert!(matches!(&envelope.body, Body::UserMessage(message) if message.content.0 == "b"));
}

#[test]
fn al_006_integers_are_floats_where_floats_are_expected() {
    let trace = |relevance: Value| {
        let members = r#"{"id": "amu_1", "messageId": "am_1", "memoryId": "amem_1", "content": "tea"}"#;
        match body(14, map(members).with("relevance", relevance), Side::Server).unwrap() {
            Body::MemoryTrace(trace) => trace.relevance.get(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(trace(Value::Int(1)).to_bits(), 1_f64.to_bits());
    assert_eq!(trace(Value::Int(0)).to_bits(), 0_f64.to_bits());
    assert_eq!(trace(Value::Float(0.25)).to_bits(), 0.25_f64.to_bits());
}

#[test]
fn al_007_members_of_undefined_meaning_are_ignored() {
    let members = r#"{"id": "am_1", "content": "hi", "attachments": [1, {"a": 2}], "state": 7}"#;
    let extended = envelope(2, map(members)).with("trace_id", json("[]")).with("priority", 1_i64);
    let plain = envelope(2, map(r#"{"id": "am_1", "content": "hi"}"#));
    assert!(read(extended, Side::Client) == read(plain, Side::Client));
}

#[test]
fn of_a_key_that_occurs_twice_the_last_one_counts() {
    let packet = b"\x83\xA1a\x01\xA1b\x02\xA1a\x03";
    assert!(decode_msgpack(packet) == Ok(Value::Map(Map::new().with("b", 2_i64).with("a", 3_i64))));
}

#[test]
fn maps_with_many_keys_are_read_in_good_time() {
    let count = 60_000_u32;
    let mut packet = [&[0xDF][..], &count.to_be_bytes()].concat();
    for key in 0..count {
        packet.extend([&[0xA4][..], format!("{:04x}", key % 0xFFFF).as_bytes(), &[0xC0]].concat());
    }
    let Ok(Value::Map(map)) = decode_msgpack(&packet) else { panic!("not a map") };
    assert_eq!(map.len(), 60_000);
}

#[test]
fn al_014_conversations_may_be_named_by_their_room_in_envelope_and_body() {
    let members = r#"{"acknowledgedStanzaId": 2, "success": true}"#;
    for (outer, inner) in [
        (format!("conv_{CONV}"), CONV.to_owned()),
        (CONV.to_owned(), format!("conv_{CONV}")),
        (format!("conv_{CONV}"), String::new()),
    ] {
        let packet = envelope(8, map(members).with("conversationId", inner)).with("conversationId", outer);
        assert_eq!(read(packet, Side::Client).unwrap().conversation_id, Some(Id::new(CONV).unwrap()));
    }
    let packet = envelope(8, map(members)).with("conversationId", "conv_other");
    assert_eq!(read(packet, Side::Client).unwrap().conversation_id, Some(Id::new("conv_other").unwrap()));
}

#[test]
fn the_conversation_may_be_empty_nil_or_absent() {
    let members = map(r#"{"acknowledgedStanzaId": 2, "success": true}"#);
    for value in [Some(Value::from("")), Some(Value::Nil), None] {
        let mut packet = envelope(8, members.clone());
        packet.remove("conversationId");
        if let Some(value) = value {
            packet.insert("conversationId", value);
        }
        assert_eq!(read(packet, Side::Client).unwrap().conversation_id, None);
    }
}

#[test]
fn arrays_are_read_in_order_each_envelope_by_itself() {
    let good = envelope(8, map(r#"{"acknowledgedStanzaId": 2, "success": true}"#));
    let bad = envelope(2, map("{}"));
    let batch = Value::Array(vec![good.clone().into(), bad.into(), Value::Nil, good.into()]);
    let read = all(&bytes(batch), Side::Client, Dialect::Full);
    let codes: Vec<_> =
        read.iter().map(|read| read.as_ref().map(|_| ()).map_err(|error| error.code())).collect();
    assert_eq!(codes, [Ok(()), Err(Code::Malformed), Err(Code::Malformed), Ok(())]);
    assert!(all(&[0x90], Side::Client, Dialect::Full).is_empty());
}

#[test]
fn al_011_unknown_types_are_no_fault_whatever_they_hold() {
    for number in (1..=100).chain([999, 65_535]).filter(|number| MessageType::from_number(*number).is_none())
    {
        let packet = envelope(number, map(r#"{"conversationId": 7, "id": []}"#))
            .with("conversationId", "not an id")
            .with("meta", 5_i64);
        for from in [Side::Client, Side::Server] {
            let envelope = read(packet.clone(), from).unwrap();
            assert_eq!((envelope.body.kind(), envelope.body.number()), (None, number));
        }
    }
}

#[test]
fn formatting_reveals_no_content() {
    let members = r#"{"id": "am_1", "content": "s3cr3t", "contents": "s3cr3t", "role": "s3cr3t", "sequenceNumber": 1, "createdAt": "", "updatedAt": ""}"#;
    let packet = envelope(2, map(members)).with("meta", map(r#"{"source": "s3cr3t"}"#));
    let read = one(&bytes(packet), Side::Client).unwrap();
    assert!(!format!("{read:?}").contains("s3cr3t"), "{read:?}");
    let tool = r#"{"id": "atu_1", "success": true, "result": {"a": ["s3cr3t"]}, "errorCode": "s3cr3t", "errorMessage": "s3cr3t"}"#;
    let read = one(&bytes(envelope(7, map(tool))), Side::Client).unwrap();
    assert!(!format!("{read:?}").contains("s3cr3t"), "{read:?}");
}
