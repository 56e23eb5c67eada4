//! The numbers and names of the languages that clients are written in (`LanguageCode`).

/// The language a peer claims to be written in: its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Language(pub u8);

/// Names by number.
const NAMES: [&str; 14] = [
    "JAVA", "CPP", "DOTNET", "PYTHON", "DELPHI", "ERLANG", "RUBY", "OTHER", "HTTP", "GO", "PHP",
    "OMS", "RUST", "NODE_JS",
];

impl Language {
    /// What servers of the original call themselves; also what a missing member means.
    pub const JAVA: Self = Self(0);
    /// A language without a number of its own.
    pub const OTHER: Self = Self(7);

    /// The name; `OTHER` for a number that no release knows, because an unknown name would be
    /// nothing to a Java reader.
    #[must_use]
    pub fn name(self) -> &'static str {
        NAMES.get(usize::from(self.0)).copied().unwrap_or("OTHER")
    }

    /// The language of a name; `OTHER` for an unknown one.
    #[must_use]
    pub fn named(name: &str) -> Self {
        let known = NAMES.iter().position(|known| *known == name);
        known.map_or(Self::OTHER, |number| Self(number as u8))
    }

    /// The language of a number as JSON may hold it.
    #[must_use]
    pub fn numbered(number: i64) -> Self {
        match u8::try_from(number) {
            Ok(number) if usize::from(number) < NAMES.len() => Self(number),
            _ => Self::OTHER,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_agree() {
        assert_eq!(Language::named("JAVA"), Language(0));
        assert_eq!(Language::named("GO"), Language(9));
        assert_eq!(Language::named("NODE_JS"), Language(13));
        assert_eq!(Language::named("COBOL"), Language::OTHER);
        assert_eq!(Language::numbered(3).name(), "PYTHON");
        assert_eq!(Language::numbered(-1), Language::OTHER);
        assert_eq!(Language::numbered(14), Language::OTHER);
        assert_eq!(Language(200).name(), "OTHER");
    }
}
