//! Tokens to a tree, by the official grammar (`SelectorParser.jj`) with the checks of the official
//! `create…` methods.
//!
//! ```text
//! or         := and { OR and }
//! and        := equality { AND equality }
//! equality   := comparison { ( = | <> ) comparison | IS [NOT] NULL }
//! comparison := unary { ( > | >= | < | <= ) unary
//!                     | [NOT] ( CONTAINS | STARTSWITH | ENDSWITH ) 'text'
//!                     | [NOT] BETWEEN unary AND unary
//!                     | [NOT] IN ( 'text' {, 'text'} ) }
//! unary      := + unary | - unary | NOT unary | primary
//! primary    := literal | property | ( or )
//! ```
//!
//! As there the text may go on behind the expression; one token of it is looked at.

use super::lexer::{Kind, Lexer, Token};
use super::tree::{Constant, Holding, Operand, Order, Test};
use super::values::compare;
use super::{DEPTH_MAX, IN_ITEMS_MAX, NAMES_MAX, SqlError, TESTS_MAX, TEXT_BYTES_MAX};

type Result<T> = std::result::Result<T, SqlError>;

/// A text that is an expression.
pub(super) struct Parsed {
    pub(super) test: Test,
    /// Names of the properties, by slot.
    pub(super) names: Vec<Box<[u8]>>,
    /// Tests in it.
    pub(super) tests_count: usize,
}

/// A part of the tree, how deep it is, and where its text starts.
struct Part {
    operand: Operand,
    depth: usize,
    at: usize,
}

struct Parser<'a> {
    text: &'a str,
    lexer: Lexer<'a>,
    next: Token<'a>,
    names: Vec<Box<[u8]>>,
    tests_count: usize,
    nesting: usize,
}

/// Reads a text.
pub(super) fn parse(text: &str) -> Result<Parsed> {
    if text.len() > TEXT_BYTES_MAX {
        let what = format!(
            "{} bytes of text, at most {TEXT_BYTES_MAX}, cut",
            text.len()
        );
        return Err(SqlError::at(text, floor(text, TEXT_BYTES_MAX), what));
    }
    let mut lexer = Lexer::new(text);
    let next = lexer.next()?;
    let mut parser = Parser {
        text,
        lexer,
        next,
        names: Vec::new(),
        tests_count: 0,
        nesting: 0,
    };
    let whole = parser.any()?;
    let (test, _depth) = parser.test(whole)?;
    Ok(Parsed {
        test,
        names: parser.names,
        tests_count: parser.tests_count,
    })
}

/// The last place up to `at` where a character starts.
fn floor(text: &str, at: usize) -> usize {
    (0..=at)
        .rev()
        .find(|at| text.is_char_boundary(*at))
        .unwrap_or(0)
}

/// Characters of a token that a refusal repeats.
const SHOWN_CHARS: usize = 40;

impl<'a> Parser<'a> {
    fn fail<T>(&self, at: usize, what: impl Into<String>) -> Result<T> {
        Err(SqlError::at(self.text, at, what))
    }

    fn unexpected<T>(&self, wanted: &str) -> Result<T> {
        let found: String = self.next.text.chars().take(SHOWN_CHARS).collect();
        let what = match self.next.kind {
            Kind::End => format!("{wanted} is expected, but the text ends"),
            _ => format!("{wanted} is expected, not \"{found}\""),
        };
        self.fail(self.next.at, what)
    }

