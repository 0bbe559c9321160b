//! MessagePack as the tests write and read it: by hand, so that the server's own codec proves nothing.

use serde_json::{Map, Number, Value};

/// A value in its shortest form.
pub(crate) fn pack(value: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    put(&mut bytes, value);
    bytes
}

/// A map of values that are packed already, in this order.
pub(crate) fn pack_map(entries: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    head(&mut bytes, 0x80, 16, [0xde, 0xdf], entries.len());
    for (key, value) in entries {
        put_text(&mut bytes, key);
        bytes.extend_from_slice(value);
    }
    bytes
}

/// Bytes as such.
pub(crate) fn pack_bin(data: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0xc6];
    bytes.extend_from_slice(&u32::try_from(data.len()).unwrap().to_be_bytes());
    bytes.extend_from_slice(data);
    bytes
}

/// A float64, also one that JSON does not know.
pub(crate) fn pack_float(number: f64) -> Vec<u8> {
    let mut bytes = vec![0xcb];
    bytes.extend_from_slice(&number.to_be_bytes());
    bytes
}

fn put(bytes: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Null => bytes.push(0xc0),
        Value::Bool(false) => bytes.push(0xc2),
        Value::Bool(true) => bytes.push(0xc3),
        Value::Number(number) => put_number(bytes, number),
        Value::String(text) => put_text(bytes, text),
        Value::Array(items) => {
            head(bytes, 0x90, 16, [0xdc, 0xdd], items.len());
            items.iter().for_each(|item| put(bytes, item));
        }
        Value::Object(entries) => {
            head(bytes, 0x80, 16, [0xde, 0xdf], entries.len());
            for (key, value) in entries {
                put_text(bytes, key);
                put(bytes, value);
            }
        }
    }
}

fn put_number(bytes: &mut Vec<u8>, number: &Number) {
    if let Some(number) = number.as_u64() {
        match number {
            0..=0x7f => bytes.push(u8::try_from(number).unwrap()),
            0x80..=0xff => bytes.extend([0xcc, u8::try_from(number).unwrap()]),
            0x100..=0xffff => wide(bytes, 0xcd, &u16::try_from(number).unwrap().to_be_bytes()),
            0x1_0000..=0xffff_ffff => wide(bytes, 0xce, &u32::try_from(number).unwrap().to_be_bytes()),
            _ => wide(bytes, 0xcf, &number.to_be_bytes()),
        }
    } else if let Some(number) = number.as_i64() {
        match number {
            -32..=-1 => bytes.extend(i8::try_from(number).unwrap().to_be_bytes()),
            -0x80..=-33 => wide(bytes, 0xd0, &i8::try_from(number).unwrap().to_be_bytes()),
            -0x8000..=-0x81 => wide(bytes, 0xd1, &i16::try_from(number).unwrap().to_be_bytes()),
            -0x8000_0000..=-0x8001 => wide(bytes, 0xd2, &i32::try_from(number).unwrap().to_be_bytes()),
            _ => wide(bytes, 0xd3, &number.to_be_bytes()),
        }
    } else {
        bytes.extend(pack_float(number.as_f64().unwrap()));
    }
}

fn put_text(bytes: &mut Vec<u8>, text: &str) {
    match text.len() {
        length @ 0..=0xff if length > 31 => bytes.extend([0xd9, u8::try_from(length).unwrap()]),
        length => head(bytes, 0xa0, 32, [0xda, 0xdb], length),
    }
    bytes.extend_from_slice(text.as_bytes());
}

/// The head of something long: in one byte below `most`, else 16 or 32 bits wide.
fn head(bytes: &mut Vec<u8>, short: u8, most: usize, codes: [u8; 2], length: usize) {
    match length {
        length if length < most => bytes.push(short | u8::try_from(length).unwrap()),
        length @ 0..=0xffff => wide(bytes, codes[0], &u16::try_from(length).unwrap().to_be_bytes()),
        length => wide(bytes, codes[1], &u32::try_from(length).unwrap().to_be_bytes()),
    }
}

