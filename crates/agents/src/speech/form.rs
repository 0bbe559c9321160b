//! A request with a file in it, as `multipart/form-data`.

use bytes::Bytes;
use switchboard_core::hex;

use super::recording::Recording;

/// The body of a request, and what tells its parts.
pub(super) struct Form {
    pub(super) content_type: String,
    pub(super) body: Bytes,
}

impl Form {
    /// A form of some fields, whose names and values are harmless, and a recording. The seed depends on all of the
    /// audio: whoever has made that cannot foresee the boundary.
    pub(super) fn new(fields: &[(&str, &str)], recording: &Recording<'_>, seed: &[u8]) -> Self {
        let boundary = boundary(seed, recording.audio);
        let mut body = Vec::with_capacity(recording.audio.len() + 1024);
        for (name, value) in fields {
            let head = format!("--{boundary}\r\ncontent-disposition: form-data; name=\"{name}\"\r\n\r\n");
            body.extend_from_slice(head.as_bytes());
            body.extend_from_slice(value.as_bytes());
            body.extend_from_slice(b"\r\n");
        }
        let Recording { name, media_type, header, audio } = recording;
        let head = format!(
            "--{boundary}\r\ncontent-disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\
             content-type: {media_type}\r\n\r\n"
        );
        body.extend_from_slice(head.as_bytes());
        body.extend_from_slice(header);
        body.extend_from_slice(audio);
        body.extend_from_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
        Self { content_type: format!("multipart/form-data; boundary={boundary}"), body: body.into() }
    }
}

/// A line that does not occur in the audio.
fn boundary(seed: &[u8], audio: &[u8]) -> String {
    let seed = hex(seed.iter().take(16));
    let mut number = 0_u64;
    loop {
        let boundary = format!("switchboard-{seed}-{number}");
        if !audio.windows(boundary.len()).any(|window| window == boundary.as_bytes()) {
            return boundary;
        }
        number += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_boundary_does_not_occur_in_the_audio() {
        let seed = [0xab; 32];
        let first = boundary(&seed, b"");
        let second = boundary(&seed, format!("..{first}..").as_bytes());
        let third = boundary(&seed, format!("{second}\r\n--{first}").as_bytes());
        assert!(first != second && second != third && third != first);
        assert!(first.len() <= 70, "longer than a boundary may be: {first}");
        assert_eq!(boundary(&seed, &first.as_bytes()[1..]), first);
    }
}
