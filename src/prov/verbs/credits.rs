// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Credits of one endpoint: `object::ops::credits`. An adapter pauses for a while when its peer has no receive for a
//! message. With credits, messages that would find none are refused instead (-FI_EAGAIN).

/// The credits of this side, and the posted receives for which the peer has no credit yet.
pub struct Credits {
    is_enabled: bool,
    /// Number of messages that this side may send. Until credits are enabled, it has no effect.
    available: u64,
    /// Posted receives that were not given to the peer. One of all receives is never given, for a message with credits:
    /// the peer begins with a credit for that one.
    receives: i64,
    threshold: i64,
}

impl Default for Credits {
    fn default() -> Credits {
        Credits {
            is_enabled: false,
            available: 0,
            receives: -1,
            threshold: i64::MAX,
        }
    }
}

impl Credits {
    /// Begins to limit messages. A repeated call changes the threshold only.
    pub fn enable(&mut self, threshold: u64) {
        self.threshold = i64::try_from(threshold).unwrap_or(i64::MAX).max(1);
        if !core::mem::replace(&mut self.is_enabled, true) {
            self.available = self.available.saturating_add(1);
        }
    }

    pub fn add(&mut self, count: u64) {
        self.available = self.available.saturating_add(count);
    }

    /// Whether a message may be sent that uses a receive. Only one that has credits for the peer may use the last
    /// credit: two sides that wait for credits would otherwise wait for ever.
    #[inline]
    pub fn may_send(&self, has_credits: bool) -> bool {
        !self.is_enabled || self.available > u64::from(!has_credits)
    }

    /// Counts a message that uses a receive.
    #[inline]
    pub fn spend(&mut self) {
        if self.is_enabled {
            self.available = self.available.saturating_sub(1);
        }
    }

    /// Counts a posted receive.
    #[inline]
    pub fn posted(&mut self) {
        self.receives = self.receives.saturating_add(1);
    }

    /// Takes the number of posted receives, if the peer should get credits for them now.
    #[inline]
    pub fn take_due(&mut self) -> Option<u64> {
        match self.is_enabled && self.receives >= self.threshold {
            true => u64::try_from(core::mem::take(&mut self.receives)).ok(),
            false => None,
        }
    }

    /// Counts receives again for which the peer got no credits.
    pub fn keep(&mut self, count: u64) {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        self.receives = self.receives.saturating_add(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_limited_before_credits_are_enabled() {
        let mut credits = Credits::default();
        for _ in 0..100 {
            assert!(credits.may_send(false));
            credits.spend();
            credits.posted();
            assert_eq!(credits.take_due(), None);
        }
        credits.add(2);
        // One, and those that came before.
        credits.enable(10);
        assert_eq!(credits.available, 3);
        credits.enable(10);
        assert_eq!(credits.available, 3);
        assert_eq!(credits.take_due(), Some(99));
    }

    #[test]
    fn the_last_credit_is_for_credits() {
        let mut credits = Credits::default();
        credits.enable(1);
        assert!(!credits.may_send(false));
        assert!(credits.may_send(true));
        credits.add(1);
        assert!(credits.may_send(false));
        credits.spend();
        assert!(!credits.may_send(false) && credits.may_send(true));
        credits.spend();
        assert!(!credits.may_send(true));
        credits.spend();
        credits.add(u64::MAX);
        credits.add(u64::MAX);
        assert!(credits.may_send(false));
    }

    #[test]
    fn receives_are_given_at_the_threshold() {
        let mut credits = Credits::default();
        credits.enable(2);
        credits.posted();
        credits.posted();
        assert_eq!(credits.take_due(), None);
        credits.posted();
        assert_eq!(credits.take_due(), Some(2));
        assert_eq!(credits.take_due(), None);
        credits.keep(2);
        credits.posted();
        assert_eq!(credits.take_due(), Some(3));
        credits.keep(u64::MAX);
        credits.posted();
        assert_eq!(credits.take_due(), Some(i64::MAX as u64));
    }

    #[test]
    fn a_threshold_of_nothing_gives_each_receive() {
        let mut credits = Credits::default();
        credits.enable(0);
        credits.posted();
        assert_eq!(credits.take_due(), None);
        credits.posted();
        assert_eq!(credits.take_due(), Some(1));
    }
}
