//! The bytes of a file's head.

use std::collections::BTreeMap;
use std::io::Read;

use super::{Gguf, GgufError, Tensor, Type, Value};

/// Integers of a list that are kept; tokenizers have long ones that nobody asks for.
const KEPT: u64 = 4096;

/// Bytes of a name or a key.
const LONGEST_NAME: u64 = 65_535;

/// Axes of a tensor.
const MOST_AXES: u32 = 4;

/// Types of metadata values.
const TEXT: u32 = 8;
const LIST: u32 = 9;

/// A file that is read from front to back.
pub(super) struct Reader<R> {
    file: R,
    at: u64,
    length: u64,
}

impl<R: Read> Reader<R> {
    pub(super) fn new(file: R, length: u64) -> Self {
        Self { file, at: 0, length }
    }

    /// Everything before the tensors' bytes.
    pub(super) fn head(mut self) -> Result<Gguf, GgufError> {
        if self.bytes::<4>("the magic number")? != *b"GGUF" {
            return Err(GgufError::Malformed { at: 0, rule: "does not start with GGUF".into() });
        }
        match self.u32("the version")? {
            2 | 3 => {}
            version if version & 0xffff == 0 => return self.fail("is big-endian; only little-endian files are read"),
            version => return self.fail(format!("has version {version}; versions 2 and 3 are read")),
        }
        let (tensors, keys) = (self.u64("the number of tensors")?, self.u64("the number of keys")?);
        let mut metadata = BTreeMap::new();
        for _ in 0..keys {
            let key = self.name("a key")?;
            let kind = self.u32("the type of a value")?;
            let value = self.value(kind, &key)?;
            if metadata.insert(key.clone(), value).is_some() {
                return self.fail(format!("has the key {key:?} twice"));
            }
        }
        let mut found = BTreeMap::new();
        let mut ends = Vec::new();
        for _ in 0..tensors {
            let name = self.name("the name of a tensor")?;
            let (tensor, offset) = self.tensor(&name)?;
            ends.push((name.clone(), tensor.kind.bytes(tensor.shape).and_then(|bytes| offset.checked_add(bytes))));
            if found.insert(name.clone(), tensor).is_some() {
                return self.fail(format!("has the tensor {name:?} twice"));
            }
        }
        let gguf = Gguf { keys: metadata, tensors: found };
        self.check_data(&gguf, &ends)?;
        Ok(gguf)
    }

    /// That the tensors' bytes are all there.
    fn check_data(&self, gguf: &Gguf, ends: &[(String, Option<u64>)]) -> Result<(), GgufError> {
        const ALIGNMENT: &str = "general.alignment";
        let alignment = match gguf.keys.get(ALIGNMENT) {
            None => 32,
            Some(&Value::Integer(n)) if (1..=1 << 20).contains(&n) && n.count_ones() == 1 => n as u64,
            Some(_) => {
                return Err(GgufError::Key { key: ALIGNMENT.into(), rule: "must be a power of two up to 2^20".into() });
            }
        };
        let data = self.at.checked_next_multiple_of(alignment).unwrap_or(u64::MAX);
        for (name, end) in ends {
            if let Some(end) = end.and_then(|end| data.checked_add(end))
                && end > self.length
            {
                let rule = format!("ends at byte {end}, the file at byte {}", self.length);
                return Err(GgufError::Tensor { name: name.clone(), rule });
            }
        }
        Ok(())
    }

    fn tensor(&mut self, name: &str) -> Result<(Tensor, u64), GgufError> {
        let axes = self.u32("the number of a tensor's axes")?;
        if axes > MOST_AXES {
            return self.fail(format!("tensor {name:?} has {axes} axes, at most {MOST_AXES} are read"));
        }
        let mut shape = [1; 4];
        for n in shape.iter_mut().take(axes as usize) {
            let extent = self.u64("an extent of a tensor")?;
            match u32::try_from(extent) {
                Ok(extent) if extent > 0 => *n = extent,
                _ => return self.fail(format!("tensor {name:?} has an extent of {extent}, must be in 1..2^32")),
            }
        }
        // Bytes of a tensor are counted in 64 bits.
        if shape.iter().map(|&n| f64::from(n)).product::<f64>() > 2f64.powi(60) {
            return self.fail(format!("tensor {name:?} of shape {shape:?} has more than 2^60 elements"));
        }
        let kind = Type(self.u32("the type of a tensor")?);
        Ok((Tensor { kind, shape }, self.u64("the offset of a tensor")?))
    }

