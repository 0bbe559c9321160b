//! MCP over the standard input and output of a process: one message per line, of bounded length.

use std::io;
use std::sync::Arc;

use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, RequestId, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::Mutex;
use tracing::debug;

use super::outcome;

/// The most bytes that one message of a server may have.
pub(super) const MAX_MESSAGE_BYTES: usize = 8 << 20;

/// A transport over a pair of pipes.
#[derive(Debug)]
pub(super) struct Lines<R, W> {
    read: BufReader<R>,
    line: Line,
    write: Arc<Mutex<Option<W>>>,
    unreadable: u32,
}

impl<R: AsyncRead, W> Lines<R, W> {
    pub(super) fn new(read: R, write: W) -> Self {
        Self {
            read: BufReader::new(read),
            line: Line::default(),
            write: Arc::new(Mutex::new(Some(write))),
            unreadable: 0,
        }
    }
}

impl<R, W> Transport<RoleClient> for Lines<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = io::Error;

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let write = self.write.clone();
        async move {
            let mut text = serde_json::to_vec(&message)?;
            text.push(b'\n');
            match write.lock().await.as_mut() {
                Some(write) => {
                    write.write_all(&text).await?;
                    write.flush().await
                }
                None => Err(io::ErrorKind::NotConnected.into()),
            }
        }
    }

    /// Can be dropped and called again without losing anything: what has been read of a line stays.
    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            let bytes = self.read.fill_buf().await.ok().filter(|bytes| !bytes.is_empty())?;
            let end = bytes.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(bytes.len(), |end| end + 1);
            self.line.extend(bytes.get(..end.unwrap_or(taken)).unwrap_or_default());
            self.read.consume(taken);
            if end.is_none() {
                continue;
            }
            match self.line.finish() {
                Read::Message(message) => return Some(*message),
                Read::Nothing => {}
                Read::Unreadable => {
                    self.unreadable += 1;
                    if self.unreadable == MAX_UNREADABLE {
                        debug!("a server writes nothing that can be read");
                        return None;
                    }
                }
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        drop(self.write.lock().await.take());
        Ok(())
    }
}

/// A line as far as it has been read. Of one that is too long, the beginning and the end are kept:
/// they say which request it answers.
#[derive(Debug, Default)]
struct Line {
    bytes: Vec<u8>,
    overlong: bool,
}

#[derive(Debug)]
enum Read {
    Message(Box<ServerJsonRpcMessage>),
    Nothing,
    Unreadable,
}

impl Line {
    fn extend(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        if self.bytes.len() > MAX_MESSAGE_BYTES {
            self.overlong = true;
        }
        if self.overlong && self.bytes.len() > 2 * EDGE {
            self.bytes.drain(EDGE..self.bytes.len() - EDGE);
            self.bytes.shrink_to(8 * EDGE);
        }
    }

    fn finish(&mut self) -> Read {
        let read = if self.overlong {
            match answered_by(&self.bytes) {
                Some(id) => Read::Message(Box::new(outcome::too_large(RequestId::Number(id)))),
                None => Read::Unreadable,
            }
        } else if self.bytes.trim_ascii().is_empty() {
            Read::Nothing
        } else {
            match serde_json::from_slice(&self.bytes) {
                Ok(message) => Read::Message(Box::new(message)),
                Err(_) => Read::Unreadable,
            }
        };
        self.overlong = false;
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_CAPACITY);
        read
    }
}

/// The request that an answer is for, if only the edges of the answer are known. Its number stands
/// before the result, or at the very end, where one closing brace tells it from numbers within.
fn answered_by(edges: &[u8]) -> Option<i64> {
    let (first, last) = edges.split_at_checked(EDGE)?;
    let first = String::from_utf8_lossy(first);
    let last = String::from_utf8_lossy(last);
    let before = first.split_once("\"result\"").map_or("", |(before, _)| before);
    let number = |text: &str| text.trim().parse().ok();
    let leading = before.split_once("\"id\":").and_then(|(_, id)| number(id.split(',').next()?));
    let trailing = last.trim_end().strip_suffix('}').and_then(|end| number(end.rsplit_once("\"id\":")?.1));
    leading.or(trailing)
}

const EDGE: usize = 256;
const KEPT_CAPACITY: usize = 64 << 10;
const MAX_UNREADABLE: u32 = 10_000;

#[cfg(test)]
mod tests {
    use rmcp::model::JsonRpcMessage;
    use tokio::io::{DuplexStream, duplex};

    use super::*;

    fn lines() -> (Lines<DuplexStream, DuplexStream>, DuplexStream) {
        let (read, written) = duplex(1 << 16);
        let (write, _) = duplex(1);
        (Lines::new(read, write), written)
    }

    async fn read(bytes: Vec<u8>) -> Vec<ServerJsonRpcMessage> {
        let (mut lines, mut written) = lines();
        let writer = tokio::spawn(async move { written.write_all(&bytes).await });
        let mut read = Vec::new();
        while let Some(message) = lines.receive().await {
            read.push(message);
        }
        writer.await.unwrap().unwrap();
        assert!(lines.line.bytes.capacity() <= KEPT_CAPACITY);
        read
    }

    #[tokio::test]
    async fn what_is_no_message_is_skipped() {
        let answer = br#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
        let bytes = [b"hello\n\n{\"a\":1}\n\xff\xfe\n".as_slice(), answer, b"\r\n", answer].concat();
        let read = read(bytes).await;
        assert_eq!(read.len(), 1, "the last one is not complete: {read:?}");
    }

    #[tokio::test]
    async fn an_answer_that_is_too_long_becomes_an_error_for_its_request() {
        let content = format!(r#"{{"id":5,"x":"{}","y":{{"id":6}}}}"#, "x".repeat(MAX_MESSAGE_BYTES));
        for (line, expected) in [
            (format!(r#"{{"jsonrpc":"2.0","id":3,"result":{content}}}"#), Some(3)),
            (format!(r#"{{"result":{content},"jsonrpc":"2.0","id":4}}"#), Some(4)),
            (format!(r#"{{"result":{content},"jsonrpc":"2.0"}}"#), None),
            (content, None),
        ] {
            let ids: Vec<_> = read([line.as_bytes(), b"\n"].concat()).await.into_iter().map(failed).collect();
            assert_eq!(ids, expected.map(RequestId::Number).into_iter().collect::<Vec<_>>());
        }
    }

    fn failed(message: ServerJsonRpcMessage) -> RequestId {
        let JsonRpcMessage::Error(error) = message else { panic!("{message:?}") };
        error.id.unwrap()
    }

    #[tokio::test]
    async fn who_writes_only_rubbish_is_given_up() {
        let (mut lines, mut written) = lines();
        tokio::spawn(async move { while written.write_all(b"rubbish\n").await.is_ok() {} });
        assert!(lines.receive().await.is_none());
    }
}
