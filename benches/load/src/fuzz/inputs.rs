//! Bad requests: real ones, changed where decoders and handlers look. Knows the shape of frames, not
//! what a request means.

use mqcore_mutation::Mutation;
use mqcore_record::Compression;
use mqcore_wire::compression::compress;
use mqcore_wire::{Command, CommandRef, FRAME_BYTES_MAX, Serialization, Split, split};

/// Bytes of a frame before its header.
const HEAD_BYTES: usize = 8;
/// Bytes of the length word.
const LEN_BYTES: usize = 4;
/// What one input has at the most: a round fits the buffers of two sockets.
const INPUT_BYTES_MAX: usize = 32 * 1024;
/// Nested this deep, JSON is refused by any parser with a bound.
const DEEP: usize = 5_000;
/// A code of 16 bits fits a binary header.
const BINARY_CODE_MAX: i32 = 32_767;
/// Values that are wrong somewhere: as a number, a name, a path, a flag, an address.
const NASTY: [&str; 26] = [
    "",
    " ",
    "0",
    "1",
    "-1",
    "2147483647",
    "2147483648",
    "-2147483649",
    "9223372036854775807",
    "9223372036854775808",
    "-99999999999999999999999999",
    "1e9",
    "0x10",
    "true",
    "null",
    "NaN",
    "../x",
    "/etc/passwd",
    "%RETRY%",
    "%SYS%",
    "*",
    "\u{e9}\u{0}\u{2028}",
    "127.0.0.1:1",
    "{}",
    "\u{663}",
    "a\u{1}b\u{2}c",
];
/// Lengths that a frame lies with.
const LENGTHS: [i32; 9] = [
    -1,
    0,
    3,
    4,
    5,
    100,
    FRAME_BYTES_MAX as i32,
    FRAME_BYTES_MAX as i32 + 1,
    i32::MAX,
];
/// Words of the header's kind and length.
const MARKS: [u32; 7] = [0, 1, 50, 0x00ff_ffff, 0x0100_0005, 0x0700_0000, u32::MAX];

/// An input.
#[derive(Debug)]
pub(super) struct Input {
    pub(super) bytes: Vec<u8>,
    /// Whether it is a frame with a header that can be read: the connection lives on behind it.
    pub(super) is_whole: bool,
}

/// What inputs are made of.
#[derive(Debug)]
pub(super) struct Source {
    frames: Vec<Vec<u8>>,
    commands: Vec<Command>,
    bodies: Vec<Vec<u8>>,
    codes: Vec<i32>,
}

/// The pieces of a file: each has its length before it.
pub(super) fn pieces(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    while let Some((head, rest)) = bytes.split_first_chunk::<LEN_BYTES>() {
        let len = u32::from_be_bytes(*head) as usize;
        let Some(piece) = rest.get(..len) else {
            break;
        };
        found.push(piece.to_vec());
        bytes = rest.get(len..).unwrap_or_default();
    }
    found
}

fn command_of(frame: &[u8]) -> Option<Command> {
    let Ok(Split::Frame(found)) = split(frame, FRAME_BYTES_MAX) else {
        return None;
    };
    let is_all = found.len_bytes == frame.len();
    let command = is_all.then(|| CommandRef::decode(&found).ok())??;
    Some(command.to_owned())
}

impl Source {
    /// Of the frames in a file, those without their length words; frames of the codes in `without`
    /// are left out.
    pub(super) fn of(file: &[u8], without: &[i32]) -> Self {
        let with_length = |piece: Vec<u8>| {
            let len = (piece.len() as u32).to_be_bytes();
            [&len[..], &piece].concat()
        };
        let mut frames: Vec<_> = pieces(file).into_iter().map(with_length).collect();
        frames.retain(|frame| {
            command_of(frame).is_none_or(|command| !without.contains(&command.code))
        });
        let commands: Vec<_> = frames
            .iter()
            .filter_map(|frame| command_of(frame))
            .collect();
        let mut codes: Vec<_> = commands.iter().map(|command| command.code).collect();
        codes.sort_unstable();
        codes.dedup();
        let bodies = commands.iter().map(|command| command.body.clone());
        Self {
            bodies: bodies.filter(|body| !body.is_empty()).collect(),
            frames,
            codes,
            commands,
        }
    }

