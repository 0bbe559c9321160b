//! An encoder that picks any form that says the same: what decoders have to bear.

use switchboard_alicia::{Map, Value};

use crate::samples::Gen;

/// The same members in another order.
pub(crate) fn shuffled(g: &mut Gen, map: Map) -> Map {
    let mut members: Vec<_> = map.into_iter().collect();
    for index in (1..members.len()).rev() {
        members.swap(index, g.below(index + 1));
    }
    members.into_iter().collect()
}

/// Some encoding of the value.
pub(crate) fn encode(g: &mut Gen, value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    put(g, value, &mut out);
    out
}

fn put(g: &mut Gen, value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Nil if g.chance() => out.extend([0xD4, 0x00, 0x00]),
        Value::Nil => out.push(0xC0),
        Value::Bool(bool) => out.push(0xC2 + u8::from(*bool)),
        Value::Int(int) => put_int(g, *int, out),
        Value::UInt(uint) => {
            out.push(0xCF);
            out.extend(uint.to_be_bytes());
        }
        Value::Float(float) if f64::from(*float as f32) == *float && g.chance() => {
            out.push(0xCA);
            out.extend((*float as f32).to_be_bytes());
        }
        Value::Float(float) => {
            out.push(0xCB);
            out.extend(float.to_be_bytes());
        }
        Value::Str(text) => {
            put_length(
                g,
                text.len(),
                &[(31, 0xA0, 0), (255, 0xD9, 1), (65_535, 0xDA, 2), (usize::MAX, 0xDB, 4)],
                out,
            );
            out.extend(text.as_bytes());
        }
        Value::Bin(bytes) => {
            put_length(g, bytes.len(), &[(255, 0xC4, 1), (65_535, 0xC5, 2), (usize::MAX, 0xC6, 4)], out);
            out.extend(bytes);
        }
        Value::Array(items) => {
            put_length(g, items.len(), &[(15, 0x90, 0), (65_535, 0xDC, 2), (usize::MAX, 0xDD, 4)], out);
            items.iter().for_each(|item| put(g, item, out));
        }
        Value::Map(map) => {
            put_length(g, map.len(), &[(15, 0x80, 0), (65_535, 0xDE, 2), (usize::MAX, 0xDF, 4)], out);
            for (key, member) in map.iter() {
                put(g, &Value::from(key), out);
                put(g, member, out);
            }
        }
    }
}

/// Any form that is wide enough.
fn put_length(g: &mut Gen, length: usize, forms: &[(usize, u8, usize)], out: &mut Vec<u8>) {
    let wide_enough: Vec<_> = forms.iter().copied().filter(|(most, _, _)| length <= *most).collect();
    let (_, marker, width) = g.pick(&wide_enough);
    if width == 0 {
        out.push(marker | u8::try_from(length).unwrap());
    } else {
        out.push(marker);
        out.extend(&length.to_be_bytes()[8 - width..]);
    }
}

fn put_int(g: &mut Gen, int: i64, out: &mut Vec<u8>) {
    let mut forms: Vec<Vec<u8>> = vec![[&[0xD3], &int.to_be_bytes()[..]].concat()];
    if let Ok(byte) = i8::try_from(int) {
        forms.push(vec![0xD0, byte.cast_unsigned()]);
        if byte >= -32 {
            forms.push(vec![byte.cast_unsigned()]);
        }
    }
    if let Ok(short) = i16::try_from(int) {
        forms.push([&[0xD1], &short.to_be_bytes()[..]].concat());
    }
    if let Ok(word) = i32::try_from(int) {
        forms.push([&[0xD2], &word.to_be_bytes()[..]].concat());
    }
    if let Ok(byte) = u8::try_from(int) {
        forms.push(vec![0xCC, byte]);
    }
    if let Ok(short) = u16::try_from(int) {
        forms.push([&[0xCD], &short.to_be_bytes()[..]].concat());
    }
    if let Ok(word) = u32::try_from(int) {
        forms.push([&[0xCE], &word.to_be_bytes()[..]].concat());
    }
    if let Ok(uint) = u64::try_from(int) {
        forms.push([&[0xCF], &uint.to_be_bytes()[..]].concat());
    }
    let form = g.below(forms.len());
    out.append(&mut forms[form]);
}
