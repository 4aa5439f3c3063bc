// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The data of checked messages: digits and letters in a cycle. Each message begins seven characters further on than
//! the one before. Both sides count messages, so a message of another turn is detected.

/// The position of one direction in the sequence of messages.
#[derive(Default)]
pub struct Pattern {
    turn: usize,
}

impl Pattern {
    /// Fills the next message.
    pub fn fill(&mut self, message: &mut [u8]) {
        let letters = self.next();
        for piece in message.chunks_mut(letters.len()) {
            piece.copy_from_slice(&letters[..piece.len()]);
        }
    }

    /// Returns the first difference between a message and its expected data: position, expected and actual byte.
    pub fn check(&mut self, message: &[u8]) -> Option<(usize, u8, u8)> {
        let letters = self.next();
        let mut pieces = message.chunks(letters.len()).enumerate();
        let (count, piece) = pieces.find(|(_, piece)| **piece != letters[..piece.len()])?;
        let mut pairs = letters.into_iter().zip(piece).enumerate();
        let (at, (wanted, found)) = pairs.find(|(_, (wanted, found))| wanted != *found)?;
        Some((count * letters.len() + at, wanted, *found))
    }

    /// The alphabet, rotated to the first letter of the next message.
    fn next(&mut self) -> [u8; 62] {
        let mut letters = *ALPHABET;
        letters.rotate_left(self.turn * STEP % ALPHABET.len());
        self.turn += 1;
        letters
    }
}

const ALPHABET: &[u8; 62] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
const STEP: usize = 7;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_begin_seven_letters_apart() {
        let mut pattern = Pattern::default();
        let mut starts = Vec::new();
        for _ in 0..10 {
            let mut message = [0; 4];
            pattern.fill(&mut message);
            starts.push(String::from_utf8(message.to_vec()).unwrap());
        }
        // Recorded between two processes of other releases.
        let seen = [
            "0123", "789a", "efgh", "lmno", "stuv", "zABC", "GHIJ", "NOPQ", "UVWX", "1234",
        ];
        assert_eq!(starts, seen);
    }

    #[test]
    fn the_first_difference_is_found() {
        let mut message = [0; 100];
        Pattern::default().fill(&mut message);
        assert_eq!(Pattern::default().check(&message), None);
        message[70] = b'?';
        message[80] = b'?';
        assert_eq!(Pattern::default().check(&message), Some((70, b'8', b'?')));
    }

    #[test]
    fn a_message_of_another_turn_differs() {
        let mut message = [0; 8];
        let mut pattern = Pattern::default();
        pattern.fill(&mut message);
        assert_eq!(pattern.check(&message), Some((0, b'7', b'0')));
    }
}
