// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Every operation on every type, compared with what the man page's formulas give for small whole numbers.
#![allow(unsafe_code)]

use super::*;
use base::Piece;

const TYPES: u32 = 20;
const OPS: u32 = 20;

/// How a type writes a pair of small whole numbers (of which only complex types have the second).
struct Type {
    datatype: fi_datatype,
    complex: bool,
    signed: bool,
    encode: fn(i64, i64) -> Vec<u8>,
}

fn pair<T: Element<N>, const N: usize>(part: fn(i64) -> T) -> impl Fn(i64, i64) -> Vec<u8> {
    move |re, im| [part(re).bytes(), part(im).bytes()].concat()
}

macro_rules! types {
    ($($datatype:ident $complex:literal $signed:literal $encode:expr;)*) => {
        vec![$(Type { datatype: $datatype, complex: $complex, signed: $signed, encode: $encode }),*]
    };
}

fn types() -> Vec<Type> {
    types![
        FI_INT8 false true |v, _| (v as i8).to_ne_bytes().into();
        FI_UINT8 false false |v, _| (v as u8).to_ne_bytes().into();
        FI_INT16 false true |v, _| (v as i16).to_ne_bytes().into();
        FI_UINT16 false false |v, _| (v as u16).to_ne_bytes().into();
        FI_INT32 false true |v, _| (v as i32).to_ne_bytes().into();
        FI_UINT32 false false |v, _| (v as u32).to_ne_bytes().into();
        FI_INT64 false true |v, _| v.to_ne_bytes().into();
        FI_UINT64 false false |v, _| (v as u64).to_ne_bytes().into();
        FI_INT128 false true |v, _| i128::from(v).to_ne_bytes().into();
        FI_UINT128 false false |v, _| (v as u128).to_ne_bytes().into();
        FI_FLOAT false true |v, _| (v as f32).to_ne_bytes().into();
        FI_DOUBLE false true |v, _| (v as f64).to_ne_bytes().into();
        FI_FLOAT_COMPLEX true true |re, im| pair(|v| v as f32)(re, im);
        FI_DOUBLE_COMPLEX true true |re, im| pair(|v| v as f64)(re, im);
        FI_FLOAT16 false true |v, _| binary16(v).to_ne_bytes().into();
        FI_BFLOAT16 false true |v, _| (((v as f32).to_bits() >> 16) as u16).to_ne_bytes().into();
        FI_FLOAT8_E4M3 false true |v, _| small(v, 3, 7).into();
        FI_FLOAT8_E5M2 false true |v, _| small(v, 2, 15).into();
        FI_LONG_DOUBLE false true |v, _| LongDouble::from(v as f64).bytes().into();
        FI_LONG_DOUBLE_COMPLEX true true |re, im| pair(|v| LongDouble::from(v as f64))(re, im);
    ]
}

/// Sign, exponent with the bias, leading bits of the mantissa, of a number that needs no more of them.
fn parts(value: i64, mantissa: u32, bias: u32) -> (u32, u32, u32) {
    if value == 0 {
        return (0, 0, 0);
    }
    let size = value.unsigned_abs();
    let exponent = size.ilog2();
    let rest = ((size - (1 << exponent)) << mantissa) >> exponent;
    (u32::from(value < 0), exponent + bias, rest as u32)
}

fn binary16(value: i64) -> u16 {
    let (sign, exponent, rest) = parts(value, 10, 15);
    (sign << 15 | exponent << 10 | rest) as u16
}

fn small(value: i64, mantissa: u32, bias: u32) -> [u8; 1] {
    let (sign, exponent, rest) = parts(value, mantissa, bias);
    [(sign << 7 | exponent << mantissa | rest) as u8]
}

/// The formulas of the man page, on whole numbers; nothing where an operation is not for such a type.
fn expected(ty: &Type, op: fi_op, a: [i64; 2], b: [i64; 2], c: [i64; 2]) -> Option<[i64; 2]> {
    let truth = |is: bool| [i64::from(is), 0];
    let is = |v: [i64; 2]| v[0] != 0 || ty.complex && v[1] != 0;
    let integer = ty.datatype.0 <= FI_UINT64.0 || matches!(ty.datatype, FI_INT128 | FI_UINT128);
    let same = |x: [i64; 2], y: [i64; 2]| x[0] == y[0] && (!ty.complex || x[1] == y[1]);
    let pick = |swap: bool| if swap { b } else { a };
    Some(match op {
        FI_SUM => [a[0] + b[0], a[1] + b[1]],
        FI_DIFF => [a[0] - b[0], a[1] - b[1]],
        FI_PROD if ty.complex => [a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]],
        FI_PROD => [a[0] * b[0], 0],
        FI_LOR => truth(is(a) || is(b)),
        FI_LAND => truth(is(a) && is(b)),
        FI_LXOR => truth(is(a) != is(b)),
        FI_ATOMIC_READ => a,
        FI_ATOMIC_WRITE => b,
        FI_CSWAP => pick(same(c, a)),
        FI_CSWAP_NE => pick(!same(c, a)),
        _ if ty.complex => return None,
        FI_MIN => pick(b[0] < a[0]),
        FI_MAX => pick(b[0] > a[0]),
        FI_CSWAP_LE => pick(c[0] <= a[0]),
        FI_CSWAP_LT => pick(c[0] < a[0]),
        FI_CSWAP_GE => pick(c[0] >= a[0]),
        FI_CSWAP_GT => pick(c[0] > a[0]),
        _ if !integer => return None,
        FI_BOR => [a[0] | b[0], 0],
        FI_BAND => [a[0] & b[0], 0],
        FI_BXOR => [a[0] ^ b[0], 0],
        FI_MSWAP => [b[0] & c[0] | a[0] & !c[0], 0],
        _ => return None,
    })
}