    fn value(&mut self, kind: u32, key: &str) -> Result<Value, GgufError> {
        Ok(match kind {
            TEXT => Value::Text(self.text("a text", u64::MAX)?),
            LIST => self.list(key)?,
            6 => Value::Float(f32::from_le_bytes(self.bytes("a number")?).into()),
            7 => Value::Bool(self.bytes::<1>("a flag")? != [0]),
            12 => Value::Float(f64::from_le_bytes(self.bytes("a number")?)),
            kind => Value::Integer(self.integer(kind, key)?),
        })
    }

    fn integer(&mut self, kind: u32, key: &str) -> Result<i128, GgufError> {
        const WHAT: &str = "a number";
        Ok(match kind {
            0 => u8::from_le_bytes(self.bytes(WHAT)?).into(),
            1 => i8::from_le_bytes(self.bytes(WHAT)?).into(),
            2 => u16::from_le_bytes(self.bytes(WHAT)?).into(),
            3 => i16::from_le_bytes(self.bytes(WHAT)?).into(),
            4 => u32::from_le_bytes(self.bytes(WHAT)?).into(),
            5 => i32::from_le_bytes(self.bytes(WHAT)?).into(),
            10 => u64::from_le_bytes(self.bytes(WHAT)?).into(),
            11 => i64::from_le_bytes(self.bytes(WHAT)?).into(),
            _ => return self.fail(format!("key {key:?} has a value of unknown type {kind}")),
        })
    }

    fn list(&mut self, key: &str) -> Result<Value, GgufError> {
        let kind = self.u32("the type of a list")?;
        let count = self.u64("the length of a list")?;
        let each = match kind {
            0 | 1 | 7 => 1,
            2 | 3 => 2,
            4..=6 => 4,
            10..=12 => 8,
            TEXT => {
                for _ in 0..count {
                    let bytes = self.u64("the length of a text")?;
                    self.skip(bytes, "a text")?;
                }
                return Ok(Value::List(count));
            }
            _ => return self.fail(format!("key {key:?} is a list of type {kind}, which is not read")),
        };
        if matches!(kind, 6 | 7 | 12) || count > KEPT {
            self.skip(count.saturating_mul(each), "a list")?;
            return Ok(Value::List(count));
        }
        (0..count).map(|_| self.integer(kind, key)).collect::<Result<_, _>>().map(Value::Integers)
    }

    fn name(&mut self, what: &str) -> Result<String, GgufError> {
        self.text(what, LONGEST_NAME)
    }

    fn text(&mut self, what: &str, longest: u64) -> Result<String, GgufError> {
        let bytes = self.u64(what)?;
        if bytes > longest {
            return self.fail(format!("{what} has {bytes} bytes, at most {longest} are read"));
        }
        self.need(bytes, what)?;
        let mut text = Vec::new();
        let read = (&mut self.file).take(bytes).read_to_end(&mut text)?;
        if read as u64 != bytes {
            return self.fail(format!("the file ends within {what}"));
        }
        self.at += bytes;
        String::from_utf8(text).or_else(|_| self.fail(format!("{what} is no UTF-8")))
    }

    fn skip(&mut self, bytes: u64, what: &str) -> Result<(), GgufError> {
        self.need(bytes, what)?;
        if std::io::copy(&mut (&mut self.file).take(bytes), &mut std::io::sink())? != bytes {
            return self.fail(format!("the file ends within {what}"));
        }
        self.at += bytes;
        Ok(())
    }

    fn u32(&mut self, what: &str) -> Result<u32, GgufError> {
        Ok(u32::from_le_bytes(self.bytes(what)?))
    }

    fn u64(&mut self, what: &str) -> Result<u64, GgufError> {
        Ok(u64::from_le_bytes(self.bytes(what)?))
    }

    fn bytes<const N: usize>(&mut self, what: &str) -> Result<[u8; N], GgufError> {
        self.need(N as u64, what)?;
        let mut bytes = [0; N];
        self.file.read_exact(&mut bytes)?;
        self.at += N as u64;
        Ok(bytes)
    }

    fn need(&self, bytes: u64, what: &str) -> Result<(), GgufError> {
        if bytes <= self.length - self.at {
            return Ok(());
        }
        self.fail(format!("{what} takes {bytes} bytes, the file has {} left", self.length - self.at))
    }

    fn fail<T>(&self, rule: impl Into<String>) -> Result<T, GgufError> {
        Err(GgufError::Malformed { at: self.at, rule: rule.into() })
    }
}
