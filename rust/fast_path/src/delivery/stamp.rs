//! What the broker writes into every message that is sent to it: its region, its trace switch and
//! its cluster (`AbstractSendMessageProcessor.buildMsgContext`, `SendMessageProcessor.sendMessage`).
//! Consumers of 5.x trace a message only when it names a region. What only the broker may write is
//! removed in the same walk (`SendMessageProcessor.clearReservedProperties`). Knows no message and no
//! store.

use crate::policy::Broker;
use crate::properties::{self, CLUSTER, MSG_REGION, TRACE_ON};

/// The three properties as text, made once per change of what is decided about the broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stamp {
    text: Box<[u8]>,
}

impl Stamp {
    pub(crate) fn of(broker: &Broker) -> Self {
        let mut text = Vec::new();
        let pairs = [
            (MSG_REGION, broker.region.as_str()),
            (TRACE_ON, if broker.is_traced { "true" } else { "false" }),
            (CLUSTER, broker.cluster.as_str()),
        ];
        for (name, value) in pairs {
            // A pair without a value is none.
            if !value.is_empty() {
                properties::put(name.as_bytes(), value.as_bytes(), &mut text);
            }
        }
        Self { text: text.into() }
    }

    /// Bytes of the text.
    pub(crate) fn len_bytes(&self) -> usize {
        self.text.len()
    }

    /// Puts `text` into `out` as [`properties::rewrite`] does, stamped: region, switch, cluster and
    /// the handle of an earlier pop that the text itself has are removed.
    pub(crate) fn rewrite(
        &self,
        text: &[u8],
        drops: &[&str],
        adds: &[(&str, &[u8])],
        out: &mut Vec<u8>,
    ) {
        out.clear();
        properties::keep(text, drops, adds, is_removed, out);
        out.extend_from_slice(&self.text);
        properties::add(adds, out);
    }
}

fn is_removed(name: &[u8]) -> bool {
    matches!(name, b"MSG_REGION" | b"TRACE_ON" | b"CLUSTER" | b"POP_CK")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamped(broker: &Broker, text: &[u8], drops: &[&str], adds: &[(&str, &[u8])]) -> String {
        let mut out = b"old".to_vec();
        Stamp::of(broker).rewrite(text, drops, adds, &mut out);
        String::from_utf8(out)
            .unwrap()
            .replace('\u{1}', "=")
            .replace('\u{2}', ";")
    }

    #[test]
    fn a_message_is_stamped_behind_its_own_properties() {
        let broker = Broker {
            cluster: "c1".to_owned(),
            ..Broker::default()
        };
        let text = b"TAGS\x01a\x02WAIT\x01true\x02k\x01v";
        let adds: &[(&str, &[u8])] = &[("DELAY", b"3")];
        assert_eq!(
            stamped(&broker, text, &["WAIT"], adds),
            "TAGS=a;k=v;MSG_REGION=DefaultRegion;TRACE_ON=true;CLUSTER=c1;DELAY=3;"
        );
    }

    #[test]
    fn what_a_producer_sets_of_them_is_dropped() {
        let broker = Broker {
            cluster: "c1".to_owned(),
            region: String::new(),
            is_traced: false,
            ..Broker::default()
        };
        let text = b"CLUSTER\x01x\x02TRACE_ON\x01true\x02POP_CK\x010 1\x02MSG_REGION\x01other\x02k\x01v\x02";
        assert_eq!(
            stamped(&broker, text, &[], &[]),
            "k=v;TRACE_ON=false;CLUSTER=c1;"
        );
    }
}