fn family_of(op: fi_op) -> Family {
    match op {
        FI_CSWAP | FI_CSWAP_NE | FI_CSWAP_LE | FI_CSWAP_LT | FI_CSWAP_GE | FI_CSWAP_GT
        | FI_MSWAP => Family::Compare,
        _ => Family::Fetch,
    }
}

/// Values small enough that all types have them, and their sums and products.
const VALUES: [i64; 6] = [0, 1, 2, 3, -1, -3];

fn check(ty: &Type, op: fi_op, a: [i64; 2], b: [i64; 2], c: [i64; 2]) {
    let Some(result) = expected(ty, op, a, b, c) else {
        return;
    };
    let encode = |v: [i64; 2]| (ty.encode)(v[0], v[1]);
    // Several elements, of which the second starts in another piece.
    let mut memory = [encode(a), encode(b), encode(a)].concat();
    let size = memory.len() / 3;
    let mut target = IoVec::empty();
    let (first, rest) = memory.split_at_mut(size);
    for part in [first, rest] {
        // SAFETY: the memory outlives the vector.
        assert!(target.push(unsafe { Piece::new(part.as_mut_ptr(), part.len()) }));
    }
    let mut operands = [encode(b), encode(b), encode(b)].concat();
    let compare = [encode(c), encode(c), encode(c)].concat();
    apply(ty.datatype, op, &mut target, &mut operands, &compare);
    let case = format!("{:?} {op:?} {a:?} {b:?} {c:?}", ty.datatype);
    assert!(
        equal(ty, &memory[..size], &encode(result)),
        "{case}: {memory:x?}"
    );
    assert!(equal(ty, &memory[2 * size..], &encode(result)), "{case}");
    assert_eq!(
        operands,
        [encode(a), encode(b), encode(a)].concat(),
        "{case}"
    );
    if let Some(combine) = combine(ty.datatype, op) {
        let mut target = [encode(a), encode(b), encode(a)].concat();
        combine(&mut target, &[encode(b), encode(b), encode(b)].concat());
        for element in [&target[..size], &target[2 * size..]] {
            assert!(equal(ty, element, &encode(result)), "{case}: {target:x?}");
        }
    }
}

/// Operations that collectives can reduce with: fi_collective(3).
const REDUCTIONS: [fi_op; 10] = [
    FI_MIN, FI_MAX, FI_SUM, FI_PROD, FI_LOR, FI_LAND, FI_LXOR, FI_BOR, FI_BAND, FI_BXOR,
];

/// Zeros have a sign, and a long double bytes that mean nothing.
fn equal(ty: &Type, got: &[u8], want: &[u8]) -> bool {
    let mut got = got.to_vec();
    let float = !matches!(ty.datatype.0, 0..=7 | 14 | 15);
    let part = if ty.complex { got.len() / 2 } else { got.len() };
    for part in got.chunks_mut(part) {
        let used = if matches!(ty.datatype, FI_LONG_DOUBLE | FI_LONG_DOUBLE_COMPLEX)
            && cfg!(target_arch = "x86_64")
        {
            10
        } else {
            part.len()
        };
        let zero = part[..used - 1].iter().all(|&b| b == 0) && part[used - 1] & 0x7f == 0;
        if float && zero {
            part.fill(0);
        }
    }
    got == want
}

