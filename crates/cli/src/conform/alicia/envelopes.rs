//! Envelopes and their encoding (sections 2 and 3).

use serde_json::{Value, json};

use super::super::check::{Check, Outcome, Run, must};
use super::super::inbox::Inbox as _;
use super::peer::{
    ACK, ASSISTANT, DIMENSIONS, ELITES, ERROR, Envelope, Peer, START, SUBSCRIBE, SUBSCRIBED, USER,
};

pub(super) const CHECKS: &[Check] = &[
    Check { shows: &[1], needs: &[], run: |run| Box::pin(keys_in_order(run)) },
    Check { shows: &[2], needs: &[], run: |run| Box::pin(integers_of_every_width(run)) },
    Check { shows: &[3, 4, 5], needs: &[], run: |run| Box::pin(as_browsers_write(run)) },
    Check { shows: &[6], needs: &[], run: |run| Box::pin(floats_of_both_widths(run)) },
    Check { shows: &[7], needs: &[], run: |run| Box::pin(unknown_keys(run)) },
    Check { shows: &[8, 10], needs: &[], run: |run| Box::pin(malformed(run)) },
    Check { shows: &[9], needs: &[], run: |run| Box::pin(depth_and_lengths(run)) },
    Check { shows: &[10], needs: &[], run: |run| Box::pin(too_much_of_it(run)) },
    Check { shows: &[11], needs: &[], run: |run| Box::pin(unknown_types(run)) },
    Check { shows: &[12], needs: &[], run: |run| Box::pin(wrong_side(run)) },
    Check { shows: &[13], needs: &[], run: |run| Box::pin(two_conversations(run)) },
    Check { shows: &[14], needs: &[], run: |run| Box::pin(a_prefix_is_taken_off(run)) },
    Check { shows: &[15, 42], needs: &[], run: |run| Box::pin(ids_are_opaque(run)) },
    Check { shows: &[16, 18], needs: &[], run: |run| Box::pin(stanzas_are_dense(run)) },
    Check { shows: &[19], needs: &[], run: |run| Box::pin(a_repeated_stanza(run)) },
    Check { shows: &[20], needs: &[], run: |run| Box::pin(beginning_at_one_again(run)) },
    Check { shows: &[21], needs: &[], run: |run| Box::pin(a_stanza_beyond_32_bits(run)) },
];

async fn keys_in_order(run: &Run<'_>) -> Outcome {
    let mut peer = Peer::met(run).await?;
    let (_, mut envelopes) = peer.turn(&run.settings.say).await?;
    envelopes.extend(peer.greeting.clone());
    for envelope in envelopes {
        let keys: Vec<&str> =
            envelope.value.as_object().into_iter().flatten().map(|(name, _)| name.as_str()).collect();
        let plain = keys == ["stanzaId", "conversationId", "type", "body"];
        let with_meta = keys == ["stanzaId", "conversationId", "type", "meta", "body"];
        let some = envelope.value["meta"].as_object().is_some_and(|meta| !meta.is_empty());
        must!(plain || with_meta && some, "the keys of an envelope in order, got {keys:?}");
    }
    peer.close().await;
    Ok(())
}

/// A string as MessagePack.
fn text(value: &str) -> Vec<u8> {
    rmp_serde::to_vec(value).unwrap_or_default()
}

/// A Subscribe whose stanza and type are written like this.
fn subscribe(conversation: &str, stanza: &[u8], kind: &[u8]) -> Vec<u8> {
    let body = rmp_serde::to_vec_named(&json!({ "conversationId": conversation })).unwrap_or_default();
    [
        &[0x84][..],
        &text("stanzaId"),
        stanza,
        &text("conversationId"),
        &text(conversation),
        &text("type"),
        kind,
        &text("body"),
        &body,
    ]
    .concat()
}

async fn subscribed(peer: &mut Peer<'_>) -> Outcome {
    let ack = peer.kind("SubscribeAck", SUBSCRIBED).await?;
    must!(*ack.get("success") == true, "success, got {}", ack.value);
    Ok(())
}

async fn integers_of_every_width(run: &Run<'_>) -> Outcome {
    let mut peer = Peer::met(run).await?;
    let conversation = peer.conversation.clone();
    let written: [(&[u8], &[u8]); 5] = [
        (&[0xcc, 10], &[40]),
        (&[0xcd, 0, 11], &[0xcd, 0, 40]),
        (&[0xd2, 0, 0, 0, 12], &[0xd1, 0, 40]),
        (&[0xcf, 0, 0, 0, 0, 0, 0, 0, 13], &[0xce, 0, 0, 0, 40]),
        (&[0xd3, 0, 0, 0, 0, 0, 0, 0, 14], &[0xcc, 40]),
    ];
    for (stanza, kind) in written {
        peer.raw(subscribe(&conversation, stanza, kind)).await;
        subscribed(&mut peer).await?;
    }
    peer.close().await;
    Ok(())
}

