//! Blobs and files between two peers that agreed on it (§7): texts that describe, each followed by
//! the bytes it describes. Middleware does not see them, and our server does not take them.
//!
//! ```text
//! file_transfer_start · (binary_data · bytes)* · file_transfer_complete
//! ```

use std::io;

use bytes::Bytes;
use md5::{Digest as _, Md5};
use serde::ser::{Serialize, SerializeMap as _, Serializer as _};
use serde_json::ser::Formatter;
use serde_json::{Map, Value};
use switchboard_core::{Timestamp, hex, wide};

use crate::codec::timestamp;

/// One transport message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// A text message.
    Text(String),
    /// A binary message.
    Binary(Bytes),
}

/// The two messages of a single blob. What the metadata say of type, size and time does not count.
pub fn blob(metadata: &Map<String, Value>, data: Bytes, now: Timestamp) -> [Frame; 2] {
    let size = data.len() as u64;
    let text = spaced(|object| {
        for (key, value) in metadata.iter().filter(|(key, _)| !OWN_KEYS.contains(&key.as_str())) {
            object.entry(key, value)?;
        }
        object.entry("type", BINARY_DATA)?;
        object.entry("size", &size)?;
        object.entry("timestamp", &timestamp(now))
    });
    [Frame::Text(text), Frame::Binary(data)]
}

/// A file that is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSpec {
    /// Its name.
    pub filename: String,
    /// How many bytes it has.
    pub size: u64,
    /// How many bytes go into one message; the last may have fewer.
    pub chunk_size: u64,
    /// What is in it.
    pub mime_type: Option<String>,
    /// Whether the receiver gets something to check the bytes against.
    pub checksum: Checksum,
}

impl FileSpec {
    /// A file, in chunks of a megabyte, with a checksum.
    pub fn new(filename: impl Into<String>, size: u64) -> Self {
        Self {
            filename: filename.into(),
            size,
            chunk_size: DEFAULT_CHUNK,
            mime_type: None,
            checksum: Checksum::Md5,
        }
    }

    /// How many chunks it has; none if it is empty.
    pub const fn total_chunks(&self) -> u64 {
        chunks(self.size, self.chunk_size)
    }
}

/// What a receiver can check the bytes against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksum {
    /// The MD5 of the whole file. It finds accidents, not attacks.
    Md5,
    /// Nothing.
    Off,
}

/// Sends a file that is handed over piece by piece: [`start`](Self::start), every
/// [`chunk`](Self::chunk), [`finish`](Self::finish).
#[derive(Clone, Debug)]
pub struct FileSender {
    spec: FileSpec,
    sent: u64,
    number: u64,
    md5: Md5,
}

impl FileSender {
    /// Before the first message.
    pub fn new(spec: FileSpec) -> Self {
        let spec = FileSpec { chunk_size: spec.chunk_size.max(1), ..spec };
        Self { spec, sent: 0, number: 0, md5: Md5::new() }
    }

    /// The first message.
    pub fn start(&self) -> Frame {
        let spec = &self.spec;
        Frame::Text(spaced(|object| {
            object.entry("type", FILE_START)?;
            object.entry("filename", &spec.filename)?;
            object.entry("size", &spec.size)?;
            object.entry("chunk_size", &spec.chunk_size)?;
            object.entry("total_chunks", &spec.total_chunks())?;
            object.entry("mime_type", &spec.mime_type)
        }))
    }

    /// How many bytes the next chunk has; 0 once all are sent.
    pub fn next_size(&self) -> u64 {
        self.spec.chunk_size.min(self.spec.size.saturating_sub(self.sent))
    }

    /// The two messages of the next chunk.
    ///
    /// # Errors
    /// It is not of the size that is next.
    pub fn chunk(&mut self, data: Bytes, now: Timestamp) -> Result<[Frame; 2], TransferError> {
        let (size, due) = (data.len() as u64, self.next_size());
        if size != due || size == 0 {
            return Err(TransferError::Size { said: due, got: size });
        }
        let metadata = Map::from_iter([
            ("chunk_num".to_owned(), self.number.into()),
            ("chunk_size".to_owned(), size.into()),
        ]);
        self.md5.update(&data);
        self.number += 1;
        self.sent += size;
        Ok(blob(&metadata, data, now))
    }

    /// The last message.
    ///
    /// # Errors
    /// Not all of the file was sent.
    pub fn finish(self) -> Result<Frame, TransferError> {
        let Self { spec, sent, md5, .. } = self;
        if sent != spec.size {
            return Err(TransferError::Size { said: spec.size, got: sent });
        }
        Ok(Frame::Text(spaced(|object| {
            object.entry("type", FILE_COMPLETE)?;
            object.entry("filename", &spec.filename)?;
            object.entry("total_chunks", &spec.total_chunks())?;
            match spec.checksum {
                Checksum::Md5 => object.entry("checksum", &hex(&md5.finalize())),
                Checksum::Off => Ok(()),
            }
        })))
    }
}

