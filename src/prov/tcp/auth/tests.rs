// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Two provers, and changes that a third party may make to the bytes between them.

use super::*;

fn key(text: &str) -> Key {
    Key::given(text.len(), Some(text.as_bytes()), None, 64)
        .unwrap()
        .unwrap()
}

fn context() -> Context {
    let addr = |port| SocketAddr::from(([127, 0, 0, 1], port));
    Context::new(addr(1000), addr(2000), b"request", b"response")
}

fn connecting(text: &str) -> (Prover, Vec<u8>) {
    Prover::connecting(key(text), context(), [1; 32], false)
}

fn accepting(texts: &[&str]) -> Prover {
    let keys = texts.iter().map(|text| key(text)).collect();
    Prover::accepting(keys, context(), [2; 32], false)
}

/// Passes all bytes in the pieces that the prover requests.
fn give(prover: &mut Prover, mut bytes: &[u8]) -> Outcome {
    let mut last = Outcome::Wait;
    while !bytes.is_empty() && last == Outcome::Wait {
        let (now, later) = bytes.split_at(prover.wants().min(bytes.len()));
        last = prover.take(now);
        bytes = later;
    }
    last
}

fn sent(outcome: Outcome) -> Vec<u8> {
    match outcome {
        Outcome::Send(bytes) => bytes,
        other => panic!("{other:?}"),
    }
}