async fn as_browsers_write(run: &Run<'_>) -> Outcome {
    let mut peer = Peer::met(run).await?;
    let (conversation, id) = (peer.conversation.clone(), peer.fresh("am")?);
    let mut bytes = vec![0xde, 0, 4];
    bytes.extend(
        [text("stanzaId"), vec![7], text("conversationId"), text(&conversation), text("type"), vec![2]]
            .concat(),
    );
    bytes.extend(
        [text("body"), vec![0xde, 0, 5], text("id"), text(&id), text("conversationId"), text(&conversation)]
            .concat(),
    );
    bytes.extend([text("content"), text(&run.settings.say), text("previousId"), vec![0xd4, 0, 0]].concat());
    bytes.extend([text("timestamp"), [&[0xcb][..], &1_767_225_600_000_f64.to_be_bytes()].concat()].concat());
    peer.raw(bytes).await;
    must!(peer.ack(7).await?, "what browsers write to be accepted");
    peer.answer(&id).await?;
    peer.close().await;
    Ok(())
}

async fn floats_of_both_widths(run: &Run<'_>) -> Outcome {
    let mut peer = Peer::met(run).await?;
    let names =
        ["successRate", "quality", "efficiency", "robustness", "generalization", "diversity", "innovation"];
    for (stanza, weight) in [
        (20_u8, vec![0xca, 0x3f, 0, 0, 0]),
        (21, [&[0xcb][..], &0.5_f64.to_be_bytes()].concat()),
        (22, vec![1]),
    ] {
        let weights: Vec<u8> = names.iter().flat_map(|name| [text(name), weight.clone()].concat()).collect();
        let conversation = text(&peer.conversation);
        let head = [
            text("stanzaId"),
            vec![stanza],
            text("conversationId"),
            conversation.clone(),
            text("type"),
            vec![29],
        ]
        .concat();
        let body = [
            text("conversationId"),
            conversation,
            text("weights"),
            vec![0x87],
            weights,
            text("timestamp"),
            vec![1],
        ]
        .concat();
        peer.raw([vec![0x84], head, text("body"), vec![0x83], body].concat()).await;
        must!(peer.ack(i64::from(stanza)).await?, "a weight as float32, float64 and integer to be accepted");
        peer.kind("EliteOptions", ELITES).await?;
    }
    peer.close().await;
    Ok(())
}

async fn unknown_keys(run: &Run<'_>) -> Outcome {
    let mut peer = Peer::met(run).await?;
    let body = json!({ "conversationId": peer.conversation, "future": { "x": [1, null] } });
    peer.envelope(&json!({ "future": true, "stanzaId": 9, "conversationId": peer.conversation, "type": SUBSCRIBE, "body": body })).await;
    subscribed(&mut peer).await?;
    peer.close().await;
    Ok(())
}

async fn malformed(run: &Run<'_>) -> Outcome {
    let mut peer = Peer::met(run).await?;
    let mut trailing =
        rmp_serde::to_vec_named(&json!({ "stanzaId": 0, "conversationId": "", "type": 999, "body": {} }))
            .unwrap_or_default();
    trailing.push(0);
    for bytes in [
        vec![],
        vec![0xc0],
        vec![0x80],
        b"\x81\xa4type\x02".to_vec(),
        b"\x82\xa4type\x02\xa4body\xc0".to_vec(),
        trailing,
    ] {
        peer.raw(bytes).await;
        let error = peer.error(101).await?;
        must!(*error.get("recoverable") == true, "a recoverable error, got {}", error.value);
    }
    peer.still_serves().await?;
    peer.close().await;
    Ok(())
}

async fn depth_and_lengths(run: &Run<'_>) -> Outcome {
    let mut peer = Peer::met(run).await?;
    let deep = [
        &[0x83][..],
        &text("conversationId"),
        &text(""),
        &text("type"),
        &[2],
        &text("body"),
        &[0x81],
        &text("x"),
        &[0x91; 64],
        &[0xc0],
    ]
    .concat();
    for bytes in [deep, vec![0xdf, 0xff, 0xff, 0xff, 0xff]] {
        peer.raw(bytes).await;
        peer.error(101).await?;
    }
    peer.still_serves().await?;
    peer.close().await;
    Ok(())
}

async fn too_much_of_it(run: &Run<'_>) -> Outcome {
    let mut peer = Peer::met(run).await?;
    for _ in 0..12 {
        peer.raw(vec![0xc0]).await;
    }
    peer.ended().await
}

async fn unknown_types(run: &Run<'_>) -> Outcome {
    let mut peer = Peer::met(run).await?;
    let conversation = peer.conversation.clone();
    peer.listen(0).await?;
    for kind in [999, 90, 65_535] {
        peer.send_to(&conversation, kind, json!({})).await;
    }
    peer.still_serves().await?;
    let said = peer.listen(100).await?;
    must!(said.iter().all(|envelope| envelope.kind() != ERROR), "silence about unknown types, got {said:?}");
    peer.close().await;
    Ok(())
}