/// What a receiver lets pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiverConfig {
    /// The most bytes in a blob or a chunk.
    pub max_blob: u64,
    /// The most bytes in a file.
    pub max_file: u64,
    /// Whether what was said of sizes and checksums must be true. The limits hold in any case.
    pub validation: Validation,
}

impl Default for ReceiverConfig {
    fn default() -> Self {
        Self { max_blob: 100 << 20, max_file: 1 << 30, validation: Validation::On }
    }
}

/// Whether a receiver checks what it gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validation {
    /// It does.
    On,
    /// It takes what comes.
    Off,
}

/// Receives blobs and files, one after another. It keeps no bytes: chunks are handed on as they come.
/// After an error it waits for the next blob or file.
#[derive(Clone, Debug)]
pub struct Receiver {
    config: ReceiverConfig,
    /// The file that is being received.
    file: Option<FileInProgress>,
    /// What was said of the bytes that come next.
    described: Option<Described>,
}

#[derive(Clone, Debug)]
struct FileInProgress {
    filename: String,
    size: u64,
    total_chunks: u64,
    chunks: u64,
    got: u64,
    md5: Md5,
}

#[derive(Clone, Debug)]
struct Described {
    metadata: Map<String, Value>,
    size: Option<u64>,
}

/// What was received.
#[derive(Clone, Debug, PartialEq)]
pub enum Received {
    /// A blob.
    Blob {
        /// What was said of it. Its `type` should be `binary_data`, but need not be.
        metadata: Map<String, Value>,
        /// The bytes.
        data: Bytes,
    },
    /// A file begins.
    FileStarted {
        /// Its name, as the sender says; no path to be trusted.
        filename: String,
        /// How many bytes it is to have.
        size: u64,
        /// What is in it.
        mime_type: Option<String>,
    },
    /// The next bytes of the file.
    Chunk(Bytes),
    /// The file is complete.
    FileDone {
        /// Its name, as the sender says; no path to be trusted.
        filename: String,
        /// How many bytes it has.
        size: u64,
        /// The MD5 of all of them.
        checksum: String,
    },
}

/// Why a transfer went wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransferError {
    /// A text does not describe anything.
    #[error("{0} is missing or cannot be used")]
    Metadata(&'static str),
    /// There are more or fewer bytes than were said.
    #[error("{said} bytes were said and {got} came")]
    Size {
        /// What was said.
        said: u64,
        /// What came.
        got: u64,
    },
    /// There are more or fewer chunks than were said.
    #[error("{said} chunks were said and {got} came")]
    Chunks {
        /// What was said.
        said: u64,
        /// What came.
        got: u64,
    },
    /// There are more bytes than the receiver takes.
    #[error("more than {max} bytes")]
    TooLarge {
        /// The limit.
        max: u64,
    },
    /// The bytes are not those that were sent.
    #[error("the checksum does not fit")]
    Checksum,
    /// Bytes came that nothing describes, or a description without its bytes.
    #[error("text and bytes do not alternate")]
    Order,
}

impl Receiver {
    /// Before the first message.
    pub const fn new(config: ReceiverConfig) -> Self {
        Self { config, file: None, described: None }
    }

    /// Takes one message; answers what is complete with it.
    ///
    /// # Errors
    /// The transfer it belongs to has failed.
    pub fn receive(&mut self, frame: Frame) -> Result<Option<Received>, TransferError> {
        let received = match frame {
            Frame::Text(text) => self.text(&text),
            Frame::Binary(data) => self.bytes(data).map(Some),
        };
        if received.is_err() {
            self.file = None;
            self.described = None;
        }
        received
    }

    fn text(&mut self, text: &str) -> Result<Option<Received>, TransferError> {
        if self.described.is_some() {
            return Err(TransferError::Order);
        }
        let Ok(Value::Object(metadata)) = serde_json::from_str(&wide::shelter(text)) else {
            return Err(TransferError::Metadata("the description"));
        };
        match (metadata.get("type").and_then(Value::as_str), self.file.take()) {
            (Some(FILE_START), None) => self.start(&metadata).map(Some),
            (Some(FILE_COMPLETE), Some(file)) => self.complete(file, &metadata).map(Some),
            (_, file) => {
                self.file = file;
                self.describe(metadata).map(|()| None)
            }
        }
    }