    /// How many requests it was made of.
    pub(super) fn len(&self) -> usize {
        self.commands.len()
    }

    /// Draws an input. Its opaque is never `spared`.
    pub(super) fn draw(&self, dice: &mut Mutation, spared: i32, without: &[i32]) -> Input {
        let mut bytes = match dice.below(20) {
            0 => {
                let len = dice.below(300);
                dice.bytes(len)
            }
            1 => lying(dice),
            2 | 3 => self.changed_frame(dice),
            4 | 5 => self.changed_header(dice),
            _ => self.changed_command(dice, spared),
        };
        bytes.truncate(INPUT_BYTES_MAX);
        let read = command_of(&bytes);
        // Chance makes them, too.
        if read
            .as_ref()
            .is_some_and(|command| without.contains(&command.code) || command.opaque == spared)
        {
            return Input {
                bytes: lying(dice),
                is_whole: false,
            };
        }
        Input {
            is_whole: read.is_some(),
            bytes,
        }
    }

    fn changed_frame(&self, dice: &mut Mutation) -> Vec<u8> {
        let mut frame = dice.one(&self.frames).cloned().unwrap_or_default();
        dice.change(&mut frame, &self.frames);
        frame
    }

    /// A header with anything in it, in a frame whose lengths are right.
    fn changed_header(&self, dice: &mut Mutation) -> Vec<u8> {
        let frame = dice.one(&self.frames).cloned().unwrap_or_default();
        let Ok(Split::Frame(found)) = split(&frame, FRAME_BYTES_MAX) else {
            return frame;
        };
        let mut header = found.header.to_vec();
        dice.change(&mut header, &self.frames);
        header.truncate(INPUT_BYTES_MAX / 2);
        let len = (LEN_BYTES + header.len() + found.body.len()) as u32;
        let kind = frame.get(LEN_BYTES).copied().unwrap_or_default();
        let mark = (u32::from(kind) << 24) | header.len() as u32;
        [
            &len.to_be_bytes()[..],
            &mark.to_be_bytes(),
            &header,
            found.body,
        ]
        .concat()
    }

    fn changed_command(&self, dice: &mut Mutation, spared: i32) -> Vec<u8> {
        let mut command = dice.one(&self.commands).cloned().unwrap_or_default();
        command.opaque = (dice.draw() as i32) & 0x3fff_ffff;
        if command.opaque == spared {
            command.opaque ^= 1;
        }
        if dice.once_in(5) {
            command.code = match dice.below(4) {
                0 => dice.draw() as i16 as i32,
                _ => dice.one(&self.codes).copied().unwrap_or_default(),
            };
        }
        if dice.once_in(8) {
            command.flag = [0, 1, 2, 3, -1]
                .get(dice.below(5) as usize)
                .copied()
                .unwrap_or(0);
        }
        if dice.once_in(8) {
            command.version = dice.one(&[0, 36, 317, 409, 479, -1]).copied().unwrap_or(0);
        }
        self.change_fields(dice, &mut command);
        if dice.once_in(3) {
            command.body = self.body(dice);
        }
        command.body.truncate(INPUT_BYTES_MAX / 2);
        let is_binary = dice.once_in(2) && command.code <= BINARY_CODE_MAX;
        command.serialization = if is_binary {
            Serialization::Binary
        } else {
            Serialization::Json
        };
        command.encode().unwrap_or_else(|_too_long| lying(dice))
    }

