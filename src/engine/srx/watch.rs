// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Read-only snapshot of a receive context, used by reports.

use core::time::Duration;
use std::time::Instant;

use super::{Envelope, Srx};
use crate::matching::ANY;

use object::ops::transfer::What;

/// A posted receive.
pub struct WaitingReceive {
    pub what: What,
    pub tag: u64,
    pub ignore: u64,
    /// The source that the receive names, if any.
    pub source: Option<u64>,
    pub len: usize,
    /// A time since when the receive has waited at least; none for receives that were posted since the last
    /// `record_time`.
    pub since: Option<Instant>,
}

impl Srx {
    /// Records the current time for the ages of the posted receives.
    pub fn record_time(&mut self, now: Instant) {
        for lane in [&mut self.msg, &mut self.tagged] {
            lane.ages.note(lane.matcher.posted_so_far(), now);
        }
    }

    /// Returns the source and the age of receives that name a source and have waited for `limit`, oldest first, each
    /// once.
    pub fn take_late(&mut self, now: Instant, limit: Duration) -> Vec<(u64, Duration)> {
        let mut late = Vec::new();
        for lane in [&mut self.msg, &mut self.tagged] {
            let mut told = lane.told;
            for asked in lane.matcher.each_asked() {
                let since = lane.ages.since(asked.before);
                let age = since.map(|since| now.saturating_duration_since(since));
                if let Some(age) = age.filter(|age| *age >= limit)
                    && asked.source != ANY
                    && asked.before >= lane.told
                {
                    late.push((asked.source, age));
                    told = asked.before + 1;
                }
            }
            lane.told = told;
        }
        late
    }

    /// Number of posted receives.
    pub fn posted_len(&self) -> usize {
        let lanes = [&self.msg, &self.tagged];
        lanes
            .map(|lane| lane.matcher.each_posted().count())
            .iter()
            .sum()
    }

    /// All posted receives, those without a tag first, each kind by age.
    pub fn waiting(&self) -> impl Iterator<Item = WaitingReceive> {
        let lanes = [(What::Msg, &self.msg), (What::Tagged, &self.tagged)];
        lanes.into_iter().flat_map(|(what, lane)| {
            lane.matcher.each_asked().map(move |asked| WaitingReceive {
                what,
                tag: asked.tag,
                ignore: asked.ignore,
                source: (asked.source != ANY).then_some(asked.source),
                len: asked.recv.iov.remaining(),
                since: lane.ages.since(asked.before),
            })
        })
    }

    /// The messages that no receive has taken.
    pub fn kept(&self) -> impl Iterator<Item = &Envelope> {
        let lanes = [&self.msg, &self.tagged].into_iter();
        lanes.flat_map(|lane| {
            lane.matcher
                .each_unexpected()
                .map(|message| &message.envelope)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::srx::{Bytes, MessageInfo};
    use base::{IoVec, OpFlags};
    use object::ops::transfer::{Context, Rx};

    fn rx(what: What, src: u64, tag: u64, ignore: u64) -> Rx {
        Rx {
            what,
            iov: IoVec::empty(),
            flags: OpFlags::empty(),
            src,
            context: Context::default(),
            tag,
            ignore,
        }
    }

    #[test]
    fn what_waits_is_told_with_its_age() {
        let mut srx = Srx::new();
        let start = Instant::now();
        let mut out = Default::default();
        srx.post(&mut rx(What::Tagged, 3, 0x77, 0xf), true, &mut out)
            .unwrap();
        srx.record_time(start);
        srx.post(&mut rx(What::Tagged, 3, 0x78, 0), false, &mut out)
            .unwrap();
        let waiting: Vec<WaitingReceive> = srx.waiting().collect();
        let said = |one: &WaitingReceive| (one.what, one.source, one.tag | one.ignore, one.since);
        assert_eq!(
            said(&waiting[0]),
            (What::Tagged, Some(3), 0x7f, Some(start))
        );
        assert_eq!(said(&waiting[1]), (What::Tagged, None, 0x78, None));
        assert_eq!((waiting.len(), srx.posted_len()), (2, 2));
        let message = MessageInfo {
            what: What::Msg,
            len: 5,
            tag: 0,
            data: None,
        };
        srx.keep(message.envelope(4, 0, 0), Bytes::There);
        let kept: Vec<u64> = srx.kept().map(|envelope| envelope.source).collect();
        assert_eq!(kept, [4]);
    }
}