    fn start(&mut self, metadata: &Map<String, Value>) -> Result<Received, TransferError> {
        let text = |key: &str| metadata.get(key).and_then(Value::as_str).map(str::to_owned);
        let filename = text("filename").ok_or(TransferError::Metadata("filename"))?;
        let size = number(metadata, "size")?;
        let total_chunks = number(metadata, "total_chunks")?;
        if size > self.config.max_file {
            return Err(TransferError::TooLarge { max: self.config.max_file });
        }
        let expected = chunks(size, number(metadata, "chunk_size")?);
        if self.config.validation == Validation::On && total_chunks != expected {
            return Err(TransferError::Chunks { said: total_chunks, got: expected });
        }
        let (name, md5) = (filename.clone(), Md5::new());
        self.file = Some(FileInProgress { filename: name, size, total_chunks, chunks: 0, got: 0, md5 });
        Ok(Received::FileStarted { filename, size, mime_type: text("mime_type") })
    }

    fn describe(&mut self, metadata: Map<String, Value>) -> Result<(), TransferError> {
        let size = match (number(&metadata, "size"), self.config.validation) {
            (Ok(size), _) => Some(size),
            (Err(error), Validation::On) => return Err(error),
            (Err(_), Validation::Off) => None,
        };
        if size.is_some_and(|size| size > self.config.max_blob) {
            return Err(TransferError::TooLarge { max: self.config.max_blob });
        }
        self.described = Some(Described { metadata, size });
        Ok(())
    }

    fn bytes(&mut self, data: Bytes) -> Result<Received, TransferError> {
        let Described { metadata, size } = self.described.take().ok_or(TransferError::Order)?;
        let got = data.len() as u64;
        if got > self.config.max_blob {
            return Err(TransferError::TooLarge { max: self.config.max_blob });
        }
        if self.config.validation == Validation::On
            && let Some(said) = size.filter(|said| *said != got)
        {
            return Err(TransferError::Size { said, got });
        }
        let Some(file) = &mut self.file else { return Ok(Received::Blob { metadata, data }) };
        file.chunks += 1;
        file.got += got;
        if file.chunks > file.total_chunks {
            return Err(TransferError::Chunks { said: file.total_chunks, got: file.chunks });
        }
        if file.got > self.config.max_file {
            return Err(TransferError::TooLarge { max: self.config.max_file });
        }
        file.md5.update(&data);
        Ok(Received::Chunk(data))
    }

    fn complete(
        &self,
        file: FileInProgress,
        metadata: &Map<String, Value>,
    ) -> Result<Received, TransferError> {
        if file.chunks != file.total_chunks {
            return Err(TransferError::Chunks { said: file.total_chunks, got: file.chunks });
        }
        let checksum = hex(&file.md5.finalize());
        if self.config.validation == Validation::On {
            if file.got != file.size {
                return Err(TransferError::Size { said: file.size, got: file.got });
            }
            let said = metadata.get("checksum").and_then(Value::as_str);
            if said.is_some_and(|said| !said.eq_ignore_ascii_case(&checksum)) {
                return Err(TransferError::Checksum);
            }
        }
        Ok(Received::FileDone { filename: file.filename, size: file.got, checksum })
    }
}

const fn chunks(size: u64, chunk_size: u64) -> u64 {
    size.div_ceil(if chunk_size == 0 { 1 } else { chunk_size })
}

fn number(metadata: &Map<String, Value>, key: &'static str) -> Result<u64, TransferError> {
    metadata.get(key).and_then(Value::as_u64).ok_or(TransferError::Metadata(key))
}

/// An object with blanks behind colons and commas, as the reference writes these.
fn spaced(write: impl FnOnce(&mut Object<'_>) -> serde_json::Result<()>) -> String {
    let mut bytes = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, Spaced);
    // Writing to memory cannot fail, and every key is a string.
    let _ = serializer.serialize_map(None).and_then(|map| {
        let mut object = Object(map);
        write(&mut object)?;
        object.0.end()
    });
    wide::restore(String::from_utf8(bytes).unwrap_or_default())
}

struct Object<'a>(serde_json::ser::Compound<'a, &'a mut Vec<u8>, Spaced>);

impl Object<'_> {
    fn entry<T: Serialize + ?Sized>(&mut self, key: &str, value: &T) -> serde_json::Result<()> {
        self.0.serialize_entry(key, value)
    }
}

struct Spaced;

impl Formatter for Spaced {
    fn begin_object_key<W: io::Write + ?Sized>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_value<W: io::Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }

    fn begin_array_value<W: io::Write + ?Sized>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }
}

const BINARY_DATA: &str = "binary_data";
const FILE_START: &str = "file_transfer_start";
const FILE_COMPLETE: &str = "file_transfer_complete";

/// What the sender of a blob says itself.
const OWN_KEYS: [&str; 3] = ["type", "size", "timestamp"];

/// What the reference puts into one message.
const DEFAULT_CHUNK: u64 = 1 << 20;