    fn change_fields(&self, dice: &mut Mutation, command: &mut Command) {
        let names: Vec<String> = command.ext.keys().cloned().collect();
        for name in names {
            match dice.below(12) {
                0 => drop(command.ext.remove(&name)),
                1 => drop(command.ext.insert(name, self.value(dice))),
                2 => {
                    let mut value = command.ext.remove(&name).unwrap_or_default().into_bytes();
                    dice.change(&mut value, &self.bodies);
                    value.truncate(INPUT_BYTES_MAX / 8);
                    let value = String::from_utf8_lossy(&value).into_owned();
                    command.ext.insert(name, value);
                }
                _ => {}
            }
        }
        if dice.once_in(10) {
            for _ in 0..dice.below(40) {
                let name = format!("f{}", dice.below(1_000));
                command.ext.insert(name, self.value(dice));
            }
        }
    }

    /// A value of another field, or one that is wrong.
    fn value(&self, dice: &mut Mutation) -> String {
        if dice.once_in(3) {
            let other = dice.one(&self.commands);
            let count = other.map_or(0, |command| command.ext.len() as u64);
            let at = dice.below(count) as usize;
            let value = other.and_then(|command| command.ext.values().nth(at));
            return value.cloned().unwrap_or_default();
        }
        if dice.once_in(12) {
            return "a".repeat(dice.below(5_000) as usize);
        }
        dice.one(&NASTY)
            .map_or_else(String::new, |&text| text.to_owned())
    }

    fn body(&self, dice: &mut Mutation) -> Vec<u8> {
        let mut body = dice.one(&self.bodies).cloned().unwrap_or_default();
        match dice.below(8) {
            0 => Vec::new(),
            1 => {
                let len = dice.below(2_000);
                dice.bytes(len)
            }
            2 => {
                let (open, close) = if dice.once_in(2) {
                    ("[", "]")
                } else {
                    ("{\"a\":", "}")
                };
                [open.repeat(DEEP), close.repeat(DEEP)]
                    .concat()
                    .into_bytes()
            }
            3 => {
                let kinds = [Compression::Zlib, Compression::Lz4, Compression::Zstd];
                let kind = dice.one(&kinds).copied().unwrap_or(Compression::Zlib);
                let mut small = compress(kind, &body, 5).unwrap_or_default();
                if dice.once_in(2) {
                    dice.change(&mut small, &self.bodies);
                }
                small
            }
            4 => body,
            _ => {
                dice.change(&mut body, &self.bodies);
                body
            }
        }
    }
}

/// Lengths that do not fit what follows.
fn lying(dice: &mut Mutation) -> Vec<u8> {
    let len = dice.one(&LENGTHS).copied().unwrap_or_default();
    let mark = dice.one(&MARKS).copied().unwrap_or_default();
    let more = dice.below(HEAD_BYTES as u64 * 8);
    let rest = dice.bytes(more);
    [&len.to_be_bytes()[..], &mark.to_be_bytes(), &rest].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(without: &[i32]) -> Source {
        let mut file = Vec::new();
        for (code, body) in [(310, "body"), (11, ""), (25, "a=b")] {
            let ext = [("b".to_owned(), "topic".to_owned())].into();
            let command = Command {
                code,
                ext,
                body: body.as_bytes().to_vec(),
                ..Command::default()
            };
            file.extend(command.encode().unwrap());
        }
        Source::of(&file, without)
    }

    #[test]
    fn many_inputs_are_read_and_some_are_not() {
        let source = source(&[]);
        assert_eq!(source.len(), 3);
        let mut dice = Mutation::of(1);
        let inputs: Vec<_> = (0..2_000).map(|_| source.draw(&mut dice, 7, &[])).collect();
        let whole = inputs.iter().filter(|input| input.is_whole).count();
        assert!((1_000..1_950).contains(&whole), "{whole}");
        assert!(
            inputs
                .iter()
                .all(|input| input.bytes.len() <= INPUT_BYTES_MAX)
        );
    }

    #[test]
    fn codes_that_are_left_out_and_the_number_of_the_good_request_never_come() {
        let source = source(&[25]);
        assert_eq!(source.len(), 2);
        let mut dice = Mutation::of(2);
        for _ in 0..5_000 {
            let input = source.draw(&mut dice, 7, &[25, 11]);
            if let Some(command) = command_of(&input.bytes) {
                assert!(command.code != 25 && command.code != 11 && command.opaque != 7);
            }
        }
    }
}
