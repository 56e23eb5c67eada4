//! What a compiled expression consists of. A test is true, false or null; an operand has a value.
//! Chains of AND and of OR are lists, so that depth comes from brackets alone.

/// A constant of the text.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Constant {
    Null,
    Truth(bool),
    Int(i32),
    Long(i64),
    Double(f64),
    Text(Box<str>),
}

/// Something with a value.
#[derive(Debug, PartialEq)]
pub(super) enum Operand {
    Constant(Constant),
    /// The property of a slot.
    Property(usize),
    Negated(Box<Self>),
    Tested(Box<Test>),
}

/// An operator of an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    Greater,
    GreaterEqual,
    Less,
    LessEqual,
}

/// Where a text is looked for in another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holding {
    Contains,
    Starts,
    Ends,
}

/// Something that is true, false or null.
#[derive(Debug, PartialEq)]
pub(super) enum Test {
    Constant(Option<bool>),
    /// A property where a truth is expected: null when it is absent, else false, because no
    /// property is a truth.
    Truth(usize),
    Not(Box<Self>),
    All(Vec<Self>),
    Any(Vec<Self>),
    Equal(Operand, Operand),
    IsNull(Operand),
    Ordered(Operand, Order, Operand),
    /// Value, low, high.
    Between(Box<[Operand; 3]>),
    /// Value, low, high: below or above.
    Outside(Box<[Operand; 3]>),
    In {
        slot: usize,
        /// Sorted.
        items: Box<[Box<str>]>,
        is_negated: bool,
    },
    Holds {
        operand: Operand,
        holding: Holding,
        search: Box<str>,
        is_negated: bool,
    },
}