async fn wrong_side(run: &Run<'_>) -> Outcome {
    let mut peer = Peer::met(run).await?;
    let conversation = peer.conversation.clone();
    let id = peer.fresh("am")?;
    for (kind, body) in [
        (START, json!({ "id": id, "previousId": id, "conversationId": conversation })),
        (ASSISTANT, json!({ "id": id, "conversationId": conversation, "content": "x" })),
    ] {
        peer.send(kind, body).await;
        peer.error(102).await?;
    }
    peer.still_serves().await?;
    peer.close().await;
    Ok(())
}

async fn two_conversations(run: &Run<'_>) -> Outcome {
    let mut peer = Peer::met(run).await?;
    let (id, other) = (peer.fresh("am")?, peer.fresh("ac")?);
    peer.send(USER, json!({ "id": id, "conversationId": other, "content": run.settings.say })).await;
    let error = peer.error(201).await?;
    must!(*error.get("recoverable") == true, "a recoverable error, got {}", error.value);
    let said = peer.listen(300).await?;
    must!(said.iter().all(|envelope| envelope.kind() != START), "no answer");
    peer.close().await;
    Ok(())
}

async fn a_prefix_is_taken_off(run: &Run<'_>) -> Outcome {
    let mut peer = Peer::met(run).await?;
    let prefixed = format!("conv_{}", peer.conversation);
    peer.send_to(&prefixed, SUBSCRIBE, json!({ "conversationId": prefixed })).await;
    let ack = peer.kind("SubscribeAck", SUBSCRIBED).await?;
    let same = *ack.get("success") == true && *ack.get("conversationId") == peer.conversation.as_str();
    must!(same, "the conversation without conv_, got {}", ack.value);
    peer.close().await;
    Ok(())
}

async fn ids_are_opaque(run: &Run<'_>) -> Outcome {
    let mut peer = Peer::met(run).await?;
    for id in [format!("no/prefix+{}", run.fresh()?), format!("{:x<128}", run.fresh()?)] {
        let stanza = peer.say_as(&id, &run.settings.say).await;
        must!(peer.ack(stanza).await?, "any id of up to 128 bytes to be accepted");
        let envelopes = peer.answer(&id).await?;
        let answers = envelopes
            .iter()
            .any(|envelope| envelope.kind() == START && *envelope.get("previousId") == id.as_str());
        must!(answers, "an answer to the message under the id of its client");
    }
    peer.close().await;
    Ok(())
}

async fn stanzas_are_dense(run: &Run<'_>) -> Outcome {
    let mut peer = Peer::met(run).await?;
    let mut stanzas = Vec::new();
    for _ in 0..2 {
        let (_, envelopes) = peer.turn(&run.settings.say).await?;
        stanzas.extend(envelopes.iter().map(Envelope::stanza));
    }
    let expected: Vec<i64> =
        (1..=stanzas.len()).map(|place| -i64::try_from(place).unwrap_or_default()).collect();
    must!(stanzas == expected, "stanzas from -1 without holes, got {stanzas:?}");
    let greeting: Vec<i64> = peer.greeting.iter().map(Envelope::stanza).collect();
    must!(greeting.iter().all(|stanza| *stanza == 0), "0 for what is not sequenced, got {greeting:?}");
    peer.close().await;
    Ok(())
}

async fn a_repeated_stanza(run: &Run<'_>) -> Outcome {
    let mut peer = Peer::met(run).await?;
    let (id, stanza) = peer.say(&run.settings.say).await?;
    must!(peer.ack(stanza).await?, "the message to be accepted");
    peer.answer(&id).await?;
    let again = |id: &str| -> Value {
        let body = json!({ "id": id, "conversationId": peer.conversation, "content": run.settings.say });
        json!({ "stanzaId": stanza, "conversationId": peer.conversation, "type": USER, "body": body })
    };
    let (known, unknown) = (again(&id), again(&peer.fresh("am")?));
    peer.envelope(&known).await;
    must!(peer.ack(stanza).await?, "a known id to be acknowledged again");
    peer.envelope(&unknown).await;
    peer.error(103).await?;
    let said = peer.listen(300).await?;
    must!(said.iter().all(|envelope| envelope.kind() != START), "no answer to either");
    peer.close().await;
    Ok(())
}

async fn beginning_at_one_again(run: &Run<'_>) -> Outcome {
    let first = Peer::met(run).await?;
    let conversation = first.conversation.clone();
    first.close().await;
    let mut peer = Peer::joined(run, &conversation).await?;
    peer.turn(&run.settings.say).await?;
    peer.close().await;
    Ok(())
}

async fn a_stanza_beyond_32_bits(run: &Run<'_>) -> Outcome {
    let mut peer = Peer::met(run).await?;
    let body =
        json!({ "conversationId": peer.conversation, "preset": "speed", "weights": {}, "timestamp": 1 });
    peer.envelope(&json!({ "stanzaId": 1_767_225_600_000_001_i64, "conversationId": peer.conversation, "type": DIMENSIONS, "body": body })).await;
    peer.kind("EliteOptions", ELITES).await?;
    let said = peer.listen(100).await?;
    let answered = said.iter().any(|envelope| [ACK, ERROR].contains(&envelope.kind()));
    must!(!answered, "no acknowledgement of what counts as 0, got {said:?}");
    peer.close().await;
    Ok(())
}
