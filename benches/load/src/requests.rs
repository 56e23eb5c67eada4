//! The requests of a run, made from the command line. Knows no socket.

use std::ops::Range;
use std::time::{SystemTime, UNIX_EPOCH};

use mqcore_record::batch;

use crate::args::{Aim, Produce};
use crate::bodies::Bodies;
use crate::failure::{Failure, Outcome};
use crate::outline::{self, Marks, Outline};

/// What a message of a run carries.
fn marks(args: &Produce) -> Marks {
    Marks {
        has_keys: args.keys,
        has_uniq_keys: args.unique_keys,
        is_half: false,
    }
}

/// The requests to each queue of each topic.
pub(crate) fn outlines(args: &Produce, bodies: &Bodies) -> Outcome<Vec<Outline>> {
    let mut outlines = of_queues(&args.common, marks(args), args.batch > 1)?;
    if let (Bodies::Same(body), 1) = (bodies, args.batch) {
        // The generator must not take what the broker needs: it signs what is sent again and again once.
        outlines.iter_mut().for_each(|outline| outline.seal(body));
    }
    Ok(outlines)
}

/// The half messages for each queue of each topic.
pub(crate) fn halves(common: &Aim) -> Outcome<Vec<Outline>> {
    let marks = Marks {
        has_keys: false,
        has_uniq_keys: true,
        is_half: true,
    };
    of_queues(common, marks, false)
}

fn of_queues(common: &Aim, marks: Marks, is_batch: bool) -> Outcome<Vec<Outline>> {
    let born = SystemTime::now().duration_since(UNIX_EPOCH);
    let born_ms = born.map_or(0, |since| since.as_millis() as i64);
    let header = common.header.into();
    let signer = common.signer();
    let mut outlines = Vec::new();
    // Neighbours in number go to different topics, and then to different queues.
    for queue_id in 0..common.queues {
        for topic in common.topic_names() {
            let outline = Outline::send(
                &topic,
                queue_id,
                marks,
                is_batch,
                born_ms,
                (header, signer.clone()),
            );
            outlines.push(outline.map_err(|error| Failure::Message(error.to_string()))?);
        }
    }
    Ok(outlines)
}

/// The body of a batch request.
pub(crate) fn batch_of(bodies: &Bodies, args: &Produce, numbers: Range<u64>) -> Outcome<Vec<u8>> {
    let mut properties = outline::properties(marks(args)).into_bytes();
    let (key_at, uniq_at) = outline::marks_in(&properties);
    let mut out = Vec::new();
    for number in numbers {
        outline::put_numbers(&mut properties, key_at, uniq_at, number);
        let item = batch::Item {
            flag: 0,
            body: bodies.body(number).unwrap_or_default(),
            properties: &properties,
        };
        batch::encode(&item, &mut out).map_err(|error| Failure::Message(error.to_string()))?;
    }
    Ok(out)
}
