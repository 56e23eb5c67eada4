//! What happened in histories, by kind. Knows nothing else.

macro_rules! counts {
    ($($field:ident: $text:literal,)*) => {
        /// How often each kind of thing happened.
        #[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
        pub(crate) struct Count {
            $(pub(crate) $field: u64,)*
        }

        impl Count {
            /// Every kind with its number.
            pub(crate) fn all(&self) -> Vec<(&'static str, u64)> {
                vec![$(($text, self.$field),)*]
            }
        }

        impl std::ops::AddAssign for Count {
            fn add_assign(&mut self, other: Self) {
                $(self.$field += other.$field;)*
            }
        }

        impl std::fmt::Display for Count {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                for (text, number) in self.all() {
                    writeln!(f, "{number:>12} {text}")?;
                }
                Ok(())
            }
        }
    };
}
pub(crate) use counts;

counts! {
    histories: "histories",
    steps: "steps",
    sent: "sends",
    acknowledged: "acknowledged sends",
    late: "sends whose replicas were late",
    unavailable: "sends without a slave near enough",
    refused: "sends refused, too few in sync",
    connects: "connects",
    cuts: "connections cut at a byte",
    resets: "connections cut at once",
    blacks: "one-way cuts",
    partitions: "cuts in both directions",
    pauses: "pauses of a node",
    clock_steps: "steps of a clock",
    kills: "crashes of a process",
    power_losses: "losses of power",
    stops: "crashes inside a step",
    cut_logs: "logs that lost a tail",
    torn: "torn ends cut at an open",
    probes: "probes of strangers",
    silences: "links ended by silence",
    ahead: "slaves refused, ahead",
    too_far_behind: "slaves refused, too far behind",
    other_refusals: "slaves refused by their own look",
    emptied: "slaves emptied",
    removed: "log files removed",
    begun_later: "fresh slaves that began behind 0",
    caught_up: "slaves that caught up at the end",
}
