//! The fields of a header (`extFields`): a list as it is in the frame, borrowed where the text
//! needs no unescaping.

use std::borrow::Cow;

use crate::error::WireError;

/// Most fields of one header. Requests have at most some thirty; the bound keeps a header of 16 MiB
/// from becoming millions of pairs.
pub const FIELDS_MAX: usize = 1024;

/// The fields of a header, in the order of the frame.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fields<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'a> Fields<'a> {
    /// No fields.
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Adds a field.
    ///
    /// # Errors
    /// [`WireError::TooManyFields`].
    pub(crate) fn push(
        &mut self,
        name: Cow<'a, str>,
        value: Cow<'a, str>,
    ) -> Result<(), WireError> {
        if self.0.len() >= FIELDS_MAX {
            return Err(WireError::TooManyFields { max: FIELDS_MAX });
        }
        if self.0.capacity() == 0 {
            // A send has 14 fields: one allocation for all.
            self.0.reserve(16);
        }
        self.0.push((name, value));
        Ok(())
    }

    /// The value of a field; of one that occurs twice the last.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<&str> {
        let mut found = self.0.iter().rev().filter(|(known, _)| known == name);
        found.next().map(|(_, value)| value.as_ref())
    }

    /// The values of `names`, each once at the most; none where there is another field.
    #[must_use]
    pub fn only<const N: usize>(&self, names: [&str; N]) -> Option<[Option<&str>; N]> {
        let mut found = [None; N];
        for (name, value) in self.iter() {
            let at = names.iter().position(|known| *known == name)?;
            let of_name = found.get_mut(at)?;
            if of_name.is_some() {
                return None;
            }
            *of_name = Some(value);
        }
        Some(found)
    }

    /// Names and values in the order of the frame; a name may occur twice, then the last counts.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .map(|(name, value)| (name.as_ref(), value.as_ref()))
    }

    /// Names and values in the order of the frame.
    #[must_use]
    pub fn as_slice(&self) -> &[(Cow<'a, str>, Cow<'a, str>)] {
        &self.0
    }

    /// Number of pairs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(pairs: &[(&'static str, &'static str)]) -> Fields<'static> {
        let mut fields = Fields::new();
        for (name, value) in pairs {
            fields
                .push(Cow::Borrowed(name), Cow::Borrowed(value))
                .unwrap();
        }
        fields
    }

    #[test]
    fn only_known_fields_are_given_in_the_order_of_their_names() {
        let some = fields(&[("b", "2"), ("a", "1")]);
        assert_eq!(some.only(["a", "b"]), Some([Some("1"), Some("2")]));
        assert_eq!(
            some.only(["c", "b", "a"]),
            Some([None, Some("2"), Some("1")])
        );
        assert_eq!(some.only(["a", "c"]), None, "b is another one");
        assert_eq!(fields(&[("a", "1"), ("a", "1")]).only(["a"]), None, "twice");
        assert_eq!(Fields::new().only(["a"]), Some([None]));
    }
}
