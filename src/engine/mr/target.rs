// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The memory that one access by a peer covers. A region of several buffers (fi_mr_regv) may have more pieces than one
//! `IoVec` can hold.

use base::IoVec;

/// Pieces of registered memory, in the order of the access.
#[derive(Default)]
pub struct Target {
    iov: IoVec,
    /// The lists behind `iov`: at most one for each segment of the access.
    rest: Option<Box<Target>>,
}

impl From<IoVec> for Target {
    fn from(iov: IoVec) -> Target {
        Target { iov, rest: None }
    }
}

impl Target {
    /// Adds the memory of one segment of the access. The pieces of one segment stay in one list.
    pub fn push(&mut self, segment: IoVec) {
        match &mut self.rest {
            Some(rest) => rest.push(segment),
            None => {
                if let Err(segment) = self.iov.append(segment) {
                    self.rest = Some(Box::new(Target::from(segment)));
                }
            }
        }
    }

    /// The list of the next bytes. It is empty only if no list is left.
    #[inline]
    pub fn current(&mut self) -> &mut IoVec {
        while self.rest.is_some() && self.iov.remaining() == 0 {
            self.advance();
        }
        &mut self.iov
    }

    /// Returns how many of `len` bytes go to the current list. Bytes for which there is no memory at all count, too.
    #[inline]
    pub fn room(&mut self, len: usize) -> usize {
        match self.rest {
            None => len,
            Some(_) => match self.current().remaining() {
                0 => len,
                room => len.min(room),
            },
        }
    }

    /// Returns the list, if there is only one.
    pub fn into_one(self) -> Result<IoVec, Target> {
        match self.rest {
            None => Ok(self.iov),
            Some(_) => Err(self),
        }
    }

    /// Takes the first list.
    pub fn pop(&mut self) -> Option<IoVec> {
        match self.current().remaining() {
            0 => None,
            _ => Some(self.iov.take()),
        }
    }

    #[cold]
    fn advance(&mut self) {
        if let Some(rest) = self.rest.take() {
            *self = *rest;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Registered;

    fn list(lens: &[usize]) -> IoVec {
        let mut iov = IoVec::empty();
        for &len in lens {
            let memory = Registered::leaked(vec![0; len]);
            assert!(iov.push(memory.part(0, len).unwrap()));
        }
        iov
    }

    #[test]
    fn segments_that_fit_are_one_list() {
        let mut target = Target::default();
        target.push(list(&[3, 4]));
        target.push(list(&[5, 6]));
        let iov = target.into_one().ok().unwrap();
        assert_eq!((iov.pieces(), iov.remaining()), (4, 18));
    }

    #[test]
    fn further_segments_have_lists_of_their_own() {
        let mut target = Target::default();
        target.push(list(&[3, 4, 1]));
        target.push(list(&[5, 6]));
        target.push(list(&[7, 7, 7]));
        let mut target = target.into_one().err().unwrap();
        assert_eq!(target.room(100), 8);
        target.current().advance(8);
        assert_eq!((target.room(100), target.room(2)), (11, 2));
        let lens: Vec<_> = std::iter::from_fn(|| target.pop())
            .map(|iov| iov.remaining())
            .collect();
        assert_eq!(lens, [11, 21]);
        assert_eq!((target.room(9), target.current().remaining()), (9, 0));
    }
}