#[test]
fn every_operation_on_every_type() {
    for ty in types() {
        let values: Vec<i64> = VALUES
            .into_iter()
            .filter(|&v| ty.signed || v >= 0)
            .collect();
        for op in (0..OPS).map(fi_op) {
            for &a in &values {
                for &b in &values {
                    for &c in &values {
                        // Unsigned differences below zero wrap around: another test's.
                        if ty.signed || op != FI_DIFF || a >= b {
                            check(&ty, op, [a, c], [b, 1 - c], [c, a]);
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn what_is_offered_is_what_the_page_lists() {
    let types = types();
    for datatype in (0..TYPES + 2).map(fi_datatype) {
        for op in (0..OPS + 2).map(fi_op) {
            let ty = types.iter().find(|ty| ty.datatype == datatype);
            let size = ty.filter(|ty| expected(ty, op, [1, 1], [1, 1], [1, 1]).is_some());
            let size = size.map(|ty| (ty.encode)(1, 1).len());
            let fetch = size.filter(|_| family_of(op) == Family::Fetch);
            let base = fetch.filter(|_| op != FI_ATOMIC_READ);
            let compare = size.filter(|_| family_of(op) == Family::Compare);
            let found = |family| element_size(family, datatype, op);
            assert_eq!(found(Family::Base), base, "{datatype:?} {op:?}");
            assert_eq!(found(Family::Fetch), fetch, "{datatype:?} {op:?}");
            assert_eq!(found(Family::Compare), compare, "{datatype:?} {op:?}");
            let reduces = size.is_some() && REDUCTIONS.contains(&op);
            let combine = combine(datatype, op);
            assert_eq!(combine.is_some(), reduces, "{datatype:?} {op:?}");
        }
    }
    let none = |datatype, op| element_size(Family::Fetch, datatype, op).is_none();
    assert!(none(FI_VOID, FI_SUM) && none(FI_INT8, FI_NOOP));
}

fn one<const N: usize>(
    datatype: fi_datatype,
    op: fi_op,
    a: [u8; N],
    b: [u8; N],
    c: [u8; N],
) -> [u8; N] {
    let (mut memory, mut operand) = (a, b);
    let mut target = IoVec::empty();
    // SAFETY: the memory outlives the vector.
    assert!(unsafe { target.push(Piece::new(memory.as_mut_ptr(), N)) });
    apply(datatype, op, &mut target, &mut operand, &c);
    assert_eq!(operand, a);
    memory
}

#[test]
fn integers_wrap_and_keep_their_sign() {
    let signed = |op, a: i16, b: i16| {
        i16::from_ne_bytes(one(FI_INT16, op, a.to_ne_bytes(), b.to_ne_bytes(), [0; 2]))
    };
    let unsigned = |op, a: u64, b: u64| {
        u64::from_ne_bytes(one(FI_UINT64, op, a.to_ne_bytes(), b.to_ne_bytes(), [0; 8]))
    };
    assert_eq!(signed(FI_SUM, i16::MAX, 1), i16::MIN);
    assert_eq!(signed(FI_PROD, i16::MIN, -1), i16::MIN);
    assert_eq!(signed(FI_MIN, -1, 1), -1);
    assert_eq!(unsigned(FI_DIFF, 0, 1), u64::MAX);
    assert_eq!(unsigned(FI_PROD, u64::MAX, 2), u64::MAX - 1);
    assert_eq!(unsigned(FI_MIN, u64::MAX, 1), 1);
    let wide = one(
        FI_UINT128,
        FI_SUM,
        u128::from(u64::MAX).to_ne_bytes(),
        1u128.to_ne_bytes(),
        [0; 16],
    );
    assert_eq!(u128::from_ne_bytes(wide), 1 << 64);
}

#[test]
fn what_is_no_number_is_never_less_nor_equal() {
    let nan = f64::NAN.to_ne_bytes();
    let (two, three) = (2f64.to_ne_bytes(), 3f64.to_ne_bytes());
    for op in [FI_MIN, FI_MAX] {
        assert_eq!(one(FI_DOUBLE, op, two, nan, nan), two);
        assert_eq!(one(FI_DOUBLE, op, nan, two, nan), nan);
    }
    for op in [FI_CSWAP, FI_CSWAP_LE, FI_CSWAP_LT, FI_CSWAP_GE, FI_CSWAP_GT] {
        assert_eq!(one(FI_DOUBLE, op, two, three, nan), two);
        assert_eq!(one(FI_DOUBLE, op, nan, three, two), nan);
    }
    assert_eq!(one(FI_DOUBLE, FI_CSWAP_NE, nan, three, nan), three);
    assert_eq!(one(FI_DOUBLE, FI_LAND, nan, two, nan), 1f64.to_ne_bytes());
    let (plus, minus) = (0f32.to_ne_bytes(), (-0f32).to_ne_bytes());
    assert_eq!(
        one(FI_FLOAT, FI_CSWAP, plus, 5f32.to_ne_bytes(), minus),
        5f32.to_ne_bytes()
    );
    assert_eq!(one(FI_FLOAT, FI_LOR, minus, plus, plus), plus);
}

#[test]
fn masked_bits_swap() {
    let result = one(
        FI_UINT8,
        FI_MSWAP,
        [0b1100_1010],
        [0b0011_0101],
        [0b0000_1111],
    );
    assert_eq!(result, [0b1100_0101]);
}