fn wide(bytes: &mut Vec<u8>, code: u8, value: &[u8]) {
    bytes.push(code);
    bytes.extend_from_slice(value);
}

/// The entries of one map, in their order; panics where the bytes are anything else.
pub(crate) fn unpack(bytes: &[u8]) -> Vec<(String, Value)> {
    let mut reader = Reader { rest: bytes };
    let code = reader.byte();
    let length = match code {
        0x80..=0x8f => usize::from(code & 0x0f),
        0xde => reader.number::<2>(),
        other => panic!("{other:02x} begins no envelope"),
    };
    let entries = (0..length).map(|_| reader.entry()).collect();
    assert!(reader.rest.is_empty(), "bytes behind an envelope: {:02x?}", reader.rest);
    entries
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl Reader<'_> {
    fn take(&mut self, length: usize) -> &[u8] {
        let (taken, rest) = self.rest.split_at(length);
        self.rest = rest;
        taken
    }

    fn byte(&mut self) -> u8 {
        self.take(1)[0]
    }

    fn array<const N: usize>(&mut self) -> [u8; N] {
        self.take(N).try_into().unwrap()
    }

    fn number<const N: usize>(&mut self) -> usize {
        self.take(N).iter().fold(0, |number, byte| number << 8 | usize::from(*byte))
    }

    fn entry(&mut self) -> (String, Value) {
        let Value::String(key) = self.value() else { panic!("a key that is no text") };
        (key, self.value())
    }

    fn text(&mut self, length: usize) -> Value {
        String::from_utf8(self.take(length).to_vec()).expect("UTF-8").into()
    }

    fn items(&mut self, length: usize) -> Value {
        (0..length).map(|_| self.value()).collect()
    }

    fn map(&mut self, length: usize) -> Value {
        let mut map = Map::new();
        for _ in 0..length {
            let (key, value) = self.entry();
            assert!(map.insert(key.clone(), value).is_none(), "{key} is there twice");
        }
        map.into()
    }

    fn value(&mut self) -> Value {
        match self.byte() {
            small @ 0..=0x7f => small.into(),
            small @ 0xe0..=0xff => i8::from_be_bytes([small]).into(),
            code @ 0x80..=0x8f => self.map(usize::from(code & 0x0f)),
            code @ 0x90..=0x9f => self.items(usize::from(code & 0x0f)),
            code @ 0xa0..=0xbf => self.text(usize::from(code & 0x1f)),
            0xc0 => Value::Null,
            0xc2 => false.into(),
            0xc3 => true.into(),
            0xc4 => self.bin::<1>(),
            0xc5 => self.bin::<2>(),
            0xc6 => self.bin::<4>(),
            0xca => f32::from_be_bytes(self.array()).into(),
            0xcb => f64::from_be_bytes(self.array()).into(),
            0xcc => self.byte().into(),
            0xcd => u16::from_be_bytes(self.array()).into(),
            0xce => u32::from_be_bytes(self.array()).into(),
            0xcf => u64::from_be_bytes(self.array()).into(),
            0xd0 => i8::from_be_bytes(self.array()).into(),
            0xd1 => i16::from_be_bytes(self.array()).into(),
            0xd2 => i32::from_be_bytes(self.array()).into(),
            0xd3 => i64::from_be_bytes(self.array()).into(),
            code @ 0xd9..=0xdb => {
                let length = match code {
                    0xd9 => self.number::<1>(),
                    0xda => self.number::<2>(),
                    _ => self.number::<4>(),
                };
                self.text(length)
            }
            code @ (0xdc | 0xdd) => {
                let length = if code == 0xdc { self.number::<2>() } else { self.number::<4>() };
                self.items(length)
            }
            code @ (0xde | 0xdf) => {
                let length = if code == 0xde { self.number::<2>() } else { self.number::<4>() };
                self.map(length)
            }
            other => panic!("a value that begins with {other:02x}"),
        }
    }

    /// Bytes are a list of numbers to the tests.
    fn bin<const N: usize>(&mut self) -> Value {
        let length = self.number::<N>();
        self.take(length).iter().copied().map(Value::from).collect()
    }
}
