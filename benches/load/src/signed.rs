//! Requests with a signature, as the official clients make it (`AclClientRPCHook`). Knows no request.

use mqcore_access::signature::{ACCESS_KEY, Key, SIGNATURE};
use mqcore_wire::command::FrameWriter;
use mqcore_wire::{Command, Head, WireError};

/// Characters of a signature.
pub(crate) const SIGNATURE_LEN: usize = 28;

/// Who signs.
#[derive(Debug, Clone)]
pub(crate) struct Signer {
    access_key: String,
    key: Key,
}

impl Signer {
    pub(crate) fn of(access_key: &str, secret_key: &str) -> Self {
        Self {
            access_key: access_key.to_owned(),
            key: Key::of(secret_key),
        }
    }

    /// The field that names who signs.
    pub(crate) fn field(&self) -> (String, String) {
        (ACCESS_KEY.to_owned(), self.access_key.clone())
    }

    /// The signature of fields, that of who signs among them, and a body.
    pub(crate) fn sign(&self, fields: &[(String, String)], body: &[u8]) -> String {
        self.key.sign(fields, body)
    }

    /// Signs a whole request.
    pub(crate) fn sign_command(&self, command: &mut Command) {
        command
            .ext
            .insert(ACCESS_KEY.to_owned(), self.access_key.clone());
        let fields: Vec<_> = command.ext.clone().into_iter().collect();
        let signature = self.sign(&fields, &command.body);
        command.ext.insert(SIGNATURE.to_owned(), signature);
    }
}

/// Writes a frame, and signs it at its end where somebody signs.
pub(crate) struct SignedWriter<'o, 'h, 's> {
    frame: FrameWriter<'o, 'h>,
    signer: Option<&'s Signer>,
    fields: Vec<(String, String)>,
}

impl<'o, 'h, 's> SignedWriter<'o, 'h, 's> {
    pub(crate) fn begin(
        out: &'o mut Vec<u8>,
        head: &Head<'h>,
        signer: Option<&'s Signer>,
    ) -> Result<Self, WireError> {
        let frame = FrameWriter::begin(out, head)?;
        Ok(Self {
            frame,
            signer,
            fields: Vec::new(),
        })
    }

    pub(crate) fn text(&mut self, name: &str, value: &str) -> Result<(), WireError> {
        if self.signer.is_some() {
            self.fields.push((name.to_owned(), value.to_owned()));
        }
        self.frame.text(name, value)
    }

    pub(crate) fn number(&mut self, name: &str, value: i64) -> Result<(), WireError> {
        if self.signer.is_some() {
            self.fields.push((name.to_owned(), value.to_string()));
        }
        self.frame.number(name, value)
    }

    pub(crate) fn finish(mut self, body: &[u8]) -> Result<(), WireError> {
        if let Some(signer) = self.signer {
            let (name, value) = signer.field();
            self.text(&name, &value)?;
            let signature = signer.sign(&self.fields, body);
            self.frame.text(SIGNATURE, &signature)?;
        }
        self.frame.finish(body)
    }
}

#[cfg(test)]
mod tests {
    use mqcore_wire::{CommandRef, FRAME_BYTES_MAX, Split, split};

    use super::*;

    #[test]
    fn what_is_written_has_a_good_signature_and_nothing_without_a_signer() {
        let signer = Signer::of("AK", "SK12345678");
        for signer in [None, Some(&signer)] {
            let mut out = Vec::new();
            let mut writer = SignedWriter::begin(&mut out, &Head::default(), signer).unwrap();
            writer.text("topic", "T").unwrap();
            writer.number("queueId", -3).unwrap();
            writer.finish(b"BODY").unwrap();
            let Ok(Split::Frame(frame)) = split(&out, FRAME_BYTES_MAX) else {
                panic!("a frame");
            };
            let command = CommandRef::decode(&frame).unwrap();
            let key = Key::of("SK12345678");
            let is_good = key.has_signed(command.fields.as_slice(), command.body, command.version);
            assert_eq!(is_good, signer.is_some());
        }
    }
}
