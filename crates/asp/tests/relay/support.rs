//! Samples of every format, and one way to read them.

use switchboard_asp::relay::{BadBody, ContentKind, Decoder, Finished, Limits, Piece};

/// The request all samples answer.
pub(crate) const RID: u16 = 7;

/// What a body gives: its pieces, and how it ended.
pub(crate) type Read = (Vec<Piece>, Result<Finished, BadBody>);

/// Reads a body in these chunks.
pub(crate) fn read_chunks<'a>(
    kind: ContentKind,
    chunks: impl IntoIterator<Item = &'a [u8]>,
    limits: Limits,
) -> Read {
    let mut decoder = Decoder::new(kind, RID, limits);
    let mut pieces = Vec::new();
    for chunk in chunks {
        if let Err(fault) = decoder.feed(chunk, &mut pieces) {
            let before = pieces.len();
            assert_eq!(decoder.feed(b"{}", &mut pieces), Err(fault.clone()), "an error stays");
            assert_eq!(decoder.finish(&mut pieces), Err(fault.clone()), "an error stays");
            assert_eq!(pieces.len(), before);
            return (pieces, Err(fault));
        }
    }
    let finished = decoder.finish(&mut pieces);
    (pieces, finished)
}

/// Reads a body at once.
pub(crate) fn read(kind: ContentKind, body: &[u8]) -> Read {
    read_chunks(kind, [body], Limits::default())
}

/// Bytes of one frame, as the layout says.
pub(crate) fn frame(version_and_type: u8, flags: u8, id: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![version_and_type, flags];
    bytes.extend(id.to_be_bytes());
    bytes.extend(u32::try_from(payload.len()).unwrap().to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// Bodies good and bad, of every kind.
pub(crate) fn samples() -> Vec<(ContentKind, Vec<u8>)> {
    let mut samples = Vec::new();
    let lines = [
        "",
        "\n",
        "{\"t\":\"text\",\"d\":\"A\"}\n{\"t\":\"end\",\"finish\":\"complete\"}\n",
        "{\"t\":\"start\",\"n\":0,\"run\":\"r\"}\r\n\r\n  \n{\"t\":\"text\",\"n\":1,\"d\":\"Grüße 👋\"}\r\n\
         {\"t\":\"ping\"}\n{\"t\":\"later\",\"x\":[1]}\n{\"t\":\"end\",\"n\":2,\"finish\":\"length\"}",
        "{\"t\":\"tool_def\",\"name\":\"echo\",\"input_schema\":{}}\n{\"t\":\"error\",\"code\":2401,\"msg\":\"no\"}\nrest",
        "{\"t\":\"suspend\",\"state\":{\"step\":1}}\n{\"t\":\"text\",\"d\":\"late\"}\n",
        "{\"t\":\"text\",\"d\":\"A\"}\n{\"t\":\"te",
        "{\"t\":\"text\",\"d\":\"A\"}\nnonsense\n{\"t\":\"end\",\"finish\":\"complete\"}\n",
        "{\"t\":\"text\"}\n",
        "[1]\n",
        "{\"t\":\"text\",\"d\":\"A\"}",
    ];
    samples.extend(lines.map(|body| (ContentKind::Ndjson, body.as_bytes().to_vec())));
    let events = [
        "",
        "data: {\"t\":\"text\",\"d\":\"A\"}\n\ndata:{\"t\":\"end\",\"finish\":\"complete\"}\n\n",
        "\u{feff}: hello\r\n\r\nevent: x\r\nid: 1\r\ndata: {\"t\":\"text\",\r\ndata: \"d\":\"é\"}\r\n\r\n:\r\n\
         data: {\"t\":\"end\",\"finish\":\"complete\"}\r\n\r\n",
        "data: {\"t\":\"text\",\"d\":\"A\"}\r\rdata\r\rdata:\r\rretry: 5\r\rdata: {\"t\":\"ping\"}\r\r",
        "data: {\"t\":\"suspend\",\"state\":null}\n\n: after\n\ndata: {\"t\":\"text\",\"d\":\"late\"}\n\n",
        "data: {\"t\":\"end\",\"finish\":\"complete\"}\n",
        "data: nonsense\n\n",
        "datax: 1\n\ndat: 2\n\n\u{feff}data: 3\n\n",
    ];
    samples.extend(events.map(|body| (ContentKind::Sse, body.as_bytes().to_vec())));
    let text = frame(0x13, 0x04, RID, br#"{"t":"text","d":"A"}"#);
    let end = frame(0x13, 0x05, RID, br#"{"t":"end","finish":"complete"}"#);
    let bare = frame(0x13, 0, RID, "Grüße".as_bytes());
    let tools = frame(0x15, 0x04, 0, br#"{"op":"remove","rev":1,"names":["echo"]}"#);
    let packed = frame(0x13, 0x0C, RID, b"\x82\xA1t\xA4text\xA1d\xA1B");
    let frames: [&[Vec<u8>]; 12] = [
        &[],
        &[text.clone(), end.clone()],
        &[bare.clone(), packed, tools, frame(0x13, 0, RID, b""), text.clone()],
        &[frame(0x13, 0x08, RID, &[0xE2, 0x82, 0xAC]), frame(0x13, 0x09, RID, &[0xFF])],
        &[text.clone(), frame(0x16, 0, RID, b"broken"), text.clone()],
        &[frame(0x16, 0x0C, RID, b"\x82\xA4code\x00\xA7metrics\x81\xA6cpu_ms\x2D")],
        &[text.clone(), end[..10].to_vec()],
        &[text.clone(), frame(0x23, 0, RID, b"")],
        &[text, frame(0x13, 0, RID + 1, b"x")],
        &[frame(0x12, 0, RID, b"hi")],
        &[frame(0x13, 0x04, RID, br#"{"t":"suspend","state":[1]}"#), bare],
        &[frame(0x13, 0x04, RID, b"nonsense")],
    ];
    samples.extend(frames.map(|frames| (ContentKind::Frames, frames.concat())));
    let texts: [&[u8]; 4] = [b"", "Grüße, 世界 👋!".as_bytes(), b"cut \xE2\x82", b"bad \xFF text"];
    samples.extend(texts.map(|body| (ContentKind::Text, body.to_vec())));
    samples.push((ContentKind::Bytes, (0..=255).collect()));
    let documents = ["", "{\"answer\":[1,2,{\"x\":\"é\"}]}", " null\n", "{", "1 2"];
    samples.extend(documents.map(|body| (ContentKind::Json, body.as_bytes().to_vec())));
    samples
}