fn refused(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Refused(why, _) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn sides_with_the_same_key_prove_it() {
    let (mut a, hello) = connecting("job 7");
    let mut b = accepting(&["job 7"]);
    let answer = sent(give(&mut b, &hello));
    let Outcome::Proved(of_a, finish) = give(&mut a, &answer) else {
        panic!()
    };
    let Outcome::Proved(of_b, rest) = give(&mut b, &finish) else {
        panic!()
    };
    assert_eq!((of_a, of_b), (key("job 7"), key("job 7")));
    assert!(rest.is_empty());
}

#[test]
fn bytes_may_come_one_by_one() {
    let (mut a, hello) = connecting("k");
    let mut b = accepting(&["k"]);
    let (last, first) = hello.split_last().unwrap();
    for byte in first {
        assert_eq!(b.take(&[*byte]), Outcome::Wait);
    }
    let answer = sent(b.take(&[*last]));
    let (last, first) = answer.split_last().unwrap();
    for byte in first {
        assert_eq!(a.take(&[*byte]), Outcome::Wait);
    }
    assert!(matches!(a.take(&[*last]), Outcome::Proved(..)));
}

#[test]
fn the_accepting_side_finds_the_one_of_its_keys_that_fits() {
    let (mut a, hello) = connecting("two");
    let mut b = accepting(&["one", "two", "three"]);
    let answer = sent(give(&mut b, &hello));
    let Outcome::Proved(_, finish) = give(&mut a, &answer) else {
        panic!()
    };
    assert_eq!(
        give(&mut b, &finish),
        Outcome::Proved(key("two"), Vec::new())
    );
}

#[test]
fn another_key_is_refused_before_the_own_one_is_used() {
    let (mut a, hello) = connecting("job 7");
    for keys in [&["job 8"][..], &[]] {
        let Outcome::Refused(why, refuse) = give(&mut accepting(keys), &hello) else {
            panic!()
        };
        assert_eq!((why, refuse.len()), (OTHER_KEY, BASE_HEADER));
        let told = give(&mut a, &refuse);
        assert_eq!(told, Outcome::Refused(OTHER_KEY, Vec::new()));
        a = connecting("job 7").0;
    }
}

#[test]
fn a_key_with_zero_bytes_behind_it_is_another_key() {
    let (_, hello) = connecting("k");
    assert_eq!(refused(give(&mut accepting(&["k\0"]), &hello)), OTHER_KEY);
}

#[test]
fn the_key_is_not_sent() {
    let text = "a key of some length";
    let (mut a, mut bytes) = connecting(text);
    let mut b = accepting(&[text]);
    let answer = sent(give(&mut b, &bytes));
    let Outcome::Proved(_, finish) = give(&mut a, &answer) else {
        panic!()
    };
    bytes.extend([answer, finish].concat());
    let shown = |part: &[u8]| bytes.windows(part.len()).any(|bytes| bytes == part);
    assert!(!shown(text.as_bytes()) && !shown(&text.as_bytes()[..6]));
}

#[test]
fn each_changed_byte_is_noticed() {
    let (_, hello) = connecting("k");
    let answer = sent(give(&mut accepting(&["k"]), &hello));
    let Outcome::Proved(_, finish) = give(&mut connecting("k").0, &answer) else {
        panic!()
    };
    let same = |at| at == 7; // the number of the header is not looked at
    for (at, _) in hello.iter().enumerate().filter(|(at, _)| !same(*at)) {
        let mut changed = hello.clone();
        changed[at] ^= 1;
        refused(give(&mut accepting(&["k"]), &changed));
    }
    for (at, _) in answer.iter().enumerate().filter(|(at, _)| !same(*at)) {
        let mut changed = answer.clone();
        changed[at] ^= 1;
        refused(give(&mut connecting("k").0, &changed));
    }
    for (at, _) in finish.iter().enumerate().filter(|(at, _)| !same(*at)) {
        let mut changed = finish.clone();
        changed[at] ^= 1;
        let mut b = accepting(&["k"]);
        sent(give(&mut b, &hello));
        refused(give(&mut b, &changed));
    }
}

#[test]
fn proofs_count_on_their_own_connection_only() {
    let addr = |port| SocketAddr::from(([127, 0, 0, 1], port));
    let (_, hello) = connecting("k");
    let others = [
        Context::new(addr(1001), addr(2000), b"request", b"response"),
        Context::new(addr(1000), addr(2001), b"request", b"response"),
        Context::new(addr(2000), addr(1000), b"request", b"response"),
        Context::new(addr(1000), addr(2000), b"requesu", b"response"),
        Context::new(addr(1000), addr(2000), b"request", b"responsf"),
        Context::new(addr(1000), addr(2000), b"request!", b"response"),
        Context::new(addr(1000), addr(2000), b"requestr", b"esponse"),
    ];
    for other in others {
        let mut b = Prover::accepting(vec![key("k")], other, [2; 32], false);
        assert_eq!(refused(give(&mut b, &hello)), OTHER_KEY);
    }
}

#[test]
fn a_connection_that_is_played_again_is_refused() {
    let (mut a, hello) = connecting("k");
    let answer = sent(give(&mut accepting(&["k"]), &hello));
    let Outcome::Proved(_, finish) = give(&mut a, &answer) else {
        panic!()
    };
    // The same bytes are refused even on a connection with the same addresses, because the nonce differs.
    let mut b = Prover::accepting(vec![key("k")], context(), [3; 32], false);
    sent(give(&mut b, &hello));
    assert_eq!(refused(give(&mut b, &finish)), WRONG_PROOF);
    let (mut a, _) = Prover::connecting(key("k"), context(), [4; 32], false);
    assert_eq!(refused(give(&mut a, &answer)), WRONG_PROOF);
}

#[test]
fn a_peer_that_sends_back_what_it_got_proves_nothing() {
    let (mut a, mut hello) = connecting("k");
    refused(give(&mut a, &hello));
    // The hello, changed into an answer.
    let (mut a, _) = connecting("k");
    hello[1] = 29;
    assert_eq!(refused(give(&mut a, &hello)), WRONG_PROOF);
    let (_, hello) = connecting("k");
    let mut b = accepting(&["k"]);
    let answer = sent(give(&mut b, &hello));
    let mut finish = encode_auth(AuthOp::Finish, &[&[0; 32]], 1, false);
    finish[BASE_HEADER..].copy_from_slice(&answer[BASE_HEADER + PROOF..]);
    assert_eq!(refused(give(&mut b, &finish)), WRONG_PROOF);
}

#[test]
fn frames_out_of_turn_are_refused() {
    let frame = |op: AuthOp| {
        let parts = vec![&[0; 32]; op.payload() / PROOF];
        encode_auth(op, &parts, 0, false)
    };
    for op in [AuthOp::Answer, AuthOp::Finish] {
        refused(give(&mut accepting(&["k"]), &frame(op)));
    }
    for op in [AuthOp::Hello, AuthOp::Finish] {
        refused(give(&mut connecting("k").0, &frame(op)));
    }
    let (_, hello) = connecting("k");
    let mut b = accepting(&["k"]);
    sent(give(&mut b, &hello));
    refused(give(&mut b, &hello));
}

#[test]
fn hosts_of_the_other_byte_order_agree() {
    let (mut a, hello) = Prover::connecting(key("k"), context(), [1; 32], true);
    let mut b = Prover::accepting(vec![key("k")], context(), [2; 32], true);
    let answer = sent(give(&mut b, &hello));
    assert!(matches!(give(&mut a, &answer), Outcome::Proved(..)));
    refused(give(&mut accepting(&["k"]), &hello));
}