    /// Goes on by one token; returns the one before.
    fn take(&mut self) -> Result<Token<'a>> {
        let next = self.lexer.next()?;
        Ok(std::mem::replace(&mut self.next, next))
    }

    fn take_if(&mut self, kind: Kind) -> Result<bool> {
        let is_it = self.next.kind == kind;
        if is_it {
            self.take()?;
        }
        Ok(is_it)
    }

    fn expect(&mut self, kind: Kind, wanted: &str) -> Result<Token<'a>> {
        if self.next.kind == kind {
            self.take()
        } else {
            self.unexpected(wanted)
        }
    }

    /// A part made of others, where it starts.
    fn part(&self, operand: Operand, depth: usize, at: usize) -> Result<Part> {
        if depth > DEPTH_MAX {
            return self.fail(
                at,
                format!("more than {DEPTH_MAX} operators in one another"),
            );
        }
        Ok(Part { operand, depth, at })
    }

    /// A part that is a test, where it starts.
    fn tested(&mut self, test: Test, depth: usize, at: usize) -> Result<Part> {
        self.tests_count += 1;
        if self.tests_count > TESTS_MAX {
            return self.fail(at, format!("more than {TESTS_MAX} tests"));
        }
        self.part(Operand::Tested(Box::new(test)), depth + 1, at)
    }

    /// A part where a truth is expected (`asBooleanExpression`).
    fn test(&self, part: Part) -> Result<(Test, usize)> {
        let test = match part.operand {
            Operand::Tested(test) => *test,
            Operand::Property(slot) => Test::Truth(slot),
            Operand::Constant(Constant::Null) => Test::Constant(None),
            Operand::Constant(Constant::Truth(truth)) => Test::Constant(Some(truth)),
            Operand::Constant(_) | Operand::Negated(_) => {
                return self.fail(part.at, "the expression will not result in a truth");
            }
        };
        Ok((test, part.depth))
    }

    fn any(&mut self) -> Result<Part> {
        self.chain(Kind::Or, Self::all, Test::Any)
    }

    fn all(&mut self) -> Result<Part> {
        self.chain(Kind::And, Self::equality, Test::All)
    }

    fn chain(
        &mut self,
        joiner: Kind,
        link: fn(&mut Self) -> Result<Part>,
        join: fn(Vec<Test>) -> Test,
    ) -> Result<Part> {
        let first = link(self)?;
        if self.next.kind != joiner {
            return Ok(first);
        }
        let at = first.at;
        let (test, mut depth) = self.test(first)?;
        let mut tests = vec![test];
        while self.take_if(joiner)? {
            let further = link(self)?;
            let (test, its_depth) = self.test(further)?;
            depth = depth.max(its_depth);
            tests.push(test);
        }
        self.tested(join(tests), depth, at)
    }

    fn equality(&mut self) -> Result<Part> {
        let mut left = self.comparison()?;
        loop {
            let (kind, at) = (self.next.kind, left.at);
            left = match kind {
                Kind::Equal | Kind::NotEqual => {
                    self.take()?;
                    let right = self.comparison()?;
                    self.check_equal(&left, &right)?;
                    let depth = left.depth.max(right.depth);
                    let test = Test::Equal(left.operand, right.operand);
                    self.negated_if(kind == Kind::NotEqual, test, depth, at)?
                }
                Kind::Is => {
                    self.take()?;
                    let is_negated = self.take_if(Kind::Not)?;
                    self.expect(Kind::Null, "NULL")?;
                    let test = Test::IsNull(left.operand);
                    self.negated_if(is_negated, test, left.depth, at)?
                }
                _ => return Ok(left),
            };
        }
    }

    fn negated_if(&mut self, is_it: bool, test: Test, depth: usize, at: usize) -> Result<Part> {
        if is_it {
            self.tested(Test::Not(Box::new(test)), depth + 1, at)
        } else {
            self.tested(test, depth, at)
        }
    }

    fn comparison(&mut self) -> Result<Part> {
        let mut left = self.unary()?;
        loop {
            let order = match self.next.kind {
                Kind::Greater => Order::Greater,
                Kind::GreaterEqual => Order::GreaterEqual,
                Kind::Less => Order::Less,
                Kind::LessEqual => Order::LessEqual,
                Kind::Not
                | Kind::Contains
                | Kind::StartsWith
                | Kind::EndsWith
                | Kind::Between
                | Kind::In => {
                    left = self.word_comparison(left)?;
                    continue;
                }
                _ => return Ok(left),
            };
            self.take()?;
            let right = self.unary()?;
            self.check_ordered(&left)?;
            self.check_ordered(&right)?;
            let (depth, at) = (left.depth.max(right.depth), left.at);
            left = self.tested(Test::Ordered(left.operand, order, right.operand), depth, at)?;
        }
    }

    fn word_comparison(&mut self, left: Part) -> Result<Part> {
        let not_at = self.next.at;
        let is_negated = self.take_if(Kind::Not)?;
        let holding = match self.next.kind {
            Kind::Contains => Holding::Contains,
            Kind::StartsWith => Holding::Starts,
            Kind::EndsWith => Holding::Ends,
            Kind::Between => return self.between(left, is_negated),
            Kind::In => return self.in_items(left, is_negated),
            _ => {
                let wanted = "CONTAINS, STARTSWITH, ENDSWITH, BETWEEN or IN is expected behind NOT";
                return self.fail(not_at, wanted);
            }
        };
        self.take()?;
        let search = self.quoted()?;
        let test = Test::Holds {
            operand: left.operand,
            holding,
            search,
            is_negated,
        };
        self.tested(test, left.depth, left.at)
    }

    fn between(&mut self, value: Part, is_negated: bool) -> Result<Part> {
        self.take()?;
        let low = self.unary()?;
        self.expect(Kind::And, "AND")?;
        let high = self.unary()?;
        if !is_negated {
            self.check_bounds(&low, &high)?;
        }
        for part in [&value, &low, &high] {
            self.check_ordered(part)?;
        }
        let depth = value.depth.max(low.depth).max(high.depth);
        let parts = Box::new([value.operand, low.operand, high.operand]);
        let test = if is_negated {
            Test::Outside(parts)
        } else {
            Test::Between(parts)
        };
        self.tested(test, depth, value.at)
    }

    fn in_items(&mut self, left: Part, is_negated: bool) -> Result<Part> {
        let word = self.take()?;
        self.expect(Kind::Open, "(")?;
        let mut items = vec![self.quoted()?];
        while self.take_if(Kind::Comma)? {
            if items.len() >= IN_ITEMS_MAX {
                return self.fail(word.at, format!("IN with more than {IN_ITEMS_MAX} texts"));
            }
            items.push(self.quoted()?);
        }
        self.expect(Kind::Close, ")")?;
        let Operand::Property(slot) = left.operand else {
            return self.fail(left.at, "a property is expected in front of IN");
        };
        items.sort_unstable();
        items.dedup();
        let test = Test::In {
            slot,
            items: items.into(),
            is_negated,
        };
        self.tested(test, left.depth, left.at)
    }

    fn unary(&mut self) -> Result<Part> {
        let (kind, at) = (self.next.kind, self.next.at);
        if !matches!(kind, Kind::Plus | Kind::Minus | Kind::Not | Kind::Open) {
            return self.primary();
        }
        self.take()?;
        self.nesting += 1;
        if self.nesting > DEPTH_MAX {
            return self.fail(at, format!("more than {DEPTH_MAX} brackets in one another"));
        }
        let part = match kind {
            Kind::Open => {
                let inside = self.any()?;
                self.expect(Kind::Close, ")")?;
                inside
            }
            Kind::Plus => self.unary()?,
            Kind::Minus => {
                let inside = self.unary()?;
                let depth = inside.depth + 1;
                self.part(Operand::Negated(Box::new(inside.operand)), depth, at)?
            }
            _not => {
                let inside = self.unary()?;
                let (test, depth) = self.test(inside)?;
                self.tested(Test::Not(Box::new(test)), depth, at)?
            }
        };
        self.nesting -= 1;
        Ok(Part { at, ..part })
    }

    fn primary(&mut self) -> Result<Part> {
        let Token { kind, text, at } = self.next;
        let operand = match kind {
            Kind::Name => Operand::Property(self.slot_of(text)?),
            Kind::Text => Operand::Constant(Constant::Text(unquoted(text))),
            Kind::Decimal => Operand::Constant(self.decimal(text)?),
            Kind::Float => Operand::Constant(self.float(text)?),
            Kind::True => Operand::Constant(Constant::Truth(true)),
            Kind::False => Operand::Constant(Constant::Truth(false)),
            Kind::Null => Operand::Constant(Constant::Null),
            _ => return self.unexpected("a property or a constant"),
        };
        self.take()?;
        self.part(operand, 1, at)
    }

    fn slot_of(&mut self, name: &str) -> Result<usize> {
        let known = self
            .names
            .iter()
            .position(|known| **known == *name.as_bytes());
        if let Some(slot) = known {
            return Ok(slot);
        }
        if self.names.len() >= NAMES_MAX {
            return self.fail(self.next.at, format!("more than {NAMES_MAX} properties"));
        }
        self.names.push(name.as_bytes().into());
        Ok(self.names.len() - 1)
    }

    fn quoted(&mut self) -> Result<Box<str>> {
        let token = self.expect(Kind::Text, "a text in single quotes")?;
        Ok(unquoted(token.text))
    }

    /// An int where it fits, else a long (`createFromDecimal`).
    fn decimal(&self, text: &str) -> Result<Constant> {
        let digits = text.trim_end_matches(['l', 'L']);
        let Ok(number) = digits.parse::<i64>() else {
            return self.fail(self.next.at, "a number beyond 64 bits");
        };
        Ok(i32::try_from(number).map_or(Constant::Long(number), Constant::Int))
    }

    /// A double that is more than nothing (`createFloat`): 0.0 is refused there, too.
    fn float(&self, text: &str) -> Result<Constant> {
        match text.parse::<f64>() {
            Ok(number) if number > 0.0 && number.is_finite() => Ok(Constant::Double(number)),
            _ => self.fail(
                self.next.at,
                "a number with a point must be above 0.0 and finite",
            ),
        }
    }

    /// Numbers and properties have an order; texts, truths and tests have none.
    fn check_ordered(&self, part: &Part) -> Result<()> {
        match part.operand {
            Operand::Constant(Constant::Int(_) | Constant::Long(_) | Constant::Double(_))
            | Operand::Property(_)
            | Operand::Negated(_) => Ok(()),
            Operand::Constant(_) | Operand::Tested(_) => self.fail(
                part.at,
                "this has no order: only numbers and properties have",
            ),
        }
    }

    fn check_equal(&self, left: &Part, right: &Part) -> Result<()> {
        for part in [left, right] {
            if matches!(part.operand, Operand::Constant(Constant::Null)) {
                return self.fail(part.at, "NULL cannot be compared: use IS NULL");
            }
        }
        if let (Operand::Constant(Constant::Truth(_)), Operand::Constant(other)) =
            (&left.operand, &right.operand)
            && !matches!(other, Constant::Truth(_))
        {
            return self.fail(left.at, "a truth cannot be compared with that");
        }
        Ok(())
    }

    fn check_bounds(&self, low: &Part, high: &Part) -> Result<()> {
        let (Operand::Constant(low_is), Operand::Constant(high_is)) = (&low.operand, &high.operand)
        else {
            return Ok(());
        };
        match compare(high_is.value(), low_is.value()) {
            Ok(found) if found.is_ge() => Ok(()),
            _ => self.fail(low.at, "the low end of BETWEEN is above its high end"),
        }
    }
}

/// A text without its quotes; two in it are one.
fn unquoted(text: &str) -> Box<str> {
    let inside = text.get(1..text.len().saturating_sub(1));
    inside.unwrap_or_default().replace("''", "'").into()
}
